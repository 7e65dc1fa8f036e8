/* export_otlp.c -- every stored point as OTLP/JSON, one ExportMetricsServiceRequest a line.
 *
 * The series come in the order resource, scope, metric, so that what is open in a line closes when
 * the next series is of another one. Memory is bounded by one line and the points of one series.
 *
 * The bytes come from the identity columns, never from the JSON text for people, and what is unset
 * is left out, so that decoding a line gives what was stored. One thing cannot be carried: JSON has
 * one NaN only. */
#include <inttypes.h>
#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "export_json.h"
#include "export_walk.h"

enum {
    /* A line ends at this many bytes even when it holds fewer points than asked for: receivers have
     * limits for bodies, and wide histograms reach them first. */
    LINE_BYTES = 8 << 20
};

struct exporter {
    struct read *r;
    struct db *db;
    const struct export_opts *o;
    FILE *out;
    struct buf line;

    /* What is open in line; 0 and false: nothing. */
    bool line_open;
    int64_t metric_id;
    unsigned points; /* in line */
    int64_t scope_id;
    struct buf scope_tail, resource_tail; /* what closes them */

    sqlite3_stmt *metric, *resource, *scope, *bounds;

    /* Of the series under way. */
    struct series_points p, exemplars;
    size_t next_exemplar;
    struct buf attributes; /* rendered */
    /* The last ones rendered, since the next point mostly has the same. */
    int64_t bounds_id;
    struct buf explicit_bounds;
    bool any_exemplars;
};

/* ---- points ---- */

/* Step a lookup by id that must find its row. */
static enum otl_err look_up(struct exporter *x, sqlite3_stmt *st, int64_t id, const char *table,
                            struct otl_error *err)
{
    int rc;

    (void)sqlite3_reset(st);
    rc = sqlite3_bind_int64(st, 1, id);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    if (rc == SQLITE_ROW)
        return OTL_OK;
    if (rc == SQLITE_DONE)
        return otl_fail(err, OTL_ECORRUPT,
                        "%s %" PRId64 " is missing though rows refer to it; restore from a backup",
                        table, id);
    return db_fail(x->db, rc, "read the catalogue", err);
}

static enum otl_err use_bounds(struct exporter *x, int64_t id, struct otl_error *err)
{
    enum otl_err rc;

    if (x->bounds_id == id)
        return OTL_OK;
    x->bounds_id = 0;
    buf_reset(&x->explicit_bounds);
    rc = look_up(x, x->bounds, id, "histogram_bounds", err);
    if (rc == OTL_OK && !json_add_bounds(&x->explicit_bounds, column_bytes(x->bounds, 0)))
        rc = otl_fail(err, OTL_ECORRUPT, "histogram_bounds %" PRId64 " is damaged", id);
    (void)sqlite3_reset(x->bounds);
    if (rc == OTL_OK && x->explicit_bounds.failed)
        rc = otl_fail(err, OTL_ENOMEM, "export: no memory");
    if (rc == OTL_OK)
        x->bounds_id = id;
    return rc;
}

static int64_t int_at(const struct series_points *p, int f, size_t i)
{
    return p->fields[f].v[i];
}

static void add_optional(struct exporter *x, const char *key, int f, size_t i)
{
    if (x->p.fields[f].kind[i] == VALUE_NONE)
        return;
    buf_printf(&x->line, ",\"%s\":", key);
    json_add_double(&x->line, series_points_double(&x->p, f, i));
}

static void add_value(struct buf *b, const struct series_points *p, int f, size_t i)
{
    if (p->fields[f].kind[i] == VALUE_INT) {
        json_add_int(b, "asInt", int_at(p, f, i));
    } else if (p->fields[f].kind[i] == VALUE_DOUBLE) {
        buf_add_str(b, ",\"asDouble\":");
        json_add_double(b, series_points_double(p, f, i));
    }
}

/* Left out when it is empty. */
static void add_counts(struct buf *b, const char *key, const struct series_points *p, int f,
                       size_t i)
{
    uint32_t n;
    const int64_t *v = series_points_list(p, f, i, &n);

    for (uint32_t k = 0; k < n; k++) {
        if (k == 0)
            buf_printf(b, ",\"%s\":[", key);
        buf_printf(b, "%s\"%" PRId64 "\"", k == 0 ? "" : ",", v[k]);
    }
    if (n > 0)
        buf_add_char(b, ']');
}

static enum otl_err add_exemplar(struct exporter *x, size_t e, struct otl_error *err)
{
    const struct series_points *p = &x->exemplars;
    struct buf *b = &x->line;
    struct bytes trace = series_points_bytes(p, EXEMPLAR_TRACE_ID, e),
                 span = series_points_bytes(p, EXEMPLAR_SPAN_ID, e);
    enum otl_err rc;

    /* Always there, since it saves a comma's condition for all that follows. */
    buf_printf(b, "{\"timeUnixNano\":\"%" PRId64 "\"", int_at(p, EXEMPLAR_TIME, e));
    add_value(b, p, EXEMPLAR_VALUE, e);
    if (trace.n > 0) {
        buf_add_str(b, ",\"traceId\":\"");
        buf_add_hex(b, trace);
        buf_add_char(b, '"');
    }
    if (span.n > 0) {
        buf_add_str(b, ",\"spanId\":\"");
        buf_add_hex(b, span);
        buf_add_char(b, '"');
    }
    rc = json_add_attributes(b, "filteredAttributes",
                             series_points_bytes(p, EXEMPLAR_ATTRIBUTES, e), "an exemplar", 0, err);
    buf_add_char(b, '}');
    return rc;
}

/* Those of point i. Both are in the order of keys, so one walk over the exemplars serves all
 * points. */
static enum otl_err add_exemplars(struct exporter *x, size_t i, struct otl_error *err)
{
    const struct series_points *e = &x->exemplars;
    bool first = true;
    enum otl_err rc = OTL_OK;

    while (x->next_exemplar < e->n && rc == OTL_OK) {
        size_t k = x->next_exemplar;
        int c = point_key_compare(e->time[k], e->start_time[k], x->p.time[i], x->p.start_time[i]);

        if (c > 0)
            break;
        x->next_exemplar++;
        if (c < 0 || e->fields[EXEMPLAR_VALUE].kind[k] == VALUE_NONE)
            continue;
        buf_add_str(&x->line, first ? ",\"exemplars\":[" : ",");
        first = false;
        rc = add_exemplar(x, k, err);
    }
    if (!first)
        buf_add_char(&x->line, ']');
    return rc;
}

/* What both kinds of histogram have; the fields have the same places. */
static void histogram_common(struct exporter *x, size_t i)
{
    json_add_int(&x->line, "count", int_at(&x->p, HISTOGRAM_COUNT, i));
    add_optional(x, "sum", HISTOGRAM_SUM, i);
    add_optional(x, "min", HISTOGRAM_MIN, i);
    add_optional(x, "max", HISTOGRAM_MAX, i);
}

_Static_assert((int)HISTOGRAM_COUNT == (int)EXPONENTIAL_COUNT &&
                   (int)HISTOGRAM_SUM == (int)EXPONENTIAL_SUM &&
                   (int)HISTOGRAM_MIN == (int)EXPONENTIAL_MIN &&
                   (int)HISTOGRAM_MAX == (int)EXPONENTIAL_MAX,
               "histogram_common serves both");

static enum otl_err histogram_part(struct exporter *x, size_t i, struct otl_error *err)
{
    int64_t bounds_id = int_at(&x->p, HISTOGRAM_BOUNDS_ID, i);
    enum otl_err rc;

    histogram_common(x, i);
    add_counts(&x->line, "bucketCounts", &x->p, HISTOGRAM_COUNTS, i);
    if (bounds_id == 0)
        return OTL_OK;
    rc = use_bounds(x, bounds_id, err);
    if (rc == OTL_OK && x->explicit_bounds.n > 2) { /* more than "[]" */
        buf_add_str(&x->line, ",\"explicitBounds\":");
        buf_add_bytes(&x->line, buf_bytes(&x->explicit_bounds));
    }
    return rc;
}

static void add_buckets(struct exporter *x, const char *key, int offset, int counts, size_t i)
{
    buf_printf(&x->line, ",\"%s\":{\"offset\":%" PRId64, key, int_at(&x->p, offset, i));
    add_counts(&x->line, "bucketCounts", &x->p, counts, i);
    buf_add_char(&x->line, '}');
}

static void exponential_part(struct exporter *x, size_t i)
{
    struct buf *b = &x->line;
    double threshold = series_points_double(&x->p, EXPONENTIAL_ZERO_THRESHOLD, i);
    int64_t present = int_at(&x->p, EXPONENTIAL_PRESENT, i);

    histogram_common(x, i);
    buf_printf(b, ",\"scale\":%" PRId64, int_at(&x->p, EXPONENTIAL_SCALE, i));
    json_add_int(b, "zeroCount", int_at(&x->p, EXPONENTIAL_ZERO_COUNT, i));
    if (threshold != 0 || signbit(threshold)) {
        buf_add_str(b, ",\"zeroThreshold\":");
        json_add_double(b, threshold);
    }
    if ((present & 1) != 0)
        add_buckets(x, "positive", EXPONENTIAL_POSITIVE_OFFSET, EXPONENTIAL_POSITIVE, i);
    if ((present & 2) != 0)
        add_buckets(x, "negative", EXPONENTIAL_NEGATIVE_OFFSET, EXPONENTIAL_NEGATIVE, i);
}

static void summary_part(struct exporter *x, size_t i)
{
    struct buf *b = &x->line;
    uint32_t n;
    const int64_t *v = series_points_list(&x->p, SUMMARY_QUANTILES, i, &n);

    json_add_int(b, "count", int_at(&x->p, SUMMARY_COUNT, i));
    add_optional(x, "sum", SUMMARY_SUM, i);
    for (uint32_t k = 0; k + 1 < n; k += 2) {
        double pair[2];

        memcpy(pair, v + k, sizeof(pair));
        buf_add_str(b, k == 0 ? ",\"quantileValues\":[{\"quantile\":" : ",{\"quantile\":");
        json_add_double(b, pair[0]);
        buf_add_str(b, ",\"value\":");
        json_add_double(b, pair[1]);
        buf_add_char(b, '}');
    }
    if (n > 1)
        buf_add_char(b, ']');
}

static enum otl_err add_point(struct exporter *x, size_t i, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    buf_printf(&x->line, "{\"timeUnixNano\":\"%" PRId64 "\"", x->p.time[i]);
    if (x->p.start_time[i] != 0)
        json_add_int(&x->line, "startTimeUnixNano", x->p.start_time[i]);
    if (x->p.flags[i] != 0)
        buf_printf(&x->line, ",\"flags\":%" PRId64, x->p.flags[i]);
    buf_add_bytes(&x->line, buf_bytes(&x->attributes));
    if (x->p.kind == KIND_NUMBER)
        add_value(&x->line, &x->p, NUMBER_VALUE, i);
    else if (x->p.kind == KIND_HISTOGRAM)
        rc = histogram_part(x, i, err);
    else if (x->p.kind == KIND_EXPONENTIAL)
        exponential_part(x, i);
    else
        summary_part(x, i);
    if (rc == OTL_OK)
        rc = add_exemplars(x, i, err);
    buf_add_char(&x->line, '}');
    x->points++;
    return rc;
}

/* ---- lines ---- */

static void add_text(struct buf *b, const char *key, struct bytes text)
{
    if (text.n == 0)
        return;
    buf_printf(b, ",\"%s\":", key);
    buf_add_json_string(b, text);
}

/* The members of an object are written with a comma in front; the first one has none. */
static void drop_first_comma(struct buf *b, size_t at)
{
    if (b->failed || at >= b->n || b->p[at] != ',')
        return;
    memmove(b->p + at, b->p + at + 1, b->n - at - 1);
    b->n--;
}

static enum otl_err add_resource(struct exporter *x, int64_t id, struct otl_error *err)
{
    struct buf *b = &x->line;
    enum otl_err rc = look_up(x, x->resource, id, "resource", err);
    sqlite3_stmt *st = x->resource;
    struct bytes refs;
    size_t at;

    if (rc != OTL_OK)
        return rc;
    buf_add_str(b, "{\"resource\":{");
    at = b->n;
    rc = json_add_attributes(b, "attributes", column_bytes(st, 0), "resource", id, err);
    if (column_int(st, 1) != 0)
        buf_printf(b, ",\"droppedAttributesCount\":%" PRId64, column_int(st, 1));
    refs = column_bytes(st, 2);
    if (refs.n > 0) {
        buf_add_str(b, ",\"entityRefs\":");
        buf_add_bytes(b, refs);
    }
    drop_first_comma(b, at);
    buf_add_str(b, "},\"scopeMetrics\":[");
    buf_reset(&x->resource_tail);
    buf_add_char(&x->resource_tail, ']');
    add_text(&x->resource_tail, "schemaUrl", column_bytes(st, 3));
    buf_add_char(&x->resource_tail, '}');
    (void)sqlite3_reset(st);
    return rc;
}

static enum otl_err add_scope(struct exporter *x, int64_t id, struct otl_error *err)
{
    struct buf *b = &x->line;
    enum otl_err rc = look_up(x, x->scope, id, "scope", err);
    sqlite3_stmt *st = x->scope;
    size_t at;

    if (rc != OTL_OK)
        return rc;
    buf_add_str(b, "{\"scope\":{");
    at = b->n;
    add_text(b, "name", column_bytes(st, 0));
    add_text(b, "version", column_bytes(st, 1));
    rc = json_add_attributes(b, "attributes", column_bytes(st, 2), "scope", id, err);
    if (column_int(st, 3) != 0)
        buf_printf(b, ",\"droppedAttributesCount\":%" PRId64, column_int(st, 3));
    drop_first_comma(b, at);
    buf_add_str(b, "},\"metrics\":[");
    buf_reset(&x->scope_tail);
    buf_add_char(&x->scope_tail, ']');
    add_text(&x->scope_tail, "schemaUrl", column_bytes(st, 4));
    buf_add_char(&x->scope_tail, '}');
    (void)sqlite3_reset(st);
    return rc;
}

static const char *type_member(enum metric_type t)
{
    switch (t) {
    case METRIC_GAUGE:
        return "gauge";
    case METRIC_SUM:
        return "sum";
    case METRIC_HISTOGRAM:
        return "histogram";
    case METRIC_EXPONENTIAL_HISTOGRAM:
        return "exponentialHistogram";
    case METRIC_SUMMARY:
        break;
    }
    return "summary";
}

static enum otl_err open_metric(struct exporter *x, const struct series_info *s,
                                struct otl_error *err)
{
    sqlite3_stmt *st = x->metric;
    struct buf *b = &x->line;
    enum otl_err rc = look_up(x, st, s->metric_id, "metric", err);

    if (rc != OTL_OK)
        return rc;
    buf_add_str(b, "{\"name\":");
    buf_add_json_string(b, s->name);
    add_text(b, "description", column_bytes(st, 0));
    add_text(b, "unit", s->unit);
    rc = json_add_attributes(b, "metadata", column_bytes(st, 1), "metric", s->metric_id, err);
    (void)sqlite3_reset(st);
    buf_printf(b, ",\"%s\":{", type_member(s->type));
    if (s->temporality == TEMPORALITY_DELTA)
        buf_add_str(b, "\"aggregationTemporality\":1,");
    else if (s->temporality == TEMPORALITY_CUMULATIVE)
        buf_add_str(b, "\"aggregationTemporality\":2,");
    if (s->is_monotonic)
        buf_add_str(b, "\"isMonotonic\":true,");
    buf_add_str(b, "\"dataPoints\":[");
    x->metric_id = s->metric_id;
    return rc;
}

static void close_metric(struct exporter *x)
{
    if (x->metric_id != 0)
        buf_add_str(&x->line, "]}}");
    x->metric_id = 0;
}

static enum otl_err write_line(struct exporter *x, struct otl_error *err)
{
    struct buf *b = &x->line;

    if (!x->line_open)
        return OTL_OK;
    close_metric(x);
    buf_add_bytes(b, buf_bytes(&x->scope_tail));
    buf_add_bytes(b, buf_bytes(&x->resource_tail));
    buf_add_str(b, "]}\n");
    x->line_open = false;
    if (b->failed || x->scope_tail.failed || x->resource_tail.failed)
        return otl_fail(err, OTL_ENOMEM, "export: no memory");
    if (fwrite(b->p, 1, b->n, x->out) != b->n)
        return export_write_failed(err);
    return OTL_OK;
}

/* Make line ready for one more point of a series. */
static enum otl_err make_room(struct exporter *x, const struct series_info *s,
                              struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    if (x->line_open &&
        (s->scope_id != x->scope_id || x->points >= x->o->max_points || x->line.n >= LINE_BYTES))
        rc = write_line(x, err);
    if (rc != OTL_OK)
        return rc;
    if (x->line_open && x->metric_id == s->metric_id) {
        buf_add_char(&x->line, ',');
        return OTL_OK;
    }
    if (x->line_open) {
        close_metric(x);
        buf_add_char(&x->line, ',');
        return open_metric(x, s, err);
    }
    buf_reset(&x->line);
    x->points = 0;
    x->line_open = true;
    x->scope_id = s->scope_id;
    buf_add_str(&x->line, "{\"resourceMetrics\":[");
    rc = add_resource(x, s->resource_id, err);
    if (rc == OTL_OK)
        rc = add_scope(x, s->scope_id, err);
    return rc == OTL_OK ? open_metric(x, s, err) : rc;
}

/* ---- the walk ---- */

static enum otl_err export_one(struct exporter *x, const struct series_info *s,
                               struct otl_error *err)
{
    enum otl_err rc = export_points(x->r, x->o, s, &x->p, err);

    series_points_reset(&x->exemplars);
    x->next_exemplar = 0;
    if (rc == OTL_OK && x->any_exemplars)
        rc = read_points(x->r, KIND_EXEMPLAR, s->id, x->o->from, x->o->to, &x->exemplars, err);
    buf_reset(&x->attributes);
    if (rc == OTL_OK)
        rc = json_add_attributes(&x->attributes, "attributes", s->attributes, "series", s->id, err);
    if (rc == OTL_OK && x->attributes.failed)
        rc = otl_fail(err, OTL_ENOMEM, "export: no memory");
    for (size_t i = 0; i < x->p.n && rc == OTL_OK; i++) {
        rc = make_room(x, s, err);
        if (rc == OTL_OK)
            rc = add_point(x, i, err);
        if (rc == OTL_OK && x->line.failed)
            rc = otl_fail(err, OTL_ENOMEM, "export: no memory");
    }
    return rc;
}

static enum otl_err export_all(struct exporter *x, struct otl_error *err)
{
    struct series_info *series;
    size_t n;
    enum otl_err rc = export_series(x->r, x->o, &series, &n, err);

    for (size_t i = 0; i < n && rc == OTL_OK; i++) {
        rc = export_one(x, &series[i], err);
        if (x->o->progress != NULL)
            x->o->progress(x->o->arg, i + 1, n);
    }
    free(series);
    if (rc == OTL_OK)
        rc = write_line(x, err);
    if (rc == OTL_OK && fflush(x->out) != 0)
        rc = export_write_failed(err);
    return rc;
}

static enum otl_err prepare_all(struct exporter *x, struct otl_error *err)
{
    const struct {
        sqlite3_stmt **st;
        const char *sql;
    } lookups[] = {
        {&x->metric, "SELECT description, metadata_identity FROM metric WHERE id = ?1"},
        {&x->resource, "SELECT identity, dropped_attributes_count, entity_refs, schema_url"
                       " FROM resource WHERE id = ?1"},
        {&x->scope, "SELECT name, version, identity, dropped_attributes_count, schema_url"
                    " FROM scope WHERE id = ?1"},
        {&x->bounds, "SELECT bounds FROM histogram_bounds WHERE id = ?1"},
    };
    int64_t exemplars = 0;
    enum otl_err rc = db_query_int(x->db,
                                   "SELECT EXISTS (SELECT 1 FROM part WHERE kind = 'exemplar')"
                                   " OR EXISTS (SELECT 1 FROM exemplar_head_0)"
                                   " OR EXISTS (SELECT 1 FROM exemplar_head_1)",
                                   &exemplars, err);

    x->any_exemplars = exemplars != 0;
    for (size_t i = 0; rc == OTL_OK && i < sizeof(lookups) / sizeof(lookups[0]); i++)
        rc = db_prepare(x->db, lookups[i].sql, lookups[i].st, err);
    return rc;
}

static void exporter_fini(struct exporter *x)
{
    sqlite3_stmt *const all[] = {x->metric, x->resource, x->scope, x->bounds};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        (void)sqlite3_finalize(all[i]);
    series_points_fini(&x->p);
    series_points_fini(&x->exemplars);
    buf_fini(&x->line);
    buf_fini(&x->scope_tail);
    buf_fini(&x->resource_tail);
    buf_fini(&x->attributes);
    buf_fini(&x->explicit_bounds);
}

enum otl_err export_otlp_json(struct read *r, struct db *db, const struct export_opts *o, FILE *out,
                              struct otl_error *err)
{
    struct exporter x = {.r = r, .db = db, .o = o, .out = out};
    enum otl_err rc;

    series_points_init(&x.p, KIND_NUMBER);
    series_points_init(&x.exemplars, KIND_EXEMPLAR);
    rc = prepare_all(&x, err);
    if (rc == OTL_OK)
        rc = export_all(&x, err);
    exporter_fini(&x);
    return rc;
}
