/* source_table.h -- rows in memory as a table that SQL can select from.
 *
 * One prepared INSERT ... SELECT then stores all rows of a request, which costs half of what a
 * statement a row costs. The tables exist on the write connection only, by the name of their
 * module, and cannot be created in the file. */
#ifndef OTLITE_STORE_SOURCE_TABLE_H
#define OTLITE_STORE_SOURCE_TABLE_H

#include "otlite/db.h"

struct sqlite3_context;

/* The first member of what rows are made from: the next select gives rows first to n - 1. */
struct source_rows {
    uint32_t first, n;
};

struct source_table {
    const char *name, *declaration; /* "batch_source", "CREATE TABLE batch_source(...)" */
    /* Give column col of a row to ctx; a SQLite code. Texts need to live until the next row only.
     */
    int (*column)(struct source_rows *src, struct sqlite3_context *ctx, uint32_t row, int col);
};

/* table and src must outlive the connection. Borrows what src holds while a statement is stepped;
 * one select at a time. */
enum otl_err source_table_register(struct db *db, const struct source_table *table,
                                   struct source_rows *src, struct otl_error *err) OTL_MUSTCHECK;

#endif
