/* querier_metadata.c -- what metrics are, by their shown names (P-5). */
#include <stdlib.h>

#include "querier_internal.h"

static const char *type_of(const struct family *f)
{
    switch (f->type) {
    case METRIC_SUM:
        return f->is_monotonic ? "counter" : "gauge";
    case METRIC_HISTOGRAM:
    case METRIC_EXPONENTIAL_HISTOGRAM:
        return "histogram";
    case METRIC_SUMMARY:
        return "summary";
    case METRIC_GAUGE:
        break;
    }
    return "gauge";
}

static int by_name(const void *a, const void *b)
{
    const struct metric_metadata *x = a, *y = b;
    int c = bytes_compare(x->name, y->name);

    if (c == 0)
        c = strcmp(x->type, y->type);
    if (c == 0)
        c = bytes_compare(x->help, y->help);
    return c != 0 ? c : bytes_compare(x->unit, y->unit);
}

/* A gauge that was something else in Prometheus says so in its metadata (P-4). */
static const char *type_of_gauge(struct bytes metadata)
{
    static const char *const types[] = {"unknown", "info", "stateset"};
    struct attr_value was;

    if (!attrs_get(metadata, bytes_str("prometheus.type"), &was) || was.kind != ATTR_STRING)
        return "gauge";
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (bytes_equal(was.s, bytes_str(types[i])))
            return types[i];
    }
    return "gauge";
}

/* Help and unit in the arena; the name is the family's. */
static enum otl_err describe(struct querier *q, uint32_t family, struct metric_metadata *m,
                             struct otl_error *err)
{
    struct buf metadata = {0};
    const struct family *f = family_table_get(&q->shared->families, family);
    int64_t metric_id = family_table_metric(&q->shared->families, family);
    enum otl_err rc;

    *m = (struct metric_metadata){.name = f->names[q->shared->opts.strategy], .type = type_of(f)};
    buf_reset(&q->text);
    rc = read_description(q->r, metric_id, &q->text, &metadata, err);
    if (rc == OTL_OK && f->type == METRIC_GAUGE)
        m->type = type_of_gauge(buf_bytes(&metadata));
    buf_fini(&metadata);
    if (rc != OTL_OK)
        return rc;
    if (!arena_dup(q->arena, buf_bytes(&q->text), &m->help))
        return querier_arena_failed(q->arena, err);
    buf_reset(&q->text);
    prom_unit(&q->text, f->unit);
    if (q->text.failed)
        return querier_no_memory(err);
    return arena_dup(q->arena, buf_bytes(&q->text), &m->unit) ? OTL_OK
                                                              : querier_arena_failed(q->arena, err);
}

enum otl_err querier_metadata(struct querier *q,
                              enum otl_err (*emit)(void *arg, const struct metric_metadata *m,
                                                   struct otl_error *err),
                              void *arg, struct otl_error *err)
{
    struct metric_metadata *all = NULL;
    size_t n = 0;
    enum otl_err rc = family_table_refresh(&q->shared->families, q->r, err);
    uint32_t size = family_table_size(&q->shared->families);

    if (rc == OTL_OK) {
        all = malloc(((size_t)size + 1) * sizeof(*all));
        if (all == NULL)
            rc = querier_no_memory(err);
    }
    for (uint32_t i = 0; i < size && rc == OTL_OK; i++) {
        const struct family *f = family_table_get(&q->shared->families, i);

        if (f->names[q->shared->opts.strategy].n == 0 ||
            (q->project_id != 0 && f->project_id != q->project_id))
            continue;
        rc = i % 256 == 0 ? read_check(q->r, err) : OTL_OK;
        if (rc == OTL_OK)
            rc = describe(q, i, &all[n], err);
        n += rc == OTL_OK;
    }
    if (n > 0)
        qsort(all, n, sizeof(*all), by_name);
    for (size_t i = 0; i < n && rc == OTL_OK; i++) {
        if (i == 0 || by_name(&all[i - 1], &all[i]) != 0)
            rc = emit(arg, &all[i], err);
    }
    free(all);
    return rc;
}
