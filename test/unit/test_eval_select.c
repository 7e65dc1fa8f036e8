/* Selectors, range vectors and subqueries: which samples a step sees. Expected values by hand from
 * Prometheus 3, "Querying basics": windows and lookback are open on the left. */
#include "promql_case.h"

static int setup(void **state)
{
    (void)state;
    clear_series();
    return 0;
}

/* Lookback is 5 minutes. */
static void the_latest_sample_within_lookback(void **state)
{
    (void)state;
    load("x{a=\"1\"}", 60000, "1 2 3");
    load("x{a=\"2\"}", 60000, "_ 20");
    CHECK_AT(0, {"x", "x{a=\"1\"} 1"});
    CHECK_AT(-1, {"x", ""});
    CHECK_AT(60000, {"x", "x{a=\"1\"} 2; x{a=\"2\"} 20"});
    /* 120 s and 60 s are the last samples: one is exactly 5 minutes old, which is too old. */
    CHECK_AT(359999, {"x", "x{a=\"1\"} 3; x{a=\"2\"} 20"});
    CHECK_AT(360000, {"x", "x{a=\"1\"} 3"});
    CHECK_AT(420000, {"x", ""});
    CHECK_RANGE(0, 420000, 60000,
                {"x", "x{a=\"1\"} 1 2 3 3 3 3 3 _; x{a=\"2\"} _ 20 20 20 20 20 _ _"});
}

static void a_marker_ends_a_series_until_its_next_sample(void **state)
{
    (void)state;
    load("x", 60000, "1 stale _ 4 NaN stale");
    CHECK_RANGE(0, 420000, 30000, {"x", "x 1 1 _ _ _ _ 4 4 NaN NaN _ _ _ _ _"},
                {"count_over_time(x[10m])", "{} 1 1 1 1 1 1 2 2 3 3 3 3 3 3 3"},
                {"absent(x)", "{} _ _ 1 1 1 1 _ _ _ _ 1 1 1 1 1"});
}

static void offsets_and_fixed_times(void **state)
{
    (void)state;
    load("x", 60000, "0 1 2 3 4 5 6 7 8 9");
    CHECK_AT(300000, {"x offset 1m", "x 4"}, {"x offset -1m", "x 6"}, {"x offset 59s", "x 4"},
             {"x offset 6m", ""}, {"x offset -539999ms", "x 9"}, {"x offset -9m", ""},
             {"x @ 120", "x 2"}, {"x @ 120 offset 1m", "x 1"}, {"x offset 1m @ 120", "x 1"},
             {"x @ 119.999", "x 1"}, {"x @ start()", "x 5"}, {"x @ end()", "x 5"},
             {"x offset -1h @ start()", ""});
    CHECK_RANGE(120000, 240000, 60000, {"x offset 1m", "x 1 2 3"}, {"x offset -1m", "x 3 4 5"},
                {"x @ 60", "x 1 1 1"}, {"x @ start()", "x 2 2 2"}, {"x @ end()", "x 4 4 4"},
                {"x @ end() offset 1m", "x 3 3 3"}, {"x - x @ start()", "{} 0 1 2"},
                {"sum(x @ end())", "{} 4 4 4"}, {"sum_over_time(x[2m] @ end())", "{} 7 7 7"},
                {"sum_over_time(x[2m] @ end() offset 1m)", "{} 5 5 5"},
                {"sum_over_time(x[2m] offset -1m)", "{} 5 7 9"});
}

/* A sample's own time, not the step's. */
static void times_of_samples(void **state)
{
    (void)state;
    load("x{a=\"1\"}", 60000, "1 2");
    load("x{a=\"2\"}", 45000, "1 2");
    CHECK_AT(100500, {"timestamp(x)", "{a=\"1\"} 60; {a=\"2\"} 45"},
             {"timestamp((x))", "{a=\"1\"} 60; {a=\"2\"} 45"},
             {"timestamp(x offset 1m)", "{a=\"1\"} 0; {a=\"2\"} 0"},
             {"timestamp(x @ 50)", "{a=\"1\"} 0; {a=\"2\"} 45"},
             {"timestamp(x + 0)", "{a=\"1\"} 100.5; {a=\"2\"} 100.5"},
             {"timestamp(timestamp(x))", "{a=\"1\"} 100.5; {a=\"2\"} 100.5"},
             {"max(timestamp(x))", "{} 60"});
    CHECK_RANGE(0, 120000, 60000, {"timestamp(x{a=\"1\"})", "{a=\"1\"} 0 60 60"},
                {"timestamp(x{a=\"1\"} @ 70)", "{a=\"1\"} 60 60 60"});
}

static void windows_are_open_on_the_left(void **state)
{
    (void)state;
    load("x", 10000, "0 1 2 3 4 5 6");
    CHECK_AT(60000, {"x[20s]", "x 50000:5 60000:6"}, {"x[20001ms]", "x 40000:4 50000:5 60000:6"},
             {"x[20s] offset 10s", "x 40000:4 50000:5"}, {"x[20s] @ 15", "x 0:0 10000:1"},
             {"x[20s] offset -30s", ""}, {"count_over_time(x[1m])", "{} 6"},
             {"count_over_time(x[60001ms])", "{} 7"});
    CHECK_RANGE(0, 60000, 20000, {"count_over_time(x[20s])", "{} 1 2 2 2"},
                {"x[20s]", "error: invalid expression type \"range vector\" for range query, must "
                           "be Scalar or instant Vector"});
}

static void range_vectors_have_no_markers(void **state)
{
    (void)state;
    load("x{a=\"1\"}", 10000, "0 stale 2");
    load("x{a=\"2\"}", 10000, "_ stale");
    CHECK_AT(60000, {"x[2m]", "x{a=\"1\"} 0:0 20000:2"});
}

/* Steps of a subquery are multiples of its own step, whatever the query's times. */
static void subqueries_have_a_grid_of_their_own(void **state)
{
    (void)state;
    load("x", 10000, "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18");
    /* (75, 135] holds 80 to 130; with 25 s 100 and 125; with the default, a minute, 120. */
    CHECK_AT(135000, {"x[1m:10s]", "x 80000:8 90000:9 100000:10 110000:11 120000:12 130000:13"},
             {"x[1m:25s]", "x 100000:10 125000:12"}, {"x[1m:]", "x 120000:12"},
             {"x[1m:10s] offset 5s", "x 80000:8 90000:9 100000:10 110000:11 120000:12 130000:13"},
             {"x[20s:10s] @ 60", "x 50000:5 60000:6"},
             {"x[20s:10s] @ 60 offset 10s", "x 40000:4 50000:5"},
             {"(x * 2)[20s:10s]", "{} 120000:24 130000:26"},
             {"sum_over_time((x * 2)[20s:10s])", "{} 50"},
             {"vector(time())[20s:10s]", "{} 120000:120 130000:130"},
             {"max_over_time(vector(time())[20s:10s])", "{} 130"});
    /* The left edge itself is outside. */
    CHECK_AT(120000, {"x[20s:10s]", "x 110000:11 120000:12"});
    /* Before 1970, too, the first step is the one behind the edge. */
    CHECK_AT(-15000, {"vector(time())[20s:10s]", "{} -30000:-30 -20000:-20"});
    CHECK_RANGE(60000, 75000, 5000, {"sum_over_time(x[20s:10s])", "{} 11 11 13 13"},
                {"count_over_time(x[15s:10s])", "{} 2 1 2 1"},
                {"last_over_time(x[20s:10s] @ 40)", "x 4 4 4 4"});
}

static void subqueries_within_subqueries(void **state)
{
    (void)state;
    load("x_total", 10000, "0 10 20 30 40 50 60 70 80 90 100 110 120");
    /* At 60, 90 and 120 the rate is 1 each. */
    CHECK_AT(120000, {"rate(x_total[1m])[1m:30s]", "{} 90000:1 120000:1"},
             {"sum_over_time(rate(x_total[1m])[90s:30s])", "{} 3"},
             {"max_over_time(sum_over_time(rate(x_total[1m])[1m:30s])[1m:30s])", "{} 2"},
             {"max_over_time((x_total @ 30)[1m:30s])", "{} 30"},
             {"max_over_time((x_total @ end())[1m:30s])", "{} 120"},
             {"min_over_time((x_total @ start())[1m:30s] offset 1m)", "{} 120"},
             {"max_over_time((x_total offset 1m)[1m:30s])", "{} 60"});
}

static void strings_numbers_and_signs(void **state)
{
    (void)state;
    load("x{a=\"1\"}", 10000, "3");
    CHECK_AT(0, {"\"text\"", "text"}, {"1e3", "1000"}, {"-2 ^ 2", "-4"}, {"--2", "2"},
             {"+x", "x{a=\"1\"} 3"}, {"-x", "{a=\"1\"} -3"}, {"--x", "{a=\"1\"} 3"},
             {"((x))", "x{a=\"1\"} 3"}, {"-(1 + 2) * 3", "-9"}, {"5m", "300"}, {"-Inf", "-Inf"},
             {"0x10", "16"});
    CHECK_RANGE(0, 20000, 10000, {"1", "1 1 1"}, {"time()", "0 10 20"}, {"-time() + 1", "1 -9 -19"},
                {"vector(time())", "{} 0 10 20"}, {"scalar(x)", "3 3 3"});
}

/* Functions over a name that several metrics fit come to the same labels. */
static void equal_labels_are_refused(void **state)
{
#define SAME "error: vector cannot contain metrics with the same labelset"
    (void)state;
    load("a{l=\"1\"}", 60000, "1 2 stale");
    load("b{l=\"1\"}", 60000, "_ _ _ 4");
    load("c{l=\"1\"}", 60000, "_ 5");
    CHECK_RANGE(60000, 180000, 60000, {"abs({__name__=~\"a|b\"})", "{l=\"1\"} 2 _ 4"},
                {"{__name__=~\"a|b\"} * 2", "{l=\"1\"} 4 _ 8"},
                {"{__name__=~\"a|b\"} >= bool 0", "{l=\"1\"} 1 _ 1"},
                {"timestamp({__name__=~\"a|b\"})", "{l=\"1\"} 60 _ 180"},
                {"-{__name__=~\"a|c\"}", SAME}, {"abs({__name__=~\"a|c\"})", SAME},
                {"{__name__=~\"a|c\"} * 2", SAME}, {"sum(abs({__name__=~\"a|c\"}))", SAME},
                {"sum(-(sum by (__name__, l) ({l=\"1\"})))", SAME},
                {"sum(abs(count_values(\"__name__\", {l=\"1\"})))", SAME},
                /* After these they are refused also where their samples are apart. */
                {"-{__name__=~\"a|b\"}", SAME}, {"count_over_time({__name__=~\"a|b\"}[1m])", SAME},
                {"sum(count_over_time({__name__=~\"a|b\"}[1m]))", SAME},
                {"last_over_time({__name__=~\"a|b\"}[1m])", "a{l=\"1\"} 2 _ _; b{l=\"1\"} _ _ 4"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_latest_sample_within_lookback, setup, setup),
        cmocka_unit_test_setup_teardown(a_marker_ends_a_series_until_its_next_sample, setup, setup),
        cmocka_unit_test_setup_teardown(offsets_and_fixed_times, setup, setup),
        cmocka_unit_test_setup_teardown(times_of_samples, setup, setup),
        cmocka_unit_test_setup_teardown(windows_are_open_on_the_left, setup, setup),
        cmocka_unit_test_setup_teardown(range_vectors_have_no_markers, setup, setup),
        cmocka_unit_test_setup_teardown(subqueries_have_a_grid_of_their_own, setup, setup),
        cmocka_unit_test_setup_teardown(subqueries_within_subqueries, setup, setup),
        cmocka_unit_test_setup_teardown(strings_numbers_and_signs, setup, setup),
        cmocka_unit_test_setup_teardown(equal_labels_are_refused, setup, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
