/* Which parts are merged: tiers, a day that is over, a trickle of late points, damaged parts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "store/merge_plan.h"

enum { MOST = 256 };

static struct part_info parts[MOST];
static size_t n;

static void add(uint64_t points)
{
    parts[n].id = (int64_t)n + 1;
    parts[n].sequence = (int64_t)n + 1;
    parts[n].points = points;
    n++;
}

static int setup(void **state)
{
    (void)state;
    memset(parts, 0, sizeof(parts));
    n = 0;
    return 0;
}

static void expect(const bool *can, enum merge_goal goal, size_t first, size_t count)
{
    struct merge_plan p = merge_plan(parts, can, n, goal);

    assert_int_equal(p.n, count);
    if (count > 0)
        assert_int_equal(p.first, first);
}

/* Do what is planned until nothing is; gives the points written. */
static uint64_t carry_out(enum merge_goal goal)
{
    uint64_t written = 0;

    for (;;) {
        struct merge_plan p = merge_plan(parts, NULL, n, goal);
        uint64_t sum = 0;

        if (p.n == 0)
            return written;
        assert_true(p.n >= 2 && p.first + p.n <= n);
        for (size_t i = p.first; i < p.first + p.n; i++)
            sum += parts[i].points;
        written += sum;
        parts[p.first].points = sum;
        memmove(&parts[p.first + 1], &parts[p.first + p.n], (n - p.first - p.n) * sizeof(*parts));
        n -= p.n - 1;
    }
}

static void a_tier_begins_at_each_power_of_eight(void **state)
{
    (void)state;
    assert_int_equal(merge_tier(0), 0);
    assert_int_equal(merge_tier(4095), 0);
    assert_int_equal(merge_tier(4096), 1);
    assert_int_equal(merge_tier(32767), 1);
    assert_int_equal(merge_tier(32768), 2);
    assert_true(merge_tier(UINT64_MAX) > 10);
}

static void nothing_is_done_with_few_parts(void **state)
{
    (void)state;
    expect(NULL, MERGE_OPEN, 0, 0);
    for (int i = 0; i < 7; i++)
        add(100);
    expect(NULL, MERGE_OPEN, 0, 0);
    add(100);
    expect(NULL, MERGE_OPEN, 0, 8);
}

static void eight_of_a_tier_are_merged_and_larger_ones_left_alone(void **state)
{
    (void)state;
    add(1000000);
    for (int i = 0; i < 8; i++)
        add(5000);
    add(1000000);
    expect(NULL, MERGE_OPEN, 1, 8);
}

static void smaller_ones_between_them_are_taken_along(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        add(5000);
        add(10);
    }
    /* The last small one comes after the eighth. */
    expect(NULL, MERGE_OPEN, 0, 15);
}

/* Parts of one size come one after the other, as seals make them: few stay, and a point is written
 * about once for each tier. */
static void many_seals_leave_few_parts_for_little_writing(void **state)
{
    uint64_t written = 0;
    size_t most = 0;

    (void)state;
    for (int i = 0; i < 4096; i++) {
        add(1000);
        written += carry_out(MERGE_OPEN);
        most = n > most ? n : most;
    }
    /* Tiers of 1,000: 8,000 (1) ... 4,096,000: four merges on the way. */
    assert_true(most <= 4 * 7 + 8);
    assert_true(written <= UINT64_C(4) * 4096 * 1000);
}

static void sizes_at_random_leave_few_parts_too(void **state)
{
    uint64_t written = 0, total = 0;
    size_t most = 0;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        uint64_t points = UINT64_C(1) << random_below(18);

        add(points);
        total += points;
        written += carry_out(MERGE_OPEN);
        most = n > most ? n : most;
    }
    assert_true(most < 64);
    assert_true(written < 8 * total);
}

static void a_settled_day_becomes_one_part(void **state)
{
    (void)state;
    add(1000000);
    add(300000);
    add(5);
    expect(NULL, MERGE_SETTLED, 0, 3);
    (void)carry_out(MERGE_SETTLED);
    assert_int_equal(n, 1);
    expect(NULL, MERGE_SETTLED, 0, 0);
}

static void much_is_not_rewritten_for_a_trickle(void **state)
{
    (void)state;
    add(1000000);
    for (int i = 0; i < 7; i++)
        add(100);
    expect(NULL, MERGE_SETTLED, 0, 0);
    add(100);
    expect(NULL, MERGE_SETTLED, 1, 8);
}

static void little_is_rewritten_without_a_second_thought(void **state)
{
    (void)state;
    add(60000);
    add(1);
    expect(NULL, MERGE_SETTLED, 0, 2);
}

static void all_means_all(void **state)
{
    (void)state;
    add(100000000);
    expect(NULL, MERGE_ALL, 0, 0);
    add(1);
    expect(NULL, MERGE_ALL, 0, 2);
    for (int i = 0; i < 200; i++)
        add(1);
    expect(NULL, MERGE_ALL, 0, MERGE_MOST);
    (void)carry_out(MERGE_ALL);
    assert_int_equal(n, 1);
}

/* A damaged part stays where it is: the order of what is left and right of it must not change. */
static void a_damaged_part_parts_its_neighbours(void **state)
{
    bool can[MOST];

    (void)state;
    for (int i = 0; i < 15; i++) {
        add(100);
        can[i] = i != 7;
    }
    expect(can, MERGE_OPEN, 0, 0);
    expect(can, MERGE_ALL, 0, 7);
    add(100);
    can[15] = true;
    expect(can, MERGE_OPEN, 8, 8);
    expect(can, MERGE_ALL, 8, 8);
}

#define CASE(fn) cmocka_unit_test_setup(fn, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_tier_begins_at_each_power_of_eight),
        CASE(nothing_is_done_with_few_parts),
        CASE(eight_of_a_tier_are_merged_and_larger_ones_left_alone),
        CASE(smaller_ones_between_them_are_taken_along),
        CASE(many_seals_leave_few_parts_for_little_writing),
        CASE(sizes_at_random_leave_few_parts_too),
        CASE(a_settled_day_becomes_one_part),
        CASE(much_is_not_rewritten_for_a_trickle),
        CASE(little_is_rewritten_without_a_second_thought),
        CASE(all_means_all),
        CASE(a_damaged_part_parts_its_neighbours),
    };

    return cmocka_run_group_tests_name("merge_plan", tests, NULL, NULL);
}
