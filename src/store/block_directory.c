/* block_directory.c -- the directory of a block, there and back. It is columns (column.h), each
 * behind its length. What several chunks have in common (a frame) is there once, and of numbers
 * that are all integers the differences, most of which are 0 for a counter. docs/format.md,
 * "Directory". */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "block_internal.h"
#include "column.h"
#include "column_pack.h"

static int64_t minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t bits_of(double d)
{
    int64_t v;

    memcpy(&v, &d, sizeof(v));
    return v;
}

static double double_of(int64_t bits)
{
    double d;

    memcpy(&d, &bits, sizeof(d));
    return d;
}

/* How the values of a chunk of numbers are written. */
enum { VALUES_NONE, VALUES_WHOLE, VALUES_OTHER };

/* Columns of chunks with VALUES_WHOLE, integers, and VALUES_OTHER, doubles. */
enum { VALUE_COLUMNS = 6 };

/* ---- writing ---- */

/* A column of at most a value a chunk, being made. */
struct column_out {
    int64_t v[BLOCK_MAX_CHUNKS];
    size_t n;
};

static void add_column(struct buf *out, const struct column_out *c, bool doubles)
{
    struct buf b = {0};

    if (doubles)
        column_encode_doubles(&b, (const uint64_t *)c->v, c->n);
    else
        column_encode_ints(&b, c->v, c->n);
    pack_add_varint(out, b.n);
    buf_add_bytes(out, buf_bytes(&b));
    out->failed = out->failed || b.failed;
    buf_fini(&b);
}

/* One column over the chunks, or over the first chunk of each frame: VALUE is an expression of c, a
 * summary, and i, the chunk's number. */
#define ADD_CHUNKS(out, src, VALUE)                            \
    do {                                                       \
        struct column_out column_ = {.n = (src)->n};           \
        for (uint32_t i = 0; i < (src)->n; i++) {              \
            const struct chunk_summary *c = &(src)->chunks[i]; \
            (void)c;                                           \
            column_.v[i] = (VALUE);                            \
        }                                                      \
        add_column((out), &column_, false);                    \
    } while (0)
#define ADD_FRAMES(out, src, VALUE)                            \
    do {                                                       \
        struct column_out column_ = {.n = (src)->n_frames};    \
        for (uint32_t f_ = 0; f_ < (src)->n_frames; f_++) {    \
            uint32_t i = (src)->frame_chunk[f_];               \
            const struct chunk_summary *c = &(src)->chunks[i]; \
            (void)c;                                           \
            column_.v[f_] = (VALUE);                           \
        }                                                      \
        add_column((out), &column_, false);                    \
    } while (0)

/* Has a value, which may be NaN. */
static bool has_value(const struct chunk_summary *c)
{
    return c->first_kind != VALUE_NONE;
}

static bool is_whole(double d)
{
    const double most = 9007199254740992.0; /* 2^53 */

    return d >= -most && d <= most && floor(d) == d && bits_of(d) != INT64_MIN /* -0.0 */;
}

static int values_of(const struct chunk_summary *c)
{
    if (!has_value(c))
        return VALUES_NONE;
    if (c->first_kind == VALUE_INT && c->last_kind == VALUE_INT && is_whole((double)c->first) &&
        is_whole((double)c->last) && is_whole(c->sum) && is_whole(c->min) && is_whole(c->max) &&
        is_whole(c->increase))
        return VALUES_WHOLE;
    return VALUES_OTHER;
}

static void value_columns(const struct chunk_summary *c, int64_t v[VALUE_COLUMNS])
{
    if (values_of(c) == VALUES_WHOLE) {
        int64_t rise = minus(c->last, c->first);

        v[0] = c->first;
        v[1] = rise;
        v[2] = minus(c->first, (int64_t)c->min);
        v[3] = minus((int64_t)c->max, c->last);
        v[4] = minus((int64_t)c->increase, rise);
        v[5] = (int64_t)c->sum;
    } else {
        v[0] = c->first;
        v[1] = c->last;
        v[2] = bits_of(c->min);
        v[3] = bits_of(c->max);
        v[4] = bits_of(c->increase);
        v[5] = bits_of(c->sum);
    }
}

static void add_values(struct buf *out, const struct directory_source *src, int which)
{
    struct column_out columns[VALUE_COLUMNS] = {0};

    for (uint32_t i = 0; i < src->n; i++) {
        int64_t v[VALUE_COLUMNS];

        if (values_of(&src->chunks[i]) != which)
            continue;
        value_columns(&src->chunks[i], v);
        for (int k = 0; k < VALUE_COLUMNS; k++)
            columns[k].v[columns[k].n++] = v[k];
    }
    for (int k = 0; k < VALUE_COLUMNS; k++)
        add_column(out, &columns[k], which == VALUES_OTHER);
}

void block_directory_write(struct buf *out, const struct directory_source *src)
{
    uint32_t per_chunk = block_stream_count(src->kind);
    uint32_t frame_streams = frame_stream_count(src->kind);

    pack_add_varint(out, src->n_frames);
    ADD_FRAMES(out, src, c->n);
    ADD_FRAMES(out, src, c->min_time);
    ADD_FRAMES(out, src, minus(c->max_time, c->min_time));
    for (uint32_t s = 0; s < frame_streams; s++)
        ADD_FRAMES(out, src, src->streams[i * per_chunk + s]);
    if (src->kind == KIND_NUMBER) {
        ADD_FRAMES(out, src, (int64_t)c->n_values + c->n_nan);
        ADD_FRAMES(out, src, c->first_kind);
        ADD_FRAMES(out, src, c->last_kind);
        ADD_FRAMES(out, src, has_value(c) ? minus(c->first_value_time, c->min_time) : 0);
        ADD_FRAMES(out, src, has_value(c) ? minus(c->max_time, c->last_value_time) : 0);
        ADD_FRAMES(out, src, c->first_value_start);
    }
    ADD_CHUNKS(out, src, c->series_id);
    ADD_CHUNKS(out, src, src->frame[i]);
    for (uint32_t s = frame_streams; s < per_chunk; s++)
        ADD_CHUNKS(out, src, src->streams[i * per_chunk + s]);
    if (src->kind == KIND_NUMBER) {
        ADD_CHUNKS(out, src, c->n_nan);
        ADD_CHUNKS(out, src, values_of(c));
        add_values(out, src, VALUES_WHOLE);
        add_values(out, src, VALUES_OTHER);
    }
}

/* ---- reading ---- */

struct directory_in {
    struct bytes in;
    struct block_directory *d;
    uint32_t n_frames;
    const char *column; /* the one that was read last, for the message */
    int64_t v[BLOCK_MAX_CHUNKS];
};

static bool take_column(struct directory_in *r, const char *name, size_t n, bool doubles)
{
    struct bytes b;
    uint64_t length;

    r->column = name;
    if (!pack_take_varint(&r->in, &length) || length > r->in.n)
        return false;
    b = bytes_of(r->in.p, (size_t)length);
    r->in = bytes_of(r->in.p + length, r->in.n - (size_t)length);
    return doubles ? column_decode_doubles(b, (uint64_t *)r->v, n) : column_decode_ints(b, r->v, n);
}

/* What follows from the streams that the chunks of a frame share. */
struct frame {
    uint32_t n, n_with_value;
    int64_t min_time, max_time, first_value_time, last_value_time, first_value_start;
    enum value_kind first_kind, last_kind;
    uint32_t streams[STREAM_FIELDS + 1];
};

/* The column that was read last has a value in [low, high] for each frame. */
static bool in_range(const struct directory_in *r, size_t n, int64_t low, int64_t high)
{
    for (size_t i = 0; i < n; i++)
        if (r->v[i] < low || r->v[i] > high)
            return false;
    return true;
}

/* From the file's 0 or 1 + offset among the streams to 0 or the offset in the block. */
static bool take_streams(struct directory_in *r, uint32_t s, size_t n)
{
    static const char *const names[] = {"place of time", "place of start_time", "place of flags",
                                        "place of a field's stream"};
    const struct block_directory *d = r->d;
    /* The shortest stream has six bytes. */
    int64_t most = (int64_t)d->block_bytes - d->streams_at - 5;

    if (!take_column(r, names[s < STREAM_FIELDS ? s : STREAM_FIELDS], n, false) ||
        !in_range(r, n, 0, most < 0 ? 0 : most))
        return false;
    for (size_t i = 0; i < n; i++)
        if (r->v[i] > 0)
            r->v[i] += d->streams_at - 1;
    return true;
}

static bool take_frames(struct directory_in *r, struct frame *frames)
{
    uint32_t frame_streams = frame_stream_count(r->d->kind);
    size_t n = r->n_frames;

    if (!take_column(r, "n", n, false) || !in_range(r, n, 1, CHUNK_MAX_POINTS))
        return false;
    for (size_t f = 0; f < n; f++)
        frames[f].n = (uint32_t)r->v[f];
    if (!take_column(r, "min_time", n, false))
        return false;
    for (size_t f = 0; f < n; f++)
        frames[f].min_time = r->v[f];
    if (!take_column(r, "max_time", n, false))
        return false;
    for (size_t f = 0; f < n; f++) {
        frames[f].max_time = plus(frames[f].min_time, r->v[f]);
        if (frames[f].max_time < frames[f].min_time)
            return false;
    }
    for (uint32_t s = 0; s < frame_streams; s++) {
        if (!take_streams(r, s, n))
            return false;
        for (size_t f = 0; f < n; f++)
            frames[f].streams[s] = (uint32_t)r->v[f];
    }
    return true;
}

static bool take_value_frames(struct directory_in *r, struct frame *frames)
{
    size_t n = r->n_frames;

    if (!take_column(r, "points with a value", n, false))
        return false;
    for (size_t f = 0; f < n; f++) {
        if (r->v[f] < 0 || r->v[f] > frames[f].n)
            return false;
        frames[f].n_with_value = (uint32_t)r->v[f];
    }
    if (!take_column(r, "first_kind", n, false) || !in_range(r, n, VALUE_NONE, VALUE_DOUBLE))
        return false;
    for (size_t f = 0; f < n; f++) {
        frames[f].first_kind = (enum value_kind)r->v[f];
        if ((frames[f].first_kind == VALUE_NONE) != (frames[f].n_with_value == 0))
            return false;
    }
    if (!take_column(r, "last_kind", n, false) || !in_range(r, n, VALUE_NONE, VALUE_DOUBLE))
        return false;
    for (size_t f = 0; f < n; f++) {
        frames[f].last_kind = (enum value_kind)r->v[f];
        if ((frames[f].last_kind == VALUE_NONE) != (frames[f].n_with_value == 0))
            return false;
    }
    if (!take_column(r, "first_value_time", n, false))
        return false;
    for (size_t f = 0; f < n; f++)
        frames[f].first_value_time = plus(frames[f].min_time, r->v[f]);
    if (!take_column(r, "last_value_time", n, false))
        return false;
    for (size_t f = 0; f < n; f++)
        frames[f].last_value_time = minus(frames[f].max_time, r->v[f]);
    if (!take_column(r, "first_value_start", n, false))
        return false;
    for (size_t f = 0; f < n; f++)
        frames[f].first_value_start = r->v[f];
    return true;
}

static void use_frame(struct block_directory *d, uint32_t i, const struct frame *f)
{
    struct chunk_summary *c = &d->chunks[i];

    c->n = f->n;
    c->min_time = f->min_time;
    c->max_time = f->max_time;
    for (uint32_t s = 0; s < frame_stream_count(d->kind); s++)
        d->streams[i * d->streams_per_chunk + s] = f->streams[s];
    c->n_values = f->n_with_value; /* NaN included, until they are known */
    if (f->n_with_value == 0)
        return;
    c->first_kind = f->first_kind;
    c->last_kind = f->last_kind;
    c->first_value_time = f->first_value_time;
    c->last_value_time = f->last_value_time;
    c->first_value_start = f->first_value_start;
}

static bool take_chunks(struct directory_in *r, const struct frame *frames)
{
    struct block_directory *d = r->d;

    if (!take_column(r, "series_id", d->n, false))
        return false;
    for (uint32_t i = 0; i < d->n; i++) {
        d->chunks[i].series_id = r->v[i];
        if (i > 0 && r->v[i] < r->v[i - 1])
            return false;
    }
    if (!take_column(r, "frame", d->n, false) || !in_range(r, d->n, 0, (int64_t)r->n_frames - 1))
        return false;
    for (uint32_t i = 0; i < d->n; i++) {
        const struct chunk_summary *c = &d->chunks[i];

        use_frame(d, i, &frames[r->v[i]]);
        if (i > 0 && c->series_id == c[-1].series_id && c->min_time < c[-1].max_time)
            return false;
    }
    for (uint32_t s = frame_stream_count(d->kind); s < d->streams_per_chunk; s++) {
        if (!take_streams(r, s, d->n))
            return false;
        for (uint32_t i = 0; i < d->n; i++)
            d->streams[i * d->streams_per_chunk + s] = (uint32_t)r->v[i];
    }
    return true;
}

static void use_values(struct chunk_summary *c, int which, const int64_t v[VALUE_COLUMNS])
{
    if (which == VALUES_WHOLE) {
        c->first = v[0];
        c->last = plus(v[0], v[1]);
        c->min = (double)minus(v[0], v[2]);
        c->max = (double)plus(c->last, v[3]);
        c->increase = (double)plus(v[1], v[4]);
        c->sum = (double)v[5];
    } else {
        c->first = v[0];
        c->last = v[1];
        c->min = double_of(v[2]);
        c->max = double_of(v[3]);
        c->increase = double_of(v[4]);
        c->sum = double_of(v[5]);
    }
}

static bool take_values(struct directory_in *r, int which, const uint8_t *values_are)
{
    static const char *const names[] = {"first", "last", "min", "max", "increase", "sum"};
    int64_t v[BLOCK_MAX_CHUNKS][VALUE_COLUMNS];
    size_t n = 0;

    for (uint32_t i = 0; i < r->d->n; i++)
        n += values_are[i] == which;
    for (int k = 0; k < VALUE_COLUMNS; k++) {
        if (!take_column(r, names[k], n, which == VALUES_OTHER))
            return false;
        for (size_t i = 0; i < n; i++)
            v[i][k] = r->v[i];
    }
    n = 0;
    for (uint32_t i = 0; i < r->d->n; i++)
        if (values_are[i] == which)
            use_values(&r->d->chunks[i], which, v[n++]);
    return true;
}

static bool take_all_values(struct directory_in *r)
{
    struct block_directory *d = r->d;
    uint8_t values_are[BLOCK_MAX_CHUNKS];

    if (!take_column(r, "n_nan", d->n, false))
        return false;
    for (uint32_t i = 0; i < d->n; i++) {
        struct chunk_summary *c = &d->chunks[i];

        if (r->v[i] < 0 || r->v[i] > c->n_values)
            return false;
        c->n_nan = (uint32_t)r->v[i];
        c->n_values -= c->n_nan;
    }
    if (!take_column(r, "form of values", d->n, false) ||
        !in_range(r, d->n, VALUES_NONE, VALUES_OTHER))
        return false;
    for (uint32_t i = 0; i < d->n; i++) {
        values_are[i] = (uint8_t)r->v[i];
        if ((values_are[i] == VALUES_NONE) != (d->chunks[i].first_kind == VALUE_NONE))
            return false;
    }
    return take_values(r, VALUES_WHOLE, values_are) && take_values(r, VALUES_OTHER, values_are);
}

static bool take_directory(struct directory_in *r, struct frame *frames)
{
    uint64_t n_frames;

    r->column = "number of frames";
    if (!pack_take_varint(&r->in, &n_frames) || n_frames == 0 || n_frames > r->d->n)
        return false;
    r->n_frames = (uint32_t)n_frames;
    if (!take_frames(r, frames))
        return false;
    if (r->d->kind == KIND_NUMBER && !take_value_frames(r, frames))
        return false;
    if (!take_chunks(r, frames))
        return false;
    if (r->d->kind == KIND_NUMBER && !take_all_values(r))
        return false;
    r->column = "end";
    return r->in.n == 0;
}

size_t block_head_bytes(struct bytes front)
{
    uint32_t directory;

    if (front.n < HEADER_BYTES || memcmp(front.p, BLOCK_MAGIC, sizeof(BLOCK_MAGIC)) != 0 ||
        front.p[HEADER_FORMAT] != BLOCK_FORMAT)
        return 0;
    directory = load32(front.p + HEADER_DIRECTORY);
    return directory > DIRECTORY_MAX_BYTES ? 0 : HEADER_BYTES + (size_t)directory;
}

/* The header as far as it makes sense of itself. */
static enum otl_err open_header(struct bytes head, struct block_directory *d, size_t *head_bytes,
                                struct otl_error *err)
{
    const uint8_t *h = head.p;
    uint32_t checksum;

    if (head.n < HEADER_BYTES || memcmp(h, BLOCK_MAGIC, sizeof(BLOCK_MAGIC)) != 0)
        return otl_fail(err, OTL_ECORRUPT,
                        "The block has no header: %zu bytes that do not begin with \"otlb\".",
                        head.n);
    if (h[HEADER_FORMAT] > BLOCK_FORMAT)
        return otl_fail(err, OTL_EDB,
                        "The block has format %d and this program knows formats up to %d: a newer "
                        "otlite wrote it.",
                        h[HEADER_FORMAT], BLOCK_FORMAT);
    *head_bytes = block_head_bytes(head);
    if (*head_bytes == 0 || *head_bytes > head.n)
        return otl_fail(
            err, OTL_ECORRUPT,
            "The block's header is damaged, or the block was cut: a directory of %" PRIu32
            " bytes in %zu.",
            load32(h + HEADER_DIRECTORY), head.n);
    checksum = block_checksum(0, bytes_of(h, HEADER_CHECKSUM));
    checksum = block_checksum(checksum, bytes_of(h + HEADER_BYTES, *head_bytes - HEADER_BYTES));
    if (checksum != load32(h + HEADER_CHECKSUM))
        return otl_fail(err, OTL_ECORRUPT, "The checksum of the block's directory is wrong.");
    d->kind = (enum series_kind)h[HEADER_KIND];
    d->n = h[HEADER_CHUNKS] | (uint32_t)h[HEADER_CHUNKS + 1] << 8;
    d->streams_at = (uint32_t)*head_bytes;
    d->block_bytes = load32(h + HEADER_LENGTH);
    if (h[HEADER_FORMAT] == 0 || d->kind >= SERIES_KINDS || d->n == 0 || d->n > BLOCK_MAX_CHUNKS ||
        d->block_bytes < *head_bytes)
        return otl_fail(err, OTL_ECORRUPT,
                        "The block's header makes no sense: format %d, kind %d, %" PRIu32
                        " chunks, %zu bytes.",
                        h[HEADER_FORMAT], (int)d->kind, d->n, d->block_bytes);
    return OTL_OK;
}

enum otl_err block_directory_open(struct bytes head, struct block_directory *out,
                                  struct otl_error *err)
{
    struct block_directory d = {0};
    struct directory_in r = {.d = &d};
    struct frame frames[BLOCK_MAX_CHUNKS] = {0};
    size_t head_bytes = 0;
    enum otl_err rc;

    *out = (struct block_directory){0};
    rc = open_header(head, &d, &head_bytes, err);
    if (rc != OTL_OK)
        return rc;
    d.streams_per_chunk = block_stream_count(d.kind);
    d.chunks = calloc(d.n, sizeof(*d.chunks));
    d.streams = calloc((size_t)d.n * d.streams_per_chunk, sizeof(*d.streams));
    if (d.chunks == NULL || d.streams == NULL) {
        block_directory_fini(&d);
        return otl_fail(err, OTL_ENOMEM, "No memory for the directory of a block.");
    }
    r.in = bytes_of(head.p + HEADER_BYTES, head_bytes - HEADER_BYTES);
    if (!take_directory(&r, frames)) {
        block_directory_fini(&d);
        return otl_fail(err, OTL_ECORRUPT, "The block's directory is damaged at column \"%s\".",
                        r.column);
    }
    *out = d;
    return OTL_OK;
}

void block_directory_fini(struct block_directory *d)
{
    free(d->chunks);
    free(d->streams);
    *d = (struct block_directory){0};
}

uint32_t block_directory_find(const struct block_directory *d, int64_t series_id)
{
    uint32_t low = 0, high = d->n;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (d->chunks[mid].series_id < series_id)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}
