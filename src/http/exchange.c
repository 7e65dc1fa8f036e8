/* exchange.c -- one request and its answer: routing, refusals, the bytes of a reply.
 *
 * Invariants:
 *   E1  Each exchange that was handed out ends in http_reply exactly once, also when the client is
 *       gone, since only its handler knows when nobody else (the writer) looks at its body any
 * more. E2  The connection outlives its exchange, and so does the buffer that head and body lie in.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "http_internal.h"
#include "otlite/clock.h"
#include "otlite/log.h"
#include "otlite/reply.h"
#include "otlite/stats.h"

/* The least that a spare exchange keeps of a large answer's headers. */
enum { KEEP_EXTRA = 4096, KEEP_REPLY = 64 * 1024 };

static struct http_loop *loop_of(const struct http_exchange *x)
{
    return x->conn->loop;
}

struct http_exchange *exchange_new(struct connection *c)
{
    struct http_loop *l = c->loop;
    struct http_exchange *x = l->spare;

    if (x != NULL) {
        l->spare = x->next;
        l->n_spare--;
    } else {
        x = calloc(1, sizeof(*x));
        if (x == NULL)
            return NULL;
    }
    x->conn = c;
    x->route = NULL;
    x->method = 0;
    x->close = x->preflight = x->open = false;
    x->gone = NULL;
    x->head.has_line = false;
    x->head.n_fields = 0;
    return x;
}

static void exchange_delete(struct http_exchange *x)
{
    buf_fini(&x->extra);
    free(x);
}

void exchange_free(struct http_exchange *x)
{
    struct http_loop *l = loop_of(x);

    if (l->n_spare == SPARE_EXCHANGES || x->extra.cap > KEEP_EXTRA) {
        exchange_delete(x);
        return;
    }
    buf_reset(&x->extra);
    x->next = l->spare;
    l->spare = x;
    l->n_spare++;
}

void exchange_free_spare(struct http_loop *l)
{
    while (l->spare != NULL) {
        struct http_exchange *x = l->spare;

        l->spare = x->next;
        exchange_delete(x);
    }
    l->n_spare = 0;
}

bool http_encoding(const struct http_exchange *x, enum encoding *out)
{
    const char *type = http_header(x, "Content-Type");
    size_t n;

    if (type == NULL)
        return false;
    type += strspn(type, " \t");
    n = strcspn(type, "; \t");
    if (n == strlen("application/json") && strncasecmp(type, "application/json", n) == 0)
        *out = ENCODING_JSON;
    else if (n == strlen("application/x-protobuf") &&
             strncasecmp(type, "application/x-protobuf", n) == 0)
        *out = ENCODING_PROTOBUF;
    else
        return false;
    return true;
}

/* Seconds until a retry makes sense. SDKs give up when it exceeds what is left of their 10 s
 * (H-72). */
static const char *retry_after(enum otl_err code)
{
    return code == OTL_EFULL || code == OTL_EIO || code == OTL_ECORRUPT ? "5" : "1";
}

void http_reply_error(struct http_exchange *x, enum encoding enc, const struct otl_error *err)
{
    struct buf body = {0};
    int status = otl_err_http(err->code);

    if (status == 429 || status == 503)
        http_add_header(x, "Retry-After", retry_after(err->code));
    if (status == 401)
        http_add_header(x, "WWW-Authenticate", "Bearer realm=\"otlite\"");
    if (status == 413)
        http_close_after(x);
    if (err->code == OTL_EBUSY)
        connection_rest(x->conn);
    reply_status(enc, err, &body);
    http_reply(x, status, reply_content_type(enc), buf_bytes(&body));
    buf_fini(&body);
}

/* Before the body was looked at: JSON when the type is unusable (S02). */
static void reply_error(struct http_exchange *x, enum otl_err code, const char *text)
{
    struct otl_error err;
    enum encoding enc = ENCODING_JSON;

    (void)http_encoding(x, &enc);
    (void)otl_fail(&err, code, "%s", text);
    http_reply_error(x, enc, &err);
}

void exchange_refuse(struct http_exchange *x, enum otl_err code, const char *text)
{
    x->close = true;
    reply_error(x, code, text);
}

static unsigned method_bit(const struct head *h)
{
    static const struct {
        const char *name;
        unsigned bit;
    } methods[] = {{"POST", HTTP_POST}, {"GET", HTTP_GET}, {"HEAD", HTTP_HEAD}};

    for (size_t i = 0; h->has_line && i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (strcmp(h->text + h->method, methods[i].name) == 0)
            return methods[i].bit;
    }
    return 0; /* refused by the route (H-6) */
}

static bool route_takes(const struct http_route *r, const char *path)
{
    size_t n = strlen(r->path);

    if (r->path[n - 1] == '*')
        return strncmp(r->path, path, n - 1) == 0;
    return strcmp(r->path, path) == 0;
}

static const struct http_route *find_route(const struct http_exchange *x)
{
    const struct http_route *r = loop_of(x)->server->opts.routes;
    char *path = x->head.text + x->head.path;
    size_t n = strlen(path);

    if (n > 1 && path[n - 1] == '/')
        path[n - 1] = '\0';
    while (r->path != NULL && !route_takes(r, path))
        r++;
    return r->path != NULL ? r : NULL;
}

const char *http_path(const struct http_exchange *x)
{
    return x->head.text + x->head.path;
}

const char *http_query(const struct http_exchange *x)
{
    return x->head.text + x->head.query;
}

static void refuse_method(struct http_exchange *x)
{
    char text[512];

    (void)snprintf(text, sizeof(text), "%s%s", x->route->allow,
                   cors_is_on(&loop_of(x)->server->opts.cors) ? ", OPTIONS" : "");
    http_add_header(x, "Allow", text);
    (void)snprintf(text, sizeof(text), "the method is not allowed here; use %s", x->route->allow);
    reply_error(x, OTL_EMETHOD, text);
}

bool exchange_admit(struct http_exchange *x)
{
    const struct http_opts *o = &loop_of(x)->server->opts;
    char text[512];

    x->method = method_bit(&x->head);
    x->route = find_route(x);
    if (x->route == NULL) {
        (void)snprintf(text, sizeof(text),
                       "nothing is served at %.200s; metrics go to POST /v1/metrics (other signals "
                       "are not taken here)",
                       x->head.text + x->head.path);
        reply_error(x, OTL_ENOTFOUND, text);
        return false;
    }
    if (cors_preflight(&o->cors, x)) {
        http_reply(x, 204, NULL, bytes_of(NULL, 0));
        return false;
    }
    if ((x->route->methods & x->method) == 0) {
        refuse_method(x);
        return false;
    }
    if (x->head.expect == EXPECT_OTHER) {
        exchange_refuse(x, OTL_EEXPECT, "the only expectation that is met is 100-continue");
        return false;
    }
    if (x->route->admit != NULL && !x->route->admit(x, x->route->arg))
        return false;
    if (x->head.has_length && x->head.length > o->max_body_bytes) {
        (void)snprintf(text, sizeof(text),
                       "the body is larger than %zu bytes (http.max_body); send smaller batches",
                       o->max_body_bytes);
        reply_error(x, OTL_ETOOBIG, text);
        return false;
    }
    return true;
}

static void count_open(struct http_loop *l, int change)
{
    l->exchanges += (unsigned)change;
    /* Written by this loop alone. */
    atomic_store_explicit(&l->open_exchanges, l->exchanges, memory_order_release);
}

void exchange_handle(struct http_exchange *x)
{
    x->open = true;
    count_open(loop_of(x), 1);
    x->route->handle(x, x->route->arg);
}

const char *http_header(const struct http_exchange *x, const char *name)
{
    return head_find(&x->head, name);
}

unsigned http_header_count(const struct http_exchange *x, const char *name)
{
    return head_count(&x->head, name);
}

bool http_content_length(const struct http_exchange *x, uint64_t *out)
{
    if (!x->head.has_length)
        return false;
    *out = x->head.length;
    return true;
}

const char *http_peer(const struct http_exchange *x)
{
    return x->conn->peer;
}

struct bytes http_body(struct http_exchange *x)
{
    const struct connection *c = x->conn;

    return bytes_of(c->in->data + c->start + c->head_n, c->body_n);
}

struct http_loop *http_exchange_loop(struct http_exchange *x)
{
    return loop_of(x);
}

void http_watch_client(struct http_exchange *x, atomic_bool *gone)
{
    x->gone = gone;
    if (x->conn->hung_up)
        atomic_store(gone, true);
}

bool http_stopping(const struct http_exchange *x)
{
    return atomic_load_explicit(&loop_of(x)->server->stopping, memory_order_relaxed);
}

void http_add_header(struct http_exchange *x, const char *name, const char *value)
{
    /* A line's end in a value would let it write headers of its own. */
    if (value[strcspn(value, "\r\n")] != '\0')
        return;
    buf_add_str(&x->extra, name);
    buf_add_str(&x->extra, ": ");
    buf_add_str(&x->extra, value);
    buf_add_str(&x->extra, "\r\n");
}

void http_close_after(struct http_exchange *x)
{
    x->close = true;
}

static const char *reason_of(int status)
{
    static const struct {
        int status;
        const char *text;
    } reasons[] = {{200, "OK"},
                   {204, "No Content"},
                   {400, "Bad Request"},
                   {401, "Unauthorized"},
                   {403, "Forbidden"},
                   {404, "Not Found"},
                   {405, "Method Not Allowed"},
                   {413, "Content Too Large"},
                   {415, "Unsupported Media Type"},
                   {417, "Expectation Failed"},
                   {429, "Too Many Requests"},
                   {431, "Request Header Fields Too Large"},
                   {500, "Internal Server Error"},
                   {501, "Not Implemented"},
                   {503, "Service Unavailable"}};

    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        if (reasons[i].status == status)
            return reasons[i].text;
    }
    return "";
}

static void add_number(struct buf *b, size_t v)
{
    char digits[24], *p = digits + sizeof(digits);

    do {
        *--p = (char)('0' + v % 10);
        v /= 10;
    } while (v > 0);
    buf_add(b, p, (size_t)(digits + sizeof(digits) - p));
}

static void add_line(struct buf *b, const char *name, const char *value)
{
    buf_add_str(b, name);
    buf_add_str(b, value);
    buf_add_str(b, "\r\n");
}

/* RFC 9110 5.6.7; made once a second. */
static const char *date_now(struct http_loop *l)
{
    time_t now = (time_t)(clock_wall_ns() / NS_PER_S);
    struct tm tm;

    if (l->date[0] == '\0' || now != (time_t)l->date_s) {
        l->date_s = now;
        if (gmtime_r(&now, &tm) == NULL ||
            strftime(l->date, sizeof(l->date), "%a, %d %b %Y %H:%M:%S GMT", &tm) == 0)
            l->date[0] = '\0';
    }
    return l->date;
}

static void compose(struct http_exchange *x, int status, const char *content_type,
                    struct bytes body)
{
    struct buf *b = &loop_of(x)->reply;

    buf_reset(b);
    buf_add_str(b, "HTTP/1.1 ");
    add_number(b, (size_t)status);
    buf_add_char(b, ' ');
    add_line(b, reason_of(status), "");
    add_line(b, "Date: ", date_now(loop_of(x)));
    if (content_type != NULL)
        add_line(b, "Content-Type: ", content_type);
    buf_add_bytes(b, buf_bytes(&x->extra));
    if (x->close)
        buf_add_str(b, "Connection: close\r\n");
    else if (x->head.minor == 0)
        buf_add_str(b, "Connection: keep-alive\r\n");
    if (status != 204) {
        /* Always said, so that an empty body has a length too (H-60: zero bytes). */
        buf_add_str(b, "Content-Length: ");
        add_number(b, body.n);
        buf_add_str(b, "\r\n");
    }
    buf_add_str(b, "\r\n");
    if (x->method != HTTP_HEAD)
        buf_add_bytes(b, body);
    if (b->failed || x->extra.failed) {
        /* No memory for a few hundred bytes: say so without any; the sender tries again. */
        static const char sorry[] = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
                                    "Connection: close\r\nContent-Length: 0\r\n\r\n";

        buf_fini(b);
        buf_fini(&x->extra);
        x->close = true;
        connection_replied(x->conn, bytes_str(sorry), true);
        return;
    }
    connection_replied(x->conn, buf_bytes(b), x->close);
}

void http_reply(struct http_exchange *x, int status, const char *content_type, struct bytes body)
{
    struct http_loop *l = loop_of(x);

    assert(x->conn->x == x);
    if (status > 0 && status < STATS_MAX_STATUS)
        STATS_ADD(requests[status], 1);
    if (x->open)
        count_open(l, -1);
    cors_answer(&l->server->opts.cors, x);
    x->close = x->close || x->head.close || http_stopping(x) || !connection_can_go_on(x->conn);
    compose(x, status, content_type, body);
    if (l->reply.cap > KEEP_REPLY)
        buf_fini(&l->reply);
}
