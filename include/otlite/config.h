/* config.h -- every option, once. The table feeds parsing, range errors, --help,
 * `otlite check-config` and docs/configuration.md (`otlite check-config --markdown`).
 *
 * Precedence: flag (--set key=value and the shorthands) over environment (OTLITE_ + the key in
 * capitals, dots as underscores) over file (key = value lines) over default. */
#ifndef OTLITE_CONFIG_H
#define OTLITE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "otlite/err.h"

/* Kinds: STRING, LIST (comma-separated), BOOL (true|false), INT, SIZE (bytes; K M G suffixes, powers
 * of 1024), DURATION (ms, s, m, h, d suffixes; kept in milliseconds), or ENUM with its words.
 *
 * kind, field, key, default, min, max, help. min and max are text in the kind's own form ("" none;
 * for ENUM, min holds the words separated by |). */
#define OTL_OPTIONS(X)                                                                             \
    X(LIST, listen, "listen", "127.0.0.1:4318", "", "",                                            \
      "Addresses to serve, ADDR:PORT or [ADDR]:PORT, comma-separated; port 0 takes a free one")    \
    X(STRING, data, "data", "./data", "", "", "Directory of telemetry.db and state.db")            \
    X(ENUM, auth, "auth", "token", "token|none", "",                                               \
      "token: clients need a token once one exists, and only loopback is served before that; "     \
      "none: everyone who can connect may write and read")                                         \
    X(LIST, http_paths, "http.paths",                                                              \
      "/v1/metrics,/api/v1/otlp/v1/metrics,/opentelemetry/v1/metrics", "", "",                     \
      "Paths that take OTLP metrics; / may be listed too")                                         \
    X(STRING, http_prefix, "http.prefix", "", "", "", "Path prefix in front of every path served") \
    X(INT, http_loops, "http.loops", "0", "0", "256",                                              \
      "Event loops; 0 is one for each core but one, which is the writer's")                        \
    X(SIZE, http_max_body, "http.max_body", "64M", "1K", "1G",                                     \
      "Largest request body, as sent and after decompression; 413 beyond")                         \
    X(SIZE, http_max_header, "http.max_header", "16K", "1K", "1M", "Largest request head")         \
    X(INT, http_max_connections, "http.max_connections", "10000", "1", "1000000",                  \
      "Open connections; accepting pauses at the limit")                                           \
    X(SIZE, http_max_inflight, "http.max_inflight", "512M", "1M", "1T",                            \
      "Bytes of requests being handled at once, 503 beyond; and of those still arriving, "         \
      "where connections that send much are ended beyond")                                         \
    X(DURATION, http_idle_timeout, "http.idle_timeout", "90s", "1s", "1d",                         \
      "A connection without a request is closed after this; keep it above the senders' interval")  \
    X(DURATION, http_request_timeout, "http.request_timeout", "30s", "1s", "1h",                   \
      "A request must have arrived whole this long after its first byte")                          \
    X(LIST, cors_origins, "cors.origins", "", "", "",                                              \
      "Origins of browser senders, each with at most one *; empty turns CORS off")                 \
    X(LIST, cors_headers, "cors.headers", "", "", "",                                              \
      "Request headers allowed beyond accept, content-type and x-requested-with")                  \
    X(BOOL, cors_credentials, "cors.credentials", "false", "", "",                                 \
      "Allow credentials; not together with the origin *")                                         \
    X(DURATION, cors_max_age, "cors.max_age", "0s", "0s", "1d",                                    \
      "How long browsers may keep a preflight answer; 0s leaves it to them")                       \
    X(INT, otlp_max_depth, "otlp.max_depth", "64", "1", "200",                                     \
      "Levels of arrays and maps inside an attribute value; 400 beyond")                           \
    X(SIZE, otlp_max_name, "otlp.max_name", "1K", "1", "64K", "Longest metric name in bytes")      \
    X(INT, otlp_max_attributes, "otlp.max_attributes", "256", "0", "65536",                        \
      "Attributes of one point; the point is rejected beyond")                                     \
    X(SIZE, otlp_max_attribute_bytes, "otlp.max_attribute_bytes", "64K", "1", "16M",               \
      "Bytes of the attributes of one point, resource or scope; its points are rejected beyond")   \
    X(INT, otlp_max_points, "otlp.max_points", "500000", "0", "100000000",                         \
      "Points of one request, an exemplar as one, a metric, scope or resource as ten; 413 beyond;" \
      " 0 is no limit")                                                                            \
    X(INT, otlp_max_buckets, "otlp.max_buckets", "4096", "1", "1048576",                           \
      "Buckets of one point; the point is rejected beyond")                                        \
    X(DURATION, otlp_future_slack, "otlp.future_slack", "24h", "0s", "36500d",                     \
      "Points further ahead of the clock are rejected; 0s accepts any")                            \
    X(BOOL, otlp_strict_counts, "otlp.strict_counts", "false", "", "",                             \
      "Reject histograms whose buckets do not add up to count, instead of warning")                \
    X(BOOL, otlp_accept_snake_case, "otlp.accept_snake_case", "false", "", "",                     \
      "Read snake_case keys in JSON as well; OTLP/JSON has lowerCamelCase only")                   \
    X(SIZE, otlp_decode_memory, "otlp.decode_memory", "1G", "16M", "1T",                           \
      "Memory of all requests being decoded or queued; 503 beyond")                                \
    X(SIZE, otlp_known_bytes, "otlp.known_bytes", "64M", "0", "1T",                                \
      "Memory, of all loops together, for recognising series by the bytes they were sent as, which " \
      "spares decoding them again; 0 decodes every request in full")                               \
    X(SIZE, queue_max_bytes, "queue.max_bytes", "256M", "1M", "1T",                                \
      "Decoded bytes waiting for the writer; 503 beyond")                                          \
    X(INT, queue_max_requests, "queue.max_requests", "10000", "1", "1000000",                      \
      "Requests waiting for the writer; 503 beyond")                                               \
    X(DURATION, queue_max_age, "queue.max_age", "5s", "100ms", "60s",                              \
      "A request that waited longer is refused with 503 rather than stored late")                  \
    X(DURATION, query_timeout, "query.timeout", "30s", "10ms", "1h",                               \
      "Longest time that a query over HTTP may take")                                              \
    X(INT, query_max_rows, "query.max_rows", "100000", "1", "1000000000",                          \
      "Most rows of an answer to POST /api/v1/sql; it says so when there were more")               \
    X(SIZE, query_max_bytes, "query.max_bytes", "64M", "1K", "1G",                                 \
      "Most bytes of an answer to POST /api/v1/sql, likewise")                                     \
    X(SIZE, query_max_memory, "query.max_memory", "256M", "1M", "1T",                              \
      "Memory that a query over HTTP may take; it ends beyond")                                    \
    X(DURATION, query_lookback, "query.lookback", "5m", "1s", "7d",                                \
      "PromQL: how old a series' latest sample may be for it to be there")                         \
    X(INT, query_max_samples, "query.max_samples", "50000000", "1000", "1000000000000",            \
      "PromQL: samples that a query may hold at once")                                             \
    X(INT, query_max_series, "query.max_series", "1000000", "1", "1000000000",                     \
      "PromQL: series that one selector may match")                                                \
    X(ENUM, prometheus_names, "prometheus.names", "underscores-with-suffixes",                     \
      "underscores-with-suffixes|underscores-without-suffixes|utf8-with-suffixes|untranslated", "", \
      "PromQL: names of metrics and labels, as Prometheus' translation strategies have them")      \
    X(LIST, prometheus_promote, "prometheus.promote_resource_attributes", "", "", "",              \
      "PromQL: resource attributes that are labels of every series")                               \
    X(BOOL, prometheus_promote_all, "prometheus.promote_all_resource_attributes", "false", "", "", \
      "PromQL: all of them are")                                                                   \
    X(BOOL, prometheus_scope_labels, "prometheus.scope_labels", "true", "", "",                    \
      "PromQL: labels otel_scope_name and so on")                                                  \
    X(BOOL, prometheus_classic, "prometheus.classic_from_exponential", "false", "", "",            \
      "PromQL: exponential histograms answer as _bucket, _sum and _count, too")                    \
    X(SIZE, query_cache_size, "query.cache_size", "128M", "1M", "1T",                              \
      "Memory for sealed points that were read, of all queries together")                          \
    X(ENUM, sqlite_durability, "sqlite.durability", "normal", "normal|full", "",                   \
      "normal: an answered request survives any crash of the process; full: also a power cut")     \
    X(SIZE, sqlite_cache_size, "sqlite.cache_size", "512M", "1M", "1T",                            \
      "Page cache of the write connection, at most")                                               \
    X(SIZE, sqlite_mmap_size, "sqlite.mmap_size", "1G", "0", "1T",                                 \
      "Bytes of telemetry.db that are read through memory mapping")                                \
    X(DURATION, sqlite_busy_timeout, "sqlite.busy_timeout", "5s", "0s", "60s",                     \
      "How long to wait for another process's lock")                                               \
    X(INT, sqlite_checkpoint_pages, "sqlite.checkpoint_pages", "1000", "100", "1000000",           \
      "Checkpoint when the WAL holds this many pages of 4 KiB")                                    \
    X(BOOL, sqlite_secure_delete, "sqlite.secure_delete", "false", "", "",                         \
      "Overwrite deleted rows with zeros")                                                         \
    X(INT, head_max_rows, "head.max_rows", "262144", "1000", "16777216",                           \
      "Newest points of a kind that are kept as plain rows before they are sealed into compressed "  \
      "parts; up to four times as many while sealing is behind, 503 beyond")                       \
    X(SIZE, head_max_bytes, "head.max_bytes", "64M", "1M", "16G", "The same in bytes, about")      \
    X(DURATION, head_max_age, "head.max_age", "2h", "1s", "7d",                                    \
      "And in time since the first of them came")                                                  \
    X(DURATION, retention_max_age, "retention.max_age", "0s", "0s", "36500d",                      \
      "Points older than this are dropped, by the day; 0s keeps them for ever")                    \
    X(LIST, retention_rules, "retention.rules", "", "", "",                                        \
      "Other ages for some, the first that matches counts: metric:PATTERN=30d, project:NAME=7d, "  \
      "project:NAME/metric:PATTERN=30d; * and ? match any text and any character")                 \
    X(DURATION, retention_exemplar_age, "retention.exemplar_age", "0s", "0s", "36500d",            \
      "Exemplars older than this are dropped; 0s keeps them as long as their points")              \
    X(DURATION, retention_rollup_5m_age, "retention.rollup_5m_age", "0s", "0s", "36500d",          \
      "Rollups by 5 minutes older than this are dropped; 0s keeps them for ever")                  \
    X(DURATION, retention_rollup_1h_age, "retention.rollup_1h_age", "0s", "0s", "36500d",          \
      "Rollups by the hour older than this are dropped; 0s keeps them for ever")                   \
    X(SIZE, retention_max_bytes, "retention.max_bytes", "0", "0", "1024T",                           \
      "Most bytes of telemetry.db and its log together, 16M or more: the oldest points are dropped, " \
      "then the rollups, and requests are refused with 503 before it grows beyond; 0 is no limit") \
    X(BOOL, rollups, "rollups", "true", "", "",                                                    \
      "Keep rollups of numbers and histograms by 5 minutes and by the hour")                       \
    X(ENUM, log_level, "log.level", "info", "debug|info|warn|error", "", "Least level that is logged") \
    X(ENUM, log_format, "log.format", "logfmt", "logfmt|json", "", "Form of the log lines")

#define OTL_CONFIG_TYPE_STRING   char *
#define OTL_CONFIG_TYPE_LIST     char ** /* NULL-terminated */
#define OTL_CONFIG_TYPE_BOOL     bool
#define OTL_CONFIG_TYPE_INT      int64_t
#define OTL_CONFIG_TYPE_SIZE     int64_t
#define OTL_CONFIG_TYPE_DURATION int64_t /* milliseconds */
#define OTL_CONFIG_TYPE_ENUM     char *

struct config {
#define X(kind, field, key, def, min, max, help) OTL_CONFIG_TYPE_##kind field;
    OTL_OPTIONS(X)
#undef X
};

/* All defaults. The config owns its strings. */
enum otl_err config_init(struct config *c, struct otl_error *err) OTL_MUSTCHECK;
void config_fini(struct config *c);

/* Set one key from text. where names the source for messages ("otlite.conf:12", "--set",
 * "OTLITE_AUTH"). An unknown key is an error that names the nearest known one; so is a value that
 * does not parse or is out of range, with the range. */
enum otl_err config_set(struct config *c, const char *key, const char *value, const char *where,
                        struct otl_error *err) OTL_MUSTCHECK;
/* Every option's environment variable; an OTLITE_ variable that is no option is an error too,
 * except OTLITE_TOKEN (used by client subcommands) and what Kubernetes sets for a service named
 * otlite (OTLITE_PORT..., OTLITE_SERVICE_...). */
enum otl_err config_read_environment(struct config *c, struct otl_error *err) OTL_MUSTCHECK;
/* "key = value" lines, # comments, blank lines. */
enum otl_err config_read_file(struct config *c, const char *path, struct otl_error *err)
    OTL_MUSTCHECK;
/* What is wrong with the whole though each part is right (credentials with *, and the like). */
enum otl_err config_check(const struct config *c, struct otl_error *err) OTL_MUSTCHECK;

/* The effective value of each option as "key = value" lines / the option list for --help / the
 * table of docs/configuration.md. */
void config_print(const struct config *c, FILE *out);
/* The same as a YAML mapping. */
void config_print_yaml(const struct config *c, FILE *out);
void config_print_help(FILE *out);
void config_print_markdown(FILE *out);
/* deploy/otlite.conf: every key, commented out, with its default. */
void config_print_sample(FILE *out);

#endif
