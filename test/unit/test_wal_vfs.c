/* The VFS that combines WAL writes (src/store/wal_vfs.c), over a VFS of the test's own that counts
 * writes and fails one of them. Oracle: a plain connection on SQLite's own VFS, and the list of
 * what COMMIT said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/wal_vfs.h"

/* ---- the VFS below ---- */

enum fault { FAULT_NONE, FAULT_IOERR, FAULT_FULL_SHORT, FAULT_SYNC };

static struct below {
    unsigned wal_writes, wal_syncs;
    unsigned locks;   /* calls of xShmLock, of unlocking too */
    unsigned fail_at; /* the write or sync to fail, counted from 1; 0: none */
    enum fault fault;
    bool fired;
} below;

struct low_file {
    sqlite3_file file;
    sqlite3_file *real;
    bool wal;
};

static sqlite3_vfs *unix_vfs;
static sqlite3_io_methods low_methods;

static sqlite3_file *real_of(sqlite3_file *f)
{
    return ((struct low_file *)f)->real;
}

static int low_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
    sqlite3_file *r = real_of(f);

    if (((struct low_file *)f)->wal && ++below.wal_writes == below.fail_at) {
        below.fired = true;
        if (below.fault == FAULT_IOERR)
            return SQLITE_IOERR_WRITE;
        if (below.fault == FAULT_FULL_SHORT) {
            (void)r->pMethods->xWrite(r, p, n / 2, at);
            return SQLITE_FULL;
        }
    }
    return r->pMethods->xWrite(r, p, n, at);
}

static int low_sync(sqlite3_file *f, int flags)
{
    sqlite3_file *r = real_of(f);

    if (((struct low_file *)f)->wal && ++below.wal_syncs == below.fail_at &&
        below.fault == FAULT_SYNC) {
        below.fired = true;
        return SQLITE_IOERR_FSYNC;
    }
    return r->pMethods->xSync(r, flags);
}

#define FORWARD(name, parameters, ...)                              \
    static int low_##name parameters                                \
    {                                                               \
        return real_of(f)->pMethods->name(real_of(f), __VA_ARGS__); \
    }
FORWARD(xRead, (sqlite3_file * f, void *p, int n, sqlite3_int64 at), p, n, at)
FORWARD(xTruncate, (sqlite3_file * f, sqlite3_int64 n), n)
FORWARD(xFileSize, (sqlite3_file * f, sqlite3_int64 *n), n)
FORWARD(xLock, (sqlite3_file * f, int l), l)
FORWARD(xUnlock, (sqlite3_file * f, int l), l)
FORWARD(xCheckReservedLock, (sqlite3_file * f, int *o), o)
FORWARD(xFileControl, (sqlite3_file * f, int op, void *a), op, a)
FORWARD(xShmMap, (sqlite3_file * f, int i, int n, int e, void volatile **o), i, n, e, o)
FORWARD(xShmUnmap, (sqlite3_file * f, int d), d)
FORWARD(xFetch, (sqlite3_file * f, sqlite3_int64 at, int n, void **o), at, n, o)
FORWARD(xUnfetch, (sqlite3_file * f, sqlite3_int64 at, void *p), at, p)

static int low_shm_lock(sqlite3_file *f, int offset, int n, int flags)
{
    below.locks++;
    return real_of(f)->pMethods->xShmLock(real_of(f), offset, n, flags);
}

static int low_close(sqlite3_file *f)
{
    return real_of(f)->pMethods->xClose(real_of(f));
}

static int low_sector(sqlite3_file *f)
{
    return real_of(f)->pMethods->xSectorSize(real_of(f));
}

static int low_device(sqlite3_file *f)
{
    return real_of(f)->pMethods->xDeviceCharacteristics(real_of(f));
}

static void low_barrier(sqlite3_file *f)
{
    real_of(f)->pMethods->xShmBarrier(real_of(f));
}

static int low_open(sqlite3_vfs *v, sqlite3_filename name, sqlite3_file *f, int flags, int *out)
{
    struct low_file *l = (struct low_file *)f;
    int rc;

    (void)v;
    l->real = (sqlite3_file *)(l + 1);
    l->wal = (flags & SQLITE_OPEN_WAL) != 0;
    rc = unix_vfs->xOpen(unix_vfs, name, l->real, flags, out);
    l->file.pMethods = l->real->pMethods == NULL ? NULL : &low_methods;
    return rc;
}

static int set_up_vfs(void **state)
{
    static sqlite3_vfs low;

    (void)state;
    unix_vfs = sqlite3_vfs_find("unix");
    low_methods = (sqlite3_io_methods){.iVersion = 3,
                                       .xClose = low_close,
                                       .xRead = low_xRead,
                                       .xWrite = low_write,
                                       .xTruncate = low_xTruncate,
                                       .xSync = low_sync,
                                       .xFileSize = low_xFileSize,
                                       .xLock = low_xLock,
                                       .xUnlock = low_xUnlock,
                                       .xCheckReservedLock = low_xCheckReservedLock,
                                       .xFileControl = low_xFileControl,
                                       .xSectorSize = low_sector,
                                       .xDeviceCharacteristics = low_device,
                                       .xShmMap = low_xShmMap,
                                       .xShmLock = low_shm_lock,
                                       .xShmBarrier = low_barrier,
                                       .xShmUnmap = low_xShmUnmap,
                                       .xFetch = low_xFetch,
                                       .xUnfetch = low_xUnfetch};
    low = *unix_vfs;
    low.pNext = NULL;
    low.zName = "low";
    low.szOsFile = (int)sizeof(struct low_file) + unix_vfs->szOsFile;
    low.xOpen = low_open;
    if (sqlite3_vfs_register(&low, 0) != SQLITE_OK)
        return -1;
    return wal_vfs_register("combined", &low) == SQLITE_OK ? 0 : -1;
}

/* ---- a database of one test ---- */

struct ctx {
    char dir[64], path[160];
    sqlite3 *db;
    bool keep;     /* the locks, from the beginning on */
    bool keep_log; /* and the place in the log in checkpoints */
};

static sqlite3 *open_by(const struct ctx *c, const char *vfs)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open_v2(c->path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, vfs),
                     SQLITE_OK);
    (void)sqlite3_extended_result_codes(db, 1);
    return db;
}

static int run(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static int64_t number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *st;
    int64_t v;

    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    v = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return v;
}

static void assert_sound(sqlite3 *db)
{
    sqlite3_stmt *st;

    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(st, 0), "ok");
    sqlite3_finalize(st);
}

static void begin_database(struct ctx *c, const char *pragmas)
{
    memset(&below, 0, sizeof(below));
    c->db = open_by(c, "combined");
    assert_int_equal(run(c->db, "PRAGMA auto_vacuum=incremental; PRAGMA journal_mode=WAL;"
                                "PRAGMA wal_autocheckpoint=0"),
                     SQLITE_OK);
    assert_int_equal(run(c->db, pragmas), SQLITE_OK);
    assert_int_equal(run(c->db, "CREATE TABLE t(id INTEGER PRIMARY KEY, part INT, x BLOB)"),
                     SQLITE_OK);
    wal_vfs_keep(c->db, c->keep ? WAL_KEEP_LOCKS : WAL_KEEP_NOTHING);
}

/* As the store does: either nothing is kept at a checkpoint, or the mark. */
static int checkpoint(const struct ctx *c, const char *sql)
{
    int rc;

    wal_vfs_keep(c->db, c->keep_log ? WAL_KEEP_MARK : WAL_KEEP_NOTHING);
    rc = run(c->db, c->keep_log ? "PRAGMA wal_checkpoint(PASSIVE)" : sql);
    wal_vfs_keep(c->db, c->keep ? WAL_KEEP_LOCKS : WAL_KEEP_NOTHING);
    return rc;
}

static int set_up(void **state)
{
    struct ctx *c = calloc(1, sizeof(*c));

    strcpy(c->dir, "/tmp/otlite-walvfs.XXXXXX");
    if (mkdtemp(c->dir) == NULL)
        return -1;
    (void)snprintf(c->path, 80, "%s/t.db", c->dir);
    *state = c;
    return 0;
}

static void remove_files(const struct ctx *c)
{
    static const char *const tails[] = {"", "-wal", "-shm", ".copy", ".copy-wal", ".copy-shm"};
    char path[200];

    for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s%s", c->path, tails[i]);
        (void)unlink(path);
    }
}

static int tear_down(void **state)
{
    struct ctx *c = *state;

    sqlite3_close(c->db);
    remove_files(c);
    (void)rmdir(c->dir);
    free(c);
    return 0;
}

/* One transaction: rows of part p, all of them or none. */
static int put(sqlite3 *db, int p, int rows)
{
    char sql[256];
    int rc = run(db, "BEGIN IMMEDIATE");

    (void)snprintf(sql, sizeof(sql),
                   "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
                   " INSERT INTO t(part, x) SELECT %d, randomblob(40) FROM n",
                   rows, p);
    if (rc == SQLITE_OK)
        rc = run(db, sql);
    if (rc == SQLITE_OK)
        rc = run(db, "COMMIT");
    if (rc != SQLITE_OK && !sqlite3_get_autocommit(db))
        (void)run(db, "ROLLBACK");
    return rc;
}

/* ---- tests ---- */

static void a_commit_is_one_write(void **state)
{
    struct ctx *c = *state;

    begin_database(c, "PRAGMA synchronous=NORMAL");
    /* One row is one frame, 400 are several. */
    for (int i = 0; i < 20; i++) {
        unsigned before = below.wal_writes;

        assert_int_equal(put(c->db, i, i % 2 == 0 ? 1 : 400), SQLITE_OK);
        assert_int_equal(below.wal_writes - before, 1);
    }
    assert_int_equal(below.wal_syncs, 1); /* of the log's header */
}

/* Right after COMMIT other connections, and whoever finds the files after a crash, see it all. */
static void a_commit_is_in_the_files_when_it_returns(void **state)
{
    struct ctx *c = *state;
    sqlite3 *reader;
    char command[1000];

    begin_database(c, "PRAGMA synchronous=NORMAL");
    reader = open_by(c, "unix");
    for (int i = 0, rows = 0; i < 40; i++) {
        sqlite3 *copy;
        struct ctx at_copy = *c;

        if (i % 13 == 12) /* the log begins anew */
            assert_int_equal(checkpoint(c, "PRAGMA wal_checkpoint(RESTART)"), SQLITE_OK);
        assert_int_equal(put(c->db, i, i * 37 % 300 + 1), SQLITE_OK);
        rows += i * 37 % 300 + 1;
        assert_int_equal(number(reader, "SELECT count(*) FROM t"), rows);
        (void)snprintf(command, sizeof(command),
                       "cp %s %s.copy && cp %s-wal %s.copy-wal && rm -f %s.copy-shm", c->path,
                       c->path, c->path, c->path, c->path);
        assert_int_equal(system(command), 0);
        (void)snprintf(at_copy.path, sizeof(at_copy.path), "%.100s.copy", c->path);
        copy = open_by(&at_copy, "unix");
        assert_int_equal(number(copy, "SELECT count(*) FROM t"), rows);
        assert_sound(copy);
        sqlite3_close(copy);
    }
    assert_sound(reader);
    sqlite3_close(reader);
}

/* Fail each write, and each sync, in turn: what COMMIT said is what a plain connection finds. */
static int rows_of(int i, int big)
{
    return (i * 53 % 190 + 1) * (i % 4 == 1 ? big : 1);
}

/* big: a factor for every fourth transaction; 60 makes it larger than what is held back. */
static void what_commit_says_is_so_with(struct ctx *c, enum fault fault, const char *pragmas,
                                        int big)
{
    bool failed_once = false;

    for (unsigned n = 1; n < (big > 1 ? 25 : 60); n++) {
        bool committed[12] = {false};
        sqlite3 *plain;

        begin_database(c, pragmas);
        below = (struct below){.fault = fault, .fail_at = n};
        for (int i = 0; i < 12; i++) {
            if (i == 7)
                (void)checkpoint(c, "PRAGMA wal_checkpoint(TRUNCATE)");
            below.fired = false;
            committed[i] = put(c->db, i, rows_of(i, big)) == SQLITE_OK;
            assert_true(committed[i] || below.fired);
            failed_once |= !committed[i];
        }
        plain = open_by(c, "unix");
        for (int i = 0; i < 12; i++) {
            char sql[80];

            (void)snprintf(sql, sizeof(sql), "SELECT count(*) FROM t WHERE part = %d", i);
            assert_int_equal(number(plain, sql), committed[i] ? rows_of(i, big) : 0);
        }
        assert_sound(plain);
        sqlite3_close(plain);
        sqlite3_close(c->db);
        c->db = NULL;
        remove_files(c);
    }
    assert_true(failed_once);
}

static void a_failed_write_fails_its_transaction(void **state)
{
    what_commit_says_is_so_with(*state, FAULT_IOERR, "PRAGMA synchronous=NORMAL", 1);
    what_commit_says_is_so_with(*state, FAULT_IOERR, "PRAGMA synchronous=NORMAL", 60);
    what_commit_says_is_so_with(*state, FAULT_IOERR, "PRAGMA cache_size=3", 1);
}

static void a_short_write_on_a_full_disk_fails_its_transaction(void **state)
{
    what_commit_says_is_so_with(*state, FAULT_FULL_SHORT, "PRAGMA synchronous=NORMAL", 1);
    what_commit_says_is_so_with(*state, FAULT_FULL_SHORT, "PRAGMA cache_size=3", 1);
}

static void a_failed_sync_fails_its_transaction(void **state)
{
    what_commit_says_is_so_with(*state, FAULT_SYNC, "PRAGMA synchronous=FULL", 1);
}

/* A small cache spills frames before the commit and writes pages twice; savepoints and rollbacks
 * move the end of the log back. The same statements on SQLite's own VFS are the oracle. */
static void spilled_and_rolled_back_frames_read_right(void **state)
{
    struct ctx *c = *state;
    struct ctx other = *c;
    sqlite3 *plain, *all[2];
    uint32_t seed = 7;

    begin_database(c, "PRAGMA synchronous=NORMAL; PRAGMA cache_size=3; PRAGMA cache_spill=1");
    (void)snprintf(other.path, sizeof(other.path), "%.100s.copy", c->path);
    plain = open_by(&other, "unix");
    assert_int_equal(run(plain, "PRAGMA auto_vacuum=incremental; PRAGMA journal_mode=WAL;"
                                "CREATE TABLE t(id INTEGER PRIMARY KEY, part INT, x BLOB)"),
                     SQLITE_OK);
    all[0] = c->db;
    all[1] = plain;
    for (int i = 0; i < 400; i++) {
        static const char *const steps[] = {"BEGIN IMMEDIATE", "COMMIT",        "ROLLBACK",
                                            "SAVEPOINT a",     "ROLLBACK TO a", "RELEASE a"};
        char sql[300];
        int rc[2];

        seed = seed * 1664525 + 1013904223;
        if (seed >> 28 < 6)
            (void)snprintf(sql, sizeof(sql), "%s", steps[(seed >> 16) % 6]);
        else if (seed >> 28 < 12)
            (void)snprintf(sql, sizeof(sql),
                           "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n"
                           " WHERE i < %u) INSERT INTO t(part, x) SELECT %d, hex(i * %u) FROM n",
                           (seed >> 8) % 300 + 1, i, seed >> 4 & 0xfff);
        else
            (void)snprintf(sql, sizeof(sql), "UPDATE t SET part = part + 1 WHERE id %% %u = 0",
                           (seed >> 8) % 7 + 1);
        for (int k = 0; k < 2; k++)
            rc[k] = run(all[k], sql);
        assert_int_equal(rc[0], rc[1]);
        assert_int_equal(number(all[0], "SELECT coalesce(sum(part * id + length(x)), 0) FROM t"),
                         number(all[1], "SELECT coalesce(sum(part * id + length(x)), 0) FROM t"));
    }
    (void)run(c->db, "COMMIT");
    (void)run(plain, "COMMIT");
    sqlite3_close(c->db);
    c->db = open_by(c, "unix");
    assert_int_equal(number(c->db, "SELECT coalesce(sum(part * id + length(x)), 0) FROM t"),
                     number(plain, "SELECT coalesce(sum(part * id + length(x)), 0) FROM t"));
    assert_sound(c->db);
    sqlite3_close(plain);
}

/* ---- locks that are kept ---- */

/* A transaction makes six calls for locks: two raise its mark in the log. */
static void transactions_with_kept_locks_make_no_calls_for_them(void **state)
{
    struct ctx *c = *state;
    unsigned without, with;

    begin_database(c, "PRAGMA synchronous=NORMAL");
    below.locks = 0;
    for (int i = 0; i < 8; i++)
        assert_int_equal(put(c->db, i, 10), SQLITE_OK);
    without = below.locks;
    below.locks = 0;
    wal_vfs_keep(c->db, WAL_KEEP_LOCKS);
    for (int i = 0; i < 8; i++)
        assert_int_equal(put(c->db, i, 10), SQLITE_OK);
    wal_vfs_keep(c->db, WAL_KEEP_NOTHING);
    with = below.locks;
    assert_int_equal(without, 8 * 6);
    assert_int_equal(with, 6);
}

/* Rows in the database file alone, without its log: what checkpoints have moved. */
static int64_t moved_rows(const struct ctx *c)
{
    struct ctx at_copy = *c;
    char command[1000];
    sqlite3 *copy;
    int64_t rows;

    (void)snprintf(command, sizeof(command), "cp %s %s.copy && rm -f %s.copy-wal %s.copy-shm",
                   c->path, c->path, c->path, c->path);
    assert_int_equal(system(command), 0);
    (void)snprintf(at_copy.path, sizeof(at_copy.path), "%.100s.copy", c->path);
    copy = open_by(&at_copy, "unix");
    rows = number(copy, "SELECT count(*) FROM t");
    assert_sound(copy);
    sqlite3_close(copy);
    return rows;
}

/* Others read what is committed, may not write, and may run checkpoints, which take nothing away;
 * afterwards all is as if nothing had been kept. */
static void others_beside_kept_locks(void **state)
{
    struct ctx *c = *state;
    sqlite3 *reader, *writer;
    int rows = 0;

    begin_database(c, "PRAGMA synchronous=NORMAL");
    reader = open_by(c, "unix");
    writer = open_by(c, "unix");
    assert_int_equal(run(writer, "PRAGMA wal_autocheckpoint=0"), SQLITE_OK);
    for (int round = 0; round < 6; round++) {
        bool snapshot = round % 2 == 1;
        int before = rows;

        if (round % 3 == 2) /* the log begins anew with the next transaction */
            assert_int_equal(run(c->db, "PRAGMA wal_checkpoint(PASSIVE)"), SQLITE_OK);
        if (snapshot) {
            assert_int_equal(run(reader, "BEGIN"), SQLITE_OK);
            assert_int_equal(number(reader, "SELECT count(*) FROM t"), rows);
        }
        wal_vfs_keep(c->db, WAL_KEEP_LOCKS);
        for (int i = 0; i < 5; i++) {
            assert_int_equal(put(c->db, round, 50 * i + 1), SQLITE_OK);
            rows += 50 * i + 1;
            assert_int_equal(number(reader, "SELECT count(*) FROM t"), snapshot ? before : rows);
            assert_int_equal(number(writer, "SELECT count(*) FROM t"), rows);
            assert_int_equal(run(writer, "BEGIN IMMEDIATE") & 0xff, SQLITE_BUSY);
            assert_int_equal(run(writer, "PRAGMA wal_checkpoint(PASSIVE)"), SQLITE_OK);
        }
        wal_vfs_keep(c->db, WAL_KEEP_NOTHING);
        if (snapshot)
            assert_int_equal(run(reader, "COMMIT"), SQLITE_OK);
        assert_int_equal(put(writer, round, 3), SQLITE_OK);
        rows += 3;
        assert_int_equal(number(c->db, "SELECT count(*) FROM t"), rows);
        assert_sound(c->db);
        assert_int_equal(run(c->db, "PRAGMA wal_checkpoint(PASSIVE)"), SQLITE_OK);
        assert_int_equal(moved_rows(c), rows);
    }
    wal_vfs_keep(c->db, WAL_KEEP_LOCKS);
    assert_int_equal(put(c->db, 0, 1), SQLITE_OK);
    sqlite3_close(c->db);
    c->db = NULL;
    assert_int_equal(put(writer, 0, 1), SQLITE_OK);
    assert_int_equal(number(reader, "SELECT count(*) FROM t"), rows + 2);
    assert_sound(reader);
    sqlite3_close(reader);
    sqlite3_close(writer);
}

/* Such a checkpoint syncs the log and moves what is before the mark; the next transaction goes on
 * in the log, where one after a whole checkpoint begins it anew, which takes a sync. */
static void a_checkpoint_that_keeps_the_mark_lets_the_log_go_on(void **state)
{
    struct ctx *c = *state;
    int rows = 0;

    begin_database(c, "PRAGMA synchronous=NORMAL");
    for (int round = 0; round < 5; round++) {
        assert_int_equal(put(c->db, round, 100), SQLITE_OK); /* after the last whole checkpoint */
        wal_vfs_keep(c->db, WAL_KEEP_LOCKS);
        for (int i = 0; i < 4; i++)
            assert_int_equal(put(c->db, round, 100), SQLITE_OK);
        rows += 500;
        below.wal_syncs = 0;
        wal_vfs_keep(c->db, WAL_KEEP_MARK);
        assert_int_equal(run(c->db, "PRAGMA wal_checkpoint(PASSIVE)"), SQLITE_OK);
        wal_vfs_keep(c->db, WAL_KEEP_NOTHING);
        assert_int_equal(below.wal_syncs, 1);
        assert_int_equal(put(c->db, round, 1), SQLITE_OK);
        rows++;
        assert_int_equal(below.wal_syncs, 1);
        assert_int_equal(number(c->db, "SELECT count(*) FROM t"), rows);

        assert_int_equal(run(c->db, "PRAGMA wal_checkpoint(PASSIVE)"), SQLITE_OK);
        assert_int_equal(moved_rows(c), rows);
        below.wal_syncs = 0;
        assert_int_equal(put(c->db, round, 1), SQLITE_OK);
        rows++;
        assert_int_equal(below.wal_syncs, 1);
    }
    assert_sound(c->db);
}

/* The promises above hold beside kept locks, too. */
static void promises_beside_kept_locks(struct ctx *c)
{
    void *state = c;

    c->keep = true;
    a_commit_is_in_the_files_when_it_returns(&state);
    sqlite3_close(c->db);
    remove_files(c);
    spilled_and_rolled_back_frames_read_right(&state);
    sqlite3_close(c->db);
    c->db = NULL;
    remove_files(c);
    what_commit_says_is_so_with(c, FAULT_IOERR, "PRAGMA synchronous=NORMAL", 1);
    what_commit_says_is_so_with(c, FAULT_IOERR, "PRAGMA cache_size=3", 1);
    what_commit_says_is_so_with(c, FAULT_SYNC, "PRAGMA synchronous=FULL", 1);
}

static void kept_locks_change_no_promise(void **state)
{
    promises_beside_kept_locks(*state);
}

static void a_kept_mark_changes_no_promise(void **state)
{
    ((struct ctx *)*state)->keep_log = true;
    promises_beside_kept_locks(*state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_commit_is_one_write, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_commit_is_in_the_files_when_it_returns, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_failed_write_fails_its_transaction, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_short_write_on_a_full_disk_fails_its_transaction, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_failed_sync_fails_its_transaction, set_up, tear_down),
        cmocka_unit_test_setup_teardown(spilled_and_rolled_back_frames_read_right, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(transactions_with_kept_locks_make_no_calls_for_them, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(others_beside_kept_locks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_checkpoint_that_keeps_the_mark_lets_the_log_go_on, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(kept_locks_change_no_promise, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_kept_mark_changes_no_promise, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, set_up_vfs, NULL);
}
