#include "column_pack.h"

enum { VARINT_BYTES = 10 }; /* at most */

static size_t put_varint(uint8_t *p, uint64_t v)
{
    size_t n = 0;

    for (; v >= 0x80; v >>= 7)
        p[n++] = (uint8_t)(v | 0x80);
    p[n++] = (uint8_t)v;
    return n;
}

void pack_add_varint(struct buf *out, uint64_t v)
{
    if (buf_reserve(out, VARINT_BYTES))
        out->n += put_varint(out->p + out->n, v);
}

bool pack_take_varint(struct bytes *in, uint64_t *out)
{
    uint64_t v = 0;

    for (size_t i = 0; i < in->n && i < 10; i++) {
        uint8_t b = in->p[i];

        if (i == 9 && b > 1)
            return false;
        v |= (uint64_t)(b & 0x7f) << (7 * i);
        if (b < 0x80) {
            *out = v;
            *in = bytes_of(in->p + i + 1, in->n - i - 1);
            return true;
        }
    }
    return false;
}

static unsigned bit_length(uint64_t v)
{
    return v == 0 ? 0 : 64 - (unsigned)__builtin_clzll(v);
}

size_t pack_varint_bytes(uint64_t v)
{
    return v == 0 ? 1 : (bit_length(v) + 6) / 7;
}

static size_t bits_to_bytes(size_t bits)
{
    return (bits + 7) / 8;
}

static uint64_t offset_of(int64_t v, int64_t base)
{
    return (uint64_t)v - (uint64_t)base;
}

/* ---- planning ---- */

static size_t plain_bytes(int64_t base, unsigned width, size_t n)
{
    return 2 + pack_varint_bytes(pack_zigzag(base)) + bits_to_bytes(n * width);
}

/* The best width for offsets from base, when it is better than p. */
static void try_base(const int64_t *v, size_t n, int64_t base, struct pack_plan *p)
{
    unsigned of_length[65] = {0}; /* values whose offset is of so many bits */
    unsigned width = 64, above = 0;

    for (size_t i = 0; i < n; i++)
        of_length[bit_length(offset_of(v[i], base))]++;
    /* Wider than the longest is never better. */
    while (width > 0 && of_length[width] == 0)
        width--;
    for (;;) {
        size_t bytes = plain_bytes(base, width, n);

        for (unsigned l = width + 1, left = above; left > 0 && bytes < p->bytes; l++) {
            bytes += of_length[l] * (1 + (l - width + 6) / 7);
            left -= of_length[l];
        }
        if (bytes < p->bytes)
            *p = (struct pack_plan){base, width, above, bytes};
        above += of_length[width];
        /* An exception takes two bytes, as much as a bit less for 16 values saves. */
        if (width == 0 || above > n / 4)
            return;
        width--;
    }
}

/* How many values are in each eighth of the 2^width from least on, those below it left out. */
static void count_eighths(const int64_t *v, size_t n, int64_t least, unsigned width,
                          unsigned eighths[8])
{
    for (int i = 0; i < 8; i++)
        eighths[i] = 0;
    for (size_t i = 0; i < n; i++) {
        if (v[i] >= least)
            eighths[offset_of(v[i], least) >> (width - 3)]++;
    }
}

/* As try_base from the least value, for the widths that the eighths know the exceptions of: each
 * has up to three bits too many, and so takes two bytes. False: less may be better still. */
static bool try_up_to_3_less(size_t n, const unsigned eighths[8], struct pack_plan *p)
{
    unsigned above[4] = {0, eighths[4] + eighths[5] + eighths[6] + eighths[7]}, whole = p->width;

    above[2] = above[1] + eighths[2] + eighths[3];
    above[3] = above[2] + eighths[1];
    for (unsigned less = 1; less < 4; less++) {
        size_t bytes = plain_bytes(p->base, whole - less, n) + 2 * (size_t)above[less];

        if (above[less] > n / 4)
            return true;
        if (bytes < p->bytes)
            *p = (struct pack_plan){p->base, whole - less, above[less], bytes};
    }
    return whole == 3;
}

/* The least value but for few that are far below the others (a counter's resets): while the lower
 * eighths of the range are almost empty, it goes on above them. eighths: of the whole range. */
static int64_t least_of_most(const int64_t *v, size_t n, int64_t least, int64_t most,
                             unsigned eighths[8])
{
    size_t left = n;

    for (int round = 0; round < 8; round++) {
        unsigned width = bit_length(offset_of(most, least)), below = 0, skip = 0;
        uint64_t from;
        int64_t next = most;

        if (width < 4)
            break;
        if (round > 0)
            count_eighths(v, n, least, width, eighths);
        while (skip < 7 && (below + eighths[skip]) * 32 <= n)
            below += eighths[skip++];
        if (skip == 0 || below == 0 || (n - left + below) * 16 > n)
            break;
        left -= below;
        from = (uint64_t)skip << (width - 3);
        for (size_t i = 0; i < n; i++) {
            if (v[i] >= least && offset_of(v[i], least) >= from && v[i] < next)
                next = v[i];
        }
        least = next;
    }
    return least;
}

static struct pack_plan plan_run(const int64_t *v, size_t n)
{
    int64_t least = v[0], most = v[0], trimmed;
    unsigned eighths[8];
    struct pack_plan p = {0};

    for (size_t i = 1; i < n; i++) {
        least = v[i] < least ? v[i] : least;
        most = v[i] > most ? v[i] : most;
    }
    p.base = least;
    p.width = bit_length(offset_of(most, least));
    p.bytes = plain_bytes(p.base, p.width, n);
    if (p.width < 3)
        return p;
    count_eighths(v, n, least, p.width, eighths);
    if (!try_up_to_3_less(n, eighths, &p))
        try_base(v, n, least, &p);
    trimmed = least_of_most(v, n, least, most, eighths);
    if (trimmed != least)
        try_base(v, n, trimmed, &p);
    return p;
}

size_t pack_plan(const int64_t *v, size_t n, size_t give_up, struct pack_plan *plans)
{
    size_t bytes = 0;

    for (size_t i = 0; i < n && bytes <= give_up; i += PACK_RUN, plans++) {
        *plans = plan_run(v + i, n - i < PACK_RUN ? n - i : PACK_RUN);
        bytes += plans->bytes;
    }
    return bytes;
}

/* ---- writing ---- */

static uint64_t low_bits(unsigned width)
{
    return width == 0 ? 0 : UINT64_MAX >> (64 - width);
}

/* The bits of a run at p, which has room for 8 bytes more than they take. */
static void write_bits(uint8_t *p, const int64_t *v, size_t n, const struct pack_plan *plan)
{
    uint64_t mask = low_bits(plan->width), pending = 0;
    unsigned held = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t bits = offset_of(v[i], plan->base) & mask;

        pending |= bits << held;
        held += plan->width;
        if (held >= 64) {
            pack_store64(p, pending);
            p += 8;
            held -= 64;
            pending = held == 0 ? 0 : bits >> (plan->width - held);
        }
    }
    if (held > 0)
        pack_store64(p, pending);
}

static void add_run(struct buf *out, const int64_t *v, size_t n, const struct pack_plan *plan)
{
    size_t bytes = bits_to_bytes(n * plan->width);
    unsigned left = plan->exceptions;
    uint8_t *p;

    /* write_bits wants 8 bytes more than it takes. */
    if (!buf_reserve(out, VARINT_BYTES + 2 + bytes + 8 + left * (1 + VARINT_BYTES)))
        return;
    p = out->p + out->n;
    p += put_varint(p, pack_zigzag(plan->base));
    *p++ = (uint8_t)plan->width;
    *p++ = (uint8_t)left;
    if (plan->width > 0)
        write_bits(p, v, n, plan);
    p += bytes;
    for (size_t i = 0; i < n && left > 0; i++) {
        uint64_t offset = offset_of(v[i], plan->base);

        if (plan->width == 64 || offset >> plan->width == 0)
            continue;
        *p++ = (uint8_t)i;
        p += put_varint(p, offset >> plan->width);
        left--;
    }
    out->n = (size_t)(p - out->p);
}

void pack_add(struct buf *out, const int64_t *v, size_t n, const struct pack_plan *plans)
{
    for (size_t i = 0; i < n; i += PACK_RUN)
        add_run(out, v + i, n - i < PACK_RUN ? n - i : PACK_RUN, plans++);
}

/* ---- reading ---- */

/* Any width, no byte beyond the last one that has bits. */
static uint64_t bits_at(const uint8_t *p, size_t bit, unsigned width)
{
    const uint8_t *from = p + bit / 8;
    unsigned shift = bit % 8, have = 8 - shift;
    uint64_t v = (uint64_t)*from >> shift;

    for (; have < width; have += 8)
        v |= (uint64_t) * ++from << have;
    return v & low_bits(width);
}

/* n values of width bits at p, of which `room` bytes may be read. */
static void unpack(const uint8_t *p, size_t room, unsigned width, uint64_t base, int64_t *out,
                   size_t n)
{
    uint64_t mask = low_bits(width);
    size_t i = 0, bit = 0, fast;

    /* One load of 8 bytes has all bits of a value of up to 57 at any place in a byte. */
    if (width <= 57 && room >= 8) {
        fast = width == 0 ? n
                          : ((room - 8) * 8 + 7) / width + 1; /* the last one's load ends in room */
        if (fast > n)
            fast = n;
        for (; i < fast; i++, bit += width)
            out[i] = (int64_t)(base + ((pack_load64(p + bit / 8) >> (bit % 8)) & mask));
    }
    for (; i < n; i++, bit += width)
        out[i] = (int64_t)(base + (width == 0 ? 0 : bits_at(p, bit, width)));
}

static bool take_run(struct bytes *in, int64_t *out, size_t n)
{
    uint64_t base;
    unsigned width, exceptions;
    size_t bytes;

    if (!pack_take_varint(in, &base) || in->n < 2 || in->p[0] > 64)
        return false;
    width = in->p[0];
    exceptions = in->p[1];
    *in = bytes_of(in->p + 2, in->n - 2);
    bytes = bits_to_bytes(n * width);
    if (bytes > in->n)
        return false;
    unpack(in->p, in->n, width, (uint64_t)pack_unzigzag(base), out, n);
    *in = bytes_of(in->p + bytes, in->n - bytes);
    for (; exceptions > 0; exceptions--) {
        uint64_t high;
        size_t at;

        if (in->n == 0 || width == 64 || (at = in->p[0]) >= n)
            return false;
        *in = bytes_of(in->p + 1, in->n - 1);
        if (!pack_take_varint(in, &high) || (width > 0 && high >> (64 - width) > 0))
            return false;
        out[at] = (int64_t)((uint64_t)out[at] + (high << width));
    }
    return true;
}

bool pack_take(struct bytes *in, int64_t *out, size_t n)
{
    for (size_t i = 0; i < n; i += PACK_RUN) {
        if (!take_run(in, out + i, n - i < PACK_RUN ? n - i : PACK_RUN))
            return false;
    }
    return true;
}
