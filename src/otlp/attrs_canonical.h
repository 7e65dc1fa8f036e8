/* attrs_canonical.h -- building canonical bytes from the message tree; what batch.c and points.c
 * need beyond attrs_canonical() of message.h. */
#ifndef OTLITE_OTLP_ATTRS_CANONICAL_H
#define OTLITE_OTLP_ATTRS_CANONICAL_H

#include "message.h"

enum canonical_result {
    CANONICAL_OK,
    CANONICAL_NO_MEMORY, /* see the arena's flags */
    CANONICAL_REFUSED    /* over one of the limits, or nested deeper than ATTRS_MAX_DEPTH */
};

/* As attrs_canonical, with the caps of one point (M-18): at most max_pairs pairs kept and max_bytes
 * canonical bytes. */
enum canonical_result attrs_canonical_capped(Otlp__KeyValue *const *kv, size_t n, size_t max_pairs,
                                             size_t max_bytes, struct batch *b, struct bytes *out);

/* Text of the tree as valid UTF-8 (M-9): borrowed as it is, or repaired in b's arena with
 * WARN_UTF8 counted for example. False when there is no room. */
bool batch_text(struct batch *b, struct bytes in, struct bytes example, struct bytes *out);

#endif
