/* load_report.h -- what `otlite-bench load` says about a run. */
#ifndef OTLITE_BENCH_LOAD_REPORT_H
#define OTLITE_BENCH_LOAD_REPORT_H

#include "load.h"
#include "result.h"

/* On standard output. */
void load_report_text(const struct load_result *r);
void load_report_json(const struct load_result *r); /* one line */

/* Start the result files of a run, with_daemon of one that was given the daemon's pid; what
 * result_open says. */
enum otl_err load_report_open(const char *dir, const char *name, const char *command,
                              bool with_daemon, struct result **out,
                              struct otl_error *err) OTL_MUSTCHECK;
/* A row for each kind of answer, and the plots. seconds: r->n_by_second of them. The caller closes
 * the result. */
void load_report_fill(struct result *out, const struct load_result *r,
                      const struct load_second *seconds);

/* An on_second for people who watch: one line, written over each second. */
void load_report_progress(void *unused, unsigned second, const struct load_second *what);
/* Take that line away. */
void load_report_progress_end(void);

#endif
