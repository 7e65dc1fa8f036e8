#include "otlite/reader.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "otlite/log.h"

struct reader {
    struct reader_pool *pool;
    struct db db; /* this thread's */
    struct sql_tables *sql;
    struct read_session *session; /* NULL: no read_shared */
    pthread_t thread;
    bool has_thread;
};

struct reader_pool {
    struct reader readers[READER_POOL_SIZE];
    size_t max_jobs;
    pthread_mutex_t mu; /* guards from here to stopping */
    pthread_cond_t wake;
    struct read_job *head, *tail;
    size_t n_jobs;
    bool stopping;
};

/* A statement left open would keep its snapshot, and with it the log, for ever (S23). */
static void reset_statements(struct db *db)
{
    struct sqlite3_stmt *st = NULL;

    while ((st = sqlite3_next_stmt(db->sql, st)) != NULL) {
        if (!sqlite3_stmt_busy(st))
            continue;
        LOG(LOG_ERROR, "reader", "a query left its statement open", LOG_S("sql", sqlite3_sql(st)));
        (void)sqlite3_reset(st);
    }
}

static void run_job(struct reader *r, struct read_job *job)
{
    struct db *db = &r->db;
    enum otl_err rc;

    job->err = (struct otl_error){0};
    job->sql = r->sql;
    job->session = r->session;
    rc = db_exec(db, "BEGIN", &job->err);
    if (rc == OTL_OK) {
        rc = job->work(job, db, &job->err);
        reset_statements(db);
        /* Nothing was written, so the end of the transaction decides nothing: only let go of the
         * snapshot. */
        if (!sqlite3_get_autocommit(db->sql))
            (void)sqlite3_exec(db->sql, rc == OTL_OK ? "COMMIT" : "ROLLBACK", NULL, NULL, NULL);
    }
    job->rc = rc;
    handoff_push(job->reply_to, &job->done); /* the caller's again from here */
}

static struct read_job *take_job(struct reader_pool *p)
{
    struct read_job *job;

    (void)pthread_mutex_lock(&p->mu);
    while (p->head == NULL && !p->stopping)
        (void)pthread_cond_wait(&p->wake, &p->mu);
    job = p->head;
    if (job != NULL) {
        p->head = job->next;
        if (p->head == NULL)
            p->tail = NULL;
        p->n_jobs--;
    }
    (void)pthread_mutex_unlock(&p->mu);
    return job;
}

static void *reader_main(void *arg)
{
    struct reader *r = arg;
    struct read_job *job;

    while ((job = take_job(r->pool)) != NULL)
        run_job(r, job);
    return NULL;
}

enum otl_err reader_submit(struct reader_pool *p, struct read_job *job, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    job->next = NULL;
    (void)pthread_mutex_lock(&p->mu);
    if (p->stopping) {
        rc = otl_fail(err, OTL_ESTOPPING, "the daemon is stopping; ask again in a moment");
    } else if (p->n_jobs >= p->max_jobs) {
        rc =
            otl_fail(err, OTL_EBUSY, "%zu queries are waiting already; ask again later", p->n_jobs);
    } else {
        if (p->tail == NULL)
            p->head = job;
        else
            p->tail->next = job;
        p->tail = job;
        p->n_jobs++;
        (void)pthread_cond_signal(&p->wake);
    }
    (void)pthread_mutex_unlock(&p->mu);
    return rc;
}

static enum otl_err start_one(struct reader *r, struct reader_pool *p, const struct store_opts *o,
                              struct read_shared *shared, struct otl_error *err)
{
    enum otl_err rc = store_open_reader(&r->db, o, err);
    int thread;

    /* What people's SQL sorts goes to a temporary file rather than into memory without bound. */
    if (rc == OTL_OK)
        rc = db_exec(&r->db, "PRAGMA temp_store = FILE", err);
    if (rc == OTL_OK)
        rc = sql_register(&r->db, shared, &r->sql, err);
    if (rc == OTL_OK && shared != NULL)
        rc = read_session_open(shared, &r->db, &r->session, err);
    if (rc != OTL_OK)
        return rc;
    r->pool = p;
    thread = pthread_create(&r->thread, NULL, reader_main, r);
    if (thread != 0)
        return otl_fail(err, OTL_ESYSTEM, "readers: cannot start a thread: %s", strerror(thread));
    r->has_thread = true;
    return OTL_OK;
}

enum otl_err reader_pool_start(const struct store_opts *o, size_t max_jobs,
                               struct read_shared *shared, struct reader_pool **out,
                               struct otl_error *err)
{
    struct reader_pool *p = calloc(1, sizeof(*p));
    enum otl_err rc = OTL_OK;

    if (p == NULL)
        return otl_fail(err, OTL_ENOMEM, "readers: no memory");
    p->max_jobs = max_jobs;
    if (pthread_mutex_init(&p->mu, NULL) != 0) {
        free(p);
        return otl_fail(err, OTL_ESYSTEM, "readers: no mutex");
    }
    if (pthread_cond_init(&p->wake, NULL) != 0) {
        (void)pthread_mutex_destroy(&p->mu);
        free(p);
        return otl_fail(err, OTL_ESYSTEM, "readers: no condition variable");
    }
    for (int i = 0; i < READER_POOL_SIZE && rc == OTL_OK; i++)
        rc = start_one(&p->readers[i], p, o, shared, err);
    if (rc != OTL_OK) {
        reader_pool_stop(p);
        reader_pool_free(p);
        return rc;
    }
    *out = p;
    return OTL_OK;
}

void reader_pool_stop(struct reader_pool *p)
{
    (void)pthread_mutex_lock(&p->mu);
    p->stopping = true;
    (void)pthread_cond_broadcast(&p->wake);
    (void)pthread_mutex_unlock(&p->mu);
    for (int i = 0; i < READER_POOL_SIZE; i++) {
        struct reader *r = &p->readers[i];

        if (r->has_thread)
            (void)pthread_join(r->thread, NULL);
        r->has_thread = false;
        read_session_close(r->session);
        r->session = NULL;
        db_close(&r->db);
    }
}

void reader_pool_free(struct reader_pool *p)
{
    if (p == NULL)
        return;
    (void)pthread_mutex_destroy(&p->mu);
    (void)pthread_cond_destroy(&p->wake);
    free(p);
}
