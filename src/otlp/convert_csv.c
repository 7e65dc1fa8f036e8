/* convert_csv.c -- rows of CSV (RFC 4180) as number points. */
#include <inttypes.h>
#include <stdlib.h>
#include <strings.h>

#include "convert_internal.h"
#include "otlite/json_reader.h"

/* Columns by the names that export_csv gives them. */
enum column {
    COL_TIME,
    COL_TIME_UNIX_NANO,
    COL_SERVICE_NAME,
    COL_METRIC,
    COL_UNIT,
    COL_TYPE,
    COL_ATTRIBUTES,
    COL_RESOURCE_ATTRIBUTES,
    COL_VALUE,
    COL_START_TIME_UNIX_NANO,
    COL_TEMPORALITY,
    COL_IS_MONOTONIC,
    COL_SCOPE_NAME,
    COLUMNS
};
static const char *const COLUMN_NAMES[COLUMNS] = {
    "time",        "time_unix_nano", "service_name",        "metric", "unit",
    "type",        "attributes",     "resource_attributes", "value",  "start_time_unix_nano",
    "temporality", "is_monotonic",   "scope_name",
};

enum { MAX_FIELDS = 256, MAX_DEPTH = 200, JSON_BUDGET = 16 << 20 };

struct csv {
    bool has_header;
    int column[MAX_FIELDS]; /* of each field, -1: not one of ours */
    size_t n_fields;
    struct buf record; /* a row so far: quoted fields may go over lines */
    struct buf cells[COLUMNS];
    struct arena arena;
};

void csv_free(struct csv *c)
{
    if (c == NULL)
        return;
    buf_fini(&c->record);
    for (int i = 0; i < COLUMNS; i++)
        buf_fini(&c->cells[i]);
    arena_fini(&c->arena);
    free(c);
}

/* An even number of quotes: the row ends with its line. */
static bool is_whole(const struct buf *record)
{
    size_t quotes = 0;

    for (size_t i = 0; i < record->n; i++)
        quotes += record->p[i] == '"';
    return quotes % 2 == 0;
}

/* The next field of the row at *at, unquoted, into out. False behind the last one. */
static bool next_field(struct bytes row, size_t *at, struct buf *out)
{
    size_t i = *at;

    if (i > row.n)
        return false;
    buf_reset(out);
    if (i < row.n && row.p[i] == '"') {
        for (i++; i < row.n; i++) {
            if (row.p[i] == '"' && (i + 1 == row.n || row.p[++i] != '"'))
                break;
            buf_add_char(out, (char)row.p[i]);
        }
        /* At the comma, or at the end. */
        while (i < row.n && row.p[i] != ',')
            i++;
    } else {
        size_t from = i;

        while (i < row.n && row.p[i] != ',')
            i++;
        buf_add(out, row.p + from, i - from);
    }
    *at = i + 1;
    return true;
}

static enum otl_err take_header(struct csv *c, struct bytes row, struct otl_error *err)
{
    struct buf field = {0};
    bool has[COLUMNS] = {false};
    size_t at = 0;
    enum otl_err rc = OTL_OK;

    while (rc == OTL_OK && next_field(row, &at, &field)) {
        if (c->n_fields == MAX_FIELDS) {
            rc = otl_fail(err, OTL_EBADDATA, "more than %d columns", MAX_FIELDS);
            break;
        }
        c->column[c->n_fields] = -1;
        for (int k = 0; k < COLUMNS; k++) {
            if (strcasecmp(buf_cstr(&field), COLUMN_NAMES[k]) == 0) {
                c->column[c->n_fields] = k;
                has[k] = true;
            }
        }
        c->n_fields++;
    }
    buf_fini(&field);
    if (rc == OTL_OK &&
        (!has[COL_METRIC] || !has[COL_VALUE] || (!has[COL_TIME] && !has[COL_TIME_UNIX_NANO])))
        rc = otl_fail(err, OTL_EBADDATA,
                      "the header must name the columns metric, value, and time_unix_nano or time "
                      "(seconds); see `otlite export --format csv` for all");
    c->has_header = rc == OTL_OK;
    return rc;
}

/* ---- cells of JSON ---- */

static bool json_value(struct json_reader *r, enum json_event event, struct buf *out);

/* The pairs of an object whose beginning was read, as OTLP's list of KeyValue. */
static bool json_pairs(struct json_reader *r, struct buf *out)
{
    enum json_event event;

    buf_add_char(out, '[');
    while ((event = json_next(r)) == JSON_EV_KEY) {
        if (out->p != NULL && out->n > 0 && out->p[out->n - 1] != '[')
            buf_add_char(out, ',');
        buf_add_str(out, "{\"key\":");
        buf_add_json_string(out, r->text);
        buf_add_str(out, ",\"value\":");
        if (!json_value(r, json_next(r), out))
            return false;
        buf_add_char(out, '}');
    }
    buf_add_char(out, ']');
    return event == JSON_EV_OBJECT_END;
}

static bool json_list(struct json_reader *r, struct buf *out)
{
    enum json_event event;
    bool first = true;

    buf_add_str(out, "{\"arrayValue\":{\"values\":[");
    while ((event = json_next(r)) != JSON_EV_ARRAY_END) {
        if (!first)
            buf_add_char(out, ',');
        first = false;
        if (!json_value(r, event, out))
            return false;
    }
    buf_add_str(out, "]}}");
    return true;
}

/* What JSON tells apart becomes its kind of AnyValue; recursion is bounded by the reader's depth.
 */
static bool json_value(struct json_reader *r, enum json_event event, struct buf *out)
{
    int64_t i;

    switch (event) {
    case JSON_EV_STRING:
        buf_add_str(out, "{\"stringValue\":");
        buf_add_json_string(out, r->text);
        break;
    case JSON_EV_NUMBER:
        if (memchr(r->text.p, '.', r->text.n) == NULL &&
            memchr(r->text.p, 'e', r->text.n) == NULL &&
            memchr(r->text.p, 'E', r->text.n) == NULL &&
            json_parse_signed(r->text, INT64_MIN, INT64_MAX, &i) == JSON_NUMBER_OK) {
            buf_printf(out, "{\"intValue\":\"%" PRId64 "\"", i);
            break;
        }
        buf_add_str(out, "{\"doubleValue\":");
        buf_add_bytes(out, r->text);
        break;
    case JSON_EV_TRUE:
        buf_add_str(out, "{\"boolValue\":true");
        break;
    case JSON_EV_FALSE:
        buf_add_str(out, "{\"boolValue\":false");
        break;
    case JSON_EV_NULL:
        buf_add_char(out, '{');
        break;
    case JSON_EV_ARRAY:
        return json_list(r, out);
    case JSON_EV_OBJECT:
        buf_add_str(out, "{\"kvlistValue\":{\"values\":");
        if (!json_pairs(r, out))
            return false;
        buf_add_str(out, "}}");
        return true;
    default:
        return false;
    }
    buf_add_char(out, '}');
    return true;
}

/* `[{"key":...},...]` of a cell that holds an object, or nothing. */
static enum otl_err add_cell_attributes(struct csv *c, enum column col, struct buf *out,
                                        struct otl_error *err)
{
    struct json_reader r;

    if (c->cells[col].n == 0) {
        buf_add_str(out, "[]");
        return OTL_OK;
    }
    arena_reset(&c->arena, JSON_BUDGET);
    json_reader_init(&r, buf_bytes(&c->cells[col]), MAX_DEPTH, &c->arena);
    if (json_next(&r) == JSON_EV_OBJECT && json_pairs(&r, out) && json_next(&r) == JSON_EV_END)
        return OTL_OK;
    return otl_fail(err, OTL_EBADDATA, "column %s: not a JSON object: %.100s", COLUMN_NAMES[col],
                    buf_cstr(&c->cells[col]));
}

/* ---- rows ---- */

static enum otl_err bad_cell(struct csv *c, enum column col, const char *want,
                             struct otl_error *err)
{
    return otl_fail(err, OTL_EBADDATA, "column %s: \"%.100s\" is not %s", COLUMN_NAMES[col],
                    buf_cstr(&c->cells[col]), want);
}

static bool cell_is(struct csv *c, enum column col, const char *text)
{
    return strcasecmp(buf_cstr(&c->cells[col]), text) == 0;
}

/* From the resource to `"dataPoints":[`, and what closes it. */
static enum otl_err add_envelope(struct csv *c, struct buf *b, const char **tail,
                                 struct otl_error *err)
{
    bool sum = cell_is(c, COL_TYPE, "sum");
    bool delta = cell_is(c, COL_TEMPORALITY, "delta");
    bool monotonic = cell_is(c, COL_IS_MONOTONIC, "1") || cell_is(c, COL_IS_MONOTONIC, "true");
    enum otl_err rc = OTL_OK;

    if (!sum && !cell_is(c, COL_TYPE, "gauge") && c->cells[COL_TYPE].n > 0)
        return bad_cell(c, COL_TYPE, "gauge or sum, which CSV can hold", err);
    if (!delta && !cell_is(c, COL_TEMPORALITY, "cumulative") && c->cells[COL_TEMPORALITY].n > 0)
        return bad_cell(c, COL_TEMPORALITY, "delta or cumulative", err);
    buf_add_str(b, "{\"resource\":{\"attributes\":");
    if (c->cells[COL_RESOURCE_ATTRIBUTES].n > 0 || c->cells[COL_SERVICE_NAME].n == 0) {
        rc = add_cell_attributes(c, COL_RESOURCE_ATTRIBUTES, b, err);
    } else {
        buf_add_char(b, '[');
        add_string_attribute(b, "service.name", buf_bytes(&c->cells[COL_SERVICE_NAME]));
        buf_add_char(b, ']');
    }
    buf_add_str(b, "},\"scopeMetrics\":[{\"scope\":{\"name\":");
    buf_add_json_string(b, buf_bytes(&c->cells[COL_SCOPE_NAME]));
    buf_add_str(b, "},\"metrics\":[{\"name\":");
    buf_add_json_string(b, buf_bytes(&c->cells[COL_METRIC]));
    buf_add_str(b, ",\"unit\":");
    buf_add_json_string(b, buf_bytes(&c->cells[COL_UNIT]));
    if (sum)
        buf_printf(b, ",\"sum\":{\"aggregationTemporality\":%d,\"isMonotonic\":%s,\"dataPoints\":[",
                   delta ? 1 : 2, monotonic ? "true" : "false");
    else
        buf_add_str(b, ",\"gauge\":{\"dataPoints\":[");
    *tail = "]}}]}]}";
    return rc;
}

static enum otl_err add_point(struct csv *c, struct request *q, struct otl_error *err)
{
    struct buf *p = &q->point;
    const char *tail = NULL;
    enum otl_err rc;
    int64_t ns;

    request_begin_point(q);
    rc = add_envelope(c, &q->next, &tail, err);
    if (rc != OTL_OK)
        return rc;
    if (c->cells[COL_TIME_UNIX_NANO].n > 0) {
        if (json_parse_signed(buf_bytes(&c->cells[COL_TIME_UNIX_NANO]), 0, INT64_MAX, &ns) !=
            JSON_NUMBER_OK)
            return bad_cell(c, COL_TIME_UNIX_NANO, "nanoseconds since 1970", err);
    } else if (!parse_seconds(buf_bytes(&c->cells[COL_TIME]), &ns) || ns < 0) {
        return bad_cell(c, COL_TIME, "seconds since 1970", err);
    }
    buf_printf(p, "{\"timeUnixNano\":\"%" PRId64 "\"", ns);
    if (c->cells[COL_START_TIME_UNIX_NANO].n > 0) {
        if (json_parse_signed(buf_bytes(&c->cells[COL_START_TIME_UNIX_NANO]), 0, INT64_MAX, &ns) !=
            JSON_NUMBER_OK)
            return bad_cell(c, COL_START_TIME_UNIX_NANO, "nanoseconds since 1970", err);
        buf_printf(p, ",\"startTimeUnixNano\":\"%" PRId64 "\"", ns);
    }
    buf_add_str(p, ",\"attributes\":");
    rc = add_cell_attributes(c, COL_ATTRIBUTES, p, err);
    if (rc != OTL_OK)
        return rc;
    if (c->cells[COL_VALUE].n == 0) {
        buf_add_str(p, ",\"flags\":1"); /* no recorded value */
    } else {
        buf_add_char(p, ',');
        if (!add_number_json(p, buf_bytes(&c->cells[COL_VALUE])))
            return bad_cell(c, COL_VALUE, "a number", err);
    }
    buf_add_char(p, '}');
    request_end_point(q, tail);
    return OTL_OK;
}

static enum otl_err take_row(struct csv *c, struct request *q, struct bytes row,
                             struct otl_error *err)
{
    struct buf field = {0};
    size_t at = 0, n = 0;
    bool failed = false;

    for (int i = 0; i < COLUMNS; i++)
        buf_reset(&c->cells[i]);
    for (; next_field(row, &at, &field); n++) {
        failed = failed || field.failed;
        if (n < c->n_fields && c->column[n] >= 0)
            buf_add_bytes(&c->cells[c->column[n]], buf_bytes(&field));
    }
    buf_fini(&field);
    for (int i = 0; i < COLUMNS; i++)
        failed = failed || c->cells[i].failed;
    if (failed)
        return otl_fail(err, OTL_ENOMEM, "import: no memory");
    if (n != c->n_fields)
        return otl_fail(err, OTL_EBADDATA, "%zu fields, but the header names %zu", n, c->n_fields);
    return add_point(c, q, err);
}

enum otl_err csv_line(struct csv **pc, struct request *q, struct bytes line, struct otl_error *err)
{
    struct csv *c = *pc;
    struct bytes row;
    enum otl_err rc;

    if (c == NULL) {
        c = calloc(1, sizeof(*c));
        if (c == NULL)
            return otl_fail(err, OTL_ENOMEM, "import: no memory");
        arena_init(&c->arena, JSON_BUDGET);
        *pc = c;
    }
    buf_add_bytes(&c->record, line);
    if (c->record.failed)
        return otl_fail(err, OTL_ENOMEM, "import: no memory");
    if (!is_whole(&c->record))
        return OTL_OK;
    row = buf_bytes(&c->record);
    while (row.n > 0 && (row.p[row.n - 1] == '\n' || row.p[row.n - 1] == '\r'))
        row.n--;
    if (row.n == 0)
        rc = OTL_OK;
    else
        rc = c->has_header ? take_row(c, q, row, err) : take_header(c, row, err);
    buf_reset(&c->record);
    return rc;
}

enum otl_err csv_end(struct csv *c, struct otl_error *err)
{
    if (c != NULL && c->record.n > 0)
        return otl_fail(err, OTL_EBADDATA, "a quoted field does not end");
    return OTL_OK;
}
