/* histogram_stats.c -- what native histograms tell of the observations: quantiles, fractions,
 * variance.
 *
 * Within a bucket the observations are taken to be spread evenly over the logarithm of their value,
 * within the zero bucket evenly over the value. The zero bucket of a histogram that has buckets of
 * one sign only ends at zero on the other side.
 *
 * Observations of NaN are in count but in no bucket; sum is NaN then, which is how they are known.
 * They rank above all others.
 *
 * Source: Prometheus 3, "Query functions", histogram_quantile, histogram_fraction,
 * histogram_stddev. */
#include <math.h>

#include "histogram_internal.h"
#include "number.h"

/* With the zero bucket cut to the side that the histogram has. */
static struct histogram_bucket place_cut(const struct prom_histogram *h, size_t place)
{
    struct histogram_bucket b = histogram_place(h, place);

    if (b.is_zero) {
        const bool negative = histogram_side_has(&h->negative);
        const bool positive = histogram_side_has(&h->positive);

        if (!negative && positive)
            b.lower = 0;
        else if (negative && !positive)
            b.upper = 0;
    }
    return b;
}

/* The value that `fraction` of the bucket's observations are below of. */
static double within(const struct histogram_bucket *b, double fraction)
{
    double low, high;

    if (b->is_zero)
        return b->lower + (b->upper - b->lower) * fraction;
    low = log2(fabs(b->lower));
    high = log2(fabs(b->upper));
    if (b->lower > 0)
        return exp2(low + (high - low) * fraction);
    return -exp2(high + (low - high) * (1 - fraction));
}

double histogram_quantile(const struct prom_histogram *h, double q)
{
    const size_t places = histogram_places(h);
    /* From the near end, as less is added up; NaNs are at the far one. */
    const bool forward = isnan(h->sum) || q < 0.5;
    double rank, count = 0, fraction;
    size_t place = 0;
    bool found = false;
    struct histogram_bucket b;

    if (q < 0)
        return -(double)INFINITY;
    if (q > 1)
        return (double)INFINITY;
    if (h->count == 0 || isnan(q))
        return (double)NAN;
    rank = (forward ? q : 1 - q) * h->count;
    for (size_t i = 0; i < places; i++) {
        const size_t at = forward ? i : places - 1 - i;
        const double here = histogram_place_count(h, at);

        if (here == 0)
            continue;
        place = at;
        found = true;
        count += here;
        if (count >= rank)
            break;
    }
    if (!found)
        return isnan(h->sum) ? (double)NAN : 0;
    b = place_cut(h, place);
    /* Rounding may take the buckets' sum above the count. */
    if (count > h->count)
        count = h->count;
    if (count < rank)
        return isnan(h->sum) ? (double)NAN : b.upper;
    fraction = (forward ? rank - (count - b.count) : count - rank) / b.count;
    return within(&b, fraction);
}

/* How many of the bucket's observations are below v, which lies in it. */
static double share(const struct histogram_bucket *b, double v)
{
    double low, high, at;

    if (b->is_zero)
        return b->count * (v - b->lower) / (b->upper - b->lower);
    low = log2(fabs(b->lower));
    high = log2(fabs(b->upper));
    at = log2(fabs(v));
    return b->count * (v > 0 ? (at - low) / (high - low) : 1 - (at - high) / (low - high));
}

/* How many observations are below v; all of them when no bucket begins at or reaches beyond it. */
static double rank_of(const struct prom_histogram *h, double v)
{
    double rank = 0;

    for (size_t i = 0; i < histogram_places(h); i++) {
        const double count = histogram_place_count(h, i);
        struct histogram_bucket b;

        if (count == 0)
            continue;
        b = place_cut(h, i);
        if (b.lower >= v)
            return rank;
        if (b.upper > v)
            return rank + share(&b, v);
        rank += count;
    }
    return isnan(h->sum) ? rank : h->count;
}

double histogram_fraction(const struct prom_histogram *h, double lower, double upper)
{
    if (h->count == 0 || isnan(lower) || isnan(upper))
        return (double)NAN;
    if (lower >= upper)
        return 0;
    return (fmin(rank_of(h, upper), h->count) - fmin(rank_of(h, lower), h->count)) / h->count;
}

bool histogram_has_nans(const struct prom_histogram *h)
{
    double count = 0;

    if (!isnan(h->sum))
        return false;
    /* Infinities of both signs make a sum NaN too. */
    for (size_t i = 0; i < histogram_places(h); i++)
        count += histogram_place_count(h, i);
    return count < h->count;
}

double histogram_variance(const struct prom_histogram *h)
{
    const double mean = h->sum / h->count;
    struct exact_sum squares = {0};

    for (size_t i = 0; i < histogram_places(h); i++) {
        struct histogram_bucket b;
        double value = 0;

        if (histogram_place_count(h, i) == 0)
            continue;
        b = histogram_place(h, i);
        if (!b.is_zero)
            value = copysign(sqrt(b.lower * b.upper), b.upper);
        exact_add(&squares, b.count * (value - mean) * (value - mean));
    }
    return exact_value(&squares) / h->count;
}
