/* remote_write.c -- prometheus.WriteRequest in the snappy block format, all of it literal. */
#include "remote_write.h"

#include <endian.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include "http_post.h"
#include "otlite/clock.h"
#include "reads_otlp.h"

enum { BATCH_SERIES = 2000, LITERAL = 65536, LIVE_SERIES = 10000, MOST_RATE = 10000000 };

struct remote_write {
    struct series_gen_opts gen;
    const char *prefix;
    struct http_client client;
    struct http_url url;
    struct buf wire, request, series, part, snappy;
    int64_t *values;              /* of the batch, series by series */
    uint32_t intervals, first, n; /* of the batch: most, the first one, how many there are */
};

static void put_varint(struct buf *b, uint64_t v)
{
    while (v >= 0x80) {
        buf_add_char(b, (char)(v | 0x80));
        v >>= 7;
    }
    buf_add_char(b, (char)v);
}

static void put_bytes(struct buf *b, unsigned number, struct bytes s)
{
    put_varint(b, number << 3 | 2);
    put_varint(b, s.n);
    buf_add_bytes(b, s);
}

static void put_label(struct remote_write *w, const char *name, const char *value)
{
    buf_reset(&w->part);
    put_bytes(&w->part, 1, bytes_str(name));
    put_bytes(&w->part, 2, bytes_str(value));
    put_bytes(&w->series, 1, buf_bytes(&w->part));
}

static void put_series(struct remote_write *w, uint32_t s)
{
    const struct series_gen_opts *o = &w->gen;
    unsigned decimals = gen_decimals(o->mix, gen_metric(s));
    bool is_le = strcmp(reads_label_key(s, o->mix), "le") == 0;
    char service[16], instance[16], label[24], name[64];

    reads_service(gen_service(s), service);
    reads_instance(s, instance);
    reads_label_value(s, o->mix, label);
    snprintf(name, sizeof(name), "%.16s%.40s%s", w->prefix, gen_metric_name(gen_metric(s)),
             gen_metric(s) < GEN_COUNTERS ? "_total" : "");
    for (char *c = name; *c != '\0'; c++) {
        if (*c == '.')
            *c = '_';
    }
    buf_reset(&w->series);
    put_label(w, "__name__", name);
    if (!is_le)
        put_label(w, "http_route", label);
    put_label(w, "instance", instance);
    put_label(w, "job", service);
    if (is_le)
        put_label(w, "le", label);
    for (uint32_t i = 0; i < w->n; i++) {
        double value = gen_double(w->values[(size_t)s * w->intervals + i], decimals);
        uint64_t bits;

        memcpy(&bits, &value, sizeof(bits));
        bits = htole64(bits);
        buf_reset(&w->part);
        put_varint(&w->part, 1 << 3 | 1);
        buf_add(&w->part, &bits, sizeof(bits));
        put_varint(&w->part, 2 << 3);
        put_varint(&w->part, (uint64_t)(gen_time_ns(o, gen_service(s), w->first + i) / NS_PER_MS));
        put_bytes(&w->series, 2, buf_bytes(&w->part));
    }
    put_bytes(&w->request, 1, buf_bytes(&w->series));
}

static void compress(struct remote_write *w)
{
    size_t n;

    buf_reset(&w->snappy);
    put_varint(&w->snappy, w->request.n);
    for (size_t at = 0; at < w->request.n; at += n) {
        n = w->request.n - at < LITERAL ? w->request.n - at : LITERAL;
        buf_add_char(&w->snappy, (char)(61 << 2));
        buf_add_char(&w->snappy, (char)((n - 1) & 255));
        buf_add_char(&w->snappy, (char)((n - 1) >> 8));
        buf_add(&w->snappy, w->request.p + at, n);
    }
}

static enum otl_err send_batch(struct remote_write *w, struct otl_error *err)
{
    static const char head[] = "POST /api/v1/write HTTP/1.1\r\nHost: localhost\r\n"
                               "Content-Type: application/x-protobuf\r\n"
                               "Content-Encoding: snappy\r\n"
                               "X-Prometheus-Remote-Write-Version: 0.1.0\r\n";
    enum otl_err rc = OTL_OK;

    for (uint32_t s = 0; s < w->gen.series && w->n > 0 && rc == OTL_OK;) {
        buf_reset(&w->request);
        for (uint32_t i = 0; i < BATCH_SERIES && s < w->gen.series; i++)
            put_series(w, s++);
        compress(w);
        rc = w->snappy.failed || w->request.failed || w->series.failed || w->part.failed
                 ? otl_fail(err, OTL_ENOMEM, "no memory for a batch")
                 : http_post(&w->client, &w->url, &w->wire, head, buf_bytes(&w->snappy), err);
        if (rc == OTL_OK && w->client.status / 100 != 2)
            rc = otl_fail(err, OTL_EBADDATA, "remote write is answered %d: %.*s", w->client.status,
                          (int)(w->client.body.n < 300 ? w->client.body.n : 300),
                          (const char *)w->client.body.p);
    }
    w->n = 0;
    return rc;
}

enum otl_err remote_write_new(const struct remote_write_opts *o, struct remote_write **out,
                              struct otl_error *err)
{
    struct remote_write *w = calloc(1, sizeof(*w));
    enum otl_err rc;

    if (w == NULL)
        return otl_fail(err, OTL_ENOMEM, "no memory for remote write");
    http_client_init(&w->client);
    w->gen = o->gen;
    w->prefix = o->prefix;
    w->intervals = o->intervals;
    w->values = calloc((size_t)o->gen.series * o->intervals, sizeof(*w->values));
    rc = w->values == NULL ? otl_fail(err, OTL_ENOMEM, "no memory for a batch")
                           : http_url_parse(o->url, &w->url, err);
    if (rc != OTL_OK) {
        remote_write_free(w);
        return rc;
    }
    *out = w;
    return OTL_OK;
}

void remote_write_free(struct remote_write *w)
{
    if (w == NULL)
        return;
    http_client_fini(&w->client);
    buf_fini(&w->wire);
    buf_fini(&w->request);
    buf_fini(&w->series);
    buf_fini(&w->part);
    buf_fini(&w->snappy);
    free(w->values);
    free(w);
}

enum otl_err remote_write_add(struct remote_write *w, const struct series_gen *g,
                              struct otl_error *err)
{
    if (w->n == 0)
        w->first = g->interval;
    for (uint32_t s = 0; s < g->opts.series; s++)
        w->values[(size_t)s * w->intervals + w->n] = g->values[s];
    w->n++;
    return w->n == w->intervals ? send_batch(w, err) : OTL_OK;
}

enum otl_err remote_write_finish(struct remote_write *w, struct otl_error *err)
{
    return send_batch(w, err);
}

/* ---- live ---- */

static volatile sig_atomic_t stopped;

static void on_interrupt(int sig)
{
    (void)sig;
    stopped = 1;
}

static void sleep_until(int64_t mono_ns)
{
    const struct timespec t = {.tv_sec = mono_ns / NS_PER_S, .tv_nsec = mono_ns % NS_PER_S};

    while (!stopped && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0) {
    }
}

/* So many samples a second until SIGINT; *out: how many were taken. */
static enum otl_err live(const char *url, uint32_t rate, double *out, struct otl_error *err)
{
    const struct sigaction action = {.sa_handler = on_interrupt};
    struct series_gen_opts gen = {
        .mix = GEN_REALISTIC,
        .series = LIVE_SERIES,
        .intervals = UINT32_MAX,
        .seed = 5,
        .start_ns = clock_wall_ns() / NS_PER_MS * NS_PER_MS,
        .interval_ns = LIVE_SERIES * NS_PER_S / rate / NS_PER_MS * NS_PER_MS,
    };
    const struct remote_write_opts o = {.gen = gen, .url = url, .prefix = "live_", .intervals = 1};
    struct remote_write *w = NULL;
    struct series_gen g = {0};
    int64_t begin_ns = clock_mono_ns(), sent = 0;
    enum otl_err rc = remote_write_new(&o, &w, err);

    if (rc == OTL_OK && sigaction(SIGINT, &action, NULL) != 0)
        rc = otl_fail(err, OTL_ESYSTEM, "sigaction");
    if (rc == OTL_OK)
        rc = series_gen_init(&g, &gen, err);
    while (rc == OTL_OK && !stopped) {
        rc = remote_write_add(w, &g, err);
        sent += LIVE_SERIES;
        sleep_until(begin_ns + sent / LIVE_SERIES * gen.interval_ns);
        if (!series_gen_next(&g))
            break;
    }
    if (rc == OTL_OK)
        *out = (double)sent * (double)NS_PER_S / (double)(clock_mono_ns() - begin_ns);
    series_gen_fini(&g);
    remote_write_free(w);
    return rc;
}

int remote_write_main(int argc, char **argv)
{
    static const struct option options[] = {
        {"url", 1, NULL, 'u'}, {"rate", 1, NULL, 'r'}, {"help", 0, NULL, 'h'}, {0}};
    struct otl_error err = {0};
    const char *url = NULL;
    unsigned long rate = 100000;
    double taken = 0;
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 'u') {
            url = optarg;
        } else if (c == 'r') {
            rate = strtoul(optarg, NULL, 10);
        } else {
            fputs("usage: otlite-bench remote-write --url URL [--rate SAMPLES]\n\n"
                  "Send samples of 10,000 series to a server that takes Prometheus' remote write, "
                  "until SIGINT.\n",
                  c == 'h' ? stdout : stderr);
            return c == 'h' ? EX_OK : EX_USAGE;
        }
    }
    if (url == NULL || rate == 0 || rate > MOST_RATE) {
        fprintf(stderr, "otlite-bench remote-write: --url is missing, or --rate is not 1 to %d\n",
                MOST_RATE);
        return EX_USAGE;
    }
    if (live(url, (uint32_t)rate, &taken, &err) != OTL_OK) {
        fprintf(stderr, "otlite-bench remote-write: %s\n", err.msg);
        return EX_SOFTWARE;
    }
    printf("points/s %.0f\n", taken);
    return EX_OK;
}
