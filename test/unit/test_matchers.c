/* Matchers: reading them as people write them, and trying one on values. */
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "otlite/matcher.h"
#include "otlite/read.h"
#include "random.h"

#define assert_text(b, s)                         \
    do {                                          \
        assert_int_equal((b).n, strlen(s));       \
        assert_memory_equal((b).p, s, strlen(s)); \
    } while (0)

/* ---- parsing ---- */

static void parsed(const char *text, size_t n_expected, const struct matcher *expected)
{
    struct otl_error err;
    struct matcher *m;
    void *mem;
    size_t n;

    if (matchers_parse(bytes_str(text), &m, &n, &mem, &err) != OTL_OK)
        fail_msg("%s: %s", text, err.msg);
    assert_int_equal(n, n_expected);
    for (size_t i = 0; i < n; i++) {
        if (m[i].what != expected[i].what || m[i].op != expected[i].op ||
            !bytes_equal(m[i].key, expected[i].key) || !bytes_equal(m[i].value, expected[i].value))
            fail_msg("%s: matcher %zu is what=%d op=%d key=%.*s value=%.*s", text, i, m[i].what,
                     m[i].op, (int)m[i].key.n, (const char *)m[i].key.p, (int)m[i].value.n,
                     (const char *)m[i].value.p);
    }
    free(mem);
}

static struct matcher M(enum match_what what, const char *key, enum match_op op,
                        const char *value) {
    return (struct matcher){what, op, bytes_str(key), bytes_str(value)};
}

static void
reads_what_people_write(void **state)
{
    (void)state;
    parsed("up", 1, (struct matcher[]){M(MATCH_NAME, "", MATCH_EQUAL, "up")});
    parsed(" http.server.duration ", 1,
           (struct matcher[]){M(MATCH_NAME, "", MATCH_EQUAL, "http.server.duration")});
    parsed("{}", 0, NULL);
    parsed("a:b{x=\"1\",y!='2', z=~`3.*`,w!~\"4\",}", 5,
           (struct matcher[]){
               M(MATCH_NAME, "", MATCH_EQUAL, "a:b"), M(MATCH_ANY, "x", MATCH_EQUAL, "1"),
               M(MATCH_ANY, "y", MATCH_NOT_EQUAL, "2"), M(MATCH_ANY, "z", MATCH_REGEX, "3.*"),
               M(MATCH_ANY, "w", MATCH_NOT_REGEX, "4")});
    parsed("{__name__=~\"a|b\",service=\"s\",type=\"sum\",unit=\"ms\",scope=\"lib\"}", 5,
           (struct matcher[]){
               M(MATCH_NAME, "", MATCH_REGEX, "a|b"), M(MATCH_SERVICE, "", MATCH_EQUAL, "s"),
               M(MATCH_TYPE, "", MATCH_EQUAL, "sum"), M(MATCH_UNIT, "", MATCH_EQUAL, "ms"),
               M(MATCH_SCOPE, "", MATCH_EQUAL, "lib")});
    parsed("{\"any name\", \"a-b\" = \"x\" , resource.host.name=\"h\", attribute.type=\"t\"}", 4,
           (struct matcher[]){M(MATCH_NAME, "", MATCH_EQUAL, "any name"),
                              M(MATCH_ANY, "a-b", MATCH_EQUAL, "x"),
                              M(MATCH_RESOURCE, "host.name", MATCH_EQUAL, "h"),
                              M(MATCH_ATTRIBUTE, "type", MATCH_EQUAL, "t")});
}

static void reads_escapes_as_go_does(void **state)
{
    (void)state;
    parsed("{a=\"\\a\\b\\f\\n\\r\\t\\v\\\\\\\"\\'\"}", 1,
           (struct matcher[]){M(MATCH_ANY, "a", MATCH_EQUAL, "\a\b\f\n\r\t\v\\\"'")});
    parsed("{a=\"\\x41\\102\\u00e9\\U0001f600\"}", 1,
           (struct matcher[]){M(MATCH_ANY, "a", MATCH_EQUAL, "AB\xc3\xa9\xf0\x9f\x98\x80")});
    parsed("{a=`\\n\"'\n`}", 1, (struct matcher[]){M(MATCH_ANY, "a", MATCH_EQUAL, "\\n\"'\n")});
    parsed("{a='\"',b=\"'\"}", 2,
           (struct matcher[]){M(MATCH_ANY, "a", MATCH_EQUAL, "\""),
                              M(MATCH_ANY, "b", MATCH_EQUAL, "'")});
}

static void says_where_it_stopped_and_what_it_expected(void **state)
{
    static const struct {
        const char *text, *expected, *place;
    } cases[] = {
        {"", "a metric's name or {", "at character 1, but the text ends"},
        {"9a", "a metric's name or {", "at character 1,"},
        {"up x", "{ or the end", "at character 4,"},
        {"up{", "a key, a name in quotes or }", "at character 4, but the text ends"},
        {"up{a", "=, !=, =~ or !~", "at character 5, but the text ends"},
        {"up{a=1}", "a string in quotes", "at character 6, where there is 1}"},
        {"up{a=\"x\" b=\"y\"}", ", or }", "at character 10,"},
        {"up{a=\"x\"} y", "the end", "at character 11,"},
        {"up{a=\"x}", "does not end in its quote", "at character 6,"},
        {"up{a=\"x\ny\"}", "does not end in its quote", "at character 6,"},
        {"{a=\"\xc3\xa9\",b=\"\\q\"}", "escape that does not exist", "at character 11,"},
        {"{a=\"\\x4\"}", "too short", "at character 5,"},
        {"{a=\"\\400\"}", "no byte", "at character 5,"},
        {"{a=\"\\ud800\"}", "no character", "at character 5,"},
        {"{a=\"\\xff\"}", "not valid UTF-8", "at character 4,"},
        {"up{__name__=\"x\"}", "a second name", "at character 4,"},
        {"up{\"x\"}", "a second name", "at character 4,"},
        {"{\"\"=\"x\"}", "an empty key", "at character 2,"},
        {"{,}", "a key, a name in quotes or }", "at character 2,"},
        {"{a==\"x\"}", "a string in quotes", "at character 4,"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct otl_error err;
        struct matcher *m;
        void *mem;
        size_t n;

        assert_int_equal(matchers_parse(bytes_str(cases[i].text), &m, &n, &mem, &err),
                         OTL_EBADREQUEST);
        if (strstr(err.msg, cases[i].expected) == NULL || strstr(err.msg, cases[i].place) == NULL)
            fail_msg("%s: %s", cases[i].text, err.msg);
    }
}

/* Every cut of a good text is refused or is good; under ASan nothing is read beyond it. */
static void takes_every_prefix(void **state)
{
    static const char text[] = "a.b{x=\"\\u00e9\\x41\",'y'!~`z`,\"resource.k\"=~'\\101'}";

    (void)state;
    for (size_t cut = 0; cut < sizeof(text); cut++) {
        uint8_t *copy = malloc(cut + 1);
        struct otl_error err;
        struct matcher *m;
        void *mem;
        size_t n;

        assert_non_null(copy);
        memcpy(copy, text, cut);
        copy = realloc(copy, cut > 0 ? cut : 1);
        assert_non_null(copy);
        if (matchers_parse(bytes_of(copy, cut), &m, &n, &mem, &err) == OTL_OK)
            free(mem);
        free(copy);
    }
}

/* ---- values ---- */

static bool hits(const char *pattern, struct bytes value)
{
    struct value_matcher vm;
    struct otl_error err;
    bool hit;

    if (value_matcher_init(&vm, MATCH_REGEX, bytes_str(pattern), &err) != OTL_OK)
        fail_msg("%s: %s", pattern, err.msg);
    if (value_matcher_hit(&vm, value, &hit, &err) != OTL_OK)
        fail_msg("%s: %s", pattern, err.msg);
    value_matcher_fini(&vm);
    return hit;
}

static void matches_whole_values(void **state)
{
    static const struct {
        const char *pattern, *value;
        bool hit;
    } cases[] = {
        {"a", "a", true},
        {"a", "ab", false},
        {"a", "ba", false},
        {"a|bc", "bc", true},
        {"a|bc", "abc", false},
        {"(a|b)", "b", true},
        {"(?:a|b)", "b", true},
        {"(?:a|b)", "(?:a|b)", false},
        {"a|", "", true},
        {"a|", "b", false},
        {"", "", true},
        {".*", "", true},
        {".*", "a\nb", true},
        {".+", "", false},
        {".+", "\n", true},
        {"pre.*", "pre", true},
        {"pre.*", "xpre", false},
        {"pre.+", "pre", false},
        {"pre.+", "pre1", true},
        {".*end", "the end", true},
        {".*end", "ends", false},
        {".+end", "end", false},
        {".*mid.*", "amidb", true},
        {".*mid.*", "mi", false},
        {".+a.+", "aaa", true},
        {".+a.+", "aa", false},
        {".+aa.+", "aaab", true},
        {"a.*|b", "b", true},
        {"a.*|b", "bc", false},
        {"a\\.b", "a.b", true},
        {"a\\.b", "axb", false},
        {"a.b", "axb", true},
        {"a.b", "a\nb", true},
        {"ab*", "abbb", true},
        {"ab*", "abab", false},
        {"a.*?", "abc", true},
        {"[0-9]+", "123", true},
        {"[0-9]+", "12a", false},
        {"(?i)abc", "ABC", true},
        {"(?i:a)b", "AB", false},
        {"\\d{3}", "404", true},
        {"\\d{3}", "40", false},
        {"5..", "503", true},
        {"x{,2}", "x{,2}", true},
        {"a$", "a", true},
        {"a$", "a\n", false},
        {"^a", "a", true},
        {"(a)|(b)", "b", true},
        {"\\Qa.b\\E", "a.b", true},
        {"\\Qa.b\\E", "axb", false},
        {"\\v", "\v", true},
        {"\\v", "\n", false},
        {"\\101\\x42\\x{43}", "ABC", true},
        {"\\x{41}+", "AA", true},
        {"[[:alpha:]]+", "ab", true},
        {"[]a]+", "]a", true},
        {"[^]a]", "b", true},
        {"[[a]+", "[a", true},
        {"\\pL+", "\xc3\xa9", true},
        {"\\p{Greek}", "\xce\xb1", true},
        {".", "\xc3\xa9", true},
        {"(?P<n>a)b", "ab", true},
        {"(?<n>a)b", "ab", true},
        {"/api/v1/.*", "/api/v1/x", true},
        {"", "a", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (hits(cases[i].pattern, bytes_str(cases[i].value)) != cases[i].hit)
            fail_msg("%s on %s", cases[i].pattern, cases[i].value);
}

static void takes_values_that_are_no_utf8(void **state)
{
    (void)state;
    assert_true(hits(".*b", bytes_of("\xff\xfe"
                                     "b",
                                     3)));
    assert_true(hits(".b?[b]", bytes_of("\xff"
                                        "b",
                                        2)));
    assert_true(hits("[^a]+", bytes_of("\xff", 1)));
    assert_false(hits("[a-z]+", bytes_of("a\xff", 2)));
    assert_true(hits("a.c", bytes_of("a\0c", 3)));
}

static void refuses_what_re2_refuses(void **state)
{
    static const struct {
        const char *pattern, *why;
    } cases[] = {
        {"(a)\\1", "a reference to a group is not supported, at character 4"},
        {"(?=a)b", "looking ahead or behind is not supported, at character 1"},
        {"a(?!b)", "looking ahead or behind is not supported, at character 2"},
        {"\xc3\xa9(?<=a)b", "looking ahead or behind is not supported, at character 2"},
        {"(?<!a)b", "looking ahead or behind"},
        {"(?>a)b", "a group of this kind is not supported"},
        {"(?|a)", "a group of this kind"},
        {"(?R)", "a group of this kind"},
        {"(?1)", "a group of this kind"},
        {"(?x)a b", "a group of this kind"},
        {"(?#c)a", "a group of this kind"},
        {"(*FAIL)", "verbs are not supported"},
        {"(*UTF)a", "verbs are not supported"},
        {"a++", "a repetition of a repetition, at character 3"},
        {"a*+", "a repetition of a repetition"},
        {"a**", "a repetition of a repetition"},
        {"a{2}{3}", "a repetition of a repetition"},
        {"a{1001}", "more than 1,000 repetitions"},
        {"\\Ka", "this escape is not supported"},
        {"\\ha", "this escape is not supported"},
        {"a\\g1", "this escape is not supported"},
        {"\\ka", "this escape is not supported"},
        {"[\\b]", "this escape is not supported"},
        {"a[bc", "the ] that ends this class is missing, at character 2"},
        {"a\\", "a backslash at the end"},
        {"\\p{L", "the } that ends this escape"},
        {"(a", "parenthesis"},
        {"a)", "parenthes"},
        {"*a", "quantifier"},
        {"\\p{Nonsense}", "property"},
        {"\xff+", "not valid UTF-8"},
        {"\xff", "not valid UTF-8"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct value_matcher vm;
        struct otl_error err;

        if (value_matcher_init(&vm, MATCH_REGEX, bytes_str(cases[i].pattern), &err) !=
            OTL_EBADREQUEST)
            fail_msg("%s was taken", cases[i].pattern);
        if (strstr(err.msg, cases[i].why) == NULL)
            fail_msg("%s: %s", cases[i].pattern, err.msg);
    }
}

static void an_expression_that_runs_for_ever_is_refused_by_name(void **state)
{
    struct value_matcher vm;
    struct otl_error err;
    char value[64];
    bool hit;

    (void)state;
    memset(value, 'a', sizeof(value));
    assert_int_equal(value_matcher_init(&vm, MATCH_REGEX, bytes_str("(a|a|aa)+[bc]"), &err),
                     OTL_OK);
    assert_int_equal(value_matcher_hit(&vm, bytes_of(value, sizeof(value)), &hit, &err),
                     OTL_EBADREQUEST);
    assert_non_null(strstr(err.msg, "\"(a|a|aa)+[bc]\" takes too many steps"));
    value_matcher_fini(&vm);
}

/* Nesting that would overflow a stack comes back as a refusal. */
static void deep_nesting_is_refused(void **state)
{
    enum { DEPTH = 100000 };
    char *pattern = malloc(2 * DEPTH + 2);
    struct value_matcher vm;
    struct otl_error err;

    (void)state;
    assert_non_null(pattern);
    memset(pattern, '(', DEPTH);
    pattern[DEPTH] = 'a';
    memset(pattern + DEPTH + 1, ')', DEPTH);
    pattern[2 * DEPTH + 1] = '\0';
    assert_int_equal(value_matcher_init(&vm, MATCH_REGEX, bytes_str(pattern), &err),
                     OTL_EBADREQUEST);
    free(pattern);
}

/* The C library's expressions are the oracle for what both languages have. */
static void agrees_with_posix_on_random_expressions(void **state)
{
    static const char *const pieces[] = {"a",    "b",     "ab", ".",  ".*", ".+", "|", "\\.",
                                         "[ab]", "(a|b)", "a*", "b+", "c",  "(",  ")"};
    static const char *const texts[] = {"a", "b", "c", "."};
    unsigned tried = 0;

    (void)state;
    for (unsigned round = 0; round < 20000; round++) {
        char pattern[64] = "", anchored[80], value[16] = "";
        struct value_matcher vm;
        struct otl_error err;
        regex_t posix;
        bool hit;

        for (unsigned i = random_below(6); i > 0; i--)
            strcat(pattern, pieces[random_below(sizeof(pieces) / sizeof(pieces[0]))]);
        /* POSIX takes repetitions of repetitions and at the start. */
        snprintf(anchored, sizeof(anchored), "^(%s)$", pattern);
        if (value_matcher_init(&vm, MATCH_REGEX, bytes_str(pattern), &err) != OTL_OK)
            continue;
        if (regcomp(&posix, anchored, REG_EXTENDED | REG_NOSUB) != 0) {
            value_matcher_fini(&vm);
            continue;
        }
        for (unsigned k = 0; k < 6; k++) {
            value[0] = '\0';
            for (unsigned i = random_below(5); i > 0; i--)
                strcat(value, texts[random_below(4)]);
            assert_int_equal(value_matcher_hit(&vm, bytes_str(value), &hit, &err), OTL_OK);
            if (hit != (regexec(&posix, value, 0, NULL, 0) == 0))
                fail_msg("%s on \"%s\": %d", pattern, value, hit);
            tried++;
        }
        regfree(&posix);
        value_matcher_fini(&vm);
    }
    assert_true(tried > 20000);
}

/* ---- replacing, as label_replace does ---- */

static void replaces_groups_as_go_does(void **state)
{
    static const struct {
        const char *pattern, *value, *replacement, *expected; /* NULL: no match */
    } cases[] = {
        {"(.*)-(.*)", "a-b-c", "$2/$1", "c/a-b"},
        {"(.*)", "x", "$1", "x"},
        {"(a)(b)?", "a", "[$1$2]", "[a]"},
        {"(.*)", "x", "${1}y", "xy"},
        {"(.*)", "x", "$1y", ""}, /* a group called 1y */
        {"(.*)", "x", "$7", ""},
        {"(.*)", "x", "$01", ""}, /* no number */
        {"(.*)", "x", "$0$$0", "x$0"},
        {"(.*)", "x", "a$", "a$"},
        {"(.*)", "x", "${1", "${1"},
        {"(.*)", "x", "${}", "${}"},
        {"(.*)", "x", "$-1", "$-1"},
        {"(?P<first>[a-z]+)(?P<rest>.*)", "ab12", "$rest-${first}", "12-ab"},
        {"(?P<first>[a-z]+)", "ab", "$first_x", ""},
        {"(?:a)(b)", "ab", "$1", "b"},
        {"a|b", "b", "$0", "b"},
        {"(a+)", "aab", "$1", NULL},
        {"(.+)", "\xe4\xbd\xa0\n", "<$1>", "<\xe4\xbd\xa0\n>"},
        {"()", "", "$1", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf out = {0};
        struct otl_error err;
        struct regex *re;
        bool hit;

        assert_int_equal(regex_new_capturing(bytes_str(cases[i].pattern), &re, &err), OTL_OK);
        assert_int_equal(regex_replace(re, bytes_str(cases[i].value),
                                       bytes_str(cases[i].replacement), &hit, &out, &err),
                         OTL_OK);
        assert_int_equal(hit, cases[i].expected != NULL);
        if (hit && !bytes_equal(buf_bytes(&out), bytes_str(cases[i].expected)))
            fail_msg("%s on %s with %s: \"%.*s\"", cases[i].pattern, cases[i].value,
                     cases[i].replacement, (int)out.n, (const char *)out.p);
        buf_fini(&out);
        regex_free(re);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_people_write),
        cmocka_unit_test(reads_escapes_as_go_does),
        cmocka_unit_test(says_where_it_stopped_and_what_it_expected),
        cmocka_unit_test(takes_every_prefix),
        cmocka_unit_test(matches_whole_values),
        cmocka_unit_test(takes_values_that_are_no_utf8),
        cmocka_unit_test(refuses_what_re2_refuses),
        cmocka_unit_test(an_expression_that_runs_for_ever_is_refused_by_name),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(agrees_with_posix_on_random_expressions),
        cmocka_unit_test(replaces_groups_as_go_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
