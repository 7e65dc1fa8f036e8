/* export.c -- otlite export: everything stored, as OTLP JSON lines or CSV. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "otlite/cli.h"
#include "otlite/export.h"

#include "cli/open_reader.h"
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

static enum otl_err export_to(const struct config *config, const char *project, bool csv,
                              const char *output, struct otl_error *err)
{
    struct sink sink = {0};
    struct db db;
    bool have_state;
    int64_t project_id;
    enum otl_err rc = cli_open_reader(config, &db, &have_state, err);

    if (rc == OTL_OK)
        rc = find_project(&db, have_state, project, &project_id, err);
    if (rc == OTL_OK) {
        rc = sink_open(&sink, output, err);
        if (rc == OTL_OK && csv)
            rc = export_csv(&db, project_id, sink.file, err);
        else if (rc == OTL_OK)
            rc = export_otlp_json(&db, project_id, POINTS_PER_LINE, sink.file, err);
        rc = sink_close(&sink, rc, err);
    }
    db_close(&db);
    return rc;
}

static int export_run(int argc, char **argv)
{
    const char *format = "otlp-json", *project = "all", *output = NULL;
    const struct cli_flag flags[] = {
        {"format", "FORMAT", "otlp-json or csv [otlp-json]", &format},
        {"project", "NAME", "only this project's points, or all [all]", &project},
        {"output", "FILE", "write to FILE, which appears when it is whole [stdout]", &output},
        {0},
    };
    const struct cli_spec spec = {
        .command = "export",
        .synopsis = "[--format otlp-json|csv] [--project NAME|all] [--output FILE] [--data DIR]",
        .about = "Write out what is stored, in one snapshot, also beside a running daemon.\n"
                 "otlp-json: lossless; each line is a request that can be sent to any OTLP/HTTP\n"
                 "receiver as application/json, at most 1000 points each.\n"
                 "csv: the number points in the columns of the view points.\n"
                 "Sorting needs temporary files of about the database's size in $SQLITE_TMPDIR,\n"
                 "$TMPDIR or /var/tmp.",
        .common = CLI_DATA | CLI_CONFIG,
        .flags = flags,
    };
    struct otl_error err = {0};
    struct config config;
    struct cli_args args;
    bool csv;
    enum otl_err rc;
    int status = cli_parse(&spec, argc, argv, &config, &args);

    if (status != CLI_GO)
        return status;
    csv = strcmp(format, "csv") == 0;
    if (!csv && strcmp(format, "otlp-json") != 0) {
        config_fini(&config);
        return cli_usage_error("export", "--format %.40s is not known; it is otlp-json or csv",
                               format);
    }
    /* A reader that goes away is an error to report, not a silent end. */
    (void)signal(SIGPIPE, SIG_IGN);
    rc = export_to(&config, project, csv, output, &err);
    config_fini(&config);
    return rc == OTL_OK ? EX_OK : cli_error("export", &err);
}

const struct cli_command cli_export = {"export", "Write out what is stored, as OTLP JSON or CSV",
                                       export_run};
