/* log.h -- one line an event on stderr, logfmt or JSON, with levels and rate limits.
 *
 * A line is ts, level, module, msg and typed pairs:
 *     LOG(LOG_INFO, "writer", "checkpoint", LOG_I("pages", n), LOG_S("mode", "passive"));
 * Text from a client is escaped by the writer of the line, so callers pass it raw (never tokens). */
#ifndef OTLITE_LOG_H
#define OTLITE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "otlite/bytes.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_LOGFMT, LOG_JSON };

struct log_kv {
    const char *key; /* NULL ends the list */
    enum { LOG_KV_STR, LOG_KV_BYTES, LOG_KV_INT, LOG_KV_DOUBLE } kind;
    union {
        const char *s;
        struct bytes b;
        int64_t i;
        double d;
    } u;
};

#define LOG_S(k, v) ((struct log_kv){.key = (k), .kind = LOG_KV_STR, .u.s = (v)})
#define LOG_B(k, v) ((struct log_kv){.key = (k), .kind = LOG_KV_BYTES, .u.b = (v)})
#define LOG_I(k, v) ((struct log_kv){.key = (k), .kind = LOG_KV_INT, .u.i = (int64_t)(v)})
#define LOG_D(k, v) ((struct log_kv){.key = (k), .kind = LOG_KV_DOUBLE, .u.d = (v)})

/* Usable before log_init (info, logfmt). Both may be called again at any time from any thread. */
void log_init(enum log_level level, enum log_format format);
/* "debug", "info", "warn", "error" / "logfmt", "json"; false when unknown. */
bool log_level_parse(const char *s, enum log_level *out);
bool log_format_parse(const char *s, enum log_format *out);

/* Use LOG. kv ends with a NULL key; may be NULL. */
void log_emit(enum log_level level, const char *module, const char *msg, const struct log_kv *kv);

#define LOG(level, module, msg, ...) \
    log_emit((level), (module), (msg), (const struct log_kv[]){__VA_ARGS__, {.key = NULL}})
/* Without pairs. */
#define LOG0(level, module, msg) log_emit((level), (module), (msg), NULL)

/* A gate that lets one line through each period and counts what it held back. Zero-initialised is
 * ready. Thread-safe. */
struct log_gate {
    _Atomic int64_t next_ns;
    _Atomic uint64_t held;
};

/* True when a line may be written now; *held then says how many were suppressed since the last. */
bool log_gate_open(struct log_gate *g, int64_t period_ns, uint64_t *held);

#endif
