/* Sealing: the rows of a closed half are points of parts, the same ones, a part a day. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "maintain_fixture.h"
#include "otlite/clock.h"
#include "otlite/stats.h"
#include "random.h"
#include "store/rollup.h"

enum { DAY = 19000, SERIES = 4 };

#define DAY_START (DAY * PART_DAY_NS)

static char *dir;
static struct mf f;
static struct fx *x;
static struct otl_error err;

static int setup(void **state)
{
    (void)state;
    dir = fx_dir_new();
    memset(&f, 0, sizeof(f));
    f.dir = dir;
    f.opts.rollups = true;
    x = fx_new();
    mf_open(&f);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fault_hook = NULL;
    mf_close(&f);
    fx_free(x);
    fx_dir_free(dir);
    return 0;
}

static int64_t q(const char *sql)
{
    return fx_query(dir, sql);
}

static void store(void)
{
    assert_int_equal(mf_store(&f, &x->b), OTL_OK);
    fx_reset(x);
}

/* A point of series i (id i + 1 when they come in this order first). */
static void add(int i, int64_t time, int64_t value)
{
    uint32_t m = x->b.n_metrics > 0 ? 0 : fx_metric(x, METRIC_GAUGE, "g", "1");

    fx_int(x, m, fx_attrs_int(x, "i", i), time, value);
}

static void expect_series(int64_t id, const struct series_points *want)
{
    struct series_points is;

    series_points_init(&is, want->kind);
    mf_read_parts(&f, want->kind, 0, id, &is);
    mf_assert_equal(want, &is);
    series_points_fini(&is);
}

static void what_was_in_the_head_is_in_parts(void **state)
{
    struct series_points want[SERIES], raw;

    (void)state;
    series_points_init(&raw, KIND_NUMBER);
    for (int i = 0; i < SERIES; i++)
        series_points_init(&want[i], KIND_NUMBER);
    for (int n = 0; n < 30; n++) {
        for (int i = 0; i < SERIES; i++) {
            int64_t time = DAY_START + (int64_t)random_below(1000) * NS_PER_S;

            add(i, time, n);
            assert_true(series_points_add_number(&want[i], time, 0, 0, VALUE_INT, n));
        }
        store();
    }
    mf_seal(&f);
    for (int i = 0; i < SERIES; i++) {
        mf_expected(&want[i], &raw);
        expect_series(i + 1, &raw);
        mf_read_all(&f, KIND_NUMBER, i + 1, &raw); /* and not in the head as well */
        expect_series(i + 1, &raw);
        series_points_fini(&want[i]);
    }
    series_points_fini(&raw);
    assert_int_equal(q("SELECT count(*) FROM part WHERE live = 1 AND kind = 'number'"), 1);
    assert_int_equal(q("SELECT count(*) FROM number_head_0"), 0);
    assert_int_equal(q("SELECT count(*) FROM number_head_1"), 0);
}

/* As the head gave it, so the parts do, bit for bit. */
static void points_of_every_kind_stay_what_they_are(void **state)
{
    static const enum series_kind kinds[] = {KIND_NUMBER, KIND_HISTOGRAM, KIND_EXPONENTIAL,
                                             KIND_SUMMARY};
    struct series_points before[4];

    (void)state;
    for (int i = 0; i < 50; i++) {
        int64_t t = DAY_START + i * NS_PER_S;
        struct bytes none = fx_attrs(x, NULL, NULL);
        struct number_point *p = fx_double(x, fx_metric(x, METRIC_GAUGE, "g", "1"), none, t,
                                           i == 7   ? fx_bits(UINT64_C(0x7ff8000000000123))
                                           : i == 8 ? -0.0
                                                    : i / 8.0);

        if (i % 10 == 0)
            fx_exemplar(x, &p->p, i);
        fx_histogram(x, fx_metric(x, METRIC_HISTOGRAM, "h", "1"), none, t, i);
        fx_exponential(x, fx_metric(x, METRIC_EXPONENTIAL_HISTOGRAM, "e", "1"), none, t, i);
        fx_summary(x, fx_metric(x, METRIC_SUMMARY, "s", "1"), none, t, i / 3.0);
        store();
    }
    for (int k = 0; k < 4; k++) {
        series_points_init(&before[k], kinds[k]);
        mf_read_all(&f, kinds[k], k + 1, &before[k]);
        assert_int_equal(before[k].n, 50);
    }
    mf_seal(&f);
    for (int k = 0; k < 4; k++) {
        expect_series(k + 1, &before[k]);
        series_points_fini(&before[k]);
    }
    assert_int_equal(q("SELECT points FROM part WHERE live = 1 AND kind = 'exemplar'"), 5);
}

static void each_day_has_a_part_of_its_own(void **state)
{
    (void)state;
    add(0, DAY_START - 1, 1);
    add(0, DAY_START, 2);
    add(0, DAY_START + PART_DAY_NS - 1, 3);
    add(0, DAY_START + PART_DAY_NS, 4);
    store();
    mf_seal(&f);
    assert_int_equal(q("SELECT count(*) FROM part WHERE live = 1 AND resolution = 0"), 3);
    assert_int_equal(q("SELECT count(*) FROM part WHERE live = 1 AND resolution = 0"
                       " AND min_time / 86400000000000 = day AND max_time / 86400000000000 = day"),
                     3);
    assert_int_equal(q("SELECT points FROM part WHERE live = 1 AND resolution = 0 AND day = 19000"),
                     2);
}

/* More than are written at a time, so the half is walked several times. */
static void a_hundred_days_in_one_half(void **state)
{
    struct series_points want[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        series_points_init(&want[i], KIND_NUMBER);
        for (int d = 0; d < 100; d++) {
            add(i, DAY_START + d * PART_DAY_NS + i, d);
            assert_true(series_points_add_number(&want[i], DAY_START + d * PART_DAY_NS + i, 0, 0,
                                                 VALUE_INT, d));
        }
    }
    store();
    mf_seal(&f);
    for (int i = 0; i < 2; i++) {
        expect_series(i + 1, &want[i]);
        series_points_fini(&want[i]);
    }
    assert_int_equal(q("SELECT count(*) FROM part WHERE live = 1 AND resolution = 0"), 100);
}

static void a_value_sent_again_later_counts(void **state)
{
    struct series_points want;

    (void)state;
    for (int i = 0; i < 3; i++) {
        add(0, DAY_START + 5, i);
        store();
        if (i > 0) /* the first two in one half, the third in another */
            mf_seal(&f);
    }
    series_points_init(&want, KIND_NUMBER);
    assert_true(series_points_add_number(&want, DAY_START + 5, 0, 0, VALUE_INT, 2));
    expect_series(1, &want);
    series_points_fini(&want);
    assert_int_equal(q("SELECT sum(points) FROM part WHERE live = 1 AND kind = 'number'"), 2);
    assert_int_equal(q("SELECT count(DISTINCT sequence) FROM part WHERE live = 1"
                       " AND kind = 'number'"),
                     2);
}

static void rollups_are_made_of_the_same_points(void **state)
{
    static const int resolutions[] = {ROLLUP_5M, ROLLUP_1H};
    struct series_points points, want, is;

    (void)state;
    series_points_init(&points, KIND_NUMBER);
    series_points_init(&want, KIND_NUMBER_ROLLUP);
    series_points_init(&is, KIND_NUMBER_ROLLUP);
    for (int i = 0; i < 1000; i++) {
        add(0, DAY_START + i * 15 * NS_PER_S, i % 70);
        assert_true(series_points_add_number(&points, DAY_START + i * 15 * NS_PER_S, 0, 0,
                                             VALUE_INT, i % 70));
    }
    store();
    mf_seal(&f);
    for (int i = 0; i < 2; i++) {
        series_points_reset(&want);
        assert_true(rollup_add(&want, &points, resolutions[i], false));
        mf_read_parts(&f, KIND_NUMBER_ROLLUP, resolutions[i], 1, &is);
        mf_assert_equal(&want, &is);
    }
    series_points_fini(&points);
    series_points_fini(&want);
    series_points_fini(&is);
}

/* All in one window of five minutes: the hour's row is the same but for its time. */
static void points_of_few_minutes_are_in_the_hour_too(void **state)
{
    const int64_t window = DAY_START + 7500 * NS_PER_S; /* 02:05 */
    static const int resolutions[] = {ROLLUP_5M, ROLLUP_1H};
    const int64_t begins[] = {window, DAY_START + 7200 * NS_PER_S};

    (void)state;
    for (int i = 0; i < 10; i++)
        add(0, window + i * NS_PER_S, 100 + i * i);
    store();
    mf_seal(&f);
    for (int i = 0; i < 2; i++) {
        struct series_points rows;

        series_points_init(&rows, KIND_NUMBER_ROLLUP);
        mf_read_parts(&f, KIND_NUMBER_ROLLUP, resolutions[i], 1, &rows);
        assert_int_equal(rows.n, 1);
        assert_int_equal(rows.time[0], begins[i]);
        assert_int_equal(rows.fields[NUMBER_ROLLUP_N].v[0], 10);
        assert_true(series_points_double(&rows, NUMBER_ROLLUP_SUM, 0) == 1285);
        assert_true(series_points_double(&rows, NUMBER_ROLLUP_INCREASE, 0) == 81);
        series_points_fini(&rows);
    }
}

static void without_rollups_there_are_none(void **state)
{
    (void)state;
    mf_close(&f);
    f.opts.rollups = false;
    mf_open(&f);
    add(0, DAY_START, 1);
    store();
    mf_seal(&f);
    assert_int_equal(q("SELECT count(*) FROM part WHERE live = 1"), 1);
}

static enum otl_err fail_publish(const char *point, struct otl_error *e)
{
    return strcmp(point, "seal.publish.commit") == 0 ? otl_fail(e, OTL_EIO, "not today") : OTL_OK;
}

static void what_fails_is_tried_again_from_the_head(void **state)
{
    struct series_points want;
    bool more;

    (void)state;
    add(0, DAY_START + 1, 1);
    store();
    fault_hook = fail_publish;
    f.m->hurry = true;
    mf_seal_fails(&f, OTL_EIO);
    assert_int_equal(q("SELECT count(*) FROM part WHERE live = 1"), 0);
    fault_hook = NULL;
    series_points_init(&want, KIND_NUMBER);
    assert_true(series_points_add_number(&want, DAY_START + 1, 0, 0, VALUE_INT, 1));
    assert_int_equal(maintain_round(f.m, &more, &err), OTL_OK);
    expect_series(1, &want);
    series_points_fini(&want);
    mf_work(&f);
    assert_int_equal(q("SELECT count(*) FROM block WHERE id >> 24 NOT IN"
                       " (SELECT id FROM part WHERE live = 1)"),
                     0);
}

static void a_start_finds_what_was_sealed_and_what_was_not(void **state)
{
    struct series_points want, is;

    (void)state;
    series_points_init(&want, KIND_NUMBER);
    series_points_init(&is, KIND_NUMBER);
    for (int i = 0; i < 10; i++) {
        add(0, DAY_START + i, i);
        assert_true(series_points_add_number(&want, DAY_START + i, 0, 0, VALUE_INT, i));
        store();
        if (i % 3 == 2)
            mf_seal(&f);
        if (i % 4 == 3) {
            mf_close(&f);
            mf_open(&f);
        }
        mf_read_all(&f, KIND_NUMBER, 1, &is);
        mf_assert_equal(&want, &is);
    }
    /* What is sent again is recognised, wherever it is. */
    for (int i = 0; i < 10; i++)
        add(0, DAY_START + i, i);
    store();
    mf_read_all(&f, KIND_NUMBER, 1, &is);
    mf_assert_equal(&want, &is);
    mf_seal(&f);
    mf_read_all(&f, KIND_NUMBER, 1, &is);
    mf_assert_equal(&want, &is);
    series_points_fini(&want);
    series_points_fini(&is);
}

static void patterns_match(void **state)
{
    (void)state;
    assert_true(pattern_matches("", ""));
    assert_false(pattern_matches("", "a"));
    assert_true(pattern_matches("*", ""));
    assert_true(pattern_matches("a*c", "abbbc"));
    assert_true(pattern_matches("a*c", "ac"));
    assert_true(pattern_matches("a*bc*d", "abbcbcxd"));
    assert_false(pattern_matches("a*c", "ab"));
    assert_true(pattern_matches("http.?.x", "http.a.x"));
    assert_false(pattern_matches("?", ""));
    assert_false(pattern_matches("abc", "abcd"));
}

static int emptying_tasks;

static enum otl_err count_emptying(const char *point, struct otl_error *e)
{
    (void)e;
    emptying_tasks += strcmp(point, "seal.empty.commit") == 0;
    return OTL_OK;
}

/* As a file of the earlier schema has them: all in one half. The first point of series 1 comes
 * again as the very last row. */
static void very_many_rows_are_sealed_and_emptied_bit_by_bit(void **state)
{
    enum { ROWS = 2200000, ALL = 4, LEAST_TASKS = 40 };
    struct series_points is;
    char sql[512];

    (void)state;
    for (int i = 0; i < ALL; i++)
        add(i, DAY_START, i);
    store();
    mf_close(&f);
    (void)snprintf(sql, sizeof(sql),
                   "WITH RECURSIVE n(i) AS (VALUES(%d) UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
                   " INSERT INTO number_head_0(id, series_id, time, start_time, flags, value)"
                   " SELECT i, iif(i = %d, 1, 1 + (i - 1) %% %d),"
                   " %lld + iif(i = %d, 0, (i - 1) / %d * 1000000), 0, 0, i FROM n",
                   ALL + 1, ROWS, ROWS, ALL, (long long)DAY_START, ROWS, ALL);
    fx_exec(dir, sql);
    emptying_tasks = 0;
    fault_hook = count_emptying;
    mf_open(&f);
    mf_seal(&f);
    assert_int_equal(q("SELECT count(*) FROM number_head_0"), 0);
    assert_true(emptying_tasks >= LEAST_TASKS);
    assert_int_equal(q("SELECT count(*) FROM part WHERE live = 1 AND resolution = 0"), 2);
    assert_int_equal(q("SELECT sum(points) FROM part WHERE live = 1 AND resolution = 0"), ROWS);
    mf_work(&f);
    series_points_init(&is, KIND_NUMBER);
    for (int i = 0; i < ALL; i++) {
        series_points_reset(&is);
        mf_read_parts(&f, KIND_NUMBER, 0, i + 1, &is);
        assert_int_equal(is.n, ROWS / ALL - (i == ALL - 1)); /* whose last row is of series 1 */
        for (size_t k = 0; k < is.n; k++) {
            assert_int_equal(is.time[k], DAY_START + (int64_t)k * 1000000);
            assert_int_equal(is.fields[NUMBER_VALUE].v[k], i == 0 && k == 0 ? ROWS
                                                           : k == 0         ? i
                                                                    : (int64_t)k * ALL + i + 1);
        }
    }
    series_points_fini(&is);
}

/* Of a kind whose rows are wide a number of rows says little. */
static void wide_rows_are_emptied_by_their_pages(void **state)
{
    enum { ROWS = 1200, COUNTS = 16000, LEAST_TASKS = 4 };
    int64_t *counts = calloc(COUNTS, sizeof(*counts));

    (void)state;
    assert_non_null(counts);
    for (int i = 0; i < COUNTS; i++)
        counts[i] = 10 + i % 10;
    for (int i = 0; i < ROWS; i++) {
        struct exponential_histogram_point *p =
            fx_exponential(x, fx_metric(x, METRIC_EXPONENTIAL_HISTOGRAM, "e", "1"),
                           fx_attrs(x, NULL, NULL), DAY_START + i, 1);

        p->positive = (struct exponential_buckets){true, 0, COUNTS, counts};
        store();
    }
    free(counts);
    emptying_tasks = 0;
    fault_hook = count_emptying;
    mf_seal(&f);
    assert_int_equal(q("SELECT count(*) FROM exponential_histogram_head_0"), 0);
    assert_true(emptying_tasks >= LEAST_TASKS);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_was_in_the_head_is_in_parts),
        CASE(points_of_every_kind_stay_what_they_are),
        CASE(each_day_has_a_part_of_its_own),
        CASE(a_hundred_days_in_one_half),
        CASE(a_value_sent_again_later_counts),
        CASE(rollups_are_made_of_the_same_points),
        CASE(points_of_few_minutes_are_in_the_hour_too),
        CASE(without_rollups_there_are_none),
        CASE(what_fails_is_tried_again_from_the_head),
        CASE(a_start_finds_what_was_sealed_and_what_was_not),
        CASE(very_many_rows_are_sealed_and_emptied_bit_by_bit),
        CASE(wide_rows_are_emptied_by_their_pages),
        cmocka_unit_test(patterns_match),
    };

    return cmocka_run_group_tests_name("seal", tests, NULL, NULL);
}
