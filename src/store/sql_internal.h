/* sql_internal.h -- what the files of the virtual tables share.
 *
 * One struct read serves all cursors of a connection that are open at the same time: SQLite keeps
 * one snapshot of a connection as long as any of its statements runs, and a cursor is only open
 * inside a statement. It begins with the first cursor that reads and ends with the last one that
 * closes.
 *
 * Errors of read.h reach SQLite as the table's message, and stay in sql_tables.error for who needs
 * the code (sql_last_error). */
#ifndef OTLITE_STORE_SQL_INTERNAL_H
#define OTLITE_STORE_SQL_INTERNAL_H

#include <sqlite3.h>

#include "otlite/sql.h"

struct sql_tables {
    struct db db; /* borrowed: the connection that owns this */
    struct read_shared *shared;
    bool own_shared;
    struct read_session *session; /* NULL until first needed, and when nothing is connected */
    struct read *read;            /* NULL when no cursor reads */
    struct read_limits limits;
    struct otl_error error;
    unsigned cursors;   /* open */
    unsigned connected; /* tables that SQLite has connected */
    /* Resources up to this id are all of this project (sql_only_project). */
    int64_t only_project, only_up_to;
};

/* A table of a module, for xConnect to fill and xDisconnect to free. */
struct sql_table {
    sqlite3_vtab base; /* first: SQLite sees only this */
    struct sql_tables *t;
    const void *what; /* the module's own */
};
/* What a module has as its aux. */
struct sql_aux {
    struct sql_tables *t;
    const void *what;
};

/* Register a module under name; what and declaration are static. */
int sql_add_module(struct sql_tables *t, const char *name, const sqlite3_module *m,
                   const void *what);
int sql_table_connect(sqlite3 *sql, const struct sql_aux *aux, const char *declaration,
                      sqlite3_vtab **out);
int sql_table_disconnect(sqlite3_vtab *table);

void sql_cursor_opened(struct sql_tables *t);
void sql_cursor_closed(struct sql_tables *t);
/* The read of the snapshot that the running statement has. */
enum otl_err sql_read(struct sql_tables *t, struct read **out, struct otl_error *err) OTL_MUSTCHECK;
/* err becomes the table's message; gives SQLite's code. */
int sql_table_fail(sqlite3_vtab *table, const struct otl_error *err);

/* Whether all resources are of one project. */
enum otl_err sql_only_project(struct sql_tables *t, int64_t project, bool *out,
                              struct otl_error *err) OTL_MUSTCHECK;

/* The modules and functions, each in its file. SQLite codes. */
int sql_points_register(struct sql_tables *t);
int sql_calls_register(struct sql_tables *t);
int sql_functions_register(sqlite3 *sql);

#endif
