/* export.c -- otlite export: what is stored, as OTLP JSON lines, CSV or OpenMetrics text. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "otlite/cli.h"
#include "otlite/clock.h"
#include "otlite/export.h"

#include "cli/open_read.h"
#include "cli/options.h"

/* A size that any receiver takes in one request. */
enum { POINTS_PER_LINE = 1000 };

struct sink {
    FILE *file;
    const char *path; /* NULL: stdout */
    char *partial;    /* what is written until it is whole; NULL: path itself is */
};

static enum otl_err cannot(struct otl_error *err, const char *what, const char *path)
{
    int e = errno;

    return otl_fail(err, e == ENOSPC || e == EDQUOT ? OTL_EFULL : OTL_EIO, "cannot %s %.256s: %s",
                    what, path, strerror(e));
}

/* A file is written beside its final name and renamed, so that half an export never looks like a
 * whole one. A device or a pipe is written as it is. */
static enum otl_err sink_open(struct sink *s, const char *path, struct otl_error *err)
{
    struct stat st;

    s->path = path;
    if (path == NULL) {
        s->file = stdout;
        return OTL_OK;
    }
    if (stat(path, &st) != 0 || S_ISREG(st.st_mode)) {
        if (asprintf(&s->partial, "%s.partial", path) < 0) {
            s->partial = NULL;
            return otl_fail(err, OTL_ENOMEM, "no memory");
        }
        path = s->partial;
    }
    s->file = fopen(path, "we");
    return s->file == NULL ? cannot(err, "write", path) : OTL_OK;
}

/* rc: how the export went. */
static enum otl_err sink_close(struct sink *s, enum otl_err rc, struct otl_error *err)
{
    const char *name = s->partial != NULL ? s->partial : s->path;

    if (s->file != NULL && s->path != NULL) {
        /* A pipe or a device cannot be synced, and says EINVAL. */
        if (rc == OTL_OK &&
            (fflush(s->file) != 0 || (fsync(fileno(s->file)) != 0 && s->partial != NULL)))
            rc = cannot(err, "write", name);
        if (fclose(s->file) != 0 && rc == OTL_OK)
            rc = cannot(err, "write", name);
        if (rc == OTL_OK && s->partial != NULL && rename(s->partial, s->path) != 0)
            rc = cannot(err, "rename the finished export to", s->path);
        if (rc != OTL_OK && s->partial != NULL)
            (void)unlink(s->partial);
    } else if (s->file == stdout && rc == OTL_OK && fflush(stdout) != 0) {
        rc = cannot(err, "write", "the output");
    }
    free(s->partial);
    return rc;
}

/* *out: the project's id; 0 for "all". */
static enum otl_err find_project(struct db *db, bool have_state, const char *name, int64_t *out,
                                 struct otl_error *err)
{
    sqlite3_stmt *st;
    enum otl_err rc;
    int step;

    *out = 0;
    if (strcmp(name, "all") == 0)
        return OTL_OK;
    if (!have_state)
        return otl_fail(
            err, OTL_ENOTFOUND,
            "there is no state.db, which knows the projects' names; leave --project out "
            "to export all");
    rc = db_prepare(db, "SELECT id FROM state.project WHERE name = ?1", &st, err);
    if (rc != OTL_OK)
        return rc;
    step = sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
    if (step == SQLITE_OK)
        step = sqlite3_step(st);
    if (step == SQLITE_ROW)
        *out = sqlite3_column_int64(st, 0);
    else if (step == SQLITE_DONE)
        rc =
            otl_fail(err, OTL_ENOTFOUND,
                     "there is no project \"%.100s\"; list them with: otlite sql 'SELECT name FROM "
                     "state.project'",
                     name);
    else
        rc = db_fail(db, step, "find the project", err);
    sqlite3_finalize(st);
    return rc;
}

struct request {
    const char *format, *project, *match, *from, *to, *output;
};

static void show_progress(void *arg, size_t done, size_t all)
{
    int64_t *next = arg, now = clock_mono_ns();

    if (now < *next && done < all)
        return;
    *next = now + NS_PER_S / 4;
    if (done < all)
        fprintf(stderr, "%3d %%  %zu of %zu series\r", (int)(100.0 * (double)done / (double)all),
                done, all);
    else
        fprintf(stderr, "%-50s\r", "");
}

static enum otl_err write_format(struct cli_read *r, const struct request *q,
                                 const struct export_opts *o, FILE *out, struct otl_error *err)
{
    struct export_losses lost;
    enum otl_err rc;

    if (strcmp(q->format, "csv") == 0)
        return export_csv(r->read, &r->db, o, out, err);
    if (strcmp(q->format, "otlp-json") == 0)
        return export_otlp_json(r->read, &r->db, o, out, err);
    rc = export_openmetrics(r->read, o, out, &lost, err);
    if (rc == OTL_OK && (lost.series > 0 || lost.points > 0))
        fprintf(stderr,
                "otlite export: left out what OpenMetrics cannot hold: %" PRIu64
                " series whose name has another type already, %" PRIu64
                " points without a value or total\n",
                lost.series, lost.points);
    return rc;
}

static enum otl_err export_to(const struct config *config, const struct request *q,
                              const struct export_opts *opts, struct otl_error *err)
{
    struct export_opts o = *opts;
    struct sink sink = {0};
    struct cli_read r = {0};
    enum otl_err rc = cli_read_open(config, &r, err);

    if (rc != OTL_OK)
        return rc;
    rc = find_project(&r.db, r.have_state, q->project, &o.project_id, err);
    if (rc == OTL_OK) {
        rc = sink_open(&sink, q->output, err);
        if (rc == OTL_OK)
            rc = write_format(&r, q, &o, sink.file, err);
        rc = sink_close(&sink, rc, err);
    }
    cli_read_close(&r);
    return rc;
}

/* The flags that have a form of their own. EX_OK, or an exit status already explained. */
static int parse_request(const struct request *q, struct export_opts *o, struct matcher **matchers,
                         void **memory)
{
    struct otl_error err = {0};
    int64_t now = clock_wall_ns();

    if (strcmp(q->format, "csv") != 0 && strcmp(q->format, "otlp-json") != 0 &&
        strcmp(q->format, "openmetrics") != 0)
        return cli_usage_error("export",
                               "--format %.40s is not known; it is otlp-json, csv or openmetrics",
                               q->format);
    if (q->from != NULL && !time_parse(q->from, now, &o->from))
        return cli_usage_error("export",
                               "--from %.60s is no time; write 2026-12-01T08:00:00Z, seconds "
                               "since 1970, or how far back: 90m",
                               q->from);
    if (q->to != NULL && !time_parse(q->to, now, &o->to))
        return cli_usage_error("export",
                               "--to %.60s is no time; write 2026-12-01T08:00:00Z, seconds "
                               "since 1970, or how far back: 90m",
                               q->to);
    if (o->from > o->to)
        return cli_usage_error("export", "--from is later than --to");
    if (q->match == NULL)
        return EX_OK;
    if (matchers_parse(bytes_str(q->match), matchers, &o->n_matchers, memory, &err) != OTL_OK)
        return cli_usage_error("export", "--match: %.300s", err.msg);
    o->matchers = *matchers;
    return EX_OK;
}

static int export_run(int argc, char **argv)
{
    struct request q = {.format = "otlp-json", .project = "all"};
    const struct cli_flag flags[] = {
        {"format", "FORMAT", "otlp-json, csv or openmetrics [otlp-json]", &q.format},
        {"match", "SELECTOR", "only series that match, as NAME{key=\"value\",key=~\"regex\"} [all]",
         &q.match},
        {"from", "TIME", "only points from then on [the first]", &q.from},
        {"to", "TIME", "only points before then [the last]", &q.to},
        {"project", "NAME", "only this project's points, or all [all]", &q.project},
        {"output", "FILE", "write to FILE, which appears when it is whole [stdout]", &q.output},
        {0},
    };
    const struct cli_spec spec = {
        .command = "export",
        .synopsis =
            "[--format otlp-json|csv|openmetrics] [--match SELECTOR] [--from TIME] [--to TIME]\n"
            "                     [--project NAME|all] [--output FILE] [--data DIR]",
        .about =
            "Write out what is stored, in one snapshot, also beside a running daemon.\n"
            "otlp-json: lossless; each line is a request that can be sent to any OTLP/HTTP\n"
            "receiver as application/json, or stored by `otlite import`, at most 1000 points.\n"
            "csv: the number points in the columns of the view points.\n"
            "openmetrics: text with times and the names that Prometheus gives them.\n"
            "TIME is 2026-12-01T08:00:00Z, seconds since 1970, now, or how far back: 90m, 7d.",
        .common = CLI_DATA | CLI_CONFIG,
        .flags = flags,
    };
    int64_t next_progress = 0;
    struct export_opts o = {
        .from = INT64_MIN, .to = INT64_MAX, .max_points = POINTS_PER_LINE, .arg = &next_progress};
    struct matcher *matchers = NULL;
    void *memory = NULL;
    struct otl_error err = {0};
    struct config config;
    struct cli_args args;
    enum otl_err rc;
    int status = cli_parse(&spec, argc, argv, &config, &args);

    if (status != CLI_GO)
        return status;
    if (isatty(STDERR_FILENO) == 1)
        o.progress = show_progress;
    status = parse_request(&q, &o, &matchers, &memory);
    if (status == EX_OK) {
        /* A reader that goes away is an error to report, not a silent end. */
        (void)signal(SIGPIPE, SIG_IGN);
        rc = export_to(&config, &q, &o, &err);
        if (rc != OTL_OK)
            status = cli_error("export", &err);
    }
    free(memory);
    config_fini(&config);
    return status;
}

const struct cli_command cli_export = {
    "export", "Write out what is stored: OTLP JSON, CSV, OpenMetrics", export_run};
