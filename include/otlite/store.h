/* store.h -- telemetry.db: its schema, and one writer's way of putting batches into it.
 *
 * A store owns the write connection and the catalogue in memory. It is used by one thread. */
#ifndef OTLITE_STORE_H
#define OTLITE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "otlite/batch.h"
#include "otlite/db.h"
#include "otlite/err.h"

enum durability { DURABILITY_NORMAL, DURABILITY_FULL };

/* How telemetry.db is opened; every connection, reading or writing, applies the same list. */
struct store_opts {
    const char *data_dir;
    enum durability durability; /* PRAGMA synchronous NORMAL | FULL */
    int64_t cache_bytes;        /* page cache of the write connection */
    int64_t mmap_bytes;
    int64_t busy_timeout_ms;
    int64_t checkpoint_pages; /* checkpoint when the WAL holds this many pages */
    bool secure_delete;
    /* When the open half of a kind is closed (src/store/head.h); 0: not for this
     * reason. */
    int64_t head_max_rows, head_max_bytes, head_max_age_ms;
};

enum { TELEMETRY_APPLICATION_ID = 0x6f746c74 /* "otlt" */ };

/* DIR/telemetry.db */
void store_path(struct buf *out, const char *data_dir);
/* The DSN of o for a connection (see db.h). */
void store_dsn(struct buf *out, const struct store_opts *o);
/* A read-only connection to a database of exactly the newest schema version (for the readers and
 * for subcommands on a live database), with the virtual tables of sql.h. */
enum otl_err store_open_reader(struct db *db, const struct store_opts *o,
                               struct otl_error *err) OTL_MUSTCHECK;
/* That check of the version alone, for a connection that another program opened. */
enum otl_err store_check_reader(struct db *db, struct otl_error *err) OTL_MUSTCHECK;

struct store;

/* Open or create telemetry.db, migrate it, read the catalogue back. */
enum otl_err store_new(const struct store_opts *o, struct store **out,
                       struct otl_error *err) OTL_MUSTCHECK;
/* Closes without a checkpoint of its own (see store_checkpoint). Takes NULL. */
void store_free(struct store *s);

struct store_result {
    uint64_t stored;   /* new rows, all point types */
    uint64_t merged;   /* equal to a stored point: nothing written (H-92) */
    uint64_t replaced; /* same series, start and time, other value: the later one won (H-93) */
    uint64_t exemplars;
};

struct store_request {
    int64_t project_id; /* part of the resources' identity */
    struct batch *batch;
    struct store_result *result; /* filled on success */
};

/* n requests in one transaction, in order: BEGIN IMMEDIATE (waiting for other processes at most
 * busy_ms), insert everything storable, COMMIT. On OTL_OK all are committed, with a result each and
 * the warnings WARN_NAME_CONFLICT and WARN_DUPLICATE_POINT added to their batches; on any other
 * code nothing of any is in the database, the catalogue in memory is as before, and no result or
 * warning was changed. Series that were stored before the transaction get their number
 * (batch_series). */
enum otl_err store_requests(struct store *s, const struct store_request *r, uint32_t n,
                            int64_t busy_ms, struct otl_error *err) OTL_MUSTCHECK;
/* One request, one transaction. */
enum otl_err store_batch(struct store *s, int64_t project_id, struct batch *b, int64_t busy_ms,
                         struct store_result *out, struct otl_error *err) OTL_MUSTCHECK;

/* A piece of maintenance: BEGIN IMMEDIATE (waiting for other processes at most busy_ms), task, and
 * COMMIT if it gave OTL_OK, else everything is rolled back. The task uses db for its statements,
 * and resets or finalises each. */
typedef enum otl_err store_task_fn(void *arg, struct store *s, struct db *db,
                                   struct otl_error *err);
enum otl_err store_task(struct store *s, store_task_fn *task, void *arg, int64_t busy_ms,
                        struct otl_error *err) OTL_MUSTCHECK;

/* For tasks, with the kinds of src/store/series_points.h; KIND_ALL: each of the head's.
 * rotate: close the open half, if it has rows, and open the other. OTL_EBUSY: the other one is not
 * sealed and empty yet (of all kinds those that can be are rotated). seal: a part with the rows of
 * a closed half went live in this transaction; marks the half sealed, and saves the latest times of
 * the series. When the task is committed, the store and the mirror forget the half. */
enum { KIND_ALL = -1 };
enum otl_err store_rotate(struct store *s, int kind, struct otl_error *err) OTL_MUSTCHECK;
/* Close the halves that reached a limit. Requests do it by themselves; this is for the age of rows after
 * which none came. Touches no file when there is nothing to close. */
enum otl_err store_rotate_due(struct store *s, struct otl_error *err) OTL_MUSTCHECK;
enum otl_err store_seal(struct store *s, int kind, int half, int64_t epoch,
                        struct otl_error *err) OTL_MUSTCHECK;
/* For tasks: delete those of n series that no half of the head has rows of, and of which nothing came
 * since the time not_since; no part has points of them, says the caller. Ids are not used again: the
 * greatest one stays. A point of such a series makes a new one. *forgotten: how many went. */
enum otl_err store_forget_series(struct store *s, const int64_t *ids, size_t n, int64_t not_since,
                                 uint64_t *forgotten, struct otl_error *err) OTL_MUSTCHECK;
/* For readers; lives as long as the store. Any thread. */
struct head_mirror;
struct head_mirror *store_mirror(struct store *s);

/* Can a transaction commit now? BEGIN IMMEDIATE, a write that changes nothing, COMMIT. */
enum otl_err store_probe(struct store *s, int64_t busy_ms, struct otl_error *err) OTL_MUSTCHECK;

/* What a store holds between its transactions (wal_vfs.h). */
enum store_keep {
    STORE_KEEP_NOTHING,
    STORE_KEEP_LOCKS, /* while transactions follow each other at once; never while waiting */
    STORE_KEEP_LOG    /* after it, for a store_checkpoint that does not cut: the log goes on */
};
void store_keep(struct store *s, enum store_keep keep);

/* Pages in the WAL after the last commit. */
int64_t store_wal_pages(const struct store *s);
/* Move WAL pages into the file: passive, or (truncate) also shrink the WAL to nothing, which waits
 * for readers at most busy_ms. Only ever on this, the write connection. */
enum otl_err store_checkpoint(struct store *s, bool truncate, int64_t busy_ms,
                              struct otl_error *err) OTL_MUSTCHECK;
int64_t store_series_count(const struct store *s);

/* Bytes of the file's pages that are in use: what is free is used again before the file grows. Outside
 * of a transaction. */
enum otl_err store_used_bytes(struct store *s, int64_t *out, struct otl_error *err) OTL_MUSTCHECK;
/* From here on the file does not grow beyond so many bytes: what would make it fails with OTL_EFULL. A
 * file that is larger already does not grow at all; say it again when it has shrunk. */
enum otl_err store_limit_file(struct store *s, int64_t max_bytes,
                              struct otl_error *err) OTL_MUSTCHECK;

#endif
