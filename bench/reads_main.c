/* reads_main.c -- the arguments of `otlite-bench reads`. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "child.h"
#include "reads.h"

static void print_help(FILE *out)
{
    fputs(
        "usage: otlite-bench reads [OPTION...]\n\n"
        "Store the same points in otlite, DuckDB, VictoriaMetrics and plain SQLite rows, ask "
        "each what\n"
        "dashboards ask, and hold every answer against what is right.\n\n"
        "  --points N        1M, 10M, 100M [1M]\n"
        "  --series N        a multiple of 400 [10000]\n"
        "  --systems A,B     of otlite, in-process (its file, read by this program), duckdb, "
        "victoria,\n"
        "                    sqlite [all that are there]\n"
        "  --runs N          of each query, of which the median counts [5]\n"
        "  --jitter-ms N     a service sends up to this late [0]\n"
        "  --no-ingest       without the round in which points come in\n"
        "  --data DIR        keep what is stored in DIR; what is there already is asked as it is\n"
        "                    (until a round in which points come in)\n"
        "  --store-only      with --data: ask nothing yet\n"
        "  --set KEY=VALUE   a setting for otlite\n"
        "  --peers DIR       where bench/peers/install.sh put the peers [peers beside this "
        "program]\n"
        "  --scripts DIR     bench/peers of the sources [bench/peers]\n"
        "  --out DIR         keep JSON and Markdown there\n",
        out);
}

/* "10M", "500k", "1000000". */
static bool parse_count(const char *text, uint64_t *out)
{
    char *end;
    unsigned long long v = strtoull(text, &end, 10);

    if (end == text || v == 0)
        return false;
    if (*end == 'k' || *end == 'K') {
        v *= 1000;
        end++;
    } else if (*end == 'm' || *end == 'M') {
        v *= 1000000;
        end++;
    }
    *out = v;
    return *end == '\0' && v <= UINT64_C(10000000000);
}

/* "otlite,duckdb" */
static bool parse_systems(const char *text, bool *out)
{
    memset(out, 0, READS_SYSTEMS * sizeof(*out));
    for (;;) {
        size_t n = strcspn(text, ",");
        unsigned i = 0;

        while (i < READS_SYSTEMS &&
               (strlen(reads_systems[i]->key) != n || strncmp(reads_systems[i]->key, text, n) != 0))
            i++;
        if (i == READS_SYSTEMS) {
            fprintf(stderr,
                    "otlite-bench reads: '%.*s' is none of the systems; --help names them\n",
                    (int)n, text);
            return false;
        }
        out[i] = true;
        if (text[n] == '\0')
            return true;
        text += n + 1;
    }
}

/* -1: go on. */
static int parse_arguments(int argc, char **argv, struct reads_opts *s)
{
    enum {
        POINTS = 256,
        SERIES,
        NAMES,
        RUNS,
        JITTER,
        NO_INGEST,
        DATA,
        STORE_ONLY,
        SET,
        PEERS,
        SCRIPTS,
        OUT,
        HELP
    };
    static const struct option options[] = {
        {"points", 1, NULL, POINTS},    {"series", 1, NULL, SERIES},
        {"systems", 1, NULL, NAMES},    {"runs", 1, NULL, RUNS},
        {"jitter-ms", 1, NULL, JITTER}, {"no-ingest", 0, NULL, NO_INGEST},
        {"data", 1, NULL, DATA},        {"store-only", 0, NULL, STORE_ONLY},
        {"set", 1, NULL, SET},          {"peers", 1, NULL, PEERS},
        {"scripts", 1, NULL, SCRIPTS},  {"out", 1, NULL, OUT},
        {"help", 0, NULL, HELP},        {0}};
    uint64_t n = 0;
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        bool number = c == POINTS || c == SERIES || c == RUNS;

        if (c == HELP) {
            print_help(stdout);
            return EX_OK;
        }
        if (number && !parse_count(optarg, &n)) {
            fprintf(stderr, "otlite-bench reads: '%s' is no number above 0\n", optarg);
            return EX_USAGE;
        }
        if (c == NAMES && !parse_systems(optarg, s->systems))
            return EX_USAGE;
        if (c == POINTS)
            s->points = n;
        else if (c == SERIES)
            s->series = n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
        else if (c == RUNS)
            s->runs = n > READS_MOST_RUNS ? READS_MOST_RUNS : (unsigned)n;
        else if (c == JITTER)
            s->jitter_ms = (unsigned)strtoul(optarg, NULL, 10);
        else if (c == NO_INGEST)
            s->ingest = false;
        else if (c == DATA)
            s->data = optarg;
        else if (c == STORE_ONLY)
            s->ask = false;
        else if (c == PEERS)
            s->peers = optarg;
        else if (c == SCRIPTS)
            s->scripts = optarg;
        else if (c == OUT)
            s->out = optarg;
        else if (c == SET && s->n_settings < READS_MOST_SETTINGS)
            s->settings[s->n_settings++] = optarg;
        else if (c != NAMES) {
            print_help(stderr);
            return EX_USAGE;
        }
    }
    if (optind < argc || s->points % s->series != 0 || s->points / s->series > UINT32_MAX) {
        fputs("otlite-bench reads: --points must be a multiple of --series, and nothing may follow "
              "the options\n",
              stderr);
        return EX_USAGE;
    }
    if (!s->ask && s->data == NULL) {
        fputs("otlite-bench reads: --store-only needs --data, or what is stored is gone\n", stderr);
        return EX_USAGE;
    }
    return -1;
}

int reads_main(int argc, char **argv)
{
    struct reads_opts s = {.points = 1000000,
                           .series = 10000,
                           .runs = 5,
                           .ingest = true,
                           .ask = true,
                           .systems = {true, true, true, true, true},
                           .scripts = "bench/peers"};
    char peers[4096];
    struct buf command = {0};
    struct otl_error err = {0};
    unsigned wrong = 0;
    int status;
    enum otl_err rc;

    buf_add_str(&command, "otlite-bench");
    for (int i = 0; i < argc; i++)
        buf_printf(&command, " %s", argv[i]);
    status = parse_arguments(argc, argv, &s);
    if (status >= 0) {
        buf_fini(&command);
        return status;
    }
    rc = child_beside("peers", peers, sizeof(peers), &err);
    if (s.peers == NULL)
        s.peers = peers;
    if (rc == OTL_OK)
        rc = reads_run(&s, buf_cstr(&command), &wrong, &err);
    buf_fini(&command);
    if (rc != OTL_OK) {
        fprintf(stderr, "otlite-bench reads: %s\n", err.msg);
        return EX_SOFTWARE;
    }
    return wrong > 0 ? EXIT_FAILURE : EX_OK;
}
