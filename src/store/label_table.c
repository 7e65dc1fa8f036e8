#include "label_table.h"

#include <stdlib.h>

/* ---- memory ---- */

struct label_block {
    struct label_block *before;
    size_t used, size;
    _Alignas(8) uint8_t data[];
};

/* A block of the index of a small file; the next ones are as large as what is there, up to 1 MiB.
 */
enum { BLOCK_MIN = 4096, BLOCK_MAX = 1 << 20 };

void label_memory_fini(struct label_memory *m)
{
    while (m->blocks != NULL) {
        struct label_block *before = m->blocks->before;

        free(m->blocks);
        m->blocks = before;
    }
    *m = (struct label_memory){0};
}

void *label_memory_take(struct label_memory *m, size_t n)
{
    struct label_block *b = m->blocks;
    size_t used;

    if (n > SIZE_MAX / 2)
        return NULL;
    n = (n + 7) & ~(size_t)7;
    if (b == NULL || b->size - b->used < n) {
        size_t size = m->bytes < BLOCK_MIN ? BLOCK_MIN : m->bytes;

        if (size > BLOCK_MAX)
            size = BLOCK_MAX;
        if (size < n)
            size = n;
        b = malloc(sizeof(*b) + size);
        if (b == NULL)
            return NULL;
        b->used = 0;
        b->size = size;
        b->before = m->blocks;
        m->blocks = b;
        m->bytes += sizeof(*b) + size;
    }
    used = b->used;
    b->used += n;
    return b->data + used;
}

bool label_memory_keep(struct label_memory *m, struct bytes s, struct bytes *out)
{
    uint8_t *p;

    if (s.n == 0) {
        *out = bytes_of("", 0);
        return true;
    }
    p = label_memory_take(m, s.n);
    if (p == NULL)
        return false;
    memcpy(p, s.p, s.n);
    *out = bytes_of(p, s.n);
    return true;
}

bool label_memory_grow(struct label_memory *m, void **array, size_t size, uint32_t n, uint32_t *cap)
{
    uint64_t want;
    void *p;

    if (n < *cap)
        return true;
    /* Half as much again: lists of a million numbers are what the memory goes to. */
    want = n < 4 ? 4 : (uint64_t)n + n / 2;
    if (want > UINT32_MAX - 1)
        want = UINT32_MAX - 1;
    if (want <= n || want > SIZE_MAX / size)
        return false;
    p = realloc(*array, (size_t)want * size);
    if (p == NULL)
        return false;
    m->bytes += ((size_t)want - *cap) * size;
    *array = p;
    *cap = (uint32_t)want;
    return true;
}

/* ---- posting lists ---- */

bool postings_add(struct postings *p, uint32_t id, struct label_memory *m)
{
    void *many;
    uint32_t cap;

    if (p->n > 0 && postings_ids(p)[p->n - 1] == id)
        return true;
    if (p->cap == 0 && p->n < POSTINGS_FEW) {
        p->u.few[p->n++] = id;
        return true;
    }
    cap = p->cap;
    if (cap == 0) {
        many = NULL;
        if (!label_memory_grow(m, &many, sizeof(uint32_t), POSTINGS_FEW, &cap))
            return false;
        memcpy(many, p->u.few, sizeof(p->u.few));
    } else {
        many = p->u.many;
        if (!label_memory_grow(m, &many, sizeof(uint32_t), p->n, &cap))
            return false;
    }
    p->u.many = many;
    p->cap = cap;
    p->u.many[p->n++] = id;
    return true;
}

void postings_fini(struct postings *p)
{
    if (p->cap > 0)
        free(p->u.many);
    *p = (struct postings){0};
}

/* ---- hash tables of indexes ---- */

static uint32_t hash_of(const struct label_memory *m, struct bytes s)
{
    return (uint32_t)(bytes_hash(s, m->seed) >> 32);
}

/* Few entries are compared one by one, without a table. */
enum { LINEAR = 4 };

/* A table for n entries; hash gives that of entry i. false: no memory. */
static bool slots_reserve(uint32_t **slots, uint32_t *n_slots, uint32_t n, const void *entries,
                          uint32_t (*hash)(const void *entries, uint32_t i), struct label_memory *m)
{
    uint32_t want = *n_slots == 0 ? 16 : *n_slots;
    uint32_t *s;

    if (n < LINEAR)
        return true;
    /* At most three quarters full. */
    while (n >= want - want / 4) {
        if (want > UINT32_MAX / 2)
            return false;
        want *= 2;
    }
    if (want == *n_slots)
        return true;
    s = calloc(want, sizeof(*s));
    if (s == NULL)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = hash(entries, i) & (want - 1);

        while (s[at] != 0)
            at = (at + 1) & (want - 1);
        s[at] = i + 1;
    }
    m->bytes += ((size_t)want - *n_slots) * sizeof(*s);
    free(*slots);
    *slots = s;
    *n_slots = want;
    return true;
}

static void slots_put(uint32_t *slots, uint32_t n_slots, uint32_t hash, uint32_t i)
{
    uint32_t at;

    if (n_slots == 0)
        return;
    at = hash & (n_slots - 1);
    while (slots[at] != 0)
        at = (at + 1) & (n_slots - 1);
    slots[at] = i + 1;
}

/* ---- values of a label ---- */

static uint32_t value_hash(const void *entries, uint32_t i)
{
    return ((const struct label_value *)entries)[i].hash;
}

static bool is_value(const struct label_value *v, uint32_t hash, struct bytes text)
{
    return v->hash == hash && bytes_equal(label_value_text(v), text);
}

static uint32_t find_value(const struct label *l, uint32_t hash, struct bytes text)
{
    if (l->n_slots == 0) {
        for (uint32_t i = 0; i < l->n; i++)
            if (is_value(&l->values[i], hash, text))
                return i;
        return LABEL_NONE;
    }
    for (uint32_t at = hash & (l->n_slots - 1); l->slots[at] != 0; at = (at + 1) & (l->n_slots - 1))
        if (is_value(&l->values[l->slots[at] - 1], hash, text))
            return l->slots[at] - 1;
    return LABEL_NONE;
}

uint32_t label_find(const struct label *l, const struct label_memory *m, struct bytes text)
{
    return find_value(l, hash_of(m, text), text);
}

uint32_t label_add(struct label *l, struct label_memory *m, struct bytes text, bool kept,
                   uint32_t id)
{
    uint32_t hash = hash_of(m, text);
    uint32_t i = find_value(l, hash, text);
    struct label_value *v;
    uint32_t before;

    if (i == LABEL_NONE) {
        void *values = l->values;

        if (text.n > UINT32_MAX || (!kept && !label_memory_keep(m, text, &text)) ||
            !label_memory_grow(m, &values, sizeof(*l->values), l->n, &l->cap))
            return LABEL_NONE;
        l->values = values;
        if (!slots_reserve(&l->slots, &l->n_slots, l->n, l->values, value_hash, m))
            return LABEL_NONE;
        i = l->n++;
        l->values[i] =
            (struct label_value){.text = text.p, .text_n = (uint32_t)text.n, .hash = hash};
        slots_put(l->slots, l->n_slots, hash, i);
    }
    v = &l->values[i];
    before = v->postings.n;
    if (!postings_add(&v->postings, id, m))
        return LABEL_NONE;
    l->n_postings += v->postings.n - before;
    return i;
}

void label_fini(struct label *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        postings_fini(&l->values[i].postings);
    free(l->values);
    free(l->slots);
    *l = (struct label){0};
}

/* ---- labels by key ---- */

static uint32_t key_hash(const void *entries, uint32_t i)
{
    return ((const struct label *)entries)[i].hash;
}

static bool is_label(const struct label *l, uint32_t hash, struct bytes key)
{
    return l->hash == hash && bytes_equal(l->key, key);
}

static uint32_t find_label(const struct label_set *s, uint32_t hash, struct bytes key)
{
    if (s->n_slots == 0) {
        for (uint32_t i = 0; i < s->n; i++)
            if (is_label(&s->labels[i], hash, key))
                return i;
        return LABEL_NONE;
    }
    for (uint32_t at = hash & (s->n_slots - 1); s->slots[at] != 0; at = (at + 1) & (s->n_slots - 1))
        if (is_label(&s->labels[s->slots[at] - 1], hash, key))
            return s->slots[at] - 1;
    return LABEL_NONE;
}

const struct label *label_set_find(const struct label_set *s, const struct label_memory *m,
                                   struct bytes key)
{
    uint32_t i = find_label(s, hash_of(m, key), key);

    return i == LABEL_NONE ? NULL : &s->labels[i];
}

struct label *label_set_get(struct label_set *s, struct label_memory *m, struct bytes key,
                            bool kept, uint32_t *hint)
{
    uint32_t hash, i;
    void *labels;

    if (*hint < s->n && bytes_equal(s->labels[*hint].key, key))
        return &s->labels[*hint];
    hash = hash_of(m, key);
    i = find_label(s, hash, key);
    if (i == LABEL_NONE) {
        labels = s->labels;
        if ((!kept && !label_memory_keep(m, key, &key)) ||
            !label_memory_grow(m, &labels, sizeof(*s->labels), s->n, &s->cap))
            return NULL;
        s->labels = labels;
        if (!slots_reserve(&s->slots, &s->n_slots, s->n, s->labels, key_hash, m))
            return NULL;
        i = s->n++;
        s->labels[i] = (struct label){.key = key, .hash = hash};
        slots_put(s->slots, s->n_slots, hash, i);
    }
    *hint = i;
    return &s->labels[i];
}

void label_set_fini(struct label_set *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        label_fini(&s->labels[i]);
    free(s->labels);
    free(s->slots);
    *s = (struct label_set){0};
}
