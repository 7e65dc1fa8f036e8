/* series_points_row.c -- between rows of the head tables and points as columns, exact to the bit.
 * The form of cells is that of rows.c. */
#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "otlite/attrs.h"
#include "series_points.h"

static int64_t bits_of(double d)
{
    int64_t v;

    memcpy(&v, &d, sizeof(v));
    return v;
}

static double double_of(int64_t bits)
{
    double d;

    memcpy(&d, &bits, sizeof(d));
    return d;
}

/* ---- from a row ---- */

/* Reads the cells of one row into point p->n, for which there is room. */
struct row_in {
    struct series_points *p;
    struct sqlite3_stmt *st;
    int col;        /* the next cell */
    bool malformed; /* a cell that no such row has */
    bool no_memory;
};

static int64_t take_int(struct row_in *r)
{
    if (sqlite3_column_type(r->st, r->col) != SQLITE_INTEGER)
        r->malformed = true;
    return sqlite3_column_int64(r->st, r->col++);
}

/* REAL, NULL, a NaN's bytes or, where ints are allowed, an INTEGER. */
static void take_value(struct row_in *r, struct field_column *f, bool ints)
{
    int64_t v = 0;
    enum value_kind kind = VALUE_NONE;

    switch (sqlite3_column_type(r->st, r->col)) {
    case SQLITE_FLOAT:
        kind = VALUE_DOUBLE;
        v = bits_of(sqlite3_column_double(r->st, r->col));
        break;
    case SQLITE_INTEGER:
        kind = VALUE_INT;
        v = sqlite3_column_int64(r->st, r->col);
        if (!ints)
            r->malformed = true;
        break;
    case SQLITE_BLOB: {
        const uint8_t *b = sqlite3_column_blob(r->st, r->col);
        uint64_t u = 0;

        if (b == NULL || sqlite3_column_bytes(r->st, r->col) != 8) {
            r->malformed = true;
            break;
        }
        for (int i = 0; i < 8; i++)
            u = u << 8 | b[i];
        kind = VALUE_DOUBLE;
        v = (int64_t)u;
        if (!isnan(double_of(v)))
            r->malformed = true;
        break;
    }
    case SQLITE_NULL:
        break;
    default:
        r->malformed = true;
    }
    r->col++;
    f->v[r->p->n] = v;
    f->kind[r->p->n] = (uint8_t)kind;
}

static struct bytes column_text(const struct row_in *r)
{
    const void *text = sqlite3_column_text(r->st, r->col);

    if (text == NULL)
        return bytes_of(NULL, 0);
    return bytes_of(text, (size_t)sqlite3_column_bytes(r->st, r->col));
}

/* An optional '-' and digits from *at on, all of an int64. */
static bool parse_int(struct bytes s, size_t *at, int64_t *out)
{
    bool negative = *at < s.n && s.p[*at] == '-';
    size_t first = *at + negative, i = first;
    uint64_t u = 0, limit = (uint64_t)INT64_MAX + negative;

    for (; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++) {
        uint64_t digit = s.p[i] - '0';

        if (u > (limit - digit) / 10)
            return false;
        u = u * 10 + digit;
    }
    *out = (int64_t)(negative ? 0 - u : u);
    *at = i;
    return i > first;
}

/* A number as add_double of rows.c writes it: 9e999 is infinity, "NaN" and "NaN:<hex>" are strings.
 */
static bool parse_double(struct bytes s, size_t *at, int64_t *out)
{
    char number[48], *end;
    size_t n = 0;

    if (*at < s.n && s.p[*at] == '"') {
        uint8_t raw[8];
        uint64_t u = 0;

        if (s.n - *at >= 5 && memcmp(s.p + *at, "\"NaN\"", 5) == 0) {
            *out = INT64_C(0x7ff8000000000000);
            *at += 5;
            return true;
        }
        if (s.n - *at < 22 || memcmp(s.p + *at, "\"NaN:", 5) != 0 || s.p[*at + 21] != '"' ||
            !hex_decode(bytes_of(s.p + *at + 5, 16), raw))
            return false;
        for (int i = 0; i < 8; i++)
            u = u << 8 | raw[i];
        *out = (int64_t)u;
        *at += 22;
        return isnan(double_of(*out));
    }
    while (*at + n < s.n && n < sizeof(number) - 1 &&
           memchr("+-.0123456789eE", s.p[*at + n], 15) != NULL)
        n++;
    if (n == 0)
        return false;
    memcpy(number, s.p + *at, n);
    number[n] = '\0';
    *out = bits_of(strtod(number, &end));
    *at += n;
    return end == number + n;
}

static bool add_value(struct row_in *r, int field, uint32_t *n, int64_t v)
{
    struct field_column *f = &r->p->fields[field];

    if (*n == f->cap_v &&
        !series_points_reserve_list(r->p, field, *n - field_begin(f, r->p->n) + 1)) {
        r->no_memory = true;
        return false;
    }
    f->v[(*n)++] = v;
    return true;
}

/* "[1,2,3]" into the list of point p->n; NULL, where that is allowed, is an empty one. */
static void take_counts(struct row_in *r, int field, bool is_null)
{
    struct field_column *f = &r->p->fields[field];
    uint32_t n = field_begin(f, r->p->n);
    struct bytes s;
    size_t at = 1;

    f->end[r->p->n] = n;
    if (sqlite3_column_type(r->st, r->col) != (is_null ? SQLITE_NULL : SQLITE_TEXT)) {
        r->malformed = true;
        r->col++;
        return;
    }
    s = column_text(r);
    r->col++;
    if (is_null)
        return;
    if (s.n < 2 || s.p[0] != '[' || s.p[s.n - 1] != ']') {
        r->malformed = true;
        return;
    }
    while (at < s.n - 1) {
        int64_t v;

        if (!parse_int(s, &at, &v) || (s.p[at] != ',' && at != s.n - 1) ||
            (s.p[at] == ',' && at + 1 == s.n - 1)) {
            r->malformed = true;
            return;
        }
        if (!add_value(r, field, &n, v))
            return;
        at += s.p[at] == ',';
    }
    f->end[r->p->n] = n;
}

/* "[[0.5,1.0],[0.9,2.0]]" */
static void take_quantiles(struct row_in *r, int field)
{
    struct field_column *f = &r->p->fields[field];
    uint32_t n = field_begin(f, r->p->n);
    struct bytes s;
    size_t at = 1;

    f->end[r->p->n] = n;
    if (sqlite3_column_type(r->st, r->col) != SQLITE_TEXT)
        r->malformed = true;
    s = column_text(r);
    r->col++;
    if (r->malformed || s.n < 2 || s.p[0] != '[' || s.p[s.n - 1] != ']') {
        r->malformed = true;
        return;
    }
    while (at < s.n - 1) {
        int64_t quantile, value;

        if (s.p[at++] != '[' || !parse_double(s, &at, &quantile) || s.p[at++] != ',' ||
            !parse_double(s, &at, &value) || at + 1 >= s.n || s.p[at++] != ']' ||
            (s.p[at] != ',' && at != s.n - 1) || (s.p[at] == ',' && at + 1 == s.n - 1)) {
            r->malformed = true;
            return;
        }
        if (!add_value(r, field, &n, quantile) || !add_value(r, field, &n, value))
            return;
        at += s.p[at] == ',';
    }
    f->end[r->p->n] = n;
}

/* A BLOB of size bytes (0: any), or NULL where that is allowed. */
static void take_blob(struct row_in *r, int field, int size, bool optional)
{
    struct field_column *f = &r->p->fields[field];
    int type = sqlite3_column_type(r->st, r->col);
    const void *b = sqlite3_column_blob(r->st, r->col);
    int n = sqlite3_column_bytes(r->st, r->col);

    r->col++;
    f->end[r->p->n] = (uint32_t)f->bytes.n;
    if (type == SQLITE_NULL && optional)
        return;
    if (type != SQLITE_BLOB || (size > 0 && n != size) || (n > 0 && b == NULL)) {
        r->malformed = true;
        return;
    }
    if (!series_points_reserve_list(r->p, field, (size_t)n)) {
        r->no_memory = true;
        return;
    }
    buf_add(&f->bytes, b, (size_t)n);
    f->end[r->p->n] = (uint32_t)f->bytes.n;
}

static void take_int_field(struct row_in *r, int field)
{
    r->p->fields[field].v[r->p->n] = take_int(r);
}

/* An int32. */
static void take_small_field(struct row_in *r, int field)
{
    int64_t v = take_int(r);

    if (v < INT32_MIN || v > INT32_MAX)
        r->malformed = true;
    r->p->fields[field].v[r->p->n] = v;
}

static void take_double_field(struct row_in *r, int field)
{
    take_value(r, &r->p->fields[field], false);
}

/* A double that is never absent. */
static void take_required_double(struct row_in *r, int field)
{
    take_double_field(r, field);
    if (r->p->fields[field].kind[r->p->n] == VALUE_NONE)
        r->malformed = true;
}

static void take_histogram(struct row_in *r)
{
    struct field_column *counts = &r->p->fields[HISTOGRAM_COUNTS];
    bool is_null;

    take_int_field(r, HISTOGRAM_COUNT);
    take_double_field(r, HISTOGRAM_SUM);
    take_double_field(r, HISTOGRAM_MIN);
    take_double_field(r, HISTOGRAM_MAX);
    is_null = sqlite3_column_type(r->st, r->col) == SQLITE_NULL;
    if (is_null) {
        r->p->fields[HISTOGRAM_BOUNDS_ID].v[r->p->n] = 0;
        r->col++;
    } else {
        take_int_field(r, HISTOGRAM_BOUNDS_ID);
    }
    take_counts(r, HISTOGRAM_COUNTS, is_null);
    /* With buckets there are bounds, even if none but the open one, and the other way round. */
    if (!is_null && (r->p->fields[HISTOGRAM_BOUNDS_ID].v[r->p->n] == 0 ||
                     counts->end[r->p->n] == field_begin(counts, r->p->n)))
        r->malformed = true;
}

/* Offset and counts; both are NULL when the range was not sent. */
static void take_buckets(struct row_in *r, int offset_field, int counts_field, int64_t bit)
{
    bool is_null = sqlite3_column_type(r->st, r->col) == SQLITE_NULL;

    if (is_null) {
        r->p->fields[offset_field].v[r->p->n] = 0;
        r->col++;
    } else {
        take_small_field(r, offset_field);
        r->p->fields[EXPONENTIAL_PRESENT].v[r->p->n] |= bit;
    }
    take_counts(r, counts_field, is_null);
}

static void take_exponential(struct row_in *r)
{
    take_int_field(r, EXPONENTIAL_COUNT);
    take_double_field(r, EXPONENTIAL_SUM);
    take_double_field(r, EXPONENTIAL_MIN);
    take_double_field(r, EXPONENTIAL_MAX);
    take_small_field(r, EXPONENTIAL_SCALE);
    take_int_field(r, EXPONENTIAL_ZERO_COUNT);
    take_required_double(r, EXPONENTIAL_ZERO_THRESHOLD);
    r->p->fields[EXPONENTIAL_PRESENT].v[r->p->n] = 0;
    take_buckets(r, EXPONENTIAL_POSITIVE_OFFSET, EXPONENTIAL_POSITIVE, 1);
    take_buckets(r, EXPONENTIAL_NEGATIVE_OFFSET, EXPONENTIAL_NEGATIVE, 2);
}

static void take_exemplar(struct row_in *r)
{
    const struct field_column *f = r->p->fields;
    const struct field_column *attributes = &f[EXEMPLAR_ATTRIBUTES];
    uint32_t begin = field_begin(attributes, r->p->n), end;

    take_int_field(r, EXEMPLAR_TIME);
    take_value(r, &r->p->fields[EXEMPLAR_VALUE], true);
    take_blob(r, EXEMPLAR_TRACE_ID, 16, true);
    take_blob(r, EXEMPLAR_SPAN_ID, 8, true);
    take_blob(r, EXEMPLAR_ATTRIBUTES, 0, false);
    end = attributes->end[r->p->n];
    if (r->no_memory)
        return;
    /* Only a mark has no attributes at all: the empty set is one byte. */
    if (end == begin ? f[EXEMPLAR_VALUE].kind[r->p->n] != VALUE_NONE
                     : !attrs_valid(bytes_of(attributes->bytes.p + begin, end - begin)))
        r->malformed = true;
}

bool series_points_add_row(struct series_points *p, struct sqlite3_stmt *st, int first_column,
                           bool *malformed)
{
    struct row_in r = {.p = p, .st = st, .col = first_column};

    *malformed = false;
    if (!series_points_reserve(p, 1))
        return false;
    p->time[p->n] = take_int(&r);
    p->start_time[p->n] = take_int(&r);
    p->flags[p->n] = p->kind == KIND_EXEMPLAR ? 0 : take_int(&r);
    if (p->flags[p->n] < 0 || p->flags[p->n] > UINT32_MAX)
        r.malformed = true;
    switch (p->kind) {
    case KIND_NUMBER:
        take_value(&r, &p->fields[NUMBER_VALUE], true);
        break;
    case KIND_HISTOGRAM:
        take_histogram(&r);
        break;
    case KIND_EXPONENTIAL:
        take_exponential(&r);
        break;
    case KIND_SUMMARY:
        take_int_field(&r, SUMMARY_COUNT);
        take_required_double(&r, SUMMARY_SUM);
        take_quantiles(&r, SUMMARY_QUANTILES);
        break;
    case KIND_EXEMPLAR:
        take_exemplar(&r);
        break;
    default:
        r.malformed = true;
    }
    if (r.no_memory || r.malformed) {
        /* Lists end where those of the point before do; bytes have a length of their own. */
        for (int i = 0; i < SERIES_MAX_FIELDS; i++)
            if (p->kind == KIND_EXEMPLAR && p->fields[i].end != NULL)
                p->fields[i].bytes.n = field_begin(&p->fields[i], p->n);
        *malformed = !r.no_memory;
        return false;
    }
    p->n++;
    return true;
}

/* ---- to a row ---- */

/* Cells are made by rows.c from the batch's structs, so the two forms cannot drift apart. Counts
 * and quantiles are lent from the columns. */

static struct optional_double optional_at(const struct field_column *f, size_t i)
{
    return (struct optional_double){f->kind[i] != VALUE_NONE, double_of(f->v[i])};
}

static struct value value_at(const struct field_column *f, size_t i)
{
    struct value v = {.kind = (enum value_kind)f->kind[i]};

    if (v.kind == VALUE_INT)
        v.u.i = f->v[i];
    else
        v.u.d = double_of(f->v[i]);
    return v;
}

static struct exponential_buckets buckets_at(const struct series_points *p, size_t i, bool present,
                                             int offset_field, int counts_field)
{
    const struct field_column *counts = &p->fields[counts_field];
    uint32_t begin = field_begin(counts, i);

    return (struct exponential_buckets){
        .present = present,
        .offset = (int32_t)p->fields[offset_field].v[i],
        .n_counts = counts->end[i] - begin,
        .counts = counts->v == NULL ? NULL : counts->v + begin,
    };
}

static bool number_row(const struct series_points *p, size_t i, const struct point *point,
                       int64_t series_id, struct row *out)
{
    struct number_point n = {.p = *point, .value = value_at(&p->fields[NUMBER_VALUE], i)};

    return row_number(out, series_id, &n);
}

static bool histogram_row(const struct series_points *p, size_t i, const struct point *point,
                          int64_t series_id, struct row *out)
{
    const struct field_column *f = p->fields;
    uint32_t begin = field_begin(&f[HISTOGRAM_COUNTS], i);
    struct histogram_point h = {
        .p = *point,
        .count = f[HISTOGRAM_COUNT].v[i],
        .sum = optional_at(&f[HISTOGRAM_SUM], i),
        .min = optional_at(&f[HISTOGRAM_MIN], i),
        .max = optional_at(&f[HISTOGRAM_MAX], i),
        .n_counts = f[HISTOGRAM_COUNTS].end[i] - begin,
        .counts = f[HISTOGRAM_COUNTS].v == NULL ? NULL : f[HISTOGRAM_COUNTS].v + begin,
    };

    return row_histogram(out, series_id, &h, f[HISTOGRAM_BOUNDS_ID].v[i]);
}

static bool exponential_row(const struct series_points *p, size_t i, const struct point *point,
                            int64_t series_id, struct row *out)
{
    const struct field_column *f = p->fields;
    int64_t present = f[EXPONENTIAL_PRESENT].v[i];
    struct exponential_histogram_point e = {
        .p = *point,
        .count = f[EXPONENTIAL_COUNT].v[i],
        .sum = optional_at(&f[EXPONENTIAL_SUM], i),
        .min = optional_at(&f[EXPONENTIAL_MIN], i),
        .max = optional_at(&f[EXPONENTIAL_MAX], i),
        .scale = (int32_t)f[EXPONENTIAL_SCALE].v[i],
        .zero_count = f[EXPONENTIAL_ZERO_COUNT].v[i],
        .zero_threshold = double_of(f[EXPONENTIAL_ZERO_THRESHOLD].v[i]),
        .positive =
            buckets_at(p, i, (present & 1) != 0, EXPONENTIAL_POSITIVE_OFFSET, EXPONENTIAL_POSITIVE),
        .negative =
            buckets_at(p, i, (present & 2) != 0, EXPONENTIAL_NEGATIVE_OFFSET, EXPONENTIAL_NEGATIVE),
    };

    return row_exponential(out, series_id, &e);
}

static bool summary_row(const struct series_points *p, size_t i, const struct point *point,
                        int64_t series_id, struct row *out)
{
    const struct field_column *q = &p->fields[SUMMARY_QUANTILES];
    uint32_t begin = field_begin(q, i), n = (q->end[i] - begin) / 2;
    struct quantile *quantiles = n == 0 ? NULL : calloc(n, sizeof(*quantiles));
    struct summary_point s = {
        .p = *point,
        .count = p->fields[SUMMARY_COUNT].v[i],
        .sum = double_of(p->fields[SUMMARY_SUM].v[i]),
        .n_quantiles = n,
        .quantiles = quantiles,
    };
    bool ok = n == 0 || quantiles != NULL;

    for (uint32_t k = 0; ok && k < n; k++)
        quantiles[k] =
            (struct quantile){double_of(q->v[begin + 2 * k]), double_of(q->v[begin + 2 * k + 1])};
    ok = ok && row_summary(out, series_id, &s);
    free(quantiles);
    return ok;
}

static void exemplar_blob(struct row *out, const struct field_column *f, size_t i, bool optional)
{
    uint32_t begin = field_begin(f, i), n = f->end[i] - begin;
    struct cell *c = &out->cells[out->n++];

    if (n == 0 && optional) {
        c->kind = CELL_NULL;
        return;
    }
    c->kind = CELL_BLOB;
    c->u.text.at = out->text.n;
    c->u.text.n = n;
    if (n > 0)
        buf_add(&out->text, f->bytes.p + begin, n);
}

static bool exemplar_row(const struct series_points *p, size_t i, int64_t series_id,
                         struct row *out)
{
    const struct field_column *f = p->fields;
    struct number_point value = {.value = value_at(&f[EXEMPLAR_VALUE], i)};
    struct cell value_cell;

    /* The value's cell is made as a number's is: the last of that row. */
    if (!row_number(out, series_id, &value))
        return false;
    value_cell = out->cells[out->n - 1];
    out->n = 0;
    out->cells[out->n++] = (struct cell){CELL_INT, {.i = series_id}};
    out->cells[out->n++] = (struct cell){CELL_INT, {.i = p->time[i]}};
    out->cells[out->n++] = (struct cell){CELL_INT, {.i = p->start_time[i]}};
    out->cells[out->n++] = (struct cell){CELL_INT, {.i = f[EXEMPLAR_TIME].v[i]}};
    out->cells[out->n++] = value_cell;
    exemplar_blob(out, &f[EXEMPLAR_TRACE_ID], i, true);
    exemplar_blob(out, &f[EXEMPLAR_SPAN_ID], i, true);
    exemplar_blob(out, &f[EXEMPLAR_ATTRIBUTES], i, false);
    return !out->text.failed;
}

bool series_points_row(const struct series_points *p, size_t i, int64_t series_id, struct row *out)
{
    struct point point = {
        .time = p->time[i],
        .start_time = p->start_time[i],
        .flags = (uint32_t)p->flags[i],
    };

    switch (p->kind) {
    case KIND_NUMBER:
        return number_row(p, i, &point, series_id, out);
    case KIND_HISTOGRAM:
        return histogram_row(p, i, &point, series_id, out);
    case KIND_EXPONENTIAL:
        return exponential_row(p, i, &point, series_id, out);
    case KIND_SUMMARY:
        return summary_row(p, i, &point, series_id, out);
    case KIND_EXEMPLAR:
        return exemplar_row(p, i, series_id, out);
    default:
        return false;
    }
}
