#include "null_sink.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "cli/units.h"
#include "otlite/clock.h"
#include "otlite/http.h"

enum {
    MAX_BODY_BYTES = 64 << 20,
    MAX_HEADER_BYTES = 16 << 10,
    MAX_READING_BYTES = 512 << 20,
    MAX_CONNECTIONS = 10000,
    IDLE_MS = 90000,
    REQUEST_MS = 30000,
    STOP_MS = 1000
};

static void answer(struct http_exchange *x, void *arg)
{
    (void)arg;
    /* An empty ExportMetricsServiceResponse: everything was taken. */
    http_reply(x, 200, "application/x-protobuf", bytes_of(NULL, 0));
}

static enum otl_err open_sink(const char *listen, unsigned loops, struct http_server **out,
                              struct otl_error *err)
{
    const char *const addresses[] = {listen, NULL};
    const struct http_route routes[] = {
        {.path = "/v1/metrics", .allow = "POST", .methods = HTTP_POST, .handle = answer},
        /* Where `otlite-bench load --encoding influx` sends. */
        {.path = "/write", .allow = "POST", .methods = HTTP_POST, .handle = answer},
        {.path = NULL},
    };
    static struct http_route kept[sizeof(routes) / sizeof(routes[0])]; /* the server borrows them */
    const struct http_opts o = {
        .listen = addresses,
        .loops = loops,
        .max_body_bytes = MAX_BODY_BYTES,
        .max_header_bytes = MAX_HEADER_BYTES,
        .max_reading_bytes = MAX_READING_BYTES,
        .max_connections = MAX_CONNECTIONS,
        .idle_timeout_ms = IDLE_MS,
        .request_timeout_ms = REQUEST_MS,
        .routes = kept,
    };

    memcpy(kept, routes, sizeof(kept));
    return http_start(&o, out, err);
}

/* SIGINT and SIGTERM, to be waited for; blocked here and in every thread that is started later. A
 * client that goes away is no reason to end. */
static bool block_ends(sigset_t *out)
{
    return signal(SIGPIPE, SIG_IGN) != SIG_ERR && sigemptyset(out) == 0 &&
           sigaddset(out, SIGINT) == 0 && sigaddset(out, SIGTERM) == 0 &&
           sigprocmask(SIG_BLOCK, out, NULL) == 0;
}

/* In the child: serve until told to end. Does not return. */
static void serve_for_parent(int to_parent, pid_t parent)
{
    struct http_server *server = NULL;
    struct otl_error err = {0};
    unsigned port = 0;
    sigset_t ends;
    int sig;

    if (!block_ends(&ends) || setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 ||
        getppid() != parent)
        _exit(EX_OSERR);
    if (open_sink("127.0.0.1:0", 0, &server, &err) == OTL_OK)
        port = http_port(server, 0);
    else
        fprintf(stderr, "otlite-bench: the null sink did not start: %s\n", err.msg);
    if (write(to_parent, &port, sizeof(port)) != (ssize_t)sizeof(port) || port == 0)
        _exit(EX_UNAVAILABLE);
    close(to_parent);
    while (sigwait(&ends, &sig) != 0) {
    }
    http_stop(server, STOP_MS);
    _exit(EX_OK);
}

enum otl_err null_sink_start(struct null_sink *out, struct otl_error *err)
{
    pid_t parent = getpid();
    struct null_sink s = {0};
    unsigned port = 0;
    ssize_t got;
    int ends[2];

    if (pipe(ends) != 0)
        return otl_fail(err, OTL_ESYSTEM, "pipe: %s", strerror(errno));
    (void)fflush(NULL); /* or the child would have a copy of what is not written yet */
    s.pid = fork();
    if (s.pid == 0) {
        close(ends[0]);
        serve_for_parent(ends[1], parent);
    }
    close(ends[1]);
    if (s.pid < 0) {
        close(ends[0]);
        return otl_fail(err, OTL_ESYSTEM, "fork: %s", strerror(errno));
    }
    do {
        got = read(ends[0], &port, sizeof(port));
    } while (got < 0 && errno == EINTR);
    close(ends[0]);
    if (got != (ssize_t)sizeof(port) || port == 0) {
        null_sink_stop(&s);
        return otl_fail(err, OTL_EIO, "the null sink did not start");
    }
    snprintf(s.url, sizeof(s.url), "http://127.0.0.1:%u/v1/metrics", port);
    *out = s;
    return OTL_OK;
}

void null_sink_stop(struct null_sink *s)
{
    if (s->pid <= 0)
        return;
    (void)kill(s->pid, SIGTERM);
    while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR) {
    }
    s->pid = 0;
}

static void print_help(FILE *out)
{
    fputs(
        "usage: otlite-bench null [OPTION...]\n"
        "\n"
        "Answer 200 to every POST of /v1/metrics and /write without looking at it, until SIGTERM\n"
        "or Ctrl-C. What remains when a load is sent here is the cost of the generator and of\n"
        "HTTP.\n"
        "\n"
        "  --listen ADDR:PORT   default 127.0.0.1:0, a free port\n"
        "  --loops N            event loops; default 0, one a core\n"
        "\n"
        "It prints one line, \"listening on 127.0.0.1:PORT\", when it serves.\n",
        out);
}

int null_main(int argc, char **argv)
{
    static const struct option options[] = {
        {"listen", required_argument, NULL, 'l'},
        {"loops", required_argument, NULL, 'n'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    const char *listen = "127.0.0.1:0", *colon;
    struct http_server *server;
    struct otl_error err = {0};
    int64_t loops = 0;
    sigset_t ends;
    int c, sig;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (c == 'h') {
            print_help(stdout);
            return EX_OK;
        }
        if (c == 'l') {
            listen = optarg;
        } else if (c != 'n' || !int_parse(optarg, &loops) || loops < 0 || loops > 256) {
            if (c == 'n')
                fprintf(stderr, "otlite-bench null: --loops takes 0 to 256, not '%s'\n", optarg);
            return EX_USAGE;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "otlite-bench null: unexpected argument '%s'\n", argv[optind]);
        return EX_USAGE;
    }
    if (!block_ends(&ends))
        return EX_OSERR;
    if (open_sink(listen, (unsigned)loops, &server, &err) != OTL_OK) {
        fprintf(stderr, "otlite-bench null: %s\n", err.msg);
        return EX_UNAVAILABLE;
    }
    colon = strrchr(listen, ':'); /* there, or it could not listen */
    printf("listening on %.*s:%u\n", (int)(colon - listen), listen, http_port(server, 0));
    (void)fflush(stdout);
    while (sigwait(&ends, &sig) != 0) {
    }
    http_stop(server, STOP_MS);
    return EX_OK;
}
