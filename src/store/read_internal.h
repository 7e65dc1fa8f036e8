/* read_internal.h -- what stands behind read.h, for the files that implement it: read.c (sessions,
 * limits), read_select.c (series), read_catalogue.c, scan.c (points), read_extents.c, window*.c
 * (windows). */
#ifndef OTLITE_STORE_READ_INTERNAL_H
#define OTLITE_STORE_READ_INTERNAL_H

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
    bool began;                /* the transaction is ours to end, and the progress handler is set */
    size_t used_bytes;         /* what was charged and not given back */
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
    int64_t charged; /* to the read */
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

#endif
