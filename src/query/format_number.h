/* format_number.h -- numbers as Prometheus prints them. */
#ifndef OTLITE_QUERY_FORMAT_NUMBER_H
#define OTLITE_QUERY_FORMAT_NUMBER_H

#include "otlite/bytes.h"

/* The shortest digits that read back equal, never an exponent: as values of label are made and
 * samples are shown (Go's 'f', -1). "NaN", "+Inf", "-Inf". */
void format_float(struct buf *out, double d);
/* Likewise with an exponent below 1e-4 and from 1e21 on: Go's %v. */
void format_general(struct buf *out, double d);
/* Likewise with an exponent from 1e+06 on: Go's %g, as annotations and expressions have it. */
void format_g(struct buf *out, double d);
enum { FORMAT_G_MAX = 40 };
/* The same as a C string, in text or a constant. */
const char *format_g_text(double d, char text[FORMAT_G_MAX]);
/* Seconds with at most three digits behind the point: 1709251200.003, 5. */
void format_ms(struct buf *out, int64_t ms);

#endif
