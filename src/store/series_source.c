#include "series_source.h"

#include <sqlite3.h>
#include <stdlib.h>

#include "otlite/attrs.h"

struct source_cursor {
    sqlite3_vtab_cursor base;
    struct series_source *src;
    uint32_t at;
};

struct source_table {
    sqlite3_vtab base; /* first: SQLite sees only this */
    struct series_source *src;
    struct source_cursor cursor; /* one is all that is ever open: an insert allocates nothing */
    bool is_open;
};

static int source_connect(sqlite3 *sql, void *aux, int argc, const char *const *argv,
                          sqlite3_vtab **out, char **msg)
{
    struct source_table *t;
    int rc =
        sqlite3_declare_vtab(sql, "CREATE TABLE series_source(metric_id, attributes, identity)");

    (void)argc;
    (void)argv;
    (void)msg;
    if (rc != SQLITE_OK)
        return rc;
    t = sqlite3_malloc(sizeof(*t));
    if (t == NULL)
        return SQLITE_NOMEM;
    *t = (struct source_table){.src = aux};
    *out = &t->base;
    return SQLITE_OK;
}

static int source_disconnect(sqlite3_vtab *table)
{
    sqlite3_free(table);
    return SQLITE_OK;
}

static int source_best_index(sqlite3_vtab *table, sqlite3_index_info *info)
{
    (void)table;
    info->estimatedCost = 100;
    info->estimatedRows = 100;
    return SQLITE_OK;
}

static int source_open(sqlite3_vtab *table, sqlite3_vtab_cursor **out)
{
    struct source_table *t = (struct source_table *)table;

    if (t->is_open)
        return SQLITE_MISUSE;
    t->is_open = true;
    t->cursor = (struct source_cursor){.src = t->src};
    *out = &t->cursor.base;
    return SQLITE_OK;
}

static int source_close(sqlite3_vtab_cursor *cursor)
{
    ((struct source_table *)cursor->pVtab)->is_open = false;
    return SQLITE_OK;
}

static int source_filter(sqlite3_vtab_cursor *cursor, int number, const char *name, int argc,
                         sqlite3_value **argv)
{
    struct source_cursor *c = (struct source_cursor *)cursor;

    (void)number;
    (void)name;
    (void)argc;
    (void)argv;
    c->at = c->src->first;
    return SQLITE_OK;
}

static int source_next(sqlite3_vtab_cursor *cursor)
{
    ((struct source_cursor *)cursor)->at++;
    return SQLITE_OK;
}

static int source_eof(sqlite3_vtab_cursor *cursor)
{
    const struct source_cursor *c = (const struct source_cursor *)cursor;

    return c->at >= c->src->n;
}

static int source_column(sqlite3_vtab_cursor *cursor, sqlite3_context *ctx, int col)
{
    const struct source_cursor *c = (const struct source_cursor *)cursor;
    const struct dict_entry *e = &c->src->series->entries[c->at];
    struct bytes key = dict_key(e);

    switch (col) {
    case 0:
        sqlite3_result_int64(ctx, e->parent);
        break;
    case 1:
        /* The row is made before the next one's text. */
        buf_reset(&c->src->text);
        attrs_to_json(key, &c->src->text);
        if (c->src->text.failed)
            return SQLITE_NOMEM;
        sqlite3_result_text64(ctx, (const char *)c->src->text.p, c->src->text.n, SQLITE_STATIC,
                              SQLITE_UTF8);
        break;
    default:
        sqlite3_result_blob64(ctx, key.n == 0 ? (const void *)"" : key.p, key.n, SQLITE_STATIC);
        break;
    }
    return SQLITE_OK;
}

static int source_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *out)
{
    *out = ((const struct source_cursor *)cursor)->at;
    return SQLITE_OK;
}

/* No xCreate: the table is there by its module's name and cannot be created in the file. */
static const sqlite3_module source_module = {
    .xConnect = source_connect,
    .xDisconnect = source_disconnect,
    .xBestIndex = source_best_index,
    .xOpen = source_open,
    .xClose = source_close,
    .xFilter = source_filter,
    .xNext = source_next,
    .xEof = source_eof,
    .xColumn = source_column,
    .xRowid = source_rowid,
};

enum otl_err series_source_register(struct db *db, struct series_source *src, struct otl_error *err)
{
    int rc = sqlite3_create_module_v2(db->sql, "series_source", &source_module, src, NULL);

    return rc == SQLITE_OK ? OTL_OK : db_fail(db, rc, "register series_source", err);
}
