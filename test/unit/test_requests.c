/* Several requests in one transaction, the numbers of series, and row ids. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "otlite/store.h"
#include "store_fixture.h"

#define T INT64_C(1700000000000000000)

enum { REQUESTS = 3, FORBIDDEN = 666 };

static char *dir;
static struct store *s;
static struct fx *f[REQUESTS];
static struct store_result r[REQUESTS];
static struct store_request requests[REQUESTS];
static struct otl_error err;

static int setup(void **state)
{
    (void)state;
    dir = fx_dir_new();
    s = fx_store(dir);
    for (int i = 0; i < REQUESTS; i++) {
        f[i] = fx_new();
        r[i] = (struct store_result){0};
        requests[i] = (struct store_request){1, &f[i]->b, &r[i]};
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    store_free(s);
    for (int i = 0; i < REQUESTS; i++)
        fx_free(f[i]);
    fx_dir_free(dir);
    return 0;
}

/* An integer point of gauge "g" {k: key} in request i. */
static struct number_point *point(int i, const char *key, int64_t time, int64_t value)
{
    struct fx *x = f[i];
    uint32_t m = x->b.n_metrics > 0 ? 0 : fx_metric(x, METRIC_GAUGE, "g", "1");

    return fx_int(x, m, fx_attrs(x, "k", key), time, value);
}

static void put_all(uint32_t n)
{
    if (store_requests(s, requests, n, 1000, &err) != OTL_OK)
        fail_msg("%s", err.msg);
}

static int64_t q(const char *sql)
{
    return fx_query(dir, sql);
}

/* Any number point with this value fails from here on. */
static void forbid_a_value(void)
{
    fx_exec(dir, "CREATE TRIGGER forbid BEFORE INSERT ON number_head_0 WHEN NEW.value = 666"
                 " BEGIN SELECT RAISE(ABORT, 'forbidden'); END");
}

/* ---- numbers ---- */

static void a_series_gets_its_number_when_it_was_stored_before(void **state)
{
    uint32_t a, b;

    (void)state;
    point(0, "a", T, 1);
    put_all(1);
    assert_int_equal(f[0]->b.series[0].number, 0); /* created by this very request */
    point(0, "b", T + 1, 1);
    f[0]->b.numbers[0].p.time = T + 1;
    put_all(1);
    a = f[0]->b.series[0].number;
    assert_int_not_equal(a, 0);
    assert_int_equal(f[0]->b.series[1].number, 0);
    f[0]->b.numbers[0].p.time = f[0]->b.numbers[1].p.time = T + 2;
    put_all(1);
    b = f[0]->b.series[1].number;
    assert_int_equal(f[0]->b.series[0].number, a);
    assert_int_not_equal(b, 0);
    assert_int_not_equal(b, a);
}

static void a_number_stands_for_looking_the_series_up(void **state)
{
    uint32_t number;

    (void)state;
    point(0, "a", T, 1);
    point(0, "b", T, 2);
    put_all(1);
    put_all(1);
    number = f[0]->b.series[1].number;
    fx_reset(f[0]);
    point(0, "b", T + 1, 3);
    f[0]->b.series[0].number = number;
    put_all(1);
    assert_int_equal(q("SELECT count(*) FROM series"), 2);
    assert_int_equal(q("SELECT s.attributes = '{\"k\":\"b\"}' FROM number_head p JOIN series s ON"
                       " s.id = p.series_id WHERE p.value = 3"),
                     1);
}

static void a_number_that_cannot_be_is_not_believed(void **state)
{
    uint32_t of_other;

    (void)state;
    fx_int(f[1], fx_metric(f[1], METRIC_GAUGE, "other", "1"), fx_attrs(f[1], "k", "a"), T, 1);
    requests[0].batch = &f[1]->b;
    put_all(1);
    put_all(1);
    of_other = f[1]->b.series[0].number;
    requests[0].batch = &f[0]->b;
    point(0, "a", T, 1);
    f[0]->b.series[0].number = of_other; /* a series of another metric */
    put_all(1);
    assert_int_equal(f[0]->b.series[0].number, 0);
    assert_int_equal(q("SELECT count(*) FROM series"), 2);
    f[0]->b.numbers[0].p.time = T + 1;
    f[0]->b.series[0].number = 1000000; /* there are not so many */
    put_all(1);
    assert_int_not_equal(f[0]->b.series[0].number, 0);
    assert_int_not_equal(f[0]->b.series[0].number, 1000000);
    assert_int_equal(q("SELECT count(*) FROM series"), 2);
    assert_int_equal(q("SELECT count(*) FROM number_head p JOIN series s ON s.id = p.series_id"
                       " JOIN metric m ON m.id = s.metric_id WHERE m.name = 'g'"),
                     2);
}

/* The levels above are compared even where the number says which they should be. */
static void a_number_under_other_levels_is_not_believed(void **state)
{
    (void)state;
    point(0, "a", T, 1);
    put_all(1);
    put_all(1);
    f[0]->b.numbers[0].p.time = T + 1;
    f[0]->b.scopes[0].version = bytes_str("2.0");
    put_all(1);
    assert_int_equal(q("SELECT count(*) FROM scope"), 2);
    assert_int_equal(q("SELECT count(*) FROM series"), 2);
    f[0]->b.numbers[0].p.time = T + 2;
    f[0]->b.metrics[0].unit = bytes_str("s");
    put_all(1);
    assert_int_equal(q("SELECT count(*) FROM metric"), 3);
    f[0]->b.numbers[0].p.time = T + 3;
    f[0]->b.resources[0].attributes = fx_attrs(f[0], "service.name", "svd");
    put_all(1);
    assert_int_equal(q("SELECT count(*) FROM resource"), 2);
    requests[0].project_id = 2;
    put_all(1);
    assert_int_equal(q("SELECT count(*) FROM resource"), 3);
    assert_int_equal(q("SELECT count(*) FROM series"), 5);
}

static void what_is_not_identity_is_kept_right_under_known_series(void **state)
{
    (void)state;
    point(0, "a", T, 1);
    put_all(1);
    put_all(1);
    assert_int_not_equal(f[0]->b.series[0].number, 0);
    f[0]->b.numbers[0].p.time = T + 1;
    f[0]->b.resources[0].schema_url = bytes_str("https://example.com/2");
    f[0]->b.scopes[0].dropped_attributes_count = 7;
    f[0]->b.metrics[0].description = bytes_str("long");
    f[0]->b.metrics[0].metadata = fx_attrs(f[0], "m", "n");
    put_all(1);
    assert_int_equal(q("SELECT schema_url = 'https://example.com/2' FROM resource"), 1);
    assert_int_equal(q("SELECT dropped_attributes_count FROM scope"), 7);
    assert_int_equal(q("SELECT description = 'long' AND metadata = '{\"m\":\"n\"}' FROM metric"),
                     1);
    assert_int_equal(q("SELECT count(*) FROM series"), 1);
}

/* ---- several in one transaction ---- */

static void each_request_has_its_own_result_and_warnings(void **state)
{
    uint32_t m;

    (void)state;
    point(0, "a", T, 1);
    point(0, "b", T, 1);
    point(1, "a", T + 1, 1);
    m = fx_metric(f[2], METRIC_GAUGE, "g", "s"); /* the same name with another unit */
    fx_int(f[2], m, fx_attrs(f[2], NULL, NULL), T, 1);
    put_all(3);
    assert_int_equal(r[0].stored, 2);
    assert_int_equal(r[1].stored, 1);
    assert_int_equal(r[2].stored, 1);
    assert_int_equal(f[0]->b.warnings[WARN_NAME_CONFLICT], 0);
    assert_int_equal(f[2]->b.warnings[WARN_NAME_CONFLICT], 1);
    assert_int_equal(q("SELECT count(*) FROM number_head"), 4);
    assert_int_equal(q("SELECT count(*) FROM series"), 3);
    /* Created by the transaction, so not to be learned, though the second request found it. */
    assert_int_equal(f[1]->b.series[0].number, 0);
}

static void a_resend_within_the_transaction_is_merged(void **state)
{
    (void)state;
    point(0, "a", T, 1);
    point(0, "b", T, 2);
    point(1, "a", T, 1);
    point(1, "b", T, 2);
    point(1, "b", T - 5, 3); /* late, and new */
    point(2, "b", T, 9);
    point(2, "b", T - 5, 3);
    put_all(3);
    assert_int_equal(r[0].stored, 2);
    assert_int_equal(r[1].merged, 2);
    assert_int_equal(r[1].stored, 1);
    assert_int_equal(r[2].replaced, 1);
    assert_int_equal(r[2].merged, 1);
    assert_int_equal(r[2].stored, 0);
    assert_int_equal(f[1]->b.warnings[WARN_DUPLICATE_POINT], 0);
    assert_int_equal(f[2]->b.warnings[WARN_DUPLICATE_POINT], 1);
    assert_int_equal(q("SELECT count(*) FROM number_head"), 3);
    assert_int_equal(q("SELECT value FROM number_head WHERE time = 1700000000000000000"
                       " AND series_id = 2"),
                     9);
}

static void one_that_fails_takes_all_back_and_each_alone_works(void **state)
{
    (void)state;
    point(0, "a", T, 1);
    put_all(1);
    forbid_a_value();
    f[0]->b.numbers[0].p.time = T + 10;
    point(0, "c", T, 1);
    point(1, "a", T + 10, 2); /* replaces request 0's */
    point(1, "d", T, FORBIDDEN);
    r[0] = (struct store_result){77, 77, 77, 77};
    assert_int_equal(store_requests(s, requests, 2, 1000, &err), OTL_EDB);
    assert_non_null(strstr(err.msg, "forbidden"));
    assert_int_equal(r[0].stored, 77);
    assert_int_equal(f[1]->b.warnings[WARN_DUPLICATE_POINT], 0);
    assert_int_equal(q("SELECT count(*) FROM number_head"), 1);
    assert_int_equal(q("SELECT count(*) FROM series"), 1);
    assert_int_equal(store_series_count(s), 1);

    put_all(1);
    assert_int_equal(r[0].stored, 2);
    assert_int_equal(r[0].merged + r[0].replaced, 0);
    assert_int_equal(store_requests(s, requests + 1, 1, 1000, &err), OTL_EDB);
    assert_int_equal(q("SELECT count(*) FROM number_head"), 3);
    put_all(1); /* all of it is known, after two rollbacks */
    assert_int_equal(r[0].merged, 2);
    assert_int_equal(r[0].stored, 0);
    f[1]->b.numbers[1].value.u.i = 3;
    put_all(2);
    assert_int_equal(r[1].replaced, 1);
    assert_int_equal(r[1].stored, 1);
    assert_int_equal(q("SELECT count(*) FROM number_head"), 4);
    assert_int_equal(q("SELECT max(id) FROM number_head"), 5); /* the replacing one is a new row */
}

static void requests_without_points_are_none(void **state)
{
    (void)state;
    point(1, "a", T, 1);
    put_all(3);
    assert_int_equal(r[0].stored, 0);
    assert_int_equal(r[1].stored, 1);
    r[1].stored = 5;
    fx_reset(f[1]);
    put_all(3);
    assert_int_equal(r[1].stored, 0);
}

/* ---- row ids ---- */

/* The rows of a segment are found by their ids, so one must not be given out a second time. */
static void ids_go_on_after_another_process_deleted_the_newest_rows(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        point(0, "a", T + i, i);
    fx_histogram(f[0], fx_metric(f[0], METRIC_HISTOGRAM, "h", "1"), fx_attrs(f[0], NULL, NULL), T,
                 1);
    put_all(1);
    fx_exec(dir, "DELETE FROM number_head_0 WHERE id > 2; DELETE FROM histogram_head_0");
    for (int i = 0; i < 5; i++)
        f[0]->b.numbers[i].p.time += 10;
    f[0]->b.histograms[0].p.time += 10;
    put_all(1);
    assert_int_equal(r[0].stored, 6);
    assert_int_equal(q("SELECT group_concat(id) = '1,2,6,7,8,9,10' FROM number_head_0"), 1);
    assert_int_equal(q("SELECT id FROM histogram_head"), 2);
    put_all(1);
    assert_int_equal(r[0].merged, 6);
}

/* A row that was inserted with its id to begin with, and then rolled back, begins nothing. */
static void ids_go_on_after_a_failure_too(void **state)
{
    (void)state;
    point(0, "a", T, 1);
    point(0, "a", T + 1, 2);
    put_all(1);
    forbid_a_value();
    fx_exec(dir, "DELETE FROM number_head_0 WHERE id = 2");
    point(1, "b", T + 2, 3);
    point(1, "b", T + 3, FORBIDDEN);
    assert_int_equal(store_requests(s, requests + 1, 1, 1000, &err), OTL_EDB);
    f[1]->b.numbers[1].value.u.i = 4;
    requests[0] = requests[1];
    put_all(1);
    assert_int_equal(q("SELECT group_concat(id) = '1,3,4' FROM number_head_0"), 1);
}

/* The rows of a failed transaction leave the index of their segment, which has 8,192 slots. */
static void many_failures_leave_the_index_as_it_was(void **state)
{
    (void)state;
    point(0, "a", T, 1);
    put_all(1);
    forbid_a_value();
    fx_reset(f[0]);
    for (int i = 0; i < 400; i++)
        point(0, "a", T + 1 + i, i);
    point(1, "b", T, FORBIDDEN);
    for (int i = 0; i < 30; i++)
        assert_int_equal(store_requests(s, requests, 2, 1000, &err), OTL_EDB);
    put_all(1);
    assert_int_equal(r[0].stored, 400);
    put_all(1);
    assert_int_equal(r[0].merged, 400);
}

static void series_ids_go_on_too(void **state)
{
    (void)state;
    point(0, "a", T, 1);
    point(0, "b", T, 2);
    put_all(1);
    fx_exec(dir, "DELETE FROM series WHERE id = 2; DELETE FROM number_head_0 WHERE series_id = 2");
    point(1, "c", T, 3);
    point(1, "d", T, 4);
    point(1, "e", T, 5);
    requests[0].batch = &f[1]->b;
    put_all(1);
    assert_int_equal(q("SELECT group_concat(id || attributes, '') ="
                       " '1{\"k\":\"a\"}3{\"k\":\"c\"}4{\"k\":\"d\"}5{\"k\":\"e\"}' FROM series"),
                     1);
    assert_int_equal(q("SELECT group_concat(series_id || ':' || value) = '1:1,3:3,4:4,5:5'"
                       " FROM number_head"),
                     1);
}

/* A batch whose points have all the same time, start and flags goes by another statement. */
static void points_of_one_time_and_of_several_are_stored_alike(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct number_point *p = point(0, i == 0 ? "a" : i == 1 ? "b" : "c", T, i);

        p->p.start_time = T - 100;
        p->p.flags = FLAG_NO_RECORDED_VALUE;
    }
    put_all(1); /* the first row goes alone */
    for (int k = 1; k <= 4; k++) {
        for (int i = 0; i < 3; i++)
            f[0]->b.numbers[i].p.time = T + k;
        if (k == 2)
            f[0]->b.numbers[2].p.time = T + 50;
        if (k == 3)
            f[0]->b.numbers[1].p.start_time = T - 99;
        if (k == 4) {
            f[0]->b.numbers[1].p.start_time = T - 100;
            f[0]->b.numbers[2].p.flags = 0;
        }
        put_all(1);
        assert_int_equal(r[0].stored, 3);
    }
    assert_int_equal(q("SELECT count(*) FROM number_head"), 15);
    assert_int_equal(q("SELECT count(*) FROM number_head WHERE time = 1700000000000000050"), 1);
    assert_int_equal(q("SELECT id FROM number_head WHERE start_time = 1699999999999999901"), 11);
    assert_int_equal(q("SELECT id FROM number_head WHERE flags = 0"), 15);
    assert_int_equal(q("SELECT count(*) FROM number_head WHERE start_time = 1699999999999999900"
                       " AND flags = 1"),
                     13);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_series_gets_its_number_when_it_was_stored_before),
        CASE(a_number_stands_for_looking_the_series_up),
        CASE(a_number_that_cannot_be_is_not_believed),
        CASE(a_number_under_other_levels_is_not_believed),
        CASE(what_is_not_identity_is_kept_right_under_known_series),
        CASE(each_request_has_its_own_result_and_warnings),
        CASE(a_resend_within_the_transaction_is_merged),
        CASE(one_that_fails_takes_all_back_and_each_alone_works),
        CASE(requests_without_points_are_none),
        CASE(ids_go_on_after_another_process_deleted_the_newest_rows),
        CASE(ids_go_on_after_a_failure_too),
        CASE(many_failures_leave_the_index_as_it_was),
        CASE(series_ids_go_on_too),
        CASE(points_of_one_time_and_of_several_are_stored_alike),
    };

    return cmocka_run_group_tests_name("requests", tests, NULL, NULL);
}
