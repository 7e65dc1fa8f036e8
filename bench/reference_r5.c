/* reference_r5.c -- SQLite under a servlet container: each page view inserts a row, selects it back
 * and compares. Here each view is an OTLP request of ten points of known content; after its 200 the
 * client reads them at once on a read-only connection of its own and compares every column. A point
 * that is missing, different, or there twice is a miss, and there must be none. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "known_points.h"
#include "otlite/clock.h"
#include "reference.h"

enum {
    CACHE_BYTES = 1 << 20, /* of each client's connection */
    TIMEOUT_MS = 10000,
    STACK_BYTES = 256 << 10,
    MAX_CLIENTS = 1000,
    /* The published mixes ran for minutes; a shorter step shortens the pauses between the views of
     * a user by as much, so that it has as many. */
    PUBLISHED_STEP_MS = 60000
};

/* pause_ms 0: the next view follows the last at once. */
struct mix {
    const char *name;
    unsigned clients; /* 0: as many as --connections says */
    int64_t pause_ms;
};

static const struct mix mixes[] = {
    {"closed loop", 0, 0},
    {"20 users every 10 s", 20, 10000},
    {"20 users every 3 s", 20, 3000},
    {"100 users every 10 s", 100, 10000},
    {"100 users every 3 s", 100, 3000},
};

enum { MIXES = sizeof(mixes) / sizeof(mixes[0]) };

struct client {
    const struct target *target;
    unsigned number;
    uint64_t turn;
    int64_t pause_ns, first_ns, until_ns;
    pthread_t thread;
    bool has_thread;
    struct http_client http;
    struct db db;
    struct sqlite3_stmt *newest, *select, *select_anywhere;
    struct known_point points[KNOWN_POINTS];
    struct buf body, request;
    /* Results. */
    uint64_t views, refused, misses, compared;
    struct latencies answer, view; /* ns: to the 200; to the end of the comparison */
    char first_miss[160];
    enum otl_err rc;
    struct otl_error err;
};

static void note_miss(struct client *c, unsigned point, const char *what)
{
    if (c->misses++ == 0)
        snprintf(c->first_miss, sizeof(c->first_miss), "client %u, view %llu, point %u: %s",
                 c->number, (unsigned long long)c->turn, point, what);
}

static enum otl_err build_request(struct client *c)
{
    char head[1024];
    int n;

    known_points_make(c->points, c->number, c->turn, clock_wall_ns());
    known_points_encode(&c->body, c->points, c->number);
    n = snprintf(head, sizeof(head),
                 "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-protobuf\r\n"
                 "Content-Length: %zu\r\n\r\n",
                 c->target->url.path, c->target->url.host, c->body.n);
    if (n < 0 || n >= (int)sizeof(head))
        return otl_fail(&c->err, OTL_ECONFIG, "the URL is too long");
    buf_reset(&c->request);
    buf_add(&c->request, head, (size_t)n);
    buf_add_bytes(&c->request, buf_bytes(&c->body));
    if (c->body.failed || c->request.failed)
        return otl_fail(&c->err, OTL_ENOMEM, "no memory for a request");
    return OTL_OK;
}

/* The rows that this view adds are behind this one. */
static enum otl_err newest_row(struct client *c, int64_t *out)
{
    int step = sqlite3_step(c->newest);

    if (step == SQLITE_ROW)
        *out = sqlite3_column_int64(c->newest, 0);
    (void)sqlite3_reset(c->newest);
    return step == SQLITE_ROW ? OTL_OK : db_fail(&c->db, step, "read the newest row", &c->err);
}

/* Compare what st finds after row `after` with what was sent. n: rows. */
static enum otl_err compare_rows(struct client *c, struct sqlite3_stmt *st, int64_t after,
                                 unsigned *n)
{
    char service[32];
    int step;

    *n = 0;
    known_service(c->number, service);
    step = sqlite3_bind_int64(st, 1, after);
    step |= sqlite3_bind_int64(st, 2, c->points[0].time);
    step |= sqlite3_bind_int64(st, 3, c->points[KNOWN_POINTS - 1].time);
    step |= sqlite3_bind_text(st, 4, service, -1, SQLITE_STATIC);
    if (step != SQLITE_OK)
        return db_fail(&c->db, SQLITE_NOMEM, "bind a query", &c->err);
    while ((step = sqlite3_step(st)) == SQLITE_ROW) {
        const char *what =
            *n < KNOWN_POINTS ? known_point_difference(&c->points[*n], st) : "a row too many";

        if (what != NULL)
            note_miss(c, *n, what);
        (*n)++;
    }
    (void)sqlite3_reset(st);
    return step == SQLITE_DONE ? OTL_OK : db_fail(&c->db, step, "read the points back", &c->err);
}

/* The points are in the head, unless it has been sealed since the answer. */
static enum otl_err compare(struct client *c, int64_t after)
{
    uint64_t misses = c->misses;
    unsigned n;
    enum otl_err rc = compare_rows(c, c->select, after, &n);

    if (rc == OTL_OK && n < KNOWN_POINTS) {
        c->misses = misses;
        rc = compare_rows(c, c->select_anywhere, after, &n);
    }
    for (; rc == OTL_OK && n < KNOWN_POINTS; n++)
        note_miss(c, n, "not there");
    c->compared += KNOWN_POINTS;
    return rc;
}

static enum otl_err view_page(struct client *c)
{
    int64_t after = 0, begin_ns;
    int status;
    enum otl_err rc = build_request(c);

    if (rc == OTL_OK)
        rc = newest_row(c, &after);
    if (rc != OTL_OK)
        return rc;
    begin_ns = clock_mono_ns();
    http_call(&c->http, &c->target->url, buf_bytes(&c->request), TIMEOUT_MS * NS_PER_MS, &status);
    c->views++;
    if (status == 200 && c->http.body.n == 0) { /* a body would say that points were rejected */
        latencies_add(&c->answer, clock_mono_ns() - begin_ns);
        rc = compare(c, after);
        latencies_add(&c->view, clock_mono_ns() - begin_ns);
    } else {
        c->refused++;
    }
    c->turn++;
    return rc;
}

static void sleep_until(int64_t at_ns)
{
    struct timespec t = {.tv_sec = at_ns / NS_PER_S, .tv_nsec = at_ns % NS_PER_S};

    while (!reference_interrupted() &&
           clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0) {
    }
}

static void *client_main(void *arg)
{
    struct client *c = arg;
    int64_t next_ns = c->first_ns;

    while (c->rc == OTL_OK && clock_mono_ns() < c->until_ns && !reference_interrupted()) {
        if (c->pause_ns > 0) {
            if (next_ns >= c->until_ns)
                break;
            sleep_until(next_ns);
            next_ns += c->pause_ns;
        }
        c->rc = view_page(c);
    }
    return NULL;
}

/* --- all clients --- */

static enum otl_err client_open(struct client *c, const struct target *t, unsigned number,
                                struct otl_error *err)
{
    struct store_opts o;
    enum otl_err rc = target_reader_opts(t, CACHE_BYTES, &o, err);

    c->target = t;
    c->number = number;
    if (rc == OTL_OK)
        rc = store_open_reader(&c->db, &o, err);
    if (rc == OTL_OK)
        rc = db_prepare(&c->db, known_points_newest_sql, &c->newest, err);
    if (rc == OTL_OK)
        rc = db_prepare(&c->db, known_points_sql, &c->select, err);
    if (rc == OTL_OK)
        rc = db_prepare(&c->db, known_points_anywhere_sql, &c->select_anywhere, err);
    return rc;
}

static void client_close(struct client *c)
{
    (void)sqlite3_finalize(c->newest);
    (void)sqlite3_finalize(c->select);
    (void)sqlite3_finalize(c->select_anywhere);
    db_close(&c->db);
    http_client_fini(&c->http);
    buf_fini(&c->body);
    buf_fini(&c->request);
}

static enum otl_err run_clients(struct client *clients, unsigned n, const struct mix *mix,
                                int64_t step_ms, struct otl_error *err)
{
    int64_t now_ns = clock_mono_ns();
    int64_t pause_ns = mix->pause_ms * NS_PER_MS / PUBLISHED_STEP_MS * step_ms;
    pthread_attr_t attr;
    enum otl_err rc = OTL_OK;

    if (mix->pause_ms > 0 && pause_ns < 1)
        pause_ns = 1;
    if (pthread_attr_init(&attr) != 0)
        return otl_fail(err, OTL_ENOMEM, "no memory for threads");
    if (pthread_attr_setstacksize(&attr, STACK_BYTES) != 0)
        rc = otl_fail(err, OTL_ESYSTEM, "cannot set the size of a thread's stack");
    for (unsigned i = 0; i < n && rc == OTL_OK; i++) {
        struct client *c = &clients[i];

        c->pause_ns = pause_ns;
        c->first_ns = now_ns + pause_ns * i / n; /* users do not come all at once */
        c->until_ns = now_ns + step_ms * NS_PER_MS;
        c->has_thread = pthread_create(&c->thread, &attr, client_main, c) == 0;
        if (!c->has_thread)
            rc = otl_fail(err, OTL_ESYSTEM, "cannot start thread %u of %u", i + 1, n);
    }
    (void)pthread_attr_destroy(&attr);
    for (unsigned i = 0; i < n; i++) {
        struct client *c = &clients[i];

        if (!c->has_thread)
            continue;
        (void)pthread_join(c->thread, NULL);
        c->has_thread = false;
        if (rc == OTL_OK && c->rc != OTL_OK) {
            *err = c->err;
            rc = c->rc;
        }
    }
    return rc;
}

static void report_mix(struct reference_run *run, struct result *r, const struct mix *mix,
                       const struct client *clients, unsigned n, double seconds, uint64_t *total)
{
    static struct latencies answer, view; /* too large for the stack of a small system */
    uint64_t views = 0, refused = 0, compared = 0, misses = 0;
    const char *first_miss = NULL;

    latencies_reset(&answer);
    latencies_reset(&view);
    for (unsigned i = 0; i < n; i++) {
        views += clients[i].views;
        refused += clients[i].refused;
        compared += clients[i].compared;
        misses += clients[i].misses;
        if (first_miss == NULL && clients[i].misses > 0)
            first_miss = clients[i].first_miss;
        latencies_merge(&answer, &clients[i].answer);
        latencies_merge(&view, &clients[i].view);
    }
    result_begin_row(r);
    result_text(r, mix->name);
    result_number(r, n);
    result_number(r, (double)views);
    result_number(r, 60.0 * (double)views / seconds);
    result_number(r, (double)latencies_quantile(&answer, 0.5) / 1e6);
    result_number(r, (double)latencies_quantile(&answer, 0.99) / 1e6);
    result_number(r, (double)latencies_quantile(&view, 0.5) / 1e6);
    result_number(r, (double)latencies_quantile(&view, 0.99) / 1e6);
    result_number(r, (double)refused);
    result_number(r, (double)compared);
    result_number(r, (double)misses);
    result_end_row(r);
    if (first_miss != NULL)
        result_note(r, "First miss of %s: %s.", mix->name, first_miss);
    *total += misses;
    /* A check that compared nothing has shown nothing. */
    if (misses > 0 || (compared == 0 && !reference_interrupted()))
        run->broken = true;
}

static enum otl_err run_mix(struct reference_run *run, const struct target *t,
                            const struct mix *mix, struct result *r, uint64_t *total,
                            struct otl_error *err)
{
    unsigned n = mix->clients > 0 ? mix->clients : run->o->connections;
    struct client *clients = calloc(n, sizeof(*clients));
    int64_t begin_ns;
    enum otl_err rc = OTL_OK;

    if (clients == NULL)
        return otl_fail(err, OTL_ENOMEM, "no memory for %u clients", n);
    for (unsigned i = 0; i < n; i++)
        http_client_init(&clients[i].http);
    for (unsigned i = 0; i < n && rc == OTL_OK; i++)
        rc = client_open(&clients[i], t, i, err);
    begin_ns = clock_mono_ns();
    if (rc == OTL_OK)
        rc = run_clients(clients, n, mix, run->o->step_ms, err);
    if (rc == OTL_OK)
        report_mix(run, r, mix, clients, n, (double)(clock_mono_ns() - begin_ns) / 1e9, total);
    for (unsigned i = 0; i < n; i++)
        client_close(&clients[i]);
    free(clients);
    return rc;
}

static enum otl_err r5_run(struct reference_run *run, struct otl_error *err)
{
    static const struct result_column columns[] = {
        {"mix", "mix", -1},
        {"clients", "clients", 0},
        {"views", "views", 0},
        {"views_per_minute", "views/minute", 0},
        {"answer_p50_ms", "answer p50 ms", 2},
        {"answer_p99_ms", "p99", 2},
        {"view_p50_ms", "with read-back p50 ms", 2},
        {"view_p99_ms", "p99", 2},
        {"refused", "refused", 0},
        {"points_compared", "points compared", 0},
        {"misses", "misses", 0},
        {NULL, NULL, 0},
    };
    struct result *r = NULL;
    struct target t;
    uint64_t misses = 0;
    enum otl_err rc, closed;

    if (run->o->connections > MAX_CLIENTS)
        return otl_fail(err, OTL_ECONFIG, "--connections takes at most %d clients here",
                        MAX_CLIENTS);
    rc = target_open(run->o, &t, err);
    if (rc != OTL_OK)
        return rc;
    rc = result_open(run->o->out, "reference-r5", "R5: read your writes", run->o->command, columns,
                     &r, err);
    if (rc == OTL_OK) {
        for (int i = 0; i < MIXES && rc == OTL_OK && !reference_interrupted(); i++)
            rc = run_mix(run, &t, &mixes[i], r, &misses, err);
        if (run->o->step_ms != PUBLISHED_STEP_MS)
            result_note(r, "The pauses of the users are scaled by %.4g, as the step is.",
                        (double)run->o->step_ms / PUBLISHED_STEP_MS);
        result_note(r, "Published: 5300 to 6200 requests a minute over these mixes.");
        result_note(r, "%s",
                    run->broken ? "NOT every answered point was at once there and equal."
                                : "Every answered point was at once there and equal.");
        reference_goal(run, r, "R5 misses", false, 1, (double)misses);
        closed = result_close(r, rc == OTL_OK ? err : NULL);
        rc = rc == OTL_OK ? closed : rc;
    }
    target_close(&t);
    return rc;
}

const struct reference_command reference_r5 = {
    .name = "r5",
    .summary = "read your writes: every answered point is at once there and equal",
    .help = "Each client sends ten points, waits for the 200, reads them back at once on another\n"
            "connection and compares every column; first in a closed loop with --connections\n"
            "clients, then 20 and 100 clients that pause. The pauses of the published mixes (10 s\n"
            "and 3 s) are scaled as --step is to a minute. Exit status 1 when a point was missing\n"
            "or different.\n",
    .step_ms = PUBLISHED_STEP_MS,
    .connections = 100,
    .run = r5_run,
};
