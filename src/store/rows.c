#include "rows.h"

#include <inttypes.h>
#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>

#include "otlite/attrs.h"

const struct point_table point_tables[POINT_KINDS] = {
    [POINT_NUMBER] = {"number", "series_id,time,start_time,flags,value", 5},
    [POINT_HISTOGRAM] = {"histogram",
                         "series_id,time,start_time,flags,count,sum,min,max,bounds_id,"
                         "bucket_counts",
                         10},
    [POINT_EXPONENTIAL] = {"exponential_histogram",
                           "series_id,time,start_time,flags,count,sum,min,max,scale,zero_count,"
                           "zero_threshold,positive_offset,positive_counts,negative_offset,"
                           "negative_counts",
                           15},
    [POINT_SUMMARY] = {"summary", "series_id,time,start_time,flags,count,sum,quantiles", 7},
};

const char EXEMPLAR_COLUMNS[] =
    "series_id,point_time,point_start_time,time,value,trace_id,span_id,attributes,identity";

void row_fini(struct row *r)
{
    buf_fini(&r->text);
}

static uint64_t double_bits(double d)
{
    uint64_t v;

    memcpy(&v, &d, sizeof(v));
    return v;
}

void nan_bytes(double d, uint8_t out[8])
{
    uint64_t v = double_bits(d);

    for (int i = 0; i < 8; i++)
        out[i] = (uint8_t)(v >> (56 - 8 * i));
}

/* ---- text ---- */

static void add_int(struct buf *b, int64_t v)
{
    char s[24];
    size_t at = sizeof(s);
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;

    do {
        s[--at] = (char)('0' + u % 10);
        u /= 10;
    } while (u > 0);
    if (v < 0)
        s[--at] = '-';
    buf_add(b, s + at, sizeof(s) - at);
}

static void add_double(struct buf *b, double d)
{
    const uint64_t canonical = UINT64_C(0x7ff8000000000000);

    if (isnan(d)) {
        if (double_bits(d) == canonical)
            buf_add_str(b, "\"NaN\"");
        else
            buf_printf(b, "\"NaN:%016" PRIx64 "\"", double_bits(d));
    } else if (isinf(d)) {
        buf_add_str(b, d > 0 ? "9e999" : "-9e999");
    } else {
        buf_add_double(b, d);
    }
}

static void add_counts(struct buf *b, const int64_t *counts, size_t n)
{
    buf_add_char(b, '[');
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            buf_add_char(b, ',');
        add_int(b, counts[i]);
    }
    buf_add_char(b, ']');
}

void bounds_to_text(struct buf *out, const double *bounds, size_t n)
{
    buf_add_char(out, '[');
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            buf_add_char(out, ',');
        add_double(out, bounds[i]);
    }
    buf_add_char(out, ']');
}

bool bounds_parse(struct bytes text, double **out, size_t *out_n)
{
    size_t commas = 0, n = 0, i = 1;
    double *d;

    *out = NULL;
    *out_n = 0;
    if (text.n < 2 || text.p[0] != '[' || text.p[text.n - 1] != ']')
        return false;
    for (size_t j = 0; j < text.n; j++)
        commas += text.p[j] == ',';
    d = malloc((commas + 1) * sizeof(*d));
    if (d == NULL)
        return false;
    while (i < text.n - 1) {
        char item[48], *end;
        size_t k = 0;

        while (i < text.n - 1 && text.p[i] != ',' && k < sizeof(item) - 1)
            item[k++] = (char)text.p[i++];
        item[k] = '\0';
        d[n] = strtod(item, &end); /* 9e999 overflows to infinity, which is meant */
        if (k == 0 || *end != '\0' || isnan(d[n]) || (text.p[i] != ',' && i != text.n - 1))
            goto malformed;
        n++;
        if (text.p[i] == ',' && ++i == text.n - 1)
            goto malformed;
    }
    *out = d;
    *out_n = n;
    return true;
malformed:
    free(d);
    return false;
}

/* ---- building rows ---- */

static struct cell *next_cell(struct row *r, enum cell_kind kind)
{
    struct cell *c = &r->cells[r->n++];

    c->kind = kind;
    return c;
}

static void cell_int(struct row *r, int64_t v)
{
    next_cell(r, CELL_INT)->u.i = v;
}

static void cell_double(struct row *r, double d)
{
    if (isnan(d))
        nan_bytes(d, next_cell(r, CELL_NAN)->u.nan);
    else
        next_cell(r, CELL_REAL)->u.d = d;
}

static void cell_optional(struct row *r, struct optional_double d)
{
    if (d.has)
        cell_double(r, d.v);
    else
        (void)next_cell(r, CELL_NULL);
}

/* The text runs from at to the end of r->text. */
static void cell_text(struct row *r, size_t at)
{
    struct cell *c = next_cell(r, CELL_TEXT);

    c->u.text.at = at;
    c->u.text.n = r->text.n - at;
}

static void row_start(struct row *r, int64_t series_id, const struct point *p)
{
    r->n = 0;
    buf_reset(&r->text);
    cell_int(r, series_id);
    cell_int(r, p->time);
    cell_int(r, p->start_time);
    cell_int(r, p->flags);
}

static void cell_value(struct row *r, const struct value *v)
{
    if (v->kind == VALUE_INT)
        cell_int(r, v->u.i);
    else if (v->kind == VALUE_DOUBLE)
        cell_double(r, v->u.d);
    else
        (void)next_cell(r, CELL_NULL);
}

bool row_number(struct row *r, int64_t series_id, const struct number_point *p)
{
    row_start(r, series_id, &p->p);
    cell_value(r, &p->value);
    return true;
}

bool row_histogram(struct row *r, int64_t series_id, const struct histogram_point *p,
                   int64_t bounds_id)
{
    row_start(r, series_id, &p->p);
    cell_int(r, p->count);
    cell_optional(r, p->sum);
    cell_optional(r, p->min);
    cell_optional(r, p->max);
    if (p->n_counts == 0) {
        (void)next_cell(r, CELL_NULL);
        (void)next_cell(r, CELL_NULL);
    } else {
        cell_int(r, bounds_id);
        add_counts(&r->text, p->counts, p->n_counts);
        cell_text(r, 0);
    }
    return !r->text.failed;
}

static void cell_buckets(struct row *r, const struct exponential_buckets *b)
{
    size_t at = r->text.n;

    if (!b->present) {
        (void)next_cell(r, CELL_NULL);
        (void)next_cell(r, CELL_NULL);
        return;
    }
    cell_int(r, b->offset);
    add_counts(&r->text, b->counts, b->n_counts);
    cell_text(r, at);
}

bool row_exponential(struct row *r, int64_t series_id, const struct exponential_histogram_point *p)
{
    row_start(r, series_id, &p->p);
    cell_int(r, p->count);
    cell_optional(r, p->sum);
    cell_optional(r, p->min);
    cell_optional(r, p->max);
    cell_int(r, p->scale);
    cell_int(r, p->zero_count);
    cell_double(r, p->zero_threshold);
    cell_buckets(r, &p->positive);
    cell_buckets(r, &p->negative);
    return !r->text.failed;
}

bool row_summary(struct row *r, int64_t series_id, const struct summary_point *p)
{
    row_start(r, series_id, &p->p);
    cell_int(r, p->count);
    cell_double(r, p->sum);
    buf_add_char(&r->text, '[');
    for (uint32_t i = 0; i < p->n_quantiles; i++) {
        buf_add_str(&r->text, i > 0 ? ",[" : "[");
        add_double(&r->text, p->quantiles[i].quantile);
        buf_add_char(&r->text, ',');
        add_double(&r->text, p->quantiles[i].value);
        buf_add_char(&r->text, ']');
    }
    buf_add_char(&r->text, ']');
    cell_text(r, 0);
    return !r->text.failed;
}

static void cell_blob(struct row *r, bool has, struct bytes b)
{
    size_t at = r->text.n;

    if (!has) {
        (void)next_cell(r, CELL_NULL);
        return;
    }
    buf_add_bytes(&r->text, b);
    cell_text(r, at);
    r->cells[r->n - 1].kind = CELL_BLOB;
}

bool row_exemplar(struct row *r, int64_t series_id, const struct point *p,
                  const struct batch_exemplar *e)
{
    static const struct batch_exemplar mark = {.value = {.kind = VALUE_NONE}};
    size_t at;

    if (e == NULL)
        e = &mark;
    r->n = 0;
    buf_reset(&r->text);
    cell_int(r, series_id);
    cell_int(r, p->time);
    cell_int(r, p->start_time);
    cell_int(r, e->time);
    cell_value(r, &e->value);
    cell_blob(r, e->has_trace_id, bytes_of(e->trace_id, sizeof(e->trace_id)));
    cell_blob(r, e->has_span_id, bytes_of(e->span_id, sizeof(e->span_id)));
    at = r->text.n;
    attrs_to_json(e->attributes, &r->text);
    cell_text(r, at);
    cell_blob(r, true, e->attributes);
    return !r->text.failed;
}

/* ---- rows and SQLite ---- */

int row_bind(const struct row *r, struct sqlite3_stmt *st, int from)
{
    int rc = SQLITE_OK;

    for (int i = 0; i < r->n && rc == SQLITE_OK; i++) {
        const struct cell *c = &r->cells[i];

        switch (c->kind) {
        case CELL_NULL:
            rc = sqlite3_bind_null(st, from + i);
            break;
        case CELL_INT:
            rc = sqlite3_bind_int64(st, from + i, c->u.i);
            break;
        case CELL_REAL:
            rc = sqlite3_bind_double(st, from + i, c->u.d);
            break;
        case CELL_NAN:
            rc = sqlite3_bind_blob(st, from + i, c->u.nan, 8, SQLITE_STATIC);
            break;
        case CELL_TEXT:
            rc = sqlite3_bind_text64(st, from + i, (const char *)r->text.p + c->u.text.at,
                                     c->u.text.n, SQLITE_STATIC, SQLITE_UTF8);
            break;
        case CELL_BLOB:
            rc = sqlite3_bind_blob64(st, from + i, r->text.p + c->u.text.at, c->u.text.n,
                                     SQLITE_STATIC);
            break;
        }
    }
    return rc;
}

static bool column_holds(struct sqlite3_stmt *st, int col, const void *p, size_t n)
{
    const void *is = sqlite3_column_blob(st, col);

    return (size_t)sqlite3_column_bytes(st, col) == n && (n == 0 || memcmp(is, p, n) == 0);
}

bool row_equals_stored(const struct row *r, struct sqlite3_stmt *st)
{
    for (int i = 0; i < r->n; i++) {
        const struct cell *c = &r->cells[i];
        int type = sqlite3_column_type(st, i);
        bool same = false;

        switch (c->kind) {
        case CELL_NULL:
            same = type == SQLITE_NULL;
            break;
        case CELL_INT:
            same = type == SQLITE_INTEGER && sqlite3_column_int64(st, i) == c->u.i;
            break;
        case CELL_REAL: /* by bits: 0.0 and -0.0 are two values */
            same = type == SQLITE_FLOAT &&
                   double_bits(sqlite3_column_double(st, i)) == double_bits(c->u.d);
            break;
        case CELL_NAN:
            same = type == SQLITE_BLOB && column_holds(st, i, c->u.nan, 8);
            break;
        case CELL_TEXT:
            same =
                type == SQLITE_TEXT && column_holds(st, i, r->text.p + c->u.text.at, c->u.text.n);
            break;
        case CELL_BLOB:
            same =
                type == SQLITE_BLOB && column_holds(st, i, r->text.p + c->u.text.at, c->u.text.n);
            break;
        }
        if (!same)
            return false;
    }
    return true;
}

bool row_equal(const struct row *a, const struct row *b)
{
    if (a->n != b->n)
        return false;
    for (int i = 0; i < a->n; i++) {
        const struct cell *x = &a->cells[i], *y = &b->cells[i];
        bool same = false;

        if (x->kind != y->kind)
            return false;
        switch (x->kind) {
        case CELL_NULL:
            same = true;
            break;
        case CELL_INT:
            same = x->u.i == y->u.i;
            break;
        case CELL_REAL:
            same = double_bits(x->u.d) == double_bits(y->u.d);
            break;
        case CELL_NAN:
            same = memcmp(x->u.nan, y->u.nan, 8) == 0;
            break;
        case CELL_TEXT:
        case CELL_BLOB:
            same = bytes_equal(bytes_of(a->text.p + x->u.text.at, x->u.text.n),
                               bytes_of(b->text.p + y->u.text.at, y->u.text.n));
            break;
        }
        if (!same)
            return false;
    }
    return true;
}
