/* reference_r3.c -- the same API in two languages over SQLite: 90 % reads of a row by its primary
 * key, 10 % writes of about 2 KB, at 8 to 256 workers.
 *
 * A worker has one operation under way and begins the next when it is done. Writes are OTLP
 * requests over a connection of the worker's own. Reads go the way that reads go in the daemon: to
 * a pool of four threads with a read-only connection each (otlite/reader.h), which here is in this
 * process, and back by its handoff. All workers are served by one thread, which costs less than a
 * thread each. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "otlite/clock.h"
#include "otlite/reader.h"
#include "reference.h"

enum {
    SERVICES = 10,
    WRITE_POINTS = 15, /* about 2 KB */
    MAX_WORKERS = 256,
    /* Requests to choose from: one a worker at least. */
    SERIES = SERVICES * WRITE_POINTS * 26,
    FILL_POINTS = 100000, /* there are at least so many rows to read before the first level */
    READ_CACHE_BYTES = 32 << 20,
    TIMEOUT_MS = 10000,
    EVENTS = 64
};

static const unsigned levels[] = {8, 32, 64, 128, 256};

enum { LEVELS = sizeof(levels) / sizeof(levels[0]), GOAL_LEVEL = 64 };

/* Rows have a primary key until they are sealed. */
static const char head_setting[] = "head.max_rows=16777216";

static const char read_sql[] =
    "SELECT p.time, p.start_time, p.flags, p.value, m.name, m.unit, m.type, s.attributes,"
    " r.service_name, r.attributes"
    " FROM number_head_0 p JOIN series s ON s.id = p.series_id JOIN metric m ON m.id = s.metric_id"
    " JOIN scope c ON c.id = m.scope_id JOIN resource r ON r.id = c.resource_id WHERE p.id = ?1";

struct mix;

struct worker {
    struct read_job job;
    struct mix *mix;
    struct http_client client;
    struct template *request;
    int64_t id;         /* of the row to read */
    int64_t begin_ns;   /* of the operation under way */
    uint64_t random;    /* state of its generator */
    uint64_t got_bytes; /* of the row that was read; 0: there was none */
    bool writing;
};

/* The statement of each reader thread; they outlive their connections until they are finalised. */
struct statements {
    pthread_mutex_t mu; /* guards the others */
    sqlite3_stmt *st[READER_POOL_SIZE];
    unsigned n;
};

struct mix {
    const struct target *target;
    struct template_set set;
    struct reader_pool *readers;
    struct handoff handoff;
    struct statements statements;
    int epoll_fd;
    int64_t rows; /* ids 1 to this can be read */
    struct worker workers[MAX_WORKERS];
    /* Of the level under way. */
    unsigned n_workers, busy;
    int64_t to_start;
    struct latencies read, write, all;
    uint64_t errors;
};

static _Thread_local sqlite3_stmt *own_statement;

static struct worker *worker_of_job(struct read_job *job)
{
    return (struct worker *)(void *)((char *)job - offsetof(struct worker, job));
}

static enum otl_err read_statement(struct mix *m, struct db *db, struct otl_error *err)
{
    struct statements *s = &m->statements;
    enum otl_err rc = db_prepare(db, read_sql, &own_statement, err);

    if (rc != OTL_OK)
        return rc;
    (void)pthread_mutex_lock(&s->mu);
    s->st[s->n++] = own_statement;
    (void)pthread_mutex_unlock(&s->mu);
    return OTL_OK;
}

/* On a reader thread. */
static enum otl_err read_row(struct read_job *job, struct db *db, struct otl_error *err)
{
    struct worker *w = worker_of_job(job);
    enum otl_err rc = OTL_OK;
    int step;

    w->got_bytes = 0;
    if (own_statement == NULL)
        rc = read_statement(w->mix, db, err);
    if (rc != OTL_OK)
        return rc;
    step = sqlite3_bind_int64(own_statement, 1, w->id);
    if (step == SQLITE_OK)
        step = sqlite3_step(own_statement);
    if (step == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(own_statement); i++) {
            (void)sqlite3_column_text(own_statement, i); /* as an answer in text would need it */
            w->got_bytes += (uint64_t)sqlite3_column_bytes(own_statement, i);
        }
    } else if (step != SQLITE_DONE) {
        rc = db_fail(db, step, "read a point", err);
    }
    (void)sqlite3_reset(own_statement);
    return rc;
}

/* xorshift64: an even spread is all that is asked of it. */
static uint64_t next_random(struct worker *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random;
}

static void begin_operation(struct worker *w);

static void end_operation(struct worker *w, bool ok)
{
    struct mix *m = w->mix;
    int64_t took_ns = clock_mono_ns() - w->begin_ns;

    m->busy--;
    latencies_add(w->writing ? &m->write : &m->read, took_ns);
    latencies_add(&m->all, took_ns);
    m->errors += !ok;
    begin_operation(w);
}

static void on_read(struct handoff_item *item)
{
    struct read_job *job =
        (struct read_job *)(void *)((char *)item - offsetof(struct read_job, done));
    struct worker *w = worker_of_job(job);

    end_operation(w, job->rc == OTL_OK && w->got_bytes > 0);
}

static bool connected(struct worker *w)
{
    struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = w};

    if (w->client.fd >= 0)
        return true;
    if (!http_client_open(&w->client, &w->mix->target->url))
        return false;
    if (epoll_ctl(w->mix->epoll_fd, EPOLL_CTL_ADD, w->client.fd, &ev) == 0)
        return true;
    http_client_close(&w->client);
    return false;
}

static void begin_operation(struct worker *w)
{
    struct mix *m = w->mix;
    struct otl_error err;
    uint64_t random;

    /* A loop, so that operations that fail at once do not nest. */
    while (m->to_start > 0 && !reference_interrupted()) {
        m->to_start--;
        m->busy++;
        random = next_random(w);
        w->begin_ns = clock_mono_ns();
        w->writing = random % 10 == 0;
        w->id = 1 + (int64_t)(random / 10 % (uint64_t)m->rows);
        if (w->writing && connected(w)) {
            http_client_request(&w->client, template_next(w->request, clock_wall_ns()));
            if (http_client_write(&w->client) != HTTP_LOST)
                return;
            http_client_close(&w->client);
        }
        if (!w->writing && reader_submit(m->readers, &w->job, &err) == OTL_OK)
            return;
        m->busy--;
        m->errors++;
    }
}

static void client_event(struct worker *w)
{
    enum http_progress got;

    if (w->client.fd < 0 || !w->writing)
        return; /* the first event of a new connection, or one of a connection that is closed */
    got = http_client_write(&w->client);
    if (got == HTTP_DONE)
        got = http_client_read(&w->client);
    if (got == HTTP_AGAIN)
        return;
    if (got == HTTP_LOST || w->client.close_after)
        http_client_close(&w->client);
    end_operation(w, got == HTTP_DONE && w->client.status == 200);
}

/* Until all operations of the level are done. */
static enum otl_err run_level(struct mix *m, unsigned workers, int64_t requests,
                              struct otl_error *err)
{
    int64_t progress_ns = clock_mono_ns();

    latencies_reset(&m->read);
    latencies_reset(&m->write);
    latencies_reset(&m->all);
    m->errors = 0;
    m->to_start = requests;
    m->n_workers = workers;
    for (unsigned i = 0; i < workers; i++)
        begin_operation(&m->workers[i]);
    while (m->busy > 0) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(m->epoll_fd, events, EVENTS, TIMEOUT_MS / 10);

        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr == NULL)
                (void)handoff_drain(&m->handoff);
            else
                client_event(events[i].data.ptr);
        }
        if (n > 0)
            progress_ns = clock_mono_ns();
        else if (clock_mono_ns() - progress_ns > TIMEOUT_MS * NS_PER_MS)
            return otl_fail(err, OTL_EIO, "%u operations got no answer within %d s", m->busy,
                            TIMEOUT_MS / 1000);
    }
    return OTL_OK;
}

/* Rows to read, by the writers' own requests; and all connections are open afterwards. */
static enum otl_err fill(struct mix *m, struct otl_error *err)
{
    unsigned sent = 0;
    struct db db = {0};
    struct store_opts o;
    enum otl_err rc;

    while (sent < FILL_POINTS && !reference_interrupted()) {
        struct worker *w = &m->workers[sent / WRITE_POINTS % MAX_WORKERS];
        int status;

        if (!connected(w))
            return otl_fail(err, OTL_EIO, "%s takes no connection", m->target->url.host);
        http_call(&w->client, &m->target->url, template_next(w->request, clock_wall_ns()),
                  TIMEOUT_MS * NS_PER_MS, &status);
        if (status != 200)
            return otl_fail(err, OTL_EIO, "filling the database: answered %d, not 200", status);
        sent += WRITE_POINTS;
    }
    rc = target_reader_opts(m->target, READ_CACHE_BYTES, &o, err);
    if (rc == OTL_OK)
        rc = store_open_reader(&db, &o, err);
    if (rc == OTL_OK)
        rc = db_query_int(&db, "SELECT max(id) FROM number_head_0", &m->rows, err);
    db_close(&db);
    return rc;
}

static void mix_free(struct mix *m)
{
    if (m == NULL)
        return;
    if (m->readers != NULL)
        reader_pool_stop(m->readers);
    reader_pool_free(m->readers);
    for (unsigned i = 0; i < m->statements.n; i++)
        (void)sqlite3_finalize(m->statements.st[i]);
    for (unsigned i = 0; i < MAX_WORKERS; i++)
        http_client_fini(&m->workers[i].client);
    (void)pthread_mutex_destroy(&m->statements.mu);
    handoff_fini(&m->handoff);
    template_set_fini(&m->set);
    if (m->epoll_fd >= 0)
        close(m->epoll_fd);
    free(m);
}

static void init_workers(struct mix *m)
{
    for (unsigned i = 0; i < MAX_WORKERS; i++) {
        struct worker *w = &m->workers[i];

        w->mix = m;
        w->request = &m->set.templates[i];
        w->random = UINT64_C(0x9e3779b97f4a7c15) * (i + 1);
        w->job.work = read_row;
        w->job.reply_to = &m->handoff;
        w->job.done.run = on_read;
    }
}

static enum otl_err mix_new(const struct target *t, struct mix **out, struct otl_error *err)
{
    const struct template_opts content = {
        .host = t->url.host,
        .path = t->url.path,
        .headers = "",
        .points = WRITE_POINTS,
        .services = SERVICES,
        .series = SERIES,
        .start_ns = clock_wall_ns(),
    };
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = NULL};
    struct mix *m = calloc(1, sizeof(*m));
    struct store_opts o;
    enum otl_err rc;

    if (m == NULL)
        return otl_fail(err, OTL_ENOMEM, "no memory for the workers");
    m->target = t;
    m->handoff.fd = -1;
    for (unsigned i = 0; i < MAX_WORKERS; i++)
        http_client_init(&m->workers[i].client);
    m->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (pthread_mutex_init(&m->statements.mu, NULL) != 0 || m->epoll_fd < 0) {
        rc = otl_fail(err, OTL_ESYSTEM, "no mutex or epoll to be had");
        goto out;
    }
    rc = handoff_init(&m->handoff, err);
    if (rc == OTL_OK && epoll_ctl(m->epoll_fd, EPOLL_CTL_ADD, m->handoff.fd, &ev) != 0)
        rc = otl_fail(err, OTL_ESYSTEM, "epoll_ctl failed");
    if (rc == OTL_OK)
        rc = template_set_init(&m->set, &content, err);
    if (rc == OTL_OK) {
        init_workers(m);
        rc = fill(m, err);
    }
    if (rc == OTL_OK)
        rc = target_reader_opts(t, READ_CACHE_BYTES, &o, err);
    if (rc == OTL_OK)
        rc = reader_pool_start(&o, MAX_WORKERS, NULL, &m->readers, err);
    if (rc == OTL_OK) {
        *out = m;
        m = NULL;
    }
out:
    mix_free(m);
    return rc;
}

static void add_quantiles(struct result *r, const struct latencies *h)
{
    static const double quantiles[] = {0.5, 0.9, 0.99};

    for (int i = 0; i < 3; i++)
        result_number(r,
                      h->count > 0 ? (double)latencies_quantile(h, quantiles[i]) / 1e6 : UNKNOWN);
}

static void report_level(struct result *r, const struct mix *m, double seconds)
{
    result_begin_row(r);
    result_number(r, m->n_workers);
    result_number(r, (double)m->all.count);
    result_number(r, (double)m->all.count / seconds);
    add_quantiles(r, &m->read);
    add_quantiles(r, &m->write);
    add_quantiles(r, &m->all);
    result_number(r, (double)m->errors);
    result_end_row(r);
}

static void report_mix(struct reference_run *run, struct result *r, double (*medians)[LEVELS],
                       unsigned done)
{
    static const char *const names[] = {"all p50", "all p99", "reads p50", "writes p50"};
    double x[LEVELS], at_goal = UNKNOWN;

    for (unsigned i = 0; i < done; i++) {
        x[i] = levels[i];
        if (levels[i] == GOAL_LEVEL)
            at_goal = medians[0][i];
    }
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        result_series(r, names[i], x, medians[i], done);
    result_plot(r, "workers", "latency, ms", true, true);
    result_note(r,
                "90 %% reads of one point by primary key through a pool of four read-only "
                "connections in this process (no HTTP: there is no query API yet), 10 %% OTLP "
                "writes of %d points over HTTP.",
                WRITE_POINTS);
    if (run->o->url == NULL)
        result_note(r, "Our own daemon runs with %s unless --set says otherwise.", head_setting);
    result_note(r, "Published: median 7.99 ms in Python, 1.17 ms in Rust, server on 4 cores.");
    reference_goal(run, r, "R3 median at 64 workers in ms", false, 1.17, at_goal);
}

static enum otl_err run_levels(struct reference_run *run, struct mix *m, struct result *r,
                               struct otl_error *err)
{
    double medians[4][LEVELS];
    unsigned done = 0;
    enum otl_err rc = OTL_OK;

    for (unsigned i = 0; i < LEVELS && rc == OTL_OK && !reference_interrupted(); i++) {
        int64_t begin_ns = clock_mono_ns();

        rc = run_level(m, levels[i], run->o->requests, err);
        if (rc != OTL_OK || m->all.count == 0)
            break;
        report_level(r, m, (double)(clock_mono_ns() - begin_ns) / 1e9);
        medians[0][i] = (double)latencies_quantile(&m->all, 0.5) / 1e6;
        medians[1][i] = (double)latencies_quantile(&m->all, 0.99) / 1e6;
        medians[2][i] = (double)latencies_quantile(&m->read, 0.5) / 1e6;
        medians[3][i] = (double)latencies_quantile(&m->write, 0.5) / 1e6;
        run->broken = run->broken || m->errors > 0;
        done++;
    }
    report_mix(run, r, medians, done);
    return rc;
}

static enum otl_err r3_run(struct reference_run *run, struct otl_error *err)
{
    static const struct result_column columns[] = {
        {"workers", "workers", 0},
        {"requests", "requests", 0},
        {"requests_per_second", "requests/s", 0},
        {"read_p50_ms", "read p50 ms", 3},
        {"read_p90_ms", "p90", 3},
        {"read_p99_ms", "p99", 3},
        {"write_p50_ms", "write p50 ms", 3},
        {"write_p90_ms", "p90", 3},
        {"write_p99_ms", "p99", 3},
        {"p50_ms", "all p50 ms", 3},
        {"p90_ms", "p90", 3},
        {"p99_ms", "p99", 3},
        {"errors", "errors", 0},
        {NULL, NULL, 0},
    };
    struct mix *m = NULL;
    struct result *r = NULL;
    struct target t;
    enum otl_err rc = target_open_with(run->o, head_setting, &t, err), closed;

    if (rc != OTL_OK)
        return rc;
    rc = mix_new(&t, &m, err);
    if (rc == OTL_OK)
        rc = result_open(run->o->out, "reference-r3", "R3: 90 % point reads, 10 % writes",
                         run->o->command, columns, &r, err);
    if (rc == OTL_OK) {
        rc = run_levels(run, m, r, err);
        closed = result_close(r, rc == OTL_OK ? err : NULL);
        rc = rc == OTL_OK ? closed : rc;
    }
    mix_free(m);
    target_close(&t);
    return rc;
}

const struct reference_command reference_r3 = {
    .name = "r3",
    .summary = "90 % point reads and 10 % writes at 8 to 256 workers",
    .help =
        "Workers that each do one operation after another: 90 % reads of a point by its\n"
        "primary key through read-only connections to the database, four as the daemon has, and\n"
        "10 % OTLP requests of about 2 KB. Reports the latency of both at each level.\n",
    .requests = 50000,
    .run = r3_run,
};
