/* convert.c -- what CSV and OpenMetrics have in common on their way to OTLP/JSON. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "convert_internal.h"

/* A request is one transaction: large enough to be quick, small enough for the decoder's memory. */
enum { REQUEST_POINTS = 2000, REQUEST_BYTES = 1 << 20, NUMBER_CHARS = 64 };

struct converter {
    enum text_format format;
    int64_t now_ns;
    struct request request;
    struct buf given; /* what the caller borrows */
    struct csv *csv;
    struct openmetrics *openmetrics;
};

enum text_format text_format_of(struct bytes line)
{
    size_t i = 0;

    while (i < line.n && (line.p[i] == ' ' || line.p[i] == '\t'))
        i++;
    if (i < line.n && line.p[i] == '{')
        return TEXT_OTLP_JSON;
    /* A sample has a blank before its value and, with labels, commas only within braces. */
    for (; i < line.n && line.p[i] != '#' && line.p[i] != '{' && line.p[i] != ' '; i++) {
        if (line.p[i] == ',')
            return TEXT_CSV;
    }
    return TEXT_OPENMETRICS;
}

/* ---- numbers and attributes ---- */

bool parse_double(struct bytes text, double *out)
{
    char digits[NUMBER_CHARS];
    char *end;

    if (text.n == 0 || text.n >= sizeof(digits) || text.p[0] == ' ')
        return false;
    memcpy(digits, text.p, text.n);
    digits[text.n] = '\0';
    *out = strtod(digits, &end);
    return end == digits + text.n;
}

bool parse_seconds(struct bytes text, int64_t *out_ns)
{
    int64_t s = 0, ns = 0, unit = 100000000;
    size_t i = text.n > 0 && text.p[0] == '-' ? 1 : 0;
    double d;

    for (; i < text.n && text.p[i] >= '0' && text.p[i] <= '9' && s < INT64_MAX / 20; i++)
        s = s * 10 + (text.p[i] - '0');
    if (i < text.n && text.p[i] == '.')
        for (i++; i < text.n && text.p[i] >= '0' && text.p[i] <= '9' && unit > 0; i++, unit /= 10)
            ns += (text.p[i] - '0') * unit;
    if (i == text.n && text.n > 0 && s <= INT64_MAX / 1000000000 - 1) {
        *out_ns = s * 1000000000 + ns;
        if (text.p[0] == '-')
            *out_ns = -*out_ns;
        return true;
    }
    /* An exponent, or more digits than nanoseconds have. */
    if (!parse_double(text, &d) || !(fabs(d) < 9.2e9))
        return false;
    *out_ns = (int64_t)(d * 1e9);
    return true;
}

void add_double_json(struct buf *out, double d)
{
    if (isnan(d))
        buf_add_str(out, "\"NaN\"");
    else if (isinf(d))
        buf_add_str(out, d > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    else
        buf_add_double(out, d);
}

bool add_number_json(struct buf *out, struct bytes text)
{
    char digits[NUMBER_CHARS];
    size_t i = text.n > 0 && (text.p[0] == '-' || text.p[0] == '+') ? 1 : 0;
    bool integer = i < text.n;
    double d;

    for (; i < text.n; i++)
        integer = integer && text.p[i] >= '0' && text.p[i] <= '9';
    if (integer && text.n < sizeof(digits)) {
        long long v;

        memcpy(digits, text.p, text.n);
        digits[text.n] = '\0';
        errno = 0;
        v = strtoll(digits, NULL, 10);
        if (errno == 0) {
            buf_printf(out, "\"asInt\":\"%lld\"", v);
            return true;
        }
    }
    if (!parse_double(text, &d))
        return false;
    buf_add_str(out, "\"asDouble\":");
    add_double_json(out, d);
    return true;
}

void add_attribute(struct buf *out, struct bytes key, struct bytes value)
{
    if (out->n > 0 && out->p[out->n - 1] != '[')
        buf_add_char(out, ',');
    buf_add_str(out, "{\"key\":");
    buf_add_json_string(out, key);
    buf_add_str(out, ",\"value\":{\"stringValue\":");
    buf_add_json_string(out, value);
    buf_add_str(out, "}}");
}

void add_string_attribute(struct buf *out, const char *key, struct bytes value)
{
    add_attribute(out, bytes_str(key), value);
}

/* ---- the request ---- */

void request_fini(struct request *q)
{
    buf_fini(&q->text);
    buf_fini(&q->envelope);
    buf_fini(&q->next);
    buf_fini(&q->point);
}

void request_begin_point(struct request *q)
{
    buf_reset(&q->next);
    buf_reset(&q->point);
}

void request_end_point(struct request *q, const char *tail)
{
    if (q->points > 0 && q->tail == tail &&
        bytes_equal(buf_bytes(&q->envelope), buf_bytes(&q->next))) {
        buf_add_char(&q->text, ',');
    } else {
        if (q->points > 0) {
            buf_add_str(&q->text, q->tail);
            buf_add_char(&q->text, ',');
        } else {
            buf_add_str(&q->text, "{\"resourceMetrics\":[");
        }
        buf_add_bytes(&q->text, buf_bytes(&q->next));
        buf_reset(&q->envelope);
        buf_add_bytes(&q->envelope, buf_bytes(&q->next));
        q->tail = tail;
    }
    buf_add_bytes(&q->text, buf_bytes(&q->point));
    q->text.failed = q->text.failed || q->next.failed || q->point.failed || q->envelope.failed;
    q->points++;
}

struct bytes request_take(struct request *q)
{
    if (q->points == 0)
        return bytes_of(NULL, 0);
    buf_add_str(&q->text, q->tail);
    buf_add_str(&q->text, "]}");
    q->points = 0;
    return buf_bytes(&q->text);
}

/* ---- the converter ---- */

enum otl_err converter_new(enum text_format format, int64_t now_ns, struct converter **out,
                           struct otl_error *err)
{
    struct converter *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return otl_fail(err, OTL_ENOMEM, "import: no memory");
    c->format = format;
    c->now_ns = now_ns;
    *out = c;
    return OTL_OK;
}

void converter_free(struct converter *c)
{
    if (c == NULL)
        return;
    csv_free(c->csv);
    openmetrics_free(c->openmetrics);
    request_fini(&c->request);
    buf_fini(&c->given);
    free(c);
}

/* The request moves to where the caller reads it. */
static enum otl_err give(struct converter *c, struct bytes *request, struct otl_error *err)
{
    struct bytes text = request_take(&c->request);
    struct buf swap = c->given;

    if (c->request.text.failed)
        return otl_fail(err, OTL_ENOMEM, "import: no memory");
    if (text.n == 0)
        return OTL_OK;
    c->given = c->request.text;
    c->request.text = swap;
    buf_reset(&c->request.text);
    *request = buf_bytes(&c->given);
    return OTL_OK;
}

enum otl_err converter_line(struct converter *c, struct bytes line, struct bytes *request,
                            struct otl_error *err)
{
    enum otl_err rc;

    *request = bytes_of(NULL, 0);
    rc = c->format == TEXT_CSV
             ? csv_line(&c->csv, &c->request, line, err)
             : openmetrics_line(&c->openmetrics, &c->request, c->now_ns, line, err);
    if (rc == OTL_OK && (c->request.points >= REQUEST_POINTS ||
                         c->request.text.n >= REQUEST_BYTES || c->request.text.failed))
        rc = give(c, request, err);
    return rc;
}

enum otl_err converter_end(struct converter *c, struct bytes *request, struct otl_error *err)
{
    enum otl_err rc;

    *request = bytes_of(NULL, 0);
    rc = c->format == TEXT_CSV ? csv_end(c->csv, err)
                               : openmetrics_end(c->openmetrics, &c->request, err);
    return rc == OTL_OK ? give(c, request, err) : rc;
}
