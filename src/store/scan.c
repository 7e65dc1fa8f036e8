/* scan.c -- the points of series: chunks and head put together. (Of many series of numbers:
 * scan_numbers.c.)
 *
 * Most chunks of a series lie one after the other, and what the head has comes after them all.
 * Those are appended as they are. Only chunks whose times meet, or meet points of the head, are
 * merged: equal end times count as meeting. */
#include <stdlib.h>

#include "read_internal.h"

enum { MEMO_CHUNKS = 64 };

static enum otl_err no_memory(struct otl_error *err)
{
    return otl_fail(err, OTL_ENOMEM, "read points: no memory");
}

size_t read_points_bytes(const struct series_points *p)
{
    const struct series_schema *schema = &series_schemas[p->kind];
    size_t n = p->cap * 3 * sizeof(int64_t);

    for (int i = 0; i < schema->n_fields; i++) {
        const struct field_column *f = &p->fields[i];

        n += f->cap_v * sizeof(*f->v) + f->bytes.cap;
        if (f->kind != NULL)
            n += p->cap;
        if (f->end != NULL)
            n += p->cap * sizeof(*f->end);
    }
    return n;
}

/* ---- one series ---- */

static enum otl_err charge_growth(struct read *r, size_t before, size_t now, struct otl_error *err)
{
    return read_charge(r, (int64_t)now - (int64_t)before, err);
}

/* Charge what the scratch has grown by. */
static enum otl_err charge_scratch(struct gather *g, struct read *r, struct otl_error *err)
{
    size_t now = g->n_sources * sizeof(*g->sources) + read_points_bytes(&g->merged);
    enum otl_err rc;

    for (size_t i = 0; i < g->n_sources; i++)
        now += read_points_bytes(&g->sources[i]);
    rc = charge_growth(r, (size_t)g->charged, now, err);
    if (rc == OTL_OK)
        g->charged = (int64_t)now;
    return rc;
}

void gather_fini(struct gather *g, struct read *r)
{
    for (size_t i = 0; i < g->n_sources; i++)
        series_points_fini(&g->sources[i]);
    free(g->sources);
    free(g->memo);
    series_points_fini(&g->merged);
    /* Giving back cannot fail. */
    if (g->charged > 0)
        (void)!read_charge(r, -g->charged, NULL);
    *g = (struct gather){0};
}

/* At least n sources, all empty and of that kind. */
static bool prepare_sources(struct gather *g, enum series_kind kind, size_t n)
{
    if (n > g->n_sources) {
        struct series_points *more = realloc(g->sources, n * sizeof(*more));

        if (more == NULL)
            return false;
        g->sources = more;
        for (size_t i = g->n_sources; i < n; i++)
            series_points_init(&g->sources[i], kind);
        g->n_sources = n;
    }
    for (size_t i = 0; i < n; i++) {
        if (g->sources[i].kind != kind) {
            series_points_fini(&g->sources[i]);
            series_points_init(&g->sources[i], kind);
        }
        series_points_reset(&g->sources[i]);
    }
    if (g->merged.kind != kind) {
        series_points_fini(&g->merged);
        series_points_init(&g->merged, kind);
    }
    series_points_reset(&g->merged);
    return true;
}

enum otl_err gather_chunk(struct gather *g, struct read *r, struct part_refs *refs, size_t ref,
                          int64_t from, int64_t to, struct series_points *out,
                          struct otl_error *err)
{
    struct otl_error mine = {0};
    enum otl_err rc = read_check(r, err);

    if (rc != OTL_OK)
        return rc;
    rc = part_read_next(r->session->parts, refs, ref, from, to, g->memo, out, &mine);
    if (rc == OTL_ECORRUPT)
        return OTL_OK;
    if (rc != OTL_OK && err != NULL)
        *err = mine;
    return rc;
}

/* Exemplars without the marks of points that were replaced. */
static bool append_without_marks(struct series_points *out, const struct series_points *p)
{
    const uint8_t *kind = p->fields[EXEMPLAR_VALUE].kind;
    size_t i = 0;

    while (i < p->n) {
        size_t end = i;

        while (end < p->n && kind[end] != VALUE_NONE)
            end++;
        if (end > i && !series_points_append(out, p, i, end - i))
            return false;
        i = end + 1;
    }
    return true;
}

enum otl_err gather_group(struct gather *g, struct read *r, struct part_refs *refs, size_t first,
                          size_t n, const struct series_points *head, size_t low, size_t high,
                          int64_t from, int64_t to, struct series_points *out,
                          struct otl_error *err)
{
    const struct series_points **order;
    size_t n_order = 0;
    enum otl_err rc = OTL_OK;

    if (!prepare_sources(g, out->kind, n + 1))
        return no_memory(err);
    order = malloc((n + 1) * sizeof(*order));
    if (order == NULL)
        return no_memory(err);
    /* Oldest first: by sequence; of one part by time, as they lie. n is small. */
    for (size_t i = 0; i < n && rc == OTL_OK; i++) {
        size_t at = n_order++;

        rc = gather_chunk(g, r, refs, first + i, from, to, &g->sources[i], err);
        while (at > 0 && refs->refs[first + (size_t)(order[at - 1] - g->sources)].sequence >
                             refs->refs[first + i].sequence) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = &g->sources[i];
        if (rc == OTL_OK)
            rc = charge_scratch(g, r, err);
    }
    if (rc == OTL_OK && high > low) {
        if (series_points_append(&g->sources[n], head, low, high - low))
            order[n_order++] = &g->sources[n];
        else
            rc = no_memory(err);
    }
    if (rc == OTL_OK && !series_points_merge(&g->merged, order, n_order, NULL))
        rc = no_memory(err);
    free(order);
    if (rc == OTL_OK)
        rc = charge_scratch(g, r, err);
    if (rc == OTL_OK && g->merged.n > 0 &&
        !(out->kind == KIND_EXEMPLAR ? append_without_marks(out, &g->merged)
                                     : series_points_append(out, &g->merged, 0, g->merged.n)))
        rc = no_memory(err);
    return rc;
}

/* Points of the head that meet no chunk. */
static enum otl_err append_head(struct gather *g, struct read *r, const struct series_points *head,
                                size_t low, size_t high, struct series_points *out,
                                struct otl_error *err)
{
    if (low >= high)
        return OTL_OK;
    if (out->kind == KIND_EXEMPLAR) /* marks have to be applied */
        return gather_group(g, r, NULL, 0, 0, head, low, high, 0, 0, out, err);
    return series_points_append(out, head, low, high - low) ? OTL_OK : no_memory(err);
}

enum otl_err gather_walk(const struct part_refs *refs, size_t first, size_t n,
                         const struct series_points *head,
                         enum otl_err (*visit)(void *arg, size_t first, size_t n, size_t low,
                                               size_t high, struct otl_error *err),
                         void *arg, struct otl_error *err)
{
    size_t at = 0, n_head = head == NULL ? 0 : head->n, end = first + n;
    enum otl_err rc = OTL_OK;

    while (first < end && rc == OTL_OK) {
        const struct chunk_summary *s = refs->refs[first].summary;
        int64_t last = s->max_time;
        size_t next = first + 1, low = at;

        while (next < end && refs->refs[next].summary->min_time <= last) {
            if (refs->refs[next].summary->max_time > last)
                last = refs->refs[next].summary->max_time;
            next++;
        }
        while (low < n_head && head->time[low] < s->min_time)
            low++;
        if (low > at)
            rc = visit(arg, 0, 0, at, low, err);
        at = low;
        while (at < n_head && head->time[at] <= last)
            at++;
        if (rc == OTL_OK)
            rc = visit(arg, first, next - first, low, at, err);
        first = next;
    }
    return rc == OTL_OK && at < n_head ? visit(arg, 0, 0, at, n_head, err) : rc;
}

struct gathering {
    struct gather *g;
    struct read *r;
    struct part_refs *refs;
    const struct series_points *head;
    int64_t from, to;
    struct series_points *out;
    size_t charged; /* of out */
};

static enum otl_err gather_piece(void *arg, size_t first, size_t n, size_t low, size_t high,
                                 struct otl_error *err)
{
    struct gathering *x = arg;
    size_t now;
    enum otl_err rc;

    if (n == 0)
        rc = append_head(x->g, x->r, x->head, low, high, x->out, err);
    else if (n == 1 && low == high && x->out->kind != KIND_EXEMPLAR)
        rc = gather_chunk(x->g, x->r, x->refs, first, x->from, x->to, x->out, err);
    else
        rc = gather_group(x->g, x->r, x->refs, first, n, x->head, low, high, x->from, x->to, x->out,
                          err);
    if (rc != OTL_OK)
        return rc;
    now = read_points_bytes(x->out);
    rc = charge_growth(x->r, x->charged, now, err);
    x->charged = now;
    return rc;
}

enum otl_err gather_points(struct gather *g, struct read *r, struct part_refs *refs, size_t first,
                           size_t n, const struct series_points *head, int64_t from, int64_t to,
                           struct series_points *out, struct otl_error *err)
{
    struct gathering x = {g, r, refs, head, from, to, out, read_points_bytes(out)};

    return gather_walk(refs, first, n, head, gather_piece, &x, err);
}

struct one_series {
    struct read *r;
    struct part_refs *refs;
    int64_t from, to;
    struct series_points *out;
    struct gather gather;
    bool done;
};

static enum otl_err gather_with_head(void *arg, int64_t series_id, const struct series_points *p,
                                     struct otl_error *err)
{
    struct one_series *o = arg;

    (void)series_id;
    o->done = true;
    return gather_points(&o->gather, o->r, o->refs, 0, o->refs->n, p, o->from, o->to, o->out, err);
}

static bool kind_is_valid(int kind)
{
    return kind >= 0 && kind < SERIES_KINDS;
}

enum otl_err read_points(struct read *r, int kind, int64_t series_id, int64_t from, int64_t to,
                         struct series_points *out, struct otl_error *err)
{
    struct part_refs refs = {0};
    struct one_series o = {.r = r, .refs = &refs, .from = from, .to = to, .out = out};
    const struct head_view *view = NULL;
    enum otl_err rc = read_check(r, err);

    if (rc != OTL_OK || from >= to)
        return rc;
    if (!kind_is_valid(kind) || kind != (int)out->kind || kind > (int)KIND_EXEMPLAR)
        return otl_fail(err, OTL_EINTERNAL, "read points: kind %d", kind);
    rc = part_find(r->session->parts, out->kind, 0, &series_id, 1, from, to, &refs, err);
    if (rc == OTL_OK)
        rc = read_head_view(r, out->kind, &view, err);
    if (rc == OTL_OK)
        rc = head_read(r->session->head, view, &series_id, 1, from, to, gather_with_head, &o, err);
    if (rc == OTL_OK && !o.done)
        rc = gather_points(&o.gather, r, &refs, 0, refs.n, NULL, from, to, out, err);
    gather_fini(&o.gather, r);
    part_refs_release(r->session->parts, &refs);
    return rc;
}

/* ---- many series ---- */

enum otl_err ids_of_refs(struct read *r, const struct part_refs *refs, struct series_list *out,
                         struct otl_error *err)
{
    size_t n = 0;

    for (size_t i = 0; i < refs->n; i++)
        n += i == 0 || refs->refs[i].summary->series_id != refs->refs[i - 1].summary->series_id;
    *out = (struct series_list){0};
    if (n == 0)
        return OTL_OK;
    if (read_charge(r, (int64_t)(n * sizeof(*out->ids)), err) != OTL_OK)
        return OTL_ETOOBIG;
    out->ids = malloc(n * sizeof(*out->ids));
    if (out->ids == NULL)
        return no_memory(err);
    out->cap = n;
    for (size_t i = 0; i < refs->n; i++) {
        int64_t id = refs->refs[i].summary->series_id;

        if (out->n == 0 || out->ids[out->n - 1] != id)
            out->ids[out->n++] = id;
    }
    return OTL_OK;
}

static enum otl_err on_head_series(void *arg, int64_t series_id, const struct series_points *p,
                                   struct otl_error *err)
{
    struct series_walk *w = arg;
    enum otl_err rc = OTL_OK;

    while (w->at < w->n && w->ids[w->at] < series_id && rc == OTL_OK) {
        rc = w->visit(w->arg, w->ids[w->at], w->at, NULL, err);
        w->at++;
    }
    if (rc != OTL_OK)
        return rc;
    if (w->at < w->n && w->ids[w->at] == series_id) {
        w->at++;
        return w->visit(w->arg, series_id, w->at - 1, p, err);
    }
    return w->visit(w->arg, series_id, SIZE_MAX, p, err);
}

enum otl_err walk_series(struct series_walk *w, struct read *r, enum series_kind kind,
                         const int64_t *series, size_t n, int64_t from, int64_t to,
                         struct otl_error *err)
{
    const struct head_view *view;
    enum otl_err rc = read_head_view(r, kind, &view, err);

    w->at = 0;
    if (rc == OTL_OK)
        rc = head_read(r->session->head, view, series, n, from, to, on_head_series, w, err);
    while (rc == OTL_OK && w->at < w->n) {
        rc = w->visit(w->arg, w->ids[w->at], w->at, NULL, err);
        w->at++;
    }
    return rc;
}

static enum otl_err begin_round(struct scan *s, size_t round, struct otl_error *err)
{
    size_t first = round * s->round_series, n = s->ids.n - first;

    part_refs_release(s->r->session->parts, &s->refs);
    s->round = round;
    s->at = 0;
    return part_find(s->r->session->parts, s->kind, 0, s->ids.ids + first,
                     n < s->round_series ? n : s->round_series, s->from, s->to, &s->refs, err);
}

static enum otl_err scan_series(void *arg, int64_t id, size_t place,
                                const struct series_points *head, struct otl_error *err)
{
    struct scan *s = arg;
    size_t n = 0, first;
    enum otl_err rc = read_check(s->r, err);

    if (rc == OTL_OK && place != SIZE_MAX && place / s->round_series != s->round)
        rc = begin_round(s, place / s->round_series, err);
    if (rc != OTL_OK)
        return rc;
    if (place != SIZE_MAX) {
        while (s->at < s->refs.n && s->refs.refs[s->at].summary->series_id < id)
            s->at++;
        while (s->at + n < s->refs.n && s->refs.refs[s->at + n].summary->series_id == id)
            n++;
    }
    first = s->at;
    s->at += n;
    return s->each(s, id, first, n, head, err);
}

enum otl_err scan_init(struct scan *s, struct read *r, int kind, const int64_t *series, size_t n,
                       int64_t from, int64_t to, struct otl_error *err)
{
    enum otl_err rc = read_check(r, err);

    *s = (struct scan){.r = r, .from = from, .to = to, .series = series, .n_series = n};
    if (rc == OTL_OK && (!kind_is_valid(kind) || kind > (int)KIND_EXEMPLAR))
        rc = otl_fail(err, OTL_EINTERNAL, "scan points: kind %d", kind);
    if (rc == OTL_OK && r->read_ahead)
        rc = otl_fail(err, OTL_EINTERNAL, "scan points: within a scan that reads ahead");
    if (rc != OTL_OK)
        return rc;
    s->kind = (enum series_kind)kind;
    series_points_init(&s->out, s->kind);
    s->round_series = 1;
    if (from >= to || (series != NULL && n == 0)) {
        s->nothing = true;
        return OTL_OK;
    }
    rc = part_find(r->session->parts, s->kind, 0, series, n, from, to, &s->refs, err);
    if (rc == OTL_OK)
        rc = ids_of_refs(r, &s->refs, &s->ids, err);
    for (size_t i = 0; rc == OTL_OK && i < s->refs.n_blocks; i++)
        s->bytes += part_block_directory(s->refs.blocks[i])->block_bytes;
    s->round_series = s->ids.n / (s->bytes / r->session->shared->round_bytes + 1) + 1;
    if (s->round_series < s->ids.n)
        s->round = SIZE_MAX; /* none of them is at hand */
    return rc;
}

enum otl_err scan_run(struct scan *s, struct otl_error *err)
{
    struct series_walk walk = {.visit = scan_series, .arg = s, .ids = s->ids.ids, .n = s->ids.n};

    if (s->nothing)
        return OTL_OK;
    return walk_series(&walk, s->r, s->kind, s->series, s->n_series, s->from, s->to, err);
}

void scan_close(struct scan *s)
{
    (void)!read_charge(
        s->r, -(int64_t)(read_points_bytes(&s->out) + s->ids.cap * sizeof(*s->ids.ids)), NULL);
    gather_fini(&s->gather, s->r);
    series_points_fini(&s->out);
    part_refs_release(s->r->session->parts, &s->refs);
    series_list_fini(&s->ids);
}

/* ---- points of any kind ---- */

struct emitting {
    struct scan scan; /* first: that is what scan_series knows */
    enum otl_err (*emit)(void *arg, int64_t series_id, const struct series_points *p,
                         struct otl_error *err);
    void *arg;
};

static enum otl_err emit_series(struct scan *s, int64_t id, size_t first, size_t n,
                                const struct series_points *head, struct otl_error *err)
{
    struct emitting *e = (struct emitting *)(void *)s;
    enum otl_err rc;

    series_points_reset(&s->out);
    rc = gather_points(&s->gather, s->r, &s->refs, first, n, head, s->from, s->to, &s->out, err);
    return rc == OTL_OK && s->out.n > 0 ? e->emit(e->arg, id, &s->out, err) : rc;
}

enum otl_err read_scan(struct read *r, int kind, const int64_t *series, size_t n, int64_t from,
                       int64_t to,
                       enum otl_err (*emit)(void *arg, int64_t series_id,
                                            const struct series_points *p, struct otl_error *err),
                       void *arg, struct otl_error *err)
{
    struct emitting e = {.emit = emit, .arg = arg};
    enum otl_err rc = scan_init(&e.scan, r, kind, series, n, from, to, err);

    e.scan.each = emit_series;
    /* Without it all goes on, slower; a few chunks are read before it has been cleared. */
    if (rc == OTL_OK && e.scan.refs.n >= MEMO_CHUNKS)
        e.scan.gather.memo = calloc(1, sizeof(*e.scan.gather.memo));
    if (rc == OTL_OK)
        rc = scan_run(&e.scan, err);
    scan_close(&e.scan);
    return rc;
}
