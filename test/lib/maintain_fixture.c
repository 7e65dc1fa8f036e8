#include "maintain_fixture.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"

static void ok(enum otl_err rc, const struct otl_error *err)
{
    if (rc != OTL_OK)
        fail_msg("%s", err->msg);
}

void mf_open(struct mf *f)
{
    struct otl_error err = {0};

    if (f->writer_opts.max_age_ms == 0) {
        f->writer_opts.max_queue_bytes = 1 << 30;
        f->writer_opts.max_queue_jobs = 1000;
        f->writer_opts.max_age_ms = 60000;
        f->writer_opts.store = fx_opts(f->dir);
    }
    f->writer_opts.max_bytes = f->opts.retention.max_bytes;
    f->opts.store = f->writer_opts.store;
    f->opts.idle = true;
    ok(handoff_init(&f->handoff, &err), &err);
    ok(writer_start(&f->writer_opts, &f->writer, &err), &err);
    ok(maintainer_start(&f->opts, f->writer, &f->m, &err), &err);
}

void mf_close(struct mf *f)
{
    if (f->writer == NULL)
        return;
    maintainer_stop(f->m);
    maintainer_free(f->m);
    writer_stop(f->writer);
    writer_free(f->writer);
    handoff_fini(&f->handoff);
    f->m = NULL;
    f->writer = NULL;
}

static void nothing(struct handoff_item *item)
{
    (void)item;
}

enum otl_err mf_store(struct mf *f, struct batch *b)
{
    struct write_job job = {.reply_to = &f->handoff,
                            .done.run = nothing,
                            .batch = b,
                            .project_id = 1,
                            .bytes = (size_t)batch_storable(b) * 64};
    struct pollfd p = {.fd = f->handoff.fd, .events = POLLIN};
    struct otl_error err = {0};

    ok(writer_submit(f->writer, &job, &err), &err);
    do {
        assert_int_equal(poll(&p, 1, 60000), 1);
    } while (handoff_drain(&f->handoff) == 0);
    return job.rc;
}

static enum otl_err rotate(void *arg, struct store *s, struct db *db, struct otl_error *err)
{
    (void)arg;
    (void)db;
    return store_rotate(s, KIND_ALL, err);
}

void mf_seal(struct mf *f)
{
    struct otl_error err = {0};

    f->m->hurry = true;
    ok(seal_all(f->m, &err), &err);
}

void mf_seal_fails(struct mf *f, enum otl_err want)
{
    struct otl_error err = {0};

    f->m->hurry = true;
    ok(maintain_task(f->m, rotate, NULL, &err), &err);
    assert_int_equal(seal_closed(f->m, &err), want);
}

void mf_work(struct mf *f)
{
    struct otl_error err = {0};
    bool more = true;

    while (more)
        ok(maintain_round(f->m, &more, &err), &err);
}

struct adding {
    struct part_batch batch;
    struct part_output out;
};

static enum otl_err publish(void *arg, struct store *s, struct db *db, struct otl_error *err)
{
    struct adding *a = arg;

    (void)s;
    return part_publish(db, &a->out.info, err);
}

int64_t mf_add_part(struct mf *f, enum series_kind kind, int resolution, int64_t day,
                    const struct series_points *series, size_t n)
{
    struct adding *a = calloc(1, sizeof(*a));
    struct otl_error err = {0};
    int64_t id;

    f->m->hurry = true;
    part_batch_init(&a->batch, f->m, "test", "test");
    ok(part_output_init(&a->out, &a->batch, kind, resolution, day, 0, &err), &err);
    for (size_t i = 0; i < n; i++)
        ok(part_output_add(&a->out, (int64_t)i + 1, &series[i], 0, series[i].n, &err), &err);
    ok(part_output_end(&a->out, &err), &err);
    ok(part_batch_flush(&a->batch, &err), &err);
    ok(maintain_task(f->m, publish, a, &err), &err);
    id = a->out.info.id;
    part_output_fini(&a->out);
    part_batch_fini(&a->batch);
    free(a);
    return id;
}

void mf_read_parts(struct mf *f, enum series_kind kind, int resolution, int64_t series_id,
                   struct series_points *out)
{
    struct part_refs refs = {0};
    struct series_points all, one;
    struct otl_error err = {0};
    int64_t last = INT64_MIN;

    series_points_init(&all, kind);
    series_points_init(&one, kind);
    ok(maintain_begin(f->m, &err), &err);
    ok(part_find(f->m->parts, kind, resolution, &series_id, 1, INT64_MIN, INT64_MAX, &refs, &err),
       &err);
    /* By sequence, oldest first, so that the order of insertion decides. */
    for (;;) {
        int64_t next = INT64_MAX;

        for (size_t i = 0; i < refs.n; i++) {
            if (refs.refs[i].sequence > last && refs.refs[i].sequence < next)
                next = refs.refs[i].sequence;
        }
        if (next == INT64_MAX)
            break;
        for (size_t i = 0; i < refs.n; i++) {
            if (refs.refs[i].sequence != next)
                continue;
            series_points_reset(&one);
            ok(part_read_chunk(f->m->parts, &refs, i, INT64_MIN, INT64_MAX, &one, &err), &err);
            assert_true(series_points_append(&all, &one, 0, one.n));
        }
        last = next;
    }
    part_refs_release(f->m->parts, &refs);
    maintain_end(f->m);
    mf_expected(&all, out);
    series_points_fini(&all);
    series_points_fini(&one);
}

static enum otl_err take_points(void *arg, int64_t series_id, const struct series_points *p,
                                struct otl_error *err)
{
    struct series_points *all = arg;

    (void)series_id;
    (void)err;
    assert_true(series_points_append(all, p, 0, p->n));
    return OTL_OK;
}

void mf_read_all(struct mf *f, enum series_kind kind, int64_t series_id, struct series_points *out)
{
    struct series_points all;
    struct head_view view;
    struct otl_error err = {0};

    series_points_init(&all, kind);
    mf_read_parts(f, kind, 0, series_id, out);
    assert_true(series_points_append(&all, out, 0, out->n));
    ok(maintain_begin(f->m, &err), &err);
    ok(head_view_open(f->m->head, kind, &view, &err), &err);
    ok(head_read(f->m->head, &view, &series_id, 1, INT64_MIN, INT64_MAX, take_points, &all, &err),
       &err);
    head_view_close(&view);
    maintain_end(f->m);
    mf_expected(&all, out);
    series_points_fini(&all);
}

struct place {
    int64_t time, start_time;
    size_t i;
};

static int compare_places(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    int c = point_key_compare(x->time, x->start_time, y->time, y->start_time);

    return c != 0 ? c : (x->i > y->i) - (x->i < y->i);
}

void mf_expected(const struct series_points *p, struct series_points *out)
{
    struct place *places = malloc((p->n + 1) * sizeof(*places));

    assert_non_null(places);
    for (size_t i = 0; i < p->n; i++)
        places[i] = (struct place){p->time[i], p->start_time[i], i};
    qsort(places, p->n, sizeof(*places), compare_places);
    series_points_reset(out);
    for (size_t i = 0; i < p->n; i++) {
        if (i + 1 < p->n && places[i].time == places[i + 1].time &&
            places[i].start_time == places[i + 1].start_time)
            continue;
        assert_true(series_points_append(out, p, places[i].i, 1));
    }
    free(places);
}

void mf_assert_equal(const struct series_points *a, const struct series_points *b)
{
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++) {
        if (!series_points_equal(a, i, b, i))
            fail_msg("point %zu of %zu differs, at %lld", i, a->n, (long long)a->time[i]);
    }
}

void mf_random_point(struct series_points *p, int64_t time, int64_t start_time)
{
    const struct series_schema *schema = &series_schemas[p->kind];
    size_t i = p->n;

    assert_true(series_points_reserve(p, 1));
    p->time[i] = time;
    p->start_time[i] = start_time;
    p->flags[i] = random_below(2);
    for (int f = 0; f < schema->n_fields; f++) {
        struct field_column *c = &p->fields[f];
        uint32_t end = i == 0 || c->end == NULL ? 0 : c->end[i - 1], n = random_below(4);
        double d = (double)random_below(1000) / 4;

        switch (schema->fields[f].type) {
        case FIELD_INT:
            c->v[i] = random_below(100);
            break;
        case FIELD_DOUBLE:
        case FIELD_VALUE:
            c->kind[i] = VALUE_DOUBLE;
            memcpy(&c->v[i], &d, sizeof(d));
            break;
        case FIELD_INTS:
        case FIELD_DOUBLES:
            assert_true(series_points_reserve_list(p, f, n));
            for (uint32_t k = 0; k < n; k++)
                c->v[end + k] = random_below(50);
            c->end[i] = end + n;
            break;
        case FIELD_BYTES:
            buf_add(&c->bytes, "abcdefgh", n);
            c->end[i] = end + n;
            break;
        }
    }
    p->n++;
}
