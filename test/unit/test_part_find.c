/* Finding, reading and looking up in parts, against a model that keeps everything and searches it
 * from end to end; and what damage does. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "otlite/stats.h"
#include "parts_fixture.h"
#include "points_fixture.h"
#include "random.h"
#include "store/part.h"
#include "store/store_file.h"
#include "store_fixture.h"

enum { DAYS = 3, SERIES = 40, STARTS = 3, GRID = 60, MAX_PARTS = 400 };

static char *dir;
static struct db w, r;
static struct part_cache *cache;
static struct part_reader *reader, *writers;
static struct otl_error err;

/* Every part there ever was. */
static struct {
    struct fx_part part;
    bool live, dropped;
    bool seen; /* live in the reader's snapshot */
} parts[MAX_PARTS];
static size_t n_parts;

static void must(enum otl_err rc)
{
    if (rc != OTL_OK)
        fail_msg("%s: %s", otl_err_text(rc), err.msg);
}

static void open_all(size_t cache_bytes)
{
    struct store_opts o;

    dir = fx_dir_new();
    o = fx_opts(dir);
    must(store_open_writer(&w, &o, &err));
    must(store_open_reader(&r, &o, &err));
    cache = part_cache_new(cache_bytes);
    assert_non_null(cache);
    must(part_reader_open(&r, cache, &reader, &err));
    must(part_reader_open(&w, cache, &writers, &err));
    n_parts = 0;
}

static void close_all(void)
{
    part_reader_close(reader);
    part_reader_close(writers);
    assert_int_equal(part_cache_bytes(cache), 0);
    part_cache_free(cache);
    db_close(&r);
    db_close(&w);
    fx_dir_free(dir);
    for (size_t i = 0; i < n_parts; i++)
        fx_part_fini(&parts[i].part);
    n_parts = 0;
}

static int setup(void **state)
{
    (void)state;
    open_all(1 << 20);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close_all();
    return 0;
}

/* ---- the model ---- */

static int64_t grid_time(int64_t day, unsigned i)
{
    return day * PART_DAY_NS + (int64_t)i * (PART_DAY_NS / GRID);
}

/* Up to GRID points with keys of a coarse grid, so that parts have many keys in common. */
static void fill(struct series_points *p, int64_t day)
{
    size_t n = 0;
    bool has[GRID][STARTS];

    memset(has, 0, sizeof(has));
    for (unsigned k = 1 + random_below(GRID); k > 0; k--) {
        bool *h = &has[random_below(GRID)][random_below(STARTS)];

        n += !*h;
        *h = true;
    }
    pf_add(p, n, random_below(PF_SHAPES));
    n = 0;
    for (unsigned i = 0; i < GRID; i++) {
        for (unsigned s = 0; s < STARTS; s++) {
            if (!has[i][s])
                continue;
            p->time[n] = grid_time(day, i);
            p->start_time[n++] = s;
        }
    }
}

static struct fx_part *new_part(enum series_kind kind, int64_t day)
{
    assert_true(n_parts < MAX_PARTS);
    parts[n_parts].live = parts[n_parts].dropped = parts[n_parts].seen = false;
    fx_part_init(&parts[n_parts].part, kind, 0, day);
    return &parts[n_parts++].part;
}

static void add_part(enum series_kind kind)
{
    int64_t day = random_below(DAYS);
    struct fx_part *p = new_part(kind, day);
    unsigned one_in = 1 + random_below(4);

    for (int64_t s = 1; s <= SERIES; s++) {
        if (random_below(one_in) == 0)
            fill(fx_part_series(p, s * 3), day);
    }
    if (p->n == 0)
        fill(fx_part_series(p, 3), day);
    fx_part_write(&w, p, 1 + random_below(20), true);
}

static const struct series_points *run_of(const struct fx_part *p, int64_t series_id)
{
    for (size_t i = 0; i < p->n; i++) {
        if (p->runs[i].series_id == series_id)
            return &p->runs[i].points;
    }
    return NULL;
}

static bool find_key(const struct series_points *p, int64_t time, int64_t start, size_t *at)
{
    for (*at = 0; p != NULL && *at < p->n; ++*at) {
        if (p->time[*at] == time && p->start_time[*at] == start)
            return true;
    }
    return false;
}

/* The point of this key that counts: where it is, or NULL. */
static const struct series_points *newest(enum series_kind kind, int64_t series_id, int64_t time,
                                          int64_t start, size_t *at)
{
    const struct series_points *best = NULL;
    int64_t sequence = -1;

    for (size_t i = 0; i < n_parts; i++) {
        const struct series_points *p;
        size_t k;

        if (!parts[i].seen || parts[i].part.info.kind != kind ||
            parts[i].part.info.sequence < sequence)
            continue;
        p = run_of(&parts[i].part, series_id);
        if (find_key(p, time, start, &k)) {
            best = p;
            *at = k;
            sequence = parts[i].part.info.sequence;
        }
    }
    return best;
}

static void see(void)
{
    for (size_t i = 0; i < n_parts; i++)
        parts[i].seen = parts[i].live;
    must(part_reader_refresh(reader, &err));
}

/* ---- comparing ---- */

static bool ref_in_order(const struct chunk_ref *a, const struct chunk_ref *b)
{
    if (a->summary->series_id != b->summary->series_id)
        return a->summary->series_id < b->summary->series_id;
    if (a->summary->min_time != b->summary->min_time)
        return a->summary->min_time < b->summary->min_time;
    return a->sequence <= b->sequence;
}

/* Read refs first to end - 1, of one series, and merge them by sequence, oldest first. */
static void merge_refs(struct part_refs *refs, size_t first, size_t end, int64_t from, int64_t to,
                       struct series_points *out)
{
    size_t n = end - first;
    struct series_points *p = calloc(n, sizeof(*p));
    const struct series_points **sources = calloc(n, sizeof(*sources));
    int64_t last = INT64_MIN;
    size_t done = 0;

    assert_non_null(p);
    assert_non_null(sources);
    while (done < n) {
        int64_t next = INT64_MAX;

        for (size_t i = first; i < end; i++) {
            if (refs->refs[i].sequence > last && refs->refs[i].sequence < next)
                next = refs->refs[i].sequence;
        }
        for (size_t i = first; i < end; i++) {
            if (refs->refs[i].sequence != next)
                continue;
            series_points_init(&p[done], out->kind);
            must(part_read_chunk(reader, refs, i, from, to, &p[done], &err));
            sources[done] = &p[done];
            done++;
        }
        last = next;
    }
    assert_true(series_points_merge(out, sources, n, NULL));
    for (size_t i = 0; i < n; i++)
        series_points_fini(&p[i]);
    free(sources);
    free(p);
}

static void assert_series(enum series_kind kind, int64_t series_id, int64_t from, int64_t to,
                          const struct series_points *got)
{
    size_t n = 0;

    for (int64_t day = 0; day < DAYS; day++) {
        for (unsigned i = 0; i < GRID; i++) {
            int64_t time = grid_time(day, i);

            for (unsigned s = 0; time >= from && time < to && s < STARTS; s++) {
                size_t at;
                const struct series_points *want = newest(kind, series_id, time, s, &at);

                if (want == NULL)
                    continue;
                assert_true(n < got->n);
                assert_true(series_points_equal(got, n, want, at));
                n++;
            }
        }
    }
    assert_int_equal(got->n, n);
}

static void check_find(enum series_kind kind, const int64_t *series, size_t n, int64_t from,
                       int64_t to)
{
    struct part_refs refs = {0};
    struct series_points got;
    size_t i = 0, s = 0;

    must(part_find(reader, kind, 0, series, n, from, to, &refs, &err));
    assert_int_equal(refs.damaged, 0);
    for (size_t k = 0; k < refs.n; k++) {
        const struct chunk_ref *c = &refs.refs[k];

        assert_true(k == 0 || ref_in_order(c - 1, c));
        assert_true(c->summary->max_time >= from && c->summary->min_time < to);
        assert_ptr_equal(c->summary,
                         &part_block_directory(refs.blocks[c->place])->chunks[c->chunk]);
    }
    series_points_init(&got, kind);
    for (int64_t id = 0; id <= 3 * SERIES + 1; id++) {
        size_t end = i;

        if (series != NULL && (s == n || series[s] != id)) {
            assert_true(i == refs.n || refs.refs[i].summary->series_id != id);
            continue;
        }
        s++;
        while (end < refs.n && refs.refs[end].summary->series_id == id)
            end++;
        series_points_reset(&got);
        if (end > i)
            merge_refs(&refs, i, end, from, to, &got);
        assert_series(kind, id, from, to, &got);
        i = end;
    }
    assert_int_equal(i, refs.n);
    series_points_fini(&got);
    part_refs_release(reader, &refs);
}

static int64_t any_time(void)
{
    return grid_time(random_below(DAYS), random_below(GRID)) + (int64_t)random_below(3) - 1;
}

static void check_random_query(enum series_kind kind)
{
    int64_t series[3 * SERIES + 2], from = any_time(), to = any_time();
    unsigned one_in = 1 + random_below(20);
    size_t n = 0;

    for (int64_t id = 0; id <= 3 * SERIES + 1; id++) {
        if (random_below(one_in) == 0)
            series[n++] = id;
    }
    if (random_below(8) == 0) {
        from = INT64_MIN;
        to = INT64_MAX;
    }
    check_find(kind, random_below(4) == 0 ? NULL : series, n, from, to);
}

static void check_random_lookup(enum series_kind kind)
{
    int64_t series_id = random_below(3 * SERIES + 3), start = random_below(STARTS),
            time = any_time();
    const struct series_points *want;
    struct series_points got;
    bool found;
    size_t at;

    series_points_init(&got, kind);
    must(part_lookup(reader, kind, series_id, time, start, &got, &found, &err));
    want = newest(kind, series_id, time, start, &at);
    assert_int_equal(found, want != NULL);
    assert_int_equal(got.n, found);
    if (found)
        assert_true(series_points_equal(&got, 0, want, at));
    series_points_fini(&got);
}

/* ---- what happens to parts ---- */

static void publish_some(void)
{
    for (size_t i = 0; i < n_parts; i++) {
        if (!parts[i].live && !parts[i].dropped && random_below(2) == 0) {
            fx_part_publish(&w, &parts[i].part);
            parts[i].live = true;
        }
    }
}

static void drop_one(void)
{
    size_t i = n_parts == 0 ? 0 : random_below((unsigned)n_parts);

    if (n_parts == 0 || parts[i].dropped)
        return;
    must(part_drop(&w, parts[i].part.info.id, &err));
    parts[i].live = false;
    parts[i].dropped = true;
}

/* Part b takes in part a, its older neighbour, as merging does. */
static void merge_into_new(size_t a, size_t b)
{
    struct fx_part *p;

    if (n_parts == MAX_PARTS)
        return;
    p = new_part(parts[a].part.info.kind, parts[a].part.info.day);
    p->info.sequence = parts[b].part.info.sequence;
    for (int64_t id = 0; id <= 3 * SERIES; id++) {
        const struct series_points *sources[2], *x = run_of(&parts[a].part, id),
                                                *y = run_of(&parts[b].part, id);
        size_t n = 0;

        if (x != NULL)
            sources[n++] = x;
        if (y != NULL)
            sources[n++] = y;
        if (n > 0)
            assert_true(series_points_merge(fx_part_series(p, id), sources, n, NULL));
    }
    must(db_exec(&w, "BEGIN IMMEDIATE", &err));
    fx_part_write(&w, p, 1 + random_below(50), true);
    fx_part_publish(&w, p);
    must(part_drop(&w, parts[a].part.info.id, &err));
    must(part_drop(&w, parts[b].part.info.id, &err));
    must(db_exec(&w, "COMMIT", &err));
    parts[a].live = parts[b].live = false;
    parts[a].dropped = parts[b].dropped = true;
    parts[n_parts - 1].live = true;
}

static void merge_one(void)
{
    for (size_t a = 0; a < n_parts; a++) {
        size_t next = a;

        for (size_t b = 0; b < n_parts && parts[a].live; b++) {
            const struct part_info *x = &parts[a].part.info, *y = &parts[b].part.info;

            if (parts[b].live && y->kind == x->kind && y->day == x->day &&
                y->sequence > x->sequence &&
                (next == a || y->sequence < parts[next].part.info.sequence))
                next = b;
        }
        if (next != a && random_below(3) == 0) {
            merge_into_new(a, next);
            return;
        }
    }
}

static void collect_some(void)
{
    int64_t writing[MAX_PARTS];
    size_t n = 0;
    bool left;

    for (size_t i = 0; i < n_parts; i++) {
        if (!parts[i].live && !parts[i].dropped)
            writing[n++] = parts[i].part.info.id;
    }
    must(part_collect(&w, writing, n, 1 + random_below(20000), &left, &err));
}

static void change(enum series_kind kind)
{
    switch (random_below(6)) {
    case 0:
    case 1:
        if (n_parts < MAX_PARTS)
            add_part(kind);
        break;
    case 2:
        publish_some();
        break;
    case 3:
        drop_one();
        break;
    case 4:
        merge_one();
        break;
    default:
        collect_some();
        break;
    }
}

static void check_all(enum series_kind kind)
{
    for (int k = 0; k < 3; k++)
        check_random_query(kind);
    for (int k = 0; k < 60; k++)
        check_random_lookup(kind);
}

static void run_history(enum series_kind kind, unsigned steps)
{
    open_all(random_below(2) == 0 ? 20000 : 1 << 22);
    for (unsigned i = 0; i < steps; i++) {
        change(kind);
        see();
        check_all(kind);
        if (random_below(4) == 0) {
            /* What others do meanwhile is not seen in a snapshot, and harms nothing in it. */
            must(db_exec(&r, "BEGIN", &err));
            see();
            for (unsigned k = random_below(5); k > 0; k--)
                change(kind);
            must(part_reader_refresh(reader, &err));
            must(part_reader_refresh(writers, &err));
            check_all(kind);
            must(db_exec(&r, "COMMIT", &err));
            see();
        }
    }
    close_all();
}

static void numbers_are_found_as_the_model_has_them(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++)
        run_history(KIND_NUMBER, 25);
}

static void other_kinds_are_found_as_the_model_has_them(void **state)
{
    (void)state;
    for (int k = KIND_NUMBER + 1; k < KIND_EXEMPLAR; k++)
        run_history((enum series_kind)k, 20);
}

static void kinds_and_resolutions_are_apart(void **state)
{
    const struct {
        enum series_kind kind;
        int resolution;
    } which[] = {{KIND_NUMBER, 0},
                 {KIND_HISTOGRAM, 0},
                 {KIND_NUMBER_ROLLUP, 300},
                 {KIND_NUMBER_ROLLUP, 3600}};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct fx_part *p = new_part(which[i].kind, 1);

        p->info.resolution = which[i].resolution;
        fill(fx_part_series(p, (int64_t)i), 1);
        fx_part_write(&w, p, 2048, false);
        fx_part_publish(&w, p);
    }
    must(part_reader_refresh(reader, &err));
    for (size_t i = 0; i < 4; i++) {
        struct part_refs refs = {0};

        must(part_find(reader, which[i].kind, which[i].resolution, NULL, 0, INT64_MIN, INT64_MAX,
                       &refs, &err));
        assert_int_equal(refs.n, 1);
        assert_int_equal(refs.refs[0].summary->series_id, i);
        part_refs_release(reader, &refs);
    }
}

static void empty_queries_find_nothing(void **state)
{
    struct part_refs refs = {0};
    int64_t id = 3;

    (void)state;
    fill(fx_part_series(new_part(KIND_NUMBER, 1), 3), 1);
    fx_part_write(&w, &parts[0].part, 2048, false);
    fx_part_publish(&w, &parts[0].part);
    must(part_reader_refresh(reader, &err));
    must(part_find(reader, KIND_NUMBER, 0, &id, 0, INT64_MIN, INT64_MAX, &refs, &err));
    assert_int_equal(refs.n, 0);
    must(part_find(reader, KIND_NUMBER, 0, &id, 1, 5, 5, &refs, &err));
    assert_int_equal(refs.n, 0);
    must(part_find(reader, KIND_NUMBER, 0, &id, 1, INT64_MIN, INT64_MAX, &refs, &err));
    assert_int_equal(refs.n, 1);
    part_refs_release(reader, &refs);
    part_refs_release(reader, &refs);
}

/* ---- the cache ---- */

/* Ten series of ten thousand random values: much more than the cache holds. */
static void put_large(void)
{
    struct fx_part *p = new_part(KIND_NUMBER, 0);

    for (int64_t s = 0; s < 10; s++) {
        struct series_points *q = fx_part_series(p, s);

        for (int64_t i = 0; i < 10000; i++)
            assert_true(series_points_add_number(q, i, 0, 0, VALUE_INT, (int64_t)random_u64()));
    }
    fx_part_write(&w, p, 1000, false);
    fx_part_publish(&w, p);
    must(part_reader_refresh(reader, &err));
    assert_true(p->info.bytes > 700000);
}

static void what_is_pinned_stays_and_the_rest_is_bounded(void **state)
{
    enum { ROOM = 100000, LISTS = 4096 };
    struct part_refs refs = {0}, again = {0};
    struct bytes first;
    const uint8_t *p;

    (void)state;
    close_all();
    open_all(ROOM);
    put_large();
    must(part_find(reader, KIND_NUMBER, 0, NULL, 0, INT64_MIN, INT64_MAX, &refs, &err));
    assert_int_equal(refs.n, 100);
    for (size_t i = 0; i < refs.n_blocks; i++) {
        assert_int_equal(part_block_bytes(refs.blocks[i]).n, 0);
        must(part_block_load(reader, refs.blocks[i], &err));
    }
    assert_true(part_cache_bytes(cache) > 700000); /* in use */
    first = part_block_bytes(refs.blocks[0]);
    p = first.p;
    must(part_block_load(reader, refs.blocks[0], &err));
    assert_ptr_equal(part_block_bytes(refs.blocks[0]).p, p);
    part_refs_release(reader, &refs);
    assert_true(part_cache_bytes(cache) < ROOM + LISTS);
    /* Directories stay when bytes must go. */
    must(part_find(reader, KIND_NUMBER, 0, NULL, 0, INT64_MIN, INT64_MAX, &again, &err));
    assert_int_equal(again.n, 100);
    part_refs_release(reader, &again);
    assert_true(part_cache_bytes(cache) < ROOM + LISTS);
}

static void directories_are_kept_and_bytes_go_first(void **state)
{
    struct part_refs refs = {0};
    struct chunk_ref first;
    const struct block_directory *d;

    (void)state;
    close_all();
    open_all(200000);
    put_large();
    must(part_find(reader, KIND_NUMBER, 0, NULL, 0, INT64_MIN, INT64_MAX, &refs, &err));
    d = part_block_directory(refs.blocks[0]);
    first = refs.refs[0];
    for (size_t i = 0; i < refs.n_blocks; i++)
        must(part_block_load(reader, refs.blocks[i], &err));
    part_refs_release(reader, &refs);
    must(part_find(reader, KIND_NUMBER, 0, NULL, 0, INT64_MIN, INT64_MAX, &refs, &err));
    assert_ptr_equal(part_block_directory(refs.blocks[0]), d);
    assert_ptr_equal(refs.refs[0].summary, first.summary);
    /* The last ones that were used still have their bytes, the first ones do not. */
    assert_int_equal(part_block_bytes(refs.blocks[0]).n, 0);
    assert_true(part_block_bytes(refs.blocks[refs.n_blocks - 1]).n > 0);
    part_refs_release(reader, &refs);
}

/* Blocks that are held outlive the part and the refresh that no longer has it. */
static void refs_outlive_their_part(void **state)
{
    struct part_refs refs = {0};
    struct series_points out;

    (void)state;
    put_large();
    must(part_find(reader, KIND_NUMBER, 0, NULL, 0, INT64_MIN, INT64_MAX, &refs, &err));
    for (size_t i = 0; i < refs.n_blocks; i++)
        must(part_block_load(reader, refs.blocks[i], &err));
    must(part_drop(&w, parts[0].part.info.id, &err));
    must(part_reader_refresh(reader, &err));
    series_points_init(&out, KIND_NUMBER);
    for (size_t i = 0; i < refs.n; i++)
        must(part_read_chunk(reader, &refs, i, INT64_MIN, INT64_MAX, &out, &err));
    assert_int_equal(out.n, 100000);
    series_points_fini(&out);
    part_refs_release(reader, &refs);
    assert_int_equal(part_cache_bytes(cache), 0);
}

enum { THREADS = 4, ROUNDS = 12 };

struct thread {
    pthread_t thread;
    struct db db;
    uint64_t sum; /* of all values, as often as they were read */
};

static void *read_all(void *arg)
{
    struct thread *t = arg;
    struct part_reader *mine;
    struct otl_error e;
    struct series_points out;

    series_points_init(&out, KIND_NUMBER);
    if (part_reader_open(&t->db, cache, &mine, &e) != OTL_OK)
        return NULL;
    for (int k = 0; k < ROUNDS; k++) {
        struct part_refs refs = {0};

        if (part_reader_refresh(mine, &e) != OTL_OK ||
            part_find(mine, KIND_NUMBER, 0, NULL, 0, INT64_MIN, INT64_MAX, &refs, &e) != OTL_OK)
            break;
        for (size_t i = 0; i < refs.n; i++) {
            series_points_reset(&out);
            if (part_read_chunk(mine, &refs, i, INT64_MIN, INT64_MAX, &out, &e) != OTL_OK)
                break;
            for (size_t j = 0; j < out.n; j++)
                t->sum += (uint64_t)out.fields[NUMBER_VALUE].v[j];
        }
        part_refs_release(mine, &refs);
    }
    part_reader_close(mine);
    series_points_fini(&out);
    return NULL;
}

static void many_threads_read_through_one_cache(void **state)
{
    struct thread t[THREADS];
    struct store_opts o;
    uint64_t sum = 0;

    (void)state;
    close_all();
    open_all(200000);
    put_large();
    o = fx_opts(dir);
    for (size_t i = 0; i < parts[0].part.n; i++) {
        const struct series_points *p = &parts[0].part.runs[i].points;

        for (size_t j = 0; j < p->n; j++)
            sum += (uint64_t)p->fields[NUMBER_VALUE].v[j];
    }
    for (int i = 0; i < THREADS; i++) {
        memset(&t[i], 0, sizeof(t[i]));
        must(store_open_reader(&t[i].db, &o, &err));
        assert_int_equal(pthread_create(&t[i].thread, NULL, read_all, &t[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(t[i].thread, NULL), 0);
        assert_true(t[i].sum == sum * ROUNDS);
        db_close(&t[i].db);
    }
}

/* ---- damage ---- */

/* Three blocks of two chunks: series 0 to 5, of ten points each. */
static void put_three_blocks(void)
{
    struct fx_part *p = new_part(KIND_NUMBER, 0);
    struct block_writer *bw = block_writer_new(KIND_NUMBER);

    assert_non_null(bw);
    must(part_create(&w, &p->info, &err));
    for (int64_t s = 0; s < 6; s++) {
        struct series_points *q = fx_part_series(p, s);

        for (int64_t i = 0; i < 10; i++)
            assert_true(
                series_points_add_number(q, 10 + i, 0, 0, VALUE_INT, (int64_t)random_u64()));
        assert_true(block_writer_add(bw, s, q, 0, q->n));
        if (s % 2 == 1) {
            struct buf data = {0};
            struct block_info info;

            assert_true(block_writer_take(bw, &data, &info));
            must(part_add_block(&w, p->info.id, (uint32_t)(s / 2), &info, buf_bytes(&data), &err));
            buf_fini(&data);
        }
    }
    block_writer_free(bw);
    p->info.blocks = 3;
    p->info.points = 60;
    p->info.min_time = 10;
    p->info.max_time = 19;
    fx_part_publish(&w, p);
}

/* Run "UPDATE block SET what" for one of them. */
static void damage(int number, const char *what)
{
    char sql[400];

    (void)snprintf(sql, sizeof(sql), "UPDATE block SET %s WHERE id = %lld", what,
                   (long long)(parts[0].part.info.id << PART_BLOCK_BITS | number));
    must(db_exec(&w, sql, &err));
}

static void lose(int number)
{
    char sql[80];

    (void)snprintf(sql, sizeof(sql), "DELETE FROM block WHERE id = %lld",
                   (long long)(parts[0].part.info.id << PART_BLOCK_BITS | number));
    must(db_exec(&w, sql, &err));
}

/* Everything that can be read has the points that were put in; series of the bits are there. */
static void assert_left(unsigned series, uint64_t blocks_damaged, uint64_t all_damaged)
{
    uint64_t before = STATS_GET(damaged_chunks), counted;
    struct part_refs refs = {0};
    struct series_points out;
    unsigned seen = 0;

    must(part_reader_refresh(reader, &err));
    must(part_find(reader, KIND_NUMBER, 0, NULL, 0, INT64_MIN, INT64_MAX, &refs, &err));
    assert_int_equal(refs.damaged, blocks_damaged);
    series_points_init(&out, KIND_NUMBER);
    for (size_t i = 0; i < refs.n; i++) {
        int64_t s = refs.refs[i].summary->series_id;
        enum otl_err rc;

        series_points_reset(&out);
        rc = part_read_chunk(reader, &refs, i, INT64_MIN, INT64_MAX, &out, &err);
        if (rc == OTL_ECORRUPT) {
            assert_int_equal(out.n, 0);
            continue;
        }
        must(rc);
        seen |= 1u << s;
        assert_int_equal(out.n, 10);
        for (size_t k = 0; k < 10; k++)
            assert_true(series_points_equal(&out, k, &parts[0].part.runs[s].points, k));
    }
    assert_int_equal(seen, series);
    assert_int_equal(refs.damaged, all_damaged);
    counted = STATS_GET(damaged_chunks) - before;
    assert_true(counted > 0 || all_damaged == 0);
    part_refs_release(reader, &refs);
    /* Looking up takes the same way. */
    for (int64_t s = 0; s < 6; s++) {
        bool found;

        series_points_reset(&out);
        must(part_lookup(reader, KIND_NUMBER, s, 13, 0, &out, &found, &err));
        assert_int_equal(found, series >> s & 1);
    }
    series_points_fini(&out);
}

static void a_sound_part_is_whole(void **state)
{
    (void)state;
    put_three_blocks();
    assert_left(0x3f, 0, 0);
}

static void a_block_that_does_not_open_is_left_out(void **state)
{
    (void)state;
    put_three_blocks();
    damage(1, "data = zeroblob(length(data))");
    assert_left(0x33, 1, 1);
}

static void a_block_of_a_newer_format_is_left_out(void **state)
{
    (void)state;
    put_three_blocks();
    damage(2, "data = CAST(substr(data, 1, 4) || x'63' || substr(data, 6) AS BLOB)");
    assert_left(0x0f, 1, 1);
}

static void a_block_that_was_cut_is_left_out(void **state)
{
    (void)state;
    put_three_blocks();
    damage(0, "data = substr(data, 1, length(data) - 1)");
    assert_left(0x3c, 1, 1);
}

static void an_empty_block_and_one_that_is_no_blob_are_left_out(void **state)
{
    (void)state;
    put_three_blocks();
    damage(0, "data = x''");
    damage(1, "data = 17");
    assert_left(0x30, 2, 2);
}

static void a_chunk_with_a_wrong_checksum_is_left_out(void **state)
{
    (void)state;
    put_three_blocks();
    /* The last byte is of the last chunk's values. */
    damage(1, "data = CAST(substr(data, 1, length(data) - 1) ||"
              " CASE substr(data, -1) WHEN x'00' THEN x'01' ELSE x'00' END AS BLOB)");
    assert_left(0x37, 0, 1);
}

static void rows_that_disagree_with_their_block_are_left_out(void **state)
{
    static const char *const sqls[] = {
        "points = 19", "last_series = 2", "first_series = 1", "min_time = 9", "max_time = 20",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(sqls) / sizeof(sqls[0]); i++) {
        close_all();
        open_all(1 << 20);
        put_three_blocks();
        damage(1, sqls[i]);
        assert_left(0x33, 1, 1);
    }
}

static void a_missing_block_is_told(void **state)
{
    (void)state;
    put_three_blocks();
    lose(1);
    assert_left(0x33, 1, 1);
}

/* Data that goes bad after its directory was read, and data that is gone. */
static void bytes_that_are_gone_are_told(void **state)
{
    struct part_refs refs = {0};
    struct series_points out;

    (void)state;
    put_three_blocks();
    must(part_reader_refresh(reader, &err));
    must(part_find(reader, KIND_NUMBER, 0, NULL, 0, INT64_MIN, INT64_MAX, &refs, &err));
    assert_int_equal(refs.n, 6);
    lose(0);
    damage(1, "data = x'00'");
    series_points_init(&out, KIND_NUMBER);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(part_read_chunk(reader, &refs, i, INT64_MIN, INT64_MAX, &out, &err),
                         OTL_ECORRUPT);
        assert_int_equal(refs.damaged, i + 1);
    }
    must(part_read_chunk(reader, &refs, 4, INT64_MIN, INT64_MAX, &out, &err));
    assert_int_equal(out.n, 10);
    series_points_fini(&out);
    part_refs_release(reader, &refs);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_found_as_the_model_has_them),
        cmocka_unit_test(other_kinds_are_found_as_the_model_has_them),
        TEST(kinds_and_resolutions_are_apart),
        TEST(empty_queries_find_nothing),
        TEST(what_is_pinned_stays_and_the_rest_is_bounded),
        TEST(directories_are_kept_and_bytes_go_first),
        TEST(refs_outlive_their_part),
        TEST(many_threads_read_through_one_cache),
        TEST(a_sound_part_is_whole),
        TEST(a_block_that_does_not_open_is_left_out),
        TEST(a_block_of_a_newer_format_is_left_out),
        TEST(a_block_that_was_cut_is_left_out),
        TEST(an_empty_block_and_one_that_is_no_blob_are_left_out),
        TEST(a_chunk_with_a_wrong_checksum_is_left_out),
        TEST(rows_that_disagree_with_their_block_are_left_out),
        TEST(a_missing_block_is_told),
        TEST(bytes_that_are_gone_are_told),
    };

    return cmocka_run_group_tests_name("part_find", tests, NULL, NULL);
}
