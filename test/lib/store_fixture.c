#include "store_fixture.h"

#include <ftw.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "otlite/sql.h"

static void *zeroed(size_t n, size_t size)
{
    void *p = calloc(n, size);

    assert_non_null(p);
    return p;
}

struct fx *fx_new(void)
{
    struct fx *f = zeroed(1, sizeof(*f));

    arena_init(&f->arena, 256 << 20);
    f->b.resources = zeroed(4, sizeof(*f->b.resources));
    f->b.scopes = zeroed(4, sizeof(*f->b.scopes));
    f->b.metrics = zeroed(FX_MAX_METRICS, sizeof(*f->b.metrics));
    f->b.series = zeroed(4 * FX_MAX, sizeof(*f->b.series));
    f->b.numbers = zeroed(FX_MAX, sizeof(*f->b.numbers));
    f->b.histograms = zeroed(FX_MAX, sizeof(*f->b.histograms));
    f->b.exponentials = zeroed(FX_MAX, sizeof(*f->b.exponentials));
    f->b.summaries = zeroed(FX_MAX, sizeof(*f->b.summaries));
    f->b.exemplars = zeroed(FX_MAX, sizeof(*f->b.exemplars));
    fx_reset(f);
    return f;
}

void fx_free(struct fx *f)
{
    free(f->b.resources);
    free(f->b.scopes);
    free(f->b.metrics);
    free(f->b.series);
    free(f->b.numbers);
    free(f->b.histograms);
    free(f->b.exponentials);
    free(f->b.summaries);
    free(f->b.exemplars);
    arena_fini(&f->arena);
    free(f);
}

void fx_reset(struct fx *f)
{
    struct batch *b = &f->b;

    arena_reset(&f->arena, 256 << 20);
    b->arena = &f->arena;
    b->n_resources = b->n_scopes = 1;
    b->n_metrics = b->n_series = 0;
    b->n_numbers = b->n_histograms = b->n_exponentials = b->n_summaries = b->n_exemplars = 0;
    memset(b->warnings, 0, sizeof(b->warnings));
    memset(b->warning_example, 0, sizeof(b->warning_example));
    b->resources[0] = (struct batch_resource){.attributes = fx_attrs(f, "service.name", "svc"),
                                              .service_name = bytes_str("svc")};
    b->scopes[0] = (struct batch_scope){.name = bytes_str("lib"),
                                        .version = bytes_str("1.0"),
                                        .attributes = fx_attrs(f, NULL, NULL)};
}

struct bytes fx_attrs(struct fx *f, const char *key, const char *text)
{
    size_t k = key == NULL ? 0 : strlen(key), t = key == NULL ? 0 : strlen(text);
    uint8_t *p = arena_alloc(&f->arena, k + t + 4);

    assert_non_null(p);
    assert_true(k < 128 && t < 128);
    if (key == NULL) {
        p[0] = 0;
        return bytes_of(p, 1);
    }
    p[0] = 1;
    p[1] = (uint8_t)k;
    memcpy(p + 2, key, k);
    p[2 + k] = 's';
    p[3 + k] = (uint8_t)t;
    memcpy(p + 4 + k, text, t);
    return bytes_of(p, 4 + k + t);
}

struct bytes fx_attrs_int(struct fx *f, const char *key, int64_t i)
{
    size_t k = strlen(key);
    uint8_t *p = arena_alloc(&f->arena, k + 11);

    assert_non_null(p);
    p[0] = 1;
    p[1] = (uint8_t)k;
    memcpy(p + 2, key, k);
    p[2 + k] = 'i';
    for (int j = 0; j < 8; j++)
        p[3 + k + (size_t)j] = (uint8_t)((uint64_t)i >> (56 - 8 * j));
    return bytes_of(p, k + 11);
}

uint32_t fx_metric(struct fx *f, enum metric_type type, const char *name, const char *unit)
{
    bool plain = type == METRIC_GAUGE || type == METRIC_SUMMARY;

    assert_true(f->b.n_metrics < FX_MAX_METRICS);
    f->b.metrics[f->b.n_metrics] = (struct batch_metric){
        .type = type,
        .temporality = plain ? TEMPORALITY_NONE : TEMPORALITY_CUMULATIVE,
        .is_monotonic = type == METRIC_SUM,
        .name = bytes_str(name),
        .unit = bytes_str(unit),
        .metadata = fx_attrs(f, NULL, NULL),
    };
    return f->b.n_metrics++;
}

static struct point point_of(struct fx *f, uint32_t metric, struct bytes attrs, int64_t time)
{
    assert_true(f->b.n_series < 4 * FX_MAX);
    f->b.series[f->b.n_series] = (struct batch_series){.metric = metric, .attributes = attrs};
    return (struct point){.series = f->b.n_series++, .time = time};
}

struct number_point *fx_int(struct fx *f, uint32_t metric, struct bytes attrs, int64_t time,
                            int64_t value)
{
    struct number_point *p = &f->b.numbers[f->b.n_numbers++];

    assert_true(f->b.n_numbers <= FX_MAX);
    *p = (struct number_point){point_of(f, metric, attrs, time), {VALUE_INT, {.i = value}}};
    return p;
}

struct number_point *fx_double(struct fx *f, uint32_t metric, struct bytes attrs, int64_t time,
                               double value)
{
    struct number_point *p = fx_int(f, metric, attrs, time, 0);

    p->value = (struct value){VALUE_DOUBLE, {.d = value}};
    return p;
}

static const int64_t *counts_of(struct fx *f, int64_t c)
{
    int64_t *counts = arena_alloc(&f->arena, 3 * sizeof(*counts));

    assert_non_null(counts);
    counts[0] = counts[1] = counts[2] = c;
    return counts;
}

struct histogram_point *fx_histogram(struct fx *f, uint32_t metric, struct bytes attrs,
                                     int64_t time, int64_t c)
{
    static const double bounds[] = {1.0, 2.0};
    struct histogram_point *p = &f->b.histograms[f->b.n_histograms++];

    assert_true(f->b.n_histograms <= FX_MAX);
    *p = (struct histogram_point){.p = point_of(f, metric, attrs, time),
                                  .count = 3 * c,
                                  .sum = {true, 4.5},
                                  .n_counts = 3,
                                  .n_bounds = 2,
                                  .counts = counts_of(f, c),
                                  .bounds = bounds};
    return p;
}

struct exponential_histogram_point *fx_exponential(struct fx *f, uint32_t metric,
                                                   struct bytes attrs, int64_t time, int64_t c)
{
    struct exponential_histogram_point *p = &f->b.exponentials[f->b.n_exponentials++];

    assert_true(f->b.n_exponentials <= FX_MAX);
    *p = (struct exponential_histogram_point){.p = point_of(f, metric, attrs, time),
                                              .count = 3 * c,
                                              .scale = -2,
                                              .positive = {true, -7, 3, counts_of(f, c)}};
    return p;
}

struct summary_point *fx_summary(struct fx *f, uint32_t metric, struct bytes attrs, int64_t time,
                                 double median)
{
    struct summary_point *p = &f->b.summaries[f->b.n_summaries++];
    struct quantile *q = arena_alloc(&f->arena, 2 * sizeof(*q));

    assert_true(f->b.n_summaries <= FX_MAX);
    assert_non_null(q);
    q[0] = (struct quantile){0.5, median};
    q[1] = (struct quantile){1.0, 100.0};
    *p = (struct summary_point){.p = point_of(f, metric, attrs, time),
                                .count = 4,
                                .sum = 10.25,
                                .n_quantiles = 2,
                                .quantiles = q};
    return p;
}

void fx_exemplar(struct fx *f, struct point *p, int64_t value)
{
    struct batch_exemplar *e = &f->b.exemplars[f->b.n_exemplars];

    assert_true(f->b.n_exemplars < FX_MAX);
    *e = (struct batch_exemplar){.time = p->time,
                                 .value = {VALUE_INT, {.i = value}},
                                 .trace_id = {0xab, 1},
                                 .has_trace_id = true,
                                 .attributes = fx_attrs(f, "user", "u1")};
    if (p->n_exemplars++ == 0)
        p->first_exemplar = f->b.n_exemplars;
    f->b.n_exemplars++;
}

char *fx_dir_new(void)
{
    const char *tmp = getenv("TMPDIR");
    char *dir = zeroed(1, 4096);

    snprintf(dir, 4096, "%s/otlite-test-XXXXXX", tmp != NULL ? tmp : "/tmp");
    assert_non_null(mkdtemp(dir));
    return dir;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void fx_dir_free(char *dir)
{
    (void)nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(dir);
}

struct store_opts fx_opts(const char *dir)
{
    return (struct store_opts){.data_dir = dir,
                               .cache_bytes = 8 << 20,
                               .mmap_bytes = 64 << 20,
                               .busy_timeout_ms = 1000,
                               .checkpoint_pages = 1000};
}

struct store *fx_store(const char *dir)
{
    struct store_opts o = fx_opts(dir);
    struct otl_error err = {0};
    struct store *s = NULL;

    if (store_new(&o, &s, &err) != OTL_OK)
        fail_msg("%s", err.msg);
    return s;
}

static sqlite3 *open_other(const char *dir)
{
    struct sql_tables *tables;
    char path[4200];
    sqlite3 *sql = NULL;
    struct db db;

    snprintf(path, sizeof(path), "%s/telemetry.db", dir);
    assert_int_equal(sqlite3_open_v2(path, &sql, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    sqlite3_busy_timeout(sql, 5000);
    strcpy(db.path, "telemetry.db"); /* for messages */
    db.sql = sql;
    assert_int_equal(sql_register(&db, NULL, &tables, NULL), OTL_OK);
    return sql;
}

char *fx_query_text(const char *dir, const char *sql)
{
    sqlite3 *db = open_other(dir);
    sqlite3_stmt *st = NULL;
    const char *text;
    char *copy;

    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK || sqlite3_step(st) != SQLITE_ROW)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    text = (const char *)sqlite3_column_text(st, 0);
    copy = strdup(text == NULL ? "" : text);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return copy;
}

int64_t fx_query(const char *dir, const char *sql)
{
    char *text = fx_query_text(dir, sql);
    int64_t v = strtoll(text, NULL, 10);

    free(text);
    return v;
}

void fx_exec(const char *dir, const char *sql)
{
    sqlite3 *db = open_other(dir);

    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_close(db);
}

double fx_bits(uint64_t bits)
{
    double d;

    memcpy(&d, &bits, sizeof(d));
    return d;
}
