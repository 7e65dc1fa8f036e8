#include "series_source.h"

#include <sqlite3.h>

#include "otlite/attrs.h"

static int series_column(struct source_rows *src, sqlite3_context *ctx, uint32_t row, int col)
{
    struct series_source *s = (struct series_source *)(void *)src;
    const struct dict_entry *e = &s->series->entries[row];
    struct bytes key = dict_key(e);

    switch (col) {
    case 0:
        sqlite3_result_int64(ctx, e->parent);
        break;
    case 1:
        buf_reset(&s->text);
        attrs_to_json(key, &s->text);
        if (s->text.failed)
            return SQLITE_NOMEM;
        sqlite3_result_text64(ctx, (const char *)s->text.p, s->text.n, SQLITE_STATIC, SQLITE_UTF8);
        break;
    default:
        sqlite3_result_blob64(ctx, key.n == 0 ? (const void *)"" : key.p, key.n, SQLITE_STATIC);
        break;
    }
    return SQLITE_OK;
}

enum otl_err series_source_register(struct db *db, struct series_source *src, struct otl_error *err)
{
    static const struct source_table table = {
        "series_source", "CREATE TABLE series_source(metric_id, attributes, identity)",
        series_column};

    return source_table_register(db, &table, &src->rows, err);
}
