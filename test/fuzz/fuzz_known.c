/* fuzz_known.c -- libFuzzer target: whatever was learned from one body, the short way gives for
 * that body and for a changed one what decode_body gives, or declines (`make fuzz`).
 *
 * First byte: bit 0 small limits, bit 1 a tiny cache, bit 2 every hash collides, bits 4 to 6 the
 * number of edits. Each edit is four bytes: offset (two), what to do, a byte. Then the body. */
#include <stdlib.h>

#include "../lib/batch_equal.h"
#include "otlp/known_cache.h"

enum { BUDGET = 32 << 20, PROJECT = 7, OTHER_PROJECT = 8, MAX_EDITED = 1 << 17 };

static const int64_t now_ns = INT64_C(1800000000000000000);

static const struct decode_limits small_limits = {
    .max_value_depth = 3,
    .max_name_bytes = 24,
    .max_attributes = 4,
    .max_attribute_bytes = 64,
    .max_points = 100,
    .max_buckets = 5,
    .future_slack_ns = 1,
    .strict_counts = true,
};

static void require(bool ok)
{
    if (!ok)
        abort();
}

static uint64_t always_equal(struct bytes b, uint64_t seed)
{
    (void)b;
    (void)seed;
    return 1;
}

/* The short way against the long one; then what the long one gave is learned. */
static void step(struct known *k, int64_t project, struct bytes body,
                 const struct decode_limits *lim)
{
    struct arena slow_arena, arena;
    struct batch slow, fast;
    struct known_hold *hold = NULL;
    struct otl_error err;
    bool is_known;
    enum otl_err rc;

    arena_init(&slow_arena, BUDGET);
    arena_init(&arena, BUDGET);
    rc = decode_body(ENCODING_PROTOBUF, body, lim, now_ns, &slow_arena, &slow, &err);
    is_known = known_decode(k, project, body, lim, now_ns, &arena, &fast, &hold);
    if (is_known) {
        require(rc == OTL_OK && batch_equal(&slow, &fast));
        require(numbers_right(&fast, project));
    }
    if (rc == OTL_OK) {
        number_all(&slow, project);
        known_learn(k, project, body, lim, &slow);
        if (is_known) /* what it borrows is still there */
            require(batch_equal(&slow, &fast));
    }
    known_release(k, hold);
    arena_fini(&slow_arena);
    arena_fini(&arena);
}

static size_t edit(uint8_t *p, size_t n, const uint8_t *e)
{
    size_t at = (size_t)e[0] << 8 | e[1];

    if (n == 0)
        return n;
    at %= n;
    switch (e[2] % 5) {
    case 0:
        p[at] = e[3];
        return n;
    case 1:
        p[at] ^= (uint8_t)(1u << (e[3] & 7));
        return n;
    case 2: /* take one out */
        memmove(p + at, p + at + 1, n - at - 1);
        return n - 1;
    case 3: /* put one in */
        if (n == MAX_EDITED)
            return n;
        memmove(p + at + 1, p + at, n - at);
        p[at] = e[3];
        return n + 1;
    default: /* cut it off */
        return at;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static uint8_t edited[MAX_EDITED];
    const struct decode_limits *lim;
    const uint8_t *edits;
    struct known *k;
    struct bytes body;
    unsigned n_edits;

    if (n == 0 || n > MAX_EDITED)
        return 0;
    lim = (data[0] & 1) != 0 ? &small_limits : &decode_limits_default;
    n_edits = data[0] >> 4 & 7;
    if (n - 1 < n_edits * 4)
        return 0;
    edits = data + 1;
    body = bytes_of(edits + n_edits * 4, n - 1 - n_edits * 4);
    k = known_new((data[0] & 2) != 0 ? 60 << 10 : 512 << 10);
    require(k != NULL);
    if ((data[0] & 4) != 0)
        k->hash = always_equal;
    step(k, PROJECT, body, lim);
    step(k, PROJECT, body, lim);
    step(k, OTHER_PROJECT, body, lim);
    if (body.n > 0)
        memcpy(edited, body.p, body.n);
    for (unsigned i = 0; i < n_edits; i++) {
        body.n = edit(edited, body.n, edits + i * 4);
        step(k, PROJECT, bytes_of(edited, body.n), lim);
    }
    known_free(k);
    return 0;
}
