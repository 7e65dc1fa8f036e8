/* label_index.c -- the index of labels: taking in the catalogue, views and generations of it. What
 * it holds: label_generation.h; the selecting: label_select.c; the values: label_values.c. */
#include "label_index.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <time.h>

#include "otlite/clock.h"

#include "label_generation.h"

/* Rows taken in while readers wait: a few milliseconds. */
enum { SLICE = 2048 };
/* How often whoever waits for another thread's refresh looks at its own deadline. */
enum { WAIT_MS = 20 };
/* How often deleted series are counted, which steps through an index of the table. */
#define RECOUNT_NS (300 * NS_PER_S)
/* Fewer than these are not worth an index made anew. */
enum { DELETED_MIN = 1024 };

struct label_index {
    pthread_mutex_t mu;
    pthread_cond_t refreshed;
    /* All guarded by mu. Who sets refreshing is the only one to append until it clears it. */
    bool refreshing;
    struct label_generation *g;
    int64_t last_series; /* of g */
    int64_t count_at_ns; /* when deleted series are to be counted next */
};

enum otl_err index_no_memory(struct otl_error *err)
{
    return otl_fail(err, OTL_ENOMEM, "No memory for the index of labels.");
}

/* ---- ids and numbers ---- */

static int64_t id_at(const void *elements, size_t size, uint32_t i)
{
    int64_t id;

    memcpy(&id, (const uint8_t *)elements + size * i, sizeof(id));
    return id;
}

uint32_t index_count_up_to(const void *elements, size_t size, uint32_t n, int64_t id)
{
    uint32_t low = 0, high = n;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (id_at(elements, size, mid) <= id)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

uint32_t index_find(const void *elements, size_t size, uint32_t n, int64_t id)
{
    uint32_t i;

    /* Ids without gaps from 1 on, as they are while nothing was deleted. */
    if (id > 0 && id <= n && id_at(elements, size, (uint32_t)id - 1) == id)
        return (uint32_t)id - 1;
    i = index_count_up_to(elements, size, n, id);
    return i > 0 && id_at(elements, size, i - 1) == id ? i - 1 : LABEL_NONE;
}

uint32_t postings_below(const struct postings *p, uint32_t limit)
{
    const uint32_t *ids = postings_ids(p);
    uint32_t low = 0, high = p->n;

    if (high == 0 || ids[high - 1] < limit)
        return high;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (ids[mid] < limit)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

bool index_value_text(const struct attr_value *v, struct buf *scratch, struct bytes *out)
{
    if (v->kind == ATTR_STRING) {
        *out = v->s;
        return true;
    }
    buf_reset(scratch);
    attr_value_to_text(v, scratch);
    *out = buf_bytes(scratch);
    return !scratch->failed;
}

/* ---- generations ---- */

static enum otl_err generation_new(struct label_generation **out, struct otl_error *err)
{
    struct label_generation *g = calloc(1, sizeof(*g));
    pthread_rwlockattr_t attr;
    bool ok;

    if (g == NULL)
        return index_no_memory(err);
    /* Readers that come without end must not keep a refresh waiting, and with it its readers. */
    ok = pthread_rwlockattr_init(&attr) == 0;
    if (ok) {
        ok = pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP) ==
                 0 &&
             pthread_rwlock_init(&g->lock, &attr) == 0;
        pthread_rwlockattr_destroy(&attr);
    }
    if (!ok) {
        free(g);
        return otl_fail(err, OTL_ESYSTEM, "The lock of the index of labels could not be made.");
    }
    g->memory.seed = (uint64_t)clock_mono_ns() ^ (uint64_t)(uintptr_t)g;
    *out = g;
    return OTL_OK;
}

static void generation_free(struct label_generation *g)
{
    if (g == NULL)
        return;
    for (uint32_t i = 0; i < g->n_resources; i++)
        postings_fini(&g->resources[i].metrics);
    for (uint32_t i = 0; i < g->n_metrics; i++)
        free(g->metrics[i].runs);
    free(g->resources);
    free(g->scopes);
    free(g->metrics);
    free(g->series);
    free(g->sets);
    label_fini(&g->name);
    label_fini(&g->type);
    label_fini(&g->unit);
    label_fini(&g->scope);
    label_fini(&g->service);
    label_set_fini(&g->resource_labels);
    label_set_fini(&g->point_labels);
    buf_fini(&g->text);
    label_memory_fini(&g->memory);
    pthread_rwlock_destroy(&g->lock);
    free(g);
}

/* ---- appending one row; the lock is held for writing ---- */

static enum otl_err no_parent(const char *child, int64_t id, const char *parent, int64_t parent_id,
                              struct otl_error *err)
{
    return otl_fail(err, OTL_ECORRUPT,
                    "The catalogue is damaged: %s %" PRId64 " belongs to %s %" PRId64
                    ", which is not there. \"otlite check\" tells more.",
                    child, id, parent, parent_id);
}

static struct bytes column(sqlite3_stmt *st, int i)
{
    const void *p = sqlite3_column_blob(st, i);

    return p == NULL ? bytes_of("", 0) : bytes_of(p, (size_t)sqlite3_column_bytes(st, i));
}

/* The labels of canonical attributes, which lie in a block. hints: n of them, one an attribute. */
static bool add_attributes(struct label_generation *g, struct label_set *labels,
                           struct bytes canonical, uint32_t number, uint32_t *hints, size_t n)
{
    struct attr_iter it;
    struct attr_value v;
    struct bytes key, text;
    size_t at = 0;

    attrs_begin(&it, canonical);
    while (attrs_next(&it, &key, &v)) {
        uint32_t none = LABEL_NONE;
        struct label *l = label_set_get(labels, &g->memory, key, true, at < n ? &hints[at] : &none);

        at++;
        if (l == NULL || !index_value_text(&v, &g->text, &text) ||
            label_add(l, &g->memory, text, v.kind == ATTR_STRING, number) == LABEL_NONE)
            return false;
    }
    return true;
}

static enum otl_err add_resource(struct label_generation *g, sqlite3_stmt *st,
                                 struct otl_error *err)
{
    struct index_resource r = {.id = sqlite3_column_int64(st, 0),
                               .project_id = sqlite3_column_int64(st, 1)};
    void *array = g->resources;

    if (!label_memory_grow(&g->memory, &array, sizeof(r), g->n_resources, &g->cap_resources))
        return index_no_memory(err);
    g->resources = array;
    if (!label_memory_keep(&g->memory, column(st, 2), &r.service) ||
        !label_memory_keep(&g->memory, column(st, 3), &r.attributes) ||
        label_add(&g->service, &g->memory, r.service, true, g->n_resources) == LABEL_NONE ||
        !add_attributes(g, &g->resource_labels, r.attributes, g->n_resources, NULL, 0))
        return index_no_memory(err);
    g->resources[g->n_resources++] = r;
    return OTL_OK;
}

static enum otl_err add_scope(struct label_generation *g, sqlite3_stmt *st, struct otl_error *err)
{
    struct index_scope s = {.id = sqlite3_column_int64(st, 0)};
    int64_t parent = sqlite3_column_int64(st, 1);
    void *array = g->scopes;

    s.resource = index_find(g->resources, sizeof(*g->resources), g->n_resources, parent);
    if (s.resource == LABEL_NONE)
        return no_parent("scope", s.id, "resource", parent, err);
    if (!label_memory_grow(&g->memory, &array, sizeof(s), g->n_scopes, &g->cap_scopes))
        return index_no_memory(err);
    g->scopes = array;
    if (!label_memory_keep(&g->memory, column(st, 2), &s.name))
        return index_no_memory(err);
    g->scopes[g->n_scopes++] = s;
    return OTL_OK;
}

static enum temporality temporality_of(struct bytes s)
{
    if (bytes_equal(s, bytes_str("delta")))
        return TEMPORALITY_DELTA;
    if (bytes_equal(s, bytes_str("cumulative")))
        return TEMPORALITY_CUMULATIVE;
    return TEMPORALITY_NONE;
}

static bool type_of(struct bytes s, enum metric_type *out)
{
    for (int t = METRIC_GAUGE; t <= METRIC_SUMMARY; t++)
        if (bytes_equal(s, bytes_str(metric_type_name((enum metric_type)t)))) {
            *out = (enum metric_type)t;
            return true;
        }
    return false;
}

/* A text of a label, kept by the label once for all that have it. */
static bool add_label(struct label_generation *g, struct label *l, struct bytes text, bool kept,
                      uint32_t number, struct bytes *out)
{
    uint32_t v = label_add(l, &g->memory, text, kept, number);

    if (v == LABEL_NONE)
        return false;
    *out = label_value_text(&l->values[v]);
    return true;
}

static enum otl_err add_metric(struct label_generation *g, sqlite3_stmt *st, struct otl_error *err)
{
    struct index_metric m = {.id = sqlite3_column_int64(st, 0),
                             .temporality = temporality_of(column(st, 5)),
                             .is_monotonic = sqlite3_column_int(st, 6) != 0};
    int64_t parent = sqlite3_column_int64(st, 1);
    uint32_t number = g->n_metrics;
    void *array = g->metrics;
    struct bytes ignored;

    m.scope = index_find(g->scopes, sizeof(*g->scopes), g->n_scopes, parent);
    if (m.scope == LABEL_NONE)
        return no_parent("metric", m.id, "scope", parent, err);
    if (!type_of(column(st, 4), &m.type))
        return otl_fail(err, OTL_ECORRUPT,
                        "The catalogue is damaged: metric %" PRId64
                        " has an unknown type. \"otlite check\" tells more.",
                        m.id);
    m.resource = g->scopes[m.scope].resource;
    if (!label_memory_grow(&g->memory, &array, sizeof(m), g->n_metrics, &g->cap_metrics))
        return index_no_memory(err);
    g->metrics = array;
    if (!add_label(g, &g->name, column(st, 2), false, number, &m.name) ||
        !add_label(g, &g->unit, column(st, 3), false, number, &m.unit) ||
        !add_label(g, &g->type, column(st, 4), false, number, &ignored) ||
        !add_label(g, &g->scope, g->scopes[m.scope].name, true, number, &ignored) ||
        !postings_add(&g->resources[m.resource].metrics, number, &g->memory))
        return index_no_memory(err);
    g->metrics[g->n_metrics++] = m;
    return OTL_OK;
}

static bool add_to_run(struct label_generation *g, struct index_metric *m, uint32_t number)
{
    struct series_run *last = m->n_runs == 0 ? NULL : &m->runs[m->n_runs - 1];
    void *array = m->runs;

    if (last != NULL && last->first + last->n == number) {
        last->n++;
    } else {
        if (!label_memory_grow(&g->memory, &array, sizeof(*m->runs), m->n_runs, &m->cap_runs))
            return false;
        m->runs = array;
        m->runs[m->n_runs++] = (struct series_run){number, 1};
    }
    m->n_series++;
    return true;
}

static void put_set(const struct attribute_set **slots, uint32_t n, const struct attribute_set *s)
{
    uint32_t at = s->hash & (n - 1);

    while (slots[at] != NULL)
        at = (at + 1) & (n - 1);
    slots[at] = s;
}

static bool reserve_set(struct label_generation *g)
{
    uint32_t want = g->n_set_slots == 0 ? 64 : g->n_set_slots * 2;
    const struct attribute_set **slots;

    if (g->n_sets < g->n_set_slots / 2)
        return true;
    if (g->n_set_slots > UINT32_MAX / 2)
        return false;
    slots = calloc(want, sizeof(*slots));
    if (slots == NULL)
        return false;
    for (uint32_t i = 0; i < g->n_set_slots; i++)
        if (g->sets[i] != NULL)
            put_set(slots, want, g->sets[i]);
    g->memory.bytes += (size_t)(want - g->n_set_slots) * sizeof(*slots);
    free(g->sets);
    g->sets = slots;
    g->n_set_slots = want;
    return true;
}

/* The one copy of an attribute set. NULL: no memory. */
static const struct attribute_set *keep_set(struct label_generation *g, struct bytes canonical)
{
    uint32_t hash = (uint32_t)(bytes_hash(canonical, g->memory.seed) >> 32);
    struct attribute_set *s;

    if (canonical.n > UINT32_MAX || !reserve_set(g))
        return NULL;
    for (uint32_t at = hash & (g->n_set_slots - 1); g->sets[at] != NULL;
         at = (at + 1) & (g->n_set_slots - 1))
        if (g->sets[at]->hash == hash &&
            bytes_equal(bytes_of(g->sets[at]->canonical, g->sets[at]->n), canonical))
            return g->sets[at];
    s = label_memory_take(&g->memory, sizeof(*s) + canonical.n);
    if (s == NULL)
        return NULL;
    s->hash = hash;
    s->n = (uint32_t)canonical.n;
    if (canonical.n > 0)
        memcpy(s->canonical, canonical.p, canonical.n);
    put_set(g->sets, g->n_set_slots, s);
    g->n_sets++;
    return s;
}

static enum otl_err add_series(struct label_generation *g, sqlite3_stmt *st, struct otl_error *err)
{
    struct index_series s = {.id = sqlite3_column_int64(st, 0)};
    int64_t parent = sqlite3_column_int64(st, 1);
    void *array = g->series;

    s.metric = index_find(g->metrics, sizeof(*g->metrics), g->n_metrics, parent);
    if (s.metric == LABEL_NONE)
        return no_parent("series", s.id, "metric", parent, err);
    if (!label_memory_grow(&g->memory, &array, sizeof(s), g->n_series, &g->cap_series))
        return index_no_memory(err);
    g->series = array;
    s.attributes = keep_set(g, column(st, 2));
    if (s.attributes == NULL ||
        !add_attributes(g, &g->point_labels, index_attributes(&s), g->n_series, g->hints,
                        sizeof(g->hints) / sizeof(g->hints[0])) ||
        !add_to_run(g, &g->metrics[s.metric], g->n_series))
        return index_no_memory(err);
    g->series[g->n_series++] = s;
    return OTL_OK;
}

/* ---- taking in what is missing ---- */

typedef enum otl_err (*add_row_fn)(struct label_generation *g, sqlite3_stmt *st,
                                   struct otl_error *err);

/* Rows of one level after an id. A row for which memory ran out may have left entries in lists:
 * nothing can be appended behind it. */
static enum otl_err take_in_level(struct label_generation *g, struct db *db, const char *sql,
                                  int64_t after, add_row_fn add, const struct label_check *check,
                                  struct otl_error *err)
{
    sqlite3_stmt *st;
    enum otl_err rc = db_prepare(db, sql, &st, err);
    int step = SQLITE_ROW;

    if (rc != OTL_OK)
        return rc;
    sqlite3_bind_int64(st, 1, after);
    while (rc == OTL_OK && step == SQLITE_ROW) {
        pthread_rwlock_wrlock(&g->lock);
        for (int i = 0; rc == OTL_OK && i < SLICE && (step = sqlite3_step(st)) == SQLITE_ROW; i++) {
            rc = add(g, st, err);
            g->broken = rc == OTL_ENOMEM;
        }
        pthread_rwlock_unlock(&g->lock);
        if (rc == OTL_OK && step == SQLITE_ROW)
            rc = label_checked(check, err);
    }
    if (rc == OTL_OK && step != SQLITE_DONE)
        rc = db_fail(db, step, "read the catalogue for the index of labels", err);
    sqlite3_finalize(st);
    return rc;
}

#define LAST_ID(elements, n) ((n) == 0 ? 0 : (elements)[(n)-1].id)

/* Only this thread appends, so what was appended before is read without the lock. Parents come
 * first: a series that is taken in later has all that it needs. */
static enum otl_err take_in(struct label_generation *g, struct db *db,
                            const struct label_check *check, struct otl_error *err)
{
    static const char resources[] = "SELECT id, project_id, service_name, identity FROM resource"
                                    " WHERE id > ? ORDER BY id";
    static const char scopes[] = "SELECT id, resource_id, name FROM scope WHERE id > ? ORDER BY id";
    static const char metrics[] = "SELECT id, scope_id, name, unit, type, temporality, is_monotonic"
                                  " FROM metric WHERE id > ? ORDER BY id";
    static const char series[] = "SELECT id, metric_id, identity FROM series WHERE id > ?"
                                 " ORDER BY id";
    enum otl_err rc;

    rc = take_in_level(g, db, resources, LAST_ID(g->resources, g->n_resources), add_resource, check,
                       err);
    if (rc == OTL_OK)
        rc = take_in_level(g, db, scopes, LAST_ID(g->scopes, g->n_scopes), add_scope, check, err);
    if (rc == OTL_OK)
        rc = take_in_level(g, db, metrics, LAST_ID(g->metrics, g->n_metrics), add_metric, check,
                           err);
    if (rc == OTL_OK)
        rc = take_in_level(g, db, series, LAST_ID(g->series, g->n_series), add_series, check, err);
    return rc;
}

/* ---- the index ---- */

static bool init_wait(struct label_index *ix)
{
    pthread_condattr_t attr;
    bool ok;

    if (pthread_condattr_init(&attr) != 0)
        return false;
    ok = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0 &&
         pthread_cond_init(&ix->refreshed, &attr) == 0;
    pthread_condattr_destroy(&attr);
    if (ok && pthread_mutex_init(&ix->mu, NULL) != 0) {
        pthread_cond_destroy(&ix->refreshed);
        ok = false;
    }
    return ok;
}

enum otl_err label_index_new(struct label_index **out, struct otl_error *err)
{
    struct label_index *ix = calloc(1, sizeof(*ix));
    enum otl_err rc;

    if (ix == NULL)
        return index_no_memory(err);
    rc = generation_new(&ix->g, err);
    if (rc == OTL_OK && !init_wait(ix))
        rc = otl_fail(err, OTL_ESYSTEM, "The lock of the index of labels could not be made.");
    if (rc != OTL_OK) {
        generation_free(ix->g);
        free(ix);
        return rc;
    }
    ix->count_at_ns = clock_mono_ns() + RECOUNT_NS;
    *out = ix;
    return OTL_OK;
}

void label_index_free(struct label_index *ix)
{
    if (ix == NULL)
        return;
    generation_free(ix->g);
    pthread_mutex_destroy(&ix->mu);
    pthread_cond_destroy(&ix->refreshed);
    free(ix);
}

void label_index_recount(struct label_index *ix)
{
    pthread_mutex_lock(&ix->mu);
    ix->count_at_ns = 0;
    pthread_mutex_unlock(&ix->mu);
}

/* Whether so many of the series that g has up to `last` are gone that it had better be made anew.
 */
static enum otl_err many_deleted(struct label_generation *g, struct db *db, int64_t last, bool *out,
                                 struct otl_error *err)
{
    int64_t stored, known;
    enum otl_err rc = db_query_int(db, "SELECT count(*) FROM series", &stored, err);

    if (rc != OTL_OK)
        return rc;
    /* Nobody appends meanwhile: this thread refreshes. */
    known = index_count_up_to(g->series, sizeof(*g->series), g->n_series, last);
    *out = known - stored > DELETED_MIN && known - stored > known / 4;
    return OTL_OK;
}

/* With refreshing set by this thread, and mu not held. *g is old, and becomes the generation to go
 * on with. */
static enum otl_err refresh(struct label_generation *old, struct db *db, int64_t last, bool count,
                            const struct label_check *check, struct label_generation **g,
                            struct otl_error *err)
{
    bool anew = old->broken;
    enum otl_err rc = OTL_OK;

    if (count && !anew)
        rc = many_deleted(old, db, last, &anew, err);
    if (rc == OTL_OK && anew)
        rc = generation_new(g, err);
    return rc == OTL_OK ? take_in(*g, db, check, err) : rc;
}

static void wait_for_refresh(struct label_index *ix)
{
    struct timespec until;
    int64_t ns = clock_mono_ns() + WAIT_MS * NS_PER_MS;

    until.tv_sec = (time_t)(ns / NS_PER_S);
    until.tv_nsec = (long)(ns % NS_PER_S);
    (void)pthread_cond_timedwait(&ix->refreshed, &ix->mu, &until);
}

/* Let the index have everything up to the series `last`, and hold the generation that does. */
static enum otl_err hold(struct label_index *ix, struct db *db, int64_t last,
                         const struct label_check *check, struct label_generation **out,
                         struct otl_error *err)
{
    enum otl_err rc = OTL_OK;
    bool count;

    pthread_mutex_lock(&ix->mu);
    while (rc == OTL_OK && ix->refreshing && last > ix->last_series) {
        wait_for_refresh(ix);
        pthread_mutex_unlock(&ix->mu);
        rc = label_checked(check, err);
        pthread_mutex_lock(&ix->mu);
    }
    count = clock_mono_ns() >= ix->count_at_ns;
    if (rc == OTL_OK && !ix->refreshing && (last > ix->last_series || count)) {
        struct label_generation *g = ix->g;

        ix->refreshing = true;
        if (count)
            ix->count_at_ns = clock_mono_ns() + RECOUNT_NS;
        pthread_mutex_unlock(&ix->mu);
        rc = refresh(g, db, last, count, check, &g, err);
        pthread_mutex_lock(&ix->mu);
        if (g != ix->g) {
            if (ix->g->holders == 0)
                generation_free(ix->g);
            ix->g = g;
        }
        ix->last_series = LAST_ID(g->series, g->n_series);
        ix->refreshing = false;
        pthread_cond_broadcast(&ix->refreshed);
    }
    if (rc == OTL_OK && out != NULL) {
        ix->g->holders++;
        *out = ix->g;
    }
    pthread_mutex_unlock(&ix->mu);
    return rc;
}

static enum otl_err last_series(struct db *db, int64_t *out, struct otl_error *err)
{
    return db_query_int(db, "SELECT max(id) FROM series", out, err);
}

enum otl_err label_index_refresh(struct label_index *ix, struct db *db,
                                 const struct label_check *check, struct otl_error *err)
{
    int64_t last;
    enum otl_err rc = last_series(db, &last, err);

    return rc == OTL_OK ? hold(ix, db, last, check, NULL, err) : rc;
}

enum otl_err label_index_view(struct label_index *ix, struct db *db,
                              const struct label_check *check, struct label_view **out,
                              struct otl_error *err)
{
    struct label_view *v;
    int64_t last;
    enum otl_err rc = last_series(db, &last, err);

    if (rc != OTL_OK)
        return rc;
    v = calloc(1, sizeof(*v));
    if (v == NULL)
        return index_no_memory(err);
    v->index = ix;
    rc = hold(ix, db, last, check, &v->g, err);
    if (rc != OTL_OK) {
        free(v);
        return rc;
    }
    pthread_rwlock_rdlock(&v->g->lock);
    v->limit = index_count_up_to(v->g->series, sizeof(*v->g->series), v->g->n_series, last);
    pthread_rwlock_unlock(&v->g->lock);
    *out = v;
    return OTL_OK;
}

void label_view_free(struct label_view *v)
{
    struct label_index *ix;

    if (v == NULL)
        return;
    ix = v->index;
    pthread_mutex_lock(&ix->mu);
    /* An old generation goes with its last view, unless a refresh still looks at it (hold). */
    if (--v->g->holders == 0 && v->g != ix->g)
        generation_free(v->g);
    pthread_mutex_unlock(&ix->mu);
    free(v);
}

bool label_view_series(struct label_view *v, int64_t series_id, struct series_info *out)
{
    struct label_generation *g = v->g;
    uint32_t i;

    pthread_rwlock_rdlock(&g->lock);
    i = index_find(g->series, sizeof(*g->series), v->limit, series_id);
    if (i != LABEL_NONE) {
        const struct index_series *s = &g->series[i];
        const struct index_metric *m = &g->metrics[s->metric];
        const struct index_scope *c = &g->scopes[m->scope];
        const struct index_resource *r = &g->resources[m->resource];

        *out = (struct series_info){
            .id = s->id,
            .metric_id = m->id,
            .scope_id = c->id,
            .resource_id = r->id,
            .project_id = r->project_id,
            .type = m->type,
            .temporality = m->temporality,
            .is_monotonic = m->is_monotonic,
            .name = m->name,
            .unit = m->unit,
            .service = r->service,
            .attributes = index_attributes(s),
            .resource_attributes = r->attributes,
            .scope_name = c->name,
        };
    }
    pthread_rwlock_unlock(&g->lock);
    return i != LABEL_NONE;
}

static struct label_generation *hold_now(struct label_index *ix)
{
    struct label_generation *g;

    pthread_mutex_lock(&ix->mu);
    g = ix->g;
    g->holders++;
    pthread_mutex_unlock(&ix->mu);
    pthread_rwlock_rdlock(&g->lock);
    return g;
}

static void release(struct label_index *ix, struct label_generation *g)
{
    pthread_rwlock_unlock(&g->lock);
    pthread_mutex_lock(&ix->mu);
    if (--g->holders == 0 && g != ix->g)
        generation_free(g);
    pthread_mutex_unlock(&ix->mu);
}

size_t label_index_bytes(struct label_index *ix)
{
    struct label_generation *g = hold_now(ix);
    size_t n = g->memory.bytes;

    release(ix, g);
    return n;
}

size_t label_index_series(struct label_index *ix)
{
    struct label_generation *g = hold_now(ix);
    size_t n = g->n_series;

    release(ix, g);
    return n;
}
