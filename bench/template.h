/* template.h -- whole HTTP requests, encoded once and changed in place for each sending.
 *
 * The load is `series` series spread over `services` resources, three string attributes each. A
 * template is one request of `points` points of one service; between them the templates of a set
 * hold every series. Each use of a template (a pass) has later times, so no point is sent twice,
 * and a template belongs to one connection at a time, so the points of a series arrive in order.
 *
 * Content, so that a test or an oracle can foretell it. Series s of service v has the number
 * n = v * (series / services) + s. k counts its sendings from 1 (where a service has fewer series
 * than a request has points, a series is sent more than once in a request, a nanosecond apart).
 * step = template_increment(n, k). Times: see template_next.
 *
 * MIX_NUMBER: cumulative monotonic integer sums in the metrics bench.requests.<s / 10>. Before the
 * first sending a value is TEMPLATE_FIRST_VALUE + n, and the k-th adds step.
 *
 * MIX_ALL: metric m = s / 10 has the type m % 6, of (names before the number are in brackets)
 *   0 gauge, int [bench.queue]: 100000 + step
 *   1 gauge, double [bench.load]: 1000 + step / 4
 *   2 sum [bench.requests]: as in MIX_NUMBER, with an exemplar
 *   3 histogram [bench.duration] of 15 bounds, with an exemplar
 *   4 exponential histogram [bench.size], scale 3, 20 positive buckets, with an exemplar
 *   5 summary [bench.rpc] of five quantiles
 * with what template_content.c says; counts grow by k * (1 + n % 4) times a weight of the bucket,
 * and buckets add up to the count. Exemplars have the point's time, a trace and a span id of n and
 * k, and one filtered attribute.
 *
 * Line protocol (influx, MIX_NUMBER only): a line per point, measurement = the metric's name, tags
 * = service.name and the attributes, field value = the same integer, time in nanoseconds.
 *
 * With gzip, compressing every request anew would cost more than the daemon spends on it. Instead
 * the first point lies in a stored block and everything behind it is compressed against that block:
 * the bytes that change are equal in all points of the request, so they are references into the
 * stored block, and changing them there changes them everywhere. So with gzip the part of a value
 * that changes is equal for all points: value = pass part and series part, see
 * template_shared_value. MIX_ALL and line protocol do not lend themselves to that: there each
 * request is compressed anew, at the fastest level, and the generator costs what that costs. */
#ifndef OTLITE_BENCH_TEMPLATE_H
#define OTLITE_BENCH_TEMPLATE_H

#include <stdbool.h>
#include <stdint.h>

#include "otlite/bytes.h"
#include "otlite/err.h"

#define TEMPLATE_FIRST_VALUE INT64_C(1000000000000000)

enum template_mix { MIX_NUMBER, MIX_ALL };

struct template_opts {
    const char *host;    /* for the Host header */
    const char *path;    /* request target */
    const char *headers; /* further header lines, each ended by CRLF; may be "" */
    bool json;           /* else protobuf */
    bool influx;         /* line protocol; excludes json */
    bool gzip;
    enum template_mix mix;
    unsigned points;     /* a request */
    unsigned services;   /* divides series */
    unsigned series;     /* in all; of one service: fewer than points, or a multiple of points */
    int64_t start_ns;    /* start time of all sums; all points are later */
    int64_t interval_ns; /* 0: points carry the time of sending; else pass p has start + p * this */
};

/* A point of the request. */
struct template_field {
    uint32_t series;         /* the series' number n */
    uint32_t turn;           /* times the same series occurred earlier in the request */
    uint32_t patch, patches; /* its patches: index of the first, and how many */
    int64_t value;           /* MIX_NUMBER's, of the last sending; kept where turn is 0 */
};

/* Bytes of the body that change: see template_encode.h. */
struct template_patch;

struct template
{
    const struct template_opts *opts;
    struct buf wire;                  /* head and body as sent */
    size_t body_at;                   /* where the body starts in wire */
    struct buf plain;                 /* gzip: the body before compression; else empty */
    size_t stored_at;                 /* gzip in place: where the bytes of plain start in wire */
    struct template_deflate *deflate; /* compresses anew, shared by the set; NULL: not so */
    struct template_field *fields;
    struct template_patch *patches;
    unsigned n_fields;
    unsigned distinct; /* series in the request; field i is of the same series as i + distinct */
    unsigned turns;    /* most occurrences of one series in the request */
    uint64_t pass;
    int64_t last_ns; /* latest time sent */
};

struct template_set {
    struct template_opts opts;
    struct template *templates;
    unsigned n;
    struct template_deflate *deflate; /* owned; NULL unless requests are compressed anew */
};

static inline int64_t template_increment(uint32_t series, uint64_t sending)
{
    return 1 + (int64_t)((series * UINT64_C(7) + sending * UINT64_C(13)) & 63U);
}

int64_t template_shared_value(bool json, uint32_t series, uint64_t pass);

/* Check the numbers of o and encode everything. The strings of o are borrowed until
 * template_set_fini. */
enum otl_err template_set_init(struct template_set *set, const struct template_opts *o,
                               struct otl_error *err) OTL_MUSTCHECK;
void template_set_fini(struct template_set *set);

/* The next request: with interval_ns 0 its points have the time wall_ns, or as little more as makes
 * them later than the last use's. Borrowed until the next call for t. */
struct bytes template_next(struct template *t, int64_t wall_ns);

/* The body within the latest request, as sent. */
struct bytes template_body(const struct template *t);

#endif
