/* limits_store.c -- the stages of the writer, on one thread: catalogue look-ups, SQLite's own work,
 * and all of store_batch. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon.h"
#include "limits.h"
#include "otlite/db.h"
#include "store/batch_source.h"
#include "store/catalogue.h"
#include "store/wal_vfs.h"

enum { BUSY_MS = 5000 };

/* The daemon's defaults (include/otlite/config.h). */
static struct store_opts store_opts_for(const char *data_dir, enum durability durability)
{
    return (struct store_opts){
        .data_dir = data_dir,
        .durability = durability,
        .cache_bytes = 512 << 20,
        .mmap_bytes = 1 << 30,
        .busy_timeout_ms = BUSY_MS,
        .checkpoint_pages = 1000,
    };
}

static unsigned points_of(const struct limits_opts *o, const struct stage_opts *s)
{
    return s->points > 0 ? s->points : o->points;
}

/* A scratch directory with a telemetry.db that has tables and no rows, opened as the store's write
 * connection is. */
struct bare {
    char dir[256];
    struct db db;
};

static void bare_close(struct bare *b)
{
    db_close(&b->db);
    if (b->dir[0] != '\0')
        scratch_remove(b->dir);
}

static enum otl_err bare_open(struct bare *b, enum durability durability, struct otl_error *err)
{
    struct store_opts opts = store_opts_for(b->dir, durability);
    struct store *store = NULL;
    struct buf dsn = {0};
    enum otl_err rc;

    memset(b, 0, sizeof(*b));
    rc = scratch_make(b->dir, sizeof(b->dir), err);
    if (rc != OTL_OK) {
        b->dir[0] = '\0';
        return rc;
    }
    rc = store_new(&opts, &store, err); /* makes the tables */
    store_free(store);
    if (rc == OTL_OK) {
        store_dsn(&dsn, &opts);
        if (wal_vfs_name() != NULL)
            buf_printf(&dsn, "&vfs=%s", wal_vfs_name());
        if (dsn.failed)
            rc = otl_fail(err, OTL_ENOMEM, "no memory");
        else
            rc = db_open(&b->db, buf_cstr(&dsn), DB_READ_WRITE, err);
    }
    buf_fini(&dsn);
    return rc;
}

/* --- the catalogue --- */

struct lookups {
    struct bare bare;
    struct catalogue catalogue;
    struct limits_batches requests;
    bool numbered;
};

/* Every series of b is to be looked up by its attributes, as when it was decoded. */
static void forget_numbers(struct batch *b)
{
    for (uint32_t i = 0; i < b->n_series; i++)
        b->series[i].number = 0;
}

static enum otl_err resolve_all(void *arg, uint64_t *points, struct otl_error *err)
{
    struct lookups *l = arg;

    for (unsigned i = 0; i < l->requests.n; i++) {
        struct batch *b = &l->requests.batches[i];
        enum otl_err rc;

        if (!l->numbered)
            forget_numbers(b);
        catalogue_begin(&l->catalogue);
        rc = catalogue_resolve(&l->catalogue, LIMITS_PROJECT, b, err);
        if (rc != OTL_OK) {
            catalogue_rollback(&l->catalogue);
            return rc;
        }
        catalogue_commit(&l->catalogue);
        *points += b->n_numbers;
    }
    return OTL_OK;
}

/* Nothing is inserted by the passes that are measured: all series are known by then. */
static enum otl_err insert_series(struct lookups *l, struct otl_error *err)
{
    uint64_t points = 0;
    enum otl_err rc = db_exec(&l->bare.db, "BEGIN IMMEDIATE", err);

    if (rc == OTL_OK)
        rc = resolve_all(l, &points, err);
    if (rc == OTL_OK)
        rc = db_exec(&l->bare.db, "COMMIT", err);
    return rc;
}

enum otl_err stage_catalogue(const struct limits_opts *o, const struct stage_opts *s,
                             struct measure *out, struct otl_error *err)
{
    struct lookups l = {.numbered = s->numbered};
    bool open = false;
    enum otl_err rc = bare_open(&l.bare, DURABILITY_NORMAL, err);

    if (rc == OTL_OK) {
        rc = catalogue_open(&l.catalogue, &l.bare.db, err);
        open = true;
    }
    if (rc == OTL_OK)
        rc = limits_batches_init(&l.requests, points_of(o, s), err);
    if (rc == OTL_OK)
        rc = insert_series(&l, err);
    if (rc == OTL_OK)
        rc = limits_repeat(o, resolve_all, &l, out, err);
    if (open)
        catalogue_close(&l.catalogue);
    limits_batches_fini(&l.requests);
    bare_close(&l.bare);
    return rc;
}

/* --- SQLite's own work: rows in, COMMIT, checkpoints --- */

struct append {
    struct bare bare;
    struct batch_source source;
    struct sqlite3_stmt *begin, *insert, *insert_at_once, *commit;
    struct limits_batches requests;
    struct dedup_key *keys; /* of the request under way */
    int checkpoint_pages;
    int wal_pages, checkpointed_pages;
};

static int on_wal(void *arg, sqlite3 *sql, const char *name, int pages)
{
    struct append *a = arg;

    (void)sql;
    (void)name;
    a->wal_pages = pages;
    return SQLITE_OK;
}

/* The statements of store_points.c. */
static enum otl_err prepare(struct append *a, struct otl_error *err)
{
    const struct {
        const char *sql;
        struct sqlite3_stmt **st;
    } list[] = {
        {"BEGIN IMMEDIATE", &a->begin},
        {"COMMIT", &a->commit},
        {"INSERT OR ROLLBACK INTO number_head_0(series_id, time, start_time, flags, value)"
         " SELECT series_id, time, start_time, flags, value FROM batch_source",
         &a->insert},
        {"INSERT OR ROLLBACK INTO number_head_0(series_id, time, start_time, flags, value)"
         " SELECT series_id, ?, ?, ?, value FROM batch_source",
         &a->insert_at_once},
    };
    enum otl_err rc = batch_source_register(&a->bare.db, &a->source, err);

    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]) && rc == OTL_OK; i++)
        rc = db_prepare(&a->bare.db, list[i].sql, list[i].st, err);
    (void)sqlite3_wal_hook(a->bare.db.sql, on_wal, a);
    return rc;
}

/* As the writer does, after the commit that made it due. */
static enum otl_err checkpoint_if_due(struct append *a, struct otl_error *err)
{
    int rc;

    if (a->wal_pages < a->checkpointed_pages)
        a->checkpointed_pages = 0;
    if (a->wal_pages - a->checkpointed_pages < a->checkpoint_pages)
        return OTL_OK;
    a->checkpointed_pages = a->wal_pages;
    rc = sqlite3_wal_checkpoint_v2(a->bare.db.sql, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    return rc == SQLITE_OK ? OTL_OK : db_fail(&a->bare.db, rc, "checkpoint", err);
}

/* All points of a request have one time, unless a series occurs more than once in it. */
static struct sqlite3_stmt *bind_insert(struct append *a, const struct batch *b)
{
    const struct point *first = &b->numbers[0].p, *last = &b->numbers[b->n_numbers - 1].p;
    int bound;

    if (last->time != first->time)
        return a->insert;
    bound = sqlite3_bind_int64(a->insert_at_once, 1, first->time);
    bound |= sqlite3_bind_int64(a->insert_at_once, 2, first->start_time);
    bound |= sqlite3_bind_int64(a->insert_at_once, 3, first->flags);
    return bound == SQLITE_OK ? a->insert_at_once : a->insert;
}

static enum otl_err append_request(struct append *a, const struct template *t, struct batch *b,
                                   struct otl_error *err)
{
    enum otl_err rc;

    limits_advance(b);
    for (uint32_t i = 0; i < b->n_numbers; i++)
        a->keys[i] = (struct dedup_key){t->fields[i].series + 1, b->numbers[i].p.time,
                                        b->numbers[i].p.start_time};
    a->source = (struct batch_source){{0, b->n_numbers}, a->keys, b->numbers, NULL};
    rc = db_run(&a->bare.db, a->begin, "begin", err);
    if (rc == OTL_OK)
        rc = db_run(&a->bare.db, bind_insert(a, b), "insert", err);
    if (rc == OTL_OK)
        rc = db_run(&a->bare.db, a->commit, "commit", err);
    return rc == OTL_OK ? checkpoint_if_due(a, err) : rc;
}

static enum otl_err append_all(void *arg, uint64_t *points, struct otl_error *err)
{
    struct append *a = arg;

    for (unsigned i = 0; i < a->requests.n; i++) {
        struct batch *b = &a->requests.batches[i];
        enum otl_err rc = append_request(a, &a->requests.requests.templates[i], b, err);

        if (rc != OTL_OK)
            return rc;
        *points += b->n_numbers;
    }
    return OTL_OK;
}

enum otl_err stage_append(const struct limits_opts *o, const struct stage_opts *s,
                          struct measure *out, struct otl_error *err)
{
    struct append a = {.checkpoint_pages = (int)store_opts_for("", s->durability).checkpoint_pages};
    enum otl_err rc = bare_open(&a.bare, s->durability, err);

    if (rc == OTL_OK)
        rc = limits_batches_init(&a.requests, points_of(o, s), err);
    if (rc == OTL_OK) {
        a.keys = calloc(points_of(o, s), sizeof(*a.keys));
        if (a.keys == NULL)
            rc = otl_fail(err, OTL_ENOMEM, "no memory for the keys");
    }
    if (rc == OTL_OK)
        rc = prepare(&a, err);
    if (rc == OTL_OK)
        rc = limits_repeat(o, append_all, &a, out, err);
    (void)sqlite3_finalize(a.begin);
    (void)sqlite3_finalize(a.insert);
    (void)sqlite3_finalize(a.insert_at_once);
    (void)sqlite3_finalize(a.commit);
    free(a.keys);
    limits_batches_fini(&a.requests);
    bare_close(&a.bare);
    return rc;
}

/* --- the store --- */

struct storing {
    struct store *store;
    struct limits_batches requests;
    int64_t checkpoint_pages, checkpointed_pages;
    bool numbered;
};

static enum otl_err store_all(void *arg, uint64_t *points, struct otl_error *err)
{
    struct storing *st = arg;

    for (unsigned i = 0; i < st->requests.n; i++) {
        struct batch *b = &st->requests.batches[i];
        struct store_result result;
        int64_t pages;
        enum otl_err rc;

        limits_advance(b);
        if (!st->numbered)
            forget_numbers(b);
        rc = store_batch(st->store, LIMITS_PROJECT, b, BUSY_MS, &result, err);
        if (rc == OTL_OK && result.stored != b->n_numbers)
            rc = otl_fail(err, OTL_EINTERNAL, "%u new points were stored as %llu rows",
                          b->n_numbers, (unsigned long long)result.stored);
        if (rc != OTL_OK)
            return rc;
        *points += result.stored;
        pages = store_wal_pages(st->store);
        if (pages < st->checkpointed_pages)
            st->checkpointed_pages = 0;
        if (pages - st->checkpointed_pages >= st->checkpoint_pages) {
            st->checkpointed_pages = pages;
            rc = store_checkpoint(st->store, false, 0, err);
            if (rc != OTL_OK)
                return rc;
        }
    }
    return OTL_OK;
}

enum otl_err stage_store(const struct limits_opts *o, const struct stage_opts *s,
                         struct measure *out, struct otl_error *err)
{
    char dir[256];
    struct store_opts opts = store_opts_for(dir, s->durability);
    struct storing st = {.checkpoint_pages = opts.checkpoint_pages, .numbered = s->numbered};
    enum otl_err rc = scratch_make(dir, sizeof(dir), err);

    if (rc != OTL_OK)
        return rc;
    rc = store_new(&opts, &st.store, err);
    if (rc == OTL_OK)
        rc = limits_batches_init(&st.requests, points_of(o, s), err);
    if (rc == OTL_OK)
        rc = limits_repeat(o, store_all, &st, out, err);
    limits_batches_fini(&st.requests);
    store_free(st.store);
    scratch_remove(dir);
    return rc;
}
