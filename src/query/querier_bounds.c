/* querier_bounds.c -- the buckets and quantiles that stored series have in a range: which labels le
 * and quantile there are is known from the points only. */
#include <math.h>
#include <stdlib.h>

#include "format_number.h"
#include "querier_internal.h"

/* ---- the bounds of an id ---- */

static enum otl_err keep_bounds(struct querier *q, int64_t id, const double *le, size_t n,
                                const struct bounds **out, struct otl_error *err)
{
    struct bounds *b = arena_zalloc(q->arena, 1, sizeof(*b));
    double *values = arena_alloc(q->arena, n * sizeof(*values));
    struct bytes *texts = arena_alloc(q->arena, n * sizeof(*texts));

    if (b == NULL || values == NULL || texts == NULL)
        return querier_arena_failed(q->arena, err);
    for (size_t i = 0; i < n; i++) {
        if (isinf(le[i])) /* the last bucket has that bound anyway */
            continue;
        buf_reset(&q->text);
        format_float(&q->text, le[i]);
        if (q->text.failed)
            return querier_no_memory(err);
        values[b->n] = le[i];
        if (!arena_dup(q->arena, buf_bytes(&q->text), &texts[b->n]))
            return querier_arena_failed(q->arena, err);
        b->n++;
    }
    b->id = id;
    b->le = values;
    b->text = texts;
    b->next = q->bounds;
    q->bounds = b;
    *out = b;
    return OTL_OK;
}

enum otl_err querier_bounds(struct querier *q, int64_t id, const struct bounds **out,
                            struct otl_error *err)
{
    static const struct bounds none = {0};
    struct bounds **p = &q->bounds;
    double *le = NULL;
    size_t n = 0;
    enum otl_err rc;

    if (id == 0) {
        *out = &none;
        return OTL_OK;
    }
    for (; *p != NULL; p = &(*p)->next) {
        struct bounds *b = *p;

        if (b->id != id)
            continue;
        *p = b->next; /* to the front: it is asked for again */
        b->next = q->bounds;
        q->bounds = b;
        *out = b;
        return OTL_OK;
    }
    rc = read_bounds(q->r, id, &le, &n, err);
    if (rc == OTL_OK)
        rc = keep_bounds(q, id, le, n, out, err);
    free(le);
    return rc;
}

/* ---- those of a series in a range ---- */

struct finding {
    struct querier *q;
    const int64_t *ids;
    size_t n, at;
    struct found_bounds *out;
    double *values; /* of the series under way, in no order */
    size_t n_values, cap;
};

static enum otl_err add_values(struct finding *f, const double *v, size_t n, struct otl_error *err)
{
    if (n > f->cap - f->n_values) {
        size_t cap = 2 * (f->n_values + n);
        double *more = realloc(f->values, cap * sizeof(*more));

        if (more == NULL)
            return querier_no_memory(err);
        f->values = more;
        f->cap = cap;
    }
    if (n > 0)
        memcpy(f->values + f->n_values, v, n * sizeof(*v));
    f->n_values += n;
    return OTL_OK;
}

static int by_value(const void *a, const void *b)
{
    double x, y;

    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

/* Ascending, each once. */
static void sort_values(struct finding *f)
{
    size_t n = 0;

    if (f->n_values > 0)
        qsort(f->values, f->n_values, sizeof(*f->values), by_value);
    for (size_t i = 0; i < f->n_values; i++) {
        if (n == 0 || f->values[i] != f->values[n - 1])
            f->values[n++] = f->values[i];
    }
    f->n_values = n;
}

static enum otl_err explicit_bounds(struct finding *f, const struct series_points *p,
                                    struct otl_error *err)
{
    const int64_t *ids = p->fields[HISTOGRAM_BOUNDS_ID].v;
    const struct bounds *b;
    enum otl_err rc = OTL_OK;

    for (size_t i = 0; i < p->n && rc == OTL_OK; i++) {
        if (i > 0 && ids[i] == ids[i - 1])
            continue;
        rc = querier_bounds(f->q, ids[i], &b, err);
        if (rc == OTL_OK)
            rc = add_values(f, b->le, b->n, err);
    }
    return rc;
}

static enum otl_err quantiles(struct finding *f, const struct series_points *p,
                              struct otl_error *err)
{
    enum otl_err rc = OTL_OK;
    size_t known = 0; /* of the values at the front, in the order of a point's */

    for (size_t i = 0; i < p->n && rc == OTL_OK; i++) {
        uint32_t n;
        const int64_t *v = series_points_list(p, SUMMARY_QUANTILES, i, &n);

        for (uint32_t k = 0; k + 1 < n && rc == OTL_OK; k += 2) {
            double quantile;

            memcpy(&quantile, &v[k], sizeof(quantile));
            if (k / 2 < known && f->values[k / 2] == quantile)
                continue;
            rc = add_values(f, &quantile, 1, err);
        }
        if (i == 0)
            known = f->n_values;
    }
    return rc;
}

static enum otl_err exponential_bounds(struct finding *f, const struct series_points *p,
                                       struct otl_error *err)
{
    struct exponential_bucket *buckets = NULL;
    size_t cap = 0;
    enum otl_err rc = OTL_OK;

    for (size_t i = 0; i < p->n && rc == OTL_OK; i++) {
        size_t n = 0;

        rc = exponential_buckets_of(p, i, &buckets, &n, &cap, err);
        for (size_t k = 0; k < n && rc == OTL_OK; k++)
            rc = add_values(f, &buckets[k].upper, 1, err);
        if (rc == OTL_OK && f->n_values > f->cap / 2)
            sort_values(f); /* most are there many times */
    }
    free(buckets);
    return rc;
}

static enum otl_err take_found(struct finding *f, struct found_bounds *out, struct otl_error *err)
{
    sort_values(f);
    out->values = arena_alloc(f->q->arena, f->n_values * sizeof(*out->values));
    if (out->values == NULL)
        return querier_arena_failed(f->q->arena, err);
    memcpy(out->values, f->values, f->n_values * sizeof(*out->values));
    out->n = f->n_values;
    return OTL_OK;
}

static enum otl_err look_at(void *arg, int64_t id, const struct series_points *p,
                            struct otl_error *err)
{
    struct finding *f = arg;
    const double infinity = (double)INFINITY;
    enum otl_err rc;

    while (f->at < f->n && f->ids[f->at] < id)
        f->at++;
    if (f->at == f->n || f->ids[f->at] != id || p->n == 0)
        return OTL_OK;
    f->n_values = 0;
    if (p->kind == KIND_HISTOGRAM)
        rc = explicit_bounds(f, p, err);
    else if (p->kind == KIND_SUMMARY)
        rc = quantiles(f, p, err);
    else
        rc = exponential_bounds(f, p, err);
    if (rc == OTL_OK && p->kind != KIND_SUMMARY)
        rc = add_values(f, &infinity, 1, err);
    if (rc == OTL_OK && f->n_values > 0)
        rc = take_found(f, &f->out[f->at], err);
    return rc;
}

enum otl_err querier_find_bounds(struct querier *q, enum series_kind kind, const int64_t *ids,
                                 size_t n, int64_t from_ms, int64_t to_ms, struct found_bounds *out,
                                 struct otl_error *err)
{
    struct finding f = {.q = q, .ids = ids, .n = n, .out = out};
    enum otl_err rc;

    memset(out, 0, n * sizeof(*out));
    if (n == 0)
        return OTL_OK;
    rc = read_scan(q->r, (int)kind, ids, n, querier_ns_from(from_ms), querier_ns_to(to_ms), look_at,
                   &f, err);
    free(f.values);
    return rc;
}
