/* batch.h -- one request, decoded: flat arrays that refer to each other by index.
 *
 * Both decoders end here and the store begins here. Everything lives in the request's arena; the
 * batch borrows it. Nothing that was rejected is in the arrays, it is only counted.
 * Rules: otlp.md chapter 3. Identity: each level carries its own canonical bytes; the store
 * combines them with the id of the level above (docs/architecture.md, "Identity"). */
#ifndef OTLITE_BATCH_H
#define OTLITE_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "otlite/arena.h"
#include "otlite/bytes.h"
#include "otlite/reason.h"

enum metric_type {
    METRIC_GAUGE = 1,
    METRIC_SUM = 2,
    METRIC_HISTOGRAM = 3,
    METRIC_EXPONENTIAL_HISTOGRAM = 4,
    METRIC_SUMMARY = 5
};

/* The wire's numbers. Gauge and summary have TEMPORALITY_NONE. */
enum temporality { TEMPORALITY_NONE = 0, TEMPORALITY_DELTA = 1, TEMPORALITY_CUMULATIVE = 2 };

/* "gauge", "sum", "histogram", "exponential_histogram", "summary". */
const char *metric_type_name(enum metric_type t);

struct batch_resource {
    struct bytes attributes;  /* canonical, see attrs.h; the identity */
    struct bytes schema_url;  /* these three are not identity; the latest is kept */
    struct bytes entity_refs; /* OTLP JSON array of EntityRef, or empty */
    uint32_t dropped_attributes_count;
    struct bytes service_name; /* string value of service.name, or empty */
};

struct batch_scope {
    uint32_t resource;                                  /* index into resources */
    uint32_t dropped_attributes_count;                  /* not identity */
    struct bytes name, version, schema_url, attributes; /* the identity */
};

struct batch_metric {
    uint32_t scope; /* index into scopes */
    enum metric_type type;
    enum temporality temporality;
    bool is_monotonic;
    struct bytes name, unit;  /* identity, with type, temporality and is_monotonic (M-21) */
    struct bytes description; /* not identity (M-23) */
    struct bytes metadata;    /* canonical attributes, not identity (M-25) */
};

/* One per data point, in the order of the request; equal series may occur many times, the store
 * folds them. */
struct batch_series {
    uint32_t metric;         /* index into metrics */
    uint32_t number;         /* 0: not known; else the catalogue's number of the series, which saves
                                looking it up and stays the same while the process runs. The store
                                fills it in for a series that was stored before this request, so that
                                a decoder can learn it from the answered batch (known.h). */
    struct bytes attributes; /* canonical; always there, number or not */
};

enum value_kind { VALUE_NONE = 0, VALUE_INT = 1, VALUE_DOUBLE = 2 };

struct value {
    enum value_kind kind; /* VALUE_NONE only with FLAG_NO_RECORDED_VALUE */
    union {
        int64_t i;
        double d;
    } u;
};

struct optional_double {
    bool has;
    double v;
};

enum { FLAG_NO_RECORDED_VALUE = 1 };

struct batch_exemplar {
    int64_t time;       /* 0 when absent */
    struct value value; /* never VALUE_NONE */
    uint8_t trace_id[16], span_id[8];
    bool has_trace_id, has_span_id;
    struct bytes attributes; /* filtered attributes, canonical */
};

/* What every point has. Times are nanoseconds since 1970; time > 0, start_time 0 = unknown. */
struct point {
    uint32_t series; /* index into series */
    uint32_t flags;
    int64_t time;
    int64_t start_time;
    uint32_t first_exemplar, n_exemplars; /* range in exemplars */
};

struct number_point {
    struct point p;
    struct value value;
};

struct histogram_point {
    struct point p;
    int64_t count;
    struct optional_double sum, min, max;
    uint32_t n_counts, n_bounds; /* 0 and 0, or n_counts == n_bounds + 1 */
    const int64_t *counts;
    const double *bounds;
};

struct exponential_buckets {
    bool present;
    int32_t offset;
    uint32_t n_counts;
    const int64_t *counts;
};

struct exponential_histogram_point {
    struct point p;
    int64_t count;
    struct optional_double sum, min, max;
    int32_t scale;
    int64_t zero_count;
    double zero_threshold;
    struct exponential_buckets positive, negative;
};

struct quantile {
    double quantile, value;
};

struct summary_point {
    struct point p;
    int64_t count;
    double sum;
    uint32_t n_quantiles;
    const struct quantile *quantiles; /* ascending */
};

struct batch {
    struct arena *arena; /* owner of all the memory below; the request's */
    struct batch_resource *resources;
    struct batch_scope *scopes;
    struct batch_metric *metrics;
    struct batch_series *series;
    struct number_point *numbers;
    struct histogram_point *histograms;
    struct exponential_histogram_point *exponentials;
    struct summary_point *summaries;
    struct batch_exemplar *exemplars;
    uint32_t n_resources, n_scopes, n_metrics, n_series;
    uint32_t n_numbers, n_histograms, n_exponentials, n_summaries, n_exemplars;

    uint64_t received; /* points in the request = storable + sum of rejected */
    uint64_t rejected[REJECT_COUNT_OF_REASONS];
    struct bytes reject_example[REJECT_COUNT_OF_REASONS]; /* a metric's name */
    uint64_t warnings[WARN_COUNT_OF_WARNINGS];
    struct bytes warning_example[WARN_COUNT_OF_WARNINGS]; /* a metric name or key; may be empty */
};

static inline uint64_t batch_storable(const struct batch *b)
{
    return (uint64_t)b->n_numbers + b->n_histograms + b->n_exponentials + b->n_summaries;
}

static inline uint64_t batch_rejected(const struct batch *b)
{
    uint64_t n = 0;

    for (int i = 0; i < REJECT_COUNT_OF_REASONS; i++)
        n += b->rejected[i];
    return n;
}

/* Count one warning; the first example is kept. Borrows example. */
static inline void batch_warn(struct batch *b, enum warning w, struct bytes example)
{
    if (b->warnings[w]++ == 0)
        b->warning_example[w] = example;
}

#endif
