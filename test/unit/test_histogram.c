/* Native histograms: expected values by hand, from the layout of buckets (bucket i of schema s
 * holds (2^((i-1)/2^s), 2^(i/2^s)]) and the rules of Prometheus 3. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "query/histogram.h"
#include "query/histogram_internal.h"

static void near(double got, double want)
{
    if (isnan(want)) {
        assert_true(isnan(got));
    } else if (isinf(want) || want == 0) {
        assert_true(got == want);
    } else if (!(fabs(got - want) <= 1e-12 * fabs(want))) {
        print_message("got %.17g, want %.17g\n", got, want);
        fail();
    }
}

/* Positive buckets from pos_first on, negative ones from neg_first on; count is their sum. */
static struct prom_histogram *make(int32_t schema, double threshold, double zero, int32_t pos_first,
                                   const double *pos, uint32_t pos_n, int32_t neg_first,
                                   const double *neg, uint32_t neg_n, double sum)
{
    struct prom_histogram *h = histogram_new(schema, pos_first, pos_n, neg_first, neg_n);

    assert_non_null(h);
    h->zero_threshold = threshold;
    h->zero_count = h->count = zero;
    h->sum = sum;
    for (uint32_t i = 0; i < pos_n; i++) {
        h->positive.counts[i] = pos[i];
        h->count += pos[i];
    }
    for (uint32_t i = 0; i < neg_n; i++) {
        h->negative.counts[i] = neg[i];
        h->count += neg[i];
    }
    return h;
}
#define COUNTS(...) (const double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double)
#define NONE        0, NULL, 0

static void prints_as(const struct prom_histogram *h, const char *want)
{
    struct buf b = {0};

    histogram_print(&b, h);
    assert_string_equal(buf_cstr(&b), want);
    buf_fini(&b);
}

static void bounds_are_powers(void **state)
{
    (void)state;
    near(histogram_bound(0, 0), 1);
    near(histogram_bound(0, 3), 8);
    near(histogram_bound(0, -2), 0.25);
    near(histogram_bound(1, 1), M_SQRT2);
    near(histogram_bound(1, -1), 1 / M_SQRT2);
    near(histogram_bound(3, 17), 4 * pow(2, 0.125));
    near(histogram_bound(-1, 3), 64);
    near(histogram_bound(-4, -1), 1.0 / 65536);
    /* The bucket of the largest doubles ends at the largest; beyond there is nothing. */
    near(histogram_bound(0, 1024), 1.7976931348623157e308);
    near(histogram_bound(8, 1024 * 256), 1.7976931348623157e308);
    near(histogram_bound(8, 1024 * 256 + 1), INFINITY);
    near(histogram_bound(-4, 65), INFINITY);
    near(histogram_bound(8, -1074 * 256), 4.9406564584124654e-324);
    near(histogram_bound(8, INT32_MIN), 0);
    near(histogram_bound(8, INT32_MAX), INFINITY);
}

static void prints(void **state)
{
    struct prom_histogram *h = make(0, 0.001, 2, 0, COUNTS(1, 0, 3.5), 1, COUNTS(4, 5), 1234567);

    (void)state;
    prints_as(h, "{count:15.5, sum:1.234567e+06, [-4,-2):5, [-2,-1):4, [-0.001,0.001]:2, "
                 "(0.5,1]:1, (2,4]:3.5}");
    histogram_free(h);
    h = histogram_new(0, 0, 0, 0, 0);
    prints_as(h, "{count:0, sum:0}");
    histogram_free(h);
}

static bool take(void *arg, int boundaries, double lower, double upper, double count)
{
    struct buf *b = arg;

    buf_printf(b, "%d:%g:%g:%g ", boundaries, lower, upper, count);
    return count != 9;
}

static void walks_in_order(void **state)
{
    /* The lowest positive bucket, (0.5, 1], begins where the zero bucket ends; the walk ends where
     * it is told to. */
    struct prom_histogram *h = make(0, 0.75, 2, 0, COUNTS(1, 9, 1), 1, COUNTS(4, 0, 5), 0);
    struct buf b = {0};

    (void)state;
    histogram_walk(h, take, &b);
    assert_string_equal(buf_cstr(&b), "1:-8:-4:5 1:-2:-1:4 3:-0.75:0.75:2 0:0.75:1:1 0:1:2:9 ");
    buf_fini(&b);
    histogram_free(h);
}

static void adds_the_same_layout(void **state)
{
    struct prom_histogram *a = make(0, 0.001, 1, 0, COUNTS(1, 2), 1, COUNTS(3), 10);
    struct prom_histogram *b = make(0, 0.001, 2, 2, COUNTS(5), 0, COUNTS(7), 20);
    struct prom_histogram *c = histogram_add(a, b), *d = histogram_sub(a, b);

    (void)state;
    prints_as(c, "{count:21, sum:30, [-2,-1):3, [-1,-0.5):7, [-0.001,0.001]:3, (0.5,1]:1, (1,2]:2, "
                 "(2,4]:5}");
    prints_as(d, "{count:-7, sum:-10, [-2,-1):3, [-1,-0.5):-7, [-0.001,0.001]:-1, (0.5,1]:1, "
                 "(1,2]:2, (2,4]:-5}");
    assert_int_equal(d->hint, RESET_GAUGE);
    histogram_free(c);
    histogram_free(d);
    assert_true(histogram_add_to(&a, b));
    prints_as(a, "{count:21, sum:30, [-2,-1):3, [-1,-0.5):7, [-0.001,0.001]:3, (0.5,1]:1, (1,2]:2, "
                 "(2,4]:5}");
    /* Now it has room for all that b has. */
    c = a;
    assert_true(histogram_add_to(&a, b));
    assert_ptr_equal(a, c);
    prints_as(a, "{count:35, sum:50, [-2,-1):3, [-1,-0.5):14, [-0.001,0.001]:5, (0.5,1]:1, "
                 "(1,2]:2, (2,4]:10}");
    histogram_free(a);
    histogram_free(b);
}

static void adds_in_the_lesser_schema(void **state)
{
    /* Schema 1: (1, 1.41] (1.41, 2] (2, 2.83] (2.83, 4]; in schema 0 (1, 2] and (2, 4]. Indices -1
     * and 0 are (0.5, 0.707] and (0.707, 1]. */
    struct prom_histogram *fine = make(1, 0, 0, -1, COUNTS(1, 2, 4, 8, 16, 32), NONE, 1);
    struct prom_histogram *coarse = make(0, 0, 0, 1, COUNTS(100), NONE, 2);
    struct prom_histogram *c = histogram_add(fine, coarse), *d = histogram_sub(coarse, fine);

    (void)state;
    prints_as(c, "{count:163, sum:3, (0.5,1]:3, (1,2]:112, (2,4]:48}");
    prints_as(d, "{count:37, sum:1, (0.5,1]:-3, (1,2]:88, (2,4]:-48}");
    histogram_free(c);
    histogram_free(d);
    histogram_free(fine);
    histogram_free(coarse);
}

static void adds_zero_buckets(void **state)
{
    /* b's zero bucket goes to 1.5, within a's bucket (1, 2]; so it grows to 2. Of b nothing is
     * between 1.5 and 2 but the rest of (1, 2], which it takes in as well. */
    struct prom_histogram *a = make(0, 0.001, 1, 0, COUNTS(2, 4, 8), 0, COUNTS(16), 1);
    struct prom_histogram *b = make(0, 1.5, 100, 1, COUNTS(200, 400), NONE, 1);
    struct prom_histogram *c = histogram_add(a, b), *d = histogram_add(b, a);
    double got;

    (void)state;
    prints_as(c, "{count:731, sum:2, [-2,2]:323, (2,4]:408}");
    assert_true(histogram_equal(c, d));
    histogram_free(c);
    histogram_free(d);
    /* A threshold within an empty bucket stays. */
    a->positive.counts[1] = 0;
    b->positive.counts[0] = 0;
    c = histogram_add(a, b);
    got = c->zero_threshold;
    near(got, 1.5);
    near(c->zero_count, 1 + 2 + 16 + 100);
    histogram_free(c);
    histogram_free(a);
    histogram_free(b);
}

static void keeps_buckets_that_begin_in_the_zero_bucket(void **state)
{
    struct prom_histogram *a = make(0, 0.75, 1, 0, COUNTS(2), 0, COUNTS(3), 1);
    struct prom_histogram *c = histogram_sub(a, a), *d = histogram_add(a, a);

    (void)state;
    prints_as(c, "{count:0, sum:0}");
    prints_as(d, "{count:12, sum:2, [-1,-0.5):6, [-0.75,0.75]:2, (0.5,1]:4}");
    histogram_free(c);
    histogram_free(d);
    histogram_free(a);
}

static void refuses_what_doubles_do_not_need(void **state)
{
    struct prom_histogram *a = make(8, 0, 0, INT32_MIN + 10, COUNTS(1), NONE, 0);
    struct prom_histogram *b = make(8, 0, 0, INT32_MAX - 10, COUNTS(1), NONE, 0);

    (void)state;
    assert_null(histogram_new(0, 0, (1 << 20) + 1, 0, 0));
    assert_null(histogram_add(a, b));
    assert_false(histogram_add_to(&a, b));
    histogram_free(a);
    histogram_free(b);
}

static void hints_of_sums(void **state)
{
    static const enum reset_hint cases[][3] = {{RESET_NO, RESET_NO, RESET_NO},
                                               {RESET_YES, RESET_NO, RESET_UNKNOWN},
                                               {RESET_GAUGE, RESET_NO, RESET_GAUGE},
                                               {RESET_UNKNOWN, RESET_YES, RESET_UNKNOWN}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct prom_histogram *a = make(0, 0, 0, 0, COUNTS(1), NONE, 0);
        struct prom_histogram *b = histogram_copy(a), *c;

        a->hint = cases[i][0];
        b->hint = cases[i][1];
        c = histogram_add(a, b);
        assert_int_equal(c->hint, cases[i][2]);
        assert_true(histogram_add_to(&b, a));
        assert_int_equal(b->hint, cases[i][2]);
        histogram_free(a);
        histogram_free(b);
        histogram_free(c);
    }
}

static void scales_and_compacts(void **state)
{
    struct prom_histogram *h = make(0, 0.5, 2, 0, COUNTS(0, 0, 4, 0), 1, COUNTS(0), 3);

    (void)state;
    histogram_compact(h);
    assert_int_equal(h->positive.first, 2);
    assert_int_equal(h->positive.n, 1);
    assert_int_equal(h->negative.n, 0);
    histogram_scale(h, 0.5);
    prints_as(h, "{count:3, sum:1.5, [-0.5,0.5]:1, (2,4]:2}");
    histogram_divide(h, -2);
    prints_as(h, "{count:-1.5, sum:-0.75, [-0.5,0.5]:-0.5, (2,4]:-1}");
    assert_int_equal(h->hint, RESET_GAUGE);
    histogram_divide(h, 0);
    prints_as(h, "{count:-Inf, sum:-Inf, [-0.5,0.5]:-Inf}");
    histogram_free(h);
}

static void equality_is_of_what_is_there(void **state)
{
    struct prom_histogram *a = make(0, 0, 1, 0, COUNTS(0, 2, 0), NONE, 3);
    struct prom_histogram *b = make(0, 0, 1, 1, COUNTS(2), NONE, 3);

    (void)state;
    assert_true(histogram_equal(a, b));
    b->positive.first = 2;
    assert_false(histogram_equal(a, b));
    b->positive.first = 1;
    b->sum = 4;
    assert_false(histogram_equal(a, b));
    b->sum = 3;
    b->negative = (struct histogram_buckets){0, 1, b->positive.counts};
    assert_false(histogram_equal(a, b));
    assert_false(histogram_equal(b, a));
    histogram_free(a);
    histogram_free(b);
}

static void detects_resets(void **state)
{
    struct prom_histogram *a = make(1, 0.001, 1, 0, COUNTS(2, 2, 2, 2), 1, COUNTS(1), 0);
    struct prom_histogram *b = histogram_copy(a);

    (void)state;
    assert_false(histogram_is_reset(a, b));
    b->positive.counts[2] = 1;
    b->positive.counts[1] = 9;
    assert_true(histogram_is_reset(a, b));
    b->hint = RESET_NO;
    assert_false(histogram_is_reset(a, b));
    b->hint = RESET_GAUGE;
    assert_true(histogram_is_reset(a, b));
    b->hint = RESET_UNKNOWN;
    b->positive.counts[2] = 2;
    b->count = a->count - 1;
    assert_true(histogram_is_reset(a, b));
    b->count = a->count;
    assert_false(histogram_is_reset(a, b));
    b->hint = RESET_YES;
    assert_true(histogram_is_reset(a, b));
    b->hint = RESET_UNKNOWN;
    /* A bucket that is not there any more. */
    b->negative.n = 0;
    assert_true(histogram_is_reset(a, b));
    histogram_free(b);
    /* The lesser schema: (0.5, 1] has 2, (1, 2] has 4, (2, 4] has 2 of what a had. */
    b = make(0, 0.001, 1, 0, COUNTS(2, 4, 2), 1, COUNTS(1), 0);
    assert_false(histogram_is_reset(a, b));
    assert_true(histogram_is_reset(b, a));
    b->positive.counts[1] = 3;
    b->positive.counts[2] = 9;
    assert_true(histogram_is_reset(a, b));
    b->positive.counts[1] = 4;
    /* A zero bucket that took in (0.707, 1] of a, and the negative one no further than that. */
    b->zero_threshold = 1;
    b->zero_count = 2;
    b->count = a->count;
    assert_true(histogram_is_reset(a, b)); /* 1 + 2 were there */
    b->zero_count = 3;
    b->positive.counts[0] = 0;
    assert_false(histogram_is_reset(a, b));
    b->zero_threshold = 1.1; /* within (1, 1.41] */
    assert_true(histogram_is_reset(a, b));
    histogram_free(a);
    histogram_free(b);
}

static void quantiles(void **state)
{
    /* (1, 2]: 4, (2, 4]: 4. */
    struct prom_histogram *h = make(0, 0, 0, 1, COUNTS(4, 4), NONE, 20);

    (void)state;
    near(histogram_quantile(h, 0), 1);
    near(histogram_quantile(h, 0.25), M_SQRT2); /* the middle of (1, 2] on the logarithmic scale */
    near(histogram_quantile(h, 0.5), 2);
    near(histogram_quantile(h, 0.75), 2 * M_SQRT2);
    near(histogram_quantile(h, 1), 4);
    near(histogram_quantile(h, -0.1), -INFINITY);
    near(histogram_quantile(h, 1.1), INFINITY);
    near(histogram_quantile(h, NAN), NAN);
    /* With two observations of NaN, 8 of 10 are in the buckets. */
    h->count = 10;
    h->sum = NAN;
    near(histogram_quantile(h, 0.4), 2);
    near(histogram_quantile(h, 0.8), 4);
    near(histogram_quantile(h, 0.81), NAN);
    histogram_free(h);
    /* [-4, -2): 2, [-2, -1): 2, zero: 4 up to 0.5. */
    h = make(0, 0.5, 4, 0, NULL, 0, 1, COUNTS(2, 2), 0);
    near(histogram_quantile(h, 0), -4);
    near(histogram_quantile(h, 0.125), -2 * M_SQRT2);
    near(histogram_quantile(h, 0.375), -M_SQRT2);
    near(histogram_quantile(h, 0.75), -0.25); /* no positive ones: the zero bucket is [-0.5, 0] */
    near(histogram_quantile(h, 1), 0);
    histogram_free(h);
    h = make(0, 0.5, 4, 1, COUNTS(4), NONE, 0);
    near(histogram_quantile(h, 0.25), 0.25);
    histogram_free(h);
    h = make(0, 0.5, 4, 1, COUNTS(2), 1, COUNTS(2), 0);
    near(histogram_quantile(h, 0.5), 0);
    near(histogram_quantile(h, 0.375), -0.25);
    histogram_free(h);
    h = histogram_new(0, 0, 0, 0, 0);
    near(histogram_quantile(h, 0.5), NAN);
    histogram_free(h);
}

static void fractions(void **state)
{
    struct prom_histogram *h = make(0, 0, 0, 1, COUNTS(4, 4), NONE, 20);

    (void)state;
    near(histogram_fraction(h, 1, 2), 0.5);
    near(histogram_fraction(h, M_SQRT2, 2 * M_SQRT2), 0.5);
    near(histogram_fraction(h, -INFINITY, M_SQRT2), 0.25);
    near(histogram_fraction(h, 2, INFINITY), 0.5);
    near(histogram_fraction(h, -INFINITY, INFINITY), 1);
    near(histogram_fraction(h, 3, 3), 0);
    near(histogram_fraction(h, 3, 2), 0);
    near(histogram_fraction(h, NAN, 2), NAN);
    near(histogram_fraction(h, 5, 6), 0);
    /* Observations of NaN are in no fraction. */
    h->count = 10;
    h->sum = NAN;
    near(histogram_fraction(h, -INFINITY, INFINITY), 0.8);
    histogram_free(h);
    h = make(0, 0.5, 4, 1, COUNTS(2), 1, COUNTS(2), 0);
    near(histogram_fraction(h, -0.25, 0.25), 0.25);
    near(histogram_fraction(h, -M_SQRT2, 0), 3.0 / 8);
    histogram_free(h);
    h = histogram_new(0, 0, 0, 0, 0);
    near(histogram_fraction(h, 0, 1), NAN);
    histogram_free(h);
}

static void variances(void **state)
{
    /* Observations at 0 (2), at sqrt(2) (1, of (1, 2]), at -sqrt(8) (1, of [-4, -2)); mean 1. */
    struct prom_histogram *h = make(0, 0.001, 2, 1, COUNTS(1), 2, COUNTS(1), 4);
    const double want =
        (2 * 1 + (M_SQRT2 - 1) * (M_SQRT2 - 1) + (-2 * M_SQRT2 - 1) * (-2 * M_SQRT2 - 1)) / 4;

    (void)state;
    near(histogram_variance(h), want);
    histogram_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_are_powers),
        cmocka_unit_test(prints),
        cmocka_unit_test(walks_in_order),
        cmocka_unit_test(adds_the_same_layout),
        cmocka_unit_test(adds_in_the_lesser_schema),
        cmocka_unit_test(adds_zero_buckets),
        cmocka_unit_test(keeps_buckets_that_begin_in_the_zero_bucket),
        cmocka_unit_test(refuses_what_doubles_do_not_need),
        cmocka_unit_test(hints_of_sums),
        cmocka_unit_test(scales_and_compacts),
        cmocka_unit_test(equality_is_of_what_is_there),
        cmocka_unit_test(detects_resets),
        cmocka_unit_test(quantiles),
        cmocka_unit_test(fractions),
        cmocka_unit_test(variances),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
