/* block_internal.h -- what the block's files share: the header's layout, which streams a chunk has,
 * and the summary of a chunk. docs/format.md, "Blocks", is the format. */
#ifndef OTLITE_STORE_BLOCK_INTERNAL_H
#define OTLITE_STORE_BLOCK_INTERNAL_H

#include "block.h"

/* The header, little-endian. Directory and streams follow. */
enum {
    HEADER_MAGIC = 0,     /* "otlb" */
    HEADER_FORMAT = 4,    /* 1 byte */
    HEADER_KIND = 5,      /* 1 byte, enum series_kind */
    HEADER_CHUNKS = 6,    /* 2 bytes */
    HEADER_DIRECTORY = 8, /* 4 bytes: length of the directory */
    HEADER_LENGTH = 12,   /* 4 bytes: of the whole block */
    HEADER_CHECKSUM = 16, /* 4 bytes: CRC-32 of the header so far and the directory */
    HEADER_BYTES = 20,

    /* 128 chunks with every column of the directory raw take less than a third of this. */
    DIRECTORY_MAX_BYTES = 1 << 18
};
extern const uint8_t BLOCK_MAGIC[4];

/* A stream is varint(length), CRC-32 of the bytes (4 bytes), the bytes. The streams of a chunk are
 * numbered: these, then those of each field. */
enum { STREAM_TIME, STREAM_START_TIME, STREAM_FLAGS, STREAM_FIELDS, BLOCK_MAX_STREAMS = 32 };

/* Streams of a field, by their place among them. */
enum {
    VALUE_KINDS, /* DOUBLE and VALUE: enum value_kind of each point */
    VALUE_DOUBLES,
    VALUE_INTS, /* VALUE only */

    LIST_LENGTHS = 0, /* INTS and DOUBLES */
    LIST_VALUES,
    LIST_FIRST /* INTS only: the first list, when values are differences */
};

uint32_t field_stream_count(enum field_type t);
uint32_t block_stream_count(enum series_kind kind);
/* Of stream s of a kind, for messages: "time", "value.doubles". */
void block_stream_name(enum series_kind kind, uint32_t s, char *out, size_t size);

/* Chunks with the same of these have the same times, start times and flags, and numbers also the
 * same points with a value: the directory says what follows from them once. Numbers: with the
 * kinds, too. */
static inline uint32_t frame_stream_count(enum series_kind kind)
{
    return kind == KIND_NUMBER ? STREAM_FIELDS + VALUE_KINDS + 1 : STREAM_FIELDS;
}

/* The summary of points first to first + n - 1 (n > 0). */
void chunk_summarize(const struct series_points *p, size_t first, size_t n, int64_t series_id,
                     struct chunk_summary *out);

/* Fixed-length integers at any address. */
static inline void store32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static inline uint32_t load32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint32_t block_checksum(uint32_t before, struct bytes b);

/* Append the directory of n chunks; frame[i] is chunk i's frame, and frame_chunk[f] the first chunk
 * of frame f. streams: block_stream_count a chunk, 0 or 1 + where it is among the streams. */
struct directory_source {
    enum series_kind kind;
    uint32_t n, n_frames;
    const struct chunk_summary *chunks;
    const uint32_t *frame, *frame_chunk, *streams;
};
void block_directory_write(struct buf *out, const struct directory_source *src);

#endif
