/* The head against a naive model, by readers with and without the mirror, in snapshots old and new:
 * random points, replacements, exemplars, failures, another process, rotations, halves that are
 * sealed and emptied under the readers, restarts. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "otlite/clock.h"
#include "otlite/store.h"
#include "store/block.h"
#include "store/head.h"
#include "store/part.h"
#include "store_fixture.h"

enum { SERIES = 5, TIMES = 40, STARTS = 2, SNAPSHOTS = 3, MAX_EXEMPLARS = 4000 };

/* A point, of the head's epoch, or -1: sealed into a part; or no point when epoch is 0. */
struct stored {
    int64_t value, epoch;
};

struct mark {
    int64_t series, time, start, value; /* value 0: a mark */
    int64_t epoch;
};

/* Kinds: numbers, histograms. Series ids: those of numbers from 1 on, those of histograms after. */
struct model {
    struct stored cells[2][SERIES][TIMES][STARTS];
    struct mark exemplars[MAX_EXEMPLARS];
    int n_exemplars;
};

static const enum series_kind kinds[] = {KIND_NUMBER, KIND_HISTOGRAM};
static struct model now;
static struct store_result expect;
static uint64_t seed;

static uint32_t rnd(uint32_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % n;
}

struct snapshot {
    bool open;
    struct db db;
    struct head_reader *reader[2]; /* with and without the mirror */
    struct head_view view[2][HEAD_KINDS];
    struct model model;
};

static char *dir;
static struct fx *f;
static struct store *s;
static struct otl_error err;
static struct snapshot snapshots[SNAPSHOTS];
static uint32_t metrics[2];

static void ok(enum otl_err rc)
{
    if (rc != OTL_OK)
        fail_msg("%s", err.msg);
}

static int setup(void **state)
{
    (void)state;
    dir = fx_dir_new();
    f = fx_new();
    s = fx_store(dir);
    memset(&now, 0, sizeof(now));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    store_free(s);
    fx_free(f);
    fx_dir_free(dir);
    return 0;
}

/* ---- the halves ---- */

static int64_t epoch_of(enum series_kind kind, const char *state)
{
    char sql[160];

    snprintf(sql, sizeof(sql),
             "SELECT coalesce(max(epoch), 0) FROM head WHERE kind = '%s' AND state = '%s'",
             series_schemas[kind].name, state);
    return fx_query(dir, sql);
}

static enum otl_err rotate(void *arg, struct store *st, struct db *db, struct otl_error *e)
{
    (void)db;
    return store_rotate(st, *(const int *)arg, e);
}

static enum otl_err add_chunk(void *arg, int64_t series_id, const struct series_points *p,
                              struct otl_error *e)
{
    (void)e;
    assert_true(block_writer_add(arg, series_id, p, 0, p->n));
    return OTL_OK;
}

/* The closed half as a part of one block. Exemplars are only dropped. */
static enum otl_err seal(void *arg, struct store *st, struct db *db, struct otl_error *e)
{
    const struct head_half_state *h = arg;
    struct part_info part = {.kind = h->kind};
    struct block_info info;
    struct buf data = {0};
    struct block_writer *w = block_writer_new(h->kind);
    struct head_reader *reader;
    struct head_view all, one;

    assert_non_null(w);
    ok(head_reader_open(db, rnd(2) == 0 ? store_mirror(st) : NULL, &reader, e));
    ok(head_view_open(reader, h->kind, &all, e));
    one = all;
    one.n = 1; /* the closed one is the older */
    assert_int_equal(one.halves[0].epoch, h->epoch);
    if (h->kind != KIND_EXEMPLAR)
        ok(head_read(reader, &one, NULL, 0, INT64_MIN, INT64_MAX, add_chunk, w, e));
    head_view_close(&all);
    head_reader_close(reader);
    if (block_writer_chunks(w) > 0) {
        assert_true(block_writer_take(w, &data, &info));
        part.min_time = info.min_time;
        part.max_time = info.max_time;
        part.points = info.points;
        part.blocks = 1;
        part.bytes = data.n;
        ok(part_create(db, &part, e));
        ok(part_add_block(db, part.id, 0, &info, buf_bytes(&data), e));
        ok(part_publish(db, &part, e));
    }
    buf_fini(&data);
    block_writer_free(w);
    return store_seal(st, (int)h->kind, h->half, h->epoch, e);
}

static enum otl_err seal_and_fail(void *arg, struct store *st, struct db *db, struct otl_error *e)
{
    enum otl_err rc = seal(arg, st, db, e);

    return rc != OTL_OK ? rc : otl_fail(e, OTL_EINTERNAL, "as asked");
}

static enum otl_err rotate_and_fail(void *arg, struct store *st, struct db *db, struct otl_error *e)
{
    enum otl_err rc = rotate(arg, st, db, e);

    return rc != OTL_OK ? rc : otl_fail(e, OTL_EINTERNAL, "as asked");
}

static enum otl_err empty(void *arg, struct store *st, struct db *db, struct otl_error *e)
{
    const struct head_half_state *h = arg;

    (void)st;
    return head_empty(db, h->kind, h->half, 0, e);
}

static void model_seal(enum series_kind kind, int64_t epoch)
{
    int kept = 0;

    for (int k = 0; k < 2; k++) {
        struct stored *c = &now.cells[k][0][0][0];

        for (int i = 0; kinds[k] == kind && i < SERIES * TIMES * STARTS; i++) {
            if (c[i].epoch == epoch)
                c[i].epoch = -1;
        }
    }
    for (int i = 0; i < now.n_exemplars; i++) {
        if (kind != KIND_EXEMPLAR || now.exemplars[i].epoch != epoch)
            now.exemplars[kept++] = now.exemplars[i];
    }
    now.n_exemplars = kept;
}

static void seal_closed(bool fails)
{
    struct head_half_state halves[HEAD_KINDS * HEAD_HALVES];
    int n;

    struct db db;
    struct store_opts o = fx_opts(dir);

    ok(store_open_reader(&db, &o, &err));
    ok(head_closed_halves(&db, halves, &n, &err));
    db_close(&db);
    for (int i = 0; i < n; i++) {
        if (fails) {
            assert_int_equal(store_task(s, seal_and_fail, &halves[i], 1000, &err), OTL_EINTERNAL);
            continue;
        }
        ok(store_task(s, seal, &halves[i], 1000, &err));
        model_seal(halves[i].kind, halves[i].epoch);
    }
}

static void empty_sealed(void)
{
    struct head_half_state halves[HEAD_KINDS * HEAD_HALVES];
    struct store_opts o = fx_opts(dir);
    struct db db;
    int n;

    ok(store_open_reader(&db, &o, &err));
    ok(head_sealed_halves(&db, halves, &n, &err));
    db_close(&db);
    for (int i = 0; i < n; i++)
        ok(store_task(s, empty, &halves[i], 1000, &err));
}

/* ---- points ---- */

struct pick {
    uint32_t k, series, time, start;
    int64_t value;
    bool exemplar;
};

static void begin_batch(void)
{
    fx_reset(f);
    metrics[0] = fx_metric(f, METRIC_GAUGE, "n", "1");
    metrics[1] = fx_metric(f, METRIC_HISTOGRAM, "h", "1");
}

static void add_point(const struct pick *p)
{
    struct bytes a = fx_attrs_int(f, "series", p->series);
    struct point *point;

    if (p->k == 0)
        point = &fx_int(f, metrics[0], a, 1 + (int64_t)p->time, p->value)->p;
    else
        point = &fx_histogram(f, metrics[1], a, 1 + (int64_t)p->time, p->value)->p;
    point->start_time = p->start;
    if (p->exemplar)
        fx_exemplar(f, point, p->value);
}

static void model_exemplar(const struct pick *p, int64_t value)
{
    assert_true(now.n_exemplars < MAX_EXEMPLARS);
    now.exemplars[now.n_exemplars++] =
        (struct mark){(int64_t)p->k * SERIES + p->series + 1, 1 + (int64_t)p->time, p->start, value,
                      epoch_of(KIND_EXEMPLAR, "open")};
}

/* The batch's points of one kind, whose keys differ: marks, then exemplars. */
static void model_points(const struct pick *picks, uint32_t n, uint32_t k)
{
    int64_t epoch = epoch_of(kinds[k], "open");
    bool writes[16];

    for (uint32_t i = 0; i < n; i++) {
        const struct stored *c = &now.cells[k][picks[i].series][picks[i].time][picks[i].start];

        writes[i] = picks[i].k == k && (c->epoch == 0 || c->value != picks[i].value);
        expect.stored += writes[i] && c->epoch == 0;
        expect.replaced += writes[i] && c->epoch != 0;
        expect.merged += picks[i].k == k && !writes[i];
        if (writes[i] && c->epoch != 0)
            model_exemplar(&picks[i], 0);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!writes[i])
            continue;
        if (picks[i].exemplar)
            model_exemplar(&picks[i], picks[i].value);
        now.cells[k][picks[i].series][picks[i].time][picks[i].start] =
            (struct stored){picks[i].value, epoch};
    }
}

static void put(bool fails)
{
    struct store_result r;
    struct pick picks[16];
    uint32_t n = 1 + rnd(8);

    begin_batch();
    for (uint32_t i = 0; i < n; i++) {
        struct pick p = {rnd(2), rnd(SERIES), rnd(TIMES), rnd(4) == 0, 1 + rnd(3), rnd(4) == 0};

        picks[i] = p;
        for (uint32_t j = 0; j < i; j++) {
            if (picks[j].k == p.k && picks[j].series == p.series && picks[j].time == p.time &&
                picks[j].start == p.start) {
                i--; /* again */
                break;
            }
        }
    }
    for (uint32_t i = 0; i < n && fails; i++) {
        picks[i].value = 7; /* which nothing has, so that all are written */
        picks[i].exemplar = true;
    }
    for (uint32_t i = 0; i < n; i++)
        add_point(&picks[i]);
    if (fails) {
        fx_exec(dir, "CREATE TRIGGER stop_0 BEFORE INSERT ON exemplar_head_0 BEGIN SELECT"
                     " RAISE(ABORT, 'injected'); END; CREATE TRIGGER stop_1 BEFORE INSERT ON"
                     " exemplar_head_1 BEGIN SELECT RAISE(ABORT, 'injected'); END");
        assert_int_equal(store_batch(s, 1, &f->b, 1000, &r, &err), OTL_EDB);
        fx_exec(dir, "DROP TRIGGER stop_0; DROP TRIGGER stop_1");
        return;
    }
    ok(store_batch(s, 1, &f->b, 1000, &r, &err));
    expect = (struct store_result){0};
    model_points(picks, n, 0);
    model_points(picks, n, 1);
    assert_int_equal(r.stored, expect.stored);
    assert_int_equal(r.merged, expect.merged);
    assert_int_equal(r.replaced, expect.replaced);
}

/* Another process appends a number to the open half; the store hears of it in its next transaction.
 */
static void put_from_outside(void)
{
    char sql[300];
    uint32_t series = rnd(SERIES), time = rnd(TIMES);
    int64_t epoch = epoch_of(KIND_NUMBER, "open");

    snprintf(sql, sizeof(sql),
             "INSERT INTO number_head_%d(series_id, time, start_time, flags, value)"
             " VALUES (%u, %u, 0, 0, 9)",
             (int)fx_query(dir, "SELECT half FROM head WHERE kind = 'number' AND state = 'open'"),
             series + 1, time + 1);
    fx_exec(dir, sql);
    now.cells[0][series][time][0] = (struct stored){9, epoch};
}

/* ---- reading ---- */

static void begin_snapshot(struct snapshot *p)
{
    struct store_opts o = fx_opts(dir);

    memset(&p->db, 0, sizeof(p->db));
    ok(store_open_reader(&p->db, &o, &err));
    ok(db_exec(&p->db, "BEGIN", &err));
    for (int i = 0; i < 2; i++) {
        ok(head_reader_open(&p->db, i == 0 ? store_mirror(s) : NULL, &p->reader[i], &err));
        for (int k = 0; k < HEAD_KINDS; k++)
            ok(head_view_open(p->reader[i], (enum series_kind)k, &p->view[i][k], &err));
    }
    p->model = now;
    p->open = true;
}

static void end_snapshot(struct snapshot *p)
{
    if (!p->open)
        return;
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < HEAD_KINDS; k++)
            head_view_close(&p->view[i][k]);
        head_reader_close(p->reader[i]);
    }
    db_close(&p->db);
    p->open = false;
}

static enum otl_err print_points(void *arg, int64_t series_id, const struct series_points *p,
                                 struct otl_error *e)
{
    struct buf *b = arg;

    (void)e;
    for (size_t i = 0; i < p->n; i++) {
        int64_t value = p->kind == KIND_NUMBER      ? p->fields[NUMBER_VALUE].v[i]
                        : p->kind == KIND_HISTOGRAM ? p->fields[HISTOGRAM_COUNT].v[i] / 3
                                                    : p->fields[EXEMPLAR_VALUE].v[i];

        buf_printf(b, "%lld@%lld+%lld=%lld ", (long long)series_id, (long long)p->time[i],
                   (long long)p->start_time[i], (long long)value);
    }
    return OTL_OK;
}

static bool asked(const int64_t *series, size_t n, int64_t id)
{
    for (size_t i = 0; series != NULL && i < n; i++) {
        if (series[i] == id)
            return true;
    }
    return series == NULL;
}

static void print_model(struct buf *b, const struct model *m, enum series_kind kind,
                        const int64_t *series, size_t n, int64_t from, int64_t to)
{
    for (int64_t id = 1; id <= 2 * SERIES; id++) {
        int k = id > SERIES;

        if (!asked(series, n, id))
            continue;
        for (int64_t t = 0; t < TIMES * STARTS && kind != KIND_EXEMPLAR && kinds[k] == kind; t++) {
            const struct stored *c = &m->cells[k][(id - 1) % SERIES][t / STARTS][t % STARTS];

            if (c->epoch > 0 && t / STARTS + 1 >= from && t / STARTS + 1 < to)
                buf_printf(b, "%lld@%lld+%lld=%lld ", (long long)id, (long long)(t / STARTS + 1),
                           (long long)(t % STARTS), (long long)c->value);
        }
        /* In the order of keys, and of one key in that of arrival. */
        for (int64_t j = 0; kind == KIND_EXEMPLAR && j < TIMES * STARTS * m->n_exemplars; j++) {
            const struct mark *e = &m->exemplars[j % m->n_exemplars];
            int64_t t = j / m->n_exemplars;

            if (e->series == id && e->time >= from && e->time < to && e->time == t / STARTS + 1 &&
                e->start == t % STARTS)
                buf_printf(b, "%lld@%lld+%lld=%lld ", (long long)id, (long long)e->time,
                           (long long)e->start, (long long)e->value);
        }
    }
}

/* A reader of another process that keeps a mirror from one transaction to the next. */
static struct {
    struct db db;
    struct head_reader *reader;
} keeper;

static void check_keeper(void)
{
    static const enum series_kind read[] = {KIND_NUMBER, KIND_HISTOGRAM, KIND_EXEMPLAR};
    struct store_opts o = fx_opts(dir);

    if (keeper.reader == NULL) {
        ok(store_open_reader(&keeper.db, &o, &err));
        ok(head_reader_open(&keeper.db, NULL, &keeper.reader, &err));
        ok(head_reader_keep(keeper.reader, &err));
    }
    ok(db_exec(&keeper.db, "BEGIN", &err));
    for (size_t k = 0; k < sizeof(read) / sizeof(read[0]); k++) {
        int64_t series = 1 + rnd(2 * SERIES);
        bool all = rnd(2) == 0;
        struct buf is = {0}, want = {0};
        struct head_view v;

        ok(head_view_open(keeper.reader, read[k], &v, &err));
        for (int i = 0; i < v.n; i++) /* it holds all of them, which is why it is quick */
            assert_int_equal(v.halves[i].mirrored, v.halves[i].max_id);
        ok(head_read(keeper.reader, &v, all ? NULL : &series, 1, 0, INT64_MAX, print_points, &is,
                     &err));
        head_view_close(&v);
        print_model(&want, &now, read[k], all ? NULL : &series, 1, 0, INT64_MAX);
        assert_string_equal(buf_cstr(&is), buf_cstr(&want));
        buf_fini(&is);
        buf_fini(&want);
    }
    ok(db_exec(&keeper.db, "COMMIT", &err));
}

static void close_keeper(void)
{
    head_reader_close(keeper.reader);
    db_close(&keeper.db);
    keeper.reader = NULL;
}

static void check(struct snapshot *p)
{
    static const enum series_kind read[] = {KIND_NUMBER, KIND_HISTOGRAM, KIND_EXEMPLAR};

    for (size_t k = 0; k < sizeof(read) / sizeof(read[0]); k++) {
        int64_t series[2 * SERIES], from = 0, to = INT64_MAX;
        bool all = rnd(2) == 0;
        uint32_t most = 1 + rnd(8); /* few: by chains; nearly all: by reading every row */
        size_t n = 0;

        for (int64_t id = 1; id <= 2 * SERIES; id++) {
            if (rnd(most) == 0)
                series[n++] = id;
        }
        if (rnd(2) == 0) {
            from = rnd(TIMES);
            to = from + rnd(TIMES);
        }
        for (int i = 0; i < 2; i++) {
            struct buf is = {0}, want = {0};

            if (rnd(2) == 0) { /* the snapshot is the same, and the mirror may have gone on */
                head_view_close(&p->view[i][read[k]]);
                ok(head_view_open(p->reader[i], read[k], &p->view[i][read[k]], &err));
            }
            ok(head_read(p->reader[i], &p->view[i][read[k]], all ? NULL : series, n, from, to,
                         print_points, &is, &err));
            print_model(&want, &p->model, read[k], all ? NULL : series, n, from, to);
            assert_string_equal(buf_cstr(&is), buf_cstr(&want));
            buf_fini(&is);
            buf_fini(&want);
        }
    }
}

static void restart(void)
{
    for (int i = 0; i < SNAPSHOTS; i++)
        end_snapshot(&snapshots[i]);
    store_free(s);
    s = fx_store(dir);
}

static void readers_agree_with_the_model(void **state)
{
    struct store_result r;
    struct pick p = {0, 0, 0, 0, 1, false};

    (void)state;
    seed = 4;
    begin_batch();
    for (p.k = 0; p.k < 2; p.k++) {
        for (p.series = 0; p.series < SERIES; p.series++)
            add_point(&p);
    }
    ok(store_batch(s, 1, &f->b, 1000, &r, &err));
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < SERIES; i++)
            now.cells[k][i][0][0] = (struct stored){1, 1};
    }
    for (int i = 0; i < 3000; i++) {
        struct snapshot *at = &snapshots[rnd(SNAPSHOTS)];
        uint32_t what = rnd(100);
        int kind = rnd(3) == 0 ? KIND_ALL : (int)rnd(HEAD_KINDS);

        if (what < 50) {
            put(false);
        } else if (what < 52) {
            put(true);
        } else if (what < 55) {
            put_from_outside();
        } else if (what < 60) {
            enum otl_err rc = store_task(s, rotate, &kind, 1000, &err);

            assert_true(rc == OTL_OK || rc == OTL_EBUSY);
        } else if (what < 62) {
            assert_int_not_equal(store_task(s, rotate_and_fail, &kind, 1000, &err), OTL_OK);
        } else if (what < 66) {
            seal_closed(false);
        } else if (what < 67) {
            seal_closed(true);
        } else if (what < 72) {
            empty_sealed();
        } else if (what < 73) {
            restart();
        } else if (at->open && what < 80) {
            end_snapshot(at);
        } else if (at->open) {
            check(at);
            check_keeper();
        } else {
            begin_snapshot(at);
        }
    }
    for (int i = 0; i < SNAPSHOTS; i++) {
        if (snapshots[i].open)
            check(&snapshots[i]);
        end_snapshot(&snapshots[i]);
    }
    close_keeper();
    /* All of it took place. */
    assert_true(epoch_of(KIND_NUMBER, "open") > 5 && epoch_of(KIND_EXEMPLAR, "open") > 5);
}

/* ---- many rows, and series ids far apart ---- */

struct compare {
    sqlite3_stmt *rows;
    int64_t n;
};

static enum otl_err compare_rows(void *arg, int64_t series_id, const struct series_points *p,
                                 struct otl_error *e)
{
    struct compare *c = arg;

    (void)e;
    for (size_t i = 0; i < p->n; i++, c->n++) {
        assert_int_equal(sqlite3_step(c->rows), SQLITE_ROW);
        assert_int_equal(sqlite3_column_int64(c->rows, 0), series_id);
        assert_int_equal(sqlite3_column_int64(c->rows, 1), p->time[i]);
        assert_int_equal(sqlite3_column_int64(c->rows, 2), p->fields[NUMBER_VALUE].v[i]);
    }
    return OTL_OK;
}

static void many_rows_come_in_order(void **state)
{
    static const char *const conditions[] = {"1", "series_id % 3 = 0", "series_id IN (1, 90001)"};
    struct store_opts o = fx_opts(dir);

    (void)state;
    store_free(s); /* or the mirror would hear of the rows with the next transaction only */
    fx_exec(dir, "WITH RECURSIVE n(i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM n WHERE i < 49999)"
                 " INSERT INTO number_head_0(series_id, time, start_time, flags, value)"
                 " SELECT i * 7919 % 50000 * 4 + 1, (i * 31) % 977, 0, 0, i FROM n");
    fx_exec(dir, "DELETE FROM number_head_0 WHERE id = 40000"); /* the mirror ends here */
    s = fx_store(dir);
    for (size_t k = 0; k < sizeof(conditions) / sizeof(conditions[0]); k++) {
        for (int with = 0; with < 2; with++) {
            struct head_reader *reader;
            struct compare c = {NULL, 0};
            struct head_view v;
            struct db db;
            sqlite3_stmt *list;
            int64_t *series = malloc(50000 * sizeof(*series));
            size_t n = 0;
            char sql[300];

            assert_non_null(series);
            ok(store_open_reader(&db, &o, &err));
            ok(db_exec(&db, "BEGIN", &err));
            ok(head_reader_open(&db, with == 1 ? store_mirror(s) : NULL, &reader, &err));
            ok(head_view_open(reader, KIND_NUMBER, &v, &err));
            assert_int_equal(v.halves[0].mirrored, with == 1 ? 39999 : 0);
            snprintf(sql, sizeof(sql),
                     "SELECT series_id, time, value FROM number_head_0 WHERE %s"
                     " ORDER BY series_id, time",
                     conditions[k]);
            ok(db_prepare(&db, sql, &c.rows, &err));
            snprintf(sql, sizeof(sql),
                     "SELECT DISTINCT series_id FROM number_head_0 WHERE %s ORDER BY series_id",
                     conditions[k]);
            ok(db_prepare(&db, sql, &list, &err));
            while (sqlite3_step(list) == SQLITE_ROW)
                series[n++] = sqlite3_column_int64(list, 0);
            ok(head_read(reader, &v, k == 0 ? NULL : series, n, INT64_MIN, INT64_MAX, compare_rows,
                         &c, &err));
            assert_int_equal(sqlite3_step(c.rows), SQLITE_DONE);
            assert_true(c.n > 0);
            sqlite3_finalize(c.rows);
            sqlite3_finalize(list);
            free(series);
            head_view_close(&v);
            head_reader_close(reader);
            db_close(&db);
        }
    }
}

/* A row that is no point is left out, and the rest is there. */
static void a_row_that_is_no_point_is_left_out(void **state)
{
    (void)state;
    store_free(s);
    fx_exec(dir, "INSERT INTO number_head_0 VALUES (1, 1, 5, 0, 0, 1), (2, 1, 6, 0, 0, 'text'),"
                 " (3, 1, 7, 0, -1, 1), (4, 1, 8, 0, 0, x'00'), (5, -3, 9, 0, 0, 1),"
                 " (6, 1, 10, 0, 0, 2);"
                 "INSERT INTO histogram_head_0 VALUES (1, 2, 5, 0, 0, 3, 1.0, NULL, NULL, 1,"
                 " '[1,x]'), (2, 2, 6, 0, 0, 3, 1.0, NULL, NULL, NULL, NULL)");
    s = fx_store(dir);
    for (int with = 0; with < 2; with++) {
        struct snapshot *p = &snapshots[0];
        struct buf is = {0};

        begin_snapshot(p);
        ok(head_read(p->reader[with], &p->view[with][KIND_NUMBER], NULL, 0, 0, 100, print_points,
                     &is, &err));
        ok(head_read(p->reader[with], &p->view[with][KIND_HISTOGRAM], NULL, 0, 0, 100, print_points,
                     &is, &err));
        assert_string_equal(buf_cstr(&is), "1@5+0=1 1@10+0=2 2@6+0=1 ");
        buf_fini(&is);
        end_snapshot(p);
    }
}

/* ---- limits ---- */

static void reopen(int64_t rows, int64_t bytes, int64_t age_ms)
{
    struct store_opts o = fx_opts(dir);

    o.head_max_rows = rows;
    o.head_max_bytes = bytes;
    o.head_max_age_ms = age_ms;
    store_free(s);
    ok(store_new(&o, &s, &err));
}

static enum otl_err put_n(uint32_t k, int64_t from, int n)
{
    struct store_result r;

    begin_batch();
    for (int i = 0; i < n; i++) {
        struct bytes a = fx_attrs_int(f, "series", 0);

        if (k == 0)
            fx_int(f, metrics[0], a, from + i, i);
        else
            fx_histogram(f, metrics[1], a, from + i, i);
    }
    return store_batch(s, 1, &f->b, 1000, &r, &err);
}

static void a_full_half_is_closed_and_a_head_that_stays_full_refuses(void **state)
{
    (void)state;
    reopen(1000, 0, 0);
    ok(put_n(0, 1, 999));
    ok(put_n(0, 1000, 1));
    assert_int_equal(epoch_of(KIND_NUMBER, "open"), 1);
    for (int i = 0; i < 5; i++) /* the other half cannot be opened: this one goes on to 4,000 */
        ok(put_n(0, 1001 + i * 800, 800));
    assert_int_equal(epoch_of(KIND_NUMBER, "open"), 2);
    assert_int_equal(epoch_of(KIND_NUMBER, "closed"), 1);
    assert_int_equal(fx_query(dir, "SELECT count(*) FROM number_head_1"), 4000);
    assert_int_equal(put_n(0, 9001, 1), OTL_EBUSY);
    assert_non_null(strstr(err.msg, "kind number because sealing does not keep up"));
    ok(put_n(1, 1, 1)); /* another kind has room */
    reopen(1000, 0, 0); /* and so it is after a start */
    assert_int_equal(put_n(0, 9001, 1), OTL_EBUSY);
    seal_closed(false);
    assert_int_equal(put_n(0, 9001, 1), OTL_EBUSY); /* sealed, not emptied */
    empty_sealed();
    ok(put_n(0, 9001, 1));
    assert_int_equal(epoch_of(KIND_NUMBER, "open"), 3);
    assert_int_equal(fx_query(dir, "SELECT count(*) FROM number_head_0"), 1);
    assert_int_equal(fx_query(dir, "SELECT min(id) FROM number_head_0"), 1);
    assert_int_equal(fx_query(dir, "SELECT count(*) FROM number_head"), 4001);
    assert_int_equal(fx_query(dir, "SELECT count(*) FROM number_point"), 5001);
}

static void bytes_and_age_close_a_half_too(void **state)
{
    int64_t since;

    (void)state;
    reopen(0, 20000, 0);
    ok(put_n(1, 1, 100)); /* about 70 bytes each */
    ok(put_n(1, 101, 1));
    assert_int_equal(epoch_of(KIND_HISTOGRAM, "open"), 1);
    ok(put_n(1, 201, 300));
    ok(put_n(1, 501, 1));
    assert_int_equal(epoch_of(KIND_HISTOGRAM, "open"), 2);
    reopen(0, 0, 20);
    ok(put_n(0, 1, 1));
    since = clock_mono_ns();
    while (clock_mono_ns() - since < 20 * NS_PER_MS)
        continue;
    ok(put_n(0, 2, 1));
    assert_int_equal(epoch_of(KIND_NUMBER, "open"), 2);
    assert_int_equal(fx_query(dir, "SELECT count(*) FROM number_head_1"), 1);
    assert_int_equal(epoch_of(KIND_SUMMARY, "open"), 1); /* empty ones do not age */
}

static void damaged_latest_times_lose_no_duplicate(void **state)
{
    struct store_result r;
    int kind = KIND_NUMBER;

    (void)state;
    begin_batch();
    for (uint32_t i = 0; i < 3; i++)
        fx_int(f, metrics[0], fx_attrs_int(f, "series", i), 100 + (int64_t)i, i);
    ok(store_batch(s, 1, &f->b, 1000, &r, &err));
    ok(store_task(s, rotate, &kind, 1000, &err));
    seal_closed(false);
    empty_sealed();
    for (int pass = 0; pass < 3; pass++) {
        store_free(s);
        if (pass == 1)
            fx_exec(dir, "UPDATE series_last_time SET last_times = x'ff'");
        if (pass == 2)
            fx_exec(dir, "DELETE FROM series_last_time");
        s = fx_store(dir);
        ok(store_batch(s, 1, &f->b, 1000, &r, &err));
        assert_int_equal(r.merged, 3);
    }
    f->b.numbers[0].value.u.i = 77;
    ok(store_batch(s, 1, &f->b, 1000, &r, &err));
    assert_int_equal(r.merged, 2);
    assert_int_equal(r.replaced, 1);
}

static void series_ids_end_where_the_mirror_ends(void **state)
{
    struct store_result r;

    (void)state;
    ok(put_n(0, 1, 1));
    fx_exec(dir,
            "INSERT INTO series VALUES (4294967294, 1, '{\"x\":1}', x'010178690000000000000001')");
    begin_batch();
    fx_int(f, metrics[0], fx_attrs_int(f, "series", 1), 1, 1);
    ok(store_batch(s, 1, &f->b, 1000, &r, &err));
    assert_int_equal(fx_query(dir, "SELECT max(series_id) FROM number_point"), 4294967295);
    begin_snapshot(&snapshots[0]);
    {
        const int64_t last = UINT32_MAX;
        struct buf is = {0};

        ok(head_read(snapshots[0].reader[0], &snapshots[0].view[0][KIND_NUMBER], &last, 1, 0, 100,
                     print_points, &is, &err));
        assert_string_equal(buf_cstr(&is), "4294967295@1+0=1 ");
        buf_fini(&is);
    }
    end_snapshot(&snapshots[0]);
    begin_batch();
    fx_int(f, metrics[0], fx_attrs_int(f, "series", 2), 1, 1);
    assert_int_equal(store_batch(s, 1, &f->b, 1000, &r, &err), OTL_ETOOBIG);
    assert_non_null(strstr(err.msg, "4294967296"));
}

/* ---- beside the writer ---- */

static atomic_bool reading;

/* In every snapshot the mirror and the table together have each row once. */
static void *read_on(void *arg)
{
    struct store_opts o = fx_opts(dir);
    struct otl_error e;
    struct db db;
    struct head_reader *reader;
    int64_t last = 0;

    (void)arg;
    assert_int_equal(store_open_reader(&db, &o, &e), OTL_OK);
    assert_int_equal(head_reader_open(&db, store_mirror(s), &reader, &e), OTL_OK);
    while (reading) {
        struct head_view v;
        struct buf is = {0};
        int64_t stored, n = 0;

        assert_int_equal(db_exec(&db, "BEGIN", &e), OTL_OK);
        assert_int_equal(head_view_open(reader, KIND_NUMBER, &v, &e), OTL_OK);
        assert_int_equal(head_read(reader, &v, NULL, 0, 0, INT64_MAX, print_points, &is, &e),
                         OTL_OK);
        for (size_t i = 0; i < is.n; i++)
            n += is.p[i] == ' ';
        head_view_close(&v);
        assert_int_equal(db_query_int(&db,
                                      "SELECT (SELECT count(*) FROM number_head_0 WHERE"
                                      " (SELECT state <> 'sealed' FROM head WHERE kind = 'number'"
                                      " AND half = 0)) + (SELECT count(*) FROM number_head_1 WHERE"
                                      " (SELECT state <> 'sealed' FROM head WHERE kind = 'number'"
                                      " AND half = 1))",
                                      &stored, &e),
                         OTL_OK);
        assert_int_equal(n, stored);
        last = stored;
        buf_fini(&is);
        assert_int_equal(db_exec(&db, "COMMIT", &e), OTL_OK);
    }
    head_reader_close(reader);
    db_close(&db);
    return last < 0 ? arg : NULL;
}

static void readers_run_beside_the_writer(void **state)
{
    int kind = KIND_NUMBER;
    pthread_t threads[2];

    (void)state;
    reading = true;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_on, NULL), 0);
    for (int i = 0; i < 300; i++) {
        struct store_result r;

        begin_batch();
        for (uint32_t j = 0; j < 100; j++)
            fx_int(f, metrics[0], fx_attrs_int(f, "series", j % 30), 1 + i * 100 + (int64_t)j, i);
        ok(store_batch(s, 1, &f->b, 1000, &r, &err));
        if (i % 50 == 49) {
            ok(store_task(s, rotate, &kind, 1000, &err));
            seal_closed(false);
            empty_sealed();
        }
    }
    reading = false;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(readers_agree_with_the_model),
        CASE(many_rows_come_in_order),
        CASE(a_row_that_is_no_point_is_left_out),
        CASE(a_full_half_is_closed_and_a_head_that_stays_full_refuses),
        CASE(bytes_and_age_close_a_half_too),
        CASE(damaged_latest_times_lose_no_duplicate),
        CASE(series_ids_end_where_the_mirror_ends),
        CASE(readers_run_beside_the_writer),
    };

    return cmocka_run_group_tests_name("head", tests, NULL, NULL);
}
