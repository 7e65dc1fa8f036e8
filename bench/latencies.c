#include "latencies.h"

#include <string.h>

/* Bucket of v: its own value below 64; above, the six bits after the leading one within a row of
 * 64 buckets for each power of two. */
static unsigned bucket_of(uint64_t v)
{
    unsigned exponent, shift;

    if (v < HISTOGRAM_SUB)
        return (unsigned)v;
    exponent = 63U - (unsigned)__builtin_clzll(v);
    shift = exponent - HISTOGRAM_SUB_BITS;
    return (shift + 1U) * HISTOGRAM_SUB + (unsigned)((v >> shift) - HISTOGRAM_SUB);
}

/* The largest value that falls into bucket i. */
static int64_t bucket_top(unsigned i)
{
    unsigned shift;
    uint64_t base;

    if (i < HISTOGRAM_SUB)
        return (int64_t)i;
    shift = i / HISTOGRAM_SUB - 1U;
    base = (uint64_t)(i % HISTOGRAM_SUB + HISTOGRAM_SUB);
    return (int64_t)(((base + 1U) << shift) - 1U);
}

void latencies_reset(struct latencies *h)
{
    memset(h, 0, sizeof(*h));
}

void latencies_add(struct latencies *h, int64_t value)
{
    if (value < 0)
        value = 0;
    h->buckets[bucket_of((uint64_t)value)]++;
    if (h->count == 0 || value < h->min)
        h->min = value;
    if (value > h->max)
        h->max = value;
    h->count++;
}

void latencies_merge(struct latencies *into, const struct latencies *from)
{
    if (from->count == 0)
        return;
    if (into->count == 0 || from->min < into->min)
        into->min = from->min;
    if (from->max > into->max)
        into->max = from->max;
    into->count += from->count;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
}

int64_t latencies_quantile(const struct latencies *h, double q)
{
    double want = q * (double)h->count;
    uint64_t seen = 0;

    if (h->count == 0)
        return 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += h->buckets[i];
        if (seen > 0 && (double)seen >= want) {
            int64_t top = bucket_top(i);

            return top < h->max ? top : h->max;
        }
    }
    return h->max;
}
