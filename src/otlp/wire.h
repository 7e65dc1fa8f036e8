/* wire.h -- cutting protobuf bytes into fields. All who do it (wirecheck.c, known_walk.c) do it
 * with these, so that they cut alike: a tag and a length have at most five bytes, a varint ten. */
#ifndef OTLITE_OTLP_WIRE_H
#define OTLITE_OTLP_WIRE_H

#include <stdbool.h>
#include <stdint.h>

enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_LENGTH = 2, WIRE_32 = 5 };

enum { MAX_TAG_BYTES = 5, MAX_LENGTH_BYTES = 5, MAX_VARINT_BYTES = 10 };

/* Each reads at *p and moves it on; false, and *p stays, when it is not whole before end. */

static inline bool read_varint(const uint8_t **p, const uint8_t *end, unsigned max, uint64_t *out)
{
    const uint8_t *q = *p;
    uint64_t v = 0;

    if (q < end && *q < 0x80) { /* most are tags and short lengths */
        *out = *q;
        *p = q + 1;
        return true;
    }
    for (unsigned i = 0; i < max && q < end; i++) {
        uint8_t b = *q++;

        v |= (uint64_t)(b & 0x7f) << (7 * i);
        if (b < 0x80) {
            *p = q;
            *out = v;
            return true;
        }
    }
    return false;
}

/* Field numbers have 29 bits, hence a tag 32; a fifth byte could carry more. */
static inline bool read_tag(const uint8_t **p, const uint8_t *end, uint32_t *number, unsigned *wire)
{
    uint64_t v;

    if (!read_varint(p, end, MAX_TAG_BYTES, &v) || v > UINT32_MAX)
        return false;
    *number = (uint32_t)(v >> 3);
    *wire = (unsigned)(v & 7);
    return true;
}

static inline bool read_length(const uint8_t **p, const uint8_t *end, uint64_t *out)
{
    return read_varint(p, end, MAX_LENGTH_BYTES, out) && *out <= INT32_MAX;
}

static inline bool skip_varint(const uint8_t **p, const uint8_t *end)
{
    uint64_t v;

    return read_varint(p, end, MAX_VARINT_BYTES, &v);
}

#endif
