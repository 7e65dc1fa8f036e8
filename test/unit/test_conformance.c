/* Rules of docs/conformance.md that no daemon can be brought to show from outside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/dict.h"

/* Make the first entry look as if its key had the hash of another: where a search for that one
 * begins, with its hash. */
static void forge_hash(struct dict *d, int64_t parent, struct bytes key)
{
    struct dict other = {0};
    uint32_t hash;

    assert_int_equal(dict_add(&other, 1, parent, key, (union dict_note){0}), 0);
    hash = other.entries[0].hash;
    dict_fini(&other);
    d->entries[0].hash = hash;
    memset(d->slots, 0, d->n_slots * sizeof(*d->slots));
    d->slots[hash & (d->n_slots - 1)] = (struct dict_slot){1, hash};
}

/* M-16: a hash finds, the bytes decide. */
static void equal_hashes_do_not_make_equal_keys(void **state)
{
    const int64_t parent = 7;
    struct bytes a = bytes_str("attributes a"), b = bytes_str("attributes b");
    struct dict d = {0};

    (void)state;
    assert_int_equal(dict_add(&d, 1, parent, a, (union dict_note){0}), 0);
    assert_int_equal(dict_find(&d, parent, a), 0);
    forge_hash(&d, parent, b);
    assert_int_equal(dict_find(&d, parent, b), DICT_NONE);
    assert_int_equal(dict_add(&d, 2, parent, b, (union dict_note){0}), 1);
    assert_int_equal(dict_find(&d, parent, b), 1);
    dict_fini(&d);
}

/* M-21: the same bytes below another parent are another row, also with one hash. */
static void equal_keys_of_other_parents_are_others(void **state)
{
    struct bytes key = bytes_str("attributes");
    struct dict d = {0};

    (void)state;
    assert_int_equal(dict_add(&d, 1, 7, key, (union dict_note){0}), 0);
    forge_hash(&d, 8, key);
    assert_int_equal(dict_find(&d, 8, key), DICT_NONE);
    dict_fini(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_hashes_do_not_make_equal_keys),
        cmocka_unit_test(equal_keys_of_other_parents_are_others),
    };

    return cmocka_run_group_tests_name("conformance", tests, NULL, NULL);
}
