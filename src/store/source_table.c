#include "source_table.h"

#include <sqlite3.h>
#include <stdlib.h>

/* What SQLite keeps for the module. */
struct registered {
    const struct source_table *table;
    struct source_rows *src;
};

struct cursor {
    sqlite3_vtab_cursor base;
    struct source_rows *src;
    int (*column)(struct source_rows *src, struct sqlite3_context *ctx, uint32_t row, int col);
    uint32_t at;
};

struct connected {
    sqlite3_vtab base; /* first: SQLite sees only this */
    const struct registered *module;
    struct cursor cursor; /* one is all that is ever open: an insert allocates nothing */
    bool is_open;
};

static int source_connect(sqlite3 *sql, void *aux, int argc, const char *const *argv,
                          sqlite3_vtab **out, char **msg)
{
    const struct registered *r = aux;
    struct connected *t;
    int rc = sqlite3_declare_vtab(sql, r->table->declaration);

    (void)argc;
    (void)argv;
    (void)msg;
    if (rc != SQLITE_OK)
        return rc;
    t = sqlite3_malloc(sizeof(*t));
    if (t == NULL)
        return SQLITE_NOMEM;
    *t = (struct connected){.module = r};
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
    struct connected *t = (struct connected *)table;

    if (t->is_open)
        return SQLITE_MISUSE;
    t->is_open = true;
    t->cursor = (struct cursor){.src = t->module->src, .column = t->module->table->column};
    *out = &t->cursor.base;
    return SQLITE_OK;
}

static int source_close(sqlite3_vtab_cursor *cursor)
{
    ((struct connected *)cursor->pVtab)->is_open = false;
    return SQLITE_OK;
}

static int source_filter(sqlite3_vtab_cursor *cursor, int number, const char *name, int argc,
                         sqlite3_value **argv)
{
    struct cursor *c = (struct cursor *)cursor;

    (void)number;
    (void)name;
    (void)argc;
    (void)argv;
    c->at = c->src->first;
    return SQLITE_OK;
}

static int source_next(sqlite3_vtab_cursor *cursor)
{
    ((struct cursor *)cursor)->at++;
    return SQLITE_OK;
}

static int source_eof(sqlite3_vtab_cursor *cursor)
{
    const struct cursor *c = (const struct cursor *)cursor;

    return c->at >= c->src->n;
}

static int source_column(sqlite3_vtab_cursor *cursor, sqlite3_context *ctx, int col)
{
    const struct cursor *c = (const struct cursor *)cursor;

    return c->column(c->src, ctx, c->at, col);
}

static int source_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *out)
{
    *out = ((const struct cursor *)cursor)->at;
    return SQLITE_OK;
}

/* No xCreate: see the header. */
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

enum otl_err source_table_register(struct db *db, const struct source_table *table,
                                   struct source_rows *src, struct otl_error *err)
{
    struct registered *r = malloc(sizeof(*r));
    int rc;

    if (r == NULL)
        return otl_fail(err, OTL_ENOMEM, "register %s: no memory", table->name);
    *r = (struct registered){table, src};
    /* SQLite frees r, also when it fails. */
    rc = sqlite3_create_module_v2(db->sql, table->name, &source_module, r, free);
    return rc == SQLITE_OK ? OTL_OK : db_fail(db, rc, "register a table of rows", err);
}
