/* The steps go from the file to what is in it: pages and indexes by SQLite, references between
 * tables, the catalogue's identities, rows of the head, parts and their chunks. A step that finds
 * faults does not keep the later ones from running, as far as SQLite can still read. */
#include "otlite/check.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "block.h"
#include "export_json.h"
#include "head.h"
#include "otlite/attrs.h"
#include "part.h"

struct checker {
    struct db *db;
    const struct check_report *report;
    struct check_counts *counts;
    /* By series id: 1 + the kind of its points, or 0. */
    uint8_t *kinds;
    int64_t max_series;
    const char *where; /* for faults of block_verify */
    int64_t where_id;
};

static void fault(struct checker *c, const char *fmt, ...) OTL_PRINTF(2, 3);
static void fault(struct checker *c, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    c->counts->faults++;
    c->report->fault(c->report->arg, text);
}

static void progress(struct checker *c, const char *step, uint64_t done, uint64_t all)
{
    if (c->report->progress != NULL)
        c->report->progress(c->report->arg, step, all == 0 ? -1.0 : (double)done / (double)all);
}

/* A statement that could not be stepped on: damage is a fault of the file, anything else ends the
 * check. */
static enum otl_err stepped(struct checker *c, int step, const char *what, struct otl_error *err)
{
    struct otl_error mine = {0};
    enum otl_err rc;

    if (step == SQLITE_DONE)
        return OTL_OK;
    rc = db_fail(c->db, step, what, &mine);
    if (rc == OTL_ECORRUPT) {
        fault(c, "%s", mine.msg);
        return OTL_OK;
    }
    *err = mine;
    return rc;
}

/* ---- the file ---- */

static enum otl_err check_pages(struct checker *c, struct otl_error *err)
{
    sqlite3_stmt *st;
    enum otl_err rc;
    int64_t pages = 0;
    int step;

    rc = db_query_int(c->db, "PRAGMA page_count", &pages, err);
    if (rc != OTL_OK)
        return rc;
    c->counts->pages = (uint64_t)pages;
    progress(c, "pages and indexes", 0, 0);
    rc = db_prepare(c->db, "PRAGMA integrity_check(100)", &st, err);
    if (rc != OTL_OK)
        return rc;
    while ((step = sqlite3_step(st)) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(st, 0);

        if (text != NULL && strcmp(text, "ok") != 0)
            fault(c, "SQLite: %.300s", text);
    }
    rc = stepped(c, step, "check the pages", err);
    (void)sqlite3_finalize(st);
    return rc;
}

static enum otl_err check_references(struct checker *c, struct otl_error *err)
{
    sqlite3_stmt *st;
    enum otl_err rc = db_prepare(c->db, "PRAGMA foreign_key_check", &st, err);
    int step;

    if (rc != OTL_OK)
        return rc;
    while ((step = sqlite3_step(st)) == SQLITE_ROW)
        fault(c, "%s %" PRId64 " refers to a row of %s that is missing",
              (const char *)sqlite3_column_text(st, 0), (int64_t)sqlite3_column_int64(st, 1),
              (const char *)sqlite3_column_text(st, 2));
    rc = stepped(c, step, "check the references", err);
    (void)sqlite3_finalize(st);
    return rc;
}

/* ---- the catalogue ---- */

static enum otl_err check_identities(struct checker *c, const char *table, const char *column,
                                     uint64_t *count, struct otl_error *err)
{
    char sql[96];
    sqlite3_stmt *st;
    enum otl_err rc;
    int step;

    progress(c, table, 0, 0);
    (void)snprintf(sql, sizeof(sql), "SELECT id, %s FROM %s", column, table);
    rc = db_prepare(c->db, sql, &st, err);
    if (rc != OTL_OK)
        return rc;
    while ((step = sqlite3_step(st)) == SQLITE_ROW) {
        (*count)++;
        if (!attrs_valid(column_bytes(st, 1)))
            fault(c, "%s %" PRId64 ": the bytes of %s are no attributes", table,
                  (int64_t)sqlite3_column_int64(st, 0), column);
    }
    rc = stepped(c, step, "read the catalogue", err);
    (void)sqlite3_finalize(st);
    return rc;
}

static int kind_of_type(const char *type)
{
    static const char *const names[] = {"histogram", "exponential_histogram", "summary"};

    for (int i = 0; i < 3; i++) {
        if (type != NULL && strcmp(type, names[i]) == 0)
            return KIND_HISTOGRAM + i;
    }
    return KIND_NUMBER;
}

static enum otl_err load_kinds(struct checker *c, struct otl_error *err)
{
    sqlite3_stmt *st;
    enum otl_err rc =
        db_query_int(c->db, "SELECT ifnull(max(id), 0) FROM series", &c->max_series, err);
    int step;

    if (rc != OTL_OK)
        return rc;
    if (c->max_series < 0 || c->max_series > UINT32_MAX)
        return otl_fail(err, OTL_ECORRUPT, "the greatest series id, %" PRId64 ", cannot be right",
                        c->max_series);
    c->kinds = calloc((size_t)c->max_series + 1, 1);
    if (c->kinds == NULL)
        return otl_fail(err, OTL_ENOMEM, "check: no memory");
    rc = db_prepare(c->db, "SELECT s.id, m.type FROM series s JOIN metric m ON m.id = s.metric_id",
                    &st, err);
    if (rc != OTL_OK)
        return rc;
    while ((step = sqlite3_step(st)) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(st, 0);

        if (id > 0 && id <= c->max_series)
            c->kinds[id] = (uint8_t)(1 + kind_of_type((const char *)sqlite3_column_text(st, 1)));
    }
    rc = stepped(c, step, "read the series", err);
    (void)sqlite3_finalize(st);
    return rc;
}

/* Whether a series may have points of a kind; otherwise why not. */
static const char *misplaced(const struct checker *c, int64_t series_id, enum series_kind kind)
{
    if (series_id <= 0 || series_id > c->max_series || c->kinds[series_id] == 0)
        return "which is not in the catalogue";
    if (kind == KIND_EXEMPLAR)
        return NULL;
    if (kind == KIND_NUMBER_ROLLUP)
        kind = KIND_NUMBER;
    if (kind == KIND_HISTOGRAM_ROLLUP)
        kind = KIND_HISTOGRAM;
    return c->kinds[series_id] == 1 + kind ? NULL : "which has points of another type";
}

/* ---- the head ---- */

static enum otl_err check_half(struct checker *c, enum series_kind kind, int half,
                               struct otl_error *err)
{
    char sql[512];
    struct series_points p;
    sqlite3_stmt *st;
    enum otl_err rc;
    int step = SQLITE_DONE;

    (void)snprintf(sql, sizeof(sql), "SELECT id, series_id, %s FROM %s ORDER BY id",
                   kind == KIND_EXEMPLAR
                       ? "point_time, point_start_time, time, value, trace_id, span_id, identity"
                       : point_tables[kind].columns + sizeof("series_id,") - 1,
                   head_table_name(kind, half));
    rc = db_prepare(c->db, sql, &st, err);
    if (rc != OTL_OK)
        return rc;
    series_points_init(&p, kind);
    while (rc == OTL_OK && (step = sqlite3_step(st)) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(st, 0), series = sqlite3_column_int64(st, 1);
        const char *why = misplaced(c, series, kind);
        bool malformed = false;

        c->counts->head_rows++;
        if (why != NULL)
            fault(c, "%s %" PRId64 " is of series %" PRId64 ", %s", head_table_name(kind, half), id,
                  series, why);
        series_points_reset(&p);
        if (!series_points_add_row(&p, st, 2, &malformed)) {
            if (malformed)
                fault(c, "%s %" PRId64 " has a column that no point has",
                      head_table_name(kind, half), id);
            else
                rc = otl_fail(err, OTL_ENOMEM, "check: no memory");
        }
    }
    if (rc == OTL_OK)
        rc = stepped(c, step, "read the head", err);
    series_points_fini(&p);
    (void)sqlite3_finalize(st);
    return rc;
}

static enum otl_err check_head(struct checker *c, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    progress(c, "head", 0, 0);
    for (int k = 0; k < HEAD_KINDS && rc == OTL_OK; k++) {
        for (int half = 0; half < HEAD_HALVES && rc == OTL_OK; half++)
            rc = check_half(c, (enum series_kind)k, half, err);
    }
    return rc;
}

/* ---- parts ---- */

static void block_damaged(void *arg, const char *what)
{
    struct checker *c = arg;

    fault(c, "block %" PRId64 ": %s", c->where_id, what);
}

/* What the row says of a block against what is in it. */
static void compare_block(struct checker *c, sqlite3_stmt *st, const struct block_directory *d)
{
    int64_t first = INT64_MAX, last = INT64_MIN, min = INT64_MAX, max = INT64_MIN;
    int64_t block_id = sqlite3_column_int64(st, 0);
    uint64_t points = 0;

    for (uint32_t i = 0; i < d->n; i++) {
        const struct chunk_summary *s = &d->chunks[i];
        const char *why = misplaced(c, s->series_id, d->kind);

        if (why != NULL)
            fault(c, "block %" PRId64 ", chunk %u is of series %" PRId64 ", %s", block_id, i,
                  s->series_id, why);
        first = s->series_id < first ? s->series_id : first;
        last = s->series_id > last ? s->series_id : last;
        min = s->min_time < min ? s->min_time : min;
        max = s->max_time > max ? s->max_time : max;
        points += s->n;
        if (i > 0 && (s[-1].series_id > s->series_id ||
                      (s[-1].series_id == s->series_id && s[-1].max_time > s->min_time)))
            fault(c, "block %" PRId64 ", chunk %u is out of order", block_id, i);
    }
    c->counts->chunks += d->n;
    c->counts->points += points;
    if (first != sqlite3_column_int64(st, 1) || last != sqlite3_column_int64(st, 2) ||
        min != sqlite3_column_int64(st, 3) || max != sqlite3_column_int64(st, 4) ||
        points != (uint64_t)sqlite3_column_int64(st, 5))
        fault(c, "block %" PRId64 ": its row and its directory say different things", block_id);
}

static enum otl_err check_block(struct checker *c, sqlite3_stmt *st, enum series_kind kind,
                                struct otl_error *err)
{
    struct bytes data = column_bytes(st, 6);
    struct block_directory d = {0};
    struct otl_error why = {0};
    size_t head = block_head_bytes(data);
    enum otl_err rc;

    c->where_id = sqlite3_column_int64(st, 0);
    c->counts->blocks++;
    if (block_verify(data, block_damaged, c) > 0 || head == 0 || head > data.n)
        return OTL_OK;
    rc = block_directory_open(bytes_of(data.p, head), &d, &why);
    if (rc == OTL_ENOMEM) {
        *err = why;
        return rc;
    }
    if (rc != OTL_OK)
        fault(c, "block %" PRId64 ": %s", c->where_id, why.msg);
    else if (d.kind != kind)
        fault(c, "block %" PRId64 " is of another kind than its part", c->where_id);
    else
        compare_block(c, st, &d);
    block_directory_fini(&d);
    return OTL_OK;
}

static int kind_by_name(const char *name)
{
    for (int k = 0; k < SERIES_KINDS; k++) {
        if (name != NULL && strcmp(name, series_schemas[k].name) == 0)
            return k;
    }
    return -1;
}

/* The blocks of the part that `part` stands on. */
static enum otl_err check_part(struct checker *c, sqlite3_stmt *part, sqlite3_stmt *blocks,
                               uint64_t all, struct otl_error *err)
{
    int64_t id = sqlite3_column_int64(part, 0), number = 0;
    int64_t want_blocks = sqlite3_column_int64(part, 2);
    uint64_t points = c->counts->points, faults = c->counts->faults;
    int kind = kind_by_name((const char *)sqlite3_column_text(part, 1));
    enum otl_err rc = OTL_OK;
    int step = SQLITE_DONE;

    c->counts->parts++;
    if (kind < 0) {
        fault(c, "part %" PRId64 " is of a kind that this otlite does not know", id);
        return OTL_OK;
    }
    (void)sqlite3_reset(blocks);
    if (id < 0 || id >= INT64_C(1) << (63 - PART_BLOCK_BITS) ||
        sqlite3_bind_int64(blocks, 1, id << PART_BLOCK_BITS) != SQLITE_OK ||
        sqlite3_bind_int64(blocks, 2, ((id + 1) << PART_BLOCK_BITS) - 1) != SQLITE_OK) {
        fault(c, "part %" PRId64 ": no such number is ever given out", id);
        return OTL_OK;
    }
    while (rc == OTL_OK && (step = sqlite3_step(blocks)) == SQLITE_ROW) {
        if (sqlite3_column_int64(blocks, 0) != (id << PART_BLOCK_BITS) + number++)
            fault(c, "part %" PRId64 ": a block before number %" PRId64 " is missing", id, number);
        rc = check_block(c, blocks, (enum series_kind)kind, err);
        progress(c, "chunks", c->counts->blocks, all);
    }
    if (rc == OTL_OK)
        rc = stepped(c, step, "read the blocks", err);
    (void)sqlite3_reset(blocks);
    if (number != want_blocks)
        fault(c, "part %" PRId64 " has %" PRId64 " blocks and should have %" PRId64, id, number,
              want_blocks);
    else if (faults == c->counts->faults &&
             c->counts->points - points != (uint64_t)sqlite3_column_int64(part, 3))
        fault(c, "part %" PRId64 " has %" PRIu64 " points and should have %" PRId64, id,
              c->counts->points - points, (int64_t)sqlite3_column_int64(part, 3));
    return rc;
}

static enum otl_err check_parts(struct checker *c, struct otl_error *err)
{
    sqlite3_stmt *part = NULL, *blocks = NULL;
    int64_t all = 0, garbage = 0;
    enum otl_err rc = db_query_int(c->db, "SELECT count(*) FROM block", &all, err);
    int step = SQLITE_DONE;

    if (rc == OTL_OK)
        rc = db_query_int(c->db,
                          "SELECT count(*) FROM block WHERE id >> 24 NOT IN"
                          " (SELECT id FROM part WHERE live = 1)",
                          &garbage, err);
    if (rc == OTL_OK)
        rc = db_prepare(c->db,
                        "SELECT id, kind, blocks, points FROM part WHERE live = 1 ORDER BY id",
                        &part, err);
    if (rc == OTL_OK)
        rc = db_prepare(c->db,
                        "SELECT id, first_series, last_series, min_time, max_time, points, data"
                        " FROM block WHERE id BETWEEN ? AND ? ORDER BY id",
                        &blocks, err);
    while (rc == OTL_OK && (step = sqlite3_step(part)) == SQLITE_ROW)
        rc = check_part(c, part, blocks, (uint64_t)all, err);
    if (rc == OTL_OK)
        rc = stepped(c, step, "read the parts", err);
    c->counts->garbage_blocks = (uint64_t)garbage;
    (void)sqlite3_finalize(part);
    (void)sqlite3_finalize(blocks);
    return rc;
}

enum otl_err check_database(struct db *db, const struct check_report *report,
                            struct check_counts *out, struct otl_error *err)
{
    struct checker c = {.db = db, .report = report, .counts = out};
    enum otl_err rc;

    *out = (struct check_counts){0};
    rc = db_exec(db, "BEGIN", err);
    if (rc == OTL_OK)
        rc = check_pages(&c, err);
    if (rc == OTL_OK)
        rc = check_references(&c, err);
    if (rc == OTL_OK)
        rc = check_identities(&c, "resource", "identity", &out->resources, err);
    if (rc == OTL_OK)
        rc = check_identities(&c, "scope", "identity", &out->scopes, err);
    if (rc == OTL_OK)
        rc = check_identities(&c, "metric", "metadata_identity", &out->metrics, err);
    if (rc == OTL_OK)
        rc = check_identities(&c, "series", "identity", &out->series, err);
    if (rc == OTL_OK)
        rc = load_kinds(&c, err);
    if (rc == OTL_OK)
        rc = check_head(&c, err);
    if (rc == OTL_OK)
        rc = check_parts(&c, err);
    free(c.kinds);
    if (sqlite3_get_autocommit(db->sql) == 0)
        (void)sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL); /* nothing was written */
    return rc;
}
