/* state_internal.h -- the parts of one open state.db: state.c opens it and runs transactions,
 * tokens.c owns the tokens, seen.c the catalogue of what was seen.
 *
 * Locks, in the order in which they are taken: mu, then the file lock, then tokens_mu. */
#ifndef OTLITE_STATE_INTERNAL_H
#define OTLITE_STATE_INTERNAL_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "otlite/clock.h"
#include "otlite/db.h"
#include "otlite/state.h"

enum {
    TOKEN_HASH = 32, /* SHA-256 */
    /* The longest wait for another process. A request may have waited for the writer 5 s before,
     * and its sender gives up after 10 s, so the sum must stay below that. */
    STATE_WAIT_MS = 3000
};

/* A token that is not revoked, as state_auth sees it. */
struct state_token {
    int64_t id, project_id, expires_ns; /* expires_ns 0: never */
    unsigned scopes;
    uint8_t hash[TOKEN_HASH];
};

/* One row of service or seen_metric as it stands in the file. Key: everything up to bytes, but
 * last_seen_ns and description_n. */
struct seen_entry {
    uint64_t hash;
    int64_t project_id, last_seen_ns;
    size_t service_n, name_n, unit_n;
    size_t description_n; /* bytes of the stored description */
    uint8_t type;         /* enum metric_type; 0: the row of a service, without name and unit */
    uint8_t temporality;
    bool is_monotonic;
    uint8_t bytes[]; /* service, name, unit */
};

/* Open addressing; at most three quarters full; cap is 0 or a power of two. */
struct seen_map {
    struct seen_entry **slots;
    size_t cap, n;
};

struct state {
    pthread_mutex_t mu; /* guards everything down to the next lock */
    struct db db;
    int lock_fd;          /* DIR/state.lock */
    int64_t wait_ms;      /* STATE_WAIT_MS; tests shorten it */
    int64_t data_version; /* of the last reload; -1 forces one */
    struct sqlite3_stmt *put_service, *put_metric, *get_data_version;
    struct seen_map seen;   /* only what is committed */
    bool lazy_notes;        /* see state_sync_notes */
    int64_t touch_after_ns; /* last_seen alone is not worth another try before this, monotonic */

    pthread_rwlock_t tokens_mu; /* guards tokens, n_tokens */
    struct state_token *tokens;
    size_t n_tokens;
};

/* --- state.c; all under mu --- */

/* BEGIN IMMEDIATE, waiting for other processes at most wait_ms in all. */
enum otl_err state_begin(struct state *st, int64_t wait_ms, struct otl_error *err) OTL_MUSTCHECK;
/* COMMIT when rc is OTL_OK, ROLLBACK otherwise or when the commit fails. Gives the first error. */
enum otl_err state_end(struct state *st, enum otl_err rc, struct otl_error *err) OTL_MUSTCHECK;

/* Find a project's id, *out 0 when there is none. */
enum otl_err state_project_find(struct state *st, const char *name, int64_t *out,
                                struct otl_error *err) OTL_MUSTCHECK;

/* Bind bytes as text or blob; the statement borrows them until it is reset. The first failure is
 * kept in *rc, so that a row of binds is checked once. */
void state_bind_text(struct sqlite3_stmt *s, int i, struct bytes text, int *rc);
void state_bind_int(struct sqlite3_stmt *s, int i, int64_t v, int *rc);

/* --- tokens.c, seen.c; under mu --- */

enum otl_err tokens_load(struct state *st, struct otl_error *err) OTL_MUSTCHECK;
enum otl_err seen_load(struct state *st, struct otl_error *err) OTL_MUSTCHECK;
void seen_fini(struct seen_map *m);

#endif
