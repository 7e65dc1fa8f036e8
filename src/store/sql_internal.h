/* sql_internal.h -- what the files of SQL for people share. */
#ifndef OTLITE_STORE_SQL_INTERNAL_H
#define OTLITE_STORE_SQL_INTERNAL_H

#include <sqlite3.h>

#include "otlite/sql.h"

struct sql_tables {
    struct db db; /* borrowed: the connection that owns this */
    struct read_shared *shared;
    struct read_limits limits;
    struct otl_error error;
    /* Resources up to this id are all of this project (sql_only_project). */
    int64_t only_project, only_up_to;
};

/* Whether all resources are of one project. */
enum otl_err sql_only_project(struct sql_tables *t, int64_t project, bool *out,
                              struct otl_error *err) OTL_MUSTCHECK;

/* SQLite code. */
int sql_functions_register(sqlite3 *sql);

#endif
