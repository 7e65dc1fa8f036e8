/* Reading points against naive models: parts that overlap and replace each other, head above them,
 * every kind; one series, many, all. Rollups as made from scratch. Snapshots, limits, sessions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "maintain_fixture.h"
#include "otlite/clock.h"
#include "otlite/read.h"
#include "parts_fixture.h"
#include "random.h"
#include "store/head.h"
#include "store/read_internal.h"
#include "store/rollup.h"
#include "store_fixture.h"

#define SECOND INT64_C(1000000000)
#define DAY0   (INT64_C(20000) * PART_DAY_NS)

enum { SERIES = 7, ROUNDS = 25 };

static char *dir;
static struct store *s;
static struct db db;
static struct read_shared *shared;
static struct read_session *session;
static struct otl_error err;
/* What was stored of each series, in the order of arrival: parts, then the head. */
static struct series_points arrived[SERIES];
static bool some_without; /* some parts have no rollups */

static void ok(enum otl_err rc)
{
    if (rc != OTL_OK)
        fail_msg("%s: %s", otl_err_text(rc), err.msg);
}

static int setup(void **state)
{
    (void)state;
    dir = fx_dir_new();
    s = fx_store(dir);
    return 0;
}

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

static int teardown(void **state)
{
    (void)state;
    close_session();
    for (int i = 0; i < SERIES; i++)
        series_points_fini(&arrived[i]);
    store_free(s);
    fx_dir_free(dir);
    return 0;
}

static void open_session(size_t cache)
{
    struct store_opts o = fx_opts(dir);

    ok(store_open_reader(&db, &o, &err));
    ok(read_shared_new(random_below(2) == 0 ? store_mirror(s) : NULL, cache, &shared, &err));
    if (random_below(2) == 0)
        shared->round_bytes = 1 + random_below(5000);
    ok(read_session_open(shared, &db, &session, &err));
}

/* ---- data ---- */

static void add_bytes(struct series_points *p, int f, const char *text, size_t n)
{
    buf_add(&p->fields[f].bytes, text, n);
    p->fields[f].end[p->n] = (uint32_t)p->fields[f].bytes.n;
}

/* As a row of the head could be. */
static void random_point(struct series_points *p, int64_t time, int64_t start)
{
    struct field_column *f = p->fields;
    size_t n = p->n;

    if (p->kind == KIND_NUMBER) {
        int64_t v = (int64_t)(random_u64() >> random_below(64));

        if (random_below(9) == 0)
            assert_true(series_points_add_number(p, time, start, 1, VALUE_NONE, 0));
        else
            assert_true(
                series_points_add_number(p, time, start, 0, VALUE_INT, random_below(50) + v % 3));
        return;
    }
    if (p->kind != KIND_HISTOGRAM && p->kind != KIND_EXEMPLAR) {
        mf_random_point(p, time, start);
        return;
    }
    assert_true(series_points_reserve(p, 1));
    p->time[n] = time;
    p->start_time[n] = start;
    p->flags[n] = 0;
    if (p->kind == KIND_EXEMPLAR) {
        bool mark = random_below(4) == 0;

        f[EXEMPLAR_TIME].v[n] = mark ? 0 : time + (int64_t)random_below(2);
        f[EXEMPLAR_VALUE].kind[n] = mark ? VALUE_NONE : VALUE_INT;
        f[EXEMPLAR_VALUE].v[n] = mark ? 0 : random_below(4);
        add_bytes(p, EXEMPLAR_TRACE_ID, "0123456789abcdef", mark || random_below(2) == 0 ? 0 : 16);
        add_bytes(p, EXEMPLAR_SPAN_ID, "01234567", 0);
        add_bytes(p, EXEMPLAR_ATTRIBUTES, "\0", mark ? 0 : 1); /* the empty set */
        p->n++;
        return;
    }
    f[HISTOGRAM_COUNT].v[n] = (int64_t)random_below(100) + 3;
    f[HISTOGRAM_SUM].kind[n] = VALUE_DOUBLE;
    f[HISTOGRAM_SUM].v[n] = INT64_C(0x4045000000000000) + random_below(8);
    for (int k = HISTOGRAM_MIN; k <= HISTOGRAM_MAX; k++) {
        f[k].kind[n] = VALUE_NONE;
        f[k].v[n] = 0;
    }
    f[HISTOGRAM_BOUNDS_ID].v[n] = 1;
    assert_true(series_points_reserve_list(p, HISTOGRAM_COUNTS, 3));
    for (int k = 0; k < 3; k++)
        f[HISTOGRAM_COUNTS].v[field_begin(&f[HISTOGRAM_COUNTS], n) + k] = random_below(40);
    f[HISTOGRAM_COUNTS].end[n] = field_begin(&f[HISTOGRAM_COUNTS], n) + 3;
    p->n++;
}

static int64_t random_time(int64_t hours)
{
    return DAY0 + 20 * 3600 * SECOND + (int64_t)random_below((unsigned)hours * 60) * 60 * SECOND;
}

/* Of the points of p, in the order of arrival, what there is to read. */
static void expect(const struct series_points *p, struct series_points *out)
{
    struct series_points last, kept;

    if (p->kind != KIND_EXEMPLAR) {
        mf_expected(p, out);
        return;
    }
    series_points_init(&last, p->kind);
    series_points_init(&kept, p->kind);
    for (size_t i = 0; i < p->n; i++) {
        bool counts = p->fields[EXEMPLAR_VALUE].kind[i] != VALUE_NONE;

        for (size_t k = i + 1; k < p->n && counts; k++) {
            bool same_key = p->time[k] == p->time[i] && p->start_time[k] == p->start_time[i];

            counts = !(same_key && p->fields[EXEMPLAR_VALUE].kind[k] == VALUE_NONE);
        }
        if (counts)
            assert_true(series_points_append(&last, p, i, 1));
    }
    for (size_t i = 0; i < last.n; i++) {
        bool again = false;

        for (size_t k = 0; k < kept.n; k++)
            again = again || series_points_equal(&kept, k, &last, i);
        if (!again)
            assert_true(series_points_append(&kept, &last, i, 1));
    }
    assert_true(series_points_sort(&kept));
    series_points_reset(out);
    assert_true(series_points_append(out, &kept, 0, kept.n));
    series_points_fini(&last);
    series_points_fini(&kept);
}

static enum otl_err write_part(void *arg, struct store *st, struct db *w, struct otl_error *e)
{
    (void)st;
    (void)e;
    fx_part_write(w, arg, 1 + random_below(40), random_below(2) == 0);
    fx_part_publish(w, arg);
    return OTL_OK;
}

/* The points of each series as parts by day, as sealing would have them, with rollups. */
static void seal(struct series_points *points, bool rollups)
{
    static const int resolutions[] = {0, ROLLUP_5M, ROLLUP_1H};
    enum series_kind kind = points[0].kind;

    for (int64_t day = 20000; day < 20003; day++) {
        for (int k = 0; k < (rollups ? 3 : 1); k++) {
            struct fx_part part;

            fx_part_init(&part, k == 0 ? kind : rollup_kind_of(kind), resolutions[k], day);
            for (int i = 0; i < SERIES; i++) {
                size_t low = series_points_lower_bound(&points[i], day * PART_DAY_NS);
                size_t high = series_points_lower_bound(&points[i], (day + 1) * PART_DAY_NS);
                struct series_points raw;

                if (low == high)
                    continue;
                series_points_init(&raw, kind);
                assert_true(series_points_append(&raw, &points[i], low, high - low));
                if (k == 0)
                    assert_true(series_points_append(fx_part_series(&part, i + 1), &raw, 0, raw.n));
                else
                    assert_true(
                        rollup_add(fx_part_series(&part, i + 1), &raw, resolutions[k], false));
                series_points_fini(&raw);
            }
            if (part.n > 0)
                ok(store_task(s, write_part, &part, 0, &err));
            fx_part_fini(&part);
        }
    }
}

/* Rows as another process would insert them, in the order of arrival. */
static enum otl_err write_head(void *arg, struct store *st, struct db *w, struct otl_error *e)
{
    const struct series_points *p = arg;
    enum series_kind kind = p[0].kind;
    char sql[600];
    sqlite3_stmt *insert;
    int rc;

    (void)st;
    (void)e;
    if (kind == KIND_EXEMPLAR)
        snprintf(sql, sizeof(sql),
                 "INSERT INTO exemplar_head_0(series_id, point_time, point_start_time, time, value,"
                 " trace_id, span_id, identity, attributes) VALUES (?,?,?,?,?,?,?,"
                 " coalesce(?, x''), '{}')");
    else
        snprintf(sql, sizeof(sql), "INSERT INTO %s(%s) VALUES (?,?,?,?,?%s)",
                 head_table_name(kind, 0), point_tables[kind].columns,
                 kind == KIND_HISTOGRAM ? ",?,?,?,?,?" : "");
    rc = sqlite3_prepare_v2(w->sql, sql, -1, &insert, NULL);
    if (rc != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(w->sql));
    for (int i = 0; i < SERIES; i++) {
        for (size_t k = 0; k < p[i].n; k++) {
            struct row row = {0};

            assert_true(series_points_row(&p[i], k, i + 1, &row));
            assert_int_equal(row_bind(&row, insert, 1), SQLITE_OK);
            rc = sqlite3_step(insert);
            if (rc != SQLITE_DONE)
                fail_msg("%s: %s", sql, sqlite3_errmsg(w->sql));
            sqlite3_reset(insert);
            row_fini(&row);
        }
    }
    sqlite3_finalize(insert);
    return OTL_OK;
}

/* Parts of random points, of which later ones replace some of earlier ones, and the head. */
static void make_data(enum series_kind kind, bool head, bool rollups, bool disjoint)
{
    unsigned parts = random_below(4);
    int64_t hours = 20;

    for (int i = 0; i < SERIES; i++)
        series_points_init(&arrived[i], kind);
    for (unsigned k = 0; k <= parts; k++) {
        struct series_points points[SERIES], sorted[SERIES];

        if (k == parts && !head)
            break;
        for (int i = 0; i < SERIES; i++) {
            unsigned n = random_below(3) == 0 ? 0 : random_below(120);
            int64_t from = DAY0 + 20 * 3600 * SECOND + k * hours / 4 * 3600 * SECOND;

            series_points_init(&points[i], kind);
            series_points_init(&sorted[i], kind);
            for (unsigned j = 0; j < n; j++) {
                int64_t t =
                    disjoint ? from + (int64_t)random_below(290) * 60 * SECOND : random_time(hours);

                random_point(&points[i], t, random_below(3) == 0 ? 2 : 1);
            }
            if (k == parts)
                continue;
            /* Sealing leaves the marks of exemplars in, and what is equal out; so here. */
            if (kind == KIND_EXEMPLAR) {
                const struct series_points *one = &points[i];

                assert_true(series_points_sort(&points[i]));
                assert_true(series_points_merge(&sorted[i], &one, 1, NULL));
            } else {
                mf_expected(&points[i], &sorted[i]);
            }
        }
        if (k == parts)
            ok(store_task(s, write_head, points, 0, &err));
        else
            seal(sorted, rollups && !(some_without && random_below(5) == 0));
        for (int i = 0; i < SERIES; i++) {
            if (points[i].n > 0)
                assert_true(series_points_append(&arrived[i], &points[i], 0, points[i].n));
            series_points_fini(&points[i]);
            series_points_fini(&sorted[i]);
        }
    }
}

/* ---- reading ---- */

struct emitted {
    int64_t last;
    unsigned n;
    const int64_t *series; /* that were asked for */
    size_t n_series;
    int64_t from, to;
};

static void assert_range(const struct series_points *all, int64_t from, int64_t to,
                         const struct series_points *got, const char *what, int64_t id)
{
    size_t low = series_points_lower_bound(all, from), high = series_points_lower_bound(all, to);

    if (got->n != (high > low ? high - low : 0))
        fail_msg("%s: series %lld has %zu points, not %zu", what, (long long)id, got->n,
                 high - low);
    for (size_t i = 0; i < got->n; i++) {
        if (!series_points_equal(all, low + i, got, i))
            fail_msg("%s: point %zu of series %lld differs", what, i, (long long)id);
    }
}

static enum otl_err on_series(void *arg, int64_t id, const struct series_points *p,
                              struct otl_error *e)
{
    struct emitted *m = arg;
    struct series_points all;
    bool asked = m->series == NULL;

    (void)e;
    assert_true(id > m->last && id <= SERIES && p->n > 0);
    for (size_t i = 0; i < m->n_series; i++)
        asked = asked || m->series[i] == id;
    assert_true(asked);
    m->last = id;
    m->n++;
    series_points_init(&all, p->kind);
    expect(&arrived[id - 1], &all);
    assert_range(&all, m->from, m->to, p, "scan", id);
    series_points_fini(&all);
    return OTL_OK;
}

static unsigned series_with_points(const int64_t *series, size_t n, int64_t from, int64_t to)
{
    unsigned found = 0;

    for (int i = 0; i < SERIES; i++) {
        struct series_points all;
        bool asked = series == NULL;

        for (size_t k = 0; k < n; k++)
            asked = asked || series[k] == i + 1;
        series_points_init(&all, arrived[i].kind);
        expect(&arrived[i], &all);
        found +=
            asked && series_points_lower_bound(&all, from) < series_points_lower_bound(&all, to);
        series_points_fini(&all);
    }
    return found;
}

static void assert_extents(struct read *r, enum series_kind kind, const int64_t *series, size_t n,
                           int64_t from, int64_t to)
{
    struct time_extent got[SERIES];

    ok(read_extents(r, (int)kind, series, n, from, to, got, &err));
    for (size_t i = 0; i < n; i++) {
        struct series_points all;
        size_t low, high;

        series_points_init(&all, kind);
        expect(&arrived[series[i] - 1], &all);
        low = series_points_lower_bound(&all, from);
        high = to == INT64_MAX ? all.n : series_points_lower_bound(&all, to);
        if (low >= high) {
            assert_true(got[i].first > got[i].last);
        } else {
            assert_int_equal(got[i].first, all.time[low]);
            assert_int_equal(got[i].last, all.time[high - 1]);
        }
        series_points_fini(&all);
    }
}

/* ---- numbers: what runs a slot was given ---- */

struct numbers {
    struct emitted seen;
    struct {
        int64_t id;
        size_t n, cap;
        int64_t *time, *value, *flags;
        uint8_t *kind;
    } slots[NUMBER_SLOTS];
    int64_t refuse_run, refuse_series; /* of the series with this id */
    atomic_bool *cancel;               /* set at the first series */
    struct read *reads;                /* reads in series, which it must not while reading ahead */
};

static void numbers_fini(struct numbers *x)
{
    for (int i = 0; i < NUMBER_SLOTS; i++) {
        free(x->slots[i].time);
        free(x->slots[i].value);
        free(x->slots[i].flags);
        free(x->slots[i].kind);
    }
}

static enum otl_err on_run(void *arg, unsigned slot, int64_t id, const struct number_run *r,
                           struct otl_error *e)
{
    struct numbers *x = arg;

    assert_true(slot < NUMBER_SLOTS && r->n > 0);
    if (id == x->refuse_run)
        return otl_fail(e, OTL_EBUSY, "the run's");
    if (x->slots[slot].id == 0)
        x->slots[slot].n = 0;
    else
        assert_int_equal(x->slots[slot].id, id);
    x->slots[slot].id = id;
    for (size_t i = 0; i < r->n; i++) {
        size_t at = x->slots[slot].n++;

        if (at == x->slots[slot].cap) {
            size_t cap = at == 0 ? 64 : 2 * at;

            x->slots[slot].time = realloc(x->slots[slot].time, cap * sizeof(int64_t));
            x->slots[slot].value = realloc(x->slots[slot].value, cap * sizeof(int64_t));
            x->slots[slot].flags = realloc(x->slots[slot].flags, cap * sizeof(int64_t));
            x->slots[slot].kind = realloc(x->slots[slot].kind, cap);
            x->slots[slot].cap = cap;
        }
        x->slots[slot].time[at] = r->time[i];
        x->slots[slot].value[at] = r->value[i];
        x->slots[slot].flags[at] = r->flags == NULL ? 0 : r->flags[i];
        x->slots[slot].kind[at] = r->kind == NULL ? (uint8_t)r->all : r->kind[i];
    }
    return OTL_OK;
}

static enum otl_err on_numbers(void *arg, unsigned slot, int64_t id, struct otl_error *e)
{
    struct numbers *x = arg;
    struct series_points all;
    size_t low, high;
    bool asked = x->seen.series == NULL;

    assert_true(id > x->seen.last && id <= SERIES && x->slots[slot].id == id);
    for (size_t i = 0; i < x->seen.n_series; i++)
        asked = asked || x->seen.series[i] == id;
    assert_true(asked);
    x->seen.last = id;
    x->seen.n++;
    if (x->reads != NULL)
        return read_scan(x->reads, KIND_NUMBER, NULL, 0, INT64_MIN, INT64_MAX, on_series, NULL, e);
    if (id == x->refuse_series)
        return otl_fail(e, OTL_EBUSY, "the series'");
    series_points_init(&all, KIND_NUMBER);
    expect(&arrived[id - 1], &all);
    low = series_points_lower_bound(&all, x->seen.from);
    high = series_points_lower_bound(&all, x->seen.to);
    assert_int_equal(x->slots[slot].n, high - low);
    assert_memory_equal(x->slots[slot].time, all.time + low, (high - low) * sizeof(int64_t));
    assert_memory_equal(x->slots[slot].flags, all.flags + low, (high - low) * sizeof(int64_t));
    assert_memory_equal(x->slots[slot].kind, all.fields[NUMBER_VALUE].kind + low, high - low);
    assert_memory_equal(x->slots[slot].value, all.fields[NUMBER_VALUE].v + low,
                        (high - low) * sizeof(int64_t));
    x->slots[slot].id = 0;
    series_points_fini(&all);
    if (x->cancel != NULL)
        atomic_store(x->cancel, true);
    return OTL_OK;
}

/* ahead: by a second thread, however little there is. */
static enum otl_err numbers(struct read *r, struct numbers *x, bool ahead)
{
    const struct number_sink sink = {.run = on_run, .series = on_numbers, .arg = x};
    enum otl_err rc;

    shared->ahead_series = shared->ahead_bytes = ahead ? 0 : SIZE_MAX;
    rc = read_numbers(r, x->seen.series, x->seen.n_series, x->seen.from, x->seen.to, &sink, &err);
    numbers_fini(x);
    return rc;
}

static void points_and_scans(void **state)
{
    for (int round = 0; round < ROUNDS * (KIND_EXEMPLAR + 1); round++) {
        enum series_kind kind = (enum series_kind)(round % (KIND_EXEMPLAR + 1));
        bool head = kind != KIND_EXPONENTIAL && kind != KIND_SUMMARY && random_below(4) != 0;

        teardown(state);
        setup(state);
        make_data(kind, head, false, random_below(2) == 0);
        open_session(random_below(2) == 0 ? 1 : 64 << 20);
        for (int k = 0; k < 6; k++) {
            int64_t from = k == 0 ? INT64_MIN : random_time(20) - 1;
            int64_t to = k < 2 ? INT64_MAX : from + (int64_t)random_below(9) * 3600 * SECOND;
            int64_t series[SERIES];
            struct emitted m = {.from = from, .to = to};
            struct read *r;

            for (int i = 0; i < SERIES; i++) {
                if (random_below(2) == 0)
                    series[m.n_series++] = i + 1;
            }
            ok(read_begin(session, NULL, true, &r, &err));
            for (int i = 0; i < SERIES; i++) {
                struct series_points all, got;

                series_points_init(&all, kind);
                series_points_init(&got, kind);
                expect(&arrived[i], &all);
                ok(read_points(r, (int)kind, i + 1, from, to, &got, &err));
                assert_range(&all, from, to, &got, "points", i + 1);
                series_points_fini(&all);
                series_points_fini(&got);
            }
            if (kind != KIND_EXEMPLAR)
                assert_extents(r, kind, series, m.n_series, from, to);
            m.series = random_below(2) == 0 ? NULL : series;
            if (m.series == NULL)
                m.n_series = 0;
            ok(read_scan(r, (int)kind, m.series, m.n_series, from, to, on_series, &m, &err));
            assert_int_equal(m.n, series_with_points(m.series, m.n_series, from, to));
            for (int ahead = 0; ahead < 2 && kind == KIND_NUMBER; ahead++) {
                struct numbers x = {.seen = m};

                x.seen.n = 0;
                x.seen.last = 0;
                ok(numbers(r, &x, ahead));
                assert_int_equal(x.seen.n, m.n);
            }
            read_end(r);
        }
    }
}

/* ---- rollups ---- */

struct rollups {
    int64_t from, to;
    int resolution;
    unsigned n;
};

static enum otl_err on_rollup(void *arg, int64_t id, const struct series_points *p,
                              struct otl_error *e)
{
    struct rollups *m = arg;
    struct series_points all, want;
    int64_t length = m->resolution * SECOND;
    int64_t from = (m->from + length - 1) / length * length, to = m->to / length * length;

    (void)e;
    m->n++;
    series_points_init(&all, arrived[id - 1].kind);
    series_points_init(&want, p->kind);
    expect(&arrived[id - 1], &all);
    assert_true(rollup_add(&want, &all, m->resolution, false));
    assert_range(&want, from, to, p, "rollup", id);
    series_points_fini(&all);
    series_points_fini(&want);
    return OTL_OK;
}

/* The sums of these numbers are exact in whatever order they are added. */
static void rollups_are_as_made_from_all_points(void **state)
{
    static const int resolutions[] = {300, 3600, 7200, 600, 60, 86400};
    unsigned n = 0;

    for (int round = 0; round < 2 * ROUNDS; round++) {
        enum series_kind kind = round % 2 == 0 ? KIND_NUMBER : KIND_HISTOGRAM;

        teardown(state);
        setup(state);
        some_without = random_below(2) == 0;
        make_data(kind, random_below(3) != 0, random_below(4) != 0, random_below(3) != 0);
        some_without = false;
        open_session(64 << 20);
        for (int k = 0; k < 6; k++) {
            struct rollups m = {.resolution = resolutions[k]};
            struct read *r;

            m.from = random_time(10) - 5 * 3600 * SECOND;
            m.to = m.from + (int64_t)(1 + random_below(30)) * 3600 * SECOND;
            ok(read_begin(session, NULL, true, &r, &err));
            ok(read_rollups(r, (int)rollup_kind_of(kind), m.resolution, NULL, 0, m.from, m.to,
                            on_rollup, &m, &err));
            assert_int_equal(read_rollups(r, (int)rollup_kind_of(kind), 7, NULL, 0, m.from, m.to,
                                          on_rollup, &m, &err),
                             OTL_EBADREQUEST);
            read_end(r);
            n += m.n;
        }
    }
    assert_true(n > 300);
}

/* Rollups outlive raw points. */
static void rollups_are_what_is_left(void **state)
{
    struct rollups m = {.from = DAY0, .to = DAY0 + 3 * PART_DAY_NS, .resolution = 3600};
    struct read *r;

    (void)state;
    do {
        teardown(state);
        setup(state);
        make_data(KIND_NUMBER, false, true, true);
    } while (arrived[0].n == 0);
    fx_exec(dir, "UPDATE part SET live = 2 WHERE resolution = 0");
    open_session(1 << 20);
    ok(read_begin(session, NULL, true, &r, &err));
    ok(read_rollups(r, KIND_NUMBER_ROLLUP, 3600, NULL, 0, m.from, m.to, on_rollup, &m, &err));
    assert_true(m.n > 0);
    m.n = 0;
    m.resolution = 60;
    ok(read_rollups(r, KIND_NUMBER_ROLLUP, 60, NULL, 0, m.from, m.to, on_rollup, &m, &err));
    assert_int_equal(m.n, 0);
    read_end(r);
}

/* ---- queries ---- */

static void a_read_sees_one_snapshot(void **state)
{
    struct series_points more[SERIES], got;
    struct read *r;

    (void)state;
    make_data(KIND_NUMBER, true, false, true);
    open_session(1 << 20);
    series_points_init(&got, KIND_NUMBER);
    ok(read_begin(session, NULL, true, &r, &err));
    for (int i = 0; i < SERIES; i++) {
        series_points_init(&more[i], KIND_NUMBER);
        random_point(&more[i], DAY0, 1);
    }
    ok(store_task(s, write_head, more, 0, &err));
    seal(more, false);
    ok(read_points(r, KIND_NUMBER, 1, DAY0, DAY0 + 1, &got, &err));
    assert_int_equal(got.n, 0);
    read_end(r);
    ok(read_begin(session, NULL, true, &r, &err));
    ok(read_points(r, KIND_NUMBER, 1, DAY0, DAY0 + 1, &got, &err));
    assert_int_equal(got.n, 1);
    read_end(r);
    /* In the caller's transaction. */
    ok(db_exec(&db, "BEGIN", &err));
    ok(read_begin(session, NULL, false, &r, &err));
    series_points_reset(&got);
    ok(read_points(r, KIND_NUMBER, 1, DAY0, DAY0 + 1, &got, &err));
    assert_int_equal(got.n, 1);
    read_end(r);
    assert_false(sqlite3_get_autocommit(db.sql));
    ok(db_exec(&db, "COMMIT", &err));
    for (int i = 0; i < SERIES; i++)
        series_points_fini(&more[i]);
    series_points_fini(&got);
}

static enum otl_err cancel_at_once(void *arg, int64_t id, const struct series_points *p,
                                   struct otl_error *e)
{
    (void)id;
    (void)p;
    (void)e;
    atomic_store((atomic_bool *)arg, true);
    return OTL_OK;
}

static enum otl_err refuse(void *arg, int64_t id, const struct series_points *p,
                           struct otl_error *e)
{
    (void)arg;
    (void)id;
    (void)p;
    return otl_fail(e, OTL_EBUSY, "the caller's");
}

static void limits_end_a_read(void **state)
{
    atomic_bool cancel = false;
    struct read_limits limits = {.cancel = &cancel, .max_bytes = 1 << 20};
    struct series_points got;
    struct read *r;
    unsigned n = 0;

    do {
        teardown(state);
        setup(state);
        make_data(KIND_NUMBER, true, false, true);
        n = series_with_points(NULL, 0, INT64_MIN, INT64_MAX);
    } while (n < 3);
    open_session(1 << 20);
    ok(read_begin(session, &limits, true, &r, &err));
    assert_int_equal(
        read_scan(r, KIND_NUMBER, NULL, 0, INT64_MIN, INT64_MAX, cancel_at_once, &cancel, &err),
        OTL_ECANCELLED);
    assert_int_equal(read_check(r, &err), OTL_ECANCELLED);
    read_end(r);
    cancel = false;

    /* SQL ends too. */
    ok(read_begin(session, &limits, true, &r, &err));
    cancel = true;
    assert_int_equal(
        sqlite3_exec(db.sql,
                     "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT"
                     " 100000000) SELECT max(i) FROM c",
                     NULL, NULL, NULL),
        SQLITE_INTERRUPT);
    read_end(r);
    cancel = false;
    ok(db_exec(&db,
               "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT 100000)"
               " SELECT max(i) FROM c",
               &err));

    /* Scratch is given back, results count until the caller gives them back. */
    ok(read_begin(session, &limits, true, &r, &err));
    for (int i = 0; i < 200; i++) {
        struct emitted m = {.from = INT64_MIN, .to = INT64_MAX};

        ok(read_scan(r, KIND_NUMBER, NULL, 0, INT64_MIN, INT64_MAX, on_series, &m, &err));
    }
    ok(read_charge(r, 1 << 20, &err));
    assert_int_equal(read_charge(r, 1, &err), OTL_ETOOBIG);
    series_points_init(&got, KIND_NUMBER);
    assert_int_equal(read_points(r, KIND_NUMBER, 1, INT64_MIN, INT64_MAX, &got, &err) ==
                         OTL_ETOOBIG,
                     arrived[0].n > 0);
    series_points_fini(&got);
    ok(read_charge(r, -(1 << 20), &err));
    assert_int_equal(read_scan(r, KIND_NUMBER, NULL, 0, INT64_MIN, INT64_MAX, refuse, NULL, &err),
                     OTL_EBUSY);
    assert_string_equal(err.msg, "the caller's");
    read_end(r);

    limits.deadline_ns = clock_mono_ns() - 1;
    assert_int_equal(read_begin(session, &limits, true, &r, &err), OTL_ELATE);
    assert_true(sqlite3_get_autocommit(db.sql));
}

/* Whatever ends a scan of numbers, on whichever thread, is what the caller gets; and all that was
 * charged is given back. */
static void numbers_end_early(void **state)
{
    struct read_limits limits = {.max_bytes = 1 << 20};
    struct read *r;
    unsigned n = 0;

    do {
        teardown(state);
        setup(state);
        make_data(KIND_NUMBER, true, false, true);
        n = series_with_points(NULL, 0, INT64_MIN, INT64_MAX);
    } while (n < 4 || arrived[2].n == 0);
    open_session(1 << 20);
    for (int ahead = 0; ahead < 2; ahead++) {
        const struct emitted all = {.from = INT64_MIN, .to = INT64_MAX};
        struct numbers x = {.seen = all, .refuse_run = 3};
        atomic_bool cancel = false;

        ok(read_begin(session, &limits, true, &r, &err));
        assert_int_equal(numbers(r, &x, ahead), OTL_EBUSY);
        assert_string_equal(err.msg, "the run's");
        x = (struct numbers){.seen = all, .refuse_series = 3};
        assert_int_equal(numbers(r, &x, ahead), OTL_EBUSY);
        assert_string_equal(err.msg, "the series'");
        for (int i = 0; i < 200; i++) {
            x = (struct numbers){.seen = all};
            ok(numbers(r, &x, ahead));
            assert_int_equal(x.seen.n, n);
        }
        ok(read_charge(r, 1 << 20, &err));
        ok(read_charge(r, -(1 << 20), &err));
        if (ahead) {
            x = (struct numbers){.seen = all, .reads = r};
            assert_int_equal(numbers(r, &x, true), OTL_EINTERNAL);
        }
        read_end(r);

        limits.cancel = &cancel;
        ok(read_begin(session, &limits, true, &r, &err));
        x = (struct numbers){.seen = all, .cancel = &cancel};
        /* A second thread may have read all there is by then. */
        assert_true(numbers(r, &x, ahead) == OTL_ECANCELLED || ahead);
        read_end(r);
        limits.cancel = NULL;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(points_and_scans, setup, teardown),
        cmocka_unit_test_setup_teardown(rollups_are_as_made_from_all_points, setup, teardown),
        cmocka_unit_test_setup_teardown(rollups_are_what_is_left, setup, teardown),
        cmocka_unit_test_setup_teardown(a_read_sees_one_snapshot, setup, teardown),
        cmocka_unit_test_setup_teardown(limits_end_a_read, setup, teardown),
        cmocka_unit_test_setup_teardown(numbers_end_early, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
