/* rollup_follow.h -- what of a rollup row of numbers follows from its first and last value, and is
 * left out of blocks: of a counter without resets that is min, max and increase. docs/format.md,
 * "Rollups of numbers". Pure. */
#ifndef OTLITE_STORE_ROLLUP_FOLLOW_H
#define OTLITE_STORE_ROLLUP_FOLLOW_H

#include <stdbool.h>
#include <stddef.h>

#include "series_points.h"

/* Is this a field that may follow? p: KIND_NUMBER_ROLLUP. */
bool rollup_may_follow(enum series_kind kind, int field);
/* Has row i in this field, which may follow, exactly what rollup_complete would put there? */
bool rollup_follows(const struct series_points *p, int field, size_t i);
/* Of rows first to first + n - 1: put in what follows where it is absent and the row's count is
 * above 0. */
void rollup_complete(struct series_points *p, size_t first, size_t n);

#endif
