/* Sorting that can be broken off: as qsort with the order of arrival for equal keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "query/sorting.h"
#include "random.h"
#include "store/read_internal.h"

struct item {
    uint32_t key, at;
};

static int by_key(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    return (x->key > y->key) - (x->key < y->key);
}
static int by_key_and_place(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    int c = by_key(a, b);

    return c != 0 ? c : (x->at > y->at) - (x->at < y->at);
}

/* Sizes around those of runs and of their doubles. */
static const size_t sizes[] = {0,    1,    2,    2047, 2048, 2049,  4095,  4096,
                               4097, 6144, 6145, 8192, 8193, 12289, 50000, 65537};
enum { N_SIZES = sizeof(sizes) / sizeof(sizes[0]), MAX_ITEMS = 65537 };

static struct item items[MAX_ITEMS], want[MAX_ITEMS];

/* keys: how many there are; 0: ascending already. */
static void fill(size_t n, unsigned keys)
{
    for (size_t i = 0; i < n; i++)
        items[i] = (struct item){keys == 0 ? (uint32_t)i : random_below(keys), (uint32_t)i};
    memcpy(want, items, n * sizeof(*items));
    if (n > 0)
        qsort(want, n, sizeof(*want), by_key_and_place);
}

static void sorts_stably(void **state)
{
    static const unsigned keys[] = {0, 1, 10, 5000, 1u << 31};
    struct read r = {0};
    struct otl_error err;

    (void)state;
    for (size_t s = 0; s < N_SIZES; s++) {
        for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
            fill(sizes[s], keys[k]);
            assert_int_equal(sort_checked(&r, items, sizes[s], sizeof(*items), by_key, &err),
                             OTL_OK);
            assert_memory_equal(items, want, sizes[s] * sizeof(*items));
        }
    }
}

/* ---- broken off ---- */

static atomic_bool gone;
static size_t compared, gone_at;

static int until_gone(const void *a, const void *b)
{
    if (++compared == gone_at)
        atomic_store(&gone, true);
    return by_key(a, b);
}

static void ends_soon_after_the_client(void **state)
{
    struct read r = {.limits = {.cancel = &gone}};
    struct otl_error err;

    (void)state;
    for (gone_at = 1; gone_at < 800000; gone_at += 13577) {
        enum otl_err rc;

        fill(50000, 1u << 31);
        atomic_store(&gone, false);
        compared = 0;
        rc = sort_checked(&r, items, 50000, sizeof(*items), until_gone, &err);
        /* A run of 2048 is sorted to its end; of a merge so many comparisons are made. */
        if (compared >= gone_at)
            assert_true(compared - gone_at < 2048 * 12);
        if (compared < gone_at || compared - gone_at >= 2048)
            assert_int_equal(rc, compared < gone_at ? OTL_OK : OTL_ECANCELLED);
        /* None is lost, none is there twice. */
        qsort(items, 50000, sizeof(*items), by_key_and_place);
        assert_memory_equal(items, want, 50000 * sizeof(*items));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorts_stably),
        cmocka_unit_test(ends_soon_after_the_client),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
