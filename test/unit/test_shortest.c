/* test_shortest.c -- digits of doubles against printf and strtod: the fewest that read back, and of
 * those the nearest. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "query/format_number.h"
#include "query/shortest.h"

static uint64_t state = 88172645463325252U;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void check(double d)
{
    uint64_t digits;
    int n, exponent;
    char want[64], got[64];

    int unused;

    if (!shortest_digits(d, &digits, &n, &exponent)) {
        /* All that it says it can tell it tells: printf takes ten times as long. */
        assert_true(d < 1e-5 || d >= 1e15 || frexp(d, &unused) == 0.5);
        return;
    }
    for (int k = 1; k <= 17; k++) {
        snprintf(want, sizeof(want), "%.*e", k - 1, d);
        if (strtod(want, NULL) == d)
            break;
    }
    snprintf(got, sizeof(got), "%llue%d", (unsigned long long)digits, exponent);
    if (strtod(got, NULL) != d)
        fail_msg("%.17g became %s", d, got);
    /* As many digits, and the same. */
    snprintf(got, sizeof(got), "%llu", (unsigned long long)digits);
    assert_int_equal((int)strlen(got), n);
    for (char *p = want, *q = got;; p++) {
        if (*p == '.')
            continue;
        if (*p == 'e') {
            assert_int_equal(*q, '\0');
            return;
        }
        if (*p != *q)
            fail_msg("%.17g: %s, not %s", d, got, want);
        q++;
    }
}

static void as_printf_and_strtod_have_it(void **unused)
{
    (void)unused;
    for (int i = 0; i < 300000; i++) {
        uint64_t bits = next_random();
        double d;

        /* Exponents of 1e-5 to 1e15. */
        bits = (bits & 0x000fffffffffffffU) | (1023U - 17 + next_random() % 67) << 52;
        memcpy(&d, &bits, sizeof(d));
        check(d);
    }
    for (int i = 0; i < 100000; i++) {
        check((double)(next_random() % 100000000) / 100);
        check((double)(next_random() % 1000000000) / 1000);
        check((double)(next_random() % 1000000) / 300);
        check((double)(next_random() % 1000000) / 299.985);
    }
    for (double d = 1e-5; d < 1e15; d *= 10) {
        check(d);
        check(nextafter(d, 0));
        check(nextafter(d, (double)INFINITY));
        check(d * 9.5);
        check(nextafter(d * 9.999999999999999, 0));
    }
}

static void plain_digits(void **unused)
{
    static const struct {
        double d;
        const char *text;
    } c[] = {{0, "0"},
             {-0.0, "-0"},
             {1, "1"},
             {-12, "-12"},
             {0.1, "0.1"},
             {-0.25, "-0.25"},
             {1.5e-5, "0.000015"},
             {1e-7, "0.0000001"},
             {123456789.125, "123456789.125"},
             {1e15, "1000000000000000"},
             {1e21, "1000000000000000000000"},
             {0.30000000000000004, "0.30000000000000004"},
             {5e-324, NULL},
             {1.0 / 3, "0.3333333333333333"},
             {2.0 / 3, "0.6666666666666666"},
             {100.5, "100.5"},
             {999999999999999.9, "999999999999999.9"}};

    (void)unused;
    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        struct buf b = {0};

        format_float(&b, c[i].d);
        if (c[i].text != NULL)
            assert_string_equal(buf_cstr(&b), c[i].text);
        assert_true(strtod(buf_cstr(&b), NULL) == c[i].d);
        buf_fini(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_printf_and_strtod_have_it),
        cmocka_unit_test(plain_digits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
