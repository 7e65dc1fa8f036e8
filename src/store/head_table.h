/* head_table.h -- the states of the halves as table `head` has them (head.h), for the head's own
 * files. */
#ifndef OTLITE_STORE_HEAD_TABLE_H
#define OTLITE_STORE_HEAD_TABLE_H

#include "head.h"

/* mirror_row.value_kind of a row that another program wrote and no point can be; it is skipped. */
enum { MIRROR_NO_POINT = 3 };

enum head_state_name { HEAD_OPEN, HEAD_CLOSED, HEAD_SEALED };

/* Epochs stay below this, so that (epoch, id) fits in an int64 (the views' ids). */
#define HEAD_MAX_EPOCH (INT64_C(1) << 23)

struct head_state {
    int64_t epoch;
    enum head_state_name state;
};

/* What to select of a head table to get its rows as the mirror has them, and the columns' places.
 * The last is the value of a number; of other kinds, how long the row's texts are. */
extern const char *const head_scan_columns[HEAD_KINDS];
enum { SCAN_ID, SCAN_SERIES, SCAN_TIME, SCAN_START, SCAN_FLAGS, SCAN_VALUE };
/* The row that st stands on. A series id that cannot be is 0; what is no value or no flags has
 * value_kind MIRROR_NO_POINT. `previous` is 0. */
void head_scan_row(struct sqlite3_stmt *st, enum series_kind kind, struct mirror_row *out);

extern const char HEAD_STATES_SQL[];
/* All of them, in the snapshot that st, a statement of HEAD_STATES_SQL, is stepped in. OTL_ECORRUPT
 * when they cannot be: of each kind exactly one half is open, and no two have one epoch. */
enum otl_err head_states(struct db *db, struct sqlite3_stmt *st,
                         struct head_state out[HEAD_KINDS][HEAD_HALVES],
                         struct otl_error *err) OTL_MUSTCHECK;

/* On the write connection, inside its transaction. OTL_EINTERNAL: the half is not in the state. */
enum otl_err head_open(struct db *db, enum series_kind kind, int half, int64_t old_epoch,
                       int64_t epoch, struct otl_error *err) OTL_MUSTCHECK;
enum otl_err head_close(struct db *db, enum series_kind kind, int half, int64_t epoch,
                        struct otl_error *err) OTL_MUSTCHECK;
enum otl_err head_is_empty(struct db *db, enum series_kind kind, int half, bool *out,
                           struct otl_error *err) OTL_MUSTCHECK;

#endif
