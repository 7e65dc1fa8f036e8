/* The cache of parts: one mutex, held for looking up and linking only. Directories are worth more
 * than bytes, as they answer wide windows by themselves: bytes go first, oldest first, until
 * directories alone take more than half of the room. */
#include "part_internal.h"

#include <pthread.h>
#include <stdlib.h>

enum { HASH_SIZE = 1024 };

/* A list linked in both directions through one of the two links of its blocks. */
struct lru {
    struct part_block *first, *last;
};

struct part_cache {
    pthread_mutex_t mu; /* guards everything below, and what part_internal.h says */
    size_t max_bytes, directory_bytes, data_bytes, list_bytes;
    struct lru directories; /* blocks that nobody has pinned */
    struct lru data;        /* those of them that have bytes */
    struct part_list *lists[HASH_SIZE];
};

/* ---- recency ---- */

static struct cache_link *link_of(struct part_block *b, bool data)
{
    return data ? &b->by_data : &b->by_directory;
}

static struct lru *lru_of(struct part_cache *c, bool data)
{
    return data ? &c->data : &c->directories;
}

static void lru_add(struct part_cache *c, struct part_block *b, bool data)
{
    struct lru *u = lru_of(c, data);

    *link_of(b, data) = (struct cache_link){NULL, u->first};
    if (u->first != NULL)
        link_of(u->first, data)->prev = b;
    else
        u->last = b;
    u->first = b;
}

static void lru_remove(struct part_cache *c, struct part_block *b, bool data)
{
    struct lru *u = lru_of(c, data);
    struct cache_link *k = link_of(b, data);

    if (k->prev != NULL)
        link_of(k->prev, data)->next = k->next;
    else
        u->first = k->next;
    if (k->next != NULL)
        link_of(k->next, data)->prev = k->prev;
    else
        u->last = k->prev;
}

/* ---- blocks ---- */

static size_t directory_bytes(const struct part_block *b)
{
    const struct block_directory *d = &b->directory;

    return sizeof(*b) + d->n * (sizeof(*d->chunks) + d->streams_per_chunk * sizeof(*d->streams));
}

static uint8_t *block_data(struct part_block *b)
{
    return atomic_load_explicit(&b->data, memory_order_relaxed);
}

/* A block that nobody has pinned. */
static void drop_data(struct part_cache *c, struct part_block *b)
{
    lru_remove(c, b, true);
    c->data_bytes -= b->data_n;
    free(block_data(b));
    atomic_store_explicit(&b->data, NULL, memory_order_relaxed);
}

static void drop_block(struct part_cache *c, struct part_block *b)
{
    if (block_data(b) != NULL)
        drop_data(c, b);
    lru_remove(c, b, false);
    c->directory_bytes -= directory_bytes(b);
    b->list->blocks[b->at] = NULL;
    block_directory_fini(&b->directory);
    free(b);
}

static void evict(struct part_cache *c)
{
    while (c->directory_bytes + c->data_bytes > c->max_bytes) {
        if (c->data.last != NULL &&
            (c->directory_bytes <= c->max_bytes / 2 || c->directories.last == NULL))
            drop_data(c, c->data.last);
        else if (c->directories.last != NULL)
            drop_block(c, c->directories.last);
        else
            break; /* all of it is in use */
    }
}

/* ---- lists ---- */

struct part_list *part_list_new(int64_t id, enum series_kind kind)
{
    struct part_list *l = calloc(1, sizeof(*l));

    if (l == NULL)
        return NULL;
    l->id = id;
    l->kind = kind;
    return l;
}

bool part_list_add(struct part_list *l, const struct block_row *row)
{
    if (l->n == l->cap) {
        uint32_t cap = l->cap * 2 + 16; /* a part has at most 2^24 blocks */
        struct block_row *p = realloc(l->rows, cap * sizeof(*p));

        if (p == NULL)
            return false;
        l->rows = p;
        l->cap = cap;
    }
    l->rows[l->n++] = *row;
    return true;
}

bool part_list_close(struct part_list *l)
{
    l->blocks = calloc(l->n > 0 ? l->n : 1, sizeof(struct part_block *));
    return l->blocks != NULL;
}

void part_list_free(struct part_list *l)
{
    if (l == NULL)
        return;
    free(l->rows);
    free(l->blocks);
    free(l);
}

static size_t list_bytes(const struct part_list *l)
{
    return sizeof(*l) + l->cap * sizeof(*l->rows) + l->n * sizeof(struct part_block *);
}

static struct part_list **place_of(struct part_cache *c, int64_t id)
{
    struct part_list **p = &c->lists[(uint64_t)id % HASH_SIZE];

    while (*p != NULL && (*p)->id != id)
        p = &(*p)->next;
    return p;
}

static void put_list(struct part_cache *c, struct part_list *l)
{
    if (--l->refs > 0)
        return;
    for (uint32_t i = 0; i < l->n; i++) {
        if (l->blocks[i] != NULL)
            drop_block(c, l->blocks[i]);
    }
    *place_of(c, l->id) = l->next;
    c->list_bytes -= list_bytes(l);
    part_list_free(l);
}

struct part_list *part_cache_list(struct part_cache *c, int64_t id)
{
    struct part_list *l;

    (void)pthread_mutex_lock(&c->mu);
    l = *place_of(c, id);
    if (l != NULL)
        l->refs++;
    (void)pthread_mutex_unlock(&c->mu);
    return l;
}

struct part_list *part_cache_add_list(struct part_cache *c, struct part_list *l)
{
    struct part_list **place, *is;

    (void)pthread_mutex_lock(&c->mu);
    place = place_of(c, l->id);
    if (*place == NULL) {
        *place = l;
        l->next = NULL;
        c->list_bytes += list_bytes(l);
    }
    is = *place;
    is->refs++;
    (void)pthread_mutex_unlock(&c->mu);
    if (is != l)
        part_list_free(l);
    return is;
}

void part_cache_put_list(struct part_cache *c, struct part_list *l)
{
    (void)pthread_mutex_lock(&c->mu);
    put_list(c, l);
    (void)pthread_mutex_unlock(&c->mu);
}

/* ---- pins: each holds the list too ---- */

static void pin(struct part_cache *c, struct part_block *b)
{
    if (b->pins++ == 0) {
        lru_remove(c, b, false);
        if (block_data(b) != NULL)
            lru_remove(c, b, true);
    }
    b->list->refs++;
}

static void unpin(struct part_cache *c, struct part_block *b)
{
    if (--b->pins == 0) {
        lru_add(c, b, false);
        if (block_data(b) != NULL)
            lru_add(c, b, true);
    }
    put_list(c, b->list);
}

struct part_block *part_cache_pin(struct part_cache *c, struct part_list *l, uint32_t at)
{
    struct part_block *b;

    (void)pthread_mutex_lock(&c->mu);
    b = l->blocks[at];
    if (b != NULL)
        pin(c, b);
    (void)pthread_mutex_unlock(&c->mu);
    return b;
}

struct part_block *part_cache_add(struct part_cache *c, struct part_list *l, uint32_t at,
                                  struct block_directory *d)
{
    struct part_block *mine = calloc(1, sizeof(*mine)), *b;

    if (mine == NULL)
        return NULL;
    mine->list = l;
    mine->at = at;
    mine->directory = *d;
    *d = (struct block_directory){0};
    atomic_init(&mine->data, NULL);

    (void)pthread_mutex_lock(&c->mu);
    if (l->blocks[at] == NULL) {
        l->blocks[at] = mine;
        lru_add(c, mine, false);
        c->directory_bytes += directory_bytes(mine);
    }
    b = l->blocks[at];
    pin(c, b);
    evict(c);
    (void)pthread_mutex_unlock(&c->mu);
    if (b != mine) {
        block_directory_fini(&mine->directory);
        free(mine);
    }
    return b;
}

void part_cache_set_data(struct part_cache *c, struct part_block *b, uint8_t *data, size_t n)
{
    (void)pthread_mutex_lock(&c->mu);
    if (block_data(b) == NULL) {
        b->data_n = n;
        c->data_bytes += n;
        /* Read without the mutex by part_block_bytes. */
        atomic_store_explicit(&b->data, data, memory_order_release);
        data = NULL;
        evict(c);
    }
    (void)pthread_mutex_unlock(&c->mu);
    free(data);
}

void part_cache_unpin(struct part_cache *c, struct part_block *const *blocks, size_t n)
{
    (void)pthread_mutex_lock(&c->mu);
    for (size_t i = 0; i < n; i++)
        unpin(c, blocks[i]);
    evict(c);
    (void)pthread_mutex_unlock(&c->mu);
}

/* ---- the cache ---- */

struct part_cache *part_cache_new(size_t max_bytes)
{
    struct part_cache *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return NULL;
    c->max_bytes = max_bytes;
    if (pthread_mutex_init(&c->mu, NULL) != 0) {
        free(c);
        return NULL;
    }
    return c;
}

void part_cache_free(struct part_cache *c)
{
    if (c == NULL)
        return;
    (void)pthread_mutex_destroy(&c->mu);
    free(c);
}

uint64_t part_cache_bytes(const struct part_cache *c)
{
    struct part_cache *m = (struct part_cache *)(uintptr_t)c; /* the mutex only */
    uint64_t n;

    (void)pthread_mutex_lock(&m->mu);
    n = c->directory_bytes + c->data_bytes + c->list_bytes;
    (void)pthread_mutex_unlock(&m->mu);
    return n;
}
