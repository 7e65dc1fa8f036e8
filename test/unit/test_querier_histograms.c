/* The querier on histograms and summaries, and what /metadata and /query_exemplars stand on.
 * Expected values are worked out by hand from the rules (otlp.md, 4.4). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "querier_fixture.h"
#include "query/value.h"
#include "series_text.h"

#define MS INT64_C(1000000)
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

static const int64_t *ints(size_t n, const int64_t *v)
{
    int64_t *p = arena_alloc(&q.f->arena, n * sizeof(*p));

    assert_non_null(p);
    memcpy(p, v, n * sizeof(*p));
    return p;
}

/* bounds [1, 5] */
static struct histogram_point *explicit(uint32_t m, int64_t t, int64_t a, int64_t b, int64_t c,
                                        double sum)
{
    static const double bounds[] = {1, 5};
    struct histogram_point *p = fx_histogram(q.f, m, qf_attrs(q.f, NULL), t * MS, 0);

    p->count = a + b + c;
    p->sum = (struct optional_double){true, sum};
    p->counts = ints(3, (int64_t[]){a, b, c});
    p->bounds = bounds;
    return p;
}

/* The example of P-30. */
static void buckets_are_cumulative_and_end_with_the_count(void **state)
{
    uint32_t m = fx_metric(q.f, METRIC_HISTOGRAM, "d", "s");
    (void)state;

    explicit(m, T0, 2, 3, 4, 21.5);
    qf_store(&q);
    for (int sealed = 0; sealed < 2; sealed++) {
        qf_expect(&q, "{job=\"svc\"}", T0, T0,
                  "d_seconds_bucket{job=\"svc\", le=\"+Inf\"} 9@1704067200000\n"
                  "d_seconds_bucket{job=\"svc\", le=\"1\"} 2@1704067200000\n"
                  "d_seconds_bucket{job=\"svc\", le=\"5\"} 5@1704067200000\n"
                  "d_seconds_count{job=\"svc\"} 9@1704067200000\n"
                  "d_seconds_sum{job=\"svc\"} 21.5@1704067200000\n");
        qf_expect(&q, "d_seconds", T0, T0, "");
        qf_expect(&q, "d_seconds_sum", T0, T0, "d_seconds_sum{job=\"svc\"} 21.5@1704067200000\n");
        mf_seal(&q.store);
    }
}

static void a_bound_is_matched_as_a_number(void **state)
{
    static const struct {
        const char *matcher;
        bool one, five, infinite;
    } cases[] = {
        {"le=\"5\"", false, true, false},    {"le=\"5.0\"", false, true, false},
        {"le=\"5e0\"", false, true, false},  {"le!=\"5.0\"", true, false, true},
        {"le=\"+Inf\"", false, false, true}, {"le=\"Inf\"", false, false, true},
        {"le=~\"5|1\"", true, true, false},  {"le=~\"5\\\\.0|1\"", true, true, false},
        {"le!~\"5.0\"", true, false, true},  {"le=\"\"", false, false, false},
        {"le!=\"\"", true, true, true},      {"le=\"7\"", false, false, false},
        {"le=~\".*\"", true, true, true},
    };
    uint32_t m = fx_metric(q.f, METRIC_HISTOGRAM, "d", "");
    (void)state;

    explicit(m, T0, 2, 3, 4, 21.5);
    qf_store(&q);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char selector[128];
        char *text;

        snprintf(selector, sizeof(selector), "d_bucket{%s}", cases[i].matcher);
        text = qf_series(&q, selector, T0, T0, false);
        if ((strstr(text, "le=\"1\"") != NULL) != cases[i].one ||
            (strstr(text, "le=\"5\"") != NULL) != cases[i].five ||
            (strstr(text, "le=\"+Inf\"") != NULL) != cases[i].infinite)
            fail_msg("%s gives %s", selector, text);
        free(text);
    }
}

static void bounds_that_change_give_other_series(void **state)
{
    static const double other[] = {0.25, 5};
    uint32_t m = fx_metric(q.f, METRIC_HISTOGRAM, "d", "");
    struct histogram_point *p;
    (void)state;

    explicit(m, T0, 2, 3, 4, 21.5);
    p = explicit(m, T0 + 1, 1, 1, 1, 5);
    p->bounds = other;
    p->sum.has = false;
    p = explicit(m, T0 + 2, 0, 0, 7, 0);
    p->n_counts = p->n_bounds = 0;
    p = explicit(m, T0 + 3, 0, 0, 0, 0);
    p->p.flags = FLAG_NO_RECORDED_VALUE;
    qf_store(&q);
    qf_expect(&q, "d_bucket", T0, T0 + 9,
              "d_bucket{job=\"svc\", le=\"+Inf\"} 9@1704067200000 3@1704067200001 7@1704067200002 "
              "stale@1704067200003\n"
              "d_bucket{job=\"svc\", le=\"0.25\"} 1@1704067200001 stale@1704067200003\n"
              "d_bucket{job=\"svc\", le=\"1\"} 2@1704067200000 stale@1704067200003\n"
              "d_bucket{job=\"svc\", le=\"5\"} 5@1704067200000 2@1704067200001 "
              "stale@1704067200003\n");
    qf_expect(&q, "d_sum", T0, T0 + 9,
              "d_sum{job=\"svc\"} 21.5@1704067200000 0@1704067200002 stale@1704067200003\n");
    /* Only what the range has. */
    qf_expect(&q, "d_bucket", T0 + 1, T0 + 1,
              "d_bucket{job=\"svc\", le=\"+Inf\"} 3@1704067200001\n"
              "d_bucket{job=\"svc\", le=\"0.25\"} 1@1704067200001\n"
              "d_bucket{job=\"svc\", le=\"5\"} 2@1704067200001\n");
}

/* Also with the hours before in rollups. */
static void delta_histograms_run_from_the_beginning(void **state)
{
    uint32_t m = fx_metric(q.f, METRIC_HISTOGRAM, "d", "");
    (void)state;

    q.f->b.metrics[m].temporality = TEMPORALITY_DELTA;
    explicit(m, T0, 1, 0, 0, 0.5);
    explicit(m, T0 + 1000, 0, 2, 0, 4);
    explicit(m, T0 + 7200000, 0, 0, 4, 32);
    explicit(m, T0 + 7201000, 8, 0, 0, 1);
    qf_store(&q);
    for (int sealed = 0; sealed < 2; sealed++) {
        qf_expect(&q, "{__name__=~\"d_.*\"}", T0, T0 + 7200000,
                  "d_bucket{job=\"svc\", le=\"+Inf\"} 1@1704067200000 3@1704067201000 "
                  "7@1704074400000\n"
                  "d_bucket{job=\"svc\", le=\"1\"} 1@1704067200000 1@1704067201000 "
                  "1@1704074400000\n"
                  "d_bucket{job=\"svc\", le=\"5\"} 1@1704067200000 3@1704067201000 "
                  "3@1704074400000\n"
                  "d_count{job=\"svc\"} 1@1704067200000 3@1704067201000 7@1704074400000\n"
                  "d_sum{job=\"svc\"} 0.5@1704067200000 4.5@1704067201000 36.5@1704074400000\n");
        qf_expect(&q, "{__name__=~\"d_.*\"}", T0 + 7200500, T0 + 7202000,
                  "d_bucket{job=\"svc\", le=\"+Inf\"} 15@1704074401000\n"
                  "d_bucket{job=\"svc\", le=\"1\"} 9@1704074401000\n"
                  "d_bucket{job=\"svc\", le=\"5\"} 11@1704074401000\n"
                  "d_count{job=\"svc\"} 15@1704074401000\n"
                  "d_sum{job=\"svc\"} 37.5@1704074401000\n");
        mf_seal(&q.store);
    }
}

static void histograms_that_look_alike_are_merged(void **state)
{
    (void)state;
    for (int pid = 0; pid < 2; pid++) {
        uint32_t m;

        q.f->b.resources[0].attributes =
            qf_attrs(q.f, "pid", pid == 0 ? "1" : "2", "service.name", "svc", NULL);
        m = fx_metric(q.f, METRIC_HISTOGRAM, "d", "");
        explicit(m, T0 + pid, 1 + pid, 1, 1, 2);
        explicit(m, T0 + 5, 5 + pid, 1, 1, 2);
        /* A metric whose own name is that of a part of it. */
        m = fx_metric(q.f, METRIC_GAUGE, "d_count", "");
        fx_int(q.f, m, qf_attrs(q.f, NULL), (T0 + 7 + pid) * MS, 70 + pid);
        qf_store(&q);
    }
    qf_expect(&q, "d_bucket{le=\"1\"}", T0, T0 + 9,
              "d_bucket{job=\"svc\", le=\"1\"} 1@1704067200000 2@1704067200001 6@1704067200005\n");
    qf_expect(&q, "d_count", T0, T0 + 9,
              "d_count{job=\"svc\"} 3@1704067200000 4@1704067200001 8@1704067200005 "
              "70@1704067200007 71@1704067200008\n");
}

static void summaries_have_quantiles(void **state)
{
    uint32_t m = fx_metric(q.f, METRIC_SUMMARY, "s", "");
    struct summary_point *p;
    static const struct quantile quantiles[] = {{0.5, 1.5}, {0.99, 7}};
    (void)state;

    p = fx_summary(q.f, m, qf_attrs(q.f, NULL), T0 * MS, 0);
    p->count = 3;
    p->sum = 9.5;
    p->n_quantiles = 2;
    p->quantiles = quantiles;
    qf_store(&q);
    qf_expect(&q, "{__name__=~\"s|s_.*\"}", T0, T0,
              "s{job=\"svc\", quantile=\"0.5\"} 1.5@1704067200000\n"
              "s{job=\"svc\", quantile=\"0.99\"} 7@1704067200000\n"
              "s_count{job=\"svc\"} 3@1704067200000\n"
              "s_sum{job=\"svc\"} 9.5@1704067200000\n");
    qf_expect(&q, "s{quantile=\"0.990\"}", T0, T0,
              "s{job=\"svc\", quantile=\"0.99\"} 7@1704067200000\n");
}

/* ---- exponential ---- */

static struct exponential_histogram_point *exponential(uint32_t m, int64_t t, int32_t scale,
                                                       int32_t offset, size_t n, const int64_t *v)
{
    struct exponential_histogram_point *p = fx_exponential(q.f, m, qf_attrs(q.f, NULL), t * MS, 0);

    p->scale = scale;
    p->count = 0;
    p->positive = (struct exponential_buckets){true, offset, (uint32_t)n, ints(n, v)};
    for (size_t i = 0; i < n; i++)
        p->count += v[i];
    p->sum = (struct optional_double){true, 1.5};
    return p;
}

struct one {
    struct prom_histogram *h;
    double v;
};

static enum otl_err take_one(void *arg, size_t i, const struct samples *s, struct otl_error *err)
{
    struct one *o = arg;

    (void)i;
    (void)err;
    assert_int_equal(s->n, 1);
    o->v = s->v[0];
    o->h = s->h == NULL || s->h[0] == NULL ? NULL : histogram_copy(s->h[0]);
    return OTL_OK;
}

/* The only sample of e at T0 + d; to be freed. NULL: there is none. */
static struct prom_histogram *native_at(int64_t d)
{
    struct qf_query query;
    const struct label_matcher *m;
    const struct series_set *set;
    struct one o = {0};
    struct otl_error err;
    size_t n;

    qf_begin(&q, &query);
    assert_int_equal(promql_parse_selector(&query.arena, bytes_str("e"), &m, &n, &err), OTL_OK);
    assert_int_equal(querier_select(query.querier, m, n, T0 + d, T0 + d, false, &set, &err),
                     OTL_OK);
    assert_int_equal(querier_scan(query.querier, set, T0 + d, T0 + d, NULL, take_one, &o, &err), OTL_OK);
    qf_end(&query);
    return o.h;
}

static void assert_buckets(const struct histogram_buckets *b, int32_t first, size_t n,
                           const double *counts)
{
    assert_int_equal(b->first, first);
    assert_int_equal(b->n, n);
    for (size_t i = 0; i < n; i++)
        if (b->counts[i] != counts[i])
            fail_msg("bucket %d holds %g", first + (int)i, b->counts[i]);
}

static void exponential_histograms_are_native_ones(void **state)
{
    uint32_t m = fx_metric(q.f, METRIC_EXPONENTIAL_HISTOGRAM, "e", "");
    struct exponential_histogram_point *p;
    struct prom_histogram *h;
    (void)state;

    /* P-33: offset 3, counts 10, 0, 0, 20, 5, 2 are native buckets 4 to 9. */
    p = exponential(m, T0, 2, 3, 6, (int64_t[]){10, 0, 0, 20, 5, 2});
    p->zero_count = 4;
    p->count += 4;
    p->negative = (struct exponential_buckets){true, -2, 2, ints(2, (int64_t[]){1, 6})};
    p->count += 7;
    /* Scale 10 to schema 8: four buckets to one. Indexes -5..2: >> 2 is -2, -1, -1, -1, -1, 0, 0,
     * 0. */
    exponential(m, T0 + 1, 10, -5, 8, (int64_t[]){1, 2, 4, 8, 16, 32, 64, 128});
    p = exponential(m, T0 + 2, 0, 0, 1, (int64_t[]){3});
    p->zero_threshold = 0.5;
    p = exponential(m, T0 + 3, 0, 0, 1, (int64_t[]){3});
    p->p.flags = FLAG_NO_RECORDED_VALUE;
    exponential(m, T0 + 4, -5, 0, 1, (int64_t[]){3}); /* too coarse */
    p = exponential(m, T0 + 5, 0, 0, 1, (int64_t[]){3});
    p->sum.has = false;
    qf_store(&q);

    h = native_at(0);
    assert_non_null(h);
    assert_int_equal(h->schema, 2);
    assert_int_equal(h->hint, RESET_UNKNOWN);
    assert_true(h->count == 48 && h->sum == 1.5 && h->zero_count == 4);
    assert_true(h->zero_threshold == 1e-128);
    assert_buckets(&h->positive, 4, 6, (double[]){10, 0, 0, 20, 5, 2});
    assert_buckets(&h->negative, -1, 2, (double[]){1, 6});
    histogram_free(h);
    h = native_at(1);
    assert_non_null(h);
    assert_int_equal(h->schema, 8);
    assert_buckets(&h->positive, -1, 3, (double[]){1, 30, 224});
    histogram_free(h);
    h = native_at(2);
    assert_non_null(h);
    assert_true(h->zero_threshold == 0.5);
    histogram_free(h);
    qf_expect(&q, "e", T0 + 3, T0 + 9, "e{job=\"svc\"} stale@1704067200003\n");
    qf_expect(&q, "e_bucket", T0, T0 + 9, "");
}

static void delta_exponential_histograms_add_up(void **state)
{
    uint32_t m = fx_metric(q.f, METRIC_EXPONENTIAL_HISTOGRAM, "e", "");
    (void)state;

    q.f->b.metrics[m].temporality = TEMPORALITY_DELTA;
    exponential(m, T0, 0, 0, 2, (int64_t[]){1, 2});
    exponential(m, T0 + 1, 0, 1, 2, (int64_t[]){4, 8});
    qf_store(&q);
    /* Indexes 0, 1 and 1, 2 at scale 0: (1, 2], (2, 4], (4, 8]. */
    qf_expect(&q, "e", T0, T0 + 9,
              "e{job=\"svc\"} {count:3, sum:1.5, (1,2]:1, (2,4]:2}@1704067200000 "
              "{count:15, sum:3, (1,2]:1, (2,4]:6, (4,8]:8}@1704067200001\n");
}

static void exponential_histograms_have_buckets_on_request(void **state)
{
    uint32_t m = fx_metric(q.f, METRIC_EXPONENTIAL_HISTOGRAM, "e", "");
    struct exponential_histogram_point *p;
    (void)state;

    q.opts.classic_from_exponential = true;
    /* (1, 2]: 1, (4, 8]: 2; [-1, -0.5): 3; zero: 4. */
    p = exponential(m, T0, 0, 0, 3, (int64_t[]){1, 0, 2});
    p->negative = (struct exponential_buckets){true, -1, 1, ints(1, (int64_t[]){3})};
    p->zero_count = 4;
    p->zero_threshold = 0.25;
    p->count = 10;
    /* At scale -1 (1, 4]: 5: nobody knows how many are below 2. */
    p = exponential(m, T0 + 1, -1, 0, 1, (int64_t[]){5});
    p->sum.has = false;
    qf_store(&q);
    qf_expect(&q, "{__name__=~\"e_.*\"}", T0, T0 + 1,
              "e_bucket{job=\"svc\", le=\"+Inf\"} 10@1704067200000 5@1704067200001\n"
              "e_bucket{job=\"svc\", le=\"-0.5\"} 3@1704067200000 0@1704067200001\n"
              "e_bucket{job=\"svc\", le=\"0.25\"} 7@1704067200000 0@1704067200001\n"
              "e_bucket{job=\"svc\", le=\"2\"} 8@1704067200000\n"
              "e_bucket{job=\"svc\", le=\"4\"} 8@1704067200000 5@1704067200001\n"
              "e_bucket{job=\"svc\", le=\"8\"} 10@1704067200000 5@1704067200001\n"
              "e_count{job=\"svc\"} 10@1704067200000 5@1704067200001\n"
              "e_sum{job=\"svc\"} 1.5@1704067200000\n");
}

/* ---- metadata and exemplars ---- */

static enum otl_err print_metadata(void *arg, const struct metric_metadata *m,
                                   struct otl_error *err)
{
    struct buf *out = arg;

    (void)err;
    buf_add_bytes(out, m->name);
    buf_printf(out, " %s \"%.*s\" %.*s\n", m->type, (int)m->help.n, (const char *)m->help.p,
               (int)m->unit.n, (const char *)m->unit.p);
    return OTL_OK;
}

static void metadata_is_by_shown_names(void **state)
{
    struct qf_query query;
    struct buf out = {0};
    struct otl_error err;
    uint32_t m;
    (void)state;

    m = fx_metric(q.f, METRIC_SUM, "b", "By");
    q.f->b.metrics[m].description = bytes_str("Bytes.");
    fx_int(q.f, m, qf_attrs(q.f, NULL), T0 * MS, 1);
    m = fx_metric(q.f, METRIC_SUM, "updown", "");
    q.f->b.metrics[m].is_monotonic = false;
    fx_int(q.f, m, qf_attrs(q.f, NULL), T0 * MS, 1);
    m = fx_metric(q.f, METRIC_HISTOGRAM, "a", "s");
    explicit(m, T0, 1, 1, 1, 1);
    m = fx_metric(q.f, METRIC_SUMMARY, "z", "1");
    fx_summary(q.f, m, qf_attrs(q.f, NULL), T0 * MS, 0);
    qf_store(&q);
    qf_begin(&q, &query);
    assert_int_equal(querier_metadata(query.querier, print_metadata, &out, &err), OTL_OK);
    qf_end(&query);
    assert_string_equal(buf_cstr(&out), "a_seconds histogram \"\" seconds\n"
                                        "b_bytes_total counter \"Bytes.\" bytes\n"
                                        "updown gauge \"\" \n"
                                        "z summary \"\" \n");
    buf_fini(&out);
}

struct exemplar_lines {
    const struct series_set *set;
    struct buf out;
};

static enum otl_err print_exemplars(void *arg, size_t i, const struct prom_exemplar *e, size_t n,
                                    struct otl_error *err)
{
    struct exemplar_lines *l = arg;

    (void)err;
    print_series(&l->out, l->set->labels[i]);
    for (size_t k = 0; k < n; k++) {
        buf_add_char(&l->out, ' ');
        print_series(&l->out, e[k].labels);
        buf_printf(&l->out, " %g@%lld", e[k].value, (long long)(e[k].t - T0));
    }
    buf_add_char(&l->out, '\n');
    return OTL_OK;
}

static void expect_exemplars(const char *selector, int64_t from, int64_t to, const char *expected)
{
    struct exemplar_lines l = {0};
    const struct label_matcher *m;
    struct qf_query query;
    struct otl_error err;
    size_t n;

    qf_begin(&q, &query);
    assert_int_equal(promql_parse_selector(&query.arena, bytes_str(selector), &m, &n, &err),
                     OTL_OK);
    assert_int_equal(querier_select(query.querier, m, n, from, to + 1000, false, &l.set, &err),
                     OTL_OK);
    assert_int_equal(querier_exemplars(query.querier, l.set, from, to, print_exemplars, &l, &err),
                     OTL_OK);
    qf_end(&query);
    assert_string_equal(buf_cstr(&l.out), expected);
    buf_fini(&l.out);
}

static struct batch_exemplar *last_exemplar(int64_t t)
{
    struct batch_exemplar *e = &q.f->b.exemplars[q.f->b.n_exemplars - 1];

    e->time = t * MS;
    e->attributes = qf_attrs(q.f, NULL);
    return e;
}

static void exemplars_are_of_counters_and_buckets(void **state)
{
    uint32_t m;
    struct histogram_point *h;
    struct number_point *p;
    struct batch_exemplar *e;
    (void)state;

    m = fx_metric(q.f, METRIC_HISTOGRAM, "d", "");
    h = explicit(m, T0 + 1000, 1, 1, 1, 9);
    fx_exemplar(q.f, &h->p, 5);
    e = last_exemplar(T0 + 900);
    e->has_trace_id = e->has_span_id = true;
    memset(e->trace_id, 0xab, 16);
    memset(e->span_id, 0xcd, 8);
    e->attributes = qf_attrs(q.f, "trace_id", "mine", "user.id", "u", NULL);
    fx_exemplar(q.f, &h->p, 6);
    last_exemplar(T0 + 800)->has_trace_id = false;
    q.f->b.exemplars[q.f->b.n_exemplars - 1].has_span_id = false;
    m = fx_metric(q.f, METRIC_GAUGE, "g", "");
    p = fx_int(q.f, m, qf_attrs(q.f, NULL), (T0 + 1000) * MS, 1);
    fx_exemplar(q.f, &p->p, 1);
    last_exemplar(T0 + 900);
    m = fx_metric(q.f, METRIC_SUM, "c", "");
    p = fx_int(q.f, m, qf_attrs(q.f, NULL), (T0 + 1000) * MS, 1);
    fx_exemplar(q.f, &p->p, 3);
    e = last_exemplar(0); /* the point's */
    e->has_trace_id = e->has_span_id = false;
    qf_store(&q);
    expect_exemplars(
        "{job=\"svc\"}", T0, T0 + 1000,
        "c_total{job=\"svc\"} {} 3@1000\n"
        "d_bucket{job=\"svc\", le=\"+Inf\"} {} 6@800\n"
        "d_bucket{job=\"svc\", le=\"5\"} "
        "{span_id=\"cdcdcdcdcdcdcdcd\", trace_id=\"abababababababababababababababab\", "
        "\"user.id\"=\"u\"} 5@900\n");
    expect_exemplars("d_bucket{le=\"1\"}", T0, T0 + 1000, "");
    expect_exemplars("d_bucket", T0, T0 + 850, "d_bucket{job=\"svc\", le=\"+Inf\"} {} 6@800\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(buckets_are_cumulative_and_end_with_the_count),
        T(a_bound_is_matched_as_a_number),
        T(bounds_that_change_give_other_series),
        T(delta_histograms_run_from_the_beginning),
        T(histograms_that_look_alike_are_merged),
        T(summaries_have_quantiles),
        T(exponential_histograms_are_native_ones),
        T(delta_exponential_histograms_add_up),
        T(exponential_histograms_have_buckets_on_request),
        T(metadata_is_by_shown_names),
        T(exemplars_are_of_counters_and_buckets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
