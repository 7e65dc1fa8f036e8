/* read.c -- what readers of a process share, a connection's session, and the life of one query: its
 * snapshot, its deadline, its budget, its end. */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdlib.h>

#include "otlite/clock.h"
#include "read_helper.h"
#include "read_internal.h"

/* Steps of SQLite's machine between two looks at deadline and cancellation: some tens of
 * microseconds. */
enum {
    PROGRESS_STEPS = 4000,
    ROUND_BYTES = 64 << 20,
    AHEAD_SERIES = 8,
    AHEAD_BYTES = 64 << 10
};

/* ---- shared ---- */

enum otl_err read_shared_new(struct head_mirror *mirror, size_t cache_bytes,
                             struct read_shared **out, struct otl_error *err)
{
    struct read_shared *s = calloc(1, sizeof(*s));
    enum otl_err rc = OTL_OK;

    if (s == NULL)
        return otl_fail(err, OTL_ENOMEM, "readers: no memory");
    s->mirror = mirror;
    s->round_bytes = ROUND_BYTES;
    s->ahead_series = AHEAD_SERIES;
    s->ahead_bytes = AHEAD_BYTES;
    s->parts = part_cache_new(cache_bytes);
    if (s->parts == NULL)
        rc = otl_fail(err, OTL_ENOMEM, "readers: no memory");
    if (rc == OTL_OK)
        rc = label_index_new(&s->labels, err);
    if (rc == OTL_OK)
        rc = read_helper_new(&s->helper, err);
    if (rc != OTL_OK) {
        read_shared_free(s);
        return rc;
    }
    *out = s;
    return OTL_OK;
}

void read_shared_free(struct read_shared *s)
{
    if (s == NULL)
        return;
    read_helper_free(s->helper);
    label_index_free(s->labels);
    part_cache_free(s->parts);
    free(s);
}

/* ---- session ---- */

enum otl_err read_session_open(struct read_shared *s, struct db *db, struct read_session **out,
                               struct otl_error *err)
{
    struct read_session *session = calloc(1, sizeof(*session));
    enum otl_err rc;

    if (session == NULL)
        return otl_fail(err, OTL_ENOMEM, "read: no memory");
    session->shared = s;
    session->db = db;
    rc = head_reader_open(db, s->mirror, &session->head, err);
    if (rc == OTL_OK && s->mirror == NULL)
        rc = head_reader_keep(session->head, err);
    if (rc == OTL_OK)
        rc = part_reader_open(db, s->parts, &session->parts, err);
    if (rc != OTL_OK) {
        read_session_close(session);
        return rc;
    }
    *out = session;
    return OTL_OK;
}

void read_session_close(struct read_session *s)
{
    if (s == NULL)
        return;
    for (int i = 0; i < READ_ROWS; i++)
        (void)sqlite3_finalize(s->rows[i]);
    if (s->parts != NULL)
        part_reader_close(s->parts);
    if (s->head != NULL)
        head_reader_close(s->head);
    free(s);
}

/* ---- one query ---- */

enum otl_err read_check(struct read *r, struct otl_error *err)
{
    if (r->limits.cancel != NULL && atomic_load_explicit(r->limits.cancel, memory_order_relaxed))
        return otl_fail(err, OTL_ECANCELLED, "the query was cancelled: its client went away");
    if (r->limits.deadline_ns != 0 && clock_mono_ns() > r->limits.deadline_ns)
        return otl_fail(err, OTL_ELATE,
                        "the query took longer than it may; ask for a shorter range or fewer "
                        "series, or raise query.timeout");
    return OTL_OK;
}

/* SQLite ends the statement with SQLITE_INTERRUPT when this is not 0. */
static int on_progress(void *arg)
{
    return read_check(arg, NULL) != OTL_OK;
}

enum otl_err read_begin(struct read_session *s, const struct read_limits *limits, bool begin,
                        struct read **out, struct otl_error *err)
{
    struct read *r = calloc(1, sizeof(*r));
    enum otl_err rc = OTL_OK;

    if (r == NULL)
        return otl_fail(err, OTL_ENOMEM, "read: no memory");
    r->session = s;
    if (limits != NULL)
        r->limits = *limits;
    rc = read_check(r, err);
    if (rc == OTL_OK && begin) {
        rc = db_exec(s->db, "BEGIN", err);
        r->began = rc == OTL_OK;
    }
    /* A connection has one handler. Who has the transaction sets it; a read inside another's
     * statement must leave it alone. */
    if (r->began && (r->limits.deadline_ns != 0 || r->limits.cancel != NULL))
        sqlite3_progress_handler(s->db->sql, PROGRESS_STEPS, on_progress, r);
    /* The first look at the file fixes the snapshot of a transaction that has just begun. */
    if (rc == OTL_OK)
        rc = part_reader_refresh(s->parts, err);
    if (rc != OTL_OK) {
        read_end(r);
        return rc;
    }
    *out = r;
    return OTL_OK;
}

void read_end(struct read *r)
{
    if (r == NULL)
        return;
    for (int kind = 0; kind < HEAD_KINDS; kind++) {
        if (r->has_view[kind])
            head_view_close(&r->views[kind]);
    }
    label_view_free(r->labels);
    if (r->began) {
        struct db *db = r->session->db;

        sqlite3_progress_handler(db->sql, 0, NULL, NULL);
        /* Nothing was written, so how the transaction ends decides nothing. */
        if (!sqlite3_get_autocommit(db->sql))
            (void)sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL);
    }
    free(r);
}

static void give_back(struct read *r, size_t n)
{
    size_t used = atomic_load_explicit(&r->used_bytes, memory_order_relaxed);

    while (!atomic_compare_exchange_weak_explicit(&r->used_bytes, &used, n < used ? used - n : 0,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

enum otl_err read_charge(struct read *r, int64_t n, struct otl_error *err)
{
    size_t before;

    if (n <= 0) {
        give_back(r, n == INT64_MIN ? SIZE_MAX : (size_t)-n);
        return OTL_OK;
    }
    before = atomic_fetch_add_explicit(&r->used_bytes, (size_t)n, memory_order_relaxed);
    if (r->limits.max_bytes == 0 ||
        (before <= r->limits.max_bytes && (size_t)n <= r->limits.max_bytes - before))
        return OTL_OK;
    give_back(r, (size_t)n);
    return otl_fail(err, OTL_ETOOBIG,
                    "the query needs more than the %zu bytes of memory that it may use; ask for "
                    "a shorter range, fewer series or longer steps, or raise query.max_memory",
                    r->limits.max_bytes);
}

/* ---- what a query opens on the way ---- */

static enum otl_err check_labels(void *arg, struct otl_error *err)
{
    return read_check(arg, err);
}

struct label_check read_label_check(struct read *r)
{
    return (struct label_check){check_labels, r};
}

enum otl_err read_labels(struct read *r, struct label_view **out, struct otl_error *err)
{
    if (r->labels == NULL) {
        struct label_check check = read_label_check(r);
        struct read_session *s = r->session;
        enum otl_err rc = label_index_view(s->shared->labels, s->db, &check, &r->labels, err);

        if (rc != OTL_OK)
            return rc;
    }
    *out = r->labels;
    return OTL_OK;
}

enum otl_err read_head_view(struct read *r, enum series_kind kind, const struct head_view **out,
                            struct otl_error *err)
{
    *out = NULL;
    if ((int)kind >= HEAD_KINDS)
        return OTL_OK;
    if (!r->has_view[kind]) {
        enum otl_err rc = head_view_open(r->session->head, kind, &r->views[kind], err);

        if (rc != OTL_OK)
            return rc;
        r->has_view[kind] = true;
    }
    *out = &r->views[kind];
    return OTL_OK;
}
