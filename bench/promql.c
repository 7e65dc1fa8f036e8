/* promql.c -- `otlite-bench promql`: each system is loaded, and then asked cold (its process new,
 * its files out of the page cache), warm, and warm while points come in; at last a dashboard, as a
 * browser asks for it. Prometheus' answers are held against otlite's; VictoriaMetrics has another
 * rate(). */
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "daemon.h"
#include "http_post.h"
#include "otlite/clock.h"
#include "promql.h"
#include "reads.h"
#include "reads_kept.h"
#include "reads_load.h"
#include "remote_write.h"
#include "result.h"

enum { SERIES = 10000, INTERVAL_S = 10, STEP_S = 60, DAY_S = 86400, NS_IN_MS = 1000000 };
/* Questions are of 3 ms after a full second, where no sample is: an edge of a window that a sample
 * lies on is closed in Prometheus 2, open in otlite. */
enum { QUESTION_MS = 3 };
enum { BATCH = 20 /* intervals of a remote write */, LOAD_RATE = 100000 };
enum { WARM_UP = 3 /* questions behind the cold one that do not count */ };
/* With points coming in a query is run up to so often, so far apart, so long. */
enum { INGEST_RUNS = 100, INGEST_PAUSE_MS = 50, INGEST_S = 20 };
enum { BROWSER = 6 /* connections of one */, SYSTEMS = 3 };

static const struct {
    const struct reads_system *is;
    const char *key; /* of what is kept: otlite's is that of `reads` */
    bool remote_write, same_rate;
} systems[SYSTEMS] = {
    {&reads_otlite, "otlite", false, true},
    {&reads_prometheus, "prometheus", true, true},
    {&reads_victoria, "victoria-promql", true, false},
};

struct times {
    double cold, warm, ingest, ingest_p99; /* ms; NAN: not asked */
};

struct bench {
    struct series_gen_opts gen;
    unsigned runs;
    bool ingest;
    const char *data, *peers;
    struct result *r;
    bool asked[SYSTEMS];
    struct promql_answer answers[SYSTEMS][PROMQL_QUERIES];
    struct times times[SYSTEMS][PROMQL_QUERIES];
    double dashboard_cold[SYSTEMS], dashboard[SYSTEMS], dashboard_ingest[SYSTEMS];
};

/* ---- asking ---- */

/* A connection to a system. */
struct asker {
    struct http_client client;
    struct http_url url;
    struct buf head, wire;
};

static enum otl_err asker_init(struct asker *a, unsigned s, void *self, struct otl_error *err)
{
    bool influx;

    *a = (struct asker){0};
    http_client_init(&a->client);
    return http_url_parse(systems[s].is->load_url(self, &influx), &a->url, err);
}

static void asker_fini(struct asker *a)
{
    http_client_fini(&a->client);
    buf_fini(&a->head);
    buf_fini(&a->wire);
}

/* In ms from asking until the answer is there in full, in a->client.body. */
static enum otl_err ask(struct asker *a, const struct series_gen_opts *g, const char *text,
                        double *ms, struct otl_error *err)
{
    int64_t end_s = (g->start_ns + g->intervals * g->interval_ns) / NS_PER_S, begin_ns;
    int64_t length_s = g->intervals * (int64_t)INTERVAL_S;
    enum otl_err rc;

    buf_reset(&a->head);
    buf_printf(&a->head,
               "GET /api/v1/query_range?nocache=1&start=%" PRId64 ".%03d&end=%" PRId64
               ".%03d&step=%d&query=",
               end_s - (length_s < DAY_S ? length_s : DAY_S), QUESTION_MS, end_s, QUESTION_MS,
               STEP_S);
    http_escape(&a->head, bytes_str(text));
    buf_printf(&a->head, " HTTP/1.1\r\nHost: %s\r\n", a->url.host);
    if (a->head.failed)
        return otl_fail(err, OTL_ENOMEM, "no memory for a question");
    begin_ns = clock_mono_ns();
    rc = http_post(&a->client, &a->url, &a->wire, buf_cstr(&a->head), bytes_of(NULL, 0), err);
    *ms = (double)(clock_mono_ns() - begin_ns) / NS_IN_MS;
    return rc;
}

/* The dashboard's panels, as many at once as a browser has connections. */
struct dashboard {
    const struct series_gen_opts *gen;
    unsigned system;
    void *self;
    atomic_uint next;
    atomic_bool failed;
};

static void *browse(void *arg)
{
    struct dashboard *d = arg;
    struct asker a;
    struct otl_error err;
    enum otl_err rc = asker_init(&a, d->system, d->self, &err);

    while (rc == OTL_OK) {
        unsigned panel = atomic_fetch_add(&d->next, 1);
        double ms;

        if (panel >= PROMQL_PANELS)
            break;
        rc = ask(&a, d->gen, promql_panels[panel], &ms, &err);
    }
    if (rc != OTL_OK) {
        fprintf(stderr, "otlite-bench promql: %s\n", err.msg);
        atomic_store(&d->failed, true);
    }
    asker_fini(&a);
    return NULL;
}

static enum otl_err load_dashboard(const struct bench *b, unsigned s, void *self, double *ms,
                                   struct otl_error *err)
{
    struct dashboard d = {.gen = &b->gen, .system = s, .self = self};
    int64_t begin_ns = clock_mono_ns();
    pthread_t threads[BROWSER];
    unsigned n = 0;

    while (n < BROWSER && pthread_create(&threads[n], NULL, browse, &d) == 0)
        n++;
    for (unsigned i = 0; i < n; i++)
        (void)pthread_join(threads[i], NULL);
    *ms = (double)(clock_mono_ns() - begin_ns) / NS_IN_MS;
    if (n < BROWSER)
        return otl_fail(err, OTL_ESYSTEM, "no thread");
    return atomic_load(&d.failed) ? otl_fail(err, OTL_EIO, "a panel of the dashboard failed")
                                  : OTL_OK;
}

/* ---- a system ---- */

static enum otl_err renew(const struct bench *b, unsigned s, void *self, const char *dir,
                          struct otl_error *err)
{
    enum otl_err rc = systems[s].is->halt(self, err);

    (void)b;
    if (rc == OTL_OK) {
        directory_evict(dir);
        rc = systems[s].is->resume(self, err);
    }
    return rc;
}

/* The median of *ms, and its greatest but for one in a hundred. */
static double p99(double *ms, unsigned n)
{
    (void)median(ms, n); /* sorts them */
    return ms[(n * 99 + 99) / 100 - 1];
}

static enum otl_err measure_idle(struct bench *b, unsigned s, void *self, const char *dir,
                                 struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    for (unsigned q = 0; q < PROMQL_QUERIES && rc == OTL_OK; q++) {
        struct promql_answer *answer = &b->answers[s][q];
        struct times *t = &b->times[s][q];
        struct buf text = {0};
        struct asker a;
        double ms[READS_MOST_RUNS];

        rc = renew(b, s, self, dir, err);
        if (rc != OTL_OK)
            break;
        rc = asker_init(&a, s, self, err);
        if (rc == OTL_OK)
            rc = ask(&a, &b->gen, promql_queries[q].text, &t->cold, err);
        if (rc == OTL_OK) {
            buf_add_bytes(&text, a.client.body);
            rc = text.failed ? otl_fail(err, OTL_ENOMEM, "no memory for an answer")
                             : promql_answer_read(answer, buf_cstr(&text), err);
        }
        buf_fini(&text);
        for (unsigned i = 0; i < WARM_UP && rc == OTL_OK; i++)
            rc = ask(&a, &b->gen, promql_queries[q].text, &ms[0], err);
        for (unsigned i = 0; i < b->runs && rc == OTL_OK; i++)
            rc = ask(&a, &b->gen, promql_queries[q].text, &ms[i], err);
        if (rc == OTL_OK)
            t->warm = median(ms, b->runs);
        asker_fini(&a);
    }
    if (rc == OTL_OK)
        rc = renew(b, s, self, dir, err);
    if (rc == OTL_OK)
        rc = load_dashboard(b, s, self, &b->dashboard_cold[s], err);
    if (rc == OTL_OK) {
        double ms[READS_MOST_RUNS];

        for (unsigned i = 0; i < b->runs && rc == OTL_OK; i++)
            rc = load_dashboard(b, s, self, &ms[i], err);
        if (rc == OTL_OK)
            b->dashboard[s] = median(ms, b->runs);
    }
    return rc;
}

static enum otl_err ask_while_ingesting(struct bench *b, unsigned s, void *self,
                                        struct otl_error *err)
{
    double ms[INGEST_RUNS];
    struct asker a;
    enum otl_err rc = asker_init(&a, s, self, err);

    for (unsigned q = 0; q < PROMQL_QUERIES && rc == OTL_OK; q++) {
        int64_t begin_ns = clock_mono_ns();
        unsigned n = 0;

        do {
            if (n > 0)
                reads_sleep_ms(INGEST_PAUSE_MS);
            rc = ask(&a, &b->gen, promql_queries[q].text, &ms[n++], err);
        } while (rc == OTL_OK && n < INGEST_RUNS &&
                 clock_mono_ns() - begin_ns < INGEST_S * NS_PER_S);
        if (rc == OTL_OK) {
            b->times[s][q].ingest_p99 = p99(ms, n);
            b->times[s][q].ingest = median(ms, n);
        }
    }
    asker_fini(&a);
    for (unsigned i = 0; i < b->runs && rc == OTL_OK; i++)
        rc = load_dashboard(b, s, self, &ms[i], err);
    if (rc == OTL_OK)
        b->dashboard_ingest[s] = median(ms, b->runs);
    return rc;
}

static enum otl_err measure_ingesting(struct bench *b, unsigned s, void *self, const char *dir,
                                      struct otl_error *err)
{
    struct child load = {0};
    double accepted = 0;
    bool influx;
    enum otl_err rc = b->data != NULL ? kept_spoil(b->data, systems[s].key, err) : OTL_OK;

    if (rc == OTL_OK)
        rc = reads_load_start(systems[s].remote_write ? LOAD_REMOTE_WRITE : LOAD_OTLP,
                              systems[s].is->load_url(self, &influx), LOAD_RATE, dir, &load, err);
    if (rc == OTL_OK)
        rc = ask_while_ingesting(b, s, self, err);
    if (rc == OTL_OK)
        rc = reads_load_stop(&load, dir, &accepted, err);
    child_stop(&load);
    if (rc == OTL_OK)
        result_note(b->r, "%s: %.0f points/s were accepted meanwhile.", systems[s].is->name,
                    accepted);
    return rc;
}

static enum otl_err store(struct bench *b, unsigned s, void *self, struct otl_error *err)
{
    const struct reads_system *system = systems[s].is;
    struct remote_write_opts o = {.gen = b->gen, .prefix = "", .intervals = BATCH};
    struct remote_write *w = NULL;
    struct series_gen g;
    bool influx;
    enum otl_err rc = series_gen_init(&g, &b->gen, err);

    if (rc != OTL_OK)
        return rc;
    o.url = system->load_url(self, &influx);
    if (systems[s].remote_write)
        rc = remote_write_new(&o, &w, err);
    while (rc == OTL_OK) {
        rc = w != NULL ? remote_write_add(w, &g, err) : system->add(self, &g, err);
        if (!series_gen_next(&g))
            break;
    }
    if (rc == OTL_OK && w != NULL)
        rc = remote_write_finish(w, err);
    if (rc == OTL_OK && system->finish != NULL)
        rc = system->finish(self, err);
    remote_write_free(w);
    series_gen_fini(&g);
    return rc;
}

static enum otl_err bench_files(struct bench *b, unsigned s, struct reads_env *env,
                                struct kept_facts *f, struct otl_error *err)
{
    int64_t begin_ns = clock_mono_ns();
    void *self = NULL;
    enum otl_err rc = systems[s].is->start(env, &self, err);

    if (rc == OTL_ENOTFOUND) {
        result_note(b->r, "%s: %s.", systems[s].is->name, err->msg);
        return OTL_OK;
    }
    if (rc == OTL_OK && !env->stored) {
        fprintf(stderr, "== %s: stored\n", systems[s].is->name);
        rc = store(b, s, self, err);
        f->seconds = (double)(clock_mono_ns() - begin_ns) / (double)NS_PER_S;
        f->bytes = (double)systems[s].is->bytes(self);
        if (rc == OTL_OK && b->data != NULL)
            rc = kept_stored(b->data, systems[s].key, f, err);
    }
    b->asked[s] = rc == OTL_OK;
    fprintf(stderr, "== %s: asked\n", systems[s].is->name);
    if (rc == OTL_OK)
        rc = measure_idle(b, s, self, env->dir, err);
    if (rc == OTL_OK && b->ingest)
        rc = measure_ingesting(b, s, self, env->dir, err);
    systems[s].is->stop(self);
    return rc;
}

static enum otl_err bench_system(struct bench *b, unsigned s, struct otl_error *err)
{
    struct reads_env env = {.gen = b->gen, .peers = b->peers};
    struct kept_facts f = {0};
    char dir[4096];
    enum otl_err rc = b->data != NULL ? kept_system(b->data, systems[s].key, dir, sizeof(dir),
                                                    &env.stored, &f, err)
                                      : scratch_make(dir, sizeof(dir), err);

    if (rc != OTL_OK)
        return rc;
    env.dir = dir;
    rc = bench_files(b, s, &env, &f, err);
    if (b->data == NULL)
        scratch_remove(dir);
    return rc;
}

/* ---- the report ---- */

static const struct result_column columns[] = {
    {"query", "query", -1},
    {"system", "system", -1},
    {"cold_ms", "cold, ms", 0},
    {"warm_ms", "warm, ms", 1},
    {"times", "warm, times otlite's", 1},
    {"ingest_ms", "with 100,000 points/s coming in, ms", 1},
    {"ingest_p99_ms", "its 99th percentile, ms", 1},
    {"answers", "answer", -1},
    {NULL, NULL, 0}};

static void report_row(const struct bench *b, const char *title, unsigned s, const struct times *t,
                       double ours, const char *answer)
{
    result_begin_row(b->r);
    result_text(b->r, title);
    result_text(b->r, systems[s].is->name);
    result_number(b->r, t->cold);
    result_number(b->r, t->warm);
    result_number(b->r, s == 0 ? (double)NAN : t->warm / ours);
    result_number(b->r, t->ingest);
    result_number(b->r, t->ingest_p99);
    result_text(b->r, answer);
    result_end_row(b->r);
}

static unsigned report(const struct bench *b)
{
    unsigned wrong = 0;

    for (unsigned q = 0; q < PROMQL_QUERIES; q++) {
        for (unsigned s = 0; s < SYSTEMS; s++) {
            bool same = promql_answer_equal(&b->answers[0][q], &b->answers[s][q]);
            bool compared = s > 0 && b->asked[0] && systems[s].same_rate;

            if (!b->asked[s])
                continue;
            wrong += compared && !same;
            report_row(b, promql_queries[q].title, s, &b->times[s][q],
                       b->asked[0] ? b->times[0][q].warm : (double)NAN,
                       compared ? same ? "the same" : "another" : "");
        }
    }
    for (unsigned s = 0; s < SYSTEMS; s++) {
        const struct times t = {b->dashboard_cold[s], b->dashboard[s], b->dashboard_ingest[s],
                                (double)NAN};

        if (b->asked[s])
            report_row(b, "a dashboard of 20 panels", s, &t,
                       b->asked[0] ? b->dashboard[0] : (double)NAN, "");
    }
    return wrong;
}

struct arguments {
    uint64_t points;
    unsigned runs;
    bool ingest, systems[SYSTEMS];
    const char *out, *data, *peers;
};

static enum otl_err run(const struct arguments *a, const char *command, unsigned *wrong,
                        struct otl_error *err)
{
    uint32_t intervals = (uint32_t)(a->points / SERIES);
    int64_t now_s = clock_wall_ns() / NS_PER_S, length_s = (int64_t)intervals * INTERVAL_S;
    struct bench *b = calloc(1, sizeof(*b));
    enum otl_err rc = OTL_OK;

    if (b == NULL)
        return otl_fail(err, OTL_ENOMEM, "no memory for the answers");
    b->runs = a->runs;
    b->ingest = a->ingest;
    b->data = a->data;
    b->peers = a->peers;
    b->gen = (struct series_gen_opts){
        .mix = GEN_REALISTIC,
        .series = SERIES,
        .intervals = intervals,
        .seed = 4,
        .start_ns = (now_s / 3600 * 3600 - (length_s + 3599) / 3600 * 3600) * NS_PER_S,
        .interval_ns = INTERVAL_S * NS_PER_S,
    };
    for (unsigned s = 0; s < SYSTEMS; s++) {
        for (unsigned q = 0; q < PROMQL_QUERIES; q++)
            b->times[s][q] = (struct times){(double)NAN, (double)NAN, (double)NAN, (double)NAN};
        b->dashboard[s] = b->dashboard_cold[s] = b->dashboard_ingest[s] = (double)NAN;
    }
    if (a->data != NULL)
        rc = kept_open(a->data, &b->gen, err);
    if (rc == OTL_OK)
        rc = result_open(a->out, "promql", "PromQL: query_range over 24 h, a value a minute",
                         command, columns, &b->r, err);
    for (unsigned s = 0; s < SYSTEMS && rc == OTL_OK; s++) {
        if (a->systems[s])
            rc = bench_system(b, s, err);
    }
    if (rc == OTL_OK)
        *wrong = report(b);
    if (b->r != NULL) {
        result_note(b->r,
                    "Cold: the process new, its files out of the page cache, the query the first "
                    "one. Warm: medians of %u, behind %d that do not count. With points coming in: "
                    "of up to %d, %d ms apart, within %d s.",
                    b->runs, WARM_UP, INGEST_RUNS, INGEST_PAUSE_MS, INGEST_S);
        result_note(
            b->r, "The dashboard: its panels over %d connections, until the last answer is there.",
            BROWSER);
        if (rc == OTL_OK)
            rc = result_close(b->r, err);
    }
    for (unsigned i = 0; i < SYSTEMS * PROMQL_QUERIES; i++)
        promql_answer_fini(&b->answers[i / PROMQL_QUERIES][i % PROMQL_QUERIES]);
    free(b);
    return rc;
}

/* ---- arguments ---- */

static void print_help(FILE *out)
{
    fprintf(
        out,
        "usage: otlite-bench promql [OPTION...]\n\n"
        "Store the same points in otlite, Prometheus and VictoriaMetrics, ask each the same "
        "PromQL over\n"
        "HTTP, and compare.\n\n"
        "  --points N      a multiple of %d, as 1M, 10M, 100M [1M]\n"
        "  --systems A,B   of otlite, prometheus, victoria [all that are there]\n"
        "  --runs N        of each query, of which the median counts [5]\n"
        "  --no-ingest     without the round in which points come in\n"
        "  --data DIR      keep what is stored in DIR; what is there already is asked as it is\n"
        "                  (until a round in which points come in)\n"
        "  --peers DIR     where bench/peers/install.sh put VictoriaMetrics [peers beside this "
        "program]\n"
        "  --out DIR       keep JSON and Markdown there\n\n"
        "PROMETHEUS names that program [/usr/bin/prometheus].\n",
        SERIES);
}

static bool parse_points(const char *text, uint64_t *out)
{
    char *end;
    uint64_t n = strtoull(text, &end, 10);

    if (*end == 'M') {
        n = n > UINT32_MAX ? 0 : n * 1000000;
        end++;
    }
    *out = n;
    return *end == '\0' && n > 0 && n % SERIES == 0 && n / SERIES <= UINT32_MAX;
}

static bool parse_systems(const char *text, bool *out)
{
    memset(out, 0, SYSTEMS * sizeof(*out));
    for (;;) {
        size_t n = strcspn(text, ",");
        unsigned s = 0;

        while (s < SYSTEMS &&
               (strlen(systems[s].is->key) != n || strncmp(systems[s].is->key, text, n) != 0))
            s++;
        if (s == SYSTEMS)
            return false;
        out[s] = true;
        if (text[n] == '\0')
            return true;
        text += n + 1;
    }
}

/* -1: go on. */
static int parse_arguments(int argc, char **argv, struct arguments *a)
{
    static const struct option options[] = {
        {"points", 1, NULL, 'p'},    {"systems", 1, NULL, 's'}, {"runs", 1, NULL, 'r'},
        {"no-ingest", 0, NULL, 'n'}, {"data", 1, NULL, 'd'},    {"peers", 1, NULL, 'e'},
        {"out", 1, NULL, 'o'},       {"help", 0, NULL, 'h'},    {0}};
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        const char *bad = NULL;

        if (c == 'h') {
            print_help(stdout);
            return EX_OK;
        }
        if (c == 'p')
            bad = parse_points(optarg, &a->points) ? NULL : "--points is no such multiple";
        else if (c == 's')
            bad = parse_systems(optarg, a->systems) ? NULL : "--systems has an unknown one";
        else if (c == 'r') {
            a->runs = (unsigned)strtoul(optarg, NULL, 10);
            bad = a->runs > 0 && a->runs < READS_MOST_RUNS ? NULL : "--runs is not 1 to 98";
        } else if (c == 'n')
            a->ingest = false;
        else if (c == 'd')
            a->data = optarg;
        else if (c == 'e')
            a->peers = optarg;
        else if (c == 'o')
            a->out = optarg;
        else
            bad = "see --help";
        if (bad != NULL) {
            fprintf(stderr, "otlite-bench promql: %s\n", bad);
            return EX_USAGE;
        }
    }
    if (optind == argc)
        return -1;
    fprintf(stderr, "otlite-bench promql: nothing may follow the options\n");
    return EX_USAGE;
}

int promql_main(int argc, char **argv)
{
    struct arguments a = {
        .points = 1000000, .runs = 5, .ingest = true, .systems = {true, true, true}};
    struct otl_error err = {0};
    struct buf command = {0};
    char peers[4096];
    unsigned wrong = 0;
    int status = parse_arguments(argc, argv, &a);
    enum otl_err rc;

    if (status >= 0)
        return status;
    rc = child_beside("peers", peers, sizeof(peers), &err);
    if (a.peers == NULL)
        a.peers = peers;
    buf_add_str(&command, "otlite-bench");
    for (int i = 0; i < argc; i++)
        buf_printf(&command, " %s", argv[i]);
    if (rc == OTL_OK)
        rc = run(&a, buf_cstr(&command), &wrong, &err);
    buf_fini(&command);
    if (rc != OTL_OK) {
        fprintf(stderr, "otlite-bench promql: %s\n", err.msg);
        return EX_SOFTWARE;
    }
    return wrong > 0 ? EXIT_FAILURE : EX_OK;
}
