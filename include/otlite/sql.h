/* sql.h -- SQL for people: the virtual tables and functions that stand on read.h, the guard that
 * lets only reading through, and one query with limits as POST /api/v1/sql runs it. docs/schema.md
 * has the tables and functions. */
#ifndef OTLITE_SQL_H
#define OTLITE_SQL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "otlite/bytes.h"
#include "otlite/db.h"
#include "otlite/err.h"
#include "otlite/read.h"

/* ---- tables and functions ---- */

/* Those of one connection, which owns it: valid until db_close. */
struct sql_tables;
/* Register them with the connection, in place of what was registered before (of which nothing is in
 * use). shared is borrowed until db_close; NULL: one of the
 * connection's own, made when a table is first read. */
enum otl_err sql_register(struct db *db, struct read_shared *shared, struct sql_tables **out,
                          struct otl_error *err) OTL_MUSTCHECK;
/* For what runs next; NULL: none. Copied, all but what cancel points to. */
void sql_set_limits(struct sql_tables *t, const struct read_limits *limits);
/* The error behind the SQLite error of a statement that failed in one of the tables; OTL_OK: it
 * failed elsewhere. */
enum otl_err sql_last_error(const struct sql_tables *t, struct otl_error *err);

/* ---- the guard ---- */

/* SELECT, EXPLAIN, functions that touch nothing, and pragmas that only tell something. Everything
 * else is refused when it is prepared. */
struct sql_guard {
    bool remote;    /* for a client: no transactions, no checks of the whole file either */
    char what[200]; /* what was refused last, "ATTACH", "PRAGMA query_only with a value"; "" nothing
                     */
};
/* Installs it on the connection, in place of another one; g outlives it. NULL takes it away. */
void sql_guard(struct db *db, struct sql_guard *g);

/* ---- values as text ---- */

struct sqlite3_stmt;
/* Column col of the current row. JSON: BLOBs are base64, infinities 9.0e+999, which readers of JSON
 * take for infinite. CSV: a field as buf_add_csv_field writes it, NULL is nothing. */
void sql_add_json(struct buf *b, struct sqlite3_stmt *st, int col);
void sql_add_csv(struct buf *b, struct sqlite3_stmt *st, int col);
/* TEXT or BLOB, numbers as SQLite prints them; valid until the statement moves on. */
struct bytes sql_column(struct sqlite3_stmt *st, int col);
/* Where in text the byte at `at` is: "line 2, column 8", both from 1, columns in bytes. */
void sql_place(const char *text, size_t at, size_t *line, size_t *column);

/* ---- one query ---- */

struct sql_query {
    struct bytes body; /* borrowed */
    bool
        is_json; /* body is {"sql": TEXT, "params": [...], "limit": N, "timeout": "5s"}, else SQL */
    bool csv;    /* answer; else JSON */
    int64_t project;    /* refuse with OTL_EFORBIDDEN when there are resources of another; 0: any */
    int64_t timeout_ms; /* at most; the body may ask for less */
    uint64_t max_rows;
    size_t max_bytes;          /* of the answer */
    size_t max_memory;         /* of results and scratch in read.h, and of SQLite */
    const atomic_bool *cancel; /* may be NULL */
};
/* Inside a read transaction on the connection. Appends the answer to out, {"columns": [...],
 * "rows":
 * [[...]], "truncated": BOOL, "elapsed_ms": N} or CSV with a line of names. *truncated: there were
 * more rows than limit or bytes allow. OTL_EBADREQUEST: what is wrong with the query, at which
 * place; OTL_ELATE, OTL_ECANCELLED, OTL_ETOOBIG: a limit; out is then of no use. */
enum otl_err sql_answer(struct db *db, struct sql_tables *t, const struct sql_query *q,
                        struct buf *out, bool *truncated, struct otl_error *err) OTL_MUSTCHECK;

#endif
