/* read_extents.c -- when series have points (read_extents): from the directories of blocks and from
 * the head; only chunks that lie across an end of the range are decoded. */
#include "read_internal.h"

struct extents {
    const int64_t *series;
    size_t n, at;
    struct time_extent *out;
};

static void widen(struct time_extent *e, int64_t first, int64_t last)
{
    if (e->first > e->last) {
        *e = (struct time_extent){first, last};
        return;
    }
    if (first < e->first)
        e->first = first;
    if (last > e->last)
        e->last = last;
}

static enum otl_err add_head(void *arg, int64_t series_id, const struct series_points *p,
                             struct otl_error *err)
{
    struct extents *x = arg;

    (void)err;
    while (x->at < x->n && x->series[x->at] < series_id)
        x->at++;
    if (x->at < x->n && x->series[x->at] == series_id && p->n > 0)
        widen(&x->out[x->at], p->time[0], p->time[p->n - 1]);
    return OTL_OK;
}

static enum otl_err add_chunks(struct extents *x, struct read *r, struct part_refs *refs,
                               enum series_kind kind, int64_t from, int64_t to,
                               struct otl_error *err)
{
    struct series_points p;
    enum otl_err rc = OTL_OK;

    series_points_init(&p, kind);
    x->at = 0;
    for (size_t i = 0; i < refs->n && rc == OTL_OK; i++) {
        const struct chunk_summary *s = refs->refs[i].summary;
        struct otl_error mine = {0};

        while (x->at < x->n && x->series[x->at] < s->series_id)
            x->at++;
        if (x->at == x->n || x->series[x->at] != s->series_id)
            continue;
        if (s->min_time >= from && (s->max_time < to || to == INT64_MAX)) {
            widen(&x->out[x->at], s->min_time, s->max_time);
            continue;
        }
        rc = read_check(r, err);
        series_points_reset(&p);
        if (rc == OTL_OK)
            rc = part_read_chunk(r->session->parts, refs, i, from, to, &p, &mine);
        if (rc == OTL_OK && p.n > 0)
            widen(&x->out[x->at], p.time[0], p.time[p.n - 1]);
        else if (rc == OTL_ECORRUPT) /* reported; left out as everywhere */
            rc = OTL_OK;
        else if (rc != OTL_OK && err != NULL && mine.code == rc)
            *err = mine;
    }
    series_points_fini(&p);
    return rc;
}

enum otl_err read_extents(struct read *r, int kind, const int64_t *series, size_t n, int64_t from,
                          int64_t to, struct time_extent *out, struct otl_error *err)
{
    struct extents x = {.series = series, .n = n, .out = out};
    struct part_refs refs = {0};
    const struct head_view *view = NULL;
    enum otl_err rc = read_check(r, err);

    for (size_t i = 0; i < n; i++)
        out[i] = (struct time_extent){INT64_MAX, INT64_MIN};
    if (rc != OTL_OK || from >= to || n == 0)
        return rc;
    if (kind < 0 || kind > (int)KIND_SUMMARY)
        return otl_fail(err, OTL_EINTERNAL, "times of points: kind %d", kind);
    rc = part_find(r->session->parts, (enum series_kind)kind, 0, series, n, from, to, &refs, err);
    if (rc == OTL_OK)
        rc = add_chunks(&x, r, &refs, (enum series_kind)kind, from, to, err);
    part_refs_release(r->session->parts, &refs);
    if (rc == OTL_OK)
        rc = read_head_view(r, (enum series_kind)kind, &view, err);
    x.at = 0;
    if (rc == OTL_OK)
        rc = head_read(r->session->head, view, series, n, from, to, add_head, &x, err);
    return rc;
}
