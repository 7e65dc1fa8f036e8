/* template_proto.c -- OTLP/protobuf. A message is written into a buffer of its own first, since its
 * length stands before it; the patches it holds move along when it is put into its parent. */
#include <endian.h>

#include "template_encode.h"

/* One buffer for each level that is being written. */
struct levels {
    struct buf leaf, part, point, data, metric, scope, resource;
};

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

/* Zigzag. */
static void put_sint32(struct buf *b, unsigned number, int32_t v)
{
    put_uint(b, number, v < 0 ? ~((uint64_t)(int64_t)v << 1) & UINT32_MAX : (uint64_t)v << 1);
}

static void put_bits64(struct buf *b, uint64_t v)
{
    uint64_t le = htole64(v);

    buf_add(b, &le, sizeof(le));
}

static void put_fixed64(struct buf *b, unsigned number, uint64_t v)
{
    put_tag(b, number, 1);
    put_bits64(b, v);
}

static uint64_t bits_of(double v)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof(bits));
    return bits;
}

static void put_double(struct buf *b, unsigned number, double v)
{
    put_fixed64(b, number, bits_of(v));
}

static void put_string(struct buf *b, unsigned number, const char *s)
{
    put_tag(b, number, 2);
    put_varint(b, strlen(s));
    buf_add_str(b, s);
}

/* A fixed64 or double field that changes. */
static void put_changing(struct buf *b, struct encoder *e, unsigned number, struct number v,
                         enum patch_form form)
{
    put_fixed64(b, number, 0);
    encoder_patch(e, b->n - 8, v, form, 8);
}

/* child becomes a field of b and is emptied; the patches from the given one on were within it. */
static void put_message(struct buf *b, struct encoder *e, unsigned number, struct buf *child,
                        unsigned from)
{
    put_tag(b, number, 2);
    put_varint(b, child->n);
    for (unsigned i = from; i < e->n; i++)
        e->patches[i].at += (uint32_t)b->n;
    buf_add_bytes(b, buf_bytes(child));
    b->failed = b->failed || child->failed;
    buf_reset(child);
}

static void put_attribute(struct buf *b, unsigned number, const char *key, const char *text)
{
    size_t key_n = strlen(key), text_n = strlen(text);

    /* Below 128 bytes in all, so each length is one byte. */
    put_tag(b, number, 2);
    put_varint(b, 2 + key_n + 4 + text_n);
    put_string(b, 1, key);
    put_tag(b, 2, 2);
    put_varint(b, 2 + text_n);
    put_string(b, 1, text);
}

/* An id as bytes, most significant first: 8 that change, behind those of front if there is one. */
static void put_id(struct buf *b, struct encoder *e, unsigned number, const uint64_t *front)
{
    put_tag(b, number, 2);
    put_varint(b, front == NULL ? 8 : 16);
    if (front != NULL) {
        uint64_t be = htobe64(*front);

        buf_add(b, &be, sizeof(be));
    }
    encoder_patch(e, b->n, exemplar_id, FORM_BIG64, 8);
    put_bits64(b, 0);
}

/* value: NULL for the integer 1. */
static void put_exemplar(struct levels *l, struct encoder *e, unsigned number,
                         const struct texts *text, uint32_t series, const double *value)
{
    uint64_t trace = exemplar_trace(series);
    unsigned from = e->n;

    put_changing(&l->leaf, e, 2, point_time, FORM_FIXED64);
    if (value != NULL)
        put_double(&l->leaf, 3, *value);
    put_id(&l->leaf, e, 4, NULL);
    put_id(&l->leaf, e, 5, &trace);
    if (value == NULL)
        put_fixed64(&l->leaf, 6, 1);
    put_attribute(&l->leaf, 7, "user.id", text->user);
    put_message(&l->point, e, number, &l->leaf, from);
}

static void put_histogram(struct levels *l, struct encoder *e)
{
    struct buf *b = &l->point;

    put_changing(b, e, 4, histogram_count, FORM_FIXED64);
    put_changing(b, e, 5, histogram_sum, FORM_DOUBLE);
    put_tag(b, 6, 2);
    put_varint(b, 8 * (BOUNDS + 1));
    put_bits64(b, 0);
    for (unsigned i = 1; i <= BOUNDS; i++) {
        encoder_patch(e, b->n, histogram_bucket(i), FORM_FIXED64, 8);
        put_bits64(b, 0);
    }
    put_tag(b, 7, 2);
    put_varint(b, 8 * BOUNDS);
    for (unsigned i = 0; i < BOUNDS; i++)
        put_bits64(b, bits_of(histogram_bounds[i]));
}

static void put_exponential(struct levels *l, struct encoder *e)
{
    struct buf *b = &l->point;
    unsigned from;

    put_changing(b, e, 4, exponential_count, FORM_FIXED64);
    put_changing(b, e, 5, exponential_sum, FORM_DOUBLE);
    put_sint32(b, 6, EXPONENTIAL_SCALE);
    put_changing(b, e, 7, exponential_zero, FORM_FIXED64);
    from = e->n;
    put_sint32(&l->leaf, 1, EXPONENTIAL_OFFSET);
    put_tag(&l->leaf, 2, 2);
    put_varint(&l->leaf, 5 * EXPONENTIAL_BUCKETS);
    for (unsigned i = 0; i < EXPONENTIAL_BUCKETS; i++) {
        encoder_patch(e, l->leaf.n, exponential_bucket(i), FORM_VARINT5, 5);
        buf_add(&l->leaf, "\0\0\0\0", 5);
    }
    put_message(b, e, 8, &l->leaf, from);
}

static void put_summary(struct levels *l, struct encoder *e)
{
    put_changing(&l->point, e, 4, summary_count, FORM_FIXED64);
    put_changing(&l->point, e, 5, summary_sum, FORM_DOUBLE);
    for (unsigned i = 0; i < QUANTILES; i++) {
        unsigned from = e->n;

        put_double(&l->leaf, 1, summary_quantiles[i].quantile);
        put_changing(&l->leaf, e, 2, summary_quantiles[i].value, FORM_DOUBLE_QUARTERS);
        put_message(&l->point, e, 6, &l->leaf, from);
    }
}

/* Numbers of the attributes' field, and of the metric's field for its data. */
static const struct {
    unsigned attributes, data;
} numbers[KINDS] = {
    [KIND_GAUGE_INT] = {7, 5}, [KIND_GAUGE_DOUBLE] = {7, 5}, [KIND_SUM] = {7, 7},
    [KIND_HISTOGRAM] = {9, 9}, [KIND_EXPONENTIAL] = {1, 10}, [KIND_SUMMARY] = {7, 11},
};

static void put_point(struct levels *l, struct encoder *e, const struct texts *text,
                      uint32_t series)
{
    struct buf *b = &l->point;
    unsigned attributes = numbers[text->kind].attributes;

    put_fixed64(b, 2, (uint64_t)e->opts->start_ns);
    put_changing(b, e, 3, point_time, FORM_FIXED64);
    switch (text->kind) {
    case KIND_GAUGE_INT:
        put_changing(b, e, 6, gauge_int_value, FORM_FIXED64);
        break;
    case KIND_GAUGE_DOUBLE:
        put_changing(b, e, 4, gauge_quarters, FORM_DOUBLE_QUARTERS);
        break;
    case KIND_HISTOGRAM:
        put_histogram(l, e);
        put_exemplar(l, e, 8, text, series, &histogram_exemplar);
        put_double(b, 11, histogram_min);
        put_double(b, 12, histogram_max);
        break;
    case KIND_EXPONENTIAL:
        put_exponential(l, e);
        put_exemplar(l, e, 11, text, series, &exponential_exemplar);
        put_double(b, 12, exponential_min);
        put_double(b, 13, exponential_max);
        break;
    case KIND_SUMMARY:
        put_summary(l, e);
        break;
    default: /* KIND_SUM */
        put_changing(b, e, 6, sum_value, FORM_FIXED64);
        if (e->opts->mix == MIX_ALL)
            put_exemplar(l, e, 5, text, series, NULL);
        break;
    }
    put_attribute(b, attributes, "http.route", text->route);
    put_attribute(b, attributes, "http.request.method", text->method);
    put_attribute(b, attributes, "server.address", text->node);
}

/* l->data, which holds the points of a metric, becomes the metric. */
static void put_metric(struct levels *l, struct encoder *e, const struct texts *text, unsigned from)
{
    enum metric_kind kind = text->kind;

    if (kind == KIND_SUM || kind == KIND_HISTOGRAM || kind == KIND_EXPONENTIAL)
        put_uint(&l->data, 2, 2); /* cumulative */
    if (kind == KIND_SUM)
        put_uint(&l->data, 3, 1); /* monotonic */
    put_string(&l->metric, 1, text->metric);
    put_string(&l->metric, 3, text->unit);
    put_message(&l->metric, e, numbers[kind].data, &l->data, from);
    put_message(&l->scope, e, 2, &l->metric, from);
}

void encode_proto(struct buf *out, struct encoder *e, struct texts *text)
{
    struct levels l = {0};
    unsigned metric_from = 0;

    put_string(&l.part, 1, "otlite-bench");
    put_string(&l.part, 2, OTLITE_VERSION);
    put_message(&l.scope, e, 1, &l.part, e->n);
    for (unsigned i = 0; i < e->n_fields; i++) {
        struct template_field *f = &e->fields[i];

        texts_of_series(text, e->opts, encoder_series(e, i));
        f->patch = e->n;
        put_point(&l, e, text, f->series);
        f->patches = e->n - f->patch;
        put_message(&l.data, e, 1, &l.point, f->patch);
        if (!encoder_ends_metric(e, i))
            continue;
        put_metric(&l, e, text, metric_from);
        metric_from = e->n;
    }
    put_attribute(&l.part, 1, "service.name", text->service);
    put_message(&l.resource, e, 1, &l.part, e->n);
    put_message(&l.resource, e, 2, &l.scope, 0);
    put_message(out, e, 1, &l.resource, 0);
    buf_fini(&l.leaf);
    buf_fini(&l.part);
    buf_fini(&l.point);
    buf_fini(&l.data);
    buf_fini(&l.metric);
    buf_fini(&l.scope);
    buf_fini(&l.resource);
}
