/* load.h -- drive an OTLP endpoint with encoded requests over several connections and measure.
 *
 * Closed loop (rate 0): each connection sends its next request when the last one is answered.
 * Open loop: request k is due at start + k / rate, whatever the daemon does, and its latency counts
 * from then on, so that a stall shows in every request it held up. */
#ifndef OTLITE_BENCH_LOAD_H
#define OTLITE_BENCH_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "histogram.h"
#include "http_client.h"
#include "otlite/err.h"
#include "template.h"

struct load_opts {
    const struct http_url *url;
    unsigned connections;
    double rate;         /* requests a second; 0: as fast as answers come */
    int64_t wait_ns;     /* for the endpoint to take connections, before anything else */
    int64_t warmup_ns;   /* sent before the measured time begins */
    int64_t duration_ns; /* measured */
    int64_t timeout_ns;  /* an answer that takes longer counts as lost */
    int64_t pid;         /* of the daemon, for its CPU time; 0: none */
};

enum { LOAD_MAX_STATUS = 600 };

struct load_result {
    double seconds;                   /* measured time */
    uint64_t requests;                /* answered 200 in full within it */
    uint64_t points;                  /* their points */
    uint64_t status[LOAD_MAX_STATUS]; /* answers within it, by status */
    uint64_t partial;                 /* 200s that reject points; their points are not counted */
    uint64_t lost;                    /* no answer: refused, reset, timed out */
    uint64_t unsent;                  /* open loop: due within the time but never sent */
    uint64_t all_points;      /* in requests answered 200 in full, warm-up and end included */
    struct histogram latency; /* ns; of every answered request that was due in the time */
    struct histogram refused; /* ns; of those answered 429 or 503, from when they were sent */
    double own_cpu_seconds;
    bool has_daemon_cpu;
    double daemon_cpu_seconds;
    int64_t daemon_peak_bytes; /* 0: unknown */
};

/* Fails when the endpoint takes no connection within wait_ns, or the numbers do not fit. */
enum otl_err load_run(const struct load_opts *o, struct template_set *set, struct load_result *out,
                      struct otl_error *err) OTL_MUSTCHECK;

/* `otlite-bench load`; returns an exit status (sysexits.h). */
int load_main(int argc, char **argv);

#endif
