/* pbwrite.h -- write protobuf by hand, so that tests do not lean on the encoder under test. */
#ifndef OTLITE_TEST_PBWRITE_H
#define OTLITE_TEST_PBWRITE_H

#include "otlite/bytes.h"

void pb_raw_varint(struct buf *b, uint64_t v);
void pb_varint(struct buf *b, uint32_t field, uint64_t v);
void pb_fixed64(struct buf *b, uint32_t field, uint64_t v);
void pb_double(struct buf *b, uint32_t field, double v);
void pb_bytes(struct buf *b, uint32_t field, struct bytes s);
void pb_str(struct buf *b, uint32_t field, const char *s);
/* Put what b holds under one length-delimited field: b becomes field(b). */
void pb_wrap(struct buf *b, uint32_t field);
/* A point's bytes become a whole request: one gauge named name with that point. */
void pb_gauge_request(struct buf *point, const char *name);

#endif
