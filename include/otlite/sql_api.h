/* sql_api.h -- POST /api/v1/sql: one statement of a client, read-only and within limits.
 * docs/api.md is its contract. */
#ifndef OTLITE_SQL_API_H
#define OTLITE_SQL_API_H

#include <stdint.h>

#include "otlite/auth.h"
#include "otlite/http.h"
#include "otlite/reader.h"

struct sql_api {
    const struct auth *auth;
    struct reader_pool *readers;
    int64_t timeout_ms; /* of a query */
    uint64_t max_rows;  /* of an answer */
    size_t max_bytes;   /* likewise */
    size_t max_memory;  /* of a query */
};

/* http_route functions; arg is a struct sql_api. */
bool sql_api_admit(struct http_exchange *x, void *arg);
void sql_api_handle(struct http_exchange *x, void *arg);

#endif
