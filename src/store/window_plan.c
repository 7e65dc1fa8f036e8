/* window_plan.c -- how each series of a query is answered.
 *
 * A chunk that meets no other and lies in one window is answered by its summary, here. What meets
 * other chunks or points of the head is merged and added, here as well: that is rare. Points of the
 * head are added here. All other chunks become items to decode; or, where there are rollups for the
 * day, the rows of the rollups become one.
 *
 * A day's rollups may be used when its raw chunks meet neither each other nor the head (so that no
 * point is counted twice) and hold no NaN (of which rollups know nothing). Whether they stand for
 * all raw points shows when they are decoded: they say for how many. Where they stand for more,
 * raw points were retained for a shorter time, and the rollups are what is left. */
#include <stdlib.h>

#include "window_internal.h"

/* A row of a rollup costs about as much as this many points. */
enum { ROLLUP_ROW_POINTS = 4 };

static int64_t day_of(int64_t time)
{
    return time / PART_DAY_NS - (time % PART_DAY_NS < 0);
}

static enum otl_err add_item(struct windows *w, const struct window_item *item,
                             struct otl_error *err)
{
    if (w->n_items == w->cap_items) {
        size_t cap = w->cap_items == 0 ? 1024 : w->cap_items * 2;
        size_t size = sizeof(*w->items);
        struct window_item *more;

        if (cap > SIZE_MAX / 2 / size)
            return otl_fail(err, OTL_ENOMEM, "windows: no memory");
        if (read_charge(w->r, (int64_t)((cap - w->cap_items) * size), err) != OTL_OK)
            return OTL_ETOOBIG;
        more = realloc(w->items, cap * size);
        if (more == NULL) {
            (void)!read_charge(w->r, -(int64_t)((cap - w->cap_items) * size), NULL);
            return otl_fail(err, OTL_ENOMEM, "windows: no memory");
        }
        w->items = more;
        w->cap_items = cap;
    }
    w->items[w->n_items++] = *item;
    return OTL_OK;
}

static enum otl_err add_edge(struct windows *w, uint32_t series, const struct window_edge *edge,
                             struct otl_error *err)
{
    if (!window_wants_edges(w, series) || edge->first_kind == VALUE_NONE)
        return OTL_OK;
    return add_item(w, &(struct window_item){.type = ITEM_DONE, .series = series, .edge = *edge},
                    err);
}

/* A chunk that meets nothing; of it, what lies in [from, to). */
static enum otl_err plan_chunk(struct windows *w, uint32_t series, size_t ref, int64_t from,
                               int64_t to, struct otl_error *err)
{
    const struct chunk_summary *s = w->raw.refs[ref].summary;
    bool wants_edges = window_wants_edges(w, series);
    int64_t least = wants_edges ? w->look_from : w->grid.from;
    struct window_edge edge = {0};
    bool whole;
    size_t window;

    from = from < least ? least : from;
    to = to > w->grid.to ? w->grid.to : to;
    if (from >= to || s->max_time < from || s->min_time >= to)
        return OTL_OK;
    whole = s->min_time >= from && s->max_time < to;
    if (whole && (!wants_edges || window_edge_of_chunk(s, &edge))) {
        if (s->max_time < w->grid.from) /* looking back */
            return add_edge(w, series, &edge, err);
        if (window_of_chunk(&w->grid, s, &window)) {
            struct window_target t = window_target_of(w, w->sums, series);

            window_add_chunk(&t, window, s);
            w->cost.chunks_by_summary++;
            return add_edge(w, series, &edge, err);
        }
    }
    return add_item(
        w,
        &(struct window_item){
            .type = ITEM_CHUNK, .series = series, .ref = ref, .n = 1, .from = from, .to = to},
        err);
}

static enum otl_err add_head(struct windows *w, uint32_t series, const struct series_points *head,
                             size_t low, size_t high, struct otl_error *err)
{
    struct window_edge edge;

    if (low >= high)
        return OTL_OK;
    window_add_points(w, series, head, low, high - low, &edge);
    return add_edge(w, series, &edge, err);
}

/* Points low to high - 1, borrowed. */
static struct series_points slice(const struct series_points *p, size_t low, size_t high)
{
    struct series_points s = *p;

    s.time += low;
    s.start_time += low;
    s.flags += low;
    s.fields[NUMBER_VALUE].v += low;
    s.fields[NUMBER_VALUE].kind += low;
    s.n = s.cap = high - low;
    return s;
}

/* Chunks and points of the head that meet. */
static enum otl_err add_merged(struct windows *w, uint32_t series, size_t first, size_t n,
                               const struct series_points *head, size_t low, size_t high,
                               struct otl_error *err)
{
    int64_t from = w->q->want_increase ? w->look_from : w->grid.from;
    struct series_points part;
    struct window_edge edge;
    enum otl_err rc;

    if (low < high)
        part = slice(head, low, high);
    series_points_reset(&w->points);
    rc = gather_points(&w->gather, w->r, &w->raw, first, n, low < high ? &part : NULL, from,
                       w->grid.to, &w->points, err);
    if (rc != OTL_OK)
        return rc;
    w->cost.chunks_decoded += n;
    window_add_points(w, series, &w->points, 0, w->points.n, &edge);
    return add_edge(w, series, &edge, err);
}

/* Chunks first to end - 1 and what the head has from *at on up to the last of them. */
static enum otl_err plan_raw(struct windows *w, uint32_t series, size_t first, size_t end,
                             const struct series_points *head, size_t *at, struct otl_error *err)
{
    size_t n_head = head == NULL ? 0 : head->n;
    enum otl_err rc = OTL_OK;

    while (first < end && rc == OTL_OK) {
        const struct chunk_summary *s = w->raw.refs[first].summary;
        int64_t last = s->max_time;
        size_t next = first + 1, low = *at, high;

        while (next < end && w->raw.refs[next].summary->min_time <= last) {
            if (w->raw.refs[next].summary->max_time > last)
                last = w->raw.refs[next].summary->max_time;
            next++;
        }
        while (low < n_head && head->time[low] < s->min_time)
            low++;
        for (high = low; high < n_head && head->time[high] <= last;)
            high++;
        rc = add_head(w, series, head, *at, low, err);
        if (rc == OTL_OK && next == first + 1 && high == low)
            rc = plan_chunk(w, series, first, INT64_MIN, INT64_MAX, err);
        else if (rc == OTL_OK)
            rc = add_merged(w, series, first, next - first, head, low, high, err);
        *at = high;
        first = next;
    }
    return rc;
}

/* ---- days with rollups ---- */

struct day {
    size_t raw, n_raw, rollup, n_rollup;
    uint64_t raw_points;
    bool use;
};

/* Whether the rollups of a day may be used and are worth it. */
static void judge_day(const struct windows *w, struct day *d, const struct series_points *head,
                      size_t at)
{
    uint64_t to_decode = 0, rows = 0;
    int64_t last = INT64_MIN;
    bool meets = false, has_nan = false;

    for (size_t i = d->raw; i < d->raw + d->n_raw; i++) {
        const struct chunk_summary *s = w->raw.refs[i].summary;
        size_t window;

        meets = meets || (i > d->raw && s->min_time <= last);
        last = s->max_time > last ? s->max_time : last;
        has_nan = has_nan || s->n_nan > 0;
        d->raw_points += s->n;
        if (s->max_time >= w->grid.from && s->min_time < w->grid.to &&
            !window_of_chunk(&w->grid, s, &window))
            to_decode += s->n;
    }
    for (size_t i = d->rollup; i < d->rollup + d->n_rollup; i++)
        rows += w->rollup.refs[i].summary->n;
    if (d->n_raw > 0 && head != NULL) {
        while (at < head->n && head->time[at] < w->raw.refs[d->raw].summary->min_time)
            at++;
        meets = meets || (at < head->n && head->time[at] <= last);
    }
    d->use = d->n_rollup > 0 &&
             (d->n_raw == 0 || (!meets && !has_nan && to_decode > rows * ROLLUP_ROW_POINTS));
}

/* The day's whole windows by rollups, and what lies beside them by raw chunks. */
static enum otl_err plan_rollup(struct windows *w, uint32_t series, const struct day *d,
                                const struct series_points *head, size_t *at, struct otl_error *err)
{
    size_t low = *at, end = d->raw + d->n_raw;
    enum otl_err rc = OTL_OK;

    if (d->n_raw > 0 && head != NULL) {
        while (low < head->n && head->time[low] < w->raw.refs[d->raw].summary->min_time)
            low++;
        rc = add_head(w, series, head, *at, low, err);
        *at = low;
    }
    for (size_t i = d->raw; i < end && rc == OTL_OK; i++)
        rc = plan_chunk(w, series, i, INT64_MIN, w->rollup_from, err);
    if (rc == OTL_OK)
        rc = add_item(w,
                      &(struct window_item){.type = ITEM_ROLLUP,
                                            .series = series,
                                            .ref = d->rollup,
                                            .n = d->n_rollup,
                                            .raw = d->raw,
                                            .n_raw = d->n_raw,
                                            .raw_points = d->raw_points,
                                            .from = w->rollup_from,
                                            .to = w->rollup_to},
                      err);
    for (size_t i = d->raw; i < end && rc == OTL_OK; i++)
        rc = plan_chunk(w, series, i, w->rollup_to, INT64_MAX, err);
    return rc;
}

/* ---- a series ---- */

static int64_t ref_day(const struct part_refs *refs, size_t i)
{
    return day_of(refs->refs[i].summary->min_time);
}

static bool is_of(const struct part_refs *refs, size_t i, int64_t series_id)
{
    return i < refs->n && refs->refs[i].summary->series_id == series_id;
}

enum otl_err window_plan_series(void *arg, int64_t series_id, size_t place,
                                const struct series_points *head, struct otl_error *err)
{
    struct windows *w = arg;
    uint32_t series = (uint32_t)(w->first_series + place);
    size_t i = w->raw_at, j = w->rollup_at, at = 0;
    enum otl_err rc = OTL_OK;

    if (place == SIZE_MAX) /* the head was asked for the query's series only */
        return otl_fail(err, OTL_EINTERNAL, "windows: the head gave another series");
    if (place % 256 == 0 || head != NULL)
        rc = read_check(w->r, err);
    while (rc == OTL_OK && (is_of(&w->raw, i, series_id) || is_of(&w->rollup, j, series_id))) {
        bool has_raw = is_of(&w->raw, i, series_id), has_rollup = is_of(&w->rollup, j, series_id);
        int64_t raw_day = has_raw ? ref_day(&w->raw, i) : INT64_MAX;
        int64_t rollup_day = has_rollup ? ref_day(&w->rollup, j) : INT64_MAX;
        int64_t day = raw_day < rollup_day ? raw_day : rollup_day;
        struct day d = {.raw = i, .rollup = j};

        while (is_of(&w->raw, i, series_id) && ref_day(&w->raw, i) == day)
            i++;
        while (is_of(&w->rollup, j, series_id) && ref_day(&w->rollup, j) == day)
            j++;
        d.n_raw = i - d.raw;
        d.n_rollup = j - d.rollup;
        if (d.n_rollup > 0)
            judge_day(w, &d, head, at);
        rc = d.use ? plan_rollup(w, series, &d, head, &at, err)
                   : plan_raw(w, series, d.raw, i, head, &at, err);
    }
    w->raw_at = i;
    w->rollup_at = j;
    if (rc == OTL_OK && head != NULL)
        rc = add_head(w, series, head, at, head->n, err);
    if (head != NULL)
        w->cost.head_points += head->n - window_lower_bound(head->time, head->n, w->grid.from);
    return rc;
}
