/* label_select.c -- the series that all matchers fit.
 *
 * Each matcher becomes a list of values of its label and the word "those" or "all but those" (I: a
 * matcher that fits the empty text also fits what lacks the label, so it takes away the values that
 * it does not fit). Matchers of resources and of metrics give bits by resource and by metric.
 * Series come from the smallest list there is: the series of these metrics, or the postings of one
 * matcher of point attributes; the other matchers then thin it out, each in the way that costs
 * least: by looking at each series' attributes, by searching one posting list, or by bits made of
 * many. */
#include <stdlib.h>

#include "label_generation.h"
#include "otlite/matcher.h"

/* Costs in steps through a posting list, roughly: to find an attribute of a series and compare it;
 * to try an expression on a value; a look into a posting list's middle. */
enum { COST_DIRECT = 40, COST_VALUE = 16, COST_PROBE = 4 };
/* Tries between two looks at the deadline. */
enum { CHECK_EVERY = 64 };

struct planned {
    const struct matcher *m;
    struct value_matcher vm;
    const struct label *metric, *resource, *point; /* both of the last two: MATCH_ANY */
    bool subtract;                                 /* all but the values */
    bool listed, done;
    uint32_t *values; /* of point: n of them, that have so many postings together */
    uint32_t n_values;
    uint64_t n_postings;
    uint64_t *resource_bits; /* MATCH_ANY: resources that fit where a series lacks the attribute */
    uint64_t n_resource_series;
};

struct selection {
    struct label_generation *g;
    uint32_t limit;
    const struct label_check *check;
    unsigned tries;
    struct planned *planned;
    size_t n;
    uint64_t *resources, *metrics; /* those that fit so far; NULL: all */
    uint64_t *bits, *has;          /* scratch, by series */
    uint32_t *found;               /* ascending */
    uint32_t n_found;
    struct buf text;
};

void series_list_fini(struct series_list *l)
{
    free(l->ids);
    *l = (struct series_list){0};
}

static enum otl_err tried(struct selection *s, struct otl_error *err)
{
    return ++s->tries % CHECK_EVERY == 0 ? label_checked(s->check, err) : OTL_OK;
}

static enum otl_err new_bits(uint32_t n, uint64_t **out, struct otl_error *err)
{
    *out = calloc(bit_words(n), sizeof(**out));
    return *out == NULL ? index_no_memory(err) : OTL_OK;
}

static enum otl_err clear_bits(uint64_t **bits, uint32_t n, struct otl_error *err)
{
    if (*bits == NULL)
        return new_bits(n, bits, err);
    memset(*bits, 0, bit_words(n) * sizeof(**bits));
    return OTL_OK;
}

static void set_postings(uint64_t *bits, const struct postings *p, uint32_t limit)
{
    const uint32_t *ids = postings_ids(p);
    uint32_t n = postings_below(p, limit);

    for (uint32_t i = 0; i < n; i++)
        bit_set(bits, ids[i]);
}

static void set_range(uint64_t *bits, uint32_t from, uint32_t to)
{
    while (from < to && from % 64 != 0)
        bit_set(bits, from++);
    for (; to - from >= 64 && from < to; from += 64)
        bits[from / 64] = UINT64_MAX;
    while (from < to)
        bit_set(bits, from++);
}

static void set_metric(uint64_t *bits, const struct index_metric *m, uint32_t limit)
{
    for (uint32_t i = 0; i < m->n_runs; i++) {
        uint32_t from = m->runs[i].first, to = from + m->runs[i].n;

        if (from >= limit)
            break;
        set_range(bits, from, to < limit ? to : limit);
    }
}

/* ---- matchers ---- */

/* The values of label that the matcher's list is made of (p->subtract says how). */
static enum otl_err list_values(struct selection *s, struct planned *p, const struct label *label,
                                uint32_t **out, uint32_t *n, struct otl_error *err)
{
    bool lookup = p->vm.literal && !p->vm.hits_empty;
    size_t most = lookup && p->vm.n < label->n ? p->vm.n : label->n;
    uint32_t *values = malloc((most + 1) * sizeof(*values));
    enum otl_err rc = OTL_OK;

    if (values == NULL)
        return index_no_memory(err);
    *n = 0;
    if (lookup) {
        for (size_t i = 0; i < p->vm.n; i++) {
            uint32_t v;

            if (i > 0 && bytes_equal(p->vm.alternatives[i].text, p->vm.alternatives[i - 1].text))
                continue;
            v = label_find(label, &s->g->memory, p->vm.alternatives[i].text);
            if (v != LABEL_NONE)
                values[(*n)++] = v;
        }
    } else {
        for (uint32_t v = 0; rc == OTL_OK && v < label->n; v++) {
            bool hit = false;

            rc = value_matcher_hit(&p->vm, label_value_text(&label->values[v]), &hit, err);
            if (rc == OTL_OK)
                rc = tried(s, err);
            if (hit != p->vm.hits_empty)
                values[(*n)++] = v;
        }
    }
    if (rc == OTL_OK)
        *out = values;
    else
        free(values);
    return rc;
}

/* Bits of those of n (resources or metrics) that the matcher fits. */
static enum otl_err fitting(struct selection *s, struct planned *p, const struct label *label,
                            uint32_t n, uint64_t **out, struct otl_error *err)
{
    uint32_t *values, n_values;
    uint64_t *bits;
    enum otl_err rc = list_values(s, p, label, &values, &n_values, err);

    if (rc != OTL_OK)
        return rc;
    rc = new_bits(n, &bits, err);
    if (rc == OTL_OK) {
        for (uint32_t i = 0; i < n_values; i++)
            set_postings(bits, &label->values[values[i]].postings, n);
        for (size_t i = 0; p->subtract && i < bit_words(n); i++)
            bits[i] = ~bits[i];
        *out = bits;
    }
    free(values);
    return rc;
}

static void intersect(uint64_t **all, uint64_t *bits, uint32_t n)
{
    if (*all == NULL) {
        *all = bits;
        return;
    }
    for (size_t i = 0; i < bit_words(n); i++)
        (*all)[i] &= bits[i];
    free(bits);
}

static const struct label *metric_label(const struct label_generation *g, enum match_what what)
{
    switch (what) {
    case MATCH_NAME:
        return &g->name;
    case MATCH_TYPE:
        return &g->type;
    case MATCH_UNIT:
        return &g->unit;
    case MATCH_SCOPE:
        return &g->scope;
    case MATCH_SERVICE:
    case MATCH_RESOURCE:
    case MATCH_ATTRIBUTE:
    case MATCH_ANY:
        break;
    }
    return NULL;
}

/* Which labels a matcher is about, and what it says of resources and metrics. *none: nothing has
 * it. */
static enum otl_err plan(struct selection *s, struct planned *p, bool *none, struct otl_error *err)
{
    struct label_generation *g = s->g;
    enum match_what what = p->m->what;
    uint64_t *bits;
    enum otl_err rc = value_matcher_init(&p->vm, p->m->op, p->m->value, err);

    if (rc != OTL_OK)
        return rc;
    p->subtract = p->vm.hits_empty != p->vm.negative;
    p->metric = metric_label(g, what);
    if (what == MATCH_SERVICE)
        p->resource = &g->service;
    else if (what == MATCH_RESOURCE || what == MATCH_ANY)
        p->resource = label_set_find(&g->resource_labels, &g->memory, p->m->key);
    if (what == MATCH_ATTRIBUTE || what == MATCH_ANY)
        p->point = label_set_find(&g->point_labels, &g->memory, p->m->key);
    if (p->metric == NULL && p->resource == NULL && p->point == NULL) {
        p->done = true;
        *none = *none || !p->subtract;
        return OTL_OK;
    }
    if (p->point != NULL)
        return OTL_OK;
    if (p->metric != NULL) {
        rc = fitting(s, p, p->metric, g->n_metrics, &bits, err);
        if (rc == OTL_OK)
            intersect(&s->metrics, bits, g->n_metrics);
    } else {
        rc = fitting(s, p, p->resource, g->n_resources, &bits, err);
        if (rc == OTL_OK)
            intersect(&s->resources, bits, g->n_resources);
    }
    p->done = true;
    return rc;
}

static enum otl_err only_project(struct selection *s, int64_t project_id, struct otl_error *err)
{
    struct label_generation *g = s->g;
    uint64_t *bits;
    enum otl_err rc;

    if (project_id == 0)
        return OTL_OK;
    rc = new_bits(g->n_resources, &bits, err);
    if (rc != OTL_OK)
        return rc;
    for (uint32_t i = 0; i < g->n_resources; i++)
        if (g->resources[i].project_id == project_id)
            bit_set(bits, i);
    intersect(&s->resources, bits, g->n_resources);
    return OTL_OK;
}

/* From here on resources are spoken for by metrics. */
static enum otl_err settle_metrics(struct selection *s, uint64_t *n_series, struct otl_error *err)
{
    struct label_generation *g = s->g;
    uint64_t *bits;
    enum otl_err rc;

    *n_series = s->limit;
    if (s->resources == NULL && s->metrics == NULL)
        return OTL_OK;
    rc = new_bits(g->n_metrics, &bits, err);
    if (rc != OTL_OK)
        return rc;
    *n_series = 0;
    for (uint32_t i = 0; i < g->n_metrics; i++) {
        const struct index_metric *m = &g->metrics[i];

        if ((s->metrics == NULL || bit_is(s->metrics, i)) &&
            (s->resources == NULL || bit_is(s->resources, m->resource))) {
            bit_set(bits, i);
            *n_series += m->n_series;
        }
    }
    free(s->metrics);
    s->metrics = bits;
    return OTL_OK;
}

/* ---- where to start ---- */

static enum otl_err list(struct selection *s, struct planned *p, struct otl_error *err)
{
    struct label_generation *g = s->g;
    enum otl_err rc;

    if (p->listed)
        return OTL_OK;
    rc = list_values(s, p, p->point, &p->values, &p->n_values, err);
    if (rc != OTL_OK)
        return rc;
    for (uint32_t i = 0; i < p->n_values; i++)
        p->n_postings += p->point->values[p->values[i]].postings.n;
    p->listed = true;
    if (p->resource == NULL)
        return OTL_OK;
    rc = fitting(s, p, p->resource, g->n_resources, &p->resource_bits, err);
    for (uint32_t i = 0; rc == OTL_OK && i < g->n_metrics; i++)
        if (bit_is(p->resource_bits, g->metrics[i].resource))
            p->n_resource_series += g->metrics[i].n_series;
    return rc;
}

static uint64_t cost_of_listing(const struct planned *p)
{
    uint64_t n = p->point->n;

    if (p->listed || (p->vm.literal && !p->vm.hits_empty && p->resource == NULL))
        return 0;
    if (p->resource != NULL)
        n += p->resource->n;
    return n * COST_VALUE;
}

/* Room for n series. */
static enum otl_err reserve_found(struct selection *s, uint64_t n, struct otl_error *err)
{
    s->found = malloc(((size_t)n + 1) * sizeof(*s->found));
    return s->found == NULL ? index_no_memory(err) : OTL_OK;
}

static bool metric_fits(const struct selection *s, uint32_t series)
{
    return s->metrics == NULL || bit_is(s->metrics, s->g->series[series].metric);
}

static enum otl_err found_from_bits(struct selection *s, bool by_metric, struct otl_error *err)
{
    size_t words = bit_words(s->limit);
    uint64_t n = 0;
    enum otl_err rc;

    for (size_t i = 0; i < words; i++)
        n += (uint64_t)__builtin_popcountll(s->bits[i]);
    rc = reserve_found(s, n, err);
    for (size_t i = 0; rc == OTL_OK && i < words; i++)
        for (uint64_t w = s->bits[i]; w != 0; w &= w - 1) {
            uint32_t series = (uint32_t)(i * 64) + (uint32_t)__builtin_ctzll(w);

            if (!by_metric || metric_fits(s, series))
                s->found[s->n_found++] = series;
        }
    return rc;
}

static enum otl_err start_from_metrics(struct selection *s, struct otl_error *err)
{
    enum otl_err rc = clear_bits(&s->bits, s->limit, err);

    if (rc != OTL_OK)
        return rc;
    if (s->metrics == NULL)
        set_range(s->bits, 0, s->limit);
    for (uint32_t i = 0; s->metrics != NULL && i < s->g->n_metrics; i++)
        if (bit_is(s->metrics, i))
            set_metric(s->bits, &s->g->metrics[i], s->limit);
    return found_from_bits(s, false, err);
}

static enum otl_err start_from_matcher(struct selection *s, struct planned *p,
                                       struct otl_error *err)
{
    const struct label *l = p->point;
    enum otl_err rc;

    if (p->n_values == 1 && p->resource == NULL) {
        const struct postings *postings = &l->values[p->values[0]].postings;
        const uint32_t *ids = postings_ids(postings);
        uint32_t n = postings_below(postings, s->limit);

        rc = reserve_found(s, n, err);
        for (uint32_t i = 0; rc == OTL_OK && i < n; i++)
            if (metric_fits(s, ids[i]))
                s->found[s->n_found++] = ids[i];
        p->done = true;
        return rc;
    }
    rc = clear_bits(&s->bits, s->limit, err);
    if (rc != OTL_OK)
        return rc;
    for (uint32_t i = 0; i < p->n_values; i++)
        set_postings(s->bits, &l->values[p->values[i]].postings, s->limit);
    for (uint32_t i = 0; p->resource != NULL && i < s->g->n_metrics; i++)
        if (bit_is(p->resource_bits, s->g->metrics[i].resource))
            set_metric(s->bits, &s->g->metrics[i], s->limit);
    /* Of the resources that fit some series have the attribute with another value. */
    p->done = p->resource == NULL;
    return found_from_bits(s, true, err);
}

static enum otl_err start(struct selection *s, uint64_t n_series, struct otl_error *err)
{
    struct planned *best = NULL;
    uint64_t least = n_series;

    for (size_t i = 0; i < s->n; i++) {
        struct planned *p = &s->planned[i];
        enum otl_err rc;

        if (p->done || p->subtract || cost_of_listing(p) > least * COST_DIRECT)
            continue;
        rc = list(s, p, err);
        if (rc != OTL_OK)
            return rc;
        if (p->n_postings + p->n_resource_series < least) {
            least = p->n_postings + p->n_resource_series;
            best = p;
        }
    }
    return best == NULL ? start_from_metrics(s, err) : start_from_matcher(s, best, err);
}

/* ---- thinning out ---- */

static enum otl_err thin_directly(struct selection *s, struct planned *p, struct otl_error *err)
{
    uint32_t kept = 0;
    enum otl_err rc = OTL_OK;

    for (uint32_t i = 0; i < s->n_found; i++) {
        const struct index_series *series = &s->g->series[s->found[i]];
        struct bytes resource = s->g->resources[s->g->metrics[series->metric].resource].attributes;
        struct bytes text = bytes_of("", 0);
        struct attr_value v;
        bool hit;

        if ((attrs_get(index_attributes(series), p->m->key, &v) ||
             (p->resource != NULL && attrs_get(resource, p->m->key, &v))) &&
            !index_value_text(&v, &s->text, &text))
            return index_no_memory(err);
        rc = value_matcher_hit(&p->vm, text, &hit, err);
        if (rc == OTL_OK)
            rc = tried(s, err);
        if (rc != OTL_OK)
            return rc;
        if (hit != p->vm.negative)
            s->found[kept++] = s->found[i];
    }
    s->n_found = kept;
    return OTL_OK;
}

/* The first place from `at` on in n ascending ids whose id is not below x: by doubling steps. */
static uint32_t gallop(const uint32_t *ids, uint32_t n, uint32_t at, uint32_t x)
{
    uint32_t step = 1, low = at, high;

    while (low + step < n && ids[low + step] < x) {
        low += step;
        step = step < n ? step * 2 : step;
    }
    high = low + step < n ? low + step + 1 : n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (ids[mid] < x)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static void thin_by_postings(struct selection *s, struct planned *p)
{
    const struct postings *postings = &p->point->values[p->values[0]].postings;
    const uint32_t *ids = postings_ids(postings);
    uint32_t kept = 0, at = 0;

    for (uint32_t i = 0; i < s->n_found; i++) {
        at = gallop(ids, postings->n, at, s->found[i]);
        if ((at < postings->n && ids[at] == s->found[i]) != p->subtract)
            s->found[kept++] = s->found[i];
    }
    s->n_found = kept;
}

static enum otl_err thin_by_bits(struct selection *s, struct planned *p, struct otl_error *err)
{
    uint32_t kept = 0;
    enum otl_err rc = clear_bits(&s->bits, s->limit, err);

    if (rc == OTL_OK && p->resource != NULL)
        rc = clear_bits(&s->has, s->limit, err);
    if (rc != OTL_OK)
        return rc;
    for (uint32_t i = 0; i < p->n_values; i++)
        set_postings(s->bits, &p->point->values[p->values[i]].postings, s->limit);
    for (uint32_t i = 0; p->resource != NULL && i < p->point->n; i++)
        set_postings(s->has, &p->point->values[i].postings, s->limit);
    for (uint32_t i = 0; i < s->n_found; i++) {
        uint32_t series = s->found[i];
        bool fits = bit_is(s->bits, series) != p->subtract;

        if (p->resource != NULL && !bit_is(s->has, series))
            fits = bit_is(p->resource_bits, s->g->metrics[s->g->series[series].metric].resource);
        if (fits)
            s->found[kept++] = series;
    }
    s->n_found = kept;
    return OTL_OK;
}

static enum otl_err thin(struct selection *s, struct planned *p, struct otl_error *err)
{
    uint64_t direct = (uint64_t)s->n_found * COST_DIRECT, bits = s->limit / 32;
    enum otl_err rc;

    if (cost_of_listing(p) >= direct)
        return thin_directly(s, p, err);
    rc = list(s, p, err);
    if (rc != OTL_OK)
        return rc;
    bits += p->n_postings + (p->resource != NULL ? p->point->n_postings : 0);
    if (p->n_values == 1 && p->resource == NULL && (uint64_t)s->n_found * COST_PROBE < bits) {
        thin_by_postings(s, p);
        return OTL_OK;
    }
    return bits < direct ? thin_by_bits(s, p, err) : thin_directly(s, p, err);
}

/* ---- all of it ---- */

static enum otl_err find(struct selection *s, int64_t project_id, struct otl_error *err)
{
    uint64_t n_series;
    bool none = false;
    enum otl_err rc = only_project(s, project_id, err);

    /* All of them, so that an expression that is none is always said to be so. */
    for (size_t i = 0; rc == OTL_OK && i < s->n; i++)
        rc = plan(s, &s->planned[i], &none, err);
    if (rc != OTL_OK || none)
        return rc;
    rc = settle_metrics(s, &n_series, err);
    if (rc == OTL_OK)
        rc = start(s, n_series, err);
    for (size_t i = 0; rc == OTL_OK && i < s->n; i++)
        if (!s->planned[i].done)
            rc = thin(s, &s->planned[i], err);
    return rc;
}

static enum otl_err give(const struct selection *s, struct series_list *out, struct otl_error *err)
{
    if (s->n_found > out->cap) {
        int64_t *ids = realloc(out->ids, s->n_found * sizeof(*ids));

        if (ids == NULL)
            return index_no_memory(err);
        out->ids = ids;
        out->cap = s->n_found;
    }
    for (uint32_t i = 0; i < s->n_found; i++)
        out->ids[i] = s->g->series[s->found[i]].id;
    out->n = s->n_found;
    return OTL_OK;
}

enum otl_err label_view_select(struct label_view *v, int64_t project_id, const struct matcher *m,
                               size_t n, const struct label_check *check, struct series_list *out,
                               struct otl_error *err)
{
    struct selection s = {.g = v->g, .limit = v->limit, .check = check, .n = n};
    enum otl_err rc;

    s.planned = calloc(n + 1, sizeof(*s.planned));
    if (s.planned == NULL)
        return index_no_memory(err);
    for (size_t i = 0; i < n; i++)
        s.planned[i].m = &m[i];
    pthread_rwlock_rdlock(&v->g->lock);
    rc = find(&s, project_id, err);
    if (rc == OTL_OK)
        rc = give(&s, out, err);
    pthread_rwlock_unlock(&v->g->lock);
    for (size_t i = 0; i < n; i++) {
        value_matcher_fini(&s.planned[i].vm);
        free(s.planned[i].values);
        free(s.planned[i].resource_bits);
    }
    free(s.planned);
    free(s.resources);
    free(s.metrics);
    free(s.bits);
    free(s.has);
    free(s.found);
    buf_fini(&s.text);
    return rc;
}
