/* bytes.c -- ranges, their hash, and the growable buffer. Text codings are in text.c. */
#include "otlite/bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

__extension__ typedef unsigned __int128 u128;

/* Table keys come from the network. A key drawn at start keeps a sender from choosing attribute
 * sets that all fall into one bucket. */
static uint64_t hash_key = UINT64_C(0x9e3779b97f4a7c15);

__attribute__((constructor)) static void hash_key_draw(void)
{
    uint64_t k;

    if (getrandom(&k, sizeof(k), GRND_NONBLOCK) == (ssize_t)sizeof(k))
        hash_key ^= k;
}

/* The two halves of the 128-bit product, folded: every bit of the inputs reaches every bit. */
static inline uint64_t mix(uint64_t a, uint64_t b)
{
    u128 m = (u128)a * b;

    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static inline uint64_t load64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

uint64_t bytes_hash(struct bytes b, uint64_t seed)
{
    const uint64_t k = UINT64_C(0xd6e8feb86659fd93);
    uint64_t h = mix(seed ^ hash_key, k ^ (uint64_t)b.n);
    const uint8_t *p = b.p;
    size_t n = b.n;
    uint64_t tail = 0;

    while (n >= 8) {
        h = mix(h ^ load64(p), k);
        p += 8;
        n -= 8;
    }
    if (n > 0)
        memcpy(&tail, p, n);
    return mix(h ^ tail, hash_key | 1);
}

int bytes_compare(struct bytes a, struct bytes b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int c = n == 0 ? 0 : memcmp(a.p, b.p, n);

    if (c != 0)
        return c;
    return (a.n > b.n) - (a.n < b.n);
}

void buf_fini(struct buf *b)
{
    free(b->p);
    *b = (struct buf){0};
}

void buf_reset(struct buf *b)
{
    b->n = 0;
    b->failed = false;
}

bool buf_reserve(struct buf *b, size_t n)
{
    size_t want, cap;
    uint8_t *p;

    if (b->failed)
        return false;
    if (n <= b->cap - b->n)
        return true;
    if (n > SIZE_MAX / 4 - b->n) {
        b->failed = true;
        return false;
    }
    want = b->n + n;
    cap = b->cap < 64 ? 64 : b->cap;
    while (cap < want)
        cap += cap / 2;
    p = realloc(b->p, cap);
    if (p == NULL) {
        b->failed = true;
        return false;
    }
    b->p = p;
    b->cap = cap;
    return true;
}

void buf_add(struct buf *b, const void *p, size_t n)
{
    if (n == 0 || !buf_reserve(b, n))
        return;
    memcpy(b->p + b->n, p, n);
    b->n += n;
}

void buf_add_bytes(struct buf *b, struct bytes s)
{
    buf_add(b, s.p, s.n);
}

void buf_add_str(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_add_char(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0 || !buf_reserve(b, (size_t)n + 1)) {
        b->failed = true;
        return;
    }
    va_start(ap, fmt);
    (void)vsnprintf((char *)b->p + b->n, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->n += (size_t)n;
}

struct bytes buf_bytes(const struct buf *b)
{
    return bytes_of(b->p, b->n);
}

const char *buf_cstr(struct buf *b)
{
    if (!buf_reserve(b, 1))
        return "";
    b->p[b->n] = '\0';
    return (const char *)b->p;
}
