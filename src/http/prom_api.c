/* prom_api.c -- the Prometheus HTTP API. A query runs on a reader thread in a snapshot of its own;
 * the event loop only reads parameters, hands over, and sends the answer. */
#include "otlite/prom_api.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#include "http/form.h"
#include "otlite/clock.h"
#include "otlite/stats.h"

/* An answer below this is sent as it is. */
enum { GZIP_FROM_BYTES = 1400 };

#define GET       "GET, HEAD"
#define BOTH      "GET, HEAD, POST"
#define GET_BITS  (HTTP_GET | HTTP_HEAD)
#define BOTH_BITS (HTTP_GET | HTTP_HEAD | HTTP_POST)

static const char API[] = "/api/v1/";

const struct prom_api_path prom_api_paths[] = {{"/api/v1/query", BOTH, BOTH_BITS},
                                               {"/api/v1/query_range", BOTH, BOTH_BITS},
                                               {"/api/v1/query_exemplars", BOTH, BOTH_BITS},
                                               {"/api/v1/series", BOTH, BOTH_BITS},
                                               {"/api/v1/labels", BOTH, BOTH_BITS},
                                               {"/api/v1/label/*", GET, GET_BITS},
                                               {"/api/v1/metadata", GET, GET_BITS},
                                               {"/api/v1/format_query", BOTH, BOTH_BITS},
                                               {"/api/v1/parse_query", BOTH, BOTH_BITS},
                                               {"/api/v1/status/*", GET, GET_BITS},
                                               {"/api/v1/targets", GET, GET_BITS},
                                               {"/api/v1/rules", GET, GET_BITS},
                                               {"/api/v1/alerts", GET, GET_BITS},
                                               {NULL, NULL, 0}};

struct prom_job {
    struct read_job job;
    struct http_exchange *x;
    struct query_engine *engine;
    struct query_request request;
    struct form form;
    uint8_t *label; /* decoded NAME of label/NAME/values */
    atomic_bool gone;
    bool gzip; /* the client takes it */
    bool gzipped;
    int status;
    struct buf answer;
};

static struct prom_job *job_of(struct read_job *job)
{
    return (struct prom_job *)(void *)((char *)job - offsetof(struct prom_job, job));
}

/* ---- the request ---- */

/* What is behind /api/v1/, whatever prefix is in front. */
static const char *tail_of(const struct http_exchange *x)
{
    const char *tail = http_path(x), *next;

    while ((next = strstr(tail, API)) != NULL)
        tail = next + sizeof(API) - 1;
    return tail;
}

static bool find_endpoint(struct prom_job *p, const char *tail)
{
    static const struct {
        const char *tail;
        enum query_endpoint endpoint;
    } endpoints[] = {{"query", QUERY_INSTANT},
                     {"query_range", QUERY_RANGE},
                     {"query_exemplars", QUERY_EXEMPLARS},
                     {"series", QUERY_SERIES},
                     {"labels", QUERY_LABELS},
                     {"metadata", QUERY_METADATA},
                     {"format_query", QUERY_FORMAT},
                     {"parse_query", QUERY_PARSE},
                     {"status/buildinfo", QUERY_BUILDINFO},
                     {"status/tsdb", QUERY_TSDB},
                     {"status/config", QUERY_CONFIG},
                     {"status/flags", QUERY_FLAGS},
                     {"status/runtimeinfo", QUERY_RUNTIMEINFO},
                     {"targets", QUERY_TARGETS},
                     {"rules", QUERY_RULES},
                     {"alerts", QUERY_ALERTS}};
    static const char values[] = "/values";
    size_t n = strlen(tail);

    for (size_t i = 0; i < sizeof(endpoints) / sizeof(endpoints[0]); i++) {
        if (strcmp(endpoints[i].tail, tail) == 0) {
            p->request.endpoint = endpoints[i].endpoint;
            return true;
        }
    }
    if (n <= 6 + sizeof(values) - 1 || strncmp(tail, "label/", 6) != 0 ||
        strcmp(tail + n - sizeof(values) + 1, values) != 0)
        return false;
    n -= 6 + sizeof(values) - 1;
    p->label = malloc(n + 1);
    if (p->label == NULL)
        return false;
    p->request.endpoint = QUERY_LABEL_VALUES;
    p->request.label = bytes_of(p->label, form_decode(bytes_of(tail + 6, n), false, p->label));
    return true;
}

static bool is_form(const struct http_exchange *x)
{
    static const char type[] = "application/x-www-form-urlencoded";
    const char *sent = http_header(x, "Content-Type");

    if (sent == NULL)
        return false;
    sent += strspn(sent, " \t");
    return strncasecmp(sent, type, sizeof(type) - 1) == 0;
}

static enum otl_err read_form(struct prom_job *p, struct otl_error *err)
{
    struct bytes query = bytes_str(http_query(p->x));
    struct bytes body = is_form(p->x) ? http_body(p->x) : bytes_of(NULL, 0);

    if (!form_init(&p->form, query.n + body.n) || !form_add(&p->form, query) ||
        !form_add(&p->form, body))
        return otl_fail(err, OTL_ENOMEM, "query: no memory");
    p->request.params = p->form.params;
    p->request.n_params = p->form.n;
    return OTL_OK;
}

/* ---- the answer ---- */

static void finish(struct prom_job *p)
{
    if (p->answer.failed) {
        struct otl_error err;

        buf_fini(&p->answer);
        p->answer = (struct buf){0};
        p->gzipped = false;
        (void)otl_fail(&err, OTL_ENOMEM, "query: no memory for the answer");
        p->status = query_answer_error(&err, &p->answer);
    }
    if (p->status == 401)
        http_add_header(p->x, "WWW-Authenticate", "Bearer realm=\"otlite\"");
    if (p->status == 503)
        http_add_header(p->x, "Retry-After", "1");
    if (p->gzip)
        http_add_header(p->x, "Vary", "Accept-Encoding");
    if (p->gzipped)
        http_add_header(p->x, "Content-Encoding", "gzip");
    http_reply(p->x, p->status, "application/json", buf_bytes(&p->answer));
    buf_fini(&p->answer);
    form_fini(&p->form);
    free(p->label);
    free(p);
}

static void finish_error(struct prom_job *p, const struct otl_error *err)
{
    buf_reset(&p->answer);
    p->status = query_answer_error(err, &p->answer);
    finish(p);
}

/* The answer compressed; as it was when that cannot be done. */
static void compress_answer(struct prom_job *p)
{
    z_stream z = {0};
    struct buf out = {0};

    if (p->answer.n < GZIP_FROM_BYTES || p->answer.n > UINT32_MAX ||
        deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return;
    if (buf_reserve(&out, deflateBound(&z, (uLong)p->answer.n))) {
        z.next_in = p->answer.p;
        z.avail_in = (uInt)p->answer.n;
        z.next_out = out.p;
        z.avail_out = out.cap > UINT32_MAX ? UINT32_MAX : (uInt)out.cap;
        if (deflate(&z, Z_FINISH) == Z_STREAM_END) {
            struct buf plain = p->answer;

            out.n = z.total_out;
            p->answer = out;
            out = plain;
            p->gzipped = true;
        }
    }
    (void)deflateEnd(&z);
    buf_fini(&out);
}

static enum otl_err work(struct read_job *job, struct db *db, struct otl_error *err)
{
    struct prom_job *p = job_of(job);

    (void)db;
    (void)err;
    STATS_ADD(queries, 1);
    STATS_ADD(queries_running, 1);
    p->status = query_answer(p->engine, job->session, false, &p->request, &p->answer);
    if (atomic_load_explicit(&p->gone, memory_order_relaxed))
        STATS_ADD(queries_cancelled, 1);
    else if (p->gzip && !p->answer.failed)
        compress_answer(p);
    STATS_SUB(queries_running, 1);
    return OTL_OK;
}

static void on_answered(struct handoff_item *item)
{
    struct read_job *job =
        (struct read_job *)(void *)((char *)item - offsetof(struct read_job, done));

    if (job->rc != OTL_OK)
        finish_error(job_of(job), &job->err);
    else
        finish(job_of(job));
}

/* ---- the route ---- */

static void reply_error(struct http_exchange *x, const struct otl_error *err)
{
    struct buf body = {0};
    int status = query_answer_error(err, &body);

    if (status == 401)
        http_add_header(x, "WWW-Authenticate", "Bearer realm=\"otlite\"");
    if (status == 503)
        http_add_header(x, "Retry-After", "1");
    http_reply(x, status, "application/json", buf_bytes(&body));
    buf_fini(&body);
}

bool prom_api_admit(struct http_exchange *x, void *arg)
{
    const struct prom_api *a = arg;
    struct principal who;
    struct otl_error err;

    if (auth_check(a->auth, x, SCOPE_READ, &who, &err) == OTL_OK)
        return true;
    reply_error(x, &err);
    return false;
}

void prom_api_handle(struct http_exchange *x, void *arg)
{
    const struct prom_api *a = arg;
    const char *accept = http_header(x, "Accept-Encoding");
    struct prom_job *p = calloc(1, sizeof(*p));
    struct principal who;
    struct otl_error err;
    enum otl_err rc;

    if (p == NULL) {
        (void)otl_fail(&err, OTL_ENOMEM, "query: no memory");
        reply_error(x, &err);
        return;
    }
    p->x = x;
    p->engine = a->engine;
    p->gzip = accept != NULL && strcasestr(accept, "gzip") != NULL;
    /* Again, since a token may have been revoked while the body came. */
    rc = auth_check(a->auth, x, SCOPE_READ, &who, &err);
    if (rc == OTL_OK && !find_endpoint(p, tail_of(x)))
        rc = otl_fail(&err, OTL_ENOTFOUND, "there is no endpoint %.200s", http_path(x));
    if (rc == OTL_OK)
        rc = read_form(p, &err);
    if (rc == OTL_OK) {
        p->request.project_id = (who.scopes & SCOPE_ADMIN) != 0 ? 0 : who.project_id;
        p->request.now_ms = clock_wall_ns() / NS_PER_MS;
        p->request.cancel = &p->gone;
        p->job.reply_to = http_loop_handoff(http_exchange_loop(x));
        p->job.done.run = on_answered;
        p->job.work = work;
        http_watch_client(x, &p->gone);
        rc = reader_submit(a->readers, &p->job, &err);
    }
    if (rc != OTL_OK)
        finish_error(p, &err);
}
