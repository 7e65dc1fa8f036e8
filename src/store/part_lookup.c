/* Looking up one key: what the writer asks for each late point. Most ask in vain, and often that is
 * known from the directories: no allocation on that way. */
#include "part_internal.h"

/* The points of a chunk in r->points, from the last time or decoded now. */
static enum otl_err decode(struct part_reader *r, struct part_block *b, uint32_t chunk,
                           struct otl_error *err)
{
    enum series_kind kind = b->directory.kind;
    enum otl_err rc;

    if (r->points_block == part_block_id(b) && r->points_chunk == chunk)
        return OTL_OK;
    r->points_block = 0;
    if (r->points.kind != kind) {
        series_points_fini(&r->points);
        series_points_init(&r->points, kind);
    }
    series_points_reset(&r->points);
    rc = part_block_read(r, b, chunk, INT64_MIN, INT64_MAX, NULL, &r->points, err);
    if (rc == OTL_OK) {
        r->points_block = part_block_id(b);
        r->points_chunk = chunk;
    }
    return rc;
}

static enum otl_err look_in_chunk(struct part_reader *r, struct part_block *b, uint32_t chunk,
                                  int64_t time, int64_t start_time, struct series_points *out,
                                  bool *found, struct otl_error *err)
{
    const struct series_points *p = &r->points;
    enum otl_err rc = decode(r, b, chunk, err);

    if (rc == OTL_ECORRUPT)
        return OTL_OK; /* it was reported */
    if (rc != OTL_OK)
        return rc;
    for (size_t i = series_points_lower_bound(p, time); i < p->n && p->time[i] == time; i++) {
        if (p->start_time[i] != start_time)
            continue;
        if (!series_points_append(out, p, i, 1))
            return otl_fail(err, OTL_ENOMEM, "look up a point: no memory");
        *found = true;
    }
    return OTL_OK;
}

static enum otl_err look_in_block(struct part_reader *r, struct part_block *b, int64_t series_id,
                                  int64_t time, int64_t start_time, struct series_points *out,
                                  bool *found, struct otl_error *err)
{
    const struct block_directory *d = &b->directory;
    enum otl_err rc = OTL_OK;

    for (uint32_t i = block_directory_find(d, series_id);
         rc == OTL_OK && i < d->n && d->chunks[i].series_id == series_id; i++) {
        if (d->chunks[i].min_time <= time && time <= d->chunks[i].max_time)
            rc = look_in_chunk(r, b, i, time, start_time, out, found, err);
    }
    return rc;
}

static enum otl_err look_in_part(struct part_reader *r, size_t part, int64_t series_id,
                                 int64_t time, int64_t start_time, struct series_points *out,
                                 bool *found, struct otl_error *err)
{
    struct part_list *l;
    enum otl_err rc = part_reader_list(r, part, &l, err);

    if (rc != OTL_OK)
        return rc;
    for (uint32_t i = part_list_seek(l, 0, series_id);
         rc == OTL_OK && i < l->n && l->rows[i].first_series <= series_id; i++) {
        struct part_block *b;

        if (time < l->rows[i].min_time || time > l->rows[i].max_time)
            continue;
        rc = part_reader_open_block(r, l, i, &b, err);
        if (rc == OTL_ECORRUPT) {
            rc = OTL_OK;
            continue;
        }
        if (rc != OTL_OK)
            break;
        rc = look_in_block(r, b, series_id, time, start_time, out, found, err);
        part_cache_unpin(r->cache, &b, 1);
    }
    return rc;
}

enum otl_err part_lookup(struct part_reader *r, enum series_kind kind, int64_t series_id,
                         int64_t time, int64_t start_time, struct series_points *out, bool *found,
                         struct otl_error *err)
{
    enum otl_err rc = OTL_OK;
    size_t at, n;

    *found = false;
    part_reader_range(r, kind, 0, part_day(time), part_day(time), &at, &n);
    while (rc == OTL_OK && n > 0 && !*found) {
        const struct part_info *p = &r->parts[at + --n];

        if (p->min_time <= time && time <= p->max_time)
            rc = look_in_part(r, at + n, series_id, time, start_time, out, found, err);
    }
    part_reader_end(r);
    return rc;
}
