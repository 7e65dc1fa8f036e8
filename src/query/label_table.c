/* label_table.c -- a hash table of label sets: open addressing, half full at most. */
#include <stdlib.h>

#include "eval_internal.h"

void label_table_fini(struct label_table *t)
{
    free(t->keys);
    free(t->slots);
    *t = (struct label_table){0};
}

static uint32_t *slot_of(const struct label_table *t, struct labels l)
{
    size_t i = labels_hash(l) & (t->n_slots - 1);

    while (t->slots[i] != UINT32_MAX && !labels_equal(t->keys[t->slots[i]], l))
        i = (i + 1) & (t->n_slots - 1);
    return &t->slots[i];
}

static bool grow(struct label_table *t)
{
    size_t cap = t->cap == 0 ? 16 : 2 * t->cap, n_slots = 2 * cap;
    struct labels *keys = reallocarray(t->keys, cap, sizeof(*keys));
    uint32_t *slots;

    if (keys == NULL)
        return false;
    t->keys = keys;
    slots = malloc(n_slots * sizeof(*slots));
    if (slots == NULL)
        return false;
    memset(slots, 0xff, n_slots * sizeof(*slots));
    free(t->slots);
    t->slots = slots;
    t->cap = cap;
    t->n_slots = n_slots;
    for (size_t i = 0; i < t->n; i++)
        *slot_of(t, t->keys[i]) = (uint32_t)i;
    return true;
}

bool label_table_add(struct label_table *t, struct labels l, uint32_t *out, bool *is_new)
{
    uint32_t *slot;

    if (t->n == t->cap && (t->n >= UINT32_MAX / 2 || !grow(t)))
        return false;
    slot = slot_of(t, l);
    *is_new = *slot == UINT32_MAX;
    if (*is_new) {
        *slot = (uint32_t)t->n;
        t->keys[t->n++] = l;
    }
    *out = *slot;
    return true;
}

uint32_t label_table_find(const struct label_table *t, struct labels l)
{
    return t->n_slots == 0 ? UINT32_MAX : *slot_of(t, l);
}
