/* The server over sockets, with routes of its own: what the end-to-end tests cannot reach through
 * the daemon. Each wait has an event to wait for; a socket that says nothing for 20 s is a failure.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "otlite/http.h"
#include "otlite/stats.h"

enum { MAX_BODY = 8 * 1024 * 1024, MAX_HEAD = 4096 };

/* One exchange that a test holds open, as the writer would. */
static struct {
    pthread_mutex_t mu;
    pthread_cond_t changed;
    struct http_exchange *x;
    struct handoff_item release;
    _Atomic unsigned admitted; /* calls of admit_some */
    _Atomic unsigned handled;
} shared = {.mu = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static struct http_server *server;

static void echo(struct http_exchange *x, void *arg)
{
    (void)arg;
    shared.handled++;
    http_reply(x, 200, "text/plain", http_body(x));
}

/* Answers with a megabyte for each byte of the body. */
static void flood(struct http_exchange *x, void *arg)
{
    size_t n = http_body(x).n << 20;
    char *big = malloc(n + 1);

    (void)arg;
    assert_non_null(big);
    memset(big, 'f', n);
    http_reply(x, 200, "text/plain", bytes_of(big, n));
    free(big);
}

static void hold(struct http_exchange *x, void *arg)
{
    (void)arg;
    (void)pthread_mutex_lock(&shared.mu);
    shared.x = x;
    (void)pthread_cond_signal(&shared.changed);
    (void)pthread_mutex_unlock(&shared.mu);
}

static void on_release(struct handoff_item *item)
{
    struct http_exchange *x = shared.x;

    (void)item;
    shared.x = NULL;
    http_reply(x, 200, "text/plain", http_body(x));
}

static void wait_held(void)
{
    (void)pthread_mutex_lock(&shared.mu);
    while (shared.x == NULL)
        (void)pthread_cond_wait(&shared.changed, &shared.mu);
    (void)pthread_mutex_unlock(&shared.mu);
}

static void release_held(void)
{
    shared.release.run = on_release;
    handoff_push(http_loop_handoff(http_exchange_loop(shared.x)), &shared.release);
}

static bool admit_some(struct http_exchange *x, void *arg)
{
    uint64_t length = 0;
    char text[64];

    (void)arg;
    shared.admitted++;
    assert_int_equal(http_body(x).n, 0);
    if (http_header(x, "X-Let-In") != NULL)
        return true;
    (void)snprintf(text, sizeof(text), "refused %s",
                   http_content_length(x, &length) ? "length" : "none");
    http_reply(x, 401, "text/plain", bytes_str(text));
    return false;
}

static const struct http_route routes[] = {
    {.path = "/echo",
     .allow = "POST, GET",
     .methods = HTTP_POST | HTTP_GET | HTTP_HEAD,
     .handle = echo},
    {.path = "/hold", .allow = "POST", .methods = HTTP_POST, .handle = hold},
    {.path = "/flood", .allow = "POST", .methods = HTTP_POST, .handle = flood},
    {.path = "/admit", .allow = "POST", .methods = HTTP_POST, .admit = admit_some, .handle = echo},
    {.path = NULL}};

static const char *const listen_at[] = {"127.0.0.1:0", NULL};

static struct http_opts opts(void)
{
    return (struct http_opts){.listen = listen_at,
                              .loops = 2,
                              .max_body_bytes = MAX_BODY,
                              .max_header_bytes = MAX_HEAD,
                              .max_connections = 1000,
                              .idle_timeout_ms = 60000,
                              .request_timeout_ms = 60000,
                              .routes = routes};
}

static void start(const struct http_opts *o)
{
    struct otl_error err;

    assert_int_equal(http_start(o, &server, &err), OTL_OK);
}

static int set_up(void **state)
{
    struct http_opts o = opts();

    (void)state;
    shared.admitted = shared.handled = 0;
    start(&o);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    http_stop(server, 10000);
    assert_int_equal(STATS_GET(connections), 0);
    assert_int_equal(STATS_GET(reading_bytes), 0);
    return 0;
}

/* --- a client --- */

static int dial(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)http_port(server, 0)),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const struct timeval patience = {.tv_sec = 20};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static void say_bytes(int fd, const void *p, size_t n)
{
    while (n > 0) {
        ssize_t put = send(fd, p, n, MSG_NOSIGNAL);

        assert_true(put > 0);
        p = (const char *)p + put;
        n -= (size_t)put;
    }
}

static void say(int fd, const char *text)
{
    say_bytes(fd, text, strlen(text));
}

static char heard[4 * 1024 * 1024 + 4096];
static size_t heard_n;

/* Read one answer, no byte more: its head to `heard`, terminated; returns its body. */
static const char *hear(int fd)
{
    const char *length;
    size_t body = 0, at;

    heard_n = 0;
    do {
        assert_true(heard_n < sizeof(heard) - 1);
        assert_int_equal(recv(fd, heard + heard_n, 1, 0), 1);
        heard[++heard_n] = '\0';
    } while (heard_n < 4 || strcmp(heard + heard_n - 4, "\r\n\r\n") != 0);
    at = heard_n;
    length = strstr(heard, "Content-Length: ");
    if (length != NULL)
        body = strtoul(length + 16, NULL, 10);
    assert_true(body < sizeof(heard) - heard_n);
    while (body > 0) {
        ssize_t got = recv(fd, heard + heard_n, body, 0);

        assert_true(got > 0);
        heard_n += (size_t)got;
        body -= (size_t)got;
    }
    heard[heard_n] = '\0';
    return heard + at;
}

static void assert_status(int fd, const char *status, const char *body)
{
    const char *got = hear(fd);

    assert_memory_equal(heard, "HTTP/1.1 ", 9);
    assert_memory_equal(heard + 9, status, 3);
    if (body != NULL)
        assert_string_equal(got, body);
}

static void assert_ended(int fd)
{
    char byte;

    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    (void)close(fd);
}

/* --- tests --- */

static void admit_is_asked_before_the_body_is_read(void **state)
{
    int fd = dial();

    (void)state;
    say(fd, "POST /admit HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n");
    assert_status(fd, "401", "refused length"); /* the body was not sent yet */
    /* A short body is read past, in pieces too, and never handled. */
    say(fd, "GE");
    say(fd, "T /POST /admit HTTP/1.1\r\nHost: h\r\nX-Let-In: y\r\nContent-Length: 2\r\n\r\nok");
    assert_status(fd, "200", "ok");
    say(fd, "POST /admit HTTP/1.1\r\nHost: h\r\n\r\n"
            "POST /admit HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"
            "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\ndef");
    assert_status(fd, "401", "refused none");
    assert_status(fd, "401", "refused length");
    assert_status(fd, "200", "def");
    (void)close(fd);
    assert_int_equal(shared.admitted, 4);
    assert_int_equal(shared.handled, 2);
}

static void a_refused_body_that_is_long_or_chunked_ends_the_connection(void **state)
{
    static const char *const rest[] = {"Content-Length: 1000000\r\n\r\n",
                                       "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"};
    static char much[1000000];

    (void)state;
    for (int i = 0; i < 2; i++) {
        int fd = dial();

        say(fd, "POST /admit HTTP/1.1\r\nHost: h\r\n");
        say(fd, rest[i]);
        assert_status(fd, "401", i == 0 ? "refused length" : "refused none");
        assert_non_null(strstr(heard, "\r\nConnection: close\r\n"));
        /* It lingers: what still comes is no reason for a reset. */
        say_bytes(fd, much, sizeof(much));
        assert_int_equal(shutdown(fd, SHUT_WR), 0);
        assert_ended(fd);
    }
    assert_int_equal(shared.handled, 0);
}

static void expect_is_answered_by_admit_or_by_100(void **state)
{
    int fd = dial();

    (void)state;
    say(fd, "POST /admit HTTP/1.1\r\nHost: h\r\nX-Let-In: y\r\nExpect: 100-continue\r\n"
            "Content-Length: 2\r\n\r\n");
    assert_status(fd, "100", "");
    say(fd, "hi");
    assert_status(fd, "200", "hi");
    /* Not said when the body comes unasked. */
    say(fd,
        "POST /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi");
    assert_status(fd, "200", "hi");
    /* Whether the client sends the body after a refusal cannot be known: the connection ends. */
    say(fd, "POST /admit HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_status(fd, "401", "refused length");
    assert_non_null(strstr(heard, "\r\nConnection: close\r\n"));
    assert_ended(fd);
    fd = dial();
    say(fd, "POST /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n"
            "Content-Length: 100000000\r\n\r\n");
    assert_status(fd, "413", NULL);
    assert_ended(fd);
}

/* Whatever the pieces, and wherever they end relative to the buffer. */
static void bodies_of_every_size_come_through_whole(void **state)
{
    static const size_t sizes[] = {0,     1,      32000,   32768,   32769,
                                   65536, 200000, 1048576, 2000000, 4 * 1024 * 1024};
    static char body[4 * 1024 * 1024];
    char head[128];
    int fd = dial();

    (void)state;
    for (size_t i = 0; i < sizeof(body); i++)
        body[i] = (char)('a' + i % 23);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int chunked = 0; chunked < 2; chunked++) {
            size_t n = sizes[i], at;

            (void)snprintf(head, sizeof(head), "POST /echo HTTP/1.1\r\nHost: h\r\n%s: ",
                           chunked ? "Transfer-Encoding" : "Content-Length");
            say(fd, head);
            (void)snprintf(head, sizeof(head), chunked ? "chunked\r\n\r\n" : "%zu\r\n\r\n", n);
            say(fd, head);
            for (at = 0; chunked && at < n;) {
                size_t take = n - at < 50001 ? n - at : 50001;

                (void)snprintf(head, sizeof(head), "%zx\r\n", take);
                say(fd, head);
                say_bytes(fd, body + at, take);
                say(fd, "\r\n");
                at += take;
            }
            if (chunked)
                say(fd, "0\r\n\r\n");
            else
                say_bytes(fd, body, n);
            assert_status(fd, "200", NULL);
            assert_memory_equal(heard + heard_n - n, body, n);
        }
    }
    (void)close(fd);
}

static void requests_wait_in_line_behind_one_that_is_held(void **state)
{
    int fd = dial();

    (void)state;
    say(fd, "POST /hold HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nheld"
            "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nmo");
    wait_held();
    say(fd, "re"); /* arrives while the first is held */
    release_held();
    assert_status(fd, "200", "held");
    assert_status(fd, "200", "more");
    /* A client that has shut its side still gets what it asked for. */
    say(fd, "POST /hold HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nlast"
            "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    wait_held();
    release_held();
    assert_status(fd, "200", "last");
    assert_status(fd, "200", "");
    assert_ended(fd);
}

/* The body is borrowed until the reply, whatever the client does. */
static void a_client_that_vanishes_leaves_the_body_to_its_handler(void **state)
{
    const struct linger reset = {.l_onoff = 1};
    uint64_t dropped = STATS_GET(replies_dropped);
    int fd = dial(), other;

    (void)state;
    say(fd, "POST /hold HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody");
    wait_held();
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
    (void)close(fd);
    /* Two later connections, one for each loop, so the loop of the first has seen the reset. */
    for (int i = 0; i < 2; i++) {
        other = dial();
        say(other, "GET /echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        assert_status(other, "200", "");
        assert_ended(other);
    }
    assert_memory_equal(http_body(shared.x).p, "body", 4);
    release_held();
    assert_true(http_wait_idle(server, 10000));
    assert_int_equal(STATS_GET(replies_dropped), dropped + 1);
}

/* One edge may tell of the request and of the end behind it: the end must not be missed, or the
 * connection would stay until its deadline. */
static void an_end_that_comes_with_its_request_is_seen(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        int fd = dial();

        say(fd, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nping");
        assert_int_equal(shutdown(fd, SHUT_WR), 0);
        assert_status(fd, "200", "ping");
        assert_ended(fd);
    }
}

static void a_slow_reader_holds_up_only_itself(void **state)
{
    int fd = dial(), other = dial();
    size_t total = 0;

    (void)state;
    say(fd, "POST /flood HTTP/1.1\r\nHost: h\r\nContent-Length: 30\r\n\r\n"
            "012345678901234567890123456789"
            "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nnext");
    say(other, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi");
    assert_status(other, "200", "hi");
    (void)close(other);
    do { /* the head, byte by byte */
        assert_int_equal(recv(fd, heard + total, 1, 0), 1);
        heard[++total] = '\0';
    } while (strstr(heard, "\r\n\r\n") == NULL);
    for (size_t left = (size_t)30 << 20; left > 0;) {
        ssize_t got = recv(fd, heard, left < sizeof(heard) ? left : sizeof(heard), 0);

        assert_true(got > 0);
        assert_int_equal(heard[0], 'f');
        left -= (size_t)got;
    }
    assert_status(fd, "200", "next");
    (void)close(fd);
}

static void head_has_the_length_and_no_body(void **state)
{
    int fd = dial();
    char text[256];
    ssize_t n;

    (void)state;
    say(fd, "HEAD /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc");
    for (n = 0;;) {
        ssize_t got = recv(fd, text + n, sizeof(text) - 1 - (size_t)n, 0);

        assert_true(got >= 0);
        if (got == 0)
            break;
        n += got;
    }
    text[n] = '\0';
    assert_non_null(strstr(text, "\r\nContent-Length: 3\r\n"));
    assert_string_equal(text + n - 4, "\r\n\r\n");
    (void)close(fd);
}

static void a_stopping_server_refuses_connections_and_ends_those_it_has(void **state)
{
    int fd = dial(), late;
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)http_port(server, 0)),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};

    (void)state;
    say(fd, "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_status(fd, "200", "");
    say(fd, "POST /hold HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nheld");
    wait_held();
    http_stop_accepting(server);
    assert_false(http_wait_idle(server, 0));
    release_held();
    assert_status(fd, "200", "held");
    assert_non_null(strstr(heard, "\r\nConnection: close\r\n"));
    assert_ended(fd);
    assert_true(http_wait_idle(server, 10000));
    /* Each loop closes its listeners when it hears of it; the last one makes the port refuse. */
    for (int refused = 0; !refused;) {
        late = socket(AF_INET, SOCK_STREAM, 0);
        assert_true(late >= 0);
        refused = connect(late, (struct sockaddr *)&to, sizeof(to)) != 0;
        (void)close(late);
    }
}

/* Half a request of each kind on each of many connections, then none of them served: the end frees
 * what they hold (the sanitizers look on). */
static void the_end_frees_what_is_half_done(void **state)
{
    static const char *const halves[] = {
        "", "POST", "POST /echo HTTP/1.1\r\nHost: h\r\n",
        "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n1",
        ("POST /echo HTTP/1.1\r\nHost: h\r\n"
         "Transfer-Encoding: chunked\r\n\r\n5\r\n123")};
    int fds[40], ask = dial();

    (void)state;
    for (size_t i = 0; i < 40; i++) {
        fds[i] = dial();
        say(fds[i], halves[i % 5]);
    }
    say(ask, "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_status(ask, "200", "");
    http_stop(server, 0);
    assert_int_equal(STATS_GET(connections), 0);
    for (size_t i = 0; i < 40; i++)
        (void)close(fds[i]);
    (void)close(ask);
    (void)set_up(state);
}

/* Connections are dealt to the loops in turn, and all are served by theirs. */
static void many_connections_are_served_at_once(void **state)
{
    int fds[200];

    (void)state;
    for (size_t i = 0; i < 200; i++)
        fds[i] = dial();
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 200; i++)
            say(fds[i], "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nping");
        for (size_t i = 0; i < 200; i++)
            assert_status(fds[i], "200", "ping");
    }
    for (size_t i = 0; i < 200; i++)
        (void)close(fds[i]);
}

static void a_trickle_moves_no_deadline(void **state)
{
    struct http_opts o = opts();
    uint64_t ended;
    int fd, idle;

    http_stop(server, 0);
    o.request_timeout_ms = 300;
    o.idle_timeout_ms = 300;
    start(&o);
    ended = STATS_GET(connections_timed_out);
    idle = dial();
    fd = dial();
    say(fd, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n");
    /* Until the send fails: at the latest when the server has closed. */
    while (send(fd, "x", 1, MSG_NOSIGNAL) == 1)
        (void)usleep(1000);
    (void)close(fd);
    assert_ended(idle);
    assert_int_equal(STATS_GET(connections_timed_out), ended + 2);
    http_stop(server, 0);
    (void)set_up(state);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(admit_is_asked_before_the_body_is_read),
        T(a_refused_body_that_is_long_or_chunked_ends_the_connection),
        T(expect_is_answered_by_admit_or_by_100),
        T(bodies_of_every_size_come_through_whole),
        T(requests_wait_in_line_behind_one_that_is_held),
        T(a_client_that_vanishes_leaves_the_body_to_its_handler),
        T(an_end_that_comes_with_its_request_is_seen),
        T(a_slow_reader_holds_up_only_itself),
        T(head_has_the_length_and_no_body),
        T(a_stopping_server_refuses_connections_and_ends_those_it_has),
        T(the_end_frees_what_is_half_done),
        T(many_connections_are_served_at_once),
        T(a_trickle_moves_no_deadline),
    };
#undef T

    return cmocka_run_group_tests(tests, NULL, NULL);
}
