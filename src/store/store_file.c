#include "store_file.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>

#include "otlite/sql.h"
#include "schema.h"
#include "wal_vfs.h"

enum {
    PAGE_BYTES = 4096, /* SQLite's default, which our files are made with */
    /* A file up to this size is checked as a whole at start; it takes well under a second. */
    QUICK_CHECK_BYTES = 32 << 20,
    /* The WAL file is cut to this many times checkpoint_pages when SQLite begins it anew. */
    WAL_LIMIT_FACTOR = 4
};

void store_path(struct buf *out, const char *data_dir)
{
    size_t n = strlen(data_dir);

    buf_add_str(out, data_dir);
    buf_add_str(out, n > 0 && data_dir[n - 1] == '/' ? "telemetry.db" : "/telemetry.db");
}

/* auto_vacuum comes before journal_mode: changing to WAL writes the first page, and then the
 * setting can no longer be changed. busy_timeout comes first because the others may wait. */
void store_dsn(struct buf *out, const struct store_opts *o)
{
    char timeout[48], cache[48], mmap[48], limit[64];
    struct buf path = {0};
    const char *pragmas[] = {timeout,
                             "auto_vacuum(incremental)",
                             "journal_mode(WAL)",
                             o->durability == DURABILITY_FULL ? "synchronous(FULL)"
                                                              : "synchronous(NORMAL)",
                             cache,
                             "temp_store(MEMORY)",
                             mmap,
                             "wal_autocheckpoint(0)", /* the writer does it */
                             limit,
                             "foreign_keys(ON)",
                             o->secure_delete ? "secure_delete(ON)" : "secure_delete(OFF)",
                             NULL};

    (void)snprintf(timeout, sizeof(timeout), "busy_timeout(%" PRId64 ")", o->busy_timeout_ms);
    (void)snprintf(cache, sizeof(cache), "cache_size(-%" PRId64 ")",
                   o->cache_bytes / 1024 > 0 ? o->cache_bytes / 1024 : 1);
    (void)snprintf(mmap, sizeof(mmap), "mmap_size(%" PRId64 ")", o->mmap_bytes);
    (void)snprintf(limit, sizeof(limit), "journal_size_limit(%" PRId64 ")",
                   o->checkpoint_pages * WAL_LIMIT_FACTOR * PAGE_BYTES);
    store_path(&path, o->data_dir);
    if (path.failed)
        out->failed = true;
    db_dsn(out, buf_cstr(&path), pragmas);
    buf_fini(&path);
}

static enum otl_err open_by_opts(struct db *db, const struct store_opts *o, enum db_mode mode,
                                 struct otl_error *err)
{
    struct buf dsn = {0};
    enum otl_err rc;

    store_dsn(&dsn, o);
    /* Without it the writer works as well, only with more system calls. */
    if (mode != DB_READ_ONLY && wal_vfs_name() != NULL)
        buf_printf(&dsn, "&vfs=%s", wal_vfs_name());
    if (dsn.failed)
        rc = otl_fail(err, OTL_ENOMEM, "open telemetry.db: no memory");
    else
        rc = db_open(db, buf_cstr(&dsn), mode, err);
    buf_fini(&dsn);
    return rc;
}

enum otl_err store_check_reader(struct db *db, struct otl_error *err)
{
    return db_check_version(db, TELEMETRY_APPLICATION_ID, telemetry_migration_count, err);
}

enum otl_err store_open_reader(struct db *db, const struct store_opts *o, struct otl_error *err)
{
    struct sql_tables *tables;
    enum otl_err rc = open_by_opts(db, o, DB_READ_ONLY, err);

    if (rc != OTL_OK)
        return rc;
    rc = store_check_reader(db, err);
    if (rc == OTL_OK)
        rc = sql_register(db, NULL, &tables, err);
    if (rc != OTL_OK)
        db_close(db);
    return rc;
}

/* Find damage now rather than in the middle of a request, as far as that is quick. */
static enum otl_err check_pages(struct db *db, struct otl_error *err)
{
    struct sqlite3_stmt *st;
    int64_t pages;
    enum otl_err rc = db_query_int(db, "PRAGMA page_count", &pages, err);
    int step;

    if (rc != OTL_OK || pages > QUICK_CHECK_BYTES / PAGE_BYTES)
        return rc;
    rc = db_prepare(db, "PRAGMA quick_check(1)", &st, err);
    if (rc != OTL_OK)
        return rc;
    step = sqlite3_step(st);
    if (step != SQLITE_ROW) {
        rc = db_fail(db, step, "check it", err);
    } else {
        const char *answer = (const char *)sqlite3_column_text(st, 0);

        if (answer == NULL || strcmp(answer, "ok") != 0) {
            /* Only the last line says what is wrong. */
            const char *line = answer == NULL ? NULL : strrchr(answer, '\n');

            rc = otl_fail(err, OTL_ECORRUPT,
                          "it is damaged (%.200s): keep the files, restore a backup",
                          line != NULL     ? line + 1
                          : answer != NULL ? answer
                                           : "no memory");
        }
    }
    (void)sqlite3_finalize(st);
    return rc;
}

enum otl_err store_open_writer(struct db *db, const struct store_opts *o, struct otl_error *err)
{
    enum otl_err rc = open_by_opts(db, o, DB_READ_WRITE_CREATE, err);

    if (rc == OTL_OK)
        rc = db_migrate(db, TELEMETRY_APPLICATION_ID, telemetry_migrations,
                        telemetry_migration_count, err);
    return rc == OTL_OK ? check_pages(db, err) : rc;
}
