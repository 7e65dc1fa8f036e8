/* OTLP/JSON as a whole: random trees, written as JSON by this test, come back equal to what
 * protobuf-c packs, byte for byte; damaged bodies and spent budgets are met cleanly; and the shared
 * cases have their right answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_fixture.h"
#include "random.h"
#include "shared_case.h"

/* ---- random trees against protobuf-c ---- */

static void *room(size_t n)
{
    void *p = arena_zalloc(&jfx.arena, 1, n);

    assert_non_null(p);
    return p;
}

static double random_double(void)
{
    static const double special[] = {0, 1, -1.5, 1e300, 4.9e-324, INFINITY, -INFINITY, 0.1};
    uint64_t bits = random_u64();
    double d;

    if (random_below(3) == 0)
        return special[random_below(8)];
    memcpy(&d, &bits, sizeof(d));
    return isnan(d) ? NAN : d;
}

static ProtobufCBinaryData random_bytes(size_t n)
{
    ProtobufCBinaryData b = {n, n > 0 ? room(n) : NULL};

    for (size_t i = 0; i < n; i++)
        b.data[i] = (uint8_t)random_u64();
    return b;
}

static bool is_field(const ProtobufCMessageDescriptor *d, const ProtobufCFieldDescriptor *f,
                     const char *message, const char *field)
{
    return strcmp(d->short_name, message) == 0 && strcmp(f->name, field) == 0;
}

static ProtobufCMessage *random_message(const ProtobufCMessageDescriptor *d, unsigned depth);

/* Write a random value of f at p. */
static void random_member(const ProtobufCMessageDescriptor *d, const ProtobufCFieldDescriptor *f,
                          void *p, unsigned depth)
{
    uint64_t u = random_below(2) ? random_u64() : random_below(10);
    uint32_t u32 = (uint32_t)(u >> 7);
    double v = random_double();
    ProtobufCBinaryData b;
    ProtobufCMessage *m;

    switch (f->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        m = random_message(f->descriptor, depth + 1);
        memcpy(p, &m, sizeof(m));
        break;
    case PROTOBUF_C_TYPE_BYTES:
        if (is_field(d, f, "Exemplar", "trace_id"))
            b = random_bytes(random_below(2) * 16);
        else if (is_field(d, f, "Exemplar", "span_id"))
            b = random_bytes(random_below(2) * 8);
        else
            b = random_bytes(random_below(24));
        memcpy(p, &b, sizeof(b));
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        memcpy(p, &v, 8);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)p = (protobuf_c_boolean)(u & 1);
        break;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_ENUM:
        memcpy(p, &u32, 4);
        break;
    default:
        memcpy(p, &u, 8);
        break;
    }
}

static size_t member_size(const ProtobufCFieldDescriptor *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_BOOL:
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_ENUM:
        return 4;
    default:
        return 8;
    }
}

static ProtobufCMessage *random_message(const ProtobufCMessageDescriptor *d, unsigned depth)
{
    ProtobufCMessage *m = room(d->sizeof_message);

    protobuf_c_message_init(d, m);
    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &d->fields[i];
        char *at = (char *)m + f->offset;
        char *quantifier = (char *)m + f->quantifier_offset;

        if (f->type == PROTOBUF_C_TYPE_MESSAGE && depth > 9 + random_below(8))
            continue;
        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            size_t n = depth < 5 ? 1 + random_below(2) : random_below(6);
            char *list = room(n * member_size(f) + 1);

            for (size_t k = 0; k < n; k++)
                random_member(d, f, list + k * member_size(f), depth);
            memcpy(quantifier, &n, sizeof(n));
            memcpy(at, &list, sizeof(list));
        } else if ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0) {
            uint32_t which;

            memcpy(&which, quantifier, sizeof(which));
            if (which != 0 && random_below(2))
                continue; /* keep the earlier member */
            memset(at, 0, 4);
            memcpy(quantifier, &f->id, sizeof(f->id));
            random_member(d, f, at, depth);
        } else if (random_below(4) > 0) {
            random_member(d, f, at, depth);
        }
    }
    return m;
}

/* The JSON of a tree, written by the rules of ProtoJSON without a look at the decoder. */
static void write_message(struct buf *o, const ProtobufCMessage *m);

static void write_key(struct buf *o, const char *name)
{
    bool upper = false;

    buf_add_char(o, '"');
    for (; *name != '\0'; name++) {
        if (*name == '_') {
            upper = true;
            continue;
        }
        if (random_below(20) == 0)
            buf_printf(o, "\\u%04x", upper ? *name - 32 : *name);
        else
            buf_add_char(o, upper ? (char)(*name - 32) : *name);
        upper = false;
    }
    buf_add_str(o, "\":");
}

static void write_string(struct buf *o, ProtobufCBinaryData b)
{
    buf_add_char(o, '"');
    for (size_t i = 0; i < b.len; i++) {
        uint8_t c = b.data[i];

        if (c < 0x20 || c == '"' || c == '\\' || (c < 0x80 && random_below(5) == 0))
            buf_printf(o, random_below(2) ? "\\u%04x" : "\\u%04X", c);
        else
            buf_add_char(o, (char)c);
    }
    buf_add_char(o, '"');
}

static void write_bytes(struct buf *o, const ProtobufCMessageDescriptor *d,
                        const ProtobufCFieldDescriptor *f, ProtobufCBinaryData b)
{
    bool hex = is_field(d, f, "Exemplar", "trace_id") || is_field(d, f, "Exemplar", "span_id");

    if (!hex && !is_field(d, f, "AnyValue", "bytes_value")) {
        write_string(o, b);
        return;
    }
    buf_add_char(o, '"');
    if (hex)
        buf_add_hex(o, bytes_of(b.data, b.len));
    else
        buf_add_base64(o, bytes_of(b.data, b.len));
    buf_add_char(o, '"');
}

static void write_double(struct buf *o, double d)
{
    if (isnan(d))
        buf_add_str(o, "\"NaN\"");
    else if (isinf(d))
        buf_add_str(o, d > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    else
        buf_printf(o, random_below(4) ? "%.17g" : "\"%.17g\"", d);
}

static void write_member(struct buf *o, const ProtobufCMessageDescriptor *d,
                         const ProtobufCFieldDescriptor *f, const void *p)
{
    const char *quote = random_below(2) ? "\"" : "";

    switch (f->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        write_message(o, *(ProtobufCMessage *const *)p);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        write_bytes(o, d, f, *(const ProtobufCBinaryData *)p);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        write_double(o, *(const double *)p);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        buf_add_str(o, *(const protobuf_c_boolean *)p ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_ENUM:
        buf_printf(o, "%s%d%s", quote, *(const int32_t *)p, quote);
        break;
    case PROTOBUF_C_TYPE_UINT32:
        buf_printf(o, "%s%u%s", quote, *(const uint32_t *)p, quote);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        buf_printf(o, "%s%lld%s", quote, (long long)*(const int64_t *)p, quote);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        buf_printf(o, "%s%llu%s", quote, (unsigned long long)*(const uint64_t *)p, quote);
        break;
    default:
        fail_msg("no JSON for type %d", (int)f->type);
    }
}

static void write_message(struct buf *o, const ProtobufCMessage *m)
{
    const ProtobufCMessageDescriptor *d = m->descriptor;
    const char *comma = "";

    buf_add_char(o, '{');
    if (random_below(8) == 0) {
        buf_add_str(o, "\"new\":[{\"key\":null},\"]\"]");
        comma = ",";
    }
    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &d->fields[i];
        const char *at = (const char *)m + f->offset;
        const char *quantifier = (const char *)m + f->quantifier_offset;
        uint32_t which;

        if ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0) {
            memcpy(&which, quantifier, sizeof(which));
            if (which != f->id)
                continue;
        } else if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            size_t n;
            const char *list;

            memcpy(&n, quantifier, sizeof(n));
            memcpy(&list, at, sizeof(list));
            buf_add_str(o, comma);
            write_key(o, f->name);
            for (size_t k = 0; k < n; k++) {
                buf_add_char(o, k == 0 ? '[' : ',');
                write_member(o, d, f, list + k * member_size(f));
            }
            buf_add_str(o, n == 0 ? "[]" : "]");
            comma = ",";
            continue;
        } else if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
            const void *child;

            memcpy(&child, at, sizeof(child));
            if (child == NULL)
                continue;
        }
        buf_add_str(o, comma);
        write_key(o, f->name);
        write_member(o, d, f, at);
        comma = ",";
    }
    buf_add_char(o, '}');
}

static struct bytes packed(const ProtobufCMessage *m)
{
    size_t n = protobuf_c_message_get_packed_size(m);
    uint8_t *p = room(n + 1);

    assert_int_equal(protobuf_c_message_pack(m, p), n);
    return bytes_of(p, n);
}

static void any_tree_comes_back_equal(void **state)
{
    struct buf json = {0};

    (void)state;
    for (int i = 0; i < 300; i++) {
        ProtobufCMessage *want;
        otlp_request *got;

        arena_reset(&jfx.arena, 64 << 20);
        want = random_message(&otlp__export_metrics_service_request__descriptor, 0);
        buf_reset(&json);
        write_message(&json, want);
        assert_false(json.failed);
        if (jfx_decode(buf_bytes(&json), &got) != OTL_OK)
            fail_msg("%s", jfx.err.msg);
        assert_true(bytes_equal(packed(want), packed(&got->base)));
        assert_int_equal(jfx_warnings(), 0);
    }
    buf_fini(&json);
}

/* ---- damaged bodies ---- */

static const char GOOD[] =
    "{\"resourceMetrics\": [{\"resource\": {\"attributes\": [{\"key\": \"service.name\", "
    "\"value\": "
    "{\"stringValue\": \"k\\u0069ln\"}}]}, \"scopeMetrics\": [{\"scope\": {\"name\": \"case\"}, "
    "\"metrics\": [{\"name\": \"g\", \"gauge\": {\"dataPoints\": [{\"timeUnixNano\": "
    "\"1790000000000000000\", \"asDouble\": 1.5, \"exemplars\":[{\"spanId\":\"eee19b7ec3c1b174\","
    "\"asInt\":1}], \"attributes\":[{\"key\":\"a\",\"value\":{\"arrayValue\":{\"values\":[{},"
    "{\"bytesValue\":\"AAEC\"},{\"intValue\":1e21}]}}}]}]}}, {\"histogram\":{\"dataPoints\":["
    "{\"bucketCounts\":[\"1\",2,1e0],\"explicitBounds\":[0.5,\"Infinity\"],\"sum\":null}]}}]}]}]}";

static void every_prefix_is_refused(void **state)
{
    otlp_request *m;

    (void)state;
    assert_int_equal(jfx_decode(bytes_str(GOOD), &m), OTL_OK);
    for (size_t n = 0; n < sizeof(GOOD) - 1; n++) {
        struct guarded g = guarded_copy(bytes_of(GOOD, n));

        assert_int_equal(jfx_decode(g.b, &m), OTL_EBADDATA);
        assert_null(m);
        guarded_free(&g);
    }
}

static void damage_never_harms(void **state)
{
    static const char likely[] = "{}[]\",:\\0123456789eE+-.utfn \x01\x80\xff";
    char s[sizeof(GOOD)];
    unsigned taken = 0, refused = 0;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        otlp_request *m;
        struct guarded g;
        enum otl_err rc;

        memcpy(s, GOOD, sizeof(GOOD));
        for (unsigned k = 1 + random_below(3); k > 0; k--)
            s[random_below(sizeof(GOOD) - 1)] = likely[random_below(sizeof(likely))];
        arena_reset(&jfx.arena, 1 << 20);
        g = guarded_copy(bytes_of(s, sizeof(GOOD) - 1));
        rc = jfx_decode(g.b, &m);
        if (rc == OTL_OK) {
            (void)packed(&m->base); /* walks all that was built */
            taken++;
        } else {
            assert_int_equal(rc, OTL_EBADDATA);
            assert_true(utf8_valid(bytes_str(jfx.err.msg)));
            refused++;
        }
        guarded_free(&g);
    }
    assert_true(taken > 500 && refused > 500);
}

/* Whatever allocation fails, the answer is the same and nothing else happens. */
static void any_budget_is_met_cleanly(void **state)
{
    otlp_request *m;
    size_t budget = 0;

    (void)state;
    for (;; budget += 16) {
        arena_fini(&jfx.arena);
        arena_init(&jfx.arena, budget);
        if (jfx_decode(bytes_str(GOOD), &m) == OTL_OK)
            break;
        assert_int_equal(jfx.err.code, OTL_ETOOBIG);
        assert_null(m);
    }
    assert_true(budget > 500 && budget < 8 * sizeof(GOOD));
}

/* ---- shared cases ---- */

static const char *const CASES_GOOD[] = {
    "good.json",          "s07-int-forms.json",    "s08-temporality.json",
    "s09-unknown.json",   "s10-empty-object.json", "s11-deep-20.json",
    "s17-mixed.json",     "s17-no-buckets.json",   "s18-stale.json",
    "s20-nonfinite.json", "s20-null.json"};

static const char *const CASES_BAD[] = {"s08-enum-name.json",
                                        "s10-array-for-object.json",
                                        "s10-bad-escape.json",
                                        "s10-bad-number.json",
                                        "s10-bom.json",
                                        "s10-empty-name-colon.json",
                                        "s10-nested-colon.json",
                                        "s10-top-array.json",
                                        "s10-top-null.json",
                                        "s10-top-string.json",
                                        "s10-trailing.json",
                                        "s10-truncated.json",
                                        "s10-whitespace-only.json",
                                        "s11-deep-20000.json",
                                        "s11-deep-unknown.json",
                                        "s20-bare-nan.json"};

/* The recorded requests of the JavaScript SDK. */
static const char *const PAYLOADS[] = {
    "../payloads/08-metrics-json.json", "../payloads/09-metrics-json.json",
    "../payloads/10-metrics-json.json", "../payloads/11-metrics-json.json"};

static void shared_cases_have_their_right_answers(void **state)
{
    struct buf b = {0};
    otlp_request *m;

    (void)state;
    if (!shared_case("good.json", &b)) {
        buf_fini(&b);
        skip();
    }
    for (size_t i = 0; i < sizeof(CASES_GOOD) / sizeof(CASES_GOOD[0]); i++) {
        assert_true(shared_case(CASES_GOOD[i], &b));
        if (jfx_decode(buf_bytes(&b), &m) != OTL_OK)
            fail_msg("%s: %s", CASES_GOOD[i], jfx.err.msg);
        assert_int_equal(jfx_warnings(), 0);
    }
    for (size_t i = 0; i < sizeof(CASES_BAD) / sizeof(CASES_BAD[0]); i++) {
        assert_true(shared_case(CASES_BAD[i], &b));
        if (jfx_decode(buf_bytes(&b), &m) != OTL_EBADDATA)
            fail_msg("%s was taken", CASES_BAD[i]);
    }
    for (size_t i = 0; i < sizeof(PAYLOADS) / sizeof(PAYLOADS[0]); i++) {
        assert_true(shared_case(PAYLOADS[i], &b));
        if (jfx_decode(buf_bytes(&b), &m) != OTL_OK)
            fail_msg("%s: %s", PAYLOADS[i], jfx.err.msg);
        assert_int_equal(jfx_warnings(), 0);
        assert_true(m->resource_metrics[0]->scope_metrics[0]->n_metrics >= 4);
    }
    buf_fini(&b);
}

static void shared_cases_keep_their_numbers(void **state)
{
    static const int64_t ints[] = {42, 42, INT64_MIN, 9007199254740993};
    struct buf b = {0};
    Otlp__ScopeMetrics *sm;
    Otlp__HistogramDataPoint *h;
    Otlp__Gauge *g;
    otlp_request *m;

    (void)state;
    if (!shared_case("s07-int-forms.json", &b)) {
        buf_fini(&b);
        skip();
    }
    assert_int_equal(jfx_decode(buf_bytes(&b), &m), OTL_OK);
    sm = m->resource_metrics[0]->scope_metrics[0];
    for (size_t i = 0; i < 4; i++)
        assert_true(sm->metrics[0]->gauge->data_points[i]->as_int == ints[i]);
    h = sm->metrics[1]->histogram->data_points[0];
    assert_int_equal(h->count, 6);
    assert_int_equal(h->n_bucket_counts, 3);
    assert_int_equal(h->bucket_counts[0] * 100 + h->bucket_counts[1] * 10 + h->bucket_counts[2],
                     123);
    assert_true(h->explicit_bounds[1] == 2.5);
    assert_true(h->start_time_unix_nano == 1789999940000000000u);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(h->attributes[i]->value->value_case, OTLP__ANY_VALUE__VALUE_INT_VALUE);
        assert_int_equal(h->attributes[i]->value->int_value, 7);
    }

    assert_true(shared_case("s09-unknown.json", &b));
    assert_int_equal(jfx_decode(buf_bytes(&b), &m), OTL_OK);
    g = m->resource_metrics[0]->scope_metrics[0]->metrics[0]->gauge;
    assert_int_equal(g->n_data_points, 1);
    assert_true(g->data_points[0]->as_double == 2.5);
    assert_true(g->data_points[0]->time_unix_nano == 1790000000000000000u);

    assert_true(shared_case("s20-null.json", &b));
    assert_int_equal(jfx_decode(buf_bytes(&b), &m), OTL_OK);
    g = m->resource_metrics[0]->scope_metrics[0]->metrics[0]->gauge;
    assert_int_equal(g->data_points[0]->value_case, OTLP__NUMBER_DATA_POINT__VALUE__NOT_SET);
    assert_true(g->data_points[1]->as_double == 3.5);
    assert_int_equal(g->data_points[1]->attributes[0]->value->value_case,
                     OTLP__ANY_VALUE__VALUE__NOT_SET);
    assert_true(g->data_points[2]->as_double == 4.5);
    buf_fini(&b);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, jfx_setup, jfx_teardown)
    const struct CMUnitTest tests[] = {
        CASE(any_tree_comes_back_equal),
        CASE(every_prefix_is_refused),
        CASE(damage_never_harms),
        CASE(any_budget_is_met_cleanly),
        CASE(shared_cases_have_their_right_answers),
        CASE(shared_cases_keep_their_numbers),
    };

    return cmocka_run_group_tests_name("decode_json_trees", tests, NULL, NULL);
}
