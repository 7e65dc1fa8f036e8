/* row_source.h -- rows of cells as a table (source_table.h), for the point types with many columns
 * and for exemplars. batch_source.h is the same for number points, which need no cells. */
#ifndef OTLITE_STORE_ROW_SOURCE_H
#define OTLITE_STORE_ROW_SOURCE_H

#include "rows.h"
#include "source_table.h"

/* Rows of equally many cells. Zero-initialised is empty; reused by row_list_reset. */
struct row_list {
    struct source_rows rows; /* first; from 0 on */
    struct cell *cells;      /* rows.n of n_columns each */
    size_t cap;              /* cells */
    int n_columns;
    struct buf text; /* what the cells' texts and blobs are parts of */
};

void row_list_fini(struct row_list *l);
void row_list_reset(struct row_list *l, int n_columns);
/* Append a copy of r, which has n_columns cells. False: no memory. */
bool row_list_add(struct row_list *l, const struct row *r);
/* Give back what a large request left. */
void row_list_trim(struct row_list *l, size_t keep_cells);

/* Give column col (below n_columns) of a row to ctx. Without copy, texts are borrowed until the list
 * changes. */
struct sqlite3_context;
void row_list_result(const struct row_list *l, struct sqlite3_context *ctx, uint32_t row, int col,
                     bool copy);

/* The table row_source of the connection, with columns c0 to c15: the rows of l when a statement is
 * stepped. l must outlive the connection. */
enum otl_err row_source_register(struct db *db, struct row_list *l,
                                 struct otl_error *err) OTL_MUSTCHECK;

#endif
