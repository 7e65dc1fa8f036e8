/* template_content.c -- names, types and numbers of the load, the same in every encoding.
 *
 * Every changing number has a fixed width: counts start at 10^9 and stay below 10^10, so they have
 * ten digits and a varint of five bytes. That lasts for about 10^8 sendings of a series.
 *
 * Sums lie between what the buckets allow at least and at most. Histogram: 10^9 in each of the 15
 * upper buckets averages 1,851 to 2,651, here 2,000; what a sending adds (15, 14, ... 1 times the
 * same) averages 564 to 895, here 720. Exponential histogram: 10^9 in each of 20 buckets from 4 to
 * 22.6 averages 10.3 to 11.3, here 10.75; a sending's 50 average 10.8. */
#include <stdio.h>
#include <stdlib.h>

#include "template_encode.h"

#define COUNT_BASE INT64_C(1000000000)

static const char *const methods[] = {"GET", "PUT", "POST", "PATCH", "DELETE"};

static const struct {
    const char *name, *unit;
} kinds[KINDS] = {
    {"bench.queue", "{item}"}, {"bench.load", "1"},    {"bench.requests", "{request}"},
    {"bench.duration", "ms"},  {"bench.size", "KiBy"}, {"bench.rpc", "ms"},
};

const double histogram_bounds[BOUNDS] = {0,   5,   10,   25,   50,   75,   100,  250,
                                         500, 750, 1000, 2500, 5000, 7500, 10000};
const double histogram_min = 0.5, histogram_max = 12000, histogram_exemplar = 62.5;
const double exponential_min = 0, exponential_max = 22.5, exponential_exemplar = 9.5;

const struct number point_time = {SOURCE_TIME, 0, 1};
const struct number gauge_int_value = {SOURCE_STEP, 100000, 1};
const struct number gauge_quarters = {SOURCE_STEP, 4000, 1};
const struct number sum_value = {SOURCE_TOTAL, 0, 1};

struct number histogram_bucket(unsigned i)
{
    return (struct number){SOURCE_COUNT, COUNT_BASE, 16 - (int64_t)i};
}

const struct number histogram_count = {SOURCE_COUNT, 15 * COUNT_BASE, 120};
const struct number histogram_sum = {SOURCE_COUNT, 15 * COUNT_BASE * 2000, INT64_C(120) * 720};

struct number exponential_bucket(unsigned i)
{
    return (struct number){SOURCE_COUNT, COUNT_BASE, 1 + (int64_t)(i % 4)};
}

const struct number exponential_zero = {SOURCE_COUNT, COUNT_BASE, 1};
const struct number exponential_count = {SOURCE_COUNT, 21 * COUNT_BASE, 51};
const struct number exponential_sum = {SOURCE_COUNT, 215 * COUNT_BASE, 540};

const struct number summary_count = {SOURCE_COUNT, COUNT_BASE, 40};
const struct number summary_sum = {SOURCE_COUNT, 15 * COUNT_BASE, INT64_C(15) * 40};
const struct summary_quantile summary_quantiles[QUANTILES] = {
    {0, {SOURCE_STEP, 4 * 10, 0}},   {0.5, {SOURCE_STEP, 4 * 12, 1}},
    {0.9, {SOURCE_STEP, 4 * 30, 1}}, {0.99, {SOURCE_STEP, 4 * 60, 1}},
    {1, {SOURCE_STEP, 4 * 99, 0}},
};

const struct number exemplar_id = {SOURCE_ID, 0, 1};

uint64_t exemplar_trace(uint32_t series)
{
    return (series + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15); /* spreads over all bits */
}

void texts_of_service(struct texts *t, unsigned service)
{
    snprintf(t->service, sizeof(t->service), "bench-%04u", service);
}

void texts_of_series(struct texts *t, const struct template_opts *o, unsigned s)
{
    unsigned metric = s / SERIES_A_METRIC;

    t->kind = o->mix == MIX_ALL ? (enum metric_kind)(metric % KINDS) : KIND_SUM;
    t->unit = kinds[t->kind].unit;
    snprintf(t->metric, sizeof(t->metric), "%s.%05u", kinds[t->kind].name, metric);
    snprintf(t->route, sizeof(t->route), "/api/v1/items/%05u", s);
    snprintf(t->node, sizeof(t->node), "node-%04u.cluster", s % 10000);
    snprintf(t->user, sizeof(t->user), "user-%05u", s);
    t->method = methods[s % (sizeof(methods) / sizeof(methods[0]))];
}

void encoder_patch(struct encoder *e, size_t at, struct number number, enum patch_form form,
                   unsigned width)
{
    if (e->n == e->cap) {
        unsigned cap = e->cap == 0 ? 256 : e->cap * 2;
        struct template_patch *p = reallocarray(e->patches, cap, sizeof(*p));

        if (p == NULL) {
            e->failed = true;
            return;
        }
        e->patches = p;
        e->cap = cap;
    }
    e->patches[e->n++] = (struct template_patch){
        .base = number.base,
        .factor = number.factor,
        .at = (uint32_t)at,
        .source = (uint8_t)number.source,
        .form = (uint8_t)form,
        .width = (uint8_t)width,
    };
}

unsigned encoder_series(const struct encoder *e, unsigned i)
{
    return (e->first + i) % (e->opts->series / e->opts->services);
}

bool encoder_ends_metric(const struct encoder *e, unsigned i)
{
    return i + 1 == e->n_fields ||
           encoder_series(e, i + 1) / SERIES_A_METRIC != encoder_series(e, i) / SERIES_A_METRIC;
}
