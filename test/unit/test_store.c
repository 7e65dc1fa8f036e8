/* What a batch becomes in telemetry.db: identity, values, resends, errors in the middle. */
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "otlite/clock.h"
#include "otlite/store.h"
#include "store_fixture.h"

#define T INT64_C(1700000000000000000)

static char *dir;
static struct store *s;
static struct fx *f;
static struct store_result r;
static struct otl_error err;

static void reopen_store(void)
{
    store_free(s);
    s = fx_store(dir);
}

static int setup(void **state)
{
    (void)state;
    dir = fx_dir_new();
    f = fx_new();
    s = fx_store(dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    store_free(s);
    s = NULL;
    fx_free(f);
    fx_dir_free(dir);
    return 0;
}

static void put(void)
{
    if (store_batch(s, 1, &f->b, 1000, &r, &err) != OTL_OK)
        fail_msg("%s", err.msg);
}

static int64_t q(const char *sql)
{
    return fx_query(dir, sql);
}

static void assert_text(const char *sql, const char *expect)
{
    char *is = fx_query_text(dir, sql);

    assert_string_equal(is, expect);
    free(is);
}

/* ---- identity ---- */

static void the_view_shows_a_point_in_plain_columns(void **state)
{
    uint32_t m = fx_metric(f, METRIC_SUM, "requests", "1");

    (void)state;
    fx_int(f, m, fx_attrs(f, "path", "/a"), 1500000000, 42);
    put();
    assert_int_equal(r.stored, 1);
    assert_text("SELECT time || '|' || time_unix_nano || '|' || service_name || '|' || metric ||"
                " '|' || unit || '|' || type || '|' || attributes || '|' || resource_attributes ||"
                " '|' || value FROM points",
                "1.5|1500000000|svc|requests|1|sum|{\"path\":\"/a\"}|"
                "{\"service.name\":\"svc\"}|42");
}

static void what_is_the_same_gets_the_same_rows(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        uint32_t m;

        fx_reset(f);
        m = fx_metric(f, METRIC_GAUGE, "g", "1");
        fx_int(f, m, fx_attrs(f, "k", "v"), T + i, 1);
        fx_int(f, m, fx_attrs(f, "k", "w"), T + i, 1);
        put();
        if (i == 1)
            reopen_store();
    }
    assert_int_equal(q("SELECT count(*) FROM resource"), 1);
    assert_int_equal(q("SELECT count(*) FROM scope"), 1);
    assert_int_equal(q("SELECT count(*) FROM metric"), 1);
    assert_int_equal(q("SELECT count(*) FROM series"), 2);
    assert_int_equal(q("SELECT count(*) FROM number_head"), 6);
    assert_int_equal(store_series_count(s), 2);
}

/* One batch a variant; every variant differs in one thing that is identity (M-15, M-21). */
static void whatever_is_identity_gives_rows_of_its_own(void **state)
{
    int64_t time = T;

    (void)state;
    for (int variant = 0; variant < 12; variant++) {
        int64_t project = variant == 1 ? 2 : 1;
        uint32_t m;
        struct bytes attrs;

        fx_reset(f);
        m = fx_metric(f, METRIC_SUM, variant == 2 ? "other" : "m", variant == 3 ? "s" : "ms");
        attrs = variant == 4   ? fx_attrs_int(f, "k", 1)
                : variant == 5 ? fx_attrs(f, NULL, NULL)
                               : fx_attrs(f, "k", "1");
        if (variant == 6)
            f->b.metrics[m].temporality = TEMPORALITY_DELTA;
        if (variant == 7)
            f->b.metrics[m].is_monotonic = false;
        if (variant == 8)
            f->b.scopes[0].version = bytes_str("2.0");
        if (variant == 9)
            f->b.scopes[0].schema_url = bytes_str("https://x/1");
        if (variant == 10)
            f->b.scopes[0].attributes = fx_attrs(f, "k", "v");
        if (variant == 11)
            f->b.resources[0].attributes = fx_attrs(f, "host.name", "h");
        fx_int(f, m, attrs, time, 1);
        assert_int_equal(store_batch(s, project, &f->b, 0, &r, &err), OTL_OK);
        assert_int_equal(r.stored, 1);
    }
    assert_int_equal(q("SELECT count(*) FROM series"), 12);
    assert_int_equal(q("SELECT count(*) FROM metric"), 10); /* 4 and 5 differ in the series only */
    assert_int_equal(q("SELECT count(*) FROM scope"), 6);   /* base, project, 8, 9, 10, 11 */
    assert_int_equal(q("SELECT count(*) FROM resource"), 3);
}

static void name_and_unit_do_not_run_into_each_other(void **state)
{
    (void)state;
    fx_int(f, fx_metric(f, METRIC_GAUGE, "ab", "c"), fx_attrs(f, NULL, NULL), T, 1);
    fx_int(f, fx_metric(f, METRIC_GAUGE, "a", "bc"), fx_attrs(f, NULL, NULL), T, 1);
    put();
    assert_int_equal(q("SELECT count(*) FROM metric"), 2);
}

static void what_is_not_identity_is_brought_up_to_date(void **state)
{
    static const char *const descriptions[] = {"short", "the longest", "x"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        uint32_t m;

        fx_reset(f);
        f->b.resources[0].dropped_attributes_count = (uint32_t)i;
        f->b.resources[0].schema_url = bytes_str(i == 2 ? "https://s/2" : "https://s/1");
        f->b.resources[0].entity_refs =
            i == 0 ? bytes_of(NULL, 0) : bytes_str("[{\"type\":\"h\"}]");
        f->b.scopes[0].dropped_attributes_count = (uint32_t)i + 7;
        m = fx_metric(f, METRIC_GAUGE, "g", "1");
        f->b.metrics[m].description = bytes_str(descriptions[i]);
        f->b.metrics[m].metadata = fx_attrs(f, "prometheus.type", i == 2 ? "info" : "unknown");
        fx_int(f, m, fx_attrs(f, NULL, NULL), T + i, 1);
        put();
        if (i == 1)
            reopen_store();
    }
    assert_text("SELECT count(*) || schema_url || dropped_attributes_count || entity_refs"
                " FROM resource",
                "1https://s/22[{\"type\":\"h\"}]");
    assert_text("SELECT count(*) || dropped_attributes_count FROM scope", "19");
    assert_text("SELECT count(*) || description || metadata FROM metric",
                "1the longest{\"prometheus.type\":\"info\"}");
}

static void a_name_in_two_kinds_is_stored_twice_with_a_warning(void **state)
{
    (void)state;
    fx_int(f, fx_metric(f, METRIC_SUM, "n", "ms"), fx_attrs(f, NULL, NULL), T, 1);
    put();
    assert_int_equal(f->b.warnings[WARN_NAME_CONFLICT], 0);
    reopen_store();
    fx_reset(f);
    fx_int(f, fx_metric(f, METRIC_GAUGE, "n", "s"), fx_attrs(f, NULL, NULL), T, 1);
    put();
    assert_int_equal(f->b.warnings[WARN_NAME_CONFLICT], 1);
    assert_true(bytes_equal(f->b.warning_example[WARN_NAME_CONFLICT], bytes_str("n")));
    assert_int_equal(q("SELECT count(*) FROM metric WHERE name = 'n'"), 2);

    /* The same name under another scope is no conflict. */
    fx_reset(f);
    f->b.scopes[0].name = bytes_str("elsewhere");
    fx_int(f, fx_metric(f, METRIC_GAUGE, "n", "s"), fx_attrs(f, NULL, NULL), T + 1, 1);
    put();
    assert_int_equal(f->b.warnings[WARN_NAME_CONFLICT], 0);
}

/* ---- values ---- */

static void numbers_come_through_the_file_exactly(void **state)
{
    static const int64_t ints[] = {INT64_MIN, INT64_MAX, 9007199254740993, 0, -1};
    uint32_t m = fx_metric(f, METRIC_GAUGE, "g", "1");
    struct bytes none = fx_attrs(f, NULL, NULL);
    struct number_point *p;

    (void)state;
    for (int i = 0; i < 5; i++)
        fx_int(f, m, none, T + i, ints[i]);
    fx_double(f, m, none, T + 5, -0.0);
    fx_double(f, m, none, T + 6, 3.0);
    fx_double(f, m, none, T + 7, INFINITY);
    fx_double(f, m, none, T + 8, -INFINITY);
    fx_double(f, m, none, T + 9, fx_bits(0x7ff8000000000000));
    fx_double(f, m, none, T + 10, fx_bits(0xfff4deadbeef0001));
    p = fx_int(f, m, none, T + 11, 0);
    p->value.kind = VALUE_NONE;
    p->p.flags = 0x80000001u;
    put();
    assert_int_equal(r.stored, 12);
    for (int i = 0; i < 5; i++) {
        char sql[96], expect[32];

        snprintf(sql, sizeof(sql), "SELECT value FROM number_head WHERE id = %d", i + 1);
        snprintf(expect, sizeof(expect), "%lld", (long long)ints[i]);
        assert_text(sql, expect);
    }
    assert_text("SELECT group_concat(typeof(value)) FROM number_head",
                "integer,integer,integer,integer,integer,real,real,real,real,blob,blob,null");
    assert_int_equal(q("SELECT value > 1e308 FROM number_head WHERE id = 8"), 1);
    assert_text("SELECT hex(value) FROM number_head WHERE id = 10", "7FF8000000000000");
    assert_text("SELECT hex(value) FROM number_head WHERE id = 11", "FFF4DEADBEEF0001");
    assert_int_equal(q("SELECT flags FROM number_head WHERE id = 12"), 0x80000001LL);
    /* And they are recognised for what they are; SQL itself cannot tell -0.0 from 0.0. */
    put();
    assert_int_equal(r.merged, 12);
    f->b.numbers[5].value.u.d = 0.0;
    f->b.numbers[9].value.u.d = fx_bits(0x7ff8000000000001);
    put();
    assert_int_equal(r.merged, 10);
    assert_int_equal(r.replaced, 2);
}

static void histograms_keep_presence_bounds_and_counts(void **state)
{
    static const double odd[] = {-INFINITY, -0.0, 0.1, INFINITY};
    static const int64_t counts[] = {1, 2, 3, 4, INT64_MAX};
    uint32_t m = fx_metric(f, METRIC_HISTOGRAM, "h", "s");
    struct bytes none = fx_attrs(f, NULL, NULL);
    struct histogram_point *p;

    (void)state;
    fx_histogram(f, m, none, T, 5);
    fx_histogram(f, m, none, T + 1, 6);
    p = fx_histogram(f, m, none, T + 2, 0);
    p->bounds = odd;
    p->n_bounds = 4;
    p->counts = counts;
    p->n_counts = 5;
    p->min = (struct optional_double){true, -1.5};
    p->sum.v = fx_bits(0x7ff8000000000000);
    p = fx_histogram(f, m, none, T + 3, 0);
    p->n_bounds = p->n_counts = 0;
    p->sum.has = false;
    p = fx_histogram(f, m, none, T + 4, 9);
    p->n_bounds = 0;
    p->n_counts = 1;
    put();
    assert_text("SELECT group_concat(count || ':' || coalesce(bounds_id, '-') || ':' ||"
                " coalesce(bucket_counts, '-'), ' ') FROM histogram_head",
                "15:1:[5,5,5] 18:1:[6,6,6] 0:2:[1,2,3,4,9223372036854775807] 0:-:- 27:3:[9]");
    assert_text("SELECT group_concat(bounds, ' ') FROM histogram_bounds",
                "[1.0,2.0] [-9e999,-0.0,0.1,9e999] []");
    assert_text("SELECT group_concat(typeof(sum) || typeof(min) || typeof(max), ' ')"
                " FROM histogram_head",
                "realnullnull realnullnull blobrealnull nullnullnull realnullnull");
    reopen_store(); /* the bounds are read back from their text */
    put();
    assert_int_equal(r.merged, 5);
    assert_int_equal(q("SELECT count(*) FROM histogram_bounds"), 3);
}

static void exponential_histograms_tell_absent_from_empty_buckets(void **state)
{
    uint32_t m = fx_metric(f, METRIC_EXPONENTIAL_HISTOGRAM, "e", "s");
    struct exponential_histogram_point *p;

    (void)state;
    p = fx_exponential(f, m, fx_attrs(f, NULL, NULL), T, 4);
    p->zero_count = 2;
    p->zero_threshold = 0.25;
    p->negative = (struct exponential_buckets){true, INT32_MIN, 0, NULL};
    put();
    assert_text("SELECT count || '|' || scale || '|' || zero_count || '|' || zero_threshold || '|'"
                " || positive_offset || positive_counts || '|' || negative_offset ||"
                " negative_counts FROM exponential_histogram_head",
                "12|-2|2|0.25|-7[4,4,4]|-2147483648[]");
    p->negative.present = false;
    put();
    assert_int_equal(r.replaced, 1);
    assert_int_equal(q("SELECT negative_offset IS NULL AND negative_counts IS NULL"
                       " FROM exponential_histogram_head"),
                     1);
}

static void summaries_keep_quantiles_and_nan(void **state)
{
    static struct quantile quantiles[] = {{0.0, -INFINITY}, {0.5, 1.5}, {0.9, 0}, {1.0, 0}};
    uint32_t m = fx_metric(f, METRIC_SUMMARY, "s", "s");
    struct summary_point *p = fx_summary(f, m, fx_attrs(f, NULL, NULL), T, 0);

    (void)state;
    quantiles[2].value = fx_bits(0x7ff8000000000000);
    quantiles[3].value = fx_bits(0x7ff8000000000abc);
    p->quantiles = quantiles;
    p->n_quantiles = 4;
    put();
    assert_text("SELECT count || sum || quantiles FROM summary_head",
                "410.25[[0.0,-9e999],[0.5,1.5],[0.9,\"NaN\"],[1.0,\"NaN:7ff8000000000abc\"]]");
    assert_int_equal(q("SELECT json_valid(quantiles) FROM summary_head"), 1);
}

static void exemplars_belong_to_their_point(void **state)
{
    uint32_t m = fx_metric(f, METRIC_SUM, "m", "1");
    uint32_t h = fx_metric(f, METRIC_HISTOGRAM, "h", "1");
    struct number_point *p;

    (void)state;
    fx_int(f, m, fx_attrs(f, "k", "a"), T, 1);
    p = fx_int(f, m, fx_attrs(f, "k", "b"), T, 2);
    fx_exemplar(f, &p->p, 77);
    fx_exemplar(f, &fx_histogram(f, h, fx_attrs(f, NULL, NULL), T, 1)->p, 88);
    put();
    assert_int_equal(r.exemplars, 2);
    assert_int_equal(q("SELECT e.value FROM exemplar_head e JOIN number_head p ON p.time = e.point_time"
                       " AND p.start_time = e.point_start_time AND p.series_id = e.series_id"
                       " WHERE p.value = 2"),
                     77);
    assert_int_equal(q("SELECT e.value FROM exemplar_head e JOIN histogram_head p ON p.time ="
                       " e.point_time AND p.start_time = e.point_start_time"
                       " AND p.series_id = e.series_id"),
                     88);
    assert_text("SELECT hex(trace_id) || coalesce(span_id, '-') || attributes FROM exemplar_head"
                " WHERE value = 77",
                "AB010000000000000000000000000000-{\"user\":\"u1\"}");
    put();
    assert_int_equal(r.exemplars, 0);
    assert_int_equal(q("SELECT count(*) FROM exemplar_head"), 2);

    /* A new value brings its own exemplars; those of the old one do not count any more. */
    p->value.u.i = 3;
    f->b.exemplars[0].value.u.i = 99;
    put();
    assert_int_equal(r.replaced, 1);
    assert_int_equal(r.exemplars, 1);
    assert_text("SELECT group_concat(value) FROM (SELECT value FROM exemplar_head ORDER BY value)",
                "88,99");
    assert_text("SELECT group_concat(coalesce(value, '-')) FROM exemplar_head_0", "77,88,-,99");
    /* Nor do they when it has none. */
    p->value.u.i = 4;
    p->p.n_exemplars = 0;
    put();
    assert_text("SELECT group_concat(value) FROM exemplar_head", "88");
}

/* ---- resends ---- */

static void one_of_each(int64_t time, int64_t v)
{
    struct bytes a;

    fx_reset(f);
    a = fx_attrs(f, "k", "v");
    fx_int(f, fx_metric(f, METRIC_GAUGE, "g", "1"), a, time, v);
    fx_double(f, fx_metric(f, METRIC_SUM, "s", "1"), a, time, (double)v);
    fx_histogram(f, fx_metric(f, METRIC_HISTOGRAM, "h", "1"), a, time, v);
    fx_exponential(f, fx_metric(f, METRIC_EXPONENTIAL_HISTOGRAM, "e", "1"), a, time, v);
    fx_summary(f, fx_metric(f, METRIC_SUMMARY, "y", "1"), a, time, (double)v);
}

static int64_t rows(void)
{
    return q("SELECT (SELECT count(*) FROM number_head) + (SELECT count(*) FROM histogram_head)"
             " + (SELECT count(*) FROM exponential_histogram_head)"
             " + (SELECT count(*) FROM summary_head)");
}

static void a_resend_of_any_type_stores_nothing(void **state)
{
    (void)state;
    one_of_each(T, 7);
    put();
    assert_int_equal(r.stored, 5);
    for (int i = 0; i < 3; i++) {
        one_of_each(T, 7);
        put();
        assert_int_equal(r.stored, 0);
        assert_int_equal(r.merged, 5);
        assert_int_equal(r.replaced, 0);
        assert_int_equal(f->b.warnings[WARN_DUPLICATE_POINT], 0);
        reopen_store();
    }
    assert_int_equal(rows(), 5);
}

static void another_value_of_the_same_point_wins(void **state)
{
    (void)state;
    one_of_each(T, 7);
    put();
    one_of_each(T + 1, 7);
    put();
    reopen_store();
    one_of_each(T, 8);
    put();
    assert_int_equal(r.stored, 0);
    assert_int_equal(r.replaced, 5);
    assert_int_equal(f->b.warnings[WARN_DUPLICATE_POINT], 5);
    assert_int_equal(rows(), 10);
    /* The new rows are behind the old ones, and hide them. */
    assert_text("SELECT group_concat(id || ':' || value) FROM (SELECT * FROM number_head ORDER BY"
                " id)",
                "3:7,4:7.0,5:8,6:8.0");
    assert_int_equal(q("SELECT count(*) FROM number_head_0"), 6);
    assert_text("SELECT bucket_counts FROM histogram_head WHERE id = 3", "[8,8,8]");
    assert_text("SELECT positive_counts FROM exponential_histogram_head WHERE id = 3", "[8,8,8]");
    assert_text("SELECT quantiles FROM summary_head WHERE id = 3", "[[0.5,8.0],[1.0,100.0]]");
    assert_int_equal(q("SELECT count(*) FROM histogram_head WHERE id = 1"), 0);
}

static void an_integer_and_an_equal_double_are_two_values(void **state)
{
    uint32_t m = fx_metric(f, METRIC_GAUGE, "g", "1");
    struct number_point *p = fx_int(f, m, fx_attrs(f, NULL, NULL), T, 3);

    (void)state;
    put();
    p->value = (struct value){VALUE_DOUBLE, {.d = 3.0}};
    put();
    assert_int_equal(r.replaced, 1);
    p->p.flags = 2; /* flags are part of the value */
    put();
    assert_int_equal(r.replaced, 1);
}

static void the_start_time_is_part_of_the_key(void **state)
{
    uint32_t m = fx_metric(f, METRIC_SUM, "d", "1");
    struct number_point *p = fx_int(f, m, fx_attrs(f, NULL, NULL), T, 3);

    (void)state;
    p->p.start_time = T - 10;
    put();
    p->p.start_time = T - 5;
    put();
    assert_int_equal(r.stored, 1);
    put();
    assert_int_equal(r.merged, 1);
}

static void within_one_request_the_later_point_wins(void **state)
{
    uint32_t m = fx_metric(f, METRIC_GAUGE, "g", "1");
    struct bytes a = fx_attrs(f, NULL, NULL);

    (void)state;
    fx_int(f, m, a, T, 1);
    fx_int(f, m, a, T, 1); /* equal: merged */
    fx_int(f, m, a, T, 2); /* replaces the first */
    fx_exemplar(f, &f->b.numbers[0].p, 1);
    fx_exemplar(f, &f->b.numbers[2].p, 2);
    fx_int(f, m, a, T - 1, 5); /* earlier, and new */
    put();
    assert_int_equal(r.stored, 2);
    assert_int_equal(r.merged, 1);
    assert_int_equal(r.replaced, 1);
    assert_int_equal(r.exemplars, 1);
    assert_int_equal(f->b.warnings[WARN_DUPLICATE_POINT], 1);
    assert_text("SELECT group_concat(value) FROM (SELECT * FROM number_head ORDER BY time DESC)",
                "2,5");
    assert_int_equal(q("SELECT value FROM exemplar_head"), 2);
    /* The same again: 1 replaces the stored 2, 1 is merged, 2 replaces 1. */
    put();
    assert_int_equal(r.stored, 0);
    assert_int_equal(r.merged, 2);
    assert_int_equal(r.replaced, 2);
    assert_text("SELECT group_concat(value) FROM (SELECT * FROM number_head ORDER BY time DESC)",
                "2,5");
}

static void a_late_point_between_others_is_stored(void **state)
{
    (void)state;
    for (int pass = 0; pass < 2; pass++) {
        one_of_each(T + 100, 1);
        put();
        one_of_each(T + 300, 1);
        put();
        reopen_store();
        one_of_each(T + 200, 1);
        put();
        assert_int_equal(r.stored, pass == 0 ? 5 : 0);
        assert_int_equal(r.merged, pass == 0 ? 0 : 5);
    }
    assert_int_equal(rows(), 15);
}

/* ---- when it goes wrong ---- */

static void a_failure_leaves_neither_rows_nor_ids_behind(void **state)
{
    static const char *const tables[] = {"number_head_0", "histogram_head_0", "summary_head_0",
                                         "series",        "metric",           "resource"};

    (void)state;
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        char sql[200];

        snprintf(sql, sizeof(sql),
                 "CREATE TRIGGER stop BEFORE INSERT ON %s WHEN (SELECT count(*) FROM %s) >= 0"
                 " BEGIN SELECT RAISE(ABORT, 'injected'); END",
                 tables[i], tables[i]);
        fx_exec(dir, sql);
        one_of_each(T, 7);
        f->b.resources[0].dropped_attributes_count = 3;
        assert_int_equal(store_batch(s, 1, &f->b, 0, &r, &err), OTL_EDB);
        assert_non_null(strstr(err.msg, "injected"));
        assert_int_equal(store_series_count(s), 0);
        assert_int_equal(rows(), 0);
        assert_int_equal(q("SELECT (SELECT count(*) FROM resource) + (SELECT count(*) FROM series)"
                           " + (SELECT count(*) FROM histogram_bounds)"),
                         0);
        assert_int_equal(f->b.warnings[WARN_DUPLICATE_POINT], 0);
        fx_exec(dir, "DROP TRIGGER stop");
    }
    one_of_each(T, 7);
    put();
    assert_int_equal(r.stored, 5);
    assert_int_equal(q("SELECT count(*) FROM points WHERE service_name = 'svc'"), 2);
    assert_int_equal(q("SELECT max(id) FROM number_head"), 2); /* ids go on where they were */
    put();
    assert_int_equal(r.merged, 5);
}

static void a_failure_undoes_changes_of_known_rows(void **state)
{
    uint32_t m = fx_metric(f, METRIC_GAUGE, "g", "1");
    struct number_point *p = fx_int(f, m, fx_attrs(f, NULL, NULL), T, 1);

    (void)state;
    put();
    fx_exec(dir, "CREATE TRIGGER stop BEFORE INSERT ON number_head_0"
                 " BEGIN SELECT RAISE(ABORT, 'injected'); END");
    p->p.time = T + 100;
    f->b.metrics[m].description = bytes_str("new text");
    assert_int_equal(store_batch(s, 1, &f->b, 0, &r, &err), OTL_EDB);
    fx_exec(dir, "DROP TRIGGER stop");
    /* last_time must be T again: T + 50 is new, and the description is still to be written. */
    p->p.time = T + 50;
    put();
    assert_int_equal(r.stored, 1);
    assert_text("SELECT description FROM metric", "new text");
    p->p.time = T + 100;
    put();
    assert_int_equal(r.stored, 1);
}

/* The file size limit stands for a full disk: write gives EFBIG, which SQLite reports as full or as
 * an I/O error. */
static void a_full_disk_fails_the_request_and_the_next_one_works(void **state)
{
    struct rlimit old, tight;

    (void)state;
    one_of_each(T, 1);
    put();
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    tight = (struct rlimit){64 << 10, old.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    fx_reset(f);
    for (int i = 0; i < 4000; i++)
        fx_int(f, i == 0 ? fx_metric(f, METRIC_GAUGE, "many", "1") : 0, fx_attrs_int(f, "k", i), T,
               i);
    assert_int_not_equal(store_batch(s, 1, &f->b, 0, &r, &err), OTL_OK);
    assert_true(err.code == OTL_EFULL || err.code == OTL_EIO);
    assert_int_equal(store_series_count(s), 5);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    put();
    assert_int_equal(r.stored, 4000);
    assert_int_equal(rows(), 4005);
    assert_int_equal(store_series_count(s), 4005);
    assert_text("PRAGMA integrity_check", "ok");
}

static sqlite3 *lock_from_outside(void)
{
    char path[4200];
    sqlite3 *other;

    snprintf(path, sizeof(path), "%s/telemetry.db", dir);
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    return other;
}

static void another_process_holding_the_lock_gives_locked(void **state)
{
    sqlite3 *other = lock_from_outside();
    int64_t start = clock_mono_ns();

    (void)state;
    one_of_each(T, 1);
    assert_int_equal(store_batch(s, 1, &f->b, 50, &r, &err), OTL_ELOCKED);
    assert_true(clock_mono_ns() - start >= 50 * NS_PER_MS); /* it did wait */
    assert_int_equal(store_probe(s, 0, &err), OTL_ELOCKED);
    assert_int_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(store_batch(s, 1, &f->b, 0, &r, &err), OTL_OK);
    assert_int_equal(r.stored, 5);
    sqlite3_close(other);
}

static void *release_soon(void *arg)
{
    /* Before or while the store waits: it succeeds either way. */
    assert_int_equal(sqlite3_exec(arg, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    return NULL;
}

static void the_lock_is_waited_for(void **state)
{
    sqlite3 *other = lock_from_outside();
    pthread_t t;

    (void)state;
    one_of_each(T, 1);
    assert_int_equal(pthread_create(&t, NULL, release_soon, other), 0);
    assert_int_equal(store_batch(s, 1, &f->b, 60000, &r, &err), OTL_OK);
    assert_int_equal(r.stored, 5);
    pthread_join(t, NULL);
    sqlite3_close(other);
}

static void what_another_process_wrote_is_taken_in(void **state)
{
    uint32_t m = fx_metric(f, METRIC_GAUGE, "g", "1");
    struct number_point *p = fx_int(f, m, fx_attrs(f, NULL, NULL), T, 1);

    (void)state;
    put();
    /* A second writer: another series, and points of both. */
    fx_exec(dir, "INSERT INTO series SELECT 2, metric_id, '{\"k\":\"v\"}', x'01016b730176'"
                 " FROM series;"
                 "INSERT INTO number_head_0 VALUES (2, 1, 1700000000000000500, 0, 0, 5),"
                 " (3, 2, 1700000000000000700, 0, 0, 6)");
    p->p.time = T + 500;
    p->value.u.i = 5;
    put();
    assert_int_equal(r.merged, 1);
    f->b.series[0].number = 0;
    f->b.series[0].attributes = fx_attrs(f, "k", "v");
    p->p.time = T + 700;
    p->value.u.i = 6;
    put();
    assert_int_equal(r.merged, 1);
    p->p.time = T + 800;
    put();
    assert_int_equal(r.stored, 1);
    assert_int_equal(q("SELECT count(*) FROM series"), 2);
    assert_int_equal(q("SELECT max(id) FROM number_head"), 4);
}

/* ---- the file ---- */

static void readers_need_a_database_of_this_version(void **state)
{
    struct store_opts o = fx_opts(dir);
    struct db db;
    int64_t v;

    (void)state;
    assert_int_equal(store_open_reader(&db, &o, &err), OTL_OK);
    assert_int_equal(db_query_int(&db, "SELECT count(*) FROM points", &v, &err), OTL_OK);
    assert_int_equal(db_exec(&db, "DELETE FROM series", &err), OTL_EDB);
    db_close(&db);
    fx_exec(dir, "PRAGMA user_version = 99");
    assert_int_equal(store_open_reader(&db, &o, &err), OTL_EDB);
    assert_non_null(strstr(err.msg, "newer"));
}

static void a_file_of_a_newer_version_is_not_opened(void **state)
{
    struct store_opts o = fx_opts(dir);
    struct store *other;

    (void)state;
    store_free(s);
    s = NULL;
    fx_exec(dir, "PRAGMA user_version = 99");
    assert_int_equal(store_new(&o, &other, &err), OTL_EDB);
    assert_non_null(strstr(err.msg, "telemetry.db"));
    assert_non_null(strstr(err.msg, "version is 99"));
}

static void damaged_pages_are_found_at_start(void **state)
{
    struct store_opts o = fx_opts(dir);
    struct store *other;
    char path[4200];
    uint8_t junk[4096];
    FILE *file;

    (void)state;
    one_of_each(T, 1);
    put();
    assert_int_equal(store_checkpoint(s, true, 0, &err), OTL_OK);
    store_free(s);
    s = NULL;
    snprintf(path, sizeof(path), "%s/telemetry.db", dir);
    memset(junk, 0xa5, sizeof(junk));
    file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 3 * 4096, SEEK_SET), 0);
    assert_int_equal(fwrite(junk, 1, sizeof(junk), file), sizeof(junk));
    fclose(file);
    assert_int_equal(store_new(&o, &other, &err), OTL_ECORRUPT);
    assert_non_null(strstr(err.msg, path));
    assert_null(strchr(err.msg, '\n'));
}

static void checkpoints_empty_the_log(void **state)
{
    (void)state;
    one_of_each(T, 1);
    put();
    assert_true(store_wal_pages(s) > 0);
    assert_int_equal(store_checkpoint(s, false, 0, &err), OTL_OK);
    assert_int_equal(store_checkpoint(s, true, 0, &err), OTL_OK);
    assert_int_equal(store_wal_pages(s), 0);
}

static void a_batch_without_points_needs_no_transaction(void **state)
{
    sqlite3 *other = lock_from_outside();

    (void)state;
    assert_int_equal(store_batch(s, 1, &f->b, 0, &r, &err), OTL_OK);
    assert_int_equal(r.stored, 0);
    sqlite3_close(other);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_view_shows_a_point_in_plain_columns),
        CASE(what_is_the_same_gets_the_same_rows),
        CASE(whatever_is_identity_gives_rows_of_its_own),
        CASE(name_and_unit_do_not_run_into_each_other),
        CASE(what_is_not_identity_is_brought_up_to_date),
        CASE(a_name_in_two_kinds_is_stored_twice_with_a_warning),
        CASE(numbers_come_through_the_file_exactly),
        CASE(histograms_keep_presence_bounds_and_counts),
        CASE(exponential_histograms_tell_absent_from_empty_buckets),
        CASE(summaries_keep_quantiles_and_nan),
        CASE(exemplars_belong_to_their_point),
        CASE(a_resend_of_any_type_stores_nothing),
        CASE(another_value_of_the_same_point_wins),
        CASE(an_integer_and_an_equal_double_are_two_values),
        CASE(the_start_time_is_part_of_the_key),
        CASE(within_one_request_the_later_point_wins),
        CASE(a_late_point_between_others_is_stored),
        CASE(a_failure_leaves_neither_rows_nor_ids_behind),
        CASE(a_failure_undoes_changes_of_known_rows),
        CASE(a_full_disk_fails_the_request_and_the_next_one_works),
        CASE(another_process_holding_the_lock_gives_locked),
        CASE(the_lock_is_waited_for),
        CASE(what_another_process_wrote_is_taken_in),
        CASE(readers_need_a_database_of_this_version),
        CASE(a_file_of_a_newer_version_is_not_opened),
        CASE(damaged_pages_are_found_at_start),
        CASE(checkpoints_empty_the_log),
        CASE(a_batch_without_points_needs_no_transaction),
    };

    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
