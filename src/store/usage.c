#include "otlite/usage.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdlib.h>

#include "head.h"
#include "part.h"

enum {
    CACHE_BYTES = 32 << 20,
    /* 4 GiB of counters; ids never get there (head.h). */
    MAX_SERIES_ID = 1 << 28
};

struct collector {
    struct usage *u;
    enum series_kind kind;
};

static void note_times(struct usage *u, int64_t min, int64_t max)
{
    if (u->oldest == 0 || min < u->oldest)
        u->oldest = min;
    if (max > u->newest)
        u->newest = max;
}

static struct usage_series *series_of(struct usage *u, int64_t id)
{
    return id > 0 && id <= u->max_series ? &u->series[id] : &u->series[0];
}

/* ---- sealed ---- */

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Streams lie one after the other, so the next one's offset tells where one ends. Its bytes are
 * shared out among the chunks that have it; header and directory among all. */
static enum otl_err share_bytes(struct usage *u, const struct block_directory *d,
                                struct otl_error *err)
{
    size_t n = (size_t)d->n * d->streams_per_chunk;
    double head = (double)d->streams_at / (double)d->n;
    uint32_t *sorted = malloc((n + 1) * sizeof(*sorted));

    if (sorted == NULL)
        return otl_fail(err, OTL_ENOMEM, "count the bytes of series: no memory");
    memcpy(sorted, d->streams, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), ascending);
    for (uint32_t i = 0; i < d->n; i++)
        series_of(u, d->chunks[i].series_id)->bytes += head;
    for (uint32_t i = 0; i < d->n; i++) {
        for (uint32_t k = 0; k < d->streams_per_chunk; k++) {
            uint32_t at = d->streams[(size_t)i * d->streams_per_chunk + k];
            size_t lo = 0, hi = n, end;

            while (lo < hi) { /* first place of at */
                size_t mid = lo + (hi - lo) / 2;

                if (sorted[mid] < at)
                    lo = mid + 1;
                else
                    hi = mid;
            }
            for (end = lo; end < n && sorted[end] == at; end++) {
            }
            series_of(u, d->chunks[i].series_id)->bytes +=
                (double)((end < n ? sorted[end] : d->block_bytes) - at) / (double)(end - lo);
        }
    }
    free(sorted);
    return OTL_OK;
}

static enum otl_err count_chunks(struct part_reader *r, const struct part_info *part,
                                 struct usage *u, struct otl_error *err)
{
    struct part_refs refs = {0};
    enum otl_err rc =
        part_find(r, part->kind, part->resolution, NULL, 0, INT64_MIN, INT64_MAX, &refs, err);

    if (rc != OTL_OK)
        return rc;
    u->damaged += refs.damaged;
    u->chunks += refs.n;
    u->blocks += refs.n_blocks;
    for (size_t i = 0; i < refs.n; i++) {
        const struct chunk_summary *s = refs.refs[i].summary;

        if (part->kind <= KIND_SUMMARY) {
            u->points[part->kind] += s->n;
            series_of(u, s->series_id)->points += s->n;
            note_times(u, s->min_time, s->max_time);
        } else if (part->kind == KIND_EXEMPLAR) {
            u->exemplars += s->n;
        } else {
            u->rollup_rows += s->n;
        }
    }
    for (size_t i = 0; i < refs.n_blocks && rc == OTL_OK; i++)
        rc = share_bytes(u, part_block_directory(refs.blocks[i]), err);
    part_refs_release(r, &refs);
    return rc;
}

static enum otl_err collect_parts(struct db *db, struct usage *u, struct otl_error *err)
{
    struct part_cache *cache = part_cache_new(CACHE_BYTES);
    struct part_reader *r = NULL;
    const struct part_info *parts;
    size_t n = 0;
    enum otl_err rc;

    if (cache == NULL)
        return otl_fail(err, OTL_ENOMEM, "read the parts: no memory");
    rc = part_reader_open(db, cache, &r, err);
    if (rc == OTL_OK)
        rc = part_reader_refresh(r, err);
    if (rc == OTL_OK) {
        parts = part_reader_parts(r, &n);
        for (size_t i = 0; i < n && rc == OTL_OK; i++) {
            u->parts++;
            u->sealed_bytes += parts[i].bytes;
            /* All parts of a kind and resolution at once, when the first of them comes. */
            if (i == 0 || parts[i].kind != parts[i - 1].kind ||
                parts[i].resolution != parts[i - 1].resolution)
                rc = count_chunks(r, &parts[i], u, err);
        }
    }
    if (r != NULL)
        part_reader_close(r);
    part_cache_free(cache);
    return rc;
}

/* ---- the head ---- */

static enum otl_err count_head(void *arg, int64_t series_id, const struct series_points *p,
                               struct otl_error *err)
{
    struct collector *c = arg;
    struct usage *u = c->u;

    (void)err;
    if (c->kind == KIND_EXEMPLAR) {
        for (size_t i = 0; i < p->n; i++)
            u->head_exemplars += p->fields[EXEMPLAR_VALUE].kind[i] != VALUE_NONE;
        return OTL_OK;
    }
    if (p->n == 0)
        return OTL_OK;
    u->head_points[c->kind] += p->n;
    series_of(u, series_id)->points += p->n;
    note_times(u, p->time[0], p->time[p->n - 1]);
    return OTL_OK;
}

static enum otl_err collect_head(struct db *db, struct usage *u, struct otl_error *err)
{
    struct head_reader *r;
    enum otl_err rc = head_reader_open(db, NULL, &r, err);

    if (rc != OTL_OK)
        return rc;
    for (int k = 0; k < HEAD_KINDS && rc == OTL_OK; k++) {
        struct collector c = {u, (enum series_kind)k};
        struct head_view view;

        rc = head_view_open(r, (enum series_kind)k, &view, err);
        if (rc != OTL_OK)
            break;
        rc = head_read(r, &view, NULL, 0, INT64_MIN, INT64_MAX, count_head, &c, err);
        head_view_close(&view);
        if (k < KIND_EXEMPLAR)
            u->points[k] += u->head_points[k];
    }
    u->exemplars += u->head_exemplars;
    head_reader_close(r);
    return rc;
}

enum otl_err usage_collect(struct db *db, struct usage *out, struct otl_error *err)
{
    enum otl_err rc;

    *out = (struct usage){0};
    rc = db_query_int(db, "SELECT ifnull(max(id), 0) FROM series", &out->max_series, err);
    if (rc == OTL_OK && (out->max_series < 0 || out->max_series > MAX_SERIES_ID))
        rc = otl_fail(err, OTL_ECORRUPT, "the largest series id, %" PRId64 ", cannot be right",
                      out->max_series);
    if (rc == OTL_OK) {
        out->series = calloc((size_t)out->max_series + 1, sizeof(*out->series));
        if (out->series == NULL)
            rc = otl_fail(err, OTL_ENOMEM, "no memory for %" PRId64 " counters", out->max_series);
    }
    if (rc == OTL_OK)
        rc = collect_parts(db, out, err);
    if (rc == OTL_OK)
        rc = collect_head(db, out, err);
    if (rc != OTL_OK)
        usage_fini(out);
    return rc;
}

void usage_fini(struct usage *u)
{
    free(u->series);
    *u = (struct usage){0};
}
