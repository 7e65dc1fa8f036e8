/* The result files of otlite-bench: what a table becomes as JSON and Markdown, and where a plot
 * puts its points. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "../../bench/machine.c"
#include "../../bench/plot.c"
#include "../../bench/result.c"

static const struct result_column columns[] = {
    {"case", "case", -1},
    {"points_per_second", "points/s", 0},
    {"p99_ms", "p99, ms", 2},
    {NULL, NULL, 0},
};

static char dir[64];

static int set_up(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/otlite-result.XXXXXX");
    return mkdtemp(dir) == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    static const char *const names[] = {
        "a/b/t.json", "a/b/t.md", "a/b/t.svg", "a/b/machine.json", "a/b/machine.md", "a/b",
        "a",          "file",     ""};
    char path[128];

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        (void)remove(path);
    }
    return 0;
}

static struct result *open_result(void)
{
    char path[128];
    struct result *r = NULL;
    struct otl_error err = {0};
    enum otl_err rc;

    snprintf(path, sizeof(path), "%s/a/b", dir);
    rc = result_open(path, "t", "A <title>", "otlite-bench x --y 'z'", columns, &r, &err);
    assert_string_equal(err.msg, "");
    assert_int_equal(rc, OTL_OK);
    return r;
}

static void close_result(struct result *r)
{
    struct otl_error err = {0};
    enum otl_err rc = result_close(r, &err);

    assert_string_equal(err.msg, "");
    assert_int_equal(rc, OTL_OK);
}

/* The file's text, in memory that lives until the next call. */
static const char *text_of(const char *name)
{
    static char text[65536];
    char path[128];
    size_t n;
    FILE *f;

    snprintf(path, sizeof(path), "%s/a/b/%s", dir, name);
    f = fopen(path, "r");
    if (f == NULL)
        return NULL;
    n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[n] = '\0';
    return text;
}

static void add_rows(struct result *r)
{
    result_begin_row(r);
    result_text(r, "a|b");
    result_number(r, 1234567.4);
    result_number(r, -1234.5);
    result_end_row(r);
    result_begin_row(r);
    result_text(r, "\"quoted\"");
    result_number(r, NAN);
    result_number(r, 0.125);
    result_end_row(r);
    result_begin_row(r);
    result_text(r, "short");
    result_end_row(r);
}

static void markdown_is_the_table_and_its_notes(void **state)
{
    struct result *r = open_result();

    (void)state;
    add_rows(r);
    result_note(r, "%d of %d", 1, 2);
    close_result(r);
    assert_string_equal(text_of("t.md"), "| case | points/s | p99, ms |\n"
                                         "|---|---:|---:|\n"
                                         "| a\\|b | 1,234,567 | -1,234.50 |\n"
                                         "| \"quoted\" |  | 0.12 |\n"
                                         "| short |  |  |\n"
                                         "\n"
                                         "- 1 of 2\n");
    assert_null(text_of("t.svg"));
}

static void json_holds_all_and_the_machine(void **state)
{
    const double x[] = {1, 2}, y[] = {0.5, NAN};
    struct result *r = open_result();
    json_t *root, *row, *plot;
    json_error_t problem;

    (void)state;
    add_rows(r);
    result_note(r, "note");
    result_panel(r, "over time");
    result_series(r, "s", x, y, 2);
    result_plot(r, "seconds", "points/s", false, false);
    close_result(r);
    root = json_loads(text_of("t.json"), 0, &problem);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "name")), "t");
    assert_string_equal(json_string_value(json_object_get(root, "title")), "A <title>");
    assert_string_equal(json_string_value(json_object_get(root, "command")),
                        "otlite-bench x --y 'z'");
    assert_int_equal(json_array_size(json_object_get(root, "rows")), 3);
    row = json_array_get(json_object_get(root, "rows"), 0);
    assert_string_equal(json_string_value(json_object_get(row, "case")), "a|b");
    assert_true(json_number_value(json_object_get(row, "points_per_second")) == 1234567.4);
    row = json_array_get(json_object_get(root, "rows"), 1);
    assert_true(json_is_null(json_object_get(row, "points_per_second")));
    assert_true(json_number_value(json_object_get(row, "p99_ms")) == 0.125);
    assert_int_equal(json_array_size(json_object_get(root, "notes")), 1);
    plot = json_array_get(json_object_get(root, "plots"), 0);
    assert_string_equal(json_string_value(json_object_get(plot, "title")), "over time");
    plot = json_array_get(json_object_get(plot, "series"), 0);
    assert_true(json_number_value(json_array_get(json_object_get(plot, "y"), 0)) == 0.5);
    assert_true(json_is_null(json_array_get(json_object_get(plot, "y"), 1)));
    assert_non_null(json_object_get(json_object_get(root, "machine"), "processor"));
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(root, "machine"), "otlite")),
        OTLITE_VERSION);
    json_decref(root);
    root = json_loads(text_of("machine.json"), 0, &problem);
    assert_non_null(root);
    json_decref(root);
    assert_non_null(strstr(text_of("machine.md"), "| otlite | " OTLITE_VERSION " |\n"));
}

/* The area is 660 wide from 76 on and 200 high. One panel with a title and one series: the area's
 * top is at 40 + 24 + 8 = 72, its bottom at 272. x from 0 to 10, y from 0 to 100. */
static void points_are_where_the_axes_say(void **state)
{
    const double x[] = {0, 5, 10}, y[] = {0, 100, 25};
    struct result *r = open_result();

    (void)state;
    result_panel(r, "p");
    result_series(r, "s", x, y, 3);
    result_plot(r, "x", "y", false, false);
    close_result(r);
    assert_non_null(strstr(text_of("t.svg"), " d=\"M76.0 272.0L406.0 72.0L736.0 222.0\"/>"));
    assert_non_null(strstr(text_of("t.svg"), "<title>A &lt;title></title>"));
}

/* Logarithmic from 10 to 1,000: 100 is in the middle. A second panel is drawn below the first. The
 * percentile axis from 0 to 99: 90 is in the middle. */
static void scales_are_what_they_are_called(void **state)
{
    const double x[] = {10, 100, 1000}, y[] = {1, 10, 100}, p[] = {0, 90, 99};
    struct result *r = open_result();

    (void)state;
    result_series(r, "s", x, y, 3);
    result_plot(r, "x", "y", true, true);
    result_panel(r, NULL);
    result_series(r, "s", p, y, 3);
    result_plot_percentiles(r, "x", "y");
    close_result(r);
    /* Without a title the area begins 16 below the panel; panels are 16 + 200 + 56 high. */
    assert_non_null(strstr(text_of("t.svg"), " d=\"M76.0 256.0L406.0 156.0L736.0 56.0\"/>"));
    assert_non_null(strstr(text_of("t.svg"), " d=\"M76.0 528.0L406.0 428.0L736.0 328.0\"/>"));
}

static void what_cannot_be_drawn_interrupts_the_line(void **state)
{
    const double x[] = {0, 1, 2, 3, 4}, y[] = {0, 4, NAN, 4, 0};
    const double none[] = {0};
    struct result *r = open_result();

    (void)state;
    result_series(r, "s", x, y, 5);
    result_series(r, "empty", none, none, 0);
    result_plot(r, "x", "y", false, true); /* 0 has no logarithm: linear */
    close_result(r);
    /* Two series have a legend, 20 high. */
    assert_non_null(
        strstr(text_of("t.svg"), " d=\"M76.0 276.0L241.0 76.0M571.0 76.0L736.0 276.0\"/>"));
}

static void bad_names_and_places_are_refused(void **state)
{
    char path[128];
    struct result *r;
    struct otl_error err = {0};
    FILE *f;

    (void)state;
    assert_int_equal(result_open(NULL, "../t", "t", "c", columns, &r, &err), OTL_ECONFIG);
    assert_int_equal(result_open(NULL, "", "t", "c", columns, &r, &err), OTL_ECONFIG);
    snprintf(path, sizeof(path), "%s/file", dir);
    f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
    assert_int_equal(result_open(path, "t", "t", "c", columns, &r, &err), OTL_EIO);
    assert_non_null(strstr(err.msg, path));
    strcat(path, "/below");
    assert_int_equal(result_open(path, "t", "t", "c", columns, &r, &err), OTL_EIO);
}

static void median_is_the_middle(void **state)
{
    double odd[] = {9, 1, 5}, even[] = {4, 1, 3, 2};

    (void)state;
    assert_true(median(odd, 3) == 5);
    assert_true(median(even, 4) == 2.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(markdown_is_the_table_and_its_notes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(json_holds_all_and_the_machine, set_up, tear_down),
        cmocka_unit_test_setup_teardown(points_are_where_the_axes_say, set_up, tear_down),
        cmocka_unit_test_setup_teardown(scales_are_what_they_are_called, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_drawn_interrupts_the_line, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(bad_names_and_places_are_refused, set_up, tear_down),
        cmocka_unit_test(median_is_the_middle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
