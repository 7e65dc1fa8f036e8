/* The process ends at every step of maintenance: what was answered is there, once, and what
 * retention may drop is there or is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "maintain_fixture.h"
#include "otlite/clock.h"

enum { TODAY = 20000, DAYS = 3, ROUNDS = 9, SERIES = 3, ENDED = 42 };

static const char *const steps[] = {
#define X(name) name,
    FAULT_POINTS(X)
#undef X
};

static char *dir;
static struct mf f;
static const char *end_at;
static int passes_left; /* of that step */
static bool fail_there; /* instead of ending */

static int64_t today(void)
{
    return TODAY * PART_DAY_NS + PART_DAY_NS / 2;
}

static enum otl_err hook(const char *point, struct otl_error *err)
{
    if (strcmp(point, end_at) != 0 || passes_left-- > 0)
        return OTL_OK;
    if (fail_there)
        return otl_fail(err, OTL_EIO, "failed at %s", point);
    _exit(ENDED); /* as a kill: nothing is flushed, rolled back or closed */
}

/* The request of a round: a point a series and day, and the one of the round before once more. */
static void make_request(struct fx *x, int round)
{
    fx_reset(x);
    /* First of all a series of the oldest day only: series 1, which retention leaves nothing of. */
    if (round == 0)
        fx_int(x, fx_metric(x, METRIC_GAUGE, "old", "1"), fx_attrs(x, NULL, NULL),
               (TODAY - DAYS + 1) * PART_DAY_NS, 1);
    for (int s = 0; s < SERIES; s++) {
        uint32_t m = s == 0 ? fx_metric(x, METRIC_GAUGE, "g", "1") : x->b.n_metrics - 1;

        for (int d = 0; d < DAYS; d++) {
            int64_t t = (TODAY - d) * PART_DAY_NS;

            fx_int(x, m, fx_attrs_int(x, "s", s), t + round * NS_PER_S, round);
            if (round > 0)
                fx_int(x, m, fx_attrs_int(x, "s", s), t + (round - 1) * NS_PER_S, 100 + round);
        }
    }
}

/* What a series should be after that many rounds; without the oldest day: retention was there. */
static void expected(int rounds, bool all_days, struct series_points *out)
{
    struct series_points all;

    series_points_init(&all, KIND_NUMBER);
    for (int r = 0; r < rounds; r++) {
        for (int d = 0; d < (all_days ? DAYS : DAYS - 1); d++) {
            int64_t t = (TODAY - d) * PART_DAY_NS;

            assert_true(series_points_add_number(&all, t + r * NS_PER_S, 0, 0, VALUE_INT, r));
            if (r > 0)
                assert_true(series_points_add_number(&all, t + (r - 1) * NS_PER_S, 0, 0, VALUE_INT,
                                                     100 + r));
        }
    }
    mf_expected(&all, out);
    series_points_fini(&all);
}

/* Everything there is to do, once. Errors are for the thread to log and try again. */
static void work(int round)
{
    struct otl_error err;
    bool more = true;

    f.m->hurry = true;
    f.m->retained_ns = clock_mono_ns(); /* not by itself, only in the last round */
    if (seal_all(f.m, &err) != OTL_OK)
        return;
    if (round == ROUNDS - 1 && retain_by_age(f.m, &err) != OTL_OK)
        return;
    while (more) {
        if (maintain_round(f.m, &more, &err) != OTL_OK)
            return;
    }
    if (f.m->forget && forget_series(f.m, &err) != OTL_OK)
        return;
    if (vacuum_free_pages(f.m, 0, &err) != OTL_OK)
        return;
}

static void run_child(int done_fd)
{
    struct fx *x = fx_new();

    fault_hook = hook;
    mf_open(&f);
    for (int r = 0; r < ROUNDS; r++) {
        char one = 1;

        make_request(x, r);
        if (mf_store(&f, &x->b) != OTL_OK || write(done_fd, &one, 1) != 1)
            _exit(1);
        work(r);
    }
    mf_close(&f);
    fx_free(x);
    _exit(0);
}

/* Run it in a process of its own; gives the rounds that were answered, and whether it was ended. */
static int run(bool *ended)
{
    int fds[2], status, rounds = 0;
    char one;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(fds[0]);
        run_child(fds[1]);
    }
    close(fds[1]);
    while (read(fds[0], &one, 1) == 1)
        rounds++;
    close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    *ended = WEXITSTATUS(status) == ENDED;
    if (!*ended)
        assert_int_equal(WEXITSTATUS(status), 0);
    return rounds;
}

/* All series are what they should be; the oldest day may be gone where that was its time. */
static void check(int rounds, bool oldest_may_go, bool oldest_is_gone)
{
    struct series_points all, rest, is;

    series_points_init(&all, KIND_NUMBER);
    series_points_init(&rest, KIND_NUMBER);
    series_points_init(&is, KIND_NUMBER);
    expected(rounds, true, &all);
    expected(rounds, false, &rest);
    for (int s = 0; s < SERIES; s++) {
        mf_read_all(&f, KIND_NUMBER, s + 2, &is);
        mf_assert_equal(oldest_is_gone || (oldest_may_go && is.n == rest.n) ? &rest : &all, &is);
    }
    series_points_fini(&all);
    series_points_fini(&rest);
    series_points_fini(&is);
}

static int setup(void **state)
{
    (void)state;
    dir = fx_dir_new();
    memset(&f, 0, sizeof(f));
    f.dir = dir;
    f.opts.rollups = true;
    f.opts.retention.max_age_ms = INT64_C(86400000) * (DAYS - 1);
    f.opts.retention.rollup_5m_age_ms = f.opts.retention.max_age_ms;
    f.opts.retention.rollup_1h_age_ms = f.opts.retention.max_age_ms;
    clock_set_wall(today);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fault_hook = NULL;
    mf_close(&f);
    fx_dir_free(dir);
    clock_set_wall(NULL);
    return 0;
}

/* End at each pass of each step in turn, until one run gets through. */
static void whatever_the_step_nothing_is_lost_and_nothing_twice(void **state)
{
    for (size_t s = 0; s < sizeof(steps) / sizeof(steps[0]); s++) {
        bool ended = true;
        int pass = 0;

        for (; ended; pass += pass < 3 ? 1 : 5) {
            int rounds;

            end_at = steps[s];
            passes_left = pass;
            fail_there = false;
            rounds = run(&ended);
            fault_hook = NULL;
            mf_open(&f);
            check(rounds, rounds == ROUNDS, false);
            assert_int_equal(fx_query(dir, "SELECT count(*) FROM pragma_integrity_check"
                                           " WHERE integrity_check <> 'ok'"),
                             0);
            /* And it goes on from there. */
            work(ROUNDS - 1);
            check(rounds, false, true);
            assert_int_equal(fx_query(dir, "SELECT count(*) FROM part WHERE live <> 1"), 0);
            mf_close(&f);
            (void)teardown(state);
            (void)setup(state);
        }
        if (pass < 2)
            fail_msg("%s is never passed", steps[s]);
    }
}

/* The same with an error instead of an end: the next round does what was left. */
static void whatever_fails_is_done_later(void **state)
{
    struct fx *x = fx_new();

    for (size_t s = 0; s < sizeof(steps) / sizeof(steps[0]); s++) {
        end_at = steps[s];
        fail_there = true;
        passes_left = 1;
        fault_hook = hook;
        mf_open(&f);
        for (int r = 0; r < ROUNDS; r++) {
            make_request(x, r);
            assert_int_equal(mf_store(&f, &x->b), OTL_OK);
            work(r);
            check(r + 1, r == ROUNDS - 1, false);
            if (r % 3 == 2)
                passes_left = r;
        }
        fault_hook = NULL;
        work(ROUNDS - 1);
        check(ROUNDS, false, true);
        assert_int_equal(fx_query(dir, "SELECT count(*) FROM part WHERE live <> 1"), 0);
        (void)teardown(state);
        (void)setup(state);
    }
    fx_free(x);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(whatever_the_step_nothing_is_lost_and_nothing_twice),
        CASE(whatever_fails_is_done_later),
    };

    return cmocka_run_group_tests_name("maintain_crash", tests, NULL, NULL);
}
