/* rate, increase, delta, irate, idelta, changes, resets: expected values by hand from the rules in
 * functions_rate.c. */
#include "promql_case.h"
#include "random.h"

static int setup(void **state)
{
    (void)state;
    clear_series();
    return 0;
}

/* Samples each 10 s from 0; the window of [1m] at 60 s, (0, 60], holds those at 10 to 60. */
static void extrapolates_to_the_edges(void **state)
{
    (void)state;
    load("c_total", 10000, "5 105 205 305 405 505 605 705 805 905");
    /* 105 to 605 over 50 s, the edges are 10 s and 0 s away: 500 * 60 / 50. */
    CHECK_AT(60000, {"increase(c_total[1m])", "{} 600"}, {"rate(c_total[1m])", "{} 10"},
             {"delta(c_total[1m])", "{} 600"}, {"irate(c_total[1m])", "{} 10"},
             {"idelta(c_total[1m])", "{} 100"}, {"increase(c_total[10s])", ""},
             {"increase(c_total[20s])", "{} 200"});
    /* Half-way: (5, 65] holds 10 to 60; the edges are 5 s away on both sides. */
    CHECK_AT(65000, {"increase(c_total[1m])", "{} 600"});
    /* (40, 100] holds 50 to 90, 505 to 905; the left edge is 10 s away, the right one too. */
    CHECK_AT(100000, {"increase(c_total[1m])", "{} 600"});
    /* (50, 110] holds 60 to 90, 605 to 905 over 30 s: 10 s to the left; 20 s to the right, more
     * than 1.1 intervals, so half of one: 300 * (30 + 10 + 5) / 30. */
    CHECK_AT(110000, {"increase(c_total[1m])", "{} 450"}, {"delta(c_total[1m])", "{} 450"});
    /* 11 s are 1.1 intervals, and too many: (49, 101] holds 50 to 90, 10 ms less are not. */
    CHECK_AT(101000, {"increase(c_total[52s])", "{} 460"});
    CHECK_AT(100990, {"increase(c_total[52s])", "{} 520"});
}

static void counters_begin_at_zero_at_the_earliest(void **state)
{
    (void)state;
    /* 2 to 12 over 50 s; it was 0 10 s before at the earliest, but 2 / 10 * 50 = 10 s back. The
     * left edge of [70s] at 65 s is 15 s back, too far, so half an interval, 5 s, is the least:
     * then the right one, 5 s. */
    load("c_total", 10000, "_ 2 4 6 8 10 12");
    CHECK_AT(65000, {"increase(c_total[70s])", "{} 12"});
    clear_series();
    /* 1 to 51 over 50 s: it was 0 at 1 s before the first sample; the edge is 8 s before it. */
    load("c_total", 10000, "_ 1 11 21 31 41 51");
    CHECK_AT(60000, {"increase(c_total[58s])", "{} 51"}, {"delta(c_total[58s])", "{} 58"});
    clear_series();
    /* A counter below 0 is none. */
    load("c_total", 10000, "_ -1 9 19 29 39 49");
    CHECK_AT(60000, {"increase(c_total[58s])", "{} 58"});
    clear_series();
    /* The zero point counts after half an interval was taken for an edge too far away, as
     * Prometheus 3 has it; Prometheus 2.42 took the zero point, 10 s, first: 12 for 50 + 10 s.
     * Here 11. */
    load("c_total", 10000, "_ _ _ 2 4 6 8 10 12");
    CHECK_AT(80000, {"increase(c_total[80s])", "{} 11"});
}

static void resets_add_what_was_lost(void **state)
{
    (void)state;
    load("c_total", 10000, "_ 100 200 50 150 20 120");
    /* 120 - 100 + 200 + 150 over 50 s of 60 s. */
    CHECK_AT(60000, {"increase(c_total[1m])", "{} 444"}, {"delta(c_total[1m])", "{} 24"},
             {"resets(c_total[1m])", "{} 2"}, {"changes(c_total[1m])", "{} 5"});
    CHECK_AT(50000, {"irate(c_total[1m])", "{} 2"}, {"idelta(c_total[1m])", "{} -130"});
    clear_series();
    load("g_total", 10000, "_ 1 NaN NaN 2 2 NaN");
    /* NaN after NaN is no change; no comparison with NaN is a reset. */
    CHECK_AT(60000, {"changes(g_total[1m])", "{} 3"}, {"resets(g_total[1m])", "{} 0"},
             {"increase(g_total[1m])", "{} NaN"}, {"irate(g_total[1m])", "{} NaN"});
}

static void tells_when_a_name_is_no_counters(void **state)
{
    (void)state;
#define NO_COUNTER                                                      \
    "PromQL info: metric might not be a counter, name does not end in " \
    "_total/_sum/_count/_bucket: "
    load("g", 10000, "0 1 2 3 4 5 6");
    load("g_count", 10000, "0 1 2 3 4 5 6");
    CHECK_AT(60000, {"rate(g[1m])", "{} 0.1 | " NO_COUNTER "\"g\" (1:6)"},
             {"increase(g[1m] offset 1h)", ""}, {"rate(g_count[1m])", "{} 0.1"},
             {"irate(g[1m])", "{} 0.1"}, {"delta(g[1m])", "{} 6"},
             {"rate(sum(g)[1m:10s])", "{} 0.1"});
    CHECK_RANGE(40000, 60000, 10000,
                {"rate(g[1m])",
                 "{} 0.06666666666666667 0.08333333333333333 0.1 | " NO_COUNTER "\"g\" (1:6)"});
}

/* Windows of a range query overlap, and what they remember of each other changes nothing: each step
 * is what an instant query says. */
static void windows_that_overlap_agree(void **state)
{
    static const char *const exprs[] = {"rate(x_total[%dms])", "increase(x_total[%dms])",
                                        "max_over_time(x_total[%dms])",
                                        "min_over_time(x_total[%dms])"};

    (void)state;
    for (int round = 0; round < 60; round++) {
        struct test_series *s = add_series("x_total");
        int64_t t = 0;

        for (int i = 0; i < 200; i++) {
            const unsigned kind = random_below(20);
            const double v = (double)random_below(round % 2 == 0 ? 5 : 1000) / 8;

            t += 1 + random_below(random_below(30) == 0 ? 60000 : 3000);
            add_point(s, t, kind == 0 && round % 3 == 0 ? (double)NAN : kind == 1 ? -0.0 : v, NULL);
        }
        for (size_t e = 0; e < sizeof(exprs) / sizeof(exprs[0]); e++) {
            const int64_t step = 200 + random_below(3000);
            char text[80], *all, *p;

            snprintf(text, sizeof(text), exprs[e], (int)(2 * step + random_below(60000)));
            all = evaluate_range(text, 0, t, step);
            p = strchr(all, '}') + 1;
            for (int64_t at = 0; at <= t; at += step) {
                char *one = evaluate_range(text, at, at, 0);
                const char *want = *one == '\0' ? " _" : strchr(one, '}') + 1;

                if (strncmp(p, want, strlen(want)) != 0)
                    fail_msg("%s at %d: %.30s, not %s", text, (int)at, p, want);
                p += strlen(want);
                free(one);
            }
            assert_string_equal(p, "");
            free(all);
        }
        clear_series();
    }
}

/* ---- histograms ---- */

static struct prom_histogram *histogram(int32_t schema, double zero, double a, double b, double c,
                                        double sum, enum reset_hint hint)
{
    struct prom_histogram *h = histogram_new(schema, 1, 3, 0, 0);

    h->zero_threshold = 0.5;
    h->zero_count = zero;
    h->positive.counts[0] = a;
    h->positive.counts[1] = b;
    h->positive.counts[2] = c;
    h->count = zero + a + b + c;
    h->sum = sum;
    h->hint = hint;
    return h;
}

static void rates_of_histograms(void **state)
{
    struct test_series *s = add_series("h");

    (void)state;
    add_point(s, 10000, 0, histogram(0, 1, 10, 0, 4, 100, RESET_UNKNOWN));
    add_point(s, 20000, 0, histogram(0, 2, 20, 0, 4, 150, RESET_UNKNOWN));
    add_point(s, 30000, 0, histogram(0, 3, 30, 0, 4, 200, RESET_UNKNOWN));
    /* 2, 20, 0, 0 over 20 s; the edges are 10 s and 0 s away; the count was 0 at 20 s * 15 / 22
     * before the first one. */
    CHECK_AT(
        30000, {"increase(h[30s])", "{} {count:33, sum:150, [-0.5,0.5]:3, (1,2]:30}"},
        {"rate(h[30s])", "{} {count:1.1, sum:5, [-0.5,0.5]:0.1, (1,2]:1}"},
        {"irate(h[30s])", "{} {count:1.1, sum:5, [-0.5,0.5]:0.1, (1,2]:1}"},
        {"delta(h[30s])",
         "{} {count:33, sum:150, [-0.5,0.5]:3, (1,2]:30} | PromQL warning: this native histogram "
         "metric is not a gauge: \"h\" (1:7)"},
        {"idelta(h[30s])",
         "{} {count:11, sum:50, [-0.5,0.5]:1, (1,2]:10} | PromQL warning: this native histogram "
         "metric is not a gauge: \"h\" (1:8)"},
        {"changes(h[30s])", "{} 2"}, {"resets(h[30s])", "{} 0"},
        {"count_over_time(h[30s])", "{} 3"}, {"increase(h[10s])", ""});
    /* A reset, seen in one bucket, and by count after that: 200 - 150 is no measure then. */
    add_point(s, 40000, 0, histogram(0, 3, 1, 0, 40, 10, RESET_UNKNOWN));
    CHECK_AT(40000, {"irate(h[30s])", "{} {count:4.4, sum:1, [-0.5,0.5]:0.3, (1,2]:0.1, (4,8]:4}"},
             {"resets(h[40s])", "{} 1"},
             /* last - first + the one before the reset: zero 3 - 1 + 3, (1, 2] 1 - 10 + 30, (4, 8]
              * 40 - 4 + 4, count 66; over 30 s, and the 30 * 15 / 66 s since the count was 0: times
              * 27 / 22. */
             {"increase(h[40s])", "{} {count:81, sum:135, [-0.5,0.5]:6.136363636363637, "
                                  "(1,2]:25.772727272727273, (4,8]:49.09090909090909}"});
}

static void rates_of_histograms_that_change(void **state)
{
    struct test_series *s = add_series("h");

    (void)state;
    /* The first one is reset at once, so its layout does not matter: zero 3 -> 4, 30 -> 40 over 20
     * s, the edge 10 s away. */
    add_point(s, 10000, 0, histogram(-1, 9, 99, 0, 4, 100, RESET_UNKNOWN));
    add_point(s, 20000, 0, histogram(0, 3, 30, 0, 0, 20, RESET_YES));
    add_point(s, 30000, 0, histogram(0, 4, 40, 0, 0, 30, RESET_NO));
    CHECK_AT(30000, {"increase(h[30s])", "{} {count:66, sum:45, [-0.5,0.5]:6, (1,2]:60}"},
             {"resets(h[30s])", "{} 1"});
    clear_series();
    /* A gauge: a rate is computed, and doubted. */
    s = add_series("h");
    add_point(s, 10000, 0, histogram(0, 3, 30, 0, 0, 20, RESET_GAUGE));
    add_point(s, 20000, 0, histogram(0, 4, 40, 0, 0, 30, RESET_GAUGE));
    CHECK_AT(20000, {"delta(h[20s])", "{} {count:22, sum:20, [-0.5,0.5]:2, (1,2]:20}"},
             {"increase(h[20s])",
              "{} {count:22, sum:20, [-0.5,0.5]:2, (1,2]:20} | PromQL warning: this "
              "native histogram metric is not a counter: \"h\" (1:10)"});
    /* Floats among them. */
    add_point(s, 30000, 7, NULL);
#define MIX "PromQL warning: encountered a mix of histograms and floats for metric name \"h\" (1:"
    CHECK_AT(30000, {"rate(h[30s])", " | " MIX "6)"}, {"irate(h[30s])", " | " MIX "7)"},
             {"changes(h[30s])", "{} 2"}, {"resets(h[30s])", "{} 1"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(extrapolates_to_the_edges, setup, setup),
        cmocka_unit_test_setup_teardown(counters_begin_at_zero_at_the_earliest, setup, setup),
        cmocka_unit_test_setup_teardown(resets_add_what_was_lost, setup, setup),
        cmocka_unit_test_setup_teardown(tells_when_a_name_is_no_counters, setup, setup),
        cmocka_unit_test_setup_teardown(windows_that_overlap_agree, setup, setup),
        cmocka_unit_test_setup_teardown(rates_of_histograms, setup, setup),
        cmocka_unit_test_setup_teardown(rates_of_histograms_that_change, setup, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
