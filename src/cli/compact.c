/* compact.c -- otlite compact: the smallest form of a data directory that no daemon serves. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "otlite/cli.h"
#include "otlite/db.h"
#include "otlite/maintain.h"
#include "otlite/state.h"
#include "otlite/writer.h"

#include "cli/data_dir.h"
#include "cli/maintain_opts.h"
#include "cli/open_reader.h"
#include "cli/options.h"

struct compaction {
    const struct config *config;
    struct state *state;
    struct writer *writer;
    struct maintainer *maintainer;
    bool shown; /* progress is on the terminal */
};

static void show_progress(void *arg, const char *text)
{
    struct compaction *c = arg;

    if (isatty(STDERR_FILENO) != 1)
        return;
    fprintf(stderr, "\r%-70.70s", text);
    (void)fflush(stderr);
    c->shown = true;
}

/* Of telemetry.db and its log. */
static int64_t bytes_on_disk(const struct config *c)
{
    static const char *const names[] = {"telemetry.db", "telemetry.db-wal"};
    int64_t sum = 0;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[4096];
        struct stat st;

        if (cli_data_path(c, names[i], path) && stat(path, &st) == 0)
            sum += (int64_t)st.st_size;
    }
    return sum;
}

static int64_t project_id(void *arg, const char *name)
{
    struct compaction *c = arg;
    struct otl_error err;
    int64_t id = 0;

    return state_project(c->state, name, &id, &err) == OTL_OK ? id : 0;
}

static enum otl_err start(struct compaction *c, struct maintain_opts *m, struct otl_error *err)
{
    struct writer_opts w = {.max_queue_bytes = (size_t)c->config->queue_max_bytes,
                            .max_queue_jobs = (size_t)c->config->queue_max_requests,
                            .max_age_ms = c->config->queue_max_age,
                            .max_bytes = c->config->retention_max_bytes};
    enum otl_err rc = state_open(c->config->data, &c->state, err);

    cli_store_opts(c->config, &w.store);
    if (rc == OTL_OK)
        rc = writer_start(&w, &c->writer, err);
    if (rc != OTL_OK)
        return rc;
    m->store = w.store;
    m->idle = true;
    m->project_id = project_id;
    m->project_arg = c;
    return maintainer_start(m, c->writer, &c->maintainer, err);
}

static void stop(struct compaction *c)
{
    if (c->maintainer != NULL)
        maintainer_stop(c->maintainer);
    maintainer_free(c->maintainer);
    if (c->writer != NULL)
        writer_stop(c->writer); /* moves the log into the file */
    writer_free(c->writer);
    if (c->state != NULL)
        state_close(c->state);
    if (c->shown)
        fprintf(stderr, "\r%-70s\r", "");
}

static enum otl_err print_summary(const struct config *config, int64_t before,
                                  struct otl_error *err)
{
    struct store_opts o;
    struct db db = {0};
    int64_t points = 0, after;
    enum otl_err rc;

    cli_store_opts(config, &o);
    rc = store_open_reader(&db, &o, err);
    if (rc == OTL_OK)
        rc = db_query_int(&db,
                          "SELECT coalesce(sum(points), 0) FROM part"
                          " WHERE live = 1 AND resolution = 0 AND kind <> 'exemplar'",
                          &points, err);
    db_close(&db);
    if (rc != OTL_OK)
        return rc;
    after = bytes_on_disk(config);
    printf("%" PRId64 " bytes before, %" PRId64 " after; %" PRId64 " points", before, after,
           points);
    if (points > 0)
        printf(", %.2f bytes a point", (double)after / (double)points);
    printf("\n");
    return OTL_OK;
}

static enum otl_err compact(struct compaction *c, struct otl_error *err)
{
    int64_t before = bytes_on_disk(c->config);
    struct maintain_opts m = {0};
    int lock = -1;
    enum otl_err rc = cli_check_data(c->config, err);

    if (rc == OTL_OK)
        rc = cli_lock_data_dir(c->config->data, &lock, err);
    if (rc == OTL_OK)
        rc = cli_maintain_opts(c->config, &m, err);
    if (rc == OTL_OK)
        rc = start(c, &m, err);
    if (rc == OTL_OK)
        rc = maintain_compact(c->maintainer, show_progress, c, err);
    stop(c);
    cli_maintain_opts_fini(&m);
    if (rc == OTL_OK)
        rc = print_summary(c->config, before, err);
    if (lock >= 0)
        (void)close(lock);
    return rc;
}

static int compact_run(int argc, char **argv)
{
    static const struct cli_spec spec = {
        .command = "compact",
        .synopsis = "[--data DIR]",
        .about =
            "Bring telemetry.db into its smallest form: seal the newest points, merge each day's\n"
            "parts into one, drop what retention.* says, and give free pages back. A daemon does\n"
            "the same bit by bit while it runs; this is for a directory that none serves, before\n"
            "it is archived or copied. It may be broken off at any time, and run again.",
        .common = CLI_DATA | CLI_CONFIG,
    };
    struct compaction c = {0};
    struct otl_error err = {0};
    struct config config;
    struct cli_args args;
    enum otl_err rc;
    int status = cli_parse(&spec, argc, argv, &config, &args);

    if (status != CLI_GO)
        return status;
    c.config = &config;
    rc = compact(&c, &err);
    config_fini(&config);
    return rc == OTL_OK ? EX_OK : cli_error("compact", &err);
}

const struct cli_command cli_compact = {"compact", "Bring a data directory into its smallest form",
                                        compact_run};
