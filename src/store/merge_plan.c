#include "merge_plan.h"

unsigned merge_tier(uint64_t points)
{
    uint64_t limit = MERGE_TIER_POINTS;
    unsigned tier = 0;

    while (points >= limit && limit < UINT64_MAX / MERGE_FAN_IN) {
        limit *= MERGE_FAN_IN;
        tier++;
    }
    return tier;
}

static bool may(const bool *can, size_t i)
{
    return can == NULL || can[i];
}

/* The first run of neighbours of at most this tier with MERGE_FAN_IN of just this one among them.
 */
static struct merge_plan run_of_tier(const struct part_info *parts, const bool *can, size_t n,
                                     unsigned tier)
{
    size_t first = 0, of_tier = 0;

    for (size_t i = 0; i < n; i++) {
        unsigned t = merge_tier(parts[i].points);

        if (!may(can, i) || t > tier) {
            first = i + 1;
            of_tier = 0;
            continue;
        }
        of_tier += t == tier;
        if (of_tier == MERGE_FAN_IN && i + 1 - first <= MERGE_MOST)
            return (struct merge_plan){first, i + 1 - first};
    }
    return (struct merge_plan){0, 0};
}

/* Sizes that are so mixed that no tier has enough neighbours: the cheapest run that at least
 * doubles the largest part in it. */
static struct merge_plan plan_mixed(const struct part_info *parts, const bool *can, size_t n)
{
    struct merge_plan best = {0, 0};
    uint64_t best_sum = 0;

    for (size_t first = 0; first < n; first++) {
        uint64_t sum = 0, largest = 0;

        for (size_t i = first; i < n && i - first < MERGE_MOST && may(can, i); i++) {
            sum += parts[i].points;
            largest = parts[i].points > largest ? parts[i].points : largest;
            if (i + 1 - first < MERGE_FAN_IN || sum - largest < largest ||
                (best.n > 0 && sum >= best_sum))
                continue;
            best = (struct merge_plan){first, i + 1 - first};
            best_sum = sum;
        }
    }
    return best;
}

static struct merge_plan plan_tiers(const struct part_info *parts, const bool *can, size_t n)
{
    struct merge_plan plan = {0, 0};
    unsigned top = 0;

    for (size_t i = 0; i < n; i++) {
        if (merge_tier(parts[i].points) > top)
            top = merge_tier(parts[i].points);
    }
    for (unsigned t = 0; t <= top && plan.n == 0; t++)
        plan = run_of_tier(parts, can, n, t);
    return plan.n == 0 && n >= MERGE_MANY ? plan_mixed(parts, can, n) : plan;
}

/* The longest run of parts that may be merged and are not `except`; except n: no exception. */
static struct merge_plan longest_run(const bool *can, size_t n, size_t except)
{
    struct merge_plan best = {0, 0};
    size_t first = 0;

    for (size_t i = 0; i <= n; i++) {
        if (i < n && i != except && may(can, i))
            continue;
        if (i - first > best.n)
            best = (struct merge_plan){first, i - first};
        first = i + 1;
    }
    if (best.n > MERGE_MOST)
        best.n = MERGE_MOST;
    return best;
}

static struct merge_plan plan_settled(const struct part_info *parts, const bool *can, size_t n)
{
    struct merge_plan all = longest_run(can, n, n);
    uint64_t largest = 0, sum = 0;
    size_t at = 0;

    if (all.n < 2)
        return (struct merge_plan){0, 0};
    for (size_t i = all.first; i < all.first + all.n; i++) {
        sum += parts[i].points;
        if (parts[i].points > largest) {
            largest = parts[i].points;
            at = i;
        }
    }
    if (sum <= MERGE_CHEAP_POINTS || (sum - largest) >= largest / MERGE_FAN_IN)
        return all;
    /* A trickle of late points: without the large one, and not each by itself. */
    if (all.n <= MERGE_FAN_IN)
        return (struct merge_plan){0, 0};
    all = longest_run(can, n, at);
    return all.n >= 2 ? all : (struct merge_plan){0, 0};
}

struct merge_plan merge_plan(const struct part_info *parts, const bool *can, size_t n,
                             enum merge_goal goal)
{
    struct merge_plan plan;

    switch (goal) {
    case MERGE_SETTLED:
        return plan_settled(parts, can, n);
    case MERGE_ALL:
        plan = longest_run(can, n, n);
        return plan.n >= 2 ? plan : (struct merge_plan){0, 0};
    case MERGE_OPEN:
        break;
    }
    return plan_tiers(parts, can, n);
}
