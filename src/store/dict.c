#include "dict.h"

#include <stdlib.h>

enum { FIRST_SLOTS = 64, FIRST_ENTRIES = 32 };

static uint32_t tag_of(uint64_t hash)
{
    return (uint32_t)(hash >> 32);
}

void dict_fini(struct dict *d)
{
    for (uint32_t i = 0; i < d->n; i++)
        free(d->entries[i].key);
    free(d->entries);
    free(d->slots);
    *d = (struct dict){0};
}

uint32_t dict_find(const struct dict *d, int64_t parent, struct bytes key)
{
    uint64_t hash = bytes_hash(key, (uint64_t)parent);
    uint32_t mask = d->n_slots - 1;

    if (d->n_slots == 0)
        return DICT_NONE;
    for (uint32_t i = (uint32_t)hash & mask; d->slots[i].entry != 0; i = (i + 1) & mask) {
        const struct dict_entry *e;

        if (d->slots[i].tag != tag_of(hash))
            continue;
        e = &d->entries[d->slots[i].entry - 1];
        if (e->hash == hash && e->parent == parent && bytes_equal(bytes_of(e->key, e->key_n), key))
            return d->slots[i].entry - 1;
    }
    return DICT_NONE;
}

static void put_slot(struct dict *d, uint32_t entry)
{
    uint64_t hash = d->entries[entry].hash;
    uint32_t mask = d->n_slots - 1;
    uint32_t i = (uint32_t)hash & mask;

    while (d->slots[i].entry != 0)
        i = (i + 1) & mask;
    d->slots[i] = (struct dict_slot){entry + 1, tag_of(hash)};
}

/* Room for one more entry, with at most half of the slots in use. */
static bool grow(struct dict *d)
{
    if (d->n == d->cap) {
        uint32_t cap = d->cap == 0 ? FIRST_ENTRIES : d->cap * 2;
        struct dict_entry *p;

        if (cap > UINT32_MAX / 4)
            return false;
        p = realloc(d->entries, cap * sizeof(*p));
        if (p == NULL)
            return false;
        d->entries = p;
        d->cap = cap;
    }
    if ((uint64_t)(d->n + 1) * 2 >= d->n_slots) {
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

uint32_t dict_add(struct dict *d, int64_t id, int64_t parent, struct bytes key,
                  union dict_note note)
{
    uint8_t *copy;

    if (!grow(d))
        return DICT_NONE;
    copy = malloc(key.n == 0 ? 1 : key.n);
    if (copy == NULL)
        return DICT_NONE;
    if (key.n > 0)
        memcpy(copy, key.p, key.n);
    d->entries[d->n] = (struct dict_entry){.id = id,
                                           .parent = parent,
                                           .key = copy,
                                           .key_n = key.n,
                                           .hash = bytes_hash(key, (uint64_t)parent),
                                           .note = note};
    put_slot(d, d->n);
    return d->n++;
}

void dict_truncate(struct dict *d, uint32_t n)
{
    uint32_t mask = d->n_slots - 1;

    while (d->n > n) {
        struct dict_entry *e = &d->entries[--d->n];
        uint32_t i = (uint32_t)e->hash & mask;

        /* The newest entry is the last of every probe sequence it is in, so emptying its slot
         * breaks no other's. */
        while (d->slots[i].entry != d->n + 1)
            i = (i + 1) & mask;
        d->slots[i] = (struct dict_slot){0, 0};
        free(e->key);
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
