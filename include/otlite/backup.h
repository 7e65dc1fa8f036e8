/* backup.h -- a whole copy of a database that may be in use (SQLite's online backup). */
#ifndef OTLITE_BACKUP_H
#define OTLITE_BACKUP_H

#include <stdint.h>

#include "otlite/err.h"

/* Copy src (read-only) to dest, which must not exist; written as dest.partial, integrity-checked,
 * compared (user_version, number of tables and their row counts in one snapshot), fsynced, then
 * renamed. progress (may be NULL) is called with pages left and in all. On an error no dest is
 * left behind. */
enum otl_err backup_database(const char *src, const char *dest,
                             void (*progress)(void *arg, int64_t left, int64_t total), void *arg,
                             struct otl_error *err) OTL_MUSTCHECK;

#endif
