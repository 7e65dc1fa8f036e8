/* limits_http.c -- the stages that take the generator and a server: HTTP alone, and the whole. */
#include <stdio.h>
#include <string.h>

#include "daemon.h"
#include "limits.h"
#include "load.h"
#include "null_sink.h"
#include "otlite/clock.h"
#include "otlite/db.h"

enum { WAIT_MS = 5000, TIMEOUT_MS = 10000, PRIME_MS = 250, PRIMES = 5 };

#define MAX_NS (60 * NS_PER_S)

/* New series cost a commit of state.db a request, which is not what is measured. So send all twice
 * before, a service a request, each run twice as long as the one before; where even the last is not
 * enough, the disk is what bounds the daemon anyway. */
static enum otl_err prime(struct load_opts load, uint64_t *out_accepted, struct otl_error *err)
{
    struct template_set requests;
    struct load_result result;
    enum otl_err rc =
        limits_requests(LIMITS_SERIES / LIMITS_SERVICES, false, false, &requests, err);

    if (rc == OTL_OK && load.connections > requests.n)
        load.connections = requests.n;
    load.warmup_ns = 0;
    load.duration_ns = PRIME_MS * NS_PER_MS;
    for (int i = 0; i < PRIMES && rc == OTL_OK; i++, load.duration_ns *= 2) {
        rc = load_run(&load, &requests, &result, err);
        if (rc != OTL_OK)
            break;
        *out_accepted += result.all_points;
        if (result.all_points >= UINT64_C(2) * LIMITS_SERIES)
            break;
    }
    template_set_fini(&requests);
    return rc;
}

/* Send to url as fast as answers come. *out_accepted: all points answered 200. */
static enum otl_err drive(const struct limits_opts *o, const char *url_text, pid_t pid,
                          struct measure *out, uint64_t *out_accepted, struct otl_error *err)
{
    struct template_set requests;
    struct load_result result = {0};
    struct http_url url;
    struct load_opts load = {
        .url = &url,
        .wait_ns = WAIT_MS * NS_PER_MS,
        .warmup_ns = o->duration_ns / 5,
        .duration_ns = o->duration_ns,
        .timeout_ns = TIMEOUT_MS * NS_PER_MS,
        .pid = pid,
    };
    enum otl_err rc = http_url_parse(url_text, &url, err);

    *out_accepted = 0;
    if (rc == OTL_OK)
        rc = limits_requests(o->points, false, false, &requests, err);
    if (rc != OTL_OK)
        return rc;
    load.connections = requests.n < LIMITS_CONNECTIONS ? requests.n : LIMITS_CONNECTIONS;
    rc = prime(load, out_accepted, err);
    /* Longer where one answer takes longer than the time: a disk may be that slow. */
    for (; rc == OTL_OK && result.points == 0 && load.duration_ns < MAX_NS; load.duration_ns *= 2) {
        rc = load_run(&load, &requests, &result, err);
        if (rc == OTL_OK)
            *out_accepted += result.all_points;
    }
    template_set_fini(&requests);
    if (rc == OTL_OK)
        *out = (struct measure){result.points, result.seconds, result.daemon_cpu_seconds};
    return rc;
}

enum otl_err stage_null_sink(const struct limits_opts *o, const struct stage_opts *s,
                             struct measure *out, struct otl_error *err)
{
    struct null_sink sink = {0};
    uint64_t accepted;
    enum otl_err rc = null_sink_start(&sink, err);

    (void)s;
    if (rc == OTL_OK)
        rc = drive(o, sink.url, sink.pid, out, &accepted, err);
    null_sink_stop(&sink);
    return rc;
}

/* A 200 is a commit: what was answered is there. */
static enum otl_err check_stored(const char *data_dir, uint64_t accepted, struct otl_error *err)
{
    const struct store_opts o = {.data_dir = data_dir,
                                 .cache_bytes = 8 << 20,
                                 .mmap_bytes = 1 << 30,
                                 .busy_timeout_ms = 5000,
                                 .checkpoint_pages = 1000};
    struct db db = {0};
    int64_t stored = 0;
    enum otl_err rc = store_open_reader(&db, &o, err);

    if (rc == OTL_OK)
        rc = db_query_int(&db, "SELECT count(*) FROM number_point", &stored, err);
    db_close(&db);
    if (rc == OTL_OK && (uint64_t)stored < accepted)
        rc = otl_fail(err, OTL_EINTERNAL,
                      "%llu points were answered 200 and only %lld are stored; this is a fault of "
                      "the daemon",
                      (unsigned long long)accepted, (long long)stored);
    return rc;
}

enum otl_err stage_daemon(const struct limits_opts *o, const struct stage_opts *s,
                          struct measure *out, struct otl_error *err)
{
    const char *const settings[] = {"sqlite.durability=full", NULL};
    char scratch[256], data[300];
    struct daemon_opts d = {.data_dir = data};
    struct daemon daemon = {0};
    uint64_t accepted = 0;
    enum otl_err rc = scratch_make(scratch, sizeof(scratch), err);

    if (rc != OTL_OK)
        return rc;
    snprintf(data, sizeof(data), "%s/data", scratch);
    if (s->durability == DURABILITY_FULL)
        d.settings = settings;
    rc = daemon_start(&d, &daemon, err);
    if (rc == OTL_OK)
        rc = drive(o, daemon.url, daemon.pid, out, &accepted, err);
    if (rc == OTL_OK)
        rc = check_stored(data, accepted, err);
    if (!daemon_stop(&daemon) && rc == OTL_OK)
        rc = otl_fail(err, OTL_EINTERNAL, "the daemon did not end within 30 s");
    scratch_remove(scratch);
    return rc;
}
