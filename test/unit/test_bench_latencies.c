/* The latency histogram of otlite-bench, which is in no library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../../bench/latencies.c"

static void empty_gives_zero(void **state)
{
    struct latencies *h = calloc(1, sizeof(*h));

    (void)state;
    assert_non_null(h);
    assert_int_equal(latencies_quantile(h, 0.5), 0);
    assert_int_equal(latencies_quantile(h, 1), 0);
    free(h);
}

static void small_values_are_exact(void **state)
{
    struct latencies *h = calloc(1, sizeof(*h));

    (void)state;
    assert_non_null(h);
    for (int v = 1; v <= 50; v++)
        latencies_add(h, v);
    assert_int_equal(h->count, 50);
    assert_int_equal(h->min, 1);
    assert_int_equal(h->max, 50);
    assert_int_equal(latencies_quantile(h, 0.5), 25);
    assert_int_equal(latencies_quantile(h, 0.9), 45);
    assert_int_equal(latencies_quantile(h, 1), 50);
    assert_int_equal(latencies_quantile(h, 0), 1);
    latencies_reset(h);
    assert_int_equal(h->count, 0);
    assert_int_equal(latencies_quantile(h, 1), 0);
    free(h);
}

/* 64 buckets to a power of two: never below the true value, at most 1/64 above. */
static void quantiles_are_within_a_64th(void **state)
{
    struct latencies *h = calloc(1, sizeof(*h));

    (void)state;
    assert_non_null(h);
    for (int64_t v = 1; v <= 100000; v++)
        latencies_add(h, v * 1000);
    for (int percent = 1; percent <= 100; percent++) {
        int64_t exact = (int64_t)percent * 1000 * 1000;
        int64_t got = latencies_quantile(h, percent / 100.0);

        /* 29/100.0 * 100000 is a hair above 29000 in binary: the next value may be meant. */
        assert_true(got >= exact && got <= exact + 1000 + exact / 64);
    }
    free(h);
}

static void max_is_exact_and_bounds_every_quantile(void **state)
{
    struct latencies *h = calloc(1, sizeof(*h));

    (void)state;
    assert_non_null(h);
    latencies_add(h, 1000003);
    assert_int_equal(latencies_quantile(h, 0.5), 1000003);
    assert_int_equal(latencies_quantile(h, 0.99), 1000003);
    free(h);
}

static void ends_of_the_range_have_buckets(void **state)
{
    struct latencies *h = calloc(1, sizeof(*h));

    (void)state;
    assert_non_null(h);
    latencies_add(h, INT64_MAX);
    latencies_add(h, -5);
    assert_int_equal(h->min, 0);
    assert_true(latencies_quantile(h, 1) == INT64_MAX);
    assert_int_equal(latencies_quantile(h, 0.5), 0);
    /* Neighbours on both sides of a power of two: 127 | 128, and the last of a row. */
    for (uint64_t v = 1; v < 100000; v++) {
        unsigned i = bucket_of(v);

        assert_true(i < HISTOGRAM_BUCKETS);
        assert_true(bucket_top(i) >= (int64_t)v);
        assert_true(i == 0 || bucket_top(i - 1) < (int64_t)v);
    }
    free(h);
}

static void merge_is_like_adding_all(void **state)
{
    struct latencies *a = calloc(1, sizeof(*a)), *b = calloc(1, sizeof(*b));

    (void)state;
    assert_non_null(a);
    assert_non_null(b);
    latencies_merge(a, b);
    assert_int_equal(a->count, 0);
    for (int v = 10; v < 20; v++)
        latencies_add(v % 2 ? a : b, v);
    latencies_merge(a, b);
    assert_int_equal(a->count, 10);
    assert_int_equal(a->min, 10);
    assert_int_equal(a->max, 19);
    assert_int_equal(latencies_quantile(a, 0.5), 14);
    free(a);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_gives_zero),
        cmocka_unit_test(small_values_are_exact),
        cmocka_unit_test(quantiles_are_within_a_64th),
        cmocka_unit_test(max_is_exact_and_bounds_every_quantile),
        cmocka_unit_test(ends_of_the_range_have_buckets),
        cmocka_unit_test(merge_is_like_adding_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
