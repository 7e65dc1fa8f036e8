/* The live parts of one connection's snapshot, and their block rows. */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "part_internal.h"

static const char GENERATION[] = "SELECT n FROM part_generation";
static const char PARTS[] =
    "SELECT id, kind, resolution, day, sequence, min_time, max_time, points,"
    " blocks, bytes FROM part WHERE live = 1";
static const char ROWS[] = "SELECT id, first_series, last_series, min_time, max_time, points"
                           " FROM block WHERE id BETWEEN ?1 AND ?2 ORDER BY id";
static const char DATA[] = "SELECT data FROM block WHERE id = ?1";

static enum otl_err no_memory(struct otl_error *err)
{
    return otl_fail(err, OTL_ENOMEM, "read the parts: no memory");
}

/* ---- the parts ---- */

static int compare_ints(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_parts(const void *pa, const void *pb)
{
    const struct part_info *a = pa, *b = pb;
    int c = compare_ints((int64_t)a->kind, (int64_t)b->kind);

    if (c == 0)
        c = compare_ints(a->resolution, b->resolution);
    if (c == 0)
        c = compare_ints(a->day, b->day);
    if (c == 0)
        c = compare_ints(a->sequence, b->sequence);
    return c != 0 ? c : compare_ints(a->id, b->id);
}

static bool kind_of(const char *name, enum series_kind *out)
{
    for (int k = 0; name != NULL && k < SERIES_KINDS; k++) {
        if (strcmp(series_schemas[k].name, name) == 0) {
            *out = (enum series_kind)k;
            return true;
        }
    }
    return false;
}

/* The row st stands on. False: a part that this program cannot read; it was reported. */
static bool read_part(struct sqlite3_stmt *st, struct part_info *p)
{
    const char *kind = (const char *)sqlite3_column_text(st, 1);
    char what[200];

    p->id = sqlite3_column_int64(st, 0);
    if (!kind_of(kind, &p->kind)) {
        (void)snprintf(what, sizeof(what),
                       "the part is of a kind that this otlite does not know: %s",
                       kind != NULL ? kind : "NULL");
        part_damage((int64_t)((uint64_t)p->id << PART_BLOCK_BITS), -1, what);
        return false;
    }
    p->resolution = sqlite3_column_int(st, 2);
    p->day = sqlite3_column_int64(st, 3);
    p->sequence = sqlite3_column_int64(st, 4);
    p->min_time = sqlite3_column_int64(st, 5);
    p->max_time = sqlite3_column_int64(st, 6);
    p->points = (uint64_t)sqlite3_column_int64(st, 7);
    p->blocks = (uint64_t)sqlite3_column_int64(st, 8);
    p->bytes = (uint64_t)sqlite3_column_int64(st, 9);
    if (p->id <= 0 || p->id > INT64_MAX >> PART_BLOCK_BITS || p->min_time > p->max_time ||
        part_day(p->min_time) < p->day) {
        part_damage((int64_t)((uint64_t)p->id << PART_BLOCK_BITS), -1,
                    "the part's row cannot be right: id, day or times");
        return false;
    }
    return true;
}

static enum otl_err read_parts(struct part_reader *r, struct part_info **out, size_t *out_n,
                               struct otl_error *err)
{
    struct part_info *parts = NULL;
    enum otl_err rc = OTL_OK;
    size_t n = 0, cap = 0;
    int step;

    while ((step = sqlite3_step(r->parts_st)) == SQLITE_ROW) {
        if (n == cap) {
            struct part_info *p = realloc(parts, (cap = cap * 2 + 64) * sizeof(*p));

            if (p == NULL) {
                rc = no_memory(err);
                break;
            }
            parts = p;
        }
        n += read_part(r->parts_st, &parts[n]);
    }
    if (rc == OTL_OK && step != SQLITE_DONE)
        rc = db_fail(r->db, step, "read table part", err);
    (void)sqlite3_reset(r->parts_st);
    if (rc != OTL_OK) {
        free(parts);
        return rc;
    }
    if (n > 1)
        qsort(parts, n, sizeof(*parts), compare_parts);
    *out = parts;
    *out_n = n;
    return OTL_OK;
}

static void put_lists(struct part_reader *r)
{
    for (size_t i = 0; i < r->n; i++) {
        if (r->lists[i] != NULL)
            part_cache_put_list(r->cache, r->lists[i]);
    }
}

/* Both old and new are in the order of compare_parts: what stays, stays with its list. */
static void carry_lists(struct part_reader *r, const struct part_info *parts,
                        struct part_list **lists, size_t n)
{
    size_t j = 0;

    for (size_t i = 0; i < n; i++) {
        while (j < r->n && compare_parts(&r->parts[j], &parts[i]) < 0)
            j++;
        if (j < r->n && r->parts[j].id == parts[i].id) {
            lists[i] = r->lists[j];
            r->lists[j] = NULL;
        }
    }
}

static enum otl_err read_generation(struct part_reader *r, int64_t *out, struct otl_error *err)
{
    int step = sqlite3_step(r->generation_st);
    enum otl_err rc = OTL_OK;

    if (step == SQLITE_ROW)
        *out = sqlite3_column_int64(r->generation_st, 0);
    else if (step == SQLITE_DONE)
        rc = otl_fail(err, OTL_ECORRUPT,
                      "table part_generation is empty; the database was changed from outside, "
                      "restore a backup");
    else
        rc = db_fail(r->db, step, "read table part_generation", err);
    (void)sqlite3_reset(r->generation_st);
    return rc;
}

enum otl_err part_reader_refresh(struct part_reader *r, struct otl_error *err)
{
    struct part_info *parts;
    struct part_list **lists;
    int64_t generation = 0;
    size_t n;
    enum otl_err rc = read_generation(r, &generation, err);

    if (rc != OTL_OK || (r->refreshed && generation == r->generation))
        return rc;
    rc = read_parts(r, &parts, &n, err);
    if (rc != OTL_OK)
        return rc;
    lists = calloc(n > 0 ? n : 1, sizeof(struct part_list *));
    if (lists == NULL) {
        free(parts);
        return no_memory(err);
    }
    carry_lists(r, parts, lists, n);
    put_lists(r);
    free(r->parts);
    free(r->lists);
    r->parts = parts;
    r->lists = lists;
    r->n = n;
    r->days = 0;
    for (size_t i = 0; i < n; i++) {
        if (part_day(parts[i].max_time) - parts[i].day > r->days)
            r->days = part_day(parts[i].max_time) - parts[i].day;
    }
    r->generation = generation;
    r->refreshed = true;
    return OTL_OK;
}

const struct part_info *part_reader_parts(const struct part_reader *r, size_t *n)
{
    *n = r->n;
    return r->parts;
}

/* First part from `from` on that is not before (kind, resolution, day). */
static size_t first_part(const struct part_reader *r, size_t from, enum series_kind kind,
                         int resolution, int64_t day)
{
    const struct part_info key = {
        .kind = kind, .resolution = resolution, .day = day, .sequence = INT64_MIN, .id = INT64_MIN};
    size_t lo = from, hi = r->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (compare_parts(&r->parts[mid], &key) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

void part_reader_range(const struct part_reader *r, enum series_kind kind, int resolution,
                       int64_t first_day, int64_t last_day, size_t *at, size_t *n)
{
    *at = first_part(r, 0, kind, resolution, first_day - r->days);
    *n = first_part(r, *at, kind, resolution, last_day + 1) - *at;
}

/* ---- block rows ---- */

/* The row st stands on, number `number` of the part or a later one, after row before (NULL: none).
 * False: it cannot be right; it was reported. */
static bool read_row(struct sqlite3_stmt *st, const struct block_row *before, struct block_row *row)
{
    int64_t id = sqlite3_column_int64(st, 0);

    row->number = (uint32_t)(id & ((1 << PART_BLOCK_BITS) - 1));
    row->first_series = sqlite3_column_int64(st, 1);
    row->last_series = sqlite3_column_int64(st, 2);
    row->min_time = sqlite3_column_int64(st, 3);
    row->max_time = sqlite3_column_int64(st, 4);
    row->points = (uint64_t)sqlite3_column_int64(st, 5);
    if (row->first_series <= row->last_series && row->min_time <= row->max_time &&
        (before == NULL || before->last_series <= row->first_series))
        return true;
    part_damage(id, -1, "the block's row cannot be right: series or times");
    return false;
}

static uint64_t report_missing(int64_t part_id, uint64_t first, uint64_t end)
{
    char what[120];

    if (first >= end)
        return 0;
    (void)snprintf(what, sizeof(what), "blocks %" PRIu64 " to %" PRIu64 " of the part are missing",
                   first, end - 1);
    part_damage(part_id << PART_BLOCK_BITS | (int64_t)first, -1, what);
    return end - first;
}

/* Blocks there are beyond those that the part's row tells of, or fewer. */
static uint64_t report_count(const struct part_info *p, uint64_t end)
{
    if (end <= p->blocks)
        return report_missing(p->id, end, p->blocks);
    part_damage(p->id << PART_BLOCK_BITS | (int64_t)p->blocks, -1,
                "the part has more blocks than its row says");
    return 1;
}

/* Append the rows of part p to l. A damaged page of the table ends them, and what came before is
 * kept. */
static enum otl_err read_rows(struct part_reader *r, const struct part_info *p, struct part_list *l,
                              struct otl_error *err)
{
    uint64_t end = 0; /* number that comes next */
    struct block_row row;
    struct otl_error mine;
    enum otl_err rc = OTL_OK;
    int step = SQLITE_DONE;

    if (err == NULL)
        err = &mine; /* its message may go to part_damage */
    if (sqlite3_bind_int64(r->rows_st, 1, p->id << PART_BLOCK_BITS) != SQLITE_OK ||
        sqlite3_bind_int64(r->rows_st, 2,
                           p->id << PART_BLOCK_BITS | ((1 << PART_BLOCK_BITS) - 1)) != SQLITE_OK)
        return db_fail(r->db, sqlite3_errcode(r->db->sql), "read table block", err);
    while (rc == OTL_OK && (step = sqlite3_step(r->rows_st)) == SQLITE_ROW) {
        bool good = read_row(r->rows_st, l->n > 0 ? &l->rows[l->n - 1] : NULL, &row);

        l->damaged += report_missing(p->id, end, row.number) + !good;
        end = (uint64_t)row.number + 1;
        if (good && !part_list_add(l, &row))
            rc = no_memory(err);
    }
    if (rc == OTL_OK && step != SQLITE_DONE)
        rc = db_fail(r->db, step, "read table block", err);
    (void)sqlite3_reset(r->rows_st);
    if (rc == OTL_ECORRUPT) {
        part_damage(p->id << PART_BLOCK_BITS | (int64_t)end, -1, err->msg);
        rc = OTL_OK;
    }
    if (rc == OTL_OK)
        l->damaged += report_count(p, end);
    return rc;
}

enum otl_err part_reader_list(struct part_reader *r, size_t i, struct part_list **out,
                              struct otl_error *err)
{
    const struct part_info *p = &r->parts[i];
    struct part_list *l;
    enum otl_err rc;

    if (r->lists[i] == NULL)
        r->lists[i] = part_cache_list(r->cache, p->id);
    if (r->lists[i] == NULL) {
        l = part_list_new(p->id, p->kind);
        if (l == NULL)
            return no_memory(err);
        rc = read_rows(r, p, l, err);
        if (rc == OTL_OK && !part_list_close(l))
            rc = no_memory(err);
        if (rc != OTL_OK) {
            part_list_free(l);
            return rc;
        }
        r->lists[i] = part_cache_add_list(r->cache, l);
    }
    *out = r->lists[i];
    return OTL_OK;
}

uint32_t part_list_seek(const struct part_list *l, uint32_t from, int64_t series_id)
{
    uint32_t lo = from, hi = l->n, step = 1;

    while (lo < hi && hi - lo > step && l->rows[lo + step - 1].last_series < series_id) {
        lo += step;
        step *= 2;
    }
    if (hi - lo > step)
        hi = lo + step;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (l->rows[mid].last_series < series_id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* ---- a reader ---- */

enum otl_err part_reader_open(struct db *db, struct part_cache *cache, struct part_reader **out,
                              struct otl_error *err)
{
    struct part_reader *r = calloc(1, sizeof(*r));
    enum otl_err rc;

    if (r == NULL)
        return no_memory(err);
    r->db = db;
    r->cache = cache;
    series_points_init(&r->points, KIND_NUMBER);
    rc = db_prepare(db, GENERATION, &r->generation_st, err);
    if (rc == OTL_OK)
        rc = db_prepare(db, PARTS, &r->parts_st, err);
    if (rc == OTL_OK)
        rc = db_prepare(db, ROWS, &r->rows_st, err);
    if (rc == OTL_OK)
        rc = db_prepare(db, DATA, &r->data_st, err);
    if (rc == OTL_OK) {
        *out = r;
        r = NULL;
    }
    part_reader_close(r);
    return rc;
}

void part_reader_close(struct part_reader *r)
{
    if (r == NULL)
        return;
    put_lists(r);
    free(r->parts);
    free(r->lists);
    series_points_fini(&r->points);
    buf_fini(&r->head);
    (void)sqlite3_finalize(r->generation_st);
    (void)sqlite3_finalize(r->parts_st);
    (void)sqlite3_finalize(r->rows_st);
    (void)sqlite3_finalize(r->data_st);
    free(r);
}
