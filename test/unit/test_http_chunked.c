/* Chunked bodies: what is body comes out whatever the pieces, and nothing that another reader might
 * see otherwise gets through (RFC 9112 7.1). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/chunked.h"

/* What was read, in place, when the text comes in pieces of the given size. */
static struct {
    enum chunked_progress progress;
    char body[65536];
    size_t body_n, used;
} got;

static void read_in_pieces(const char *text, size_t n, size_t piece)
{
    struct chunked c = {0};
    char *copy = malloc(n > 0 ? n : 1); /* ends where its memory ends */
    size_t out = 0, in = 0;

    assert_non_null(copy);
    memcpy(copy, text, n);
    got.progress = CHUNKED_MORE;
    while (in < n && got.progress == CHUNKED_MORE) {
        size_t take = n - in < piece ? n - in : piece, used, made;

        got.progress =
            chunked_read(&c, (uint8_t *)copy + out, (uint8_t *)copy + in, take, &used, &made);
        assert_true(used <= take && made <= used);
        if (got.progress == CHUNKED_MORE)
            assert_int_equal(used, take);
        out += made;
        in += used;
    }
    memcpy(got.body, copy, out);
    got.body_n = out;
    got.used = in;
    free(copy);
}

static void takes_a_body_apart_whatever_the_pieces(void **state)
{
    static const struct {
        const char *text, *body, *behind;
    } cases[] = {
        {"0\r\n\r\n", "", ""},
        {"5\r\nhello\r\n0\r\n\r\n", "hello", "GET / HTTP/1.1"},
        {"1\r\na\r\n00000000000000A\r\n0123456789\r\nb\r\nsome more..\r\n000\r\n\r\n",
         "a0123456789some more..", "x"},
        {"2\r\n\r\n\r\n2\r\n0\r\r\n0\r\n\r\n", "\r\n0\r", ""},
        {"2;a\r\nab\r\n1 ;b=c\r\nc\r\n1\t; d=\"e;f\" \r\nd\r\n0;x\r\n\r\n", "abcd", "0\r\n\r\n"},
        {"1\r\na\r\n0\r\nX-Sum: 12\r\nY:\r\n\r\n", "a", "Z: 1\r\n\r\n"},
    };
    char text[256];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t n = strlen(cases[i].text);

        (void)snprintf(text, sizeof(text), "%s%s", cases[i].text, cases[i].behind);
        for (size_t piece = 1; piece <= strlen(text); piece++) {
            read_in_pieces(text, strlen(text), piece);
            assert_int_equal(got.progress, CHUNKED_WHOLE);
            assert_int_equal(got.used, n);
            assert_int_equal(got.body_n, strlen(cases[i].body));
            assert_memory_equal(got.body, cases[i].body, got.body_n);
        }
        for (size_t cut = 0; cut < n; cut++) {
            read_in_pieces(text, cut, cut > 0 ? cut : 1);
            assert_int_equal(got.progress, CHUNKED_MORE);
        }
    }
}

static void sizes_are_bare_hex_digits_and_lines_end_in_cr_lf(void **state)
{
    static const char *const bad[] = {
        "0x2\r\n{}\r\n0\r\n\r\n", /* prefix */
        "+5\r\nhello\r\n",        /* signs */
        "-0\r\n\r\n",
        "2\r\n{}\r\n-0\r\n\r\n",
        " 2\r\n{}\r\n", /* blanks */
        "2 \r\n{}\r\n",
        "2\t\r\n{}\r\n",
        "\r\n",
        ";x\r\n",
        "2_0\r\n",
        "g\r\n",
        "2\n{}\n0\n\n", /* bare LF, bare CR */
        "2\r{}\r\n",
        "2\r\r\n{}",
        "2\r\n{}\n0\r\n\r\n",
        "2\r\n{}}\r\n0\r\n\r\n", /* more data than said */
        "2\r\n{}0\r\n\r\n",
        "2\r\n{}\r\r\n0\r\n\r\n",
        "2;a\nb\r\n{}\r\n", /* an extension with a line's end in it */
        "2;a\rb\r\n{}\r\n",
        "2;a\x01\r\n{}\r\n",
        "2 a\r\n{}\r\n",
        "11111111111111111\r\n", /* 17 digits */
        "00000000000000000\r\n",
        "0\r\n\n", /* ends and trailers */
        "0\r\n\rX",
        "0\r\n: b\r\n\r\n",
        "0\r\nA b: c\r\n\r\n",
        "0\r\n A: b\r\n\r\n",
        "0\r\nA: b\r\n c\r\n\r\n",
        "0\r\nA: b\n\r\n",
        "0\r\nA : b\r\n\r\n",
        "0\r\nA\r\n\r\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        for (size_t piece = 1; piece <= strlen(bad[i]); piece++) {
            read_in_pieces(bad[i], strlen(bad[i]), piece);
            assert_int_equal(got.progress, CHUNKED_BROKEN);
        }
    }
    read_in_pieces("0\r\nA: b\0\r\n\r\n", 12, 12);
    assert_int_equal(got.progress, CHUNKED_BROKEN);
}

static void a_size_is_known_before_its_data(void **state)
{
    static const uint8_t text[] = "ffffffffffffffff\r\n";
    uint8_t copy[sizeof(text)];
    struct chunked c = {0};
    size_t used, made;

    (void)state;
    memcpy(copy, text, sizeof(text));
    assert_int_equal(chunked_read(&c, copy, copy, sizeof(text) - 1, &used, &made), CHUNKED_MORE);
    assert_true(c.left == UINT64_MAX);
    assert_int_equal(made, 0);
}

/* head + n times a + tail */
static void read_padded(const char *head, size_t n, const char *tail)
{
    static char text[3 * CHUNKED_MAX_EXTRA];
    size_t at = strlen(head);

    memcpy(text, head, at);
    memset(text + at, 'a', n);
    memcpy(text + at + n, tail, strlen(tail));
    read_in_pieces(text, at + n + strlen(tail), sizeof(text));
}

static void extensions_and_trailers_together_are_bounded(void **state)
{
    (void)state;
    /* Counted: the extension from its semicolon to its CR, the trailer with its CR. */
    read_padded("0;", CHUNKED_MAX_EXTRA - 2, "\r\n\r\n");
    assert_int_equal(got.progress, CHUNKED_WHOLE);
    read_padded("0;", CHUNKED_MAX_EXTRA - 1, "\r\n\r\n");
    assert_int_equal(got.progress, CHUNKED_BROKEN);
    read_padded("0\r\nA:", CHUNKED_MAX_EXTRA - 3, "\r\n\r\n");
    assert_int_equal(got.progress, CHUNKED_WHOLE);
    read_padded("0\r\nA:", CHUNKED_MAX_EXTRA - 2, "\r\n\r\n");
    assert_int_equal(got.progress, CHUNKED_BROKEN);
    read_padded("1;aaaa\r\nx\r\n0\r\nA:", CHUNKED_MAX_EXTRA - 3, "\r\n\r\n");
    assert_int_equal(got.progress, CHUNKED_BROKEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_a_body_apart_whatever_the_pieces),
        cmocka_unit_test(sizes_are_bare_hex_digits_and_lines_end_in_cr_lf),
        cmocka_unit_test(a_size_is_known_before_its_data),
        cmocka_unit_test(extensions_and_trailers_together_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
