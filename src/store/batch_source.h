/* batch_source.h -- the number points of the current batch as a table (source_table.h). */
#ifndef OTLITE_STORE_BATCH_SOURCE_H
#define OTLITE_STORE_BATCH_SOURCE_H

#include "dedup.h"
#include "otlite/batch.h"
#include "source_table.h"

/* A row of point which[i], or (which NULL) of point i, for each i of rows. A point has the
 * series_id of the key at its own place. Borrows all; the owner fills it before the statement is
 * stepped. */
struct batch_source {
    struct source_rows rows; /* first */
    const struct dedup_key *keys;
    const struct number_point *points;
    const uint32_t *which;
};

/* Columns: series_id, time, start_time, flags, value. src must outlive the connection. */
enum otl_err batch_source_register(struct db *db, struct batch_source *src,
                                   struct otl_error *err) OTL_MUSTCHECK;

#endif
