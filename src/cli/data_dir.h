/* data_dir.h -- the data directory of a subcommand that writes, and the settings of what is in it.
 */
#ifndef OTLITE_CLI_DATA_DIR_H
#define OTLITE_CLI_DATA_DIR_H

#include "otlite/config.h"
#include "otlite/decode.h"
#include "otlite/err.h"
#include "otlite/store.h"

/* The directory with all its parents, mode 0750. */
enum otl_err cli_make_data_dir(const char *dir, struct otl_error *err) OTL_MUSTCHECK;
/* DIR/otlite.lock. Two processes that write one directory would each believe to be the only writer;
 * OTL_ESYSTEM names the other one. The kernel drops the lock with the process, however it ends, and
 * close(*out_fd) does. */
enum otl_err cli_lock_data_dir(const char *dir, int *out_fd, struct otl_error *err) OTL_MUSTCHECK;

/* The options sqlite.* and otlp.*; data_dir is borrowed. */
void cli_store_opts(const struct config *c, struct store_opts *o);
void cli_decode_limits(const struct config *c, struct decode_limits *l);

#endif
