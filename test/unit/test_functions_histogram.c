/* histogram_quantile and the like over classic and native histograms: by hand from the rules in
 * classic_histogram.c and histogram_stats.c. */
#include "promql_case.h"

static int setup(void **state)
{
    (void)state;
    clear_series();
    return 0;
}

#define QUANTILE "PromQL warning: quantile value should be between 0 and 1, got "
#define FORCED                                                                           \
    "PromQL info: input to histogram_quantile needed to be fixed for monotonicity (see " \
    "https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile) (1:"

static void load_buckets(const char *labels, const char *const *le_and_counts)
{
    char text[200];

    for (const char *const *p = le_and_counts; *p != NULL; p += 2) {
        snprintf(text, sizeof(text), labels, p[0]);
        load(text, 60000, p[1]);
    }
}
#define BUCKETS(labels, ...) load_buckets(labels, (const char *const[]){__VA_ARGS__, NULL})

static void quantiles_of_buckets(void **state)
{
    (void)state;
    BUCKETS("x_bucket{a=\"1\",le=\"%s\"}", "1", "2", "2", "6", "4", "8", "+Inf", "10");
    CHECK_AT(
        0, {"histogram_quantile(0.5, x_bucket)", "{a=\"1\"} 1.75"},
        {"histogram_quantile(0.1, x_bucket)", "{a=\"1\"} 0.5"}, /* from 0 on */
        {"histogram_quantile(0.7, x_bucket)", "{a=\"1\"} 3"},
        {"histogram_quantile(0.9, x_bucket)", "{a=\"1\"} 4"}, /* the last bound there is */
        {"histogram_quantile(1, x_bucket)", "{a=\"1\"} 4"},
        {"histogram_quantile(0, x_bucket)", "{a=\"1\"} 0"},
        {"histogram_quantile(-1, x_bucket)", "{a=\"1\"} -Inf | " QUANTILE "-1 (1:20)"},
        {"histogram_quantile(1.01, x_bucket)", "{a=\"1\"} +Inf | " QUANTILE "1.01 (1:20)"},
        {"histogram_quantile(NaN, x_bucket)", "{a=\"1\"} NaN | " QUANTILE "NaN (1:20)"},
        {"histogram_quantile(0.5, x_bucket{le!=\"+Inf\"})", "{a=\"1\"} NaN"},
        {"histogram_quantile(0.5, x_bucket{le=\"+Inf\"})", "{a=\"1\"} NaN"},
        {"histogram_quantile(0.5, x_bucket * 0)", "{a=\"1\"} NaN"},
        {"histogram_quantile(0.5, nothing)", ""},
        {"histogram_quantile(0.5, x_bucket) + histogram_quantile(0.7, x_bucket)", "{a=\"1\"} 4.75"},
        {"histogram_quantiles(x_bucket, \"q\", 0.5, 1, 0.7)",
         "{a=\"1\", q=\"0.5\"} 1.75; {a=\"1\", q=\"0.7\"} 3; {a=\"1\", q=\"1.0\"} 4"},
        {"histogram_quantiles(x_bucket, \"q\", 0.5, 0.5)",
         "error: vector cannot contain metrics with the same labelset"});
    CHECK_RANGE(0, 60000, 60000, {"histogram_quantile(time() / 600, x_bucket)", "{a=\"1\"} 0 0.5"},
                {"histogram_quantiles(x_bucket, \"q\", time() / 600, 0.5)",
                 "{a=\"1\", q=\"0.0\"} 0 _; {a=\"1\", q=\"0.1\"} _ 0.5; {a=\"1\", q=\"0.5\"} 1.75 "
                 "1.75"});
}

static void groups_buckets(void **state)
{
    (void)state;
    BUCKETS("x_bucket{a=\"1\",le=\"%s\"}", "1", "2", "+Inf", "2");
    BUCKETS("x_bucket{a=\"2\",le=\"%s\"}", "2", "4", "Inf", "4");
    CHECK_AT(0, {"histogram_quantile(0.5, x_bucket)", "{a=\"1\"} 0.5; {a=\"2\"} 1"},
             {"histogram_quantile(0.5, sum by (le) (x_bucket{a=\"1\"}))", "{} 0.5"});
    /* Bounds that are the same number are one. */
    load("x_bucket{a=\"2\",le=\"2.0\"}", 60000, "2");
    load("x_bucket{a=\"2\",le=\"+Inf\"}", 60000, "5");
    CHECK_AT(0, {"histogram_quantile(0.5, x_bucket{a=\"2\"})", "{a=\"2\"} 1.5"});
    /* Two names that come to one. */
    BUCKETS("y_bucket{a=\"1\",le=\"%s\"}", "1", "2", "+Inf", "2");
    CHECK_AT(0, {"histogram_quantile(0.5, {__name__=~\"._bucket\",a=\"1\"})",
                 "error: vector cannot contain metrics with the same labelset"});
}

static void odd_buckets(void **state)
{
    (void)state;
#define BOUND(of)                                                                      \
    "PromQL warning: bucket label \"le\" is missing or has a malformed value of \"" of \
    "\" for metric name \"bad\" (1:25)"
    BUCKETS("neg_bucket{le=\"%s\"}", "-2", "3", "-1", "7", "0", "12", "+Inf", "12");
    BUCKETS("down_bucket{le=\"%s\"}", "1", "2", "2", "6", "4", "5", "+Inf", "8");
    BUCKETS("near_bucket{le=\"%s\"}", "1", "2", "2", "6.0000000000000009", "+Inf", "6");
    load("bad{le=\"one\"}", 60000, "1");
    load("bad{a=\"1\"}", 60000, "1");
    load("bad{le=\" 1\"}", 60000, "1");
    load("bad{le=\"1e999\"}", 60000, "1");
    CHECK_AT(0, {"histogram_quantile(0.1, neg_bucket)", "{} -2"},
             {"histogram_quantile(0.5, neg_bucket)", "{} -1.25"},
             {"histogram_quantile(0.9, neg_bucket)", "{} -0.24"},
             {"histogram_quantile(0.9, down_bucket)", "{} 4 | " FORCED "25)"},
             {"histogram_quantile(0.75, down_bucket)", "{} 2 | " FORCED "26)"},
             {"histogram_quantile(0.5, near_bucket)", "{} 1.25"}, /* of rounding, so not told */
             {"histogram_quantile(0.5, bad)",
              " | " BOUND("") " | " BOUND(" 1") " | " BOUND("1e999") " | " BOUND("one")});
}

static void fractions_of_buckets(void **state)
{
    (void)state;
    BUCKETS("x_bucket{le=\"%s\"}", "1", "2", "2", "6", "4", "8", "+Inf", "10");
    BUCKETS("neg_bucket{le=\"%s\"}", "-1", "7", "0", "12", "+Inf", "14");
    CHECK_AT(0, {"histogram_fraction(0, 2, x_bucket)", "{} 0.6"},
             {"histogram_fraction(1, 3, x_bucket)", "{} 0.5"},
             {"histogram_fraction(-5, 0.5, x_bucket)", "{} 0.1"},
             {"histogram_fraction(-Inf, Inf, x_bucket)", "{} 1"},
             {"histogram_fraction(2, 5, x_bucket)", "{} 0.2"}, /* none of the last one */
             {"histogram_fraction(5, Inf, x_bucket)", "{} 0.2"},
             {"histogram_fraction(2, 1, x_bucket)", "{} 0"},
             {"histogram_fraction(NaN, 1, x_bucket)", "{} NaN"},
             {"histogram_fraction(0, 1, x_bucket * 0)", "{} NaN"},
             {"histogram_fraction(0, 1, x_bucket{le=\"1\"})", "{} NaN"},
             {"histogram_fraction(-3, -1, neg_bucket)", "{} 0"}, /* all of the first are below */
             {"histogram_fraction(-1, 0, neg_bucket) * 14", "{} 5"});
}

static struct prom_histogram *native(double zero, double a, double b, double sum, double nans)
{
    struct prom_histogram *h = histogram_new(0, 1, 2, 0, 0);

    h->zero_threshold = 0.5;
    h->zero_count = zero;
    h->positive.counts[0] = a;
    h->positive.counts[1] = b;
    h->count = zero + a + b + nans;
    h->sum = nans > 0 ? (double)NAN : sum;
    return h;
}

static void native_histograms(void **state)
{
    struct test_series *s = add_series("h{a=\"1\"}");

    (void)state;
    add_point(s, 0, 0, native(2, 4, 2, 12, 0));
    load("h{a=\"2\"}", 60000, "5");
    CHECK_AT(0, {"histogram_count(h)", "{a=\"1\"} 8"}, {"histogram_sum(h)", "{a=\"1\"} 12"},
             {"histogram_avg(h)", "{a=\"1\"} 1.5"},
             {"histogram_quantile(0.5, h{a=\"1\"})", "{a=\"1\"} 1.4142135623730951"},
             {"histogram_quantile(0.125, h{a=\"1\"})", "{a=\"1\"} 0.25"},
             {"histogram_quantile(2, h{a=\"1\"})", "{a=\"1\"} +Inf | " QUANTILE "2 (1:20)"},
             {"histogram_fraction(0, 2, h{a=\"1\"})", "{a=\"1\"} 0.75"},
             /* At 0 twice, at sqrt(2) four times, at sqrt(8) twice, from a mean of 1.5. */
             {"histogram_stdvar(h)", "{a=\"1\"} 1.007359312880715"},
             {"histogram_stddev(h) ^ 2", "{a=\"1\"} 1.007359312880715"},
             {"histogram_quantiles(h{a=\"1\"}, \"q\", 0.5, 0.125)",
              "{a=\"1\", q=\"0.125\"} 0.25; {a=\"1\", q=\"0.5\"} 1.4142135623730951"});
    /* Observations of NaN. */
    s = add_series("n");
    add_point(s, 0, 0, native(0, 4, 4, 0, 2));
#define HAS_NANS(f) "PromQL info: input to " f " has NaN observations, "
    CHECK_AT(0,
             {"histogram_quantile(0.4, n)",
              "{} 2 | " HAS_NANS("histogram_quantile") "result is skewed higher (1:20)"},
             {"histogram_quantile(0.9, n)",
              "{} NaN | " HAS_NANS("histogram_quantile") "result is NaN (1:20)"},
             {"histogram_fraction(-Inf, Inf, n)",
              "{} 0.8 | " HAS_NANS("histogram_fraction") "which are excluded from all fractions "
                                                         "(1:20)"});
}

/* At 0 the native one only, at 1 m both, at 2 m the buckets only. */
static void mixed_histograms(void **state)
{
    struct test_series *s = add_series("x{a=\"1\"}");

    (void)state;
    add_point(s, 0, 0, native(0, 4, 4, 0, 0));
    add_point(s, 60000, 0, native(0, 4, 4, 0, 0));
    add_point(s, 120000, prom_stale(), NULL);
    BUCKETS("x{a=\"1\",le=\"%s\"}", "1", "_ 2 2", "+Inf", "_ 2 2");
    CHECK_RANGE(0, 120000, 60000,
                {"histogram_quantile(0.5, x)",
                 "{a=\"1\"} 2 _ 0.5 | PromQL warning: vector contains a mix of classic and native "
                 "histograms for metric name \"x\" (1:25)"},
                {"histogram_fraction(0, 1, x)",
                 "{a=\"1\"} 0 _ 1 | PromQL warning: vector contains a mix of classic and native "
                 "histograms for metric name \"x\" (1:26)"},
                {"histogram_quantile(0.5, x + x)", /* no name, no series of that name to tell of */
                 "{a=\"1\"} 2 _ 0.5 | PromQL warning: vector contains a mix of classic and native "
                 "histograms (1:25)"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(quantiles_of_buckets, setup, setup),
        cmocka_unit_test_setup_teardown(groups_buckets, setup, setup),
        cmocka_unit_test_setup_teardown(odd_buckets, setup, setup),
        cmocka_unit_test_setup_teardown(fractions_of_buckets, setup, setup),
        cmocka_unit_test_setup_teardown(native_histograms, setup, setup),
        cmocka_unit_test_setup_teardown(mixed_histograms, setup, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
