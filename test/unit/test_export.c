/* test_export.c -- stored rows as OTLP/JSON lines and as CSV. The expected text is written by hand
 * from the OTLP/JSON rules; rows are inserted with SQL, so that nothing but the export is tested.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <glob.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "otlite/decode.h"
#include "otlite/export.h"
#include "otlite/sql.h"
#include "otlite/store.h"
#include "store/schema.h"

/* Canonical attribute sets (attrs.h) as SQL blobs. */
#define NO_ATTRS   "x'00'"
#define A_IS_1     "x'010161690000000000000001'"               /* a = int 1 */
#define SVC_IS_WEB "x'010c736572766963652e6e616d657303776562'" /* service.name = "web" */

/* One export of everything of a project over a connection. max_points 0: CSV. */
static enum otl_err exported(struct db *db, int64_t project_id, unsigned max_points, FILE *out,
                             struct otl_error *err)
{
    const struct export_opts o = {
        .project_id = project_id, .from = INT64_MIN, .to = INT64_MAX, .max_points = max_points};
    const struct read_limits limits = {0};
    struct read_shared *shared = NULL;
    struct read_session *session = NULL;
    struct read *r = NULL;
    enum otl_err rc = read_shared_new(NULL, 1 << 20, &shared, err);

    assert_int_equal(rc, OTL_OK);
    assert_int_equal(read_session_open(shared, db, &session, err), OTL_OK);
    assert_int_equal(read_begin(session, &limits, sqlite3_get_autocommit(db->sql) != 0, &r, err),
                     OTL_OK);
    rc = max_points == 0 ? export_csv(r, db, &o, out, err) : export_otlp_json(r, db, &o, out, err);
    read_end(r);
    read_session_close(session);
    read_shared_free(shared);
    return rc;
}

static enum otl_err exported_csv(struct db *db, int64_t project_id, FILE *out,
                                 struct otl_error *err)
{
    return exported(db, project_id, 0, out, err);
}

struct box {
    struct db db;
    char *out;
    size_t n;
    FILE *file;
};

static void run(struct box *b, const char *sql)
{
    char *msg = NULL;

    if (sqlite3_exec(b->db.sql, sql, NULL, NULL, &msg) != SQLITE_OK)
        fail_msg("%s: %s", sql, msg);
}

static int setup(void **state)
{
    struct box *b = calloc(1, sizeof(*b));
    struct sql_tables *tables;

    assert_non_null(b);
    strcpy(b->db.path, ":memory:");
    assert_int_equal(sqlite3_open(":memory:", &b->db.sql), SQLITE_OK);
    for (int i = 0; i < telemetry_migration_count; i++)
        run(b, telemetry_migrations[i].sql);
    assert_int_equal(sql_register(&b->db, NULL, &tables, NULL), OTL_OK);
    b->file = open_memstream(&b->out, &b->n);
    assert_non_null(b->file);
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    struct box *b = *state;

    fclose(b->file);
    free(b->out);
    sqlite3_close(b->db.sql);
    free(b);
    return 0;
}

/* One resource (service "web"), one scope, one metric of the type, one series without attributes.
 */
static void one_metric(struct box *b, const char *type, const char *temporality, int monotonic)
{
    char sql[512];

    run(b, "INSERT INTO resource VALUES (1, 1, 'web', '{\"service.name\":\"web\"}', " SVC_IS_WEB
           ", '', 0, NULL);"
           "INSERT INTO scope VALUES (1, 1, '', '', '', '{}', " NO_ATTRS ", 0);");
    snprintf(sql, sizeof(sql),
             "INSERT INTO metric VALUES (1, 1, 'm', '', '', '%s', '%s', %d, '{}', " NO_ATTRS ");"
             "INSERT INTO series VALUES (1, 1, '{}', " NO_ATTRS ");",
             type, temporality, monotonic);
    run(b, sql);
}

#define HEAD                                                                                    \
    "{\"resourceMetrics\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":" \
    "{\"stringValue\":\"web\"}}]},\"scopeMetrics\":[{\"scope\":{},\"metrics\":["
#define TAIL "]}]}]}\n"

static void expect(struct box *b, unsigned max_points, const char *want)
{
    struct otl_error err = {0};

    if (exported(&b->db, 0, max_points, b->file, &err) != OTL_OK)
        fail_msg("%s", err.msg);
    assert_string_equal(b->out, want);
    assert_int_equal(b->n, strlen(want));
}

static void writes_nothing_for_an_empty_database(void **state)
{
    expect(*state, 100, "");
}

static void writes_numbers_exactly(void **state)
{
    struct box *b = *state;

    one_metric(b, "gauge", "none", 0);
    run(b, "INSERT INTO number_head_0(series_id, time, start_time, flags, value) VALUES"
           " (1, 1, 0, 0, 9223372036854775807), (1, 2, 0, 0, -9223372036854775808),"
           " (1, 3, 0, 0, 0.1), (1, 4, 0, 0, -0.0), (1, 5, 0, 0, 9e999), (1, 6, 0, 0, -9e999),"
           " (1, 7, 0, 0, x'7ff8000000000000'), (1, 8, 7, 1, NULL), (1, 9, 0, 0, 3.0)");
    /* Text for -0.0 in SQL gives 0.0, so that it is bound. */
    {
        sqlite3_stmt *st;

        sqlite3_prepare_v2(b->db.sql, "UPDATE number_head_0 SET value = ? WHERE time = 4", -1, &st,
                           NULL);
        sqlite3_bind_double(st, 1, -0.0);
        assert_int_equal(sqlite3_step(st), SQLITE_DONE);
        sqlite3_finalize(st);
    }
    expect(b, 100,
           HEAD "{\"name\":\"m\",\"gauge\":{\"dataPoints\":["
                "{\"timeUnixNano\":\"1\",\"asInt\":\"9223372036854775807\"},"
                "{\"timeUnixNano\":\"2\",\"asInt\":\"-9223372036854775808\"},"
                "{\"timeUnixNano\":\"3\",\"asDouble\":0.1},"
                "{\"timeUnixNano\":\"4\",\"asDouble\":-0.0},"
                "{\"timeUnixNano\":\"5\",\"asDouble\":\"Infinity\"},"
                "{\"timeUnixNano\":\"6\",\"asDouble\":\"-Infinity\"},"
                "{\"timeUnixNano\":\"7\",\"asDouble\":\"NaN\"},"
                "{\"timeUnixNano\":\"8\",\"startTimeUnixNano\":\"7\",\"flags\":1},"
                "{\"timeUnixNano\":\"9\",\"asDouble\":3.0}]}}" TAIL);
}

static void writes_everything_about_resource_scope_and_metric(void **state)
{
    struct box *b = *state;

    run(b,
        "INSERT INTO resource VALUES (1, 1, 'web', '{}', " SVC_IS_WEB ", 'https://r', 3,"
        " '[{\"type\":\"host\",\"idKeys\":[\"host.id\"]}]');"
        "INSERT INTO scope VALUES (1, 1, 'lib \"x\"', '1.2', 'https://s', '{}', " A_IS_1 ", 4);"
        "INSERT INTO metric VALUES (1, 1, 'hits', 'By', 'bytes' || char(10) || 'in', 'sum',"
        " 'delta', 1, '{}', " A_IS_1 ");"
        "INSERT INTO series VALUES (1, 1, '{}', " A_IS_1 ");"
        "INSERT INTO number_head_0 VALUES (1, 1, 1700000000123456789, 1700000000000000000, 0, 5)");
    expect(
        b, 100,
        "{\"resourceMetrics\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\","
        "\"value\":{\"stringValue\":\"web\"}}],\"droppedAttributesCount\":3,\"entityRefs\":"
        "[{\"type\":\"host\",\"idKeys\":[\"host.id\"]}]},\"scopeMetrics\":[{\"scope\":{"
        "\"name\":\"lib \\\"x\\\"\",\"version\":\"1.2\",\"attributes\":[{\"key\":\"a\",\"value\":"
        "{\"intValue\":\"1\"}}],\"droppedAttributesCount\":4},\"metrics\":[{\"name\":\"hits\","
        "\"description\":\"bytes\\nin\",\"unit\":\"By\",\"metadata\":[{\"key\":\"a\",\"value\":"
        "{\"intValue\":\"1\"}}],\"sum\":{\"aggregationTemporality\":1,\"isMonotonic\":true,"
        "\"dataPoints\":[{\"timeUnixNano\":\"1700000000123456789\",\"startTimeUnixNano\":"
        "\"1700000000000000000\",\"attributes\":[{\"key\":\"a\",\"value\":{\"intValue\":\"1\"}}],"
        "\"asInt\":\"5\"}]}}],\"schemaUrl\":\"https://s\"}],\"schemaUrl\":\"https://r\"}]}\n");
}

static void writes_histograms_with_and_without_their_optional_parts(void **state)
{
    struct box *b = *state;

    one_metric(b, "histogram", "cumulative", 0);
    run(b, "INSERT INTO histogram_bounds VALUES (1, '[-9e999,0.5,1.0,9e999]'), (2, '[]');"
           "INSERT INTO histogram_head_0 VALUES"
           " (1, 1, 1, 0, 0, 6, 7.5, 0.25, 4.0, 1, '[0,1,2,3,0]'),"
           " (2, 1, 2, 0, 0, 2, NULL, NULL, NULL, NULL, NULL),"
           " (3, 1, 3, 0, 0, 2, x'7ff8000000000000', NULL, 1e300, 2, '[2]')");
    expect(b, 100,
           HEAD "{\"name\":\"m\",\"histogram\":{\"aggregationTemporality\":2,\"dataPoints\":["
                "{\"timeUnixNano\":\"1\",\"count\":\"6\",\"sum\":7.5,\"min\":0.25,\"max\":4.0,"
                "\"bucketCounts\":[\"0\",\"1\",\"2\",\"3\",\"0\"],"
                "\"explicitBounds\":[\"-Infinity\",0.5,1.0,\"Infinity\"]},"
                "{\"timeUnixNano\":\"2\",\"count\":\"2\"},"
                "{\"timeUnixNano\":\"3\",\"count\":\"2\",\"sum\":\"NaN\",\"max\":1e+300,"
                "\"bucketCounts\":[\"2\"]}]}}" TAIL);
}

static void writes_exponential_histograms(void **state)
{
    struct box *b = *state;

    one_metric(b, "exponential_histogram", "delta", 0);
    run(b, "INSERT INTO exponential_histogram_head_0 VALUES"
           " (1, 1, 1, 0, 0, 9, 1.5, NULL, NULL, -2, 3, 0.5, -7, '[1,2]', NULL, NULL),"
           " (2, 1, 2, 0, 0, 0, NULL, NULL, NULL, 20, 0, 0.0, 0, '[]', 5, '[]')");
    expect(b, 100,
           HEAD "{\"name\":\"m\",\"exponentialHistogram\":{\"aggregationTemporality\":1,"
                "\"dataPoints\":[{\"timeUnixNano\":\"1\",\"count\":\"9\",\"sum\":1.5,\"scale\":-2,"
                "\"zeroCount\":\"3\",\"zeroThreshold\":0.5,\"positive\":{\"offset\":-7,"
                "\"bucketCounts\":[\"1\",\"2\"]}},{\"timeUnixNano\":\"2\",\"count\":\"0\","
                "\"scale\":20,\"zeroCount\":\"0\",\"positive\":{\"offset\":0},\"negative\":"
                "{\"offset\":5}}]}}" TAIL);
}

static void writes_summaries(void **state)
{
    struct box *b = *state;

    one_metric(b, "summary", "none", 0);
    run(b, "INSERT INTO summary_head_0 VALUES"
           " (1, 1, 1, 0, 0, 4, 10.0, '[[0.5,2.5],[0.9,\"NaN\"],[1.0,\"NaN:7ff8000000000001\"]]'),"
           " (2, 1, 2, 0, 0, 0, 0.0, '[]'), (3, 1, 3, 0, 0, 1, 9e999, '[[0.0,9e999]]')");
    expect(b, 100,
           HEAD "{\"name\":\"m\",\"summary\":{\"dataPoints\":["
                "{\"timeUnixNano\":\"1\",\"count\":\"4\",\"sum\":10.0,\"quantileValues\":["
                "{\"quantile\":0.5,\"value\":2.5},{\"quantile\":0.9,\"value\":\"NaN\"},"
                "{\"quantile\":1.0,\"value\":\"NaN\"}]},"
                "{\"timeUnixNano\":\"2\",\"count\":\"0\",\"sum\":0.0},"
                "{\"timeUnixNano\":\"3\",\"count\":\"1\",\"sum\":\"Infinity\",\"quantileValues\":["
                "{\"quantile\":0.0,\"value\":\"Infinity\"}]}]}}" TAIL);
}

static void gives_each_point_its_own_exemplars(void **state)
{
    struct box *b = *state;

    one_metric(b, "gauge", "none", 0);
    /* A histogram of another series has a point of the same time: its exemplar must not show up. */
    run(b, "INSERT INTO metric VALUES (2, 1, 'h', '', '', 'histogram', 'delta', 0, '{}', " NO_ATTRS
           "); INSERT INTO series VALUES (2, 2, '{}', " NO_ATTRS ");"
           "INSERT INTO number_head_0 VALUES (1, 1, 1, 0, 0, 1), (2, 1, 2, 0, 0, 2);"
           "INSERT INTO histogram_head_0 VALUES (1, 2, 1, 0, 0, 0, NULL, NULL, NULL, NULL, NULL);"
           "INSERT INTO exemplar_head_0 VALUES"
           " (1, 1, 1, 0, 5, 1.5, x'000102030405060708090a0b0c0d0e0f', x'f0f1f2f3f4f5f6f7', "
           "'{}', " NO_ATTRS "), (2, 1, 1, 0, 6, 7, NULL, NULL, '{}', " A_IS_1 "),"
           " (3, 2, 1, 0, 7, 8, NULL, NULL, '{}', " NO_ATTRS "),"
           " (4, 1, 1, 9, 7, 9, NULL, NULL, '{}', " NO_ATTRS ")"); /* of no point */
    expect(b, 100,
           HEAD "{\"name\":\"m\",\"gauge\":{\"dataPoints\":["
                "{\"timeUnixNano\":\"1\",\"asInt\":\"1\",\"exemplars\":["
                "{\"timeUnixNano\":\"5\",\"asDouble\":1.5,"
                "\"traceId\":\"000102030405060708090a0b0c0d0e0f\",\"spanId\":\"f0f1f2f3f4f5f6f7\"},"
                "{\"timeUnixNano\":\"6\",\"asInt\":\"7\",\"filteredAttributes\":[{\"key\":\"a\","
                "\"value\":{\"intValue\":\"1\"}}]}]},"
                "{\"timeUnixNano\":\"2\",\"asInt\":\"2\"}]}},"
                "{\"name\":\"h\",\"histogram\":{\"aggregationTemporality\":1,\"dataPoints\":["
                "{\"timeUnixNano\":\"1\",\"count\":\"0\",\"exemplars\":[{\"timeUnixNano\":\"7\","
                "\"asInt\":\"8\"}]}]}}" TAIL);
}

static void sorts_by_catalogue_then_time_whatever_the_order_of_arrival(void **state)
{
    struct box *b = *state;

    one_metric(b, "gauge", "none", 0);
    /* Series 3 is metric 1's, though younger than metric 2's series 2; a summary lies between. */
    run(b, "INSERT INTO metric VALUES (2, 1, 's', '', '', 'summary', 'none', 0, '{}', " NO_ATTRS
           "), (3, 1, 'g', '', '', 'gauge', 'none', 0, '{}', " NO_ATTRS ");"
           "INSERT INTO series VALUES (2, 3, '{}', " NO_ATTRS "), (3, 1, '{}', " A_IS_1
           "), (4, 2, '{}', " NO_ATTRS ");"
           "INSERT INTO number_head_0(series_id, time, start_time, flags, value) VALUES"
           " (2, 4, 0, 0, 24), (3, 1, 0, 0, 31), (1, 3, 0, 0, 13), (1, 2, 0, 0, 12);"
           "INSERT INTO summary_head_0 VALUES (1, 4, 1, 0, 0, 1, 1.0, '[]')");
    expect(b, 100,
           HEAD
           "{\"name\":\"m\",\"gauge\":{\"dataPoints\":["
           "{\"timeUnixNano\":\"2\",\"asInt\":\"12\"},{\"timeUnixNano\":\"3\",\"asInt\":\"13\"},"
           "{\"timeUnixNano\":\"1\",\"attributes\":[{\"key\":\"a\",\"value\":{\"intValue\":"
           "\"1\"}}],\"asInt\":\"31\"}]}},"
           "{\"name\":\"s\",\"summary\":{\"dataPoints\":[{\"timeUnixNano\":\"1\",\"count\":\"1\""
           ",\"sum\":1.0}]}},"
           "{\"name\":\"g\",\"gauge\":{\"dataPoints\":[{\"timeUnixNano\":\"4\",\"asInt\":\"24\"}"
           "]}}" TAIL);
}

static void begins_a_new_line_at_max_points_and_for_another_scope(void **state)
{
    struct box *b = *state;

    one_metric(b, "gauge", "none", 0);
    run(b, "INSERT INTO scope VALUES (2, 1, 'other', '', '', '{}', " NO_ATTRS ", 0);"
           "INSERT INTO metric VALUES (2, 2, 'n', '', '', 'gauge', 'none', 0, '{}', " NO_ATTRS ");"
           "INSERT INTO series VALUES (2, 2, '{}', " NO_ATTRS ");"
           "INSERT INTO number_head_0 VALUES (1, 1, 1, 0, 0, 1), (2, 1, 2, 0, 0, 2),"
           " (3, 1, 3, 0, 0, 3), (4, 2, 1, 0, 0, 4)");
#define M1 HEAD "{\"name\":\"m\",\"gauge\":{\"dataPoints\":["
    expect(
        b, 2,
        M1
        "{\"timeUnixNano\":\"1\",\"asInt\":\"1\"},{\"timeUnixNano\":\"2\",\"asInt\":\"2\"}]}}" TAIL
            M1 "{\"timeUnixNano\":\"3\",\"asInt\":\"3\"}]}}" TAIL
        "{\"resourceMetrics\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\","
        "\"value\":{\"stringValue\":\"web\"}}]},\"scopeMetrics\":[{\"scope\":{\"name\":\"other\"}"
        ",\"metrics\":[{\"name\":\"n\",\"gauge\":{\"dataPoints\":[{\"timeUnixNano\":\"1\","
        "\"asInt\":\"4\"}]}}" TAIL);
}

static void two_projects(struct box *b)
{
    one_metric(b, "gauge", "none", 0);
    run(b, "INSERT INTO resource VALUES (2, 2, '', '{}', " NO_ATTRS ", '', 0, NULL);"
           "INSERT INTO scope VALUES (2, 2, '', '', '', '{}', " NO_ATTRS ", 0);"
           "INSERT INTO metric VALUES (2, 2, 'n', '', '', 'gauge', 'none', 0, '{}', " NO_ATTRS ");"
           "INSERT INTO series VALUES (2, 2, '{}', " NO_ATTRS ");"
           "INSERT INTO number_head_0 VALUES (1, 1, 1, 0, 0, 1), (2, 2, 1000000000, 0, 0, 4)");
}

static void keeps_to_one_project_when_asked(void **state)
{
    struct box *b = *state;
    struct otl_error err = {0};

    two_projects(b);
    assert_int_equal(exported(&b->db, 2, 100, b->file, &err), OTL_OK);
    assert_string_equal(b->out, "{\"resourceMetrics\":[{\"resource\":{},\"scopeMetrics\":[{"
                                "\"scope\":{},\"metrics\":[{\"name\":\"n\",\"gauge\":{"
                                "\"dataPoints\":[{\"timeUnixNano\":\"1000000000\",\"asInt\":\"4\"}"
                                "]}}]}]}]}\n");
}

static void export_fails(struct box *b, const char *part)
{
    struct otl_error err = {0};

    assert_int_equal(exported(&b->db, 0, 100, b->file, &err), OTL_ECORRUPT);
    if (strstr(err.msg, part) == NULL)
        fail_msg("'%s' does not say '%s'", err.msg, part);
    /* The connection is usable and outside a transaction again. */
    assert_int_equal(sqlite3_get_autocommit(b->db.sql), 1);
}

static void names_the_row_that_is_damaged(void **state)
{
    struct box *b = *state;

    one_metric(b, "histogram", "cumulative", 0);
    run(b, "INSERT INTO histogram_head_0 VALUES (7, 1, 1, 0, 0, 1, 1.0, 1.0, 1.0, 9, '[1]')");
    export_fails(b, "histogram_bounds 9 is missing");
    run(b, "INSERT INTO histogram_bounds VALUES (9, '[1.0,]')");
    export_fails(b, "histogram_bounds 9 is damaged");
    run(b, "UPDATE histogram_bounds SET bounds = '[1.0]'; UPDATE series SET identity = x'0101'");
    export_fails(b, "attributes of series 1");
}

/* The head reports it in the log. */
static void leaves_a_row_out_that_is_no_point(void **state)
{
    static const char *const bad[] = {
        "",           "[",         "[[]]",         "[[0.5]]",  "[[0.5,1.0,2.0]]", "[[0.5,1.0],]",
        "[[0.5,1.0]", "[[0.5,x]]", "[[0.5,1.0]x]", "[0.5,1.0]"};
    struct box *b = *state;
    char sql[128];

    one_metric(b, "summary", "none", 0);
    run(b, "INSERT INTO summary_head_0 VALUES (3, 1, 1, 0, 0, 1, 1.0, '[]')");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(sql, sizeof(sql), "UPDATE summary_head_0 SET quantiles = '%s'", bad[i]);
        run(b, sql);
        expect(b, 100, "");
    }
}

static void reports_an_output_that_cannot_be_written(void **state)
{
    struct box *b = *state;
    struct otl_error err = {0};
    FILE *full = fopen("/dev/full", "w");

    assert_non_null(full);
    two_projects(b);
    assert_int_equal(exported(&b->db, 0, 100, full, &err), OTL_EFULL);
    assert_non_null(strstr(err.msg, "No space left"));
    assert_int_equal(exported_csv(&b->db, 0, full, &err), OTL_EFULL);
    assert_non_null(strstr(err.msg, "No space left"));
    fclose(full);
}

static void sorts_more_points_than_memory_may_hold(void **state)
{
    struct box *b = *state;
    struct otl_error err = {0};
    int64_t last = 0;
    size_t lines = 0, points = 0;

    one_metric(b, "gauge", "none", 0);
    run(b, "PRAGMA cache_size = 100; PRAGMA temp_store = MEMORY;"
           "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)"
           " INSERT INTO number_head_0 SELECT i, 1, 60000 - i, 0, 0, i FROM n");
    assert_int_equal(exported(&b->db, 0, 1000, b->file, &err), OTL_OK);
    for (char *p = b->out; (p = strstr(p, "timeUnixNano\":\"")) != NULL; p += 15) {
        int64_t t = atoll(p + 15);

        assert_true(t > last);
        last = t;
        points++;
    }
    for (size_t i = 0; i < b->n; i++)
        lines += b->out[i] == '\n';
    assert_int_equal(points, 50000);
    assert_int_equal(lines, 50);
    assert_int_equal(last, 59999);
    /* The connection's own setting is back. */
    {
        int64_t store = 0;

        assert_int_equal(db_query_int(&b->db, "PRAGMA temp_store", &store, &err), OTL_OK);
        assert_int_equal(store, 2);
    }
}

static void works_inside_a_callers_transaction(void **state)
{
    struct box *b = *state;
    struct otl_error err = {0};

    two_projects(b);
    run(b, "BEGIN");
    assert_int_equal(exported(&b->db, 1, 100, b->file, &err), OTL_OK);
    assert_int_equal(sqlite3_get_autocommit(b->db.sql), 0);
    run(b, "COMMIT");
    assert_non_null(strstr(b->out, "\"name\":\"m\""));
}

#define CSV_HEAD \
    "time,time_unix_nano,service_name,metric,unit,type,attributes,resource_attributes,value,"          \
    "start_time_unix_nano,temporality,is_monotonic,scope_name\n"

static void csv_quotes_and_tells_the_special_values_apart(void **state)
{
    struct box *b = *state;
    struct otl_error err = {0};

    one_metric(b, "gauge", "none", 0);
    run(b, "UPDATE metric SET name = 'a,\"b\"', unit = 'By';"
           "INSERT INTO number_head_0(series_id, time, start_time, flags, value) VALUES"
           " (1, 1500000000, 7, 0, 1), (1, 2000000000, 0, 0, 0.1), (1, 3000000000, 0, 1, NULL),"
           " (1, 4000000000, 0, 0, x'7ff8000000000000'), (1, 5000000000, 0, 0, -9e999)");
#define M "web,\"a,\"\"b\"\"\",By,gauge,{},\"{\"\"service.name\"\":\"\"web\"\"}\","
/* No temporality, no monotonic, a scope without a name. */
#define G ",,,\"\""
    assert_int_equal(exported_csv(&b->db, 0, b->file, &err), OTL_OK);
    assert_string_equal(b->out, CSV_HEAD "1.5,1500000000," M "1,7" G "\n"
                                         "2.0,2000000000," M "0.1," G "\n"
                                         "3.0,3000000000," M "," G "\n"
                                         "4.0,4000000000," M "NaN," G "\n"
                                         "5.0,5000000000," M "-Infinity," G "\n");
}

static void csv_keeps_to_one_project_when_asked(void **state)
{
    struct box *b = *state;
    struct otl_error err = {0};

    two_projects(b);
    assert_int_equal(exported_csv(&b->db, 2, b->file, &err), OTL_OK);
    assert_string_equal(b->out, CSV_HEAD "1.0,1000000000,\"\",n,\"\",gauge,{},{},4,,,,\"\"\n");
}

/* ---- round trip: store, export, store that elsewhere, export again ---- */

static const struct store_opts *opts_of(const char *dir)
{
    static struct store_opts o;

    o = (struct store_opts){.data_dir = dir,
                            .durability = DURABILITY_NORMAL,
                            .cache_bytes = 1 << 20,
                            .busy_timeout_ms = 1000,
                            .checkpoint_pages = 1000};
    return &o;
}

static void store_body(struct store *s, enum encoding encoding, struct bytes body)
{
    struct decode_limits limits = decode_limits_default;
    struct otl_error err = {0};
    struct store_result result;
    struct arena arena;
    struct batch batch;

    limits.future_slack_ns = 0;
    arena_init(&arena, 64 << 20);
    if (decode_body(encoding, body, &limits, 1, &arena, &batch, &err) != OTL_OK)
        fail_msg("decode: %s %s", err.field, err.msg);
    assert_int_equal(batch_rejected(&batch), 0);
    if (store_batch(s, 1, &batch, 1000, &result, &err) != OTL_OK)
        fail_msg("store: %s", err.msg);
    assert_int_equal(result.stored + result.merged, batch_storable(&batch));
    arena_fini(&arena);
}

/* Everything in dir as OTLP/JSON; the caller frees it. */
static char *export_dir(const char *dir)
{
    struct otl_error err = {0};
    struct db db;
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);

    if (store_open_reader(&db, opts_of(dir), &err) != OTL_OK)
        fail_msg("open: %s", err.msg);
    if (exported(&db, 0, 7, f, &err) != OTL_OK)
        fail_msg("export: %s", err.msg);
    db_close(&db);
    fclose(f);
    return text;
}

static void make_dir(char dir[64])
{
    strcpy(dir, "/tmp/otlite-export-XXXXXX");
    assert_non_null(mkdtemp(dir));
}

static void remove_dir(const char *dir)
{
    char cmd[128];

    snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
    assert_int_equal(system(cmd), 0);
}

static struct store *open_store(const char *dir)
{
    struct otl_error err = {0};
    struct store *s;

    if (store_new(opts_of(dir), &s, &err) != OTL_OK)
        fail_msg("%s", err.msg);
    return s;
}

/* What dir holds survives a second trip; the first export, which the caller frees. */
static char *check_round_trip(const char *dir)
{
    char *first = export_dir(dir), *second;
    char other[64];
    struct store *s;

    make_dir(other);
    s = open_store(other);
    for (char *line = first, *end; (end = strchr(line, '\n')) != NULL; line = end + 1)
        store_body(s, ENCODING_JSON, bytes_of(line, (size_t)(end - line)));
    store_free(s);
    second = export_dir(other);
    assert_string_equal(first, second);
    free(second);
    remove_dir(other);
    return first;
}

/* One of each kind in the form that export writes (canonical order of keys, nothing unset), so that
 * the export must equal it byte for byte. */
static const char EVERYTHING[] =
    "{\"resourceMetrics\":[{\"resource\":{\"attributes\":["
    "{\"key\":\"host.id\",\"value\":{\"stringValue\":\"h\\u0000\\\"\xc3\xa9\"}},"
    "{\"key\":\"service.name\",\"value\":{\"stringValue\":\"all\"}}],"
    "\"droppedAttributesCount\":1,\"entityRefs\":[{\"type\":\"host\",\"idKeys\":[\"host.id\"]}]},"
    "\"scopeMetrics\":[{\"scope\":{\"name\":\"lib\",\"version\":\"1\",\"attributes\":["
    "{\"key\":\"a\",\"value\":{}},{\"key\":\"b\",\"value\":{\"boolValue\":false}},"
    "{\"key\":\"c\",\"value\":{\"intValue\":\"-9223372036854775808\"}},"
    "{\"key\":\"d\",\"value\":{\"doubleValue\":-0.0}},"
    "{\"key\":\"e\",\"value\":{\"bytesValue\":\"AP8=\"}},"
    "{\"key\":\"f\",\"value\":{\"arrayValue\":{\"values\":[{\"intValue\":\"1\"},{},"
    "{\"stringValue\":\"\"}]}}},"
    "{\"key\":\"g\",\"value\":{\"kvlistValue\":{\"values\":[{\"key\":\"k\",\"value\":"
    "{\"doubleValue\":\"Infinity\"}}]}}}],\"droppedAttributesCount\":2},\"metrics\":["
    "{\"name\":\"g\",\"description\":\"d\",\"unit\":\"1\",\"metadata\":[{\"key\":\"k\",\"value\":"
    "{\"intValue\":\"7\"}}],\"gauge\":{\"dataPoints\":["
    "{\"timeUnixNano\":\"1\",\"asDouble\":-0.0},"
    "{\"timeUnixNano\":\"2\",\"asInt\":\"9007199254740993\"},"
    "{\"timeUnixNano\":\"3\",\"asDouble\":\"NaN\"},"
    "{\"timeUnixNano\":\"4\",\"startTimeUnixNano\":\"2\",\"flags\":1}]}}]}]}]}\n"
    "{\"resourceMetrics\":[{\"resource\":{},\"scopeMetrics\":[{\"scope\":{},\"metrics\":["
    "{\"name\":\"s\",\"sum\":{\"aggregationTemporality\":1,\"dataPoints\":["
    "{\"timeUnixNano\":\"9223372036854775807\",\"attributes\":[{\"key\":\"x\",\"value\":"
    "{\"doubleValue\":1.0}}],\"asDouble\":0.1,\"exemplars\":[{\"timeUnixNano\":\"5\","
    "\"asDouble\":\"-Infinity\",\"traceId\":\"000102030405060708090a0b0c0d0e0f\","
    "\"spanId\":\"f0f1f2f3f4f5f6f7\",\"filteredAttributes\":[{\"key\":\"u\",\"value\":"
    "{\"stringValue\":\"v\"}}]}]}]}},"
    "{\"name\":\"h\",\"histogram\":{\"aggregationTemporality\":2,\"dataPoints\":["
    "{\"timeUnixNano\":\"1\",\"count\":\"6\",\"sum\":-0.0,\"min\":0.25,\"max\":\"NaN\","
    "\"bucketCounts\":[\"1\",\"2\",\"3\"],\"explicitBounds\":[-0.5,\"Infinity\"]},"
    "{\"timeUnixNano\":\"2\",\"count\":\"4\"},"
    "{\"timeUnixNano\":\"3\",\"count\":\"4\",\"bucketCounts\":[\"4\"]}]}},"
    "{\"name\":\"e\",\"exponentialHistogram\":{\"aggregationTemporality\":2,\"dataPoints\":["
    "{\"timeUnixNano\":\"1\",\"count\":\"6\",\"sum\":3.0,\"scale\":-1,\"zeroCount\":\"1\","
    "\"zeroThreshold\":1e-09,\"positive\":{\"offset\":-3,\"bucketCounts\":[\"2\",\"0\",\"3\"]},"
    "\"negative\":{\"offset\":0}}]}}]}],\"schemaUrl\":\"https://r\"}]}\n"
    "{\"resourceMetrics\":[{\"resource\":{},\"scopeMetrics\":[{\"scope\":{\"name\":\"z\"},"
    "\"metrics\":[{\"name\":\"q\",\"summary\":{\"dataPoints\":["
    "{\"timeUnixNano\":\"1\",\"count\":\"2\",\"sum\":\"Infinity\",\"quantileValues\":["
    "{\"quantile\":0.0,\"value\":1.5},{\"quantile\":0.99,\"value\":\"NaN\"}]}]}}],"
    "\"schemaUrl\":\"https://s\"}],\"schemaUrl\":\"https://r\"}]}\n";

static void brings_back_what_was_ingested_byte_for_byte(void **state)
{
    char dir[64];
    struct store *s;
    char *out;

    (void)state;
    make_dir(dir);
    s = open_store(dir);
    for (const char *line = EVERYTHING, *end; (end = strchr(line, '\n')) != NULL; line = end + 1)
        store_body(s, ENCODING_JSON, bytes_of(line, (size_t)(end - line)));
    store_free(s);
    out = check_round_trip(dir);
    assert_string_equal(out, EVERYTHING);
    free(out);
    remove_dir(dir);
}

/* Bodies that real SDKs sent, when the folder with them is there. */
static void brings_back_what_sdks_sent(void **state)
{
    char dir[64];
    struct store *s;
    glob_t g;

    (void)state;
    if (glob("../shared/payloads/*proto.bin", 0, NULL, &g) != 0) {
        print_message("skipped: there is no ../shared/payloads\n");
        skip();
    }
    make_dir(dir);
    s = open_store(dir);
    for (size_t i = 0; i < g.gl_pathc; i++) {
        FILE *f = fopen(g.gl_pathv[i], "r");
        char *body = malloc(1 << 20);
        size_t n;

        assert_non_null(f);
        assert_non_null(body);
        n = fread(body, 1, 1 << 20, f);
        assert_true(feof(f) && n > 0);
        fclose(f);
        store_body(s, ENCODING_PROTOBUF, bytes_of(body, n));
        free(body);
    }
    globfree(&g);
    store_free(s);
    free(check_round_trip(dir));
    remove_dir(dir);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(writes_nothing_for_an_empty_database),
        T(writes_numbers_exactly),
        T(writes_everything_about_resource_scope_and_metric),
        T(writes_histograms_with_and_without_their_optional_parts),
        T(writes_exponential_histograms),
        T(writes_summaries),
        T(gives_each_point_its_own_exemplars),
        T(sorts_by_catalogue_then_time_whatever_the_order_of_arrival),
        T(begins_a_new_line_at_max_points_and_for_another_scope),
        T(keeps_to_one_project_when_asked),
        T(names_the_row_that_is_damaged),
        T(leaves_a_row_out_that_is_no_point),
        T(reports_an_output_that_cannot_be_written),
        T(sorts_more_points_than_memory_may_hold),
        T(works_inside_a_callers_transaction),
        T(csv_quotes_and_tells_the_special_values_apart),
        T(csv_keeps_to_one_project_when_asked),
        cmocka_unit_test(brings_back_what_was_ingested_byte_for_byte),
        cmocka_unit_test(brings_back_what_sdks_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
