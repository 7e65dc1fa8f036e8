/* reads_victoria.c -- VictoriaMetrics of Debian, in a process of its own: points by its import in
 * batches of JSON lines, queries by its HTTP API without the cache of results. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "http_post.h"
#include "otlite/clock.h"
#include "reads.h"
#include "reads_otlp.h"

enum { BATCH = 60 /* intervals */, BATCH_SERIES = 2000, START_ROUNDS = 6000 };

struct victoria {
    struct reads_env env;
    char program[4096], data[4096], log[4096], write_url[128], base[128];
    struct child process;
    struct http_client client;
    struct http_url url;
    struct buf wire, body, path;
    int64_t *values;   /* of the batch, series by series */
    uint32_t first, n; /* intervals of the batch */
};

static void victoria_stop(void *self)
{
    struct victoria *v = self;

    if (v == NULL)
        return;
    http_client_fini(&v->client);
    child_stop(&v->process);
    buf_fini(&v->wire);
    buf_fini(&v->body);
    buf_fini(&v->path);
    free(v->values);
    free(v);
}

static enum otl_err get(struct victoria *v, const char *path, struct otl_error *err)
{
    struct buf head = {0};
    enum otl_err rc;

    buf_printf(&head, "GET %s HTTP/1.1\r\nHost: %s\r\n", path, v->url.host);
    rc = http_post(&v->client, &v->url, &v->wire, buf_cstr(&head), bytes_of(NULL, 0), err);
    buf_fini(&head);
    return rc;
}

static enum otl_err victoria_resume(void *self, struct otl_error *err)
{
    struct victoria *v = self;
    unsigned port = child_free_port();
    char listen[64], storage[4200];
    const char *argv[] = {v->program,
                          listen,
                          storage,
                          "-retentionPeriod=100y",
                          "-memory.allowedPercent=60",
                          "-loggerLevel=WARN",
                          "-search.maxSamplesPerQuery=4000000000",
                          "-search.maxQueryDuration=10m",
                          "-search.maxUniqueTimeseries=10000000",
                          "-search.maxPointsPerTimeseries=1000000",
                          NULL};
    const struct timespec pause = {.tv_nsec = 10 * NS_PER_MS};
    enum otl_err rc;

    snprintf(listen, sizeof(listen), "-httpListenAddr=127.0.0.1:%u", port);
    snprintf(storage, sizeof(storage), "-storageDataPath=%s", v->data);
    snprintf(v->base, sizeof(v->base), "http://127.0.0.1:%u/", port);
    snprintf(v->write_url, sizeof(v->write_url), "http://127.0.0.1:%u/write", port);
    rc = http_url_parse(v->base, &v->url, err);
    if (rc == OTL_OK)
        rc = child_start(argv, v->log, false, &v->process, err);
    for (int i = 0; i < START_ROUNDS && rc == OTL_OK; i++) {
        if (get(v, "/health", err) == OTL_OK)
            return OTL_OK;
        nanosleep(&pause, NULL);
    }
    return rc != OTL_OK
               ? rc
               : otl_fail(err, OTL_EIO, "VictoriaMetrics does not start; see %.256s", v->log);
}

static enum otl_err victoria_halt(void *self, struct otl_error *err)
{
    struct victoria *v = self;

    (void)err;
    http_client_close(&v->client);
    child_stop(&v->process);
    return OTL_OK;
}

static enum otl_err victoria_start(const struct reads_env *env, void **out_self,
                                   struct otl_error *err)
{
    struct victoria *v = calloc(1, sizeof(*v));
    const char *named = getenv("VICTORIA");
    enum otl_err rc = OTL_OK;

    if (v == NULL)
        return otl_fail(err, OTL_ENOMEM, "no memory for VictoriaMetrics' side");
    v->env = *env;
    http_client_init(&v->client);
    if (named != NULL && *named != '\0')
        snprintf(v->program, sizeof(v->program), "%s", named);
    else
        snprintf(v->program, sizeof(v->program),
                 "%.3900s/victoria-metrics/usr/bin/victoria-metrics", env->peers);
    snprintf(v->data, sizeof(v->data), "%.4000s/data", env->dir);
    snprintf(v->log, sizeof(v->log), "%.4000s/log", env->dir);
    v->values = calloc((size_t)env->gen.series * BATCH, sizeof(*v->values));
    if (access(v->program, X_OK) != 0)
        rc = otl_fail(err, OTL_ENOTFOUND, "not installed");
    else if (v->values == NULL)
        rc = otl_fail(err, OTL_ENOMEM, "no memory for a batch");
    else
        rc = victoria_resume(v, err);
    if (rc != OTL_OK) {
        victoria_stop(v);
        return rc;
    }
    *out_self = v;
    return OTL_OK;
}

static void add_line(struct victoria *v, uint32_t s)
{
    const struct series_gen_opts *o = &v->env.gen;
    unsigned decimals = gen_decimals(o->mix, gen_metric(s));
    bool is_le = strcmp(reads_label_key(s, o->mix), "le") == 0;
    char service[16], instance[16], label[24], text[24];
    struct buf *b = &v->body;

    reads_service(gen_service(s), service);
    reads_instance(s, instance);
    reads_label_value(s, o->mix, label);
    buf_printf(b,
               "{\"metric\":{\"__name__\":\"%s\",\"service\":\"%s\",\"environment\":\"%s\","
               "\"instance\":\"%s\",\"%s\":\"%s\"},\"values\":[",
               gen_metric_name(gen_metric(s)), service, reads_environment(gen_service(s)), instance,
               is_le ? "le" : "route", label);
    for (uint32_t i = 0; i < v->n; i++) {
        unsigned n = gen_text(v->values[(size_t)s * BATCH + i], decimals, text);

        if (i > 0)
            buf_add_char(b, ',');
        buf_add(b, text, n);
    }
    buf_add_str(b, "],\"timestamps\":[");
    for (uint32_t i = 0; i < v->n; i++) {
        int64_t ms = gen_time_ns(o, gen_service(s), v->first + i) / NS_PER_MS;
        unsigned n = gen_text(ms, 0, text);

        if (i > 0)
            buf_add_char(b, ',');
        buf_add(b, text, n);
    }
    buf_add_str(b, "]}\n");
}

static enum otl_err send_batch(struct victoria *v, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;
    char head[256];

    snprintf(head, sizeof(head), "POST /api/v1/import HTTP/1.1\r\nHost: %.200s\r\n", v->url.host);
    for (uint32_t s = 0; s < v->env.gen.series && v->n > 0 && rc == OTL_OK;) {
        buf_reset(&v->body);
        for (uint32_t i = 0; i < BATCH_SERIES && s < v->env.gen.series; i++)
            add_line(v, s++);
        rc = v->body.failed
                 ? otl_fail(err, OTL_ENOMEM, "no memory for a batch")
                 : http_post(&v->client, &v->url, &v->wire, head, buf_bytes(&v->body), err);
    }
    v->n = 0;
    return rc;
}

static enum otl_err victoria_add(void *self, const struct series_gen *g, struct otl_error *err)
{
    struct victoria *v = self;

    if (v->n == 0)
        v->first = g->interval;
    for (uint32_t s = 0; s < g->opts.series; s++)
        v->values[(size_t)s * BATCH + v->n] = g->values[s];
    v->n++;
    return v->n == BATCH ? send_batch(v, err) : OTL_OK;
}

static enum otl_err victoria_finish(void *self, struct otl_error *err)
{
    struct victoria *v = self;
    enum otl_err rc = send_batch(v, err);

    if (rc == OTL_OK)
        rc = get(v, "/internal/force_flush", err);
    /* Returns at once; the merge goes on in the process, and halting it waits for that. */
    if (rc == OTL_OK)
        rc = get(v, "/internal/force_merge", err);
    if (rc == OTL_OK) {
        char metric[] = "vm_active_force_merges";
        const struct timespec pause = {.tv_nsec = 100 * NS_PER_MS};

        for (;;) {
            const char *at;

            nanosleep(&pause, NULL);
            rc = get(v, "/metrics", err);
            at = rc == OTL_OK ? memmem(v->client.body.p, v->client.body.n,
                                       "\nvm_active_force_merges ", sizeof(metric) + 1)
                              : NULL;
            if (at == NULL || strtol(at + sizeof(metric), NULL, 10) == 0)
                break;
        }
    }
    return rc;
}

static int64_t end_ms(const struct victoria *v)
{
    const struct series_gen_opts *o = &v->env.gen;

    return (o->start_ns + o->intervals * o->interval_ns) / NS_PER_MS - 1;
}

/* The query in v->body, over [from, to) by step: a window ends a millisecond before the next
 * begins, since VictoriaMetrics' are open at their start. step 0: one, at its end. */
static enum otl_err ask_range(struct victoria *v, const struct range *r, bool instant,
                              int64_t *out_ns, struct otl_error *err)
{
    int64_t first_ms = (r->from_ns + r->step_ns) / NS_PER_MS - 1;
    int64_t begin_ns;
    enum otl_err rc;

    buf_reset(&v->path);
    if (instant) {
        int64_t at_ms = r->to_ns / NS_PER_MS - 1;

        buf_printf(&v->path, "/api/v1/query?nocache=1&time=%" PRId64 ".%03d&query=", at_ms / 1000,
                   (int)(at_ms % 1000));
    } else {
        int64_t last_ms = first_ms + (r->windows - 1) * (r->step_ns / NS_PER_MS);

        buf_printf(&v->path,
                   "/api/v1/query_range?nocache=1&start=%" PRId64 ".%03d&end=%" PRId64
                   ".%03d&step=%" PRId64 "s&query=",
                   first_ms / 1000, (int)(first_ms % 1000), last_ms / 1000, (int)(last_ms % 1000),
                   r->step_ns / NS_PER_S);
    }
    http_escape(&v->path, buf_bytes(&v->body));
    begin_ns = clock_mono_ns();
    rc = get(v, buf_cstr(&v->path), err);
    *out_ns = clock_mono_ns() - begin_ns;
    return rc;
}

static enum otl_err victoria_count(void *self, uint64_t *out_points, double *out_sum,
                                   struct otl_error *err)
{
    static const char *const functions[] = {"count_over_time", "sum_over_time"};
    struct victoria *v = self;
    const struct series_gen_opts *o = &v->env.gen;
    double numbers[2] = {0};

    for (int i = 0; i < 2; i++) {
        struct range r = {.from_ns = o->start_ns,
                          .to_ns = (end_ms(v) + 1) * NS_PER_MS,
                          .step_ns = (end_ms(v) + 1) * NS_PER_MS - o->start_ns};
        const char *at;
        int64_t ns;
        enum otl_err rc;

        buf_reset(&v->body);
        buf_printf(&v->body, "sum(%s({environment!=\"\"}[%" PRId64 "ms]))", functions[i],
                   r.step_ns / NS_PER_MS);
        rc = ask_range(v, &r, true, &ns, err);
        if (rc != OTL_OK)
            return rc;
        at = memmem(v->client.body.p, v->client.body.n, "\"value\":[", 9);
        at = at == NULL ? NULL : strstr(at, ",\"");
        numbers[i] = at == NULL ? 0 : strtod(at + 2, NULL);
    }
    *out_points = (uint64_t)numbers[0];
    *out_sum = numbers[1];
    return OTL_OK;
}

static void add_selector(struct buf *b, const struct panel *p)
{
    struct buf names = {0};
    bool single;

    panel_names(p, &names, &single);
    buf_add_str(b, "{");
    if (p->metrics == ALL_METRICS) {
        buf_add_str(b, "environment!=\"\"");
    } else if (single) {
        buf_printf(b, "__name__=\"%s\"", buf_cstr(&names));
    } else {
        buf_add_str(b, "__name__=~");
        buf_add_json_string(b, buf_bytes(&names));
    }
    if (p->production)
        buf_add_str(b, ",environment=\"production\"");
    if (p->what == PANEL_RAW) {
        char instance[16];

        reads_instance(RAW_SERIES, instance);
        buf_printf(b, ",instance=\"%s\"", instance);
    }
    buf_add_str(b, "}");
    buf_fini(&names);
}

static void write_query(struct buf *b, const struct panel *p, const struct range *r)
{
    static const char *const functions[][2] = {
        [PANEL_SUM] = {"sum", "sum_over_time"},
        [PANEL_MEAN] = {"avg", "avg_over_time"}, /* windows of all series hold as many points */
        [PANEL_MAX] = {"max", "max_over_time"},
        [PANEL_RATE] = {"sum", "increase"},
    };
    static const char *const by[] = {"", " by (service)", " by (instance)"};

    buf_reset(b);
    if (p->what == PANEL_RAW) {
        add_selector(b, p);
        buf_printf(b, "[%" PRId64 "ms]", (r->to_ns - r->from_ns) / NS_PER_MS);
        return;
    }
    buf_printf(b, "%s(%s(", functions[p->what][0], functions[p->what][1]);
    add_selector(b, p);
    buf_printf(b, "[%" PRId64 "ms]))%s", r->step_ns / NS_PER_MS, by[p->by]);
    if (p->what == PANEL_RATE)
        buf_printf(b, " / %" PRId64, p->step_s);
}

/* [seconds,"value"] pairs from *at on, up to the bracket that ends them. */
static bool read_pairs(const char **at, const struct panel *p, const struct range *r,
                       uint32_t group, struct answer *out)
{
    while (**at == '[' || **at == ',') {
        char *end;
        double seconds;
        uint32_t window;

        if (**at == ',')
            ++*at;
        seconds = strtod(*at + 1, &end);
        if (end == *at + 1 || end[0] != ',' || end[1] != '"')
            return false;
        /* A point lies in its window; a window's value stands at its end. */
        window = (uint32_t)(((int64_t)(seconds * 1000 + 0.5) - r->from_ns / NS_PER_MS) /
                            (r->step_ns / NS_PER_MS));
        (void)p;
        answer_add(out, group, window, strtod(end + 2, &end), 0);
        if (end[0] != '"' || end[1] != ']')
            return false;
        *at = end + 2;
        if (**at != ',')
            break;
    }
    return true;
}

/* {"status":"success",...,"result":[{"metric":{...},"value":[t,"v"]},{"metric":{},"values":[[t,"v"],...]}]}
 */
static bool read_answer(struct bytes text, const struct panel *p, const struct range *r,
                        struct answer *out)
{
    static const char metric[] = "{\"metric\":{";
    const char *at = memmem(text.p, text.n, metric, sizeof(metric) - 1);

    while (at != NULL) {
        const char *labels_end = strchr(at, '}');
        const char *label = strstr(at, p->by == BY_SERVICE ? "\"svc-" : "\"i-");
        const char *value = labels_end == NULL ? NULL : strstr(labels_end, "\"value");
        uint32_t group = 0;

        if (value == NULL)
            return false;
        if (p->by != BY_NONE) {
            if (label == NULL || label > labels_end)
                return false;
            group = (uint32_t)strtoul(strchr(label, '-') + 1, NULL, 10);
        }
        value = strchr(value, '[');
        if (value == NULL)
            return false;
        if (value[1] == '[')
            value++;
        if (!read_pairs(&value, p, r, group, out))
            return false;
        at = strstr(value, metric);
    }
    return true;
}

static enum otl_err victoria_ask(void *self, const struct panel *p, struct answer *out,
                                 int64_t *out_ns, struct otl_error *err)
{
    struct victoria *v = self;
    struct range r = panel_range(p, &v->env.gen);
    struct buf text = {0};
    bool read;
    enum otl_err rc;

    if (p->what == PANEL_MEAN_AND_MAX) /* has no function for both, and a mean only of means */
        return otl_fail(err, OTL_EMETHOD, "not asked");
    write_query(&v->body, p, &r);
    rc = ask_range(v, &r, r.windows == 1 || p->what == PANEL_RAW, out_ns, err);
    if (rc != OTL_OK)
        return rc;
    buf_add_bytes(&text, v->client.body);
    read = !text.failed && read_answer(bytes_str(buf_cstr(&text)), p, &r, out);
    if (!read)
        rc = otl_fail(err, OTL_EBADDATA, "an answer of VictoriaMetrics: %.300s", buf_cstr(&text));
    buf_fini(&text);
    return rc;
}

static const char *victoria_load_url(void *self, bool *out_influx)
{
    *out_influx = true;
    return ((struct victoria *)self)->write_url;
}

/* Its points and its index; beside them only caches and a lock. */
static uint64_t victoria_bytes(void *self)
{
    struct victoria *v = self;
    char path[4200];
    uint64_t n;

    snprintf(path, sizeof(path), "%s/data", v->data);
    n = directory_bytes(path);
    snprintf(path, sizeof(path), "%s/indexdb", v->data);
    return n + directory_bytes(path);
}

const struct reads_system reads_victoria = {
    .key = "victoria",
    .name = "VictoriaMetrics",
    .start = victoria_start,
    .add = victoria_add,
    .finish = victoria_finish,
    .count = victoria_count,
    .halt = victoria_halt,
    .resume = victoria_resume,
    .ask = victoria_ask,
    .load_url = victoria_load_url,
    .bytes = victoria_bytes,
    .stop = victoria_stop,
};
