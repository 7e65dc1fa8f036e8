/* err.h -- error codes, their meaning for a client, and how an error travels outward.
 *
 * A function logs or returns an error, never both. Fallible functions return enum otl_err and fill
 * a struct otl_error that the caller lent. The place that decides (ingest, writer, a subcommand)
 * turns it into a reply, a log line or an exit status. */
#ifndef OTLITE_ERR_H
#define OTLITE_ERR_H

#include <stddef.h>

#define OTL_MUSTCHECK         __attribute__((warn_unused_result))
#define OTL_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* code, what it means, HTTP status for a client. Only 429 and 503 are retried by OTLP senders, so
 * everything that passes by itself is one of these (otlp.md H-70). */
#define OTL_ERRORS(X)                                              \
    X(OTL_OK, "ok", 200)                                           \
    X(OTL_EBADDATA, "the body cannot be decoded", 400)             \
    X(OTL_EBADREQUEST, "the request is malformed", 400)            \
    X(OTL_EAUTH, "no valid token", 401)                            \
    X(OTL_EFORBIDDEN, "the token lacks the scope", 403)            \
    X(OTL_ENOTFOUND, "no such path", 404)                          \
    X(OTL_EMETHOD, "method not allowed", 405)                      \
    X(OTL_ETOOBIG, "a size limit was passed", 413)                 \
    X(OTL_EMEDIATYPE, "unsupported content type or coding", 415)   \
    X(OTL_EEXPECT, "an expectation that is not met", 417)          \
    X(OTL_EHEAD, "the head of the request is too large", 431)      \
    X(OTL_ETE, "unsupported transfer encoding", 501)               \
    X(OTL_ERATE, "too many requests", 429)                         \
    X(OTL_EBUSY, "the writer queue is full", 503)                  \
    X(OTL_ELATE, "the request waited too long", 503)               \
    X(OTL_ECANCELLED, "the client went away", 503)                 \
    X(OTL_ELOCKED, "the database is locked by another process", 503) \
    X(OTL_EFULL, "the disk is full", 503)                          \
    X(OTL_EIO, "the disk reports an I/O error", 503)               \
    X(OTL_ECORRUPT, "the database is damaged", 503)                \
    X(OTL_ENOMEM, "out of memory", 503)                            \
    X(OTL_ESTOPPING, "the daemon is stopping", 503)                \
    X(OTL_EDB, "the database refused", 503)                        \
    X(OTL_ECONFIG, "the configuration is wrong", 500)              \
    X(OTL_ESYSTEM, "a system call failed", 500)                    \
    X(OTL_EINTERNAL, "a fault in otlite", 500)

enum otl_err {
#define X(code, text, http) code,
    OTL_ERRORS(X)
#undef X
    OTL_ERR_COUNT
};

struct otl_error {
    enum otl_err code;
    char msg[512];   /* complete sentence(s), UTF-8, safe to show a client */
    char field[192]; /* request path of the bad field ("resourceMetrics[0].scopeMetrics[1]"), or "" */
};

/* Fill err (which may be NULL) and return code, so that `return otl_fail(...)` reads well. The
 * message is cut, never overflown; field is cleared. */
enum otl_err otl_fail(struct otl_error *err, enum otl_err code, const char *fmt, ...)
    OTL_PRINTF(3, 4);

/* Put context in front of err's message: "outer: inner". Returns err->code. */
enum otl_err otl_wrap(struct otl_error *err, const char *fmt, ...) OTL_PRINTF(2, 3);

/* The fixed text and the HTTP status of a code. */
const char *otl_err_text(enum otl_err code);
int otl_err_http(enum otl_err code);

#endif
