/* Byte strings: the distinct ones in the order of their first appearance, and which of them each
 * value is. docs/format.md, "Columns". */
#include <stdlib.h>
#include <zlib.h>

#include "column.h"
#include "column_pack.h"

enum {
    BYTES_DICTIONARY = 32,
    TEXT_PLAIN = 0,
    TEXT_DEFLATED = 1,
    DEFLATE_AT_LEAST = 64 /* bytes; less does not get shorter */
};

/* Distinct strings by their first appearance. */
struct dictionary {
    const uint8_t *data;
    const uint32_t *end;
    uint32_t *slots; /* value + 1, 0: empty */
    size_t n_slots;
    int64_t *index;  /* of each value: which distinct string it is */
    int64_t *length; /* of each distinct string */
    size_t n_distinct;
    struct buf text;
};

static struct bytes string_at(const struct dictionary *d, size_t i)
{
    uint32_t from = i == 0 ? 0 : d->end[i - 1];

    return bytes_of(d->data + from, d->end[i] - from);
}

static void add_string(struct dictionary *d, size_t i)
{
    struct bytes s = string_at(d, i);
    size_t slot = (size_t)bytes_hash(s, 0) & (d->n_slots - 1);

    while (d->slots[slot] != 0) {
        uint32_t other = d->slots[slot] - 1;

        if (bytes_equal(string_at(d, other), s)) {
            d->index[i] = d->index[other];
            return;
        }
        slot = (slot + 1) & (d->n_slots - 1);
    }
    d->slots[slot] = (uint32_t)i + 1;
    d->index[i] = (int64_t)d->n_distinct;
    d->length[d->n_distinct++] = (int64_t)s.n;
    buf_add_bytes(&d->text, s);
}

/* A stream within a stream has its length in front. */
static void add_ints(struct buf *out, const int64_t *v, size_t n)
{
    struct buf stream = {0};

    column_encode_ints(&stream, v, n);
    pack_add_varint(out, stream.n);
    buf_add(out, stream.p, stream.n);
    out->failed = out->failed || stream.failed;
    buf_fini(&stream);
}

/* Raw deflate of all of text; false: not shorter, or no memory for trying. */
static bool deflate_text(const struct buf *text, struct buf *out)
{
    z_stream z = {0};
    bool shorter;

    if (text->n < DEFLATE_AT_LEAST || text->n > UINT32_MAX ||
        deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    shorter = buf_reserve(out, text->n);
    if (shorter) {
        z.next_in = text->p;
        z.avail_in = (uInt)text->n;
        z.next_out = out->p;
        z.avail_out = (uInt)text->n - 1;
        shorter = deflate(&z, Z_FINISH) == Z_STREAM_END;
        out->n = z.total_out;
    }
    (void)deflateEnd(&z);
    return shorter;
}

static void add_text(struct buf *out, const struct buf *text)
{
    struct buf deflated = {0};

    if (deflate_text(text, &deflated)) {
        buf_add_char(out, TEXT_DEFLATED);
        pack_add_varint(out, text->n);
        buf_add(out, deflated.p, deflated.n);
    } else {
        buf_add_char(out, TEXT_PLAIN);
        pack_add_varint(out, text->n);
        buf_add(out, text->p, text->n);
    }
    buf_fini(&deflated);
}

void column_encode_bytes(struct buf *out, const uint8_t *data, const uint32_t *end, size_t n)
{
    struct dictionary d = {.data = data, .end = end, .n_slots = 16};

    if (n == 0)
        return;
    if (n > COLUMN_MAX_VALUES) {
        out->failed = true;
        return;
    }
    while (d.n_slots < 2 * n)
        d.n_slots *= 2;
    d.slots = calloc(d.n_slots, sizeof(*d.slots));
    d.index = malloc(n * sizeof(*d.index));
    d.length = malloc(n * sizeof(*d.length));
    if (d.slots == NULL || d.index == NULL || d.length == NULL) {
        out->failed = true;
    } else {
        for (size_t i = 0; i < n; i++)
            add_string(&d, i);
        buf_add_char(out, BYTES_DICTIONARY);
        pack_add_varint(out, d.n_distinct);
        add_ints(out, d.index, n);
        add_ints(out, d.length, d.n_distinct);
        add_text(out, &d.text);
        out->failed = out->failed || d.text.failed;
    }
    free(d.slots);
    free(d.index);
    free(d.length);
    buf_fini(&d.text);
}

static bool take_ints(struct bytes *in, int64_t *out, size_t n)
{
    uint64_t bytes;

    if (!pack_take_varint(in, &bytes) || bytes > in->n ||
        !column_decode_ints(bytes_of(in->p, (size_t)bytes), out, n))
        return false;
    *in = bytes_of(in->p + bytes, in->n - (size_t)bytes);
    return true;
}

/* All of in is the text of n bytes. */
static bool take_text(struct bytes in, bool deflated, size_t n, struct buf *out)
{
    z_stream z = {0};
    int rc;

    if (!deflated) {
        if (in.n != n)
            return false;
        buf_add_bytes(out, in);
        return !out->failed;
    }
    if (in.n > UINT32_MAX || n > UINT32_MAX || !buf_reserve(out, n) ||
        inflateInit2(&z, -15) != Z_OK)
        return false;
    z.next_in = (Bytef *)(uintptr_t)in.p; /* zlib does not write there */
    z.avail_in = (uInt)in.n;
    z.next_out = out->p + out->n;
    z.avail_out = (uInt)n;
    rc = inflate(&z, Z_FINISH);
    (void)inflateEnd(&z);
    if (rc != Z_STREAM_END || z.avail_in > 0 || z.avail_out > 0)
        return false;
    out->n += n;
    return true;
}

/* Append the strings that index names. lengths become where each distinct one begins in text. */
static bool spread(const struct buf *text, const int64_t *index, int64_t *lengths,
                   size_t n_distinct, struct buf *data, uint32_t *end, size_t n, size_t max)
{
    int64_t *begin = malloc((n_distinct + 1) * sizeof(*begin));
    size_t total = data->n;
    uint64_t at = 0;
    bool ok = begin != NULL;

    for (size_t i = 0; i < n_distinct && ok; i++) {
        begin[i] = (int64_t)at;
        ok = lengths[i] >= 0 && (uint64_t)lengths[i] <= text->n - at;
        at += ok ? (uint64_t)lengths[i] : 0;
    }
    ok = ok && at == text->n;
    for (size_t i = 0; i < n && ok; i++) {
        ok = index[i] >= 0 && (uint64_t)index[i] < n_distinct;
        if (!ok)
            break;
        total += (size_t)lengths[index[i]];
        ok = total <= UINT32_MAX && total - data->n <= max;
        if (!ok)
            break;
        end[i] = (uint32_t)total;
    }
    ok = ok && buf_reserve(data, total - data->n);
    /* Without a text every string is empty, and there is no address to add to. */
    for (size_t i = 0; i < n && ok && text->n > 0; i++)
        buf_add(data, text->p + begin[index[i]], (size_t)lengths[index[i]]);
    free(begin);
    return ok;
}

bool column_decode_bytes(struct bytes in, struct buf *data, uint32_t *end, size_t n, size_t max)
{
    struct buf text = {0};
    uint64_t n_distinct, n_text;
    int64_t *index = NULL, *lengths = NULL;
    bool ok = false;
    uint8_t how;

    if (n == 0)
        return in.n == 0;
    if (in.n == 0 || n > COLUMN_MAX_VALUES || in.p[0] != BYTES_DICTIONARY)
        return false;
    in = bytes_of(in.p + 1, in.n - 1);
    if (!pack_take_varint(&in, &n_distinct) || n_distinct == 0 || n_distinct > n)
        return false;
    index = malloc(n * sizeof(*index));
    lengths = malloc((size_t)n_distinct * sizeof(*lengths));
    if (index == NULL || lengths == NULL || !take_ints(&in, index, n) ||
        !take_ints(&in, lengths, (size_t)n_distinct) || in.n == 0 || in.p[0] > TEXT_DEFLATED)
        goto end;
    how = in.p[0];
    in = bytes_of(in.p + 1, in.n - 1);
    ok = pack_take_varint(&in, &n_text) && n_text <= max &&
         take_text(in, how == TEXT_DEFLATED, (size_t)n_text, &text) &&
         spread(&text, index, lengths, (size_t)n_distinct, data, end, n, max);
end:
    free(index);
    free(lengths);
    buf_fini(&text);
    return ok;
}
