/* The load generator against an endpoint that answers by a fixed pattern: every answer is counted
 * where it belongs, whatever it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <pthread.h>

#include "../../bench/latencies.c"
#include "../../bench/http_client.c"
#include "../../bench/load.c"
#include "../../bench/process.c"
#include "../../bench/template.c"
#include "../../bench/template_content.c"
#include "../../bench/template_gzip.c"
#include "../../bench/template_influx.c"
#include "../../bench/template_json.c"
#include "../../bench/template_proto.c"

/* Takes one connection after another and answers its k-th request with the k-th of `answers`, over
 * and over; NULL closes the connection instead. */
struct endpoint {
    int fd;
    unsigned port;
    pthread_t thread;
    const char *const *answers;
    unsigned n_answers;
    unsigned requests; /* read after the thread has ended */
};

#define EMPTY(status) "HTTP/1.1 " status "\r\nContent-Length: 0\r\n\r\n"

/* Read one request; false when the peer has closed. */
static bool take_request(FILE *in)
{
    char line[1024];
    size_t length = 0;
    bool any = false;

    while (fgets(line, sizeof(line), in) != NULL) {
        any = true;
        if (strncasecmp(line, "Content-Length:", 15) == 0)
            length = strtoul(line + 15, NULL, 10);
        if (strcmp(line, "\r\n") == 0)
            break;
    }
    while (any && length > 0) {
        size_t n = fread(line, 1, length < sizeof(line) ? length : sizeof(line), in);

        if (n == 0)
            return false;
        length -= n;
    }
    return any;
}

static void *serve(void *arg)
{
    struct endpoint *e = arg;

    for (;;) {
        int fd = accept(e->fd, NULL, NULL);
        FILE *in;

        if (fd < 0)
            return NULL; /* shut down */
        in = fdopen(fd, "r");
        while (take_request(in)) {
            const char *answer = e->answers[e->requests++ % e->n_answers];

            if (answer == NULL || send(fd, answer, strlen(answer), MSG_NOSIGNAL) < 0)
                break;
        }
        fclose(in);
    }
}

static void endpoint_start(struct endpoint *e, const char *const *answers, unsigned n)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t a_n = sizeof(a);

    memset(e, 0, sizeof(*e));
    e->answers = answers;
    e->n_answers = n;
    e->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(e->fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(e->fd, 16), 0);
    assert_int_equal(getsockname(e->fd, (struct sockaddr *)&a, &a_n), 0);
    e->port = ntohs(a.sin_port);
    assert_int_equal(pthread_create(&e->thread, NULL, serve, e), 0);
}

static void endpoint_stop(struct endpoint *e)
{
    shutdown(e->fd, SHUT_RDWR);
    pthread_join(e->thread, NULL);
    close(e->fd);
}

struct seen {
    unsigned calls;
    struct load_second total;
};

static void on_second(void *arg, unsigned second, const struct load_second *what)
{
    struct seen *s = arg;

    assert_int_equal(second, s->calls);
    s->calls++;
    s->total.points += what->points;
    s->total.requests += what->requests;
    s->total.refused += what->refused;
    s->total.failed += what->failed;
    if (what->requests > 0)
        assert_true(what->p99_ns > 0 && what->p50_ns <= what->p99_ns &&
                    what->p99_ns <= what->max_ns);
}

enum { POINTS = 10, ROOM = 60 };

struct run {
    struct load_result result;
    struct load_second seconds[ROOM];
    struct seen seen;
    struct template_set set;
};

/* One connection, so that the answers come in the order of the pattern. */
static struct run *run_load(const struct endpoint *e, const struct template_opts *content,
                            double rate, int64_t duration_ns)
{
    struct run *r = calloc(1, sizeof(*r));
    struct otl_error err = {0};
    struct http_url url;
    char text[64];

    assert_non_null(r);
    snprintf(text, sizeof(text), "http://127.0.0.1:%u/v1/metrics", e->port);
    assert_int_equal(http_url_parse(text, &url, &err), OTL_OK);
    const struct load_opts o = {
        .url = &url,
        .connections = 1,
        .rate = rate,
        .wait_ns = 10 * NS_PER_S,
        .duration_ns = duration_ns,
        .timeout_ns = 60 * NS_PER_S,
        .on_second = on_second,
        .on_second_arg = &r->seen,
        .by_second = r->seconds,
        .by_second_room = ROOM,
    };

    assert_int_equal(template_set_init(&r->set, content, &err), OTL_OK);
    assert_int_equal(load_run(&o, &r->set, &r->result, &err), OTL_OK);
    template_set_fini(&r->set);
    return r;
}

static struct template_opts content_of(bool influx)
{
    return (struct template_opts){.host = "h",
                                  .path = "/",
                                  .headers = "",
                                  .influx = influx,
                                  .points = POINTS,
                                  .services = 1,
                                  .series = POINTS,
                                  .start_ns = INT64_C(1790000000000000000)};
}

/* Of each six requests two are accepted, one has rejected points, two are refused, one is bad. A
 * run may end anywhere in the pattern, so counts differ by what one pattern holds, at most. */
static void answers_are_counted_where_they_belong(void **state)
{
    static const char *const answers[] = {
        EMPTY("200 OK"),
        EMPTY("503 Service Unavailable"),
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\x0a\x02\x08\x03", /* three rejected */
        EMPTY("429 Too Many Requests"),
        /* A message, but nothing rejected. */
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n\x0a\x03\x12\x01!\r\n0\r\n\r\n",
        EMPTY("400 Bad Request"),
    };
    struct template_opts content = content_of(false);
    struct endpoint e;
    struct run *r;
    const struct load_result *l;

    (void)state;
    endpoint_start(&e, answers, 6);
    r = run_load(&e, &content, 0, 1200 * NS_PER_MS);
    endpoint_stop(&e);
    l = &r->result;
    assert_true(l->requests > 0);
    assert_int_equal(l->points, l->requests * POINTS);
    assert_int_equal(l->requests + l->partial, l->status[200]);
    assert_true(l->requests <= 2 * l->partial + 2 && l->requests + 2 >= 2 * l->partial);
    assert_true(l->status[503] + 1 >= l->partial && l->status[503] <= l->partial + 1);
    assert_true(l->status[429] + 1 >= l->partial && l->status[429] <= l->partial + 1);
    assert_true(l->status[400] + 1 >= l->partial && l->status[400] <= l->partial + 1);
    assert_int_equal(l->lost, 0);
    /* The request that was out at the end has its latency in one of them, but no count. */
    assert_true(l->refused.count >= l->status[429] + l->status[503]);
    assert_true(l->latency.count >= l->status[200] + l->status[400]);
    assert_true(l->refused.count + l->latency.count <= e.requests);

    assert_true(l->n_by_second >= 1);
    assert_int_equal(r->seen.calls, l->n_by_second);
    assert_true(r->seen.total.requests > 0 && r->seen.total.requests <= l->requests);
    assert_int_equal(r->seen.total.points, r->seen.total.requests * POINTS);
    assert_true(r->seen.total.refused > 0 && r->seen.total.failed > 0);
    for (unsigned i = 0; i < l->n_by_second && i < ROOM; i++)
        r->seen.total.points -= r->seconds[i].points;
    assert_int_equal(r->seen.total.points, 0);
    free(r);
}

/* A connection that is closed without an answer is a lost request, and is opened again. */
static void closed_connections_are_lost_requests(void **state)
{
    static const char *const answers[] = {EMPTY("200 OK"), NULL};
    struct template_opts content = content_of(false);
    struct endpoint e;
    struct run *r;

    (void)state;
    endpoint_start(&e, answers, 2);
    r = run_load(&e, &content, 0, 500 * NS_PER_MS);
    endpoint_stop(&e);
    assert_true(r->result.lost >= 1);
    assert_true(r->result.requests >= r->result.lost);
    assert_true(r->result.requests <= r->result.lost + 1);
    free(r);
}

/* InfluxDB answers 204. To OTLP that is no success. */
static void any_2xx_is_success_for_lines_only(void **state)
{
    static const char *const answers[] = {"HTTP/1.1 204 No Content\r\n\r\n"};

    (void)state;
    for (int influx = 0; influx <= 1; influx++) {
        struct template_opts content = content_of(influx != 0);
        struct endpoint e;
        struct run *r;

        endpoint_start(&e, answers, 1);
        r = run_load(&e, &content, 0, 100 * NS_PER_MS);
        endpoint_stop(&e);
        assert_true(r->result.status[204] > 0);
        assert_int_equal(r->result.requests, influx ? r->result.status[204] : 0);
        free(r);
    }
}

/* 200 requests a second for half a second are 100, sent or not. */
static void what_fell_due_is_sent_or_told(void **state)
{
    static const char *const answers[] = {EMPTY("200 OK")};
    struct template_opts content = content_of(false);
    struct endpoint e;
    struct run *r;

    (void)state;
    endpoint_start(&e, answers, 1);
    r = run_load(&e, &content, 200, 500 * NS_PER_MS);
    endpoint_stop(&e);
    assert_true(r->result.latency.count + r->result.unsent >= 99);
    assert_true(r->result.latency.count + r->result.unsent <= 101);
    free(r);
}

/* The first address takes no connection: nothing listens on port 1. */
static void all_addresses_of_a_name_are_tried(void **state)
{
    static const char *const answers[] = {EMPTY("200 OK")};
    struct endpoint e;
    struct http_url url, closed;
    struct otl_error err;
    char text[64];

    (void)state;
    endpoint_start(&e, answers, 1);
    snprintf(text, sizeof(text), "http://127.0.0.1:%u/", e.port);
    assert_int_equal(http_url_parse(text, &url, &err), OTL_OK);
    assert_int_equal(http_url_parse("http://127.0.0.1:1/", &closed, &err), OTL_OK);
    closed.addresses[1] = url.addresses[0];
    closed.n_addresses = 2;
    assert_int_equal(wait_for_endpoint(&closed, 0, &err), OTL_OK);
    assert_memory_equal(&closed.address, &url.address, sizeof(struct sockaddr_in));
    closed.n_addresses = 1;
    assert_int_equal(wait_for_endpoint(&closed, 0, &err), OTL_EIO);
    assert_non_null(strstr(err.msg, "127.0.0.1:1 takes no connection"));
    endpoint_stop(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_counted_where_they_belong),
        cmocka_unit_test(closed_connections_are_lost_requests),
        cmocka_unit_test(any_2xx_is_success_for_lines_only),
        cmocka_unit_test(what_fell_due_is_sent_or_told),
        cmocka_unit_test(all_addresses_of_a_name_are_tried),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
