/* Writing parts: their rows, their blocks, and what becomes of those that do not count any more.
 * Every statement is prepared where it runs: the blob of a block costs a few times as much. */
#include "part.h"

#include <sqlite3.h>

enum { PART_MAX_BLOCKS = 1 << PART_BLOCK_BITS };

static enum otl_err bind_failed(struct db *db, const char *what, struct otl_error *err)
{
    return db_fail(db, sqlite3_errcode(db->sql), what, err);
}

/* Prepare sql, bind n integers, run it to its end. */
static enum otl_err run_ints(struct db *db, const char *sql, const int64_t *v, int n,
                             const char *what, struct otl_error *err)
{
    struct sqlite3_stmt *st;
    enum otl_err rc = db_prepare(db, sql, &st, err);

    if (rc != OTL_OK)
        return rc;
    for (int i = 0; i < n && rc == OTL_OK; i++) {
        if (sqlite3_bind_int64(st, i + 1, v[i]) != SQLITE_OK)
            rc = bind_failed(db, what, err);
    }
    if (rc == OTL_OK)
        rc = db_run(db, st, what, err);
    (void)sqlite3_finalize(st);
    return rc;
}

static enum otl_err next_sequence(struct db *db, const struct part_info *info, int64_t *out,
                                  struct otl_error *err)
{
    struct sqlite3_stmt *st;
    enum otl_err rc = db_prepare(db,
                                 "SELECT coalesce(max(sequence), 0) + 1 FROM part"
                                 " WHERE kind = ?1 AND resolution = ?2 AND day = ?3",
                                 &st, err);

    if (rc != OTL_OK)
        return rc;
    if (sqlite3_bind_text(st, 1, series_schemas[info->kind].name, -1, SQLITE_STATIC) != SQLITE_OK ||
        sqlite3_bind_int(st, 2, info->resolution) != SQLITE_OK ||
        sqlite3_bind_int64(st, 3, info->day) != SQLITE_OK || sqlite3_step(st) != SQLITE_ROW)
        rc = bind_failed(db, "find the sequence of a part", err);
    else
        *out = sqlite3_column_int64(st, 0);
    (void)sqlite3_finalize(st);
    return rc;
}

enum otl_err part_create(struct db *db, struct part_info *info, struct otl_error *err)
{
    static const char WHAT[] = "begin a part";
    int64_t sequence = info->sequence;
    struct sqlite3_stmt *st;
    enum otl_err rc = OTL_OK;

    if (sequence == 0)
        rc = next_sequence(db, info, &sequence, err);
    if (rc == OTL_OK)
        rc = db_prepare(
            db,
            "INSERT INTO part (kind, resolution, day, sequence, live, min_time, max_time,"
            " points, blocks, bytes) VALUES (?1, ?2, ?3, ?4, 0, 0, 0, 0, 0, 0)",
            &st, err);
    if (rc != OTL_OK)
        return rc;
    if (sqlite3_bind_text(st, 1, series_schemas[info->kind].name, -1, SQLITE_STATIC) != SQLITE_OK ||
        sqlite3_bind_int(st, 2, info->resolution) != SQLITE_OK ||
        sqlite3_bind_int64(st, 3, info->day) != SQLITE_OK ||
        sqlite3_bind_int64(st, 4, sequence) != SQLITE_OK)
        rc = bind_failed(db, WHAT, err);
    else
        rc = db_run(db, st, WHAT, err);
    (void)sqlite3_finalize(st);
    if (rc != OTL_OK)
        return rc;
    if (sqlite3_last_insert_rowid(db->sql) > INT64_MAX >> PART_BLOCK_BITS)
        return otl_fail(err, OTL_ECORRUPT,
                        "begin a part: there is no id left; table part or "
                        "sqlite_sequence was changed from outside");
    info->id = sqlite3_last_insert_rowid(db->sql);
    info->sequence = sequence;
    return OTL_OK;
}

enum otl_err part_add_block(struct db *db, int64_t part_id, uint32_t number,
                            const struct block_info *info, struct bytes data, struct otl_error *err)
{
    static const char WHAT[] = "insert a block";
    struct sqlite3_stmt *st;
    enum otl_err rc;

    if (number >= PART_MAX_BLOCKS)
        return otl_fail(err, OTL_EINTERNAL, "insert a block: part %lld has %u blocks already",
                        (long long)part_id, number);
    rc = db_prepare(db,
                    "INSERT INTO block (id, first_series, last_series, min_time, max_time, points,"
                    " data) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                    &st, err);
    if (rc != OTL_OK)
        return rc;
    if (sqlite3_bind_int64(st, 1, part_id << PART_BLOCK_BITS | number) != SQLITE_OK ||
        sqlite3_bind_int64(st, 2, info->first_series) != SQLITE_OK ||
        sqlite3_bind_int64(st, 3, info->last_series) != SQLITE_OK ||
        sqlite3_bind_int64(st, 4, info->min_time) != SQLITE_OK ||
        sqlite3_bind_int64(st, 5, info->max_time) != SQLITE_OK ||
        sqlite3_bind_int64(st, 6, (int64_t)info->points) != SQLITE_OK ||
        sqlite3_bind_blob64(st, 7, data.p, data.n, SQLITE_STATIC) != SQLITE_OK)
        rc = bind_failed(db, WHAT, err);
    else
        rc = db_run(db, st, WHAT, err);
    (void)sqlite3_finalize(st);
    return rc;
}

enum otl_err part_publish(struct db *db, const struct part_info *info, struct otl_error *err)
{
    const int64_t v[] = {info->id,
                         info->min_time,
                         info->max_time,
                         (int64_t)info->points,
                         (int64_t)info->blocks,
                         (int64_t)info->bytes};
    enum otl_err rc =
        run_ints(db,
                 "UPDATE part SET live = 1, min_time = ?2, max_time = ?3, points = ?4, blocks = ?5,"
                 " bytes = ?6 WHERE id = ?1 AND live = 0",
                 v, 6, "make a part live", err);

    if (rc == OTL_OK && sqlite3_changes(db->sql) != 1)
        rc = otl_fail(err, OTL_EINTERNAL, "make a part live: part %lld is not being written",
                      (long long)info->id);
    return rc;
}

enum otl_err part_drop(struct db *db, int64_t part_id, struct otl_error *err)
{
    enum otl_err rc = run_ints(db, "UPDATE part SET live = 2 WHERE id = ?1 AND live <> 2", &part_id,
                               1, "drop a part", err);

    if (rc == OTL_OK && sqlite3_changes(db->sql) != 1)
        rc = otl_fail(err, OTL_EINTERNAL, "drop a part: there is no part %lld", (long long)part_id);
    return rc;
}

/* ---- garbage ---- */

static bool is_one_of(int64_t id, const int64_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (ids[i] == id)
            return true;
    }
    return false;
}

/* *id: of a part that is garbage, 0 when there is none; *more: of another one too. */
static enum otl_err find_garbage(struct db *db, const int64_t *except, size_t n, int64_t *id,
                                 bool *more, struct otl_error *err)
{
    struct sqlite3_stmt *st;
    enum otl_err rc = db_prepare(db, "SELECT id FROM part WHERE live <> 1 ORDER BY id", &st, err);
    int step = SQLITE_DONE;

    *id = 0;
    *more = false;
    if (rc != OTL_OK)
        return rc;
    while (!*more && (step = sqlite3_step(st)) == SQLITE_ROW) {
        int64_t found = sqlite3_column_int64(st, 0);

        if (is_one_of(found, except, n))
            continue;
        *more = *id != 0;
        if (!*more)
            *id = found;
    }
    if (step != SQLITE_DONE && step != SQLITE_ROW)
        rc = db_fail(db, step, "look for dropped parts", err);
    (void)sqlite3_finalize(st);
    return rc;
}

/* The first blocks of a part that have max_bytes together, or all: *last is the last one's id,
 * *all: there is none after it. length() looks at the row's head only. */
static enum otl_err measure_blocks(struct db *db, int64_t part_id, int64_t max_bytes, int64_t *last,
                                   int64_t *bytes, bool *all, struct otl_error *err)
{
    struct sqlite3_stmt *st;
    enum otl_err rc = db_prepare(
        db, "SELECT id, length(data) FROM block WHERE id BETWEEN ?1 AND ?2 ORDER BY id", &st, err);
    int step = SQLITE_DONE;

    if (rc != OTL_OK)
        return rc;
    *bytes = 0;
    *last = part_id << PART_BLOCK_BITS;
    if (sqlite3_bind_int64(st, 1, part_id << PART_BLOCK_BITS) != SQLITE_OK ||
        sqlite3_bind_int64(st, 2, part_id << PART_BLOCK_BITS | (PART_MAX_BLOCKS - 1)) != SQLITE_OK)
        rc = bind_failed(db, "measure dropped blocks", err);
    while (rc == OTL_OK && (step = sqlite3_step(st)) == SQLITE_ROW && *bytes < max_bytes) {
        *last = sqlite3_column_int64(st, 0);
        *bytes += sqlite3_column_int64(st, 1);
    }
    *all = step == SQLITE_DONE;
    if (rc == OTL_OK && step != SQLITE_DONE && step != SQLITE_ROW)
        rc = db_fail(db, step, "measure dropped blocks", err);
    (void)sqlite3_finalize(st);
    return rc;
}

enum otl_err part_collect(struct db *db, const int64_t *except, size_t n, int64_t max_bytes,
                          bool *left, struct otl_error *err)
{
    int64_t id, bytes, room = max_bytes > 0 ? max_bytes : 1;
    bool all = true, more = true;
    enum otl_err rc = OTL_OK;

    while (rc == OTL_OK && more && all && room > 0) {
        int64_t range[2];

        rc = find_garbage(db, except, n, &id, &more, err);
        if (rc != OTL_OK || id == 0)
            break;
        rc = measure_blocks(db, id, room, &range[1], &bytes, &all, err);
        range[0] = id << PART_BLOCK_BITS;
        if (rc == OTL_OK)
            rc = run_ints(db, "DELETE FROM block WHERE id BETWEEN ?1 AND ?2", range, 2,
                          "delete dropped blocks", err);
        if (rc == OTL_OK && all)
            rc = run_ints(db, "DELETE FROM part WHERE id = ?1", &id, 1, "delete a dropped part",
                          err);
        room -= bytes;
    }
    if (rc == OTL_OK)
        *left = more || !all;
    return rc;
}
