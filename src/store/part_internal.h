/* part_internal.h -- what part_cache.c, part_reader.c, part_find.c and part_lookup.c share.
 *
 * Of every part that was looked into the cache has one list: its block rows, and of each block that
 * was opened the directory and perhaps the bytes. Lists are kept as long as a reader has the part
 * among its live ones, or has a block of it pinned. */
#ifndef OTLITE_STORE_PART_INTERNAL_H
#define OTLITE_STORE_PART_INTERNAL_H

#include <stdatomic.h>

#include "part.h"

/* A row of table `block`, but for the data. */
struct block_row {
    uint32_t number;
    int64_t first_series, last_series;
    int64_t min_time, max_time;
    uint64_t points;
};

/* Rows are in the order of series (P5) and never change; blocks and refs are guarded by the cache's
 * mutex. */
struct part_list {
    int64_t id;
    enum series_kind kind;
    uint32_t n, cap;
    struct block_row *rows;
    uint64_t damaged;           /* blocks that are missing, or whose row cannot be right */
    struct part_block **blocks; /* by place in rows; NULL: not opened */
    size_t refs;
    struct part_list *next; /* of the same hash */
};

/* Place in a list of what may be evicted, most recently used first. */
struct cache_link {
    struct part_block *prev, *next;
};

struct part_block {
    struct part_list *list;
    uint32_t at; /* list->rows[at] */
    struct block_directory directory;
    _Atomic(uint8_t *) data; /* NULL: not loaded; set once while pinned */
    size_t data_n;           /* written before data */
    size_t pins;             /* guarded by the cache's mutex, like the links */
    struct cache_link by_directory, by_data;
};

static inline int64_t part_block_id(const struct part_block *b)
{
    return b->list->id << PART_BLOCK_BITS | b->list->rows[b->at].number;
}

/* ---- part_cache.c ---- */

/* An empty list, to which rows are added and which is then closed; all of it is false, or NULL,
 * when there is no memory. */
struct part_list *part_list_new(int64_t id, enum series_kind kind);
bool part_list_add(struct part_list *l, const struct block_row *row) OTL_MUSTCHECK;
bool part_list_close(struct part_list *l) OTL_MUSTCHECK;
void part_list_free(struct part_list *l); /* one that the cache never had */
/* A reference to the part's list, or NULL. */
struct part_list *part_cache_list(struct part_cache *c, int64_t id);
/* Takes l; gives a reference to it, or to the one that another thread brought meanwhile. */
struct part_list *part_cache_add_list(struct part_cache *c, struct part_list *l);
void part_cache_put_list(struct part_cache *c, struct part_list *l);

/* The block at a place of a list that is held, pinned; NULL: it must be opened. */
struct part_block *part_cache_pin(struct part_cache *c, struct part_list *l, uint32_t at);
/* Takes d (on success); gives the block pinned, whoever opened it. NULL: no memory. */
struct part_block *part_cache_add(struct part_cache *c, struct part_list *l, uint32_t at,
                                  struct block_directory *d);
/* Takes data, malloced. b is pinned. */
void part_cache_set_data(struct part_cache *c, struct part_block *b, uint8_t *data, size_t n);
void part_cache_unpin(struct part_cache *c, struct part_block *const *blocks, size_t n);

/* ---- part_reader.c ---- */

struct part_reader {
    struct db *db;
    struct part_cache *cache;
    struct sqlite3_stmt *generation_st, *parts_st, *rows_st, *data_st;
    struct sqlite3_blob *blob; /* moved from block to block during one call, NULL between calls */
    struct buf head;           /* what was read of it */
    bool refreshed;
    int64_t generation;
    /* The live parts and, of those looked into, their lists (else NULL). */
    struct part_info *parts;
    struct part_list **lists;
    size_t n;
    int64_t days; /* the most days that a part goes on after its own; 0 but for oddities */
    /* part_lookup's: the points of the chunk decoded last. */
    struct series_points points;
    int64_t points_block; /* id; 0: none */
    uint32_t points_chunk;
};

/* The parts that may hold points of a kind and resolution in [first_day, last_day]: places from
 * *at, *n of them. */
void part_reader_range(const struct part_reader *r, enum series_kind kind, int resolution,
                       int64_t first_day, int64_t last_day, size_t *at, size_t *n);
/* The list of part i; borrowed from r until the next refresh. */
enum otl_err part_reader_list(struct part_reader *r, size_t i, struct part_list **out,
                              struct otl_error *err) OTL_MUSTCHECK;
/* First row from `from` on whose last_series is not below series_id, or l->n. Fast when it is near.
 */
uint32_t part_list_seek(const struct part_list *l, uint32_t from, int64_t series_id);
/* ---- part_find.c ---- */

/* A block opened and pinned. OTL_ECORRUPT: damaged; it was reported. */
enum otl_err part_reader_open_block(struct part_reader *r, struct part_list *l, uint32_t at,
                                    struct part_block **out, struct otl_error *err) OTL_MUSTCHECK;
/* Let go of what opening blocks left open: at the end of each call. */
void part_reader_end(struct part_reader *r);
/* Append the points of a chunk of a pinned block in [from, to) to out. OTL_ECORRUPT: reported. */
enum otl_err part_block_read(struct part_reader *r, struct part_block *b, uint32_t chunk,
                             int64_t from, int64_t to, struct chunk_memo *memo,
                             struct series_points *out, struct otl_error *err) OTL_MUSTCHECK;

#endif
