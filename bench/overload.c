/* overload.c -- what is stored, and how fast the rest is refused, when five times as much is
 * offered as can be taken.
 *
 * The peak and the overload follow each other on the same daemon, round after round, so that what
 * else the machine does weighs on both. */
#include <math.h>
#include <stdlib.h>

#include "reference.h"

enum { SERVICES = 10, POINTS = 100, TIMES = 5, PEAK_CONNECTIONS = 16, MAX_WARMUP_MS = 1000 };

/* Ours holds at most this many requests back, unless --set says otherwise: the default of 10,000
 * would need as many connections before anything were refused. */
static const char queue_setting[] = "queue.max_requests=64";

struct overload {
    struct reference_run *run;
    struct result *table;
    unsigned series;
};

static uint64_t refusals(const struct load_result *l)
{
    return l->status[429] + l->status[503];
}

static void report_row(const struct overload *v, unsigned round, const char *phase, double target,
                       const struct load_result *l, double peak, int64_t missing)
{
    struct result *r = v->table;
    uint64_t attempts = load_attempts(l), refused = refusals(l);

    result_begin_row(r);
    result_number(r, round + 1);
    result_text(r, phase);
    result_number(r, target > 0 ? target : UNKNOWN);
    result_number(r, (double)attempts * POINTS / l->seconds);
    result_number(r, (double)l->points / l->seconds);
    result_number(r, peak > 0 ? 100.0 * (double)l->points / l->seconds / peak : UNKNOWN);
    result_number(r, attempts > 0 ? 100.0 * (double)refused / (double)attempts : UNKNOWN);
    result_number(r, refused > 0 ? (double)latencies_quantile(&l->refused, 0.5) / 1e6 : UNKNOWN);
    result_number(r, refused > 0 ? (double)latencies_quantile(&l->refused, 0.99) / 1e6 : UNKNOWN);
    /* None, when all that was accepted had been due before the measured time. */
    result_number(r, l->latency.count > 0 ? (double)latencies_quantile(&l->latency, 0.99) / 1e6
                                          : UNKNOWN);
    result_number(r, (double)(load_errors(l) - refused));
    result_number(r, missing >= 0 ? (double)missing : UNKNOWN);
    result_number(r, l->has_daemon_cpu ? l->daemon_cpu_seconds / l->seconds : UNKNOWN);
    result_number(r, l->own_cpu_seconds / l->seconds);
    result_end_row(r);
}

static enum otl_err drive(const struct overload *v, const struct target *t, unsigned connections,
                          double rate, struct load_result *out, int64_t *out_missing,
                          struct otl_error *err)
{
    int64_t step_ms = v->run->o->step_ms, wal_bytes;
    const struct target_load load = {
        .points = POINTS,
        .services = SERVICES,
        .series = v->series,
        .connections = connections,
        .rate = rate,
        .duration_ms = step_ms,
        .warmup_ms = step_ms / 2 < MAX_WARMUP_MS ? step_ms / 2 : MAX_WARMUP_MS,
    };

    return target_drive(t, &load, out, out_missing, &wal_bytes, err);
}

/* *out_share: stored under overload to the peak; UNKNOWN when the round says nothing. */
static enum otl_err run_round(const struct overload *v, const struct target *t, unsigned round,
                              double *out_share, struct otl_error *err)
{
    struct load_result l;
    int64_t missing = -1;
    double peak;
    enum otl_err rc = drive(v, t, PEAK_CONNECTIONS, 0, &l, &missing, err);

    *out_share = UNKNOWN;
    if (rc != OTL_OK || l.seconds <= 0)
        return rc;
    peak = (double)l.points / l.seconds;
    report_row(v, round, "peak", 0, &l, UNKNOWN, missing);
    v->run->broken = v->run->broken || missing > 0;
    if (peak <= 0)
        return otl_fail(err, OTL_EIO, "the daemon stored nothing in the closed loop");
    if (reference_interrupted())
        return OTL_OK;
    rc = drive(v, t, v->run->o->connections, TIMES * peak, &l, &missing, err);
    if (rc != OTL_OK || l.seconds <= 0 || reference_interrupted())
        return rc;
    report_row(v, round, "overload", TIMES * peak, &l, peak, missing);
    v->run->broken = v->run->broken || missing > 0;
    *out_share = (double)l.points / l.seconds / peak;
    return OTL_OK;
}

static enum otl_err run_rounds(struct overload *v, struct otl_error *err)
{
    const struct reference_opts *o = v->run->o;
    double *shares = calloc(o->rounds, sizeof(*shares));
    unsigned n = 0;
    struct target t;
    enum otl_err rc = OTL_OK;

    if (shares == NULL)
        return otl_fail(err, OTL_ENOMEM, "no memory for the figures");
    rc = target_open_with(o, queue_setting, &t, err);
    if (rc != OTL_OK) {
        free(shares);
        return rc;
    }
    for (unsigned i = 0; i < o->rounds && rc == OTL_OK && !reference_interrupted(); i++) {
        rc = run_round(v, &t, i, &shares[n], err);
        if (rc == OTL_OK && !isnan(shares[n]))
            n++;
    }
    target_close(&t);
    if (rc == OTL_OK)
        reference_goal(v->run, v->table, "Overload: stored, share of the peak", true, 0.95,
                       n > 0 ? median(shares, n) : UNKNOWN);
    free(shares);
    return rc;
}

static enum otl_err overload_run(struct reference_run *run, struct otl_error *err)
{
    static const struct result_column columns[] = {
        {"round", "round", 0},
        {"phase", "phase", -1},
        {"target_points_per_second", "target points/s", 0},
        {"offered_points_per_second", "sent points/s", 0},
        {"points_per_second", "stored points/s", 0},
        {"peak_percent", "of peak %", 1},
        {"refused_percent", "refused %", 1},
        {"refused_p50_ms", "refusal p50 ms", 2},
        {"refused_p99_ms", "refusal p99 ms", 2},
        {"p99_ms", "accepted p99 ms", 2},
        {"failed", "lost or failed", 0},
        {"missing", "answered but missing", 0},
        {"daemon_cores", "daemon cores", 2},
        {"generator_cores", "generator cores", 2},
        {NULL, NULL, 0},
    };
    struct overload v = {.run = run};
    enum otl_err rc, closed;

    /* A request of its own for each connection, and the 10,000 series that all figures are for at
     * least. */
    v.series = POINTS * SERVICES * ((run->o->connections + SERVICES - 1) / SERVICES);
    if (v.series < 10000)
        v.series = 10000;
    rc = result_open(run->o->out, "overload", "Overload: five times the peak", run->o->command,
                     columns, &v.table, err);
    if (rc != OTL_OK)
        return rc;
    rc = run_rounds(&v, err);
    if (run->o->url == NULL)
        result_note(v.table, "Our own daemon runs with %s unless --set says otherwise.",
                    queue_setting);
    result_note(v.table, "The generator shares the machine's cores with the daemon: what it takes, "
                         "and what refusing takes, is missing from what is stored. Where less is "
                         "sent than the target, all connections were waiting for answers.");
    result_note(v.table, "Published: past its limit the main reference fell to 17500 points/s with "
                         "82 %% errors.");
    closed = result_close(v.table, rc == OTL_OK ? err : NULL);
    return rc == OTL_OK ? closed : rc;
}

const struct reference_command reference_overload = {
    .name = "overload",
    .summary = "five times the peak: what is stored, and how the rest is refused",
    .help =
        "Finds the peak in a closed loop, then offers five times as much over many connections,\n"
        "and reports what was stored, what was refused and how fast.\n",
    .step_ms = 10000,
    .connections = 256,
    .rounds = 3,
    .run = overload_run,
};
