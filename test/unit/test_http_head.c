/* The head of a request: where it ends whatever the pieces it comes in, what it says, and what is
 * refused because two readers could understand it in two ways (RFC 9112). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/head.h"

static struct head h;
static const char *why;

/* Parse a copy that ends where its memory ends. */
static enum otl_err parse_bytes(const char *text, size_t n)
{
    static char *copy;

    free(copy);
    copy = malloc(n > 0 ? n : 1);
    assert_non_null(copy);
    memcpy(copy, text, n);
    why = NULL;
    return head_parse(&h, copy, n, &why);
}

static enum otl_err parse(const char *text)
{
    enum otl_err rc = parse_bytes(text, strlen(text));

    assert_int_equal(rc == OTL_OK, why == NULL);
    return rc;
}

/* The code for a POST with Host and these further lines. */
static enum otl_err with(const char *lines)
{
    char text[16384];

    (void)snprintf(text, sizeof(text), "POST /v1/metrics HTTP/1.1\r\nHost: h\r\n%s\r\n", lines);
    return parse(text);
}

static void a_head_ends_at_its_empty_line_whatever_the_pieces(void **state)
{
    static const char text[] = "\r\n\r\nPOST / HTTP/1.1\r\nHost: a\r\n\r\nbody\r\n\r\n";
    const size_t n = strlen(text), whole = n - strlen("body\r\n\r\n");

    (void)state;
    for (size_t first = 0; first <= n; first++) {
        for (size_t second = first; second <= n; second++) {
            const size_t upto[] = {first, second, n};
            struct head_scan scan = {0};
            enum head_progress p = HEAD_MORE;
            size_t end = 0;

            for (int i = 0; i < 3 && p == HEAD_MORE; i++) {
                char *copy = malloc(upto[i] + 1);

                assert_non_null(copy);
                memcpy(copy, text, upto[i]);
                p = head_scan(&scan, copy, upto[i], &end);
                assert_int_equal(p, upto[i] < whole ? HEAD_MORE : HEAD_WHOLE);
                free(copy);
            }
            assert_int_equal(end, whole);
            assert_int_equal(scan.first, 4);
        }
    }
}

static void bytes_that_become_no_head_are_refused_early(void **state)
{
    static const struct {
        const char *text;
        size_t n; /* refused when so many bytes are here, not before */
    } cases[] = {{"\x16\x03\x01", 1},
                 {" GET / HTTP/1.1\r\n", 1},
                 {"(", 1},
                 {"GET / HTTP/1.1\n", 15},
                 {"\n", 1},
                 {"\r\n\n", 3},
                 {"\rGET\r\n", 6},
                 {"GET / HTTP/1.1\r\nA: b\n", 21},
                 {"G / HTTP/1.1\r\n\n", 15},
                 {"\x80", 1}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct head_scan scan = {0};
        size_t end = 0;

        for (size_t n = 0; n < cases[i].n; n++)
            assert_int_equal(head_scan(&scan, cases[i].text, n, &end), HEAD_MORE);
        assert_int_equal(head_scan(&scan, cases[i].text, cases[i].n, &end), HEAD_BROKEN);
    }
}

static void says_what_the_request_asks(void **state)
{
    (void)state;
    assert_int_equal(parse("POST /v1/metrics?a=b#c HTTP/1.1\r\nhOST:h:1\r\nContent-Length: 12\r\n"
                           "X-Empty:\r\nX-Blank: \t a b \t\r\nx-empty: second\r\n\r\n"),
                     OTL_OK);
    assert_string_equal(h.text + h.method, "POST");
    assert_string_equal(h.text + h.path, "/v1/metrics");
    assert_int_equal(h.minor, 1);
    assert_true(h.has_length);
    assert_int_equal(h.length, 12);
    assert_false(h.chunked);
    assert_false(h.close);
    assert_int_equal(h.expect, EXPECT_NOTHING);
    assert_int_equal(h.n_fields, 5);
    assert_string_equal(head_find(&h, "Host"), "h:1");
    assert_string_equal(head_find(&h, "X-EMPTY"), "");
    assert_string_equal(head_find(&h, "x-blank"), "a b");
    assert_null(head_find(&h, "X-Blan"));
    assert_int_equal(head_count(&h, "X-Empty"), 2);
    assert_int_equal(head_count(&h, "X"), 0);
}

static void targets_are_cut_to_their_path(void **state)
{
    static const struct {
        const char *target, *path; /* NULL: refused */
    } cases[] = {
        {"/", "/"},          {"/?x", "/"},        {"*", "*"},      {"http://h:1/a/b?c", "/a/b"},
        {"HTTPS://h", "/"},  {"http://h?x", "/"}, {"h:443", NULL}, {"a/b", NULL},
        {"/\xc3\xa4", NULL}, {"/\x7f", NULL}};
    char text[128];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void)snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", cases[i].target);
        assert_int_equal(parse(text), cases[i].path != NULL ? OTL_OK : OTL_EBADREQUEST);
        if (cases[i].path != NULL)
            assert_string_equal(h.text + h.path, cases[i].path);
    }
}

static void request_lines_have_three_parts_and_one_blank_between(void **state)
{
    static const char *const bad[] = {
        "GET /",          "GET",           "GET  / HTTP/1.1", "GET / HTTP/1.1 ", "GET /  HTTP/1.1",
        "GET / HTTP/2.0", "GET / HTTP/1.", "GET / HTTP/1.11", "GET / http/1.1",  "GET\t/ HTTP/1.1",
        "G(T / HTTP/1.1", " / HTTP/1.1",   "GET / a HTTP/1.1"};
    char text[128];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        (void)snprintf(text, sizeof(text), "%s\r\nHost: h\r\n\r\n", bad[i]);
        assert_int_equal(parse(text), OTL_EBADREQUEST);
    }
    assert_int_equal(parse(""), OTL_EBADREQUEST);
    assert_int_equal(parse("\r\n"), OTL_EBADREQUEST);
    assert_int_equal(parse("FROB / HTTP/1.2\r\nHost: h\r\n\r\n"), OTL_OK);
    assert_int_equal(h.minor, 2);
}

static void one_length_of_decimal_digits(void **state)
{
    static const struct {
        const char *lines;
        enum otl_err rc;
        uint64_t length;
    } cases[] = {{"Content-Length: 0\r\n", OTL_OK, 0},
                 {"content-length:007\r\n", OTL_OK, 7},
                 {"Content-Length: 18446744073709551606\r\n", OTL_OK, UINT64_MAX - 9},
                 {"Content-Length: 18446744073709551616\r\n", OTL_OK, UINT64_MAX},
                 {"Content-Length: 99999999999999999999999\r\n", OTL_OK, UINT64_MAX},
                 {"Content-Length: +2\r\n", OTL_EBADREQUEST, 0},
                 {"Content-Length: -2\r\n", OTL_EBADREQUEST, 0},
                 {"Content-Length: 0x2\r\n", OTL_EBADREQUEST, 0},
                 {"Content-Length: 2 2\r\n", OTL_EBADREQUEST, 0},
                 {"Content-Length: 2,2\r\n", OTL_EBADREQUEST, 0},
                 {"Content-Length: 2.\r\n", OTL_EBADREQUEST, 0},
                 {"Content-Length:\r\n", OTL_EBADREQUEST, 0},
                 {"Content-Length: 2\r\nContent-Length: 2\r\n", OTL_EBADREQUEST, 0},
                 {"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", OTL_EBADREQUEST, 0},
                 {"Transfer-Encoding: chunked\r\ncontent-length: 2\r\n", OTL_EBADREQUEST, 0},
                 {"Content-Length : 2\r\n", OTL_EBADREQUEST, 0},
                 {"Content-Length\t: 2\r\n", OTL_EBADREQUEST, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(with(cases[i].lines), cases[i].rc);
        if (cases[i].rc == OTL_OK)
            assert_true(h.has_length && h.length == cases[i].length);
    }
    assert_int_equal(with(""), OTL_OK);
    assert_false(h.has_length);
}

static void chunked_is_the_only_coding(void **state)
{
    static const char *const bad[] = {"gzip, chunked", "gzip", "identity", "chunked, chunked",
                                      "chunked;x",     "",     "xchunked", "chunked\v"};
    char line[64];

    (void)state;
    assert_int_equal(with("Transfer-Encoding: Chunked\r\n"), OTL_OK);
    assert_true(h.chunked && !h.has_length);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        (void)snprintf(line, sizeof(line), "Transfer-Encoding: %s\r\n", bad[i]);
        assert_int_equal(with(line),
                         i + 1 < sizeof(bad) / sizeof(bad[0]) ? OTL_ETE : OTL_EBADREQUEST);
    }
    assert_int_equal(with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
                     OTL_EBADREQUEST);
    assert_int_equal(with("Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n"), OTL_ETE);
    assert_int_equal(parse("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
                     OTL_EBADREQUEST);
}

static void lines_that_two_readers_could_take_in_two_ways_are_refused(void **state)
{
    static const char *const bad[] = {
        "A: b\r\n c\r\n", "A: b\r\n\tc\r\n", " A: b\r\n",   ": b\r\n",      "A\r\n",
        "A B: c\r\n",     "A : b\r\n",       "A: b\rc\r\n", "A: b\x01\r\n", "A: b\x7f\r\n",
        "\xc3: b\r\n",    "A(: b\r\n",       "A: b\n"};
    static const char nul[] = "GET / HTTP/1.1\r\nHost: h\r\nA: b\0c\r\n\r\n";
    static const char nul_name[] = "GET / HTTP/1.1\r\nHost: h\r\nA\0: c\r\n\r\n";

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(with(bad[i]), OTL_EBADREQUEST);
    assert_int_equal(parse_bytes(nul, sizeof(nul) - 1), OTL_EBADREQUEST);
    assert_int_equal(parse_bytes(nul_name, sizeof(nul_name) - 1), OTL_EBADREQUEST);
    /* Text beyond ASCII is a value (RFC 9110 5.5, obs-text). */
    assert_int_equal(with("A: \xc3\xa4\r\n"), OTL_OK);
}

static void a_refused_head_still_names_its_encoding(void **state)
{
    (void)state;
    assert_int_equal(with("A : b\r\nContent-Type: application/json\r\n"), OTL_EBADREQUEST);
    assert_string_equal(head_find(&h, "Content-Type"), "application/json");
    assert_int_equal(parse("NONSENSE\r\nContent-Type: x\r\n\r\n"), OTL_EBADREQUEST);
    assert_false(h.has_line);
    assert_string_equal(head_find(&h, "Content-Type"), "x");
    /* The part of a head that is here; the last line is not whole. */
    assert_int_equal(parse("GET / HTTP/1.1\r\nHost: h\r\nContent-Type: x\r\nX-Long: aaa"), OTL_OK);
    assert_int_equal(h.n_fields, 2);
}

static void one_host(void **state)
{
    (void)state;
    assert_int_equal(parse("GET / HTTP/1.1\r\n\r\n"), OTL_EBADREQUEST);
    assert_int_equal(with("Host: h\r\n"), OTL_EBADREQUEST);
    assert_int_equal(parse("GET / HTTP/1.0\r\n\r\n"), OTL_OK);
}

static void keeps_or_closes_as_the_client_and_its_version_say(void **state)
{
    static const struct {
        unsigned minor;
        const char *lines;
        bool close;
    } cases[] = {{1, "", false},
                 {1, "Connection: close\r\n", true},
                 {1, "Connection: CLOSE\r\n", true},
                 {1, "Connection: keep-alive\r\n", false},
                 {1, "Connection: te, close , x\r\n", true},
                 {1, "Connection: te\r\nConnection: close\r\n", true},
                 {1, "Connection: closed, xclose\r\n", false},
                 {1, "Connection: keep-alive, close\r\n", true},
                 {0, "", true},
                 {0, "Connection: Keep-Alive\r\n", false},
                 {0, "Connection: keep-alive, close\r\n", true}};
    char text[256];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void)snprintf(text, sizeof(text), "GET / HTTP/1.%u\r\nHost: h\r\n%s\r\n", cases[i].minor,
                       cases[i].lines);
        assert_int_equal(parse(text), OTL_OK);
        assert_int_equal(h.close, cases[i].close);
    }
}

static void only_100_continue_is_expected(void **state)
{
    (void)state;
    assert_int_equal(with("Expect: 100-Continue\r\n"), OTL_OK);
    assert_int_equal(h.expect, EXPECT_CONTINUE);
    assert_int_equal(with("Expect: a-pony\r\nExpect: 100-continue\r\n"), OTL_OK);
    assert_int_equal(h.expect, EXPECT_OTHER);
    assert_int_equal(parse("POST / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n"), OTL_OK);
    assert_int_equal(h.expect, EXPECT_NOTHING);
}

static void the_number_of_lines_is_bounded(void **state)
{
    char lines[HEAD_MAX_FIELDS * 8] = "";

    (void)state;
    for (int i = 0; i < HEAD_MAX_FIELDS - 1; i++)
        strcat(lines, "A: b\r\n");
    assert_int_equal(with(lines), OTL_OK);
    assert_int_equal(head_count(&h, "a"), HEAD_MAX_FIELDS - 1);
    strcat(lines, "A: b\r\n");
    assert_int_equal(with(lines), OTL_EHEAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_ends_at_its_empty_line_whatever_the_pieces),
        cmocka_unit_test(bytes_that_become_no_head_are_refused_early),
        cmocka_unit_test(says_what_the_request_asks),
        cmocka_unit_test(targets_are_cut_to_their_path),
        cmocka_unit_test(request_lines_have_three_parts_and_one_blank_between),
        cmocka_unit_test(one_length_of_decimal_digits),
        cmocka_unit_test(chunked_is_the_only_coding),
        cmocka_unit_test(lines_that_two_readers_could_take_in_two_ways_are_refused),
        cmocka_unit_test(a_refused_head_still_names_its_encoding),
        cmocka_unit_test(one_host),
        cmocka_unit_test(keeps_or_closes_as_the_client_and_its_version_say),
        cmocka_unit_test(only_100_continue_is_expected),
        cmocka_unit_test(the_number_of_lines_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
