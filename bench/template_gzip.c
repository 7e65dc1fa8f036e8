/* template_gzip.c -- requests compressed once and changed in place (template.h says how), and
 * requests compressed anew each time. */
#include <endian.h>
#include <stdlib.h>
#include <zlib.h>

#include "template_encode.h"

enum {
    SERIES_BYTES = 3 /* of a shared protobuf value: three bytes of the series, five of the pass */
};

#define SHARED_SERIES     UINT32_C(1000000) /* series numbers repeat beyond this */
#define SHARED_JSON_FIRST INT64_C(1000000000000000)

/* What stands for the time and the pass while a body is compressed: bytes found nowhere else in it,
 * so that each later occurrence can only be compressed as a reference to the first. */
#define MARK_TIME_PROTO UINT64_C(0x1bd3f1a7c59ee3b9)
#define MARK_PASS_PROTO UINT64_C(0x5ad7e6cb97)
#define MARK_TIME_JSON  INT64_C(7495039586172940683)
#define MARK_PASS_JSON  UINT64_C(864209753)

static const uint8_t GZIP_HEAD[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};

/* In JSON: 1, nine digits of the pass, six of the series. */
int64_t template_shared_value(bool json, uint32_t series, uint64_t pass)
{
    if (json)
        return SHARED_JSON_FIRST + (int64_t)(pass % UINT64_C(1000000000)) * SHARED_SERIES +
               (int64_t)(series % SHARED_SERIES);
    return (int64_t)((pass & UINT64_C(0x7fffffffff)) << (8 * SERIES_BYTES) |
                     (uint64_t)(series % SHARED_SERIES));
}

static void write_number(uint8_t *at, bool json, unsigned width, int64_t v)
{
    uint64_t le = htole64((uint64_t)v);

    if (json)
        write_digits(at, width, (uint64_t)v);
    else
        memcpy(at, &le, sizeof(le));
}

/* Every point has two patches: its time and its value. */
static void write_point(struct template *t, const struct template_field *f, int64_t time,
                        int64_t value)
{
    const struct template_patch *p = &t->patches[f->patch];
    bool json = t->opts->json;

    write_number(t->plain.p + p[0].at, json, TIME_DIGITS, time);
    write_number(t->plain.p + p[1].at, json, VALUE_DIGITS, value);
}

/* The last byte of the first point's changing bytes, plus one: where the stored block ends. */
static size_t stored_size(const struct template *t)
{
    return t->patches[1].at + (t->opts->json ? (size_t)VALUE_DIGITS : sizeof(uint64_t));
}

void template_gzip_change(struct template *t, int64_t time, uint64_t pass)
{
    uLong crc;

    for (unsigned i = 0; i < t->n_fields; i++)
        write_point(t, &t->fields[i], time,
                    template_shared_value(t->opts->json, t->fields[i].series, pass));
    memcpy(t->wire.p + t->stored_at, t->plain.p, stored_size(t));
    crc = crc32_z(crc32_z(0, NULL, 0), t->plain.p, t->plain.n);
    write_le32(t->wire.p + t->wire.n - 8, (uint32_t)crc);
}

/* Append the deflate stream of plain behind its first `stored` bytes, which serve as dictionary. */
static enum otl_err deflate_rest(struct buf *out, const struct buf *plain, size_t stored,
                                 struct otl_error *err)
{
    z_stream z = {0};
    uLong bound;
    int rc;

    if (deflateInit2(&z, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY) != Z_OK)
        return otl_fail(err, OTL_ENOMEM, "no memory for compression");
    rc = deflateSetDictionary(&z, plain->p, (uInt)stored);
    bound = deflateBound(&z, (uLong)(plain->n - stored));
    if (rc == Z_OK && buf_reserve(out, bound)) {
        z.next_in = plain->p + stored;
        z.avail_in = (uInt)(plain->n - stored);
        z.next_out = out->p + out->n;
        z.avail_out = (uInt)bound;
        rc = deflate(&z, Z_FINISH);
        out->n += bound - z.avail_out;
    }
    deflateEnd(&z);
    if (rc != Z_STREAM_END)
        return otl_fail(err, out->failed ? OTL_ENOMEM : OTL_EINTERNAL, "cannot compress a request");
    return OTL_OK;
}

bool template_gzip_is_plain(const struct template *t)
{
    struct bytes body = template_body(t);
    uint8_t *got = malloc(t->plain.n + 1);
    z_stream z = {0};
    bool ok = false;

    if (got != NULL && inflateInit2(&z, 15 + 16) == Z_OK) {
        /* zlib's next_in is not const-qualified, but it only reads. */
        z.next_in = t->wire.p + t->body_at;
        z.avail_in = (uInt)body.n;
        z.next_out = got;
        z.avail_out = (uInt)t->plain.n + 1;
        ok = inflate(&z, Z_FINISH) == Z_STREAM_END && z.avail_in == 0 && z.avail_out == 1 &&
             memcmp(got, t->plain.p, t->plain.n) == 0;
        inflateEnd(&z);
    }
    free(got);
    return ok;
}

enum otl_err template_gzip_init(struct template *t, struct buf *body, size_t *out_stored_at,
                                struct otl_error *err)
{
    bool json = t->opts->json;
    size_t stored = stored_size(t);
    uint8_t block[5], trailer[8] = {0};
    enum otl_err rc;

    if (stored > 32768)
        return otl_fail(err, OTL_EINTERNAL, "the first point is too large for --gzip");
    for (unsigned i = 0; i < t->n_fields; i++)
        write_point(t, &t->fields[i], json ? MARK_TIME_JSON : (int64_t)MARK_TIME_PROTO,
                    template_shared_value(json, t->fields[i].series,
                                          json ? MARK_PASS_JSON : MARK_PASS_PROTO));
    buf_add(body, GZIP_HEAD, sizeof(GZIP_HEAD));
    block[0] = 0; /* not the last block; stored */
    block[1] = (uint8_t)(stored & 0xff);
    block[2] = (uint8_t)(stored >> 8);
    block[3] = (uint8_t)~block[1];
    block[4] = (uint8_t)~block[2];
    buf_add(body, block, sizeof(block));
    *out_stored_at = body->n;
    buf_add(body, t->plain.p, stored);
    rc = deflate_rest(body, &t->plain, stored, err);
    if (rc != OTL_OK)
        return rc;
    write_le32(trailer + 4, (uint32_t)t->plain.n);
    buf_add(body, trailer, sizeof(trailer));
    return OTL_OK;
}

/* --- anew each time --- */

struct template_deflate {
    z_stream z;
};

struct template_deflate *template_deflate_new(void)
{
    struct template_deflate *d = calloc(1, sizeof(*d));

    if (d != NULL &&
        deflateInit2(&d->z, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(d);
        d = NULL;
    }
    return d;
}

void template_deflate_free(struct template_deflate *d)
{
    if (d != NULL)
        deflateEnd(&d->z);
    free(d);
}

bool template_deflate_add(struct template_deflate *d, struct buf *out, const struct buf *plain)
{
    z_stream *z = &d->z;
    uLong bound;
    int rc;

    if (deflateReset(z) != Z_OK)
        return false;
    bound = deflateBound(z, (uLong)plain->n);
    if (!buf_reserve(out, bound))
        return false;
    z->next_in = plain->p;
    z->avail_in = (uInt)plain->n;
    z->next_out = out->p + out->n;
    z->avail_out = (uInt)bound;
    rc = deflate(z, Z_FINISH);
    out->n += bound - z->avail_out;
    return rc == Z_STREAM_END;
}
