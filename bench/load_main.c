/* load_main.c -- the command line of `otlite-bench load`. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "cli/units.h"
#include "load.h"
#include "load_report.h"
#include "otlite/clock.h"

struct settings {
    const char *url;
    unsigned points, services, series, connections;
    double rate, points_rate; /* points_rate: 0 when not given */
    int64_t duration_ms, warmup_ms, wait_ms, timeout_ms, interval_ms, pid;
    bool json, influx, gzip, json_report;
    enum template_mix mix;
    const char *out, *name; /* of the result files; out NULL: none */
    struct buf headers, command;
};

static void print_help(FILE *out)
{
    fputs(
        "usage: otlite-bench load [OPTION...]\n"
        "\n"
        "Send metrics to any endpoint that takes OTLP over HTTP (or line protocol), here or on\n"
        "another machine, and report how many points were accepted and how long answers took.\n"
        "\n"
        "  --url URL                where to send: http only, host name, IPv4 or [IPv6];\n"
        "                           default http://127.0.0.1:4318/v1/metrics\n"
        "  --points-per-request N   default 100\n"
        "  --services N             resources the series spread over; default 10\n"
        "  --series N               in all; default 10000\n"
        "  --connections N          default 8\n"
        "  --rate N|max             requests a second, latency counted from when each was due; or\n"
        "                           max, each connection as fast as answers come; default max\n"
        "  --points-rate N          the same in points a second\n"
        "  --duration TIME          measured time (10s, 500ms, 1m); default 10s\n"
        "  --warmup TIME            sent before, not measured; default 1s\n"
        "  --wait TIME              for the daemon to take connections; default 5s\n"
        "  --timeout TIME           an answer that takes longer counts as lost; default 10s\n"
        "  --encoding proto|json|influx\n"
        "                           default proto; influx is line protocol, as VictoriaMetrics'\n"
        "                           /write takes it: same series, values and times\n"
        "  --metric-mix number|all  cumulative sums only, or gauges, sums, histograms, "
        "exponential\n"
        "                           histograms and summaries, with exemplars; default number\n"
        "  --gzip                   compress bodies; costs the generator little with proto or "
        "json\n"
        "                           and number, else each request is compressed anew\n"
        "  --interval TIME          points of a series this far apart, from now on into the "
        "future;\n"
        "                           default 0: every point carries the time of its sending\n"
        "  --header 'NAME: VALUE'   further request header; may be repeated\n"
        "  --pid PID                the daemon's, to report its CPU seconds and memory\n"
        "  --json                   report as one line of JSON\n"
        "  --out DIR                write NAME.json, NAME.md, NAME.svg and the machine there\n"
        "  --name NAME              of those files: a-z, 0-9 and -; default load\n"
        "\n"
        "Every point has three attributes. Answers of 429 and 503 are counted apart, with their "
        "own\n"
        "latency. On a terminal a line tells each second how it goes; Ctrl-C ends the run early.\n",
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
    return end != text && *end == '\0' && *out > 0 && *out <= 1e9;
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

static bool parse_encoding(const char *text, struct settings *s)
{
    s->json = strcmp(text, "json") == 0;
    s->influx = strcmp(text, "influx") == 0;
    return s->json || s->influx || strcmp(text, "proto") == 0;
}

static bool parse_mix(const char *text, enum template_mix *mix)
{
    *mix = strcmp(text, "all") == 0 ? MIX_ALL : MIX_NUMBER;
    return *mix == MIX_ALL || strcmp(text, "number") == 0;
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
        return parse_encoding(text, s);
    case 'm':
        return parse_mix(text, &s->mix);
    case 'R':
        return parse_rate(text, &s->points_rate);
    case 'o':
        s->out = text;
        return text[0] != '\0';
    case 'N':
        s->name = text;
        return true;
    case 'H':
        return add_header(&s->headers, text);
    case 'P':
        return int_parse(text, &s->pid) && s->pid > 0;
    default:
        return false;
    }
}

/* What a person types to repeat the run, an option at a time. Values of headers stay out of it:
 * they may be secrets, and the command is kept in the results. */
static void add_to_command(struct buf *command, const char *name, const char *value)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_./:=,@%+[]";

    buf_printf(command, " --%s", name);
    if (value == NULL)
        return;
    if (strcmp(name, "header") == 0) {
        buf_printf(command, " '%.*s: ...'", (int)strcspn(value, ":'"), value);
        return;
    }
    if (value[0] != '\0' && value[strspn(value, plain)] == '\0') {
        buf_printf(command, " %s", value);
        return;
    }
    buf_add_str(command, " '");
    for (; *value != '\0'; value++) {
        if (*value == '\'')
            buf_add_str(command, "'\\''");
        else
            buf_add_char(command, *value);
    }
    buf_add_char(command, '\'');
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
        {"metric-mix", required_argument, NULL, 'm'},
        {"points-rate", required_argument, NULL, 'R'},
        {"out", required_argument, NULL, 'o'},
        {"name", required_argument, NULL, 'N'},
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
        add_to_command(&s->command, options[index].name, optarg);
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
    if (s->json_report && s->out != NULL) {
        fputs("otlite-bench load: --json and --out exclude each other: --out writes JSON too\n",
              stderr);
        return EX_USAGE;
    }
    if (s->points_rate > 0)
        s->rate = s->points_rate / s->points;
    return EX_OK;
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

static enum otl_err report(const struct settings *s, const struct load_result *r,
                           const struct load_second *seconds, struct result *files,
                           struct otl_error *err)
{
    if (files != NULL) {
        load_report_fill(files, r, seconds);
        return result_close(files, err);
    }
    if (s->json_report)
        load_report_json(r);
    else
        load_report_text(r);
    if (fflush(stdout) != 0)
        return otl_fail(err, OTL_EIO, "cannot print the report: %s", strerror(errno));
    return OTL_OK;
}

/* Send the set, and report. */
static enum otl_err run(const struct settings *s, const struct http_url *url,
                        struct template_set *set, struct result *files, struct otl_error *err)
{
    const unsigned room = (unsigned)(s->duration_ms / 1000) + 2;
    struct load_second *seconds = calloc(room, sizeof(*seconds));
    struct load_result *result = calloc(1, sizeof(*result));
    const struct load_opts load = {
        .url = url,
        .connections = s->connections,
        .rate = s->rate,
        .wait_ns = s->wait_ms * NS_PER_MS,
        .warmup_ns = s->warmup_ms * NS_PER_MS,
        .duration_ns = s->duration_ms * NS_PER_MS,
        .timeout_ns = s->timeout_ms * NS_PER_MS,
        .pid = s->pid,
        .by_second = seconds,
        .by_second_room = room,
        .on_second = isatty(STDERR_FILENO) ? load_report_progress : NULL,
    };
    enum otl_err rc = OTL_ENOMEM;

    if (seconds == NULL || result == NULL) {
        (void)otl_fail(err, OTL_ENOMEM, "no memory for the measurements");
    } else {
        rc = load_run(&load, set, result, err);
        if (load.on_second != NULL)
            load_report_progress_end();
    }
    if (rc == OTL_OK) {
        rc = report(s, result, seconds, files, err);
    } else if (files != NULL) {
        struct otl_error other;

        /* What was there from an earlier run must not pass for this one's. */
        result_note(files, "The run failed: %s", err->msg);
        if (result_close(files, &other) != OTL_OK)
            fprintf(stderr, "otlite-bench load: %s\n", other.msg);
    }
    free(seconds);
    free(result);
    return rc;
}

static int load_with(const struct settings *s, const char *command)
{
    struct http_url url;
    struct template_set set;
    struct result *files = NULL;
    struct otl_error err = {0};
    enum otl_err rc = http_url_parse(s->url, &url, &err);

    if (rc != OTL_OK)
        return fail(&err);
    const struct template_opts content = {
        .host = url.host,
        .path = url.path,
        .headers = s->headers.n > 0 ? (const char *)s->headers.p : "",
        .json = s->json,
        .influx = s->influx,
        .gzip = s->gzip,
        .mix = s->mix,
        .points = s->points,
        .services = s->services,
        .series = s->series,
        .start_ns = clock_wall_ns(),
        .interval_ns = s->interval_ms * NS_PER_MS,
    };

    rc = template_set_init(&set, &content, &err);
    if (rc != OTL_OK)
        return fail(&err);
    if (s->out != NULL) /* before the run, so that a bad place costs no time */
        rc = load_report_open(s->out, s->name, command, s->pid > 0, &files, &err);
    if (rc == OTL_OK)
        rc = run(s, &url, &set, files, &err);
    template_set_fini(&set);
    return rc == OTL_OK ? EX_OK : fail(&err);
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
        .name = "load",
    };
    int status;

    buf_add_str(&s.command, "otlite-bench load");
    status = parse_arguments(argc, argv, &s);

    if (status == EX_OK) {
        const char *command = buf_cstr(&s.command);

        (void)buf_cstr(&s.headers); /* ends it with NUL */
        if (s.headers.failed || s.command.failed) {
            fputs("otlite-bench load: no memory for the arguments\n", stderr);
            status = EX_OSERR;
        } else {
            status = load_with(&s, command);
        }
    }
    buf_fini(&s.command);
    buf_fini(&s.headers);
    return status < 0 ? EX_OK : status;
}
