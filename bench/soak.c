/* soak.c -- `otlite-bench soak`: a steady load for long, with queries, backups and retention, and
 * whether memory, log and head stay as they are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "company.h"
#include "reference.h"

#define MIB 1048576.0

enum {
    POINTS = 100,
    SERVICES = 10,
    SERIES = 10000,
    PEAK_MS = 5000,
    WARMUP_MS = 2000,
    THIRDS = 3,
    QUERY_MS = 500,
    LEAST_BUDGET_MIB = 128
};

/* What has to be flat, and by how much of the middle third the last one may be above it; `slack`
 * beside that, for what is small. */
static const struct gauge {
    const char *key, *title, *name;
    size_t at;        /* in struct sample */
    double unit;      /* of it in the table */
    double slack;     /* in that unit */
    bool has_verdict; /* else: shown only */
} gauges[] = {
    {"resident_mib", "resident MiB", "resident memory", offsetof(struct sample, resident), MIB, 8,
     true},
    {"unmapped_mib", "of no file MiB", "memory of no file", offsetof(struct sample, unmapped), MIB,
     8, true},
    {"wal_mib", "log MiB", "the log", offsetof(struct sample, wal), MIB, 4, true},
    {"head_rows", "head rows", "the head", offsetof(struct sample, head_rows), 1, 20000, true},
    {"file_mib", "file MiB", "the file", offsetof(struct sample, database), MIB, 8, true},
    {"descriptors", "descriptors", "open descriptors", offsetof(struct sample, descriptors), 1, 4,
     true},
};

enum { GAUGES = sizeof(gauges) / sizeof(gauges[0]) };

struct soak {
    struct reference_run *run;
    struct result *table;
    struct load_second *seconds;
    unsigned n_seconds, room;
    double means[GAUGES][THIRDS];
};

static double value_of(const struct sample *s, const struct gauge *g)
{
    double v;

    memcpy(&v, (const char *)s + g->at, sizeof(v));
    return v / g->unit;
}

static struct target_load load_of(const struct reference_opts *o, double rate, int64_t ms)
{
    return (struct target_load){.points = POINTS,
                                .services = SERVICES,
                                .series = SERIES,
                                .connections = o->connections,
                                .rate = rate,
                                .duration_ms = ms,
                                .warmup_ms = WARMUP_MS};
}

/* Half of the peak, unless a rate is wanted. */
static enum otl_err find_rate(const struct reference_opts *o, double *out, struct otl_error *err)
{
    const struct target_load load = load_of(o, 0, PEAK_MS);
    struct load_result l;
    struct target t;
    enum otl_err rc;

    *out = (double)o->rate;
    if (o->rate > 0)
        return OTL_OK;
    rc = target_open(o, &t, err);
    if (rc != OTL_OK)
        return rc;
    rc = target_send(&t, &load, &l, err);
    target_close(&t);
    if (rc == OTL_OK && l.points == 0)
        rc = otl_fail(err, OTL_EIO, "the daemon stored nothing in the closed loop");
    *out = rc == OTL_OK ? (double)l.points / l.seconds / 2 : 0;
    return rc;
}

/* ---- the table ---- */

static bool in_third(double seconds, double whole, int third)
{
    return seconds >= whole * third / THIRDS && seconds < whole * (third + 1) / THIRDS;
}

static double mean_of_third(const struct company_figures *f, const struct gauge *g, double whole,
                            int third, double *out_most)
{
    double sum = 0, most = 0;
    unsigned n = 0;

    for (unsigned i = 0; i < f->n; i++) {
        double v = value_of(&f->samples[i], g);

        if (!in_third(f->samples[i].seconds, whole, third))
            continue;
        sum += v;
        most = v > most ? v : most;
        n++;
    }
    *out_most = n > 0 ? most : UNKNOWN;
    return n > 0 ? sum / n : UNKNOWN;
}

static void report_third(struct soak *k, const struct company_figures *f, double whole, int third)
{
    static const char *const names[THIRDS] = {"first", "middle", "last"};
    struct result *r = k->table;
    uint64_t points = 0;
    int64_t worst_ns = 0;
    unsigned n = 0;
    double *p99 = calloc(k->n_seconds + 1, sizeof(*p99));

    for (unsigned i = 0; i < k->n_seconds; i++) {
        if (!in_third(i, k->n_seconds, third))
            continue;
        points += k->seconds[i].points;
        worst_ns = k->seconds[i].max_ns > worst_ns ? k->seconds[i].max_ns : worst_ns;
        if (p99 != NULL)
            p99[n] = (double)k->seconds[i].p99_ns / 1e6;
        n++;
    }
    result_begin_row(r);
    result_text(r, names[third]);
    result_number(r, n > 0 ? (double)points / n : UNKNOWN);
    result_number(r, n > 0 && p99 != NULL ? median(p99, n) : UNKNOWN);
    result_number(r, n > 0 ? (double)worst_ns / 1e6 : UNKNOWN);
    for (int i = 0; i < GAUGES; i++) {
        double most;

        k->means[i][third] = mean_of_third(f, &gauges[i], whole, third, &most);
        result_number(r, k->means[i][third]);
    }
    result_end_row(r);
    free(p99);
}

/* Is the mean of the last third no more than a tenth above that of the middle one? */
static void judge(struct soak *k)
{
    int rising = 0;

    for (int i = 0; i < GAUGES; i++) {
        const struct gauge *g = &gauges[i];
        double middle = k->means[i][1], last = k->means[i][2];

        if (last <= middle * 1.1 || last <= middle + g->slack) /* NaN: not known to be flat */
            continue;
        rising++;
        result_note(k->table, "Not flat: %s, %.1f in the middle third and %.1f in the last.",
                    g->name, middle, last);
    }
    reference_goal(k->run, k->table,
                   "Soak: of memory, log, head, file and descriptors, how many rise", false, 1,
                   rising);
}

static void plot(const struct soak *k, const struct company_figures *f)
{
    static const char *const panels[] = {"Memory", "Files", "Head"};
    static const int of_panel[] = {0, 0, 1, 2, 1, -1};
    double *x = calloc(f->n + k->n_seconds + 1, sizeof(*x));
    double *y = calloc(f->n + k->n_seconds + 1, sizeof(*y));

    for (int p = 0; p < 3 && x != NULL && y != NULL; p++) {
        result_panel(k->table, panels[p]);
        for (int g = 0; g < GAUGES; g++) {
            if (of_panel[g] != p)
                continue;
            for (unsigned i = 0; i < f->n; i++) {
                x[i] = f->samples[i].seconds;
                y[i] = value_of(&f->samples[i], &gauges[g]);
            }
            result_series(k->table, gauges[g].name, x, y, f->n);
        }
        result_plot(k->table, "seconds", p == 2 ? "rows" : "MiB", false, false);
    }
    if (x != NULL && y != NULL) {
        result_panel(k->table, "Latency");
        for (unsigned i = 0; i < k->n_seconds; i++) {
            x[i] = i;
            y[i] = (double)k->seconds[i].p99_ns / 1e6;
        }
        result_series(k->table, "p99 of each second", x, y, k->n_seconds);
        result_plot(k->table, "seconds", "ms", false, true);
    }
    free(x);
    free(y);
}

static void note_what_went_on(struct soak *k, const struct load_result *l, double rate,
                              const char *budget, const struct sample *end,
                              const struct company_figures *f)
{
    struct result *r = k->table;

    result_note(
        r,
        "Means of thirds of %.0f s; p99 of each second, the median of a third. %.0f points/s "
        "were due, %d a request; %llu requests failed or were never sent; p99 of all %.1f ms.",
        l->seconds, rate, POINTS, (unsigned long long)(load_errors(l) + l->unsent),
        (double)latencies_quantile(&l->latency, 0.99) / 1e6);
    result_note(
        r,
        "Beside it %llu queries, p50 %.1f and p99 %.1f ms, %llu failed; %llu backups, %llu "
        "failed; %.0f points were stored, and with %s retention dropped %.0f, rollup rows among "
        "them.",
        (unsigned long long)f->queries, (double)latencies_quantile(&f->query_ns, 0.5) / 1e6,
        (double)latencies_quantile(&f->query_ns, 0.99) / 1e6, (unsigned long long)f->failed_queries,
        (unsigned long long)f->backups, (unsigned long long)f->failed_backups, end->stored, budget,
        end->expired);
    if (f->failure[0] != '\0')
        result_note(r, "The first failure: %s", f->failure);
    if (f->failed_backups > 0 || f->failed_queries > 0)
        k->run->broken = true;
    /* Every point answered 200 is counted as stored. */
    if (end->stored < (double)l->all_points) {
        k->run->broken = true;
        result_note(r, "%.0f points were answered 200 and %.0f stored.", (double)l->all_points,
                    end->stored);
    }
}

/* ---- the run ---- */

static enum otl_err soak_with(struct soak *k, double rate, const char *budget,
                              struct otl_error *err)
{
    const struct reference_opts *o = k->run->o;
    struct target_load load = load_of(o, rate, o->step_ms);
    struct company_opts beside = {
        .query_ms = QUERY_MS, .sample_ms = o->step_ms / 360, .backup_ms = o->step_ms / 10};
    struct company *company = NULL;
    struct load_result *l = calloc(1, sizeof(*l));
    const struct company_figures *f;
    struct sample end;
    struct target t;
    enum otl_err rc = OTL_ENOMEM;

    load.by_second = k->seconds;
    load.by_second_room = k->room;
    beside.sample_ms = beside.sample_ms < 200    ? 200
                       : beside.sample_ms > 5000 ? 5000
                                                 : beside.sample_ms;
    beside.backup_ms = beside.backup_ms > 180000 ? 180000 : beside.backup_ms;
    if (l == NULL)
        return otl_fail(err, OTL_ENOMEM, "no memory for the measurements");
    rc = target_open_with(o, budget, &t, err);
    if (rc != OTL_OK) {
        free(l);
        return rc;
    }
    beside.target = &t;
    rc = company_start(&beside, &company, err);
    if (rc == OTL_OK)
        rc = target_send(&t, &load, l, err);
    f = company_stop(company);
    if (rc == OTL_OK && !company_sample(&t, &end))
        rc = otl_fail(err, OTL_EIO, "the daemon does not answer GET /metrics");
    if (rc == OTL_OK && f->n > 0) {
        double whole = f->samples[f->n - 1].seconds;

        k->n_seconds = l->n_by_second;
        for (int third = 0; third < THIRDS; third++)
            report_third(k, f, whole, third);
        judge(k);
        note_what_went_on(k, l, rate, budget, &end, f);
        plot(k, f);
    }
    company_free(company);
    target_close(&t);
    free(l);
    return rc;
}

static enum otl_err soak_run(struct reference_run *run, struct otl_error *err)
{
    static const struct result_column columns[] = {
        {"third", "third", -1},
        {"points_per_second", "points/s", 0},
        {"p99_ms", "p99 ms", 2},
        {"max_ms", "max ms", 1},
        {"resident_mib", "resident MiB", 1},
        {"unmapped_mib", "of no file MiB", 1},
        {"wal_mib", "log MiB", 1},
        {"head_rows", "head rows", 0},
        {"file_mib", "file MiB", 1},
        {"descriptors", "descriptors", 1},
        {NULL, NULL, 0},
    };
    struct soak k = {.run = run};
    char budget[64];
    double rate, mib;
    enum otl_err rc, closed;

    k.room = (unsigned)(run->o->step_ms / 1000) + 2;
    k.seconds = calloc(k.room, sizeof(*k.seconds));
    if (k.seconds == NULL)
        return otl_fail(err, OTL_ENOMEM, "no memory for the measurements");
    rc = find_rate(run->o, &rate, err);
    if (rc == OTL_OK && !reference_interrupted())
        rc = result_open(run->o->out, "soak", "Soak", run->o->command, columns, &k.table, err);
    if (rc != OTL_OK || reference_interrupted()) {
        free(k.seconds);
        return rc;
    }
    /* Half of what comes in, at about a byte a point, of which most is for the head, the log and
     * what retention leaves free: so it is full before the first third
     * is over. */
    mib = rate * (double)run->o->step_ms / 1000 / 2 / MIB;
    snprintf(budget, sizeof(budget), "retention.max_bytes=%.0fM",
             mib < LEAST_BUDGET_MIB ? LEAST_BUDGET_MIB : mib);
    rc = soak_with(&k, rate, budget, err);
    closed = result_close(k.table, rc == OTL_OK ? err : NULL);
    free(k.seconds);
    return rc == OTL_OK ? closed : rc;
}

const struct reference_command reference_soak = {
    .name = "soak",
    .summary = "half the peak for half an hour: are memory, log and head flat?",
    .help =
        "Half of the peak for long, with queries, a backup now and then, and so little room that\n"
        "retention has to drop points; and whether memory, the log, the head, the file and open\n"
        "descriptors are as they were in the last third of the time.\n",
    .step_ms = 1800000,
    .connections = 32,
    .own_daemon_only = true,
    .has_settings = true,
    .has_rate = true,
    .run = soak_run,
};
