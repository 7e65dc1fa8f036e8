/* histogram_internal.h -- buckets of native histograms in order, with their bounds. */
#ifndef OTLITE_QUERY_HISTOGRAM_INTERNAL_H
#define OTLITE_QUERY_HISTOGRAM_INTERNAL_H

#include "histogram.h"

/* The upper bound of bucket i of a schema; its lower one is that of i - 1. */
double histogram_bound(int32_t schema, int64_t i);

/* One bucket, bounds and all; which bounds belong to it follows from their signs. */
struct histogram_bucket {
    double lower, upper, count;
    bool is_zero; /* the zero bucket */
};
/* Negative buckets, the zero bucket, positive ones: this many places, of which some hold nothing.
 */
static inline size_t histogram_places(const struct prom_histogram *h)
{
    return (size_t)h->negative.n + 1 + h->positive.n;
}
/* The count at a place, from the lowest values on. The zero bucket counts when it is above 0. */
double histogram_place_count(const struct prom_histogram *h, size_t place);
/* Bounds of neighbours of the zero bucket end at its threshold. */
struct histogram_bucket histogram_place(const struct prom_histogram *h, size_t place);
/* Is any bucket on that side not 0? */
bool histogram_side_has(const struct histogram_buckets *b);

#endif
