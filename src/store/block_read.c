/* block_read.c -- from the streams of a chunk to points. Nothing in a block is trusted: every
 * length, count and kind is checked before it is used, and no size is above COLUMN_MAX_VALUES. */
#include <inttypes.h>
#include <stdlib.h>

#include "block_internal.h"
#include "column.h"
#include "column_pack.h"
#include "rollup_follow.h"

/* One chunk being read. */
struct chunk_in {
    struct bytes block;
    const struct block_directory *d;
    uint32_t chunk;
    size_t n;                /* its points */
    uint32_t fields;         /* that are asked for, bits */
    struct chunk_memo *memo; /* may be NULL */
    struct otl_error *err;
    int64_t scratch[CHUNK_MAX_POINTS];
};

static uint32_t stream_of(const struct chunk_in *c, uint32_t s)
{
    return c->d->streams[c->chunk * c->d->streams_per_chunk + s];
}

static enum otl_err damaged(const struct chunk_in *c, uint32_t s, const char *what)
{
    char name[64] = "";

    block_stream_name(c->d->kind, s, name, sizeof(name));
    return otl_fail(c->err, OTL_ECORRUPT,
                    "Chunk %" PRIu32 " (series %" PRId64 ") is damaged: column %s at byte %" PRIu32
                    " of the block %s.",
                    c->chunk, c->d->chunks[c->chunk].series_id, name, stream_of(c, s), what);
}

static enum otl_err no_memory(const struct chunk_in *c)
{
    return otl_fail(c->err, OTL_ENOMEM, "No memory for the points of a chunk.");
}

/* The bytes of stream s, which holds n values; an empty one when n is 0. */
static enum otl_err take_stream(const struct chunk_in *c, uint32_t s, size_t n, struct bytes *out)
{
    uint32_t at = stream_of(c, s), checksum;
    uint64_t length;
    struct bytes b;

    *out = bytes_of(NULL, 0);
    if (n == 0)
        return at == 0 ? OTL_OK : damaged(c, s, "is there, though it has no values");
    if (at == 0)
        return damaged(c, s, "is missing");
    if (at >= c->block.n)
        return damaged(c, s, "lies beyond the block's end");
    b = bytes_of(c->block.p + at, c->block.n - at);
    if (!pack_take_varint(&b, &length) || b.n < 4 || length > b.n - 4)
        return damaged(c, s, "goes beyond the block's end");
    checksum = load32(b.p);
    *out = bytes_of(b.p + 4, (size_t)length);
    if (block_checksum(0, *out) != checksum)
        return damaged(c, s, "has a wrong checksum");
    return OTL_OK;
}

/* ---- what chunks have in common ---- */

static size_t memo_slot(uint32_t at)
{
    return at * UINT32_C(0x9e3779b1) >> 24;
}

_Static_assert(CHUNK_MEMO_SLOTS == 256, "memo_slot gives 8 bits");

/* The value of all n > 0 integers of stream s, if it is known. */
static bool memo_constant(const struct chunk_in *c, uint32_t s, size_t n, int64_t *v)
{
    uint32_t at = stream_of(c, s);
    size_t slot = memo_slot(at);

    if (c->memo == NULL || n == 0 || at == 0 || c->memo->constants[slot].at != at)
        return false;
    *v = c->memo->constants[slot].v;
    return true;
}

/* The bytes of stream s were verified; true: they are the same value any number of times. */
static bool take_constant(struct chunk_in *c, uint32_t s, struct bytes b, int64_t *v)
{
    uint32_t at = stream_of(c, s);

    if (!column_ints_constant(b, v))
        return false;
    if (c->memo != NULL) {
        c->memo->constants[memo_slot(at)].at = at;
        c->memo->constants[memo_slot(at)].v = *v;
    }
    return true;
}

void chunk_memo_forget(struct chunk_memo *m)
{
    memset(m->constants, 0, sizeof(m->constants));
    for (int i = 0; i < CHUNK_MEMO_TIMES; i++)
        m->times[i].at = 0;
}

/* Eight at a time, so that the compiler stores vectors. */
static void fill(int64_t *v, int64_t k, size_t n)
{
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        v[i] = v[i + 1] = v[i + 2] = v[i + 3] = k;
        v[i + 4] = v[i + 5] = v[i + 6] = v[i + 7] = k;
    }
    for (; i < n; i++)
        v[i] = k;
}

static enum otl_err take_ints(struct chunk_in *c, uint32_t s, int64_t *v, size_t n)
{
    struct bytes b;
    enum otl_err rc = OTL_OK;
    int64_t k;

    if (!memo_constant(c, s, n, &k)) {
        rc = take_stream(c, s, n, &b);
        if (rc != OTL_OK || n == 0)
            return rc;
        if (!take_constant(c, s, b, &k))
            return column_decode_ints(b, v, n) ? OTL_OK : damaged(c, s, "cannot be decoded");
    }
    fill(v, k, n);
    return OTL_OK;
}

static enum otl_err take_times(struct chunk_in *c, int64_t *v)
{
    struct chunk_memo *m = c->memo;
    uint32_t at = stream_of(c, STREAM_TIME), slot;
    enum otl_err rc;

    /* The stream of a few points may have the bytes of one of more. */
    for (int i = 0; m != NULL && at != 0 && i < CHUNK_MEMO_TIMES; i++) {
        if (m->times[i].at == at && m->times[i].n == c->n) {
            memcpy(v, m->times[i].v, c->n * sizeof(*v));
            return OTL_OK;
        }
    }
    rc = take_ints(c, STREAM_TIME, v, c->n);
    if (rc == OTL_OK && m != NULL && c->n > 1) {
        slot = m->next_times++ % CHUNK_MEMO_TIMES;
        memcpy(m->times[slot].v, v, c->n * sizeof(*v));
        m->times[slot].at = at;
        m->times[slot].n = (uint32_t)c->n;
    }
    return rc;
}

static enum otl_err take_doubles(const struct chunk_in *c, uint32_t s, int64_t *v, size_t n)
{
    struct bytes b;
    enum otl_err rc = take_stream(c, s, n, &b);

    if (rc == OTL_OK && n > 0 && !column_decode_doubles(b, (uint64_t *)v, n))
        rc = damaged(c, s, "cannot be decoded");
    return rc;
}

/* ---- values ---- */

static bool is_kind(int64_t k, bool ints)
{
    return k == VALUE_NONE || k == VALUE_DOUBLE || (k == VALUE_INT && ints);
}

/* kind[0..n); how many are of each kind. */
static enum otl_err take_kinds(struct chunk_in *c, uint32_t s, bool ints, uint8_t *kind,
                               size_t of_kind[VALUE_DOUBLE + 1])
{
    struct bytes b;
    enum otl_err rc;
    int64_t k;
    bool constant = memo_constant(c, s, c->n, &k);

    for (int i = 0; i <= VALUE_DOUBLE; i++)
        of_kind[i] = 0;
    if (!constant) {
        rc = take_stream(c, s, c->n, &b);
        if (rc != OTL_OK)
            return rc;
        constant = take_constant(c, s, b, &k);
    }
    if (constant && is_kind(k, ints)) { /* mostly */
        memset(kind, (int)k, c->n);
        of_kind[k] = c->n;
        return OTL_OK;
    }
    if (constant)
        return damaged(c, s, "names a kind of value that there is not");
    if (!column_decode_ints(b, c->scratch, c->n))
        return damaged(c, s, "cannot be decoded");
    for (size_t i = 0; i < c->n; i++) {
        k = c->scratch[i];
        if (!is_kind(k, ints))
            return damaged(c, s, "names a kind of value that there is not");
        kind[i] = (uint8_t)k;
        of_kind[k]++;
    }
    return OTL_OK;
}

/* Values of one kind, of which there are n, to their places in v. */
static enum otl_err take_of_kind(struct chunk_in *c, uint32_t s, enum value_kind which,
                                 const uint8_t *kind, int64_t *v, size_t n)
{
    int64_t *to = n == c->n ? v : c->scratch;
    enum otl_err rc = which == VALUE_INT ? take_ints(c, s, to, n) : take_doubles(c, s, to, n);
    size_t at = 0;

    if (rc != OTL_OK || n == c->n)
        return rc;
    for (size_t i = 0; i < c->n && at < n; i++)
        if (kind[i] == which)
            v[i] = c->scratch[at++];
    return OTL_OK;
}

/* s: the first stream of the field, whose kinds are known. */
static enum otl_err take_values(struct chunk_in *c, uint32_t s, bool ints, const uint8_t *kind,
                                const size_t of_kind[VALUE_DOUBLE + 1], int64_t *v)
{
    enum otl_err rc;

    if (of_kind[VALUE_NONE] > 0)
        memset(v, 0, c->n * sizeof(*v));
    rc = take_of_kind(c, s + VALUE_DOUBLES, VALUE_DOUBLE, kind, v, of_kind[VALUE_DOUBLE]);
    if (rc == OTL_OK && ints)
        rc = take_of_kind(c, s + VALUE_INTS, VALUE_INT, kind, v, of_kind[VALUE_INT]);
    return rc;
}

/* ---- lists ---- */

/* Lists of one length that are stored place by place, from values to v. */
static void transpose_back(int64_t *v, const int64_t *values, size_t n, size_t length,
                           bool differences)
{
    size_t at = 0;

    for (size_t k = 0; k < length; k++)
        for (size_t i = differences ? 1 : 0; i < n; i++) {
            uint64_t before = differences ? (uint64_t)v[(i - 1) * length + k] : 0;

            v[i * length + k] = (int64_t)(before + (uint64_t)values[at++]);
        }
}

/* The values of n lists of one length. */
static enum otl_err take_uniform(struct chunk_in *c, uint32_t s, enum field_type t, int64_t *v,
                                 size_t length)
{
    bool differences = t == FIELD_INTS && stream_of(c, s + LIST_FIRST) != 0;
    size_t total = (c->n - differences) * length;
    enum otl_err rc = OTL_OK;
    int64_t *values = malloc((total > 0 ? total : 1) * sizeof(*values));

    if (values == NULL)
        return no_memory(c);
    if (differences)
        rc = take_ints(c, s + LIST_FIRST, v, length);
    if (rc == OTL_OK)
        rc = t == FIELD_INTS ? take_ints(c, s + LIST_VALUES, values, total)
                             : take_doubles(c, s + LIST_VALUES, values, total);
    if (rc == OTL_OK)
        transpose_back(v, values, c->n, length, differences);
    free(values);
    return rc;
}

static enum otl_err take_list(struct chunk_in *c, uint32_t s, int field, struct series_points *out)
{
    struct field_column *f = &out->fields[field];
    enum field_type t = series_schemas[out->kind].fields[field].type;
    uint32_t begin = field_begin(f, out->n);
    size_t total = 0;
    bool uniform = true;
    enum otl_err rc = take_ints(c, s + LIST_LENGTHS, c->scratch, c->n);

    if (rc != OTL_OK)
        return rc;
    for (size_t i = 0; i < c->n; i++) {
        if (c->scratch[i] < 0 || c->scratch[i] > COLUMN_MAX_VALUES ||
            (total += (size_t)c->scratch[i]) > COLUMN_MAX_VALUES)
            return damaged(c, s + LIST_LENGTHS, "has more values than a chunk can have");
        uniform = uniform && c->scratch[i] == c->scratch[0];
    }
    if (total > UINT32_MAX - begin || !series_points_reserve_list(out, field, total))
        return no_memory(c);
    for (size_t i = 0, end = begin; i < c->n; i++) {
        end += (size_t)c->scratch[i];
        f->end[out->n + i] = (uint32_t)end;
    }
    if (uniform && total > 0)
        return take_uniform(c, s, t, f->v + begin, (size_t)c->scratch[0]);
    if (t == FIELD_DOUBLES)
        return take_doubles(c, s + LIST_VALUES, f->v == NULL ? NULL : f->v + begin, total);
    if (stream_of(c, s + LIST_FIRST) != 0)
        return damaged(c, s + LIST_FIRST, "is there, though the lists have different lengths");
    return take_ints(c, s + LIST_VALUES, f->v == NULL ? NULL : f->v + begin, total);
}

static enum otl_err take_bytes(struct chunk_in *c, uint32_t s, struct series_points *out, int field)
{
    struct field_column *f = &out->fields[field];
    struct bytes b;
    enum otl_err rc = take_stream(c, s, c->n, &b);

    if (rc != OTL_OK)
        return rc;
    if (!column_decode_bytes(b, &f->bytes, f->end + out->n, c->n, COLUMN_MAX_VALUES)) {
        if (f->bytes.failed)
            return no_memory(c);
        return damaged(c, s, "cannot be decoded");
    }
    return OTL_OK;
}

/* ---- a chunk ---- */

/* Field i behind the points that out has; s: its first stream. */
static enum otl_err take_field(struct chunk_in *c, uint32_t s, int i, struct series_points *out)
{
    struct field_column *f = &out->fields[i];
    enum field_type t = series_schemas[out->kind].fields[i].type;
    size_t of_kind[VALUE_DOUBLE + 1];
    enum otl_err rc;

    switch (t) {
    case FIELD_INT:
        return take_ints(c, s, f->v + out->n, c->n);
    case FIELD_DOUBLE:
    case FIELD_VALUE:
        rc = take_kinds(c, s + VALUE_KINDS, t == FIELD_VALUE, f->kind + out->n, of_kind);
        if (rc != OTL_OK)
            return rc;
        return take_values(c, s, t == FIELD_VALUE, f->kind + out->n, of_kind, f->v + out->n);
    case FIELD_INTS:
    case FIELD_DOUBLES:
        return take_list(c, s, i, out);
    case FIELD_BYTES:
        return take_bytes(c, s, out, i);
    }
    return OTL_OK;
}

/* Field i, which nobody asked for, of the chunk's points. */
static void leave_field(const struct chunk_in *c, int i, struct series_points *out)
{
    struct field_column *f = &out->fields[i];
    const size_t begin = out->n;

    if (f->end != NULL) {
        for (size_t k = 0; k < c->n; k++)
            f->end[begin + k] = field_begin(f, begin);
        return;
    }
    fill(f->v + begin, 0, c->n);
    if (f->kind != NULL)
        memset(f->kind + begin, VALUE_NONE, c->n);
}

/* Of the n lists behind point at, those before low and from high on go. */
static void keep_lists(struct field_column *f, size_t at, size_t low, size_t high, bool bytes)
{
    uint32_t begin = field_begin(f, at), from = field_begin(f, at + low);
    uint32_t kept = field_begin(f, at + high) - from;

    if (kept > 0 && bytes)
        memmove(f->bytes.p + begin, f->bytes.p + from, kept);
    else if (kept > 0)
        memmove(f->v + begin, f->v + from, kept * sizeof(*f->v));
    if (bytes)
        f->bytes.n = begin + kept;
    for (size_t i = 0; i < high - low; i++)
        f->end[at + i] = f->end[at + low + i] - (from - begin);
}

/* Of the points that were decoded behind p->n, low to high - 1 are wanted. */
static void keep(struct series_points *p, size_t low, size_t high)
{
    const struct series_schema *schema = &series_schemas[p->kind];
    size_t at = p->n, n = high - low;

    memmove(p->time + at, p->time + at + low, n * sizeof(*p->time));
    memmove(p->start_time + at, p->start_time + at + low, n * sizeof(*p->time));
    memmove(p->flags + at, p->flags + at + low, n * sizeof(*p->time));
    for (int i = 0; i < schema->n_fields; i++) {
        struct field_column *f = &p->fields[i];

        if (f->end != NULL) {
            keep_lists(f, at, low, high, schema->fields[i].type == FIELD_BYTES);
            continue;
        }
        memmove(f->v + at, f->v + at + low, n * sizeof(*f->v));
        if (f->kind != NULL)
            memmove(f->kind + at, f->kind + at + low, n);
    }
}

/* Bytes that were decoded for points that are none. */
static void forget_bytes(struct series_points *p)
{
    for (int i = 0; i < series_schemas[p->kind].n_fields; i++) {
        struct field_column *f = &p->fields[i];

        if (series_schemas[p->kind].fields[i].type == FIELD_BYTES) {
            f->bytes.n = f->end == NULL ? 0 : field_begin(f, p->n);
            f->bytes.failed = false;
        }
    }
}

static size_t first_not_before(const int64_t *time, size_t n, int64_t t)
{
    size_t low = 0;

    while (low < n) {
        size_t mid = low + (n - low) / 2;

        if (time[mid] < t)
            low = mid + 1;
        else
            n = mid;
    }
    return low;
}

static enum otl_err check_whole(struct bytes block, const struct block_directory *d,
                                struct otl_error *err)
{
    if (block.n == d->block_bytes)
        return OTL_OK;
    return otl_fail(err, OTL_ECORRUPT, "The block has %zu bytes, and %zu by its header.", block.n,
                    d->block_bytes);
}

static enum otl_err read_chunk(struct chunk_in *c, int64_t from, int64_t to,
                               struct series_points *out)
{
    enum series_kind kind = c->d->kind;
    const struct series_schema *schema = &series_schemas[kind];
    uint32_t s = STREAM_FIELDS;
    size_t low, high;
    enum otl_err rc;

    if (!series_points_reserve(out, c->n))
        return no_memory(c);
    rc = take_times(c, out->time + out->n);
    if (rc != OTL_OK)
        return rc;
    low = first_not_before(out->time + out->n, c->n, from);
    high = to == INT64_MAX ? c->n : first_not_before(out->time + out->n, c->n, to);
    if (low >= high)
        return OTL_OK;
    rc = take_ints(c, STREAM_START_TIME, out->start_time + out->n, c->n);
    if (rc == OTL_OK)
        rc = take_ints(c, STREAM_FLAGS, out->flags + out->n, c->n);
    for (int f = 0; f < schema->n_fields && rc == OTL_OK; f++) {
        if ((c->fields >> f & 1) != 0)
            rc = take_field(c, s, f, out);
        else
            leave_field(c, f, out);
        s += field_stream_count(schema->fields[f].type);
    }
    if (rc != OTL_OK) {
        forget_bytes(out);
        return rc;
    }
    if (low > 0 || high < c->n)
        keep(out, low, high);
    if (kind == KIND_NUMBER_ROLLUP)
        rollup_complete(out, out->n, high - low);
    out->n += high - low;
    return OTL_OK;
}

static void begin_chunk(struct chunk_in *c, struct bytes block, const struct block_directory *d,
                        uint32_t i, struct chunk_memo *memo, struct otl_error *err)
{
    c->block = block;
    c->d = d;
    c->chunk = i;
    c->n = d->chunks[i].n;
    c->fields = UINT32_MAX;
    c->memo = memo;
    c->err = err;
}

enum otl_err block_read_chunk(struct bytes block, const struct block_directory *d, uint32_t i,
                              int64_t from, int64_t to, struct series_points *out,
                              struct otl_error *err)
{
    return block_read_next(block, d, i, from, to, NULL, out, err);
}

enum otl_err block_read_fields(struct bytes block, const struct block_directory *d, uint32_t i,
                               uint32_t fields, int64_t from, int64_t to, struct chunk_memo *memo,
                               struct series_points *out, struct otl_error *err)
{
    struct chunk_in c;
    enum otl_err rc = check_whole(block, d, err);

    if (rc != OTL_OK)
        return rc;
    begin_chunk(&c, block, d, i, memo, err);
    c.fields = fields;
    return read_chunk(&c, from, to, out);
}

enum otl_err block_read_next(struct bytes block, const struct block_directory *d, uint32_t i,
                             int64_t from, int64_t to, struct chunk_memo *memo,
                             struct series_points *out, struct otl_error *err)
{
    return block_read_fields(block, d, i, UINT32_MAX, from, to, memo, out, err);
}

/* ---- numbers, in a hot loop ---- */

void chunk_reader_fini(struct chunk_reader *r)
{
    free(r->columns);
    *r = (struct chunk_reader){0};
}

void chunk_reader_forget(struct chunk_reader *r)
{
    r->block = NULL;
}

enum { READER_COLUMNS = CHUNK_MEMO_TIMES + 3 };

static int64_t *reader_column(const struct chunk_reader *r, size_t i)
{
    return r->columns + i * CHUNK_MAX_POINTS;
}

static int64_t *start_column(const struct chunk_reader *r)
{
    return reader_column(r, CHUNK_MEMO_TIMES);
}

static int64_t *flags_column(const struct chunk_reader *r)
{
    return reader_column(r, CHUNK_MEMO_TIMES + 1);
}

static int64_t *value_column(const struct chunk_reader *r)
{
    return reader_column(r, CHUNK_MEMO_TIMES + 2);
}

static uint8_t *kind_column(const struct chunk_reader *r)
{
    return (uint8_t *)(void *)reader_column(r, READER_COLUMNS);
}

static bool reserve_columns(struct chunk_reader *r)
{
    if (r->columns == NULL)
        r->columns = malloc(CHUNK_MAX_POINTS * (READER_COLUMNS * sizeof(*r->columns) + 1));
    return r->columns != NULL;
}

/* Has h the n values of that stream? */
static bool holds(const struct chunk_column *h, uint32_t at, size_t n)
{
    return at != 0 && h->at == at && (h->n == n || (h->constant && h->n > n));
}

/* Column s of the chunk into v, unless v holds it. */
static enum otl_err hold_ints(struct chunk_in *c, uint32_t s, struct chunk_column *h, int64_t *v)
{
    uint32_t at = stream_of(c, s);
    enum otl_err rc;

    if (holds(h, at, c->n))
        return OTL_OK;
    h->at = 0;
    rc = take_ints(c, s, v, c->n);
    if (rc != OTL_OK)
        return rc;
    *h = (struct chunk_column){.at = at, .n = (uint32_t)c->n, .constant = true};
    for (size_t i = 1; i < c->n && h->constant; i++)
        h->constant = v[i] == v[0];
    return OTL_OK;
}

static enum otl_err hold_times(struct chunk_in *c, struct chunk_reader *r)
{
    uint32_t at = stream_of(c, STREAM_TIME), slot;
    enum otl_err rc = OTL_OK;

    /* The stream of a few points may have the bytes of one of more: 10 s from the same second on.
     */
    for (slot = 0; slot < CHUNK_MEMO_TIMES && !holds(&r->times[slot], at, c->n); slot++) {
    }
    if (slot == CHUNK_MEMO_TIMES) {
        slot = r->next_times++ % CHUNK_MEMO_TIMES;
        rc = hold_ints(c, STREAM_TIME, &r->times[slot], reader_column(r, slot));
    }
    r->time_at = at;
    r->time = reader_column(r, slot);
    return rc;
}

static enum otl_err hold_kinds(struct chunk_in *c, struct chunk_reader *r,
                               size_t of_kind[VALUE_DOUBLE + 1])
{
    const uint32_t s = STREAM_FIELDS + VALUE_KINDS, at = stream_of(c, s);
    struct chunk_column *h = &r->kinds;
    uint8_t *kind = kind_column(r);

    if (!holds(h, at, c->n)) {
        enum otl_err rc;

        h->at = 0;
        rc = take_kinds(c, s, true, kind, of_kind);
        if (rc != OTL_OK)
            return rc;
        *h = (struct chunk_column){
            .at = at, .n = (uint32_t)c->n, .constant = of_kind[kind[0]] == c->n};
    } else {
        memset(of_kind, 0, (VALUE_DOUBLE + 1) * sizeof(*of_kind));
        if (h->constant)
            of_kind[kind[0]] = c->n;
        for (size_t i = 0; i < c->n && !h->constant; i++)
            of_kind[kind[i]]++;
    }
    r->kind = kind;
    r->all_int = of_kind[VALUE_INT] == c->n;
    r->all_double = of_kind[VALUE_DOUBLE] == c->n;
    return OTL_OK;
}

enum otl_err chunk_reader_numbers(struct chunk_reader *r, struct bytes block,
                                  const struct block_directory *d, uint32_t i, bool starts,
                                  struct otl_error *err)
{
    struct chunk_in c;
    size_t of_kind[VALUE_DOUBLE + 1];
    enum otl_err rc = check_whole(block, d, err);

    if (rc != OTL_OK)
        return rc;
    begin_chunk(&c, block, d, i, NULL, err);
    if (!reserve_columns(r))
        return no_memory(&c);
    if (r->block != block.p) {
        for (int k = 0; k < CHUNK_MEMO_TIMES; k++)
            r->times[k].at = 0;
        r->starts.at = r->flags_held.at = r->kinds.at = 0;
        r->block = block.p;
    }
    r->n = (uint32_t)c.n;
    rc = hold_times(&c, r);
    if (rc == OTL_OK && starts)
        rc = hold_ints(&c, STREAM_START_TIME, &r->starts, start_column(r));
    if (rc == OTL_OK)
        rc = hold_ints(&c, STREAM_FLAGS, &r->flags_held, flags_column(r));
    if (rc == OTL_OK)
        rc = hold_kinds(&c, r, of_kind);
    if (rc == OTL_OK)
        rc = take_values(&c, STREAM_FIELDS, true, r->kind, of_kind, value_column(r));
    if (rc != OTL_OK) {
        chunk_reader_forget(r);
        return rc;
    }
    r->start_at = stream_of(&c, STREAM_START_TIME);
    r->start_time = start_column(r);
    r->flags = flags_column(r);
    r->no_flags = r->flags_held.constant && r->flags[0] == 0;
    r->value = value_column(r);
    return OTL_OK;
}
