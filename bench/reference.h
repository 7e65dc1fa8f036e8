/* reference.h -- what the subcommands of `otlite-bench reference`, and overload, have in common:
 * the command line, the daemon under test, and the goals that they answer for.
 *
 * Each subcommand does to otlite what a published account did to its system, and prints the
 * published figures beside ours. */
#ifndef OTLITE_BENCH_REFERENCE_H
#define OTLITE_BENCH_REFERENCE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon.h"
#include "http_client.h"
#include "load.h"
#include "otlite/db.h"
#include "otlite/err.h"
#include "otlite/store.h"
#include "result.h"

/* An empty cell of a table. */
#define UNKNOWN ((double)NAN)

enum { REFERENCE_MAX_SETTINGS = 32, REFERENCE_MAX_GOALS = 16 };

struct reference_opts {
    const char *url;  /* NULL: a daemon of our own */
    const char *data; /* of the daemon at url; NULL: what it stored cannot be checked */
    int64_t pid;      /* of the daemon at url; 0: its CPU and memory are not known */
    const char *out;  /* folder for results; NULL: print only */
    int64_t step_ms;
    int64_t requests;     /* 0: the subcommand has no such option */
    int64_t rate;         /* points a second; 0: likewise, or find out */
    unsigned connections; /* or clients; 0: likewise */
    unsigned rounds;      /* 0: likewise */
    const char *settings[REFERENCE_MAX_SETTINGS + 1]; /* of our own daemon; ends with NULL */
    const char *command;                              /* what was typed */
};

struct reference_goal {
    char what[96];
    double goal, measured; /* measured UNKNOWN: it could not be */
    bool at_least;         /* else: less than */
};

struct reference_run {
    const struct reference_opts *o;
    struct reference_goal goals[REFERENCE_MAX_GOALS];
    unsigned n_goals;
    bool broken; /* a promise did not hold: something answered was lost or not as it was sent */
};

struct reference_command {
    const char *name, *summary;
    const char *help; /* what it does, and its own options */
    int64_t step_ms, requests;
    unsigned connections, rounds; /* defaults; 0 where there is no such option */
    bool own_daemon_only;         /* or runs without any */
    bool has_settings;            /* though it is own_daemon_only */
    bool has_rate;
    enum otl_err (*run)(struct reference_run *run, struct otl_error *err);
};

extern const struct reference_command reference_r1, reference_r3, reference_r4, reference_r5,
    reference_overload, reference_maintain, reference_soak;

/* Note it below the table and keep it for the table of goals. */
void reference_goal(struct reference_run *run, struct result *r, const char *what, bool at_least,
                    double goal, double measured);

/* SIGINT came: what runs ends soon and what is left of it is reported. */
bool reference_interrupted(void);

/* --- the daemon under test --- */

struct target {
    bool own;
    struct daemon daemon; /* when own */
    struct http_url url;
    char scratch[4096]; /* "" unless own */
    char data[4096];    /* "": not known */
    int64_t pid;        /* 0: not known */
};

/* Start a daemon on empty data, or parse the url of the one that is named. */
enum otl_err target_open(const struct reference_opts *o, struct target *out,
                         struct otl_error *err) OTL_MUSTCHECK;
/* The same with one setting more, which a setting of o wins over. */
enum otl_err target_open_with(const struct reference_opts *o, const char *setting,
                              struct target *out, struct otl_error *err) OTL_MUSTCHECK;
/* End it and remove its data, when it is our own. */
void target_close(struct target *t);

/* How the daemon's own readers open its file, but with a page cache of cache_bytes and without
 * mmap: SQLite unmaps the whole file at the first read after each commit of another connection, and
 * while there are writes that costs a short read three times what pread does. Borrows t.
 * OTL_ECONFIG when the data directory is not known. */
enum otl_err target_reader_opts(const struct target *t, int64_t cache_bytes, struct store_opts *out,
                                struct otl_error *err) OTL_MUSTCHECK;
/* Rows of all point tables. */
enum otl_err target_stored(const struct target *t, int64_t *out,
                           struct otl_error *err) OTL_MUSTCHECK;
/* Size of the WAL file, which keeps its largest size of late; 0 when it is not known. */
int64_t target_wal_bytes(const struct target *t);

/* Points of sums, as `otlite-bench load` sends them. */
struct target_load {
    unsigned points; /* a request */
    unsigned services, series, connections;
    double rate; /* points a second; 0: closed loop */
    int64_t duration_ms;
    int64_t warmup_ms; /* before it */
    /* As load_opts has them. */
    struct load_second *by_second;
    unsigned by_second_room;
};

/* Make the series known and send the load. */
enum otl_err target_send(const struct target *t, const struct target_load *load,
                         struct load_result *out, struct otl_error *err) OTL_MUSTCHECK;
/* The same, then count what it stored. *out_missing: points answered
 * 200 that are not there (rows that others store at the same time would hide them); -1 when the
 * data directory is not known. *out_wal_bytes as target_wal_bytes gives. */
enum otl_err target_drive(const struct target *t, const struct target_load *load,
                          struct load_result *out, int64_t *out_missing, int64_t *out_wal_bytes,
                          struct otl_error *err) OTL_MUSTCHECK;
/* Of the measured time: requests answered or lost, and those of them without a whole 200. */
uint64_t load_attempts(const struct load_result *r);
uint64_t load_errors(const struct load_result *r);

/* --- one request after another, waiting --- */

/* Send and wait for the answer; opens the connection where there is none. *out_status is 0 when
 * there was no answer within timeout_ns; the connection is closed then. The answer's body is in
 * c->body. */
void http_call(struct http_client *c, const struct http_url *url, struct bytes request,
               int64_t timeout_ns, int *out_status);

/* `otlite-bench reference`, `overload`, `maintain` and `soak`; exit statuses of sysexits.h, and 1
 * when a promise did not hold. */
int reference_main(int argc, char **argv);
int overload_main(int argc, char **argv);
int maintain_main(int argc, char **argv);
int soak_main(int argc, char **argv);

#endif
