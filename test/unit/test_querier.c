/* The querier on numbers: names, labels, matchers, merging, staleness, running totals, target_info.
 * What is expected is worked out by hand from the rules (otlp.md, chapter 4). */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "querier_fixture.h"
#include "query/querier_internal.h"
#include "random.h"

#define MS INT64_C(1000000)
/* 2024-01-01; a multiple of a day. */
#define T0 (INT64_C(1704067200000))

static struct qf q;

static int setup(void **state)
{
    (void)state;
    qf_open(&q);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    qf_close(&q);
    return 0;
}

static void resource(const char *name, struct bytes attributes)
{
    q.f->b.resources[0].attributes = attributes;
    q.f->b.resources[0].service_name = bytes_str(name);
}

/* {http.route: "/a", code: 200} with a number, by hand. */
static struct bytes route_and_code(void)
{
    static const char canonical[] = "\2\4codei\0\0\0\0\0\0\0\xc8\12http.routes\2/a";

    return bytes_of(canonical, sizeof(canonical) - 1);
}

/* The example at the end of chapter 4. */
static void add_example(void)
{
    uint32_t m;

    resource("api", qf_attrs(q.f, "host.name", "h", "service.instance.id", "i1", "service.name",
                             "api", NULL));
    q.f->b.scopes[0].version = bytes_str("1.2");
    m = fx_metric(q.f, METRIC_SUM, "http.server.requests", "{request}");
    fx_int(q.f, m, route_and_code(), T0 * MS + 999999, 42); /* truncated to T0 */
    qf_store(&q);
}

#define EXAMPLE_LABELS                                                                         \
    "code=\"200\", http_route=\"/a\", instance=\"i1\", job=\"api\", otel_scope_name=\"lib\", " \
    "otel_scope_version=\"1.2\""
#define AT_T0 "@1704067200000"

static void the_worked_example_comes_out(void **state)
{
    (void)state;
    q.opts.scope_labels = true;
    add_example();
    qf_expect(&q, "http_server_requests_total", T0, T0,
              "http_server_requests_total{" EXAMPLE_LABELS "} 42" AT_T0 "\n");
    qf_expect(&q, "target_info", T0, T0,
              "target_info{host_name=\"h\", instance=\"i1\", job=\"api\"} 1" AT_T0 "\n");
    q.opts.scope_labels = false;
    qf_expect(&q, "http_server_requests_total", T0, T0,
              "http_server_requests_total{code=\"200\", http_route=\"/a\", instance=\"i1\", "
              "job=\"api\"} 42" AT_T0 "\n");
}

static void a_range_holds_both_its_ends(void **state)
{
    (void)state;
    add_example();
    for (int64_t d = -1; d <= 1; d++) {
        char *from = qf_samples(&q, "http_server_requests_total", T0 + d, T0 + 5);
        char *to = qf_samples(&q, "http_server_requests_total", T0 - 5, T0 + d);

        assert_int_equal(strlen(from) > 0, d <= 0);
        assert_int_equal(strlen(to) > 0, d >= 0);
        free(from);
        free(to);
    }
}

static void every_way_to_name_it_finds_it(void **state)
{
    static const struct {
        const char *selector;
        bool found;
    } cases[] = {
        {"http_server_requests_total", true},
        {"{\"http.server.requests_total\"}", true},
        {"{\"http.server.requests\"}", true},
        {"http_server_requests", true},
        {"http_server_request", false},
        {"{__name__=~\"http_.*\"}", true},
        {"{__name__=~\"http\"}", false},
        {"{__name__!=\"other\",job=\"api\"}", true},
        {"{__name__!~\"http.*\",job=\"api\"}", false},
        {"{__name__=\"http_server_requests_total\",__name__!~\".*total\"}", false},
        {"http_server_requests_total{http_route=\"/a\"}", true},
        {"http_server_requests_total{\"http.route\"=\"/a\"}", true},
        {"http_server_requests_total{\"http.route\"=\"/b\"}", false},
        {"http_server_requests_total{\"http.route\"!=\"/a\"}", false},
        {"http_server_requests_total{code=\"200\"}", true},
        {"http_server_requests_total{code=~\"2..\"}", true},
        {"http_server_requests_total{code!~\"2..\"}", false},
        {"http_server_requests_total{code=~\"5..\"}", false},
        {"http_server_requests_total{none=\"\"}", true},
        {"http_server_requests_total{none!=\"x\"}", true},
        {"http_server_requests_total{none=~\".*\"}", true},
        {"http_server_requests_total{none=~\".+\"}", false},
        {"http_server_requests_total{none=\"x\"}", false},
        {"http_server_requests_total{none!=\"\"}", false},
        {"http_server_requests_total{job=\"api\",instance=\"i1\"}", true},
        {"http_server_requests_total{job=\"ap\"}", false},
        {"http_server_requests_total{job=~\"a.*\"}", true},
        {"http_server_requests_total{instance=\"i2\"}", false},
        {"http_server_requests_total{\"service.name\"=\"api\"}", true},
        {"http_server_requests_total{host_name=\"h\"}", false},
        {"http_server_requests_total{otel_scope_name=\"lib\"}", false},
    };
    (void)state;

    add_example();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *text = qf_series(&q, cases[i].selector, T0, T0, false);
        const char *end = strchr(text, '{');
        bool found = end != NULL && strncmp(text, "http_server_requests_total{", 27) == 0;

        if (found != cases[i].found)
            fail_msg("%s gives %s", cases[i].selector, text);
        free(text);
    }
}

static void labels_of_each_strategy(void **state)
{
    static const char *const expected[] = {
        [NAMES_UNDERSCORES_WITH_SUFFIXES] = "req_seconds_total{a_b=\"1\", job=\"svc\"}\n",
        [NAMES_UNDERSCORES_WITHOUT_SUFFIXES] = "req{a_b=\"1\", job=\"svc\"}\n",
        [NAMES_UTF8_WITH_SUFFIXES] = "req_seconds_total{\"a.b\"=\"1\", job=\"svc\"}\n",
        [NAMES_UNTRANSLATED] = "req{\"a.b\"=\"1\", job=\"svc\"}\n",
    };
    uint32_t m = fx_metric(q.f, METRIC_SUM, "req", "s");
    (void)state;

    fx_int(q.f, m, fx_attrs(q.f, "a.b", "1"), T0 * MS, 1);
    qf_store(&q);
    for (int s = 0; s < NAME_STRATEGIES; s++) {
        static const char *const selectors[] = {"req_seconds_total{a_b=\"1\"}", "req{a_b=\"1\"}",
                                                "{\"req_seconds_total\",\"a.b\"=\"1\"}"};

        q.opts.strategy = (enum name_strategy)s;
        for (size_t i = 0; i < 3; i++) {
            char *text = qf_series(&q, selectors[i], T0, T0, true);

            assert_string_equal(text, expected[s]);
            free(text);
        }
    }
}

static void a_shown_name_is_no_other_metrics_alias(void **state)
{
    uint32_t m = fx_metric(q.f, METRIC_GAUGE, "x", "");
    (void)state;

    fx_int(q.f, m, qf_attrs(q.f, NULL), T0 * MS, 1);
    m = fx_metric(q.f, METRIC_GAUGE, "x", "s"); /* x_seconds */
    fx_int(q.f, m, qf_attrs(q.f, NULL), T0 * MS, 2);
    qf_store(&q);
    qf_expect(&q, "x", T0, T0, "x{job=\"svc\"} 1" AT_T0 "\n");
    qf_expect(&q, "{__name__=~\"x|y\"}", T0, T0, "x{job=\"svc\"} 1" AT_T0 "\n");
    qf_expect(&q, "x_seconds", T0, T0, "x_seconds{job=\"svc\"} 2" AT_T0 "\n");
}

static void attributes_become_labels_by_the_rules(void **state)
{
    static const char *const promote[] = {"host.name", "zone", NULL};
    uint32_t m;
    (void)state;

    q.opts.promote = promote;
    resource("n", qf_attrs(q.f, "host.name", "h", "os", "x", "service.name", "n",
                           "service.namespace", "shop", "zone", "z", NULL));
    m = fx_metric(q.f, METRIC_GAUGE, "g", "");
    /* Collisions are joined, an empty value is none, __name__ is ignored, job is the resource's,
     * and what the point has is not promoted over. */
    fx_int(q.f, m,
           qf_attrs(q.f, "...", "dropped", "__name__", "no", "empty", "", "foo.bar", "1", "foo_bar",
                    "2", "job", "mine", "zone", "own", NULL),
           T0 * MS, 7);
    qf_store(&q);
    qf_expect(&q, "g", T0, T0,
              "g{foo_bar=\"1;2\", host_name=\"h\", job=\"shop/n\", zone=\"own\"} 7" AT_T0 "\n");
    qf_expect(&q, "g{job=\"shop/n\"}", T0, T0,
              "g{foo_bar=\"1;2\", host_name=\"h\", job=\"shop/n\", zone=\"own\"} 7" AT_T0 "\n");
    qf_expect(&q, "g{job=\"mine\"}", T0, T0, "");
    qf_expect(&q, "g{job=\"n\"}", T0, T0, "");
    qf_expect(&q, "g{foo_bar=\"1\"}", T0, T0, "");
    qf_expect(&q, "g{host_name=\"h\",\"foo.bar\"=\"1\",foo_bar=~\"1;.\"}", T0, T0,
              "g{foo_bar=\"1;2\", host_name=\"h\", job=\"shop/n\", zone=\"own\"} 7" AT_T0 "\n");
    q.opts.promote = NULL;
    q.opts.promote_all = true;
    qf_expect(&q, "g{os=\"x\"}", T0, T0,
              "g{foo_bar=\"1;2\", host_name=\"h\", job=\"shop/n\", os=\"x\", service_name=\"n\", "
              "service_namespace=\"shop\", zone=\"own\"} 7" AT_T0 "\n");
}

static void a_scope_has_its_attributes_as_labels(void **state)
{
    uint32_t m;
    (void)state;

    q.opts.scope_labels = true;
    q.f->b.scopes[0].schema_url = bytes_str("u");
    q.f->b.scopes[0].attributes = qf_attrs(q.f, "a.b", "1", "name", "no", "version", "no", NULL);
    m = fx_metric(q.f, METRIC_GAUGE, "g", "");
    fx_int(q.f, m, qf_attrs(q.f, "otel_scope_name", "mine", NULL), T0 * MS, 7);
    qf_store(&q);
    q.f->b.scopes[0] = (struct batch_scope){.attributes = qf_attrs(q.f, NULL)};
    m = fx_metric(q.f, METRIC_GAUGE, "nameless", "");
    fx_int(q.f, m, qf_attrs(q.f, NULL), T0 * MS, 8);
    qf_store(&q);
    qf_expect(&q, "g{otel_scope_name=\"lib\",otel_scope_a_b=\"1\"}", T0, T0,
              "g{job=\"svc\", otel_scope_a_b=\"1\", otel_scope_name=\"lib\", "
              "otel_scope_schema_url=\"u\", otel_scope_version=\"1.0\"} 7" AT_T0 "\n");
    qf_expect(&q, "nameless", T0, T0, "nameless{job=\"svc\"} 8" AT_T0 "\n");
}

static void series_that_look_alike_are_merged_by_time(void **state)
{
    uint32_t m;
    (void)state;

    /* Two processes of one service: no label shows which. */
    for (int pid = 0; pid < 2; pid++) {
        resource("svc", qf_attrs(q.f, "pid", pid == 0 ? "1" : "2", "service.name", "svc", NULL));
        m = fx_metric(q.f, METRIC_GAUGE, "g", "");
        for (int64_t i = 0; i < 3; i++)
            fx_int(q.f, m, qf_attrs(q.f, NULL), (T0 + 1000 * (2 * i + pid)) * MS, 10 * pid + i);
        fx_int(q.f, m, qf_attrs(q.f, NULL), (T0 + 10000) * MS, 100 + pid); /* both */
        qf_store(&q);
    }
    qf_expect(&q, "g", T0, T0 + 20000,
              "g{job=\"svc\"} 0@1704067200000 10@1704067201000 1@1704067202000 11@1704067203000 "
              "2@1704067204000 12@1704067205000 101@1704067210000\n");
    mf_seal(&q.store);
    qf_expect(&q, "g", T0 + 1500, T0 + 3000, "g{job=\"svc\"} 1@1704067202000 11@1704067203000\n");
}

static void of_one_millisecond_the_later_point_counts(void **state)
{
    uint32_t m = fx_metric(q.f, METRIC_GAUGE, "g", "");
    (void)state;

    fx_int(q.f, m, qf_attrs(q.f, NULL), T0 * MS + 5, 1);
    fx_int(q.f, m, qf_attrs(q.f, NULL), T0 * MS + 7, 2);
    fx_int(q.f, m, qf_attrs(q.f, NULL), T0 * MS + 6, 3);
    qf_store(&q);
    qf_expect(&q, "g", T0, T0, "g{job=\"svc\"} 2" AT_T0 "\n");
}

static void no_recorded_value_is_a_stale_marker_and_a_nan_is_not(void **state)
{
    uint32_t m = fx_metric(q.f, METRIC_GAUGE, "g", "");
    struct number_point *p;
    (void)state;

    fx_double(q.f, m, qf_attrs(q.f, NULL), T0 * MS, 1.5);
    p = fx_int(q.f, m, qf_attrs(q.f, NULL), (T0 + 1) * MS, 0);
    p->p.flags = FLAG_NO_RECORDED_VALUE;
    p->value.kind = VALUE_NONE;
    fx_double(q.f, m, qf_attrs(q.f, NULL), (T0 + 2) * MS, fx_bits(UINT64_C(0x7ff0000000000002)));
    fx_int(q.f, m, qf_attrs(q.f, NULL), (T0 + 3) * MS, INT64_C(9007199254740993));
    qf_store(&q);
    qf_expect(&q, "g", T0, T0 + 9,
              "g{job=\"svc\"} 1.5@1704067200000 stale@1704067200001 NaN@1704067200002 "
              "9007199254740992@1704067200003\n");
}

static void deltas_run_from_the_beginning_of_what_is_stored(void **state)
{
    uint32_t m = fx_metric(q.f, METRIC_SUM, "c", "");
    struct number_point *p;
    (void)state;

    q.f->b.metrics[m].temporality = TEMPORALITY_DELTA;
    for (int64_t i = 1; i <= 5; i++)
        fx_int(q.f, m, qf_attrs(q.f, NULL), (T0 + 1000 * i) * MS, i);
    p = fx_int(q.f, m, qf_attrs(q.f, NULL), (T0 + 3500) * MS, 0);
    p->p.flags = FLAG_NO_RECORDED_VALUE;
    p->value.kind = VALUE_NONE;
    qf_store(&q);
    for (int sealed = 0; sealed < 2; sealed++) {
        qf_expect(&q, "c_total", T0, T0 + 9000,
                  "c_total{job=\"svc\"} 1@1704067201000 3@1704067202000 6@1704067203000 "
                  "stale@1704067203500 10@1704067204000 15@1704067205000\n");
        qf_expect(&q, "c_total", T0 + 3001, T0 + 4000,
                  "c_total{job=\"svc\"} stale@1704067203500 10@1704067204000\n");
        mf_seal(&q.store);
    }
}

static void target_info_lasts_from_the_first_to_the_last_point(void **state)
{
    uint32_t m;
    (void)state;

    resource("a", qf_attrs(q.f, "host", "h", "service.name", "a", NULL));
    m = fx_metric(q.f, METRIC_GAUGE, "g", "");
    fx_int(q.f, m, qf_attrs(q.f, NULL), T0 * MS, 1);
    m = fx_metric(q.f, METRIC_HISTOGRAM, "h", "");
    fx_histogram(q.f, m, qf_attrs(q.f, NULL), (T0 + 400000) * MS, 1);
    qf_store(&q);
    resource("b", qf_attrs(q.f, "service.name", "b", NULL)); /* nothing else to tell */
    m = fx_metric(q.f, METRIC_GAUGE, "g", "");
    fx_int(q.f, m, qf_attrs(q.f, NULL), T0 * MS, 1);
    qf_store(&q);
    resource("", qf_attrs(q.f, "host", "nobody", NULL));
    m = fx_metric(q.f, METRIC_GAUGE, "g", "");
    fx_int(q.f, m, qf_attrs(q.f, NULL), T0 * MS, 1);
    qf_store(&q);
    qf_expect(&q, "target_info", T0 - 1000, T0 + 1000000,
              "target_info{host=\"h\", job=\"a\"} 1@1704067200000 1@1704067350000 1@1704067500000 "
              "1@1704067600000\n");
    qf_expect(&q, "target_info{job=\"a\",host!=\"h\"}", T0 - 1000, T0 + 1000000, "");
    qf_expect(&q, "{host=\"h\",job=\"a\"}", T0 + 400000, T0 + 400000,
              "target_info{host=\"h\", job=\"a\"} 1@1704067600000\n");
}

static void exact_leaves_out_what_has_no_point_in_the_range(void **state)
{
    char *text;
    uint32_t m = fx_metric(q.f, METRIC_GAUGE, "g", "");
    (void)state;

    fx_int(q.f, m, qf_attrs(q.f, "a", "1", NULL), T0 * MS, 1);
    fx_int(q.f, m, qf_attrs(q.f, "a", "1", NULL), (T0 + 9000) * MS, 1);
    fx_int(q.f, m, qf_attrs(q.f, "a", "2", NULL), (T0 + 5000) * MS, 1);
    qf_store(&q);
    for (int sealed = 0; sealed < 2; sealed++) {
        text = qf_series(&q, "g", T0 + 4000, T0 + 6000, true);
        assert_string_equal(text, "g{a=\"2\", job=\"svc\"}\n");
        free(text);
        text = qf_series(&q, "g", T0 + 9000, T0 + 9000, true);
        assert_string_equal(text, "g{a=\"1\", job=\"svc\"}\n");
        free(text);
        mf_seal(&q.store);
    }
}

static void a_project_sees_its_own_series(void **state)
{
    (void)state;
    add_example();
    q.project_id = 1;
    qf_expect(&q, "http_server_requests_total{job=\"nobody\"}", T0, T0, "");
    q.project_id = 7;
    qf_expect(&q, "http_server_requests_total", T0, T0, "");
    qf_expect(&q, "target_info", T0, T0, "");
}

/* Random processes, times, stretches of ends: a map from millisecond to the value of the last
 * series that has one there. */
static void merging_agrees_with_a_map(void **state)
{
    enum { PROCESSES = 5, TIMES = 300, ROUNDS = 6 };
    static char names[PROCESSES][2] = {"0", "1", "2", "3", "4"};
    double value[TIMES];
    int owner[TIMES];
    (void)state;

    for (int i = 0; i < TIMES; i++)
        owner[i] = -1;
    /* So that ids are in this order. */
    for (int p = 0; p < PROCESSES; p++) {
        uint32_t m;

        resource("svc", qf_attrs(q.f, "pid", names[p], "service.name", "svc", NULL));
        m = fx_metric(q.f, METRIC_GAUGE, "g", "");
        fx_int(q.f, m, qf_attrs(q.f, NULL), (T0 - 1000) * MS, 0);
        qf_store(&q);
    }
    for (int round = 0; round < ROUNDS; round++) {
        int p = (int)random_below(PROCESSES);
        uint32_t m;

        resource("svc", qf_attrs(q.f, "pid", names[p], "service.name", "svc", NULL));
        m = fx_metric(q.f, METRIC_GAUGE, "g", "");
        for (int i = 0; i < 80; i++) {
            int at = (int)random_below(TIMES);

            /* A point that is there already is replaced by one of the same time only. */
            fx_double(q.f, m, qf_attrs(q.f, NULL), (T0 + at) * MS, 1000 * round + i);
            if (p >= owner[at]) {
                owner[at] = p;
                value[at] = 1000 * round + i;
            }
        }
        qf_store(&q);
        if (random_below(2) == 0)
            mf_seal(&q.store);
        for (int k = 0; k < 5; k++) {
            int from = (int)random_below(TIMES), to = from + (int)random_below(60);
            struct buf want = {0};

            for (int i = from; i <= to && i < TIMES; i++)
                if (owner[i] >= 0)
                    buf_printf(&want, " %.0f@%lld", value[i], (long long)(T0 + i));
            if (want.n > 0) {
                struct buf line = {0};

                buf_printf(&line, "g{job=\"svc\"}%s\n", buf_cstr(&want));
                qf_expect(&q, "g", T0 + from, T0 + to, buf_cstr(&line));
                buf_fini(&line);
            }
            buf_fini(&want);
        }
    }
}

/* ---- what queries share ---- */

enum { THREADS = 4, SHARED_SERIES = 300 };

struct sharing {
    struct querier_shared *names;
    unsigned seed;
    int failed;
};

/* A connection of its own; the names and labels are everybody's. */
static void *query_again_and_again(void *arg)
{
    struct sharing *s = arg;
    struct store_opts o = fx_opts(q.dir);
    struct otl_error err;
    struct db db = {0};
    struct read_shared *shared = NULL;
    struct read_session *session = NULL;

    if (store_open_reader(&db, &o, &err) != OTL_OK ||
        read_shared_new(NULL, 1 << 20, &shared, &err) != OTL_OK ||
        read_session_open(shared, &db, &session, &err) != OTL_OK)
        s->failed = 1;
    for (int i = 0; i < 40 && !s->failed; i++) {
        const struct series_set *set;
        struct querier *querier = NULL;
        struct read *r = NULL;
        struct arena arena;

        arena_init(&arena, 64 << 20);
        if (read_begin(session, NULL, true, &r, &err) != OTL_OK ||
            querier_new(s->names, r, 0, &arena, &querier, &err) != OTL_OK ||
            querier_select(querier, NULL, 0, T0, T0, false, &set, &err) != OTL_OK)
            s->failed = 2;
        else if (set->n != SHARED_SERIES)
            s->failed = 3;
        for (size_t k = 0; !s->failed && k < set->n; k++) {
            struct bytes name = labels_get(set->labels[k], bytes_str(LABEL_NAME));
            struct bytes n = labels_get(set->labels[k], bytes_str("n"));

            /* Each metric is called g and then its series' attribute. */
            if (n.n + 1 != name.n || memcmp(name.p + 1, n.p, n.n) != 0)
                s->failed = 4;
        }
        querier_free(querier);
        read_end(r);
        arena_fini(&arena);
    }
    read_session_close(session);
    read_shared_free(shared);
    db_close(&db);
    return NULL;
}

static void threads_share_names_and_labels(void **state)
{
    struct sharing s[THREADS] = {0};
    pthread_t threads[THREADS];
    struct querier_shared *names;
    struct otl_error err;
    (void)state;

    for (int i = 0; i < SHARED_SERIES; i++) {
        char n[8], name[16];

        snprintf(n, sizeof(n), "%d", i);
        snprintf(name, sizeof(name), "g%d", i);
        fx_int(q.f, fx_metric(q.f, METRIC_GAUGE, name, ""), qf_attrs(q.f, "n", n, NULL), T0 * MS,
               1);
        qf_store(&q);
    }
    assert_int_equal(querier_shared_new(&q.opts, &names, &err), OTL_OK);
    for (int i = 0; i < THREADS; i++) {
        s[i].names = names;
        assert_int_equal(pthread_create(&threads[i], NULL, query_again_and_again, &s[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(s[i].failed, 0);
    }
    querier_shared_free(names);
}

static void the_cache_of_labels_is_bounded_and_right(void **state)
{
    struct label_cache *c = label_cache_new(1 << 16);
    struct arena a;
    struct otl_error err;
    unsigned hits = 0;
    (void)state;

    assert_non_null(c);
    arena_init(&a, 64 << 20);
    for (int64_t i = 0; i < 20000; i++) {
        int64_t id = i % 2 == 0 ? (int64_t)random_below(3000) : (int64_t)random_below(30);
        char value[24];
        struct label l[2];
        struct labels got;
        uint32_t family;
        bool found;

        snprintf(value, sizeof(value), "%lld", (long long)id * id);
        l[0] = (struct label){bytes_str("id"), bytes_str(value)};
        l[1] = (struct label){bytes_str("z"), bytes_str("always")};
        assert_int_equal(label_cache_get(c, id, &a, &found, &family, &got, &err), OTL_OK);
        if (found) {
            hits++;
            assert_int_equal(family, id + 1);
            assert_true(labels_equal(got, (struct labels){l, 2}));
        } else {
            label_cache_put(c, id, (uint32_t)id + 1, (struct labels){l, 2});
        }
    }
    assert_true(label_cache_bytes(c) <= 1 << 16);
    assert_true(hits > 5000 && hits < 19000);
    label_cache_free(c);
    arena_fini(&a);
}

static void a_budget_ends_a_query(void **state)
{
    const struct read_limits limits = {.max_bytes = 1000};
    const struct series_set *set;
    struct querier *querier;
    struct qf_query query;
    struct otl_error err;
    struct read *r;
    struct arena small;
    (void)state;

    add_example();
    qf_begin(&q, &query);
    arena_init(&small, 200);
    assert_int_equal(querier_new(query.names, query.r, 0, &small, &querier, &err), OTL_OK);
    assert_int_equal(querier_select(querier, NULL, 0, T0, T0, false, &set, &err), OTL_ETOOBIG);
    assert_non_null(strstr(err.msg, "200 bytes"));
    querier_free(querier);
    read_end(query.r);
    assert_int_equal(read_begin(query.session, &limits, true, &r, &err), OTL_OK);
    assert_int_equal(querier_new(query.names, r, 0, &query.arena, &querier, &err), OTL_OK);
    assert_int_equal(querier_select(querier, NULL, 0, T0, T0, false, &set, &err), OTL_ETOOBIG);
    querier_free(querier);
    query.r = r;
    qf_end(&query);
    arena_fini(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(the_worked_example_comes_out),
        T(a_range_holds_both_its_ends),
        T(every_way_to_name_it_finds_it),
        T(labels_of_each_strategy),
        T(a_shown_name_is_no_other_metrics_alias),
        T(attributes_become_labels_by_the_rules),
        T(a_scope_has_its_attributes_as_labels),
        T(series_that_look_alike_are_merged_by_time),
        T(of_one_millisecond_the_later_point_counts),
        T(no_recorded_value_is_a_stale_marker_and_a_nan_is_not),
        T(deltas_run_from_the_beginning_of_what_is_stored),
        T(target_info_lasts_from_the_first_to_the_last_point),
        T(exact_leaves_out_what_has_no_point_in_the_range),
        T(a_project_sees_its_own_series),
        T(merging_agrees_with_a_map),
        T(threads_share_names_and_labels),
        T(the_cache_of_labels_is_bounded_and_right),
        T(a_budget_ends_a_query),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
