/* maintain_opts.h -- the options retention.* and rollups as the maintainer takes them. */
#ifndef OTLITE_CLI_MAINTAIN_OPTS_H
#define OTLITE_CLI_MAINTAIN_OPTS_H

#include "otlite/config.h"
#include "otlite/err.h"
#include "otlite/maintain.h"

/* The least budget that leaves room for the log, a seal and a merge. */
#define RETENTION_MIN_BYTES (INT64_C(16) << 20)

/* OTL_ECONFIG: a rule is none; the message has it, and the form it should have. o->store is not
 * filled. Owner of its rules: cli_maintain_opts_fini. */
enum otl_err cli_maintain_opts(const struct config *c, struct maintain_opts *o,
                               struct otl_error *err) OTL_MUSTCHECK;
void cli_maintain_opts_fini(struct maintain_opts *o);

#endif
