/* head_write.h -- the head as its writer has it: the states of the halves, their rows' ids, the
 * mirror, and when a half is closed. What it knows and what dedup knows of the rows goes with the
 * transaction.
 *
 * begin and then commit or rollback with each transaction of the store; everything else but open,
 * sync and close in between. */
#ifndef OTLITE_STORE_HEAD_WRITE_H
#define OTLITE_STORE_HEAD_WRITE_H

#include "dedup.h"
#include "head_table.h"
#include "mirror.h"
#include "row_source.h"

struct head_limits {
    int64_t max_rows, max_bytes, max_age_ms; /* 0: none */
};

/* Beyond this many times max_rows nothing more is taken. */
enum { HEAD_FULL_FACTOR = 4 };

struct head_half {
    struct head_state s;
    int64_t last_id;
    int64_t bytes;    /* about, of its rows */
    int64_t since_ns; /* monotonic: when the first row came, or was found; 0: no rows */
    /* The greatest id in the table is last_id, so rows without an id get the ones after it. Not so
     * when another process deleted the newest rows. */
    bool follows;
};

struct head_writer {
    struct db *db;
    struct catalogue *cat;
    struct dedup *dedup;
    struct head_mirror *mirror;
    struct head_limits limits;
    struct sqlite3_stmt *states, *scan[HEAD_KINDS][HEAD_HALVES];
    struct head_half halves[HEAD_KINDS][HEAD_HALVES], before[HEAD_KINDS][HEAD_HALVES];
    struct mirror_half *mirrored[HEAD_KINDS][HEAD_HALVES]; /* NULL: not mirrored */
};

/* Zero-initialised before. Makes the mirror; nothing is read yet. */
enum otl_err head_writer_open(struct head_writer *w, struct db *db, struct catalogue *cat,
                              struct dedup *dedup, const struct head_limits *limits,
                              struct otl_error *err) OTL_MUSTCHECK;
void head_writer_close(struct head_writer *w);
/* Take in what is in the file and not in memory: at a start everything, later what another process
 * did. The catalogue has been loaded. */
enum otl_err head_writer_sync(struct head_writer *w, struct otl_error *err) OTL_MUSTCHECK;

void head_writer_begin(struct head_writer *w);
/* After COMMIT: publishes the mirror, and forgets halves that were sealed. */
void head_writer_commit(struct head_writer *w);
void head_writer_rollback(struct head_writer *w);

static inline int head_writer_open_half(const struct head_writer *w, int kind)
{
    return w->halves[kind][0].s.state == HEAD_OPEN ? 0 : 1;
}

/* n rows were appended to the open half, with the ids after last_id; of numbers, keys and points by
 * which as in batch_source.h; of other kinds (exemplars too), all rows of the list. */
enum otl_err head_writer_numbers(struct head_writer *w, const struct dedup_key *keys,
                                 const struct number_point *points, const uint32_t *which,
                                 uint32_t n, struct otl_error *err) OTL_MUSTCHECK;
enum otl_err head_writer_rows(struct head_writer *w, enum series_kind kind,
                              const struct row_list *rows, struct otl_error *err) OTL_MUSTCHECK;

/* Close the open halves that reached a limit, as far as the others can be opened. */
enum otl_err head_writer_rotate_due(struct head_writer *w, struct otl_error *err) OTL_MUSTCHECK;
/* Would that close one, as far as memory tells? */
bool head_writer_is_due(const struct head_writer *w);
/* Close the open half of a kind unless it is empty. OTL_EBUSY: the other one is not sealed and
 * empty. */
enum otl_err head_writer_rotate(struct head_writer *w, enum series_kind kind,
                                struct otl_error *err) OTL_MUSTCHECK;
/* A part with the rows of the closed half is live in this transaction. */
enum otl_err head_writer_seal(struct head_writer *w, enum series_kind kind, int half, int64_t epoch,
                              struct otl_error *err) OTL_MUSTCHECK;
/* The open half holds HEAD_FULL_FACTOR times max_rows. */
bool head_writer_is_full(const struct head_writer *w, enum series_kind kind);

/* Does any half that counts have a row of the series? True also when that is not known. */
bool head_writer_has_series(const struct head_writer *w, int64_t series_id);

#endif
