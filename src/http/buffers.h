/* buffers.h -- the receive buffers of one event loop.
 *
 * A connection holds one only while it has bytes in it, so 10,000 idle ones need none. Few are in
 * use at a time, and the one given back last is taken next, still in the processor's cache. Not
 * thread-safe: a pool belongs to its loop. */
#ifndef OTLITE_HTTP_BUFFERS_H
#define OTLITE_HTTP_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BUFFER_SMALL = 32 * 1024,       /* holds a request of some 200 points */
    BUFFER_LARGE = 4 * 1024 * 1024, /* larger ones are not kept */
    POOL_SMALL = 64,                /* small ones kept */
    POOL_LARGE_BYTES = 16 * 1024 * 1024,
    POOL_FORGET_SWEEPS = 50 /* a large one goes when none was wanted for so many sweeps */
};

struct recv_buffer {
    struct recv_buffer *next; /* in the pool */
    size_t cap;
    char data[];
};

/* Zero-initialised is empty. */
struct buffer_pool {
    struct recv_buffer *small, *large;
    unsigned n_small;
    size_t large_bytes;
    unsigned idle_sweeps;
};

/* A buffer of at least n bytes; NULL without memory. The caller gives it back. */
struct recv_buffer *buffer_take(struct buffer_pool *p, size_t n);
/* Takes b, which may be NULL. */
void buffer_give(struct buffer_pool *p, struct recv_buffer *b);
/* Called now and then: lets a large buffer go that nobody wants. */
void buffer_pool_sweep(struct buffer_pool *p);
void buffer_pool_fini(struct buffer_pool *p);

#endif
