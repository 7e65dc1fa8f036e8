/* Rollup rows against sums done the slow way, and joined rows against the rows of all points. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "store/rollup.h"

#define SECOND INT64_C(1000000000)

static int64_t bits_of(double d)
{
    int64_t bits;

    memcpy(&bits, &d, sizeof(bits));
    return bits;
}

static double double_of(int64_t bits)
{
    double d;

    memcpy(&d, &bits, sizeof(d));
    return d;
}

/* A counter or gauge with gaps, resets, NaN and points without a value. Whole numbers, so that sums
 * are the same in any order. */
static void make_numbers(struct series_points *p, size_t n)
{
    int64_t time = INT64_C(1700000000) * SECOND, start = time, v = 0;

    for (size_t i = 0; i < n; i++) {
        enum value_kind kind = random_below(3) == 0 ? VALUE_INT : VALUE_DOUBLE;
        int64_t bits;

        time += SECOND * (1 + random_below(random_below(20) == 0 ? 5000 : 60));
        v += random_below(100);
        if (random_below(25) == 0) {
            v = random_below(50);
            if (random_below(2) == 0)
                start = time - 1;
        }
        bits = kind == VALUE_INT ? v : bits_of((double)v);
        if (random_below(15) == 0) {
            kind = VALUE_DOUBLE;
            bits = bits_of(NAN);
        }
        if (random_below(15) == 0)
            assert_true(
                series_points_add_number(p, time, start, FLAG_NO_RECORDED_VALUE, VALUE_NONE, 0));
        else
            assert_true(series_points_add_number(p, time, start, 0, kind, bits));
    }
}

static double value_at(const struct series_points *p, size_t i)
{
    const struct field_column *c = &p->fields[NUMBER_VALUE];

    if (c->kind[i] == VALUE_NONE)
        return NAN;
    return c->kind[i] == VALUE_INT ? (double)c->v[i] : double_of(c->v[i]);
}

/* Row r of out against all points of its window. */
static void check_number_row(const struct series_points *out, size_t r,
                             const struct series_points *p, int64_t length)
{
    double sum = 0, min = INFINITY, max = -INFINITY, increase = 0, before = 0;
    int64_t n = 0, count = 0, first = -1, last = -1;

    for (size_t i = 0; i < p->n; i++) {
        double d = value_at(p, i);

        if (p->time[i] < out->time[r] || p->time[i] >= out->time[r] + length)
            continue;
        n++;
        if (isnan(d))
            continue;
        if (count++ == 0)
            first = (int64_t)i;
        else
            increase += d < before || p->start_time[i] > p->time[last] ? d : d - before;
        last = (int64_t)i;
        before = d;
        sum += d;
        min = fmin(min, d);
        max = fmax(max, d);
    }
    assert_int_equal(out->time[r] % length, 0);
    assert_int_equal(out->fields[NUMBER_ROLLUP_N].v[r], n);
    assert_int_equal(out->fields[NUMBER_ROLLUP_COUNT].v[r], count);
    assert_int_equal(out->fields[NUMBER_ROLLUP_SUM].kind[r], count > 0 ? VALUE_DOUBLE : VALUE_NONE);
    if (count == 0)
        return;
    assert_true(double_of(out->fields[NUMBER_ROLLUP_SUM].v[r]) == sum);
    assert_true(double_of(out->fields[NUMBER_ROLLUP_MIN].v[r]) == min);
    assert_true(double_of(out->fields[NUMBER_ROLLUP_MAX].v[r]) == max);
    assert_true(double_of(out->fields[NUMBER_ROLLUP_INCREASE].v[r]) == increase);
    assert_int_equal(out->fields[NUMBER_ROLLUP_FIRST_TIME].v[r], p->time[first]);
    assert_int_equal(out->fields[NUMBER_ROLLUP_LAST_TIME].v[r], p->time[last]);
    assert_int_equal(out->fields[NUMBER_ROLLUP_FIRST_START].v[r], p->start_time[first]);
    assert_int_equal(out->fields[NUMBER_ROLLUP_FIRST].v[r], p->fields[NUMBER_VALUE].v[first]);
    assert_int_equal(out->fields[NUMBER_ROLLUP_LAST].v[r], p->fields[NUMBER_VALUE].v[last]);
    assert_int_equal(out->fields[NUMBER_ROLLUP_LAST].kind[r], p->fields[NUMBER_VALUE].kind[last]);
}

/* All fields of all rows. */
static void check_equal(const struct series_points *a, const struct series_points *b)
{
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++)
        assert_true(series_points_equal(a, i, b, i));
}

/* The rollup of p, made in runs and joined. */
static void join_runs(struct series_points *out, const struct series_points *p, int resolution,
                      bool delta, bool *exact)
{
    struct series_points runs[8], part;
    const struct series_points *sources[8];
    size_t at = 0, n = 1 + random_below(8);

    series_points_init(&part, p->kind);
    for (size_t k = 0; k < n; k++) {
        size_t left = p->n - at, take = k + 1 == n ? left : random_below((unsigned)left + 1);

        series_points_reset(&part);
        series_points_init(&runs[k], rollup_kind_of(p->kind));
        assert_true(series_points_append(&part, p, at, take));
        assert_true(rollup_add(&runs[k], &part, resolution, delta));
        at += take;
        sources[k] = &runs[n - 1 - k]; /* their order does not matter */
    }
    for (size_t k = 0; k < n; k++)
        sources[k] = &runs[(k + 3) % n];
    assert_true(rollup_merge(out, sources, n, delta, exact));
    for (size_t k = 0; k < n; k++)
        series_points_fini(&runs[k]);
    series_points_fini(&part);
}

static void numbers_are_those_of_the_points(void **state)
{
    (void)state;
    for (int round = 0; round < 300; round++) {
        struct series_points p, fine, coarse, joined;
        size_t points = 0;
        bool exact;

        series_points_init(&p, KIND_NUMBER);
        series_points_init(&fine, KIND_NUMBER_ROLLUP);
        series_points_init(&coarse, KIND_NUMBER_ROLLUP);
        series_points_init(&joined, KIND_NUMBER_ROLLUP);
        make_numbers(&p, random_below(400));
        assert_true(rollup_add(&fine, &p, ROLLUP_5M, false));
        for (size_t r = 0; r < fine.n; r++) {
            check_number_row(&fine, r, &p, ROLLUP_5M * SECOND);
            points += (size_t)fine.fields[NUMBER_ROLLUP_N].v[r];
        }
        assert_int_equal(points, p.n);
        assert_true(rollup_coarsen(&coarse, &fine, ROLLUP_1H, false));
        for (size_t r = 0; r < coarse.n; r++)
            check_number_row(&coarse, r, &p, ROLLUP_1H * SECOND);
        join_runs(&joined, &p, ROLLUP_5M, false, &exact);
        assert_true(exact);
        check_equal(&joined, &fine);
        series_points_fini(&p);
        series_points_fini(&fine);
        series_points_fini(&coarse);
        series_points_fini(&joined);
    }
}

/* Values with two decimals, summed as integers beside: a sum in doubles would be off by roundings.
 */
static void sums_of_decimals_are_decimals(void **state)
{
    struct series_points p, rows, coarse;
    (void)state;

    series_points_init(&p, KIND_NUMBER);
    series_points_init(&rows, KIND_NUMBER_ROLLUP);
    series_points_init(&coarse, KIND_NUMBER_ROLLUP);
    for (int round = 0; round < 100; round++) {
        int64_t cents[120], value = 10000;

        series_points_reset(&p);
        series_points_reset(&rows);
        series_points_reset(&coarse);
        for (int i = 0; i < 120; i++) {
            value += random_below(201);
            value -= 100;
            cents[i] = value;
            assert_true(series_points_add_number(&p, (3600 + 30 * i) * SECOND, 0, 0, VALUE_DOUBLE,
                                                 bits_of((double)value / 100)));
        }
        assert_true(rollup_add(&rows, &p, ROLLUP_5M, false));
        assert_true(rollup_coarsen(&coarse, &rows, ROLLUP_1H, false));
        assert_int_equal(rows.n, 12);
        assert_int_equal(coarse.n, 1);
        for (int r = 0; r < 13; r++) {
            const struct series_points *of = r < 12 ? &rows : &coarse;
            int from = r < 12 ? 10 * r : 0, to = r < 12 ? from + 10 : 120;
            int64_t sum = cents[from], increase = 0;

            for (int i = from + 1; i < to; i++) {
                sum += cents[i];
                increase += cents[i] < cents[i - 1] ? cents[i] : cents[i] - cents[i - 1];
            }
            assert_int_equal(of->fields[NUMBER_ROLLUP_SUM].v[r % 12], bits_of((double)sum / 100));
            assert_int_equal(of->fields[NUMBER_ROLLUP_INCREASE].v[r % 12],
                             bits_of((double)increase / 100));
        }
    }
    series_points_fini(&p);
    series_points_fini(&rows);
    series_points_fini(&coarse);
}

/* First, last, least and greatest are decimals of one digit, and what is between is not. */
static void other_sums_are_left_as_they_are(void **state)
{
    static const double values[] = {0.5, 1.5 + 0x1p-30, 1.3, 2.5};
    struct series_points p, rows;
    (void)state;

    series_points_init(&p, KIND_NUMBER);
    series_points_init(&rows, KIND_NUMBER_ROLLUP);
    for (int i = 0; i < 4; i++)
        assert_true(series_points_add_number(&p, (3600 + i) * SECOND, 0, 0, VALUE_DOUBLE,
                                             bits_of(values[i])));
    assert_true(rollup_add(&rows, &p, ROLLUP_5M, false));
    assert_int_equal(rows.fields[NUMBER_ROLLUP_SUM].v[0],
                     bits_of(values[0] + values[1] + values[2] + values[3]));
    series_points_fini(&p);
    series_points_fini(&rows);
}

static void overlapping_rows_are_said_to_be_uncertain(void **state)
{
    struct series_points a, b, ra, rb, out;
    const struct series_points *sources[] = {&ra, &rb};
    bool exact = true;
    (void)state;

    series_points_init(&a, KIND_NUMBER);
    series_points_init(&b, KIND_NUMBER);
    series_points_init(&ra, KIND_NUMBER_ROLLUP);
    series_points_init(&rb, KIND_NUMBER_ROLLUP);
    series_points_init(&out, KIND_NUMBER_ROLLUP);
    for (int i = 0; i < 4; i++)
        assert_true(series_points_add_number(i % 2 == 0 ? &a : &b, (3600 + i) * SECOND, 0, 0,
                                             VALUE_INT, i));
    assert_true(rollup_add(&ra, &a, ROLLUP_5M, false));
    assert_true(rollup_add(&rb, &b, ROLLUP_5M, false));
    assert_true(rollup_merge(&out, sources, 2, false, &exact));
    assert_false(exact);
    assert_int_equal(out.n, 1);
    assert_int_equal(out.fields[NUMBER_ROLLUP_COUNT].v[0], 4);
    assert_true(double_of(out.fields[NUMBER_ROLLUP_SUM].v[0]) == 6);
    assert_true(double_of(out.fields[NUMBER_ROLLUP_MAX].v[0]) == 3);
    assert_int_equal(out.fields[NUMBER_ROLLUP_LAST].v[0], 3);
    series_points_fini(&a);
    series_points_fini(&b);
    series_points_fini(&ra);
    series_points_fini(&rb);
    series_points_fini(&out);
}

/* Two parts that each have one point of the window, at the same time: it may be one point, stored
 * again with another value, which counts once. Only the raw points can tell. */
static void rows_of_the_same_time_are_uncertain(void **state)
{
    struct series_points a, b, ra, rb, out;
    const struct series_points *sources[] = {&ra, &rb};
    bool exact = true;
    (void)state;

    series_points_init(&a, KIND_NUMBER);
    series_points_init(&b, KIND_NUMBER);
    series_points_init(&ra, KIND_NUMBER_ROLLUP);
    series_points_init(&rb, KIND_NUMBER_ROLLUP);
    series_points_init(&out, KIND_NUMBER_ROLLUP);
    assert_true(series_points_add_number(&a, 3600 * SECOND, 0, 0, VALUE_INT, 1));
    assert_true(series_points_add_number(&b, 3600 * SECOND, 0, 0, VALUE_INT, 2));
    assert_true(rollup_add(&ra, &a, ROLLUP_5M, false));
    assert_true(rollup_add(&rb, &b, ROLLUP_5M, false));
    assert_true(rollup_merge(&out, sources, 2, false, &exact));
    assert_false(exact);
    series_points_fini(&a);
    series_points_fini(&b);
    series_points_fini(&ra);
    series_points_fini(&rb);
    series_points_fini(&out);
}

/* ---- histograms ---- */

enum { BUCKETS = 4 };

static void add_histogram(struct series_points *p, int64_t time, int64_t start, int64_t bounds_id,
                          const int64_t *counts)
{
    size_t i = p->n;
    uint32_t from;
    int64_t count = 0;

    assert_true(series_points_reserve(p, 1));
    assert_true(series_points_reserve_list(p, HISTOGRAM_COUNTS, BUCKETS));
    from = i == 0 ? 0 : p->fields[HISTOGRAM_COUNTS].end[i - 1];
    for (int k = 0; k < BUCKETS; k++) {
        p->fields[HISTOGRAM_COUNTS].v[from + (uint32_t)k] = counts[k];
        count += counts[k];
    }
    p->fields[HISTOGRAM_COUNTS].end[i] = from + BUCKETS;
    p->time[i] = time;
    p->start_time[i] = start;
    p->flags[i] = 0;
    p->fields[HISTOGRAM_COUNT].v[i] = count;
    for (int f = HISTOGRAM_SUM; f <= HISTOGRAM_MAX; f++) {
        p->fields[f].kind[i] = VALUE_DOUBLE;
        p->fields[f].v[i] = bits_of((double)(count * (f + 1)));
    }
    p->fields[HISTOGRAM_BOUNDS_ID].v[i] = bounds_id;
    p->n++;
}

static void make_histograms(struct series_points *p, size_t n, bool delta)
{
    int64_t time = INT64_C(1700000000) * SECOND, start = time, counts[BUCKETS] = {0}, bounds = 1;

    for (size_t i = 0; i < n; i++) {
        time += SECOND * (1 + random_below(100));
        if (delta || random_below(20) == 0) {
            memset(counts, 0, sizeof(counts));
            start = time - 1;
        }
        for (int k = 0; k < BUCKETS; k++)
            counts[k] += random_below(10);
        if (random_below(40) == 0)
            bounds = 3 - bounds;
        add_histogram(p, time, start, bounds, counts);
    }
}

static int64_t item(const struct series_points *p, int f, size_t i, size_t k)
{
    const struct field_column *c = &p->fields[f];

    return c->v[(i == 0 ? 0 : c->end[i - 1]) + k];
}

/* Row r is of the points from first on that are in its window and have its bounds; gives the one
 * after. */
static size_t check_histogram_row(const struct series_points *out, size_t r,
                                  const struct series_points *p, size_t first, int64_t length,
                                  bool delta)
{
    int64_t counts[BUCKETS + 1] = {0}, increase[BUCKETS + 1] = {0};
    size_t i = first;

    for (; i < p->n && p->time[i] < out->time[r] + length &&
           p->fields[HISTOGRAM_BOUNDS_ID].v[i] == p->fields[HISTOGRAM_BOUNDS_ID].v[first];
         i++) {
        bool reset = false;

        for (size_t k = 0; k <= BUCKETS; k++) {
            int64_t v =
                k == 0 ? p->fields[HISTOGRAM_COUNT].v[i] : item(p, HISTOGRAM_COUNTS, i, k - 1);

            reset = reset || (i > first && (v < counts[k] || p->start_time[i] > p->time[i - 1]));
        }
        for (size_t k = 0; k <= BUCKETS; k++) {
            int64_t v =
                k == 0 ? p->fields[HISTOGRAM_COUNT].v[i] : item(p, HISTOGRAM_COUNTS, i, k - 1);

            if (i > first)
                increase[k] += reset ? v : v - counts[k];
            counts[k] = delta ? counts[k] + v : v;
        }
    }
    assert_true(p->time[first] >= out->time[r]);
    assert_int_equal(out->fields[HISTOGRAM_ROLLUP_N].v[r], i - first);
    assert_int_equal(out->fields[HISTOGRAM_ROLLUP_COUNT].v[r], counts[0]);
    for (size_t k = 0; k < BUCKETS; k++)
        assert_int_equal(item(out, HISTOGRAM_ROLLUP_COUNTS, r, k), counts[k + 1]);
    if (!delta) {
        for (size_t k = 0; k <= BUCKETS; k++)
            assert_int_equal(item(out, HISTOGRAM_ROLLUP_INCREASE, r, k), increase[k]);
        assert_int_equal(item(out, HISTOGRAM_ROLLUP_FIRST_COUNTS, r, 0),
                         p->fields[HISTOGRAM_COUNT].v[first]);
    }
    return i;
}

static void histograms_are_those_of_the_points(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        struct series_points p, fine, joined;
        bool delta = round % 2 == 0, exact;
        size_t at = 0;

        series_points_init(&p, KIND_HISTOGRAM);
        series_points_init(&fine, KIND_HISTOGRAM_ROLLUP);
        series_points_init(&joined, KIND_HISTOGRAM_ROLLUP);
        make_histograms(&p, random_below(200), delta);
        assert_true(rollup_add(&fine, &p, ROLLUP_5M, delta));
        for (size_t r = 0; r < fine.n; r++)
            at = check_histogram_row(&fine, r, &p, at, ROLLUP_5M * SECOND, delta);
        assert_int_equal(at, p.n);
        join_runs(&joined, &p, ROLLUP_5M, delta, &exact);
        assert_true(exact);
        check_equal(&joined, &fine);
        series_points_fini(&p);
        series_points_fini(&fine);
        series_points_fini(&joined);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_the_points),
        cmocka_unit_test(sums_of_decimals_are_decimals),
        cmocka_unit_test(other_sums_are_left_as_they_are),
        cmocka_unit_test(overlapping_rows_are_said_to_be_uncertain),
        cmocka_unit_test(rows_of_the_same_time_are_uncertain),
        cmocka_unit_test(histograms_are_those_of_the_points),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
