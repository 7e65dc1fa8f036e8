/* part_output.c -- parts being written: points in, blocks to the writer, some a task. */
#include <stdlib.h>
#include <string.h>

#include "maintain_internal.h"

/* Values in the lists of a chunk, about. */
enum { CHUNK_VALUES = 1 << 16 };

/* ---- the batch ---- */

void part_batch_init(struct part_batch *b, struct maintainer *m, const char *fault,
                     const char *fault_commit)
{
    memset(b, 0, sizeof(*b));
    b->m = m;
    b->fault = fault;
    b->fault_commit = fault_commit;
}

void part_batch_fini(struct part_batch *b)
{
    buf_fini(&b->bytes);
    free(b->blocks);
    b->blocks = NULL;
    b->n = b->cap = 0;
}

static enum otl_err insert_blocks(void *arg, struct store *s, struct db *db, struct otl_error *err)
{
    struct part_batch *b = arg;
    struct pending_block *first = &b->blocks[b->task_first], *end = first + b->task_n;
    enum otl_err rc = OTL_OK;

    (void)s;
    /* A task that is tried again makes its rows again. */
    for (struct pending_block *p = first; p < end; p++)
        p->output->in_task = p->output->info;
    for (struct pending_block *p = first; p < end && rc == OTL_OK; p++) {
        struct part_info *info = &p->output->in_task;

        if (info->id == 0)
            rc = part_create(db, info, err);
        if (rc == OTL_OK)
            rc = part_add_block(db, info->id, p->number, &p->info,
                                bytes_of(b->bytes.p + p->at, p->n), err);
    }
    return rc == OTL_OK ? fault_point(b->fault_commit, err) : rc;
}

/* The next task takes blocks from task_first on. */
static void fill_task(struct part_batch *b)
{
    size_t bytes = 0;

    b->task_n = 0;
    while (b->task_first + b->task_n < b->n && b->task_n < TASK_BLOCKS &&
           (b->task_n == 0 || bytes + b->blocks[b->task_first + b->task_n].n <= TASK_BYTES)) {
        bytes += b->blocks[b->task_first + b->task_n].n;
        b->task_n++;
    }
}

enum otl_err part_batch_flush(struct part_batch *b, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    for (b->task_first = 0; b->task_first < b->n; b->task_first += b->task_n) {
        fill_task(b);
        rc = fault_point(b->fault, err);
        if (rc == OTL_OK)
            rc = maintain_task(b->m, insert_blocks, b, err);
        if (rc != OTL_OK)
            return rc;
        for (size_t i = b->task_first; i < b->task_first + b->task_n; i++) {
            struct part_output *o = b->blocks[i].output;

            o->info.id = o->in_task.id;
            o->info.sequence = o->in_task.sequence;
        }
        if (b->between)
            rc = maintain_between(b->m, err);
        if (rc != OTL_OK)
            return rc;
    }
    b->n = 0;
    buf_reset(&b->bytes);
    return OTL_OK;
}

static bool reserve_block(struct part_batch *b)
{
    size_t cap = b->cap == 0 ? TASK_BLOCKS : 2 * b->cap;
    struct pending_block *p;

    if (b->n < b->cap)
        return true;
    p = realloc(b->blocks, cap * sizeof(*p));
    if (p == NULL)
        return false;
    b->blocks = p;
    b->cap = cap;
    return true;
}

/* ---- one part ---- */

enum otl_err part_output_init(struct part_output *o, struct part_batch *b, enum series_kind kind,
                              int resolution, int64_t day, int64_t sequence, struct otl_error *err)
{
    memset(o, 0, sizeof(*o));
    o->batch = b;
    o->info.kind = kind;
    o->info.resolution = resolution;
    o->info.day = day;
    o->info.sequence = sequence;
    o->info.min_time = INT64_MAX;
    o->info.max_time = INT64_MIN;
    o->writer = block_writer_new(kind);
    return o->writer != NULL ? OTL_OK : otl_fail(err, OTL_ENOMEM, "write a part: no memory");
}

void part_output_fini(struct part_output *o)
{
    block_writer_free(o->writer);
    o->writer = NULL;
}

static enum otl_err finish_block(struct part_output *o, struct otl_error *err)
{
    struct part_batch *b = o->batch;
    struct pending_block *p;
    size_t at = b->bytes.n;

    if (o->info.blocks >= (UINT64_C(1) << PART_BLOCK_BITS))
        return otl_fail(err, OTL_ETOOBIG, "write a part: it has more than %d blocks",
                        1 << PART_BLOCK_BITS);
    if (!reserve_block(b))
        return otl_fail(err, OTL_ENOMEM, "write a block: no memory");
    p = &b->blocks[b->n];
    if (!block_writer_take(o->writer, &b->bytes, &p->info) || b->bytes.failed)
        return otl_fail(err, OTL_ENOMEM, "write a block: no memory");
    p->output = o;
    p->number = (uint32_t)o->info.blocks;
    p->at = at;
    p->n = b->bytes.n - at;
    b->n++;
    o->info.blocks++;
    o->info.bytes += p->n;
    o->info.points += p->info.points;
    if (p->info.min_time < o->info.min_time)
        o->info.min_time = p->info.min_time;
    if (p->info.max_time > o->info.max_time)
        o->info.max_time = p->info.max_time;
    if (b->hold ? b->bytes.n >= HOLD_BYTES : b->n == TASK_BLOCKS || b->bytes.n >= TASK_BYTES)
        return part_batch_flush(b, err);
    return OTL_OK;
}

/* Values in the lists of points first to first + n - 1: buckets, attributes. */
static size_t list_values(const struct series_points *p, size_t first, size_t n)
{
    const struct series_schema *schema = &series_schemas[p->kind];
    size_t sum = 0;

    for (int f = 0; f < schema->n_fields; f++) {
        const uint32_t *end = p->fields[f].end;
        enum field_type type = schema->fields[f].type;

        if (type == FIELD_INTS || type == FIELD_DOUBLES || type == FIELD_BYTES)
            sum += end[first + n - 1] - (first == 0 ? 0 : end[first - 1]);
    }
    return sum;
}

/* In how many chunks to cut them. A block is at least a chunk and is inserted whole, so wide points
 * are cut more often. */
static size_t chunks_of(const struct series_points *p, size_t first, size_t n)
{
    size_t by_points = (n + CHUNK_MAX_POINTS - 1) / CHUNK_MAX_POINTS;
    size_t by_values = n == 0 ? 0 : (list_values(p, first, n) + CHUNK_VALUES - 1) / CHUNK_VALUES;

    return by_values > n ? n : by_values > by_points ? by_values : by_points;
}

enum otl_err part_output_add(struct part_output *o, int64_t series_id,
                             const struct series_points *p, size_t first, size_t n,
                             struct otl_error *err)
{
    /* Of about the same length: not one of a single point after a full one. */
    size_t pieces = chunks_of(p, first, n);
    enum otl_err rc = OTL_OK;

    for (; n > 0 && rc == OTL_OK; pieces -= pieces > 1) {
        /* Fewer where the long lists are all in one piece. */
        size_t take = chunk_fit(p, first, (n + pieces - 1) / pieces);

        if (block_writer_is_full(o->writer))
            rc = finish_block(o, err);
        if (rc == OTL_OK && !block_writer_add(o->writer, series_id, p, first, take))
            rc = otl_fail(err, OTL_ENOMEM, "write a chunk: no memory");
        first += take;
        n -= take;
    }
    return rc;
}

enum otl_err part_output_end(struct part_output *o, struct otl_error *err)
{
    return block_writer_chunks(o->writer) == 0 ? OTL_OK : finish_block(o, err);
}
