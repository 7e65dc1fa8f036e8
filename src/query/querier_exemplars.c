/* querier_exemplars.c -- exemplars of counters, of the buckets that they fall into, and of native
 * histograms (P-35).
 *
 * They are stored beside the point they came with, which is mostly a little later than they are. */
#include <math.h>
#include <stdlib.h>

#include "querier_internal.h"

/* How much later the point of an exemplar may be: an export interval, at most. */
#define POINT_LATER_MS INT64_C(3600000)
/* All names and values of the labels together; attributes are left out beyond it. */
enum { MAX_CHARACTERS = 128 };

struct found {
    uint32_t series;
    struct prom_exemplar e;
};

struct looking {
    struct querier *q;
    const struct selected *s;
    int64_t from_ms, to_ms;
    struct found *found;
    size_t n, cap, at;
    struct label_builder builder;
};

/* The source that shows an exemplar of that value; NULL: none, or it is not asked for. */
static const struct source *source_of(const struct looking *l, const struct stored *s, double value)
{
    const struct source *sources = l->s->sources + s->first;

    for (uint32_t k = 0; k < s->n; k++) {
        bool shows = (sources[k].variant == VARIANT_PLAIN &&
                      (s->kind == KIND_EXPONENTIAL || (s->kind == KIND_NUMBER && s->is_monotonic)));

        /* Buckets ascend. */
        if (sources[k].variant == VARIANT_BUCKET && (value <= sources[k].bound || k + 1 == s->n))
            return sources[k].series == SERIES_NONE ? NULL : &sources[k];
        if (shows && sources[k].series != SERIES_NONE)
            return &sources[k];
    }
    return NULL;
}

static size_t characters(struct bytes s)
{
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++)
        n += (s.p[i] & 0xc0) != 0x80;
    return n;
}

static void set_hex(struct looking *l, const char *name, struct bytes id, size_t *used)
{
    struct buf hex = {0};

    if (id.n == 0)
        return;
    buf_add_hex(&hex, id);
    label_builder_set(&l->builder, bytes_str(name), buf_bytes(&hex));
    *used += strlen(name) + hex.n;
    l->builder.failed = l->builder.failed || hex.failed;
    buf_fini(&hex);
}

/* Attributes first, so that the ids count where names are the same. */
static enum otl_err labels_of(struct looking *l, const struct series_points *p, size_t i,
                              struct labels *out, struct otl_error *err)
{
    struct bytes trace = series_points_bytes(p, EXEMPLAR_TRACE_ID, i);
    struct bytes span = series_points_bytes(p, EXEMPLAR_SPAN_ID, i);
    struct bytes attributes = series_points_bytes(p, EXEMPLAR_ATTRIBUTES, i), key;
    size_t used = trace.n * 2 + (trace.n > 0 ? 8 : 0) + span.n * 2 + (span.n > 0 ? 7 : 0), ids = 0;
    struct buf value = {0};
    struct attr_iter it;
    struct attr_value v;

    label_builder_reset(&l->builder);
    attrs_begin(&it, attributes);
    while (attrs_next(&it, &key, &v)) {
        buf_reset(&value);
        label_value_text(&v, &value);
        used += characters(key) + characters(buf_bytes(&value));
        label_builder_set(&l->builder, key, buf_bytes(&value));
    }
    if (used > MAX_CHARACTERS)
        label_builder_reset(&l->builder);
    set_hex(l, "trace_id", trace, &ids);
    set_hex(l, "span_id", span, &ids);
    l->builder.failed = l->builder.failed || value.failed;
    buf_fini(&value);
    return label_builder_take(&l->builder, l->q->arena, out, err);
}

static enum otl_err add(struct looking *l, uint32_t series, struct prom_exemplar e,
                        struct otl_error *err)
{
    if (l->n == l->cap) {
        size_t cap = l->cap == 0 ? 64 : 2 * l->cap;
        enum otl_err rc = read_charge(l->q->r, (int64_t)((cap - l->cap) * sizeof(*l->found)), err);
        struct found *more;

        if (rc != OTL_OK)
            return rc;
        more = realloc(l->found, cap * sizeof(*more));
        if (more == NULL) {
            (void)!read_charge(l->q->r, -(int64_t)((cap - l->cap) * sizeof(*l->found)), NULL);
            return querier_no_memory(err);
        }
        l->found = more;
        l->cap = cap;
    }
    l->found[l->n++] = (struct found){series, e};
    return OTL_OK;
}

static enum otl_err take_points(void *arg, int64_t id, const struct series_points *p,
                                struct otl_error *err)
{
    struct looking *l = arg;
    const struct field_column *values = &p->fields[EXEMPLAR_VALUE];
    enum otl_err rc = OTL_OK;

    while (l->at < l->s->n_stored && l->s->stored[l->at].id < id)
        l->at++;
    if (l->at == l->s->n_stored || l->s->stored[l->at].id != id)
        return OTL_OK;
    for (size_t i = 0; i < p->n && rc == OTL_OK; i++) {
        int64_t ns = p->fields[EXEMPLAR_TIME].v[i];
        struct prom_exemplar e = {.t = (ns != 0 ? ns : p->time[i]) / 1000000};
        const struct source *source;

        if (values->kind[i] == VALUE_NONE || e.t < l->from_ms || e.t > l->to_ms)
            continue;
        e.value = values->kind[i] == VALUE_INT ? (double)values->v[i]
                                               : series_points_double(p, EXEMPLAR_VALUE, i);
        source = source_of(l, &l->s->stored[l->at], e.value);
        if (source == NULL)
            continue;
        rc = labels_of(l, p, i, &e.labels, err);
        if (rc == OTL_OK)
            rc = add(l, source->series, e, err);
    }
    return rc;
}

static int by_series_and_time(const void *a, const void *b)
{
    const struct found *x = a, *y = b;

    if (x->series != y->series)
        return x->series < y->series ? -1 : 1;
    if (x->e.t != y->e.t)
        return x->e.t < y->e.t ? -1 : 1;
    if (x->e.value != y->e.value)
        return x->e.value < y->e.value ? -1 : 1;
    return labels_compare(x->e.labels, y->e.labels);
}

/* One that came with several points is one. */
static enum otl_err give(struct looking *l,
                         enum otl_err (*emit)(void *arg, size_t i, const struct prom_exemplar *e,
                                              size_t n, struct otl_error *err),
                         void *arg, struct otl_error *err)
{
    struct prom_exemplar *e = malloc((l->n + 1) * sizeof(*e));
    enum otl_err rc = e == NULL ? querier_no_memory(err) : OTL_OK;

    if (rc == OTL_OK && l->n > 0)
        qsort(l->found, l->n, sizeof(*l->found), by_series_and_time);
    for (size_t i = 0; i < l->n && rc == OTL_OK;) {
        uint32_t series = l->found[i].series;
        size_t n = 0;

        for (; i < l->n && l->found[i].series == series; i++) {
            if (n == 0 || by_series_and_time(&l->found[i - 1], &l->found[i]) != 0)
                e[n++] = l->found[i].e;
        }
        rc = emit(arg, series, e, n, err);
    }
    free(e);
    return rc;
}

enum otl_err
querier_exemplars(struct querier *q, const struct series_set *s, int64_t from_ms, int64_t to_ms,
                  enum otl_err (*emit)(void *arg, size_t i, const struct prom_exemplar *e, size_t n,
                                       struct otl_error *err),
                  void *arg, struct otl_error *err)
{
    struct looking l = {.q = q, .s = querier_set_of(q, s), .from_ms = from_ms, .to_ms = to_ms};
    int64_t last_ms = to_ms > INT64_MAX - POINT_LATER_MS ? INT64_MAX : to_ms + POINT_LATER_MS;
    int64_t *ids;
    enum otl_err rc = OTL_OK;

    if (l.s == NULL)
        return otl_fail(err, OTL_EINTERNAL, "the series are not this query's");
    ids = malloc((l.s->n_stored + 1) * sizeof(*ids));
    if (ids == NULL)
        return querier_no_memory(err);
    for (size_t i = 0; i < l.s->n_stored; i++)
        ids[i] = l.s->stored[i].id;
    if (l.s->n_stored > 0)
        rc = read_scan(q->r, KIND_EXEMPLAR, ids, l.s->n_stored, querier_ns_from(from_ms),
                       querier_ns_to(last_ms), take_points, &l, err);
    if (rc == OTL_OK)
        rc = give(&l, emit, arg, err);
    (void)!read_charge(q->r, -(int64_t)(l.cap * sizeof(*l.found)), NULL);
    free(ids);
    free(l.found);
    label_builder_fini(&l.builder);
    return rc;
}
