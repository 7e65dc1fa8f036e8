/* query.c -- otlite query: a PromQL expression on a data directory or a running daemon. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "otlite/cli.h"
#include "otlite/clock.h"
#include "otlite/query.h"

#include "cli/http_ask.h"
#include "cli/open_read.h"
#include "cli/open_reader.h"
#include "cli/options.h"
#include "cli/query_opts.h"
#include "cli/query_result.h"

enum { CACHE_BYTES = 64 << 20, ANSWER_BYTES = 1 << 30, CHART_ROWS = 16, DEFAULT_STEPS = 120 };

struct options {
    const char *range, *step, *time, *format, *url, *token;
};

/* The question as parameters; texts live as long as this. */
struct question {
    const char *expr;
    bool is_range;
    char start[32], end[32], step[32];
    struct query_param params[4];
    size_t n;
};

static void add_param(struct question *q, const char *name, const char *value)
{
    q->params[q->n++] = (struct query_param){bytes_str(name), bytes_str(value)};
}

/* --range 1h [--step 15s] [--time T], or an instant. Returns an exit status, or CLI_GO. */
static int make_question(const struct options *o, const char *expr, struct question *q)
{
    int64_t now_ns = clock_wall_ns(), at_ns = now_ns, range_ms, step_ms;

    q->expr = expr;
    if (o->time != NULL && !time_parse(o->time, now_ns, &at_ns))
        return cli_usage_error("query",
                               "--time %.60s: a time as 2026-01-31T12:00:00Z, seconds since 1970, "
                               "or how long ago, as 1h",
                               o->time);
    snprintf(q->end, sizeof(q->end), "%.3f", (double)(at_ns / NS_PER_MS) / 1000);
    add_param(q, "query", expr);
    if (o->range == NULL) {
        if (o->step != NULL)
            return cli_usage_error("query", "--step goes with --range");
        add_param(q, "time", q->end);
        return CLI_GO;
    }
    if (!query_duration(bytes_str(o->range), &range_ms) || range_ms <= 0)
        return cli_usage_error("query", "--range %.60s is no duration; write it as 1h", o->range);
    step_ms = range_ms / DEFAULT_STEPS > 1000 ? range_ms / DEFAULT_STEPS / 1000 * 1000 : 1000;
    if (o->step != NULL && (!query_duration(bytes_str(o->step), &step_ms) || step_ms <= 0))
        return cli_usage_error("query", "--step %.60s is no duration; write it as 15s", o->step);
    q->is_range = true;
    snprintf(q->start, sizeof(q->start), "%.3f", (double)(at_ns / NS_PER_MS - range_ms) / 1000);
    snprintf(q->step, sizeof(q->step), "%.3f", (double)step_ms / 1000);
    add_param(q, "start", q->start);
    add_param(q, "end", q->end);
    add_param(q, "step", q->step);
    return CLI_GO;
}

/* ---- asking ---- */

static enum otl_err ask_directory(const struct config *config, const struct question *q,
                                  struct buf *answer, struct otl_error *err)
{
    struct query_opts o;
    struct query_engine *engine = NULL;
    struct read_shared *shared = NULL;
    struct read_session *session = NULL;
    struct db db = {0};
    bool has_state;
    enum otl_err rc = cli_open_reader(config, &db, &has_state, err);
    const struct query_request r = {.endpoint = q->is_range ? QUERY_RANGE : QUERY_INSTANT,
                                    .params = q->params,
                                    .n_params = q->n,
                                    .now_ms = clock_wall_ns() / NS_PER_MS};

    cli_query_opts(config, &o);
    if (rc == OTL_OK)
        rc = query_engine_new(&o, &engine, err);
    if (rc == OTL_OK)
        rc = read_shared_new(NULL, CACHE_BYTES, &shared, err);
    if (rc == OTL_OK)
        rc = read_session_open(shared, &db, &session, err);
    if (rc == OTL_OK)
        (void)query_answer(engine, session, true, &r, answer); /* an error is in the answer */
    if (session != NULL)
        read_session_close(session);
    if (shared != NULL)
        read_shared_free(shared);
    query_engine_free(engine);
    db_close(&db);
    return rc;
}

static void add_escaped(struct buf *out, struct bytes text)
{
    for (size_t i = 0; i < text.n; i++) {
        uint8_t c = text.p[i];

        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
            buf_add_char(out, (char)c);
        else
            buf_printf(out, "%%%02X", c);
    }
}

static enum otl_err ask_daemon(const struct config *config, const struct options *o,
                               const struct question *q, struct buf *answer, struct otl_error *err)
{
    struct http_target t;
    struct buf form = {0}, headers = {0};
    int status;
    enum otl_err rc;

    if (!http_target_parse(o->url, &t))
        return otl_fail(err, OTL_ECONFIG, "--url %.80s: write it as http://HOST:PORT", o->url);
    for (size_t i = 0; i < q->n; i++) {
        if (i > 0)
            buf_add_char(&form, '&');
        buf_add_bytes(&form, q->params[i].name);
        buf_add_char(&form, '=');
        add_escaped(&form, q->params[i].value);
    }
    if (o->token != NULL)
        buf_printf(&headers, "Authorization: Bearer %s\r\n", o->token);
    rc = form.failed || headers.failed
             ? otl_fail(err, OTL_ENOMEM, "no memory")
             : http_ask(&t, q->is_range ? "/api/v1/query_range" : "/api/v1/query",
                        buf_cstr(&headers), buf_cstr(&form), config->query_timeout + 5000,
                        ANSWER_BYTES, &status, answer, err);
    buf_fini(&form);
    buf_fini(&headers);
    return rc == OTL_OK ? rc : otl_wrap(err, "http://%s", t.shown);
}

/* ---- showing ---- */

static void terminal(unsigned *width, bool *color)
{
    struct winsize size;

    *color = isatty(STDOUT_FILENO) == 1 && getenv("NO_COLOR") == NULL;
    *width = 80;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40)
        *width = size.ws_col;
}

static enum otl_err show(const struct options *o, struct bytes json, struct otl_error *err)
{
    struct arena arena;
    struct query_result r;
    struct bytes error;
    unsigned width;
    bool color;
    enum otl_err rc;

    arena_init(&arena, 2ULL * ANSWER_BYTES);
    rc = query_result_read(&arena, json, &r, &error, err);
    if (rc == OTL_OK && error.n > 0)
        rc = otl_fail(err, OTL_EBADREQUEST, "%.*s", (int)(error.n < 480 ? error.n : 480),
                      (const char *)error.p);
    if (rc == OTL_OK) {
        if (strcmp(o->format, "json") == 0) {
            fwrite(json.p, 1, json.n, stdout);
            putchar('\n');
        } else if (strcmp(o->format, "csv") == 0) {
            query_print_csv(&r, stdout);
        } else if (strcmp(o->format, "chart") == 0) {
            terminal(&width, &color);
            query_print_chart(&r, stdout, width, CHART_ROWS, color);
        } else {
            query_print_table(&r, stdout);
        }
        for (size_t i = 0; i < r.n_notes; i++)
            fprintf(stderr, "otlite query: %.*s\n", (int)r.notes[i].n, (const char *)r.notes[i].p);
    }
    arena_fini(&arena);
    return rc;
}

static int query_run(int argc, char **argv)
{
    struct options o = {.format = "table"};
    const struct cli_flag flags[] = {
        {"range", "DURATION", "over so long a time, not at one moment", &o.range},
        {"step", "DURATION", "with --range: between two values [a 120th of it]", &o.step},
        {"time", "TIME", "at this moment, or up to it [now]", &o.time},
        {"format", "FORMAT", "table, json, csv or chart [table]", &o.format},
        {"url", "URL", "ask the daemon there, as http://127.0.0.1:4318", &o.url},
        {"token", "TOKEN", "with --url: a token with the scope read [OTLITE_TOKEN]", &o.token},
        {0},
    };
    const struct cli_spec spec = {
        .command = "query",
        .synopsis = "[--range DURATION [--step DURATION]] [--time TIME] [--format FORMAT] EXPR",
        .about =
            "Answer a PromQL expression from a data directory, beside a daemon or without one, or\n"
            "from a daemon with --url. Times are UTC.\n"
            "  otlite query 'sum by (service) (rate(http_server_requests_total[5m]))' \\\n"
            "    --range 1h --format chart",
        .common = CLI_DATA | CLI_CONFIG,
        .flags = flags,
        .min_args = 1,
        .max_args = 1,
    };
    struct question q = {0};
    struct buf answer = {0};
    struct otl_error err = {0};
    struct config config;
    struct cli_args args;
    enum otl_err rc;
    int status = cli_parse(&spec, argc, argv, &config, &args);

    if (status != CLI_GO)
        return status;
    if (o.token == NULL)
        o.token = getenv("OTLITE_TOKEN");
    status = make_question(&o, args.v[0], &q);
    if (status == CLI_GO && strcmp(o.format, "table") != 0 && strcmp(o.format, "json") != 0 &&
        strcmp(o.format, "csv") != 0 && strcmp(o.format, "chart") != 0)
        status = cli_usage_error("query", "--format %.60s: table, json, csv or chart", o.format);
    if (status == CLI_GO && strcmp(o.format, "chart") == 0 && !q.is_range)
        status = cli_usage_error("query", "--format chart needs --range");
    if (status == CLI_GO) {
        rc = o.url != NULL ? ask_daemon(&config, &o, &q, &answer, &err)
                           : ask_directory(&config, &q, &answer, &err);
        if (rc == OTL_OK && answer.failed)
            rc = otl_fail(&err, OTL_ENOMEM, "no memory for the answer");
        if (rc == OTL_OK)
            rc = show(&o, buf_bytes(&answer), &err);
        status = rc == OTL_OK ? EX_OK : cli_error("query", &err);
    }
    buf_fini(&answer);
    config_fini(&config);
    return status;
}

const struct cli_command cli_query = {"query", "Answer a PromQL expression", query_run};
