/* querier_native.c -- exponential histograms: as native ones (P-33), and as buckets with bounds
 * where that is asked for (P-34).
 *
 * A native histogram has a schema of -4 to 8. A finer scale is brought to 8, two buckets to one at
 * each step. What is coarser, has bucket indexes beyond 32 bits, or no sum, is left out. */
#include <math.h>
#include <stdlib.h>

#include "querier_internal.h"

enum { SCHEMA_MIN = -4, SCHEMA_MAX = 8 };
/* Beyond these scales buckets are all of the doubles, or none. */
enum { SCALE_MOST = 52 };
/* Where a zero bucket without a threshold ends. */
#define ZERO_THRESHOLD 1e-128

/* ---- native ---- */

/* One side's counts that are not 0 at the ends. */
struct side {
    const int64_t *counts;
    uint32_t n;
    int64_t offset;      /* of the first */
    int64_t first, last; /* native indexes; first > last: empty */
};

static void take_side(const struct series_points *p, size_t i, int f_offset, int f_counts,
                      int shift, struct side *s)
{
    s->counts = series_points_list(p, f_counts, i, &s->n);
    s->offset = p->fields[f_offset].v[i];
    while (s->n > 0 && s->counts[s->n - 1] == 0)
        s->n--;
    while (s->n > 0 && s->counts[0] == 0) {
        s->counts++;
        s->offset++;
        s->n--;
    }
    s->first = (s->offset >> shift) + 1;
    s->last = s->n == 0 ? s->first - 1 : ((s->offset + s->n - 1) >> shift) + 1;
}

static bool fits(const struct side *s)
{
    return s->n == 0 || (s->first >= INT32_MIN && s->last <= INT32_MAX);
}

static void add_side(const struct side *s, int shift, struct histogram_buckets *out)
{
    for (uint32_t k = 0; k < s->n; k++)
        out->counts[((s->offset + k) >> shift) + 1 - s->first] += (double)s->counts[k];
}

/* *out NULL: it is none. */
static enum otl_err native_of(const struct series_points *p, size_t i, struct prom_histogram **out,
                              struct otl_error *err)
{
    int64_t scale = p->fields[EXPONENTIAL_SCALE].v[i];
    double threshold = series_points_double(p, EXPONENTIAL_ZERO_THRESHOLD, i);
    struct side positive, negative;
    struct prom_histogram *h;
    int shift = 0;

    *out = NULL;
    if (scale < SCHEMA_MIN || p->fields[EXPONENTIAL_SUM].kind[i] == VALUE_NONE)
        return OTL_OK;
    if (scale > SCHEMA_MAX)
        shift = scale - SCHEMA_MAX > 62 ? 62 : (int)(scale - SCHEMA_MAX);
    take_side(p, i, EXPONENTIAL_POSITIVE_OFFSET, EXPONENTIAL_POSITIVE, shift, &positive);
    take_side(p, i, EXPONENTIAL_NEGATIVE_OFFSET, EXPONENTIAL_NEGATIVE, shift, &negative);
    if (!fits(&positive) || !fits(&negative))
        return OTL_OK;
    h = histogram_new(scale > SCHEMA_MAX ? SCHEMA_MAX : (int32_t)scale,
                      positive.n == 0 ? 0 : (int32_t)positive.first,
                      (uint32_t)(positive.last - positive.first + 1),
                      negative.n == 0 ? 0 : (int32_t)negative.first,
                      (uint32_t)(negative.last - negative.first + 1));
    if (h == NULL)
        return querier_no_memory(err);
    h->hint = RESET_UNKNOWN;
    h->zero_threshold = threshold > 0 ? threshold : ZERO_THRESHOLD;
    h->zero_count = (double)p->fields[EXPONENTIAL_ZERO_COUNT].v[i];
    h->count = (double)p->fields[EXPONENTIAL_COUNT].v[i];
    h->sum = series_points_double(p, EXPONENTIAL_SUM, i);
    if (prom_is_stale(h->sum))
        h->sum = (double)NAN;
    add_side(&positive, shift, &h->positive);
    add_side(&negative, shift, &h->negative);
    *out = h;
    return OTL_OK;
}

/* *total becomes the sum of itself and h, and h a copy of that. */
static bool run_total(struct prom_histogram **total, struct prom_histogram **h)
{
    struct prom_histogram *sum = *total == NULL ? histogram_copy(*h) : histogram_add(*total, *h);
    struct prom_histogram *copy;

    if (sum == NULL)
        return false;
    sum->hint = RESET_UNKNOWN;
    histogram_free(*total);
    *total = sum;
    copy = histogram_copy(sum);
    if (copy == NULL)
        return false;
    histogram_free(*h);
    *h = copy;
    return true;
}

static enum otl_err add_native(const struct series_points *p, size_t i, int64_t t,
                               struct prom_histogram **total, struct sample_column *c,
                               struct otl_error *err)
{
    struct prom_histogram *h;
    enum otl_err rc = native_of(p, i, &h, err);

    if (rc != OTL_OK || h == NULL)
        return rc;
    if ((total != NULL && !run_total(total, &h)) || !sample_column_add_histogram(c, t, h)) {
        histogram_free(h);
        return querier_no_memory(err);
    }
    return OTL_OK;
}

/* ---- classic ---- */

static bool push(struct exponential_bucket **out, size_t *n, size_t *cap, double lower,
                 double upper, double *below, int64_t count)
{
    if (count == 0)
        return true;
    if (*n == *cap) {
        size_t more = *cap == 0 ? 64 : 2 * *cap;
        struct exponential_bucket *p = realloc(*out, more * sizeof(*p));

        if (p == NULL)
            return false;
        *out = p;
        *cap = more;
    }
    *below += (double)count;
    (*out)[(*n)++] = (struct exponential_bucket){lower, upper, *below};
    return true;
}

enum otl_err exponential_buckets_of(const struct series_points *p, size_t i,
                                    struct exponential_bucket **out, size_t *n, size_t *cap,
                                    struct otl_error *err)
{
    int64_t scale = p->fields[EXPONENTIAL_SCALE].v[i];
    double width = scale < -SCALE_MOST || scale > SCALE_MOST ? 0 : ldexp(1, -(int)scale), below = 0;
    double zero = series_points_double(p, EXPONENTIAL_ZERO_THRESHOLD, i);
    uint32_t n_counts;
    const int64_t *v;
    int64_t offset;
    bool ok = true;

    *n = 0;
    if ((p->flags[i] & FLAG_NO_RECORDED_VALUE) != 0 || width == 0)
        return OTL_OK;
    v = series_points_list(p, EXPONENTIAL_NEGATIVE, i, &n_counts);
    offset = p->fields[EXPONENTIAL_NEGATIVE_OFFSET].v[i];
    for (size_t k = n_counts; k-- > 0 && ok;) {
        double at = (double)(offset + (int64_t)k);

        ok = push(out, n, cap, -exp2((at + 1) * width), -exp2(at * width), &below, v[k]);
    }
    ok = ok && push(out, n, cap, -zero, zero, &below, p->fields[EXPONENTIAL_ZERO_COUNT].v[i]);
    v = series_points_list(p, EXPONENTIAL_POSITIVE, i, &n_counts);
    offset = p->fields[EXPONENTIAL_POSITIVE_OFFSET].v[i];
    for (size_t k = 0; k < n_counts && ok; k++) {
        double at = (double)(offset + (int64_t)k), upper = exp2((at + 1) * width);

        if (isinf(upper))
            break; /* +Inf is the last bucket of all */
        ok = push(out, n, cap, exp2(at * width), upper, &below, v[k]);
    }
    return ok ? OTL_OK : querier_no_memory(err);
}

/* Every bound that this point's buckets tell of: those within one of its buckets they do not. */
static void add_buckets(const struct source *sources, size_t n, const struct exponential_bucket *b,
                        size_t n_b, int64_t t, double count, double *totals,
                        struct sample_column *columns)
{
    size_t k = 0;
    double below = 0;

    for (size_t s = 0; s < n; s++) {
        double v;

        while (k < n_b && b[k].upper <= sources[s].bound)
            below = b[k++].below;
        if (s + 1 < n && k < n_b && b[k].lower < sources[s].bound)
            continue;
        v = s + 1 == n ? count : below;
        if (totals != NULL)
            v = totals[s] += v;
        sample_column_add(&columns[s], t, v);
    }
}

enum otl_err decode_exponential(struct querier *q, const struct stored *s,
                                const struct source *sources, double *totals,
                                const struct series_points *p, struct sample_column *columns,
                                struct otl_error *err)
{
    struct exponential_bucket *buckets = NULL;
    struct prom_histogram *total = NULL;
    size_t cap = 0, n = 0, first = 0;
    enum otl_err rc = OTL_OK;

    while (first < s->n && sources[first].variant != VARIANT_BUCKET)
        first++;
    for (size_t i = 0; i < p->n && rc == OTL_OK; i++) {
        double count = (double)p->fields[EXPONENTIAL_COUNT].v[i];
        int64_t t = p->time[i] / 1000000;

        if (i % 64 == 0)
            rc = read_check(q->r, err);
        for (size_t k = 0; k < first && rc == OTL_OK; k++) {
            double *sum = totals == NULL ? NULL : &totals[k], v = count;

            if ((p->flags[i] & FLAG_NO_RECORDED_VALUE) != 0) {
                sample_column_add(&columns[k], t, prom_stale());
                continue;
            }
            if (sources[k].variant == VARIANT_PLAIN) {
                rc = add_native(p, i, t, totals == NULL ? NULL : &total, &columns[k], err);
                continue;
            }
            if (sources[k].variant == VARIANT_SUM) {
                if (p->fields[EXPONENTIAL_SUM].kind[i] == VALUE_NONE)
                    continue;
                v = series_points_double(p, EXPONENTIAL_SUM, i);
                v = prom_is_stale(v) ? (double)NAN : v;
            }
            sample_column_add(&columns[k], t, sum == NULL ? v : (*sum += v));
        }
        if (rc != OTL_OK || first == s->n)
            continue;
        if ((p->flags[i] & FLAG_NO_RECORDED_VALUE) != 0) {
            for (size_t k = first; k < s->n; k++)
                sample_column_add(&columns[k], t, prom_stale());
            continue;
        }
        rc = exponential_buckets_of(p, i, &buckets, &n, &cap, err);
        if (rc == OTL_OK)
            add_buckets(sources + first, s->n - first, buckets, n, t, count,
                        totals == NULL ? NULL : totals + first, columns + first);
    }
    histogram_free(total);
    free(buckets);
    return rc;
}
