/* number.c -- quantiles of numbers. */
#include "number.h"

static void swap(double *a, double *b)
{
    const double t = *a;

    *a = *b;
    *b = t;
}

/* Put the value of rank k at v[k], what is less before it and what is greater behind it; no NaN is
 * among them. By Hoare's selection; the middle of three as pivot keeps sorted input cheap. */
static void select_rank(double *v, size_t n, size_t k)
{
    size_t from = 0, to = n - 1;

    while (from < to) {
        const size_t mid = from + (to - from) / 2;
        size_t i = from, j = to;
        double pivot;

        if (v[mid] < v[from])
            swap(&v[mid], &v[from]);
        if (v[to] < v[from])
            swap(&v[to], &v[from]);
        if (v[to] < v[mid])
            swap(&v[to], &v[mid]);
        pivot = v[mid];
        for (;;) {
            while (v[i] < pivot)
                i++;
            while (v[j] > pivot)
                j--;
            if (i >= j)
                break;
            swap(&v[i++], &v[j--]);
        }
        /* All up to j are at most the pivot, all behind it at least. */
        if (i > j && k > j && k < i)
            return;
        if (k <= j)
            to = j;
        else
            from = j + 1;
    }
}

double number_quantile(double q, double *values, size_t n)
{
    double rank, lower, upper, below, above;
    size_t nans = 0, at;

    if (n == 0 || isnan(q))
        return (double)NAN;
    if (q < 0)
        return -(double)INFINITY;
    if (q > 1)
        return (double)INFINITY;
    rank = q * (double)(n - 1);
    lower = floor(rank);
    upper = fmin((double)(n - 1), lower + 1);
    for (size_t i = 0; i < n; i++) {
        if (isnan(values[i]))
            swap(&values[nans++], &values[i]);
    }
    at = (size_t)lower;
    if (at >= nans)
        select_rank(values + nans, n - nans, at - nans);
    below = values[at];
    at = (size_t)upper;
    if (at > (size_t)lower && at >= nans) {
        /* The least of those behind. */
        size_t least = at;

        for (size_t i = at; i < n; i++) {
            if (values[i] < values[least])
                least = i;
        }
        swap(&values[at], &values[least]);
    }
    above = values[at];
    return below * (1 - (rank - lower)) + above * (rank - lower);
}
