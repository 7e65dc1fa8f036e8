#include "template.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    SERIES_A_METRIC = 10,
    TIME_DIGITS = 19, /* nanoseconds from 2001 to 2286 */
    VALUE_DIGITS = 16,
    SERIES_DIGITS = 6, /* of a shared JSON value: 1, nine digits of the pass, six of the series */
    SERIES_BYTES = 3,  /* of a shared protobuf value: three bytes of the series, five of the pass */
    MAX_POINTS = 100000,
    MAX_SERIES = 10000000
};

/* All templates of a set, at most. */
#define MAX_SET_BYTES (UINT64_C(2) << 30)

#define SHARED_SERIES     UINT32_C(1000000) /* series numbers repeat beyond this; 10^SERIES_DIGITS */
#define SHARED_JSON_FIRST INT64_C(1000000000000000)

/* What stands for the time and the pass while a body is compressed: bytes found nowhere else in it,
 * so that each later occurrence can only be compressed as a reference to the first. */
#define MARK_TIME_PROTO UINT64_C(0x1bd3f1a7c59ee3b9)
#define MARK_PASS_PROTO UINT64_C(0x5ad7e6cb97)
#define MARK_TIME_JSON  INT64_C(7495039586172940683)
#define MARK_PASS_JSON  UINT64_C(864209753)

static const char *const methods[] = {"GET", "PUT", "POST", "PATCH", "DELETE"};

int64_t template_increment(uint32_t series, uint64_t sending)
{
    return 1 + (int64_t)((series * UINT64_C(7) + sending * UINT64_C(13)) & 63U);
}

int64_t template_shared_value(bool json, uint32_t series, uint64_t pass)
{
    if (json)
        return SHARED_JSON_FIRST + (int64_t)(pass % UINT64_C(1000000000)) * SHARED_SERIES +
               (int64_t)(series % SHARED_SERIES);
    return (int64_t)((pass & UINT64_C(0x7fffffffff)) << (8 * SERIES_BYTES) |
                     (uint64_t)(series % SHARED_SERIES));
}

/* --- protobuf --- */

static void put_varint(struct buf *b, uint64_t v)
{
    while (v >= 0x80) {
        buf_add_char(b, (char)(v | 0x80));
        v >>= 7;
    }
    buf_add_char(b, (char)v);
}

static void put_tag(struct buf *b, unsigned number, unsigned wire_type)
{
    put_varint(b, (uint64_t)number << 3 | wire_type);
}

static void put_uint(struct buf *b, unsigned number, uint64_t v)
{
    put_tag(b, number, 0);
    put_varint(b, v);
}

static void put_fixed64(struct buf *b, unsigned number, uint64_t v)
{
    uint64_t le = htole64(v);

    put_tag(b, number, 1);
    buf_add(b, &le, sizeof(le));
}

static void put_string(struct buf *b, unsigned number, const char *s)
{
    put_tag(b, number, 2);
    put_varint(b, strlen(s));
    buf_add_str(b, s);
}

/* child becomes a field of b and is emptied; the fields from the given one on, whose offsets were
 * within child, get offsets within b. */
static void put_message(struct buf *b, unsigned number, struct buf *child,
                        struct template_field *fields, unsigned from, unsigned to)
{
    put_tag(b, number, 2);
    put_varint(b, child->n);
    for (unsigned i = from; i < to; i++) {
        fields[i].time_at += (uint32_t)b->n;
        fields[i].value_at += (uint32_t)b->n;
    }
    buf_add_bytes(b, buf_bytes(child));
    b->failed = b->failed || child->failed;
    buf_reset(child);
}

static void put_attribute(struct buf *b, unsigned number, const char *key, const char *text)
{
    struct buf pair = {0}, value = {0};

    put_string(&pair, 1, key);
    put_string(&value, 1, text);
    put_message(&pair, 2, &value, NULL, 0, 0);
    put_message(b, number, &pair, NULL, 0, 0);
    buf_fini(&pair);
    buf_fini(&value);
}

/* --- content, the same in both encodings --- */

struct texts {
    char service[32], metric[40], route[40], node[40];
    const char *method;
};

static void texts_of_series(struct texts *t, unsigned s)
{
    snprintf(t->metric, sizeof(t->metric), "bench.requests.%05u", s / SERIES_A_METRIC);
    snprintf(t->route, sizeof(t->route), "/api/v1/items/%05u", s);
    snprintf(t->node, sizeof(t->node), "node-%04u.cluster", s % 10000);
    t->method = methods[s % (sizeof(methods) / sizeof(methods[0]))];
}

/* The series, within its service, of the i-th point of request r of that service. */
static unsigned series_at(const struct template_opts *o, unsigned r, unsigned i)
{
    unsigned of_service = o->series / o->services;

    return (r * o->points + i) % of_service;
}

static void encode_proto_point(struct buf *b, const struct template_opts *o, const struct texts *t,
                               struct template_field *f)
{
    put_fixed64(b, 2, (uint64_t)o->start_ns);
    put_fixed64(b, 3, 0);
    f->time_at = (uint32_t)b->n - 8U;
    put_fixed64(b, 6, 0);
    f->value_at = (uint32_t)b->n - 8U;
    put_attribute(b, 7, "http.route", t->route);
    put_attribute(b, 7, "http.request.method", t->method);
    put_attribute(b, 7, "server.address", t->node);
}

static void encode_proto(struct buf *out, const struct template_opts *o, struct template *t,
                         struct texts *text, unsigned request)
{
    struct buf point = {0}, sum = {0}, metric = {0}, scope = {0}, part = {0}, resource = {0};
    unsigned first = 0; /* field of the metric being built */

    put_string(&part, 1, "otlite-bench");
    put_string(&part, 2, OTLITE_VERSION);
    put_message(&scope, 1, &part, NULL, 0, 0);
    for (unsigned i = 0; i < t->n_fields; i++) {
        unsigned s = series_at(o, request, i);
        bool last = i + 1 == t->n_fields ||
                    series_at(o, request, i + 1) / SERIES_A_METRIC != s / SERIES_A_METRIC;

        texts_of_series(text, s);
        encode_proto_point(&point, o, text, &t->fields[i]);
        put_message(&sum, 1, &point, t->fields, i, i + 1);
        if (!last)
            continue;
        put_uint(&sum, 2, 2); /* cumulative */
        put_uint(&sum, 3, 1); /* monotonic */
        put_string(&metric, 1, text->metric);
        put_string(&metric, 3, "{request}");
        put_message(&metric, 7, &sum, t->fields, first, i + 1);
        put_message(&scope, 2, &metric, t->fields, first, i + 1);
        first = i + 1;
    }
    put_attribute(&part, 1, "service.name", text->service);
    put_message(&resource, 1, &part, NULL, 0, 0);
    put_message(&resource, 2, &scope, t->fields, 0, t->n_fields);
    put_message(out, 1, &resource, t->fields, 0, t->n_fields);
    buf_fini(&point);
    buf_fini(&sum);
    buf_fini(&metric);
    buf_fini(&scope);
    buf_fini(&part);
    buf_fini(&resource);
}

/* Fixed width: all the texts are plain ASCII that JSON needs no escapes for. */
static void encode_json(struct buf *b, const struct template_opts *o, struct template *t,
                        struct texts *text, unsigned request)
{
    bool open = false; /* inside a metric */

    buf_printf(b,
               "{\"resourceMetrics\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\","
               "\"value\":{\"stringValue\":\"%s\"}}]},\"scopeMetrics\":[{\"scope\":{\"name\":"
               "\"otlite-bench\",\"version\":\"" OTLITE_VERSION "\"},\"metrics\":[",
               text->service);
    for (unsigned i = 0; i < t->n_fields; i++) {
        unsigned s = series_at(o, request, i);
        bool last = i + 1 == t->n_fields ||
                    series_at(o, request, i + 1) / SERIES_A_METRIC != s / SERIES_A_METRIC;

        texts_of_series(text, s);
        if (!open)
            buf_printf(b,
                       "%s{\"name\":\"%s\",\"unit\":\"{request}\",\"sum\":{"
                       "\"aggregationTemporality\":2,\"isMonotonic\":true,\"dataPoints\":[",
                       i > 0 ? "," : "", text->metric);
        buf_printf(b, "%s{\"startTimeUnixNano\":\"%0*" PRId64 "\",\"timeUnixNano\":\"",
                   open ? "," : "", TIME_DIGITS, o->start_ns);
        t->fields[i].time_at = (uint32_t)b->n;
        buf_printf(b, "%0*d\",\"asInt\":\"", TIME_DIGITS, 0);
        t->fields[i].value_at = (uint32_t)b->n;
        buf_printf(b,
                   "%0*d\",\"attributes\":["
                   "{\"key\":\"http.route\",\"value\":{\"stringValue\":\"%s\"}},"
                   "{\"key\":\"http.request.method\",\"value\":{\"stringValue\":\"%s\"}},"
                   "{\"key\":\"server.address\",\"value\":{\"stringValue\":\"%s\"}}]}%s",
                   VALUE_DIGITS, 0, text->route, text->method, text->node, last ? "]}}" : "");
        open = !last;
    }
    buf_add_str(b, "]}]}]}");
}

/* --- changing a body in place --- */

static void write_digits(uint8_t *at, unsigned width, uint64_t v)
{
    while (width > 0) {
        at[--width] = (uint8_t)('0' + v % 10);
        v /= 10;
    }
}

static void write_number(uint8_t *at, bool json, unsigned width, int64_t v)
{
    uint64_t le = htole64((uint64_t)v);

    if (json)
        write_digits(at, width, (uint64_t)v);
    else
        memcpy(at, &le, sizeof(le));
}

static void write_field(uint8_t *body, bool json, const struct template_field *f, int64_t time,
                        int64_t value)
{
    write_number(body + f->time_at, json, TIME_DIGITS, time);
    write_number(body + f->value_at, json, VALUE_DIGITS, value);
}

/* The last byte of the first point's changing fields, plus one: where the stored block ends. */
static size_t stored_size(const struct template *t)
{
    return t->fields[0].value_at + (t->opts->json ? (size_t)VALUE_DIGITS : sizeof(uint64_t));
}

static void write_le32(uint8_t *at, uint32_t v)
{
    uint32_t le = htole32(v);

    memcpy(at, &le, sizeof(le));
}

/* gzip: bring all points of the plain body, the stored block and the checksum to this pass. */
static void write_shared(struct template *t, int64_t time, uint64_t pass)
{
    bool json = t->opts->json;
    uLong crc;

    for (unsigned i = 0; i < t->n_fields; i++)
        write_field(t->plain.p, json, &t->fields[i], time,
                    template_shared_value(json, t->fields[i].series, pass));
    memcpy(t->wire.p + t->stored_at, t->plain.p, stored_size(t));
    crc = crc32_z(crc32_z(0, NULL, 0), t->plain.p, t->plain.n);
    write_le32(t->wire.p + t->wire.n - 8, (uint32_t)crc);
}

/* --- gzip --- */

/* Append the deflate stream of plain behind its first `stored` bytes, which serve as dictionary. */
static enum otl_err deflate_rest(struct buf *out, const struct buf *plain, size_t stored,
                                 struct otl_error *err)
{
    z_stream z = {0};
    uLong bound;
    int rc;

    if (deflateInit2(&z, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY) != Z_OK)
        return otl_fail(err, OTL_ENOMEM, "no memory for compression");
    rc = deflateSetDictionary(&z, plain->p, (uInt)stored);
    bound = deflateBound(&z, (uLong)(plain->n - stored));
    if (rc == Z_OK && buf_reserve(out, bound)) {
        z.next_in = plain->p + stored;
        z.avail_in = (uInt)(plain->n - stored);
        z.next_out = out->p + out->n;
        z.avail_out = (uInt)bound;
        rc = deflate(&z, Z_FINISH);
        out->n += bound - z.avail_out;
    }
    deflateEnd(&z);
    if (rc != Z_STREAM_END)
        return otl_fail(err, out->failed ? OTL_ENOMEM : OTL_EINTERNAL, "cannot compress a request");
    return OTL_OK;
}

/* Does the gzip body as it stands inflate to the plain body as it stands? */
static bool inflates_to_plain(const struct template *t)
{
    struct bytes body = template_body(t);
    uint8_t *got = malloc(t->plain.n + 1);
    z_stream z = {0};
    bool ok = false;

    if (got != NULL && inflateInit2(&z, 15 + 16) == Z_OK) {
        /* zlib's next_in is not const-qualified, but it only reads. */
        z.next_in = t->wire.p + t->body_at;
        z.avail_in = (uInt)body.n;
        z.next_out = got;
        z.avail_out = (uInt)t->plain.n + 1;
        ok = inflate(&z, Z_FINISH) == Z_STREAM_END && z.avail_in == 0 && z.avail_out == 1 &&
             memcmp(got, t->plain.p, t->plain.n) == 0;
        inflateEnd(&z);
    }
    free(got);
    return ok;
}

/* t->plain becomes a gzip body: header, first point stored, the rest compressed against it. */
static enum otl_err compress_body(struct template *t, struct buf *body, size_t *out_stored_at,
                                  struct otl_error *err)
{
    static const uint8_t head[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
    bool json = t->opts->json;
    size_t stored = stored_size(t);
    uint8_t block[5], trailer[8] = {0};
    enum otl_err rc;

    if (stored > 32768)
        return otl_fail(err, OTL_EINTERNAL, "the first point is too large for --gzip");
    for (unsigned i = 0; i < t->n_fields; i++) {
        int64_t mark = template_shared_value(json, t->fields[i].series,
                                             json ? MARK_PASS_JSON : MARK_PASS_PROTO);

        write_field(t->plain.p, json, &t->fields[i],
                    json ? MARK_TIME_JSON : (int64_t)MARK_TIME_PROTO, mark);
    }
    buf_add(body, head, sizeof(head));
    block[0] = 0; /* not the last block; stored */
    block[1] = (uint8_t)(stored & 0xff);
    block[2] = (uint8_t)(stored >> 8);
    block[3] = (uint8_t)~block[1];
    block[4] = (uint8_t)~block[2];
    buf_add(body, block, sizeof(block));
    *out_stored_at = body->n;
    buf_add(body, t->plain.p, stored);
    rc = deflate_rest(body, &t->plain, stored, err);
    if (rc != OTL_OK)
        return rc;
    write_le32(trailer + 4, (uint32_t)t->plain.n);
    buf_add(body, trailer, sizeof(trailer));
    return OTL_OK;
}

/* --- sets --- */

static enum otl_err template_init(struct template *t, const struct template_opts *o,
                                  unsigned service, unsigned request, struct otl_error *err)
{
    unsigned of_service = o->series / o->services;
    struct buf body = {0};
    struct texts text;
    size_t stored_at = 0;
    enum otl_err rc = OTL_OK;

    memset(t, 0, sizeof(*t));
    t->opts = o;
    t->last_ns = o->start_ns;
    t->fields = calloc(o->points, sizeof(*t->fields));
    if (t->fields == NULL)
        return otl_fail(err, OTL_ENOMEM, "no memory for the requests");
    t->n_fields = o->points;
    t->distinct = of_service < o->points ? of_service : o->points;
    t->turns = (o->points - 1) / t->distinct + 1;
    for (unsigned i = 0; i < o->points; i++) {
        t->fields[i].series = service * of_service + series_at(o, request, i);
        t->fields[i].turn = i / t->distinct;
        t->fields[i].value = TEMPLATE_FIRST_VALUE + t->fields[i].series;
    }
    snprintf(text.service, sizeof(text.service), "bench-%04u", service);
    if (o->json)
        encode_json(o->gzip ? &t->plain : &body, o, t, &text, request);
    else
        encode_proto(o->gzip ? &t->plain : &body, o, t, &text, request);
    if (o->gzip && !t->plain.failed)
        rc = compress_body(t, &body, &stored_at, err);

    buf_printf(&t->wire,
               "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: otlite-bench/" OTLITE_VERSION "\r\n"
               "Content-Type: application/%s\r\n%s%sContent-Length: %zu\r\n\r\n",
               o->path, o->host, o->json ? "json" : "x-protobuf",
               o->gzip ? "Content-Encoding: gzip\r\n" : "", o->headers, body.n);
    t->body_at = t->wire.n;
    t->stored_at = t->body_at + stored_at;
    buf_add_bytes(&t->wire, buf_bytes(&body));
    if (rc == OTL_OK && (body.failed || t->plain.failed || t->wire.failed))
        rc = otl_fail(err, OTL_ENOMEM, "no memory for the requests");
    buf_fini(&body);
    if (rc == OTL_OK && o->gzip) {
        /* Any pass will do that shares no byte with the marks. */
        write_shared(t, o->start_ns + 1, 1);
        if (!inflates_to_plain(t))
            rc = otl_fail(err, OTL_EINTERNAL,
                          "the compressed request cannot be changed in place; leave out --gzip");
    }
    return rc;
}

static enum otl_err check_numbers(const struct template_opts *o, struct otl_error *err)
{
    unsigned of_service;

    if (o->points < 1 || o->points > MAX_POINTS || o->services < 1 || o->series < 1 ||
        o->series > MAX_SERIES)
        return otl_fail(err, OTL_ECONFIG,
                        "points a request must be 1 to %d, services at least 1, series 1 to %d",
                        MAX_POINTS, MAX_SERIES);
    if (o->series % o->services != 0)
        return otl_fail(err, OTL_ECONFIG,
                        "%u series do not spread evenly over %u services; make --series a multiple "
                        "of --services",
                        o->series, o->services);
    of_service = o->series / o->services;
    if (of_service > o->points ? of_service % o->points != 0 : o->gzip && of_service < o->points)
        return otl_fail(err, OTL_ECONFIG,
                        "a service has %u series and a request %u points; make --series %u times a "
                        "multiple of %u%s",
                        of_service, o->points, o->services, o->points,
                        o->gzip ? "" : ", or smaller");
    /* 450 bytes is above what a point takes in JSON, 180 in protobuf. */
    if ((uint64_t)(of_service < o->points ? o->points : of_service) * o->services *
            (o->json ? 450U : 180U) >
        MAX_SET_BYTES)
        return otl_fail(err, OTL_ECONFIG,
                        "the encoded requests would take more than 2 GiB; lower --series");
    return OTL_OK;
}

enum otl_err template_set_init(struct template_set *set, const struct template_opts *o,
                               struct otl_error *err)
{
    unsigned of_service, a_service;
    enum otl_err rc = check_numbers(o, err);

    memset(set, 0, sizeof(*set));
    if (rc != OTL_OK)
        return rc;
    set->opts = *o;
    of_service = o->series / o->services;
    a_service = of_service > o->points ? of_service / o->points : 1;
    set->templates = calloc((size_t)a_service * o->services, sizeof(*set->templates));
    if (set->templates == NULL)
        return otl_fail(err, OTL_ENOMEM, "no memory for the requests");
    for (unsigned v = 0; v < o->services; v++) {
        for (unsigned r = 0; r < a_service; r++) {
            rc = template_init(&set->templates[set->n++], &set->opts, v, r, err);
            if (rc != OTL_OK) {
                template_set_fini(set);
                return rc;
            }
        }
    }
    return OTL_OK;
}

void template_set_fini(struct template_set *set)
{
    for (unsigned i = 0; i < set->n; i++) {
        buf_fini(&set->templates[i].wire);
        buf_fini(&set->templates[i].plain);
        free(set->templates[i].fields);
    }
    free(set->templates);
    memset(set, 0, sizeof(*set));
}

struct bytes template_next(struct template *t, int64_t wall_ns)
{
    bool json = t->opts->json;
    int64_t time = wall_ns;

    t->pass++;
    if (t->opts->interval_ns > 0)
        time = t->opts->start_ns + (int64_t)t->pass * t->opts->interval_ns;
    if (time <= t->last_ns)
        time = t->last_ns + 1;
    t->last_ns = time + t->turns - 1;
    if (t->opts->gzip) {
        write_shared(t, time, t->pass);
        return buf_bytes(&t->wire);
    }
    for (unsigned i = 0; i < t->n_fields; i++) {
        struct template_field *f = &t->fields[i];
        struct template_field *first = &t->fields[i - f->turn * t->distinct];

        first->value += template_increment(f->series, (t->pass - 1) * t->turns + f->turn + 1);
        write_field(t->wire.p + t->body_at, json, f, time + f->turn, first->value);
    }
    return buf_bytes(&t->wire);
}

struct bytes template_body(const struct template *t)
{
    return bytes_of(t->wire.p + t->body_at, t->wire.n - t->body_at);
}
