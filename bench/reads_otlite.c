/* reads_otlite.c -- a daemon of our own: points by POST /v1/metrics like any sender's, queries by
 * POST /api/v1/sql and windows(), over a connection that is kept. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "child.h"
#include "daemon.h"
#include "http_post.h"
#include "otlite/clock.h"
#include "reads.h"
#include "reads_otlp.h"

enum { SERVICES_A_REQUEST = 25, CONNECTIONS = 4, MAX_SETTINGS = 32, AGAIN_MS = 20 };

struct otlite {
    struct reads_env env;
    char data[4096], log[4096], write_url[128];
    struct daemon daemon;
    struct http_url write, ask;
    struct http_client clients[CONNECTIONS]; /* the first one asks, too */
    struct buf wire[CONNECTIONS];
    bool waiting[CONNECTIONS];
    struct reads_request *requests;
    uint32_t n_requests;
    struct buf sql;
};

static void disconnect(struct otlite *o)
{
    for (int i = 0; i < CONNECTIONS; i++) {
        http_client_close(&o->clients[i]);
        o->waiting[i] = false;
    }
}

static void otlite_stop(void *self)
{
    struct otlite *o = self;

    if (o == NULL)
        return;
    for (int i = 0; i < CONNECTIONS; i++) {
        http_client_fini(&o->clients[i]);
        buf_fini(&o->wire[i]);
    }
    (void)daemon_stop(&o->daemon);
    for (uint32_t i = 0; i < o->n_requests; i++)
        reads_request_fini(&o->requests[i]);
    free(o->requests);
    buf_fini(&o->sql);
    free(o);
}

static enum otl_err otlite_resume(void *self, struct otl_error *err)
{
    struct otlite *o = self;
    const struct daemon_opts opts = {.data_dir = o->data, .settings = o->env.settings};
    char url[128];
    enum otl_err rc = daemon_start(&opts, &o->daemon, err);

    if (rc != OTL_OK)
        return rc;
    snprintf(o->write_url, sizeof(o->write_url), "%s", o->daemon.url);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u/api/v1/sql", o->daemon.port);
    rc = http_url_parse(o->write_url, &o->write, err);
    return rc == OTL_OK ? http_url_parse(url, &o->ask, err) : rc;
}

static enum otl_err otlite_halt(void *self, struct otl_error *err)
{
    struct otlite *o = self;

    disconnect(o);
    return daemon_stop(&o->daemon) ? OTL_OK
                                   : otl_fail(err, OTL_ESYSTEM, "the daemon had to be killed");
}

static enum otl_err otlite_start(const struct reads_env *env, void **out_self,
                                 struct otl_error *err)
{
    struct otlite *o = calloc(1, sizeof(*o));
    enum otl_err rc;

    if (o == NULL)
        return otl_fail(err, OTL_ENOMEM, "no memory for otlite's side");
    o->env = *env;
    snprintf(o->data, sizeof(o->data), "%.4000s/data", env->dir);
    snprintf(o->log, sizeof(o->log), "%.4000s/compact.log", env->dir);
    for (int i = 0; i < CONNECTIONS; i++)
        http_client_init(&o->clients[i]);
    rc = otlite_resume(o, err);
    if (rc != OTL_OK) {
        otlite_stop(o);
        return rc;
    }
    *out_self = o;
    return OTL_OK;
}

/* ---- the way in ---- */

static enum otl_err settle(struct otlite *o, int i, struct otl_error *err)
{
    enum otl_err rc;

    if (!o->waiting[i])
        return OTL_OK;
    o->waiting[i] = false;
    rc = http_await(&o->clients[i], err);
    while (rc == OTL_OK && o->clients[i].status == 503) { /* sealing is behind */
        const struct timespec pause = {.tv_nsec = AGAIN_MS * NS_PER_MS};

        nanosleep(&pause, NULL);
        rc = http_send_all(&o->clients[i], &o->write, buf_bytes(&o->wire[i]), err);
        if (rc == OTL_OK)
            rc = http_await(&o->clients[i], err);
    }
    if (rc == OTL_OK && o->clients[i].status != 200)
        rc = otl_fail(err, OTL_EBADDATA, "otlite answers %d: %.*s", o->clients[i].status,
                      (int)(o->clients[i].body.n < 300 ? o->clients[i].body.n : 300),
                      (const char *)o->clients[i].body.p);
    return rc;
}

static enum otl_err make_requests(struct otlite *o, const struct series_gen *g,
                                  struct otl_error *err)
{
    uint32_t n = (g->services + SERVICES_A_REQUEST - 1) / SERVICES_A_REQUEST;
    enum otl_err rc = OTL_OK;

    o->requests = calloc(n, sizeof(*o->requests));
    if (o->requests == NULL)
        return otl_fail(err, OTL_ENOMEM, "no memory for the requests");
    for (; o->n_requests < n && rc == OTL_OK; o->n_requests++) {
        uint32_t first = o->n_requests * SERVICES_A_REQUEST, left = g->services - first;

        rc = reads_request_init(&o->requests[o->n_requests], g, first,
                                left < SERVICES_A_REQUEST ? left : SERVICES_A_REQUEST, err);
    }
    return rc;
}

static enum otl_err otlite_add(void *self, const struct series_gen *g, struct otl_error *err)
{
    struct otlite *o = self;
    enum otl_err rc = o->requests == NULL ? make_requests(o, g, err) : OTL_OK;

    for (uint32_t i = 0; i < o->n_requests && rc == OTL_OK; i++) {
        int at = (int)(i % CONNECTIONS);
        struct buf *wire = &o->wire[at];

        rc = settle(o, at, err);
        if (rc != OTL_OK)
            break;
        reads_request_fill(&o->requests[i], g);
        buf_reset(wire);
        buf_printf(wire,
                   "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-protobuf\r\n"
                   "Content-Length: %zu\r\n\r\n",
                   o->write.path, o->write.host, o->requests[i].body.n);
        buf_add_bytes(wire, buf_bytes(&o->requests[i].body));
        if (wire->failed)
            return otl_fail(err, OTL_ENOMEM, "no memory for a request");
        rc = http_send_all(&o->clients[at], &o->write, buf_bytes(wire), err);
        o->waiting[at] = rc == OTL_OK;
    }
    return rc;
}

/* All answered; then what is in the head sealed, and what is small merged, as the daemon would do
 * in time. */
static enum otl_err otlite_finish(void *self, struct otl_error *err)
{
    struct otlite *o = self;
    const char *argv[5 + 2 * MAX_SETTINGS] = {NULL, "compact", "--data", o->data};
    char program[4096];
    struct buf said = {0};
    enum otl_err rc = OTL_OK;

    for (int i = 0; i < CONNECTIONS && rc == OTL_OK; i++)
        rc = settle(o, i, err);
    if (rc == OTL_OK)
        rc = otlite_halt(o, err);
    if (rc == OTL_OK)
        rc = child_beside("otlite", program, sizeof(program), err);
    argv[0] = program;
    for (size_t i = 0; o->env.settings != NULL && o->env.settings[i] != NULL && i < MAX_SETTINGS;
         i++) {
        argv[4 + 2 * i] = "--set";
        argv[5 + 2 * i] = o->env.settings[i];
    }
    if (rc == OTL_OK)
        rc = child_run(argv, o->log, &said, err);
    buf_fini(&said);
    return rc == OTL_OK ? otlite_resume(o, err) : rc;
}

/* ---- the way out ---- */

/* o->sql, whose rows become out's. */
static enum otl_err ask_sql(struct otlite *o, struct answer *out, int64_t *out_ns,
                            struct otl_error *err)
{
    struct http_client *c = &o->clients[0];
    struct buf head = {0}, text = {0};
    int64_t begin_ns;
    enum otl_err rc;

    buf_printf(&head,
               "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: text/plain\r\nAccept: text/csv\r\n",
               o->ask.path, o->ask.host);
    begin_ns = clock_mono_ns();
    rc = http_post(c, &o->ask, &o->wire[0], buf_cstr(&head), buf_bytes(&o->sql), err);
    *out_ns = clock_mono_ns() - begin_ns;
    buf_fini(&head);
    if (rc != OTL_OK)
        return rc;
    buf_add_bytes(&text, c->body);
    if (c->status != 200 || text.failed || !answer_parse(out, buf_cstr(&text), text.n))
        rc = otl_fail(err, OTL_EBADDATA, "otlite answers %d: %.300s", c->status, buf_cstr(&text));
    buf_fini(&text);
    return rc;
}

static void write_selector(struct buf *b, const struct panel *p)
{
    struct buf names = {0};
    bool single;
    char instance[16];

    if (p->span == SPAN_LIVE) {
        buf_add_str(b, "{__name__=~\".+\"}");
        return;
    }
    panel_names(p, &names, &single);
    buf_printf(b, "{__name__%s\"", single ? "=" : "=~");
    for (size_t i = 0; i < names.n; i++) {
        if (names.p[i] == '\\')
            buf_add_char(b, '\\'); /* a backslash in the quotes of a selector */
        buf_add_char(b, (char)names.p[i]);
    }
    buf_add_char(b, '"');
    if (p->production)
        buf_add_str(b, ",environment=\"production\"");
    if (p->what == PANEL_RAW) {
        reads_instance(RAW_SERIES, instance);
        buf_printf(b, ",instance=\"%s\"", instance);
    }
    buf_add_char(b, '}');
    b->failed = b->failed || names.failed;
    buf_fini(&names);
}

static void write_query(struct buf *b, const struct panel *p, const struct range *r)
{
    static const char *const groups[] = {"0", "CAST(substr(label(labels,'service'),5) AS INTEGER)",
                                         "CAST(substr(label(labels,'instance'),3) AS INTEGER)"};
    static const char *const by[] = {"", ",'service'", ",'instance'"};
    static const char *const values[] = {
        [PANEL_SUM] = "sum,0",   [PANEL_MEAN] = "avg,0",           [PANEL_MAX] = "max,0",
        [PANEL_RATE] = "rate,0", [PANEL_MEAN_AND_MAX] = "avg,max",
    };

    buf_reset(b);
    if (p->what == PANEL_RAW) {
        buf_printf(b,
                   "SELECT 0 AS g, (time-%" PRId64 ")/%" PRId64
                   " AS w, value, 0 FROM number_point WHERE series_id IN (SELECT series_id FROM "
                   "series_match('",
                   r->from_ns, r->step_ns);
        write_selector(b, p);
        buf_printf(b, "')) AND time>=%" PRId64 " AND time<%" PRId64, r->from_ns, r->to_ns);
        return;
    }
    buf_printf(b, "SELECT %s AS g, (time-%" PRId64 ")/%" PRId64 " AS w, %s FROM windows('",
               groups[p->by], r->from_ns, r->step_ns, values[p->what]);
    write_selector(b, p);
    buf_printf(b, "',%" PRId64 ",%" PRId64 ",%" PRId64 "%s)", r->from_ns, r->to_ns, r->step_ns,
               by[p->by]);
}

static enum otl_err otlite_ask(void *self, const struct panel *p, struct answer *out,
                               int64_t *out_ns, struct otl_error *err)
{
    struct otlite *o = self;
    struct range r = panel_range(p, &o->env.gen);

    if (p->span == SPAN_LIVE) {
        r.to_ns = INT64_C(9000000000000000000);
        r.step_ns = r.to_ns - r.from_ns;
    }
    write_query(&o->sql, p, &r);
    return ask_sql(o, out, out_ns, err);
}

static enum otl_err otlite_count(void *self, uint64_t *out_points, double *out_sum,
                                 struct otl_error *err)
{
    static const struct panel all = {.what = PANEL_SUM, .metrics = ALL_METRICS};
    struct otlite *o = self;
    struct answer a = {0};
    int64_t ns;
    enum otl_err rc;

    buf_reset(&o->sql);
    buf_add_str(&o->sql, "SELECT 0 AS g, 0, count, sum FROM windows('");
    write_selector(&o->sql, &all);
    buf_add_str(&o->sql, "', 0, 9000000000000000000, 9000000000000000000)");
    rc = ask_sql(o, &a, &ns, err);
    if (rc == OTL_OK && a.n != 1)
        rc = otl_fail(err, OTL_EBADDATA, "otlite counts no points");
    if (rc == OTL_OK) {
        *out_points = (uint64_t)a.rows[0].values[0];
        *out_sum = a.rows[0].values[1];
    }
    answer_fini(&a);
    return rc;
}

static const char *otlite_load_url(void *self, bool *out_influx)
{
    *out_influx = false;
    return ((struct otlite *)self)->write_url;
}

static uint64_t otlite_bytes(void *self)
{
    return directory_bytes(((struct otlite *)self)->data);
}

const struct reads_system reads_otlite = {
    .key = "otlite",
    .name = "otlite",
    .start = otlite_start,
    .add = otlite_add,
    .finish = otlite_finish,
    .count = otlite_count,
    .halt = otlite_halt,
    .resume = otlite_resume,
    .ask = otlite_ask,
    .load_url = otlite_load_url,
    .bytes = otlite_bytes,
    .stop = otlite_stop,
};
