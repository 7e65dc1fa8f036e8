#include "dict.h"

#include <stdlib.h>

enum { FIRST_SLOTS = 64, FIRST_ENTRIES = 32, FIRST_BLOCK = 4096, MAX_BLOCK = 1 << 20 };

struct dict_block {
    struct dict_block *before;
    size_t used, cap;
    uint8_t bytes[];
};

static uint32_t hash_of(int64_t parent, struct bytes key)
{
    uint64_t hash = bytes_hash(key, (uint64_t)parent);

    return (uint32_t)(hash >> 32);
}

void dict_fini(struct dict *d)
{
    while (d->blocks != NULL) {
        struct dict_block *before = d->blocks->before;

        free(d->blocks);
        d->blocks = before;
    }
    free(d->entries);
    free(d->slots);
    *d = (struct dict){0};
}

uint32_t dict_find(const struct dict *d, int64_t parent, struct bytes key)
{
    uint32_t hash = hash_of(parent, key);
    uint32_t mask = d->n_slots - 1;

    if (d->n_slots == 0)
        return DICT_NONE;
    for (uint32_t i = hash & mask; d->slots[i].entry != 0; i = (i + 1) & mask) {
        const struct dict_entry *e;

        if (d->slots[i].hash != hash)
            continue;
        e = &d->entries[d->slots[i].entry - 1];
        if (e->parent == parent && bytes_equal(dict_key(e), key))
            return d->slots[i].entry - 1;
    }
    return DICT_NONE;
}

static void put_slot(struct dict *d, uint32_t entry)
{
    uint32_t hash = d->entries[entry].hash;
    uint32_t mask = d->n_slots - 1;
    uint32_t i = hash & mask;

    while (d->slots[i].entry != 0)
        i = (i + 1) & mask;
    d->slots[i] = (struct dict_slot){entry + 1, hash};
}

/* Room for one more entry, with at most three quarters of the slots in use. */
static bool grow(struct dict *d)
{
    if (d->n == d->cap) {
        uint32_t cap = d->cap == 0 ? FIRST_ENTRIES : d->cap + d->cap / 2;
        struct dict_entry *p;

        if (cap > UINT32_MAX / 4)
            return false;
        p = realloc(d->entries, cap * sizeof(*p));
        if (p == NULL)
            return false;
        d->entries = p;
        d->cap = cap;
    }
    if ((uint64_t)(d->n + 1) * 4 >= (uint64_t)d->n_slots * 3) {
        uint32_t n_slots = d->n_slots == 0 ? FIRST_SLOTS : d->n_slots * 2;
        struct dict_slot *old = d->slots;
        struct dict_slot *p = calloc(n_slots, sizeof(*p));

        if (p == NULL)
            return false;
        d->slots = p;
        d->n_slots = n_slots;
        /* In order of entries: dict_truncate counts on an entry's place being decided by earlier
         * entries only. */
        for (uint32_t i = 0; i < d->n; i++)
            put_slot(d, i);
        free(old);
    }
    return true;
}

/* A copy of key behind all others, or NULL. Blocks double, so that a small dictionary stays small
 * and a large one has few. */
static const uint8_t *copy_key(struct dict *d, struct bytes key)
{
    struct dict_block *b = d->blocks;
    uint8_t *copy;

    if (b == NULL || key.n > b->cap - b->used) {
        size_t cap = b == NULL ? FIRST_BLOCK : b->cap < MAX_BLOCK / 2 ? b->cap * 2 : MAX_BLOCK;

        if (cap < key.n)
            cap = key.n;
        b = malloc(sizeof(*b) + cap);
        if (b == NULL)
            return NULL;
        b->before = d->blocks;
        b->used = 0;
        b->cap = cap;
        d->blocks = b;
    }
    copy = b->bytes + b->used;
    if (key.n > 0)
        memcpy(copy, key.p, key.n);
    b->used += key.n;
    return copy;
}

/* Give back the newest key. A block goes with its first key; one that only ever held empty keys
 * stays. */
static void drop_key(struct dict *d, size_t n)
{
    struct dict_block *b = d->blocks;

    if (n == 0)
        return;
    b->used -= n;
    if (b->used == 0) {
        d->blocks = b->before;
        free(b);
    }
}

uint32_t dict_add(struct dict *d, int64_t id, int64_t parent, struct bytes key,
                  union dict_note note)
{
    const uint8_t *copy;

    if (key.n > UINT32_MAX || !grow(d))
        return DICT_NONE;
    copy = copy_key(d, key);
    if (copy == NULL)
        return DICT_NONE;
    d->entries[d->n] = (struct dict_entry){.id = id,
                                           .parent = parent,
                                           .key = copy,
                                           .key_n = (uint32_t)key.n,
                                           .hash = hash_of(parent, key),
                                           .note = note};
    put_slot(d, d->n);
    return d->n++;
}

void dict_truncate(struct dict *d, uint32_t n)
{
    uint32_t mask = d->n_slots - 1;

    while (d->n > n) {
        struct dict_entry *e = &d->entries[--d->n];
        uint32_t i = e->hash & mask;

        /* The newest entry is the last of every probe sequence it is in, so emptying its slot
         * breaks no other's. */
        while (d->slots[i].entry != d->n + 1)
            i = (i + 1) & mask;
        d->slots[i] = (struct dict_slot){0, 0};
        drop_key(d, e->key_n);
    }
}

uint32_t dict_find_id(const struct dict *d, int64_t id)
{
    uint32_t lo = 0, hi = d->n;

    /* Ids are nearly always dense. */
    if (d->n > 0 && id >= d->entries[0].id && id - d->entries[0].id < (int64_t)d->n) {
        uint32_t guess = (uint32_t)(id - d->entries[0].id);

        if (d->entries[guess].id == id)
            return guess;
    }
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (d->entries[mid].id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < d->n && d->entries[lo].id == id ? lo : DICT_NONE;
}
