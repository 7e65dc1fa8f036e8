/* row_source.h -- rows of cells as a table that SQL can select from, for the point types with many
 * columns and for exemplars: one INSERT ... SELECT for all rows of a request, where a statement a
 * row spent a third of its time on beginning and ending.
 *
 * batch_source.h is the same for number points, which need no cells. */
#ifndef OTLITE_STORE_ROW_SOURCE_H
#define OTLITE_STORE_ROW_SOURCE_H

#include "otlite/db.h"
#include "rows.h"

/* Rows of equally many cells. Zero-initialised is empty; reused by row_list_reset. */
struct row_list {
    struct cell *cells; /* n rows of n_columns */
    size_t cap;         /* cells */
    uint32_t n;
    int n_columns;
    struct buf text; /* what the cells' texts and blobs are parts of */
};

void row_list_fini(struct row_list *l);
void row_list_reset(struct row_list *l, int n_columns);
/* Append a copy of r, which has n_columns cells. False: no memory. */
bool row_list_add(struct row_list *l, const struct row *r);
/* Give back what a large request left. */
void row_list_trim(struct row_list *l, size_t keep_cells);

/* The table row_source of the connection, with columns c0 to c15: the rows of l when a statement is
 * stepped. l must outlive the connection. One select at a time. */
enum otl_err row_source_register(struct db *db, struct row_list *l,
                                 struct otl_error *err) OTL_MUSTCHECK;

#endif
