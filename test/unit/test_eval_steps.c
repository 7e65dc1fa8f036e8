/* What a range query says at a step is what an instant query says at that time: for expressions of
 * every part of the evaluator, over random series that begin, end, pause and are marked stale. */
#include "promql_case.h"
#include "random.h"

enum { ROUNDS = 12, STEPS = 24, STEP_MS = 17000 };

static const char *const exprs[] = {
    "x",
    "x offset 40s",
    "x offset -40s",
    "-x",
    "x + 1",
    "x > 4",
    "4 >= bool x",
    "{__name__=~\"x|y\"} * 2",
    "timestamp(x)",
    "abs(x - 5)",
    "clamp(x, 2, time() / 60)",
    "sum(x)",
    "sum by (a) (x)",
    "avg without (a) (x)",
    "min by (b) (x)",
    "max(x)",
    "count by (a) (x)",
    "group by (b) (x)",
    "stddev(x)",
    "stdvar by (a) (x)",
    "topk(2, x)",
    "bottomk by (a) (1, x)",
    "topk(time() % 4, x)",
    "limitk by (b) (2, x)",
    "limit_ratio(0.5, x)",
    "quantile(0.3, x)",
    "quantile by (a) (time() % 2, x)",
    "count_values(\"v\", x)",
    "count_values by (a) (\"v\", x)",
    "x + y",
    "x > y",
    "x == bool y",
    "x - on (a, b) y",
    "x / ignoring (c) y",
    "x * on (a) group_left (c) y",
    "y * on (a) group_right (c) x",
    "x < on (a) y",
    "x and y",
    "x or y",
    "x unless y",
    "x and on (a) y",
    "y or on (b) x",
    "sum(x) / count(y)",
    "scalar(sum(x)) + vector(1)",
    "rate(x[50s])",
    "max_over_time(x[1m] offset 20s)",
    "count_over_time(x[33s])",
    "sum(rate(x[1m])) by (a)",
    "quantile_over_time(0.5, x[70s])",
    "last_over_time(x[30s])",
    "max_over_time(x[1m:7s])",
    "sum_over_time((x * 2)[50s:10s])",
    "avg_over_time(sum(x)[1m:5s] offset 11s)",
    "max_over_time(rate(x[30s])[1m:10s])",
    "absent(x{a=\"1\"})",
    "absent_over_time(x{a=\"1\"}[20s])",
    "sort(x)",
    "label_replace(x, \"n\", \"$1\", \"a\", \"(.*)\")",
    "x @ 100",
    "sum_over_time(x[1m] @ 200)",
    "sum(x @ 150) + sum(x)",
};

static int setup(void **state)
{
    (void)state;
    clear_series();
    return 0;
}

static void make_series(const char *name)
{
    for (int i = 0; i < 9; i++) {
        char labels[64];
        struct test_series *s;
        int64_t t = random_below(120000);

        snprintf(labels, sizeof(labels), "%s{a=\"%d\", b=\"%d\", c=\"%s\"}", name, i % 3, i / 3,
                 name);
        s = add_series(labels);
        while (t < STEPS * STEP_MS && random_below(40) > 0) {
            const unsigned kind = random_below(30);

            if (kind > 1)
                add_point(s, t, (double)random_below(10), NULL);
            else
                add_point(s, t, kind == 0 ? prom_stale() : (double)NAN, NULL);
            t += 1 + random_below(random_below(12) == 0 ? 400000 : 20000);
        }
    }
}

static const struct prom_row *row_of(const struct prom_value *v, struct labels l)
{
    for (size_t r = 0; r < v->n_rows; r++) {
        if (labels_equal(v->rows[r].labels, l))
            return &v->rows[r];
    }
    return NULL;
}

static bool same(double a, double b)
{
    return memcmp(&a, &b, sizeof(a)) == 0 ||
           (isnan(a) && isnan(b) && prom_is_stale(a) == prom_is_stale(b));
}

/* The rows of the instant query are those of the range query that have a sample at the step. */
static void check_step(const char *text, const struct prom_value *range,
                       const struct prom_value *one, size_t i)
{
    size_t there = 0;

    for (size_t r = 0; r < range->n_rows; r++) {
        const struct prom_row *row = row_of(one, range->rows[r].labels);

        if (prom_is_stale(range->rows[r].v[i]))
            continue;
        there++;
        if (row == NULL || !same(row->v[0], range->rows[r].v[i]))
            fail_msg("%s, step %zu, row %zu: %.17g in the range, %.17g at once", text, i, r,
                     range->rows[r].v[i], row == NULL ? prom_stale() : row->v[0]);
    }
    if (there != one->n_rows)
        fail_msg("%s, step %zu: %zu in the range, %zu at once", text, i, there, one->n_rows);
}

/* A range query fails where one of its steps does. */
static void check_expr(const char *text)
{
    struct evaluation range;
    bool refused = false;

    evaluation_init(&range, 60000, 60000 + (STEPS - 1) * STEP_MS, STEP_MS);
    evaluation_run(&range, text);
    for (size_t i = 0; i < STEPS; i++) {
        struct evaluation one;

        evaluation_init(&one, 60000 + (int64_t)i * STEP_MS, 60000 + (int64_t)i * STEP_MS, 0);
        evaluation_run(&one, text);
        refused = refused || one.rc == OTL_EBADREQUEST;
        if (one.rc == OTL_OK && range.rc == OTL_OK)
            check_step(text, &range.value, &one.value, i);
        evaluation_end(&one);
    }
    if (refused != (range.rc == OTL_EBADREQUEST))
        fail_msg("%s: %s", text, range.rc == OTL_OK ? "refused at a step only" : range.err.msg);
    evaluation_end(&range);
}

static void steps_agree_with_instant_queries(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        clear_series();
        make_series("x");
        make_series("y");
        for (size_t e = 0; e < sizeof(exprs) / sizeof(exprs[0]); e++)
            check_expr(exprs[e]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(steps_agree_with_instant_queries, setup, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
