/* read_catalogue.c -- the catalogue of a read (read.h): what the index of labels has of it, and
 * what is read from its tables one row at a time. */
#include <inttypes.h>
#include <sqlite3.h>

#include "read_internal.h"
#include "rows.h"

enum otl_err read_metrics(struct read *r, int64_t after,
                          enum otl_err (*emit)(void *arg, const struct metric_info *m,
                                               struct otl_error *err),
                          void *arg, struct otl_error *err)
{
    struct label_check check = read_label_check(r);
    struct label_view *v;
    enum otl_err rc = read_labels(r, &v, err);

    return rc == OTL_OK ? label_view_metrics(v, after, &check, emit, arg, err) : rc;
}

enum otl_err read_resources(struct read *r, int64_t project_id,
                            enum otl_err (*emit)(void *arg, const struct resource_info *info,
                                                 struct otl_error *err),
                            void *arg, struct otl_error *err)
{
    struct label_check check = read_label_check(r);
    struct label_view *v;
    enum otl_err rc = read_labels(r, &v, err);

    return rc == OTL_OK ? label_view_resources(v, project_id, &check, emit, arg, err) : rc;
}

enum otl_err read_resource_series(struct read *r, int64_t resource_id, struct series_list *out,
                                  struct otl_error *err)
{
    size_t before = out->cap;
    struct label_view *v;
    enum otl_err rc = read_labels(r, &v, err);

    if (rc == OTL_OK)
        rc = label_view_resource_series(v, resource_id, out, err);
    if (rc == OTL_OK && out->cap > before)
        rc = read_charge(r, (int64_t)((out->cap - before) * sizeof(*out->ids)), err);
    return rc;
}

enum otl_err read_keys(struct read *r, enum match_what what,
                       enum otl_err (*emit)(void *arg, struct bytes key, struct otl_error *err),
                       void *arg, struct otl_error *err)
{
    struct label_check check = read_label_check(r);
    struct label_view *v;
    enum otl_err rc = read_labels(r, &v, err);

    return rc == OTL_OK ? label_view_keys(v, what, &check, emit, arg, err) : rc;
}

/* ---- single rows ---- */

static const char *const ROW_SQL[READ_ROWS] = {
    [READ_ROW_SCOPE] = "SELECT name, version, schema_url, identity FROM scope WHERE id = ?1",
    [READ_ROW_METRIC] = "SELECT description, metadata_identity FROM metric WHERE id = ?1",
    [READ_ROW_BOUNDS] = "SELECT bounds FROM histogram_bounds WHERE id = ?1",
};
static const char *const ROW_NAME[READ_ROWS] = {"scope", "metric", "histogram_bounds"};

/* The statement on the row of that id; to be reset by the caller. */
static enum otl_err find_row(struct read *r, enum read_row which, int64_t id,
                             struct sqlite3_stmt **out, struct otl_error *err)
{
    struct read_session *s = r->session;
    enum otl_err rc = OTL_OK;
    int step;

    if (s->rows[which] == NULL)
        rc = db_prepare(s->db, ROW_SQL[which], &s->rows[which], err);
    if (rc != OTL_OK)
        return rc;
    step = sqlite3_bind_int64(s->rows[which], 1, id);
    if (step == SQLITE_OK)
        step = sqlite3_step(s->rows[which]);
    if (step == SQLITE_ROW) {
        *out = s->rows[which];
        return OTL_OK;
    }
    rc = step == SQLITE_DONE ? otl_fail(err, OTL_ECORRUPT,
                                        "The catalogue is damaged: %s %" PRId64
                                        " is not there. \"otlite check\" tells more.",
                                        ROW_NAME[which], id)
                             : db_fail(s->db, step, "read the catalogue", err);
    (void)sqlite3_reset(s->rows[which]);
    return rc;
}

static struct bytes column(sqlite3_stmt *st, int i)
{
    const void *p = sqlite3_column_blob(st, i);

    return p == NULL ? bytes_of("", 0) : bytes_of(p, (size_t)sqlite3_column_bytes(st, i));
}

enum otl_err read_scope(struct read *r, int64_t scope_id, struct buf *text, struct scope_info *out,
                        struct otl_error *err)
{
    struct sqlite3_stmt *st;
    struct bytes *const parts[] = {&out->name, &out->version, &out->schema_url, &out->attributes};
    enum otl_err rc = find_row(r, READ_ROW_SCOPE, scope_id, &st, err);
    size_t at = 0;

    if (rc != OTL_OK)
        return rc;
    buf_reset(text);
    for (int i = 0; i < 4; i++) {
        *parts[i] = column(st, i);
        buf_add_bytes(text, *parts[i]);
    }
    if (text->failed)
        rc = otl_fail(err, OTL_ENOMEM, "read the catalogue: no memory");
    for (int i = 0; i < 4 && rc == OTL_OK; i++) { /* only now: the buffer may have moved */
        parts[i]->p = text->p + at;
        at += parts[i]->n;
    }
    (void)sqlite3_reset(st);
    return rc;
}

enum otl_err read_description(struct read *r, int64_t metric_id, struct buf *description,
                              struct buf *metadata, struct otl_error *err)
{
    struct sqlite3_stmt *st;
    enum otl_err rc = find_row(r, READ_ROW_METRIC, metric_id, &st, err);

    if (rc != OTL_OK)
        return rc;
    buf_add_bytes(description, column(st, 0));
    buf_add_bytes(metadata, column(st, 1));
    (void)sqlite3_reset(st);
    return description->failed || metadata->failed
               ? otl_fail(err, OTL_ENOMEM, "read the catalogue: no memory")
               : OTL_OK;
}

enum otl_err read_bounds(struct read *r, int64_t bounds_id, double **out, size_t *n,
                         struct otl_error *err)
{
    struct sqlite3_stmt *st;
    enum otl_err rc = find_row(r, READ_ROW_BOUNDS, bounds_id, &st, err);

    if (rc != OTL_OK)
        return rc;
    if (!bounds_parse(column(st, 0), out, n))
        rc = otl_fail(err, OTL_ECORRUPT,
                      "The catalogue is damaged: histogram_bounds %" PRId64
                      " cannot be read. \"otlite check\" tells more.",
                      bounds_id);
    (void)sqlite3_reset(st);
    return rc;
}
