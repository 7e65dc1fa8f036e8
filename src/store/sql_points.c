/* sql_points.c -- the tables number_point, histogram_point, exponential_histogram_point,
 * summary_point and exemplar: everything that is stored, head and parts, as one table of rows a
 * kind.
 *
 * What SQLite knows of series_id and time is pushed down to read.h. Rows come in the order of
 * (series_id, time, start_time), so SQLite need not sort for it; exemplars in that of series_id
 * only. Conditions are never taken from SQLite altogether: it looks at each row once more, so what
 * is pushed down need not be exact, only wide enough.
 *
 * The hidden column `seconds` is time / 1e9: conditions on the column time of the view points reach
 * the table through it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "otlite/attrs.h"
#include "read_internal.h"
#include "rows.h"
#include "series_points.h"
#include "sql_internal.h"

enum { COL_SERIES, COL_TIME, COL_START };

/* How wide a search is thought to be. There are no statistics; all that counts is that a join goes
 * from series to points and never the other way, and that a narrower range is taken for cheaper. */
#define ROWS_ALL    1e9
#define ROWS_SERIES 1e3
#define SERIES_IN   100.0
#define COST_ROW    1.0
#define COST_SEARCH 300.0
#define TIME_SHARE  0.25 /* of the rows, for each end of the range */

enum {
    BATCH_POINTS = 1 << 16, /* that a batch of series should come to */
    BATCH_FIRST = 16,       /* series */
    BATCH_MAX = 1 << 14
};

struct point_module {
    const char *name;
    enum series_kind kind;
    int n_columns; /* without seconds, which comes behind them */
    const char *declaration;
};

#define KEY "series_id INTEGER, time INTEGER, start_time INTEGER, flags INTEGER, "
static const struct point_module modules[] = {
    {"number_point", KIND_NUMBER, 5, "CREATE TABLE x(" KEY "value, seconds REAL HIDDEN)"},
    {"histogram_point", KIND_HISTOGRAM, 10,
     "CREATE TABLE x(" KEY "count INTEGER, sum, min, max, bounds_id INTEGER, bucket_counts TEXT,"
     " seconds REAL HIDDEN)"},
    {"exponential_histogram_point", KIND_EXPONENTIAL, 15,
     "CREATE TABLE x(" KEY "count INTEGER, sum, min, max, scale INTEGER, zero_count INTEGER,"
     " zero_threshold, positive_offset INTEGER, positive_counts TEXT, negative_offset INTEGER,"
     " negative_counts TEXT, seconds REAL HIDDEN)"},
    {"summary_point", KIND_SUMMARY, 7,
     "CREATE TABLE x(" KEY "count INTEGER, sum, quantiles TEXT, seconds REAL HIDDEN)"},
    {"exemplar", KIND_EXEMPLAR, 9,
     "CREATE TABLE x(series_id INTEGER, point_time INTEGER, point_start_time INTEGER, time INTEGER,"
     " value, trace_id BLOB, span_id BLOB, attributes TEXT, identity BLOB, seconds REAL HIDDEN)"},
};
#undef KEY
enum { EXEMPLAR_ATTRIBUTES_COLUMN = 7 };

struct point_cursor {
    sqlite3_vtab_cursor base; /* first */
    enum series_kind kind;
    int n_columns;
    struct read *read;
    /* What is asked for. */
    struct series_list series;
    size_t next_series; /* of it: the first one that was not read */
    size_t batch;
    int64_t from, to;
    /* What was read and is being handed out: points, and of each run of one series which and its
     * end. */
    struct series_points points;
    struct run {
        int64_t series_id;
        size_t end;
    } * runs;
    size_t n_runs, cap_runs;
    size_t run, at;
    int64_t charged, rowid;
    /* The row of point at_row, for kinds of many columns. */
    struct row row;
    bool has_row;
    struct buf text; /* attributes of an exemplar */
};

/* ---- planning ---- */

/* One letter for each argument of filter. */
enum {
    ARG_SERIES = 's',
    ARG_SERIES_IN = 'i',
    ARG_AFTER = '>',
    ARG_FROM = ']',
    ARG_BEFORE = '<',
    ARG_UNTIL = '[',
    ARG_AT = '=',
    ARG_SECONDS_FROM = 'F',
    ARG_SECONDS_UNTIL = 'U',
    ARG_SECONDS_AT = 'A'
};

static char argument_of(const struct point_module *m, int column, int op)
{
    bool seconds = column == m->n_columns;

    if (column == COL_SERIES)
        return op == SQLITE_INDEX_CONSTRAINT_EQ ? ARG_SERIES : '\0';
    if (column != COL_TIME && !seconds)
        return '\0';
    switch (op) {
    case SQLITE_INDEX_CONSTRAINT_EQ:
        return seconds ? ARG_SECONDS_AT : ARG_AT;
    case SQLITE_INDEX_CONSTRAINT_GT:
        return seconds ? ARG_SECONDS_FROM : ARG_AFTER;
    case SQLITE_INDEX_CONSTRAINT_GE:
        return seconds ? ARG_SECONDS_FROM : ARG_FROM;
    case SQLITE_INDEX_CONSTRAINT_LT:
        return seconds ? ARG_SECONDS_UNTIL : ARG_BEFORE;
    case SQLITE_INDEX_CONSTRAINT_LE:
        return seconds ? ARG_SECONDS_UNTIL : ARG_UNTIL;
    default:
        return '\0';
    }
}

/* Whether rows come in this order anyway. one: all are of one series. */
static bool is_ordered(const struct point_module *m, const sqlite3_index_info *info, bool one)
{
    int next = one ? COL_TIME : COL_SERIES;
    int last = m->kind == KIND_EXEMPLAR ? COL_SERIES : COL_START;

    for (int i = 0; i < info->nOrderBy; i++) {
        int column = info->aOrderBy[i].iColumn;

        if (column == COL_SERIES && one)
            continue;
        /* seconds goes up with time, but several times have the same. */
        if (info->aOrderBy[i].desc || column != next || column > last)
            return false;
        next++;
    }
    return true;
}

static int point_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    const struct point_module *m = ((struct sql_table *)base)->what;
    char *arguments = sqlite3_malloc(info->nConstraint + 1);
    int n = 0;
    bool one = false, in = false;
    double rows = ROWS_ALL;

    if (arguments == NULL)
        return SQLITE_NOMEM;
    for (int i = 0; i < info->nConstraint; i++) {
        const struct sqlite3_index_constraint *c = &info->aConstraint[i];
        char a = c->usable ? argument_of(m, c->iColumn, c->op) : '\0';

        if (a == '\0' || (a == ARG_SERIES && (one || in)))
            continue;
        if (a == ARG_SERIES && sqlite3_vtab_in(info, i, 1)) {
            a = ARG_SERIES_IN;
            in = true;
        } else if (a == ARG_SERIES) {
            one = true;
        }
        arguments[n++] = a;
        info->aConstraintUsage[i].argvIndex = n;
    }
    arguments[n] = '\0';
    if (one || in)
        rows = ROWS_SERIES * (in ? SERIES_IN : 1);
    for (int i = 0; i < n; i++) {
        if (arguments[i] != ARG_SERIES && arguments[i] != ARG_SERIES_IN)
            rows *= arguments[i] == ARG_AT ? 1e-3 : TIME_SHARE;
    }
    if (rows < 1)
        rows = 1;
    info->idxStr = arguments;
    info->needToFreeIdxStr = 1;
    info->estimatedRows = (sqlite3_int64)rows;
    info->estimatedCost = COST_SEARCH * (in ? SERIES_IN : 1) + COST_ROW * rows;
    info->orderByConsumed = info->nOrderBy > 0 && is_ordered(m, info, one);
    return SQLITE_OK;
}

/* ---- reading ---- */

static int64_t batch_bytes(const struct point_cursor *c)
{
    return (int64_t)read_points_bytes(&c->points);
}

static enum otl_err add_run(void *arg, int64_t series_id, const struct series_points *p,
                            struct otl_error *err)
{
    struct point_cursor *c = arg;

    if (p->n == 0)
        return OTL_OK;
    if (c->n_runs == c->cap_runs) {
        size_t cap = c->cap_runs == 0 ? 64 : c->cap_runs * 2;
        struct run *runs = realloc(c->runs, cap * sizeof(*runs));

        if (runs == NULL)
            return otl_fail(err, OTL_ENOMEM, "read points: no memory");
        c->runs = runs;
        c->cap_runs = cap;
    }
    if (!series_points_append(&c->points, p, 0, p->n))
        return otl_fail(err, OTL_ENOMEM, "read points: no memory");
    c->runs[c->n_runs++] = (struct run){series_id, c->points.n};
    return OTL_OK;
}

/* Read the next series, as many as should come to a batch of points. */
static enum otl_err read_batch(struct point_cursor *c, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    series_points_reset(&c->points);
    c->n_runs = c->run = c->at = 0;
    c->has_row = false;
    while (rc == OTL_OK && c->n_runs == 0 && c->next_series < c->series.n) {
        size_t n = c->series.n - c->next_series;

        if (n > c->batch)
            n = c->batch;
        if (n == 1) {
            rc = read_points(c->read, (int)c->kind, c->series.ids[c->next_series], c->from, c->to,
                             &c->points, err);
            if (rc == OTL_OK && c->points.n > 0) {
                size_t read = c->points.n;

                if (c->cap_runs == 0) {
                    c->runs = malloc(sizeof(*c->runs));
                    if (c->runs == NULL)
                        return otl_fail(err, OTL_ENOMEM, "read points: no memory");
                    c->cap_runs = 1;
                }
                c->runs[c->n_runs++] = (struct run){c->series.ids[c->next_series], read};
            }
        } else {
            rc = read_scan(c->read, (int)c->kind, c->series.ids + c->next_series, n, c->from, c->to,
                           add_run, c, err);
        }
        c->next_series += n;
        if (c->points.n < BATCH_POINTS / 2 && c->batch < BATCH_MAX)
            c->batch *= 2;
        else if (c->points.n > BATCH_POINTS * 2 && c->batch > 1)
            c->batch /= 2;
    }
    if (rc == OTL_OK) {
        int64_t bytes = batch_bytes(c);

        rc = read_charge(c->read, bytes - c->charged, err);
        c->charged = bytes;
    }
    return rc;
}

/* ---- arguments ---- */

struct bounds {
    int64_t from, until; /* both included */
    bool none;           /* a comparison with NULL, or the like: no row */
};

static void at_least(struct bounds *b, int64_t t)
{
    b->from = t > b->from ? t : b->from;
}

static void at_most(struct bounds *b, int64_t t)
{
    b->until = t < b->until ? t : b->until;
}

static int64_t clamp(double d)
{
    return d >= 9.2e18 ? INT64_MAX : d <= -9.2e18 ? INT64_MIN : (int64_t)d;
}

/* A time in nanoseconds, rounded down or up; false: text and the like, which does not bound. */
static bool time_of(sqlite3_value *v, bool up, int64_t *out)
{
    switch (sqlite3_value_numeric_type(v)) {
    case SQLITE_INTEGER:
        *out = sqlite3_value_int64(v);
        return true;
    case SQLITE_FLOAT:
        *out = clamp(up ? ceil(sqlite3_value_double(v)) : floor(sqlite3_value_double(v)));
        return true;
    default:
        return false;
    }
}

/* Times that may have so many seconds: a double of seconds since 1970 stands for some hundred
 * nanoseconds around it. */
static bool seconds_of(sqlite3_value *v, int64_t *least, int64_t *most)
{
    int type = sqlite3_value_numeric_type(v);
    double ns, slack;

    if (type != SQLITE_INTEGER && type != SQLITE_FLOAT)
        return false;
    ns = sqlite3_value_double(v) * 1e9;
    slack = fabs(ns) * 1e-15 + 1;
    *least = clamp(floor(ns - slack));
    *most = clamp(ceil(ns + slack));
    return true;
}

static void bound_time(struct bounds *b, char op, sqlite3_value *v)
{
    int64_t low, high;

    if (sqlite3_value_type(v) == SQLITE_NULL) {
        b->none = true;
    } else if (op == ARG_SECONDS_FROM || op == ARG_SECONDS_UNTIL || op == ARG_SECONDS_AT) {
        if (!seconds_of(v, &low, &high))
            return;
        if (op != ARG_SECONDS_UNTIL)
            at_least(b, low);
        if (op != ARG_SECONDS_FROM)
            at_most(b, high);
    } else if (time_of(v, false, &low) && time_of(v, true, &high)) {
        if (op == ARG_AFTER || op == ARG_FROM || op == ARG_AT)
            at_least(b, low);
        if (op == ARG_BEFORE || op == ARG_UNTIL || op == ARG_AT)
            at_most(b, high);
    }
}

static int add_series(struct series_list *l, sqlite3_value *v)
{
    int type = sqlite3_value_numeric_type(v);
    int64_t id;

    if (type == SQLITE_INTEGER)
        id = sqlite3_value_int64(v);
    else if (type == SQLITE_FLOAT && sqlite3_value_double(v) == floor(sqlite3_value_double(v)))
        id = clamp(sqlite3_value_double(v));
    else
        return SQLITE_OK; /* equal to no id */
    if (l->n == l->cap) {
        size_t cap = l->cap == 0 ? 8 : l->cap * 2;
        int64_t *ids = realloc(l->ids, cap * sizeof(*ids));

        if (ids == NULL)
            return SQLITE_NOMEM;
        l->ids = ids;
        l->cap = cap;
    }
    l->ids[l->n++] = id;
    return SQLITE_OK;
}

static int compare_ids(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void sort_series(struct series_list *l)
{
    size_t n = 0;

    if (l->n < 2)
        return;
    qsort(l->ids, l->n, sizeof(*l->ids), compare_ids);
    for (size_t i = 0; i < l->n; i++) {
        if (n == 0 || l->ids[n - 1] != l->ids[i])
            l->ids[n++] = l->ids[i];
    }
    l->n = n;
}

static int take_arguments(struct point_cursor *c, const char *ops, sqlite3_value **argv,
                          struct bounds *b, bool *all_series)
{
    int rc = SQLITE_OK;

    for (int i = 0; ops[i] != '\0' && rc == SQLITE_OK; i++) {
        if (ops[i] == ARG_SERIES) {
            *all_series = false;
            rc = add_series(&c->series, argv[i]);
        } else if (ops[i] == ARG_SERIES_IN) {
            sqlite3_value *v;

            *all_series = false;
            for (rc = sqlite3_vtab_in_first(argv[i], &v); rc == SQLITE_OK && v != NULL;
                 rc = sqlite3_vtab_in_next(argv[i], &v)) {
                rc = add_series(&c->series, v);
                if (rc != SQLITE_OK)
                    break;
            }
            if (rc == SQLITE_DONE)
                rc = SQLITE_OK;
        } else {
            bound_time(b, ops[i], argv[i]);
        }
    }
    return rc;
}

static int point_filter(sqlite3_vtab_cursor *base, int number, const char *ops, int argc,
                        sqlite3_value **argv)
{
    struct point_cursor *c = (struct point_cursor *)base;
    struct bounds b = {.from = INT64_MIN, .until = INT64_MAX};
    bool all_series = true;
    struct otl_error err;
    enum otl_err rc;
    int code;

    (void)number;
    (void)argc;
    c->series.n = 0;
    c->next_series = 0;
    c->rowid = 0;
    code = take_arguments(c, ops, argv, &b, &all_series);
    if (code != SQLITE_OK)
        return code;
    c->from = b.from;
    /* INT64_MAX is taken for no end at all (block.h). */
    c->to = b.until == INT64_MAX ? INT64_MAX : b.until + 1;
    rc = sql_read(((struct sql_table *)base->pVtab)->t, &c->read, &err);
    if (rc == OTL_OK && b.from > b.until)
        b.none = true;
    if (rc == OTL_OK && all_series && !b.none) {
        rc = read_select(c->read, 0, NULL, 0, &c->series, &err);
        c->batch = BATCH_FIRST;
    } else {
        sort_series(&c->series);
        c->batch = c->series.n == 1 ? 1 : BATCH_FIRST;
    }
    if (b.none)
        c->series.n = 0;
    if (rc == OTL_OK)
        rc = read_batch(c, &err);
    return rc == OTL_OK ? SQLITE_OK : sql_table_fail(base->pVtab, &err);
}

static int point_next(sqlite3_vtab_cursor *base)
{
    struct point_cursor *c = (struct point_cursor *)base;
    struct otl_error err;

    c->at++;
    c->rowid++;
    c->has_row = false;
    if (c->at == c->runs[c->run].end && ++c->run == c->n_runs && read_batch(c, &err) != OTL_OK)
        return sql_table_fail(base->pVtab, &err);
    return SQLITE_OK;
}

static int point_eof(sqlite3_vtab_cursor *base)
{
    const struct point_cursor *c = (const struct point_cursor *)base;

    return c->run >= c->n_runs;
}

/* ---- columns ---- */

static void result_value(sqlite3_context *ctx, enum value_kind kind, int64_t v)
{
    double d;
    uint8_t nan[8];

    if (kind == VALUE_INT) {
        sqlite3_result_int64(ctx, v);
    } else if (kind == VALUE_DOUBLE) {
        memcpy(&d, &v, sizeof(d));
        if (isnan(d)) {
            nan_bytes(d, nan);
            sqlite3_result_blob(ctx, nan, sizeof(nan), SQLITE_TRANSIENT);
        } else {
            sqlite3_result_double(ctx, d);
        }
    }
}

static void result_cell(sqlite3_context *ctx, const struct row *row, const struct cell *cell)
{
    switch (cell->kind) {
    case CELL_NULL:
        break;
    case CELL_INT:
        sqlite3_result_int64(ctx, cell->u.i);
        break;
    case CELL_REAL:
        sqlite3_result_double(ctx, cell->u.d);
        break;
    case CELL_NAN:
        sqlite3_result_blob(ctx, cell->u.nan, 8, SQLITE_TRANSIENT);
        break;
    case CELL_TEXT:
        sqlite3_result_text64(ctx, (const char *)row->text.p + cell->u.text.at, cell->u.text.n,
                              SQLITE_TRANSIENT, SQLITE_UTF8);
        break;
    case CELL_BLOB:
        if (cell->u.text.n == 0)
            sqlite3_result_zeroblob(ctx, 0);
        else
            sqlite3_result_blob64(ctx, row->text.p + cell->u.text.at, cell->u.text.n,
                                  SQLITE_TRANSIENT);
        break;
    }
}

/* JSON made from the last cell, the canonical bytes. */
static void result_attributes(sqlite3_context *ctx, struct point_cursor *c)
{
    const struct cell *identity = &c->row.cells[c->row.n - 1];

    buf_reset(&c->text);
    attrs_to_json(bytes_of(c->row.text.p + identity->u.text.at, identity->u.text.n), &c->text);
    if (c->text.failed)
        sqlite3_result_error_nomem(ctx);
    else
        sqlite3_result_text64(ctx, (const char *)c->text.p, c->text.n, SQLITE_TRANSIENT,
                              SQLITE_UTF8);
}

static int point_column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int col)
{
    struct point_cursor *c = (struct point_cursor *)base;
    int64_t series_id = c->runs[c->run].series_id;

    if (col == COL_SERIES) {
        sqlite3_result_int64(ctx, series_id);
    } else if (col == COL_TIME) {
        sqlite3_result_int64(ctx, c->points.time[c->at]);
    } else if (col == c->n_columns) {
        /* Of an exemplar: of its point, as its conditions are. */
        sqlite3_result_double(ctx, (double)c->points.time[c->at] / 1e9);
    } else if (col == COL_START) {
        sqlite3_result_int64(ctx, c->points.start_time[c->at]);
    } else if (c->kind == KIND_NUMBER && col == COL_START + 1) {
        sqlite3_result_int64(ctx, c->points.flags[c->at]);
    } else if (c->kind == KIND_NUMBER) {
        const struct field_column *f = &c->points.fields[NUMBER_VALUE];

        result_value(ctx, (enum value_kind)f->kind[c->at], f->v[c->at]);
    } else {
        if (!c->has_row && !series_points_row(&c->points, c->at, series_id, &c->row)) {
            sqlite3_result_error_nomem(ctx);
            return SQLITE_NOMEM;
        }
        c->has_row = true;
        if (c->kind != KIND_EXEMPLAR || col < EXEMPLAR_ATTRIBUTES_COLUMN)
            result_cell(ctx, &c->row, &c->row.cells[col]);
        else if (col == EXEMPLAR_ATTRIBUTES_COLUMN)
            result_attributes(ctx, c);
        else
            result_cell(ctx, &c->row, &c->row.cells[c->row.n - 1]);
    }
    return SQLITE_OK;
}

static int point_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = ((const struct point_cursor *)base)->rowid;
    return SQLITE_OK;
}

/* ---- the module ---- */

static int point_connect(sqlite3 *sql, void *aux, int argc, const char *const *argv,
                         sqlite3_vtab **out, char **msg)
{
    const struct sql_aux *a = aux;

    (void)argc;
    (void)argv;
    (void)msg;
    return sql_table_connect(sql, a, ((const struct point_module *)a->what)->declaration, out);
}

static int point_open(sqlite3_vtab *base, sqlite3_vtab_cursor **out)
{
    struct sql_table *table = (struct sql_table *)base;
    const struct point_module *m = table->what;
    struct point_cursor *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return SQLITE_NOMEM;
    c->kind = m->kind;
    c->n_columns = m->n_columns;
    series_points_init(&c->points, m->kind);
    sql_cursor_opened(table->t);
    *out = &c->base;
    return SQLITE_OK;
}

static int point_close(sqlite3_vtab_cursor *base)
{
    struct point_cursor *c = (struct point_cursor *)base;
    struct otl_error ignored;

    /* Giving back cannot fail. */
    if (c->charged != 0 && read_charge(c->read, -c->charged, &ignored) != OTL_OK)
        c->charged = 0;
    sql_cursor_closed(((struct sql_table *)base->pVtab)->t);
    series_list_fini(&c->series);
    series_points_fini(&c->points);
    free(c->runs);
    row_fini(&c->row);
    buf_fini(&c->text);
    free(c);
    return SQLITE_OK;
}

/* Without xCreate: the tables are there by the name of their module, and in no file. */
static const sqlite3_module point_methods = {
    .xConnect = point_connect,
    .xBestIndex = point_best_index,
    .xDisconnect = sql_table_disconnect,
    .xOpen = point_open,
    .xClose = point_close,
    .xFilter = point_filter,
    .xNext = point_next,
    .xEof = point_eof,
    .xColumn = point_column,
    .xRowid = point_rowid,
};

int sql_points_register(struct sql_tables *t)
{
    int rc = SQLITE_OK;

    for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]) && rc == SQLITE_OK; i++)
        rc = sql_add_module(t, modules[i].name, &point_methods, &modules[i]);
    return rc;
}
