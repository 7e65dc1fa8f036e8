/* known_points.c -- one data point from the wire into the struct that protobuf-c would fill
 * (known_walk.h). A field that may occur once may do so once here; an array of numbers comes
 * packed; tags have their usual one byte. */
#include "known_walk.h"
#include "wire.h"

/* The tags of fields below 16, which are all there are. */
#define TAG_VARINT(field) ((field) << 3 | WIRE_VARINT)
#define TAG_64(field)     ((field) << 3 | WIRE_64)
#define TAG_LENGTH(field) ((field) << 3 | WIRE_LENGTH)

/* A message being read. seen has a bit for each field that may not come again. */
struct cursor {
    const uint8_t *p, *end;
    uint32_t seen;
};

static struct cursor cursor_of(struct bytes in)
{
    static const uint8_t nothing[1];
    const uint8_t *p = in.n > 0 ? in.p : nothing;

    return (struct cursor){.p = p, .end = p + in.n};
}

static inline bool first_time(struct cursor *c, unsigned field)
{
    uint32_t bit = UINT32_C(1) << field, seen = c->seen;

    c->seen = seen | bit;
    return (seen & bit) == 0;
}

/* The wire is little-endian; so may the machine be or not. */
static inline uint64_t load_fixed64(const uint8_t *p)
{
    uint64_t v = 0;

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(&v, p, sizeof(v));
#else
    for (int i = 0; i < 8; i++)
        v |= (uint64_t)p[i] << (8 * i);
#endif
    return v;
}

static inline bool take_fixed64(struct cursor *c, unsigned field, uint64_t *out)
{
    if (c->end - c->p < 8 || !first_time(c, field))
        return false;
    *out = load_fixed64(c->p);
    c->p += 8;
    return true;
}

static inline bool take_double(struct cursor *c, unsigned field, double *out)
{
    uint64_t bits;

    if (!take_fixed64(c, field, &bits))
        return false;
    memcpy(out, &bits, sizeof(*out));
    return true;
}

static inline bool take_int64(struct cursor *c, unsigned field, int64_t *out)
{
    uint64_t bits;

    if (!take_fixed64(c, field, &bits))
        return false;
    memcpy(out, &bits, sizeof(*out));
    return true;
}

static bool take_varint(struct cursor *c, unsigned field, uint64_t *out)
{
    return first_time(c, field) && read_varint(&c->p, c->end, MAX_VARINT_BYTES, out);
}

/* What does not fit 32 bits is cut off, as protobuf-c does. */
static bool take_uint32(struct cursor *c, unsigned field, uint32_t *out)
{
    uint64_t v;

    if (!take_varint(c, field, &v))
        return false;
    *out = (uint32_t)v;
    return true;
}

static bool take_sint32(struct cursor *c, unsigned field, int32_t *out)
{
    uint32_t v;

    if (!take_uint32(c, field, &v))
        return false;
    *out = (int32_t)(v >> 1 ^ (0 - (v & 1)));
    return true;
}

/* The content of a length-delimited field, which may come again. */
static inline bool take_sized(struct cursor *c, struct bytes *out)
{
    uint64_t n;

    if (!read_length(&c->p, c->end, &n) || n > (uint64_t)(c->end - c->p))
        return false;
    *out = bytes_of(c->p, (size_t)n);
    c->p += n;
    return true;
}

static bool take_binary(struct cursor *c, unsigned field, ProtobufCBinaryData *out)
{
    struct bytes b;

    if (!first_time(c, field) || !take_sized(c, &b))
        return false;
    /* The struct is protobuf-c's, for building messages too; it is only read here. */
    out->len = b.n;
    out->data = (uint8_t *)(uintptr_t)b.p;
    return true;
}

/* --- attributes ----------------------------------------------------------------------------- */

/* The run of attribute fields whose first tag is at c->p. The expected bytes are whole fields, so
 * the run goes on where they end. */
static inline bool take_attributes(struct wire_point *w, struct cursor *c, unsigned field)
{
    const uint8_t *start = c->p, *expected_end = NULL;
    const uint8_t tag = (uint8_t)TAG_LENGTH(field);
    struct bytes element;

    if (!first_time(c, field))
        return false;
    if (w->expected.n > 0 && w->expected.n <= (size_t)(c->end - start) &&
        memcmp(start, w->expected.p, w->expected.n) == 0)
        c->p = expected_end = start + w->expected.n;
    while (c->p < c->end && *c->p == tag) {
        c->p++;
        if (!take_sized(c, &element))
            return false;
    }
    w->attributes = bytes_of(start, (size_t)(c->p - start));
    w->as_expected = c->p == expected_end;
    return true;
}

static inline void begin_point(struct wire_point *w)
{
    w->attributes = bytes_of(NULL, 0);
    w->as_expected = w->expected.n == 0;
    w->n_exemplars = 0;
    w->n_pairs = 0;
}

bool wire_attributes(enum metric_type type, struct bytes in, struct bytes *out)
{
    const uint32_t field = type == METRIC_HISTOGRAM               ? 9
                           : type == METRIC_EXPONENTIAL_HISTOGRAM ? 1
                                                                  : 7;
    struct cursor c = cursor_of(in);
    struct bytes ignored;

    *out = bytes_of(NULL, 0);
    while (c.p < c.end) {
        const uint8_t *start = c.p;
        uint32_t number;
        unsigned wire;
        uint64_t v;

        if (!read_tag(&c.p, c.end, &number, &wire))
            return false;
        switch (wire) {
        case WIRE_VARINT:
            if (!read_varint(&c.p, c.end, MAX_VARINT_BYTES, &v))
                return false;
            break;
        case WIRE_64:
            if (c.end - c.p < 8)
                return false;
            c.p += 8;
            break;
        case WIRE_LENGTH:
            if (!take_sized(&c, &ignored))
                return false;
            break;
        default:
            return false;
        }
        if (number != field)
            continue;
        if (out->n == 0)
            *out = bytes_of(start, 0);
        else if (out->p + out->n != start)
            return false;
        out->n = (size_t)(c.p - out->p);
    }
    return true;
}

/* --- exemplars ------------------------------------------------------------------------------ */

static bool read_any_value(struct bytes in, Otlp__AnyValue *out)
{
    struct cursor c = cursor_of(in);
    uint64_t v;

    otlp__any_value__init(out);
    if (c.p == c.end)
        return false;
    switch (*c.p++) {
    case TAG_LENGTH(1):
        out->value_case = OTLP__ANY_VALUE__VALUE_STRING_VALUE;
        return take_binary(&c, 1, &out->string_value) && c.p == c.end;
    case TAG_VARINT(2):
        out->value_case = OTLP__ANY_VALUE__VALUE_BOOL_VALUE;
        if (!take_varint(&c, 2, &v) || v > 1)
            return false;
        out->bool_value = (protobuf_c_boolean)v;
        return c.p == c.end;
    case TAG_VARINT(3):
        out->value_case = OTLP__ANY_VALUE__VALUE_INT_VALUE;
        if (!take_varint(&c, 3, &v))
            return false;
        out->int_value = (int64_t)v;
        return c.p == c.end;
    case TAG_64(4):
        out->value_case = OTLP__ANY_VALUE__VALUE_DOUBLE_VALUE;
        return take_double(&c, 4, &out->double_value) && c.p == c.end;
    case TAG_LENGTH(7):
        out->value_case = OTLP__ANY_VALUE__VALUE_BYTES_VALUE;
        return take_binary(&c, 7, &out->bytes_value) && c.p == c.end;
    default:
        return false;
    }
}

static bool read_pair(struct bytes in, Otlp__KeyValue *out, Otlp__AnyValue *value)
{
    struct cursor c = cursor_of(in);
    struct bytes v;

    *out = (Otlp__KeyValue)OTLP__KEY_VALUE__INIT;
    if (c.p == c.end || *c.p++ != TAG_LENGTH(1) || !take_binary(&c, 1, &out->key))
        return false;
    if (c.p == c.end || *c.p++ != TAG_LENGTH(2) || !take_sized(&c, &v) || c.p != c.end)
        return false;
    out->value = value;
    return read_any_value(v, value);
}

static bool take_pair(struct wire_point *w, struct cursor *c)
{
    size_t i = w->n_pairs;
    struct bytes in;

    if (i == WIRE_PAIRS || !take_sized(c, &in) || !read_pair(in, &w->pair[i], &w->value[i]))
        return false;
    w->pairs[i] = &w->pair[i];
    w->n_pairs++;
    return true;
}

static bool read_exemplar(struct wire_point *w, struct bytes in, Otlp__Exemplar *out)
{
    struct cursor c = cursor_of(in);
    size_t first_pair = w->n_pairs;

    *out = (Otlp__Exemplar)OTLP__EXEMPLAR__INIT;
    while (c.p < c.end) {
        bool ok = false;

        switch (*c.p++) {
        case TAG_64(2):
            ok = take_fixed64(&c, 2, &out->time_unix_nano);
            break;
        case TAG_64(3):
            out->value_case = OTLP__EXEMPLAR__VALUE_AS_DOUBLE;
            ok = take_double(&c, 3, &out->as_double);
            break;
        case TAG_64(6): /* in a oneof with 3 */
            out->value_case = OTLP__EXEMPLAR__VALUE_AS_INT;
            ok = take_int64(&c, 3, &out->as_int);
            break;
        case TAG_LENGTH(4):
            ok = take_binary(&c, 4, &out->span_id);
            break;
        case TAG_LENGTH(5):
            ok = take_binary(&c, 5, &out->trace_id);
            break;
        case TAG_LENGTH(7):
            ok = take_pair(w, &c);
            break;
        default:
            break;
        }
        if (!ok)
            return false;
    }
    out->n_filtered_attributes = w->n_pairs - first_pair;
    if (out->n_filtered_attributes > 0)
        out->filtered_attributes = &w->pairs[first_pair];
    return true;
}

static bool take_exemplar(struct wire_point *w, struct cursor *c)
{
    uint32_t i = w->n_exemplars;
    struct bytes in;

    if (i == WIRE_EXEMPLARS || !take_sized(c, &in) || !read_exemplar(w, in, &w->exemplar[i]))
        return false;
    w->exemplars[i] = &w->exemplar[i];
    w->n_exemplars++;
    return true;
}

/* --- arrays --------------------------------------------------------------------------------- */

/* 64-bit numbers under one length, as they lie on the wire; aligned in the arena. */
static bool take_packed_fixed64(struct wire_point *w, struct cursor *c, unsigned field, void **out,
                                size_t *n)
{
    struct bytes in;
    uint8_t *p;

    if (!first_time(c, field) || !take_sized(c, &in) || in.n % 8 != 0)
        return false;
    *n = in.n / 8;
    *out = NULL;
    if (in.n == 0)
        return true;
    p = arena_alloc(w->arena, in.n);
    if (p == NULL)
        return false;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(p, in.p, in.n);
#else
    for (size_t i = 0; i < in.n; i++)
        p[i] = in.p[i / 8 * 8 + (7 - i % 8)];
#endif
    *out = p;
    return true;
}

static bool take_packed_varints(struct wire_point *w, struct cursor *c, unsigned field,
                                uint64_t **out, size_t *out_n)
{
    struct bytes in;
    const uint8_t *p, *end;
    uint64_t *v;
    size_t n = 0;

    if (!first_time(c, field) || !take_sized(c, &in))
        return false;
    for (size_t i = 0; i < in.n; i++)
        n += in.p[i] < 0x80;
    *out_n = n;
    if (in.n == 0)
        return true;
    if (n > SIZE_MAX / sizeof(*v))
        return false;
    v = arena_alloc(w->arena, n * sizeof(*v));
    if (v == NULL)
        return false;
    p = in.p;
    end = in.p + in.n;
    for (size_t i = 0; i < n; i++) {
        if (!read_varint(&p, end, MAX_VARINT_BYTES, &v[i]))
            return false;
    }
    *out = v;
    return p == end;
}

static bool take_buckets(struct wire_point *w, struct cursor *c, unsigned field, Otlp__Buckets *out)
{
    struct bytes in;
    struct cursor b;

    if (!first_time(c, field) || !take_sized(c, &in))
        return false;
    *out = (Otlp__Buckets)OTLP__BUCKETS__INIT;
    b = cursor_of(in);
    while (b.p < b.end) {
        bool ok = false;

        switch (*b.p++) {
        case TAG_VARINT(1):
            ok = take_sint32(&b, 1, &out->offset);
            break;
        case TAG_LENGTH(2):
            ok = take_packed_varints(w, &b, 2, &out->bucket_counts, &out->n_bucket_counts);
            break;
        default:
            break;
        }
        if (!ok)
            return false;
    }
    return true;
}

static bool take_quantile(struct wire_point *w, struct cursor *c)
{
    size_t i = w->n_quantiles;
    Otlp__ValueAtQuantile *out = &w->quantile[i];
    struct bytes in;
    struct cursor q;

    if (i == WIRE_QUANTILES || !take_sized(c, &in))
        return false;
    *out = (Otlp__ValueAtQuantile)OTLP__VALUE_AT_QUANTILE__INIT;
    q = cursor_of(in);
    while (q.p < q.end) {
        bool ok = false;

        switch (*q.p++) {
        case TAG_64(1):
            ok = take_double(&q, 1, &out->quantile);
            break;
        case TAG_64(2):
            ok = take_double(&q, 2, &out->value);
            break;
        default:
            break;
        }
        if (!ok)
            return false;
    }
    w->quantiles[i] = out;
    w->n_quantiles++;
    return true;
}

/* --- points --------------------------------------------------------------------------------- */

/* Senders write fields in order: start, time, value. The three at once; else nothing is taken. */
static inline void take_usual_number(struct cursor *c, Otlp__NumberDataPoint *out)
{
    enum { FIELD = 9, ALL = 3 * FIELD };
    const uint8_t *p = c->p;
    uint64_t bits;

    if (c->end - p < ALL || p[0] != TAG_64(2) || p[FIELD] != TAG_64(3))
        return;
    bits = load_fixed64(p + 2 * FIELD + 1);
    if (p[2 * FIELD] == TAG_64(6)) {
        out->value_case = OTLP__NUMBER_DATA_POINT__VALUE_AS_INT;
        memcpy(&out->as_int, &bits, sizeof(bits));
    } else if (p[2 * FIELD] == TAG_64(4)) {
        out->value_case = OTLP__NUMBER_DATA_POINT__VALUE_AS_DOUBLE;
        memcpy(&out->as_double, &bits, sizeof(bits));
    } else {
        return;
    }
    out->start_time_unix_nano = load_fixed64(p + 1);
    out->time_unix_nano = load_fixed64(p + FIELD + 1);
    c->seen = 1u << 2 | 1u << 3 | 1u << 4;
    c->p = p + ALL;
}

bool wire_number(struct wire_point *w, struct bytes in, Otlp__NumberDataPoint *out)
{
    struct cursor c = cursor_of(in);

    *out = (Otlp__NumberDataPoint)OTLP__NUMBER_DATA_POINT__INIT;
    begin_point(w);
    take_usual_number(&c, out);
    while (c.p < c.end) {
        bool ok = false;

        switch (*c.p) {
        case TAG_64(2):
            c.p++;
            ok = take_fixed64(&c, 2, &out->start_time_unix_nano);
            break;
        case TAG_64(3):
            c.p++;
            ok = take_fixed64(&c, 3, &out->time_unix_nano);
            break;
        case TAG_64(4):
            c.p++;
            out->value_case = OTLP__NUMBER_DATA_POINT__VALUE_AS_DOUBLE;
            ok = take_double(&c, 4, &out->as_double);
            break;
        case TAG_64(6): /* in a oneof with 4 */
            c.p++;
            out->value_case = OTLP__NUMBER_DATA_POINT__VALUE_AS_INT;
            ok = take_int64(&c, 4, &out->as_int);
            break;
        case TAG_LENGTH(5):
            c.p++;
            ok = take_exemplar(w, &c);
            break;
        case TAG_LENGTH(7):
            ok = take_attributes(w, &c, 7);
            break;
        case TAG_VARINT(8):
            c.p++;
            ok = take_uint32(&c, 8, &out->flags);
            break;
        default:
            break;
        }
        if (!ok)
            return false;
    }
    out->n_exemplars = w->n_exemplars;
    out->exemplars = w->exemplars;
    return true;
}

bool wire_histogram(struct wire_point *w, struct bytes in, Otlp__HistogramDataPoint *out)
{
    struct cursor c = cursor_of(in);
    void *numbers = NULL;

    *out = (Otlp__HistogramDataPoint)OTLP__HISTOGRAM_DATA_POINT__INIT;
    begin_point(w);
    while (c.p < c.end) {
        bool ok = false;

        if (*c.p == TAG_LENGTH(9)) {
            if (!take_attributes(w, &c, 9))
                return false;
            continue;
        }
        switch (*c.p++) {
        case TAG_64(2):
            ok = take_fixed64(&c, 2, &out->start_time_unix_nano);
            break;
        case TAG_64(3):
            ok = take_fixed64(&c, 3, &out->time_unix_nano);
            break;
        case TAG_64(4):
            ok = take_fixed64(&c, 4, &out->count);
            break;
        case TAG_64(5):
            out->opt_sum_case = OTLP__HISTOGRAM_DATA_POINT__OPT_SUM_SUM;
            ok = take_double(&c, 5, &out->sum);
            break;
        case TAG_LENGTH(6):
            ok = take_packed_fixed64(w, &c, 6, &numbers, &out->n_bucket_counts);
            out->bucket_counts = numbers;
            break;
        case TAG_LENGTH(7):
            ok = take_packed_fixed64(w, &c, 7, &numbers, &out->n_explicit_bounds);
            out->explicit_bounds = numbers;
            break;
        case TAG_LENGTH(8):
            ok = take_exemplar(w, &c);
            break;
        case TAG_VARINT(10):
            ok = take_uint32(&c, 10, &out->flags);
            break;
        case TAG_64(11):
            out->opt_min_case = OTLP__HISTOGRAM_DATA_POINT__OPT_MIN_MIN;
            ok = take_double(&c, 11, &out->min);
            break;
        case TAG_64(12):
            out->opt_max_case = OTLP__HISTOGRAM_DATA_POINT__OPT_MAX_MAX;
            ok = take_double(&c, 12, &out->max);
            break;
        default:
            break;
        }
        if (!ok)
            return false;
    }
    out->n_exemplars = w->n_exemplars;
    out->exemplars = w->exemplars;
    return true;
}

bool wire_exponential(struct wire_point *w, struct bytes in,
                      Otlp__ExponentialHistogramDataPoint *out)
{
    struct cursor c = cursor_of(in);

    *out = (Otlp__ExponentialHistogramDataPoint)OTLP__EXPONENTIAL_HISTOGRAM_DATA_POINT__INIT;
    begin_point(w);
    while (c.p < c.end) {
        bool ok = false;

        if (*c.p == TAG_LENGTH(1)) {
            if (!take_attributes(w, &c, 1))
                return false;
            continue;
        }
        switch (*c.p++) {
        case TAG_64(2):
            ok = take_fixed64(&c, 2, &out->start_time_unix_nano);
            break;
        case TAG_64(3):
            ok = take_fixed64(&c, 3, &out->time_unix_nano);
            break;
        case TAG_64(4):
            ok = take_fixed64(&c, 4, &out->count);
            break;
        case TAG_64(5):
            out->opt_sum_case = OTLP__EXPONENTIAL_HISTOGRAM_DATA_POINT__OPT_SUM_SUM;
            ok = take_double(&c, 5, &out->sum);
            break;
        case TAG_VARINT(6):
            ok = take_sint32(&c, 6, &out->scale);
            break;
        case TAG_64(7):
            ok = take_fixed64(&c, 7, &out->zero_count);
            break;
        case TAG_LENGTH(8):
            ok = take_buckets(w, &c, 8, &w->positive);
            out->positive = &w->positive;
            break;
        case TAG_LENGTH(9):
            ok = take_buckets(w, &c, 9, &w->negative);
            out->negative = &w->negative;
            break;
        case TAG_VARINT(10):
            ok = take_uint32(&c, 10, &out->flags);
            break;
        case TAG_LENGTH(11):
            ok = take_exemplar(w, &c);
            break;
        case TAG_64(12):
            out->opt_min_case = OTLP__EXPONENTIAL_HISTOGRAM_DATA_POINT__OPT_MIN_MIN;
            ok = take_double(&c, 12, &out->min);
            break;
        case TAG_64(13):
            out->opt_max_case = OTLP__EXPONENTIAL_HISTOGRAM_DATA_POINT__OPT_MAX_MAX;
            ok = take_double(&c, 13, &out->max);
            break;
        case TAG_64(14):
            ok = take_double(&c, 14, &out->zero_threshold);
            break;
        default:
            break;
        }
        if (!ok)
            return false;
    }
    out->n_exemplars = w->n_exemplars;
    out->exemplars = w->exemplars;
    return true;
}

bool wire_summary(struct wire_point *w, struct bytes in, Otlp__SummaryDataPoint *out)
{
    struct cursor c = cursor_of(in);

    *out = (Otlp__SummaryDataPoint)OTLP__SUMMARY_DATA_POINT__INIT;
    begin_point(w);
    w->n_quantiles = 0;
    while (c.p < c.end) {
        bool ok = false;

        if (*c.p == TAG_LENGTH(7)) {
            if (!take_attributes(w, &c, 7))
                return false;
            continue;
        }
        switch (*c.p++) {
        case TAG_64(2):
            ok = take_fixed64(&c, 2, &out->start_time_unix_nano);
            break;
        case TAG_64(3):
            ok = take_fixed64(&c, 3, &out->time_unix_nano);
            break;
        case TAG_64(4):
            ok = take_fixed64(&c, 4, &out->count);
            break;
        case TAG_64(5):
            ok = take_double(&c, 5, &out->sum);
            break;
        case TAG_LENGTH(6):
            ok = take_quantile(w, &c);
            break;
        case TAG_VARINT(8):
            ok = take_uint32(&c, 8, &out->flags);
            break;
        default:
            break;
        }
        if (!ok)
            return false;
    }
    out->n_quantile_values = w->n_quantiles;
    out->quantile_values = w->quantiles;
    return true;
}
