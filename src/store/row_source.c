#include "row_source.h"

#include <sqlite3.h>
#include <stdlib.h>

_Static_assert(ROW_MAX_CELLS == 16, "the columns declared below");

static const char DECLARATION[] =
    "CREATE TABLE row_source(c0,c1,c2,c3,c4,c5,c6,c7,c8,c9,c10,c11,c12,c13,c14,c15)";

/* ---- the list ---- */

void row_list_fini(struct row_list *l)
{
    free(l->cells);
    buf_fini(&l->text);
    *l = (struct row_list){0};
}

void row_list_reset(struct row_list *l, int n_columns)
{
    l->n = 0;
    l->n_columns = n_columns;
    buf_reset(&l->text);
}

void row_list_trim(struct row_list *l, size_t keep_cells)
{
    if (l->cap > keep_cells)
        row_list_fini(l);
}

static bool reserve(struct row_list *l)
{
    size_t need = ((size_t)l->n + 1) * (size_t)l->n_columns;
    struct cell *p;

    if (need <= l->cap)
        return true;
    need *= 2;
    p = need > SIZE_MAX / sizeof(*p) ? NULL : realloc(l->cells, need * sizeof(*p));
    if (p == NULL)
        return false;
    l->cells = p;
    l->cap = need;
    return true;
}

bool row_list_add(struct row_list *l, const struct row *r)
{
    size_t base = l->text.n;
    struct cell *out;

    if (r->n != l->n_columns || !reserve(l))
        return false;
    out = l->cells + (size_t)l->n * (size_t)l->n_columns;
    buf_add_bytes(&l->text, buf_bytes(&r->text));
    for (int i = 0; i < r->n; i++) {
        out[i] = r->cells[i];
        if (out[i].kind == CELL_TEXT || out[i].kind == CELL_BLOB)
            out[i].u.text.at += base;
    }
    l->n++;
    return !l->text.failed;
}

/* ---- the table ---- */

struct source_cursor {
    sqlite3_vtab_cursor base;
    const struct row_list *list;
    uint32_t at;
};

struct source_table {
    sqlite3_vtab base; /* first: SQLite sees only this */
    const struct row_list *list;
    struct source_cursor cursor; /* one is all that is ever open: an insert allocates nothing */
    bool is_open;
};

static int source_connect(sqlite3 *sql, void *aux, int argc, const char *const *argv,
                          sqlite3_vtab **out, char **msg)
{
    struct source_table *t;
    int rc = sqlite3_declare_vtab(sql, DECLARATION);

    (void)argc;
    (void)argv;
    (void)msg;
    if (rc != SQLITE_OK)
        return rc;
    t = sqlite3_malloc(sizeof(*t));
    if (t == NULL)
        return SQLITE_NOMEM;
    *t = (struct source_table){.list = aux};
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
    t->cursor = (struct source_cursor){.list = t->list};
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
    (void)number;
    (void)name;
    (void)argc;
    (void)argv;
    ((struct source_cursor *)cursor)->at = 0;
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

    return c->at >= c->list->n;
}

static int source_column(sqlite3_vtab_cursor *cursor, sqlite3_context *ctx, int col)
{
    const struct source_cursor *c = (const struct source_cursor *)cursor;
    const struct row_list *l = c->list;
    const struct cell *cell = &l->cells[(size_t)c->at * (size_t)l->n_columns + (size_t)col];

    if (col >= l->n_columns)
        return SQLITE_MISUSE;
    switch (cell->kind) {
    case CELL_NULL:
        sqlite3_result_null(ctx);
        break;
    case CELL_INT:
        sqlite3_result_int64(ctx, cell->u.i);
        break;
    case CELL_REAL:
        sqlite3_result_double(ctx, cell->u.d);
        break;
    case CELL_NAN:
        sqlite3_result_blob(ctx, cell->u.nan, 8, SQLITE_STATIC);
        break;
    case CELL_TEXT:
        sqlite3_result_text64(ctx, (const char *)l->text.p + cell->u.text.at, cell->u.text.n,
                              SQLITE_STATIC, SQLITE_UTF8);
        break;
    case CELL_BLOB:
        sqlite3_result_blob64(ctx, l->text.p + cell->u.text.at, cell->u.text.n, SQLITE_STATIC);
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

enum otl_err row_source_register(struct db *db, struct row_list *l, struct otl_error *err)
{
    int rc = sqlite3_create_module_v2(db->sql, "row_source", &source_module, l, NULL);

    return rc == SQLITE_OK ? OTL_OK : db_fail(db, rc, "register row_source", err);
}
