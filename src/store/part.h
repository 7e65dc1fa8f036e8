/* part.h -- parts: what was sealed, as tables `part` and `block`, and reading it.
 *
 * A part holds points of one kind and one UTC day, sorted by series and time, in blocks (block.h).
 * Sealing makes a part a day of the closed half's rows; merging makes one of several; retention
 * drops them. A part never changes from the moment it is live. Tables:
 *
 * - part(id, kind, resolution, day, sequence, live, min_time, max_time, points, blocks, bytes).
 *   resolution: 0 raw points, else the length of a rollup's windows in seconds (300, 3600). live: 0
 *   being written (or left so by a crash), 1 live, 2 dropped, its blocks still to be deleted.
 *
 * - block(id, first_series, last_series, min_time, max_time, points, data).
 *   id: part.id << PART_BLOCK_BITS | number from 0.
 *
 * - part_generation(n): counts up whenever the set of live parts changes (triggers of `part`).
 *
 * Invariants:
 *
 * P1 Only parts with live = 1 count. Blocks are inserted in as many transactions as one likes while
 *    live = 0; one transaction makes the part live and takes away what it stands for: it marks the
 *    closed half sealed (head.h, H3), or drops the merged parts (part_drop).
 *
 * P2 Parts that are not live and that nobody is writing are garbage: part_collect deletes their
 *    blocks, some at a time, and then their rows. After a crash everything not live is garbage.
 * Every block has a part.
 *
 * P3 sequence orders parts of one kind, resolution and day by age: of one key the point of the
 *    greater sequence counts. Merging takes parts that are neighbours in this order and gives the
 *    result the greatest sequence of them.
 *
 * P4 Ids of live parts are never used twice (AUTOINCREMENT), so whoever has something of a part in
 * a cache may use it in any snapshot in which the part is live.
 *
 * P5 Blocks of a part are in the order of their numbers: first_series of one is not below
 * last_series of the one before. */
#ifndef OTLITE_STORE_PART_H
#define OTLITE_STORE_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "block.h"
#include "otlite/db.h"
#include "otlite/err.h"
#include "series_points.h"

enum { PART_BLOCK_BITS = 24 };
#define PART_DAY_NS INT64_C(86400000000000)

/* The UTC day of a time; days before 1970 are negative. */
static inline int64_t part_day(int64_t time)
{
    return time / PART_DAY_NS - (time % PART_DAY_NS < 0);
}

struct part_info {
    int64_t id;
    enum series_kind kind;
    int resolution;
    int64_t day; /* part_day of all its times */
    int64_t sequence;
    int64_t min_time, max_time;
    uint64_t points, blocks, bytes;
};

/* ---- writing: on the write connection, inside its transactions ---- */

/* A new row in `part`, live = 0, of kind, resolution and day of info, with a new id and
 * (info->sequence 0) the next sequence. Fills id and sequence. */
enum otl_err part_create(struct db *db, struct part_info *info,
                         struct otl_error *err) OTL_MUSTCHECK;
/* Insert block `number` (from 0, without gaps) of a part that is being written. */
enum otl_err part_add_block(struct db *db, int64_t part_id, uint32_t number,
                            const struct block_info *info, struct bytes data,
                            struct otl_error *err) OTL_MUSTCHECK;
/* Make it live, with the times and totals in info. OTL_EINTERNAL: it is not being written. */
enum otl_err part_publish(struct db *db, const struct part_info *info,
                          struct otl_error *err) OTL_MUSTCHECK;
/* A part that is live or being written counts no more; its blocks are garbage from here on. */
enum otl_err part_drop(struct db *db, int64_t part_id, struct otl_error *err) OTL_MUSTCHECK;
/* Delete garbage blocks, up to max_bytes of data but one block at least; *left: there may be more.
 * except: ids of parts that are being written, n of them. Costs next to nothing without garbage. */
enum otl_err part_collect(struct db *db, const int64_t *except, size_t n, int64_t max_bytes,
                          bool *left, struct otl_error *err) OTL_MUSTCHECK;

/* ---- the cache: one a process, thread-safe ---- */

struct part_cache;
/* max_bytes: of directories and block bytes together; what is in use may go beyond it. */
struct part_cache *part_cache_new(size_t max_bytes); /* NULL: no memory */
void part_cache_free(struct part_cache *c);
uint64_t part_cache_bytes(const struct part_cache *c);

/* ---- reading: one snapshot of one connection ---- */

struct part_reader;
enum otl_err part_reader_open(struct db *db, struct part_cache *cache, struct part_reader **out,
                              struct otl_error *err) OTL_MUSTCHECK;
void part_reader_close(struct part_reader *r);
/* At the start of every transaction, before anything was written in it: see the parts that are live
 * in it. Cheap when nothing changed. */
enum otl_err part_reader_refresh(struct part_reader *r, struct otl_error *err) OTL_MUSTCHECK;
/* The live parts, by kind, resolution, day, sequence; valid until the next refresh. */
const struct part_info *part_reader_parts(const struct part_reader *r, size_t *n);

/* A chunk that may hold what was asked for. */
struct chunk_ref {
    const struct chunk_summary *summary; /* valid until part_refs_release */
    int64_t sequence;                    /* of its part */
    uint32_t place;                      /* block of the refs: part_refs.blocks[place] */
    uint32_t chunk;                      /* in that block */
};
struct part_block; /* a block in the cache: directory, bytes; pinned while refs hold it */
struct part_refs {
    struct chunk_ref *refs; /* ascending by series, then min_time, then sequence */
    size_t n, cap;
    struct part_block **blocks;
    size_t n_blocks, cap_blocks;
    uint64_t damaged; /* blocks that could not be read: reported to part_damage, and left out */
};

/* All chunks of a kind and resolution that overlap [from, to) of the series in `series` (ascending,
 * n of them; NULL: all). refs is zeroed or was released. */
enum otl_err part_find(struct part_reader *r, enum series_kind kind, int resolution,
                       const int64_t *series, size_t n, int64_t from, int64_t to,
                       struct part_refs *refs, struct otl_error *err) OTL_MUSTCHECK;
void part_refs_release(struct part_reader *r, struct part_refs *refs);
/* From here on chunk_read and part_block_bytes of this block need no connection. Loads the bytes if
 * they are not in the cache. OTL_ECORRUPT as for a chunk. */
enum otl_err part_block_load(struct part_reader *r, struct part_block *b,
                             struct otl_error *err) OTL_MUSTCHECK;
struct bytes part_block_bytes(const struct part_block *b); /* loaded */
const struct block_directory *part_block_directory(const struct part_block *b);
/* Append the chunk's points in [from, to) to out; loads the block. A damaged chunk is reported to
 * part_damage, and counted in refs->damaged; OTL_ECORRUPT, and the caller goes on without it. */
enum otl_err part_read_chunk(struct part_reader *r, struct part_refs *refs, size_t ref,
                             int64_t from, int64_t to, struct series_points *out,
                             struct otl_error *err) OTL_MUSTCHECK;
/* What chunks of one block share, kept from one to the next; zeroed is empty. For any readers and
 * refs, one at a time. */
struct part_memo {
    int64_t block_id;
    struct chunk_memo chunks;
};
/* part_read_chunk for who reads many; memo may be NULL. */
enum otl_err part_read_next(struct part_reader *r, struct part_refs *refs, size_t ref, int64_t from,
                            int64_t to, struct part_memo *memo, struct series_points *out,
                            struct otl_error *err) OTL_MUSTCHECK;

/* Is a point with this key stored in a part? Then out (empty) has it, of the newest sequence. For
 * the writer's look at late points: keeps the chunk it decoded last. */
enum otl_err part_lookup(struct part_reader *r, enum series_kind kind, int64_t series_id,
                         int64_t time, int64_t start_time, struct series_points *out, bool *found,
                         struct otl_error *err) OTL_MUSTCHECK;

/* Where damage goes: once a block and fault to the log, always to the counter damaged_chunks. */
void part_damage(int64_t block_id, int64_t chunk /* -1: the block */, const char *what);

#endif
