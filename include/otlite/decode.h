/* decode.h -- from the bytes of a request body to a batch, and the limits on the way. Pure: no
 * threads, no logging, no globals. Fuzzable. */
#ifndef OTLITE_DECODE_H
#define OTLITE_DECODE_H

#include <stdbool.h>
#include <stdint.h>

#include "otlite/arena.h"
#include "otlite/batch.h"
#include "otlite/bytes.h"
#include "otlite/err.h"

enum encoding { ENCODING_PROTOBUF, ENCODING_JSON };
enum coding { CODING_IDENTITY, CODING_GZIP, CODING_DEFLATE };

struct decode_limits {
    uint32_t max_value_depth;     /* levels of arrays and maps inside a value (H-52), 64 */
    uint32_t max_name_bytes;      /* metric name (M-20), 1024 */
    uint32_t max_attributes;      /* of one point (M-18), 256 */
    uint32_t max_attribute_bytes; /* canonical bytes of the attributes of one point, resource or
                                     scope, and of a scope's or metric's other texts, 64 KiB */
    uint32_t max_points;          /* of one request; exemplars count 1, envelopes 10; 0: no limit */
    uint32_t max_buckets;         /* of one point (M-57, M-67), 4096 */
    int64_t future_slack_ns;      /* 24 h (M-32); <= 0: no check */
    bool strict_counts;           /* bucket sum mismatch rejects (M-52, M-61) instead of warning */
    bool accept_snake_case;       /* JSON: read proto names too (J-1) */
};

/* The values named above. */
extern const struct decode_limits decode_limits_default;

/* Inflate one whole body into out (which is reset first). CODING_GZIP: one or more members, CRC and
 * length checked, nothing behind the last one. CODING_DEFLATE: one zlib stream. At most max_out
 * bytes are produced. OTL_ETOOBIG over the limit, OTL_EBADDATA for damaged, truncated, trailing or
 * empty input, OTL_ENOMEM. (H-23, H-26, H-27) */
enum otl_err inflate_body(enum coding coding, struct bytes in, size_t max_out, struct buf *out,
                          struct otl_error *err) OTL_MUSTCHECK;

/* Decode one body into *out. Takes its memory from a, whose budget bounds the decoded size (H-51);
 * the batch borrows a and may borrow body too: both must outlive it. now_ns: wall clock for M-32.
 * OTL_EBADDATA (with err->field where known), OTL_ETOOBIG when over a's budget, OTL_ENOMEM. */
enum otl_err decode_body(enum encoding encoding, struct bytes body, const struct decode_limits *lim,
                         int64_t now_ns, struct arena *a, struct batch *out,
                         struct otl_error *err) OTL_MUSTCHECK;

#endif
