/* points.h -- the rules of one data point (otlp.md 3.5 to 3.9): read it from the message tree, or
 * say why it is rejected. */
#ifndef OTLITE_OTLP_POINTS_H
#define OTLITE_OTLP_POINTS_H

#include "message.h"

enum point_result {
    POINT_OK,
    POINT_REJECTED, /* the reader's `why` says why; nothing was added to the batch */
    POINT_NO_MEMORY /* see the arena's flags */
};

struct point_reader {
    struct batch *b; /* exemplars and warnings go here */
    const struct decode_limits *lim;
    int64_t latest_time;  /* later points are rejected (M-32) */
    struct bytes metric;  /* name of the metric at hand, for examples */
    size_t max_exemplars; /* room in b->exemplars */
    /* Canonical attributes of a point that were decoded earlier; NULL: they are in the tree. */
    const struct bytes *known_attributes;

    /* About the point read last. */
    struct bytes attributes; /* canonical; set when POINT_OK */
    enum reject_reason why;  /* set when POINT_REJECTED */
};

/* The latest time that a point may have (M-32). */
int64_t point_latest_time(const struct decode_limits *lim, int64_t now_ns);
/* What storing a request costs the writer, in points: a metric, scope or resource that is new takes
 * it more than ten times as long as a point. While one request is stored all others wait. Compared
 * with max_points. The numbers count what lies in memory, so the sum cannot wrap. */
size_t request_weight(size_t points, size_t exemplars, size_t envelopes);

/* Each fills *out, all but p.series. Buckets and bounds are borrowed from the tree. */
enum point_result point_read_number(struct point_reader *r, const Otlp__NumberDataPoint *in,
                                    struct number_point *out);
enum point_result point_read_histogram(struct point_reader *r, const Otlp__HistogramDataPoint *in,
                                       struct histogram_point *out);
enum point_result point_read_exponential(struct point_reader *r,
                                         const Otlp__ExponentialHistogramDataPoint *in,
                                         struct exponential_histogram_point *out);
enum point_result point_read_summary(struct point_reader *r, const Otlp__SummaryDataPoint *in,
                                     struct summary_point *out);

#endif
