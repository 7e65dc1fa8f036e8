/* number.h -- numbers as Prometheus writes them in expressions and annotations, and the sum with
 * compensation that it uses where many numbers are added. */
#ifndef OTLITE_QUERY_NUMBER_H
#define OTLITE_QUERY_NUMBER_H

#include <math.h>

#include "otlite/bytes.h"

/* As Go's %g: the fewest digits that read back to d, with an exponent of at least two digits below
 * 1e-4 and from 1e+06 on; NaN, +Inf, -Inf. */
enum { NUMBER_TEXT_MAX = 40 };
const char *number_g(double d, char text[NUMBER_TEXT_MAX]);
void number_print_g(struct buf *out, double d);

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

#endif
