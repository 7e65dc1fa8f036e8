/* check.c -- otlite check: every page, row and chunk of telemetry.db looked at once. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "otlite/check.h"
#include "otlite/cli.h"
#include "otlite/clock.h"

#include "cli/open_reader.h"
#include "cli/options.h"

enum { MOST_SHOWN = 50, PROGRESS_NS = NS_PER_S / 5 };

struct output {
    uint64_t shown;
    int64_t next_progress_ns;
};

static void clear_line(void)
{
    if (isatty(STDERR_FILENO) == 1)
        fprintf(stderr, "%-60s\r", "");
}

static void print_fault(void *arg, const char *what)
{
    struct output *o = arg;

    if (o->shown++ >= MOST_SHOWN)
        return;
    clear_line();
    printf("%s\n", what);
}

static void print_progress(void *arg, const char *step, double done)
{
    struct output *o = arg;
    int64_t now = clock_mono_ns();

    if (isatty(STDERR_FILENO) != 1 || now < o->next_progress_ns)
        return;
    o->next_progress_ns = now + PROGRESS_NS;
    if (done < 0)
        fprintf(stderr, "%-60s\r", step);
    else
        fprintf(stderr, "%-20s %3.0f %%%35s\r", step, done * 100, "");
}

static int check_run(int argc, char **argv)
{
    static const struct cli_spec spec = {
        .command = "check",
        .synopsis = "[--data DIR]",
        .about =
            "Read all of telemetry.db and say what is damaged: pages and indexes, references,\n"
            "rows of the head, and every chunk by its checksums and its content. In one\n"
            "snapshot, also beside a running daemon. Exit status 0: nothing, 65: faults, each on\n"
            "a line (the first 50).",
        .common = CLI_DATA | CLI_CONFIG,
    };
    struct output out = {0};
    const struct check_report report = {&out, print_fault, print_progress};
    struct check_counts n;
    struct otl_error err = {0};
    struct config config;
    struct cli_args args;
    struct db db;
    bool have_state;
    enum otl_err rc;
    int status = cli_parse(&spec, argc, argv, &config, &args);

    if (status != CLI_GO)
        return status;
    rc = cli_open_reader(&config, &db, &have_state, &err);
    if (rc == OTL_OK)
        rc = check_database(&db, &report, &n, &err);
    db_close(&db);
    config_fini(&config);
    clear_line();
    if (rc != OTL_OK)
        return cli_error("check", &err);
    if (n.faults > MOST_SHOWN)
        printf("... and %" PRIu64 " more\n", n.faults - MOST_SHOWN);
    printf("%" PRIu64 " pages, %" PRIu64 " series, %" PRIu64 " rows in the head, %" PRIu64
           " parts with %" PRIu64 " blocks, %" PRIu64 " chunks and %" PRIu64 " points: ",
           n.pages, n.series, n.head_rows, n.parts, n.blocks, n.chunks, n.points);
    if (n.faults == 0)
        printf("all is well\n");
    else
        printf("%" PRIu64
               " %s; restore from a backup, or keep what can be read with otlite export\n",
               n.faults, n.faults == 1 ? "fault" : "faults");
    if (n.garbage_blocks > 0)
        printf("%" PRIu64 " blocks wait to be deleted, which the daemon does by itself\n",
               n.garbage_blocks);
    return n.faults == 0 ? EX_OK : EX_DATAERR;
}

const struct cli_command cli_check = {"check", "Verify every page, row and chunk", check_run};
