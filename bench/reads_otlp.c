#include "reads_otlp.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* le of the buckets of the latency histogram. */
static const char *const bounds[GEN_INSTANCES] = {"0.005", "0.01", "0.025", "0.05", "0.1",
                                                  "0.25",  "0.5",  "1",     "2.5",  "+Inf"};

void reads_service(uint32_t service, char out[16])
{
    snprintf(out, 16, "svc-%05u", service % 100000);
}

const char *reads_environment(uint32_t service)
{
    return gen_is_production(service) ? "production" : "staging";
}

void reads_instance(uint32_t series, char out[16])
{
    snprintf(out, 16, "i-%08u", series % 100000000);
}

const char *reads_label_key(uint32_t series, enum gen_mix mix)
{
    return mix == GEN_REALISTIC && gen_metric(series) == 3 ? "le" : "http.route";
}

void reads_label_value(uint32_t series, enum gen_mix mix, char out[24])
{
    if (mix == GEN_REALISTIC && gen_metric(series) == 3)
        snprintf(out, 24, "%s", bounds[gen_instance(series)]);
    else
        snprintf(out, 24, "/api/v1/items/%u", gen_instance(series));
}

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

static void put_bytes(struct buf *b, unsigned number, struct bytes s)
{
    put_tag(b, number, 2);
    put_varint(b, s.n);
    buf_add_bytes(b, s);
}

static void put_attribute(struct buf *b, unsigned number, const char *key, const char *value)
{
    size_t key_n = strlen(key), value_n = strlen(value);

    /* Below 128 bytes in all, so each length is one byte. */
    put_tag(b, number, 2);
    put_varint(b, 6 + key_n + value_n);
    put_bytes(b, 1, bytes_str(key));
    put_tag(b, 2, 2);
    put_varint(b, 2 + value_n);
    put_bytes(b, 1, bytes_str(value));
}

/* A fixed field that is filled later; returns where. */
static uint32_t put_hole(struct buf *b, unsigned number)
{
    put_tag(b, number, 1);
    buf_add(b, "\0\0\0\0\0\0\0", 8);
    return (uint32_t)b->n - 8;
}

/* child becomes field number of b and is emptied; the places of the series from first on, which
 * were within child, are within b. */
static void put_child(struct reads_request *r, struct buf *b, unsigned number, struct buf *child,
                      uint32_t first, uint32_t end)
{
    uint32_t by;

    put_tag(b, number, 2);
    put_varint(b, child->n);
    by = (uint32_t)b->n;
    for (uint32_t i = first; i < end; i++) {
        r->value_at[i] += by;
        r->time_at[i] += by;
        if (r->start_at[i] != 0)
            r->start_at[i] += by;
    }
    buf_add_bytes(b, buf_bytes(child));
    b->failed = b->failed || child->failed;
    buf_reset(child);
}

static bool is_counter(const struct series_gen *g, uint32_t series)
{
    return g->opts.mix != GEN_IDLE && gen_metric(series) < GEN_COUNTERS;
}

static void put_point(struct reads_request *r, struct buf *b, const struct series_gen *g,
                      uint32_t i)
{
    uint32_t s = r->first + i;
    bool whole = gen_decimals(g->opts.mix, gen_metric(s)) == 0;
    char text[24];

    r->start_at[i] = is_counter(g, s) ? put_hole(b, 2) : 0;
    r->time_at[i] = put_hole(b, 3);
    r->value_at[i] = put_hole(b, whole ? 6 : 4);
    reads_instance(s, text);
    put_attribute(b, 7, "instance", text);
    reads_label_value(s, g->opts.mix, text);
    put_attribute(b, 7, reads_label_key(s, g->opts.mix), text);
}

static void put_metric(struct reads_request *r, struct buf *data, struct buf *out,
                       const struct series_gen *g, uint32_t first)
{
    uint32_t s = r->first + first;

    if (is_counter(g, s)) {
        put_tag(data, 2, 0);
        put_varint(data, 2); /* cumulative */
        put_tag(data, 3, 0);
        put_varint(data, 1); /* monotonic */
    }
    put_bytes(out, 1, bytes_str(gen_metric_name(gen_metric(s))));
    put_child(r, out, is_counter(g, s) ? 7 : 5, data, first, first + GEN_INSTANCES);
}

enum otl_err reads_request_init(struct reads_request *r, const struct series_gen *g,
                                uint32_t service, uint32_t services, struct otl_error *err)
{
    struct buf point = {0}, data = {0}, metric = {0}, scope = {0}, resource = {0};
    char text[24];
    bool failed;

    memset(r, 0, sizeof(*r));
    r->first = service * GEN_OF_SERVICE;
    r->n = services * GEN_OF_SERVICE;
    r->value_at = calloc(r->n, sizeof(*r->value_at));
    r->time_at = calloc(r->n, sizeof(*r->time_at));
    r->start_at = calloc(r->n, sizeof(*r->start_at));
    failed = r->value_at == NULL || r->time_at == NULL || r->start_at == NULL;
    for (uint32_t i = 0; i < r->n && !failed; i++) {
        uint32_t first = i + 1 - GEN_INSTANCES, of_service = i + 1 - GEN_OF_SERVICE;

        put_point(r, &point, g, i);
        put_child(r, &data, 1, &point, i, i + 1);
        if ((i + 1) % GEN_INSTANCES != 0)
            continue;
        put_metric(r, &data, &metric, g, first);
        put_child(r, &scope, 2, &metric, first, i + 1);
        if ((i + 1) % GEN_OF_SERVICE != 0)
            continue;
        reads_service(gen_service(r->first + i), text);
        put_attribute(&data, 1, "service.name", text);
        put_attribute(&data, 1, "environment", reads_environment(gen_service(r->first + i)));
        put_child(r, &resource, 1, &data, 0, 0);
        put_child(r, &resource, 2, &scope, of_service, i + 1);
        put_child(r, &r->body, 1, &resource, of_service, i + 1);
    }
    failed = failed || r->body.failed;
    buf_fini(&point);
    buf_fini(&data);
    buf_fini(&metric);
    buf_fini(&scope);
    buf_fini(&resource);
    if (failed) {
        reads_request_fini(r);
        return otl_fail(err, OTL_ENOMEM, "no memory for the requests");
    }
    return OTL_OK;
}

void reads_request_fini(struct reads_request *r)
{
    buf_fini(&r->body);
    free(r->value_at);
    free(r->time_at);
    free(r->start_at);
    memset(r, 0, sizeof(*r));
}

static void fill(struct reads_request *r, uint32_t at, uint64_t bits)
{
    uint64_t le = htole64(bits);

    memcpy(r->body.p + at, &le, sizeof(le));
}

void reads_request_fill(struct reads_request *r, const struct series_gen *g)
{
    for (uint32_t i = 0; i < r->n; i++) {
        uint32_t s = r->first + i;
        unsigned decimals = gen_decimals(g->opts.mix, gen_metric(s));
        uint64_t bits = (uint64_t)g->values[s];
        double d = gen_double(g->values[s], decimals);

        if (decimals > 0)
            memcpy(&bits, &d, sizeof(bits));
        fill(r, r->value_at[i], bits);
        fill(r, r->time_at[i], (uint64_t)gen_time_ns(&g->opts, gen_service(s), g->interval));
        if (r->start_at[i] != 0)
            fill(r, r->start_at[i], (uint64_t)g->starts_ns[s]);
    }
}
