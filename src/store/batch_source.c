#include "batch_source.h"

#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>

#include "rows.h"

struct source_cursor {
    sqlite3_vtab_cursor base;
    const struct batch_source *src;
    uint32_t at;
};

struct source_table {
    sqlite3_vtab base; /* first: SQLite sees only this */
    const struct batch_source *src;
    struct source_cursor cursor; /* one is all that is ever open: an insert allocates nothing */
    bool is_open;
};

static int source_connect(sqlite3 *sql, void *aux, int argc, const char *const *argv,
                          sqlite3_vtab **out, char **msg)
{
    struct source_table *t;
    int rc = sqlite3_declare_vtab(
        sql, "CREATE TABLE batch_source(series_id, time, start_time, flags, value)");

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

static void result_value(sqlite3_context *ctx, const struct value *v)
{
    if (v->kind == VALUE_INT) {
        sqlite3_result_int64(ctx, v->u.i);
    } else if (v->kind == VALUE_DOUBLE && isnan(v->u.d)) {
        uint8_t bits[8];

        nan_bytes(v->u.d, bits);
        sqlite3_result_blob(ctx, bits, 8, SQLITE_TRANSIENT);
    } else if (v->kind == VALUE_DOUBLE) {
        sqlite3_result_double(ctx, v->u.d);
    } else {
        sqlite3_result_null(ctx);
    }
}

static int source_column(sqlite3_vtab_cursor *cursor, sqlite3_context *ctx, int col)
{
    const struct source_cursor *c = (const struct source_cursor *)cursor;
    uint32_t i = c->src->which == NULL ? c->at : c->src->which[c->at];
    const struct number_point *point = &c->src->points[i];

    switch (col) {
    case 0:
        sqlite3_result_int64(ctx, c->src->keys[i].series_id);
        break;
    case 1:
        sqlite3_result_int64(ctx, point->p.time);
        break;
    case 2:
        sqlite3_result_int64(ctx, point->p.start_time);
        break;
    case 3:
        sqlite3_result_int64(ctx, point->p.flags);
        break;
    default:
        result_value(ctx, &point->value);
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

enum otl_err batch_source_register(struct db *db, struct batch_source *src, struct otl_error *err)
{
    int rc = sqlite3_create_module_v2(db->sql, "batch_source", &source_module, src, NULL);

    return rc == SQLITE_OK ? OTL_OK : db_fail(db, rc, "register batch_source", err);
}
