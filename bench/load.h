/* load.h -- drive an OTLP endpoint with encoded requests over several connections and measure.
 *
 * Closed loop (rate 0): each connection sends its next request when the last one is answered.
 * Open loop: request k is due at start + k / rate, whatever the daemon does, and its latency counts
 * from then on, so that a stall shows in every request it held up. */
#ifndef OTLITE_BENCH_LOAD_H
#define OTLITE_BENCH_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "http_client.h"
#include "latencies.h"
#include "otlite/err.h"
#include "template.h"

/* What happened within one second of the measured time, by the time of the answer. */
struct load_second {
    uint64_t points;   /* accepted */
    uint64_t requests; /* accepted in full */
    uint64_t refused;  /* 429 and 503 */
    uint64_t failed;   /* every other answer that does not accept all points, and none at all */
    int64_t p50_ns, p99_ns, max_ns; /* latency, refusals left out; 0 when nothing was answered */
};

struct load_opts {
    const struct http_url *url;
    unsigned connections;
    double rate;         /* requests a second; 0: as fast as answers come */
    int64_t wait_ns;     /* for the endpoint to take connections, before anything else */
    int64_t warmup_ns;   /* sent before the measured time begins */
    int64_t duration_ns; /* measured */
    int64_t timeout_ns;  /* an answer that takes longer counts as lost */
    int64_t pid;         /* of the daemon, for its CPU time; 0: none */
    /* May be NULL: called at the end of every second of the measured time, the first with 0. A
     * callback that takes long holds up the load. */
    void (*on_second)(void *arg, unsigned second, const struct load_second *what);
    void *on_second_arg;
    /* Room for the seconds of the measured time, lent by the caller; may be NULL. */
    struct load_second *by_second;
    unsigned by_second_room;
};

enum { LOAD_MAX_STATUS = 600 };

struct load_result {
    double seconds;                   /* measured time */
    uint64_t requests;                /* accepted in full within it: answered 200, or with line
                                         protocol any 2xx, and no point rejected */
    uint64_t points;                  /* their points */
    uint64_t status[LOAD_MAX_STATUS]; /* answers within it, by status */
    uint64_t partial;                 /* 200s that reject points; their points are not counted */
    uint64_t lost;                    /* no answer: refused, reset, timed out */
    uint64_t unsent;                  /* open loop: due within the time but never sent */
    uint64_t all_points;              /* in requests accepted in full, warm-up and end included */
    struct latencies latency; /* ns; of every request that was due in the time and answered, but for
                                 the refused ones */
    struct latencies refused; /* ns; of the answers 429 and 503, from when they were sent */
    unsigned n_by_second;     /* filled of o->by_second; whole seconds only */
    double own_cpu_seconds;
    bool has_daemon_cpu;
    double daemon_cpu_seconds;
    int64_t daemon_peak_bytes; /* 0: unknown */
};

/* Runs may follow each other in one process, also with the same set, whose series then go on.
 * SIGINT ends a run early, and all later ones: see load_interrupted.
 * Fails when the endpoint takes no connection within wait_ns, or the numbers do not fit. */
enum otl_err load_run(const struct load_opts *o, struct template_set *set, struct load_result *out,
                      struct otl_error *err) OTL_MUSTCHECK;

/* Was a run ended by SIGINT? */
bool load_interrupted(void);

/* `otlite-bench load`; returns an exit status (sysexits.h). */
int load_main(int argc, char **argv);

#endif
