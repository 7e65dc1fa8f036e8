/* prom_api.h -- the Prometheus HTTP API: parameters in, a query on a reader thread, JSON out.
 * docs/api.md is its contract; what the endpoints answer is query.h's. */
#ifndef OTLITE_PROM_API_H
#define OTLITE_PROM_API_H

#include "otlite/auth.h"
#include "otlite/http.h"
#include "otlite/query.h"
#include "otlite/reader.h"

struct prom_api {
    const struct auth *auth;
    struct reader_pool *readers;
    struct query_engine *engine;
};

/* Paths, without prefix, and their methods; path NULL ends it. */
struct prom_api_path {
    const char *path, *allow;
    unsigned methods;
};
extern const struct prom_api_path prom_api_paths[];

/* http_route functions; arg is a struct prom_api. */
bool prom_api_admit(struct http_exchange *x, void *arg);
void prom_api_handle(struct http_exchange *x, void *arg);

#endif
