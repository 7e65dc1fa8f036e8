/* column_pack.h -- integers in runs of 256, each in as few bits as most of its values need.
 *
 * A run: varint(zigzag(base)), width (1 byte), exceptions (1 byte), the bits, the exceptions. Value
 * i is base + the width bits at bit i * width (least significant first), plus, for an exception,
 * what it has above them. Sums wrap. The last run has what is left. docs/format.md has the same. */
#ifndef OTLITE_STORE_COLUMN_PACK_H
#define OTLITE_STORE_COLUMN_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "otlite/bytes.h"

enum { PACK_RUN = 256 };

static inline uint64_t pack_zigzag(int64_t v)
{
    return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
}

static inline int64_t pack_unzigzag(uint64_t u)
{
    return (int64_t)((u >> 1) ^ (0 - (u & 1)));
}

/* Little-endian, at any address. */
static inline void pack_store64(uint8_t *p, uint64_t v)
{
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    memcpy(p, &v, sizeof(v));
}

static inline uint64_t pack_load64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    return v;
}

/* LEB128. */
void pack_add_varint(struct buf *out, uint64_t v);
size_t pack_varint_bytes(uint64_t v);
/* Take one from the front of in; false: it is cut short or longer than 64 bits. */
bool pack_take_varint(struct bytes *in, uint64_t *out) OTL_MUSTCHECK;

/* How a run is written. */
struct pack_plan {
    int64_t base;
    unsigned width, exceptions;
    size_t bytes;
};

static inline size_t pack_runs(size_t n)
{
    return (n + PACK_RUN - 1) / PACK_RUN;
}

/* Plans for the pack_runs(n) runs of n values, and the bytes that they take; where that is more
 * than give_up, anything above it, and not all plans. */
size_t pack_plan(const int64_t *v, size_t n, size_t give_up, struct pack_plan *plans);
void pack_add(struct buf *out, const int64_t *v, size_t n, const struct pack_plan *plans);
/* Take n values from the front of in. False: damaged; never reads outside in. */
bool pack_take(struct bytes *in, int64_t *out, size_t n) OTL_MUSTCHECK;

#endif
