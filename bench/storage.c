/* storage.c -- `otlite-bench storage`: bytes a point on disk beside VictoriaMetrics, and how long a
 * start takes over files of many points and of many series. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "child.h"
#include "cli/units.h"
#include "daemon.h"
#include "http_post.h"
#include "otlite/clock.h"
#include "reads.h"
#include "result.h"
#include "storage.h"

#define UNKNOWN ((double)NAN)
#define MIB     1048576.0

enum {
    INTERVAL_S = 10,
    DAY_S = 86400,
    MAX_SETTINGS = 16,
    STARTS = 3, /* of each kind, of which the median counts */
    MANY_INTERVALS = 2
};

/* What is stored, in this order. */
enum { OTLITE, OTLITE_RAW, VICTORIA, OTLITE_IDLE, OTLITE_IDLE_RAW, VICTORIA_IDLE, CASES };

struct storage_opts {
    int64_t points, series, many_series;
    const char *out, *peers;
    const char *settings[MAX_SETTINGS + 1]; /* ends with NULL */
    unsigned n_settings;
};

struct storage_run {
    struct storage_opts o;
    char dir[4096];
    struct result *bytes, *starts;
    bool broken; /* points are missing, or there are more than were sent */
    double bytes_per_point[CASES];
};

static const char *const mix_names[] = {[GEN_PLAIN] = "half counters", [GEN_IDLE] = "idle"};

/* ---- what is stored ---- */

/* Days that are over, from a midnight on: then the layout does not depend on when this runs. */
static struct series_gen_opts points_of(const struct storage_opts *o, enum gen_mix mix)
{
    int64_t intervals = o->points / o->series;
    int64_t days = (intervals * INTERVAL_S + DAY_S - 1) / DAY_S;
    int64_t today = clock_wall_ns() / NS_PER_S / DAY_S;

    return (struct series_gen_opts){
        .mix = mix,
        .series = (uint32_t)o->series,
        .intervals = (uint32_t)(intervals < 1 ? 1 : intervals),
        .seed = 1,
        .start_ns = (today - days) * DAY_S * NS_PER_S,
        .interval_ns = INTERVAL_S * NS_PER_S,
    };
}

static double points_in(const struct series_gen_opts *g)
{
    return (double)g->series * g->intervals;
}

static enum otl_err make_dir(const struct storage_run *run, const char *name, char *out, size_t n,
                             struct otl_error *err)
{
    if (snprintf(out, n, "%s/%s", run->dir, name) >= (int)n)
        return otl_fail(err, OTL_ECONFIG, "TMPDIR is too long");
    if (mkdir(out, 0700) != 0)
        return otl_fail(err, OTL_EIO, "%.256s: %s", out, strerror(errno));
    return OTL_OK;
}

static void remove_dir(const struct storage_run *run, const char *name)
{
    char path[4200];

    snprintf(path, sizeof(path), "%s/%s", run->dir, name);
    scratch_remove(path);
}

/* ---- bytes ---- */

static void report_bytes(struct storage_run *run, const struct series_gen_opts *g,
                         const char *system, const struct storage_bytes *b, double feed_s,
                         double merge_s)
{
    double points = points_in(g);
    struct result *r = run->bytes;
    bool known = b->raw > 0; /* where they are */

    result_begin_row(r);
    result_text(r, mix_names[g->mix]);
    result_text(r, system);
    result_number(r, (double)b->points);
    result_number(r, (double)b->files / MIB);
    result_number(r, (double)b->files / points);
    result_number(r, known ? (double)b->raw / points : UNKNOWN);
    result_number(r, known ? (double)b->rollups / points : UNKNOWN);
    result_number(r, known ? (double)b->catalogue / points : UNKNOWN);
    result_number(r, known ? (double)(b->free + b->rest) / points : UNKNOWN);
    result_number(r, points / feed_s);
    result_number(r, merge_s);
    result_end_row(r);
    if (b->points != (int64_t)g->series * g->intervals) {
        run->broken = true;
        result_note(r, "%s holds %.0f points of %s and was sent %.0f.", system, (double)b->points,
                    mix_names[g->mix], points);
    }
}

/* All points in, merged, counted, and the process ended. */
static enum otl_err fill(const struct reads_system *system, void *self,
                         const struct series_gen_opts *o, struct storage_bytes *out,
                         double *out_feed_s, double *out_merge_s, struct otl_error *err)
{
    struct series_gen g;
    int64_t begin_ns = clock_mono_ns();
    uint64_t points = 0;
    double sum;
    enum otl_err rc = series_gen_init(&g, o, err);

    if (rc != OTL_OK)
        return rc;
    do {
        rc = system->add(self, &g, err);
    } while (rc == OTL_OK && series_gen_next(&g));
    series_gen_fini(&g);
    *out_feed_s = (double)(clock_mono_ns() - begin_ns) / 1e9;
    begin_ns = clock_mono_ns();
    if (rc == OTL_OK)
        rc = system->finish(self, err);
    *out_merge_s = (double)(clock_mono_ns() - begin_ns) / 1e9;
    if (rc == OTL_OK)
        rc = system->count(self, &points, &sum, err);
    if (rc == OTL_OK)
        rc = system->halt(self, err);
    *out = (struct storage_bytes){.points = (int64_t)points};
    if (rc == OTL_OK)
        out->files = (int64_t)system->bytes(self);
    return rc;
}

/* In a directory `name` of the scratch one. *out: bytes a point of its files. */
static enum otl_err measure(struct storage_run *run, const struct reads_system *system,
                            const char *name, enum gen_mix mix, bool rollups, double *out,
                            struct otl_error *err)
{
    const char *settings[MAX_SETTINGS + 2] = {rollups ? "rollups=true" : "rollups=false"};
    struct reads_env env = {
        .gen = points_of(&run->o, mix), .peers = run->o.peers, .settings = settings};
    struct storage_bytes b = {0};
    double feed_s = 0, merge_s = 0;
    char dir[4200], data[4300];
    void *self = NULL;
    enum otl_err rc = make_dir(run, name, dir, sizeof(dir), err);

    if (rc != OTL_OK)
        return rc;
    memcpy(settings + 1, run->o.settings, sizeof(run->o.settings)); /* the later one counts */
    env.dir = dir;
    rc = system->start(&env, &self, err);
    if (rc == OTL_ENOTFOUND) {
        result_note(run->bytes, "%s was not there; bench/peers/install.sh fetches it.",
                    system->name);
        return OTL_OK;
    }
    if (rc == OTL_OK)
        rc = fill(system, self, &env.gen, &b, &feed_s, &merge_s, err);
    system->stop(self);
    if (rc == OTL_OK && system == &reads_otlite) {
        snprintf(data, sizeof(data), "%s/data", dir);
        rc = storage_bytes_add(data, &b, err);
    }
    if (rc != OTL_OK)
        return rc;
    report_bytes(run, &env.gen, rollups ? system->name : "otlite, rollups=false", &b, feed_s,
                 merge_s);
    *out = (double)b.files / points_in(&env.gen);
    return OTL_OK;
}

/* ---- starts ---- */

/* From the fork on until /healthz and /readyz both answer 200: it listens, and has committed. */
static enum otl_err time_start(const struct storage_run *run, const char *data, double *out_s,
                               struct otl_error *err)
{
    static const char *const heads[] = {"GET /healthz HTTP/1.1\r\nHost: otlite\r\n",
                                        "GET /readyz HTTP/1.1\r\nHost: otlite\r\n"};
    struct daemon d = {0};
    struct http_client c;
    struct http_url url;
    struct buf wire = {0};
    int64_t begin_ns = clock_mono_ns();
    const struct daemon_opts opts = {.data_dir = data, .settings = run->o.settings};
    enum otl_err rc = daemon_start(&opts, &d, err);

    http_client_init(&c);
    if (rc == OTL_OK)
        rc = http_url_parse(d.url, &url, err);
    for (int i = 0; i < 2 && rc == OTL_OK; i++)
        rc = http_post(&c, &url, &wire, heads[i], bytes_of(NULL, 0), err);
    *out_s = (double)(clock_mono_ns() - begin_ns) / 1e9;
    http_client_fini(&c);
    buf_fini(&wire);
    (void)daemon_stop(&d);
    return rc;
}

static enum otl_err measure_starts(struct storage_run *run, const char *data, double series,
                                   double points, double *out_cold_s, struct otl_error *err)
{
    double cold[STARTS], warm[STARTS];
    uint64_t bytes = directory_bytes(data);
    struct result *r = run->starts;
    enum otl_err rc = OTL_OK;

    for (int i = 0; i < STARTS && rc == OTL_OK; i++) {
        directory_evict(data);
        rc = time_start(run, data, &cold[i], err);
        if (rc == OTL_OK)
            rc = time_start(run, data, &warm[i], err);
    }
    if (rc != OTL_OK)
        return rc;
    *out_cold_s = median(cold, STARTS);
    result_begin_row(r);
    result_number(r, series);
    result_number(r, points);
    result_number(r, (double)bytes / MIB);
    result_number(r, median(warm, STARTS));
    result_number(r, *out_cold_s);
    result_end_row(r);
    return OTL_OK;
}

/* ---- everything ---- */

static enum otl_err run_bytes(struct storage_run *run, struct otl_error *err)
{
    static const struct {
        const char *dir;
        const struct reads_system *system;
        enum gen_mix mix;
        bool rollups;
    } cases[CASES] = {
        [OTLITE] = {"otlite", &reads_otlite, GEN_PLAIN, true},
        [OTLITE_RAW] = {"otlite-raw", &reads_otlite, GEN_PLAIN, false},
        [VICTORIA] = {"victoria", &reads_victoria, GEN_PLAIN, true},
        [OTLITE_IDLE] = {"otlite-idle", &reads_otlite, GEN_IDLE, true},
        [OTLITE_IDLE_RAW] = {"otlite-idle-raw", &reads_otlite, GEN_IDLE, false},
        [VICTORIA_IDLE] = {"victoria-idle", &reads_victoria, GEN_IDLE, true},
    };
    enum otl_err rc = OTL_OK;

    for (int i = 0; i < CASES && rc == OTL_OK; i++) {
        rc = measure(run, cases[i].system, cases[i].dir, cases[i].mix, cases[i].rollups,
                     &run->bytes_per_point[i], err);
        if (i != OTLITE) /* whose starts are timed */
            remove_dir(run, cases[i].dir);
    }
    return rc;
}

static enum otl_err run_starts(struct storage_run *run, double *out_points_s, double *out_series_s,
                               struct otl_error *err)
{
    struct series_gen_opts g = points_of(&run->o, GEN_PLAIN);
    struct storage_opts many = run->o;
    struct reads_env env = {.settings = run->o.settings};
    struct storage_bytes b;
    double feed_s, merge_s;
    char dir[4200], data[4300];
    void *self = NULL;
    enum otl_err rc;

    snprintf(data, sizeof(data), "%s/otlite/data", run->dir);
    rc = measure_starts(run, data, g.series, points_in(&g), out_points_s, err);
    if (rc != OTL_OK || run->o.many_series == 0)
        return rc;
    many.series = many.many_series;
    many.points = MANY_INTERVALS * many.series;
    env.gen = points_of(&many, GEN_PLAIN);
    env.dir = dir;
    rc = make_dir(run, "otlite-many", dir, sizeof(dir), err);
    if (rc == OTL_OK)
        rc = reads_otlite.start(&env, &self, err);
    if (rc == OTL_OK)
        rc = fill(&reads_otlite, self, &env.gen, &b, &feed_s, &merge_s, err);
    reads_otlite.stop(self);
    if (rc != OTL_OK)
        return rc;
    snprintf(data, sizeof(data), "%s/data", dir);
    return measure_starts(run, data, (double)many.series, (double)b.points, out_series_s, err);
}

static void note_goal(struct result *r, const char *what, double goal, double measured)
{
    result_note(r, "Goal: %s at most %.10g; measured %.4g: %s.", what, goal, measured,
                isnan(measured) || isnan(goal) ? "not known"
                : measured <= goal             ? "met"
                                               : "not met");
}

static enum otl_err run_all(struct storage_run *run, const char *command, struct otl_error *err)
{
    static const struct result_column byte_columns[] = {
        {"mix", "mix", -1},
        {"system", "system", -1},
        {"points", "points", 0},
        {"mib", "files, MiB", 1},
        {"bytes_per_point", "bytes a point, whole files", 3},
        {"raw", "points' blocks", 3},
        {"rollups", "rollups' blocks", 3},
        {"catalogue", "catalogue", 3},
        {"rest", "the rest", 3},
        {"points_per_second", "fed at points/s", 0},
        {"compact_seconds", "merged in, s", 1},
        {NULL, NULL, 0},
    };
    static const struct result_column start_columns[] = {
        {"series", "series", 0},        {"points", "points", 0},        {"mib", "files, MiB", 1},
        {"warm_s", "start warm, s", 3}, {"cold_s", "start cold, s", 3}, {NULL, NULL, 0},
    };
    double points_s = UNKNOWN, series_s = UNKNOWN;
    enum otl_err rc, closed;

    rc = result_open(run->o.out, "storage", "Bytes a point", command, byte_columns, &run->bytes,
                     err);
    if (rc != OTL_OK)
        return rc;
    rc = run_bytes(run, err);
    note_goal(run->bytes, "bytes a point, half counters", 1.0, run->bytes_per_point[OTLITE]);
    note_goal(run->bytes, "bytes a point, half counters, rollups=false, against VictoriaMetrics",
              run->bytes_per_point[VICTORIA], run->bytes_per_point[OTLITE_RAW]);
    note_goal(run->bytes, "bytes a point, idle", 0.1, run->bytes_per_point[OTLITE_IDLE]);
    result_note(
        run->bytes,
        "%.0f series every %d s. otlite after `otlite compact`, all files of the data "
        "directory; VictoriaMetrics after a forced merge and its end, data and indexdb. It has "
        "no rollups: the fair comparison is with rollups=false, and both figures are here.",
        (double)run->o.series, INTERVAL_S);
    closed = result_close(run->bytes, rc == OTL_OK ? err : NULL);
    rc = rc == OTL_OK ? closed : rc;
    if (rc != OTL_OK)
        return rc;
    rc = result_open(run->o.out, "startup", "Start", command, start_columns, &run->starts, err);
    if (rc != OTL_OK)
        return rc;
    rc = run_starts(run, &points_s, &series_s, err);
    note_goal(run->starts, "start over many points, cold, s", 1, points_s);
    note_goal(run->starts, "start over 1 M series, cold, s", 10,
              run->o.many_series >= 1000000 ? series_s : UNKNOWN);
    result_note(
        run->starts,
        "From the fork until /healthz and /readyz answer 200; medians of %d starts; cold: the "
        "files were dropped from the page cache.",
        STARTS);
    closed = result_close(run->starts, rc == OTL_OK ? err : NULL);
    return rc == OTL_OK ? closed : rc;
}

/* ---- the command line ---- */

static void print_help(FILE *out)
{
    fputs("usage: otlite-bench storage [OPTION...]\n\n"
          "Store the same points in otlite and in VictoriaMetrics and count the bytes of their "
          "files,\n"
          "with rollups and without, for half counters and for idle series; then time starts over\n"
          "the file, and over one of many series.\n\n"
          "  --points N        default 80000000\n"
          "  --series N        a multiple of 400; default 10000\n"
          "  --many-series N   for the second start; default 1000000; 0 leaves it out\n"
          "  --peers DIR       where bench/peers/install.sh put VictoriaMetrics; default peers "
          "beside\n"
          "                    this program\n"
          "  --set KEY=VALUE   a setting of otlite; may be given several times\n"
          "  --out DIR         also write the results there: JSON and Markdown\n",
          out);
}

static bool take_option(struct storage_opts *o, int c, const char *text)
{
    switch (c) {
    case 'p':
        return int_parse(text, &o->points) && o->points >= 1 && o->points <= INT64_C(10000000000);
    case 'n':
        return int_parse(text, &o->series) && o->series >= 400 && o->series <= 10000000 &&
               o->series % 400 == 0;
    case 'm':
        return int_parse(text, &o->many_series) && o->many_series >= 0 &&
               o->many_series <= 10000000 && o->many_series % 400 == 0;
    case 'e':
        o->peers = text;
        return true;
    case 'o':
        o->out = text;
        return text[0] != '\0';
    case 's':
        if (strchr(text, '=') == NULL || o->n_settings == MAX_SETTINGS)
            return false;
        o->settings[o->n_settings++] = text;
        return true;
    default:
        return false;
    }
}

/* -1: go on; else an exit status. */
static int parse_arguments(int argc, char **argv, struct storage_opts *o, struct buf *command)
{
    static const struct option options[] = {
        {"points", required_argument, NULL, 'p'},
        {"series", required_argument, NULL, 'n'},
        {"many-series", required_argument, NULL, 'm'},
        {"peers", required_argument, NULL, 'e'},
        {"set", required_argument, NULL, 's'},
        {"out", required_argument, NULL, 'o'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int c, index = 0;

    while ((c = getopt_long(argc, argv, "h", options, &index)) != -1) {
        if (c == 'h') {
            print_help(stdout);
            return EX_OK;
        }
        if (c == '?') /* getopt has said what is wrong */
            return EX_USAGE;
        if (!take_option(o, c, optarg)) {
            fprintf(
                stderr,
                "otlite-bench storage: --%s does not take '%s'; see otlite-bench storage --help\n",
                options[index].name, optarg);
            return EX_USAGE;
        }
        if (c != 'e' && c != 'o')
            buf_printf(command, " --%s %s", options[index].name, optarg);
    }
    if (optind < argc) {
        fprintf(stderr, "otlite-bench storage: unexpected argument '%s'\n", argv[optind]);
        return EX_USAGE;
    }
    return -1;
}

int storage_main(int argc, char **argv)
{
    struct storage_run run = {
        .o = {.points = 80000000, .series = 10000, .many_series = 1000000},
    };
    struct buf command = {0};
    struct otl_error err = {0};
    char peers[4096];
    enum otl_err rc;
    int status;

    for (int i = 0; i < CASES; i++)
        run.bytes_per_point[i] = UNKNOWN;
    buf_add_str(&command, "otlite-bench storage");
    status = parse_arguments(argc, argv, &run.o, &command);
    if (status < 0) {
        rc = run.o.peers != NULL ? OTL_OK : child_beside("peers", peers, sizeof(peers), &err);
        if (run.o.peers == NULL)
            run.o.peers = peers;
        if (rc == OTL_OK)
            rc = scratch_make(run.dir, sizeof(run.dir), &err);
        if (rc == OTL_OK) {
            rc = run_all(&run, buf_cstr(&command), &err);
            scratch_remove(run.dir);
        }
        if (rc != OTL_OK)
            fprintf(stderr, "otlite-bench storage: %s\n", err.msg);
        status = rc == OTL_ECONFIG ? EX_USAGE
                 : rc != OTL_OK    ? EX_UNAVAILABLE
                 : run.broken      ? 1
                                   : EX_OK;
    }
    buf_fini(&command);
    return status;
}
