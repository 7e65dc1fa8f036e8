/* querier_scan.c -- the samples of a set. A stored series is decoded once for all series it is
 * shown as.
 *
 * Series of one stored series are given away as they are read. Those that several stored series
 * have part in are read group by group: what a group's members give is kept until all are read, and
 * merged by time in the order of their ids, so that of one millisecond the later one counts. */
#include <math.h>
#include <stdlib.h>

#include "querier_internal.h"

/* Stored series read at once where they are kept. */
enum { JOINED_AT_ONCE = 256 };
/* Of one millisecond one point counts: closer together, there may be several, and a summary counts
 * them all. */
enum { DIGEST_INTERVAL_NS = 100000000 };

/* What a source of a joined series gave. */
struct kept {
    uint32_t series, source;
    struct sample_column column;
};

/* Numbers on their way: the samples of one stored series. */
struct number_slot {
    int64_t id; /* 0: none yet */
    struct sample_column column;
    size_t charged; /* bytes of it */
    bool delta;
    double total;
};

struct scanning {
    struct querier *q;
    const struct digest_opts *digest; /* NULL: none */
    int64_t *edges;                   /* its edges in ns */
    struct selected *s;
    int64_t from_ms, to_ms;
    enum otl_err (*emit)(void *arg, size_t i, const struct samples *v, struct otl_error *err);
    void *arg;
    double *bases; /* by source; NULL: no deltas */
    struct sample_column *columns;
    size_t n_columns;
    size_t at;       /* in stored */
    size_t begun_at; /* likewise, of the numbers that are read ahead */
    struct number_slot slots[NUMBER_SLOTS];
    bool joined;
    struct kept *kept;
    size_t n_kept, cap_kept;
    int64_t charged;
};

static enum otl_err give(struct scanning *x, uint32_t series, const struct sample_column *c,
                         struct otl_error *err)
{
    struct samples v = {c->t, c->v, c->h, c->n, c->weight};

    return c->n == 0 ? OTL_OK : x->emit(x->arg, series, &v, err);
}

static enum otl_err charge(struct scanning *x, struct otl_error *err)
{
    size_t now = x->cap_kept * sizeof(*x->kept);
    int64_t grown;
    enum otl_err rc;

    for (size_t i = 0; i < x->n_columns + x->n_kept; i++) {
        const struct sample_column *c =
            i < x->n_columns ? &x->columns[i] : &x->kept[i - x->n_columns].column;

        now += c->cap * (sizeof(*c->t) + sizeof(*c->v));
        for (size_t k = 0; c->h != NULL && k < c->n; k++)
            now +=
                sizeof(struct prom_histogram *) + (c->h[k] == NULL ? 0 : histogram_bytes(c->h[k]));
    }
    grown = (int64_t)now - x->charged;
    rc = read_charge(x->q->r, grown, err);
    if (rc == OTL_OK)
        x->charged += grown;
    return rc;
}

static bool prepare_columns(struct scanning *x, size_t n)
{
    if (n > x->n_columns) {
        struct sample_column *more = realloc(x->columns, n * sizeof(*more));

        if (more == NULL)
            return false;
        memset(more + x->n_columns, 0, (n - x->n_columns) * sizeof(*more));
        x->columns = more;
        x->n_columns = n;
    }
    for (size_t i = 0; i < x->n_columns; i++)
        sample_column_reset(&x->columns[i]);
    return true;
}

static enum otl_err keep(struct scanning *x, uint32_t series, uint32_t source,
                         struct sample_column *c, struct otl_error *err)
{
    if (x->n_kept == x->cap_kept) {
        size_t cap = x->cap_kept == 0 ? 64 : 2 * x->cap_kept;
        struct kept *more = realloc(x->kept, cap * sizeof(*more));

        if (more == NULL)
            return querier_no_memory(err);
        x->kept = more;
        x->cap_kept = cap;
    }
    x->kept[x->n_kept++] = (struct kept){series, source, *c};
    *c = (struct sample_column){0};
    return OTL_OK;
}

static enum otl_err take_points(void *arg, int64_t id, const struct series_points *p,
                                struct otl_error *err)
{
    struct scanning *x = arg;
    struct selected *s = x->s;
    const struct stored *stored;
    const struct source *sources;
    enum otl_err rc;

    while (x->at < s->n_stored && s->stored[x->at].id < id)
        x->at++;
    if (x->at == s->n_stored || s->stored[x->at].id != id)
        return OTL_OK;
    stored = &s->stored[x->at];
    sources = s->sources + stored->first;
    if (!prepare_columns(x, stored->n))
        return querier_no_memory(err);
    rc = decode_points(x->q, stored, sources,
                       x->bases == NULL || !stored->delta ? NULL : x->bases + stored->first, p,
                       x->columns, err);
    if (rc == OTL_OK)
        rc = charge(x, err);
    for (uint32_t k = 0; k < stored->n && rc == OTL_OK; k++) {
        if (sources[k].series == SERIES_NONE)
            continue;
        rc = x->joined ? keep(x, sources[k].series, stored->first + k, &x->columns[k], err)
                       : give(x, sources[k].series, &x->columns[k], err);
    }
    return rc;
}

/* ---- numbers ---- */

static enum otl_err charge_slot(struct scanning *x, struct number_slot *slot, struct otl_error *err)
{
    const struct sample_column *c = &slot->column;
    size_t each = sizeof(*c->t) + sizeof(*c->v) + (c->weight == NULL ? 0 : sizeof(*c->weight));
    size_t now = c->cap * each;
    enum otl_err rc = read_charge(x->q->r, (int64_t)now - (int64_t)slot->charged, err);

    if (rc == OTL_OK)
        slot->charged = now;
    return rc;
}

/* Perhaps on another thread, ahead of take_number: all that it changes is in the slot, and
 * begun_at. */
static enum otl_err begin_number(void *arg, unsigned i, int64_t id, const struct number_run *r,
                                 struct otl_error *err)
{
    struct scanning *x = arg;
    const struct selected *s = x->s;
    struct number_slot *slot = &x->slots[i];

    if (slot->id != id) {
        while (x->begun_at < s->n_stored && s->stored[x->begun_at].id < id)
            x->begun_at++;
        sample_column_reset(&slot->column);
        slot->id = id;
        slot->delta = x->begun_at < s->n_stored && s->stored[x->begun_at].id == id &&
                      s->stored[x->begun_at].delta && x->bases != NULL;
        slot->total = slot->delta ? x->bases[s->stored[x->begun_at].first] : 0;
    }
    if (!(r->summary != NULL
              ? decode_summary(r, x->digest->what, &slot->column)
              : decode_number_run(r, slot->delta ? &slot->total : NULL, &slot->column)))
        return querier_no_memory(err);
    return charge_slot(x, slot, err);
}

static enum otl_err take_number(void *arg, unsigned i, int64_t id, struct otl_error *err)
{
    struct scanning *x = arg;
    const struct selected *s = x->s;
    struct number_slot *slot = &x->slots[i];
    const struct stored *stored;
    uint32_t series;
    enum otl_err rc;

    slot->id = 0;
    while (x->at < s->n_stored && s->stored[x->at].id < id)
        x->at++;
    if (x->at == s->n_stored || s->stored[x->at].id != id)
        return OTL_OK;
    stored = &s->stored[x->at];
    series = s->sources[stored->first].series;
    if (stored->n == 0 || series == SERIES_NONE)
        return OTL_OK;
    if (!x->joined)
        return give(x, series, &slot->column, err);
    rc = keep(x, series, stored->first, &slot->column, err);
    if (rc == OTL_OK)
        rc = charge_slot(x, slot, err); /* it is empty now */
    return rc == OTL_OK ? charge(x, err) : rc;
}

static enum otl_err read_numbers_of(struct scanning *x, const int64_t *ids, size_t n,
                                    struct otl_error *err)
{
    struct number_sink sink = {.run = begin_number, .series = take_number, .arg = x};

    /* Totals of deltas and what several stored series give need every point. */
    if (x->digest != NULL && x->bases == NULL && !x->joined) {
        sink.edges = x->edges;
        sink.n_edges = x->digest->n_edges;
        sink.least_interval = DIGEST_INTERVAL_NS;
        sink.no_reset = x->digest->what == DIGEST_RISE;
    }
    x->begun_at = 0;
    for (int i = 0; i < NUMBER_SLOTS; i++)
        x->slots[i].id = 0;
    return read_numbers(x->q->r, ids, n, querier_ns_from(x->from_ms), querier_ns_to(x->to_ms),
                        &sink, err);
}

/* The points of the stored series at places[0..n), ascending. */
static enum otl_err read_stored(struct scanning *x, const uint32_t *places, size_t n,
                                struct otl_error *err)
{
    int64_t *ids = malloc((n + 1) * sizeof(*ids));
    enum otl_err rc = ids == NULL ? querier_no_memory(err) : OTL_OK;

    for (int k = 0; k <= KIND_SUMMARY && rc == OTL_OK; k++) {
        size_t m = 0;

        for (size_t i = 0; i < n; i++) {
            if (x->s->stored[places[i]].kind == (enum series_kind)k)
                ids[m++] = x->s->stored[places[i]].id;
        }
        x->at = 0;
        if (m == 0)
            continue;
        rc = k == KIND_NUMBER ? read_numbers_of(x, ids, m, err)
                              : read_scan(x->q->r, k, ids, m, querier_ns_from(x->from_ms),
                                          querier_ns_to(x->to_ms), take_points, x, err);
    }
    free(ids);
    return rc;
}

/* ---- joined series ---- */

static int by_series(const void *a, const void *b)
{
    const struct kept *x = a, *y = b;

    if (x->series != y->series)
        return x->series < y->series ? -1 : 1;
    return (x->source > y->source) - (x->source < y->source);
}

static void move_sample(struct sample_column *to, size_t at, struct sample_column *from, size_t i)
{
    to->t[at] = from->t[i];
    to->v[at] = from->v[i];
    if (from->h != NULL) {
        to->h[at] = from->h[i];
        from->h[i] = NULL;
    }
}

/* out (empty): a and b, b's where both have a sample. */
static bool merge(struct sample_column *out, struct sample_column *a, struct sample_column *b)
{
    size_t i = 0, k = 0;

    if (!sample_column_reserve(out, a->n + b->n))
        return false;
    if (out->h == NULL && (a->h != NULL || b->h != NULL)) {
        out->h = calloc(out->cap, sizeof(struct prom_histogram *));
        if (out->h == NULL)
            return false;
    }
    while (i < a->n || k < b->n) {
        if (k == b->n || (i < a->n && a->t[i] < b->t[k])) {
            move_sample(out, out->n++, a, i++);
            continue;
        }
        if (i < a->n && a->t[i] == b->t[k])
            i++; /* its histogram, if it has one, goes with a */
        move_sample(out, out->n++, b, k++);
    }
    return true;
}

static enum otl_err give_kept(struct scanning *x, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    if (x->n_kept > 0)
        qsort(x->kept, x->n_kept, sizeof(*x->kept), by_series);
    for (size_t i = 0; i < x->n_kept && rc == OTL_OK;) {
        struct sample_column all = x->kept[i].column;
        uint32_t series = x->kept[i].series;

        x->kept[i++].column = (struct sample_column){0};
        for (; i < x->n_kept && x->kept[i].series == series && rc == OTL_OK; i++) {
            struct sample_column merged = {0};

            if (!merge(&merged, &all, &x->kept[i].column))
                rc = querier_no_memory(err);
            sample_column_fini(&all);
            sample_column_fini(&x->kept[i].column);
            all = merged;
        }
        if (rc == OTL_OK)
            rc = give(x, series, &all, err);
        sample_column_fini(&all);
    }
    for (size_t i = 0; i < x->n_kept; i++)
        sample_column_fini(&x->kept[i].column);
    x->n_kept = 0;
    return rc;
}

struct member {
    uint32_t group, place;
};

static int by_group(const void *a, const void *b)
{
    const struct member *x = a, *y = b;

    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

static int by_place(const void *a, const void *b)
{
    uint32_t x, y;

    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

/* Members first to end - 1 are whole groups. */
static enum otl_err scan_groups(struct scanning *x, const struct member *m, size_t n,
                                uint32_t *places, struct otl_error *err)
{
    enum otl_err rc;

    for (size_t i = 0; i < n; i++)
        places[i] = m[i].place;
    qsort(places, n, sizeof(*places), by_place);
    rc = read_stored(x, places, n, err);
    return rc == OTL_OK ? give_kept(x, err) : rc;
}

static enum otl_err scan_joined(struct scanning *x, uint32_t *places, size_t n,
                                struct otl_error *err)
{
    struct member *m = malloc((n + 1) * sizeof(*m));
    enum otl_err rc = m == NULL ? querier_no_memory(err) : OTL_OK;

    for (size_t i = 0; i < n && rc == OTL_OK; i++)
        m[i] = (struct member){x->s->stored[places[i]].group, places[i]};
    if (rc == OTL_OK && n > 0)
        qsort(m, n, sizeof(*m), by_group);
    x->joined = true;
    for (size_t i = 0; i < n && rc == OTL_OK;) {
        size_t end = i;

        do {
            uint32_t group = m[end].group;

            while (end < n && m[end].group == group)
                end++;
        } while (end < n && end - i < JOINED_AT_ONCE);
        rc = scan_groups(x, m + i, end - i, places, err);
        i = end;
    }
    free(m);
    return rc;
}

/* ---- all of it ---- */

static enum otl_err scan_targets(struct scanning *x, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    for (size_t i = 0; i < x->s->n_targets && rc == OTL_OK; i++) {
        const struct target *t = &x->s->targets[i];

        if (t->series == SERIES_NONE)
            continue;
        if (!prepare_columns(x, 1) || !sample_column_reserve(&x->columns[0], t->n))
            return querier_no_memory(err);
        for (size_t k = 0; k < t->n; k++) {
            if (t->t[k] >= x->from_ms && t->t[k] <= x->to_ms)
                sample_column_add(&x->columns[0], t->t[k], 1);
        }
        rc = give(x, t->series, &x->columns[0], err);
    }
    return rc;
}

static enum otl_err scan(struct scanning *x, struct otl_error *err)
{
    struct selected *s = x->s;
    uint32_t *places = malloc((s->n_stored + 1) * sizeof(*places));
    size_t n = 0;
    enum otl_err rc = places == NULL ? querier_no_memory(err) : OTL_OK;

    if (rc == OTL_OK)
        rc = querier_bases(x->q, s, x->from_ms, &x->bases, err);
    for (size_t i = 0; rc == OTL_OK && i < s->n_stored; i++) {
        if (!s->stored[i].joined && s->stored[i].n > 0)
            places[n++] = (uint32_t)i;
    }
    if (rc == OTL_OK)
        rc = read_stored(x, places, n, err);
    n = 0;
    for (size_t i = 0; rc == OTL_OK && i < s->n_stored; i++) {
        if (s->stored[i].joined)
            places[n++] = (uint32_t)i;
    }
    if (rc == OTL_OK)
        rc = scan_joined(x, places, n, err);
    free(places);
    return rc == OTL_OK ? scan_targets(x, err) : rc;
}

/* A sample of so many ms is behind the edge from the next ms on. */
static enum otl_err edges_in_ns(struct scanning *x, struct otl_error *err)
{
    const struct digest_opts *d = x->digest;

    if (d == NULL || d->what == DIGEST_NONE || d->n_edges == 0) {
        x->digest = NULL;
        return OTL_OK;
    }
    x->edges = malloc(d->n_edges * sizeof(*x->edges));
    if (x->edges == NULL)
        return querier_no_memory(err);
    for (size_t i = 0; i < d->n_edges; i++)
        x->edges[i] = querier_ns_to(d->edges[i]);
    return OTL_OK;
}

enum otl_err querier_scan(struct querier *q, const struct series_set *s, int64_t from_ms,
                          int64_t to_ms, const struct digest_opts *digest,
                          enum otl_err (*emit)(void *arg, size_t i, const struct samples *v,
                                               struct otl_error *err),
                          void *arg, struct otl_error *err)
{
    struct scanning x = {.q = q,
                         .digest = digest,
                         .s = querier_set_of(q, s),
                         .from_ms = from_ms,
                         .to_ms = to_ms,
                         .emit = emit,
                         .arg = arg};
    enum otl_err rc;

    if (x.s == NULL)
        return otl_fail(err, OTL_EINTERNAL, "the series are not this query's");
    rc = edges_in_ns(&x, err);
    if (rc == OTL_OK)
        rc = scan(&x, err);
    free(x.edges);
    for (size_t i = 0; i < x.n_columns; i++)
        sample_column_fini(&x.columns[i]);
    for (size_t i = 0; i < x.n_kept; i++)
        sample_column_fini(&x.kept[i].column);
    for (int i = 0; i < NUMBER_SLOTS; i++) {
        sample_column_fini(&x.slots[i].column);
        x.charged += (int64_t)x.slots[i].charged;
    }
    free(x.columns);
    free(x.kept);
    if (x.bases != NULL) {
        free(x.bases);
        x.charged += (int64_t)(x.s->n_sources * sizeof(*x.bases));
    }
    (void)!read_charge(q->r, -x.charged, NULL);
    return rc;
}
