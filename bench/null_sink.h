/* null_sink.h -- our own HTTP server with a route that answers 200 to whatever it is sent: what
 * reading requests and answering them costs when nothing is done with them. */
#ifndef OTLITE_BENCH_NULL_SINK_H
#define OTLITE_BENCH_NULL_SINK_H

#include <sys/types.h>

#include "otlite/err.h"

/* One that runs as a process of its own, so that its CPU time is its own too. */
struct null_sink {
    pid_t pid;    /* 0: not running */
    char url[64]; /* http://127.0.0.1:PORT/v1/metrics */
};

/* On a free loopback port, with the daemon's settings. Call while this process has one thread. */
enum otl_err null_sink_start(struct null_sink *out, struct otl_error *err) OTL_MUSTCHECK;
/* End it and wait. Does nothing when it is not running. */
void null_sink_stop(struct null_sink *s);

/* `otlite-bench null`; returns an exit status (sysexits.h). */
int null_main(int argc, char **argv);

#endif
