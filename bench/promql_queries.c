/* promql_queries.c -- what dashboards ask of the 10,000 series of series_gen.h: 1,250 of each
 * metric, in 125 services that are jobs. */
#include "promql.h"

const struct promql_query promql_queries[PROMQL_QUERIES] = {
    {"one series", "http_server_requests_total{instance=\"i-00000002\"}", false},
    {"ten series of a job, rate", "rate(http_server_requests_total{job=\"svc-00007\"}[5m])", false},
    {"average of 1,250 gauges", "avg(process_cpu_usage)", false},
    {"1,250 counters, rate by job", "sum by (job) (rate(http_server_requests_total[5m]))", true},
    {"the five busiest jobs", "topk(5, sum by (job) (rate(http_server_requests_total[5m])))", true},
    {"share of errors by job",
     ("sum by (job) (rate(http_server_errors_total[5m])) / "
      "sum by (job) (rate(http_server_requests_total[5m]))"),
     true},
    {"95th percentile of 125 histograms",
     "histogram_quantile(0.95, sum by (le) (rate(http_server_latency_total[5m])))", true},
    {"1,250 gauges, mean of 10 minutes by job", "avg by (job) (avg_over_time(process_memory[10m]))",
     true},
    {"1,250 gauges, maximum of an hour", "max(max_over_time(process_cpu_usage[1h]))", true},
    {"5,000 counters, rate", "sum(rate({__name__=~\".+_total\"}[5m]))", true},
};

const char *const promql_panels[PROMQL_PANELS] = {
    "sum(rate(http_server_requests_total[5m]))",
    "sum(rate(http_server_errors_total[5m])) / sum(rate(http_server_requests_total[5m]))",
    "histogram_quantile(0.5, sum by (le) (rate(http_server_latency_total[5m])))",
    "histogram_quantile(0.99, sum by (le) (rate(http_server_latency_total[5m])))",
    "topk(5, sum by (job) (rate(http_server_requests_total[5m])))",
    "topk(5, sum by (job) (rate(http_server_errors_total[5m])))",
    "rate(http_server_requests_total{job=\"svc-00003\"}[5m])",
    "rate(http_server_errors_total{job=\"svc-00003\"}[5m])",
    ("histogram_quantile(0.95, "
     "sum by (le) (rate(http_server_latency_total{job=\"svc-00003\"}[5m])))"),
    "process_cpu_usage{job=\"svc-00003\"}",
    "process_memory{job=\"svc-00003\"}",
    "queue_length{job=\"svc-00003\"}",
    "sum(rate(rpc_client_bytes_total[5m]))",
    "sum(rate(rpc_client_bytes_total{job=~\"svc-0000.\"}[5m])) by (job)",
    "avg(process_cpu_usage)",
    "max(process_memory)",
    "topk(5, avg by (job) (process_cpu_usage))",
    "sum by (job) (queue_length{job=~\"svc-0001.\"})",
    "quantile(0.9, process_memory)",
    "count(build_info)",
};
