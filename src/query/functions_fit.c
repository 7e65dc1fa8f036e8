/* functions_fit.c -- a line or a trend through the floats of a window.
 *
 * Source: Prometheus 3, "Query functions", deriv, predict_linear, double_exponential_smoothing. */
#include <math.h>
#include <stdlib.h>

#include "functions_internal.h"
#include "number.h"

/* The line by least squares; at is the value at that time, slope is per second. */
static void fit(const struct window_floats *f, int64_t time, double *slope, double *at)
{
    struct exact_sum x = {0}, y = {0}, xy = {0}, xx = {0};
    const double n = (double)f->n;
    double sum_x, sum_y, covariance, variance;
    bool constant = true;

    for (size_t i = 0; i < f->n; i++) {
        const double seconds = (double)(f->t[i] - time) / 1e3;

        constant = constant && (i == 0 || f->v[i] == f->v[0]);
        exact_add(&x, seconds);
        exact_add(&y, f->v[i]);
        exact_add(&xy, seconds * f->v[i]);
        exact_add(&xx, seconds * seconds);
    }
    if (constant) {
        /* No rounding may make a slope of it. */
        *slope = isinf(f->v[0]) ? (double)NAN : 0;
        *at = isinf(f->v[0]) ? (double)NAN : f->v[0];
        return;
    }
    sum_x = exact_value(&x);
    sum_y = exact_value(&y);
    covariance = exact_value(&xy) - sum_x * sum_y / n;
    variance = exact_value(&xx) - sum_x * sum_x / n;
    *slope = covariance / variance;
    *at = sum_y / n - *slope * sum_x / n;
}

RANGE_FUNCTION(fn_deriv)
{
    struct window_floats f;
    double at;
    enum otl_err rc = window_floats(w, &f, err);

    if (rc != OTL_OK)
        return rc;
    /* Times count from the first one, as differences of large numbers lose digits. */
    if (f.n >= 2)
        fit(&f, f.t[0], &out->v, &at);
    return window_floats_end(c, &f, err);
}

RANGE_FUNCTION(fn_predict_linear)
{
    struct window_floats f;
    double slope, at;
    enum otl_err rc = window_floats(w, &f, err);

    if (rc != OTL_OK)
        return rc;
    if (f.n >= 2) {
        fit(&f, c->time, &slope, &at);
        out->v = slope * c->scalars[0] + at;
    }
    return window_floats_end(c, &f, err);
}

static enum otl_err check_factor(double factor, const char *name, struct otl_error *err)
{
    /* NaN passes, as it does there. */
    if (factor <= 0 || factor >= 1)
        return otl_fail(err, OTL_EBADREQUEST, "invalid %s factor. Expected: 0 < %cf < 1, got: %f",
                        name, name[0], factor);
    return OTL_OK;
}

/* Holt's linear method: a level and a trend, each moved towards what a sample shows. */
RANGE_FUNCTION(fn_smoothing)
{
    const double smoothing = c->scalars[0], trend = c->scalars[1];
    struct window_floats f;
    enum otl_err rc = check_factor(smoothing, "smoothing", err);

    if (rc == OTL_OK)
        rc = check_factor(trend, "trend", err);
    if (rc == OTL_OK)
        rc = window_floats(w, &f, err);
    if (rc != OTL_OK)
        return rc;
    if (f.n >= 2) {
        double before = 0, level = f.v[0], b = f.v[1] - f.v[0];

        for (size_t i = 1; i < f.n; i++) {
            const double x = smoothing * f.v[i];
            double y;

            if (i > 1)
                b = trend * (level - before) + (1 - trend) * b;
            y = (1 - smoothing) * (level + b);
            before = level;
            level = x + y;
        }
        out->v = level;
    }
    return window_floats_end(c, &f, err);
}
