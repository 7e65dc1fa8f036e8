/* dedup.h -- which points of a batch are stored already, without an index on the tables.
 *
 * 1. A point later than its series' last_time (catalogue) is new without another look.
 * 2. Any other is looked up by its key (series, time, start time; H-92): first within the batch,
 * then in the halves of the head by segments. A segment is a run of 4,096 row ids of a half with
 * the time range of its rows; recent ones also have an index of their keys in memory, so that a
 * late point or a resend costs a few reads. One without is scanned once, and then has one. Found
 * and equal in every bit: merged, nothing is written. Found with another value: the later one wins
 * (H-93, M-37): it is appended, and counts before the older row (head.h, H2).
 *
 * The segments are made at a start from the rows of the halves, which are bounded (head_write.h),
 * without indexes.
 */
#ifndef OTLITE_STORE_DEDUP_H
#define OTLITE_STORE_DEDUP_H

#include "catalogue.h"
#include "head.h"
#include "otlite/db.h"
#include "rows.h"

enum {
    DEDUP_SEGMENT_BITS = 12, /* 4,096 rows */
    DEDUP_MAX_INDEXES = 1024 /* a half; 32 KiB each */
};

struct dedup_key {
    int64_t series_id;
    int64_t time;
    int64_t start_time;
};

struct dedup_segment {
    int64_t first_id, last_id;
    int64_t min_time, max_time;
    uint32_t *index; /* of all its rows, or NULL; see dedup.c */
};

/* One half of a kind. */
struct dedup_table {
    struct dedup_segment *segments; /* by id; the last one is still open */
    uint32_t n, cap;
    int64_t last_id; /* of the rows that are in segments */
    struct sqlite3_stmt *scan;
    uint32_t indexes[DEDUP_MAX_INDEXES]; /* ring of segments that have one, oldest first */
    uint32_t first_index, n_indexes;

    /* As it was before the transaction. */
    struct {
        uint32_t n;
        int64_t last_id;
        struct dedup_segment last;
    } before;
};

struct dedup_entry; /* one key of the batch */

/* What to do with the points of one kind. */
struct dedup_plan {
    uint32_t *insert; /* points to append, in order */
    uint32_t n_insert;
    uint32_t *replacing; /* those of them whose key is stored with another value */
    uint32_t n_replacing;
    uint64_t merged, replaced;
    uint32_t replaced_example; /* a point that replaced another, when replaced > 0 */
};

struct dedup {
    struct db *db;
    struct catalogue *cat;
    uint64_t seed; /* of the hash of keys; a sender must not know it */
    struct dedup_table tables[POINT_KINDS][HEAD_HALVES];
    /* Scratch of dedup_resolve. */
    struct dedup_entry *entries;
    uint32_t *slots;
    struct dedup_candidate *candidates;
    struct dedup_plan plan;
    size_t cap_points, n_slots;
};

/* How the caller compares values: a point of the batch with the stored row of that half and id, and
 * two points of the batch with each other. */
struct dedup_compare {
    void *arg;
    enum otl_err (*stored)(void *arg, uint32_t point, int half, int64_t id, bool *equal,
                           struct otl_error *err);
    /* A point of the batch that is in no half: is its key in a part, and with the same value? */
    enum otl_err (*sealed)(void *arg, uint32_t point, bool *found, bool *equal,
                           struct otl_error *err);
    enum otl_err (*points)(void *arg, uint32_t a, uint32_t b, bool *equal, struct otl_error *err);
};

/* Prepare the statements; no rows are known yet. */
enum otl_err dedup_open(struct dedup *d, struct db *db, struct catalogue *cat,
                        struct otl_error *err) OTL_MUSTCHECK;
void dedup_close(struct dedup *d);

void dedup_begin(struct dedup *d);
void dedup_rollback(struct dedup *d);
/* n rows are in a half with the ids from first_id on, which is greater than all before, and the
 * keys keys[which[0]], keys[which[1]], ..., or (which NULL) keys[0], keys[1], ... They are found
 * from here on. Within a transaction. */
enum otl_err dedup_append(struct dedup *d, enum point_kind kind, int half, int64_t first_id,
                          const struct dedup_key *keys, const uint32_t *which, uint32_t n,
                          struct otl_error *err) OTL_MUSTCHECK;
/* The same of one row that is read back. Its segment has no index until it is asked for: after a
 * start most never are, and an index takes a fifth of what the head takes in memory. */
enum otl_err dedup_load(struct dedup *d, enum point_kind kind, int half, int64_t id,
                        const struct dedup_key *key, struct otl_error *err) OTL_MUSTCHECK;
/* The rows of a half do not count any more. */
void dedup_forget(struct dedup *d, enum point_kind kind, int half);
/* Plan n points of a kind whose open half is given. series[i] is the catalogue's entry of keys[i];
 * late[i]: the point was not later than its series' last_time, so it has to be looked up. The plan
 * is valid until the next call. */
enum otl_err dedup_resolve(struct dedup *d, enum point_kind kind, int open_half,
                           const struct dedup_key *keys, const uint32_t *series, const bool *late,
                           uint32_t n, const struct dedup_compare *cmp,
                           const struct dedup_plan **out, struct otl_error *err) OTL_MUSTCHECK;

#endif
