/* reads.h -- what `otlite-bench reads` and `storage` ask, and of whom: the queries of issue 4 as
 * panels that every system can answer in its own best way, and the systems behind one interface. */
#ifndef OTLITE_BENCH_READS_H
#define OTLITE_BENCH_READS_H

#include <stdbool.h>
#include <stdint.h>

#include "answer.h"
#include "otlite/bytes.h"
#include "otlite/err.h"
#include "series_gen.h"

/* ---- what is asked ---- */

enum panel_what {
    PANEL_RAW, /* every point of one series, a window each */
    PANEL_SUM,
    PANEL_MEAN,
    PANEL_MAX,
    PANEL_MEAN_AND_MAX, /* two values a row */
    PANEL_RATE          /* growth a second, resets counted from 0, summed over the series */
};
enum panel_by { BY_NONE, BY_SERVICE, BY_SERIES };
enum panel_span {
    SPAN_HOUR, /* the last one there is, cut at what is stored; likewise a day */
    SPAN_DAY,
    SPAN_ALL,
    SPAN_LIVE /* all there is, of all metrics, what comes in meanwhile included: an answer can only
                 be held against what it must at least be */
};

enum { ALL_METRICS = (1 << GEN_METRICS) - 1 };

struct panel {
    enum panel_what what;
    enum panel_by by;
    enum panel_span span;
    unsigned metrics; /* a bit for each */
    bool production;  /* only these services */
    int64_t step_s;   /* 0: one window (RAW: the points' interval) */
};

enum { MAX_PANELS = 9 };

struct reads_query {
    const char *name, *title;
    double goal_ms; /* at 100 M points, warm; NAN: none */
    unsigned n_panels;
    struct panel panels[MAX_PANELS];
};

enum { READS_QUERIES = 8 };
extern const struct reads_query reads_queries[READS_QUERIES];
/* RAW asks for this series: production, a counter. */
enum { RAW_SERIES = 2 };

struct range {
    int64_t from_ns, to_ns, step_ns;
    uint32_t windows;
};

/* The windows of a panel: whole ones within the data, behind an interval for the first growth. */
struct range panel_range(const struct panel *p, const struct series_gen_opts *o);
bool panel_takes(const struct panel *p, uint32_t series);
uint32_t panel_group(const struct panel *p, uint32_t series);
/* NAME, or NAME|NAME for a regular expression, dots escaped then. *out_single tells which. */
void panel_names(const struct panel *p, struct buf *out, bool *out_single);

/* ---- the true answers ---- */

struct reads_model;
enum otl_err reads_model_new(const struct series_gen_opts *o, struct reads_model **out,
                             struct otl_error *err) OTL_MUSTCHECK;
void reads_model_free(struct reads_model *m);
/* Once for each interval, in order. */
void reads_model_add(struct reads_model *m, const struct series_gen *g);
/* All intervals are in. Sorted. */
void reads_model_answer(const struct reads_model *m, unsigned query, unsigned panel,
                        struct answer *out);
/* Of all values. */
double reads_model_sum(const struct reads_model *m);

/* ---- the systems ---- */

struct reads_env {
    struct series_gen_opts gen;
    const char *dir;             /* scratch of the system's own, there already */
    bool stored;                 /* the points are in it, by this system's hand */
    const char *peers;           /* where bench/peers/install.sh put the peers */
    const char *scripts;         /* bench/peers of the sources */
    const char *const *settings; /* further ones of otlite, NULL at the end */
};

struct reads_system {
    const char *key, *name; /* for arguments and files; for people */
    uint64_t most_points;   /* 0: any number */
    /* It only reads what that one stored, which is halted meanwhile: env->dir is that one's, and
     * add, finish and bytes are NULL. NULL: it stores its own. */
    const struct reads_system *stored_by;
    /* Start on env->dir, empty unless env->stored. OTL_ENOTFOUND: not installed. */
    enum otl_err (*start)(const struct reads_env *env, void **out_self, struct otl_error *err);
    /* The values of an interval; in order. */
    enum otl_err (*add)(void *self, const struct series_gen *g, struct otl_error *err);
    /* All are in: wait until they are durable, sealed and merged. */
    enum otl_err (*finish)(void *self, struct otl_error *err);
    /* How many points it holds and their sum, by its own count. */
    enum otl_err (*count)(void *self, uint64_t *out_points, double *out_sum, struct otl_error *err);
    /* End the process, or close; and come back. Between, files are evicted. */
    enum otl_err (*halt)(void *self, struct otl_error *err);
    enum otl_err (*resume)(void *self, struct otl_error *err);
    /* Time is from asking until the answer is there in full, reading its text
     * excluded. OTL_EMETHOD: this panel is nothing for it. */
    enum otl_err (*ask)(void *self, const struct panel *p, struct answer *out, int64_t *out_ns,
                        struct otl_error *err);
    /* A URL for `otlite-bench load` with the arguments for it; NULL: cannot. */
    const char *(*load_url)(void *self, bool *out_influx);
    /* Bytes of its files, after halt. */
    uint64_t (*bytes)(void *self);
    void (*stop)(void *self); /* takes NULL */
};

extern const struct reads_system reads_otlite, reads_in_process, reads_duckdb, reads_victoria,
    reads_sqlite;
extern const struct reads_system reads_prometheus; /* add to resume, and load_url for its address */

/* Adds up the files in a directory and below. */
uint64_t directory_bytes(const char *dir);
/* Have them written back and dropped from the page cache. */
void directory_evict(const char *dir);

/* ---- the whole ---- */

enum { READS_SYSTEMS = 5 };
extern const struct reads_system *const reads_systems[READS_SYSTEMS];

enum { READS_MOST_RUNS = 99, READS_MOST_SETTINGS = 63 };

struct reads_opts {
    uint64_t points; /* a multiple of series */
    uint32_t series;
    unsigned runs, jitter_ms;
    bool systems[READS_SYSTEMS];
    bool ingest; /* ask while points come in, too */
    bool ask;    /* false: only store */
    const char *data, *out, *peers, *scripts;
    const char *settings[READS_MOST_SETTINGS + 1]; /* ends with NULL */
    unsigned n_settings;
};

/* Store, ask, compare, report. *out_wrong: answers that differ. command: what a person typed. */
enum otl_err reads_run(const struct reads_opts *o, const char *command, unsigned *out_wrong,
                       struct otl_error *err) OTL_MUSTCHECK;

/* `otlite-bench reads`; exit statuses of sysexits.h, 1 when answers differ. */
int reads_main(int argc, char **argv);

#endif
