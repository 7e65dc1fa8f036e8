/* merge.c -- several parts become one, series by series.
 *
 * Each source is read block after block, so that memory holds one of each, whatever the parts'
 * size; a series with many points goes through in pieces that end where no source has an earlier
 * point left. The sources stay as they are until one transaction puts the new part in their place
 * (N2). */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "maintain_internal.h"
#include "otlite/clock.h"
#include "otlite/stats.h"
#include "rollup.h"

/* Points of a series that are read from a source at a time; a chunk more at most. */
enum { MERGE_STEP = 4 * CHUNK_MAX_POINTS };

/* A source. */
struct cursor {
    const struct part_info *part;
    struct buf block;
    struct block_directory dir;
    struct chunk_memo *memo;
    uint64_t next_block;
    uint32_t chunk; /* the next one, in dir */
    bool done;
    struct series_points pending, piece;
    size_t ready; /* of pending: points that no other source can come before any more */
};

struct merge {
    struct maintainer *m;
    struct cursor *cursors;
    size_t n;
    bool all, is_rollup;
    enum series_kind raw_kind; /* of rollups */
    int64_t raw_sequence;      /* newest raw part when the merge began */
    struct sqlite3_stmt *fetch;
    struct part_batch batch;
    struct part_output output;
    merge_keep_fn *keep;
    void *arg;
    struct series_points merged, gathered;
    const struct series_points **sources;
    struct merge_outcome *out;
};

/* ---- sources ---- */

static enum otl_err damaged(struct merge *g, struct cursor *c, const char *what,
                            struct otl_error *err)
{
    int64_t block = (c->part->id << PART_BLOCK_BITS) | (int64_t)(c->next_block - 1);

    part_damage(block, -1, what);
    part_note_damaged(g->m, c->part->id);
    return otl_fail(err, OTL_ECORRUPT, "merge: block %lld: %.200s", (long long)block, what);
}

static const struct chunk_summary *next_chunk(const struct cursor *c)
{
    return c->done ? NULL : &c->dir.chunks[c->chunk];
}

static enum otl_err fetch_block(struct merge *g, struct cursor *c, struct otl_error *err)
{
    int step =
        sqlite3_bind_int64(g->fetch, 1, (c->part->id << PART_BLOCK_BITS) | (int64_t)c->next_block);
    enum otl_err rc = OTL_OK;

    buf_reset(&c->block);
    if (step == SQLITE_OK)
        step = sqlite3_step(g->fetch);
    if (step == SQLITE_ROW) {
        const void *data = sqlite3_column_blob(g->fetch, 0);

        buf_add(&c->block, data, data == NULL ? 0 : (size_t)sqlite3_column_bytes(g->fetch, 0));
        if (c->block.failed)
            rc = otl_fail(err, OTL_ENOMEM, "merge: no memory");
    } else if (step != SQLITE_DONE) {
        rc = db_fail(&g->m->db, step, "read a block", err);
    }
    (void)sqlite3_reset(g->fetch);
    c->next_block++;
    return rc == OTL_ECORRUPT ? damaged(g, c, "the database's pages of it are damaged", err) : rc;
}

/* The cursor's chunk is the first of the next block. */
static enum otl_err load_block(struct merge *g, struct cursor *c, struct otl_error *err)
{
    struct otl_error mine = {0};
    enum otl_err rc;

    block_directory_fini(&c->dir);
    memset(&c->dir, 0, sizeof(c->dir));
    c->chunk = 0;
    chunk_memo_forget(c->memo);
    if (c->next_block == c->part->blocks) {
        c->done = true;
        return OTL_OK;
    }
    rc = fetch_block(g, c, err);
    if (rc != OTL_OK)
        return rc;
    if (c->block.n == 0)
        return damaged(g, c, "the block is missing or empty", err);
    rc = block_directory_open(buf_bytes(&c->block), &c->dir, &mine);
    if (rc == OTL_ECORRUPT)
        return damaged(g, c, mine.msg, err);
    if (rc != OTL_OK) {
        if (err != NULL)
            *err = mine;
        return rc;
    }
    if (c->dir.kind != c->part->kind || c->dir.n == 0)
        return damaged(g, c, "the block is of another kind, or has no chunk", err);
    return OTL_OK;
}

/* Past the next chunk. Series never go down: what is merged depends on it. */
static enum otl_err pass_chunk(struct merge *g, struct cursor *c, struct otl_error *err)
{
    int64_t series = c->dir.chunks[c->chunk].series_id;
    enum otl_err rc = OTL_OK;

    c->chunk++;
    if (c->chunk == c->dir.n)
        rc = load_block(g, c, err);
    if (rc == OTL_OK && !c->done && c->dir.chunks[c->chunk].series_id < series)
        rc = damaged(g, c, "the series are out of order", err);
    return rc;
}

static bool has_series(const struct cursor *c, int64_t series_id)
{
    const struct chunk_summary *s = next_chunk(c);

    return s != NULL && s->series_id == series_id;
}

static enum otl_err read_chunk(struct merge *g, struct cursor *c, struct otl_error *err)
{
    struct otl_error mine = {0};
    int64_t last = c->pending.n == 0 ? INT64_MIN : c->pending.time[c->pending.n - 1];
    size_t n = c->pending.n;
    enum otl_err rc = block_read_next(buf_bytes(&c->block), &c->dir, c->chunk, INT64_MIN, INT64_MAX,
                                      c->memo, &c->pending, &mine);

    if (rc == OTL_ECORRUPT)
        return damaged(g, c, mine.msg, err);
    if (rc == OTL_OK && (c->pending.n == n || c->pending.time[n] < last))
        return damaged(g, c, "the times of a series are out of order", err);
    if (rc != OTL_OK) {
        if (err != NULL)
            *err = mine;
        return rc;
    }
    return pass_chunk(g, c, err);
}

/* ---- one series of points ---- */

static enum otl_err no_memory(struct otl_error *err)
{
    return otl_fail(err, OTL_ENOMEM, "merge: no memory");
}

static void swap_points(struct series_points *a, struct series_points *b)
{
    struct series_points t = *a;

    *a = *b;
    *b = t;
}

/* Take the first n points off p, by way of the scratch. */
static bool drop_front(struct series_points *p, size_t n, struct series_points *scratch)
{
    if (n == p->n) {
        series_points_reset(p);
        return true;
    }
    series_points_reset(scratch);
    if (!series_points_append(scratch, p, n, p->n - n))
        return false;
    swap_points(p, scratch);
    return true;
}

/* Give what was gathered on to the output: all, or (more) whole chunks only. */
static enum otl_err put_gathered(struct merge *g, int64_t id, bool more, struct otl_error *err)
{
    struct series_points *p = &g->gathered;
    size_t n = more ? p->n - p->n % CHUNK_MAX_POINTS : p->n;
    enum otl_err rc = OTL_OK;

    if (n > 0)
        rc = part_output_add(&g->output, id, p, 0, n, err);
    if (rc == OTL_OK && n > 0 && !drop_front(p, n, &g->merged))
        rc = no_memory(err);
    return rc;
}

/* Merge what is ready of all sources behind g->gathered. */
static enum otl_err merge_ready(struct merge *g, struct otl_error *err)
{
    struct merge_counts counts = {0};
    bool ok = true;
    size_t n = 0;

    for (size_t i = 0; i < g->n && ok; i++) {
        struct cursor *c = &g->cursors[i];

        if (c->ready == 0)
            continue;
        g->sources[n++] = c->ready == c->pending.n ? &c->pending : &c->piece;
        if (c->ready < c->pending.n) {
            series_points_reset(&c->piece);
            ok = series_points_append(&c->piece, &c->pending, 0, c->ready);
        }
    }
    if (ok && n == 1) {
        ok = series_points_append(&g->gathered, g->sources[0], 0, g->sources[0]->n);
    } else if (ok && n > 1) {
        series_points_reset(&g->merged);
        ok = series_points_merge(&g->merged, g->sources, n, &counts) &&
             series_points_append(&g->gathered, &g->merged, 0, g->merged.n);
    }
    for (size_t i = 0; i < g->n && ok; i++) {
        if (g->cursors[i].ready > 0)
            ok = drop_front(&g->cursors[i].pending, g->cursors[i].ready, &g->cursors[i].piece);
    }
    g->out->counts.equal += counts.equal;
    g->out->counts.replaced += counts.replaced;
    return ok ? OTL_OK : no_memory(err);
}

/* Read on in each source that has few points at hand; *bound: before this time nothing comes any
 * more from any source. *more: something comes. */
static enum otl_err fill(struct merge *g, int64_t id, int64_t *bound, bool *more,
                         struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    *bound = INT64_MAX;
    *more = false;
    for (size_t i = 0; i < g->n && rc == OTL_OK; i++) {
        struct cursor *c = &g->cursors[i];

        while (rc == OTL_OK && has_series(c, id) && c->pending.n < MERGE_STEP)
            rc = read_chunk(g, c, err);
        if (rc == OTL_OK && has_series(c, id)) {
            *more = true;
            if (next_chunk(c)->min_time < *bound)
                *bound = next_chunk(c)->min_time;
        }
    }
    return rc;
}

/* Nothing at hand is before the bound: read on where it comes from. */
static enum otl_err pass_bound(struct merge *g, int64_t id, int64_t bound, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    for (size_t i = 0; i < g->n && rc == OTL_OK; i++) {
        if (has_series(&g->cursors[i], id) && next_chunk(&g->cursors[i])->min_time == bound)
            rc = read_chunk(g, &g->cursors[i], err);
    }
    return rc;
}

static enum otl_err merge_points(struct merge *g, int64_t id, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;
    bool more = true;

    series_points_reset(&g->gathered);
    for (size_t i = 0; i < g->n; i++)
        series_points_reset(&g->cursors[i].pending);
    while (more && rc == OTL_OK) {
        int64_t bound;
        size_t ready = 0;

        rc = fill(g, id, &bound, &more, err);
        for (size_t i = 0; i < g->n && rc == OTL_OK; i++) {
            struct cursor *c = &g->cursors[i];

            c->ready = more ? series_points_lower_bound(&c->pending, bound) : c->pending.n;
            ready += c->ready;
        }
        if (rc == OTL_OK && more && ready == 0) {
            rc = pass_bound(g, id, bound, err);
            continue;
        }
        if (rc == OTL_OK)
            rc = merge_ready(g, err);
        if (rc == OTL_OK)
            rc = put_gathered(g, id, more, err);
    }
    return rc;
}

/* ---- one series of rollups ---- */

/* Points that the rows of a window stand for. */
static int64_t window_points(const struct series_points *p, int64_t window)
{
    int f = p->kind == KIND_NUMBER_ROLLUP ? (int)NUMBER_ROLLUP_N : (int)HISTOGRAM_ROLLUP_N;
    int64_t sum = 0;

    for (size_t i = series_points_lower_bound(p, window); i < p->n && p->time[i] == window; i++)
        sum += p->fields[f].v[i];
    return sum;
}

/* The raw points of a series that were there when the merge began, merged. */
static enum otl_err read_raw(struct merge *g, int64_t id, struct series_points *out,
                             struct otl_error *err)
{
    int64_t from = day_start(g->output.info.day), to = day_start(g->output.info.day + 1);
    struct part_refs refs = {0};
    struct series_points *sources = NULL;
    const struct series_points **list = NULL;
    int64_t *sequences = NULL;
    size_t n = 0;
    enum otl_err rc = maintain_begin(g->m, err);

    if (rc != OTL_OK)
        return rc;
    rc = part_find(g->m->parts, g->raw_kind, 0, &id, 1, from, to, &refs, err);
    sources = calloc(refs.n + 1, sizeof(*sources));
    list = calloc(refs.n + 1, sizeof(*list));
    sequences = calloc(refs.n + 1, sizeof(*sequences));
    if (sources == NULL || list == NULL || sequences == NULL)
        rc = no_memory(err);
    for (size_t i = 0; i < refs.n && rc == OTL_OK; i++) {
        size_t at = 0;

        if (refs.refs[i].sequence > g->raw_sequence)
            continue;
        while (at < n && sequences[at] < refs.refs[i].sequence)
            at++;
        if (at == n || sequences[at] != refs.refs[i].sequence) {
            memmove(&sequences[at + 1], &sequences[at], (n - at) * sizeof(*sequences));
            memmove(&sources[at + 1], &sources[at], (n - at) * sizeof(*sources));
            sequences[at] = refs.refs[i].sequence;
            series_points_init(&sources[at], g->raw_kind);
            n++;
        }
        rc = part_read_chunk(g->m->parts, &refs, i, INT64_MIN, INT64_MAX, &sources[at], err);
    }
    for (size_t i = 0; i < n; i++)
        list[i] = &sources[i];
    if (rc == OTL_OK && n > 0 && !series_points_merge(out, list, n, NULL))
        rc = no_memory(err);
    for (size_t i = 0; i < n; i++)
        series_points_fini(&sources[i]);
    free(sources);
    free(list);
    free(sequences);
    part_refs_release(g->m->parts, &refs);
    maintain_end(g->m);
    return rc;
}

/* The rows of a window: made of raw points, unless those were retained for a shorter time than the
 * rollups, which shows in that a single source stands for more points. */
static bool choose_rows(struct merge *g, size_t n_sources, const struct series_points *joined,
                        const struct series_points *fresh, struct series_points *out)
{
    size_t i = 0, j = 0;

    while (i < joined->n || j < fresh->n) {
        int64_t window = j == fresh->n || (i < joined->n && joined->time[i] < fresh->time[j])
                             ? joined->time[i]
                             : fresh->time[j];
        size_t i_end = i, j_end = j;
        int64_t most = 0;

        while (i_end < joined->n && joined->time[i_end] == window)
            i_end++;
        while (j_end < fresh->n && fresh->time[j_end] == window)
            j_end++;
        for (size_t k = 0; k < n_sources; k++) {
            int64_t n = window_points(g->sources[k], window);

            most = n > most ? n : most;
        }
        if (j_end > j && window_points(fresh, window) >= most) {
            if (!series_points_append(out, fresh, j, j_end - j))
                return false;
        } else if (i_end > i && !series_points_append(out, joined, i, i_end - i)) {
            return false;
        }
        i = i_end;
        j = j_end;
    }
    return true;
}

/* g->merged holds the joined rows of the sources, which are not exact. */
static enum otl_err make_again(struct merge *g, int64_t id, size_t n_sources, struct otl_error *err)
{
    struct series_points raw, fresh;
    struct otl_error mine = {0};
    enum otl_err rc;

    series_points_init(&raw, g->raw_kind);
    series_points_init(&fresh, g->output.info.kind);
    rc = read_raw(g, id, &raw, &mine);
    if (rc == OTL_ECORRUPT) /* reported; the rollups are what is left of these points */
        series_points_reset(&raw);
    else if (rc != OTL_OK && err != NULL)
        *err = mine;
    if (rc == OTL_OK || rc == OTL_ECORRUPT) {
        rc = OTL_OK;
        if (raw.n > 0 &&
            !rollup_add(&fresh, &raw, g->output.info.resolution, series_is_delta(g->m, id)))
            rc = no_memory(err);
        if (rc == OTL_OK && !choose_rows(g, n_sources, &g->merged, &fresh, &g->gathered))
            rc = no_memory(err);
    }
    series_points_fini(&raw);
    series_points_fini(&fresh);
    return rc;
}

static enum otl_err merge_rollups(struct merge *g, int64_t id, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;
    bool exact = true;
    size_t n = 0;

    for (size_t i = 0; i < g->n && rc == OTL_OK; i++) {
        struct cursor *c = &g->cursors[i];

        series_points_reset(&c->pending);
        while (rc == OTL_OK && has_series(c, id))
            rc = read_chunk(g, c, err);
        if (c->pending.n > 0)
            g->sources[n++] = &c->pending;
    }
    if (rc != OTL_OK)
        return rc;
    if (n == 1)
        return part_output_add(&g->output, id, g->sources[0], 0, g->sources[0]->n, err);
    series_points_reset(&g->merged);
    if (!rollup_merge(&g->merged, g->sources, n, series_is_delta(g->m, id), &exact))
        return no_memory(err);
    if (exact)
        return part_output_add(&g->output, id, &g->merged, 0, g->merged.n, err);
    if (!g->all) {
        g->out->wants_all = true;
        return OTL_OK;
    }
    series_points_reset(&g->gathered);
    rc = make_again(g, id, n, err);
    return rc == OTL_OK ? part_output_add(&g->output, id, &g->gathered, 0, g->gathered.n, err) : rc;
}

/* ---- all series ---- */

static enum otl_err skip_series(struct merge *g, int64_t id, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    for (size_t i = 0; i < g->n; i++) {
        while (rc == OTL_OK && has_series(&g->cursors[i], id)) {
            g->out->dropped += next_chunk(&g->cursors[i])->n;
            rc = pass_chunk(g, &g->cursors[i], err);
        }
    }
    return rc;
}

static enum otl_err merge_all(struct merge *g, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    for (size_t i = 0; i < g->n && rc == OTL_OK; i++)
        rc = load_block(g, &g->cursors[i], err);
    while (rc == OTL_OK && !g->out->wants_all) {
        int64_t id = INT64_MAX;
        bool any = false;

        for (size_t i = 0; i < g->n; i++) {
            const struct chunk_summary *s = next_chunk(&g->cursors[i]);

            if (s != NULL && (!any || s->series_id < id)) {
                id = s->series_id;
                any = true;
            }
        }
        if (!any)
            break;
        rc = maintain_check(g->m, err);
        if (rc != OTL_OK)
            break;
        if (g->keep != NULL && !g->keep(g->arg, id))
            rc = skip_series(g, id, err);
        else
            rc = g->is_rollup ? merge_rollups(g, id, err) : merge_points(g, id, err);
    }
    if (rc == OTL_OK && !g->out->wants_all)
        rc = part_output_end(&g->output, err);
    if (rc == OTL_OK && !g->out->wants_all)
        rc = part_batch_flush(&g->batch, err);
    return rc;
}

/* ---- begin and end ---- */

static enum otl_err publish(void *arg, struct store *s, struct db *db, struct otl_error *err)
{
    struct merge *g = arg;
    enum otl_err rc = OTL_OK;

    (void)s;
    if (g->output.info.id != 0)
        rc = part_publish(db, &g->output.info, err);
    for (size_t i = 0; i < g->n && rc == OTL_OK; i++)
        rc = part_drop(db, g->cursors[i].part->id, err);
    return rc == OTL_OK ? fault_point("merge.publish.commit", err) : rc;
}

static enum otl_err merge_init(struct merge *g, const struct part_info *parts, size_t n,
                               struct otl_error *err)
{
    static const enum series_kind raw[] = {KIND_NUMBER, KIND_HISTOGRAM};
    enum otl_err rc;

    part_batch_init(&g->batch, g->m, "merge.blocks", "merge.blocks.commit");
    g->batch.between = true;
    series_points_init(&g->merged, parts[0].kind);
    series_points_init(&g->gathered, parts[0].kind);
    for (size_t i = 0; i < 2; i++) {
        if (rollup_kind_of(raw[i]) == parts[0].kind) {
            g->is_rollup = true;
            g->raw_kind = raw[i];
        }
    }
    g->cursors = calloc(n, sizeof(*g->cursors));
    g->sources = calloc(n, sizeof(*g->sources));
    if (g->cursors == NULL || g->sources == NULL)
        return no_memory(err);
    g->n = n;
    if (g->is_rollup && parts[0].resolution <= 0) {
        part_note_damaged(g->m, parts[0].id);
        return otl_fail(err, OTL_ECORRUPT, "merge: part %lld is a rollup without a resolution",
                        (long long)parts[0].id);
    }
    for (size_t i = 0; i < n; i++) {
        g->cursors[i].part = &parts[i];
        g->cursors[i].memo = calloc(1, sizeof(*g->cursors[i].memo));
        series_points_init(&g->cursors[i].pending, parts[0].kind);
        series_points_init(&g->cursors[i].piece, parts[0].kind);
        if (g->cursors[i].memo == NULL)
            return no_memory(err);
    }
    rc = part_output_init(&g->output, &g->batch, parts[0].kind, parts[0].resolution, parts[0].day,
                          parts[n - 1].sequence, err);
    if (rc == OTL_OK)
        rc = db_prepare(&g->m->db, "SELECT data FROM block WHERE id = ?", &g->fetch, err);
    return rc;
}

static void merge_fini(struct merge *g)
{
    for (size_t i = 0; i < g->n; i++) {
        struct cursor *c = &g->cursors[i];

        block_directory_fini(&c->dir);
        buf_fini(&c->block);
        free(c->memo);
        series_points_fini(&c->pending);
        series_points_fini(&c->piece);
    }
    free(g->cursors);
    free(g->sources);
    (void)sqlite3_finalize(g->fetch);
    part_output_fini(&g->output);
    part_batch_fini(&g->batch);
    series_points_fini(&g->merged);
    series_points_fini(&g->gathered);
}

/* The greatest sequence of the raw parts that rollups of this group were made from. */
static enum otl_err newest_raw(struct merge *g, int64_t day, struct otl_error *err)
{
    const struct part_info *parts;
    size_t n;
    enum otl_err rc = maintain_begin(g->m, err);

    if (rc != OTL_OK)
        return rc;
    parts = part_reader_parts(g->m->parts, &n);
    for (size_t i = 0; i < n; i++) {
        if (parts[i].kind == g->raw_kind && parts[i].resolution == 0 && parts[i].day == day &&
            parts[i].sequence > g->raw_sequence)
            g->raw_sequence = parts[i].sequence;
    }
    maintain_end(g->m);
    return OTL_OK;
}

enum otl_err merge_parts(struct maintainer *m, const struct part_info *parts, size_t n, bool all,
                         merge_keep_fn *keep, void *arg, struct merge_outcome *out,
                         struct otl_error *err)
{
    struct merge *g = calloc(1, sizeof(*g));
    int64_t start = clock_mono_ns();
    enum otl_err rc;

    memset(out, 0, sizeof(*out));
    if (g == NULL)
        return no_memory(err);
    g->m = m;
    g->all = all;
    g->keep = keep;
    g->arg = arg;
    g->out = out;
    m->collect = true;
    rc = merge_init(g, parts, n, err);
    if (rc == OTL_OK && g->is_rollup)
        rc = series_facts_refresh(m, err);
    if (rc == OTL_OK && g->is_rollup)
        rc = newest_raw(g, parts[0].day, err);
    if (rc == OTL_OK)
        rc = fault_point("merge.begin", err);
    if (rc == OTL_OK)
        rc = merge_all(g, err);
    if (rc == OTL_OK && !out->wants_all) {
        rc = fault_point("merge.publish", err);
        if (rc == OTL_OK)
            rc = maintain_task(m, publish, g, err);
    }
    if (rc == OTL_OK && !out->wants_all) {
        out->id = g->output.info.id;
        out->points = g->output.info.points;
        STATS_ADD(merges, 1);
        STATS_ADD(points_merged_again, out->points);
        LOG(LOG_DEBUG, "maintain", "merged", LOG_S("kind", series_schemas[parts[0].kind].name),
            LOG_I("resolution", parts[0].resolution), LOG_I("day", parts[0].day), LOG_I("parts", n),
            LOG_I("points", out->points), LOG_I("bytes", g->output.info.bytes),
            LOG_I("equal", out->counts.equal), LOG_I("replaced", out->counts.replaced),
            LOG_I("ms", (clock_mono_ns() - start) / NS_PER_MS));
    }
    merge_fini(g);
    free(g);
    return rc;
}
