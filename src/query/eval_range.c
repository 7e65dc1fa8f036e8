/* eval_range.c -- range vectors: the samples of one series at a time, a window (step - range, step]
 * sliding over them, and the function called on each window. Subqueries make such samples by
 * evaluating. */
#include <stdlib.h>

#include "eval_internal.h"

/* Windows between two looks at the deadline and at whether the client is still there: a window may
 * hold thousands of samples that are sorted. */
enum { STEPS_A_CHECK = 16 };

/* Steps of a window that are not too many to be looked at together. */
enum { MOST_SPAN = 100000 };

/* With more windows no chunk of samples lies between two edges of them. */
enum { MOST_DIGESTED = 2000 };

/* What is done with the samples of one series. */
struct range_sink {
    enum otl_err (*take)(struct range_sink *s, struct labels labels, const struct samples *in,
                         struct otl_error *err);
};

/* Samples without stale markers, which are in no window. */
struct compact {
    int64_t *t;
    double *v;
    struct prom_histogram **h; /* borrowed ones */
    uint32_t *weight;
    size_t cap;
};

static void compact_fini(struct compact *c)
{
    free(c->t);
    free(c->v);
    free(c->h);
    free(c->weight);
}

static bool compact_reserve(struct compact *c, size_t n)
{
    int64_t *t;
    double *v;
    struct prom_histogram **h;
    uint32_t *weight;

    if (n <= c->cap)
        return true;
    weight = reallocarray(c->weight, n, sizeof(*weight));
    if (weight == NULL)
        return false;
    c->weight = weight;
    t = reallocarray(c->t, n, sizeof(*t));
    if (t != NULL)
        c->t = t;
    v = reallocarray(c->v, n, sizeof(*v));
    if (v != NULL)
        c->v = v;
    h = reallocarray(c->h, n, sizeof(*h));
    if (h != NULL)
        c->h = h;
    if (t == NULL || v == NULL || h == NULL)
        return false;
    c->cap = n;
    return true;
}

static bool is_marker(const struct samples *in, size_t i)
{
    return prom_is_stale(in->v[i]) && (in->h == NULL || in->h[i] == NULL);
}

/* *out: in itself, or a copy in c without markers. */
static bool without_markers(const struct samples *in, struct compact *c, struct samples *out)
{
    size_t first = 0, n = 0;

    *out = *in;
    while (first < in->n && !is_marker(in, first))
        first++;
    if (first == in->n)
        return true;
    if (!compact_reserve(c, in->n))
        return false;
    for (size_t i = 0; i < in->n; i++) {
        if (is_marker(in, i))
            continue;
        c->t[n] = in->t[i];
        c->v[n] = in->v[i];
        c->h[n] = in->h == NULL ? NULL : in->h[i];
        c->weight[n] = in->weight == NULL ? 1 : in->weight[i];
        n++;
    }
    *out = (struct samples){c->t, c->v, in->h == NULL ? NULL : c->h, n,
                            in->weight == NULL ? NULL : c->weight};
    return true;
}

/* ---- where the samples come from ---- */

static const struct modifiers *modifiers_of(const struct expr *e)
{
    return e->kind == EXPR_SELECTOR ? &e->u.selector.modifiers : &e->u.subquery.modifiers;
}

static int64_t range_of(const struct expr *e)
{
    return e->kind == EXPR_SELECTOR ? e->u.selector.range_ms : e->u.subquery.range_ms;
}

struct from_selector {
    struct eval *v;
    const struct series_set *set;
    struct range_sink *sink;
    struct compact compact;
};

static enum otl_err take_series(void *arg, size_t i, const struct samples *in,
                                struct otl_error *err)
{
    struct from_selector *f = arg;
    struct samples clean;
    enum otl_err rc = read_check(f->v->read, err);

    f->v->stats.samples_read += in->n;
    if (rc != OTL_OK)
        return rc;
    if (f->v->opts->max_samples != 0 && in->n > f->v->opts->max_samples)
        return otl_fail(err, OTL_ETOOBIG,
                        "query processing would load too many samples into memory in query "
                        "execution: more than query.max_samples, %llu, of one series",
                        (unsigned long long)f->v->opts->max_samples);
    if (!without_markers(in, &f->compact, &clean))
        return eval_no_memory(err);
    return clean.n == 0 ? OTL_OK : f->sink->take(f->sink, f->set->labels[i], &clean, err);
}

static int by_time(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* The edges of all windows, malloced, also in d. Without memory, or of too many, there are none. */
static int64_t *find_edges(const struct eval *v, const struct expr *e, struct digest_opts *d)
{
    int64_t *edges;

    if (d->what == DIGEST_NONE || v->steps > MOST_DIGESTED)
        return NULL;
    edges = malloc(2 * v->steps * sizeof(*edges));
    for (size_t i = 0; edges != NULL && i < v->steps; i++) {
        edges[2 * i] = eval_reference(v, &e->u.selector.modifiers, i);
        edges[2 * i + 1] = edges[2 * i] - e->u.selector.range_ms;
    }
    if (edges == NULL)
        return NULL;
    qsort(edges, 2 * v->steps, sizeof(*edges), by_time);
    d->edges = edges;
    d->n_edges = 2 * v->steps;
    return edges;
}

static enum otl_err scan_selector(struct eval *v, const struct expr *e, int64_t from, int64_t to,
                                  enum digest digest, struct range_sink *sink,
                                  struct otl_error *err)
{
    struct from_selector f = {.v = v, .sink = sink};
    struct digest_opts d = {.what = digest};
    int64_t *edges;
    enum otl_err rc = eval_select(v, e, from, to, &f.set, err);

    if (rc == OTL_OK) {
        edges = find_edges(v, e, &d);
        rc = querier_scan(v->querier, f.set, from, to, &d, take_series, &f, err);
        free(edges);
    }
    compact_fini(&f.compact);
    return rc;
}

/* Steps of a subquery are multiples of its step since 1970; the first one is behind `after`. */
static int64_t first_step(int64_t after, int64_t step)
{
    int64_t k = after / step;

    if (after % step != 0 && after < 0)
        k--; /* division rounds towards zero */
    return (k + 1) * step;
}

static enum otl_err give_rows(struct eval *inner, struct prom_value *rows, struct range_sink *sink,
                              struct otl_error *err)
{
    struct compact c = {0};
    enum otl_err rc = OTL_OK;

    if (!compact_reserve(&c, inner->steps))
        rc = eval_no_memory(err);
    for (size_t r = 0; r < rows->n_rows && rc == OTL_OK; r++) {
        const struct prom_row *row = &rows->rows[r];
        struct samples s;
        size_t n = 0;

        for (size_t i = 0; i < row->n; i++) {
            struct sample x = eval_sample(row, i);

            if (sample_is_absent(&x))
                continue;
            c.t[n] = eval_time(inner, i);
            c.v[n] = x.v;
            c.h[n++] = x.h;
        }
        s = (struct samples){c.t, c.v, row->h == NULL ? NULL : c.h, n, NULL};
        rc = read_check(inner->read, err);
        if (rc == OTL_OK && n > 0)
            rc = sink->take(sink, row->labels, &s, err);
    }
    compact_fini(&c);
    return rc;
}

static enum otl_err scan_subquery(struct eval *v, const struct expr *e, int64_t after, int64_t to,
                                  struct range_sink *sink, struct otl_error *err)
{
    struct eval_opts opts = *v->opts;
    struct eval inner = *v;
    struct prom_value rows = {.type = PROM_VECTOR};
    int64_t step = e->u.subquery.step_ms > 0 ? e->u.subquery.step_ms : opts.subquery_step_ms;
    enum otl_err rc;

    opts.start_ms = first_step(after, step);
    opts.end_ms = to;
    opts.step_ms = step;
    if (opts.start_ms > to)
        return OTL_OK;
    inner.opts = &opts;
    inner.steps = (size_t)((to - opts.start_ms) / step) + 1;
    rc = eval_whole(&inner, e->u.subquery.of, &rows, err);
    v->infos = inner.infos;
    v->warnings = inner.warnings;
    v->stats = inner.stats;
    v->held = inner.held;
    if (rc == OTL_OK)
        rc = give_rows(&inner, &rows, sink, err);
    eval_free(v, &rows);
    return rc;
}

/* digest: what is enough for whoever takes them. */
static enum otl_err scan(struct eval *v, const struct expr *e, enum digest digest,
                         struct range_sink *sink, struct otl_error *err)
{
    const struct modifiers *m = modifiers_of(e);
    int64_t after = eval_reference(v, m, 0) - range_of(e);
    int64_t to = eval_reference(v, m, v->steps - 1);

    return e->kind == EXPR_SELECTOR ? scan_selector(v, e, after + 1, to, digest, sink, err)
                                    : scan_subquery(v, e, after, to, sink, err);
}

/* ---- windows ---- */

/* The window of a step: [lo, hi) of the samples; steps come in order. */
struct slide {
    size_t lo, hi;
    size_t lo_stride, hi_stride; /* how far they went last: mostly as far as they go next */
};

/* Moves *at on to the first of n times that is behind limit. */
static void advance(size_t *at, size_t *stride, const int64_t *t, size_t n, int64_t limit)
{
    const size_t from = *at;
    size_t i = from;

    if (*stride <= n - from && *stride > 0 && t[from + *stride - 1] <= limit)
        i += *stride;
    while (i < n && t[i] <= limit)
        i++;
    *stride = i - from;
    *at = i;
}

static bool slide_to(struct slide *s, const struct samples *in, int64_t start, int64_t end)
{
    advance(&s->hi, &s->hi_stride, in->t, in->n, end);
    advance(&s->lo, &s->lo_stride, in->t, s->hi, start);
    return s->lo < s->hi;
}

struct calling {
    struct range_sink sink;
    struct eval *v;
    const struct expr *range;
    struct row_sink *to;
    struct function_call call;
    double *const *scalars;
    double *at;
    bool same_everywhere;       /* @ fixes the window, and nothing else depends on the step */
    struct range_memory memory; /* index: cap_memory of them */
    size_t cap_memory;
    double *scratch; /* of range_folded, with its edges behind; NULL until the first one */
    size_t charged;  /* of it */
};

/* Memory for the windows of a series of n floats. NULL: it would not pay, or there is none; the
 * function does without. */
static struct range_memory *remember(struct calling *c, const struct samples *in)
{
    if (!c->call.expr->u.call.function->remembers || in->h != NULL || in->n >= UINT32_MAX ||
        c->v->steps < 2 || range_of(c->range) < 2 * c->v->opts->step_ms)
        return NULL;
    if (in->n > c->cap_memory) {
        free(c->memory.index);
        c->cap_memory = 0;
        c->memory.index = malloc(in->n * sizeof(*c->memory.index));
        if (c->memory.index == NULL)
            return NULL;
        c->cap_memory = in->n;
    }
    c->memory = (struct range_memory){.index = c->memory.index};
    return &c->memory;
}

/* Do windows share their edges? Then how many steps each is long. */
static size_t fold_span(const struct calling *c)
{
    const struct eval *v = c->v;
    const int64_t range = range_of(c->range), step = v->opts->step_ms;

    if (c->call.expr->u.call.function->folded == NULL || v->steps < 2 || c->call.n_scalars > 0 ||
        modifiers_of(c->range)->at != AT_NONE || range % step != 0 || range / step > MOST_SPAN)
        return 0;
    return (size_t)(range / step);
}

/* Room for the edges and the scratch; NULL: there is none. */
static double *fold_scratch(struct calling *c, size_t edges)
{
    const size_t bytes = edges * (4 * sizeof(double) + sizeof(uint32_t));

    if (c->scratch == NULL && read_charge(c->v->read, (int64_t)bytes, NULL) == OTL_OK) {
        c->charged = bytes;
        c->scratch = malloc(bytes);
    }
    return c->scratch;
}

/* All windows of a series at once. False: one by one, then. */
static bool fold(struct calling *c, const struct samples *in, struct prom_row *row)
{
    const struct eval *v = c->v;
    const size_t span = fold_span(c), n = v->steps + span;
    struct range_folded w = {.t = in->t, .v = in->v, .n = in->n, .steps = v->steps, .span = span};
    uint32_t *edges;
    size_t at = 0, stride = 0;

    if (span == 0 || in->h != NULL || in->weight != NULL || in->n >= UINT32_MAX ||
        fold_scratch(c, n) == NULL)
        return false;
    w.range = range_of(c->range);
    w.step = v->opts->step_ms;
    w.start = eval_reference(v, modifiers_of(c->range), 0) - w.range;
    w.scratch = c->scratch;
    edges = (uint32_t *)(void *)(c->scratch + 4 * n);
    for (size_t i = 0; i < n; i++) {
        advance(&at, &stride, in->t, in->n, w.start + (int64_t)i * w.step);
        edges[i] = (uint32_t)at;
    }
    w.edges = edges;
    return c->call.expr->u.call.function->folded(&w, row->v);
}

static enum otl_err call_series(struct range_sink *sink, struct labels labels,
                                const struct samples *in, struct otl_error *err)
{
    struct calling *c = (struct calling *)(void *)sink;
    const struct function *f = c->call.expr->u.call.function;
    const struct modifiers *m = modifiers_of(c->range);
    struct eval *v = c->v;
    struct prom_row row = {0};
    struct slide slide = {0};
    struct labels shown = labels;
    int64_t range = range_of(c->range);
    struct range_memory *memory = remember(c, in);
    bool folded;
    enum otl_err rc = OTL_OK;

    c->call.labels = labels;
    if (!f->keeps_name)
        rc = eval_drop_name(v, labels, &shown, err);
    if (rc == OTL_OK)
        rc = eval_new_row(v, shown, &row, err);
    folded = rc == OTL_OK && fold(c, in, &row);
    for (size_t i = 0; !folded && i < v->steps && rc == OTL_OK; i++) {
        int64_t end = eval_reference(v, m, i);
        struct sample made = {prom_stale(), NULL};
        struct range_window w = {.start = end - range, .end = end, .memory = memory};

        if (i % STEPS_A_CHECK == STEPS_A_CHECK - 1)
            rc = read_check(v->read, err);
        if (rc != OTL_OK)
            break;
        if (c->same_everywhere && i > 0) {
            rc = eval_put_copy(v, &row, i, eval_sample(&row, 0), err);
            continue;
        }
        if (!slide_to(&slide, in, w.start, w.end))
            continue;
        w.t = in->t + slide.lo;
        w.v = in->v + slide.lo;
        w.h = in->h == NULL ? NULL : in->h + slide.lo;
        w.weight = in->weight == NULL ? NULL : in->weight + slide.lo;
        w.n = slide.hi - slide.lo;
        if (memory != NULL)
            memory->first = slide.lo;
        for (size_t k = 0; k < c->call.n_scalars; k++)
            c->at[k] = c->scalars[k][i];
        c->call.time = eval_time(v, i);
        rc = f->range(&c->call, &w, &made, err);
        if (rc == OTL_OK)
            rc = eval_put(v, &row, i, made, err);
    }
    if (rc == OTL_OK && !eval_row_is_empty(&row)) {
        if (f->after != NULL)
            rc = f->after(&c->call, &row, err);
        if (rc == OTL_OK)
            rc = c->to->take(c->to, &row, err);
    }
    eval_free_row(v, &row);
    return rc;
}

enum otl_err eval_range_call(struct eval *v, const struct expr *e, struct row_sink *sink,
                             struct otl_error *err)
{
    double *scalars[FUNCTION_MAX_ARGS] = {NULL}, at[FUNCTION_MAX_ARGS];
    struct calling c = {.sink = {call_series}, .v = v, .to = sink, .scalars = scalars, .at = at};
    size_t n = 0;
    enum otl_err rc = OTL_OK;

    for (size_t i = 0; i < e->u.call.n_args && rc == OTL_OK; i++) {
        if (e->u.call.args[i]->type == PROM_MATRIX)
            c.range = eval_unwrap(e->u.call.args[i]);
        else if (n < FUNCTION_MAX_ARGS)
            rc = eval_scalar(v, e->u.call.args[i], &scalars[n++], err);
    }
    c.call = (struct function_call){.eval = v, .expr = e, .scalars = at, .n_scalars = n};
    if (rc == OTL_OK && c.range == NULL)
        rc = otl_fail(err, OTL_EINTERNAL, "%s has no range", e->u.call.function->name);
    if (rc == OTL_OK) {
        c.same_everywhere = modifiers_of(c.range)->at != AT_NONE && n == 0;
        rc = scan(v, c.range, e->u.call.function->digest, &c.sink, err);
    }
    free(c.memory.index);
    free(c.scratch);
    /* Giving back cannot fail. */
    (void)!read_charge(v->read, -(int64_t)c.charged, NULL);
    for (size_t i = 0; i < n; i++)
        eval_free_scalar(v, scalars[i]);
    return rc;
}

/* ---- presence, and range vectors as they are ---- */

struct making {
    struct range_sink sink;
    struct eval *v;
    const struct expr *range;
    struct prom_value *out;
};

static enum otl_err mark_series(struct range_sink *sink, struct labels labels,
                                const struct samples *in, struct otl_error *err)
{
    struct making *m = (struct making *)(void *)sink;
    struct slide slide = {0};
    struct prom_row *row = eval_add_row(m->v, m->out, labels, err);

    if (row == NULL)
        return err->code;
    for (size_t i = 0; i < m->v->steps; i++) {
        int64_t end = eval_reference(m->v, modifiers_of(m->range), i);

        if (modifiers_of(m->range)->at != AT_NONE)
            slide = (struct slide){0};
        if (slide_to(&slide, in, end - range_of(m->range), end))
            row->v[i] = 1;
    }
    return OTL_OK;
}

enum otl_err eval_presence(struct eval *v, const struct expr *range, struct prom_value *out,
                           struct otl_error *err)
{
    struct making m = {.sink = {mark_series}, .v = v, .range = range, .out = out};

    out->type = PROM_MATRIX;
    return scan(v, range, DIGEST_LAST, &m.sink, err);
}

static enum otl_err keep_series(struct range_sink *sink, struct labels labels,
                                const struct samples *in, struct otl_error *err)
{
    struct making *m = (struct making *)(void *)sink;
    struct prom_row row = {.labels = labels, .n = in->n};
    enum otl_err rc = eval_hold(m->v, in->n, err);

    if (rc == OTL_OK)
        rc = read_charge(m->v->read, (int64_t)(in->n * sizeof(*row.t)), err);
    row.t = malloc(in->n * sizeof(*row.t));
    row.v = malloc(in->n * sizeof(*row.v));
    if (rc == OTL_OK && (row.t == NULL || row.v == NULL))
        rc = eval_no_memory(err);
    if (rc == OTL_OK) {
        memcpy(row.t, in->t, in->n * sizeof(*row.t));
        memcpy(row.v, in->v, in->n * sizeof(*row.v));
    }
    for (size_t i = 0; i < in->n && rc == OTL_OK && in->h != NULL; i++) {
        if (in->h[i] == NULL)
            continue;
        row.v[i] = prom_stale();
        rc = eval_put_copy(m->v, &row, i, (struct sample){prom_stale(), in->h[i]}, err);
    }
    if (rc == OTL_OK)
        rc = prom_value_move_row(m->v, m->out, &row, err);
    eval_free_row(m->v, &row);
    return rc;
}

enum otl_err eval_matrix(struct eval *v, const struct expr *e, struct prom_value *out,
                         struct otl_error *err)
{
    struct making m = {.sink = {keep_series}, .v = v, .range = e, .out = out};
    enum otl_err rc;

    if (v->steps != 1)
        return otl_fail(err, OTL_EBADREQUEST,
                        "invalid expression type \"range vector\" for range query, must be Scalar "
                        "or instant Vector");
    out->type = PROM_MATRIX;
    rc = scan(v, e, DIGEST_NONE, &m.sink, err);
    return rc == OTL_OK ? eval_sort_rows(v, out, err) : rc;
}
