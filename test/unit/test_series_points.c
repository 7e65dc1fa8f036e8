/* Points as columns: rows of the head tables there and back to the bit, cells that no row has,
 * appending, ordering, and merging against a naive model. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "random.h"
#include "store/series_points.h"

static double bits(uint64_t b)
{
    double d;

    memcpy(&d, &b, sizeof(d));
    return d;
}

/* A double of the kinds that break codecs. */
static double any_double(void)
{
    static const uint64_t odd[] = {
        UINT64_C(0),                  /* 0.0 */
        UINT64_C(0x8000000000000000), /* -0.0 */
        UINT64_C(0x7ff0000000000000), /* infinity */
        UINT64_C(0xfff0000000000000),
        UINT64_C(0x7ff8000000000000), /* NaN */
        UINT64_C(0x7ff8000000000001),
        UINT64_C(0xfff4000000001234), /* NaN payloads */
        UINT64_C(1),                  /* subnormal */
    };

    switch (random_below(3)) {
    case 0:
        return bits(odd[random_below(8)]);
    case 1:
        return (double)random_below(100000) / 100;
    default:
        return bits(random_u64());
    }
}

static struct optional_double any_optional(void)
{
    struct optional_double d = {random_below(2) != 0, 0};

    if (d.has)
        d.v = any_double();
    return d;
}

static int64_t any_int(void)
{
    return random_below(2) != 0 ? (int64_t)random_u64() : (int64_t)random_below(1000) - 500;
}

static void any_point(struct point *p)
{
    p->time = any_int();
    p->start_time = any_int();
    p->flags = random_below(2) != 0 ? (uint32_t)random_u64() : 0;
}

static int64_t counts[64], counts2[64];
static struct quantile quantiles[8];

static void any_buckets(struct exponential_buckets *b, int64_t *c)
{
    b->present = random_below(3) != 0;
    if (!b->present)
        return;
    b->offset = (int32_t)random_u64();
    b->n_counts = random_below(60);
    b->counts = c;
    for (uint32_t i = 0; i < b->n_counts; i++)
        c[i] = any_int();
}

/* A random point of a kind as rows.c has it. */
static void any_row(enum series_kind kind, struct row *r)
{
    switch (kind) {
    case KIND_NUMBER: {
        struct number_point p = {.value.kind = (enum value_kind)random_below(3)};

        any_point(&p.p);
        if (p.value.kind == VALUE_INT)
            p.value.u.i = any_int();
        else if (p.value.kind == VALUE_DOUBLE)
            p.value.u.d = any_double();
        assert_true(row_number(r, 7, &p));
        break;
    }
    case KIND_HISTOGRAM: {
        struct histogram_point p = {.count = any_int(),
                                    .sum = any_optional(),
                                    .min = any_optional(),
                                    .max = any_optional(),
                                    .n_counts = random_below(20),
                                    .counts = counts};

        any_point(&p.p);
        for (uint32_t i = 0; i < p.n_counts; i++)
            counts[i] = any_int();
        assert_true(row_histogram(r, 7, &p, 3));
        break;
    }
    case KIND_EXPONENTIAL: {
        struct exponential_histogram_point p = {.count = any_int(),
                                                .sum = any_optional(),
                                                .min = any_optional(),
                                                .max = any_optional(),
                                                .scale = (int32_t)random_u64(),
                                                .zero_count = any_int(),
                                                .zero_threshold = any_double()};

        any_point(&p.p);
        any_buckets(&p.positive, counts);
        any_buckets(&p.negative, counts2);
        assert_true(row_exponential(r, 7, &p));
        break;
    }
    default: {
        struct summary_point p = {.count = any_int(),
                                  .sum = any_double(),
                                  .n_quantiles = random_below(8),
                                  .quantiles = quantiles};

        any_point(&p.p);
        for (uint32_t i = 0; i < p.n_quantiles; i++)
            quantiles[i] = (struct quantile){any_double(), any_double()};
        assert_true(row_summary(r, 7, &p));
    }
    }
}

static sqlite3 *db;

static int open_db(void **state)
{
    (void)state;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    return 0;
}

static int close_db(void **state)
{
    (void)state;
    sqlite3_close(db);
    return 0;
}

static sqlite3_stmt *prepare(const char *sql)
{
    sqlite3_stmt *st;

    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
    return st;
}

/* Through SQLite itself: bound, selected, made columns, made a row again. */
static void rows_survive(void **state)
{
    (void)state;
    for (int kind = KIND_NUMBER; kind <= KIND_SUMMARY; kind++) {
        struct series_points p;
        char sql[128] = "SELECT ?";
        sqlite3_stmt *st;

        for (int i = 2; i <= point_tables[kind].n_columns; i++)
            strcat(sql, ",?");
        st = prepare(sql);
        series_points_init(&p, (enum series_kind)kind);
        for (size_t i = 0; i < 2000; i++) {
            struct row in = {0}, out = {0};
            bool malformed;

            any_row((enum series_kind)kind, &in);
            assert_int_equal(in.n, point_tables[kind].n_columns);
            assert_int_equal(row_bind(&in, st, 1), SQLITE_OK);
            assert_int_equal(sqlite3_step(st), SQLITE_ROW);
            assert_true(series_points_add_row(&p, st, 1, &malformed));
            assert_false(malformed);
            assert_int_equal(p.n, i + 1);
            assert_true(series_points_row(&p, i, 7, &out));
            assert_true(row_equal(&in, &out));
            sqlite3_reset(st);
            row_fini(&in);
            row_fini(&out);
        }
        sqlite3_finalize(st);
        series_points_fini(&p);
    }
}

/* Adds the row that `values` selects; 1: added, 0: malformed. */
static int add(struct series_points *p, const char *values)
{
    char sql[400];
    sqlite3_stmt *st;
    bool malformed, ok;

    snprintf(sql, sizeof(sql), "SELECT %s", values);
    st = prepare(sql);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    ok = series_points_add_row(p, st, 0, &malformed);
    sqlite3_finalize(st);
    assert_true(ok != malformed);
    return ok;
}

static void columns_of_a_row(void **state)
{
    struct series_points p;

    (void)state;
    series_points_init(&p, KIND_HISTOGRAM);
    assert_true(add(&p, "5, 1, 0, 3, 2.5, NULL, x'7ff8000000000001', 9, '[1,0,2]'"));
    assert_true(add(&p, "6, 1, 1, 0, NULL, NULL, NULL, NULL, NULL"));
    assert_true(add(&p, "7, 1, 0, 4, 0.5, NULL, NULL, 9, '[-9223372036854775808]'"));
    assert_int_equal(p.n, 3);
    assert_int_equal(p.time[1], 6);
    assert_int_equal(p.start_time[1], 1);
    assert_int_equal(p.flags[1], 1);
    assert_int_equal(p.fields[HISTOGRAM_COUNT].v[2], 4);
    assert_int_equal(p.fields[HISTOGRAM_SUM].v[0], INT64_C(0x4004000000000000));
    assert_int_equal(p.fields[HISTOGRAM_SUM].kind[1], VALUE_NONE);
    assert_int_equal(p.fields[HISTOGRAM_MAX].kind[0], VALUE_DOUBLE);
    assert_int_equal(p.fields[HISTOGRAM_MAX].v[0], INT64_C(0x7ff8000000000001));
    assert_int_equal(p.fields[HISTOGRAM_BOUNDS_ID].v[0], 9);
    assert_int_equal(p.fields[HISTOGRAM_BOUNDS_ID].v[1], 0);
    assert_int_equal(p.fields[HISTOGRAM_COUNTS].end[0], 3);
    assert_int_equal(p.fields[HISTOGRAM_COUNTS].end[1], 3);
    assert_int_equal(p.fields[HISTOGRAM_COUNTS].end[2], 4);
    assert_int_equal(p.fields[HISTOGRAM_COUNTS].v[2], 2);
    assert_int_equal(p.fields[HISTOGRAM_COUNTS].v[3], INT64_MIN);
    series_points_fini(&p);

    series_points_init(&p, KIND_SUMMARY);
    assert_true(add(&p, "5, 1, 0, 3, 2.5, '[[0.5,-0.0],[1.0,9e999],[2.0,\"NaN\"]]'"));
    assert_int_equal(p.fields[SUMMARY_QUANTILES].end[0], 6);
    assert_int_equal(p.fields[SUMMARY_QUANTILES].v[1], INT64_MIN);
    assert_int_equal(p.fields[SUMMARY_QUANTILES].v[3], INT64_C(0x7ff0000000000000));
    assert_int_equal(p.fields[SUMMARY_QUANTILES].v[5], INT64_C(0x7ff8000000000000));
    series_points_fini(&p);

    series_points_init(&p, KIND_EXPONENTIAL);
    assert_true(add(&p, "5, 1, 0, 3, 2.5, NULL, NULL, -3, 1, 0.0, -7, '[]', NULL, NULL"));
    assert_int_equal(p.fields[EXPONENTIAL_PRESENT].v[0], 1);
    assert_int_equal(p.fields[EXPONENTIAL_SCALE].v[0], -3);
    assert_int_equal(p.fields[EXPONENTIAL_POSITIVE_OFFSET].v[0], -7);
    assert_int_equal(p.fields[EXPONENTIAL_POSITIVE].end[0], 0);
    series_points_fini(&p);
}

static void exemplar_rows(void **state)
{
    static const char *const rows[] = {
        /* time, start_time, exemplar_time, value, trace_id, span_id, identity */
        "5, 1, 0, NULL, NULL, NULL, x''",
        "5, 1, 4, 2.5, x'000102030405060708090a0b0c0d0e0f', x'0001020304050607', x'00'",
        "5, 1, 4, -3, NULL, NULL, x'010161730162'", /* {"a": "b"} */
    };
    struct series_points p;
    struct row r = {0};

    (void)state;
    series_points_init(&p, KIND_EXEMPLAR);
    for (size_t i = 0; i < 3; i++) {
        char sql[200];
        sqlite3_stmt *st;

        assert_true(add(&p, rows[i]));
        assert_int_equal(p.n, i + 1);
        assert_int_equal(p.flags[i], 0);
        assert_true(series_points_row(&p, i, 7, &r));
        snprintf(sql, sizeof(sql), "SELECT 7, %s", rows[i]);
        st = prepare(sql);
        assert_int_equal(sqlite3_step(st), SQLITE_ROW);
        assert_int_equal(r.n, sqlite3_column_count(st));
        assert_true(row_equals_stored(&r, st));
        sqlite3_finalize(st);
    }
    assert_int_equal(p.fields[EXEMPLAR_VALUE].kind[0], VALUE_NONE);
    assert_int_equal(p.fields[EXEMPLAR_VALUE].kind[2], VALUE_INT);
    assert_int_equal(p.fields[EXEMPLAR_TRACE_ID].end[2], 16);
    assert_int_equal(p.fields[EXEMPLAR_ATTRIBUTES].end[2], 7);
    row_fini(&r);
    series_points_fini(&p);
}

static void malformed_cells(void **state)
{
    static const struct {
        enum series_kind kind;
        const char *values;
    } cases[] = {
        {KIND_NUMBER, "NULL, 1, 0, 1"},
        {KIND_NUMBER, "5, 'x', 0, 1"},
        {KIND_NUMBER, "5, 1, -1, 1"},
        {KIND_NUMBER, "5, 1, 4294967296, 1"},
        {KIND_NUMBER, "5, 1, 0, 'text'"},
        {KIND_NUMBER, "5, 1, 0, x'7ff8'"},
        {KIND_NUMBER, "5, 1, 0, x''"},
        {KIND_NUMBER, "5, 1, 0, x'4004000000000000'"},           /* 2.5: no NaN */
        {KIND_HISTOGRAM, "5, 1, 0, 3, 2, NULL, NULL, 9, '[1]'"}, /* sum is an INTEGER */
        {KIND_HISTOGRAM, "5, 1, 0, NULL, 2.0, NULL, NULL, 9, '[1]'"},
        {KIND_HISTOGRAM, "5, 1, 0, 3, 2.0, NULL, NULL, 0, '[1]'"},
        {KIND_HISTOGRAM, "5, 1, 0, 3, 2.0, NULL, NULL, 9, NULL"},
        {KIND_HISTOGRAM, "5, 1, 0, 3, 2.0, NULL, NULL, NULL, '[1]'"},
        {KIND_HISTOGRAM, "5, 1, 0, 3, 2.0, NULL, NULL, 9, '[]'"},
        {KIND_HISTOGRAM, "5, 1, 0, 3, 2.0, NULL, NULL, 9, ''"},
        {KIND_HISTOGRAM, "5, 1, 0, 3, 2.0, NULL, NULL, 9, '['"},
        {KIND_HISTOGRAM, "5, 1, 0, 3, 2.0, NULL, NULL, 9, '[1,]'"},
        {KIND_HISTOGRAM, "5, 1, 0, 3, 2.0, NULL, NULL, 9, '[,1]'"},
        {KIND_HISTOGRAM, "5, 1, 0, 3, 2.0, NULL, NULL, 9, '[1 ]'"},
        {KIND_HISTOGRAM, "5, 1, 0, 3, 2.0, NULL, NULL, 9, '[1.5]'"},
        {KIND_HISTOGRAM, "5, 1, 0, 3, 2.0, NULL, NULL, 9, '[-]'"},
        {KIND_HISTOGRAM, "5, 1, 0, 3, 2.0, NULL, NULL, 9, '[9223372036854775808]'"},
        {KIND_HISTOGRAM, "5, 1, 0, 3, 2.0, NULL, NULL, 9, '[-9223372036854775809]'"},
        {KIND_EXPONENTIAL, "5, 1, 0, 3, 2.5, NULL, NULL, 2147483648, 1, 0.0, 1, '[]', 1, '[]'"},
        {KIND_EXPONENTIAL, "5, 1, 0, 3, 2.5, NULL, NULL, 1, 1, NULL, 1, '[]', 1, '[]'"},
        {KIND_EXPONENTIAL, "5, 1, 0, 3, 2.5, NULL, NULL, 1, 1, 0.0, 1, NULL, 1, '[]'"},
        {KIND_EXPONENTIAL, "5, 1, 0, 3, 2.5, NULL, NULL, 1, 1, 0.0, 1, '[]', NULL, '[]'"},
        {KIND_EXPONENTIAL, "5, 1, 0, 3, 2.5, NULL, NULL, 1, 1, 0.0, -2147483649, '[]', 1, '[]'"},
        {KIND_SUMMARY, "5, 1, 0, 3, NULL, '[]'"},
        {KIND_SUMMARY, "5, 1, 0, 3, 2.5, NULL"},
        {KIND_SUMMARY, "5, 1, 0, 3, 2.5, '[[0.5,1.0]'"},
        {KIND_SUMMARY, "5, 1, 0, 3, 2.5, '[[0.5,1.0],]'"},
        {KIND_SUMMARY, "5, 1, 0, 3, 2.5, '[[0.5]]'"},
        {KIND_SUMMARY, "5, 1, 0, 3, 2.5, '[[0.5,]]'"},
        {KIND_SUMMARY, "5, 1, 0, 3, 2.5, '[0.5,1.0]'"},
        {KIND_SUMMARY, "5, 1, 0, 3, 2.5, '[[0.5,\"NaN:7ff8\"]]'"},
        {KIND_SUMMARY, "5, 1, 0, 3, 2.5, '[[0.5,\"NaN:4004000000000000\"]]'"},
        {KIND_SUMMARY, "5, 1, 0, 3, 2.5, '[[0.5,0x10]]'"},
        {KIND_SUMMARY, "5, 1, 0, 3, 2.5, '[[0.5,1e]]'"},
        {KIND_EXEMPLAR, "5, 1, 4, 2.5, x'00', NULL, x'00'"},
        {KIND_EXEMPLAR, "5, 1, 4, 2.5, NULL, x'00', x'00'"},
        {KIND_EXEMPLAR, "5, 1, 4, 2.5, NULL, NULL, NULL"},
        {KIND_EXEMPLAR, "5, 1, 4, 2.5, NULL, NULL, x''"},
        {KIND_EXEMPLAR, "5, 1, 4, 2.5, NULL, NULL, x'01'"},
        {KIND_NUMBER_ROLLUP, "5, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1"},
    };
    static const char *const good[] = {
        [KIND_NUMBER] = "5, 1, 0, 1",
        [KIND_HISTOGRAM] = "5, 1, 0, 3, 2.0, NULL, NULL, 9, '[1,2]'",
        [KIND_EXPONENTIAL] = "5, 1, 0, 3, 2.5, NULL, NULL, 1, 1, 0.0, 1, '[1]', 1, '[2,3]'",
        [KIND_SUMMARY] = "5, 1, 0, 3, 2.5, '[[0.5,1.0]]'",
        [KIND_EXEMPLAR] = "5, 1, 4, 2.5, x'000102030405060708090a0b0c0d0e0f', NULL, x'00'",
        [KIND_NUMBER_ROLLUP] = NULL,
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct series_points p;

        series_points_init(&p, cases[i].kind);
        /* What is malformed leaves no trace: the point before and the one after are as they were.
         */
        if (good[cases[i].kind] != NULL)
            assert_true(add(&p, good[cases[i].kind]));
        if (add(&p, cases[i].values))
            fail_msg("accepted: %s", cases[i].values);
        if (good[cases[i].kind] != NULL) {
            assert_int_equal(p.n, 1);
            assert_true(add(&p, good[cases[i].kind]));
            assert_true(series_points_equal(&p, 0, &p, 1));
        }
        series_points_fini(&p);
    }
}

/* ---- appending and comparing ---- */

/* A point with something in every field, of any kind, straight into the columns. */
static void add_any(struct series_points *p, int64_t time, int64_t start_time)
{
    const struct series_schema *schema = &series_schemas[p->kind];

    assert_true(series_points_reserve(p, 1));
    p->time[p->n] = time;
    p->start_time[p->n] = start_time;
    p->flags[p->n] = random_below(2);
    for (int i = 0; i < schema->n_fields; i++) {
        struct field_column *f = &p->fields[i];
        uint32_t at, n = random_below(3);

        switch (schema->fields[i].type) {
        case FIELD_INT:
            f->v[p->n] = random_below(3);
            break;
        case FIELD_DOUBLE:
        case FIELD_VALUE:
            f->kind[p->n] = (uint8_t)random_below(3);
            f->v[p->n] = f->kind[p->n] == VALUE_NONE ? 0 : random_below(3);
            break;
        default:
            at = field_begin(f, p->n);
            assert_true(series_points_reserve_list(p, i, n));
            for (uint32_t k = 0; k < n; k++)
                if (schema->fields[i].type == FIELD_BYTES)
                    buf_add_char(&f->bytes, (char)random_below(2));
                else
                    f->v[at + k] = random_below(2);
            f->end[p->n] = at + n;
        }
    }
    p->n++;
}

static void appends_ranges_of_every_kind(void **state)
{
    (void)state;
    for (int kind = 0; kind < SERIES_KINDS; kind++) {
        struct series_points from, to;
        size_t n = 0;

        series_points_init(&from, (enum series_kind)kind);
        series_points_init(&to, (enum series_kind)kind);
        for (int i = 0; i < 200; i++)
            add_any(&from, i, 0);
        for (int round = 0; round < 50; round++) {
            size_t first = random_below(200), count = random_below(200 - (unsigned)first + 1);

            assert_true(series_points_append(&to, &from, first, count));
            assert_int_equal(to.n, n + count);
            for (size_t i = 0; i < count; i++)
                assert_true(series_points_equal(&to, n + i, &from, first + i));
            n = to.n;
            if (round % 10 == 9) {
                series_points_reset(&to);
                n = 0;
            }
        }
        series_points_fini(&from);
        series_points_fini(&to);
        assert_null(to.time);
    }
}

static void a_difference_in_any_column_is_one(void **state)
{
    (void)state;
    for (int kind = 0; kind < SERIES_KINDS; kind++) {
        const struct series_schema *schema = &series_schemas[kind];
        struct series_points p;

        series_points_init(&p, (enum series_kind)kind);
        add_any(&p, 5, 6);
        for (int i = 0; i < schema->n_fields; i++) {
            /* So that there is something to differ in. */
            struct field_column *f = &p.fields[i];

            if (schema->fields[i].type == FIELD_DOUBLE || schema->fields[i].type == FIELD_VALUE)
                f->kind[0] = VALUE_DOUBLE;
            if (f->end != NULL && f->end[0] == 0) {
                assert_true(series_points_reserve_list(&p, i, 1));
                if (schema->fields[i].type == FIELD_BYTES)
                    buf_add_char(&f->bytes, 'x');
                else
                    f->v[0] = 1;
                f->end[0] = 1;
            }
        }
        for (int column = -3; column < schema->n_fields; column++) {
            struct series_points q;

            series_points_init(&q, (enum series_kind)kind);
            assert_true(series_points_append(&q, &p, 0, 1));
            assert_true(series_points_equal(&p, 0, &q, 0));
            if (column == -3)
                q.time[0]++;
            else if (column == -2)
                q.start_time[0]++;
            else if (column == -1)
                q.flags[0] ^= 1;
            else if (schema->fields[column].type == FIELD_BYTES)
                q.fields[column].bytes.p[0] ^= 1;
            else
                q.fields[column].v[0] ^= 1;
            assert_false(series_points_equal(&p, 0, &q, 0));
            series_points_fini(&q);
        }
        series_points_fini(&p);
    }
    /* Int 0 and double 0.0 have the same 64 bits, and so do absent and 0; all are different. */
    struct series_points p;

    series_points_init(&p, KIND_NUMBER);
    assert_true(series_points_add_number(&p, 1, 0, 0, VALUE_NONE, 0));
    assert_true(series_points_add_number(&p, 1, 0, 0, VALUE_INT, 0));
    assert_true(series_points_add_number(&p, 1, 0, 0, VALUE_DOUBLE, 0));
    assert_false(series_points_equal(&p, 0, &p, 1));
    assert_false(series_points_equal(&p, 1, &p, 2));
    assert_false(series_points_equal(&p, 0, &p, 2));
    series_points_fini(&p);
}

static void sorts_and_keeps_the_order_of_equals(void **state)
{
    (void)state;
    for (int round = 0; round < 300; round++) {
        enum series_kind kind = (enum series_kind)random_below(SERIES_KINDS);
        struct series_points p, before;
        bool *taken;
        size_t n = random_below(60);

        series_points_init(&p, kind);
        series_points_init(&before, kind);
        for (size_t i = 0; i < n; i++)
            add_any(&p, random_below(10), random_below(2));
        assert_true(series_points_append(&before, &p, 0, n));
        assert_true(series_points_sort(&p));
        assert_int_equal(p.n, n);
        taken = calloc(n + 1, sizeof(*taken));
        /* Selection sort, by hand: the first of the least keys each time. */
        for (size_t i = 0; i < n; i++) {
            size_t least = n;

            for (size_t k = 0; k < n; k++)
                if (!taken[k] &&
                    (least == n ||
                     point_key_compare(before.time[k], before.start_time[k], before.time[least],
                                       before.start_time[least]) < 0))
                    least = k;
            taken[least] = true;
            assert_true(series_points_equal(&p, i, &before, least));
        }
        for (int64_t t = -1; t < 12; t++) {
            size_t bound = series_points_lower_bound(&p, t), want = 0;

            for (size_t i = 0; i < n; i++)
                want += p.time[i] < t;
            assert_int_equal(bound, want);
        }
        free(taken);
        series_points_fini(&p);
        series_points_fini(&before);
    }
}

/* ---- merging ---- */

/* The naive way: all points of all sources one after the other, sorted (stable); of a run of equal
 * keys what the rule leaves. */
static void model_merge(struct series_points *out, struct series_points *sources, size_t n,
                        struct merge_counts *counts_out)
{
    struct series_points all;

    memset(counts_out, 0, sizeof(*counts_out));
    series_points_init(&all, out->kind);
    for (size_t s = 0; s < n; s++)
        assert_true(series_points_append(&all, &sources[s], 0, sources[s].n));
    assert_true(series_points_sort(&all));
    for (size_t i = 0, end; i < all.n; i = end) {
        size_t from = i;

        for (end = i + 1; end < all.n && all.time[end] == all.time[i] &&
                          all.start_time[end] == all.start_time[i];
             end++) {
        }
        if (out->kind != KIND_EXEMPLAR) {
            for (size_t k = i; k + 1 < end; k++) {
                if (series_points_equal(&all, k, &all, k + 1))
                    counts_out->equal++;
                else
                    counts_out->replaced++;
            }
            assert_true(series_points_append(out, &all, end - 1, 1));
            continue;
        }
        for (size_t k = i; k < end; k++)
            if (all.fields[EXEMPLAR_VALUE].kind[k] == VALUE_NONE)
                from = k;
        counts_out->replaced += from - i;
        for (size_t k = from; k < end; k++) {
            size_t other = from;

            while (!series_points_equal(&all, k, &all, other))
                other++;
            if (other < k)
                counts_out->equal++;
            else
                assert_true(series_points_append(out, &all, k, 1));
        }
    }
    series_points_fini(&all);
}

static void merges_like_the_model(void **state)
{
    enum { MOST = 5 };
    uint64_t equal = 0, replaced = 0;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        enum series_kind kind = (enum series_kind)random_below(KIND_NUMBER_ROLLUP);
        struct series_points sources[MOST], out, want;
        const struct series_points *refs[MOST];
        struct merge_counts counts_is, counts_want;
        size_t n = random_below(MOST + 1);
        unsigned times = 1 + random_below(40);

        series_points_init(&out, kind);
        series_points_init(&want, kind);
        for (size_t s = 0; s < n; s++) {
            size_t points = random_below(30);

            refs[s] = &sources[s];
            series_points_init(&sources[s], kind);
            for (size_t i = 0; i < points; i++) {
                size_t earlier = s == 0 ? 0 : random_below((unsigned)s);

                /* Now and then the very point of an earlier source, else any. */
                if (s > 0 && sources[earlier].n > 0 && random_below(3) == 0)
                    assert_true(series_points_append(&sources[s], &sources[earlier],
                                                     random_below((unsigned)sources[earlier].n),
                                                     1));
                else
                    add_any(&sources[s], random_below(times), random_below(2));
            }
            assert_true(series_points_sort(&sources[s]));
        }
        model_merge(&want, sources, n, &counts_want);
        assert_true(series_points_merge(&out, refs, n, &counts_is));
        assert_int_equal(out.n, want.n);
        for (size_t i = 0; i < out.n; i++)
            assert_true(series_points_equal(&out, i, &want, i));
        assert_int_equal(counts_is.equal, counts_want.equal);
        assert_int_equal(counts_is.replaced, counts_want.replaced);
        equal += counts_is.equal;
        replaced += counts_is.replaced;
        series_points_fini(&out);
        series_points_fini(&want);
        for (size_t s = 0; s < n; s++)
            series_points_fini(&sources[s]);
    }
    assert_true(equal > 1000 && replaced > 1000); /* the case was met */
}

/* A request may hold this many for one point; a table finds the copies, not a search through all.
 */
static void merges_many_exemplars_of_one_point(void **state)
{
    enum { N = 100000 };
    struct series_points a, out;
    const struct series_points *refs[2] = {&a, &a};
    struct merge_counts c;

    (void)state;
    series_points_init(&a, KIND_EXEMPLAR);
    series_points_init(&out, KIND_EXEMPLAR);
    for (int i = 0; i < N; i++) {
        add_any(&a, 1, 1);
        a.fields[EXEMPLAR_TIME].v[i] = i;
        a.fields[EXEMPLAR_VALUE].kind[i] = VALUE_INT;
    }
    assert_true(series_points_merge(&out, refs, 2, &c));
    assert_int_equal(out.n, N);
    assert_int_equal(c.equal, N);
    series_points_fini(&a);
    series_points_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_survive, open_db, close_db),
        cmocka_unit_test_setup_teardown(columns_of_a_row, open_db, close_db),
        cmocka_unit_test_setup_teardown(exemplar_rows, open_db, close_db),
        cmocka_unit_test_setup_teardown(malformed_cells, open_db, close_db),
        cmocka_unit_test(appends_ranges_of_every_kind),
        cmocka_unit_test(a_difference_in_any_column_is_one),
        cmocka_unit_test(sorts_and_keeps_the_order_of_equals),
        cmocka_unit_test(merges_like_the_model),
        cmocka_unit_test(merges_many_exemplars_of_one_point),
    };

    return cmocka_run_group_tests_name("series_points", tests, NULL, NULL);
}
