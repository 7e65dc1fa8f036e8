/* known.h -- the short way from a protobuf body to a batch, for senders that were here before.
 *
 * An SDK writes the same bytes for a resource, a scope, a metric's head and a point's attributes in
 * every export. A cache from those raw bytes, each under the one above it and compared in full,
 * gives what decoding them gave the first time, and the series' number in the catalogue. What is
 * left to read of a known point is its times and values. Anything the cache has not seen, or the
 * walker does not take, is decode_body's: the two give equal batches for every body
 * (test/fuzz/fuzz_known.c).
 *
 * A cache belongs to one event loop; nothing here locks. */
#ifndef OTLITE_KNOWN_H
#define OTLITE_KNOWN_H

#include <stdbool.h>
#include <stdint.h>

#include "otlite/arena.h"
#include "otlite/batch.h"
#include "otlite/bytes.h"
#include "otlite/decode.h"

struct known;
/* The entries that a batch borrows from; see known_release. */
struct known_hold;

/* Holds at most about max_bytes, old entries making room for new ones. NULL: no memory. */
struct known *known_new(size_t max_bytes);
/* No hold may be out. Takes NULL. */
void known_free(struct known *k);

/* Decode body when all its series are known. True: *out is what decode_body would have given, with
 * number set in each series; it borrows body, a and *hold. False: nothing is in *out and *hold; a
 * may have been used, reset it. project_id is part of a resource's identity. */
bool known_decode(struct known *k, int64_t project_id, struct bytes body,
                  const struct decode_limits *lim, int64_t now_ns, struct arena *a,
                  struct batch *out, struct known_hold **hold);
/* The batch is done with. Takes NULL. */
void known_release(struct known *k, struct known_hold *hold);

/* After the store has taken b, which decode_body made of body: remember what is worth it. Only
 * series whose number the store has filled in are learned, so that one that is seen once costs
 * nothing. Never fails; without memory nothing is learned. */
void known_learn(struct known *k, int64_t project_id, struct bytes body,
                 const struct decode_limits *lim, const struct batch *b);

#endif
