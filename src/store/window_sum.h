/* window_sum.h -- points, chunks and rollup rows added up by windows of time. Pure.
 *
 * The windows that points fall into are worked out once for a column of times, as runs; the loops
 * over values know nothing of times. Chunks of one block mostly share their times, so the runs are
 * kept from one to the next.
 *
 * Sums are additions of doubles: within a run in four lanes when it is long, else in order, and the
 * sums of runs in the order in which they come. Integers whose sum fits 53 bits are added as such,
 * which gives the same. */
#ifndef OTLITE_STORE_WINDOW_SUM_H
#define OTLITE_STORE_WINDOW_SUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "block.h"
#include "otlite/read.h"
#include "series_points.h"

/* Windows [from + i * step, + step), the last one cut at to. */
struct window_grid {
    int64_t from, to;
    uint64_t step; /* UINT64_MAX: one window */
    size_t n;
};

static inline size_t window_of_time(const struct window_grid *g, int64_t t)
{
    return (size_t)(((uint64_t)t - (uint64_t)g->from) / g->step);
}

/* One window of one group under way. */
struct window_sum {
    uint64_t count, n_nan;
    double sum, min, max, increase;
    double first, last;
    int64_t first_time, last_time;
    uint32_t first_of, last_of; /* position of the series, for ties */
};
void window_sums_init(struct window_sum *w, size_t n);
/* Add the windows of b to those of a. */
void window_sums_join(struct window_sum *a, const struct window_sum *b, size_t n);
void window_sum_finish(const struct window_sum *w, struct window *out);

/* The first and last value that is not NaN of some points of a series: what the growth from them to
 * their neighbours needs. */
struct window_edge {
    int64_t first_time, first_start, first;
    int64_t last_time, last;
    uint8_t first_kind, last_kind; /* VALUE_NONE: there is none */
};
/* What a counter grew by from one value to the next (series_points.h, NUMBER_ROLLUP_INCREASE). */
double window_growth(uint8_t kind_a, int64_t a, int64_t time_a, uint8_t kind_b, int64_t b,
                     int64_t start_b);
/* The edge of a whole chunk; false: it has to be decoded for that (it begins or ends with NaN). */
bool window_edge_of_chunk(const struct chunk_summary *s, struct window_edge *out);
/* a becomes the edge of a's points and then b's. */
void window_edge_extend(struct window_edge *a, const struct window_edge *b);

/* Where points go. */
struct window_target {
    const struct window_grid *grid;
    struct window_sum *windows; /* of the group, grid->n */
    uint32_t series;            /* position */
    bool want_increase, delta;
    int64_t look_from; /* values before this are not there */
};

/* A run of points in one window. */
struct window_run {
    uint32_t begin, end;
    size_t window;
};

/* Columns of points, in order of time. */
struct window_columns {
    size_t n;
    const int64_t *time, *start_time, *flags, *value;
    const uint8_t *kind;
    enum {
        COLUMNS_MIXED,
        COLUMNS_INT,
        COLUMNS_DOUBLE
    } type;      /* not MIXED: all of this kind, no NaN,
                    no absent value */
    bool small;  /* INT: sums of all fit 53 bits */
    bool rising; /* INT: increases are differences of last and first: there is no reset */
    bool resets; /* a start_time may be later than the time before it */
};
/* Whether a start_time is later than the time of the point before. */
bool window_has_resets(const int64_t *time, const int64_t *start_time, size_t n);
/* Look at all values to fill type, small, rising and resets. */
void window_columns_of_points(const struct series_points *p, size_t first, size_t n,
                              struct window_columns *out);
/* The same from a chunk's summary. */
void window_columns_of_chunk(const struct chunk_reader *r, const struct chunk_summary *s,
                             bool resets, struct window_columns *out);

/* The runs of points low to high - 1, which are in the grid: at most high - low; how many. */
size_t window_runs(const struct window_grid *g, const int64_t *time, size_t low, size_t high,
                   struct window_run *runs);
/* First point whose time is not before t. */
size_t window_lower_bound(const int64_t *time, size_t n, int64_t t);

/* Add the points of runs. low: the first point that is there, for the growth. */
void window_add_runs(const struct window_target *t, const struct window_columns *c, size_t low,
                     const struct window_run *runs, size_t n_runs);
/* The edge of points low to high - 1. */
void window_edge_of_columns(const struct window_columns *c, size_t low, size_t high,
                            struct window_edge *out);

/* The index of a whole chunk's window; false: it lies in more than one, or not wholly in any. */
bool window_of_chunk(const struct window_grid *g, const struct chunk_summary *s, size_t *window);
void window_add_chunk(const struct window_target *t, size_t window, const struct chunk_summary *s);

/* Add the rows of a number rollup with from <= time < to, all in the grid, and give their edge. */
void window_add_rollup(const struct window_target *t, const struct series_points *rows,
                       int64_t from, int64_t to, struct window_edge *edge);

#endif
