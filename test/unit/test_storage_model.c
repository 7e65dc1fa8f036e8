/* Storage against a naive model: whatever comes in, in whatever order it is sealed, merged, dropped
 * by age, and however often the process starts anew, reading gives what a plain list of points
 * gives.
 *
 * A sequence is a database of its own and a few dozen steps drawn from a seed, which is printed
 * when it fails: OTLITE_MODEL_SEED=N runs that one alone, OTLITE_MODEL_SEQUENCES=N so many. */
#include <math.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "otlite/clock.h"
#include "otlite/handoff.h"
#include "otlite/log.h"
#include "otlite/maintain.h"
#include "otlite/read.h"
#include "otlite/writer.h"
#include "store/maintain_internal.h"
#include "store/series_points.h"
#include "store_fixture.h"

enum {
    SEQUENCES = 10000,
    PROCESSES = 2, /* a sequence waits for the disk half of its time */
    STEPS = 14,
    NUMBERS = 4, /* series of numbers, then so many of histograms */
    HISTOGRAMS = 2,
    SERIES = NUMBERS + HISTOGRAMS,
    MAX_POINTS = 4000,
    DAYS = 4,
    SLOTS_A_DAY = 40 /* times that points can have: few, so that keys meet */
};

struct exemplars {
    int64_t value[2];
    int n;
};

struct model_point {
    int series;
    int64_t time, start_time;
    uint32_t flags;
    enum value_kind kind; /* numbers */
    int64_t v;            /* number's, or the count of each of a histogram's buckets */
    struct exemplars exemplars;
};

struct world {
    uint64_t random;
    char *dir;
    struct writer *writer;
    struct maintainer *maintainer;
    struct handoff back;
    struct db db;
    struct read_shared *shared;
    struct read_session *session;
    struct fx *fx;
    struct model_point *points;
    size_t n;
    int64_t first_day_ns, cutoff_ns;
    bool retention, rollups, dropped;
    int64_t ids[SERIES]; /* 0: not stored */
    uint64_t seed;
    int step;
};

static uint64_t draw(struct world *w, uint64_t below)
{
    /* splitmix64 */
    uint64_t z = (w->random += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

static void must(struct world *w, enum otl_err rc, const struct otl_error *err, const char *what)
{
    if (rc != OTL_OK)
        fail_msg("seed %llu, step %d, %s: %s", (unsigned long long)w->seed, w->step, what,
                 err->msg);
}

#define HOLDS(w, condition)                                                              \
    do {                                                                                 \
        if (!(condition))                                                                \
            fail_msg("seed %llu, step %d: %s", (unsigned long long)(w)->seed, (w)->step, \
                     #condition);                                                        \
    } while (0)

/* ---- start and end ---- */

static void open_world(struct world *w)
{
    struct otl_error err = {0};
    struct writer_opts wo = {.store = fx_opts(w->dir),
                             .max_queue_bytes = 1 << 26,
                             .max_queue_jobs = 100,
                             .max_age_ms = 60000};
    struct maintain_opts mo = {.store = fx_opts(w->dir), .rollups = w->rollups, .idle = true};

    if (w->retention)
        mo.retention.max_age_ms = (clock_wall_ns() - w->cutoff_ns) / NS_PER_MS;
    must(w, writer_start(&wo, &w->writer, &err), &err, "start the writer");
    must(w, maintainer_start(&mo, w->writer, &w->maintainer, &err), &err, "start maintenance");
    w->maintainer->hurry = true;
    must(w, store_open_reader(&w->db, &wo.store, &err), &err, "open for reading");
    must(w,
         read_shared_new(draw(w, 2) == 0 ? writer_mirror(w->writer) : NULL, 1 << 20, &w->shared,
                         &err),
         &err, "share");
    must(w, read_session_open(w->shared, &w->db, &w->session, &err), &err, "open a session");
}

static void close_world(struct world *w)
{
    read_session_close(w->session);
    read_shared_free(w->shared);
    db_close(&w->db);
    maintainer_stop(w->maintainer);
    maintainer_free(w->maintainer);
    writer_stop(w->writer);
    writer_free(w->writer);
}

/* ---- jobs ---- */

static bool job_is_back;

static void job_back(struct handoff_item *item)
{
    (void)item;
    job_is_back = true;
}

static void run_job(struct world *w, struct write_job *job)
{
    struct otl_error err = {0};

    job->reply_to = &w->back;
    job->done.run = job_back;
    job_is_back = false;
    must(w, writer_submit(w->writer, job, &err), &err, "submit");
    while (!job_is_back) {
        struct pollfd p = {.fd = w->back.fd, .events = POLLIN};

        (void)poll(&p, 1, -1);
        (void)handoff_drain(&w->back);
    }
}

static enum otl_err rotate(void *arg, struct store *s, struct db *db, struct otl_error *err)
{
    enum otl_err rc = store_rotate(s, KIND_ALL, err);

    (void)arg;
    (void)db;
    return rc == OTL_EBUSY ? OTL_OK : rc;
}

/* ---- inserting ---- */

/* The same values, bit for bit. */
static bool same_values(const struct model_point *a, const struct model_point *b)
{
    return a->flags == b->flags && a->kind == b->kind && a->v == b->v;
}

static void model_insert(struct world *w, const struct model_point *p, struct store_result *r)
{
    for (size_t i = 0; i < w->n; i++) {
        struct model_point *q = &w->points[i];

        if (q->series != p->series || q->time != p->time || q->start_time != p->start_time)
            continue;
        if (same_values(q, p)) {
            r->merged++;
        } else {
            *q = *p;
            r->replaced++;
        }
        return;
    }
    assert_true(w->n < MAX_POINTS);
    w->points[w->n++] = *p;
    r->stored++;
}

static struct model_point draw_point(struct world *w, bool late)
{
    static const uint64_t specials[] = {0x7ff8000000000000, 0x7ff0000000000123, 0x8000000000000000,
                                        0x7ff0000000000000};
    struct model_point p = {.series = (int)draw(w, SERIES)};
    int64_t day = late ? (int64_t)draw(w, DAYS) : DAYS - 1 - (int64_t)draw(w, 2);
    double d;

    p.time = w->first_day_ns + day * PART_DAY_NS +
             (int64_t)draw(w, SLOTS_A_DAY) * (PART_DAY_NS / SLOTS_A_DAY) + (int64_t)draw(w, 2) * 7;
    p.start_time = draw(w, 4) == 0 ? p.time - 1000 : draw(w, 3) == 0 ? w->first_day_ns : 0;
    if (p.series >= NUMBERS) {
        p.v = (int64_t)draw(w, 5);
        return p;
    }
    p.kind = draw(w, 3) == 0 ? VALUE_DOUBLE : VALUE_INT;
    d = (double)draw(w, 50) / 2;
    if (p.kind == VALUE_INT)
        p.v = (int64_t)draw(w, 30) - 5;
    else if (draw(w, 8) == 0)
        p.v = (int64_t)specials[draw(w, 4)];
    else
        memcpy(&p.v, &d, sizeof(p.v));
    if (draw(w, 20) == 0) {
        p.kind = VALUE_NONE;
        p.v = 0;
        p.flags = FLAG_NO_RECORDED_VALUE;
    }
    for (p.exemplars.n = 0; p.exemplars.n < 2 && draw(w, 5) == 0; p.exemplars.n++)
        p.exemplars.value[p.exemplars.n] = (int64_t)draw(w, 1000000);
    return p;
}

static void add_to_batch(struct world *w, const struct model_point *p, const uint32_t *metrics)
{
    struct bytes attributes = fx_attrs_int(w->fx, "s", p->series);
    struct number_point *n;
    double d;

    if (p->series >= NUMBERS) {
        struct histogram_point *h = fx_histogram(w->fx, metrics[1], attributes, p->time, p->v);

        h->p.start_time = p->start_time;
        return;
    }
    memcpy(&d, &p->v, sizeof(d));
    if (p->kind == VALUE_DOUBLE)
        n = fx_double(w->fx, metrics[0], attributes, p->time, d);
    else
        n = fx_int(w->fx, metrics[0], attributes, p->time, p->v);
    n->p.start_time = p->start_time;
    n->p.flags = p->flags;
    n->value.kind = p->kind;
    for (int i = 0; i < p->exemplars.n; i++)
        fx_exemplar(w->fx, &n->p, p->exemplars.value[i]);
}

static void insert(struct world *w)
{
    struct store_result want = {0};
    struct write_job job = {.project_id = 1};
    uint32_t metrics[2];
    size_t n = 1 + (size_t)draw(w, 60);
    bool late = draw(w, 3) == 0;

    fx_reset(w->fx);
    metrics[0] = fx_metric(w->fx, METRIC_GAUGE, "n", "1");
    metrics[1] = fx_metric(w->fx, METRIC_HISTOGRAM, "h", "s");
    for (size_t i = 0; i < n; i++) {
        struct model_point p = draw_point(w, late);

        if (w->n > 0 && draw(w, 10) == 0) /* a resend */
            p = w->points[draw(w, w->n)];
        model_insert(w, &p, &want);
        add_to_batch(w, &p, metrics);
    }
    job.batch = &w->fx->b;
    job.bytes = 1000;
    run_job(w, &job);
    must(w, job.rc, &job.err, "insert");
    /* A late point may be older than what retention dropped, and then it is new again. */
    if (!w->dropped) {
        HOLDS(w, job.result.stored == want.stored);
        HOLDS(w, job.result.merged == want.merged);
        HOLDS(w, job.result.replaced == want.replaced);
    }
}

/* ---- reading ---- */

struct found {
    struct world *w;
    struct model_point *points;
    size_t n;
};

static int series_of(struct world *w, int64_t id)
{
    for (int s = 0; s < SERIES; s++) {
        if (w->ids[s] == id)
            return s;
    }
    fail_msg("seed %llu, step %d: series %lld is none of ours", (unsigned long long)w->seed,
             w->step, (long long)id);
    return -1;
}

static void read_ids(struct world *w)
{
    sqlite3_stmt *st;
    struct otl_error err = {0};

    memset(w->ids, 0, sizeof(w->ids));
    must(w, db_prepare(&w->db, "SELECT id, json_extract(attributes, '$.s') FROM series", &st, &err),
         &err, "read the series");
    while (sqlite3_step(st) == SQLITE_ROW)
        w->ids[sqlite3_column_int(st, 1)] = sqlite3_column_int64(st, 0);
    (void)sqlite3_finalize(st);
}

static enum otl_err take_points(void *arg, int64_t series_id, const struct series_points *p,
                                struct otl_error *err)
{
    struct found *f = arg;
    int series = series_of(f->w, series_id);

    (void)err;
    for (size_t i = 0; i < p->n; i++) {
        struct model_point q = {.series = series,
                                .time = p->time[i],
                                .start_time = p->start_time[i],
                                .flags = (uint32_t)p->flags[i]};

        if (p->kind == KIND_NUMBER) {
            q.kind = (enum value_kind)p->fields[NUMBER_VALUE].kind[i];
            q.v = p->fields[NUMBER_VALUE].v[i];
        } else {
            const struct field_column *c = &p->fields[HISTOGRAM_COUNTS];
            uint32_t from = i == 0 ? 0 : c->end[i - 1];

            HOLDS(f->w, c->end[i] - from == 3);
            q.v = c->v[from];
            HOLDS(f->w, c->v[from + 1] == q.v && c->v[from + 2] == q.v);
            HOLDS(f->w, p->fields[HISTOGRAM_COUNT].v[i] == 3 * q.v);
        }
        HOLDS(f->w, f->n < MAX_POINTS);
        f->points[f->n++] = q;
    }
    return OTL_OK;
}

/* Exemplars belong to points that were found already. */
static enum otl_err take_exemplars(void *arg, int64_t series_id, const struct series_points *p,
                                   struct otl_error *err)
{
    struct found *f = arg;
    int series = series_of(f->w, series_id);

    (void)err;
    for (size_t i = 0; i < p->n; i++) {
        size_t k = 0;

        if (p->fields[EXEMPLAR_VALUE].kind[i] == VALUE_NONE)
            continue;
        while (k < f->n && (f->points[k].series != series || f->points[k].time != p->time[i] ||
                            f->points[k].start_time != p->start_time[i]))
            k++;
        /* Exemplars may outlive a point that retention dropped. */
        if (k == f->n && f->w->retention && p->time[i] < f->w->cutoff_ns)
            continue;
        HOLDS(f->w, k < f->n);
        HOLDS(f->w, f->points[k].exemplars.n < 2);
        f->points[k].exemplars.value[f->points[k].exemplars.n++] = p->fields[EXEMPLAR_VALUE].v[i];
    }
    return OTL_OK;
}

static int in_order(const void *a, const void *b)
{
    const struct model_point *x = a, *y = b;

    if (x->series != y->series)
        return x->series < y->series ? -1 : 1;
    return point_key_compare(x->time, x->start_time, y->time, y->start_time);
}

/* The windows of one series against the points of it. */
static void check_windows(struct world *w, struct read *r)
{
    static const int64_t steps[] = {0, 300, 3600, 7200, 4321, 86400};
    int series = (int)draw(w, NUMBERS);
    int64_t step = steps[draw(w, 6)] * NS_PER_S, hour = 3600 * NS_PER_S;
    int64_t from = w->first_day_ns + (int64_t)draw(w, 24 * DAYS) * hour;
    int64_t to = from + (int64_t)(1 + draw(w, 48)) * hour;
    struct window_query q = {
        .series = &w->ids[series], .n = 1, .n_groups = 1, .from = from, .to = to, .step = step};
    struct otl_error err = {0};
    struct window *windows;
    int64_t n = step == 0 ? 1 : (to - from + step - 1) / step;

    if (w->ids[series] == 0)
        return;
    must(w, read_windows(r, &q, &windows, NULL, &err), &err, "windows");
    for (int64_t k = 0; k < n; k++) {
        int64_t lo = step == 0 ? from : from + k * step, hi = step == 0 ? to : lo + step;
        double sum = 0, min = INFINITY, max = -INFINITY;
        uint64_t count = 0, n_nan = 0;

        hi = hi < to ? hi : to;
        for (size_t i = 0; i < w->n; i++) {
            const struct model_point *p = &w->points[i];
            double d;

            if (p->series != series || p->time < lo || p->time >= hi || p->kind == VALUE_NONE)
                continue;
            memcpy(&d, &p->v, sizeof(d));
            if (p->kind == VALUE_INT)
                d = (double)p->v;
            if (isnan(d)) {
                n_nan++;
                continue;
            }
            count++;
            sum += d;
            min = fmin(min, d);
            max = fmax(max, d);
        }
        HOLDS(w, windows[k].count == count);
        HOLDS(w, count == 0 || (windows[k].min == min && windows[k].max == max));
        HOLDS(w, count == 0 || windows[k].sum == sum || (isnan(sum) && isnan(windows[k].sum)));
        (void)n_nan; /* rollups count points, not NaN */
    }
    free(windows);
}

static void check(struct world *w, bool after_retention)
{
    static struct model_point found[MAX_POINTS];
    const struct read_limits limits = {0};
    struct found f = {w, found, 0};
    struct otl_error err = {0};
    struct read *r;
    size_t kept = 0;

    must(w, read_begin(w->session, &limits, true, &r, &err), &err, "begin to read");
    read_ids(w);
    must(w, read_scan(r, KIND_NUMBER, NULL, 0, INT64_MIN, INT64_MAX, take_points, &f, &err), &err,
         "read numbers");
    must(w, read_scan(r, KIND_HISTOGRAM, NULL, 0, INT64_MIN, INT64_MAX, take_points, &f, &err),
         &err, "read histograms");
    must(w, read_scan(r, KIND_EXEMPLAR, NULL, 0, INT64_MIN, INT64_MAX, take_exemplars, &f, &err),
         &err, "read exemplars");
    qsort(found, f.n, sizeof(*found), in_order);
    qsort(w->points, w->n, sizeof(*w->points), in_order);
    /* Retention works by whole days, so it may leave older points; the model then forgets those
     * that are gone. No younger one may be. */
    for (size_t i = 0; i < w->n; i++) {
        bool gone = kept >= f.n || in_order(&w->points[i], &found[kept]) != 0;

        if (gone && after_retention && w->points[i].time < w->cutoff_ns) {
            w->dropped = true;
            continue;
        }
        w->points[kept++] = w->points[i];
    }
    w->n = kept;
    HOLDS(w, f.n == w->n);
    for (size_t i = 0; i < f.n; i++) {
        HOLDS(w, in_order(&found[i], &w->points[i]) == 0);
        if (!same_values(&found[i], &w->points[i]))
            fail_msg("seed %llu, step %d: series %d, time %lld, start %lld has value %d %llx, "
                     "flags %u, and "
                     "should have %d %llx, %u",
                     (unsigned long long)w->seed, w->step, found[i].series,
                     (long long)found[i].time, (long long)found[i].start_time, (int)found[i].kind,
                     (unsigned long long)found[i].v, found[i].flags, (int)w->points[i].kind,
                     (unsigned long long)w->points[i].v, w->points[i].flags);
        /* Exemplars go by the day, too, and a day of them may be over before that of their points.
         */
        if (w->retention && found[i].time < w->cutoff_ns)
            continue;
        HOLDS(w, found[i].exemplars.n == w->points[i].exemplars.n);
        for (int k = 0; k < found[i].exemplars.n; k++)
            HOLDS(w, found[i].exemplars.value[k] == w->points[i].exemplars.value[k]);
    }
    if (!w->dropped)
        check_windows(w, r);
    read_end(r);
}

/* ---- steps ---- */

static void seal(struct world *w)
{
    struct write_job job = {.task = rotate};
    struct otl_error err = {0};

    run_job(w, &job);
    must(w, job.rc, &job.err, "rotate");
    must(w, seal_closed(w->maintainer, &err), &err, "seal");
}

static void step(struct world *w)
{
    struct otl_error err = {0};
    bool did = false;
    uint64_t what = draw(w, 100);

    if (what < 50) {
        insert(w);
    } else if (what < 70) {
        seal(w);
    } else if (what < 78) {
        must(w, merge_next(w->maintainer, draw(w, 2) == 0, &did, &err), &err, "merge");
    } else if (what < 82) {
        must(w, maintain_compact(w->maintainer, NULL, NULL, &err), &err, "compact");
    } else if (what < 86) {
        must(w, collect_garbage(w->maintainer, &err), &err, "collect");
    } else if (what < 92 && w->retention) {
        must(w, retain_by_age(w->maintainer, &err), &err, "retain");
        check(w, true);
        return;
    } else {
        close_world(w);
        open_world(w);
    }
    check(w, w->retention);
}

static void run_sequence(uint64_t seed, struct fx *fx, struct model_point *points)
{
    struct world w = {.random = seed, .seed = seed, .fx = fx, .points = points};
    struct otl_error err = {0};

    w.dir = fx_dir_new();
    w.first_day_ns = (clock_wall_ns() / PART_DAY_NS - DAYS) * PART_DAY_NS;
    w.cutoff_ns = w.first_day_ns + PART_DAY_NS + (int64_t)draw(&w, (uint64_t)(2 * PART_DAY_NS));
    w.retention = draw(&w, 4) == 0;
    w.rollups = draw(&w, 2) == 0;
    must(&w, handoff_init(&w.back, &err), &err, "start");
    open_world(&w);
    for (w.step = 0; w.step < STEPS; w.step++)
        step(&w);
    close_world(&w);
    handoff_fini(&w.back);
    fx_dir_free(w.dir);
}

static void run_sequences(uint64_t first, uint64_t n)
{
    struct fx *fx = fx_new();
    struct model_point *points = malloc(MAX_POINTS * sizeof(*points));

    assert_non_null(points);
    for (uint64_t seed = first; seed < first + n; seed++)
        run_sequence(seed, fx, points);
    free(points);
    fx_free(fx);
}

static void every_sequence_reads_as_the_model(void **state)
{
    const char *one = getenv("OTLITE_MODEL_SEED"), *many = getenv("OTLITE_MODEL_SEQUENCES");
    uint64_t n = many != NULL ? strtoull(many, NULL, 10) : SEQUENCES;
    pid_t children[PROCESSES];
    int failed = 0, status;
    (void)state;

    log_init(LOG_ERROR, LOG_LOGFMT);
    if (one != NULL) {
        run_sequences(strtoull(one, NULL, 10), 1);
        return;
    }
    for (uint64_t k = 0; k < PROCESSES; k++) {
        children[k] = fork();
        assert_true(children[k] >= 0);
        if (children[k] == 0) {
            run_sequences(1 + k * n / PROCESSES, (k + 1) * n / PROCESSES - k * n / PROCESSES);
            _exit(0); /* a failure goes the usual way, and ends in another status */
        }
    }
    for (int k = 0; k < PROCESSES; k++) {
        assert_int_equal(waitpid(children[k], &status, 0), children[k]);
        failed += status != 0;
    }
    assert_int_equal(failed, 0);
    printf("%llu sequences, seeds 1 to %llu\n", (unsigned long long)n, (unsigned long long)n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sequence_reads_as_the_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
