/* block_verify.c -- everything in a block against everything else in it. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "block_internal.h"

struct verify {
    void (*damaged)(void *arg, const char *what);
    void *arg;
    uint64_t faults;
};

static void report(struct verify *v, const char *fmt, ...) OTL_PRINTF(2, 3);
static void report(struct verify *v, const char *fmt, ...)
{
    char what[512];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    v->faults++;
    if (v->damaged != NULL)
        v->damaged(v->arg, what);
}

/* By bits, but for NaN: which one a sum gives is the processor's choice. */
static bool same_double(double a, double b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof(a)) == 0;
}

/* The first thing that two summaries disagree on, or NULL. */
static const char *difference(const struct chunk_summary *a, const struct chunk_summary *b)
{
    if (a->min_time != b->min_time)
        return "min_time";
    if (a->max_time != b->max_time)
        return "max_time";
    if (a->n_values != b->n_values)
        return "n_values";
    if (a->n_nan != b->n_nan)
        return "n_nan";
    if (!same_double(a->sum, b->sum))
        return "sum";
    if (!same_double(a->min, b->min))
        return "min";
    if (!same_double(a->max, b->max))
        return "max";
    if (a->first_kind != b->first_kind || a->first != b->first)
        return "first";
    if (a->last_kind != b->last_kind || a->last != b->last)
        return "last";
    if (a->first_value_time != b->first_value_time)
        return "first_value_time";
    if (a->last_value_time != b->last_value_time)
        return "last_value_time";
    if (a->first_value_start != b->first_value_start)
        return "first_value_start";
    if (!same_double(a->increase, b->increase))
        return "increase";
    return NULL;
}

/* p: the points of the chunk. */
static void verify_points(struct verify *v, const struct block_directory *d, uint32_t i,
                          const struct series_points *p)
{
    const struct chunk_summary *is = &d->chunks[i];
    struct chunk_summary want;
    const char *what;

    for (size_t k = 1; k < p->n; k++)
        if (point_key_compare(p->time[k - 1], p->start_time[k - 1], p->time[k], p->start_time[k]) >
            0) {
            report(v,
                   "Chunk %" PRIu32 " (series %" PRId64 ") is damaged: point %zu is before the one "
                   "before it.",
                   i, is->series_id, k);
            return;
        }
    chunk_summarize(p, 0, p->n, is->series_id, &want);
    what = difference(is, &want);
    if (what != NULL)
        report(v,
               "Chunk %" PRIu32 " (series %" PRId64 ") is damaged: its points have another %s than "
               "the directory says.",
               i, is->series_id, what);
}

uint64_t block_verify(struct bytes block, void (*damaged)(void *arg, const char *what), void *arg)
{
    struct verify v = {.damaged = damaged, .arg = arg};
    struct block_directory d;
    struct series_points p;
    struct otl_error err;

    if (block_directory_open(block, &d, &err) != OTL_OK) {
        report(&v, "%s", err.msg);
        return v.faults;
    }
    if (block.n != d.block_bytes) {
        report(&v, "The block has %zu bytes, and %zu by its header.", block.n, d.block_bytes);
        block_directory_fini(&d);
        return v.faults;
    }
    series_points_init(&p, d.kind);
    for (uint32_t i = 0; i < d.n; i++) {
        series_points_reset(&p);
        if (block_read_chunk(block, &d, i, INT64_MIN, INT64_MAX, &p, &err) != OTL_OK)
            report(&v, "%s", err.msg);
        else if (p.n > 0)
            verify_points(&v, &d, i, &p);
    }
    series_points_fini(&p);
    block_directory_fini(&d);
    return v.faults;
}
