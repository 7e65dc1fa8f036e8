/* admin.h -- the daemon about itself: /healthz, /readyz, /metrics. */
#ifndef OTLITE_ADMIN_H
#define OTLITE_ADMIN_H

#include <stdatomic.h>
#include <stdint.h>

#include "otlite/auth.h"
#include "otlite/http.h"
#include "otlite/reader.h"
#include "otlite/writer.h"

struct admin {
    const struct auth *auth;
    struct writer *writer;
    struct reader_pool *readers;
    _Atomic int64_t proved_ns; /* when a probe last succeeded, monotonic; admin.c's own */
};

enum { ADMIN_PROOF_MS = 50 };

/* http_route handlers; arg is a struct admin. */

/* 200 as long as the loop turns. No token needed. */
void admin_healthz(struct http_exchange *x, void *arg);
/* 200 when a transaction can commit now (the writer proves it; one proof serves the askers of the next
 * ADMIN_PROOF_MS, so that asking costs senders nothing), else 503. No token needed. */
void admin_readyz(struct http_exchange *x, void *arg);
/* The self-metrics in the Prometheus text format. Needs the read scope where tokens are on. */
void admin_metrics(struct http_exchange *x, void *arg);

#endif
