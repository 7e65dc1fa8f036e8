/* stats.h -- the process-wide counters and gauges behind /metrics and `otlite stats`.
 *
 * Plain atomics: any thread adds, /metrics reads. One list each for counters and gauges; the
 * renderer walks the lists, so a new row shows up by itself. */
#ifndef OTLITE_STATS_H
#define OTLITE_STATS_H

#include <stdatomic.h>
#include <stdint.h>

#include "otlite/bytes.h"
#include "otlite/reason.h"

/* field, exported name (otlite_ is put in front), help */
#define OTL_COUNTERS(X)                                                                           \
    X(points_received, "points_received_total", "Data points in decoded requests")                \
    X(points_stored, "points_stored_total", "Data points committed as new rows")                  \
    X(points_merged, "points_merged_total", "Data points equal to a stored one (resends)")        \
    X(points_replaced, "points_replaced_total",                                                   \
      "Data points that replaced a stored value of the same series, start and time")              \
    X(exemplars_stored, "exemplars_stored_total", "Exemplars committed")                          \
    X(bytes_received, "request_bytes_total", "Body bytes received, as sent")                      \
    X(bytes_decoded, "request_decoded_bytes_total", "Body bytes after decompression")             \
    X(known_hits, "known_requests_total",                                                         \
      "Protobuf requests decoded the short way, all series known")                                \
    X(known_misses, "unknown_requests_total", "Protobuf requests decoded in full")                \
    X(connections_accepted, "connections_accepted_total", "TCP connections accepted")             \
    X(connections_timed_out, "connections_timed_out_total",                                       \
      "Connections ended by the idle or the request deadline")                                    \
    X(connections_refused, "connections_paused_total",                                            \
      "Times accepting was paused (connection cap or no descriptors)")                            \
    X(connections_overloaded, "connections_overloaded_total",                                     \
      "Connections ended because more than http.max_inflight bytes were arriving")                \
    X(replies_dropped, "replies_dropped_total", "Answers whose client had gone")                  \
    X(damaged_chunks, "damaged_chunks_total",                                                     \
      "Times a read met stored points that are damaged, and left them out")                       \
    X(commits, "commits_total", "Transactions committed")                                         \
    X(commit_failures, "commit_failures_total", "Transactions that failed and were rolled back")  \
    X(checkpoints, "checkpoints_total", "Checkpoints run")                                        \
    X(halves_sealed, "halves_sealed_total", "Halves of the head that were sealed")                \
    X(points_sealed, "points_sealed_total", "Points, and exemplars, that sealing put into parts") \
    X(points_sealed_over, "points_sealed_over_total",                                             \
      "Rows of the head that sealing left out, since a later one has their key")                  \
    X(merges, "merges_total", "Merges of parts")                                                  \
    X(points_merged_again, "points_rewritten_total", "Points that merges wrote once more")        \
    X(points_expired, "points_expired_total",                                                     \
      "Points, exemplars and rollup rows that retention dropped")                                 \
    X(series_forgotten, "series_forgotten_total",                                                 \
      "Series deleted since no point of them was left")                                           \
    X(maintenance_failures, "maintenance_failures_total", "Rounds of maintenance that failed")    \
    X(tasks, "maintenance_tasks_total", "Transactions of maintenance on the writer")              \
    X(queries, "queries_total", "Queries over HTTP that began to run")                            \
    X(queries_cancelled, "queries_cancelled_total",                                               \
      "Queries that ended since their client had gone")                                           \
    X(auth_failures, "auth_failures_total", "Requests refused with 401 or 403")

#define OTL_GAUGES(X)                                                              \
    X(connections, "connections", "Open TCP connections")                          \
    X(reading_bytes, "reading_bytes", "Bytes of requests that are still arriving") \
    X(inflight_bytes, "inflight_bytes", "Bytes of requests being handled")         \
    X(queue_jobs, "queue_requests", "Requests waiting for the writer")             \
    X(queue_bytes, "queue_bytes", "Bytes of requests waiting for the writer")      \
    X(queries_running, "queries_running", "Queries over HTTP that run now")        \
    X(series, "series", "Series in the catalogue")                                 \
    X(wal_bytes, "wal_bytes", "Size of telemetry.db-wal")                          \
    X(db_bytes, "database_bytes", "Size of telemetry.db")                          \
    X(state_bytes, "state_database_bytes", "Size of state.db")

/* Microseconds; shown as seconds, Prometheus' base unit. */
#define OTL_DURATIONS(X)                                   \
    X(task_longest_us, "maintenance_task_longest_seconds", \
      "Longest transaction of maintenance on the writer since the start")

enum {
    STATS_MAX_STATUS = 600,
    /* Commit latency: bucket i counts commits of at most stats_commit_bounds_s[i] seconds. */
    STATS_COMMIT_BUCKETS = 14
};

extern const double stats_commit_bounds_s[STATS_COMMIT_BUCKETS];

struct stats {
#define X(field, name, help) _Atomic uint64_t field;
    OTL_COUNTERS(X)
#undef X
#define X(field, name, help) _Atomic int64_t field;
    OTL_GAUGES(X)
    OTL_DURATIONS(X)
#undef X
    _Atomic uint64_t requests[STATS_MAX_STATUS]; /* answered, by status */
    _Atomic uint64_t rejected[REJECT_COUNT_OF_REASONS];
    _Atomic uint64_t warnings[WARN_COUNT_OF_WARNINGS];
    _Atomic uint64_t commit_bucket[STATS_COMMIT_BUCKETS + 1]; /* the last one is +Inf */
    _Atomic uint64_t commit_ns;
};

extern struct stats stats;

#define STATS_ADD(field, v) atomic_fetch_add_explicit(&stats.field, (v), memory_order_relaxed)
#define STATS_SUB(field, v) atomic_fetch_sub_explicit(&stats.field, (v), memory_order_relaxed)
#define STATS_SET(field, v) atomic_store_explicit(&stats.field, (v), memory_order_relaxed)
#define STATS_GET(field)    atomic_load_explicit(&stats.field, memory_order_relaxed)

void stats_observe_commit(int64_t ns);

/* Append everything in the Prometheus text format 0.0.4. */
void stats_render(struct buf *out);

#endif
