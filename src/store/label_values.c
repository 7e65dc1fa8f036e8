/* label_values.c -- the distinct values of a label, and which labels there are. */
#include <stdlib.h>

#include "label_generation.h"

/* Looking at one series' attributes costs as much as so many steps through a posting list. */
enum { COST_DIRECT = 40 };
enum { CHECK_EVERY = 256 };

struct listing {
    struct label_generation *g;
    const struct label_check *check;
    unsigned steps;
    uint64_t *series; /* those that count */
    uint32_t limit;
    uint32_t n_series;
    uint64_t *metrics, *resources; /* that have some of them */
    struct bytes *found;           /* texts in blocks */
    uint32_t n_found, cap_found;
};

static enum otl_err stepped(struct listing *s, struct otl_error *err)
{
    return ++s->steps % CHECK_EVERY == 0 ? label_checked(s->check, err) : OTL_OK;
}

static enum otl_err add(struct listing *s, struct bytes text, struct otl_error *err)
{
    struct label_memory memory = {0};
    void *array = s->found;

    if (!label_memory_grow(&memory, &array, sizeof(*s->found), s->n_found, &s->cap_found))
        return index_no_memory(err);
    s->found = array;
    s->found[s->n_found++] = text;
    return OTL_OK;
}

/* ---- which series, metrics and resources count ---- */

static void count_series(struct listing *s, uint32_t i)
{
    uint32_t metric = s->g->series[i].metric;

    bit_set(s->series, i);
    bit_set(s->metrics, metric);
    bit_set(s->resources, s->g->metrics[metric].resource);
    s->n_series++;
}

static void count_metric(struct listing *s, uint32_t metric)
{
    const struct index_metric *m = &s->g->metrics[metric];

    for (uint32_t i = 0; i < m->n_runs && m->runs[i].first < s->limit; i++)
        for (uint32_t j = 0; j < m->runs[i].n && m->runs[i].first + j < s->limit; j++) {
            bit_set(s->series, m->runs[i].first + j);
            s->n_series++;
        }
    if (m->n_runs > 0 && m->runs[0].first < s->limit) {
        bit_set(s->metrics, metric);
        bit_set(s->resources, m->resource);
    }
}

static enum otl_err count(struct listing *s, int64_t project_id, const struct series_list *l,
                          struct otl_error *err)
{
    struct label_generation *g = s->g;

    s->series = calloc(bit_words(s->limit), sizeof(*s->series));
    s->metrics = calloc(bit_words(g->n_metrics), sizeof(*s->metrics));
    s->resources = calloc(bit_words(g->n_resources), sizeof(*s->resources));
    if (s->series == NULL || s->metrics == NULL || s->resources == NULL)
        return index_no_memory(err);
    if (l == NULL) {
        for (uint32_t i = 0; i < g->n_metrics; i++)
            if (project_id == 0 || g->resources[g->metrics[i].resource].project_id == project_id)
                count_metric(s, i);
        return OTL_OK;
    }
    for (size_t i = 0; i < l->n; i++) {
        uint32_t n = index_find(g->series, sizeof(*g->series), s->limit, l->ids[i]);
        enum otl_err rc = stepped(s, err);

        if (rc != OTL_OK)
            return rc;
        if (n != LABEL_NONE &&
            (project_id == 0 ||
             g->resources[g->metrics[g->series[n].metric].resource].project_id == project_id))
            count_series(s, n);
    }
    return OTL_OK;
}

static bool any(const struct postings *p, const uint64_t *bits, uint32_t limit)
{
    const uint32_t *ids = postings_ids(p);

    for (uint32_t i = 0; i < p->n && ids[i] < limit; i++)
        if (bit_is(bits, ids[i]))
            return true;
    return false;
}

/* ---- values ---- */

/* Values that something in bits (of n) has. An empty one is as good as none (read.h). */
static enum otl_err add_values(struct listing *s, const struct label *l, const uint64_t *bits,
                               uint32_t n, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    for (uint32_t v = 0; rc == OTL_OK && v < l->n; v++) {
        if (l->values[v].text_n > 0 && any(&l->values[v].postings, bits, n))
            rc = add(s, label_value_text(&l->values[v]), err);
        if (rc == OTL_OK)
            rc = stepped(s, err);
    }
    return rc;
}

/* The same for few series, by their attributes. */
static enum otl_err add_values_of_series(struct listing *s, const struct label *l,
                                         struct otl_error *err)
{
    uint64_t *seen = calloc(bit_words(l->n), sizeof(*seen));
    struct buf scratch = {0};
    enum otl_err rc = OTL_OK;

    if (seen == NULL)
        return index_no_memory(err);
    for (size_t i = 0; rc == OTL_OK && i < bit_words(s->limit); i++)
        for (uint64_t w = s->series[i]; rc == OTL_OK && w != 0; w &= w - 1) {
            uint32_t n = (uint32_t)(i * 64) + (uint32_t)__builtin_ctzll(w), found;
            struct attr_value v;
            struct bytes text;

            if (!attrs_get(index_attributes(&s->g->series[n]), l->key, &v))
                continue;
            if (!index_value_text(&v, &scratch, &text)) {
                rc = index_no_memory(err);
                break;
            }
            found = label_find(l, &s->g->memory, text);
            if (found == LABEL_NONE || text.n == 0 || bit_is(seen, found))
                continue;
            bit_set(seen, found);
            rc = add(s, label_value_text(&l->values[found]), err);
        }
    buf_fini(&scratch);
    free(seen);
    return rc;
}

static enum otl_err add_point_values(struct listing *s, const struct label *l,
                                     struct otl_error *err)
{
    if ((uint64_t)s->n_series * COST_DIRECT < l->n_postings)
        return add_values_of_series(s, l, err);
    return add_values(s, l, s->series, s->limit, err);
}

/* A series' own attribute hides its resource's: only resources with a series that lacks it count.
 */
static enum otl_err hide_resources(struct listing *s, const struct label *point,
                                   struct otl_error *err)
{
    uint64_t *lack = malloc(bit_words(s->limit) * sizeof(*lack));

    if (lack == NULL)
        return index_no_memory(err);
    memcpy(lack, s->series, bit_words(s->limit) * sizeof(*lack));
    for (uint32_t v = 0; v < point->n; v++) {
        const struct postings *p = &point->values[v].postings;
        uint32_t n = postings_below(p, s->limit);

        for (uint32_t i = 0; i < n; i++)
            lack[postings_ids(p)[i] / 64] &= ~(UINT64_C(1) << (postings_ids(p)[i] % 64));
    }
    memset(s->resources, 0, bit_words(s->g->n_resources) * sizeof(*s->resources));
    for (size_t i = 0; i < bit_words(s->limit); i++)
        for (uint64_t w = lack[i]; w != 0; w &= w - 1) {
            uint32_t n = (uint32_t)(i * 64) + (uint32_t)__builtin_ctzll(w);

            bit_set(s->resources, s->g->metrics[s->g->series[n].metric].resource);
        }
    free(lack);
    return OTL_OK;
}

static enum otl_err add_keys(struct listing *s, const struct label_set *labels,
                             const uint64_t *bits, uint32_t n, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    for (uint32_t i = 0; rc == OTL_OK && i < labels->n; i++) {
        const struct label *l = &labels->labels[i];
        bool has = false;

        for (uint32_t v = 0; !has && v < l->n; v++)
            has = any(&l->values[v].postings, bits, n);
        if (has)
            rc = add(s, l->key, err);
        if (rc == OTL_OK)
            rc = stepped(s, err);
    }
    return rc;
}

static enum otl_err collect(struct listing *s, enum match_what what, struct bytes key,
                            struct otl_error *err)
{
    struct label_generation *g = s->g;
    const struct label *point = NULL, *resource = NULL;
    bool points = what == MATCH_ATTRIBUTE || what == MATCH_ANY;
    bool resources = what == MATCH_RESOURCE || what == MATCH_ANY;
    enum otl_err rc = OTL_OK;

    switch (what) {
    case MATCH_NAME:
        return add_values(s, &g->name, s->metrics, g->n_metrics, err);
    case MATCH_TYPE:
        return add_values(s, &g->type, s->metrics, g->n_metrics, err);
    case MATCH_UNIT:
        return add_values(s, &g->unit, s->metrics, g->n_metrics, err);
    case MATCH_SCOPE:
        return add_values(s, &g->scope, s->metrics, g->n_metrics, err);
    case MATCH_SERVICE:
        return add_values(s, &g->service, s->resources, g->n_resources, err);
    case MATCH_RESOURCE:
    case MATCH_ATTRIBUTE:
    case MATCH_ANY:
        break;
    }
    if (key.n == 0) {
        if (points)
            rc = add_keys(s, &g->point_labels, s->series, s->limit, err);
        if (rc == OTL_OK && resources)
            rc = add_keys(s, &g->resource_labels, s->resources, g->n_resources, err);
        return rc;
    }
    if (points)
        point = label_set_find(&g->point_labels, &g->memory, key);
    if (resources)
        resource = label_set_find(&g->resource_labels, &g->memory, key);
    if (point != NULL && resource != NULL)
        rc = hide_resources(s, point, err);
    if (rc == OTL_OK && point != NULL)
        rc = add_point_values(s, point, err);
    if (rc == OTL_OK && resource != NULL)
        rc = add_values(s, resource, s->resources, g->n_resources, err);
    return rc;
}

static int compare(const void *a, const void *b)
{
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

enum otl_err
label_view_values(struct label_view *v, int64_t project_id, const struct series_list *l,
                  enum match_what what, struct bytes key, const struct label_check *check,
                  enum otl_err (*emit)(void *arg, struct bytes value, struct otl_error *err),
                  void *arg, struct otl_error *err)
{
    struct listing s = {.g = v->g, .check = check, .limit = v->limit};
    enum otl_err rc;

    pthread_rwlock_rdlock(&v->g->lock);
    rc = count(&s, project_id, l, err);
    if (rc == OTL_OK)
        rc = collect(&s, what, key, err);
    pthread_rwlock_unlock(&v->g->lock);
    /* The texts do not move, and emit may ask the index. */
    if (rc == OTL_OK && s.n_found > 0)
        qsort(s.found, s.n_found, sizeof(*s.found), compare);
    for (uint32_t i = 0; rc == OTL_OK && i < s.n_found; i++)
        if (i == 0 || !bytes_equal(s.found[i], s.found[i - 1]))
            rc = emit(arg, s.found[i], err);
    free(s.series);
    free(s.metrics);
    free(s.resources);
    free(s.found);
    return rc;
}
