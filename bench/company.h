/* company.h -- what goes on beside a load on an otlite: samples of its memory, files and head,
 * queries, and backups, each on a thread of its own. */
#ifndef OTLITE_BENCH_COMPANY_H
#define OTLITE_BENCH_COMPANY_H

#include <stdbool.h>
#include <stdint.h>

#include "latencies.h"
#include "otlite/err.h"
#include "reference.h"

struct sample {
    double seconds;            /* since the start */
    double resident, unmapped; /* bytes; unmapped: those that are of no file */
    double descriptors;
    double wal, database;           /* bytes of the files */
    double head_rows;               /* stored and not sealed yet */
    double stored, expired, merges; /* counted since the daemon's start: points, and points that
                                       retention dropped */
    double longest_task_ms;         /* of maintenance on the writer, since the daemon's start */
};

struct company_opts {
    const struct target *target; /* with a pid and a data directory */
    int64_t sample_ms;           /* 0: none; likewise the others */
    int64_t query_ms;            /* between two queries */
    int64_t backup_ms;           /* between two backups */
};

struct company_figures {
    struct sample *samples; /* n of them, company_free frees them */
    unsigned n;
    uint64_t backups, failed_backups;
    uint64_t queries, failed_queries;
    struct latencies query_ns;
    char failure[256]; /* the first one, of any of them; "" */
};

struct company;
enum otl_err company_start(const struct company_opts *o, struct company **out,
                           struct otl_error *err) OTL_MUSTCHECK;
/* End the threads; a backup under way is waited for. The figures are c's. Takes NULL: none. */
const struct company_figures *company_stop(struct company *c);
void company_free(struct company *c);

/* One sample at once. False: the daemon does not answer. */
bool company_sample(const struct target *t, struct sample *out);

#endif
