/* querier.h -- what is stored, as Prometheus' series: names and labels by otlp.md chapter 4,
 * explicit histograms as _bucket, _sum and _count, exponential ones as native histograms, delta
 * sums and histograms as running totals, target_info. Stands on read.h; knows nothing of the
 * language but its matchers.
 *
 * Stored series that differ in what no label shows (a process id in the resource) are one series
 * here: their samples are merged by time, of one time the later stored series counts. */
#ifndef OTLITE_QUERY_QUERIER_H
#define OTLITE_QUERY_QUERIER_H

#include "otlite/batch.h"
#include "otlite/prom_names.h"
#include "otlite/read.h"
#include "promql.h"
#include "value.h"

/* From the configuration; one for the process. */
struct querier_opts {
    enum name_strategy strategy;
    const char *const *promote; /* resource attributes that become labels; NULL-terminated */
    bool promote_all;
    bool scope_labels;
    bool classic_from_exponential; /* exponential histograms also answer as _bucket, _sum, _count */
    int64_t lookback_ms;           /* of target_info's samples */
};

/* Names of metrics and labels by series, kept for all queries of a process. Thread-safe. */
struct querier_shared;
enum otl_err querier_shared_new(const struct querier_opts *o, struct querier_shared **out,
                                struct otl_error *err) OTL_MUSTCHECK;
void querier_shared_free(struct querier_shared *s);

/* One query's view; r is borrowed and outlives it, and so does the arena, where labels go. */
struct querier;
enum otl_err querier_new(struct querier_shared *s, struct read *r, int64_t project_id,
                         struct arena *a, struct querier **out,
                         struct otl_error *err) OTL_MUSTCHECK;
void querier_free(struct querier *q);

/* Samples of one series in the order of times, no time twice. Borrowed during emit. h as in
 * value.h; stale markers are there (v is stale, h NULL). */
struct samples {
    const int64_t *t; /* ms */
    const double *v;
    struct prom_histogram *const *h; /* NULL: floats only */
    size_t n;
    /* How many samples each stands for (enum digest); NULL: for itself. */
    const uint32_t *weight;
};

/* edges (ms, ascending): windows begin behind them or end with them. */
struct digest_opts {
    enum digest what;
    const int64_t *edges;
    size_t n_edges;
};

/* What a selector gave: series sorted by labels_compare. Owned by the querier. */
struct series_set {
    const struct labels *labels;
    size_t n;
};
/* All series that match and may have a sample in [from_ms, to_ms]; those without one are only left
 * out where that is cheap (the evaluator drops them), unless exact, as /series needs it. Matching
 * is by the labels that are shown; __name__ also by any strategy's name and by the metric's own
 * name, other labels also by the attribute's own key. */
enum otl_err querier_select(struct querier *q, const struct label_matcher *m, size_t n,
                            int64_t from_ms, int64_t to_ms, bool exact,
                            const struct series_set **out, struct otl_error *err) OTL_MUSTCHECK;
/* The samples of each series of the set in [from_ms, to_ms]: one call of emit a series, in any
 * order, i is its index; series without samples are left out. Memory does not grow with the number
 * of series. */
enum otl_err querier_scan(struct querier *q, const struct series_set *s, int64_t from_ms,
                          int64_t to_ms, const struct digest_opts *digest,
                          enum otl_err (*emit)(void *arg, size_t i, const struct samples *v,
                                               struct otl_error *err),
                          void *arg, struct otl_error *err) OTL_MUSTCHECK;

/* /metadata: each metric's name as shown, its type as Prometheus has it ("counter", "gauge",
 * "histogram", "summary", "unknown"), help, unit. Sorted by name. */
struct metric_metadata {
    struct bytes name, help, unit;
    const char *type;
};
enum otl_err querier_metadata(struct querier *q,
                              enum otl_err (*emit)(void *arg, const struct metric_metadata *m,
                                                   struct otl_error *err),
                              void *arg, struct otl_error *err) OTL_MUSTCHECK;
/* Exemplars of each series of a set (on its counter or _bucket series) in [from_ms, to_ms], in the
 * order of times; labels: trace_id, span_id and the filtered attributes. */
struct prom_exemplar {
    struct labels labels;
    double value;
    int64_t t; /* ms */
};
enum otl_err
querier_exemplars(struct querier *q, const struct series_set *s, int64_t from_ms, int64_t to_ms,
                  enum otl_err (*emit)(void *arg, size_t i, const struct prom_exemplar *e, size_t n,
                                       struct otl_error *err),
                  void *arg, struct otl_error *err) OTL_MUSTCHECK;

#endif
