/* connection.c -- every open connection of a loop, its deadlines, and the pause at the limits. */
#include <stdlib.h>
#include <sys/socket.h>

#include "http_internal.h"
#include "otlite/clock.h"
#include "otlite/log.h"
#include "otlite/stats.h"

static struct connection **bucket_of(struct http_loop *l, const struct bufferevent *bev)
{
    uintptr_t v = (uintptr_t)bev;

    return &l->buckets[(v >> 6 ^ v >> 18) % CONNECTION_BUCKETS];
}

struct connection *connection_find(struct http_loop *l, struct bufferevent *bev)
{
    struct connection *c = *bucket_of(l, bev);

    while (c != NULL && c->bev != bev)
        c = c->bucket_next;
    return c;
}

void connection_enter(struct connection *c, enum connection_state state)
{
    if (state != CONN_READING) {
        STATS_SUB(reading_bytes, (int64_t)c->reading);
        c->reading = 0;
    }
    c->state = state;
    c->since_ns = clock_mono_ns();
}

/* n bytes more of a request. evhttp holds a body until it is whole, so that half bodies on many
 * connections would take any amount of memory: past the limit those that send much are ended. */
static void count_reading(struct connection *c, size_t n)
{
    static struct log_gate gate;
    size_t limit = c->loop->server->opts.max_reading_bytes;
    int64_t now = STATS_ADD(reading_bytes, (int64_t)n) + (int64_t)n;
    uint64_t held;

    c->reading += n;
    if (limit == 0 || now <= (int64_t)limit || c->reading <= SMALL_REQUEST || c->overload)
        return;
    c->overload = true;
    STATS_ADD(connections_overloaded, 1);
    (void)shutdown(bufferevent_getfd(c->bev), SHUT_RDWR);
    if (log_gate_open(&gate, 10 * NS_PER_S, &held))
        LOG(LOG_WARN, "http",
            "a connection was ended: too many bytes of requests are arriving "
            "(http.max_inflight)",
            LOG_I("bytes", now), LOG_I("suppressed", held));
}

/* evhttp_free'd connections have no callbacks any more. */
static bool is_freed(const struct connection *c)
{
    bufferevent_data_cb read_cb, write_cb;
    bufferevent_event_cb event_cb;

    bufferevent_getcb(c->bev, &read_cb, &write_cb, &event_cb, NULL);
    return read_cb == NULL && write_cb == NULL && event_cb == NULL;
}

/* The first byte of a request starts its deadline. What comes after evhttp has freed the connection
 * is read away, see lingers(). */
static void on_input(struct evbuffer *buffer, const struct evbuffer_cb_info *info, void *arg)
{
    struct connection *c = arg;

    if (info->n_added == 0)
        return;
    if (is_freed(c)) {
        (void)evbuffer_drain(buffer, evbuffer_get_length(buffer));
        return;
    }
    if (c->state == CONN_IDLE)
        connection_enter(c, CONN_READING);
    if (c->state == CONN_READING)
        count_reading(c, info->n_added);
}

struct bufferevent *connection_new(struct event_base *base, void *loop)
{
    struct http_loop *l = loop;
    struct connection *c = calloc(1, sizeof(*c));
    struct connection **bucket;

    if (c == NULL)
        return NULL;
    /* CLOSE_ON_FREE: the descriptor lives as long as the last reference. With evhttp closing it
     * earlier, a new connection could get the same number while ours still has events on it. */
    c->bev = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    if (c->bev == NULL || evbuffer_add_cb(bufferevent_get_input(c->bev), on_input, c) == NULL) {
        if (c->bev != NULL)
            bufferevent_free(c->bev);
        free(c);
        return NULL;
    }
    bufferevent_incref(c->bev);
    c->loop = l;
    connection_enter(c, CONN_IDLE);
    c->next = l->connections;
    if (c->next != NULL)
        c->next->prev = c;
    l->connections = c;
    bucket = bucket_of(l, c->bev);
    c->bucket_next = *bucket;
    *bucket = c;
    STATS_ADD(connections_accepted, 1);
    if (STATS_ADD(connections, 1) + 1 >= (int64_t)l->server->opts.max_connections)
        listeners_pause(l, 0);
    return c->bev;
}

void connection_detach(struct connection *c)
{
    if (c->exchange == NULL)
        return;
    c->exchange->conn = NULL;
    c->exchange->req = NULL;
    c->exchange = NULL;
}

static void connection_release(struct connection *c)
{
    struct http_loop *l = c->loop;
    struct connection **p = bucket_of(l, c->bev);

    while (*p != c)
        p = &(*p)->bucket_next;
    *p = c->bucket_next;
    if (c->prev != NULL)
        c->prev->next = c->next;
    else
        l->connections = c->next;
    if (c->next != NULL)
        c->next->prev = c->prev;
    connection_detach(c);
    STATS_SUB(reading_bytes, (int64_t)c->reading);
    (void)evbuffer_remove_cb(bufferevent_get_input(c->bev), on_input, c);
    (void)bufferevent_decref(c->bev);
    STATS_SUB(connections, 1);
    free(c);
}

void connection_release_all(struct http_loop *l)
{
    while (l->connections != NULL)
        connection_release(l->connections);
}

/* A socket that is closed with unread bytes in it sends a reset, which can overtake the answer that
 * says why (a 413, S05). So a connection that evhttp has freed, with its sending side shut, is read
 * away until the client closes too, or for LINGER_MS. */
static bool lingers(struct connection *c, int64_t now)
{
    char byte;

    if (c->state != CONN_LINGERING)
        connection_enter(c, CONN_LINGERING);
    return recv(bufferevent_getfd(c->bev), &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0 &&
           now - c->since_ns < LINGER_MS * NS_PER_MS;
}

static int64_t deadline_ms(const struct connection *c)
{
    const struct http_opts *o = &c->loop->server->opts;

    switch (c->state) {
    case CONN_IDLE:
        return c->had_request || o->idle_timeout_ms < o->request_timeout_ms ? o->idle_timeout_ms
                                                                            : o->request_timeout_ms;
    case CONN_READING:
    case CONN_REPLYING:
        return o->request_timeout_ms;
    case CONN_HANDLING:
    case CONN_LINGERING:
        break;
    }
    return INT64_MAX / NS_PER_MS;
}

static void sweep_every(struct http_loop *l, int ms)
{
    const struct timeval period = {.tv_sec = 0, .tv_usec = ms * 1000};

    (void)event_add(l->sweep, &period);
}

void listeners_pause(struct http_loop *l, int64_t for_ms)
{
    static struct log_gate gate;
    uint64_t held;

    l->resume_ns = clock_mono_ns() + for_ms * NS_PER_MS;
    if (l->paused)
        return;
    l->paused = true;
    /* Look often now: what the sweep releases makes room. */
    sweep_every(l, PAUSED_SWEEP_MS);
    STATS_ADD(connections_refused, 1);
    for (unsigned i = 0; i < l->n_listeners; i++)
        (void)evconnlistener_disable(evhttp_bound_socket_get_listener(l->listeners[i]));
    if (log_gate_open(&gate, 10 * NS_PER_S, &held))
        LOG(LOG_WARN, "http",
            for_ms > 0 ? "accepting is paused: out of file descriptors; raise the limit (ulimit -n)"
                       : "accepting is paused: http.max_connections reached",
            LOG_I("connections", STATS_GET(connections)), LOG_I("suppressed", held));
}

static void listeners_resume(struct http_loop *l)
{
    if (!l->paused || atomic_load(&l->server->stopping) || clock_mono_ns() < l->resume_ns ||
        STATS_GET(connections) >= (int64_t)l->server->opts.max_connections)
        return;
    l->paused = false;
    sweep_every(l, SWEEP_MS);
    for (unsigned i = 0; i < l->n_listeners; i++)
        (void)evconnlistener_enable(evhttp_bound_socket_get_listener(l->listeners[i]));
}

void connection_sweep(evutil_socket_t fd, short what, void *loop)
{
    struct http_loop *l = loop;
    int64_t now = clock_mono_ns();
    struct connection *next;

    (void)fd;
    (void)what;
    for (struct connection *c = l->connections; c != NULL; c = next) {
        next = c->next;
        if (is_freed(c)) {
            if (!lingers(c, now))
                connection_release(c);
        } else if (now - c->since_ns > deadline_ms(c) * NS_PER_MS) {
            /* evhttp sees the end of the stream and frees the connection by its own rules; nothing
             * is freed under its hands. */
            STATS_ADD(connections_timed_out, 1);
            (void)shutdown(bufferevent_getfd(c->bev), SHUT_RDWR);
            c->since_ns = now;
        }
    }
    listeners_resume(l);
}
