/* label_table.h -- labels, their distinct values, and for each value the ascending numbers of what
 * has it (posting list). Append-only; no locks: label_index.c has them. */
#ifndef OTLITE_STORE_LABEL_TABLE_H
#define OTLITE_STORE_LABEL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "otlite/bytes.h"

/* Where texts are kept: blocks that never move, so that what borrows from them needs no lock. */
struct label_memory {
    struct label_block *blocks; /* the newest, which links to the one before */
    size_t bytes;               /* of everything that is accounted here */
    uint64_t seed;              /* of hashes, so that nobody can prepare collisions */
};

void label_memory_fini(struct label_memory *m);
/* Room for n bytes, aligned to 8; NULL: no memory. */
void *label_memory_take(struct label_memory *m, size_t n);
/* A copy; false: no memory. */
bool label_memory_keep(struct label_memory *m, struct bytes s, struct bytes *out);
/* Room for one more element behind n of them in an array with room for *cap; false: no memory, and
 * the array is as it was. */
bool label_memory_grow(struct label_memory *m, void **array, size_t size, uint32_t n,
                       uint32_t *cap);

/* Most values of a label that has very many belong to one or two series: these need no allocation.
 */
enum { POSTINGS_FEW = 2 };
struct postings {
    union {
        uint32_t few[POSTINGS_FEW]; /* while cap is 0 */
        uint32_t *many;
    } u;
    uint32_t n, cap;
};

static inline const uint32_t *postings_ids(const struct postings *p)
{
    return p->cap == 0 ? p->u.few : p->u.many;
}
/* Append id unless it is the last one; greater than all so far. false: no memory. */
bool postings_add(struct postings *p, uint32_t id, struct label_memory *m);
void postings_fini(struct postings *p);

struct label_value {
    const uint8_t *text; /* in a block */
    uint32_t text_n;
    uint32_t hash;
    struct postings postings;
};

static inline struct bytes label_value_text(const struct label_value *v)
{
    return bytes_of(v->text, v->text_n);
}

struct label {
    struct bytes key;
    uint32_t hash; /* of the key */
    struct label_value *values;
    uint32_t n, cap;
    uint32_t *slots; /* index of the value + 1; 0: empty */
    uint32_t n_slots;
    uint64_t n_postings; /* of all values */
};

#define LABEL_NONE UINT32_MAX

/* Index of the value; LABEL_NONE: no such value. */
uint32_t label_find(const struct label *l, const struct label_memory *m, struct bytes text);
/* Say that id has the value. kept: text lies in a block already. LABEL_NONE: no memory. */
uint32_t label_add(struct label *l, struct label_memory *m, struct bytes text, bool kept,
                   uint32_t id);
void label_fini(struct label *l);

/* Labels by their key. */
struct label_set {
    struct label *labels;
    uint32_t n, cap;
    uint32_t *slots;
    uint32_t n_slots;
};

/* NULL: no such label. */
const struct label *label_set_find(const struct label_set *s, const struct label_memory *m,
                                   struct bytes key);
/* Find or create; valid until the next call. hint: where it may stand, or anything. NULL: no
 * memory. */
struct label *label_set_get(struct label_set *s, struct label_memory *m, struct bytes key,
                            bool kept, uint32_t *hint);
void label_set_fini(struct label_set *s);

#endif
