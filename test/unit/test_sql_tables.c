/* The virtual tables over what is stored, against SQLite itself over the same rows in plain tables:
 * every column, random conditions on series and time, order, plans, snapshots, limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "otlite/clock.h"
#include "otlite/sql.h"
#include "random.h"
#include "store_fixture.h"

enum { SERIES = 6, T0 = 1000 };
#define SECOND INT64_C(1000000000)

static const char *const tables[] = {"number", "histogram", "exponential_histogram", "summary"};

static char *dir;
static struct fx *f;
static struct store *s;
static struct db db;
static struct sql_tables *t;
static struct otl_error err;

static void put(int64_t time, int64_t value)
{
    static const char *const names[] = {"0", "1", "2", "3", "4", "5"};
    struct store_result r;

    fx_reset(f);
    for (int i = 0; i < SERIES; i++) {
        struct bytes a = fx_attrs(f, "k", names[i]);
        struct point *p;

        if (random_below(3) == 0)
            continue;
        p = &fx_int(f, fx_metric(f, METRIC_SUM, "n", "1"), a, time, value * (i + 1))->p;
        if (random_below(4) == 0)
            fx_exemplar(f, p, value);
        if (random_below(8) == 0)
            f->b.numbers[f->b.n_numbers - 1].value =
                (struct value){.kind = VALUE_DOUBLE, .u.d = fx_bits(UINT64_C(0xfff4deadbeef0001))};
        (void)fx_int(f, fx_metric(f, METRIC_SUM, "c", "1"), a, time, value * (i + 1));
        (void)fx_histogram(f, fx_metric(f, METRIC_HISTOGRAM, "h", ""), a, time, value);
        (void)fx_exponential(f, fx_metric(f, METRIC_EXPONENTIAL_HISTOGRAM, "e", ""), a, time,
                             value);
        (void)fx_summary(f, fx_metric(f, METRIC_SUMMARY, "s", ""), a, time, (double)value);
    }
    assert_int_equal(store_batch(s, 1, &f->b, 0, &r, &err), OTL_OK);
}

static void run(const char *sql)
{
    if (sqlite3_exec(db.sql, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db.sql));
}

/* The first column of the first row; "error: ..." */
static const char *ask(const char *sql)
{
    static char text[4096];
    sqlite3_stmt *st;
    int rc = sqlite3_prepare_v2(db.sql, sql, -1, &st, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    if (rc == SQLITE_ROW)
        snprintf(text, sizeof(text), "%s", (const char *)sqlite3_column_text(st, 0));
    else
        snprintf(text, sizeof(text), "error: %s", sqlite3_errmsg(db.sql));
    sqlite3_finalize(st);
    return text;
}

/* What EXPLAIN QUERY PLAN says, line by line. */
static const char *plan(const char *sql)
{
    static char text[4096];
    char explain[2048];
    sqlite3_stmt *st;
    size_t n = 0;

    snprintf(explain, sizeof(explain), "EXPLAIN QUERY PLAN %s", sql);
    assert_int_equal(sqlite3_prepare_v2(db.sql, explain, -1, &st, NULL), SQLITE_OK);
    text[0] = '\0';
    while (sqlite3_step(st) == SQLITE_ROW)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s\n",
                              (const char *)sqlite3_column_text(st, 3));
    sqlite3_finalize(st);
    return text;
}

static int setup(void **state)
{
    struct store_opts o;

    (void)state;
    dir = fx_dir_new();
    o = fx_opts(dir);
    f = fx_new();
    s = fx_store(dir);
    /* Times come up to three times and out of order. */
    for (int i = 0; i < 60; i++)
        put((T0 + (int64_t)random_below(40)) * SECOND + (int64_t)random_below(2), i);
    assert_int_equal(store_open_reader(&db, &o, &err), OTL_OK);
    assert_int_equal(sql_register(&db, NULL, &t, &err), OTL_OK);
    /* The oracle: the same rows as plain tables, ids left out. */
    for (size_t i = 0; i < 4; i++) {
        char sql[400];

        snprintf(sql, sizeof(sql),
                 "CREATE TEMP TABLE plain_%s AS SELECT *, time / 1e9 AS seconds FROM %s_head",
                 tables[i], tables[i]);
        run(sql);
        snprintf(sql, sizeof(sql), "ALTER TABLE temp.plain_%s DROP COLUMN id", tables[i]);
        run(sql);
    }
    run("CREATE TEMP TABLE plain_exemplar AS SELECT *, point_time / 1e9 AS seconds FROM"
        " exemplar_head");
    run("ALTER TABLE temp.plain_exemplar DROP COLUMN id");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    /* Not sqlite3_close_v2: nothing may be left that keeps the connection. */
    assert_int_equal(sqlite3_close(db.sql), SQLITE_OK);
    store_free(s);
    fx_free(f);
    fx_dir_free(dir);
    return 0;
}

/* Rows of either that the other has not, quoted, so that types count; 0. */
static void assert_same(const char *table, const char *plain, const char *columns,
                        const char *where)
{
    char sql[12000], a[2500], b[2500];

    snprintf(a, sizeof(a), "SELECT %s, count(*) AS n FROM %s WHERE %s GROUP BY %s", columns, table,
             where, columns);
    snprintf(b, sizeof(b), "SELECT %s, count(*) AS n FROM temp.%s WHERE %s GROUP BY %s", columns,
             plain, where, columns);
    snprintf(sql, sizeof(sql),
             "SELECT (SELECT count(*) FROM (%s EXCEPT %s)) + (SELECT count(*) FROM (%s EXCEPT %s))",
             a, b, b, a);
    if (strcmp(ask(sql), "0") != 0)
        fail_msg("%s WHERE %s: %s rows differ", table, where, ask(sql));
}

/* quote(c1), typeof(c1), ... of every column of a plain table. */
static const char *all_columns(const char *plain)
{
    static char text[2000];
    char sql[300];

    snprintf(sql, sizeof(sql),
             "SELECT group_concat('quote(' || name || ')||typeof(' || name || ')') FROM"
             " pragma_table_info('%s')",
             plain);
    snprintf(text, sizeof(text), "%s", ask(sql));
    return text;
}

static void every_row_and_column_is_there(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        char table[60], plain[60];

        snprintf(table, sizeof(table), "%s_point", tables[i]);
        snprintf(plain, sizeof(plain), "plain_%s", tables[i]);
        assert_same(table, plain, all_columns(plain), "1");
    }
    assert_same("exemplar", "plain_exemplar", all_columns("plain_exemplar"), "1");
    assert_true(atoi(ask("SELECT count(*) FROM exemplar")) > 5);
    assert_true(atoi(ask("SELECT count(*) FROM number_point WHERE typeof(value) = 'blob'")) > 5);
    assert_true(atoi(ask("SELECT count(*) FROM number_point")) > 100);
}

static void add_value(char *out, size_t n, const char *column)
{
    int64_t second = T0 + (int64_t)random_below(44) - 2, ns = second * SECOND;

    if (strcmp(column, "series_id") == 0) {
        static const char *const ids[] = {"1",    "2",  "3.0", "5",   "'4'", "2.5",
                                          "NULL", "-1", "999", "'x'", "6",   "x'00'"};

        snprintf(out, n, "%s", ids[random_below(12)]);
    } else if (strcmp(column, "seconds") == 0) {
        snprintf(out, n, random_below(2) == 0 ? "%lld" : "%lld.000000001", (long long)second);
    } else {
        switch (random_below(8)) {
        case 0:
            snprintf(out, n, "%lld.5", (long long)ns);
            break;
        case 1:
            snprintf(out, n, "'%lld'", (long long)ns);
            break;
        case 2:
            snprintf(out, n, "%s", random_below(2) == 0 ? "NULL" : "'text'");
            break;
        case 3:
            snprintf(out, n, "%s9e18", random_below(2) == 0 ? "-" : "");
            break;
        default:
            snprintf(out, n, "%lld", (long long)(ns + (int64_t)random_below(2)));
        }
    }
}

/* One to three conditions on the columns that are pushed down. */
static void random_where(char *out, size_t n, const char *time)
{
    static const char *const ops[] = {"<", "<=", "=", ">", ">=", "IS"};
    const char *columns[] = {"series_id", time, "seconds"};
    size_t at = 0;

    for (unsigned i = 0, k = 1 + random_below(3); i < k; i++) {
        const char *column = columns[random_below(3)];
        char a[60], b[60];

        add_value(a, sizeof(a), column);
        add_value(b, sizeof(b), column);
        at += (size_t)snprintf(out + at, n - at, "%s", i > 0 ? " AND " : "");
        if (random_below(4) == 0)
            at += (size_t)snprintf(out + at, n - at, "%s IN (%s, %s, 3, 3)", column, a, b);
        else if (random_below(6) == 0)
            at += (size_t)snprintf(out + at, n - at, "%s IN (SELECT id FROM series WHERE id < %s)",
                                   column, a);
        else
            at += (size_t)snprintf(out + at, n - at, "%s %s %s", column, ops[random_below(6)], a);
    }
}

static void conditions_give_what_they_give_on_plain_rows(void **state)
{
    (void)state;
    for (int i = 0; i < 600; i++) {
        char where[600];

        random_where(where, sizeof(where), "time");
        assert_same("number_point", "plain_number", "series_id, time, quote(value)", where);
        random_where(where, sizeof(where), "point_time");
        assert_same("exemplar", "plain_exemplar", "series_id, point_time, value", where);
    }
}

static bool sorts(const char *sql)
{
    return strstr(plan(sql), "USE TEMP B-TREE") != NULL;
}

static void rows_come_in_the_order_of_series_and_time(void **state)
{
    static const char *const ordered[] = {
        "SELECT * FROM number_point ORDER BY series_id",
        "SELECT * FROM number_point ORDER BY series_id, time",
        "SELECT * FROM number_point ORDER BY series_id, time, start_time",
        "SELECT * FROM number_point WHERE series_id = 1 ORDER BY time",
        "SELECT * FROM number_point WHERE series_id = 1 ORDER BY time, series_id, start_time",
        "SELECT * FROM number_point WHERE series_id IN (3, 1) AND time > 5 ORDER BY series_id, "
        "time",
        "SELECT series_id, count(*) FROM summary_point GROUP BY series_id",
        "SELECT lag(time) OVER (PARTITION BY series_id ORDER BY time) FROM number_point",
        "SELECT * FROM exemplar ORDER BY series_id"};
    static const char *const sorted[] = {
        "SELECT * FROM number_point ORDER BY time",
        "SELECT * FROM number_point ORDER BY series_id DESC",
        "SELECT * FROM number_point ORDER BY series_id, start_time",
        "SELECT * FROM number_point WHERE series_id IN (3, 1) ORDER BY time",
        "SELECT * FROM number_point WHERE series_id = 1 ORDER BY value",
        "SELECT * FROM exemplar ORDER BY series_id, point_time"};

    (void)state;
    for (size_t i = 0; i < sizeof(ordered) / sizeof(ordered[0]); i++) {
        if (sorts(ordered[i]))
            fail_msg("%s:\n%s", ordered[i], plan(ordered[i]));
    }
    for (size_t i = 0; i < sizeof(sorted) / sizeof(sorted[0]); i++) {
        if (!sorts(sorted[i]))
            fail_msg("%s:\n%s", sorted[i], plan(sorted[i]));
    }
    assert_string_equal(
        ask("SELECT count(*) FROM (SELECT series_id, time, lag(series_id) OVER () AS"
            " s, lag(time) OVER () AS t FROM number_point) WHERE series_id < s OR"
            " series_id = s AND time <= t"),
        "0");
    assert_string_equal(
        ask("SELECT group_concat(DISTINCT series_id) FROM number_point WHERE series_id IN"
            " (SELECT id FROM series ORDER BY id DESC)"),
        ask("SELECT group_concat(DISTINCT series_id) FROM (SELECT series_id FROM temp.plain_number"
            " ORDER BY series_id)"));
}

static void a_join_goes_from_series_to_points(void **state)
{
    (void)state;
    /* The letters are sql_points.c's arguments: series, seconds from, time above. */
    assert_non_null(strstr(plan("SELECT * FROM points WHERE metric = 'n'"),
                           "SCAN p VIRTUAL TABLE INDEX 0:s\n"));
    assert_non_null(strstr(plan("SELECT * FROM points WHERE metric = 'n' AND time > 1010"),
                           "SCAN p VIRTUAL TABLE INDEX 0:Fs\n"));
    assert_non_null(
        strstr(plan("SELECT * FROM points WHERE time_unix_nano > 1010 AND metric = 'n'"),
               "SCAN p VIRTUAL TABLE INDEX 0:>s\n"));
    assert_non_null(strstr(plan("SELECT * FROM number_point WHERE series_id IN (1, 2)"),
                           "VIRTUAL TABLE INDEX 0:i\n"));
    assert_non_null(strstr(plan("SELECT * FROM points"), "VIRTUAL TABLE INDEX 0:s\n"));
    assert_string_equal(ask("SELECT count(*) FROM points WHERE metric = 'n' AND time >= 1010"),
                        ask("SELECT count(*) FROM temp.plain_number WHERE time >= 1010000000000"));
}

/* Instructions of SQLite's machine in the statements behind the tables. */
static int64_t inner_steps(void)
{
    int64_t n = 0;

    for (sqlite3_stmt *st = NULL; (st = sqlite3_next_stmt(db.sql, st)) != NULL;)
        n += sqlite3_stmt_status(st, SQLITE_STMTSTATUS_VM_STEP, 0);
    return n;
}

static void new_rows_are_read_from_the_file_once(void **state)
{
    int64_t before, rows = atoi(ask("SELECT count(*) FROM temp.plain_number"));

    (void)state;
    (void)ask("SELECT count(*) FROM points");
    before = inner_steps();
    /* A search for each series; were the head read for each, this would be some hundred times more.
     */
    assert_string_not_equal(ask("SELECT count(*) FROM points"), "0");
    assert_true(inner_steps() - before < 2 * rows);
}

static void series_match_is_what_the_catalogue_says(void **state)
{
    static const char catalogue[] =
        "SELECT count(*) FROM (SELECT s.id, m.name, r.service_name, m.type, m.unit, m.temporality,"
        " m.is_monotonic, c.name, r.project_id, s.attributes, r.attributes FROM series s"
        " JOIN metric m ON m.id = s.metric_id JOIN scope c ON c.id = m.scope_id"
        " JOIN resource r ON r.id = c.resource_id EXCEPT SELECT * FROM series_match())";

    (void)state;
    assert_string_equal(ask(catalogue), "0");
    assert_string_equal(ask("SELECT count(*) FROM series_match()"),
                        ask("SELECT count(*) FROM series"));
    assert_string_equal(ask("SELECT group_concat(k) FROM (SELECT label(attributes, 'k') AS k FROM"
                            " series_match('h{k=~\"[1-3]\",k!=\"2\"}') ORDER BY k)"),
                        "1,3");
    assert_string_equal(ask("SELECT count(*) FROM series_match('n', 1)"), "6");
    assert_string_equal(ask("SELECT count(*) FROM series_match('n', 2)"), "0");
    assert_non_null(strstr(ask("SELECT * FROM series_match('n{')"), "error: "));
    /* A join with the points of what matched. */
    assert_string_equal(ask("SELECT count(*) FROM series_match('n{k=\"4\"}') m JOIN number_point p"
                            " ON p.series_id = m.series_id"),
                        ask("SELECT count(*) FROM temp.plain_number p JOIN series s ON s.id ="
                            " p.series_id WHERE s.attributes = '{\"k\":\"4\"}'"));
}

/* Each aggregate of windows() worked out by SQLite from plain rows, for windows of step seconds. */
static void assert_windows(int step, const char *by)
{
    char sql[4000], naive[1500];

    snprintf(naive, sizeof(naive),
             "SELECT %s AS g, (p.time / %d000000000) * %d000000000 AS t,"
             " count(*) AS c, sum(value) * 1.0 AS s, avg(value) AS a, min(value) * 1.0 AS l,"
             " max(value) * 1.0 AS m, sum(CASE WHEN before IS NULL THEN 0 WHEN value < before OR"
             " start_time > t_before THEN value ELSE value - before END) * 1.0 AS i FROM"
             " (SELECT *, lag(value) OVER w AS before, lag(time) OVER w AS t_before FROM"
             "  temp.plain_number WHERE series_id IN (SELECT series_id FROM series_match('c'))"
             "  WINDOW w AS (PARTITION BY series_id ORDER BY time, start_time)) p"
             " JOIN series s ON s.id = p.series_id GROUP BY 1, 2",
             by == NULL ? "'{}'" : "s.attributes", step, step);
    snprintf(
        sql, sizeof(sql),
        "SELECT count(*) || ' ' || count(CASE WHEN w.count IS c AND w.sum IS s AND abs(w.avg - a)"
        " < 1e-9 AND w.min IS l AND w.max IS m AND w.increase IS i AND abs(w.rate - i / %d) < 1e-9"
        " THEN 1 END) || ' ' || (SELECT count(*) FROM (%s)) FROM (%s) n LEFT JOIN"
        " windows('c', 960000000000, 1080000000000, '%ds', '%s') w ON w.labels = n.g AND"
        " w.time = n.t",
        step, naive, naive, step, by == NULL ? "" : by);
    snprintf(naive, sizeof(naive), "%s", ask(sql));
    if (atoi(naive) < 3 || atoi(naive) != atoi(strchr(naive, ' ')))
        fail_msg("step %d by %s: %s (windows, right ones)", step, by == NULL ? "" : by, naive);
}

static void windows_are_what_sqlite_makes_of_the_rows(void **state)
{
    (void)state;
    assert_windows(10, NULL);
    assert_windows(4, "k");
    assert_windows(40, " k ,nothing");
    assert_string_equal(ask("SELECT labels FROM windows('c{k=\"2\"}', 0, 2e12, '1h',"
                            " '__name__,service,type,unit,scope,resource.service.name,k,absent')"),
                        "{\"__name__\":\"c\",\"service\":\"svc\",\"type\":\"sum\",\"unit\":\"1\","
                        "\"scope\":\"lib\",\"resource.service.name\":\"svc\",\"k\":\"2\"}");
    /* First and last over all series: the greater id of those with the time. */
    assert_string_equal(
        ask("SELECT first || ' ' || last FROM windows('c', 0, 2000000000000, 2000000000000)"),
        ask("SELECT (SELECT value * 1.0 FROM temp.plain_number WHERE series_id IN (SELECT series_id"
            " FROM series_match('c')) ORDER BY time, series_id DESC LIMIT 1) || ' ' || (SELECT "
            "value *"
            " 1.0 FROM temp.plain_number WHERE series_id IN (SELECT series_id FROM "
            "series_match('c'))"
            " ORDER BY time DESC, series_id DESC LIMIT 1)"));
    assert_string_equal(ask("SELECT count(*) FROM windows('c', 5, 5, 1)"), "0");
    assert_string_equal(ask("SELECT count(*) FROM windows('c{k=\"none\"}', 0, 2e12, '1m')"), "0");
}

static void wrong_arguments_of_calls_are_said(void **state)
{
    static const char *const wrong[][2] = {
        {"windows('c', 0, 1)", "windows(selector, from, to, step [, by]): step is missing"},
        {"windows('c', 'x', 1, 1)", "windows: from must be a time in nanoseconds"},
        {"windows('c', 0, 1, '5 parsecs')", "windows: step must be a length of time"},
        {"windows('c', 0, 1, 0)", "windows: step must be a length of time"},
        {"windows('c', 0, 9e18, 1)", "take a longer step"},
        {"windows('c{', 0, 1, 1)", "error: "},
        {"rollup('c', '5m', 0)", "rollup(selector, resolution, from, to): to is missing"},
        {"rollup('c', '7m', 0, 1)", "there are rollups of '5m' and '1h'"}};

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char sql[200];

        snprintf(sql, sizeof(sql), "SELECT * FROM %s", wrong[i][0]);
        if (strstr(ask(sql), wrong[i][1]) == NULL)
            fail_msg("%s: %s", wrong[i][0], ask(sql));
    }
}

static void rollup_rows_are_what_sqlite_makes_of_the_rows(void **state)
{
    (void)state;
    assert_string_equal(
        ask("SELECT count(*) || ' ' || count(CASE WHEN r.points IS n AND r.count IS n AND r.sum IS "
            "s AND"
            " r.min IS l AND r.max IS m AND r.first_time IS f AND r.last_time IS t THEN 1 END) FROM"
            " (SELECT series_id, count(*) AS n, sum(value) * 1.0 AS s, min(value) * 1.0 AS l,"
            "  max(value) * 1.0 AS m, min(time) AS f, max(time) AS t FROM temp.plain_number"
            "  WHERE series_id IN (SELECT series_id FROM series_match('c'))"
            "  GROUP BY series_id, time / 300000000000) x"
            " JOIN rollup('c', '5m', 0, 3000000000000) r ON r.series_id = x.series_id AND r.time ="
            "  f / 300000000000 * 300000000000"),
        "6 6");
}

static void two_statements_at_a_time_share_a_snapshot(void **state)
{
    sqlite3_stmt *a, *b;
    char before[40];
    int n = 1;

    (void)state;
    snprintf(before, sizeof(before), "%s", ask("SELECT count(*) FROM number_point"));
    assert_int_equal(sqlite3_prepare_v2(db.sql, "SELECT value FROM number_point", -1, &a, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db.sql, "SELECT count(*) FROM number_point", -1, &b, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(a), SQLITE_ROW);
    put((T0 + 100) * SECOND, 1);
    assert_int_equal(sqlite3_step(b), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(b, 0), before);
    sqlite3_reset(b);
    while (sqlite3_step(a) == SQLITE_ROW)
        n++;
    assert_int_equal(n, atoi(before));
    /* Nothing runs any more: what was committed is seen. */
    assert_int_equal(sqlite3_step(b), SQLITE_ROW);
    assert_true(sqlite3_column_int(b, 0) > n);
    sqlite3_finalize(a);
    sqlite3_finalize(b);
    run("BEGIN");
    snprintf(before, sizeof(before), "%s", ask("SELECT count(*) FROM number_point"));
    put((T0 + 101) * SECOND, 1);
    assert_string_equal(ask("SELECT count(*) FROM number_point"), before);
    run("COMMIT");
    assert_string_not_equal(ask("SELECT count(*) FROM number_point"), before);
}

static void limits_end_a_statement_and_tell_why(void **state)
{
    atomic_bool cancel = true;
    struct otl_error e;

    (void)state;
    sql_set_limits(t, &(struct read_limits){.cancel = &cancel});
    assert_non_null(strstr(ask("SELECT count(*) FROM number_point"), "error: "));
    assert_int_equal(sql_last_error(t, &e), OTL_ECANCELLED);
    cancel = false;
    sql_set_limits(t, &(struct read_limits){.cancel = &cancel, .deadline_ns = clock_mono_ns()});
    assert_non_null(strstr(ask("SELECT count(*) FROM number_point"), "error: "));
    assert_int_equal(sql_last_error(t, &e), OTL_ELATE);
    sql_set_limits(t, &(struct read_limits){.max_bytes = 100});
    assert_non_null(strstr(ask("SELECT count(*) FROM number_point"), "error: "));
    assert_int_equal(sql_last_error(t, &e), OTL_ETOOBIG);
    sql_set_limits(t, NULL);
    assert_null(strstr(ask("SELECT count(*) FROM number_point"), "error: "));
    assert_int_equal(sql_last_error(t, &e), OTL_OK);
}

static void tables_cannot_be_changed(void **state)
{
    (void)state;
    assert_non_null(strstr(ask("DELETE FROM number_point"), "may not be modified"));
    assert_non_null(strstr(ask("CREATE VIRTUAL TABLE temp.x USING number_point"), "error: "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_and_column_is_there),
        cmocka_unit_test(conditions_give_what_they_give_on_plain_rows),
        cmocka_unit_test(rows_come_in_the_order_of_series_and_time),
        cmocka_unit_test(a_join_goes_from_series_to_points),
        cmocka_unit_test(new_rows_are_read_from_the_file_once),
        cmocka_unit_test(series_match_is_what_the_catalogue_says),
        cmocka_unit_test(windows_are_what_sqlite_makes_of_the_rows),
        cmocka_unit_test(rollup_rows_are_what_sqlite_makes_of_the_rows),
        cmocka_unit_test(wrong_arguments_of_calls_are_said),
        cmocka_unit_test(limits_end_a_statement_and_tell_why),
        cmocka_unit_test(tables_cannot_be_changed),
        cmocka_unit_test(two_statements_at_a_time_share_a_snapshot),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
