/* Binary operators: expected values by hand from Prometheus 3, "Operators". */
#include "promql_case.h"

static int setup(void **state)
{
    (void)state;
    clear_series();
    return 0;
}

static void scalars(void **state)
{
    (void)state;
    CHECK_AT(0, {"1 + 2 * 3 ^ 2", "19"}, {"2 ^ 3 ^ 2", "512"}, {"7 % 3", "1"}, {"-7 % 3", "-1"},
             {"7 % 0", "NaN"}, {"1 / 0", "+Inf"}, {"-1 / 0", "-Inf"}, {"0 / 0", "NaN"},
             {"1 atan2 0", "1.5707963267948966"}, {"1 == bool 1", "1"}, {"1 > bool 1", "0"},
             {"1 >= bool 1", "1"}, {"1 != bool NaN", "1"}, {"NaN == bool NaN", "0"},
             {"1 < bool 2 <= bool 1", "1"}, {"Inf - Inf", "NaN"}, {"5.5 % 2", "1.5"});
    CHECK_RANGE(0, 20000, 10000, {"time() > bool 5", "0 1 1"}, {"time() % 20", "0 10 0"});
}

static void vectors_and_scalars(void **state)
{
    (void)state;
    load("x{a=\"1\"}", 10000, "1 2 3");
    load("x{a=\"2\"}", 10000, "_ -2 NaN");
    CHECK_RANGE(0, 20000, 10000, {"x * 10", "{a=\"1\"} 10 20 30; {a=\"2\"} _ -20 NaN"},
                {"10 - x", "{a=\"1\"} 9 8 7; {a=\"2\"} _ 12 NaN"},
                {"2 ^ x", "{a=\"1\"} 2 4 8; {a=\"2\"} _ 0.25 NaN"},
                {"x + time()", "{a=\"1\"} 1 12 23; {a=\"2\"} _ 8 NaN"},
                /* A filter keeps the vector's value and name, on whichever side it is. */
                {"x > 1", "x{a=\"1\"} _ 2 3"}, {"1 < x", "x{a=\"1\"} _ 2 3"},
                {"x != 2", "x{a=\"1\"} 1 _ 3; x{a=\"2\"} _ -2 NaN"}, {"x == NaN", ""},
                {"time() / 10 < x", "x{a=\"1\"} 1 2 3"}, {"x > 100", ""},
                {"x > bool 1", "{a=\"1\"} 0 1 1; {a=\"2\"} _ 0 0"},
                {"1 <= bool x", "{a=\"1\"} 1 1 1; {a=\"2\"} _ 0 0"},
                {"(x > 1) + 1", "{a=\"1\"} _ 3 4"});
}

static void one_to_one(void **state)
{
    (void)state;
    load("l{a=\"1\", b=\"1\"}", 10000, "1 2 3");
    load("l{a=\"2\", b=\"1\"}", 10000, "4 5 6");
    load("r{a=\"1\", b=\"1\"}", 10000, "10 _ 30");
    load("r{a=\"3\", b=\"1\"}", 10000, "1 1 1");
    load("r{a=\"2\", c=\"1\"}", 10000, "2 stale 2");
    CHECK_RANGE(
        0, 20000, 10000, {"l + r", "{a=\"1\", b=\"1\"} 11 12 33"},
        {"l + on (a) r", "{a=\"1\"} 11 12 33; {a=\"2\"} 6 _ 8"},
        {"l + ignoring (b, c) r", "{a=\"1\"} 11 12 33; {a=\"2\"} 6 _ 8"},
        /* A filter keeps the left side's value, and its name. */
        {"r > l", "r{a=\"1\", b=\"1\"} 10 10 30"}, {"l < on (a) r", "{a=\"1\"} 1 2 3"},
        {"l < on (a, __name__) r", ""}, {"l < ignoring (b, c) r", "l{a=\"1\"} 1 2 3"},
        {"l < bool on (a) r", "{a=\"1\"} 1 1 1; {a=\"2\"} 0 _ 0"},
        {"l == l", "l{a=\"1\", b=\"1\"} 1 2 3; l{a=\"2\", b=\"1\"} 4 5 6"},
        {"l == on (a, __name__) l", "l{a=\"1\"} 1 2 3; l{a=\"2\"} 4 5 6"},
        {"l + on (a, __name__) l", "{a=\"1\"} 2 4 6; {a=\"2\"} 8 10 12"}, {"l * nothing", ""},
        {"nothing - l", ""},
        {"sum(l) / sum(r)", "{} 0.38461538461538464 0.6363636363636364 0.2727272727272727"});
}

static void many_to_one(void **state)
{
    (void)state;
    load("m{a=\"1\", b=\"1\"}", 10000, "1 2 3");
    load("m{a=\"1\", b=\"2\"}", 10000, "10 20 30");
    load("m{a=\"2\", b=\"1\"}", 10000, "7 7 7");
    load("o{a=\"1\", v=\"x\", b=\"o\"}", 10000, "2 stale 4");
    load("o{a=\"1\", v=\"y\"}", 10000, "stale 3 stale");
    load("o{a=\"2\", w=\"z\"}", 10000, "_ _ 1");
    CHECK_RANGE(
        0, 20000, 10000,
        {"m * on (a) group_left o",
         "{a=\"1\", b=\"1\"} 2 6 12; {a=\"1\", b=\"2\"} 20 60 120; {a=\"2\", b=\"1\"} _ _ 7"},
        /* Labels of the one side, also where it has none; it changes over time. */
        {"m * on (a) group_left (v) o",
         "{a=\"1\", b=\"1\", v=\"x\"} 2 _ 12; {a=\"1\", b=\"1\", v=\"y\"} _ 6 _; {a=\"1\", "
         "b=\"2\", v=\"x\"} 20 _ 120; {a=\"1\", b=\"2\", v=\"y\"} _ 60 _; {a=\"2\", "
         "b=\"1\"} _ _ 7"},
        {"o * on (a) group_right (v) m",
         "{a=\"1\", b=\"1\", v=\"x\"} 2 _ 12; {a=\"1\", b=\"1\", v=\"y\"} _ 6 _; {a=\"1\", "
         "b=\"2\", v=\"x\"} 20 _ 120; {a=\"1\", b=\"2\", v=\"y\"} _ 60 _; {a=\"2\", "
         "b=\"1\"} _ _ 7"},
        {"o - on (a) group_right m",
         "{a=\"1\", b=\"1\"} 1 1 1; {a=\"1\", b=\"2\"} -8 -17 -26; {a=\"2\", b=\"1\"} _ _ -6"},
        {"m > on (a) group_left o", "m{a=\"1\", b=\"2\"} 10 20 30; m{a=\"2\", b=\"1\"} _ _ 7"},
        {"m > bool on (a) group_left (__name__) o",
         "{a=\"1\", b=\"1\"} 0 0 0; {a=\"1\", b=\"2\"} 1 1 1; {a=\"2\", b=\"1\"} _ _ 1"},
        {"m{b=\"1\"} * on (a) group_left (__name__) o",
         "o{a=\"1\", b=\"1\"} 2 6 12; o{a=\"2\", b=\"1\"} _ _ 7"},
        {"o{v=\"x\"} < on (a) group_right (v) m", "m{a=\"1\", b=\"2\", v=\"x\"} 2 _ 4"});
}

/* Each of these is refused; a series that is absent at a step is in nobody's way there. */
static void what_is_ambiguous_is_refused(void **state)
{
    (void)state;
    load("l{a=\"1\", b=\"1\"}", 10000, "1 2");
    load("l{a=\"1\", b=\"2\"}", 10000, "stale 3");
    load("r{a=\"1\", c=\"1\"}", 10000, "10 20");
    load("r{a=\"1\", c=\"2\"}", 10000, "stale 30");
    CHECK_AT(0, {"l + on (a) r", "{a=\"1\"} 11"}, {"l > on (a) r", ""});
#define RIGHT                                                                                  \
    "error: found duplicate series for the match group {a=\"1\"} on the right hand-side of "   \
    "the operation: [{__name__=\"r\", a=\"1\", c=\"2\"}, {__name__=\"r\", a=\"1\", c=\"1\"}];" \
    "many-to-many matching not allowed: matching labels must be unique on one side"
#define LEFT                                                                               \
    "error: found duplicate series for the match group {} on the left hand-side of the "   \
    "operation: [{__name__=\"l\", a=\"1\", b=\"2\"}, {__name__=\"l\", a=\"1\", b=\"1\"}];" \
    "many-to-many matching not allowed: matching labels must be unique on one side"
#define EXPLICIT                                                                 \
    "error: multiple matches for labels: many-to-one matching must be explicit " \
    "(group_left/group_right)"
#define GROUPING "error: multiple matches for labels: grouping labels must ensure unique matches"
    CHECK_AT(10000, {"l + on (a) r", RIGHT}, {"l == on (a) group_left r", RIGHT},
             {"l + on () group_right r", LEFT}, {"l + on (a) r{c=\"1\"}", EXPLICIT},
             /* Also when the filter would leave one, or none. */
             {"l > on (a) r{c=\"1\"}", EXPLICIT}, {"l < on (a) r{c=\"1\"}", EXPLICIT},
             {"l == bool on (a) r{c=\"1\"}", EXPLICIT},
             {"l + on (a) group_left (b) r{c=\"1\"}", GROUPING},
             {"l > on (a) group_left (b) r{c=\"1\"}", GROUPING},
             /* Nobody asks where the other side is empty. */
             {"nothing + on (a) r", ""}, {"l{b=\"9\"} * on (a) r", ""},
             /* Sets match many with many. */
             {"l and on (a) r", "l{a=\"1\", b=\"1\"} 2; l{a=\"1\", b=\"2\"} 3"});
    CHECK_RANGE(0, 10000, 10000, {"l + on (a) r", RIGHT});
    clear_series();
    /* Different groups that come to the same labels. */
    load("l{a=\"1\", b=\"1\"}", 10000, "1");
    load("l{a=\"2\", b=\"1\"}", 10000, "1");
    load("r{a=\"1\"}", 10000, "1");
    load("r{a=\"2\"}", 10000, "1");
    CHECK_AT(0, {"(l or r) + on (a, __name__) (l or r)",
                 "error: vector cannot contain metrics with the same labelset"});
}

static void sets(void **state)
{
    (void)state;
    load("x{a=\"1\"}", 10000, "1 2 3");
    load("x{a=\"2\"}", 10000, "4 stale 6");
    load("y{a=\"1\"}", 10000, "stale 20 stale");
    load("y{a=\"2\"}", 10000, "40 50 _");
    load("y{a=\"3\", b=\"1\"}", 10000, "70 80 90");
    CHECK_RANGE(
        0, 20000, 10000, {"x and y", "x{a=\"1\"} _ 2 _; x{a=\"2\"} 4 _ 6"},
        {"x unless y", "x{a=\"1\"} 1 _ 3"},
        {"x or y",
         "x{a=\"1\"} 1 2 3; x{a=\"2\"} 4 _ 6; y{a=\"2\"} _ 50 _; y{a=\"3\", b=\"1\"} 70 80 90"},
        {"x or on () y", "x{a=\"1\"} 1 2 3; x{a=\"2\"} 4 _ 6"},
        {"x{a=\"2\"} or on () y{a!=\"2\"}",
         "x{a=\"2\"} 4 _ 6; y{a=\"1\"} _ 20 _; y{a=\"3\", b=\"1\"} _ 80 _"},
        {"x and on () y{a=\"1\"}", "x{a=\"1\"} _ 2 _"},
        {"x unless on () y{a=\"1\"}", "x{a=\"1\"} 1 _ 3; x{a=\"2\"} 4 _ 6"},
        {"x and ignoring (a) y{b=\"1\"}", ""},
        {"x and ignoring (a, b) y", "x{a=\"1\"} 1 2 3; x{a=\"2\"} 4 _ 6"},
        {"x or x", "x{a=\"1\"} 1 2 3; x{a=\"2\"} 4 _ 6"},
        {"x{a=\"1\"} or x", "x{a=\"1\"} 1 2 3; x{a=\"2\"} 4 _ 6"},
        {"x or nothing", "x{a=\"1\"} 1 2 3; x{a=\"2\"} 4 _ 6"},
        {"nothing or x{a=\"1\"}", "x{a=\"1\"} 1 2 3"}, {"x and nothing", ""},
        {"x unless nothing", "x{a=\"1\"} 1 2 3; x{a=\"2\"} 4 _ 6"},
        {"x > 2 or y < 60 and y > 30", "x{a=\"1\"} _ _ 3; x{a=\"2\"} 4 _ 6; y{a=\"2\"} _ 50 _"});
}

/* ---- histograms ---- */

/* One bucket (1, 2]. */
static struct prom_histogram *one_bucket(double n)
{
    struct prom_histogram *h = histogram_new(0, 1, 1, 0, 0);

    assert_non_null(h);
    h->count = n;
    h->sum = 1.5 * n;
    h->positive.counts[0] = n;
    return h;
}

static void histograms(void **state)
{
#define BAD(l, op, r, at)                                                                      \
    " | PromQL info: incompatible sample types encountered for binary operator \"" op "\": " l \
    " " op " " r " (1:" at ")"
    struct test_series *s = add_series("h{a=\"1\"}"), *t = add_series("i{a=\"1\"}");

    (void)state;
    add_point(s, 0, 0, one_bucket(4));
    add_point(t, 0, 0, one_bucket(2));
    load("f{a=\"1\"}", 10000, "2");
    CHECK_AT(0, {"h + i", "{a=\"1\"} {count:6, sum:9, (1,2]:6}"},
             {"h - i", "{a=\"1\"} {count:2, sum:3, (1,2]:2}"},
             {"h * 3", "{a=\"1\"} {count:12, sum:18, (1,2]:12}"},
             {"3 * h", "{a=\"1\"} {count:12, sum:18, (1,2]:12}"},
             {"h / 2", "{a=\"1\"} {count:2, sum:3, (1,2]:2}"},
             /* Divided, not multiplied by what is nearly a 49th. */
             {"h * 12.25 / 49 == h / 4", "{a=\"1\"} {count:1, sum:1.5, (1,2]:1}"},
             {"h / 0", "{a=\"1\"} {count:+Inf, sum:+Inf, [-0,0]:NaN}"},
             {"h * 0", "{a=\"1\"} {count:0, sum:0}"},
             {"-h", "{a=\"1\"} {count:-4, sum:-6, (1,2]:-4}"},
             {"h * f", "{a=\"1\"} {count:8, sum:12, (1,2]:8}"},
             {"f * h", "{a=\"1\"} {count:8, sum:12, (1,2]:8}"},
             {"h / f", "{a=\"1\"} {count:2, sum:3, (1,2]:2}"},
             {"h == h", "h{a=\"1\"} {count:4, sum:6, (1,2]:4}"}, {"h == i", ""},
             {"h != i", "h{a=\"1\"} {count:4, sum:6, (1,2]:4}"}, {"h == bool i", "{a=\"1\"} 0"},
             {"h != bool i", "{a=\"1\"} 1"}, {"h and f", "h{a=\"1\"} {count:4, sum:6, (1,2]:4}"},
             {"f unless h", ""}, {"nothing or h", "h{a=\"1\"} {count:4, sum:6, (1,2]:4}"});
    CHECK_AT(0, {"h + 1", BAD("histogram", "+", "float", "1")},
             {"1 - h", BAD("float", "-", "histogram", "1")},
             {"1 / h", BAD("float", "/", "histogram", "1")},
             {"h ^ 2", BAD("histogram", "^", "float", "1")},
             {"h > 1", BAD("histogram", ">", "float", "1")},
             {"1 == h", BAD("float", "==", "histogram", "1")},
             {"h == bool 1", BAD("histogram", "==", "float", "1")},
             {"h * i", BAD("histogram", "*", "histogram", "1")},
             {"h > bool i", BAD("histogram", ">", "histogram", "1")},
             {"\n  h + f", " | PromQL info: incompatible sample types encountered for binary "
                           "operator \"+\": histogram + float (2:3)"},
             {"f / h", BAD("float", "/", "histogram", "1")});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(scalars, setup, setup),
        cmocka_unit_test_setup_teardown(vectors_and_scalars, setup, setup),
        cmocka_unit_test_setup_teardown(one_to_one, setup, setup),
        cmocka_unit_test_setup_teardown(many_to_one, setup, setup),
        cmocka_unit_test_setup_teardown(what_is_ambiguous_is_refused, setup, setup),
        cmocka_unit_test_setup_teardown(sets, setup, setup),
        cmocka_unit_test_setup_teardown(histograms, setup, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
