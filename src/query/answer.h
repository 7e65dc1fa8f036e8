/* answer.h -- what the endpoints share. */
#ifndef OTLITE_QUERY_ANSWER_H
#define OTLITE_QUERY_ANSWER_H

#include "eval.h"
#include "otlite/query.h"

struct query_engine {
    struct query_opts opts;
    struct querier_opts querier_opts;
    struct querier_shared *shared;
    int64_t started_ms;
};

/* One request under way. */
struct answering {
    struct query_engine *engine;
    const struct query_request *request;
    struct arena arena;
    struct read *read;       /* NULL for what reads nothing */
    struct querier *querier; /* likewise */
    int64_t timeout_ms;
    struct buf *out;
};

/* errorType of Prometheus and the status that goes with it. */
enum answer_error { ANSWER_BAD_DATA, ANSWER_EXECUTION, ANSWER_FROM_CODE };

/* A parameter's first value; empty when it is not there. */
struct bytes answer_param(const struct query_request *r, const char *name);
/* A time parameter, in ms: seconds with a fraction, or RFC 3339. Absent: *out stays.
 * OTL_EBADREQUEST: what is wrong with it. */
enum otl_err answer_time(const struct query_request *r, const char *name, int64_t *out,
                         struct otl_error *err) OTL_MUSTCHECK;
/* A whole number from 0 on. Absent: *out stays. */
enum otl_err answer_count(const struct query_request *r, const char *name, uint64_t *out,
                          struct otl_error *err) OTL_MUSTCHECK;

/* The endpoints: each writes the value of "data". *kind says what an error was. */
enum otl_err answer_query(struct answering *a, enum answer_error *kind, struct otl_error *err);
enum otl_err answer_series(struct answering *a, enum answer_error *kind, struct otl_error *err);
enum otl_err answer_labels(struct answering *a, enum answer_error *kind, struct otl_error *err);
enum otl_err answer_label_values(struct answering *a, enum answer_error *kind,
                                 struct otl_error *err);
enum otl_err answer_metadata(struct answering *a, enum answer_error *kind, struct otl_error *err);
enum otl_err answer_exemplars(struct answering *a, enum answer_error *kind, struct otl_error *err);
enum otl_err answer_tsdb(struct answering *a, enum answer_error *kind, struct otl_error *err);
/* Those that read nothing. */
enum otl_err answer_language(struct answering *a, enum answer_error *kind, struct otl_error *err);
enum otl_err answer_static(struct answering *a, enum answer_error *kind, struct otl_error *err);

/* What stands behind "data" in the answer: `"warnings":[...],"infos":[...]` as they are. */
void answer_annotations(struct buf *out, const struct eval *v);
/* {"a":"1","b":"2"} */
void answer_metric(struct buf *out, struct labels l);
/* [1709251200.003,"5"] */
void answer_sample(struct buf *out, int64_t t_ms, double v);
/* A sample's value, without quotes. */
void answer_value(struct buf *out, double d);
/* [1709251200.003,{"count":"3",...}] */
void answer_histogram(struct buf *out, int64_t t_ms, const struct prom_histogram *h);

/* Regular expressions compile, and a selector's matchers do not all fit a series without labels.
 * OTL_EBADREQUEST with the place, as the parser has it. */
enum otl_err promql_validate(struct bytes text, const struct expr *e,
                             struct otl_error *err) OTL_MUSTCHECK;
enum otl_err promql_validate_matchers(const struct label_matcher *m, size_t n,
                                      struct otl_error *err) OTL_MUSTCHECK;

#endif
