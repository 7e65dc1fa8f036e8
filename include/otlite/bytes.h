/* bytes.h -- borrowed byte ranges, a growable buffer, and the text codings used everywhere. */
#ifndef OTLITE_BYTES_H
#define OTLITE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "otlite/err.h"

/* A borrowed range. p may be NULL only when n is 0. Not terminated. */
struct bytes {
    const uint8_t *p;
    size_t n;
};

static inline struct bytes bytes_of(const void *p, size_t n)
{
    return (struct bytes){p, n};
}

static inline struct bytes bytes_str(const char *s)
{
    return (struct bytes){(const uint8_t *)s, strlen(s)};
}

static inline bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

/* memcmp order, shorter first on a tie. */
int bytes_compare(struct bytes a, struct bytes b);

/* 64-bit hash for tables in memory; never stored, never trusted: equality is decided on bytes. */
uint64_t bytes_hash(struct bytes b, uint64_t seed);

/* Growable heap buffer. After a failed append `failed` stays set and later appends do nothing, so a
 * builder checks once at the end. Zero-initialised is empty. */
struct buf {
    uint8_t *p;
    size_t n;
    size_t cap;
    bool failed;
};

void buf_fini(struct buf *b);
/* Empty it, keep the memory. */
void buf_reset(struct buf *b);
/* Make room for n more bytes; false (and failed set) when there is no memory. */
bool buf_reserve(struct buf *b, size_t n);
void buf_add(struct buf *b, const void *p, size_t n);
void buf_add_bytes(struct buf *b, struct bytes s);
void buf_add_str(struct buf *b, const char *s);
void buf_add_char(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...) OTL_PRINTF(2, 3);
struct bytes buf_bytes(const struct buf *b);
/* The content as a C string, NUL appended (not counted in n); "" when failed or empty. */
const char *buf_cstr(struct buf *b);

/* JSON string literal with quotes; invalid UTF-8 becomes U+FFFD, control characters are escaped. */
void buf_add_json_string(struct buf *b, struct bytes s);
/* A field of CSV, quoted as RFC 4180 says, by the choice of the sqlite3 shell: around anything but
 * printable ASCII without blanks, commas and quotes of either kind. Empty text is quoted too, which
 * tells it from an absent value. */
void buf_add_csv_field(struct buf *b, struct bytes s);
/* Shortest decimal form that reads back to the same double, always with a '.' or exponent so that
 * it is never mistaken for an integer. Must be finite. */
void buf_add_double(struct buf *b, double d);
void buf_add_hex(struct buf *b, struct bytes s);
/* Standard alphabet, padded. */
void buf_add_base64(struct buf *b, struct bytes s);

/* Decode exactly n/2 bytes of hex (either case). False on odd length or a foreign character. */
bool hex_decode(struct bytes in, uint8_t *out);
/* Decode base64: standard or URL-safe alphabet, padded or not. out has room for in.n / 4 * 3 + 3
 * bytes. False on anything else. */
bool base64_decode(struct bytes in, uint8_t *out, size_t *out_n);

/* True when s is well-formed UTF-8 (no surrogates, no overlong forms, <= U+10FFFF). */
bool utf8_valid(struct bytes s);
/* Append s to b with every ill-formed sequence replaced by one U+FFFD per maximal subpart. */
void utf8_repair(struct buf *b, struct bytes s);

#endif
