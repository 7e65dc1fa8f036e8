/* window_run.c -- decoding what the plan left, in the order of blocks.
 *
 * Blocks are loaded on the session's thread, a batch at a time, and their items are decoded there
 * or, in a large query, by two threads, each with windows of its own that are added up at the end.
 * Which thread does what depends on the items alone, so that the same query over the same data
 * gives the same sums to the last bit; when the second thread is busy with another query, this one
 * does both halves. What cannot be decoded is tried again the long way, which reports damage. */
#include <stdlib.h>
#include <string.h>

#include "read_helper.h"
#include "rollup.h"
#include "window_internal.h"

enum {
    LARGE_QUERY_POINTS = 1 << 20, /* from here on two threads */
    BATCH_POINTS = 4 << 20,
    ROLLUP_ROW_WEIGHT = 8, /* of a row, in points */
    MEMO_CHUNKS = 64
};

/* A thread's share of a batch. */
struct worker {
    struct windows *w;
    struct window_sum *sums;
    struct window_item *const *items; /* by block; each item is one worker's */
    size_t n;
    enum otl_err rc;
    struct otl_error err;
    struct window_cost cost;

    struct chunk_reader reader;
    /* What was worked out for the columns that the reader holds. */
    struct window_run runs[CHUNK_MAX_POINTS];
    size_t n_runs, low, high;
    uint32_t time_at, start_at, n_points; /* time_at 0: nothing */
    int64_t from, to;
    bool resets;

    struct chunk_memo *memo; /* of memo_of, for rollup chunks; NULL: none */
    const struct part_block *memo_of;
    struct series_points *rows; /* of rollup chunks */
    size_t n_rows;
    struct series_points merged;
};

static void worker_fini(struct worker *k)
{
    chunk_reader_fini(&k->reader);
    free(k->memo);
    for (size_t i = 0; i < k->n_rows; i++)
        series_points_fini(&k->rows[i]);
    free(k->rows);
    series_points_fini(&k->merged);
}

static struct part_block *item_block(const struct windows *w, const struct window_item *item,
                                     size_t i)
{
    const struct part_refs *refs = item->type == ITEM_CHUNK ? &w->raw : &w->rollup;

    return refs->blocks[refs->refs[item->ref + i].place];
}

/* ---- chunks ---- */

/* Runs of the times that the reader holds; most chunks share those of the chunk before. */
static void find_runs(struct worker *k, const struct window_item *item, bool same_block)
{
    const struct chunk_reader *r = &k->reader;
    const struct window_grid *g = &k->w->grid;
    bool same = same_block && k->time_at == r->time_at && k->n_points == r->n;

    if (!same || k->start_at != r->start_at)
        k->resets = window_has_resets(r->time, r->start_time, r->n);
    k->start_at = r->start_at;
    if (same && k->from == item->from && k->to == item->to)
        return;
    k->time_at = r->time_at;
    k->n_points = r->n;
    k->from = item->from;
    k->to = item->to;
    k->low = window_lower_bound(r->time, r->n, item->from);
    k->high = window_lower_bound(r->time, r->n, item->to);
    k->n_runs = window_runs(
        g, r->time, window_lower_bound(r->time, r->n, item->from > g->from ? item->from : g->from),
        k->high, k->runs);
}

static enum otl_err run_chunk(struct worker *k, struct window_item *item, bool same_block,
                              struct otl_error *err)
{
    const struct windows *w = k->w;
    const struct chunk_ref *ref = &w->raw.refs[item->ref];
    struct part_block *b = w->raw.blocks[ref->place];
    const struct block_directory *d = part_block_directory(b);
    struct window_target t = window_target_of(w, k->sums, item->series);
    struct window_columns c;
    enum otl_err rc =
        chunk_reader_numbers(&k->reader, part_block_bytes(b), d, ref->chunk, true, err);

    if (rc != OTL_OK) {
        k->time_at = 0;
        return rc;
    }
    find_runs(k, item, same_block && k->time_at != 0);
    window_columns_of_chunk(&k->reader, ref->summary, k->resets, &c);
    window_add_runs(&t, &c, k->low, k->runs, k->n_runs);
    if (window_wants_edges(w, item->series))
        window_edge_of_columns(&c, k->low, k->high, &item->edge);
    k->cost.chunks_decoded++;
    return OTL_OK;
}

/* ---- rollups ---- */

static bool prepare_rows(struct worker *k, size_t n)
{
    if (n > k->n_rows) {
        struct series_points *more = realloc(k->rows, n * sizeof(*more));

        if (more == NULL)
            return false;
        k->rows = more;
        for (; k->n_rows < n; k->n_rows++)
            series_points_init(&k->rows[k->n_rows], KIND_NUMBER_ROLLUP);
    }
    for (size_t i = 0; i < n; i++)
        series_points_reset(&k->rows[i]);
    series_points_reset(&k->merged);
    return true;
}

/* The fields that a query needs of rows that stand alone; to merge them takes all. */
static uint32_t fields_of(const struct window_query *q)
{
    const bool ends = !q->skip_ends || q->want_increase;
    uint32_t fields = 1U << NUMBER_ROLLUP_COUNT | 1U << NUMBER_ROLLUP_SUM | 1U << NUMBER_ROLLUP_N;

    if (!q->skip_extremes)
        fields |= 1U << NUMBER_ROLLUP_MIN | 1U << NUMBER_ROLLUP_MAX;
    if (q->want_increase)
        fields |= 1U << NUMBER_ROLLUP_INCREASE;
    if (ends)
        fields |= 1U << NUMBER_ROLLUP_FIRST_TIME | 1U << NUMBER_ROLLUP_LAST_TIME |
                  1U << NUMBER_ROLLUP_FIRST_START;
    /* The others may follow from these (rollup_follow.h). */
    if (ends || !q->skip_extremes)
        fields |= 1U << NUMBER_ROLLUP_FIRST | 1U << NUMBER_ROLLUP_LAST;
    return fields;
}

static enum otl_err read_row_chunk(struct worker *k, const struct chunk_ref *ref, uint32_t fields,
                                   struct series_points *out, struct otl_error *err)
{
    struct part_block *b = k->w->rollup.blocks[ref->place];

    if (k->memo == NULL && k->w->rollup.n >= MEMO_CHUNKS)
        k->memo = calloc(1, sizeof(*k->memo)); /* without it all goes on, slower */
    else if (k->memo != NULL && k->memo_of != b)
        chunk_memo_forget(k->memo);
    k->memo_of = b;
    return block_read_fields(part_block_bytes(b), part_block_directory(b), ref->chunk, fields,
                             INT64_MIN, INT64_MAX, k->memo, out, err);
}

/* The rows of the chunks of one day, one row a window. *exact: as rollup_merge has it. */
static enum otl_err read_rows(struct worker *k, const struct window_item *item,
                              const struct series_points **rows, bool *exact, struct otl_error *err)
{
    const struct windows *w = k->w;
    const struct series_points **order;
    enum otl_err rc = OTL_OK;
    bool merged;

    if (!prepare_rows(k, item->n))
        return otl_fail(err, OTL_ENOMEM, "windows: no memory");
    for (size_t i = 0; i < item->n && rc == OTL_OK; i++)
        rc = read_row_chunk(k, &w->rollup.refs[item->ref + i],
                            item->n == 1 ? fields_of(w->q) : UINT32_MAX, &k->rows[i], err);
    *exact = true;
    *rows = &k->rows[0];
    if (rc != OTL_OK || item->n == 1)
        return rc;
    order = malloc(item->n * sizeof(*order));
    if (order == NULL)
        return otl_fail(err, OTL_ENOMEM, "windows: no memory");
    for (size_t i = 0; i < item->n; i++)
        order[i] = &k->rows[i];
    merged =
        rollup_merge(&k->merged, order, item->n, w->delta != NULL && w->delta[item->series], exact);
    free(order);
    *rows = &k->merged;
    return merged ? OTL_OK : otl_fail(err, OTL_ENOMEM, "windows: no memory");
}

static enum otl_err run_rollup(struct worker *k, struct window_item *item, struct otl_error *err)
{
    struct window_target t = window_target_of(k->w, k->sums, item->series);
    const struct series_points *rows = NULL;
    uint64_t points = 0;
    bool exact;
    enum otl_err rc = read_rows(k, item, &rows, &exact, err);

    if (rc != OTL_OK)
        return rc;
    for (size_t i = 0; i < rows->n; i++)
        points += (uint64_t)rows->fields[NUMBER_ROLLUP_N].v[i];
    if (item->n_raw > 0 && (points < item->raw_points || !exact)) {
        item->failed = true;
        return OTL_OK;
    }
    window_add_rollup(&t, rows, item->from, item->to, &item->edge);
    k->cost.rollup_chunks += item->n;
    return OTL_OK;
}

/* ---- a batch ---- */

static void run_worker(void *arg)
{
    struct worker *k = arg;
    const struct part_block *before = NULL;

    for (size_t i = 0; i < k->n && k->rc == OTL_OK; i++) {
        struct window_item *item = k->items[i];
        const struct part_block *b = item_block(k->w, item, 0);

        if (item->failed) /* its block could not be loaded */
            continue;
        if (b != before)
            k->rc = read_check(k->w->r, &k->err);
        if (k->rc != OTL_OK)
            break;
        k->rc = item->type == ITEM_CHUNK ? run_chunk(k, item, b == before, &k->err)
                                         : run_rollup(k, item, &k->err);
        before = b;
        if (k->rc == OTL_ECORRUPT) {
            item->failed = item->damaged = true;
            k->rc = OTL_OK;
        }
    }
    /* The bytes may move before the next batch. */
    chunk_reader_forget(&k->reader);
    k->time_at = 0;
    k->memo_of = NULL;
}

static uint64_t item_weight(const struct windows *w, const struct window_item *item)
{
    uint64_t n = 0;

    if (item->type == ITEM_CHUNK)
        return w->raw.refs[item->ref].summary->n;
    for (size_t i = 0; i < item->n; i++)
        n += w->rollup.refs[item->ref + i].summary->n;
    return n * ROLLUP_ROW_WEIGHT;
}

/* Load the blocks of items from *at on, until there is enough to do. */
static enum otl_err load_batch(struct windows *w, struct window_item **items, size_t n, size_t *at,
                               uint64_t *weight, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    *weight = 0;
    while (*at < n && *weight < BATCH_POINTS && rc == OTL_OK) {
        struct window_item *item = items[(*at)++];

        for (size_t i = 0; i < item->n && rc == OTL_OK; i++) {
            rc = part_block_load(w->r->session->parts, item_block(w, item, i), err);
            if (rc == OTL_ECORRUPT) { /* reported */
                item->failed = true;
                rc = OTL_OK;
            }
        }
        *weight += item_weight(w, item);
        if (*at % 256 == 0 && rc == OTL_OK)
            rc = read_check(w->r, err);
    }
    return rc;
}

/* The first of n items behind half of the weight, at a change of block. */
static size_t half_of(const struct windows *w, struct window_item *const *items, size_t n,
                      uint64_t weight)
{
    uint64_t sum = 0;
    size_t i;

    for (i = 0; i < n && (sum < weight / 2 ||
                          (i > 0 && item_block(w, items[i], 0) == item_block(w, items[i - 1], 0)));
         i++)
        sum += item_weight(w, items[i]);
    return i;
}

static enum otl_err run_batch(struct windows *w, struct worker *mine, struct worker *other,
                              struct window_item *const *items, size_t n, uint64_t weight,
                              struct otl_error *err)
{
    struct read_helper *helper = w->r->session->shared->helper;
    size_t half = other != NULL ? half_of(w, items, n, weight) : n;

    mine->items = items;
    mine->n = half;
    if (half < n) {
        other->items = items + half;
        other->n = n - half;
        if (read_helper_start(helper, run_worker, other)) {
            run_worker(mine);
            read_helper_wait(helper);
        } else {
            run_worker(mine);
            run_worker(other);
        }
        if (mine->rc == OTL_OK && other->rc != OTL_OK) {
            mine->rc = other->rc;
            mine->err = other->err;
        }
    } else {
        run_worker(mine);
    }
    if (mine->rc != OTL_OK && err != NULL)
        *err = mine->err;
    return mine->rc;
}

/* ---- the long way ---- */

static enum otl_err report_rollup(struct windows *w, const struct window_item *item,
                                  struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    for (size_t i = 0; i < item->n && rc == OTL_OK; i++) {
        struct series_points rows;

        series_points_init(&rows, KIND_NUMBER_ROLLUP);
        rc = part_read_chunk(w->r->session->parts, &w->rollup, item->ref + i, INT64_MIN, INT64_MAX,
                             &rows, err);
        series_points_fini(&rows);
        if (rc == OTL_ECORRUPT)
            rc = OTL_OK;
    }
    return rc;
}

static enum otl_err run_again(struct windows *w, struct window_item *item, struct otl_error *err)
{
    bool is_chunk = item->type == ITEM_CHUNK;
    size_t first = is_chunk ? item->ref : item->raw, n = is_chunk ? 1 : item->n_raw;
    enum otl_err rc = OTL_OK;

    if (!is_chunk && item->damaged)
        rc = report_rollup(w, item, err);
    series_points_reset(&w->points);
    /* Leaves out what is damaged, having reported it. */
    if (rc == OTL_OK)
        rc = gather_points(&w->gather, w->r, &w->raw, first, n, NULL, item->from, item->to,
                           &w->points, err);
    if (rc != OTL_OK)
        return rc;
    window_add_points(w, item->series, &w->points, 0, w->points.n, &item->edge);
    w->cost.chunks_decoded += n;
    return OTL_OK;
}

/* ---- all ---- */

static size_t item_place(const struct windows *w, const struct window_item *item)
{
    return item->type == ITEM_CHUNK ? w->raw.refs[item->ref].place
                                    : w->raw.n_blocks + w->rollup.refs[item->ref].place;
}

/* Stable: from to to, by key[i] of from[i], which are below n_keys. at: room for n_keys + 1. */
static void sort_by_key(struct window_item *const *from, struct window_item **to, size_t n,
                        const size_t *key, size_t n_keys, size_t *at)
{
    memset(at, 0, (n_keys + 1) * sizeof(*at));
    for (size_t i = 0; i < n; i++)
        at[key[i] + 1]++;
    for (size_t k = 1; k <= n_keys; k++)
        at[k] += at[k - 1];
    for (size_t i = 0; i < n; i++)
        to[at[key[i]]++] = from[i];
}

/* Which chunk of its series in its block each item is, from 0. In a block the first chunks of all
 * series mostly share their times, and so do the second ones. */
static void rank_items(const struct windows *w, struct window_item *const *items, size_t n,
                       size_t *rank)
{
    for (size_t i = 0; i < n; i++) {
        bool goes_on = i > 0 && items[i]->series == items[i - 1]->series &&
                       item_place(w, items[i]) == item_place(w, items[i - 1]);

        rank[i] = goes_on && rank[i - 1] + 1 < BLOCK_MAX_CHUNKS ? rank[i - 1] + 1 : 0;
    }
}

/* The items to decode by block, chunks before rollups, and by rank; NULL in *out: there are none.
 */
static enum otl_err sort_items(struct windows *w, struct window_item ***out, size_t *n_out,
                               uint64_t *weight, struct otl_error *err)
{
    size_t blocks = w->raw.n_blocks + w->rollup.n_blocks, n = 0, *key, *at;
    struct window_item **items, **by_rank;

    *n_out = 0;
    *weight = 0;
    *out = NULL;
    for (size_t i = 0; i < w->n_items; i++)
        n += w->items[i].type != ITEM_DONE;
    if (n == 0)
        return OTL_OK;
    key = malloc(n * sizeof(*key));
    at = malloc((blocks + BLOCK_MAX_CHUNKS + 1) * sizeof(*at));
    items = malloc(n * sizeof(struct window_item *));
    by_rank = malloc(n * sizeof(struct window_item *));
    if (key == NULL || at == NULL || items == NULL || by_rank == NULL) {
        free(items);
        items = NULL;
    } else {
        for (size_t i = 0, k = 0; i < w->n_items; i++) {
            if (w->items[i].type == ITEM_DONE)
                continue;
            items[k++] = &w->items[i];
            *weight += item_weight(w, &w->items[i]);
        }
        rank_items(w, items, n, key);
        sort_by_key(items, by_rank, n, key, BLOCK_MAX_CHUNKS, at);
        for (size_t i = 0; i < n; i++)
            key[i] = item_place(w, by_rank[i]);
        sort_by_key(by_rank, items, n, key, blocks, at);
    }
    free(key);
    free(at);
    free(by_rank);
    if (items == NULL)
        return otl_fail(err, OTL_ENOMEM, "windows: no memory");
    *out = items;
    *n_out = n;
    return OTL_OK;
}

/* Windows for a second thread, if the query is large and has the memory. */
static void prepare_more_sums(struct windows *w, uint64_t weight)
{
    int64_t size = (int64_t)(w->n_sums * sizeof(*w->more_sums));

    if (w->more_sums != NULL || weight < LARGE_QUERY_POINTS || w->n_sums > weight / 4 ||
        read_charge(w->r, size, NULL) != OTL_OK)
        return;
    w->more_sums = malloc((size_t)size);
    if (w->more_sums == NULL)
        (void)!read_charge(w->r, -size, NULL);
    else
        window_sums_init(w->more_sums, w->n_sums);
}

static struct worker *worker_new(struct windows *w, struct window_sum *sums)
{
    struct worker *k = calloc(1, sizeof(*k));

    if (k == NULL)
        return NULL;
    k->w = w;
    k->sums = sums;
    series_points_init(&k->merged, KIND_NUMBER_ROLLUP);
    return k;
}

static void worker_free(struct windows *w, struct worker *k)
{
    if (k == NULL)
        return;
    w->cost.chunks_decoded += k->cost.chunks_decoded;
    w->cost.rollup_chunks += k->cost.rollup_chunks;
    worker_fini(k);
    free(k);
}

enum otl_err window_run_items(struct windows *w, struct otl_error *err)
{
    struct worker *mine = NULL, *other = NULL;
    struct window_item **items = NULL;
    size_t n = 0, at = 0;
    uint64_t weight = 0;
    enum otl_err rc = sort_items(w, &items, &n, &weight, err);

    if (rc != OTL_OK || n == 0)
        return rc;
    prepare_more_sums(w, weight);
    mine = worker_new(w, w->sums);
    if (w->more_sums != NULL && weight >= LARGE_QUERY_POINTS)
        other = worker_new(w, w->more_sums);
    if (mine == NULL)
        rc = otl_fail(err, OTL_ENOMEM, "windows: no memory");
    while (at < n && rc == OTL_OK) {
        size_t first = at;

        rc = load_batch(w, items, n, &at, &weight, err);
        if (rc == OTL_OK)
            rc = run_batch(w, mine, other, items + first, at - first, weight, err);
    }
    for (size_t i = 0; i < n && rc == OTL_OK; i++) {
        if (items[i]->failed)
            rc = run_again(w, items[i], err);
    }
    worker_free(w, mine);
    worker_free(w, other);
    free(items);
    return rc;
}
