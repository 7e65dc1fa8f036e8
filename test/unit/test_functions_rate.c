/* rate, increase, delta, irate, idelta, changes, resets: by hand arithmetic from the rules in
 * functions_rate.c, and of samples for which Prometheus 2.42 was asked (marked so). */
#include "promql_case.h"

static int setup(void **state)
{
    (void)state;
    clear_series();
    return 0;
}

/* Samples each 10 s from 0. A window (0, 60] holds those at 10 to 60. */
static void extrapolates_to_the_edges(void **state)
{
    (void)state;
    load("c_total", 10000, "5 105 205 305 405 505 605 705 805 905");
    /* 505 - 5 over 50 s; the left edge is 10 s from the first sample, within 1.1 intervals. At 60
     * s: samples 10..60, 105 to 605: 500 over 50 s, edges at 0 and 60: 600. The counter was 0 at 10
     * s - 50 s * 105 / 500 = -0.5 s, which is before the edge. */
    CHECK_AT(60000, {"increase(c_total[1m])", "{} 600"}, {"rate(c_total[1m])", "{} 10"},
             {"delta(c_total[1m])", "{} 600"}, );
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(extrapolates_to_the_edges, setup),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    clear_series();
    return failed;
}
