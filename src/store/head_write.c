#include "head_write.h"

#include <sqlite3.h>
#include <stdio.h>

#include "last_times.h"
#include "otlite/clock.h"

enum {
    NUMBER_BYTES = 32, /* of a row in the file, about */
    ROW_BYTES = 64     /* of another kind, without its texts */
};

enum otl_err head_writer_open(struct head_writer *w, struct db *db, struct catalogue *cat,
                              struct dedup *dedup, const struct head_limits *limits,
                              struct otl_error *err)
{
    enum otl_err rc;

    w->db = db;
    w->cat = cat;
    w->dedup = dedup;
    w->limits = *limits;
    w->mirror = head_mirror_new();
    if (w->mirror == NULL)
        return otl_fail(err, OTL_ENOMEM, "mirror of the head: no memory");
    rc = db_prepare(db, HEAD_STATES_SQL, &w->states, err);
    for (int k = 0; k < HEAD_KINDS; k++) {
        for (int h = 0; h < HEAD_HALVES && rc == OTL_OK; h++) {
            char sql[256];

            /* No half is what it was before the first sync. */
            w->halves[k][h].s = (struct head_state){-1, HEAD_SEALED};
            (void)snprintf(sql, sizeof(sql), "SELECT %s FROM %s WHERE id > ? ORDER BY id",
                           head_scan_columns[k], head_table_name((enum series_kind)k, h));
            rc = db_prepare(db, sql, &w->scan[k][h], err);
        }
    }
    return rc;
}

void head_writer_close(struct head_writer *w)
{
    (void)sqlite3_finalize(w->states);
    for (int k = 0; k < HEAD_KINDS; k++) {
        for (int h = 0; h < HEAD_HALVES; h++)
            (void)sqlite3_finalize(w->scan[k][h]);
    }
    head_mirror_free(w->mirror);
    *w = (struct head_writer){0};
}

/* ---- what is in the file ---- */

/* Its rows do not count any more, or never did. */
static void forget(struct head_writer *w, int kind, int half)
{
    struct head_half *h = &w->halves[kind][half];

    h->last_id = h->bytes = h->since_ns = 0;
    h->follows = false;
    if (kind < POINT_KINDS)
        dedup_forget(w->dedup, (enum point_kind)kind, half);
    head_mirror_drop(w->mirror, (enum series_kind)kind, half);
    w->mirrored[kind][half] = NULL;
}

/* Without memory for it the half is read from its table. */
static void begin_mirror(struct head_writer *w, int kind, int half)
{
    w->mirrored[kind][half] =
        head_mirror_begin(w->mirror, (enum series_kind)kind, half, w->halves[kind][half].s.epoch);
}

static int64_t double_bits(double d)
{
    int64_t v;

    memcpy(&v, &d, sizeof(v));
    return v;
}

static enum otl_err scan_half(struct head_writer *w, int kind, int half, struct otl_error *err)
{
    struct head_half *h = &w->halves[kind][half];
    struct mirror_half *m = w->mirrored[kind][half];
    struct sqlite3_stmt *st = w->scan[kind][half];
    enum otl_err rc = OTL_OK;
    int step = sqlite3_bind_int64(st, 1, h->last_id);

    if (step != SQLITE_OK)
        return db_fail(w->db, step, "read the head", err);
    while (rc == OTL_OK && (step = sqlite3_step(st)) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(st, SCAN_ID);
        struct dedup_key key = {sqlite3_column_int64(st, SCAN_SERIES),
                                sqlite3_column_int64(st, SCAN_TIME),
                                sqlite3_column_int64(st, SCAN_START)};
        struct mirror_row *row;

        if (kind < POINT_KINDS) {
            last_times_raise(w->cat, key.series_id, key.time);
            rc = dedup_load(w->dedup, (enum point_kind)kind, half, id, &key, err);
        }
        row = rc != OTL_OK || m == NULL ? NULL : mirror_half_stage(m, id);
        if (row != NULL)
            head_scan_row(st, (enum series_kind)kind, row);
        h->last_id = rc == OTL_OK ? id : h->last_id;
        h->bytes +=
            kind == KIND_NUMBER ? NUMBER_BYTES : ROW_BYTES + sqlite3_column_int64(st, SCAN_VALUE);
        if (h->since_ns == 0)
            h->since_ns = clock_mono_ns();
    }
    if (rc == OTL_OK && step != SQLITE_DONE)
        rc = db_fail(w->db, step, "read the head", err);
    (void)sqlite3_reset(st);
    if (m != NULL)
        mirror_half_publish(m);
    return rc;
}

enum otl_err head_writer_sync(struct head_writer *w, struct otl_error *err)
{
    struct head_state states[HEAD_KINDS][HEAD_HALVES];
    bool changed = false;
    enum otl_err rc = head_states(w->db, w->states, states, err);

    for (int k = 0; k < HEAD_KINDS && rc == OTL_OK; k++) {
        for (int h = 0; h < HEAD_HALVES && rc == OTL_OK; h++) {
            struct head_half *half = &w->halves[k][h];
            bool other_rows = states[k][h].epoch != half->s.epoch ||
                              (states[k][h].state == HEAD_SEALED && half->s.state != HEAD_SEALED);

            changed = changed || other_rows;
            half->s = states[k][h];
            half->follows = false;
            if (other_rows) {
                forget(w, k, h);
                if (half->s.state != HEAD_SEALED)
                    begin_mirror(w, k, h);
            }
            if (half->s.state != HEAD_SEALED)
                rc = scan_half(w, k, h, err);
        }
    }
    if (rc == OTL_OK && changed)
        rc = last_times_load(w->db, w->cat, err);
    return rc;
}

/* ---- transactions ---- */

void head_writer_begin(struct head_writer *w)
{
    memcpy(w->before, w->halves, sizeof(w->before));
}

void head_writer_commit(struct head_writer *w)
{
    for (int k = 0; k < HEAD_KINDS; k++) {
        for (int h = 0; h < HEAD_HALVES; h++) {
            if (w->halves[k][h].s.state == HEAD_SEALED) {
                if (w->before[k][h].s.state != HEAD_SEALED)
                    forget(w, k, h);
            } else if (w->mirrored[k][h] != NULL) {
                mirror_half_publish(w->mirrored[k][h]);
            }
        }
    }
}

void head_writer_rollback(struct head_writer *w)
{
    for (int k = 0; k < HEAD_KINDS; k++) {
        for (int h = 0; h < HEAD_HALVES; h++) {
            bool opened = w->before[k][h].s.epoch != w->halves[k][h].s.epoch;

            w->halves[k][h] = w->before[k][h];
            w->halves[k][h].follows = false;
            if (opened)
                forget(w, k, h);
            else if (w->mirrored[k][h] != NULL)
                mirror_half_unstage(w->mirrored[k][h]);
        }
    }
}

/* ---- rows ---- */

static void count_rows(struct head_half *h, uint32_t n, int64_t bytes)
{
    if (h->since_ns == 0)
        h->since_ns = clock_mono_ns();
    h->last_id += n;
    h->bytes += bytes;
    h->follows = true;
}

enum otl_err head_writer_numbers(struct head_writer *w, const struct dedup_key *keys,
                                 const struct number_point *points, const uint32_t *which,
                                 uint32_t n, struct otl_error *err)
{
    int half = head_writer_open_half(w, KIND_NUMBER);
    struct head_half *h = &w->halves[KIND_NUMBER][half];
    struct mirror_half *m = w->mirrored[KIND_NUMBER][half];
    int64_t first = h->last_id + 1;

    for (uint32_t i = 0; i < n && m != NULL; i++) {
        uint32_t j = which == NULL ? i : which[i];
        const struct number_point *p = &points[j];
        struct mirror_row *row = mirror_half_stage(m, first + i);

        if (row == NULL)
            break;
        row->time = p->p.time;
        row->start_time = p->p.start_time;
        row->series = (uint32_t)keys[j].series_id;
        row->flags = p->p.flags;
        row->value_kind = p->value.kind;
        row->value = p->value.kind == VALUE_DOUBLE ? double_bits(p->value.u.d)
                     : p->value.kind == VALUE_INT  ? p->value.u.i
                                                   : 0;
    }
    count_rows(h, n, (int64_t)n * NUMBER_BYTES);
    return dedup_append(w->dedup, POINT_NUMBER, half, first, keys, which, n, err);
}

enum otl_err head_writer_rows(struct head_writer *w, enum series_kind kind,
                              const struct row_list *rows, struct otl_error *err)
{
    int half = head_writer_open_half(w, (int)kind);
    struct head_half *h = &w->halves[kind][half];
    struct mirror_half *m = w->mirrored[kind][half];
    int64_t first = h->last_id + 1;
    uint32_t n = rows->rows.n;
    enum otl_err rc = OTL_OK;

    for (uint32_t i = 0; i < n && rc == OTL_OK; i++) {
        const struct cell *c = &rows->cells[(size_t)i * (size_t)rows->n_columns];
        struct dedup_key key = {c[0].u.i, c[1].u.i, c[2].u.i};
        struct mirror_row *row = m == NULL ? NULL : mirror_half_stage(m, first + i);

        if (row != NULL)
            *row = (struct mirror_row){
                .time = key.time, .start_time = key.start_time, .series = (uint32_t)key.series_id};
        if (kind != KIND_EXEMPLAR)
            rc = dedup_append(w->dedup, (enum point_kind)kind, half, first + i, &key, NULL, 1, err);
    }
    count_rows(h, n, (int64_t)n * ROW_BYTES + (int64_t)rows->text.n);
    return rc;
}

/* ---- rotation ---- */

static bool is_due(const struct head_writer *w, const struct head_half *h)
{
    const struct head_limits *l = &w->limits;

    if (h->last_id == 0)
        return false;
    return (l->max_rows > 0 && h->last_id >= l->max_rows) ||
           (l->max_bytes > 0 && h->bytes >= l->max_bytes) ||
           (l->max_age_ms > 0 && clock_mono_ns() - h->since_ns >= l->max_age_ms * NS_PER_MS);
}

enum otl_err head_writer_rotate(struct head_writer *w, enum series_kind kind, struct otl_error *err)
{
    int from = head_writer_open_half(w, (int)kind), to = 1 - from;
    struct head_half *a = &w->halves[kind][from], *b = &w->halves[kind][to];
    bool empty = false;
    enum otl_err rc = OTL_OK;

    if (a->last_id == 0)
        return OTL_OK;
    if (b->s.state == HEAD_SEALED)
        rc = head_is_empty(w->db, kind, to, &empty, err);
    if (rc == OTL_OK && !empty)
        rc =
            otl_fail(err, OTL_EBUSY, "%s is not sealed and emptied yet", head_table_name(kind, to));
    if (rc == OTL_OK)
        rc = head_close(w->db, kind, from, a->s.epoch, err);
    if (rc == OTL_OK)
        rc = head_open(w->db, kind, to, b->s.epoch, a->s.epoch + 1, err);
    if (rc != OTL_OK)
        return rc;
    a->s.state = HEAD_CLOSED;
    b->s = (struct head_state){a->s.epoch + 1, HEAD_OPEN};
    begin_mirror(w, (int)kind, to);
    return OTL_OK;
}

static bool kind_is_due(const struct head_writer *w, int kind)
{
    int half = head_writer_open_half(w, kind);

    return is_due(w, &w->halves[kind][half]) && w->halves[kind][1 - half].s.state == HEAD_SEALED;
}

bool head_writer_is_due(const struct head_writer *w)
{
    bool due = false;

    for (int k = 0; k < HEAD_KINDS; k++)
        due = due || kind_is_due(w, k);
    return due;
}

enum otl_err head_writer_rotate_due(struct head_writer *w, struct otl_error *err)
{
    for (int k = 0; k < HEAD_KINDS; k++) {
        enum otl_err rc;

        if (!kind_is_due(w, k))
            continue;
        rc = head_writer_rotate(w, (enum series_kind)k, err);
        if (rc != OTL_OK && rc != OTL_EBUSY) /* not emptied yet: later */
            return rc;
    }
    return OTL_OK;
}

enum otl_err head_writer_seal(struct head_writer *w, enum series_kind kind, int half, int64_t epoch,
                              struct otl_error *err)
{
    enum otl_err rc = head_mark_sealed(w->db, kind, half, epoch, err);

    if (rc == OTL_OK && kind != KIND_EXEMPLAR)
        rc = last_times_save(w->db, w->cat, (enum point_kind)kind, err);
    if (rc == OTL_OK)
        w->halves[kind][half].s.state = HEAD_SEALED;
    return rc;
}

bool head_writer_is_full(const struct head_writer *w, enum series_kind kind)
{
    int half = head_writer_open_half(w, (int)kind);

    return w->limits.max_rows > 0 &&
           w->halves[kind][half].last_id >= HEAD_FULL_FACTOR * w->limits.max_rows;
}

bool head_writer_has_series(const struct head_writer *w, int64_t series_id)
{
    for (int k = 0; k < HEAD_KINDS; k++) {
        for (int h = 0; h < HEAD_HALVES; h++) {
            const struct mirror_half *m = w->mirrored[k][h];

            if (w->halves[k][h].s.state == HEAD_SEALED || w->halves[k][h].last_id == 0)
                continue;
            if (m == NULL || m->ended || mirror_half_newest(m, series_id) != 0)
                return true;
        }
    }
    return false;
}
