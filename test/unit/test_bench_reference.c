/* The rules of otlite-bench reference, which are in no library: when a step passes, where a ramp
 * goes, and when a stored point is the one that was sent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../../bench/known_points.c"
#include "../../bench/reference_rules.c"
#include "otlite/decode.h"

/* --- steps --- */

static enum step_verdict judge(double target, double achieved, uint64_t requests, uint64_t errors)
{
    return step_judge(&(struct step_figures){target, achieved, requests, errors});
}

static void a_step_fails_above_five_percent_errors(void **state)
{
    (void)state;
    assert_int_equal(judge(1000, 1000, 1000, 50), STEP_PASSED);
    assert_int_equal(judge(1000, 1000, 1000, 51), STEP_FAILED);
}

static void a_step_fails_below_seventy_percent_of_its_target(void **state)
{
    (void)state;
    assert_int_equal(judge(1000, 700, 100, 0), STEP_PASSED);
    assert_int_equal(judge(1000, 699, 100, 0), STEP_FAILED);
}

static void a_clean_step_has_no_error_and_95_percent(void **state)
{
    (void)state;
    assert_int_equal(judge(1000, 950, 100, 0), STEP_CLEAN);
    assert_int_equal(judge(1000, 949, 100, 0), STEP_PASSED);
    assert_int_equal(judge(1000, 1000, 100, 1), STEP_PASSED);
}

static void a_step_without_a_request_fails(void **state)
{
    (void)state;
    assert_int_equal(judge(1000, 0, 0, 0), STEP_FAILED);
    assert_int_equal(judge(1000, 1000, 0, 0), STEP_FAILED);
}

/* --- ramps --- */

/* Where a ramp goes when every step up to the capacity passes. */
static unsigned run_ramp(struct ramp *r, double capacity, double *steps, unsigned max)
{
    unsigned n = 0;

    do {
        assert_true(n < max);
        steps[n++] = r->next;
    } while (ramp_advance(r, r->next <= capacity));
    return n;
}

static void a_ramp_goes_up_and_homes_in(void **state)
{
    struct ramp r = {.next = 100, .factor = 2, .halvings = 2, .descents = 3};
    double steps[16];

    (void)state;
    /* 100, 200, 400 pass, 800 fails; sqrt(400 * 800) = 565.7 fails; sqrt(400 * 565.7) = 475.7. */
    assert_int_equal(run_ramp(&r, 500, steps, 16), 6);
    assert_true(steps[0] == 100 && steps[1] == 200 && steps[2] == 400 && steps[3] == 800);
    assert_true(fabs(steps[4] - 565.685) < 0.001);
    assert_true(fabs(steps[5] - 475.683) < 0.001);
    assert_true(fabs(r.passed - 475.683) < 0.001);
    assert_true(fabs(r.failed - 565.685) < 0.001);
}

static void a_ramp_that_starts_too_high_goes_down(void **state)
{
    struct ramp r = {.next = 100, .factor = 2, .halvings = 1, .descents = 3};
    double steps[16];

    (void)state;
    /* 100, 50 fail, 25 passes; sqrt(25 * 50) = 35.36 fails. */
    assert_int_equal(run_ramp(&r, 30, steps, 16), 4);
    assert_true(steps[1] == 50 && steps[2] == 25);
    assert_true(fabs(steps[3] - 35.355) < 0.001);
    assert_true(r.passed == 25);
}

static void a_ramp_on_which_nothing_passes_ends(void **state)
{
    struct ramp r = {.next = 100, .factor = 2, .halvings = 2, .descents = 2};
    double steps[16];

    (void)state;
    assert_int_equal(run_ramp(&r, 0, steps, 16), 3);
    assert_true(r.passed == 0);
}

static void a_ramp_stops_at_its_limit(void **state)
{
    struct ramp r = {.next = 100, .factor = 2, .limit = 350, .halvings = 2};
    double steps[16];

    (void)state;
    assert_int_equal(run_ramp(&r, 1e9, steps, 16), 3);
    assert_true(steps[2] == 350);
    assert_true(r.passed == 350);
}

/* --- known points --- */

enum { CLIENT = 7, TURN = 42 };

static const int64_t at_ns = INT64_C(1700000000123456789);

static bool same_value(const struct known_point *p, const struct value *v)
{
    switch (p->kind) {
    case KNOWN_NONE:
        return v->kind == VALUE_NONE;
    case KNOWN_INT:
        return v->kind == VALUE_INT && v->u.i == p->i;
    case KNOWN_DOUBLE:
        return v->kind == VALUE_DOUBLE && double_bits(v->u.d) == double_bits(p->d);
    }
    return false;
}

/* The decoder, which has its own oracle, reads the body as what it is meant to say. */
static void the_body_says_what_is_expected(void **state)
{
    struct known_point p[KNOWN_POINTS];
    struct buf body = {0};
    struct arena a;
    struct batch b;
    struct otl_error err;

    (void)state;
    arena_init(&a, 1 << 20);
    known_points_make(p, CLIENT, TURN, at_ns);
    known_points_encode(&body, p, CLIENT);
    assert_false(body.failed);
    assert_int_equal(decode_body(ENCODING_PROTOBUF, buf_bytes(&body), &decode_limits_default, at_ns,
                                 &a, &b, &err),
                     OTL_OK);
    assert_int_equal(b.received, KNOWN_POINTS);
    assert_int_equal(b.n_numbers, KNOWN_POINTS);
    assert_int_equal(b.n_resources, 1);
    assert_true(bytes_equal(b.resources[0].service_name, bytes_str("client-00007")));
    assert_true(bytes_equal(b.scopes[0].name, bytes_str("otlite-bench.r5")));
    for (unsigned k = 0; k < KNOWN_POINTS; k++) {
        const struct number_point *n = &b.numbers[k];
        const struct batch_metric *m = &b.metrics[b.series[n->p.series].metric];

        assert_true(n->p.time == p[k].time);
        assert_true(n->p.start_time == p[k].start_time);
        assert_int_equal(n->p.flags, p[k].flags);
        assert_true(same_value(&p[k], &n->value));
        assert_int_equal(m->type, p[k].is_sum ? METRIC_SUM : METRIC_GAUGE);
        assert_int_equal(m->is_monotonic, p[k].is_sum);
        assert_int_equal(m->temporality, p[k].is_sum ? TEMPORALITY_CUMULATIVE : TEMPORALITY_NONE);
        assert_true(bytes_equal(m->unit, bytes_str("{view}")));
    }
    buf_fini(&body);
    arena_fini(&a);
}

static void points_have_every_kind_of_value_and_ascend(void **state)
{
    struct known_point p[KNOWN_POINTS];
    bool none = false, nan = false, minus_zero = false, infinite = false, beyond_double = false;

    (void)state;
    known_points_make(p, CLIENT, TURN, at_ns);
    for (unsigned k = 0; k < KNOWN_POINTS; k++) {
        none = none || p[k].kind == KNOWN_NONE;
        nan = nan || (p[k].kind == KNOWN_DOUBLE && isnan(p[k].d));
        minus_zero = minus_zero || (p[k].kind == KNOWN_DOUBLE &&
                                    double_bits(p[k].d) == UINT64_C(0x8000000000000000));
        infinite = infinite || (p[k].kind == KNOWN_DOUBLE && isinf(p[k].d));
        beyond_double = beyond_double || (p[k].kind == KNOWN_INT && p[k].i > INT64_C(1) << 60);
        assert_true(k == 0 ? p[k].time == at_ns : p[k].time > p[k - 1].time);
    }
    assert_true(none && nan && minus_zero && infinite && beyond_double);
}

/* A row as text of SQL, one literal for each column of known_points_sql. */
static const char *compare_literals(const struct known_point *p, const char *const *literals)
{
    struct buf sql = {0};
    const char *difference;
    sqlite3_stmt *st;
    sqlite3 *db;

    buf_add_str(&sql, "SELECT ");
    for (int i = 0; literals[i] != NULL; i++)
        buf_printf(&sql, "%s%s", i > 0 ? "," : "", literals[i]);
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, buf_cstr(&sql), -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    difference = known_point_difference(p, st);
    sqlite3_finalize(st);
    sqlite3_close(db);
    buf_fini(&sql);
    return difference;
}

static void every_column_counts(void **state)
{
    static const char *const right[] = {"1000",
                                        "900",
                                        "0",
                                        "5",
                                        "'bench.r5.sum'",
                                        "'{view}'",
                                        "'sum'",
                                        "'cumulative'",
                                        "1",
                                        "'{\"slot\":8}'",
                                        "'otlite-bench.r5'",
                                        NULL};
    static const struct {
        int column;
        const char *literal, *difference;
    } wrong[] = {
        {0, "1001", "time"},
        {0, "1000.0", "time"},
        {1, "901", "start_time"},
        {1, "NULL", "start_time"},
        {2, "1", "flags"},
        {3, "6", "value"},
        {3, "5.0", "value"},
        {3, "NULL", "value"},
        {4, "'bench.r5.gauge'", "metric name"},
        {5, "''", "unit"},
        {6, "'gauge'", "type"},
        {7, "'delta'", "temporality"},
        {8, "0", "is_monotonic"},
        {9, "'{\"slot\":9}'", "attributes"},
        {9, "'{\"slot\":8,\"x\":1}'", "attributes"},
        {10, "NULL", "scope name"},
    };
    const struct known_point p = {
        .time = 1000, .start_time = 900, .is_sum = true, .slot = 8, .kind = KNOWN_INT, .i = 5};

    (void)state;
    assert_null(compare_literals(&p, right));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const char *literals[12];
        const char *got;

        memcpy(literals, right, sizeof(right));
        literals[wrong[i].column] = wrong[i].literal;
        got = compare_literals(&p, literals);
        assert_non_null(got);
        assert_string_equal(got, wrong[i].difference);
    }
}

static void doubles_are_compared_bit_by_bit(void **state)
{
    const char *literals[] = {"1",
                              "1",
                              "0",
                              "",
                              "'bench.r5.gauge'",
                              "'{view}'",
                              "'gauge'",
                              "'none'",
                              "0",
                              "'{\"slot\":2}'",
                              "'otlite-bench.r5'",
                              NULL};
    struct known_point p = {.time = 1, .start_time = 1, .slot = 2, .kind = KNOWN_DOUBLE};

    (void)state;
    p.d = -0.0;
    literals[3] = "-0.0";
    assert_null(compare_literals(&p, literals));
    literals[3] = "0.0";
    assert_string_equal(compare_literals(&p, literals), "value");
    p.d = INFINITY;
    literals[3] = "9e999";
    assert_null(compare_literals(&p, literals));
    literals[3] = "-9e999";
    assert_string_equal(compare_literals(&p, literals), "value");
    p.d = (double)NAN;
    literals[3] = "x'7ff8000000000000'";
    assert_null(compare_literals(&p, literals));
    literals[3] = "x'7ff8000000000001'";
    assert_string_equal(compare_literals(&p, literals), "value");
    literals[3] = "NULL"; /* what SQLite makes of a NaN that is bound as a double */
    assert_string_equal(compare_literals(&p, literals), "value");
    p.kind = KNOWN_NONE;
    assert_null(compare_literals(&p, literals));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_fails_above_five_percent_errors),
        cmocka_unit_test(a_step_fails_below_seventy_percent_of_its_target),
        cmocka_unit_test(a_clean_step_has_no_error_and_95_percent),
        cmocka_unit_test(a_step_without_a_request_fails),
        cmocka_unit_test(a_ramp_goes_up_and_homes_in),
        cmocka_unit_test(a_ramp_that_starts_too_high_goes_down),
        cmocka_unit_test(a_ramp_on_which_nothing_passes_ends),
        cmocka_unit_test(a_ramp_stops_at_its_limit),
        cmocka_unit_test(the_body_says_what_is_expected),
        cmocka_unit_test(points_have_every_kind_of_value_and_ascend),
        cmocka_unit_test(every_column_counts),
        cmocka_unit_test(doubles_are_compared_bit_by_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
