/* inflate_body: whole, bounded, and strict about where a body ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "otlite/decode.h"
#include "shared_case.h"

enum { GZIP = 15 + 16, ZLIB = 15, RAW = -15 };

static struct otl_error err;

/* Append in, compressed as one stream, to out. */
static void squeeze(struct buf *out, int window, struct bytes in)
{
    z_stream zs = {0};
    uint8_t chunk[4096];

    assert_int_equal(deflateInit2(&zs, 9, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY), Z_OK);
    zs.next_in = (uint8_t *)(uintptr_t)in.p;
    zs.avail_in = (uInt)in.n;
    do {
        zs.next_out = chunk;
        zs.avail_out = sizeof(chunk);
        (void)deflate(&zs, Z_FINISH);
        buf_add(out, chunk, sizeof(chunk) - zs.avail_out);
    } while (zs.avail_out == 0);
    assert_int_equal(deflateEnd(&zs), Z_OK);
}

static enum otl_err run(enum coding coding, struct bytes in, size_t max, struct buf *out)
{
    struct guarded g = guarded_copy(in);
    enum otl_err rc;

    memset(&err, 0, sizeof(err));
    rc = inflate_body(coding, g.b, max, out, &err);
    guarded_free(&g);
    if (rc != OTL_OK) {
        assert_int_equal(err.code, rc);
        assert_true(strlen(err.msg) > 0);
    }
    assert_true(out->n <= max);
    return rc;
}

static void assert_content(const struct buf *out, const char *want)
{
    assert_int_equal(out->n, strlen(want));
    if (out->n > 0)
        assert_memory_equal(out->p, want, out->n);
}

static void gives_back_what_gzip_and_zlib_took(void **state)
{
    struct buf in = {0}, out = {0};

    (void)state;
    squeeze(&in, GZIP, bytes_str("hello, metrics"));
    assert_int_equal(run(CODING_GZIP, buf_bytes(&in), 1000, &out), OTL_OK);
    assert_content(&out, "hello, metrics");
    /* The other coding's header is not accepted in its place. */
    assert_int_equal(run(CODING_DEFLATE, buf_bytes(&in), 1000, &out), OTL_EBADDATA);
    buf_reset(&in);
    squeeze(&in, ZLIB, bytes_str("hello, zlib"));
    assert_int_equal(run(CODING_DEFLATE, buf_bytes(&in), 1000, &out), OTL_OK);
    assert_content(&out, "hello, zlib");
    assert_int_equal(run(CODING_GZIP, buf_bytes(&in), 1000, &out), OTL_EBADDATA);
    buf_reset(&in);
    squeeze(&in, RAW, bytes_str("hello, raw"));
    assert_int_equal(run(CODING_DEFLATE, buf_bytes(&in), 1000, &out), OTL_EBADDATA);
    buf_fini(&in);
    buf_fini(&out);
}

static void identity_is_a_bounded_copy(void **state)
{
    struct buf out = {0};

    (void)state;
    assert_int_equal(run(CODING_IDENTITY, bytes_str("plain"), 5, &out), OTL_OK);
    assert_content(&out, "plain");
    assert_int_equal(run(CODING_IDENTITY, bytes_str("plain"), 4, &out), OTL_ETOOBIG);
    assert_int_equal(run(CODING_IDENTITY, bytes_of(NULL, 0), 0, &out), OTL_OK);
    buf_fini(&out);
}

static void an_empty_body_is_no_gzip_and_no_deflate(void **state)
{
    struct buf out = {0};

    (void)state;
    assert_int_equal(run(CODING_GZIP, bytes_of(NULL, 0), 1000, &out), OTL_EBADDATA);
    assert_non_null(strstr(err.msg, "empty"));
    assert_int_equal(run(CODING_DEFLATE, bytes_of(NULL, 0), 1000, &out), OTL_EBADDATA);
    buf_fini(&out);
}

static void joins_members_and_takes_empty_ones(void **state)
{
    struct buf in = {0}, out = {0};

    (void)state;
    squeeze(&in, GZIP, bytes_str(""));
    assert_int_equal(run(CODING_GZIP, buf_bytes(&in), 0, &out), OTL_OK);
    assert_content(&out, "");
    squeeze(&in, GZIP, bytes_str("one "));
    squeeze(&in, GZIP, bytes_str(""));
    squeeze(&in, GZIP, bytes_str("two"));
    squeeze(&in, GZIP, bytes_str(""));
    assert_int_equal(run(CODING_GZIP, buf_bytes(&in), 7, &out), OTL_OK);
    assert_content(&out, "one two");
    assert_int_equal(run(CODING_GZIP, buf_bytes(&in), 6, &out), OTL_ETOOBIG);
    /* A deflate body is one stream. */
    buf_reset(&in);
    squeeze(&in, ZLIB, bytes_str("one"));
    squeeze(&in, ZLIB, bytes_str("two"));
    assert_int_equal(run(CODING_DEFLATE, buf_bytes(&in), 1000, &out), OTL_EBADDATA);
    assert_non_null(strstr(err.msg, "behind"));
    buf_fini(&in);
    buf_fini(&out);
}

static void nothing_may_lie_behind_the_last_member(void **state)
{
    static const char *const tails[] = {"JUNKJUNK", "x", "\x1f", "\x1f\x8b"};
    static const uint8_t zeros[16];
    struct buf in = {0}, out = {0};
    size_t whole;

    (void)state;
    squeeze(&in, GZIP, bytes_str("body"));
    whole = in.n;
    for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        in.n = whole;
        buf_add_str(&in, tails[i]);
        assert_int_equal(run(CODING_GZIP, buf_bytes(&in), 1000, &out), OTL_EBADDATA);
    }
    in.n = whole;
    buf_add(&in, zeros, sizeof(zeros));
    assert_int_equal(run(CODING_GZIP, buf_bytes(&in), 1000, &out), OTL_EBADDATA);
    buf_fini(&in);
    buf_fini(&out);
}

static void every_cut_and_every_flipped_trailer_bit_is_noticed(void **state)
{
    struct buf in = {0}, out = {0};

    (void)state;
    for (int zlib = 0; zlib <= 1; zlib++) {
        enum coding coding = zlib ? CODING_DEFLATE : CODING_GZIP;
        size_t trailer = zlib ? 4 : 8; /* adler32; CRC and length */

        buf_reset(&in);
        squeeze(&in, zlib ? ZLIB : GZIP, bytes_str("a body with a checksum behind it"));
        for (size_t n = 0; n < in.n; n++)
            assert_int_equal(run(coding, bytes_of(in.p, n), 1000, &out), OTL_EBADDATA);
        for (size_t bit = (in.n - trailer) * 8; bit < in.n * 8; bit++) {
            in.p[bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_int_equal(run(coding, buf_bytes(&in), 1000, &out), OTL_EBADDATA);
            in.p[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        assert_int_equal(run(coding, buf_bytes(&in), 1000, &out), OTL_OK);
    }
    buf_fini(&in);
    buf_fini(&out);
}

static void the_limit_is_exact(void **state)
{
    static const size_t sizes[] = {1, 63, 64, 65, 16383, 16384, 16385, 100000};
    struct buf in = {0}, out = {0};
    uint8_t *data = malloc(100000);

    (void)state;
    assert_non_null(data);
    for (size_t i = 0; i < 100000; i++)
        data[i] = (uint8_t)(i * i >> 7);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t n = sizes[i];

        buf_reset(&in);
        squeeze(&in, GZIP, bytes_of(data, n));
        assert_int_equal(run(CODING_GZIP, buf_bytes(&in), n, &out), OTL_OK);
        assert_int_equal(out.n, n);
        assert_memory_equal(out.p, data, n);
        assert_int_equal(run(CODING_GZIP, buf_bytes(&in), n - 1, &out), OTL_ETOOBIG);
        assert_non_null(strstr(err.msg, "limit"));
        assert_int_equal(run(CODING_GZIP, buf_bytes(&in), SIZE_MAX, &out), OTL_OK);
        assert_int_equal(out.n, n);
    }
    free(data);
    buf_fini(&in);
    buf_fini(&out);
}

static void a_small_bomb_is_stopped_at_the_limit(void **state)
{
    enum { MIB = 1 << 20 };
    struct buf in = {0}, out = {0};
    uint8_t *zeros = calloc(16, MIB);

    (void)state;
    assert_non_null(zeros);
    squeeze(&in, GZIP, bytes_of(zeros, (size_t)16 * MIB));
    free(zeros);
    assert_true(in.n < 17 * 1024);
    assert_int_equal(run(CODING_GZIP, buf_bytes(&in), 4 * MIB, &out), OTL_ETOOBIG);
    /* Memory grew with the output, not past the limit by more than a growth step. */
    assert_true(out.cap <= 6 * MIB);
    buf_fini(&in);
    buf_fini(&out);
}

static void a_used_buffer_is_emptied_first_and_reused(void **state)
{
    struct buf in = {0}, out = {0};

    (void)state;
    buf_add_str(&out, "left from the request before");
    squeeze(&in, GZIP, bytes_str("new"));
    assert_int_equal(run(CODING_GZIP, buf_bytes(&in), 3, &out), OTL_OK);
    assert_content(&out, "new");
    buf_fini(&in);
    buf_fini(&out);
}

static void judges_the_shared_cases(void **state)
{
    static const struct {
        const char *file;
        enum otl_err rc;
    } cases[] = {
        {"s21-bomb.json.gz", OTL_ETOOBIG},
        {"s22-members.json.gz", OTL_OK},
        {"s22-gzip-of-nothing.gz", OTL_OK},
        {"s22-empty-as-gzip.bin", OTL_EBADDATA},
        {"s22-plain-as-gzip.json", OTL_EBADDATA},
        {"s22-members-trailing-junk.json.gz", OTL_EBADDATA},
        {"s22-trailing-zeros.json.gz", OTL_EBADDATA},
    };
    struct buf in = {0}, out = {0}, good = {0};
    enum { LIMIT = 8 << 20 };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (!shared_case(cases[i].file, &in) || !shared_case("good.json", &good)) {
            buf_fini(&in);
            buf_fini(&good);
            buf_fini(&out);
            skip();
        }
        if (run(CODING_GZIP, buf_bytes(&in), LIMIT, &out) != cases[i].rc)
            fail_msg("%s: not judged as it should be (%s)", cases[i].file, err.msg);
        if (strcmp(cases[i].file, "s22-members.json.gz") == 0)
            assert_true(bytes_equal(buf_bytes(&out), buf_bytes(&good)));
    }
    buf_fini(&in);
    buf_fini(&good);
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_back_what_gzip_and_zlib_took),
        cmocka_unit_test(identity_is_a_bounded_copy),
        cmocka_unit_test(an_empty_body_is_no_gzip_and_no_deflate),
        cmocka_unit_test(joins_members_and_takes_empty_ones),
        cmocka_unit_test(nothing_may_lie_behind_the_last_member),
        cmocka_unit_test(every_cut_and_every_flipped_trailer_bit_is_noticed),
        cmocka_unit_test(the_limit_is_exact),
        cmocka_unit_test(a_small_bomb_is_stopped_at_the_limit),
        cmocka_unit_test(a_used_buffer_is_emptied_first_and_reused),
        cmocka_unit_test(judges_the_shared_cases),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
