/* Blocks: points of every kind and look there and back, what the directory says against a naive
 * model, streams that are stored once, sizes, and damage of every byte. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "points_fixture.h"
#include "random.h"
#include "store/block_internal.h"
#include "store/rollup.h"

static struct otl_error err;

static int64_t bits_of(double d)
{
    int64_t v;

    memcpy(&v, &d, sizeof(v));
    return v;
}

static double double_of(int64_t bits)
{
    double d;

    memcpy(&d, &bits, sizeof(d));
    return d;
}

/* A block being made, with what was put in. */
struct made {
    struct block_writer *w;
    uint32_t n;
    int64_t series[BLOCK_MAX_CHUNKS];
    struct series_points points[BLOCK_MAX_CHUNKS];
    struct buf bytes;
    struct block_info info;
    struct block_directory d;
};

static void begin(struct made *m, enum series_kind kind)
{
    memset(m, 0, sizeof(*m));
    m->w = block_writer_new(kind);
    assert_non_null(m->w);
}

static struct series_points *next_chunk(struct made *m, enum series_kind kind)
{
    assert_true(m->n < BLOCK_MAX_CHUNKS);
    series_points_init(&m->points[m->n], kind);
    return &m->points[m->n];
}

/* The points of next_chunk are there now. */
static void put(struct made *m, int64_t series_id)
{
    struct series_points *p = &m->points[m->n];

    assert_true(block_writer_add(m->w, series_id, p, 0, p->n));
    m->series[m->n++] = series_id;
}

static void finish(struct made *m)
{
    assert_int_equal(block_writer_chunks(m->w), m->n);
    assert_true(block_writer_take(m->w, &m->bytes, &m->info));
    assert_int_equal(block_writer_chunks(m->w), 0);
    assert_int_equal(block_directory_open(buf_bytes(&m->bytes), &m->d, &err), OTL_OK);
}

static void end(struct made *m)
{
    for (uint32_t i = 0; i < m->n; i++)
        series_points_fini(&m->points[i]);
    block_directory_fini(&m->d);
    buf_fini(&m->bytes);
    block_writer_free(m->w);
}

static void fault_is_one(void *arg, const char *what)
{
    (void)arg;
    fail_msg("a sound block is said to be damaged: %s", what);
}

/* Reading gives the points that were put in, all of them and those of a range, behind others. */
static void assert_reads_back(struct made *m)
{
    struct chunk_memo *memo = calloc(1, sizeof(*memo));
    struct series_points out;

    assert_non_null(memo);

    assert_int_equal(m->d.n, m->n);
    series_points_init(&out, m->d.kind);
    for (uint32_t i = 0; i < m->n; i++) {
        const struct series_points *p = &m->points[i];
        size_t low = random_below((unsigned)p->n),
               high = low + random_below((unsigned)(p->n - low));
        size_t before = out.n;

        assert_int_equal(m->d.chunks[i].series_id, m->series[i]);
        assert_int_equal(m->d.chunks[i].n, p->n);
        assert_int_equal(m->d.chunks[i].min_time, p->time[0]);
        assert_int_equal(m->d.chunks[i].max_time, p->time[p->n - 1]);
        assert_int_equal(
            block_read_chunk(buf_bytes(&m->bytes), &m->d, i, INT64_MIN, INT64_MAX, &out, &err),
            OTL_OK);
        assert_int_equal(out.n, before + p->n);
        for (size_t k = 0; k < p->n; k++)
            assert_true(series_points_equal(&out, before + k, p, k));
        before = out.n;
        assert_int_equal(block_read_chunk(buf_bytes(&m->bytes), &m->d, i, p->time[low],
                                          p->time[high], &out, &err),
                         OTL_OK);
        assert_int_equal(out.n, before + high - low);
        for (size_t k = low; k < high; k++)
            assert_true(series_points_equal(&out, before + k - low, p, k));
        /* One after the other, but for some: the same points. */
        before = out.n;
        if (random_below(8) == 0)
            continue;
        assert_int_equal(
            block_read_next(buf_bytes(&m->bytes), &m->d, i, INT64_MIN, INT64_MAX, memo, &out, &err),
            OTL_OK);
        assert_int_equal(out.n, before + p->n);
        for (size_t k = 0; k < p->n; k++)
            assert_true(series_points_equal(&out, before + k, p, k));
        if (random_below(4) == 0)
            series_points_reset(&out);
    }
    free(memo);
    series_points_fini(&out);
    assert_int_equal(block_verify(buf_bytes(&m->bytes), fault_is_one, NULL), 0);
}

static void every_kind_and_look(void **state)
{
    (void)state;
    for (int kind = 0; kind < SERIES_KINDS; kind++) {
        for (unsigned round = 0; round < 2; round++) {
            struct made *m = calloc(1, sizeof(*m));
            uint64_t points = 0;
            int64_t min_time = INT64_MAX, max_time = INT64_MIN;

            begin(m, (enum series_kind)kind);
            for (unsigned i = 0; i < 3 * PF_SHAPES; i++) {
                struct series_points *p = next_chunk(m, (enum series_kind)kind);
                size_t n = i == 5       ? CHUNK_MAX_POINTS
                           : i % 7 == 0 ? 1 + i / 7
                                        : 1 + random_below(300);

                pf_add(p, n, i);
                points += n;
                if (p->time[0] < min_time)
                    min_time = p->time[0];
                if (p->time[n - 1] > max_time)
                    max_time = p->time[n - 1];
                put(m, round == 0 ? i : INT64_MIN + 1000 * (int64_t)i);
            }
            finish(m);
            assert_int_equal(m->info.points, points);
            assert_int_equal(m->info.min_time, min_time);
            assert_int_equal(m->info.max_time, max_time);
            assert_int_equal(m->info.first_series, m->series[0]);
            assert_int_equal(m->info.last_series, m->series[m->n - 1]);
            assert_int_equal(block_head_bytes(bytes_of(m->bytes.p, 64)), m->d.streams_at);
            assert_reads_back(m);
            for (uint32_t i = 0; i < m->n; i++) {
                assert_int_equal(block_directory_find(&m->d, m->series[i]), i);
                assert_int_equal(block_directory_find(&m->d, m->series[i] + 1), i + 1);
            }
            end(m);
            free(m);
        }
    }
}

/* ---- the summary ---- */

/* What the directory is to say of a chunk of numbers: written down apart, from the comments of
 * block.h, in long double and with a list of the values that count. */
static void model_summary(const struct series_points *p, struct chunk_summary *s)
{
    const struct field_column *f = &p->fields[NUMBER_VALUE];
    size_t values[CHUNK_MAX_POINTS], n = 0;

    memset(s, 0, sizeof(*s));
    for (size_t i = 0; i < p->n; i++) {
        bool valued = f->kind[i] != VALUE_NONE && (p->flags[i] & 1) == 0;

        if (valued && s->first_kind == VALUE_NONE) {
            s->first_kind = (enum value_kind)f->kind[i];
            s->first = f->v[i];
            s->first_value_time = p->time[i];
            s->first_value_start = p->start_time[i];
        }
        if (valued) {
            s->last_kind = (enum value_kind)f->kind[i];
            s->last = f->v[i];
            s->last_value_time = p->time[i];
        }
        if (valued && f->kind[i] == VALUE_DOUBLE && isnan(double_of(f->v[i])))
            s->n_nan++;
        else if (valued)
            values[n++] = i;
    }
    s->n_values = (uint32_t)n;
    for (size_t k = 0; k < n; k++) {
        size_t i = values[k];
        bool is_int = f->kind[i] == VALUE_INT;
        double v = is_int ? (double)f->v[i] : double_of(f->v[i]);

        s->sum += v;
        s->min = k == 0 || v < s->min ? v : s->min;
        s->max = k == 0 || v > s->max ? v : s->max;
        if (k > 0) {
            size_t b = values[k - 1];
            bool both = is_int && f->kind[b] == VALUE_INT;
            double before = f->kind[b] == VALUE_INT ? (double)f->v[b] : double_of(f->v[b]);
            bool reset = p->start_time[i] > p->time[b] || (both ? f->v[i] < f->v[b] : v < before);
            __extension__ __int128 exact = (__int128)f->v[i] - f->v[b];

            if (reset)
                s->increase += v;
            else if (both && exact <= INT64_MAX)
                s->increase += (double)(int64_t)exact;
            else
                s->increase += v - before;
        }
    }
}

static void assert_same_double(double a, double b)
{
    if (isnan(a) && isnan(b))
        return;
    assert_int_equal(bits_of(a), bits_of(b));
}

static void assert_summary(const struct chunk_summary *is, const struct chunk_summary *want)
{
    assert_int_equal(is->n_values, want->n_values);
    assert_int_equal(is->n_nan, want->n_nan);
    assert_same_double(is->sum, want->sum);
    assert_same_double(is->min, want->min);
    assert_same_double(is->max, want->max);
    assert_int_equal(is->first_kind, want->first_kind);
    assert_int_equal(is->last_kind, want->last_kind);
    assert_int_equal(is->first, want->first);
    assert_int_equal(is->last, want->last);
    assert_int_equal(is->first_value_time, want->first_value_time);
    assert_int_equal(is->last_value_time, want->last_value_time);
    assert_int_equal(is->first_value_start, want->first_value_start);
    assert_same_double(is->increase, want->increase);
}

static void summaries_are_the_models(void **state)
{
    struct made *m;

    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        m = calloc(1, sizeof(*m));
        begin(m, KIND_NUMBER);
        for (unsigned i = 0; i < 2 * PF_SHAPES; i++) {
            pf_add(next_chunk(m, KIND_NUMBER), 1 + random_below(60), i);
            put(m, i);
        }
        finish(m);
        for (uint32_t i = 0; i < m->n; i++) {
            struct chunk_summary want;

            model_summary(&m->points[i], &want);
            assert_summary(&m->d.chunks[i], &want);
        }
        end(m);
        free(m);
    }
}

static void add_int(struct series_points *p, int64_t time, int64_t start, int64_t v)
{
    assert_true(series_points_add_number(p, time, start, 0, VALUE_INT, v));
}

static void add_double(struct series_points *p, int64_t time, int64_t start, double v)
{
    assert_true(series_points_add_number(p, time, start, 0, VALUE_DOUBLE, bits_of(v)));
}

/* By hand. */
static void summary_of_a_counter_that_is_reset(void **state)
{
    struct made *m = calloc(1, sizeof(*m));
    struct series_points *p;
    const struct chunk_summary *c;

    (void)state;
    begin(m, KIND_NUMBER);
    p = next_chunk(m, KIND_NUMBER);
    assert_true(series_points_add_number(p, 5, 1, 1, VALUE_NONE, 0)); /* no recorded value */
    add_int(p, 10, 1, 100);
    add_int(p, 20, 1, 130);            /* + 30 */
    add_int(p, 30, 1, 7);              /* less: + 7 */
    add_double(p, 40, 1, (double)NAN); /* not in the increase */
    add_int(p, 50, 1, 9);              /* + 2, over the NaN */
    add_int(p, 60, 55, 20);            /* began after the one before: + 20 */
    add_int(p, 70, 60, 25);            /* began at its time, not after: + 5 */
    assert_true(series_points_add_number(p, 80, 1, 1, VALUE_NONE, 0));
    put(m, 2);
    /* Integers beyond 2^53 are taken from each other before they become doubles. */
    p = next_chunk(m, KIND_NUMBER);
    add_int(p, 10, 1, INT64_C(9007199254740993));
    add_int(p, 20, 1, INT64_C(9007199254740996));
    put(m, 3);
    /* Begins and ends with integers, and its least is -0.0. */
    p = next_chunk(m, KIND_NUMBER);
    add_int(p, 10, 1, 5);
    add_double(p, 20, 1, -0.0);
    add_int(p, 30, 1, 6);
    put(m, 4);
    /* Nothing but NaN; and nothing at all. */
    p = next_chunk(m, KIND_NUMBER);
    add_double(p, 10, 2, (double)NAN);
    put(m, 5);
    p = next_chunk(m, KIND_NUMBER);
    assert_true(series_points_add_number(p, 10, 2, 1, VALUE_NONE, 0));
    put(m, 6);
    finish(m);

    c = &m->d.chunks[0];
    assert_int_equal(c->n, 9);
    assert_int_equal(c->min_time, 5);
    assert_int_equal(c->max_time, 80);
    assert_int_equal(c->n_values, 6);
    assert_int_equal(c->n_nan, 1);
    assert_same_double(c->sum, 100 + 130 + 7 + 9 + 20 + 25);
    assert_same_double(c->min, 7);
    assert_same_double(c->max, 130);
    assert_int_equal(c->first_kind, VALUE_INT);
    assert_int_equal(c->first, 100);
    assert_int_equal(c->last, 25);
    assert_int_equal(c->first_value_time, 10);
    assert_int_equal(c->last_value_time, 70);
    assert_int_equal(c->first_value_start, 1);
    assert_same_double(c->increase, 30 + 7 + 2 + 20 + 5);

    c = &m->d.chunks[1];
    assert_same_double(c->increase, 3);

    c = &m->d.chunks[2];
    assert_same_double(c->min, -0.0);
    assert_same_double(c->max, 6);
    assert_same_double(c->increase, 6); /* less: + -0.0; then + 6 */

    c = &m->d.chunks[3];
    assert_int_equal(c->n_values, 0);
    assert_int_equal(c->n_nan, 1);
    assert_int_equal(c->first_kind, VALUE_DOUBLE);
    assert_int_equal(c->first, bits_of((double)NAN));
    assert_int_equal(c->first_value_start, 2);
    assert_same_double(c->sum, 0);
    assert_same_double(c->min, 0);

    c = &m->d.chunks[4];
    assert_int_equal(c->n, 1);
    assert_int_equal(c->n_values + c->n_nan, 0);
    assert_int_equal(c->first_kind, VALUE_NONE);
    assert_int_equal(c->first_value_time, 0);
    assert_int_equal(c->first_value_start, 0);
    end(m);
    free(m);
}

/* ---- the reader for hot loops ---- */

static void chunk_reader_reads_the_same(void **state)
{
    struct made *m[2];
    struct chunk_reader r = {0};

    (void)state;
    for (int b = 0; b < 2; b++) {
        m[b] = calloc(1, sizeof(*m[b]));
        begin(m[b], KIND_NUMBER);
        for (unsigned i = 0; i < 60; i++) {
            pf_add(next_chunk(m[b], KIND_NUMBER), 1 + random_below(40), i % PF_SHAPES);
            /* Now and then the times, starts and flags of the chunk before, or their beginning:
             * linear times then have the same bytes, and another number of points. */
            if (i > 0 && random_below(2) != 0) {
                struct series_points *p = &m[b]->points[i], *before = p - 1;

                if (p->n > before->n || random_below(2) != 0)
                    p->n = before->n < p->n ? before->n : p->n;
                memcpy(p->time, before->time, p->n * sizeof(*p->time));
                memcpy(p->start_time, before->start_time, p->n * sizeof(*p->time));
                memcpy(p->flags, before->flags, p->n * sizeof(*p->time));
            }
            put(m[b], i);
        }
        finish(m[b]);
    }
    for (int round = 0; round < 3000; round++) {
        struct made *b = m[round / 7 % 2];
        uint32_t i = random_below(b->n);
        const struct series_points *p = &b->points[i];
        const struct field_column *f = &p->fields[NUMBER_VALUE];
        bool all_int = true, all_double = true;

        assert_int_equal(chunk_reader_numbers(&r, buf_bytes(&b->bytes), &b->d, i, true, &err),
                         OTL_OK);
        assert_int_equal(r.n, p->n);
        assert_memory_equal(r.time, p->time, p->n * sizeof(*p->time));
        assert_memory_equal(r.start_time, p->start_time, p->n * sizeof(*p->time));
        assert_memory_equal(r.flags, p->flags, p->n * sizeof(*p->time));
        assert_memory_equal(r.kind, f->kind, p->n);
        assert_memory_equal(r.value, f->v, p->n * sizeof(*f->v));
        for (size_t k = 0; k < p->n; k++) {
            all_int = all_int && f->kind[k] == VALUE_INT;
            all_double = all_double && f->kind[k] == VALUE_DOUBLE;
        }
        assert_true(r.all_int == all_int && r.all_double == all_double);
        if (round % 100 == 0)
            chunk_reader_forget(&r);
    }
    chunk_reader_fini(&r);
    assert_null(r.time);
    for (int b = 0; b < 2; b++) {
        end(m[b]);
        free(m[b]);
    }
}

/* Two blocks whose streams lie at the same places, one after the other, and one where the other
 * was. */
static void chunk_reader_tells_blocks_apart(void **state)
{
    struct made *m[2];
    struct chunk_reader r = {0};
    uint8_t *place;

    (void)state;
    for (int b = 0; b < 2; b++) {
        struct series_points *p;

        m[b] = calloc(1, sizeof(*m[b]));
        begin(m[b], KIND_NUMBER);
        p = next_chunk(m[b], KIND_NUMBER);
        for (int k = 0; k < 10; k++)
            add_int(p, 100 + b + k, 5, k);
        put(m[b], 1);
        finish(m[b]);
    }
    assert_int_equal(m[0]->bytes.n, m[1]->bytes.n);
    assert_memory_equal(m[0]->d.streams, m[1]->d.streams,
                        m[0]->d.streams_per_chunk * sizeof(uint32_t));
    for (int k = 0; k < 4; k++) {
        struct made *b = m[k % 2];

        assert_int_equal(chunk_reader_numbers(&r, buf_bytes(&b->bytes), &b->d, 0, true, &err),
                         OTL_OK);
        assert_int_equal(r.time[0], 100 + k % 2);
    }
    place = malloc(m[0]->bytes.n);
    for (int k = 0; k < 4; k++) {
        struct made *b = m[k % 2];

        memcpy(place, b->bytes.p, b->bytes.n);
        chunk_reader_forget(&r);
        assert_int_equal(
            chunk_reader_numbers(&r, bytes_of(place, b->bytes.n), &b->d, 0, true, &err), OTL_OK);
        assert_int_equal(r.time[0], 100 + k % 2);
    }
    free(place);
    chunk_reader_fini(&r);
    for (int b = 0; b < 2; b++) {
        end(m[b]);
        free(m[b]);
    }
}

/* ---- sizes ---- */

static void jittered_times(struct series_points *p, size_t n, int64_t from)
{
    for (size_t i = 0; i < n; i++)
        add_double(p, from + (int64_t)i * INT64_C(10000000000) + random_below(3000000), 5, 0);
}

static void equal_columns_are_there_once(void **state)
{
    struct made *m = calloc(1, sizeof(*m));
    size_t one;

    (void)state;
    begin(m, KIND_NUMBER);
    jittered_times(next_chunk(m, KIND_NUMBER), 1000, INT64_C(1800000000000000000));
    put(m, 1);
    finish(m);
    one = m->bytes.n;
    end(m);

    /* Two senders, in turn. */
    begin(m, KIND_NUMBER);
    for (int i = 0; i < 2; i++) {
        jittered_times(next_chunk(m, KIND_NUMBER), 1000, INT64_C(1800000000000000000) + i);
        put(m, i);
    }
    for (int i = 2; i < 100; i++) {
        assert_true(series_points_append(next_chunk(m, KIND_NUMBER), &m->points[i % 2], 0, 1000));
        for (size_t k = 0; k < 1000; k++)
            m->points[i].fields[NUMBER_VALUE].v[k] = bits_of(i);
        put(m, 1 + i);
    }
    finish(m);
    assert_reads_back(m);
    /* Times take 1,000 * 21 bits and more; 98 more series without them almost nothing. */
    assert_true(one > 2600);
    assert_true(m->bytes.n < 2 * one + 98 * 30);
    end(m);
    free(m);
}

/* The goals: idle series 0.1 bytes a point all in; a directory of at most 30 bytes a chunk. */
static void idle_and_busy_series_are_small(void **state)
{
    enum { N = CHUNK_MAX_POINTS };
    struct made *m = calloc(1, sizeof(*m));

    (void)state;
    begin(m, KIND_NUMBER);
    for (int i = 0; i < BLOCK_MAX_CHUNKS; i++) {
        struct series_points *p = next_chunk(m, KIND_NUMBER);

        for (int k = 0; k < N; k++)
            add_double(p, INT64_C(1800000000000000000) + k * INT64_C(10000000000), 5,
                       (double)(i % 10) / 4);
        put(m, 10 + i);
    }
    finish(m);
    print_message("idle: %zu bytes for %d chunks of %d points, directory %u\n", m->bytes.n,
                  BLOCK_MAX_CHUNKS, N, (unsigned)m->d.streams_at);
    assert_true((double)m->bytes.n <= 0.1 * N * BLOCK_MAX_CHUNKS);
    end(m);

    begin(m, KIND_NUMBER);
    for (int i = 0; !block_writer_is_full(m->w); i++) {
        struct series_points *p = next_chunk(m, KIND_NUMBER);
        int64_t count = random_below(1000000), walk = 2000 + random_below(5000), whole = 50;

        for (int k = 0; k < N; k++) {
            int64_t time = INT64_C(1800000000000000000) + k * INT64_C(10000000000);

            count += random_below(21);
            walk += (int64_t)random_below(201) - 100;
            whole += (int64_t)random_below(5) - 2;
            if (i % 8 < 4)
                add_int(p, time, 5, random_below(2000) == 0 ? count = 0 : count);
            else if (i % 8 < 6)
                add_double(p, time, 5, (double)walk / 100);
            else if (i % 8 < 7)
                add_int(p, time, 5, whole);
            else
                add_double(p, time, 5, 17.25);
        }
        put(m, 10 + i * 3);
    }
    finish(m);
    print_message("mix: %zu bytes for %u chunks, %.3f a point; directory %.1f a chunk\n",
                  m->bytes.n, (unsigned)m->n, (double)m->bytes.n / ((double)m->n * N),
                  (double)m->d.streams_at / (double)m->n);
    assert_true((double)m->d.streams_at <= 30.0 * m->n);
    assert_reads_back(m);
    end(m);
    free(m);
}

/* A day of a series every 10 s: a counter without a reset, or a gauge that walks. */
static void day_of_points(struct series_points *p, bool counter)
{
    int64_t v = 100000;

    series_points_reset(p);
    for (int k = 0; k < 8640; k++) {
        int64_t time = INT64_C(1800057600000000000) + k * INT64_C(10000000000);

        v += counter ? random_below(21) : random_below(201);
        if (counter) {
            add_int(p, time, 5, v);
        } else {
            v -= 100;
            add_double(p, time, 5, (double)v / 100);
        }
    }
}

/* Of counters, neither min, nor max, nor increase is there: they follow from first and last. */
static void rollups_are_small(void **state)
{
    struct made *m = calloc(1, sizeof(*m));
    struct series_points points;

    (void)state;
    series_points_init(&points, KIND_NUMBER);
    for (int counter = 1; counter >= 0; counter--) {
        double bytes;

        begin(m, KIND_NUMBER_ROLLUP);
        for (int i = 0; i < 64; i++) {
            day_of_points(&points, counter == 1);
            assert_true(rollup_add(next_chunk(m, KIND_NUMBER_ROLLUP), &points, ROLLUP_5M, false));
            assert_int_equal(m->points[m->n].n, 288);
            put(m, 10 + i);
        }
        finish(m);
        bytes = (double)m->bytes.n / (64 * 288);
        print_message("rollups of %s: %.2f bytes a row\n", counter == 1 ? "counters" : "gauges",
                      bytes);
        assert_true(bytes < (counter == 1 ? 4.0 : 10.8));
        assert_reads_back(m);
        end(m);
    }
    series_points_fini(&points);
    free(m);
}

static void long_lists_make_short_chunks(void **state)
{
    struct series_points p;

    (void)state;
    series_points_init(&p, KIND_HISTOGRAM);
    pf_add(&p, 5000, 11);
    for (size_t i = 0, end_at = 0; i < p.n; i++) {
        end_at += i == 4999 ? 300000 : 160;
        p.fields[HISTOGRAM_COUNTS].end[i] = (uint32_t)end_at;
    }
    assert_int_equal(chunk_fit(&p, 0, 5000), (1 << 18) / 160);
    assert_int_equal(chunk_fit(&p, 100, 5), 5);
    assert_int_equal(chunk_fit(&p, 4990, 10), 9);
    assert_int_equal(chunk_fit(&p, 4999, 1), 1); /* one is always one */
    series_points_fini(&p);
    series_points_init(&p, KIND_NUMBER);
    pf_add(&p, 5000, 0);
    assert_int_equal(chunk_fit(&p, 0, 5000), CHUNK_MAX_POINTS);
    series_points_fini(&p);
}

/* ---- damage ---- */

struct faults {
    unsigned n;
    char last[512];
};

static void note_fault(void *arg, const char *what)
{
    struct faults *f = arg;

    f->n++;
    snprintf(f->last, sizeof(f->last), "%s", what);
}

/* A copy of exactly this size, so that a sanitizer sees the first byte beyond it. */
static uint8_t *exact_copy(struct bytes b)
{
    uint8_t *p = malloc(b.n > 0 ? b.n : 1);

    assert_non_null(p);
    if (b.n > 0)
        memcpy(p, b.p, b.n);
    return p;
}

/* Everything that reads a block, on bytes of any kind. */
static uint64_t try_everything(struct bytes b)
{
    struct faults f = {0};
    struct block_directory d;
    uint64_t faults = block_verify(b, note_fault, &f);

    assert_int_equal(faults, f.n);
    (void)block_head_bytes(b);
    if (block_directory_open(b, &d, &err) == OTL_OK) {
        struct series_points p;
        struct chunk_reader r = {0};

        series_points_init(&p, d.kind);
        for (uint32_t i = 0; i < d.n; i++) {
            size_t before = p.n;

            if (block_read_chunk(b, &d, i, d.chunks[i].min_time + 1, INT64_MAX, &p, &err) != OTL_OK)
                assert_int_equal(p.n, before);
            if (d.kind == KIND_NUMBER)
                (void)(chunk_reader_numbers(&r, b, &d, i, true, &err) == OTL_OK);
        }
        chunk_reader_fini(&r);
        series_points_fini(&p);
        block_directory_fini(&d);
    } else {
        assert_null(d.chunks);
        assert_true(err.code == OTL_ECORRUPT || err.code == OTL_EDB);
        assert_true(strlen(err.msg) > 0);
    }
    return faults;
}

static void small_block(struct made *m, enum series_kind kind)
{
    begin(m, kind);
    for (unsigned i = 0; i < 6; i++) {
        pf_add(next_chunk(m, kind), 1 + random_below(12), random_below(PF_SHAPES));
        put(m, i / 2 * 2 + i);
    }
    finish(m);
}

static void a_flipped_bit_is_found_wherever_it_is(void **state)
{
    (void)state;
    for (int kind = 0; kind < SERIES_KINDS; kind++) {
        struct made *m = calloc(1, sizeof(*m));
        uint8_t *p;

        small_block(m, (enum series_kind)kind);
        p = exact_copy(buf_bytes(&m->bytes));
        for (size_t i = 0; i < m->bytes.n; i++) {
            p[i] ^= (uint8_t)(1u << random_below(8));
            if (try_everything(bytes_of(p, m->bytes.n)) == 0)
                fail_msg("kind %d: byte %zu of %zu may be wrong", kind, i, m->bytes.n);
            p[i] = m->bytes.p[i];
        }
        free(p);
        for (size_t n = 0; n < m->bytes.n; n++) {
            p = exact_copy(bytes_of(m->bytes.p, n));
            assert_true(try_everything(bytes_of(p, n)) > 0);
            free(p);
        }
        end(m);
        free(m);
    }
}

/* Whoever writes the checksums too can write anything: nothing may happen but an error. */
static void wrong_bytes_with_right_checksums(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 300; round++) {
        struct made *m = calloc(1, sizeof(*m));
        uint8_t *p;

        small_block(m, (enum series_kind)(round % SERIES_KINDS));
        p = exact_copy(buf_bytes(&m->bytes));
        for (unsigned i = 0; i < 60; i++) {
            size_t head = m->d.streams_at, at = 5 + random_below((unsigned)m->bytes.n - 5);
            uint32_t sum;

            p[at] = (uint8_t)(random_below(2) != 0 ? random_u64() : p[at] + 1u);
            if (at >= head) /* the stream's that it may be in: 4 bytes somewhere before */
                for (uint32_t s = 0; s < m->d.n * m->d.streams_per_chunk; s++) {
                    uint32_t o = m->d.streams[s];

                    if (o > 0 && p[o] < 0x80 && o + 5u + p[o] <= m->bytes.n)
                        store32(p + o + 1, block_checksum(0, bytes_of(p + o + 5, p[o])));
                }
            sum = block_checksum(0, bytes_of(p, HEADER_CHECKSUM));
            sum = block_checksum(sum, bytes_of(p + HEADER_BYTES, head - HEADER_BYTES));
            store32(p + HEADER_CHECKSUM, sum);
            (void)try_everything(bytes_of(p, m->bytes.n));
            if (i % 4 == 3)
                memcpy(p, m->bytes.p, m->bytes.n);
        }
        free(p);
        end(m);
        free(m);
    }
}

static void says_what_is_damaged(void **state)
{
    struct made *m = calloc(1, sizeof(*m));
    struct series_points out;
    uint32_t at;

    (void)state;
    begin(m, KIND_NUMBER);
    for (int i = 0; i < 3; i++) {
        struct series_points *p = next_chunk(m, KIND_NUMBER);

        for (int k = 0; k < 50; k++)
            add_double(p, 100 + k, 5, (double)random_below(100000) / 100);
        put(m, 70 + i);
    }
    finish(m);
    at = m->d.streams[m->d.streams_per_chunk + STREAM_FIELDS + VALUE_DOUBLES];
    m->bytes.p[at + 20] ^= 1;
    series_points_init(&out, KIND_NUMBER);
    assert_int_equal(
        block_read_chunk(buf_bytes(&m->bytes), &m->d, 1, INT64_MIN, INT64_MAX, &out, &err),
        OTL_ECORRUPT);
    assert_non_null(strstr(err.msg, "Chunk 1 (series 71)"));
    assert_non_null(strstr(err.msg, "value.doubles"));
    assert_non_null(strstr(err.msg, "checksum"));
    assert_int_equal(out.n, 0);
    /* Its neighbours are sound. */
    assert_int_equal(
        block_read_chunk(buf_bytes(&m->bytes), &m->d, 2, INT64_MIN, INT64_MAX, &out, &err), OTL_OK);
    assert_int_equal(out.n, 50);
    series_points_fini(&out);
    end(m);
    free(m);
}

/* A fault in the last column of a chunk: what was decoded of the others is no part of any point. */
static void a_failed_read_leaves_nothing(void **state)
{
    struct made *m = calloc(1, sizeof(*m));
    struct series_points out;
    uint32_t at;

    (void)state;
    begin(m, KIND_EXEMPLAR);
    for (unsigned i = 0; i < 3; i++) {
        pf_add(next_chunk(m, KIND_EXEMPLAR), 20, 7); /* trace ids of 1 to 29 bytes, ... */
        put(m, i);
    }
    finish(m);
    at = m->d.streams[2 * m->d.streams_per_chunk - 1];
    m->bytes.p[at + 10] ^= 1;
    series_points_init(&out, KIND_EXEMPLAR);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(
            block_read_chunk(buf_bytes(&m->bytes), &m->d, i, INT64_MIN, INT64_MAX, &out, &err),
            i == 1 ? OTL_ECORRUPT : OTL_OK);
    assert_int_equal(out.n, 40);
    for (size_t i = 0; i < 40; i++)
        assert_true(series_points_equal(&out, i, &m->points[i < 20 ? 0 : 2], i % 20));
    series_points_fini(&out);
    end(m);
    free(m);
}

static void a_newer_format_is_said_to_be_one(void **state)
{
    struct made *m = calloc(1, sizeof(*m));
    struct block_directory d;

    (void)state;
    small_block(m, KIND_NUMBER);
    m->bytes.p[HEADER_FORMAT] = BLOCK_FORMAT + 1;
    assert_int_equal(block_head_bytes(buf_bytes(&m->bytes)), 0);
    assert_int_equal(block_directory_open(buf_bytes(&m->bytes), &d, &err), OTL_EDB);
    assert_non_null(strstr(err.msg, "format 2"));
    end(m);
    free(m);
}

/* A block whose directory says something else of a chunk than its points do. */
static void verify_finds_every_wrong_summary(void **state)
{
    static const char *const names[] = {"max_time",
                                        "n_nan",
                                        "sum",
                                        "min",
                                        "max",
                                        "first",
                                        "last",
                                        "first_value_time",
                                        "last_value_time",
                                        "first_value_start",
                                        "increase"};

    (void)state;
    for (int which = 0; which < 11; which++) {
        struct made *m = calloc(1, sizeof(*m));
        struct directory_source src = {.kind = KIND_NUMBER, .n = 1, .n_frames = 1};
        uint32_t zero = 0, streams[BLOCK_MAX_STREAMS], checksum;
        struct chunk_summary c;
        struct series_points *p;
        struct buf b = {0}, directory = {0};
        struct faults f = {0};

        begin(m, KIND_NUMBER);
        p = next_chunk(m, KIND_NUMBER);
        for (int k = 0; k < 50; k++)
            add_double(p, 100 + k, 5, (double)random_below(100000) / 100);
        put(m, 70);
        finish(m);
        c = m->d.chunks[0];
        for (uint32_t s = 0; s < m->d.streams_per_chunk; s++)
            streams[s] = m->d.streams[s] == 0 ? 0 : m->d.streams[s] - m->d.streams_at + 1;
        switch (which) {
        case 0:
            c.max_time++;
            break;
        case 1:
            c.n_nan++;
            c.n_values--;
            break;
        case 2:
            c.sum += 1;
            break;
        case 3:
            c.min -= 1;
            break;
        case 4:
            c.max += 1;
            break;
        case 5:
            c.first ^= 1;
            break;
        case 6:
            c.last ^= 1;
            break;
        case 7:
            c.first_value_time++;
            break;
        case 8:
            c.last_value_time--;
            break;
        case 9:
            c.first_value_start++;
            break;
        default:
            c.increase += 1;
        }
        src.chunks = &c;
        src.frame = &zero;
        src.frame_chunk = &zero;
        src.streams = streams;
        block_directory_write(&directory, &src);
        buf_add(&b, m->bytes.p, HEADER_BYTES);
        buf_add_bytes(&b, buf_bytes(&directory));
        buf_add(&b, m->bytes.p + m->d.streams_at, m->bytes.n - m->d.streams_at);
        store32(b.p + HEADER_DIRECTORY, (uint32_t)directory.n);
        store32(b.p + HEADER_LENGTH, (uint32_t)b.n);
        checksum = block_checksum(0, bytes_of(b.p, HEADER_CHECKSUM));
        store32(b.p + HEADER_CHECKSUM, block_checksum(checksum, buf_bytes(&directory)));
        assert_int_equal(block_verify(buf_bytes(&b), note_fault, &f), 1);
        assert_non_null(strstr(f.last, "Chunk 0 (series 70)"));
        if (which != 1)
            assert_non_null(strstr(f.last, names[which]));
        buf_fini(&b);
        buf_fini(&directory);
        end(m);
        free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_and_look),
        cmocka_unit_test(summaries_are_the_models),
        cmocka_unit_test(summary_of_a_counter_that_is_reset),
        cmocka_unit_test(chunk_reader_reads_the_same),
        cmocka_unit_test(chunk_reader_tells_blocks_apart),
        cmocka_unit_test(equal_columns_are_there_once),
        cmocka_unit_test(idle_and_busy_series_are_small),
        cmocka_unit_test(rollups_are_small),
        cmocka_unit_test(long_lists_make_short_chunks),
        cmocka_unit_test(a_flipped_bit_is_found_wherever_it_is),
        cmocka_unit_test(wrong_bytes_with_right_checksums),
        cmocka_unit_test(says_what_is_damaged),
        cmocka_unit_test(a_failed_read_leaves_nothing),
        cmocka_unit_test(a_newer_format_is_said_to_be_one),
        cmocka_unit_test(verify_finds_every_wrong_summary),
    };

    return cmocka_run_group_tests_name("block", tests, NULL, NULL);
}
