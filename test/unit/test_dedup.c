/* The store against a naive model that keeps every point by (series, time, start time): thousands
 * of random batches with late points, duplicates, new values, failures and restarts. */
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
#include "store/dedup.h"
#include "store_fixture.h"

enum { SERIES = 7, TIMES = 3000, STARTS = 2 };

/* model[series][time][start]: value + 1, or 0 when there is no point. */
static int64_t model[SERIES][TIMES][STARTS];

static uint64_t seed;

static uint32_t rnd(uint32_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % n;
}

static char *dir;
static struct fx *f;
static struct store *s;
static struct otl_error err;

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
    fx_free(f);
    fx_dir_free(dir);
    return 0;
}

/* One random point, as the model's indexes. */
struct pick {
    uint32_t series, time, start;
    int64_t value;
};

static void add_point(enum metric_type type, uint32_t m, const struct pick *p)
{
    struct bytes a = fx_attrs_int(f, "series", p->series);
    int64_t time = 1000 + (int64_t)p->time;
    int64_t start = p->start == 0 ? 0 : 5;

    switch (type) {
    case METRIC_HISTOGRAM:
        fx_histogram(f, m, a, time, p->value)->p.start_time = start;
        break;
    case METRIC_EXPONENTIAL_HISTOGRAM:
        fx_exponential(f, m, a, time, p->value)->p.start_time = start;
        break;
    case METRIC_SUMMARY:
        fx_summary(f, m, a, time, (double)p->value)->p.start_time = start;
        break;
    default:
        fx_int(f, m, a, time, p->value)->p.start_time = start;
        break;
    }
}

/* Mostly forward in time from now, sometimes back, in clumps so that keys meet. */
static struct pick pick_point(uint32_t now)
{
    struct pick p = {rnd(SERIES), 0, rnd(8) == 0, rnd(3)};
    uint32_t r = rnd(10);

    if (r < 7)
        p.time = now + rnd(4);
    else if (r < 9)
        p.time = now - rnd(now < 40 ? now + 1 : 40);
    else
        p.time = rnd(now + 1);
    if (p.time >= TIMES)
        p.time = TIMES - 1;
    return p;
}

static void count_model(const struct pick *p, struct store_result *expect)
{
    int64_t *cell = &model[p->series][p->time][p->start];

    if (*cell == 0)
        expect->stored++;
    else if (*cell == p->value + 1)
        expect->merged++;
    else
        expect->replaced++;
    *cell = p->value + 1;
}

/* Every row is in the model with its value, and their numbers are equal. */
static void compare_all(const char *table, const char *value)
{
    char path[4200], sql[300];
    int64_t in_model = 0, in_file = 0;
    sqlite3 *db;
    sqlite3_stmt *st;

    for (int i = 0; i < SERIES; i++) {
        for (int t = 0; t < TIMES; t++)
            in_model += (model[i][t][0] != 0) + (model[i][t][1] != 0);
    }
    snprintf(path, sizeof(path), "%s/telemetry.db", dir);
    snprintf(sql, sizeof(sql),
             "SELECT s.attributes ->> 'series', time - 1000, start_time <> 0, %s FROM %s p"
             " JOIN series s ON s.id = p.series_id",
             value, table);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
    while (sqlite3_step(st) == SQLITE_ROW) {
        assert_int_equal(
            model[sqlite3_column_int(st, 0)][sqlite3_column_int(st, 1)][sqlite3_column_int(st, 2)],
            sqlite3_column_int64(st, 3) + 1);
        in_file++;
    }
    sqlite3_finalize(st);
    sqlite3_close(db);
    assert_int_equal(in_file, in_model);
    /* A failed batch leaves no gap in the ids, and every replacing point has a row of its own. */
    snprintf(sql, sizeof(sql), "SELECT max(id) = count(*) FROM %.*s_head_0",
             (int)(strlen(table) - strlen("_head")), table);
    assert_int_equal(fx_query(dir, sql), 1);
}

/* An exemplar on every point makes a batch fail after its rows were written, when inserting
 * exemplars fails. */
static void exemplar_on_all(bool on)
{
    struct point one = {0};

    if (on)
        fx_exemplar(f, &one, 1);
    for (uint32_t i = 0; i < f->b.n_numbers; i++)
        f->b.numbers[i].p.n_exemplars = on;
    for (uint32_t i = 0; i < f->b.n_histograms; i++)
        f->b.histograms[i].p.n_exemplars = on;
    for (uint32_t i = 0; i < f->b.n_exponentials; i++)
        f->b.exponentials[i].p.n_exemplars = on;
    for (uint32_t i = 0; i < f->b.n_summaries; i++)
        f->b.summaries[i].p.n_exemplars = on;
}

static void run(enum metric_type type, const char *table, const char *value, int batches)
{
    memset(model, 0, sizeof(model));
    for (int i = 0; i < batches; i++) {
        uint32_t now = (uint32_t)((int64_t)i * (TIMES - 10) / batches);
        uint32_t n = 1 + rnd(30), m;
        struct store_result expect = {0}, is;
        bool fails = rnd(20) == 0;
        struct pick picks[31];

        fx_reset(f);
        m = fx_metric(f, type, "m", "1");
        for (uint32_t j = 0; j < n; j++) {
            /* One in five repeats a point of the same batch, often with its value. */
            picks[j] = j > 0 && rnd(5) == 0 ? picks[rnd(j)] : pick_point(now);
            add_point(type, m, &picks[j]);
        }
        if (fails) {
            fx_exec(dir, "CREATE TRIGGER stop BEFORE INSERT ON exemplar_head_0"
                         " BEGIN SELECT RAISE(ABORT, 'injected'); END");
            exemplar_on_all(true);
            if (store_batch(s, 1, &f->b, 0, &is, &err) == OTL_OK)
                assert_int_equal(is.stored + is.replaced, 0);
            fx_exec(dir, "DROP TRIGGER stop");
            exemplar_on_all(false);
        }
        for (uint32_t j = 0; j < n; j++)
            count_model(&picks[j], &expect);
        if (store_batch(s, 1, &f->b, 0, &is, &err) != OTL_OK)
            fail_msg("%s", err.msg);
        assert_int_equal(is.stored, expect.stored);
        assert_int_equal(is.merged, expect.merged);
        assert_int_equal(is.replaced, expect.replaced);
        assert_int_equal(f->b.warnings[WARN_DUPLICATE_POINT], expect.replaced);
        if (rnd(100) == 0) {
            store_free(s);
            s = fx_store(dir);
        }
    }
    compare_all(table, value);
}

static void numbers_agree_with_the_model(void **state)
{
    (void)state;
    seed = 1;
    run(METRIC_SUM, "number_head", "value", 3000);
    /* The test means nothing when all fits in one segment. */
    assert_true(fx_query(dir, "SELECT count(*) FROM number_head_0") >= 2 << DEDUP_SEGMENT_BITS);
}

static void the_other_types_agree_with_the_model(void **state)
{
    (void)state;
    seed = 2;
    run(METRIC_HISTOGRAM, "histogram_head", "count / 3", 400);
    run(METRIC_EXPONENTIAL_HISTOGRAM, "exponential_histogram_head", "count / 3", 400);
    run(METRIC_SUMMARY, "summary_head", "json_extract(quantiles, '$[0][1]')", 400);
}

/* Fill segments with one series, so that every part of the look-up has something to do. */
static void fill(int64_t from, int64_t n)
{
    for (int64_t i = 0; i < n;) {
        struct store_result is;
        uint32_t m;

        fx_reset(f);
        m = fx_metric(f, METRIC_GAUGE, "g", "1");
        for (int j = 0; j < 4000 && i < n; j++, i++)
            fx_int(f, m, fx_attrs(f, NULL, NULL), from + 2 * i, i);
        if (store_batch(s, 1, &f->b, 0, &is, &err) != OTL_OK)
            fail_msg("%s", err.msg);
    }
}

static struct store_result one_of(const char *series, int64_t time, int64_t value)
{
    struct store_result is;

    fx_reset(f);
    fx_int(f, fx_metric(f, METRIC_GAUGE, "g", "1"), fx_attrs(f, series, ""), time, value);
    if (store_batch(s, 1, &f->b, 0, &is, &err) != OTL_OK)
        fail_msg("%s", err.msg);
    return is;
}

static struct store_result one(int64_t time, int64_t value)
{
    return one_of(NULL, time, value);
}

static void old_points_are_found_after_a_restart_and_gaps_are_free(void **state)
{
    (void)state;
    fill(1000, 20000);
    for (int pass = 0; pass < 2; pass++) {
        /* Stored in the first, a middle and the open segment. */
        assert_int_equal(one(1000, 0).merged, 1);
        assert_int_equal(one(1000 + 2 * 9000, 9000).merged, 1);
        assert_int_equal(one(1000 + 2 * 19999, 19999).merged, 1);
        /* Between two stored times. */
        assert_int_equal(one(1001 + pass * 2, 5).stored, 1);
        assert_int_equal(one(1001 + pass * 2, 5).merged, 1);
        assert_int_equal(one(1 + pass, 5).stored, 1); /* before all */
        store_free(s);
        s = fx_store(dir);
    }
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(numbers_agree_with_the_model),
        CASE(the_other_types_agree_with_the_model),
        CASE(old_points_are_found_after_a_restart_and_gaps_are_free),
    };

    return cmocka_run_group_tests_name("dedup", tests, NULL, NULL);
}
