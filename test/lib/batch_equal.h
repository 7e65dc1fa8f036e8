/* batch_equal.h -- whether two batches are the same in every member, and numbers for series as a
 * store would give them. Shared by test_known.c and fuzz_known.c, hence all in the header. */
#ifndef OTLITE_TEST_BATCH_EQUAL_H
#define OTLITE_TEST_BATCH_EQUAL_H

#include "otlite/batch.h"

static inline bool same_double(double a, double b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

static inline bool same_optional(struct optional_double a, struct optional_double b)
{
    return a.has == b.has && same_double(a.v, b.v);
}

static inline bool same_value(struct value a, struct value b)
{
    return a.kind == b.kind && (a.kind == VALUE_INT      ? a.u.i == b.u.i
                                : a.kind == VALUE_DOUBLE ? same_double(a.u.d, b.u.d)
                                                         : true);
}

static inline bool same_point(const struct point *a, const struct point *b)
{
    return a->series == b->series && a->flags == b->flags && a->time == b->time &&
           a->start_time == b->start_time && a->first_exemplar == b->first_exemplar &&
           a->n_exemplars == b->n_exemplars;
}

static inline bool same_array(const void *a, const void *b, size_t n, size_t size)
{
    return n == 0 || memcmp(a, b, n * size) == 0;
}

static inline bool same_buckets(const struct exponential_buckets *a,
                                const struct exponential_buckets *b)
{
    return a->present == b->present && a->offset == b->offset && a->n_counts == b->n_counts &&
           same_array(a->counts, b->counts, a->n_counts, sizeof(*a->counts));
}

static inline bool same_envelopes(const struct batch *a, const struct batch *b)
{
    for (uint32_t i = 0; i < a->n_resources; i++) {
        const struct batch_resource *x = &a->resources[i], *y = &b->resources[i];

        if (!bytes_equal(x->attributes, y->attributes) ||
            !bytes_equal(x->schema_url, y->schema_url) ||
            !bytes_equal(x->entity_refs, y->entity_refs) ||
            !bytes_equal(x->service_name, y->service_name) ||
            x->dropped_attributes_count != y->dropped_attributes_count)
            return false;
    }
    for (uint32_t i = 0; i < a->n_scopes; i++) {
        const struct batch_scope *x = &a->scopes[i], *y = &b->scopes[i];

        if (x->resource != y->resource || !bytes_equal(x->name, y->name) ||
            !bytes_equal(x->version, y->version) || !bytes_equal(x->schema_url, y->schema_url) ||
            !bytes_equal(x->attributes, y->attributes) ||
            x->dropped_attributes_count != y->dropped_attributes_count)
            return false;
    }
    for (uint32_t i = 0; i < a->n_metrics; i++) {
        const struct batch_metric *x = &a->metrics[i], *y = &b->metrics[i];

        if (x->scope != y->scope || x->type != y->type || x->temporality != y->temporality ||
            x->is_monotonic != y->is_monotonic || !bytes_equal(x->name, y->name) ||
            !bytes_equal(x->unit, y->unit) || !bytes_equal(x->description, y->description) ||
            !bytes_equal(x->metadata, y->metadata))
            return false;
    }
    for (uint32_t i = 0; i < a->n_series; i++) {
        if (a->series[i].metric != b->series[i].metric ||
            !bytes_equal(a->series[i].attributes, b->series[i].attributes))
            return false;
    }
    return true;
}

static inline bool same_points(const struct batch *a, const struct batch *b)
{
    for (uint32_t i = 0; i < a->n_numbers; i++) {
        if (!same_point(&a->numbers[i].p, &b->numbers[i].p) ||
            !same_value(a->numbers[i].value, b->numbers[i].value))
            return false;
    }
    for (uint32_t i = 0; i < a->n_histograms; i++) {
        const struct histogram_point *x = &a->histograms[i], *y = &b->histograms[i];

        if (!same_point(&x->p, &y->p) || x->count != y->count || !same_optional(x->sum, y->sum) ||
            !same_optional(x->min, y->min) || !same_optional(x->max, y->max) ||
            x->n_counts != y->n_counts || x->n_bounds != y->n_bounds ||
            !same_array(x->counts, y->counts, x->n_counts, sizeof(*x->counts)) ||
            !same_array(x->bounds, y->bounds, x->n_bounds, sizeof(*x->bounds)))
            return false;
    }
    for (uint32_t i = 0; i < a->n_exponentials; i++) {
        const struct exponential_histogram_point *x = &a->exponentials[i], *y = &b->exponentials[i];

        if (!same_point(&x->p, &y->p) || x->count != y->count || !same_optional(x->sum, y->sum) ||
            !same_optional(x->min, y->min) || !same_optional(x->max, y->max) ||
            x->scale != y->scale || x->zero_count != y->zero_count ||
            !same_double(x->zero_threshold, y->zero_threshold) ||
            !same_buckets(&x->positive, &y->positive) || !same_buckets(&x->negative, &y->negative))
            return false;
    }
    for (uint32_t i = 0; i < a->n_summaries; i++) {
        const struct summary_point *x = &a->summaries[i], *y = &b->summaries[i];

        if (!same_point(&x->p, &y->p) || x->count != y->count || !same_double(x->sum, y->sum) ||
            x->n_quantiles != y->n_quantiles ||
            !same_array(x->quantiles, y->quantiles, x->n_quantiles, sizeof(*x->quantiles)))
            return false;
    }
    for (uint32_t i = 0; i < a->n_exemplars; i++) {
        const struct batch_exemplar *x = &a->exemplars[i], *y = &b->exemplars[i];

        if (x->time != y->time || !same_value(x->value, y->value) ||
            x->has_trace_id != y->has_trace_id || x->has_span_id != y->has_span_id ||
            memcmp(x->trace_id, y->trace_id, sizeof(x->trace_id)) != 0 ||
            memcmp(x->span_id, y->span_id, sizeof(x->span_id)) != 0 ||
            !bytes_equal(x->attributes, y->attributes))
            return false;
    }
    return true;
}

/* In all but the series' numbers. */
static inline bool batch_equal(const struct batch *a, const struct batch *b)
{
    if (a->n_resources != b->n_resources || a->n_scopes != b->n_scopes ||
        a->n_metrics != b->n_metrics || a->n_series != b->n_series ||
        a->n_numbers != b->n_numbers || a->n_histograms != b->n_histograms ||
        a->n_exponentials != b->n_exponentials || a->n_summaries != b->n_summaries ||
        a->n_exemplars != b->n_exemplars || a->received != b->received ||
        memcmp(a->rejected, b->rejected, sizeof(a->rejected)) != 0 ||
        memcmp(a->warnings, b->warnings, sizeof(a->warnings)) != 0)
        return false;
    for (int i = 0; i < REJECT_COUNT_OF_REASONS; i++) {
        if (!bytes_equal(a->reject_example[i], b->reject_example[i]))
            return false;
    }
    for (int i = 0; i < WARN_COUNT_OF_WARNINGS; i++) {
        if (!bytes_equal(a->warning_example[i], b->warning_example[i]))
            return false;
    }
    return same_envelopes(a, b) && same_points(a, b);
}

/* What a store could number a series by: made of its whole identity and nothing else, never 0. */
static inline uint32_t series_number(const struct batch *b, uint32_t i, int64_t project_id)
{
    const struct batch_series *s = &b->series[i];
    const struct batch_metric *m = &b->metrics[s->metric];
    const struct batch_scope *c = &b->scopes[m->scope];
    uint64_t h = bytes_hash(b->resources[c->resource].attributes, (uint64_t)project_id);

    h = bytes_hash(c->name, h);
    h = bytes_hash(c->version, h);
    h = bytes_hash(c->schema_url, h);
    h = bytes_hash(c->attributes, h);
    h = bytes_hash(m->name, h);
    h = bytes_hash(m->unit, h);
    h = bytes_hash(s->attributes, h + (uint64_t)m->type * 16 + (uint64_t)m->temporality * 2 +
                                      (m->is_monotonic ? 1 : 0));
    return (uint32_t)h | 1;
}

static inline void number_all(struct batch *b, int64_t project_id)
{
    for (uint32_t i = 0; i < b->n_series; i++)
        b->series[i].number = series_number(b, i, project_id);
}

static inline bool numbers_right(const struct batch *b, int64_t project_id)
{
    for (uint32_t i = 0; i < b->n_series; i++) {
        if (b->series[i].number != series_number(b, i, project_id))
            return false;
    }
    return true;
}

#endif
