/* number.h -- arithmetic over many numbers: the sum with compensation that Prometheus uses, and
 * quantiles. */
#ifndef OTLITE_QUERY_NUMBER_H
#define OTLITE_QUERY_NUMBER_H

#include <math.h>
#include <stddef.h>

/* A sum by Kahan and Neumaier: what rounding loses is kept in `lost`. */
struct exact_sum {
    double sum, lost;
};
static inline void exact_add(struct exact_sum *s, double x)
{
    const double t = s->sum + x;

    if (isinf(t))
        s->lost = 0;
    else if (fabs(s->sum) >= fabs(x))
        s->lost += (s->sum - t) + x;
    else
        s->lost += (x - t) + s->sum;
    s->sum = t;
}
static inline double exact_value(const struct exact_sum *s)
{
    return s->sum + s->lost;
}

/* The q-quantile of values, interpolated between the two nearest ranks; NaN is the least of them.
 * Their order changes. Below 0: -Inf, above 1: +Inf; of none: NaN. */
double number_quantile(double q, double *values, size_t n);

#endif
