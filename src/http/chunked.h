/* chunked.h -- the chunked transfer coding (RFC 9112 7.1), taken apart in place as bytes come.
 *
 * Sizes are bare hex digits, lines end in CR LF: no prefix, sign or blank gets through that another
 * reader might see otherwise. Extensions and trailers are checked, bounded and thrown away. Pure.
 */
#ifndef OTLITE_HTTP_CHUNKED_H
#define OTLITE_HTTP_CHUNKED_H

#include <stddef.h>
#include <stdint.h>

enum {
    CHUNKED_MAX_DIGITS = 16, /* of one size, leading zeros included */
    /* Bytes of all extensions and trailers of a body together. */
    CHUNKED_MAX_EXTRA = 8192
};

enum chunked_state {
    CHUNKED_SIZE, /* zero: a new one starts here */
    CHUNKED_BLANK,
    CHUNKED_EXTENSION,
    CHUNKED_SIZE_LF,
    CHUNKED_DATA,
    CHUNKED_DATA_CR,
    CHUNKED_DATA_LF,
    CHUNKED_TRAILER,
    CHUNKED_TRAILER_NAME,
    CHUNKED_TRAILER_VALUE,
    CHUNKED_TRAILER_LF,
    CHUNKED_END_LF,
    CHUNKED_ENDED
};

struct chunked {
    enum chunked_state state;
    unsigned digits; /* of the size that is being read */
    uint64_t left;   /* bytes of the current chunk to come */
    size_t extra;
};

enum chunked_progress { CHUNKED_MORE, CHUNKED_WHOLE, CHUNKED_BROKEN };

/* Read in[0..n), move what is body to out (out <= in; both in one buffer). *used: how many bytes
 * were read, all of them unless the body ended or is broken; *made: how many body bytes were
 * written. */
enum chunked_progress chunked_read(struct chunked *c, uint8_t *out, const uint8_t *in, size_t n,
                                   size_t *used, size_t *made);

#endif
