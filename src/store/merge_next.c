/* merge_next.c -- which merge is due: looks at the live parts, group by group. */
#include <stdlib.h>
#include <string.h>

#include "maintain_internal.h"
#include "otlite/clock.h"

/* A day is settled when it has been over for so long, and nothing came for it lately. */
#define DAY_OVER_NS  (3600 * NS_PER_S)
#define GROUP_OLD_NS (600 * NS_PER_S)

enum otl_err live_parts(struct maintainer *m, struct part_info **out, size_t *n,
                        struct otl_error *err)
{
    const struct part_info *parts;
    struct part_info *copy;
    enum otl_err rc = maintain_begin(m, err);

    if (rc != OTL_OK)
        return rc;
    parts = part_reader_parts(m->parts, n);
    copy = malloc((*n + 1) * sizeof(*copy));
    if (copy == NULL)
        rc = otl_fail(err, OTL_ENOMEM, "read the parts: no memory");
    else if (*n > 0)
        memcpy(copy, parts, *n * sizeof(*copy));
    maintain_end(m);
    if (rc == OTL_OK)
        *out = copy;
    return rc;
}

static int compare_group(const struct part_group *g, const struct part_info *p)
{
    if (g->kind != p->kind)
        return g->kind < p->kind ? -1 : 1;
    if (g->resolution != p->resolution)
        return g->resolution < p->resolution ? -1 : 1;
    return (g->day > p->day) - (g->day < p->day);
}

static size_t group_end(const struct part_info *parts, size_t n, size_t first)
{
    size_t end = first + 1;

    while (end < n && same_group(&parts[first], &parts[end]))
        end++;
    return end;
}

/* Since when the group's newest part is known: `now` unless it was there at the last look. Parts
 * that were merged are no news, but there is no harm in waiting once more. */
static int64_t group_since(const struct maintainer *m, size_t *at, const struct part_info *parts,
                           size_t first, size_t end, int64_t *newest_id, int64_t now)
{
    *newest_id = 0;
    for (size_t i = first; i < end; i++) {
        if (parts[i].id > *newest_id)
            *newest_id = parts[i].id;
    }
    while (*at < m->n_groups && compare_group(&m->groups[*at], &parts[first]) < 0)
        (*at)++;
    if (*at < m->n_groups && compare_group(&m->groups[*at], &parts[first]) == 0 &&
        m->groups[*at].newest_id == *newest_id)
        return m->groups[*at].since_ns;
    return now;
}

static enum otl_err note_groups(struct maintainer *m, const struct part_info *parts, size_t n,
                                struct otl_error *err)
{
    int64_t now = clock_mono_ns();
    struct part_group *groups = malloc((n + 1) * sizeof(*groups));
    size_t n_groups = 0, at = 0;

    if (groups == NULL)
        return otl_fail(err, OTL_ENOMEM, "look at the parts: no memory");
    for (size_t first = 0, end; first < n; first = end) {
        struct part_group *g = &groups[n_groups++];

        end = group_end(parts, n, first);
        g->kind = parts[first].kind;
        g->resolution = parts[first].resolution;
        g->day = parts[first].day;
        g->since_ns = group_since(m, &at, parts, first, end, &g->newest_id, now);
    }
    free(m->groups);
    m->groups = groups;
    m->n_groups = n_groups;
    return OTL_OK;
}

static bool settled(const struct part_group *g)
{
    return clock_wall_ns() - DAY_OVER_NS >= day_start(g->day + 1) &&
           clock_mono_ns() - g->since_ns >= GROUP_OLD_NS;
}

/* parts: n of one group. */
static enum otl_err merge_group(struct maintainer *m, const struct part_info *parts, size_t n,
                                enum merge_goal goal, bool *did, struct otl_error *err)
{
    struct merge_outcome outcome;
    struct merge_plan plan;
    bool *can = malloc(n * sizeof(*can));
    size_t n_damaged = m->n_damaged;
    bool whole = true, room = true;
    uint64_t bytes = 0;
    enum otl_err rc;

    if (can == NULL)
        return otl_fail(err, OTL_ENOMEM, "plan a merge: no memory");
    for (size_t i = 0; i < n; i++) {
        can[i] = !part_is_damaged(m, parts[i].id);
        whole = whole && can[i];
    }
    plan = merge_plan(parts, can, n, goal);
    free(can);
    if (plan.n == 0)
        return OTL_OK;
    for (size_t i = plan.first; i < plan.first + plan.n; i++)
        bytes += parts[i].bytes;
    rc = retention_has_room(m, bytes, &room, err);
    if (rc != OTL_OK || !room)
        return rc; /* within retention.max_bytes the parts stay as they are */
    *did = true;
    maintain_progress(m, "merging %zu parts (%s, %lld of them)", plan.n,
                      series_schemas[parts[0].kind].name, (long long)n);
    /* Beside a damaged part nothing better than to join what there is can be done. */
    rc = merge_parts(m, parts + plan.first, plan.n, plan.n == n || !whole, NULL, NULL, &outcome,
                     err);
    if (rc == OTL_OK && outcome.wants_all)
        rc = merge_parts(m, parts, n, true, NULL, NULL, &outcome, err);
    /* Reported, and noted: the next plan leaves that part out. */
    return rc == OTL_ECORRUPT && m->n_damaged > n_damaged ? OTL_OK : rc;
}

enum otl_err merge_next(struct maintainer *m, bool force, bool *did, struct otl_error *err)
{
    struct part_info *parts = NULL;
    size_t n = 0, group = 0;
    enum otl_err rc = live_parts(m, &parts, &n, err);

    *did = false;
    if (rc == OTL_OK)
        rc = note_groups(m, parts, n, err);
    for (size_t first = 0, end; first < n && rc == OTL_OK && !*did; first = end, group++) {
        enum merge_goal goal = force                        ? MERGE_ALL
                               : settled(&m->groups[group]) ? MERGE_SETTLED
                                                            : MERGE_OPEN;

        end = group_end(parts, n, first);
        rc = merge_group(m, parts + first, end - first, goal, did, err);
    }
    free(parts);
    return rc;
}
