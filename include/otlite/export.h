/* export.h -- what is stored, written out again. */
#ifndef OTLITE_EXPORT_H
#define OTLITE_EXPORT_H

#include <stdio.h>

#include "otlite/db.h"
#include "otlite/err.h"

/* OTLP JSON lines: one ExportMetricsServiceRequest a line, at most max_points points each, the
 * series of one resource and scope together, points of a series in time order. Lossless: ingesting
 * it into an empty database and exporting again gives equal content. One snapshot. project_id 0:
 * all projects. */
enum otl_err export_otlp_json(struct db *db, int64_t project_id, unsigned max_points, FILE *out,
                              struct otl_error *err) OTL_MUSTCHECK;
/* CSV with a header, one row a number point: the columns of the view points. RFC 4180 quoting. */
enum otl_err export_csv(struct db *db, int64_t project_id, FILE *out, struct otl_error *err)
    OTL_MUSTCHECK;

#endif
