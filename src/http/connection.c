/* connection.c -- a connection: what it receives, where its requests end, what it sends, and when
 * it ends. The states are drawn in http_internal.h.
 *
 * Invariants:
 *   C1  While HANDLING the buffer stays as it is: the exchange, and the writer behind it, borrow
 *       the body. So nothing is received and the connection is not freed (but by the server's end,
 *       when the writer has stopped).
 *   C2  A connection is freed by connection_run or, outside of it, by the sweep; whatever happens
 *       to it inside is noted in `dead` and `state`. */
#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>

#include "http_internal.h"
#include "otlite/clock.h"
#include "otlite/log.h"
#include "otlite/stats.h"

/* Room that is made at once for a body of known length. What was not received yet costs no memory,
 * but address space; beyond this a buffer grows with what has come. */
enum { FIRST_GRANT = BUFFER_LARGE };

/* --- the socket: all that TLS would replace --- */

static ssize_t socket_receive(struct connection *c, void *p, size_t n)
{
    ssize_t got;

    do {
        got = recv(c->fd, p, n, 0);
    } while (got < 0 && errno == EINTR);
    return got;
}

static ssize_t socket_send(struct connection *c, const void *p, size_t n)
{
    ssize_t put;

    do {
        put = send(c->fd, p, n, MSG_NOSIGNAL);
    } while (put < 0 && errno == EINTR);
    return put;
}

/* --- state --- */

static void enter(struct connection *c, enum connection_state state)
{
    TAILQ_REMOVE(&c->loop->connections[c->state], c, by_state);
    c->state = state;
    TAILQ_INSERT_TAIL(&c->loop->connections[state], c, by_state);
    if (state != CONN_HANDLING)
        c->since_ns = clock_mono_ns();
}

/* reading_bytes counts what is held of requests that are not whole; one that came in one piece is
 * never counted. */
static void count_reading(struct connection *c, size_t held)
{
    if (held == c->counted)
        return;
    STATS_ADD(reading_bytes, (int64_t)held - (int64_t)c->counted);
    c->counted = held;
}

static void release_buffer(struct connection *c)
{
    buffer_give(&c->loop->buffers, c->in);
    c->in = NULL;
    c->start = c->end = 0;
}

static void connection_free(struct connection *c)
{
    struct http_loop *l = c->loop;

    TAILQ_REMOVE(&l->connections[c->state], c, by_state);
    if (c->waits_for_turn)
        TAILQ_REMOVE(&l->turns, c, by_turn);
    if (c->x != NULL)
        exchange_free(c->x);
    count_reading(c, 0);
    release_buffer(c);
    buf_fini(&c->pending);
    if (c->read_event != NULL)
        event_free(c->read_event);
    if (c->write_event != NULL)
        event_free(c->write_event);
    (void)close(c->fd);
    STATS_SUB(connections, 1);
    atomic_fetch_sub(&l->load, 1);
    free(c);
}

void connection_free_all(struct http_loop *l)
{
    for (int state = 0; state < CONN_STATES; state++) {
        while (!TAILQ_EMPTY(&l->connections[state]))
            connection_free(TAILQ_FIRST(&l->connections[state]));
    }
}

/* --- sending --- */

/* A socket that is closed with unread bytes in it sends a reset, which can overtake the answer that
 * says why (a 413, S05). So only our side is shut, and the rest is read away until the client
 * closes too, or for LINGER_MS. */
static void linger(struct connection *c)
{
    if (shutdown(c->fd, SHUT_WR) != 0) {
        c->dead = true;
        return;
    }
    c->skip = 0;
    release_buffer(c);
    enter(c, CONN_LINGERING);
    c->readable = true;
}

static void go_on(struct connection *c)
{
    enter(c, c->in != NULL || c->skip > 0 ? CONN_READING : CONN_IDLE);
}

/* The answer is on its way: what comes next. */
static void answered(struct connection *c, bool close)
{
    if (c->dead) {
        enter(c, CONN_IDLE); /* no longer HANDLING: it can be freed */
        return;
    }
    if (close) {
        linger(c);
        return;
    }
    if (c->start == c->end)
        release_buffer(c);
    if (c->rest_after)
        enter(c, CONN_RESTING);
    else
        go_on(c);
    c->rest_after = false;
}

/* Send, or keep in `pending` what the socket does not take. */
static void send_all(struct connection *c, struct bytes data)
{
    while (data.n > 0 && c->pending.n == 0) {
        ssize_t put = socket_send(c, data.p, data.n);

        if (put < 0 && errno != EAGAIN) {
            c->dead = true;
            return;
        }
        if (put < 0)
            break;
        data.p += put;
        data.n -= (size_t)put;
    }
    if (data.n == 0)
        return;
    if (c->pending.n == 0 && event_add(c->write_event, NULL) != 0)
        c->dead = true;
    buf_add_bytes(&c->pending, data);
    c->dead = c->dead || c->pending.failed;
}

static void connection_run(struct connection *c);

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    struct connection *c = arg;
    struct buf left = c->pending;

    (void)fd;
    (void)what;
    c->pending = (struct buf){0};
    /* Added again when something stays behind. */
    (void)event_del(c->write_event);
    send_all(c, buf_bytes(&left));
    buf_fini(&left);
    if (c->pending.n == 0 && c->state == CONN_REPLYING)
        answered(c, c->close_after);
    connection_run(c);
}

/* --- reading requests --- */

static char *request_at(const struct connection *c)
{
    return c->in->data + c->start;
}

enum step { STEP_ON, STEP_STARVED };

static enum step refuse(struct connection *c, enum otl_err code, const char *text)
{
    exchange_refuse(c->x, code, text);
    return STEP_ON;
}

static enum step read_head(struct connection *c)
{
    size_t n = c->end - c->start, max = c->loop->server->opts.max_header_bytes, head_end = 0;
    enum head_progress p = head_scan(&c->scan, request_at(c), n, &head_end);
    const char *why = "the bytes are no HTTP/1.1 request";
    struct otl_error err;
    enum otl_err rc;

    if (p == HEAD_WHOLE && head_end <= max) {
        /* Empty lines before the request line are no part of it. */
        c->start += c->scan.first;
        c->head_n = head_end - c->scan.first;
    } else if (p == HEAD_MORE && n <= max) {
        return STEP_STARVED;
    }
    c->x = exchange_new(c);
    if (c->x == NULL) {
        c->dead = true;
        return STEP_ON;
    }
    /* Of a head that is too large or broken the first part may still name the encoding. */
    rc = head_parse(&c->x->head, request_at(c),
                    c->head_n > 0 ? c->head_n
                    : n < max     ? n
                                  : max,
                    &why);
    if (c->head_n == 0 && p != HEAD_BROKEN) {
        rc = otl_fail(&err, OTL_EHEAD,
                      "the head of the request is larger than %zu bytes (http.max_header)", max);
        why = err.msg;
    } else if (p == HEAD_BROKEN && rc == OTL_OK) {
        rc = OTL_EBADREQUEST;
    }
    if (rc != OTL_OK)
        return refuse(c, rc, why);
    c->raw = c->head_n;
    if (!exchange_admit(c->x))
        return STEP_ON;
    /* Not when the body is on its way already. */
    if (c->x->head.expect == EXPECT_CONTINUE && c->end - c->start == c->head_n &&
        (c->x->head.chunked || c->x->head.length > 0))
        send_all(c, bytes_str("HTTP/1.1 100 Continue\r\n\r\n"));
    return STEP_ON;
}

static enum step read_chunks(struct connection *c)
{
    size_t max = c->loop->server->opts.max_body_bytes, used, made;
    uint8_t *p = (uint8_t *)request_at(c);
    enum chunked_progress progress =
        chunked_read(&c->chunked, p + c->head_n + c->body_n, p + c->raw, c->end - c->start - c->raw,
                     &used, &made);
    struct otl_error err;

    c->raw += used;
    c->body_n += made;
    if (progress == CHUNKED_BROKEN)
        return refuse(c, OTL_EBADREQUEST,
                      "the chunked body is malformed: each chunk is SIZE in hex digits, CR LF, the "
                      "bytes, CR LF");
    if (c->body_n > max || c->chunked.left > max - c->body_n) {
        (void)otl_fail(&err, OTL_ETOOBIG,
                       "the body is larger than %zu bytes (http.max_body); send smaller batches",
                       max);
        return refuse(c, OTL_ETOOBIG, err.msg);
    }
    if (progress == CHUNKED_MORE) {
        /* All was read, so what is not body can be written over. */
        c->raw = c->head_n + c->body_n;
        c->end = c->start + c->raw;
        return STEP_STARVED;
    }
    c->request_n = c->raw;
    return STEP_ON;
}

/* Take one step with the bytes that are here. */
static enum step read_request(struct connection *c)
{
    size_t n = c->end - c->start;

    if (c->skip > 0) {
        size_t take = n < c->skip ? n : c->skip;

        c->start += take;
        c->skip -= take;
        if (c->start == c->end)
            release_buffer(c);
        if (c->skip == 0 && c->in == NULL)
            enter(c, CONN_IDLE);
        return c->skip > 0 ? STEP_STARVED : STEP_ON;
    }
    if (n == 0)
        return STEP_STARVED;
    if (c->head_n == 0)
        return read_head(c);
    if (c->x->head.chunked) {
        if (read_chunks(c) == STEP_STARVED)
            return STEP_STARVED;
        if (c->request_n == 0)
            return STEP_ON; /* refused */
    } else {
        /* exchange_admit has seen that the length is in bounds. */
        if (n - c->head_n < c->x->head.length)
            return STEP_STARVED;
        c->body_n = (size_t)c->x->head.length;
        c->request_n = c->head_n + c->body_n;
    }
    count_reading(c, 0);
    enter(c, CONN_HANDLING);
    exchange_handle(c->x);
    return STEP_ON;
}

/* The request is not whole. Bodies are held until they are, so that half ones on many connections
 * would take any amount of memory: past the limit those that sent much are refused. */
static enum step hold(struct connection *c)
{
    size_t limit = c->loop->server->opts.max_reading_bytes, held = c->end - c->start;
    static struct log_gate gate;
    uint64_t suppressed;

    if (held > 0 && c->state != CONN_READING)
        enter(c, CONN_READING);
    count_reading(c, held);
    if (limit == 0 || held <= SMALL_REQUEST || STATS_GET(reading_bytes) <= (int64_t)limit)
        return STEP_STARVED;
    STATS_ADD(connections_overloaded, 1);
    if (log_gate_open(&gate, 10 * NS_PER_S, &suppressed))
        LOG(LOG_WARN, "http",
            "a request was refused: too many bytes of requests are arriving (http.max_inflight)",
            LOG_I("bytes", STATS_GET(reading_bytes)), LOG_S("peer", c->peer),
            LOG_I("suppressed", suppressed));
    if (c->x == NULL)
        c->x = exchange_new(c);
    if (c->x == NULL) {
        c->dead = true;
        return STEP_ON;
    }
    return refuse(c, OTL_EBUSY,
                  "too many bytes of requests are arriving (http.max_inflight); send again");
}

/* --- receiving --- */

/* How large the buffer should be for the request that is being read. */
static size_t wanted_room(const struct connection *c)
{
    size_t held = c->end - c->start, need, grant;

    if (c->x == NULL || !c->x->head.has_length)
        return held < c->in->cap ? held + 1 : held * 4;
    need = c->head_n + (size_t)c->x->head.length;
    grant = held > FIRST_GRANT / 4 ? held * 4 : FIRST_GRANT;
    return need < grant ? need : grant;
}

/* Room behind `end`: for all of a body whose length is known, as far as is wise. */
static bool make_room(struct connection *c)
{
    struct buffer_pool *pool = &c->loop->buffers;
    size_t held = c->end - c->start, want;

    if (c->in == NULL) {
        c->in = buffer_take(pool, BUFFER_SMALL);
        return c->in != NULL;
    }
    want = wanted_room(c);
    if (c->end < c->in->cap && want <= c->in->cap - c->start)
        return true;
    if (want > c->in->cap) {
        struct recv_buffer *b = buffer_take(pool, want);

        if (b == NULL)
            return false;
        memcpy(b->data, request_at(c), held);
        buffer_give(pool, c->in);
        c->in = b;
    } else {
        memmove(c->in->data, request_at(c), held);
    }
    c->start = 0;
    c->end = held;
    if (c->x != NULL)
        c->x->head.text = c->in->data;
    return true;
}

static void receive(struct connection *c)
{
    size_t room;
    ssize_t got;

    if (!make_room(c)) {
        c->dead = true;
        return;
    }
    room = c->in->cap - c->end;
    got = socket_receive(c, c->in->data + c->end, room);
    if (got > 0) {
        c->end += (size_t)got;
        /* Less than was asked for is all there is, but for the end of the stream. */
        if ((size_t)got < room && !c->hung_up)
            c->readable = false;
    } else if (got < 0 && errno == EAGAIN) {
        c->readable = false;
    } else {
        c->dead = true; /* no request that is not whole will ever be */
    }
    if (c->state == CONN_LINGERING || c->start == c->end)
        release_buffer(c);
}

static void wait_for_turn(struct connection *c)
{
    const struct timeval now = {0};

    if (c->waits_for_turn)
        return;
    c->waits_for_turn = true;
    TAILQ_INSERT_TAIL(&c->loop->turns, c, by_turn);
    (void)event_add(c->loop->turn, &now);
}

void connection_run_turns(struct http_loop *l)
{
    struct connection_list turns = TAILQ_HEAD_INITIALIZER(turns);
    struct connection *c;

    TAILQ_CONCAT(&turns, &l->turns, by_turn);
    while ((c = TAILQ_FIRST(&turns)) != NULL) {
        TAILQ_REMOVE(&turns, c, by_turn);
        c->waits_for_turn = false;
        connection_run(c);
    }
}

/* Do all that can be done now. c may be gone afterwards. */
static void connection_run(struct connection *c)
{
    unsigned receives = 0;

    c->running = true;
    while (!c->dead && c->state != CONN_HANDLING && c->state != CONN_REPLYING &&
           c->state != CONN_RESTING) {
        if (c->state != CONN_LINGERING && (read_request(c) == STEP_ON || hold(c) == STEP_ON))
            continue;
        if (!c->readable)
            break;
        if (++receives > RECEIVES_A_TURN) {
            wait_for_turn(c);
            break;
        }
        receive(c);
    }
    c->running = false;
    if (c->dead && c->state != CONN_HANDLING)
        connection_free(c);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct connection *c = arg;

    (void)fd;
    c->readable = true;
    if ((what & EV_CLOSED) != 0)
        c->hung_up = true;
    if (c->hung_up && c->x != NULL && c->x->gone != NULL)
        atomic_store(c->x->gone, true);
    connection_run(c);
}

/* --- answers --- */

bool connection_can_go_on(const struct connection *c)
{
    uint64_t here = c->end - c->start, whole;

    if (c->request_n > 0)
        return true;
    if (c->head_n == 0 || c->x->head.chunked)
        return false;
    if (!c->x->head.has_length || c->x->head.length == 0)
        return true;
    /* Whether a client that waits for 100 sends its body after another answer is its own choice. */
    if (c->x->head.expect != EXPECT_NOTHING && here == c->head_n)
        return false;
    whole = c->head_n + (c->x->head.length < SIZE_MAX / 2 ? c->x->head.length : SIZE_MAX / 2);
    return whole <= here || whole - here <= SKIP_MAX;
}

/* What the request leaves to be read past. */
static size_t rest_of_request(const struct connection *c)
{
    if (c->request_n > 0)
        return c->request_n;
    return c->head_n + (c->x->head.has_length ? (size_t)c->x->head.length : 0);
}

void connection_rest(struct connection *c)
{
    c->rest_after = true;
}

void connection_replied(struct connection *c, struct bytes answer, bool close)
{
    struct http_exchange *x = c->x;

    assert(c->state != CONN_REPLYING && c->state != CONN_LINGERING);
    send_all(c, answer);
    if (c->dead)
        STATS_ADD(replies_dropped, 1);
    c->skip = close ? 0 : rest_of_request(c);
    c->x = NULL;
    exchange_free(x);
    c->scan = (struct head_scan){0};
    c->chunked = (struct chunked){0};
    c->head_n = c->body_n = c->raw = c->request_n = 0;
    count_reading(c, 0);
    if (c->skip <= c->end - c->start) {
        c->start += c->skip;
        c->skip = 0;
    } else {
        c->skip -= c->end - c->start;
        c->start = c->end;
    }
    if (c->pending.n > 0) {
        c->close_after = close;
        enter(c, CONN_REPLYING);
    } else {
        answered(c, close);
    }
    if (!c->running)
        connection_run(c);
}

/* --- beginning and end --- */

static void on_adopted(struct handoff_item *item)
{
    connection_start(
        (struct connection *)(void *)((char *)item - offsetof(struct connection, adopt)));
}

static void set_peer(struct connection *c, const struct sockaddr *peer)
{
    const void *address =
        peer->sa_family == AF_INET6
            ? (const void *)&((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr
            : &((const struct sockaddr_in *)(const void *)peer)->sin_addr;

    if (inet_ntop(peer->sa_family, address, c->peer, sizeof(c->peer)) == NULL)
        c->peer[0] = '\0';
}

void connection_open(struct http_loop *l, int fd, const struct sockaddr *peer)
{
    struct http_server *s = l->server;
    struct connection *c = calloc(1, sizeof(*c));
    struct http_loop *to = l;
    const int on = 1;

    if (c == NULL) {
        (void)close(fd);
        return;
    }
    /* Few, long connections are the usual case: each loop shall have its share of them. */
    for (unsigned i = 0; i < s->n_loops; i++) {
        if (atomic_load(&s->loops[i].load) < atomic_load(&to->load))
            to = &s->loops[i];
    }
    atomic_fetch_add(&to->load, 1);
    STATS_ADD(connections, 1);
    STATS_ADD(connections_accepted, 1);
    c->loop = to;
    c->fd = fd;
    set_peer(c, peer);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    c->adopt.run = on_adopted;
    if (to == l)
        connection_start(c);
    else
        handoff_push(&to->handoff, &c->adopt);
}

void connection_start(struct connection *c)
{
    struct http_loop *l = c->loop;

    c->state = CONN_FIRST;
    c->since_ns = clock_mono_ns();
    TAILQ_INSERT_TAIL(&l->connections[CONN_FIRST], c, by_state);
    c->read_event =
        event_new(l->base, c->fd, EV_READ | EV_CLOSED | EV_PERSIST | EV_ET, on_readable, c);
    c->write_event = event_new(l->base, c->fd, EV_WRITE | EV_PERSIST | EV_ET, on_writable, c);
    if (c->read_event == NULL || c->write_event == NULL || event_add(c->read_event, NULL) != 0)
        connection_free(c);
}

static int64_t deadline_ms(const struct http_opts *o, enum connection_state state)
{
    switch (state) {
    case CONN_FIRST:
        return o->idle_timeout_ms < o->request_timeout_ms ? o->idle_timeout_ms
                                                          : o->request_timeout_ms;
    case CONN_IDLE:
        return o->idle_timeout_ms;
    case CONN_READING:
    case CONN_REPLYING:
        return o->request_timeout_ms;
    case CONN_RESTING:
        return REST_MS;
    case CONN_LINGERING:
        return LINGER_MS;
    case CONN_HANDLING:
    case CONN_STATES:
        break;
    }
    return INT64_MAX / NS_PER_MS;
}

/* Each state has one deadline and its list is in the order of entering, so the late ones are in
 * front, and 10,000 idle connections cost nothing. */
void connection_sweep(struct http_loop *l, int64_t now_ns)
{
    for (int state = 0; state < CONN_STATES; state++) {
        int64_t ms = deadline_ms(&l->server->opts, (enum connection_state)state);
        struct connection *c;

        while ((c = TAILQ_FIRST(&l->connections[state])) != NULL && state != CONN_HANDLING &&
               now_ns - c->since_ns > ms * NS_PER_MS) {
            if (state == CONN_RESTING) {
                go_on(c);
                connection_run(c);
                continue;
            }
            if (state != CONN_LINGERING)
                STATS_ADD(connections_timed_out, 1);
            connection_free(c);
        }
    }
    buffer_pool_sweep(&l->buffers);
}
