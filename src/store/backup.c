/* backup.c -- copy a database that is in use, and prove that the copy is one.
 *
 * The source is read inside one read transaction that is opened before the copying and lasts until
 * its rows are counted. SQLite's backup restarts from the first page whenever it notices a change
 * between two steps, so that a busy writer could keep it going for ever; under a transaction of the
 * same connection it uses that snapshot in every step, and can still be taken in small steps, which
 * is what progress reports need. The price: the WAL of a live database cannot start over until the
 * copy is done, so it grows by what is written meanwhile.
 *
 * The copy is verified through a connection of its own that is opened as immutable: it takes no
 * locks and leaves no -wal or -shm beside a file that is about to be renamed. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "otlite/backup.h"
#include "otlite/clock.h"
#include "otlite/db.h"

/* 1,024 pages are 4 MiB at the usual page size: a few milliseconds between two reports. */
enum { STEP_PAGES = 1024, WRITE_BACK_BYTES = 1 << 20 };

/* A number that the original has, and the copy must have. */
struct fact {
    char *sql, *what;
    int64_t value;
};

struct copy {
    const char *src, *dest;
    char *partial;
    struct db from, to;
    bool created; /* partial is ours to remove */
    struct fact *facts;
    size_t n_facts;
};

static enum otl_err fail_errno(struct otl_error *err, const char *what, const char *path)
{
    int e = errno;

    return otl_fail(err, e == ENOSPC || e == EDQUOT ? OTL_EFULL : OTL_ESYSTEM, "%s %s: %s", what,
                    path, strerror(e));
}

/* Open by a DSN made of path, pragmas and (after them) further URI parameters. */
static enum otl_err open_with(struct db *db, const char *path, const char *const *pragmas,
                              enum db_mode mode, struct otl_error *err)
{
    struct buf dsn = {0};
    enum otl_err rc;

    db_dsn(&dsn, path, pragmas);
    if (dsn.failed)
        rc = otl_fail(err, OTL_ENOMEM, "backup: no memory");
    else
        rc = db_open(db, buf_cstr(&dsn), mode, err);
    buf_fini(&dsn);
    return rc;
}

static enum otl_err open_immutable(struct db *db, const char *path, struct otl_error *err)
{
    static const char *const NONE[] = {NULL};
    struct buf uri = {0};
    enum otl_err rc = OTL_OK;

    db_dsn(&uri, path, NONE);
    buf_add_str(&uri, strchr(buf_cstr(&uri), '?') == NULL ? "?immutable=1" : "&immutable=1");
    if (uri.failed) {
        rc = otl_fail(err, OTL_ENOMEM, "backup: no memory");
    } else {
        int src;

        (void)snprintf(db->path, sizeof(db->path), "%s", path);
        src = sqlite3_open_v2(buf_cstr(&uri), &db->sql,
                              SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
        if (src != SQLITE_OK)
            rc = db_fail(db, src, "open the copy", err);
    }
    buf_fini(&uri);
    return rc;
}

/* The file is made here, not by SQLite, so that it gets the source's permissions (state.db holds
 * token hashes) and so that a file which somebody else put there is never overwritten. */
static enum otl_err create_partial(struct copy *c, struct otl_error *err)
{
    struct stat st;
    int fd;

    if (lstat(c->dest, &st) == 0)
        return otl_fail(err, OTL_ESYSTEM, "%s exists already; choose another name or move it away",
                        c->dest);
    if (stat(c->src, &st) != 0)
        return fail_errno(err, "cannot read", c->src);
    fd = open(c->partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, st.st_mode & 0777);
    if (fd < 0 && errno == EEXIST)
        return otl_fail(err, OTL_ESYSTEM,
                        "%s exists: another backup is running, or one was cut short; remove the "
                        "file when none is running",
                        c->partial);
    if (fd < 0)
        return fail_errno(err, "cannot create", c->partial);
    c->created = true;
    if (fchmod(fd, st.st_mode & 0777) != 0) {
        enum otl_err rc = fail_errno(err, "cannot set the permissions of", c->partial);

        (void)close(fd);
        return rc;
    }
    (void)close(fd);
    return OTL_OK;
}

static enum otl_err copy_pages(struct copy *c, void (*progress)(void *, int64_t, int64_t),
                               void *arg, struct otl_error *err)
{
    sqlite3_backup *b = sqlite3_backup_init(c->to.sql, "main", c->from.sql, "main");
    int rc;

    if (b == NULL)
        return db_fail(&c->to, sqlite3_errcode(c->to.sql), "start the copy", err);
    do {
        rc = sqlite3_backup_step(b, STEP_PAGES);
        if (progress != NULL && (rc == SQLITE_OK || rc == SQLITE_DONE))
            progress(arg, sqlite3_backup_remaining(b), sqlite3_backup_pagecount(b));
    } while (rc == SQLITE_OK);
    if (rc == SQLITE_DONE)
        rc = sqlite3_backup_finish(b);
    else
        (void)sqlite3_backup_finish(b); /* repeats the step's error */
    if (rc != SQLITE_OK)
        return db_fail(&c->to, rc, "copy the pages", err);
    return OTL_OK;
}

static enum otl_err check_integrity(struct db *db, struct otl_error *err)
{
    sqlite3_stmt *st;
    enum otl_err rc = db_prepare(db, "PRAGMA integrity_check(1)", &st, err);
    int step;

    if (rc != OTL_OK)
        return rc;
    step = sqlite3_step(st);
    if (step != SQLITE_ROW) {
        rc = db_fail(db, step, "check the copy", err);
    } else {
        const char *text = (const char *)sqlite3_column_text(st, 0);

        if (text == NULL || strcmp(text, "ok") != 0)
            rc = otl_fail(err, OTL_ECORRUPT,
                          "the copy of the database is damaged (%s); the original probably is, "
                          "too: run PRAGMA integrity_check on it",
                          text == NULL ? "no answer" : text);
    }
    sqlite3_finalize(st);
    return rc;
}

/* Have the copy written to the disk a piece at a time, and rest as long as each took. One sync of
 * everything would keep the daemon's syncs waiting until it is done, and with them its commits.
 * What this cannot do, publish does; so errors are left to that. */
static void write_back(const struct copy *c)
{
    int fd = open(c->partial, O_RDONLY | O_CLOEXEC);
    struct stat st;

    if (fd < 0)
        return;
    for (off_t at = 0; fstat(fd, &st) == 0 && at < st.st_size; at += WRITE_BACK_BYTES) {
        int64_t begin_ns = clock_mono_ns(), took_ns;
        struct timespec rest;

        if (sync_file_range(fd, at, WRITE_BACK_BYTES,
                            SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                                SYNC_FILE_RANGE_WAIT_AFTER) != 0)
            break;
        took_ns = clock_mono_ns() - begin_ns;
        rest = (struct timespec){.tv_sec = took_ns / NS_PER_S, .tv_nsec = took_ns % NS_PER_S};
        (void)nanosleep(&rest, NULL);
    }
    (void)close(fd);
}

/* ---- what the copy must have ---- */

static enum otl_err note_fact(struct copy *c, const char *sql, const char *what,
                              struct otl_error *err)
{
    struct fact *p = realloc(c->facts, (c->n_facts + 1) * sizeof(*p)), *f;

    if (p == NULL)
        return otl_fail(err, OTL_ENOMEM, "backup: no memory");
    c->facts = p;
    f = &p[c->n_facts++];
    *f = (struct fact){.sql = strdup(sql), .what = strdup(what)};
    if (f->sql == NULL || f->what == NULL)
        return otl_fail(err, OTL_ENOMEM, "backup: no memory");
    return db_query_int(&c->from, sql, &f->value, err);
}

static enum otl_err note_rows(struct copy *c, struct otl_error *err)
{
    static const char SQL_TABLES[] = "SELECT name FROM sqlite_schema WHERE type = 'table'"
                                     " AND rootpage > 0 ORDER BY name";
    sqlite3_stmt *st;
    enum otl_err rc = db_prepare(&c->from, SQL_TABLES, &st, err);
    int step = SQLITE_DONE;

    if (rc != OTL_OK)
        return rc;
    while (rc == OTL_OK && (step = sqlite3_step(st)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(st, 0);
        char *sql = sqlite3_mprintf("SELECT count(*) FROM \"%w\"", name);
        char *what = sqlite3_mprintf("the rows of table %s", name);

        if (sql == NULL || what == NULL)
            rc = otl_fail(err, OTL_ENOMEM, "backup: no memory");
        else
            rc = note_fact(c, sql, what, err);
        sqlite3_free(sql);
        sqlite3_free(what);
    }
    if (rc == OTL_OK && step != SQLITE_DONE)
        rc = db_fail(&c->from, step, "list the tables", err);
    sqlite3_finalize(st);
    return rc;
}

/* c->from is still in the transaction that was copied. */
static enum otl_err note_facts(struct copy *c, struct otl_error *err)
{
    enum otl_err rc = note_fact(c, "PRAGMA user_version", "the schema version", err);

    if (rc == OTL_OK)
        rc = note_fact(c, "PRAGMA application_id", "the application id", err);
    if (rc == OTL_OK)
        rc = note_fact(c, "SELECT count(*) FROM sqlite_schema",
                       "the number of tables, views and indexes", err);
    return rc == OTL_OK ? note_rows(c, err) : rc;
}

/* c->to is the immutable connection here. */
static enum otl_err verify(struct copy *c, struct otl_error *err)
{
    enum otl_err rc = check_integrity(&c->to, err);

    for (size_t i = 0; i < c->n_facts && rc == OTL_OK; i++) {
        const struct fact *f = &c->facts[i];
        int64_t copied = 0;

        rc = db_query_int(&c->to, f->sql, &copied, err);
        if (rc == OTL_OK && copied != f->value)
            rc = otl_fail(err, OTL_ECORRUPT,
                          "the copy differs from %s in %s: %lld there, %lld in the copy", c->src,
                          f->what, (long long)f->value, (long long)copied);
    }
    return rc;
}

static void free_facts(struct copy *c)
{
    for (size_t i = 0; i < c->n_facts; i++) {
        free(c->facts[i].sql);
        free(c->facts[i].what);
    }
    free(c->facts);
}

static enum otl_err sync_path(const char *path, int flags, struct otl_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
    enum otl_err rc = OTL_OK;

    if (fd < 0)
        return fail_errno(err, "cannot open", path);
    if (fsync(fd) != 0)
        rc = fail_errno(err, "cannot bring to the disk:", path);
    (void)close(fd);
    return rc;
}

/* The content first, then the name, then the directory that holds the name: a power cut leaves
 * either no dest or a whole one. */
static enum otl_err publish(struct copy *c, struct otl_error *err)
{
    char *dir;
    enum otl_err rc = sync_path(c->partial, 0, err);

    if (rc != OTL_OK)
        return rc;
    if (renameat2(AT_FDCWD, c->partial, AT_FDCWD, c->dest, RENAME_NOREPLACE) != 0) {
        /* File systems that cannot promise to replace nothing say EINVAL. */
        if (errno != EINVAL && errno != ENOSYS)
            return fail_errno(err, "cannot rename the finished copy to", c->dest);
        if (rename(c->partial, c->dest) != 0)
            return fail_errno(err, "cannot rename the finished copy to", c->dest);
    }
    c->created = false;
    dir = strdup(c->dest);
    if (dir == NULL)
        rc = otl_fail(err, OTL_ENOMEM, "backup: no memory");
    else
        rc = sync_path(dirname(dir), O_DIRECTORY, err);
    free(dir);
    if (rc != OTL_OK)
        (void)unlink(c->dest);
    return rc;
}

enum otl_err backup_database(const char *src, const char *dest,
                             void (*progress)(void *arg, int64_t left, int64_t total), void *arg,
                             struct otl_error *err)
{
    static const char *const READ[] = {"busy_timeout(5000)", NULL};
    /* A half-made copy is thrown away, so it needs no journal and no syncs of SQLite's. */
    static const char *const WRITE[] = {"journal_mode(OFF)", "synchronous(OFF)", NULL};
    struct copy c = {.src = src, .dest = dest};
    int64_t objects;
    enum otl_err rc;

    if (asprintf(&c.partial, "%s.partial", dest) < 0) {
        c.partial = NULL;
        return otl_fail(err, OTL_ENOMEM, "backup: no memory");
    }
    rc = open_with(&c.from, src, READ, DB_READ_ONLY, err);
    if (rc == OTL_OK)
        rc = create_partial(&c, err);
    if (rc == OTL_OK)
        rc = open_with(&c.to, c.partial, WRITE, DB_READ_WRITE, err);
    if (rc == OTL_OK)
        rc = db_exec(&c.from, "BEGIN", err);
    if (rc == OTL_OK) /* a read fixes the snapshot; BEGIN alone does not */
        rc = db_query_int(&c.from, "SELECT count(*) FROM sqlite_schema", &objects, err);
    if (rc == OTL_OK)
        rc = copy_pages(&c, progress, arg, err);
    if (rc == OTL_OK)
        rc = note_facts(&c, err);
    /* Ends the read transaction: until here the log of a daemon cannot be cut, and what follows
     * takes longer than the copy. */
    db_close(&c.from);
    db_close(&c.to);
    c.to = (struct db){0};
    if (rc == OTL_OK)
        write_back(&c);
    if (rc == OTL_OK)
        rc = open_immutable(&c.to, c.partial, err);
    if (rc == OTL_OK)
        rc = verify(&c, err);
    db_close(&c.to);
    free_facts(&c);
    if (rc == OTL_OK)
        rc = publish(&c, err);
    if (c.created)
        (void)unlink(c.partial);
    free(c.partial);
    return rc;
}
