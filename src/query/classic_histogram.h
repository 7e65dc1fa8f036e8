/* classic_histogram.h -- a histogram as its buckets' series have it: cumulative counts up to an
 * inclusive bound each. */
#ifndef OTLITE_QUERY_CLASSIC_HISTOGRAM_H
#define OTLITE_QUERY_CLASSIC_HISTOGRAM_H

#include "otlite/bytes.h"

struct classic_bucket {
    double upper, count;
};

/* The bound that a label le tells; false: it is no number. */
bool classic_bound(struct bytes le, double *out);

/* Of n buckets, at least 1, sorted by upper; what they hold changes. *forced: counts decreased, and
 * were raised to the count before. NaN: the last is not +Inf, or there are fewer than two bounds,
 * or no observations. */
double classic_quantile(double q, struct classic_bucket *b, size_t n, bool *forced);
double classic_fraction(double lower, double upper, struct classic_bucket *b, size_t n);

#endif
