/* querier_select.c -- from matchers to a sorted set of shown series, with the stored ones they are
 * made of. */
#include <math.h>
#include <stdlib.h>

#include "format_number.h"
#include "querier_internal.h"
#include "sorting.h"

/* A shown series to be, of one source or one target. */
struct candidate {
    struct labels labels;
    uint32_t of;
    bool is_target;
};

/* A stored series on the way. */
struct found {
    struct labels base;
    uint32_t family;
    uint8_t variants; /* bits that are left */
};

struct selecting {
    struct querier *q;
    struct compiled_matchers matchers;
    uint8_t *variants; /* by family */
    uint32_t n_variants;
    bool all;
    int64_t from_ms, to_ms;
    struct selected *out;
    struct found *found; /* beside out->stored */
    size_t n_found, cap_found;
    struct found_bounds *bounds; /* likewise */
    struct candidate *candidates;
    size_t n_candidates, cap_candidates;
    struct bytes *names; /* of variants of families, as far as made; in the arena */
};

/* array with room for one more element; grown memory is charged to the read. *rc says if it failed:
 * then array is as it was. */
static void *grow(struct selecting *x, void *array, size_t *cap, size_t n, size_t size,
                  enum otl_err *rc, struct otl_error *err)
{
    size_t more = *cap == 0 ? 64 : 2 * *cap;
    void *p;

    *rc = OTL_OK;
    if (n < *cap)
        return array;
    *rc = more > UINT32_MAX
              ? otl_fail(err, OTL_ETOOBIG, "a selector matches more series than can be counted")
              : read_charge(x->q->r, (int64_t)((more - *cap) * size), err);
    if (*rc != OTL_OK)
        return array;
    x->out->charged += (int64_t)((more - *cap) * size);
    p = realloc(array, more * size);
    if (p == NULL) {
        *rc = querier_no_memory(err);
        return array;
    }
    *cap = more;
    return p;
}

#define GROW(x, array, cap, n, rc, err) \
    ((array) = grow(x, array, &(cap), n, sizeof(*(array)), rc, err))

static enum series_kind kind_of(enum metric_type t)
{
    switch (t) {
    case METRIC_HISTOGRAM:
        return KIND_HISTOGRAM;
    case METRIC_EXPONENTIAL_HISTOGRAM:
        return KIND_EXPONENTIAL;
    case METRIC_SUMMARY:
        return KIND_SUMMARY;
    case METRIC_GAUGE:
    case METRIC_SUM:
        break;
    }
    return KIND_NUMBER;
}

/* The label that series of that variant have beside those of the stored one; n 0: none. */
static struct bytes bound_label(enum series_kind kind, enum variant v)
{
    if (v == VARIANT_BUCKET)
        return bytes_str("le");
    if (v == VARIANT_PLAIN && kind == KIND_SUMMARY)
        return bytes_str("quantile");
    return bytes_of(NULL, 0);
}

/* ---- stored series ---- */

static enum otl_err try_variants(struct selecting *x, const struct series_info *s,
                                 struct labels base, uint8_t *variants, struct otl_error *err)
{
    enum series_kind kind = kind_of(s->type);
    enum otl_err rc = OTL_OK;
    int known = -1; /* what variants without a label of their own do; -1: not tried */

    for (int v = 0; v < VARIANTS && rc == OTL_OK; v++) {
        struct bytes label = bound_label(kind, (enum variant)v);
        bool fits = known == 1;

        if ((*variants & 1u << v) == 0)
            continue;
        if (label.n > 0 || known < 0)
            rc = matchers_try(x->q, &x->matchers, base, s, label, &fits, err);
        if (label.n == 0)
            known = fits;
        if (!fits)
            *variants &= (uint8_t) ~(1u << v);
    }
    return rc;
}

static enum otl_err add_stored(struct selecting *x, int64_t id, struct otl_error *err)
{
    struct selected *out = x->out;
    struct series_info s;
    struct found f;
    enum otl_err rc;

    if (!read_series_info(x->q->r, id, &s))
        return OTL_OK;
    rc = series_base_labels(x->q, &s, &f.family, &f.base, err);
    if (rc != OTL_OK || f.family >= x->n_variants)
        return rc;
    f.variants = x->variants[f.family];
    rc = try_variants(x, &s, f.base, &f.variants, err);
    if (rc != OTL_OK || f.variants == 0)
        return rc;
    GROW(x, out->stored, out->cap_stored, out->n_stored, &rc, err);
    if (rc == OTL_OK)
        GROW(x, x->found, x->cap_found, x->n_found, &rc, err);
    if (rc != OTL_OK)
        return rc;
    out->stored[out->n_stored++] = (struct stored){
        .id = id,
        .kind = kind_of(s.type),
        .delta = s.temporality == TEMPORALITY_DELTA,
        .is_monotonic = s.type == METRIC_SUM && s.is_monotonic,
    };
    x->found[x->n_found++] = f;
    return OTL_OK;
}

/* Calls fn with the ids of each kind of those that fn_wants, and where they stand. */
struct of_kind {
    int64_t *ids;
    size_t *places;
    size_t n;
};

static enum otl_err list_kind(struct selecting *x, enum series_kind kind, unsigned variants,
                              struct of_kind *out, struct otl_error *err)
{
    const struct selected *s = x->out;

    *out = (struct of_kind){malloc((s->n_stored + 1) * sizeof(*out->ids)),
                            malloc((s->n_stored + 1) * sizeof(*out->places)), 0};
    if (out->ids == NULL || out->places == NULL)
        return querier_no_memory(err);
    for (size_t i = 0; i < s->n_stored; i++) {
        if (s->stored[i].kind != kind || (x->found[i].variants & variants) == 0)
            continue;
        out->ids[out->n] = s->stored[i].id;
        out->places[out->n++] = i;
    }
    return OTL_OK;
}

static void of_kind_fini(struct of_kind *k)
{
    free(k->ids);
    free(k->places);
}

/* Those without a point in the range lose all their variants. */
static enum otl_err drop_absent(struct selecting *x, enum series_kind kind, struct otl_error *err)
{
    struct of_kind k;
    struct time_extent *extents = NULL;
    enum otl_err rc = list_kind(x, kind, UINT8_MAX, &k, err);

    if (rc == OTL_OK && k.n > 0) {
        extents = malloc(k.n * sizeof(*extents));
        rc = extents == NULL
                 ? querier_no_memory(err)
                 : read_extents(x->q->r, (int)kind, k.ids, k.n, querier_ns_from(x->from_ms),
                                querier_ns_to(x->to_ms), extents, err);
    }
    for (size_t i = 0; rc == OTL_OK && i < k.n; i++) {
        if (extents[i].first > extents[i].last)
            x->found[k.places[i]].variants = 0;
    }
    free(extents);
    of_kind_fini(&k);
    return rc;
}

static enum otl_err find_bounds(struct selecting *x, enum series_kind kind, enum variant variant,
                                struct otl_error *err)
{
    struct of_kind k;
    struct found_bounds *b = NULL;
    enum otl_err rc = list_kind(x, kind, 1u << variant, &k, err);

    if (rc == OTL_OK && k.n > 0) {
        b = malloc(k.n * sizeof(*b));
        rc = b == NULL ? querier_no_memory(err)
                       : querier_find_bounds(x->q, kind, k.ids, k.n, x->from_ms, x->to_ms, b, err);
    }
    for (size_t i = 0; rc == OTL_OK && i < k.n; i++)
        x->bounds[k.places[i]] = b[i];
    free(b);
    of_kind_fini(&k);
    return rc;
}

/* ---- shown series ---- */

static enum otl_err name_of(struct selecting *x, uint32_t family, enum variant v, struct bytes *out,
                            struct otl_error *err)
{
    struct querier *q = x->q;
    struct bytes *name = &x->names[(size_t)family * VARIANTS + (size_t)v];

    if (name->n == 0) {
        buf_reset(&q->text);
        buf_add_bytes(
            &q->text,
            family_table_get(&q->shared->families, family)->names[q->shared->opts.strategy]);
        buf_add_str(&q->text, variant_suffix(v));
        if (q->text.failed)
            return querier_no_memory(err);
        if (!arena_dup(q->arena, buf_bytes(&q->text), name))
            return querier_arena_failed(q->arena, err);
    }
    *out = *name;
    return OTL_OK;
}

static enum otl_err add_candidate(struct selecting *x, struct candidate c, struct otl_error *err)
{
    enum otl_err rc;

    GROW(x, x->candidates, x->cap_candidates, x->n_candidates, &rc, err);
    if (rc == OTL_OK)
        x->candidates[x->n_candidates++] = c;
    return rc;
}

/* extra: le or quantile with its text, or without a name. */
static enum otl_err add_source(struct selecting *x, size_t at, enum variant v, double bound,
                               struct label extra, bool wanted, struct otl_error *err)
{
    struct selected *out = x->out;
    const struct found *f = &x->found[at];
    struct candidate c = {.of = (uint32_t)out->n_sources};
    struct bytes name;
    enum otl_err rc;

    GROW(x, out->sources, out->cap_sources, out->n_sources, &rc, err);
    if (rc != OTL_OK)
        return rc;
    out->sources[out->n_sources++] = (struct source){SERIES_NONE, v, bound};
    if (!wanted)
        return OTL_OK;
    rc = name_of(x, f->family, v, &name, err);
    if (rc == OTL_OK)
        rc = labels_complete(x->q->arena, f->base, name, extra, &c.labels, err);
    return rc == OTL_OK ? add_candidate(x, c, err) : rc;
}

/* One a bound or quantile. They are the same ones over and over, so their texts are kept from the
 * series before. */
struct bound_texts {
    const double *values;
    struct bytes *texts;
    size_t n;
};

static enum otl_err make_texts(struct querier *q, const struct found_bounds *b,
                               struct bound_texts *t, struct otl_error *err)
{
    if (t->n == b->n && memcmp(t->values, b->values, b->n * sizeof(*b->values)) == 0)
        return OTL_OK;
    t->values = b->values;
    t->n = b->n;
    t->texts = arena_alloc(q->arena, b->n * sizeof(*t->texts));
    if (t->texts == NULL)
        return querier_arena_failed(q->arena, err);
    for (size_t i = 0; i < b->n; i++) {
        buf_reset(&q->text);
        format_float(&q->text, b->values[i]);
        if (q->text.failed)
            return querier_no_memory(err);
        if (!arena_dup(q->arena, buf_bytes(&q->text), &t->texts[i]))
            return querier_arena_failed(q->arena, err);
    }
    return OTL_OK;
}

static enum otl_err add_bound_sources(struct selecting *x, size_t at, enum variant v,
                                      struct bound_texts *t, struct otl_error *err)
{
    const struct found_bounds *b = &x->bounds[at];
    struct bytes label = bound_label(x->out->stored[at].kind, v);
    enum otl_err rc = b->n == 0 ? OTL_OK : make_texts(x->q, b, t, err);

    for (size_t i = 0; i < b->n && rc == OTL_OK; i++) {
        bool wanted;

        rc = matchers_try_bound(&x->matchers, label, b->values[i], t->texts[i], &wanted, err);
        if (rc == OTL_OK)
            rc =
                add_source(x, at, v, b->values[i], (struct label){label, t->texts[i]}, wanted, err);
    }
    return rc;
}

static enum otl_err add_sources(struct selecting *x, struct otl_error *err)
{
    struct selected *out = x->out;
    struct bound_texts texts = {0};
    enum otl_err rc = OTL_OK;

    for (size_t i = 0; i < out->n_stored && rc == OTL_OK; i++) {
        struct stored *s = &out->stored[i];
        unsigned variants = x->found[i].variants;
        int with_bounds = -1;

        s->first = (uint32_t)out->n_sources;
        for (int v = 0; v < VARIANTS && rc == OTL_OK; v++) {
            if ((variants & 1u << v) == 0)
                continue;
            if (bound_label(s->kind, (enum variant)v).n > 0)
                with_bounds = v;
            else
                rc = add_source(x, i, (enum variant)v, 0, (struct label){0}, true, err);
        }
        if (rc == OTL_OK && with_bounds >= 0)
            rc = add_bound_sources(x, i, (enum variant)with_bounds, &texts, err);
        s->n = (uint32_t)(out->n_sources - s->first);
        if (rc == OTL_OK && i % 1024 == 0)
            rc = read_check(x->q->r, err);
    }
    return rc;
}

static enum otl_err add_target(void *arg, struct labels l, int64_t *t, size_t n,
                               struct otl_error *err)
{
    struct selecting *x = arg;
    struct selected *out = x->out;
    enum otl_err rc;

    GROW(x, out->targets, out->cap_targets, out->n_targets, &rc, err);
    if (rc != OTL_OK) {
        free(t);
        return rc;
    }
    out->charged += (int64_t)(n * sizeof(*t));
    out->targets[out->n_targets] = (struct target){SERIES_NONE, t, n};
    return add_candidate(
        x, (struct candidate){.labels = l, .of = (uint32_t)out->n_targets++, .is_target = true},
        err);
}

/* ---- series that have several sources ---- */

static uint32_t group_of(struct selected *s, uint32_t i)
{
    while (s->stored[i].group != i) {
        s->stored[i].group = s->stored[s->stored[i].group].group;
        i = s->stored[i].group;
    }
    return i;
}

/* The stored series that a source belongs to. */
static uint32_t stored_of(const struct selected *s, uint32_t source)
{
    size_t low = 0, high = s->n_stored;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (s->stored[mid].first <= source)
            low = mid + 1;
        else
            high = mid;
    }
    /* Of those that begin at one place the last one has sources. */
    return (uint32_t)(low - 1);
}

static int by_time(const void *a, const void *b)
{
    int64_t x, y;

    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

/* The times of b go to a, each once. */
static enum otl_err join_targets(struct target *a, struct target *b, struct otl_error *err)
{
    int64_t *t = realloc(a->t, (a->n + b->n) * sizeof(*t));
    size_t n = 0;

    if (t == NULL)
        return querier_no_memory(err);
    memcpy(t + a->n, b->t, b->n * sizeof(*t));
    qsort(t, a->n + b->n, sizeof(*t), by_time);
    for (size_t i = 0; i < a->n + b->n; i++) {
        if (n == 0 || t[n - 1] != t[i])
            t[n++] = t[i];
    }
    a->t = t;
    a->n = n;
    free(b->t);
    b->t = NULL;
    b->n = 0;
    return OTL_OK;
}

/* Candidates first to first + n - 1 have the labels of series. Where a stored metric is called
 * target_info, it is what counts. */
static enum otl_err make_series(struct selecting *x, size_t first, size_t n, uint32_t series,
                                struct otl_error *err)
{
    struct selected *out = x->out;
    uint32_t stored = SERIES_NONE, target = SERIES_NONE;
    size_t n_sources = 0;

    for (size_t i = first; i < first + n; i++)
        n_sources += !x->candidates[i].is_target;
    for (size_t i = first; i < first + n; i++) {
        const struct candidate *c = &x->candidates[i];
        uint32_t s;

        if (c->is_target) {
            enum otl_err rc = OTL_OK;

            if (n_sources > 0)
                continue;
            if (target == SERIES_NONE) {
                target = c->of;
                out->targets[target].series = series;
            } else {
                rc = join_targets(&out->targets[target], &out->targets[c->of], err);
            }
            if (rc != OTL_OK)
                return rc;
            continue;
        }
        out->sources[c->of].series = series;
        if (n_sources < 2)
            continue;
        s = stored_of(out, c->of);
        out->stored[s].joined = true;
        if (stored != SERIES_NONE)
            out->stored[group_of(out, s)].group = group_of(out, stored);
        stored = s;
    }
    return OTL_OK;
}

static int by_labels(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    int c = labels_compare(x->labels, y->labels);

    return c != 0 ? c : (x->of > y->of) - (x->of < y->of);
}

static enum otl_err make_set(struct selecting *x, struct otl_error *err)
{
    struct selected *out = x->out;
    struct labels *labels = arena_alloc(x->q->arena, x->n_candidates * sizeof(*labels));
    enum otl_err rc = OTL_OK;
    size_t n = 0;

    if (labels == NULL)
        return querier_arena_failed(x->q->arena, err);
    for (size_t i = 0; i < out->n_stored; i++)
        out->stored[i].group = (uint32_t)i;
    rc = sort_checked(x->q->r, x->candidates, x->n_candidates, sizeof(*x->candidates), by_labels,
                      err);
    for (size_t i = 0; i < x->n_candidates && rc == OTL_OK;) {
        size_t end = i + 1;

        while (end < x->n_candidates &&
               labels_equal(x->candidates[i].labels, x->candidates[end].labels))
            end++;
        labels[n] = x->candidates[i].labels;
        rc = make_series(x, i, end - i, (uint32_t)n, err);
        n++;
        i = end;
    }
    for (size_t i = 0; i < out->n_stored; i++)
        out->stored[i].group = group_of(out, (uint32_t)i);
    out->set = (struct series_set){labels, n};
    return rc;
}

/* ---- all of it ---- */

static enum otl_err find_stored(struct selecting *x, struct otl_error *err)
{
    struct series_list ids = {0};
    enum otl_err rc =
        matchers_select(x->q, &x->matchers, x->variants, x->n_variants, x->all, &ids, err);

    for (size_t i = 0; i < ids.n && rc == OTL_OK; i++) {
        rc = i % 256 == 0 ? read_check(x->q->r, err) : OTL_OK;
        if (rc == OTL_OK)
            rc = add_stored(x, ids.ids[i], err);
    }
    (void)!read_charge(x->q->r, -(int64_t)(ids.cap * sizeof(*ids.ids)), NULL);
    series_list_fini(&ids);
    return rc;
}

static enum otl_err select_series(struct selecting *x, const struct label_matcher *m, size_t n,
                                  bool exact, struct otl_error *err)
{
    struct querier *q = x->q;
    enum otl_err rc = matchers_compile(m, n, &x->matchers, err);

    if (rc == OTL_OK)
        rc = matchers_pick(q, &x->matchers, &x->variants, &x->n_variants, &x->all, err);
    if (rc == OTL_OK) {
        x->names = arena_zalloc(q->arena, (size_t)x->n_variants * VARIANTS + 1, sizeof(*x->names));
        if (x->names == NULL)
            rc = querier_arena_failed(q->arena, err);
    }
    if (rc == OTL_OK)
        rc = find_stored(x, err);
    for (int k = 0; k <= KIND_SUMMARY && rc == OTL_OK && exact; k++)
        rc = drop_absent(x, (enum series_kind)k, err);
    if (rc == OTL_OK) {
        x->bounds = calloc(x->n_found + 1, sizeof(*x->bounds));
        if (x->bounds == NULL)
            rc = querier_no_memory(err);
    }
    if (rc == OTL_OK)
        rc = find_bounds(x, KIND_HISTOGRAM, VARIANT_BUCKET, err);
    if (rc == OTL_OK)
        rc = find_bounds(x, KIND_EXPONENTIAL, VARIANT_BUCKET, err);
    if (rc == OTL_OK)
        rc = find_bounds(x, KIND_SUMMARY, VARIANT_PLAIN, err);
    if (rc == OTL_OK)
        rc = add_sources(x, err);
    if (rc == OTL_OK)
        rc = querier_targets(q, &x->matchers, x->from_ms, x->to_ms, add_target, x, err);
    return rc == OTL_OK ? make_set(x, err) : rc;
}

enum otl_err querier_select(struct querier *q, const struct label_matcher *m, size_t n,
                            int64_t from_ms, int64_t to_ms, bool exact,
                            const struct series_set **out, struct otl_error *err)
{
    struct selecting x = {.q = q, .from_ms = from_ms, .to_ms = to_ms};
    enum otl_err rc;

    x.out = calloc(1, sizeof(*x.out));
    if (x.out == NULL)
        return querier_no_memory(err);
    x.out->next = q->sets; /* freed with the querier, whatever comes */
    q->sets = x.out;
    rc = select_series(&x, m, n, exact, err);
    matchers_fini(&x.matchers);
    free(x.variants);
    free(x.found);
    free(x.bounds);
    free(x.candidates);
    if (rc == OTL_OK)
        *out = &x.out->set;
    return rc;
}
