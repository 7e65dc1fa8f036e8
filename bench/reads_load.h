/* reads_load.h -- points that come in while something else is measured: a generator of our own, in
 * a process beside this one. */
#ifndef OTLITE_BENCH_READS_LOAD_H
#define OTLITE_BENCH_READS_LOAD_H

#include <stdint.h>

#include "child.h"
#include "otlite/err.h"

enum reads_load { LOAD_OTLP, LOAD_INFLUX, LOAD_REMOTE_WRITE };

/* So many points a second to url from now on. Comes back when its series are known and a head is
 * filling; its log is in dir. */
enum otl_err reads_load_start(enum reads_load kind, const char *url, unsigned rate, const char *dir,
                              struct child *out, struct otl_error *err) OTL_MUSTCHECK;
/* *out: points a second that were accepted. */
enum otl_err reads_load_stop(struct child *load, const char *dir, double *out,
                             struct otl_error *err) OTL_MUSTCHECK;

void reads_sleep_ms(int64_t ms);

#endif
