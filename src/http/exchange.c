/* exchange.c -- one request and its answer: the framing that evhttp lets through, routing, reply.
 *
 * Invariants:
 *   I4  x->req == NULL means that the client or the server is gone; every send path checks it.
 *   E1  Each exchange ends in http_reply exactly once, also when the client is gone, since only
 *       its handler knows when nobody else (the writer) looks at its body any more.
 *   E2  The body is taken out of evhttp's request at once: evhttp frees the request with the
 *       connection, while the writer may still be reading a batch that borrows the body. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>

#include <event2/keyvalq_struct.h>

#include "http_internal.h"
#include "otlite/log.h"
#include "otlite/reply.h"
#include "otlite/stats.h"

/* evhttp is about to free the connection, and with it the request. The sweep does the rest. */
static void on_close(struct evhttp_connection *evcon, void *arg)
{
    struct http_loop *l = arg;
    struct connection *c = connection_find(l, evhttp_connection_get_bufferevent(evcon));

    if (c != NULL)
        connection_detach(c);
}

/* The answer is on the wire. */
static void on_complete(struct evhttp_request *req, void *arg)
{
    struct http_loop *l = arg;
    struct evhttp_connection *evcon = evhttp_request_get_connection(req);
    struct connection *c;

    if (evcon == NULL)
        return;
    c = connection_find(l, evhttp_connection_get_bufferevent(evcon));
    if (c == NULL)
        return;
    /* A pipelined request may be here already, whole or in part. */
    connection_enter(c, evbuffer_get_length(bufferevent_get_input(c->bev)) > 0 ? CONN_READING
                                                                               : CONN_IDLE);
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

/* Where two readers of the same bytes could disagree about the end of the body, refuse and close:
 * what follows may be the body of one reader and a request of the other (S03, H-33, H-35). */
static enum otl_err check_framing(struct http_exchange *x, const char **why)
{
    struct evkeyvalq *in = evhttp_request_get_input_headers(x->req);
    struct evkeyval *h;
    unsigned lengths = 0, encodings = 0;
    bool chunked = false;

    for (h = in->tqh_first; h != NULL; h = h->next.tqe_next) {
        for (const unsigned char *p = (const unsigned char *)h->key; *p != '\0'; p++) {
            if (*p <= ' ' || *p >= 0x7f) {
                *why = "a header name holds a blank or a character that is not ASCII";
                return OTL_EBADREQUEST;
            }
        }
        if (strcasecmp(h->key, "Content-Length") == 0) {
            lengths++;
            if (h->value[0] == '\0' || h->value[strspn(h->value, "0123456789")] != '\0') {
                *why = "Content-Length is not a decimal number";
                return OTL_EBADREQUEST;
            }
        } else if (strcasecmp(h->key, "Transfer-Encoding") == 0) {
            encodings++;
            chunked = strcasecmp(h->value, "chunked") == 0;
            if (!chunked) {
                *why = "the only Transfer-Encoding served is chunked";
                return OTL_ETE;
            }
        }
    }
    if (lengths > 1 || encodings > 1) {
        *why = "more than one Content-Length or Transfer-Encoding";
        return OTL_EBADREQUEST;
    }
    if (lengths > 0 && chunked) {
        *why = "both Content-Length and Transfer-Encoding";
        return OTL_EBADREQUEST;
    }
    return OTL_OK;
}

static unsigned method_bit(const struct evhttp_request *req)
{
    switch (evhttp_request_get_command(req)) {
    case EVHTTP_REQ_GET:
        return HTTP_GET;
    case EVHTTP_REQ_HEAD:
        return HTTP_HEAD;
    case EVHTTP_REQ_POST:
        return HTTP_POST;
    default: /* also values outside the enum, for methods that libevent does not know (H-6) */
        return 0;
    }
}

static bool set_path(struct http_exchange *x)
{
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(x->req);
    const char *path = uri != NULL ? evhttp_uri_get_path(uri) : NULL;
    size_t n;

    x->path = strdup(path != NULL && path[0] != '\0' ? path : "/");
    if (x->path == NULL)
        return false;
    n = strlen(x->path);
    if (n > 1 && x->path[n - 1] == '/')
        x->path[n - 1] = '\0';
    return true;
}

static const struct http_route *find_route(const struct http_exchange *x)
{
    const struct http_route *r = x->loop->server->opts.routes;

    while (r->path != NULL && strcmp(r->path, x->path) != 0)
        r++;
    return r->path != NULL ? r : NULL;
}

static void route(struct http_exchange *x)
{
    const char *why = NULL;
    char text[512];
    enum otl_err rc = check_framing(x, &why);

    if (rc != OTL_OK) {
        x->close = true;
        reply_error(x, rc, why);
        return;
    }
    x->route = find_route(x);
    if (x->route == NULL) {
        (void)snprintf(text, sizeof(text),
                       "nothing is served at %.200s; metrics go to POST /v1/metrics (other signals "
                       "are not taken here)",
                       x->path);
        reply_error(x, OTL_ENOTFOUND, text);
        return;
    }
    if (cors_preflight(&x->loop->server->opts.cors, x->req)) {
        http_reply(x, 204, NULL, bytes_of(NULL, 0));
        return;
    }
    if ((x->route->methods & x->method) == 0) {
        const struct cors_opts *cors = &x->loop->server->opts.cors;
        bool cors_on = cors->origins != NULL && cors->origins[0] != NULL;

        (void)snprintf(text, sizeof(text), "%s%s", x->route->allow, cors_on ? ", OPTIONS" : "");
        http_add_header(x, "Allow", text);
        (void)snprintf(text, sizeof(text), "the method is not allowed here; use %s",
                       x->route->allow);
        reply_error(x, OTL_EMETHOD, text);
        return;
    }
    x->route->handle(x, x->route->arg);
}

void exchange_begin(struct evhttp_request *req, void *loop)
{
    struct http_loop *l = loop;
    struct evhttp_connection *evcon = evhttp_request_get_connection(req);
    struct http_exchange *x = calloc(1, sizeof(*x));
    struct connection *c =
        evcon != NULL ? connection_find(l, evhttp_connection_get_bufferevent(evcon)) : NULL;
    char *peer = NULL;
    ev_uint16_t port = 0;

    if (x == NULL || c == NULL || (x->body = evbuffer_new()) == NULL ||
        evbuffer_add_buffer(x->body, evhttp_request_get_input_buffer(req)) != 0 ||
        (evbuffer_get_length(x->body) > 0 && evbuffer_pullup(x->body, -1) == NULL)) {
        if (x != NULL && x->body != NULL)
            evbuffer_free(x->body);
        free(x);
        (void)evhttp_add_header(evhttp_request_get_output_headers(req), "Retry-After", "1");
        evhttp_send_reply(req, 503, NULL, NULL);
        return;
    }
    evhttp_connection_get_peer(evcon, &peer, &port);
    (void)snprintf(x->peer, sizeof(x->peer), "%s", peer != NULL ? peer : "");
    x->loop = l;
    x->conn = c;
    x->req = req;
    x->method = method_bit(req);
    c->exchange = x;
    c->had_request = true;
    connection_enter(c, CONN_HANDLING);
    evhttp_connection_set_closecb(evcon, on_close, l);
    evhttp_request_set_on_complete_cb(req, on_complete, l);
    l->exchanges++;
    atomic_store(&l->open_exchanges, l->exchanges);
    if (!set_path(x)) {
        reply_error(x, OTL_ENOMEM, otl_err_text(OTL_ENOMEM));
        return;
    }
    route(x);
}

const char *http_header(const struct http_exchange *x, const char *name)
{
    return x->req != NULL ? evhttp_find_header(evhttp_request_get_input_headers(x->req), name)
                          : NULL;
}

unsigned http_header_count(const struct http_exchange *x, const char *name)
{
    unsigned n = 0;

    if (x->req == NULL)
        return 0;
    for (struct evkeyval *h = evhttp_request_get_input_headers(x->req)->tqh_first; h != NULL;
         h = h->next.tqe_next)
        n += strcasecmp(h->key, name) == 0;
    return n;
}

const char *http_peer(const struct http_exchange *x)
{
    return x->peer;
}

struct bytes http_body(struct http_exchange *x)
{
    size_t n = evbuffer_get_length(x->body);

    /* In one piece since exchange_begin, so this cannot fail. */
    return bytes_of(n > 0 ? evbuffer_pullup(x->body, -1) : NULL, n);
}

struct http_loop *http_exchange_loop(struct http_exchange *x)
{
    return x->loop;
}

bool http_stopping(const struct http_exchange *x)
{
    return atomic_load(&x->loop->server->stopping);
}

void http_add_header(struct http_exchange *x, const char *name, const char *value)
{
    if (x->req != NULL)
        (void)evhttp_add_header(evhttp_request_get_output_headers(x->req), name, value);
}

void http_close_after(struct http_exchange *x)
{
    x->close = true;
}

static void send_reply(struct http_exchange *x, int status, const char *content_type,
                       struct bytes body)
{
    struct evkeyvalq *out = evhttp_request_get_output_headers(x->req);
    struct evbuffer *b = NULL;
    char length[24];

    cors_answer(&x->loop->server->opts.cors, x->req);
    if (content_type != NULL)
        (void)evhttp_add_header(out, "Content-Type", content_type);
    if (x->close || atomic_load(&x->loop->server->stopping))
        (void)evhttp_add_header(out, "Connection", "close");
    if (status != 204) {
        /* Always said, so that an empty body has a length too (H-60: zero bytes). */
        (void)snprintf(length, sizeof(length), "%zu", body.n);
        (void)evhttp_add_header(out, "Content-Length", length);
    }
    if (body.n > 0 && x->method != HTTP_HEAD) {
        b = evbuffer_new();
        if (b == NULL || evbuffer_add(b, body.p, body.n) != 0) {
            /* No memory for a few hundred bytes: end the connection, the sender tries again. */
            if (b != NULL)
                evbuffer_free(b);
            evhttp_send_reply(x->req, 503, NULL, NULL);
            return;
        }
    }
    evhttp_send_reply(x->req, status, NULL, b);
    if (b != NULL)
        evbuffer_free(b);
}

void http_reply(struct http_exchange *x, int status, const char *content_type, struct bytes body)
{
    struct http_loop *l = x->loop;

    if (status > 0 && status < STATS_MAX_STATUS)
        STATS_ADD(requests[status], 1);
    if (x->req != NULL) {
        x->conn->exchange = NULL;
        connection_enter(x->conn, CONN_REPLYING);
        send_reply(x, status, content_type, body);
    } else {
        STATS_ADD(replies_dropped, 1);
    }
    l->exchanges--;
    atomic_store(&l->open_exchanges, l->exchanges);
    evbuffer_free(x->body);
    free(x->path);
    free(x);
}
