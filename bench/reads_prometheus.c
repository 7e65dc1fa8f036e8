/* reads_prometheus.c -- Prometheus in a process of its own. Points come by remote_write.h; only
 * promql.c asks it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "http_post.h"
#include "otlite/clock.h"
#include "reads.h"

enum { START_ROUNDS = 6000 };

struct prometheus {
    struct reads_env env;
    char program[4096], config[4200], data[4200], log[4200], base[128];
    struct child process;
    struct http_client client;
    struct http_url url;
    struct buf wire;
};

static void prometheus_stop(void *self)
{
    struct prometheus *p = self;

    if (p == NULL)
        return;
    http_client_fini(&p->client);
    child_stop(&p->process);
    buf_fini(&p->wire);
    free(p);
}

static enum otl_err prometheus_resume(void *self, struct otl_error *err)
{
    struct prometheus *p = self;
    unsigned port = child_free_port();
    char config[4300], listen[64], storage[4300];
    const char *argv[] = {p->program,
                          config,
                          storage,
                          listen,
                          "--storage.tsdb.retention.time=100y",
                          "--web.enable-remote-write-receiver",
                          "--query.max-samples=1000000000",
                          "--query.timeout=10m",
                          "--log.level=warn",
                          NULL};
    const struct timespec pause = {.tv_nsec = 10 * NS_PER_MS};
    enum otl_err rc;

    snprintf(config, sizeof(config), "--config.file=%s", p->config);
    snprintf(listen, sizeof(listen), "--web.listen-address=127.0.0.1:%u", port);
    snprintf(storage, sizeof(storage), "--storage.tsdb.path=%s", p->data);
    snprintf(p->base, sizeof(p->base), "http://127.0.0.1:%u/", port);
    rc = http_url_parse(p->base, &p->url, err);
    if (rc == OTL_OK)
        rc = child_start(argv, p->log, false, &p->process, err);
    for (int i = 0; i < START_ROUNDS && rc == OTL_OK; i++) {
        if (http_post(&p->client, &p->url, &p->wire, "GET /-/ready HTTP/1.1\r\nHost: localhost\r\n",
                      bytes_of(NULL, 0), err) == OTL_OK &&
            p->client.status == 200)
            return OTL_OK;
        nanosleep(&pause, NULL);
    }
    return rc != OTL_OK ? rc
                        : otl_fail(err, OTL_EIO, "Prometheus does not start; see %.256s", p->log);
}

static enum otl_err prometheus_halt(void *self, struct otl_error *err)
{
    struct prometheus *p = self;

    (void)err;
    http_client_close(&p->client);
    child_stop(&p->process);
    return OTL_OK;
}

static enum otl_err prometheus_start(const struct reads_env *env, void **out_self,
                                     struct otl_error *err)
{
    struct prometheus *p = calloc(1, sizeof(*p));
    const char *named = getenv("PROMETHEUS");
    enum otl_err rc = OTL_OK;
    FILE *f;

    if (p == NULL)
        return otl_fail(err, OTL_ENOMEM, "no memory for Prometheus' side");
    p->env = *env;
    http_client_init(&p->client);
    snprintf(p->program, sizeof(p->program), "%s",
             named != NULL && *named != '\0' ? named : "/usr/bin/prometheus");
    snprintf(p->config, sizeof(p->config), "%.4000s/empty.yml", env->dir);
    snprintf(p->data, sizeof(p->data), "%.4000s/data", env->dir);
    snprintf(p->log, sizeof(p->log), "%.4000s/log", env->dir);
    f = fopen(p->config, "we");
    if (access(p->program, X_OK) != 0)
        rc = otl_fail(err, OTL_ENOTFOUND, "no %.200s; PROMETHEUS=FILE names another", p->program);
    if (f == NULL || fputs("global: {}\n", f) < 0)
        rc = otl_fail(err, OTL_EIO, "cannot write %.256s", p->config);
    if (f != NULL && fclose(f) != 0 && rc == OTL_OK)
        rc = otl_fail(err, OTL_EIO, "cannot write %.256s", p->config);
    if (rc == OTL_OK)
        rc = prometheus_resume(p, err);
    if (rc != OTL_OK) {
        prometheus_stop(p);
        return rc;
    }
    *out_self = p;
    return OTL_OK;
}

static const char *prometheus_url(void *self, bool *out_influx)
{
    *out_influx = false;
    return ((struct prometheus *)self)->base;
}

static uint64_t prometheus_bytes(void *self)
{
    return directory_bytes(((struct prometheus *)self)->data);
}

const struct reads_system reads_prometheus = {
    .key = "prometheus",
    .name = "Prometheus",
    .start = prometheus_start,
    .bytes = prometheus_bytes,
    .halt = prometheus_halt,
    .resume = prometheus_resume,
    .load_url = prometheus_url,
    .stop = prometheus_stop,
};
