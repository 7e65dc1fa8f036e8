/* docs/format.md is the contract: a decoder that was written from that page alone
 * (test/format/decode.js) finds in blocks of every kind and look the points that were put in, and
 * the summaries. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "points_fixture.h"
#include "random.h"
#include "store/block_internal.h"
#include "store/column_pack.h"

static uint64_t bits_of(double d)
{
    uint64_t v;

    memcpy(&v, &d, sizeof(v));
    return v;
}

/* What the decoder prints of a chunk before its points. */
static void chunk_line(struct buf *out, enum series_kind kind, const struct chunk_summary *c)
{
    buf_printf(out, "chunk %" PRId64 " %" PRIu32 " %" PRId64 " %" PRId64, c->series_id, c->n,
               c->min_time, c->max_time);
    if (kind == KIND_NUMBER)
        buf_printf(out,
                   " %" PRIu32 " %" PRIu32 " %d %" PRId64 " %d %" PRId64 " %" PRId64 " %" PRId64
                   " %" PRId64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64,
                   c->n_values, c->n_nan, (int)c->first_kind, c->first, (int)c->last_kind, c->last,
                   c->first_value_time, c->last_value_time, c->first_value_start, bits_of(c->min),
                   bits_of(c->max), bits_of(c->increase), bits_of(c->sum));
    buf_add_char(out, '\n');
}

/* Runs the decoder over block; what it prints is to be want. */
static void assert_decodes(struct bytes block, struct buf *want)
{
    char path[] = "/tmp/otlite-format-XXXXXX", command[100], part[4096];
    struct buf is = {0};
    int fd = mkstemp(path);
    size_t n;
    FILE *f;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, block.p, block.n), block.n);
    close(fd);
    snprintf(command, sizeof(command), "node test/format/decode.js --raw %s", path);
    f = popen(command, "r");
    assert_non_null(f);
    while ((n = fread(part, 1, sizeof(part), f)) > 0)
        buf_add(&is, part, n);
    assert_int_equal(pclose(f), 0);
    unlink(path);
    assert_false(want->failed);
    for (size_t i = 0, line = 1; i < want->n; i++) {
        if (i >= is.n || is.p[i] != want->p[i]) {
            size_t from = i;

            while (from > 0 && want->p[from - 1] != '\n')
                from--;
            fail_msg("line %zu of what was decoded: got %.200s\nexpected %.200s", line,
                     buf_cstr(&is) + from, buf_cstr(want) + from);
        }
        line += want->p[i] == '\n';
    }
    assert_int_equal(is.n, want->n);
    buf_fini(&is);
}

/* Which encodings the streams of a block have, by their first bytes. */
static void note_encodings(struct bytes block, const struct block_directory *d, bool seen[256])
{
    for (uint32_t i = 0; i < d->n * d->streams_per_chunk; i++) {
        struct bytes b = bytes_of(block.p + d->streams[i], block.n - d->streams[i]);
        uint64_t length;

        if (d->streams[i] == 0)
            continue;
        assert_true(pack_take_varint(&b, &length) && length > 0);
        seen[b.p[4]] = true; /* behind the checksum */
    }
}

static void another_program_reads_every_kind(void **state)
{
    static const uint8_t all[] = {0, 1, 2, 3, 4, 5, 16, 17, 18, 32};
    bool seen[256] = {false};

    (void)state;
    if (system("command -v node >/dev/null 2>&1") != 0)
        skip();
    for (int kind = 0; kind < SERIES_KINDS; kind++) {
        struct block_writer *w = block_writer_new((enum series_kind)kind);
        struct series_points points[3 * PF_SHAPES];
        struct block_directory d;
        struct block_info info;
        struct buf block = {0}, want = {0};
        struct otl_error err;

        assert_non_null(w);
        for (unsigned i = 0; i < 3 * PF_SHAPES; i++) {
            series_points_init(&points[i], (enum series_kind)kind);
            pf_add(&points[i], i % 9 == 0 ? 1 + i / 9 : i == 5 ? 700 : 1 + random_below(60), i);
            assert_true(block_writer_add(w, 40 + i / 2 * i, &points[i], 0, points[i].n));
        }
        assert_true(block_writer_take(w, &block, &info));
        assert_int_equal(block_directory_open(buf_bytes(&block), &d, &err), OTL_OK);
        for (unsigned i = 0; i < 3 * PF_SHAPES; i++) {
            chunk_line(&want, (enum series_kind)kind, &d.chunks[i]);
            for (size_t k = 0; k < points[i].n; k++)
                pf_line(&want, 40 + i / 2 * i, &points[i], k);
            series_points_fini(&points[i]);
        }
        assert_decodes(buf_bytes(&block), &want);
        note_encodings(buf_bytes(&block), &d, seen);
        block_directory_fini(&d);
        buf_fini(&block);
        buf_fini(&want);
        block_writer_free(w);
    }
    for (size_t i = 0; i < sizeof(all); i++)
        if (!seen[all[i]])
            fail_msg("no column had encoding %d", all[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_program_reads_every_kind),
    };

    return cmocka_run_group_tests_name("format", tests, NULL, NULL);
}
