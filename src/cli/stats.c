/* stats.c -- otlite stats: what is in a data directory, how much room it takes, and what takes it.
 */
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
#include "otlite/usage.h"

#include "cli/open_reader.h"
#include "cli/options.h"

enum { TOP = 20 };

enum { FILE_DB, FILE_WAL, FILE_STATE, FILE_STATE_WAL, FILES };
static const char *const file_names[FILES] = {"telemetry.db", "telemetry.db-wal", "state.db",
                                              "state.db-wal"};

enum { TABLES = 4 };
static const char *const table_names[TABLES] = {"number_point", "histogram_point",
                                                "exponential_histogram_point", "summary_point"};

/* Metrics of one name and type count together, whoever sent them. */
struct top_metric {
    char *name;
    const char *type; /* static */
    int64_t points, series;
    double bytes; /* sealed */
};

/* A key of point attributes. */
struct top_key {
    char *key;
    int64_t values, series;
};

struct report {
    int64_t file_bytes[FILES]; /* -1: not there */
    int64_t version, page_size, pages, free_pages;
    struct usage usage;
    int64_t points, head_points; /* all types */
    int64_t series, metrics, metric_names, scopes, resources, services;
    int64_t projects; /* -1: no state.db */
    struct top_metric top[TOP];
    struct top_key keys[TOP];
    int n_top, n_keys;
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

static const char *known_type(const char *type)
{
    static const char *const types[] = {"gauge", "sum", "histogram", "exponential_histogram",
                                        "summary"};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (type != NULL && strcmp(type, types[i]) == 0)
            return types[i];
    return "?";
}

/* What is sealed has a size; what is not, only its number of points. */
static bool costs_more(const struct top_metric *a, const struct top_metric *b)
{
    return a->bytes > b->bytes || (a->bytes >= b->bytes && a->points > b->points);
}

/* Put m among the largest ones, which takes its name; otherwise frees it. */
static void offer(struct report *r, struct top_metric *m)
{
    int at = r->n_top;

    while (at > 0 && costs_more(m, &r->top[at - 1]))
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

static enum otl_err read_top(struct db *db, struct report *r, struct otl_error *err)
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
        if (id > 0 && id <= r->usage.max_series) {
            m.points += (int64_t)r->usage.series[id].points;
            m.bytes += r->usage.series[id].bytes;
        }
    }
    if (rc == OTL_OK && step != SQLITE_DONE)
        rc = db_fail(db, step, "read the metrics", err);
    if (m.name != NULL)
        offer(r, &m);
    sqlite3_finalize(st);
    return rc;
}

/* Where there are too many series, these are what makes them. */
static enum otl_err read_keys(struct db *db, struct report *r, struct otl_error *err)
{
    static const char SQL[] =
        "SELECT k.key, count(DISTINCT k.value) AS n, count(*) FROM series s"
        " JOIN json_each(s.attributes) k GROUP BY k.key ORDER BY n DESC, k.key LIMIT ?1";
    sqlite3_stmt *st;
    enum otl_err rc = db_prepare(db, SQL, &st, err);
    int step;

    if (rc != OTL_OK)
        return rc;
    step = sqlite3_bind_int(st, 1, TOP);
    while (rc == OTL_OK && step != SQLITE_DONE) {
        const char *key;

        step = sqlite3_step(st);
        if (step != SQLITE_ROW)
            break;
        key = (const char *)sqlite3_column_text(st, 0);
        r->keys[r->n_keys] =
            (struct top_key){strdup(key == NULL ? "" : key), sqlite3_column_int64(st, 1),
                             sqlite3_column_int64(st, 2)};
        if (r->keys[r->n_keys++].key == NULL)
            rc = otl_fail(err, OTL_ENOMEM, "no memory");
    }
    if (rc == OTL_OK && step != SQLITE_DONE)
        rc = db_fail(db, step, "read the attributes", err);
    (void)sqlite3_finalize(st);
    return rc;
}

static void show_step(const char *what)
{
    if (isatty(STDERR_FILENO) == 1)
        fprintf(stderr, "%-40s\r", what);
}

static enum otl_err gather(const struct config *config, struct report *r, struct otl_error *err)
{
    struct db db;
    bool have_state;
    enum otl_err rc = cli_open_reader(config, &db, &have_state, err);

    if (rc == OTL_OK)
        rc = db_exec(&db, "BEGIN", err); /* one snapshot for all the numbers */
    if (rc == OTL_OK)
        rc = read_counts(&db, have_state, r, err);
    show_step("reading the head and all directories ...");
    if (rc == OTL_OK)
        rc = usage_collect(&db, &r->usage, err);
    show_step("reading the catalogue ...");
    if (rc == OTL_OK)
        rc = read_top(&db, r, err);
    if (rc == OTL_OK)
        rc = read_keys(&db, r, err);
    show_step("");
    for (int t = 0; t < TABLES; t++) {
        r->points += (int64_t)r->usage.points[t];
        r->head_points += (int64_t)r->usage.head_points[t];
    }
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

/* Whole files over points: the catalogue, the log and pages that are free for now included. */
static double bytes_per_point(const struct report *r)
{
    int64_t bytes =
        r->file_bytes[FILE_DB] + (r->file_bytes[FILE_WAL] > 0 ? r->file_bytes[FILE_WAL] : 0);

    return r->points == 0 ? 0 : (double)bytes / (double)r->points;
}

static double sealed_bytes_per_point(const struct report *r)
{
    int64_t sealed = r->points - r->head_points;

    return sealed == 0 ? 0 : (double)r->usage.sealed_bytes / (double)sealed;
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
    printf("points                %" PRId64 ", %" PRId64 " of them in the head\n", r->points,
           r->head_points);
    for (int t = 0; t < TABLES; t++)
        printf("  %-27s %" PRIu64 "\n", table_names[t], r->usage.points[t]);
    printf("exemplars             %" PRIu64 ", %" PRIu64 " of them in the head\n",
           r->usage.exemplars, r->usage.head_exemplars);
    printf("sealed                %" PRIu64 " parts, %" PRIu64 " blocks, %" PRIu64
           " chunks, %" PRIu64 " rollup rows, %" PRIu64 " bytes\n",
           r->usage.parts, r->usage.blocks, r->usage.chunks, r->usage.rollup_rows,
           r->usage.sealed_bytes);
    if (r->usage.damaged > 0)
        printf("damaged               %" PRIu64 " chunks or blocks; see otlite check\n",
               r->usage.damaged);
    if (r->points == 0)
        return;
    time_text(r->usage.oldest, oldest);
    time_text(r->usage.newest, newest);
    printf("bytes a point         %.2f (files), %.2f (sealed ones, with their rollups)\n",
           bytes_per_point(r), sealed_bytes_per_point(r));
    printf("oldest point          %s\n", oldest);
    printf("newest point          %s\n", newest);
    printf("\nmost expensive metrics:\n  %14s %12s %8s %8s  metric\n", "sealed bytes", "points",
           "a point", "series");
    for (int i = 0; i < r->n_top; i++) {
        const struct top_metric *m = &r->top[i];

        printf("  %14.0f %12" PRId64 " %8.2f %8" PRId64 "  ", m->bytes, m->points,
               m->points == 0 ? 0 : m->bytes / (double)m->points, m->series);
        print_name(m->name);
        printf(" (%s)\n", m->type);
    }
    printf("\nlabel keys with the most values:\n  %12s %8s  key\n", "values", "series");
    for (int i = 0; i < r->n_keys; i++) {
        printf("  %12" PRId64 " %8" PRId64 "  ", r->keys[i].values, r->keys[i].series);
        print_name(r->keys[i].key);
        (void)putchar('\n');
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
        add_member(b, table_names[t], (int64_t)r->usage.points[t]);
    add_member(b, "exemplar", (int64_t)r->usage.exemplars);
    buf_add_char(b, '}');
    add_member(b, "head_points", r->head_points);
    add_member(b, "parts", (int64_t)r->usage.parts);
    add_member(b, "blocks", (int64_t)r->usage.blocks);
    add_member(b, "chunks", (int64_t)r->usage.chunks);
    add_member(b, "rollup_rows", (int64_t)r->usage.rollup_rows);
    add_member(b, "sealed_bytes", (int64_t)r->usage.sealed_bytes);
    add_member(b, "damaged", (int64_t)r->usage.damaged);
    if (r->points > 0) {
        time_text(r->usage.oldest, oldest);
        time_text(r->usage.newest, newest);
        buf_add_str(b, ",\"bytes_per_point\":");
        buf_add_double(b, bytes_per_point(r));
        buf_add_str(b, ",\"sealed_bytes_per_point\":");
        buf_add_double(b, sealed_bytes_per_point(r));
        buf_printf(b, ",\"oldest\":\"%s\",\"newest\":\"%s\"", oldest, newest);
    }
    buf_add_str(b, ",\"top_metrics\":[");
    for (int i = 0; i < r->n_top; i++) {
        buf_add_str(b, i == 0 ? "{\"metric\":" : ",{\"metric\":");
        buf_add_json_string(b, bytes_str(r->top[i].name));
        buf_printf(b, ",\"type\":\"%s\"", r->top[i].type);
        add_member(b, "points", r->top[i].points);
        add_member(b, "series", r->top[i].series);
        add_member(b, "sealed_bytes", (int64_t)r->top[i].bytes);
        buf_add_char(b, '}');
    }
    buf_add_str(b, "],\"top_keys\":[");
    for (int i = 0; i < r->n_keys; i++) {
        buf_add_str(b, i == 0 ? "{\"key\":" : ",{\"key\":");
        buf_add_json_string(b, bytes_str(r->keys[i].key));
        add_member(b, "values", r->keys[i].values);
        add_member(b, "series", r->keys[i].series);
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
            "Say what a data directory holds: files, points, series, time range, bytes a point, "
            "the\n"
            "twenty metrics that take the most room and the label keys with the most values. In\n"
            "one snapshot, also beside a running daemon.",
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
    for (int i = 0; i < r.n_keys; i++)
        free(r.keys[i].key);
    usage_fini(&r.usage);
    config_fini(&config);
    return rc == OTL_OK ? EX_OK : cli_error("stats", &err);
}

const struct cli_command cli_stats = {"stats", "Sizes, points, series, what takes the most room",
                                      stats_run};
