/* querier_names.c -- families: the distinct metrics of the store and all their names. */
#include <stdlib.h>

#include "querier_internal.h"

bool family_table_init(struct family_table *t)
{
    memset(t, 0, sizeof(*t));
    return pthread_rwlock_init(&t->lock, NULL) == 0;
}

static void family_free(struct family *f)
{
    if (f == NULL)
        return;
    for (int i = 0; i < NAME_STRATEGIES; i++)
        free((void *)(uintptr_t)f->names[i].p);
    free((void *)(uintptr_t)f->name.p);
    free((void *)(uintptr_t)f->unit.p);
    free(f);
}

void family_table_fini(struct family_table *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        family_free(t->families[i]);
    free(t->families);
    free(t->slots);
    pthread_rwlock_destroy(&t->lock);
}

static uint64_t family_hash(int64_t project_id, enum metric_type type, bool is_monotonic,
                            struct bytes name, struct bytes unit)
{
    uint64_t seed = (uint64_t)project_id * 16 + (uint64_t)type * 2 + (is_monotonic ? 1 : 0);

    return bytes_hash(unit, bytes_hash(name, seed));
}

/* The slot of that family, or the empty one where it would be. */
static uint32_t find_slot(const struct family_table *t, uint64_t hash, int64_t project_id,
                          enum metric_type type, bool is_monotonic, struct bytes name,
                          struct bytes unit)
{
    uint32_t at = (uint32_t)hash & (t->n_slots - 1);

    for (; t->slots[at] != 0; at = (at + 1) & (t->n_slots - 1)) {
        const struct family *f = t->families[t->slots[at] - 1];

        if (f->hash == hash && f->project_id == project_id && f->type == type &&
            f->is_monotonic == is_monotonic && bytes_equal(f->name, name) &&
            bytes_equal(f->unit, unit))
            break;
    }
    return at;
}

/* Room for one more, and the slots at most half full. */
static bool grow(struct family_table *t)
{
    if (t->n == t->cap) {
        uint32_t cap = t->cap == 0 ? 64 : 2 * t->cap;
        struct family **more = realloc(t->families, cap * sizeof(*more));

        if (more == NULL)
            return false;
        t->families = more;
        t->cap = cap;
    }
    if (2 * (t->n + 1) > t->n_slots) {
        uint32_t n = t->n_slots == 0 ? 128 : 2 * t->n_slots;
        uint32_t *slots = calloc(n, sizeof(*slots));

        if (slots == NULL)
            return false;
        for (uint32_t i = 0; i < t->n; i++) {
            uint32_t at = (uint32_t)t->families[i]->hash & (n - 1);

            while (slots[at] != 0)
                at = (at + 1) & (n - 1);
            slots[at] = i + 1;
        }
        free(t->slots);
        t->slots = slots;
        t->n_slots = n;
    }
    return true;
}

static bool copy(struct bytes in, struct bytes *out)
{
    uint8_t *p = malloc(in.n + 1);

    if (p == NULL)
        return false;
    if (in.n > 0)
        memcpy(p, in.p, in.n);
    *out = bytes_of(p, in.n);
    return true;
}

static struct family *family_new(const struct metric_info *m, uint64_t hash)
{
    struct family *f = calloc(1, sizeof(*f));
    struct buf b = {0};
    bool ok = f != NULL && copy(m->name, &f->name) && copy(m->unit, &f->unit);

    for (int i = 0; i < NAME_STRATEGIES && ok; i++) {
        buf_reset(&b);
        (void)prom_metric_name(&b, (enum name_strategy)i, m->name, m->unit, m->type,
                               m->is_monotonic);
        ok = !b.failed && copy(buf_bytes(&b), &f->names[i]);
    }
    buf_fini(&b);
    if (!ok) {
        family_free(f);
        return NULL;
    }
    f->names[NAME_STRATEGIES] = f->name;
    f->project_id = m->project_id;
    f->type = m->type;
    f->is_monotonic = m->is_monotonic;
    f->hash = hash;
    f->metric_id = m->id;
    return f;
}

static enum otl_err add_metric(void *arg, const struct metric_info *m, struct otl_error *err)
{
    struct family_table *t = arg;
    uint64_t hash = family_hash(m->project_id, m->type, m->is_monotonic, m->name, m->unit);
    enum otl_err rc = OTL_OK;
    struct family *f = NULL;
    uint32_t at;

    pthread_rwlock_wrlock(&t->lock);
    if (!grow(t)) {
        rc = querier_no_memory(err);
        goto out;
    }
    at = find_slot(t, hash, m->project_id, m->type, m->is_monotonic, m->name, m->unit);
    if (t->slots[at] != 0) {
        f = t->families[t->slots[at] - 1];
        if (m->id > f->metric_id)
            f->metric_id = m->id;
    } else {
        f = family_new(m, hash);
        if (f == NULL) {
            rc = querier_no_memory(err);
            goto out;
        }
        t->families[t->n++] = f;
        t->slots[at] = t->n;
    }
    if (m->id > t->last_metric)
        t->last_metric = m->id;
out:
    pthread_rwlock_unlock(&t->lock);
    return rc;
}

enum otl_err family_table_refresh(struct family_table *t, struct read *r, struct otl_error *err)
{
    int64_t last;

    pthread_rwlock_rdlock(&t->lock);
    last = t->last_metric;
    pthread_rwlock_unlock(&t->lock);
    /* Another thread may add the same ones: they are found then. */
    return read_metrics(r, last, add_metric, t, err);
}

uint32_t family_table_find(struct family_table *t, const struct series_info *s)
{
    uint64_t hash = family_hash(s->project_id, s->type, s->is_monotonic, s->name, s->unit);
    uint32_t i = FAMILY_NONE;

    pthread_rwlock_rdlock(&t->lock);
    if (t->n_slots > 0) {
        uint32_t at = find_slot(t, hash, s->project_id, s->type, s->is_monotonic, s->name, s->unit);

        i = t->slots[at] == 0 ? FAMILY_NONE : t->slots[at] - 1;
    }
    pthread_rwlock_unlock(&t->lock);
    return i;
}

const struct family *family_table_get(struct family_table *t, uint32_t i)
{
    const struct family *f;

    pthread_rwlock_rdlock(&t->lock);
    f = t->families[i];
    pthread_rwlock_unlock(&t->lock);
    return f;
}

int64_t family_table_metric(struct family_table *t, uint32_t i)
{
    int64_t id;

    pthread_rwlock_rdlock(&t->lock);
    id = t->families[i]->metric_id;
    pthread_rwlock_unlock(&t->lock);
    return id;
}

uint32_t family_table_size(struct family_table *t)
{
    uint32_t n;

    pthread_rwlock_rdlock(&t->lock);
    n = t->n;
    pthread_rwlock_unlock(&t->lock);
    return n;
}

unsigned family_variants(const struct family *f, bool classic_from_exponential)
{
    const unsigned classic = 1u << VARIANT_BUCKET | 1u << VARIANT_SUM | 1u << VARIANT_COUNT;

    switch (f->type) {
    case METRIC_HISTOGRAM:
        return classic;
    case METRIC_EXPONENTIAL_HISTOGRAM:
        return 1u << VARIANT_PLAIN | (classic_from_exponential ? classic : 0);
    case METRIC_SUMMARY:
        return 1u << VARIANT_PLAIN | 1u << VARIANT_SUM | 1u << VARIANT_COUNT;
    case METRIC_GAUGE:
    case METRIC_SUM:
        break;
    }
    return 1u << VARIANT_PLAIN;
}

const char *variant_suffix(enum variant v)
{
    static const char *const suffixes[VARIANTS] = {"", "_bucket", "_sum", "_count"};

    return suffixes[v];
}
