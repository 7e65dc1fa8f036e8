/* The base layer: text codings against published vectors, the arena's limits, the hand-back list.
 */
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "otlite/arena.h"
#include "otlite/bytes.h"
#include "otlite/clock.h"
#include "otlite/handoff.h"
#include "otlite/log.h"
#include "otlite/stats.h"

static void base64_gives_the_vectors_of_rfc_4648(void **state)
{
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"}};

    (void)state;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct buf b = {0};
        uint8_t out[32];
        size_t n = 99;

        buf_add_base64(&b, bytes_str(pairs[i][0]));
        assert_string_equal(buf_cstr(&b), pairs[i][1]);
        assert_true(base64_decode(bytes_str(pairs[i][1]), out, &n));
        assert_true(bytes_equal(bytes_of(out, n), bytes_str(pairs[i][0])));
        buf_fini(&b);
    }
}

static void base64_takes_url_alphabet_and_no_padding_but_no_nonsense(void **state)
{
    static const char *const bad[] = {"A", "AAAAA", "A=AA", "AA=", "====", "AAA*", "AA==AA"};
    uint8_t out[32];
    size_t n;

    (void)state;
    /* 0xfb 0xff: "+/8=" in the standard alphabet. */
    assert_true(base64_decode(bytes_str("-_8"), out, &n));
    assert_int_equal(n, 2);
    assert_int_equal(out[0], 0xfb);
    assert_int_equal(out[1], 0xff);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(base64_decode(bytes_str(bad[i]), out, &n));
}

static void hex_takes_either_case_and_whole_bytes_only(void **state)
{
    uint8_t out[4];

    (void)state;
    assert_true(hex_decode(bytes_str("00fFA5"), out));
    assert_int_equal(out[1], 0xff);
    assert_int_equal(out[2], 0xa5);
    assert_false(hex_decode(bytes_str("0"), out));
    assert_false(hex_decode(bytes_str("0g"), out));
}

static void utf8_is_judged_by_the_unicode_table(void **state)
{
    static const struct {
        const char *s;
        bool ok;
    } c[] = {{"", true},
             {"plain ascii, longer than eight", true},
             {"\xc3\xa9", true},
             {"\xed\x9f\xbf", true},      /* U+D7FF */
             {"\xed\xa0\x80", false},     /* U+D800, a surrogate */
             {"\xc0\x80", false},         /* overlong NUL */
             {"\xe0\x9f\xbf", false},     /* overlong */
             {"\xf4\x8f\xbf\xbf", true},  /* U+10FFFF */
             {"\xf4\x90\x80\x80", false}, /* above */
             {"\xf0\x8f\xbf\xbf", false}, /* overlong */
             {"12345678\xff", false},
             {"\xc3", false}};

    (void)state;
    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++)
        assert_int_equal(utf8_valid(bytes_str(c[i].s)), c[i].ok);
}

static void repair_puts_one_replacement_for_each_maximal_subpart(void **state)
{
    struct buf b = {0};

    (void)state;
    /* The example of the Unicode standard, section 3.9, table 3-11. */
    utf8_repair(&b, bytes_str("\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64"));
    assert_string_equal(buf_cstr(&b), "\x61\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\x62\xef\xbf\xbd\x63"
                                      "\xef\xbf\xbd\xef\xbf\xbd\x64");
    buf_fini(&b);
}

static void json_strings_escape_what_json_asks_for(void **state)
{
    struct buf b = {0};

    (void)state;
    buf_add_json_string(&b, bytes_of("a\"\\\n\x01\0z\xc3\xa9\xff", 10));
    assert_string_equal(buf_cstr(&b), "\"a\\\"\\\\\\n\\u0001\\u0000z\xc3\xa9\xef\xbf\xbd\"");
    buf_fini(&b);
}

/* Each as sqlite3 -csv prints it. */
static void csv_fields_are_quoted_like_the_sqlite_shells(void **state)
{
    static const struct {
        struct bytes in;
        const char *out;
    } c[] = {{{(const uint8_t *)"plain.0-9{}~!", 13}, "plain.0-9{}~!"},
             {{NULL, 0}, "\"\""},
             {{(const uint8_t *)"a,b", 3}, "\"a,b\""},
             {{(const uint8_t *)"\"", 1}, "\"\"\"\""},
             {{(const uint8_t *)"a \"b\"", 5}, "\"a \"\"b\"\"\""},
             {{(const uint8_t *)"it's", 4}, "\"it's\""},
             {{(const uint8_t *)"two words", 9}, "\"two words\""},
             {{(const uint8_t *)"a\nb", 3}, "\"a\nb\""},
             {{(const uint8_t *)"a\r", 2}, "\"a\r\""},
             {{(const uint8_t *)"\x7f", 1}, "\"\x7f\""},
             {{(const uint8_t *)"\xc3\xa9", 2}, "\"\xc3\xa9\""}};

    (void)state;
    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        struct buf b = {0};

        buf_add_csv_field(&b, c[i].in);
        assert_string_equal(buf_cstr(&b), c[i].out);
        buf_fini(&b);
    }
}

static void doubles_read_back_to_the_same_bits(void **state)
{
    static const struct {
        double d;
        const char *text;
    } c[] = {{0.0, "0.0"},
             {-0.0, "-0.0"},
             {1.0, "1.0"},
             {0.1, "0.1"},
             {1e300, "1e+300"},
             {-2.5, "-2.5"},
             {5e-324, "4.94065645841247e-324"},
             {1e15, "1e+15"},
             {123456789012345.0, "123456789012345.0"}};
    uint64_t x = 88172645463325252u;

    (void)state;
    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        struct buf b = {0};

        buf_add_double(&b, c[i].d);
        assert_string_equal(buf_cstr(&b), c[i].text);
        buf_fini(&b);
    }
    for (int i = 0; i < 20000; i++) {
        struct buf b = {0};
        double d, back;

        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        memcpy(&d, &x, sizeof(d));
        if (!isfinite(d))
            continue;
        buf_add_double(&b, d);
        back = strtod(buf_cstr(&b), NULL);
        assert_memory_equal(&back, &d, sizeof(d));
        buf_fini(&b);
    }
}

static void hash_tells_lengths_and_contents_apart(void **state)
{
    static const uint8_t zeros[32];

    (void)state;
    for (size_t n = 0; n < 32; n++) {
        assert_int_equal(bytes_hash(bytes_of(zeros, n), 1), bytes_hash(bytes_of(zeros, n), 1));
        assert_int_not_equal(bytes_hash(bytes_of(zeros, n), 1),
                             bytes_hash(bytes_of(zeros, n + 1), 1));
        assert_int_not_equal(bytes_hash(bytes_of(zeros, n), 1), bytes_hash(bytes_of(zeros, n), 2));
    }
}

static void arena_refuses_what_is_over_its_budget_and_says_so(void **state)
{
    struct arena a;

    (void)state;
    arena_init(&a, 64);
    assert_non_null(arena_alloc(&a, 48));
    assert_false(a.over_budget);
    assert_non_null(arena_alloc(&a, 16));
    assert_null(arena_alloc(&a, 1));
    assert_true(a.over_budget);
    assert_false(a.no_memory);
    arena_reset(&a, 1 << 20);
    assert_false(a.over_budget);
    assert_non_null(arena_alloc(&a, 100000));
    assert_null(arena_zalloc(&a, SIZE_MAX / 2, 4));
    assert_true(a.over_budget);
    arena_fini(&a);
    assert_int_equal(arena_process_bytes(), 0);
}

static void arenas_together_stay_under_the_process_limit(void **state)
{
    struct arena a, b;

    (void)state;
    arena_set_process_limit(100000);
    arena_init(&a, SIZE_MAX / 4);
    arena_init(&b, SIZE_MAX / 4);
    assert_non_null(arena_alloc(&a, 60000));
    assert_null(arena_alloc(&b, 60000));
    assert_true(b.no_memory);
    assert_false(b.over_budget);
    arena_fini(&a);
    assert_non_null(arena_alloc(&b, 60000));
    arena_fini(&b);
    arena_set_process_limit(0);
}

static void arena_pointers_are_aligned_and_disjoint(void **state)
{
    struct arena a;
    uint8_t *last = NULL;

    (void)state;
    arena_init(&a, 1 << 20);
    for (size_t n = 0; n < 200; n++) {
        uint8_t *p = arena_alloc(&a, n);

        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        memset(p, (int)n, n);
        if (last != NULL && n > 1)
            assert_int_equal(last[n - 2], (uint8_t)(n - 1));
        last = p;
    }
    arena_fini(&a);
}

struct counted {
    struct handoff_item item;
    int *order;
    int number;
};

static int next_number;

static void note(struct handoff_item *item)
{
    struct counted *c = (struct counted *)item;

    assert_int_equal(c->number, next_number);
    next_number++;
}

static void *push_all(void *arg)
{
    struct handoff *h = arg;
    static struct counted items[1000];

    for (int i = 0; i < 1000; i++) {
        items[i].item.run = note;
        items[i].number = i;
        handoff_push(h, &items[i].item);
    }
    return NULL;
}

static void handoff_gives_every_item_once_and_in_order(void **state)
{
    struct handoff h;
    pthread_t t;
    unsigned got = 0;

    (void)state;
    next_number = 0;
    assert_int_equal(handoff_init(&h, NULL), OTL_OK);
    assert_int_equal(pthread_create(&t, NULL, push_all, &h), 0);
    while (got < 1000) {
        struct pollfd p = {.fd = h.fd, .events = POLLIN};

        assert_int_equal(poll(&p, 1, 10000), 1);
        got += handoff_drain(&h);
    }
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_int_equal(next_number, 1000);
    handoff_fini(&h);
}

static void handoff_takes_a_chain_as_if_pushed_one_by_one(void **state)
{
    struct counted items[4];
    struct handoff h;
    uint64_t wakes;

    (void)state;
    next_number = 0;
    assert_int_equal(handoff_init(&h, NULL), OTL_OK);
    for (int i = 0; i < 4; i++)
        items[i] = (struct counted){.item = {.run = note}, .number = i};
    items[0].item.next = &items[1].item;
    handoff_push_chain(&h, &items[0].item, &items[1].item);
    handoff_push(&h, &items[2].item);
    handoff_push_chain(&h, &items[3].item, &items[3].item);
    assert_int_equal(read(h.fd, &wakes, sizeof(wakes)), sizeof(wakes));
    assert_int_equal(wakes, 1); /* for all of them */
    assert_int_equal(handoff_drain(&h), 4);
    assert_int_equal(next_number, 4);
    handoff_fini(&h);
}

static void gate_lets_one_line_through_and_counts_the_rest(void **state)
{
    struct log_gate g = {0};
    uint64_t held = 99;

    (void)state;
    assert_true(log_gate_open(&g, 3600 * NS_PER_S, &held));
    assert_int_equal(held, 0);
    assert_false(log_gate_open(&g, 3600 * NS_PER_S, &held));
    assert_false(log_gate_open(&g, 3600 * NS_PER_S, &held));
    g.next_ns = 0;
    assert_true(log_gate_open(&g, 3600 * NS_PER_S, &held));
    assert_int_equal(held, 2);
}

static void errors_keep_context_in_front(void **state)
{
    struct otl_error e;

    (void)state;
    assert_int_equal(otl_fail(&e, OTL_EFULL, "disk %d", 3), OTL_EFULL);
    assert_int_equal(otl_wrap(&e, "writing"), OTL_EFULL);
    assert_string_equal(e.msg, "writing: disk 3");
    /* Everything that passes by itself is retried by senders, everything else is not (H-70). */
    assert_int_equal(otl_err_http(OTL_ELOCKED), 503);
    assert_int_equal(otl_err_http(OTL_EFULL), 503);
    assert_int_equal(otl_err_http(OTL_EBADDATA), 400);
}

static void commit_times_fall_into_cumulative_buckets(void **state)
{
    struct buf b = {0};

    (void)state;
    stats_observe_commit(100 * 1000);    /* 0.1 ms: the first bucket's upper edge is inside */
    stats_observe_commit(2 * NS_PER_MS); /* in le 0.0025 */
    stats_observe_commit(60 * NS_PER_S); /* only +Inf */
    stats_render(&b);
    assert_non_null(strstr(buf_cstr(&b), "otlite_commit_seconds_bucket{le=\"0.0001\"} 1\n"));
    assert_non_null(strstr(buf_cstr(&b), "otlite_commit_seconds_bucket{le=\"0.001\"} 1\n"));
    assert_non_null(strstr(buf_cstr(&b), "otlite_commit_seconds_bucket{le=\"0.0025\"} 2\n"));
    assert_non_null(strstr(buf_cstr(&b), "otlite_commit_seconds_bucket{le=\"5\"} 2\n"));
    assert_non_null(strstr(buf_cstr(&b), "otlite_commit_seconds_bucket{le=\"+Inf\"} 3\n"));
    assert_non_null(strstr(buf_cstr(&b), "otlite_commit_seconds_count 3\n"));
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base64_gives_the_vectors_of_rfc_4648),
        cmocka_unit_test(base64_takes_url_alphabet_and_no_padding_but_no_nonsense),
        cmocka_unit_test(hex_takes_either_case_and_whole_bytes_only),
        cmocka_unit_test(utf8_is_judged_by_the_unicode_table),
        cmocka_unit_test(repair_puts_one_replacement_for_each_maximal_subpart),
        cmocka_unit_test(json_strings_escape_what_json_asks_for),
        cmocka_unit_test(csv_fields_are_quoted_like_the_sqlite_shells),
        cmocka_unit_test(doubles_read_back_to_the_same_bits),
        cmocka_unit_test(hash_tells_lengths_and_contents_apart),
        cmocka_unit_test(arena_refuses_what_is_over_its_budget_and_says_so),
        cmocka_unit_test(arenas_together_stay_under_the_process_limit),
        cmocka_unit_test(arena_pointers_are_aligned_and_disjoint),
        cmocka_unit_test(handoff_gives_every_item_once_and_in_order),
        cmocka_unit_test(handoff_takes_a_chain_as_if_pushed_one_by_one),
        cmocka_unit_test(gate_lets_one_line_through_and_counts_the_rest),
        cmocka_unit_test(errors_keep_context_in_front),
        cmocka_unit_test(commit_times_fall_into_cumulative_buckets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
