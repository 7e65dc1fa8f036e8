/* series_source.h -- series that are in the catalogue's memory but not in the file yet, as a table
 * (source_table.h). */
#ifndef OTLITE_STORE_SERIES_SOURCE_H
#define OTLITE_STORE_SERIES_SOURCE_H

#include "dict.h"
#include "otlite/bytes.h"
#include "source_table.h"

/* A row for each entry of rows. The owner fills it before the statement is stepped. */
struct series_source {
    struct source_rows rows; /* first */
    const struct dict *series;
    struct buf text; /* scratch; the owner's to free */
};

/* Columns: metric_id, attributes, identity. src must outlive the connection. */
enum otl_err series_source_register(struct db *db, struct series_source *src,
                                    struct otl_error *err) OTL_MUSTCHECK;

#endif
