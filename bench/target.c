/* target.c -- the daemon that a reference measures: reached over HTTP, checked through its file. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "otlite/clock.h"
#include "reference.h"

enum {

    BUSY_MS = 5000,
    CHECKPOINT_PAGES = 1000,
    ANSWER_MS = 10000,
    COUNT_CACHE_BYTES = 8 << 20
};

static enum otl_err start_own(const struct reference_opts *o, struct target *t,
                              struct otl_error *err)
{
    const struct daemon_opts d = {.data_dir = t->data, .settings = o->settings};
    enum otl_err rc = scratch_make(t->scratch, sizeof(t->scratch), err);

    if (rc != OTL_OK) {
        t->scratch[0] = '\0';
        return rc;
    }
    if (snprintf(t->data, sizeof(t->data), "%s/data", t->scratch) >= (int)sizeof(t->data))
        return otl_fail(err, OTL_ECONFIG, "TMPDIR is too long");
    rc = daemon_start(&d, &t->daemon, err);
    if (rc == OTL_OK) {
        t->pid = t->daemon.pid;
        rc = http_url_parse(t->daemon.url, &t->url, err);
    }
    return rc;
}

enum otl_err target_open(const struct reference_opts *o, struct target *out, struct otl_error *err)
{
    enum otl_err rc;

    memset(out, 0, sizeof(*out));
    out->own = o->url == NULL;
    if (out->own) {
        rc = start_own(o, out, err);
        if (rc != OTL_OK)
            target_close(out);
        return rc;
    }
    if (o->data != NULL &&
        snprintf(out->data, sizeof(out->data), "%s", o->data) >= (int)sizeof(out->data))
        return otl_fail(err, OTL_ECONFIG, "--data is too long");
    out->pid = o->pid;
    return http_url_parse(o->url, &out->url, err);
}

enum otl_err target_open_with(const struct reference_opts *o, const char *setting,
                              struct target *out, struct otl_error *err)
{
    struct reference_opts with = *o;
    unsigned n = 0;

    while (o->settings[n] != NULL)
        n++;
    if (n == REFERENCE_MAX_SETTINGS)
        return otl_fail(err, OTL_ECONFIG, "too many --set");
    with.settings[0] = setting; /* of two the daemon takes the later one */
    for (unsigned i = 0; i < n; i++)
        with.settings[i + 1] = o->settings[i];
    with.settings[n + 1] = NULL;
    return target_open(&with, out, err);
}

void target_close(struct target *t)
{
    if (!t->own)
        return;
    if (!daemon_stop(&t->daemon))
        fprintf(stderr, "otlite-bench: the daemon did not end within 30 s and was killed\n");
    if (t->scratch[0] != '\0')
        scratch_remove(t->scratch);
    t->scratch[0] = '\0';
}

enum otl_err target_reader_opts(const struct target *t, int64_t cache_bytes, struct store_opts *out,
                                struct otl_error *err)
{
    if (t->data[0] == '\0')
        return otl_fail(err, OTL_ECONFIG,
                        "the daemon's data directory has to be known here; name it with --data");
    *out = (struct store_opts){
        .data_dir = t->data,
        .durability = DURABILITY_NORMAL,
        .cache_bytes = cache_bytes,
        .mmap_bytes = 0,
        .busy_timeout_ms = BUSY_MS,
        .checkpoint_pages = CHECKPOINT_PAGES,
    };
    return OTL_OK;
}

enum otl_err target_stored(const struct target *t, int64_t *out, struct otl_error *err)
{
    struct store_opts o;
    struct db db = {0};
    enum otl_err rc = target_reader_opts(t, COUNT_CACHE_BYTES, &o, err);

    if (rc == OTL_OK)
        rc = store_open_reader(&db, &o, err);
    if (rc != OTL_OK)
        return rc;
    rc = db_query_int(&db,
                      "SELECT (SELECT count(*) FROM number_point)"
                      " + (SELECT count(*) FROM histogram_point)"
                      " + (SELECT count(*) FROM exponential_histogram_point)"
                      " + (SELECT count(*) FROM summary_point)",
                      out, err);
    db_close(&db);
    return rc;
}

int64_t target_wal_bytes(const struct target *t)
{
    char path[4200];
    struct stat st;

    if (t->data[0] == '\0')
        return 0;
    snprintf(path, sizeof(path), "%s/telemetry.db-wal", t->data);
    return stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
}

static bool wait_for(int fd, short events, int64_t until_ns)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = events};
        int64_t left_ns = until_ns - clock_mono_ns();
        int n;

        if (left_ns <= 0)
            return false;
        n = poll(&p, 1, (int)(left_ns / NS_PER_MS) + 1);
        if (n > 0)
            return true;
        if (n < 0 && errno != EINTR)
            return false;
    }
}

static bool call(struct http_client *c, struct bytes request, int64_t until_ns)
{
    enum http_progress got;

    http_client_request(c, request);
    while ((got = http_client_write(c)) == HTTP_AGAIN) {
        if (!wait_for(c->fd, POLLOUT, until_ns))
            return false;
    }
    if (got != HTTP_DONE)
        return false;
    while ((got = http_client_read(c)) == HTTP_AGAIN) {
        if (!wait_for(c->fd, POLLIN, until_ns))
            return false;
    }
    return got == HTTP_DONE;
}

void http_call(struct http_client *c, const struct http_url *url, struct bytes request,
               int64_t timeout_ns, int *out_status)
{
    int64_t until_ns = clock_mono_ns() + timeout_ns;

    *out_status = 0;
    if (c->fd < 0 && !http_client_open(c, url))
        return;
    if (!call(c, request, until_ns)) {
        http_client_close(c);
        return;
    }
    *out_status = c->status;
    if (c->close_after)
        http_client_close(c);
}

uint64_t load_attempts(const struct load_result *r)
{
    uint64_t n = r->lost;

    for (int i = 0; i < LOAD_MAX_STATUS; i++)
        n += r->status[i];
    return n;
}

uint64_t load_errors(const struct load_result *r)
{
    return load_attempts(r) - r->requests;
}

/* Send every series twice, all of a service in one request, so that they are known before anything
 * is measured: a series that is new costs rows in the catalogue and a commit in state.db, and the
 * second time is when the decoder learns it. */
static enum otl_err prime(const struct target *t, const struct template_opts *content,
                          uint64_t *out_points, struct otl_error *err)
{
    struct template_opts whole = *content;
    struct template_set set;
    struct http_client c;
    enum otl_err rc;

    whole.points = whole.series / whole.services;
    rc = template_set_init(&set, &whole, err);
    if (rc != OTL_OK)
        return rc;
    *out_points = 0;
    http_client_init(&c);
    for (unsigned i = 0; i < 2 * set.n && !reference_interrupted(); i++) {
        int status;

        http_call(&c, &t->url, template_next(&set.templates[i % set.n], clock_wall_ns()),
                  ANSWER_MS * NS_PER_MS, &status);
        if (status == 0)
            break; /* nothing answers there, which load_run explains */
        /* An answer with a body may say that points were rejected. */
        if (status == 200 && c.body.n == 0)
            *out_points += whole.points;
    }
    http_client_fini(&c);
    template_set_fini(&set);
    return OTL_OK;
}

enum otl_err target_send(const struct target *t, const struct target_load *load,
                         struct load_result *out, struct otl_error *err)
{
    const struct template_opts content = {
        .host = t->url.host,
        .path = t->url.path,
        .headers = "",
        .points = load->points,
        .services = load->services,
        .series = load->series,
        .start_ns = clock_wall_ns(),
    };
    struct load_opts o = {
        .url = &t->url,
        .rate = load->rate / load->points,
        .wait_ns = ANSWER_MS * NS_PER_MS,
        .warmup_ns = load->warmup_ms * NS_PER_MS,
        .duration_ns = load->duration_ms * NS_PER_MS,
        .timeout_ns = ANSWER_MS * NS_PER_MS,
        .pid = t->pid,
        .by_second = load->by_second,
        .by_second_room = load->by_second_room,
    };
    struct template_set set;
    uint64_t primed;
    enum otl_err rc = prime(t, &content, &primed, err);

    if (rc == OTL_OK)
        rc = template_set_init(&set, &content, err);
    if (rc != OTL_OK)
        return rc;
    /* Each connection needs a request of its own. */
    o.connections = load->connections < set.n ? load->connections : set.n;
    rc = load_run(&o, &set, out, err);
    out->all_points += primed;
    template_set_fini(&set);
    return rc;
}

enum otl_err target_drive(const struct target *t, const struct target_load *load,
                          struct load_result *out, int64_t *out_missing, int64_t *out_wal_bytes,
                          struct otl_error *err)
{
    bool countable = t->data[0] != '\0';
    int64_t before = 0, after = 0;
    enum otl_err rc = OTL_OK;

    if (countable)
        rc = target_stored(t, &before, err);
    if (rc == OTL_OK)
        rc = target_send(t, load, out, err);
    if (rc == OTL_OK && countable)
        rc = target_stored(t, &after, err);
    if (rc != OTL_OK)
        return rc;
    *out_wal_bytes = target_wal_bytes(t);
    *out_missing = -1;
    if (countable) {
        int64_t accepted = (int64_t)out->all_points, stored = after - before;

        *out_missing = stored < accepted ? accepted - stored : 0;
    }
    return OTL_OK;
}
