/* server.c -- listening sockets and event loops, from start to stop.
 *
 * Every loop polls every listening socket (each through a descriptor of its own, one open file):
 * whichever loop is free accepts, and gives the connection to the loop with the fewest.
 * SO_REUSEPORT would spread connections by hash, and a fleet with few, long connections would then
 * leave a core idle. libevent is used from the loop's thread only; other threads speak to a loop
 * through its handoff. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "http_internal.h"
#include "otlite/clock.h"
#include "otlite/log.h"

enum { BACKLOG = 1024 };

static void libevent_log(int severity, const char *msg)
{
    static struct log_gate gate;
    uint64_t held;

    if (severity < EVENT_LOG_WARN || !log_gate_open(&gate, NS_PER_S, &held))
        return;
    LOG(LOG_WARN, "libevent", msg, LOG_I("suppressed", held));
}

/* "ADDR:PORT" or "[ADDR]:PORT" in two parts. */
static bool split_listen(const char *text, char host[256], char port[16])
{
    const char *colon = strrchr(text, ':');
    size_t n;

    if (colon == NULL || colon == text || strlen(colon + 1) == 0 || strlen(colon + 1) > 5)
        return false;
    n = (size_t)(colon - text);
    if (text[0] == '[' && text[n - 1] == ']') {
        text++;
        n -= 2;
    }
    if (n == 0 || n > 255)
        return false;
    memcpy(host, text, n);
    host[n] = '\0';
    (void)snprintf(port, 16, "%s", colon + 1);
    return true;
}

static enum otl_err listen_at(const char *text, int *out_fd, unsigned *out_port,
                              struct otl_error *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *ai = NULL;
    struct sockaddr_storage bound;
    socklen_t len = sizeof(bound);
    char host[256], port[16];
    const int on = 1;
    int fd, rc;

    if (!split_listen(text, host, port))
        return otl_fail(err, OTL_ECONFIG, "listen: '%s' is not ADDR:PORT or [ADDR]:PORT", text);
    rc = getaddrinfo(host, port, &hints, &ai);
    if (rc != 0)
        return otl_fail(err, OTL_ECONFIG, "listen: '%s': %s", text, gai_strerror(rc));
    fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        (ai->ai_family == AF_INET6 &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) != 0) ||
        bind(fd, ai->ai_addr, ai->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&bound, &len) != 0) {
        int e = errno;

        if (fd >= 0)
            (void)close(fd);
        freeaddrinfo(ai);
        return otl_fail(err, OTL_ESYSTEM, "cannot listen on %s: %s%s", text, strerror(e),
                        e == EADDRINUSE ? "; another process serves there: stop it, or choose "
                                          "another port with --listen"
                                        : "");
    }
    freeaddrinfo(ai);
    *out_port = bound.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&bound)->sin6_port)
                                            : ntohs(((struct sockaddr_in *)&bound)->sin_port);
    *out_fd = fd;
    return OTL_OK;
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    struct http_loop *l = arg;

    (void)fd;
    (void)what;
    (void)handoff_drain(&l->handoff);
}

static void on_stop_accepting(struct handoff_item *item)
{
    struct http_loop *l =
        (struct http_loop *)(void *)((char *)item - offsetof(struct http_loop, stop_accepting));

    /* Closed, not just ignored: clients shall be refused at once and go elsewhere. */
    listeners_close(l);
}

static void on_end(struct handoff_item *item)
{
    struct http_loop *l =
        (struct http_loop *)(void *)((char *)item - offsetof(struct http_loop, end));

    (void)event_base_loopbreak(l->base);
}

static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
    struct http_loop *l = arg;
    int64_t now_ns = clock_mono_ns();

    (void)fd;
    (void)what;
    connection_sweep(l, now_ns);
    listeners_resume(l, now_ns);
}

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    connection_run_turns(arg);
}

/* epoll, since connections count on its edges and on being told of a half-closed one. */
static struct event_base *new_base(void)
{
    struct event_config *cfg = event_config_new();
    struct event_base *base = NULL;

    if (cfg != NULL &&
        event_config_set_flag(cfg, EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_IGNORE_ENV) == 0 &&
        event_config_require_features(cfg, EV_FEATURE_ET | EV_FEATURE_EARLY_CLOSE) == 0)
        base = event_base_new_with_config(cfg);
    if (cfg != NULL)
        event_config_free(cfg);
    return base;
}

static enum otl_err loop_init(struct http_loop *l, struct otl_error *err)
{
    const struct timeval period = {.tv_sec = 0, .tv_usec = SWEEP_MS * 1000};
    enum otl_err rc;

    l->stop_accepting.run = on_stop_accepting;
    l->end.run = on_end;
    l->base = new_base();
    if (l->base == NULL)
        return otl_fail(err, OTL_ENOMEM, "http: no memory for an event loop");
    rc = handoff_init(&l->handoff, err);
    if (rc != OTL_OK)
        return rc;
    l->wake = event_new(l->base, l->handoff.fd, EV_READ | EV_PERSIST, on_wake, l);
    l->sweep = event_new(l->base, -1, EV_PERSIST, on_sweep, l);
    l->turn = event_new(l->base, -1, 0, on_turn, l);
    if (l->wake == NULL || l->sweep == NULL || l->turn == NULL || event_add(l->wake, NULL) != 0 ||
        event_add(l->sweep, &period) != 0)
        return otl_fail(err, OTL_ENOMEM, "http: no memory for events");
    return listeners_open(l, err);
}

static void loop_fini(struct http_loop *l)
{
    /* Connections that another loop had accepted for this one. */
    if (l->handoff.fd >= 0)
        (void)handoff_drain(&l->handoff);
    listeners_close(l);
    connection_free_all(l);
    exchange_free_spare(l);
    buffer_pool_fini(&l->buffers);
    buf_fini(&l->reply);
    if (l->wake != NULL)
        event_free(l->wake);
    if (l->sweep != NULL)
        event_free(l->sweep);
    if (l->turn != NULL)
        event_free(l->turn);
    if (l->base != NULL)
        event_base_free(l->base);
    handoff_fini(&l->handoff);
}

static void *loop_main(void *arg)
{
    struct http_loop *l = arg;

    if (event_base_dispatch(l->base) < 0)
        LOG(LOG_ERROR, "http", "an event loop failed", LOG_I("loop", l->index));
    return NULL;
}

static void server_free(struct http_server *s)
{
    for (unsigned i = 0; s->loops != NULL && i < s->n_loops; i++)
        loop_fini(&s->loops[i]);
    for (unsigned i = 0; s->listen_fds != NULL && i < s->n_listen; i++) {
        if (s->listen_fds[i] >= 0)
            (void)close(s->listen_fds[i]);
    }
    free(s->loops);
    free(s->listen_fds);
    free(s->ports);
    free(s);
}

static enum otl_err server_listen(struct http_server *s, struct otl_error *err)
{
    unsigned n = 0;

    while (s->opts.listen[n] != NULL)
        n++;
    s->listen_fds = calloc(n + 1, sizeof(int));
    s->ports = calloc(n + 1, sizeof(unsigned));
    if (s->listen_fds == NULL || s->ports == NULL)
        return otl_fail(err, OTL_ENOMEM, "http: no memory");
    for (; s->n_listen < n; s->n_listen++) {
        unsigned i = s->n_listen;
        enum otl_err rc = listen_at(s->opts.listen[i], &s->listen_fds[i], &s->ports[i], err);

        if (rc != OTL_OK)
            return rc;
    }
    return OTL_OK;
}

enum otl_err http_start(const struct http_opts *o, struct http_server **out, struct otl_error *err)
{
    struct http_server *s = calloc(1, sizeof(*s));
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    enum otl_err rc;

    if (s == NULL)
        return otl_fail(err, OTL_ENOMEM, "http: no memory");
    event_set_log_callback(libevent_log);
    s->opts = *o;
    /* One core is the writer's: a loop on it would only take it from the writer, and be switched to
     * and from for every answer. */
    s->n_loops = o->loops > 0 ? o->loops : cores > 1 ? (unsigned)cores - 1 : 1;
    rc = server_listen(s, err);
    if (rc != OTL_OK)
        goto fail;
    s->loops = calloc(s->n_loops, sizeof(*s->loops));
    if (s->loops == NULL) {
        rc = otl_fail(err, OTL_ENOMEM, "http: no memory");
        goto fail;
    }
    for (unsigned i = 0; i < s->n_loops; i++) {
        s->loops[i].server = s;
        s->loops[i].index = i;
        s->loops[i].handoff.fd = -1;
        TAILQ_INIT(&s->loops[i].turns);
        for (int state = 0; state < CONN_STATES; state++)
            TAILQ_INIT(&s->loops[i].connections[state]);
    }
    for (unsigned i = 0; i < s->n_loops; i++) {
        rc = loop_init(&s->loops[i], err);
        if (rc != OTL_OK)
            goto fail;
    }
    for (unsigned i = 0; i < s->n_loops; i++) {
        int e = pthread_create(&s->loops[i].thread, NULL, loop_main, &s->loops[i]);

        if (e != 0) {
            rc = otl_fail(err, OTL_ESYSTEM, "http: cannot start a thread: %s", strerror(e));
            *out = s;
            http_stop(s, 0);
            return rc;
        }
        s->loops[i].started = true;
    }
    *out = s;
    return OTL_OK;
fail:
    server_free(s);
    return rc;
}

void http_stop_accepting(struct http_server *s)
{
    if (atomic_exchange(&s->stopping, true))
        return;
    for (unsigned i = 0; i < s->n_loops; i++) {
        if (s->loops[i].started)
            handoff_push(&s->loops[i].handoff, &s->loops[i].stop_accepting);
    }
    for (unsigned i = 0; i < s->n_listen; i++) {
        (void)close(s->listen_fds[i]);
        s->listen_fds[i] = -1;
    }
}

bool http_wait_idle(struct http_server *s, int64_t timeout_ms)
{
    const struct timespec pause = {.tv_nsec = 2 * 1000 * 1000};
    int64_t end = clock_mono_ns() + timeout_ms * NS_PER_MS;

    for (;;) {
        unsigned open = 0;

        for (unsigned i = 0; i < s->n_loops; i++)
            open += atomic_load(&s->loops[i].open_exchanges);
        if (open == 0)
            return true;
        if (clock_mono_ns() >= end)
            return false;
        (void)nanosleep(&pause, NULL);
    }
}

void http_stop(struct http_server *s, int64_t timeout_ms)
{
    http_stop_accepting(s);
    (void)http_wait_idle(s, timeout_ms);
    for (unsigned i = 0; i < s->n_loops; i++) {
        if (s->loops[i].started)
            handoff_push(&s->loops[i].handoff, &s->loops[i].end);
    }
    for (unsigned i = 0; i < s->n_loops; i++) {
        if (s->loops[i].started)
            (void)pthread_join(s->loops[i].thread, NULL);
    }
    server_free(s);
}

unsigned http_port(const struct http_server *s, unsigned i)
{
    return i < s->n_listen ? s->ports[i] : 0;
}

struct handoff *http_loop_handoff(struct http_loop *l)
{
    return &l->handoff;
}

unsigned http_loop_index(const struct http_loop *l)
{
    return l->index;
}

unsigned http_loop_count(const struct http_loop *l)
{
    return l->server->n_loops;
}
