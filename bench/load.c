#include "load.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "otlite/clock.h"
#include "process.h"

enum {
    EVENTS = 64,
    TICK_MS = 50 /* how late a deadline may be noticed when nothing else happens */
};

#define REOPEN_NS (50 * NS_PER_MS)

/* A connection and the templates it owns: index, index + connections, ... */
struct lane {
    struct http_client client;
    unsigned index, next; /* next template */
    bool busy;            /* a request is out */
    bool want_write;      /* what epoll was told */
    unsigned points;      /* of the request that is out */
    int64_t due_ns;
    int64_t sent_ns;
    int64_t reopen_ns; /* not before */
};

struct load {
    const struct load_opts *o;
    struct http_url url; /* o->url with the address that takes connections */
    struct template_set *set;
    struct load_result *r;
    struct lane *lanes;
    int epoll_fd;
    int64_t begin_ns, measure_ns, end_ns; /* start of warm-up, of measuring; end of measuring */
    uint64_t started;                     /* requests sent, the open loop's position */
    unsigned busy;
    unsigned cursor;            /* lane the open loop tries next */
    int64_t swept_ns;           /* see sweep */
    bool sending;               /* until the measured time ends */
    double own_cpu, daemon_cpu; /* at measure_ns */
    bool has_daemon_cpu;
    struct load_second second; /* the one that is going on; percentiles from second_latency */
    struct latencies second_latency;
    unsigned seconds; /* of the measured time that are over */
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig)
{
    (void)sig;
    interrupted = 1;
}

static bool measuring(const struct load *l, int64_t at_ns)
{
    return at_ns >= l->measure_ns && at_ns < l->end_ns;
}

static bool watch(struct load *l, struct lane *lane, int op, bool want_write)
{
    struct epoll_event ev = {.events = want_write ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = lane};

    lane->want_write = want_write;
    return epoll_ctl(l->epoll_fd, op, lane->client.fd, &ev) == 0;
}

/* The connection is gone; a request that was out will not be answered. */
static void lane_lost(struct load *l, struct lane *lane, int64_t now_ns)
{
    if (lane->busy) {
        l->busy--;
        if (measuring(l, now_ns)) {
            l->r->lost++;
            l->second.failed++;
        }
    }
    lane->busy = false;
    http_client_close(&lane->client); /* which also takes it out of the epoll set */
    lane->reopen_ns = now_ns + REOPEN_NS;
}

/* Has the connection what it takes to be given a request now? */
static bool lane_ready(struct load *l, struct lane *lane, int64_t now_ns)
{
    if (lane->busy || now_ns < lane->reopen_ns)
        return false;
    if (lane->client.fd >= 0)
        return true;
    if (!http_client_open(&lane->client, &l->url)) {
        lane->reopen_ns = now_ns + REOPEN_NS;
        return false;
    }
    if (!watch(l, lane, EPOLL_CTL_ADD, false)) {
        lane_lost(l, lane, now_ns);
        return false;
    }
    return true;
}

static void lane_write(struct load *l, struct lane *lane, int64_t now_ns)
{
    enum http_progress got = http_client_write(&lane->client);
    bool blocked = got == HTTP_AGAIN;

    if (got == HTTP_LOST ||
        (blocked != lane->want_write && !watch(l, lane, EPOLL_CTL_MOD, blocked)))
        lane_lost(l, lane, now_ns);
}

static void lane_start(struct load *l, struct lane *lane, int64_t due_ns, int64_t now_ns)
{
    struct template *t = &l->set->templates[lane->next];

    lane->next += l->o->connections;
    if (lane->next >= l->set->n)
        lane->next = lane->index;
    http_client_request(&lane->client, template_next(t, clock_wall_ns()));
    lane->points = t->n_fields;
    lane->due_ns = due_ns;
    lane->sent_ns = now_ns;
    lane->busy = true;
    l->busy++;
    l->started++;
    lane_write(l, lane, now_ns);
}

/* Does the answer say that points were rejected? An empty partialSuccess does not, nor does one
 * with a message only. */
static bool is_partial(bool json, struct bytes body)
{
    static const char key[] = "\"rejectedDataPoints\"";
    size_t at = 1;

    if (json)
        return body.n > 0 && memmem(body.p, body.n, key, sizeof(key) - 1) != NULL;
    if (body.n < 3 || body.p[0] != 0x0a) /* partial_success = 1 */
        return false;
    while (at < body.n && (body.p[at] & 0x80) != 0)
        at++;
    return at + 1 < body.n && body.p[at + 1] == 0x08; /* rejected_data_points = 1 comes first */
}

static void count_answer(struct load *l, const struct lane *lane, int64_t now_ns)
{
    struct load_result *r = l->r;
    int status = lane->client.status;
    bool influx = l->set->opts.influx;
    bool good = influx ? status / 100 == 2 : status == 200;
    bool partial = good && !influx && is_partial(l->set->opts.json, lane->client.body);
    bool refused = status == 429 || status == 503;
    bool whole = good && !partial;

    if (whole)
        r->all_points += lane->points;
    if (measuring(l, now_ns)) {
        r->status[status]++;
        r->partial += partial;
        r->requests += whole;
        r->points += whole ? lane->points : 0U;
        l->second.refused += refused;
        /* Not by when it was due: under overload that may be long before the measured time. */
        if (refused)
            latencies_add(&r->refused, now_ns - lane->sent_ns);
        l->second.requests += whole;
        l->second.points += whole ? lane->points : 0U;
        l->second.failed += !whole && !refused;
    }
    if (refused || !measuring(l, lane->due_ns))
        return;
    latencies_add(&r->latency, now_ns - lane->due_ns);
    latencies_add(&l->second_latency, now_ns - lane->due_ns);
}

static void lane_answered(struct load *l, struct lane *lane, int64_t now_ns)
{
    l->busy--;
    lane->busy = false;
    count_answer(l, lane, now_ns);
    if (lane->client.close_after)
        http_client_close(&lane->client);
}

/* Report the seconds that are over. A stall of the whole generator may end several at once. */
static void end_seconds(struct load *l, int64_t now_ns)
{
    while (now_ns >= l->measure_ns + (int64_t)(l->seconds + 1) * NS_PER_S) {
        struct load_second *s = &l->second;

        s->p50_ns = latencies_quantile(&l->second_latency, 0.5);
        s->p99_ns = latencies_quantile(&l->second_latency, 0.99);
        s->max_ns = l->second_latency.max;
        if (l->o->by_second != NULL && l->seconds < l->o->by_second_room)
            l->o->by_second[l->r->n_by_second++] = *s;
        if (l->o->on_second != NULL)
            l->o->on_second(l->o->on_second_arg, l->seconds, s);
        l->seconds++;
        memset(s, 0, sizeof(*s));
        latencies_reset(&l->second_latency);
    }
}

static void lane_event(struct load *l, struct lane *lane, uint32_t events)
{
    enum http_progress got;
    int64_t now_ns;

    if (lane->client.fd < 0)
        return; /* closed by an earlier event of the same round */
    if ((events & EPOLLOUT) != 0 && lane->busy) {
        lane_write(l, lane, clock_mono_ns());
        if (lane->client.fd < 0)
            return;
    }
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0)
        return;
    got = lane->busy ? http_client_read(&lane->client) : HTTP_LOST;
    now_ns = clock_mono_ns();
    if (got == HTTP_LOST)
        lane_lost(l, lane, now_ns);
    if (got != HTTP_DONE)
        return;
    lane_answered(l, lane, now_ns);
    if (l->sending && l->o->rate <= 0 && lane_ready(l, lane, now_ns))
        lane_start(l, lane, now_ns, now_ns);
}

/* When the open loop's request k is due. */
static int64_t due_at(const struct load *l, uint64_t k)
{
    return l->begin_ns + (int64_t)((double)k / l->o->rate * 1e9);
}

/* Once a tick: give up what got no answer; in the closed loop, send on every connection that has
 * nothing out (at the start, and after a connection was lost). */
static void sweep(struct load *l, int64_t now_ns)
{
    for (unsigned i = 0; i < l->o->connections; i++) {
        struct lane *lane = &l->lanes[i];

        if (lane->busy && now_ns - lane->sent_ns > l->o->timeout_ns)
            lane_lost(l, lane, now_ns);
        if (l->o->rate <= 0 && lane_ready(l, lane, now_ns))
            lane_start(l, lane, now_ns, now_ns);
    }
}

static struct lane *next_ready(struct load *l, int64_t now_ns)
{
    if (l->busy == l->o->connections)
        return NULL;
    for (unsigned i = 0; i < l->o->connections; i++) {
        struct lane *lane = &l->lanes[l->cursor];

        l->cursor = l->cursor + 1 < l->o->connections ? l->cursor + 1 : 0;
        if (lane_ready(l, lane, now_ns))
            return lane;
    }
    return NULL;
}

/* Send what is due. Returns ns until something more will be, at most a tick. */
static int64_t start_due(struct load *l, int64_t now_ns)
{
    const int64_t tick_ns = TICK_MS * NS_PER_MS;
    int64_t due_ns;

    if (now_ns - l->swept_ns >= tick_ns) {
        sweep(l, now_ns);
        l->swept_ns = now_ns;
    }
    if (l->o->rate <= 0)
        return tick_ns;
    for (;;) {
        struct lane *lane;

        due_ns = due_at(l, l->started);
        if (due_ns > now_ns)
            return due_ns - now_ns < tick_ns ? due_ns - now_ns : tick_ns;
        lane = next_ready(l, now_ns);
        if (lane == NULL)
            return tick_ns; /* until an answer frees a connection */
        lane_start(l, lane, due_ns, now_ns);
    }
}

/* epoll_wait with nanoseconds: the open loop counts in microseconds. One call where the kernel has
 * it (Linux 5.11), else two. */
static int wait_events(int epoll_fd, struct epoll_event *events, int64_t wait_ns)
{
    static bool has_no_pwait2; /* of the kernel, so for good */
    const struct timespec ts = {.tv_sec = 0, .tv_nsec = (long)wait_ns};
    struct pollfd p = {.fd = epoll_fd, .events = POLLIN};

    if (!has_no_pwait2) {
        int n = epoll_pwait2(epoll_fd, events, EVENTS, &ts, NULL);

        if (n >= 0 || errno != ENOSYS)
            return n;
        has_no_pwait2 = true;
    }
    return ppoll(&p, 1, &ts, NULL) <= 0 ? 0 : epoll_wait(epoll_fd, events, EVENTS, 0);
}

/* wait_ns: at most a tick. */
static void handle_events(struct load *l, int64_t wait_ns)
{
    struct epoll_event events[EVENTS];
    int n = wait_events(l->epoll_fd, events, wait_ns > 0 ? wait_ns : 0);

    for (int i = 0; i < n; i++)
        lane_event(l, events[i].data.ptr, events[i].events);
}

static void measure_begin(struct load *l)
{
    l->own_cpu = process_own_cpu_seconds();
    l->has_daemon_cpu = l->o->pid > 0 && process_cpu_seconds(l->o->pid, &l->daemon_cpu);
}

static void measure_end(struct load *l, int64_t now_ns)
{
    struct load_result *r = l->r;
    double cpu;

    l->end_ns = now_ns;
    r->seconds = (double)(now_ns - l->measure_ns) / 1e9;
    r->own_cpu_seconds = process_own_cpu_seconds() - l->own_cpu;
    if (l->has_daemon_cpu && process_cpu_seconds(l->o->pid, &cpu)) {
        r->has_daemon_cpu = true;
        r->daemon_cpu_seconds = cpu - l->daemon_cpu;
        if (!process_peak_bytes(l->o->pid, &r->daemon_peak_bytes))
            r->daemon_peak_bytes = 0;
    }
}

static void run(struct load *l)
{
    bool measured = false;
    int64_t now_ns = clock_mono_ns();
    int64_t deadline_ns, due_end_ns;

    l->begin_ns = now_ns;
    l->sending = true;
    l->swept_ns = now_ns - TICK_MS * NS_PER_MS;
    l->measure_ns = now_ns + l->o->warmup_ns;
    l->end_ns = l->measure_ns + l->o->duration_ns;
    while (now_ns < l->end_ns && !interrupted) {
        int64_t wait_ns;

        if (!measured && now_ns >= l->measure_ns) {
            measured = true;
            measure_begin(l);
            now_ns = l->measure_ns = clock_mono_ns();
            l->end_ns = now_ns + l->o->duration_ns;
        }
        if (measured)
            end_seconds(l, now_ns);
        wait_ns = start_due(l, now_ns);
        if (wait_ns > l->end_ns - now_ns)
            wait_ns = l->end_ns - now_ns;
        handle_events(l, wait_ns);
        now_ns = clock_mono_ns();
    }
    if (!measured) { /* interrupted during the warm-up */
        l->measure_ns = now_ns;
        measure_begin(l);
    }
    l->sending = false;
    due_end_ns = l->end_ns < now_ns ? l->end_ns : now_ns;
    if (l->o->rate > 0 && !interrupted)
        (void)start_due(l, due_end_ns - 1); /* what fell due while we slept to the end */
    if (measured)
        end_seconds(l, now_ns);
    measure_end(l, now_ns);
    if (l->o->rate > 0) {
        while (due_at(l, l->started + l->r->unsent) < due_end_ns)
            l->r->unsent++;
    }
    deadline_ns = now_ns + l->o->timeout_ns;
    while (l->busy > 0 && now_ns < deadline_ns) {
        handle_events(l, TICK_MS * NS_PER_MS);
        now_ns = clock_mono_ns();
    }
}

bool load_interrupted(void)
{
    return interrupted != 0;
}

/* 0 when the address takes a connection within the time, else what errno says. */
static int try_address(const struct http_address *a, int64_t within_ns)
{
    int fd = socket(a->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct timeval limit = {.tv_sec = within_ns / NS_PER_S,
                                  .tv_usec = within_ns % NS_PER_S / 1000 + 1};
    int problem = 0;

    if (fd < 0)
        return errno;
    /* connect heeds it, and then says EINPROGRESS. */
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) != 0 ||
        connect(fd, (const struct sockaddr *)&a->address, a->n) != 0)
        problem = errno == EINPROGRESS ? ETIMEDOUT : errno;
    close(fd);
    return problem;
}

/* Until an address of the name takes a connection, which becomes that of url, or wait_ns has
 * passed. A name may well resolve to ::1 first while the daemon listens on 127.0.0.1 only. */
static enum otl_err wait_for_endpoint(struct http_url *url, int64_t wait_ns, struct otl_error *err)
{
    const struct timespec pause = {.tv_nsec = 20 * NS_PER_MS};
    const int64_t least_ns = NS_PER_S; /* for a far machine to answer at all */
    int64_t until_ns = clock_mono_ns() + wait_ns;
    int problem = 0;

    for (;;) {
        for (unsigned i = 0; i < url->n_addresses; i++) {
            int64_t left_ns = until_ns - clock_mono_ns();

            problem = try_address(&url->addresses[i], left_ns > least_ns ? left_ns : least_ns);
            if (problem == 0) {
                url->address = url->addresses[i].address;
                url->address_n = url->addresses[i].n;
                return OTL_OK;
            }
        }
        if (clock_mono_ns() >= until_ns || interrupted)
            return otl_fail(err, OTL_EIO,
                            "%s takes no connection (%s); is the daemon running there?", url->host,
                            strerror(problem));
        nanosleep(&pause, NULL);
    }
}

enum otl_err load_run(const struct load_opts *o, struct template_set *set, struct load_result *out,
                      struct otl_error *err)
{
    struct load l = {.o = o, .url = *o->url, .set = set, .r = out, .epoll_fd = -1};
    struct sigaction sa = {.sa_handler = on_interrupt}, old;
    enum otl_err rc;

    memset(out, 0, sizeof(*out));
    if (o->connections == 0 || o->connections > set->n)
        return otl_fail(err, OTL_ECONFIG,
                        "%u connections need as many different requests, and the series make only "
                        "%u; raise --series or lower --connections or --points-per-request",
                        o->connections, set->n);
    if (sigaction(SIGINT, &sa, &old) != 0)
        return otl_fail(err, OTL_ESYSTEM, "sigaction: %s", strerror(errno));
    rc = wait_for_endpoint(&l.url, o->wait_ns, err);
    if (rc == OTL_OK) {
        l.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        l.lanes = calloc(o->connections, sizeof(*l.lanes));
        if (l.epoll_fd < 0 || l.lanes == NULL)
            rc = otl_fail(err, OTL_ENOMEM, "no memory for %u connections", o->connections);
    }
    if (rc == OTL_OK) {
        for (unsigned i = 0; i < o->connections; i++) {
            http_client_init(&l.lanes[i].client);
            l.lanes[i].index = l.lanes[i].next = i;
        }
        run(&l);
        for (unsigned i = 0; i < o->connections; i++)
            http_client_fini(&l.lanes[i].client);
    }
    free(l.lanes);
    if (l.epoll_fd >= 0)
        close(l.epoll_fd);
    (void)sigaction(SIGINT, &old, NULL);
    return rc;
}
