/* histogram.h -- latencies in log-linear buckets: 64 buckets to each power of two, so a quantile is
 * at most 1/64 above the true one, whatever the range. Fixed memory, one addition a value. */
#ifndef OTLITE_BENCH_HISTOGRAM_H
#define OTLITE_BENCH_HISTOGRAM_H

#include <stdint.h>

enum {
    HISTOGRAM_SUB_BITS = 6,
    HISTOGRAM_SUB = 1 << HISTOGRAM_SUB_BITS,
    /* Values below 64 have a bucket each; every power of two from 2^6 to 2^62 has 64. */
    HISTOGRAM_BUCKETS = (63 - HISTOGRAM_SUB_BITS + 1) * HISTOGRAM_SUB
};

/* Zero-initialised is empty. */
struct histogram {
    uint64_t count;
    int64_t min, max; /* exact; 0 when empty */
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_reset(struct histogram *h);
/* Negative values count as 0. */
void histogram_add(struct histogram *h, int64_t value);
void histogram_merge(struct histogram *into, const struct histogram *from);
/* The least bucket edge that at least q of the values do not pass, never above max. q in [0, 1];
 * 0 when empty. */
int64_t histogram_quantile(const struct histogram *h, double q);

#endif
