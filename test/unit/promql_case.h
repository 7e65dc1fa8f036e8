/* promql_case.h -- evaluate expressions over series that a test writes down, with the real parser
 * and evaluator and, in place of what is stored, the series in memory.
 *
 * In a header, and not in test/lib, since it defines the functions of querier.h that the evaluator
 * calls, which the library has as well: one test binary may have only these. */
#ifndef OTLITE_TEST_PROMQL_CASE_H
#define OTLITE_TEST_PROMQL_CASE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "otlite/matcher.h"
#include "query/eval_internal.h"
#include "query/format_number.h"
#include "series_text.h"
#include "store/read_internal.h"

enum { MAX_SERIES = 256, MAX_POINTS = 1000 };

struct test_series {
    struct labels labels;
    int64_t t[MAX_POINTS];
    double v[MAX_POINTS];
    struct prom_histogram *h[MAX_POINTS];
    size_t n;
};
struct querier {
    struct arena arena; /* labels of the series */
    struct test_series *series[MAX_SERIES];
    size_t n;
};
static struct querier test_store;

/* ---- what the evaluator calls ---- */

struct test_set {
    struct series_set set;
    struct labels labels[MAX_SERIES];
    size_t index[MAX_SERIES];
};

static inline enum otl_err test_matches(const struct label_matcher *m, struct labels l, bool *all,
                                        struct otl_error *err)
{
    static const enum match_op ops[] = {MATCH_EQUAL, MATCH_NOT_EQUAL, MATCH_REGEX, MATCH_NOT_REGEX};
    struct value_matcher vm;
    bool hit = false;
    enum otl_err rc = value_matcher_init(&vm, ops[m->op], m->value, err);

    if (rc != OTL_OK)
        return rc;
    rc = value_matcher_hit(&vm, labels_get(l, m->name), &hit, err);
    *all = *all && hit != vm.negative;
    value_matcher_fini(&vm);
    return rc;
}

enum otl_err querier_select(struct querier *q, const struct label_matcher *m, size_t n,
                            int64_t from_ms, int64_t to_ms, bool exact,
                            const struct series_set **out, struct otl_error *err)
{
    struct test_set *s = arena_alloc(&q->arena, sizeof(*s));
    enum otl_err rc = OTL_OK;

    (void)from_ms;
    (void)to_ms;
    (void)exact;
    s->set = (struct series_set){s->labels, 0};
    for (size_t i = 0; i < q->n && rc == OTL_OK; i++) {
        bool all = true;

        for (size_t k = 0; k < n && rc == OTL_OK; k++)
            rc = test_matches(&m[k], q->series[i]->labels, &all, err);
        if (all) {
            s->labels[s->set.n] = q->series[i]->labels;
            s->index[s->set.n++] = i;
        }
    }
    *out = &s->set;
    return rc;
}

enum otl_err querier_scan(struct querier *q, const struct series_set *set, int64_t from_ms,
                          int64_t to_ms, const struct digest_opts *digest,
                          enum otl_err (*emit)(void *arg, size_t i, const struct samples *v,
                                               struct otl_error *err),
                          void *arg, struct otl_error *err)
{
    const struct test_set *s = (const struct test_set *)(const void *)set;
    enum otl_err rc = OTL_OK;

    (void)digest; /* all samples are as good */
    for (size_t i = 0; i < set->n && rc == OTL_OK; i++) {
        const struct test_series *one = q->series[s->index[i]];
        size_t lo = 0, hi = one->n;
        bool histograms = false;
        struct samples in;

        while (lo < hi && one->t[lo] < from_ms)
            lo++;
        while (hi > lo && one->t[hi - 1] > to_ms)
            hi--;
        for (size_t k = lo; k < hi; k++)
            histograms = histograms || one->h[k] != NULL;
        in = (struct samples){
            .t = one->t + lo, .v = one->v + lo, .h = histograms ? one->h + lo : NULL, .n = hi - lo};
        if (hi > lo)
            rc = emit(arg, i, &in, err);
    }
    return rc;
}

/* ---- series ---- */

/* labels: as a selector of equals, x{a="1"}. */
static inline struct test_series *add_series(const char *labels)
{
    struct arena *a = &test_store.arena;
    struct test_series *s = calloc(1, sizeof(*s));
    const struct label_matcher *m;
    struct otl_error err;
    struct label *l;
    size_t n;

    assert_non_null(s);
    assert_true(test_store.n < MAX_SERIES);
    assert_int_equal(promql_parse_selector(a, bytes_str(labels), &m, &n, &err), OTL_OK);
    l = arena_alloc(a, n * sizeof(*l));
    for (size_t i = 0; i < n; i++)
        l[i] = (struct label){m[i].name, m[i].value};
    s->labels = (struct labels){l, labels_normalise(l, n)};
    test_store.series[test_store.n++] = s;
    return s;
}

static inline void add_point(struct test_series *s, int64_t t, double v, struct prom_histogram *h)
{
    assert_true(s->n < MAX_POINTS);
    s->t[s->n] = t;
    s->v[s->n] = h != NULL ? prom_stale() : v;
    s->h[s->n++] = h;
}

/* values: numbers, "_" for none, "stale"; the first at 0, then each step_ms. */
static inline struct test_series *load(const char *labels, int64_t step_ms, const char *values)
{
    struct test_series *s = add_series(labels);
    int64_t t = 0;

    for (const char *p = values; *p != '\0'; t += step_ms) {
        char *end = NULL;

        if (strncmp(p, "stale", 5) == 0)
            add_point(s, t, prom_stale(), NULL);
        else if (*p != '_')
            add_point(s, t, strtod(p, &end), NULL);
        assert_true(end != p);
        while (*p != ' ' && *p != '\0')
            p++;
        while (*p == ' ')
            p++;
    }
    return s;
}

static inline void clear_series(void)
{
    for (size_t i = 0; i < test_store.n; i++) {
        for (size_t k = 0; k < test_store.series[i]->n; k++)
            histogram_free(test_store.series[i]->h[k]);
        free(test_store.series[i]);
    }
    arena_fini(&test_store.arena);
    memset(&test_store, 0, sizeof(test_store));
    arena_init(&test_store.arena, SIZE_MAX / 2);
}

/* ---- evaluation ---- */

static inline void print_sample(struct buf *out, double v, const struct prom_histogram *h)
{
    if (h != NULL)
        histogram_print(out, h);
    else if (prom_is_stale(v))
        buf_add_char(out, '_');
    else
        format_float(out, v);
}

static inline void print_value(struct buf *out, const struct prom_value *v, size_t steps)
{
    for (size_t i = 0; v->type == PROM_SCALAR && i < steps; i++) {
        if (i > 0)
            buf_add_char(out, ' ');
        print_sample(out, v->scalar[i], NULL);
    }
    if (v->type == PROM_STRING)
        buf_add_bytes(out, v->string);
    for (size_t r = 0; r < v->n_rows; r++) {
        if (out->n > 0)
            buf_add_str(out, "; ");
        print_series(out, v->rows[r].labels);
        for (size_t i = 0; i < v->rows[r].n; i++) {
            buf_add_char(out, ' ');
            if (v->rows[r].t != NULL)
                buf_printf(out, "%lld:", (long long)v->rows[r].t[i]);
            print_sample(out, v->rows[r].v[i], v->rows[r].h == NULL ? NULL : v->rows[r].h[i]);
        }
    }
}

/* One evaluation, to be ended. */
struct evaluation {
    struct eval_opts opts;
    struct arena arena;
    struct read read;
    struct eval v;
    struct prom_value value;
    struct otl_error err;
    enum otl_err rc;
};

static inline void evaluation_init(struct evaluation *x, int64_t start, int64_t end, int64_t step)
{
    *x = (struct evaluation){.opts = {.start_ms = start,
                                      .end_ms = end,
                                      .step_ms = step,
                                      .lookback_ms = 300000,
                                      .subquery_step_ms = 60000}};
    x->v = (struct eval){
        .opts = &x->opts, .read = &x->read, .querier = &test_store, .arena = &x->arena};
    arena_init(&x->arena, SIZE_MAX / 2);
}

static inline void evaluation_run(struct evaluation *x, const char *text)
{
    struct expr *e;

    x->v.text = bytes_str(text);
    x->rc = promql_parse(&x->arena, x->v.text, &e, &x->err);
    if (x->rc == OTL_OK)
        x->rc = eval_query(&x->v, e, &x->value, &x->err);
}

static inline void evaluation_end(struct evaluation *x)
{
    eval_free(&x->v, &x->value);
    /* What was taken from the budget has been given back. */
    if (x->rc == OTL_OK) {
        assert_int_equal(x->read.used_bytes, 0);
        assert_int_equal(x->v.held, 0);
    }
    arena_fini(&x->arena);
}

/* Evaluates and prints: rows as {a="1"} 1 _ 2, a row after the other with "; " between; then, each
 * after " | ", warnings and infos; an error as "error: ...". The caller frees it. */
static inline char *evaluate_range(const char *text, int64_t start, int64_t end, int64_t step)
{
    struct evaluation x;
    struct buf out = {0};
    char *kept;

    evaluation_init(&x, start, end, step);
    evaluation_run(&x, text);
    if (x.rc != OTL_OK) {
        buf_printf(&out, "error: %s", x.err.msg);
    } else {
        print_value(&out, &x.value, x.v.steps);
        for (size_t i = 0; i < x.v.warnings.n; i++) {
            buf_add_str(&out, " | ");
            buf_add_bytes(&out, x.v.warnings.texts[i]);
        }
        for (size_t i = 0; i < x.v.infos.n; i++) {
            buf_add_str(&out, " | ");
            buf_add_bytes(&out, x.v.infos.texts[i]);
        }
    }
    evaluation_end(&x);
    kept = strdup(buf_cstr(&out));
    buf_fini(&out);
    assert_non_null(kept);
    return kept;
}

struct promql_case {
    const char *expr, *want;
};

static inline bool number_at(const char *p, double *d, char **end)
{
    if (strchr("+-.0123456789", *p) == NULL || *p == '\0')
        return false;
    *d = strtod(p, end);
    return *end != p;
}

/* The same text but for the last digits of numbers. */
static inline bool nearly_same(const char *a, const char *b)
{
    while (*a != '\0' && *b != '\0') {
        char *end_a, *end_b;
        double x, y;

        if (number_at(a, &x, &end_a) && number_at(b, &y, &end_b)) {
            if (x != y && !(fabs(x - y) <= 1e-12 * fabs(y)))
                return false;
            a = end_a;
            b = end_b;
        } else if (*a++ != *b++) {
            return false;
        }
    }
    return *a == *b;
}

/* Each at one time, or over steps. */
static inline void check_range(const struct promql_case *c, size_t n, int64_t start, int64_t end,
                               int64_t step)
{
    size_t wrong = 0;

    for (size_t i = 0; i < n; i++) {
        char *got = evaluate_range(c[i].expr, start, end, step);

        if (!nearly_same(got, c[i].want)) {
            print_message("%s\n   got  %s\n   want %s\n", c[i].expr, got, c[i].want);
            wrong++;
        }
        free(got);
    }
    assert_int_equal(wrong, 0);
}

#define CHECK_AT(at, ...)                                                                       \
    check_range((const struct promql_case[]){__VA_ARGS__},                                      \
                sizeof((struct promql_case[]){__VA_ARGS__}) / sizeof(struct promql_case), (at), \
                (at), 0)
#define CHECK_RANGE(start, end, step, ...)                                                         \
    check_range((const struct promql_case[]){__VA_ARGS__},                                         \
                sizeof((struct promql_case[]){__VA_ARGS__}) / sizeof(struct promql_case), (start), \
                (end), (step))

#endif
