#include "parts_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"

static void must(enum otl_err rc, const struct otl_error *err)
{
    if (rc != OTL_OK)
        fail_msg("%s: %s", otl_err_text(rc), err->msg);
}

void fx_part_init(struct fx_part *p, enum series_kind kind, int resolution, int64_t day)
{
    *p = (struct fx_part){.info = {.kind = kind, .resolution = resolution, .day = day}};
}

void fx_part_fini(struct fx_part *p)
{
    for (size_t i = 0; i < p->n; i++)
        series_points_fini(&p->runs[i].points);
    free(p->runs);
}

struct series_points *fx_part_series(struct fx_part *p, int64_t series_id)
{
    assert_true(p->n == 0 || p->runs[p->n - 1].series_id < series_id);
    if (p->n == p->cap) {
        p->cap = p->cap * 2 + 16;
        p->runs = realloc(p->runs, p->cap * sizeof(*p->runs));
        assert_non_null(p->runs);
    }
    p->runs[p->n].series_id = series_id;
    series_points_init(&p->runs[p->n].points, p->info.kind);
    return &p->runs[p->n++].points;
}

static void write_block(struct db *db, struct fx_part *p, struct block_writer *w)
{
    struct block_info info;
    struct otl_error err;
    struct buf data = {0};

    if (block_writer_chunks(w) == 0)
        return;
    assert_true(block_writer_take(w, &data, &info));
    must(part_add_block(db, p->info.id, (uint32_t)p->info.blocks, &info, buf_bytes(&data), &err),
         &err);
    if (p->info.blocks == 0 || info.min_time < p->info.min_time)
        p->info.min_time = info.min_time;
    if (p->info.blocks == 0 || info.max_time > p->info.max_time)
        p->info.max_time = info.max_time;
    p->info.blocks++;
    p->info.points += info.points;
    p->info.bytes += data.n;
    buf_fini(&data);
}

void fx_part_write(struct db *db, struct fx_part *p, size_t max_chunk, bool random)
{
    struct block_writer *w = block_writer_new(p->info.kind);
    struct otl_error err;

    assert_non_null(w);
    must(part_create(db, &p->info, &err), &err);
    for (size_t i = 0; i < p->n; i++) {
        const struct series_points *s = &p->runs[i].points;

        for (size_t at = 0, n; at < s->n; at += n) {
            n = random ? 1 + random_below((unsigned)max_chunk) : max_chunk;
            n = n < s->n - at ? n : s->n - at;
            assert_true(block_writer_add(w, p->runs[i].series_id, s, at, n));
            if (block_writer_is_full(w) || (random && random_below(6) == 0))
                write_block(db, p, w);
        }
    }
    write_block(db, p, w);
    block_writer_free(w);
}

void fx_part_publish(struct db *db, const struct fx_part *p)
{
    struct otl_error err;

    must(part_publish(db, &p->info, &err), &err);
}
