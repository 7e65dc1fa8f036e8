#include "otlite/arena.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { ALIGN = 16, FIRST_CHUNK = 8 * 1024, MAX_CHUNK = 4 * 1024 * 1024 };

struct arena_chunk {
    struct arena_chunk *older;
    size_t size; /* bytes in data */
    size_t used;
    _Alignas(ALIGN) uint8_t data[];
};

static _Atomic size_t process_limit;
static _Atomic size_t process_bytes;

void arena_set_process_limit(size_t bytes)
{
    atomic_store(&process_limit, bytes);
}

size_t arena_process_bytes(void)
{
    return atomic_load_explicit(&process_bytes, memory_order_relaxed);
}

static bool process_take(size_t n)
{
    size_t limit = atomic_load_explicit(&process_limit, memory_order_relaxed);
    size_t now = atomic_fetch_add_explicit(&process_bytes, n, memory_order_relaxed);

    if (limit != 0 && (now > limit || n > limit - now)) {
        atomic_fetch_sub_explicit(&process_bytes, n, memory_order_relaxed);
        return false;
    }
    return true;
}

static void chunk_free(struct arena *a, struct arena_chunk *c)
{
    a->reserved -= c->size;
    atomic_fetch_sub_explicit(&process_bytes, c->size, memory_order_relaxed);
    free(c);
}

void arena_init(struct arena *a, size_t budget)
{
    *a = (struct arena){.budget = budget};
}

void arena_fini(struct arena *a)
{
    while (a->head != NULL) {
        struct arena_chunk *c = a->head;

        a->head = c->older;
        chunk_free(a, c);
    }
    arena_init(a, a->budget);
}

void arena_reset(struct arena *a, size_t budget)
{
    struct arena_chunk *keep = a->head;

    /* The newest chunk is the largest; keep it unless it is from an unusually large request. */
    if (keep != NULL && keep->size > MAX_CHUNK / 4)
        keep = NULL;
    while (a->head != NULL) {
        struct arena_chunk *c = a->head;

        a->head = c->older;
        if (c != keep)
            chunk_free(a, c);
    }
    if (keep != NULL) {
        keep->older = NULL;
        keep->used = 0;
    }
    a->head = keep;
    a->budget = budget;
    a->used = 0;
    a->over_budget = false;
    a->no_memory = false;
}

static bool arena_grow(struct arena *a, size_t need)
{
    size_t size = a->head == NULL ? FIRST_CHUNK : a->head->size * 2;
    struct arena_chunk *c;

    if (size > MAX_CHUNK)
        size = MAX_CHUNK;
    if (size < need)
        size = need;
    if (!process_take(size)) {
        a->no_memory = true;
        return false;
    }
    c = malloc(sizeof(*c) + size);
    if (c == NULL) {
        atomic_fetch_sub_explicit(&process_bytes, size, memory_order_relaxed);
        a->no_memory = true;
        return false;
    }
    c->older = a->head;
    c->size = size;
    c->used = 0;
    a->head = c;
    a->reserved += size;
    return true;
}

void *arena_alloc(struct arena *a, size_t n)
{
    struct arena_chunk *c = a->head;
    size_t need;
    void *p;

    if (n > SIZE_MAX / 2) {
        a->over_budget = true;
        return NULL;
    }
    need = (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (need == 0)
        need = ALIGN;
    if (need > a->budget - a->used) {
        a->over_budget = true;
        return NULL;
    }
    if (c == NULL || need > c->size - c->used) {
        if (!arena_grow(a, need))
            return NULL;
        c = a->head;
    }
    p = c->data + c->used;
    c->used += need;
    a->used += need;
    return p;
}

void *arena_zalloc(struct arena *a, size_t count, size_t size)
{
    void *p;

    if (size != 0 && count > SIZE_MAX / size) {
        a->over_budget = true;
        return NULL;
    }
    p = arena_alloc(a, count * size);
    if (p != NULL)
        memset(p, 0, count * size);
    return p;
}

bool arena_dup(struct arena *a, struct bytes s, struct bytes *out)
{
    uint8_t *p = arena_alloc(a, s.n);

    if (p == NULL)
        return false;
    if (s.n > 0)
        memcpy(p, s.p, s.n);
    *out = bytes_of(p, s.n);
    return true;
}
