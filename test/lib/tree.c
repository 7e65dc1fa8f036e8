#include "tree.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define CUMULATIVE OTLP__AGGREGATION_TEMPORALITY__AGGREGATION_TEMPORALITY_CUMULATIVE

void tree_init(struct tree *t)
{
    arena_init(&t->a, (size_t)1 << 30);
    t->request = tree_alloc(t, sizeof(*t->request));
    otlp__export_metrics_service_request__init(t->request);
}

void tree_fini(struct tree *t)
{
    arena_fini(&t->a);
}

void *tree_alloc(struct tree *t, size_t n)
{
    void *p = arena_zalloc(&t->a, 1, n);

    if (p == NULL) {
        fprintf(stderr, "tree: no memory\n");
        abort();
    }
    return p;
}

/* list with one more place at its end; *n is the old length and becomes the new one. */
static void *grown(struct tree *t, void *list, size_t *n, size_t size)
{
    uint8_t *p = tree_alloc(t, (*n + 1) * size);

    if (*n > 0)
        memcpy(p, list, *n * size);
    ++*n;
    return p;
}

#define APPEND(t, list, n, item)                        \
    do {                                                \
        (list) = grown(t, list, &(n), sizeof(*(list))); \
        (list)[(n)-1] = (item);                         \
    } while (0)

ProtobufCBinaryData tree_bytes(struct tree *t, const void *p, size_t n)
{
    ProtobufCBinaryData d = {.len = n, .data = tree_alloc(t, n)};

    if (n > 0)
        memcpy(d.data, p, n);
    return d;
}

ProtobufCBinaryData tree_text(struct tree *t, const char *s)
{
    return tree_bytes(t, s, strlen(s));
}

static Otlp__AnyValue *value(struct tree *t, Otlp__AnyValue__ValueCase kind)
{
    Otlp__AnyValue *v = tree_alloc(t, sizeof(*v));

    otlp__any_value__init(v);
    v->value_case = kind;
    return v;
}

Otlp__AnyValue *tree_empty(struct tree *t)
{
    return value(t, OTLP__ANY_VALUE__VALUE__NOT_SET);
}

Otlp__AnyValue *tree_string(struct tree *t, const char *s)
{
    Otlp__AnyValue *v = value(t, OTLP__ANY_VALUE__VALUE_STRING_VALUE);

    v->string_value = tree_text(t, s);
    return v;
}

Otlp__AnyValue *tree_bool(struct tree *t, bool b)
{
    Otlp__AnyValue *v = value(t, OTLP__ANY_VALUE__VALUE_BOOL_VALUE);

    v->bool_value = b;
    return v;
}

Otlp__AnyValue *tree_int(struct tree *t, int64_t i)
{
    Otlp__AnyValue *v = value(t, OTLP__ANY_VALUE__VALUE_INT_VALUE);

    v->int_value = i;
    return v;
}

Otlp__AnyValue *tree_double(struct tree *t, double d)
{
    Otlp__AnyValue *v = value(t, OTLP__ANY_VALUE__VALUE_DOUBLE_VALUE);

    v->double_value = d;
    return v;
}

Otlp__AnyValue *tree_blob(struct tree *t, const void *p, size_t n)
{
    Otlp__AnyValue *v = value(t, OTLP__ANY_VALUE__VALUE_BYTES_VALUE);

    v->bytes_value = tree_bytes(t, p, n);
    return v;
}

Otlp__AnyValue *tree_array(struct tree *t, size_t n, ...)
{
    Otlp__AnyValue *v = value(t, OTLP__ANY_VALUE__VALUE_ARRAY_VALUE);
    Otlp__ArrayValue *a = tree_alloc(t, sizeof(*a));
    va_list ap;

    otlp__array_value__init(a);
    va_start(ap, n);
    for (size_t i = 0; i < n; i++)
        APPEND(t, a->values, a->n_values, va_arg(ap, Otlp__AnyValue *));
    va_end(ap);
    v->array_value = a;
    return v;
}

Otlp__AnyValue *tree_kvlist(struct tree *t, size_t n, ...)
{
    Otlp__AnyValue *v = value(t, OTLP__ANY_VALUE__VALUE_KVLIST_VALUE);
    Otlp__KeyValueList *l = tree_alloc(t, sizeof(*l));
    va_list ap;

    otlp__key_value_list__init(l);
    va_start(ap, n);
    for (size_t i = 0; i < n; i++)
        APPEND(t, l->values, l->n_values, va_arg(ap, Otlp__KeyValue *));
    va_end(ap);
    v->kvlist_value = l;
    return v;
}

Otlp__KeyValue *tree_kv(struct tree *t, const char *key, Otlp__AnyValue *v)
{
    Otlp__KeyValue *kv = tree_alloc(t, sizeof(*kv));

    otlp__key_value__init(kv);
    kv->key = tree_text(t, key);
    kv->value = v;
    return kv;
}

Otlp__KeyValue **tree_list(struct tree *t, size_t n, ...)
{
    Otlp__KeyValue **list = tree_alloc(t, n * sizeof(*list));
    va_list ap;

    va_start(ap, n);
    for (size_t i = 0; i < n; i++)
        list[i] = va_arg(ap, Otlp__KeyValue *);
    va_end(ap);
    return list;
}

Otlp__ResourceMetrics *tree_resource(struct tree *t)
{
    Otlp__ResourceMetrics *rm = tree_alloc(t, sizeof(*rm));

    otlp__resource_metrics__init(rm);
    APPEND(t, t->request->resource_metrics, t->request->n_resource_metrics, rm);
    return rm;
}

Otlp__ScopeMetrics *tree_scope(struct tree *t, Otlp__ResourceMetrics *rm)
{
    Otlp__ScopeMetrics *sm = tree_alloc(t, sizeof(*sm));

    otlp__scope_metrics__init(sm);
    APPEND(t, rm->scope_metrics, rm->n_scope_metrics, sm);
    return sm;
}

static Otlp__ScopeMetrics *last_scope(struct tree *t)
{
    otlp_request *q = t->request;
    Otlp__ResourceMetrics *rm = q->n_resource_metrics == 0
                                    ? tree_resource(t)
                                    : q->resource_metrics[q->n_resource_metrics - 1];

    return rm->n_scope_metrics == 0 ? tree_scope(t, rm)
                                    : rm->scope_metrics[rm->n_scope_metrics - 1];
}

Otlp__Metric *tree_metric(struct tree *t, Otlp__ScopeMetrics *sm, const char *name)
{
    Otlp__Metric *m = tree_alloc(t, sizeof(*m));

    if (sm == NULL)
        sm = last_scope(t);
    otlp__metric__init(m);
    m->name = tree_text(t, name);
    APPEND(t, sm->metrics, sm->n_metrics, m);
    return m;
}

Otlp__Metric *tree_last_metric(struct tree *t)
{
    Otlp__ScopeMetrics *sm = last_scope(t);

    return sm->metrics[sm->n_metrics - 1];
}

Otlp__NumberDataPoint *tree_number(struct tree *t, Otlp__Metric *m)
{
    Otlp__NumberDataPoint *p = tree_alloc(t, sizeof(*p));

    otlp__number_data_point__init(p);
    p->time_unix_nano = 1000;
    p->value_case = OTLP__NUMBER_DATA_POINT__VALUE_AS_INT;
    p->as_int = 1;
    if (m->data_case == OTLP__METRIC__DATA_SUM)
        APPEND(t, m->sum->data_points, m->sum->n_data_points, p);
    else
        APPEND(t, m->gauge->data_points, m->gauge->n_data_points, p);
    return p;
}

Otlp__NumberDataPoint *tree_gauge(struct tree *t, const char *name)
{
    Otlp__Metric *m = tree_metric(t, NULL, name);

    m->data_case = OTLP__METRIC__DATA_GAUGE;
    m->gauge = tree_alloc(t, sizeof(*m->gauge));
    otlp__gauge__init(m->gauge);
    return tree_number(t, m);
}

Otlp__NumberDataPoint *tree_sum(struct tree *t, const char *name)
{
    Otlp__Metric *m = tree_metric(t, NULL, name);

    m->data_case = OTLP__METRIC__DATA_SUM;
    m->sum = tree_alloc(t, sizeof(*m->sum));
    otlp__sum__init(m->sum);
    m->sum->aggregation_temporality = CUMULATIVE;
    return tree_number(t, m);
}

Otlp__HistogramDataPoint *tree_histogram(struct tree *t, const char *name)
{
    Otlp__Metric *m = tree_metric(t, NULL, name);
    Otlp__HistogramDataPoint *p = tree_alloc(t, sizeof(*p));

    m->data_case = OTLP__METRIC__DATA_HISTOGRAM;
    m->histogram = tree_alloc(t, sizeof(*m->histogram));
    otlp__histogram__init(m->histogram);
    m->histogram->aggregation_temporality = CUMULATIVE;
    otlp__histogram_data_point__init(p);
    p->time_unix_nano = 1000;
    APPEND(t, m->histogram->data_points, m->histogram->n_data_points, p);
    return p;
}

Otlp__ExponentialHistogramDataPoint *tree_exponential(struct tree *t, const char *name)
{
    Otlp__Metric *m = tree_metric(t, NULL, name);
    Otlp__ExponentialHistogramDataPoint *p = tree_alloc(t, sizeof(*p));
    Otlp__ExponentialHistogram *e = tree_alloc(t, sizeof(*e));

    m->data_case = OTLP__METRIC__DATA_EXPONENTIAL_HISTOGRAM;
    m->exponential_histogram = e;
    otlp__exponential_histogram__init(e);
    e->aggregation_temporality = CUMULATIVE;
    otlp__exponential_histogram_data_point__init(p);
    p->time_unix_nano = 1000;
    APPEND(t, e->data_points, e->n_data_points, p);
    return p;
}

Otlp__SummaryDataPoint *tree_summary(struct tree *t, const char *name)
{
    Otlp__Metric *m = tree_metric(t, NULL, name);
    Otlp__SummaryDataPoint *p = tree_alloc(t, sizeof(*p));

    m->data_case = OTLP__METRIC__DATA_SUMMARY;
    m->summary = tree_alloc(t, sizeof(*m->summary));
    otlp__summary__init(m->summary);
    otlp__summary_data_point__init(p);
    p->time_unix_nano = 1000;
    APPEND(t, m->summary->data_points, m->summary->n_data_points, p);
    return p;
}

void tree_counts(struct tree *t, Otlp__HistogramDataPoint *p, size_t n, const uint64_t *counts)
{
    p->n_bucket_counts = n;
    p->bucket_counts = tree_alloc(t, n * sizeof(*counts));
    if (n > 0)
        memcpy(p->bucket_counts, counts, n * sizeof(*counts));
}

void tree_bounds(struct tree *t, Otlp__HistogramDataPoint *p, size_t n, const double *bounds)
{
    p->n_explicit_bounds = n;
    p->explicit_bounds = tree_alloc(t, n * sizeof(*bounds));
    if (n > 0)
        memcpy(p->explicit_bounds, bounds, n * sizeof(*bounds));
}

Otlp__Buckets *tree_buckets(struct tree *t, int32_t offset, size_t n, const uint64_t *counts)
{
    Otlp__Buckets *b = tree_alloc(t, sizeof(*b));

    otlp__buckets__init(b);
    b->offset = offset;
    b->n_bucket_counts = n;
    b->bucket_counts = tree_alloc(t, n * sizeof(*counts));
    if (n > 0)
        memcpy(b->bucket_counts, counts, n * sizeof(*counts));
    return b;
}

void tree_quantile(struct tree *t, Otlp__SummaryDataPoint *p, double quantile, double v)
{
    Otlp__ValueAtQuantile *q = tree_alloc(t, sizeof(*q));

    otlp__value_at_quantile__init(q);
    q->quantile = quantile;
    q->value = v;
    APPEND(t, p->quantile_values, p->n_quantile_values, q);
}

Otlp__Exemplar *tree_exemplar(struct tree *t, size_t *n, Otlp__Exemplar ***list)
{
    Otlp__Exemplar *e = tree_alloc(t, sizeof(*e));

    otlp__exemplar__init(e);
    APPEND(t, *list, *n, e);
    return e;
}
