/* OTLP/JSON to the message tree: rules J-1 to J-25 one by one. */
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

static otlp_request *good(const char *body)
{
    otlp_request *m;

    if (jfx_decode(bytes_str(body), &m) != OTL_OK)
        fail_msg("refused: %s (%s)", jfx.err.msg, body);
    return m;
}

/* Refused with 400, and the path of the field. */
static void bad(const char *body, const char *field)
{
    otlp_request *m;
    enum otl_err rc = jfx_decode(bytes_str(body), &m);

    if (rc != OTL_EBADDATA)
        fail_msg("rc %d for %s", (int)rc, body);
    assert_int_equal(jfx.err.code, OTL_EBADDATA);
    assert_null(m);
    assert_true(jfx.err.msg[0] != '\0');
    if (field != NULL)
        assert_string_equal(jfx.err.field, field);
}

#define METRIC_HEAD "{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":["
#define METRIC_TAIL "]}]}]}"
#define METRIC_PATH "resourceMetrics[0].scopeMetrics[0].metrics[0]"

static const char *in_metric(const char *metric)
{
    static char s[8192];

    snprintf(s, sizeof(s), METRIC_HEAD "%s" METRIC_TAIL, metric);
    return s;
}

/* A gauge, sum, histogram or exponentialHistogram with these points. */
static const char *in_points(const char *kind, const char *points)
{
    static char s[8192];

    snprintf(s, sizeof(s), METRIC_HEAD "{\"%s\":{\"dataPoints\":[%s]}}" METRIC_TAIL, kind, points);
    return s;
}

static const char *in_attribute(const char *value)
{
    char s[512];

    assert_true((size_t)snprintf(s, sizeof(s), "{\"attributes\":[{\"key\":\"k\",\"value\":%s}]}",
                                 value) < sizeof(s));
    return in_points("gauge", s);
}

static Otlp__Metric *metric_of(const otlp_request *m)
{
    return m->resource_metrics[0]->scope_metrics[0]->metrics[0];
}

static Otlp__NumberDataPoint *point(const char *json)
{
    Otlp__Gauge *g = metric_of(good(in_points("gauge", json)))->gauge;

    assert_int_equal(g->n_data_points, 1);
    return g->data_points[0];
}

static Otlp__HistogramDataPoint *histogram_point(const char *json)
{
    return metric_of(good(in_points("histogram", json)))->histogram->data_points[0];
}

static Otlp__AnyValue *attribute(const char *value)
{
    return metric_of(good(in_attribute(value)))->gauge->data_points[0]->attributes[0]->value;
}

static bool defective(const void *p)
{
    enum reject_reason why = REJECT_COUNT_OF_REASONS;

    if (!message_defect(p, &why))
        return false;
    assert_int_equal(why, REJECT_VALUE);
    return true;
}

static void assert_bytes(ProtobufCBinaryData got, const char *want)
{
    assert_int_equal(got.len, strlen(want));
    if (got.len > 0)
        assert_memory_equal(got.data, want, got.len);
}

/* ---- keys ---- */

static void reads_the_whole_request(void **state)
{
    otlp_request *m = good(
        "{\"resourceMetrics\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":"
        "{\"stringValue\":\"kiln\"}}],\"droppedAttributesCount\":3,\"entityRefs\":[{\"schemaUrl\":"
        "\"s\",\"type\":\"t\",\"idKeys\":[\"service.name\"],\"descriptionKeys\":[\"a\",\"b\"]}]},"
        "\"schemaUrl\":\"r\",\"scopeMetrics\":[{\"scope\":{\"name\":\"lib\",\"version\":\"1.2\","
        "\"attributes\":[],\"droppedAttributesCount\":1},\"schemaUrl\":\"u\",\"metrics\":["
        "{\"name\":\"n\",\"description\":\"d\",\"unit\":\"By\",\"metadata\":[{\"key\":\"m\"}],"
        "\"sum\":{\"aggregationTemporality\":2,\"isMonotonic\":true,\"dataPoints\":["
        "{\"startTimeUnixNano\":\"5\",\"timeUnixNano\":\"1790000000000000000\",\"asInt\":\"-7\","
        "\"flags\":1,\"exemplars\":[{\"timeUnixNano\":9,\"asDouble\":0.5,"
        "\"traceId\":\"5B8EFFF798038103D269B633813FC60C\",\"spanId\":\"eee19b7ec3c1b174\","
        "\"filteredAttributes\":[{\"key\":\"f\",\"value\":{\"boolValue\":false}}]}]}]}}]}]}]}");
    Otlp__ResourceMetrics *rm = m->resource_metrics[0];
    Otlp__ScopeMetrics *sm = rm->scope_metrics[0];
    Otlp__Metric *metric = sm->metrics[0];
    Otlp__NumberDataPoint *p = metric->sum->data_points[0];
    Otlp__Exemplar *e = p->exemplars[0];
    static const uint8_t trace[16] = {0x5b, 0x8e, 0xff, 0xf7, 0x98, 0x03, 0x81, 0x03,
                                      0xd2, 0x69, 0xb6, 0x33, 0x81, 0x3f, 0xc6, 0x0c};
    static const uint8_t span[8] = {0xee, 0xe1, 0x9b, 0x7e, 0xc3, 0xc1, 0xb1, 0x74};

    (void)state;
    assert_int_equal(m->n_resource_metrics, 1);
    assert_bytes(rm->schema_url, "r");
    assert_bytes(rm->resource->attributes[0]->key, "service.name");
    assert_bytes(rm->resource->attributes[0]->value->string_value, "kiln");
    assert_int_equal(rm->resource->dropped_attributes_count, 3);
    assert_int_equal(rm->resource->n_entity_refs, 1);
    assert_bytes(rm->resource->entity_refs[0]->type, "t");
    assert_int_equal(rm->resource->entity_refs[0]->n_description_keys, 2);
    assert_bytes(rm->resource->entity_refs[0]->description_keys[1], "b");
    assert_bytes(sm->scope->version, "1.2");
    assert_int_equal(sm->scope->n_attributes, 0);
    assert_null(sm->scope->attributes);
    assert_int_equal(sm->scope->dropped_attributes_count, 1);
    assert_bytes(metric->unit, "By");
    assert_bytes(metric->metadata[0]->key, "m");
    assert_null(metric->metadata[0]->value);
    assert_int_equal(metric->data_case, OTLP__METRIC__DATA_SUM);
    assert_int_equal(metric->sum->aggregation_temporality, 2);
    assert_true(metric->sum->is_monotonic);
    assert_int_equal(p->start_time_unix_nano, 5);
    assert_true(p->time_unix_nano == 1790000000000000000u);
    assert_int_equal(p->value_case, OTLP__NUMBER_DATA_POINT__VALUE_AS_INT);
    assert_true(p->as_int == -7);
    assert_int_equal(p->flags, 1);
    assert_int_equal(e->value_case, OTLP__EXEMPLAR__VALUE_AS_DOUBLE);
    assert_int_equal(e->trace_id.len, 16);
    assert_memory_equal(e->trace_id.data, trace, 16);
    assert_int_equal(e->span_id.len, 8);
    assert_memory_equal(e->span_id.data, span, 8);
    assert_int_equal(e->filtered_attributes[0]->value->value_case,
                     OTLP__ANY_VALUE__VALUE_BOOL_VALUE);
    assert_int_equal(jfx_warnings(), 0);
    assert_false(defective(p));
}

static void snake_case_keys_are_unknown_and_noted(void **state)
{
    otlp_request *m = good("{\"resource_metrics\":[{}],\"resource_metric\":1,\"other_key\":2}");

    (void)state;
    assert_int_equal(m->n_resource_metrics, 0);
    assert_int_equal(jfx.notes.warnings[WARN_UNKNOWN_KEY], 1);
    assert_true(bytes_equal(jfx.notes.example[WARN_UNKNOWN_KEY], bytes_str("resource_metrics")));
    jfx.limits.accept_snake_case = true;
    m = good("{\"resource_metrics\":[{\"schema_url\":\"x\"}]}");
    assert_int_equal(m->n_resource_metrics, 1);
    assert_bytes(m->resource_metrics[0]->schema_url, "x");
    assert_int_equal(jfx_warnings(), 0);
}

static void unknown_keys_are_skipped_but_still_checked(void **state)
{
    (void)state;
    assert_int_equal(good("{\"a\":1,\"\":\"x\",\"b\":[[{}]],\"c\":{\"resourceMetrics\":[{}]},"
                          "\"instrumentationLibraryMetrics\":[null],\"ResourceMetrics\":7}")
                         ->n_resource_metrics,
                     0);
    assert_int_equal(jfx_warnings(), 0);
    bad("{\"resourceMetrics\":[{\"mystery\":{\"\":}}]}", "resourceMetrics[0]");
    bad("{\"a\":[1,]}", "");
}

static void escaped_keys_are_the_same_keys(void **state)
{
    (void)state;
    assert_int_equal(good("{\"\\u0072esource\\u004detrics\":[{}]}")->n_resource_metrics, 1);
}

static void the_last_duplicate_wins(void **state)
{
    otlp_request *m = good("{\"resourceMetrics\":[{},{}],\"resourceMetrics\":[{\"schemaUrl\":\"a\","
                           "\"resource\":{\"droppedAttributesCount\":1},\"schemaUrl\":\"b\","
                           "\"resource\":{}}]}");
    Otlp__NumberDataPoint *p;

    (void)state;
    assert_int_equal(m->n_resource_metrics, 1);
    assert_bytes(m->resource_metrics[0]->schema_url, "b");
    assert_int_equal(m->resource_metrics[0]->resource->dropped_attributes_count, 0);
    p = point("{\"timeUnixNano\":1,\"timeUnixNano\":2,\"timeUnixNano\":null}");
    assert_int_equal(p->time_unix_nano, 0);
    assert_null(good("{\"resourceMetrics\":[{}],\"resourceMetrics\":null}")->resource_metrics);
}

static void the_last_oneof_member_wins(void **state)
{
    Otlp__NumberDataPoint *p = point("{\"asInt\":1,\"asDouble\":2.5}");
    Otlp__Metric *metric;

    (void)state;
    assert_int_equal(p->value_case, OTLP__NUMBER_DATA_POINT__VALUE_AS_DOUBLE);
    assert_true(p->as_double == 2.5);
    p = point("{\"asDouble\":2.5,\"asInt\":0}");
    assert_int_equal(p->value_case, OTLP__NUMBER_DATA_POINT__VALUE_AS_INT);
    assert_true(p->as_int == 0);
    metric = metric_of(good(in_metric("{\"sum\":{},\"summary\":{\"dataPoints\":[{}]}}")));
    assert_int_equal(metric->data_case, OTLP__METRIC__DATA_SUMMARY);
    assert_int_equal(metric->summary->n_data_points, 1);
}

static void null_means_unset(void **state)
{
    Otlp__NumberDataPoint *p =
        point("{\"asInt\":null,\"asDouble\":4.5,\"flags\":null,\"exemplars\":"
              "null,\"attributes\":null,\"timeUnixNano\":null}");
    Otlp__HistogramDataPoint *h;
    otlp_request *m;

    (void)state;
    assert_int_equal(p->value_case, OTLP__NUMBER_DATA_POINT__VALUE_AS_DOUBLE);
    assert_int_equal(p->flags, 0);
    assert_int_equal(p->n_exemplars, 0);
    assert_false(defective(p));
    p = point("{\"asDouble\":4.5,\"asInt\":null}");
    assert_int_equal(p->value_case, OTLP__NUMBER_DATA_POINT__VALUE_AS_DOUBLE);
    p = point("{\"asDouble\":null}");
    assert_int_equal(p->value_case, OTLP__NUMBER_DATA_POINT__VALUE__NOT_SET);
    p = point("{\"asDouble\":1,\"asDouble\":null}");
    assert_int_equal(p->value_case, OTLP__NUMBER_DATA_POINT__VALUE__NOT_SET);
    h = histogram_point("{\"sum\":null,\"min\":0,\"max\":null,\"bucketCounts\":null}");
    assert_int_equal(h->opt_sum_case, OTLP__HISTOGRAM_DATA_POINT__OPT_SUM__NOT_SET);
    assert_int_equal(h->opt_min_case, OTLP__HISTOGRAM_DATA_POINT__OPT_MIN_MIN);
    assert_int_equal(h->opt_max_case, OTLP__HISTOGRAM_DATA_POINT__OPT_MAX__NOT_SET);
    assert_int_equal(attribute("{\"doubleValue\":null}")->value_case,
                     OTLP__ANY_VALUE__VALUE__NOT_SET);
    assert_int_equal(attribute("{}")->value_case, OTLP__ANY_VALUE__VALUE__NOT_SET);
    assert_null(attribute("null"));
    m = good(
        "{\"resourceMetrics\":[{\"resource\":null,\"schemaUrl\":null,\"scopeMetrics\":null}]}");
    assert_null(m->resource_metrics[0]->resource);
    assert_int_equal(m->resource_metrics[0]->schema_url.len, 0);
    m = good(in_metric("{\"name\":null,\"gauge\":null,\"sum\":{\"aggregationTemporality\":null,"
                       "\"isMonotonic\":null}}"));
    assert_int_equal(metric_of(m)->data_case, OTLP__METRIC__DATA_SUM);
    assert_int_equal(jfx_warnings(), 0);
}

static void null_elements(void **state)
{
    Otlp__Metric *metric;
    Otlp__AnyValue *v;

    (void)state;
    metric = metric_of(good(in_metric("null,{\"gauge\":{\"dataPoints\":[{},null,{\"attributes\":"
                                      "[null,{\"key\":\"a\"}],\"exemplars\":[null]}]}}")));
    assert_int_equal(metric->gauge->n_data_points, 2);
    assert_int_equal(metric->gauge->data_points[1]->n_attributes, 1);
    assert_int_equal(metric->gauge->data_points[1]->n_exemplars, 0);
    assert_int_equal(jfx.notes.warnings[WARN_NULL_ELEMENT], 4);
    assert_true(bytes_equal(jfx.notes.example[WARN_NULL_ELEMENT], bytes_str(METRIC_PATH)));
    v = attribute("{\"arrayValue\":{\"values\":[null,{\"intValue\":1},{}]}}");
    assert_int_equal(v->array_value->n_values, 3);
    assert_int_equal(v->array_value->values[0]->value_case, OTLP__ANY_VALUE__VALUE__NOT_SET);
    assert_int_equal(v->array_value->values[2]->value_case, OTLP__ANY_VALUE__VALUE__NOT_SET);
    assert_int_equal(jfx_warnings(), 0);
    assert_int_equal(attribute("{\"kvlistValue\":{\"values\":[null]}}")->kvlist_value->n_values, 0);
    assert_int_equal(jfx.notes.warnings[WARN_NULL_ELEMENT], 1);
    assert_true(defective(histogram_point("{\"bucketCounts\":[1,null,2]}")));
    assert_true(defective(histogram_point("{\"explicitBounds\":[null]}")));
}

/* ---- numbers ---- */

static void integers_keep_every_digit(void **state)
{
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {
        {"42", 42},
        {"\"42\"", 42},
        {"9007199254740993", 9007199254740993},
        {"\"9007199254740993\"", 9007199254740993},
        {"-9223372036854775808", INT64_MIN},
        {"\"9223372036854775807\"", INT64_MAX},
        {"1e3", 1000},
        {"1.0", 1},
        {"\"1e3\"", 1000},
        {"\"-1.50e1\"", -15},
        {"-0", 0},
    };
    char s[128];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        Otlp__NumberDataPoint *p;

        snprintf(s, sizeof(s), "{\"asInt\":%s}", cases[i].text);
        p = point(s);
        assert_false(defective(p));
        assert_int_equal(p->value_case, OTLP__NUMBER_DATA_POINT__VALUE_AS_INT);
        assert_true(p->as_int == cases[i].value);
        snprintf(s, sizeof(s), "{\"intValue\":%s}", cases[i].text);
        assert_true(attribute(s)->int_value == cases[i].value);
    }
    assert_true(histogram_point("{\"count\":18446744073709551615}")->count == UINT64_MAX);
    assert_true(histogram_point("{\"count\":\"18446744073709551615\"}")->count == UINT64_MAX);
}

static void a_bad_number_costs_its_point_only(void **state)
{
    static const char *const members[] = {
        "\"asInt\":1.5",
        "\"asInt\":\"1.5\"",
        "\"asInt\":9223372036854775808",
        "\"asInt\":1e400",
        "\"asInt\":\"\"",
        "\"asInt\":\" 1\"",
        "\"asInt\":\"0x10\"",
        "\"asInt\":true",
        "\"asInt\":{\"a\":[1]}",
        "\"asDouble\":1e400",
        "\"asDouble\":\"1e400\"",
        "\"asDouble\":\"\"",
        "\"asDouble\":\"inf\"",
        "\"asDouble\":\"nan\"",
        "\"asDouble\":\"+1\"",
        "\"asDouble\":\"0x1p3\"",
        "\"asDouble\":true",
        "\"asDouble\":[1,[2]]",
        "\"timeUnixNano\":-1",
        "\"timeUnixNano\":{}",
        "\"timeUnixNano\":\"now\"",
        "\"timeUnixNano\":18446744073709551616",
        "\"flags\":4294967296",
        "\"flags\":-1",
        "\"attributes\":[{\"key\":5}]",
        "\"attributes\":[{\"key\":\"k\",\"value\":{\"intValue\":1.5}}]",
        "\"attributes\":[{\"key\":\"k\",\"value\":{\"doubleValue\":1e999}}]",
        "\"attributes\":[{\"key\":\"k\",\"value\":{\"stringValue\":5}}]",
        "\"attributes\":[{\"key\":\"k\",\"value\":{\"boolValue\":\"true\"}}]",
        "\"attributes\":[{\"key\":\"k\",\"value\":{\"bytesValue\":\"*\"}}]"};
    char s[512];

    (void)state;
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        Otlp__Gauge *g;

        snprintf(s, sizeof(s), "{\"asInt\":1},{%s,\"startTimeUnixNano\":3},{\"asInt\":2}",
                 members[i]);
        g = metric_of(good(in_points("gauge", s)))->gauge;
        assert_int_equal(g->n_data_points, 3);
        assert_false(defective(g->data_points[0]));
        if (!defective(g->data_points[1]))
            fail_msg("taken: %s", members[i]);
        /* Reading went on in the right place. */
        assert_int_equal(g->data_points[1]->start_time_unix_nano, 3);
        assert_false(defective(g->data_points[2]));
        assert_true(g->data_points[2]->as_int == 2);
    }
    assert_true(defective(histogram_point("{\"bucketCounts\":[1,-1]}")));
    assert_true(defective(histogram_point("{\"bucketCounts\":[1,[2],\"x\",{\"y\":0}]}")));
    assert_true(defective(histogram_point("{\"explicitBounds\":[1,1e400]}")));
    assert_false(defective(histogram_point("{\"explicitBounds\":[1,\"Infinity\"]}")));
}

static void ranges_of_32_bits_are_checked(void **state)
{
    Otlp__ExponentialHistogramDataPoint *p;

    (void)state;
    p = metric_of(good(in_points("exponentialHistogram",
                                 "{\"scale\":-2147483648,\"positive\":{\"offset\":2147483647,"
                                 "\"bucketCounts\":[\"1\",2]},\"flags\":4294967295}")))
            ->exponential_histogram->data_points[0];
    assert_false(defective(p));
    assert_int_equal(p->scale, INT32_MIN);
    assert_int_equal(p->positive->offset, INT32_MAX);
    assert_int_equal(p->positive->n_bucket_counts, 2);
    assert_true(p->flags == UINT32_MAX);
    assert_null(p->negative);
    p = metric_of(good(in_points("exponentialHistogram", "{\"scale\":2147483648}")))
            ->exponential_histogram->data_points[0];
    assert_true(defective(p));
    p = metric_of(
            good(in_points("exponentialHistogram", "{\"negative\":{\"offset\":-2147483649}}")))
            ->exponential_histogram->data_points[0];
    assert_true(defective(p));
    bad("{\"resourceMetrics\":[{\"resource\":{\"droppedAttributesCount\":-1}}]}",
        "resourceMetrics[0].resource.droppedAttributesCount");
    bad("{\"resourceMetrics\":[{\"resource\":{\"droppedAttributesCount\":4294967296}}]}",
        "resourceMetrics[0].resource.droppedAttributesCount");
}

static void doubles_in_every_form(void **state)
{
    static const struct {
        const char *text;
        double value;
    } cases[] = {
        {"1", 1},         {"\"2.5\"", 2.5},           {"-1.5e-9", -1.5e-9},
        {"-0.0", -0.0},   {"\"Infinity\"", INFINITY}, {"\"-Infinity\"", -INFINITY},
        {"1e308", 1e308}, {"4.9e-324", 4.9e-324},     {"0.1", 0.1},
        {"1e-400", 0},    {"\"1e2\"", 100},           {"9007199254740993", 9007199254740992.0},
        {"\"NaN\"", NAN},
    };
    char s[64];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        Otlp__NumberDataPoint *p;

        snprintf(s, sizeof(s), "{\"asDouble\":%s}", cases[i].text);
        p = point(s);
        assert_false(defective(p));
        assert_int_equal(p->value_case, OTLP__NUMBER_DATA_POINT__VALUE_AS_DOUBLE);
        assert_memory_equal(&p->as_double, &cases[i].value, sizeof(double));
    }
    bad(in_points("gauge", "{\"asDouble\":NaN}"), NULL);
    bad(in_points("gauge", "{\"asDouble\":Infinity}"), NULL);
}

static void a_huge_integer_attribute_becomes_a_double(void **state)
{
    Otlp__AnyValue *v = attribute("{\"intValue\":1e+21}");

    (void)state;
    assert_int_equal(v->value_case, OTLP__ANY_VALUE__VALUE_DOUBLE_VALUE);
    assert_true(v->double_value == 1e21);
    assert_int_equal(jfx.notes.warnings[WARN_INT_AS_DOUBLE], 1);
    v = attribute("{\"intValue\":\"9223372036854775808\"}");
    assert_int_equal(v->value_case, OTLP__ANY_VALUE__VALUE_DOUBLE_VALUE);
    assert_true(v->double_value == 9223372036854775808.0);
    /* Also in the envelope, where the request would be lost otherwise. */
    (void)good("{\"resourceMetrics\":[{\"resource\":{\"attributes\":[{\"key\":\"a\",\"value\":"
               "{\"intValue\":-1e21}}]}}]}");
    assert_int_equal(jfx.notes.warnings[WARN_INT_AS_DOUBLE], 1);
    bad("{\"resourceMetrics\":[{\"resource\":{\"attributes\":[{\"key\":\"a\",\"value\":"
        "{\"intValue\":1e400}}]}}]}",
        "resourceMetrics[0].resource.attributes[0].value.intValue");
}

static void enum_names_are_refused_with_their_number(void **state)
{
    static const char *const taken[] = {"2", "\"2\"", "2.0", "9", "-1"};
    static const int32_t values[] = {2, 2, 2, 9, -1};
    char s[128];

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        snprintf(s, sizeof(s), "{\"sum\":{\"aggregationTemporality\":%s}}", taken[i]);
        assert_int_equal((int32_t)metric_of(good(in_metric(s)))->sum->aggregation_temporality,
                         values[i]);
    }
    bad(in_metric("{\"sum\":{\"aggregationTemporality\":\"AGGREGATION_TEMPORALITY_CUMULATIVE\"}}"),
        METRIC_PATH ".sum.aggregationTemporality");
    assert_string_equal(jfx.err.msg, METRIC_PATH
                        ".sum.aggregationTemporality is the string "
                        "\"AGGREGATION_TEMPORALITY_CUMULATIVE\"; it must be the number 2, for "
                        "names are not OTLP/JSON.");
    bad(in_metric("{},{},{\"histogram\":{\"aggregationTemporality\":\"whatever\"}}"),
        "resourceMetrics[0].scopeMetrics[0].metrics[2].histogram.aggregationTemporality");
    bad(in_metric("{\"sum\":{\"aggregationTemporality\":true}}"),
        METRIC_PATH ".sum.aggregationTemporality");
    bad(in_metric("{\"sum\":{\"aggregationTemporality\":1.5}}"),
        METRIC_PATH ".sum.aggregationTemporality");
    bad(in_metric("{\"sum\":{\"aggregationTemporality\":4294967296}}"),
        METRIC_PATH ".sum.aggregationTemporality");
}

/* ---- types ---- */

static void wrong_types_in_the_envelope_are_refused(void **state)
{
    (void)state;
    bad("[]", "");
    assert_string_equal(jfx.err.msg, "The body is an array; it must be an object "
                                     "(ExportMetricsServiceRequest).");
    bad("\"x\"", "");
    bad("null", "");
    bad("7", "");
    bad("", "");
    bad("{\"resourceMetrics\":{}}", "resourceMetrics");
    bad("{\"resourceMetrics\":[[]]}", "resourceMetrics[0]");
    bad("{\"resourceMetrics\":[{},5]}", "resourceMetrics[1]");
    bad("{\"resourceMetrics\":[{\"resource\":[]}]}", "resourceMetrics[0].resource");
    assert_string_equal(jfx.err.msg,
                        "resourceMetrics[0].resource is an array; it must be an object.");
    bad("{\"resourceMetrics\":[{\"schemaUrl\":5}]}", "resourceMetrics[0].schemaUrl");
    bad(in_metric("{\"name\":true}"), METRIC_PATH ".name");
    bad(in_metric("{\"sum\":{\"isMonotonic\":\"true\"}}"), METRIC_PATH ".sum.isMonotonic");
    bad(in_metric("{\"sum\":{\"isMonotonic\":1}}"), METRIC_PATH ".sum.isMonotonic");
    /* Structure inside a point. */
    bad(in_points("gauge", "[]"), METRIC_PATH ".gauge.dataPoints[0]");
    bad(in_points("gauge", "{\"attributes\":{}}"), METRIC_PATH ".gauge.dataPoints[0].attributes");
    bad(in_points("gauge", "{\"attributes\":[\"a\"]}"),
        METRIC_PATH ".gauge.dataPoints[0].attributes[0]");
    bad(in_points("gauge", "{},{\"exemplars\":[7]}"),
        METRIC_PATH ".gauge.dataPoints[1].exemplars[0]");
    bad(in_points("histogram", "{\"bucketCounts\":5}"),
        METRIC_PATH ".histogram.dataPoints[0].bucketCounts");
}

static void what_follows_the_document_is_refused(void **state)
{
    (void)state;
    assert_non_null(good(" {} \n\t"));
    bad("{}}", "");
    bad("{}{}", "");
    bad("{} x", "");
    bad("\xef\xbb\xbf{}", "");
    assert_non_null(strstr(jfx.err.msg, "byte order mark"));
}

static void client_text_in_messages_is_harmless(void **state)
{
    (void)state;
    bad(in_metric("{\"sum\":{\"aggregationTemporality\":\"\x01\xff\\\"\"}}"), NULL);
    bad(in_metric("{\"sum\":{\"aggregationTemporality\":\"a\xff\\u0001\"}}"), NULL);
    assert_non_null(strstr(jfx.err.msg, "is a string;"));
    assert_true(utf8_valid(bytes_str(jfx.err.msg)));
}

/* ---- strings and bytes ---- */

static void strings_keep_nul_and_ill_formed_bytes(void **state)
{
    Otlp__AnyValue *v = attribute("{\"stringValue\":\"a\\u0000b\"}");

    (void)state;
    assert_int_equal(v->string_value.len, 3);
    assert_memory_equal(v->string_value.data, "a\0b", 3);
    v = attribute("{\"stringValue\":\"x\xff\xfe\"}");
    assert_bytes(v->string_value, "x\xff\xfe");
    assert_int_equal(jfx_warnings(), 0);
    v = attribute("{\"stringValue\":\"cut \\ud83d\"}");
    assert_bytes(v->string_value, "cut \xef\xbf\xbd");
    assert_int_equal(jfx.notes.warnings[WARN_SURROGATE], 1);
    v = attribute("{\"stringValue\":\"\"}");
    assert_int_equal(v->value_case, OTLP__ANY_VALUE__VALUE_STRING_VALUE);
    assert_int_equal(v->string_value.len, 0);
}

static void strings_without_escapes_are_not_copied(void **state)
{
    const char *body = "{\"resourceMetrics\":[{\"schemaUrl\":\"https://example.test/1\"}]}";
    const uint8_t *p = good(body)->resource_metrics[0]->schema_url.data;

    (void)state;
    assert_ptr_equal(p, (const uint8_t *)strstr(body, "https"));
}

static void bytes_are_base64_of_either_alphabet(void **state)
{
    static const char *const forms[] = {"\"+/8=\"", "\"+/8\"", "\"-_8=\"", "\"-_8\""};
    char s[64];

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        snprintf(s, sizeof(s), "{\"bytesValue\":%s}", forms[i]);
        Otlp__AnyValue *v = attribute(s);

        assert_int_equal(v->value_case, OTLP__ANY_VALUE__VALUE_BYTES_VALUE);
        assert_bytes(v->bytes_value, "\xfb\xff");
    }
    assert_int_equal(attribute("{\"bytesValue\":\"\"}")->bytes_value.len, 0);
}

static void bad_ids_get_a_length_that_no_id_has(void **state)
{
    static const char *const ids[] = {
        "\"traceId\":\"5b8efff798038103d269b633813fc60\"",  /* odd */
        "\"traceId\":\"W47/95gDgQPSabYzgT/GDA==\"",         /* base64 */
        "\"traceId\":\"5b8efff798038103d269b633813fc60g\"", /* not hex */
        "\"traceId\":\"eee19b7ec3c1b174\"",                 /* a span's length */
        "\"spanId\":\"eee19b7ec3c1b17400\"",
        "\"spanId\":7",
        "\"spanId\":{\"a\":1}"};
    char s[256];

    (void)state;
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        snprintf(s, sizeof(s), "{\"asInt\":1,\"exemplars\":[{%s,\"asInt\":5}]}", ids[i]);
        Otlp__NumberDataPoint *p = point(s);

        assert_false(defective(p));
        assert_int_equal(p->n_exemplars, 1);
        /* batch_build drops it, and warns. */
        assert_int_equal(p->exemplars[0]->trace_id.len + p->exemplars[0]->span_id.len, 1);
        assert_true(p->exemplars[0]->as_int == 5);
        assert_int_equal(jfx_warnings(), 0);
    }
    Otlp__NumberDataPoint *p =
        point("{\"exemplars\":[{\"traceId\":\"\",\"spanId\":null,\"asInt\":5}]}");

    assert_int_equal(p->exemplars[0]->trace_id.len, 0);
    assert_int_equal(jfx_warnings(), 0);
    /* The last duplicate wins, whichever is empty or bad. */
    p = point("{\"exemplars\":[{\"asInt\":5,\"spanId\":\"eee19b7ec3c1b174\",\"spanId\":\"\"},"
              "{\"asInt\":5,\"spanId\":\"eee19b7ec3c1b174\",\"spanId\":\"x\"},"
              "{\"asInt\":5,\"spanId\":\"x\",\"spanId\":\"eee19b7ec3c1b174\"}]}");
    assert_int_equal(p->exemplars[0]->span_id.len, 0);
    assert_int_equal(p->exemplars[1]->span_id.len, 1);
    assert_int_equal(p->exemplars[2]->span_id.len, 8);
}

static void a_bad_number_in_an_exemplar_costs_the_exemplar(void **state)
{
    Otlp__NumberDataPoint *p = point("{\"asInt\":1,\"exemplars\":[{\"asDouble\":1e400},"
                                     "{\"asInt\":5,\"timeUnixNano\":-1},{\"asInt\":6}]}");

    (void)state;
    assert_false(defective(p));
    assert_int_equal(p->n_exemplars, 3);
    /* Without a value: batch_build drops these two and warns. */
    assert_int_equal(p->exemplars[0]->value_case, OTLP__EXEMPLAR__VALUE__NOT_SET);
    assert_int_equal(p->exemplars[1]->value_case, OTLP__EXEMPLAR__VALUE__NOT_SET);
    assert_true(p->exemplars[2]->as_int == 6);
}

/* ---- limits ---- */

/* An attribute value: a leaf inside n arrays or kvlists. */
static char *nested(size_t n, bool kvlist)
{
    static const char *const open[] = {"{\"arrayValue\":{\"values\":[",
                                       "{\"kvlistValue\":{\"values\":[{\"key\":\"k\",\"value\":"};
    static const char *const close[] = {"]}}", "}]}}"};
    size_t size = n * 64 + 1024, at = 0;
    char *s = malloc(size);

    assert_non_null(s);
    at += (size_t)snprintf(
        s, size,
        METRIC_HEAD "{\"gauge\":{\"dataPoints\":[{\"attributes\":[{\"key\":\"k\",\"value\":");
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(s + at, size - at, "%s", open[kvlist]);
    at += (size_t)snprintf(s + at, size - at, "{\"boolValue\":true}");
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(s + at, size - at, "%s", close[kvlist]);
    (void)snprintf(s + at, size - at, "}]}]}}" METRIC_TAIL);
    return s;
}

static void values_nest_to_the_limit_and_no_deeper(void **state)
{
    (void)state;
    for (int kvlist = 0; kvlist < 2; kvlist++) {
        for (int big = 0; big < 2; big++) {
            jfx.limits.max_value_depth = big ? 200 : 64;
            char *at_limit = nested(jfx.limits.max_value_depth, kvlist);
            char *beyond = nested(jfx.limits.max_value_depth + 1, kvlist);
            char *far = nested(20000, kvlist);

            assert_non_null(good(at_limit));
            bad(beyond, NULL);
            assert_non_null(strstr(jfx.err.msg, "nested more than"));
            assert_true(strncmp(jfx.err.field, METRIC_PATH, strlen(METRIC_PATH)) == 0);
            bad(far, NULL);
            free(at_limit);
            free(beyond);
            free(far);
        }
    }
}

static void over_the_budget_is_too_big(void **state)
{
    otlp_request *m;

    (void)state;
    arena_fini(&jfx.arena);
    arena_init(&jfx.arena, 500);
    assert_int_equal(
        jfx_decode(bytes_str("{\"resourceMetrics\":[{},{},{},{},{},{},{},{},{},{},{}]}"), &m),
        OTL_ETOOBIG);
    assert_non_null(strstr(jfx.err.msg, "500 bytes"));
}

/* Zeros of empty buckets are two bytes each in the body and eight in memory, not more. */
static void bucket_arrays_take_their_exact_room(void **state)
{
    size_t n = 100000;
    char *s = malloc(2 * n + 1024);
    size_t at =
        (size_t)sprintf(s, METRIC_HEAD "{\"histogram\":{\"dataPoints\":[{\"bucketCounts\":[0");

    (void)state;
    for (size_t i = 1; i < n; i++)
        at += (size_t)sprintf(s + at, ",%d", i == n - 1 ? 7 : 0);
    strcpy(s + at, "]}]}}" METRIC_TAIL);
    Otlp__HistogramDataPoint *p = metric_of(good(s))->histogram->data_points[0];

    assert_int_equal(p->n_bucket_counts, n);
    assert_true(p->bucket_counts[n - 1] == 7);
    assert_true(jfx.arena.used < 8 * n + 4096);
    free(s);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, jfx_setup, jfx_teardown)
    const struct CMUnitTest tests[] = {
        CASE(reads_the_whole_request),
        CASE(snake_case_keys_are_unknown_and_noted),
        CASE(unknown_keys_are_skipped_but_still_checked),
        CASE(escaped_keys_are_the_same_keys),
        CASE(the_last_duplicate_wins),
        CASE(the_last_oneof_member_wins),
        CASE(null_means_unset),
        CASE(null_elements),
        CASE(integers_keep_every_digit),
        CASE(a_bad_number_costs_its_point_only),
        CASE(ranges_of_32_bits_are_checked),
        CASE(doubles_in_every_form),
        CASE(a_huge_integer_attribute_becomes_a_double),
        CASE(enum_names_are_refused_with_their_number),
        CASE(wrong_types_in_the_envelope_are_refused),
        CASE(what_follows_the_document_is_refused),
        CASE(client_text_in_messages_is_harmless),
        CASE(strings_keep_nul_and_ill_formed_bytes),
        CASE(strings_without_escapes_are_not_copied),
        CASE(bytes_are_base64_of_either_alphabet),
        CASE(bad_ids_get_a_length_that_no_id_has),
        CASE(a_bad_number_in_an_exemplar_costs_the_exemplar),
        CASE(values_nest_to_the_limit_and_no_deeper),
        CASE(over_the_budget_is_too_big),
        CASE(bucket_arrays_take_their_exact_room),
    };

    return cmocka_run_group_tests_name("decode_json", tests, NULL, NULL);
}
