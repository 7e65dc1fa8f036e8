/* querier_decode.c -- from the points of a stored series to the samples of all series it is shown
 * as: numbers, explicit histograms (P-30, P-31), summaries (P-32). Deltas become running totals. */
#include <stdlib.h>

#include "querier_internal.h"

/* ---- columns ---- */

void sample_column_reset(struct sample_column *c)
{
    for (size_t i = 0; c->h != NULL && i < c->n; i++) {
        histogram_free(c->h[i]);
        c->h[i] = NULL;
    }
    c->n = 0;
}

void sample_column_fini(struct sample_column *c)
{
    sample_column_reset(c);
    free(c->t);
    free(c->v);
    free(c->h);
    free(c->weight);
    *c = (struct sample_column){0};
}

bool sample_column_reserve(struct sample_column *c, size_t n)
{
    int64_t *t;
    double *v;

    if (n <= c->cap)
        return true;
    t = realloc(c->t, n * sizeof(*t));
    if (t == NULL)
        return false;
    c->t = t;
    v = realloc(c->v, n * sizeof(*v));
    if (v == NULL)
        return false;
    c->v = v;
    if (c->h != NULL) {
        struct prom_histogram **h = realloc(c->h, n * sizeof(struct prom_histogram *));

        if (h == NULL)
            return false;
        memset(h + c->cap, 0, (n - c->cap) * sizeof(struct prom_histogram *));
        c->h = h;
    }
    if (c->weight != NULL) {
        uint32_t *weight = realloc(c->weight, n * sizeof(*weight));

        if (weight == NULL)
            return false;
        c->weight = weight;
    }
    c->cap = n;
    return true;
}

/* The place of a sample of time t: the last one's if it has that time. */
static inline size_t place(struct sample_column *c, int64_t t)
{
    if (c->n > 0 && c->t[c->n - 1] == t)
        return c->n - 1;
    c->t[c->n] = t;
    return c->n++;
}

void sample_column_add(struct sample_column *c, int64_t t, double v)
{
    size_t i = place(c, t);

    c->v[i] = v;
    if (c->weight != NULL)
        c->weight[i] = 1;
    if (c->h != NULL) {
        histogram_free(c->h[i]);
        c->h[i] = NULL;
    }
}

bool sample_column_add_histogram(struct sample_column *c, int64_t t, struct prom_histogram *h)
{
    size_t i;

    if (c->h == NULL) {
        c->h = calloc(c->cap, sizeof(struct prom_histogram *));
        if (c->h == NULL)
            return false;
    }
    i = place(c, t);
    c->v[i] = prom_stale();
    histogram_free(c->h[i]);
    c->h[i] = h;
    return true;
}

/* ---- times and values ---- */

static inline int64_t ms_of(int64_t ns)
{
    return ns / 1000000;
}

/* A stored NaN is a value, whatever its bits. */
static inline double not_stale(double d)
{
    const uint64_t quiet = UINT64_C(0x7ff8000000000001);

    if (prom_is_stale(d))
        memcpy(&d, &quiet, sizeof(d));
    return d;
}

static bool is_absent(const struct series_points *p, size_t i)
{
    return (p->flags[i] & FLAG_NO_RECORDED_VALUE) != 0;
}

/* A stale marker to every series of the point (P-36). */
static void add_stale(struct sample_column *columns, size_t n, int64_t t)
{
    for (size_t k = 0; k < n; k++)
        sample_column_add(&columns[k], t, prom_stale());
}

/* ---- numbers ---- */

/* Times of points to times of samples, which have whole milliseconds, behind the one before them.
 * False: two have the same. */
static bool times_in_ms(const struct number_run *r, int64_t before, int64_t *out)
{
    const int64_t *t = r->time, step = r->n > 1 ? t[1] - t[0] : 1000000;
    uint64_t other = step <= 0 || t[0] % 1000000 != 0 || step % 1000000 != 0;
    bool twice = false;

    /* Mostly as regular as they can be. */
    for (size_t i = 1; i < r->n; i++)
        other |= (uint64_t)(t[i] - t[i - 1]) ^ (uint64_t)step;
    if (other == 0) {
        for (size_t i = 0; i < r->n; i++)
            out[i] = t[0] / 1000000 + (int64_t)i * (step / 1000000);
        return out[0] != before;
    }
    for (size_t i = 0; i < r->n; i++) {
        const int64_t ms = (int64_t)((uint64_t)t[i] / 1000000);

        twice |= ms == before;
        before = out[i] = ms;
    }
    return !twice;
}

/* Nearly all runs: values of one kind since 1970, a millisecond each. False: this one is not, and c
 * is as it was. */
static bool decode_plain_numbers(const struct number_run *r, struct sample_column *c)
{
    double *v = c->v + c->n;
    bool is_stale = false;

    if (r->kind != NULL || r->flags != NULL || r->time[0] < 0 || c->h != NULL ||
        !times_in_ms(r, c->n == 0 ? -1 : c->t[c->n - 1], c->t + c->n))
        return false;
    for (size_t i = 0; r->all == VALUE_INT && i < r->n; i++)
        v[i] = (double)r->value[i];
    for (size_t i = 0; r->all == VALUE_DOUBLE && i < r->n; i++)
        is_stale |= (uint64_t)r->value[i] == PROM_STALE_BITS;
    if (r->all == VALUE_DOUBLE)
        memcpy(v, r->value, r->n * sizeof(*v));
    for (size_t i = 0; is_stale && i < r->n; i++)
        v[i] = not_stale(v[i]);
    for (size_t i = 0; c->weight != NULL && i < r->n; i++)
        c->weight[c->n + i] = 1;
    c->n += r->n;
    return true;
}

bool decode_number_run(const struct number_run *r, double *total, struct sample_column *c)
{
    if (!sample_column_reserve(c, c->n + r->n))
        return false;
    if (total == NULL && decode_plain_numbers(r, c))
        return true;
    for (size_t i = 0; i < r->n; i++) {
        const enum value_kind kind = r->kind == NULL ? r->all : (enum value_kind)r->kind[i];
        double v;

        if (kind == VALUE_NONE ||
            (r->flags != NULL && (r->flags[i] & FLAG_NO_RECORDED_VALUE) != 0)) {
            sample_column_add(c, ms_of(r->time[i]), prom_stale());
            continue;
        }
        memcpy(&v, &r->value[i], sizeof(v));
        v = kind == VALUE_INT ? (double)r->value[i] : not_stale(v);
        /* One that is no number would leave none behind it. */
        if (total != NULL && v == v)
            v = *total += v;
        sample_column_add(c, ms_of(r->time[i]), v);
    }
    return true;
}

static double number_of(enum value_kind kind, int64_t v)
{
    double d;

    memcpy(&d, &v, sizeof(d));
    return kind == VALUE_INT ? (double)v : not_stale(d);
}

static bool reserve_weight(struct sample_column *c)
{
    if (c->weight != NULL)
        return true;
    c->weight = malloc(c->cap * sizeof(*c->weight));
    for (size_t i = 0; c->weight != NULL && i < c->n; i++)
        c->weight[i] = 1;
    return c->weight != NULL;
}

static void add_weighty(struct sample_column *c, int64_t t, double v, size_t weight)
{
    sample_column_add(c, t, v);
    c->weight[c->n - 1] = (uint32_t)weight;
}

bool decode_summary(const struct number_run *r, enum digest what, struct sample_column *c)
{
    const struct number_summary *s = r->summary;
    /* A digest of many lies before the last one's time, where no other sample is. */
    const int64_t first = ms_of(s->first_time), last = ms_of(s->last_time);

    if (!sample_column_reserve(c, c->n + 2) || !reserve_weight(c))
        return false;
    switch (what) {
    case DIGEST_MIN:
        add_weighty(c, last - 1, s->min, r->n);
        break;
    case DIGEST_MAX:
        add_weighty(c, last - 1, s->max, r->n);
        break;
    case DIGEST_SUM:
        add_weighty(c, last - 1, s->sum, r->n);
        break;
    case DIGEST_ENDS:
    case DIGEST_RISE:
        add_weighty(c, first, number_of(s->first_kind, s->first), r->n - 1);
        add_weighty(c, last, number_of(s->last_kind, s->last), 1);
        break;
    case DIGEST_LAST:
    case DIGEST_NONE:
        add_weighty(c, last, number_of(s->last_kind, s->last), r->n);
        break;
    }
    return true;
}

/* ---- explicit histograms ---- */

/* Which bucket sources the bounds of a point are: both ascend. */
struct bucket_map {
    const struct source *sources; /* buckets, the last +Inf */
    size_t n;
    const struct bounds *bounds;
    uint32_t *to; /* of each bound; SERIES_NONE: it is not among them */
    size_t cap;
    bool made;
};

static enum otl_err map_bounds(struct querier *q, struct bucket_map *m, int64_t id,
                               struct otl_error *err)
{
    size_t k = 0;
    enum otl_err rc;

    if (m->made && m->bounds->id == id)
        return OTL_OK;
    rc = querier_bounds(q, id, &m->bounds, err);
    if (rc != OTL_OK)
        return rc;
    if (m->bounds->n > m->cap) {
        uint32_t *more = realloc(m->to, m->bounds->n * sizeof(*more));

        if (more == NULL)
            return querier_no_memory(err);
        m->to = more;
        m->cap = m->bounds->n;
    }
    for (size_t i = 0; i < m->bounds->n; i++) {
        while (k + 1 < m->n && m->sources[k].bound < m->bounds->le[i])
            k++;
        m->to[i] =
            k + 1 < m->n && m->sources[k].bound == m->bounds->le[i] ? (uint32_t)k : SERIES_NONE;
    }
    m->made = true;
    return OTL_OK;
}

/* v, or the total that it makes. */
static inline double running(double *total, double v)
{
    return total == NULL ? v : (*total += v);
}

static enum otl_err decode_histograms(struct querier *q, const struct stored *s,
                                      const struct source *sources, double *totals,
                                      const struct series_points *p, struct sample_column *columns,
                                      struct otl_error *err)
{
    size_t first = 0; /* of the buckets */
    struct bucket_map m = {0};
    enum otl_err rc = OTL_OK;

    while (first < s->n && sources[first].variant != VARIANT_BUCKET)
        first++;
    m.sources = sources + first;
    m.n = s->n - first;
    for (size_t i = 0; i < p->n && rc == OTL_OK; i++) {
        double count = (double)p->fields[HISTOGRAM_COUNT].v[i], below = 0;
        int64_t t = ms_of(p->time[i]);
        const int64_t *counts;
        uint32_t n;

        if (is_absent(p, i)) {
            add_stale(columns, s->n, t);
            continue;
        }
        for (size_t k = 0; k < first; k++) {
            double *total = totals == NULL ? NULL : &totals[k];

            if (sources[k].variant == VARIANT_COUNT)
                sample_column_add(&columns[k], t, running(total, count));
            else if (p->fields[HISTOGRAM_SUM].kind[i] != VALUE_NONE)
                sample_column_add(
                    &columns[k], t,
                    running(total, not_stale(series_points_double(p, HISTOGRAM_SUM, i))));
        }
        if (m.n == 0)
            continue;
        rc = map_bounds(q, &m, p->fields[HISTOGRAM_BOUNDS_ID].v[i], err);
        counts = series_points_list(p, HISTOGRAM_COUNTS, i, &n);
        for (size_t k = 0; rc == OTL_OK && k < m.bounds->n && k < n; k++) {
            uint32_t to = m.to[k];

            below += (double)counts[k];
            if (to != SERIES_NONE)
                sample_column_add(&columns[first + to], t,
                                  running(totals == NULL ? NULL : &totals[first + to], below));
        }
        if (rc == OTL_OK)
            sample_column_add(&columns[s->n - 1], t,
                              running(totals == NULL ? NULL : &totals[s->n - 1], count));
    }
    free(m.to);
    return rc;
}

/* ---- summaries ---- */

static void decode_summaries(const struct stored *s, const struct source *sources,
                             const struct series_points *p, struct sample_column *columns)
{
    for (size_t i = 0; i < p->n; i++) {
        int64_t t = ms_of(p->time[i]);
        uint32_t n;
        const int64_t *v = series_points_list(p, SUMMARY_QUANTILES, i, &n);

        if (is_absent(p, i)) {
            add_stale(columns, s->n, t);
            continue;
        }
        for (size_t k = 0; k < s->n; k++) {
            if (sources[k].variant == VARIANT_COUNT)
                sample_column_add(&columns[k], t, (double)p->fields[SUMMARY_COUNT].v[i]);
            else if (sources[k].variant == VARIANT_SUM)
                sample_column_add(&columns[k], t,
                                  not_stale(series_points_double(p, SUMMARY_SUM, i)));
            for (uint32_t j = 0; sources[k].variant == VARIANT_PLAIN && j + 1 < n; j += 2) {
                double pair[2];

                memcpy(pair, v + j, sizeof(pair));
                if (pair[0] == sources[k].bound)
                    sample_column_add(&columns[k], t, not_stale(pair[1]));
            }
        }
    }
}

/* ---- all ---- */

enum otl_err decode_points(struct querier *q, const struct stored *s, const struct source *sources,
                           const double *base, const struct series_points *p,
                           struct sample_column *columns, struct otl_error *err)
{
    double *totals = NULL;
    enum otl_err rc = OTL_OK;

    for (size_t k = 0; k < s->n; k++) {
        if (!sample_column_reserve(&columns[k], p->n))
            return querier_no_memory(err);
    }
    if (s->kind == KIND_SUMMARY) {
        decode_summaries(s, sources, p, columns);
        return OTL_OK;
    }
    if (base != NULL) {
        totals = malloc(s->n * sizeof(*totals));
        if (totals == NULL)
            return querier_no_memory(err);
        memcpy(totals, base, s->n * sizeof(*totals));
    }
    rc = s->kind == KIND_HISTOGRAM ? decode_histograms(q, s, sources, totals, p, columns, err)
                                   : decode_exponential(q, s, sources, totals, p, columns, err);
    free(totals);
    return rc;
}
