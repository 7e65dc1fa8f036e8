/* open_read.h -- a data directory opened for reading through read.h. */
#ifndef OTLITE_CLI_OPEN_READ_H
#define OTLITE_CLI_OPEN_READ_H

#include "otlite/config.h"
#include "otlite/db.h"
#include "otlite/read.h"

/* Zero-initialised is closed. */
struct cli_read {
    struct db db; /* with state.db attached as "state" where have_state */
    bool have_state;
    struct read_shared *shared;
    struct read_session *session;
    struct read *read; /* one snapshot */
};

/* One snapshot of config->data, also beside a running daemon. Errors as cli_open_reader's. */
enum otl_err cli_read_open(const struct config *config, struct cli_read *r,
                           struct otl_error *err) OTL_MUSTCHECK;
void cli_read_close(struct cli_read *r);

/* A point in time as people write it: RFC 3339 ("2026-12-01T08:00:00Z", the time of day may be left
 * out), seconds since 1970 with or without a fraction, "now", or a duration that lies back ("90m").
 * False: none of these. */
bool time_parse(const char *s, int64_t now_ns, int64_t *out_ns);

#endif
