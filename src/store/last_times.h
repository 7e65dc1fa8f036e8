/* last_times.h -- the latest time of each series, saved when points of theirs leave the head.
 *
 * A start reads every row of the head anyway; what was sealed is not read, so the latest times go
 * to table series_last_time in the transaction that marks a half sealed. */
#ifndef OTLITE_STORE_LAST_TIMES_H
#define OTLITE_STORE_LAST_TIMES_H

#include "catalogue.h"
#include "otlite/db.h"

/* Note that a series has a point of that time. */
void last_times_raise(struct catalogue *cat, int64_t series_id, int64_t time);
enum otl_err last_times_save(struct db *db, const struct catalogue *cat, enum point_kind kind,
                             struct otl_error *err) OTL_MUSTCHECK;
/* Of all kinds. Where they are damaged, each series of the kind gets the latest time of all sealed
 * points of the kind, which is not exact, but nothing is taken for new that is not. */
enum otl_err last_times_load(struct db *db, struct catalogue *cat,
                             struct otl_error *err) OTL_MUSTCHECK;

#endif
