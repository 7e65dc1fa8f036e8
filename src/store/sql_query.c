/* sql_query.c -- one query of a client, with every limit that keeps it from hurting others. */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "otlite/clock.h"
#include "otlite/sql.h"
#include "sql_internal.h"

enum {
    PROGRESS_OPS = 2000, /* of SQLite's virtual machine, some 50 us, between looks at the limits */
    MAX_TEXT = 1 << 20,
    MAX_PARAMS = 1000,
    /* LIKE and GLOB take time exponential in the pattern's wildcards, within one instruction. */
    MAX_PATTERN = 256,
    /* Above the largest block (block.h), which this connection has to read. */
    MAX_VALUE = 64 << 20
};

/* Of the connection, while the query runs. */
static const int LIMITS[][2] = {
    {SQLITE_LIMIT_LENGTH, MAX_VALUE},    {SQLITE_LIMIT_SQL_LENGTH, MAX_TEXT},
    {SQLITE_LIMIT_COLUMN, 500},          {SQLITE_LIMIT_EXPR_DEPTH, 200},
    {SQLITE_LIMIT_COMPOUND_SELECT, 100}, {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, MAX_PATTERN},
};
enum { N_LIMITS = sizeof(LIMITS) / sizeof(LIMITS[0]) };

struct run {
    struct db *db;
    struct sql_tables *tables;
    const struct sql_query *q;
    struct sql_guard guard;
    struct buf text;      /* the statement */
    sqlite3_stmt *params; /* (type, value) of each, or NULL */
    uint64_t max_rows;
    int64_t timeout_ms, begin_ns, deadline_ns;
    int64_t memory_before;
    enum otl_err ended; /* what the progress handler ended it for */
};

/* ---- the request ---- */

/* "500ms", "5s", "1.5m", "1h", or seconds alone. */
static bool parse_timeout(const char *s, int64_t *out_ms)
{
    static const struct {
        const char *name;
        double ms;
    } units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    size_t n = strspn(s, "0123456789.");
    double d;
    char *end;

    if (n == 0 || n > 15)
        return false;
    d = strtod(s, &end);
    if (end != s + n)
        return false;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(end, units[i].name) != 0)
            continue;
        d *= units[i].ms;
        if (!(d >= 1 && d <= 1e12))
            return false;
        *out_ms = (int64_t)d;
        return true;
    }
    return false;
}

static bool is_type(sqlite3_stmt *st, int col, const char *name)
{
    const char *type = (const char *)sqlite3_column_text(st, col);

    return type != NULL && strcmp(type, name) == 0;
}

/* One member of the body: key, type, value as json_each has them. */
static enum otl_err take_member(struct run *r, sqlite3_stmt *st, bool *has_params,
                                struct otl_error *err)
{
    const char *key = (const char *)sqlite3_column_text(st, 0);
    int64_t n;

    if (key == NULL)
        return otl_fail(err, OTL_ENOMEM, "query: no memory");
    if (strcmp(key, "sql") == 0) {
        if (!is_type(st, 1, "text"))
            return otl_fail(err, OTL_EBADREQUEST, "\"sql\" must be a string");
        buf_reset(&r->text);
        buf_add_bytes(&r->text, sql_column(st, 2));
    } else if (strcmp(key, "params") == 0) {
        if (!is_type(st, 1, "array") && !is_type(st, 1, "null"))
            return otl_fail(err, OTL_EBADREQUEST, "\"params\" must be an array");
        *has_params = is_type(st, 1, "array");
    } else if (strcmp(key, "limit") == 0) {
        n = sqlite3_column_int64(st, 2);
        if (!is_type(st, 1, "integer") || n < 0)
            return otl_fail(err, OTL_EBADREQUEST, "\"limit\" must be a number of rows");
        if ((uint64_t)n < r->max_rows)
            r->max_rows = (uint64_t)n;
    } else if (strcmp(key, "timeout") == 0) {
        const char *text = (const char *)sqlite3_column_text(st, 2);

        if (text == NULL || !parse_timeout(text, &n))
            return otl_fail(err, OTL_EBADREQUEST,
                            "\"timeout\" must be a duration like \"5s\" or \"500ms\", or seconds");
        if (n < r->timeout_ms)
            r->timeout_ms = n;
    } else {
        return otl_fail(err, OTL_EBADREQUEST,
                        "the body has a member \"%.60s\"; known are sql, params, limit, timeout",
                        key);
    }
    return OTL_OK;
}

static enum otl_err bind_body(struct run *r, sqlite3_stmt *st, struct otl_error *err)
{
    int rc = sqlite3_bind_text64(st, 1, (const char *)r->q->body.p, r->q->body.n, SQLITE_STATIC,
                                 SQLITE_UTF8);

    return rc == SQLITE_OK ? OTL_OK : db_fail(r->db, rc, "read the body", err);
}

/* SQLite's own reader of JSON is as strict as is needed. */
static enum otl_err read_json(struct run *r, struct otl_error *err)
{
    bool has_params = false, is_object;
    sqlite3_stmt *st;
    enum otl_err rc = db_prepare(
        r->db, "SELECT CASE WHEN json_valid(?1) THEN json_type(?1) = 'object' ELSE 0 END", &st,
        err);
    int step;

    if (rc != OTL_OK)
        return rc;
    rc = bind_body(r, st, err);
    is_object = rc == OTL_OK && sqlite3_step(st) == SQLITE_ROW && sqlite3_column_int(st, 0) != 0;
    (void)sqlite3_finalize(st);
    if (rc == OTL_OK && !is_object)
        return otl_fail(err, OTL_EBADREQUEST,
                        "the body is not a JSON object; send {\"sql\": \"SELECT ...\"}, or the "
                        "statement itself as text/plain");
    if (rc == OTL_OK)
        rc = db_prepare(r->db, "SELECT key, type, value FROM json_each(?1)", &st, err);
    if (rc != OTL_OK)
        return rc;
    rc = bind_body(r, st, err);
    while (rc == OTL_OK && (step = sqlite3_step(st)) != SQLITE_DONE)
        rc = step == SQLITE_ROW ? take_member(r, st, &has_params, err)
                                : db_fail(r->db, step, "read the body", err);
    (void)sqlite3_finalize(st);
    if (rc != OTL_OK || !has_params)
        return rc;
    rc = db_prepare(r->db, "SELECT type, value FROM json_each(?1, '$.params')", &r->params, err);
    return rc == OTL_OK ? bind_body(r, r->params, err) : rc;
}

/* SQLite's reader of JSON ends a string there without a word. */
static bool escapes_zero(struct bytes b)
{
    bool escaped = false;

    for (size_t i = 0; i < b.n; i++) {
        if (escaped && b.n - i >= 5 && memcmp(b.p + i, "u0000", 5) == 0)
            return true;
        escaped = !escaped && b.p[i] == '\\';
    }
    return false;
}

static enum otl_err read_request(struct run *r, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    if (r->q->body.n > MAX_TEXT)
        return otl_fail(err, OTL_ETOOBIG, "the query is longer than %d bytes", MAX_TEXT);
    if (r->q->is_json && escapes_zero(r->q->body))
        return otl_fail(err, OTL_EBADREQUEST, "the body holds \\u0000, which SQL texts cannot");
    if (r->q->is_json)
        rc = read_json(r, err);
    else
        buf_add_bytes(&r->text, r->q->body);
    if (rc != OTL_OK)
        return rc;
    if (memchr(r->text.p != NULL ? (const char *)r->text.p : "", 0, r->text.n) != NULL)
        return otl_fail(err, OTL_EBADREQUEST, "the statement holds a zero byte");
    (void)buf_cstr(&r->text);
    return r->text.failed ? otl_fail(err, OTL_ENOMEM, "query: no memory") : OTL_OK;
}

/* ---- limits ---- */

static int on_progress(void *arg)
{
    struct run *r = arg;

    if (r->q->cancel != NULL && atomic_load_explicit(r->q->cancel, memory_order_relaxed))
        r->ended = OTL_ECANCELLED;
    else if (clock_mono_ns() >= r->deadline_ns)
        r->ended = OTL_ELATE;
    /* Of the process: also what other queries hold, which only makes the limit come earlier. */
    else if (sqlite3_memory_used() - r->memory_before > (int64_t)r->q->max_memory)
        r->ended = OTL_ETOOBIG;
    return r->ended != OTL_OK;
}

static void swap_limits(struct db *db, int *values)
{
    for (int i = 0; i < N_LIMITS; i++)
        values[i] = sqlite3_limit(db->sql, LIMITS[i][0], values[i]);
}

static enum otl_err limit_error(const struct run *r, enum otl_err code, struct otl_error *err)
{
    if (code == OTL_ECANCELLED)
        return otl_fail(err, code, "the client went away");
    if (code == OTL_ELATE)
        return otl_fail(err, code,
                        "the query took longer than %" PRId64
                        " ms; ask for less, or raise query.timeout (and the timeout in the body)",
                        r->timeout_ms);
    return otl_fail(err, code,
                    "the query needs more than %zu bytes of memory (query.max_memory); ask for "
                    "fewer series or a shorter range",
                    r->q->max_memory);
}

/* Why preparing or stepping failed. */
static enum otl_err query_error(struct run *r, int rc, struct otl_error *err)
{
    int at = sqlite3_error_offset(r->db->sql);
    enum otl_err mine;
    size_t line, column;

    if (r->ended != OTL_OK)
        return limit_error(r, r->ended, err);
    mine = sql_last_error(r->tables, err);
    if (mine == OTL_ELATE || mine == OTL_ECANCELLED || mine == OTL_ETOOBIG)
        return limit_error(r, mine, err);
    if (mine != OTL_OK)
        return mine;
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_IOERR:
    case SQLITE_FULL:
    case SQLITE_NOMEM:
        return db_fail(r->db, rc, "run the query", err);
    default:
        break;
    }
    if (r->guard.what[0] != '\0')
        return otl_fail(err, OTL_EBADREQUEST,
                        "refused: %s; SQL here only reads: SELECT, EXPLAIN and pragmas that tell "
                        "something",
                        r->guard.what);
    if (at < 0 || (size_t)at > r->text.n)
        return otl_fail(err, OTL_EBADREQUEST, "%.400s", sqlite3_errmsg(r->db->sql));
    sql_place(buf_cstr(&r->text), (size_t)at, &line, &column);
    return otl_fail(err, OTL_EBADREQUEST, "%.400s (line %zu, column %zu)",
                    sqlite3_errmsg(r->db->sql), line, column);
}

static enum otl_err check_project(struct run *r, struct otl_error *err)
{
    bool only = true;
    enum otl_err rc = OTL_OK;

    if (r->q->project != 0)
        rc = sql_only_project(r->tables, r->q->project, &only, err);
    if (rc == OTL_OK && !only)
        rc = otl_fail(err, OTL_EFORBIDDEN,
                      "the database holds metrics of other projects too, and SQL reads all of it: "
                      "use a token with the scope admin");
    return rc;
}

/* ---- running it ---- */

static enum otl_err prepare_one(struct run *r, sqlite3_stmt **out, struct otl_error *err)
{
    const char *text = buf_cstr(&r->text), *tail = text;
    sqlite3_stmt *second = NULL;
    int rc = sqlite3_prepare_v2(r->db->sql, text, -1, out, &tail);

    if (rc != SQLITE_OK)
        return query_error(r, rc, err);
    if (*out == NULL)
        return otl_fail(err, OTL_EBADREQUEST, "there is no statement in the request");
    tail += strspn(tail, " \t\r\n\f;");
    /* Nothing but comments gives no statement. */
    if (*tail == '\0' ||
        (sqlite3_prepare_v2(r->db->sql, tail, -1, &second, NULL) == SQLITE_OK && second == NULL))
        return OTL_OK;
    (void)sqlite3_finalize(second);
    return otl_fail(err, OTL_EBADREQUEST,
                    "the request holds more than one statement; send one at a time");
}

static int bind_value(sqlite3_stmt *to, int i, sqlite3_stmt *from)
{
    if (is_type(from, 0, "object") || is_type(from, 0, "array") || is_type(from, 0, "text"))
        return sqlite3_bind_text(to, i, (const char *)sqlite3_column_text(from, 1),
                                 sqlite3_column_bytes(from, 1), SQLITE_TRANSIENT);
    return sqlite3_bind_value(to, i, sqlite3_column_value(from, 1));
}

static enum otl_err bind_params(struct run *r, sqlite3_stmt *st, struct otl_error *err)
{
    int want = sqlite3_bind_parameter_count(st), n = 0, rc = SQLITE_DONE;

    while (r->params != NULL && n <= MAX_PARAMS && (rc = sqlite3_step(r->params)) == SQLITE_ROW) {
        n++;
        if (n <= want && (rc = bind_value(st, n, r->params)) != SQLITE_OK)
            break;
    }
    if (rc != SQLITE_DONE && rc != SQLITE_ROW)
        return db_fail(r->db, rc, "bind the parameters", err);
    if (n != want)
        return otl_fail(err, OTL_EBADREQUEST, "the statement has %d parameters, and params has %d",
                        want, n);
    return OTL_OK;
}

static void add_names(const struct run *r, sqlite3_stmt *st, struct buf *out)
{
    for (int i = 0; i < sqlite3_column_count(st); i++) {
        struct bytes name = bytes_str(sqlite3_column_name(st, i));

        if (i > 0)
            buf_add_char(out, ',');
        if (r->q->csv)
            buf_add_csv_field(out, name);
        else
            buf_add_json_string(out, name);
    }
}

/* False: the row does not fit, and out is as it was. */
static bool add_row(const struct run *r, sqlite3_stmt *st, bool first, struct buf *out)
{
    size_t before = out->n;

    if (!r->q->csv)
        buf_add_str(out, first ? "[" : ",\n[");
    for (int i = 0; i < sqlite3_column_count(st); i++) {
        if (i > 0)
            buf_add_char(out, ',');
        if (r->q->csv)
            sql_add_csv(out, st, i);
        else
            sql_add_json(out, st, i);
        if (out->n > r->q->max_bytes) {
            out->n = before;
            return false;
        }
    }
    buf_add_char(out, r->q->csv ? '\n' : ']');
    return true;
}

static enum otl_err run_statement(struct run *r, sqlite3_stmt *st, struct buf *out, bool *truncated,
                                  struct otl_error *err)
{
    uint64_t rows = 0;
    int rc;

    *truncated = false;
    if (!r->q->csv)
        buf_add_str(out, "{\"columns\":[");
    add_names(r, st, out);
    buf_add_str(out, r->q->csv ? "\n" : "],\n\"rows\":[");
    while (!out->failed && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        if (rows == r->max_rows || !add_row(r, st, rows == 0, out)) {
            *truncated = true;
            break;
        }
        rows++;
    }
    if (out->failed)
        return otl_fail(err, OTL_ENOMEM, "query: no memory for the answer");
    if (rc != SQLITE_DONE && rc != SQLITE_ROW)
        return query_error(r, rc, err);
    if (!r->q->csv)
        buf_printf(out, "],\n\"truncated\":%s,\"elapsed_ms\":%.3f}\n",
                   *truncated ? "true" : "false", (double)(clock_mono_ns() - r->begin_ns) / 1e6);
    return out->failed ? otl_fail(err, OTL_ENOMEM, "query: no memory for the answer") : OTL_OK;
}

static enum otl_err run_limited(struct run *r, struct buf *out, bool *truncated,
                                struct otl_error *err)
{
    const struct read_limits limits = {
        .deadline_ns = r->deadline_ns, .max_bytes = r->q->max_memory, .cancel = r->q->cancel};
    int values[N_LIMITS];
    sqlite3_stmt *st = NULL;
    enum otl_err rc;

    for (int i = 0; i < N_LIMITS; i++)
        values[i] = LIMITS[i][1];
    swap_limits(r->db, values);
    sql_set_limits(r->tables, &limits);
    sql_guard(r->db, &r->guard);
    sqlite3_progress_handler(r->db->sql, PROGRESS_OPS, on_progress, r);
    rc = prepare_one(r, &st, err);
    if (rc == OTL_OK)
        rc = bind_params(r, st, err);
    if (rc == OTL_OK)
        rc = run_statement(r, st, out, truncated, err);
    (void)sqlite3_finalize(st);
    sqlite3_progress_handler(r->db->sql, 0, NULL, NULL);
    sql_guard(r->db, NULL);
    sql_set_limits(r->tables, NULL);
    swap_limits(r->db, values);
    return rc;
}

enum otl_err sql_answer(struct db *db, struct sql_tables *t, const struct sql_query *q,
                        struct buf *out, bool *truncated, struct otl_error *err)
{
    struct run r = {.db = db,
                    .tables = t,
                    .q = q,
                    .guard = {.remote = true},
                    .max_rows = q->max_rows,
                    .timeout_ms = q->timeout_ms,
                    .begin_ns = clock_mono_ns(),
                    .memory_before = sqlite3_memory_used()};
    enum otl_err rc;

    if (q->cancel != NULL && atomic_load_explicit(q->cancel, memory_order_relaxed))
        return limit_error(&r, OTL_ECANCELLED, err);
    rc = check_project(&r, err);
    if (rc == OTL_OK)
        rc = read_request(&r, err);
    r.deadline_ns = r.begin_ns + r.timeout_ms * NS_PER_MS;
    if (rc == OTL_OK)
        rc = run_limited(&r, out, truncated, err);
    (void)sqlite3_finalize(r.params);
    buf_fini(&r.text);
    return rc;
}
