/* Merging parts: every point of every kind, by the plainest rule; what stands in the place of what.
 */
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
#include "random.h"
#include "store/rollup.h"

enum { SERIES = 5, DAY = 20000 };

#define DAY_START (DAY * PART_DAY_NS)

static char *dir;
static struct mf f;
static struct otl_error err;
static struct series_points model[SERIES]; /* in the order of insertion */
static struct series_points part[SERIES];

static int setup(void **state)
{
    (void)state;
    dir = fx_dir_new();
    memset(&f, 0, sizeof(f));
    f.dir = dir;
    mf_open(&f);
    return 0;
}

static void reset_model(enum series_kind kind)
{
    for (int i = 0; i < SERIES; i++) {
        series_points_fini(&model[i]);
        series_points_fini(&part[i]);
        series_points_init(&model[i], kind);
        series_points_init(&part[i], kind);
    }
}

static int teardown(void **state)
{
    (void)state;
    reset_model(KIND_NUMBER);
    mf_close(&f);
    fx_dir_free(dir);
    return 0;
}

/* What was put into `part` becomes a live part, and joins the model. */
static int64_t flush_part(enum series_kind kind, int resolution)
{
    int64_t id;

    for (int i = 0; i < SERIES; i++)
        assert_true(series_points_append(&model[i], &part[i], 0, part[i].n));
    id = mf_add_part(&f, kind, resolution, DAY, part, SERIES);
    for (int i = 0; i < SERIES; i++)
        series_points_reset(&part[i]);
    return id;
}

static void random_part(enum series_kind kind)
{
    struct series_points raw;

    series_points_init(&raw, kind);
    for (int i = 0; i < SERIES; i++) {
        series_points_reset(&raw);
        for (unsigned n = random_below(30); n > 0; n--)
            mf_random_point(&raw, DAY_START + random_below(40), random_below(2));
        mf_expected(&raw, &part[i]);
    }
    series_points_fini(&raw);
    (void)flush_part(kind, 0);
}

static void assert_model(enum series_kind kind)
{
    struct series_points want, is;

    series_points_init(&want, kind);
    series_points_init(&is, kind);
    for (int i = 0; i < SERIES; i++) {
        mf_expected(&model[i], &want);
        mf_read_parts(&f, kind, 0, i + 1, &is);
        mf_assert_equal(&want, &is);
    }
    series_points_fini(&want);
    series_points_fini(&is);
}

static void merge_all(void)
{
    struct part_info *parts;
    struct merge_outcome out;
    size_t n;

    assert_int_equal(live_parts(f.m, &parts, &n, &err), OTL_OK);
    if (merge_parts(f.m, parts, n, true, NULL, NULL, &out, &err) != OTL_OK)
        fail_msg("%s", err.msg);
    free(parts);
}

static int64_t q(const char *sql)
{
    return fx_query(dir, sql);
}

static void every_point_of_every_kind_is_kept(void **state)
{
    (void)state;
    for (int round = 0; round < 40; round++) {
        enum series_kind kind = (enum series_kind)(round % KIND_EXEMPLAR);
        int64_t newest;

        reset_model(kind);
        for (unsigned n = 2 + random_below(6); n > 0; n--)
            random_part(kind);
        newest = q("SELECT max(sequence) FROM part WHERE live = 1");
        assert_model(kind);
        merge_all();
        assert_int_equal(q("SELECT count(*) FROM part WHERE live = 1"), 1);
        assert_int_equal(q("SELECT sequence FROM part WHERE live = 1"), newest);
        assert_model(kind);
        assert_int_equal(q("SELECT points FROM part WHERE live = 1"),
                         q("SELECT sum(points) FROM block WHERE id >> 24 ="
                           " (SELECT id FROM part WHERE live = 1)"));
        fx_exec(dir, "UPDATE part SET live = 2 WHERE live = 1");
    }
}

/* Pieces that end where no source has an earlier point left. */
static void a_series_of_very_many_points_goes_through_in_pieces(void **state)
{
    (void)state;
    reset_model(KIND_NUMBER);
    for (int p = 0; p < 3; p++) {
        for (int64_t i = 0; i < 30000; i++) {
            /* The second covers a third of the range only, densely; keys are shared now and then.
             */
            int64_t at = p == 1 ? 40000 + i : i * 4 + p % 2;

            assert_true(series_points_add_number(&part[1], DAY_START + at, 0, 0, VALUE_INT, p));
        }
        (void)flush_part(KIND_NUMBER, 0);
    }
    merge_all();
    assert_model(KIND_NUMBER);
    assert_true(q("SELECT sum(b.points) FROM block b JOIN part p ON b.id >> 24 = p.id"
                  " WHERE p.live = 1") > 50000);
}

static void of_a_key_the_newest_part_counts(void **state)
{
    struct series_points is;

    (void)state;
    reset_model(KIND_NUMBER);
    for (int i = 0; i < 3; i++) {
        assert_true(series_points_add_number(&part[0], DAY_START + 1, 7, 0, VALUE_INT, 10 + i));
        (void)flush_part(KIND_NUMBER, 0);
    }
    merge_all();
    series_points_init(&is, KIND_NUMBER);
    mf_read_parts(&f, KIND_NUMBER, 0, 1, &is);
    assert_int_equal(is.n, 1);
    assert_int_equal(is.fields[NUMBER_VALUE].v[0], 12);
    assert_int_equal(q("SELECT points FROM part WHERE live = 1"), 1);
    series_points_fini(&is);
}

static bool keep_odd(void *arg, int64_t series_id)
{
    (void)arg;
    return series_id % 2 == 1;
}

static bool keep_none(void *arg, int64_t series_id)
{
    (void)arg;
    (void)series_id;
    return false;
}

static void series_that_are_not_kept_go(void **state)
{
    struct part_info *parts;
    struct merge_outcome out;
    size_t n;

    (void)state;
    reset_model(KIND_NUMBER);
    random_part(KIND_NUMBER);
    random_part(KIND_NUMBER);
    assert_int_equal(live_parts(f.m, &parts, &n, &err), OTL_OK);
    assert_int_equal(merge_parts(f.m, parts, n, true, keep_odd, NULL, &out, &err), OTL_OK);
    assert_int_equal(out.dropped,
                     parts[0].points + parts[1].points - (model[0].n + model[2].n + model[4].n));
    free(parts);
    series_points_reset(&model[1]);
    series_points_reset(&model[3]);
    assert_model(KIND_NUMBER);

    assert_int_equal(live_parts(f.m, &parts, &n, &err), OTL_OK);
    assert_int_equal(n, 1);
    assert_int_equal(merge_parts(f.m, parts, n, true, keep_none, NULL, &out, &err), OTL_OK);
    assert_int_equal(out.id, 0);
    free(parts);
    assert_int_equal(q("SELECT count(*) FROM part WHERE live = 1"), 0);
}

static void a_damaged_part_stays_as_it_is(void **state)
{
    bool did = true;
    char sql[200];
    int64_t id = 0;

    (void)state;
    reset_model(KIND_NUMBER);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 100; k++)
            mf_random_point(&part[0], DAY_START + 100 * i + k, 0);
        id = flush_part(KIND_NUMBER, 0);
    }
    snprintf(sql, sizeof(sql),
             "UPDATE block SET data = CAST(substr(data, 1, length(data) - 3) || x'ffffff' AS BLOB)"
             " WHERE id >> 24 = %lld",
             (long long)id);
    fx_exec(dir, sql);
    for (int rounds = 0; did; rounds++) {
        assert_true(rounds < 10);
        if (merge_next(f.m, true, &did, &err) != OTL_OK)
            fail_msg("%s", err.msg);
    }
    /* The two that are whole became one; the third is still there. */
    assert_int_equal(q("SELECT count(*) FROM part WHERE live = 1"), 2);
    snprintf(sql, sizeof(sql), "SELECT live FROM part WHERE id = %lld", (long long)id);
    assert_int_equal(q(sql), 1);
    assert_int_equal(q("SELECT max(points) FROM part WHERE live = 1"), 200);
}

static void garbage_is_collected_and_the_file_shrinks(void **state)
{
    int64_t pages;

    (void)state;
    reset_model(KIND_NUMBER);
    for (int p = 0; p < 8; p++) {
        for (int i = 0; i < 20000; i++)
            mf_random_point(&part[0], DAY_START + i, 0);
        (void)flush_part(KIND_NUMBER, 0);
    }
    pages = q("PRAGMA page_count");
    mf_work(&f);
    assert_int_equal(q("SELECT count(*) FROM part"), 1);
    assert_int_equal(q("SELECT count(*) FROM block WHERE id >> 24 NOT IN (SELECT id FROM part)"),
                     0);
    assert_model(KIND_NUMBER);
    f.m->hurry = true;
    assert_int_equal(vacuum_free_pages(f.m, 0, &err), OTL_OK);
    assert_int_equal(q("PRAGMA freelist_count"), 0);
    assert_true(q("PRAGMA page_count") < pages / 2);
}

/* ---- rollups ---- */

static int resolution_s = ROLLUP_5M;

/* The points of `part` as a raw part and their rollup as another. */
static void flush_with_rollup(void)
{
    struct series_points rows[SERIES];

    for (int i = 0; i < SERIES; i++) {
        series_points_init(&rows[i], KIND_NUMBER_ROLLUP);
        assert_true(rollup_add(&rows[i], &part[i], resolution_s, false));
    }
    (void)mf_add_part(&f, KIND_NUMBER_ROLLUP, resolution_s, DAY, rows, SERIES);
    for (int i = 0; i < SERIES; i++)
        series_points_fini(&rows[i]);
    (void)flush_part(KIND_NUMBER, 0);
}

static void assert_rollups(void)
{
    struct series_points points, want, is;

    series_points_init(&points, KIND_NUMBER);
    series_points_init(&want, KIND_NUMBER_ROLLUP);
    series_points_init(&is, KIND_NUMBER_ROLLUP);
    for (int i = 0; i < SERIES; i++) {
        mf_expected(&model[i], &points);
        series_points_reset(&want);
        assert_true(rollup_add(&want, &points, resolution_s, false));
        mf_read_parts(&f, KIND_NUMBER_ROLLUP, resolution_s, i + 1, &is);
        mf_assert_equal(&want, &is);
    }
    series_points_fini(&points);
    series_points_fini(&want);
    series_points_fini(&is);
}

static void add_values(int series, int64_t from_s, int n, int64_t step_s, int64_t value)
{
    for (int i = 0; i < n; i++)
        assert_true(series_points_add_number(&part[series],
                                             DAY_START + (from_s + i * step_s) * NS_PER_S, 0, 0,
                                             VALUE_INT, value + i));
}

static void force_all(void)
{
    bool did = true;

    while (did) {
        if (merge_next(f.m, true, &did, &err) != OTL_OK)
            fail_msg("%s", err.msg);
    }
}

/* As seals in turn give them: windows are cut in two, the times go on. */
static void rollups_that_follow_each_other_are_joined(void **state)
{
    (void)state;
    reset_model(KIND_NUMBER);
    for (int i = 0; i < 5; i++) {
        add_values(0, 10 + i * 1000, 100, 10, i * 50);
        add_values(3, 10 + i * 1000, 10, 100, 0);
        flush_with_rollup();
    }
    force_all();
    assert_int_equal(q("SELECT count(*) FROM part WHERE live = 1"), 2);
    assert_rollups();
}

static void rollups_that_overlap_are_made_of_raw_points_again(void **state)
{
    (void)state;
    reset_model(KIND_NUMBER);
    add_values(0, 0, 100, 10, 5);
    flush_with_rollup();
    add_values(0, 405, 3, 10, 700); /* late ones in between */
    flush_with_rollup();
    add_values(0, 500, 1, 10, 900); /* another value for a key that is there */
    add_values(2, 0, 9, 10, 1);
    flush_with_rollup();
    force_all();
    assert_model(KIND_NUMBER);
    assert_rollups();
}

/* By tiers only some parts would be merged, which is not enough to do that. */
static void then_all_rollups_of_the_day_are_merged(void **state)
{
    (void)state;
    reset_model(KIND_NUMBER);
    for (int i = 0; i < 9; i++) {
        /* The third comes between the two of the second. */
        add_values(0, i == 2 ? 15 : i * 10, i == 1 ? 2 : 1, 10, i);
        flush_with_rollup();
    }
    mf_work(&f);
    assert_int_equal(q("SELECT count(*) FROM part WHERE live = 1 AND resolution > 0"), 1);
    assert_int_equal(q("SELECT count(*) FROM part WHERE live = 1 AND resolution = 0"), 2);
    assert_rollups();
}

/* Raw points that retention took away still count. */
static void rollups_outlive_their_points(void **state)
{
    struct series_points is;

    (void)state;
    reset_model(KIND_NUMBER);
    add_values(0, 0, 30, 10, 5);
    flush_with_rollup();
    fx_exec(dir, "UPDATE part SET live = 2 WHERE resolution = 0");
    add_values(0, 105, 3, 10, 700);
    flush_with_rollup();
    force_all();
    series_points_init(&is, KIND_NUMBER_ROLLUP);
    mf_read_parts(&f, KIND_NUMBER_ROLLUP, resolution_s, 1, &is);
    assert_int_equal(is.n, 1);
    assert_int_equal(is.fields[NUMBER_ROLLUP_N].v[0], 33);
    series_points_fini(&is);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(every_point_of_every_kind_is_kept),
        CASE(a_series_of_very_many_points_goes_through_in_pieces),
        CASE(of_a_key_the_newest_part_counts),
        CASE(series_that_are_not_kept_go),
        CASE(a_damaged_part_stays_as_it_is),
        CASE(garbage_is_collected_and_the_file_shrinks),
        CASE(rollups_that_follow_each_other_are_joined),
        CASE(rollups_that_overlap_are_made_of_raw_points_again),
        CASE(then_all_rollups_of_the_day_are_merged),
        CASE(rollups_outlive_their_points),
    };

    return cmocka_run_group_tests_name("merge", tests, NULL, NULL);
}
