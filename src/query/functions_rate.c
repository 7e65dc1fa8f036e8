/* functions_rate.c -- how much a series changed: rate, increase, delta, irate, idelta, changes,
 * resets.
 *
 * A counter that is less than before has begun again from 0, so what it had counts on top. The
 * change between the first and the last sample is extrapolated to the edges of the window, if these
 * are within 1.1 average intervals of the samples, else by half an interval, and for a counter not
 * further back than to where it was 0.
 *
 * Source: Prometheus 3, "Query functions"; "Native histograms" specification, "PromQL". */
#include <math.h>

#include "functions_internal.h"

/* What the change over the samples times gives the change over the window. first_t, last_t: of the
 * n samples, in ms. */
static inline double extrapolation(int64_t start, int64_t end, int64_t first_t, int64_t last_t,
                                   size_t n, bool is_counter, double first, double change)
{
    double to_start = (double)(first_t - start) / 1000;
    double to_end = (double)(end - last_t) / 1000;
    const double sampled = (double)(last_t - first_t) / 1000;
    const double interval = sampled / (double)(n - 1);
    const double threshold = interval * 1.1;

    if (to_start >= threshold)
        to_start = interval / 2;
    if (is_counter && change > 0 && first >= 0) {
        const double to_zero = sampled * (first / change);

        if (to_zero < to_start)
            to_start = to_zero;
    }
    if (to_end >= threshold)
        to_end = interval / 2;
    return (sampled + to_start + to_end) / sampled;
}

static double window_extrapolation(const struct range_window *w, bool is_counter, double first,
                                   double change)
{
    return extrapolation(w->start, w->end, w->t[0], w->t[w->n - 1], window_samples(w), is_counter,
                         first, change);
}

/* ---- histograms ---- */

static enum otl_err check_gauge(const struct function_call *c, const struct range_window *w,
                                bool is_counter, const struct expr *where, struct otl_error *err)
{
    const bool first = w->h[0]->hint == RESET_GAUGE, last = w->h[w->n - 1]->hint == RESET_GAUGE;
    bool gauge = false;

    if (!is_counter)
        return first && last ? OTL_OK
                             : eval_warn(c->eval, where, err,
                                         "this native histogram metric is not a gauge: \"%.*s\"",
                                         CALL_NAME(c));
    for (size_t i = 0; i < w->n; i++)
        gauge = gauge || w->h[i]->hint == RESET_GAUGE;
    return !gauge
               ? OTL_OK
               : eval_warn(c->eval, where, err,
                           "this native histogram metric is not a counter: \"%.*s\"", CALL_NAME(c));
}

/* last - first, and what was lost at resets on top. */
static struct prom_histogram *histogram_change(const struct range_window *w, bool is_counter)
{
    const struct prom_histogram *first = w->h[0], *last = w->h[w->n - 1];
    /* The layout of a first one that was reset at once does not matter. */
    const bool skip = is_counter && histogram_is_reset(first, w->h[1]);
    struct prom_histogram *out = skip ? histogram_copy(last) : histogram_sub(last, first);

    for (size_t i = skip ? 2 : 1; is_counter && out != NULL && i < w->n; i++) {
        if (histogram_is_reset(w->h[i - 1], w->h[i]) && !histogram_add_to(&out, w->h[i - 1])) {
            histogram_free(out);
            return NULL;
        }
    }
    if (out != NULL)
        out->hint = RESET_GAUGE;
    return out;
}

static enum otl_err histogram_rate(const struct function_call *c, const struct range_window *w,
                                   bool is_counter, double *factor, struct sample *out,
                                   struct otl_error *err)
{
    enum otl_err rc = check_gauge(c, w, is_counter, call_arg(c, 0), err);

    if (rc != OTL_OK)
        return rc;
    out->h = histogram_change(w, is_counter);
    if (out->h == NULL)
        return functions_no_memory(err);
    *factor = window_extrapolation(w, is_counter, w->h[0]->count, out->h->count);
    return OTL_OK;
}

/* ---- rate, increase, delta ---- */

/* What a counter had before each reset in the window, added to change. Always in the order of time,
 * so that it does not depend on memory how sums are rounded. */
static double add_lost(const struct range_window *w, double change)
{
    struct range_memory *m = w->memory;
    const double *series;

    if (m == NULL) {
        for (size_t i = 1; i < w->n; i++) {
            if (w->v[i] < w->v[i - 1])
                change += w->v[i - 1];
        }
        return change;
    }
    series = w->v - m->first;
    for (size_t i = m->seen > m->first ? m->seen : m->first + 1; i < m->first + w->n; i++) {
        if (series[i] < series[i - 1])
            m->index[m->tail++] = (uint32_t)i;
    }
    m->seen = m->first + w->n;
    while (m->head < m->tail && m->index[m->head] <= m->first)
        m->head++;
    for (size_t k = m->head; k < m->tail; k++)
        change += series[m->index[k] - 1];
    return change;
}

static enum otl_err extrapolated(const struct function_call *c, const struct range_window *w,
                                 bool is_counter, bool is_rate, struct sample *out,
                                 struct otl_error *err)
{
    const size_t histograms = window_histograms(w);
    double change, factor = 1;
    enum otl_err rc;

    if (histograms > 0 && histograms < w->n)
        return warn_mixed(c, err);
    if (w->n < 2)
        return OTL_OK;
    if (histograms > 0) {
        rc = histogram_rate(c, w, is_counter, &factor, out, err);
        if (rc != OTL_OK)
            return rc;
        if (is_rate)
            factor /= (double)(w->end - w->start) / 1000;
        histogram_scale(out->h, factor);
        histogram_compact(out->h);
        return OTL_OK;
    }
    change = w->v[w->n - 1] - w->v[0];
    if (is_counter)
        change = add_lost(w, change);
    factor = window_extrapolation(w, is_counter, w->v[0], change);
    if (is_rate)
        factor /= (double)(w->end - w->start) / 1000;
    out->v = change * factor;
    return OTL_OK;
}

/* What a window is extrapolated by depends on how its samples lie in it, and these lie alike in one
 * window after the other. */
struct spread {
    int64_t lead,
        tail; /* ms from the window's start to the first sample, from the last to its end */
    size_t n; /* samples; 0: none known */
    double sampled, to_start, to_end; /* s */
    double factor;                    /* of the change, unless the counter was 0 in between */
};

static void spread_of(struct spread *s, int64_t lead, int64_t tail, size_t n, int64_t range,
                      double seconds)
{
    double interval, threshold;

    if (s->n == n && s->lead == lead && s->tail == tail)
        return;
    *s = (struct spread){.lead = lead,
                         .tail = tail,
                         .n = n,
                         .sampled = (double)(range - lead - tail) / 1000,
                         .to_start = (double)lead / 1000,
                         .to_end = (double)tail / 1000};
    interval = s->sampled / (double)(n - 1);
    threshold = interval * 1.1;
    if (s->to_start >= threshold)
        s->to_start = interval / 2;
    if (s->to_end >= threshold)
        s->to_end = interval / 2;
    s->factor = (s->sampled + s->to_start + s->to_end) / s->sampled / seconds;
}

/* The factor for a counter that was first at the window's first sample and grew by change. */
static inline double counter_factor(const struct spread *s, double first, double change,
                                    double seconds)
{
    const double reach = s->sampled * first;
    double to_zero;

    /* Far above 0, as nearly always: no division. */
    if (!(change > 0 && first >= 0) || (reach > 2 * s->to_start * change && reach < HUGE_VAL))
        return s->factor;
    to_zero = s->sampled * (first / change);
    return to_zero < s->to_start ? (s->sampled + to_zero + s->to_end) / s->sampled / seconds
                                 : s->factor;
}

/* The same of all windows. seconds: what the growth is divided by. */
static inline bool fold_extrapolated(const struct range_folded *w, bool is_counter, double seconds,
                                     double *out)
{
    const double *v = w->v;
    struct spread spread = {0};
    size_t reset = w->n; /* the first one behind the window's first sample */

    for (size_t i = 1; is_counter && i < w->n && reset == w->n; i++)
        reset = v[i] < v[i - 1] ? i : reset;
    for (size_t i = 0; i < w->steps; i++) {
        const size_t low = w->edges[i], high = w->edges[i + w->span];
        const int64_t start = w->start + (int64_t)i * w->step;
        double change;

        if (high < low + 2)
            continue;
        change = v[high - 1] - v[low];
        while (reset <= low) {
            do
                reset++;
            while (reset < w->n && !(v[reset] < v[reset - 1]));
        }
        for (size_t k = reset; k < high; k++) {
            if (v[k] < v[k - 1])
                change += v[k - 1];
        }
        spread_of(&spread, w->t[low] - start, start + w->range - w->t[high - 1], high - low,
                  w->range, seconds);
        out[i] = change *
                 (is_counter ? counter_factor(&spread, v[low], change, seconds) : spread.factor);
    }
    return true;
}

bool functions_fold_rate(const struct range_folded *w, double *out)
{
    return fold_extrapolated(w, true, (double)w->range / 1000, out);
}

bool functions_fold_increase(const struct range_folded *w, double *out)
{
    return fold_extrapolated(w, true, 1, out);
}

bool functions_fold_delta(const struct range_folded *w, double *out)
{
    return fold_extrapolated(w, false, 1, out);
}

RANGE_FUNCTION(fn_rate)
{
    return extrapolated(c, w, true, true, out, err);
}

RANGE_FUNCTION(fn_increase)
{
    return extrapolated(c, w, true, false, out, err);
}

RANGE_FUNCTION(fn_delta)
{
    return extrapolated(c, w, false, false, out, err);
}

static bool ends_with(struct bytes s, const char *end)
{
    const size_t n = strlen(end);

    return s.n >= n && memcmp(s.p + s.n - n, end, n) == 0;
}

enum otl_err functions_check_counter(const struct function_call *c, const struct prom_row *row,
                                     struct otl_error *err)
{
    const struct bytes name = labels_get(c->labels, bytes_str(LABEL_NAME));

    if (name.n == 0 || ends_with(name, "_total") || ends_with(name, "_sum") ||
        ends_with(name, "_count") || ends_with(name, "_bucket"))
        return OTL_OK;
    for (size_t i = 0; i < row->n; i++) {
        if (!prom_is_stale(row->v[i]))
            return eval_info(c->eval, call_arg(c, 0), err,
                             "metric might not be a counter, name does not end in "
                             "_total/_sum/_count/_bucket: \"%.*s\"",
                             CALL_NAME(c));
    }
    return OTL_OK;
}

/* ---- irate, idelta ---- */

static enum otl_err instant_histogram(const struct function_call *c, const struct range_window *w,
                                      bool is_rate, double seconds, struct sample *out,
                                      struct otl_error *err)
{
    const struct prom_histogram *before = w->h[0], *last = w->h[1];
    enum otl_err rc = check_gauge(c, w, is_rate, call_arg(c, 0), err);

    if (rc != OTL_OK)
        return rc;
    out->h = is_rate && histogram_is_reset(before, last) ? histogram_copy(last)
                                                         : histogram_sub(last, before);
    if (out->h == NULL)
        return functions_no_memory(err);
    out->h->hint = RESET_GAUGE;
    histogram_compact(out->h);
    if (is_rate)
        histogram_divide(out->h, seconds);
    return OTL_OK;
}

/* By the last two samples. */
static enum otl_err instant(const struct function_call *c, const struct range_window *w,
                            bool is_rate, struct sample *out, struct otl_error *err)
{
    struct range_window two = *w;
    size_t histograms;
    double seconds;

    if (w->n < 2)
        return OTL_OK;
    two.t += w->n - 2;
    two.v += w->n - 2;
    two.h = w->h == NULL ? NULL : w->h + (w->n - 2);
    two.n = 2;
    histograms = window_histograms(&two);
    if (histograms == 1)
        return warn_mixed(c, err);
    seconds = (double)(two.t[1] - two.t[0]) / 1000;
    if (histograms == 2)
        return instant_histogram(c, &two, is_rate, seconds, out, err);
    out->v = is_rate && two.v[1] < two.v[0] ? two.v[1] : two.v[1] - two.v[0];
    if (is_rate)
        out->v /= seconds;
    return OTL_OK;
}

RANGE_FUNCTION(fn_irate)
{
    return instant(c, w, true, out, err);
}

RANGE_FUNCTION(fn_idelta)
{
    return instant(c, w, false, out, err);
}

/* ---- changes, resets ---- */

RANGE_FUNCTION(fn_changes)
{
    size_t n = 0;

    (void)c;
    (void)err;
    for (size_t i = 1; i < w->n; i++) {
        const struct prom_histogram *a = w->h == NULL ? NULL : w->h[i - 1];
        const struct prom_histogram *b = w->h == NULL ? NULL : w->h[i];

        if (a == NULL && b == NULL)
            n += w->v[i] != w->v[i - 1] && !(isnan(w->v[i]) && isnan(w->v[i - 1]));
        else
            n += a == NULL || b == NULL || !histogram_equal(a, b);
    }
    out->v = (double)n;
    return OTL_OK;
}

RANGE_FUNCTION(fn_resets)
{
    size_t n = 0;

    (void)c;
    (void)err;
    for (size_t i = 1; i < w->n; i++) {
        const struct prom_histogram *a = w->h == NULL ? NULL : w->h[i - 1];
        const struct prom_histogram *b = w->h == NULL ? NULL : w->h[i];

        if (a == NULL && b == NULL)
            n += w->v[i] < w->v[i - 1];
        else
            n += a == NULL || b == NULL || histogram_is_reset(a, b);
    }
    out->v = (double)n;
    return OTL_OK;
}
