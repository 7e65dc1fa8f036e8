/* test_promql_parse.c -- texts of PromQL, what they are printed as, and what is said of those that
 * are none. Printed forms and messages are those that the documentation of Prometheus and its 2.42
 * have; the conformance test asks Prometheus itself (test/e2e/promql.test.js). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "query/promql.h"

static struct expr *parse(struct arena *a, const char *text, struct otl_error *err)
{
    struct expr *e = NULL;

    arena_init(a, 64 << 20);
    if (promql_parse(a, bytes_str(text), &e, err) != OTL_OK)
        assert_null(e);
    return e;
}

static void prints(const char *text, const char *want, enum prom_type type)
{
    struct otl_error err;
    struct arena a;
    struct buf out = {0};
    struct expr *e = parse(&a, text, &err), *again;

    if (e == NULL)
        fail_msg("%s: %s", text, err.msg);
    promql_print(&out, e);
    assert_string_equal(buf_cstr(&out), want);
    assert_int_equal(e->type, type);
    /* Printed and read again it is the same. */
    assert_int_equal(promql_parse(&a, buf_bytes(&out), &again, &err), OTL_OK);
    buf_fini(&out);
    promql_print(&out, again);
    assert_string_equal(buf_cstr(&out), want);
    buf_fini(&out);
    arena_fini(&a);
}

static void refused(const char *text, const char *message)
{
    struct otl_error err;
    struct arena a;
    struct expr *e = parse(&a, text, &err);

    if (e != NULL)
        fail_msg("%s was taken", text);
    if (strstr(err.msg, message) == NULL)
        fail_msg("%s: %s, not %s", text, err.msg, message);
    arena_fini(&a);
}

static void literals(void **state)
{
    static const char *const c[][2] = {
        {"1", "1"},
        {"-1", "-1"},
        {"--1", "1"},
        {"+1", "1"},
        {".5", "0.5"},
        {"5.", "5"},
        {"1e3", "1000"},
        {"1e21", "1e+21"},
        {"0x1F", "31"},
        {"017", "15"},
        {"08", "8"},
        {"Inf", "+Inf"},
        {"-inF", "-Inf"},
        {"NaN", "NaN"},
        {"1e-5", "1e-05"},
        {"123456789", "1.23456789e+08"},
        {"5m", "5m"},
        {"1h30m", "1h30m"},
        {"90s", "1m30s"},
        {"1 # and\n", "1"},
        {"2 ^ 3 ^ 2", "2 ^ 3 ^ 2"},
        {"-2 ^ 2", "-2 ^ 2"},
        {"1 + 2 * 3 % 4", "1 + 2 * 3 % 4"},
        {"(1+2)*3", "(1 + 2) * 3"},
        {"1 == bool 2", "1 == bool 2"},
        {"1 atan2 2", "1 atan2 2"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++)
        prints(c[i][0], c[i][1], PROM_SCALAR);
    prints("'a\\'b\"\\n\\u00fc\\x41\\101'", "\"a'b\\\"\\nüAA\"", PROM_STRING);
    prints("`raw\\n`", "\"raw\\\\n\"", PROM_STRING);
}

/* -2 ^ 2 is -(2 ^ 2), 2 ^ 3 ^ 2 is 2 ^ (3 ^ 2), a - b - c is (a - b) - c. */
static void operators_bind_as_they_do(void **state)
{
    struct otl_error err;
    struct arena a;
    struct expr *e = parse(&a, "-2 ^ 2", &err);

    (void)state;
    assert_int_equal(e->kind, EXPR_NEGATE);
    arena_fini(&a);
    e = parse(&a, "2 ^ 3 ^ 2", &err);
    assert_int_equal(e->u.binary.right->kind, EXPR_BINARY);
    arena_fini(&a);
    e = parse(&a, "a - b - c", &err);
    assert_int_equal(e->u.binary.left->kind, EXPR_BINARY);
    arena_fini(&a);
    e = parse(&a, "a or b and c == d + e * f ^ g", &err);
    assert_int_equal(e->u.binary.op, OP_OR);
    e = e->u.binary.right;
    assert_int_equal(e->u.binary.op, OP_AND);
    e = e->u.binary.right;
    assert_int_equal(e->u.binary.op, OP_EQ);
    e = e->u.binary.right;
    assert_int_equal(e->u.binary.op, OP_ADD);
    e = e->u.binary.right;
    assert_int_equal(e->u.binary.op, OP_MUL);
    assert_int_equal(e->u.binary.right->u.binary.op, OP_POW);
    arena_fini(&a);
    e = parse(&a, "-a offset 5m", &err); /* the offset is a's */
    assert_int_equal(e->kind, EXPR_NEGATE);
    assert_int_equal(e->u.of->u.selector.modifiers.offset_ms, 300000);
    arena_fini(&a);
}

static void selectors(void **state)
{
    static const char *const c[][2] = {
        {"a", "a"},
        {"a{}", "a"},
        {"a { b = 'c' , }", "a{b=\"c\"}"},
        {"a:b{c!=\"d\",e=~\"f\",g!~`h`}", "a:b{c!=\"d\",e=~\"f\",g!~\"h\"}"},
        {"{__name__=\"a\"}", "{__name__=\"a\"}"},
        {"{\"http.requests\",\"http.route\"=\"/\"}", "{\"http.requests\",\"http.route\"=\"/\"}"},
        {"{\"plain\"}", "plain"},
        {"sum", "sum"},
        {"by", "by"},
        {"a offset 5m", "a offset 5m"},
        {"a offset -90s", "a offset -1m30s"},
        {"a offset 300", "a offset 5m"},
        {"a @ 10", "a @ 10.000"},
        {"a @ -1.5", "a @ -1.500"},
        {"a @ end() offset 1h", "a @ end() offset 1h"},
        {"a offset 1h @ start()", "a @ start() offset 1h"},
    };
    static const char *const r[][2] = {
        {"a[5m]", "a[5m]"},
        {"a[300]", "a[5m]"},
        {"a[1d]", "a[1d]"},
        {"a[36h] offset 1w", "a[36h] offset 1w"},
        {"a[5m:1m]", "a[5m:1m]"},
        {"a[5m:]", "a[5m:]"},
        {"rate(a[5m])[1h:5m] @ end() offset 5m", "rate(a[5m])[1h:5m] @ end() offset 5m"},
        {"(a + b)[5m:1m]", "(a + b)[5m:1m]"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++)
        prints(c[i][0], c[i][1], PROM_VECTOR);
    for (size_t i = 0; i < sizeof(r) / sizeof(r[0]); i++)
        prints(r[i][0], r[i][1], PROM_MATRIX);
}

static void vectors(void **state)
{
    static const char *const c[][2] = {
        {"SUM(a)by(b)", "sum by (b) (a)"},
        {"sum without () (a)", "sum without () (a)"},
        {"sum by () (a)", "sum(a)"},
        {"avg by (on, \"a b\", inf) (a)", "avg by (on, \"a b\", inf) (a)"},
        {"topk by (x) (5, a)", "topk by (x) (5, a)"},
        {"count_values('v', a)", "count_values(\"v\", a)"},
        {"limitk(2, a)", "limitk(2, a)"},
        {"rate(a[5m])", "rate(a[5m])"},
        {"round(a)", "round(a)"},
        {"label_join(a, \"d\", \",\", \"x\", \"y\")", "label_join(a, \"d\", \",\", \"x\", \"y\")"},
        {"a + on(b) c", "a + on (b) c"},
        {"a + on() c", "a + on () c"},
        {"a / ignoring(b) group_left c", "a / ignoring (b) group_left () c"},
        {"a > bool on(b) group_right(d,e) c", "a > bool on (b) group_right (d, e) c"},
        {"a and on(b) c unless d", "a and on (b) c unless d"},
        {"-a", "-a"},
        {"+(a)", "+(a)"},
        {"a * 5m", "a * 5m"},
        {"hour()", "hour()"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++)
        prints(c[i][0], c[i][1], PROM_VECTOR);
    prints("time()", "time()", PROM_SCALAR);
    prints("scalar(a) + 1", "scalar(a) + 1", PROM_SCALAR);
}

static void what_is_wrong_and_where(void **state)
{
    static const char *const c[][2] = {
        {"", "1:1: parse error: no expression found in input"},
        {"sum(", "1:5: parse error: unexpected end of input"},
        {"a\n  +", "2:4: parse error: unexpected end of input"},
        {"a b", "1:3: parse error: unexpected identifier \"b\""},
        {"a)", "1:2: parse error: unexpected \")\""},
        {"{}", "1:1: parse error: vector selector must contain at least one non-empty matcher"},
        {"a{b}", "1:4: parse error: unexpected \"}\" in label matching"},
        {"a{b=}", "unexpected \"}\" in label matching, expected string"},
        {"a{\"b\"}", "metric name must not be set twice: \"a\" or \"b\""},
        {"a{__name__=\"b\"}", "metric name must not be set twice"},
        {"a[5m", "unexpected end of input in matrix selector, expected \"]\""},
        {"a[0s]", "1:3: parse error: duration must be greater than 0"},
        {"a[5mm]", "bad number or duration syntax: \"5mm\""},
        {"1m1h", "bad number or duration syntax"},
        {"1e", "bad number or duration syntax"},
        {"0x", "bad number or duration syntax"},
        {"(a)[5m]", "ranges only allowed for vector selectors"},
        {"a offset 5m [5m]", "no offset modifiers allowed before range"},
        {"a @ 5 [5m]", "no @ modifiers allowed before range"},
        {"a[5m][5m]", "ranges only allowed for vector selectors"},
        {"a offset 5m offset 5m", "offset may not be set multiple times"},
        {"a @ 1 @ 2", "@ <timestamp> may not be set multiple times"},
        {"a @ NaN", "timestamp out of bounds for @ modifier"},
        {"1 offset 5m", "offset modifier must be preceded by"},
        {"1[5m:1m]", "subquery is only allowed on instant vector, got scalar instead"},
        {"nope(a)", "1:1: parse error: unknown function with name \"nope\""},
        {"rate(a)", "expected type range vector in call to function \"rate\", got instant vector"},
        {"abs()", "expected 1 argument(s) in call to \"abs\", got 0"},
        {"round(a, 1, 2)", "expected at most 2 argument(s) in call to \"round\", got 3"},
        {"label_join(a)", "expected at least 3 argument(s) in call to \"label_join\", got 1"},
        {"abs(a,)", "trailing commas not allowed in function call args"},
        {"sum()", "no arguments for aggregate expression provided"},
        {"sum(a, b)",
         "wrong number of arguments for aggregate expression provided, expected 1, got 2"},
        {"sum(1)", "expected type instant vector in aggregation expression, got scalar"},
        {"topk(\"x\", a)", "expected type scalar in aggregation parameter, got string"},
        {"sum by (a) (b) by (c)", "unexpected <by> in aggregation"},
        {"1 == 1", "comparisons between scalars must use BOOL modifier"},
        {"a + bool b", "bool modifier can only be used on comparison operators"},
        {"\"a\" + 1", "binary expression must contain only scalar and instant vector types"},
        {"1 + on(a) b", "vector matching only allowed between instant vectors"},
        {"1 and b", "set operator \"and\" not allowed in binary scalar expression"},
        {"a and on(b) group_left c", "no grouping allowed for \"and\" operation"},
        {"a + on(b) group_left(b) c", "label \"b\" must not occur in ON and GROUP clause at once"},
        {"-\"a\"", "unary expression only allowed on expressions of type scalar or instant vector, "
                   "got \"string\""},
        {"\"a", "unterminated quoted string"},
        {"`a", "unterminated raw string"},
        {"\"\\q\"", "escape sequence"},
        {"\"\\ud800\"", "escape sequence"},
        {"a ; b", "unexpected character: ';'"},
        {"\x80", "unexpected character: 0x80"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++)
        refused(c[i][0], c[i][1]);
}

/* What recursion could not bear is refused, on the way down and on the way up. */
static void depth_is_bounded(void **state)
{
    struct buf text = {0};

    (void)state;
    for (int i = 0; i < 100000; i++)
        buf_add_char(&text, '(');
    refused(buf_cstr(&text), "nested more than");
    buf_reset(&text);
    for (int i = 0; i < 100000; i++)
        buf_add_char(&text, '-');
    refused(buf_cstr(&text), "nested more than");
    buf_reset(&text);
    buf_add_str(&text, "a");
    for (int i = 0; i < 5000; i++)
        buf_add_str(&text, "+a");
    refused(buf_cstr(&text), "nested more than");
    text.n = 1 + 2 * 1500UL; /* fifteen hundred terms are fine */
    {
        struct otl_error err;
        struct arena a;

        assert_non_null(parse(&a, buf_cstr(&text), &err));
        arena_fini(&a);
    }
    buf_fini(&text);
}

static void long_ones_are_formatted_over_lines(void **state)
{
    struct otl_error err;
    struct arena a;
    struct buf out = {0};
    struct expr *e =
        parse(&a,
              "sum by (service, environment) (rate(http_server_requests_total{environment="
              "\"production\"}[5m])) / sum by (service) (up{environment=\"production\"})",
              &err);

    (void)state;
    assert_non_null(e);
    promql_format(&out, e);
    assert_string_equal(buf_cstr(&out),
                        "  sum by (service, environment) "
                        "(rate(http_server_requests_total{environment=\"production\"}[5m]))\n"
                        "/\n"
                        "  sum by (service) (up{environment=\"production\"})");
    buf_fini(&out);
    arena_fini(&a);
}

static void durations(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } c[] = {{"5m", 300000},
             {"1h30m", 5400000},
             {"1.5", 1500},
             {"90", 90000},
             {"1y", INT64_C(31536000000)},
             {"1w2d3h4m5s6ms", INT64_C(788645006)},
             {"0", 0},
             {"-5m", -300000}};
    static const char *const bad[] = {"",    "m",   "1h1h",  "1m1h",           "5 m",
                                      "5mm", "abc", "1e999", "99999999999999y"};
    int64_t ms;

    (void)state;
    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        assert_true(promql_duration(bytes_str(c[i].text), &ms));
        assert_int_equal(ms, c[i].ms);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(promql_duration(bytes_str(bad[i]), &ms));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(literals),
        cmocka_unit_test(operators_bind_as_they_do),
        cmocka_unit_test(selectors),
        cmocka_unit_test(vectors),
        cmocka_unit_test(what_is_wrong_and_where),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(long_ones_are_formatted_over_lines),
        cmocka_unit_test(durations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
