#include "otlite/stats.h"

#include <inttypes.h>

#include "otlite/clock.h"

struct stats stats;

const double stats_commit_bounds_s[STATS_COMMIT_BUCKETS] = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5};

void stats_observe_commit(int64_t ns)
{
    double s = (double)ns / (double)NS_PER_S;
    int i = 0;

    while (i < STATS_COMMIT_BUCKETS && s > stats_commit_bounds_s[i])
        i++;
    STATS_ADD(commit_bucket[i], 1);
    STATS_ADD(commit_ns, (uint64_t)(ns > 0 ? ns : 0));
}

static void head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_printf(out, "# HELP otlite_%s %s\n# TYPE otlite_%s %s\n", name, help, name, type);
}

void stats_render(struct buf *out)
{
    uint64_t total = 0;

#define X(field, name, help)          \
    head(out, name, "counter", help); \
    buf_printf(out, "otlite_%s %" PRIu64 "\n", name, STATS_GET(field));
    OTL_COUNTERS(X)
#undef X
#define X(field, name, help)        \
    head(out, name, "gauge", help); \
    buf_printf(out, "otlite_%s %" PRId64 "\n", name, STATS_GET(field));
    OTL_GAUGES(X)
#undef X
#define X(field, name, help)        \
    head(out, name, "gauge", help); \
    buf_printf(out, "otlite_%s %.6f\n", name, (double)STATS_GET(field) / 1e6);
    OTL_DURATIONS(X)
#undef X

    head(out, "requests_total", "counter", "Requests answered, by status");
    for (int code = 100; code < STATS_MAX_STATUS; code++) {
        uint64_t n = STATS_GET(requests[code]);

        if (n > 0)
            buf_printf(out, "otlite_requests_total{code=\"%d\"} %" PRIu64 "\n", code, n);
    }
    head(out, "points_rejected_total", "counter", "Data points rejected, by reason");
    for (int i = 0; i < REJECT_COUNT_OF_REASONS; i++)
        buf_printf(out, "otlite_points_rejected_total{reason=\"%s\"} %" PRIu64 "\n",
                   reject_label((enum reject_reason)i), STATS_GET(rejected[i]));
    head(out, "warnings_total", "counter", "Oddities in accepted data, by kind");
    for (int i = 0; i < WARN_COUNT_OF_WARNINGS; i++)
        buf_printf(out, "otlite_warnings_total{kind=\"%s\"} %" PRIu64 "\n",
                   warning_label((enum warning)i), STATS_GET(warnings[i]));

    head(out, "commit_seconds", "histogram", "Time of one transaction, BEGIN to COMMIT");
    for (int i = 0; i < STATS_COMMIT_BUCKETS; i++) {
        total += STATS_GET(commit_bucket[i]);
        buf_printf(out, "otlite_commit_seconds_bucket{le=\"%g\"} %" PRIu64 "\n",
                   stats_commit_bounds_s[i], total);
    }
    total += STATS_GET(commit_bucket[STATS_COMMIT_BUCKETS]);
    buf_printf(out, "otlite_commit_seconds_bucket{le=\"+Inf\"} %" PRIu64 "\n", total);
    buf_printf(out, "otlite_commit_seconds_sum %.9f\n",
               (double)STATS_GET(commit_ns) / (double)NS_PER_S);
    buf_printf(out, "otlite_commit_seconds_count %" PRIu64 "\n", total);
}
