/* The writer thread: limits, order, refusal, stopping, and a log that comes down again. */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "otlite/clock.h"
#include "otlite/stats.h"
#include "otlite/writer.h"
#include "store_fixture.h"

#define T INT64_C(1700000000000000000)

enum { JOBS = 8 };

struct job {
    struct write_job w; /* first */
    struct fx *f;
    int done;
};

/* Holds the writer inside before_batch while closed, and counts its ticks. */
static struct {
    pthread_mutex_t mu;
    pthread_cond_t cond;
    bool closed, entered;
    int ticks;
    enum otl_err fail;
} gate = {.mu = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};

static char *dir;
static struct writer *w;
static struct handoff h;
static struct job jobs[JOBS];
static struct writer_opts opts;
static struct otl_error err;

static enum otl_err before_batch(void *arg, int64_t project, const struct batch *b,
                                 struct otl_error *e)
{
    enum otl_err fail;

    (void)arg;
    (void)project;
    (void)b;
    pthread_mutex_lock(&gate.mu);
    gate.entered = true;
    pthread_cond_broadcast(&gate.cond);
    while (gate.closed)
        pthread_cond_wait(&gate.cond, &gate.mu);
    fail = gate.fail;
    pthread_mutex_unlock(&gate.mu);
    return fail == OTL_OK ? OTL_OK : otl_fail(e, fail, "state.db refused");
}

static void tick(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&gate.mu);
    gate.ticks++;
    pthread_cond_broadcast(&gate.cond);
    pthread_mutex_unlock(&gate.mu);
}

static void gate_set(bool closed)
{
    pthread_mutex_lock(&gate.mu);
    gate.closed = closed;
    gate.entered = false;
    pthread_cond_broadcast(&gate.cond);
    pthread_mutex_unlock(&gate.mu);
}

static void gate_wait_entered(void)
{
    pthread_mutex_lock(&gate.mu);
    while (!gate.entered)
        pthread_cond_wait(&gate.cond, &gate.mu);
    pthread_mutex_unlock(&gate.mu);
}

static void wait_tick(void)
{
    int now;

    pthread_mutex_lock(&gate.mu);
    now = gate.ticks;
    while (gate.ticks == now)
        pthread_cond_wait(&gate.cond, &gate.mu);
    pthread_mutex_unlock(&gate.mu);
}

static void start(void)
{
    if (writer_start(&opts, &w, &err) != OTL_OK)
        fail_msg("%s", err.msg);
}

static void job_done(struct handoff_item *item)
{
    struct job *j = (struct job *)((char *)item - offsetof(struct write_job, done));

    j->done++;
}

static int setup(void **state)
{
    (void)state;
    dir = fx_dir_new();
    gate.closed = gate.entered = false;
    gate.ticks = 0;
    gate.fail = OTL_OK;
    opts = (struct writer_opts){.store = fx_opts(dir),
                                .max_queue_bytes = 1000,
                                .max_queue_jobs = 100,
                                .max_age_ms = 60000,
                                .before_batch = before_batch,
                                .tick = tick};
    assert_int_equal(handoff_init(&h, &err), OTL_OK);
    for (int i = 0; i < JOBS; i++) {
        struct fx *f = fx_new();

        fx_int(f, fx_metric(f, METRIC_GAUGE, "g", "1"), fx_attrs(f, NULL, NULL), T + i, i);
        jobs[i] = (struct job){.f = f,
                               .w = {.reply_to = &h,
                                     .done.run = job_done,
                                     .batch = &f->b,
                                     .project_id = 1,
                                     .bytes = 100}};
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (w != NULL) {
        gate_set(false);
        writer_stop(w);
        writer_free(w);
        w = NULL;
    }
    (void)handoff_drain(&h);
    handoff_fini(&h);
    for (int i = 0; i < JOBS; i++)
        fx_free(jobs[i].f);
    fx_dir_free(dir);
    return 0;
}

/* Run what comes back until n jobs have. */
static void drain(unsigned n)
{
    while (n > 0) {
        struct pollfd p = {.fd = h.fd, .events = POLLIN};
        unsigned got;

        assert_int_equal(poll(&p, 1, 60000), 1);
        got = handoff_drain(&h);
        assert_true(got <= n);
        n -= got;
    }
}

static void submit(int i)
{
    assert_int_equal(writer_submit(w, &jobs[i].w, &err), OTL_OK);
}

static void a_job_that_came_back_well_is_committed(void **state)
{
    uint64_t stored = STATS_GET(points_stored), commits = STATS_GET(commits);

    (void)state;
    start();
    for (int i = 0; i < JOBS; i++) {
        submit(i);
        drain(1);
        assert_int_equal(jobs[i].w.rc, OTL_OK);
        assert_int_equal(jobs[i].w.result.stored, 1);
        assert_int_equal(jobs[i].done, 1);
        assert_int_equal(fx_query(dir, "SELECT count(*) FROM number_head"), i + 1);
    }
    assert_int_equal(STATS_GET(points_stored) - stored, JOBS);
    assert_int_equal(STATS_GET(commits) - commits, JOBS);
}

static void jobs_are_done_in_the_order_of_arrival(void **state)
{
    (void)state;
    start();
    gate_set(true);
    for (int i = 0; i < JOBS; i++)
        submit(i);
    gate_set(false);
    drain(JOBS);
    assert_int_equal(fx_query(dir, "SELECT count(*) FROM number_head WHERE value = id - 1"), JOBS);
}

static void the_queue_refuses_what_passes_its_byte_limit(void **state)
{
    (void)state;
    start();
    gate_set(true);
    submit(0);
    gate_wait_entered(); /* 0 is with the writer, the queue is empty */
    jobs[1].w.bytes = 600;
    jobs[2].w.bytes = 401;
    submit(1);
    assert_int_equal(writer_submit(w, &jobs[2].w, &err), OTL_EBUSY);
    jobs[2].w.bytes = 400;
    submit(2);
    assert_int_equal(STATS_GET(queue_bytes), 1000);
    assert_int_equal(STATS_GET(queue_jobs), 2);
    jobs[3].w.bytes = 1;
    assert_int_equal(writer_submit(w, &jobs[3].w, &err), OTL_EBUSY);
    gate_set(false);
    drain(3);
    assert_int_equal(STATS_GET(queue_bytes), 0);
    submit(3); /* there is room again */
    drain(1);
    assert_int_equal(jobs[3].w.rc, OTL_OK);
}

/* Refused, it would be sent again for ever. */
static void a_job_larger_than_the_queue_is_taken_when_it_is_alone(void **state)
{
    (void)state;
    start();
    gate_set(true);
    submit(0);
    gate_wait_entered(); /* 0 is with the writer, the queue is empty */
    jobs[1].w.bytes = 1001;
    submit(1);
    jobs[2].w.bytes = 1;
    assert_int_equal(writer_submit(w, &jobs[2].w, &err), OTL_EBUSY);
    gate_set(false);
    drain(2);
    assert_int_equal(jobs[1].w.rc, OTL_OK);
}

static void the_queue_refuses_what_passes_its_job_limit(void **state)
{
    (void)state;
    opts.max_queue_jobs = 2;
    start();
    gate_set(true);
    submit(0);
    gate_wait_entered();
    submit(1);
    submit(2);
    assert_int_equal(writer_submit(w, &jobs[3].w, &err), OTL_EBUSY);
    gate_set(false);
    drain(3);
}

static void a_job_that_waited_too_long_is_refused_and_not_stored(void **state)
{
    int64_t until;

    (void)state;
    opts.max_age_ms = 200;
    start();
    gate_set(true);
    submit(0);
    gate_wait_entered();
    submit(1);
    until = clock_mono_ns() + 210 * NS_PER_MS;
    while (clock_mono_ns() < until)
        (void)sched_yield();
    gate_set(false);
    drain(2);
    assert_int_equal(jobs[1].w.rc, OTL_ELATE);
    assert_int_equal(otl_err_http(jobs[1].w.rc), 503);
    assert_int_equal(fx_query(dir, "SELECT count(*) FROM number_head WHERE value = 1"), 0);
}

static void what_fails_before_the_batch_fails_the_job(void **state)
{
    (void)state;
    gate.fail = OTL_EFULL;
    start();
    submit(0);
    drain(1);
    assert_int_equal(jobs[0].w.rc, OTL_EFULL);
    assert_string_equal(jobs[0].w.err.msg, "state.db refused");
    assert_int_equal(fx_query(dir, "SELECT count(*) FROM number_head"), 0);
}

static void another_process_with_the_lock_fails_the_job_and_not_the_next(void **state)
{
    uint64_t failures = STATS_GET(commit_failures);
    char path[4200];
    sqlite3 *other;

    (void)state;
    opts.store.busy_timeout_ms = 20;
    start();
    snprintf(path, sizeof(path), "%s/telemetry.db", dir);
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    submit(0);
    drain(1);
    assert_int_equal(jobs[0].w.rc, OTL_ELOCKED);
    assert_int_equal(STATS_GET(commit_failures) - failures, 1);
    assert_int_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
    submit(0); /* as a sender does */
    drain(1);
    assert_int_equal(jobs[0].w.rc, OTL_OK);
    assert_int_equal(jobs[0].w.result.stored, 1);
}

static void a_probe_says_whether_a_commit_works(void **state)
{
    char path[4200];
    sqlite3 *other;

    (void)state;
    opts.store.busy_timeout_ms = 20;
    start();
    jobs[0].w.batch = NULL;
    jobs[0].w.bytes = 0;
    submit(0);
    drain(1);
    assert_int_equal(jobs[0].w.rc, OTL_OK);
    snprintf(path, sizeof(path), "%s/telemetry.db", dir);
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    submit(0);
    drain(1);
    assert_int_equal(jobs[0].w.rc, OTL_ELOCKED);
    sqlite3_close(other);
}

static void *stop_writer(void *arg)
{
    writer_stop(arg);
    return NULL;
}

static void stopping_refuses_new_jobs_and_finishes_the_waiting_ones(void **state)
{
    struct write_job probe = {.reply_to = &h, .done.run = job_done, .bytes = 5000};
    enum otl_err rc;
    pthread_t t;

    (void)state;
    start();
    gate_set(true);
    for (int i = 0; i < JOBS; i++)
        submit(i);
    assert_int_equal(pthread_create(&t, NULL, stop_writer, w), 0);
    do { /* too large to be queued while it still runs */
        rc = writer_submit(w, &probe, &err);
        (void)sched_yield();
    } while (rc == OTL_EBUSY);
    assert_int_equal(rc, OTL_ESTOPPING);
    gate_set(false);
    pthread_join(t, NULL);
    assert_int_equal(handoff_drain(&h), JOBS);
    for (int i = 0; i < JOBS; i++) {
        assert_int_equal(jobs[i].done, 1);
        assert_int_equal(jobs[i].w.rc, OTL_OK);
    }
    assert_int_equal(writer_submit(w, &jobs[0].w, &err), OTL_ESTOPPING);
    /* Everything is in the file itself. */
    {
        char wal[4200];
        struct stat st;

        snprintf(wal, sizeof(wal), "%s/telemetry.db-wal", dir);
        assert_true(stat(wal, &st) != 0 || st.st_size == 0);
    }
    assert_int_equal(fx_query(dir, "SELECT count(*) FROM number_head"), JOBS);
}

static int64_t wal_size(void)
{
    char wal[4200];
    struct stat st;

    snprintf(wal, sizeof(wal), "%s/telemetry.db-wal", dir);
    return stat(wal, &st) == 0 ? (int64_t)st.st_size : 0;
}

/* Fill job 0's batch with 400 new points and store them. */
static void store_many(int round)
{
    struct fx *f = jobs[0].f;
    uint32_t m;

    fx_reset(f);
    m = fx_metric(f, METRIC_GAUGE, "g", "1");
    for (int i = 0; i < 400; i++)
        fx_int(f, m, fx_attrs(f, NULL, NULL), T + round * 1000 + i, i);
    submit(0);
    drain(1);
    assert_int_equal(jobs[0].w.rc, OTL_OK);
}

static void the_log_stays_near_its_cap(void **state)
{
    int64_t cap;

    (void)state;
    opts.store.checkpoint_pages = 16;
    start();
    cap = wal_size() + 3 * 16 * 4120; /* a new file's tables come first */
    for (int i = 0; i < 100; i++) {
        store_many(i);
        assert_true(wal_size() <= cap);
    }
}

static void the_log_comes_down_after_a_reader_left_without_new_traffic(void **state)
{
    const int64_t cap = 4 * 16 * 4120;
    char path[4200];
    sqlite3 *reader;

    (void)state;
    opts.store.checkpoint_pages = 16;
    start();
    store_many(0);
    snprintf(path, sizeof(path), "%s/telemetry.db", dir);
    assert_int_equal(sqlite3_open_v2(path, &reader, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM number_head", NULL, NULL, NULL),
        SQLITE_OK);
    for (int i = 1; i < 60; i++)
        store_many(i);
    assert_true(wal_size() > cap);
    wait_tick();
    assert_true(wal_size() > cap); /* held, and the writer goes on */
    store_many(60);
    assert_int_equal(sqlite3_exec(reader, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(reader);
    wait_tick(); /* may have begun before the reader left */
    wait_tick();
    assert_true(wal_size() <= cap);
    assert_true(STATS_GET(wal_bytes) <= cap);
    assert_true(STATS_GET(db_bytes) > 0);
}

/* Sealing takes closed halves only: without this, what came last would stay unsealed, and out of
 * retention's reach, for as long as nothing else comes. */
static void rows_get_old_without_further_requests(void **state)
{
    (void)state;
    opts.store.head_max_age_ms = 1;
    start();
    submit(0);
    drain(1);
    assert_int_equal(jobs[0].w.rc, OTL_OK);
    wait_tick();
    wait_tick(); /* the second one began when the row was more than a millisecond old */
    assert_int_equal(
        fx_query(dir, "SELECT count(*) FROM head WHERE kind = 'number' AND state = 'closed'"), 1);
}

static void a_database_that_cannot_be_opened_is_reported_by_start(void **state)
{
    char path[4200];

    (void)state;
    snprintf(path, sizeof(path), "%s/telemetry.db", dir);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(writer_start(&opts, &w, &err), OTL_EDB);
    assert_non_null(strstr(err.msg, path));
    assert_null(w);
    rmdir(path);
}

/* ---- tasks ---- */

static struct {
    int runs, points_seen;
    bool in_transaction;
    enum otl_err result;
} task;

/* Writes a row, and notes what it found. */
static enum otl_err run_task(void *arg, struct store *s, struct db *db, struct otl_error *e)
{
    int64_t n = -1;
    enum otl_err rc;

    (void)arg;
    (void)s;
    task.runs++;
    task.in_transaction = sqlite3_get_autocommit(db->sql) == 0;
    rc = db_query_int(db, "SELECT count(*) FROM number_head", &n, e);
    task.points_seen = (int)n;
    if (rc == OTL_OK)
        rc = db_exec(db, "CREATE TABLE task_ran(x)", e);
    if (rc == OTL_OK && task.result != OTL_OK)
        rc = otl_fail(e, task.result, "the task failed");
    return rc;
}

/* Job i becomes a task. */
static void make_task(int i)
{
    memset(&task, 0, sizeof(task));
    task.result = OTL_OK;
    jobs[i].w.batch = NULL;
    jobs[i].w.task = run_task;
}

static void a_task_goes_first_in_a_transaction_of_its_own(void **state)
{
    (void)state;
    make_task(3);
    start();
    gate_set(true);
    submit(0);
    gate_wait_entered();
    for (int i = 1; i < 4; i++)
        submit(i);
    gate_set(false);
    drain(4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(jobs[i].w.rc, OTL_OK);
    assert_int_equal(task.runs, 1);
    assert_true(task.in_transaction);
    assert_int_equal(task.points_seen, 1);
    assert_int_equal(fx_query(dir, "SELECT count(*) FROM sqlite_schema WHERE name = 'task_ran'"),
                     1);
    assert_int_equal(fx_query(dir, "SELECT count(*) FROM number_head"), 3);
}

static void with_durability_full_a_task_is_not_grouped_with_requests(void **state)
{
    (void)state;
    opts.store.durability = DURABILITY_FULL;
    make_task(2);
    task.result = OTL_EFULL;
    start();
    gate_set(true);
    submit(0);
    gate_wait_entered();
    for (int i = 1; i < 5; i++)
        submit(i);
    gate_set(false);
    drain(5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(jobs[i].w.rc, i == 2 ? OTL_EFULL : OTL_OK);
    assert_int_equal(task.points_seen, 1);
    assert_int_equal(fx_query(dir, "SELECT count(*) FROM number_head"), 4);
}

static void a_task_that_fails_leaves_nothing(void **state)
{
    (void)state;
    make_task(0);
    task.result = OTL_ECORRUPT;
    start();
    submit(0);
    drain(1);
    assert_int_equal(jobs[0].w.rc, OTL_ECORRUPT);
    assert_string_equal(jobs[0].w.err.msg, "the task failed");
    assert_int_equal(fx_query(dir, "SELECT count(*) FROM sqlite_schema WHERE name = 'task_ran'"),
                     0);
    submit(1);
    drain(1);
    assert_int_equal(jobs[1].w.rc, OTL_OK);
}

static void a_task_takes_no_room_and_there_is_one(void **state)
{
    (void)state;
    opts.max_queue_jobs = 1;
    opts.max_age_ms = 60000;
    make_task(1);
    jobs[1].w.bytes = 1000000;
    jobs[2].w.batch = NULL;
    jobs[2].w.task = run_task;
    start();
    gate_set(true);
    submit(0);
    gate_wait_entered();
    submit(1);
    assert_int_equal(writer_submit(w, &jobs[2].w, &err), OTL_EBUSY);
    assert_int_equal(STATS_GET(queue_jobs), 0);
    assert_int_equal(STATS_GET(queue_bytes), 0);
    submit(3); /* the one request that may wait */
    assert_int_equal(writer_submit(w, &jobs[4].w, &err), OTL_EBUSY);
    jobs[1].w.submitted_ns -= 3600 * NS_PER_S; /* a task is never late */
    gate_set(false);
    drain(3);
    assert_int_equal(jobs[1].w.rc, OTL_OK);
    assert_int_equal(jobs[3].w.rc, OTL_OK);
    task.result = OTL_EDB;
    submit(2); /* the first is done */
    drain(1);
    assert_int_equal(task.runs, 2);
}

static void a_task_does_not_wait_for_another_process(void **state)
{
    char path[4200];
    sqlite3 *other;

    (void)state;
    opts.store.busy_timeout_ms = 3600000;
    make_task(0);
    start();
    snprintf(path, sizeof(path), "%s/telemetry.db", dir);
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    submit(0);
    drain(1);
    assert_int_equal(jobs[0].w.rc, OTL_ELOCKED);
    assert_int_equal(task.runs, 0);
    assert_int_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
    submit(0);
    drain(1);
    assert_int_equal(jobs[0].w.rc, OTL_OK);
}

/* ---- the limit of bytes ---- */

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

/* Requests until one is refused, with the files within the limit after each; gives how many were
 * not. */
static int fill_to(int64_t limit)
{
    struct fx *f = jobs[0].f;
    int stored = 0;

    for (int64_t at = 0;; at++) {
        fx_reset(f);
        for (int i = 0; i < 4000; i++)
            fx_int(f, i == 0 ? fx_metric(f, METRIC_GAUGE, "g", "1") : 0, fx_attrs_int(f, "i", i),
                   T + at, i);
        jobs[0].w.bytes = 4000 * 64;
        submit(0);
        drain(1);
        assert_true(bytes_on_disk() <= limit);
        if (jobs[0].w.rc != OTL_OK)
            break;
        stored++;
    }
    assert_int_equal(jobs[0].w.rc, OTL_EFULL);
    assert_int_equal(otl_err_http(jobs[0].w.rc), 503);
    assert_non_null(strstr(jobs[0].w.err.msg, "retention.max_bytes"));
    return stored;
}

static void no_request_makes_the_files_larger_than_the_limit(void **state)
{
    const int64_t limit = 8 << 20;

    (void)state;
    opts.max_bytes = limit;
    opts.max_queue_bytes = 1 << 20;
    opts.store.checkpoint_pages = 100;
    start();
    /* Not at once: half of it, at least, is used. */
    assert_true(fill_to(limit) > 2);
    assert_true(bytes_on_disk() > limit / 2);
}

/* It would grow and grow: nothing of it can be moved into the file. */
static void nor_does_a_log_that_a_reader_holds(void **state)
{
    const int64_t limit = 32 << 20;
    char path[4200];
    sqlite3 *other;

    (void)state;
    opts.max_bytes = limit;
    opts.max_queue_bytes = 1 << 20;
    opts.store.checkpoint_pages = 100;
    start();
    snprintf(path, sizeof(path), "%s/telemetry.db", dir);
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN; SELECT count(*) FROM series", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_true(fill_to(limit) > 2);
    assert_int_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
    /* Much is left of the limit: it was the log's share that was used up. */
    assert_true(bytes_on_disk() < limit / 4);
    submit(0); /* the one that was refused */
    drain(1);
    assert_int_equal(jobs[0].w.rc, OTL_OK);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_job_that_came_back_well_is_committed),
        CASE(jobs_are_done_in_the_order_of_arrival),
        CASE(the_queue_refuses_what_passes_its_byte_limit),
        CASE(a_job_larger_than_the_queue_is_taken_when_it_is_alone),
        CASE(the_queue_refuses_what_passes_its_job_limit),
        CASE(a_job_that_waited_too_long_is_refused_and_not_stored),
        CASE(what_fails_before_the_batch_fails_the_job),
        CASE(another_process_with_the_lock_fails_the_job_and_not_the_next),
        CASE(a_probe_says_whether_a_commit_works),
        CASE(stopping_refuses_new_jobs_and_finishes_the_waiting_ones),
        CASE(the_log_stays_near_its_cap),
        CASE(the_log_comes_down_after_a_reader_left_without_new_traffic),
        CASE(rows_get_old_without_further_requests),
        CASE(a_database_that_cannot_be_opened_is_reported_by_start),
        CASE(a_task_goes_first_in_a_transaction_of_its_own),
        CASE(with_durability_full_a_task_is_not_grouped_with_requests),
        CASE(a_task_that_fails_leaves_nothing),
        CASE(a_task_takes_no_room_and_there_is_one),
        CASE(a_task_does_not_wait_for_another_process),
        CASE(no_request_makes_the_files_larger_than_the_limit),
        CASE(nor_does_a_log_that_a_reader_holds),
    };

    return cmocka_run_group_tests_name("writer", tests, NULL, NULL);
}
