/* head_table.c -- the tables of the head and the rows of table `head`. */
#include "head_table.h"

#include <inttypes.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#define NAMES(kind)                    \
    {                                  \
        kind "_head_0", kind "_head_1" \
    }
static const char *const table_names[HEAD_KINDS][HEAD_HALVES] = {
    [KIND_NUMBER] = NAMES("number"),
    [KIND_HISTOGRAM] = NAMES("histogram"),
    [KIND_EXPONENTIAL] = NAMES("exponential_histogram"),
    [KIND_SUMMARY] = NAMES("summary"),
    [KIND_EXEMPLAR] = NAMES("exemplar"),
};
static const char *const state_names[] = {
    [HEAD_OPEN] = "open", [HEAD_CLOSED] = "closed", [HEAD_SEALED] = "sealed"};

const char *head_table_name(enum series_kind kind, int half)
{
    return table_names[kind][half];
}

static int kind_of(const char *name)
{
    for (int k = 0; name != NULL && k < HEAD_KINDS; k++) {
        if (strcmp(series_schemas[k].name, name) == 0)
            return k;
    }
    return -1;
}

static int state_of(const char *name)
{
    for (int i = HEAD_OPEN; name != NULL && i <= HEAD_SEALED; i++) {
        if (strcmp(state_names[i], name) == 0)
            return i;
    }
    return -1;
}

static enum otl_err damaged(const struct db *db, struct otl_error *err)
{
    return otl_fail(err, OTL_ECORRUPT,
                    "%s: table head is damaged; stop otlite, keep the files, restore a backup",
                    db->path);
}

/* One half of each kind is open, or the other would have been opened with the closing. */
static bool is_whole(struct head_state states[HEAD_KINDS][HEAD_HALVES])
{
    for (int k = 0; k < HEAD_KINDS; k++) {
        const struct head_state *s = states[k];

        if ((s[0].state == HEAD_OPEN) == (s[1].state == HEAD_OPEN) || s[0].epoch < 0 ||
            s[1].epoch < 0 || s[0].epoch == s[1].epoch || s[0].epoch >= HEAD_MAX_EPOCH ||
            s[1].epoch >= HEAD_MAX_EPOCH)
            return false;
    }
    return true;
}

enum otl_err head_states(struct db *db, struct sqlite3_stmt *st,
                         struct head_state out[HEAD_KINDS][HEAD_HALVES], struct otl_error *err)
{
    unsigned seen = 0;
    enum otl_err rc = OTL_OK;
    int step;

    while (rc == OTL_OK && (step = sqlite3_step(st)) == SQLITE_ROW) {
        int kind = kind_of((const char *)sqlite3_column_text(st, 0));
        int64_t half = sqlite3_column_int64(st, 1);
        int state = state_of((const char *)sqlite3_column_text(st, 3));

        if (kind < 0 || half < 0 || half >= HEAD_HALVES || state < 0) {
            rc = damaged(db, err);
            break;
        }
        out[kind][half] =
            (struct head_state){sqlite3_column_int64(st, 2), (enum head_state_name)state};
        seen |= 1u << (kind * HEAD_HALVES + (int)half);
    }
    if (rc == OTL_OK && step != SQLITE_DONE)
        rc = db_fail(db, step, "read table head", err);
    (void)sqlite3_reset(st);
    if (rc == OTL_OK && (seen != (1u << (HEAD_KINDS * HEAD_HALVES)) - 1 || !is_whole(out)))
        rc = damaged(db, err);
    return rc;
}

const char HEAD_STATES_SQL[] = "SELECT kind, half, epoch, state FROM head";

/* ---- rows ---- */

const char *const head_scan_columns[HEAD_KINDS] = {
    [KIND_NUMBER] = "id, series_id, time, start_time, flags, value",
    [KIND_HISTOGRAM] = "id, series_id, time, start_time, flags, coalesce(length(bucket_counts), 0)",
    [KIND_EXPONENTIAL] = "id, series_id, time, start_time, flags,"
                         " coalesce(length(positive_counts), 0)"
                         " + coalesce(length(negative_counts), 0)",
    [KIND_SUMMARY] = "id, series_id, time, start_time, flags, length(quantiles)",
    [KIND_EXEMPLAR] =
        "id, series_id, point_time, point_start_time, 0, length(attributes) + length(identity)",
};

/* A value as a row has it. */
static void scan_value(struct sqlite3_stmt *st, struct mirror_row *row)
{
    const uint8_t *nan;
    uint64_t bits = 0;
    double d;

    switch (sqlite3_column_type(st, SCAN_VALUE)) {
    case SQLITE_INTEGER:
        row->value_kind = VALUE_INT;
        row->value = sqlite3_column_int64(st, SCAN_VALUE);
        return;
    case SQLITE_FLOAT:
        row->value_kind = VALUE_DOUBLE;
        d = sqlite3_column_double(st, SCAN_VALUE);
        memcpy(&row->value, &d, sizeof(row->value));
        return;
    case SQLITE_NULL:
        row->value_kind = VALUE_NONE;
        return;
    case SQLITE_BLOB:
        nan = sqlite3_column_blob(st, SCAN_VALUE);
        for (int i = 0; i < 8 && sqlite3_column_bytes(st, SCAN_VALUE) == 8; i++)
            bits = bits << 8 | nan[i];
        memcpy(&d, &bits, sizeof(d));
        if (isnan(d)) {
            row->value_kind = VALUE_DOUBLE;
            memcpy(&row->value, &bits, sizeof(bits));
            return;
        }
        break;
    default:
        break;
    }
    row->value_kind = MIRROR_NO_POINT;
}

void head_scan_row(struct sqlite3_stmt *st, enum series_kind kind, struct mirror_row *out)
{
    int64_t series = sqlite3_column_int64(st, SCAN_SERIES);
    int64_t flags = sqlite3_column_int64(st, SCAN_FLAGS);

    *out = (struct mirror_row){.time = sqlite3_column_int64(st, SCAN_TIME),
                               .start_time = sqlite3_column_int64(st, SCAN_START),
                               .series = series > 0 && series <= UINT32_MAX ? (uint32_t)series : 0,
                               .flags = (uint32_t)flags};
    if (kind == KIND_NUMBER)
        scan_value(st, out);
    if (flags < 0 || flags > UINT32_MAX)
        out->value_kind = MIRROR_NO_POINT;
}

/* ---- halves in a state ---- */

/* The last id is the number of rows, unless another program deleted some. */
static enum otl_err last_id(struct db *db, enum series_kind kind, int half, int64_t *out,
                            struct otl_error *err)
{
    char sql[96];

    (void)snprintf(sql, sizeof(sql), "SELECT coalesce(max(id), 0) FROM %s",
                   head_table_name(kind, half));
    return db_query_int(db, sql, out, err);
}

static enum otl_err halves_in(struct db *db, enum head_state_name state, bool with_rows,
                              struct head_half_state *out, int *n, struct otl_error *err)
{
    struct head_state states[HEAD_KINDS][HEAD_HALVES];
    struct sqlite3_stmt *st;
    enum otl_err rc = db_prepare(db, HEAD_STATES_SQL, &st, err);

    *n = 0;
    if (rc != OTL_OK)
        return rc;
    rc = head_states(db, st, states, err);
    (void)sqlite3_finalize(st);
    for (int k = 0; k < HEAD_KINDS; k++) {
        for (int h = 0; h < HEAD_HALVES && rc == OTL_OK; h++) {
            int64_t rows;

            if (states[k][h].state != state)
                continue;
            rc = last_id(db, (enum series_kind)k, h, &rows, err);
            if (rc == OTL_OK && (rows > 0 || !with_rows))
                out[(*n)++] =
                    (struct head_half_state){(enum series_kind)k, h, states[k][h].epoch, rows};
        }
    }
    return rc;
}

enum otl_err head_closed_halves(struct db *db, struct head_half_state *out, int *n,
                                struct otl_error *err)
{
    return halves_in(db, HEAD_CLOSED, false, out, n, err);
}

enum otl_err head_sealed_halves(struct db *db, struct head_half_state *out, int *n,
                                struct otl_error *err)
{
    return halves_in(db, HEAD_SEALED, true, out, n, err);
}

/* ---- changes of state ---- */

static enum otl_err set_state(struct db *db, enum series_kind kind, int half, int64_t from_epoch,
                              enum head_state_name from, int64_t epoch, enum head_state_name to,
                              struct otl_error *err)
{
    char sql[200];
    enum otl_err rc;

    (void)snprintf(sql, sizeof(sql),
                   "UPDATE head SET epoch = %lld, state = '%s' WHERE kind = '%s' AND half = %d"
                   " AND epoch = %lld AND state = '%s'",
                   (long long)epoch, state_names[to], series_schemas[kind].name, half,
                   (long long)from_epoch, state_names[from]);
    rc = db_exec(db, sql, err);
    if (rc == OTL_OK && sqlite3_changes(db->sql) != 1)
        rc = otl_fail(err, OTL_EINTERNAL, "half %d of %s, epoch %lld, is not %s", half,
                      series_schemas[kind].name, (long long)from_epoch, state_names[from]);
    return rc;
}

enum otl_err head_open(struct db *db, enum series_kind kind, int half, int64_t old_epoch,
                       int64_t epoch, struct otl_error *err)
{
    return set_state(db, kind, half, old_epoch, HEAD_SEALED, epoch, HEAD_OPEN, err);
}

enum otl_err head_close(struct db *db, enum series_kind kind, int half, int64_t epoch,
                        struct otl_error *err)
{
    return set_state(db, kind, half, epoch, HEAD_OPEN, epoch, HEAD_CLOSED, err);
}

enum otl_err head_mark_sealed(struct db *db, enum series_kind kind, int half, int64_t epoch,
                              struct otl_error *err)
{
    return set_state(db, kind, half, epoch, HEAD_CLOSED, epoch, HEAD_SEALED, err);
}

enum otl_err head_is_empty(struct db *db, enum series_kind kind, int half, bool *out,
                           struct otl_error *err)
{
    int64_t rows = 0;
    enum otl_err rc = last_id(db, kind, half, &rows, err);

    *out = rows == 0;
    return rc;
}

enum otl_err head_empty(struct db *db, enum series_kind kind, int half, int64_t keep,
                        struct otl_error *err)
{
    struct head_state states[HEAD_KINDS][HEAD_HALVES];
    struct sqlite3_stmt *st;
    char sql[96];
    enum otl_err rc = db_prepare(db, HEAD_STATES_SQL, &st, err);

    if (rc != OTL_OK)
        return rc;
    rc = head_states(db, st, states, err);
    (void)sqlite3_finalize(st);
    if (rc == OTL_OK && states[kind][half].state != HEAD_SEALED)
        rc = otl_fail(err, OTL_EINTERNAL, "%s is %s and not to be emptied",
                      head_table_name(kind, half), state_names[states[kind][half].state]);
    /* Without a condition SQLite frees whole pages and looks at no row. */
    if (keep > 0)
        (void)snprintf(sql, sizeof(sql), "DELETE FROM %s WHERE id > %" PRId64,
                       head_table_name(kind, half), keep);
    else
        (void)snprintf(sql, sizeof(sql), "DELETE FROM %s", head_table_name(kind, half));
    return rc == OTL_OK ? db_exec(db, sql, err) : rc;
}
