/* functions_over_time.c -- what the samples of a window amount to.
 *
 * Functions of floats leave histograms out, and say so by an info; sums and averages refuse a mix.
 * Source: Prometheus 3, "Query functions", <aggregation>_over_time. */
#include <math.h>
#include <stdlib.h>

#include "format_number.h"
#include "functions_internal.h"
#include "number.h"

/* ---- sums ---- */

/* A sum that was made of histograms after a reset and of ones that were none says nothing of
 * resets. */
static enum otl_err check_resets(const struct function_call *c, const struct range_window *w,
                                 struct otl_error *err)
{
    bool reset = false, none = false;

    for (size_t i = 0; i < w->n; i++) {
        reset = reset || w->h[i]->hint == RESET_YES;
        none = none || w->h[i]->hint == RESET_NO;
    }
    if (!reset || !none)
        return OTL_OK;
    return eval_warn(c->eval, call_arg(c, 0), err,
                     "conflicting counter resets during histogram aggregation");
}

static enum otl_err sum_histograms(const struct function_call *c, const struct range_window *w,
                                   struct sample *out, struct otl_error *err)
{
    out->h = histogram_copy(w->h[0]);
    for (size_t i = 1; out->h != NULL && i < w->n; i++) {
        if (!histogram_add_to(&out->h, w->h[i])) {
            histogram_free(out->h);
            out->h = NULL;
        }
    }
    return out->h == NULL ? functions_no_memory(err) : check_resets(c, w, err);
}

/* Without an h: the window holds floats. *done: it was a mix, or histograms. */
static enum otl_err sum_other(const struct function_call *c, const struct range_window *w,
                              struct sample *out, bool *done, struct otl_error *err)
{
    const size_t histograms = window_histograms(w);

    *done = histograms > 0;
    if (histograms == 0)
        return OTL_OK;
    return histograms < w->n ? warn_mixed(c, err) : sum_histograms(c, w, out, err);
}

RANGE_FUNCTION(fn_sum_over_time)
{
    struct exact_sum s = {0};
    bool done;
    enum otl_err rc = sum_other(c, w, out, &done, err);

    if (rc != OTL_OK || done)
        return rc;
    for (size_t i = 0; i < w->n; i++)
        exact_add(&s, w->v[i]);
    out->v = isinf(s.sum) ? s.sum : exact_value(&s);
    return OTL_OK;
}

/* A sum that overflows goes on as a mean that is moved by each sample. */
static double mean_of(const double *v, size_t n)
{
    struct exact_sum s = {v[0], 0};
    size_t i = 1;

    for (; i < n; i++) {
        struct exact_sum next = s;

        exact_add(&next, v[i]);
        if (isinf(next.sum))
            break;
        s = next;
    }
    s.sum /= (double)i;
    s.lost /= (double)i;
    for (; i < n; i++) {
        const double count = (double)(i + 1), keep = (count - 1) / count;

        s.sum *= keep;
        s.lost *= keep;
        exact_add(&s, v[i] / count);
    }
    return exact_value(&s);
}

/* The same of sums of samples. */
static double mean_of_sums(const struct range_window *w)
{
    const double count = (double)window_samples(w);
    struct exact_sum s = {0}, shares = {0};

    for (size_t i = 0; i < w->n; i++) {
        exact_add(&s, w->v[i]);
        exact_add(&shares, w->v[i] / count);
    }
    if (isinf(s.sum))
        return exact_value(&shares);
    return s.sum / count + s.lost / count;
}

RANGE_FUNCTION(fn_avg_over_time)
{
    bool done;
    enum otl_err rc = sum_other(c, w, out, &done, err);

    if (rc != OTL_OK)
        return rc;
    if (out->h != NULL)
        histogram_divide(out->h, (double)w->n);
    else if (!done)
        out->v = w->weight == NULL ? mean_of(w->v, w->n) : mean_of_sums(w);
    return OTL_OK;
}

/* ---- any samples ---- */

RANGE_FUNCTION(fn_count_over_time)
{
    (void)c;
    (void)err;
    out->v = (double)window_samples(w);
    return OTL_OK;
}

RANGE_FUNCTION(fn_present_over_time)
{
    (void)c;
    (void)w;
    (void)err;
    out->v = 1;
    return OTL_OK;
}

static enum otl_err sample_at(const struct range_window *w, size_t i, struct sample *out,
                              struct otl_error *err)
{
    out->v = w->v[i];
    if (w->h == NULL || w->h[i] == NULL)
        return OTL_OK;
    out->v = prom_stale();
    out->h = histogram_copy(w->h[i]);
    return out->h == NULL ? functions_no_memory(err) : OTL_OK;
}

RANGE_FUNCTION(fn_first_over_time)
{
    (void)c;
    return sample_at(w, 0, out, err);
}

RANGE_FUNCTION(fn_last_over_time)
{
    (void)c;
    return sample_at(w, w->n - 1, out, err);
}

RANGE_FUNCTION(fn_ts_of_first_over_time)
{
    (void)c;
    (void)err;
    out->v = (double)w->t[0] / 1000;
    return OTL_OK;
}

RANGE_FUNCTION(fn_ts_of_last_over_time)
{
    (void)c;
    (void)err;
    out->v = (double)w->t[w->n - 1] / 1000;
    return OTL_OK;
}

/* ---- the least and the greatest ---- */

/* NaN is less than nothing and greater than nothing, so it counts only if there is nothing else. Of
 * equals the first counts, or the last, if so wanted. */
static size_t greatest(const double *v, size_t n, double sign, bool last)
{
    size_t at = 0;

    for (size_t i = 1; i < n; i++) {
        const double x = sign * v[i], y = sign * v[at];

        if (x > y || isnan(y) || (last && x == y))
            at = i;
    }
    return at;
}

/* The same value by memory, which holds those samples that will be the greatest once what is before
 * them has left the window: each is less than the one before it. */
static double greatest_remembered(const struct range_window *w, double sign)
{
    struct range_memory *m = w->memory;
    const double *series = w->v - m->first;

    for (size_t i = m->seen > m->first ? m->seen : m->first; i < m->first + w->n; i++) {
        const double x = sign * series[i];

        if (isnan(x))
            continue;
        while (m->tail > m->head && sign * series[m->index[m->tail - 1]] < x)
            m->tail--;
        m->index[m->tail++] = (uint32_t)i;
    }
    m->seen = m->first + w->n;
    while (m->head < m->tail && m->index[m->head] < m->first)
        m->head++;
    return m->head < m->tail ? series[m->index[m->head]] : w->v[0];
}

static enum otl_err extreme(const struct function_call *c, const struct range_window *w,
                            double sign, bool time, struct sample *out, struct otl_error *err)
{
    struct window_floats f;
    enum otl_err rc;

    if (w->memory != NULL && !time) {
        out->v = greatest_remembered(w, sign);
        return OTL_OK;
    }
    rc = window_floats(w, &f, err);
    if (rc != OTL_OK)
        return rc;
    if (f.n > 0) {
        const size_t at = greatest(f.v, f.n, sign, time);

        out->v = time ? (double)f.t[at] / 1000 : f.v[at];
    }
    return window_floats_end(c, &f, err);
}

RANGE_FUNCTION(fn_max_over_time)
{
    return extreme(c, w, 1, false, out, err);
}

RANGE_FUNCTION(fn_min_over_time)
{
    return extreme(c, w, -1, false, out, err);
}

RANGE_FUNCTION(fn_ts_of_max_over_time)
{
    return extreme(c, w, 1, true, out, err);
}

RANGE_FUNCTION(fn_ts_of_min_over_time)
{
    return extreme(c, w, -1, true, out, err);
}

/* ---- spread ---- */

/* By Welford's method. */
static double variance_of(const double *v, size_t n)
{
    struct exact_sum mean = {0}, squares = {0};

    for (size_t i = 0; i < n; i++) {
        const double delta = v[i] - exact_value(&mean);

        exact_add(&mean, delta / (double)(i + 1));
        exact_add(&squares, delta * (v[i] - exact_value(&mean)));
    }
    return exact_value(&squares) / (double)n;
}

RANGE_FUNCTION(fn_stdvar_over_time)
{
    struct window_floats f;
    enum otl_err rc = window_floats(w, &f, err);

    if (rc != OTL_OK)
        return rc;
    if (f.n > 0)
        out->v = variance_of(f.v, f.n);
    return window_floats_end(c, &f, err);
}

RANGE_FUNCTION(fn_stddev_over_time)
{
    const enum otl_err rc = fn_stdvar_over_time(c, w, out, err);

    if (!prom_is_stale(out->v))
        out->v = sqrt(out->v);
    return rc;
}

/* A copy to be put in order: on the stack where it fits. */
enum { FEW = 512 };

static double *copy_values(const struct window_floats *f, double few[FEW])
{
    double *copy = f->n <= FEW ? few : malloc(f->n * sizeof(*copy));

    if (copy != NULL)
        memcpy(copy, f->v, f->n * sizeof(*copy));
    return copy;
}

RANGE_FUNCTION(fn_quantile_over_time)
{
    const double q = c->scalars[0];
    double few[FEW], *values;
    struct window_floats f;
    enum otl_err rc = window_floats(w, &f, err);

    if (rc != OTL_OK || f.n == 0)
        return rc;
    if (isnan(q) || q < 0 || q > 1) {
        char text[FORMAT_G_MAX];

        rc = eval_warn(c->eval, call_arg(c, 0), err,
                       "quantile value should be between 0 and 1, got %s", format_g_text(q, text));
    }
    values = copy_values(&f, few);
    if (values == NULL)
        rc = functions_no_memory(err);
    else
        out->v = number_quantile(q, values, f.n);
    if (values != few)
        free(values);
    if (rc != OTL_OK) {
        free(f.own);
        return rc;
    }
    return window_floats_end(c, &f, err);
}

/* The median of the distances from the median. */
RANGE_FUNCTION(fn_mad_over_time)
{
    double few[FEW], *values, median;
    struct window_floats f;
    enum otl_err rc = window_floats(w, &f, err);

    if (rc != OTL_OK || f.n == 0)
        return rc;
    values = copy_values(&f, few);
    if (values == NULL) {
        free(f.own);
        return functions_no_memory(err);
    }
    median = number_quantile(0.5, values, f.n);
    for (size_t i = 0; i < f.n; i++)
        values[i] = fabs(f.v[i] - median);
    out->v = number_quantile(0.5, values, f.n);
    if (values != few)
        free(values);
    return window_floats_end(c, &f, err);
}
