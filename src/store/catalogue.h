/* catalogue.h -- resources, scopes, metrics, series and histogram bounds: the tables, and their
 * mirror in memory that turns identities into row ids.
 *
 * Used inside the store's write transaction only. catalogue_begin, then for each batch of the
 * transaction catalogue_resolve and catalogue_bounds, then catalogue_commit or catalogue_rollback
 * with the transaction, so that the mirror never holds an id that is not committed (I7). */
#ifndef OTLITE_STORE_CATALOGUE_H
#define OTLITE_STORE_CATALOGUE_H

#include "dict.h"
#include "otlite/batch.h"
#include "otlite/db.h"
#include "rows.h"
#include "series_source.h"

/* A note as it was before the transaction changed it. */
struct catalogue_undo {
    struct dict *dict;
    uint32_t entry;
    union dict_note note;
};

/* A series' latest time as it was; of these there is one a point. */
struct catalogue_time {
    int64_t last_time;
    uint32_t entry;
};

/* A series that the transaction deleted, and what was above it. */
struct catalogue_gone {
    int64_t parent;
    uint32_t entry;
};

enum {
    CAT_RESOURCE,
    CAT_SCOPE,
    CAT_METRIC,
    CAT_SERIES,
    CAT_BOUNDS,
    CAT_TABLES,
    CAT_NAMES = CAT_TABLES, /* (scope, metric name): no table, only the mirror */
    CAT_DICTS
};

/* No metric has this id. */
#define CATALOGUE_NO_PARENT INT64_MIN

struct catalogue {
    struct db *db;
    struct dict dicts[CAT_DICTS];
    uint32_t mark[CAT_DICTS]; /* sizes when the transaction began */
    uint32_t batch_mark;      /* series when the batch began */
    struct catalogue_undo *undo;
    size_t n_undo, cap_undo;
    struct catalogue_time *times;
    size_t n_times, cap_times;
    struct catalogue_gone *gone;
    size_t n_gone, cap_gone;
    uint32_t forgotten; /* series in memory whose row was deleted */
    struct sqlite3_stmt *load[CAT_TABLES], *insert[CAT_TABLES];
    struct series_source source;
    struct sqlite3_stmt *insert_series; /* all of source, with the ids after the greatest */
    /* The greatest id in the table is that of the last series in memory. Not so when another
     * process deleted the newest. */
    bool series_follow;
    struct sqlite3_stmt *update_resource, *update_scope, *update_description, *update_metadata;
    struct buf key, text; /* scratch */

    /* Of the batch being resolved, by its indexes; DICT_NONE: not looked at yet. */
    uint32_t *resources, *scopes, *metrics, *series;
    size_t cap_resources, cap_scopes, cap_metrics, cap_series;
    /* Metrics of the batch whose name is in use with another unit, type or temporality. */
    uint64_t conflicts;
    struct bytes conflict_example;
};

/* Prepare the statements; nothing is read yet. */
enum otl_err catalogue_open(struct catalogue *c, struct db *db,
                            struct otl_error *err) OTL_MUSTCHECK;
void catalogue_close(struct catalogue *c);

/* Read the rows that are not in the mirror: everything at start, later what other processes
 * added. Outside of begin and commit. New series have no last_time. */
enum otl_err catalogue_load(struct catalogue *c, struct otl_error *err) OTL_MUSTCHECK;

void catalogue_begin(struct catalogue *c);
void catalogue_commit(struct catalogue *c);
void catalogue_rollback(struct catalogue *c);

/* Find or create the rows of every series of b; c->series[i] is then the entry of b->series[i].
 * Columns that are not identity are brought up to date. A series that has a number is not looked
 * up; one that has none gets it when it was stored before this transaction. Afterwards
 * catalogue_set_last_time may be called once a point of b. */
enum otl_err catalogue_resolve(struct catalogue *c, int64_t project_id, struct batch *b,
                               struct otl_error *err) OTL_MUSTCHECK;

/* The id of a list of histogram bounds, created when it is new. */
enum otl_err catalogue_bounds(struct catalogue *c, const double *bounds, uint32_t n, int64_t *out,
                              struct otl_error *err) OTL_MUSTCHECK;

static inline struct dict_entry *catalogue_series(struct catalogue *c, uint32_t entry)
{
    return &c->dicts[CAT_SERIES].entries[entry];
}

/* The series was created for the batch that was resolved last, so no other point of it is stored.
 */
static inline bool catalogue_is_new(const struct catalogue *c, uint32_t entry)
{
    return entry >= c->batch_mark;
}

/* The row of the series is deleted in this transaction: nothing finds its entry any more, and what
 * comes for it makes a new one. False: no memory, nothing changed. */
bool catalogue_forget(struct catalogue *c, uint32_t entry);
static inline bool catalogue_is_forgotten(const struct catalogue *c, uint32_t entry)
{
    return c->dicts[CAT_SERIES].entries[entry].parent == CATALOGUE_NO_PARENT;
}

static inline void catalogue_set_last_time(struct catalogue *c, uint32_t entry, int64_t time)
{
    struct dict_entry *e = catalogue_series(c, entry);

    if (entry < c->mark[CAT_SERIES])
        c->times[c->n_times++] = (struct catalogue_time){e->note.series.last_time, entry};
    e->note.series.last_time = time;
}

#endif
