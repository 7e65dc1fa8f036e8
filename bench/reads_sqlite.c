/* reads_sqlite.c -- the main reference's layout in plain SQLite, in this process: a wide row a
 * point with the tags as JSON and the time as text, and the index that its pages read by. */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "otlite/clock.h"
#include "otlite/db.h"
#include "reads.h"
#include "reads_otlp.h"

enum { COMMIT_EVERY = 10 /* intervals */, TIME_TEXT = 40 };

struct rows {
    struct reads_env env;
    char path[4096];
    struct db db;
    sqlite3_stmt *insert;
    struct buf *tags; /* of each series */
    struct buf sql;
    uint32_t uncommitted;
};

static void rows_stop(void *self)
{
    struct rows *r = self;

    if (r == NULL)
        return;
    (void)sqlite3_finalize(r->insert);
    db_close(&r->db);
    if (r->tags != NULL) {
        for (uint32_t s = 0; s < r->env.gen.series; s++)
            buf_fini(&r->tags[s]);
    }
    free(r->tags);
    buf_fini(&r->sql);
    free(r);
}

static enum otl_err rows_resume(void *self, struct otl_error *err)
{
    static const char *const pragmas[] = {"journal_mode(WAL)",
                                          "busy_timeout(5000)",
                                          "synchronous(NORMAL)",
                                          "cache_size(-524288)",
                                          "temp_store(MEMORY)",
                                          "mmap_size(1073741824)",
                                          NULL};
    struct rows *r = self;
    struct buf dsn = {0};
    enum otl_err rc;

    db_dsn(&dsn, r->path, pragmas);
    rc = db_open(&r->db, buf_cstr(&dsn), DB_READ_WRITE_CREATE, err);
    buf_fini(&dsn);
    return rc;
}

static enum otl_err rows_halt(void *self, struct otl_error *err)
{
    struct rows *r = self;

    (void)err;
    (void)sqlite3_finalize(r->insert);
    r->insert = NULL;
    db_close(&r->db);
    memset(&r->db, 0, sizeof(r->db));
    return OTL_OK;
}

static enum otl_err rows_start(const struct reads_env *env, void **out_self, struct otl_error *err)
{
    struct rows *r = calloc(1, sizeof(*r));
    enum otl_err rc;
    bool failed;

    if (r == NULL)
        return otl_fail(err, OTL_ENOMEM, "no memory for SQLite's side");
    r->env = *env;
    snprintf(r->path, sizeof(r->path), "%.4000s/rows.db", env->dir);
    r->tags = calloc(env->gen.series, sizeof(*r->tags));
    failed = r->tags == NULL;
    for (uint32_t s = 0; s < env->gen.series && !failed; s++) {
        char service[16], instance[16], label[24];

        reads_service(gen_service(s), service);
        reads_instance(s, instance);
        reads_label_value(s, env->gen.mix, label);
        buf_printf(&r->tags[s],
                   "{\"service\":\"%s\",\"environment\":\"%s\",\"instance\":\"%s\",\"%s\":\"%s\"}",
                   service, reads_environment(gen_service(s)), instance,
                   reads_label_key(s, env->gen.mix), label);
        failed = r->tags[s].failed;
    }
    rc = failed ? otl_fail(err, OTL_ENOMEM, "no memory for the tags") : rows_resume(r, err);
    if (rc == OTL_OK && !env->stored)
        rc =
            db_exec(&r->db,
                    "PRAGMA application_id=0x6f746cff;" /* or db_open takes it for someone else's */
                    "CREATE TABLE metric_record(project_id INTEGER NOT NULL, name TEXT NOT NULL, "
                    "value REAL NOT NULL, tags TEXT NOT NULL, recorded_at TEXT NOT NULL);"
                    "CREATE INDEX metric_record_by_time ON metric_record(project_id, name, "
                    "recorded_at)",
                    err);
    if (rc == OTL_OK)
        rc = db_prepare(&r->db, "INSERT INTO metric_record VALUES(1,?,?,?,?)", &r->insert, err);
    if (rc != OTL_OK) {
        rows_stop(r);
        return rc;
    }
    *out_self = r;
    return OTL_OK;
}

/* YYYY-MM-DD HH:MM:SS.mmm */
static void time_text(int64_t ns, char out[TIME_TEXT])
{
    time_t seconds = (time_t)(ns / NS_PER_S);
    char part[TIME_TEXT];
    struct tm tm;

    if (gmtime_r(&seconds, &tm) == NULL ||
        strftime(part, sizeof(part), "%Y-%m-%d %H:%M:%S", &tm) == 0)
        part[0] = '\0';
    snprintf(out, TIME_TEXT, "%.19s.%03d", part, (int)(ns / NS_PER_MS % 1000));
}

static enum otl_err commit(struct rows *r, struct otl_error *err)
{
    r->uncommitted = 0;
    return db_exec(&r->db, "COMMIT", err);
}

static enum otl_err rows_add(void *self, const struct series_gen *g, struct otl_error *err)
{
    struct rows *r = self;
    enum otl_err rc = OTL_OK;
    char at[TIME_TEXT] = "";

    if (r->uncommitted == 0)
        rc = db_exec(&r->db, "BEGIN IMMEDIATE", err);
    for (uint32_t s = 0; s < g->opts.series && rc == OTL_OK; s++) {
        const struct buf *tags = &r->tags[s];

        if (s % GEN_OF_SERVICE == 0)
            time_text(gen_time_ns(&g->opts, gen_service(s), g->interval), at);
        if (sqlite3_bind_text(r->insert, 1, gen_metric_name(gen_metric(s)), -1, SQLITE_STATIC) !=
                SQLITE_OK ||
            sqlite3_bind_double(
                r->insert, 2, gen_double(g->values[s], gen_decimals(g->opts.mix, gen_metric(s)))) !=
                SQLITE_OK ||
            sqlite3_bind_text(r->insert, 3, (const char *)tags->p, (int)tags->n, SQLITE_STATIC) !=
                SQLITE_OK ||
            sqlite3_bind_text(r->insert, 4, at, -1, SQLITE_TRANSIENT) != SQLITE_OK)
            return otl_fail(err, OTL_ENOMEM, "no memory for a row");
        rc = db_run(&r->db, r->insert, "insert a row", err);
    }
    if (rc == OTL_OK && ++r->uncommitted == COMMIT_EVERY)
        rc = commit(r, err);
    return rc;
}

static enum otl_err rows_finish(void *self, struct otl_error *err)
{
    struct rows *r = self;
    enum otl_err rc = r->uncommitted > 0 ? commit(r, err) : OTL_OK;

    return rc == OTL_OK ? db_exec(&r->db, "PRAGMA wal_checkpoint(TRUNCATE)", err) : rc;
}

static enum otl_err rows_count(void *self, uint64_t *out_points, double *out_sum,
                               struct otl_error *err)
{
    struct rows *r = self;
    sqlite3_stmt *st;
    enum otl_err rc =
        db_prepare(&r->db, "SELECT count(*), sum(value) FROM metric_record", &st, err);

    if (rc != OTL_OK)
        return rc;
    if (sqlite3_step(st) == SQLITE_ROW) {
        *out_points = (uint64_t)sqlite3_column_int64(st, 0);
        *out_sum = sqlite3_column_double(st, 1);
    } else {
        rc = db_fail(&r->db, sqlite3_errcode(r->db.sql), "count the rows", err);
    }
    (void)sqlite3_finalize(st);
    return rc;
}

static void write_where(struct buf *b, const struct panel *p, int64_t from_ns, int64_t to_ns)
{
    char from[TIME_TEXT], to[TIME_TEXT], instance[16];

    time_text(from_ns, from);
    time_text(to_ns, to);
    buf_printf(b,
               " FROM metric_record WHERE project_id=1 AND recorded_at>='%s' AND recorded_at<'%s'",
               from, to);
    if (p->metrics != ALL_METRICS) {
        buf_add_str(b, " AND name IN (");
        for (uint32_t m = 0, n = 0; m < GEN_METRICS; m++) {
            if ((p->metrics >> m & 1U) != 0)
                buf_printf(b, "%s'%s'", n++ > 0 ? "," : "", gen_metric_name(m));
        }
        buf_add_str(b, ")");
    }
    if (p->production)
        buf_add_str(b, " AND json_extract(tags,'$.environment')='production'");
    if (p->what == PANEL_RAW) {
        reads_instance(RAW_SERIES, instance);
        buf_printf(b, " AND json_extract(tags,'$.instance')='%s'", instance);
    }
}

static void write_query(struct buf *b, const struct panel *p, const struct range *r)
{
    static const char *const groups[] = {
        "0", "CAST(substr(json_extract(tags,'$.service'),5) AS INTEGER)",
        "CAST(substr(json_extract(tags,'$.instance'),3) AS INTEGER)"};
    static const char *const values[] = {
        [PANEL_RAW] = "value,0",
        [PANEL_SUM] = "sum(value),0",
        [PANEL_MEAN] = "avg(value),0",
        [PANEL_MAX] = "max(value),0",
        [PANEL_MEAN_AND_MAX] = "avg(value),max(value)",
    };
    int64_t from_s = r->from_ns / NS_PER_S, step_s = r->step_ns / NS_PER_S;

    buf_reset(b);
    if (p->what == PANEL_RATE) {
        buf_printf(b,
                   "WITH p AS (SELECT recorded_at, value, %s AS g, lag(value) OVER (PARTITION BY "
                   "json_extract(tags,'$.instance') ORDER BY recorded_at) AS before",
                   groups[p->by]);
        write_where(b, p, r->from_ns - r->step_ns, r->to_ns);
        buf_printf(b,
                   ") SELECT g, (unixepoch(recorded_at)-%" PRId64 ")/%" PRId64
                   ", sum(CASE WHEN value<before THEN value ELSE value-before END)/%" PRId64
                   ".0,0 FROM p WHERE unixepoch(recorded_at)>=%" PRId64 " GROUP BY 1,2",
                   from_s, step_s, p->step_s, from_s);
        return;
    }
    buf_printf(b, "SELECT %s, (unixepoch(recorded_at)-%" PRId64 ")/%" PRId64 ", %s", groups[p->by],
               from_s, step_s, values[p->what]);
    write_where(b, p, r->from_ns, r->to_ns);
    if (p->what != PANEL_RAW)
        buf_add_str(b, " GROUP BY 1,2");
}

static enum otl_err rows_ask(void *self, const struct panel *p, struct answer *out, int64_t *out_ns,
                             struct otl_error *err)
{
    struct rows *r = self;
    struct range range = panel_range(p, &r->env.gen);
    int64_t begin_ns;
    sqlite3_stmt *st;
    enum otl_err rc;
    int got;

    write_query(&r->sql, p, &range);
    begin_ns = clock_mono_ns();
    rc = db_prepare(&r->db, buf_cstr(&r->sql), &st, err);
    if (rc != OTL_OK)
        return rc;
    while ((got = sqlite3_step(st)) == SQLITE_ROW)
        answer_add(out, (uint32_t)sqlite3_column_int64(st, 0),
                   (uint32_t)sqlite3_column_int64(st, 1), sqlite3_column_double(st, 2),
                   sqlite3_column_double(st, 3));
    *out_ns = clock_mono_ns() - begin_ns;
    if (got != SQLITE_DONE)
        rc = db_fail(&r->db, got, "read the rows", err);
    (void)sqlite3_finalize(st);
    return rc;
}

static uint64_t rows_bytes(void *self)
{
    return directory_bytes(((struct rows *)self)->env.dir);
}

const struct reads_system reads_sqlite = {
    .key = "sqlite",
    .name = "SQLite rows",
    .most_points = 10000000,
    .start = rows_start,
    .add = rows_add,
    .finish = rows_finish,
    .count = rows_count,
    .halt = rows_halt,
    .resume = rows_resume,
    .ask = rows_ask,
    .bytes = rows_bytes,
    .stop = rows_stop,
};
