/* reads.c -- `otlite-bench reads`: the same points into each system, the same questions to each,
 * every answer held against what is right.
 *
 * A system is loaded, and then asked cold (its process new, its files out of the page cache), warm,
 * and warm while 100,000 points a second come in. Points are made anew for each system; nothing
 * else is shared. */
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <time.h>

#include "child.h"
#include "daemon.h"
#include "otlite/clock.h"
#include "reads.h"
#include "result.h"

enum {
    INTERVAL_S = 10,
    MAX_RUNS = 99,
    LOAD_RATE = 100000,
    LOAD_SETTLE_S = 5, /* its series are known, and the head is filling */
    NS_IN_MS = 1000000
};

static const struct reads_system *const systems[] = {&reads_otlite, &reads_duckdb, &reads_victoria,
                                                     &reads_sqlite};
enum { SYSTEMS = sizeof(systems) / sizeof(systems[0]) };

struct settings {
    uint64_t points;
    uint32_t series;
    unsigned runs, jitter_ms;
    bool ingest;
    const char *names, *out, *peers, *scripts;
    const char *settings[64];
    unsigned n_settings;
};

/* Of one query, in ms; NAN: not asked. */
struct times {
    double cold, warm, ingest;
};

struct bench {
    const struct settings *s;
    struct series_gen_opts gen;
    struct reads_model *model;
    bool model_done;
    struct answer want, got;
    unsigned wrong; /* answers */
};

static enum otl_err make_points(struct bench *b, const struct reads_system *system, void *self,
                                double *out_seconds, struct otl_error *err)
{
    struct series_gen g;
    int64_t begin_ns = clock_mono_ns();
    enum otl_err rc = series_gen_init(&g, &b->gen, err);

    if (rc != OTL_OK)
        return rc;
    do {
        if (!b->model_done)
            reads_model_add(b->model, &g);
        rc = system->add(self, &g, err);
    } while (rc == OTL_OK && series_gen_next(&g));
    b->model_done = b->model_done || rc == OTL_OK;
    series_gen_fini(&g);
    if (rc == OTL_OK)
        rc = system->finish(self, err);
    *out_seconds = (double)(clock_mono_ns() - begin_ns) / (double)NS_PER_S;
    return rc;
}

/* It holds every point, by its own count. */
static enum otl_err check_count(const struct bench *b, const struct reads_system *system,
                                void *self, struct otl_error *err)
{
    double sum, want = reads_model_sum(b->model);
    uint64_t n;
    enum otl_err rc = system->count(self, &n, &sum, err);

    if (rc == OTL_OK && (n != b->s->points || fabs(sum - want) > 1e-9 * fabs(want)))
        rc = otl_fail(err, OTL_EBADDATA,
                      "%s holds %" PRIu64 " points of sum %.17g; stored were %" PRIu64 " of %.17g",
                      system->name, n, sum, b->s->points, want);
    return rc;
}

/* A query once; *ms of all its panels together, NAN when this is nothing for the system. */
static enum otl_err ask_once(struct bench *b, const struct reads_system *system, void *self,
                             unsigned query, double *ms, struct otl_error *err)
{
    int64_t sum_ns = 0, ns;

    *ms = (double)NAN;
    for (unsigned p = 0; p < reads_queries[query].n_panels; p++) {
        const struct panel *panel = &reads_queries[query].panels[p];
        enum otl_err rc;

        answer_reset(&b->got);
        rc = system->ask(self, panel, &b->got, &ns, err);
        if (rc == OTL_EMETHOD)
            return OTL_OK;
        if (rc != OTL_OK)
            return otl_wrap(err, "%s, %s, panel %u", system->name, reads_queries[query].name, p);
        sum_ns += ns;
        answer_reset(&b->want);
        reads_model_answer(b->model, query, p, &b->want);
        answer_sort(&b->got);
        if (!answer_equal(&b->want, &b->got, err)) {
            b->wrong++;
            fprintf(stderr, "otlite-bench reads: %s, %s, panel %u is wrong: %s\n", system->name,
                    reads_queries[query].name, p, err->msg);
        }
    }
    *ms = (double)sum_ns / NS_IN_MS;
    return OTL_OK;
}

static enum otl_err ask_often(struct bench *b, const struct reads_system *system, void *self,
                              unsigned query, double *ms, struct otl_error *err)
{
    double all[MAX_RUNS];
    enum otl_err rc = OTL_OK;

    for (unsigned i = 0; i < b->s->runs && rc == OTL_OK; i++)
        rc = ask_once(b, system, self, query, &all[i], err);
    if (rc == OTL_OK)
        *ms = isnan(all[0]) ? (double)NAN : median(all, b->s->runs);
    return rc;
}

static void sleep_s(unsigned s)
{
    struct timespec left = {.tv_sec = s};

    while (nanosleep(&left, &left) != 0) {
    }
}

/* A generator of our own sends on, until child_stop. */
static enum otl_err start_load(const struct reads_system *system, void *self, const char *dir,
                               struct child *out, struct otl_error *err)
{
    bool influx;
    const char *url = system->load_url(self, &influx);
    char program[4096], log[4200], rate[32];
    const char *argv[] = {program,
                          "load",
                          "--url",
                          url,
                          "--encoding",
                          influx ? "influx" : "proto",
                          "--points-rate",
                          rate,
                          "--connections",
                          "4",
                          "--duration",
                          "3600s",
                          NULL};
    enum otl_err rc = child_beside("otlite-bench", program, sizeof(program), err);

    snprintf(log, sizeof(log), "%s/load.log", dir);
    snprintf(rate, sizeof(rate), "%d", LOAD_RATE);
    if (rc == OTL_OK)
        rc = child_start(argv, log, false, out, err);
    if (rc == OTL_OK)
        sleep_s(LOAD_SETTLE_S);
    return rc;
}

static enum otl_err measure(struct bench *b, const struct reads_system *system, void *self,
                            const char *dir, struct times *t, struct otl_error *err)
{
    struct child load = {0};
    double ignored;
    enum otl_err rc = OTL_OK;

    for (unsigned q = 0; q < READS_QUERIES && rc == OTL_OK; q++) {
        rc = system->halt(self, err);
        if (rc != OTL_OK)
            break;
        directory_evict(dir);
        rc = system->resume(self, err);
        if (rc == OTL_OK)
            rc = ask_once(b, system, self, q, &t[q].cold, err);
    }
    for (unsigned q = 0; q < READS_QUERIES && rc == OTL_OK; q++) {
        rc = ask_once(b, system, self, q, &ignored, err);
        if (rc == OTL_OK)
            rc = ask_often(b, system, self, q, &t[q].warm, err);
    }
    if (rc != OTL_OK || !b->s->ingest || system->load_url == NULL)
        return rc;
    rc = start_load(system, self, dir, &load, err);
    for (unsigned q = 0; q < READS_QUERIES && rc == OTL_OK; q++)
        rc = ask_often(b, system, self, q, &t[q].ingest, err);
    child_stop(&load);
    return rc;
}

static void report(const struct bench *b, struct result *r, const struct reads_system *system,
                   const struct times *t)
{
    bool ours = system == &reads_otlite && b->s->points >= 100000000;

    for (unsigned q = 0; q < READS_QUERIES; q++) {
        double goal = ours ? reads_queries[q].goal_ms : (double)NAN;

        result_begin_row(r);
        result_text(r, reads_queries[q].title);
        result_text(r, system->name);
        result_number(r, t[q].cold);
        result_number(r, t[q].warm);
        result_number(r, t[q].ingest);
        result_number(r, t[q].ingest / t[q].warm);
        result_number(r, goal);
        result_text(r, !ours                         ? ""
                       : t[q].warm > goal            ? "not met"
                       : t[q].ingest > 2 * t[q].warm ? "met idle, not while ingesting"
                                                     : "met");
        result_end_row(r);
    }
}

static enum otl_err bench_system(struct bench *b, const struct reads_system *system,
                                 struct result *r, struct otl_error *err)
{
    struct reads_env env = {
        .gen = b->gen, .peers = b->s->peers, .scripts = b->s->scripts, .settings = b->s->settings};
    struct times t[READS_QUERIES];
    char dir[4096];
    void *self = NULL;
    double seconds = 0;
    enum otl_err rc;

    for (unsigned q = 0; q < READS_QUERIES; q++)
        t[q] = (struct times){(double)NAN, (double)NAN, (double)NAN};
    if (system->most_points != 0 && b->s->points > system->most_points) {
        result_note(r, "%s: not at more than %" PRIu64 " points.", system->name,
                    system->most_points);
        return OTL_OK;
    }
    rc = scratch_make(dir, sizeof(dir), err);
    if (rc != OTL_OK)
        return rc;
    env.dir = dir;
    rc = system->start(&env, &self, err);
    if (rc == OTL_ENOTFOUND) {
        result_note(r, "%s: %s (bench/peers/install.sh fetches it).", system->name, err->msg);
        scratch_remove(dir);
        return OTL_OK;
    }
    if (rc == OTL_OK) {
        fprintf(stderr, "== %s: %" PRIu64 " points\n", system->name, b->s->points);
        rc = make_points(b, system, self, &seconds, err);
    }
    if (rc == OTL_OK)
        rc = check_count(b, system, self, err);
    if (rc == OTL_OK) {
        double bytes = (double)system->bytes(self);

        fprintf(stderr, "== %s: asked\n", system->name);
        rc = measure(b, system, self, dir, t, err);
        report(b, r, system, t);
        result_note(r, "%s: loaded in %.0f s, %.2f bytes a point.", system->name, seconds,
                    bytes / (double)b->s->points);
    }
    system->stop(self);
    scratch_remove(dir);
    return rc;
}

static bool is_wanted(const struct settings *s, const struct reads_system *system)
{
    static const char *const keys[] = {"otlite", "duckdb", "victoria", "sqlite"};

    if (s->names == NULL)
        return true;
    for (unsigned i = 0; i < SYSTEMS; i++) {
        if (systems[i] == system)
            return strstr(s->names, keys[i]) != NULL;
    }
    return false;
}

static enum otl_err run(struct settings *s, const char *command, unsigned *out_wrong,
                        struct otl_error *err)
{
    static const struct result_column columns[] = {
        {"query", "query", -1},
        {"system", "system", -1},
        {"cold_ms", "cold, ms", 1},
        {"warm_ms", "warm, ms", 2},
        {"ingest_ms", "with 100,000 points/s coming in, ms", 2},
        {"ratio", "ratio of these", 2},
        {"goal_ms", "goal, ms", 0},
        {"verdict", "verdict", -1},
        {NULL, NULL, 0}};
    struct bench b = {.s = s};
    struct result *r = NULL;
    uint32_t intervals = (uint32_t)(s->points / s->series);
    int64_t now_s = clock_wall_ns() / NS_PER_S, length_s = (int64_t)intervals * INTERVAL_S;
    char name[64], title[128];
    enum otl_err rc;

    b.gen = (struct series_gen_opts){
        .mix = GEN_REALISTIC,
        .series = s->series,
        .intervals = intervals,
        .seed = 4,
        /* Whole hours back, so that windows of minutes and hours lie as a dashboard's do. */
        .start_ns = (now_s / 3600 * 3600 - (length_s + 3599) / 3600 * 3600) * NS_PER_S,
        .interval_ns = INTERVAL_S * NS_PER_S,
        .jitter_ms = s->jitter_ms,
    };
    snprintf(name, sizeof(name), "reads-%" PRIu64 "m", s->points / 1000000);
    snprintf(title, sizeof(title), "Reads of %" PRIu64 " million points in %" PRIu32 " series",
             s->points / 1000000, s->series);
    rc = reads_model_new(&b.gen, &b.model, err);
    if (rc == OTL_OK)
        rc = result_open(s->out, name, title, command, columns, &r, err);
    for (unsigned i = 0; i < SYSTEMS && rc == OTL_OK; i++) {
        if (is_wanted(s, systems[i]))
            rc = bench_system(&b, systems[i], r, err);
    }
    if (r != NULL) {
        result_note(
            r,
            "Cold: the process new, its files out of the page cache, the query the first one. "
            "Warm and with points coming in: medians of %u. Every answer was held against what is "
            "right; %u were wrong.",
            s->runs, b.wrong);
        if (rc == OTL_OK)
            rc = result_close(r, err);
    }
    *out_wrong = b.wrong;
    reads_model_free(b.model);
    answer_fini(&b.want);
    answer_fini(&b.got);
    return rc;
}

/* ---- arguments ---- */

static void print_help(FILE *out)
{
    fputs("usage: otlite-bench reads [OPTION...]\n\n"
          "Store the same points in otlite, DuckDB, VictoriaMetrics and plain SQLite rows, ask "
          "each what\n"
          "dashboards ask, and hold every answer against what is right.\n\n"
          "  --points N        1M, 10M, 100M [1M]\n"
          "  --series N        a multiple of 400 [10000]\n"
          "  --systems A,B     of otlite, duckdb, victoria, sqlite [all that are there]\n"
          "  --runs N          of each query, of which the median counts [5]\n"
          "  --jitter-ms N     a service sends up to this late [0]\n"
          "  --no-ingest       without the round in which points come in\n"
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

/* -1: go on. */
static int parse_arguments(int argc, char **argv, struct settings *s)
{
    enum { POINTS = 256, SERIES, NAMES, RUNS, JITTER, NO_INGEST, SET, PEERS, SCRIPTS, OUT, HELP };
    static const struct option options[] = {
        {"points", 1, NULL, POINTS},    {"series", 1, NULL, SERIES},
        {"systems", 1, NULL, NAMES},    {"runs", 1, NULL, RUNS},
        {"jitter-ms", 1, NULL, JITTER}, {"no-ingest", 0, NULL, NO_INGEST},
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
        if (c == POINTS)
            s->points = n;
        else if (c == SERIES)
            s->series = n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
        else if (c == RUNS)
            s->runs = n > MAX_RUNS ? MAX_RUNS : (unsigned)n;
        else if (c == JITTER)
            s->jitter_ms = (unsigned)strtoul(optarg, NULL, 10);
        else if (c == NO_INGEST)
            s->ingest = false;
        else if (c == NAMES)
            s->names = optarg;
        else if (c == PEERS)
            s->peers = optarg;
        else if (c == SCRIPTS)
            s->scripts = optarg;
        else if (c == OUT)
            s->out = optarg;
        else if (c == SET && s->n_settings + 1 < sizeof(s->settings) / sizeof(s->settings[0]))
            s->settings[s->n_settings++] = optarg;
        else {
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
    return -1;
}

int reads_main(int argc, char **argv)
{
    struct settings s = {
        .points = 1000000, .series = 10000, .runs = 5, .ingest = true, .scripts = "bench/peers"};
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
        rc = run(&s, buf_cstr(&command), &wrong, &err);
    buf_fini(&command);
    if (rc != OTL_OK) {
        fprintf(stderr, "otlite-bench reads: %s\n", err.msg);
        return EX_SOFTWARE;
    }
    return wrong > 0 ? EXIT_FAILURE : EX_OK;
}
