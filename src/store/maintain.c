/* The maintenance thread.
 *
 * Invariants:
 *
 * N1 Everything that changes the file is a task on the writer: one transaction, a few milliseconds.
 *    Between any two of them the process may end, and the file holds the same points.
 *
 * N2 Only maintenance makes and drops parts, one thing at a time (maintainer.work), except that
 *    sealing goes on in the middle of a merge. So the parts of a merge stay while it runs, and may
 * be read in any number of snapshots.
 *
 * N3 A closed half is sealed before anything else: while it waits, the open one grows.
 *
 * N4 What fails is logged, left as it is, and tried again later: garbage is collected, nothing else
 *    is lost. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "maintain_internal.h"
#include "otlite/clock.h"
#include "otlite/stats.h"

enum {
    IDLE_MS = 100,  /* between looks for something to do */
    PAUSE_MS = 2,   /* after a task, so that the writer's thread is not kept busy by them */
    LOCKED_MS = 50, /* between tries while another process has the lock */
    LOCKED_TRIES = 100,
    FULL_ROUNDS = 25,    /* five seconds of them */
    FAILED_MS = 5000,    /* after an error */
    BETWEEN_MS = 100,    /* between looks for closed halves in the middle of something else */
    RETAIN_MS = 60000,   /* between runs of retention by age */
    FORGET_MS = 3600000, /* between looks for series without points */
    BUDGET_MS = 200,     /* between looks at the bytes */
    CACHE_BYTES = 8 << 20,
    /* Merging rests as long as it worked since the last rest, but so long at most. */
    REST_MS = 100
};

fault_fn *fault_hook;

/* ---- waiting ---- */

/* Until woken, or stopping, or ms have passed. */
static void rest(struct maintainer *m, int64_t ms)
{
    int64_t until = clock_mono_ns() + ms * NS_PER_MS;
    struct timespec t = {.tv_sec = (time_t)(until / NS_PER_S), .tv_nsec = (long)(until % NS_PER_S)};
    int rc = 0;

    (void)pthread_mutex_lock(&m->mu);
    while (!m->woken && !atomic_load(&m->stopping) && rc == 0)
        rc = pthread_cond_timedwait(&m->wake, &m->mu, &t);
    m->woken = false;
    (void)pthread_mutex_unlock(&m->mu);
}

enum otl_err maintain_check(struct maintainer *m, struct otl_error *err)
{
    return atomic_load(&m->stopping) ? otl_fail(err, OTL_ESTOPPING, "the daemon is stopping")
                                     : OTL_OK;
}

void maintain_progress(struct maintainer *m, const char *fmt, ...)
{
    char text[160];
    va_list ap;

    if (m->progress == NULL)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    m->progress(m->progress_arg, text);
}

/* ---- tasks ---- */

static void task_back(struct handoff_item *item)
{
    struct write_job *job =
        (struct write_job *)(void *)((char *)item - offsetof(struct write_job, done));
    struct maintainer *m =
        (struct maintainer *)(void *)((char *)job - offsetof(struct maintainer, job));

    m->job_back = true;
}

static enum otl_err run_once(struct maintainer *m, store_task_fn *task, void *arg,
                             struct otl_error *err)
{
    enum otl_err rc;

    m->job = (struct write_job){
        .reply_to = &m->handoff, .done.run = task_back, .task = task, .task_arg = arg};
    m->job_back = false;
    rc = writer_submit(m->writer, &m->job, err);
    if (rc != OTL_OK)
        return rc;
    while (!m->job_back) {
        struct pollfd p = {.fd = m->handoff.fd, .events = POLLIN};

        /* The job is the writer's until it comes back, so there is no other way out of here. */
        (void)poll(&p, 1, -1);
        (void)handoff_drain(&m->handoff);
    }
    if (m->job.rc != OTL_OK && err != NULL)
        *err = m->job.err;
    return m->job.rc;
}

enum otl_err maintain_task(struct maintainer *m, store_task_fn *task, void *arg,
                           struct otl_error *err)
{
    enum otl_err rc = OTL_ELOCKED;

    for (int i = 0; i < LOCKED_TRIES && rc == OTL_ELOCKED; i++) {
        if (i > 0)
            rest(m, LOCKED_MS);
        rc = maintain_check(m, err);
        if (rc == OTL_OK)
            rc = run_once(m, task, arg, err);
    }
    if (rc == OTL_OK && !m->hurry)
        rest(m, PAUSE_MS);
    return rc;
}

/* ---- snapshots ---- */

enum otl_err maintain_begin(struct maintainer *m, struct otl_error *err)
{
    enum otl_err rc = db_exec(&m->db, "BEGIN", err);

    if (rc == OTL_OK)
        rc = part_reader_refresh(m->parts, err);
    if (rc != OTL_OK)
        maintain_end(m);
    return rc;
}

void maintain_end(struct maintainer *m)
{
    struct otl_error err;

    /* Nothing was written, so there is nothing to lose; without a transaction it is an error. */
    if (db_exec(&m->db, "ROLLBACK", &err) != OTL_OK)
        return;
}

/* Where the file may not grow, the next try finds twice as much room. */
static enum otl_err seal_with_room(struct maintainer *m, struct otl_error *err)
{
    int64_t max = m->opts.retention.max_bytes;
    enum otl_err rc = seal_closed(m, err);

    if (rc == OTL_EFULL && max > 0) {
        m->short_of = m->short_of == 0 ? max / 16 : m->short_of < max / 2 ? 2 * m->short_of : max;
        m->budget_ns = 0; /* at once */
    } else if (rc == OTL_OK) {
        m->short_of = 0;
    }
    return rc;
}

enum otl_err maintain_between(struct maintainer *m, struct otl_error *err)
{
    int64_t now = clock_mono_ns(), worked = now - m->rested_ns;

    if (!m->hurry && !m->making_room) {
        rest(m, worked < REST_MS * NS_PER_MS ? worked / NS_PER_MS : REST_MS);
        now = m->rested_ns = clock_mono_ns();
    }
    if (m->making_room || now - m->looked_ns < BETWEEN_MS * NS_PER_MS)
        return OTL_OK;
    m->looked_ns = now;
    return seal_with_room(m, err);
}

/* ---- parts that are damaged ---- */

bool part_is_damaged(const struct maintainer *m, int64_t id)
{
    for (size_t i = 0; i < m->n_damaged; i++) {
        if (m->damaged[i] == id)
            return true;
    }
    return false;
}

void part_note_damaged(struct maintainer *m, int64_t id)
{
    size_t cap = m->cap_damaged == 0 ? 16 : 2 * m->cap_damaged;

    if (part_is_damaged(m, id))
        return;
    if (m->n_damaged == m->cap_damaged) {
        int64_t *p = realloc(m->damaged, cap * sizeof(*p));

        if (p == NULL)
            return; /* found again at the next try */
        m->damaged = p;
        m->cap_damaged = cap;
    }
    m->damaged[m->n_damaged++] = id;
    LOG(LOG_ERROR, "maintain", "a part is damaged; it is kept as it is and not merged",
        LOG_I("part", id));
}

/* ---- what comes next ---- */

static bool due(int64_t *last_ns, int64_t period_ms)
{
    int64_t now = clock_mono_ns();

    if (*last_ns != 0 && now - *last_ns < period_ms * NS_PER_MS)
        return false;
    *last_ns = now;
    return true;
}

/* One round of everything; *more: there is something left to do. */
static enum otl_err work(struct maintainer *m, bool *more, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    *more = false;
    /* Before sealing, which may need the room. */
    if (m->opts.retention.max_bytes > 0 && due(&m->budget_ns, BUDGET_MS))
        rc = retain_by_bytes(m, err);
    if (rc == OTL_OK)
        rc = seal_with_room(m, err);
    if (rc == OTL_OK && due(&m->retained_ns, RETAIN_MS))
        rc = retain_by_age(m, err);
    if (rc == OTL_OK && m->forget && due(&m->forgot_ns, FORGET_MS))
        rc = forget_series(m, err);
    if (rc == OTL_OK)
        rc = merge_next(m, false, more, err);
    if (rc == OTL_OK)
        rc = collect_garbage(m, err);
    if (rc == OTL_OK)
        rc = vacuum_free_pages(m, m->half_pages, err);
    return rc;
}

static void log_failure(struct maintainer *m, const struct otl_error *err)
{
    uint64_t held;

    if (err->code == OTL_ESTOPPING)
        return;
    /* Within retention.max_bytes it happens: more is dropped, or a reader lets go of the log.
     * Unless it goes on. */
    m->full_rounds = err->code == OTL_EFULL ? m->full_rounds + 1 : 0;
    if (m->opts.retention.max_bytes > 0 && m->full_rounds > 0 && m->full_rounds < FULL_ROUNDS) {
        LOG(LOG_DEBUG, "maintain", "no room yet", LOG_S("error", err->msg));
        return;
    }
    STATS_ADD(maintenance_failures, 1);
    if (log_gate_open(&m->failure_gate, 10 * NS_PER_S, &held))
        LOG(err->code == OTL_ELOCKED ? LOG_WARN : LOG_ERROR, "maintain",
            "maintenance failed; it is tried again", LOG_S("error", err->msg),
            LOG_I("failures_not_logged", held));
}

/* Never woken at the cost of what serves requests, but with its share of the time: on a machine
 * that is busy for hours the head has to be sealed all the same, and at the rate at which it is
 * filled. What can wait rests in between (maintain_between). */
static void lower_priority(void)
{
    const struct sched_param param = {.sched_priority = 0};

    (void)pthread_setschedparam(pthread_self(), SCHED_BATCH, &param);
}

static void *maintain_main(void *arg)
{
    struct maintainer *m = arg;

    lower_priority();
    while (!atomic_load(&m->stopping)) {
        struct otl_error err = {0};
        bool more = false;
        enum otl_err rc;

        (void)pthread_mutex_lock(&m->work);
        rc = work(m, &more, &err);
        (void)pthread_mutex_unlock(&m->work);
        if (rc != OTL_OK)
            log_failure(m, &err);
        else
            m->full_rounds = 0;
        if (rc != OTL_OK)
            rest(m, err.code == OTL_EFULL ? BUDGET_MS : FAILED_MS); /* dropping makes room */
        else if (!more)
            rest(m, IDLE_MS);
    }
    return NULL;
}

/* ---- start and stop ---- */

static enum otl_err init_locks(struct maintainer *m, struct otl_error *err)
{
    pthread_condattr_t attr;
    int rc = pthread_condattr_init(&attr);

    if (rc == 0) {
        rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        if (rc == 0)
            rc = pthread_cond_init(&m->wake, &attr);
        (void)pthread_condattr_destroy(&attr);
    }
    if (rc != 0)
        return otl_fail(err, OTL_ESYSTEM, "maintenance: condition variable: %s", strerror(rc));
    rc = pthread_mutex_init(&m->mu, NULL);
    if (rc == 0) {
        rc = pthread_mutex_init(&m->work, NULL);
        if (rc != 0)
            (void)pthread_mutex_destroy(&m->mu);
    }
    if (rc == 0)
        return OTL_OK;
    (void)pthread_cond_destroy(&m->wake);
    return otl_fail(err, OTL_ESYSTEM, "maintenance: mutex: %s", strerror(rc));
}

static enum otl_err open_all(struct maintainer *m, struct otl_error *err)
{
    enum otl_err rc = handoff_init(&m->handoff, err);

    if (rc == OTL_OK)
        rc = store_open_reader(&m->db, &m->opts.store, err);
    if (rc == OTL_OK)
        rc = head_reader_open(&m->db, writer_mirror(m->writer), &m->head, err);
    if (rc == OTL_OK) {
        m->cache = part_cache_new(CACHE_BYTES);
        if (m->cache == NULL)
            rc = otl_fail(err, OTL_ENOMEM, "maintenance: no memory");
    }
    if (rc == OTL_OK)
        rc = part_reader_open(&m->db, m->cache, &m->parts, err);
    return rc;
}

enum otl_err maintainer_start(const struct maintain_opts *o, struct writer *w,
                              struct maintainer **out, struct otl_error *err)
{
    struct maintainer *m = calloc(1, sizeof(*m));
    enum otl_err rc;

    if (m == NULL)
        return otl_fail(err, OTL_ENOMEM, "maintenance: no memory");
    m->opts = *o;
    m->writer = w;
    m->handoff.fd = -1;
    m->collect = true; /* what an earlier process left */
    rc = init_locks(m, err);
    if (rc != OTL_OK) {
        free(m);
        return rc;
    }
    rc = open_all(m, err);
    m->opts.store.data_dir = NULL; /* the caller's, not needed any more */
    if (rc == OTL_OK && !o->idle) {
        int thread = pthread_create(&m->thread, NULL, maintain_main, m);

        m->has_thread = thread == 0;
        if (thread != 0)
            rc = otl_fail(err, OTL_ESYSTEM, "maintenance: cannot start a thread: %s",
                          strerror(thread));
    }
    if (rc == OTL_OK)
        *out = m;
    else
        maintainer_free(m);
    return rc;
}

void maintainer_stop(struct maintainer *m)
{
    atomic_store(&m->stopping, true);
    (void)pthread_mutex_lock(&m->mu);
    (void)pthread_cond_broadcast(&m->wake);
    (void)pthread_mutex_unlock(&m->mu);
    if (m->has_thread)
        (void)pthread_join(m->thread, NULL);
    m->has_thread = false;
}

void maintainer_free(struct maintainer *m)
{
    if (m == NULL)
        return;
    if (m->parts != NULL)
        part_reader_close(m->parts);
    if (m->cache != NULL)
        part_cache_free(m->cache);
    if (m->head != NULL)
        head_reader_close(m->head);
    db_close(&m->db);
    handoff_fini(&m->handoff);
    series_facts_fini(&m->facts);
    free(m->groups);
    free(m->damaged);
    free(m->filtered);
    (void)pthread_cond_destroy(&m->wake);
    (void)pthread_mutex_destroy(&m->mu);
    (void)pthread_mutex_destroy(&m->work);
    free(m);
}

/* ---- everything at once ---- */

static enum otl_err rotate(void *arg, struct store *s, struct db *db, struct otl_error *err)
{
    (void)arg;
    (void)db;
    return store_rotate(s, KIND_ALL, err);
}

enum otl_err seal_all(struct maintainer *m, struct otl_error *err)
{
    /* What waits first, so that each kind has an empty half to open. */
    enum otl_err rc = seal_closed(m, err);

    if (rc == OTL_OK)
        rc = maintain_task(m, rotate, NULL, err);
    if (rc == OTL_OK)
        rc = seal_closed(m, err);
    return rc;
}

static enum otl_err compact(struct maintainer *m, struct otl_error *err)
{
    enum otl_err rc = seal_all(m, err);
    bool more = true;

    if (rc == OTL_OK)
        rc = retain_by_age(m, err);
    while (rc == OTL_OK && more) {
        rc = merge_next(m, true, &more, err);
        if (rc == OTL_OK)
            rc = collect_garbage(m, err);
    }
    if (rc == OTL_OK && m->forget)
        rc = forget_series(m, err);
    if (rc == OTL_OK)
        maintain_progress(m, "giving free pages back");
    if (rc == OTL_OK)
        rc = collect_garbage(m, err);
    if (rc == OTL_OK)
        rc = vacuum_free_pages(m, 0, err);
    return rc;
}

enum otl_err maintain_compact(struct maintainer *m, void (*progress)(void *arg, const char *text),
                              void *arg, struct otl_error *err)
{
    enum otl_err rc;

    (void)pthread_mutex_lock(&m->work);
    m->progress = progress;
    m->progress_arg = arg;
    m->hurry = true;
    rc = compact(m, err);
    m->hurry = false;
    m->progress = NULL;
    (void)pthread_mutex_unlock(&m->work);
    return rc;
}

/* One round of what the thread does, on the caller's: tests. */
enum otl_err maintain_round(struct maintainer *m, bool *more, struct otl_error *err)
{
    enum otl_err rc;

    (void)pthread_mutex_lock(&m->work);
    m->hurry = true;
    rc = work(m, more, err);
    m->hurry = false;
    (void)pthread_mutex_unlock(&m->work);
    return rc;
}
