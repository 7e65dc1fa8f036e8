#include "load_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS_A_NINE = 8, MAX_STEPS = 6 * STEPS_A_NINE };

/* Nothing was measured; NAN itself is a float. */
#define NONE ((double)NAN)

static double ms(int64_t ns)
{
    return (double)ns / 1e6;
}

static double quantile_ms(const struct latencies *h, double q)
{
    return ms(latencies_quantile(h, q));
}

static double per_second(uint64_t n, double seconds)
{
    return seconds > 0 ? (double)n / seconds : 0;
}

void load_report_text(const struct load_result *r)
{
    const struct latencies *h = &r->latency;

    printf("points/s             %12.0f\n", per_second(r->points, r->seconds));
    printf("requests/s           %12.0f\n", per_second(r->requests, r->seconds));
    printf("latency p50, ms      %12.2f\n", quantile_ms(h, 0.5));
    printf("latency p90, ms      %12.2f\n", quantile_ms(h, 0.9));
    printf("latency p99, ms      %12.2f\n", quantile_ms(h, 0.99));
    printf("latency p99.9, ms    %12.2f\n", quantile_ms(h, 0.999));
    printf("latency max, ms      %12.2f\n", ms(h->max));
    for (int i = 0; i < LOAD_MAX_STATUS; i++) {
        if (i / 100 != 2 && r->status[i] > 0)
            printf("answered %d         %12" PRIu64 "\n", i, r->status[i]);
    }
    if (r->refused.count > 0) {
        printf("refused in p50, ms   %12.2f\n", quantile_ms(&r->refused, 0.5));
        printf("refused in p99, ms   %12.2f\n", quantile_ms(&r->refused, 0.99));
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

void load_report_json(const struct load_result *r)
{
    const struct latencies *h = &r->latency;
    const char *comma = "";

    printf("{\"points_per_second\":%.0f,\"requests_per_second\":%.1f",
           per_second(r->points, r->seconds), per_second(r->requests, r->seconds));
    printf(",\"p50_ms\":%.3f,\"p90_ms\":%.3f,\"p99_ms\":%.3f,\"p999_ms\":%.3f,\"max_ms\":%.3f",
           quantile_ms(h, 0.5), quantile_ms(h, 0.9), quantile_ms(h, 0.99), quantile_ms(h, 0.999),
           ms(h->max));
    printf(",\"refused_p50_ms\":%.3f,\"refused_p99_ms\":%.3f", quantile_ms(&r->refused, 0.5),
           quantile_ms(&r->refused, 0.99));
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

/* --- result files --- */

#define COLUMNS                                                                                  \
    {"answer", "answer", -1}, {"requests", "requests", 0}, {"points_per_second", "points/s", 0}, \
        {"p50_ms", "p50, ms", 2}, {"p90_ms", "p90, ms", 2}, {"p99_ms", "p99, ms", 2},            \
        {"p999_ms", "p99.9, ms", 2}, {"max_ms", "max, ms", 2},                                   \
    {                                                                                            \
        "generator_cores", "generator cores", 2                                                  \
    }

enum otl_err load_report_open(const char *dir, const char *name, const char *command,
                              bool with_daemon, struct result **out, struct otl_error *err)
{
    static const struct result_column columns[] = {COLUMNS, {NULL, NULL, 0}};
    static const struct result_column more[] = {
        COLUMNS,
        {"daemon_cores", "daemon cores", 2},
        {"points_per_cpu_second", "points/CPU s", 0},
        {"daemon_mib", "daemon MiB", 1},
        {NULL, NULL, 0},
    };

    return result_open(dir, name, "otlite-bench load", command, with_daemon ? more : columns, out,
                       err);
}

static void put_latency(struct result *out, const struct latencies *h)
{
    static const double q[] = {0.5, 0.9, 0.99, 0.999, 1};

    for (size_t i = 0; i < sizeof(q) / sizeof(q[0]); i++)
        result_number(out, h->count > 0 ? quantile_ms(h, q[i]) : NONE);
}

static void put_accepted(struct result *out, const struct load_result *r)
{
    result_begin_row(out);
    result_text(out, "accepted");
    result_number(out, (double)r->requests);
    result_number(out, per_second(r->points, r->seconds));
    put_latency(out, &r->latency);
    result_number(out, r->seconds > 0 ? r->own_cpu_seconds / r->seconds : NONE);
    if (r->has_daemon_cpu && r->seconds > 0) {
        result_number(out, r->daemon_cpu_seconds / r->seconds);
        result_number(out, per_second(r->points, r->daemon_cpu_seconds));
        result_number(out, (double)r->daemon_peak_bytes / 1048576);
    }
    result_end_row(out);
}

static void put_count(struct result *out, const char *what, uint64_t n)
{
    if (n == 0)
        return;
    result_begin_row(out);
    result_text(out, what);
    result_number(out, (double)n);
    result_end_row(out);
}

static void put_rows(struct result *out, const struct load_result *r)
{
    uint64_t refused = r->status[429] + r->status[503];

    put_accepted(out, r);
    if (refused > 0) {
        result_begin_row(out);
        result_text(out, "refused (429, 503)");
        result_number(out, (double)refused);
        result_number(out, NONE);
        put_latency(out, &r->refused);
        result_end_row(out);
    }
    put_count(out, "partial success", r->partial);
    for (int i = 0; i < LOAD_MAX_STATUS; i++) {
        char text[32];

        snprintf(text, sizeof(text), "status %d", i);
        if (i / 100 != 2 && i != 429 && i != 503)
            put_count(out, text, r->status[i]);
    }
    put_count(out, "no answer", r->lost);
    put_count(out, "due, not sent", r->unsent);
    result_note(out,
                "%.1f s measured. Latency counts from when a request was due (without a rate: was "
                "sent); that of refusals from when it was sent.",
                r->seconds);
}

enum second_value { POINTS, REQUESTS, REFUSED, FAILED, P50, P99, MAX };

/* NONE where there was nothing to measure. */
static double value_of(const struct load_second *s, enum second_value v)
{
    switch (v) {
    case POINTS:
        return (double)s->points;
    case REQUESTS:
        return (double)s->requests;
    case REFUSED:
        return (double)s->refused;
    case FAILED:
        return (double)s->failed;
    case P50:
        return s->p50_ns > 0 ? ms(s->p50_ns) : NONE;
    case P99:
        return s->p99_ns > 0 ? ms(s->p99_ns) : NONE;
    case MAX:
        return s->max_ns > 0 ? ms(s->max_ns) : NONE;
    }
    return NONE;
}

struct over_time {
    const struct load_second *seconds;
    unsigned n;
    double *x, *y; /* room for n */
};

static void put_over_time(struct result *out, struct over_time *o, const char *label,
                          enum second_value v)
{
    for (unsigned i = 0; i < o->n; i++) {
        o->x[i] = i + 1;
        o->y[i] = value_of(&o->seconds[i], v);
    }
    result_series(out, label, o->x, o->y, o->n);
}

static void plot_over_time(struct result *out, struct over_time *o)
{
    uint64_t other = 0;

    for (unsigned i = 0; i < o->n; i++)
        other += o->seconds[i].refused + o->seconds[i].failed;
    result_panel(out, "Points accepted");
    put_over_time(out, o, "accepted", POINTS);
    result_plot(out, "seconds", "points/s", false, false);
    if (other > 0) {
        result_panel(out, "Answers");
        put_over_time(out, o, "accepted", REQUESTS);
        put_over_time(out, o, "refused (429, 503)", REFUSED);
        put_over_time(out, o, "failed", FAILED);
        result_plot(out, "seconds", "requests/s", false, false);
    }
    result_panel(out, "Latency by second");
    put_over_time(out, o, "p50", P50);
    put_over_time(out, o, "p99", P99);
    put_over_time(out, o, "max", MAX);
    result_plot(out, "seconds", "ms", false, true);
}

/* As far into the tail as the count of values carries. */
static void put_distribution(struct result *out, const char *label, const struct latencies *h)
{
    double x[MAX_STEPS], y[MAX_STEPS];
    unsigned n = 0;

    if (h->count == 0)
        return;
    while (n < MAX_STEPS) {
        double above = pow(10, -(double)n / STEPS_A_NINE);

        if (n > 0 && above * (double)h->count < 1)
            break;
        x[n] = 100 * (1 - above);
        y[n] = fmax(quantile_ms(h, 1 - above), 1e-6);
        n++;
    }
    result_series(out, label, x, y, n);
}

void load_report_fill(struct result *out, const struct load_result *r,
                      const struct load_second *seconds)
{
    struct over_time o = {.seconds = seconds, .n = r->n_by_second};

    put_rows(out, r);
    o.x = calloc(o.n + 1, sizeof(*o.x));
    o.y = calloc(o.n + 1, sizeof(*o.y));
    if (o.x != NULL && o.y != NULL && o.n > 0)
        plot_over_time(out, &o);
    free(o.x);
    free(o.y);
    result_panel(out, "Latency distribution");
    put_distribution(out, "accepted", &r->latency);
    put_distribution(out, "refused (429, 503)", &r->refused);
    result_plot_percentiles(out, "percentile", "ms");
}

/* --- progress --- */

void load_report_progress(void *unused, unsigned second, const struct load_second *what)
{
    (void)unused;
    fprintf(stderr, "\r%5u s  %10" PRIu64 " points/s  p99 %8.2f ms", second + 1, what->points,
            ms(what->p99_ns));
    if (what->refused > 0)
        fprintf(stderr, "  %" PRIu64 " refused", what->refused);
    if (what->failed > 0)
        fprintf(stderr, "  %" PRIu64 " failed", what->failed);
    fputs("\033[K", stderr);
    fflush(stderr);
}

void load_report_progress_end(void)
{
    fputs("\r\033[K", stderr);
    fflush(stderr);
}
