/* wirecheck: what it refuses, what it lets pass, and that protobuf-c agrees with it. */
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

#define CHECK(literal) check((const uint8_t *)(literal), sizeof(literal) - 1)

static struct otl_error err;

static enum otl_err check_limits(struct bytes body, const struct decode_limits *lim)
{
    struct guarded g = guarded_copy(body);
    enum otl_err rc;

    memset(&err, 0, sizeof(err));
    rc = wirecheck(g.b, lim, &err);
    guarded_free(&g);
    return rc;
}

static enum otl_err check_bytes(struct bytes body)
{
    return check_limits(body, &decode_limits_default);
}

static enum otl_err check(const uint8_t *p, size_t n)
{
    return check_bytes(bytes_of(p, n));
}

/* What protobuf-c itself says of a body, with memory without end. */
static bool unpacks(struct bytes body)
{
    otlp_request *m = otlp__export_metrics_service_request__unpack(NULL, body.n, body.p);

    otlp__export_metrics_service_request__free_unpacked(m, NULL);
    return m != NULL;
}

static void nothing_at_all_is_a_whole_message(void **state)
{
    (void)state;
    assert_int_equal(check(NULL, 0), OTL_OK);
    assert_int_equal(wirecheck(bytes_of(NULL, 0), &decode_limits_default, NULL), OTL_OK);
}

static void an_absent_error_is_not_written(void **state)
{
    (void)state;
    assert_int_equal(wirecheck(bytes_of("\x0a\x05", 2), &decode_limits_default, NULL),
                     OTL_EBADDATA);
}

static void refuses_field_number_zero(void **state)
{
    (void)state;
    assert_int_equal(CHECK("\x02\x00"), OTL_EBADDATA);
    assert_non_null(strstr(err.msg, "field number 0"));
    assert_int_equal(CHECK("\x00\x00"), OTL_EBADDATA);
    /* Nested: resource_metrics { 0: "" } */
    assert_int_equal(CHECK("\x0a\x02\x02\x00"), OTL_EBADDATA);
    assert_string_equal(err.field, "resourceMetrics[0]");
}

static void refuses_groups_and_unused_wire_types(void **state)
{
    (void)state;
    /* Field 100, unknown everywhere, with wire types 3, 4, 6, 7. */
    assert_int_equal(CHECK("\xa3\x06"), OTL_EBADDATA);
    assert_non_null(strstr(err.msg, "wire type 3"));
    assert_int_equal(CHECK("\xa4\x06"), OTL_EBADDATA);
    assert_int_equal(CHECK("\xa6\x06"), OTL_EBADDATA);
    assert_int_equal(CHECK("\xa7\x06"), OTL_EBADDATA);
}

static void skips_unknown_fields_of_every_other_wire_type(void **state)
{
    (void)state;
    assert_int_equal(CHECK("\xa0\x06\x96\x01"), OTL_OK); /* varint */
    assert_int_equal(CHECK("\xa1\x06"                    /* 64 bits */
                           "12345678"),
                     OTL_OK);
    assert_int_equal(CHECK("\xa5\x06" /* 32 bits */
                           "1234"),
                     OTL_OK);
    assert_int_equal(CHECK("\xa2\x06\x03" /* length */
                           "\x0b\x0b\x0b"),
                     OTL_OK);
    assert_int_equal(CHECK("\xa1\x06"
                           "1234567"),
                     OTL_EBADDATA);
    assert_int_equal(CHECK("\xa5\x06"
                           "123"),
                     OTL_EBADDATA);
    assert_int_equal(CHECK("\xa2\x06\x03"
                           "\x0b\x0b"),
                     OTL_EBADDATA);
}

static void counts_the_bytes_of_varints(void **state)
{
    (void)state;
    /* An unknown varint may have ten bytes, not eleven; never does it run off the end. */
    assert_int_equal(CHECK("\xa0\x06\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), OTL_OK);
    assert_int_equal(CHECK("\xa0\x06\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), OTL_EBADDATA);
    assert_int_equal(CHECK("\xa0\x06\xff"), OTL_EBADDATA);
    assert_int_equal(CHECK("\xa0"), OTL_EBADDATA);
    /* A tag in more bytes than it needs is lawful up to five. */
    assert_int_equal(CHECK("\x8a\x00\x00"), OTL_OK);
    assert_int_equal(CHECK("\x8a\x80\x80\x80\x00\x00"), OTL_OK);
    assert_int_equal(CHECK("\x8a\x80\x80\x80\x80\x00\x00"), OTL_EBADDATA);
    /* The highest field number, 2^29-1, and a bit that does not belong to one. */
    assert_int_equal(CHECK("\xf8\xff\xff\xff\x0f\x00"), OTL_OK);
    assert_int_equal(CHECK("\x8a\x80\x80\x80\x10\x00"), OTL_EBADDATA);
}

static void bounds_lengths_before_it_adds(void **state)
{
    (void)state;
    assert_int_equal(CHECK("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), OTL_EBADDATA);
    assert_int_equal(CHECK("\x0a\xff\xff\xff\xff\x0f"), OTL_EBADDATA); /* 2^32-1 */
    assert_int_equal(CHECK("\x0a\xff\xff\xff\xff\x7f"), OTL_EBADDATA); /* 2^35-1 */
    assert_int_equal(CHECK("\x0a\x01"), OTL_EBADDATA);
    assert_int_equal(CHECK("\x0a\x80\x80\x80\x80\x00"), OTL_OK); /* 0 in five bytes */
    /* A child may not be longer than its parent, whatever the body has. */
    assert_int_equal(CHECK("\x0a\x02\x0a\x02\x10\x01"), OTL_EBADDATA);
}

static void refuses_a_known_field_with_a_foreign_wire_type(void **state)
{
    (void)state;
    assert_int_equal(CHECK("\x08\x01"), OTL_EBADDATA); /* resource_metrics as varint */
    assert_string_equal(err.field, "resourceMetrics[0]");
    /* resource { dropped_attributes_count: bytes }, a scalar that is not repeated */
    assert_int_equal(CHECK("\x0a\x04\x0a\x02\x12\x00"), OTL_EBADDATA);
    assert_string_equal(err.field, "resourceMetrics[0].resource.droppedAttributesCount");
    /* ... and as it should be */
    assert_int_equal(CHECK("\x0a\x04\x0a\x02\x10\x07"), OTL_OK);
}

/* A request whose one histogram point holds these bytes. */
static void histogram_request(struct buf *b)
{
    pb_wrap(b, 1); /* Histogram.data_points */
    pb_wrap(b, 9); /* Metric.histogram */
    pb_wrap(b, 2);
    pb_wrap(b, 2);
    pb_wrap(b, 1);
}

static void knows_packed_and_unpacked_numbers(void **state)
{
    static const uint8_t sixteen[16];
    struct buf b = {0};

    (void)state;
    for (size_t n = 0; n <= 16; n++) {
        buf_reset(&b);
        pb_bytes(&b, 6, bytes_of(sixteen, n)); /* bucket_counts: fixed64 */
        histogram_request(&b);
        assert_int_equal(check_bytes(buf_bytes(&b)), n % 8 == 0 ? OTL_OK : OTL_EBADDATA);
    }
    buf_reset(&b);
    pb_fixed64(&b, 6, 1);
    pb_bytes(&b, 6, bytes_of(sixteen, 8));
    pb_double(&b, 7, 0.5);
    histogram_request(&b);
    assert_int_equal(check_bytes(buf_bytes(&b)), OTL_OK);
    /* A varint where 64 bits belong. */
    buf_reset(&b);
    pb_varint(&b, 6, 1);
    histogram_request(&b);
    assert_int_equal(check_bytes(buf_bytes(&b)), OTL_EBADDATA);
    assert_string_equal(err.field, "resourceMetrics[0].scopeMetrics[0].metrics[0].histogram."
                                   "dataPoints[0].bucketCounts");
    buf_fini(&b);
}

static void knows_packed_varints(void **state)
{
    struct {
        const char *run;
        size_t n;
        enum otl_err rc;
    } cases[] = {
        {"", 0, OTL_OK},
        {"\x01\x96\x01", 3, OTL_OK},
        {"\x01\x96", 2, OTL_EBADDATA},
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10, OTL_OK},
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, OTL_EBADDATA},
    };
    struct buf b = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        buf_reset(&b);
        pb_bytes(&b, 2, bytes_of(cases[i].run, cases[i].n)); /* Buckets.bucket_counts: uint64 */
        pb_wrap(&b, 8);                                      /* positive */
        pb_wrap(&b, 1);
        pb_wrap(&b, 10); /* Metric.exponential_histogram */
        pb_wrap(&b, 2);
        pb_wrap(&b, 2);
        pb_wrap(&b, 1);
        assert_int_equal(check_bytes(buf_bytes(&b)), cases[i].rc);
        assert_int_equal(unpacks(buf_bytes(&b)), cases[i].rc == OTL_OK);
    }
    buf_fini(&b);
}

/* A gauge point with one attribute whose value is a leaf inside that many arrays or kvlists. */
static void deep_request(struct buf *b, unsigned values, bool lists_of_pairs)
{
    buf_reset(b);
    for (unsigned i = 0; i < values; i++) {
        if (lists_of_pairs) {
            pb_wrap(b, 2); /* KeyValue.value */
            pb_wrap(b, 1); /* KeyValueList.values */
            pb_wrap(b, 6); /* AnyValue.kvlist_value */
        } else {
            pb_wrap(b, 1); /* ArrayValue.values */
            pb_wrap(b, 5); /* AnyValue.array_value */
        }
    }
    pb_wrap(b, 2); /* KeyValue.value */
    pb_wrap(b, 7); /* NumberDataPoint.attributes */
    pb_gauge_request(b, "deep");
}

static void bounds_the_depth_of_values_at_the_limit(void **state)
{
    static const char head[] = "resourceMetrics[0].scopeMetrics[0].metrics[0].gauge.dataPoints[0]."
                               "attributes[0].value.";
    struct decode_limits lim = decode_limits_default;
    struct buf b = {0};

    (void)state;
    for (int pairs = 0; pairs <= 1; pairs++) {
        deep_request(&b, 64, pairs);
        assert_int_equal(check_bytes(buf_bytes(&b)), OTL_OK);
        deep_request(&b, 65, pairs);
        assert_int_equal(check_bytes(buf_bytes(&b)), OTL_EBADDATA);
        assert_non_null(strstr(err.msg, "64"));
        assert_non_null(strstr(err.msg, "otlp.max_depth"));
        /* The path is as long as fits, in whole segments. */
        assert_memory_equal(err.field, head, strlen(head));
        assert_true(strlen(err.field) > 150);
        assert_true(err.field[strlen(err.field) - 1] != '.');
        lim.max_value_depth = 3;
        deep_request(&b, 3, pairs);
        assert_int_equal(check_limits(buf_bytes(&b), &lim), OTL_OK);
        deep_request(&b, 4, pairs);
        assert_int_equal(check_limits(buf_bytes(&b), &lim), OTL_EBADDATA);
    }
    buf_fini(&b);
}

static void has_room_for_the_deepest_limit_and_a_bound_of_its_own(void **state)
{
    struct decode_limits lim = decode_limits_default;
    struct buf b = {0};

    (void)state;
    lim.max_value_depth = 200; /* the most that the configuration takes */
    deep_request(&b, 200, true);
    assert_int_equal(check_limits(buf_bytes(&b), &lim), OTL_OK);
    assert_true(unpacks(buf_bytes(&b)));
    lim.max_value_depth = UINT32_MAX;
    deep_request(&b, 1000, true);
    assert_int_equal(check_limits(buf_bytes(&b), &lim), OTL_EBADDATA);
    assert_non_null(strstr(err.msg, "nested"));
    buf_fini(&b);
}

static void counts_depth_per_branch(void **state)
{
    struct decode_limits lim = decode_limits_default;
    struct buf b = {0};

    (void)state;
    /* Many siblings at the limit are not deeper than one. */
    lim.max_value_depth = 1;
    for (int i = 0; i < 100; i++)
        pb_str(&b, 1, "\x0a\x01x"); /* ArrayValue.values { string_value: "x" } */
    pb_wrap(&b, 5);
    pb_wrap(&b, 2);
    pb_wrap(&b, 7);
    pb_gauge_request(&b, "wide");
    assert_int_equal(check_limits(buf_bytes(&b), &lim), OTL_OK);
    buf_fini(&b);
}

static void depth_in_unknown_fields_is_only_bytes(void **state)
{
    struct buf b = {0};

    (void)state;
    deep_request(&b, 5000, false);
    pb_wrap(&b, 900);
    assert_int_equal(check_bytes(buf_bytes(&b)), OTL_OK);
    buf_fini(&b);
}

static void names_the_path_of_what_is_bad(void **state)
{
    struct buf bad = {0}, scope = {0}, resource = {0}, body = {0};

    (void)state;
    pb_varint(&bad, 1, 5); /* Metric.name as a varint */
    for (int i = 0; i < 3; i++)
        pb_str(&scope, 2, "\x0a\x01m"); /* three good metrics before it */
    pb_str(&scope, 3, "url");           /* and another field between */
    pb_bytes(&scope, 2, buf_bytes(&bad));
    pb_str(&resource, 2, ""); /* one empty scope before */
    pb_bytes(&resource, 2, buf_bytes(&scope));
    pb_varint(&body, 50, 1); /* an unknown field does not count */
    pb_str(&body, 1, "");
    pb_str(&body, 1, "");
    pb_bytes(&body, 1, buf_bytes(&resource));
    assert_int_equal(check_bytes(buf_bytes(&body)), OTL_EBADDATA);
    assert_string_equal(err.field, "resourceMetrics[2].scopeMetrics[1].metrics[3].name");
    assert_non_null(strstr(err.msg, "Metric"));
    buf_fini(&bad);
    buf_fini(&scope);
    buf_fini(&resource);
    buf_fini(&body);
}

static void judges_the_shared_cases(void **state)
{
    static const struct {
        const char *file;
        enum otl_err rc;
    } cases[] = {
        {"s11-deep-20.bin", OTL_OK},
        {"s11-deep-20000.bin", OTL_EBADDATA},
        {"s12-empty.hex", OTL_OK},
        {"s12-garbage-text.hex", OTL_EBADDATA},
        {"s12-group.hex", OTL_EBADDATA},
        {"s12-json-as-proto.hex", OTL_EBADDATA},
        {"s12-len-overflow.hex", OTL_EBADDATA},
        {"s12-tag0.hex", OTL_EBADDATA},
        {"s12-truncated.hex", OTL_EBADDATA},
        {"s12-unknown-fields.hex", OTL_OK},
        {"s12-varint-11.hex", OTL_EBADDATA},
        {"s12-wrong-wire.hex", OTL_EBADDATA},
        {"s13-attr-no-value.hex", OTL_OK},
        {"s13-empties.hex", OTL_OK},
        {"s14-packed.hex", OTL_OK},
        {"s14-unpacked.hex", OTL_OK},
        {"s14-split.hex", OTL_OK},
        {"s14-packed-ragged.hex", OTL_EBADDATA},
        {"s15-empty-rm-2MiB.bin", OTL_OK},
    };
    struct buf b = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (!shared_case(cases[i].file, &b)) {
            buf_fini(&b);
            skip();
        }
        if (check_bytes(buf_bytes(&b)) != cases[i].rc)
            fail_msg("%s: not judged as it should be (%s)", cases[i].file, err.msg);
        if (cases[i].rc != OTL_OK)
            assert_true(strlen(err.msg) > 0 && err.code == OTL_EBADDATA);
    }
    buf_fini(&b);
}

static void agrees_with_protobuf_c_on_every_prefix_and_every_broken_byte(void **state)
{
    struct buf b = {0};
    size_t lawful = 0;

    (void)state;
    if (!shared_case("good.bin", &b)) {
        buf_fini(&b);
        skip();
    }
    for (size_t n = 0; n <= b.n; n++) {
        bool ok = check(b.p, n) == OTL_OK;

        assert_int_equal(ok, unpacks(bytes_of(b.p, n)));
        lawful += ok;
    }
    assert_int_equal(lawful, 2); /* one field on top: nothing, or all of it */
    for (size_t i = 0; i < b.n; i++) {
        uint8_t was = b.p[i];

        b.p[i] = 0xff;
        assert_int_equal(check(b.p, b.n) == OTL_OK, unpacks(buf_bytes(&b)));
        b.p[i] = was;
    }
    buf_fini(&b);
}

/* Deterministic noise (xorshift), so that a failure repeats. */
static uint32_t noise(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return (uint32_t)(*s >> 32);
}

static void a_request_of_all_kinds(struct buf *b)
{
    static const uint32_t data[] = {5, 7, 9, 10, 11}; /* the members of Metric.data */
    struct buf scope = {0};

    buf_reset(b);
    for (size_t i = 0; i < sizeof(data) / sizeof(data[0]); i++) {
        struct buf m = {0}, kv = {0};

        pb_str(&kv, 1, "key");
        pb_str(&kv, 2, "\x0a\x03val");
        pb_fixed64(&m, 3, 1790000000);
        pb_bytes(&m, data[i] == 9 ? 9 : data[i] == 10 ? 1 : 7, buf_bytes(&kv));
        if (data[i] == 9)
            pb_str(&m, 6, "12345678");
        if (data[i] == 10)
            pb_str(&m, 8, "\x08\x01\x12\x03\x01\x96\x01");
        pb_wrap(&m, 1);
        pb_wrap(&m, data[i]);
        pb_str(&m, 1, "name");
        pb_bytes(&scope, 2, buf_bytes(&m));
        buf_fini(&m);
        buf_fini(&kv);
    }
    buf_add_bytes(b, buf_bytes(&scope));
    pb_wrap(b, 2);
    pb_wrap(b, 1);
    buf_fini(&scope);
}

static void agrees_with_protobuf_c_on_noise(void **state)
{
    uint64_t seed = 0x5eed5eed5eed5eed;
    struct buf b = {0}, c = {0};
    size_t passed = 0;

    (void)state;
    a_request_of_all_kinds(&b);
    assert_int_equal(check_bytes(buf_bytes(&b)), OTL_OK);
    assert_true(unpacks(buf_bytes(&b)));
    for (int round = 0; round < 20000; round++) {
        unsigned edits = noise(&seed) % 3 + 1;
        bool ok;

        buf_reset(&c);
        buf_add_bytes(&c, buf_bytes(&b));
        while (edits-- > 0) {
            uint32_t r = noise(&seed);

            c.p[r % c.n] = (uint8_t)(r >> 24);
        }
        ok = wirecheck(buf_bytes(&c), &decode_limits_default, &err) == OTL_OK;
        passed += ok;
        /* protobuf-c reads a bool from any wire type; that much stricter wirecheck is. */
        if (ok != unpacks(buf_bytes(&c)) &&
            (ok || (strstr(err.msg, "in Sum: field 3 has wire type") == NULL &&
                    strstr(err.msg, "in AnyValue: field 2 has wire type") == NULL)))
            fail_msg("round %d: wirecheck says %s, protobuf-c differs", round,
                     ok ? "good" : err.msg);
    }
    /* Both answers must occur often for the comparison to mean anything. */
    assert_true(passed > 2000 && passed < 18000);
    buf_fini(&b);
    buf_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_at_all_is_a_whole_message),
        cmocka_unit_test(an_absent_error_is_not_written),
        cmocka_unit_test(refuses_field_number_zero),
        cmocka_unit_test(refuses_groups_and_unused_wire_types),
        cmocka_unit_test(skips_unknown_fields_of_every_other_wire_type),
        cmocka_unit_test(counts_the_bytes_of_varints),
        cmocka_unit_test(bounds_lengths_before_it_adds),
        cmocka_unit_test(refuses_a_known_field_with_a_foreign_wire_type),
        cmocka_unit_test(knows_packed_and_unpacked_numbers),
        cmocka_unit_test(knows_packed_varints),
        cmocka_unit_test(bounds_the_depth_of_values_at_the_limit),
        cmocka_unit_test(has_room_for_the_deepest_limit_and_a_bound_of_its_own),
        cmocka_unit_test(counts_depth_per_branch),
        cmocka_unit_test(depth_in_unknown_fields_is_only_bytes),
        cmocka_unit_test(names_the_path_of_what_is_bad),
        cmocka_unit_test(judges_the_shared_cases),
        cmocka_unit_test(agrees_with_protobuf_c_on_every_prefix_and_every_broken_byte),
        cmocka_unit_test(agrees_with_protobuf_c_on_noise),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
