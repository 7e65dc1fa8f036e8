/* histogram.h -- a native histogram as PromQL computes with it: counts are doubles, buckets lie by
 * a schema of -4 to 8 (exponential, base 2^(2^-schema); bucket i holds (base^(i-1), base^i]), the
 * zero bucket holds what is within the threshold. Semantics: Prometheus 3, "Native histograms"
 * specification. */
#ifndef OTLITE_QUERY_HISTOGRAM_H
#define OTLITE_QUERY_HISTOGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "otlite/bytes.h"
#include "otlite/err.h"

/* What is known of a reset between this one and the one before it in its series. */
enum reset_hint { RESET_UNKNOWN, RESET_YES, RESET_NO, RESET_GAUGE };

/* Buckets from index first on, n of them, without a gap; zeros in between are zeros. */
struct histogram_buckets {
    int32_t first;
    uint32_t n;
    double *counts;
};
/* One malloc; histogram_free frees all of it. */
struct prom_histogram {
    int32_t schema;
    enum reset_hint hint;
    double zero_threshold, zero_count, count, sum;
    struct histogram_buckets positive, negative;
};

/* Of that size, counts 0. NULL: no memory, or more than 2^20 buckets on a side, which no doubles
 * need. */
struct prom_histogram *histogram_new(int32_t schema, int32_t pos_first, uint32_t pos_n,
                                     int32_t neg_first, uint32_t neg_n);
struct prom_histogram *histogram_copy(const struct prom_histogram *h);
void histogram_free(struct prom_histogram *h);
size_t histogram_bytes(const struct prom_histogram *h);

/* a + b, a - b in a new histogram: of the lesser schema, of a zero threshold that is no less than
 * either and within no bucket that holds something. NULL: as of histogram_new. */
struct prom_histogram *histogram_add(const struct prom_histogram *a,
                                     const struct prom_histogram *b);
struct prom_histogram *histogram_sub(const struct prom_histogram *a,
                                     const struct prom_histogram *b);
/* *sum += b, in place where the layout allows; else *sum is another one afterwards. False: as NULL
 * of histogram_new, *sum is as it was. */
bool histogram_add_to(struct prom_histogram **sum, const struct prom_histogram *b);
void histogram_scale(struct prom_histogram *h, double factor);
/* By 0: no buckets are left. */
void histogram_divide(struct prom_histogram *h, double divisor);
/* Same schema, zero bucket, counts, sum and bits of buckets that are not 0. */
bool histogram_equal(const struct prom_histogram *a, const struct prom_histogram *b);
/* later, the next one in its series, has been reset since earlier: its hint says so, or there is
 * none and a count in any bucket is less, the schema finer or the zero threshold less. */
bool histogram_is_reset(const struct prom_histogram *earlier, const struct prom_histogram *later);
/* Drop empty buckets at both ends. */
void histogram_compact(struct prom_histogram *h);

/* Observations of NaN rank above all others; a quantile among them is NaN. */
double histogram_quantile(const struct prom_histogram *h, double q);
double histogram_fraction(const struct prom_histogram *h, double lower, double upper);
/* Are there observations of NaN? They are in count and in no bucket, and make the sum NaN. */
bool histogram_has_nans(const struct prom_histogram *h);
double histogram_variance(const struct prom_histogram *h);

/* Buckets in the order of their values, empty ones left out: bounds, and which of them belong to it
 * (0: open left (lower, upper], 1: open right, 2: open both, 3: closed both), as the HTTP API shows
 * them. An error from emit (false) ends it. */
void histogram_walk(const struct prom_histogram *h,
                    bool (*emit)(void *arg, int boundaries, double lower, double upper,
                                 double count),
                    void *arg);
/* As the expression browser prints it: {count:3, sum:1.5, [0.5,1):2, ...}. */
void histogram_print(struct buf *out, const struct prom_histogram *h);

#endif
