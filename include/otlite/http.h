/* http.h -- the HTTP server: event loops, connections, routing. Endpoints are added by their own
 * modules through a route table and see an exchange, never libevent. */
#ifndef OTLITE_HTTP_H
#define OTLITE_HTTP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "otlite/bytes.h"
#include "otlite/decode.h"
#include "otlite/err.h"
#include "otlite/handoff.h"

struct http_server;
struct http_loop;
struct http_exchange;

struct cors_opts {
    const char *const *origins; /* NULL-terminated; none: CORS is off (H-80) */
    const char *const *headers; /* allowed beyond the default ones (H-82) */
    bool credentials;
    int64_t max_age_s; /* 0: no header */
};

/* A path without trailing slash; requests with one trailing slash match too (H-3). One that ends in * takes
 * every path that begins so. */
struct http_route {
    const char *path;
    const char *allow; /* "POST", "GET, HEAD": what the 405 answer lists */
    unsigned methods;  /* HTTP_* bits */
    /* Called when the head is complete, before any of the body is read (and before 100 Continue is
     * said). May be NULL. True: go on. False: it has answered with http_reply; the body is then
     * thrown away unread (a short one by reading past it, so that the connection goes on; a long or
     * chunked one by a lingering close). */
    bool (*admit)(struct http_exchange *x, void *arg);
    /* Called on the exchange's loop with the whole body read and checked framing. Must call
     * http_reply once, now or later on the same loop. */
    void (*handle)(struct http_exchange *x, void *arg);
    void *arg;
};

enum { HTTP_GET = 1, HTTP_HEAD = 2, HTTP_POST = 4 };

struct http_opts {
    const char *const *listen; /* NULL-terminated "ADDR:PORT", "[ADDR]:PORT"; port 0: any */
    unsigned loops;            /* threads; 0: one for each core but one, the writer's */
    size_t max_body_bytes;     /* as sent */
    size_t max_header_bytes;   /* of the request line and the header lines together */
    size_t max_reading_bytes;  /* of all requests that are arriving; 0: no limit */
    unsigned max_connections;
    int64_t idle_timeout_ms;    /* between requests (H-38) */
    int64_t request_timeout_ms; /* from a request's first byte to its last (S06) */
    struct cors_opts cors;
    const struct http_route *routes; /* borrowed; path NULL ends it */
};

/* Bind, start the loops. Fails with a message that names the address. */
enum otl_err http_start(const struct http_opts *o, struct http_server **out,
                        struct otl_error *err) OTL_MUSTCHECK;
/* Close the listeners; requests on open connections go on and are answered with
 * Connection: close. Thread-safe. */
void http_stop_accepting(struct http_server *s);
/* Wait until no exchange is open; false when timeout_ms has passed before. */
bool http_wait_idle(struct http_server *s, int64_t timeout_ms);
/* Wait for open exchanges at most timeout_ms, end the loops, free all. Nothing may push to a loop's
 * handoff afterwards: stop the writer and the readers before. */
void http_stop(struct http_server *s, int64_t timeout_ms);
/* The port of the i-th listen address (useful with port 0). */
unsigned http_port(const struct http_server *s, unsigned i);

/* --- an exchange: one request and its answer; lives until replied --- */

/* First header of that name, NULL when absent. Valid until the reply. */
const char *http_header(const struct http_exchange *x, const char *name);
/* The path, and what stands behind its '?' (or nothing), still encoded. Valid until the reply. */
const char *http_path(const struct http_exchange *x);
const char *http_query(const struct http_exchange *x);
/* How many header lines have that name. */
unsigned http_header_count(const struct http_exchange *x, const char *name);
/* The length that the request declares for its body; false when it is chunked or has none. */
bool http_content_length(const struct http_exchange *x, uint64_t *out);
/* Peer address as text, for logs. */
const char *http_peer(const struct http_exchange *x);
/* The body as sent, contiguous, borrowed until the reply. */
struct bytes http_body(struct http_exchange *x);
struct http_loop *http_exchange_loop(struct http_exchange *x);
/* True once http_stop_accepting was called. */
bool http_stopping(const struct http_exchange *x);

/* Set *gone when the client hangs up before the answer, so that work for nobody can end. It must be
 * there until http_reply. A client that only shuts its sending side counts as gone. */
void http_watch_client(struct http_exchange *x, atomic_bool *gone);

/* An extra header for the answer; both strings are copied. */
void http_add_header(struct http_exchange *x, const char *name, const char *value);
/* End the connection after the answer. */
void http_close_after(struct http_exchange *x);
/* Answer and end the exchange (x is gone afterwards). body is copied. Sends nothing, and counts it,
 * when the client is gone. */
void http_reply(struct http_exchange *x, int status, const char *content_type, struct bytes body);

/* Answer with err's status and a google.rpc.Status body in enc, with the headers that the status
 * asks for (Retry-After on 429 and 503, WWW-Authenticate on 401, Connection: close on 413). */
void http_reply_error(struct http_exchange *x, enum encoding enc, const struct otl_error *err);
/* The encoding that the request's Content-Type names; false when it names none that is served. */
bool http_encoding(const struct http_exchange *x, enum encoding *out);

/* --- a loop: where an exchange lives --- */

/* Finished jobs come back here; drained on the loop's thread. */
struct handoff *http_loop_handoff(struct http_loop *l);
/* Which of the server's loops it is, from 0, and how many there are. */
unsigned http_loop_index(const struct http_loop *l);
unsigned http_loop_count(const struct http_loop *l);

#endif
