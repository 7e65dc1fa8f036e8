/* seal.c -- a closed half of the head becomes parts, one a day, and is emptied.
 *
 * The rows of a closed half do not change, so all of it is read in one snapshot, or in several. Up
 * to SEAL_DAYS days are written at once; points of further days wait for another walk over the
 * half, so that memory has a limit whatever times the senders think it is.
 *
 * For the same reason a half of very many rows, such as that of a file of the earlier schema, is
 * sealed SEAL_ROWS at a time: parts of each, one after the other, so that a later one counts before
 * an earlier one as its rows did. They are published together. */
#include <stdlib.h>
#include <string.h>

#include "maintain_internal.h"
#include "otlite/clock.h"
#include "otlite/stats.h"
#include "rollup.h"

enum {
    SEAL_DAYS = 32,
    SEAL_ROWS = 1 << 21, /* of which 112 bytes each are held at most */
    /* The raw part and its rollups. */
    SEAL_OUTPUTS = 3
};

/* Each a multiple of the one before. */
static const int resolutions[SEAL_OUTPUTS] = {0, ROLLUP_5M, ROLLUP_1H};

struct seal_day {
    int64_t day;
    int n; /* outputs */
    struct part_output outputs[SEAL_OUTPUTS];
};

struct seal {
    struct maintainer *m;
    struct head_half_state half;
    enum series_kind rollup; /* SERIES_KINDS: none is made */
    struct part_batch batch;
    int64_t after_id, max_id; /* rows of the slice */
    /* From slice_days on by day: those of the slice, of this walk and of those before. */
    struct seal_day **days;
    size_t slice_days, n_days, cap_days, open_days;
    bool deferred;                  /* points of other days are left for another walk */
    uint64_t points;                /* sealed so far */
    struct series_points run, rows; /* one day's points of a series, and their rollup */
};

/* ---- days ---- */

/* Place of the slice's first day that is not before `day`. */
static size_t day_place(const struct seal *s, int64_t day)
{
    size_t lo = s->slice_days, hi = s->n_days;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (s->days[mid]->day < day)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static enum otl_err add_day(struct seal *s, size_t at, int64_t day, struct otl_error *err)
{
    struct seal_day *d;
    enum otl_err rc = OTL_OK;

    if (s->n_days == s->cap_days) {
        size_t cap = s->cap_days == 0 ? SEAL_DAYS : 2 * s->cap_days;
        struct seal_day **p = realloc(s->days, cap * sizeof(*p));

        if (p == NULL)
            return otl_fail(err, OTL_ENOMEM, "seal: no memory");
        s->days = p;
        s->cap_days = cap;
    }
    d = calloc(1, sizeof(*d));
    if (d == NULL)
        return otl_fail(err, OTL_ENOMEM, "seal: no memory");
    memmove(&s->days[at + 1], &s->days[at], (s->n_days - at) * sizeof(struct seal_day *));
    s->days[at] = d;
    s->n_days++;
    s->open_days++;
    d->day = day;
    d->n = s->rollup == SERIES_KINDS ? 1 : SEAL_OUTPUTS;
    for (int i = 0; i < d->n && rc == OTL_OK; i++)
        rc = part_output_init(&d->outputs[i], &s->batch, i == 0 ? s->half.kind : s->rollup,
                              resolutions[i], day, 0, err);
    return rc;
}

/* The day to write to; NULL: not in this walk. A day of an earlier walk has no writer any more. */
static enum otl_err open_day(struct seal *s, int64_t day, struct seal_day **out,
                             struct otl_error *err)
{
    size_t at = day_place(s, day);
    enum otl_err rc = OTL_OK;

    *out = NULL;
    if (at == s->n_days || s->days[at]->day != day) {
        if (s->open_days == SEAL_DAYS) {
            s->deferred = true;
            return OTL_OK;
        }
        rc = add_day(s, at, day, err);
    }
    if (rc == OTL_OK && s->days[at]->outputs[0].writer != NULL)
        *out = s->days[at];
    return rc;
}

/* The walk is over: last blocks, and no more of these days. */
static enum otl_err close_days(struct seal *s, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    for (size_t i = 0; i < s->n_days; i++) {
        struct seal_day *d = s->days[i];

        if (d->outputs[0].writer == NULL)
            continue;
        for (int k = 0; k < d->n && rc == OTL_OK; k++)
            rc = part_output_end(&d->outputs[k], err);
        if (rc != OTL_OK)
            return rc;
        for (int k = 0; k < d->n; k++)
            part_output_fini(&d->outputs[k]);
        s->points += d->outputs[0].info.points;
    }
    s->open_days = 0;
    return part_batch_flush(&s->batch, err);
}

/* ---- points ---- */

/* Points first to first + n - 1 of p, all of one day, as rollups. */
static enum otl_err add_rollups(struct seal *s, struct seal_day *d, int64_t series_id,
                                const struct series_points *p, size_t first, size_t n,
                                struct otl_error *err)
{
    bool delta = series_is_delta(s->m, series_id);
    enum otl_err rc = OTL_OK;

    if (n < p->n) {
        series_points_reset(&s->run);
        if (!series_points_append(&s->run, p, first, n))
            return otl_fail(err, OTL_ENOMEM, "seal: no memory");
        p = &s->run;
    }
    for (int i = 1; i < d->n && rc == OTL_OK; i++) {
        if (i > 1 && s->rows.n == 1) {
            /* A single row of the finer windows: all points are in one of these, too. */
            s->rows.time[0] = rollup_window(s->rows.time[0], resolutions[i]);
        } else {
            series_points_reset(&s->rows);
            if (!rollup_add(&s->rows, p, resolutions[i], delta))
                return otl_fail(err, OTL_ENOMEM, "seal: no memory");
        }
        rc = part_output_add(&d->outputs[i], series_id, &s->rows, 0, s->rows.n, err);
    }
    return rc;
}

/* A series' points of the half, in the order of keys. */
static enum otl_err add_series(void *arg, int64_t series_id, const struct series_points *p,
                               struct otl_error *err)
{
    struct seal *s = arg;
    enum otl_err rc = maintain_check(s->m, err);

    if (s->m->n_seen > 0) {
        size_t at = series_place(&s->m->facts, series_id);

        if (at < s->m->n_seen)
            s->m->seen[at] = true;
    }
    for (size_t first = 0, n; first < p->n && rc == OTL_OK; first += n) {
        int64_t day = part_day(p->time[first]);
        size_t end = first + 1;
        struct seal_day *d;

        /* Nearly always all that is left. */
        if (part_day(p->time[p->n - 1]) == day)
            end = p->n;
        while (end < p->n && part_day(p->time[end]) == day)
            end++;
        n = end - first;
        rc = open_day(s, day, &d, err);
        if (rc != OTL_OK || d == NULL)
            continue;
        rc = part_output_add(&d->outputs[0], series_id, p, first, n, err);
        if (rc == OTL_OK && d->n > 1)
            rc = add_rollups(s, d, series_id, p, first, n, err);
    }
    return rc;
}

static void take_slice(const struct seal *s, struct head_view_half *h)
{
    h->after_id = s->after_id;
    if (h->max_id > s->max_id)
        h->max_id = s->max_id;
    if (h->mirrored > h->max_id)
        h->mirrored = (uint32_t)h->max_id;
}

/* Read the slice, all or what other walks left of it. */
static enum otl_err walk(struct seal *s, struct otl_error *err)
{
    struct head_view view, one;
    enum otl_err rc = maintain_begin(s->m, err);

    if (rc != OTL_OK)
        return rc;
    rc = head_view_open(s->m->head, s->half.kind, &view, err);
    if (rc == OTL_OK) {
        one = view;
        one.n = 0;
        for (int i = 0; i < view.n; i++) {
            if (view.halves[i].half == s->half.half && view.halves[i].epoch == s->half.epoch)
                one.halves[one.n++] = view.halves[i];
        }
        take_slice(s, &one.halves[0]);
        rc = one.n == 1
                 ? head_read(s->m->head, &one, NULL, 0, INT64_MIN, INT64_MAX, add_series, s, err)
                 : otl_fail(err, OTL_EINTERNAL, "seal: the closed half is gone");
        head_view_close(&view);
    }
    maintain_end(s->m);
    return rc == OTL_OK ? close_days(s, err) : rc;
}

/* ---- the end ---- */

/* One transaction: the parts count, and the half does not any more (H3, P1). */
static enum otl_err publish(void *arg, struct store *store, struct db *db, struct otl_error *err)
{
    struct seal *s = arg;
    enum otl_err rc = OTL_OK;

    for (size_t i = 0; i < s->n_days && rc == OTL_OK; i++) {
        struct seal_day *d = s->days[i];

        for (int k = 0; k < d->n && rc == OTL_OK; k++) {
            if (d->outputs[k].info.id != 0)
                rc = part_publish(db, &d->outputs[k].info, err);
        }
    }
    if (rc == OTL_OK)
        rc = store_seal(store, (int)s->half.kind, s->half.half, s->half.epoch, err);
    return rc == OTL_OK ? fault_point("seal.publish.commit", err) : rc;
}

static void seal_fini(struct seal *s)
{
    for (size_t i = 0; i < s->n_days; i++) {
        for (int k = 0; k < s->days[i]->n; k++)
            part_output_fini(&s->days[i]->outputs[k]);
        free(s->days[i]);
    }
    free(s->days);
    part_batch_fini(&s->batch);
    series_points_fini(&s->run);
    series_points_fini(&s->rows);
}

static void count_sealed(const struct seal *s, int64_t start_ns)
{
    uint64_t rows = (uint64_t)s->half.rows, bytes = 0;

    for (size_t i = 0; i < s->n_days; i++) {
        for (int k = 0; k < s->days[i]->n; k++)
            bytes += s->days[i]->outputs[k].info.bytes;
    }
    STATS_ADD(halves_sealed, 1);
    STATS_ADD(points_sealed, s->points);
    if (rows > s->points)
        STATS_ADD(points_sealed_over, rows - s->points);
    LOG(LOG_DEBUG, "maintain", "sealed", LOG_S("kind", series_schemas[s->half.kind].name),
        LOG_I("rows", rows), LOG_I("points", s->points), LOG_I("days", s->n_days),
        LOG_I("bytes", bytes), LOG_I("ms", (clock_mono_ns() - start_ns) / NS_PER_MS));
}

static enum otl_err seal_half(struct maintainer *m, const struct head_half_state *half,
                              struct otl_error *err)
{
    struct seal *s = calloc(1, sizeof(*s));
    int64_t start = clock_mono_ns();
    enum otl_err rc;

    if (s == NULL)
        return otl_fail(err, OTL_ENOMEM, "seal: no memory");
    s->m = m;
    s->half = *half;
    s->rollup = m->opts.rollups ? rollup_kind_of(half->kind) : SERIES_KINDS;
    part_batch_init(&s->batch, m, "seal.blocks", "seal.blocks.commit");
    s->batch.hold = true;
    series_points_init(&s->run, half->kind);
    series_points_init(&s->rows, s->rollup == SERIES_KINDS ? half->kind : s->rollup);
    maintain_progress(m, "sealing %lld %s rows", (long long)half->rows,
                      series_schemas[half->kind].name);
    rc = fault_point("seal.begin", err);
    if (rc == OTL_OK && s->rollup != SERIES_KINDS)
        rc = series_facts_refresh(m, err);
    if (rc == OTL_OK)
        m->collect = true; /* what is left when this fails */
    while (rc == OTL_OK && s->after_id < half->rows) {
        s->max_id = half->rows - s->after_id > SEAL_ROWS ? s->after_id + SEAL_ROWS : INT64_MAX;
        do {
            s->deferred = false;
            rc = walk(s, err);
        } while (rc == OTL_OK && s->deferred);
        s->after_id = s->max_id;
        s->slice_days = s->n_days;
    }
    if (rc == OTL_OK)
        rc = fault_point("seal.publish", err);
    if (rc == OTL_OK)
        rc = maintain_task(m, publish, s, err);
    if (rc == OTL_OK)
        count_sealed(s, start);
    seal_fini(s);
    free(s);
    return rc;
}

/* ---- emptying ---- */

/* All rows of a half go at once, which is by far the cheapest: whole pages are freed. But of a half
 * that grew while sealing was behind, or has wide rows, that would take too long, so first its last
 * rows go, some a task. */
enum {
    EMPTY_PAGES = 5000, /* freed at once: about ten milliseconds */
    EMPTY_SLICE_PAGES = 2000,
    EMPTY_SLICE_ROWS = 32768,
    EMPTY_PROBE_ROWS = 256, /* that tell how wide the others are */
    NUMBERS_OF_PAGE = 96    /* about */
};

struct emptying {
    struct head_half_state half; /* rows: what is left */
    int64_t keep, freed;         /* rows, pages of this task */
    int64_t slice_rows, slice_pages;
};

static enum otl_err empty(void *arg, struct store *store, struct db *db, struct otl_error *err)
{
    struct emptying *e = arg;
    int64_t before = 0, after = 0;
    enum otl_err rc = db_query_int(db, "PRAGMA freelist_count", &before, err);

    (void)store;
    if (rc == OTL_OK)
        rc = head_empty(db, e->half.kind, e->half.half, e->keep, err);
    if (rc == OTL_OK)
        rc = db_query_int(db, "PRAGMA freelist_count", &after, err);
    e->freed = after > before ? after - before : 0;
    return rc == OTL_OK ? fault_point("seal.empty.commit", err) : rc;
}

/* How many rows to leave for the next tasks. */
static int64_t rows_to_keep(const struct emptying *e)
{
    double pages_a_row;
    int64_t slice;

    if (e->slice_rows == 0)
        return e->half.rows > EMPTY_PROBE_ROWS ? e->half.rows - EMPTY_PROBE_ROWS : 0;
    pages_a_row = (double)(e->slice_pages + 1) / (double)e->slice_rows;
    if ((double)e->half.rows * pages_a_row <= EMPTY_PAGES)
        return 0;
    slice = (int64_t)(EMPTY_SLICE_PAGES / pages_a_row) + 1;
    if (slice > EMPTY_SLICE_ROWS)
        slice = EMPTY_SLICE_ROWS;
    return e->half.rows > slice ? e->half.rows - slice : 0;
}

static enum otl_err empty_half(struct maintainer *m, const struct head_half_state *half,
                               struct otl_error *err)
{
    struct emptying e = {.half = *half};
    int64_t freed = 0;
    enum otl_err rc = OTL_OK;

    if (half->kind == KIND_NUMBER) {
        e.slice_rows = NUMBERS_OF_PAGE * 100;
        e.slice_pages = 100;
    }
    while (rc == OTL_OK && e.half.rows > 0) {
        e.keep = rows_to_keep(&e);
        rc = fault_point("seal.empty", err);
        if (rc == OTL_OK)
            rc = maintain_task(m, empty, &e, err);
        freed += e.freed;
        e.slice_rows = e.half.rows - e.keep;
        e.slice_pages = e.freed;
        e.half.rows = e.keep;
    }
    if (rc == OTL_OK && freed > m->half_pages)
        m->half_pages = freed;
    return rc;
}

typedef enum otl_err halves_fn(struct db *db, struct head_half_state *out, int *n,
                               struct otl_error *err);

/* In one snapshot: a half that is sealed and empty in one, and open with rows in the next, would
 * look like one to be emptied. */
static enum otl_err list_halves(struct maintainer *m, halves_fn *list, struct head_half_state *out,
                                int *n, struct otl_error *err)
{
    enum otl_err rc = db_exec(&m->db, "BEGIN", err);

    if (rc != OTL_OK)
        return rc;
    rc = list(&m->db, out, n, err);
    maintain_end(m);
    return rc;
}

/* Sealed halves, also those of a process that ended before it came to this. */
static enum otl_err empty_sealed(struct maintainer *m, struct otl_error *err)
{
    struct head_half_state halves[HEAD_KINDS * HEAD_HALVES];
    int n = 0;
    enum otl_err rc = list_halves(m, head_sealed_halves, halves, &n, err);

    for (int i = 0; i < n && rc == OTL_OK; i++)
        rc = empty_half(m, &halves[i], err);
    return rc;
}

enum otl_err seal_closed(struct maintainer *m, struct otl_error *err)
{
    struct head_half_state halves[HEAD_KINDS * HEAD_HALVES];
    int n = 0;
    enum otl_err rc = empty_sealed(m, err);

    if (rc == OTL_OK)
        rc = list_halves(m, head_closed_halves, halves, &n, err);
    for (int i = 0; i < n && rc == OTL_OK; i++) {
        rc = seal_half(m, &halves[i], err);
        if (rc == OTL_OK)
            rc = empty_sealed(m, err);
    }
    return rc;
}
