/* Functions of samples, of dates, of labels, of order and presence, and info: by hand, and where it
 * says so by what Prometheus 2.42 answered. */
#include "promql_case.h"

static int setup(void **state)
{
    (void)state;
    clear_series();
    return 0;
}

static void mathematics(void **state)
{
    (void)state;
    load("x", 10000, "-2.5");
    load("n{a=\"nan\"}", 10000, "NaN");
    load("n{a=\"inf\"}", 10000, "-Inf");
    load("n{a=\"zero\"}", 10000, "-0");
    CHECK_AT(0, {"abs(x)", "{} 2.5"}, {"ceil(x)", "{} -2"}, {"floor(x)", "{} -3"},
             {"round(x)", "{} -2"}, {"round(-x)", "{} 3"}, {"round(x, 2)", "{} -2"},
             {"round(x, 0.2)", "{} -2.4"}, {"round(x, 0)", "{} NaN"}, {"sgn(x)", "{} -1"},
             {"sgn(n)", "{a=\"inf\"} -1; {a=\"nan\"} NaN; {a=\"zero\"} -0"},
             {"1 / sgn(n{a=\"zero\"})", "{a=\"zero\"} -Inf"}, {"sqrt(x)", "{} NaN"},
             {"sqrt(vector(16))", "{} 4"}, {"exp(vector(0))", "{} 1"}, {"ln(vector(0))", "{} -Inf"},
             {"log2(vector(8))", "{} 3"}, {"log10(vector(1000))", "{} 3"},
             {"deg(vector(pi()))", "{} 180"}, {"rad(vector(180)) == pi()", "{} 3.141592653589793"},
             {"sin(vector(pi() / 2))", "{} 1"}, {"cos(vector(0))", "{} 1"},
             {"tan(vector(0))", "{} 0"}, {"asin(vector(1)) * 2", "{} 3.141592653589793"},
             {"acos(vector(1))", "{} 0"}, {"atan(vector(1)) * 4", "{} 3.141592653589793"},
             {"sinh(vector(0))", "{} 0"}, {"cosh(vector(0))", "{} 1"},
             {"tanh(vector(Inf))", "{} 1"}, {"asinh(vector(0))", "{} 0"},
             {"acosh(vector(1))", "{} 0"}, {"atanh(vector(1))", "{} +Inf"},
             {"acosh(vector(0))", "{} NaN"});
}

static void clamps(void **state)
{
    (void)state;
    load("x{a=\"1\"}", 10000, "-7");
    load("x{a=\"2\"}", 10000, "7");
    load("x{a=\"3\"}", 10000, "NaN");
    CHECK_AT(0, {"clamp(x, -2, 3)", "{a=\"1\"} -2; {a=\"2\"} 3; {a=\"3\"} NaN"},
             {"clamp(x, 3, -2)", ""}, {"clamp(x, 5, 5)", "{a=\"1\"} 5; {a=\"2\"} 5; {a=\"3\"} NaN"},
             {"clamp(x, NaN, 3)", "{a=\"1\"} NaN; {a=\"2\"} NaN; {a=\"3\"} NaN"},
             {"clamp(x, Inf, Inf)", "{a=\"1\"} +Inf; {a=\"2\"} +Inf; {a=\"3\"} +Inf"},
             {"clamp_min(x, 0)", "{a=\"1\"} 0; {a=\"2\"} 7; {a=\"3\"} NaN"},
             {"clamp_max(x, 0)", "{a=\"1\"} -7; {a=\"2\"} 0; {a=\"3\"} NaN"});
}

/* 2024-02-29 12:34:56 is 1709210096, a Thursday, day 60. The far ones are of Prometheus 2.42. */
static void dates(void **state)
{
    (void)state;
    CHECK_AT(1709210096999, {"year()", "{} 2024"}, {"month()", "{} 2"}, {"day_of_month()", "{} 29"},
             {"day_of_week()", "{} 4"}, {"day_of_year()", "{} 60"}, {"days_in_month()", "{} 29"},
             {"hour()", "{} 12"}, {"minute()", "{} 34"}, {"time()", "1709210096.999"},
             {"year(vector(-1))", "{} 1969"}, {"day_of_year(vector(-1))", "{} 365"},
             {"day_of_week(vector(-1))", "{} 3"}, {"minute(vector(-1))", "{} 59"},
             {"month(vector(951782400))", "{} 2"}, /* 2000-02-29 */
             {"day_of_month(vector(951782400))", "{} 29"},
             {"days_in_month(vector(4107542400))", "{} 31"}, /* 2100-03-01 00:00 */
             {"days_in_month(vector(4107542399))", "{} 28"}, {"day_of_week(vector(0))", "{} 4"},
             {"hour(vector(3599.9))", "{} 0"}, {"year(vector(1e300))", "{} 292277026596"},
             {"hour(vector(NaN))", "{} 15"},
             /* The last days of leap years: of 400 years, and of four. */
             {"day_of_year(vector(978220800))", "{} 366"}, {"year(vector(978220800))", "{} 2000"},
             {"day_of_year(vector(1104451200))", "{} 366"}, {"year(vector(1104451200))", "{} 2004"},
             {"day_of_month(vector(-11670998400))", "{} 29"}, /* 1600-02-29 */
             {"month(vector(-2203977600))", "{} 2"}, /* 1900-02-28, the last of its month */
             {"month(vector(-2203891200))", "{} 3"});
    CHECK_RANGE(0, 120000, 60000, {"minute()", "{} 0 1 2"});
}

static void scalars_and_vectors(void **state)
{
    (void)state;
    load("x{a=\"1\"}", 60000, "1 2 stale 4");
    load("x{a=\"2\"}", 60000, "_ _ 3 5");
    CHECK_RANGE(0, 180000, 60000, {"scalar(x)", "1 2 3 NaN"}, {"vector(scalar(x))", "{} 1 2 3 NaN"},
                {"vector(time())", "{} 0 60 120 180"}, {"time()", "0 60 120 180"},
                {"timestamp(x{a=\"1\"})", "{a=\"1\"} 0 60 _ 180"},
                {"timestamp(x{a=\"1\"} offset 1m)", "{a=\"1\"} _ 0 60 _"},
                {"timestamp((x{a=\"2\"}))", "{a=\"2\"} _ _ 120 180"},
                {"timestamp(vector(1))", "{} 0 60 120 180"},
                {"timestamp(x + 0)", "{a=\"1\"} 0 60 _ 180; {a=\"2\"} _ _ 120 180"},
                {"pi() - 3", "0.14159265358979312 0.14159265358979312 0.14159265358979312 "
                             "0.14159265358979312"});
    CHECK_AT(30000, {"timestamp(x{a=\"1\"})", "{a=\"1\"} 0"}, {"scalar(nothing)", "NaN"});
}

/* Labels by what Prometheus 2.42 answered. */
static void absence(void **state)
{
    (void)state;
    load("x{a=\"1\"}", 60000, "1 _ stale 4");
    CHECK_AT(0, {"absent(x)", ""}, {"absent(y)", "{} 1"}, {"absent(y{a=\"b\"})", "{a=\"b\"} 1"},
             {"absent((y{a=\"b\"}))", "{a=\"b\"} 1"}, {"absent(y{a=\"b\",a=\"c\"})", "{} 1"},
             {"absent(y{a=\"b\",a=\"b\"})", "{} 1"},
             {"absent(y{a!=\"z\",a=\"c\",b=~\"d\"})", "{a=\"c\"} 1"},
             {"absent(y{a=\"c\",a!=\"z\"})", "{} 1"}, {"absent(y{a=\"\"})", "{} 1"},
             {"absent(sum(y{a=\"b\"}))", "{} 1"}, {"absent(-y{a=\"b\"})", "{} 1"},
             {"absent({__name__=\"y\",a=\"c\"})", "{a=\"c\"} 1"},
             {"absent(y{b=\"2\",a=\"1\"} @ 10)", "{a=\"1\", b=\"2\"} 1"},
             {"absent_over_time(y{a=\"b\"}[5m])", "{a=\"b\"} 1"},
             {"absent_over_time((y{a=\"b\"})[5m:])", "{} 1"}, {"absent_over_time(x[5m])", ""});
    CHECK_RANGE(0, 180000, 60000, {"absent(x)", "{} _ _ 1 _"},
                {"absent_over_time(x[1m])", "{} _ 1 1 _"},
                {"absent_over_time(x[2m])", "{} _ _ 1 _"});
}

static void sorts(void **state)
{
    (void)state;
    load("x{n=\"a10\"}", 60000, "2 7");
    load("x{n=\"a9\"}", 60000, "NaN 7");
    load("x{n=\"b\"}", 60000, "-1 7");
    load("x{n=\"a009\",m=\"1\"}", 60000, "3 7");
    CHECK_AT(
        0, {"sort(x)", "x{n=\"b\"} -1; x{n=\"a10\"} 2; x{m=\"1\", n=\"a009\"} 3; x{n=\"a9\"} NaN"},
        {"sort_desc(x)",
         "x{m=\"1\", n=\"a009\"} 3; x{n=\"a10\"} 2; x{n=\"b\"} -1; x{n=\"a9\"} NaN"},
        {"sort_by_label(x, \"n\")",
         "x{m=\"1\", n=\"a009\"} 3; x{n=\"a9\"} NaN; x{n=\"a10\"} 2; x{n=\"b\"} -1"},
        {"sort_by_label_desc(x, \"n\")",
         "x{n=\"b\"} -1; x{n=\"a10\"} 2; x{n=\"a9\"} NaN; x{m=\"1\", n=\"a009\"} 3"},
        {"sort_by_label(x, \"m\", \"n\")",
         "x{n=\"a9\"} NaN; x{n=\"a10\"} 2; x{n=\"b\"} -1; x{m=\"1\", n=\"a009\"} 3"},
        {"sort(nothing)", ""});
    CHECK_RANGE(
        0, 60000, 60000,
        {"sort(x{n=~\"a10|b\"})",
         "x{n=\"a10\"} 2 7; x{n=\"b\"} -1 7 | PromQL warning: sort is ineffective for range "
         "queries since results are always ordered by labels (1:1)"});
}

static void replaces_labels(void **state)
{
    (void)state;
    load("x{src=\"ab-12\"}", 60000, "1");
    load("x{src=\"other\",dst=\"old\"}", 60000, "2");
    CHECK_AT(0,
             {"label_replace(x, \"dst\", \"$2/$1\", \"src\", \"(.*)-(.*)\")",
              "x{dst=\"12/ab\", src=\"ab-12\"} 1; x{dst=\"old\", src=\"other\"} 2"},
             {"label_replace(x, \"dst\", \"${x}$$y\", \"src\", \"(?P<x>..)-.*\")",
              "x{dst=\"ab$y\", src=\"ab-12\"} 1; x{dst=\"old\", src=\"other\"} 2"},
             {"label_replace(x, \"dst\", \"\", \"src\", \"other\")",
              "x{src=\"ab-12\"} 1; x{src=\"other\"} 2"},
             {"label_replace(x, \"dst\", \"z\", \"src\", \"b-1\")", /* not the whole value */
              "x{dst=\"old\", src=\"other\"} 2; x{src=\"ab-12\"} 1"},
             {"label_replace(x, \"dst\", \"z\", \"none\", \"\")",
              "x{dst=\"z\", src=\"ab-12\"} 1; x{dst=\"z\", src=\"other\"} 2"},
             {"label_replace(x, \"__name__\", \"y\", \"src\", \"other\")",
              "x{src=\"ab-12\"} 1; y{dst=\"old\", src=\"other\"} 2"},
             {"label_replace(x, \"any name\", \"1\", \"src\", \"other\")",
              "x{\"any name\"=\"1\", dst=\"old\", src=\"other\"} 2; x{src=\"ab-12\"} 1"},
             {"label_replace(x, \"src\", \"same\", \"src\", \".*\")",
              "x{dst=\"old\", src=\"same\"} 2; x{src=\"same\"} 1"},
             {"label_replace(x{dst=\"\"} or x{dst=\"old\"}, \"dst\", \"\", \"\", \"\")",
              "x{src=\"ab-12\"} 1; x{src=\"other\"} 2"},
             {"label_replace(label_replace(x, \"src\", \"\", \"src\", \".*\"), \"dst\", \"\", "
              "\"\", \"\")",
              "error: vector cannot contain metrics with the same labelset"},
             {"label_replace(x, \"dst\", \"$1\", \"src\", \"(\")",
              "error: invalid regular expression in label_replace(): ("},
             {"label_replace(x, \"\", \"$1\", \"src\", \"(.*)\")",
              "error: invalid destination label name in label_replace(): "});
}

static void joins_labels(void **state)
{
    (void)state;
    load("x{a=\"1\",b=\"2\"}", 60000, "1");
    CHECK_AT(0,
             {"label_join(x, \"c\", \"-\", \"a\", \"none\", \"b\")",
              "x{a=\"1\", b=\"2\", c=\"1--2\"} 1"},
             {"label_join(x, \"a\", \"-\", \"b\")", "x{a=\"2\", b=\"2\"} 1"},
             {"label_join(x, \"a\", \"-\")", "x{b=\"2\"} 1"},
             {"label_join(x, \"a\", \"\", \"none\")", "x{b=\"2\"} 1"},
             {"label_join(x, \"\", \"-\", \"b\")",
              "error: invalid destination label name in label_join(): "},
             {"label_join(x, \"c\", \"-\", \"\")",
              "error: invalid source label name in label_join(): "});
}

static void adds_info(void **state)
{
    (void)state;
    load("x{job=\"j\",instance=\"1\",v=\"mine\"}", 60000, "1 2 3");
    load("x{job=\"j\",instance=\"2\"}", 60000, "4 5 6");
    load("target_info{job=\"j\",instance=\"1\",v=\"theirs\",env=\"a\",os=\"l\"}", 60000,
         "1 1 stale");
    load("target_info{job=\"j\",instance=\"1\",env=\"b\"}", 60000, "_ _ 1");
    load("build_info{job=\"j\",instance=\"2\",rev=\"r\"}", 60000, "1 1 1");
    CHECK_AT(
        0,
        {"info(x)", "x{env=\"a\", instance=\"1\", job=\"j\", os=\"l\", v=\"mine\"} 1; "
                    "x{instance=\"2\", job=\"j\"} 4"},
        {"info(x, {env=~\".+\"})", "x{env=\"a\", instance=\"1\", job=\"j\", v=\"mine\"} 1"},
        {"info(x, {env=~\"a|\",job=\"j\"})",
         "x{env=\"a\", instance=\"1\", job=\"j\", v=\"mine\"} 1"},
        {"info(x, {env!=\"b\",__name__=\"target_info\"})",
         "x{env=\"a\", instance=\"1\", job=\"j\", v=\"mine\"} 1; x{instance=\"2\", job=\"j\"} 4"},
        {"info(x, {__name__=\"build_info\"})", "x{instance=\"1\", job=\"j\", v=\"mine\"} 1; "
                                               "x{instance=\"2\", job=\"j\", rev=\"r\"} 4"},
        {"info(x, {__name__=~\".*_info\"})",
         "x{env=\"a\", instance=\"1\", job=\"j\", os=\"l\", v=\"mine\"} 1; "
         "x{instance=\"2\", job=\"j\", rev=\"r\"} 4"},
        {"info(target_info)",
         "target_info{env=\"a\", instance=\"1\", job=\"j\", os=\"l\", v=\"theirs\"} 1"},
        {"info(x, {env=~\".*\"})", "x{env=\"a\", instance=\"1\", job=\"j\", v=\"mine\"} 1; "
                                   "x{instance=\"2\", job=\"j\"} 4"},
        {"info(x, y)",
         "error: 1:9: parse error: expected label selectors only, got vector selector "
         "instead"},
        {"info(x, sum({a=\"1\"}))", "error: 1:9: parse error: expected label selectors only, got "
                                    "vector selector instead"},
        {"info({}, {env=\"a\"})", "error: 1:6: parse error: vector selector must contain at least "
                                  "one non-empty matcher"},
        {"info(sum(x))", "{} 5"}, {"info(nothing)", ""});
    CHECK_RANGE(0, 120000, 60000,
                {"info(x{instance=\"1\"})",
                 "x{env=\"a\", instance=\"1\", job=\"j\", os=\"l\", v=\"mine\"} 1 2 _; "
                 "x{env=\"b\", instance=\"1\", job=\"j\", v=\"mine\"} _ _ 3"});
    /* Of two series the one whose sample is newer, whichever comes first. */
    load("x{job=\"j\",instance=\"3\"}", 60000, "_ 7");
    load("target_info{job=\"j\",instance=\"3\",env=\"new\"}", 60000, "_ 1");
    load("target_info{job=\"j\",instance=\"3\",env=\"old\"}", 60000, "1");
    load("x{job=\"j\",instance=\"4\"}", 60000, "_ 8");
    load("target_info{job=\"j\",instance=\"4\",env=\"old\"}", 60000, "1");
    load("target_info{job=\"j\",instance=\"4\",env=\"new\"}", 60000, "_ 1");
    CHECK_AT(90000, {"info(x{instance=~\"3|4\"})", "x{env=\"new\", instance=\"3\", job=\"j\"} 7; "
                                                   "x{env=\"new\", instance=\"4\", job=\"j\"} 8"});
    /* Two that are equally new. */
    load("target_info{job=\"j\",instance=\"1\",env=\"c\"}", 60000, "1");
    CHECK_AT(0,
             {"info(x)", "error: found duplicate series for info metric: two series of one job and "
                         "instance have a sample at 0"});
}

/* Histograms have no value that these could work on. */
static void leave_histograms_out(void **state)
{
    struct prom_histogram *h = histogram_new(0, 1, 1, 0, 0);
    struct test_series *s = add_series("x{a=\"1\"}");

    (void)state;
    h->count = h->positive.counts[0] = 3;
    add_point(s, 0, 0, h);
    load("x{a=\"2\"}", 60000, "5");
    CHECK_AT(0, {"abs(x)", "{a=\"2\"} 5"}, {"round(x)", "{a=\"2\"} 5"},
             {"clamp(x, 0, 1)", "{a=\"2\"} 1"}, {"hour(x)", "{a=\"2\"} 0"},
             {"sort(x)", "x{a=\"2\"} 5"}, {"scalar(x)", "5"}, {"absent(x)", ""},
             {"timestamp(x)", "{a=\"1\"} 0; {a=\"2\"} 0"},
             {"sort_by_label_desc(x, \"a\")", "x{a=\"2\"} 5; x{a=\"1\"} {count:3, sum:0, (1,2]:3}"},
             {"label_join(x, \"b\", \"\", \"a\")",
              "x{a=\"1\", b=\"1\"} {count:3, sum:0, (1,2]:3}; x{a=\"2\", b=\"2\"} 5"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(mathematics, setup, setup),
        cmocka_unit_test_setup_teardown(clamps, setup, setup),
        cmocka_unit_test_setup_teardown(dates, setup, setup),
        cmocka_unit_test_setup_teardown(scalars_and_vectors, setup, setup),
        cmocka_unit_test_setup_teardown(absence, setup, setup),
        cmocka_unit_test_setup_teardown(sorts, setup, setup),
        cmocka_unit_test_setup_teardown(replaces_labels, setup, setup),
        cmocka_unit_test_setup_teardown(joins_labels, setup, setup),
        cmocka_unit_test_setup_teardown(adds_info, setup, setup),
        cmocka_unit_test_setup_teardown(leave_histograms_out, setup, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
