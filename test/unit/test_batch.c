/* From the message tree to a batch: envelopes, identity, counting; and the shared cases about the
 * data model through both decoders. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "otlite/attrs.h"
#include "shared_case.h"
#include "tree.h"

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
    c->lim = decode_limits_default;
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

/* What must hold of any batch. */
static void assert_sound(const struct batch *b)
{
    assert_int_equal(b->received, batch_storable(b) + batch_rejected(b));
    assert_int_equal(b->n_series, batch_storable(b));
    for (uint32_t i = 0; i < b->n_resources; i++) {
        assert_true(attrs_valid(b->resources[i].attributes));
    }
    for (uint32_t i = 0; i < b->n_scopes; i++) {
        assert_true(b->scopes[i].resource < b->n_resources);
        assert_true(attrs_valid(b->scopes[i].attributes));
    }
    for (uint32_t i = 0; i < b->n_metrics; i++) {
        assert_true(b->metrics[i].scope < b->n_scopes);
        assert_true(attrs_valid(b->metrics[i].metadata));
    }
    for (uint32_t i = 0; i < b->n_series; i++)
        assert_true(b->series[i].metric < b->n_metrics);
}

static void build(struct ctx *c)
{
    struct otl_error err;

    assert_int_equal(batch_build(c->t.request, NULL, &c->lim, 5000, &c->t.a, &c->b, &err), OTL_OK);
    assert_sound(&c->b);
}

#define assert_text(b, s)                       \
    do {                                        \
        struct bytes b_ = (b);                  \
        assert_int_equal(b_.n, strlen(s));      \
        if (b_.n > 0)                           \
            assert_memory_equal(b_.p, s, b_.n); \
    } while (0)

static void names_the_types(void **state)
{
    (void)state;
    assert_string_equal(metric_type_name(METRIC_GAUGE), "gauge");
    assert_string_equal(metric_type_name(METRIC_SUM), "sum");
    assert_string_equal(metric_type_name(METRIC_HISTOGRAM), "histogram");
    assert_string_equal(metric_type_name(METRIC_EXPONENTIAL_HISTOGRAM), "exponential_histogram");
    assert_string_equal(metric_type_name(METRIC_SUMMARY), "summary");
}

/* H-66 */
static void an_empty_request_is_an_empty_batch(void **state)
{
    struct ctx *c = *state;

    build(c);
    assert_int_equal(c->b.received, 0);
    assert_ptr_equal(c->b.arena, &c->t.a);
}

/* H-67, S13: what holds no storable point leaves nothing behind. */
static void empty_envelopes_leave_no_rows(void **state)
{
    struct ctx *c = *state;
    struct tree *t = &c->t;
    Otlp__ResourceMetrics *rm;

    tree_resource(t);
    rm = tree_resource(t);
    tree_scope(t, rm);
    rm = tree_resource(t);
    tree_metric(t, tree_scope(t, rm), "no data");
    rm = tree_resource(t);
    tree_scope(t, rm);
    tree_gauge(t, "rejected")->time_unix_nano = 0;
    rm = tree_resource(t);
    tree_scope(t, rm);
    tree_gauge(t, "no points");
    tree_last_metric(t)->gauge->n_data_points = 0;
    rm = tree_resource(t);
    tree_scope(t, rm);
    tree_gauge(t, "kept");
    build(c);
    assert_int_equal(c->b.received, 2);
    assert_int_equal(c->b.n_resources, 1);
    assert_int_equal(c->b.n_scopes, 1);
    assert_int_equal(c->b.n_metrics, 1);
    assert_text(c->b.metrics[0].name, "kept");
    assert_int_equal(c->b.warnings[WARN_NO_DATA], 1);
    assert_text(c->b.warning_example[WARN_NO_DATA], "no data");
    assert_int_equal(c->b.rejected[REJECT_TIME_ZERO], 1);
    assert_text(c->b.reject_example[REJECT_TIME_ZERO], "rejected");
}

/* M-1 */
static void a_missing_resource_or_scope_is_an_empty_one(void **state)
{
    struct ctx *c = *state;

    tree_gauge(&c->t, "m");
    build(c);
    assert_int_equal(c->b.resources[0].attributes.n, 1);
    assert_int_equal(c->b.resources[0].attributes.p[0], 0);
    assert_text(c->b.resources[0].service_name, "");
    assert_int_equal(c->b.scopes[0].attributes.n, 1);
    assert_text(c->b.scopes[0].name, "");
    assert_text(c->b.scopes[0].version, "");
}

static void reads_resource_scope_and_metric(void **state)
{
    struct ctx *c = *state;
    struct tree *t = &c->t;
    Otlp__ResourceMetrics *rm = tree_resource(t);
    Otlp__ScopeMetrics *sm = tree_scope(t, rm);
    Otlp__Resource *res = tree_alloc(t, sizeof(*res));
    Otlp__InstrumentationScope *scope = tree_alloc(t, sizeof(*scope));
    Otlp__Metric *m;

    otlp__resource__init(res);
    otlp__instrumentation_scope__init(scope);
    rm->resource = res;
    rm->schema_url = tree_text(t, "https://r");
    res->dropped_attributes_count = 3;
    res->n_attributes = 2;
    res->attributes = tree_list(t, 2, tree_kv(t, "service.name", tree_string(t, "shop")),
                                tree_kv(t, "host", tree_int(t, 1)));
    sm->scope = scope;
    sm->schema_url = tree_text(t, "https://s");
    scope->name = tree_text(t, "lib");
    scope->version = tree_text(t, "1.2");
    scope->dropped_attributes_count = UINT32_MAX;
    scope->n_attributes = 1;
    scope->attributes = tree_list(t, 1, tree_kv(t, "a", NULL));
    tree_sum(t, "requests");
    m = tree_last_metric(t);
    m->unit = tree_text(t, "{request}");
    m->description = tree_text(t, "how many");
    m->sum->is_monotonic = true;
    m->sum->aggregation_temporality = OTLP__AGGREGATION_TEMPORALITY__AGGREGATION_TEMPORALITY_DELTA;
    m->n_metadata = 1;
    m->metadata = tree_list(t, 1, tree_kv(t, "prometheus.type", tree_string(t, "info")));
    build(c);
    assert_text(c->b.resources[0].schema_url, "https://r");
    assert_int_equal(c->b.resources[0].dropped_attributes_count, 3);
    assert_text(c->b.resources[0].service_name, "shop");
    assert_text(c->b.scopes[0].name, "lib");
    assert_text(c->b.scopes[0].version, "1.2");
    assert_text(c->b.scopes[0].schema_url, "https://s");
    assert_int_equal(c->b.scopes[0].dropped_attributes_count, UINT32_MAX);
    assert_int_equal(c->b.scopes[0].attributes.n, 4);
    assert_text(c->b.metrics[0].name, "requests");
    assert_text(c->b.metrics[0].unit, "{request}");
    assert_text(c->b.metrics[0].description, "how many");
    assert_int_equal(c->b.metrics[0].type, METRIC_SUM);
    assert_int_equal(c->b.metrics[0].temporality, TEMPORALITY_DELTA);
    assert_true(c->b.metrics[0].is_monotonic);
    assert_int_equal(c->b.metrics[0].metadata.n, 1 + 16 + 6);
}

static void a_service_name_that_is_no_string_is_none(void **state)
{
    struct ctx *c = *state;
    struct tree *t = &c->t;
    Otlp__ResourceMetrics *rm = tree_resource(t);
    Otlp__Resource *res = tree_alloc(t, sizeof(*res));

    otlp__resource__init(res);
    rm->resource = res;
    res->n_attributes = 1;
    res->attributes = tree_list(t, 1, tree_kv(t, "service.name", tree_int(t, 7)));
    tree_gauge(t, "m");
    build(c);
    assert_text(c->b.resources[0].service_name, "");
}

/* M-20, M-9 */
static void a_bad_metric_name_rejects_all_points_of_the_metric(void **state)
{
    struct ctx *c = *state;
    struct tree *t = &c->t;
    char longest[1026];

    memset(longest, 'n', sizeof(longest) - 1);
    longest[1025] = '\0';
    tree_gauge(t, "");
    tree_number(t, tree_last_metric(t));
    tree_gauge(t, "bad\xff");
    tree_gauge(t, longest);
    longest[1024] = '\0';
    tree_gauge(t, longest);
    build(c);
    assert_int_equal(c->b.rejected[REJECT_NAME], 4);
    assert_int_equal(c->b.n_metrics, 1);
    assert_int_equal(c->b.metrics[0].name.n, 1024);
}

static void the_example_of_a_bad_name_is_short_utf8(void **state)
{
    struct ctx *c = *state;
    char name[2000];

    /* two-byte characters, so that byte 256 would fall inside one */
    name[0] = 'x';
    for (size_t i = 1; i < 1999; i += 2)
        memcpy(name + i, "\xc3\xa9", 2);
    name[1999] = '\0';
    tree_gauge(&c->t, name);
    build(c);
    assert_int_equal(c->b.reject_example[REJECT_NAME].n, 255);
    assert_true(utf8_valid(c->b.reject_example[REJECT_NAME]));
}

/* M-10 */
static void nul_in_a_name_is_kept(void **state)
{
    struct ctx *c = *state;

    tree_gauge(&c->t, "m");
    tree_last_metric(&c->t)->name = tree_bytes(&c->t, "a\0b", 3);
    build(c);
    assert_int_equal(c->b.metrics[0].name.n, 3);
}

static void text_that_is_not_utf8_is_repaired(void **state)
{
    struct ctx *c = *state;
    Otlp__Metric *m;

    tree_gauge(&c->t, "m");
    m = tree_last_metric(&c->t);
    m->unit = tree_text(&c->t, "\xff");
    m->description = tree_text(&c->t, "d\xc3");
    build(c);
    assert_text(c->b.metrics[0].unit, "\xef\xbf\xbd");
    assert_text(c->b.metrics[0].description, "d\xef\xbf\xbd");
    assert_int_equal(c->b.warnings[WARN_UTF8], 2);
    assert_text(c->b.warning_example[WARN_UTF8], "m");
}

/* M-40, S8 */
static void temporality_must_be_delta_or_cumulative(void **state)
{
    struct ctx *c = *state;
    struct tree *t = &c->t;
    const int bad[] = {0, 3, -1, 9};

    for (size_t i = 0; i < 4; i++) {
        tree_sum(t, "s");
        tree_number(t, tree_last_metric(t));
        tree_last_metric(t)->sum->aggregation_temporality = (Otlp__AggregationTemporality)bad[i];
        tree_histogram(t, "h");
        tree_last_metric(t)->histogram->aggregation_temporality =
            (Otlp__AggregationTemporality)bad[i];
        tree_exponential(t, "e");
        tree_last_metric(t)->exponential_histogram->aggregation_temporality =
            (Otlp__AggregationTemporality)bad[i];
    }
    tree_gauge(t, "g");
    tree_summary(t, "y");
    tree_histogram(t, "h");
    build(c);
    assert_int_equal(c->b.rejected[REJECT_TEMPORALITY], 16);
    assert_text(c->b.reject_example[REJECT_TEMPORALITY], "s");
    assert_int_equal(c->b.n_metrics, 3);
    assert_int_equal(c->b.metrics[0].temporality, TEMPORALITY_NONE);
    assert_int_equal(c->b.metrics[1].temporality, TEMPORALITY_NONE);
    assert_int_equal(c->b.metrics[2].temporality, TEMPORALITY_CUMULATIVE);
    assert_false(c->b.metrics[2].is_monotonic);
}

static void good_points_beside_bad_ones_are_stored_in_order(void **state)
{
    struct ctx *c = *state;
    struct tree *t = &c->t;
    Otlp__Metric *m;

    tree_gauge(t, "g")->as_int = 1;
    m = tree_last_metric(t);
    tree_number(t, m)->time_unix_nano = 0;
    tree_number(t, m)->as_int = 3;
    tree_histogram(t, "h")->count = UINT64_MAX;
    tree_sum(t, "s")->as_int = 4;
    build(c);
    assert_int_equal(c->b.received, 5);
    assert_int_equal(c->b.n_numbers, 3);
    assert_int_equal(c->b.n_metrics, 2);
    assert_true(c->b.numbers[0].value.u.i == 1 && c->b.numbers[1].value.u.i == 3 &&
                c->b.numbers[2].value.u.i == 4);
    assert_int_equal(c->b.series[c->b.numbers[1].p.series].metric, 0);
    assert_int_equal(c->b.series[c->b.numbers[2].p.series].metric, 1);
    assert_int_equal(c->b.rejected[REJECT_TIME_ZERO], 1);
    assert_int_equal(c->b.rejected[REJECT_COUNT], 1);
}

static void warnings_of_the_decoder_are_taken_over(void **state)
{
    struct ctx *c = *state;
    struct decode_notes notes = {0};
    struct otl_error err;

    notes.warnings[WARN_UNKNOWN_KEY] = 2;
    notes.example[WARN_UNKNOWN_KEY] = bytes_str("resource_metrics");
    assert_int_equal(batch_build(c->t.request, &notes, &c->lim, 0, &c->t.a, &c->b, &err), OTL_OK);
    assert_int_equal(c->b.warnings[WARN_UNKNOWN_KEY], 2);
    assert_text(c->b.warning_example[WARN_UNKNOWN_KEY], "resource_metrics");
}

static Otlp__EntityRef *entity(struct tree *t, const char *type, const char *id)
{
    Otlp__EntityRef *e = tree_alloc(t, sizeof(*e));

    otlp__entity_ref__init(e);
    e->type = tree_text(t, type);
    if (id != NULL) {
        e->n_id_keys = 1;
        e->id_keys = tree_alloc(t, sizeof(*e->id_keys));
        e->id_keys[0] = tree_text(t, id);
    }
    return e;
}

/* M-5 */
static void keeps_sound_entity_refs_as_json_and_drops_others(void **state)
{
    struct ctx *c = *state;
    struct tree *t = &c->t;
    Otlp__ResourceMetrics *rm = tree_resource(t);
    Otlp__Resource *res = tree_alloc(t, sizeof(*res));
    Otlp__EntityRef *full = entity(t, "host", "host.id");
    Otlp__EntityRef *bad_description = entity(t, "host", "host.id");

    otlp__resource__init(res);
    rm->resource = res;
    res->n_attributes = 2;
    res->attributes = tree_list(t, 2, tree_kv(t, "host.name", tree_string(t, "h")),
                                tree_kv(t, "host.id", tree_string(t, "1")));
    full->schema_url = tree_text(t, "https://e");
    full->n_description_keys = 1;
    full->description_keys = tree_alloc(t, sizeof(*full->description_keys));
    full->description_keys[0] = tree_text(t, "host.name");
    bad_description->n_description_keys = 1;
    bad_description->description_keys = tree_alloc(t, sizeof(*full->description_keys));
    bad_description->description_keys[0] = tree_text(t, "host");
    res->n_entity_refs = 6;
    res->entity_refs = tree_alloc(t, 6 * sizeof(*res->entity_refs));
    res->entity_refs[0] = entity(t, "", "host.id"); /* no type */
    res->entity_refs[1] = full;
    res->entity_refs[2] = entity(t, "service", NULL);     /* no id key */
    res->entity_refs[3] = entity(t, "x", "service.name"); /* key not among the attributes */
    res->entity_refs[4] = bad_description;
    res->entity_refs[5] = entity(t, "y\"", "host.name");
    tree_gauge(t, "m");
    build(c);
    assert_text(c->b.resources[0].entity_refs,
                "[{\"type\":\"host\",\"schemaUrl\":\"https://e\",\"idKeys\":[\"host.id\"],"
                "\"descriptionKeys\":[\"host.name\"]},"
                "{\"type\":\"y\\\"\",\"idKeys\":[\"host.name\"]}]");
    assert_int_equal(c->b.warnings[WARN_ENTITY_REF], 4);
    assert_int_equal(c->b.rejected[REJECT_NAME], 0);
}

static void no_sound_entity_ref_is_no_text(void **state)
{
    struct ctx *c = *state;
    struct tree *t = &c->t;
    Otlp__Resource *res = tree_alloc(t, sizeof(*res));

    otlp__resource__init(res);
    tree_resource(t)->resource = res;
    res->n_entity_refs = 1;
    res->entity_refs = tree_alloc(t, sizeof(*res->entity_refs));
    res->entity_refs[0] = entity(t, "host", "host.id");
    tree_gauge(t, "m");
    build(c);
    assert_int_equal(c->b.resources[0].entity_refs.n, 0);
    assert_int_equal(c->b.warnings[WARN_ENTITY_REF], 1);
}

/* A request of all kinds, against every budget from nothing up: it fails cleanly until it fits. */
static void every_budget_fails_cleanly_or_succeeds(void **state)
{
    struct ctx *c = *state;
    struct tree *t = &c->t;
    Otlp__NumberDataPoint *n = tree_gauge(t, "g");
    Otlp__HistogramDataPoint *h = tree_histogram(t, "h");
    Otlp__SummaryDataPoint *s = tree_summary(t, "s");
    size_t budget;
    bool done = false;

    tree_exponential(t, "e");
    tree_last_metric(t)->unit = tree_text(t, "\xff");
    n->n_attributes = 2;
    n->attributes = tree_list(t, 2, tree_kv(t, "b", tree_string(t, "\xff")), tree_kv(t, "a", NULL));
    tree_exemplar(t, &h->n_exemplars, &h->exemplars)->value_case = OTLP__EXEMPLAR__VALUE_AS_INT;
    h->exemplars[0]->n_filtered_attributes = 2;
    h->exemplars[0]->filtered_attributes = n->attributes;
    tree_quantile(t, s, 0.5, 1);
    for (budget = 0; !done && budget < 100000; budget += 16) {
        struct otl_error err = {0};
        struct arena a;
        struct batch b;
        enum otl_err rc;

        arena_init(&a, budget);
        rc = batch_build(t->request, NULL, &c->lim, 5000, &a, &b, &err);
        if (rc == OTL_OK) {
            done = true;
            assert_sound(&b);
            assert_int_equal(batch_storable(&b), 4);
        } else {
            assert_int_equal(rc, OTL_ETOOBIG);
            assert_int_equal(err.code, OTL_ETOOBIG);
            assert_true(strlen(err.msg) > 0);
        }
        arena_fini(&a);
    }
    assert_true(done && budget > 16);
}

static void empty_points_take_no_room(void **state)
{
    struct ctx *c = *state;
    struct otl_error err;
    struct arena a;
    Otlp__NumberDataPoint *empty = tree_gauge(&c->t, "m");
    Otlp__Gauge *g = tree_last_metric(&c->t)->gauge;
    enum { N = 100000 };

    otlp__number_data_point__init(empty);
    g->n_data_points = N;
    g->data_points = tree_alloc(&c->t, N * sizeof(*g->data_points));
    for (size_t i = 0; i < N; i++)
        g->data_points[i] = empty;
    arena_init(&a, 1024);
    assert_int_equal(batch_build(c->t.request, NULL, &c->lim, 5000, &a, &c->b, &err), OTL_OK);
    assert_int_equal(c->b.rejected[REJECT_TIME_ZERO], N);
    arena_fini(&a);
}

/* Decode a shared case; skips the test when it is absent. The stamp of the cases is 1790000000 s.
 */
static void shared(struct ctx *c, const char *name, struct buf *body)
{
    size_t n = strlen(name);
    struct otl_error err;

    if (!shared_case(name, body))
        skip();
    assert_int_equal(
        decode_body(strcmp(name + n - 5, ".json") == 0 ? ENCODING_JSON : ENCODING_PROTOBUF,
                    buf_bytes(body), &c->lim, INT64_C(1790000000) * 1000000000, &c->t.a, &c->b,
                    &err),
        OTL_OK);
    assert_sound(&c->b);
}

static void s13_parts_that_may_be_missing(void **state)
{
    struct ctx *c = *state;
    struct buf body = {0};

    shared(c, "s13-no-resource.hex", &body);
    assert_int_equal(c->b.n_numbers, 1);
    assert_int_equal(c->b.resources[0].attributes.n, 1);
    shared(c, "s13-attr-no-value.hex", &body);
    assert_int_equal(c->b.n_numbers, 1);
    assert_text(c->b.series[0].attributes, "\2\13"
                                           "empty.valuee\10key.onlye");
    assert_int_equal(c->b.warnings[WARN_EMPTY_KEY], 1);
    shared(c, "s13-no-data.hex", &body);
    assert_int_equal(c->b.received, 0);
    assert_int_equal(c->b.n_resources, 0);
    shared(c, "s13-point-no-value.hex", &body);
    assert_int_equal(c->b.n_numbers, 1);
    assert_int_equal(batch_rejected(&c->b), 1);
    shared(c, "s13-empties.hex", &body);
    assert_int_equal(c->b.received, 0);
    buf_fini(&body);
}

static void s16_sum_that_is_not_there(void **state)
{
    struct ctx *c = *state;
    struct buf body = {0};

    shared(c, "s16-sum-absent.hex", &body);
    assert_false(c->b.histograms[0].sum.has);
    shared(c, "s16-sum-zero.hex", &body);
    assert_true(c->b.histograms[0].sum.has && c->b.histograms[0].sum.v == 0.0);
    shared(c, "s16-min-negative.hex", &body);
    assert_false(c->b.histograms[0].sum.has);
    assert_true(c->b.histograms[0].min.v == -4 && c->b.histograms[0].max.v == 9);
    buf_fini(&body);
}

static void s17_histograms_of_odd_shape(void **state)
{
    struct ctx *c = *state;
    struct buf body = {0};

    shared(c, "s17-no-buckets.json", &body);
    assert_int_equal(c->b.histograms[0].count, 3);
    assert_true(c->b.histograms[0].sum.v == 21);
    shared(c, "s17-mixed.json", &body);
    assert_int_equal(c->b.n_histograms, 3); /* one of them with a warning */
    assert_int_equal(c->b.rejected[REJECT_BUCKETS], 2);
    assert_int_equal(c->b.rejected[REJECT_BOUNDS], 1);
    assert_int_equal(c->b.warnings[WARN_COUNT_MISMATCH], 1);
    c->lim.strict_counts = true;
    shared(c, "s17-mixed.json", &body);
    assert_int_equal(c->b.n_histograms, 2);
    assert_int_equal(batch_rejected(&c->b), 4);
    buf_fini(&body);
}

static void s18_no_recorded_value(void **state)
{
    struct ctx *c = *state;
    struct buf body = {0};

    shared(c, "s18-stale.json", &body);
    assert_int_equal(batch_rejected(&c->b), 0);
    assert_int_equal(c->b.n_numbers, 2);
    assert_true(c->b.numbers[0].value.u.d == 8);
    assert_int_equal(c->b.numbers[1].value.kind, VALUE_NONE);
    assert_int_equal(c->b.n_histograms, 2);
    assert_int_equal(c->b.histograms[1].p.flags, 1);
    assert_int_equal(c->b.histograms[1].n_counts, 0);
    buf_fini(&body);
}

static void s19_integers_and_doubles(void **state)
{
    struct ctx *c = *state;
    struct buf body = {0};
    const struct number_point *p;

    shared(c, "s19-int-double.hex", &body);
    assert_int_equal(c->b.n_numbers, 7);
    p = c->b.numbers;
    assert_true(p[0].value.kind == VALUE_INT && p[0].value.u.i == 5);
    assert_true(p[1].value.kind == VALUE_INT && p[1].value.u.i == -5);
    assert_true(p[2].value.kind == VALUE_INT && p[2].value.u.i == INT64_C(9007199254740993));
    assert_true(p[3].value.kind == VALUE_DOUBLE && p[3].value.u.d == 0.1);
    assert_true(p[4].value.kind == VALUE_INT && p[4].value.u.i == 0);
    assert_true(p[5].value.kind == VALUE_DOUBLE && p[5].value.u.d == 0);
    assert_true(p[6].value.kind == VALUE_INT && p[6].value.u.i == INT64_MIN);
    buf_fini(&body);
}

static void s20_nan_infinity_and_null(void **state)
{
    struct ctx *c = *state;
    struct buf body = {0};
    const uint64_t stale = UINT64_C(0x7ff0000000000002);

    shared(c, "s20-nonfinite.json", &body);
    assert_int_equal(c->b.n_numbers, 5);
    assert_true(isnan(c->b.numbers[0].value.u.d));
    assert_true(c->b.numbers[1].value.u.d == INFINITY && c->b.numbers[2].value.u.d == -INFINITY);
    assert_true(c->b.numbers[3].value.u.d == 1.5 && c->b.numbers[4].value.u.d == 2.5);
    shared(c, "s20-null.json", &body);
    assert_int_equal(c->b.rejected[REJECT_NO_VALUE], 1);
    assert_int_equal(c->b.n_numbers, 2);
    assert_true(c->b.numbers[0].value.u.d == 3.5 && c->b.numbers[1].value.u.d == 4.5);
    assert_text(c->b.series[0].attributes, "\1\6tokense");
    shared(c, "s20-nan.hex", &body);
    assert_int_equal(c->b.n_numbers, 4);
    assert_memory_equal(&c->b.numbers[2].value.u.d, &stale, 8);
    buf_fini(&body);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(names_the_types),
        TEST(an_empty_request_is_an_empty_batch),
        TEST(empty_envelopes_leave_no_rows),
        TEST(a_missing_resource_or_scope_is_an_empty_one),
        TEST(reads_resource_scope_and_metric),
        TEST(a_service_name_that_is_no_string_is_none),
        TEST(a_bad_metric_name_rejects_all_points_of_the_metric),
        TEST(the_example_of_a_bad_name_is_short_utf8),
        TEST(nul_in_a_name_is_kept),
        TEST(text_that_is_not_utf8_is_repaired),
        TEST(temporality_must_be_delta_or_cumulative),
        TEST(good_points_beside_bad_ones_are_stored_in_order),
        TEST(warnings_of_the_decoder_are_taken_over),
        TEST(keeps_sound_entity_refs_as_json_and_drops_others),
        TEST(no_sound_entity_ref_is_no_text),
        TEST(every_budget_fails_cleanly_or_succeeds),
        TEST(empty_points_take_no_room),
        TEST(s13_parts_that_may_be_missing),
        TEST(s16_sum_that_is_not_there),
        TEST(s17_histograms_of_odd_shape),
        TEST(s18_no_recorded_value),
        TEST(s19_integers_and_doubles),
        TEST(s20_nan_infinity_and_null),
    };

    return cmocka_run_group_tests_name("batch", tests, NULL, NULL);
}
