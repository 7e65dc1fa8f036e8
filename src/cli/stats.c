/* stats.c -- otlite stats: what is in a data directory, and how much room it takes.
 *
 * The point tables have no index, so counting by metric means reading every row once. One scan of
 * each table counts by series id into an array (ids are small integers, given out from 1 on), and
 * everything else is summed from there. */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "otlite/cli.h"
#include "otlite/clock.h"

#include "cli/open_reader.h"
#include "cli/options.h"

enum {
    TOP = 10,
    /* 1 GiB of counters; a larger id means a damaged catalogue. */
    MAX_SERIES_ID = 1 << 27
};

enum { FILE_DB, FILE_WAL, FILE_STATE, FILE_STATE_WAL, FILES };
static const char *const file_names[FILES] = {"telemetry.db", "telemetry.db-wal", "state.db",
                                              "state.db-wal"};

enum { TABLES = 4 };
static const char *const table_names[TABLES] = {"number_point", "histogram_point",
                                                "exponential_histogram_point", "summary_point"};

struct top_metric {
    char *name;
    const char *type; /* static */
    int64_t points, series;
};

struct report {
    int64_t file_bytes[FILES]; /* -1: not there */
    int64_t version, page_size, pages, free_pages;
    int64_t rows[TABLES], points, exemplars;
    int64_t series, metrics, metric_names, scopes, resources, services;
    int64_t projects;       /* -1: no state.db */
    int64_t oldest, newest; /* 0: no points */
    struct top_metric top[TOP];
    int n_top;
};

/* ---- gathering ---- */

static void read_files(const struct config *config, struct report *r)
{
    for (int i = 0; i < FILES; i++) {
        char path[4096];
        struct stat st;

        r->file_bytes[i] = -1;
        if (cli_data_path(config, file_names[i], path) && stat(path, &st) == 0)
            r->file_bytes[i] = st.st_size;
    }
}

static enum otl_err read_counts(struct db *db, bool have_state, struct report *r,
                                struct otl_error *err)
{
    const struct {
        const char *sql;
        int64_t *out;
    } counts[] = {
        {"PRAGMA user_version", &r->version},
        {"PRAGMA page_size", &r->page_size},
        {"PRAGMA page_count", &r->pages},
        {"PRAGMA freelist_count", &r->free_pages},
        {"SELECT count(*) FROM exemplar", &r->exemplars},
        {"SELECT count(*) FROM series", &r->series},
        {"SELECT count(*) FROM metric", &r->metrics},
        {"SELECT count(DISTINCT name) FROM metric", &r->metric_names},
        {"SELECT count(*) FROM scope", &r->scopes},
        {"SELECT count(*) FROM resource", &r->resources},
        {"SELECT count(DISTINCT service_name) FROM resource", &r->services},
    };
    enum otl_err rc = OTL_OK;

    for (size_t i = 0; rc == OTL_OK && i < sizeof(counts) / sizeof(counts[0]); i++)
        rc = db_query_int(db, counts[i].sql, counts[i].out, err);
    r->projects = -1;
    if (rc == OTL_OK && have_state)
        rc = db_query_int(db, "SELECT count(*) FROM state.project", &r->projects, err);
    return rc;
}

/* points[id] becomes the number of points of series id; max_id is the last one. */
static enum otl_err scan_table(struct db *db, int table, int64_t *points, int64_t max_id,
                               struct report *r, struct otl_error *err)
{
    char sql[96];
    sqlite3_stmt *st;
    enum otl_err rc;
    int step;

    (void)snprintf(sql, sizeof(sql), "SELECT series_id, time FROM %s", table_names[table]);
    rc = db_prepare(db, sql, &st, err);
    if (rc != OTL_OK)
        return rc;
    while ((step = sqlite3_step(st)) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(st, 0);
        int64_t t = sqlite3_column_int64(st, 1);

        if (id > 0 && id <= max_id)
            points[id]++;
        if (r->points == 0 || t < r->oldest)
            r->oldest = t;
        if (r->points == 0 || t > r->newest)
            r->newest = t;
        r->rows[table]++;
        r->points++;
    }
    if (step != SQLITE_DONE)
        rc = db_fail(db, step, "count the points", err);
    sqlite3_finalize(st);
    return rc;
}

static const char *known_type(const char *type)
{
    static const char *const types[] = {"gauge", "sum", "histogram", "exponential_histogram",
                                        "summary"};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (type != NULL && strcmp(type, types[i]) == 0)
            return types[i];
    return "?";
}

/* Put m among the largest ones, which takes its name; otherwise frees it. */
static void offer(struct report *r, struct top_metric *m)
{
    int at = r->n_top;

    while (at > 0 && r->top[at - 1].points < m->points)
        at--;
    if (at == TOP || m->points == 0) {
        free(m->name);
    } else {
        if (r->n_top == TOP)
            free(r->top[TOP - 1].name);
        else
            r->n_top++;
        memmove(&r->top[at + 1], &r->top[at], (size_t)(r->n_top - 1 - at) * sizeof(r->top[0]));
        r->top[at] = *m;
    }
    *m = (struct top_metric){0};
}

/* Metrics of one name and type count together, whoever sent them. */
static enum otl_err read_top(struct db *db, const int64_t *points, int64_t max_id, struct report *r,
                             struct otl_error *err)
{
    static const char SQL[] = "SELECT m.name, m.type, s.id FROM metric m JOIN series s"
                              " ON s.metric_id = m.id ORDER BY m.name, m.type";
    struct top_metric m = {0};
    sqlite3_stmt *st;
    enum otl_err rc = db_prepare(db, SQL, &st, err);
    int step = SQLITE_DONE;

    if (rc != OTL_OK)
        return rc;
    while (rc == OTL_OK && (step = sqlite3_step(st)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(st, 0);
        const char *type = known_type((const char *)sqlite3_column_text(st, 1));
        int64_t id = sqlite3_column_int64(st, 2);

        if (m.name == NULL || name == NULL || strcmp(m.name, name) != 0 || m.type != type) {
            if (m.name != NULL)
                offer(r, &m);
            m = (struct top_metric){.name = strdup(name == NULL ? "" : name), .type = type};
            if (m.name == NULL)
                rc = otl_fail(err, OTL_ENOMEM, "no memory");
        }
        m.series++;
        m.points += id > 0 && id <= max_id ? points[id] : 0;
    }
    if (rc == OTL_OK && step != SQLITE_DONE)
        rc = db_fail(db, step, "read the metrics", err);
    if (m.name != NULL)
        offer(r, &m);
    sqlite3_finalize(st);
    return rc;
}

static enum otl_err gather(const struct config *config, struct report *r, struct otl_error *err)
{
    struct db db;
    bool have_state;
    int64_t max_id = 0;
    int64_t *points = NULL;
    enum otl_err rc = cli_open_reader(config, &db, &have_state, err);

    if (rc == OTL_OK)
        rc = db_exec(&db, "BEGIN", err); /* one snapshot for all the numbers */
    if (rc == OTL_OK)
        rc = db_query_int(&db, "SELECT ifnull(max(id), 0) FROM series", &max_id, err);
    if (rc == OTL_OK && (max_id < 0 || max_id > MAX_SERIES_ID))
        rc = otl_fail(err, OTL_ECORRUPT, "the largest series id, %" PRId64 ", cannot be right",
                      max_id);
    if (rc == OTL_OK) {
        points = calloc((size_t)max_id + 1, sizeof(*points));
        if (points == NULL)
            rc = otl_fail(err, OTL_ENOMEM, "no memory for %" PRId64 " counters", max_id);
    }
    if (rc == OTL_OK)
        rc = read_counts(&db, have_state, r, err);
    if (rc == OTL_OK && isatty(STDERR_FILENO) == 1)
        fprintf(stderr, "reading every point once ...\r");
    for (int t = 0; rc == OTL_OK && t < TABLES; t++)
        rc = scan_table(&db, t, points, max_id, r, err);
    if (isatty(STDERR_FILENO) == 1)
        fprintf(stderr, "%-30s\r", "");
    if (rc == OTL_OK)
        rc = read_top(&db, points, max_id, r, err);
    free(points);
    db_close(&db);
    if (rc == OTL_OK)
        read_files(config, r);
    return rc;
}

/* ---- printing ---- */

/* ISO 8601 with nanoseconds, or nothing for times that have no such form. */
static void time_text(int64_t ns, char out[48])
{
    int64_t part = ns % NS_PER_S;
    time_t seconds = (time_t)(ns / NS_PER_S);
    struct tm tm;
    size_t n;

    if (part < 0) {
        part += NS_PER_S;
        seconds--;
    }
    out[0] = '\0';
    if (gmtime_r(&seconds, &tm) == NULL)
        return;
    n = strftime(out, 32, "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(out + n, 48 - n, ".%09" PRId64 "Z", part);
}

/* What one point takes in the file: used pages only, and what waits in the WAL belongs to it. */
static double bytes_per_point(const struct report *r)
{
    int64_t used = (r->pages - r->free_pages) * r->page_size;

    return r->points == 0 ? 0 : (double)used / (double)r->points;
}

/* A name from a client, without what a terminal would obey. */
static void print_name(const char *name)
{
    for (; *name != '\0'; name++)
        (void)putchar((unsigned char)*name < 0x20 || *name == 0x7f ? '?' : *name);
}

static void print_text(const struct config *config, const struct report *r)
{
    char oldest[48], newest[48];

    printf("data directory        %s\n", config->data);
    for (int i = 0; i < FILES; i++)
        if (r->file_bytes[i] >= 0)
            printf("%-21s %" PRId64 " bytes\n", file_names[i], r->file_bytes[i]);
    printf("schema version        %" PRId64 "\n", r->version);
    printf("pages                 %" PRId64 " of %" PRId64 " bytes, %" PRId64 " free\n", r->pages,
           r->page_size, r->free_pages);
    if (r->projects >= 0)
        printf("projects              %" PRId64 "\n", r->projects);
    printf("services              %" PRId64 " in %" PRId64 " resources, %" PRId64 " scopes\n",
           r->services, r->resources, r->scopes);
    printf("metrics               %" PRId64 " names, %" PRId64 " with their sources\n",
           r->metric_names, r->metrics);
    printf("series                %" PRId64 "\n", r->series);
    printf("points                %" PRId64 "\n", r->points);
    for (int t = 0; t < TABLES; t++)
        printf("  %-27s %" PRId64 "\n", table_names[t], r->rows[t]);
    printf("exemplars             %" PRId64 "\n", r->exemplars);
    if (r->points == 0)
        return;
    time_text(r->oldest, oldest);
    time_text(r->newest, newest);
    printf("bytes a point         %.1f\n", bytes_per_point(r));
    printf("oldest point          %s\n", oldest);
    printf("newest point          %s\n", newest);
    printf("\nmost points:\n  %12s %8s  metric\n", "points", "series");
    for (int i = 0; i < r->n_top; i++) {
        printf("  %12" PRId64 " %8" PRId64 "  ", r->top[i].points, r->top[i].series);
        print_name(r->top[i].name);
        printf(" (%s)\n", r->top[i].type);
    }
}

static void add_member(struct buf *b, const char *key, int64_t v)
{
    buf_printf(b, "%s\"%s\":%" PRId64, b->n > 0 && b->p[b->n - 1] == '{' ? "" : ",", key, v);
}

static void add_json(struct buf *b, const struct config *config, const struct report *r)
{
    char oldest[48], newest[48];

    buf_add_str(b, "{\"data\":");
    buf_add_json_string(b, bytes_str(config->data));
    buf_add_str(b, ",\"files\":{");
    for (int i = 0; i < FILES; i++)
        if (r->file_bytes[i] >= 0)
            add_member(b, file_names[i], r->file_bytes[i]);
    buf_add_char(b, '}');
    add_member(b, "schema_version", r->version);
    add_member(b, "page_size", r->page_size);
    add_member(b, "pages", r->pages);
    add_member(b, "free_pages", r->free_pages);
    if (r->projects >= 0)
        add_member(b, "projects", r->projects);
    add_member(b, "services", r->services);
    add_member(b, "resources", r->resources);
    add_member(b, "scopes", r->scopes);
    add_member(b, "metric_names", r->metric_names);
    add_member(b, "metrics", r->metrics);
    add_member(b, "series", r->series);
    add_member(b, "points", r->points);
    buf_add_str(b, ",\"rows\":{");
    for (int t = 0; t < TABLES; t++)
        add_member(b, table_names[t], r->rows[t]);
    add_member(b, "exemplar", r->exemplars);
    buf_add_char(b, '}');
    if (r->points > 0) {
        time_text(r->oldest, oldest);
        time_text(r->newest, newest);
        buf_add_str(b, ",\"bytes_per_point\":");
        buf_add_double(b, bytes_per_point(r));
        buf_printf(b, ",\"oldest\":\"%s\",\"newest\":\"%s\"", oldest, newest);
    }
    buf_add_str(b, ",\"top_metrics\":[");
    for (int i = 0; i < r->n_top; i++) {
        buf_add_str(b, i == 0 ? "{\"metric\":" : ",{\"metric\":");
        buf_add_json_string(b, bytes_str(r->top[i].name));
        buf_printf(b, ",\"type\":\"%s\"", r->top[i].type);
        add_member(b, "points", r->top[i].points);
        add_member(b, "series", r->top[i].series);
        buf_add_char(b, '}');
    }
    buf_add_str(b, "]}\n");
}

static enum otl_err print_json(const struct config *config, const struct report *r,
                               struct otl_error *err)
{
    struct buf b = {0};
    enum otl_err rc = OTL_OK;

    add_json(&b, config, r);
    if (b.failed)
        rc = otl_fail(err, OTL_ENOMEM, "no memory");
    else
        (void)fwrite(b.p, 1, b.n, stdout); /* cli_dispatch looks at stdout's state */
    buf_fini(&b);
    return rc;
}

static int stats_run(int argc, char **argv)
{
    static const char *json;
    static const struct cli_flag flags[] = {{"json", NULL, "one JSON object", &json}, {0}};
    static const struct cli_spec spec = {
        .command = "stats",
        .synopsis = "[--json] [--data DIR]",
        .about =
            "Say what a data directory holds: files, rows, series, time range, the metrics with\n"
            "the most points. Reads every point once (a few million a second), in one\n"
            "snapshot, also beside a running daemon.",
        .common = CLI_DATA | CLI_CONFIG,
        .flags = flags,
    };
    struct otl_error err = {0};
    struct report r = {0};
    struct config config;
    struct cli_args args;
    enum otl_err rc;
    int status = cli_parse(&spec, argc, argv, &config, &args);

    if (status != CLI_GO)
        return status;
    rc = gather(&config, &r, &err);
    if (rc == OTL_OK && json != NULL)
        rc = print_json(&config, &r, &err);
    else if (rc == OTL_OK)
        print_text(&config, &r);
    for (int i = 0; i < r.n_top; i++)
        free(r.top[i].name);
    config_fini(&config);
    return rc == OTL_OK ? EX_OK : cli_error("stats", &err);
}

const struct cli_command cli_stats = {"stats", "Sizes, rows, series, the largest metrics",
                                      stats_run};
