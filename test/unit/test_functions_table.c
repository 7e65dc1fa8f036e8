/* The table of functions: sorted, found by name, signatures whole. */
#include "promql_case.h"

static void is_sorted_and_finds_each(void **state)
{
    size_t n;
    const struct function *f = functions_all(&n);

    (void)state;
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            assert_true(bytes_compare(bytes_str(f[i - 1].name), bytes_str(f[i].name)) < 0);
        assert_ptr_equal(function_find(bytes_str(f[i].name)), &f[i]);
    }
    assert_null(function_find(bytes_str("")));
    assert_null(function_find(bytes_str("RATE")));
    assert_null(function_find(bytes_str("zzz")));
}

/* What the evaluator takes for granted of a signature when it calls by kind. */
static void kinds_fit_signatures(void **state)
{
    size_t n;
    const struct function *f = functions_all(&n);

    (void)state;
    for (size_t i = 0; i < n; i++) {
        size_t ranges = 0, vectors = 0, others = 0;

        assert_true(f[i].n_args <= FUNCTION_MAX_ARGS);
        assert_true(f[i].variadic == 0 || f[i].n_args > 0);
        for (size_t k = 0; k < f[i].n_args; k++) {
            ranges += f[i].args[k] == PROM_MATRIX;
            vectors += f[i].args[k] == PROM_VECTOR;
            others += f[i].args[k] == PROM_STRING;
        }
        if (f[i].kind == FUNCTION_RANGE)
            assert_true(ranges == 1 && vectors == 0 && others == 0);
        if (f[i].kind == FUNCTION_MAP)
            assert_true(ranges == 0 && vectors == 1 && others == 0);
        if (f[i].kind != FUNCTION_MATRIX)
            assert_true(f[i].returns == PROM_VECTOR);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_sorted_and_finds_each),
        cmocka_unit_test(kinds_fit_signatures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
