/* state.c -- opening state.db, its schema, its transactions.
 *
 * Several processes write here (the daemon, `otlite token`), and SQLite before 3.51.3 has a fault
 * in which a checkpoint in one connection beside a commit in another can damage a WAL file. So
 * every write, every checkpoint (they run inside COMMIT and inside close) and the opening itself
 * happen while holding a lock on DIR/state.lock. It must be a file of its own: closing any other
 * descriptor of state.db would drop SQLite's POSIX locks on it. */
#include "state/state_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* synchronous(FULL), other than telemetry.db's default: a power cut must not bring back a revoked
 * token. What was seen may be noted with less (state_sync_notes). auto_vacuum comes first because it
 * takes only before the first page is written. */
static const char *const pragmas[] = {
    "auto_vacuum(INCREMENTAL)", "journal_mode(WAL)", "busy_timeout(5000)",
    "synchronous(FULL)",        "foreign_keys(ON)",  NULL,
};

/* Times are nanoseconds since 1970, 0 for never. seen_metric's key is a metric's identity without
 * its scope: a sender that uses one name with two units has two rows and does not rewrite one row
 * with each request. */
static const char V1[] =
    "CREATE TABLE project ("
    " id INTEGER PRIMARY KEY,"
    " name TEXT NOT NULL UNIQUE,"
    " created INTEGER NOT NULL);"
    "CREATE TABLE token ("
    " id INTEGER PRIMARY KEY,"
    " project_id INTEGER NOT NULL REFERENCES project(id),"
    " hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32)," /* SHA-256 of the token's text */
    " scopes TEXT NOT NULL,"                                /* "read,write" */
    " note TEXT NOT NULL,"
    " created INTEGER NOT NULL,"
    " expires INTEGER NOT NULL,"
    " revoked INTEGER NOT NULL);"
    "CREATE TABLE service ("
    " project_id INTEGER NOT NULL REFERENCES project(id),"
    " name TEXT NOT NULL,"
    " first_seen INTEGER NOT NULL,"
    " last_seen INTEGER NOT NULL,"
    " PRIMARY KEY (project_id, name)) WITHOUT ROWID;"
    "CREATE TABLE seen_metric ("
    " project_id INTEGER NOT NULL REFERENCES project(id),"
    " service_name TEXT NOT NULL,"
    " name TEXT NOT NULL,"
    " type TEXT NOT NULL CHECK (type IN"
    "  ('gauge', 'sum', 'histogram', 'exponential_histogram', 'summary')),"
    " unit TEXT NOT NULL,"
    " temporality TEXT NOT NULL CHECK (temporality IN ('none', 'delta', 'cumulative')),"
    " is_monotonic INTEGER NOT NULL,"
    " description TEXT NOT NULL,"
    " first_seen INTEGER NOT NULL,"
    " last_seen INTEGER NOT NULL,"
    " PRIMARY KEY (project_id, service_name, name, type, unit, temporality, is_monotonic)"
    ") WITHOUT ROWID;"
    "CREATE VIEW services AS SELECT"
    " p.name AS project, s.name AS service_name,"
    " datetime(s.first_seen / 1000000000, 'unixepoch') AS first_seen,"
    " datetime(s.last_seen / 1000000000, 'unixepoch') AS last_seen,"
    " (SELECT count(*) FROM seen_metric m"
    "   WHERE m.project_id = s.project_id AND m.service_name = s.name) AS metrics"
    " FROM service s JOIN project p ON p.id = s.project_id;"
    "CREATE VIEW metrics AS SELECT"
    " p.name AS project, m.service_name AS service_name, m.name AS metric, m.type AS type,"
    " m.unit AS unit, m.temporality AS temporality, m.is_monotonic AS is_monotonic,"
    " m.description AS description,"
    " datetime(m.first_seen / 1000000000, 'unixepoch') AS first_seen,"
    " datetime(m.last_seen / 1000000000, 'unixepoch') AS last_seen"
    " FROM seen_metric m JOIN project p ON p.id = m.project_id;"
    "CREATE VIEW tokens AS SELECT"
    " t.id AS id, p.name AS project, t.scopes AS scopes, t.note AS note,"
    " datetime(t.created / 1000000000, 'unixepoch') AS created,"
    " CASE t.expires WHEN 0 THEN NULL"
    "  ELSE datetime(t.expires / 1000000000, 'unixepoch') END AS expires,"
    " CASE t.revoked WHEN 0 THEN NULL"
    "  ELSE datetime(t.revoked / 1000000000, 'unixepoch') END AS revoked"
    " FROM token t JOIN project p ON p.id = t.project_id;";

static const struct db_migration migrations[] = {{V1}};

enum { N_MIGRATIONS = sizeof(migrations) / sizeof(migrations[0]) };

void state_bind_text(struct sqlite3_stmt *s, int i, struct bytes text, int *rc)
{
    /* A NULL pointer would bind NULL rather than the empty text. */
    const char *p = text.n == 0 ? "" : (const char *)text.p;

    if (*rc == SQLITE_OK)
        *rc = sqlite3_bind_text64(s, i, p, text.n, SQLITE_STATIC, SQLITE_UTF8);
}

void state_bind_int(struct sqlite3_stmt *s, int i, int64_t v, int *rc)
{
    if (*rc == SQLITE_OK)
        *rc = sqlite3_bind_int64(s, i, v);
}

/* --- the file lock --- */

static enum otl_err file_lock(struct state *st, int64_t wait_ms, struct otl_error *err)
{
    int64_t deadline = clock_mono_ns() + wait_ms * NS_PER_MS;

    while (flock(st->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        /* flock has no timeout, so try every few milliseconds; contention is rare and short. */
        struct timespec pause = {.tv_nsec = 5 * NS_PER_MS};

        if (errno != EWOULDBLOCK && errno != EINTR)
            return otl_fail(err, OTL_ESYSTEM, "state.lock cannot be locked: %s", strerror(errno));
        if (clock_mono_ns() >= deadline)
            return otl_fail(err, OTL_ELOCKED,
                            "state.db is in use by another otlite process; try again");
        (void)nanosleep(&pause, NULL);
    }
    return OTL_OK;
}

static void file_unlock(struct state *st)
{
    (void)flock(st->lock_fd, LOCK_UN); /* cannot fail on a descriptor that is open */
}

/* --- transactions --- */

enum otl_err state_begin(struct state *st, int64_t wait_ms, struct otl_error *err)
{
    int64_t deadline = clock_mono_ns() + wait_ms * NS_PER_MS;
    enum otl_err rc = file_lock(st, wait_ms, err);
    int64_t left;

    if (rc != OTL_OK)
        return rc;
    /* Others than otlite (a sqlite3 shell) know nothing of the file lock. */
    left = (deadline - clock_mono_ns()) / NS_PER_MS;
    (void)sqlite3_busy_timeout(st->db.sql, left > 0 ? (int)left : 0);
    rc = db_exec(&st->db, "BEGIN IMMEDIATE", err);
    if (rc != OTL_OK)
        file_unlock(st);
    return rc;
}

enum otl_err state_end(struct state *st, enum otl_err rc, struct otl_error *err)
{
    if (rc == OTL_OK)
        rc = db_exec(&st->db, "COMMIT", err);
    /* A full disk ends the transaction by itself; a refused commit leaves it open. */
    if (rc != OTL_OK && sqlite3_get_autocommit(st->db.sql) == 0)
        (void)sqlite3_exec(st->db.sql, "ROLLBACK", NULL, NULL, NULL); /* the first error counts */
    file_unlock(st);
    return rc;
}

/* --- projects --- */

enum otl_err state_project_find(struct state *st, const char *name, int64_t *out,
                                struct otl_error *err)
{
    struct sqlite3_stmt *s;
    enum otl_err rc = db_prepare(&st->db, "SELECT id FROM project WHERE name = ?", &s, err);
    int step = SQLITE_OK;

    if (rc != OTL_OK)
        return rc;
    state_bind_text(s, 1, bytes_str(name), &step);
    if (step == SQLITE_OK)
        step = sqlite3_step(s);
    if (step == SQLITE_ROW)
        *out = sqlite3_column_int64(s, 0);
    else if (step == SQLITE_DONE)
        *out = 0;
    else
        rc = db_fail(&st->db, step, "look up a project", err);
    (void)sqlite3_finalize(s);
    return rc;
}

enum otl_err state_project(struct state *st, const char *name, int64_t *out, struct otl_error *err)
{
    int64_t id = 0;
    enum otl_err rc;

    pthread_mutex_lock(&st->mu);
    rc = state_project_find(st, name, &id, err);
    pthread_mutex_unlock(&st->mu);
    if (rc == OTL_OK && id == 0)
        return otl_fail(err, OTL_ENOTFOUND, "there is no project named %.80s", name);
    if (rc == OTL_OK)
        *out = id;
    return rc;
}

static enum otl_err default_project(struct state *st, struct otl_error *err)
{
    struct sqlite3_stmt *s;
    enum otl_err rc = state_begin(st, st->wait_ms, err);
    int bound = SQLITE_OK;

    if (rc != OTL_OK)
        return rc;
    rc = db_prepare(&st->db, "INSERT OR IGNORE INTO project VALUES (?, 'default', ?)", &s, err);
    if (rc == OTL_OK) {
        state_bind_int(s, 1, STATE_DEFAULT_PROJECT, &bound);
        state_bind_int(s, 2, clock_wall_ns(), &bound);
        rc = bound == SQLITE_OK ? db_run(&st->db, s, "create the default project", err)
                                : db_fail(&st->db, bound, "create the default project", err);
        (void)sqlite3_finalize(s);
    }
    return state_end(st, rc, err);
}

/* --- open and close --- */

static enum otl_err read_data_version(struct state *st, int64_t *out, struct otl_error *err)
{
    int step = sqlite3_step(st->get_data_version);
    enum otl_err rc = OTL_OK;

    if (step == SQLITE_ROW)
        *out = sqlite3_column_int64(st->get_data_version, 0);
    else
        rc = db_fail(&st->db, step, "ask whether the file changed", err);
    (void)sqlite3_reset(st->get_data_version);
    return rc;
}

/* Everything kept in memory, anew. The version is read first: what changes meanwhile is seen the
 * next time. */
static enum otl_err reload(struct state *st, struct otl_error *err)
{
    int64_t version = -1;
    enum otl_err rc = read_data_version(st, &version, err);

    if (rc == OTL_OK)
        rc = tokens_load(st, err);
    if (rc == OTL_OK)
        rc = seen_load(st, err);
    st->data_version = rc == OTL_OK ? version : -1;
    return rc;
}

enum otl_err state_reload(struct state *st, struct otl_error *err)
{
    enum otl_err rc;

    pthread_mutex_lock(&st->mu);
    rc = reload(st, err);
    pthread_mutex_unlock(&st->mu);
    return rc;
}

enum otl_err state_refresh(struct state *st, struct otl_error *err)
{
    int64_t version = -1;
    enum otl_err rc;

    pthread_mutex_lock(&st->mu);
    rc = read_data_version(st, &version, err);
    if (rc == OTL_OK && version != st->data_version)
        rc = reload(st, err);
    pthread_mutex_unlock(&st->mu);
    return rc;
}

static const char SQL_PUT_SERVICE[] =
    "INSERT INTO service (project_id, name, first_seen, last_seen) VALUES (?1, ?2, ?3, ?3)"
    " ON CONFLICT DO UPDATE SET last_seen = max(last_seen, excluded.last_seen)";

/* Descriptions are compared by bytes, as seen.c does; length() of text ends at a NUL. */
static const char SQL_PUT_METRIC[] =
    "INSERT INTO seen_metric (project_id, service_name, name, type, unit, temporality,"
    "  is_monotonic, description, first_seen, last_seen)"
    " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9)"
    " ON CONFLICT DO UPDATE SET last_seen = max(last_seen, excluded.last_seen),"
    "  description = CASE WHEN length(CAST(excluded.description AS BLOB)) >"
    "   length(CAST(description AS BLOB)) THEN excluded.description ELSE description END";

static enum otl_err open_db(struct state *st, const char *path, struct otl_error *err)
{
    struct buf dsn = {0};
    enum otl_err rc;

    db_dsn(&dsn, path, pragmas);
    if (dsn.failed)
        rc = otl_fail(err, OTL_ENOMEM, "out of memory while opening state.db");
    else
        rc = db_open(&st->db, buf_cstr(&dsn), DB_READ_WRITE_CREATE, err);
    buf_fini(&dsn);
    if (rc == OTL_OK)
        rc = db_migrate(&st->db, STATE_APPLICATION_ID, migrations, N_MIGRATIONS, err);
    return rc;
}

static enum otl_err open_all(struct state *st, const char *data_dir, struct otl_error *err)
{
    char path[4000]; /* shorter than db.path, so that a name never loses its end there */
    int64_t id = 0;
    enum otl_err rc;

    if ((size_t)snprintf(path, sizeof(path), "%s/state.lock", data_dir) >= sizeof(path))
        return otl_fail(err, OTL_ECONFIG, "the path of the data directory is too long");
    /* Only the last part is made: a longer missing path is more likely a slip. */
    if (mkdir(data_dir, 0750) != 0 && errno != EEXIST)
        return otl_fail(err, OTL_ESYSTEM, "the data directory %.256s cannot be created: %s",
                        data_dir, strerror(errno));
    st->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (st->lock_fd < 0)
        return otl_fail(err, OTL_ESYSTEM,
                        "%.256s cannot be opened: %s; the data directory must be writable for the "
                        "user that otlite runs as",
                        path, strerror(errno));
    (void)snprintf(path, sizeof(path), "%s/state.db", data_dir);
    rc = file_lock(st, st->wait_ms, err);
    if (rc != OTL_OK)
        return rc;
    rc = open_db(st, path, err);
    file_unlock(st);
    if (rc == OTL_OK)
        rc = state_project_find(st, "default", &id, err);
    if (rc == OTL_OK && id == 0)
        rc = default_project(st, err);
    if (rc == OTL_OK)
        rc = db_prepare(&st->db, SQL_PUT_SERVICE, &st->put_service, err);
    if (rc == OTL_OK)
        rc = db_prepare(&st->db, SQL_PUT_METRIC, &st->put_metric, err);
    if (rc == OTL_OK)
        rc = db_prepare(&st->db, "PRAGMA data_version", &st->get_data_version, err);
    if (rc == OTL_OK)
        rc = reload(st, err);
    return rc;
}

enum otl_err state_open(const char *data_dir, struct state **out, struct otl_error *err)
{
    struct state *st = calloc(1, sizeof(*st));
    enum otl_err rc;

    if (st == NULL)
        return otl_fail(err, OTL_ENOMEM, "out of memory while opening state.db");
    st->lock_fd = -1;
    st->wait_ms = STATE_WAIT_MS;
    st->data_version = -1;
    /* With default attributes neither can fail on Linux. */
    (void)pthread_mutex_init(&st->mu, NULL);
    (void)pthread_rwlock_init(&st->tokens_mu, NULL);
    rc = open_all(st, data_dir, err);
    if (rc != OTL_OK) {
        state_close(st);
        return rc;
    }
    *out = st;
    return OTL_OK;
}

void state_close(struct state *st)
{
    bool locked;

    if (st == NULL)
        return;
    (void)sqlite3_finalize(st->put_service);
    (void)sqlite3_finalize(st->put_metric);
    (void)sqlite3_finalize(st->get_data_version);
    if (st->db.sql != NULL) {
        /* The last connection checkpoints as it closes. Without the lock that is left to the next
         * opening; nothing is lost by it. */
        locked = file_lock(st, st->wait_ms, NULL) == OTL_OK;
        if (!locked)
            (void)sqlite3_db_config(st->db.sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        db_close(&st->db);
        if (locked)
            file_unlock(st);
    }
    if (st->lock_fd >= 0)
        (void)close(st->lock_fd);
    seen_fini(&st->seen);
    free(st->tokens);
    (void)pthread_rwlock_destroy(&st->tokens_mu);
    (void)pthread_mutex_destroy(&st->mu);
    free(st);
}
