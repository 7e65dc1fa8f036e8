/* Columns: what goes in comes out, bit for bit, in about the bytes that arithmetic says; and
 * damaged streams are told, never followed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "otlite/bytes.h"
#include "random.h"
#include "store/column.h"
#include "store/column_pack.h"

enum { MAX = 5000 };

static int64_t ints[MAX], ints_back[MAX];
static uint64_t bits[MAX], bits_back[MAX];

/* A copy that ends where the stream does, so that ASan sees a read beyond it. */
static uint8_t *exact(const struct buf *b)
{
    uint8_t *p = malloc(b->n == 0 ? 1 : b->n);

    assert_non_null(p);
    if (b->n > 0)
        memcpy(p, b->p, b->n);
    return p;
}

static size_t check_ints(size_t n)
{
    struct buf b = {0};
    uint8_t *p;
    size_t bytes;

    column_encode_ints(&b, ints, n);
    assert_false(b.failed);
    p = exact(&b);
    memset(ints_back, 0xa5, sizeof(ints_back));
    assert_true(column_decode_ints(bytes_of(p, b.n), ints_back, n));
    assert_memory_equal(ints, ints_back, n * sizeof(*ints));
    bytes = b.n;
    free(p);
    buf_fini(&b);
    return bytes;
}

static size_t check_doubles(size_t n)
{
    struct buf b = {0};
    uint8_t *p;
    size_t bytes;

    column_encode_doubles(&b, bits, n);
    assert_false(b.failed);
    p = exact(&b);
    memset(bits_back, 0xa5, sizeof(bits_back));
    assert_true(column_decode_doubles(bytes_of(p, b.n), bits_back, n));
    assert_memory_equal(bits, bits_back, n * sizeof(*bits));
    bytes = b.n;
    free(p);
    buf_fini(&b);
    return bytes;
}

static uint64_t bits_of(double d)
{
    uint64_t v;

    memcpy(&v, &d, sizeof(v));
    return v;
}

static void constant_and_linear_take_a_few_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2048; i++)
        ints[i] = INT64_MIN;
    assert_int_equal(check_ints(2048), 1 + 10);
    for (size_t i = 0; i < 2048; i++)
        ints[i] = (int64_t)(UINT64_C(1700000000000000000) + i * UINT64_C(10000000000));
    assert_in_range(check_ints(2048), 3, 1 + 9 + 6);
    assert_int_equal(check_ints(1), 1 + 9);
    assert_int_equal(check_ints(0), 0);
    for (size_t i = 0; i < 100; i++)
        bits[i] = bits_of(0.25);
    assert_in_range(check_doubles(100), 3, 8);
}

/* Increments of 0 to 20 need 5 bits: 2,047 * 5 / 8 = 1,280 bytes, and three bytes a run of 256. */
static void a_counter_takes_the_bits_of_its_increments(void **state)
{
    (void)state;

    ints[0] = 1234567;
    for (size_t i = 1; i < 2048; i++)
        ints[i] = ints[i - 1] + (int64_t)(random_u64() % 21);
    assert_in_range(check_ints(2048), 1250, 1280 + 8 * 3 + 8);
    /* A reset now and then costs its own bytes, not bits of every value. */
    for (size_t i = 1; i < 2048; i++)
        ints[i] = i % 500 == 0 ? 3 : ints[i - 1] + (int64_t)(random_u64() % 21);
    assert_in_range(check_ints(2048), 1250, 1280 + 8 * 3 + 8 + 4 * 13);
    for (size_t i = 0; i < 2048; i++)
        bits[i] = bits_of((double)ints[i]);
    assert_in_range(check_doubles(2048), 1250, 1280 + 8 * 3 + 8 + 4 * 13 + 4);
}

/* Steps within +-1.00 in hundredths: 201 values, 8 bits. */
static void decimals_are_scaled_integers(void **state)
{
    int64_t at = 5000;
    (void)state;

    for (size_t i = 0; i < 2048; i++) {
        at += (int64_t)(random_u64() % 201) - 100;
        bits[i] = bits_of((double)at / 100);
    }
    assert_in_range(check_doubles(2048), 2000, 2047 + 8 * 3 + 16);
    /* NaN, -0.0 and infinity among them keep their bits, at nine bytes or a few more each. */
    bits[5] = UINT64_C(0x7ff8000000000123);
    bits[6] = UINT64_C(0xfff0000000000000);
    bits[700] = UINT64_C(0x8000000000000000);
    bits[2047] = UINT64_C(0x7ff0000000000002);
    assert_in_range(check_doubles(2048), 2000, 2047 + 8 * 3 + 16 + 4 * 16);
}

static void any_integers_survive(void **state)
{
    (void)state;

    for (int round = 0; round < 3000; round++) {
        size_t n = (size_t)(random_u64() % 700);
        unsigned shift = (unsigned)(random_u64() % 64), outliers = (unsigned)(random_u64() % 30);
        unsigned kind = (unsigned)(random_u64() % 4);

        for (size_t i = 0; i < n; i++) {
            uint64_t v = random_u64() >> shift;

            if (outliers > 0 && random_u64() % (outliers * 5) == 0)
                v = random_u64();
            if (kind == 1 && i > 0)
                v += (uint64_t)ints[i - 1];
            if (kind == 2 && i > 1)
                v += 2 * (uint64_t)ints[i - 1] - (uint64_t)ints[i - 2];
            if (kind == 3 && (v & 1) != 0)
                v = ~v;
            ints[i] = (int64_t)v;
        }
        (void)check_ints(n);
    }
}

static void any_doubles_survive(void **state)
{
    (void)state;

    for (int round = 0; round < 3000; round++) {
        size_t n = (size_t)(random_u64() % 700);
        unsigned kind = (unsigned)(random_u64() % 6), digits = (unsigned)(random_u64() % 17);

        for (size_t i = 0; i < n; i++) {
            uint64_t v = random_u64();

            if (kind == 1)
                v = bits_of((double)(int64_t)(v >> 40) / pow(10, digits));
            else if (kind == 2)
                v = bits_of((double)(v >> 11) / 9007199254740992.0);
            else if (kind == 3)
                v = i == 0 ? v : bits[i - 1] ^ (v >> 60 << 20);
            else if (kind == 4)
                v = v % 3 == 0 ? UINT64_C(0x7ff8000000000000) | v >> 60
                               : bits_of((double)(v % 7) * 0.5);
            else if (kind == 5)
                v = v % 2 == 0 ? UINT64_C(1) << 63 : 0;
            bits[i] = v;
        }
        (void)check_doubles(n);
    }
}

/* What reads as this decimal text is found to have so few digits, not more. */
static void the_digits_of_decimal_text_are_found(void **state)
{
    (void)state;

    for (int digits = 0; digits <= 9; digits++) {
        for (size_t i = 0; i < 1000; i++) {
            char text[40];

            (void)snprintf(text, sizeof(text), "%u.%0*u", (unsigned)(random_u64() % 1000),
                           digits == 0 ? 1 : digits,
                           digits == 0 ? 0 : (unsigned)(random_u64() % (uint64_t)pow(10, digits)));
            bits[i] = bits_of(strtod(text, NULL));
        }
        {
            struct buf b = {0};

            column_encode_doubles(&b, bits, 1000);
            assert_int_equal(b.p[0], 16);
            assert_in_range(b.p[1], 0, (unsigned)digits);
            buf_fini(&b);
        }
        (void)check_doubles(1000);
    }
}

static void byte_strings_survive(void **state)
{
    static uint32_t end[700], end_back[700];
    (void)state;

    for (int round = 0; round < 500; round++) {
        size_t n = (size_t)(random_u64() % 700);
        unsigned distinct = 1 + (unsigned)(random_u64() % 50),
                 longest = (unsigned)(random_u64() % 40);
        struct buf data = {0}, b = {0}, back = {0};
        uint8_t *p;

        for (size_t i = 0; i < n; i++) {
            uint64_t which = random_u64() % distinct * UINT64_C(0x9e3779b97f4a7c15);
            size_t len = longest == 0 ? 0 : (size_t)(which >> 40) % longest;

            for (size_t k = 0; k < len; k++)
                buf_add_char(&data, (char)((which >> k) % (round % 2 == 0 ? 256 : 4)));
            end[i] = (uint32_t)data.n;
        }
        column_encode_bytes(&b, data.p, end, n);
        assert_false(b.failed);
        p = exact(&b);
        buf_add_str(&back, "before");
        assert_true(column_decode_bytes(bytes_of(p, b.n), &back, end_back, n, data.n));
        assert_int_equal(back.n, data.n + 6);
        if (data.n > 0)
            assert_memory_equal(back.p + 6, data.p, data.n);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(end_back[i], end[i] + 6);
        if (data.n > 0) {
            buf_reset(&back);
            assert_false(column_decode_bytes(bytes_of(p, b.n), &back, end_back, n, data.n - 1));
        }
        free(p);
        buf_fini(&b);
        buf_fini(&back);
        buf_fini(&data);
    }
}

static void a_thousand_equal_strings_cost_next_to_nothing(void **state)
{
    uint32_t end[1000];
    struct buf data = {0}, b = {0};
    (void)state;

    for (uint32_t i = 0; i < 1000; i++) {
        buf_add_str(&data, "equal");
        end[i] = (uint32_t)data.n;
    }
    column_encode_bytes(&b, data.p, end, 1000);
    assert_in_range(b.n, 5, 20);
    buf_fini(&b);
    buf_fini(&data);
}

/* Every prefix, and every stream with a byte changed, is refused or gives n values of some kind,
 * and is never read beyond its end (ASan). */
static void damage_is_told_or_harmless(void **state)
{
    (void)state;

    for (int round = 0; round < 400; round++) {
        struct buf b = {0};
        size_t n = 2 + (size_t)(random_u64() % 600);
        unsigned shift = (unsigned)(random_u64() % 64);

        for (size_t i = 0; i < n; i++) {
            ints[i] = (int64_t)(random_u64() % 50 == 0 ? random_u64() : random_u64() >> shift);
            bits[i] = round % 3 == 0 ? bits_of((double)(ints[i] % 1000) / 10) : (uint64_t)ints[i];
        }
        if (round % 2 == 0)
            column_encode_ints(&b, ints, n);
        else
            column_encode_doubles(&b, bits, n);
        for (int k = 0; k < 40; k++) {
            uint8_t *p = exact(&b);
            size_t cut = k % 2 == 0 ? (size_t)(random_u64() % b.n) : b.n;
            uint8_t *q = malloc(cut == 0 ? 1 : cut);
            bool ok;

            assert_non_null(q);
            if (cut == b.n)
                p[random_u64() % b.n] ^= (uint8_t)(1 + random_u64() % 255);
            memcpy(q, p, cut);
            if (round % 2 == 0)
                ok = column_decode_ints(bytes_of(q, cut), ints_back, n);
            else
                ok = column_decode_doubles(bytes_of(q, cut), bits_back, n);
            if (cut < b.n)
                assert_false(ok);
            free(p);
            free(q);
        }
        buf_fini(&b);
    }
}

static void reads_as_ints(const uint8_t *p, size_t bytes, const int64_t *want, size_t n)
{
    assert_true(column_decode_ints(bytes_of(p, bytes), ints_back, n));
    assert_memory_equal(ints_back, want, n * sizeof(*want));
}

/* Streams written by hand from docs/format.md: a change of the format fails here. */
static void the_bytes_are_those_of_the_format(void **state)
{
    (void)state;
    {
        const uint8_t constant[] = {0, 13}; /* zigzag(-7) */
        const int64_t want[] = {-7, -7, -7};

        int64_t all = 0;

        reads_as_ints(constant, sizeof(constant), want, 3);
        assert_true(column_ints_constant(bytes_of(constant, 2), &all));
        assert_int_equal(all, -7);
        assert_false(column_ints_constant(bytes_of(constant, 1), &all));
        assert_false(column_ints_constant(bytes_of(constant, 0), &all));
    }
    {
        const uint8_t linear[] = {1, 20, 0xc8, 0x01}; /* from 10 by 100 */
        const int64_t want[] = {10, 110, 210};

        int64_t all;

        reads_as_ints(linear, sizeof(linear), want, 3);
        assert_false(column_ints_constant(bytes_of(linear, sizeof(linear)), &all));
    }
    {
        /* base 4, width 3, no exceptions: 1 7 0 2 5 from the lowest bit on */
        const uint8_t packed[] = {2, 8, 3, 0, 0x39, 0x54};
        const int64_t want[] = {5, 11, 4, 6, 9};

        reads_as_ints(packed, sizeof(packed), want, 5);
    }
    {
        /* from 10; base 1, width 1, one exception; 0 1 0 and the low bit of 985; place 3, 492 */
        const uint8_t delta[] = {3, 20, 2, 1, 1, 0x0a, 3, 0xec, 0x03};
        const int64_t want[] = {10, 11, 13, 14, 1000};

        reads_as_ints(delta, sizeof(delta), want, 5);
    }
    {
        /* from 0 by 10; differences of differences 1, 0, -1: base -1, width 2 */
        const uint8_t delta2[] = {4, 0, 20, 1, 2, 0, 0x06};
        const int64_t want[] = {0, 10, 21, 32, 42};

        reads_as_ints(delta2, sizeof(delta2), want, 5);
    }
    {
        const uint8_t raw[] = {5, 1, 0, 0, 0, 0, 0, 0, 0x80};
        const int64_t want[] = {INT64_MIN + 1};

        reads_as_ints(raw, sizeof(raw), want, 1);
    }
    {
        /* one digit, an exception at 1: a NaN; integers from 5, 5, 15 */
        const uint8_t decimal[] = {16, 1,    1,    1, 2,  0, 0, 0,    0,
                                   0,  0xf8, 0x7f, 2, 10, 4, 0, 0x00, 0x0a};
        const uint64_t want[] = {0x3fe0000000000000, 0x7ff8000000000002, 0x3ff8000000000000};

        assert_true(column_decode_doubles(bytes_of(decimal, sizeof(decimal)), bits_back, 3));
        assert_memory_equal(bits_back, want, sizeof(want));
    }
    {
        /* 1.0, shifted by 51; then XOR 1 << 51, 1 << 52: base 1, width 1 */
        const uint8_t xored[] = {17,   0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
                                 0xf8, 0x3f, 51,   2,    1,    0,    0x02};
        const uint64_t want[] = {0x3ff0000000000000, 0x3ff8000000000000, 0x3fe8000000000000};

        assert_true(column_decode_doubles(bytes_of(xored, sizeof(xored)), bits_back, 3));
        assert_memory_equal(bits_back, want, sizeof(want));
    }
    {
        const uint8_t plain[] = {18, 0, 1}; /* bits as integers: constant -1 */
        const uint64_t want[] = {UINT64_MAX, UINT64_MAX};

        assert_true(column_decode_doubles(bytes_of(plain, sizeof(plain)), bits_back, 2));
        assert_memory_equal(bits_back, want, sizeof(want));
    }
    {
        /* two distinct strings; which: 0 1 0; lengths 2 1; plain text of 3 bytes */
        const uint8_t strings[] = {32, 2, 5, 2, 0, 1, 0, 0x02, 3, 1, 4, 1, 0, 3, 'a', 'b', 'c'};
        struct buf text = {0};
        uint32_t end[3];

        assert_true(column_decode_bytes(bytes_of(strings, sizeof(strings)), &text, end, 3, 100));
        assert_int_equal(text.n, 5);
        assert_memory_equal(text.p, "abcab", 5);
        assert_int_equal(end[0], 2);
        assert_int_equal(end[1], 3);
        assert_int_equal(end[2], 5);
        buf_fini(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constant_and_linear_take_a_few_bytes),
        cmocka_unit_test(a_counter_takes_the_bits_of_its_increments),
        cmocka_unit_test(decimals_are_scaled_integers),
        cmocka_unit_test(any_integers_survive),
        cmocka_unit_test(any_doubles_survive),
        cmocka_unit_test(the_digits_of_decimal_text_are_found),
        cmocka_unit_test(byte_strings_survive),
        cmocka_unit_test(a_thousand_equal_strings_cost_next_to_nothing),
        cmocka_unit_test(damage_is_told_or_harmless),
        cmocka_unit_test(the_bytes_are_those_of_the_format),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
