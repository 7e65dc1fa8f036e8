/* reference_r1.c -- an observability backend on SQLite: how its ingest was measured, in three
 * phases of steps with one rule (reference_rules.h). */

#include "otlite/clock.h"
#include "reference.h"
#include "reference_rules.h"

enum {
    SERVICES = 10,
    SERIES = 10000,
    MAX_PAYLOAD = 16000,
    SDK_POINTS = 100,
    LARGE_RATE = 5, /* requests a second of the large-payload phase */
    MAX_WARMUP_MS = 2000
};

#define RAMP_FACTOR   1.5
#define RAMP_HALVINGS 2
#define RAMP_DESCENTS 4
#define RAMP_LIMIT    5e7 /* points a second: beyond any machine this runs on */

struct r1 {
    struct reference_run *run;
    struct result *table;
};

/* What a phase comes to. */
struct phase {
    const char *name;
    double sustained, clean; /* most points a second over the steps that passed, that were clean */
    double sustained_p99_ms;
    unsigned held; /* largest payload of a step that passed */
    double x[64], y[64];
    unsigned n; /* points of the plot */
};

static void report_step(struct r1 *r1, const char *phase, unsigned points, double target,
                        const struct load_result *l, enum step_verdict verdict, int64_t missing,
                        int64_t wal_bytes)
{
    struct result *r = r1->table;
    uint64_t attempts = load_attempts(l);

    result_begin_row(r);
    result_text(r, phase);
    result_number(r, points);
    result_number(r, target);
    result_number(r, (double)l->points / l->seconds);
    result_number(r, 100.0 * (double)l->points / l->seconds / target);
    result_number(r, attempts > 0 ? 100.0 * (double)load_errors(l) / (double)attempts : UNKNOWN);
    result_number(r, (double)latencies_quantile(&l->latency, 0.5) / 1e6);
    result_number(r, (double)latencies_quantile(&l->latency, 0.99) / 1e6);
    result_number(r, l->has_daemon_cpu ? l->daemon_cpu_seconds / l->seconds : UNKNOWN);
    result_number(r, l->own_cpu_seconds / l->seconds);
    result_number(r, l->has_daemon_cpu ? (double)l->daemon_peak_bytes / 1e6 : UNKNOWN);
    result_number(r, wal_bytes > 0 ? (double)wal_bytes / 1e6 : UNKNOWN);
    result_number(r, missing >= 0 ? (double)missing : UNKNOWN);
    result_text(r, step_verdict_text(verdict));
    result_end_row(r);
}

/* One step, on empty data when the daemon is our own, so that no step pays for those before it. */
static enum otl_err run_step(struct r1 *r1, struct phase *p, unsigned points, double target,
                             bool *out_passed, struct otl_error *err)
{
    const struct reference_opts *o = r1->run->o;
    const struct target_load load = {
        .points = points,
        .services = SERVICES,
        .series = SERIES,
        .connections = o->connections,
        .rate = target,
        .duration_ms = o->step_ms,
        .warmup_ms = o->step_ms / 2 < MAX_WARMUP_MS ? o->step_ms / 2 : MAX_WARMUP_MS,
    };
    struct target t;
    struct load_result l;
    int64_t missing = -1, wal_bytes = 0;
    enum step_verdict verdict;
    double achieved;
    enum otl_err rc = target_open(o, &t, err);

    if (rc != OTL_OK)
        return rc;
    rc = target_drive(&t, &load, &l, &missing, &wal_bytes, err);
    target_close(&t);
    if (rc != OTL_OK)
        return rc;
    if (l.seconds <= 0 || reference_interrupted()) { /* cut short: says nothing */
        *out_passed = false;
        return OTL_OK;
    }
    achieved = (double)l.points / l.seconds;
    verdict = step_judge(&(struct step_figures){.target = target,
                                                .achieved = achieved,
                                                .requests = load_attempts(&l),
                                                .errors = load_errors(&l)});
    report_step(r1, p->name, points, target, &l, verdict, missing, wal_bytes);
    if (missing > 0)
        r1->run->broken = true;
    *out_passed = verdict != STEP_FAILED;
    if (*out_passed && points > p->held)
        p->held = points;
    /* What was due before the step and answered within it can take it above its target. */
    if (achieved > target)
        achieved = target;
    if (*out_passed && achieved > p->sustained) {
        p->sustained = achieved;
        p->sustained_p99_ms = (double)latencies_quantile(&l.latency, 0.99) / 1e6;
    }
    if (verdict == STEP_CLEAN && achieved > p->clean)
        p->clean = achieved;
    if (p->n < sizeof(p->x) / sizeof(p->x[0])) {
        p->x[p->n] = target;
        p->y[p->n++] = achieved;
    }
    return OTL_OK;
}

/* Payloads from 1,000 points up, at most 5 requests a second each. */
static enum otl_err large_payload(struct r1 *r1, struct phase *p, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;
    bool passed = true;

    for (unsigned points = 1000;
         points <= MAX_PAYLOAD && rc == OTL_OK && passed && !reference_interrupted(); points *= 2)
        rc = run_step(r1, p, points, (double)points * LARGE_RATE, &passed, err);
    return rc;
}

static enum otl_err rate_ramp(struct r1 *r1, struct phase *p, unsigned points, double first,
                              struct otl_error *err)
{
    struct ramp ramp = {.next = first,
                        .factor = RAMP_FACTOR,
                        .limit = RAMP_LIMIT,
                        .halvings = RAMP_HALVINGS,
                        .descents = RAMP_DESCENTS};
    bool passed;
    enum otl_err rc;

    do {
        rc = run_step(r1, p, points, ramp.next, &passed, err);
    } while (rc == OTL_OK && !reference_interrupted() && ramp_advance(&ramp, passed));
    return rc;
}

static void report_phases(struct r1 *r1, const struct phase phases[3])
{
    struct result *r = r1->table;

    result_note(r, "A step fails when over 5 %% of its requests fail or under 70 %% of its target "
                   "is achieved; it is clean without any error and with 95 %% achieved.");
    for (int i = 0; i < 3; i++) {
        if (phases[i].n == 0)
            continue;
        result_note(r, "%s: %.0f points/s sustained (p99 %.1f ms), %.0f clean.", phases[i].name,
                    phases[i].sustained, phases[i].sustained_p99_ms, phases[i].clean);
        result_series(r, phases[i].name, phases[i].x, phases[i].y, phases[i].n);
    }
    result_note(r, "Published: large payload 31000 points/s (8000 points a request, p99 under 400 "
                   "ms); best payload 58000 (61712 in the raw data, p99 5.0 s); SDK-shaped 36000 "
                   "(9752 clean).");
    result_plot(r, "offered points/s", "stored points/s", true, true);
    reference_goal(r1->run, r, "R1 SDK-shaped, clean, points/s", true, 1e6,
                   phases[2].n > 0 ? phases[2].clean : UNKNOWN);
    reference_goal(r1->run, r, "R1 best payload, points/s", true, 2.5e6,
                   phases[1].n > 0 ? phases[1].sustained : UNKNOWN);
    reference_goal(r1->run, r, "R1 large payload, p99 in ms", false, 60,
                   phases[0].held == MAX_PAYLOAD ? phases[0].sustained_p99_ms : UNKNOWN);
}

static enum otl_err r1_run(struct reference_run *run, struct otl_error *err)
{
    static const struct result_column columns[] = {
        {"phase", "phase", -1},
        {"points_per_request", "points/request", 0},
        {"target_points_per_second", "target points/s", 0},
        {"points_per_second", "points/s", 0},
        {"achieved_percent", "achieved %", 1},
        {"error_percent", "errors %", 2},
        {"p50_ms", "p50 ms", 2},
        {"p99_ms", "p99 ms", 2},
        {"daemon_cores", "daemon cores", 2},
        {"generator_cores", "generator cores", 2},
        {"memory_mb", "memory MB", 0},
        {"wal_mb", "WAL MB", 1},
        {"missing", "answered but missing", 0},
        {"verdict", "step", -1},
        {NULL, NULL, 0},
    };
    struct phase phases[3] = {
        {.name = "large payload"}, {.name = "best payload"}, {.name = "SDK-shaped"}};
    struct r1 r1 = {.run = run};
    enum otl_err rc = result_open(run->o->out, "reference-r1", "R1: ingest in three phases",
                                  run->o->command, columns, &r1.table, err);
    enum otl_err closed;

    if (rc != OTL_OK)
        return rc;
    rc = large_payload(&r1, &phases[0], err);
    if (rc == OTL_OK && phases[0].held > 0 && !reference_interrupted())
        rc = rate_ramp(&r1, &phases[1], phases[0].held, 2.0 * LARGE_RATE * phases[0].held, err);
    if (rc == OTL_OK && !reference_interrupted())
        rc = rate_ramp(&r1, &phases[2], SDK_POINTS, 100000, err);
    report_phases(&r1, phases);
    closed = result_close(r1.table, rc == OTL_OK ? err : NULL);
    return rc == OTL_OK ? closed : rc;
}

const struct reference_command reference_r1 = {
    .name = "r1",
    .summary = "ingest: large payloads, the best payload, the SDK's shape",
    .help =
        "Three phases of steps. Large payload: 1,000 to 16,000 points a request, 5 requests a\n"
        "second. Best payload: the largest that held, the rate ramped until a step fails, then\n"
        "homed in on. SDK-shaped: 100 points a request, the rate ramped likewise. Sums with\n"
        "three attributes, 10,000 series. A daemon of our own starts each step with no data.\n",
    .step_ms = 120000,
    .connections = 64,
    .run = r1_run,
};
