/* convert_openmetrics.c -- OpenMetrics text as points.
 *
 * A family's lines come together, and in it the samples of one point (buckets, count and sum of one
 * series and time) one after the other. So a point is whole when a sample comes that is not of it.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "convert_internal.h"

enum family_type { FAMILY_UNKNOWN, FAMILY_GAUGE, FAMILY_COUNTER, FAMILY_HISTOGRAM, FAMILY_SUMMARY };
enum { MAX_LABELS = 256, MAX_BUCKETS = 4096 };

struct name_value {
    struct bytes name;
    struct buf value; /* unescaped */
};

/* Labels of a sample or of an exemplar; names borrow the line. */
struct label_list {
    struct name_value l[MAX_LABELS];
    size_t n;
};

/* bound: le of a bucket, or a quantile. */
struct part {
    double bound, value;
};

struct openmetrics {
    struct buf family; /* the name; empty: none has begun */
    enum family_type type;
    const char *was; /* a declared type that OTLP has not, for the metadata (P-4); NULL: none */
    struct buf unit, help;
    bool ended; /* # EOF */
    struct label_list labels, exemplar_labels;

    /* The histogram or summary point under way. */
    bool open;
    struct buf envelope; /* of it */
    struct buf attributes;
    int64_t time_ns, start_ns;
    struct part *parts;
    size_t n_parts;
    bool has_sum, has_count;
    double sum, count;
    struct buf exemplars;

    /* What _created said of a series of the family, for the samples behind it. */
    struct buf created_key;
    int64_t created_ns;
};

/* One line, cut up. */
struct sample {
    struct bytes name, value, time;
    bool has_exemplar;
    struct bytes exemplar_value, exemplar_time;
};

static void labels_fini(struct label_list *l)
{
    for (size_t i = 0; i < MAX_LABELS; i++)
        buf_fini(&l->l[i].value);
}

void openmetrics_free(struct openmetrics *o)
{
    if (o == NULL)
        return;
    labels_fini(&o->labels);
    labels_fini(&o->exemplar_labels);
    buf_fini(&o->family);
    buf_fini(&o->unit);
    buf_fini(&o->help);
    buf_fini(&o->envelope);
    buf_fini(&o->attributes);
    buf_fini(&o->exemplars);
    buf_fini(&o->created_key);
    free(o->parts);
    free(o);
}

static enum otl_err no_memory(struct otl_error *err)
{
    return otl_fail(err, OTL_ENOMEM, "import: no memory");
}

/* How much of a text a message shows. */
static int shown(struct bytes s)
{
    return s.n < 80 ? (int)s.n : 80;
}

static enum otl_err malformed(struct bytes line, size_t at, const char *what, struct otl_error *err)
{
    return otl_fail(err, OTL_EBADDATA, "%s at character %zu: %.*s", what, at + 1,
                    (int)(line.n < 120 ? line.n : 120), (const char *)line.p);
}

/* ---- reading a line ---- */

static void skip_blanks(struct bytes line, size_t *at)
{
    while (*at < line.n && (line.p[*at] == ' ' || line.p[*at] == '\t'))
        (*at)++;
}

static struct bytes next_word(struct bytes line, size_t *at)
{
    size_t from;

    skip_blanks(line, at);
    from = *at;
    while (*at < line.n && line.p[*at] != ' ' && line.p[*at] != '\t')
        (*at)++;
    return bytes_of(line.p + from, *at - from);
}

/* `\n`, `\"` and `\\`; another escape stays as it is. quote 0: to the end of the line. False: the
 * quote does not end. */
static bool unescape(struct bytes line, size_t *at, char quote, struct buf *out)
{
    buf_reset(out);
    for (; *at < line.n; (*at)++) {
        uint8_t c = line.p[*at];

        if (quote != 0 && c == (uint8_t)quote) {
            (*at)++;
            return true;
        }
        if (c == '\\' && *at + 1 < line.n) {
            uint8_t next = line.p[++*at];

            if (next == 'n')
                c = '\n';
            else if (next == '\\' || next == '"')
                c = next;
            else
                buf_add_char(out, '\\'), c = next;
        }
        buf_add_char(out, (char)c);
    }
    return quote == 0;
}

/* `{a="b",c="d"}`, the '{' at *at. A quoted name alone is the metric's (UTF-8 names). */
static enum otl_err read_labels(struct bytes line, size_t *at, struct label_list *out,
                                struct otl_error *err)
{
    out->n = 0;
    (*at)++;
    for (;;) {
        struct name_value *l;
        size_t from;

        skip_blanks(line, at);
        if (*at < line.n && line.p[*at] == '}') {
            (*at)++;
            return OTL_OK;
        }
        if (out->n == MAX_LABELS)
            return otl_fail(err, OTL_EBADDATA, "more than %d labels", MAX_LABELS);
        l = &out->l[out->n];
        from = *at;
        while (*at < line.n && line.p[*at] != '=' && line.p[*at] != '}' && line.p[*at] != ' ')
            (*at)++;
        l->name = bytes_of(line.p + from, *at - from);
        if (l->name.n >= 2 && l->name.p[0] == '"' && l->name.p[l->name.n - 1] == '"')
            l->name = bytes_of(l->name.p + 1, l->name.n - 2);
        skip_blanks(line, at);
        if (l->name.n == 0 || *at + 1 >= line.n || line.p[*at] != '=' || line.p[*at + 1] != '"')
            return malformed(line, *at, "a label is name=\"value\"", err);
        *at += 2;
        if (!unescape(line, at, '"', &l->value))
            return malformed(line, *at, "a label's value does not end", err);
        if (l->value.failed)
            return no_memory(err);
        out->n++;
        skip_blanks(line, at);
        if (*at < line.n && line.p[*at] == ',')
            (*at)++;
        else if (*at >= line.n || line.p[*at] != '}')
            return malformed(line, *at, "a ',' or '}' must follow a label", err);
    }
}

static enum otl_err read_sample(struct openmetrics *o, struct bytes line, struct sample *s,
                                struct otl_error *err)
{
    size_t at = 0;
    enum otl_err rc = OTL_OK;

    *s = (struct sample){0};
    o->labels.n = o->exemplar_labels.n = 0;
    while (at < line.n && line.p[at] != '{' && line.p[at] != ' ' && line.p[at] != '\t')
        at++;
    s->name = bytes_of(line.p, at);
    skip_blanks(line, &at);
    if (at < line.n && line.p[at] == '{')
        rc = read_labels(line, &at, &o->labels, err);
    if (rc != OTL_OK)
        return rc;
    s->value = next_word(line, &at);
    s->time = next_word(line, &at);
    if (bytes_equal(s->time, bytes_str("#"))) {
        at -= 1;
        s->time = bytes_of(NULL, 0);
    }
    skip_blanks(line, &at);
    if (at < line.n && line.p[at] == '#') {
        at++;
        skip_blanks(line, &at);
        if (at >= line.n || line.p[at] != '{')
            return malformed(line, at, "an exemplar begins with its labels", err);
        rc = read_labels(line, &at, &o->exemplar_labels, err);
        if (rc != OTL_OK)
            return rc;
        s->has_exemplar = true;
        s->exemplar_value = next_word(line, &at);
        s->exemplar_time = next_word(line, &at);
        skip_blanks(line, &at);
    }
    if (s->name.n == 0 || s->value.n == 0 || at < line.n)
        return malformed(line, at, "a sample is name{labels} value [seconds]", err);
    return OTL_OK;
}

/* ---- what a point is of ---- */

static bool is_label(const struct name_value *l, const char *name)
{
    return bytes_equal(l->name, bytes_str(name));
}

static struct bytes label_value(const struct label_list *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++) {
        if (is_label(&l->l[i], name))
            return buf_bytes(&l->l[i].value);
    }
    return bytes_of(NULL, 0);
}

/* Those that are no attribute of the point; `of` is le or quantile, or NULL. */
static bool is_special(const struct name_value *l, const char *of)
{
    return is_label(l, "job") || is_label(l, "instance") || is_label(l, "otel_scope_name") ||
           is_label(l, "otel_scope_version") || (of != NULL && is_label(l, of));
}

static void add_resource(struct buf *b, const struct label_list *l)
{
    struct bytes job = label_value(l, "job"), instance = label_value(l, "instance");
    const uint8_t *slash = job.n > 0 ? memchr(job.p, '/', job.n) : NULL;

    buf_add_str(b, "{\"resource\":{\"attributes\":[");
    if (slash != NULL) {
        size_t n = (size_t)(slash - job.p);

        add_string_attribute(b, "service.namespace", bytes_of(job.p, n));
        add_string_attribute(b, "service.name", bytes_of(slash + 1, job.n - n - 1));
    } else if (job.n > 0) {
        add_string_attribute(b, "service.name", job);
    }
    if (instance.n > 0)
        add_string_attribute(b, "service.instance.id", instance);
    buf_add_str(b, "]},\"scopeMetrics\":[{\"scope\":{\"name\":");
    buf_add_json_string(b, label_value(l, "otel_scope_name"));
    buf_add_str(b, ",\"version\":");
    buf_add_json_string(b, label_value(l, "otel_scope_version"));
    buf_add_str(b, "},\"metrics\":[{");
}

static void add_attributes(struct buf *b, const struct label_list *l, const char *of)
{
    buf_add_char(b, '[');
    for (size_t i = 0; i < l->n; i++) {
        if (!is_special(&l->l[i], of))
            add_attribute(b, l->l[i].name, buf_bytes(&l->l[i].value));
    }
    buf_add_char(b, ']');
}

/* The unit in UCUM, where its word is one that exporters make of UCUM. */
static struct bytes ucum(struct bytes word)
{
    static const char *const words[][2] = {
        {"seconds", "s"},      {"milliseconds", "ms"}, {"microseconds", "us"},
        {"nanoseconds", "ns"}, {"minutes", "min"},     {"hours", "h"},
        {"days", "d"},         {"bytes", "By"},        {"kibibytes", "KiBy"},
        {"mebibytes", "MiBy"}, {"gibibytes", "GiBy"},  {"kilobytes", "kBy"},
        {"megabytes", "MBy"},  {"gigabytes", "GBy"},   {"meters", "m"},
        {"volts", "V"},        {"amperes", "A"},       {"joules", "J"},
        {"watts", "W"},        {"grams", "g"},         {"celsius", "Cel"},
        {"hertz", "Hz"},       {"percent", "%"},       {"ratio", "1"},
    };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (bytes_equal(word, bytes_str(words[i][0])))
            return bytes_str(words[i][1]);
    }
    return word;
}

static void add_metric(struct buf *b, const struct openmetrics *o, struct bytes name,
                       const char *data)
{
    buf_add_str(b, "\"name\":");
    buf_add_json_string(b, name);
    buf_add_str(b, ",\"unit\":");
    buf_add_json_string(b, ucum(buf_bytes(&o->unit)));
    buf_add_str(b, ",\"description\":");
    buf_add_json_string(b, buf_bytes(&o->help));
    if (o->was != NULL)
        buf_printf(b,
                   ",\"metadata\":[{\"key\":\"prometheus.type\",\"value\":{\"stringValue\":"
                   "\"%s\"}}]",
                   o->was);
    buf_printf(b, ",%s\"dataPoints\":[", data);
}

/* ---- exemplars ---- */

static bool is_hex(struct bytes s, size_t n)
{
    uint8_t bin[16];

    return s.n == n && hex_decode(s, bin);
}

static enum otl_err add_exemplar(struct openmetrics *o, const struct sample *s, struct buf *b,
                                 struct otl_error *err)
{
    struct bytes trace = label_value(&o->exemplar_labels, "trace_id");
    struct bytes span = label_value(&o->exemplar_labels, "span_id");
    bool has_trace = is_hex(trace, 32), has_span = is_hex(span, 16);
    int64_t ns;

    if (b->n > 0)
        buf_add_char(b, ',');
    buf_add_char(b, '{');
    if (!add_number_json(b, s->exemplar_value))
        return otl_fail(err, OTL_EBADDATA, "an exemplar's value is no number: %.*s",
                        shown(s->exemplar_value), (const char *)s->exemplar_value.p);
    if (s->exemplar_time.n > 0) {
        if (!parse_seconds(s->exemplar_time, &ns) || ns < 0)
            return otl_fail(err, OTL_EBADDATA, "an exemplar's time is no seconds: %.*s",
                            shown(s->exemplar_time), (const char *)s->exemplar_time.p);
        buf_printf(b, ",\"timeUnixNano\":\"%" PRId64 "\"", ns);
    }
    if (has_trace)
        buf_printf(b, ",\"traceId\":\"%.32s\"", (const char *)trace.p);
    if (has_span)
        buf_printf(b, ",\"spanId\":\"%.16s\"", (const char *)span.p);
    buf_add_str(b, ",\"filteredAttributes\":[");
    for (size_t i = 0; i < o->exemplar_labels.n; i++) {
        const struct name_value *l = &o->exemplar_labels.l[i];

        if (!(has_trace && is_label(l, "trace_id")) && !(has_span && is_label(l, "span_id")))
            add_attribute(b, l->name, buf_bytes(&l->value));
    }
    buf_add_str(b, "]}");
    return OTL_OK;
}

/* ---- points of several samples ---- */

static enum otl_err add_buckets(const struct openmetrics *o, struct buf *p, double *count,
                                struct otl_error *err)
{
    double below = 0;
    size_t n = o->n_parts;

    if (n > 0 && isinf(o->parts[n - 1].bound)) {
        *count = o->has_count ? o->count : o->parts[n - 1].value;
        n--;
    }
    if (n == 0)
        return OTL_OK; /* +Inf alone says no more than the count */
    buf_add_str(p, ",\"explicitBounds\":[");
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && !(o->parts[i].bound > o->parts[i - 1].bound))
            return otl_fail(err, OTL_EBADDATA, "the buckets' bounds of a histogram must ascend");
        if (i > 0)
            buf_add_char(p, ',');
        add_double_json(p, o->parts[i].bound);
    }
    buf_add_str(p, "],\"bucketCounts\":[");
    for (size_t i = 0; i <= n; i++) {
        double value = i < n ? o->parts[i].value : *count;

        if (!(value >= below) || value > 9e18 || value != floor(value))
            return otl_fail(err, OTL_EBADDATA,
                            "the buckets' counts of a histogram must be whole and not fall");
        buf_printf(p, "%s\"%" PRId64 "\"", i > 0 ? "," : "", (int64_t)(value - below));
        below = value;
    }
    buf_add_char(p, ']');
    return OTL_OK;
}

static enum otl_err flush_point(struct openmetrics *o, struct request *q, struct otl_error *err)
{
    struct buf *p = &q->point;
    double count = o->has_count ? o->count : 0;
    enum otl_err rc = OTL_OK;

    if (!o->open)
        return OTL_OK;
    o->open = false;
    request_begin_point(q);
    buf_add_bytes(&q->next, buf_bytes(&o->envelope));
    buf_printf(p,
               "{\"timeUnixNano\":\"%" PRId64 "\",\"startTimeUnixNano\":\"%" PRId64
               "\",\"attributes\":",
               o->time_ns, o->start_ns);
    buf_add_bytes(p, buf_bytes(&o->attributes));
    if (o->type == FAMILY_HISTOGRAM) {
        rc = add_buckets(o, p, &count, err);
        if (o->exemplars.n > 0) {
            buf_add_str(p, ",\"exemplars\":[");
            buf_add_bytes(p, buf_bytes(&o->exemplars));
            buf_add_char(p, ']');
        }
    } else {
        buf_add_str(p, ",\"quantileValues\":[");
        for (size_t i = 0; i < o->n_parts; i++) {
            buf_add_str(p, i > 0 ? ",{\"quantile\":" : "{\"quantile\":");
            add_double_json(p, o->parts[i].bound);
            buf_add_str(p, ",\"value\":");
            add_double_json(p, o->parts[i].value);
            buf_add_char(p, '}');
        }
        buf_add_char(p, ']');
    }
    if (rc == OTL_OK && !(count >= 0 && count <= 9e18 && count == floor(count)))
        rc = otl_fail(err, OTL_EBADDATA, "the count of a histogram or summary must be whole");
    if (rc != OTL_OK)
        return rc;
    buf_printf(p, ",\"count\":\"%" PRId64 "\"", (int64_t)count);
    if (o->has_sum) {
        buf_add_str(p, ",\"sum\":");
        add_double_json(p, o->sum);
    }
    buf_add_char(p, '}');
    p->failed = p->failed || o->attributes.failed || o->envelope.failed || o->exemplars.failed;
    request_end_point(q, "]}}]}]}");
    return OTL_OK;
}

/* Begin the point that the sample is of, unless it is under way. of: the label that is no
 * attribute. */
static enum otl_err open_point(struct openmetrics *o, struct request *q, const char *of,
                               int64_t time_ns, struct otl_error *err)
{
    struct buf envelope = {0}, attributes = {0};
    enum otl_err rc = OTL_OK;

    add_resource(&envelope, &o->labels);
    add_metric(&envelope, o, buf_bytes(&o->family),
               o->type == FAMILY_HISTOGRAM ? "\"histogram\":{\"aggregationTemporality\":2,"
                                           : "\"summary\":{");
    add_attributes(&attributes, &o->labels, of);
    if (envelope.failed || attributes.failed)
        rc = no_memory(err);
    if (rc == OTL_OK && !(o->open && o->time_ns == time_ns &&
                          bytes_equal(buf_bytes(&o->envelope), buf_bytes(&envelope)) &&
                          bytes_equal(buf_bytes(&o->attributes), buf_bytes(&attributes)))) {
        struct buf old_envelope, old_attributes;

        rc = flush_point(o, q, err);
        old_envelope = o->envelope;
        old_attributes = o->attributes;
        o->envelope = envelope;
        o->attributes = attributes;
        envelope = old_envelope;
        attributes = old_attributes;
        o->open = true;
        o->time_ns = time_ns;
        o->start_ns = 0;
        o->n_parts = 0;
        o->has_sum = o->has_count = false;
        buf_reset(&o->exemplars);
    }
    buf_fini(&envelope);
    buf_fini(&attributes);
    return rc;
}

static enum otl_err add_part(struct openmetrics *o, struct bytes bound, double value,
                             struct otl_error *err)
{
    double d;

    if (!parse_double(bound, &d))
        return otl_fail(err, OTL_EBADDATA, "the label %s is no number: \"%.*s\"",
                        o->type == FAMILY_HISTOGRAM ? "le" : "quantile", shown(bound),
                        (const char *)bound.p);
    if (o->n_parts == MAX_BUCKETS)
        return otl_fail(err, OTL_EBADDATA, "a point of more than %d buckets", MAX_BUCKETS);
    if (o->parts == NULL) {
        o->parts = malloc(MAX_BUCKETS * sizeof(*o->parts));
        if (o->parts == NULL)
            return no_memory(err);
    }
    o->parts[o->n_parts++] = (struct part){d, value};
    return OTL_OK;
}

/* What is behind the family's name in the sample's: "", "_bucket", ...; NULL: it is of another. */
static const char *suffix_of(const struct openmetrics *o, struct bytes name)
{
    static const char *const suffixes[] = {"",     "_total",   "_bucket", "_count",
                                           "_sum", "_created", "_info"};

    if (o->family.n == 0 || name.n < o->family.n || memcmp(name.p, o->family.p, o->family.n) != 0)
        return NULL;
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        if (bytes_equal(bytes_of(name.p + o->family.n, name.n - o->family.n),
                        bytes_str(suffixes[i])))
            return suffixes[i];
    }
    return NULL;
}

static enum otl_err take_part(struct openmetrics *o, struct request *q, const struct sample *s,
                              const char *suffix, int64_t time_ns, struct otl_error *err)
{
    const char *of = o->type == FAMILY_HISTOGRAM ? "le" : "quantile";
    enum otl_err rc = open_point(o, q, of, time_ns, err);
    double value;

    if (rc != OTL_OK)
        return rc;
    if (strcmp(suffix, "_created") == 0)
        return parse_seconds(s->value, &o->start_ns) && o->start_ns >= 0
                   ? OTL_OK
                   : otl_fail(err, OTL_EBADDATA, "_created is no time in seconds");
    if (!parse_double(s->value, &value))
        return otl_fail(err, OTL_EBADDATA, "the value is no number: %.*s", shown(s->value),
                        (const char *)s->value.p);
    if (strcmp(suffix, "_count") == 0) {
        o->count = value;
        o->has_count = true;
        return OTL_OK;
    }
    if (strcmp(suffix, "_sum") == 0) {
        o->sum = value;
        o->has_sum = true;
        return OTL_OK;
    }
    rc = add_part(o, label_value(&o->labels, of), value, err);
    if (rc == OTL_OK && s->has_exemplar && o->type == FAMILY_HISTOGRAM)
        rc = add_exemplar(o, s, &o->exemplars, err);
    return rc;
}

/* ---- points of one sample ---- */

static enum otl_err take_number(struct openmetrics *o, struct request *q, const struct sample *s,
                                const char *suffix, int64_t time_ns, struct otl_error *err)
{
    bool counter = o->type == FAMILY_COUNTER && suffix != NULL;
    struct buf *p = &q->point, attributes = {0};
    enum otl_err rc = OTL_OK;

    request_begin_point(q);
    add_resource(&q->next, &o->labels);
    add_metric(&q->next, o, s->name,
               counter ? "\"sum\":{\"aggregationTemporality\":2,\"isMonotonic\":true,"
                       : "\"gauge\":{");
    add_attributes(&attributes, &o->labels, NULL);
    if (attributes.failed)
        rc = no_memory(err);
    if (rc == OTL_OK && counter && strcmp(suffix, "_created") == 0) {
        if (!parse_seconds(s->value, &o->created_ns) || o->created_ns < 0)
            rc = otl_fail(err, OTL_EBADDATA, "_created is no time in seconds");
        buf_reset(&o->created_key);
        buf_add_bytes(&o->created_key, buf_bytes(&attributes));
        buf_fini(&attributes);
        return rc;
    }
    buf_printf(p, "{\"timeUnixNano\":\"%" PRId64 "\",", time_ns);
    if (counter && o->created_key.n > 0 &&
        bytes_equal(buf_bytes(&o->created_key), buf_bytes(&attributes)))
        buf_printf(p, "\"startTimeUnixNano\":\"%" PRId64 "\",", o->created_ns);
    buf_add_str(p, "\"attributes\":");
    buf_add_bytes(p, buf_bytes(&attributes));
    buf_add_char(p, ',');
    buf_fini(&attributes);
    if (rc == OTL_OK && !add_number_json(p, s->value))
        rc = otl_fail(err, OTL_EBADDATA, "the value is no number: %.*s", shown(s->value),
                      (const char *)s->value.p);
    if (rc == OTL_OK && s->has_exemplar) {
        struct buf exemplar = {0};

        rc = add_exemplar(o, s, &exemplar, err);
        buf_add_str(p, ",\"exemplars\":[");
        buf_add_bytes(p, buf_bytes(&exemplar));
        buf_add_char(p, ']');
        p->failed = p->failed || exemplar.failed;
        buf_fini(&exemplar);
    }
    buf_add_char(p, '}');
    if (rc == OTL_OK)
        request_end_point(q, "]}}]}]}");
    return rc;
}

static enum otl_err take_sample(struct openmetrics *o, struct request *q, int64_t now_ns,
                                struct bytes line, struct otl_error *err)
{
    struct sample s;
    const char *suffix;
    int64_t time_ns = now_ns;
    enum otl_err rc = read_sample(o, line, &s, err);

    if (rc != OTL_OK)
        return rc;
    if (s.time.n > 0 && (!parse_seconds(s.time, &time_ns) || time_ns < 0))
        return otl_fail(err, OTL_EBADDATA, "the time is no seconds since 1970: %.*s", shown(s.time),
                        (const char *)s.time.p);
    suffix = suffix_of(o, s.name);
    if (suffix == NULL) {
        /* A sample without a family is of an unknown one. */
        rc = flush_point(o, q, err);
        if (rc != OTL_OK)
            return rc;
        buf_reset(&o->family);
        buf_reset(&o->unit);
        buf_reset(&o->help);
        o->type = FAMILY_UNKNOWN;
        o->was = NULL;
    }
    if (suffix != NULL && (o->type == FAMILY_HISTOGRAM || o->type == FAMILY_SUMMARY))
        return take_part(o, q, &s, suffix, time_ns, err);
    return take_number(o, q, &s, suffix, time_ns, err);
}

/* ---- `# TYPE` and the like ---- */

static enum otl_err take_comment(struct openmetrics *o, struct request *q, struct bytes line,
                                 struct otl_error *err)
{
    static const struct {
        const char *name;
        enum family_type type;
    } types[] = {{"counter", FAMILY_COUNTER},
                 {"histogram", FAMILY_HISTOGRAM},
                 {"summary", FAMILY_SUMMARY},
                 {"gauge", FAMILY_GAUGE}};
    static const char *const others[] = {"unknown", "info", "stateset"};
    size_t at = 1;
    struct bytes word = next_word(line, &at), name, type;
    enum otl_err rc = OTL_OK;

    if (bytes_equal(word, bytes_str("EOF")) && line.n == at) {
        o->ended = true;
        return flush_point(o, q, err);
    }
    if (!bytes_equal(word, bytes_str("TYPE")) && !bytes_equal(word, bytes_str("HELP")) &&
        !bytes_equal(word, bytes_str("UNIT")))
        return OTL_OK; /* a comment */
    name = next_word(line, &at);
    if (name.n >= 2 && name.p[0] == '"' && name.p[name.n - 1] == '"')
        name = bytes_of(name.p + 1, name.n - 2);
    if (name.n == 0)
        return malformed(line, at, "a name must follow", err);
    /* The older text format has a counter's suffix in the family's name. */
    if (o->type == FAMILY_COUNTER && name.n == o->family.n + 6 && o->family.n > 0 &&
        memcmp(name.p, o->family.p, o->family.n) == 0 &&
        memcmp(name.p + o->family.n, "_total", 6) == 0)
        name.n = o->family.n;
    if (!bytes_equal(name, buf_bytes(&o->family))) {
        rc = flush_point(o, q, err);
        buf_reset(&o->family);
        buf_add_bytes(&o->family, name);
        buf_reset(&o->unit);
        buf_reset(&o->help);
        buf_reset(&o->created_key);
        o->type = FAMILY_UNKNOWN;
        o->was = NULL;
    }
    if (bytes_equal(word, bytes_str("TYPE"))) {
        type = next_word(line, &at);
        for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
            if (bytes_equal(type, bytes_str(types[i].name)))
                o->type = types[i].type;
        }
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
            if (bytes_equal(type, bytes_str(others[i])))
                o->was = others[i];
        }
        if (o->type == FAMILY_COUNTER && o->family.n > 6 &&
            memcmp(o->family.p + o->family.n - 6, "_total", 6) == 0)
            o->family.n -= 6;
    } else if (bytes_equal(word, bytes_str("UNIT"))) {
        type = next_word(line, &at);
        buf_reset(&o->unit);
        buf_add_bytes(&o->unit, type);
    } else {
        skip_blanks(line, &at);
        (void)unescape(line, &at, 0, &o->help);
    }
    if (o->family.failed || o->unit.failed || o->help.failed)
        return no_memory(err);
    return rc;
}

enum otl_err openmetrics_line(struct openmetrics **po, struct request *q, int64_t now_ns,
                              struct bytes line, struct otl_error *err)
{
    struct openmetrics *o = *po;

    if (o == NULL) {
        o = calloc(1, sizeof(*o));
        if (o == NULL)
            return no_memory(err);
        *po = o;
    }
    while (line.n > 0 && (line.p[line.n - 1] == '\n' || line.p[line.n - 1] == '\r'))
        line.n--;
    if (line.n == 0)
        return OTL_OK;
    if (o->ended)
        return otl_fail(err, OTL_EBADDATA, "there is more behind # EOF");
    return line.p[0] == '#' ? take_comment(o, q, line, err) : take_sample(o, q, now_ns, line, err);
}

enum otl_err openmetrics_end(struct openmetrics *o, struct request *q, struct otl_error *err)
{
    return o == NULL ? OTL_OK : flush_point(o, q, err);
}
