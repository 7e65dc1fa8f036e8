/* The reader pool: one snapshot a job, no writing, bounded queue, orderly end. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "otlite/reader.h"
#include "store_fixture.h"

enum { JOBS = 10, MAX_QUEUE = 4 };

struct job {
    struct read_job r; /* first */
    int64_t first, second;
    int done;
};

static struct {
    pthread_mutex_t mu;
    pthread_cond_t cond;
    int inside; /* jobs that wait at the gate */
    bool open;
} gate = {.mu = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};

static char *dir;
static struct store *s;
static struct fx *f;
static struct reader_pool *pool;
static struct read_shared *shared;
static struct handoff h;
static struct job jobs[JOBS];
static struct otl_error err;

static void put(int64_t time)
{
    struct store_result r;

    fx_reset(f);
    fx_int(f, fx_metric(f, METRIC_GAUGE, "g", "1"), fx_attrs(f, NULL, NULL), time, 1);
    assert_int_equal(store_batch(s, 1, &f->b, 0, &r, &err), OTL_OK);
}

static enum otl_err read_twice(struct read_job *job, struct db *db, struct otl_error *e)
{
    static const char SQL[] = "SELECT count(*) FROM number_head";
    struct job *j = (struct job *)job;
    enum otl_err rc = db_query_int(db, SQL, &j->first, e);

    pthread_mutex_lock(&gate.mu);
    gate.inside++;
    pthread_cond_broadcast(&gate.cond);
    while (!gate.open)
        pthread_cond_wait(&gate.cond, &gate.mu);
    gate.inside--;
    pthread_mutex_unlock(&gate.mu);
    return rc != OTL_OK ? rc : db_query_int(db, SQL, &j->second, e);
}

static enum otl_err read_once(struct read_job *job, struct db *db, struct otl_error *e)
{
    return db_query_int(db, "SELECT count(*) FROM number_head", &((struct job *)job)->first, e);
}

/* By the session: the time of the last point, in the job's snapshot. */
static enum otl_err read_by_session(struct read_job *job, struct db *db, struct otl_error *e)
{
    static const int64_t series[] = {1};
    struct window_query q = {.series = series, .n = 1, .n_groups = 1, .from = 0, .to = INT64_MAX};
    struct window *w;
    struct read *r;
    enum otl_err rc = read_begin(job->session, NULL, false, &r, e);

    (void)db;
    if (rc != OTL_OK)
        return rc;
    rc = read_windows(r, &q, &w, NULL, e);
    if (rc == OTL_OK) {
        ((struct job *)job)->first = (int64_t)w->count;
        ((struct job *)job)->second = w->last_time;
        free(w);
    }
    read_end(r);
    return rc;
}

static enum otl_err try_to_write(struct read_job *job, struct db *db, struct otl_error *e)
{
    (void)job;
    return db_exec(db, "DELETE FROM number_head_0", e);
}

static struct sqlite3_stmt *forgotten;

static enum otl_err forget_a_statement(struct read_job *job, struct db *db, struct otl_error *e)
{
    enum otl_err rc = db_prepare(db, "SELECT id FROM number_head", &forgotten, e);

    (void)job;
    if (rc == OTL_OK)
        assert_int_equal(sqlite3_step(forgotten), SQLITE_ROW);
    return rc;
}

static enum otl_err look_at_the_connection(struct read_job *job, struct db *db, struct otl_error *e)
{
    (void)e;
    /* 1: the statement that was forgotten on this connection is not open any more. */
    if (forgotten != NULL && sqlite3_db_handle(forgotten) == db->sql) {
        ((struct job *)job)->first = !sqlite3_stmt_busy(forgotten);
        sqlite3_finalize(forgotten);
        forgotten = NULL;
    }
    return OTL_OK;
}

static void job_done(struct handoff_item *item)
{
    ((struct job *)((char *)item - offsetof(struct read_job, done)))->done++;
}

static int setup(void **state)
{
    struct store_opts o;

    (void)state;
    dir = fx_dir_new();
    o = fx_opts(dir);
    f = fx_new();
    gate.open = false;
    gate.inside = 0;
    assert_int_equal(store_new(&o, &s, &err), OTL_OK);
    assert_int_equal(handoff_init(&h, &err), OTL_OK);
    assert_int_equal(read_shared_new(store_mirror(s), 1 << 20, &shared, &err), OTL_OK);
    if (reader_pool_start(&o, MAX_QUEUE, shared, &pool, &err) != OTL_OK)
        fail_msg("%s", err.msg);
    for (int i = 0; i < JOBS; i++)
        jobs[i] = (struct job){.r = {.reply_to = &h, .done.run = job_done, .work = read_twice},
                               .first = -1,
                               .second = -1};
    put(1000);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pthread_mutex_lock(&gate.mu);
    gate.open = true;
    pthread_cond_broadcast(&gate.cond);
    pthread_mutex_unlock(&gate.mu);
    reader_pool_stop(pool);
    reader_pool_free(pool);
    read_shared_free(shared);
    (void)handoff_drain(&h);
    handoff_fini(&h);
    store_free(s);
    fx_free(f);
    fx_dir_free(dir);
    return 0;
}

static void submit(int i)
{
    assert_int_equal(reader_submit(pool, &jobs[i].r, &err), OTL_OK);
}

static void wait_inside(int n)
{
    pthread_mutex_lock(&gate.mu);
    while (gate.inside != n)
        pthread_cond_wait(&gate.cond, &gate.mu);
    pthread_mutex_unlock(&gate.mu);
}

static void open_gate(void)
{
    pthread_mutex_lock(&gate.mu);
    gate.open = true;
    pthread_cond_broadcast(&gate.cond);
    pthread_mutex_unlock(&gate.mu);
}

static void drain(unsigned n)
{
    while (n > 0) {
        struct pollfd p = {.fd = h.fd, .events = POLLIN};

        assert_int_equal(poll(&p, 1, 60000), 1);
        n -= handoff_drain(&h);
    }
}

static void a_job_sees_one_snapshot_and_the_next_job_the_newest(void **state)
{
    (void)state;
    submit(0);
    wait_inside(1);
    put(2000);
    open_gate();
    drain(1);
    assert_int_equal(jobs[0].r.rc, OTL_OK);
    assert_int_equal(jobs[0].first, 1);
    assert_int_equal(jobs[0].second, 1);
    jobs[1].r.work = read_once;
    submit(1);
    drain(1);
    assert_int_equal(jobs[1].first, 2);
}

static void four_jobs_run_at_once_and_the_queue_is_bounded(void **state)
{
    (void)state;
    for (int i = 0; i < READER_POOL_SIZE; i++) {
        submit(i);
        wait_inside(i + 1);
    }
    for (int i = 0; i < MAX_QUEUE; i++)
        submit(READER_POOL_SIZE + i);
    assert_int_equal(reader_submit(pool, &jobs[9].r, &err), OTL_EBUSY);
    open_gate();
    drain(READER_POOL_SIZE + MAX_QUEUE);
    for (int i = 0; i < READER_POOL_SIZE + MAX_QUEUE; i++) {
        assert_int_equal(jobs[i].done, 1);
        assert_int_equal(jobs[i].r.rc, OTL_OK);
    }
    assert_int_equal(jobs[9].done, 0);
}

static void a_job_reads_by_the_session_of_its_thread(void **state)
{
    (void)state;
    put(2000);
    for (int i = 0; i < 2 * READER_POOL_SIZE; i += READER_POOL_SIZE) {
        for (int k = i; k < i + READER_POOL_SIZE; k++) {
            jobs[k].r.work = read_by_session;
            submit(k);
        }
        drain(READER_POOL_SIZE);
        for (int k = i; k < i + READER_POOL_SIZE; k++) {
            assert_int_equal(jobs[k].r.rc, OTL_OK);
            assert_int_equal(jobs[k].first, i == 0 ? 2 : 3);
            assert_int_equal(jobs[k].second, i == 0 ? 2000 : 3000);
        }
        put(3000);
    }
}

static void a_reader_cannot_write(void **state)
{
    (void)state;
    jobs[0].r.work = try_to_write;
    submit(0);
    drain(1);
    assert_int_equal(jobs[0].r.rc, OTL_EDB);
    assert_non_null(strstr(jobs[0].r.err.msg, "readonly"));
    assert_int_equal(fx_query(dir, "SELECT count(*) FROM number_head"), 1);
}

static void a_statement_left_open_does_not_keep_the_snapshot(void **state)
{
    (void)state;
    jobs[0].r.work = forget_a_statement;
    submit(0);
    drain(1);
    assert_int_equal(jobs[0].r.rc, OTL_OK);
    put(2000);
    /* A reader that held on would make this busy. */
    assert_int_equal(store_checkpoint(s, true, 0, &err), OTL_OK);
    for (int i = 1; forgotten != NULL; i = 1 + i % (JOBS - 1)) {
        jobs[i].r.work = look_at_the_connection;
        jobs[i].first = -1;
        submit(i);
        drain(1);
        if (forgotten == NULL)
            assert_int_equal(jobs[i].first, 1);
    }
}

static void stopping_finishes_what_is_queued_and_refuses_the_rest(void **state)
{
    (void)state;
    open_gate();
    for (int i = 0; i < MAX_QUEUE; i++)
        submit(i);
    reader_pool_stop(pool);
    assert_int_equal(handoff_drain(&h), MAX_QUEUE);
    assert_int_equal(reader_submit(pool, &jobs[5].r, &err), OTL_ESTOPPING);
}

static void a_pool_needs_a_database(void **state)
{
    struct reader_pool *other;
    char *empty = fx_dir_new();
    struct store_opts o = fx_opts(empty);

    (void)state;
    assert_int_equal(reader_pool_start(&o, 1, NULL, &other, &err), OTL_ENOTFOUND);
    assert_non_null(strstr(err.msg, "telemetry.db"));
    fx_dir_free(empty);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_job_sees_one_snapshot_and_the_next_job_the_newest),
        CASE(four_jobs_run_at_once_and_the_queue_is_bounded),
        CASE(a_job_reads_by_the_session_of_its_thread),
        CASE(a_reader_cannot_write),
        CASE(a_statement_left_open_does_not_keep_the_snapshot),
        CASE(stopping_finishes_what_is_queued_and_refuses_the_rest),
        CASE(a_pool_needs_a_database),
    };

    return cmocka_run_group_tests_name("reader", tests, NULL, NULL);
}
