/* read_windows against a naive model: flat arrays of points, every field of every window. Series
 * with gaps, NaN, "no recorded value", resets, later start times, integers and doubles mixed,
 * points replaced from part to part and by the head; random chunks, windows and groups; rollups,
 * and what is left when raw points are gone. What it cost shows that summaries and rollups
 * answered. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "otlite/clock.h"
#include "otlite/read.h"
#include "otlite/stats.h"
#include "parts_fixture.h"
#include "random.h"
#include "store/read_internal.h"
#include "store/rollup.h"
#include "store_fixture.h"

#define SECOND INT64_C(1000000000)
#define HOUR   (3600 * SECOND)
/* The begin of a day. */
#define DAY0 (INT64_C(20000) * PART_DAY_NS)

enum { MAX_SERIES = 9, ROUNDS = 60, QUERIES = 25 };

struct model_point {
    int64_t time, start, v;
    uint32_t flags;
    enum value_kind kind;
};
struct model_series {
    struct model_point *p; /* by key, one a key */
    size_t n, cap;
    bool delta;
};

static char *dir;
static struct fx *f;
static struct store *s;
static struct db db;
static struct read_shared *shared;
static struct read_session *session;
static struct otl_error err;
static struct model_series model[MAX_SERIES];
static unsigned n_series;

static void ok(enum otl_err rc)
{
    if (rc != OTL_OK)
        fail_msg("%s: %s", otl_err_text(rc), err.msg);
}

static double double_of(int64_t bits)
{
    double d;

    memcpy(&d, &bits, sizeof(d));
    return d;
}

static int64_t bits_of(double d)
{
    int64_t bits;

    memcpy(&bits, &d, sizeof(bits));
    return bits;
}

static double number_of(const struct model_point *p)
{
    return p->kind == VALUE_INT ? (double)p->v : double_of(p->v);
}

/* ---- model ---- */

static void model_put(struct model_series *m, const struct model_point *p)
{
    size_t at = 0, high = m->n;

    while (at < high) {
        size_t mid = (at + high) / 2;

        if (point_key_compare(m->p[mid].time, m->p[mid].start, p->time, p->start) < 0)
            at = mid + 1;
        else
            high = mid;
    }
    if (at < m->n && m->p[at].time == p->time && m->p[at].start == p->start) {
        m->p[at] = *p;
        return;
    }
    if (m->n == m->cap) {
        m->cap = m->cap * 2 + 64;
        m->p = realloc(m->p, m->cap * sizeof(*m->p));
        assert_non_null(m->p);
    }
    memmove(&m->p[at + 1], &m->p[at], (m->n - at) * sizeof(*m->p));
    m->p[at] = *p;
    m->n++;
}

static double model_growth(const struct model_point *a, const struct model_point *b)
{
    double before = number_of(a), now = number_of(b);

    return now < before || b->start > a->time ? now : now - before;
}

struct model_extra {
    double weight; /* the sum of all absolute values, for the tolerance of sums */
    size_t first_of;
};

static void model_windows(const struct window_query *q, struct window *out,
                          struct model_extra *extra)
{
    int64_t step = q->step > 0 ? q->step : q->to - q->from;
    size_t n = (size_t)((q->to - q->from + step - 1) / step);

    memset(out, 0, n * q->n_groups * sizeof(*out));
    memset(extra, 0, n * q->n_groups * sizeof(*extra));
    for (size_t i = 0; i < q->n; i++) {
        const struct model_series *m = &model[q->series[i] - 1];
        const struct model_point *before = NULL;

        for (size_t k = 0; k < m->n; k++) {
            const struct model_point *p = &m->p[k];
            bool has = p->kind != VALUE_NONE && (p->flags & FLAG_NO_RECORDED_VALUE) == 0;
            size_t at;
            struct window *w;
            double v;

            if (p->time >= q->to || p->time < q->from - q->look_back || !has)
                continue;
            v = number_of(p);
            if (p->time >= q->from) {
                at =
                    (q->group != NULL ? q->group[i] : 0) * n + (size_t)((p->time - q->from) / step);
                w = &out[at];
                /* Series come in the order of ids: of equal times the later series counts, but
                 * of one series' the first is the first. */
                if (w->count + w->n_nan == 0 || p->time < w->first_time ||
                    (p->time == w->first_time && extra[at].first_of != i)) {
                    w->first_time = p->time;
                    w->first = v;
                    extra[at].first_of = i;
                }
                if (w->count + w->n_nan == 0 || p->time >= w->last_time) {
                    w->last_time = p->time;
                    w->last = v;
                }
                if (isnan(v)) {
                    w->n_nan++;
                    continue;
                }
                w->min = w->count == 0 || v < w->min ? v : w->min;
                w->max = w->count == 0 || v > w->max ? v : w->max;
                w->sum += v;
                extra[at].weight += fabs(v);
                w->count++;
                if (q->want_increase && m->delta)
                    w->increase += v;
                else if (q->want_increase && before != NULL)
                    w->increase += model_growth(before, p);
            }
            if (!isnan(v))
                before = p;
        }
    }
}

/* ---- making data ---- */

static void close_session(void)
{
    read_session_close(session);
    read_shared_free(shared);
    session = NULL;
    shared = NULL;
    if (db.sql != NULL)
        assert_int_equal(sqlite3_close(db.sql), SQLITE_OK);
    db.sql = NULL;
}

static void open_session(void)
{
    struct store_opts o = fx_opts(dir);

    ok(store_open_reader(&db, &o, &err));
    ok(read_shared_new(random_below(2) == 0 ? store_mirror(s) : NULL, 64 << 20, &shared, &err));
    if (random_below(2) == 0)
        shared->round_bytes = 1 + random_below(5000);
    ok(read_session_open(shared, &db, &session, &err));
}

static int setup(void **state)
{
    (void)state;
    dir = fx_dir_new();
    f = fx_new();
    s = fx_store(dir);
    n_series = 0;
    memset(model, 0, sizeof(model));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close_session();
    for (int i = 0; i < MAX_SERIES; i++)
        free(model[i].p);
    store_free(s);
    fx_free(f);
    fx_dir_free(dir);
    return 0;
}

static uint32_t metrics[2]; /* cumulative, delta */

static void reset_batch(void)
{
    fx_reset(f);
    metrics[0] = fx_metric(f, METRIC_SUM, "c", "1");
    metrics[1] = fx_metric(f, METRIC_SUM, "d", "1");
    f->b.metrics[metrics[1]].temporality = TEMPORALITY_DELTA;
}

/* Into the head. Series i is number i + 1. */
static void put_head(unsigned series, const struct model_point *p)
{
    struct number_point *n =
        fx_int(f, metrics[model[series].delta], fx_attrs_int(f, "k", series), p->time, p->v);

    n->p.start_time = p->start;
    n->p.flags = p->flags;
    n->value.kind = p->kind;
    if (p->kind == VALUE_DOUBLE)
        n->value.u.d = double_of(p->v);
}

static void store_head(void)
{
    struct store_result r;

    ok(store_batch(s, 1, &f->b, 0, &r, &err));
    reset_batch();
}

/* A series, with one point of the head, which gives it its id. */
static void add_series(bool delta, const struct model_point *p)
{
    model[n_series].delta = delta;
    reset_batch();
    put_head(n_series, p);
    store_head();
    model_put(&model[n_series], p);
    n_series++;
}

/* What makes the look of a series. */
enum look { LOOK_COUNTER, LOOK_GAUGE, LOOK_MIXED, LOOK_BIG, LOOKS };

static void random_value(enum look look, const struct model_point *before, struct model_point *p)
{
    double d;

    p->flags = 0;
    switch (look) {
    case LOOK_COUNTER:
        p->kind = VALUE_INT;
        p->v = before == NULL || random_below(60) == 0 ? (int64_t)random_below(5)
                                                       : before->v + random_below(20);
        return;
    case LOOK_GAUGE:
        p->kind = VALUE_DOUBLE;
        d = (double)random_below(20000) / 100 - 100;
        p->v = bits_of(d);
        return;
    case LOOK_BIG:
        p->kind = VALUE_INT;
        p->v = (INT64_C(1) << 60) + (int64_t)(random_u64() >> 20);
        return;
    default:
        break;
    }
    switch (random_below(12)) {
    case 0:
        p->kind = VALUE_NONE;
        p->flags = FLAG_NO_RECORDED_VALUE;
        p->v = 0;
        break;
    case 1:
        p->kind = VALUE_DOUBLE;
        p->v = (int64_t)UINT64_C(0xfff4deadbeef0001);
        break;
    case 2:
    case 3:
    case 4:
        p->kind = VALUE_INT;
        p->v = (int64_t)random_below(1000) - 200;
        break;
    default:
        p->kind = VALUE_DOUBLE;
        p->v = bits_of((double)random_below(100000) / 7);
    }
}

struct parts {
    struct fx_part *p;
    size_t n;
    size_t max_chunk;
    bool random;
};

static enum otl_err write_parts(void *arg, struct store *st, struct db *w, struct otl_error *e)
{
    struct parts *p = arg;

    (void)st;
    (void)e;
    for (size_t i = 0; i < p->n; i++) {
        fx_part_write(w, &p->p[i], p->max_chunk, p->random);
        fx_part_publish(w, &p->p[i]);
    }
    return OTL_OK;
}

/* The points of all series from run (one entry a series) as parts, one a day, and their rollups. */
static void seal_run(const struct series_points *run, bool rollups, size_t max_chunk, bool random)
{
    static const int resolutions[] = {0, ROLLUP_5M, ROLLUP_1H};
    int64_t first = INT64_MAX, last = INT64_MIN;

    for (unsigned i = 0; i < n_series; i++) {
        if (run[i].n == 0)
            continue;
        first = run[i].time[0] < first ? run[i].time[0] : first;
        last = run[i].time[run[i].n - 1] > last ? run[i].time[run[i].n - 1] : last;
    }
    for (int64_t day = first / PART_DAY_NS; first <= last && day <= last / PART_DAY_NS; day++) {
        for (int k = 0; k < (rollups ? 3 : 1); k++) {
            struct fx_part part;
            struct parts parts = {&part, 1, max_chunk, random};

            fx_part_init(&part, k == 0 ? KIND_NUMBER : KIND_NUMBER_ROLLUP, resolutions[k], day);
            for (unsigned i = 0; i < n_series; i++) {
                size_t low = series_points_lower_bound(&run[i], day * PART_DAY_NS);
                size_t high = series_points_lower_bound(&run[i], (day + 1) * PART_DAY_NS);
                struct series_points raw;

                if (low == high)
                    continue;
                series_points_init(&raw, KIND_NUMBER);
                assert_true(series_points_append(&raw, &run[i], low, high - low));
                if (k == 0)
                    assert_true(series_points_append(fx_part_series(&part, i + 1), &raw, 0, raw.n));
                else
                    assert_true(rollup_add(fx_part_series(&part, i + 1), &raw, resolutions[k],
                                           model[i].delta));
                series_points_fini(&raw);
            }
            if (part.n > 0)
                ok(store_task(s, write_parts, &parts, 0, &err));
            fx_part_fini(&part);
        }
    }
}

static void run_add(struct series_points *run, const struct model_point *p)
{
    assert_true(series_points_add_number(run, p->time, p->start, p->flags, p->kind, p->v));
}

/* Every series from begin to end with a point about every interval, in n_runs parts a day; some
 * points come again with another value in a later part, or in the head. */
static void make_data(int64_t begin, int64_t end, int64_t interval, bool rollups, bool overlaps)
{
    unsigned n_runs = 1 + random_below(3);
    enum look looks[MAX_SERIES];
    int64_t at = begin;

    for (unsigned i = 0, n = 1 + random_below(MAX_SERIES); i < n; i++) {
        struct model_point p = {.time = begin + (int64_t)i, .start = begin - 5};

        looks[i] = (enum look)random_below(LOOKS);
        random_value(looks[i], NULL, &p);
        add_series(random_below(4) == 0, &p);
    }
    for (unsigned k = 0; k < n_runs; k++) {
        int64_t to = k + 1 == n_runs ? end : begin + (end - begin) / n_runs * (k + 1);
        struct series_points run[MAX_SERIES];

        for (unsigned i = 0; i < n_series; i++) {
            struct model_series *m = &model[i];
            struct model_point before = {.kind = VALUE_NONE}, p;
            int64_t start = begin - 5, t = overlaps && k > 0 && random_below(3) == 0
                                               ? at - interval * 30
                                               : at + SECOND;
            unsigned gap = random_below(6) == 0 ? 200 : 0;

            series_points_init(&run[i], KIND_NUMBER);
            for (; t < to;
                 t +=
                 interval + (gap > 0 && random_below(gap) == 0 ? interval * random_below(90) : 0)) {
                if (random_below(150) == 0)
                    start = t - (int64_t)random_below(3) * interval;
                p = (struct model_point){
                    .time =
                        t + (looks[i] == LOOK_MIXED ? (int64_t)random_below(900) * (interval / 1000)
                                                    : 0),
                    .start = start};
                if (p.time >= to)
                    break;
                random_value(looks[i], before.kind == VALUE_INT ? &before : NULL, &p);
                run_add(&run[i], &p);
                model_put(m, &p);
                before = p;
                if (random_below(200) == 0) { /* the same time, another start */
                    p.start++;
                    random_value(looks[i], &before, &p);
                    run_add(&run[i], &p);
                    model_put(m, &p);
                    before = p;
                }
            }
        }
        seal_run(run, rollups, 1 + random_below(300), random_below(2) == 0);
        for (unsigned i = 0; i < n_series; i++)
            series_points_fini(&run[i]);
        at = to;
    }
    /* The head: what follows, and some late or replaced points. */
    reset_batch();
    for (unsigned i = 0; i < n_series; i++) {
        unsigned n = random_below(40);
        int64_t t = end;

        for (unsigned k = 0; k < n; k++) {
            struct model_point p = {.time = t += interval, .start = begin - 5};

            if (overlaps && random_below(20) == 0) {
                const struct model_point *old = &model[i].p[random_below((unsigned)model[i].n)];

                p.time = old->time;
                p.start = old->start + (random_below(3) == 0);
            }
            random_value(looks[i], NULL, &p);
            put_head(i, &p);
            model_put(&model[i], &p);
        }
    }
    if (f->b.n_numbers > 0)
        store_head();
}

/* ---- asking ---- */

static bool near(double a, double b, double weight)
{
    return (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-9 * (weight + 1e-9);
}

static bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || a == b;
}

static void check(const struct window_query *q, const struct window *got, const char *what)
{
    int64_t step = q->step > 0 ? q->step : q->to - q->from;
    size_t n = (size_t)((q->to - q->from + step - 1) / step) * q->n_groups;
    struct window *want = malloc(n * sizeof(*want));
    struct model_extra *extra = malloc(n * sizeof(*extra));

    model_windows(q, want, extra);
    for (size_t i = 0; i < n; i++) {
        const struct window *a = &got[i], *b = &want[i];

        if (a->count != b->count || a->n_nan != b->n_nan ||
            !near(a->sum, b->sum, extra[i].weight) ||
            (!q->skip_extremes && (a->min != b->min || a->max != b->max)) ||
            !near(a->increase, b->increase, extra[i].weight) ||
            (!q->skip_ends && (!same(a->first, b->first) || !same(a->last, b->last) ||
                               a->first_time != b->first_time || a->last_time != b->last_time)))
            fail_msg("%s: window %zu of %zu, from %lld step %lld: count %llu %llu nan %llu %llu sum"
                     " %.17g %.17g min %.17g %.17g max %.17g %.17g increase %.17g %.17g first"
                     " %.17g %.17g last %.17g %.17g times %lld %lld, %lld %lld",
                     what, i, n, (long long)(q->from - DAY0), (long long)q->step,
                     (unsigned long long)a->count, (unsigned long long)b->count,
                     (unsigned long long)a->n_nan, (unsigned long long)b->n_nan, a->sum, b->sum,
                     a->min, b->min, a->max, b->max, a->increase, b->increase, a->first, b->first,
                     a->last, b->last, (long long)(a->first_time - DAY0),
                     (long long)(b->first_time - DAY0), (long long)(a->last_time - DAY0),
                     (long long)(b->last_time - DAY0));
    }
    free(want);
    free(extra);
}

static struct window *ask(const struct window_query *q, struct window_cost *cost)
{
    struct window *out = NULL;
    struct read *r;

    ok(read_begin(session, NULL, true, &r, &err));
    ok(read_windows(r, q, &out, cost, &err));
    read_end(r);
    return out;
}

static void ask_and_check(const struct window_query *q, struct window_cost *cost, const char *what)
{
    struct window_cost mine;
    struct window *w = ask(q, cost != NULL ? cost : &mine);

    check(q, w, what);
    free(w);
}

static void random_query(int64_t begin, int64_t end, struct window_query *q, int64_t *series,
                         uint32_t *group)
{
    static const int64_t steps[] = {0,         60 * SECOND, 300 * SECOND,  3600 * SECOND, 6 * HOUR,
                                    24 * HOUR, 7 * SECOND,  7200 * SECOND, 600 * SECOND};
    int64_t step = steps[random_below(9)], length;

    *q = (struct window_query){
        .series = series,
        .group = random_below(3) == 0 ? NULL : group,
        .n_groups = 1,
        .want_increase = random_below(3) != 0,
        .skip_extremes = random_below(3) == 0,
        .skip_ends = random_below(3) == 0,
        .look_back = random_below(3) == 0 ? 0 : (int64_t)random_below(7200) * SECOND,
        .step = step,
    };
    for (unsigned i = 0; i < n_series; i++) {
        if (random_below(5) == 0)
            continue;
        series[q->n] = i + 1;
        group[q->n++] = random_below(3);
    }
    if (q->group != NULL)
        q->n_groups = 3;
    q->from = begin + (int64_t)(random_u64() % (uint64_t)(end - begin)) - HOUR;
    if (random_below(3) != 0) /* aligned */
        q->from -= q->from % (random_below(2) == 0 ? HOUR : 300 * SECOND);
    length = 1 + (int64_t)(random_u64() % (uint64_t)(end - q->from + 3 * HOUR));
    if (step > 0 && length / step > 2000)
        length = 2000 * step;
    q->to = q->from + length;
    if (random_below(2) == 0)
        q->to += (HOUR - q->to % HOUR) % HOUR;
}

static void random_windows(void **state)
{
    struct window_cost total = {0};
    unsigned with_rollups = 0;

    for (int round = 0; round < ROUNDS; round++) {
        static const int64_t intervals[] = {20, 60, 300, 77};
        bool rollups = round % 3 == 0;
        int64_t begin = DAY0 + (int64_t)random_below(20) * HOUR;
        int64_t end = begin + (int64_t)(2 + random_below(40)) * HOUR;
        char what[80];

        teardown(state); /* of the round before */
        setup(state);
        make_data(begin, end, intervals[random_below(4)] * SECOND, rollups, round % 2 == 0);
        open_session();
        for (int k = 0; k < QUERIES; k++) {
            struct window_query q;
            struct window_cost cost;
            int64_t series[MAX_SERIES];
            uint32_t group[MAX_SERIES];

            random_query(begin, end, &q, series, group);
            snprintf(what, sizeof(what), "round %d query %d", round, k);
            ask_and_check(&q, &cost, what);
            total.chunks_by_summary += cost.chunks_by_summary;
            total.chunks_decoded += cost.chunks_decoded;
            total.rollup_chunks += cost.rollup_chunks;
            total.head_points += cost.head_points;
            with_rollups += cost.resolution != 0;
            assert_true(rollups || cost.resolution == 0);
        }
    }
    /* Each way was taken often. */
    assert_true(total.chunks_by_summary > 500);
    assert_true(total.chunks_decoded > 500);
    assert_true(total.rollup_chunks > 100);
    assert_true(total.head_points > 500);
    assert_true(with_rollups > 50);
}

/* ---- how it is answered ---- */

/* n points of each series from begin on, of rising integers, into parts of chunks of max_chunk. */
static void make_plain(unsigned series, size_t n, int64_t begin, int64_t interval, size_t max_chunk,
                       bool rollups)
{
    struct series_points run[MAX_SERIES] = {0};

    for (unsigned i = 0; i < series; i++) {
        struct model_point p = {.time = begin, .start = begin - 1, .kind = VALUE_INT};

        if (i >= n_series) {
            p.time = begin - 10 * PART_DAY_NS;
            add_series(false, &p);
        }
        series_points_init(&run[i], KIND_NUMBER);
        for (size_t k = 0; k < n; k++) {
            p.time = begin + (int64_t)k * interval;
            p.v = (int64_t)(k * 3 % 1000 + i);
            run_add(&run[i], &p);
            model_put(&model[i], &p);
        }
    }
    seal_run(run, rollups, max_chunk, false);
    for (unsigned i = 0; i < series; i++)
        series_points_fini(&run[i]);
}

static const int64_t all_series[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};

static void change(const char *sql)
{
    close_session();
    fx_exec(dir, sql);
    open_session();
}

static void summaries_answer_whole_chunks(void **state)
{
    struct window_query q = {.series = all_series,
                             .n = 3,
                             .n_groups = 1,
                             .from = DAY0,
                             .to = DAY0 + PART_DAY_NS,
                             .want_increase = true};
    struct window_cost cost;
    struct window *w;

    (void)state;
    make_plain(3, 1000, DAY0, 60 * SECOND, 60, false);
    open_session();
    ask_and_check(&q, &cost, "all");
    assert_int_equal(cost.chunks_by_summary, 3 * 17);
    assert_int_equal(cost.chunks_decoded, 0);
    q.step = HOUR; /* as the chunks are */
    ask_and_check(&q, &cost, "hours");
    assert_int_equal(cost.chunks_by_summary, 3 * 17);
    assert_int_equal(cost.chunks_decoded, 0);
    /* Chunks that are cut by a window are decoded, and only those. */
    q.from += 30 * 60 * SECOND;
    q.step = 2 * HOUR;
    ask_and_check(&q, &cost, "cut");
    assert_int_equal(cost.chunks_by_summary + cost.chunks_decoded, 3 * 17);
    assert_int_equal(cost.chunks_decoded, 3 * 9);

    /* No byte behind the directory is needed for summaries. */
    change("UPDATE block SET data = CAST(substr(data, 1, length(data) - 40) || zeroblob(40) AS"
           " BLOB)");
    q.from = DAY0;
    q.step = HOUR;
    ask_and_check(&q, &cost, "damaged, but not looked at");
    assert_int_equal(cost.chunks_decoded, 0);
    /* Who needs them gets the other chunks. */
    q.step = 60 * SECOND;
    {
        uint64_t before = STATS_GET(damaged_chunks), count = 0;

        w = ask(&q, &cost);
        for (size_t i = 0; i < 1440; i++)
            count += w[i].count;
        free(w);
        assert_true(STATS_GET(damaged_chunks) > before);
        assert_true(count < 3000 && count >= 3000 - 60 * 5);
    }
}

/* Of 5, -5, -7 the increases -5 and -7 add up to last minus first, though both are resets. */
static void negative_integers_have_resets_too(void **state)
{
    struct window_query q = {.series = all_series,
                             .n = 1,
                             .n_groups = 1,
                             .from = DAY0,
                             .to = DAY0 + 30 * SECOND,
                             .step = 10 * SECOND,
                             .want_increase = true};
    static const int64_t values[] = {5, -5, -7};
    struct series_points run[MAX_SERIES] = {0};
    struct model_point p = {.time = DAY0 - PART_DAY_NS, .kind = VALUE_INT};
    struct window *w;

    (void)state;
    add_series(false, &p);
    series_points_init(&run[0], KIND_NUMBER);
    for (int i = 0; i < 3; i++) {
        p.time = DAY0 + i * 10 * SECOND;
        p.v = values[i];
        run_add(&run[0], &p);
        model_put(&model[0], &p);
    }
    seal_run(run, false, 100, false);
    series_points_fini(&run[0]);
    open_session();
    w = ask(&q, NULL);
    assert_true(w[0].increase == 0 && w[1].increase == -5 && w[2].increase == -7);
    free(w);
    ask_and_check(&q, NULL, "negative");
}

static void rollups_answer_whole_hours(void **state)
{
    struct window_query q = {.series = all_series,
                             .n = 4,
                             .n_groups = 1,
                             .from = DAY0 + 2 * HOUR,
                             .to = DAY0 + 22 * HOUR,
                             .step = HOUR,
                             .look_back = HOUR,
                             .want_increase = true};
    struct window_cost cost;
    struct window *w;

    (void)state;
    make_plain(4, 8640, DAY0, 10 * SECOND, 2048, true);
    open_session();
    ask_and_check(&q, &cost, "hours");
    assert_int_equal(cost.resolution, 3600);
    assert_int_equal(cost.rollup_chunks, 4);
    assert_int_equal(cost.chunks_decoded, 4); /* what is before the range */
    q.want_increase = false;
    ask_and_check(&q, &cost, "hours without increase");
    assert_int_equal(cost.chunks_decoded, 0);
    q.step = 300 * SECOND;
    ask_and_check(&q, &cost, "five minutes");
    assert_int_equal(cost.resolution, 300);
    assert_int_equal(cost.chunks_decoded, 0);
    q.step = 60 * SECOND;
    ask_and_check(&q, &cost, "minutes");
    assert_int_equal(cost.resolution, 0);
    q.step = HOUR;
    q.from += SECOND;
    ask_and_check(&q, &cost, "hours that begin in between");
    assert_int_equal(cost.resolution, 0);
    q.from -= SECOND;
    q.to += 10 * 60 * SECOND;
    q.want_increase = true;
    ask_and_check(&q, &cost, "a last window that is cut");
    assert_int_equal(cost.resolution, 3600);
    q.to = DAY0 + 22 * HOUR;

    /* A part that has no rollups: those of the day do not stand for all of it. */
    close_session();
    make_plain(4, 60, DAY0 + 24 * HOUR - 60, 1, 2048, false);
    open_session();
    ask_and_check(&q, &cost, "rollups of one part only");
    assert_int_equal(cost.rollup_chunks, 0);
    assert_true(cost.chunks_decoded > 0);

    /* Raw points gone: the hours are as they were, shorter windows empty. */
    close_session();
    fx_exec(dir, "UPDATE part SET live = 2 WHERE resolution = 0");
    open_session();
    q.look_back = 0;
    ask_and_check(&q, &cost, "raw points are gone");
    assert_int_equal(cost.resolution, 3600);
    assert_int_equal(cost.chunks_decoded, 0);
    q.step = 60 * SECOND;
    w = ask(&q, &cost);
    for (size_t i = 0; i < 20 * 60; i++)
        assert_true(w[i].count == 0 && w[i].increase == 0);
    free(w);
}

static void two_threads_give_the_same(void **state)
{
    struct window_query q = {.series = all_series,
                             .n = 9,
                             .n_groups = 1,
                             .from = DAY0,
                             .to = DAY0 + 4 * HOUR,
                             .step = 60 * SECOND,
                             .want_increase = true};
    struct window_cost cost;
    struct window *a, *b;

    (void)state;
    make_plain(9, 140000, DAY0, SECOND / 10, 2048, false);
    open_session();
    shared->round_bytes = 64 << 20; /* all in one round, or it would be too little for two */
    ask_and_check(&q, &cost, "1.26 million points");
    assert_true(cost.chunks_decoded > 600);
    a = ask(&q, NULL);
    b = ask(&q, NULL);
    assert_memory_equal(a, b, 240 * sizeof(*a));
    free(a);
    free(b);
}

static void limits_end_a_query(void **state)
{
    struct window_query q = {.series = all_series,
                             .n = 2,
                             .n_groups = 1,
                             .from = DAY0,
                             .to = DAY0 + 2 * HOUR,
                             .step = 7 * SECOND,
                             .want_increase = true};
    atomic_bool cancel = true;
    struct read_limits cancelled = {.cancel = &cancel}, late = {.deadline_ns = 1},
                       small = {.max_bytes = 300000};
    const size_t windows = 1029;
    struct window *w = NULL;
    struct read *r;

    (void)state;
    make_plain(2, 8640, DAY0, SECOND, 500, false);
    open_session();
    assert_int_equal(read_begin(session, &cancelled, true, &r, &err), OTL_ECANCELLED);
    assert_int_equal(read_begin(session, &late, true, &r, &err), OTL_ELATE);
    cancel = false;
    ok(read_begin(session, &cancelled, true, &r, &err));
    cancel = true;
    assert_int_equal(read_windows(r, &q, &w, NULL, &err), OTL_ECANCELLED);
    read_end(r);

    /* What a query took is given back, all but the result. */
    ok(read_begin(session, &small, true, &r, &err));
    for (int i = 0; i < 20; i++) {
        ok(read_windows(r, &q, &w, NULL, &err));
        check(&q, w, "within the budget");
        free(w);
        ok(read_charge(r, -(int64_t)(windows * sizeof(*w)), &err));
    }
    q.step = SECOND / 100;
    w = NULL;
    assert_int_equal(read_windows(r, &q, &w, NULL, &err), OTL_ETOOBIG);
    assert_null(w);
    q.step = 7 * SECOND;
    for (int i = 0; i < 20; i++) {
        ok(read_windows(r, &q, &w, NULL, &err));
        free(w);
        ok(read_charge(r, -(int64_t)(windows * sizeof(*w)), &err));
    }
    read_end(r);

    /* Queries that make no sense. */
    ok(read_begin(session, NULL, true, &r, &err));
    q.to = q.from;
    assert_int_equal(read_windows(r, &q, &w, NULL, &err), OTL_EBADREQUEST);
    q.to = INT64_MAX;
    q.from = INT64_MIN;
    q.step = 0;
    ok(read_windows(r, &q, &w, NULL, &err));
    assert_int_equal(w->count, 2 * 8641);
    free(w);
    q.step = 1;
    assert_int_equal(read_windows(r, &q, &w, NULL, &err), OTL_ETOOBIG);
    read_end(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(random_windows, setup, teardown),
        cmocka_unit_test_setup_teardown(summaries_answer_whole_chunks, setup, teardown),
        cmocka_unit_test_setup_teardown(negative_integers_have_resets_too, setup, teardown),
        cmocka_unit_test_setup_teardown(rollups_answer_whole_hours, setup, teardown),
        cmocka_unit_test_setup_teardown(two_threads_give_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(limits_end_a_query, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
