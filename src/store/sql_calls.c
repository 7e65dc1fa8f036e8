#include "sql_calls.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "otlite/attrs.h"
#include "rollup.h"
#include "series_points.h"

/* ---- arguments ---- */

enum otl_err call_select(struct call_cursor *c, int i, int64_t project, struct otl_error *err)
{
    const char *text = c->args[i] == NULL ? NULL : (const char *)sqlite3_value_text(c->args[i]);
    struct matcher *m = NULL;
    size_t n = 0;
    void *mem = NULL;
    enum otl_err rc = OTL_OK;

    if (text != NULL)
        rc = matchers_parse(bytes_str(text), &m, &n, &mem, err);
    if (rc == OTL_OK)
        rc = read_select(c->read, project, m, n, &c->series, err);
    free(mem);
    return rc;
}

static enum otl_err bad_argument(const struct call_cursor *c, int i, const char *want,
                                 struct otl_error *err)
{
    return otl_fail(err, OTL_EBADREQUEST, "%s: %s must be %s", c->call->name, c->call->arg_names[i],
                    want);
}

enum otl_err call_time(struct call_cursor *c, int i, int64_t *out, struct otl_error *err)
{
    static const char want[] = "a time in nanoseconds since 1970, like unixepoch() * 1000000000";
    int type = sqlite3_value_numeric_type(c->args[i]);
    double d;

    if (type == SQLITE_INTEGER) {
        *out = sqlite3_value_int64(c->args[i]);
        return OTL_OK;
    }
    d = sqlite3_value_double(c->args[i]);
    if (type != SQLITE_FLOAT || !(fabs(d) < 9.2e18))
        return bad_argument(c, i, want, err);
    *out = (int64_t)floor(d);
    return OTL_OK;
}

enum otl_err call_duration(struct call_cursor *c, int i, int64_t unit_ns, int64_t *out,
                           struct otl_error *err)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"ms", 1e6}, {"s", 1e9}, {"m", 6e10}, {"h", 3.6e12}, {"d", 8.64e13}};
    int type = sqlite3_value_numeric_type(c->args[i]);
    double d = 0;

    if (type == SQLITE_INTEGER || type == SQLITE_FLOAT) {
        d = sqlite3_value_double(c->args[i]) * (double)unit_ns;
    } else if (type == SQLITE_TEXT) {
        const char *text = (const char *)sqlite3_value_text(c->args[i]);
        size_t digits = text == NULL ? 0 : strspn(text, "0123456789.");

        for (size_t u = 0; digits > 0 && u < sizeof(units) / sizeof(units[0]); u++) {
            if (strcmp(text + digits, units[u].name) == 0)
                d = strtod(text, NULL) * units[u].ns;
        }
    }
    if (!(d >= 1 && d < 9.2e18))
        return bad_argument(c, i,
                            unit_ns == 1 ? "a length of time like '5m', or nanoseconds"
                                         : "a length of time like '5m', or seconds",
                            err);
    *out = (int64_t)d;
    return OTL_OK;
}

/* ---- rows ---- */

static struct cell *next_cell(struct call_cursor *c)
{
    return &c->row.cells[c->row.n++];
}

void call_int(struct call_cursor *c, int64_t v)
{
    *next_cell(c) = (struct cell){CELL_INT, {.i = v}};
}

void call_double(struct call_cursor *c, double d)
{
    struct cell *cell = next_cell(c);

    if (isnan(d)) {
        cell->kind = CELL_NAN;
        nan_bytes(d, cell->u.nan);
    } else {
        *cell = (struct cell){CELL_REAL, {.d = d}};
    }
}

void call_null(struct call_cursor *c)
{
    *next_cell(c) = (struct cell){.kind = CELL_NULL};
}

void call_text(struct call_cursor *c, struct bytes s)
{
    *next_cell(c) = (struct cell){CELL_TEXT, {.text = {c->row.text.n, s.n}}};
    buf_add_bytes(&c->row.text, s);
}

/* JSON of canonical attributes. */
static void call_attributes(struct call_cursor *c, struct bytes canonical)
{
    size_t at = c->row.text.n;

    attrs_to_json(canonical, &c->row.text);
    *next_cell(c) = (struct cell){CELL_TEXT, {.text = {at, c->row.text.n - at}}};
}

enum otl_err call_row(struct call_cursor *c, struct otl_error *err)
{
    bool ok = !c->row.text.failed && row_list_add(&c->rows, &c->row);

    c->row.n = 0;
    buf_reset(&c->row.text);
    return ok ? OTL_OK : otl_fail(err, OTL_ENOMEM, "%s: no memory", c->call->name);
}

/* ---- series_match(selector, project) ---- */

enum { MATCH_SELECTOR, MATCH_PROJECT };

static enum otl_err match_start(struct call_cursor *c, struct otl_error *err)
{
    int64_t project =
        c->args[MATCH_PROJECT] == NULL ? 0 : sqlite3_value_int64(c->args[MATCH_PROJECT]);

    return call_select(c, MATCH_SELECTOR, project, err);
}

static const char *temporality_name(enum temporality t)
{
    return t == TEMPORALITY_DELTA ? "delta" : t == TEMPORALITY_CUMULATIVE ? "cumulative" : "none";
}

static enum otl_err match_fill(struct call_cursor *c, struct otl_error *err)
{
    enum otl_err rc = read_check(c->read, err);

    for (int n = 0; rc == OTL_OK && n < CALL_BATCH && c->next < c->series.n; n++) {
        struct series_info s;

        if (!read_series_info(c->read, c->series.ids[c->next++], &s))
            continue; /* gone between the two looks cannot be: one snapshot */
        call_int(c, s.id);
        call_text(c, s.name);
        call_text(c, s.service);
        call_text(c, bytes_str(metric_type_name(s.type)));
        call_text(c, s.unit);
        call_text(c, bytes_str(temporality_name(s.temporality)));
        call_int(c, s.is_monotonic);
        call_text(c, s.scope_name);
        call_int(c, s.project_id);
        call_attributes(c, s.attributes);
        call_attributes(c, s.resource_attributes);
        rc = call_row(c, err);
    }
    return rc;
}

/* ---- rollup(selector, resolution, from, to) ---- */

enum { ROLLUP_SELECTOR, ROLLUP_RESOLUTION, ROLLUP_FROM, ROLLUP_TO };

static enum otl_err rollup_start(struct call_cursor *c, struct otl_error *err)
{
    enum otl_err rc = call_duration(c, ROLLUP_RESOLUTION, 1000000000, &c->step, err);

    if (rc == OTL_OK && c->step != ROLLUP_5M * INT64_C(1000000000) &&
        c->step != ROLLUP_1H * INT64_C(1000000000))
        rc = otl_fail(err, OTL_EBADREQUEST,
                      "rollup: there are rollups of '5m' and '1h'; windows() takes any step");
    if (rc == OTL_OK)
        rc = call_time(c, ROLLUP_FROM, &c->from, err);
    if (rc == OTL_OK)
        rc = call_time(c, ROLLUP_TO, &c->to, err);
    return rc == OTL_OK ? call_select(c, ROLLUP_SELECTOR, 0, err) : rc;
}

static void call_field(struct call_cursor *c, const struct series_points *p, int field, size_t i)
{
    const struct field_column *f = &p->fields[field];
    double d;

    switch (f->kind == NULL ? (int)VALUE_INT : (int)f->kind[i]) {
    case VALUE_INT:
        call_int(c, f->v[i]);
        break;
    case VALUE_DOUBLE:
        memcpy(&d, &f->v[i], sizeof(d));
        call_double(c, d);
        break;
    default:
        call_null(c);
        break;
    }
}

static enum otl_err rollup_emit(void *arg, int64_t series_id, const struct series_points *p,
                                struct otl_error *err)
{
    static const int fields[] = {NUMBER_ROLLUP_N,         NUMBER_ROLLUP_COUNT,
                                 NUMBER_ROLLUP_SUM,       NUMBER_ROLLUP_MIN,
                                 NUMBER_ROLLUP_MAX,       NUMBER_ROLLUP_FIRST,
                                 NUMBER_ROLLUP_LAST,      NUMBER_ROLLUP_FIRST_TIME,
                                 NUMBER_ROLLUP_LAST_TIME, NUMBER_ROLLUP_INCREASE};
    struct call_cursor *c = arg;
    enum otl_err rc = OTL_OK;

    for (size_t i = 0; i < p->n && rc == OTL_OK; i++) {
        call_int(c, series_id);
        call_int(c, p->time[i]);
        for (size_t f = 0; f < sizeof(fields) / sizeof(fields[0]); f++)
            call_field(c, p, fields[f], i);
        rc = call_row(c, err);
    }
    return rc;
}

static enum otl_err rollup_fill(struct call_cursor *c, struct otl_error *err)
{
    size_t n = c->series.n - c->next;
    enum otl_err rc;

    if (n > CALL_BATCH)
        n = CALL_BATCH;
    rc = read_rollups(c->read, KIND_NUMBER_ROLLUP, (int)(c->step / 1000000000),
                      c->series.ids + c->next, n, c->from, c->to, rollup_emit, c, err);
    c->next += n;
    return rc;
}

/* ---- the calls ---- */

static const char *const match_args[] = {"selector", "project"};
static const char *const rollup_args[] = {"selector", "resolution", "from", "to"};

static const struct sql_call call_match = {
    .name = "series_match",
    .n_columns = 11,
    .n_args = 2,
    .arg_names = match_args,
    .declaration =
        "CREATE TABLE x(series_id INTEGER, name TEXT, service TEXT, type TEXT, unit TEXT,"
        " temporality TEXT, is_monotonic INTEGER, scope TEXT, project_id INTEGER,"
        " attributes TEXT, resource_attributes TEXT, selector HIDDEN, project HIDDEN)",
    .start = match_start,
    .fill = match_fill,
};

static const struct sql_call call_rollup = {
    .name = "rollup",
    .n_columns = 12,
    .n_args = 4,
    .n_required = 4,
    .arg_names = rollup_args,
    .declaration = "CREATE TABLE x(series_id INTEGER, time INTEGER, points INTEGER, count INTEGER,"
                   " sum, min, max, first, last, first_time INTEGER, last_time INTEGER, increase,"
                   " selector HIDDEN, resolution HIDDEN, from_time HIDDEN, to_time HIDDEN)",
    .start = rollup_start,
    .fill = rollup_fill,
};

/* ---- the module ---- */

static int call_connect(sqlite3 *sql, void *aux, int argc, const char *const *argv,
                        sqlite3_vtab **out, char **msg)
{
    const struct sql_aux *a = aux;

    (void)argc;
    (void)argv;
    (void)msg;
    return sql_table_connect(sql, a, ((const struct sql_call *)a->what)->declaration, out);
}

/* idxStr has a digit for each argument that filter gets: which one it is. idxNum has the visible
 * columns that are used. */
static int call_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    const struct sql_call *call = ((struct sql_table *)base)->what;
    char *which = sqlite3_malloc(CALL_MAX_ARGS + 1);
    unsigned seen = 0;
    int n = 0;

    if (which == NULL)
        return SQLITE_NOMEM;
    for (int i = 0; i < info->nConstraint; i++) {
        const struct sqlite3_index_constraint *c = &info->aConstraint[i];
        int arg = c->iColumn - call->n_columns;

        if (arg < 0 || c->op != SQLITE_INDEX_CONSTRAINT_EQ || (seen & 1U << arg) != 0)
            continue;
        if (!c->usable) {
            sqlite3_free(which);
            return SQLITE_CONSTRAINT;
        }
        seen |= 1U << arg;
        which[n++] = (char)('0' + arg);
        info->aConstraintUsage[i].argvIndex = n;
        info->aConstraintUsage[i].omit = 1;
    }
    which[n] = '\0';
    info->idxStr = which;
    info->needToFreeIdxStr = 1;
    info->idxNum = (int)(info->colUsed & 0xffff);
    info->estimatedCost = 1000;
    info->estimatedRows = 1000;
    return SQLITE_OK;
}

static int call_open(sqlite3_vtab *base, sqlite3_vtab_cursor **out)
{
    struct sql_table *table = (struct sql_table *)base;
    struct call_cursor *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return SQLITE_NOMEM;
    c->call = table->what;
    sql_cursor_opened(table->t);
    *out = &c->base;
    return SQLITE_OK;
}

static void call_end(struct call_cursor *c)
{
    if (c->call->end != NULL)
        c->call->end(c);
    c->own = NULL;
}

static int call_close(sqlite3_vtab_cursor *base)
{
    struct call_cursor *c = (struct call_cursor *)base;

    call_end(c);
    sql_cursor_closed(((struct sql_table *)base->pVtab)->t);
    series_list_fini(&c->series);
    row_list_fini(&c->rows);
    row_fini(&c->row);
    free(c);
    return SQLITE_OK;
}

/* A series list without rows is no end: go on until there are some or nothing is left. */
static enum otl_err fill(struct call_cursor *c, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    row_list_reset(&c->rows, c->call->n_columns);
    c->at = 0;
    while (rc == OTL_OK && c->rows.rows.n == 0) {
        size_t before = c->next;

        rc = c->call->fill(c, err);
        if (c->next == before)
            break;
    }
    return rc;
}

static enum otl_err check_arguments(const struct call_cursor *c, struct otl_error *err)
{
    struct buf b = {0};

    for (int i = 0; i < c->call->n_required; i++) {
        if (c->args[i] != NULL)
            continue;
        for (int j = 0; j < c->call->n_args; j++)
            buf_printf(&b, "%s%s%s", j > 0 && j == c->call->n_required ? " [" : "",
                       j > 0 ? ", " : "", c->call->arg_names[j]);
        (void)otl_fail(err, OTL_EBADREQUEST, "%s(%s%s): %s is missing", c->call->name, buf_cstr(&b),
                       c->call->n_required < c->call->n_args ? "]" : "", c->call->arg_names[i]);
        buf_fini(&b);
        return OTL_EBADREQUEST;
    }
    return OTL_OK;
}

static int call_filter(sqlite3_vtab_cursor *base, int number, const char *which, int argc,
                       sqlite3_value **argv)
{
    struct call_cursor *c = (struct call_cursor *)base;
    struct otl_error err;
    enum otl_err rc;

    call_end(c);
    c->series.n = c->next = 0;
    c->rowid = 0;
    c->columns_used = (uint64_t)(unsigned)number;
    memset(c->args, 0, sizeof(c->args));
    for (int i = 0; i < argc; i++) {
        /* NULL is an argument that was not given. */
        if (sqlite3_value_type(argv[i]) != SQLITE_NULL)
            c->args[which[i] - '0'] = argv[i];
    }
    rc = check_arguments(c, &err);
    if (rc == OTL_OK)
        rc = sql_read(((struct sql_table *)base->pVtab)->t, &c->read, &err);
    if (rc == OTL_OK)
        rc = c->call->start(c, &err);
    if (rc == OTL_OK)
        rc = fill(c, &err);
    memset(c->args, 0, sizeof(c->args));
    return rc == OTL_OK ? SQLITE_OK : sql_table_fail(base->pVtab, &err);
}

static int call_next(sqlite3_vtab_cursor *base)
{
    struct call_cursor *c = (struct call_cursor *)base;
    struct otl_error err;

    c->at++;
    c->rowid++;
    if (c->at == c->rows.rows.n && fill(c, &err) != OTL_OK)
        return sql_table_fail(base->pVtab, &err);
    return SQLITE_OK;
}

static int call_eof(sqlite3_vtab_cursor *base)
{
    const struct call_cursor *c = (const struct call_cursor *)base;

    return c->at >= c->rows.rows.n;
}

static int call_column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int col)
{
    struct call_cursor *c = (struct call_cursor *)base;

    /* The arguments: SQLite was told that it need not look at them. */
    if (col < c->call->n_columns)
        row_list_result(&c->rows, ctx, c->at, col, true);
    return SQLITE_OK;
}

static int call_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = ((const struct call_cursor *)base)->rowid;
    return SQLITE_OK;
}

static const sqlite3_module call_methods = {
    .xConnect = call_connect,
    .xBestIndex = call_best_index,
    .xDisconnect = sql_table_disconnect,
    .xOpen = call_open,
    .xClose = call_close,
    .xFilter = call_filter,
    .xNext = call_next,
    .xEof = call_eof,
    .xColumn = call_column,
    .xRowid = call_rowid,
};

int sql_calls_register(struct sql_tables *t)
{
    static const struct sql_call *const calls[] = {&call_match, &call_windows, &call_rollup};
    int rc = SQLITE_OK;

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]) && rc == SQLITE_OK; i++)
        rc = sql_add_module(t, calls[i]->name, &call_methods, calls[i]);
    return rc;
}
