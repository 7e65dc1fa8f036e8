/* merge_plan.h -- which parts of one day to make one of. Pure.
 *
 * Parts come in all sizes: a part a seal, and what was merged before. Size tiers keep both their
 * number and the rewriting low: eight parts of a tier become one of the next, so a point is written
 * once a tier, and there are at most seven parts of each. When the day is over, one part is made of
 * all, which is the smallest and fastest form, unless that means to rewrite much for little. */
#ifndef OTLITE_STORE_MERGE_PLAN_H
#define OTLITE_STORE_MERGE_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "part.h"

enum {
    MERGE_FAN_IN = 8,
    MERGE_TIER_POINTS = 4096, /* the lowest tier: parts of fewer points */
    MERGE_MOST = 64,          /* parts of one merge */
    MERGE_MANY = 32,          /* of a day: from here on their number counts too */
    /* So few points are rewritten without a second thought. */
    MERGE_CHEAP_POINTS = 1 << 16
};

enum merge_goal {
    MERGE_OPEN,    /* more will come: by tiers */
    MERGE_SETTLED, /* nothing will come but a few late points: one part, where it is worth it */
    MERGE_ALL      /* one part in any case */
};

/* Parts first to first + n - 1 are neighbours to be merged; n 0: nothing to do. */
struct merge_plan {
    size_t first, n;
};

/* parts: n of one kind, resolution and day, in the order of sequence. can: of each, whether it may
 * take part (a damaged one may not, and parts its neighbours); NULL: all may. */
struct merge_plan merge_plan(const struct part_info *parts, const bool *can, size_t n,
                             enum merge_goal goal);
/* 0: fewer than MERGE_TIER_POINTS points, 1: fewer than eight times as many, ... */
unsigned merge_tier(uint64_t points);

#endif
