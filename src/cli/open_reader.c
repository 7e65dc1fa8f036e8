#include "cli/open_reader.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "otlite/store.h"

/* Queries and exports run beside a daemon that has most of the memory; 32 MiB is enough for the
 * inner pages of any index and gives sorts a fair run length. */
enum { CACHE_BYTES = 32 << 20 };

bool cli_data_path(const struct config *config, const char *name, char out[4096])
{
    int n = snprintf(out, 4096, "%s/%s", config->data, name);

    return n > 0 && n < 4096;
}

/* The two mistakes that people make with --data, told apart. */
enum otl_err cli_check_data(const struct config *config, struct otl_error *err)
{
    struct stat st;
    char path[4096];

    if (!cli_data_path(config, "telemetry.db", path))
        return otl_fail(err, OTL_ENOTFOUND, "the path of the data directory is too long");

    if (stat(config->data, &st) != 0)
        return otl_fail(err, OTL_ENOTFOUND,
                        "cannot open the data directory %.256s: %s; name the daemon's with "
                        "--data DIR",
                        config->data, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return otl_fail(err, OTL_ENOTFOUND,
                        "%.256s is not a directory; --data takes the directory that holds "
                        "telemetry.db",
                        config->data);
    if (access(path, F_OK) != 0)
        return otl_fail(err, OTL_ENOTFOUND,
                        "there is no %.256s; name the daemon's data directory with --data DIR, or "
                        "start `otlite serve` with it to create one",
                        path);
    return OTL_OK;
}

/* A database in WAL mode is read through its -shm file, which the daemon has open while it runs.
 * When none runs, the reader has to make one. */
enum otl_err cli_explain_open(const struct config *config, struct otl_error *err)
{
    char shm[4096];

    if (err->code == OTL_EDB && access(config->data, W_OK) != 0 &&
        cli_data_path(config, "telemetry.db-shm", shm) && access(shm, R_OK) != 0)
        (void)otl_wrap(err,
                       "no daemon runs on %.200s, and to read it then needs the right to write "
                       "there; run this as the daemon's user, or while the daemon runs",
                       config->data);
    return err->code;
}

/* ATTACH opens with the flags of the main connection, so that this one is read-only as well. */
static enum otl_err attach_state(struct db *db, const char *path, struct otl_error *err)
{
    struct buf uri = {0};
    sqlite3_stmt *st;
    enum otl_err rc;
    int step;

    db_dsn(&uri, path, NULL);
    if (uri.failed)
        return otl_fail(err, OTL_ENOMEM, "open state.db: no memory");
    rc = db_prepare(db, "ATTACH ?1 AS state", &st, err);
    if (rc == OTL_OK) {
        step = sqlite3_bind_text(st, 1, buf_cstr(&uri), -1, SQLITE_STATIC);
        if (step == SQLITE_OK)
            step = sqlite3_step(st);
        if (step != SQLITE_DONE) {
            rc = db_fail(db, step, "attach state.db", err);
            (void)otl_wrap(err, "%.256s", path);
        }
        sqlite3_finalize(st);
    }
    buf_fini(&uri);
    return rc;
}

enum otl_err cli_open_reader(const struct config *config, struct db *db, bool *out_state,
                             struct otl_error *err)
{
    const struct store_opts opts = {
        .data_dir = config->data,
        .durability = DURABILITY_NORMAL,
        .cache_bytes = CACHE_BYTES,
        .mmap_bytes = config->sqlite_mmap_size,
        .busy_timeout_ms = config->sqlite_busy_timeout,
        .checkpoint_pages = config->sqlite_checkpoint_pages,
        .secure_delete = config->sqlite_secure_delete,
    };
    char path[4096];
    enum otl_err rc;

    memset(db, 0, sizeof(*db));
    rc = cli_check_data(config, err);
    if (rc == OTL_OK)
        rc = store_open_reader(db, &opts, err);
    if (rc != OTL_OK)
        return cli_explain_open(config, err);
    *out_state = cli_data_path(config, "state.db", path) && access(path, F_OK) == 0;
    if (*out_state)
        rc = attach_state(db, path, err);
    if (rc != OTL_OK)
        db_close(db);
    return rc;
}
