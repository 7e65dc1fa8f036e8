/* functions.c -- the one table of PromQL's functions: names, signatures, how they are called.
 *
 * The rows are sorted by name. What the functions do is in functions_*.c.
 * Source: Prometheus 3, "Query functions". */
#include "functions_internal.h"

#define S PROM_SCALAR
#define T PROM_STRING
#define V PROM_VECTOR
#define M PROM_MATRIX

#define ARGS(...)  {__VA_ARGS__}, sizeof((enum prom_type[]){__VA_ARGS__}) / sizeof(enum prom_type)
#define RANGE(f)   .kind = FUNCTION_RANGE, .range = (f)
#define MAP(f)     .kind = FUNCTION_MAP, .map = (f)
#define WHOLE(f)   .kind = FUNCTION_MATRIX, .matrix = (f)
#define DATE(f)    MAP(f), .matrix = fn_date_now
#define COUNTER    .after = functions_check_counter, REMEMBERS
#define REMEMBERS  .remembers = true
#define FOLDS(f)   .folded = (f)
#define DIGEST(d)  .digest = DIGEST_##d
#define KEEPS_NAME .keeps_name = true
#define EXPERIMENT .experimental = true
#define NO_ARGS    {0}, 0

static const struct function table[] = {
    {"abs", ARGS(V), 0, V, MAP(fn_abs)},
    {"absent", ARGS(V), 0, V, WHOLE(fn_absent)},
    {"absent_over_time", ARGS(M), 0, V, WHOLE(fn_absent)},
    {"acos", ARGS(V), 0, V, MAP(fn_acos)},
    {"acosh", ARGS(V), 0, V, MAP(fn_acosh)},
    {"asin", ARGS(V), 0, V, MAP(fn_asin)},
    {"asinh", ARGS(V), 0, V, MAP(fn_asinh)},
    {"atan", ARGS(V), 0, V, MAP(fn_atan)},
    {"atanh", ARGS(V), 0, V, MAP(fn_atanh)},
    {"avg_over_time", ARGS(M), 0, V, RANGE(fn_avg_over_time), FOLDS(functions_fold_avg),
     DIGEST(SUM)},
    {"ceil", ARGS(V), 0, V, MAP(fn_ceil)},
    {"changes", ARGS(M), 0, V, RANGE(fn_changes)},
    {"clamp", ARGS(V, S, S), 0, V, MAP(fn_clamp)},
    {"clamp_max", ARGS(V, S), 0, V, MAP(fn_clamp_max)},
    {"clamp_min", ARGS(V, S), 0, V, MAP(fn_clamp_min)},
    {"cos", ARGS(V), 0, V, MAP(fn_cos)},
    {"cosh", ARGS(V), 0, V, MAP(fn_cosh)},
    {"count_over_time", ARGS(M), 0, V, RANGE(fn_count_over_time), FOLDS(functions_fold_count),
     DIGEST(LAST)},
    {"day_of_month", ARGS(V), 1, V, DATE(fn_day_of_month)},
    {"day_of_week", ARGS(V), 1, V, DATE(fn_day_of_week)},
    {"day_of_year", ARGS(V), 1, V, DATE(fn_day_of_year)},
    {"days_in_month", ARGS(V), 1, V, DATE(fn_days_in_month)},
    {"deg", ARGS(V), 0, V, MAP(fn_deg)},
    {"delta", ARGS(M), 0, V, RANGE(fn_delta), FOLDS(functions_fold_delta), DIGEST(ENDS)},
    {"deriv", ARGS(M), 0, V, RANGE(fn_deriv)},
    {"double_exponential_smoothing", ARGS(M, S, S), 0, V, RANGE(fn_smoothing), EXPERIMENT},
    {"exp", ARGS(V), 0, V, MAP(fn_exp)},
    {"first_over_time", ARGS(M), 0, V, RANGE(fn_first_over_time), KEEPS_NAME, EXPERIMENT},
    {"floor", ARGS(V), 0, V, MAP(fn_floor)},
    {"histogram_avg", ARGS(V), 0, V, MAP(fn_histogram_avg)},
    {"histogram_count", ARGS(V), 0, V, MAP(fn_histogram_count)},
    {"histogram_fraction", ARGS(S, S, V), 0, V, WHOLE(fn_histogram_fraction)},
    {"histogram_quantile", ARGS(S, V), 0, V, WHOLE(fn_histogram_quantile)},
    {"histogram_quantiles", ARGS(V, T, S, S), 9, V, WHOLE(fn_histogram_quantiles), EXPERIMENT},
    {"histogram_stddev", ARGS(V), 0, V, MAP(fn_histogram_stddev)},
    {"histogram_stdvar", ARGS(V), 0, V, MAP(fn_histogram_stdvar)},
    {"histogram_sum", ARGS(V), 0, V, MAP(fn_histogram_sum)},
    {"holt_winters", ARGS(M, S, S), 0, V, RANGE(fn_smoothing)},
    {"hour", ARGS(V), 1, V, DATE(fn_hour)},
    {"idelta", ARGS(M), 0, V, RANGE(fn_idelta)},
    {"increase", ARGS(M), 0, V, RANGE(fn_increase), COUNTER, FOLDS(functions_fold_increase),
     DIGEST(RISE)},
    {"info", ARGS(V, V), 1, V, WHOLE(fn_info), KEEPS_NAME, EXPERIMENT},
    {"irate", ARGS(M), 0, V, RANGE(fn_irate)},
    {"label_join", ARGS(V, T, T, T), -1, V, WHOLE(fn_label_join), KEEPS_NAME},
    {"label_replace", ARGS(V, T, T, T, T), 0, V, WHOLE(fn_label_replace), KEEPS_NAME},
    {"last_over_time", ARGS(M), 0, V, RANGE(fn_last_over_time), KEEPS_NAME, DIGEST(LAST)},
    {"ln", ARGS(V), 0, V, MAP(fn_ln)},
    {"log10", ARGS(V), 0, V, MAP(fn_log10)},
    {"log2", ARGS(V), 0, V, MAP(fn_log2)},
    {"mad_over_time", ARGS(M), 0, V, RANGE(fn_mad_over_time), EXPERIMENT},
    {"max_over_time", ARGS(M), 0, V, RANGE(fn_max_over_time), REMEMBERS, FOLDS(functions_fold_max),
     DIGEST(MAX)},
    {"min_over_time", ARGS(M), 0, V, RANGE(fn_min_over_time), REMEMBERS, FOLDS(functions_fold_min),
     DIGEST(MIN)},
    {"minute", ARGS(V), 1, V, DATE(fn_minute)},
    {"month", ARGS(V), 1, V, DATE(fn_month)},
    {"pi", NO_ARGS, 0, S, WHOLE(fn_pi)},
    {"predict_linear", ARGS(M, S), 0, V, RANGE(fn_predict_linear)},
    {"present_over_time", ARGS(M), 0, V, RANGE(fn_present_over_time), DIGEST(LAST)},
    {"quantile_over_time", ARGS(S, M), 0, V, RANGE(fn_quantile_over_time)},
    {"rad", ARGS(V), 0, V, MAP(fn_rad)},
    {"rate", ARGS(M), 0, V, RANGE(fn_rate), COUNTER, FOLDS(functions_fold_rate), DIGEST(RISE)},
    {"resets", ARGS(M), 0, V, RANGE(fn_resets)},
    {"round", ARGS(V, S), 1, V, MAP(fn_round)},
    {"scalar", ARGS(V), 0, S, WHOLE(fn_scalar)},
    {"sgn", ARGS(V), 0, V, MAP(fn_sgn)},
    {"sin", ARGS(V), 0, V, MAP(fn_sin)},
    {"sinh", ARGS(V), 0, V, MAP(fn_sinh)},
    {"sort", ARGS(V), 0, V, WHOLE(fn_sort), KEEPS_NAME},
    {"sort_by_label", ARGS(V, T), -1, V, WHOLE(fn_sort_by_label), KEEPS_NAME, EXPERIMENT},
    {"sort_by_label_desc", ARGS(V, T), -1, V, WHOLE(fn_sort_by_label_desc), KEEPS_NAME, EXPERIMENT},
    {"sort_desc", ARGS(V), 0, V, WHOLE(fn_sort_desc), KEEPS_NAME},
    {"sqrt", ARGS(V), 0, V, MAP(fn_sqrt)},
    {"stddev_over_time", ARGS(M), 0, V, RANGE(fn_stddev_over_time)},
    {"stdvar_over_time", ARGS(M), 0, V, RANGE(fn_stdvar_over_time)},
    {"sum_over_time", ARGS(M), 0, V, RANGE(fn_sum_over_time), FOLDS(functions_fold_sum),
     DIGEST(SUM)},
    {"tan", ARGS(V), 0, V, MAP(fn_tan)},
    {"tanh", ARGS(V), 0, V, MAP(fn_tanh)},
    {"time", NO_ARGS, 0, S, WHOLE(fn_time)},
    {"timestamp", ARGS(V), 0, V, MAP(fn_timestamp)},
    {"ts_of_first_over_time", ARGS(M), 0, V, RANGE(fn_ts_of_first_over_time), EXPERIMENT},
    {"ts_of_last_over_time", ARGS(M), 0, V, RANGE(fn_ts_of_last_over_time), EXPERIMENT},
    {"ts_of_max_over_time", ARGS(M), 0, V, RANGE(fn_ts_of_max_over_time), EXPERIMENT},
    {"ts_of_min_over_time", ARGS(M), 0, V, RANGE(fn_ts_of_min_over_time), EXPERIMENT},
    {"vector", ARGS(S), 0, V, WHOLE(fn_vector)},
    {"year", ARGS(V), 1, V, DATE(fn_year)},
};

enum { N_FUNCTIONS = sizeof(table) / sizeof(table[0]) };

const struct function *function_find(struct bytes name)
{
    size_t lo = 0, hi = N_FUNCTIONS;

    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        const int c = bytes_compare(name, bytes_str(table[mid].name));

        if (c == 0)
            return &table[mid];
        if (c < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return NULL;
}

const struct function *functions_all(size_t *n)
{
    *n = N_FUNCTIONS;
    return table;
}
