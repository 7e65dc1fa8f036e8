/* series_gen.h -- the points that otlite-bench reads and storage store: the same for every system,
 * and the same in each run.
 *
 * A fleet: a service sends GEN_OF_SERVICE series, GEN_INSTANCES of each of GEN_METRICS metrics, all
 * at once, every interval. Series s is of service s / GEN_OF_SERVICE, metric s / GEN_INSTANCES %
 * GEN_METRICS, instance s % GEN_INSTANCES. Four services of five are production, the fifth is
 * staging; so of 10,000 series 1,000 are one metric in production.
 *
 * A value is a decimal number: an integer and how many of its digits stand behind the point, so
 * that text, double and integer are the same number in every system. Mixes:
 *
 * GEN_PLAIN, of each eight metrics
 *   0-3 counters, increments uniform 0 to 20, one in 50,000 a reset (from 0 again)
 *   4-5 gauges that walk with two decimals, steps uniform within 1.00
 *   6   integer gauges that walk, steps uniform within 2
 *   7   idle: constant
 * GEN_REALISTIC
 *   0-2 counters; each has a rate of its own (1 to 1,000 an interval) and varies by a quarter of
 * it; a tenth is idle; all counters of an instance start anew together, once in 5,000 intervals 3
 * a latency histogram of each service as the counters that every system here can hold: an instance
 * is a bucket, its counts include those of the buckets below 4   gauges that walk with one decimal,
 * within 0.0 and 100.0 5   gauges that walk with two decimals, steps within 1.00 6   integer
 * gauges, steps within 2, that rest for half of the intervals 7   idle GEN_IDLE: all constant. */
#ifndef OTLITE_BENCH_SERIES_GEN_H
#define OTLITE_BENCH_SERIES_GEN_H

#include <stdbool.h>
#include <stdint.h>

#include "otlite/err.h"

enum {
    GEN_METRICS = 8,
    GEN_INSTANCES = 10,
    GEN_OF_SERVICE = GEN_METRICS * GEN_INSTANCES,
    GEN_COUNTERS = 4 /* metrics below this number are counters, but in GEN_IDLE */
};

enum gen_mix { GEN_PLAIN, GEN_REALISTIC, GEN_IDLE };

struct series_gen_opts {
    enum gen_mix mix;
    uint32_t series;    /* a multiple of 5 * GEN_OF_SERVICE */
    uint32_t intervals; /* points of each series */
    uint64_t seed;
    int64_t start_ns;    /* of the first interval */
    int64_t interval_ns; /* whole milliseconds */
    uint32_t
        jitter_ms; /* a service sends up to this later, below interval_ns; 0: exactly in time */
};

struct series_gen {
    struct series_gen_opts opts;
    uint32_t services;
    uint32_t interval;  /* the one that the values are of */
    int64_t *values;    /* of each series, as integers */
    int64_t *starts_ns; /* of each series: since when a counter counts */
    uint64_t *random;   /* of each series */
};

/* OTL_ECONFIG: what does not fit. The values are those of interval 0. */
enum otl_err series_gen_init(struct series_gen *g, const struct series_gen_opts *o,
                             struct otl_error *err) OTL_MUSTCHECK;
void series_gen_fini(struct series_gen *g);
/* On to the next interval; false after the last. */
bool series_gen_next(struct series_gen *g);

static inline uint32_t gen_service(uint32_t series)
{
    return series / GEN_OF_SERVICE;
}
static inline uint32_t gen_metric(uint32_t series)
{
    return series / GEN_INSTANCES % GEN_METRICS;
}
static inline uint32_t gen_instance(uint32_t series)
{
    return series % GEN_INSTANCES;
}
static inline bool gen_is_production(uint32_t service)
{
    return service % 5 != 4;
}

/* Digits behind the point of a metric's values, 0 to 2. */
unsigned gen_decimals(enum gen_mix mix, uint32_t metric);
/* A value as a double: the nearest one to the decimal number. */
double gen_double(int64_t value, unsigned decimals);
/* Writes it as decimal text; returns its length, below 24. */
unsigned gen_text(int64_t value, unsigned decimals, char out[24]);
const char *gen_metric_name(uint32_t metric);
/* When a service sends the values of an interval. */
int64_t gen_time_ns(const struct series_gen_opts *o, uint32_t service, uint32_t interval);

#endif
