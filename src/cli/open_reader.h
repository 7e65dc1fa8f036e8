/* open_reader.h -- how the subcommands that only look open a data directory. */
#ifndef OTLITE_CLI_OPEN_READER_H
#define OTLITE_CLI_OPEN_READER_H

#include <stdbool.h>

#include "otlite/config.h"
#include "otlite/db.h"
#include "otlite/err.h"

/* A read-only connection to config->data's telemetry.db. With state.db attached, read-only, as
 * schema "state" where it exists; *out_state tells. OTL_ENOTFOUND, with what to do, when there is
 * no such directory or no database in it. */
enum otl_err cli_open_reader(const struct config *config, struct db *db, bool *out_state,
                             struct otl_error *err) OTL_MUSTCHECK;

/* That error alone: is there a telemetry.db, of whatever version? */
enum otl_err cli_check_data(const struct config *config, struct otl_error *err) OTL_MUSTCHECK;

/* After a database of config->data could not be opened: when the cause is that this user may not
 * write the directory, put in front of err's message what to do. Returns err->code. */
enum otl_err cli_explain_open(const struct config *config, struct otl_error *err);

/* config->data + "/" + name into out; false when it does not fit. */
bool cli_data_path(const struct config *config, const char *name, char out[4096]);

#endif
