/* Tables of parts: writing, making live, dropping, collecting; and what a reader sees of it. Blocks
 * are made-up bytes here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "otlite/stats.h"
#include "store/part.h"
#include "store/part_internal.h"
#include "store/store_file.h"
#include "store_fixture.h"

static char *dir;
static struct db w, r;
static struct part_cache *cache;
static struct part_reader *reader;
static struct otl_error err;

static void must(enum otl_err rc)
{
    if (rc != OTL_OK)
        fail_msg("%s: %s", otl_err_text(rc), err.msg);
}

static int64_t ask(const char *sql)
{
    int64_t v = -1;

    must(db_query_int(&w, sql, &v, &err));
    return v;
}

static int setup(void **state)
{
    struct store_opts o;

    (void)state;
    dir = fx_dir_new();
    o = fx_opts(dir);
    must(store_open_writer(&w, &o, &err));
    must(store_open_reader(&r, &o, &err));
    cache = part_cache_new(1 << 20);
    assert_non_null(cache);
    must(part_reader_open(&r, cache, &reader, &err));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    part_reader_close(reader);
    part_cache_free(cache);
    db_close(&r);
    db_close(&w);
    fx_dir_free(dir);
    return 0;
}

/* A part of `blocks` blocks of 1,000 bytes; block i has series 10 * i to 10 * i + 9. */
static struct part_info put(enum series_kind kind, int64_t day, unsigned blocks)
{
    static const uint8_t data[1000] = {1};
    struct part_info p = {.kind = kind, .day = day};

    must(part_create(&w, &p, &err));
    p.min_time = day * PART_DAY_NS;
    p.max_time = p.min_time + 5;
    for (unsigned i = 0; i < blocks; i++) {
        struct block_info b = {10 * i, 10 * i + 9, p.min_time, p.max_time, 7};

        must(part_add_block(&w, p.id, i, &b, bytes_of(data, sizeof(data)), &err));
    }
    p.points = 7 * blocks;
    p.blocks = blocks;
    p.bytes = 1000 * blocks;
    return p;
}

static size_t live(void)
{
    size_t n;

    must(part_reader_refresh(reader, &err));
    (void)part_reader_parts(reader, &n);
    return n;
}

static void days_are_rounded_down(void **state)
{
    (void)state;
    assert_int_equal(part_day(0), 0);
    assert_int_equal(part_day(PART_DAY_NS - 1), 0);
    assert_int_equal(part_day(PART_DAY_NS), 1);
    assert_int_equal(part_day(-1), -1);
    assert_int_equal(part_day(-PART_DAY_NS), -1);
    assert_int_equal(part_day(-PART_DAY_NS - 1), -2);
}

static void a_part_counts_from_publish_to_drop(void **state)
{
    struct part_info p = put(KIND_HISTOGRAM, 3, 2), again;
    const struct part_info *seen;
    size_t n;

    (void)state;
    assert_int_equal(live(), 0);
    must(part_publish(&w, &p, &err));
    assert_int_equal(live(), 1);
    seen = part_reader_parts(reader, &n);
    assert_int_equal(seen->id, p.id);
    assert_int_equal(seen->kind, KIND_HISTOGRAM);
    assert_int_equal(seen->resolution, 0);
    assert_int_equal(seen->day, 3);
    assert_int_equal(seen->sequence, 1);
    assert_int_equal(seen->min_time, 3 * PART_DAY_NS);
    assert_int_equal(seen->max_time, 3 * PART_DAY_NS + 5);
    assert_int_equal(seen->points, 14);
    assert_int_equal(seen->blocks, 2);
    assert_int_equal(seen->bytes, 2000);
    assert_int_equal(part_publish(&w, &p, &err), OTL_EINTERNAL);
    must(part_drop(&w, p.id, &err));
    assert_int_equal(live(), 0);
    assert_int_equal(part_drop(&w, p.id, &err), OTL_EINTERNAL);
    assert_int_equal(part_publish(&w, &p, &err), OTL_EINTERNAL);
    again = put(KIND_HISTOGRAM, 3, 1);
    assert_true(again.id > p.id);
}

static void ids_are_not_used_twice(void **state)
{
    struct part_info a = put(KIND_NUMBER, 1, 1), b;
    bool left;

    (void)state;
    must(part_publish(&w, &a, &err));
    must(part_drop(&w, a.id, &err));
    must(part_collect(&w, NULL, 0, 1 << 20, &left, &err));
    assert_int_equal(ask("SELECT count(*) FROM part"), 0);
    b = put(KIND_NUMBER, 1, 1);
    assert_true(b.id > a.id);
}

static void sequences_are_of_kind_resolution_and_day(void **state)
{
    struct part_info a = put(KIND_NUMBER, 1, 0), b = put(KIND_NUMBER, 1, 0),
                     c = put(KIND_NUMBER, 2, 0), d = put(KIND_SUMMARY, 1, 0),
                     e = {.kind = KIND_NUMBER, .day = 1, .sequence = 2},
                     f = {.kind = KIND_NUMBER, .day = 1, .resolution = 300};

    (void)state;
    must(part_create(&w, &e, &err));
    must(part_create(&w, &f, &err));
    assert_int_equal(a.sequence, 1);
    assert_int_equal(b.sequence, 2);
    assert_int_equal(c.sequence, 1);
    assert_int_equal(d.sequence, 1);
    assert_int_equal(e.sequence, 2); /* of a merge: as told */
    assert_int_equal(f.sequence, 1);
}

static void parts_are_seen_in_order(void **state)
{
    struct part_info p[5] = {put(KIND_SUMMARY, 1, 0),
                             put(KIND_NUMBER, 2, 0),
                             put(KIND_NUMBER, 1, 0),
                             put(KIND_NUMBER, 1, 0),
                             {.kind = KIND_NUMBER, .day = -1, .resolution = 300}};
    const size_t order[5] = {2, 3, 1, 4, 0};
    const struct part_info *seen;
    size_t n;

    (void)state;
    must(part_create(&w, &p[4], &err));
    p[4].min_time = p[4].max_time = -1;
    for (int i = 0; i < 5; i++)
        must(part_publish(&w, &p[i], &err));
    assert_int_equal(live(), 5);
    seen = part_reader_parts(reader, &n);
    for (int i = 0; i < 5; i++)
        assert_int_equal(seen[i].id, p[order[i]].id);
}

static void a_snapshot_keeps_its_parts(void **state)
{
    struct part_info a = put(KIND_NUMBER, 1, 1), b = put(KIND_NUMBER, 2, 1);

    (void)state;
    must(part_publish(&w, &a, &err));
    must(db_exec(&r, "BEGIN", &err));
    assert_int_equal(live(), 1);
    must(db_exec(&w, "BEGIN IMMEDIATE", &err));
    must(part_publish(&w, &b, &err));
    must(part_drop(&w, a.id, &err));
    must(db_exec(&w, "COMMIT", &err));
    assert_int_equal(live(), 1);
    must(db_exec(&r, "COMMIT", &err));
    assert_int_equal(live(), 1);
    {
        size_t n;

        assert_int_equal(part_reader_parts(reader, &n)->id, b.id);
    }
}

/* The number that a refresh compares changes with every change of the live set, and with no other.
 */
static void the_generation_tells_of_changes(void **state)
{
    static const char N[] = "SELECT n FROM part_generation";
    int64_t n = ask(N);
    struct part_info a = put(KIND_NUMBER, 1, 3), b = put(KIND_NUMBER, 1, 1);
    bool left;

    (void)state;
    assert_int_equal(ask(N), n);
    must(part_publish(&w, &a, &err));
    assert_int_equal(ask(N), n + 1);
    must(part_drop(&w, b.id, &err));
    assert_int_equal(ask(N), n + 1);
    must(part_drop(&w, a.id, &err));
    assert_int_equal(ask(N), n + 2);
    must(part_collect(&w, NULL, 0, 1 << 20, &left, &err));
    assert_int_equal(ask(N), n + 2);
    /* What others do with the table is seen as well. */
    must(db_exec(&w, "INSERT INTO part VALUES (99, 'number', 0, 0, 1, 1, 0, 0, 0, 0, 0)", &err));
    assert_int_equal(ask(N), n + 3);
    assert_int_equal(live(), 1);
    must(db_exec(&w, "DELETE FROM part", &err));
    assert_int_equal(ask(N), n + 4);
    assert_int_equal(live(), 0);
}

static void garbage_goes_in_steps(void **state)
{
    struct part_info a = put(KIND_NUMBER, 1, 10), b = put(KIND_NUMBER, 2, 4),
                     c = put(KIND_NUMBER, 3, 3), d = put(KIND_NUMBER, 4, 2);
    bool left = true;

    (void)state;
    assert_int_equal(c.blocks, 3);
    must(part_publish(&w, &a, &err));
    must(part_publish(&w, &b, &err));
    must(part_drop(&w, a.id, &err));
    /* a is dropped, b live, c left by a crash, d being written */
    for (int step = 1; step <= 3; step++) {
        must(part_collect(&w, &d.id, 1, 3000, &left, &err));
        assert_true(left);
        assert_int_equal(ask("SELECT count(*) FROM block"), 19 - 3 * step);
        assert_int_equal(ask("SELECT count(*) FROM part"), 4);
    }
    must(part_collect(&w, &d.id, 1, 3000, &left, &err)); /* the last of a, two of c */
    assert_true(left);
    assert_int_equal(ask("SELECT count(*) FROM block"), 7);
    assert_int_equal(ask("SELECT count(*) FROM part"), 3);
    must(part_collect(&w, &d.id, 1, 3000, &left, &err));
    assert_false(left);
    assert_int_equal(ask("SELECT count(*) FROM block WHERE id >> 24 = (SELECT min(id) FROM part)"),
                     b.blocks);
    assert_int_equal(ask("SELECT count(*) FROM block"), b.blocks + d.blocks);
    assert_int_equal(ask("SELECT count(*) FROM part"), 2);
    must(part_collect(&w, &d.id, 1, 3000, &left, &err));
    assert_false(left);
    assert_int_equal(ask("SELECT count(*) FROM block"), b.blocks + d.blocks);
    /* After a crash nobody writes it any more. A step deletes a block at least. */
    must(part_collect(&w, NULL, 0, 0, &left, &err));
    assert_true(left);
    assert_int_equal(ask("SELECT count(*) FROM block"), b.blocks + d.blocks - 1);
    must(part_collect(&w, NULL, 0, 1 << 20, &left, &err));
    assert_false(left);
    assert_int_equal(ask("SELECT count(*) FROM block"), b.blocks);
}

static void a_part_has_only_so_many_blocks(void **state)
{
    struct part_info p = put(KIND_NUMBER, 1, 0);
    struct block_info b = {1, 1, 0, 0, 1};

    (void)state;
    assert_int_equal(part_add_block(&w, p.id, 1 << PART_BLOCK_BITS, &b, bytes_str("x"), &err),
                     OTL_EINTERNAL);
    must(part_add_block(&w, p.id, (1 << PART_BLOCK_BITS) - 1, &b, bytes_str("x"), &err));
    must(db_exec(&w, "UPDATE sqlite_sequence SET seq = 1 << 40 WHERE name = 'part'", &err));
    p = (struct part_info){.kind = KIND_NUMBER};
    assert_int_equal(part_create(&w, &p, &err), OTL_ECORRUPT);
    assert_int_equal(p.id, 0);
}

static void a_part_of_unknown_kind_is_told_and_left_out(void **state)
{
    struct part_info p = put(KIND_NUMBER, 1, 1);
    uint64_t before = STATS_GET(damaged_chunks);

    (void)state;
    must(part_publish(&w, &p, &err));
    must(db_exec(&w, "INSERT INTO part VALUES (98, 'hologram', 0, 1, 1, 1, 0, 0, 0, 0, 0)", &err));
    must(db_exec(&w, "INSERT INTO part VALUES (97, 'number', 0, 9, 1, 1, 0, 0, 0, 0, 0)", &err));
    must(db_exec(&w, "INSERT INTO part VALUES (-2, 'number', 0, 0, 1, 1, 0, 0, 0, 0, 0)", &err));
    assert_int_equal(live(), 1);
    assert_int_equal(STATS_GET(damaged_chunks), before + 3);
}

static void a_missing_generation_is_damage(void **state)
{
    (void)state;
    must(db_exec(&w, "DELETE FROM part_generation", &err));
    assert_int_equal(part_reader_refresh(reader, &err), OTL_ECORRUPT);
}

/* The list of the only part, with how many of its blocks are damaged. */
static uint32_t list_of(struct part_reader *of, uint64_t *damaged)
{
    struct part_list *l;
    size_t n;

    must(part_reader_refresh(of, &err));
    (void)part_reader_parts(of, &n);
    assert_int_equal(n, 1);
    must(part_reader_list(of, 0, &l, &err));
    for (uint32_t i = 0; i < l->n; i++) {
        assert_int_equal(l->rows[i].first_series, 10 * l->rows[i].number);
        assert_int_equal(l->rows[i].last_series, 10 * l->rows[i].number + 9);
    }
    *damaged = l->damaged;
    return l->n;
}

static void rows_that_are_missing_or_wrong_are_told_and_left_out(void **state)
{
    struct part_info p = put(KIND_NUMBER, 1, 8);
    uint64_t damaged, before = STATS_GET(damaged_chunks);

    (void)state;
    p.blocks = 10; /* 8 and 9 are missing */
    must(part_publish(&w, &p, &err));
    must(db_exec(&w, "DELETE FROM block WHERE id & 0xffffff IN (2, 3)", &err));
    must(db_exec(&w, "UPDATE block SET last_series = 0 WHERE id & 0xffffff = 5", &err));
    must(db_exec(&w, "UPDATE block SET max_time = 0 WHERE id & 0xffffff = 6", &err));
    assert_int_equal(list_of(reader, &damaged), 4);
    assert_int_equal(damaged, 6);
    assert_int_equal(STATS_GET(damaged_chunks), before + 4); /* messages: 2-3, 5, 6, 8-9 */
}

static void more_rows_than_told_are_read_and_told(void **state)
{
    struct part_info p = put(KIND_NUMBER, 1, 8);
    uint64_t damaged;

    (void)state;
    p.blocks = 7;
    must(part_publish(&w, &p, &err));
    assert_int_equal(list_of(reader, &damaged), 8);
    assert_int_equal(damaged, 1);
}

/* Lists are the cache's: one for all readers, gone with the last one that has the part live. */
static void lists_live_as_long_as_a_reader_needs_them(void **state)
{
    struct part_info p = put(KIND_NUMBER, 1, 5);
    struct part_reader *other;
    struct part_list *l, *m;
    uint64_t damaged;

    (void)state;
    must(part_publish(&w, &p, &err));
    must(part_reader_open(&w, cache, &other, &err));
    assert_int_equal(list_of(reader, &damaged), 5);
    assert_int_equal(list_of(other, &damaged), 5);
    must(part_reader_list(reader, 0, &l, &err));
    must(part_reader_list(other, 0, &m, &err));
    assert_ptr_equal(l, m);
    assert_true(part_cache_bytes(cache) > 0);
    must(part_drop(&w, p.id, &err));
    assert_int_equal(live(), 0);
    assert_true(part_cache_bytes(cache) > 0);
    part_reader_close(other);
    assert_int_equal(part_cache_bytes(cache), 0);
}

static void seeks_find_the_first_block_of_a_series(void **state)
{
    enum { N = 50 };
    struct part_list *l = part_list_new(1, KIND_NUMBER);

    (void)state;
    assert_non_null(l);
    for (uint32_t i = 0; i < N; i++) {
        struct block_row row = {.number = i, .first_series = 4 * i, .last_series = 4 * i + 1};

        assert_true(part_list_add(l, &row));
    }
    for (uint32_t from = 0; from <= N; from++) {
        for (int64_t s = -2; s < 4 * N + 2; s++) {
            uint32_t want = from;

            while (want < N && l->rows[want].last_series < s)
                want++;
            assert_int_equal(part_list_seek(l, from, s), want);
        }
    }
    part_list_free(l);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(days_are_rounded_down),
        TEST(a_part_counts_from_publish_to_drop),
        TEST(ids_are_not_used_twice),
        TEST(sequences_are_of_kind_resolution_and_day),
        TEST(parts_are_seen_in_order),
        TEST(a_snapshot_keeps_its_parts),
        TEST(the_generation_tells_of_changes),
        TEST(garbage_goes_in_steps),
        TEST(a_part_has_only_so_many_blocks),
        TEST(a_part_of_unknown_kind_is_told_and_left_out),
        TEST(a_missing_generation_is_damage),
        TEST(rows_that_are_missing_or_wrong_are_told_and_left_out),
        TEST(more_rows_than_told_are_read_and_told),
        TEST(lists_live_as_long_as_a_reader_needs_them),
        cmocka_unit_test(seeks_find_the_first_block_of_a_series),
    };

    return cmocka_run_group_tests_name("part", tests, NULL, NULL);
}
