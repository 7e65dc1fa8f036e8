/* daemon.h -- an otlite of the benchmark's own: started on a free loopback port, ended by its pid.
 */
#ifndef OTLITE_BENCH_DAEMON_H
#define OTLITE_BENCH_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "otlite/err.h"

struct daemon_opts {
    const char *program;         /* the otlite to run; NULL: the one beside this program */
    const char *data_dir;        /* made when it is missing */
    const char *const *settings; /* "sqlite.durability=full", ..., NULL; may be NULL */
};

struct daemon {
    pid_t pid;      /* 0: not running */
    unsigned port;  /* on 127.0.0.1 */
    char url[64];   /* http://127.0.0.1:PORT/v1/metrics */
    char log[4096]; /* path of its log, data_dir.log */
};

/* Start it and wait until it serves. OTL_EIO with the last lines of its log when it does not. */
enum otl_err daemon_start(const struct daemon_opts *o, struct daemon *out,
                          struct otl_error *err) OTL_MUSTCHECK;
/* SIGTERM and wait; SIGKILL after 30 s, and then false. Does nothing when it is not running. */
bool daemon_stop(struct daemon *d);
/* SIGKILL and wait. */
void daemon_kill(struct daemon *d);

/* A directory for data under TMPDIR, and its removal with all it holds. */
enum otl_err scratch_make(char *out, size_t n, struct otl_error *err) OTL_MUSTCHECK;
void scratch_remove(const char *dir);

#endif
