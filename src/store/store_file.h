/* store_file.h -- telemetry.db as a file: where it is, how it is opened, whether it is whole. */
#ifndef OTLITE_STORE_STORE_FILE_H
#define OTLITE_STORE_STORE_FILE_H

#include "otlite/store.h"

/* The write connection: created or migrated, a small file looked at for damage. On failure db is
 * closed or still to be closed; its path is set once it is known. */
enum otl_err store_open_writer(struct db *db, const struct store_opts *o,
                               struct otl_error *err) OTL_MUSTCHECK;

#endif
