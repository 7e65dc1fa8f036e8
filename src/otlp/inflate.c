/* inflate.c -- one whole compressed body into memory, never past the limit. */
#define ZLIB_CONST /* next_in points to const */

#include <limits.h>

#include <zlib.h>

#include "otlite/decode.h"

enum {
    WINDOW_ZLIB = 15,      /* zlib header and adler32: what HTTP calls deflate */
    WINDOW_GZIP = 15 + 16, /* gzip header, CRC and length, checked by zlib */
    FIRST_ROOM = 16 * 1024,
    FIRST_RATIO = 4 /* usual for OTLP: fewer copies while the output grows */
};

struct inflation {
    z_stream zs;
    struct bytes in; /* not yet given to zlib, whose counters are only 32 bits wide */
    struct buf *out;
    size_t max_out;
};

/* Input that is left, whoever holds it. */
static size_t input_left(const struct inflation *f)
{
    return f->in.n + f->zs.avail_in;
}

static void feed(struct inflation *f)
{
    size_t n = f->in.n < UINT_MAX ? f->in.n : UINT_MAX;

    if (f->zs.avail_in > 0 || n == 0)
        return;
    f->zs.next_in = f->in.p;
    f->zs.avail_in = (uInt)n;
    f->in.p += n;
    f->in.n -= n;
}

/* Room behind out->n, at most up to max_out, growing by half each time. False: no memory. */
static bool make_room(struct inflation *f, size_t in_bytes)
{
    struct buf *out = f->out;
    size_t want;

    if (out->n < out->cap)
        return true;
    want = out->n / 2;
    if (out->n == 0)
        want = in_bytes > FIRST_ROOM / FIRST_RATIO && in_bytes < SIZE_MAX / FIRST_RATIO
                   ? in_bytes * FIRST_RATIO
                   : FIRST_ROOM;
    if (want > f->max_out - out->n)
        want = f->max_out - out->n;
    return buf_reserve(out, want);
}

/* One call of inflate(). At the limit zlib gets one spare byte to write to: a stream that only
 * has its trailer left ends, one that has more to say fills the byte and *over is set. */
static int step(struct inflation *f, bool *over)
{
    struct buf *out = f->out;
    size_t room = (out->cap < f->max_out ? out->cap : f->max_out) - out->n;
    uint8_t spare;
    int r;

    if (room == 0) {
        f->zs.next_out = &spare;
        f->zs.avail_out = 1;
        r = inflate(&f->zs, Z_NO_FLUSH);
        *over = f->zs.avail_out == 0;
        return r;
    }
    if (room > UINT_MAX)
        room = UINT_MAX;
    f->zs.next_out = out->p + out->n;
    f->zs.avail_out = (uInt)room;
    r = inflate(&f->zs, Z_NO_FLUSH);
    out->n += room - f->zs.avail_out;
    return r;
}

static enum otl_err bad(enum coding coding, struct otl_error *err, const char *what)
{
    return otl_fail(err, OTL_EBADDATA,
                    "The %s body %s. Send it again from the start, or without Content-Encoding.",
                    coding == CODING_GZIP ? "gzip" : "deflate", what);
}

/* Every member of a gzip body, or the one stream of a deflate body, to the last byte of input. */
static enum otl_err inflate_all(struct inflation *f, enum coding coding, struct otl_error *err)
{
    size_t in_bytes = input_left(f);
    bool first_member = true;

    for (;;) {
        bool over = false;
        int r;

        feed(f);
        if (f->out->n < f->max_out && !make_room(f, in_bytes))
            return otl_fail(err, OTL_ENOMEM, "No memory to inflate the body; send it again later.");
        r = step(f, &over);
        if (over)
            return otl_fail(err, OTL_ETOOBIG,
                            "The body inflates to more than %zu bytes, which is the limit; send "
                            "smaller batches.",
                            f->max_out);
        switch (r) {
        case Z_OK:
            break;
        case Z_STREAM_END:
            if (input_left(f) == 0)
                return OTL_OK;
            if (coding != CODING_GZIP)
                return bad(coding, err, "has data behind its end");
            if (inflateReset(&f->zs) != Z_OK)
                return otl_fail(err, OTL_EINTERNAL, "zlib refused to start a new gzip member.");
            first_member = false;
            break;
        case Z_BUF_ERROR:
            /* No progress though there is room to write: the input ended. */
            return bad(coding, err, "is cut short");
        case Z_MEM_ERROR:
            return otl_fail(err, OTL_ENOMEM, "No memory to inflate the body; send it again later.");
        default:
            /* A bad header behind a whole member is junk (or padding), not a damaged member. */
            if (!first_member && f->zs.total_out == 0)
                return bad(coding, err, "has data behind its end that is no gzip member");
            return bad(coding, err, "is damaged or is not in that format");
        }
    }
}

enum otl_err inflate_body(enum coding coding, struct bytes in, size_t max_out, struct buf *out,
                          struct otl_error *err)
{
    struct inflation f = {.in = in, .out = out, .max_out = max_out};
    enum otl_err rc;

    buf_reset(out);
    if (coding == CODING_IDENTITY) {
        if (in.n > max_out)
            return otl_fail(err, OTL_ETOOBIG,
                            "The body has %zu bytes, the limit is %zu; send smaller batches.", in.n,
                            max_out);
        buf_add_bytes(out, in);
        if (out->failed)
            return otl_fail(err, OTL_ENOMEM, "No memory to hold the body; send it again later.");
        return OTL_OK;
    }
    if (in.n == 0)
        return bad(coding, err, "is empty");
    if (inflateInit2(&f.zs, coding == CODING_GZIP ? WINDOW_GZIP : WINDOW_ZLIB) != Z_OK)
        return otl_fail(err, OTL_ENOMEM, "No memory to inflate the body; send it again later.");
    rc = inflate_all(&f, coding, err);
    (void)inflateEnd(&f.zs);
    return rc;
}
