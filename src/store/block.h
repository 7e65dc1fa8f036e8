/* block.h -- chunks, and the block that holds the chunks of many series.
 *
 * A chunk is a run of at most CHUNK_MAX_POINTS points of one series, in the order of their keys, as
 * column streams (column.h). A block is a header, a directory with one entry a chunk (which series,
 * which times, what its values come to, where its streams lie), and the streams. Streams that are
 * equal byte for byte are there once: the series of one sender have the same times. The directory is
 * columns itself. Every stream and the directory has a checksum. docs/format.md is the contract, byte
 * by byte; test/ has a decoder that knows only that page.
 *
 * Pure: no I/O, no globals. A block that was written is never changed. */
#ifndef OTLITE_STORE_BLOCK_H
#define OTLITE_STORE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "otlite/bytes.h"
#include "otlite/err.h"
#include "series_points.h"

enum {
    CHUNK_MAX_POINTS = 2048,
    BLOCK_MAX_CHUNKS = 128,
    BLOCK_FULL_BYTES = 64 << 10, /* a block with as much as this takes no further chunk */
    BLOCK_FORMAT = 1
};

/* What is known of a chunk without decoding it. For KIND_NUMBER the values are those of the points,
 * as doubles; other kinds have 0 in everything from n_values on. */
struct chunk_summary {
    int64_t series_id;
    int64_t min_time, max_time;      /* of the first and the last point */
    uint32_t n;                      /* points */
    uint32_t n_values;               /* with a value that is not NaN */
    uint32_t n_nan;
    double sum, min, max;            /* over n_values; 0 when there are none. sum in order of time. */
    enum value_kind first_kind, last_kind; /* of the first and last point that has a value (NaN
                                              counts); VALUE_NONE when there is none */
    int64_t first, last;             /* int64 or bits */
    int64_t first_value_time, last_value_time, first_value_start;
    double increase;                 /* as NUMBER_ROLLUP_INCREASE, over this chunk */
};

/* ---- writing ---- */

/* How many of the n points from first on one chunk should take: at least 1, at most CHUNK_MAX_POINTS,
 * and fewer where lists or bytes are long, so that a reader needs a few megabytes for it at most. */
size_t chunk_fit(const struct series_points *p, size_t first, size_t n);

struct block_writer;

/* NULL: no memory. kind: of all its chunks. */
struct block_writer *block_writer_new(enum series_kind kind);
void block_writer_free(struct block_writer *w);
/* Add points first to first + n - 1 (1 <= n <= chunk_fit) of a series as one chunk. Series ids never go
 * down, and of one series the times never go back, from one call to the next; the block has room for
 * another chunk. False: no memory, and the block is unusable until block_writer_reset. */
bool block_writer_add(struct block_writer *w, int64_t series_id, const struct series_points *p,
                      size_t first, size_t n) OTL_MUSTCHECK;
uint32_t block_writer_chunks(const struct block_writer *w);
/* Full: 128 chunks, or 64 KiB of streams. */
bool block_writer_is_full(const struct block_writer *w);

/* What goes beside a block's bytes into its row. */
struct block_info {
    int64_t first_series, last_series;
    int64_t min_time, max_time;
    uint64_t points;
};
/* Append the block's bytes to out and begin a new one. False: no memory. At least one chunk. */
bool block_writer_take(struct block_writer *w, struct buf *out,
                       struct block_info *info) OTL_MUSTCHECK;
void block_writer_reset(struct block_writer *w);

/* ---- reading ---- */

/* A block's directory, decoded. Owner of its memory; independent of the block's bytes. */
struct block_directory {
    enum series_kind kind;
    uint32_t n;
    struct chunk_summary *chunks;  /* ascending by series, then time */
    uint32_t *streams;             /* n * streams_per_chunk offsets into the block */
    uint32_t streams_per_chunk;
    uint32_t streams_at;           /* where the streams begin: what lies before is enough for open */
    size_t block_bytes;            /* of the whole block */
};

/* How many bytes from the front of a block hold header and directory; 0: not told by the first 64
 * bytes, or no block of ours. */
size_t block_head_bytes(struct bytes front);
/* head: at least block_head_bytes from the front. OTL_ECORRUPT: says what is wrong and where, and
 * *out is empty; OTL_EDB: a newer format than this program knows; OTL_ENOMEM. */
enum otl_err block_directory_open(struct bytes head, struct block_directory *out,
                                  struct otl_error *err) OTL_MUSTCHECK;
void block_directory_fini(struct block_directory *d);
/* First chunk of a series not below series_id, or d->n. */
uint32_t block_directory_find(const struct block_directory *d, int64_t series_id);

/* Append the points of chunk i with from <= time < to (INT64_MIN, INT64_MAX: all) to out, which is of
 * the block's kind. block: all its bytes. Streams' checksums are verified. OTL_ECORRUPT: the chunk
 * is damaged (the message names what), out is as it was; OTL_ENOMEM. */
enum otl_err block_read_chunk(struct bytes block, const struct block_directory *d, uint32_t i,
                              int64_t from, int64_t to, struct series_points *out,
                              struct otl_error *err) OTL_MUSTCHECK;

/* What the chunks of one block have in common, for who reads many of them one after the other:
 * columns whose values are all the same, by their stream, and times: the chunks of a series have
 * different ones, which other series have too. Zero-initialised is empty; of one block at a time,
 * see chunk_memo_forget. */
enum { CHUNK_MEMO_SLOTS = 256, CHUNK_MEMO_TIMES = 8 };
struct chunk_memo {
    struct {
        uint32_t at; /* 0: free */
        int64_t v;
    } constants[CHUNK_MEMO_SLOTS];
    struct {
        uint32_t at, n; /* at 0: free */
        int64_t v[CHUNK_MAX_POINTS];
    } times[CHUNK_MEMO_TIMES];
    uint32_t next_times; /* that are replaced */
};
/* Before the first chunk of another block. */
void chunk_memo_forget(struct chunk_memo *m);
/* block_read_next for who needs some fields only (bits): the others are absent or 0, and not
 * verified. memo may be NULL. */
enum otl_err block_read_fields(struct bytes block, const struct block_directory *d, uint32_t i,
                               uint32_t fields, int64_t from, int64_t to, struct chunk_memo *memo,
                               struct series_points *out, struct otl_error *err) OTL_MUSTCHECK;
/* block_read_chunk; what memo knows of the block is not verified and decoded again. */
enum otl_err block_read_next(struct bytes block, const struct block_directory *d, uint32_t i,
                             int64_t from, int64_t to, struct chunk_memo *memo,
                             struct series_points *out,
                             struct otl_error *err) OTL_MUSTCHECK;

/* Decoded columns that chunks of one block share, kept from one read to the next: of times several,
 * because the chunks of a series have different ones, which other series have too. Zero-initialised
 * is empty; belongs to one thread. For hot loops over numbers only: */
struct chunk_reader {
    const uint8_t *block;       /* whose streams are cached */
    uint32_t n;                 /* points of the chunk */
    uint32_t time_at, start_at; /* stream offsets of time and start_time */
    const int64_t *time, *start_time, *flags;
    const uint8_t *kind;
    const int64_t *value;
    bool all_int, all_double;   /* every point has a value of this kind */
    bool no_flags;              /* all are 0 */

    struct chunk_column {
        uint32_t at, n; /* of which stream how many values are held; at 0: none */
        bool constant;  /* they are equal: so are those of a stream of fewer */
    } times[CHUNK_MEMO_TIMES], starts, flags_held, kinds;
    uint32_t next_times; /* of times: replaced */
    int64_t *columns;    /* of times, then starts, flags, values, kinds: CHUNK_MAX_POINTS each */
};
void chunk_reader_fini(struct chunk_reader *r);
/* The columns of chunk i of a KIND_NUMBER block, valid until the next call; columns that the chunk
 * shares with ones before are not decoded again. starts false: start_time is not asked for. Errors
 * as above. */
enum otl_err chunk_reader_numbers(struct chunk_reader *r, struct bytes block,
                                  const struct block_directory *d, uint32_t i, bool starts,
                                  struct otl_error *err) OTL_MUSTCHECK;
/* A block's bytes may be freed, and others come to the same address: forget. */
void chunk_reader_forget(struct chunk_reader *r);

/* Verify everything: directory, every checksum, every stream decodes to what the directory says.
 * Calls damaged for each fault with a message; returns how many. */
uint64_t block_verify(struct bytes block, void (*damaged)(void *arg, const char *what), void *arg);

#endif
