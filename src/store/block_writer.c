/* block_writer.c -- chunks into streams, each distinct one once, and streams into a block. */
#include <assert.h>
#include <stdlib.h>

#include "block_internal.h"
#include "column.h"
#include "column_pack.h"
#include "rollup_follow.h"

enum {
    /* A power of two, more than a third above the streams that a block can have. */
    STREAM_SLOTS = 4096,
    CONSTANT_SLOTS = 256, /* a power of two */
    /* Values of one list field, or bytes, that a chunk takes beside its first point. */
    CHUNK_MAX_VALUES = 1 << 18
};

_Static_assert(BLOCK_MAX_CHUNKS *BLOCK_MAX_STREAMS <= STREAM_SLOTS, "streams fit into the table");

/* A column that was written last, so that an equal one need not be encoded to be found. */
struct written_column {
    size_t n;
    uint32_t at; /* as in block_writer.streams */
    int64_t v[CHUNK_MAX_POINTS];
};

/* A column whose values are all the same was written: the bytes of integers are then the same for
 * any number of them, and n is 0. */
struct constant_slot {
    int64_t v;
    uint32_t at; /* as in block_writer.streams, 0: free */
    uint16_t n;
    bool doubles;
};

struct stream_slot {
    uint32_t at;   /* as in block_writer.streams, 0: free */
    uint32_t hash; /* half of it */
    uint32_t begin, n;
};

struct block_writer {
    enum series_kind kind;
    uint32_t streams_per_chunk, frame_streams;
    uint32_t n, n_frames;
    struct chunk_summary chunks[BLOCK_MAX_CHUNKS];
    uint32_t frame[BLOCK_MAX_CHUNKS], frame_chunk[BLOCK_MAX_CHUNKS];
    /* Of each chunk, where its streams are: 0 for none, else 1 + the offset in `bytes`. */
    uint32_t streams[BLOCK_MAX_CHUNKS * BLOCK_MAX_STREAMS];
    struct buf bytes; /* the streams */
    struct stream_slot slots[STREAM_SLOTS];
    struct written_column written[STREAM_FIELDS], written_kinds;
    struct constant_slot constants[CONSTANT_SLOTS];
    struct buf scratch; /* a column being encoded */
    int64_t *values;    /* room for cap_values, for columns that are made on the way */
    size_t cap_values;
    bool failed;
};

struct block_writer *block_writer_new(enum series_kind kind)
{
    struct block_writer *w = calloc(1, sizeof(*w));

    if (w == NULL)
        return NULL;
    w->kind = kind;
    w->streams_per_chunk = block_stream_count(kind);
    w->frame_streams = frame_stream_count(kind);
    return w;
}

void block_writer_free(struct block_writer *w)
{
    if (w == NULL)
        return;
    buf_fini(&w->bytes);
    buf_fini(&w->scratch);
    free(w->values);
    free(w);
}

void block_writer_reset(struct block_writer *w)
{
    w->n = 0;
    w->n_frames = 0;
    w->failed = false;
    buf_reset(&w->bytes);
    buf_reset(&w->scratch);
    memset(w->slots, 0, sizeof(w->slots));
    for (int i = 0; i < STREAM_FIELDS; i++)
        w->written[i].n = 0;
    w->written_kinds.n = 0;
    memset(w->constants, 0, sizeof(w->constants));
}

uint32_t block_writer_chunks(const struct block_writer *w)
{
    return w->n;
}

bool block_writer_is_full(const struct block_writer *w)
{
    return w->n == BLOCK_MAX_CHUNKS || w->bytes.n >= BLOCK_FULL_BYTES;
}

size_t chunk_fit(const struct series_points *p, size_t first, size_t n)
{
    const struct series_schema *schema = &series_schemas[p->kind];

    if (n > CHUNK_MAX_POINTS)
        n = CHUNK_MAX_POINTS;
    for (int i = 0; i < schema->n_fields; i++) {
        const struct field_column *f = &p->fields[i];
        uint32_t begin;

        if (f->end == NULL)
            continue;
        begin = field_begin(f, first);
        while (n > 1 && f->end[first + n - 1] - begin > CHUNK_MAX_VALUES)
            n--;
    }
    return n;
}

/* ---- streams ---- */

/* Put what is in scratch among the streams, or find it there. */
static uint32_t put_scratch(struct block_writer *w)
{
    struct bytes b = buf_bytes(&w->scratch);
    uint32_t hash = (uint32_t)bytes_hash(b, 0);
    uint32_t i = hash & (STREAM_SLOTS - 1);
    uint8_t checksum[4];
    uint32_t at;

    if (w->scratch.failed || w->bytes.n > UINT32_MAX / 2 || b.n > UINT32_MAX / 4) {
        w->failed = true;
        return 0;
    }
    for (; w->slots[i].at != 0; i = (i + 1) & (STREAM_SLOTS - 1)) {
        const struct stream_slot *s = &w->slots[i];

        if (s->hash == hash && bytes_equal(b, bytes_of(w->bytes.p + s->begin, s->n)))
            return s->at;
    }
    at = (uint32_t)w->bytes.n + 1;
    store32(checksum, block_checksum(0, b));
    pack_add_varint(&w->bytes, b.n);
    buf_add(&w->bytes, checksum, sizeof(checksum));
    w->slots[i] = (struct stream_slot){at, hash, (uint32_t)w->bytes.n, (uint32_t)b.n};
    buf_add_bytes(&w->bytes, b);
    w->failed = w->failed || w->bytes.failed;
    return at;
}

static bool all_equal(const int64_t *v, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (v[i] != v[0])
            return false;
    }
    return true;
}

/* Where a column of n values v is remembered. */
static struct constant_slot *constant_slot(struct block_writer *w, int64_t v, size_t n,
                                           bool doubles)
{
    uint64_t h = ((uint64_t)v ^ n) * UINT64_C(0x9e3779b97f4a7c15);
    struct constant_slot *c = &w->constants[h >> 56];

    if (c->at == 0 || c->v != v || c->n != n || c->doubles != doubles)
        *c = (struct constant_slot){.v = v, .n = (uint16_t)n, .doubles = doubles};
    return c;
}

static uint32_t put_constant_int(struct block_writer *w, int64_t v)
{
    struct constant_slot *c = constant_slot(w, v, 0, false);

    if (c->at == 0) {
        buf_reset(&w->scratch);
        column_encode_ints(&w->scratch, &v, 1);
        c->at = put_scratch(w);
    }
    return c->at;
}

static uint32_t put_ints(struct block_writer *w, const int64_t *v, size_t n)
{
    if (n == 0)
        return 0;
    if (all_equal(v, n))
        return put_constant_int(w, v[0]);
    buf_reset(&w->scratch);
    column_encode_ints(&w->scratch, v, n);
    return put_scratch(w);
}

static uint32_t put_doubles(struct block_writer *w, const int64_t *v, size_t n)
{
    struct constant_slot *c = NULL;
    uint32_t at;

    if (n == 0)
        return 0;
    if (n <= CHUNK_MAX_POINTS && all_equal(v, n))
        c = constant_slot(w, v[0], n, true);
    if (c != NULL && c->at != 0)
        return c->at;
    buf_reset(&w->scratch);
    column_encode_doubles(&w->scratch, (const uint64_t *)v, n);
    at = put_scratch(w);
    if (c != NULL)
        c->at = at;
    return at;
}

static uint32_t put_likely_again(struct block_writer *w, struct written_column *c, const int64_t *v,
                                 size_t n)
{
    if (all_equal(v, n))
        return put_constant_int(w, v[0]);
    if (c->n == n && memcmp(c->v, v, n * sizeof(*v)) == 0)
        return c->at;
    memcpy(c->v, v, n * sizeof(*v));
    c->n = n;
    c->at = put_ints(w, v, n);
    return c->at;
}

static bool reserve_values(struct block_writer *w, size_t n)
{
    if (n > w->cap_values) {
        int64_t *p = n > COLUMN_MAX_VALUES ? NULL : realloc(w->values, n * sizeof(*p));

        if (p == NULL) {
            w->failed = true;
            return false;
        }
        w->values = p;
        w->cap_values = n;
    }
    return true;
}

/* ---- fields ---- */

/* The values of the points that have this kind. */
static uint32_t put_of_kind(struct block_writer *w, const struct field_column *f, size_t first,
                            size_t n, enum value_kind kind)
{
    size_t of_kind = 0;

    for (size_t i = 0; i < n; i++) {
        w->values[of_kind] = f->v[first + i];
        of_kind += f->kind[first + i] == kind;
    }
    return kind == VALUE_INT ? put_ints(w, w->values, of_kind) : put_doubles(w, w->values, of_kind);
}

static void put_values(struct block_writer *w, enum field_type t, const struct field_column *f,
                       size_t first, size_t n, uint32_t *streams)
{
    const uint8_t *kind = f->kind + first;
    const int64_t *v = f->v + first;

    if (memcmp(kind, kind + 1, n - 1) == 0) { /* all the same, nearly always */
        streams[VALUE_KINDS] = put_constant_int(w, kind[0]);
        if (kind[0] == VALUE_DOUBLE)
            streams[VALUE_DOUBLES] = put_doubles(w, v, n);
        else if (kind[0] == VALUE_INT && t == FIELD_VALUE)
            streams[VALUE_INTS] = put_ints(w, v, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        w->values[i] = kind[i];
    streams[VALUE_KINDS] = put_likely_again(w, &w->written_kinds, w->values, n);
    streams[VALUE_DOUBLES] = put_of_kind(w, f, first, n, VALUE_DOUBLE);
    if (t == FIELD_VALUE)
        streams[VALUE_INTS] = put_of_kind(w, f, first, n, VALUE_INT);
}

/* All lists have the same length; that of the first in *length. */
static bool is_uniform(const struct field_column *f, size_t first, size_t n, uint32_t *length)
{
    *length = f->end[first] - field_begin(f, first);
    for (size_t i = first + 1; i < first + n; i++)
        if (f->end[i] - f->end[i - 1] != *length)
            return false;
    return true;
}

static uint64_t bits_needed(int64_t v)
{
    return 64 - (unsigned)__builtin_clzll(pack_zigzag(v) | 1);
}

/* Are the differences from one list to the next, place by place, smaller than the values? */
static bool differences_are_smaller(const int64_t *v, size_t n, size_t length)
{
    uint64_t values = 0, differences = 0;

    for (size_t i = length; i < n * length; i++) {
        values += bits_needed(v[i]);
        differences += bits_needed((int64_t)((uint64_t)v[i] - (uint64_t)v[i - length]));
    }
    return differences < values;
}

/* values := n lists of one length, place by place: the first value of all, the second of all, ...
 * As differences to the list before, if so wanted; then without the first list. */
static void transpose(int64_t *values, const int64_t *v, size_t n, size_t length, bool differences)
{
    size_t at = 0;

    for (size_t k = 0; k < length; k++)
        for (size_t i = differences ? 1 : 0; i < n; i++) {
            uint64_t before = differences ? (uint64_t)v[(i - 1) * length + k] : 0;

            values[at++] = (int64_t)((uint64_t)v[i * length + k] - before);
        }
}

static void put_list(struct block_writer *w, enum field_type t, const struct field_column *f,
                     size_t first, size_t n, uint32_t *streams)
{
    uint32_t begin = field_begin(f, first), length;
    size_t total = f->end[first + n - 1] - begin;
    const int64_t *v = total == 0 ? NULL : f->v + begin;

    if (!reserve_values(w, total))
        return;
    for (size_t i = 0; i < n; i++)
        w->values[i] = f->end[first + i] - field_begin(f, first + i);
    streams[LIST_LENGTHS] = put_ints(w, w->values, n);
    if (total == 0)
        return;
    if (is_uniform(f, first, n, &length)) {
        bool differences = t == FIELD_INTS && n > 1 && differences_are_smaller(v, n, length);

        transpose(w->values, v, n, length, differences);
        if (differences) {
            total -= length;
            streams[LIST_FIRST] = put_ints(w, v, length);
        }
        v = w->values;
    }
    streams[LIST_VALUES] = t == FIELD_INTS ? put_ints(w, v, total) : put_doubles(w, v, total);
}

static uint32_t put_bytes(struct block_writer *w, const struct field_column *f, size_t first,
                          size_t n)
{
    static const uint8_t none[1];
    uint32_t end[CHUNK_MAX_POINTS], begin = field_begin(f, first);

    for (size_t i = 0; i < n; i++)
        end[i] = f->end[first + i] - begin;
    if (end[n - 1] > COLUMN_MAX_VALUES) {
        w->failed = true;
        return 0;
    }
    buf_reset(&w->scratch);
    column_encode_bytes(&w->scratch, f->bytes.p == NULL ? none : f->bytes.p + begin, end, n);
    return put_scratch(w);
}

static void put_field(struct block_writer *w, enum field_type t, const struct field_column *f,
                      size_t first, size_t n, uint32_t *streams)
{
    switch (t) {
    case FIELD_INT:
        streams[0] = put_ints(w, f->v + first, n);
        break;
    case FIELD_DOUBLE:
    case FIELD_VALUE:
        put_values(w, t, f, first, n, streams);
        break;
    case FIELD_INTS:
    case FIELD_DOUBLES:
        put_list(w, t, f, first, n, streams);
        break;
    case FIELD_BYTES:
        streams[0] = put_bytes(w, f, first, n);
        break;
    }
}

/* A field without what follows from others. */
static void put_what_does_not_follow(struct block_writer *w, const struct series_points *p,
                                     int field, size_t first, size_t n, uint32_t *streams)
{
    uint8_t kind[CHUNK_MAX_POINTS];
    const struct field_column left = {.v = p->fields[field].v + first, .kind = kind};

    for (size_t i = 0; i < n; i++)
        kind[i] =
            rollup_follows(p, field, first + i) ? VALUE_NONE : p->fields[field].kind[first + i];
    put_field(w, FIELD_DOUBLE, &left, 0, n, streams);
}

/* The frame of a chunk whose streams are known: an earlier one, or a new one. */
static uint32_t frame_of(struct block_writer *w, uint32_t chunk)
{
    const uint32_t *streams = w->streams + chunk * w->streams_per_chunk;

    for (uint32_t f = w->n_frames; f-- > 0;) {
        uint32_t other = w->frame_chunk[f];

        /* A column of a few numbers may be the beginning of one of more with the same bytes. */
        if (w->chunks[other].n == w->chunks[chunk].n &&
            memcmp(streams, w->streams + other * w->streams_per_chunk,
                   w->frame_streams * sizeof(*streams)) == 0)
            return f;
    }
    w->frame_chunk[w->n_frames] = chunk;
    return w->n_frames++;
}

bool block_writer_add(struct block_writer *w, int64_t series_id, const struct series_points *p,
                      size_t first, size_t n)
{
    const struct series_schema *schema = &series_schemas[w->kind];
    uint32_t *streams = w->streams + w->n * w->streams_per_chunk, s = STREAM_FIELDS;

    assert(p->kind == w->kind && n > 0 && n <= CHUNK_MAX_POINTS && w->n < BLOCK_MAX_CHUNKS);
    /* What reading takes for damage. */
    assert(w->n == 0 || series_id > w->chunks[w->n - 1].series_id ||
           (series_id == w->chunks[w->n - 1].series_id &&
            p->time[first] >= w->chunks[w->n - 1].max_time));
    if (w->failed || !reserve_values(w, CHUNK_MAX_POINTS))
        return false;
    memset(streams, 0, w->streams_per_chunk * sizeof(*streams));
    streams[STREAM_TIME] = put_likely_again(w, &w->written[STREAM_TIME], p->time + first, n);
    streams[STREAM_START_TIME] =
        put_likely_again(w, &w->written[STREAM_START_TIME], p->start_time + first, n);
    streams[STREAM_FLAGS] = put_likely_again(w, &w->written[STREAM_FLAGS], p->flags + first, n);
    for (int i = 0; i < schema->n_fields; i++) {
        if (rollup_may_follow(w->kind, i))
            put_what_does_not_follow(w, p, i, first, n, streams + s);
        else
            put_field(w, schema->fields[i].type, &p->fields[i], first, n, streams + s);
        s += field_stream_count(schema->fields[i].type);
    }
    if (w->failed)
        return false;
    chunk_summarize(p, first, n, series_id, &w->chunks[w->n]);
    w->frame[w->n] = frame_of(w, w->n);
    w->n++;
    return true;
}

/* ---- the block ---- */

static void fill_info(const struct block_writer *w, struct block_info *info)
{
    *info = (struct block_info){
        .first_series = w->chunks[0].series_id,
        .last_series = w->chunks[w->n - 1].series_id,
        .min_time = w->chunks[0].min_time,
        .max_time = w->chunks[0].max_time,
    };
    for (uint32_t i = 0; i < w->n; i++) {
        const struct chunk_summary *c = &w->chunks[i];

        if (c->min_time < info->min_time)
            info->min_time = c->min_time;
        if (c->max_time > info->max_time)
            info->max_time = c->max_time;
        info->points += c->n;
    }
}

bool block_writer_take(struct block_writer *w, struct buf *out, struct block_info *info)
{
    const struct directory_source src = {
        .kind = w->kind,
        .n = w->n,
        .n_frames = w->n_frames,
        .chunks = w->chunks,
        .frame = w->frame,
        .frame_chunk = w->frame_chunk,
        .streams = w->streams,
    };
    uint8_t header[HEADER_BYTES] = {0};
    size_t at = out->n;
    uint32_t checksum;

    assert(w->n > 0);
    if (w->failed)
        return false;
    buf_reset(&w->scratch);
    block_directory_write(&w->scratch, &src);
    if (w->scratch.failed || !buf_reserve(out, HEADER_BYTES + w->scratch.n + w->bytes.n)) {
        w->failed = true;
        return false;
    }
    memcpy(header + HEADER_MAGIC, BLOCK_MAGIC, sizeof(BLOCK_MAGIC));
    header[HEADER_FORMAT] = BLOCK_FORMAT;
    header[HEADER_KIND] = (uint8_t)w->kind;
    header[HEADER_CHUNKS] = (uint8_t)w->n; /* the upper byte is 0 */
    store32(header + HEADER_DIRECTORY, (uint32_t)w->scratch.n);
    store32(header + HEADER_LENGTH, (uint32_t)(HEADER_BYTES + w->scratch.n + w->bytes.n));
    checksum = block_checksum(0, bytes_of(header, HEADER_CHECKSUM));
    store32(header + HEADER_CHECKSUM, block_checksum(checksum, buf_bytes(&w->scratch)));
    buf_add(out, header, sizeof(header));
    buf_add_bytes(out, buf_bytes(&w->scratch));
    buf_add_bytes(out, buf_bytes(&w->bytes));
    assert(out->n - at == HEADER_BYTES + w->scratch.n + w->bytes.n);
    fill_info(w, info);
    block_writer_reset(w);
    return true;
}
