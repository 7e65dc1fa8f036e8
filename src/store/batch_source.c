#include "batch_source.h"

#include <math.h>
#include <sqlite3.h>

#include "rows.h"

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

static int batch_column(struct source_rows *src, sqlite3_context *ctx, uint32_t row, int col)
{
    const struct batch_source *b = (const struct batch_source *)(const void *)src;
    uint32_t i = b->which == NULL ? row : b->which[row];
    const struct number_point *point = &b->points[i];

    switch (col) {
    case 0:
        sqlite3_result_int64(ctx, b->keys[i].series_id);
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

enum otl_err batch_source_register(struct db *db, struct batch_source *src, struct otl_error *err)
{
    static const struct source_table table = {
        "batch_source", "CREATE TABLE batch_source(series_id, time, start_time, flags, value)",
        batch_column};

    return source_table_register(db, &table, &src->rows, err);
}
