/* functions_fold.c -- all windows of a series at once, where they share their edges. What lies
 * between two edges is a segment, and a window is `span` segments. Each is looked at once; then
 * windows are put together by van Herk's and Gil and Werman's method: runs of `span` segments are
 * added up from their begin and from their end, and a window is the end of one run and the begin of
 * the next. Nothing is subtracted, so nothing cancels. */
#include <math.h>

#include "functions_internal.h"
#include "number.h"

static size_t segments(const struct range_folded *w)
{
    return w->steps + w->span - 1;
}

static size_t samples_of(const struct range_folded *w, size_t window)
{
    return w->edges[window + w->span] - w->edges[window];
}

/* ---- sums ---- */

static void add_sum(struct exact_sum *to, struct exact_sum more)
{
    exact_add(to, more.sum);
    to->lost += more.lost;
}

/* begins and ends: a sum of each segment, which become those of the runs up to it and from it. */
static void run_sums(struct exact_sum *begins, struct exact_sum *ends, size_t n, size_t span)
{
    for (size_t k = 1; k < n; k++) {
        if (k % span == 0)
            continue;
        struct exact_sum all = begins[k - 1];

        add_sum(&all, begins[k]);
        begins[k] = all;
    }
    for (size_t k = n - 1; k-- > 0;) {
        if ((k + 1) % span != 0)
            add_sum(&ends[k], ends[k + 1]);
    }
}

/* False: a sum is not finite, and how samples are added up would count. */
static bool segment_sums(const struct range_folded *w, struct exact_sum *out)
{
    const size_t n = segments(w);
    bool finite = true;

    for (size_t k = 0; k < n; k++) {
        struct exact_sum s = {0};

        for (size_t i = w->edges[k]; i < w->edges[k + 1]; i++)
            exact_add(&s, w->v[i]);
        out[k] = s;
        finite = finite && isfinite(s.sum);
    }
    return finite;
}

static bool fold_sum(const struct range_folded *w, bool mean, double *out)
{
    const size_t n = segments(w);
    struct exact_sum *begins = (struct exact_sum *)(void *)w->scratch, *ends = begins + n;

    if (!segment_sums(w, begins))
        return false;
    memcpy(ends, begins, n * sizeof(*ends));
    run_sums(begins, ends, n, w->span);
    for (size_t k = 0; k < n; k++) {
        if (!isfinite(begins[k].sum) || !isfinite(ends[k].sum))
            return false;
    }
    for (size_t i = 0; i < w->steps; i++) {
        const double count = (double)samples_of(w, i);
        struct exact_sum s = ends[i];

        if (count == 0)
            continue;
        if (i % w->span != 0)
            add_sum(&s, begins[i + w->span - 1]);
        if (!isfinite(s.sum))
            return false;
        if (mean) {
            s.sum /= count;
            s.lost /= count;
        }
        out[i] = exact_value(&s);
    }
    return true;
}

bool functions_fold_sum(const struct range_folded *w, double *out)
{
    return fold_sum(w, false, out);
}

bool functions_fold_avg(const struct range_folded *w, double *out)
{
    return fold_sum(w, true, out);
}

/* ---- the least and the greatest ---- */

/* Of equals the earlier one; NaN only of NaNs. */
static inline double greater(double earlier, double later, double sign)
{
    return sign * later > sign * earlier || isnan(earlier) ? later : earlier;
}

static bool fold_extreme(const struct range_folded *w, double sign, double *out)
{
    const size_t n = segments(w), span = w->span;
    double *begins = w->scratch, *ends = begins + n;

    for (size_t k = 0; k < n; k++) {
        double most = (double)NAN;

        for (size_t i = w->edges[k]; i < w->edges[k + 1]; i++)
            most = greater(most, w->v[i], sign);
        begins[k] = ends[k] = most;
    }
    for (size_t k = 1; k < n; k++) {
        if (k % span != 0)
            begins[k] = greater(begins[k - 1], begins[k], sign);
    }
    for (size_t k = n - 1; k-- > 0;) {
        if ((k + 1) % span != 0)
            ends[k] = greater(ends[k], ends[k + 1], sign);
    }
    for (size_t i = 0; i < w->steps; i++) {
        if (samples_of(w, i) == 0)
            continue;
        out[i] = i % span == 0 ? ends[i] : greater(ends[i], begins[i + span - 1], sign);
    }
    return true;
}

bool functions_fold_max(const struct range_folded *w, double *out)
{
    return fold_extreme(w, 1, out);
}

bool functions_fold_min(const struct range_folded *w, double *out)
{
    return fold_extreme(w, -1, out);
}

bool functions_fold_count(const struct range_folded *w, double *out)
{
    for (size_t i = 0; i < w->steps; i++) {
        if (samples_of(w, i) > 0)
            out[i] = (double)samples_of(w, i);
    }
    return true;
}
