/* known_walk.h -- walking a metrics request on the wire, without a tree: envelopes and where they
 * end, and single points into the structs that protobuf-c would give.
 *
 * What is walked is cut as wirecheck.c and protobuf-c cut it, and where there is more than one way
 * to write a thing, only the usual one is taken; everything else is left to them. */
#ifndef OTLITE_OTLP_KNOWN_WALK_H
#define OTLITE_OTLP_KNOWN_WALK_H

#include "message.h"
#include "wire.h"

/* A message in three: one repeated field's elements, which lie together, and the other fields. */
struct split {
    struct bytes before, run, after;
    uint32_t n; /* elements in run */
};

/* A Metric: its own fields up to and with the tag of its data, and those behind; its data. */
struct metric_parts {
    struct bytes head, tail;
    struct split data;
    enum metric_type type;
};

/* From metric to metric through a request whose envelopes have at least one element each. */
struct tour {
    struct bytes resources, scopes, metrics; /* elements still to come */
    struct split resource, scope;            /* around the metric at hand */
    struct metric_parts metric;
    bool new_resource, new_scope; /* the metric is the first in its one */
    bool bad;                     /* ended by something that is not taken here */
};

void tour_begin(struct tour *t, struct bytes body);
/* False at the end, or when bad. */
bool tour_next(struct tour *t);

/* The next element of a run that a tour has come by, off its front. Its tag and length have been
 * checked then; what is checked here keeps a mistake of ours inside the bytes. */
static inline struct bytes run_next(struct bytes *run)
{
    const uint8_t *p = run->p, *end = p + run->n;
    uint64_t n = 0, tag;

    if (!read_varint(&p, end, MAX_TAG_BYTES, &tag) || !read_length(&p, end, &n) ||
        n > (uint64_t)(end - p)) {
        run->n = 0;
        return *run;
    }
    *run = bytes_of(p + n, (size_t)((uint64_t)(end - p) - n));
    return bytes_of(p, (size_t)n);
}

/* What a point may have at most here, and what is filled anew for each. */
enum { WIRE_EXEMPLARS = 64, WIRE_QUANTILES = 64, WIRE_PAIRS = 64 };

struct wire_point {
    struct arena *arena;   /* buckets and bounds */
    struct bytes expected; /* attribute fields that are likely to come */

    /* About the point read last. */
    struct bytes attributes; /* its attribute fields, in one run; empty when it has none */
    bool as_expected;        /* they are equal to expected */
    uint32_t n_exemplars;

    size_t n_quantiles, n_pairs;
    Otlp__Exemplar exemplar[WIRE_EXEMPLARS];
    Otlp__Exemplar *exemplars[WIRE_EXEMPLARS];
    Otlp__ValueAtQuantile quantile[WIRE_QUANTILES];
    Otlp__ValueAtQuantile *quantiles[WIRE_QUANTILES];
    Otlp__KeyValue pair[WIRE_PAIRS]; /* of all its exemplars */
    Otlp__KeyValue *pairs[WIRE_PAIRS];
    Otlp__AnyValue value[WIRE_PAIRS];
    Otlp__Buckets positive, negative;
};

/* Each fills *out, all but the attributes. False: the point is for protobuf-c, or the arena has no
 * room. *out borrows w, its arena and in. */
bool wire_number(struct wire_point *w, struct bytes in, Otlp__NumberDataPoint *out);
bool wire_histogram(struct wire_point *w, struct bytes in, Otlp__HistogramDataPoint *out);
bool wire_exponential(struct wire_point *w, struct bytes in,
                      Otlp__ExponentialHistogramDataPoint *out);
bool wire_summary(struct wire_point *w, struct bytes in, Otlp__SummaryDataPoint *out);

/* Only the attribute fields of a point of a metric of this type. */
bool wire_attributes(enum metric_type type, struct bytes in, struct bytes *out);

#endif
