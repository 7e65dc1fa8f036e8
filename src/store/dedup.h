/* dedup.h -- which points of a batch are stored already, without an index on the point tables.
 *
 * 1. A point later than its series' last_time (catalogue) is new without another look.
 * 2. Any other is looked up by its key (series, time, start time; H-92): first within the batch,
 *    then in the stored rows by segments. A segment is a run of 4,096 row ids with the time range
 *    of its rows; recent ones also have an index of their keys in memory, so that a late point or a
 *    resend costs a few reads. One without is scanned once, and then has one.
 * Found and equal in every bit: merged, nothing is written. Found with another value: the later one
 * wins, in place (H-93, M-37).
 *
 * Closed segments are rows of point_segment; the latest time of each series is saved in
 * series_last_time every so many rows. A start reads both, and only the rows after them. */
#ifndef OTLITE_STORE_DEDUP_H
#define OTLITE_STORE_DEDUP_H

#include "catalogue.h"
#include "otlite/db.h"
#include "rows.h"

enum {
    DEDUP_SEGMENT_BITS = 12,  /* 4,096 rows */
    DEDUP_MAX_INDEXES = 1024, /* a point table; 32 KiB each */
    /* Save the series' latest times after this many rows, or four times the number of series. */
    DEDUP_SAVE_ROWS = 1 << 18
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

struct dedup_table {
    struct dedup_segment *segments; /* by id; the last one is still open */
    uint32_t n, cap;
    uint32_t n_persisted; /* the first ones, which are in point_segment */
    int64_t last_id;
    int64_t saved_id; /* series_last_time holds the times up to this row */
    struct sqlite3_stmt *scan;
    uint32_t indexes[DEDUP_MAX_INDEXES]; /* ring of segments that have one, oldest first */
    uint32_t first_index, n_indexes;

    /* As it was before the transaction. */
    struct {
        uint32_t n, n_persisted;
        int64_t last_id, saved_id;
        struct dedup_segment last;
    } before;
};

struct dedup_entry; /* one key of the batch */

struct dedup_update {
    int64_t id;     /* stored row */
    uint32_t point; /* of the batch, whose values it gets */
};

/* What to do with the points of one type. */
struct dedup_plan {
    uint32_t *insert; /* points to insert, in order */
    uint32_t n_insert;
    struct dedup_update *update;
    uint32_t n_update;
    uint64_t merged, replaced;
    uint32_t replaced_example; /* a point that replaced another, when replaced > 0 */
};

struct dedup {
    struct db *db;
    struct catalogue *cat;
    uint64_t seed; /* of the hash of keys; a sender must not know it */
    struct dedup_table tables[POINT_KINDS];
    struct sqlite3_stmt *insert_segment, *save_times;
    struct buf times;
    /* Scratch of dedup_resolve. */
    struct dedup_entry *entries;
    uint32_t *slots;
    struct dedup_candidate *candidates;
    struct dedup_plan plan;
    size_t cap_points, n_slots;
};

/* How the caller compares values: a point of the batch with the stored row of that id, and two
 * points of the batch with each other. */
struct dedup_compare {
    void *arg;
    enum otl_err (*stored)(void *arg, uint32_t point, int64_t id, bool *equal,
                           struct otl_error *err);
    enum otl_err (*points)(void *arg, uint32_t a, uint32_t b, bool *equal, struct otl_error *err);
};

/* Prepare the statements and read what is stored; the catalogue has been loaded. */
enum otl_err dedup_open(struct dedup *d, struct db *db, struct catalogue *cat,
                        struct otl_error *err) OTL_MUSTCHECK;
void dedup_close(struct dedup *d);
/* Take in rows that another process appended. Between transactions of dedup_begin. */
enum otl_err dedup_refresh(struct dedup *d, struct otl_error *err) OTL_MUSTCHECK;

void dedup_begin(struct dedup *d);
/* Plan n points of a type. series[i] is the catalogue's entry of keys[i]; late[i]: the point was
 * not later than its series' last_time, so it has to be looked up. The plan is valid until the
 * next call. */
enum otl_err dedup_resolve(struct dedup *d, enum point_kind kind, const struct dedup_key *keys,
                           const uint32_t *series, const bool *late, uint32_t n,
                           const struct dedup_compare *cmp, const struct dedup_plan **out,
                           struct otl_error *err) OTL_MUSTCHECK;
/* n rows were inserted with the ids from dedup_next_id on, and the keys keys[which[0]],
 * keys[which[1]], ..., or (which NULL) keys[0], keys[1], ... They are found from here on. */
enum otl_err dedup_append(struct dedup *d, enum point_kind kind, const struct dedup_key *keys,
                          const uint32_t *which, uint32_t n, struct otl_error *err) OTL_MUSTCHECK;
/* Write segments that were closed and, when due, the series' latest times. Last in a transaction.
 */
enum otl_err dedup_persist(struct dedup *d, struct otl_error *err) OTL_MUSTCHECK;
void dedup_rollback(struct dedup *d);

static inline int64_t dedup_next_id(const struct dedup *d, enum point_kind kind)
{
    return d->tables[kind].last_id + 1;
}

#endif
