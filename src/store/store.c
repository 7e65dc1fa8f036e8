#include "otlite/store.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "batch_source.h"
#include "catalogue.h"
#include "dedup.h"
#include "head_write.h"
#include "otlite/attrs.h"
#include "part.h"
#include "row_source.h"
#include "rows.h"
#include "schema.h"
#include "store_file.h"
#include "wal_vfs.h"

enum {
    /* Scratch for more points than this is given back after the request. */
    KEEP_POINTS = 1 << 16,
    /* Of parts that late points are looked for in. */
    PART_CACHE_BYTES = 16 << 20
};

/* The statements of one table of the head. */
struct head_statements {
    struct sqlite3_stmt *insert; /* all rows of the source; they get the ids after the greatest */
    struct sqlite3_stmt
        *insert_from; /* the same with ids: the parameter, plus the place in the source */
    struct sqlite3_stmt *insert_at_once; /* numbers of one time, start time and flags */
    struct sqlite3_stmt *fetch;          /* points: the columns of the row id */
};

/* What came of one request of a transaction. */
struct outcome {
    struct store_result result;
    struct bytes replaced_example;
    uint64_t conflicts;
    struct bytes conflict_example;
};

struct store {
    struct db db;
    struct store_opts opts;
    struct catalogue cat;
    struct dedup dedup;
    struct batch_source source;
    struct sqlite3_stmt *begin, *commit;
    struct head_statements tables[HEAD_KINDS][HEAD_HALVES];
    struct head_writer head;
    struct part_cache *part_cache;
    struct part_reader *parts; /* to look for late points */
    bool parts_fresh;          /* it has seen the parts of the transaction */
    struct series_points sealed;
    unsigned seen_version; /* data_version that the memory is as new as */
    int64_t wal_pages;

    /* Scratch of one transaction. */
    struct outcome *outcomes;
    uint32_t cap_outcomes;

    /* Scratch of the points of one type of one request. */
    struct dedup_key *keys;
    uint32_t *series;
    bool *late;
    size_t cap_points;
    struct row row, other_row;
    struct row_list list;

    /* The request under way. */
    const struct batch *batch;
    enum point_kind kind;
    bool at_once; /* all points of the kind have the same time, start time and flags */
    struct outcome *out;
};

/* ---- start and end ---- */

static int on_wal(void *arg, sqlite3 *sql, const char *name, int pages)
{
    struct store *s = arg;

    (void)sql;
    (void)name;
    s->wal_pages = pages;
    return SQLITE_OK;
}

static const char NUMBER_SOURCE[] = "series_id,time,start_time,flags,value FROM batch_source";

static enum otl_err prepare_inserts(struct store *s, const char *table, const char *columns,
                                    const char *source, struct head_statements *st,
                                    struct otl_error *err)
{
    char sql[640];
    enum otl_err rc;

    /* OR ROLLBACK: an insert that fails ends the transaction anyway, so SQLite need not keep what
     * would undo this statement alone. */
    (void)snprintf(sql, sizeof(sql), "INSERT OR ROLLBACK INTO %s(%s) SELECT %s", table, columns,
                   source);
    rc = db_prepare(&s->db, sql, &st->insert, err);
    if (rc != OTL_OK)
        return rc;
    (void)snprintf(sql, sizeof(sql), "INSERT OR ROLLBACK INTO %s(id,%s) SELECT ? + rowid, %s",
                   table, columns, source);
    return db_prepare(&s->db, sql, &st->insert_from, err);
}

static enum otl_err prepare_table(struct store *s, int kind, int half, struct otl_error *err)
{
    const char *table = head_table_name((enum series_kind)kind, half);
    const char *columns = kind == KIND_EXEMPLAR ? EXEMPLAR_COLUMNS : point_tables[kind].columns;
    int n = kind == KIND_EXEMPLAR ? EXEMPLAR_CELLS : point_tables[kind].n_columns;
    struct head_statements *st = &s->tables[kind][half];
    char sql[320], cells[5 * ROW_MAX_CELLS + 32];
    enum otl_err rc;
    int at = 0;

    for (int i = 0; i < n; i++)
        at += snprintf(cells + at, sizeof(cells) - (size_t)at, "%sc%d", i == 0 ? "" : ",", i);
    (void)snprintf(cells + at, sizeof(cells) - (size_t)at, " FROM row_source");
    rc = prepare_inserts(s, table, columns, kind == KIND_NUMBER ? NUMBER_SOURCE : cells, st, err);
    if (rc == OTL_OK && kind == KIND_NUMBER) {
        /* What one collection of an SDK gives; a parameter costs a third of a column. */
        (void)snprintf(sql, sizeof(sql),
                       "INSERT OR ROLLBACK INTO %s(%s) SELECT series_id,?,?,?,value"
                       " FROM batch_source",
                       table, columns);
        rc = db_prepare(&s->db, sql, &st->insert_at_once, err);
    }
    if (rc == OTL_OK && kind != KIND_EXEMPLAR) {
        (void)snprintf(sql, sizeof(sql), "SELECT %s FROM %s WHERE id = ?", columns, table);
        rc = db_prepare(&s->db, sql, &st->fetch, err);
    }
    return rc;
}

static enum otl_err prepare_all(struct store *s, struct otl_error *err)
{
    enum otl_err rc = batch_source_register(&s->db, &s->source, err);

    if (rc == OTL_OK)
        rc = row_source_register(&s->db, &s->list, err);
    if (rc == OTL_OK)
        rc = db_prepare(&s->db, "BEGIN IMMEDIATE", &s->begin, err);
    if (rc == OTL_OK)
        rc = db_prepare(&s->db, "COMMIT", &s->commit, err);
    for (int k = 0; k < HEAD_KINDS; k++) {
        for (int h = 0; h < HEAD_HALVES && rc == OTL_OK; h++)
            rc = prepare_table(s, k, h, err);
    }
    return rc;
}

/* Changes whenever this connection commits, or finds in a new transaction that another one did. */
static enum otl_err read_data_version(struct store *s, unsigned *out, struct otl_error *err)
{
    int rc = sqlite3_file_control(s->db.sql, "main", SQLITE_FCNTL_DATA_VERSION, out);

    return rc == SQLITE_OK ? OTL_OK : db_fail(&s->db, rc, "read data_version", err);
}

/* An older version than the true one only costs a look at the tables in the next transaction. */
static unsigned version_after_commit(struct store *s)
{
    unsigned version = 0;

    return read_data_version(s, &version, NULL) == OTL_OK ? version : s->seen_version;
}

/* Everything that is kept in memory, of one snapshot. */
static enum otl_err read_back(struct store *s, struct otl_error *err)
{
    enum otl_err rc = db_exec(&s->db, "BEGIN", err);

    if (rc == OTL_OK)
        rc = catalogue_load(&s->cat, err);
    if (rc == OTL_OK)
        rc = head_writer_sync(&s->head, err);
    if (rc == OTL_OK)
        rc = read_data_version(s, &s->seen_version, err);
    if (rc == OTL_OK)
        rc = db_exec(&s->db, "COMMIT", err);
    return rc;
}

static enum otl_err open_parts(struct store *s, struct otl_error *err)
{
    s->part_cache = part_cache_new(PART_CACHE_BYTES);
    if (s->part_cache == NULL)
        return otl_fail(err, OTL_ENOMEM, "parts: no memory");
    return part_reader_open(&s->db, s->part_cache, &s->parts, err);
}

enum otl_err store_new(const struct store_opts *o, struct store **out, struct otl_error *err)
{
    const struct head_limits limits = {o->head_max_rows, o->head_max_bytes, o->head_max_age_ms};
    struct otl_error mine = {0};
    struct store *s = calloc(1, sizeof(*s));
    enum otl_err rc;

    if (s == NULL)
        return otl_fail(err, OTL_ENOMEM, "open telemetry.db: no memory");
    s->opts = *o;
    s->opts.data_dir = NULL; /* the caller's, not needed any more */
    rc = store_open_writer(&s->db, o, &mine);
    if (rc == OTL_OK)
        rc = prepare_all(s, &mine);
    if (rc == OTL_OK)
        rc = catalogue_open(&s->cat, &s->db, &mine);
    if (rc == OTL_OK)
        rc = dedup_open(&s->dedup, &s->db, &s->cat, &mine);
    if (rc == OTL_OK)
        rc = head_writer_open(&s->head, &s->db, &s->cat, &s->dedup, &limits, &mine);
    if (rc == OTL_OK)
        rc = open_parts(s, &mine);
    if (rc == OTL_OK)
        rc = read_back(s, &mine);
    if (rc != OTL_OK) {
        size_t n = strlen(s->db.path);

        if (n > 0 && strncmp(mine.msg, s->db.path, n) != 0)
            (void)otl_wrap(&mine, "%s", s->db.path);
        if (err != NULL)
            *err = mine;
        store_free(s);
        return rc;
    }
    (void)sqlite3_wal_hook(s->db.sql, on_wal, s);
    *out = s;
    return OTL_OK;
}

static void free_scratch(struct store *s)
{
    free(s->keys);
    free(s->series);
    free(s->late);
    s->keys = NULL;
    s->series = NULL;
    s->late = NULL;
    s->cap_points = 0;
}

void store_free(struct store *s)
{
    if (s == NULL)
        return;
    for (int k = 0; k < HEAD_KINDS; k++) {
        for (int h = 0; h < HEAD_HALVES; h++) {
            (void)sqlite3_finalize(s->tables[k][h].insert);
            (void)sqlite3_finalize(s->tables[k][h].insert_from);
            (void)sqlite3_finalize(s->tables[k][h].insert_at_once);
            (void)sqlite3_finalize(s->tables[k][h].fetch);
        }
    }
    (void)sqlite3_finalize(s->begin);
    (void)sqlite3_finalize(s->commit);
    head_writer_close(&s->head);
    part_reader_close(s->parts);
    part_cache_free(s->part_cache);
    series_points_fini(&s->sealed);
    dedup_close(&s->dedup);
    catalogue_close(&s->cat);
    free_scratch(s);
    free(s->outcomes);
    row_fini(&s->row);
    row_fini(&s->other_row);
    row_list_fini(&s->list);
    db_close(&s->db);
    free(s);
}

/* ---- transactions ---- */

/* An error may have ended the transaction by itself (full, I/O, no memory), so look. */
static void end_transaction(struct store *s)
{
    if (!sqlite3_get_autocommit(s->db.sql))
        (void)sqlite3_exec(s->db.sql, "ROLLBACK", NULL, NULL, NULL);
}

static enum otl_err begin(struct store *s, int64_t busy_ms, struct otl_error *err)
{
    int64_t wait = busy_ms < s->opts.busy_timeout_ms ? busy_ms : s->opts.busy_timeout_ms;

    end_transaction(s); /* in case a ROLLBACK failed */
    (void)sqlite3_busy_timeout(s->db.sql, wait < 0 ? 0 : wait > INT32_MAX ? INT32_MAX : (int)wait);
    return db_run(&s->db, s->begin, "begin a transaction", err);
}

/* Inside the transaction: take in what another process committed since. */
static enum otl_err catch_up(struct store *s, struct otl_error *err)
{
    unsigned version = 0;
    enum otl_err rc = read_data_version(s, &version, err);

    if (rc != OTL_OK || version == s->seen_version)
        return rc;
    rc = catalogue_load(&s->cat, err);
    if (rc == OTL_OK)
        rc = head_writer_sync(&s->head, err);
    if (rc == OTL_OK)
        s->seen_version = version;
    return rc;
}

static void begin_memory(struct store *s)
{
    catalogue_begin(&s->cat);
    dedup_begin(&s->dedup);
    head_writer_begin(&s->head);
    s->parts_fresh = false;
}

/* Commit if rc is OTL_OK, else roll back, and the memory with it. */
static enum otl_err end_memory(struct store *s, enum otl_err rc, struct otl_error *err)
{
    if (rc == OTL_OK)
        rc = db_run(&s->db, s->commit, "commit", err);
    if (rc == OTL_OK) {
        catalogue_commit(&s->cat);
        head_writer_commit(&s->head);
        s->seen_version = version_after_commit(s);
    } else {
        end_transaction(s);
        dedup_rollback(&s->dedup);
        head_writer_rollback(&s->head);
        catalogue_rollback(&s->cat);
    }
    return rc;
}

/* ---- points ---- */

static uint32_t count_of(const struct batch *b, enum point_kind kind)
{
    switch (kind) {
    case POINT_NUMBER:
        return b->n_numbers;
    case POINT_HISTOGRAM:
        return b->n_histograms;
    case POINT_EXPONENTIAL:
        return b->n_exponentials;
    case POINT_SUMMARY:
        return b->n_summaries;
    case POINT_KINDS:
        break;
    }
    return 0;
}

static const struct point *point_at(const struct batch *b, enum point_kind kind, uint32_t i)
{
    switch (kind) {
    case POINT_HISTOGRAM:
        return &b->histograms[i].p;
    case POINT_EXPONENTIAL:
        return &b->exponentials[i].p;
    case POINT_SUMMARY:
        return &b->summaries[i].p;
    case POINT_NUMBER:
    case POINT_KINDS:
        break;
    }
    return &b->numbers[i].p;
}

static struct bytes metric_name_of(const struct batch *b, enum point_kind kind, uint32_t i)
{
    return b->metrics[b->series[point_at(b, kind, i)->series].metric].name;
}

/* Point i of the kind under way as a row. */
static enum otl_err encode(struct store *s, uint32_t i, struct row *out, struct otl_error *err)
{
    const struct batch *b = s->batch;
    int64_t series_id = s->keys[i].series_id;
    int64_t bounds_id = 0;
    bool ok = false;

    switch (s->kind) {
    case POINT_NUMBER:
        ok = row_number(out, series_id, &b->numbers[i]);
        break;
    case POINT_HISTOGRAM:
        if (b->histograms[i].n_counts > 0) {
            enum otl_err rc = catalogue_bounds(&s->cat, b->histograms[i].bounds,
                                               b->histograms[i].n_bounds, &bounds_id, err);

            if (rc != OTL_OK)
                return rc;
        }
        ok = row_histogram(out, series_id, &b->histograms[i], bounds_id);
        break;
    case POINT_EXPONENTIAL:
        ok = row_exponential(out, series_id, &b->exponentials[i]);
        break;
    case POINT_SUMMARY:
        ok = row_summary(out, series_id, &b->summaries[i]);
        break;
    case POINT_KINDS:
        break;
    }
    return ok ? OTL_OK : otl_fail(err, OTL_ENOMEM, "encode a point: no memory");
}

static enum otl_err equals_stored(void *arg, uint32_t i, int half, int64_t id, bool *equal,
                                  struct otl_error *err)
{
    struct store *s = arg;
    struct sqlite3_stmt *st = s->tables[s->kind][half].fetch;
    enum otl_err rc = encode(s, i, &s->row, err);
    int step;

    if (rc != OTL_OK)
        return rc;
    step = sqlite3_bind_int64(st, 1, id);
    if (step == SQLITE_OK)
        step = sqlite3_step(st);
    if (step == SQLITE_ROW)
        *equal = row_equals_stored(&s->row, st);
    else
        rc = db_fail(&s->db, step == SQLITE_DONE ? SQLITE_CORRUPT : step, "read a point", err);
    (void)sqlite3_reset(st);
    return rc;
}

static enum otl_err equals_sealed(void *arg, uint32_t i, bool *found, bool *equal,
                                  struct otl_error *err)
{
    struct store *s = arg;
    const struct dedup_key *key = &s->keys[i];
    enum otl_err rc = OTL_OK;

    if (!s->parts_fresh)
        rc = part_reader_refresh(s->parts, err);
    if (rc != OTL_OK)
        return rc;
    s->parts_fresh = true;
    series_points_fini(&s->sealed);
    series_points_init(&s->sealed, (enum series_kind)s->kind);
    rc = part_lookup(s->parts, (enum series_kind)s->kind, key->series_id, key->time,
                     key->start_time, &s->sealed, found, err);
    if (rc != OTL_OK || !*found)
        return rc;
    rc = encode(s, i, &s->row, err);
    if (rc != OTL_OK)
        return rc;
    if (!series_points_row(&s->sealed, 0, key->series_id, &s->other_row))
        return otl_fail(err, OTL_ENOMEM, "look for a resend: no memory");
    *equal = row_equal(&s->row, &s->other_row);
    return OTL_OK;
}

static enum otl_err equals_point(void *arg, uint32_t i, uint32_t j, bool *equal,
                                 struct otl_error *err)
{
    struct store *s = arg;
    enum otl_err rc = encode(s, i, &s->row, err);

    if (rc == OTL_OK)
        rc = encode(s, j, &s->other_row, err);
    if (rc == OTL_OK)
        *equal = row_equal(&s->row, &s->other_row);
    return rc;
}

/* Run the insert of a kind's open half. Rows without ids cost less. */
static enum otl_err run_insert(struct store *s, int kind, bool at_once, uint32_t n,
                               struct otl_error *err)
{
    int half = head_writer_open_half(&s->head, kind);
    const struct head_half *h = &s->head.halves[kind][half];
    struct head_statements *st = &s->tables[kind][half];
    int64_t last = h->last_id + n;
    enum otl_err rc = OTL_OK;
    int b = SQLITE_OK;

    if (!h->follows) {
        b = sqlite3_bind_int64(st->insert_from, 1, h->last_id + 1);
    } else if (at_once) {
        const struct point *p = &s->batch->numbers[0].p;

        b = sqlite3_bind_int64(st->insert_at_once, 1, p->time);
        b |= sqlite3_bind_int64(st->insert_at_once, 2, p->start_time);
        b |= sqlite3_bind_int64(st->insert_at_once, 3, p->flags);
    }
    if (b != SQLITE_OK)
        return db_fail(&s->db, SQLITE_NOMEM, "bind a row", err);
    rc = db_run(&s->db,
                !h->follows ? st->insert_from
                : at_once   ? st->insert_at_once
                            : st->insert,
                kind == KIND_EXEMPLAR ? "insert exemplars" : "insert points", err);
    if (rc == OTL_OK && sqlite3_last_insert_rowid(s->db.sql) != last)
        rc = otl_fail(err, OTL_EINTERNAL, "insert into %s: row %lld came out as %lld",
                      head_table_name((enum series_kind)kind, half), (long long)last,
                      (long long)sqlite3_last_insert_rowid(s->db.sql));
    return rc;
}

/* Append n points of which, or (NULL) the first n. */
static enum otl_err insert_numbers(struct store *s, const uint32_t *which, uint32_t n,
                                   struct otl_error *err)
{
    enum otl_err rc;

    s->source = (struct batch_source){{0, n}, s->keys, s->batch->numbers, which};
    rc = run_insert(s, KIND_NUMBER, s->at_once, n, err);
    s->source = (struct batch_source){.keys = NULL};
    return rc == OTL_OK ? head_writer_numbers(&s->head, s->keys, s->batch->numbers, which, n, err)
                        : rc;
}

/* Append the rows of the list to the head of a kind. */
static enum otl_err insert_list(struct store *s, int kind, struct otl_error *err)
{
    enum otl_err rc;

    if (s->list.rows.n == 0)
        return OTL_OK;
    rc = run_insert(s, kind, false, s->list.rows.n, err);
    return rc == OTL_OK ? head_writer_rows(&s->head, (enum series_kind)kind, &s->list, err) : rc;
}

/* insert_numbers for the other kinds. */
static enum otl_err insert_rows(struct store *s, const uint32_t *which, uint32_t n,
                                struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    row_list_reset(&s->list, point_tables[s->kind].n_columns);
    for (uint32_t i = 0; i < n && rc == OTL_OK; i++) {
        rc = encode(s, which == NULL ? i : which[i], &s->row, err);
        if (rc == OTL_OK && !row_list_add(&s->list, &s->row))
            rc = otl_fail(err, OTL_ENOMEM, "insert points: no memory");
    }
    return rc == OTL_OK ? insert_list(s, (int)s->kind, err) : rc;
}

/* Append exemplar e (NULL: a mark) of point i to the list. */
static enum otl_err note_exemplar(struct store *s, uint32_t i, const struct batch_exemplar *e,
                                  struct otl_error *err)
{
    if (row_exemplar(&s->row, s->keys[i].series_id, point_at(s->batch, s->kind, i), e) &&
        row_list_add(&s->list, &s->row))
        return OTL_OK;
    return otl_fail(err, OTL_ENOMEM, "insert an exemplar: no memory");
}

/* The exemplars of n points of which, or (NULL) of the first n; before them a mark for each point
 * that replaces a stored one, whose exemplars count no longer. */
static enum otl_err insert_exemplars(struct store *s, const uint32_t *which, uint32_t n,
                                     const uint32_t *replacing, uint32_t n_replacing,
                                     struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    row_list_reset(&s->list, EXEMPLAR_CELLS);
    for (uint32_t i = 0; i < n_replacing && rc == OTL_OK; i++)
        rc = note_exemplar(s, replacing[i], NULL, err);
    for (uint32_t i = 0; i < n && rc == OTL_OK && s->batch->n_exemplars > 0; i++) {
        uint32_t j = which == NULL ? i : which[i];
        const struct point *p = point_at(s->batch, s->kind, j);

        for (uint32_t e = 0; e < p->n_exemplars && rc == OTL_OK; e++)
            rc = note_exemplar(s, j, &s->batch->exemplars[p->first_exemplar + e], err);
        s->out->result.exemplars += p->n_exemplars;
    }
    return rc == OTL_OK ? insert_list(s, KIND_EXEMPLAR, err) : rc;
}

/* Append n points, n > 0, of which, or (NULL) the first n, and their exemplars. */
static enum otl_err insert_points(struct store *s, const uint32_t *which, uint32_t n,
                                  const uint32_t *replacing, uint32_t n_replacing,
                                  struct otl_error *err)
{
    enum otl_err rc =
        s->kind == POINT_NUMBER ? insert_numbers(s, which, n, err) : insert_rows(s, which, n, err);

    if (rc == OTL_OK && (s->batch->n_exemplars > 0 || n_replacing > 0))
        rc = insert_exemplars(s, which, n, replacing, n_replacing, err);
    s->out->result.stored += n - n_replacing;
    return rc;
}

static enum otl_err apply_plan(struct store *s, const struct dedup_plan *plan,
                               struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    if (plan->n_insert > 0)
        rc =
            insert_points(s, plan->insert, plan->n_insert, plan->replacing, plan->n_replacing, err);
    s->out->result.merged += plan->merged;
    if (plan->replaced > 0 && s->out->result.replaced == 0)
        s->out->replaced_example = metric_name_of(s->batch, s->kind, plan->replaced_example);
    s->out->result.replaced += plan->replaced;
    return rc;
}

/* All points of one type. */
static enum otl_err store_kind(struct store *s, enum point_kind kind, struct otl_error *err)
{
    const struct dedup_compare cmp = {s, equals_stored, equals_sealed, equals_point};
    const struct dedup_plan *plan;
    uint32_t n = count_of(s->batch, kind);
    uint32_t first_flags = n == 0 ? 0 : point_at(s->batch, kind, 0)->flags;
    bool any_late = false;
    enum otl_err rc;

    s->kind = kind;
    s->at_once = true;
    for (uint32_t i = 0; i < n; i++) {
        const struct point *p = point_at(s->batch, kind, i);
        uint32_t entry = s->cat.series[p->series];
        const struct dict_entry *e = catalogue_series(&s->cat, entry);

        s->keys[i] = (struct dedup_key){e->id, p->time, p->start_time};
        s->series[i] = entry;
        s->late[i] = p->time <= e->note.series.last_time;
        s->at_once = s->at_once && p->time == s->keys[0].time &&
                     p->start_time == s->keys[0].start_time && p->flags == first_flags;
        if (s->late[i])
            any_late = true;
        else
            catalogue_set_last_time(&s->cat, entry, p->time);
    }
    if (n == 0)
        return OTL_OK;
    if (!any_late)
        return insert_points(s, NULL, n, NULL, 0, err);
    rc = dedup_resolve(&s->dedup, kind, head_writer_open_half(&s->head, (int)kind), s->keys,
                       s->series, s->late, n, &cmp, &plan, err);
    return rc == OTL_OK ? apply_plan(s, plan, err) : rc;
}

/* Scratch for n points of one type. */
static bool reserve_scratch(struct store *s, size_t n)
{
    if (n <= s->cap_points)
        return true;
    free_scratch(s);
    s->keys = malloc(n * sizeof(*s->keys));
    s->series = malloc(n * sizeof(*s->series));
    s->late = malloc(n * sizeof(*s->late));
    if (s->keys == NULL || s->series == NULL || s->late == NULL)
        return false;
    s->cap_points = n;
    return true;
}

/* One request, between BEGIN and COMMIT. */
static enum otl_err write_batch(struct store *s, int64_t project_id, struct batch *b,
                                struct outcome *out, struct otl_error *err)
{
    size_t n = (size_t)batch_storable(b);
    enum otl_err rc;

    *out = (struct outcome){0};
    s->batch = b;
    s->out = out;
    if (!reserve_scratch(s, n)) {
        free_scratch(s);
        return otl_fail(err, OTL_ENOMEM, "store a request of %zu points: no memory", n);
    }
    rc = catalogue_resolve(&s->cat, project_id, b, err);
    out->conflicts = s->cat.conflicts;
    out->conflict_example = s->cat.conflict_example;
    for (int k = 0; k < POINT_KINDS && rc == OTL_OK; k++)
        rc = store_kind(s, (enum point_kind)k, err);
    s->batch = NULL;
    s->out = NULL;
    return rc;
}

/* Sealing does not keep up: the head must not grow without bound. */
static enum otl_err refuse_when_full(const struct store *s, const struct batch *b,
                                     struct otl_error *err)
{
    for (int k = 0; k < HEAD_KINDS; k++) {
        uint32_t n = k == KIND_EXEMPLAR ? b->n_exemplars : count_of(b, (enum point_kind)k);

        if (n > 0 && head_writer_is_full(&s->head, (enum series_kind)k))
            return otl_fail(err, OTL_EBUSY,
                            "the head holds %d times head.max_rows rows of kind %s because sealing "
                            "does not keep up; send again later",
                            HEAD_FULL_FACTOR, series_schemas[k].name);
    }
    return OTL_OK;
}

/* All requests, from BEGIN to COMMIT. */
static enum otl_err write_all(struct store *s, const struct store_request *r, uint32_t n,
                              int64_t busy_ms, struct otl_error *err)
{
    enum otl_err rc = begin(s, busy_ms, err);

    if (rc == OTL_OK)
        rc = catch_up(s, err);
    if (rc != OTL_OK) {
        end_transaction(s);
        return rc;
    }
    begin_memory(s);
    rc = head_writer_rotate_due(&s->head, err);
    for (uint32_t i = 0; i < n && rc == OTL_OK; i++)
        rc = refuse_when_full(s, r[i].batch, err);
    for (uint32_t i = 0; i < n && rc == OTL_OK; i++)
        rc = write_batch(s, r[i].project_id, r[i].batch, &s->outcomes[i], err);
    rc = end_memory(s, rc, err);
    row_list_trim(&s->list, KEEP_POINTS);
    if (s->cap_points > KEEP_POINTS)
        free_scratch(s);
    return rc;
}

static bool reserve_outcomes(struct store *s, uint32_t n)
{
    struct outcome *p;

    if (n <= s->cap_outcomes)
        return true;
    p = realloc(s->outcomes, n * sizeof(*p));
    if (p == NULL)
        return false;
    s->outcomes = p;
    s->cap_outcomes = n;
    return true;
}

static void report(const struct outcome *o, const struct store_request *r)
{
    *r->result = o->result;
    if (o->conflicts > 0) {
        batch_warn(r->batch, WARN_NAME_CONFLICT, o->conflict_example);
        r->batch->warnings[WARN_NAME_CONFLICT] += o->conflicts - 1;
    }
    if (o->result.replaced > 0) {
        batch_warn(r->batch, WARN_DUPLICATE_POINT, o->replaced_example);
        r->batch->warnings[WARN_DUPLICATE_POINT] += o->result.replaced - 1;
    }
}

enum otl_err store_requests(struct store *s, const struct store_request *r, uint32_t n,
                            int64_t busy_ms, struct otl_error *err)
{
    uint64_t points = 0;
    enum otl_err rc = OTL_OK;

    if (!reserve_outcomes(s, n))
        return otl_fail(err, OTL_ENOMEM, "store %u requests: no memory", n);
    for (uint32_t i = 0; i < n; i++) {
        s->outcomes[i] = (struct outcome){0};
        points += batch_storable(r[i].batch);
    }
    if (points > 0)
        rc = write_all(s, r, n, busy_ms, err);
    for (uint32_t i = 0; i < n && rc == OTL_OK; i++)
        report(&s->outcomes[i], &r[i]);
    return rc;
}

enum otl_err store_batch(struct store *s, int64_t project_id, struct batch *b, int64_t busy_ms,
                         struct store_result *out, struct otl_error *err)
{
    const struct store_request r = {project_id, b, out};

    return store_requests(s, &r, 1, busy_ms, err);
}

enum otl_err store_task(struct store *s, store_task_fn *task, void *arg, int64_t busy_ms,
                        struct otl_error *err)
{
    enum otl_err rc = begin(s, busy_ms, err);

    if (rc == OTL_OK)
        rc = catch_up(s, err);
    if (rc != OTL_OK) {
        end_transaction(s);
        return rc;
    }
    begin_memory(s);
    rc = task(arg, s, &s->db, err);
    return end_memory(s, rc, err);
}

enum otl_err store_rotate(struct store *s, int kind, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    for (int k = 0; k < HEAD_KINDS; k++) {
        if (kind == KIND_ALL || kind == k) {
            enum otl_err one = head_writer_rotate(&s->head, (enum series_kind)k, err);

            if (one != OTL_OK && one != OTL_EBUSY)
                return one;
            if (one != OTL_OK)
                rc = one;
        }
    }
    return rc;
}

static enum otl_err rotate_due(void *arg, struct store *s, struct db *db, struct otl_error *err)
{
    (void)arg;
    (void)db;
    return head_writer_rotate_due(&s->head, err);
}

enum otl_err store_rotate_due(struct store *s, struct otl_error *err)
{
    return head_writer_is_due(&s->head) ? store_task(s, rotate_due, NULL, 0, err) : OTL_OK;
}

enum otl_err store_seal(struct store *s, int kind, int half, int64_t epoch, struct otl_error *err)
{
    return head_writer_seal(&s->head, (enum series_kind)kind, half, epoch, err);
}

enum otl_err store_forget_series(struct store *s, const int64_t *ids, size_t n, int64_t not_since,
                                 uint64_t *forgotten, struct otl_error *err)
{
    struct dict *series = &s->cat.dicts[CAT_SERIES];
    struct sqlite3_stmt *st = NULL;
    enum otl_err rc = db_prepare(&s->db, "DELETE FROM series WHERE id = ?", &st, err);

    *forgotten = 0;
    for (size_t i = 0; i < n && rc == OTL_OK; i++) {
        uint32_t entry = dict_find_id(series, ids[i]);

        if (entry == DICT_NONE || ids[i] == dict_last_id(series) ||
            catalogue_is_forgotten(&s->cat, entry) ||
            catalogue_series(&s->cat, entry)->note.series.last_time >= not_since ||
            head_writer_has_series(&s->head, ids[i]))
            continue;
        if (sqlite3_bind_int64(st, 1, ids[i]) != SQLITE_OK || !catalogue_forget(&s->cat, entry))
            rc = otl_fail(err, OTL_ENOMEM, "delete a series: no memory");
        else
            rc = db_run(&s->db, st, "delete a series", err);
        *forgotten += rc == OTL_OK;
    }
    (void)sqlite3_finalize(st);
    return rc;
}

struct head_mirror *store_mirror(struct store *s)
{
    return s->head.mirror;
}

enum otl_err store_probe(struct store *s, int64_t busy_ms, struct otl_error *err)
{
    char sql[48];
    enum otl_err rc = begin(s, busy_ms, err);

    /* Writes page 1 as it is: enough to need the log, and room on the disk. */
    (void)snprintf(sql, sizeof(sql), "PRAGMA user_version = %d", telemetry_migration_count);
    if (rc == OTL_OK)
        rc = db_exec(&s->db, sql, err);
    if (rc == OTL_OK)
        rc = db_run(&s->db, s->commit, "commit", err);
    if (rc != OTL_OK)
        end_transaction(s);
    return rc; /* the next request finds a new data_version, and nothing that it did not know */
}

void store_keep(struct store *s, enum store_keep keep)
{
    static const enum wal_keep of_wal[] = {[STORE_KEEP_NOTHING] = WAL_KEEP_NOTHING,
                                           [STORE_KEEP_LOCKS] = WAL_KEEP_LOCKS,
                                           [STORE_KEEP_LOG] = WAL_KEEP_MARK};

    wal_vfs_keep(s->db.sql, of_wal[keep]);
}

/* ---- the log ---- */

int64_t store_wal_pages(const struct store *s)
{
    return s->wal_pages;
}

enum otl_err store_checkpoint(struct store *s, bool truncate, int64_t busy_ms,
                              struct otl_error *err)
{
    int pages = 0, moved = 0, rc;

    (void)sqlite3_busy_timeout(s->db.sql, busy_ms < 0           ? 0
                                          : busy_ms > INT32_MAX ? INT32_MAX
                                                                : (int)busy_ms);
    rc = sqlite3_wal_checkpoint_v2(
        s->db.sql, NULL, truncate ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE, &pages,
        &moved);
    if (rc != SQLITE_OK)
        return db_fail(&s->db, rc, "checkpoint", err);
    s->wal_pages = pages < 0 ? 0 : pages;
    /* Pages of points are written once and not read again here: what they leave in the cache would
     * only make the next ones take new memory, page by page, up to the cache's limit. */
    (void)sqlite3_db_release_memory(s->db.sql);
    return OTL_OK;
}

int64_t store_series_count(const struct store *s)
{
    return (int64_t)s->cat.dicts[CAT_SERIES].n - s->cat.forgotten;
}

/* ---- room ---- */

enum otl_err store_used_bytes(struct store *s, int64_t *out, struct otl_error *err)
{
    int64_t pages = 0, free_pages = 0, size = 0;
    enum otl_err rc = db_query_int(&s->db, "PRAGMA page_count", &pages, err);

    if (rc == OTL_OK)
        rc = db_query_int(&s->db, "PRAGMA freelist_count", &free_pages, err);
    if (rc == OTL_OK)
        rc = db_query_int(&s->db, "PRAGMA page_size", &size, err);
    if (rc == OTL_OK)
        *out = (pages - free_pages) * size;
    return rc;
}

enum otl_err store_limit_file(struct store *s, int64_t max_bytes, struct otl_error *err)
{
    int64_t size = 0, set;
    char sql[64];
    enum otl_err rc = db_query_int(&s->db, "PRAGMA page_size", &size, err);

    if (rc != OTL_OK || size <= 0)
        return rc;
    (void)snprintf(sql, sizeof(sql), "PRAGMA max_page_count = %lld", (long long)(max_bytes / size));
    return db_query_int(&s->db, sql, &set, err);
}
