/* reply.h -- the bodies of answers, in the request's encoding (H-60 to H-69). Pure. */
#ifndef OTLITE_REPLY_H
#define OTLITE_REPLY_H

#include "otlite/batch.h"
#include "otlite/bytes.h"
#include "otlite/decode.h"
#include "otlite/err.h"

/* ExportMetricsServiceResponse for a stored batch: zero bytes / "{}" on full success without
 * warnings; else partial_success with the rejected count and a message grouped by reason with one
 * example each, at most 1 KiB of UTF-8 without control characters. Appends to out. */
void reply_success(enum encoding encoding, const struct batch *batch, struct buf *out);

/* google.rpc.Status for err: gRPC code, message, and a BadRequest detail when err->field is set. */
void reply_status(enum encoding encoding, const struct otl_error *err, struct buf *out);

/* "application/x-protobuf" or "application/json". */
const char *reply_content_type(enum encoding encoding);

#endif
