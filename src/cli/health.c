/* health.c -- ask a daemon whether it can commit now. A container's HEALTHCHECK, so it needs
 * nothing but this binary and ends by its own clock. */
#include <stdio.h>
#include <string.h>

#include "otlite/cli.h"

#include "cli/http_ask.h"
#include "cli/options.h"
#include "cli/units.h"

enum { ANSWER_MAX = 2048 };

static int unavailable(const struct http_target *t, const char *what)
{
    fprintf(stderr, "otlite health: http://%s/readyz: %s\n", t->shown, what);
    return EX_UNAVAILABLE;
}

/* First line of the answer's body, for people, with what is not printable as '.'. */
static void first_line(const struct buf *body, char out[160])
{
    size_t n = 0;

    for (; n < body->n && body->p[n] != '\n' && body->p[n] != '\0' && n < 159; n++)
        out[n] = body->p[n] < 0x20 || body->p[n] == 0x7f ? '.' : (char)body->p[n];
    out[n] = '\0';
}

static int ask(const struct http_target *t, int64_t timeout_ms)
{
    struct buf body = {0};
    struct otl_error err;
    char line[160], what[224];
    int status = 0, exit_status = EX_OK;

    if (http_ask(t, "/readyz", "", NULL, timeout_ms, ANSWER_MAX, &status, &body, &err) != OTL_OK) {
        exit_status = unavailable(t, err.msg);
    } else if (status != 200) {
        first_line(&body, line);
        snprintf(what, sizeof(what), "not ready, it answered %d%s%s", status,
                 line[0] == '\0' ? "" : ": ", line);
        exit_status = unavailable(t, what);
    }
    buf_fini(&body);
    return exit_status;
}

static int health_run(int argc, char **argv)
{
    const char *url = NULL, *timeout = "3s";
    const struct cli_flag flags[] = {
        {"url", "URL", "where the daemon is, as http://127.0.0.1:4318", &url},
        {"timeout", "DURATION", "give up after this [3s]", &timeout},
        {0},
    };
    const struct cli_spec spec = {
        .command = "health",
        .synopsis = "[--url URL] [--timeout DURATION]",
        .about = "Ask a daemon's /readyz. Exits with 0 when it can take and commit requests now,\n"
                 "otherwise with 69 and what it saw. Without --url it asks the first address of\n"
                 "the setting listen.",
        .common = CLI_CONFIG,
        .flags = flags,
    };
    struct config config;
    struct cli_args args;
    struct http_target t;
    int64_t timeout_ms;
    bool known;
    int status = cli_parse(&spec, argc, argv, &config, &args);

    if (status != CLI_GO)
        return status;
    known = url == NULL ? http_target_from_config(&config, &t) : http_target_parse(url, &t);
    config_fini(&config);
    if (!known && url != NULL)
        return cli_usage_error(spec.command, "--url %.80s: write it as http://HOST:PORT", url);
    if (!known)
        return cli_usage_error(spec.command, "the setting listen has no fixed port; use --url");
    if (!duration_parse(timeout, &timeout_ms) || timeout_ms < 1 || timeout_ms > 3600000)
        return cli_usage_error(spec.command,
                               "--timeout %.60s is no duration up to 1h; write it as 3s", timeout);
    return ask(&t, timeout_ms);
}

const struct cli_command cli_health = {"health", "Ask a daemon whether it is ready", health_run};
