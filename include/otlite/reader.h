/* reader.h -- a pool of threads, each with a read-only connection of its own to telemetry.db. */
#ifndef OTLITE_READER_H
#define OTLITE_READER_H

#include "otlite/db.h"
#include "otlite/err.h"
#include "otlite/handoff.h"
#include "otlite/read.h"
#include "otlite/sql.h"
#include "otlite/store.h"

enum { READER_POOL_SIZE = 4 };

struct reader_pool;

/* The caller's; owned by the pool from submit until done.run is called on the handoff's thread. */
struct read_job {
    struct read_job *next; /* pool's */
    struct handoff *reply_to;
    struct handoff_item done;
    /* Runs on a reader thread inside one read transaction (BEGIN ... COMMIT, one snapshot). Must
     * reset or finalise every statement it used. */
    enum otl_err (*work)(struct read_job *job, struct db *db, struct otl_error *err);
    struct sql_tables *sql; /* set for work: the virtual tables of the connection */
    /* Set for work: of the connection, for read_begin without a transaction of its own; NULL in a
     * pool without read_shared. Every read must have ended when work returns. */
    struct read_session *session;
    enum otl_err rc; /* result of work, or why it did not run */
    struct otl_error err;
};

/* The writer must have created the database. max_jobs bounds the queue. shared is borrowed until
 * reader_pool_stop; NULL: each connection has its own. */
enum otl_err reader_pool_start(const struct store_opts *o, size_t max_jobs,
                               struct read_shared *shared, struct reader_pool **out,
                               struct otl_error *err) OTL_MUSTCHECK;
/* OTL_EBUSY or OTL_ESTOPPING: not queued, still the caller's. */
enum otl_err reader_submit(struct reader_pool *p, struct read_job *job,
                           struct otl_error *err) OTL_MUSTCHECK;
/* Finish what is queued, close the connections, join. */
void reader_pool_stop(struct reader_pool *p);
void reader_pool_free(struct reader_pool *p);

#endif
