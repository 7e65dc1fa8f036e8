#include "catalogue.h"

#include <sqlite3.h>
#include <stdlib.h>

#include "identity.h"
#include "otlite/attrs.h"

/* Ids are given out here, not by SQLite: an id of the mirror is never given a second time, whatever
 * another process deletes. */
static const char *const LOAD[CAT_TABLES] = {
    [CAT_RESOURCE] = "SELECT id, project_id, identity, schema_url, dropped_attributes_count,"
                     " entity_refs FROM resource WHERE id > ? ORDER BY id",
    [CAT_SCOPE] = "SELECT id, resource_id, identity, name, version, schema_url,"
                  " dropped_attributes_count FROM scope WHERE id > ? ORDER BY id",
    [CAT_METRIC] = "SELECT id, scope_id, name, unit, type, temporality, is_monotonic,"
                   " length(CAST(description AS BLOB)), metadata_identity"
                   " FROM metric WHERE id > ? ORDER BY id",
    [CAT_SERIES] = "SELECT id, metric_id, identity FROM series WHERE id > ? ORDER BY id",
    [CAT_BOUNDS] = "SELECT id, bounds FROM histogram_bounds WHERE id > ? ORDER BY id",
};
static const char *const INSERT[CAT_TABLES] = {
    [CAT_RESOURCE] = "INSERT INTO resource(id, project_id, service_name, attributes, identity,"
                     " schema_url, dropped_attributes_count, entity_refs)"
                     " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    [CAT_SCOPE] = "INSERT INTO scope(id, resource_id, name, version, schema_url, attributes,"
                  " identity, dropped_attributes_count) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    [CAT_METRIC] = "INSERT INTO metric(id, scope_id, name, unit, description, type, temporality,"
                   " is_monotonic, metadata, metadata_identity)"
                   " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [CAT_SERIES] = "INSERT INTO series(id, metric_id, attributes, identity) VALUES (?, ?, ?, ?)",
    [CAT_BOUNDS] = "INSERT INTO histogram_bounds(id, bounds) VALUES (?, ?)",
};
static const char INSERT_SERIES[] =
    "INSERT OR ROLLBACK INTO series(metric_id, attributes, identity)"
    " SELECT metric_id, attributes, identity FROM series_source";
static const char UPDATE_RESOURCE[] = "UPDATE resource SET schema_url = ?,"
                                      " dropped_attributes_count = ?, entity_refs = ? WHERE id = ?";
static const char UPDATE_SCOPE[] = "UPDATE scope SET dropped_attributes_count = ? WHERE id = ?";
static const char UPDATE_DESCRIPTION[] = "UPDATE metric SET description = ? WHERE id = ?";
static const char UPDATE_METADATA[] =
    "UPDATE metric SET metadata = ?, metadata_identity = ? WHERE id = ?";

static const char *const TEMPORALITY_NAMES[] = {"none", "delta", "cumulative"};

enum otl_err catalogue_open(struct catalogue *c, struct db *db, struct otl_error *err)
{
    const struct {
        const char *sql;
        struct sqlite3_stmt **st;
    } updates[] = {
        {INSERT_SERIES, &c->insert_series},     {UPDATE_RESOURCE, &c->update_resource},
        {UPDATE_SCOPE, &c->update_scope},       {UPDATE_DESCRIPTION, &c->update_description},
        {UPDATE_METADATA, &c->update_metadata},
    };
    enum otl_err rc = OTL_OK;

    c->db = db;
    /* What is written here comes from enums, and each CHECK ... IN of table metric has SQLite build
     * a table of the list for every row. */
    rc = db_exec(db, "PRAGMA ignore_check_constraints = ON", err);
    if (rc == OTL_OK)
        rc = series_source_register(db, &c->source, err);
    for (int i = 0; i < CAT_TABLES && rc == OTL_OK; i++) {
        rc = db_prepare(db, LOAD[i], &c->load[i], err);
        if (rc == OTL_OK)
            rc = db_prepare(db, INSERT[i], &c->insert[i], err);
    }
    for (size_t i = 0; i < sizeof(updates) / sizeof(updates[0]) && rc == OTL_OK; i++)
        rc = db_prepare(db, updates[i].sql, updates[i].st, err);
    return rc;
}

void catalogue_close(struct catalogue *c)
{
    for (int i = 0; i < CAT_TABLES; i++) {
        (void)sqlite3_finalize(c->load[i]);
        (void)sqlite3_finalize(c->insert[i]);
    }
    (void)sqlite3_finalize(c->insert_series);
    (void)sqlite3_finalize(c->update_resource);
    (void)sqlite3_finalize(c->update_scope);
    (void)sqlite3_finalize(c->update_description);
    (void)sqlite3_finalize(c->update_metadata);
    for (int i = 0; i < CAT_DICTS; i++)
        dict_fini(&c->dicts[i]);
    free(c->undo);
    free(c->times);
    free(c->gone);
    free(c->resources);
    free(c->scopes);
    free(c->metrics);
    free(c->series);
    buf_fini(&c->key);
    buf_fini(&c->text);
    buf_fini(&c->source.text);
    *c = (struct catalogue){0};
}

static enum otl_err no_memory(struct otl_error *err)
{
    return otl_fail(err, OTL_ENOMEM, "catalogue: no memory");
}

static uint64_t resource_note(struct bytes schema_url, uint32_t dropped, struct bytes entity_refs)
{
    return bytes_hash(entity_refs, bytes_hash(schema_url, dropped));
}

/* ---- transactions ---- */

static void set_mark(struct catalogue *c)
{
    c->n_undo = c->n_times = c->n_gone = 0;
    for (int i = 0; i < CAT_DICTS; i++)
        c->mark[i] = c->dicts[i].n;
}

void catalogue_begin(struct catalogue *c)
{
    set_mark(c);
}

/* Room for all the notes that resolving and storing b can change, so that noting a change cannot
 * fail: a time a point, one note a resource and a scope, and two a metric (its own and its name's).
 */
static bool reserve_undo(struct catalogue *c, const struct batch *b)
{
    size_t notes = c->n_undo + b->n_resources + b->n_scopes + 2 * (size_t)b->n_metrics;
    size_t times = c->n_times + (size_t)batch_storable(b);

    if (notes > c->cap_undo) {
        struct catalogue_undo *p = realloc(c->undo, notes * sizeof(*p));

        if (p == NULL)
            return false;
        c->undo = p;
        c->cap_undo = notes;
    }
    if (times > c->cap_times) {
        struct catalogue_time *p = realloc(c->times, times * sizeof(*p));

        if (p == NULL)
            return false;
        c->times = p;
        c->cap_times = times;
    }
    return true;
}

void catalogue_commit(struct catalogue *c)
{
    set_mark(c);
}

void catalogue_rollback(struct catalogue *c)
{
    while (c->n_undo > 0) {
        const struct catalogue_undo *u = &c->undo[--c->n_undo];

        u->dict->entries[u->entry].note = u->note;
    }
    while (c->n_times > 0) {
        const struct catalogue_time *t = &c->times[--c->n_times];

        catalogue_series(c, t->entry)->note.series.last_time = t->last_time;
    }
    while (c->n_gone > 0) {
        const struct catalogue_gone *g = &c->gone[--c->n_gone];

        catalogue_series(c, g->entry)->parent = g->parent;
        c->forgotten--;
    }
    for (int i = 0; i < CAT_DICTS; i++)
        dict_truncate(&c->dicts[i], c->mark[i]);
    c->series_follow = false;
    set_mark(c);
}

bool catalogue_forget(struct catalogue *c, uint32_t entry)
{
    struct dict_entry *e = catalogue_series(c, entry);

    if (c->n_gone == c->cap_gone) {
        size_t cap = c->cap_gone == 0 ? 64 : 2 * c->cap_gone;
        struct catalogue_gone *p = realloc(c->gone, cap * sizeof(*p));

        if (p == NULL)
            return false;
        c->gone = p;
        c->cap_gone = cap;
    }
    /* The place of an entry in the table is decided by its hash, which stays. */
    c->gone[c->n_gone++] = (struct catalogue_gone){e->parent, entry};
    e->parent = CATALOGUE_NO_PARENT;
    c->forgotten++;
    return true;
}

/* Change a note so that a rollback restores it. */
static void change_note(struct catalogue *c, int which, uint32_t entry, union dict_note note)
{
    struct dict *d = &c->dicts[which];

    if (entry < c->mark[which])
        c->undo[c->n_undo++] = (struct catalogue_undo){d, entry, d->entries[entry].note};
    d->entries[entry].note = note;
}

/* ---- adding to the mirror ---- */

/* The entry of a metric's name under its scope; its count of metrics grows by one. */
static bool add_name(struct catalogue *c, int64_t scope_id, struct bytes name, uint32_t *out)
{
    struct dict *d = &c->dicts[CAT_NAMES];
    uint32_t entry = dict_find(d, scope_id, name);
    union dict_note note = {.metrics = 1};

    if (entry == DICT_NONE) {
        entry = dict_add(d, dict_last_id(d) + 1, scope_id, name, note);
        if (entry == DICT_NONE)
            return false;
    } else {
        note.metrics = d->entries[entry].note.metrics + 1;
        change_note(c, CAT_NAMES, entry, note);
    }
    *out = entry;
    return true;
}

/* ---- loading ---- */

static struct bytes column(struct sqlite3_stmt *st, int i)
{
    const void *p = sqlite3_column_blob(st, i);

    return bytes_of(p, p == NULL ? 0 : (size_t)sqlite3_column_bytes(st, i));
}

static enum otl_err damaged(struct catalogue *c, const char *table, int64_t id,
                            struct otl_error *err)
{
    return otl_fail(err, OTL_ECORRUPT,
                    "%s: row %lld of table %s is damaged; stop otlite, keep the files, restore a "
                    "backup",
                    c->db->path, (long long)id, table);
}

static enum otl_err load_metric(struct catalogue *c, struct sqlite3_stmt *st, int64_t id,
                                int64_t parent, struct otl_error *err)
{
    struct bytes type = column(st, 4), temporality = column(st, 5);
    union dict_note note = {0};
    int t, m;

    for (t = METRIC_GAUGE; t <= METRIC_SUMMARY; t++) {
        if (bytes_equal(type, bytes_str(metric_type_name((enum metric_type)t))))
            break;
    }
    for (m = TEMPORALITY_NONE; m <= TEMPORALITY_CUMULATIVE; m++) {
        if (bytes_equal(temporality, bytes_str(TEMPORALITY_NAMES[m])))
            break;
    }
    if (t > METRIC_SUMMARY || m > TEMPORALITY_CUMULATIVE)
        return damaged(c, "metric", id, err);
    metric_key(&c->key, (enum metric_type)t, (enum temporality)m, sqlite3_column_int(st, 6) != 0,
               column(st, 2), column(st, 3));
    note.metric.description_n = (uint32_t)sqlite3_column_int(st, 7);
    note.metric.metadata = bytes_hash(column(st, 8), 0);
    if (c->key.failed || !add_name(c, parent, column(st, 2), &note.metric.name) ||
        dict_add(&c->dicts[CAT_METRIC], id, parent, buf_bytes(&c->key), note) == DICT_NONE)
        return no_memory(err);
    return OTL_OK;
}

static enum otl_err load_series(struct catalogue *c, struct sqlite3_stmt *st, int64_t id,
                                int64_t parent, struct otl_error *err)
{
    const struct dict *metrics = &c->dicts[CAT_METRIC];
    uint32_t metric = dict_find_id(metrics, parent);
    union dict_note note = {.series = {.last_time = INT64_MIN}};

    if (metric == DICT_NONE)
        return damaged(c, "series", id, err);
    note.series.kind = point_kind_of((enum metric_type)metrics->entries[metric].key[0]);
    if (dict_add(&c->dicts[CAT_SERIES], id, parent, column(st, 2), note) == DICT_NONE)
        return no_memory(err);
    return OTL_OK;
}

static enum otl_err load_bounds(struct catalogue *c, struct sqlite3_stmt *st, int64_t id,
                                struct otl_error *err)
{
    double *bounds;
    size_t n;
    union dict_note note = {0};
    uint32_t entry;

    if (!bounds_parse(column(st, 1), &bounds, &n))
        return damaged(c, "histogram_bounds", id, err);
    entry = dict_add(&c->dicts[CAT_BOUNDS], id, 0, bytes_of(bounds, n * sizeof(*bounds)), note);
    free(bounds);
    return entry == DICT_NONE ? no_memory(err) : OTL_OK;
}

static enum otl_err load_row(struct catalogue *c, int which, struct sqlite3_stmt *st,
                             struct otl_error *err)
{
    int64_t id = sqlite3_column_int64(st, 0);
    int64_t parent = sqlite3_column_int64(st, 1);
    union dict_note note = {0};

    switch (which) {
    case CAT_RESOURCE:
        note.resource =
            resource_note(column(st, 3), (uint32_t)sqlite3_column_int64(st, 4), column(st, 5));
        if (dict_add(&c->dicts[which], id, parent, column(st, 2), note) == DICT_NONE)
            return no_memory(err);
        return OTL_OK;
    case CAT_SCOPE:
        note.scope = (uint64_t)sqlite3_column_int64(st, 6);
        scope_key(&c->key, column(st, 3), column(st, 4), column(st, 5), column(st, 2));
        if (c->key.failed ||
            dict_add(&c->dicts[which], id, parent, buf_bytes(&c->key), note) == DICT_NONE)
            return no_memory(err);
        return OTL_OK;
    case CAT_METRIC:
        return load_metric(c, st, id, parent, err);
    case CAT_SERIES:
        return load_series(c, st, id, parent, err);
    default:
        return load_bounds(c, st, id, err);
    }
}

enum otl_err catalogue_load(struct catalogue *c, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    c->series_follow = false;
    c->mark[CAT_NAMES] = 0; /* a name that gets one more metric is not to be undone */
    for (int i = 0; i < CAT_TABLES && rc == OTL_OK; i++) {
        struct sqlite3_stmt *st = c->load[i];
        int step = sqlite3_bind_int64(st, 1, dict_last_id(&c->dicts[i]));

        if (step == SQLITE_OK) {
            while (rc == OTL_OK && (step = sqlite3_step(st)) == SQLITE_ROW)
                rc = load_row(c, i, st, err);
        }
        if (rc == OTL_OK && step != SQLITE_DONE)
            rc = db_fail(c->db, step, "read the catalogue", err);
        (void)sqlite3_reset(st);
    }
    set_mark(c);
    return rc;
}

/* ---- writing rows ---- */

static int bind_text(struct sqlite3_stmt *st, int i, struct bytes s)
{
    return sqlite3_bind_text64(st, i, s.n == 0 ? "" : (const char *)s.p, s.n, SQLITE_STATIC,
                               SQLITE_UTF8);
}

static int bind_blob(struct sqlite3_stmt *st, int i, struct bytes s)
{
    return sqlite3_bind_blob64(st, i, s.n == 0 ? (const void *)"" : s.p, s.n, SQLITE_STATIC);
}

static int bind_text_or_null(struct sqlite3_stmt *st, int i, struct bytes s)
{
    return s.n == 0 ? sqlite3_bind_null(st, i) : bind_text(st, i, s);
}

/* Run st when its bindings (rc: OR of their results, 0 is SQLITE_OK) were made. */
static enum otl_err run_bound(struct catalogue *c, struct sqlite3_stmt *st, int rc,
                              const char *what, struct otl_error *err)
{
    if (rc != SQLITE_OK) {
        (void)sqlite3_clear_bindings(st);
        return db_fail(c->db, SQLITE_NOMEM, what, err);
    }
    return db_run(c->db, st, what, err);
}

/* Add the row that was just inserted to the mirror. */
static enum otl_err mirror(struct catalogue *c, int which, int64_t id, int64_t parent,
                           struct bytes key, union dict_note note, uint32_t *out,
                           struct otl_error *err)
{
    *out = dict_add(&c->dicts[which], id, parent, key, note);
    return *out == DICT_NONE ? no_memory(err) : OTL_OK;
}

static bool json_text(struct buf *out, struct bytes canonical)
{
    buf_reset(out);
    attrs_to_json(canonical, out);
    return !out->failed;
}

static enum otl_err update_resource(struct catalogue *c, uint32_t entry,
                                    const struct batch_resource *r, struct otl_error *err)
{
    struct sqlite3_stmt *st = c->update_resource;
    int rc = bind_text(st, 1, r->schema_url);

    rc |= sqlite3_bind_int64(st, 2, r->dropped_attributes_count);
    rc |= bind_text_or_null(st, 3, r->entity_refs);
    rc |= sqlite3_bind_int64(st, 4, c->dicts[CAT_RESOURCE].entries[entry].id);
    return run_bound(c, st, rc, "update a resource", err);
}

static enum otl_err find_resource(struct catalogue *c, int64_t project_id,
                                  const struct batch_resource *r, uint32_t guess, uint32_t *out,
                                  struct otl_error *err)
{
    struct dict *d = &c->dicts[CAT_RESOURCE];
    struct sqlite3_stmt *st = c->insert[CAT_RESOURCE];
    union dict_note note = {
        .resource = resource_note(r->schema_url, r->dropped_attributes_count, r->entity_refs)};
    int64_t id = dict_last_id(d) + 1;
    enum otl_err rc;
    int b;

    if (guess != DICT_NONE && d->entries[guess].parent == project_id &&
        bytes_equal(dict_key(&d->entries[guess]), r->attributes))
        *out = guess;
    else
        *out = dict_find(d, project_id, r->attributes);
    if (*out != DICT_NONE) {
        if (d->entries[*out].note.resource == note.resource)
            return OTL_OK;
        rc = update_resource(c, *out, r, err);
        if (rc == OTL_OK)
            change_note(c, CAT_RESOURCE, *out, note);
        return rc;
    }
    if (!json_text(&c->text, r->attributes))
        return no_memory(err);
    b = sqlite3_bind_int64(st, 1, id);
    b |= sqlite3_bind_int64(st, 2, project_id);
    b |= bind_text(st, 3, r->service_name);
    b |= bind_text(st, 4, buf_bytes(&c->text));
    b |= bind_blob(st, 5, r->attributes);
    b |= bind_text(st, 6, r->schema_url);
    b |= sqlite3_bind_int64(st, 7, r->dropped_attributes_count);
    b |= bind_text_or_null(st, 8, r->entity_refs);
    rc = run_bound(c, st, b, "insert a resource", err);
    return rc != OTL_OK ? rc
                        : mirror(c, CAT_RESOURCE, id, project_id, r->attributes, note, out, err);
}

static enum otl_err find_scope(struct catalogue *c, int64_t resource_id,
                               const struct batch_scope *s, uint32_t guess, uint32_t *out,
                               struct otl_error *err)
{
    struct dict *d = &c->dicts[CAT_SCOPE];
    struct sqlite3_stmt *st = c->insert[CAT_SCOPE];
    union dict_note note = {.scope = s->dropped_attributes_count};
    int64_t id = dict_last_id(d) + 1;
    enum otl_err rc;
    int b;

    if (guess != DICT_NONE && d->entries[guess].parent == resource_id &&
        is_scope_key(dict_key(&d->entries[guess]), s)) {
        *out = guess;
    } else {
        scope_key(&c->key, s->name, s->version, s->schema_url, s->attributes);
        if (c->key.failed)
            return no_memory(err);
        *out = dict_find(d, resource_id, buf_bytes(&c->key));
    }
    if (*out != DICT_NONE) {
        if (d->entries[*out].note.scope == note.scope)
            return OTL_OK;
        b = sqlite3_bind_int64(c->update_scope, 1, s->dropped_attributes_count);
        b |= sqlite3_bind_int64(c->update_scope, 2, d->entries[*out].id);
        rc = run_bound(c, c->update_scope, b, "update a scope", err);
        if (rc == OTL_OK)
            change_note(c, CAT_SCOPE, *out, note);
        return rc;
    }
    if (!json_text(&c->text, s->attributes))
        return no_memory(err);
    b = sqlite3_bind_int64(st, 1, id);
    b |= sqlite3_bind_int64(st, 2, resource_id);
    b |= bind_text(st, 3, s->name);
    b |= bind_text(st, 4, s->version);
    b |= bind_text(st, 5, s->schema_url);
    b |= bind_text(st, 6, buf_bytes(&c->text));
    b |= bind_blob(st, 7, s->attributes);
    b |= sqlite3_bind_int64(st, 8, s->dropped_attributes_count);
    rc = run_bound(c, st, b, "insert a scope", err);
    return rc != OTL_OK ? rc
                        : mirror(c, CAT_SCOPE, id, resource_id, buf_bytes(&c->key), note, out, err);
}

static uint32_t length32(struct bytes s)
{
    return s.n < UINT32_MAX ? (uint32_t)s.n : UINT32_MAX;
}

/* Keep the longest description (M-23) and the latest metadata. */
static enum otl_err update_metric(struct catalogue *c, uint32_t entry, const struct batch_metric *m,
                                  struct otl_error *err)
{
    const struct dict_entry *e = &c->dicts[CAT_METRIC].entries[entry];
    union dict_note note = e->note;
    uint64_t metadata = bytes_hash(m->metadata, 0);
    enum otl_err rc = OTL_OK;
    int b;

    if (length32(m->description) > note.metric.description_n) {
        b = bind_text(c->update_description, 1, m->description);
        b |= sqlite3_bind_int64(c->update_description, 2, e->id);
        rc = run_bound(c, c->update_description, b, "update a metric's description", err);
        note.metric.description_n = length32(m->description);
    }
    if (rc == OTL_OK && metadata != note.metric.metadata) {
        if (!json_text(&c->text, m->metadata))
            return no_memory(err);
        b = bind_text(c->update_metadata, 1, buf_bytes(&c->text));
        b |= bind_blob(c->update_metadata, 2, m->metadata);
        b |= sqlite3_bind_int64(c->update_metadata, 3, e->id);
        rc = run_bound(c, c->update_metadata, b, "update a metric's metadata", err);
        note.metric.metadata = metadata;
    }
    if (rc == OTL_OK && (note.metric.description_n != e->note.metric.description_n ||
                         note.metric.metadata != e->note.metric.metadata))
        change_note(c, CAT_METRIC, entry, note);
    return rc;
}

static enum otl_err find_metric(struct catalogue *c, int64_t scope_id, const struct batch_metric *m,
                                uint32_t guess, uint32_t *out, struct otl_error *err)
{
    struct dict *d = &c->dicts[CAT_METRIC];
    struct sqlite3_stmt *st = c->insert[CAT_METRIC];
    union dict_note note = {0};
    int64_t id = dict_last_id(d) + 1;
    enum otl_err rc;
    int b;

    if (guess != DICT_NONE && d->entries[guess].parent == scope_id &&
        is_metric_key(dict_key(&d->entries[guess]), m)) {
        *out = guess;
        return update_metric(c, guess, m, err);
    }
    metric_key(&c->key, m->type, m->temporality, m->is_monotonic, m->name, m->unit);
    if (c->key.failed)
        return no_memory(err);
    *out = dict_find(d, scope_id, buf_bytes(&c->key));
    if (*out != DICT_NONE)
        return update_metric(c, *out, m, err);
    if (!json_text(&c->text, m->metadata))
        return no_memory(err);
    b = sqlite3_bind_int64(st, 1, id);
    b |= sqlite3_bind_int64(st, 2, scope_id);
    b |= bind_text(st, 3, m->name);
    b |= bind_text(st, 4, m->unit);
    b |= bind_text(st, 5, m->description);
    b |= bind_text(st, 6, bytes_str(metric_type_name(m->type)));
    b |= bind_text(st, 7, bytes_str(TEMPORALITY_NAMES[m->temporality]));
    b |= sqlite3_bind_int(st, 8, m->is_monotonic ? 1 : 0);
    b |= bind_text(st, 9, buf_bytes(&c->text));
    b |= bind_blob(st, 10, m->metadata);
    rc = run_bound(c, st, b, "insert a metric", err);
    if (rc != OTL_OK)
        return rc;
    note.metric.metadata = bytes_hash(m->metadata, 0);
    note.metric.description_n = length32(m->description);
    if (!add_name(c, scope_id, m->name, &note.metric.name))
        return no_memory(err);
    return mirror(c, CAT_METRIC, id, scope_id, buf_bytes(&c->key), note, out, err);
}

/* Into the mirror; insert_series writes the row. */
static enum otl_err add_series(struct catalogue *c, int64_t metric_id, enum metric_type type,
                               struct bytes attributes, uint32_t *out, struct otl_error *err)
{
    union dict_note note = {.series = {INT64_MIN, point_kind_of(type)}};
    int64_t id = dict_last_id(&c->dicts[CAT_SERIES]) + 1;

    if (id > UINT32_MAX) /* the mirror of the head has 32 bits for it */
        return otl_fail(
            err, OTL_ETOOBIG,
            "%s: a new series would be number %lld, and ids of series end at %lu; begin "
            "a new database in another --data",
            c->db->path, (long long)id, (unsigned long)UINT32_MAX);
    return mirror(c, CAT_SERIES, id, metric_id, attributes, note, out, err);
}

/* The row of one series, with its id. */
static enum otl_err insert_one_series(struct catalogue *c, uint32_t entry, struct otl_error *err)
{
    const struct dict_entry *e = catalogue_series(c, entry);
    struct sqlite3_stmt *st = c->insert[CAT_SERIES];
    int b;

    if (!json_text(&c->text, dict_key(e)))
        return no_memory(err);
    b = sqlite3_bind_int64(st, 1, e->id);
    b |= sqlite3_bind_int64(st, 2, e->parent);
    b |= bind_text(st, 3, buf_bytes(&c->text));
    b |= bind_blob(st, 4, dict_key(e));
    return run_bound(c, st, b, "insert a series", err);
}

/* The rows of all series from entry first on. SQLite numbers them by itself where that gives the
 * ids that they have; searching for each id would cost as much as the rest. */
static enum otl_err insert_series(struct catalogue *c, uint32_t first, struct otl_error *err)
{
    const struct dict *d = &c->dicts[CAT_SERIES];
    enum otl_err rc = OTL_OK;

    if (first < d->n && !c->series_follow) {
        rc = insert_one_series(c, first++, err);
        c->series_follow = rc == OTL_OK;
    }
    if (rc != OTL_OK || first == d->n)
        return rc;
    c->source.series = d;
    c->source.rows.first = first;
    c->source.rows.n = d->n;
    rc = db_run(c->db, c->insert_series, "insert series", err);
    if (rc == OTL_OK && sqlite3_last_insert_rowid(c->db->sql) != dict_last_id(d))
        rc = otl_fail(err, OTL_EINTERNAL, "insert series: row %lld came out as %lld",
                      (long long)dict_last_id(d), (long long)sqlite3_last_insert_rowid(c->db->sql));
    return rc;
}

enum otl_err catalogue_bounds(struct catalogue *c, const double *bounds, uint32_t n, int64_t *out,
                              struct otl_error *err)
{
    struct dict *d = &c->dicts[CAT_BOUNDS];
    struct sqlite3_stmt *st = c->insert[CAT_BOUNDS];
    struct bytes key = bytes_of(bounds, n * sizeof(*bounds));
    union dict_note note = {0};
    uint32_t entry = dict_find(d, 0, key);
    int64_t id = dict_last_id(d) + 1;
    enum otl_err rc;
    int b;

    if (entry != DICT_NONE) {
        *out = d->entries[entry].id;
        return OTL_OK;
    }
    buf_reset(&c->text);
    bounds_to_text(&c->text, bounds, n);
    if (c->text.failed)
        return no_memory(err);
    b = sqlite3_bind_int64(st, 1, id);
    b |= bind_text(st, 2, buf_bytes(&c->text));
    rc = run_bound(c, st, b, "insert histogram bounds", err);
    if (rc == OTL_OK)
        rc = mirror(c, CAT_BOUNDS, id, 0, key, note, &entry, err);
    if (rc == OTL_OK)
        *out = id;
    return rc;
}

/* ---- a batch ---- */

static bool reserve(uint32_t **p, size_t *cap, uint32_t n)
{
    uint32_t *q;

    if (n <= *cap)
        return true;
    q = realloc(*p, n * sizeof(*q));
    if (q == NULL)
        return false;
    *p = q;
    *cap = n;
    return true;
}

/* An array of n entries, all DICT_NONE. */
static bool fresh(uint32_t **p, size_t *cap, uint32_t n)
{
    if (!reserve(p, cap, n))
        return false;
    if (n > 0)
        memset(*p, 0xff, n * sizeof(**p));
    return true;
}

/* The entry of a committed series by its number. */
static uint32_t numbered(const struct catalogue *c, uint32_t number)
{
    return number != 0 && number <= c->mark[CAT_SERIES] ? number - 1 : DICT_NONE;
}

/* The entry of the row above an entry. */
static uint32_t above(const struct catalogue *c, int which, uint32_t entry)
{
    return entry == DICT_NONE
               ? DICT_NONE
               : dict_find_id(&c->dicts[which - 1], c->dicts[which].entries[entry].parent);
}

/* The entry of metric i of the batch, with the levels above it. Where a series' number is known,
 * the rows above that series are most likely the ones: comparing with them saves building a key and
 * looking it up. */
static enum otl_err resolve_metric(struct catalogue *c, int64_t project_id, const struct batch *b,
                                   uint32_t i, uint32_t number, struct otl_error *err)
{
    uint32_t scope = b->metrics[i].scope;
    uint32_t resource = b->scopes[scope].resource;
    uint32_t metric_guess = above(c, CAT_SERIES, numbered(c, number));
    enum otl_err rc = OTL_OK;

    if (c->scopes[scope] == DICT_NONE) {
        uint32_t guess = above(c, CAT_METRIC, metric_guess);

        if (c->resources[resource] == DICT_NONE)
            rc = find_resource(c, project_id, &b->resources[resource], above(c, CAT_SCOPE, guess),
                               &c->resources[resource], err);
        if (rc == OTL_OK)
            rc = find_scope(c, c->dicts[CAT_RESOURCE].entries[c->resources[resource]].id,
                            &b->scopes[scope], guess, &c->scopes[scope], err);
    }
    if (rc == OTL_OK)
        rc = find_metric(c, c->dicts[CAT_SCOPE].entries[c->scopes[scope]].id, &b->metrics[i],
                         metric_guess, &c->metrics[i], err);
    return rc;
}

static enum otl_err find_series(struct catalogue *c, int64_t metric_id, const struct batch *b,
                                struct batch_series *s, uint32_t *out, struct otl_error *err)
{
    uint32_t entry = numbered(c, s->number);

    if (entry != DICT_NONE && catalogue_series(c, entry)->parent == metric_id) {
        *out = entry;
        return OTL_OK;
    }
    s->number = 0; /* of another metric: not to be learned */
    entry = dict_find(&c->dicts[CAT_SERIES], metric_id, s->attributes);
    if (entry == DICT_NONE)
        return add_series(c, metric_id, b->metrics[s->metric].type, s->attributes, out, err);
    if (entry < c->mark[CAT_SERIES])
        s->number = entry + 1;
    *out = entry;
    return OTL_OK;
}

/* After all metrics of the batch are there, so that two new ones of one request both count. */
static void count_conflicts(struct catalogue *c, const struct batch *b)
{
    c->conflicts = 0;
    for (uint32_t i = 0; i < b->n_metrics; i++) {
        uint32_t name;

        if (c->metrics[i] == DICT_NONE)
            continue;
        name = c->dicts[CAT_METRIC].entries[c->metrics[i]].note.metric.name;
        if (c->dicts[CAT_NAMES].entries[name].note.metrics > 1 && c->conflicts++ == 0)
            c->conflict_example = b->metrics[i].name;
    }
}

enum otl_err catalogue_resolve(struct catalogue *c, int64_t project_id, struct batch *b,
                               struct otl_error *err)
{
    uint32_t metric = UINT32_MAX; /* of the last series */
    int64_t metric_id = 0;

    c->batch_mark = c->dicts[CAT_SERIES].n;
    if (!reserve_undo(c, b) || !fresh(&c->resources, &c->cap_resources, b->n_resources) ||
        !fresh(&c->scopes, &c->cap_scopes, b->n_scopes) ||
        !fresh(&c->metrics, &c->cap_metrics, b->n_metrics) ||
        !reserve(&c->series, &c->cap_series, b->n_series))
        return no_memory(err);
    for (uint32_t i = 0; i < b->n_series; i++) {
        struct batch_series *s = &b->series[i];
        enum otl_err rc = OTL_OK;

        if (s->metric != metric) {
            metric = s->metric;
            if (c->metrics[metric] == DICT_NONE)
                rc = resolve_metric(c, project_id, b, metric, s->number, err);
            if (rc != OTL_OK)
                return rc;
            metric_id = c->dicts[CAT_METRIC].entries[c->metrics[metric]].id;
        }
        rc = find_series(c, metric_id, b, s, &c->series[i], err);
        if (rc != OTL_OK)
            return rc;
    }
    count_conflicts(c, b);
    return insert_series(c, c->batch_mark, err);
}
