/* child.h -- programs that the benchmark runs beside itself, each ended by its pid. */
#ifndef OTLITE_BENCH_CHILD_H
#define OTLITE_BENCH_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "otlite/bytes.h"
#include "otlite/err.h"

struct child {
    pid_t pid;      /* 0: not running */
    FILE *in, *out; /* its standard input and output; NULL unless asked for */
};

/* argv[0] is a path, argv ends with NULL. Without pipes its input is empty and its output goes to
 * the file log; its standard error goes there always. It gets SIGTERM when this process ends. */
enum otl_err child_start(const char *const *argv, const char *log, bool pipes, struct child *out,
                         struct otl_error *err) OTL_MUSTCHECK;
/* Closes the pipes, SIGTERM, waits; SIGKILL after 60 s. */
void child_stop(struct child *c);
/* SIGINT: a `load` ends its run early and reports. child_wait follows. */
void child_interrupt(const struct child *c);
/* Waits for its own end; its exit status, or -1. */
int child_wait(struct child *c);
/* Run to its end with the standard output into out. OTL_EIO with the status when that is not 0. */
enum otl_err child_run(const char *const *argv, const char *log, struct buf *out,
                       struct otl_error *err) OTL_MUSTCHECK;
/* NAME beside this program. */
enum otl_err child_beside(const char *name, char *out, size_t n,
                          struct otl_error *err) OTL_MUSTCHECK;

/* A port of 127.0.0.1 that was free a moment ago; 0: none. */
unsigned child_free_port(void);

#endif
