/* maintain.c -- `otlite-bench maintain`: what sealing costs ingest, and how long answers take at a
 * steady rate while sealing, merging, retention and backups run together. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "company.h"
#include "reference.h"

enum {
    POINTS = 100,
    SERVICES = 10,
    SERIES = 10000,
    MAX_WARMUP_MS = 2000,
    STEADY_RATE = 300000,
    BACKUP_PAUSE_MS = 10000,
    QUERY_MS = 250
};

/* Nothing is sealed within a run: the head takes all of it. */
static const char *const unsealed[] = {"head.max_rows=16777216", "head.max_bytes=16G",
                                       "head.max_age=7d", NULL};
static const char *const defaults[] = {NULL};
/* Retention by age runs once a minute, so that is how long it takes to see one; and parts that were
 * merged have points that are seconds old. */
static const char *const short_lived[] = {"retention.max_age=1s", NULL};

static const struct steady {
    const char *name;
    const char *const *settings;
    int64_t steps;   /* how long */
    bool everything; /* with backups and queries */
} steady[] = {
    {"nothing", unsealed, 2, false},
    {"sealing and merging", defaults, 2, false},
    {"sealing, merging, retention, backups, queries", short_lived, 7, true},
};

enum { STEADY = sizeof(steady) / sizeof(steady[0]) };

struct maintain {
    struct reference_run *run;
    struct result *table;
};

/* A daemon with these settings, which those of the command line win over. */
static enum otl_err open_with(const struct reference_opts *o, const char *const *settings,
                              struct target *out, struct otl_error *err)
{
    struct reference_opts with = *o;
    unsigned n = 0;

    for (unsigned i = 0; settings[i] != NULL && n < REFERENCE_MAX_SETTINGS; i++)
        with.settings[n++] = settings[i];
    for (unsigned i = 0; o->settings[i] != NULL; i++) {
        if (n == REFERENCE_MAX_SETTINGS)
            return otl_fail(err, OTL_ECONFIG, "too many --set");
        with.settings[n++] = o->settings[i];
    }
    with.settings[n] = NULL;
    return target_open(&with, out, err);
}

static struct target_load load_of(const struct reference_opts *o, double rate, int64_t ms)
{
    return (struct target_load){
        .points = POINTS,
        .services = SERVICES,
        .series = SERIES,
        .connections = o->connections,
        .rate = rate,
        .duration_ms = ms,
        .warmup_ms = ms / 4 < MAX_WARMUP_MS ? ms / 4 : MAX_WARMUP_MS,
    };
}

/* ---- sealing on and off ---- */

static void report_peak(const struct maintain *v, unsigned round, bool sealing,
                        const struct load_result *l, double ratio)
{
    struct result *r = v->table;

    result_begin_row(r);
    result_number(r, round + 1);
    result_text(r, sealing ? "sealing" : "no sealing");
    result_number(r, (double)l->points / l->seconds);
    result_number(r, ratio);
    result_number(r, l->latency.count > 0 ? (double)latencies_quantile(&l->latency, 0.5) / 1e6
                                          : UNKNOWN);
    result_number(r, l->latency.count > 0 ? (double)latencies_quantile(&l->latency, 0.99) / 1e6
                                          : UNKNOWN);
    result_number(r, l->has_daemon_cpu && l->daemon_cpu_seconds > 0
                         ? (double)l->points / l->daemon_cpu_seconds
                         : UNKNOWN);
    result_number(r, (double)load_errors(l));
    result_end_row(r);
}

static enum otl_err peak(const struct maintain *v, bool sealing, struct load_result *out,
                         struct otl_error *err)
{
    const struct reference_opts *o = v->run->o;
    const struct target_load load = load_of(o, 0, o->step_ms);
    struct sample after;
    struct target t;
    enum otl_err rc = open_with(o, sealing ? defaults : unsealed, &t, err);

    if (rc != OTL_OK)
        return rc;
    rc = target_send(&t, &load, out, err);
    /* By its own count: to count the rows of such a head takes minutes. */
    if (rc == OTL_OK && !company_sample(&t, &after))
        rc = otl_fail(err, OTL_EIO, "the daemon does not answer GET /metrics");
    if (rc == OTL_OK && after.stored < (double)out->all_points)
        v->run->broken = true;
    target_close(&t);
    if (rc == OTL_OK && !reference_interrupted() && (out->seconds <= 0 || out->points == 0))
        rc = otl_fail(err, OTL_EIO, "the daemon stored nothing in the closed loop");
    return rc;
}

/* Both in each round, the first one in turn, so that what else the machine does weighs on both. */
static enum otl_err run_peaks(const struct maintain *v, struct otl_error *err)
{
    unsigned rounds = v->run->o->rounds, n = 0;
    double *ratios = calloc(rounds, sizeof(*ratios));
    enum otl_err rc = OTL_OK;

    if (ratios == NULL)
        return otl_fail(err, OTL_ENOMEM, "no memory for the figures");
    for (unsigned i = 0; i < rounds && rc == OTL_OK; i++) {
        struct load_result l[2]; /* without, with */

        for (unsigned k = 0; k < 2 && rc == OTL_OK; k++) {
            unsigned which = (i + k) % 2;

            rc = peak(v, which == 1, &l[which], err);
        }
        if (rc != OTL_OK || reference_interrupted())
            break;
        ratios[n] = (double)l[1].points / l[1].seconds / ((double)l[0].points / l[0].seconds);
        report_peak(v, i, false, &l[0], UNKNOWN);
        report_peak(v, i, true, &l[1], ratios[n++]);
    }
    if (rc == OTL_OK)
        reference_goal(v->run, v->table, "Sealing: points/s, share of those without", true, 0.9,
                       n > 0 ? median(ratios, n) : UNKNOWN);
    free(ratios);
    return rc;
}

static enum otl_err report_peaks(struct reference_run *run, struct otl_error *err)
{
    static const struct result_column columns[] = {
        {"round", "round", 0},
        {"head", "head", -1},
        {"points_per_second", "points/s", 0},
        {"ratio", "of that without", 3},
        {"p50_ms", "p50 ms", 2},
        {"p99_ms", "p99 ms", 2},
        {"points_per_cpu_second", "points a CPU second", 0},
        {"errors", "errors", 0},
        {NULL, NULL, 0},
    };
    struct maintain v = {.run = run};
    enum otl_err rc, closed;

    rc = result_open(run->o->out, "sealing", "Ingest with sealing and without", run->o->command,
                     columns, &v.table, err);
    if (rc != OTL_OK)
        return rc;
    rc = run_peaks(&v, err);
    result_note(v.table,
                "%d points a request, %d series, closed loop, %u connections; without: a "
                "head that takes all of a run. The goal is for the median of the rounds.",
                POINTS, SERIES, run->o->connections);
    closed = result_close(v.table, rc == OTL_OK ? err : NULL);
    return rc == OTL_OK ? closed : rc;
}

/* ---- everything together ---- */

static void report_steady(const struct maintain *v, const char *name, const struct load_result *l,
                          const struct sample *after, const struct company_figures *f)
{
    struct result *r = v->table;

    result_begin_row(r);
    result_text(r, name);
    result_number(r, (double)l->points / l->seconds);
    result_number(r, (double)latencies_quantile(&l->latency, 0.5) / 1e6);
    result_number(r, (double)latencies_quantile(&l->latency, 0.99) / 1e6);
    result_number(r, (double)latencies_quantile(&l->latency, 0.999) / 1e6);
    result_number(r, (double)l->latency.max / 1e6);
    result_number(r, (double)(load_errors(l) + l->unsent));
    result_number(r, l->has_daemon_cpu ? l->daemon_cpu_seconds / l->seconds : UNKNOWN);
    result_number(r, after->merges);
    result_number(r, after->expired);
    result_number(r, (double)f->backups);
    result_number(r, (double)f->queries);
    result_number(r, after->longest_task_ms);
    result_end_row(r);
    if (f->failure[0] != '\0') {
        result_note(r, "%s: failed: %s", name, f->failure);
        v->run->broken = true;
    }
}

static enum otl_err run_steady(const struct maintain *v, const struct steady *what, double *out_p99,
                               struct otl_error *err)
{
    const struct reference_opts *o = v->run->o;
    const struct target_load load =
        load_of(o, o->rate > 0 ? (double)o->rate : STEADY_RATE, what->steps * o->step_ms);
    struct company *company = NULL;
    const struct company_figures *figures;
    struct sample after;
    struct load_result l;
    struct target t;
    enum otl_err rc = open_with(o, what->settings, &t, err);

    if (rc != OTL_OK)
        return rc;
    if (what->everything)
        rc = company_start(&(struct company_opts){.target = &t,
                                                  .backup_ms = BACKUP_PAUSE_MS,
                                                  .query_ms = QUERY_MS},
                           &company, err);
    if (rc == OTL_OK)
        rc = target_send(&t, &load, &l, err);
    figures = company_stop(company);
    if (rc == OTL_OK && !company_sample(&t, &after))
        rc = otl_fail(err, OTL_EIO, "the daemon does not answer GET /metrics");
    if (rc == OTL_OK && !reference_interrupted() && l.latency.count > 0) {
        report_steady(v, what->name, &l, &after, figures);
        *out_p99 = (double)latencies_quantile(&l.latency, 0.99) / 1e6;
    }
    company_free(company);
    target_close(&t);
    return rc;
}

static enum otl_err report_all_steady(struct reference_run *run, struct otl_error *err)
{
    static const struct result_column columns[] = {
        {"beside", "runs beside", -1},
        {"points_per_second", "points/s", 0},
        {"p50_ms", "p50 ms", 2},
        {"p99_ms", "p99 ms", 2},
        {"p999_ms", "p99.9 ms", 1},
        {"max_ms", "max ms", 1},
        {"errors", "errors or unsent", 0},
        {"daemon_cores", "daemon cores", 2},
        {"merges", "merges", 0},
        {"expired", "points dropped", 0},
        {"backups", "backups", 0},
        {"queries", "queries", 0},
        {"longest_task_ms", "longest task ms", 1},
        {NULL, NULL, 0},
    };
    struct maintain v = {.run = run};
    double p99 = UNKNOWN;
    enum otl_err rc, closed;

    rc = result_open(run->o->out, "maintenance", "Latency while maintenance runs", run->o->command,
                     columns, &v.table, err);
    if (rc != OTL_OK)
        return rc;
    for (int i = 0; i < STEADY && rc == OTL_OK && !reference_interrupted(); i++) {
        p99 = UNKNOWN;
        rc = run_steady(&v, &steady[i], &p99, err);
    }
    if (rc == OTL_OK)
        reference_goal(run, v.table, "Latency with all maintenance, p99 in ms", false, 50, p99);
    result_note(v.table,
                "Open loop: %lld points/s, %d a request, from when a request was due. The last one "
                "with %s, a backup %d s after the other and a query every %d ms. The longest task "
                "is maintenance's longest transaction since the start.",
                (long long)(run->o->rate > 0 ? run->o->rate : STEADY_RATE), POINTS, short_lived[0],
                BACKUP_PAUSE_MS / 1000, QUERY_MS);
    closed = result_close(v.table, rc == OTL_OK ? err : NULL);
    return rc == OTL_OK ? closed : rc;
}

static enum otl_err maintain_run(struct reference_run *run, struct otl_error *err)
{
    enum otl_err rc = report_peaks(run, err);

    return rc == OTL_OK && !reference_interrupted() ? report_all_steady(run, err) : rc;
}

const struct reference_command reference_maintain = {
    .name = "maintain",
    .summary = "what sealing costs ingest, and latency while all maintenance runs",
    .help =
        "Rounds of full load on a daemon that seals and on one that does not. Then a steady load\n"
        "of 300,000 points a second (--rate): beside nothing, beside sealing and merging (two\n"
        "steps each), and beside these, retention by age, backups and queries (seven steps).\n",
    .step_ms = 10000,
    .connections = 32,
    .rounds = 3,
    .own_daemon_only = true,
    .has_settings = true,
    .has_rate = true,
    .run = maintain_run,
};
