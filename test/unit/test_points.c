/* The rules of single data points: what is stored, what is rejected for which reason, what warns.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "otlite/attrs.h"
#include "tree.h"

enum { NOW = 5000 };

struct ctx {
    struct tree t;
    struct decode_limits lim;
    struct batch b;
};

static int setup(void **state)
{
    struct ctx *c = calloc(1, sizeof(*c));

    assert_non_null(c);
    tree_init(&c->t);
    c->lim = (struct decode_limits){.max_value_depth = 64,
                                    .max_name_bytes = 32,
                                    .max_attributes = 3,
                                    .max_attribute_bytes = 100,
                                    .max_buckets = 6,
                                    .future_slack_ns = 1000};
    *state = c;
    return 0;
}

static int teardown(void **state)
{
    struct ctx *c = *state;

    tree_fini(&c->t);
    free(c);
    return 0;
}

static void build(struct ctx *c)
{
    struct otl_error err;

    assert_int_equal(batch_build(c->t.request, NULL, &c->lim, NOW, &c->t.a, &c->b, &err), OTL_OK);
    assert_int_equal(c->b.received, batch_storable(&c->b) + batch_rejected(&c->b));
    for (uint32_t i = 0; i < c->b.n_series; i++)
        assert_true(attrs_valid(c->b.series[i].attributes));
}

static uint64_t warned(const struct batch *b)
{
    uint64_t n = 0;

    for (int i = 0; i < WARN_COUNT_OF_WARNINGS; i++)
        n += b->warnings[i];
    return n;
}

/* The only point is rejected, for this reason. */
static void assert_rejected(struct ctx *c, enum reject_reason why)
{
    build(c);
    assert_int_equal(c->b.received, 1);
    assert_int_equal(batch_storable(&c->b), 0);
    if (c->b.rejected[why] != 1) {
        for (int i = 0; i < REJECT_COUNT_OF_REASONS; i++)
            if (c->b.rejected[i] > 0)
                fail_msg("rejected for %s, not %s", reject_label((enum reject_reason)i),
                         reject_label(why));
    }
    assert_int_equal(c->b.n_resources + c->b.n_scopes + c->b.n_metrics + c->b.n_series, 0);
    assert_int_equal(warned(&c->b), 0);
}

/* The only point is stored; these and no other warnings came (WARN_COUNT_OF_WARNINGS: none). */
static void assert_stored(struct ctx *c, enum warning w)
{
    build(c);
    assert_int_equal(batch_storable(&c->b), 1);
    if (w == WARN_COUNT_OF_WARNINGS) {
        assert_int_equal(warned(&c->b), 0);
    } else {
        assert_int_equal(warned(&c->b), 1);
        assert_int_equal(c->b.warnings[w], 1);
    }
}

#define NO_WARNING WARN_COUNT_OF_WARNINGS

/* M-30 */
static void rejects_time_zero(void **state)
{
    struct ctx *c = *state;

    tree_gauge(&c->t, "m")->time_unix_nano = 0;
    assert_rejected(c, REJECT_TIME_ZERO);
    assert_int_equal(c->b.reject_example[REJECT_TIME_ZERO].n, 1);
}

/* M-31 */
static void rejects_a_time_that_no_signed_integer_holds(void **state)
{
    struct ctx *c = *state;

    c->lim.future_slack_ns = 0;
    tree_gauge(&c->t, "m")->time_unix_nano = (uint64_t)INT64_MAX + 1;
    assert_rejected(c, REJECT_TIME_RANGE);
}

static void stores_the_last_time_there_is(void **state)
{
    struct ctx *c = *state;

    c->lim.future_slack_ns = 0;
    tree_gauge(&c->t, "m")->time_unix_nano = INT64_MAX;
    assert_stored(c, NO_WARNING);
    assert_int_equal(c->b.numbers[0].p.time, INT64_MAX);
}

/* M-32 */
static void rejects_what_lies_past_the_slack(void **state)
{
    struct ctx *c = *state;

    tree_gauge(&c->t, "m")->time_unix_nano = NOW + 1000 + 1;
    assert_rejected(c, REJECT_TIME_FUTURE);
}

static void stores_what_lies_at_the_slack(void **state)
{
    struct ctx *c = *state;

    tree_gauge(&c->t, "m")->time_unix_nano = NOW + 1000;
    assert_stored(c, NO_WARNING);
}

static void a_slack_past_the_end_of_time_is_no_limit(void **state)
{
    struct ctx *c = *state;

    c->lim.future_slack_ns = INT64_MAX;
    tree_gauge(&c->t, "m")->time_unix_nano = INT64_MAX;
    assert_stored(c, NO_WARNING);
}

/* M-33 */
static void a_start_after_the_time_becomes_unknown(void **state)
{
    struct ctx *c = *state;

    tree_gauge(&c->t, "m")->start_time_unix_nano = 1001;
    assert_stored(c, WARN_START_AFTER_TIME);
    assert_int_equal(c->b.numbers[0].p.start_time, 0);
}

static void so_does_a_start_past_2262(void **state)
{
    struct ctx *c = *state;

    tree_gauge(&c->t, "m")->start_time_unix_nano = UINT64_MAX;
    assert_stored(c, WARN_START_AFTER_TIME);
    assert_int_equal(c->b.numbers[0].p.start_time, 0);
}

static void a_start_equal_to_the_time_is_kept(void **state)
{
    struct ctx *c = *state;

    tree_sum(&c->t, "m")->start_time_unix_nano = 1000;
    assert_stored(c, NO_WARNING);
    assert_int_equal(c->b.numbers[0].p.start_time, 1000);
}

/* M-41 */
static void rejects_a_number_without_a_value(void **state)
{
    struct ctx *c = *state;

    tree_gauge(&c->t, "m")->value_case = OTLP__NUMBER_DATA_POINT__VALUE__NOT_SET;
    assert_rejected(c, REJECT_NO_VALUE);
}

/* M-42, M-43: the bits are what came. */
static void keeps_every_number_exactly(void **state)
{
    struct ctx *c = *state;
    const int64_t ints[] = {0, -1, INT64_MIN, INT64_MAX, (INT64_C(1) << 53) + 1};
    const double doubles[] = {0.0, -0.0, INFINITY, -INFINITY, 5e-324, 0.1};
    const uint64_t stale_nan = UINT64_C(0x7ff0000000000002);
    Otlp__Metric *m;
    double nan_in;

    memcpy(&nan_in, &stale_nan, 8);
    tree_gauge(&c->t, "m")->as_int = 7;
    m = tree_last_metric(&c->t);
    for (size_t i = 0; i < 5; i++)
        tree_number(&c->t, m)->as_int = ints[i];
    for (size_t i = 0; i < 7; i++) {
        Otlp__NumberDataPoint *p = tree_number(&c->t, m);

        p->value_case = OTLP__NUMBER_DATA_POINT__VALUE_AS_DOUBLE;
        p->as_double = i < 6 ? doubles[i] : nan_in;
    }
    build(c);
    assert_int_equal(c->b.n_numbers, 13);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(c->b.numbers[1 + i].value.kind, VALUE_INT);
        assert_true(c->b.numbers[1 + i].value.u.i == ints[i]);
    }
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(c->b.numbers[6 + i].value.kind, VALUE_DOUBLE);
        assert_memory_equal(&c->b.numbers[6 + i].value.u.d, i < 6 ? &doubles[i] : &nan_in, 8);
    }
}

/* M-34, S18 */
static void a_flagged_point_is_kept_without_its_value(void **state)
{
    struct ctx *c = *state;
    Otlp__NumberDataPoint *p = tree_gauge(&c->t, "m");
    Otlp__Exemplar *e = tree_exemplar(&c->t, &p->n_exemplars, &p->exemplars);

    e->value_case = OTLP__EXEMPLAR__VALUE_AS_INT;
    p->flags = FLAG_NO_RECORDED_VALUE;
    p->start_time_unix_nano = 10;
    p->n_attributes = 1;
    p->attributes = tree_list(&c->t, 1, tree_kv(&c->t, "k", NULL));
    assert_stored(c, NO_WARNING);
    assert_int_equal(c->b.numbers[0].value.kind, VALUE_NONE);
    assert_int_equal(c->b.numbers[0].p.start_time, 10);
    assert_int_equal(c->b.numbers[0].p.n_exemplars, 0);
    assert_int_equal(c->b.n_exemplars, 0);
    assert_int_equal(c->b.series[0].attributes.n, 4);
}

static void a_flagged_point_needs_no_value(void **state)
{
    struct ctx *c = *state;
    Otlp__NumberDataPoint *p = tree_sum(&c->t, "m");

    p->value_case = OTLP__NUMBER_DATA_POINT__VALUE__NOT_SET;
    p->flags = FLAG_NO_RECORDED_VALUE;
    assert_stored(c, NO_WARNING);
}

static void a_flagged_point_still_needs_a_time(void **state)
{
    struct ctx *c = *state;
    Otlp__NumberDataPoint *p = tree_sum(&c->t, "m");

    p->time_unix_nano = 0;
    p->flags = FLAG_NO_RECORDED_VALUE;
    assert_rejected(c, REJECT_TIME_ZERO);
}

static void keeps_flag_bits_it_does_not_know(void **state)
{
    struct ctx *c = *state;

    tree_gauge(&c->t, "m")->flags = UINT32_C(0xfffffffe);
    assert_stored(c, NO_WARNING);
    assert_int_equal(c->b.numbers[0].p.flags, UINT32_C(0xfffffffe));
    assert_int_equal(c->b.numbers[0].value.kind, VALUE_INT);
}

/* A broken shape does not matter where there is no recorded value. */
static void a_flagged_histogram_is_empty(void **state)
{
    struct ctx *c = *state;
    Otlp__HistogramDataPoint *p = tree_histogram(&c->t, "m");

    p->flags = 3;
    p->count = UINT64_MAX;
    p->opt_sum_case = OTLP__HISTOGRAM_DATA_POINT__OPT_SUM_SUM;
    p->opt_min_case = OTLP__HISTOGRAM_DATA_POINT__OPT_MIN_MIN;
    p->opt_max_case = OTLP__HISTOGRAM_DATA_POINT__OPT_MAX_MAX;
    tree_bounds(&c->t, p, 2, (const double[]){2, 1});
    assert_stored(c, NO_WARNING);
    assert_int_equal(c->b.histograms[0].p.flags, 3);
    assert_int_equal(c->b.histograms[0].count, 0);
    assert_false(c->b.histograms[0].sum.has || c->b.histograms[0].min.has ||
                 c->b.histograms[0].max.has);
    assert_int_equal(c->b.histograms[0].n_bounds, 0);
    assert_int_equal(c->b.histograms[0].n_counts, 0);
}

static void a_flagged_exponential_histogram_is_empty(void **state)
{
    struct ctx *c = *state;
    Otlp__ExponentialHistogramDataPoint *p = tree_exponential(&c->t, "m");

    p->flags = 1;
    p->zero_threshold = -1;
    p->scale = 3;
    p->positive = tree_buckets(&c->t, INT32_MAX, 2, (const uint64_t[]){1, UINT64_MAX});
    assert_stored(c, NO_WARNING);
    assert_int_equal(c->b.exponentials[0].scale, 0);
    assert_false(c->b.exponentials[0].positive.present);
}

static void a_flagged_summary_is_empty(void **state)
{
    struct ctx *c = *state;
    Otlp__SummaryDataPoint *p = tree_summary(&c->t, "m");

    p->flags = 1;
    p->count = 3;
    p->sum = 2;
    tree_quantile(&c->t, p, 7, -1);
    assert_stored(c, NO_WARNING);
    assert_int_equal(c->b.summaries[0].count, 0);
    assert_true(c->b.summaries[0].sum == 0);
    assert_int_equal(c->b.summaries[0].n_quantiles, 0);
}

static void a_decoder_s_mark_rejects_the_point(void **state)
{
    struct ctx *c = *state;
    Otlp__NumberDataPoint *p = tree_gauge(&c->t, "m");

    p->time_unix_nano = 0;
    assert_true(message_mark_defect(&p->base, REJECT_VALUE, &c->t.a));
    assert_rejected(c, REJECT_VALUE);
}

/* M-18 */
static void rejects_too_many_attributes(void **state)
{
    struct ctx *c = *state;
    struct tree *t = &c->t;
    Otlp__NumberDataPoint *p = tree_gauge(t, "m");

    p->n_attributes = 4;
    p->attributes = tree_list(t, 4, tree_kv(t, "a", NULL), tree_kv(t, "b", NULL),
                              tree_kv(t, "c", NULL), tree_kv(t, "d", NULL));
    assert_rejected(c, REJECT_ATTRIBUTES);
}

static void stores_as_many_attributes_as_allowed(void **state)
{
    struct ctx *c = *state;
    struct tree *t = &c->t;
    Otlp__NumberDataPoint *p = tree_gauge(t, "m");

    p->n_attributes = 3;
    p->attributes =
        tree_list(t, 3, tree_kv(t, "a", NULL), tree_kv(t, "b", NULL), tree_kv(t, "c", NULL));
    assert_stored(c, NO_WARNING);
}

/* One attribute "k" with a string of n bytes takes 5 + n canonical bytes (n < 128). */
static void attribute_of(struct ctx *c, size_t n)
{
    Otlp__NumberDataPoint *p = tree_gauge(&c->t, "m");
    Otlp__AnyValue *v = tree_string(&c->t, "");

    v->string_value.data = tree_alloc(&c->t, n);
    v->string_value.len = n;
    memset(v->string_value.data, 'x', n);
    p->n_attributes = 1;
    p->attributes = tree_list(&c->t, 1, tree_kv(&c->t, "k", v));
}

static void rejects_too_many_attribute_bytes(void **state)
{
    struct ctx *c = *state;

    attribute_of(c, 96);
    assert_rejected(c, REJECT_ATTRIBUTES);
}

static void stores_as_many_attribute_bytes_as_allowed(void **state)
{
    struct ctx *c = *state;

    attribute_of(c, 95);
    assert_stored(c, NO_WARNING);
    assert_int_equal(c->b.series[0].attributes.n, 100);
}

/* M-36 */
static void reads_exemplars(void **state)
{
    struct ctx *c = *state;
    Otlp__NumberDataPoint *p = tree_gauge(&c->t, "m");
    Otlp__NumberDataPoint *second = tree_number(&c->t, tree_last_metric(&c->t));
    Otlp__Exemplar *e;

    e = tree_exemplar(&c->t, &p->n_exemplars, &p->exemplars);
    e->value_case = OTLP__EXEMPLAR__VALUE_AS_DOUBLE;
    e->as_double = 2.5;
    e->time_unix_nano = 900;
    e->trace_id = tree_bytes(&c->t, "0123456789abcdef", 16);
    e->span_id = tree_bytes(&c->t, "01234567", 8);
    e->n_filtered_attributes = 1;
    e->filtered_attributes = tree_list(&c->t, 1, tree_kv(&c->t, "k", tree_bool(&c->t, true)));
    e = tree_exemplar(&c->t, &p->n_exemplars, &p->exemplars); /* no value: dropped */
    e->time_unix_nano = 901;
    e = tree_exemplar(&c->t, &p->n_exemplars, &p->exemplars);
    e->value_case = OTLP__EXEMPLAR__VALUE_AS_INT;
    e->as_int = 0;
    e->trace_id = tree_bytes(&c->t, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16); /* absent */
    e->span_id = tree_bytes(&c->t, "0123456", 7);                            /* dropped */
    e = tree_exemplar(&c->t, &second->n_exemplars, &second->exemplars);
    e->value_case = OTLP__EXEMPLAR__VALUE_AS_INT;
    e->time_unix_nano = (uint64_t)INT64_MAX + 1; /* dropped */
    e = tree_exemplar(&c->t, &second->n_exemplars, &second->exemplars);
    e->value_case = OTLP__EXEMPLAR__VALUE_AS_INT;
    e->time_unix_nano = INT64_MAX;
    build(c);
    assert_int_equal(c->b.n_exemplars, 3);
    assert_int_equal(c->b.warnings[WARN_EXEMPLAR], 3);
    assert_int_equal(c->b.numbers[0].p.first_exemplar, 0);
    assert_int_equal(c->b.numbers[0].p.n_exemplars, 2);
    assert_int_equal(c->b.numbers[1].p.first_exemplar, 2);
    assert_int_equal(c->b.numbers[1].p.n_exemplars, 1);
    assert_int_equal(c->b.exemplars[0].value.kind, VALUE_DOUBLE);
    assert_true(c->b.exemplars[0].value.u.d == 2.5);
    assert_int_equal(c->b.exemplars[0].time, 900);
    assert_true(c->b.exemplars[0].has_trace_id && c->b.exemplars[0].has_span_id);
    assert_memory_equal(c->b.exemplars[0].trace_id, "0123456789abcdef", 16);
    assert_memory_equal(c->b.exemplars[0].span_id, "01234567", 8);
    assert_int_equal(c->b.exemplars[0].attributes.n, 5);
    assert_memory_equal(c->b.exemplars[0].attributes.p, "\1\1kb\1", 5);
    assert_int_equal(c->b.exemplars[1].value.kind, VALUE_INT);
    assert_false(c->b.exemplars[1].has_trace_id || c->b.exemplars[1].has_span_id);
    assert_int_equal(c->b.exemplars[2].time, INT64_MAX);
}

static Otlp__HistogramDataPoint *histogram(struct ctx *c, uint64_t count, size_t n_counts,
                                           const uint64_t *counts, size_t n_bounds,
                                           const double *bounds)
{
    Otlp__HistogramDataPoint *p = tree_histogram(&c->t, "m");

    p->count = count;
    tree_counts(&c->t, p, n_counts, counts);
    tree_bounds(&c->t, p, n_bounds, bounds);
    return p;
}

#define U(...)         \
    (const uint64_t[]) \
    {                  \
        __VA_ARGS__    \
    }
#define D(...)       \
    (const double[]) \
    {                \
        __VA_ARGS__  \
    }

/* M-50 to M-57, S17: one row a case. */
static void histogram_shapes(void **state)
{
    static const uint64_t big = (uint64_t)INT64_MAX;
    enum { STORED = REJECT_COUNT_OF_REASONS };
    const struct {
        const char *what;
        uint64_t count;
        size_t n_counts;
        const uint64_t *counts;
        size_t n_bounds;
        const double *bounds;
        int want; /* a reason, or STORED */
        bool mismatch;
    } rows[] = {
        {"no buckets", 3, 0, U(0), 0, D(0), STORED, false},
        {"one bucket", 3, 1, U(3), 0, D(0), STORED, false},
        {"two buckets", 3, 2, U(1, 2), 1, D(0.5), STORED, false},
        {"bounds only", 3, 0, U(0), 2, D(1, 2), REJECT_BUCKETS, false},
        {"as many counts as bounds", 3, 2, U(1, 2), 2, D(1, 2), REJECT_BUCKETS, false},
        {"two counts too many", 3, 3, U(1, 1, 1), 1, D(1), REJECT_BUCKETS, false},
        {"falling bounds", 3, 3, U(1, 1, 1), 2, D(2, 1), REJECT_BOUNDS, false},
        {"equal bounds", 3, 3, U(1, 1, 1), 2, D(1, 1), REJECT_BOUNDS, false},
        {"both zeros", 3, 3, U(1, 1, 1), 2, D(-0.0, 0.0), REJECT_BOUNDS, false},
        {"NaN bound alone", 3, 2, U(1, 2), 1, D(NAN), REJECT_BOUNDS, false},
        {"NaN bound last", 3, 3, U(1, 1, 1), 2, D(1, NAN), REJECT_BOUNDS, false},
        {"infinite bounds", 3, 3, U(1, 1, 1), 2, D(-INFINITY, INFINITY), STORED, false},
        {"does not add up", 9, 2, U(1, 2), 1, D(1), STORED, true},
        {"count at the limit", big, 1, U(big), 0, D(0), STORED, false},
        {"count over it", big + 1, 1, U(3), 0, D(0), REJECT_COUNT, false},
        {"count over it, no buckets", big + 1, 0, U(0), 0, D(0), REJECT_COUNT, false},
        {"bucket over it", 3, 2, U(1, big + 1), 1, D(1), REJECT_COUNT, false},
        {"sum over it", 3, 2, U(1, big), 1, D(1), REJECT_COUNT, false},
        {"sum wraps 64 bits", 1, 2, U(2, UINT64_MAX), 1, D(1), REJECT_COUNT, false},
        {"buckets at the cap", 6, 6, U(1, 1, 1, 1, 1, 1), 5, D(1, 2, 3, 4, 5), STORED, false},
        {"buckets over it", 7, 7, U(1, 1, 1, 1, 1, 1, 1), 6, D(1, 2, 3, 4, 5, 6),
         REJECT_TOO_MANY_BUCKETS, false},
    };
    struct ctx *c = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct histogram_point *h;

        c->t.request->n_resource_metrics = 0;
        histogram(c, rows[i].count, rows[i].n_counts, rows[i].counts, rows[i].n_bounds,
                  rows[i].bounds);
        c->lim.strict_counts = false;
        build(c);
        if (rows[i].want != STORED) {
            if (c->b.rejected[rows[i].want] != 1)
                fail_msg("%s: not rejected for %s", rows[i].what,
                         reject_label((enum reject_reason)rows[i].want));
            continue;
        }
        if (c->b.n_histograms != 1 || (c->b.warnings[WARN_COUNT_MISMATCH] == 1) != rows[i].mismatch)
            fail_msg("%s: not stored, or warning wrong", rows[i].what);
        h = &c->b.histograms[0];
        assert_int_equal(h->count, rows[i].count);
        assert_int_equal(h->n_counts, rows[i].n_counts);
        assert_int_equal(h->n_bounds, rows[i].n_bounds);
        assert_memory_equal(h->counts, rows[i].counts, rows[i].n_counts * 8);
        assert_memory_equal(h->bounds, rows[i].bounds, rows[i].n_bounds * 8);
        c->lim.strict_counts = true;
        build(c);
        assert_int_equal(c->b.n_histograms, !rows[i].mismatch);
        assert_int_equal(c->b.rejected[REJECT_COUNT], rows[i].mismatch);
        assert_int_equal(warned(&c->b), 0);
    }
}

/* M-54, S16 */
static void presence_of_sum_min_max_is_kept(void **state)
{
    struct ctx *c = *state;
    Otlp__HistogramDataPoint *p = histogram(c, 1, 0, NULL, 0, NULL);
    const struct histogram_point *h;

    p->opt_sum_case = OTLP__HISTOGRAM_DATA_POINT__OPT_SUM_SUM;
    p->sum = 0.0;
    p->min = 7; /* not set: the number does not count */
    assert_stored(c, NO_WARNING);
    h = &c->b.histograms[0];
    assert_true(h->sum.has && h->sum.v == 0.0);
    assert_false(h->min.has);
    assert_false(h->max.has);
}

static void absent_sum_stays_absent(void **state)
{
    struct ctx *c = *state;
    Otlp__HistogramDataPoint *p = histogram(c, 1, 0, NULL, 0, NULL);

    p->opt_min_case = OTLP__HISTOGRAM_DATA_POINT__OPT_MIN_MIN;
    p->opt_max_case = OTLP__HISTOGRAM_DATA_POINT__OPT_MAX_MAX;
    p->min = -4;
    p->max = 9;
    assert_stored(c, NO_WARNING);
    assert_false(c->b.histograms[0].sum.has);
    assert_true(c->b.histograms[0].min.has && c->b.histograms[0].min.v == -4);
    assert_true(c->b.histograms[0].max.has && c->b.histograms[0].max.v == 9);
}

static void a_sum_without_observations_warns(void **state)
{
    struct ctx *c = *state;
    Otlp__HistogramDataPoint *p = histogram(c, 0, 0, NULL, 0, NULL);

    p->opt_sum_case = OTLP__HISTOGRAM_DATA_POINT__OPT_SUM_SUM;
    p->sum = NAN;
    assert_stored(c, WARN_ZERO_COUNT_SUM);
    assert_true(isnan(c->b.histograms[0].sum.v));
}

static void min_above_max_warns(void **state)
{
    struct ctx *c = *state;
    Otlp__ExponentialHistogramDataPoint *p = tree_exponential(&c->t, "m");

    p->opt_min_case = OTLP__EXPONENTIAL_HISTOGRAM_DATA_POINT__OPT_MIN_MIN;
    p->opt_max_case = OTLP__EXPONENTIAL_HISTOGRAM_DATA_POINT__OPT_MAX_MAX;
    p->min = 2;
    p->max = 1;
    assert_stored(c, WARN_MIN_MAX);
    assert_true(c->b.exponentials[0].min.v == 2 && c->b.exponentials[0].max.v == 1);
}

static void reads_an_exponential_histogram(void **state)
{
    struct ctx *c = *state;
    Otlp__ExponentialHistogramDataPoint *p = tree_exponential(&c->t, "m");
    const struct exponential_histogram_point *e;

    p->count = 10;
    p->zero_count = 1;
    p->zero_threshold = 0.25;
    p->scale = -2;
    p->opt_sum_case = OTLP__EXPONENTIAL_HISTOGRAM_DATA_POINT__OPT_SUM_SUM;
    p->sum = -3;
    p->positive = tree_buckets(&c->t, -3, 4, U(0, 2, 7, 0));
    p->negative = tree_buckets(&c->t, 5, 0, NULL);
    assert_stored(c, NO_WARNING);
    e = &c->b.exponentials[0];
    assert_int_equal(e->count, 10);
    assert_int_equal(e->zero_count, 1);
    assert_true(e->zero_threshold == 0.25);
    assert_int_equal(e->scale, -2);
    assert_true(e->sum.has && e->sum.v == -3);
    assert_true(e->positive.present);
    assert_int_equal(e->positive.offset, -3);
    assert_int_equal(e->positive.n_counts, 4); /* zeros at the ends are kept: lossless */
    assert_memory_equal(e->positive.counts, U(0, 2, 7, 0), 32);
    assert_true(e->negative.present); /* present and empty is not absent (M-66) */
    assert_int_equal(e->negative.offset, 5);
    assert_int_equal(e->negative.n_counts, 0);
}

static void absent_buckets_are_not_present(void **state)
{
    struct ctx *c = *state;

    tree_exponential(&c->t, "m")->scale = 20;
    assert_stored(c, NO_WARNING);
    assert_false(c->b.exponentials[0].positive.present);
    assert_false(c->b.exponentials[0].negative.present);
}

/* M-61 to M-67: one row a case. Bucket boundaries are 2^(index * 2^-scale); doubles reach from
 * 2^-1074 to just below 2^1024. */
static void exponential_limits(void **state)
{
    enum { STORED = REJECT_COUNT_OF_REASONS };
    static const uint64_t big = (uint64_t)INT64_MAX;
    const struct {
        const char *what;
        uint64_t count, zero_count;
        int32_t scale, offset;
        size_t n;
        const uint64_t *counts;
        int want;
    } rows[] = {
        {"last bucket at scale 0", 1, 0, 0, 1023, 1, U(1), STORED},
        {"one above", 1, 0, 0, 1024, 1, U(1), REJECT_EXPONENTIAL},
        {"one above, empty", 0, 0, 0, 1024, 1, U(0), STORED},
        {"the second one above", 1, 0, 0, 1023, 2, U(0, 1), REJECT_EXPONENTIAL},
        {"the second one above, empty", 1, 0, 0, 1023, 2, U(1, 0), STORED},
        {"lowest bucket at scale 0", 1, 0, 0, -1075, 1, U(1), STORED},
        {"one below", 1, 0, 0, -1076, 1, U(1), REJECT_EXPONENTIAL},
        {"one below, empty", 1, 0, 0, -1076, 2, U(0, 1), STORED},
        {"scale 1, last", 1, 0, 1, 2047, 1, U(1), STORED},
        {"scale 1, above", 1, 0, 1, 2048, 1, U(1), REJECT_EXPONENTIAL},
        {"scale -10, 0 and -1", 2, 0, -10, -1, 2, U(1, 1), STORED},
        {"scale -10, 1", 1, 0, -10, 1, 1, U(1), REJECT_EXPONENTIAL},
        {"scale -10, -2 reaches up to 2^-1024", 1, 0, -10, -2, 1, U(1), STORED},
        {"scale -11, 0 and -1", 2, 0, -11, -1, 2, U(1, 1), STORED},
        {"scale -11, 1", 1, 0, -11, 1, 1, U(1), REJECT_EXPONENTIAL},
        {"scale -11, -2", 1, 0, -11, -2, 1, U(1), REJECT_EXPONENTIAL},
        {"JS: 5 at scale 20", 1, 0, 20, 2434718, 1, U(1), STORED},
        {"lowest scale, 0", 1, 0, INT32_MIN, 0, 1, U(1), STORED},
        {"lowest scale, -1", 1, 0, INT32_MIN, -1, 1, U(1), STORED},
        {"lowest scale, 1", 1, 0, INT32_MIN, 1, 1, U(1), REJECT_EXPONENTIAL},
        {"lowest scale, -2", 1, 0, INT32_MIN, -2, 1, U(1), REJECT_EXPONENTIAL},
        {"highest scale, lowest index", 1, 0, INT32_MAX, INT32_MIN, 1, U(1), STORED},
        {"highest scale, highest index", 1, 0, INT32_MAX, INT32_MAX, 1, U(1), STORED},
        {"index leaves int32", 1, 0, INT32_MAX, INT32_MAX, 2, U(1, 0), REJECT_EXPONENTIAL},
        {"highest index, no counts", 0, 0, 0, INT32_MAX, 0, U(0), STORED},
        {"buckets at the cap", 6, 0, 0, 0, 6, U(1, 1, 1, 1, 1, 1), STORED},
        {"buckets over it", 7, 0, 0, 0, 7, U(1, 1, 1, 1, 1, 1, 1), REJECT_TOO_MANY_BUCKETS},
        {"count over the limit", big + 1, 0, 0, 0, 0, U(0), REJECT_COUNT},
        {"zero count over it", 1, big + 1, 0, 0, 0, U(0), REJECT_COUNT},
        {"bucket over it", 1, 0, 0, 0, 1, U(big + 1), REJECT_COUNT},
        {"sum wraps", 1, 2, 0, 0, 1, U(UINT64_MAX), REJECT_COUNT},
        {"sum at the limit", big, 1, 0, 0, 1, U(big - 1), STORED},
    };
    struct ctx *c = *state;

    for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
        Otlp__ExponentialHistogramDataPoint *p;
        size_t r = i / 2;

        c->t.request->n_resource_metrics = 0;
        p = tree_exponential(&c->t, "m");
        p->count = rows[r].count;
        p->zero_count = rows[r].zero_count;
        p->scale = rows[r].scale;
        /* each row as positive, then as negative buckets */
        *(i % 2 == 0 ? &p->positive : &p->negative) =
            tree_buckets(&c->t, rows[r].offset, rows[r].n, rows[r].counts);
        build(c);
        assert_int_equal(warned(&c->b), 0);
        if (rows[r].want == STORED ? c->b.n_exponentials != 1 : c->b.rejected[rows[r].want] != 1)
            fail_msg("%s: wrong", rows[r].what);
    }
}

static void exponential_counts_that_do_not_add_up(void **state)
{
    struct ctx *c = *state;
    Otlp__ExponentialHistogramDataPoint *p = tree_exponential(&c->t, "m");

    p->count = 5;
    p->zero_count = 1;
    p->positive = tree_buckets(&c->t, 0, 1, U(1));
    p->negative = tree_buckets(&c->t, 0, 1, U(2));
    assert_stored(c, WARN_COUNT_MISMATCH);
    c->lim.strict_counts = true;
    assert_rejected(c, REJECT_COUNT);
    p->count = 4;
    assert_stored(c, NO_WARNING);
}

static void both_sides_share_the_bucket_cap(void **state)
{
    struct ctx *c = *state;
    Otlp__ExponentialHistogramDataPoint *p = tree_exponential(&c->t, "m");

    p->count = 7;
    p->positive = tree_buckets(&c->t, 0, 3, U(1, 1, 1));
    p->negative = tree_buckets(&c->t, 0, 4, U(1, 1, 1, 1));
    assert_rejected(c, REJECT_TOO_MANY_BUCKETS);
}

/* M-65 */
static void zero_threshold_is_not_negative(void **state)
{
    struct ctx *c = *state;
    Otlp__ExponentialHistogramDataPoint *p = tree_exponential(&c->t, "m");

    p->zero_threshold = -1e-300;
    assert_rejected(c, REJECT_EXPONENTIAL);
    p->zero_threshold = NAN;
    assert_rejected(c, REJECT_EXPONENTIAL);
    p->zero_threshold = -0.0;
    assert_stored(c, NO_WARNING);
}

/* M-70 */
static void sorts_quantiles(void **state)
{
    struct ctx *c = *state;
    Otlp__SummaryDataPoint *p = tree_summary(&c->t, "m");
    const struct summary_point *s;

    p->count = 4;
    p->sum = -2.5;
    tree_quantile(&c->t, p, 1, 30);
    tree_quantile(&c->t, p, 0, NAN);
    tree_quantile(&c->t, p, 0.5, 20);
    assert_stored(c, NO_WARNING);
    s = &c->b.summaries[0];
    assert_int_equal(s->count, 4);
    assert_true(s->sum == -2.5);
    assert_int_equal(s->n_quantiles, 3);
    assert_true(s->quantiles[0].quantile == 0 && isnan(s->quantiles[0].value));
    assert_true(s->quantiles[1].quantile == 0.5 && s->quantiles[1].value == 20);
    assert_true(s->quantiles[2].quantile == 1 && s->quantiles[2].value == 30);
}

static void rejects_quantiles_outside_0_to_1(void **state)
{
    struct ctx *c = *state;
    const double bad[] = {-0.1, 1.000001, NAN, INFINITY};

    for (size_t i = 0; i < 4; i++) {
        c->t.request->n_resource_metrics = 0;
        tree_quantile(&c->t, tree_summary(&c->t, "m"), bad[i], 1);
        assert_rejected(c, REJECT_QUANTILES);
    }
}

static void rejects_equal_quantiles(void **state)
{
    struct ctx *c = *state;
    Otlp__SummaryDataPoint *p = tree_summary(&c->t, "m");

    tree_quantile(&c->t, p, 0.5, 1);
    tree_quantile(&c->t, p, 0.1, 1);
    tree_quantile(&c->t, p, 0.5, 1);
    assert_rejected(c, REJECT_QUANTILES);
}

static void a_negative_quantile_value_warns(void **state)
{
    struct ctx *c = *state;
    Otlp__SummaryDataPoint *p = tree_summary(&c->t, "m");

    tree_quantile(&c->t, p, 0.5, -1);
    tree_quantile(&c->t, p, 0.9, -1);
    assert_stored(c, WARN_NEGATIVE_QUANTILE);
}

static void rejects_a_summary_that_no_integer_counts(void **state)
{
    struct ctx *c = *state;

    tree_summary(&c->t, "m")->count = (uint64_t)INT64_MAX + 1;
    assert_rejected(c, REJECT_COUNT);
}

static void rejects_more_quantiles_than_buckets_allowed(void **state)
{
    struct ctx *c = *state;
    Otlp__SummaryDataPoint *p = tree_summary(&c->t, "m");

    for (int i = 0; i < 7; i++)
        tree_quantile(&c->t, p, i / 10.0, 1);
    assert_rejected(c, REJECT_TOO_MANY_BUCKETS);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rejects_time_zero),
        TEST(rejects_a_time_that_no_signed_integer_holds),
        TEST(stores_the_last_time_there_is),
        TEST(rejects_what_lies_past_the_slack),
        TEST(stores_what_lies_at_the_slack),
        TEST(a_slack_past_the_end_of_time_is_no_limit),
        TEST(a_start_after_the_time_becomes_unknown),
        TEST(so_does_a_start_past_2262),
        TEST(a_start_equal_to_the_time_is_kept),
        TEST(rejects_a_number_without_a_value),
        TEST(keeps_every_number_exactly),
        TEST(a_flagged_point_is_kept_without_its_value),
        TEST(a_flagged_point_needs_no_value),
        TEST(a_flagged_point_still_needs_a_time),
        TEST(keeps_flag_bits_it_does_not_know),
        TEST(a_flagged_histogram_is_empty),
        TEST(a_flagged_exponential_histogram_is_empty),
        TEST(a_flagged_summary_is_empty),
        TEST(a_decoder_s_mark_rejects_the_point),
        TEST(rejects_too_many_attributes),
        TEST(stores_as_many_attributes_as_allowed),
        TEST(rejects_too_many_attribute_bytes),
        TEST(stores_as_many_attribute_bytes_as_allowed),
        TEST(reads_exemplars),
        TEST(histogram_shapes),
        TEST(presence_of_sum_min_max_is_kept),
        TEST(absent_sum_stays_absent),
        TEST(a_sum_without_observations_warns),
        TEST(min_above_max_warns),
        TEST(reads_an_exponential_histogram),
        TEST(absent_buckets_are_not_present),
        TEST(exponential_limits),
        TEST(exponential_counts_that_do_not_add_up),
        TEST(both_sides_share_the_bucket_cap),
        TEST(zero_threshold_is_not_negative),
        TEST(sorts_quantiles),
        TEST(rejects_quantiles_outside_0_to_1),
        TEST(rejects_equal_quantiles),
        TEST(a_negative_quantile_value_warns),
        TEST(rejects_a_summary_that_no_integer_counts),
        TEST(rejects_more_quantiles_than_buckets_allowed),
    };

    return cmocka_run_group_tests_name("points", tests, NULL, NULL);
}
