/* ingest.h -- the life of one OTLP request, from its body to its answer. */
#ifndef OTLITE_INGEST_H
#define OTLITE_INGEST_H

#include <stddef.h>

#include "otlite/auth.h"
#include "otlite/decode.h"
#include "otlite/http.h"
#include "otlite/writer.h"

struct ingest;

struct ingest_opts {
    const struct auth *auth; /* borrowed */
    struct writer *writer;   /* borrowed */
    struct decode_limits limits;
    size_t max_body_bytes;     /* as sent and after decompression (H-50) */
    size_t max_inflight_bytes; /* of all requests being handled; 503 beyond */
    size_t max_decode_bytes;   /* decoded size of one request, at most */
    size_t known_bytes;        /* caches of known series, of all loops together; 0: none */
};

/* NULL when there is no memory. */
struct ingest *ingest_new(const struct ingest_opts *o);
/* No exchange may be open. Takes NULL. */
void ingest_free(struct ingest *g);

/* The two callbacks of an http_route; arg is the struct ingest. */
bool ingest_admit(struct http_exchange *x, void *arg);
void ingest_handle(struct http_exchange *x, void *arg);

#endif
