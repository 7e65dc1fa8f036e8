/* eval.h -- evaluate a tree over the steps of a query. Works by columns (value.h), streams: of a
 * function over ranges only one series' samples are in memory at a time, and an aggregate over it
 * takes its result series by series. */
#ifndef OTLITE_QUERY_EVAL_H
#define OTLITE_QUERY_EVAL_H

#include "promql.h"
#include "querier.h"

struct eval_opts {
    int64_t start_ms, end_ms, step_ms; /* instant: start == end, step 0 */
    int64_t lookback_ms;               /* 5 min in Prometheus */
    int64_t subquery_step_ms;          /* of subqueries without one: 1 min in Prometheus */
    uint64_t max_samples;              /* read or held at once; 0: no limit */
    uint64_t max_series;               /* of a selector; 0: no limit */
};

/* What was counted, for `stats=all`. */
struct eval_stats {
    uint64_t samples_read, peak_samples, series;
    int64_t select_ns, eval_ns;
};

/* Info and warning annotations, each text once, with its position in the query as Prometheus has
 * it. */
struct annotations {
    struct bytes *texts; /* in the arena */
    size_t n, cap;
};

struct eval {
    const struct eval_opts *opts;
    struct read *read; /* deadline, budget, cancellation: read_check, read_charge */
    struct querier *querier;
    struct arena *arena; /* labels, strings, annotations */
    struct bytes text;   /* of the query */
    size_t steps;
    int64_t query_start_ms, query_end_ms; /* what start() and end() are, in subqueries too */
    struct annotations infos, warnings;
    struct eval_stats stats;
    uint64_t held; /* samples in rows and scalars now; a histogram counts by its size */
};

/* out: of e's type; an instant query of a range vector gives PROM_MATRIX. Series of a vector are
 * sorted as Prometheus' answer is: by labels, but after sort(), topk and the like as these left
 * them in an instant query. Errors: OTL_EBADREQUEST with Prometheus' text ("found duplicate series
 * for the match group ..."), OTL_ETOOBIG for a limit, OTL_ELATE, OTL_ECANCELLED, those of reading.
 */
enum otl_err eval_query(struct eval *v, const struct expr *e, struct prom_value *out,
                        struct otl_error *err) OTL_MUSTCHECK;

/* ---- for functions.c ---- */

/* An info or a warning, with the position of e: "PromQL info: ... (1:5)". */
enum otl_err eval_info(struct eval *v, const struct expr *e, struct otl_error *err, const char *fmt,
                       ...) OTL_PRINTF(4, 5);
enum otl_err eval_warn(struct eval *v, const struct expr *e, struct otl_error *err, const char *fmt,
                       ...) OTL_PRINTF(4, 5);
/* A row of `steps` absent samples at the end of out, charged to the budget. NULL: err is set. */
struct prom_row *eval_add_row(struct eval *v, struct prom_value *out, struct labels labels,
                              struct otl_error *err);
/* A scalar's column of `steps`, charged to the budget, for prom_value's scalar. NULL: err is set.
 */
double *eval_new_scalar(struct eval *v, struct otl_error *err);
/* h of a row, made when it has none. NULL: no memory, err is set. */
struct prom_histogram **eval_row_histograms(struct eval *v, struct prom_row *r,
                                            struct otl_error *err);
/* Move a row, which is empty afterwards, to the end of out. */
enum otl_err prom_value_move_row(struct eval *v, struct prom_value *out, struct prom_row *r,
                                 struct otl_error *err) OTL_MUSTCHECK;
/* The labels without the metric's name. */
enum otl_err eval_drop_name(struct eval *v, struct labels l, struct labels *out,
                            struct otl_error *err) OTL_MUSTCHECK;
/* Two rows of one label set ("vector cannot contain metrics with the same labelset"):
 * OTL_EBADREQUEST where both have a sample at one step; else they are joined. After every operation
 * that takes labels away. */
enum otl_err eval_join_equal(struct eval *v, struct prom_value *out,
                             struct otl_error *err) OTL_MUSTCHECK;
/* The time of step i, ms. */
static inline int64_t eval_time(const struct eval *v, size_t i)
{
    return v->opts->start_ms + (int64_t)i * v->opts->step_ms;
}

#endif
