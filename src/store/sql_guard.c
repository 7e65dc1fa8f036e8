/* sql_guard.c -- the authorizer of connections that people's SQL runs on, and values as text. */
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "otlite/sql.h"

static bool is_one_of(const char *s, const char *const *words)
{
    for (; *words != NULL; words++)
        if (strcasecmp(s, *words) == 0)
            return true;
    return false;
}

/* Pragmas that only tell something. The first list takes an argument (a table's name), the second
 * reads the whole file, the third must not have an argument, since with it they would set. */
static bool pragma_reads(const struct sql_guard *g, const char *name, const char *argument)
{
    static const char *const asking[] = {"table_info",       "table_xinfo", "table_list",
                                         "index_list",       "index_info",  "index_xinfo",
                                         "foreign_key_list", NULL};
    static const char *const checking[] = {"integrity_check", "quick_check", "foreign_key_check",
                                           NULL};
    static const char *const plain[] = {"application_id",     "auto_vacuum",
                                        "busy_timeout",       "cache_size",
                                        "collation_list",     "compile_options",
                                        "data_version",       "database_list",
                                        "encoding",           "foreign_keys",
                                        "freelist_count",     "function_list",
                                        "journal_mode",       "mmap_size",
                                        "module_list",        "page_count",
                                        "page_size",          "pragma_list",
                                        "query_only",         "schema_version",
                                        "secure_delete",      "synchronous",
                                        "temp_store",         "user_version",
                                        "wal_autocheckpoint", NULL};

    return is_one_of(name, asking) || (!g->remote && is_one_of(name, checking)) ||
           (argument == NULL && is_one_of(name, plain));
}

/* What an action is called by people; a and b name its objects. */
static void describe(struct sql_guard *g, int action, const char *a, const char *b)
{
    static const struct {
        int action;
        const char *verb; /* followed by a */
    } verbs[] = {
        {SQLITE_INSERT, "INSERT into "},
        {SQLITE_UPDATE, "UPDATE of "},
        {SQLITE_DELETE, "DELETE from "},
        {SQLITE_ATTACH, "ATTACH "},
        {SQLITE_DETACH, "DETACH "},
        {SQLITE_TRANSACTION, "transaction: "},
        {SQLITE_SAVEPOINT, "savepoint: "},
        {SQLITE_READ, "reading "},
        {SQLITE_ANALYZE, "ANALYZE "},
        {SQLITE_REINDEX, "REINDEX "},
        {SQLITE_ALTER_TABLE, "ALTER TABLE in "},
    };
    const char *verb = "a change of the schema: ";

    if (a == NULL)
        a = "";
    if (action == SQLITE_FUNCTION) {
        (void)snprintf(g->what, sizeof(g->what), "the function %.120s", b == NULL ? "" : b);
        return;
    }
    if (action == SQLITE_PRAGMA) {
        (void)snprintf(g->what, sizeof(g->what), "PRAGMA %.80s%s", a,
                       b == NULL ? "" : " with a value");
        return;
    }
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (verbs[i].action == action)
            verb = verbs[i].verb;
    }
    (void)snprintf(g->what, sizeof(g->what), "%s%.120s", verb, a);
}

static int authorize(void *arg, int action, const char *a, const char *b, const char *schema,
                     const char *trigger)
{
    static const char *const unsafe[] = {"load_extension", "fts3_tokenizer", NULL};
    struct sql_guard *g = arg;
    bool ok = false;

    (void)trigger;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_RECURSIVE:
        ok = true;
        break;
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT:
        ok = !g->remote;
        break;
    case SQLITE_FUNCTION:
        ok = b != NULL && !is_one_of(b, unsafe);
        break;
    case SQLITE_PRAGMA:
        ok = a != NULL && pragma_reads(g, a, b);
        break;
    case SQLITE_UPDATE:
        /* What SQLite asks when a table-valued function (json_each and the like) declares its
         * columns. A real UPDATE of that table is refused by SQLite itself. */
        ok = a != NULL && strcasecmp(a, "sqlite_master") == 0 && schema != NULL &&
             strcasecmp(schema, "main") == 0;
        break;
    case SQLITE_READ:
        /* Nobody needs the hash of a token to read metrics: it reads as NULL. */
        if (schema != NULL && strcasecmp(schema, "state") == 0 && a != NULL && b != NULL &&
            strcasecmp(a, "token") == 0 && strcasecmp(b, "hash") == 0)
            return SQLITE_IGNORE;
        ok = a == NULL || strcasecmp(a, "sqlite_dbpage") != 0;
        break;
    default:
        break;
    }
    if (ok)
        return SQLITE_OK;
    describe(g, action, a, b);
    return SQLITE_DENY;
}

void sql_guard(struct db *db, struct sql_guard *g)
{
    (void)sqlite3_set_authorizer(db->sql, g == NULL ? NULL : authorize, g);
}

/* ---- values ---- */

struct bytes sql_column(sqlite3_stmt *st, int col)
{
    const void *p = sqlite3_column_blob(st, col);
    int n = sqlite3_column_bytes(st, col);

    return p == NULL || n <= 0 ? (struct bytes){NULL, 0} : bytes_of(p, (size_t)n);
}

void sql_add_json(struct buf *b, sqlite3_stmt *st, int col)
{
    double d;

    switch (sqlite3_column_type(st, col)) {
    case SQLITE_NULL:
        buf_add_str(b, "null");
        break;
    case SQLITE_INTEGER:
        buf_add_bytes(b, sql_column(st, col));
        break;
    case SQLITE_FLOAT:
        d = sqlite3_column_double(st, col);
        if (isinf(d))
            buf_add_str(b, d > 0 ? "9.0e+999" : "-9.0e+999");
        else
            buf_add_double(b, d);
        break;
    case SQLITE_BLOB:
        buf_add_char(b, '"');
        buf_add_base64(b, sql_column(st, col));
        buf_add_char(b, '"');
        break;
    default:
        buf_add_json_string(b, sql_column(st, col));
        break;
    }
}

void sql_add_csv(struct buf *b, sqlite3_stmt *st, int col)
{
    if (sqlite3_column_type(st, col) != SQLITE_NULL)
        buf_add_csv_field(b, sql_column(st, col));
}

void sql_place(const char *text, size_t at, size_t *line, size_t *column)
{
    size_t start = 0;

    *line = 1;
    for (size_t i = 0; i < at; i++) {
        if (text[i] == '\n') {
            ++*line;
            start = i + 1;
        }
    }
    *column = at - start + 1;
}
