/* The requests of otlite-bench, read back by our decoder: the load must be what it claims to be,
 * and a request changed in place must be as good as one encoded anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../bench/template.c"
#include "../../bench/template_content.c"
#include "../../bench/template_gzip.c"
#include "../../bench/template_influx.c"
#include "../../bench/template_json.c"
#include "../../bench/template_proto.c"
#include "otlite/decode.h"

#define NOW INT64_C(1790000000000000000)

static const struct template_opts base = {
    .host = "127.0.0.1:4318",
    .path = "/v1/metrics",
    .headers = "X-Extra: 1\r\n",
    .points = 20,
    .services = 2,
    .series = 40,
    .start_ns = NOW,
};

struct decoded {
    struct arena arena;
    struct buf inflated;
    struct batch batch;
};

/* Decode what template_next last returned for t. */
static void decode(const struct template *t, struct decoded *d)
{
    const struct template_opts *o = t->opts;
    struct bytes body = template_body(t);
    struct otl_error err = {0};
    enum otl_err rc;

    memset(d, 0, sizeof(*d));
    arena_init(&d->arena, 64U << 20);
    if (o->gzip) {
        rc = inflate_body(CODING_GZIP, body, 64U << 20, &d->inflated, &err);
        assert_string_equal(err.msg, "");
        assert_int_equal(rc, OTL_OK);
        body = buf_bytes(&d->inflated);
    }
    rc = decode_body(o->json ? ENCODING_JSON : ENCODING_PROTOBUF, body, &decode_limits_default, NOW,
                     &d->arena, &d->batch, &err);
    assert_string_equal(err.msg, "");
    assert_int_equal(rc, OTL_OK);
}

static void release(struct decoded *d)
{
    buf_fini(&d->inflated);
    arena_fini(&d->arena);
}

static void init(struct template_set *set, const struct template_opts *o)
{
    struct otl_error err = {0};
    enum otl_err rc = template_set_init(set, o, &err);

    assert_string_equal(err.msg, "");
    assert_int_equal(rc, OTL_OK);
}

static void check_shape(const struct batch *b)
{
    assert_int_equal(b->n_resources, 1);
    assert_true(bytes_equal(b->resources[0].service_name, bytes_str("bench-0001")));
    assert_int_equal(b->n_metrics, 2);
    assert_int_equal(b->metrics[0].type, METRIC_SUM);
    assert_int_equal(b->metrics[0].temporality, TEMPORALITY_CUMULATIVE);
    assert_true(b->metrics[0].is_monotonic);
    assert_true(bytes_equal(b->metrics[1].name, bytes_str("bench.requests.00001")));
    assert_int_equal(b->received, 20);
    assert_int_equal(batch_rejected(b), 0);
    assert_int_equal(b->n_numbers, 20);
    for (int w = 0; w < WARN_COUNT_OF_WARNINGS; w++)
        assert_int_equal(b->warnings[w], 0);
}

static void check_point(const struct batch *b, unsigned i, int64_t time, int64_t value)
{
    const struct number_point *p = &b->numbers[i];

    assert_true(p->p.time == time);
    assert_true(p->p.start_time == NOW);
    assert_int_equal(p->value.kind, VALUE_INT);
    assert_true(p->value.u.i == value);
}

/* Series 0 of service 1 has number 20. Its first increment is 1 + ((140 + 13) & 63) = 26, its
 * second 1 + ((140 + 26) & 63) = 39. Series 19, number 39: 1 + ((273 + 13) & 63) = 31, then
 * 1 + ((273 + 26) & 63) = 44. */
static void values_grow_by_the_written_rule(void **state)
{
    for (int json = 0; json <= 1; json++) {
        struct template_opts o = base;
        struct template_set set;
        struct decoded d;

        (void)state;
        o.json = json != 0;
        init(&set, &o);
        assert_int_equal(set.n, 2);

        (void)template_next(&set.templates[1], NOW + 1000);
        decode(&set.templates[1], &d);
        check_shape(&d.batch);
        check_point(&d.batch, 0, NOW + 1000, INT64_C(1000000000000046));
        check_point(&d.batch, 19, NOW + 1000, INT64_C(1000000000000070));
        release(&d);

        (void)template_next(&set.templates[1], NOW + 2000);
        decode(&set.templates[1], &d);
        check_shape(&d.batch);
        check_point(&d.batch, 0, NOW + 2000, INT64_C(1000000000000085));
        check_point(&d.batch, 19, NOW + 2000, INT64_C(1000000000000114));
        release(&d);
        template_set_fini(&set);
    }
}

static void gzip_is_changed_in_place(void **state)
{
    (void)state;
    for (int json = 0; json <= 1; json++) {
        struct template_opts o = base;
        struct template_set set;
        struct decoded d;

        o.gzip = true;
        o.json = json != 0;
        init(&set, &o);
        for (int pass = 1; pass <= 2; pass++)
            (void)template_next(&set.templates[1], NOW + pass);
        decode(&set.templates[1], &d);
        check_shape(&d.batch);
        /* Series 20 and 39 in pass 2: 10^15 + 2 * 10^6 + n, and 2 * 2^24 + n. */
        check_point(&d.batch, 0, NOW + 2, json ? INT64_C(1000000002000020) : 33554452);
        check_point(&d.batch, 19, NOW + 2, json ? INT64_C(1000000002000039) : 33554471);
        release(&d);
        template_set_fini(&set);
    }
}

static void large_gzip_requests_hold_every_point(void **state)
{
    struct template_opts o = base;
    struct template_set set;
    struct decoded d;

    (void)state;
    o.gzip = true;
    o.points = 1000;
    o.series = 4000;
    init(&set, &o);
    assert_int_equal(set.n, 4);
    for (unsigned i = 0; i < set.n; i++) {
        (void)template_next(&set.templates[i], NOW + 5);
        decode(&set.templates[i], &d);
        assert_int_equal(d.batch.n_numbers, 1000);
        for (unsigned k = 0; k < 1000; k++)
            check_point(&d.batch, k, NOW + 5, (1 << 24) + (int64_t)(i * 1000 + k));
        assert_true(template_body(&set.templates[i]).n * 3 < d.inflated.n);
        release(&d);
    }
    template_set_fini(&set);
}

/* --- all types --- */

/* A request of 60 points of one service is one metric of each type; point i is series i, n = i. */
static const struct template_opts all_types = {
    .host = "127.0.0.1:4318",
    .path = "/v1/metrics",
    .headers = "",
    .mix = MIX_ALL,
    .points = 60,
    .services = 1,
    .series = 60,
    .start_ns = NOW,
};

static void check_exemplar(const struct batch *b, const struct point *p, int64_t time, uint64_t id)
{
    const struct batch_exemplar *e = &b->exemplars[p->first_exemplar];

    assert_int_equal(p->n_exemplars, 1);
    assert_true(e->time == time);
    assert_true(e->has_trace_id);
    assert_true(e->has_span_id);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(e->span_id[i], (uint8_t)(id >> (56 - 8 * i)));
        assert_int_equal(e->trace_id[8 + i], e->span_id[i]);
    }
    assert_true(e->attributes.n > 0);
}

/* In the second sending. Steps: n = 0: 1 + (26 & 63) = 27. n = 11: 1 + ((77 + 26) & 63) = 40.
 * n = 21: 1 + ((147 + 13) & 63) = 33, then 1 + ((147 + 26) & 63) = 46. n = 59: 1 + ((413 + 26) &
 * 63) = 56. Counts grow by 2 * (1 + n % 4) times the weight: n = 31 and 59: 8; n = 42: 6. */
static void check_all_types(const struct batch *b, int64_t time)
{
    static const enum metric_type types[] = {
        METRIC_GAUGE,  METRIC_GAUGE, METRIC_SUM, METRIC_HISTOGRAM, METRIC_EXPONENTIAL_HISTOGRAM,
        METRIC_SUMMARY};
    const struct histogram_point *h = &b->histograms[1];
    const struct exponential_histogram_point *x = &b->exponentials[2];
    const struct summary_point *s = &b->summaries[9];
    /* 22 * 0x9e3779b97f4a7c15 modulo 2^64 */
    static const uint8_t trace[] = {0x98, 0xc4, 0x75, 0xf0, 0xf0, 0x66, 0xa9, 0xce};
    const int64_t base = 1000000000;
    int64_t total = 0;

    assert_int_equal(b->received, 60);
    assert_int_equal(batch_rejected(b), 0);
    for (int w = 0; w < WARN_COUNT_OF_WARNINGS; w++)
        assert_int_equal(b->warnings[w], 0);
    assert_int_equal(b->n_metrics, 6);
    for (int i = 0; i < 6; i++)
        assert_int_equal(b->metrics[i].type, types[i]);
    for (int i = 2; i < 5; i++)
        assert_int_equal(b->metrics[i].temporality, TEMPORALITY_CUMULATIVE);
    assert_true(bytes_equal(b->metrics[3].name, bytes_str("bench.duration.00003")));
    assert_int_equal(b->n_numbers, 30);
    assert_int_equal(b->n_exemplars, 30);

    assert_int_equal(b->numbers[0].value.kind, VALUE_INT);
    assert_true(b->numbers[0].value.u.i == 100027);
    assert_true(b->numbers[0].p.time == time);
    assert_int_equal(b->numbers[11].value.kind, VALUE_DOUBLE);
    assert_true(b->numbers[11].value.u.d == 1010.0);
    assert_true(b->numbers[21].value.u.i == TEMPLATE_FIRST_VALUE + 21 + 33 + 46);
    check_exemplar(b, &b->numbers[21].p, time, UINT64_C(21) << 40 | 2);
    assert_int_equal(b->exemplars[b->numbers[21].p.first_exemplar].value.kind, VALUE_INT);
    assert_memory_equal(b->exemplars[b->numbers[21].p.first_exemplar].trace_id, trace, 8);

    assert_int_equal(h->n_counts, 16);
    assert_int_equal(h->n_bounds, 15);
    assert_true(h->bounds[0] == 0 && h->bounds[5] == 75 && h->bounds[14] == 10000);
    assert_true(h->counts[0] == 0);
    assert_true(h->counts[1] == base + 8 * 15);
    assert_true(h->counts[15] == base + 8);
    for (int i = 0; i < 16; i++)
        total += h->counts[i];
    assert_true(h->count == total);
    assert_true(h->sum.has && h->sum.v == 30000000000000.0 + 8 * 86400);
    assert_true(h->min.has && h->min.v == 0.5 && h->max.has && h->max.v == 12000);
    check_exemplar(b, &h->p, time, UINT64_C(31) << 40 | 2);

    assert_int_equal(x->scale, 3);
    assert_true(x->positive.present && !x->negative.present);
    assert_int_equal(x->positive.offset, 16);
    assert_int_equal(x->positive.n_counts, 20);
    assert_true(x->zero_count == base + 6);
    assert_true(x->positive.counts[0] == base + 6);
    assert_true(x->positive.counts[19] == base + 6 * 4);
    total = x->zero_count;
    for (int i = 0; i < 20; i++)
        total += x->positive.counts[i];
    assert_true(x->count == total);
    assert_true(x->sum.has && x->sum.v == 215000000000.0 + 6 * 540);
    check_exemplar(b, &x->p, time, UINT64_C(42) << 40 | 2);

    assert_true(s->count == base + 8 * 40);
    assert_true(s->sum == 15.0 * (double)s->count);
    assert_int_equal(s->n_quantiles, 5);
    assert_true(s->quantiles[0].quantile == 0 && s->quantiles[0].value == 10);
    assert_true(s->quantiles[1].quantile == 0.5 && s->quantiles[1].value == 12 + 14);
    assert_true(s->quantiles[3].quantile == 0.99 && s->quantiles[3].value == 60 + 14);
    assert_true(s->quantiles[4].value == 99);
}

static void all_types_say_what_is_written(void **state)
{
    (void)state;
    for (int form = 0; form < 4; form++) {
        struct template_opts o = all_types;
        struct template_set set;
        struct decoded d;

        o.json = (form & 1) != 0;
        o.gzip = (form & 2) != 0;
        init(&set, &o);
        for (int pass = 1; pass <= 2; pass++) {
            struct bytes wire = template_next(&set.templates[0], NOW + pass);
            struct bytes body = template_body(&set.templates[0]);

            /* The length in the head is the body's, also where it differs each time. */
            const char *length = memmem(wire.p, wire.n, "Content-Length: ", 16);

            assert_non_null(length);
            assert_int_equal(strtoul(length + 16, NULL, 10), body.n);
            assert_ptr_equal(body.p + body.n, wire.p + wire.n);
        }
        decode(&set.templates[0], &d);
        check_all_types(&d.batch, NOW + 2);
        release(&d);
        template_set_fini(&set);
    }
}

/* Counts must not outgrow their width: after 10^7 sendings the numbers are still what the rule
 * says, in both encodings alike. */
static void wide_counts_keep_their_width(void **state)
{
    (void)state;
    for (int json = 0; json <= 1; json++) {
        struct template_opts o = all_types;
        struct template_set set;
        struct decoded d;

        o.json = json != 0;
        init(&set, &o);
        set.templates[0].pass = 9999999;
        (void)template_next(&set.templates[0], NOW + 5);
        decode(&set.templates[0], &d);
        assert_true(d.batch.histograms[1].counts[1] == 1000000000 + INT64_C(600000000));
        assert_true(d.batch.exponentials[1].positive.counts[3] == 1000000000 + 80000000);
        assert_true(d.batch.summaries[0].sum == 15000000000.0 + 15.0 * 40 * 30000000);
        release(&d);
        template_set_fini(&set);
    }
}

/* --- line protocol --- */

/* One line, without its end: the parts that a store keeps. Fails the test on anything else than
 * MEASUREMENT,TAG=VALUE,... FIELD=INTEGERi TIME. */
struct line {
    char measurement[64], tags[4][2][64];
    int n_tags;
    int64_t value, time;
};

static void parse_line(const char *text, size_t n, struct line *out)
{
    char copy[512], *at = copy, *blank, *end;

    assert_true(n < sizeof(copy));
    memcpy(copy, text, n);
    copy[n] = '\0';
    memset(out, 0, sizeof(*out));
    blank = strchr(copy, ' ');
    assert_non_null(blank);
    *blank = '\0';
    snprintf(out->measurement, sizeof(out->measurement), "%.*s", (int)strcspn(at, ","), at);
    at += strcspn(at, ",");
    while (*at == ',') {
        int key = (int)strcspn(at + 1, "="), value = (int)strcspn(at + 2 + key, ",");

        assert_true(out->n_tags < 4);
        snprintf(out->tags[out->n_tags][0], 64, "%.*s", key, at + 1);
        snprintf(out->tags[out->n_tags++][1], 64, "%.*s", value, at + 2 + key);
        at += 2 + key + value;
    }
    assert_int_equal(*at, '\0');
    at = blank + 1;
    assert_memory_equal(at, "value=", 6);
    out->value = strtoll(at + 6, &end, 10);
    assert_memory_equal(end, "i ", 2);
    out->time = strtoll(end + 2, &end, 10);
    assert_int_equal(*end, '\0');
}

/* The same series, values and times as in values_grow_by_the_written_rule. */
static void lines_say_the_same_as_the_number_mix(void **state)
{
    struct template_opts o = base;
    struct template_set set;

    (void)state;
    o.influx = true;
    for (int gzip = 0; gzip <= 1; gzip++) {
        struct buf inflated = {0};
        struct bytes body;
        struct otl_error err;
        struct line line;
        int lines = 0;

        o.gzip = gzip != 0;
        init(&set, &o);
        (void)template_next(&set.templates[1], NOW + 1000);
        (void)template_next(&set.templates[1], NOW + 2000);
        body = template_body(&set.templates[1]);
        if (o.gzip) {
            assert_int_equal(inflate_body(CODING_GZIP, body, 1 << 20, &inflated, &err), OTL_OK);
            body = buf_bytes(&inflated);
        }
        while (body.n > 0) {
            const uint8_t *end = memchr(body.p, '\n', body.n);

            assert_non_null(end);
            parse_line((const char *)body.p, (size_t)(end - body.p), &line);
            assert_true(line.time == NOW + 2000);
            if (lines == 0)
                assert_true(line.value == INT64_C(1000000000000085));
            body.n -= (size_t)(end + 1 - body.p);
            body.p = end + 1;
            lines++;
        }
        assert_int_equal(lines, 20);
        /* The last is series 19 of the service. */
        assert_true(line.value == INT64_C(1000000000000114));
        assert_string_equal(line.measurement, "bench.requests.00001");
        assert_int_equal(line.n_tags, 4);
        assert_string_equal(line.tags[0][0], "service.name");
        assert_string_equal(line.tags[0][1], "bench-0001");
        assert_string_equal(line.tags[1][0], "http.route");
        assert_string_equal(line.tags[1][1], "/api/v1/items/00019");
        assert_string_equal(line.tags[2][1], "DELETE");
        assert_string_equal(line.tags[3][0], "server.address");
        assert_string_equal(line.tags[3][1], "node-0019.cluster");
        buf_fini(&inflated);
        template_set_fini(&set);
    }
}

static void what_line_protocol_lacks_is_refused(void **state)
{
    struct template_opts o = base;
    struct template_set set;
    struct otl_error err = {0};

    (void)state;
    o.influx = true;
    o.mix = MIX_ALL;
    assert_int_equal(template_set_init(&set, &o, &err), OTL_ECONFIG);
    assert_non_null(strstr(err.msg, "--metric-mix number"));
}

/* Five series in a request of 20 points: each four times, a nanosecond apart, still growing. */
static void few_series_repeat_within_a_request(void **state)
{
    struct template_opts o = base;
    struct template_set set;
    struct decoded d;
    int64_t value = TEMPLATE_FIRST_VALUE;

    (void)state;
    o.services = 1;
    o.series = 5;
    init(&set, &o);
    assert_int_equal(set.n, 1);
    for (int pass = 0; pass < 2; pass++) {
        (void)template_next(&set.templates[0], NOW + 100); /* the clock stands still */
        decode(&set.templates[0], &d);
        assert_int_equal(d.batch.n_numbers, 20);
        for (int turn = 0; turn < 4; turn++) {
            value += 1 + ((pass * 4 + turn + 1) * 13 & 63); /* series 0 */
            check_point(&d.batch, (unsigned)turn * 5, NOW + 100 + pass * 4 + turn, value);
        }
        release(&d);
    }
    template_set_fini(&set);
}

static void interval_sets_the_times(void **state)
{
    struct template_opts o = base;
    struct template_set set;
    struct decoded d;

    (void)state;
    o.interval_ns = 10000;
    init(&set, &o);
    for (int pass = 1; pass <= 3; pass++)
        (void)template_next(&set.templates[0], NOW + 7);
    decode(&set.templates[0], &d);
    assert_true(d.batch.numbers[0].p.time == NOW + 30000);
    release(&d);
    template_set_fini(&set);
}

static void head_tells_the_length_and_the_coding(void **state)
{
    struct template_opts o = base;
    struct template_set set;
    struct bytes wire;
    char head[512], length[64];
    size_t n;

    (void)state;
    o.gzip = true;
    init(&set, &o);
    wire = template_next(&set.templates[0], NOW + 1);
    n = wire.n - template_body(&set.templates[0]).n;
    assert_true(n < sizeof(head));
    memcpy(head, wire.p, n);
    head[n] = '\0';
    snprintf(length, sizeof(length), "\r\nContent-Length: %zu\r\n\r\n",
             template_body(&set.templates[0]).n);
    assert_ptr_equal(strstr(head, "POST /v1/metrics HTTP/1.1\r\nHost: 127.0.0.1:4318\r\n"), head);
    assert_non_null(strstr(head, "\r\nContent-Type: application/x-protobuf\r\n"));
    assert_non_null(strstr(head, "\r\nContent-Encoding: gzip\r\n"));
    assert_non_null(strstr(head, "\r\nX-Extra: 1\r\n"));
    assert_ptr_equal(strstr(head, length), head + n - strlen(length));
    template_set_fini(&set);
}

static void numbers_that_do_not_divide_are_refused(void **state)
{
    static const unsigned bad[][3] = {/* points, services, series */
                                      {0, 1, 1},
                                      {20, 0, 20},
                                      {20, 3, 40},
                                      {20, 1, 30},
                                      {20, 1, 20000000}};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct template_opts o = base;
        struct template_set set;
        struct otl_error err = {0};

        o.points = bad[i][0];
        o.services = bad[i][1];
        o.series = bad[i][2];
        assert_int_equal(template_set_init(&set, &o, &err), OTL_ECONFIG);
        assert_true(err.msg[0] != '\0');
        template_set_fini(&set);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_grow_by_the_written_rule),
        cmocka_unit_test(gzip_is_changed_in_place),
        cmocka_unit_test(large_gzip_requests_hold_every_point),
        cmocka_unit_test(all_types_say_what_is_written),
        cmocka_unit_test(wide_counts_keep_their_width),
        cmocka_unit_test(lines_say_the_same_as_the_number_mix),
        cmocka_unit_test(what_line_protocol_lacks_is_refused),
        cmocka_unit_test(few_series_repeat_within_a_request),
        cmocka_unit_test(interval_sets_the_times),
        cmocka_unit_test(head_tells_the_length_and_the_coding),
        cmocka_unit_test(numbers_that_do_not_divide_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
