/* decode_protobuf: the tree it gives, the budget it keeps, and the mark on bad points. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "otlp/message.h"
#include "pbwrite.h"
#include "shared_case.h"

enum { MIB = 1 << 20 };

static struct otl_error err;
static struct arena arena;

static int fresh(void **state)
{
    (void)state;
    arena_init(&arena, 64 * MIB);
    memset(&err, 0, sizeof(err));
    return 0;
}

static int done(void **state)
{
    (void)state;
    arena_fini(&arena);
    arena_set_process_limit(0);
    return 0;
}

static enum otl_err decode(struct bytes body, otlp_request **m)
{
    *m = NULL;
    return decode_protobuf(body, &decode_limits_default, &arena, m, &err);
}

static void assert_text(ProtobufCBinaryData s, const char *want)
{
    assert_int_equal(s.len, strlen(want));
    if (s.len > 0)
        assert_memory_equal(s.data, want, s.len);
}

static void an_empty_body_is_an_empty_request(void **state)
{
    otlp_request *m;

    (void)state;
    assert_int_equal(decode(bytes_of(NULL, 0), &m), OTL_OK);
    assert_non_null(m);
    assert_int_equal(m->n_resource_metrics, 0);
}

static void reads_a_request_written_by_hand(void **state)
{
    struct buf b = {0};
    otlp_request *m;
    Otlp__ScopeMetrics *scope;
    Otlp__NumberDataPoint *point;

    (void)state;
    pb_fixed64(&b, 3, UINT64_C(1790000000000000001));
    pb_fixed64(&b, 6, (uint64_t)INT64_MIN);
    pb_varint(&b, 8, 1);
    pb_bytes(&b, 7, bytes_of("\x0a\x03k\0y\x12\x02\x10\x01", 9)); /* "k\0y": true */
    pb_gauge_request(&b, "temperature");
    assert_int_equal(decode(buf_bytes(&b), &m), OTL_OK);
    assert_int_equal(m->n_resource_metrics, 1);
    assert_null(m->resource_metrics[0]->resource);
    assert_int_equal(m->resource_metrics[0]->n_scope_metrics, 1);
    scope = m->resource_metrics[0]->scope_metrics[0];
    assert_null(scope->scope);
    assert_text(scope->schema_url, "");
    assert_int_equal(scope->n_metrics, 1);
    assert_text(scope->metrics[0]->name, "temperature");
    assert_int_equal(scope->metrics[0]->data_case, OTLP__METRIC__DATA_GAUGE);
    assert_int_equal(scope->metrics[0]->gauge->n_data_points, 1);
    point = scope->metrics[0]->gauge->data_points[0];
    assert_true(point->time_unix_nano == UINT64_C(1790000000000000001));
    assert_int_equal(point->value_case, OTLP__NUMBER_DATA_POINT__VALUE_AS_INT);
    assert_true(point->as_int == INT64_MIN);
    assert_int_equal(point->flags, 1);
    assert_int_equal(point->n_attributes, 1);
    assert_int_equal(point->attributes[0]->key.len, 3); /* NUL does not end a text */
    assert_memory_equal(point->attributes[0]->key.data, "k\0y", 3);
    assert_int_equal(point->attributes[0]->value->value_case, OTLP__ANY_VALUE__VALUE_BOOL_VALUE);
    assert_true(point->attributes[0]->value->bool_value);
    buf_fini(&b);
}

static Otlp__Metric *first_metric(otlp_request *m)
{
    assert_int_equal(m->n_resource_metrics, 1);
    assert_int_equal(m->resource_metrics[0]->n_scope_metrics, 1);
    assert_int_equal(m->resource_metrics[0]->scope_metrics[0]->n_metrics, 1);
    return m->resource_metrics[0]->scope_metrics[0]->metrics[0];
}

static void tells_absent_from_zero(void **state)
{
    struct buf b = {0};
    Otlp__HistogramDataPoint *h;
    otlp_request *m;

    (void)state;
    pb_double(&b, 5, 0.0); /* sum: there and 0.0; min and max are not there */
    pb_wrap(&b, 1);
    pb_wrap(&b, 9);
    pb_wrap(&b, 2);
    pb_wrap(&b, 2);
    pb_wrap(&b, 1);
    assert_int_equal(decode(buf_bytes(&b), &m), OTL_OK);
    h = first_metric(m)->histogram->data_points[0];
    assert_int_equal(h->opt_sum_case, OTLP__HISTOGRAM_DATA_POINT__OPT_SUM_SUM);
    assert_true(h->sum == 0.0);
    assert_int_equal(h->opt_min_case, 0);
    assert_int_equal(h->opt_max_case, 0);
    buf_fini(&b);
}

/* M-27, as measured: the last kind wins, and of one kind twice only the second is kept. */
static void of_two_data_members_the_last_one_wins(void **state)
{
    static const char gauge_of_one[] = "\x0a\x02\x40\x07"; /* a point with flags 7 */
    static const char gauge_of_two[] = "\x0a\x02\x40\x01\x0a\x02\x40\x02";
    struct buf b = {0};
    otlp_request *m;

    (void)state;
    pb_str(&b, 5, gauge_of_one);
    pb_str(&b, 7, "\x18\x01"); /* Sum { is_monotonic } */
    pb_wrap(&b, 2);
    pb_wrap(&b, 2);
    pb_wrap(&b, 1);
    assert_int_equal(decode(buf_bytes(&b), &m), OTL_OK);
    assert_int_equal(first_metric(m)->data_case, OTLP__METRIC__DATA_SUM);
    assert_true(first_metric(m)->sum->is_monotonic);
    buf_reset(&b);
    pb_str(&b, 5, gauge_of_one);
    pb_str(&b, 5, gauge_of_two);
    pb_wrap(&b, 2);
    pb_wrap(&b, 2);
    pb_wrap(&b, 1);
    assert_int_equal(decode(buf_bytes(&b), &m), OTL_OK);
    assert_int_equal(first_metric(m)->data_case, OTLP__METRIC__DATA_GAUGE);
    assert_int_equal(first_metric(m)->gauge->n_data_points, 2);
    assert_int_equal(first_metric(m)->gauge->data_points[0]->flags, 1);
    buf_fini(&b);
}

static void packed_and_unpacked_buckets_give_one_point(void **state)
{
    static const char *const files[] = {"s14-packed.hex", "s14-unpacked.hex", "s14-split.hex"};
    static const uint64_t counts[] = {5, 0, 2, 3};
    static const double bounds[] = {0.5, 1, 10};
    struct buf b = {0};
    otlp_request *m;

    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        Otlp__HistogramDataPoint *h;

        if (!shared_case(files[i], &b)) {
            buf_fini(&b);
            skip();
        }
        assert_int_equal(decode(buf_bytes(&b), &m), OTL_OK);
        h = first_metric(m)->histogram->data_points[0];
        assert_int_equal(h->n_bucket_counts, 4);
        assert_memory_equal(h->bucket_counts, counts, sizeof(counts));
        assert_int_equal(h->n_explicit_bounds, 3);
        assert_memory_equal(h->explicit_bounds, bounds, sizeof(bounds));
    }
    assert_true(shared_case("s14-packed-ragged.hex", &b));
    assert_int_equal(decode(buf_bytes(&b), &m), OTL_EBADDATA);
    assert_null(m);
    buf_fini(&b);
}

static void small_bodies_that_decode_large_stop_at_the_budget(void **state)
{
    static const char *const files[] = {"s15-empty-rm-2MiB.bin", "s15-empty-metric-2MiB.bin",
                                        "s15-empty-attr-2MiB.bin"};
    struct buf b = {0};
    otlp_request *m;

    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (!shared_case(files[i], &b)) {
            buf_fini(&b);
            skip();
        }
        arena_reset(&arena, 8 * b.n); /* the ratio of H-51 */
        assert_int_equal(decode(buf_bytes(&b), &m), OTL_ETOOBIG);
        assert_null(m);
        assert_true(arena.used <= arena.budget);
        assert_true(arena.reserved <= arena.budget + 4 * MIB); /* one chunk more at most */
        assert_non_null(strstr(err.msg, "smaller batches"));
    }
    buf_fini(&b);
}

static void a_flood_of_unknown_fields_stops_at_the_budget(void **state)
{
    struct buf b = {0};
    otlp_request *m;

    (void)state;
    for (int i = 0; i < 100000; i++)
        pb_varint(&b, 999, 1);
    arena_reset(&arena, 8 * b.n);
    assert_int_equal(decode(buf_bytes(&b), &m), OTL_ETOOBIG);
    buf_fini(&b);
}

/* Repeats of a singular message are merged, each with a copy of the list before it. */
static void quadratic_merging_stops_at_the_budget(void **state)
{
    struct buf b = {0};
    otlp_request *m;

    (void)state;
    for (int i = 0; i < 20000; i++)
        pb_bytes(&b, 1, bytes_of("\x0a\x00", 2)); /* resource { attributes {} } */
    pb_wrap(&b, 1);
    arena_reset(&arena, 8 * b.n);
    assert_int_equal(decode(buf_bytes(&b), &m), OTL_ETOOBIG);
    buf_fini(&b);
}

static void deep_bodies_are_refused_before_protobuf_c_recurses(void **state)
{
    struct buf b = {0};
    otlp_request *m;

    (void)state;
    if (!shared_case("s11-deep-20.bin", &b)) {
        buf_fini(&b);
        skip();
    }
    assert_int_equal(decode(buf_bytes(&b), &m), OTL_OK);
    assert_true(shared_case("s11-deep-20000.bin", &b));
    assert_int_equal(decode(buf_bytes(&b), &m), OTL_EBADDATA);
    assert_memory_equal(err.field, "resourceMetrics[0].scopeMetrics[0].metrics[0].gauge", 51);
    buf_fini(&b);
}

/* One metric of each kind, attributes of each kind, exemplars, unknown fields, a repeated
 * resource and a replaced oneof: every sort of allocation protobuf-c makes. */
static void a_rich_request(struct buf *b)
{
    static const uint32_t kinds[] = {5, 7, 9, 10, 11};
    struct buf rm = {0}, sm = {0};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        uint32_t kind = kinds[i];
        struct buf p = {0}, metric = {0}, points = {0};
        uint32_t attributes = kind == 9 ? 9 : kind == 10 ? 1 : 7;

        pb_fixed64(&p, 3, UINT64_C(1790000000000000000));
        pb_str(&p, attributes, "\x0a\x01s\x12\x03\x0a\x01v");
        pb_str(&p, attributes,
               "\x0a\x01l\x12\x07\x2a\x05\x0a\x03\x0a\x01"
               "e"); /* ["e"] */
        if (kind == 5 || kind == 7)
            pb_str(&p, 5, "\x2a\x02id\x3a\x03\x0a\x01k"); /* exemplar: trace id, attribute */
        if (kind == 9) {
            pb_str(&p, 6, "\1\1\1\1\1\1\1\1");
            pb_fixed64(&p, 6, 2);
            pb_double(&p, 7, 1.5);
        }
        if (kind == 10)
            pb_str(&p, 8, "\x08\x01\x12\x03\x01\x96\x01");
        if (kind == 11)
            pb_str(&p, 6, "\x09\1\1\1\1\1\1\1\1");
        pb_str(&p, 777, "unknown");
        for (int n = 0; n < 40; n++)
            pb_bytes(&points, 1, buf_bytes(&p));
        pb_str(&metric, 1, "metric");
        pb_str(&metric, 5, "\x0a\x02\x40\x01"); /* replaced by what follows */
        pb_bytes(&metric, kind, buf_bytes(&points));
        pb_bytes(&sm, 2, buf_bytes(&metric));
        buf_fini(&p);
        buf_fini(&points);
        buf_fini(&metric);
    }
    pb_str(&rm, 1, "\x0a\x03\x0a\x01r");
    pb_str(&rm, 1, "\x0a\x03\x0a\x01q\x10\x05"); /* merged with the one before */
    pb_bytes(&rm, 2, buf_bytes(&sm));
    pb_bytes(b, 1, buf_bytes(&rm));
    buf_fini(&rm);
    buf_fini(&sm);
}

static void every_budget_too_small_is_refused_cleanly(void **state)
{
    struct buf b = {0};
    otlp_request *m;
    size_t need;

    (void)state;
    a_rich_request(&b);
    assert_int_equal(decode(buf_bytes(&b), &m), OTL_OK);
    assert_int_equal(m->resource_metrics[0]->resource->n_attributes, 2);
    assert_int_equal(m->resource_metrics[0]->resource->dropped_attributes_count, 5);
    assert_int_equal(m->resource_metrics[0]->scope_metrics[0]->metrics[3]->data_case,
                     OTLP__METRIC__DATA_EXPONENTIAL_HISTOGRAM);
    need = arena.used;
    /* The arena hands out 16 bytes at a time, so these are all the budgets there are. */
    for (size_t budget = 0; budget < need; budget += 16) {
        arena_reset(&arena, budget);
        assert_int_equal(decode(buf_bytes(&b), &m), OTL_ETOOBIG);
        assert_int_equal(err.code, OTL_ETOOBIG);
        assert_null(m);
        assert_true(arena.used <= budget);
    }
    arena_reset(&arena, need);
    assert_int_equal(decode(buf_bytes(&b), &m), OTL_OK);
    buf_fini(&b);
}

static void no_memory_is_not_the_senders_fault(void **state)
{
    struct buf b = {0};
    otlp_request *m;

    (void)state;
    a_rich_request(&b);
    arena_set_process_limit(1); /* as good as a malloc that fails */
    assert_int_equal(decode(buf_bytes(&b), &m), OTL_ENOMEM);
    assert_int_equal(err.code, OTL_ENOMEM);
    assert_null(m);
    buf_fini(&b);
}

static void every_prefix_and_every_broken_byte_is_an_answer(void **state)
{
    struct buf b = {0};
    otlp_request *m;
    size_t lawful = 0;

    (void)state;
    if (!shared_case("good.bin", &b)) {
        buf_fini(&b);
        skip();
    }
    for (size_t n = 0; n <= b.n; n++) {
        struct guarded g = guarded_copy(bytes_of(b.p, n));
        enum otl_err rc = decode(g.b, &m);

        assert_true(rc == OTL_OK || rc == OTL_EBADDATA);
        lawful += rc == OTL_OK;
        guarded_free(&g);
    }
    assert_int_equal(lawful, 2);
    for (size_t i = 0; i < b.n; i++) {
        struct guarded g;
        enum otl_err rc;
        uint8_t was = b.p[i];

        b.p[i] = 0xff;
        g = guarded_copy(buf_bytes(&b));
        rc = decode(g.b, &m);
        assert_true(rc == OTL_OK || rc == OTL_EBADDATA);
        assert_int_equal(rc == OTL_OK, m != NULL);
        guarded_free(&g);
        b.p[i] = was;
    }
    buf_fini(&b);
}

static void a_defect_is_marked_once_and_keeps_its_first_reason(void **state)
{
    Otlp__NumberDataPoint point = OTLP__NUMBER_DATA_POINT__INIT;
    enum reject_reason reason = REJECT_NAME;

    (void)state;
    assert_false(message_defect(&point.base, &reason));
    assert_int_equal(reason, REJECT_NAME); /* untouched */
    assert_true(message_mark_defect(&point.base, REJECT_VALUE, &arena));
    assert_true(message_defect(&point.base, &reason));
    assert_int_equal(reason, REJECT_VALUE);
    assert_true(message_mark_defect(&point.base, REJECT_COUNT, &arena));
    assert_true(message_defect(&point.base, &reason));
    assert_int_equal(reason, REJECT_VALUE);
    assert_int_equal(point.base.n_unknown_fields, 1);
}

static void a_defect_stands_beside_unknown_fields(void **state)
{
    struct buf b = {0};
    enum reject_reason reason;
    Otlp__NumberDataPoint *point;
    otlp_request *m;

    (void)state;
    pb_str(&b, 900, "x");
    pb_varint(&b, 901, 3);
    pb_gauge_request(&b, "g");
    assert_int_equal(decode(buf_bytes(&b), &m), OTL_OK);
    point = first_metric(m)->gauge->data_points[0];
    assert_int_equal(point->base.n_unknown_fields, 2);
    assert_false(message_defect(&point->base, &reason));
    assert_true(message_mark_defect(&point->base, REJECT_TIME_ZERO, &arena));
    assert_int_equal(point->base.n_unknown_fields, 3);
    assert_int_equal(point->base.unknown_fields[0].tag, 900);
    assert_int_equal(point->base.unknown_fields[1].tag, 901);
    assert_true(message_defect(&point->base, &reason));
    assert_int_equal(reason, REJECT_TIME_ZERO);
    buf_fini(&b);
}

static void a_mark_without_room_leaves_the_point_as_it_was(void **state)
{
    Otlp__NumberDataPoint point = OTLP__NUMBER_DATA_POINT__INIT;
    enum reject_reason reason;

    (void)state;
    for (size_t budget = 0; budget <= 32; budget += 16) {
        arena_reset(&arena, budget);
        assert_false(message_mark_defect(&point.base, REJECT_VALUE, &arena));
        assert_false(message_defect(&point.base, &reason));
        assert_int_equal(point.base.n_unknown_fields, 0);
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, fresh, done)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(an_empty_body_is_an_empty_request),
        CASE(reads_a_request_written_by_hand),
        CASE(tells_absent_from_zero),
        CASE(of_two_data_members_the_last_one_wins),
        CASE(packed_and_unpacked_buckets_give_one_point),
        CASE(small_bodies_that_decode_large_stop_at_the_budget),
        CASE(a_flood_of_unknown_fields_stops_at_the_budget),
        CASE(quadratic_merging_stops_at_the_budget),
        CASE(deep_bodies_are_refused_before_protobuf_c_recurses),
        CASE(every_budget_too_small_is_refused_cleanly),
        CASE(no_memory_is_not_the_senders_fault),
        CASE(every_prefix_and_every_broken_byte_is_an_answer),
        CASE(a_defect_is_marked_once_and_keeps_its_first_reason),
        CASE(a_defect_stands_beside_unknown_fields),
        CASE(a_mark_without_room_leaves_the_point_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
