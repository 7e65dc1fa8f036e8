/* export_csv.c -- number points as CSV, series by series, in the order of time.
 *
 * The columns are those of the view points. The rows are read from number_point itself all the
 * same, because the view shows NaN as NULL (SQLite has no NaN), and an export tells it from a point
 * without a value. Lines end in \n, as those of otlite sql --csv do: with \r\n, line tools would
 * take the \r for a part of the value. */
#include <math.h>
#include <sqlite3.h>

#include "export_json.h"
#include "otlite/export.h"

enum {
    TIME,
    TIME_UNIX_NANO,
    SERVICE_NAME,
    METRIC,
    UNIT,
    TYPE,
    ATTRIBUTES,
    RESOURCE_ATTRIBUTES,
    VALUE,
    COLUMNS
};

static const char HEADER[] =
    "time,time_unix_nano,service_name,metric,unit,type,attributes,resource_attributes,value\n";

/* CROSS JOIN: points outside, look-ups by primary key inside, so that nothing is sorted or kept. */
static const char SQL_ROWS[] =
    "SELECT p.time / 1e9, p.time, r.service_name, m.name, m.unit, m.type, s.attributes,"
    " r.attributes, p.value FROM number_point p CROSS JOIN series s ON s.id = p.series_id"
    " CROSS JOIN metric m ON m.id = s.metric_id CROSS JOIN scope c ON c.id = m.scope_id"
    " CROSS JOIN resource r ON r.id = c.resource_id WHERE ?1 = 0 OR r.project_id = ?1";

static void add_number(struct buf *b, sqlite3_stmt *st, int col)
{
    double d;

    if (sqlite3_column_type(st, col) == SQLITE_INTEGER) {
        buf_add_bytes(b, column_bytes(st, col)); /* SQLite's own decimal text */
        return;
    }
    d = column_double(st, col);
    if (isnan(d))
        buf_add_str(b, "NaN");
    else if (isinf(d))
        buf_add_str(b, d > 0 ? "Infinity" : "-Infinity");
    else
        buf_add_double(b, d);
}

static void add_row(struct buf *b, sqlite3_stmt *st)
{
    for (int col = 0; col < COLUMNS; col++) {
        if (col > 0)
            buf_add_char(b, ',');
        if (column_is_null(st, col))
            continue;
        if (col == TIME || col == TIME_UNIX_NANO || col == VALUE)
            add_number(b, st, col);
        else
            buf_add_csv_field(b, column_bytes(st, col));
    }
    buf_add_str(b, "\n");
}

static enum otl_err write_rows(struct db *db, sqlite3_stmt *st, FILE *out, struct otl_error *err)
{
    struct buf line = {0};
    enum otl_err rc = OTL_OK;
    int step = SQLITE_DONE;

    buf_add_str(&line, HEADER);
    do {
        if (line.failed)
            rc = otl_fail(err, OTL_ENOMEM, "export: no memory");
        else if (fwrite(line.p, 1, line.n, out) != line.n)
            rc = export_write_failed(err);
        if (rc != OTL_OK)
            break;
        buf_reset(&line);
        step = sqlite3_step(st);
        if (step == SQLITE_ROW)
            add_row(&line, st);
    } while (step == SQLITE_ROW);
    if (rc == OTL_OK && step != SQLITE_DONE)
        rc = db_fail(db, step, "read the points", err);
    if (rc == OTL_OK && fflush(out) != 0)
        rc = export_write_failed(err);
    buf_fini(&line);
    return rc;
}

enum otl_err export_csv(struct db *db, int64_t project_id, FILE *out, struct otl_error *err)
{
    sqlite3_stmt *st;
    enum otl_err rc = db_prepare(db, SQL_ROWS, &st, err);
    int bind;

    if (rc != OTL_OK)
        return rc;
    /* One statement is one snapshot; it needs no transaction around it. */
    bind = sqlite3_bind_int64(st, 1, project_id);
    if (bind != SQLITE_OK)
        rc = db_fail(db, bind, "prepare the export", err);
    else
        rc = write_rows(db, st, out, err);
    sqlite3_finalize(st);
    return rc;
}
