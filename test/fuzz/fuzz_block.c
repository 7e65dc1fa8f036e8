/* fuzz_block.c -- libFuzzer target: reading a block of any bytes gives points or an error (`make
 * fuzz`).
 *
 * First byte: bit 0, checksums are made right first, so that what lies behind them is reached; bit
 * 1, the header, too, is made for what follows it. Then the block. */
#include <stdlib.h>

#include "store/block_internal.h"
#include "store/rollup_follow.h"

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void ignore(void *arg, const char *what)
{
    (void)arg;
    require(what[0] != '\0');
}

/* Give the directory its checksum, and every stream that it names. */
static void mend(uint8_t *p, size_t n, bool header)
{
    struct block_directory d;
    struct otl_error err;
    uint32_t directory, sum;

    if (n < HEADER_BYTES)
        return;
    if (header) {
        memcpy(p, BLOCK_MAGIC, sizeof(BLOCK_MAGIC));
        p[HEADER_FORMAT] = BLOCK_FORMAT;
        store32(p + HEADER_LENGTH, (uint32_t)n);
    }
    directory = load32(p + HEADER_DIRECTORY);
    if (directory > n - HEADER_BYTES)
        return;
    sum = block_checksum(0, bytes_of(p, HEADER_CHECKSUM));
    store32(p + HEADER_CHECKSUM,
            block_checksum(sum, bytes_of(p + HEADER_BYTES, (size_t)directory)));
    if (block_directory_open(bytes_of(p, n), &d, &err) != OTL_OK)
        return;
    for (uint32_t i = 0; i < d.n * d.streams_per_chunk; i++) {
        size_t at = d.streams[i], length = 0;

        if (at == 0 || at >= n)
            continue;
        for (unsigned k = 0; at < n && k < 28; k += 7) {
            length |= (size_t)(p[at] & 0x7f) << k;
            if (p[at++] < 0x80)
                break;
        }
        if (at + 4 <= n && length <= n - at - 4)
            store32(p + at, block_checksum(0, bytes_of(p + at + 4, length)));
    }
    block_directory_fini(&d);
}

static void read_all(struct bytes b)
{
    struct block_directory d;
    struct series_points p;
    struct chunk_reader r = {0};
    struct chunk_memo *memo;
    struct otl_error err;
    enum otl_err rc;

    if (block_directory_open(b, &d, &err) != OTL_OK)
        return;
    memo = calloc(1, sizeof(*memo));
    require(memo != NULL);
    series_points_init(&p, d.kind);
    for (uint32_t i = 0; i < d.n; i++) {
        size_t before = p.n;

        rc = block_read_chunk(b, &d, i, d.chunks[i].min_time + 1, d.chunks[i].max_time, &p, &err);
        require(rc == OTL_OK || p.n == before);
        before = p.n;
        rc = block_read_fields(b, &d, i, i * UINT32_C(0x9e3779b1), INT64_MIN, INT64_MAX, memo, &p,
                               &err);
        require(rc == OTL_OK || p.n == before);
        if (d.kind == KIND_NUMBER) {
            rc = chunk_reader_numbers(&r, b, &d, i, i % 2 == 0, &err);
            require(rc != OTL_OK || r.n == d.chunks[i].n);
        }
        (void)block_directory_find(&d, d.chunks[i].series_id);
        if (p.n > 1 << 16)
            series_points_reset(&p);
    }
    free(memo);
    chunk_reader_fini(&r);
    series_points_fini(&p);
    block_directory_fini(&d);
}

/* ---- a block by the writer ---- */

static unsigned next(struct bytes *in)
{
    if (in->n == 0)
        return 0;
    in->n--;
    return *in->p++;
}

static int64_t next_int(struct bytes *in)
{
    unsigned how = next(in);
    uint64_t v = 0;

    if (how < 200) /* small, of either sign */
        return (int64_t)how - 100;
    for (unsigned i = 0; i < how % 9; i++)
        v = v << 8 | next(in);
    return (int64_t)v;
}

static void add_field(struct series_points *p, int i, struct bytes *in)
{
    struct field_column *f = &p->fields[i];
    enum field_type t = series_schemas[p->kind].fields[i].type;
    uint32_t at, n;

    switch (t) {
    case FIELD_INT:
        f->v[p->n] = next_int(in);
        break;
    case FIELD_DOUBLE:
    case FIELD_VALUE:
        f->kind[p->n] = t == FIELD_VALUE ? (uint8_t)(next(in) % 3) : (uint8_t)(next(in) % 2 * 2);
        f->v[p->n] = f->kind[p->n] == VALUE_NONE ? 0 : next_int(in);
        break;
    default:
        at = field_begin(f, p->n);
        n = next(in) % 16;
        require(series_points_reserve_list(p, i, n));
        for (uint32_t k = 0; k < n; k++)
            if (t == FIELD_BYTES)
                buf_add_char(&f->bytes, (char)next(in));
            else
                f->v[at + k] = next_int(in);
        f->end[p->n] = at + n;
    }
}

static void add_point(struct series_points *p, struct bytes *in)
{
    int64_t time = p->n > 0 ? p->time[p->n - 1] : next_int(in) / 2;

    require(series_points_reserve(p, 1));
    p->time[p->n] = time + next(in);
    p->start_time[p->n] = next_int(in);
    p->flags[p->n] = next(in) % 2;
    for (int i = 0; i < series_schemas[p->kind].n_fields; i++)
        add_field(p, i, in);
    /* A rollup of some values has a least and a greatest one, and an increase. */
    for (int i = 0; i < series_schemas[p->kind].n_fields; i++) {
        if (rollup_may_follow(p->kind, i) && p->fields[i].kind[p->n] == VALUE_NONE)
            p->fields[i].kind[p->n] = VALUE_DOUBLE;
    }
    p->n++;
}

/* A sound block of a few chunks; it is read back, and says the same. */
static void make_block(struct bytes *in, struct buf *out)
{
    enum series_kind kind = (enum series_kind)(next(in) % SERIES_KINDS);
    unsigned chunks = 1 + next(in) % 6;
    struct block_writer *w = block_writer_new(kind);
    struct series_points all, is;
    struct block_info info;
    struct block_directory d;
    struct otl_error err;

    require(w != NULL);
    series_points_init(&all, kind);
    series_points_init(&is, kind);
    for (unsigned i = 0; i < chunks; i++) {
        struct series_points p;
        unsigned n = 1 + next(in) % 20;

        series_points_init(&p, kind);
        for (unsigned k = 0; k < n; k++)
            add_point(&p, in);
        require(series_points_sort(&p));
        require(block_writer_add(w, i, &p, 0, n) && series_points_append(&all, &p, 0, n));
        series_points_fini(&p);
    }
    require(block_writer_take(w, out, &info) && info.points == all.n);
    require(block_verify(buf_bytes(out), ignore, NULL) == 0);
    require(block_directory_open(buf_bytes(out), &d, &err) == OTL_OK && d.n == chunks);
    for (uint32_t i = 0; i < d.n; i++)
        require(block_read_chunk(buf_bytes(out), &d, i, INT64_MIN, INT64_MAX, &is, &err) == OTL_OK);
    require(is.n == all.n);
    for (size_t i = 0; i < is.n; i++)
        require(series_points_equal(&is, i, &all, i));
    block_directory_fini(&d);
    series_points_fini(&all);
    series_points_fini(&is);
    block_writer_free(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct bytes in = {0};
    struct buf made = {0};
    uint8_t *p;

    if (n < 1)
        return 0;
    in = bytes_of(data + 1, n - 1);
    if ((data[0] & 4) != 0) {
        struct bytes edits;

        make_block(&in, &made);
        edits = in;
        in = buf_bytes(&made);
        while (edits.n >= 3) {
            size_t at = (size_t)next(&edits) << 8;

            at = (at | next(&edits)) % made.n;
            made.p[at] ^= (uint8_t)next(&edits);
        }
    }
    p = malloc(in.n > 0 ? in.n : 1); /* of exactly this size: a byte beyond it is seen */
    require(p != NULL);
    if (in.n > 0)
        memcpy(p, in.p, in.n);
    if ((data[0] & 1) != 0)
        mend(p, in.n, (data[0] & 2) != 0);
    (void)block_head_bytes(bytes_of(p, in.n < 64 ? in.n : 64));
    (void)block_verify(bytes_of(p, in.n), ignore, NULL);
    read_all(bytes_of(p, in.n));
    free(p);
    buf_fini(&made);
    return 0;
}
