/* Durability FULL: requests that wait together share one sync, and nothing else. The syncs are
 * seen, and made to fail, at the system call, whatever lies between it and SQLite. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "otlite/clock.h"
#include "otlite/stats.h"
#include "otlite/writer.h"
#include "store_fixture.h"

#define T INT64_C(1700000000000000000)

enum { JOBS = 8, FORBIDDEN = 666 };

struct job {
    struct write_job w; /* first */
    struct fx *f;
    int done;
};

/* Holds the writer inside before_batch while closed. */
static struct {
    pthread_mutex_t mu;
    pthread_cond_t cond;
    bool closed, entered;
} gate = {.mu = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};

static char *dir;
static struct writer *w;
static struct handoff h;
static struct job jobs[JOBS];
static struct writer_opts opts;
static struct otl_error err;
static uint64_t stored_before;

static atomic_int syncs, syncs_to_fail;
static atomic_bool answered_too_early;

/* A job of this test has one point, and points are counted once they are committed. Only where no
 * job fails: one that does is answered without being counted. */
static void note_answers(void)
{
    uint64_t answered = 0;

    if (w == NULL)
        return;
    pthread_mutex_lock(&h.mu);
    for (const struct handoff_item *i = h.head; i != NULL; i = i->next)
        answered++;
    pthread_mutex_unlock(&h.mu);
    if (answered > STATS_GET(points_stored) - stored_before)
        answered_too_early = true;
}

static int sync_file(int fd)
{
    syncs++;
    note_answers();
    if (syncs_to_fail > 0) {
        syncs_to_fail--;
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fdatasync, fd);
}

int fdatasync(int fd)
{
    return sync_file(fd);
}

int fsync(int fd)
{
    return sync_file(fd);
}

static enum otl_err before_batch(void *arg, int64_t project, const struct batch *b,
                                 struct otl_error *e)
{
    (void)arg;
    (void)project;
    (void)b;
    (void)e;
    pthread_mutex_lock(&gate.mu);
    gate.entered = true;
    pthread_cond_broadcast(&gate.cond);
    while (gate.closed)
        pthread_cond_wait(&gate.cond, &gate.mu);
    pthread_mutex_unlock(&gate.mu);
    return OTL_OK;
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
    syncs_to_fail = 0;
    answered_too_early = false;
    opts = (struct writer_opts){.store = fx_opts(dir),
                                .max_queue_bytes = 10000,
                                .max_queue_jobs = 100,
                                .max_age_ms = 60000,
                                .before_batch = before_batch};
    opts.store.durability = DURABILITY_FULL;
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
    syncs_to_fail = 0;
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

static void submit(int i)
{
    jobs[i].done = 0;
    assert_int_equal(writer_submit(w, &jobs[i].w, &err), OTL_OK);
}

/* Start, and have all but the first job wait behind the first. */
static void start_and_queue(void)
{
    if (writer_start(&opts, &w, &err) != OTL_OK)
        fail_msg("%s", err.msg);
    stored_before = STATS_GET(points_stored);
    gate_set(true);
    submit(0);
    gate_wait_entered();
    for (int i = 1; i < JOBS; i++)
        submit(i);
    syncs = 0;
}

/* Let the writer go on until all jobs came back, each once. */
static void finish(void)
{
    unsigned n = 0;

    gate_set(false);
    while (n < JOBS) {
        struct pollfd p = {.fd = h.fd, .events = POLLIN};

        assert_int_equal(poll(&p, 1, 60000), 1);
        n += handoff_drain(&h);
    }
    assert_int_equal(n, JOBS);
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(jobs[i].done, 1);
}

static int64_t q(const char *sql)
{
    return fx_query(dir, sql);
}

static void those_that_wait_share_a_sync(void **state)
{
    uint64_t commits = STATS_GET(commits);

    (void)state;
    start_and_queue();
    finish();
    assert_true(syncs > 0);
    assert_true(syncs < JOBS);
    assert_true(STATS_GET(commits) - commits < JOBS);
    assert_false(answered_too_early);
    for (int i = 0; i < JOBS; i++) {
        assert_int_equal(jobs[i].w.rc, OTL_OK);
        assert_int_equal(jobs[i].w.result.stored, 1);
    }
    assert_int_equal(STATS_GET(points_stored) - stored_before, JOBS);
    assert_int_equal(q("SELECT count(*) FROM number_head WHERE value = id - 1"), JOBS);
}

static void with_durability_normal_each_has_a_transaction_of_its_own(void **state)
{
    uint64_t commits = STATS_GET(commits);

    (void)state;
    opts.store.durability = DURABILITY_NORMAL;
    start_and_queue();
    finish();
    assert_int_equal(STATS_GET(commits) - commits, JOBS);
    assert_int_equal(q("SELECT count(*) FROM number_head"), JOBS);
}

static void one_that_fails_takes_no_other_with_it(void **state)
{
    (void)state;
    jobs[3].f->b.numbers[0].value.u.i = FORBIDDEN;
    start_and_queue();
    fx_exec(dir, "CREATE TRIGGER forbid BEFORE INSERT ON number_head_0 WHEN NEW.value = 666"
                 " BEGIN SELECT RAISE(ABORT, 'forbidden'); END");
    finish();
    for (int i = 0; i < JOBS; i++) {
        assert_int_equal(jobs[i].w.rc, i == 3 ? OTL_EDB : OTL_OK);
        assert_int_equal(jobs[i].w.result.stored, i == 3 ? 0 : 1);
    }
    assert_non_null(strstr(jobs[3].w.err.msg, "forbidden"));
    assert_int_equal(q("SELECT count(*) FROM number_head"), JOBS - 1);
    assert_int_equal(q("SELECT count(*) FROM number_head WHERE value = 666"), 0);
}

/* One after the other stores the point, repeats it and replaces it. */
static void resends_that_wait_together_are_recognised(void **state)
{
    (void)state;
    for (int i = 1; i < JOBS; i++) {
        jobs[i].f->b.numbers[0].p.time = T;
        jobs[i].f->b.numbers[0].value.u.i = i < JOBS - 1 ? 0 : 5;
    }
    start_and_queue();
    finish();
    assert_int_equal(jobs[0].w.result.stored, 1);
    for (int i = 1; i < JOBS - 1; i++)
        assert_int_equal(jobs[i].w.result.merged, 1);
    assert_int_equal(jobs[JOBS - 1].w.result.replaced, 1);
    assert_int_equal(jobs[JOBS - 1].f->b.warnings[WARN_DUPLICATE_POINT], 1);
    assert_int_equal(jobs[1].f->b.warnings[WARN_DUPLICATE_POINT], 0);
    assert_int_equal(q("SELECT count(*) FROM number_head"), 1);
    assert_int_equal(q("SELECT value FROM number_head"), 5);
}

static void a_sync_that_fails_is_no_answer(void **state)
{
    (void)state;
    start_and_queue();
    syncs_to_fail = 1000000;
    finish();
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(jobs[i].w.rc, OTL_EIO);
    assert_int_equal(STATS_GET(points_stored), stored_before);
    syncs_to_fail = 0;
    assert_int_equal(q("SELECT count(*) FROM number_head"), 0);
    for (int i = 0; i < JOBS; i++)
        submit(i); /* as the senders do */
    finish();
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(jobs[i].w.result.stored, 1);
    assert_int_equal(q("SELECT count(*) FROM number_head"), JOBS);
}

/* The shared sync fails, those of the transactions after it do not. */
static void a_shared_sync_that_fails_is_made_good_by_each_alone(void **state)
{
    (void)state;
    start_and_queue();
    syncs_to_fail = 2;
    finish();
    for (int i = 0; i < JOBS; i++) {
        if (jobs[i].w.rc == OTL_OK)
            assert_int_equal(jobs[i].w.result.stored, 1);
        else
            assert_int_equal(jobs[i].w.rc, OTL_EIO);
    }
    assert_int_equal(jobs[JOBS - 1].w.rc, OTL_OK);
    assert_int_equal(q("SELECT count(*) FROM number_head"),
                     STATS_GET(points_stored) - stored_before);
    assert_int_equal(q("SELECT count(DISTINCT time) = count(*) FROM number_head"), 1);
}

static void each_has_its_own_time_limit(void **state)
{
    (void)state;
    start_and_queue();
    jobs[2].w.submitted_ns -= 3600 * NS_PER_S; /* the gate is closed: nobody reads it now */
    finish();
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(jobs[i].w.rc, i == 2 ? OTL_ELATE : OTL_OK);
    assert_int_equal(q("SELECT count(*) FROM number_head"), JOBS - 1);
}

static void a_probe_among_them_is_answered_too(void **state)
{
    (void)state;
    jobs[4].w.batch = NULL;
    start_and_queue();
    finish();
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(jobs[i].w.rc, OTL_OK);
    assert_int_equal(q("SELECT count(*) FROM number_head"), JOBS - 1);
}

static void a_stop_finishes_the_waiting_ones(void **state)
{
    (void)state;
    start_and_queue();
    gate_set(false);
    writer_stop(w);
    assert_int_equal(handoff_drain(&h), JOBS);
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(jobs[i].w.rc, OTL_OK);
    assert_int_equal(q("SELECT count(*) FROM number_head"), JOBS);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(those_that_wait_share_a_sync),
        CASE(with_durability_normal_each_has_a_transaction_of_its_own),
        CASE(one_that_fails_takes_no_other_with_it),
        CASE(resends_that_wait_together_are_recognised),
        CASE(a_sync_that_fails_is_no_answer),
        CASE(a_shared_sync_that_fails_is_made_good_by_each_alone),
        CASE(each_has_its_own_time_limit),
        CASE(a_probe_among_them_is_answered_too),
        CASE(a_stop_finishes_the_waiting_ones),
    };

    return cmocka_run_group_tests_name("group", tests, NULL, NULL);
}
