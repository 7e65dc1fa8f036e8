/* Attribute sets: canonical bytes, reading them back, both JSON forms. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "otlite/attrs.h"
#include "otlp/attrs_canonical.h"
#include "tree.h"

struct ctx {
    struct tree t;
    struct arena a;
    struct batch b;
};

static int setup(void **state)
{
    struct ctx *c = calloc(1, sizeof(*c));

    assert_non_null(c);
    tree_init(&c->t);
    arena_init(&c->a, 64 << 20);
    c->b.arena = &c->a;
    *state = c;
    return 0;
}

static int teardown(void **state)
{
    struct ctx *c = *state;

    tree_fini(&c->t);
    arena_fini(&c->a);
    free(c);
    return 0;
}

static struct bytes canonical(struct ctx *c, size_t n, Otlp__KeyValue **kv)
{
    struct bytes out;
    size_t count;

    assert_true(attrs_canonical(kv, n, &c->b, &out, &count));
    assert_true(attrs_valid(out));
    return out;
}

/* The one attribute k = v. */
static struct bytes single(struct ctx *c, Otlp__AnyValue *v)
{
    return canonical(c, 1, tree_list(&c->t, 1, tree_kv(&c->t, "k", v)));
}

#define assert_bytes(b, literal)                     \
    do {                                             \
        struct bytes b_ = (b);                       \
        assert_int_equal(b_.n, sizeof(literal) - 1); \
        assert_memory_equal(b_.p, literal, b_.n);    \
    } while (0)

static void writes_each_kind_as_documented(void **state)
{
    struct ctx *c = *state;
    struct tree *t = &c->t;

    assert_bytes(canonical(c, 0, NULL), "\0");
    assert_bytes(single(c, NULL), "\1\1ke");
    assert_bytes(single(c, tree_empty(t)), "\1\1ke");
    assert_bytes(single(c, tree_string(t, "")), "\1\1ks\0");
    assert_bytes(single(c, tree_string(t, "ab")), "\1\1ks\2ab");
    assert_bytes(single(c, tree_bool(t, false)), "\1\1kb\0");
    assert_bytes(single(c, tree_bool(t, true)), "\1\1kb\1");
    assert_bytes(single(c, tree_int(t, 1)), "\1\1ki\0\0\0\0\0\0\0\1");
    assert_bytes(single(c, tree_int(t, INT64_MIN)), "\1\1ki\x80\0\0\0\0\0\0\0");
    assert_bytes(single(c, tree_int(t, -2)), "\1\1ki\xff\xff\xff\xff\xff\xff\xff\xfe");
    assert_bytes(single(c, tree_double(t, 1.0)), "\1\1kd\x3f\xf0\0\0\0\0\0\0");
    assert_bytes(single(c, tree_double(t, -0.0)), "\1\1kd\x80\0\0\0\0\0\0\0");
    assert_bytes(single(c, tree_double(t, INFINITY)), "\1\1kd\x7f\xf0\0\0\0\0\0\0");
    assert_bytes(single(c, tree_blob(t, "\xff\0", 2)), "\1\1ky\2\xff\0");
    assert_bytes(single(c, tree_array(t, 0)), "\1\1ka\0");
    assert_bytes(single(c, tree_array(t, 2, tree_string(t, "b"), tree_empty(t))), "\1\1ka\2s\1be");
    assert_bytes(single(c, tree_kvlist(t, 0)), "\1\1km\0");
    assert_bytes(
        single(c, tree_kvlist(t, 2, tree_kv(t, "z", tree_bool(t, true)), tree_kv(t, "a", NULL))),
        "\1\1km\2\1ae\1zb\1");
}

static void writes_lengths_above_127_as_varints(void **state)
{
    struct ctx *c = *state;
    char text[301];
    struct bytes got;

    memset(text, 'x', 300);
    text[300] = '\0';
    got = single(c, tree_string(&c->t, text));
    assert_int_equal(got.n, 1 + 1 + 1 + 1 + 2 + 300);
    /* 300 = 0b10_0101100 */
    assert_memory_equal(got.p, "\1\1ks\xac\2xxx", 9);
}

static void folds_every_nan_to_one(void **state)
{
    struct ctx *c = *state;
    const uint64_t payloads[] = {UINT64_C(0x7ff0000000000002), UINT64_C(0xfff8000000000000),
                                 UINT64_C(0x7ff8000000000001)};

    for (size_t i = 0; i < 3; i++) {
        double d;

        memcpy(&d, &payloads[i], 8);
        assert_bytes(single(c, tree_double(&c->t, d)), "\1\1kd\x7f\xf8\0\0\0\0\0\0");
    }
}

static void tells_int_double_string_and_bool_apart(void **state)
{
    struct ctx *c = *state;
    struct bytes all[4] = {single(c, tree_int(&c->t, 1)), single(c, tree_double(&c->t, 1.0)),
                           single(c, tree_string(&c->t, "1")), single(c, tree_bool(&c->t, true))};

    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++) {
            assert_false(bytes_equal(all[i], all[j]));
            assert_true(bytes_hash(all[i], 0) != bytes_hash(all[j], 0));
        }
}

static void keeps_nul_inside_text(void **state)
{
    struct ctx *c = *state;
    Otlp__AnyValue *v = tree_string(&c->t, "");
    Otlp__KeyValue *kv = tree_kv(&c->t, "", v);

    v->string_value = tree_bytes(&c->t, "a\0b", 3);
    kv->key = tree_bytes(&c->t, "k\0", 2);
    assert_bytes(canonical(c, 1, &kv), "\1\2k\0s\3a\0b");
}

static void sorts_keys_by_bytes(void **state)
{
    struct ctx *c = *state;
    struct tree *t = &c->t;

    /* Shorter first on a tie; bytes above 0x7f (e acute) last; capitals before small letters. */
    assert_bytes(canonical(c, 4,
                           tree_list(t, 4, tree_kv(t, "\xc3\xa9", NULL), tree_kv(t, "ab", NULL),
                                     tree_kv(t, "B", NULL), tree_kv(t, "a", NULL))),
                 "\4\1Be\1ae\2abe\2\xc3\xa9"
                 "e");
}

static void last_duplicate_wins_and_is_counted(void **state)
{
    struct ctx *c = *state;
    struct tree *t = &c->t;
    struct bytes out;
    size_t count;

    assert_true(attrs_canonical(tree_list(t, 4, tree_kv(t, "k", tree_int(t, 1)),
                                          tree_kv(t, "a", NULL), tree_kv(t, "k", tree_int(t, 2)),
                                          tree_kv(t, "k", tree_bool(t, true))),
                                4, &c->b, &out, &count));
    assert_int_equal(count, 2);
    assert_bytes(out, "\2\1ae\1kb\1");
    assert_int_equal(c->b.warnings[WARN_DUPLICATE_KEY], 2);
    assert_bytes(c->b.warning_example[WARN_DUPLICATE_KEY], "k");
}

static void last_duplicate_wins_inside_a_kvlist_too(void **state)
{
    struct ctx *c = *state;
    struct tree *t = &c->t;

    assert_bytes(single(c, tree_kvlist(t, 2, tree_kv(t, "x", tree_bool(t, true)),
                                       tree_kv(t, "x", tree_bool(t, false)))),
                 "\1\1km\1\1xb\0");
    assert_int_equal(c->b.warnings[WARN_DUPLICATE_KEY], 1);
}

static void drops_an_empty_key_with_a_warning(void **state)
{
    struct ctx *c = *state;
    struct tree *t = &c->t;

    assert_bytes(
        canonical(c, 2, tree_list(t, 2, tree_kv(t, "", tree_int(t, 1)), tree_kv(t, "a", NULL))),
        "\1\1ae");
    assert_int_equal(c->b.warnings[WARN_EMPTY_KEY], 1);
    assert_bytes(canonical(c, 1, tree_list(t, 1, tree_kv(t, "", NULL))), "\0");
}

static void string_indexes_mean_nothing(void **state)
{
    struct ctx *c = *state;
    struct tree *t = &c->t;
    Otlp__KeyValue *by_index = tree_kv(t, "", tree_int(t, 1));
    Otlp__KeyValue *both = tree_kv(t, "both", NULL);
    Otlp__AnyValue *v = tree_empty(t);

    by_index->key_strindex = 3;
    both->key_strindex = 4;
    v->value_case = OTLP__ANY_VALUE__VALUE_STRING_VALUE_STRINDEX;
    v->string_value_strindex = 5;
    assert_bytes(canonical(c, 3, tree_list(t, 3, by_index, both, tree_kv(t, "v", v))),
                 "\2\4bothe\1ve");
    assert_int_equal(c->b.warnings[WARN_STRINDEX], 3);
    assert_int_equal(c->b.warnings[WARN_EMPTY_KEY], 0);
}

static void repairs_text_that_is_not_utf8(void **state)
{
    struct ctx *c = *state;
    struct tree *t = &c->t;

    /* A lone 0xff; a cut three-byte sequence is one maximal subpart. */
    assert_bytes(single(c, tree_string(t, "a\xff"
                                          "b\xe2\x82")),
                 "\1\1ks\10a\xef\xbf\xbd"
                 "b\xef\xbf\xbd");
    assert_int_equal(c->b.warnings[WARN_UTF8], 1);
    assert_bytes(c->b.warning_example[WARN_UTF8], "k");
    assert_bytes(canonical(c, 1, tree_list(t, 1, tree_kv(t, "\x80", NULL))), "\1\3\xef\xbf\xbd"
                                                                             "e");
    assert_int_equal(c->b.warnings[WARN_UTF8], 2);
    /* bytes are not text */
    single(c, tree_blob(t, "\xff", 1));
    assert_int_equal(c->b.warnings[WARN_UTF8], 2);
}

/* Keys that become equal by repair are duplicates like others. */
static void repaired_keys_are_still_unique(void **state)
{
    struct ctx *c = *state;
    struct tree *t = &c->t;

    assert_bytes(canonical(c, 2,
                           tree_list(t, 2, tree_kv(t, "\x80", tree_bool(t, false)),
                                     tree_kv(t, "\x81", tree_bool(t, true)))),
                 "\1\3\xef\xbf\xbd"
                 "b\1");
    assert_int_equal(c->b.warnings[WARN_DUPLICATE_KEY], 1);
}

static uint32_t lcg(uint32_t *s)
{
    *s = *s * 1664525 + 1013904223;
    return *s >> 8;
}

static void shuffle(Otlp__KeyValue **kv, size_t n, uint32_t *s)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = lcg(s) % i;
        Otlp__KeyValue *x = kv[i - 1];

        kv[i - 1] = kv[j];
        kv[j] = x;
    }
}

static void any_order_of_keys_gives_the_same_bytes(void **state)
{
    struct ctx *c = *state;
    struct tree *t = &c->t;
    const size_t sizes[] = {2, 3, 8, 31, 32, 33, 64, 100, 257};
    uint32_t seed = 1;

    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        size_t n = sizes[s];
        Otlp__KeyValue **kv = tree_alloc(t, n * sizeof(*kv));
        Otlp__AnyValue *nest = tree_kvlist(t, 0);
        struct bytes first;

        nest->kvlist_value->n_values = n;
        nest->kvlist_value->values = tree_alloc(t, n * sizeof(*kv));
        for (size_t i = 0; i < n; i++) {
            char key[32];

            snprintf(key, sizeof(key), "k%zu", i);
            kv[i] = tree_kv(t, key, i == 1 ? nest : tree_int(t, (int64_t)i));
            nest->kvlist_value->values[i] = tree_kv(t, key, tree_string(t, key));
        }
        first = canonical(c, n, kv);
        for (int round = 0; round < 20; round++) {
            shuffle(kv, n, &seed);
            shuffle(nest->kvlist_value->values, n, &seed);
            assert_true(bytes_equal(first, canonical(c, n, kv)));
        }
    }
    assert_int_equal(c->b.warnings[WARN_DUPLICATE_KEY], 0);
}

/* With more than a few pairs another sort is used; the last duplicate must win there as well. */
static void last_duplicate_wins_in_a_long_list(void **state)
{
    struct ctx *c = *state;
    struct tree *t = &c->t;
    enum { N = 300, KEYS = 7 };
    Otlp__KeyValue **kv = tree_alloc(t, N * sizeof(*kv));
    int64_t last[KEYS] = {0};
    uint32_t seed = 9;
    struct bytes out;
    size_t count;

    for (int64_t i = 0; i < N; i++) {
        uint32_t k = lcg(&seed) % KEYS;
        char key[2] = {(char)('a' + k), '\0'};

        last[k] = i;
        kv[i] = tree_kv(t, key, tree_int(t, i));
    }
    assert_true(attrs_canonical(kv, N, &c->b, &out, &count));
    assert_int_equal(count, KEYS);
    for (int k = 0; k < KEYS; k++) {
        char key = (char)('a' + k);
        struct attr_value v;

        assert_true(attrs_get(out, bytes_of(&key, 1), &v));
        assert_int_equal(v.kind, ATTR_INT);
        assert_int_equal(v.i, last[k]);
    }
    assert_int_equal(c->b.warnings[WARN_DUPLICATE_KEY], N - KEYS);
}

static void order_inside_an_array_matters(void **state)
{
    struct ctx *c = *state;
    struct tree *t = &c->t;

    assert_false(bytes_equal(single(c, tree_array(t, 2, tree_int(t, 1), tree_int(t, 2))),
                             single(c, tree_array(t, 2, tree_int(t, 2), tree_int(t, 1)))));
}

static Otlp__AnyValue *nested(struct tree *t, int levels)
{
    Otlp__AnyValue *v = tree_int(t, 1);

    for (int i = 1; i < levels; i++)
        v = i % 2 == 0 ? tree_array(t, 1, v) : tree_kvlist(t, 1, tree_kv(t, "n", v));
    return v;
}

static void deep_values_are_read_back_and_deeper_ones_are_cut(void **state)
{
    struct ctx *c = *state;
    struct bytes out;
    struct buf json = {0};
    Otlp__KeyValue *deep = tree_kv(&c->t, "k", nested(&c->t, ATTRS_MAX_DEPTH));
    Otlp__KeyValue *deeper = tree_kv(&c->t, "k", nested(&c->t, 5000));

    assert_int_equal(attrs_canonical_capped(&deep, 1, 10, 1 << 20, &c->b, &out), CANONICAL_OK);
    assert_true(attrs_valid(out));
    assert_int_equal(attrs_canonical_capped(&deeper, 1, 10, 1 << 20, &c->b, &out),
                     CANONICAL_REFUSED);
    out = canonical(c, 1, &deeper);
    attrs_to_json(out, &json);
    assert_false(json.failed);
    buf_fini(&json);
}

static void caps_count_what_is_kept(void **state)
{
    struct ctx *c = *state;
    struct tree *t = &c->t;
    Otlp__KeyValue **kv =
        tree_list(t, 3, tree_kv(t, "a", NULL), tree_kv(t, "b", NULL), tree_kv(t, "b", NULL));
    struct bytes out;

    /* 2 pairs in 1 + 2 * 3 bytes */
    assert_int_equal(attrs_canonical_capped(kv, 3, 2, 7, &c->b, &out), CANONICAL_OK);
    assert_int_equal(out.n, 7);
    assert_int_equal(attrs_canonical_capped(kv, 3, 1, 7, &c->b, &out), CANONICAL_REFUSED);
    assert_int_equal(attrs_canonical_capped(kv, 3, 2, 6, &c->b, &out), CANONICAL_REFUSED);
    assert_int_equal(attrs_canonical_capped(kv, 3, 0, 7, &c->b, &out), CANONICAL_REFUSED);
    assert_int_equal(attrs_canonical_capped(kv, 0, 0, 1, &c->b, &out), CANONICAL_OK);
}

static void says_no_when_the_arena_is_spent(void **state)
{
    struct ctx *c = *state;
    Otlp__KeyValue *kv = tree_kv(&c->t, "key", tree_string(&c->t, "a value of some length"));
    struct arena small;
    struct batch b = {.arena = &small};
    struct bytes out;
    size_t count;

    arena_init(&small, 16);
    assert_false(attrs_canonical(&kv, 1, &b, &out, &count));
    assert_true(small.over_budget);
    assert_int_equal(attrs_canonical_capped(&kv, 1, 9, 99, &b, &out), CANONICAL_NO_MEMORY);
    arena_fini(&small);
}

static void walks_and_finds(void **state)
{
    struct bytes set = bytes_of("\4\1aa\2e\x62\1\1bs\2hi\1ci\xff\xff\xff\xff\xff\xff\xff\xfe\1dd"
                                "\x3f\xf8\0\0\0\0\0\0",
                                36);
    struct attr_iter it;
    struct attr_value v;
    struct bytes k;

    (void)state;
    assert_true(attrs_valid(set));
    attrs_begin(&it, set);
    assert_int_equal(it.left, 4);
    assert_true(attrs_next(&it, &k, &v));
    assert_bytes(k, "a");
    assert_int_equal(v.kind, ATTR_ARRAY);
    {
        struct attr_iter inner;
        struct attr_value x;

        attrs_array_begin(&inner, v.s);
        assert_true(attrs_array_next(&inner, &x));
        assert_int_equal(x.kind, ATTR_EMPTY);
        assert_true(attrs_array_next(&inner, &x));
        assert_int_equal(x.kind, ATTR_BOOL);
        assert_true(x.b);
        assert_false(attrs_array_next(&inner, &x));
        assert_int_equal(inner.left, 0);
    }
    assert_true(attrs_next(&it, &k, &v));
    assert_bytes(v.s, "hi");
    assert_true(attrs_next(&it, &k, &v));
    assert_int_equal(v.i, -2);
    assert_true(attrs_next(&it, &k, &v));
    assert_true(v.d == 1.5);
    assert_false(attrs_next(&it, &k, &v));
    assert_int_equal(it.left, 0);

    assert_true(attrs_get(set, bytes_str("c"), &v));
    assert_int_equal(v.i, -2);
    assert_false(attrs_get(set, bytes_str("bb"), &v));
    assert_false(attrs_get(set, bytes_str("x"), &v));
    assert_false(attrs_get(bytes_of("\0", 1), bytes_str(""), &v));
}

static void refuses_what_is_not_canonical(void **state)
{
    static const struct {
        const char *p;
        size_t n;
    } bad[] = {
        {"", 0},           /* no count */
        {"\1", 1},         /* no pair */
        {"\0\0", 2},       /* bytes behind the end */
        {"\x80\0", 2},     /* a count of 0 in two bytes */
        {"\1\0e", 3},      /* empty key */
        {"\2\1be\1ae", 7}, /* not sorted */
        {"\2\1ae\1ae", 7}, /* not unique */
        {"\1\1\xff"
         "e",
         4},                                                  /* key is not UTF-8 */
        {"\1\1as\1\xff", 6},                                  /* string is not UTF-8 */
        {"\1\1as\x81\0x", 7},                                 /* length 1 in two bytes */
        {"\1\1ab\2", 5},                                      /* bool is 2 */
        {"\1\1ad\xff\xf8\0\0\0\0\0\0", 12},                   /* another NaN */
        {"\1\1ai\0\0\0\0\0\0\0", 11},                         /* cut integer */
        {"\1\1aa\2e", 6},                                     /* cut array */
        {"\1\1am\2\1be\1ae", 11},                             /* kvlist not sorted */
        {"\1\1az", 4},                                        /* unknown kind */
        {"\1\1as\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 14}, /* length 2^64-1 */
        {"\1\1as\xff\xff\xff\xff\xff\xff\xff\xff\xff\2", 14}, /* more than 64 bits */
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\1ae", 13},   /* count 2^64-1 */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (attrs_valid(bytes_of(bad[i].p, bad[i].n)))
            fail_msg("case %zu was taken as valid", i);
}

static void assert_json(struct bytes set, const char *people, const char *otlp)
{
    struct buf b = {0};

    attrs_to_json(set, &b);
    assert_string_equal(buf_cstr(&b), people);
    buf_reset(&b);
    attrs_to_otlp_json(set, &b);
    assert_string_equal(buf_cstr(&b), otlp);
    buf_fini(&b);
}

static void writes_both_json_forms(void **state)
{
    struct ctx *c = *state;
    struct tree *t = &c->t;

    assert_json(canonical(c, 0, NULL), "{}", "[]");
    assert_json(single(c, NULL), "{\"k\":null}", "[{\"key\":\"k\",\"value\":{}}]");
    assert_json(single(c, tree_string(t, "a\"\n")), "{\"k\":\"a\\\"\\n\"}",
                "[{\"key\":\"k\",\"value\":{\"stringValue\":\"a\\\"\\n\"}}]");
    assert_json(single(c, tree_bool(t, false)), "{\"k\":false}",
                "[{\"key\":\"k\",\"value\":{\"boolValue\":false}}]");
    assert_json(single(c, tree_int(t, INT64_MIN)), "{\"k\":-9223372036854775808}",
                "[{\"key\":\"k\",\"value\":{\"intValue\":\"-9223372036854775808\"}}]");
    assert_json(single(c, tree_double(t, 1)), "{\"k\":1.0}",
                "[{\"key\":\"k\",\"value\":{\"doubleValue\":1.0}}]");
    assert_json(single(c, tree_double(t, -0.0)), "{\"k\":-0.0}",
                "[{\"key\":\"k\",\"value\":{\"doubleValue\":-0.0}}]");
    assert_json(single(c, tree_double(t, NAN)), "{\"k\":\"NaN\"}",
                "[{\"key\":\"k\",\"value\":{\"doubleValue\":\"NaN\"}}]");
    assert_json(single(c, tree_double(t, -INFINITY)), "{\"k\":\"-Infinity\"}",
                "[{\"key\":\"k\",\"value\":{\"doubleValue\":\"-Infinity\"}}]");
    assert_json(single(c, tree_blob(t, "\xff\xfe", 2)), "{\"k\":\"//4=\"}",
                "[{\"key\":\"k\",\"value\":{\"bytesValue\":\"//4=\"}}]");
    assert_json(single(c, tree_array(t, 2, tree_int(t, 1), tree_array(t, 0))), "{\"k\":[1,[]]}",
                "[{\"key\":\"k\",\"value\":{\"arrayValue\":{\"values\":[{\"intValue\":\"1\"},"
                "{\"arrayValue\":{\"values\":[]}}]}}}]");
    assert_json(
        single(c,
               tree_kvlist(t, 2, tree_kv(t, "x", tree_int(t, 1)), tree_kv(t, "a", tree_empty(t)))),
        "{\"k\":{\"a\":null,\"x\":1}}",
        "[{\"key\":\"k\",\"value\":{\"kvlistValue\":{\"values\":[{\"key\":\"a\",\"value\":{}"
        "},{\"key\":\"x\",\"value\":{\"intValue\":\"1\"}}]}}}]");
}

static void assert_parses(struct bytes set, void (*write)(struct bytes, struct buf *))
{
    struct buf b = {0};
    json_error_t e;
    json_t *j;

    write(set, &b);
    j = json_loadb((const char *)b.p, b.n, JSON_ALLOW_NUL, &e);
    /* jansson cannot hold such a key; the text is JSON all the same. */
    if (j == NULL && json_error_code(&e) != json_error_null_byte_in_key)
        fail_msg("not JSON: %s: %s", e.text, buf_cstr(&b));
    json_decref(j);
    buf_fini(&b);
}

/* Every prefix, and every byte set to several others: no crash (run under the sanitizers, from heap
 * memory of the exact size), and JSON that parses. */
static void damaged_bytes_are_safe_to_read(void **state)
{
    struct ctx *c = *state;
    struct tree *t = &c->t;
    struct bytes set = canonical(
        c, 5,
        tree_list(t, 5,
                  tree_kv(t, "a",
                          tree_array(t, 3, tree_int(t, 1), tree_string(t, "x"),
                                     tree_kvlist(t, 1, tree_kv(t, "y", NULL)))),
                  tree_kv(t, "b", tree_blob(t, "\1\2\3", 3)), tree_kv(t, "c", tree_bool(t, true)),
                  tree_kv(t, "d", tree_double(t, 2.5)), tree_kv(t, "e", tree_string(t, "text"))));
    const uint8_t other[] = {0, 1, 0x7f, 0x80, 0xff, 's', 'a', 'm', 'd'};

    for (size_t n = 0; n < set.n; n++) {
        uint8_t *cut = malloc(n > 0 ? n : 1);
        struct attr_iter it;
        struct attr_value v;
        struct bytes k;

        assert_non_null(cut);
        memcpy(cut, set.p, n);
        assert_false(attrs_valid(bytes_of(cut, n)));
        assert_parses(bytes_of(cut, n), attrs_to_json);
        assert_parses(bytes_of(cut, n), attrs_to_otlp_json);
        attrs_begin(&it, bytes_of(cut, n));
        while (attrs_next(&it, &k, &v))
            ;
        assert_true(it.left > 0);
        assert_false(attrs_next(&it, &k, &v));
        free(cut);
    }
    for (size_t i = 0; i < set.n; i++)
        for (size_t o = 0; o < sizeof(other); o++) {
            uint8_t *copy = malloc(set.n);
            struct attr_value v;

            assert_non_null(copy);
            memcpy(copy, set.p, set.n);
            copy[i] = other[o];
            (void)attrs_valid(bytes_of(copy, set.n));
            (void)attrs_get(bytes_of(copy, set.n), bytes_str("e"), &v);
            assert_parses(bytes_of(copy, set.n), attrs_to_json);
            assert_parses(bytes_of(copy, set.n), attrs_to_otlp_json);
            free(copy);
        }
}

static void bottomless_stored_nesting_ends(void **state)
{
    enum { N = 200000 };
    uint8_t *deep = malloc(3 + 2 * N);

    (void)state;
    assert_non_null(deep);
    memcpy(deep, "\1\1k", 3);
    for (size_t i = 0; i < N; i++)
        memcpy(deep + 3 + 2 * i, "a\1", 2);
    assert_false(attrs_valid(bytes_of(deep, 3 + 2 * N)));
    assert_parses(bytes_of(deep, 3 + 2 * N), attrs_to_json);
    assert_parses(bytes_of(deep, 3 + 2 * N), attrs_to_otlp_json);
    free(deep);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(writes_each_kind_as_documented),
        TEST(writes_lengths_above_127_as_varints),
        TEST(folds_every_nan_to_one),
        TEST(tells_int_double_string_and_bool_apart),
        TEST(keeps_nul_inside_text),
        TEST(sorts_keys_by_bytes),
        TEST(last_duplicate_wins_and_is_counted),
        TEST(last_duplicate_wins_inside_a_kvlist_too),
        TEST(drops_an_empty_key_with_a_warning),
        TEST(string_indexes_mean_nothing),
        TEST(repairs_text_that_is_not_utf8),
        TEST(repaired_keys_are_still_unique),
        TEST(any_order_of_keys_gives_the_same_bytes),
        TEST(last_duplicate_wins_in_a_long_list),
        TEST(order_inside_an_array_matters),
        TEST(deep_values_are_read_back_and_deeper_ones_are_cut),
        TEST(caps_count_what_is_kept),
        TEST(says_no_when_the_arena_is_spent),
        TEST(walks_and_finds),
        TEST(refuses_what_is_not_canonical),
        TEST(writes_both_json_forms),
        TEST(damaged_bytes_are_safe_to_read),
        TEST(bottomless_stored_nesting_ends),
    };

    return cmocka_run_group_tests_name("attrs", tests, NULL, NULL);
}
