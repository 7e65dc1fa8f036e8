/* export_walk.h -- which series an export has, in which order. */
#ifndef OTLITE_STORE_EXPORT_WALK_H
#define OTLITE_STORE_EXPORT_WALK_H

#include "otlite/export.h"
#include "series_points.h"

/* The series of o, ordered by resource, scope, metric, id. *out is malloced; what the infos point
 * to belongs to r. */
enum otl_err export_series(struct read *r, const struct export_opts *o, struct series_info **out,
                           size_t *n, struct otl_error *err) OTL_MUSTCHECK;
/* The points of a series in o's range into p, which is emptied first and becomes of the series'
 * kind. */
enum otl_err export_points(struct read *r, const struct export_opts *o, const struct series_info *s,
                           struct series_points *p, struct otl_error *err) OTL_MUSTCHECK;

/* OTL_EFULL or OTL_EIO from errno, after a write to the output failed. */
enum otl_err export_write_failed(struct otl_error *err);

#endif
