/* known_cache.c -- entries, their table, and the slots that they live in (known_cache.h). */
#include "known_cache.h"

#include <assert.h>
#include <stdalign.h>
#include <stdlib.h>

enum { MIN_CELLS = 32, MIN_CHUNK = 1024, MAX_CHUNK = 256 * 1024, CHUNKS_A_SLOT = 16 };

struct known_chunk {
    struct known_chunk *next;
    size_t used;
    alignas(max_align_t) uint8_t data[];
};

struct known *known_new(size_t max_bytes)
{
    struct known *k = calloc(1, sizeof(*k));

    if (k == NULL)
        return NULL;
    k->slot_bytes = max_bytes / KNOWN_SLOTS;
    k->chunk_bytes = k->slot_bytes / CHUNKS_A_SLOT;
    if (k->chunk_bytes < MIN_CHUNK)
        k->chunk_bytes = MIN_CHUNK;
    if (k->chunk_bytes > MAX_CHUNK)
        k->chunk_bytes = MAX_CHUNK;
    k->stamp = 1;
    k->hash = bytes_hash;
    return k;
}

void known_free(struct known *k)
{
    if (k == NULL)
        return;
    for (int i = 0; i < KNOWN_SLOTS; i++) {
        struct known_hold *s = &k->slots[i];

        while (s->chunks != NULL) {
            struct known_chunk *c = s->chunks;

            s->chunks = c->next;
            free(c);
        }
        free(s->cells);
    }
    free(k);
}

bool known_serves(struct known *k, const struct decode_limits *lim, bool take)
{
    if (take && !k->has_limits) {
        k->has_limits = true;
        k->max_value_depth = lim->max_value_depth;
        k->max_name_bytes = lim->max_name_bytes;
        k->max_attributes = lim->max_attributes;
        k->max_attribute_bytes = lim->max_attribute_bytes;
    }
    return k->has_limits && k->max_value_depth == lim->max_value_depth &&
           k->max_name_bytes == lim->max_name_bytes && k->max_attributes == lim->max_attributes &&
           k->max_attribute_bytes == lim->max_attribute_bytes;
}

/* --- slots ---------------------------------------------------------------------------------- */

static struct known_hold *young_slot(struct known *k)
{
    return &k->slots[k->young];
}

static struct known_hold *old_slot(struct known *k)
{
    return &k->slots[(k->young + KNOWN_SLOTS - 1) % KNOWN_SLOTS];
}

/* Empty; the memory stays. */
static void slot_reset(struct known_hold *s)
{
    for (struct known_chunk *c = s->chunks; c != NULL; c = c->next)
        c->used = 0;
    s->at = s->chunks;
    if (s->n_entries > 0)
        memset(s->cells, 0, s->n_cells * sizeof(struct known_entry *));
    s->n_entries = 0;
}

void known_make_room(struct known *k)
{
    unsigned next = (k->young + 1) % KNOWN_SLOTS;

    if (!k->full || k->slots[next].holds > 0)
        return;
    slot_reset(&k->slots[next]);
    k->young = next;
    k->stamp++;
    k->full = false;
}

struct known_hold *known_take_hold(struct known *k)
{
    young_slot(k)->holds++;
    old_slot(k)->holds++;
    return young_slot(k);
}

void known_release(struct known *k, struct known_hold *hold)
{
    unsigned i;

    if (hold == NULL)
        return;
    /* The slot before it in the ring was the old one then, whatever it is now: it cannot have
     * been given away. */
    i = (unsigned)(hold - k->slots);
    assert(hold->holds > 0 && k->slots[(i + KNOWN_SLOTS - 1) % KNOWN_SLOTS].holds > 0);
    hold->holds--;
    k->slots[(i + KNOWN_SLOTS - 1) % KNOWN_SLOTS].holds--;
}

static void *slot_alloc(struct known *k, struct known_hold *s, size_t n)
{
    struct known_chunk *c = s->at;
    void *p;

    if (n > k->chunk_bytes - alignof(max_align_t))
        return NULL; /* for good: not a reason to make room */
    n = (n + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    if (c != NULL && n > k->chunk_bytes - c->used)
        c = c->next;
    if (c == NULL) {
        size_t size = sizeof(*c) + k->chunk_bytes;

        c = size > k->slot_bytes - s->bytes ? NULL : malloc(size);
        if (c == NULL) {
            k->full = true;
            return NULL;
        }
        s->bytes += size;
        c->used = 0;
        c->next = NULL;
        if (s->at == NULL)
            s->chunks = c;
        else
            s->at->next = c;
    }
    s->at = c;
    p = c->data + c->used;
    c->used += n;
    return p;
}

/* --- the table ------------------------------------------------------------------------------ */

static uint64_t key_hash(const struct known *k, const struct known_key *key)
{
    uint64_t h = k->hash(key->piece[0], key->parent * 4 + (uint64_t)key->kind);

    for (int i = 1; i < KNOWN_PIECES && key->kind != KNOWN_SERIES; i++)
        h = k->hash(key->piece[i], h);
    return h;
}

static bool is_entry_of(const struct known_entry *e, const struct known_key *key)
{
    const uint8_t *raw = e->raw;

    if (e->kind != key->kind || e->parent != key->parent)
        return false;
    for (int i = 0; i < KNOWN_PIECES; i++) {
        if (!bytes_equal(bytes_of(raw, e->piece_n[i]), key->piece[i]))
            return false;
        raw += e->piece_n[i];
    }
    return true;
}

static struct known_entry *slot_find(const struct known_hold *s, const struct known_key *key,
                                     uint64_t hash)
{
    size_t mask = s->n_cells - 1;

    if (s->n_entries == 0)
        return NULL;
    for (size_t i = hash & mask; s->cells[i] != NULL; i = (i + 1) & mask) {
        if (s->cells[i]->hash == hash && is_entry_of(s->cells[i], key))
            return s->cells[i];
    }
    return NULL;
}

static void cells_add(struct known_entry **cells, size_t n_cells, struct known_entry *e)
{
    size_t i = e->hash & (n_cells - 1);

    while (cells[i] != NULL)
        i = (i + 1) & (n_cells - 1);
    cells[i] = e;
}

/* Room for one more cell at half load. */
static bool slot_reserve(struct known *k, struct known_hold *s)
{
    size_t n = s->n_cells == 0 ? MIN_CELLS : s->n_cells * 2;
    size_t old = s->n_cells * sizeof(struct known_entry *);
    size_t size = n * sizeof(struct known_entry *);
    struct known_entry **cells;

    if (s->n_entries < s->n_cells / 2)
        return true;
    cells = size > k->slot_bytes - (s->bytes - old) ? NULL : calloc(n, sizeof(*cells));
    if (cells == NULL) {
        k->full = true;
        return false;
    }
    for (size_t i = 0; i < s->n_cells; i++) {
        if (s->cells[i] != NULL)
            cells_add(cells, n, s->cells[i]);
    }
    free(s->cells);
    s->cells = cells;
    s->n_cells = n;
    s->bytes += size - old;
    return true;
}

/* --- entries -------------------------------------------------------------------------------- */

enum { MAX_TEXTS = 4 };

static size_t struct_size(enum known_kind kind)
{
    switch (kind) {
    case KNOWN_RESOURCE:
        return sizeof(struct known_resource);
    case KNOWN_SCOPE:
        return sizeof(struct known_scope);
    case KNOWN_METRIC:
        return sizeof(struct known_metric);
    case KNOWN_SERIES:
        break;
    }
    return sizeof(struct known_series);
}

/* All that an entry of this kind points to, but for raw. Returns how many they are. */
static unsigned texts_of(struct known_entry *e, enum known_kind kind, struct bytes *out[MAX_TEXTS])
{
    switch (kind) {
    case KNOWN_RESOURCE: {
        struct batch_resource *r = &((struct known_resource *)(void *)e)->resource;

        out[0] = &r->attributes;
        out[1] = &r->schema_url;
        out[2] = &r->entity_refs;
        out[3] = &r->service_name;
        return 4;
    }
    case KNOWN_SCOPE: {
        struct batch_scope *s = &((struct known_scope *)(void *)e)->scope;

        out[0] = &s->attributes;
        out[1] = &s->schema_url;
        out[2] = &s->name;
        out[3] = &s->version;
        return 4;
    }
    case KNOWN_METRIC: {
        struct batch_metric *m = &((struct known_metric *)(void *)e)->metric;

        out[0] = &m->name;
        out[1] = &m->unit;
        out[2] = &m->description;
        out[3] = &m->metadata;
        return 4;
    }
    case KNOWN_SERIES:
        break;
    }
    out[0] = &((struct known_series *)(void *)e)->attributes;
    return 1;
}

/* A block of size bytes in the young slot, and a place for it in the table. */
static struct known_entry *entry_room(struct known *k, size_t size)
{
    struct known_hold *s = young_slot(k);

    return slot_reserve(k, s) ? slot_alloc(k, s, size) : NULL;
}

static void entry_add(struct known *k, struct known_entry *e)
{
    struct known_hold *s = young_slot(k);

    e->stamp = k->stamp;
    cells_add(s->cells, s->n_cells, e);
    s->n_entries++;
}

/* Pieces and texts are each shorter than a request, so the sum of these few cannot wrap. */
static struct known_entry *entry_new(struct known *k, const struct known_key *key, uint64_t hash,
                                     const struct known_entry *content)
{
    size_t head = struct_size(key->kind), size = head;
    union {
        struct known_entry e;
        struct known_resource resource;
        struct known_scope scope;
        struct known_metric metric;
        struct known_series series;
    } made;
    struct bytes *texts[MAX_TEXTS];
    unsigned n_texts;
    struct known_entry *e;
    uint8_t *p;

    memcpy(&made, content, head);
    n_texts = texts_of(&made.e, key->kind, texts);
    for (int i = 0; i < KNOWN_PIECES; i++)
        size += key->piece[i].n;
    for (unsigned i = 0; i < n_texts; i++)
        size += texts[i]->n;
    e = entry_room(k, size);
    if (e == NULL)
        return NULL;
    p = (uint8_t *)e + head;
    made.e = (struct known_entry){.parent = key->parent,
                                  .id = ++k->last_id,
                                  .hash = hash,
                                  .raw = p,
                                  .kind = key->kind,
                                  .size = size};
    for (int i = 0; i < KNOWN_PIECES; i++) {
        made.e.piece_n[i] = (uint32_t)key->piece[i].n;
        if (key->piece[i].n > 0)
            memcpy(p, key->piece[i].p, key->piece[i].n);
        p += key->piece[i].n;
    }
    for (unsigned i = 0; i < n_texts; i++) {
        if (texts[i]->p == NULL)
            continue;
        if (texts[i]->n > 0)
            memcpy(p, texts[i]->p, texts[i]->n);
        texts[i]->p = p;
        p += texts[i]->n;
    }
    memcpy(e, &made, head);
    entry_add(k, e);
    return e;
}

/* A copy of the old slot's e in the young one; e itself when there is no room. */
static struct known_entry *entry_move(struct known *k, struct known_entry *e)
{
    struct bytes *texts[MAX_TEXTS];
    struct known_entry *to = entry_room(k, e->size);
    unsigned n_texts;

    if (to == NULL)
        return e;
    memcpy(to, e, e->size);
    to->raw = (uint8_t *)to + (e->raw - (uint8_t *)e);
    n_texts = texts_of(to, to->kind, texts);
    for (unsigned i = 0; i < n_texts; i++) {
        if (texts[i]->p != NULL)
            texts[i]->p = (uint8_t *)to + (texts[i]->p - (uint8_t *)e);
    }
    entry_add(k, to);
    return to;
}

/* The entry in the young slot that was moved there from e. */
static struct known_entry *entry_moved(struct known *k, const struct known_entry *e)
{
    const struct known_hold *s = young_slot(k);
    size_t mask = s->n_cells - 1;

    if (s->n_entries == 0)
        return NULL;
    for (size_t i = e->hash & mask; s->cells[i] != NULL; i = (i + 1) & mask) {
        if (s->cells[i]->id == e->id)
            return s->cells[i];
    }
    return NULL;
}

struct known_entry *known_renew(struct known *k, struct known_entry *e)
{
    struct known_entry *moved = entry_moved(k, e);

    return moved != NULL ? moved : entry_move(k, e);
}

static struct known_entry *find(struct known *k, const struct known_key *key, uint64_t hash)
{
    struct known_entry *e = slot_find(young_slot(k), key, hash);

    return e != NULL ? e : slot_find(old_slot(k), key, hash);
}

struct known_entry *known_find(struct known *k, struct known_entry *parent,
                               const struct known_key *key)
{
    struct known_entry *e = known_expected(k, parent);

    if (e == NULL || !is_entry_of(e, key))
        e = find(k, key, key_hash(k, key));
    return e == NULL ? NULL : known_take(k, parent, e);
}

struct known_entry *known_put(struct known *k, struct known_entry *parent,
                              const struct known_key *key, const struct known_entry *content)
{
    uint64_t hash = key_hash(k, key);
    struct known_entry *e = find(k, key, hash);

    if (e != NULL)
        return known_take(k, parent, e);
    e = entry_new(k, key, hash, content);
    if (e != NULL)
        known_remember(k, parent, e);
    return e;
}
