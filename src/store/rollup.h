/* rollup.h -- the rows of rollups (series_points.h, KIND_NUMBER_ROLLUP and KIND_HISTOGRAM_ROLLUP) from
 * points, and from other rollup rows. Pure. */
#ifndef OTLITE_STORE_ROLLUP_H
#define OTLITE_STORE_ROLLUP_H

#include <stdbool.h>
#include <stdint.h>

#include "series_points.h"

enum { ROLLUP_5M = 300, ROLLUP_1H = 3600 }; /* seconds */

/* The rollup of points of this kind, or SERIES_KINDS: there is none. */
enum series_kind rollup_kind_of(enum series_kind kind);
/* Where the window of this time begins. */
int64_t rollup_window(int64_t time, int resolution_s);
/* Append to out the windows of resolution_s seconds that points of p (all of one series, in the order
 * of keys) fall into. delta: the series' temporality. False: no memory. */
bool rollup_add(struct series_points *out, const struct series_points *p, int resolution_s,
                bool delta) OTL_MUSTCHECK;
/* out (empty) becomes the union of n sources of rollup rows of one series, one row a window (and
 * bounds): rows of the same window are joined in the order of their times. *exact: false when two of
 * them overlap in time, so that first, last and increase of the joined row are not certain. Count, sum,
 * min and max are then still those of all points, unless a point was in both. False: no memory. */
bool rollup_merge(struct series_points *out, const struct series_points *const *sources, size_t n,
                  bool delta, bool *exact) OTL_MUSTCHECK;
/* Rows of a coarser resolution from finer ones; resolution_s is a multiple of theirs. */
bool rollup_coarsen(struct series_points *out, const struct series_points *p, int resolution_s,
                    bool delta) OTL_MUSTCHECK;

#endif
