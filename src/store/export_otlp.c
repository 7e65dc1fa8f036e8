/* export_otlp.c -- every stored point as OTLP/JSON, one ExportMetricsServiceRequest a line.
 *
 * The point tables have no index (it would cost most of the ingest rate), so each is scanned once
 * and sorted by SQLite: one cursor a type, in the order resource, scope, metric, series, time. A
 * further cursor walks the metrics in the same order; a metric has one type, so its points are the
 * next rows of one cursor, and exemplars come in the order of their points:
 *
 *     metrics  ->  1 gauge   2 histogram   3 gauge ...
 *     number_point cursor     1 1 1 1 3 3
 *     histogram_point cursor  2 2 2
 *
 * Memory is bounded by one line, and by the five sorters, which spill to temporary files beyond the
 * connection's cache_size (hence temp_store is FILE while exporting).
 *
 * The bytes come from the identity columns, never from the JSON text for people, and what is unset
 * is left out, so that decoding a line gives what was stored. One thing cannot be carried: JSON has
 * one NaN only. */
#include <inttypes.h>
#include <math.h>
#include <sqlite3.h>
#include <string.h>

#include "export_json.h"
#include "otlite/export.h"

enum {
    /* A line ends at this many bytes even when it holds fewer points than asked for: receivers have
     * limits for bodies, and wide histograms reach them first. */
    LINE_BYTES = 8 << 20
};

/* The columns that every point cursor begins with. */
enum { COL_METRIC, COL_SERIES, COL_ID, COL_TIME, COL_START, COL_FLAGS, COL_OWN };

/* The columns of the cursor of exemplars; it is sorted by those before EX_TIME. */
enum {
    EX_RESOURCE,
    EX_SCOPE,
    EX_METRIC,
    EX_SERIES,
    EX_POINT_TIME,
    EX_POINT_START,
    EX_ID,
    EX_TIME,
    EX_VALUE,
    EX_TRACE,
    EX_SPAN,
    EX_IDENTITY
};

struct exporter;

enum { KIND_NUMBER, KIND_HISTOGRAM, KIND_EXPONENTIAL, KIND_SUMMARY, KINDS };

struct exporter {
    struct db *db;
    FILE *out;
    unsigned max_points;
    struct buf line;

    /* What is open in line; 0 and false: nothing. */
    bool line_open, metric_open;
    unsigned points; /* in line */
    int64_t scope_id, resource_id;
    struct buf scope_tail, resource_tail; /* what closes them */

    sqlite3_stmt *metrics, *resource, *scope, *series, *bounds, *exemplars;
    sqlite3_stmt *cursor[KINDS];
    bool more[KINDS]; /* the cursor stands on a row */

    /* The last ones rendered, since the next point mostly has the same. */
    int64_t series_id, bounds_id;
    struct buf attributes, explicit_bounds;
    bool more_exemplars; /* their cursor stands on a row */
};

/* ---- points ---- */

static enum otl_err damaged(sqlite3_stmt *st, const char *column, struct otl_error *err)
{
    return otl_fail(err, OTL_ECORRUPT,
                    "%s of the point with id %" PRId64 " and series %" PRId64 " is damaged; run "
                    "PRAGMA integrity_check and restore from a backup",
                    column, column_int(st, COL_ID), column_int(st, COL_SERIES));
}

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

/* x->attributes: what a point of this series begins with, rendered once a run of points. */
static enum otl_err use_series(struct exporter *x, int64_t id, struct otl_error *err)
{
    enum otl_err rc;

    if (x->series_id == id)
        return OTL_OK;
    x->series_id = 0;
    buf_reset(&x->attributes);
    rc = look_up(x, x->series, id, "series", err);
    if (rc == OTL_OK)
        rc = json_add_attributes(&x->attributes, "attributes", column_bytes(x->series, 0), "series",
                                 id, err);
    (void)sqlite3_reset(x->series);
    if (rc == OTL_OK && x->attributes.failed)
        rc = otl_fail(err, OTL_ENOMEM, "export: no memory");
    if (rc == OTL_OK)
        x->series_id = id;
    return rc;
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

static enum otl_err advance_exemplars(struct exporter *x, struct otl_error *err)
{
    int rc = sqlite3_step(x->exemplars);

    x->more_exemplars = rc == SQLITE_ROW;
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        return db_fail(x->db, rc, "read and sort the exemplars", err);
    return OTL_OK;
}

/* < 0: the exemplar is of a point before this one; > 0: of a later one. */
static int compare_exemplar(const struct exporter *x, sqlite3_stmt *point)
{
    const int64_t key[EX_ID] = {
        [EX_RESOURCE] = x->resource_id,
        [EX_SCOPE] = x->scope_id,
        [EX_METRIC] = column_int(point, COL_METRIC),
        [EX_SERIES] = column_int(point, COL_SERIES),
        [EX_POINT_TIME] = column_int(point, COL_TIME),
        [EX_POINT_START] = column_int(point, COL_START),
    };

    for (int i = 0; i < EX_ID; i++) {
        int64_t is = column_int(x->exemplars, i);

        if (is != key[i])
            return is < key[i] ? -1 : 1;
    }
    return 0;
}

/* The cursor of exemplars keeps up with those of points. Exemplars of a point that is not there are
 * passed over. */
static enum otl_err add_exemplars(struct exporter *x, sqlite3_stmt *point, struct otl_error *err)
{
    sqlite3_stmt *st = x->exemplars;
    struct buf *b = &x->line;
    bool first = true;
    enum otl_err rc = OTL_OK;
    int order;

    while (rc == OTL_OK && x->more_exemplars && (order = compare_exemplar(x, point)) <= 0) {
        struct bytes trace = column_bytes(st, EX_TRACE), span = column_bytes(st, EX_SPAN);

        if (order < 0) {
            rc = advance_exemplars(x, err);
            continue;
        }
        buf_add_str(b, first ? ",\"exemplars\":[{" : ",{");
        first = false;
        /* Always there, since it saves a comma's condition for all that follows. */
        buf_printf(b, "\"timeUnixNano\":\"%" PRId64 "\"", column_int(st, EX_TIME));
        json_add_value(b, st, EX_VALUE);
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
        rc = json_add_attributes(b, "filteredAttributes", column_bytes(st, EX_IDENTITY), "exemplar",
                                 column_int(st, EX_ID), err);
        buf_add_char(b, '}');
        if (rc == OTL_OK)
            rc = advance_exemplars(x, err);
    }
    if (!first)
        buf_add_char(b, ']');
    return rc;
}

static enum otl_err number_part(struct exporter *x, sqlite3_stmt *st, struct otl_error *err)
{
    (void)err;
    json_add_value(&x->line, st, COL_OWN);
    return OTL_OK;
}

enum { HISTOGRAM_COUNT = COL_OWN, HISTOGRAM_SUM, HISTOGRAM_MIN, HISTOGRAM_MAX, HISTOGRAM_OWN };

/* What both kinds of histogram have. */
static void histogram_common(struct buf *b, sqlite3_stmt *st)
{
    json_add_int(b, "count", column_int(st, HISTOGRAM_COUNT));
    json_add_optional(b, "sum", st, HISTOGRAM_SUM);
    json_add_optional(b, "min", st, HISTOGRAM_MIN);
    json_add_optional(b, "max", st, HISTOGRAM_MAX);
}

static enum otl_err histogram_part(struct exporter *x, sqlite3_stmt *st, struct otl_error *err)
{
    struct buf *b = &x->line;
    enum otl_err rc;

    histogram_common(b, st);
    if (!column_is_null(st, HISTOGRAM_OWN + 1) &&
        !json_add_counts(b, "bucketCounts", column_bytes(st, HISTOGRAM_OWN + 1)))
        return damaged(st, "bucket_counts", err);
    if (column_is_null(st, HISTOGRAM_OWN))
        return OTL_OK;
    rc = use_bounds(x, column_int(st, HISTOGRAM_OWN), err);
    if (rc == OTL_OK && x->explicit_bounds.n > 2) { /* more than "[]" */
        buf_add_str(b, ",\"explicitBounds\":");
        buf_add_bytes(b, buf_bytes(&x->explicit_bounds));
    }
    return rc;
}

/* Buckets are there when they have an offset. */
static bool add_buckets(struct buf *b, const char *key, sqlite3_stmt *st, int col)
{
    if (column_is_null(st, col))
        return true;
    buf_printf(b, ",\"%s\":{\"offset\":%" PRId64, key, column_int(st, col));
    if (!column_is_null(st, col + 1) &&
        !json_add_counts(b, "bucketCounts", column_bytes(st, col + 1)))
        return false;
    buf_add_char(b, '}');
    return true;
}

static enum otl_err exponential_part(struct exporter *x, sqlite3_stmt *st, struct otl_error *err)
{
    struct buf *b = &x->line;
    double threshold = column_double(st, HISTOGRAM_OWN + 2);

    histogram_common(b, st);
    buf_printf(b, ",\"scale\":%" PRId64, column_int(st, HISTOGRAM_OWN));
    json_add_int(b, "zeroCount", column_int(st, HISTOGRAM_OWN + 1));
    if (threshold != 0 || signbit(threshold)) {
        buf_add_str(b, ",\"zeroThreshold\":");
        json_add_double(b, threshold);
    }
    if (!add_buckets(b, "positive", st, HISTOGRAM_OWN + 3))
        return damaged(st, "positive_counts", err);
    if (!add_buckets(b, "negative", st, HISTOGRAM_OWN + 5))
        return damaged(st, "negative_counts", err);
    return OTL_OK;
}

static enum otl_err summary_part(struct exporter *x, sqlite3_stmt *st, struct otl_error *err)
{
    json_add_int(&x->line, "count", column_int(st, COL_OWN));
    json_add_optional(&x->line, "sum", st, COL_OWN + 1);
    if (!json_add_quantiles(&x->line, column_bytes(st, COL_OWN + 2)))
        return damaged(st, "quantiles", err);
    return OTL_OK;
}

/* CROSS JOIN fixes the order of the loops: the points outside, looking up by primary key inside.
 * The planner, left alone, may build an index over all points instead. */
#define POINTS(table, columns)                                                               \
    "SELECT m.id, s.id, p.rowid, p.time, p.start_time, p.flags, " columns " FROM " table " p"   \
    " CROSS JOIN series s ON s.id = p.series_id CROSS JOIN metric m ON m.id = s.metric_id"   \
    " CROSS JOIN scope c ON c.id = m.scope_id CROSS JOIN resource r ON r.id = c.resource_id" \
    " WHERE ?1 = 0 OR r.project_id = ?1"                                                     \
    " ORDER BY r.id, c.id, m.id, s.id, p.time, p.start_time"

/* One point type: its cursor, and how the part of a point that only this type has is written. */
static const struct kind {
    const char *sql;
    enum otl_err (*part)(struct exporter *x, sqlite3_stmt *st, struct otl_error *err);
} kinds[KINDS] = {
    [KIND_NUMBER] = {POINTS("number_point", "p.value"), number_part},
    [KIND_HISTOGRAM] = {POINTS("histogram_point",
                               "p.count, p.sum, p.min, p.max, p.bounds_id, p.bucket_counts"),
                        histogram_part},
    [KIND_EXPONENTIAL] = {POINTS("exponential_histogram_point",
                                 "p.count, p.sum, p.min, p.max, p.scale, p.zero_count,"
                                 " p.zero_threshold, p.positive_offset, p.positive_counts,"
                                 " p.negative_offset, p.negative_counts"),
                          exponential_part},
    [KIND_SUMMARY] = {POINTS("summary_point", "p.count, p.sum, p.quantiles"), summary_part},
};

static enum otl_err add_point(struct exporter *x, int kind, struct otl_error *err)
{
    sqlite3_stmt *st = x->cursor[kind];
    int64_t series = column_int(st, COL_SERIES);
    int64_t start = column_int(st, COL_START);
    int64_t flags = column_int(st, COL_FLAGS);
    enum otl_err rc = use_series(x, series, err);

    if (rc != OTL_OK)
        return rc;
    buf_printf(&x->line, "{\"timeUnixNano\":\"%" PRId64 "\"", column_int(st, COL_TIME));
    if (start != 0)
        json_add_int(&x->line, "startTimeUnixNano", start);
    if (flags != 0)
        buf_printf(&x->line, ",\"flags\":%" PRId64, flags);
    buf_add_bytes(&x->line, buf_bytes(&x->attributes));
    rc = kinds[kind].part(x, st, err);
    if (rc == OTL_OK)
        rc = add_exemplars(x, st, err);
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

/* The columns of the metrics cursor. */
enum {
    M_ID,
    M_SCOPE,
    M_RESOURCE,
    M_NAME,
    M_UNIT,
    M_DESCRIPTION,
    M_TYPE,
    M_TEMPORALITY,
    M_MONOTONIC,
    M_METADATA
};

static bool column_is(sqlite3_stmt *st, int col, const char *word)
{
    return bytes_equal(column_bytes(st, col), bytes_str(word));
}

static enum otl_err open_metric(struct exporter *x, struct otl_error *err)
{
    sqlite3_stmt *st = x->metrics;
    struct buf *b = &x->line;
    enum otl_err rc;

    buf_add_str(b, "{\"name\":");
    buf_add_json_string(b, column_bytes(st, M_NAME));
    add_text(b, "description", column_bytes(st, M_DESCRIPTION));
    add_text(b, "unit", column_bytes(st, M_UNIT));
    rc = json_add_attributes(b, "metadata", column_bytes(st, M_METADATA), "metric",
                             column_int(st, M_ID), err);
    buf_add_str(b, ",\"");
    if (column_is(st, M_TYPE, "exponential_histogram"))
        buf_add_str(b, "exponentialHistogram");
    else
        buf_add_bytes(b, column_bytes(st, M_TYPE));
    buf_add_str(b, "\":{");
    if (column_is(st, M_TEMPORALITY, "delta"))
        buf_add_str(b, "\"aggregationTemporality\":1,");
    else if (column_is(st, M_TEMPORALITY, "cumulative"))
        buf_add_str(b, "\"aggregationTemporality\":2,");
    if (sqlite3_column_int(st, M_MONOTONIC) != 0)
        buf_add_str(b, "\"isMonotonic\":true,");
    buf_add_str(b, "\"dataPoints\":[");
    x->metric_open = true;
    return rc;
}

static void close_metric(struct exporter *x)
{
    if (x->metric_open)
        buf_add_str(&x->line, "]}}");
    x->metric_open = false;
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

/* Make line ready for one more point of the metric that the metrics cursor stands on. */
static enum otl_err make_room(struct exporter *x, struct otl_error *err)
{
    int64_t scope = column_int(x->metrics, M_SCOPE);
    enum otl_err rc = OTL_OK;

    if (x->line_open &&
        (scope != x->scope_id || x->points >= x->max_points || x->line.n >= LINE_BYTES))
        rc = write_line(x, err);
    if (rc != OTL_OK)
        return rc;
    if (!x->line_open) {
        buf_reset(&x->line);
        x->points = 0;
        x->line_open = true;
        x->scope_id = scope;
        x->resource_id = column_int(x->metrics, M_RESOURCE);
        buf_add_str(&x->line, "{\"resourceMetrics\":[");
        rc = add_resource(x, x->resource_id, err);
        if (rc == OTL_OK)
            rc = add_scope(x, scope, err);
    } else if (!x->metric_open) {
        buf_add_char(&x->line, ',');
    }
    if (rc == OTL_OK && !x->metric_open)
        return open_metric(x, err);
    if (rc == OTL_OK)
        buf_add_char(&x->line, ',');
    return rc;
}

/* ---- the walk ---- */

static enum otl_err advance(struct exporter *x, int kind, struct otl_error *err)
{
    int rc = sqlite3_step(x->cursor[kind]);

    x->more[kind] = rc == SQLITE_ROW;
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        return db_fail(x->db, rc, "read and sort the points", err);
    return OTL_OK;
}

static int kind_of(sqlite3_stmt *metrics)
{
    if (column_is(metrics, M_TYPE, "histogram"))
        return KIND_HISTOGRAM;
    if (column_is(metrics, M_TYPE, "exponential_histogram"))
        return KIND_EXPONENTIAL;
    if (column_is(metrics, M_TYPE, "summary"))
        return KIND_SUMMARY;
    return KIND_NUMBER;
}

static enum otl_err export_metric(struct exporter *x, struct otl_error *err)
{
    int kind = kind_of(x->metrics);
    int64_t metric = column_int(x->metrics, M_ID);
    enum otl_err rc = OTL_OK;

    while (rc == OTL_OK && x->more[kind] && column_int(x->cursor[kind], COL_METRIC) == metric) {
        rc = make_room(x, err);
        if (rc == OTL_OK)
            rc = add_point(x, kind, err);
        if (rc == OTL_OK && x->line.failed)
            rc = otl_fail(err, OTL_ENOMEM, "export: no memory");
        if (rc == OTL_OK)
            rc = advance(x, kind, err);
    }
    close_metric(x);
    return rc;
}

static enum otl_err export_all(struct exporter *x, struct otl_error *err)
{
    enum otl_err rc = advance_exemplars(x, err);
    int step = SQLITE_DONE;

    for (int k = 0; rc == OTL_OK && k < KINDS; k++)
        rc = advance(x, k, err);
    while (rc == OTL_OK && (step = sqlite3_step(x->metrics)) == SQLITE_ROW)
        rc = export_metric(x, err);
    if (rc == OTL_OK && step != SQLITE_DONE)
        rc = db_fail(x->db, step, "read the metrics", err);
    for (int k = 0; rc == OTL_OK && k < KINDS; k++)
        if (x->more[k])
            rc = otl_fail(err, OTL_ECORRUPT,
                          "metric %" PRId64 " has points of another type than its own",
                          column_int(x->cursor[k], COL_METRIC));
    if (rc == OTL_OK)
        rc = write_line(x, err);
    if (rc == OTL_OK && fflush(x->out) != 0)
        rc = export_write_failed(err);
    return rc;
}

static enum otl_err prepare_all(struct exporter *x, int64_t project_id, struct otl_error *err)
{
    const struct {
        sqlite3_stmt **st;
        const char *sql;
    } lookups[] = {
        {&x->metrics,
         "SELECT m.id, c.id, r.id, m.name, m.unit, m.description, m.type, m.temporality,"
         " m.is_monotonic, m.metadata_identity FROM metric m JOIN scope c ON c.id = m.scope_id"
         " JOIN resource r ON r.id = c.resource_id WHERE ?1 = 0 OR r.project_id = ?1"
         " ORDER BY r.id, c.id, m.id"},
        {&x->resource, "SELECT identity, dropped_attributes_count, entity_refs, schema_url"
                       " FROM resource WHERE id = ?1"},
        {&x->scope, "SELECT name, version, identity, dropped_attributes_count, schema_url"
                    " FROM scope WHERE id = ?1"},
        {&x->series, "SELECT identity FROM series WHERE id = ?1"},
        {&x->bounds, "SELECT bounds FROM histogram_bounds WHERE id = ?1"},
        {&x->exemplars,
         "SELECT r.id, c.id, m.id, s.id, e.point_time, e.point_start_time, e.rowid, e.time, e.value,"
         " e.trace_id, e.span_id, e.identity FROM exemplar e"
         " CROSS JOIN series s ON s.id = e.series_id CROSS JOIN metric m ON m.id = s.metric_id"
         " CROSS JOIN scope c ON c.id = m.scope_id CROSS JOIN resource r ON r.id = c.resource_id"
         " WHERE ?1 = 0 OR r.project_id = ?1 ORDER BY 1, 2, 3, 4, 5, 6, 7"},
    };
    enum otl_err rc = OTL_OK;
    int bind = SQLITE_OK;

    for (size_t i = 0; rc == OTL_OK && i < sizeof(lookups) / sizeof(lookups[0]); i++)
        rc = db_prepare(x->db, lookups[i].sql, lookups[i].st, err);
    for (int k = 0; rc == OTL_OK && k < KINDS; k++) {
        rc = db_prepare(x->db, kinds[k].sql, &x->cursor[k], err);
        if (rc == OTL_OK)
            bind = sqlite3_bind_int64(x->cursor[k], 1, project_id);
        if (rc == OTL_OK && bind != SQLITE_OK)
            rc = db_fail(x->db, bind, "prepare the export", err);
    }
    if (rc == OTL_OK)
        bind = sqlite3_bind_int64(x->metrics, 1, project_id);
    if (rc == OTL_OK && bind == SQLITE_OK)
        bind = sqlite3_bind_int64(x->exemplars, 1, project_id);
    if (rc == OTL_OK && bind != SQLITE_OK)
        rc = db_fail(x->db, bind, "prepare the export", err);
    return rc;
}

static void exporter_fini(struct exporter *x)
{
    sqlite3_stmt *const all[] = {x->metrics, x->resource, x->scope,
                                 x->series,  x->bounds,   x->exemplars};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        sqlite3_finalize(all[i]);
    for (int k = 0; k < KINDS; k++)
        sqlite3_finalize(x->cursor[k]);
    buf_fini(&x->line);
    buf_fini(&x->scope_tail);
    buf_fini(&x->resource_tail);
    buf_fini(&x->attributes);
    buf_fini(&x->explicit_bounds);
}

enum otl_err export_otlp_json(struct db *db, int64_t project_id, unsigned max_points, FILE *out,
                              struct otl_error *err)
{
    struct exporter x = {.db = db, .out = out, .max_points = max_points > 0 ? max_points : 1};
    /* A caller's own transaction is a snapshot too, and its temp_store cannot be changed. */
    bool own = sqlite3_get_autocommit(db->sql) != 0;
    int64_t temp_store = 0;
    enum otl_err rc = OTL_OK;

    if (own) {
        rc = db_query_int(db, "PRAGMA temp_store", &temp_store, err);
        if (rc == OTL_OK)
            rc = db_exec(db, "PRAGMA temp_store = FILE; BEGIN", err);
    }
    if (rc == OTL_OK)
        rc = prepare_all(&x, project_id, err);
    if (rc == OTL_OK)
        rc = export_all(&x, err);
    exporter_fini(&x);
    if (own) {
        /* Nothing was written, so that neither of these can lose anything. */
        if (sqlite3_get_autocommit(db->sql) == 0)
            (void)sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL);
        (void)sqlite3_exec(db->sql,
                           temp_store == 2   ? "PRAGMA temp_store = MEMORY"
                           : temp_store == 1 ? "PRAGMA temp_store = FILE"
                                             : "PRAGMA temp_store = DEFAULT",
                           NULL, NULL, NULL);
    }
    return rc;
}
