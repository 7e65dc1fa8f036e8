/* histogram_math.c -- sums, differences and comparisons of native histograms.
 *
 * Two histograms of different layout meet in the lesser schema, whose buckets are unions of the
 * finer one's, and at a zero threshold that is at least as large as both and lies within no bucket
 * that holds something: what is below it counts as zero.
 *
 * Source: Prometheus, "Native histograms" specification, "Schema" and "Zero bucket". */
#include <math.h>
#include <stdlib.h>

#include "histogram_internal.h"

/* The index in a schema that is `by` lesser. */
static int64_t coarser(int64_t i, int32_t by)
{
    return ((i - 1) >> by) + 1;
}

/* ---- the zero bucket ---- */

/* Does the bucket lie within a zero bucket that goes up to the threshold? One that only begins
 * within it, as exporters have them beside their zero bucket, does not. */
static bool is_within(int32_t schema, int64_t i, double threshold)
{
    return threshold > 0 && histogram_bound(schema, i) <= threshold;
}

/* What side gives to a zero bucket that goes up to *threshold, which grows to the end of a bucket
 * that holds something and begins below it. */
static double below(const struct histogram_buckets *b, int32_t schema, double *threshold)
{
    double count = 0;

    for (uint32_t k = 0; k < b->n; k++) {
        const int64_t i = (int64_t)b->first + k;
        double upper;

        if (histogram_bound(schema, i - 1) >= *threshold)
            break;
        if (b->counts[k] == 0)
            continue;
        count += b->counts[k];
        upper = histogram_bound(schema, i);
        if (upper > *threshold)
            *threshold = upper;
    }
    return count;
}

/* The count of the zero bucket if it went up to *threshold (not less than it is), which grows. */
static double zero_count_up_to(const struct prom_histogram *h, double *threshold)
{
    double before, count;

    if (*threshold == h->zero_threshold)
        return h->zero_count;
    /* A threshold that the negative side moved takes in more of the positive side. */
    do {
        count = h->zero_count + below(&h->positive, h->schema, threshold);
        before = *threshold;
        count += below(&h->negative, h->schema, threshold);
    } while (*threshold != before);
    return count;
}

/* The zero bucket that both can have. */
static void common_zero(const struct prom_histogram *a, const struct prom_histogram *b,
                        double *threshold, double *a_count, double *b_count)
{
    double before;

    *threshold = fmax(a->zero_threshold, b->zero_threshold);
    do {
        before = *threshold;
        *a_count = zero_count_up_to(a, threshold);
        *b_count = zero_count_up_to(b, threshold);
    } while (*threshold != before);
}

/* ---- sums ---- */

/* The first and the last bucket above the threshold that hold something, in the coarser schema.
 * False: there is none. */
static bool extent(const struct histogram_buckets *b, int32_t schema, int32_t by, double threshold,
                   int64_t *first, int64_t *last)
{
    uint32_t k = 0, n = b->n;

    while (n > 0 && b->counts[n - 1] == 0)
        n--;
    while (k < n && (b->counts[k] == 0 || is_within(schema, (int64_t)b->first + k, threshold)))
        k++;
    if (k == n)
        return false;
    *first = coarser((int64_t)b->first + k, by);
    *last = coarser((int64_t)b->first + n - 1, by);
    return true;
}

/* Adds factor times b to out, whose schema is `by` lesser, and which has room. */
static void accumulate(struct histogram_buckets *out, const struct histogram_buckets *b,
                       int32_t schema, int32_t by, double threshold, double factor)
{
    uint32_t k = 0;

    while (k < b->n && (b->counts[k] == 0 || is_within(schema, (int64_t)b->first + k, threshold)))
        k++;
    for (; k < b->n; k++) {
        if (b->counts[k] != 0)
            out->counts[coarser((int64_t)b->first + k, by) - out->first] += factor * b->counts[k];
    }
}

struct side {
    int64_t first, last;
    bool any;
};

static void widen(struct side *s, const struct histogram_buckets *b, int32_t schema, int32_t by,
                  double threshold)
{
    int64_t first, last;

    if (!extent(b, schema, by, threshold, &first, &last))
        return;
    s->first = s->any && s->first < first ? s->first : first;
    s->last = s->any && s->last > last ? s->last : last;
    s->any = true;
}

static uint32_t side_n(const struct side *s)
{
    if (!s->any)
        return 0;
    /* What is too much for histogram_new stays too much. */
    return s->last - s->first >= UINT32_MAX ? UINT32_MAX : (uint32_t)(s->last - s->first + 1);
}

static enum reset_hint sum_hint(enum reset_hint a, enum reset_hint b)
{
    if (a == b)
        return a;
    return a == RESET_GAUGE || b == RESET_GAUGE ? RESET_GAUGE : RESET_UNKNOWN;
}

static struct prom_histogram *combine(const struct prom_histogram *a,
                                      const struct prom_histogram *b, double factor)
{
    const int32_t schema = a->schema < b->schema ? a->schema : b->schema;
    const int32_t by_a = a->schema - schema, by_b = b->schema - schema;
    struct side positive = {0}, negative = {0};
    struct prom_histogram *out;
    double threshold, zero_a, zero_b;

    common_zero(a, b, &threshold, &zero_a, &zero_b);
    widen(&positive, &a->positive, a->schema, by_a, threshold);
    widen(&positive, &b->positive, b->schema, by_b, threshold);
    widen(&negative, &a->negative, a->schema, by_a, threshold);
    widen(&negative, &b->negative, b->schema, by_b, threshold);
    out = histogram_new(schema, (int32_t)positive.first, side_n(&positive), (int32_t)negative.first,
                        side_n(&negative));
    if (out == NULL)
        return NULL;
    out->zero_threshold = threshold;
    out->zero_count = zero_a + factor * zero_b;
    out->count = a->count + factor * b->count;
    out->sum = a->sum + factor * b->sum;
    accumulate(&out->positive, &a->positive, a->schema, by_a, threshold, 1);
    accumulate(&out->positive, &b->positive, b->schema, by_b, threshold, factor);
    accumulate(&out->negative, &a->negative, a->schema, by_a, threshold, 1);
    accumulate(&out->negative, &b->negative, b->schema, by_b, threshold, factor);
    return out;
}

struct prom_histogram *histogram_add(const struct prom_histogram *a, const struct prom_histogram *b)
{
    struct prom_histogram *out = combine(a, b, 1);

    if (out != NULL)
        out->hint = sum_hint(a->hint, b->hint);
    return out;
}

struct prom_histogram *histogram_sub(const struct prom_histogram *a, const struct prom_histogram *b)
{
    struct prom_histogram *out = combine(a, b, -1);

    if (out != NULL)
        out->hint = RESET_GAUGE;
    return out;
}

/* Does b lie within what a has room for, so that it can be added in place? */
static bool fits(const struct histogram_buckets *a, const struct histogram_buckets *b)
{
    return b->n == 0 || (a->n > 0 && b->first >= a->first &&
                         (int64_t)b->first + b->n <= (int64_t)a->first + a->n);
}

bool histogram_add_to(struct prom_histogram **sum, const struct prom_histogram *b)
{
    struct prom_histogram *a = *sum, *out;

    if (a->schema == b->schema && a->zero_threshold == b->zero_threshold &&
        fits(&a->positive, &b->positive) && fits(&a->negative, &b->negative)) {
        a->hint = sum_hint(a->hint, b->hint);
        a->zero_count += b->zero_count;
        a->count += b->count;
        a->sum += b->sum;
        for (uint32_t k = 0; k < b->positive.n; k++)
            a->positive.counts[b->positive.first - a->positive.first + (int64_t)k] +=
                b->positive.counts[k];
        for (uint32_t k = 0; k < b->negative.n; k++)
            a->negative.counts[b->negative.first - a->negative.first + (int64_t)k] +=
                b->negative.counts[k];
        return true;
    }
    out = histogram_add(a, b);
    if (out == NULL)
        return false;
    histogram_free(a);
    *sum = out;
    return true;
}

void histogram_scale(struct prom_histogram *h, double factor)
{
    h->zero_count *= factor;
    h->count *= factor;
    h->sum *= factor;
    for (uint32_t k = 0; k < h->positive.n; k++)
        h->positive.counts[k] *= factor;
    for (uint32_t k = 0; k < h->negative.n; k++)
        h->negative.counts[k] *= factor;
    if (factor < 0)
        h->hint = RESET_GAUGE;
}

void histogram_divide(struct prom_histogram *h, double divisor)
{
    h->zero_count /= divisor;
    h->count /= divisor;
    h->sum /= divisor;
    if (divisor == 0) {
        h->positive.n = 0;
        h->negative.n = 0;
    }
    for (uint32_t k = 0; k < h->positive.n; k++)
        h->positive.counts[k] /= divisor;
    for (uint32_t k = 0; k < h->negative.n; k++)
        h->negative.counts[k] /= divisor;
    if (divisor < 0)
        h->hint = RESET_GAUGE;
}

static void compact(struct histogram_buckets *b)
{
    while (b->n > 0 && b->counts[b->n - 1] == 0)
        b->n--;
    while (b->n > 0 && b->counts[0] == 0) {
        b->counts++;
        b->first++;
        b->n--;
    }
}

void histogram_compact(struct prom_histogram *h)
{
    compact(&h->positive);
    compact(&h->negative);
}

/* ---- comparisons ---- */

static bool same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

static double count_at(const struct histogram_buckets *b, int64_t i)
{
    return i < b->first || i >= (int64_t)b->first + b->n ? 0 : b->counts[i - b->first];
}

static bool same_buckets(const struct histogram_buckets *a, const struct histogram_buckets *b)
{
    for (uint32_t k = 0; k < a->n; k++) {
        const double there = count_at(b, (int64_t)a->first + k);

        if (!same_bits(a->counts[k], there) && (a->counts[k] != 0 || there != 0))
            return false;
    }
    for (uint32_t k = 0; k < b->n; k++) {
        if (b->counts[k] != 0 && count_at(a, (int64_t)b->first + k) == 0)
            return false;
    }
    return true;
}

bool histogram_equal(const struct prom_histogram *a, const struct prom_histogram *b)
{
    return a->schema == b->schema && same_bits(a->count, b->count) && same_bits(a->sum, b->sum) &&
           a->zero_threshold == b->zero_threshold && same_bits(a->zero_count, b->zero_count) &&
           same_buckets(&a->positive, &b->positive) && same_buckets(&a->negative, &b->negative);
}

/* Has a bucket above the threshold less than it had, in the later one's schema? */
static bool shrank(const struct histogram_buckets *earlier, const struct histogram_buckets *later,
                   int32_t schema, int32_t by, double threshold)
{
    for (uint32_t k = 0; k < earlier->n;) {
        const int64_t i = coarser((int64_t)earlier->first + k, by);
        double count = 0;

        for (; k < earlier->n && coarser((int64_t)earlier->first + k, by) == i; k++) {
            if (!is_within(schema, (int64_t)earlier->first + k, threshold))
                count += earlier->counts[k];
        }
        if (count != 0 && count_at(later, i) < count)
            return true;
    }
    return false;
}

bool histogram_is_reset(const struct prom_histogram *earlier, const struct prom_histogram *later)
{
    const int32_t by = earlier->schema - later->schema;
    double threshold = later->zero_threshold, zero;

    if (later->hint == RESET_YES || later->hint == RESET_NO)
        return later->hint == RESET_YES;
    if (later->count < earlier->count || by < 0 || threshold < earlier->zero_threshold)
        return true;
    zero = zero_count_up_to(earlier, &threshold);
    /* A threshold only grows to where the earlier one's buckets end. */
    if (threshold != later->zero_threshold || later->zero_count < zero)
        return true;
    return shrank(&earlier->positive, &later->positive, earlier->schema, by, threshold) ||
           shrank(&earlier->negative, &later->negative, earlier->schema, by, threshold);
}
