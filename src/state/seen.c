/* seen.c -- the catalogue of services and metrics.
 *
 * The map in memory holds what the file holds, never more: entries are put in after the commit. So
 * in the steady state a batch costs one lookup a metric and no file is touched; and a map that
 * lacks an entry (no memory for it, a row from elsewhere) only costs an upsert that changes little.
 */
#include "state/state_internal.h"

#include <stdlib.h>
#include <string.h>

enum { MIN_SLOTS = 64 };

/* How far behind last_seen may be. */
#define TOUCH_NS (60 * NS_PER_S)
/* After last_seen could not be written. */
#define TOUCH_RETRY_NS NS_PER_S

/* What an entry is looked up by and made from; borrows its bytes. */
struct seen_key {
    int64_t project_id;
    struct bytes service, name, unit, description;
    uint8_t type; /* 0: a service */
    uint8_t temporality;
    bool is_monotonic;
};

static const char *const temporality_names[] = {"none", "delta", "cumulative"};

/* --- the map --- */

/* Without the unit: names that only differ there are rare, and each metric of each request is
 * looked up. */
static uint64_t key_hash(const struct seen_key *k)
{
    uint64_t seed = (uint64_t)k->project_id << 8 | (uint64_t)(k->type << 3 | k->temporality << 1) |
                    (uint64_t)k->is_monotonic;

    return bytes_hash(k->name, bytes_hash(k->service, seed));
}

static bool entry_matches(const struct seen_entry *e, uint64_t hash, const struct seen_key *k)
{
    const uint8_t *service = e->bytes, *name = service + e->service_n, *unit = name + e->name_n;

    return e->hash == hash && e->project_id == k->project_id && e->type == k->type &&
           e->temporality == k->temporality && e->is_monotonic == k->is_monotonic &&
           bytes_equal(bytes_of(service, e->service_n), k->service) &&
           bytes_equal(bytes_of(name, e->name_n), k->name) &&
           bytes_equal(bytes_of(unit, e->unit_n), k->unit);
}

static struct seen_entry *map_find(const struct seen_map *m, uint64_t hash,
                                   const struct seen_key *k)
{
    if (m->cap == 0)
        return NULL;
    for (size_t i = hash & (m->cap - 1); m->slots[i] != NULL; i = (i + 1) & (m->cap - 1)) {
        if (entry_matches(m->slots[i], hash, k))
            return m->slots[i];
    }
    return NULL;
}

static void slot_put(struct seen_entry **slots, size_t cap, struct seen_entry *e)
{
    size_t i = e->hash & (cap - 1);

    while (slots[i] != NULL)
        i = (i + 1) & (cap - 1);
    slots[i] = e;
}

/* Room for one more; false when out of memory. */
static bool map_grow(struct seen_map *m)
{
    size_t cap = m->cap == 0 ? MIN_SLOTS : m->cap * 2;
    struct seen_entry **slots;

    if (m->n + 1 <= m->cap / 4 * 3)
        return true;
    if (cap < m->cap)
        return false;
    slots = calloc(cap, sizeof(*slots));
    if (slots == NULL)
        return false;
    for (size_t i = 0; i < m->cap; i++) {
        if (m->slots[i] != NULL)
            slot_put(slots, cap, m->slots[i]);
    }
    free(m->slots);
    m->slots = slots;
    m->cap = cap;
    return true;
}

static size_t bytes_put(uint8_t *out, struct bytes s)
{
    if (s.n > 0)
        memcpy(out, s.p, s.n);
    return s.n;
}

/* Put in or bring up to date what is committed now. False when out of memory; then it is missing,
 * which is allowed. */
static bool map_put(struct seen_map *m, const struct seen_key *k, int64_t last_seen_ns)
{
    uint64_t hash = key_hash(k);
    struct seen_entry *e = map_find(m, hash, k);
    size_t n;

    if (e != NULL) {
        if (last_seen_ns > e->last_seen_ns)
            e->last_seen_ns = last_seen_ns;
        if (k->description.n > e->description_n)
            e->description_n = k->description.n;
        return true;
    }
    /* All three lie in one request or one row, so the sum is far from SIZE_MAX. */
    n = k->service.n + k->name.n + k->unit.n;
    if (!map_grow(m))
        return false;
    e = malloc(sizeof(*e) + n);
    if (e == NULL)
        return false;
    *e = (struct seen_entry){.hash = hash,
                             .project_id = k->project_id,
                             .last_seen_ns = last_seen_ns,
                             .service_n = k->service.n,
                             .name_n = k->name.n,
                             .unit_n = k->unit.n,
                             .description_n = k->description.n,
                             .type = k->type,
                             .temporality = k->temporality,
                             .is_monotonic = k->is_monotonic};
    n = bytes_put(e->bytes, k->service);
    n += bytes_put(e->bytes + n, k->name);
    (void)bytes_put(e->bytes + n, k->unit);
    slot_put(m->slots, m->cap, e);
    m->n++;
    return true;
}

void seen_fini(struct seen_map *m)
{
    for (size_t i = 0; i < m->cap; i++)
        free(m->slots[i]);
    free(m->slots);
    *m = (struct seen_map){0};
}

/* --- reading the file --- */

static struct bytes column_bytes(struct sqlite3_stmt *s, int i)
{
    const void *p = sqlite3_column_blob(s, i);
    int n = sqlite3_column_bytes(s, i);

    return p == NULL || n <= 0 ? bytes_of("", 0) : bytes_of(p, (size_t)n);
}

/* The index of a word in words, or -1. */
static int word_index(struct bytes word, const char *const *words, int n)
{
    for (int i = 0; i < n; i++) {
        if (bytes_equal(word, bytes_str(words[i])))
            return i;
    }
    return -1;
}

static int type_index(struct bytes word)
{
    for (int t = METRIC_GAUGE; t <= METRIC_SUMMARY; t++) {
        if (bytes_equal(word, bytes_str(metric_type_name((enum metric_type)t))))
            return t;
    }
    return -1;
}

/* One row of SQL_SEEN. A row with a word we do not know is none of ours and stays out of the map.
 */
static bool row_put(struct seen_map *m, struct sqlite3_stmt *s)
{
    struct bytes type = column_bytes(s, 3);
    int t = type.n == 0 ? 0 : type_index(type);
    int temporality = word_index(column_bytes(s, 5), temporality_names, 3);
    struct seen_key k;

    if (t < 0 || temporality < 0)
        return true;
    k = (struct seen_key){.project_id = sqlite3_column_int64(s, 0),
                          .service = column_bytes(s, 1),
                          .name = column_bytes(s, 2),
                          .unit = column_bytes(s, 4),
                          .description = column_bytes(s, 7),
                          .type = (uint8_t)t,
                          .temporality = (uint8_t)temporality,
                          .is_monotonic = sqlite3_column_int(s, 6) != 0};
    return map_put(m, &k, sqlite3_column_int64(s, 8));
}

static const char SQL_SEEN[] =
    "SELECT project_id, service_name, name, type, unit, temporality, is_monotonic, description,"
    " last_seen FROM seen_metric"
    " UNION ALL SELECT project_id, name, '', '', '', 'none', 0, '', last_seen FROM service";

enum otl_err seen_load(struct state *st, struct otl_error *err)
{
    struct seen_map m = {0};
    struct sqlite3_stmt *s;
    enum otl_err rc = db_prepare(&st->db, SQL_SEEN, &s, err);
    int step = SQLITE_DONE;

    if (rc != OTL_OK)
        return rc;
    while (rc == OTL_OK && (step = sqlite3_step(s)) == SQLITE_ROW) {
        if (!row_put(&m, s))
            rc = otl_fail(err, OTL_ENOMEM, "out of memory while reading what was seen");
    }
    if (rc == OTL_OK && step != SQLITE_DONE)
        rc = db_fail(&st->db, step, "read what was seen", err);
    (void)sqlite3_finalize(s);
    if (rc != OTL_OK) {
        seen_fini(&m);
        return rc;
    }
    seen_fini(&st->seen);
    st->seen = m;
    return OTL_OK;
}

/* --- a batch --- */

static struct seen_key service_key(int64_t project_id, const struct batch *b, uint32_t i)
{
    return (struct seen_key){.project_id = project_id, .service = b->resources[i].service_name};
}

static struct seen_key metric_key(int64_t project_id, const struct batch *b, uint32_t i)
{
    const struct batch_metric *m = &b->metrics[i];
    const struct batch_resource *r = &b->resources[b->scopes[m->scope].resource];

    return (struct seen_key){.project_id = project_id,
                             .service = r->service_name,
                             .name = m->name,
                             .unit = m->unit,
                             .description = m->description,
                             .type = (uint8_t)m->type,
                             .temporality = (uint8_t)m->temporality,
                             .is_monotonic = m->is_monotonic};
}

enum staleness { FRESH, TOUCH, CHANGED };

/* What has to be written for k: nothing, only last_seen, or something that must not be missing. */
static enum staleness key_staleness(const struct seen_map *m, const struct seen_key *k, int64_t now)
{
    const struct seen_entry *e = map_find(m, key_hash(k), k);

    if (e == NULL || k->description.n > e->description_n)
        return CHANGED;
    return now - e->last_seen_ns >= TOUCH_NS ? TOUCH : FRESH;
}

static enum staleness batch_staleness(const struct seen_map *m, int64_t project_id,
                                      const struct batch *b, int64_t now)
{
    enum staleness worst = FRESH;

    for (uint32_t i = 0; i < b->n_resources && worst != CHANGED; i++) {
        struct seen_key k = service_key(project_id, b, i);
        enum staleness s = key_staleness(m, &k, now);

        worst = s > worst ? s : worst;
    }
    for (uint32_t i = 0; i < b->n_metrics && worst != CHANGED; i++) {
        struct seen_key k = metric_key(project_id, b, i);
        enum staleness s = key_staleness(m, &k, now);

        worst = s > worst ? s : worst;
    }
    return worst;
}

static enum otl_err key_store(struct state *st, const struct seen_key *k, int64_t now,
                              struct otl_error *err)
{
    struct sqlite3_stmt *s = k->type == 0 ? st->put_service : st->put_metric;
    int bound = SQLITE_OK;

    state_bind_int(s, 1, k->project_id, &bound);
    state_bind_text(s, 2, k->service, &bound);
    if (k->type == 0) {
        state_bind_int(s, 3, now, &bound);
    } else {
        const char *type = metric_type_name((enum metric_type)k->type);

        state_bind_text(s, 3, k->name, &bound);
        state_bind_text(s, 4, bytes_str(type), &bound);
        state_bind_text(s, 5, k->unit, &bound);
        state_bind_text(s, 6, bytes_str(temporality_names[k->temporality]), &bound);
        state_bind_int(s, 7, k->is_monotonic, &bound);
        state_bind_text(s, 8, k->description, &bound);
        state_bind_int(s, 9, now, &bound);
    }
    if (bound != SQLITE_OK) {
        enum otl_err rc = db_fail(&st->db, bound, "note what was seen", err);

        (void)sqlite3_clear_bindings(s);
        return rc;
    }
    return db_run(&st->db, s, "note what was seen", err);
}

/* Everything of the batch that is not fresh, in one transaction. */
static enum otl_err write_notes(struct state *st, int64_t project_id, const struct batch *b,
                                int64_t now, int64_t wait_ms, struct otl_error *err)
{
    enum otl_err rc = state_begin(st, wait_ms, err);

    if (rc != OTL_OK)
        return rc;
    for (uint32_t i = 0; rc == OTL_OK && i < b->n_resources; i++) {
        struct seen_key k = service_key(project_id, b, i);

        if (key_staleness(&st->seen, &k, now) != FRESH)
            rc = key_store(st, &k, now, err);
    }
    for (uint32_t i = 0; rc == OTL_OK && i < b->n_metrics; i++) {
        struct seen_key k = metric_key(project_id, b, i);

        if (key_staleness(&st->seen, &k, now) != FRESH)
            rc = key_store(st, &k, now, err);
    }
    return state_end(st, rc, err);
}

/* The setting is the connection's, and all but notes are to be synced: it is put back at once. */
static enum otl_err batch_store(struct state *st, int64_t project_id, const struct batch *b,
                                int64_t now, int64_t wait_ms, struct otl_error *err)
{
    struct otl_error later;
    enum otl_err rc = OTL_OK;

    if (st->lazy_notes)
        rc = db_exec(&st->db, "PRAGMA synchronous = NORMAL", err);
    if (rc == OTL_OK)
        rc = write_notes(st, project_id, b, now, wait_ms, err);
    if (st->lazy_notes && db_exec(&st->db, "PRAGMA synchronous = FULL", &later) != OTL_OK)
        rc = rc != OTL_OK ? rc : otl_fail(err, later.code, "%s", later.msg);
    return rc;
}

void state_sync_notes(struct state *st, bool sync)
{
    pthread_mutex_lock(&st->mu);
    st->lazy_notes = !sync;
    pthread_mutex_unlock(&st->mu);
}

/* After the commit: the same walk once more, now into the map. */
static void batch_remember(struct state *st, int64_t project_id, const struct batch *b, int64_t now)
{
    for (uint32_t i = 0; i < b->n_resources; i++) {
        struct seen_key k = service_key(project_id, b, i);

        if (key_staleness(&st->seen, &k, now) != FRESH)
            (void)map_put(&st->seen, &k, now); /* what has no room is written again next time */
    }
    for (uint32_t i = 0; i < b->n_metrics; i++) {
        struct seen_key k = metric_key(project_id, b, i);

        if (key_staleness(&st->seen, &k, now) != FRESH)
            (void)map_put(&st->seen, &k, now);
    }
}

static enum otl_err note(struct state *st, int64_t project_id, const struct batch *b,
                         struct otl_error *err)
{
    int64_t now = clock_wall_ns();
    enum staleness s = batch_staleness(&st->seen, project_id, b, now);
    struct otl_error mine = {0};
    enum otl_err rc;

    if (s == FRESH || (s == TOUCH && clock_mono_ns() < st->touch_after_ns))
        return OTL_OK;
    /* Points must not wait, and still less fail, for a last_seen that another process's lock keeps
     * from being written; it is written with a later batch. */
    rc = batch_store(st, project_id, b, now, s == TOUCH ? 0 : st->wait_ms, &mine);
    if (rc == OTL_OK) {
        batch_remember(st, project_id, b, now);
        return OTL_OK;
    }
    if (s == TOUCH && rc == OTL_ELOCKED) {
        st->touch_after_ns = clock_mono_ns() + TOUCH_RETRY_NS;
        return OTL_OK;
    }
    if (err != NULL)
        *err = mine;
    return rc;
}

enum otl_err state_note_batch(void *state, int64_t project_id, const struct batch *b,
                              struct otl_error *err)
{
    struct state *st = state;
    enum otl_err rc;

    pthread_mutex_lock(&st->mu);
    rc = note(st, project_id, b, err);
    pthread_mutex_unlock(&st->mu);
    return rc;
}
