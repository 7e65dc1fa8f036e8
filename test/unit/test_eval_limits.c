/* What a query may use, and that it ends when it must: samples, series, memory, time, its client.
 */
#include "otlite/clock.h"
#include "promql_case.h"

enum { SERIES = 200, SAMPLES = 100 };

/* Counters each 10 s, and two histograms. */
static int setup(void **state)
{
    (void)state;
    clear_series();
    for (int i = 0; i < SERIES; i++) {
        char labels[64];
        struct test_series *s;

        snprintf(labels, sizeof(labels), "x_total{i=\"%d\", g=\"%d\"}", i, i % 2);
        s = add_series(labels);
        for (int k = 0; k < SAMPLES; k++)
            add_point(s, 10000 * k, k, NULL);
    }
    for (int i = 0; i < 2; i++) {
        struct test_series *s = add_series(i == 0 ? "h{i=\"0\"}" : "h{i=\"1\"}");

        for (int k = 0; k < SAMPLES; k++) {
            struct prom_histogram *h = histogram_new(0, 1, 160, 0, 0);

            assert_non_null(h);
            h->positive.counts[0] = 1;
            h->positive.counts[159] = 1;
            add_point(s, 10000 * k, 0, h);
        }
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    clear_series();
    return 0;
}

struct limits {
    uint64_t samples, series;
    size_t bytes;
};

/* Over the steps of all samples. */
static enum otl_err with_limits(const char *text, struct limits l, char *msg, size_t n)
{
    struct evaluation x;
    enum otl_err rc;

    evaluation_init(&x, 0, 10000 * (SAMPLES - 1), 10000);
    x.opts.max_samples = l.samples;
    x.opts.max_series = l.series;
    x.read.limits.max_bytes = l.bytes;
    evaluation_run(&x, text);
    rc = x.rc;
    snprintf(msg, n, "%s", x.err.msg);
    evaluation_end(&x);
    return rc;
}

static void check(const char *text, struct limits enough, struct limits too_few, const char *said)
{
    char msg[512];

    assert_int_equal(with_limits(text, enough, msg, sizeof(msg)), OTL_OK);
    assert_int_equal(with_limits(text, too_few, msg, sizeof(msg)), OTL_ETOOBIG);
    if (strstr(msg, said) == NULL)
        fail_msg("%s: %s", text, msg);
}

/* Rows of 100 steps each count. */
static void samples_that_are_held(void **state)
{
#define TOO_MANY "query processing would load too many samples into memory in query execution"
    (void)state;
    check("x_total", (struct limits){.samples = SERIES * SAMPLES},
          (struct limits){.samples = SERIES * SAMPLES - 1}, TOO_MANY);
    /* The same series on both sides, and the result. */
    check("x_total * x_total", (struct limits){.samples = 3 * SERIES * SAMPLES},
          (struct limits){.samples = 3 * SERIES * SAMPLES - 1}, TOO_MANY);
    /* What a filter drops has no row. */
    check("x_total > x_total", (struct limits){.samples = 2 * SERIES * SAMPLES},
          (struct limits){.samples = 2 * SERIES * SAMPLES - 1}, TOO_MANY);
}

/* A sum over a function takes the rows one by one: of all that there are two at most. */
static void sums_stream(void **state)
{
    (void)state;
    check("sum by (g) (rate(x_total[1m]))", (struct limits){.samples = 4 * SAMPLES},
          (struct limits){.samples = SAMPLES - 1}, TOO_MANY);
    check("count(abs(-(x_total * 2 + 1) > 0))", (struct limits){.samples = 6 * SAMPLES},
          (struct limits){.samples = SAMPLES - 1}, TOO_MANY);
}

static void series_of_a_selector(void **state)
{
    (void)state;
    check("sum(x_total)", (struct limits){.series = SERIES}, (struct limits){.series = SERIES - 1},
          "a selector matches 200 series, more than query.max_series, 199: add matchers to it");
}

static void memory(void **state)
{
    const size_t rows = SERIES * SAMPLES * sizeof(double);

    (void)state;
    check("x_total", (struct limits){.bytes = rows}, (struct limits){.bytes = rows - 1},
          "raise query.max_memory");
    /* 160 buckets of 8 bytes in each of 200 histograms, which floats' columns are little beside. */
    check("h", (struct limits){.bytes = 400000}, (struct limits){.bytes = 200 * 160 * 8},
          "raise query.max_memory");
    check("sum by (i) (h)", (struct limits){.bytes = 800000},
          (struct limits){.bytes = 200 * 160 * 8}, "raise query.max_memory");
    check("h * 2 - h", (struct limits){.bytes = 1200000}, (struct limits){.bytes = 600 * 160 * 8},
          "raise query.max_memory");
}

/* Scalars are columns too: these would fill gigabytes. */
static void scalars_and_steps(void **state)
{
    static const char *const huge[] = {
        "sum_over_time(vector(1)[10y:1ms])", "sum_over_time(vector(time() + 1)[10y:1ms])",
        "max_over_time(vector(scalar(x_total))[10y:1ms])", "count_over_time(x_total[10y:1ms])",
        "absent_over_time(vector(1)[10y:1ms])"};
    char msg[512];

    (void)state;
    for (size_t i = 0; i < sizeof(huge) / sizeof(huge[0]); i++) {
        assert_int_equal(
            with_limits(huge[i], (struct limits){.samples = 50000000}, msg, sizeof(msg)),
            OTL_ETOOBIG);
        assert_int_equal(with_limits(huge[i], (struct limits){.bytes = 1 << 28}, msg, sizeof(msg)),
                         OTL_ETOOBIG);
    }
}

/* ---- ends ---- */

static const char *const endings[] = {
    "x_total",
    "sum by (g) (rate(x_total[1m]))",
    "x_total * on (i) group_left x_total",
    "x_total or x_total",
    "topk(3, x_total)",
    "quantile(0.5, x_total)",
    "count_values(\"v\", x_total)",
    "limit_ratio(0.5, x_total)",
    "max_over_time(x_total[5m:10s])",
    "label_replace(x_total, \"a\", \"b\", \"c\", \"d\")",
    "h * 2",
    "absent(x_total)",
    "1 + 1",
    "x_total + 1",
};

static enum otl_err ended(const char *text, const atomic_bool *cancel, int64_t deadline_ns)
{
    struct evaluation x;
    enum otl_err rc;

    evaluation_init(&x, 0, 10000 * (SAMPLES - 1), 10000);
    x.read.limits.cancel = cancel;
    x.read.limits.deadline_ns = deadline_ns;
    evaluation_run(&x, text);
    rc = x.rc;
    evaluation_end(&x);
    return rc;
}

static void a_client_that_is_gone_ends_it(void **state)
{
    static const atomic_bool gone = true, there = false;

    (void)state;
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        if (ended(endings[i], &gone, 0) != OTL_ECANCELLED || ended(endings[i], &there, 0) != OTL_OK)
            fail_msg("%s", endings[i]);
    }
}

static void a_deadline_ends_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        if (ended(endings[i], NULL, clock_mono_ns() - 1) != OTL_ELATE)
            fail_msg("%s", endings[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_that_are_held), cmocka_unit_test(sums_stream),
        cmocka_unit_test(series_of_a_selector),  cmocka_unit_test(memory),
        cmocka_unit_test(scalars_and_steps),     cmocka_unit_test(a_client_that_is_gone_ends_it),
        cmocka_unit_test(a_deadline_ends_it),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
