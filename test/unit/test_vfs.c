/* src/store/wal_vfs.c beside others: kills at every write, faults in checkpoints, readers and
 * writers of other connections and processes. Each check is made through the plain unix VFS; what
 * must be there follows from what COMMIT returned. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "store/wal_vfs.h"
#include "store_fixture.h"

/* ---- a VFS between the tested one and the disk: counts, fails, kills ---- */

enum fault { NONE, WRITE_IOERR, WRITE_FULL, KILL_BEFORE, KILL_HALF, KILL_AFTER };

static struct {
    enum fault fault;
    int at;       /* the call that it hits, from 1, of those that it can hit */
    bool lasting; /* and all later ones */
    int seen;     /* such calls */
    int hits;
} io;

struct faulty_file {
    sqlite3_file file;
    sqlite3_file *below;
};

static sqlite3_vfs *unix_vfs;
static sqlite3_vfs faulty_vfs;
static sqlite3_io_methods faulty_methods;

static sqlite3_file *below(sqlite3_file *f)
{
    return ((struct faulty_file *)f)->below;
}

static void io_reset(void)
{
    memset(&io, 0, sizeof(io));
}

static void inject(enum fault fault, int at, bool lasting)
{
    io_reset();
    io.fault = fault;
    io.at = at;
    io.lasting = lasting;
}

static bool hit(void)
{
    io.seen++;
    if (io.seen == io.at || (io.lasting && io.seen > io.at)) {
        io.hits++;
        return true;
    }
    return false;
}

static int f_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
    sqlite3_file *b = below(f);

    if (io.fault == NONE || !hit())
        return b->pMethods->xWrite(b, p, n, at);
    switch (io.fault) {
    case WRITE_IOERR:
        return SQLITE_IOERR_WRITE;
    case WRITE_FULL:
        return SQLITE_FULL;
    case KILL_HALF:
        (void)b->pMethods->xWrite(b, p, n / 2, at);
        break;
    case KILL_AFTER:
        (void)b->pMethods->xWrite(b, p, n, at);
        break;
    default:
        break;
    }
    (void)kill(getpid(), SIGKILL);
    return SQLITE_IOERR_WRITE;
}

static int f_sync(sqlite3_file *f, int flags)
{
    (void)f;
    (void)flags;
    return SQLITE_OK; /* no power is cut here */
}

static int f_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at)
{
    return below(f)->pMethods->xRead(below(f), p, n, at);
}

static int f_close(sqlite3_file *f)
{
    return below(f)->pMethods->xClose(below(f));
}

static int f_truncate(sqlite3_file *f, sqlite3_int64 n)
{
    return below(f)->pMethods->xTruncate(below(f), n);
}

static int f_size(sqlite3_file *f, sqlite3_int64 *n)
{
    return below(f)->pMethods->xFileSize(below(f), n);
}

static int f_lock(sqlite3_file *f, int level)
{
    return below(f)->pMethods->xLock(below(f), level);
}

static int f_unlock(sqlite3_file *f, int level)
{
    return below(f)->pMethods->xUnlock(below(f), level);
}

static int f_check(sqlite3_file *f, int *out)
{
    return below(f)->pMethods->xCheckReservedLock(below(f), out);
}

static int f_control(sqlite3_file *f, int op, void *arg)
{
    return below(f)->pMethods->xFileControl(below(f), op, arg);
}

static int f_sector(sqlite3_file *f)
{
    return below(f)->pMethods->xSectorSize(below(f));
}

static int f_device(sqlite3_file *f)
{
    return below(f)->pMethods->xDeviceCharacteristics(below(f));
}

static int f_shm_map(sqlite3_file *f, int i, int n, int extend, void volatile **out)
{
    return below(f)->pMethods->xShmMap(below(f), i, n, extend, out);
}

static int f_shm_lock(sqlite3_file *f, int from, int n, int flags)
{
    return below(f)->pMethods->xShmLock(below(f), from, n, flags);
}

static void f_shm_barrier(sqlite3_file *f)
{
    below(f)->pMethods->xShmBarrier(below(f));
}

static int f_shm_unmap(sqlite3_file *f, int del)
{
    return below(f)->pMethods->xShmUnmap(below(f), del);
}

static int f_fetch(sqlite3_file *f, sqlite3_int64 at, int n, void **out)
{
    return below(f)->pMethods->xFetch(below(f), at, n, out);
}

static int f_unfetch(sqlite3_file *f, sqlite3_int64 at, void *p)
{
    return below(f)->pMethods->xUnfetch(below(f), at, p);
}

static int faulty_open(sqlite3_vfs *v, const char *name, sqlite3_file *file, int flags, int *out)
{
    struct faulty_file *f = (struct faulty_file *)file;
    int rc;

    (void)v;
    if ((flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL)) == 0)
        return unix_vfs->xOpen(unix_vfs, name, file, flags, out);
    memset(f, 0, sizeof(*f));
    f->below = (sqlite3_file *)(f + 1);
    rc = unix_vfs->xOpen(unix_vfs, name, f->below, flags, out);
    if (rc == SQLITE_OK)
        f->file.pMethods = &faulty_methods;
    return rc;
}

static int group_setup(void **state)
{
    (void)state;
    unix_vfs = sqlite3_vfs_find("unix");
    assert_non_null(unix_vfs);
    faulty_methods = (sqlite3_io_methods){
        3,          f_close,       f_read,      f_write,   f_truncate, f_sync,   f_size,
        f_lock,     f_unlock,      f_check,     f_control, f_sector,   f_device, f_shm_map,
        f_shm_lock, f_shm_barrier, f_shm_unmap, f_fetch,   f_unfetch};
    faulty_vfs =
        *unix_vfs; /* everything but opening is the unix VFS's, which looks at no pointer */
    faulty_vfs.zName = "faulty";
    faulty_vfs.pNext = NULL;
    faulty_vfs.szOsFile = (int)sizeof(struct faulty_file) + unix_vfs->szOsFile;
    faulty_vfs.xOpen = faulty_open;
    assert_int_equal(sqlite3_vfs_register(&faulty_vfs, 0), SQLITE_OK);
    assert_int_equal(wal_vfs_register("combining", &faulty_vfs), SQLITE_OK);
    return 0;
}

/* ---- a database of transactions that can be told apart ---- */

enum { ROWS = 6, MAX_TX = 64 };

static char *dir;
static char path[600];

static int setup(void **state)
{
    (void)state;
    dir = fx_dir_new();
    (void)snprintf(path, sizeof(path), "%s/t.db", dir);
    io_reset();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    io_reset();
    fx_dir_free(dir);
    return 0;
}

static int run(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static void must(sqlite3 *db, const char *sql)
{
    if (run(db, sql) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
}

static sqlite3 *open_by(const char *vfs)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, vfs),
                     SQLITE_OK);
    (void)sqlite3_busy_timeout(db, 5000);
    if (strcmp(vfs, "unix") == 0)
        must(db, "PRAGMA synchronous = OFF"); /* no power is cut here */
    return db;
}

static int64_t number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *st;
    int64_t v;

    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    v = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return v;
}

static void assert_intact(sqlite3 *db)
{
    sqlite3_stmt *st;

    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(st, 0), "ok");
    sqlite3_finalize(st);
}

/* A row takes most of a page. head is updated by every transaction: a page that each rewrites. */
static void create(void)
{
    sqlite3 *db = open_by("unix");

    must(db, "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;"
             "CREATE TABLE t(id, data); CREATE INDEX ti ON t(id); CREATE TABLE head(n);"
             "INSERT INTO head VALUES (0)");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static sqlite3 *open_writer(const char *vfs, const char *synchronous, int cache_pages)
{
    char sql[200];
    sqlite3 *db = open_by(vfs);

    (void)snprintf(sql, sizeof(sql),
                   "PRAGMA wal_autocheckpoint = 0; PRAGMA mmap_size = 1073741824;"
                   "PRAGMA synchronous = %s; PRAGMA cache_size = %d",
                   synchronous, cache_pages);
    must(db, sql);
    return db;
}

/* With a small cache the rows and the later updates of the first ones spill pages into the log
 * before the commit, some of them twice. */
static int transact(sqlite3 *db, int id)
{
    char sql[256];
    int rc = run(db, "BEGIN IMMEDIATE");

    for (int i = 0; i < ROWS && rc == SQLITE_OK; i++) {
        (void)snprintf(sql, sizeof(sql), "INSERT INTO t VALUES (%d, randomblob(3500))", id);
        rc = run(db, sql);
    }
    if (rc == SQLITE_OK) {
        (void)snprintf(sql, sizeof(sql),
                       "UPDATE t SET data = randomblob(3400) WHERE id = %d;"
                       "UPDATE head SET n = n + 1",
                       id);
        rc = run(db, sql);
    }
    if (rc == SQLITE_OK)
        rc = run(db, "COMMIT");
    if (!sqlite3_get_autocommit(db))
        (void)run(db, "ROLLBACK");
    return rc;
}

static int checkpoint(sqlite3 *db, int mode)
{
    return sqlite3_wal_checkpoint_v2(db, NULL, mode, NULL, NULL);
}

static int64_t rows_of(sqlite3 *db, int id)
{
    char sql[64];

    (void)snprintf(sql, sizeof(sql), "SELECT count(*) FROM t WHERE id = %d", id);
    return number(db, sql);
}

/* ---- faults ---- */

struct plan {
    const char *synchronous;
    int cache_pages;
    bool keeps_reader; /* a reader's old snapshot holds up every checkpoint */
};

static const struct plan plans[] = {
    {"NORMAL", 1000, false}, {"FULL", 1000, false}, {"NORMAL", 5, false}, {"NORMAL", 1000, true}};

/* Transactions with checkpoints of all modes between them. Reports each by its return code. */
static int work(const struct plan *plan, int rc[MAX_TX], void (*done)(int id))
{
    enum { N = 7 };
    sqlite3 *db, *reader = NULL;

    db = open_writer("combining", plan->synchronous, plan->cache_pages);
    for (int id = 0; id < N; id++) {
        rc[id] = transact(db, id);
        if (rc[id] == SQLITE_OK && done != NULL)
            done(id);
        if (id == 1 && plan->keeps_reader) {
            reader = open_by("unix");
            must(reader, "BEGIN; SELECT count(*) FROM t");
            (void)sqlite3_busy_timeout(db, 0);
        }
        if (id % 2 == 1)
            (void)checkpoint(db, id % 4 == 1 ? SQLITE_CHECKPOINT_FULL : SQLITE_CHECKPOINT_PASSIVE);
    }
    if (reader != NULL)
        assert_int_equal(sqlite3_close(reader), SQLITE_OK);
    (void)checkpoint(db, SQLITE_CHECKPOINT_TRUNCATE);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return N;
}

static void assert_as_reported(const int rc[MAX_TX], int n)
{
    sqlite3 *db = open_by("unix");
    int good = 0;

    for (int id = 0; id < n; id++) {
        assert_int_equal(rows_of(db, id), rc[id] == SQLITE_OK ? ROWS : 0);
        good += rc[id] == SQLITE_OK;
    }
    assert_int_equal(number(db, "SELECT n FROM head"), good);
    assert_intact(db);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void sweep(enum fault fault, bool lasting)
{
    for (size_t p = 0; p < sizeof(plans) / sizeof(plans[0]); p++) {
        for (int at = 1;; at++) {
            int rc[MAX_TX], n, hits;

            create();
            inject(fault, at, lasting);
            n = work(&plans[p], rc, NULL);
            hits = io.hits;
            io_reset();
            assert_as_reported(rc, n);
            assert_int_equal(unlink(path), 0);
            if (hits == 0) {
                assert_true(at > 4); /* it was a sweep */
                break;
            }
        }
    }
}

static void any_failed_write_fails_its_own_transaction_only(void **state)
{
    (void)state;
    sweep(WRITE_IOERR, false);
}

static void a_full_disk_fails_what_it_does_not_hold(void **state)
{
    (void)state;
    sweep(WRITE_FULL, true);
}

/* Nothing that can fail follows the last page of a checkpoint that a reader cuts short. */
static void a_part_checkpoint_that_fails_counts_no_page_as_moved(void **state)
{
    int at = 0, hits;

    (void)state;
    do {
        sqlite3 *db, *reader;
        int rc;

        create();
        db = open_writer("combining", "NORMAL", 1000);
        (void)sqlite3_busy_timeout(db, 0);
        assert_int_equal(transact(db, 1), SQLITE_OK);
        reader = open_by("unix");
        must(reader, "BEGIN; SELECT count(*) FROM t");
        assert_int_equal(transact(db, 2), SQLITE_OK);
        inject(WRITE_IOERR, ++at, false);
        rc = checkpoint(db, SQLITE_CHECKPOINT_FULL);
        hits = io.hits;
        assert_int_equal(rc & 0xff, hits > 0 ? SQLITE_IOERR : SQLITE_BUSY);
        io_reset();
        must(reader, "COMMIT");
        assert_intact(reader); /* a lost page would come from the file now */
        assert_int_equal(rows_of(reader, 1) + rows_of(reader, 2), 2 * ROWS);
        assert_int_equal(sqlite3_close(reader), SQLITE_OK);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        assert_int_equal(unlink(path), 0);
    } while (hits > 0);
    assert_true(at > ROWS); /* page by page */
}

/* ---- kills ---- */

static int report_fd;

static void report(int id)
{
    if (write(report_fd, &id, sizeof(id)) != sizeof(id))
        _exit(2);
}

/* Whether the child was killed; which transactions it had been told are committed. */
static bool run_and_kill(const struct plan *plan, enum fault fault, int at, bool committed[MAX_TX])
{
    int fds[2], status, id;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int rc[MAX_TX];

        (void)close(fds[0]);
        report_fd = fds[1];
        inject(fault, at, false);
        (void)work(plan, rc, report);
        _exit(0);
    }
    (void)close(fds[1]);
    memset(committed, 0, MAX_TX * sizeof(*committed));
    while (read(fds[0], &id, sizeof(id)) == sizeof(id))
        committed[id] = true;
    (void)close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

static void a_killed_process_loses_nothing_that_was_committed(void **state)
{
    static const enum fault kills[] = {KILL_BEFORE, KILL_HALF, KILL_AFTER};

    (void)state;
    for (size_t p = 0; p < sizeof(plans) / sizeof(plans[0]); p++) {
        bool killed = true;

        for (int at = 1; killed; at++) {
            bool committed[MAX_TX];
            int whole = 0;
            sqlite3 *db;

            create();
            killed = run_and_kill(&plans[p], kills[at % 3], at, committed);
            db = open_by("unix");
            for (int id = 0; id < 7; id++) {
                int64_t rows = rows_of(db, id);

                assert_true(rows == ROWS || (rows == 0 && !committed[id]));
                whole += rows == ROWS;
            }
            assert_int_equal(number(db, "SELECT n FROM head"), whole);
            assert_intact(db);
            assert_int_equal(sqlite3_close(db), SQLITE_OK);
            assert_int_equal(unlink(path), 0);
        }
    }
}

/* ---- others on the same file ---- */

/* W5: what a rolled-back transaction left behind is not written over another's commit. */
static void frames_of_a_rollback_do_not_land_on_anothers_commit(void **state)
{
    sqlite3 *db, *other;

    (void)state;
    create();
    db = open_writer("combining", "NORMAL", 5);
    other = open_by("unix");
    for (int id = 0; id < 10; id++) {
        must(db, "BEGIN");
        for (int i = 0; i < 12 + id; i++)
            must(db, "INSERT INTO t VALUES (100, randomblob(3500))");
        must(db, "ROLLBACK");
        assert_int_equal(transact(other, 2 * id), SQLITE_OK);
        assert_int_equal(transact(db, 2 * id + 1), SQLITE_OK);
    }
    assert_int_equal(rows_of(db, 100), 0);
    assert_int_equal(number(db, "SELECT n FROM head"), 20);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(number(other, "SELECT count(*) FROM t"), 20 * ROWS);
    assert_intact(other);
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
}

/* In a process of its own: every snapshot holds whole transactions, and none goes back in time. */
static int read_until_told(int told, int ready)
{
    sqlite3 *db = open_by("unix");
    int64_t last = 0;
    char byte = 1;
    bool more = true;

    must(db, "PRAGMA mmap_size = 1073741824");
    while (more) {
        int64_t n, rows;

        must(db, "BEGIN");
        n = number(db, "SELECT n FROM head");
        rows = number(db, "SELECT count(*) FROM t NOT INDEXED");
        if (rows != n * ROWS ||
            number(db, "SELECT count(*) FROM t INDEXED BY ti WHERE id >= 0") != rows || n < last)
            return 3;
        must(db, "COMMIT");
        last = n;
        if (byte != 0 && write(ready, &byte, 1) != 1)
            return 4;
        byte = 0;
        more = read(told, &(char){0}, 1) < 0; /* not blocking: EAGAIN until it is closed */
    }
    return sqlite3_close(db) == SQLITE_OK && last > 0 ? 0 : 5;
}

static void a_reader_in_another_process_sees_whole_transactions_only(void **state)
{
    int told[2], ready[2], status;
    char byte;
    sqlite3 *db;
    pid_t pid;

    (void)state;
    create();
    assert_int_equal(pipe2(told, O_NONBLOCK), 0);
    assert_int_equal(pipe(ready), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)close(told[1]);
        _exit(read_until_told(told[0], ready[1]));
    }
    (void)close(told[0]);
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    db = open_writer("combining", "NORMAL", 8);
    (void)sqlite3_busy_timeout(db, 0);
    for (int id = 1; id <= 300; id++) {
        assert_int_equal(transact(db, id), SQLITE_OK);
        if (id % 20 == 0)
            (void)checkpoint(db, SQLITE_CHECKPOINT_FULL);
        if (id % 100 == 0)
            (void)checkpoint(db, SQLITE_CHECKPOINT_TRUNCATE);
    }
    (void)close(told[1]);
    (void)close(ready[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_intact(db);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(any_failed_write_fails_its_own_transaction_only),
        CASE(a_full_disk_fails_what_it_does_not_hold),
        CASE(a_part_checkpoint_that_fails_counts_no_page_as_moved),
        CASE(a_killed_process_loses_nothing_that_was_committed),
        CASE(frames_of_a_rollback_do_not_land_on_anothers_commit),
        CASE(a_reader_in_another_process_sees_whole_transactions_only),
    };

    return cmocka_run_group_tests_name("vfs_beside_others", tests, group_setup, NULL);
}
