/* otlite-bench -- measures an OTLP metrics endpoint. One file a subcommand. */
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "limits.h"
#include "load.h"
#include "null_sink.h"
#include "promql.h"
#include "reads.h"
#include "reference.h"
#include "remote_write.h"
#include "storage.h"
#include "table.h"

static int version_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    puts("otlite-bench " OTLITE_VERSION);
    return EX_OK;
}

static const struct {
    const char *name, *summary;
    int (*run)(int argc, char **argv); /* argv[0] is the subcommand's name */
} commands[] = {
    {"limits", "measure what bounds otlite here: each stage alone", limits_main},
    {"load", "send points and report rate, latency and the daemon's CPU", load_main},
    {"maintain", "what sealing costs ingest, and latency while all maintenance runs",
     maintain_main},
    {"null", "answer 200 to everything, for the generator's own cost", null_main},
    {"overload", "offer five times the peak, and see what is stored", overload_main},
    {"promql", "ask otlite, Prometheus and VictoriaMetrics the same PromQL of the same points",
     promql_main},
    {"remote-write", "send samples by Prometheus' remote write", remote_write_main},
    {"reads", "store the same points in otlite and its peers, and ask each what dashboards ask",
     reads_main},
    {"reference", "do what published accounts did, and compare", reference_main},
    {"soak", "half the peak for half an hour: are memory, log and head flat?", soak_main},
    {"storage", "bytes a point beside VictoriaMetrics, and how long a start takes", storage_main},
    {"table", "report figures that a script collected", table_main},
    {"version", "print the version", version_main},
};

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void print_help(FILE *out)
{
    fputs("usage: otlite-bench COMMAND [OPTION...]\n\n", out);
    for (int i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].summary);
    fputs("\notlite-bench COMMAND --help says more. docs/performance.md explains the figures.\n",
          out);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return EX_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return EX_OK;
    }
    if (strcmp(argv[1], "--version") == 0)
        return version_main(0, NULL);
    for (int i = 0; i < COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    }
    fprintf(stderr, "otlite-bench: no command '%s'; see otlite-bench --help\n", argv[1]);
    return EX_USAGE;
}
