/* template_json.c -- OTLP/JSON. All the texts are plain ASCII that JSON needs no escapes for. */
#include <inttypes.h>
#include <stdio.h>

#include "template_encode.h"

/* A changing number of `width` digits. */
static void json_digits(struct buf *b, struct encoder *e, struct number v, unsigned width)
{
    encoder_patch(e, b->n, v, FORM_DIGITS, width);
    buf_printf(b, "%0*d", (int)width, 0);
}

/* Changing quarters, with `width` digits before the dot. */
static void json_quarters(struct buf *b, struct encoder *e, struct number v, unsigned width)
{
    encoder_patch(e, b->n, v, FORM_QUARTERS, width);
    buf_printf(b, "%0*d.00", (int)width, 0);
}

static void json_id(struct buf *b, struct encoder *e)
{
    encoder_patch(e, b->n, exemplar_id, FORM_HEX, 16);
    buf_printf(b, "%016d", 0);
}

static void json_exemplar(struct buf *b, struct encoder *e, const struct texts *text,
                          uint32_t series, const char *value)
{
    buf_add_str(b, ",\"exemplars\":[{\"timeUnixNano\":\"");
    json_digits(b, e, point_time, TIME_DIGITS);
    buf_printf(b, "\",%s,\"traceId\":\"%016" PRIx64, value, exemplar_trace(series));
    json_id(b, e);
    buf_add_str(b, "\",\"spanId\":\"");
    json_id(b, e);
    buf_printf(b,
               "\",\"filteredAttributes\":[{\"key\":\"user.id\",\"value\":{\"stringValue\":\"%s\"}}"
               "]}]",
               text->user);
}

static void json_count_and_sum(struct buf *b, struct encoder *e, struct number count,
                               unsigned count_digits, struct number sum, unsigned sum_digits)
{
    buf_add_str(b, ",\"count\":\"");
    json_digits(b, e, count, count_digits);
    buf_add_str(b, "\",\"sum\":");
    json_digits(b, e, sum, sum_digits);
}

static void json_histogram(struct buf *b, struct encoder *e, const struct texts *text,
                           uint32_t series)
{
    char exemplar[32];

    json_count_and_sum(b, e, histogram_count, 11, histogram_sum, 14);
    buf_add_str(b, ",\"bucketCounts\":[\"0\"");
    for (unsigned i = 1; i <= BOUNDS; i++) {
        buf_add_str(b, ",\"");
        json_digits(b, e, histogram_bucket(i), 10);
        buf_add_char(b, '"');
    }
    buf_add_str(b, "],\"explicitBounds\":[");
    for (unsigned i = 0; i < BOUNDS; i++)
        buf_printf(b, "%s%g", i > 0 ? "," : "", histogram_bounds[i]);
    buf_printf(b, "],\"min\":%g,\"max\":%g", histogram_min, histogram_max);
    snprintf(exemplar, sizeof(exemplar), "\"asDouble\":%g", histogram_exemplar);
    json_exemplar(b, e, text, series, exemplar);
}

static void json_exponential(struct buf *b, struct encoder *e, const struct texts *text,
                             uint32_t series)
{
    char exemplar[32];

    json_count_and_sum(b, e, exponential_count, 11, exponential_sum, 12);
    buf_printf(b, ",\"scale\":%d,\"zeroCount\":\"", EXPONENTIAL_SCALE);
    json_digits(b, e, exponential_zero, 10);
    buf_printf(b, "\",\"positive\":{\"offset\":%d,\"bucketCounts\":[", EXPONENTIAL_OFFSET);
    for (unsigned i = 0; i < EXPONENTIAL_BUCKETS; i++) {
        buf_add_str(b, i > 0 ? ",\"" : "\"");
        json_digits(b, e, exponential_bucket(i), 10);
        buf_add_char(b, '"');
    }
    buf_printf(b, "]},\"min\":%g,\"max\":%g", exponential_min, exponential_max);
    snprintf(exemplar, sizeof(exemplar), "\"asDouble\":%g", exponential_exemplar);
    json_exemplar(b, e, text, series, exemplar);
}

static void json_summary(struct buf *b, struct encoder *e)
{
    json_count_and_sum(b, e, summary_count, 10, summary_sum, 11);
    buf_add_str(b, ",\"quantileValues\":[");
    for (unsigned i = 0; i < QUANTILES; i++) {
        buf_printf(b, "%s{\"quantile\":%g,\"value\":", i > 0 ? "," : "",
                   summary_quantiles[i].quantile);
        json_quarters(b, e, summary_quantiles[i].value, 2);
        buf_add_char(b, '}');
    }
    buf_add_char(b, ']');
}

static void json_point(struct buf *b, struct encoder *e, const struct texts *text, uint32_t series)
{
    buf_printf(b, "{\"startTimeUnixNano\":\"%0*" PRId64 "\",\"timeUnixNano\":\"", TIME_DIGITS,
               e->opts->start_ns);
    json_digits(b, e, point_time, TIME_DIGITS);
    buf_add_char(b, '"');
    switch (text->kind) {
    case KIND_GAUGE_INT:
        buf_add_str(b, ",\"asInt\":\"");
        json_digits(b, e, gauge_int_value, 6);
        buf_add_char(b, '"');
        break;
    case KIND_GAUGE_DOUBLE:
        buf_add_str(b, ",\"asDouble\":");
        json_quarters(b, e, gauge_quarters, 4);
        break;
    case KIND_HISTOGRAM:
        json_histogram(b, e, text, series);
        break;
    case KIND_EXPONENTIAL:
        json_exponential(b, e, text, series);
        break;
    case KIND_SUMMARY:
        json_summary(b, e);
        break;
    default: /* KIND_SUM */
        buf_add_str(b, ",\"asInt\":\"");
        json_digits(b, e, sum_value, VALUE_DIGITS);
        buf_add_char(b, '"');
        if (e->opts->mix == MIX_ALL)
            json_exemplar(b, e, text, series, "\"asInt\":\"1\"");
        break;
    }
    buf_printf(b,
               ",\"attributes\":["
               "{\"key\":\"http.route\",\"value\":{\"stringValue\":\"%s\"}},"
               "{\"key\":\"http.request.method\",\"value\":{\"stringValue\":\"%s\"}},"
               "{\"key\":\"server.address\",\"value\":{\"stringValue\":\"%s\"}}]}",
               text->route, text->method, text->node);
}

static const char *const openings[KINDS] = {
    [KIND_GAUGE_INT] = "\"gauge\":{",
    [KIND_GAUGE_DOUBLE] = "\"gauge\":{",
    [KIND_SUM] = "\"sum\":{\"aggregationTemporality\":2,\"isMonotonic\":true,",
    [KIND_HISTOGRAM] = "\"histogram\":{\"aggregationTemporality\":2,",
    [KIND_EXPONENTIAL] = "\"exponentialHistogram\":{\"aggregationTemporality\":2,",
    [KIND_SUMMARY] = "\"summary\":{",
};

void encode_json(struct buf *out, struct encoder *e, struct texts *text)
{
    bool open = false; /* inside a metric */

    buf_printf(out,
               "{\"resourceMetrics\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\","
               "\"value\":{\"stringValue\":\"%s\"}}]},\"scopeMetrics\":[{\"scope\":{\"name\":"
               "\"otlite-bench\",\"version\":\"" OTLITE_VERSION "\"},\"metrics\":[",
               text->service);
    for (unsigned i = 0; i < e->n_fields; i++) {
        bool last = encoder_ends_metric(e, i);

        texts_of_series(text, e->opts, encoder_series(e, i));
        if (open)
            buf_add_char(out, ',');
        else
            buf_printf(out, "%s{\"name\":\"%s\",\"unit\":\"%s\",%s\"dataPoints\":[",
                       i > 0 ? "," : "", text->metric, text->unit, openings[text->kind]);
        e->fields[i].patch = e->n;
        json_point(out, e, text, e->fields[i].series);
        e->fields[i].patches = e->n - e->fields[i].patch;
        if (last)
            buf_add_str(out, "]}}");
        open = !last;
    }
    buf_add_str(out, "]}]}]}");
}
