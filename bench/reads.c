/* reads.c -- `otlite-bench reads`: the same points into each system, the same questions to each,
 * every answer held against what is right.
 *
 * A system is loaded, and then asked cold (its process new, its files out of the page cache), warm,
 * and warm while 100,000 points a second come in. Points are made anew for each system; nothing
 * else is shared. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "child.h"
#include "daemon.h"
#include "otlite/clock.h"
#include "reads.h"
#include "reads_kept.h"
#include "reads_load.h"
#include "result.h"

enum {
    INTERVAL_S = 10,
    LOAD_RATE = 100000,
    SLOW_S = 10, /* runs of a query; what does not fit is not run so often */
    /* Five quick runs in a row would all fall into one checkpoint, or none. */
    INGEST_RUNS = 3, /* times those of the idle round */
    INGEST_PAUSE_MS = 100,
    NS_IN_MS = 1000000
};

const struct reads_system *const reads_systems[READS_SYSTEMS] = {
    &reads_otlite, &reads_in_process, &reads_duckdb, &reads_victoria, &reads_sqlite};

/* Of one query, in ms; NAN: not asked. */
struct times {
    double cold, warm, ingest;
};

struct bench {
    const struct reads_opts *o;
    struct series_gen_opts gen;
    struct reads_model *model;
    bool model_done;
    struct answer want, got;
    unsigned wrong; /* answers */
};

/* All points made once: for a system (NULL: for none), and the first time for the model. */
static enum otl_err make_points(struct bench *b, const struct reads_system *system, void *self,
                                struct otl_error *err)
{
    struct series_gen g;
    enum otl_err rc = series_gen_init(&g, &b->gen, err);

    if (rc != OTL_OK)
        return rc;
    do {
        if (!b->model_done)
            reads_model_add(b->model, &g);
        if (system != NULL)
            rc = system->add(self, &g, err);
    } while (rc == OTL_OK && series_gen_next(&g));
    b->model_done = b->model_done || rc == OTL_OK;
    series_gen_fini(&g);
    if (rc == OTL_OK && system != NULL)
        rc = system->finish(self, err);
    return rc;
}

/* It holds every point, by its own count. */
static enum otl_err check_count(const struct bench *b, const struct reads_system *system,
                                void *self, struct otl_error *err)
{
    double sum, want = reads_model_sum(b->model);
    uint64_t n;
    enum otl_err rc = system->count(self, &n, &sum, err);

    if (rc == OTL_OK && (n != b->o->points || fabs(sum - want) > 1e-9 * fabs(want)))
        rc = otl_fail(err, OTL_EBADDATA,
                      "%s holds %" PRIu64 " points of sum %.17g; stored were %" PRIu64 " of %.17g",
                      system->name, n, sum, b->o->points, want);
    return rc;
}

/* One mean and maximum, of these points and others. */
static bool holds_at_least(const struct answer *want, const struct answer *got,
                           struct otl_error *err)
{
    if (want->n == 1 && got->n == 1 && got->rows[0].values[1] >= want->rows[0].values[1])
        return true;
    (void)otl_fail(err, OTL_EBADDATA, "%zu rows, and the maximum is not at least that of a part",
                   got->n);
    return false;
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
        if (panel->span == SPAN_LIVE && system->load_url == NULL)
            return OTL_OK; /* nothing comes in */
        rc = system->ask(self, panel, &b->got, &ns, err);
        if (rc == OTL_EMETHOD)
            return OTL_OK;
        if (rc != OTL_OK)
            return otl_wrap(err, "%s, %s, panel %u", system->name, reads_queries[query].name, p);
        sum_ns += ns;
        answer_reset(&b->want);
        reads_model_answer(b->model, query, p, &b->want);
        answer_sort(&b->got);
        if (panel->span == SPAN_LIVE ? !holds_at_least(&b->want, &b->got, err)
                                     : !answer_equal(&b->want, &b->got, err)) {
            b->wrong++;
            fprintf(stderr, "otlite-bench reads: %s, %s, panel %u is wrong: %s\n", system->name,
                    reads_queries[query].name, p, err->msg);
        }
    }
    *ms = (double)sum_ns / NS_IN_MS;
    return OTL_OK;
}

/* The median of so many runs, or of as many as fit into SLOW_S; pause_ms lies between them. */
static enum otl_err ask_often(struct bench *b, const struct reads_system *system, void *self,
                              unsigned query, unsigned runs, int64_t pause_ms, double *ms,
                              struct otl_error *err)
{
    int64_t begin_ns = clock_mono_ns();
    double all[INGEST_RUNS * READS_MOST_RUNS];
    unsigned n = 0;
    enum otl_err rc = OTL_OK;

    do {
        if (n > 0 && pause_ms > 0)
            reads_sleep_ms(pause_ms);
        rc = ask_once(b, system, self, query, &all[n++], err);
    } while (rc == OTL_OK && n < runs && !isnan(all[0]) &&
             clock_mono_ns() - begin_ns < SLOW_S * NS_PER_S);
    if (rc == OTL_OK)
        *ms = isnan(all[0]) ? (double)NAN : median(all, n);
    return rc;
}

static enum otl_err start_load(const struct reads_system *system, void *self, const char *dir,
                               struct child *out, struct otl_error *err)
{
    bool influx;
    const char *url = system->load_url(self, &influx);

    return reads_load_start(influx ? LOAD_INFLUX : LOAD_OTLP, url, LOAD_RATE, dir, out, err);
}

static enum otl_err measure(struct bench *b, const struct reads_system *system, void *self,
                            const char *dir, struct times *t, double *accepted,
                            struct otl_error *err)
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
            rc = ask_often(b, system, self, q, b->o->runs, 0, &t[q].warm, err);
    }
    if (rc != OTL_OK || !b->o->ingest || system->load_url == NULL)
        return rc;
    if (b->o->data != NULL)
        rc = kept_spoil(b->o->data, system->key, err);
    if (rc == OTL_OK)
        rc = start_load(system, self, dir, &load, err);
    for (unsigned q = 0; q < READS_QUERIES && rc == OTL_OK; q++)
        rc = ask_often(b, system, self, q, INGEST_RUNS * b->o->runs, INGEST_PAUSE_MS, &t[q].ingest,
                       err);
    if (rc == OTL_OK)
        rc = reads_load_stop(&load, dir, accepted, err);
    child_stop(&load);
    return rc;
}

static void report(const struct bench *b, struct result *r, const struct reads_system *system,
                   const struct times *t)
{
    bool ours = system == &reads_otlite && b->o->points >= 100000000;

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
        result_text(r, !ours || isnan(goal)          ? ""
                       : t[q].warm > goal            ? "not met"
                       : t[q].ingest > 2 * t[q].warm ? "met idle, not while ingesting"
                                                     : "met");
        result_end_row(r);
    }
}

/* Points into a system that was just started, unless it has them. */
static enum otl_err store_points(struct bench *b, const struct reads_system *system, void *self,
                                 bool stored, struct kept_facts *f, struct otl_error *err)
{
    int64_t begin_ns = clock_mono_ns();
    enum otl_err rc = OTL_OK;

    if (stored)
        return b->model_done ? OTL_OK : make_points(b, NULL, NULL, err);
    fprintf(stderr, "== %s: %" PRIu64 " points\n", system->name, b->o->points);
    rc = make_points(b, system, self, err);
    f->seconds = (double)(clock_mono_ns() - begin_ns) / (double)NS_PER_S;
    f->bytes = (double)system->bytes(self);
    return rc == OTL_OK && b->o->data != NULL ? kept_stored(b->o->data, system->key, f, err) : rc;
}

/* What was stored in env->dir by `system`, asked through it or another one that reads it. */
static enum otl_err ask_stored(struct bench *b, const struct reads_system *system, void *self,
                               const struct reads_env *env, struct result *r, struct otl_error *err)
{
    struct times t[READS_QUERIES];
    double accepted = 0;
    enum otl_err rc = check_count(b, system, self, err);

    for (unsigned q = 0; q < READS_QUERIES; q++)
        t[q] = (struct times){(double)NAN, (double)NAN, (double)NAN};
    if (rc == OTL_OK) {
        fprintf(stderr, "== %s: asked\n", system->name);
        rc = measure(b, system, self, env->dir, t, &accepted, err);
    }
    if (rc != OTL_OK)
        return rc;
    report(b, r, system, t);
    if (accepted > 0)
        result_note(r, "%s: %.0f points/s were accepted meanwhile.", system->name, accepted);
    return OTL_OK;
}

/* Those that read what another one stored. */
static enum otl_err ask_readers(struct bench *b, const struct reads_system *system,
                                const struct reads_env *env, struct result *r,
                                struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    for (unsigned i = 0; i < READS_SYSTEMS && rc == OTL_OK; i++) {
        void *self = NULL;

        if (reads_systems[i]->stored_by != system || !b->o->systems[i])
            continue;
        rc = reads_systems[i]->start(env, &self, err);
        if (rc == OTL_OK)
            rc = ask_stored(b, reads_systems[i], self, env, r, err);
        reads_systems[i]->stop(self);
    }
    return rc;
}

/* All that is done with one system's files. */
static enum otl_err bench_files(struct bench *b, const struct reads_system *system, bool asked,
                                struct reads_env *env, struct kept_facts *f, struct result *r,
                                struct otl_error *err)
{
    void *self = NULL;
    enum otl_err rc = system->start(env, &self, err);

    if (rc == OTL_ENOTFOUND) {
        result_note(r, "%s: %s (bench/peers/install.sh fetches it).", system->name, err->msg);
        return OTL_OK;
    }
    if (rc == OTL_OK)
        rc = store_points(b, system, self, env->stored, f, err);
    if (rc == OTL_OK)
        result_note(r, "%s: stored in %.0f s, %.2f bytes a point.", system->name, f->seconds,
                    f->bytes / (double)b->o->points);
    if (rc == OTL_OK && b->o->ask) {
        /* Before points come in beside these. */
        rc = system->halt(self, err);
        if (rc == OTL_OK)
            rc = ask_readers(b, system, env, r, err);
        if (rc == OTL_OK)
            rc = system->resume(self, err);
        if (rc == OTL_OK && asked)
            rc = ask_stored(b, system, self, env, r, err);
    }
    system->stop(self);
    return rc;
}

static enum otl_err bench_system(struct bench *b, const struct reads_system *system, bool asked,
                                 struct result *r, struct otl_error *err)
{
    struct reads_env env = {
        .gen = b->gen, .peers = b->o->peers, .scripts = b->o->scripts, .settings = b->o->settings};
    struct kept_facts f = {0};
    char dir[4096];
    enum otl_err rc;

    if (system->most_points != 0 && b->o->points > system->most_points) {
        result_note(r, "%s: not at more than %" PRIu64 " points.", system->name,
                    system->most_points);
        return OTL_OK;
    }
    if (b->o->data != NULL)
        rc = kept_system(b->o->data, system->key, dir, sizeof(dir), &env.stored, &f, err);
    else
        rc = scratch_make(dir, sizeof(dir), err);
    if (rc != OTL_OK)
        return rc;
    env.dir = dir;
    rc = bench_files(b, system, asked, &env, &f, r, err);
    if (b->o->data == NULL)
        scratch_remove(dir);
    return rc;
}

/* Is it asked, or (out_asked false) needed for what another one reads? */
static bool is_needed(const struct reads_opts *o, unsigned system, bool *out_asked)
{
    bool needed = o->systems[system];

    *out_asked = needed;
    for (unsigned i = 0; i < READS_SYSTEMS; i++)
        needed = needed || (o->systems[i] && reads_systems[i]->stored_by == reads_systems[system]);
    return needed && reads_systems[system]->stored_by == NULL;
}

enum otl_err reads_run(const struct reads_opts *o, const char *command, unsigned *out_wrong,
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
    struct bench b = {.o = o};
    struct result *r = NULL;
    uint32_t intervals = (uint32_t)(o->points / o->series);
    int64_t now_s = clock_wall_ns() / NS_PER_S, length_s = (int64_t)intervals * INTERVAL_S;
    char name[64], title[128];
    enum otl_err rc = OTL_OK;

    b.gen = (struct series_gen_opts){
        .mix = GEN_REALISTIC,
        .series = o->series,
        .intervals = intervals,
        .seed = 4,
        /* Whole hours back, so that windows of minutes and hours lie as a dashboard's do. */
        .start_ns = (now_s / 3600 * 3600 - (length_s + 3599) / 3600 * 3600) * NS_PER_S,
        .interval_ns = INTERVAL_S * NS_PER_S,
        .jitter_ms = o->jitter_ms,
    };
    snprintf(name, sizeof(name), "reads-%" PRIu64 "m", o->points / 1000000);
    snprintf(title, sizeof(title), "Reads of %" PRIu64 " million points in %" PRIu32 " series",
             o->points / 1000000, o->series);
    if (o->data != NULL)
        rc = kept_open(o->data, &b.gen, err);
    if (rc == OTL_OK)
        rc = reads_model_new(&b.gen, &b.model, err);
    if (rc == OTL_OK)
        rc = result_open(o->out, name, title, command, columns, &r, err);
    for (unsigned i = 0; i < READS_SYSTEMS && rc == OTL_OK; i++) {
        bool asked;

        if (is_needed(o, i, &asked))
            rc = bench_system(&b, reads_systems[i], asked, r, err);
    }
    if (r != NULL) {
        result_note(
            r,
            "Cold: the process new, its files out of the page cache, the query the first one. "
            "Warm: medians of %u in a row; with points coming in: of %u, %d ms apart; or of as "
            "many as "
            "fit into %d s. Every answer was held against what is right; %u were wrong.",
            o->runs, INGEST_RUNS * o->runs, INGEST_PAUSE_MS, SLOW_S, b.wrong);
        if (rc == OTL_OK)
            rc = result_close(r, err);
    }
    *out_wrong = b.wrong;
    reads_model_free(b.model);
    answer_fini(&b.want);
    answer_fini(&b.got);
    return rc;
}
