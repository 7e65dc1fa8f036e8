/* tree.h -- message trees (src/otlp/message.h) made by hand, for tests of the data model. All
 * memory comes from the tree's arena and goes with tree_fini. A failed allocation aborts the test.
 */
#ifndef TEST_TREE_H
#define TEST_TREE_H

#include "otlp/message.h"

struct tree {
    struct arena a;
    otlp_request *request;
};

void tree_init(struct tree *t);
void tree_fini(struct tree *t);

/* A zeroed array of n pointers and the like. */
void *tree_alloc(struct tree *t, size_t n);
ProtobufCBinaryData tree_text(struct tree *t, const char *s);
ProtobufCBinaryData tree_bytes(struct tree *t, const void *p, size_t n);

Otlp__AnyValue *tree_empty(struct tree *t);
Otlp__AnyValue *tree_string(struct tree *t, const char *s);
Otlp__AnyValue *tree_bool(struct tree *t, bool b);
Otlp__AnyValue *tree_int(struct tree *t, int64_t i);
Otlp__AnyValue *tree_double(struct tree *t, double d);
Otlp__AnyValue *tree_blob(struct tree *t, const void *p, size_t n);
Otlp__AnyValue *tree_array(struct tree *t, size_t n, ...);  /* n times Otlp__AnyValue * */
Otlp__AnyValue *tree_kvlist(struct tree *t, size_t n, ...); /* n times Otlp__KeyValue * */
Otlp__KeyValue *tree_kv(struct tree *t, const char *key, Otlp__AnyValue *v);
Otlp__KeyValue **tree_list(struct tree *t, size_t n, ...); /* n times Otlp__KeyValue * */

/* Envelopes, appended to the request or to what is given. */
Otlp__ResourceMetrics *tree_resource(struct tree *t);
Otlp__ScopeMetrics *tree_scope(struct tree *t, Otlp__ResourceMetrics *rm);
/* A metric without data; sm NULL: in the request's last scope, which is made when there is none. */
Otlp__Metric *tree_metric(struct tree *t, Otlp__ScopeMetrics *sm, const char *name);

/* A metric with one point of its kind, cumulative where that applies, time 1000 and otherwise
 * empty (number: int value 1). The point can be changed afterwards. */
Otlp__NumberDataPoint *tree_gauge(struct tree *t, const char *name);
Otlp__NumberDataPoint *tree_sum(struct tree *t, const char *name);
Otlp__HistogramDataPoint *tree_histogram(struct tree *t, const char *name);
Otlp__ExponentialHistogramDataPoint *tree_exponential(struct tree *t, const char *name);
Otlp__SummaryDataPoint *tree_summary(struct tree *t, const char *name);
/* One more point in the gauge or sum m. */
Otlp__NumberDataPoint *tree_number(struct tree *t, Otlp__Metric *m);
/* The metric that was made last. */
Otlp__Metric *tree_last_metric(struct tree *t);

void tree_counts(struct tree *t, Otlp__HistogramDataPoint *p, size_t n, const uint64_t *counts);
void tree_bounds(struct tree *t, Otlp__HistogramDataPoint *p, size_t n, const double *bounds);
Otlp__Buckets *tree_buckets(struct tree *t, int32_t offset, size_t n, const uint64_t *counts);
void tree_quantile(struct tree *t, Otlp__SummaryDataPoint *p, double quantile, double value);
Otlp__Exemplar *tree_exemplar(struct tree *t, size_t *n, Otlp__Exemplar ***list);

#endif
