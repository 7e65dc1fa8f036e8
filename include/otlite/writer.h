/* writer.h -- the one thread that writes telemetry.db.
 *
 * Submit from any thread; the job comes back through its handoff, once, on the thread that drains
 * it. A job that comes back with OTL_OK is committed. Invariants: top of src/store/writer.c. */
#ifndef OTLITE_WRITER_H
#define OTLITE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "otlite/batch.h"
#include "otlite/err.h"
#include "otlite/handoff.h"
#include "otlite/store.h"

struct writer;

struct writer_opts {
    struct store_opts store;
    size_t max_queue_bytes; /* refuse beyond this many bytes waiting (I5) */
    size_t max_queue_jobs;  /* and beyond this many requests */
    int64_t max_age_ms;     /* a job is refused rather than started later than this after submit,
                               and waits for another process's lock only as long as is left of it */
    /* Called on the writer thread before the telemetry transaction of a batch (the state.db part of
     * the request), and about once a second. Either may be NULL. */
    enum otl_err (*before_batch)(void *arg, int64_t project_id, const struct batch *b,
                                 struct otl_error *err);
    void (*tick)(void *arg);
    void *arg;
    /* Not 0: telemetry.db, its log and the log's index never take more bytes than this together. What
     * would make them is refused with OTL_EFULL: requests a little earlier than tasks, so that there is
     * room to seal and to drop. */
    int64_t max_bytes;
};

/* The caller's; filled before submit, owned by the writer until done.run is called. */
struct write_job {
    struct write_job *next;   /* writer's */
    struct handoff *reply_to; /* where to come back */
    struct handoff_item done; /* done.run(&job->done) on the handoff's thread */
    /* Not NULL: a task of maintenance instead of a request. Runs on the writer thread in a
     * transaction of its own, never together with requests, and is rolled back unless it gives
     * OTL_OK. It must be done in a few milliseconds: requests wait for it. */
    store_task_fn *task;
    void *task_arg;
    struct batch *batch; /* NULL: a probe (can a transaction commit now?) */
    int64_t project_id;
    size_t bytes;         /* what the job weighs in the queue */
    int64_t submitted_ns; /* writer's, monotonic */
    enum otl_err rc;      /* result */
    struct otl_error err;
    struct store_result result;
};

/* Opens the database (so errors of the file are reported here) and starts the thread. */
enum otl_err writer_start(const struct writer_opts *o, struct writer **out,
                          struct otl_error *err) OTL_MUSTCHECK;
/* Queue a job. OTL_OK: the writer's until it comes back. OTL_EBUSY (queue full) or OTL_ESTOPPING:
 * nothing was queued, the caller still owns it.
 * A task takes its turn in the same queue but no room in it: bytes is not looked at, it is neither
 * refused nor late, and refuses no request. At most one may be waiting or under way; OTL_EBUSY for
 * a second. It does not wait for another process's lock, but comes back with OTL_ELOCKED. */
enum otl_err writer_submit(struct writer *w, struct write_job *job,
                           struct otl_error *err) OTL_MUSTCHECK;
/* Whether a job of bytes would be taken now: OTL_OK, or the OTL_EBUSY that writer_submit would
 * give. For refusing early; only writer_submit decides. */
enum otl_err writer_room(struct writer *w, size_t bytes, struct otl_error *err) OTL_MUSTCHECK;
/* How much of max_bytes the log and its index may take. Requests are refused from this much before the
 * rest is used up. */
int64_t writer_log_share(int64_t max_bytes);
int64_t writer_task_share(int64_t max_bytes);
/* Refuse new jobs, finish what is queued, checkpoint (truncate), close the database, join. After
 * this every job has been pushed to its handoff. Call once; then writer_free, when no call of
 * writer_submit is under way any more. */
void writer_stop(struct writer *w);
/* Of its store; valid until writer_free. Any thread. */
struct head_mirror *writer_mirror(struct writer *w);
void writer_free(struct writer *w);

#endif
