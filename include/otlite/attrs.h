/* attrs.h -- attribute sets in canonical bytes: what identity is compared by, what is stored, and
 * what text is made from.
 *
 * Canonical form (M-15): a kvlist body, that is
 *     varint number of pairs, then per pair: varint key length, key, value
 * with pairs sorted by key bytes and keys unique. A value is one kind byte and
 *     'e'                      empty
 *     's' varint length, bytes string (valid UTF-8)
 *     'b' 0|1                  bool
 *     'i' 8 bytes big-endian   int64, two's complement
 *     'd' 8 bytes big-endian   IEEE 754; every NaN is 0x7ff8000000000000
 *     'y' varint length, bytes bytes
 *     'a' varint count, values array, in order
 *     'm' kvlist body          kvlist, sorted like the top
 * The empty set is the single byte 0. Varints are LEB128 as in protobuf. */
#ifndef OTLITE_ATTRS_H
#define OTLITE_ATTRS_H

#include <stdbool.h>
#include <stdint.h>

#include "otlite/bytes.h"

enum attr_kind {
    ATTR_EMPTY = 'e',
    ATTR_STRING = 's',
    ATTR_BOOL = 'b',
    ATTR_INT = 'i',
    ATTR_DOUBLE = 'd',
    ATTR_BYTES = 'y',
    ATTR_ARRAY = 'a',
    ATTR_KVLIST = 'm'
};

struct attr_value {
    enum attr_kind kind;
    bool b;
    int64_t i;
    double d;
    struct bytes s; /* string, bytes: the content; array, kvlist: the canonical body */
};

struct attr_iter {
    struct bytes rest;
    uint64_t left; /* pairs still to come */
};

/* Walk a canonical kvlist body. attrs_next gives false at the end and on damaged bytes (then
 * it->left > 0), so reading stored bytes that were damaged is safe. */
void attrs_begin(struct attr_iter *it, struct bytes canonical);
bool attrs_next(struct attr_iter *it, struct bytes *key, struct attr_value *value);
/* Walk an array body the same way (key is not used). */
void attrs_array_begin(struct attr_iter *it, struct bytes body);
bool attrs_array_next(struct attr_iter *it, struct attr_value *value);

/* Find one key; false when absent. */
bool attrs_get(struct bytes canonical, struct bytes key, struct attr_value *out);

/* Values nested deeper than this are never built and never read: recursion ends here. It lies above
 * the largest otlp.max_depth (200), so what was accepted can always be read back. */
enum { ATTRS_MAX_DEPTH = 256 };

/* The whole of canonical is one well-formed kvlist body, nested values included, at most
 * ATTRS_MAX_DEPTH levels deep. */
bool attrs_valid(struct bytes canonical);

/* People's form, a JSON object: int as integer, double always with '.' or exponent, NaN and
 * infinities and bytes (base64) as strings, empty as null, arrays and kvlists as JSON (M-17). */
void attrs_to_json(struct bytes canonical, struct buf *out);

/* One value as text, for comparisons and labels: a string, bytes in base64 and the names of NaN and the
 * infinities without quotes, the rest as attrs_to_json writes it. */
void attr_value_to_text(const struct attr_value *v, struct buf *out);

/* OTLP/JSON: an array of {"key":...,"value":{"stringValue":...}}; exact for every kind. */
void attrs_to_otlp_json(struct bytes canonical, struct buf *out);

#endif
