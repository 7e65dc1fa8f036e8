#include "otlite/store.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "schema.h"
#include "store_file.h"
#include "store_internal.h"
#include "wal_vfs.h"

/* Of parts that late points are looked for in. */
enum { PART_CACHE_BYTES = 16 << 20 };

/* ---- start and end ---- */

static int on_wal(void *arg, sqlite3 *sql, const char *name, int pages)
{
    struct store *s = arg;

    (void)sql;
    (void)name;
    s->wal_pages = pages;
    return SQLITE_OK;
}

static enum otl_err prepare_all(struct store *s, struct otl_error *err)
{
    enum otl_err rc = db_prepare(&s->db, "BEGIN IMMEDIATE", &s->begin, err);

    if (rc == OTL_OK)
        rc = db_prepare(&s->db, "COMMIT", &s->commit, err);
    return rc == OTL_OK ? store_points_open(s, err) : rc;
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

void store_free(struct store *s)
{
    if (s == NULL)
        return;
    store_points_close(s);
    (void)sqlite3_finalize(s->begin);
    (void)sqlite3_finalize(s->commit);
    head_writer_close(&s->head);
    part_reader_close(s->parts);
    part_cache_free(s->part_cache);
    dedup_close(&s->dedup);
    catalogue_close(&s->cat);
    free(s->outcomes);
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

/* Sealing does not keep up: the head must not grow without bound. */
static enum otl_err refuse_when_full(const struct store *s, const struct batch *b,
                                     struct otl_error *err)
{
    for (int k = 0; k < HEAD_KINDS; k++) {
        uint32_t n =
            k == KIND_EXEMPLAR ? b->n_exemplars : store_points_count(b, (enum point_kind)k);

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
        rc = store_points_write(s, r[i].project_id, r[i].batch, &s->outcomes[i], err);
    rc = end_memory(s, rc, err);
    store_points_trim(s);
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
