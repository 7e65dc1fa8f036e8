/* querier_labels.c -- the labels of a stored series, by P-20 to P-28: its attributes, promoted
 * resource attributes, job and instance, the scope. Later ones take precedence, promoted ones do
 * not. Made once and kept by series, as making them costs about a microsecond an attribute. */
#include <stdlib.h>

#include "querier_internal.h"

/* ---- the builder ---- */

void label_builder_fini(struct label_builder *b)
{
    buf_fini(&b->text);
    free(b->places);
    *b = (struct label_builder){0};
}

void label_builder_reset(struct label_builder *b)
{
    buf_reset(&b->text);
    b->n = 0;
    b->failed = false;
}

static struct bytes name_of(const struct label_builder *b, size_t i)
{
    return bytes_of(b->text.p + b->places[i].name_at, b->places[i].name_n);
}

static bool push(struct label_builder *b, struct label_place p)
{
    if (b->n == b->cap) {
        size_t cap = b->cap == 0 ? 16 : 2 * b->cap;
        struct label_place *more = realloc(b->places, cap * sizeof(*more));

        if (more == NULL) {
            b->failed = true;
            return false;
        }
        b->places = more;
        b->cap = cap;
    }
    b->places[b->n++] = p;
    return true;
}

void label_builder_set(struct label_builder *b, struct bytes name, struct bytes value)
{
    struct label_place p = {b->text.n, name.n, b->text.n + name.n, value.n};

    buf_add_bytes(&b->text, name);
    buf_add_bytes(&b->text, value);
    (void)push(b, p);
}

void label_value_text(const struct attr_value *v, struct buf *out)
{
    if (v->kind == ATTR_STRING)
        buf_add_bytes(out, v->s);
    else if (v->kind != ATTR_EMPTY)
        attr_value_to_text(v, out);
}

/* Where the name of the label that was begun at `at` stands already, before place `end`. */
static size_t find_name(const struct label_builder *b, size_t end, struct bytes name)
{
    for (size_t i = 0; i < end; i++) {
        if (bytes_equal(name_of(b, i), name))
            return i;
    }
    return SIZE_MAX;
}

/* The value of place `to` becomes "value;more": anew at the end of the text. */
static void join(struct label_builder *b, size_t to, struct bytes more)
{
    struct label_place *p = &b->places[to];
    size_t at = b->text.n;

    if (!buf_reserve(&b->text, p->value_n + 1))
        return;
    buf_add(&b->text, b->text.p + p->value_at, p->value_n);
    buf_add_char(&b->text, ';');
    buf_add_bytes(&b->text, more);
    p->value_at = at;
    p->value_n += 1 + more.n;
}

void label_builder_attributes(struct label_builder *b, enum name_strategy strategy,
                              struct bytes canonical, bool only_free,
                              bool (*wanted)(const void *arg, struct bytes key), const void *arg)
{
    size_t others = b->n; /* labels that were there before */
    struct buf value = {0};
    struct attr_iter it;
    struct attr_value v;
    struct bytes key;

    attrs_begin(&it, canonical);
    while (attrs_next(&it, &key, &v)) {
        struct label_place p = {.name_at = b->text.n};
        size_t same;

        if ((wanted != NULL && !wanted(arg, key)) || !prom_label_name(&b->text, strategy, key) ||
            b->text.failed)
            continue;
        p.name_n = b->text.n - p.name_at;
        same = find_name(b, b->n, bytes_of(b->text.p + p.name_at, p.name_n));
        if (bytes_equal(bytes_of(b->text.p + p.name_at, p.name_n), bytes_str(LABEL_NAME)) ||
            (only_free && same < others))
            continue;
        buf_reset(&value);
        label_value_text(&v, &value);
        if (same != SIZE_MAX && same >= others) {
            if (!only_free)
                join(b, same, buf_bytes(&value));
            continue;
        }
        p.value_at = b->text.n;
        p.value_n = value.n;
        buf_add_bytes(&b->text, buf_bytes(&value));
        (void)push(b, p);
    }
    b->failed = b->failed || value.failed;
    buf_fini(&value);
}

enum otl_err label_builder_take(struct label_builder *b, struct arena *a, struct labels *out,
                                struct otl_error *err)
{
    struct label *l;
    uint8_t *text;

    if (b->failed || b->text.failed)
        return querier_no_memory(err);
    l = arena_alloc(a, b->n * sizeof(*l) + b->text.n);
    if (l == NULL)
        return querier_arena_failed(a, err);
    text = (uint8_t *)(l + b->n);
    if (b->text.n > 0)
        memcpy(text, b->text.p, b->text.n);
    for (size_t i = 0; i < b->n; i++) {
        const struct label_place *p = &b->places[i];

        l[i] = (struct label){bytes_of(text + p->name_at, p->name_n),
                              bytes_of(text + p->value_at, p->value_n)};
    }
    *out = (struct labels){l, labels_normalise(l, b->n)};
    return OTL_OK;
}

/* ---- what stored series have ---- */

void label_builder_target(struct label_builder *b, struct bytes resource_attributes)
{
    struct attr_value name, v;
    struct buf text = {0};

    if (attrs_get(resource_attributes, bytes_str("service.name"), &name)) {
        if (attrs_get(resource_attributes, bytes_str("service.namespace"), &v)) {
            label_value_text(&v, &text);
            buf_add_char(&text, '/');
        }
        label_value_text(&name, &text);
        label_builder_set(b, bytes_str("job"), buf_bytes(&text));
    }
    if (attrs_get(resource_attributes, bytes_str("service.instance.id"), &v)) {
        buf_reset(&text);
        label_value_text(&v, &text);
        label_builder_set(b, bytes_str("instance"), buf_bytes(&text));
    }
    b->failed = b->failed || text.failed;
    buf_fini(&text);
}

bool is_promoted(const struct querier_opts *o, struct bytes key)
{
    if (o->promote_all)
        return true;
    for (size_t i = 0; o->promote != NULL && o->promote[i] != NULL; i++) {
        if (bytes_equal(bytes_str(o->promote[i]), key))
            return true;
    }
    return false;
}

static bool promoted(const void *arg, struct bytes key)
{
    return is_promoted(arg, key);
}

/* Attributes of the scope that would take the place of what the scope has itself are left out
 * (P-26). */
static bool scope_attribute(const void *arg, struct bytes key)
{
    (void)arg;
    return !bytes_equal(key, bytes_str("name")) && !bytes_equal(key, bytes_str("version")) &&
           !bytes_equal(key, bytes_str("schema_url"));
}

/* otel_scope_KEY for each attribute: the prefix is part of what is translated. */
static void add_scope_attributes(struct label_builder *b, enum name_strategy strategy,
                                 struct bytes canonical)
{
    struct buf key = {0}, name = {0}, value = {0};
    struct attr_iter it;
    struct attr_value v;
    struct bytes k;

    attrs_begin(&it, canonical);
    while (attrs_next(&it, &k, &v)) {
        if (!scope_attribute(NULL, k))
            continue;
        buf_reset(&key);
        buf_reset(&name);
        buf_reset(&value);
        buf_add_str(&key, "otel_scope_");
        buf_add_bytes(&key, k);
        if (!prom_label_name(&name, strategy, buf_bytes(&key)))
            continue;
        label_value_text(&v, &value);
        label_builder_set(b, buf_bytes(&name), buf_bytes(&value));
    }
    b->failed = b->failed || key.failed || name.failed || value.failed;
    buf_fini(&key);
    buf_fini(&name);
    buf_fini(&value);
}

static enum otl_err add_scope(struct querier *q, const struct series_info *s, struct otl_error *err)
{
    struct label_builder *b = &q->builder;

    if (s->scope_name.n == 0)
        return OTL_OK;
    if (q->scope_id != s->scope_id) {
        enum otl_err rc;

        q->scope_id = 0;
        rc = read_scope(q->r, s->scope_id, &q->scope_text, &q->scope, err);
        if (rc != OTL_OK)
            return rc;
        q->scope_id = s->scope_id;
    }
    label_builder_set(b, bytes_str("otel_scope_name"), q->scope.name);
    label_builder_set(b, bytes_str("otel_scope_version"), q->scope.version);
    label_builder_set(b, bytes_str("otel_scope_schema_url"), q->scope.schema_url);
    add_scope_attributes(b, q->shared->opts.strategy, q->scope.attributes);
    return OTL_OK;
}

static enum otl_err build(struct querier *q, const struct series_info *s, struct labels *out,
                          struct otl_error *err)
{
    const struct querier_opts *o = &q->shared->opts;
    struct label_builder *b = &q->builder;
    enum otl_err rc = OTL_OK;

    label_builder_reset(b);
    label_builder_attributes(b, o->strategy, s->attributes, false, NULL, NULL);
    if (o->promote_all || (o->promote != NULL && o->promote[0] != NULL))
        label_builder_attributes(b, o->strategy, s->resource_attributes, true, promoted, o);
    label_builder_target(b, s->resource_attributes);
    if (o->scope_labels)
        rc = add_scope(q, s, err);
    return rc == OTL_OK ? label_builder_take(b, q->arena, out, err) : rc;
}

/* ---- the cache ---- */

enum { CACHE_SHARDS = 16, CACHE_FIRST_SLOTS = 64 };

/* Places and texts in one allocation: names and values one after the other, in the order of labels.
 */
struct kept_labels {
    int64_t id;
    uint32_t family, n, text_n;
    uint32_t sizes[]; /* name, value, name, value, ... then the text */
};

struct cache_shard {
    pthread_mutex_t mu;
    struct kept_labels **slots;
    size_t n, n_slots, bytes;
};

struct label_cache {
    size_t shard_bytes;
    struct cache_shard shards[CACHE_SHARDS];
};

static size_t kept_bytes(size_t n, size_t text_n)
{
    return sizeof(struct kept_labels) + 2 * n * sizeof(uint32_t) + text_n;
}

struct label_cache *label_cache_new(size_t max_bytes)
{
    struct label_cache *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return NULL;
    c->shard_bytes = max_bytes / CACHE_SHARDS;
    for (int i = 0; i < CACHE_SHARDS; i++) {
        if (pthread_mutex_init(&c->shards[i].mu, NULL) != 0) {
            while (i-- > 0)
                pthread_mutex_destroy(&c->shards[i].mu);
            free(c);
            return NULL;
        }
    }
    return c;
}

static void shard_clear(struct cache_shard *s)
{
    for (size_t i = 0; i < s->n_slots; i++)
        free(s->slots[i]);
    free(s->slots);
    s->slots = NULL;
    s->n = s->n_slots = s->bytes = 0;
}

void label_cache_free(struct label_cache *c)
{
    if (c == NULL)
        return;
    for (int i = 0; i < CACHE_SHARDS; i++) {
        shard_clear(&c->shards[i]);
        pthread_mutex_destroy(&c->shards[i].mu);
    }
    free(c);
}

size_t label_cache_bytes(struct label_cache *c)
{
    size_t n = 0;

    for (int i = 0; i < CACHE_SHARDS; i++) {
        pthread_mutex_lock(&c->shards[i].mu);
        n += c->shards[i].bytes;
        pthread_mutex_unlock(&c->shards[i].mu);
    }
    return n;
}

static uint64_t id_hash(int64_t id)
{
    return (uint64_t)id * UINT64_C(0x9e3779b97f4a7c15);
}

static struct cache_shard *shard_of(struct label_cache *c, int64_t id)
{
    return &c->shards[id_hash(id) >> 60];
}

static size_t shard_slot(const struct cache_shard *s, int64_t id)
{
    size_t at = (size_t)(id_hash(id) >> 20) & (s->n_slots - 1);

    while (s->slots[at] != NULL && s->slots[at]->id != id)
        at = (at + 1) & (s->n_slots - 1);
    return at;
}

static enum otl_err unpack(const struct kept_labels *k, struct arena *a, struct labels *out,
                           struct otl_error *err)
{
    struct label *l = arena_alloc(a, k->n * sizeof(*l) + k->text_n);
    uint8_t *text;

    if (l == NULL)
        return querier_arena_failed(a, err);
    text = (uint8_t *)(l + k->n);
    memcpy(text, &k->sizes[2 * k->n], k->text_n);
    for (uint32_t i = 0; i < k->n; i++) {
        l[i].name = bytes_of(text, k->sizes[2 * i]);
        text += k->sizes[2 * i];
        l[i].value = bytes_of(text, k->sizes[2 * i + 1]);
        text += k->sizes[2 * i + 1];
    }
    *out = (struct labels){l, k->n};
    return OTL_OK;
}

enum otl_err label_cache_get(struct label_cache *c, int64_t id, struct arena *a, bool *found,
                             uint32_t *family, struct labels *out, struct otl_error *err)
{
    struct cache_shard *s = shard_of(c, id);
    enum otl_err rc = OTL_OK;

    *found = false;
    pthread_mutex_lock(&s->mu);
    if (s->n_slots > 0) {
        const struct kept_labels *k = s->slots[shard_slot(s, id)];

        if (k != NULL) {
            *found = true;
            *family = k->family;
            rc = unpack(k, a, out, err);
        }
    }
    pthread_mutex_unlock(&s->mu);
    return rc;
}

static bool shard_grow(struct cache_shard *s)
{
    size_t n = s->n_slots == 0 ? CACHE_FIRST_SLOTS : 2 * s->n_slots, old_n = s->n_slots;
    struct kept_labels **old = s->slots, **slots;

    if (2 * (s->n + 1) <= s->n_slots)
        return true;
    slots = calloc(n, sizeof(*slots));
    if (slots == NULL)
        return false;
    s->slots = slots;
    s->n_slots = n;
    for (size_t i = 0; i < old_n; i++) {
        if (old[i] != NULL)
            slots[shard_slot(s, old[i]->id)] = old[i];
    }
    free(old);
    return true;
}

void label_cache_put(struct label_cache *c, int64_t id, uint32_t family, struct labels l)
{
    struct cache_shard *s = shard_of(c, id);
    struct kept_labels *k;
    size_t text_n = 0, bytes, at;
    uint8_t *text;

    for (size_t i = 0; i < l.n; i++)
        text_n += l.l[i].name.n + l.l[i].value.n;
    bytes = kept_bytes(l.n, text_n);
    if (text_n > UINT32_MAX || l.n > UINT32_MAX / 2 || bytes > c->shard_bytes / 4)
        return;
    k = malloc(bytes);
    if (k == NULL)
        return;
    *k = (struct kept_labels){id, family, (uint32_t)l.n, (uint32_t)text_n};
    text = (uint8_t *)&k->sizes[2 * l.n];
    for (size_t i = 0; i < l.n; i++) {
        k->sizes[2 * i] = (uint32_t)l.l[i].name.n;
        k->sizes[2 * i + 1] = (uint32_t)l.l[i].value.n;
        memcpy(text, l.l[i].name.p, l.l[i].name.n);
        text += l.l[i].name.n;
        memcpy(text, l.l[i].value.p, l.l[i].value.n);
        text += l.l[i].value.n;
    }
    bytes += 2 * sizeof(void *);
    pthread_mutex_lock(&s->mu);
    /* What is still wanted is soon made again. */
    if (s->bytes + bytes > c->shard_bytes)
        shard_clear(s);
    if (shard_grow(s)) {
        at = shard_slot(s, id);
        if (s->slots[at] == NULL) {
            s->slots[at] = k;
            s->n++;
            s->bytes += bytes;
            k = NULL;
        }
    }
    pthread_mutex_unlock(&s->mu);
    free(k);
}

enum otl_err series_base_labels(struct querier *q, const struct series_info *s, uint32_t *family,
                                struct labels *out, struct otl_error *err)
{
    struct label_cache *c = q->shared->labels;
    bool found;
    enum otl_err rc = label_cache_get(c, s->id, q->arena, &found, family, out, err);

    if (rc != OTL_OK || found)
        return rc;
    *family = family_table_find(&q->shared->families, s);
    rc = build(q, s, out, err);
    if (rc == OTL_OK && *family != FAMILY_NONE)
        label_cache_put(c, s->id, *family, *out);
    return rc;
}

enum otl_err labels_complete(struct arena *a, struct labels base, struct bytes metric_name,
                             struct label extra, struct labels *out, struct otl_error *err)
{
    struct label *l = arena_alloc(a, (base.n + 2) * sizeof(*l));
    struct label name = {bytes_str(LABEL_NAME), metric_name};
    bool has_name = false, has_extra = extra.name.n == 0;
    size_t n = 0;

    if (l == NULL)
        return querier_arena_failed(a, err);
    for (size_t i = 0; i < base.n; i++) {
        if (!has_name && bytes_compare(base.l[i].name, name.name) > 0) {
            l[n++] = name;
            has_name = true;
        }
        if (!has_extra && bytes_compare(base.l[i].name, extra.name) >= 0) {
            l[n++] = extra;
            has_extra = true;
            if (bytes_equal(base.l[i].name, extra.name))
                continue;
        }
        l[n++] = base.l[i];
    }
    if (!has_name)
        l[n++] = name;
    if (!has_extra)
        l[n++] = extra;
    *out = (struct labels){l, n};
    return OTL_OK;
}
