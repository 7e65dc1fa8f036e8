#include "row_source.h"

#include <sqlite3.h>
#include <stdlib.h>

_Static_assert(ROW_MAX_CELLS == 16, "the columns of row_source");

/* ---- the list ---- */

void row_list_fini(struct row_list *l)
{
    free(l->cells);
    buf_fini(&l->text);
    *l = (struct row_list){0};
}

void row_list_reset(struct row_list *l, int n_columns)
{
    l->rows = (struct source_rows){0, 0};
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
    size_t need = ((size_t)l->rows.n + 1) * (size_t)l->n_columns;
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
    out = l->cells + (size_t)l->rows.n * (size_t)l->n_columns;
    buf_add_bytes(&l->text, buf_bytes(&r->text));
    for (int i = 0; i < r->n; i++) {
        out[i] = r->cells[i];
        if (out[i].kind == CELL_TEXT || out[i].kind == CELL_BLOB)
            out[i].u.text.at += base;
    }
    l->rows.n++;
    return !l->text.failed;
}

/* ---- the table ---- */

void row_list_result(const struct row_list *l, sqlite3_context *ctx, uint32_t row, int col,
                     bool copy)
{
    const struct cell *cell = &l->cells[(size_t)row * (size_t)l->n_columns + (size_t)col];

    sqlite3_destructor_type keep = copy ? SQLITE_TRANSIENT : SQLITE_STATIC;

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
        sqlite3_result_blob(ctx, cell->u.nan, 8, keep);
        break;
    case CELL_TEXT:
        sqlite3_result_text64(ctx, (const char *)l->text.p + cell->u.text.at, cell->u.text.n, keep,
                              SQLITE_UTF8);
        break;
    case CELL_BLOB:
        sqlite3_result_blob64(ctx, l->text.p + cell->u.text.at, cell->u.text.n, keep);
        break;
    }
}

static int row_column(struct source_rows *src, sqlite3_context *ctx, uint32_t row, int col)
{
    const struct row_list *l = (const struct row_list *)(const void *)src;

    if (col >= l->n_columns)
        return SQLITE_MISUSE;
    row_list_result(l, ctx, row, col, false);
    return SQLITE_OK;
}

enum otl_err row_source_register(struct db *db, struct row_list *l, struct otl_error *err)
{
    static const struct source_table table = {
        "row_source",
        "CREATE TABLE row_source(c0,c1,c2,c3,c4,c5,c6,c7,c8,c9,c10,c11,c12,c13,c14,c15)",
        row_column};

    return source_table_register(db, &table, &l->rows, err);
}
