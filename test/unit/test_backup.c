/* test_backup.c -- the online copy: one snapshot under writes, verified, all or nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "otlite/backup.h"

enum { ROWS = 20000 };

struct box {
    char dir[64], src[96], dest[96], partial[112];
    sqlite3 *writer; /* the live database's own connection */
    int calls;
    int64_t last_left, total;
};

static void run(sqlite3 *sql, const char *text)
{
    char *msg = NULL;

    if (sqlite3_exec(sql, text, NULL, NULL, &msg) != SQLITE_OK)
        fail_msg("%s: %s", text, msg);
}

static int64_t number(const char *path, const char *text)
{
    sqlite3 *sql;
    sqlite3_stmt *st;
    int64_t n;

    assert_int_equal(sqlite3_open_v2(path, &sql, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(sql, text, -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    n = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(sql);
    return n;
}

static bool exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

static int setup(void **state)
{
    struct box *b = calloc(1, sizeof(*b));

    assert_non_null(b);
    strcpy(b->dir, "/tmp/otlite-backup-XXXXXX");
    assert_non_null(mkdtemp(b->dir));
    snprintf(b->src, sizeof(b->src), "%s/a 100%%?.db", b->dir);
    snprintf(b->dest, sizeof(b->dest), "%s/copy.db", b->dir);
    snprintf(b->partial, sizeof(b->partial), "%s.partial", b->dest);
    assert_int_equal(sqlite3_open(b->src, &b->writer), SQLITE_OK);
    run(b->writer, "PRAGMA journal_mode = WAL; PRAGMA user_version = 7;"
                   "CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT);"
                   "CREATE INDEX t_text ON t(text);"
                   "CREATE VIEW v AS SELECT * FROM t;"
                   "CREATE TABLE w (k TEXT PRIMARY KEY, n) WITHOUT ROWID;"
                   "INSERT INTO w VALUES ('a', 1), ('b', 2);"
                   "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
                   " INSERT INTO t SELECT i, printf('%0200d', i) FROM n");
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    struct box *b = *state;
    char cmd[128];

    sqlite3_close(b->writer);
    snprintf(cmd, sizeof(cmd), "rm -rf '%s'", b->dir);
    assert_int_equal(system(cmd), 0);
    free(b);
    return 0;
}

static void copies_every_row_and_the_version(void **state)
{
    struct box *b = *state;
    struct otl_error err = {0};

    if (backup_database(b->src, b->dest, NULL, NULL, &err) != OTL_OK)
        fail_msg("%s", err.msg);
    assert_false(exists(b->partial));
    assert_int_equal(number(b->dest, "SELECT count(*) FROM t"), ROWS);
    assert_int_equal(number(b->dest, "SELECT sum(id) FROM v"), (int64_t)ROWS * (ROWS + 1) / 2);
    assert_int_equal(number(b->dest, "SELECT sum(n) FROM w"), 3);
    assert_int_equal(number(b->dest, "PRAGMA user_version"), 7);
}

static void write_more(void *arg, int64_t left, int64_t total)
{
    struct box *b = arg;

    assert_true(left <= total);
    if (b->calls > 0)
        assert_true(left < b->last_left); /* it never starts over */
    b->calls++;
    b->last_left = left;
    b->total = total;
    /* In the live database both new rows and changed old ones, committed between two steps. */
    run(b->writer, "INSERT INTO t(text) VALUES (hex(randomblob(5000)));"
                   "UPDATE t SET text = text || 'x' WHERE id IN (1, 20000); DELETE FROM w");
}

static void keeps_one_snapshot_while_the_source_is_written(void **state)
{
    struct box *b = *state;
    struct otl_error err = {0};

    if (backup_database(b->src, b->dest, write_more, b, &err) != OTL_OK)
        fail_msg("%s", err.msg);
    assert_true(b->calls > 1);
    assert_int_equal(b->last_left, 0);
    assert_true(b->total > 0);
    assert_int_equal(number(b->dest, "SELECT count(*) FROM t"), ROWS);
    assert_int_equal(number(b->dest, "SELECT max(length(text)) FROM t"), 200);
    assert_int_equal(number(b->dest, "SELECT count(*) FROM w"), 2);
    assert_int_equal(number(b->src, "SELECT count(*) FROM t"), ROWS + b->calls);
}

static void leaves_the_source_file_untouched(void **state)
{
    struct box *b = *state;
    struct otl_error err = {0};
    struct stat before, after;

    assert_int_equal(stat(b->src, &before), 0);
    assert_int_equal(backup_database(b->src, b->dest, NULL, NULL, &err), OTL_OK);
    assert_int_equal(stat(b->src, &after), 0);
    assert_int_equal(before.st_mtim.tv_sec, after.st_mtim.tv_sec);
    assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
    assert_int_equal(before.st_size, after.st_size);
}

static void copies_the_permissions(void **state)
{
    struct box *b = *state;
    struct otl_error err = {0};
    struct stat st;

    assert_int_equal(chmod(b->src, 0600), 0);
    assert_int_equal(backup_database(b->src, b->dest, NULL, NULL, &err), OTL_OK);
    assert_int_equal(stat(b->dest, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

static void refuses_a_destination_that_exists(void **state)
{
    struct box *b = *state;
    struct otl_error err = {0};
    FILE *f = fopen(b->dest, "w");

    fputs("mine", f);
    fclose(f);
    assert_int_not_equal(backup_database(b->src, b->dest, NULL, NULL, &err), OTL_OK);
    assert_non_null(strstr(err.msg, "exists already"));
    assert_int_equal(b->calls, 0);
    f = fopen(b->dest, "r");
    assert_int_equal(fgetc(f), 'm');
    fclose(f);
    assert_false(exists(b->partial));
}

static void leaves_another_backups_partial_file_alone(void **state)
{
    struct box *b = *state;
    struct otl_error err = {0};

    close(open(b->partial, O_CREAT | O_WRONLY, 0600));
    assert_int_not_equal(backup_database(b->src, b->dest, NULL, NULL, &err), OTL_OK);
    assert_non_null(strstr(err.msg, ".partial exists"));
    assert_true(exists(b->partial));
    assert_false(exists(b->dest));
}

static void says_that_the_source_is_missing(void **state)
{
    struct box *b = *state;
    struct otl_error err = {0};
    char missing[96];

    snprintf(missing, sizeof(missing), "%s/none.db", b->dir);
    assert_int_equal(backup_database(missing, b->dest, NULL, NULL, &err), OTL_ENOTFOUND);
    assert_non_null(strstr(err.msg, missing));
    assert_false(exists(b->dest));
    assert_false(exists(b->partial));
    assert_false(exists(missing));
}

static void leaves_nothing_behind_when_the_source_is_damaged(void **state)
{
    struct box *b = *state;
    struct otl_error err = {0};
    char junk[4096];
    int64_t root;
    int fd;

    run(b->writer, "PRAGMA wal_checkpoint(TRUNCATE)");
    /* Overwrite the root page of the index: only a check of the content can notice. */
    root = number(b->src, "SELECT rootpage FROM sqlite_schema WHERE name = 't_text'");
    memset(junk, 0x5a, sizeof(junk));
    fd = open(b->src, O_WRONLY);
    assert_int_equal(pwrite(fd, junk, sizeof(junk), (root - 1) * 4096), sizeof(junk));
    close(fd);
    assert_int_equal(backup_database(b->src, b->dest, NULL, NULL, &err), OTL_ECORRUPT);
    assert_false(exists(b->dest));
    assert_false(exists(b->partial));
}

static void leaves_nothing_behind_when_the_disk_is_full(void **state)
{
    struct box *b = *state;
    struct otl_error err = {0};
    struct rlimit was, small;
    enum otl_err rc;

    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &was);
    small = was;
    small.rlim_cur = 1 << 20; /* the database has about 10 MiB */
    setrlimit(RLIMIT_FSIZE, &small);
    rc = backup_database(b->src, b->dest, NULL, NULL, &err);
    setrlimit(RLIMIT_FSIZE, &was);
    assert_true(rc == OTL_EFULL || rc == OTL_EIO);
    assert_true(err.msg[0] != '\0');
    assert_false(exists(b->dest));
    assert_false(exists(b->partial));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(copies_every_row_and_the_version),
        T(keeps_one_snapshot_while_the_source_is_written),
        T(leaves_the_source_file_untouched),
        T(copies_the_permissions),
        T(refuses_a_destination_that_exists),
        T(leaves_another_backups_partial_file_alone),
        T(says_that_the_source_is_missing),
        T(leaves_nothing_behind_when_the_source_is_damaged),
        T(leaves_nothing_behind_when_the_disk_is_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
