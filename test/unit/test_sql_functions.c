/* The functions of SQL for people: label against json_extract, to_time and histogram_quantile by
 * hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "otlite/sql.h"

static struct db db;

static int setup(void **state)
{
    struct sql_tables *tables;
    struct otl_error err;

    (void)state;
    assert_int_equal(sqlite3_open(":memory:", &db.sql), SQLITE_OK);
    assert_int_equal(sql_register(&db, NULL, &tables, &err), OTL_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    /* Nothing keeps the connection from closing. */
    assert_int_equal(sqlite3_close(db.sql), SQLITE_OK);
    return 0;
}

/* The first column as quote() has it, or the error. */
static void assert_sql(const char *sql, const char *want)
{
    char text[1024];
    sqlite3_stmt *st;

    snprintf(text, sizeof(text), "SELECT quote((%s))", sql);
    if (sqlite3_prepare_v2(db.sql, text, -1, &st, NULL) == SQLITE_OK &&
        sqlite3_step(st) == SQLITE_ROW)
        snprintf(text, sizeof(text), "%s", (const char *)sqlite3_column_text(st, 0));
    else
        snprintf(text, sizeof(text), "%s", sqlite3_errmsg(db.sql));
    sqlite3_finalize(st);
    assert_string_equal(text, want);
}

static void a_label_is_what_json_extract_gives(void **state)
{
    static const char object[] =
        "{\"a\":\"x\",\"http.route\":\"/"
        "a\\u00e9\\ud83d\\ude00\\n\\\\\\\"\",\"i\":9223372036854775807,"
        "\"m\":-9223372036854775808,\"d\":1.0,\"e\":1e-7,\"t\":true,\"f\":false,\"n\":null,"
        "\"l\":[1,{\"a\":2},\"}\"],\"o\":{\"a\":\"inner\",\"k\":\"]\"} , \"z\" : \"last\"}";
    static const char *const keys[] = {"a", "http.route", "i", "m", "d", "e", "t",
                                       "f", "n",          "l", "o", "z", "k", ""};

    (void)state;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        char sql[1024];

        snprintf(sql, sizeof(sql),
                 "SELECT label(j, k) IS json_extract(j, '$.\"' || k || '\"') AND "
                 "typeof(label(j, k)) = typeof(json_extract(j, '$.\"' || k || '\"'))"
                 " FROM (SELECT '%s' AS j, '%s' AS k)",
                 object, keys[i]);
        assert_sql(sql, "1");
    }
    assert_sql("label('{\"a\":\"x\"}', 'a')", "'x'");
}

static void a_label_of_what_is_no_object_is_null(void **state)
{
    static const char *const texts[] = {
        "NULL",      "''",         "'['",     "'[1]'",      "'{'", "'{\"a'",       "'{\"a\"'",
        "'{\"a\":'", "'{\"a\":}'", "'\"a\"'", "'{\"a\":{'", "7",   "'{\"a\":\"x'", "x'00ff'"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char sql[100];

        snprintf(sql, sizeof(sql), "label(%s, 'a')", texts[i]);
        assert_sql(sql, "NULL");
    }
    assert_sql("label('{\"a\":1}', NULL)", "NULL");
    /* An escape that is cut off, a lone surrogate, an escaped key. */
    assert_sql("label('{\"a\":\"\\ud800x\"}', 'a')", "'\xef\xbf\xbdx'");
    assert_sql("label('{\"\\u0061\":5}', 'a')", "5");
    assert_sql("label('{\"a\":\"\\u00\"}', 'a')", "'u00'");
}

static void a_time_is_text_in_utc(void **state)
{
    (void)state;
    assert_sql("to_time(0)", "'1970-01-01 00:00:00'");
    assert_sql("to_time(1700000000123000000)", "'2023-11-14 22:13:20.123'");
    assert_sql("to_time(1700000000123456000)", "'2023-11-14 22:13:20.123456'");
    assert_sql("to_time(1700000000000000001)", "'2023-11-14 22:13:20.000000001'");
    assert_sql("to_time(-1)", "'1969-12-31 23:59:59.999999999'");
    assert_sql("to_time(NULL)", "NULL");
    assert_sql("to_time('x')", "NULL");
}

static void a_quantile_lies_where_linear_spread_puts_it(void **state)
{
    (void)state;
    /* Rank 2 of 4 in the first bucket, from 0 to 10: half of it. */
    assert_sql("histogram_quantile(0.5, '[10,20]', '[4,0,0]')", "5.0");
    /* 1, 2, 1 and 4 in all: rank 3 is the end of the second bucket. */
    assert_sql("histogram_quantile(0.75, '[10,20]', '[1,2,1]')", "20.0");
    assert_sql("histogram_quantile(0.5, '[10,20]', '[1,2,1]')", "15.0");
    /* In the last bucket only its lower end is known; the first of negative bounds has just one. */
    assert_sql("histogram_quantile(1, '[10,20]', '[1,2,1]')", "20.0");
    assert_sql("histogram_quantile(0.1, '[-5,20]', '[4,0,0]')", "-5.0");
    /* Empty buckets are passed. */
    assert_sql("histogram_quantile(0, '[10,20]', '[0,2,0]')", "10.0");
    assert_sql("histogram_quantile(0.5, '[10,20]', '[0,0,0]')", "NULL");
    assert_sql("histogram_quantile(0.5, '[]', '[3]')", "NULL");
    assert_sql("histogram_quantile(0.5, '[]', '[]')", "NULL");
    assert_sql("histogram_quantile(0.5, NULL, '[1]')", "NULL");
    assert_sql("histogram_quantile(0.5, '[1, 9e999]', '[0,4,0]')", "Inf");
}

static void wrong_arguments_are_said(void **state)
{
    static const char text[] = "histogram_quantile(q, bounds, bucket_counts) takes JSON arrays of "
                               "numbers, one count more than there are bounds";

    (void)state;
    assert_sql("histogram_quantile(2, '[]', '[]')",
               "histogram_quantile: the quantile must be from 0 to 1");
    assert_sql("histogram_quantile(0.5, '[1]', '[1]')", text);
    assert_sql("histogram_quantile(0.5, '[1', '[1,2]')", text);
    assert_sql("histogram_quantile(0.5, '[1]', '[1,\"x\"]')", text);
    assert_sql("histogram_quantile(0.5, '[1]', '[1,2')", text);
    assert_sql("histogram_quantile(0.5, '{}', '')", text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_label_is_what_json_extract_gives),
        cmocka_unit_test(a_label_of_what_is_no_object_is_null),
        cmocka_unit_test(a_time_is_text_in_utc),
        cmocka_unit_test(a_quantile_lies_where_linear_spread_puts_it),
        cmocka_unit_test(wrong_arguments_are_said),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
