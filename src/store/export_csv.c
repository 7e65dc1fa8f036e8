/* export_csv.c -- number points as CSV.
 *
 * The columns are those of the view points and, behind them, what else a reader needs to store the
 * points again (convert_csv.c). A NaN is written as such: the view shows it as NULL (SQLite has no
 * NaN), and an export tells it from a point without a value. Lines end in \n, as those of otlite
 * sql --csv do: with \r\n, line tools would take the \r for a part of the value. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "export_walk.h"
#include "otlite/attrs.h"

enum { WRITE_BYTES = 1 << 16 };

static const char HEADER[] =
    "time,time_unix_nano,service_name,metric,unit,type,attributes,resource_attributes,value,"
    "start_time_unix_nano,temporality,is_monotonic,scope_name\n";

static void add_double(struct buf *b, double d)
{
    if (isnan(d))
        buf_add_str(b, "NaN");
    else if (isinf(d))
        buf_add_str(b, d > 0 ? "Infinity" : "-Infinity");
    else
        buf_add_double(b, d);
}

/* The fields that all points of a series have: before the value and behind the start time, with the
 * commas around them. */
static void add_series(struct buf *b, struct buf *behind, const struct series_info *s)
{
    struct buf json = {0};

    buf_add_char(b, ',');
    buf_add_csv_field(b, s->service);
    buf_add_char(b, ',');
    buf_add_csv_field(b, s->name);
    buf_add_char(b, ',');
    buf_add_csv_field(b, s->unit);
    buf_add_str(b, s->type == METRIC_SUM ? ",sum," : ",gauge,");
    attrs_to_json(s->attributes, &json);
    buf_add_csv_field(b, buf_bytes(&json));
    buf_add_char(b, ',');
    b->failed = b->failed || json.failed;
    buf_reset(&json);
    attrs_to_json(s->resource_attributes, &json);
    buf_add_csv_field(b, buf_bytes(&json));
    buf_add_char(b, ',');
    b->failed = b->failed || json.failed;
    buf_fini(&json);
    buf_add_str(behind, s->type != METRIC_SUM                 ? ",,,"
                        : s->temporality == TEMPORALITY_DELTA ? ",delta,"
                                                              : ",cumulative,");
    if (s->type == METRIC_SUM)
        buf_printf(behind, "%d,", s->is_monotonic ? 1 : 0);
    buf_add_csv_field(behind, s->scope_name);
    buf_add_char(behind, '\n');
}

static void add_row(struct buf *b, const struct series_points *p, size_t i, struct bytes series,
                    struct bytes behind)
{
    const struct field_column *value = &p->fields[NUMBER_VALUE];
    double d;

    add_double(b, (double)p->time[i] / 1e9);
    buf_printf(b, ",%" PRId64, p->time[i]);
    buf_add_bytes(b, series);
    if (value->kind[i] == VALUE_INT) {
        buf_printf(b, "%" PRId64, value->v[i]);
    } else if (value->kind[i] == VALUE_DOUBLE) {
        memcpy(&d, &value->v[i], sizeof(d));
        add_double(b, d);
    }
    buf_add_char(b, ',');
    if (p->start_time[i] != 0)
        buf_printf(b, "%" PRId64, p->start_time[i]);
    buf_add_bytes(b, behind);
}

static enum otl_err write_out(struct buf *b, FILE *out, struct otl_error *err)
{
    if (b->failed)
        return otl_fail(err, OTL_ENOMEM, "export: no memory");
    if (fwrite(b->p, 1, b->n, out) != b->n)
        return export_write_failed(err);
    buf_reset(b);
    return OTL_OK;
}

enum otl_err export_csv(struct read *r, struct db *db, const struct export_opts *o, FILE *out,
                        struct otl_error *err)
{
    struct series_info *series;
    struct series_points points;
    struct buf lines = {0}, fields = {0}, behind = {0};
    size_t n;
    enum otl_err rc = export_series(r, o, &series, &n, err);

    (void)db;
    series_points_init(&points, KIND_NUMBER);
    buf_add_str(&lines, HEADER);
    for (size_t k = 0; k < n && rc == OTL_OK; k++) {
        if (point_kind_of(series[k].type) != POINT_NUMBER)
            continue;
        rc = export_points(r, o, &series[k], &points, err);
        buf_reset(&fields);
        buf_reset(&behind);
        add_series(&fields, &behind, &series[k]);
        lines.failed = lines.failed || fields.failed || behind.failed;
        for (size_t i = 0; i < points.n && rc == OTL_OK; i++) {
            add_row(&lines, &points, i, buf_bytes(&fields), buf_bytes(&behind));
            if (lines.n >= WRITE_BYTES || lines.failed)
                rc = write_out(&lines, out, err);
        }
        if (o->progress != NULL)
            o->progress(o->arg, k + 1, n);
    }
    if (rc == OTL_OK)
        rc = write_out(&lines, out, err);
    if (rc == OTL_OK && fflush(out) != 0)
        rc = export_write_failed(err);
    free(series);
    series_points_fini(&points);
    buf_fini(&lines);
    buf_fini(&fields);
    buf_fini(&behind);
    return rc;
}
