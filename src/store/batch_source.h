/* batch_source.h -- the number points of the current batch as a table that SQL can select from.
 *
 * One prepared INSERT ... SELECT FROM batch_source then inserts all of a request's rows, which
 * costs half of what one INSERT a row costs (design.md, measured figures). The table exists on the
 * write connection only. */
#ifndef OTLITE_STORE_BATCH_SOURCE_H
#define OTLITE_STORE_BATCH_SOURCE_H

#include "otlite/batch.h"
#include "otlite/db.h"

struct source_row {
    int64_t series_id;
    const struct number_point *point;
};

/* What the next select gives: n rows, the first with id first_id, the next with the id after it,
 * and so on. Borrowed by the module; the owner fills it before the statement is stepped. */
struct batch_source {
    const struct source_row *rows;
    uint32_t n;
    int64_t first_id;
};

/* Columns: id, series_id, time, start_time, flags, value. src must outlive the connection. */
enum otl_err batch_source_register(struct db *db, struct batch_source *src,
                                   struct otl_error *err) OTL_MUSTCHECK;

#endif
