/* convert.h -- CSV and OpenMetrics text to OTLP/JSON requests, line by line: the way back in for
 * what export writes. Pure. */
#ifndef OTLITE_CONVERT_H
#define OTLITE_CONVERT_H

#include <stdint.h>

#include "otlite/bytes.h"
#include "otlite/err.h"

enum text_format {
    TEXT_OTLP_JSON, /* nothing to convert */
    TEXT_CSV,
    TEXT_OPENMETRICS
};

/* By the first line of a file: a '{' begins JSON, a '#' or a sample OpenMetrics, a header CSV. */
enum text_format text_format_of(struct bytes line);

struct converter;

/* CSV: a header names the columns, in any order: `metric` and `value` must be there, and
 * `time_unix_nano` or `time` (seconds); export_csv's others may be. What a cell's JSON has as a
 * string stays a string: bytes and NaN in attributes are not told from it.
 *
 * OpenMetrics: times are seconds; samples without one get now_ns. `job` is service.name (with
 * service.namespace before a '/'), `instance` service.instance.id, otel_scope_name and
 * otel_scope_version the scope's, all other labels attributes of the point. Names stay as they are,
 * so that they are exported as they came. */
enum otl_err converter_new(enum text_format format, int64_t now_ns, struct converter **out,
                           struct otl_error *err) OTL_MUSTCHECK;
void converter_free(struct converter *c);

/* The next line, with or without its end. *request: the text of an ExportMetricsServiceRequest when
 * one has become whole, borrowed until the next call; else empty. OTL_EBADDATA: what is wrong in
 * the line. */
enum otl_err converter_line(struct converter *c, struct bytes line, struct bytes *request,
                            struct otl_error *err) OTL_MUSTCHECK;
/* There are no more lines. */
enum otl_err converter_end(struct converter *c, struct bytes *request,
                           struct otl_error *err) OTL_MUSTCHECK;

#endif
