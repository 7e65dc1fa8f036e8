/* The pull reader, with jansson as the oracle: whatever jansson accepts, the reader accepts with
 * the same values, and what jansson refuses as syntax the reader refuses too. Known differences:
 * numbers beyond 64 bits or double, lone surrogates, bytes that are not UTF-8, NUL in a key, and
 * that jansson 2.14 swallows a NUL byte right behind a number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "otlite/json_reader.h"
#include "random.h"
#include "shared_case.h"

enum { MAX_DEPTH = 300 };

/* ---- a tree from events, to compare with jansson's ---- */

static json_t *tree_value(struct json_reader *r, enum json_event ev);

/* The reader must not fail on what jansson took. */
static enum json_event next_good(struct json_reader *r)
{
    enum json_event ev = json_next(r);

    if (ev == JSON_EV_ERROR)
        fail_msg("refused, %s at %zu: %.*s", r->error_text, r->error_at, (int)(r->end - r->start),
                 (const char *)r->start);
    return ev;
}

static json_t *tree_number(struct bytes text)
{
    if (memchr(text.p, '.', text.n) == NULL && memchr(text.p, 'e', text.n) == NULL &&
        memchr(text.p, 'E', text.n) == NULL) {
        int64_t i = 0;

        assert_int_equal(json_parse_signed(text, INT64_MIN, INT64_MAX, &i), JSON_NUMBER_OK);
        return json_integer(i);
    }
    double d = 0;

    assert_int_equal(json_parse_double(text, &d), JSON_NUMBER_OK);
    return json_real(d);
}

static json_t *tree_object(struct json_reader *r)
{
    json_t *o = json_object();

    for (;;) {
        enum json_event ev = next_good(r);
        struct bytes key = r->text;

        if (ev == JSON_EV_OBJECT_END)
            return o;
        assert_int_equal(ev, JSON_EV_KEY);
        json_t *v = tree_value(r, next_good(r));

        assert_int_equal(json_object_setn_new(o, key.n ? (const char *)key.p : "", key.n, v), 0);
    }
}

static json_t *tree_array(struct json_reader *r)
{
    json_t *a = json_array();

    for (;;) {
        enum json_event ev = next_good(r);

        if (ev == JSON_EV_ARRAY_END)
            return a;
        assert_int_equal(json_array_append_new(a, tree_value(r, ev)), 0);
    }
}

static json_t *tree_value(struct json_reader *r, enum json_event ev)
{
    switch (ev) {
    case JSON_EV_OBJECT:
        return tree_object(r);
    case JSON_EV_ARRAY:
        return tree_array(r);
    case JSON_EV_STRING:
        return json_stringn(r->text.n ? (const char *)r->text.p : "", r->text.n);
    case JSON_EV_NUMBER:
        return tree_number(r->text);
    case JSON_EV_TRUE:
        return json_true();
    case JSON_EV_FALSE:
        return json_false();
    case JSON_EV_NULL:
        return json_null();
    default:
        fail_msg("unexpected event %d: %s", (int)ev, r->error_text);
        return NULL;
    }
}

/* Read all events; the last one. */
static enum json_event drain(struct json_reader *r)
{
    enum json_event ev;

    do
        ev = json_next(r);
    while (ev != JSON_EV_ERROR && ev != JSON_EV_END);
    return ev;
}

static bool accepts(struct bytes text)
{
    struct guarded body = guarded_copy(text);
    struct json_reader r;
    struct arena a;
    bool ok;

    arena_init(&a, 1 << 20);
    json_reader_init(&r, body.b, MAX_DEPTH, &a);
    ok = drain(&r) == JSON_EV_END;
    if (!ok) {
        assert_int_equal(r.error_code, OTL_EBADDATA);
        assert_non_null(r.error_text);
        assert_true(r.error_at <= text.n);
        assert_int_equal(json_next(&r), JSON_EV_ERROR);
    }
    arena_fini(&a);
    guarded_free(&body);
    return ok;
}

static bool accepts_str(const char *s)
{
    return accepts(bytes_str(s));
}

static struct json_reader reader; /* of the test at hand */
static struct arena arena;

static void begin(const char *s)
{
    json_reader_init(&reader, bytes_str(s), MAX_DEPTH, &arena);
}

static int setup(void **state)
{
    (void)state;
    arena_init(&arena, 1 << 20);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

static void assert_text(const char *want, size_t n)
{
    assert_int_equal(reader.text.n, n);
    if (n > 0)
        assert_memory_equal(reader.text.p, want, n);
}

/* ---- structure ---- */

static void gives_events_in_order(void **state)
{
    (void)state;
    begin(" { \"a\" : [ 1 , true,false,null , \"x\" ] ,\t\"b\":{} ,\r\n\"c\":[]}\n");
    assert_int_equal(json_next(&reader), JSON_EV_OBJECT);
    assert_int_equal(json_next(&reader), JSON_EV_KEY);
    assert_text("a", 1);
    assert_int_equal(json_next(&reader), JSON_EV_ARRAY);
    assert_int_equal(json_count_scalars(&reader), 5);
    assert_int_equal(json_next(&reader), JSON_EV_NUMBER);
    assert_text("1", 1);
    assert_int_equal(json_next(&reader), JSON_EV_TRUE);
    assert_int_equal(json_next(&reader), JSON_EV_FALSE);
    assert_int_equal(json_next(&reader), JSON_EV_NULL);
    assert_int_equal(json_next(&reader), JSON_EV_STRING);
    assert_text("x", 1);
    assert_int_equal(json_next(&reader), JSON_EV_ARRAY_END);
    assert_int_equal(json_next(&reader), JSON_EV_KEY);
    assert_int_equal(json_next(&reader), JSON_EV_OBJECT);
    assert_int_equal(json_next(&reader), JSON_EV_OBJECT_END);
    assert_int_equal(json_next(&reader), JSON_EV_KEY);
    assert_int_equal(json_next(&reader), JSON_EV_ARRAY);
    assert_int_equal(json_next(&reader), JSON_EV_ARRAY_END);
    assert_int_equal(json_next(&reader), JSON_EV_OBJECT_END);
    assert_int_equal(json_next(&reader), JSON_EV_END);
    assert_int_equal(json_next(&reader), JSON_EV_END);
}

static void refuses_malformed_structure(void **state)
{
    /* clang-format off */
    static const char *const bad[] = {
        "", " ", "{", "[", "}", "]", "{]", "[}", "[1,]", "[,1]", "[1 2]", "[1,,2]", "{\"a\"}",
        "{\"a\":}", "{\"\":}", "{a:1}", "{\"a\" 1}", "{\"a\":1,}", "{,}", "{1:2}",
        "{\"a\":1 \"b\":2}", "nul", "nulll", "tru", "True", "NaN", "Infinity", "-Infinity",
        "{}{}", "{} x", "[]]", "{}}", "1 2", "'a'", "/* */1", "\xef\xbb\xbf{}", "[\"a\":1]",
        "{\"a\",1}", "undefined", "\f1", ("\xc2\xa0" "1")
    };
    /* clang-format on */

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (accepts_str(bad[i]))
            fail_msg("accepted: %s", bad[i]);
    }
    assert_false(accepts(bytes_of("{}\0", 3)));
    assert_false(accepts(bytes_of(NULL, 0)));
}

static void says_what_is_wrong_and_where(void **state)
{
    (void)state;
    begin("{\"a\":[1,2}");
    assert_int_equal(drain(&reader), JSON_EV_ERROR);
    assert_int_equal(reader.error_at, 9);
    assert_string_equal(reader.error_text, "',' or ']' is missing");
    begin("\xef\xbb\xbf{}");
    assert_int_equal(drain(&reader), JSON_EV_ERROR);
    assert_non_null(strstr(reader.error_text, "byte order mark"));
    begin("");
    assert_int_equal(drain(&reader), JSON_EV_ERROR);
    assert_string_equal(reader.error_text, "the body is empty");
}

static void bounds_the_depth(void **state)
{
    char deep[2 * (MAX_DEPTH + 1)];
    size_t n = 200000;
    char *brackets = malloc(n);

    (void)state;
    memset(deep, '[', MAX_DEPTH);
    memset(deep + MAX_DEPTH, ']', MAX_DEPTH);
    assert_true(accepts(bytes_of(deep, 2 * MAX_DEPTH)));
    memset(deep, '[', MAX_DEPTH + 1);
    memset(deep + MAX_DEPTH + 1, ']', MAX_DEPTH + 1);
    assert_false(accepts(bytes_of(deep, sizeof(deep))));
    assert_non_null(brackets);
    memset(brackets, '[', n);
    assert_false(accepts(bytes_of(brackets, n)));
    free(brackets);
}

static void skips_whole_values_and_still_checks_them(void **state)
{
    /* clang-format off */
    static const char *const values[] = {
        "1", "\"a\\u0041]}\"", "null", "[]", "{}", "[[],{\"a\":[{}]},\"]\",\"\\\"\"]",
        "{\"\":{\"k\":[1,2]}}"
    };
    /* clang-format on */
    char doc[256];

    (void)state;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        size_t before = arena.used;

        snprintf(doc, sizeof(doc), "{\"skip\":%s,\"k\":7}", values[i]);
        begin(doc);
        assert_int_equal(json_next(&reader), JSON_EV_OBJECT);
        assert_int_equal(json_next(&reader), JSON_EV_KEY);
        assert_true(json_skip_value(&reader));
        assert_int_equal(json_next(&reader), JSON_EV_KEY);
        assert_text("k", 1);
        assert_int_equal(json_next(&reader), JSON_EV_NUMBER);
        assert_int_equal(json_next(&reader), JSON_EV_OBJECT_END);
        assert_int_equal(json_next(&reader), JSON_EV_END);
        assert_int_equal(arena.used, before); /* skipping takes no memory */

        snprintf(doc, sizeof(doc), "[%s,7]", values[i]);
        begin(doc);
        assert_int_equal(json_next(&reader), JSON_EV_ARRAY);
        assert_true(json_skip_rest(&reader, json_next(&reader)));
        assert_int_equal(json_next(&reader), JSON_EV_NUMBER);
        assert_text("7", 1);
    }
    begin("{\"skip\":{\"\":}}");
    (void)json_next(&reader);
    (void)json_next(&reader);
    assert_false(json_skip_value(&reader));
    assert_int_equal(json_next(&reader), JSON_EV_ERROR);
}

/* ---- strings ---- */

static void borrows_strings_without_escapes(void **state)
{
    const char *doc = "\"sixteen and more plain bytes\"";

    (void)state;
    begin(doc);
    assert_int_equal(json_next(&reader), JSON_EV_STRING);
    assert_ptr_equal(reader.text.p, doc + 1);
    assert_int_equal(arena.used, 0);
}

static void unescapes(void **state)
{
    (void)state;
    begin("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC\\ud83d\\uDE00\"");
    assert_int_equal(json_next(&reader), JSON_EV_STRING);
    assert_text("\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 18);
    assert_false(reader.text_repaired);
    begin("{\"\\u006e\\u0061me\":\"a\\u0000b\"}");
    (void)json_next(&reader);
    assert_int_equal(json_next(&reader), JSON_EV_KEY);
    assert_text("name", 4);
    assert_int_equal(json_next(&reader), JSON_EV_STRING);
    assert_text("a\0b", 3);
    begin("\"\\uD800\\uDC00\\uDBFF\\uDFFF\"");
    (void)json_next(&reader);
    assert_text("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 8);
}

static void replaces_lone_surrogates(void **state)
{
    (void)state;
    begin("[\"a\\ud83d\",\"\\ude00z\",\"\\ud83d\\ud83d\\ude00\",\"\\ud83dx\\ude00\","
          "\"\\ud83d\\u0041\",\"ok\"]");
    (void)json_next(&reader);
    (void)json_next(&reader);
    assert_text("a\xef\xbf\xbd", 4);
    assert_true(reader.text_repaired);
    (void)json_next(&reader);
    assert_text("\xef\xbf\xbdz", 4);
    (void)json_next(&reader);
    assert_text("\xef\xbf\xbd\xf0\x9f\x98\x80", 7);
    (void)json_next(&reader);
    assert_text("\xef\xbf\xbdx\xef\xbf\xbd", 7);
    (void)json_next(&reader);
    assert_text("\xef\xbf\xbd"
                "A",
                4);
    assert_true(reader.text_repaired);
    (void)json_next(&reader);
    assert_false(reader.text_repaired);
    begin("[\"\\ud83d\\ue000\"]");
    (void)json_next(&reader);
    (void)json_next(&reader);
    assert_text("\xef\xbf\xbd\xee\x80\x80", 6);
}

static void keeps_bytes_that_are_not_utf8(void **state)
{
    (void)state;
    begin("\"a\xff\xc0\xaf\\n\xed\xa0\x80\"");
    assert_int_equal(json_next(&reader), JSON_EV_STRING);
    assert_text("a\xff\xc0\xaf\n\xed\xa0\x80", 8);
    assert_false(reader.text_repaired);
}

static void refuses_malformed_strings(void **state)
{
    /* clang-format off */
    static const char *const bad[] = {
        "\"", "\"a", "\"\\", "\"\\\"", "\"\\x\"", "\"\\u\"", "\"\\u12\"", "\"\\u12g4\"",
        "\"\\u123", "\"\\U0041\"", "\"a\nb\"", "\"a\tb\"", "\"\\ud83d\\q\"", "\"\x1f\"",
        "\"\\'\"", "\"\\ud83d\\u12\"", "\"12345678\x01\""
    };
    /* clang-format on */

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (accepts_str(bad[i]))
            fail_msg("accepted: %s", bad[i]);
    }
    assert_false(accepts(bytes_of("\"a\0b\"", 5)));
    assert_true(accepts_str("\"\x7f\""));
}

static void reports_an_arena_without_room(void **state)
{
    struct arena small;

    (void)state;
    arena_init(&small, 16);
    json_reader_init(&reader, bytes_str("[\"0123456789abcdef\\n\"]"), MAX_DEPTH, &small);
    (void)json_next(&reader);
    assert_int_equal(json_next(&reader), JSON_EV_ERROR);
    assert_int_equal(reader.error_code, OTL_ETOOBIG);
    arena_fini(&small);
}

/* ---- numbers ---- */

static void follows_the_number_grammar(void **state)
{
    /* clang-format off */
    static const char *const good[] = {
        "0", "-0", "1", "-1", "10", "0.5", "1.50", "1e5", "1E+5", "1e-5", "0e0", "-0.0E-0",
        "1e05", "123.456e78", "1e400", "18446744073709551616"
    };
    /* clang-format on */
    /* clang-format off */
    static const char *const bad[] = {
        "-", "+1", "01", "-01", "1.", ".5", "1.e5", "1e", "1e+", "0x1", "1_0", "--1", "1e5.",
        "1.2.3", "0.E--", "inf", "nan", "1f"
    };
    /* clang-format on */
    double d;
    uint64_t u;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        if (!accepts_str(good[i]))
            fail_msg("refused: %s", good[i]);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (accepts_str(bad[i]))
            fail_msg("accepted: %s", bad[i]);
        assert_int_equal(json_parse_double(bytes_str(bad[i]), &d), JSON_NUMBER_SYNTAX);
        assert_int_equal(json_parse_unsigned(bytes_str(bad[i]), UINT64_MAX, &u),
                         JSON_NUMBER_SYNTAX);
    }
    assert_int_equal(json_parse_double(bytes_str(""), &d), JSON_NUMBER_SYNTAX);
    assert_int_equal(json_parse_double(bytes_str(" 1"), &d), JSON_NUMBER_SYNTAX);
    assert_int_equal(json_parse_double(bytes_str("1 "), &d), JSON_NUMBER_SYNTAX);
    assert_int_equal(json_parse_double(bytes_of("1\0", 2), &d), JSON_NUMBER_SYNTAX);
}

static void reads_integers_exactly(void **state)
{
    static const struct {
        const char *text;
        enum json_number rc;
        int64_t value;
    } cases[] = {
        {"0", JSON_NUMBER_OK, 0},
        {"-0", JSON_NUMBER_OK, 0},
        {"42", JSON_NUMBER_OK, 42},
        {"9007199254740993", JSON_NUMBER_OK, 9007199254740993},
        {"9223372036854775807", JSON_NUMBER_OK, INT64_MAX},
        {"9223372036854775808", JSON_NUMBER_RANGE, 0},
        {"-9223372036854775808", JSON_NUMBER_OK, INT64_MIN},
        {"-9223372036854775809", JSON_NUMBER_RANGE, 0},
        {"-18446744073709551616", JSON_NUMBER_RANGE, 0},
        {"1e3", JSON_NUMBER_OK, 1000},
        {"1.0", JSON_NUMBER_OK, 1},
        {"-1.50e1", JSON_NUMBER_OK, -15},
        {"1000e-3", JSON_NUMBER_OK, 1},
        {"9.223372036854775807e18", JSON_NUMBER_OK, INT64_MAX},
        {"9223372036854775807.000", JSON_NUMBER_OK, INT64_MAX},
        {"-922337203685477580800e-2", JSON_NUMBER_OK, INT64_MIN},
        {"0.000000000000000001e18", JSON_NUMBER_OK, 1},
        {"0.00000000000000000000000000000001e32", JSON_NUMBER_OK, 1},
        {"1e-1", JSON_NUMBER_FRACTION, 0},
        {"1.5", JSON_NUMBER_FRACTION, 0},
        {"15e-1", JSON_NUMBER_FRACTION, 0},
        {"1e-99999999999999999999999", JSON_NUMBER_FRACTION, 0},
        {"1e99999999999999999999999", JSON_NUMBER_RANGE, 0},
        {"0e99999999999999999999999", JSON_NUMBER_OK, 0},
        {"0.0e-99999999999999999999999", JSON_NUMBER_OK, 0},
        {"1e18", JSON_NUMBER_OK, 1000000000000000000},
        {"1e19", JSON_NUMBER_RANGE, 0},
        {"1e400", JSON_NUMBER_RANGE, 0},
    };
    uint64_t u = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t v = 0;
        enum json_number rc = json_parse_signed(bytes_str(cases[i].text), INT64_MIN, INT64_MAX, &v);

        if (rc != cases[i].rc || v != cases[i].value)
            fail_msg("%s: rc %d, value %lld", cases[i].text, (int)rc, (long long)v);
    }
    assert_int_equal(json_parse_unsigned(bytes_str("18446744073709551615"), UINT64_MAX, &u),
                     JSON_NUMBER_OK);
    assert_true(u == UINT64_MAX);
    assert_int_equal(json_parse_unsigned(bytes_str("1.8446744073709551615e19"), UINT64_MAX, &u),
                     JSON_NUMBER_OK);
    assert_true(u == UINT64_MAX);
    assert_int_equal(json_parse_unsigned(bytes_str("18446744073709551616"), UINT64_MAX, &u),
                     JSON_NUMBER_RANGE);
    assert_int_equal(json_parse_unsigned(bytes_str("1e19"), UINT64_MAX, &u), JSON_NUMBER_OK);
    assert_true(u == 10000000000000000000u);
    assert_int_equal(json_parse_unsigned(bytes_str("-1"), UINT64_MAX, &u), JSON_NUMBER_RANGE);
    assert_int_equal(json_parse_unsigned(bytes_str("-0"), UINT64_MAX, &u), JSON_NUMBER_OK);
    assert_true(u == 0);
    assert_int_equal(json_parse_unsigned(bytes_str("4294967296"), UINT32_MAX, &u),
                     JSON_NUMBER_RANGE);
}

static void assert_double_is(const char *text)
{
    double want = strtod(text, NULL), got = 0;
    enum json_number rc = json_parse_double(bytes_str(text), &got);

    if (isinf(want)) {
        assert_int_equal(rc, JSON_NUMBER_RANGE);
        return;
    }
    assert_int_equal(rc, JSON_NUMBER_OK);
    if (memcmp(&want, &got, sizeof(want)) != 0)
        fail_msg("%.60s: %.17g, not %.17g", text, got, want);
}

static void reads_the_nearest_double(void **state)
{
    /* clang-format off */
    static const char *const cases[] = {
        "0", "-0", "0.0", "-0.0e5", "1.5", "0.1", "1e22", "1e23", "9007199254740993",
        "9007199254740992.5", "123456789012345678", "1.7976931348623157e308",
        "1.7976931348623159e308", "1e308", "1e309", "-1e400", "4.9e-324",
        "2.4703282292062327e-324", "2.4703282292062328e-324", "1e-400", "1e-99999999999999999999",
        "1e99999999999999999999", "0e99999999999999999999", "2.2250738585072011e-308",
        "2.2250738585072014e-308", "6929495644600919.5",
        "0.500000000000000166533453693773481063544750213623046875", "3.518437208883201171875e13",
        "8.5e22", "-17e-22"
    };
    /* clang-format on */
    char text[64];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_double_is(cases[i]);
    for (int i = 0; i < 50000; i++) {
        uint64_t bits = random_u64();
        double d;

        memcpy(&d, &bits, sizeof(d));
        if (!isfinite(d))
            continue;
        snprintf(text, sizeof(text), "%.*g", 1 + (int)random_below(19), d);
        if (strstr(text, "e+") == NULL || !isinf(strtod(text, NULL)))
            assert_double_is(text);
        snprintf(text, sizeof(text), "%s%u.%0*ue%d", random_below(2) ? "-" : "",
                 random_below(100000), 1 + (int)random_below(9), random_below(1000),
                 (int)random_below(60) - 30);
        assert_double_is(text);
    }
}

/* One digit far behind all that a double needs decides a tie. */
static void reads_long_literals_right(void **state)
{
    size_t n = 5000;
    char *text = malloc(n + 1);

    (void)state;
    assert_non_null(text);
    memset(text, '0', n);
    memcpy(text, "9007199254740993.", 17); /* halfway between two doubles: to even, down */
    text[n] = '\0';
    assert_double_is(text);
    text[n - 1] = '1'; /* above halfway: up */
    assert_double_is(text);
    memset(text, '3', n);
    memcpy(text, "0.", 2);
    assert_double_is(text);
    memset(text, '0', n);
    memcpy(text, "0.", 2);
    text[n - 1] = '7';
    assert_double_is(text); /* underflows to 0 */
    memset(text, '7', n);
    assert_double_is(text); /* overflows */
    memset(text, '1', n);
    memcpy(text + n - 6, "e-4990", 6);
    assert_double_is(text);
    free(text);
}

/* ---- against jansson ---- */

struct gen {
    char *p;
    size_t n, cap;
};

static void gen_add(struct gen *g, const char *s)
{
    size_t n = strlen(s);

    assert_true(g->n + n < g->cap);
    memcpy(g->p + g->n, s, n);
    g->n += n;
}

static void gen_blank(struct gen *g)
{
    /* clang-format off */
    static const char *const blanks[] = {
        "", "", "", "", " ", "\n", "\t", "\r", "  \n"
    };
    /* clang-format on */

    gen_add(g, blanks[random_below(9)]);
}

static void gen_string(struct gen *g)
{
    /* clang-format off */
    static const char *const parts[] = {
        "a", "name", "\\n", "\\\"", "\\\\", "\\/", "\\u0041", "\\u00e9", "\\ud83d\\ude00",
        "\\u0001", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "]", "}", ",", ":",
        "a longer part ", "\\t", "'", "\x7f", "\\uFFFF", "{", "["
    };
    /* clang-format on */

    gen_add(g, "\"");
    for (unsigned i = random_below(6); i > 0; i--)
        gen_add(g, parts[random_below(sizeof(parts) / sizeof(parts[0]))]);
    gen_add(g, "\"");
}

static void gen_number(struct gen *g)
{
    char s[64];

    switch (random_below(5)) {
    case 0:
        snprintf(s, sizeof(s), "%d", (int)random_below(2000) - 1000);
        break;
    case 1:
        snprintf(s, sizeof(s), "%lld", (long long)random_u64());
        break;
    case 2:
        snprintf(s, sizeof(s), "%u.%u", random_below(1000), random_below(1000));
        break;
    case 3:
        snprintf(s, sizeof(s), "-%u%s%s%u", random_below(50), random_below(2) ? "E" : ".5e",
                 random_below(2) ? "+" : "-", random_below(300));
        break;
    default:
        snprintf(s, sizeof(s), "%.17ge0", (double)random_u64() / 1e9);
        if (strchr(s, '+') != NULL)
            snprintf(s, sizeof(s), "0");
        break;
    }
    gen_add(g, s);
}

static void gen_value(struct gen *g, unsigned depth)
{
    unsigned kind = depth == 0 ? 6 + random_below(4) : random_below(depth < 6 ? 10 : 6);
    unsigned n = random_below(5);

    gen_blank(g);
    switch (kind) {
    case 0:
        gen_add(g, "true");
        break;
    case 1:
        gen_add(g, "false");
        break;
    case 2:
        gen_add(g, "null");
        break;
    case 3:
        gen_number(g);
        break;
    case 4:
    case 5:
        gen_string(g);
        break;
    case 6:
    case 7:
        gen_add(g, "[");
        for (unsigned i = 0; i < n; i++) {
            gen_add(g, i > 0 ? "," : "");
            gen_value(g, depth + 1);
        }
        gen_blank(g);
        gen_add(g, "]");
        break;
    default:
        gen_add(g, "{");
        for (unsigned i = 0; i < n; i++) {
            gen_add(g, i > 0 ? "," : "");
            gen_blank(g);
            gen_string(g);
            gen_blank(g);
            gen_add(g, ":");
            gen_value(g, depth + 1);
        }
        gen_blank(g);
        gen_add(g, "}");
        break;
    }
    gen_blank(g);
}

/* Differences that are meant: what jansson refuses though it is good syntax. */
static bool is_listed_difference(const json_error_t *e)
{
    enum json_error_code code = json_error_code(e);

    return code == json_error_invalid_utf8 || code == json_error_numeric_overflow ||
           code == json_error_null_byte_in_key || code == json_error_null_character ||
           strstr(e->text, "invalid Unicode") != NULL;
}

/* Both read doc. True when jansson took it. */
static bool compare(const char *doc, size_t n)
{
    json_error_t e;
    json_t *want = json_loadb(doc, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);

    if (want == NULL) {
        if (!is_listed_difference(&e) && accepts(bytes_of(doc, n)))
            fail_msg("accepted what jansson refuses (%s): %.*s", e.text, (int)n, doc);
        return false;
    }
    struct guarded body = guarded_copy(bytes_of(doc, n));
    struct json_reader r;
    struct arena a;

    arena_init(&a, 1 << 20);
    json_reader_init(&r, body.b, MAX_DEPTH, &a);
    json_t *got = tree_value(&r, json_next(&r));

    assert_int_equal(json_next(&r), JSON_EV_END);
    if (!json_equal(want, got))
        fail_msg("other values than jansson: %.*s", (int)n, doc);
    json_decref(got);
    json_decref(want);
    arena_fini(&a);
    guarded_free(&body);
    return true;
}

static void agrees_with_jansson(void **state)
{
    struct gen g = {malloc(1 << 20), 0, 1 << 20};
    unsigned mutants_taken = 0, mutants = 0;

    (void)state;
    assert_non_null(g.p);
    for (int i = 0; i < 4000; i++) {
        g.n = 0;
        gen_value(&g, 0);
        if (!compare(g.p, g.n))
            fail_msg("the generator made what jansson refuses: %.*s", (int)g.n, g.p);
        for (int k = 0; k < 6 && g.n > 0; k++) {
            static const char likely[] = "{}[]\",:\\0123456789eE+-.utfn \n\x01\x80\xff";
            size_t at = random_below((unsigned)g.n);
            char saved = g.p[at];

            switch (random_below(3)) {
            case 0: /* another byte */
                g.p[at] = likely[random_below(sizeof(likely) - 1)];
                mutants_taken += compare(g.p, g.n);
                g.p[at] = saved;
                break;
            case 1: /* cut short */
                mutants_taken += compare(g.p, at);
                break;
            default: /* one byte less */
                memmove(g.p + at, g.p + at + 1, g.n - at - 1);
                g.n--;
                mutants_taken += compare(g.p, g.n);
                break;
            }
            mutants++;
        }
    }
    /* Both outcomes must have been met often for the comparison to mean something. */
    print_message("%u mutants, of which %u are JSON\n", mutants, mutants_taken);
    assert_true(mutants_taken > 1000 && mutants - mutants_taken > 1000);
    free(g.p);
}

static void takes_what_jansson_cannot(void **state)
{
    /* clang-format off */
    static const char *const docs[] = {
        "18446744073709551615", "1e400", "-99999999999999999999", "\"\\ud83d\"", "\"\xff\"",
        "{\"a\\u0000b\":1}"
    };
    /* clang-format on */

    (void)state;
    for (size_t i = 0; i < sizeof(docs) / sizeof(docs[0]); i++) {
        json_error_t e;

        assert_null(json_loads(docs[i], JSON_DECODE_ANY, &e));
        assert_true(accepts_str(docs[i]));
    }
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(gives_events_in_order),
        CASE(refuses_malformed_structure),
        CASE(says_what_is_wrong_and_where),
        CASE(bounds_the_depth),
        CASE(skips_whole_values_and_still_checks_them),
        CASE(borrows_strings_without_escapes),
        CASE(unescapes),
        CASE(replaces_lone_surrogates),
        CASE(keeps_bytes_that_are_not_utf8),
        CASE(refuses_malformed_strings),
        CASE(reports_an_arena_without_room),
        CASE(follows_the_number_grammar),
        CASE(reads_integers_exactly),
        CASE(reads_the_nearest_double),
        CASE(reads_long_literals_right),
        CASE(agrees_with_jansson),
        CASE(takes_what_jansson_cannot),
    };

    return cmocka_run_group_tests_name("json_reader", tests, NULL, NULL);
}
