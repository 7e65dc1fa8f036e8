/* latencies.h -- latencies in log-linear buckets: 64 buckets to each power of two, so a quantile is
 * at most 1/64 above the true one, whatever the range. Fixed memory, one addition a value. */
#ifndef OTLITE_BENCH_LATENCIES_H
#define OTLITE_BENCH_LATENCIES_H

#include <stdint.h>

enum {
    HISTOGRAM_SUB_BITS = 6,
    HISTOGRAM_SUB = 1 << HISTOGRAM_SUB_BITS,
    /* Values below 64 have a bucket each; every power of two from 2^6 to 2^62 has 64. */
    HISTOGRAM_BUCKETS = (63 - HISTOGRAM_SUB_BITS + 1) * HISTOGRAM_SUB
};

/* Zero-initialised is empty. */
struct latencies {
    uint64_t count;
    int64_t min, max; /* exact; 0 when empty */
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

void latencies_reset(struct latencies *h);
/* Negative values count as 0. */
void latencies_add(struct latencies *h, int64_t value);
void latencies_merge(struct latencies *into, const struct latencies *from);
/* The least bucket edge that at least q of the values do not pass, never above max. q in [0, 1];
 * 0 when empty. */
int64_t latencies_quantile(const struct latencies *h, double q);

#endif
