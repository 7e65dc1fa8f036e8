/* window_internal.h -- read_windows, in three steps: window_plan.c looks at each series' chunks and
 * head and answers what it can at once; window_run.c decodes what is left, block by block, on two
 * threads if it is much; window.c begins and ends it and adds the growth from item to item. */
#ifndef OTLITE_STORE_WINDOW_INTERNAL_H
#define OTLITE_STORE_WINDOW_INTERNAL_H

#include "read_internal.h"
#include "window_sum.h"

/* Points of a series that follow one another. In the list of items they stand series by series, and
 * of one series in the order of time, whatever order they are decoded in. */
struct window_item {
    enum {
        ITEM_DONE,  /* only its edge is still needed */
        ITEM_CHUNK, /* raw chunk ref, of which from <= time < to counts */
        ITEM_ROLLUP /* chunks ref to ref + n - 1 of the rollups: one day of the series */
    } type;
    uint32_t series; /* position in the query */
    bool failed;     /* decoding was no use: try the long way */
    bool damaged;    /* because it is damaged, which is to be reported */
    size_t ref, n;
    size_t raw, n_raw;   /* ROLLUP: the raw chunks of that day, */
    uint64_t raw_points; /* and their points: the rows must stand for as many */
    int64_t from, to;
    struct window_edge edge;
};

struct windows {
    struct read *r;
    const struct window_query *q;
    struct window_grid grid;
    int64_t look_from; /* values from here on count for the growth */
    bool *delta;       /* of each series; NULL: none */
    struct window_sum *sums;
    struct window_sum *more_sums; /* the second thread's; NULL: there is none */
    size_t n_sums;
    int resolution;                 /* of rollups that may be used; 0: none */
    int64_t rollup_from, rollup_to; /* whole windows of theirs */
    int64_t find_from, find_to;     /* what is looked for in the parts: whole days with rollups */
    struct window_cost cost;

    /* One round: some of the series, so that not all blocks are held at once. */
    size_t first_series; /* position */
    struct part_refs raw, rollup;
    size_t raw_at, rollup_at; /* next that was not planned */
    struct window_item *items;
    size_t n_items, cap_items;
    size_t charged_refs;

    /* Scratch of the session's thread. */
    struct gather gather;
    struct series_points points;
    struct window_run runs[CHUNK_MAX_POINTS];
};

static inline bool window_wants_edges(const struct windows *w, uint32_t series)
{
    return w->q->want_increase && (w->delta == NULL || !w->delta[series]);
}

/* Where points of a series go, in sums. */
struct window_target window_target_of(const struct windows *w, struct window_sum *sums,
                                      uint32_t series);

/* Add the points of p, on the session's thread, and give their edge. */
void window_add_points(struct windows *w, uint32_t series, const struct series_points *p,
                       size_t first, size_t n, struct window_edge *edge);

/* window_plan.c: visit of walk_series, arg is the struct windows. */
enum otl_err window_plan_series(void *arg, int64_t series_id, size_t place,
                                const struct series_points *head, struct otl_error *err);
/* window_run.c: decode the items of a round. */
enum otl_err window_run_items(struct windows *w, struct otl_error *err) OTL_MUSTCHECK;

#endif
