/* Finding chunks in the live parts, and reading them. */
#include <sqlite3.h>
#include <stdlib.h>

#include "part_internal.h"

static enum otl_err no_memory(struct otl_error *err)
{
    return otl_fail(err, OTL_ENOMEM, "find chunks: no memory");
}

/* ---- opening a block: its directory ---- */

/* Stand r->blob on a block's data. OTL_ECORRUPT: there is none. */
static enum otl_err seek_blob(struct part_reader *r, int64_t block_id, struct otl_error *err)
{
    enum otl_err rc;
    int s = r->blob == NULL
                ? sqlite3_blob_open(r->db->sql, "main", "block", "data", block_id, 0, &r->blob)
                : sqlite3_blob_reopen(r->blob, block_id);

    if (s == SQLITE_OK)
        return OTL_OK;
    if (s == SQLITE_ERROR)
        rc = otl_fail(err, OTL_ECORRUPT, "the block's row is gone, or its data is no BLOB");
    else
        rc = db_fail(r->db, s, "open a block", err);
    part_reader_end(r);
    return rc;
}

void part_reader_end(struct part_reader *r)
{
    if (r->blob != NULL)
        (void)sqlite3_blob_close(r->blob);
    r->blob = NULL;
}

static enum otl_err read_blob(struct part_reader *r, size_t from, size_t n, struct otl_error *err)
{
    int s;

    buf_reset(&r->head);
    if (!buf_reserve(&r->head, n)) {
        buf_fini(&r->head);
        return no_memory(err);
    }
    s = sqlite3_blob_read(r->blob, r->head.p, (int)n, (int)from);
    if (s != SQLITE_OK)
        return db_fail(r->db, s, "read a block", err);
    r->head.n = n;
    return OTL_OK;
}

/* What the row says of the block, and what its directory says, is the same. */
static bool agrees(const struct part_list *l, const struct block_row *row,
                   const struct block_directory *d)
{
    int64_t min = INT64_MAX, max = INT64_MIN;
    uint64_t points = 0;

    for (uint32_t i = 0; i < d->n; i++) {
        const struct chunk_summary *c = &d->chunks[i];

        min = c->min_time < min ? c->min_time : min;
        max = c->max_time > max ? c->max_time : max;
        points += c->n;
    }
    return d->n > 0 && d->kind == l->kind && d->chunks[0].series_id == row->first_series &&
           d->chunks[d->n - 1].series_id == row->last_series && min == row->min_time &&
           max == row->max_time && points == row->points;
}

/* Header and directory only: wide windows need no more of most blocks. */
static enum otl_err read_directory(struct part_reader *r, const struct part_list *l,
                                   const struct block_row *row, struct block_directory *d,
                                   struct otl_error *err)
{
    enum { FRONT = 64 };
    enum otl_err rc = seek_blob(r, l->id << PART_BLOCK_BITS | row->number, err);
    size_t size, head;

    if (rc != OTL_OK)
        return rc;
    size = (size_t)sqlite3_blob_bytes(r->blob);
    rc = read_blob(r, 0, size < FRONT ? size : FRONT, err);
    if (rc != OTL_OK)
        return rc;
    head = block_head_bytes(buf_bytes(&r->head));
    if (head > r->head.n) {
        rc = read_blob(r, 0, head < size ? head : size, err);
        if (rc != OTL_OK)
            return rc;
    }
    rc = block_directory_open(buf_bytes(&r->head), d, err);
    if (rc != OTL_OK)
        return rc;
    if (d->block_bytes == size && agrees(l, row, d))
        return OTL_OK;
    rc = d->block_bytes == size
             ? otl_fail(err, OTL_ECORRUPT, "the block's row and its directory disagree")
             : otl_fail(err, OTL_ECORRUPT, "the block has %zu bytes instead of %zu", size,
                        d->block_bytes);
    block_directory_fini(d);
    return rc;
}

enum otl_err part_reader_open_block(struct part_reader *r, struct part_list *l, uint32_t at,
                                    struct part_block **out, struct otl_error *err)
{
    struct part_block *b = part_cache_pin(r->cache, l, at);
    struct block_directory d;
    struct otl_error mine = {0};
    enum otl_err rc;

    if (b != NULL) {
        *out = b;
        return OTL_OK;
    }
    rc = read_directory(r, l, &l->rows[at], &d, &mine);
    /* OTL_EDB: a newer format. Other errors are no fault of the block's. */
    if (rc == OTL_ECORRUPT || rc == OTL_EDB) {
        part_damage(l->id << PART_BLOCK_BITS | l->rows[at].number, -1, mine.msg);
        rc = OTL_ECORRUPT;
    }
    if (rc != OTL_OK) {
        if (err != NULL)
            *err = mine;
        return rc;
    }
    b = part_cache_add(r->cache, l, at, &d);
    if (b == NULL) {
        block_directory_fini(&d);
        return no_memory(err);
    }
    *out = b;
    return OTL_OK;
}

/* ---- finding ---- */

/* First of ids from `from` on that is not below id, or n. Fast when it is near. */
static size_t seek_id(const int64_t *ids, size_t n, size_t from, int64_t id)
{
    size_t lo = from, hi = n, step = 1;

    while (hi - lo > step && ids[lo + step - 1] < id) {
        lo += step;
        step *= 2;
    }
    if (hi - lo > step)
        hi = lo + step;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (ids[mid] < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The same for chunks, which are 128 at most: near ones first, then by halves. */
static uint32_t seek_chunk(const struct block_directory *d, uint32_t from, int64_t series_id)
{
    uint32_t near = from;

    while (near < d->n && near < from + 4 && d->chunks[near].series_id < series_id)
        near++;
    if (near < from + 4 || near == d->n)
        return near;
    from = block_directory_find(d, series_id);
    return from > near ? from : near;
}

struct query {
    const int64_t *series; /* NULL: all */
    size_t n;
    int64_t from, to;
};

/* Where a query's walk over a part's blocks stands in its series. */
struct walk {
    const struct query *q;
    size_t series;
};

static bool overlaps(const struct query *q, int64_t min_time, int64_t max_time)
{
    return max_time >= q->from && (min_time < q->to || q->to == INT64_MAX);
}

static bool add_ref(struct part_refs *refs, const struct chunk_summary *c, int64_t sequence,
                    uint32_t chunk)
{
    if (refs->n == refs->cap) {
        size_t cap = refs->cap * 2 + 64;
        struct chunk_ref *p = realloc(refs->refs, cap * sizeof(*p));

        if (p == NULL)
            return false;
        refs->refs = p;
        refs->cap = cap;
    }
    refs->refs[refs->n++] = (struct chunk_ref){c, sequence, (uint32_t)refs->n_blocks, chunk};
    return true;
}

/* References to the chunks of block b that were asked for; it is to be blocks[n_blocks]. */
static bool add_block_refs(struct walk *w, const struct part_block *b, int64_t sequence,
                           struct part_refs *refs)
{
    const struct query *q = w->q;
    const struct block_directory *d = &b->directory;

    for (uint32_t i = 0; i < d->n; i++) {
        if (q->series != NULL) {
            i = seek_chunk(d, i, q->series[w->series]);
            if (i == d->n)
                break;
            w->series = seek_id(q->series, q->n, w->series, d->chunks[i].series_id);
            if (w->series == q->n)
                break;
            if (q->series[w->series] != d->chunks[i].series_id)
                continue;
        }
        if (overlaps(q, d->chunks[i].min_time, d->chunks[i].max_time) &&
            !add_ref(refs, &d->chunks[i], sequence, i))
            return false;
    }
    return true;
}

static bool reserve_block(struct part_refs *refs)
{
    size_t cap = refs->cap_blocks * 2 + 16;
    struct part_block **p;

    if (refs->n_blocks < refs->cap_blocks)
        return true;
    p = realloc(refs->blocks, cap * sizeof(struct part_block *));
    if (p == NULL)
        return false;
    refs->blocks = p;
    refs->cap_blocks = cap;
    return true;
}

/* Block `at` of l may hold what was asked for. */
static enum otl_err find_in_block(struct part_reader *r, struct walk *w, struct part_list *l,
                                  uint32_t at, int64_t sequence, struct part_refs *refs,
                                  struct otl_error *err)
{
    struct part_block *b;
    size_t before = refs->n;
    enum otl_err rc;

    if (!reserve_block(refs))
        return no_memory(err);
    rc = part_reader_open_block(r, l, at, &b, err);
    if (rc == OTL_ECORRUPT) {
        refs->damaged++;
        return OTL_OK;
    }
    if (rc != OTL_OK)
        return rc;
    if (!add_block_refs(w, b, sequence, refs))
        rc = no_memory(err);
    if (rc == OTL_OK && refs->n > before)
        refs->blocks[refs->n_blocks++] = b;
    else
        part_cache_unpin(r->cache, &b, 1);
    return rc;
}

static enum otl_err find_in_part(struct part_reader *r, size_t part, const struct query *q,
                                 struct part_refs *refs, struct otl_error *err)
{
    struct walk w = {q, 0};
    struct part_list *l;
    enum otl_err rc = part_reader_list(r, part, &l, err);

    if (rc != OTL_OK)
        return rc;
    refs->damaged += l->damaged;
    for (uint32_t i = 0; i < l->n && rc == OTL_OK; i++) {
        if (q->series != NULL) {
            i = part_list_seek(l, i, q->series[w.series]);
            if (i == l->n)
                break;
            w.series = seek_id(q->series, q->n, w.series, l->rows[i].first_series);
            if (w.series == q->n)
                break;
            if (q->series[w.series] > l->rows[i].last_series)
                continue;
        }
        if (overlaps(q, l->rows[i].min_time, l->rows[i].max_time)) {
            /* The next block may go on with the series that this one ends with. */
            struct walk in_block = w;

            rc = find_in_block(r, &in_block, l, i, r->parts[part].sequence, refs, err);
        }
    }
    return rc;
}

/* ---- the order of references ---- */

static bool is_before(const struct chunk_ref *a, const struct chunk_ref *b)
{
    if (a->summary->series_id != b->summary->series_id)
        return a->summary->series_id < b->summary->series_id;
    if (a->summary->min_time != b->summary->min_time)
        return a->summary->min_time < b->summary->min_time;
    return a->sequence < b->sequence;
}

/* a and b lie one behind the other. */
static void merge_two(const struct chunk_ref *a, size_t n_a, size_t n_b, struct chunk_ref *out)
{
    const struct chunk_ref *b = a + n_a, *end_a = a + n_a, *end_b = b + n_b;

    if (n_a == 0 || n_b == 0 || !is_before(b, end_a - 1)) {
        memcpy(out, a, (n_a + n_b) * sizeof(*out));
        return;
    }
    while (a < end_a && b < end_b)
        *out++ = is_before(b, a) ? *b++ : *a++;
    memcpy(out, a, (size_t)(end_a - a) * sizeof(*out));
    out += end_a - a;
    memcpy(out, b, (size_t)(end_b - b) * sizeof(*out));
}

static bool in_order(const struct part_refs *refs, const size_t *ends, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++) {
        if (ends[i] > 0 && ends[i] < refs->n &&
            is_before(&refs->refs[ends[i]], &refs->refs[ends[i] - 1]))
            return false;
    }
    return true;
}

/* The references of each part are in order; ends: where those of the n parts end. Neighbours are
 * merged until one run is left. */
static bool merge_runs(struct part_refs *refs, size_t *ends, size_t n)
{
    struct chunk_ref *scratch;

    if (in_order(refs, ends, n))
        return true;
    scratch = malloc(refs->cap * sizeof(*scratch));
    if (scratch == NULL)
        return false;
    for (; n > 1; n = (n + 1) / 2) {
        struct chunk_ref *swap = refs->refs;
        size_t start = 0;

        for (size_t i = 0; i < n; i += 2) {
            size_t middle = ends[i], end = i + 1 < n ? ends[i + 1] : middle;

            merge_two(&refs->refs[start], middle - start, end - middle, &scratch[start]);
            ends[i / 2] = start = end;
        }
        refs->refs = scratch;
        scratch = swap;
    }
    free(scratch);
    return true;
}

enum otl_err part_find(struct part_reader *r, enum series_kind kind, int resolution,
                       const int64_t *series, size_t n, int64_t from, int64_t to,
                       struct part_refs *refs, struct otl_error *err)
{
    const struct query q = {series, n, from, to};
    enum otl_err rc = OTL_OK;
    size_t at, parts, *ends;

    *refs = (struct part_refs){0};
    if (from >= to || (series != NULL && n == 0))
        return OTL_OK;
    part_reader_range(r, kind, resolution, part_day(from),
                      to == INT64_MAX ? part_day(to) : part_day(to - 1), &at, &parts);
    if (parts == 0)
        return OTL_OK;
    ends = malloc(parts * sizeof(*ends));
    if (ends == NULL)
        return no_memory(err);
    for (size_t i = 0; i < parts && rc == OTL_OK; i++) {
        const struct part_info *p = &r->parts[at + i];

        if (overlaps(&q, p->min_time, p->max_time))
            rc = find_in_part(r, at + i, &q, refs, err);
        ends[i] = refs->n;
    }
    part_reader_end(r);
    if (rc == OTL_OK && !merge_runs(refs, ends, parts))
        rc = no_memory(err);
    free(ends);
    if (rc != OTL_OK)
        part_refs_release(r, refs);
    return rc;
}

void part_refs_release(struct part_reader *r, struct part_refs *refs)
{
    if (refs->n_blocks > 0)
        part_cache_unpin(r->cache, refs->blocks, refs->n_blocks);
    free(refs->refs);
    free(refs->blocks);
    *refs = (struct part_refs){0};
}

/* ---- reading ---- */

/* The data of block b as SQLite has it, copied. */
static enum otl_err read_data(struct part_reader *r, const struct part_block *b, uint8_t **out,
                              struct otl_error *err)
{
    size_t n = b->directory.block_bytes;
    enum otl_err rc = OTL_OK;
    const void *p;
    int step;

    if (sqlite3_bind_int64(r->data_st, 1, part_block_id(b)) != SQLITE_OK)
        return db_fail(r->db, sqlite3_errcode(r->db->sql), "read a block", err);
    step = sqlite3_step(r->data_st);
    if (step == SQLITE_ROW) {
        p = sqlite3_column_blob(r->data_st, 0);
        if (p == NULL && sqlite3_errcode(r->db->sql) == SQLITE_NOMEM) {
            rc = no_memory(err);
        } else if (p == NULL || (size_t)sqlite3_column_bytes(r->data_st, 0) != n) {
            rc = otl_fail(err, OTL_ECORRUPT, "the block is not as long as it says");
        } else {
            *out = malloc(n);
            if (*out == NULL)
                rc = no_memory(err);
            else
                memcpy(*out, p, n);
        }
    } else if (step == SQLITE_DONE) {
        rc = otl_fail(err, OTL_ECORRUPT, "the block's row is gone");
    } else {
        rc = db_fail(r->db, step, "read a block", err);
    }
    (void)sqlite3_reset(r->data_st);
    return rc;
}

enum otl_err part_block_load(struct part_reader *r, struct part_block *b, struct otl_error *err)
{
    struct otl_error mine = {0};
    uint8_t *data = NULL;
    enum otl_err rc;

    if (atomic_load_explicit(&b->data, memory_order_acquire) != NULL)
        return OTL_OK;
    rc = read_data(r, b, &data, &mine);
    if (rc == OTL_OK)
        part_cache_set_data(r->cache, b, data, b->directory.block_bytes);
    else if (rc == OTL_ECORRUPT)
        part_damage(part_block_id(b), -1, mine.msg);
    if (rc != OTL_OK && err != NULL)
        *err = mine;
    return rc;
}

struct bytes part_block_bytes(const struct part_block *b)
{
    const uint8_t *p = atomic_load_explicit(&b->data, memory_order_acquire);

    return bytes_of(p, p == NULL ? 0 : b->data_n);
}

const struct block_directory *part_block_directory(const struct part_block *b)
{
    return &b->directory;
}

enum otl_err part_block_read(struct part_reader *r, struct part_block *b, uint32_t chunk,
                             int64_t from, int64_t to, struct chunk_memo *memo,
                             struct series_points *out, struct otl_error *err)
{
    struct otl_error mine = {0};
    enum otl_err rc = part_block_load(r, b, err);

    if (rc != OTL_OK)
        return rc;
    rc = block_read_next(part_block_bytes(b), &b->directory, chunk, from, to, memo, out, &mine);
    if (rc == OTL_ECORRUPT)
        part_damage(part_block_id(b), chunk, mine.msg);
    if (rc != OTL_OK && err != NULL)
        *err = mine;
    return rc;
}

enum otl_err part_read_next(struct part_reader *r, struct part_refs *refs, size_t ref, int64_t from,
                            int64_t to, struct part_memo *memo, struct series_points *out,
                            struct otl_error *err)
{
    const struct chunk_ref *c = &refs->refs[ref];
    struct part_block *b = refs->blocks[c->place];
    enum otl_err rc;

    if (memo != NULL && memo->block_id != part_block_id(b)) {
        chunk_memo_forget(&memo->chunks);
        memo->block_id = part_block_id(b);
    }
    rc = part_block_read(r, b, c->chunk, from, to, memo == NULL ? NULL : &memo->chunks, out, err);

    if (rc == OTL_ECORRUPT)
        refs->damaged++;
    return rc;
}

enum otl_err part_read_chunk(struct part_reader *r, struct part_refs *refs, size_t ref,
                             int64_t from, int64_t to, struct series_points *out,
                             struct otl_error *err)
{
    return part_read_next(r, refs, ref, from, to, NULL, out, err);
}
