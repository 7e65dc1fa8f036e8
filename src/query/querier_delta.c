/* querier_delta.c -- what delta series were as running totals before a range, so that their samples
 * are what the same data in cumulative form would be. Of sums and explicit histograms all that is
 * stored counts, from summaries and rollups where there are some; exponential histograms have
 * neither and begin at the range. */
#include <stdlib.h>

#include "otlite/clock.h"
#include "querier_internal.h"

/* Windows are wide structs. */
enum { NUMBERS_AT_ONCE = 4096, ROLLUP_S = 3600 };

struct basing {
    struct querier *q;
    const struct selected *s;
    double *bases;
    size_t at; /* in stored */
};

/* ---- sums ---- */

static enum otl_err base_numbers(struct basing *b, const int64_t *ids, const uint32_t *groups,
                                 const uint32_t *sources, size_t n, int64_t to,
                                 struct otl_error *err)
{
    struct window_query query = {.series = ids,
                                 .group = groups,
                                 .n = n,
                                 .n_groups = (uint32_t)n,
                                 .to = to,
                                 .skip_extremes = true,
                                 .skip_ends = true};
    struct window *w = NULL;
    enum otl_err rc;

    if (n == 0)
        return OTL_OK;
    rc = read_windows(b->q->r, &query, &w, NULL, err);
    if (rc != OTL_OK)
        return rc;
    for (size_t i = 0; i < n; i++)
        b->bases[sources[i]] = w[i].sum;
    free(w);
    (void)!read_charge(b->q->r, -(int64_t)(n * sizeof(*w)), NULL);
    return OTL_OK;
}

static enum otl_err all_numbers(struct basing *b, int64_t to, struct otl_error *err)
{
    int64_t ids[NUMBERS_AT_ONCE];
    uint32_t groups[NUMBERS_AT_ONCE], sources[NUMBERS_AT_ONCE];
    size_t n = 0;
    enum otl_err rc = OTL_OK;

    for (size_t i = 0; i < b->s->n_stored && rc == OTL_OK; i++) {
        const struct stored *s = &b->s->stored[i];

        if (!s->delta || s->kind != KIND_NUMBER || s->n == 0)
            continue;
        ids[n] = s->id;
        groups[n] = (uint32_t)n;
        sources[n++] = s->first;
        if (n < NUMBERS_AT_ONCE)
            continue;
        rc = base_numbers(b, ids, groups, sources, n, to, err);
        n = 0;
    }
    return rc == OTL_OK ? base_numbers(b, ids, groups, sources, n, to, err) : rc;
}

/* ---- explicit histograms ---- */

static enum otl_err add_counts(struct basing *b, const struct stored *s, int64_t bounds_id,
                               const int64_t *counts, uint32_t n, double count, double sum,
                               struct otl_error *err)
{
    const struct bounds *bounds;
    enum otl_err rc = querier_bounds(b->q, bounds_id, &bounds, err);
    double below = 0;
    size_t k = 0;

    for (uint32_t i = s->first; rc == OTL_OK && i < s->first + s->n; i++) {
        const struct source *source = &b->s->sources[i];

        if (source->variant == VARIANT_SUM)
            b->bases[i] += sum;
        else if (source->variant == VARIANT_COUNT || i + 1 == s->first + s->n)
            b->bases[i] += count;
        else {
            while (k < bounds->n && k < n && bounds->le[k] <= source->bound)
                below += (double)counts[k++];
            /* Of a bound that these buckets do not have they tell nothing. */
            if (k > 0 && bounds->le[k - 1] == source->bound)
                b->bases[i] += below;
        }
    }
    return rc;
}

static const struct stored *find(struct basing *b, int64_t id)
{
    while (b->at < b->s->n_stored && b->s->stored[b->at].id < id)
        b->at++;
    return b->at < b->s->n_stored && b->s->stored[b->at].id == id ? &b->s->stored[b->at] : NULL;
}

static enum otl_err add_rollups(void *arg, int64_t id, const struct series_points *p,
                                struct otl_error *err)
{
    struct basing *b = arg;
    const struct stored *s = find(b, id);
    enum otl_err rc = OTL_OK;

    for (size_t i = 0; s != NULL && i < p->n && rc == OTL_OK; i++) {
        uint32_t n;
        const int64_t *counts = series_points_list(p, HISTOGRAM_ROLLUP_COUNTS, i, &n);

        rc = add_counts(b, s, p->fields[HISTOGRAM_ROLLUP_BOUNDS_ID].v[i], counts, n,
                        (double)p->fields[HISTOGRAM_ROLLUP_COUNT].v[i],
                        series_points_double(p, HISTOGRAM_ROLLUP_SUM, i), err);
    }
    return rc;
}

static enum otl_err add_points(void *arg, int64_t id, const struct series_points *p,
                               struct otl_error *err)
{
    struct basing *b = arg;
    const struct stored *s = find(b, id);
    enum otl_err rc = OTL_OK;

    for (size_t i = 0; s != NULL && i < p->n && rc == OTL_OK; i++) {
        uint32_t n;
        const int64_t *counts = series_points_list(p, HISTOGRAM_COUNTS, i, &n);

        if ((p->flags[i] & FLAG_NO_RECORDED_VALUE) != 0)
            continue;
        rc = add_counts(b, s, p->fields[HISTOGRAM_BOUNDS_ID].v[i], counts, n,
                        (double)p->fields[HISTOGRAM_COUNT].v[i],
                        series_points_double(p, HISTOGRAM_SUM, i), err);
    }
    return rc;
}

/* Whole hours by rollups, the rest point by point. */
static enum otl_err all_histograms(struct basing *b, int64_t to, struct otl_error *err)
{
    int64_t *ids = malloc((b->s->n_stored + 1) * sizeof(*ids));
    int64_t hour = to - to % (ROLLUP_S * NS_PER_S);
    size_t n = 0;
    enum otl_err rc = OTL_OK;

    if (ids == NULL)
        return querier_no_memory(err);
    for (size_t i = 0; i < b->s->n_stored; i++) {
        const struct stored *s = &b->s->stored[i];

        if (s->delta && s->kind == KIND_HISTOGRAM && s->n > 0)
            ids[n++] = s->id;
    }
    if (n > 0)
        rc = read_rollups(b->q->r, KIND_HISTOGRAM_ROLLUP, ROLLUP_S, ids, n, 0, hour, add_rollups, b,
                          err);
    b->at = 0;
    if (rc == OTL_OK && n > 0)
        rc = read_scan(b->q->r, KIND_HISTOGRAM, ids, n, hour, to, add_points, b, err);
    free(ids);
    return rc;
}

enum otl_err querier_bases(struct querier *q, const struct selected *s, int64_t from_ms,
                           double **out, struct otl_error *err)
{
    struct basing b = {.q = q, .s = s};
    int64_t to = querier_ns_from(from_ms);
    bool any = false;
    enum otl_err rc;

    *out = NULL;
    for (size_t i = 0; i < s->n_stored && !any; i++)
        any = s->stored[i].delta;
    if (!any)
        return OTL_OK;
    rc = read_charge(q->r, (int64_t)(s->n_sources * sizeof(*b.bases)), err);
    if (rc != OTL_OK)
        return rc;
    b.bases = calloc(s->n_sources + 1, sizeof(*b.bases));
    rc = b.bases == NULL ? querier_no_memory(err) : OTL_OK;
    if (rc == OTL_OK && to > 0)
        rc = all_numbers(&b, to, err);
    if (rc == OTL_OK && to > 0)
        rc = all_histograms(&b, to, err);
    if (rc != OTL_OK) {
        free(b.bases);
        (void)!read_charge(q->r, -(int64_t)(s->n_sources * sizeof(*b.bases)), NULL);
        return rc;
    }
    *out = b.bases;
    return OTL_OK;
}
