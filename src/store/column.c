/* Integers go through at most two differences and are then packed in runs of 256: each run as
 * offsets from a base in as few bits as most of them need, the others as exceptions. Doubles become
 * integers first. docs/format.md, "Columns", is the format. */
#include "column.h"

#include <math.h>
#include <stdlib.h>

#include "column_pack.h"

/* First byte of a stream of integers or doubles. */
enum {
    INTS_CONSTANT = 0, /* the value */
    INTS_LINEAR = 1,   /* the first value, the difference */
    INTS_PACKED = 2,   /* runs of the values */
    INTS_DELTA = 3,    /* the first value; runs of differences */
    INTS_DELTA2 = 4,   /* the first value and difference; runs of differences of differences */
    INTS_RAW = 5,      /* 8 bytes each */

    DOUBLES_DECIMAL = 16, /* digits, exceptions, integers that are 10^digits times the value */
    DOUBLES_XOR = 17,     /* the first value, bits shifted out; runs of value XOR the one before */
    DOUBLES_BITS = 18,    /* the bits as integers */

    MAX_DIGITS = COLUMN_MAX_DIGITS,
    /* A column with more values that are no decimals than one in so many is none. */
    DECIMAL_EXCEPTION_SHARE = 16,

    FEW_VALUES = PACK_RUN /* for which there is room on the stack */
};

static const double powers_of_10[MAX_DIGITS + 1] = {1,   1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                    1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

static int64_t minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static bool all_equal(const int64_t *v, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (v[i] != v[0])
            return false;
    }
    return true;
}

/* ---- integers ---- */

static void differences(int64_t *out, const int64_t *v, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++)
        out[i] = minus(v[i + 1], v[i]);
}

static void add_raw(struct buf *out, const int64_t *v, size_t n)
{
    buf_add_char(out, INTS_RAW);
    if (!buf_reserve(out, n * 8))
        return;
    for (size_t i = 0; i < n; i++)
        pack_store64(out->p + out->n + 8 * i, (uint64_t)v[i]);
    out->n += n * 8;
}

/* What encoding n integers works with: their differences, those of these, and plans for runs of
 * each. Most columns are short: theirs is on the stack. */
struct ints_scratch {
    int64_t *delta, *delta2;
    struct pack_plan *plans[3];
    void *memory;
    int64_t few[2 * FEW_VALUES];
    struct pack_plan few_plans[3];
};

static bool scratch_init(struct ints_scratch *s, size_t n)
{
    size_t runs = pack_runs(n);
    struct pack_plan *plans = s->few_plans;

    s->memory = NULL;
    s->delta = s->few;
    if (n > FEW_VALUES) {
        s->memory = malloc(2 * n * sizeof(*s->delta) + 3 * runs * sizeof(*plans));
        if (s->memory == NULL)
            return false;
        s->delta = s->memory;
        plans = (struct pack_plan *)(void *)(s->delta + 2 * n);
    }
    s->delta2 = s->delta + n;
    for (size_t i = 0; i < 3; i++)
        s->plans[i] = plans + i * runs;
    return true;
}

void column_encode_ints(struct buf *out, const int64_t *v, size_t n)
{
    struct ints_scratch s;
    size_t cost[3], best = 0;

    if (n == 0)
        return;
    if (all_equal(v, n)) {
        buf_add_char(out, INTS_CONSTANT);
        pack_add_varint(out, pack_zigzag(v[0]));
        return;
    }
    if (n > COLUMN_MAX_VALUES || !scratch_init(&s, n)) {
        out->failed = true;
        return;
    }
    differences(s.delta, v, n);
    if (all_equal(s.delta, n - 1)) {
        buf_add_char(out, INTS_LINEAR);
        pack_add_varint(out, pack_zigzag(v[0]));
        pack_add_varint(out, pack_zigzag(s.delta[0]));
        free(s.memory);
        return;
    }
    differences(s.delta2, s.delta, n - 1);
    cost[0] = pack_plan(v, n, 8 * n, s.plans[0]);
    cost[1] = pack_plan(s.delta, n - 1, cost[0], s.plans[1]);
    cost[2] = pack_plan(s.delta2, n - 2, cost[0] < cost[1] ? cost[0] : cost[1], s.plans[2]);
    for (size_t i = 1; i < 3; i++) {
        if (cost[i] < cost[best])
            best = i;
    }
    if (cost[best] >= 8 * n) {
        add_raw(out, v, n);
    } else if (best == 0) {
        buf_add_char(out, INTS_PACKED);
        pack_add(out, v, n, s.plans[0]);
    } else if (best == 1) {
        buf_add_char(out, INTS_DELTA);
        pack_add_varint(out, pack_zigzag(v[0]));
        pack_add(out, s.delta, n - 1, s.plans[1]);
    } else {
        buf_add_char(out, INTS_DELTA2);
        pack_add_varint(out, pack_zigzag(v[0]));
        pack_add_varint(out, pack_zigzag(s.delta[0]));
        pack_add(out, s.delta2, n - 2, s.plans[2]);
    }
    free(s.memory);
}

static bool read_raw(struct bytes in, int64_t *out, size_t n)
{
    if (in.n != n * 8)
        return false;
    for (size_t i = 0; i < n; i++)
        out[i] = (int64_t)pack_load64(in.p + 8 * i);
    return true;
}

static bool read_zigzag(struct bytes *in, int64_t *out)
{
    uint64_t u;

    if (!pack_take_varint(in, &u))
        return false;
    *out = pack_unzigzag(u);
    return true;
}

/* out[1..n) are differences, out[0] the first value. */
static void add_up(int64_t *out, size_t n)
{
    uint64_t at = (uint64_t)out[0];

    for (size_t i = 1; i < n; i++) {
        at += (uint64_t)out[i];
        out[i] = (int64_t)at;
    }
}

bool column_ints_constant(struct bytes in, int64_t *out)
{
    return in.n > 0 && in.p[0] == INTS_CONSTANT && column_decode_ints(in, out, 1);
}

bool column_decode_ints(struct bytes in, int64_t *out, size_t n)
{
    int64_t first, second;
    uint8_t encoding;

    if (n == 0)
        return in.n == 0;
    if (in.n == 0 || n > COLUMN_MAX_VALUES)
        return false;
    encoding = in.p[0];
    in = bytes_of(in.p + 1, in.n - 1);
    switch (encoding) {
    case INTS_CONSTANT:
        if (!read_zigzag(&in, &first))
            return false;
        for (size_t i = 0; i < n; i++)
            out[i] = first;
        return in.n == 0;
    case INTS_LINEAR:
        if (!read_zigzag(&in, &first) || !read_zigzag(&in, &second))
            return false;
        for (size_t i = 0; i < n; i++) {
            out[i] = first;
            first = plus(first, second);
        }
        return in.n == 0;
    case INTS_PACKED:
        return pack_take(&in, out, n) && in.n == 0;
    case INTS_DELTA:
        if (!read_zigzag(&in, &out[0]) || !pack_take(&in, out + 1, n - 1) || in.n > 0)
            return false;
        add_up(out, n);
        return true;
    case INTS_DELTA2:
        if (n < 2 || !read_zigzag(&in, &out[0]) || !read_zigzag(&in, &out[1]) ||
            !pack_take(&in, out + 2, n - 2) || in.n > 0)
            return false;
        add_up(out + 1, n - 1);
        add_up(out, n);
        return true;
    case INTS_RAW:
        return read_raw(in, out, n);
    default:
        return false;
    }
}

/* ---- doubles ---- */

static double double_of(uint64_t bits)
{
    double d;

    memcpy(&d, &bits, sizeof(d));
    return d;
}

static uint64_t bits_of(double d)
{
    uint64_t bits;

    memcpy(&bits, &d, sizeof(bits));
    return bits;
}

/* i / 10^digits is exactly this double. A quotient of two exact doubles is rounded once, as reading
 * the decimal text is, so every double that was written with so many digits is found. */
static bool is_decimal(uint64_t bits, int digits, int64_t *i)
{
    const double limit = 4503599627370496.0; /* 2^52: below it rounding to an integer is exact */
    double scaled = double_of(bits) * powers_of_10[digits];

    if (!(scaled < limit && scaled > -limit)) /* NaN, too */
        return false;
    /* Adding and taking away 1.5 * 2^52 rounds to an integer; a wrong rounding fails the test. */
    scaled += 6755399441055744.0;
    scaled -= 6755399441055744.0;
    *i = (int64_t)scaled;
    return bits_of((double)*i / powers_of_10[digits]) == bits;
}

int column_decimal_digits(const double *v, size_t n)
{
    int digits = 0;
    int64_t unused;

    for (size_t i = 0; i < n; i++) {
        while (digits <= MAX_DIGITS && !is_decimal(bits_of(v[i]), digits, &unused))
            digits++;
    }
    return digits <= MAX_DIGITS ? digits : -1;
}

double column_round_decimal(double v, int digits)
{
    double scaled = v * powers_of_10[digits];

    return fabs(scaled) < 4503599627370496.0 ? nearbyint(scaled) / powers_of_10[digits] : v;
}

/* The least digits with which all but a few values are decimals, or -1. ints: their integers, with
 * that of the one before for each of the *n_exceptions others: it costs nothing there. */
static int find_digits(const uint64_t *bits, size_t n, int64_t *ints, size_t *n_exceptions)
{
    size_t allowed = n / DECIMAL_EXCEPTION_SHARE;
    int digits = 0;

    for (;;) {
        size_t others = 0;
        int needed = digits;

        for (size_t i = 0; i < n; i++) {
            int64_t v;
            int d = digits;

            if (is_decimal(bits[i], digits, &ints[i]))
                continue;
            ints[i] = i == 0 ? 0 : ints[i - 1];
            while (++d <= MAX_DIGITS && !is_decimal(bits[i], d, &v)) {
            }
            if (++others > allowed) {
                if (d > MAX_DIGITS && needed == digits)
                    return -1;
                if (d <= MAX_DIGITS && d > needed)
                    needed = d;
                break;
            }
            if (d <= MAX_DIGITS && d > needed)
                needed = d;
        }
        *n_exceptions = others;
        if (others <= allowed)
            return digits;
        if (needed == digits)
            return -1;
        digits = needed;
    }
}

/* DECIMAL of n values: out gets it and true, or is left as it was. */
static bool encode_decimal(struct buf *out, const uint64_t *bits, size_t n, int64_t *scratch)
{
    size_t start = out->n, n_exceptions = 0, last = 0;
    int digits = find_digits(bits, n, scratch, &n_exceptions);

    if (digits < 0)
        return false;
    buf_add_char(out, DOUBLES_DECIMAL);
    buf_add_char(out, (char)digits);
    pack_add_varint(out, n_exceptions);
    for (size_t i = 0; i < n && n_exceptions > 0; i++) {
        int64_t v;
        uint8_t raw[8];

        if (is_decimal(bits[i], digits, &v))
            continue;
        pack_add_varint(out, i - last);
        pack_store64(raw, bits[i]);
        buf_add(out, raw, sizeof(raw));
        last = i;
        n_exceptions--;
    }
    column_encode_ints(out, scratch, n);
    if (out->failed || out->n - start < 8 * n)
        return true;
    out->n = start;
    return false;
}

/* Put XOR in the place of what out has from `start` on, if it is shorter. */
static void encode_xor(struct buf *out, size_t start, const uint64_t *bits, size_t n,
                       int64_t *scratch, struct pack_plan *plans)
{
    size_t others = out->n - start, begin = 2 + pack_varint_bytes(bits[0]);
    uint64_t all = 0;
    unsigned shift;

    for (size_t i = 1; i < n; i++)
        all |= bits[i] ^ bits[i - 1];
    shift = all == 0 ? 0 : (unsigned)__builtin_ctzll(all);
    for (size_t i = 1; i < n; i++)
        scratch[i - 1] = (int64_t)((bits[i] ^ bits[i - 1]) >> shift);
    if (begin + pack_plan(scratch, n - 1, others, plans) >= others)
        return;
    out->n = start;
    buf_add_char(out, DOUBLES_XOR);
    pack_add_varint(out, bits[0]);
    buf_add_char(out, (char)shift);
    pack_add(out, scratch, n - 1, plans);
}

void column_encode_doubles(struct buf *out, const uint64_t *bits, size_t n)
{
    int64_t few[FEW_VALUES], *scratch = few;
    struct pack_plan few_plans[1], *plans = few_plans;
    void *memory = NULL;
    size_t start = out->n;

    if (n > FEW_VALUES) {
        if (n <= COLUMN_MAX_VALUES)
            memory = malloc(n * sizeof(*scratch) + pack_runs(n) * sizeof(*plans));
        if (memory == NULL) {
            out->failed = true;
            return;
        }
        scratch = memory;
        plans = (struct pack_plan *)(void *)(scratch + n);
    }
    if (n > 0 && !encode_decimal(out, bits, n, scratch)) {
        buf_add_char(out, DOUBLES_BITS);
        column_encode_ints(out, (const int64_t *)bits, n);
        if (!out->failed)
            encode_xor(out, start, bits, n, scratch, plans);
    }
    free(memory);
}

static bool decode_decimal(struct bytes in, uint64_t *out, size_t n)
{
    struct bytes exceptions, ints;
    uint64_t n_exceptions, gap, at = 0;
    double scale;

    if (in.n == 0 || in.p[0] > MAX_DIGITS)
        return false;
    scale = powers_of_10[in.p[0]];
    in = bytes_of(in.p + 1, in.n - 1);
    if (!pack_take_varint(&in, &n_exceptions) || n_exceptions > n)
        return false;
    exceptions = ints = in;
    for (uint64_t i = 0; i < n_exceptions; i++) {
        if (!pack_take_varint(&ints, &gap) || ints.n < 8)
            return false;
        ints = bytes_of(ints.p + 8, ints.n - 8);
    }
    if (!column_decode_ints(ints, (int64_t *)out, n))
        return false;
    for (size_t i = 0; i < n; i++)
        out[i] = bits_of((double)(int64_t)out[i] / scale);
    for (uint64_t i = 0; i < n_exceptions; i++) {
        if (!pack_take_varint(&exceptions, &gap) || gap >= n - at)
            return false;
        at += gap;
        out[at] = pack_load64(exceptions.p);
        exceptions = bytes_of(exceptions.p + 8, exceptions.n - 8);
    }
    return true;
}

bool column_decode_doubles(struct bytes in, uint64_t *out, size_t n)
{
    uint8_t encoding, shift;

    if (n == 0)
        return in.n == 0;
    if (in.n == 0 || n > COLUMN_MAX_VALUES)
        return false;
    encoding = in.p[0];
    in = bytes_of(in.p + 1, in.n - 1);
    switch (encoding) {
    case DOUBLES_DECIMAL:
        return decode_decimal(in, out, n);
    case DOUBLES_XOR:
        if (!pack_take_varint(&in, &out[0]) || in.n == 0 || in.p[0] > 63)
            return false;
        shift = in.p[0];
        in = bytes_of(in.p + 1, in.n - 1);
        if (!pack_take(&in, (int64_t *)out + 1, n - 1) || in.n > 0)
            return false;
        for (size_t i = 1; i < n; i++)
            out[i] = out[i - 1] ^ (out[i] << shift);
        return true;
    case DOUBLES_BITS:
        return column_decode_ints(in, (int64_t *)out, n);
    default:
        return false;
    }
}
