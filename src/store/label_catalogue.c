/* label_catalogue.c -- the catalogue's levels as the index has them: metrics, resources, keys.
 * Copied in slices under the lock, since no callback of a caller's runs under it (I2). */
#include <stdlib.h>

#include "label_generation.h"

enum { SLICE = 256 };

enum otl_err label_view_metrics(struct label_view *v, int64_t after,
                                const struct label_check *check,
                                enum otl_err (*emit)(void *arg, const struct metric_info *m,
                                                     struct otl_error *err),
                                void *arg, struct otl_error *err)
{
    struct label_generation *g = v->g;
    struct metric_info slice[SLICE];
    enum otl_err rc = OTL_OK;
    uint32_t n;

    do {
        uint32_t at;

        pthread_rwlock_rdlock(&g->lock);
        at = index_count_up_to(g->metrics, sizeof(*g->metrics), g->n_metrics, after);
        for (n = 0; n < SLICE && at < g->n_metrics; n++, at++) {
            const struct index_metric *m = &g->metrics[at];

            slice[n] = (struct metric_info){
                .id = m->id,
                .project_id = g->resources[m->resource].project_id,
                .type = m->type,
                .temporality = m->temporality,
                .is_monotonic = m->is_monotonic,
                .name = m->name,
                .unit = m->unit,
            };
        }
        pthread_rwlock_unlock(&g->lock);
        rc = label_checked(check, err);
        for (uint32_t i = 0; i < n && rc == OTL_OK; i++) {
            after = slice[i].id;
            rc = emit(arg, &slice[i], err);
        }
    } while (rc == OTL_OK && n == SLICE);
    return rc;
}

enum otl_err label_view_resources(struct label_view *v, int64_t project_id,
                                  const struct label_check *check,
                                  enum otl_err (*emit)(void *arg, const struct resource_info *info,
                                                       struct otl_error *err),
                                  void *arg, struct otl_error *err)
{
    struct label_generation *g = v->g;
    struct resource_info slice[SLICE];
    enum otl_err rc = OTL_OK;
    uint32_t at = 0, n, end;

    do {
        pthread_rwlock_rdlock(&g->lock);
        end = g->n_resources;
        for (n = 0; n < SLICE && at < end; at++) {
            const struct index_resource *r = &g->resources[at];

            if (project_id == 0 || r->project_id == project_id)
                slice[n++] =
                    (struct resource_info){r->id, r->project_id, r->service, r->attributes};
        }
        pthread_rwlock_unlock(&g->lock);
        rc = label_checked(check, err);
        for (uint32_t i = 0; i < n && rc == OTL_OK; i++)
            rc = emit(arg, &slice[i], err);
    } while (rc == OTL_OK && at < end);
    return rc;
}

static enum otl_err add_id(struct series_list *out, int64_t id, struct otl_error *err)
{
    struct label_memory memory = {0};
    uint32_t cap = (uint32_t)out->cap;
    void *array = out->ids;

    if (!label_memory_grow(&memory, &array, sizeof(*out->ids), (uint32_t)out->n, &cap))
        return index_no_memory(err);
    out->ids = array;
    out->cap = cap;
    out->ids[out->n++] = id;
    return OTL_OK;
}

static int by_id(const void *a, const void *b)
{
    int64_t x, y;

    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

enum otl_err label_view_resource_series(struct label_view *v, int64_t resource_id,
                                        struct series_list *out, struct otl_error *err)
{
    struct label_generation *g = v->g;
    enum otl_err rc = OTL_OK;
    uint32_t at;

    out->n = 0;
    pthread_rwlock_rdlock(&g->lock);
    at = index_find(g->resources, sizeof(*g->resources), g->n_resources, resource_id);
    if (at != LABEL_NONE) {
        const struct postings *p = &g->resources[at].metrics;
        const uint32_t *metrics = postings_ids(p);

        for (uint32_t i = 0; i < p->n && rc == OTL_OK; i++) {
            const struct index_metric *m = &g->metrics[metrics[i]];

            for (uint32_t k = 0; k < m->n_runs && rc == OTL_OK; k++) {
                uint32_t from = m->runs[k].first, to = from + m->runs[k].n;

                for (; from < to && from < v->limit && rc == OTL_OK; from++)
                    rc = add_id(out, g->series[from].id, err);
            }
        }
    }
    pthread_rwlock_unlock(&g->lock);
    if (rc == OTL_OK && out->n > 0)
        qsort(out->ids, out->n, sizeof(*out->ids), by_id);
    return rc;
}

enum otl_err
label_view_keys(struct label_view *v, enum match_what what, const struct label_check *check,
                enum otl_err (*emit)(void *arg, struct bytes key, struct otl_error *err), void *arg,
                struct otl_error *err)
{
    struct label_generation *g = v->g;
    const struct label_set *labels =
        what == MATCH_RESOURCE ? &g->resource_labels : &g->point_labels;
    struct bytes slice[SLICE];
    enum otl_err rc = OTL_OK;
    uint32_t at = 0, n;

    do {
        pthread_rwlock_rdlock(&g->lock);
        for (n = 0; n < SLICE && at < labels->n; n++, at++)
            slice[n] = labels->labels[at].key;
        pthread_rwlock_unlock(&g->lock);
        rc = label_checked(check, err);
        for (uint32_t i = 0; i < n && rc == OTL_OK; i++)
            rc = emit(arg, slice[i], err);
    } while (rc == OTL_OK && n == SLICE);
    return rc;
}
