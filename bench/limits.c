/* limits.c -- `otlite-bench limits`: every stage alone and the whole, in turns, so that what else
 * the machine does in the meantime hits them alike; the medians, and what share of its slowest
 * stage the whole reaches. */
#include "limits.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "cli/units.h"
#include "otlite/bytes.h"
#include "otlite/clock.h"
#include "process.h"
#include "result.h"

enum { MAX_ROUNDS = 99, NAME_ROOM = 96 };

/* What the daemon's rate is to be of its slowest stage's (issue 3). */
static const double goal_share = 0.8;

struct stage {
    const char *name; /* a %u in it is the points of a transaction */
    stage_fn run;
    struct stage_opts opts;
    bool on_way;   /* a request of the whole goes through it */
    bool is_whole; /* not a stage: all of the daemon */
    bool is_sum;   /* not a stage either: several that come after each other */
};

static const struct stage stages[] = {
    {"memcpy of the bodies", stage_memcpy, {0}, .on_way = true},
    {"HTTP, body not looked at", stage_null_sink, {0}, .on_way = true},
    {"inflate of gzip bodies", stage_inflate, {0}, .on_way = false},
    {"decode protobuf, by protobuf-c", stage_protobuf, {0}, .on_way = false},
    {"decode protobuf, known series", stage_known, {0}, .on_way = true},
    {"decode JSON", stage_json, {0}, .on_way = false},
    {"catalogue, series looked up by attributes", stage_catalogue, {0}, .on_way = false},
    {"catalogue, numbers of known series", stage_catalogue, {.numbered = true}, .on_way = true},
    {"SQLite append, %u a transaction, normal", stage_append, {0}, .on_way = true},
    {"SQLite append, %u a transaction, normal", stage_append, {.points = 100}, .on_way = false},
    {"SQLite append, %u a transaction, normal", stage_append, {.points = 1000}, .on_way = false},
    {"SQLite append, %u a transaction, normal", stage_append, {.points = 8000}, .on_way = false},
    {"SQLite append, %u a transaction, full",
     stage_append,
     {.durability = DURABILITY_FULL},
     .on_way = false},
    {"SQLite append, %u a transaction, full",
     stage_append,
     {.points = 1000, .durability = DURABILITY_FULL},
     .on_way = false},
    {"SQLite append, %u a transaction, full",
     stage_append,
     {.points = 8000, .durability = DURABILITY_FULL},
     .on_way = false},
    {"store: catalogue, late points, append", stage_store, {.numbered = true}, .is_sum = true},
    {"the whole daemon over HTTP, normal", stage_daemon, {0}, .is_whole = true},
    {"the whole daemon over HTTP, full",
     stage_daemon,
     {.durability = DURABILITY_FULL},
     .on_way = false},
};

enum { STAGES = sizeof(stages) / sizeof(stages[0]) };

/* The figures of one stage, a round each. */
struct figures {
    double rate[MAX_ROUNDS], cpu_rate[MAX_ROUNDS];
    double median_rate, least, most, median_cpu_rate;
};

struct settings {
    struct limits_opts limits;
    unsigned rounds;
    const char *out;
    char command[160];
};

enum otl_err limits_repeat(const struct limits_opts *o, pass_fn pass, void *arg,
                           struct measure *out, struct otl_error *err)
{
    int64_t begin_ns = clock_mono_ns(), warm_ns = begin_ns + o->duration_ns / 5;
    uint64_t points = 0;
    double cpu;
    enum otl_err rc = OTL_OK;

    /* Two at least: what the first stores, the second finds there. */
    for (unsigned n = 0; rc == OTL_OK && (n < 2 || clock_mono_ns() < warm_ns); n++)
        rc = pass(arg, &points, err);
    points = 0;
    begin_ns = clock_mono_ns();
    cpu = process_own_cpu_seconds();
    while (rc == OTL_OK) {
        rc = pass(arg, &points, err);
        if (clock_mono_ns() - begin_ns >= o->duration_ns)
            break;
    }
    *out = (struct measure){.points = points,
                            .seconds = (double)(clock_mono_ns() - begin_ns) / 1e9,
                            .cpu_seconds = process_own_cpu_seconds() - cpu};
    return rc;
}

/* The same measurement as another stage's. */
static bool is_repeated(const struct stage *s, const struct limits_opts *o)
{
    return s->opts.points == o->points;
}

static void stage_name(const struct stage *s, const struct limits_opts *o, char out[NAME_ROOM])
{
    const char *mark = strstr(s->name, "%u");

    if (mark == NULL)
        snprintf(out, NAME_ROOM, "%s", s->name);
    else
        snprintf(out, NAME_ROOM, "%.*s%u%s", (int)(mark - s->name), s->name,
                 s->opts.points > 0 ? s->opts.points : o->points, mark + 2);
}

static enum otl_err run_stage(const struct settings *set, const struct stage *s, unsigned round,
                              struct figures *f, struct otl_error *err)
{
    char name[NAME_ROOM];
    struct measure m = {0};
    enum otl_err rc;

    stage_name(s, &set->limits, name);
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[Kround %u of %u: %s", round + 1, set->rounds, name);
    rc = s->run(&set->limits, &s->opts, &m, err);
    if (rc != OTL_OK)
        return otl_wrap(err, "%s", name);
    if (m.points == 0 || m.seconds <= 0)
        return otl_fail(err, OTL_EIO, "%s: nothing was done in the time; raise --duration", name);
    f->rate[round] = (double)m.points / m.seconds;
    f->cpu_rate[round] = m.cpu_seconds > 0 ? (double)m.points / m.cpu_seconds : (double)NAN;
    return OTL_OK;
}

static void summarise(struct figures *f, unsigned rounds)
{
    f->median_rate = median(f->rate, rounds); /* which leaves them in order */
    f->least = f->rate[0];
    f->most = f->rate[rounds - 1];
    for (unsigned i = 0; i < rounds; i++) {
        if (isnan(f->cpu_rate[i])) {
            f->median_cpu_rate = (double)NAN;
            return;
        }
    }
    f->median_cpu_rate = median(f->cpu_rate, rounds);
}

static void write_row(struct result *r, const struct settings *set, const struct stage *s,
                      const struct figures *f, double whole)
{
    char name[NAME_ROOM];

    stage_name(s, &set->limits, name);
    result_begin_row(r);
    result_text(r, name);
    result_number(r, f->median_rate);
    result_number(r, f->least);
    result_number(r, f->most);
    result_number(r, 1e9 / f->median_rate);
    result_number(r, f->median_cpu_rate);
    result_number(r, s->on_way || s->is_sum || s->is_whole ? 100 * whole / f->median_rate
                                                           : (double)NAN);
    result_end_row(r);
}

static void write_verdict(struct result *r, const struct settings *set, const struct figures *all,
                          double whole)
{
    const struct stage *slowest = NULL;
    double least = 0;
    char name[NAME_ROOM];

    for (int i = 0; i < STAGES; i++) {
        if (stages[i].on_way && (slowest == NULL || all[i].median_rate < least)) {
            slowest = &stages[i];
            least = all[i].median_rate;
        }
    }
    if (slowest == NULL)
        return;
    stage_name(slowest, &set->limits, name);
    result_note(r,
                "Slowest stage alone: %s. The whole, with the generator on the same cores, reaches "
                "%.0f %% of it; the goal is %.0f %%: %s.",
                name, 100 * whole / least, 100 * goal_share,
                whole >= goal_share * least ? "met" : "not met");
}

static enum otl_err report(const struct settings *set, struct figures *all, struct otl_error *err)
{
    static const struct result_column columns[] = {
        {"stage", "stage", -1},
        {"points_per_second", "points/s", 0},
        {"least", "least", 0},
        {"most", "most", 0},
        {"ns_per_point", "ns a point", 1},
        {"points_per_cpu_second", "points a CPU second", 0},
        {"share_percent", "the whole's share, %", 0},
        {NULL, NULL, 0},
    };
    struct result *r;
    double whole = (double)NAN;
    enum otl_err rc = result_open(set->out, "limits", "What bounds it: each stage alone",
                                  set->command, columns, &r, err);

    if (rc != OTL_OK)
        return rc;
    for (int i = 0; i < STAGES; i++) {
        if (is_repeated(&stages[i], &set->limits))
            continue;
        summarise(&all[i], set->rounds);
        if (stages[i].is_whole)
            whole = all[i].median_rate;
    }
    for (int i = 0; i < STAGES; i++) {
        if (!is_repeated(&stages[i], &set->limits))
            write_row(r, set, &stages[i], &all[i], whole);
    }
    write_verdict(r, set, all, whole);
    result_note(r,
                "Medians of %u rounds of %.1f s, all stages in turn in each round; %u points a "
                "request, %d series. Stages run on one thread, HTTP on the event loops that the "
                "daemon has.",
                set->rounds, (double)set->limits.duration_ns / 1e9, set->limits.points,
                (int)LIMITS_SERIES);
    return result_close(r, err);
}

static enum otl_err run_all(const struct settings *set, struct otl_error *err)
{
    struct figures *all = calloc(STAGES, sizeof(*all));
    enum otl_err rc = OTL_OK;

    if (all == NULL)
        return otl_fail(err, OTL_ENOMEM, "no memory for the figures");
    for (unsigned round = 0; round < set->rounds && rc == OTL_OK; round++) {
        for (int i = 0; i < STAGES && rc == OTL_OK; i++) {
            if (!is_repeated(&stages[i], &set->limits))
                rc = run_stage(set, &stages[i], round, &all[i], err);
        }
    }
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
    if (rc == OTL_OK)
        rc = report(set, all, err);
    free(all);
    return rc;
}

static void print_help(FILE *out)
{
    fputs(
        "usage: otlite-bench limits [OPTION...]\n"
        "\n"
        "Measure on this machine what bounds otlite: each stage of a request's way alone, and an\n"
        "otlite of its own (the one beside this program) with the generator beside it.\n"
        "\n"
        "  --out DIR        keep the table there: limits.json, limits.md\n"
        "  --points N       points a request; default 100\n"
        "  --duration TIME  of each measurement; default 1s\n"
        "  --rounds N       measurements of each stage; default 5\n"
        "\n"
        "Data goes to a directory under TMPDIR, which is removed.\n",
        out);
}

/* EX_OK to go on; -1 after --help. */
static int parse_arguments(int argc, char **argv, struct settings *set)
{
    static const struct option options[] = {
        {"out", required_argument, NULL, 'o'},      {"points", required_argument, NULL, 'p'},
        {"duration", required_argument, NULL, 'd'}, {"rounds", required_argument, NULL, 'r'},
        {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0},
    };
    int64_t points = 100, duration_ms = 1000, rounds = 5;
    int c, index = 0;

    while ((c = getopt_long(argc, argv, "h", options, &index)) != -1) {
        bool ok = true;

        if (c == 'h') {
            print_help(stdout);
            return -1;
        }
        if (c == '?') /* getopt has said what is wrong */
            return EX_USAGE;
        if (c == 'o')
            set->out = optarg;
        else if (c == 'p')
            ok = int_parse(optarg, &points) && points >= 1 && points <= 100000;
        else if (c == 'd')
            ok = duration_parse(optarg, &duration_ms) && duration_ms >= 1 && duration_ms <= 30000;
        else if (c == 'r')
            ok = int_parse(optarg, &rounds) && rounds >= 1 && rounds <= MAX_ROUNDS;
        if (!ok) {
            fprintf(stderr,
                    "otlite-bench limits: --%s does not take '%s'; see otlite-bench limits "
                    "--help\n",
                    options[index].name, optarg);
            return EX_USAGE;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "otlite-bench limits: unexpected argument '%s'\n", argv[optind]);
        return EX_USAGE;
    }
    set->limits = (struct limits_opts){(unsigned)points, duration_ms * NS_PER_MS};
    set->rounds = (unsigned)rounds;
    snprintf(set->command, sizeof(set->command),
             "otlite-bench limits --points %u --duration %lldms --rounds %u", set->limits.points,
             (long long)duration_ms, set->rounds);
    return EX_OK;
}

int limits_main(int argc, char **argv)
{
    struct settings set = {0};
    struct otl_error err = {0};
    int status = parse_arguments(argc, argv, &set);

    if (status != EX_OK)
        return status < 0 ? EX_OK : status;
    if (run_all(&set, &err) == OTL_OK)
        return EX_OK;
    fprintf(stderr, "otlite-bench limits: %s\n", err.msg);
    return err.code == OTL_ECONFIG ? EX_USAGE : EX_SOFTWARE;
}
