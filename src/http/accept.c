/* accept.c -- a loop's listening sockets, and the pause at the limits. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http_internal.h"
#include "otlite/clock.h"
#include "otlite/log.h"
#include "otlite/stats.h"

static void sweep_every(struct http_loop *l, int ms)
{
    const struct timeval period = {.tv_sec = 0, .tv_usec = ms * 1000};

    (void)event_add(l->sweep, &period);
}

/* Stop accepting on this loop until the sweep finds that it can go on. A listener that cannot
 * accept stays readable, and polling it would spin (S27). */
static void pause_listeners(struct http_loop *l, int64_t for_ms, const char *why)
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
        (void)event_del(l->listeners[i]);
    if (log_gate_open(&gate, 10 * NS_PER_S, &held))
        LOG(LOG_WARN, "http", why, LOG_I("connections", STATS_GET(connections)),
            LOG_I("suppressed", held));
}

static bool is_full(const struct http_loop *l)
{
    return STATS_GET(connections) >= (int64_t)l->server->opts.max_connections;
}

void listeners_resume(struct http_loop *l, int64_t now_ns)
{
    if (!l->paused || now_ns < l->resume_ns || is_full(l))
        return;
    l->paused = false;
    sweep_every(l, SWEEP_MS);
    for (unsigned i = 0; i < l->n_listeners; i++)
        (void)event_add(l->listeners[i], NULL);
}

static void on_acceptable(evutil_socket_t fd, short what, void *arg)
{
    struct http_loop *l = arg;

    (void)what;
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        union {
            struct sockaddr any;
            struct sockaddr_in in;
            struct sockaddr_in6 in6;
        } peer = {.any = {.sa_family = AF_UNSPEC}};
        socklen_t len = sizeof(peer);
        int accepted;

        if (is_full(l)) {
            pause_listeners(l, 0, "accepting is paused: http.max_connections reached");
            return;
        }
        accepted = accept4(fd, &peer.any, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (accepted >= 0) {
            connection_open(l, accepted, &peer.any);
            continue;
        }
        switch (errno) {
        case EAGAIN: /* another loop was faster */
            return;
        case EMFILE:
        case ENFILE:
        case ENOBUFS:
        case ENOMEM:
            pause_listeners(l, PAUSED_SWEEP_MS,
                            "accepting is paused: out of file descriptors; raise the limit "
                            "(ulimit -n)");
            return;
        default: /* that one connection has failed (ECONNABORTED and the like) */
            break;
        }
    }
}

enum otl_err listeners_open(struct http_loop *l, struct otl_error *err)
{
    struct http_server *s = l->server;

    l->listeners = calloc(s->n_listen + 1, sizeof(struct event *));
    if (l->listeners == NULL)
        return otl_fail(err, OTL_ENOMEM, "http: no memory");
    for (unsigned i = 0; i < s->n_listen; i++) {
        int fd = fcntl(s->listen_fds[i], F_DUPFD_CLOEXEC, 0);
        struct event *ev;

        if (fd < 0)
            return otl_fail(err, OTL_ESYSTEM, "http: dup: %s", strerror(errno));
        ev = event_new(l->base, fd, EV_READ | EV_PERSIST, on_acceptable, l);
        if (ev == NULL) {
            (void)close(fd);
            return otl_fail(err, OTL_ENOMEM, "http: no memory for a listener");
        }
        l->listeners[l->n_listeners++] = ev;
        if (event_add(ev, NULL) != 0)
            return otl_fail(err, OTL_ENOMEM, "http: no memory for a listener");
    }
    return OTL_OK;
}

void listeners_close(struct http_loop *l)
{
    while (l->n_listeners > 0) {
        struct event *ev = l->listeners[--l->n_listeners];
        int fd = event_get_fd(ev);

        event_free(ev);
        (void)close(fd);
    }
    free(l->listeners);
    l->listeners = NULL;
}
