/* The writer thread.
 *
 * Invariants (other comments cite them by number):
 * I1 A job comes back with OTL_OK only after COMMIT returned OK for its batch.
 * I2 Every job that was submitted is pushed to its handoff exactly once, so its done runs once, on
 *    the thread that drains the handoff.
 * I3 From submit to push only the writer touches job and batch; after the push it touches neither.
 * I4 A job's rows are all there or none is, whatever becomes of another job. Each has a transaction
 *    of its own, except with durability FULL: there those that wait together share one, so that
 *    they share its sync; when that one fails, each gets its own after all.
 * I5 The bytes and the number of waiting jobs never pass their limits, except that one job alone
 *    may be larger than the queue: refused, it would be sent again for ever. A job waits until the
 *    writer begins with it. A task is not counted; there is one at most.
 * I6 Stopping: new jobs are refused, then the waiting ones are finished, then the log is moved into
 *    the file, then the database is closed.
 * I7 The catalogue in memory holds committed ids only (store.c undoes it with the transaction).
 *
 * All commits and all checkpoints of telemetry.db run on this one thread's connection. Checkpoints
 * run after the answer went out, so that no request waits for its own. */
#include "otlite/writer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "head.h"
#include "otlite/clock.h"
#include "otlite/log.h"
#include "otlite/stats.h"

enum {
    WAL_FRAME_BYTES = 4096 + 24,
    /* A log file this many times checkpoint_pages long was held by a reader: cut it. */
    WAL_GROWN_FACTOR = 4,
    /* Checkpoints until the log is begun anew, which costs a sync. */
    LOG_STEPS = 3,
    /* How long a cut may wait for readers; at most once a second. */
    CUT_WAIT_MS = 10,
    ROOM_WAIT_MS = 100, /* where the alternative is to refuse a request */
    STOP_WAIT_MS = 2000,
    /* Jobs taken from the queue at once; together no more than so many bytes and points, but one
     * always. They are answered together, so with a transaction each they are few: the first of
     * them waits for the last. */
    TAKE_JOBS = 4,
    TAKE_GROUP_JOBS = 64,
    TAKE_BYTES = 4 << 20,
    TAKE_POINTS = 1 << 16,
    /* With a limit of bytes: pages of the catalogue and of the trees that a request changes beside
     * its rows, and what a task writes, about. */
    ROOM_SLACK_BYTES = 64 << 10,
    TASK_LOG_BYTES = 640 << 10
};

/* Finished jobs do not wait for others that take longer than this, be it for a lock. */
#define SLOW_NS (2 * NS_PER_MS)

struct writer {
    struct writer_opts opts;
    pthread_t thread;
    bool has_thread;

    pthread_mutex_t mu;  /* guards from here to has_task */
    pthread_cond_t wake; /* todo has a job, or stopping */
    struct write_job *head, *tail;
    bool idle; /* the writer waits, and nobody has woken it yet */
    bool stopping;
    bool has_task; /* one is waiting or under way */

    /* Of the jobs that wait, in the list or taken. Grow under mu, so that a limit that was looked
     * at holds, and shrink without it. */
    atomic_size_t queued_bytes, queued_jobs;

    /* The writer thread's own. */
    struct store *store;
    struct head_mirror *mirror;
    char *db_path, *wal_path;
    int64_t next_tick_ns;
    int64_t checkpointed_pages; /* pages in the log at the last passive checkpoint */
    struct write_job *taken[TAKE_GROUP_JOBS];
    unsigned n_taken;
    struct log_gate failure_gate, full_gate, log_gate;
};

/* ---- the queue ---- */

enum otl_err writer_room(struct writer *w, size_t bytes, struct otl_error *err)
{
    size_t jobs = w->queued_jobs, waiting = w->queued_bytes;

    if (jobs < w->opts.max_queue_jobs &&
        (waiting == 0 ||
         (waiting < w->opts.max_queue_bytes && bytes <= w->opts.max_queue_bytes - waiting)))
        return OTL_OK;
    return otl_fail(err, OTL_EBUSY,
                    "the writer's queue is full (%zu requests, %zu bytes); send again later", jobs,
                    waiting);
}

static void join_queue(struct writer *w, const struct write_job *job)
{
    w->queued_jobs++;
    w->queued_bytes += job->bytes;
    STATS_ADD(queue_jobs, 1);
    STATS_ADD(queue_bytes, (int64_t)job->bytes);
}

enum otl_err writer_submit(struct writer *w, struct write_job *job, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;
    bool wake = false;

    job->next = NULL;
    job->submitted_ns = clock_mono_ns();
    (void)pthread_mutex_lock(&w->mu);
    if (w->stopping)
        rc = otl_fail(err, OTL_ESTOPPING, "the daemon is stopping; send again in a moment");
    else if (job->task == NULL)
        rc = writer_room(w, job->bytes, err);
    else if (w->has_task)
        rc = otl_fail(err, OTL_EBUSY, "the writer has a task of maintenance already");
    if (rc == OTL_OK) {
        /* A task before all else: it is short, there is one at most, and where it waited for a long
         * queue, sealing would fall behind just when much comes in. */
        bool first = w->head == NULL || job->task != NULL;

        job->next = first ? w->head : NULL;
        if (first)
            w->head = job;
        else
            w->tail->next = job;
        if (job->next == NULL)
            w->tail = job;
        if (job->task == NULL)
            join_queue(w, job);
        else
            w->has_task = true;
        wake = w->idle;
        w->idle = false;
    }
    (void)pthread_mutex_unlock(&w->mu);
    if (wake) /* after unlocking, or it would wake up only to wait for the lock */
        (void)pthread_cond_signal(&w->wake);
    return rc;
}

static void take_first(struct writer *w)
{
    struct write_job *job = w->head;

    w->head = job->next;
    if (w->head == NULL)
        w->tail = NULL;
    w->taken[w->n_taken++] = job;
}

/* The writer begins with a job. */
static void leave_queue(struct writer *w, const struct write_job *job)
{
    w->queued_jobs--;
    w->queued_bytes -= job->bytes;
    STATS_SUB(queue_jobs, 1);
    STATS_SUB(queue_bytes, (int64_t)job->bytes);
}

static uint64_t points_of(const struct write_job *job)
{
    return job->batch == NULL ? 0 : batch_storable(job->batch);
}

/* Wait for jobs until the next tick, then take some. None: it is time for the tick, or *end was set
 * because the queue is empty and stays so. */
static void take_jobs(struct writer *w, bool *end)
{
    struct timespec until = {.tv_sec = (time_t)(w->next_tick_ns / NS_PER_S),
                             .tv_nsec = (long)(w->next_tick_ns % NS_PER_S)};
    unsigned max_jobs = w->opts.store.durability == DURABILITY_FULL ? TAKE_GROUP_JOBS : TAKE_JOBS;
    size_t bytes = 0;
    uint64_t points = 0;
    int rc = 0;

    w->n_taken = 0;
    (void)pthread_mutex_lock(&w->mu);
    while (w->head == NULL && !w->stopping && rc == 0) {
        w->idle = true;
        rc = pthread_cond_timedwait(&w->wake, &w->mu, &until);
    }
    w->idle = false;
    while (w->head != NULL && w->n_taken < max_jobs) {
        bytes += w->head->bytes;
        points += points_of(w->head);
        if (w->n_taken > 0 && (bytes > TAKE_BYTES || points > TAKE_POINTS || w->head->task != NULL))
            break;
        take_first(w);
        if (w->taken[w->n_taken - 1]->task != NULL)
            break; /* alone, so that no answer waits for it */
    }
    *end = w->n_taken == 0 && w->stopping;
    (void)pthread_mutex_unlock(&w->mu);
}

/* ---- jobs ---- */

static int64_t time_left_ms(const struct writer *w, const struct write_job *job)
{
    return w->opts.max_age_ms - (clock_mono_ns() - job->submitted_ns) / NS_PER_MS;
}

static int64_t busy_ms(const struct writer *w, const struct write_job *job)
{
    int64_t left = time_left_ms(w, job);

    return left < w->opts.store.busy_timeout_ms ? left : w->opts.store.busy_timeout_ms;
}

/* What comes before the telemetry transaction of a job. */
static enum otl_err prepare_job(struct writer *w, struct write_job *job)
{
    job->err = (struct otl_error){0};
    job->result = (struct store_result){0};
    if (job->task != NULL)
        return OTL_OK;
    leave_queue(w, job);
    if (time_left_ms(w, job) < 0)
        return otl_fail(&job->err, OTL_ELATE,
                        "the request waited longer than %lld ms for the writer; send again",
                        (long long)w->opts.max_age_ms);
    if (job->batch == NULL || w->opts.before_batch == NULL)
        return OTL_OK;
    return w->opts.before_batch(w->opts.arg, job->project_id, job->batch, &job->err);
}

/* The counters are atomic, and adding nothing costs as much as adding something. */
static void count_stored(const struct store_result *r)
{
    STATS_ADD(points_stored, r->stored);
    if (r->merged > 0)
        STATS_ADD(points_merged, r->merged);
    if (r->replaced > 0)
        STATS_ADD(points_replaced, r->replaced);
    if (r->exemplars > 0)
        STATS_ADD(exemplars_stored, r->exemplars);
}

/* ---- the limit of bytes ---- */

int64_t writer_log_share(int64_t max_bytes)
{
    return max_bytes / 8;
}

int64_t writer_task_share(int64_t max_bytes)
{
    return max_bytes / 16;
}

/* Of the log without its index, which takes 32 KiB for each 4,096 frames. */
static int64_t max_log_bytes(const struct writer *w)
{
    int64_t share = writer_log_share(w->opts.max_bytes);

    return share - share / 128 - (64 << 10);
}

static enum otl_err make_log_room(struct writer *w, int64_t bytes, struct otl_error *err)
{
    int64_t max = max_log_bytes(w);
    struct otl_error mine = {0};

    if (store_wal_pages(w->store) * WAL_FRAME_BYTES + bytes <= max)
        return OTL_OK;
    if (bytes <= max && store_checkpoint(w->store, true, ROOM_WAIT_MS, &mine) == OTL_OK) {
        w->checkpointed_pages = 0;
        return OTL_OK;
    }
    return otl_fail(
        err, OTL_EFULL, "retention.max_bytes = %lld leaves no room in the log for %lld bytes%s%s",
        (long long)w->opts.max_bytes, (long long)bytes, mine.msg[0] == '\0' ? "" : ": ", mine.msg);
}

/* May requests of this weight be written? */
static enum otl_err check_room(struct writer *w, int64_t bytes, struct otl_error *err)
{
    int64_t max = w->opts.max_bytes, used = 0;
    enum otl_err rc;

    if (max == 0)
        return OTL_OK;
    bytes = bytes / 2 + ROOM_SLACK_BYTES;
    rc = make_log_room(w, bytes, err);
    if (rc == OTL_OK)
        rc = store_used_bytes(w->store, &used, err);
    if (rc == OTL_OK && used + bytes > max - writer_log_share(max) - writer_task_share(max))
        rc = otl_fail(err, OTL_EFULL,
                      "telemetry.db uses %lld bytes, which with the log and what sealing needs is "
                      "all of retention.max_bytes = %lld; old points are being dropped, send again",
                      (long long)used, (long long)max);
    return rc;
}

static void limit_file(struct writer *w)
{
    struct otl_error err = {0};
    uint64_t held;

    if (w->opts.max_bytes > 0 &&
        store_limit_file(w->store, w->opts.max_bytes - writer_log_share(w->opts.max_bytes), &err) !=
            OTL_OK &&
        log_gate_open(&w->log_gate, 60 * NS_PER_S, &held))
        LOG(LOG_ERROR, "writer", "cannot limit the size of the file", LOG_S("error", err.msg));
}

/* Store the batches of n jobs in one transaction, waiting for other processes only as long as the
 * first of them has left. */
static enum otl_err store_jobs(struct writer *w, struct write_job *const *jobs, unsigned n,
                               struct otl_error *err)
{
    struct store_request requests[TAKE_GROUP_JOBS];
    int64_t start = clock_mono_ns(), bytes = 0;
    enum otl_err rc;

    for (unsigned i = 0; i < n; i++) {
        requests[i] = (struct store_request){jobs[i]->project_id, jobs[i]->batch, &jobs[i]->result};
        bytes += (int64_t)jobs[i]->bytes;
    }
    rc = check_room(w, bytes, err);
    if (rc == OTL_OK)
        rc = store_requests(w->store, requests, n, busy_ms(w, jobs[0]), err);
    if (rc != OTL_OK) {
        STATS_ADD(commit_failures, 1);
        return rc;
    }
    stats_observe_commit(clock_mono_ns() - start);
    STATS_ADD(commits, 1);
    for (unsigned i = 0; i < n; i++)
        count_stored(&jobs[i]->result);
    return OTL_OK;
}

static enum otl_err run_task(struct writer *w, struct write_job *job)
{
    int64_t start = clock_mono_ns(), us;
    enum otl_err rc = OTL_OK;

    if (w->opts.max_bytes > 0)
        rc = make_log_room(w, TASK_LOG_BYTES, &job->err);
    if (rc == OTL_OK)
        rc = store_task(w->store, job->task, job->task_arg, 0, &job->err);

    us = (clock_mono_ns() - start) / 1000;
    STATS_ADD(tasks, 1);
    if (us > STATS_GET(task_longest_us))
        STATS_SET(task_longest_us, us);
    (void)pthread_mutex_lock(&w->mu);
    w->has_task = false; /* before it goes back: the next may be submitted from there */
    (void)pthread_mutex_unlock(&w->mu);
    return rc;
}

/* A job that is not late and has been prepared, in a transaction of its own. */
static enum otl_err run_alone(struct writer *w, struct write_job *job)
{
    if (job->task != NULL)
        return run_task(w, job);
    if (job->batch == NULL)
        return store_probe(w->store, busy_ms(w, job), &job->err);
    return store_jobs(w, &job, 1, &job->err);
}

static void log_failure(struct writer *w, const struct write_job *job)
{
    /* A head that is full stays so for a while, and each sender hears of it anyway. */
    int64_t period = (job->rc == OTL_EBUSY ? 60 : 10) * NS_PER_S;
    uint64_t held;

    if (log_gate_open(job->rc == OTL_EBUSY ? &w->full_gate : &w->failure_gate, period, &held))
        LOG(LOG_ERROR, "writer", job->batch == NULL ? "probe failed" : "request not stored",
            LOG_S("error", job->err.msg), LOG_I("failures_not_logged", held));
}

/* Give the jobs taken from first to end - 1 back, all of one handoff at once. From its push on a
 * job is the caller's again (I3), so nothing of it is read afterwards. */
static void hand_back(struct writer *w, unsigned first, unsigned end)
{
    for (unsigned i = first; i < end; i++) {
        struct write_job *job = w->taken[i];
        struct handoff *to;
        struct handoff_item *last;

        if (job == NULL)
            continue;
        to = job->reply_to;
        last = NULL;
        for (unsigned j = i; j < end; j++) {
            struct write_job *same = w->taken[j];

            if (same == NULL || same->reply_to != to)
                continue;
            if (same->rc != OTL_OK && same->task == NULL)
                log_failure(w, same);
            same->done.next = NULL;
            if (last != NULL)
                last->next = &same->done;
            last = &same->done;
            w->taken[j] = NULL;
        }
        handoff_push_chain(to, &job->done, last);
    }
}

/* The jobs taken, each in its turn. They go back together, unless that would have one wait. */
static void run_one_by_one(struct writer *w)
{
    int64_t start = clock_mono_ns();
    unsigned first = 0;

    for (unsigned i = 0; i < w->n_taken; i++) {
        struct write_job *job = w->taken[i];

        job->rc = prepare_job(w, job);
        if (job->rc == OTL_OK)
            job->rc = run_alone(w, job);
        if (clock_mono_ns() - start > SLOW_NS || i + 1 == w->n_taken) {
            hand_back(w, first, i + 1);
            first = i + 1;
        }
    }
}

/* The jobs taken from first on, with one sync for all of them (I4). No savepoints: with them SQLite
 * copies each page before another request changes it, and what they are for hardly ever happens.
 * Gives the place of the first job that was left, because preparing took long. */
static unsigned run_together(struct writer *w, unsigned first)
{
    struct write_job *together[TAKE_GROUP_JOBS];
    int64_t start = clock_mono_ns();
    struct otl_error err;
    unsigned end = first, n = 0;

    do {
        struct write_job *job = w->taken[end];

        job->rc = prepare_job(w, job);
        if (job->rc == OTL_OK && job->batch != NULL)
            together[n++] = job;
        else if (job->rc == OTL_OK)
            job->rc = run_alone(w, job);
        end++;
    } while (end < w->n_taken && clock_mono_ns() - start <= SLOW_NS);
    if (n == 1)
        together[0]->rc = run_alone(w, together[0]);
    if (n > 1 && store_jobs(w, together, n, &err) != OTL_OK) {
        for (unsigned i = first; i < end; i++) {
            struct write_job *job = w->taken[i];

            if (job->rc == OTL_OK && job->batch != NULL)
                job->rc = run_alone(w, job);
            hand_back(w, i, i + 1);
        }
    }
    hand_back(w, first, end);
    return end;
}

static void run_taken(struct writer *w)
{
    if (w->opts.store.durability != DURABILITY_FULL) {
        if (w->n_taken > 1)
            store_keep(w->store, STORE_KEEP_LOCKS);
        run_one_by_one(w);
        return;
    }
    for (unsigned i = 0; i < w->n_taken;)
        i = run_together(w, i);
}

/* ---- the log, and what is due every second ---- */

static int64_t file_bytes(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
}

/* May the log grow to LOG_STEPS times checkpoint_pages? */
static bool log_goes_on(const struct writer *w, int64_t pages)
{
    int64_t most = w->opts.store.checkpoint_pages * LOG_STEPS;

    return pages < most &&
           (w->opts.max_bytes == 0 || 2 * most * WAL_FRAME_BYTES <= max_log_bytes(w));
}

/* A passive checkpoint does what it can beside readers. Where it could move everything, SQLite
 * begins the log anew with the next commit; where a reader held it up, try again when the log has
 * grown by as much once more, not after every commit. Under load the writer itself is such a
 * reader, all but once in LOG_STEPS times. */
static void checkpoint_if_due(struct writer *w)
{
    int64_t pages = store_wal_pages(w->store);
    struct otl_error err = {0};
    uint64_t held;

    if (pages < w->checkpointed_pages)
        w->checkpointed_pages = 0;
    if (pages - w->checkpointed_pages < w->opts.store.checkpoint_pages)
        return;
    w->checkpointed_pages = pages;
    store_keep(w->store, log_goes_on(w, pages) ? STORE_KEEP_LOG : STORE_KEEP_NOTHING);
    if (store_checkpoint(w->store, false, 0, &err) == OTL_OK)
        STATS_ADD(checkpoints, 1);
    else if (err.code != OTL_ELOCKED && log_gate_open(&w->log_gate, 60 * NS_PER_S, &held))
        LOG(LOG_ERROR, "writer", "checkpoint failed", LOG_S("error", err.msg));
}

/* The log file keeps its greatest length until it is cut, and a reader with an old snapshot makes
 * it grow (S23). */
static void cut_grown_log(struct writer *w)
{
    int64_t bytes = file_bytes(w->wal_path);
    struct otl_error err = {0};
    uint64_t held;

    if (bytes <= w->opts.store.checkpoint_pages * WAL_GROWN_FACTOR * WAL_FRAME_BYTES)
        return;
    if (store_checkpoint(w->store, true, CUT_WAIT_MS, &err) == OTL_OK) {
        STATS_ADD(checkpoints, 1);
        w->checkpointed_pages = 0;
    } else if (log_gate_open(&w->log_gate, 60 * NS_PER_S, &held)) {
        LOG(LOG_WARN, "writer",
            err.code == OTL_ELOCKED ? "the log cannot shrink while a reader holds an old snapshot"
                                    : "checkpoint failed",
            LOG_I("wal_bytes", bytes), LOG_S("error", err.msg));
    }
}

/* Rows get old where nothing is sent any more, too. Another process's lock lets it wait. */
static void close_old_halves(struct writer *w)
{
    struct otl_error err = {0};
    uint64_t held;

    if (store_rotate_due(w->store, &err) != OTL_OK && err.code != OTL_ELOCKED &&
        log_gate_open(&w->log_gate, 60 * NS_PER_S, &held))
        LOG(LOG_ERROR, "writer", "cannot close a half of the head", LOG_S("error", err.msg));
}

static void tick_if_due(struct writer *w)
{
    int64_t now = clock_mono_ns();

    if (now < w->next_tick_ns)
        return;
    w->next_tick_ns = now + NS_PER_S;
    close_old_halves(w);
    cut_grown_log(w);
    limit_file(w);
    STATS_SET(wal_bytes, file_bytes(w->wal_path));
    STATS_SET(db_bytes, file_bytes(w->db_path));
    STATS_SET(series, store_series_count(w->store));
    if (w->opts.tick != NULL)
        w->opts.tick(w->opts.arg);
}

static void *writer_main(void *arg)
{
    struct writer *w = arg;
    struct otl_error err = {0};
    bool end = false;

    while (!end) {
        take_jobs(w, &end);
        if (w->n_taken > 0) {
            run_taken(w);
            checkpoint_if_due(w);
            store_keep(w->store, STORE_KEEP_NOTHING);
        }
        tick_if_due(w);
    }
    if (store_checkpoint(w->store, true, STOP_WAIT_MS, &err) != OTL_OK)
        LOG(LOG_WARN, "writer", "last checkpoint failed; the next start reads the log",
            LOG_S("error", err.msg));
    store_free(w->store);
    w->store = NULL;
    return NULL;
}

/* ---- start and stop ---- */

static bool make_paths(struct writer *w)
{
    struct buf path = {0};

    store_path(&path, w->opts.store.data_dir);
    if (!path.failed)
        w->db_path = strdup(buf_cstr(&path));
    buf_add_str(&path, "-wal");
    if (!path.failed)
        w->wal_path = strdup(buf_cstr(&path));
    buf_fini(&path);
    return w->db_path != NULL && w->wal_path != NULL;
}

static enum otl_err init_lock(struct writer *w, struct otl_error *err)
{
    pthread_condattr_t attr;
    int rc = pthread_condattr_init(&attr);

    if (rc == 0) {
        rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        if (rc == 0)
            rc = pthread_cond_init(&w->wake, &attr);
        (void)pthread_condattr_destroy(&attr);
    }
    if (rc != 0)
        return otl_fail(err, OTL_ESYSTEM, "writer: condition variable: %s", strerror(rc));
    rc = pthread_mutex_init(&w->mu, NULL);
    if (rc == 0)
        return OTL_OK;
    (void)pthread_cond_destroy(&w->wake);
    return otl_fail(err, OTL_ESYSTEM, "writer: mutex: %s", strerror(rc));
}

enum otl_err writer_start(const struct writer_opts *o, struct writer **out, struct otl_error *err)
{
    struct writer *w = calloc(1, sizeof(*w));
    enum otl_err rc;
    int thread;

    if (w == NULL)
        return otl_fail(err, OTL_ENOMEM, "writer: no memory");
    w->opts = *o;
    rc = init_lock(w, err);
    if (rc != OTL_OK) {
        free(w);
        return rc;
    }
    if (!make_paths(w))
        rc = otl_fail(err, OTL_ENOMEM, "writer: no memory");
    if (rc == OTL_OK)
        rc = store_new(&o->store, &w->store, err);
    if (rc == OTL_OK) {
        w->mirror = head_mirror_ref(store_mirror(w->store)); /* readers may outlive the store */
        w->next_tick_ns = clock_mono_ns();
        limit_file(w);
        thread = pthread_create(&w->thread, NULL, writer_main, w);
        w->has_thread = thread == 0;
        if (thread != 0)
            rc = otl_fail(err, OTL_ESYSTEM, "writer: cannot start a thread: %s", strerror(thread));
    }
    if (rc == OTL_OK)
        *out = w;
    else
        writer_free(w);
    return rc;
}

void writer_stop(struct writer *w)
{
    if (!w->has_thread)
        return;
    (void)pthread_mutex_lock(&w->mu);
    w->stopping = true;
    (void)pthread_cond_signal(&w->wake);
    (void)pthread_mutex_unlock(&w->mu);
    (void)pthread_join(w->thread, NULL);
    w->has_thread = false;
}

void writer_free(struct writer *w)
{
    if (w == NULL)
        return;
    store_free(w->store); /* of a writer whose thread did not start */
    head_mirror_free(w->mirror);
    (void)pthread_mutex_destroy(&w->mu);
    (void)pthread_cond_destroy(&w->wake);
    free(w->db_path);
    free(w->wal_path);
    free(w);
}

struct head_mirror *writer_mirror(struct writer *w)
{
    return w->mirror;
}
