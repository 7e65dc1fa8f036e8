/* series_source.h -- series that are in the catalogue's memory but not in the file yet, as a table
 * that SQL can select from: one INSERT ... SELECT stores all the new ones of a request. The table
 * exists on the write connection only. */
#ifndef OTLITE_STORE_SERIES_SOURCE_H
#define OTLITE_STORE_SERIES_SOURCE_H

#include "dict.h"
#include "otlite/bytes.h"
#include "otlite/db.h"

/* What the next select gives: a row for each entry from first to n - 1. Borrowed by the module; the
 * owner fills it before the statement is stepped. */
struct series_source {
    const struct dict *series;
    uint32_t first, n;
    struct buf text; /* scratch; the owner's to free */
};

/* Columns: metric_id, attributes, identity. src must outlive the connection. */
enum otl_err series_source_register(struct db *db, struct series_source *src,
                                    struct otl_error *err) OTL_MUSTCHECK;

#endif
