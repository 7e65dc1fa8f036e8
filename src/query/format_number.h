/* format_number.h -- numbers as Prometheus prints them. */
#ifndef OTLITE_QUERY_FORMAT_NUMBER_H
#define OTLITE_QUERY_FORMAT_NUMBER_H

#include "otlite/bytes.h"

/* The shortest digits that read back equal, never an exponent: as values of label are made and
 * samples are shown (Go's 'f', -1). "NaN", "+Inf", "-Inf". */
void format_float(struct buf *out, double d);
/* Likewise with an exponent below 1e-4 and from 1e21 on: Go's %v. */
void format_general(struct buf *out, double d);
/* Seconds with at most three digits behind the point: 1709251200.003, 5. */
void format_ms(struct buf *out, int64_t ms);

#endif
