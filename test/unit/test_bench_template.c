/* The requests of otlite-bench, read back by our decoder: the load must be what it claims to be,
 * and a request changed in place must be as good as one encoded anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../bench/template.c"
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
        cmocka_unit_test(few_series_repeat_within_a_request),
        cmocka_unit_test(interval_sets_the_times),
        cmocka_unit_test(head_tells_the_length_and_the_coding),
        cmocka_unit_test(numbers_that_do_not_divide_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
