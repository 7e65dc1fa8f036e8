/* points_fixture.h -- points of every kind whose columns look like each of those that a codec tells
 * apart: constant, linear, jittered, small, large, decimals, any bits. */
#ifndef POINTS_FIXTURE_H
#define POINTS_FIXTURE_H

#include "store/series_points.h"

/* Append n points of p's kind, their times after those that are there. shape picks what the columns
 * look like; each of 0 to PF_SHAPES - 1 is another mixture, and every column of every kind takes on
 * every look for one of them. Random numbers are random.h's. */
enum { PF_SHAPES = 12 };
void pf_add(struct series_points *p, size_t n, unsigned shape);

/* Append time, start_time, flags and all fields of point i as one line: integers as i5, doubles by
 * their bits as d4014000000000000, absent values as -, lists as [..,..], bytes as x00ff. */
void pf_line(struct buf *out, int64_t series_id, const struct series_points *p, size_t i);

#endif
