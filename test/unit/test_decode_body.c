/* decode_body: one way from a body to a batch, whichever the encoding. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "otlite/decode.h"
#include "pbwrite.h"
#include "shared_case.h"

static const int64_t NOW = INT64_C(1790000000000000000);

static struct otl_error err;
static struct arena arena;
static struct batch batch;

static int fresh(void **state)
{
    (void)state;
    arena_init(&arena, 1 << 20);
    memset(&err, 0, sizeof(err));
    memset(&batch, 0, sizeof(batch));
    return 0;
}

static int done(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

static enum otl_err decode(enum encoding encoding, struct bytes body)
{
    return decode_body(encoding, body, &decode_limits_default, NOW, &arena, &batch, &err);
}

static void no_telemetry_is_an_empty_batch(void **state)
{
    (void)state;
    assert_int_equal(decode(ENCODING_PROTOBUF, bytes_of(NULL, 0)), OTL_OK);
    assert_int_equal(batch.received, 0);
    assert_int_equal(batch.n_resources, 0);
    assert_int_equal(decode(ENCODING_JSON, bytes_str("{}")), OTL_OK);
    assert_int_equal(batch.received, 0);
    /* Zero bytes are a message but not JSON (H-32). */
    assert_int_equal(decode(ENCODING_JSON, bytes_of(NULL, 0)), OTL_EBADDATA);
}

static void both_encodings_give_one_batch(void **state)
{
    static const char *const files[] = {"good.bin", "good.json"};
    struct buf b = {0};

    (void)state;
    for (int i = 0; i < 2; i++) {
        if (!shared_case(files[i], &b)) {
            buf_fini(&b);
            skip();
        }
        assert_int_equal(decode(i == 0 ? ENCODING_PROTOBUF : ENCODING_JSON, buf_bytes(&b)), OTL_OK);
        assert_int_equal(batch.received, 1);
        assert_int_equal(batch_rejected(&batch), 0);
        assert_int_equal(batch.n_resources, 1);
        assert_int_equal(batch.n_scopes, 1);
        assert_int_equal(batch.n_metrics, 1);
        assert_int_equal(batch.n_numbers, 1);
        assert_true(bytes_equal(batch.resources[0].service_name, bytes_str("kiln")));
        assert_true(bytes_equal(batch.scopes[0].name, bytes_str("case")));
        assert_true(bytes_equal(batch.metrics[0].name, bytes_str("good.value")));
        assert_int_equal(batch.metrics[0].type, METRIC_GAUGE);
        assert_true(batch.numbers[0].p.time == NOW);
        assert_int_equal(batch.numbers[0].value.kind, VALUE_DOUBLE);
        assert_true(batch.numbers[0].value.u.d == 1.5);
    }
    buf_fini(&b);
}

static void each_encoding_refuses_the_other(void **state)
{
    struct buf b = {0};

    (void)state;
    pb_fixed64(&b, 3, 1);
    pb_gauge_request(&b, "g");
    assert_int_equal(decode(ENCODING_JSON, buf_bytes(&b)), OTL_EBADDATA);
    assert_int_equal(decode(ENCODING_PROTOBUF, bytes_str("{\"resourceMetrics\":[]}")),
                     OTL_EBADDATA);
    assert_true(strlen(err.msg) > 0);
    buf_fini(&b);
}

/* The same limit, counted the same way, in both. */
static void both_encodings_bound_the_depth_alike(void **state)
{
    (void)state;
    for (unsigned depth = 63; depth <= 66; depth++) {
        enum otl_err want = depth <= 64 ? OTL_OK : OTL_EBADDATA;
        struct buf b = {0};

        /* depth arrays, the innermost around an empty value */
        for (unsigned i = 0; i < depth; i++) {
            pb_wrap(&b, 1);
            pb_wrap(&b, 5);
        }
        pb_wrap(&b, 2);
        pb_wrap(&b, 7);
        pb_fixed64(&b, 3, (uint64_t)NOW);
        pb_double(&b, 4, 1);
        pb_gauge_request(&b, "deep");
        assert_int_equal(decode(ENCODING_PROTOBUF, buf_bytes(&b)), want);
        buf_reset(&b);
        buf_add_str(&b, "{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":[{\"name\":\"deep\","
                        "\"gauge\":{\"dataPoints\":[{\"timeUnixNano\":\"1790000000000000000\","
                        "\"asDouble\":1,\"attributes\":[{\"key\":\"k\",\"value\":");
        for (unsigned i = 0; i < depth; i++)
            buf_add_str(&b, "{\"arrayValue\":{\"values\":[");
        buf_add_str(&b, "{}");
        for (unsigned i = 0; i < depth; i++)
            buf_add_str(&b, "]}}");
        buf_add_str(&b, "}]}]}}]}]}]}");
        assert_int_equal(decode(ENCODING_JSON, buf_bytes(&b)), want);
        assert_true(want == OTL_OK || strlen(err.field) > 0);
        buf_fini(&b);
    }
}

static void bad_ids_are_dropped_and_the_exemplar_kept_in_both_encodings(void **state)
{
    struct buf b = {0};

    (void)state;
    for (int i = 0; i < 2; i++) {
        if (i == 0) {
            pb_str(&b, 5, "fifteen bytes..");
            pb_str(&b, 4, "seven..");
            pb_fixed64(&b, 6, 7);
            pb_wrap(&b, 5);
            pb_fixed64(&b, 3, (uint64_t)NOW);
            pb_double(&b, 4, 1);
            pb_gauge_request(&b, "m");
        } else {
            buf_reset(&b);
            buf_add_str(&b,
                        "{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":[{\"name\":\"m\","
                        "\"gauge\":{\"dataPoints\":[{\"timeUnixNano\":\"1790000000000000000\","
                        "\"asDouble\":1,\"exemplars\":[{\"asInt\":7,"
                        "\"traceId\":\"sixteen letters.\",\"spanId\":\"letters8\"}]}]}}]}]}]}");
        }
        assert_int_equal(decode(i == 0 ? ENCODING_PROTOBUF : ENCODING_JSON, buf_bytes(&b)), OTL_OK);
        assert_int_equal(batch.n_numbers, 1);
        assert_int_equal(batch.n_exemplars, 1);
        assert_true(batch.exemplars[0].value.u.i == 7);
        assert_false(batch.exemplars[0].has_trace_id || batch.exemplars[0].has_span_id);
        assert_int_equal(batch.warnings[WARN_EXEMPLAR], 2);
        assert_true(bytes_equal(batch.warning_example[WARN_EXEMPLAR], bytes_str("m")));
    }
    buf_fini(&b);
}

static void every_budget_too_small_is_refused_cleanly(void **state)
{
    static const char *const files[] = {"s14-split.hex", "s17-mixed.json"};
    struct buf b = {0};

    (void)state;
    for (int i = 0; i < 2; i++) {
        enum encoding encoding = i == 0 ? ENCODING_PROTOBUF : ENCODING_JSON;
        size_t need;

        if (!shared_case(files[i], &b)) {
            buf_fini(&b);
            skip();
        }
        arena_reset(&arena, 1 << 20);
        assert_int_equal(decode(encoding, buf_bytes(&b)), OTL_OK);
        need = arena.used;
        for (size_t budget = 0; budget < need; budget += 16) {
            arena_reset(&arena, budget);
            assert_int_equal(decode(encoding, buf_bytes(&b)), OTL_ETOOBIG);
            assert_int_equal(err.code, OTL_ETOOBIG);
        }
        arena_reset(&arena, need);
        assert_int_equal(decode(encoding, buf_bytes(&b)), OTL_OK);
    }
    buf_fini(&b);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, fresh, done)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(no_telemetry_is_an_empty_batch),
        CASE(both_encodings_give_one_batch),
        CASE(each_encoding_refuses_the_other),
        CASE(both_encodings_bound_the_depth_alike),
        CASE(bad_ids_are_dropped_and_the_exemplar_kept_in_both_encodings),
        CASE(every_budget_too_small_is_refused_cleanly),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
