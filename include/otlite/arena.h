/* arena.h -- bump memory with a byte budget: everything a request decodes lives in one arena and
 * goes in one step. Not thread-safe; an arena may move between threads. */
#ifndef OTLITE_ARENA_H
#define OTLITE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "otlite/bytes.h"

struct arena_chunk;

struct arena {
    struct arena_chunk *head; /* the chunk in use; older ones behind it */
    size_t budget;            /* bytes that may be handed out in all */
    size_t used;              /* bytes handed out, alignment included */
    size_t reserved;          /* bytes held in chunks */
    bool over_budget;         /* an allocation was refused because of budget */
    bool no_memory;           /* an allocation was refused by malloc or by the process limit */
};

/* All arenas together hold at most this many bytes (0: no limit). Set once at start. */
void arena_set_process_limit(size_t bytes);
/* Bytes held by all arenas now. */
size_t arena_process_bytes(void);

void arena_init(struct arena *a, size_t budget);
/* Give everything back; the arena is as after arena_init with the same budget. */
void arena_fini(struct arena *a);
/* Forget the content but keep one chunk for reuse, and set a new budget. */
void arena_reset(struct arena *a, size_t budget);

/* 16-byte aligned, uninitialised. NULL when over budget or out of memory (see the flags). n may be
 * 0: then a valid non-NULL pointer is returned. */
void *arena_alloc(struct arena *a, size_t n);
/* count * size with the multiplication checked; zeroed. */
void *arena_zalloc(struct arena *a, size_t count, size_t size);
/* A copy of s in the arena; false when there is no room. An empty s gives {"", 0}. */
bool arena_dup(struct arena *a, struct bytes s, struct bytes *out);

#endif
