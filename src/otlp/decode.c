/* decode.c -- from a body to a batch, whichever the encoding; and the mark that a decoder leaves on
 * a data point it could read only in part. */
#include "otlite/decode.h"

#include "message.h"

const struct decode_limits decode_limits_default = {
    .max_value_depth = 64,
    .max_name_bytes = 1024,
    .max_attributes = 256,
    .max_attribute_bytes = 64 * 1024,
    .max_points = 500000,
    .max_buckets = 4096,
    .future_slack_ns = INT64_C(24) * 3600 * 1000000000,
    .strict_counts = false,
    .accept_snake_case = false,
};

enum otl_err decode_body(enum encoding encoding, struct bytes body, const struct decode_limits *lim,
                         int64_t now_ns, struct arena *a, struct batch *out, struct otl_error *err)
{
    struct decode_notes notes = {0};
    otlp_request *m = NULL;
    enum otl_err rc;

    if (encoding == ENCODING_PROTOBUF)
        rc = decode_protobuf(body, lim, a, &m, err);
    else
        rc = decode_json(body, lim, a, &m, &notes, err);
    if (rc != OTL_OK)
        return rc;
    return batch_build(m, &notes, lim, now_ns, a, out, err);
}

/* Field number 0 is refused by wirecheck and by protobuf-c, so a tag of 0 can only be ours. */
enum { MARK_TAG = 0 };

bool message_mark_defect(ProtobufCMessage *point, enum reject_reason reason, struct arena *a)
{
    size_t n = point->n_unknown_fields;
    ProtobufCMessageUnknownField *fields;
    enum reject_reason earlier;

    if (message_defect(point, &earlier))
        return true; /* the first defect is the one to report */
    fields = arena_zalloc(a, n + 1, sizeof(*fields));
    if (fields == NULL)
        return false;
    if (n > 0)
        memcpy(fields, point->unknown_fields, n * sizeof(*fields));
    fields[n].tag = MARK_TAG;
    fields[n].wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED;
    fields[n].data = arena_alloc(a, 1);
    if (fields[n].data == NULL)
        return false;
    fields[n].data[0] = (uint8_t)reason;
    fields[n].len = 1;
    point->unknown_fields = fields;
    point->n_unknown_fields++;
    return true;
}

bool message_defect(const ProtobufCMessage *point, enum reject_reason *out)
{
    for (unsigned i = 0; i < point->n_unknown_fields; i++) {
        const ProtobufCMessageUnknownField *f = &point->unknown_fields[i];

        if (f->tag == MARK_TAG && f->len == 1) {
            *out = (enum reject_reason)f->data[0];
            return true;
        }
    }
    return false;
}
