/* http_internal.h -- what the files of the HTTP server share. libevent's types stay in here.
 *
 * A connection moves IDLE -> READING -> HANDLING -> REPLYING -> IDLE:
 *   IDLE      nothing of a request has come; ended after idle_timeout (the first request of a
 *             connection: after request_timeout)
 *   READING   from a request's first byte; ended request_timeout later, whatever trickles in.
 * evhttp's own timer restarts with each byte, so it cannot do this (S06, H-38) HANDLING  an
 * exchange is open; how long that takes is the writer's business, not ours REPLYING  the answer is
 * on its way out; ended after request_timeout when the client does not read evhttp owns the sockets
 * and tells nobody when it frees one that never completed a request. So each connection holds a
 * reference on its bufferevent, and the sweep recognises a freed one by its callbacks being gone.
 */
#ifndef OTLITE_HTTP_INTERNAL_H
#define OTLITE_HTTP_INTERNAL_H

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <pthread.h>
#include <stdatomic.h>

#include "otlite/http.h"

enum connection_state { CONN_IDLE, CONN_READING, CONN_HANDLING, CONN_REPLYING, CONN_LINGERING };

struct connection {
    struct connection *prev, *next; /* the loop's list */
    struct connection *bucket_next; /* the loop's table, keyed by bev */
    struct http_loop *loop;
    struct bufferevent *bev;        /* holds one reference */
    struct http_exchange *exchange; /* the open one, or NULL */
    enum connection_state state;
    bool had_request;
    bool overload;    /* ended, because too much was arriving */
    size_t reading;   /* bytes of the request that is arriving, counted in the gauge */
    int64_t since_ns; /* when the state was entered, monotonic */
};

enum {
    CONNECTION_BUCKETS = 4096,
    SWEEP_MS = 100,
    PAUSED_SWEEP_MS = 20,
    LINGER_MS = 1000,
    /* A request up to this size comes in however much others are sending. */
    SMALL_REQUEST = 32 * 1024
};

struct http_loop {
    struct http_server *server;
    unsigned index;
    pthread_t thread;
    bool started;
    struct event_base *base;
    struct evhttp *http;
    struct evhttp_bound_socket **listeners; /* n_listeners of them; none once stopping */
    unsigned n_listeners;
    struct event *sweep;
    struct event *wake; /* handoff's fd */
    struct handoff handoff;
    struct handoff_item stop_accepting, end; /* each pushed at most once */
    struct connection *connections;
    struct connection *buckets[CONNECTION_BUCKETS];
    bool paused;                     /* listeners are disabled for now */
    int64_t resume_ns;               /* not before this moment */
    unsigned exchanges;              /* open ones */
    _Atomic unsigned open_exchanges; /* the same, for other threads */
};

struct http_server {
    struct http_opts opts; /* strings borrowed */
    unsigned n_loops;
    struct http_loop *loops;
    unsigned n_listen;
    int *listen_fds;
    unsigned *ports;
    _Atomic bool stopping; /* no new connections, answers say close */
    _Atomic bool ending;   /* the loops end */
};

struct http_exchange {
    struct http_loop *loop;
    struct connection *conn;    /* NULL once the client is gone */
    struct evhttp_request *req; /* NULL once the client is gone */
    struct evbuffer *body;
    const struct http_route *route;
    unsigned method;
    char peer[64];
    bool close; /* answer with Connection: close */
    char *path; /* without query, one trailing slash cut */
};

/* connection.c */
struct bufferevent *connection_new(struct event_base *base, void *loop);
struct connection *connection_find(struct http_loop *l, struct bufferevent *bev);
void connection_enter(struct connection *c, enum connection_state state);
/* The client is gone: the open exchange, if any, goes on without it. */
void connection_detach(struct connection *c);
void connection_sweep(evutil_socket_t fd, short what, void *loop);
void connection_release_all(struct http_loop *l);
/* Stop accepting on this loop until the sweep finds room again. */
void listeners_pause(struct http_loop *l, int64_t for_ms);

/* exchange.c */
void exchange_begin(struct evhttp_request *req, void *loop);

/* cors.c */
/* Headers of every answer (H-80, H-84). */
void cors_answer(const struct cors_opts *o, struct evhttp_request *req);
/* True when the request is a preflight and CORS is on; the answer's headers are then set. */
bool cors_preflight(const struct cors_opts *o, struct evhttp_request *req);

#endif
