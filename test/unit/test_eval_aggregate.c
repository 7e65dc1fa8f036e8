/* Aggregations: expected values by hand from Prometheus 3, "Operators". */
#include "promql_case.h"

static int setup(void **state)
{
    (void)state;
    clear_series();
    return 0;
}

static void groups(void **state)
{
    (void)state;
    load("x{a=\"1\", b=\"1\"}", 10000, "1 2 3");
    load("x{a=\"1\", b=\"2\"}", 10000, "10 stale 30");
    load("x{a=\"2\", b=\"1\"}", 10000, "stale 7 stale");
    CHECK_RANGE(0, 20000, 10000, {"sum(x)", "{} 11 9 33"},
                {"sum by (a) (x)", "{a=\"1\"} 11 2 33; {a=\"2\"} _ 7 _"},
                {"sum by (a, b) (x)",
                 "{a=\"1\", b=\"1\"} 1 2 3; {a=\"1\", b=\"2\"} 10 _ 30; {a=\"2\", b=\"1\"} _ 7 _"},
                {"sum by (nothing) (x)", "{} 11 9 33"}, {"sum by () (x)", "{} 11 9 33"},
                {"sum by (__name__) (x)", "x 11 9 33"},
                {"sum without (b) (x)", "{a=\"1\"} 11 2 33; {a=\"2\"} _ 7 _"},
                {"sum without () (x{a=\"2\"})", "{a=\"2\", b=\"1\"} _ 7 _"},
                {"sum(x) by (b)", "{b=\"1\"} 1 9 3; {b=\"2\"} 10 _ 30"},
                {"avg by (b) (x)", "{b=\"1\"} 1 4.5 3; {b=\"2\"} 10 _ 30"}, {"min(x)", "{} 1 2 3"},
                {"max(x)", "{} 10 7 30"}, {"count(x)", "{} 2 2 2"}, {"group(x)", "{} 1 1 1"},
                {"count(nothing)", ""}, {"sum(sum by (a) (x))", "{} 11 9 33"}, {"sum(x > 100)", ""},
                {"count(x) by (a) > 1", "{a=\"1\"} 2 _ 2"});
}

static void odd_numbers(void **state)
{
    (void)state;
    load("n{i=\"1\"}", 10000, "NaN NaN 1e308 Inf -0");
    load("n{i=\"2\"}", 10000, "NaN 2 1e308 -Inf stale");
    load("n{i=\"3\"}", 10000, "NaN -3 1e308 1 stale");
    /* The sum of three 1e308 overflows, their mean does not. */
    CHECK_RANGE(0, 40000, 10000, {"sum(n)", "{} NaN NaN +Inf NaN -0"},
                {"avg(n)", "{} NaN NaN 1e+308 NaN -0"}, {"min(n)", "{} NaN -3 1e308 -Inf -0"},
                {"max(n)", "{} NaN 2 1e308 +Inf -0"}, {"count(n)", "{} 3 3 3 3 1"},
                {"stddev(n)", "{} NaN NaN 0 NaN 0"}, {"stdvar(n{i=\"1\"})", "{} NaN NaN 0 NaN 0"},
                {"quantile(0, n)", "{} NaN NaN 1e308 -Inf -0"},
                /* The greatest is itself and 0 of what is behind it: 0 times infinity. */
                {"quantile(1, n)", "{} NaN 2 1e308 NaN -0"});
    /* What is lost by rounding is kept: the ones would vanish beside 1e100. */
    clear_series();
    load("k{i=\"1\"}", 10000, "1");
    load("k{i=\"2\"}", 10000, "1e100");
    load("k{i=\"3\"}", 10000, "1");
    load("k{i=\"4\"}", 10000, "-1e100");
    CHECK_AT(0, {"sum(k)", "{} 2"}, {"avg(k)", "{} 0.5"});
}

/* Of 2, 4, 4, 4, 5, 5, 7, 9: the mean is 5, the variance 4. */
static void spread(void **state)
{
    static const char *const values[] = {"2", "4", "4", "4", "5", "5", "7", "9"};

    (void)state;
    for (int i = 0; i < 8; i++) {
        char labels[32];

        snprintf(labels, sizeof(labels), "v{i=\"%d\"}", i);
        load(labels, 10000, values[i]);
    }
    /* Ranks 0 to 7; 0.9 lies at 6.3. */
    CHECK_AT(0, {"stddev(v)", "{} 2"}, {"stdvar(v)", "{} 4"}, {"quantile(0.5, v)", "{} 4.5"},
             {"quantile(0.9, v)", "{} 7.6"}, {"quantile(0, v)", "{} 2"}, {"quantile(1, v)", "{} 9"},
             {"quantile by (j) (0.5, v)", "{} 4.5"},
#define QUANTILE(got, at) \
    " | PromQL warning: quantile value should be between 0 and 1, got " got " (1:" at ")"
             {"quantile(1.5, v)", "{} +Inf" QUANTILE("1.5", "10")},
             {"quantile(-1.23456789, v)", "{} -Inf" QUANTILE("-1.23456789", "10")},
             {"quantile(NaN, v)", "{} NaN" QUANTILE("NaN", "10")},
             {"quantile(7, nothing)", QUANTILE("7", "10")});
    /* A parameter may change; of bad ones the outermost are told. */
    CHECK_RANGE(0, 20000, 5000,
                {"quantile((time() - 5) / 5, v)",
                 "{} -Inf 2 9 +Inf +Inf" QUANTILE("3", "10") QUANTILE("-1", "10")});
}

static void the_best_and_the_worst(void **state)
{
    (void)state;
    load("t{a=\"1\", b=\"1\"}", 10000, "3 1");
    load("t{a=\"1\", b=\"2\"}", 10000, "1 NaN");
    load("t{a=\"1\", b=\"3\"}", 10000, "NaN 5");
    load("t{a=\"2\", b=\"1\"}", 10000, "2 6");
    load("t{a=\"2\", b=\"2\"}", 10000, "4 stale");
    /* An instant query's answer is in their order. */
    CHECK_AT(0, {"topk(2, t)", "t{a=\"2\", b=\"2\"} 4; t{a=\"1\", b=\"1\"} 3"},
             {"bottomk(2, t)", "t{a=\"1\", b=\"2\"} 1; t{a=\"2\", b=\"1\"} 2"},
             {"topk by (a) (1, t)", "t{a=\"1\", b=\"1\"} 3; t{a=\"2\", b=\"2\"} 4"},
             {"topk(9, t{a=\"1\"})",
              "t{a=\"1\", b=\"1\"} 3; t{a=\"1\", b=\"2\"} 1; t{a=\"1\", b=\"3\"} NaN"},
             {"bottomk(9, t{a=\"1\"})",
              "t{a=\"1\", b=\"2\"} 1; t{a=\"1\", b=\"1\"} 3; t{a=\"1\", b=\"3\"} NaN"},
             {"topk(0, t)", ""}, {"topk(-1, t)", ""}, {"topk(0.9, t)", ""},
             {"topk(1.9, t)", "t{a=\"2\", b=\"2\"} 4"}, {"topk(-1e300, t)", ""},
             {"topk(scalar(t{b=\"3\"}), t)", "error: Parameter value is NaN"},
             {"bottomk(1e19, t)", "error: Scalar value 1e+19 overflows int64"},
             {"sum(topk(2, t))", "{} 7"});
    CHECK_RANGE(
        0, 10000, 10000,
        {"topk(2, t)", "t{a=\"1\", b=\"1\"} 3 _; t{a=\"1\", b=\"3\"} _ 5; t{a=\"2\", b=\"1\"} _ 6; "
                       "t{a=\"2\", b=\"2\"} 4 _"},
        {"topk(time() / 10, t)", "t{a=\"2\", b=\"1\"} _ 6"},
        {"topk(1 - 1e300 * time(), t)", "error: Scalar value -1e+301 underflows int64"},
        {"bottomk by (b) (1, t)",
         "t{a=\"1\", b=\"1\"} _ 1; t{a=\"1\", b=\"2\"} 1 NaN; t{a=\"1\", b=\"3\"} NaN 5; "
         "t{a=\"2\", b=\"1\"} 2 _"},
        {"count(limitk(2, t))", "{} 2 2"}, {"limitk(0, t)", ""},
        {"count by (a) (limitk by (a) (2, t))", "{a=\"1\"} 2 2; {a=\"2\"} 2 1"},
        {"limitk(9, t) == t or vector(-1)",
         "{} -1 -1; t{a=\"1\", b=\"1\"} 3 1; t{a=\"1\", b=\"2\"} 1 _; t{a=\"1\", b=\"3\"} _ 5; "
         "t{a=\"2\", b=\"1\"} 2 6; t{a=\"2\", b=\"2\"} 4 _"});
}

/* A ratio and the one that complements it part the series. */
static void shares(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        char labels[32];

        snprintf(labels, sizeof(labels), "s{i=\"%d\"}", i);
        load(labels, 10000, "1");
    }
#define RATIO(got, to)                                                                       \
    " | PromQL warning: ratio value should be between -1 and 1, got " got ", capping to " to \
    " (1:19)"
    CHECK_AT(0, {"count(limit_ratio(1, s))", "{} 200"}, {"count(limit_ratio(-1, s))", "{} 200"},
             {"limit_ratio(0, s)", ""},
             {"count(limit_ratio(0.3, s) or limit_ratio(-0.7, s))", "{} 200"},
             {"limit_ratio(0.3, s) and limit_ratio(-0.7, s)", ""},
             {"limit_ratio(0.3, s) unless limit_ratio(0.4, s)", ""},
             {"count(limit_ratio(0.5, s)) > 60 < 140 > bool 0", "{} 1"},
             {"count(limit_ratio(1.5, s))", "{} 200" RATIO("1.5", "1")},
             {"count(limit_ratio(-2, s))", "{} 200" RATIO("-2", "-1")},
             {"limit_ratio(NaN, s)", "error: Ratio value is NaN"});
}

static void values_are_counted(void **state)
{
    (void)state;
    load("c{a=\"1\", b=\"1\"}", 10000, "1 0.1 NaN");
    load("c{a=\"1\", b=\"2\"}", 10000, "1 1e21 -Inf");
    load("c{a=\"2\", b=\"1\"}", 10000, "stale 0.1 -0");
    CHECK_RANGE(0, 20000, 10000,
                {"count_values(\"v\", c)",
                 "{v=\"-0\"} _ _ 1; {v=\"-Inf\"} _ _ 1; {v=\"0.1\"} _ 2 _; {v=\"1\"} 2 _ _; "
                 "{v=\"1000000000000000000000\"} _ 1 _; {v=\"NaN\"} _ _ 1"},
                {"count_values by (a) (\"v\", c == 1)", "{a=\"1\", v=\"1\"} 2 _ _"},
                {"count_values without (b) (\"v\", c == 1)", "{a=\"1\", v=\"1\"} 2 _ _"},
                /* The value takes the place of a label. */
                {"count_values by (a) (\"a\", c == 0.1)", "{a=\"0.1\"} _ 2 _"},
                {"count_values without (v) (\"v\", c == 1)",
                 "{a=\"1\", b=\"1\"} 1 _ _; {a=\"1\", b=\"2\"} 1 _ _"},
                {"count_values(\"\", c)", "error: invalid label name \"\""});
}

/* ---- histograms ---- */

/* Buckets (1, 2] and (2, 4]. */
static struct prom_histogram *two_buckets(double a, double b)
{
    struct prom_histogram *h = histogram_new(0, 1, 2, 0, 0);

    assert_non_null(h);
    h->count = a + b;
    h->sum = 1.5 * a + 3 * b;
    h->positive.counts[0] = a;
    h->positive.counts[1] = b;
    return h;
}

static void histograms(void **state)
{
    struct test_series *s = add_series("h{a=\"1\"}"), *t = add_series("h{a=\"2\"}"),
                       *u = add_series("h{a=\"3\"}");

    (void)state;
    add_point(s, 0, 0, two_buckets(1, 2));
    add_point(t, 0, 0, two_buckets(3, 0));
    add_point(u, 0, 0, two_buckets(8, 7));
    load("h{a=\"4\"}", 10000, "stale 2");
    CHECK_AT(0, {"sum(h)", "{} {count:21, sum:45, (1,2]:12, (2,4]:9}"},
             {"avg(h)", "{} {count:7, sum:15, (1,2]:4, (2,4]:3}"}, {"count(h)", "{} 3"},
             {"group(h)", "{} 1"}, {"histogram_count(sum(h))", "{} 21"},
             {"limitk(1, h{a=\"1\"})", "h{a=\"1\"} {count:3, sum:7.5, (1,2]:1, (2,4]:2}"},
             {"count(limit_ratio(1, h))", "{} 3"},
             {"count_values(\"v\", h{a=\"2\"})", "{v=\"{count:3, sum:4.5, (1,2]:3}\"} 1"});
#define IGNORED(op, at) " | PromQL info: ignored histogram in " op " aggregation (1:" at ")"
#define MIXED(at) \
    " | PromQL warning: encountered a mix of histograms and floats for aggregation (1:" at ")"
    CHECK_AT(10000, {"sum(h)", MIXED("5")}, {"avg((h))", MIXED("6")},
             {"sum by (a) (h{a=\"4\"})", "{a=\"4\"} 2"}, {"count(h)", "{} 4"},
             {"min(h)", "{} 2" IGNORED("min", "5")}, {"max(h)", "{} 2" IGNORED("max", "5")},
             {"stddev(h)", "{} 0" IGNORED("stddev", "8")},
             {"stdvar(h)", "{} 0" IGNORED("stdvar", "8")},
             {"quantile(0.5, h)", "{} 2" IGNORED("quantile", "15")},
             {"topk(3, h)", "h{a=\"4\"} 2" IGNORED("topk", "1")},
             {"1 + bottomk(3, h)", "{a=\"4\"} 3" IGNORED("bottomk", "5")},
             {"min(h{a=\"1\"})", IGNORED("min", "5")});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(groups, setup, setup),
        cmocka_unit_test_setup_teardown(odd_numbers, setup, setup),
        cmocka_unit_test_setup_teardown(spread, setup, setup),
        cmocka_unit_test_setup_teardown(the_best_and_the_worst, setup, setup),
        cmocka_unit_test_setup_teardown(shares, setup, setup),
        cmocka_unit_test_setup_teardown(values_are_counted, setup, setup),
        cmocka_unit_test_setup_teardown(histograms, setup, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
