/* window.c -- read_windows: its rounds, and the growth from one piece of a series to the next. */
#include <stdlib.h>

#include "otlite/clock.h"
#include "rollup.h"
#include "window_internal.h"

static enum otl_err no_memory(struct otl_error *err)
{
    return otl_fail(err, OTL_ENOMEM, "windows: no memory");
}

struct window_target window_target_of(const struct windows *w, struct window_sum *sums,
                                      uint32_t series)
{
    size_t group = w->q->group != NULL ? w->q->group[series] : 0;

    return (struct window_target){
        .grid = &w->grid,
        .windows = sums + group * w->grid.n,
        .series = series,
        .want_increase = w->q->want_increase,
        .delta = w->delta != NULL && w->delta[series],
    };
}

void window_add_points(struct windows *w, uint32_t series, const struct series_points *p,
                       size_t first, size_t n, struct window_edge *edge)
{
    struct window_target t = window_target_of(w, w->sums, series);
    struct window_columns c;
    size_t low, at;

    *edge = (struct window_edge){0};
    if (n == 0)
        return;
    window_columns_of_points(p, first, n, &c);
    low = window_lower_bound(c.time, n, w->look_from);
    at = window_lower_bound(c.time, n, w->grid.from);
    while (at < n) {
        size_t next = n - at > CHUNK_MAX_POINTS ? at + CHUNK_MAX_POINTS : n;
        size_t n_runs = window_runs(&w->grid, c.time, at, next, w->runs);

        window_add_runs(&t, &c, low, w->runs, n_runs);
        at = next;
    }
    window_edge_of_columns(&c, low, n, edge);
}

/* ---- ranges ---- */

/* The last multiple of length not after t, the first not before; beyond the range of int64 its end.
 */
static int64_t floor_to(int64_t t, int64_t length)
{
    int64_t rest = t % length;

    rest = rest < 0 ? rest + length : rest;
    return t < INT64_MIN + rest ? INT64_MIN : t - rest;
}

static int64_t ceil_to(int64_t t, int64_t length)
{
    int64_t rest = t % length;
    int64_t more = rest > 0 ? length - rest : -rest;

    return t > INT64_MAX - more ? INT64_MAX : t + more;
}

/* Resolution in seconds fits the windows: all their boundaries but `to`, and but `from` when there
 * is one window only, are multiples of it. */
static bool fits(const struct windows *w, int seconds)
{
    int64_t length = seconds * NS_PER_S;

    return w->grid.n == 1 || (w->grid.step % (uint64_t)length == 0 && w->grid.from % length == 0);
}

static bool has_rollups(const struct windows *w, int seconds)
{
    size_t n;
    const struct part_info *p = part_reader_parts(w->r->session->parts, &n);

    for (size_t i = 0; i < n; i++) {
        if (p[i].kind == KIND_NUMBER_ROLLUP && p[i].resolution == seconds &&
            p[i].max_time >= w->grid.from && p[i].min_time < w->grid.to)
            return true;
    }
    return false;
}

static void choose_ranges(struct windows *w)
{
    static const int resolutions[] = {ROLLUP_1H, ROLLUP_5M};

    w->find_from = w->q->want_increase ? w->look_from : w->grid.from;
    w->find_to = w->grid.to;
    for (size_t i = 0; i < sizeof(resolutions) / sizeof(resolutions[0]); i++) {
        int64_t length = resolutions[i] * NS_PER_S;
        int64_t from = ceil_to(w->grid.from, length), to = floor_to(w->grid.to, length);

        if (from >= to || !fits(w, resolutions[i]) || !has_rollups(w, resolutions[i]))
            continue;
        w->resolution = resolutions[i];
        w->rollup_from = from;
        w->rollup_to = to;
        /* To know whether rollups stand for all raw points of a day, the whole day is looked at. */
        w->find_from = floor_to(w->find_from, PART_DAY_NS);
        w->find_to = ceil_to(w->find_to, PART_DAY_NS);
        return;
    }
}

static enum otl_err prepare(struct windows *w, struct otl_error *err)
{
    const struct window_query *q = w->q;
    uint64_t span = (uint64_t)q->to - (uint64_t)q->from;
    int64_t back = q->look_back > 0 ? q->look_back : 0;

    if (q->from >= q->to || q->step < 0 || q->n_groups == 0)
        return otl_fail(err, OTL_EBADREQUEST,
                        "windows: the range is empty, the step negative, or there is no group");
    for (size_t i = 0; i < q->n; i++) {
        if ((i > 0 && q->series[i] <= q->series[i - 1]) ||
            (q->group != NULL && q->group[i] >= q->n_groups) || i >= UINT32_MAX)
            return otl_fail(err, OTL_EINTERNAL, "windows: series %zu of the query is out of place",
                            i);
    }
    w->grid = (struct window_grid){.from = q->from, .to = q->to, .step = UINT64_MAX, .n = 1};
    if (q->step > 0 && (uint64_t)q->step < span) {
        w->grid.step = (uint64_t)q->step;
        w->grid.n = (size_t)((span - 1) / w->grid.step + 1);
    }
    w->look_from = q->from < INT64_MIN + back ? INT64_MIN : q->from - back;
    if (w->grid.n > SIZE_MAX / 2 / sizeof(*w->sums) / q->n_groups)
        return otl_fail(err, OTL_ETOOBIG,
                        "windows: %zu of them in %u groups are too many; ask for longer steps",
                        w->grid.n, q->n_groups);
    w->n_sums = w->grid.n * q->n_groups;
    if (read_charge(w->r, (int64_t)(w->n_sums * sizeof(*w->sums)), err) != OTL_OK)
        return OTL_ETOOBIG;
    w->sums = malloc(w->n_sums * sizeof(*w->sums));
    if (w->sums == NULL)
        return no_memory(err);
    window_sums_init(w->sums, w->n_sums);
    choose_ranges(w);
    return OTL_OK;
}

/* Which series are deltas: their increase is their sum. */
static enum otl_err find_deltas(struct windows *w, struct otl_error *err)
{
    struct label_view *labels;
    enum otl_err rc;

    if (!w->q->want_increase || w->q->n == 0)
        return OTL_OK;
    rc = read_charge(w->r, (int64_t)(w->q->n * sizeof(*w->delta)), err);
    if (rc == OTL_OK)
        rc = read_labels(w->r, &labels, err);
    if (rc != OTL_OK)
        return rc;
    w->delta = calloc(w->q->n, sizeof(*w->delta));
    if (w->delta == NULL)
        return no_memory(err);
    for (size_t i = 0; i < w->q->n; i++) {
        struct series_info info;

        w->delta[i] = label_view_series(labels, w->q->series[i], &info) &&
                      info.type == METRIC_SUM && info.temporality == TEMPORALITY_DELTA;
    }
    return OTL_OK;
}

/* ---- a round ---- */

/* Growth from the last value of one item to the first of the next. No item has an edge before
 * look_from. */
static void add_growth(struct windows *w)
{
    const struct window_edge *before = NULL;

    for (size_t i = 0; i < w->n_items; i++) {
        const struct window_item *item = &w->items[i];
        const struct window_edge *e = &item->edge;
        struct window_target t;

        if (i > 0 && item->series != w->items[i - 1].series)
            before = NULL;
        if (e->first_kind == VALUE_NONE || !window_wants_edges(w, item->series))
            continue;
        /* Where rollups are all that is left of a day, late points of the head may lie within. */
        if (before != NULL && before->last_time <= e->first_time && e->first_time >= w->grid.from) {
            t = window_target_of(w, w->sums, item->series);
            t.windows[window_of_time(&w->grid, e->first_time)].increase +=
                window_growth(before->last_kind, before->last, before->last_time, e->first_kind,
                              e->first, e->first_start);
        }
        before = e;
    }
}

static size_t refs_bytes(const struct part_refs *refs)
{
    return refs->cap * sizeof(*refs->refs) + refs->cap_blocks * sizeof(struct part_block *);
}

static void release_refs(struct windows *w)
{
    part_refs_release(w->r->session->parts, &w->raw);
    part_refs_release(w->r->session->parts, &w->rollup);
    (void)!read_charge(w->r, -(int64_t)w->charged_refs, NULL);
    w->charged_refs = 0;
    w->raw_at = w->rollup_at = 0;
}

static enum otl_err find_refs(struct windows *w, size_t first, size_t n, struct otl_error *err)
{
    struct part_reader *parts = w->r->session->parts;
    const int64_t *series = w->q->series + first;
    enum otl_err rc =
        part_find(parts, KIND_NUMBER, 0, series, n, w->find_from, w->find_to, &w->raw, err);

    if (rc == OTL_OK && w->resolution != 0)
        rc = part_find(parts, KIND_NUMBER_ROLLUP, w->resolution, series, n,
                       floor_to(w->grid.from, PART_DAY_NS), w->find_to, &w->rollup, err);
    if (rc != OTL_OK)
        return rc;
    w->charged_refs = refs_bytes(&w->raw) + refs_bytes(&w->rollup);
    rc = read_charge(w->r, (int64_t)w->charged_refs, err);
    if (rc != OTL_OK)
        w->charged_refs = 0;
    return rc;
}

static enum otl_err run_round(struct windows *w, size_t first, size_t n, struct otl_error *err)
{
    struct series_walk walk = {
        .ids = w->q->series + first, .n = n, .visit = window_plan_series, .arg = w};
    enum otl_err rc;

    w->first_series = first;
    w->n_items = 0;
    rc = walk_series(&walk, w->r, KIND_NUMBER, walk.ids, n,
                     w->q->want_increase ? w->look_from : w->grid.from, w->grid.to, err);
    if (rc == OTL_OK)
        rc = window_run_items(w, err);
    if (rc == OTL_OK)
        add_growth(w);
    return rc;
}

static size_t block_bytes(const struct part_refs *refs)
{
    size_t n = 0;

    for (size_t i = 0; i < refs->n_blocks; i++)
        n += part_block_directory(refs->blocks[i])->block_bytes;
    return n;
}

static enum otl_err run_rounds(struct windows *w, struct otl_error *err)
{
    size_t n = w->q->n, a_round;
    enum otl_err rc = OTL_OK;

    if (n == 0)
        return OTL_OK;
    rc = find_refs(w, 0, n, err);
    if (rc != OTL_OK)
        return rc;
    a_round = n / (block_bytes(&w->raw) / w->r->session->shared->round_bytes + 1) + 1;
    if (a_round >= n)
        return run_round(w, 0, n, err);
    for (size_t at = 0; at < n && rc == OTL_OK; at += a_round) {
        size_t left = n - at;

        release_refs(w);
        rc = find_refs(w, at, left < a_round ? left : a_round, err);
        if (rc == OTL_OK)
            rc = run_round(w, at, left < a_round ? left : a_round, err);
    }
    return rc;
}

/* The sums become what the caller gets, in their own memory: each is larger than its result. */
static struct window *finish(struct windows *w)
{
    void *memory = w->sums;

    _Static_assert(sizeof(struct window) <= sizeof(struct window_sum), "done in place");
    if (w->more_sums != NULL)
        window_sums_join(w->sums, w->more_sums, w->n_sums);
    for (size_t i = 0; i < w->n_sums; i++) {
        struct window_sum sum;
        struct window out;

        memcpy(&sum, (char *)memory + i * sizeof(sum), sizeof(sum));
        window_sum_finish(&sum, &out);
        memcpy((char *)memory + i * sizeof(out), &out, sizeof(out));
    }
    w->sums = NULL;
    return memory;
}

enum otl_err read_windows(struct read *r, const struct window_query *q, struct window **out,
                          struct window_cost *cost, struct otl_error *err)
{
    struct windows *w = calloc(1, sizeof(*w));
    int64_t charged = 0;
    enum otl_err rc;

    if (w == NULL)
        return no_memory(err);
    w->r = r;
    w->q = q;
    series_points_init(&w->points, KIND_NUMBER);
    rc = read_check(r, err);
    if (rc == OTL_OK)
        rc = prepare(w, err);
    if (rc == OTL_OK)
        rc = find_deltas(w, err);
    if (rc == OTL_OK)
        rc = run_rounds(w, err);
    if (rc == OTL_OK) {
        w->cost.resolution = w->cost.rollup_chunks > 0 ? w->resolution : 0;
        if (cost != NULL)
            *cost = w->cost;
        *out = finish(w); /* which is smaller than it was */
        charged += (int64_t)(w->n_sums * (sizeof(struct window_sum) - sizeof(struct window)));
    } else if (w->sums != NULL) {
        charged += (int64_t)(w->n_sums * sizeof(*w->sums));
    }
    if (w->more_sums != NULL)
        charged += (int64_t)(w->n_sums * sizeof(*w->more_sums));
    if (w->delta != NULL)
        charged += (int64_t)(q->n * sizeof(*w->delta));
    charged += (int64_t)(w->cap_items * sizeof(*w->items) + read_points_bytes(&w->points));
    release_refs(w);
    gather_fini(&w->gather, r);
    (void)!read_charge(r, -charged, NULL);
    series_points_fini(&w->points);
    free(w->items);
    free(w->more_sums);
    free(w->delta);
    free(w->sums);
    free(w);
    return rc;
}
