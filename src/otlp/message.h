/* message.h -- the decoded message tree between the two decoders and batch_build. The only place,
 * with the .c files of this folder, where protobuf-c's types appear.
 *
 * Protobuf bodies become the tree by protobuf-c, JSON bodies by a ProtoJSON reader that is driven by
 * the same generated descriptors. From the tree on there is one path, so both encodings store equal
 * rows by construction. */
#ifndef OTLITE_OTLP_MESSAGE_H
#define OTLITE_OTLP_MESSAGE_H

#include "otlite/arena.h"
#include "otlite/batch.h"
#include "otlite/decode.h"
#include "otlp.pb-c.h"

typedef Otlp__ExportMetricsServiceRequest otlp_request;

/* Warnings that a decoder notices before there is a batch. */
struct decode_notes {
    uint64_t warnings[WARN_COUNT_OF_WARNINGS];
    struct bytes example[WARN_COUNT_OF_WARNINGS];
};

/* Walk the wire bytes by descriptor before unpacking: field number 0, wire types, lengths, depth of
 * AnyValue nesting (lim->max_value_depth) are checked without recursion deeper than the limit, so
 * that protobuf-c's unbounded recursion never meets a deep body (B-5, B-6, H-52). */
enum otl_err wirecheck(struct bytes body, const struct decode_limits *lim, struct otl_error *err)
    OTL_MUSTCHECK;

/* The same; *least is what unpacking takes of an arena at least, so that a body made of millions of
 * empty messages is refused before they are. The sums cannot wrap: a field of two bytes or more adds
 * a few hundred at most. */
enum otl_err wirecheck_size(struct bytes body, const struct decode_limits *lim, size_t *least,
                            struct otl_error *err) OTL_MUSTCHECK;

/* wirecheck, then protobuf-c with a as its allocator. The tree lives in a; strings too. */
enum otl_err decode_protobuf(struct bytes body, const struct decode_limits *lim, struct arena *a,
                             otlp_request **out, struct otl_error *err) OTL_MUSTCHECK;

/* ProtoJSON with OTLP's deviations (otlp.md chapter 2) into the same tree. */
enum otl_err decode_json(struct bytes body, const struct decode_limits *lim, struct arena *a,
                         otlp_request **out, struct decode_notes *notes,
                         struct otl_error *err) OTL_MUSTCHECK;

/* A JSON value that its point cannot hold (a number out of range, say) costs only that point: the
 * decoder marks the data point's message, batch_build rejects it with the reason. The mark is an
 * unknown field with tag 0, which no wire body can carry (protobuf-c refuses field number 0).
 * mark: false when the arena has no room. */
bool message_mark_defect(ProtobufCMessage *point, enum reject_reason reason, struct arena *a);
bool message_defect(const ProtobufCMessage *point, enum reject_reason *out);

/* Apply the rules of chapter 3: the tree becomes flat arrays, bad points are counted and left out.
 * notes may be NULL. The batch borrows the tree's bytes. Only memory can fail it. */
enum otl_err batch_build(const otlp_request *m, const struct decode_notes *notes,
                         const struct decode_limits *lim, int64_t now_ns, struct arena *a,
                         struct batch *out, struct otl_error *err) OTL_MUSTCHECK;

/* Canonical bytes (attrs.h) of an attribute list, in a: sorted, last duplicate wins, empty keys
 * dropped, text repaired; warnings are counted in b. *out_count is the number of pairs kept. False
 * when the arena has no room. */
bool attrs_canonical(Otlp__KeyValue *const *kv, size_t n, struct batch *b, struct bytes *out,
                     size_t *out_count);

#endif
