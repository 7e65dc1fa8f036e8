/* maintain.h -- what keeps the file in shape: a thread that seals, merges and makes rollups, enforces
 * retention, and gives pages back to the file system.
 *
 * It reads on a connection of its own and encodes on its own thread. Everything that it changes it
 * hands to the writer as tasks (writer.h, write_job.task) of a few milliseconds each, one transaction a
 * task, so that requests get their turn between them. It can be killed between any two tasks: what is
 * not live is garbage (src/store/part.h), what is not sealed is sealed again. */
#ifndef OTLITE_MAINTAIN_H
#define OTLITE_MAINTAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "otlite/err.h"
#include "otlite/store.h"
#include "otlite/writer.h"

/* How long and how much is kept. Times in milliseconds; 0: for ever. */
struct retention_rule {
    const char *project; /* name; NULL: any */
    const char *metric;  /* pattern with * and ?; NULL: any */
    int64_t max_age_ms;
};
struct retention {
    int64_t max_age_ms;            /* raw points and exemplars */
    int64_t exemplar_age_ms;       /* 0: like raw points */
    int64_t rollup_5m_age_ms, rollup_1h_age_ms;
    int64_t max_bytes;             /* of telemetry.db, its WAL and temporary files together; 0: no limit */
    const struct retention_rule *rules; /* the first that matches a metric counts instead of max_age */
    size_t n_rules;
};

struct maintain_opts {
    struct store_opts store;
    struct retention retention; /* borrowed until maintainer_free, with its rules */
    bool rollups;
    bool idle; /* no thread: only maintain_compact does anything (`otlite compact`, tests) */
    /* The id of a project by its name, 0: there is none (yet). NULL: rules for projects match nothing.
     * Called on the maintenance thread. */
    int64_t (*project_id)(void *arg, const char *name);
    void *project_arg;
};

struct maintainer;

/* The writer runs already. */
enum otl_err maintainer_start(const struct maintain_opts *o, struct writer *w,
                              struct maintainer **out, struct otl_error *err) OTL_MUSTCHECK;
/* Ends after the task under way; before writer_stop. */
void maintainer_stop(struct maintainer *m);
void maintainer_free(struct maintainer *m);
/* Seal everything in the head and merge as far as there is something to merge; returns when done
 * (`otlite compact`, tests). progress may be NULL: called now and then with text for a terminal. */
enum otl_err maintain_compact(struct maintainer *m, void (*progress)(void *arg, const char *text),
                              void *arg, struct otl_error *err) OTL_MUSTCHECK;

#endif
