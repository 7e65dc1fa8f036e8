/* reads_duckdb.c -- DuckDB of npm, driven through bench/peers/duckdb.js: points in time order
 * beside a table of series, as the published figures have it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "otlite/clock.h"
#include "reads.h"
#include "reads_otlp.h"

enum { BATCH_POINTS = 2000000 };

struct duck {
    struct reads_env env;
    char script[4096], modules[4096], log[4096], database[4096], csv[4096];
    struct child process;
    FILE *batch;
    uint32_t batched; /* points */
    struct buf sql, request, rows;
    char *line;
    size_t line_room;
};

static void duck_stop(void *self)
{
    struct duck *d = self;

    if (d == NULL)
        return;
    if (d->batch != NULL)
        fclose(d->batch);
    child_stop(&d->process);
    buf_fini(&d->sql);
    buf_fini(&d->request);
    buf_fini(&d->rows);
    free(d->line);
    free(d);
}

/* Send {verb: text}; the rows of the answer are in d->rows. */
static enum otl_err call(struct duck *d, const char *verb, const char *text, int64_t *out_ns,
                         struct otl_error *err)
{
    uint64_t rows;
    ssize_t n;

    buf_reset(&d->request);
    buf_reset(&d->rows);
    buf_printf(&d->request, "{\"%s\":", verb);
    buf_add_json_string(&d->request, bytes_str(text));
    buf_add_str(&d->request, "}\n");
    if (fputs(buf_cstr(&d->request), d->process.in) < 0 || fflush(d->process.in) != 0)
        return otl_fail(err, OTL_EIO, "DuckDB's process is gone; see %.256s", d->log);
    n = getline(&d->line, &d->line_room, d->process.out);
    if (n <= 0)
        return otl_fail(err, OTL_EIO, "DuckDB's process does not answer; see %.256s", d->log);
    if (sscanf(d->line, "ok %" SCNd64 " %" SCNu64, out_ns, &rows) != 2)
        return otl_fail(err, OTL_EDB, "DuckDB: %.300s", d->line);
    for (uint64_t i = 0; i < rows; i++) {
        n = getline(&d->line, &d->line_room, d->process.out);
        if (n <= 0)
            return otl_fail(err, OTL_EIO, "DuckDB's answer ends early; see %.256s", d->log);
        buf_add(&d->rows, d->line, (size_t)n);
    }
    return d->rows.failed ? otl_fail(err, OTL_ENOMEM, "no memory for an answer") : OTL_OK;
}

static enum otl_err run_sql(struct duck *d, const char *sql, struct otl_error *err)
{
    int64_t ns;

    return call(d, "run", sql, &ns, err);
}

static enum otl_err duck_resume(void *self, struct otl_error *err)
{
    struct duck *d = self;
    const char *argv[] = {"/usr/bin/env", "node", d->script, d->modules, NULL};
    int64_t ns;
    enum otl_err rc = child_start(argv, d->log, true, &d->process, err);

    return rc == OTL_OK ? call(d, "open", d->database, &ns, err) : rc;
}

static enum otl_err duck_halt(void *self, struct otl_error *err)
{
    (void)err;
    child_stop(&((struct duck *)self)->process);
    return OTL_OK;
}

static enum otl_err load_csv(struct duck *d, const char *table, struct otl_error *err)
{
    bool written = fflush(d->batch) == 0 && ferror(d->batch) == 0;

    written = fclose(d->batch) == 0 && written;
    d->batch = NULL;
    d->batched = 0;
    if (!written)
        return otl_fail(err, OTL_EIO, "cannot write %.256s", d->csv);
    buf_reset(&d->sql);
    buf_printf(&d->sql, "COPY %s FROM '%s' (FORMAT csv, HEADER false, AUTO_DETECT false)", table,
               d->csv);
    return run_sql(d, buf_cstr(&d->sql), err);
}

static enum otl_err open_csv(struct duck *d, struct otl_error *err)
{
    d->batch = fopen(d->csv, "we");
    return d->batch != NULL ? OTL_OK : otl_fail(err, OTL_EIO, "cannot write %.256s", d->csv);
}

static enum otl_err make_tables(struct duck *d, struct otl_error *err)
{
    enum otl_err rc = run_sql(d,
                              "CREATE TABLE series(id INTEGER, metric VARCHAR, service INTEGER, "
                              "environment VARCHAR, instance VARCHAR)",
                              err);

    if (rc == OTL_OK)
        rc = run_sql(d, "CREATE TABLE point(series_id INTEGER, time BIGINT, value DOUBLE)", err);
    if (rc == OTL_OK)
        rc = open_csv(d, err);
    for (uint32_t s = 0; s < d->env.gen.series && rc == OTL_OK; s++) {
        char instance[16];

        reads_instance(s, instance);
        fprintf(d->batch, "%u,%s,%u,%s,%s\n", s, gen_metric_name(gen_metric(s)), gen_service(s),
                reads_environment(gen_service(s)), instance);
    }
    return rc == OTL_OK ? load_csv(d, "series", err) : rc;
}

static enum otl_err duck_start(const struct reads_env *env, void **out_self, struct otl_error *err)
{
    struct duck *d = calloc(1, sizeof(*d));
    char module[4200];
    enum otl_err rc;

    if (d == NULL)
        return otl_fail(err, OTL_ENOMEM, "no memory for DuckDB's side");
    d->env = *env;
    snprintf(d->script, sizeof(d->script), "%.4000s/duckdb.js", env->scripts);
    snprintf(d->modules, sizeof(d->modules), "%.4000s/duckdb", env->peers);
    snprintf(d->log, sizeof(d->log), "%.4000s/log", env->dir);
    snprintf(d->database, sizeof(d->database), "%.4000s/points.duckdb", env->dir);
    snprintf(d->csv, sizeof(d->csv), "%.4000s/batch.csv", env->dir);
    snprintf(module, sizeof(module), "%s/node_modules/@duckdb/node-api", d->modules);
    rc = access(module, R_OK) != 0 || access(d->script, R_OK) != 0
             ? otl_fail(err, OTL_ENOTFOUND, "not installed")
             : duck_resume(d, err);
    if (rc == OTL_OK && !env->stored)
        rc = make_tables(d, err);
    if (rc != OTL_OK) {
        duck_stop(d);
        return rc;
    }
    *out_self = d;
    return OTL_OK;
}

static enum otl_err duck_add(void *self, const struct series_gen *g, struct otl_error *err)
{
    struct duck *d = self;
    enum otl_err rc = d->batch == NULL ? open_csv(d, err) : OTL_OK;

    for (uint32_t s = 0; s < g->opts.series && rc == OTL_OK; s++) {
        unsigned decimals = gen_decimals(g->opts.mix, gen_metric(s));
        char line[3 * 24 + 1];
        unsigned n = gen_text(s, 0, line);

        line[n++] = ',';
        n += gen_text(gen_time_ns(&g->opts, gen_service(s), g->interval), 0, line + n);
        line[n++] = ',';
        n += gen_text(g->values[s], decimals, line + n);
        line[n++] = '\n';
        if (fwrite_unlocked(line, 1, n, d->batch) != n)
            rc = otl_fail(err, OTL_EIO, "cannot write %.256s", d->csv);
    }
    d->batched += g->opts.series;
    return rc == OTL_OK && d->batched >= BATCH_POINTS ? load_csv(d, "point", err) : rc;
}

static enum otl_err duck_finish(void *self, struct otl_error *err)
{
    struct duck *d = self;
    enum otl_err rc = d->batch != NULL ? load_csv(d, "point", err) : OTL_OK;

    (void)unlink(d->csv);
    return rc == OTL_OK ? run_sql(d, "CHECKPOINT", err) : rc;
}

static enum otl_err duck_count(void *self, uint64_t *out_points, double *out_sum,
                               struct otl_error *err)
{
    struct duck *d = self;
    struct answer a = {0};
    int64_t ns;
    enum otl_err rc = call(d, "ask", "SELECT 0, 0, count(*), sum(value) FROM point", &ns, err);

    if (rc == OTL_OK && (!answer_parse(&a, (const char *)d->rows.p, d->rows.n) || a.n != 1))
        rc = otl_fail(err, OTL_EBADDATA, "DuckDB counts no points");
    if (rc == OTL_OK) {
        *out_points = (uint64_t)a.rows[0].values[0];
        *out_sum = a.rows[0].values[1];
    }
    answer_fini(&a);
    return rc;
}

static void write_from(struct buf *b, const struct panel *p, int64_t from_ns, int64_t to_ns)
{
    char instance[16];
    bool joined = p->by == BY_SERVICE || p->metrics != ALL_METRICS || p->production;

    buf_add_str(b, joined ? " FROM point JOIN series ON id=series_id" : " FROM point");
    buf_add_str(b, " WHERE true");
    if (p->span != SPAN_ALL)
        buf_printf(b, " AND time>=%" PRId64 " AND time<%" PRId64, from_ns, to_ns);
    if (p->metrics != ALL_METRICS) {
        buf_add_str(b, " AND metric IN (");
        for (uint32_t m = 0, n = 0; m < GEN_METRICS; m++) {
            if ((p->metrics >> m & 1U) != 0)
                buf_printf(b, "%s'%s'", n++ > 0 ? "," : "", gen_metric_name(m));
        }
        buf_add_str(b, ")");
    }
    if (p->production)
        buf_add_str(b, " AND environment='production'");
    if (p->what == PANEL_RAW) {
        reads_instance(RAW_SERIES, instance);
        buf_printf(b, " AND instance='%s'", instance);
    }
}

static void write_query(struct buf *b, const struct panel *p, const struct range *r)
{
    static const char *const groups[] = {"0", "service", "series_id"};
    static const char *const values[] = {
        [PANEL_RAW] = "value,0",
        [PANEL_SUM] = "sum(value),0",
        [PANEL_MEAN] = "avg(value),0",
        [PANEL_MAX] = "max(value),0",
        [PANEL_MEAN_AND_MAX] = "avg(value),max(value)",
    };

    buf_reset(b);
    if (p->what == PANEL_RATE) {
        buf_printf(b,
                   "WITH p AS (SELECT time, value, %s AS g, lag(value) OVER (PARTITION BY "
                   "series_id ORDER BY time) AS before",
                   groups[p->by]);
        write_from(b, p, r->from_ns - r->step_ns, r->to_ns);
        buf_printf(b,
                   ") SELECT g, (time-%" PRId64 ")//%" PRId64
                   ", sum(CASE WHEN value<before THEN value ELSE value-before END)/%" PRId64
                   ",0 FROM p WHERE time>=%" PRId64 " GROUP BY 1,2",
                   r->from_ns, r->step_ns, p->step_s, r->from_ns);
        return;
    }
    if (r->windows == 1 && p->span == SPAN_ALL)
        buf_printf(b, "SELECT %s, 0, %s", groups[p->by], values[p->what]);
    else
        buf_printf(b, "SELECT %s, (time-%" PRId64 ")//%" PRId64 ", %s", groups[p->by], r->from_ns,
                   r->step_ns, values[p->what]);
    write_from(b, p, r->from_ns, r->to_ns);
    if (p->what != PANEL_RAW)
        buf_add_str(b, " GROUP BY 1,2");
}

static enum otl_err duck_ask(void *self, const struct panel *p, struct answer *out, int64_t *out_ns,
                             struct otl_error *err)
{
    struct duck *d = self;
    struct range r = panel_range(p, &d->env.gen);
    enum otl_err rc;

    write_query(&d->sql, p, &r);
    rc = call(d, "ask", buf_cstr(&d->sql), out_ns, err);
    if (rc == OTL_OK && d->rows.n > 0 && !answer_parse(out, buf_cstr(&d->rows), d->rows.n))
        rc = otl_fail(err, OTL_EBADDATA, "an answer of DuckDB: %.300s", buf_cstr(&d->rows));
    return rc;
}

static uint64_t duck_bytes(void *self)
{
    return directory_bytes(((struct duck *)self)->env.dir);
}

const struct reads_system reads_duckdb = {
    .key = "duckdb",
    .name = "DuckDB",
    .start = duck_start,
    .add = duck_add,
    .finish = duck_finish,
    .count = duck_count,
    .halt = duck_halt,
    .resume = duck_resume,
    .ask = duck_ask,
    .bytes = duck_bytes,
    .stop = duck_stop,
};
