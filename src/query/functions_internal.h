/* functions_internal.h -- what functions.c's table calls, and what the families of functions
 * share. */
#ifndef OTLITE_QUERY_FUNCTIONS_INTERNAL_H
#define OTLITE_QUERY_FUNCTIONS_INTERNAL_H

#include "eval.h"

#define RANGE_FUNCTION(name)                                                       \
    enum otl_err name(const struct function_call *c, const struct range_window *w, \
                      struct sample *out, struct otl_error *err)
#define MAP_FUNCTION(name)                                                                        \
    enum otl_err name(const struct function_call *c, const struct sample *in, struct sample *out, \
                      struct otl_error *err)
#define MATRIX_FUNCTION(name)                                                                     \
    enum otl_err name(struct eval *e, const struct expr *call, struct prom_value *args, size_t n, \
                      struct prom_value *out, struct otl_error *err)

/* functions_rate.c */
RANGE_FUNCTION(fn_delta);
RANGE_FUNCTION(fn_idelta);
RANGE_FUNCTION(fn_increase);
RANGE_FUNCTION(fn_irate);
RANGE_FUNCTION(fn_rate);
RANGE_FUNCTION(fn_changes);
RANGE_FUNCTION(fn_resets);
/* An info when the name of a series of floats is no counter's. */
enum otl_err functions_check_counter(const struct function_call *c, const struct prom_row *row,
                                     struct otl_error *err);

/* functions_over_time.c */
RANGE_FUNCTION(fn_avg_over_time);
RANGE_FUNCTION(fn_count_over_time);
RANGE_FUNCTION(fn_first_over_time);
RANGE_FUNCTION(fn_last_over_time);
RANGE_FUNCTION(fn_mad_over_time);
RANGE_FUNCTION(fn_max_over_time);
RANGE_FUNCTION(fn_min_over_time);
RANGE_FUNCTION(fn_present_over_time);
RANGE_FUNCTION(fn_quantile_over_time);
RANGE_FUNCTION(fn_stddev_over_time);
RANGE_FUNCTION(fn_stdvar_over_time);
RANGE_FUNCTION(fn_sum_over_time);
RANGE_FUNCTION(fn_ts_of_first_over_time);
RANGE_FUNCTION(fn_ts_of_last_over_time);
RANGE_FUNCTION(fn_ts_of_max_over_time);
RANGE_FUNCTION(fn_ts_of_min_over_time);
/* functions_fit.c */
RANGE_FUNCTION(fn_deriv);
RANGE_FUNCTION(fn_predict_linear);
RANGE_FUNCTION(fn_smoothing);

/* functions_math.c */
MAP_FUNCTION(fn_abs);
MAP_FUNCTION(fn_acos);
MAP_FUNCTION(fn_acosh);
MAP_FUNCTION(fn_asin);
MAP_FUNCTION(fn_asinh);
MAP_FUNCTION(fn_atan);
MAP_FUNCTION(fn_atanh);
MAP_FUNCTION(fn_ceil);
MAP_FUNCTION(fn_clamp);
MAP_FUNCTION(fn_clamp_max);
MAP_FUNCTION(fn_clamp_min);
MAP_FUNCTION(fn_cos);
MAP_FUNCTION(fn_cosh);
MAP_FUNCTION(fn_deg);
MAP_FUNCTION(fn_exp);
MAP_FUNCTION(fn_floor);
MAP_FUNCTION(fn_ln);
MAP_FUNCTION(fn_log10);
MAP_FUNCTION(fn_log2);
MAP_FUNCTION(fn_rad);
MAP_FUNCTION(fn_round);
MAP_FUNCTION(fn_sgn);
MAP_FUNCTION(fn_sin);
MAP_FUNCTION(fn_sinh);
MAP_FUNCTION(fn_sqrt);
MAP_FUNCTION(fn_tan);
MAP_FUNCTION(fn_tanh);

/* functions_date.c: of samples, and of the time of the step when there is no argument. */
MAP_FUNCTION(fn_day_of_month);
MAP_FUNCTION(fn_day_of_week);
MAP_FUNCTION(fn_day_of_year);
MAP_FUNCTION(fn_days_in_month);
MAP_FUNCTION(fn_hour);
MAP_FUNCTION(fn_minute);
MAP_FUNCTION(fn_month);
MAP_FUNCTION(fn_year);
MATRIX_FUNCTION(fn_date_now);

/* functions_vector.c */
MATRIX_FUNCTION(fn_absent);
MATRIX_FUNCTION(fn_pi);
MATRIX_FUNCTION(fn_scalar);
MATRIX_FUNCTION(fn_sort);
MATRIX_FUNCTION(fn_sort_by_label);
MATRIX_FUNCTION(fn_sort_by_label_desc);
MATRIX_FUNCTION(fn_sort_desc);
MATRIX_FUNCTION(fn_time);
MAP_FUNCTION(fn_timestamp);
MATRIX_FUNCTION(fn_vector);

/* functions_labels.c */
MATRIX_FUNCTION(fn_label_join);
MATRIX_FUNCTION(fn_label_replace);
/* functions_info.c */
MATRIX_FUNCTION(fn_info);

/* functions_fold.c; of rates: functions_rate.c */
bool functions_fold_sum(const struct range_folded *w, double *out);
bool functions_fold_avg(const struct range_folded *w, double *out);
bool functions_fold_min(const struct range_folded *w, double *out);
bool functions_fold_max(const struct range_folded *w, double *out);
bool functions_fold_count(const struct range_folded *w, double *out);
bool functions_fold_rate(const struct range_folded *w, double *out);
bool functions_fold_increase(const struct range_folded *w, double *out);
bool functions_fold_delta(const struct range_folded *w, double *out);

/* functions_histogram.c */
MAP_FUNCTION(fn_histogram_avg);
MAP_FUNCTION(fn_histogram_count);
MAP_FUNCTION(fn_histogram_stddev);
MAP_FUNCTION(fn_histogram_stdvar);
MAP_FUNCTION(fn_histogram_sum);
MATRIX_FUNCTION(fn_histogram_fraction);
MATRIX_FUNCTION(fn_histogram_quantile);
MATRIX_FUNCTION(fn_histogram_quantiles);

/* The floats of a window: its own arrays when it holds no histogram, else copies. */
struct window_floats {
    const int64_t *t;
    const double *v;
    size_t n;
    bool mixed; /* there are histograms too */
    void *own;  /* malloced */
};
enum otl_err window_floats(const struct range_window *w, struct window_floats *out,
                           struct otl_error *err) OTL_MUSTCHECK;
/* Frees it, and tells by an info that histograms were left out, if there were floats too. */
enum otl_err window_floats_end(const struct function_call *c, struct window_floats *f,
                               struct otl_error *err) OTL_MUSTCHECK;
/* How many samples a window has, with those that others stand for. */
static inline size_t window_samples(const struct range_window *w)
{
    size_t n = 0;

    if (w->weight == NULL)
        return w->n;
    for (size_t i = 0; i < w->n; i++)
        n += w->weight[i];
    return n;
}
/* How many of a window's samples are histograms. */
size_t window_histograms(const struct range_window *w);
/* The name of the series, for annotations; whole, with its length, for "%.*s". */
#define CALL_NAME(c) call_name(c).n, (const char *)call_name(c).p
struct call_name {
    int n;
    const uint8_t *p;
};
struct call_name call_name(const struct function_call *c);
/* Where annotations of a call over ranges point to. */
const struct expr *call_arg(const struct function_call *c, size_t i);
/* "encountered a mix of histograms and floats ...". */
enum otl_err warn_mixed(const struct function_call *c, struct otl_error *err);
enum otl_err functions_no_memory(struct otl_error *err);

#endif
