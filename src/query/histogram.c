/* histogram.c -- native histograms: memory, order of buckets, text. */
#include <math.h>
#include <stdlib.h>

#include "format_number.h"
#include "histogram_internal.h"

/* From the smallest double to the largest there are 537,088 buckets of the finest schema; more than
 * twice that comes of damage. */
enum { BUCKETS_MAX = 1 << 20 };

struct prom_histogram *histogram_new(int32_t schema, int32_t pos_first, uint32_t pos_n,
                                     int32_t neg_first, uint32_t neg_n)
{
    struct prom_histogram *h;

    if (pos_n > BUCKETS_MAX || neg_n > BUCKETS_MAX)
        return NULL;
    h = calloc(1, sizeof(*h) + ((size_t)pos_n + neg_n) * sizeof(double));
    if (h == NULL)
        return NULL;
    h->schema = schema;
    h->positive = (struct histogram_buckets){pos_first, pos_n, (double *)(void *)(h + 1)};
    h->negative = (struct histogram_buckets){neg_first, neg_n, h->positive.counts + pos_n};
    return h;
}

struct prom_histogram *histogram_copy(const struct prom_histogram *h)
{
    struct prom_histogram *c = histogram_new(h->schema, h->positive.first, h->positive.n,
                                             h->negative.first, h->negative.n);

    if (c == NULL)
        return NULL;
    c->hint = h->hint;
    c->zero_threshold = h->zero_threshold;
    c->zero_count = h->zero_count;
    c->count = h->count;
    c->sum = h->sum;
    if (h->positive.n > 0)
        memcpy(c->positive.counts, h->positive.counts, h->positive.n * sizeof(double));
    if (h->negative.n > 0)
        memcpy(c->negative.counts, h->negative.counts, h->negative.n * sizeof(double));
    return c;
}

void histogram_free(struct prom_histogram *h)
{
    free(h);
}

size_t histogram_bytes(const struct prom_histogram *h)
{
    return sizeof(*h) + ((size_t)h->positive.n + h->negative.n) * sizeof(double);
}

double histogram_bound(int32_t schema, int64_t i)
{
    int64_t whole, part;

    if (schema <= 0) {
        whole = schema < -62 || i > (INT64_MAX >> -schema) || i < (INT64_MIN >> -schema)
                    ? (i > 0 ? 2048 : -2048)
                    : i * ((int64_t)1 << -schema);
        part = 0;
    } else {
        const int64_t parts = (int64_t)1 << (schema > 62 ? 62 : schema);

        part = ((i % parts) + parts) % parts;
        whole = (i - part) / parts;
    }
    if (whole > 1024 || (whole == 1024 && part > 0))
        return (double)INFINITY;
    /* The largest bucket that doubles need ends at the largest of them. */
    if (whole == 1024)
        return __DBL_MAX__;
    if (whole < -1100)
        return 0;
    return ldexp(part == 0 ? 1 : exp2((double)part / (double)((int64_t)1 << schema)), (int)whole);
}

bool histogram_side_has(const struct histogram_buckets *b)
{
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->counts[i] != 0)
            return true;
    }
    return false;
}

double histogram_place_count(const struct prom_histogram *h, size_t place)
{
    if (place < h->negative.n)
        return h->negative.counts[h->negative.n - 1 - place];
    if (place == h->negative.n)
        return h->zero_count > 0 ? h->zero_count : 0;
    return h->positive.counts[place - h->negative.n - 1];
}

struct histogram_bucket histogram_place(const struct prom_histogram *h, size_t place)
{
    struct histogram_bucket b = {.count = histogram_place_count(h, place)};

    if (place < h->negative.n) {
        const int64_t i = (int64_t)h->negative.first + h->negative.n - 1 - (int64_t)place;

        b.lower = -histogram_bound(h->schema, i);
        b.upper = -histogram_bound(h->schema, i - 1);
        if (b.upper < 0 && b.upper > -h->zero_threshold)
            b.upper = -h->zero_threshold;
    } else if (place == h->negative.n) {
        b.lower = -h->zero_threshold;
        b.upper = h->zero_threshold;
        b.is_zero = true;
    } else {
        const int64_t i = (int64_t)h->positive.first + (int64_t)place - h->negative.n - 1;

        b.lower = histogram_bound(h->schema, i - 1);
        b.upper = histogram_bound(h->schema, i);
        if (b.lower > 0 && b.lower < h->zero_threshold)
            b.lower = h->zero_threshold;
    }
    return b;
}

void histogram_walk(const struct prom_histogram *h,
                    bool (*emit)(void *arg, int boundaries, double lower, double upper,
                                 double count),
                    void *arg)
{
    for (size_t i = 0; i < histogram_places(h); i++) {
        struct histogram_bucket b;

        if (histogram_place_count(h, i) == 0)
            continue;
        b = histogram_place(h, i);
        if (!emit(arg, b.is_zero ? 3 : b.upper > 0 ? 0 : 1, b.lower, b.upper, b.count))
            return;
    }
}

static void print_bucket(struct buf *out, char open, double lower, double upper, char close,
                         double count)
{
    buf_add_str(out, ", ");
    buf_add_char(out, open);
    format_g(out, lower);
    buf_add_char(out, ',');
    format_g(out, upper);
    buf_add_char(out, close);
    buf_add_char(out, ':');
    format_g(out, count);
}

void histogram_print(struct buf *out, const struct prom_histogram *h)
{
    buf_add_str(out, "{count:");
    format_g(out, h->count);
    buf_add_str(out, ", sum:");
    format_g(out, h->sum);
    for (uint32_t k = h->negative.n; k > 0; k--) {
        const int64_t i = (int64_t)h->negative.first + k - 1;

        if (h->negative.counts[k - 1] != 0)
            print_bucket(out, '[', -histogram_bound(h->schema, i),
                         -histogram_bound(h->schema, i - 1), ')', h->negative.counts[k - 1]);
    }
    if (h->zero_count != 0)
        print_bucket(out, '[', -h->zero_threshold, h->zero_threshold, ']', h->zero_count);
    for (uint32_t k = 0; k < h->positive.n; k++) {
        const int64_t i = (int64_t)h->positive.first + k;

        if (h->positive.counts[k] != 0)
            print_bucket(out, '(', histogram_bound(h->schema, i - 1), histogram_bound(h->schema, i),
                         ']', h->positive.counts[k]);
    }
    buf_add_char(out, '}');
}
