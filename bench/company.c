#include "company.h"

#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "child.h"
#include "http_post.h"
#include "otlite/clock.h"

enum {
    SLICE_MS = 10,
    METRICS_OF_LOAD = 1000, /* bench.requests.00000 and on, of the 10,000 series of the load */
    RECENT_S = 300,
    EVERY_ALL = 20 /* one query in so many is over all series */
};

enum { SAMPLER, ASKER, BACKUPPER, THREADS };

struct company {
    struct company_opts o;
    atomic_bool stopping;
    pthread_t threads[THREADS];
    bool running[THREADS];
    int64_t begin_ns;
    unsigned cap;
    pthread_mutex_t mu; /* guards figures.failure */
    struct company_figures figures;
};

static void note_failure(struct company *c, const char *text)
{
    (void)pthread_mutex_lock(&c->mu);
    if (c->figures.failure[0] == '\0')
        snprintf(c->figures.failure, sizeof(c->figures.failure), "%.255s", text);
    (void)pthread_mutex_unlock(&c->mu);
}

/* Until then, or stopping. */
static void rest_until(struct company *c, int64_t until_ns)
{
    const struct timespec slice = {.tv_nsec = SLICE_MS * NS_PER_MS};

    while (!atomic_load(&c->stopping) && clock_mono_ns() < until_ns)
        (void)nanosleep(&slice, NULL);
}

/* ---- samples ---- */

static double file_bytes(const struct target *t, const char *name)
{
    char path[4200];
    struct stat st;

    snprintf(path, sizeof(path), "%s/%s", t->data, name);
    return stat(path, &st) == 0 ? (double)st.st_size : 0;
}

static double count_descriptors(int64_t pid)
{
    char path[64];
    double n = 0;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%" PRId64 "/fd", pid);
    dir = opendir(path);
    if (dir == NULL)
        return UNKNOWN;
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
        n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void read_memory(int64_t pid, struct sample *out)
{
    char path[64], line[256];
    FILE *f;

    out->resident = out->unmapped = UNKNOWN;
    snprintf(path, sizeof(path), "/proc/%" PRId64 "/status", pid);
    f = fopen(path, "re");
    if (f == NULL)
        return;
    while (fgets(line, sizeof(line), f) != NULL) {
        int64_t kib;

        if (sscanf(line, "VmRSS: %" SCNd64 " kB", &kib) == 1)
            out->resident = (double)kib * 1024;
        else if (sscanf(line, "RssAnon: %" SCNd64 " kB", &kib) == 1)
            out->unmapped = (double)kib * 1024;
    }
    fclose(f);
}

/* The value of a line "otlite_NAME VALUE"; 0 when there is none. */
static double metric(const char *text, const char *name)
{
    char line[96];
    const char *at;

    snprintf(line, sizeof(line), "\notlite_%s ", name);
    at = strstr(text, line);
    return at == NULL ? 0 : strtod(at + strlen(line), NULL);
}

static bool read_metrics(const struct target *t, struct sample *out)
{
    struct http_client client;
    struct http_url url = t->url;
    struct buf wire = {0}, head = {0}, text = {0};
    struct otl_error err;
    bool ok;

    http_client_init(&client);
    buf_printf(&head, "GET /metrics HTTP/1.1\r\nHost: %s\r\n", url.host);
    ok = http_post(&client, &url, &wire, buf_cstr(&head), bytes_of(NULL, 0), &err) == OTL_OK;
    if (ok)
        buf_add_bytes(&text, client.body);
    if (ok && !text.failed) {
        const char *s = buf_cstr(&text);

        out->stored = metric(s, "points_stored_total");
        out->head_rows =
            out->stored - metric(s, "points_sealed_total") - metric(s, "points_sealed_over_total");
        out->expired = metric(s, "points_expired_total");
        out->merges = metric(s, "merges_total");
        out->longest_task_ms = 1000 * metric(s, "maintenance_task_longest_seconds");
    }
    ok = ok && !text.failed;
    http_client_fini(&client);
    buf_fini(&wire);
    buf_fini(&head);
    buf_fini(&text);
    return ok;
}

bool company_sample(const struct target *t, struct sample *out)
{
    memset(out, 0, sizeof(*out));
    read_memory(t->pid, out);
    out->descriptors = count_descriptors(t->pid);
    out->wal = file_bytes(t, "telemetry.db-wal");
    out->database = file_bytes(t, "telemetry.db");
    return read_metrics(t, out);
}

static void *take_samples(void *arg)
{
    struct company *c = arg;

    for (int64_t due = c->begin_ns; !atomic_load(&c->stopping);
         due += c->o.sample_ms * NS_PER_MS, rest_until(c, due)) {
        struct company_figures *f = &c->figures;

        if (f->n == c->cap) {
            unsigned cap = c->cap == 0 ? 256 : 2 * c->cap;
            struct sample *p = realloc(f->samples, cap * sizeof(*p));

            if (p == NULL) {
                note_failure(c, "no memory for samples");
                break;
            }
            f->samples = p;
            c->cap = cap;
        }
        if (company_sample(c->o.target, &f->samples[f->n]))
            f->samples[f->n++].seconds = (double)(clock_mono_ns() - c->begin_ns) / 1e9;
        else
            note_failure(c, "GET /metrics was not answered");
    }
    return NULL;
}

/* ---- queries ---- */

static void write_query(struct buf *sql, uint64_t n)
{
    int64_t step_ns = (n % EVERY_ALL == 0 ? 60 : 10) * NS_PER_S;
    int64_t to_ns = (clock_wall_ns() / step_ns + 1) * step_ns;

    buf_reset(sql);
    buf_add_str(sql, "SELECT time, count, max, rate FROM windows('{__name__=");
    if (n % EVERY_ALL == 0)
        buf_add_str(sql, "~\"bench.*\"");
    else
        buf_printf(sql, "\"bench.requests.%05u\"", (unsigned)(n * 37 % METRICS_OF_LOAD));
    buf_printf(sql, "}', %" PRId64 ", %" PRId64 ", %" PRId64 ")", to_ns - RECENT_S * NS_PER_S,
               to_ns, step_ns);
}

static void *ask(void *arg)
{
    struct company *c = arg;
    struct company_figures *f = &c->figures;
    struct http_client client;
    struct buf wire = {0}, head = {0}, sql = {0};

    http_client_init(&client);
    buf_printf(&head, "POST /api/v1/sql HTTP/1.1\r\nHost: %s\r\nContent-Type: text/plain\r\n",
               c->o.target->url.host);
    for (int64_t due = c->begin_ns; !atomic_load(&c->stopping);
         due += c->o.query_ms * NS_PER_MS, rest_until(c, due)) {
        int64_t begin_ns;
        struct otl_error err;

        write_query(&sql, f->queries);
        begin_ns = clock_mono_ns();
        f->queries++;
        if (http_post(&client, &c->o.target->url, &wire, buf_cstr(&head), buf_bytes(&sql), &err) ==
            OTL_OK) {
            latencies_add(&f->query_ns, clock_mono_ns() - begin_ns);
        } else {
            f->failed_queries++;
            note_failure(c, err.msg);
        }
    }
    http_client_fini(&client);
    buf_fini(&wire);
    buf_fini(&head);
    buf_fini(&sql);
    return NULL;
}

/* ---- backups ---- */

static void *make_backups(void *arg)
{
    struct company *c = arg;
    char program[4096], to[4200], log[4200];
    const char *const argv[] = {program, "backup", "--data", c->o.target->data, to, NULL};
    struct otl_error err;

    if (child_beside("otlite", program, sizeof(program), &err) != OTL_OK) {
        c->figures.failed_backups++;
        note_failure(c, err.msg);
        return NULL;
    }
    snprintf(to, sizeof(to), "%s.backup", c->o.target->data);
    snprintf(log, sizeof(log), "%s.backup.log", c->o.target->data);
    while (!atomic_load(&c->stopping)) {
        struct buf said = {0};

        if (child_run(argv, log, &said, &err) == OTL_OK) {
            c->figures.backups++;
        } else {
            c->figures.failed_backups++;
            note_failure(c, err.msg);
        }
        buf_fini(&said);
        scratch_remove(to);
        rest_until(c, clock_mono_ns() + c->o.backup_ms * NS_PER_MS);
    }
    return NULL;
}

/* ---- all of them ---- */

enum otl_err company_start(const struct company_opts *o, struct company **out,
                           struct otl_error *err)
{
    void *(*const mains[THREADS])(void *) = {take_samples, ask, make_backups};
    const int64_t periods[THREADS] = {o->sample_ms, o->query_ms, o->backup_ms};
    struct company *c = calloc(1, sizeof(*c));
    int rc = 0;

    if (c == NULL)
        return otl_fail(err, OTL_ENOMEM, "no memory for what goes on beside the load");
    c->o = *o;
    c->begin_ns = clock_mono_ns();
    rc = pthread_mutex_init(&c->mu, NULL);
    if (rc != 0) {
        free(c);
        return otl_fail(err, OTL_ESYSTEM, "mutex: %s", strerror(rc));
    }
    for (int i = 0; i < THREADS && rc == 0; i++) {
        if (periods[i] == 0)
            continue;
        rc = pthread_create(&c->threads[i], NULL, mains[i], c);
        c->running[i] = rc == 0;
    }
    if (rc != 0) {
        (void)company_stop(c);
        company_free(c);
        return otl_fail(err, OTL_ESYSTEM, "thread: %s", strerror(rc));
    }
    *out = c;
    return OTL_OK;
}

const struct company_figures *company_stop(struct company *c)
{
    static const struct company_figures none;

    if (c == NULL)
        return &none;
    atomic_store(&c->stopping, true);
    for (int i = 0; i < THREADS; i++) {
        if (c->running[i])
            (void)pthread_join(c->threads[i], NULL);
        c->running[i] = false;
    }
    return &c->figures;
}

void company_free(struct company *c)
{
    if (c == NULL)
        return;
    free(c->figures.samples);
    (void)pthread_mutex_destroy(&c->mu);
    free(c);
}
