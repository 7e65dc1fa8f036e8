/* sql_calls.h -- tables that are called like functions: series_match, windows, rollup. sql_calls.c
 * has what they share; a call says what its arguments are and makes rows, some at a time. */
#ifndef OTLITE_STORE_SQL_CALLS_H
#define OTLITE_STORE_SQL_CALLS_H

#include "row_source.h"
#include "sql_internal.h"

enum { CALL_MAX_ARGS = 5, CALL_BATCH = 256 /* rows or series at a time */ };

struct call_cursor {
    sqlite3_vtab_cursor base; /* first */
    const struct sql_call *call;
    struct read *read;
    struct sqlite3_value *args[CALL_MAX_ARGS]; /* during start; NULL: not given */
    uint64_t columns_used;                     /* bit i: column i */
    struct series_list series;                 /* what the selector selected */
    size_t next;                               /* of series, or of what else rows are made from */
    int64_t from, to, step;
    void *own;      /* the call's, freed by its end */
    struct row row; /* scratch */
    struct row_list rows;
    uint32_t at;
    int64_t rowid;
};

struct sql_call {
    const char *name;
    int n_columns; /* visible; the arguments come behind them, as hidden columns */
    int n_args, n_required;
    const char *const *arg_names;
    const char *declaration;
    /* Look at args, select, prepare. */
    enum otl_err (*start)(struct call_cursor *c, struct otl_error *err);
    /* Append the next rows to c->rows; none: there are no more. */
    enum otl_err (*fill)(struct call_cursor *c, struct otl_error *err);
    /* Free c->own; NULL: it has none. */
    void (*end)(struct call_cursor *c);
};
extern const struct sql_call call_windows; /* sql_windows.c */

/* Arguments. i: which; err names it. */
/* Select the series of argument i, a selector; all when it is NULL. */
enum otl_err call_select(struct call_cursor *c, int i, int64_t project,
                         struct otl_error *err) OTL_MUSTCHECK;
/* Nanoseconds since 1970, a number. */
enum otl_err call_time(struct call_cursor *c, int i, int64_t *out,
                       struct otl_error *err) OTL_MUSTCHECK;
/* A length of time: "5m", "30s", "1h"; a number counts units of unit_ns. At least 1 ns. */
enum otl_err call_duration(struct call_cursor *c, int i, int64_t unit_ns, int64_t *out,
                           struct otl_error *err) OTL_MUSTCHECK;

/* Append one cell to c->row. */
void call_int(struct call_cursor *c, int64_t v);
void call_double(struct call_cursor *c, double d); /* NaN: its bytes */
void call_null(struct call_cursor *c);
void call_text(struct call_cursor *c, struct bytes s);
/* c->row becomes a row, and is empty again. */
enum otl_err call_row(struct call_cursor *c, struct otl_error *err) OTL_MUSTCHECK;

#endif
