/* What otlite-bench reads makes, what it takes for right, and how it compares: against points kept
 * one by one and added up the long way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../../bench/answer.c"
#include "../../bench/daemon.c"
#include "../../bench/reads_kept.c"
#include "../../bench/reads_panels.c"
#include "../../bench/series_gen.c"

/* ---- the generator ---- */

static const struct series_gen_opts small = {
    .mix = GEN_REALISTIC,
    .series = 400,
    .intervals = 400,
    .seed = 9,
    .start_ns = 1700000000 * NS_PER_S / (3600 * NS_PER_S) * (3600 * NS_PER_S),
    .interval_ns = 10 * NS_PER_S,
};

static void start(struct series_gen *g, const struct series_gen_opts *o)
{
    struct otl_error err = {0};

    if (series_gen_init(g, o, &err) != OTL_OK)
        fail_msg("%s", err.msg);
}

static void text_and_double_are_the_same_number(void **state)
{
    static const int64_t values[] = {0, 1, -1, 5, -5, 10, 99, 100, -100, 101, 123456789, -7000003};
    static const int64_t scale[] = {1, 10, 100};

    (void)state;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        for (unsigned decimals = 0; decimals <= 2; decimals++) {
            char text[24], want[64];
            int64_t v = values[i], whole = llabs(v) / scale[decimals];
            const char *sign = v < 0 ? "-" : "";

            if (decimals == 0)
                snprintf(want, sizeof(want), "%s%lld", sign, (long long)whole);
            else
                snprintf(want, sizeof(want), "%s%lld.%0*lld", sign, (long long)whole, (int)decimals,
                         (long long)(llabs(v) % scale[decimals]));
            assert_int_equal(gen_text(v, decimals, text), strlen(want));
            assert_string_equal(text, want);
            assert_true(strtod(text, NULL) == gen_double(v, decimals));
        }
    }
}

/* The values of all intervals, one after the other. */
static int64_t *all_values(const struct series_gen_opts *o, int64_t **out_starts)
{
    size_t n = (size_t)o->series * o->intervals, at = 0;
    int64_t *values = calloc(n, sizeof(*values)), *starts = calloc(n, sizeof(*starts));
    struct series_gen g;

    assert_non_null(values);
    assert_non_null(starts);
    start(&g, o);
    do {
        memcpy(values + at, g.values, o->series * sizeof(*values));
        memcpy(starts + at, g.starts_ns, o->series * sizeof(*starts));
        at += o->series;
    } while (series_gen_next(&g));
    assert_int_equal(at, n);
    series_gen_fini(&g);
    if (out_starts != NULL)
        *out_starts = starts;
    else
        free(starts);
    return values;
}

static void the_same_seed_makes_the_same_points(void **state)
{
    struct series_gen_opts o = small;
    size_t bytes = (size_t)o.series * o.intervals * sizeof(int64_t);
    int64_t *a = all_values(&o, NULL), *b = all_values(&o, NULL), *c;

    (void)state;
    assert_memory_equal(a, b, bytes);
    o.seed++;
    c = all_values(&o, NULL);
    assert_memory_not_equal(a, c, bytes);
    free(a);
    free(b);
    free(c);
}

/* series_gen.h's table of GEN_REALISTIC, and that each thing in it does happen. */
static void values_move_as_the_mix_says(void **state)
{
    struct series_gen_opts o = small;
    int64_t *starts, *values;
    unsigned grown = 0, resets = 0, moved[GEN_METRICS] = {0};

    (void)state;
    o.intervals = 6000; /* a restart is due once in 5,000 */
    values = all_values(&o, &starts);
    for (uint32_t i = 1; i < o.intervals; i++) {
        for (uint32_t s = 0; s < o.series; s++) {
            size_t at = (size_t)i * o.series + s;
            int64_t now = values[at], before = values[at - o.series], step = now - before;
            uint32_t m = gen_metric(s);

            moved[m] += step != 0;
            if (m < GEN_COUNTERS) {
                bool is_reset = starts[at] != starts[at - o.series];

                assert_true(now >= 0);
                assert_true(step >= 0 || is_reset);
                if (is_reset)
                    assert_int_equal(starts[at], gen_time_ns(&o, gen_service(s), i) - NS_PER_MS);
                resets += is_reset;
                grown += step > 0;
                if (m == 3 && gen_instance(s) > 0 && !is_reset)
                    assert_true(step >= values[at - 1] - values[at - o.series - 1]);
                continue;
            }
            assert_int_equal(starts[at], 0);
            if (m == 4)
                assert_true(now >= 0 && now <= 1000 && llabs(step) <= 20);
            if (m == 5)
                assert_true(llabs(step) <= 100);
            if (m == 6)
                assert_true(llabs(step) <= 2);
            if (m == 7)
                assert_int_equal(step, 0);
        }
    }
    assert_true(grown > 0 && resets > 0);
    for (uint32_t m = 0; m < 7; m++)
        assert_true(moved[m] > 0);
    assert_int_equal(moved[7], 0);
    free(values);
    free(starts);
}

static void what_does_not_fit_is_refused(void **state)
{
    struct series_gen_opts o = small;
    struct series_gen g;
    struct otl_error err = {0};

    (void)state;
    o.series = 401;
    assert_int_equal(series_gen_init(&g, &o, &err), OTL_ECONFIG);
    o = small;
    o.intervals = 0;
    assert_int_equal(series_gen_init(&g, &o, &err), OTL_ECONFIG);
    o = small;
    o.jitter_ms = 10000; /* as long as the interval: points would change places */
    assert_int_equal(series_gen_init(&g, &o, &err), OTL_ECONFIG);
}

/* ---- what is right ---- */

static void windows_are_whole_and_behind_the_first_values(void **state)
{
    struct series_gen_opts o = small; /* 4,000 s */
    struct panel p = {PANEL_SUM, BY_NONE, SPAN_DAY, 1, false, 60};
    struct range r = panel_range(&p, &o);

    (void)state;
    assert_int_equal(r.from_ns, o.start_ns + 60 * NS_PER_S);
    assert_int_equal(r.to_ns, o.start_ns + 3960 * NS_PER_S);
    assert_int_equal(r.windows, 65);
    p.span = SPAN_HOUR;
    r = panel_range(&p, &o);
    assert_int_equal(r.from_ns, o.start_ns + 360 * NS_PER_S);
    assert_int_equal(r.windows, 60);
    p.span = SPAN_ALL;
    r = panel_range(&p, &o);
    assert_int_equal(r.from_ns, o.start_ns);
    assert_int_equal(r.to_ns, o.start_ns + 4000 * NS_PER_S);
    assert_int_equal(r.windows, 1);
    p.span = SPAN_HOUR;
    p.what = PANEL_RAW;
    r = panel_range(&p, &o);
    assert_int_equal(r.windows, 360);
}

struct naive {
    double sum, max, growth;
    uint64_t n;
};

/* A group and window of a panel, from the kept points alone. */
static struct naive add_up(const struct series_gen_opts *o, const int64_t *values,
                           const struct panel *p, uint32_t group, int64_t from_ns, int64_t to_ns)
{
    struct naive sum = {0};

    for (uint32_t s = 0; s < o->series; s++) {
        uint32_t service = s / GEN_OF_SERVICE, metric = s / 10 % 8;
        uint32_t of = p->by == BY_SERVICE ? service : p->by == BY_SERIES ? s : 0;

        if (of != group || (p->metrics & 1U << metric) == 0 ||
            (p->production && service % 5 == 4) || (p->what == PANEL_RAW && s != RAW_SERIES))
            continue;
        for (uint32_t i = 0; i < o->intervals; i++) {
            int64_t t = gen_time_ns(o, service, i), v = values[(size_t)i * o->series + s];
            int64_t before = i == 0 ? v : values[(size_t)(i - 1) * o->series + s];
            double number = (double)v / (metric == 4 ? 10 : metric == 5 ? 100 : 1);

            if (t < from_ns || t >= to_ns)
                continue;
            sum.sum += number;
            sum.max = sum.n == 0 || number > sum.max ? number : sum.max;
            sum.growth += (double)(v >= before ? v - before : v);
            sum.n++;
        }
    }
    return sum;
}

static double naive_value(const struct naive *n, const struct panel *p)
{
    switch (p->what) {
    case PANEL_RAW:
    case PANEL_SUM:
        return n->sum;
    case PANEL_MAX:
        return n->max;
    case PANEL_RATE:
        return n->growth / (double)p->step_s;
    default:
        return n->sum / (double)n->n;
    }
}

static void check_panel(const struct reads_model *m, const struct series_gen_opts *o,
                        const int64_t *values, unsigned query, unsigned panel)
{
    const struct panel *p = &reads_queries[query].panels[panel];
    struct range r = panel_range(p, o);
    struct answer want = {0}, got = {0};
    struct otl_error err = {0};

    for (uint32_t g = 0; g < o->series; g++) {
        if (p->by == BY_NONE && g > 0)
            break;
        if (p->by == BY_SERVICE && g >= o->series / GEN_OF_SERVICE)
            break;
        for (uint32_t w = 0; w < r.windows; w++) {
            int64_t from_ns = r.from_ns + w * r.step_ns;
            struct naive n = add_up(o, values, p, g, from_ns, from_ns + r.step_ns);

            if (n.n > 0)
                answer_add(&want, g, w, naive_value(&n, p),
                           p->what == PANEL_MEAN_AND_MAX ? n.max : 0);
        }
    }
    reads_model_answer(m, query, panel, &got);
    assert_true(want.n > 0);
    if (!answer_equal(&want, &got, &err))
        fail_msg("%s, panel %u: %s", reads_queries[query].name, panel, err.msg);
    answer_fini(&want);
    answer_fini(&got);
}

static void check_model(uint32_t jitter_ms)
{
    struct series_gen_opts o = small;
    struct otl_error err = {0};
    struct reads_model *m = NULL;
    struct series_gen g;
    int64_t *values;
    double sum = 0;

    o.jitter_ms = jitter_ms;
    values = all_values(&o, NULL);
    assert_int_equal(reads_model_new(&o, &m, &err), OTL_OK);
    start(&g, &o);
    do {
        reads_model_add(m, &g);
    } while (series_gen_next(&g));
    series_gen_fini(&g);
    for (unsigned q = 0; q < READS_QUERIES; q++) {
        for (unsigned p = 0; p < reads_queries[q].n_panels; p++)
            check_panel(m, &o, values, q, p);
    }
    for (size_t i = 0; i < (size_t)o.series * o.intervals; i++) {
        uint32_t metric = i % o.series / 10 % 8;

        sum += (double)values[i] / (metric == 4 ? 10 : metric == 5 ? 100 : 1);
    }
    assert_true(near(sum, reads_model_sum(m)));
    reads_model_free(m);
    free(values);
}

static void the_model_is_right(void **state)
{
    (void)state;
    check_model(0);
}

static void the_model_is_right_with_jitter(void **state)
{
    (void)state;
    check_model(3000);
}

/* ---- comparing ---- */

static bool parse(struct answer *a, const char *text)
{
    answer_reset(a);
    return answer_parse(a, text, strlen(text));
}

static void answers_are_read_from_text(void **state)
{
    struct answer a = {0};

    (void)state;
    assert_true(parse(&a, "g,w,value\r\n3,1,2.5,7\r\n0,2,,1\r\n0,1,-4e3\r\n"));
    answer_sort(&a);
    assert_int_equal(a.n, 3);
    assert_true(a.rows[0].group == 0 && a.rows[0].window == 1 && a.rows[0].values[0] == -4000);
    assert_true(isnan(a.rows[1].values[0]) && a.rows[1].values[1] == 1);
    assert_true(a.rows[2].group == 3 && a.rows[2].values[0] == 2.5 && a.rows[2].values[1] == 7);
    assert_true(parse(&a, "1\t2\t3"));
    assert_int_equal(a.n, 1);
    assert_true(parse(&a, ""));
    assert_int_equal(a.n, 0);
    assert_false(parse(&a, "1,2\n"));          /* no value */
    assert_false(parse(&a, "1,2,3,4,5\n"));    /* more than an answer has */
    assert_false(parse(&a, "-1,2,3\n"));       /* no group */
    assert_false(parse(&a, "1,2,3;\n"));       /* something else */
    assert_false(parse(&a, "4294967296,2,3")); /* beyond the groups there can be */
    answer_fini(&a);
}

static bool equal_texts(const char *want, const char *got)
{
    struct answer a = {0}, b = {0};
    struct otl_error err = {0};
    bool equal;

    assert_true(parse(&a, want) && parse(&b, got));
    equal = answer_equal(&a, &b, &err);
    assert_true(equal || err.msg[0] != '\0');
    answer_fini(&a);
    answer_fini(&b);
    return equal;
}

static void answers_that_differ_are_found(void **state)
{
    (void)state;
    assert_true(equal_texts("0,1,5,6\n0,2,7\n", "0,1,5,6\n0,2,7\n"));
    assert_true(equal_texts("0,1,1000000000", "0,1,1000000000.5")); /* the order of additions */
    assert_true(equal_texts("0,1,,0", "0,1,,0"));
    assert_false(equal_texts("0,1,1000000000", "0,1,1000000002"));
    assert_false(equal_texts("0,1,0", "0,1,1e-300"));
    assert_false(equal_texts("0,1,5,6", "0,1,5,7"));
    assert_false(equal_texts("0,1,5", "1,1,5"));
    assert_false(equal_texts("0,1,5", "0,2,5"));
    assert_false(equal_texts("0,1,5\n0,2,5", "0,1,5"));
    assert_false(equal_texts("0,1,5", "0,1,5\n0,2,5"));
    assert_false(equal_texts("0,1,5,0", "0,1,,0"));
}

/* ---- --data ---- */

static void kept_points_are_taken_again_or_refused(void **state)
{
    struct series_gen_opts o = small, later = small;
    struct kept_facts f = {0}, wrote = {.seconds = 2.5, .bytes = 4096};
    struct otl_error err = {0};
    char dir[4096], kept[4200], system[4300], file[4400];
    bool stored;
    FILE *out;

    (void)state;
    assert_int_equal(scratch_make(dir, sizeof(dir), &err), OTL_OK);
    snprintf(kept, sizeof(kept), "%s/kept", dir);
    assert_int_equal(kept_open(kept, &o, &err), OTL_OK);
    assert_int_equal(kept_system(kept, "x", system, sizeof(system), &stored, &f, &err), OTL_OK);
    assert_false(stored);
    snprintf(file, sizeof(file), "%s/half", system);
    out = fopen(file, "w");
    assert_non_null(out);
    fclose(out);

    /* What was not finished is no longer there; what was is. */
    assert_int_equal(kept_system(kept, "x", system, sizeof(system), &stored, &f, &err), OTL_OK);
    assert_false(stored);
    assert_int_equal(access(file, F_OK), -1);
    assert_int_equal(kept_stored(kept, "x", &wrote, &err), OTL_OK);
    out = fopen(file, "w");
    assert_non_null(out);
    fclose(out);
    assert_int_equal(kept_system(kept, "x", system, sizeof(system), &stored, &f, &err), OTL_OK);
    assert_true(stored && f.seconds == 2.5 && f.bytes == 4096);
    assert_int_equal(access(file, F_OK), 0);

    /* Nor is what other points came to. */
    assert_int_equal(kept_spoil(kept, "x", &err), OTL_OK);
    assert_int_equal(kept_system(kept, "x", system, sizeof(system), &stored, &f, &err), OTL_OK);
    assert_false(stored);
    assert_int_equal(access(file, F_OK), -1);

    /* A later run asks for the points that are there. */
    later.start_ns += 7200 * NS_PER_S;
    assert_int_equal(kept_open(kept, &later, &err), OTL_OK);
    assert_int_equal(later.start_ns, small.start_ns);
    later.seed++;
    assert_int_equal(kept_open(kept, &later, &err), OTL_ECONFIG);

    /* A directory of something else is left alone. */
    assert_int_equal(kept_open(dir, &o, &err), OTL_ECONFIG);
    assert_int_equal(access(system, F_OK), 0);
    scratch_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_and_double_are_the_same_number),
        cmocka_unit_test(the_same_seed_makes_the_same_points),
        cmocka_unit_test(values_move_as_the_mix_says),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(windows_are_whole_and_behind_the_first_values),
        cmocka_unit_test(the_model_is_right),
        cmocka_unit_test(the_model_is_right_with_jitter),
        cmocka_unit_test(answers_are_read_from_text),
        cmocka_unit_test(answers_that_differ_are_found),
        cmocka_unit_test(kept_points_are_taken_again_or_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
