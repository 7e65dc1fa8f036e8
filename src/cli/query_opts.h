/* query_opts.h -- the options query.* and prometheus.* as the query engine takes them. */
#ifndef OTLITE_CLI_QUERY_OPTS_H
#define OTLITE_CLI_QUERY_OPTS_H

#include "otlite/config.h"
#include "otlite/query.h"

/* o borrows from c. */
void cli_query_opts(const struct config *c, struct query_opts *o);

#endif
