/* querier_target.c -- target_info: 1 for each resource that has job or instance and other
 * attributes, which are its labels (P-25); from its earliest to its latest point, every half
 * lookback. */
#include <stdlib.h>

#include "querier_internal.h"

enum { DEFAULT_LOOKBACK_MS = 300000, SERIES_AT_ONCE = 256 };

struct looking {
    struct querier *q;
    const struct compiled_matchers *matchers;
    int64_t from_ms, to_ms;
    struct series_list series; /* of the resource under way */
    enum otl_err (*add)(void *arg, struct labels l, int64_t *t, size_t n, struct otl_error *err);
    void *arg;
};

/* ---- labels ---- */

static bool is_other(const void *arg, struct bytes key)
{
    (void)arg;
    return !bytes_equal(key, bytes_str("service.name")) &&
           !bytes_equal(key, bytes_str("service.namespace")) &&
           !bytes_equal(key, bytes_str("service.instance.id"));
}

static bool has_other(struct bytes canonical)
{
    struct attr_iter it;
    struct attr_value v;
    struct bytes key;

    attrs_begin(&it, canonical);
    while (attrs_next(&it, &key, &v)) {
        if (is_other(NULL, key))
            return true;
    }
    return false;
}

/* Without __name__; none: no target_info. */
static enum otl_err target_labels(struct querier *q, const struct resource_info *info,
                                  struct labels *out, struct otl_error *err)
{
    struct label_builder *b = &q->builder;
    uint32_t ignored;
    bool found;
    enum otl_err rc =
        label_cache_get(q->shared->labels, -info->id, q->arena, &found, &ignored, out, err);

    if (rc != OTL_OK || found)
        return rc;
    label_builder_reset(b);
    if (has_other(info->attributes))
        label_builder_attributes(b, q->shared->opts.strategy, info->attributes, false, is_other,
                                 NULL);
    if (b->n > 0)
        label_builder_target(b, info->attributes);
    rc = label_builder_take(b, q->arena, out, err);
    if (rc == OTL_OK && labels_get(*out, bytes_str("job")).n == 0 &&
        labels_get(*out, bytes_str("instance")).n == 0)
        out->n = 0;
    if (rc == OTL_OK)
        label_cache_put(q->shared->labels, -info->id, FAMILY_NONE, *out);
    return rc;
}

/* ---- times ---- */

static int64_t half_lookback(const struct querier *q)
{
    int64_t ms = q->shared->opts.lookback_ms;

    ms = (ms > 0 ? ms : DEFAULT_LOOKBACK_MS) / 2;
    return ms > 0 ? ms : 1;
}

static enum otl_err widen(struct looking *l, const int64_t *ids, size_t n, struct time_extent *out,
                          struct otl_error *err)
{
    int64_t of_kind[KIND_SUMMARY + 1][SERIES_AT_ONCE];
    struct time_extent extents[SERIES_AT_ONCE];
    size_t counts[KIND_SUMMARY + 1] = {0};
    enum otl_err rc = OTL_OK;

    for (size_t i = 0; i < n; i++) {
        struct series_info s;
        int kind = KIND_NUMBER;

        if (!read_series_info(l->q->r, ids[i], &s))
            continue;
        if (s.type == METRIC_HISTOGRAM)
            kind = KIND_HISTOGRAM;
        else if (s.type == METRIC_EXPONENTIAL_HISTOGRAM)
            kind = KIND_EXPONENTIAL;
        else if (s.type == METRIC_SUMMARY)
            kind = KIND_SUMMARY;
        of_kind[kind][counts[kind]++] = ids[i];
    }
    for (int k = 0; k <= KIND_SUMMARY && rc == OTL_OK; k++) {
        rc = read_extents(l->q->r, k, of_kind[k], counts[k], querier_ns_from(l->from_ms),
                          querier_ns_to(l->to_ms), extents, err);
        for (size_t i = 0; i < counts[k] && rc == OTL_OK; i++) {
            if (extents[i].first < out->first)
                out->first = extents[i].first;
            if (extents[i].last > out->last)
                out->last = extents[i].last;
        }
    }
    return rc;
}

/* The resource's earliest and latest point in the range, ms. Once a few hundred of its series reach
 * to within half a lookback of both ends, the others cannot change what a query sees of it. */
static enum otl_err find_times(struct looking *l, int64_t resource_id, struct time_extent *out,
                               struct otl_error *err)
{
    struct time_extent ns = {INT64_MAX, INT64_MIN};
    int64_t half = half_lookback(l->q);
    enum otl_err rc = read_resource_series(l->q->r, resource_id, &l->series, err);

    *out = ns;
    for (size_t i = 0; i < l->series.n && rc == OTL_OK; i += SERIES_AT_ONCE) {
        size_t n = l->series.n - i < SERIES_AT_ONCE ? l->series.n - i : SERIES_AT_ONCE;

        rc = widen(l, l->series.ids + i, n, &ns, err);
        if (ns.first > ns.last)
            continue;
        *out = (struct time_extent){ns.first / 1000000, ns.last / 1000000};
        if (out->first - l->from_ms < half && l->to_ms - out->last < half)
            break;
    }
    return rc;
}

static enum otl_err make_times(struct looking *l, const struct time_extent *e, int64_t **t,
                               size_t *n, struct otl_error *err)
{
    int64_t half = half_lookback(l->q);
    size_t most = (size_t)((e->last - e->first) / half) + 2;
    enum otl_err rc = read_charge(l->q->r, (int64_t)(most * sizeof(**t)), err);

    if (rc != OTL_OK)
        return rc;
    *t = malloc(most * sizeof(**t));
    if (*t == NULL)
        return querier_no_memory(err);
    *n = 0;
    for (int64_t at = e->first; at < e->last; at += half)
        (*t)[(*n)++] = at;
    (*t)[(*n)++] = e->last;
    /* Set right what was charged by what is there. */
    (void)!read_charge(l->q->r, -(int64_t)((most - *n) * sizeof(**t)), NULL);
    return OTL_OK;
}

/* ---- resources ---- */

static enum otl_err look_at(void *arg, const struct resource_info *info, struct otl_error *err)
{
    struct looking *l = arg;
    struct series_info own_keys = {.attributes = info->attributes};
    struct time_extent e;
    struct labels labels, all;
    bool fits = false;
    int64_t *t = NULL;
    size_t n = 0;
    enum otl_err rc = target_labels(l->q, info, &labels, err);

    if (rc == OTL_OK && labels.n > 0)
        rc = matchers_try(l->q, l->matchers, labels, &own_keys, bytes_of(NULL, 0), &fits, err);
    if (rc != OTL_OK || !fits)
        return rc;
    rc = find_times(l, info->id, &e, err);
    if (rc != OTL_OK || e.first > e.last)
        return rc;
    rc = labels_complete(l->q->arena, labels, bytes_str(TARGET_INFO), (struct label){0}, &all, err);
    if (rc == OTL_OK)
        rc = make_times(l, &e, &t, &n, err);
    return rc == OTL_OK ? l->add(l->arg, all, t, n, err) : rc;
}

enum otl_err querier_targets(struct querier *q, const struct compiled_matchers *c, int64_t from_ms,
                             int64_t to_ms,
                             enum otl_err (*add)(void *arg, struct labels l, int64_t *t, size_t n,
                                                 struct otl_error *err),
                             void *arg, struct otl_error *err)
{
    struct looking l = {
        .q = q, .matchers = c, .from_ms = from_ms, .to_ms = to_ms, .add = add, .arg = arg};
    bool fits;
    enum otl_err rc = matchers_try_name(q, c, bytes_str(TARGET_INFO), &fits, err);

    if (rc != OTL_OK || !fits)
        return rc;
    rc = read_resources(q->r, q->project_id, look_at, &l, err);
    (void)!read_charge(q->r, -(int64_t)(l.series.cap * sizeof(*l.series.ids)), NULL);
    series_list_fini(&l.series);
    return rc;
}
