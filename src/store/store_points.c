/* store_points.c -- one request as rows: which points are new, which are stored already, and the
 * statements that append them to the head. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "store_internal.h"

/* Scratch for more points than this is given back after the request. */
enum { KEEP_POINTS = 1 << 16 };

/* ---- statements ---- */

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

enum otl_err store_points_open(struct store *s, struct otl_error *err)
{
    enum otl_err rc = batch_source_register(&s->db, &s->source, err);

    if (rc == OTL_OK)
        rc = row_source_register(&s->db, &s->list, err);
    for (int k = 0; k < HEAD_KINDS; k++) {
        for (int h = 0; h < HEAD_HALVES && rc == OTL_OK; h++)
            rc = prepare_table(s, k, h, err);
    }
    return rc;
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

void store_points_close(struct store *s)
{
    for (int k = 0; k < HEAD_KINDS; k++) {
        for (int h = 0; h < HEAD_HALVES; h++) {
            (void)sqlite3_finalize(s->tables[k][h].insert);
            (void)sqlite3_finalize(s->tables[k][h].insert_from);
            (void)sqlite3_finalize(s->tables[k][h].insert_at_once);
            (void)sqlite3_finalize(s->tables[k][h].fetch);
        }
    }
    series_points_fini(&s->sealed);
    free_scratch(s);
    row_fini(&s->row);
    row_fini(&s->other_row);
    row_list_fini(&s->list);
}

void store_points_trim(struct store *s)
{
    row_list_trim(&s->list, KEEP_POINTS);
    if (s->cap_points > KEEP_POINTS)
        free_scratch(s);
}

/* ---- points ---- */

uint32_t store_points_count(const struct batch *b, enum point_kind kind)
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
    uint32_t n = store_points_count(s->batch, kind);
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

enum otl_err store_points_write(struct store *s, int64_t project_id, struct batch *b,
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
