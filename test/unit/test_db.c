/* Opening by DSN, pragmas that are read back, files that are not what they should be (S26), and the
 * race that BEGIN IMMEDIATE is for (R2 a). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "otlite/db.h"
#include "store_fixture.h"

static char *dir;

static int setup(void **state)
{
    (void)state;
    dir = fx_dir_new();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fx_dir_free(dir);
    return 0;
}

static const char *path_of(const char *name)
{
    static char path[4300];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static void put_file(const char *name, const char *content, size_t n)
{
    FILE *f = fopen(path_of(name), "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(content, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* The file's bytes, for "untouched". */
static char *get_file(const char *name, size_t *n)
{
    FILE *f = fopen(path_of(name), "rb");
    char *p = malloc(4 << 20);

    assert_non_null(f);
    assert_non_null(p);
    *n = fread(p, 1, 4 << 20, f);
    fclose(f);
    return p;
}

static enum otl_err open_with(struct db *db, const char *name, const char *const *pragmas,
                              enum db_mode mode, struct otl_error *err)
{
    struct buf dsn = {0};
    enum otl_err rc;

    db_dsn(&dsn, path_of(name), pragmas);
    rc = db_open(db, buf_cstr(&dsn), mode, err);
    buf_fini(&dsn);
    return rc;
}

static const char *const OURS[] = {"busy_timeout(100)", "auto_vacuum(incremental)",
                                   "journal_mode(WAL)", NULL};

static void dsn_is_a_uri_with_every_pragma(void **state)
{
    const char *const pragmas[] = {"journal_mode(WAL)", "cache_size(-2048)", NULL};
    struct buf b = {0};

    (void)state;
    db_dsn(&b, "/data/a b?.db", pragmas);
    assert_string_equal(
        buf_cstr(&b), "file:/data/a%20b%3F.db?_pragma=journal_mode(WAL)&_pragma=cache_size(-2048)");
    buf_reset(&b);
    db_dsn(&b, "//host/x", NULL); /* must not become the host of a URI */
    assert_string_equal(buf_cstr(&b), "file:/%2Fhost/x");
    buf_fini(&b);
}

static void odd_paths_are_opened_as_they_are_named(void **state)
{
    static const char *const names[] = {"a b", "a?b=c", "a%41", "a#b&c", "\xc3\xa4"};
    struct otl_error err;

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct db db;

        assert_int_equal(open_with(&db, names[i], OURS, DB_READ_WRITE_CREATE, &err), OTL_OK);
        assert_string_equal(db.path, path_of(names[i]));
        db_close(&db);
        assert_int_equal(access(path_of(names[i]), F_OK), 0);
    }
}

static void pragmas_are_in_force_after_open(void **state)
{
    const char *const pragmas[] = {
        "busy_timeout(123)",  "auto_vacuum(incremental)",  "journal_mode(WAL)",
        "synchronous(FULL)",  "cache_size(-3000)",         "temp_store(MEMORY)",
        "mmap_size(65536)",   "wal_autocheckpoint(0)",     "foreign_keys(ON)",
        "secure_delete(OFF)", "journal_size_limit(12345)", NULL};
    static const struct {
        const char *sql;
        int64_t value;
    } expect[] = {{"PRAGMA busy_timeout", 123},     {"PRAGMA auto_vacuum", 2},
                  {"PRAGMA synchronous", 2},        {"PRAGMA cache_size", -3000},
                  {"PRAGMA temp_store", 2},         {"PRAGMA mmap_size", 65536},
                  {"PRAGMA wal_autocheckpoint", 0}, {"PRAGMA foreign_keys", 1},
                  {"PRAGMA secure_delete", 0},      {"PRAGMA journal_size_limit", 12345}};
    struct otl_error err;
    struct db db;

    (void)state;
    assert_int_equal(open_with(&db, "x.db", pragmas, DB_READ_WRITE_CREATE, &err), OTL_OK);
    for (size_t i = 0; i < sizeof(expect) / sizeof(expect[0]); i++) {
        int64_t v = -99;

        assert_int_equal(db_query_int(&db, expect[i].sql, &v, &err), OTL_OK);
        assert_int_equal(v, expect[i].value);
    }
    db_close(&db);
}

static void a_pragma_that_did_not_take_is_named_with_both_values(void **state)
{
    /* Changing to WAL writes the first page; after that auto_vacuum is fixed. */
    const char *const wrong_order[] = {"journal_mode(WAL)", "auto_vacuum(incremental)", NULL};
    const char *const too_much[] = {"mmap_size(9000000000000)", NULL};
    const char *const unknown[] = {"no_such_pragma(1)", NULL};
    struct otl_error err;
    struct db db;

    (void)state;
    assert_int_equal(open_with(&db, "a.db", wrong_order, DB_READ_WRITE_CREATE, &err), OTL_EDB);
    assert_non_null(strstr(err.msg, path_of("a.db")));
    assert_non_null(strstr(err.msg, "auto_vacuum"));
    assert_non_null(strstr(err.msg, "wanted incremental (2), it is 0"));
    assert_null(db.sql);
    assert_int_equal(open_with(&db, "b.db", too_much, DB_READ_WRITE_CREATE, &err), OTL_EDB);
    assert_non_null(strstr(err.msg, "mmap_size"));
    assert_int_equal(open_with(&db, "c.db", unknown, DB_READ_WRITE_CREATE, &err), OTL_EDB);
    assert_non_null(strstr(err.msg, "no_such_pragma"));
}

static void a_dsn_cannot_carry_other_sql(void **state)
{
    static const char *const bad[] = {
        "x.db",
        "file:x?_pragma=journal_mode(WAL);DROP TABLE t",
        "file:x?_pragma=a(1); DELETE FROM t; --(2)",
        "file:x?_pragma=cache_size",
        "file:x?_pragma=cache_size()",
        "file:x?mode=memory",
        "file:?_pragma=cache_size(1)",
        "file:x%00y",
        "file:x%2",
    };
    struct otl_error err;
    struct db db;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_not_equal(db_open(&db, bad[i], DB_READ_WRITE_CREATE, &err), OTL_OK);
}

static void a_text_file_is_refused_and_left_as_it_was(void **state)
{
    static const char text[] =
        "this is not a database, it is a shopping list, but a rather long one, over 100 bytes so "
        "that the header check is reached";
    struct otl_error err;
    struct db db;
    size_t n;
    char *now;

    (void)state;
    put_file("t.db", text, sizeof(text));
    assert_int_equal(open_with(&db, "t.db", OURS, DB_READ_WRITE_CREATE, &err), OTL_ECORRUPT);
    assert_non_null(strstr(err.msg, path_of("t.db")));
    assert_non_null(strstr(err.msg, "not a database"));
    assert_null(strchr(err.msg, '\n'));
    now = get_file("t.db", &n);
    assert_int_equal(n, sizeof(text));
    assert_memory_equal(now, text, n);
    free(now);
}

static void an_empty_file_is_a_new_database(void **state)
{
    struct otl_error err;
    struct db db;

    (void)state;
    put_file("e.db", "", 0);
    assert_int_equal(open_with(&db, "e.db", OURS, DB_READ_WRITE_CREATE, &err), OTL_OK);
    db_close(&db);
}

static void another_programs_database_is_refused_and_left_as_it_was(void **state)
{
    struct otl_error err;
    struct db db;
    sqlite3 *sql;
    size_t n, m;
    char *before, *after;

    (void)state;
    assert_int_equal(sqlite3_open(path_of("f.db"), &sql), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(sql, "CREATE TABLE t(a); INSERT INTO t VALUES (1)", NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(sql);
    before = get_file("f.db", &n);
    for (int mode = DB_READ_WRITE_CREATE; mode <= DB_READ_ONLY; mode++) {
        assert_int_equal(open_with(&db, "f.db", OURS, (enum db_mode)mode, &err), OTL_EDB);
        assert_non_null(strstr(err.msg, path_of("f.db")));
        assert_non_null(strstr(err.msg, "another program"));
    }
    after = get_file("f.db", &m);
    assert_int_equal(n, m);
    assert_memory_equal(before, after, n);
    free(before);
    free(after);
}

static void a_directory_a_missing_file_and_a_missing_directory_are_named(void **state)
{
    struct otl_error err;
    struct db db;

    (void)state;
    assert_int_equal(mkdir(path_of("d.db"), 0755), 0);
    assert_int_equal(open_with(&db, "d.db", OURS, DB_READ_WRITE_CREATE, &err), OTL_EDB);
    assert_non_null(strstr(err.msg, "is a directory"));
    assert_int_equal(open_with(&db, "none.db", OURS, DB_READ_ONLY, &err), OTL_ENOTFOUND);
    assert_non_null(strstr(err.msg, "does not exist"));
    assert_int_equal(open_with(&db, "no/such/x.db", OURS, DB_READ_WRITE_CREATE, &err), OTL_EDB);
    assert_non_null(strstr(err.msg, "no/such"));
    assert_int_equal(access(path_of("none.db"), F_OK), -1);
}

/* In a child, because root, which may write everywhere, has to become somebody else. */
static void a_directory_without_write_permission_is_named(void **state)
{
    int status = -1;
    pid_t pid;

    (void)state;
    assert_int_equal(chmod(dir, 0755), 0);
    assert_int_equal(mkdir(path_of("ro"), 0555), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct otl_error err;
        struct db db;

        if (geteuid() == 0 && setuid(65534) != 0)
            _exit(3);
        if (open_with(&db, "ro/x.db", OURS, DB_READ_WRITE_CREATE, &err) != OTL_EDB)
            _exit(1);
        _exit(strstr(err.msg, "not writable") != NULL && strstr(err.msg, "/ro/x.db") != NULL ? 0
                                                                                             : 2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(access(path_of("ro/x.db"), F_OK), -1);
}

static const struct db_migration STEPS[] = {
    {"CREATE TABLE a(x); INSERT INTO a VALUES (1)"},
    {"CREATE TABLE b(x); INSERT INTO b SELECT x + 1 FROM a"},
    {"CREATE TABLE broken(x); INSERT INTO nowhere VALUES (1)"},
};
enum { TEST_ID = 0x6f746c78 };

static void migrations_run_once_and_in_order(void **state)
{
    struct otl_error err;
    struct db db;
    int64_t v;

    (void)state;
    assert_int_equal(open_with(&db, "m.db", OURS, DB_READ_WRITE_CREATE, &err), OTL_OK);
    assert_int_equal(db_migrate(&db, TEST_ID, STEPS, 1, &err), OTL_OK);
    assert_int_equal(db_check_version(&db, TEST_ID, 2, &err), OTL_EDB); /* older */
    assert_int_equal(db_migrate(&db, TEST_ID, STEPS, 2, &err), OTL_OK);
    assert_int_equal(db_migrate(&db, TEST_ID, STEPS, 2, &err), OTL_OK);
    assert_int_equal(db_query_int(&db, "SELECT x FROM b", &v, &err), OTL_OK);
    assert_int_equal(v, 2);
    assert_int_equal(db_query_int(&db, "SELECT count(*) FROM a", &v, &err), OTL_OK);
    assert_int_equal(v, 1);
    assert_int_equal(db_query_int(&db, "PRAGMA user_version", &v, &err), OTL_OK);
    assert_int_equal(v, 2);
    assert_int_equal(db_check_version(&db, TEST_ID, 2, &err), OTL_OK);
    db_close(&db);
}

static void a_step_that_fails_leaves_the_version_before_it(void **state)
{
    struct otl_error err;
    struct db db;
    int64_t v;

    (void)state;
    assert_int_equal(open_with(&db, "m.db", OURS, DB_READ_WRITE_CREATE, &err), OTL_OK);
    assert_int_equal(db_migrate(&db, TEST_ID, STEPS, 3, &err), OTL_EDB);
    assert_int_equal(db_query_int(&db, "PRAGMA user_version", &v, &err), OTL_OK);
    assert_int_equal(v, 2);
    assert_int_equal(
        db_query_int(&db, "SELECT count(*) FROM sqlite_schema WHERE name = 'broken'", &v, &err),
        OTL_OK);
    assert_int_equal(v, 0);
    assert_true(sqlite3_get_autocommit(db.sql));
    db_close(&db);
}

static void a_newer_file_is_refused_with_both_versions(void **state)
{
    struct otl_error err;
    struct db db;

    (void)state;
    assert_int_equal(open_with(&db, "m.db", OURS, DB_READ_WRITE_CREATE, &err), OTL_OK);
    assert_int_equal(db_migrate(&db, TEST_ID, STEPS, 2, &err), OTL_OK);
    assert_int_equal(db_exec(&db, "PRAGMA user_version = 7", &err), OTL_OK);
    assert_int_equal(db_migrate(&db, TEST_ID, STEPS, 2, &err), OTL_EDB);
    assert_non_null(strstr(err.msg, "version is 7"));
    assert_non_null(strstr(err.msg, "up to 2"));
    assert_int_equal(db_check_version(&db, TEST_ID, 2, &err), OTL_EDB);
    /* And the other database of otlite under this name. */
    assert_int_equal(db_migrate(&db, TEST_ID + 1, STEPS, 9, &err), OTL_EDB);
    assert_non_null(strstr(err.msg, "application_id"));
    db_close(&db);
}

static void codes_of_sqlite_become_ours(void **state)
{
    static const struct {
        int sqlite;
        enum otl_err ours;
    } map[] = {{SQLITE_BUSY, OTL_ELOCKED},     {SQLITE_BUSY_SNAPSHOT, OTL_ELOCKED},
               {SQLITE_LOCKED, OTL_ELOCKED},   {SQLITE_FULL, OTL_EFULL},
               {SQLITE_IOERR_FSYNC, OTL_EIO},  {SQLITE_IOERR_NOMEM, OTL_ENOMEM},
               {SQLITE_CORRUPT, OTL_ECORRUPT}, {SQLITE_CORRUPT_VTAB, OTL_ECORRUPT},
               {SQLITE_NOTADB, OTL_ECORRUPT},  {SQLITE_NOMEM, OTL_ENOMEM},
               {SQLITE_CONSTRAINT, OTL_EDB},   {SQLITE_READONLY, OTL_EDB}};
    struct db db = {.path = "/data/x.db"};
    struct otl_error err;

    (void)state;
    for (size_t i = 0; i < sizeof(map) / sizeof(map[0]); i++) {
        assert_int_equal(db_fail(&db, map[i].sqlite, "do it", &err), map[i].ours);
        assert_int_equal(err.code, map[i].ours);
        assert_non_null(strstr(err.msg, "x.db: cannot do it: "));
        assert_null(strstr(err.msg, "/data")); /* a client need not know where it lies */
    }
}

static void a_failed_run_leaves_the_statement_ready(void **state)
{
    struct otl_error err;
    struct sqlite3_stmt *st;
    struct db db;
    int64_t v;

    (void)state;
    assert_int_equal(open_with(&db, "r.db", OURS, DB_READ_WRITE_CREATE, &err), OTL_OK);
    assert_int_equal(db_exec(&db, "CREATE TABLE t(a NOT NULL)", &err), OTL_OK);
    assert_int_equal(db_prepare(&db, "INSERT INTO t VALUES (?)", &st, &err), OTL_OK);
    assert_int_equal(db_run(&db, st, "insert", &err), OTL_EDB);
    assert_non_null(strstr(err.msg, "NOT NULL"));
    assert_int_equal(sqlite3_bind_int(st, 1, 5), SQLITE_OK);
    assert_int_equal(db_run(&db, st, "insert", &err), OTL_OK);
    assert_int_equal(db_run(&db, st, "insert", &err), OTL_EDB); /* the binding is gone */
    assert_int_equal(db_query_int(&db, "SELECT sum(a) FROM t", &v, &err), OTL_OK);
    assert_int_equal(v, 5);
    assert_int_equal(db_query_int(&db, "SELECT a FROM t WHERE a = 6", &v, &err), OTL_EDB);
    sqlite3_finalize(st);
    db_close(&db);
}

/* R2 (a): a transaction that reads first and writes later fails at once when another wrote in
 * between, whatever its busy timeout; BEGIN IMMEDIATE waits for the lock instead. */
static void deferred_fails_where_immediate_would_wait(void **state)
{
    const char *const pragmas[] = {"busy_timeout(5000)", "auto_vacuum(incremental)",
                                   "journal_mode(WAL)", NULL};
    struct otl_error err;
    struct db a, b;
    int64_t v;

    (void)state;
    assert_int_equal(open_with(&a, "race.db", pragmas, DB_READ_WRITE_CREATE, &err), OTL_OK);
    assert_int_equal(db_exec(&a, "CREATE TABLE t(x); PRAGMA application_id = 0x6f746c78", &err),
                     OTL_OK);
    assert_int_equal(open_with(&b, "race.db", pragmas, DB_READ_WRITE, &err), OTL_OK);

    assert_int_equal(db_exec(&a, "BEGIN", &err), OTL_OK);
    assert_int_equal(db_query_int(&a, "SELECT count(*) FROM t", &v, &err), OTL_OK);
    assert_int_equal(db_exec(&b, "INSERT INTO t VALUES (1)", &err), OTL_OK);
    assert_int_equal(db_exec(&a, "INSERT INTO t VALUES (2)", &err), OTL_ELOCKED);
    assert_int_equal(sqlite3_extended_errcode(a.sql), SQLITE_BUSY_SNAPSHOT);
    assert_int_equal(db_exec(&a, "ROLLBACK", &err), OTL_OK);

    assert_int_equal(db_exec(&a, "BEGIN IMMEDIATE", &err), OTL_OK);
    assert_int_equal(db_query_int(&a, "SELECT count(*) FROM t", &v, &err), OTL_OK);
    assert_int_equal(v, 1);
    (void)sqlite3_busy_timeout(b.sql, 0);
    assert_int_equal(db_exec(&b, "INSERT INTO t VALUES (3)", &err), OTL_ELOCKED);
    assert_int_equal(sqlite3_extended_errcode(b.sql), SQLITE_BUSY); /* may wait: no snapshot */
    assert_int_equal(db_exec(&a, "INSERT INTO t VALUES (2); COMMIT", &err), OTL_OK);
    assert_int_equal(db_exec(&b, "INSERT INTO t VALUES (3)", &err), OTL_OK);
    assert_int_equal(db_query_int(&a, "SELECT sum(x) FROM t", &v, &err), OTL_OK);
    assert_int_equal(v, 6);
    db_close(&a);
    db_close(&b);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(dsn_is_a_uri_with_every_pragma),
        CASE(odd_paths_are_opened_as_they_are_named),
        CASE(pragmas_are_in_force_after_open),
        CASE(a_pragma_that_did_not_take_is_named_with_both_values),
        CASE(a_dsn_cannot_carry_other_sql),
        CASE(a_text_file_is_refused_and_left_as_it_was),
        CASE(an_empty_file_is_a_new_database),
        CASE(another_programs_database_is_refused_and_left_as_it_was),
        CASE(a_directory_a_missing_file_and_a_missing_directory_are_named),
        CASE(a_directory_without_write_permission_is_named),
        CASE(migrations_run_once_and_in_order),
        CASE(a_step_that_fails_leaves_the_version_before_it),
        CASE(a_newer_file_is_refused_with_both_versions),
        CASE(codes_of_sqlite_become_ours),
        CASE(a_failed_run_leaves_the_statement_ready),
        CASE(deferred_fails_where_immediate_would_wait),
    };

    return cmocka_run_group_tests_name("db", tests, NULL, NULL);
}
