/* head.h -- the head: the newest points as plain rows, and their mirror in memory.
 *
 * Each kind of point (and the exemplars) has two tables of the same columns, its halves:
 * number_head_0 and number_head_1, histogram_head_0, ... One is open and takes all new rows; when
 * it is large or old enough it is closed, and the other one, empty by then, is opened. A closed
 * half is sealed into a part (part.h) and then emptied. Table `head` has a row a half:
 *
 * - epoch counts up each time that the half is opened anew; (kind, half, epoch) names one set of
 *   rows.
 *
 * - state: 'open', 'closed', or 'sealed': its rows are in a live part now and do not count any
 * more, or there are none.
 *
 * Invariants:
 *
 * H1 Rows are only ever appended. Ids are 1, 2, 3, ... from the first row of an epoch on.
 *
 * H2 Of rows with the same key (series, time, start_time) the one of the newer epoch counts, in it
 *    the one with the greater id. A row of the head counts before a point of any part.
 *
 * H3 `state` turns to 'sealed' in the transaction that makes the part live which holds the rows. So
 * a snapshot sees each point in exactly one of the two.
 *
 * H4 The mirror holds rows 1 to n of each half that is not sealed, n never more than what is
 *    committed. It is extended after each commit, before the answer. A reader whose snapshot has
 * more rows than the mirror reads the rest from the table; one whose epoch the mirror has dropped,
 * all of them.
 *
 * H5 What the mirror holds of a row never changes; a reader that holds a reference may read it
 *    without a lock.
 *
 * This file is for the store (writing), sealing and read.h's implementation.
 */
#ifndef OTLITE_STORE_HEAD_H
#define OTLITE_STORE_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "otlite/db.h"
#include "otlite/err.h"
#include "rows.h"
#include "series_points.h"

/* Head kinds: the four of points, and KIND_EXEMPLAR. */
enum { HEAD_KINDS = KIND_EXEMPLAR + 1, HEAD_HALVES = 2 };

/* Tables of a kind: "number_head_0". */
const char *head_table_name(enum series_kind kind, int half);

/* ---- the mirror ---- */

/* One row of a half. For numbers the whole row; of other kinds the key, and the rest is read from
 * the table by id. Row i (0-based) has id i + 1. */
struct mirror_row {
    int64_t time, start_time;
    int64_t value;     /* numbers: int64 or bits */
    uint32_t series;   /* low 32 bits of series_id (ids stay below 2^32) */
    uint32_t previous; /* row + 1 of the row before of the same series, 0: none */
    uint32_t flags;
    uint32_t value_kind; /* enum value_kind */
};

/* Of one half in one epoch. Rows lie in pages of MIRROR_PAGE_ROWS that never move. */
enum { MIRROR_PAGE_ROWS = 1 << 14 };
struct mirror_half;

int64_t mirror_half_epoch(const struct mirror_half *m);
/* Rows that may be read: at least what a snapshot taken before the call can see, as far as H4 goes.
 */
uint32_t mirror_half_rows(const struct mirror_half *m);
const struct mirror_row *mirror_half_row(const struct mirror_half *m, uint32_t i);
/* Row + 1 of the newest row of a series (may be one that came after mirror_half_rows was asked:
 * skip by .previous), 0: none. */
uint32_t mirror_half_newest(const struct mirror_half *m, int64_t series_id);

/* The mirror of all kinds; made by the store, shared with readers. Thread-safe. */
struct head_mirror;
struct head_mirror *head_mirror_new(void); /* NULL: no memory */
/* One more owner, who calls head_mirror_free too; the last call frees, when nobody holds a half. */
struct head_mirror *head_mirror_ref(struct head_mirror *m);
void head_mirror_free(struct head_mirror *m); /* takes NULL */
/* A reference to the half if the mirror has this epoch of it, else NULL. */
struct mirror_half *head_mirror_get(struct head_mirror *m, enum series_kind kind, int half,
                                    int64_t epoch);
void mirror_half_put(struct mirror_half *h);             /* takes NULL */
uint64_t head_mirror_bytes(const struct head_mirror *m); /* for the gauge */

/* ---- reading: one snapshot ---- */

/* The halves of one kind as a snapshot has them. */
struct head_view {
    enum series_kind kind;
    int n; /* halves that count, oldest epoch first */
    struct head_view_half {
        int half;
        int64_t epoch;
        int64_t after_id, max_id;   /* rows after_id + 1 to max_id count; after_id: 0 */
        struct mirror_half *mirror; /* NULL: read all from the table */
        uint32_t mirrored;          /* rows 1 to mirrored are in mirror, <= max_id */
    } halves[HEAD_HALVES];
};

/* Statements over the head tables of one connection. */
struct head_reader;
/* mirror may be NULL (another process): everything is then read from the tables. */
enum otl_err head_reader_open(struct db *db, struct head_mirror *mirror, struct head_reader **out,
                              struct otl_error *err) OTL_MUSTCHECK;
/* For a reader without a mirror, before its first view: keep one of its own from view to view,
 * brought up to each as it is opened. Rows of an epoch never change, so only new ones are read.
 * Then few series cost only their own rows here too, for 40 bytes a row. OTL_ENOMEM: it goes on
 * without. */
enum otl_err head_reader_keep(struct head_reader *r, struct otl_error *err) OTL_MUSTCHECK;
void head_reader_close(struct head_reader *r);
/* Inside a read transaction. The view holds references until head_view_close. */
enum otl_err head_view_open(struct head_reader *r, enum series_kind kind, struct head_view *out,
                            struct otl_error *err) OTL_MUSTCHECK;
void head_view_close(struct head_view *v);

/* Append the points of the view with from <= time < to (to INT64_MAX: no end), of the series in
 * `series` (ascending, n of them; NULL: all), series by series: for each one that has any, `emit`
 * gets its points in the order of keys with H2 applied (exemplars: those of one key in the order of
 * arrival, marks included). p is reused after emit returns; an error from emit ends the walk and is
 * returned. Few series cost only their own rows where there is a mirror. */
typedef enum otl_err head_emit_fn(void *arg, int64_t series_id, const struct series_points *p,
                                  struct otl_error *err);
enum otl_err head_read(struct head_reader *r, const struct head_view *v, const int64_t *series,
                       size_t n, int64_t from, int64_t to, head_emit_fn *emit, void *arg,
                       struct otl_error *err) OTL_MUSTCHECK;

/* ---- states; on the write connection, inside its transaction ---- */

struct head_half_state {
    enum series_kind kind;
    int half;
    int64_t epoch, rows;
};
/* Closed halves that wait for sealing. out has room for HEAD_KINDS * HEAD_HALVES. Any connection.
 */
enum otl_err head_closed_halves(struct db *db, struct head_half_state *out, int *n,
                                struct otl_error *err) OTL_MUSTCHECK;
/* Its rows are in a live part: H3. OTL_EINTERNAL unless this epoch of the half is closed. Tasks of
 * the store's own connection call store_seal (otlite/store.h) instead, which calls this. */
enum otl_err head_mark_sealed(struct db *db, enum series_kind kind, int half, int64_t epoch,
                              struct otl_error *err) OTL_MUSTCHECK;
/* Delete the rows of a sealed half with ids above keep: in a transaction with nothing else in it.
 * All at once (keep 0) is by far the cheapest a row. Until it is empty the half cannot be opened
 * anew. OTL_EINTERNAL when the half is not sealed. */
enum otl_err head_empty(struct db *db, enum series_kind kind, int half, int64_t keep,
                        struct otl_error *err) OTL_MUSTCHECK;
/* Sealed halves that still have rows, for head_empty: as head_closed_halves. */
enum otl_err head_sealed_halves(struct db *db, struct head_half_state *out, int *n,
                                struct otl_error *err) OTL_MUSTCHECK;

#endif
