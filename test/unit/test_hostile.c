/* Bodies made to hurt: what they may cost is bounded before it is paid. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "otlite/decode.h"
#include "otlp/message.h"
#include "pbwrite.h"

enum { MIB = 1 << 20, CAP = 64 * 1024 };

static const int64_t now_ns = INT64_C(1800000000000000000);

static struct decode_limits lim;
static struct otl_error err;
static struct arena arena;
static struct batch batch;

static int fresh(void **state)
{
    (void)state;
    lim = decode_limits_default;
    arena_init(&arena, 64 * MIB);
    memset(&err, 0, sizeof(err));
    memset(&batch, 0, sizeof(batch));
    return 0;
}

static int done(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

static enum otl_err decode(const struct buf *body)
{
    assert_false(body->failed);
    return decode_body(ENCODING_PROTOBUF, buf_bytes(body), &lim, now_ns, &arena, &batch, &err);
}

static void add_wrapped(struct buf *out, uint32_t field, struct buf *inner)
{
    pb_bytes(out, field, buf_bytes(inner));
    buf_fini(inner);
}

/* A text of n letters. */
static struct bytes letters(size_t n)
{
    uint8_t *p = arena_alloc(&arena, n);

    assert_non_null(p);
    memset(p, 'x', n);
    return bytes_of(p, n);
}

/* KeyValue "k": text, under field of out. */
static void add_pair(struct buf *out, uint32_t field, struct bytes text)
{
    struct buf value = {0}, pair = {0};

    pb_bytes(&value, 1, text);
    pb_str(&pair, 1, "k");
    add_wrapped(&pair, 2, &value);
    add_wrapped(out, field, &pair);
}

/* A gauge "m" with n points of value 1 and one exemplar each, and more fields of the metric. */
static void add_metric(struct buf *out, size_t n, const struct buf *more)
{
    struct buf metric = {0}, gauge = {0};

    pb_str(&metric, 1, "m");
    for (size_t i = 0; i < n; i++) {
        struct buf exemplar = {0}, point = {0};

        pb_fixed64(&exemplar, 6, 7);
        pb_fixed64(&point, 3, 1000 + i);
        pb_fixed64(&point, 6, 1);
        add_wrapped(&point, 5, &exemplar);
        add_wrapped(&gauge, 1, &point);
    }
    add_wrapped(&metric, 5, &gauge);
    if (more != NULL)
        buf_add_bytes(&metric, buf_bytes(more));
    add_wrapped(out, 2, &metric);
}

/* ---- identities ---- */

static void assert_only_refused_for_attributes(uint64_t refused, uint64_t stored)
{
    assert_int_equal(batch.rejected[REJECT_ATTRIBUTES], refused);
    assert_int_equal(batch_rejected(&batch), refused);
    assert_int_equal(batch_storable(&batch), stored);
    assert_int_equal(batch.received, refused + stored);
    assert_int_equal(batch.n_exemplars, stored);
}

static void a_resource_too_large_to_remember_costs_its_points_and_no_others(void **state)
{
    struct buf body = {0};

    (void)state;
    for (int i = 0; i < 3; i++) { /* the one in the middle is too large */
        struct buf rm = {0}, resource = {0}, sm = {0};

        add_pair(&resource, 1, letters(i == 1 ? CAP : 1));
        add_wrapped(&rm, 1, &resource);
        add_metric(&sm, 2, NULL);
        add_metric(&sm, 1, NULL);
        add_wrapped(&rm, 2, &sm);
        add_wrapped(&body, 1, &rm);
    }
    assert_int_equal(decode(&body), OTL_OK);
    assert_only_refused_for_attributes(3, 6);
    assert_int_equal(batch.n_resources, 2);
    assert_int_equal(batch.n_scopes, 2);
    assert_int_equal(batch.scopes[1].resource, 1);
    buf_fini(&body);
}

static void a_resource_of_just_the_limit_is_taken(void **state)
{
    struct buf body = {0}, resource = {0}, rm = {0}, sm = {0};

    (void)state;
    /* count 1, key 1 + 1, kind 1, length of the text 3: seven bytes around the text */
    add_pair(&resource, 1, letters(CAP - 7));
    add_wrapped(&rm, 1, &resource);
    add_metric(&sm, 1, NULL);
    add_wrapped(&rm, 2, &sm);
    add_wrapped(&body, 1, &rm);
    assert_int_equal(decode(&body), OTL_OK);
    assert_only_refused_for_attributes(0, 1);
    assert_int_equal(batch.resources[0].attributes.n, CAP);
    buf_fini(&body);
}

/* field of InstrumentationScope: 1 name, 2 version, 3 attributes. */
static void assert_scope_refused(uint32_t field, size_t n, bool refused)
{
    struct buf body = {0}, scope = {0}, rm = {0}, sm = {0};

    if (field == 3)
        add_pair(&scope, 3, letters(n));
    else
        pb_bytes(&scope, field, letters(n));
    add_wrapped(&sm, 1, &scope);
    add_metric(&sm, 2, NULL);
    add_wrapped(&rm, 2, &sm);
    add_wrapped(&body, 1, &rm);
    assert_int_equal(decode(&body), OTL_OK);
    assert_only_refused_for_attributes(refused ? 2 : 0, refused ? 0 : 2);
    assert_int_equal(batch.n_resources, refused ? 0 : 1); /* nothing without points is left */
    assert_int_equal(batch.n_scopes, refused ? 0 : 1);
    buf_fini(&body);
}

static void a_scope_too_large_to_remember_costs_its_points(void **state)
{
    (void)state;
    assert_scope_refused(1, CAP, false);
    assert_scope_refused(1, CAP + 1, true);
    assert_scope_refused(2, CAP, false);
    assert_scope_refused(2, CAP + 1, true);
    assert_scope_refused(3, CAP - 7, false);
    assert_scope_refused(3, CAP - 6, true);
}

static void a_unit_too_large_to_remember_costs_the_metric(void **state)
{
    struct buf body = {0}, unit = {0}, rm = {0}, sm = {0};

    (void)state;
    pb_bytes(&unit, 3, letters(CAP + 1));
    add_metric(&sm, 2, &unit);
    buf_reset(&unit);
    pb_bytes(&unit, 3, letters(CAP));
    add_metric(&sm, 1, &unit);
    add_wrapped(&rm, 2, &sm);
    add_wrapped(&body, 1, &rm);
    assert_int_equal(decode(&body), OTL_OK);
    assert_only_refused_for_attributes(2, 1);
    assert_int_equal(batch.n_metrics, 1);
    buf_fini(&unit);
    buf_fini(&body);
}

/* ---- how much one request may hold ---- */

static void a_request_may_weigh_as_much_as_the_limit_and_no_more(void **state)
{
    struct buf body = {0}, rm = {0}, sm = {0};

    (void)state;
    add_metric(&sm, 3, NULL);
    add_metric(&sm, 2, NULL);
    add_wrapped(&rm, 2, &sm);
    add_wrapped(&body, 1, &rm);
    /* 5 points, 5 exemplars, 2 metrics, 1 scope, 1 resource */
    lim.max_points = 5 + 5 + 10 * 4;
    assert_int_equal(decode(&body), OTL_OK);
    assert_int_equal(batch_storable(&batch), 5);
    lim.max_points--;
    assert_int_equal(decode(&body), OTL_ETOOBIG);
    assert_non_null(strstr(err.msg, "otlp.max_points"));
    lim.max_points = 0;
    assert_int_equal(decode(&body), OTL_OK);
    buf_fini(&body);
}

/* ---- what unpacking takes ---- */

/* The estimate must never refuse what fits: unpacking takes that much or more. */
static size_t assert_estimate_holds(const struct buf *body)
{
    size_t least = 0, used;
    otlp_request *m;

    arena_reset(&arena, 64 * MIB);
    assert_int_equal(wirecheck_size(buf_bytes(body), &lim, &least, &err), OTL_OK);
    assert_int_equal(decode_protobuf(buf_bytes(body), &lim, &arena, &m, &err), OTL_OK);
    used = arena.used;
    assert_in_range(least, 1, used);
    arena_reset(&arena, used);
    assert_int_equal(decode_protobuf(buf_bytes(body), &lim, &arena, &m, &err), OTL_OK);
    return least;
}

static void what_fits_its_budget_exactly_is_unpacked(void **state)
{
    struct buf body = {0}, rm = {0}, sm = {0};

    (void)state;
    (void)assert_estimate_holds(&body);
    for (int i = 0; i < 40; i++) { /* more than protobuf-c notes on its stack; unknown ones too */
        pb_varint(&sm, 99, 1);
        pb_bytes(&sm, 98, bytes_of(NULL, 0));
        add_metric(&sm, 3, NULL);
    }
    add_wrapped(&rm, 2, &sm);
    add_wrapped(&body, 1, &rm);
    (void)assert_estimate_holds(&body);
    buf_fini(&body);
}

static void a_flood_of_fields_is_refused_before_it_takes_memory(void **state)
{
    struct buf floods[3] = {0};

    (void)state;
    for (int i = 0; i < 100000; i++) {
        pb_bytes(&floods[0], 1, bytes_of(NULL, 0));                    /* empty resources */
        pb_varint(&floods[1], 99, 1);                                  /* unknown fields */
        pb_bytes(&floods[2], (i & 1) != 0 ? 5 : 7, bytes_of(NULL, 0)); /* gauge, sum, gauge, ... */
    }
    pb_wrap(&floods[2], 2);
    pb_wrap(&floods[2], 2);
    pb_wrap(&floods[2], 1);
    for (int i = 0; i < 3; i++) {
        otlp_request *m;

        arena_reset(&arena, 4 * MIB);
        assert_int_equal(decode_protobuf(buf_bytes(&floods[i]), &lim, &arena, &m, &err),
                         OTL_ETOOBIG);
        assert_int_equal(arena.used, 0);
        assert_true(assert_estimate_holds(&floods[i]) > 4 * MIB);
        buf_fini(&floods[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(f) cmocka_unit_test_setup_teardown(f, fresh, done)
        CASE(a_resource_too_large_to_remember_costs_its_points_and_no_others),
        CASE(a_resource_of_just_the_limit_is_taken),
        CASE(a_scope_too_large_to_remember_costs_its_points),
        CASE(a_unit_too_large_to_remember_costs_the_metric),
        CASE(a_request_may_weigh_as_much_as_the_limit_and_no_more),
        CASE(what_fits_its_budget_exactly_is_unpacked),
        CASE(a_flood_of_fields_is_refused_before_it_takes_memory),
#undef CASE
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
