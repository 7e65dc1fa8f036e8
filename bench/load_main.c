/* load_main.c -- the command line and the report of `otlite-bench load`. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "cli/units.h"
#include "load.h"
#include "otlite/clock.h"

struct settings {
    const char *url;
    unsigned points, services, series, connections;
    double rate;
    int64_t duration_ms, warmup_ms, wait_ms, timeout_ms, interval_ms, pid;
    bool json, gzip, json_report;
    struct buf headers;
};

static void print_help(FILE *out)
{
    fputs(
        "usage: otlite-bench load [OPTION...]\n"
        "\n"
        "Send OTLP metrics (cumulative monotonic sums, three attributes each) and report how many\n"
        "points were answered 200, and how long answers took.\n"
        "\n"
        "  --url URL                where to send; default http://127.0.0.1:4318/v1/metrics\n"
        "  --points-per-request N   default 100\n"
        "  --services N             resources the series spread over; default 10\n"
        "  --series N               in all; default 10000\n"
        "  --connections N          default 8\n"
        "  --rate N|max             requests a second, latency counted from when each was due; or\n"
        "                           max, each connection as fast as answers come; default max\n"
        "  --duration TIME          measured time (10s, 500ms, 1m); default 10s\n"
        "  --warmup TIME            sent before, not measured; default 1s\n"
        "  --wait TIME              for the daemon to take connections; default 5s\n"
        "  --timeout TIME           an answer that takes longer counts as lost; default 10s\n"
        "  --encoding proto|json    default proto\n"
        "  --gzip                   compress bodies\n"
        "  --interval TIME          points of a series this far apart, from now on into the "
        "future;\n"
        "                           default 0: every point carries the time of its sending\n"
        "  --header 'NAME: VALUE'   further request header; may be repeated\n"
        "  --pid PID                the daemon's, to report its CPU seconds and memory\n"
        "  --json                   report as one line of JSON\n",
        out);
}

static bool parse_unsigned(const char *text, unsigned *out)
{
    int64_t v;

    if (!int_parse(text, &v) || v < 1 || v > 1000000000)
        return false;
    *out = (unsigned)v;
    return true;
}

static bool parse_rate(const char *text, double *out)
{
    char *end;

    if (strcmp(text, "max") == 0) {
        *out = 0;
        return true;
    }
    *out = strtod(text, &end);
    return end != text && *end == '\0' && *out > 0 && *out <= 1e7;
}

/* NAME: VALUE without control characters, which would break the request's head. */
static bool add_header(struct buf *headers, const char *text)
{
    const char *colon = strchr(text, ':');

    if (colon == NULL || colon == text)
        return false;
    for (const char *p = text; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return false;
    }
    buf_add_str(headers, text);
    buf_add_str(headers, "\r\n");
    return true;
}

static bool parse_encoding(const char *text, bool *json)
{
    *json = strcmp(text, "json") == 0;
    return *json || strcmp(text, "proto") == 0;
}

static bool parse_option(int c, const char *text, struct settings *s)
{
    switch (c) {
    case 'u':
        s->url = text;
        return true;
    case 'p':
        return parse_unsigned(text, &s->points);
    case 's':
        return parse_unsigned(text, &s->services);
    case 'n':
        return parse_unsigned(text, &s->series);
    case 'c':
        return parse_unsigned(text, &s->connections) && s->connections <= 60000;
    case 'r':
        return parse_rate(text, &s->rate);
    case 'd':
        return duration_parse(text, &s->duration_ms) && s->duration_ms > 0;
    case 'w':
        return duration_parse(text, &s->warmup_ms);
    case 'W':
        return duration_parse(text, &s->wait_ms);
    case 't':
        return duration_parse(text, &s->timeout_ms) && s->timeout_ms > 0;
    case 'i':
        return duration_parse(text, &s->interval_ms);
    case 'e':
        return parse_encoding(text, &s->json);
    case 'H':
        return add_header(&s->headers, text);
    case 'P':
        return int_parse(text, &s->pid) && s->pid > 0;
    default:
        return false;
    }
}

/* EX_OK to go on; -1 after --help. */
static int parse_arguments(int argc, char **argv, struct settings *s)
{
    static const struct option options[] = {
        {"url", required_argument, NULL, 'u'},
        {"points-per-request", required_argument, NULL, 'p'},
        {"services", required_argument, NULL, 's'},
        {"series", required_argument, NULL, 'n'},
        {"connections", required_argument, NULL, 'c'},
        {"rate", required_argument, NULL, 'r'},
        {"duration", required_argument, NULL, 'd'},
        {"warmup", required_argument, NULL, 'w'},
        {"wait", required_argument, NULL, 'W'},
        {"timeout", required_argument, NULL, 't'},
        {"interval", required_argument, NULL, 'i'},
        {"encoding", required_argument, NULL, 'e'},
        {"gzip", no_argument, NULL, 'z'},
        {"header", required_argument, NULL, 'H'},
        {"pid", required_argument, NULL, 'P'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int c, index = 0;

    while ((c = getopt_long(argc, argv, "h", options, &index)) != -1) {
        if (c == 'h') {
            print_help(stdout);
            return -1;
        }
        if (c == '?') /* getopt has said what is wrong */
            return EX_USAGE;
        if (c == 'z') {
            s->gzip = true;
        } else if (c == 'j') {
            s->json_report = true;
        } else if (!parse_option(c, optarg, s)) {
            fprintf(stderr,
                    "otlite-bench load: --%s does not take '%s'; see otlite-bench load --help\n",
                    options[index].name, optarg);
            return EX_USAGE;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "otlite-bench load: unexpected argument '%s'\n", argv[optind]);
        return EX_USAGE;
    }
    return EX_OK;
}

static double ms(int64_t ns)
{
    return (double)ns / 1e6;
}

static double per_second(uint64_t n, double seconds)
{
    return seconds > 0 ? (double)n / seconds : 0;
}

static void report_text(const struct load_result *r)
{
    const struct histogram *h = &r->latency;

    printf("points/s             %12.0f\n", per_second(r->points, r->seconds));
    printf("requests/s           %12.0f\n", per_second(r->requests, r->seconds));
    printf("latency p50, ms      %12.2f\n", ms(histogram_quantile(h, 0.5)));
    printf("latency p90, ms      %12.2f\n", ms(histogram_quantile(h, 0.9)));
    printf("latency p99, ms      %12.2f\n", ms(histogram_quantile(h, 0.99)));
    printf("latency max, ms      %12.2f\n", ms(h->max));
    for (int i = 0; i < LOAD_MAX_STATUS; i++) {
        if (i != 200 && r->status[i] > 0)
            printf("answered %d         %12" PRIu64 "\n", i, r->status[i]);
    }
    if (r->partial > 0)
        printf("partial success      %12" PRIu64 "\n", r->partial);
    if (r->lost > 0)
        printf("no answer            %12" PRIu64 "\n", r->lost);
    if (r->unsent > 0)
        printf("due but not sent     %12" PRIu64 "\n", r->unsent);
    if (r->has_daemon_cpu) {
        printf("daemon CPU, s        %12.2f\n", r->daemon_cpu_seconds);
        printf("points/CPU second    %12.0f\n", per_second(r->points, r->daemon_cpu_seconds));
        printf("daemon memory, MiB   %12.1f\n", (double)r->daemon_peak_bytes / 1048576);
    }
    printf("generator CPU, s     %12.2f\n", r->own_cpu_seconds);
    printf("measured, s          %12.2f\n", r->seconds);
    printf("points accepted      %12" PRIu64 "\n", r->all_points);
}

static void report_json(const struct load_result *r)
{
    const struct histogram *h = &r->latency;
    const char *comma = "";

    printf("{\"points_per_second\":%.0f,\"requests_per_second\":%.1f",
           per_second(r->points, r->seconds), per_second(r->requests, r->seconds));
    printf(",\"p50_ms\":%.3f,\"p90_ms\":%.3f,\"p99_ms\":%.3f,\"max_ms\":%.3f",
           ms(histogram_quantile(h, 0.5)), ms(histogram_quantile(h, 0.9)),
           ms(histogram_quantile(h, 0.99)), ms(h->max));
    printf(",\"status\":{");
    for (int i = 0; i < LOAD_MAX_STATUS; i++) {
        if (r->status[i] > 0) {
            printf("%s\"%d\":%" PRIu64, comma, i, r->status[i]);
            comma = ",";
        }
    }
    printf("},\"partial\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"unsent\":%" PRIu64, r->partial,
           r->lost, r->unsent);
    if (r->has_daemon_cpu)
        printf(",\"daemon_cpu_seconds\":%.2f,\"points_per_cpu_second\":%.0f"
               ",\"daemon_peak_bytes\":%" PRId64,
               r->daemon_cpu_seconds, per_second(r->points, r->daemon_cpu_seconds),
               r->daemon_peak_bytes);
    printf(",\"generator_cpu_seconds\":%.2f,\"seconds\":%.3f,\"points_accepted\":%" PRIu64 "}\n",
           r->own_cpu_seconds, r->seconds, r->all_points);
}

static int fail(const struct otl_error *err)
{
    fprintf(stderr, "otlite-bench load: %s\n", err->msg);
    switch (err->code) {
    case OTL_ECONFIG:
        return EX_USAGE;
    case OTL_EIO:
        return EX_UNAVAILABLE;
    case OTL_ENOMEM:
        return EX_OSERR;
    default:
        return EX_SOFTWARE;
    }
}

static int load_with(const struct settings *s)
{
    struct http_url url;
    struct template_set set;
    struct load_result result;
    struct otl_error err = {0};
    enum otl_err rc = http_url_parse(s->url, &url, &err);

    if (rc != OTL_OK)
        return fail(&err);
    const struct template_opts content = {
        .host = url.host,
        .path = url.path,
        .headers = s->headers.n > 0 ? (const char *)s->headers.p : "",
        .json = s->json,
        .gzip = s->gzip,
        .points = s->points,
        .services = s->services,
        .series = s->series,
        .start_ns = clock_wall_ns(),
        .interval_ns = s->interval_ms * NS_PER_MS,
    };
    const struct load_opts load = {
        .url = &url,
        .connections = s->connections,
        .rate = s->rate,
        .wait_ns = s->wait_ms * NS_PER_MS,
        .warmup_ns = s->warmup_ms * NS_PER_MS,
        .duration_ns = s->duration_ms * NS_PER_MS,
        .timeout_ns = s->timeout_ms * NS_PER_MS,
        .pid = s->pid,
    };

    rc = template_set_init(&set, &content, &err);
    if (rc != OTL_OK)
        return fail(&err);
    rc = load_run(&load, &set, &result, &err);
    template_set_fini(&set);
    if (rc != OTL_OK)
        return fail(&err);
    if (s->json_report)
        report_json(&result);
    else
        report_text(&result);
    return EX_OK;
}

int load_main(int argc, char **argv)
{
    struct settings s = {
        .url = "http://127.0.0.1:4318/v1/metrics",
        .points = 100,
        .services = 10,
        .series = 10000,
        .connections = 8,
        .duration_ms = 10000,
        .warmup_ms = 1000,
        .wait_ms = 5000,
        .timeout_ms = 10000,
    };
    int status = parse_arguments(argc, argv, &s);

    if (status == EX_OK) {
        (void)buf_cstr(&s.headers); /* ends it with NUL */
        if (s.headers.failed) {
            fputs("otlite-bench load: no memory for the headers\n", stderr);
            status = EX_OSERR;
        } else {
            status = load_with(&s);
        }
    }
    buf_fini(&s.headers);
    return status < 0 ? EX_OK : status;
}
