/* batch_source.h -- the number points of the current batch as a table that SQL can select from.
 *
 * One prepared INSERT ... SELECT FROM batch_source then inserts all of a request's rows, which
 * costs half of what one INSERT a row costs (design.md, measured figures). The table exists on the
 * write connection only. */
#ifndef OTLITE_STORE_BATCH_SOURCE_H
#define OTLITE_STORE_BATCH_SOURCE_H

#include "dedup.h"
#include "otlite/batch.h"
#include "otlite/db.h"

/* What the next select gives: a row of point which[i], or (which NULL) of point i, for each i from
 * first to n - 1. A point has the series_id of the key at its own place. Borrowed by the module;
 * the owner fills it before the statement is stepped. */
struct batch_source {
    const struct dedup_key *keys;
    const struct number_point *points;
    const uint32_t *which;
    uint32_t first, n;
};

/* Columns: series_id, time, start_time, flags, value. src must outlive the connection. One select
 * at a time. */
enum otl_err batch_source_register(struct db *db, struct batch_source *src,
                                   struct otl_error *err) OTL_MUSTCHECK;

#endif
