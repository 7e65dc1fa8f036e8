/* A database of the first schema, made by its own SQL, opens and has lost nothing. What it held is
 * compared with what the views show, cell by cell, by SQLite itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "otlite/store.h"
#include "store/schema.h"
#include "store_fixture.h"

static char *dir;
static struct otl_error err;

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

/* A file of version 1 (or 2), and a copy of each of its tables under the name old_*. */
static void old_file(int version, const char *rows)
{
    static const char *const tables[] = {
        "number_point",  "histogram_point", "exponential_histogram_point",
        "summary_point", "exemplar",        "series"};
    char path[4200], sql[200];
    sqlite3 *db;
    char *msg = NULL;

    snprintf(path, sizeof(path), "%s/telemetry.db", dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    for (int i = 0; i < version; i++)
        assert_int_equal(sqlite3_exec(db, telemetry_migrations[i].sql, NULL, NULL, NULL),
                         SQLITE_OK);
    snprintf(sql, sizeof(sql), "PRAGMA application_id = %d; PRAGMA user_version = %d",
             TELEMETRY_APPLICATION_ID, version);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    if (sqlite3_exec(db, rows, NULL, NULL, &msg) != SQLITE_OK)
        fail_msg("%s", msg);
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        snprintf(sql, sizeof(sql), "CREATE TABLE old_%s AS SELECT * FROM %s", tables[i], tables[i]);
        assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    }
    sqlite3_close(db);
}

static struct store *open_store(void)
{
    struct store_opts o = fx_opts(dir);
    struct store *s;

    if (store_new(&o, &s, &err) != OTL_OK)
        fail_msg("%s", err.msg);
    return s;
}

/* The catalogue, and metrics 1 to 4 of the four kinds, each with the series of its number. */
#define CATALOGUE                                                                              \
    "INSERT INTO resource VALUES (1, 1, 'svc', '{}', x'00', '', 0, NULL);"                     \
    "INSERT INTO scope VALUES (1, 1, '', '', '', '{}', x'00', 0);"                             \
    "INSERT INTO metric VALUES (1, 1, 'n', '1', '', 'gauge', 'none', 0, '{}', x'00'),"         \
    " (2, 1, 'h', '1', '', 'histogram', 'delta', 0, '{}', x'00'),"                             \
    " (3, 1, 'x', '1', '', 'exponential_histogram', 'delta', 0, '{}', x'00'),"                 \
    " (4, 1, 's', '1', '', 'summary', 'none', 0, '{}', x'00');"                                \
    "INSERT INTO series VALUES (1, 1, '{}', x'00'), (2, 2, '{}', x'00'), (3, 3, '{}', x'00')," \
    " (4, 4, '{}', x'00'), (5, 1, '{\"k\":\"v\"}', x'01016b730176');"                          \
    "INSERT INTO histogram_bounds VALUES (3, '[1.0,2.0]');"

/* Gaps in the ids are of another program's deleting. */
#define ROWS                                                                                      \
    "INSERT INTO number_point VALUES (1, 1, 100, 0, 0, 5), (2, 1, 200, 7, 1, NULL),"              \
    " (5, 1, 300, 0, 0, x'7ff8000000000001'), (6, 5, 100, 0, 0, 0.1), (7, 1, 50, 0, 0, 9e999);"   \
    "INSERT INTO histogram_point VALUES (1, 2, 100, 0, 0, 3, 1.5, NULL, 2.0, 3, '[1,1,1]'),"        \
    " (2, 2, 200, 0, 0, 3, NULL, NULL, NULL, NULL, NULL);"                                        \
    "INSERT INTO exponential_histogram_point VALUES"                                              \
    " (1, 3, 100, 0, 0, 3, 1.5, 1.0, 2.0, -1, 0, 0.0, 4, '[1,2]', NULL, NULL);"                       \
    "INSERT INTO summary_point VALUES (1, 4, 100, 9, 0, 3, 1.5, '[[0.5,1.0]]');"                  \
    "INSERT INTO exemplar VALUES"                                                                 \
    " (1, 1, 2, 190, 1.25, x'000102030405060708090a0b0c0d0e0f', NULL, '{}', x'00'),"              \
    " (3, 2, 1, 90, 7, NULL, x'0001020304050607', '{}', x'00'), (4, 1, 2, 0, 8, NULL, NULL,"      \
    " '{}', x'00'), (5, 4, 1, 1, 9, NULL, NULL, '{}', x'00'), (6, 3, 1, 2, 10, NULL, NULL, '{}'," \
    " x'00'), (7, 1, 3, 77, 11, NULL, NULL, '{}', x'00');"                                        \
    "INSERT INTO point_segment VALUES ('number', 1, 7, 50, 300);"                                 \
    "INSERT INTO series_last_time VALUES ('number', 2, x'ff');"

static int64_t differences(const char *a, const char *b)
{
    char sql[1000];

    snprintf(sql, sizeof(sql),
             "SELECT (SELECT count(*) FROM (SELECT %s EXCEPT SELECT %s))"
             " + (SELECT count(*) FROM (SELECT %s EXCEPT SELECT %s))",
             a, b, b, a);
    return fx_query(dir, sql);
}

static void nothing_of_the_first_schema_is_lost(void **state)
{
    static const char *const tables[] = {"number", "histogram", "exponential_histogram",
                                         "summary"};

    (void)state;
    for (int version = 1; version <= 2; version++) {
        struct store *s;

        old_file(version, CATALOGUE ROWS);
        for (int pass = 0; pass < 2; pass++) {
            s = open_store();
            store_free(s);
            for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
                char a[100], b[100];

                snprintf(a, sizeof(a), "* FROM %s_head", tables[i]);
                snprintf(b, sizeof(b), "* FROM old_%s_point", tables[i]);
                assert_int_equal(differences(a, b), 0);
                snprintf(a, sizeof(a), "SELECT count(*) > 0 FROM %s_point", tables[i]);
                assert_int_equal(fx_query(dir, a), 1);
            }
            /* By hand: the times of the points that they belonged to; the last one's is gone. */
            assert_int_equal(
                differences("series_id, point_time, point_start_time, time, value, trace_id,"
                            " span_id, attributes, identity FROM exemplar",
                            "series_id, CASE id WHEN 7 THEN 77 WHEN 1 THEN 200 WHEN 4 THEN 200"
                            " ELSE 100 END, CASE id WHEN 1 THEN 7 WHEN 4 THEN 7 WHEN 5 THEN 9"
                            " ELSE 0 END, time, value, trace_id, span_id, attributes, identity"
                            " FROM old_exemplar"),
                0);
            assert_int_equal(fx_query(dir, "SELECT count(*) FROM exemplar"), 6);
            assert_int_equal(differences("* FROM series", "* FROM old_series"), 0);
            /* What there was waits for sealing; what comes now goes to the other half. */
            assert_int_equal(
                fx_query(dir, "SELECT count(*) FROM head WHERE half = 0 AND epoch = 1 AND"
                              " state = 'closed' OR half = 1 AND epoch = 2 AND state = 'open'"),
                10);
            assert_int_equal(fx_query(dir, "SELECT count(*) FROM pragma_foreign_key_check"), 0);
            assert_int_equal(fx_query(dir, "SELECT count(*) FROM pragma_integrity_check"
                                           " WHERE integrity_check <> 'ok'"),
                             0);
        }
        assert_int_equal(teardown(NULL) + setup(NULL), 0);
    }
}

static void an_empty_file_begins_with_open_halves(void **state)
{
    (void)state;
    old_file(1, CATALOGUE);
    store_free(open_store());
    assert_int_equal(fx_query(dir, "SELECT count(*) FROM head WHERE half = 0 AND epoch = 1 AND"
                                   " state = 'open' OR half = 1 AND epoch = 0 AND state ="
                                   " 'sealed'"),
                     10);
}

/* Resends of what was stored before the migration are known, and new values win over it. */
static void points_of_the_first_schema_are_known(void **state)
{
    struct fx *f = fx_new();
    struct store_result is;
    struct store *s;
    uint32_t m;

    (void)state;
    old_file(1, CATALOGUE ROWS);
    s = open_store();
    m = fx_metric(f, METRIC_GAUGE, "n", "1");
    f->b.resources[0].attributes = bytes_of("", 1);
    f->b.scopes[0] = (struct batch_scope){.attributes = bytes_of("", 1)};
    fx_int(f, m, bytes_of("", 1), 100, 5); /* equal */
    fx_int(f, m, bytes_of("", 1), 200, 6); /* another start time: new */
    fx_int(f, m, bytes_of("", 1), 300, 6); /* replaces the NaN */
    if (store_batch(s, 1, &f->b, 0, &is, &err) != OTL_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(is.merged, 1);
    assert_int_equal(is.stored, 1);
    assert_int_equal(is.replaced, 1);
    assert_int_equal(fx_query(dir, "SELECT count(*) FROM number_head_1"), 2);
    assert_int_equal(fx_query(dir, "SELECT value FROM number_point WHERE time = 300"), 6);
    assert_int_equal(fx_query(dir, "SELECT count(*) FROM number_point"), 6);
    store_free(s);
    fx_free(f);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(nothing_of_the_first_schema_is_lost),
        CASE(an_empty_file_begins_with_open_halves),
        CASE(points_of_the_first_schema_are_known),
    };

    return cmocka_run_group_tests_name("migrate", tests, NULL, NULL);
}
