/* dict.h -- rows of one catalogue table in memory: (parent id, key bytes) to row id.
 *
 * A hash finds, the full bytes decide (M-16). Entries are numbered 0, 1, 2, ... in the order of
 * their row ids, and leave only from the end, so that undoing a transaction is exact and cheap. A
 * million series are to fit, so keys lie one after the other in blocks and an entry is 48 bytes. */
#ifndef OTLITE_STORE_DICT_H
#define OTLITE_STORE_DICT_H

#include <stdbool.h>
#include <stdint.h>

#include "otlite/bytes.h"

/* What a level keeps beside its identity. */
union dict_note {
    uint64_t resource; /* hash of the columns that are not identity, to notice a change */
    uint64_t scope;    /* dropped_attributes_count */
    struct {
        uint64_t metadata;      /* hash */
        uint32_t description_n; /* length of the description that is stored */
        uint32_t name;          /* entry of the dictionary of names */
    } metric;
    struct {
        int64_t last_time; /* of the series' points; INT64_MIN when it has none */
        uint32_t kind;     /* enum point_kind */
    } series;
    uint64_t metrics; /* names: how many metrics of the scope have the name */
};

struct dict_entry {
    int64_t id;
    int64_t parent;
    const uint8_t *key; /* in a block */
    uint32_t key_n;
    uint32_t hash;
    union dict_note note;
};

struct dict_slot {
    uint32_t entry; /* index + 1; 0: empty */
    uint32_t hash;  /* of the entry */
};

struct dict_block; /* of keys */

/* Zero-initialised is empty. */
struct dict {
    struct dict_entry *entries;
    uint32_t n, cap;
    struct dict_slot *slots;
    uint32_t n_slots;          /* 0 or a power of two, more than 4/3 of n */
    struct dict_block *blocks; /* the newest, which links to the one before */
};

#define DICT_NONE UINT32_MAX

void dict_fini(struct dict *d);
uint32_t dict_find(const struct dict *d, int64_t parent, struct bytes key);
/* Copies key. id must be greater than every id so far. DICT_NONE: no memory, nothing changed. */
uint32_t dict_add(struct dict *d, int64_t id, int64_t parent, struct bytes key,
                  union dict_note note);
/* Drop the entries from n on. */
void dict_truncate(struct dict *d, uint32_t n);
uint32_t dict_find_id(const struct dict *d, int64_t id);

static inline struct bytes dict_key(const struct dict_entry *e)
{
    return bytes_of(e->key, e->key_n);
}

static inline int64_t dict_last_id(const struct dict *d)
{
    return d->n == 0 ? 0 : d->entries[d->n - 1].id;
}

#endif
