/* Retention: by age, by rules, by bytes; and that nothing else goes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "maintain_fixture.h"
#include "otlite/clock.h"
#include "otlite/stats.h"
#include "random.h"

enum { TODAY = 20000, DAY_MS = 86400000 };

static char *dir;
static struct mf f;
static struct fx *x;
static struct otl_error err;
static struct retention_rule rules[4];

/* Noon of that day. */
static int64_t today(void)
{
    return TODAY * PART_DAY_NS + PART_DAY_NS / 2;
}

static int setup(void **state)
{
    (void)state;
    dir = fx_dir_new();
    memset(&f, 0, sizeof(f));
    memset(rules, 0, sizeof(rules));
    f.dir = dir;
    f.opts.retention.rules = rules;
    f.opts.rollups = true;
    x = fx_new();
    clock_set_wall(today);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mf_close(&f);
    fx_free(x);
    fx_dir_free(dir);
    clock_set_wall(NULL);
    return 0;
}

static int64_t q(const char *sql)
{
    return fx_query(dir, sql);
}

/* Live points of a kind and day. */
static int64_t points(const char *kind, int resolution, int day)
{
    char sql[200];

    snprintf(sql, sizeof(sql),
             "SELECT coalesce(sum(points), 0) FROM part WHERE live = 1 AND kind = '%s'"
             " AND resolution = %d AND day = %d",
             kind, resolution, day);
    return q(sql);
}

/* Ten points a day of a metric, of the last n days, each with an exemplar; sealed. */
static void fill(const char *metric, int days)
{
    for (int d = 0; d < days; d++) {
        uint32_t m = fx_metric(x, METRIC_GAUGE, metric, "1");

        for (int i = 0; i < 10; i++) {
            struct number_point *p =
                fx_int(x, m, fx_attrs(x, NULL, NULL), (TODAY - d) * PART_DAY_NS + i * NS_PER_S, i);

            fx_exemplar(x, &p->p, i);
        }
        assert_int_equal(mf_store(&f, &x->b), OTL_OK);
        fx_reset(x);
    }
    mf_seal(&f);
}

static void retain(void)
{
    if (retain_by_age(f.m, &err) != OTL_OK)
        fail_msg("%s", err.msg);
}

static void without_an_age_everything_stays(void **state)
{
    (void)state;
    mf_open(&f);
    fill("g", 10);
    retain();
    for (int d = 0; d < 10; d++)
        assert_int_equal(points("number", 0, TODAY - d), 10);
}

/* A day goes when its newest point is too old. */
static void what_is_too_old_goes_whole(void **state)
{
    uint64_t expired = STATS_GET(points_expired);

    (void)state;
    f.opts.retention.max_age_ms = INT64_C(3) * DAY_MS;
    mf_open(&f);
    fill("g", 10);
    retain();
    /* It is noon: three days and a half ago the day before the third began to be too old. */
    for (int d = 0; d < 10; d++) {
        assert_int_equal(points("number", 0, TODAY - d), d < 3 ? 10 : 0);
        assert_int_equal(points("exemplar", 0, TODAY - d), d < 3 ? 10 : 0);
        /* Rollups have ages of their own. */
        assert_int_equal(points("number_rollup", 300, TODAY - d), 1);
        assert_int_equal(points("number_rollup", 3600, TODAY - d), 1);
    }
    assert_int_equal(STATS_GET(points_expired) - expired, 7 * 20);
}

static void exemplars_and_rollups_have_ages_of_their_own(void **state)
{
    (void)state;
    f.opts.retention.exemplar_age_ms = INT64_C(2) * DAY_MS;
    f.opts.retention.rollup_5m_age_ms = INT64_C(4) * DAY_MS;
    f.opts.retention.rollup_1h_age_ms = INT64_C(6) * DAY_MS;
    mf_open(&f);
    fill("g", 10);
    retain();
    for (int d = 0; d < 10; d++) {
        assert_int_equal(points("number", 0, TODAY - d), 10);
        assert_int_equal(points("exemplar", 0, TODAY - d), d < 2 ? 10 : 0);
        assert_int_equal(points("number_rollup", 300, TODAY - d), d < 4 ? 1 : 0);
        assert_int_equal(points("number_rollup", 3600, TODAY - d), d < 6 ? 1 : 0);
    }
}

static void the_first_rule_that_matches_counts(void **state)
{
    struct series_points is;

    (void)state;
    rules[0] = (struct retention_rule){.metric = "http.keep.*", .max_age_ms = 0};
    rules[1] = (struct retention_rule){.metric = "http.*", .max_age_ms = INT64_C(2) * DAY_MS};
    f.opts.retention.n_rules = 2;
    f.opts.retention.max_age_ms = INT64_C(5) * DAY_MS;
    mf_open(&f);
    fill("http.keep.a", 8); /* series 1 */
    fill("http.b", 8);      /* series 2 */
    fill("cpu", 8);         /* series 3 */
    mf_work(&f);
    retain();
    series_points_init(&is, KIND_NUMBER);
    for (int64_t id = 1; id <= 3; id++) {
        int days = id == 1 ? 8 : id == 2 ? 2 : 5;

        mf_read_parts(&f, KIND_NUMBER, 0, id, &is);
        assert_int_equal(is.n, 10 * days);
        assert_int_equal(part_day(is.time[0]), TODAY - days + 1);
    }
    series_points_fini(&is);
    assert_int_equal(points("exemplar", 0, TODAY - 3), 20);
    /* Nothing is left to do: nothing is written again. */
    {
        uint64_t merges = STATS_GET(merges);

        retain();
        retain();
        assert_int_equal(STATS_GET(merges), merges);
    }
}

static int64_t project_by_name(void *arg, const char *name)
{
    (void)arg;
    return strcmp(name, "one") == 0 ? 1 : 0;
}

static void rules_for_projects_match_by_name(void **state)
{
    (void)state;
    rules[0] = (struct retention_rule){.project = "none", .max_age_ms = 1};
    rules[1] =
        (struct retention_rule){.project = "one", .metric = "a", .max_age_ms = INT64_C(2) * DAY_MS};
    f.opts.retention.n_rules = 2;
    f.opts.project_id = project_by_name;
    mf_open(&f);
    fill("a", 5);
    fill("b", 5);
    retain();
    assert_int_equal(points("number", 0, TODAY - 1), 20);
    assert_int_equal(points("number", 0, TODAY - 4), 10);
}

/* One point of a metric, so many days ago. */
static void add_point(const char *metric, int days_ago, int64_t seconds)
{
    fx_int(x, fx_metric(x, METRIC_GAUGE, metric, "1"), fx_attrs(x, NULL, NULL),
           (TODAY - days_ago) * PART_DAY_NS + seconds * NS_PER_S, 7);
    assert_int_equal(mf_store(&f, &x->b), OTL_OK);
    fx_reset(x);
}

static void expect_series(const char *ids)
{
    char *is = fx_query_text(dir, "SELECT group_concat(id) FROM"
                                  " (SELECT id FROM series ORDER BY id)");

    assert_string_equal(is, ids);
    free(is);
}

static void forget(void)
{
    retain();
    if (forget_series(f.m, &err) != OTL_OK)
        fail_msg("%s", err.msg);
}

static void series_without_points_are_deleted_and_come_again_as_new_ones(void **state)
{
    struct series_points is;

    (void)state;
    f.opts.rollups = false;
    f.opts.retention.max_age_ms = INT64_C(3) * DAY_MS;
    mf_open(&f);
    add_point("old", 9, 0);  /* 1 */
    add_point("late", 9, 0); /* 2: and again below */
    add_point("now", 0, 0);  /* 3 */
    add_point("last", 9, 0); /* 4: the greatest id */
    mf_seal(&f);
    add_point("late", 9, 1); /* in the head */
    forget();
    expect_series("2,3,4");
    mf_seal(&f);
    forget();
    expect_series("3,4");
    add_point("old", 0, 2);
    add_point("late", 0, 2);
    expect_series("3,4,5,6");
    mf_close(&f);
    mf_open(&f);
    add_point("old", 0, 3);
    assert_int_equal(q("SELECT max(id) FROM series"), 6);
    series_points_init(&is, KIND_NUMBER);
    mf_read_all(&f, KIND_NUMBER, 5, &is);
    assert_int_equal(is.n, 2);
    mf_read_all(&f, KIND_NUMBER, 1, &is);
    assert_int_equal(is.n, 0);
    series_points_fini(&is);
}

static enum otl_err fail_forget(const char *point, struct otl_error *e)
{
    return strcmp(point, "forget.commit") == 0 ? otl_fail(e, OTL_EIO, "not today") : OTL_OK;
}

static void what_was_not_deleted_after_all_is_still_known(void **state)
{
    (void)state;
    f.opts.rollups = false;
    f.opts.retention.max_age_ms = INT64_C(3) * DAY_MS;
    mf_open(&f);
    add_point("old", 9, 0);
    add_point("now", 0, 0);
    mf_seal(&f);
    retain();
    fault_hook = fail_forget;
    assert_int_equal(forget_series(f.m, &err), OTL_EIO);
    fault_hook = NULL;
    add_point("old", 0, 1);
    assert_int_equal(q("SELECT count(*) FROM series"), 2);
}

/* ---- by bytes ---- */

static int64_t bytes_on_disk(void)
{
    static const char *const names[] = {"telemetry.db", "telemetry.db-wal", "telemetry.db-shm"};
    int64_t sum = 0;

    for (int i = 0; i < 3; i++) {
        char path[4200];
        struct stat st;

        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        if (stat(path, &st) == 0)
            sum += st.st_size;
    }
    return sum;
}

static int drops;

static enum otl_err one_drop(const char *point, struct otl_error *e)
{
    return strcmp(point, "retention.drop") == 0 && drops++ > 0
               ? otl_fail(e, OTL_EIO, "one is enough")
               : OTL_OK;
}

/* Or a value that was replaced would be seen again. */
static void of_a_day_the_part_that_others_replace_goes_first(void **state)
{
    int64_t ids[3];

    (void)state;
    mf_open(&f);
    for (int i = 0; i < 3; i++) {
        struct series_points p;

        series_points_init(&p, KIND_NUMBER);
        /* Each begins before the one that it replaces a part of. */
        assert_true(series_points_add_number(&p, TODAY * PART_DAY_NS - 10 - i, 0, 0, VALUE_INT, i));
        assert_true(series_points_add_number(&p, TODAY * PART_DAY_NS - 1, 0, 0, VALUE_INT, i));
        ids[i] = mf_add_part(&f, KIND_NUMBER, 0, TODAY - 1, &p, 1);
        series_points_fini(&p);
    }
    for (int i = 0; i < 2; i++) {
        drops = 0;
        fault_hook = one_drop;
        f.m->opts.retention.max_bytes = 1; /* all is too much */
        assert_int_equal(retain_by_bytes(f.m, &err), OTL_EIO);
        fault_hook = NULL;
        assert_int_equal(q("SELECT min(id) FROM part WHERE live = 1"), ids[i + 1]);
        assert_int_equal(q("SELECT count(*) FROM part WHERE live = 1"), 2 - i);
    }
}

static void the_oldest_goes_when_there_is_too_much(void **state)
{
    const int64_t limit = 16 << 20;
    int64_t greatest = 0, stored = 0;
    uint64_t expired = STATS_GET(points_expired);
    int refused = 0;

    (void)state;
    f.opts.rollups = false; /* they would outlive the points: those go first */
    f.opts.retention.max_bytes = limit;
    f.writer_opts = (struct writer_opts){.max_queue_bytes = 1 << 30,
                                         .max_queue_jobs = 1000,
                                         .max_age_ms = 60000,
                                         .store = fx_opts(dir)};
    f.writer_opts.store.checkpoint_pages = 100;
    mf_open(&f);
    f.m->hurry = true;
    for (int r = 0; r < 400; r++) {
        uint32_t m = fx_metric(x, METRIC_GAUGE, "g", "1");
        enum otl_err rc;

        for (int i = 0; i < 4000; i++)
            fx_double(x, m, fx_attrs_int(x, "i", i),
                      (TODAY - 100 + r / 4) * PART_DAY_NS + r % 4 * NS_PER_S,
                      fx_bits(random_u64() >> 2)); /* nothing to compress */
        rc = mf_store(&f, &x->b);
        if (rc == OTL_OK)
            stored += 4000;
        else
            assert_int_equal(rc, OTL_EFULL);
        refused += rc != OTL_OK;
        fx_reset(x);
        assert_true(bytes_on_disk() <= limit);
        if (r % 4 == 3)
            mf_seal(&f);
        assert_true(bytes_on_disk() <= limit);
        if (retain_by_bytes(f.m, &err) != OTL_OK || collect_garbage(f.m, &err) != OTL_OK)
            fail_msg("%s", err.msg);
        greatest = bytes_on_disk() > greatest ? bytes_on_disk() : greatest;
        assert_true(bytes_on_disk() <= limit);
    }
    assert_int_equal(refused, 0);
    /* Some 13 MB of values alone: it was needed, and the room was used. */
    assert_true(greatest > limit / 2);
    assert_true(STATS_GET(points_expired) > expired);
    /* The newest days are whole, the oldest are gone, and what is there goes on without a gap. */
    assert_int_equal(points("number", 0, TODAY - 1), 16000);
    assert_int_equal(points("number", 0, TODAY - 100), 0);
    assert_int_equal(q("SELECT max(day) - min(day) + 1 - count(DISTINCT day) FROM part"
                       " WHERE live = 1 AND resolution = 0"),
                     0);
    assert_int_equal(stored - q("SELECT sum(points) FROM part WHERE live = 1 AND resolution = 0"),
                     STATS_GET(points_expired) - expired);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(without_an_age_everything_stays),
        CASE(what_is_too_old_goes_whole),
        CASE(exemplars_and_rollups_have_ages_of_their_own),
        CASE(the_first_rule_that_matches_counts),
        CASE(rules_for_projects_match_by_name),
        CASE(series_without_points_are_deleted_and_come_again_as_new_ones),
        CASE(what_was_not_deleted_after_all_is_still_known),
        CASE(of_a_day_the_part_that_others_replace_goes_first),
        CASE(the_oldest_goes_when_there_is_too_much),
    };

    return cmocka_run_group_tests_name("retention", tests, NULL, NULL);
}
