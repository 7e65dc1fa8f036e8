/* The <aggregation>_over_time functions, deriv, predict_linear and smoothing: expected values by
 * hand, or by exact arithmetic where that is what is promised. */
#include "promql_case.h"
#include "query/number.h"

#include "random.h"

static int setup(void **state)
{
    (void)state;
    clear_series();
    return 0;
}

#define IGNORED                                                                                    \
    "PromQL info: ignored histograms in a range containing both floats and histograms for metric " \
    "name \"x\" (1:"

/* The window of [1m] at 60 s, (0, 60], leaves out what is at 0. */
static void plain_ones(void **state)
{
    (void)state;
    load("x", 10000, "99 4 1 3 _ 2 5");
    CHECK_AT(60000, {"sum_over_time(x[1m])", "{} 15"}, {"avg_over_time(x[1m])", "{} 3"},
             {"min_over_time(x[1m])", "{} 1"}, {"max_over_time(x[1m])", "{} 5"},
             {"count_over_time(x[1m])", "{} 5"}, {"present_over_time(x[1m])", "{} 1"},
             {"last_over_time(x[1m])", "x 5"}, {"first_over_time(x[1m])", "x 4"},
             {"stdvar_over_time(x[1m])", "{} 2"},
             {"stddev_over_time(x[1m])", "{} 1.4142135623730951"},
             {"quantile_over_time(0.5, x[1m])", "{} 3"}, {"mad_over_time(x[1m])", "{} 1"},
             {"ts_of_min_over_time(x[1m])", "{} 20"}, {"ts_of_max_over_time(x[1m])", "{} 60"},
             {"ts_of_first_over_time(x[1m])", "{} 10"}, {"ts_of_last_over_time(x[1m])", "{} 60"},
             {"sum_over_time(x[30s] offset 30s)", "{} 8"}, {"sum_over_time(x[1m] @ 0)", "{} 99"});
    CHECK_RANGE(20000, 50000, 10000, {"sum_over_time(x[20s])", "{} 5 4 3 2"});
}

static void special_values(void **state)
{
    (void)state;
    load("x{a=\"nan\"}", 10000, "_ NaN 2 NaN 7 2");
    load("x{a=\"none\"}", 10000, "_ NaN NaN");
    load("x{a=\"inf\"}", 10000, "_ 1 Inf 3");
    load("x{a=\"both\"}", 10000, "_ 1 Inf -Inf 3");
    load("x{a=\"stale\"}", 10000, "_ 1 stale 3 stale");
    CHECK_AT(60000, {"min_over_time(x{a=~\"n.*\"}[1m])", "{a=\"nan\"} 2; {a=\"none\"} NaN"},
             {"max_over_time(x{a=~\"n.*\"}[1m])", "{a=\"nan\"} 7; {a=\"none\"} NaN"},
             {"ts_of_min_over_time(x{a=\"nan\"}[1m])", "{a=\"nan\"} 50"}, /* the last of equals */
             {"sum_over_time(x[1m])",
              "{a=\"both\"} NaN; {a=\"inf\"} +Inf; {a=\"nan\"} NaN; {a=\"none\"} "
              "NaN; {a=\"stale\"} 4"},
             {"avg_over_time(x[1m])",
              "{a=\"both\"} NaN; {a=\"inf\"} +Inf; {a=\"nan\"} NaN; {a=\"none\"} "
              "NaN; {a=\"stale\"} 2"},
             /* NaN is the least: NaN NaN 2 2 7. */
             {"quantile_over_time(0.5, x{a=\"nan\"}[1m])", "{a=\"nan\"} 2"},
             {"quantile_over_time(0.3, x{a=\"nan\"}[1m])", "{a=\"nan\"} NaN"},
             {"stdvar_over_time(x{a=\"inf\"}[1m])", "{a=\"inf\"} NaN"});
}

static void sums_lose_nothing(void **state)
{
    (void)state;
    load("x{a=\"big\"}", 10000, "_ 1e100 1 -1e100 1");
    load("x{a=\"tenth\"}", 10000, "_ .1 .1 .1 .1 .1 .1 .1 .1 .1 .1");
    load("x{a=\"over\"}", 10000, "_ 1e308 1e308 1e308 1e308");
    load("x{a=\"far\"}", 10000, "_ 1e9 1000000001 1000000002");
    CHECK_AT(100000, {"sum_over_time(x{a=\"big\"}[5m])", "{a=\"big\"} 2"},
             {"avg_over_time(x{a=\"big\"}[5m])", "{a=\"big\"} 0.5"},
             {"sum_over_time(x{a=\"tenth\"}[5m]) == 1", "{a=\"tenth\"} 1"},
             {"avg_over_time(x{a=\"over\"}[5m]) == 1e308", "{a=\"over\"} 1e308"},
             {"sum_over_time(x{a=\"over\"}[5m])", "{a=\"over\"} +Inf"},
             {"stdvar_over_time(x{a=\"far\"}[5m])", "{a=\"far\"} 0.6666666666666666"});
}

static void quantiles_interpolate(void **state)
{
    (void)state;
#define QUANTILE "PromQL warning: quantile value should be between 0 and 1, got "
    load("x", 10000, "_ 4 1 3 2");
    CHECK_AT(60000, {"quantile_over_time(0, x[1m])", "{} 1"},
             {"quantile_over_time(1, x[1m])", "{} 4"}, {"quantile_over_time(0.5, x[1m])", "{} 2.5"},
             {"quantile_over_time(0.9, x[1m])", "{} 3.7"},
             {"quantile_over_time(-1, x[1m])", "{} -Inf | " QUANTILE "-1 (1:20)"},
             {"quantile_over_time(1.5, x[1m])", "{} +Inf | " QUANTILE "1.5 (1:20)"},
             {"quantile_over_time(1e6, x[1m])", "{} +Inf | " QUANTILE "1e+06 (1:20)"},
             {"quantile_over_time(NaN, x[1m])", "{} NaN | " QUANTILE "NaN (1:20)"},
             {"quantile_over_time(2, nothing[1m])", ""});
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    if (isnan(x) || isnan(y))
        return (isnan(y) ? 1 : 0) - (isnan(x) ? 1 : 0);
    return (x > y) - (x < y);
}

/* Against sorting, of random lists with equals, NaN and infinities among them. */
static void quantiles_agree_with_sorting(void **state)
{
    (void)state;
    for (int round = 0; round < 20000; round++) {
        double v[40], sorted[40], q = random_below(101) / 100.0, want, rank, low, got;
        size_t n = 1 + random_below(40);

        for (size_t i = 0; i < n; i++) {
            const unsigned kind = random_below(12);

            v[i] = kind == 0   ? (double)NAN
                   : kind == 1 ? (double)INFINITY
                   : kind == 2 ? -(double)INFINITY
                               : (double)random_below(round % 2 ? 8 : 1000);
        }
        memcpy(sorted, v, sizeof(v));
        qsort(sorted, n, sizeof(*sorted), by_value);
        rank = q * (double)(n - 1);
        low = floor(rank);
        want = sorted[(size_t)low] * (1 - (rank - low)) +
               sorted[low + 1 < (double)n ? (size_t)low + 1 : n - 1] * (rank - low);
        got = number_quantile(q, v, n);
        if (got != want && !(isnan(got) && isnan(want)))
            fail_msg("quantile %g of %zu: %g, not %g", q, n, got, want);
    }
}

static void lines(void **state)
{
    (void)state;
    load("x{a=\"up\"}", 10000, "_ 1 2 3 4 5 6");
    load("x{a=\"flat\"}", 10000, "_ 0.1 0.1 0.1 0.1");
    load("x{a=\"inf\"}", 10000, "_ Inf Inf Inf");
    load("x{a=\"one\"}", 10000, "_ 7");
    load("x{a=\"bent\"}", 10000, "_ 0 0 3");
    /* bent: of (0, 0) (10, 0) (20, 3) the slope is 30 / 200, the middle is (10, 1). */
    CHECK_AT(60000,
             {"deriv(x[1m])", "{a=\"bent\"} 0.15; {a=\"flat\"} 0; {a=\"inf\"} NaN; {a=\"up\"} 0.1"},
             {"predict_linear(x[1m], 40)",
              "{a=\"bent\"} 13; {a=\"flat\"} 0.1; {a=\"inf\"} NaN; {a=\"up\"} 10"},
             {"predict_linear(x{a=\"up\"}[30s] offset 30s, 0)", "{a=\"up\"} 6"},
             {"predict_linear(x{a=\"up\"}[1m], time())", "{a=\"up\"} 12"});
}

/* What does not change has no slope, whatever the rounding of its sums. */
static void constants_are_flat(void **state)
{
    struct test_series *s = add_series("x");

    (void)state;
    for (int i = 1; i <= 50; i++)
        add_point(s, i * 7001, 1e15 + 0.3, NULL);
    CHECK_AT(360000, {"deriv(x[10m])", "{} 0"}, {"predict_linear(x[10m], 1e9) - x", "{} 0"});
}

static void smooths(void **state)
{
    (void)state;
    load("x", 10000, "_ 1 3 4");
    /* level 1, trend 2; 0.5 * 3 + 0.5 * (1 + 2) = 3; trend 0.5 * 2 + 0.5 * 2 = 2; then
     * 0.5 * 4 + 0.5 * (3 + 2) = 4.5. */
    CHECK_AT(60000, {"double_exponential_smoothing(x[1m], 0.5, 0.5)", "{} 4.5"},
             {"holt_winters(x[1m], 0.5, 0.5)", "{} 4.5"}, {"holt_winters(x[10s], 0.5, 0.5)", ""},
             {"holt_winters(x[1m], 1, 0.5)",
              "error: invalid smoothing factor. Expected: 0 < sf < 1, got: 1.000000"},
             {"holt_winters(x[1m], 0.5, 0)",
              "error: invalid trend factor. Expected: 0 < tf < 1, got: 0.000000"});
}

static struct prom_histogram *histogram(double a, double sum, enum reset_hint hint)
{
    struct prom_histogram *h = histogram_new(0, 1, 1, 0, 0);

    h->positive.counts[0] = h->count = a;
    h->sum = sum;
    h->hint = hint;
    return h;
}

static void histograms(void **state)
{
    struct test_series *s = add_series("x");

    (void)state;
    add_point(s, 10000, 0, histogram(2, 3, RESET_NO));
    add_point(s, 20000, 0, histogram(4, 5, RESET_NO));
    CHECK_AT(20000, {"sum_over_time(x[1m])", "{} {count:6, sum:8, (1,2]:6}"},
             {"avg_over_time(x[1m])", "{} {count:3, sum:4, (1,2]:3}"},
             {"count_over_time(x[1m])", "{} 2"}, {"present_over_time(x[1m])", "{} 1"},
             {"last_over_time(x[1m])", "x {count:4, sum:5, (1,2]:4}"},
             {"first_over_time(x[1m])", "x {count:2, sum:3, (1,2]:2}"},
             {"ts_of_last_over_time(x[1m])", "{} 20"}, {"min_over_time(x[1m])", ""},
             {"quantile_over_time(2, x[1m])", ""}, {"deriv(x[1m])", ""},
             {"stddev_over_time(x[1m])", ""});
    /* A mix: sums refuse, others look at the floats. */
    add_point(s, 30000, 7, NULL);
    add_point(s, 40000, 9, NULL);
#define MIX "PromQL warning: encountered a mix of histograms and floats for metric name \"x\" (1:"
    CHECK_AT(40000, {"sum_over_time(x[1m])", " | " MIX "15)"},
             {"avg_over_time(x[1m])", " | " MIX "15)"},
             {"min_over_time(x[1m])", "{} 7 | " IGNORED "15)"},
             {"max_over_time(x[1m])", "{} 9 | " IGNORED "15)"},
             {"ts_of_max_over_time(x[1m])", "{} 40 | " IGNORED "21)"},
             {"stdvar_over_time(x[1m])", "{} 1 | " IGNORED "18)"},
             {"quantile_over_time(0.5, x[1m])", "{} 8 | " IGNORED "20)"},
             {"mad_over_time(x[1m])", "{} 1 | " IGNORED "15)"},
             {"deriv(x[1m])", "{} 0.2 | " IGNORED "7)"},
             {"predict_linear(x[1m], 10)", "{} 11 | " IGNORED "16)"},
             {"holt_winters(x[1m], 0.5, 0.5)", "{} 9 | " IGNORED "14)"},
             {"count_over_time(x[1m])", "{} 4"}, {"last_over_time(x[1m])", "x 9"});
    CHECK_AT(30000, {"deriv(x[1m])", " | " IGNORED "7)"});
    clear_series();
    s = add_series("x");
    add_point(s, 10000, 0, histogram(2, 3, RESET_NO));
    add_point(s, 20000, 0, histogram(4, 5, RESET_YES));
    CHECK_AT(20000,
             {"sum_over_time(x[1m])",
              "{} {count:6, sum:8, (1,2]:6} | PromQL warning: conflicting counter resets during "
              "histogram aggregation (1:15)"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(plain_ones, setup, setup),
        cmocka_unit_test_setup_teardown(special_values, setup, setup),
        cmocka_unit_test_setup_teardown(sums_lose_nothing, setup, setup),
        cmocka_unit_test_setup_teardown(quantiles_interpolate, setup, setup),
        cmocka_unit_test(quantiles_agree_with_sorting),
        cmocka_unit_test_setup_teardown(lines, setup, setup),
        cmocka_unit_test_setup_teardown(constants_are_flat, setup, setup),
        cmocka_unit_test_setup_teardown(smooths, setup, setup),
        cmocka_unit_test_setup_teardown(histograms, setup, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
