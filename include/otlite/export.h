/* export.h -- what is stored, written out again. */
#ifndef OTLITE_EXPORT_H
#define OTLITE_EXPORT_H

#include <stdint.h>
#include <stdio.h>

#include "otlite/db.h"
#include "otlite/err.h"
#include "otlite/read.h"

struct export_opts {
    int64_t project_id;             /* 0: all projects */
    const struct matcher *matchers; /* all of them hold; none: every series */
    size_t n_matchers;
    int64_t from, to;    /* points with from <= time < to; INT64_MIN and INT64_MAX: all */
    unsigned max_points; /* OTLP JSON: of a line; at least 1 is taken */
    /* After each series; may be NULL. */
    void (*progress)(void *arg, size_t done, size_t all);
    void *arg;
};

/* Each of these writes one snapshot, that of the read r on the connection db, series by series in
 * the order of resource, scope, metric and series, the points of a series in the order of time.
 * Memory: the points of one series. Chunks that are damaged are left out, reported and counted
 * (part_damage). */

/* OTLP JSON lines: one ExportMetricsServiceRequest a line. Lossless: ingesting it into an empty
 * database and exporting again gives equal content. */
enum otl_err export_otlp_json(struct read *r, struct db *db, const struct export_opts *o, FILE *out,
                              struct otl_error *err) OTL_MUSTCHECK;
/* CSV with a header, one row a number point: the columns of the view points. RFC 4180 quoting. */
enum otl_err export_csv(struct read *r, struct db *db, const struct export_opts *o, FILE *out,
                        struct otl_error *err) OTL_MUSTCHECK;

/* What a format could not hold. */
struct export_losses {
    uint64_t series; /* left out: another type has their name already, or nothing of it is left */
    uint64_t points; /* left out: without a value, or deltas that do not add up to a total */
};
/* OpenMetrics text with times, names as Prometheus makes them; ends with "# EOF". Not lossless: see
 * src/store/export_openmetrics.c. */
enum otl_err export_openmetrics(struct read *r, const struct export_opts *o, FILE *out,
                                struct export_losses *losses, struct otl_error *err) OTL_MUSTCHECK;

#endif
