/* points.c -- the rules of single data points (otlp.md 3.5 to 3.9).
 *
 * Order within a point: all that can reject it comes first and counts nothing, then the attributes
 * (which may still reject), then warnings and exemplars. So a rejected point adds nothing to the
 * batch but, at most, warnings about its attributes. */
#include "points.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "attrs_canonical.h"

/* What all kinds of points share; their structs in the tree have no common head. */
struct head {
    const ProtobufCMessage *base;
    uint64_t start_time, time;
    uint32_t flags;
    Otlp__KeyValue *const *attributes;
    size_t n_attributes;
    Otlp__Exemplar *const *exemplars;
    size_t n_exemplars;
};

/* Of every kind but summaries, which have no exemplars. */
#define HEAD_OF(in)                                                                         \
    {                                                                                       \
        .base = &(in)->base, .start_time = (in)->start_time_unix_nano,                      \
        .time = (in)->time_unix_nano, .flags = (in)->flags, .attributes = (in)->attributes, \
        .n_attributes = (in)->n_attributes, .exemplars = (in)->exemplars,                   \
        .n_exemplars = (in)->n_exemplars                                                    \
    }

int64_t point_latest_time(const struct decode_limits *lim, int64_t now_ns)
{
    if (lim->future_slack_ns <= 0 || now_ns > INT64_MAX - lim->future_slack_ns)
        return INT64_MAX;
    return now_ns + lim->future_slack_ns;
}

size_t request_weight(size_t points, size_t exemplars, size_t envelopes)
{
    return points + exemplars + 10 * envelopes;
}

static enum point_result reject(struct point_reader *r, enum reject_reason why)
{
    r->why = why;
    return POINT_REJECTED;
}

static bool head_flagged(const struct head *h)
{
    return (h->flags & FLAG_NO_RECORDED_VALUE) != 0;
}

static enum point_result head_check(struct point_reader *r, const struct head *h)
{
    enum reject_reason why;

    if (h->base->n_unknown_fields > 0 && message_defect(h->base, &why))
        return reject(r, why);
    if (h->time == 0)
        return reject(r, REJECT_TIME_ZERO);
    if (h->time > INT64_MAX)
        return reject(r, REJECT_TIME_RANGE);
    if ((int64_t)h->time > r->latest_time)
        return reject(r, REJECT_TIME_FUTURE);
    return POINT_OK;
}

/* A trace or span id: present when it has the right length and is not all zero (M-36). */
static bool take_id(struct point_reader *r, ProtobufCBinaryData in, uint8_t *out, size_t n)
{
    uint8_t any = 0;

    if (in.len == 0)
        return false;
    if (in.len != n) {
        batch_warn(r->b, WARN_EXEMPLAR, r->metric);
        return false;
    }
    for (size_t i = 0; i < n; i++)
        any |= in.data[i];
    if (any != 0)
        memcpy(out, in.data, n);
    return any != 0;
}

static bool add_exemplar(struct point_reader *r, const Otlp__Exemplar *in)
{
    struct batch_exemplar out = {0};
    size_t count;

    switch (in->value_case) {
    case OTLP__EXEMPLAR__VALUE_AS_DOUBLE:
        out.value.kind = VALUE_DOUBLE;
        out.value.u.d = in->as_double;
        break;
    case OTLP__EXEMPLAR__VALUE_AS_INT:
        out.value.kind = VALUE_INT;
        out.value.u.i = in->as_int;
        break;
    case OTLP__EXEMPLAR__VALUE__NOT_SET:
    default:
        batch_warn(r->b, WARN_EXEMPLAR, r->metric);
        return true;
    }
    if (in->time_unix_nano > INT64_MAX) {
        batch_warn(r->b, WARN_EXEMPLAR, r->metric);
        return true;
    }
    out.time = (int64_t)in->time_unix_nano;
    out.has_trace_id = take_id(r, in->trace_id, out.trace_id, sizeof(out.trace_id));
    out.has_span_id = take_id(r, in->span_id, out.span_id, sizeof(out.span_id));
    if (!attrs_canonical(in->filtered_attributes, in->n_filtered_attributes, r->b, &out.attributes,
                         &count))
        return false;
    assert(r->b->n_exemplars < r->max_exemplars);
    r->b->exemplars[r->b->n_exemplars++] = out;
    return true;
}

static enum point_result take_attributes(struct point_reader *r, const struct head *h)
{
    if (r->known_attributes != NULL) {
        r->attributes = *r->known_attributes;
        return POINT_OK;
    }
    switch (attrs_canonical_capped(h->attributes, h->n_attributes, r->lim->max_attributes,
                                   r->lim->max_attribute_bytes, r->b, &r->attributes)) {
    case CANONICAL_OK:
        return POINT_OK;
    case CANONICAL_NO_MEMORY:
        return POINT_NO_MEMORY;
    case CANONICAL_REFUSED:
        break;
    }
    return reject(r, REJECT_ATTRIBUTES);
}

/* The last step that can reject: everything but the value is taken over. */
static enum point_result head_take(struct point_reader *r, const struct head *h, struct point *out)
{
    enum point_result result = take_attributes(r, h);

    if (result != POINT_OK)
        return result;
    out->flags = h->flags;
    out->time = (int64_t)h->time;
    /* This also catches a start past 2262. */
    if (h->start_time > h->time) {
        batch_warn(r->b, WARN_START_AFTER_TIME, r->metric);
        out->start_time = 0;
    } else {
        out->start_time = (int64_t)h->start_time;
    }
    out->first_exemplar = r->b->n_exemplars;
    /* A point without a recorded value has nothing but attributes and times (M-34). */
    for (size_t i = 0; i < h->n_exemplars && !head_flagged(h); i++) {
        if (!add_exemplar(r, h->exemplars[i]))
            return POINT_NO_MEMORY;
    }
    out->n_exemplars = r->b->n_exemplars - out->first_exemplar;
    return POINT_OK;
}

enum point_result point_read_number(struct point_reader *r, const Otlp__NumberDataPoint *in,
                                    struct number_point *out)
{
    struct head h = HEAD_OF(in);
    enum point_result result = head_check(r, &h);

    if (result != POINT_OK)
        return result;
    *out = (struct number_point){.value = {.kind = VALUE_NONE}};
    if (!head_flagged(&h)) {
        switch (in->value_case) {
        case OTLP__NUMBER_DATA_POINT__VALUE_AS_DOUBLE:
            out->value.kind = VALUE_DOUBLE;
            out->value.u.d = in->as_double;
            break;
        case OTLP__NUMBER_DATA_POINT__VALUE_AS_INT:
            out->value.kind = VALUE_INT;
            out->value.u.i = in->as_int;
            break;
        case OTLP__NUMBER_DATA_POINT__VALUE__NOT_SET:
        default:
            return reject(r, REJECT_NO_VALUE);
        }
    }
    return head_take(r, &h, &out->p);
}

/* Add n counts to *sum. False when the total passes 2^63-1, which no column holds (M-52, M-56); so
 * each single one is below it as well. */
static bool sum_counts(const uint64_t *counts, size_t n, uint64_t *sum)
{
    uint64_t s = *sum;

    for (size_t i = 0; i < n; i++) {
        if (counts[i] > (uint64_t)INT64_MAX - s)
            return false;
        s += counts[i];
    }
    *sum = s;
    return true;
}

/* Counts that passed sum_counts mean the same as int64_t. The two types may alias. */
static const int64_t *as_signed(const uint64_t *counts)
{
    return (const int64_t *)counts;
}

/* Whether buckets that hold sum counts may stand beside count (M-52, M-61); *mismatch: they may,
 * but it is worth a warning. */
static enum point_result check_count(struct point_reader *r, uint64_t sum, uint64_t count,
                                     bool *mismatch)
{
    *mismatch = sum != count;
    return *mismatch && r->lim->strict_counts ? reject(r, REJECT_COUNT) : POINT_OK;
}

static struct optional_double optional(bool has, double v)
{
    return (struct optional_double){has, has ? v : 0};
}

/* What histograms of both kinds are warned of, once they are taken. */
static void warn_histogram(struct point_reader *r, bool mismatch, int64_t count,
                           struct optional_double sum, struct optional_double min,
                           struct optional_double max)
{
    if (mismatch)
        batch_warn(r->b, WARN_COUNT_MISMATCH, r->metric);
    /* Written so that a NaN sum warns too. */
    if (count == 0 && sum.has && !(sum.v <= 0 && sum.v >= 0))
        batch_warn(r->b, WARN_ZERO_COUNT_SUM, r->metric);
    if (min.has && max.has && min.v > max.v)
        batch_warn(r->b, WARN_MIN_MAX, r->metric);
}

static bool bounds_ascend(const double *bounds, size_t n)
{
    if (n > 0 && isnan(bounds[0]))
        return false;
    for (size_t i = 1; i < n; i++) {
        if (!(bounds[i - 1] < bounds[i])) /* false for NaN too */
            return false;
    }
    return true;
}

/* Whether the shape can be stored (M-50 to M-57); *mismatch: bucket counts do not add up. */
static enum point_result histogram_check(struct point_reader *r, const Otlp__HistogramDataPoint *in,
                                         bool *mismatch)
{
    uint64_t sum = 0;

    *mismatch = false;
    if (in->count > INT64_MAX)
        return reject(r, REJECT_COUNT);
    if (in->n_bucket_counts == 0 && in->n_explicit_bounds == 0)
        return POINT_OK;
    if (in->n_bucket_counts > r->lim->max_buckets)
        return reject(r, REJECT_TOO_MANY_BUCKETS);
    /* Not "bounds + 1 == counts": nothing here may wrap. */
    if (in->n_bucket_counts == 0 || in->n_bucket_counts - 1 != in->n_explicit_bounds)
        return reject(r, REJECT_BUCKETS);
    if (!bounds_ascend(in->explicit_bounds, in->n_explicit_bounds))
        return reject(r, REJECT_BOUNDS);
    if (!sum_counts(in->bucket_counts, in->n_bucket_counts, &sum))
        return reject(r, REJECT_COUNT);
    return check_count(r, sum, in->count, mismatch);
}

enum point_result point_read_histogram(struct point_reader *r, const Otlp__HistogramDataPoint *in,
                                       struct histogram_point *out)
{
    struct head h = HEAD_OF(in);
    enum point_result result = head_check(r, &h);
    bool mismatch = false;

    if (result == POINT_OK && !head_flagged(&h))
        result = histogram_check(r, in, &mismatch);
    if (result != POINT_OK)
        return result;
    *out = (struct histogram_point){.count = 0};
    result = head_take(r, &h, &out->p);
    if (result != POINT_OK || head_flagged(&h))
        return result;

    out->count = (int64_t)in->count;
    out->sum = optional(in->opt_sum_case == OTLP__HISTOGRAM_DATA_POINT__OPT_SUM_SUM, in->sum);
    out->min = optional(in->opt_min_case == OTLP__HISTOGRAM_DATA_POINT__OPT_MIN_MIN, in->min);
    out->max = optional(in->opt_max_case == OTLP__HISTOGRAM_DATA_POINT__OPT_MAX_MAX, in->max);
    out->n_counts = (uint32_t)in->n_bucket_counts;
    out->n_bounds = (uint32_t)in->n_explicit_bounds;
    out->counts = as_signed(in->bucket_counts);
    out->bounds = in->explicit_bounds;
    warn_histogram(r, mismatch, out->count, out->sum, out->min, out->max);
    return POINT_OK;
}

/* index x 2^-scale, the exponent of 2 of a bucket's lower boundary. Past +-2200 the result is 0 or
 * infinite for every index an int32 holds, and clamping keeps -scale from overflowing (M-64). */
static double boundary_exponent(int64_t index, int32_t scale)
{
    int clamped = scale < -2200 ? -2200 : scale > 2200 ? 2200 : scale;

    return ldexp((double)index, -clamped);
}

/* M-62, M-63: indexes stay in int32, and the buckets that hold counts lie at least in part where
 * doubles are. Boundaries rise with the index, so the outermost ones decide. */
static bool buckets_expressible(const Otlp__Buckets *b, int32_t scale)
{
    size_t first = 0, end;

    if (b == NULL || b->n_bucket_counts == 0)
        return true;
    end = b->n_bucket_counts;
    if (end > INT32_MAX || (int64_t)b->offset + (int64_t)end - 1 > INT32_MAX)
        return false;
    while (first < end && b->bucket_counts[first] == 0)
        first++;
    while (end > first && b->bucket_counts[end - 1] == 0)
        end--;
    if (first == end)
        return true;
    return boundary_exponent((int64_t)b->offset + (int64_t)end - 1, scale) < 1024 &&
           boundary_exponent((int64_t)b->offset + (int64_t)first + 1, scale) >= -1074;
}

static enum point_result exponential_check(struct point_reader *r,
                                           const Otlp__ExponentialHistogramDataPoint *in,
                                           bool *mismatch)
{
    const Otlp__Buckets *pos = in->positive, *neg = in->negative;
    size_t n_pos = pos == NULL ? 0 : pos->n_bucket_counts;
    size_t n_neg = neg == NULL ? 0 : neg->n_bucket_counts;
    uint64_t sum = in->zero_count;

    *mismatch = false;
    if (in->count > INT64_MAX || in->zero_count > INT64_MAX)
        return reject(r, REJECT_COUNT);
    if (n_pos > r->lim->max_buckets || n_neg > r->lim->max_buckets - n_pos)
        return reject(r, REJECT_TOO_MANY_BUCKETS);
    if (!(in->zero_threshold >= 0)) /* NaN too (M-65) */
        return reject(r, REJECT_EXPONENTIAL);
    if (!buckets_expressible(pos, in->scale) || !buckets_expressible(neg, in->scale))
        return reject(r, REJECT_EXPONENTIAL);
    if ((pos != NULL && !sum_counts(pos->bucket_counts, n_pos, &sum)) ||
        (neg != NULL && !sum_counts(neg->bucket_counts, n_neg, &sum)))
        return reject(r, REJECT_COUNT);
    return check_count(r, sum, in->count, mismatch);
}

static struct exponential_buckets buckets_of(const Otlp__Buckets *b)
{
    if (b == NULL)
        return (struct exponential_buckets){.present = false};
    return (struct exponential_buckets){.present = true,
                                        .offset = b->offset,
                                        .n_counts = (uint32_t)b->n_bucket_counts,
                                        .counts = as_signed(b->bucket_counts)};
}

enum point_result point_read_exponential(struct point_reader *r,
                                         const Otlp__ExponentialHistogramDataPoint *in,
                                         struct exponential_histogram_point *out)
{
    struct head h = HEAD_OF(in);
    enum point_result result = head_check(r, &h);
    bool mismatch = false;

    if (result == POINT_OK && !head_flagged(&h))
        result = exponential_check(r, in, &mismatch);
    if (result != POINT_OK)
        return result;
    *out = (struct exponential_histogram_point){.count = 0};
    result = head_take(r, &h, &out->p);
    if (result != POINT_OK || head_flagged(&h))
        return result;

    out->count = (int64_t)in->count;
    out->sum =
        optional(in->opt_sum_case == OTLP__EXPONENTIAL_HISTOGRAM_DATA_POINT__OPT_SUM_SUM, in->sum);
    out->min =
        optional(in->opt_min_case == OTLP__EXPONENTIAL_HISTOGRAM_DATA_POINT__OPT_MIN_MIN, in->min);
    out->max =
        optional(in->opt_max_case == OTLP__EXPONENTIAL_HISTOGRAM_DATA_POINT__OPT_MAX_MAX, in->max);
    out->scale = in->scale;
    out->zero_count = (int64_t)in->zero_count;
    out->zero_threshold = in->zero_threshold;
    out->positive = buckets_of(in->positive);
    out->negative = buckets_of(in->negative);
    warn_histogram(r, mismatch, out->count, out->sum, out->min, out->max);
    return POINT_OK;
}

static int quantile_compare(const void *a, const void *b)
{
    double x = ((const struct quantile *)a)->quantile, y = ((const struct quantile *)b)->quantile;

    return (x > y) - (x < y);
}

/* Copies the quantiles, ascending (M-70), into *out. */
static enum point_result take_quantiles(struct point_reader *r, const Otlp__SummaryDataPoint *in,
                                        struct summary_point *out, bool *negative)
{
    size_t n = in->n_quantile_values;
    bool ascending = true;
    struct quantile *q;

    if (in->count > INT64_MAX)
        return reject(r, REJECT_COUNT);
    /* The cap on buckets bounds this list too: both are what one point may carry. */
    if (n > r->lim->max_buckets)
        return reject(r, REJECT_TOO_MANY_BUCKETS);
    for (size_t i = 0; i < n; i++) {
        double x = in->quantile_values[i]->quantile;

        if (!(x >= 0 && x <= 1))
            return reject(r, REJECT_QUANTILES);
    }
    if (n == 0)
        return POINT_OK;
    q = arena_zalloc(r->b->arena, n, sizeof(*q));
    if (q == NULL)
        return POINT_NO_MEMORY;
    for (size_t i = 0; i < n; i++) {
        q[i] = (struct quantile){in->quantile_values[i]->quantile, in->quantile_values[i]->value};
        *negative |= q[i].value < 0;
        ascending &= i == 0 || q[i - 1].quantile < q[i].quantile;
    }
    if (!ascending) {
        qsort(q, n, sizeof(*q), quantile_compare);
        for (size_t i = 1; i < n; i++) {
            if (!(q[i - 1].quantile < q[i].quantile))
                return reject(r, REJECT_QUANTILES);
        }
    }
    out->n_quantiles = (uint32_t)n;
    out->quantiles = q;
    return POINT_OK;
}

enum point_result point_read_summary(struct point_reader *r, const Otlp__SummaryDataPoint *in,
                                     struct summary_point *out)
{
    struct head h = {.base = &in->base,
                     .start_time = in->start_time_unix_nano,
                     .time = in->time_unix_nano,
                     .flags = in->flags,
                     .attributes = in->attributes,
                     .n_attributes = in->n_attributes};
    enum point_result result = head_check(r, &h);
    bool negative = false;

    if (result != POINT_OK)
        return result;
    *out = (struct summary_point){.count = 0};
    if (!head_flagged(&h))
        result = take_quantiles(r, in, out, &negative);
    if (result != POINT_OK)
        return result;
    result = head_take(r, &h, &out->p);
    if (result != POINT_OK || head_flagged(&h))
        return result;

    out->count = (int64_t)in->count;
    out->sum = in->sum;
    if (negative)
        batch_warn(r->b, WARN_NEGATIVE_QUANTILE, r->metric);
    return POINT_OK;
}
