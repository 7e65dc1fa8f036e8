/* scan_numbers.c -- many series of numbers, for who wants times and values: chunks that meet
 * nothing else are given as they are decoded, without being put together first. */
#include <math.h>

#include "part_internal.h"
#include "read_internal.h"
#include "window_sum.h"

#define EXACT_INTEGERS ((double)(INT64_C(1) << 53))

struct numbers {
    struct scan scan; /* first: that is what each gets */
    const struct number_sink *sink;
    struct chunk_reader reader;
    int64_t block_id;       /* whose columns the reader has */
    struct scan_ring *ring; /* NULL: this is the caller's thread */

    /* The series that runs are given of. */
    int64_t series_id;
    const struct series_points *head;
    unsigned slot;
    bool begun;
};

static enum otl_err give(struct numbers *x, const struct number_run *run, struct otl_error *err)
{
    if (run->n == 0)
        return OTL_OK;
    if (!x->begun && x->ring != NULL) {
        enum otl_err rc = scan_ring_slot(x->ring, &x->slot, err);

        if (rc != OTL_OK)
            return rc;
    }
    x->begun = true;
    return x->sink->run(x->sink->arg, x->slot, x->series_id, run, err);
}

static enum otl_err give_points(struct numbers *x, const struct series_points *p, size_t low,
                                size_t high, struct otl_error *err)
{
    const struct field_column *f = &p->fields[NUMBER_VALUE];
    const size_t n = high - low;
    struct number_run run = {.n = n,
                             .time = p->time + low,
                             .value = f->v + low,
                             .kind = f->kind + low,
                             .flags = p->flags + low};

    /* Mostly they are of one kind, without flags, and then are taken faster. */
    if (n > 0 && run.kind[0] != VALUE_NONE &&
        (n == 1 || memcmp(run.kind, run.kind + 1, n - 1) == 0)) {
        run.all = (enum value_kind)run.kind[0];
        run.kind = NULL;
    }
    if (n > 0 && run.flags[0] == 0 &&
        (n == 1 || memcmp(run.flags, run.flags + 1, (n - 1) * sizeof(*run.flags)) == 0))
        run.flags = NULL;
    return give(x, &run, err);
}

static double number_of(enum value_kind kind, int64_t v)
{
    double d;

    memcpy(&d, &v, sizeof(d));
    return kind == VALUE_INT ? (double)v : d;
}

/* Of integers from 0 up that are exact as doubles, each reset adds what stood before it to the
 * increase. */
static bool has_no_reset(const struct chunk_summary *s)
{
    return s->first_kind == s->last_kind && s->min >= 0 && s->max < EXACT_INTEGERS &&
           s->increase == number_of(s->last_kind, s->last) - number_of(s->first_kind, s->first);
}

/* Are all of the chunk's points wanted as a whole, and does its summary tell of them all? */
static bool is_whole(const struct numbers *x, const struct chunk_summary *s)
{
    const struct number_sink *k = x->sink;
    size_t at;

    if (k->n_edges == 0 || s->n < 2 || s->n_values != s->n || s->n_nan > 0 || !isfinite(s->sum) ||
        s->min_time < x->scan.from || s->max_time == INT64_MAX || s->max_time >= x->scan.to ||
        ((uint64_t)s->max_time - (uint64_t)s->min_time) / (s->n - 1) <
            (uint64_t)k->least_interval ||
        (k->no_reset && !has_no_reset(s)))
        return false;
    /* The first edge behind its first point must be behind its last one. */
    at = window_lower_bound(k->edges, k->n_edges, s->min_time + 1);
    return at == k->n_edges || k->edges[at] > s->max_time;
}

static enum otl_err give_summary(struct numbers *x, const struct chunk_summary *s,
                                 struct otl_error *err)
{
    const struct number_summary known = {
        .first_time = s->min_time,
        .last_time = s->max_time,
        .first_kind = s->first_kind,
        .last_kind = s->last_kind,
        .first = s->first,
        .last = s->last,
        .sum = s->sum,
        .min = s->min,
        .max = s->max,
    };
    const struct number_run run = {.n = s->n, .summary = &known};

    return give(x, &run, err);
}

/* OTL_ECORRUPT: damaged, and not reported yet. */
static enum otl_err give_chunk(struct numbers *x, size_t ref, struct otl_error *err)
{
    struct scan *s = &x->scan;
    const struct chunk_ref *c = &s->refs.refs[ref];
    struct part_block *b = s->refs.blocks[c->place];
    struct chunk_reader *r = &x->reader;
    struct number_run run;
    size_t low, high;
    enum otl_err rc;

    if (is_whole(x, c->summary))
        return give_summary(x, c->summary, err);
    rc = part_block_load(s->r->session->parts, b, err);
    if (rc != OTL_OK)
        return rc;
    if (x->block_id != part_block_id(b))
        chunk_reader_forget(r);
    x->block_id = part_block_id(b);
    rc =
        chunk_reader_numbers(r, part_block_bytes(b), part_block_directory(b), c->chunk, false, err);
    if (rc != OTL_OK)
        return rc;
    low = window_lower_bound(r->time, r->n, s->from);
    high = s->to == INT64_MAX ? r->n : window_lower_bound(r->time, r->n, s->to);
    if (low >= high)
        return OTL_OK;
    run = (struct number_run){.n = high - low,
                              .time = r->time + low,
                              .value = r->value + low,
                              .kind = r->all_int || r->all_double ? NULL : r->kind + low,
                              .all = r->all_int ? VALUE_INT : VALUE_DOUBLE,
                              .flags = r->no_flags ? NULL : r->flags + low};
    return give(x, &run, err);
}

static enum otl_err give_piece(void *arg, size_t first, size_t n, size_t low, size_t high,
                               struct otl_error *err)
{
    struct numbers *x = arg;
    struct scan *s = &x->scan;
    enum otl_err rc;

    if (n == 0)
        return give_points(x, x->head, low, high, err);
    if (n == 1 && low == high) {
        struct otl_error mine = {0};

        rc = read_check(s->r, err);
        if (rc == OTL_OK)
            rc = give_chunk(x, first, &mine);
        if (rc == OTL_OK)
            return rc;
        if (rc != OTL_ECORRUPT) {
            if (err != NULL && mine.code != OTL_OK)
                *err = mine;
            return rc;
        }
    }
    /* Also the way to report damage. */
    series_points_reset(&s->out);
    rc = gather_group(&s->gather, s->r, &s->refs, first, n, x->head, low, high, s->from, s->to,
                      &s->out, err);
    return rc == OTL_OK && s->out.n > 0 ? give_points(x, &s->out, 0, s->out.n, err) : rc;
}

static enum otl_err give_series(struct scan *s, int64_t series_id, size_t first, size_t n,
                                const struct series_points *head, struct otl_error *err)
{
    struct numbers *x = (struct numbers *)(void *)s;
    enum otl_err rc;

    x->series_id = series_id;
    x->head = head;
    x->begun = false;
    rc = gather_walk(&s->refs, first, n, head, give_piece, x, err);
    if (rc != OTL_OK || !x->begun)
        return rc;
    if (x->ring == NULL)
        return x->sink->series(x->sink->arg, x->slot, series_id, err);
    scan_ring_put(x->ring, series_id);
    return OTL_OK;
}

enum otl_err read_numbers(struct read *r, const int64_t *series, size_t n, int64_t from, int64_t to,
                          const struct number_sink *sink, struct otl_error *err)
{
    struct numbers x = {.sink = sink};
    bool done = false;
    enum otl_err rc = scan_init(&x.scan, r, KIND_NUMBER, series, n, from, to, err);

    x.scan.each = give_series;
    if (rc == OTL_OK && x.scan.ids.n >= r->session->shared->ahead_series &&
        x.scan.bytes >= r->session->shared->ahead_bytes) {
        x.ring = scan_ring_new(sink);
        done = x.ring != NULL && scan_ring_run(x.ring, &x.scan, &rc, err);
        scan_ring_free(x.ring);
        x.ring = NULL;
    }
    if (rc == OTL_OK && !done)
        rc = scan_run(&x.scan, err);
    chunk_reader_fini(&x.reader);
    scan_close(&x.scan);
    return rc;
}
