/* read_internal.h -- what stands behind read.h, for the files that implement it: read.c (sessions,
 * limits), read_select.c (series), read_catalogue.c, scan.c (points), read_extents.c, window*.c
 * (windows). */
#ifndef OTLITE_STORE_READ_INTERNAL_H
#define OTLITE_STORE_READ_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "head.h"
#include "label_index.h"
#include "otlite/read.h"
#include "part.h"
#include "series_points.h"

struct read_helper; /* a second thread for large queries: read_helper.h */

struct read_shared {
    struct head_mirror *mirror; /* borrowed; may be NULL */
    struct part_cache *parts;
    struct label_index *labels;
    struct read_helper *helper;
    /* Large queries go by rounds of series, so that the blocks of the whole file are never held at
     * once: about so many bytes of them. Tests make it smaller. */
    size_t round_bytes;
    /* Numbers of so many series in so many bytes of blocks are read ahead: for fewer, waking a
     * second thread takes as long as it would save. Likewise. */
    size_t ahead_series, ahead_bytes;
};

/* Rows of the catalogue that are read one at a time (read_catalogue.c). */
enum read_row { READ_ROW_SCOPE, READ_ROW_METRIC, READ_ROW_BOUNDS, READ_ROWS };

struct read_session {
    struct read_shared *shared;
    struct db *db;
    struct sqlite3_stmt *rows[READ_ROWS]; /* NULL until the first use */
    struct head_reader *head;
    struct part_reader *parts;
};

struct read {
    struct read_session *session;
    struct read_limits limits;
    bool began; /* the transaction is ours to end, and the progress handler is set */
    /* What was charged and not given back, by both threads of a query. */
    atomic_size_t used_bytes;
    bool read_ahead;           /* the connection is the helper's now: scan_ahead.c */
    struct label_view *labels; /* read_labels made it */
    bool has_view[HEAD_KINDS];
    struct head_view views[HEAD_KINDS]; /* read_head_view opened them */
};

/* The view of the labels in r's snapshot, made at the first call; lives until read_end. */
enum otl_err read_labels(struct read *r, struct label_view **out,
                         struct otl_error *err) OTL_MUSTCHECK;
/* read_check for loops of the index. */
struct label_check read_label_check(struct read *r);

/* The head's points of a kind in r's snapshot; NULL in *out: the kind has no head (rollups). Lives
 * until read_end. */
enum otl_err read_head_view(struct read *r, enum series_kind kind, const struct head_view **out,
                            struct otl_error *err) OTL_MUSTCHECK;

/* What p's columns take in memory. */
size_t read_points_bytes(const struct series_points *p);

/* ---- scan.c: the points of one series put together ---- */

/* Reusable scratch for gather_points; zeroed is empty. */
struct gather {
    struct series_points *sources; /* of a group of chunks that overlap */
    size_t n_sources;
    struct series_points merged;
    struct part_memo *memo; /* NULL: none */
    int64_t charged;        /* to the read */
};
void gather_fini(struct gather *g, struct read *r);
/* Append to out (of that kind) the points in [from, to) of one series: chunks refs[first] to
 * refs[first + n - 1], which are all of it, and what the head has of it (NULL: nothing), in that
 * range already. Damaged chunks are left out. Marks of exemplars that were replaced are applied and
 * left out. */
enum otl_err gather_points(struct gather *g, struct read *r, struct part_refs *refs, size_t first,
                           size_t n, const struct series_points *head, int64_t from, int64_t to,
                           struct series_points *out, struct otl_error *err) OTL_MUSTCHECK;

/* The distinct series of refs, ascending; their memory is charged (cap of them). */
enum otl_err ids_of_refs(struct read *r, const struct part_refs *refs, struct series_list *out,
                         struct otl_error *err) OTL_MUSTCHECK;

/* Calls visit for every series that is in ids or has points of the head in the range, ascending. */
struct series_walk {
    const int64_t *ids; /* ascending */
    size_t n;
    /* place: in ids, or SIZE_MAX. head: NULL when it has none. */
    enum otl_err (*visit)(void *arg, int64_t series_id, size_t place,
                          const struct series_points *head, struct otl_error *err);
    void *arg;
    size_t at; /* next of ids */
};
/* series: which ones the head is asked for (NULL: all), n of them. */
enum otl_err walk_series(struct series_walk *w, struct read *r, enum series_kind kind,
                         const int64_t *series, size_t n, int64_t from, int64_t to,
                         struct otl_error *err) OTL_MUSTCHECK;

/* A chunk's points in [from, to), appended to out; a damaged one is reported and left out. */
enum otl_err gather_chunk(struct gather *g, struct read *r, struct part_refs *refs, size_t ref,
                          int64_t from, int64_t to, struct series_points *out,
                          struct otl_error *err) OTL_MUSTCHECK;
/* Merge n chunks, which overlap or meet points low to high - 1 of the head, and append. */
enum otl_err gather_group(struct gather *g, struct read *r, struct part_refs *refs, size_t first,
                          size_t n, const struct series_points *head, size_t low, size_t high,
                          int64_t from, int64_t to, struct series_points *out,
                          struct otl_error *err) OTL_MUSTCHECK;
/* What gather_points goes by: calls visit for what has to be merged, in the order of times. n 0:
 * points low to high - 1 of the head alone; n 1 and low = high: a chunk alone. */
enum otl_err gather_walk(const struct part_refs *refs, size_t first, size_t n,
                         const struct series_points *head,
                         enum otl_err (*visit)(void *arg, size_t first, size_t n, size_t low,
                                               size_t high, struct otl_error *err),
                         void *arg, struct otl_error *err) OTL_MUSTCHECK;

/* ---- many series: scan.c, scan_numbers.c and scan_ahead.c ---- */

/* The series of the parts are taken in rounds (above). */
struct scan {
    struct read *r;
    enum series_kind kind;
    int64_t from, to;
    const int64_t *series; /* that are asked for; NULL: all */
    size_t n_series;
    bool nothing;           /* is asked for */
    struct series_list ids; /* that have chunks in the range */
    size_t bytes;           /* of the blocks that these are in */
    size_t round_series;    /* of ids in a round */
    size_t round;           /* whose refs are at hand */
    struct part_refs refs;
    size_t at; /* in refs */
    struct gather gather;
    struct series_points out; /* scratch of each's */
    /* A series with its chunks, refs first to first + n - 1, and its head (NULL: none). */
    enum otl_err (*each)(struct scan *s, int64_t series_id, size_t first, size_t n,
                         const struct series_points *head, struct otl_error *err);
};
/* scan_close follows in any case. */
enum otl_err scan_init(struct scan *s, struct read *r, int kind, const int64_t *series, size_t n,
                       int64_t from, int64_t to, struct otl_error *err) OTL_MUSTCHECK;
/* Calls each for every series, in the order of ids. */
enum otl_err scan_run(struct scan *s, struct otl_error *err) OTL_MUSTCHECK;
void scan_close(struct scan *s);

/* A ring of slots between the thread that reads and the caller's. */
struct scan_ring;
/* Slots go to the sink's series one after the other. */
struct scan_ring *scan_ring_new(const struct number_sink *sink); /* NULL: no memory */
void scan_ring_free(struct scan_ring *g);
/* scan_run by the helper, while this thread takes series out of the ring. *rc is what came of it.
 * False: the helper works for another query; nothing was done. */
bool scan_ring_run(struct scan_ring *g, struct scan *s, enum otl_err *rc, struct otl_error *err);
/* For each, on the helper's thread: a free slot. OTL_ECANCELLED: no more is wanted. */
enum otl_err scan_ring_slot(struct scan_ring *g, unsigned *out,
                            struct otl_error *err) OTL_MUSTCHECK;
/* That slot has all of the series. */
void scan_ring_put(struct scan_ring *g, int64_t series_id);

#endif
