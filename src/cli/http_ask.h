/* http_ask.h -- one HTTP request of a subcommand to a daemon, waiting for the answer. */
#ifndef OTLITE_CLI_HTTP_ASK_H
#define OTLITE_CLI_HTTP_ASK_H

#include "otlite/bytes.h"
#include "otlite/config.h"
#include "otlite/err.h"

struct http_target {
    char host[256], port[8];
    char prefix[512]; /* of every path; without a slash at its end */
    char shown[800];  /* HOST:PORT/PREFIX, for messages */
};

/* http://HOST[:PORT][/PREFIX]. False when it is none. */
bool http_target_parse(const char *url, struct http_target *t);
/* The daemon that these settings would start, as seen from the same machine. False: it has no fixed
 * port. */
bool http_target_from_config(const struct config *c, struct http_target *t);

/* Ask for path with further header lines (each ended by CR LF; may be empty), by POST with a form
 * when form is not NULL, else by GET. *status and what of the body is within max bytes. OTL_EIO:
 * nothing answers, or not in time, or it does not speak HTTP; the message says what, not where. */
enum otl_err http_ask(const struct http_target *t, const char *path, const char *headers,
                      const char *form, int64_t timeout_ms, size_t max, int *status,
                      struct buf *body, struct otl_error *err) OTL_MUSTCHECK;

#endif
