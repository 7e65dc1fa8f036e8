/* head_read.c -- the head's points as one snapshot has them, from the mirror as far as it goes and
 * from the tables beyond.
 *
 * A view has at most four runs of rows, oldest first: of each half the mirrored rows, and those
 * after them. For each run the rows that are asked for are noted in the order of (series, arrival);
 * a merge of these lists then gives series by series all rows in the order of arrival, so that of
 * one key the last one counts (H2). */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "head_table.h"
#include "mirror.h"
#include "otlite/clock.h"
#include "otlite/log.h"
#include "otlite/stats.h"

enum {
    MAX_RUNS = 2 * HEAD_HALVES,
    /* Series ids that a bitmap of what is wanted may span: 8 MiB. */
    MAX_BITMAP = 1 << 26,
    /* Following the chains of series costs a cache miss a row, reading all rows a few ns each:
     * chains where at most one series in so many is wanted, or no more than FEW. */
    CHAIN_SHARE = 8,
    FEW = 8,
    /* Rows of a half that a mirror of the reader's own holds at most: 160 MiB. */
    KEEP_ROWS = 1 << 22,
    SORT_BITS = 16
};

struct head_statements_of {
    struct sqlite3_stmt *last_id, *tail, *fetch;
};

struct head_reader {
    struct db *db;
    struct head_mirror *mirror;
    struct sqlite3_stmt *states;
    struct head_statements_of tables[HEAD_KINDS][HEAD_HALVES];
    struct series_points points, merged;               /* scratch of head_read */
    bool keeps;                                        /* mirror is its own */
    struct mirror_half *kept[HEAD_KINDS][HEAD_HALVES]; /* borrowed from it; NULL: none */
};

/* ---- a connection's statements ---- */

/* The cells of series_points_add_row. */
static const char *const fetch_columns[HEAD_KINDS] = {
    [KIND_NUMBER] = "time, start_time, flags, value",
    [KIND_HISTOGRAM] = "time, start_time, flags, count, sum, min, max, bounds_id, bucket_counts",
    [KIND_EXPONENTIAL] =
        ("time, start_time, flags, count, sum, min, max, scale, zero_count,"
         " zero_threshold, positive_offset, positive_counts, negative_offset, negative_counts"),
    [KIND_SUMMARY] = "time, start_time, flags, count, sum, quantiles",
    [KIND_EXEMPLAR] = "point_time, point_start_time, time, value, trace_id, span_id, identity",
};

static enum otl_err prepare(struct head_reader *r, int kind, int half, struct otl_error *err)
{
    const char *table = head_table_name((enum series_kind)kind, half);
    struct head_statements_of *st = &r->tables[kind][half];
    char sql[320];
    enum otl_err rc = OTL_OK;

    if (st->fetch != NULL)
        return OTL_OK;
    if (st->last_id == NULL) {
        (void)snprintf(sql, sizeof(sql), "SELECT coalesce(max(id), 0) FROM %s", table);
        rc = db_prepare(r->db, sql, &st->last_id, err);
    }
    if (rc == OTL_OK && st->tail == NULL) {
        (void)snprintf(sql, sizeof(sql), "SELECT %s FROM %s WHERE id > ? AND id <= ? ORDER BY id",
                       head_scan_columns[kind], table);
        rc = db_prepare(r->db, sql, &st->tail, err);
    }
    if (rc == OTL_OK) {
        (void)snprintf(sql, sizeof(sql), "SELECT %s FROM %s WHERE id = ?", fetch_columns[kind],
                       table);
        rc = db_prepare(r->db, sql, &st->fetch, err);
    }
    return rc;
}

enum otl_err head_reader_open(struct db *db, struct head_mirror *mirror, struct head_reader **out,
                              struct otl_error *err)
{
    struct head_reader *r = calloc(1, sizeof(*r));
    enum otl_err rc;

    if (r == NULL)
        return otl_fail(err, OTL_ENOMEM, "read the head: no memory");
    r->db = db;
    r->mirror = mirror;
    rc = db_prepare(db, HEAD_STATES_SQL, &r->states, err);
    if (rc == OTL_OK)
        *out = r;
    else
        head_reader_close(r);
    return rc;
}

enum otl_err head_reader_keep(struct head_reader *r, struct otl_error *err)
{
    r->mirror = head_mirror_new();
    if (r->mirror == NULL)
        return otl_fail(err, OTL_ENOMEM, "read the head: no memory");
    r->keeps = true;
    return OTL_OK;
}

void head_reader_close(struct head_reader *r)
{
    if (r == NULL)
        return;
    if (r->keeps)
        head_mirror_free(r->mirror);
    (void)sqlite3_finalize(r->states);
    for (int k = 0; k < HEAD_KINDS; k++) {
        for (int h = 0; h < HEAD_HALVES; h++) {
            (void)sqlite3_finalize(r->tables[k][h].last_id);
            (void)sqlite3_finalize(r->tables[k][h].tail);
            (void)sqlite3_finalize(r->tables[k][h].fetch);
        }
    }
    series_points_fini(&r->points);
    series_points_fini(&r->merged);
    free(r);
}

/* ---- views ---- */

static enum otl_err last_id(struct head_reader *r, int kind, int half, int64_t *out,
                            struct otl_error *err)
{
    struct sqlite3_stmt *st = r->tables[kind][half].last_id;
    enum otl_err rc = OTL_OK;
    int step = sqlite3_step(st);

    if (step == SQLITE_ROW)
        *out = sqlite3_column_int64(st, 0);
    else
        rc = db_fail(r->db, step, "read the head", err);
    (void)sqlite3_reset(st);
    return rc;
}

/* Rows that the reader's own mirror lacks of a half, up to max_id. What it cannot hold is read from
 * the table each time. */
static enum otl_err extend_kept(struct head_reader *r, enum series_kind kind,
                                const struct head_view_half *h, struct otl_error *err)
{
    struct sqlite3_stmt *st = r->tables[kind][h->half].tail;
    struct mirror_half *m = r->kept[kind][h->half];
    enum otl_err rc = OTL_OK;
    int step;

    if (m == NULL || m->epoch != h->epoch)
        m = r->kept[kind][h->half] = head_mirror_begin(r->mirror, kind, h->half, h->epoch);
    if (m == NULL || m->ended || m->staged >= h->max_id || m->staged >= KEEP_ROWS)
        return OTL_OK;
    step = sqlite3_bind_int64(st, 1, m->staged);
    if (step == SQLITE_OK)
        step = sqlite3_bind_int64(st, 2, h->max_id < KEEP_ROWS ? h->max_id : KEEP_ROWS);
    if (step != SQLITE_OK)
        return db_fail(r->db, step, "read the head", err);
    while ((step = sqlite3_step(st)) == SQLITE_ROW) {
        struct mirror_row *row = mirror_half_stage(m, sqlite3_column_int64(st, SCAN_ID));

        if (row == NULL)
            break;
        head_scan_row(st, kind, row);
    }
    if (step != SQLITE_ROW && step != SQLITE_DONE)
        rc = db_fail(r->db, step, "read the head", err);
    (void)sqlite3_reset(st);
    /* What was read is right, whatever ended it. */
    mirror_half_publish(m);
    return rc;
}

static enum otl_err add_half(struct head_reader *r, struct head_view *v, int half, int64_t epoch,
                             struct otl_error *err)
{
    struct head_view_half *h = &v->halves[v->n];
    enum otl_err rc = prepare(r, (int)v->kind, half, err);

    *h = (struct head_view_half){.half = half, .epoch = epoch};
    if (rc == OTL_OK)
        rc = last_id(r, (int)v->kind, half, &h->max_id, err);
    if (rc != OTL_OK || h->max_id <= 0)
        return rc;
    if (r->keeps)
        rc = extend_kept(r, v->kind, h, err);
    if (rc != OTL_OK)
        return rc;
    if (r->mirror != NULL)
        h->mirror = head_mirror_get(r->mirror, v->kind, half, epoch);
    if (h->mirror != NULL) {
        h->mirrored = mirror_half_rows(h->mirror);
        if (h->mirrored > h->max_id)
            h->mirrored = (uint32_t)h->max_id;
    }
    v->n++;
    return OTL_OK;
}

enum otl_err head_view_open(struct head_reader *r, enum series_kind kind, struct head_view *out,
                            struct otl_error *err)
{
    struct head_state states[HEAD_KINDS][HEAD_HALVES];
    enum otl_err rc = head_states(r->db, r->states, states, err);
    int older;

    *out = (struct head_view){.kind = kind};
    if (rc != OTL_OK)
        return rc;
    older = states[kind][0].epoch < states[kind][1].epoch ? 0 : 1;
    for (int i = 0; i < HEAD_HALVES && rc == OTL_OK; i++) {
        int half = i == 0 ? older : 1 - older;

        if (states[kind][half].state != HEAD_SEALED)
            rc = add_half(r, out, half, states[kind][half].epoch, err);
    }
    if (rc != OTL_OK)
        head_view_close(out);
    return rc;
}

void head_view_close(struct head_view *v)
{
    for (int i = 0; i < v->n; i++)
        mirror_half_put(v->halves[i].mirror);
    v->n = 0;
}

/* ---- what is asked for ---- */

struct wanted {
    const int64_t *series; /* NULL: all */
    size_t n;
    int64_t from, to;
    uint64_t *bitmap; /* of ids from series[0] on; NULL: searched by halves */
};

static void make_bitmap(struct wanted *w)
{
    int64_t span;

    /* Where there are few, searching is as quick. */
    if (w->n < 16 || w->series[0] < 0)
        return;
    span = w->series[w->n - 1] - w->series[0];
    if (span >= MAX_BITMAP)
        return;
    w->bitmap = calloc((size_t)span / 64 + 1, sizeof(*w->bitmap));
    for (size_t i = 0; w->bitmap != NULL && i < w->n; i++) {
        uint64_t bit = (uint64_t)(w->series[i] - w->series[0]);

        w->bitmap[bit / 64] |= UINT64_C(1) << bit % 64;
    }
}

static bool is_wanted_series(const struct wanted *w, int64_t id)
{
    size_t lo = 0, hi = w->n;

    if (w->series == NULL)
        return true;
    if (w->n == 0 || id < w->series[0] || id > w->series[w->n - 1])
        return false;
    if (w->bitmap != NULL) {
        uint64_t bit = (uint64_t)(id - w->series[0]);

        return (w->bitmap[bit / 64] >> bit % 64 & 1) != 0;
    }
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (w->series[mid] < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return w->series[lo] == id;
}

/* No time is beyond INT64_MAX: as an end it is none. */
static bool is_in_range(const struct wanted *w, const struct mirror_row *row)
{
    return row->time >= w->from && (row->time < w->to || w->to == INT64_MAX);
}

static bool is_wanted(const struct wanted *w, const struct mirror_row *row)
{
    return is_in_range(w, row) && row->series != 0 && is_wanted_series(w, row->series);
}

/* ---- runs ---- */

struct run {
    const struct head_view_half *half;
    bool mirrored;
    struct mirror_row *own; /* not mirrored: what is wanted of the table, with its ids */
    int64_t *ids;
    size_t n_own, cap_own;
    uint64_t *order; /* series << 32 | row, of what is wanted, ascending */
    size_t n, cap, at;
};

static void run_fini(struct run *run)
{
    free(run->own);
    free(run->ids);
    free(run->order);
}

static enum otl_err no_memory(struct otl_error *err)
{
    return otl_fail(err, OTL_ENOMEM, "read the head: no memory");
}

static bool note(struct run *run, uint32_t series, uint32_t row)
{
    if (run->n == run->cap) {
        size_t cap = run->cap == 0 ? 256 : run->cap * 2;
        uint64_t *p = realloc(run->order, cap * sizeof(*p));

        if (p == NULL)
            return false;
        run->order = p;
        run->cap = cap;
    }
    run->order[run->n++] = (uint64_t)series << 32 | row;
    return true;
}

/* By series; rows of one keep their order. */
static bool sort_order(struct run *run)
{
    uint64_t *from = run->order, *to, max = 0;
    uint32_t *ends;
    bool sorted = true;

    for (size_t i = 0; i < run->n; i++) {
        max = from[i] > max ? from[i] : max;
        sorted = sorted && (i == 0 || from[i - 1] <= from[i]);
    }
    if (sorted)
        return true;
    to = malloc(run->n * sizeof(*to));
    ends = malloc(((size_t)1 << SORT_BITS) * sizeof(*ends));
    if (to == NULL || ends == NULL) {
        free(to);
        free(ends);
        return false;
    }
    for (int shift = 32; shift < 64 && max >> shift != 0; shift += SORT_BITS) {
        const uint64_t mask = (1 << SORT_BITS) - 1;
        uint64_t *swap = from;
        uint32_t sum = 0;

        memset(ends, 0, ((size_t)1 << SORT_BITS) * sizeof(*ends));
        for (size_t i = 0; i < run->n; i++)
            ends[from[i] >> shift & mask]++;
        for (uint64_t d = 0; d <= mask; d++) {
            uint32_t n = ends[d];

            ends[d] = sum;
            sum += n;
        }
        for (size_t i = 0; i < run->n; i++)
            to[ends[from[i] >> shift & mask]++] = from[i];
        from = to;
        to = swap;
    }
    run->order = from;
    run->cap = run->n;
    free(to);
    free(ends);
    return true;
}

/* The rows of the mirror, by the chains of few series. */
static bool follow_chains(struct run *run, const struct wanted *w)
{
    const struct mirror_half *m = run->half->mirror;

    for (size_t k = 0; k < w->n; k++) {
        size_t first = run->n;

        if (w->series[k] <= 0 || w->series[k] > UINT32_MAX)
            continue;
        for (uint32_t i = mirror_half_newest(m, w->series[k]); i != 0;) {
            const struct mirror_row *row = mirror_half_row(m, i - 1);

            if (i <= run->half->mirrored && i > run->half->after_id && is_in_range(w, row) &&
                !note(run, row->series, i - 1))
                return false;
            i = row->previous;
        }
        for (size_t a = first, b = run->n; a + 1 < b;) {
            uint64_t swap = run->order[a];

            run->order[a++] = run->order[--b];
            run->order[b] = swap;
        }
    }
    return true;
}

static bool read_mirror(struct run *run, const struct wanted *w)
{
    const struct mirror_half *m = run->half->mirror;
    uint32_t n = run->half->mirrored;

    if (w->series != NULL &&
        (w->n <= FEW ||
         w->n <= atomic_load_explicit(&m->n_series, memory_order_relaxed) / CHAIN_SHARE))
        return follow_chains(run, w);
    for (int64_t i = run->half->after_id; i < n; i++) {
        const struct mirror_row *row = mirror_half_row(m, (uint32_t)i);

        if (is_wanted(w, row) && !note(run, row->series, (uint32_t)i))
            return false;
    }
    return sort_order(run);
}

static bool keep_row(struct run *run, int64_t id, const struct mirror_row *row)
{
    if (run->n_own == run->cap_own) {
        size_t cap = run->cap_own == 0 ? 256 : run->cap_own * 2;
        struct mirror_row *rows = realloc(run->own, cap * sizeof(*rows));
        int64_t *ids;

        if (rows == NULL)
            return false;
        run->own = rows;
        ids = realloc(run->ids, cap * sizeof(*ids));
        if (ids == NULL || cap > UINT32_MAX)
            return false;
        run->ids = ids;
        run->cap_own = cap;
    }
    run->own[run->n_own] = *row;
    run->ids[run->n_own] = id;
    return note(run, row->series, (uint32_t)run->n_own++);
}

/* The rows that the mirror does not have. */
static enum otl_err read_table(struct head_reader *r, const struct head_view *v, struct run *run,
                               const struct wanted *w, struct otl_error *err)
{
    struct sqlite3_stmt *st = r->tables[v->kind][run->half->half].tail;
    enum otl_err rc = OTL_OK;
    int64_t after = run->half->after_id;
    int step = sqlite3_bind_int64(st, 1, after > run->half->mirrored ? after : run->half->mirrored);

    if (step == SQLITE_OK)
        step = sqlite3_bind_int64(st, 2, run->half->max_id);
    if (step != SQLITE_OK)
        return db_fail(r->db, step, "read the head", err);
    while (rc == OTL_OK && (step = sqlite3_step(st)) == SQLITE_ROW) {
        struct mirror_row row;

        head_scan_row(st, v->kind, &row);
        if (is_wanted(w, &row) && !keep_row(run, sqlite3_column_int64(st, SCAN_ID), &row))
            rc = no_memory(err);
    }
    if (rc == OTL_OK && step != SQLITE_DONE)
        rc = db_fail(r->db, step, "read the head", err);
    (void)sqlite3_reset(st);
    if (rc == OTL_OK && !sort_order(run))
        rc = no_memory(err);
    return rc;
}

/* ---- points ---- */

static void damaged(enum series_kind kind, int half, int64_t id)
{
    static struct log_gate gate;
    uint64_t held;

    STATS_ADD(damaged_chunks, 1);
    if (log_gate_open(&gate, 60 * NS_PER_S, &held))
        LOG(LOG_ERROR, "store", "a row of the head is no point and left out; who wrote it?",
            LOG_S("table", head_table_name(kind, half)), LOG_I("id", id), LOG_I("held_back", held));
}

static enum otl_err fetch(struct head_reader *r, enum series_kind kind, int half, int64_t id,
                          struct otl_error *err)
{
    struct sqlite3_stmt *st = r->tables[kind][half].fetch;
    enum otl_err rc = OTL_OK;
    bool malformed = false;
    int step = sqlite3_bind_int64(st, 1, id);

    if (step == SQLITE_OK)
        step = sqlite3_step(st);
    if (step == SQLITE_ROW) {
        if (!series_points_add_row(&r->points, st, 0, &malformed) && !malformed)
            rc = no_memory(err);
    } else if (step != SQLITE_DONE) { /* done: another program deleted it */
        rc = db_fail(r->db, step, "read a row of the head", err);
    }
    if (malformed)
        damaged(kind, half, id);
    (void)sqlite3_reset(st);
    return rc;
}

static enum otl_err add_row(struct head_reader *r, enum series_kind kind, const struct run *run,
                            uint32_t i, struct otl_error *err)
{
    const struct mirror_row *row =
        run->mirrored ? mirror_half_row(run->half->mirror, i) : &run->own[i];
    int64_t id = run->mirrored ? (int64_t)i + 1 : run->ids[i];

    if (kind != KIND_NUMBER)
        return fetch(r, kind, run->half->half, id, err);
    if (row->value_kind == MIRROR_NO_POINT) {
        damaged(kind, run->half->half, id);
        return OTL_OK;
    }
    return series_points_add_number(&r->points, row->time, row->start_time, row->flags,
                                    (enum value_kind)row->value_kind, row->value)
               ? OTL_OK
               : no_memory(err);
}

/* Every key once, ascending. Mostly it is so already. */
static bool is_ordered(const struct series_points *p)
{
    for (size_t i = 1; i < p->n; i++) {
        if (point_key_compare(p->time[i - 1], p->start_time[i - 1], p->time[i], p->start_time[i]) >=
            0)
            return false;
    }
    return true;
}

static enum otl_err emit_series(struct head_reader *r, int64_t series_id, head_emit_fn *emit,
                                void *arg, struct otl_error *err)
{
    const struct series_points *one = &r->points;

    if (r->points.n == 0)
        return OTL_OK;
    /* Marks are for who merges with what parts have. */
    if (r->points.kind == KIND_EXEMPLAR && !series_points_sort(&r->points))
        return no_memory(err);
    if (r->points.kind == KIND_EXEMPLAR || is_ordered(&r->points))
        return emit(arg, series_id, &r->points, err);
    series_points_reset(&r->merged);
    if (!series_points_sort(&r->points) || !series_points_merge(&r->merged, &one, 1, NULL))
        return no_memory(err);
    return emit(arg, series_id, &r->merged, err);
}

static enum otl_err merge_runs(struct head_reader *r, enum series_kind kind, struct run *runs,
                               int n, head_emit_fn *emit, void *arg, struct otl_error *err)
{
    for (;;) {
        uint64_t series = UINT64_MAX;
        enum otl_err rc = OTL_OK;

        for (int i = 0; i < n; i++) {
            if (runs[i].at < runs[i].n && runs[i].order[runs[i].at] >> 32 < series)
                series = runs[i].order[runs[i].at] >> 32;
        }
        if (series == UINT64_MAX)
            return OTL_OK;
        series_points_reset(&r->points);
        for (int i = 0; i < n; i++) {
            struct run *run = &runs[i];

            while (rc == OTL_OK && run->at < run->n && run->order[run->at] >> 32 == series)
                rc = add_row(r, kind, run, (uint32_t)run->order[run->at++], err);
        }
        if (rc == OTL_OK)
            rc = emit_series(r, (int64_t)series, emit, arg, err);
        if (rc != OTL_OK)
            return rc;
    }
}

static void set_kind(struct series_points *p, enum series_kind kind)
{
    if (p->kind == kind && p->cap > 0)
        return;
    series_points_fini(p);
    series_points_init(p, kind);
}

enum otl_err head_read(struct head_reader *r, const struct head_view *v, const int64_t *series,
                       size_t n, int64_t from, int64_t to, head_emit_fn *emit, void *arg,
                       struct otl_error *err)
{
    struct wanted w = {.series = series, .n = n, .from = from, .to = to};
    struct run runs[MAX_RUNS] = {0};
    enum otl_err rc = OTL_OK;
    int n_runs = 0;

    if (v->n == 0 || (series != NULL && n == 0))
        return OTL_OK;
    if (series != NULL)
        make_bitmap(&w);
    for (int i = 0; i < v->n && rc == OTL_OK; i++) {
        const struct head_view_half *h = &v->halves[i];

        if (h->mirrored > 0) {
            struct run *run = &runs[n_runs++];

            *run = (struct run){.half = h, .mirrored = true};
            rc = read_mirror(run, &w) ? OTL_OK : no_memory(err);
        }
        if (rc == OTL_OK && h->max_id > h->mirrored) {
            runs[n_runs] = (struct run){.half = h};
            rc = read_table(r, v, &runs[n_runs++], &w, err);
        }
    }
    set_kind(&r->points, v->kind);
    set_kind(&r->merged, v->kind);
    if (rc == OTL_OK)
        rc = merge_runs(r, v->kind, runs, n_runs, emit, arg, err);
    for (int i = 0; i < n_runs; i++)
        run_fini(&runs[i]);
    free(w.bitmap);
    return rc;
}
