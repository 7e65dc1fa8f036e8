/* classic_histogram.c -- quantiles and fractions of histograms with explicit bounds.
 *
 * Within a bucket the observations are taken to be spread evenly. The first bucket begins at 0 if
 * its bound is above 0.
 *
 * Source: Prometheus 3, "Query functions", histogram_quantile, histogram_fraction. */
#include "classic_histogram.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

/* Differences between counts that are relatively less come of rounding. */
#define SMALL_DELTA 1e-12

bool classic_bound(struct bytes le, double *out)
{
    char text[64], *end;

    if (le.n == 0 || le.n >= sizeof(text) || memchr(le.p, '\0', le.n) != NULL ||
        strchr("+-.0123456789iI", le.p[0]) == NULL)
        return false;
    memcpy(text, le.p, le.n);
    text[le.n] = '\0';
    errno = 0;
    *out = strtod(text, &end);
    return *end == '\0' && !isnan(*out) && !(errno == ERANGE && isinf(*out));
}

static size_t join_equal_bounds(struct classic_bucket *b, size_t n)
{
    size_t last = 0;

    for (size_t i = 1; i < n; i++) {
        if (b[i].upper == b[last].upper)
            b[last].count += b[i].count;
        else
            b[++last] = b[i];
    }
    return last + 1;
}

static bool almost_equal(double a, double b)
{
    const double sum = fabs(a) + fabs(b), difference = fabs(a - b);

    if (a == 0 || b == 0 || sum < DBL_MIN)
        return difference < SMALL_DELTA * DBL_MIN;
    return difference / fmin(sum, DBL_MAX) < SMALL_DELTA;
}

static bool force_monotonic(struct classic_bucket *b, size_t n)
{
    double before = b[0].count;
    bool forced = false;

    for (size_t i = 1; i < n; i++) {
        if (b[i].count == before)
            continue;
        if (almost_equal(before, b[i].count)) {
            b[i].count = before;
        } else if (b[i].count < before) {
            b[i].count = before;
            forced = true;
        } else {
            before = b[i].count;
        }
    }
    return forced;
}

double classic_quantile(double q, struct classic_bucket *b, size_t n, bool *forced)
{
    double rank, begin = 0, count;
    size_t i = 0;

    *forced = false;
    if (isnan(q))
        return (double)NAN;
    if (q < 0)
        return -(double)INFINITY;
    if (q > 1)
        return (double)INFINITY;
    if (b[n - 1].upper != (double)INFINITY)
        return (double)NAN;
    n = join_equal_bounds(b, n);
    *forced = force_monotonic(b, n);
    if (n < 2 || b[n - 1].count == 0) {
        *forced = false;
        return (double)NAN;
    }
    rank = q * b[n - 1].count;
    /* Counts may be NaN, which no rank is up to. */
    while (i < n - 1 && !(b[i].count >= rank))
        i++;
    if (i == n - 1)
        return b[n - 2].upper;
    if (i == 0 && b[0].upper <= 0)
        return b[0].upper;
    count = b[i].count;
    if (i > 0) {
        begin = b[i - 1].upper;
        count -= b[i - 1].count;
        rank -= b[i - 1].count;
    }
    return begin + (b[i].upper - begin) * (rank / count);
}

/* How many observations are below v. */
static double rank_of(const struct classic_bucket *b, size_t n, double v)
{
    double rank = 0, lower = b[0].upper <= 0 ? -(double)INFINITY : 0;

    for (size_t i = 0; i < n; i++) {
        if (lower >= v)
            return rank;
        if (b[i].upper > v) {
            /* Of a bucket without a lower bound all are below. */
            if (isinf(lower))
                return b[i].count;
            return rank + (b[i].count - rank) * (v - lower) / (b[i].upper - lower);
        }
        rank = b[i].count;
        lower = b[i].upper;
    }
    return b[n - 1].count;
}

double classic_fraction(double lower, double upper, struct classic_bucket *b, size_t n)
{
    double count;

    if (b[n - 1].upper != (double)INFINITY)
        return (double)NAN;
    n = join_equal_bounds(b, n);
    count = b[n - 1].count;
    if (count == 0 || isnan(lower) || isnan(upper))
        return (double)NAN;
    if (lower >= upper)
        return 0;
    return (fmin(rank_of(b, n, upper), count) - fmin(rank_of(b, n, lower), count)) / count;
}
