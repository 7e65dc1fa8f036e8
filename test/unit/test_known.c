/* The short way in gives what the long way gives, or declines; and the cache never takes one thing
 * for another. The oracle is decode_body; numbers are made of a series' whole identity, so that a
 * confusion of any two shows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batch_equal.h"
#include "otlp/known_cache.h"
#include "pbwrite.h"
#include "random.h"
#include "shared_case.h"

#define NOW INT64_C(1790000000000000000)

enum { BUDGET = 64 << 20, PROJECT = 3 };

static struct known *known;
static struct arena slow_arena, arena;
static struct batch slow, fast;
static struct known_hold *hold;
static struct decode_limits limits;

static int fresh(void **state)
{
    (void)state;
    known = known_new(8 << 20);
    assert_non_null(known);
    arena_init(&slow_arena, BUDGET);
    arena_init(&arena, BUDGET);
    limits = decode_limits_default;
    hold = NULL;
    return 0;
}

static int done(void **state)
{
    (void)state;
    known_release(known, hold);
    hold = NULL;
    known_free(known);
    arena_fini(&slow_arena);
    arena_fini(&arena);
    return 0;
}

static bool decode_known(int64_t project, struct bytes body)
{
    known_release(known, hold);
    hold = NULL;
    arena_reset(&arena, BUDGET);
    return known_decode(known, project, body, &limits, NOW, &arena, &fast, &hold);
}

static bool decode_slow(struct bytes body)
{
    struct otl_error err;

    arena_reset(&slow_arena, BUDGET);
    return decode_body(ENCODING_PROTOBUF, body, &limits, NOW, &slow_arena, &slow, &err) == OTL_OK;
}

/* Both ways; true when the short one was taken. */
static bool compare(int64_t project, struct bytes body)
{
    bool ok = decode_slow(body), taken = decode_known(project, body);

    if (taken) {
        assert_true(ok);
        assert_true(batch_equal(&slow, &fast));
        assert_true(numbers_right(&fast, project));
    }
    return taken;
}

/* As after the store took it, all series being there before. */
static void learn(int64_t project, struct bytes body)
{
    assert_true(decode_slow(body));
    number_all(&slow, project);
    known_learn(known, project, body, &limits, &slow);
}

/* Compared, learned and compared again; whether it is known then. */
static bool twice(int64_t project, struct bytes body)
{
    (void)compare(project, body);
    if (!decode_slow(body))
        return compare(project, body);
    learn(project, body);
    return compare(project, body);
}

/* --- hand-made requests --------------------------------------------------------------------- */

static void put_attribute(struct buf *b, uint32_t field, const char *key, const char *text)
{
    struct buf value = {0}, pair = {0};

    pb_str(&value, 1, text);
    pb_str(&pair, 1, key);
    pb_bytes(&pair, 2, buf_bytes(&value));
    pb_bytes(b, field, buf_bytes(&pair));
    buf_fini(&value);
    buf_fini(&pair);
}

/* What makes one request differ from another; all of it is written, in order. */
struct shape {
    const char *service, *resource_url, *scope, *scope_url, *metric, *unit;
    unsigned data; /* field of Metric: 5 gauge, 7 sum */
    unsigned temporality;
    bool monotonic;
    const char *keys[4], *texts[4]; /* attributes; NULL ends them */
    uint64_t time, value;
};

static const struct shape plain = {
    .service = "svc",
    .resource_url = "r-url",
    .scope = "lib",
    .scope_url = "s-url",
    .metric = "requests",
    .unit = "1",
    .data = 7,
    .temporality = 2,
    .monotonic = true,
    .keys = {"a", "b"},
    .texts = {"1", "2"},
    .time = NOW,
    .value = 17,
};

static void put_point(struct buf *b, const struct shape *s)
{
    pb_fixed64(b, 2, 1000);
    pb_fixed64(b, 3, s->time);
    pb_fixed64(b, 6, s->value);
    for (int i = 0; i < 4 && s->keys[i] != NULL; i++)
        put_attribute(b, 7, s->keys[i], s->texts[i]);
}

/* A request around the bytes of a data message. */
static void wrap_data(struct buf *data, const struct shape *s)
{
    struct buf b = {0}, part = {0};

    pb_str(&b, 1, s->metric);
    pb_str(&b, 3, s->unit);
    pb_bytes(&b, s->data, buf_bytes(data));
    pb_wrap(&b, 2);
    pb_str(&part, 1, s->scope);
    pb_wrap(&part, 1);
    buf_add_bytes(&part, buf_bytes(&b));
    pb_str(&part, 3, s->scope_url);
    pb_wrap(&part, 2);
    buf_reset(&b);
    put_attribute(&b, 1, "service.name", s->service);
    pb_wrap(&b, 1);
    buf_add_bytes(&b, buf_bytes(&part));
    pb_str(&b, 3, s->resource_url);
    pb_wrap(&b, 1);
    buf_reset(data);
    buf_add_bytes(data, buf_bytes(&b));
    buf_fini(&b);
    buf_fini(&part);
}

static void make(struct buf *out, const struct shape *s)
{
    buf_reset(out);
    put_point(out, s);
    pb_wrap(out, 1);
    if (s->data == 7) {
        pb_varint(out, 2, s->temporality);
        pb_varint(out, 3, s->monotonic);
    }
    wrap_data(out, s);
}

static void a_request_is_known_once_learned_whatever_its_times_and_values(void **state)
{
    struct shape s = plain;
    struct buf b = {0};

    (void)state;
    make(&b, &s);
    assert_false(compare(PROJECT, buf_bytes(&b)));
    learn(PROJECT, buf_bytes(&b));
    s.time = NOW + 5;
    s.value = 99;
    make(&b, &s);
    assert_true(compare(PROJECT, buf_bytes(&b)));
    assert_int_equal(fast.n_numbers, 1);
    assert_true(fast.numbers[0].value.u.i == 99);
    assert_true(fast.numbers[0].p.time == NOW + 5);
    assert_true(bytes_equal(fast.metrics[0].name, bytes_str("requests")));
    assert_true(bytes_equal(fast.resources[0].service_name, bytes_str("svc")));
    buf_fini(&b);
}

/* One thing differs, and with it the series: it is not the known one. */
static void equal_bytes_in_another_place_are_another_series(void **state)
{
    static const struct shape others[] = {
        {.service = "svd"},
        {.resource_url = "q-url"},
        {.scope = "lid"},
        {.scope_url = "t-url"},
        {.metric = "responses"},
        {.unit = "s"},
        {.data = 5},
        {.temporality = 1},
        {.keys = {"a", "c"}},
        {.texts = {"1", "3"}},
        {.keys = {"b", "a"}, .texts = {"2", "1"}},
        {.keys = {"a"}},
        {.keys = {"a", "b", "c"}, .texts = {"1", "2", "3"}},
        {.keys = {"", NULL}},
    };
    struct buf b = {0};

    (void)state;
    make(&b, &plain);
    learn(PROJECT, buf_bytes(&b));
    assert_false(compare(PROJECT + 1, buf_bytes(&b)));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const struct shape *o = &others[i];
        struct shape s = plain;

        if (o->service != NULL)
            s.service = o->service;
        if (o->resource_url != NULL)
            s.resource_url = o->resource_url;
        if (o->scope != NULL)
            s.scope = o->scope;
        if (o->scope_url != NULL)
            s.scope_url = o->scope_url;
        if (o->metric != NULL)
            s.metric = o->metric;
        if (o->unit != NULL)
            s.unit = o->unit;
        if (o->data != 0)
            s.data = o->data;
        if (o->temporality != 0)
            s.temporality = o->temporality;
        if (o->keys[0] != NULL)
            memcpy(s.keys, o->keys, sizeof(s.keys));
        if (o->texts[0] != NULL)
            memcpy(s.texts, o->texts, sizeof(s.texts));
        if (o->keys[0] != NULL && o->keys[0][0] == '\0')
            s.keys[0] = NULL; /* no attributes at all */
        make(&b, &s);
        assert_false(compare(PROJECT, buf_bytes(&b)));
        /* Once learned it is known, and the first one still is. */
        assert_true(twice(PROJECT, buf_bytes(&b)));
        make(&b, &plain);
        assert_true(compare(PROJECT, buf_bytes(&b)));
    }
    /* The same request in a project of its own has numbers of its own (see compare). */
    assert_true(twice(PROJECT + 1, buf_bytes(&b)));
    buf_fini(&b);
}

static uint64_t collide(struct bytes b, uint64_t seed)
{
    (void)b;
    (void)seed;
    return 42;
}

static void colliding_hashes_confuse_nothing(void **state)
{
    known->hash = collide;
    equal_bytes_in_another_place_are_another_series(state);
}

/* The pieces of a metric's key, end to end, are the same bytes in both; a field has moved from the
 * data message to the metric, where it means something else. */
static void a_field_that_moves_to_another_message_is_seen(void **state)
{
    struct buf data = {0}, b = {0};

    (void)state;
    for (int inside = 0; inside < 2; inside++) {
        buf_reset(&data);
        buf_reset(&b);
        put_point(&data, &plain);
        pb_wrap(&data, 1);
        if (inside)
            pb_varint(&data, 2, 2);
        pb_str(&b, 1, "m");
        pb_bytes(&b, 5, buf_bytes(&data)); /* a gauge: its field 2 is unknown */
        if (!inside)
            pb_str(&b, 2, "text"); /* description */
        pb_wrap(&b, 2);
        pb_wrap(&b, 2);
        pb_wrap(&b, 1);
        assert_false(compare(PROJECT, buf_bytes(&b)));
        assert_true(twice(PROJECT, buf_bytes(&b)));
    }
    buf_fini(&data);
    buf_fini(&b);
}

static void series_are_learned_only_with_a_number_and_keep_it(void **state)
{
    struct buf b = {0};

    (void)state;
    make(&b, &plain);
    assert_true(decode_slow(buf_bytes(&b)));
    known_learn(known, PROJECT, buf_bytes(&b), &limits, &slow);
    assert_false(decode_known(PROJECT, buf_bytes(&b)));
    slow.series[0].number = 5;
    known_learn(known, PROJECT, buf_bytes(&b), &limits, &slow);
    assert_true(decode_known(PROJECT, buf_bytes(&b)));
    assert_int_equal(fast.series[0].number, 5);
    for (int i = 0; i < 3; i++) {
        known_learn(known, PROJECT, buf_bytes(&b), &limits, &slow);
        assert_true(decode_known(PROJECT, buf_bytes(&b)));
        assert_int_equal(fast.series[0].number, 5);
    }
    buf_fini(&b);
}

/* Two points, one of them unknown: all of it is decode_body's. */
static void one_unknown_series_makes_the_request_unknown(void **state)
{
    struct shape s = plain;
    struct buf data = {0}, more = {0};

    (void)state;
    make(&data, &plain);
    learn(PROJECT, buf_bytes(&data));
    buf_reset(&data);
    put_point(&data, &plain);
    pb_wrap(&data, 1);
    s.texts[0] = "another";
    put_point(&more, &s);
    pb_wrap(&more, 1);
    buf_add_bytes(&data, buf_bytes(&more));
    pb_varint(&data, 2, 2);
    pb_varint(&data, 3, 1);
    wrap_data(&data, &plain);
    assert_false(compare(PROJECT, buf_bytes(&data)));
    assert_true(twice(PROJECT, buf_bytes(&data)));
    assert_int_equal(fast.n_series, 2);
    buf_fini(&data);
    buf_fini(&more);
}

static void what_was_warned_of_or_rejected_is_not_learned(void **state)
{
    struct shape s = plain;
    struct buf b = {0};

    (void)state;
    s.keys[1] = "a"; /* twice the same key */
    make(&b, &s);
    assert_false(twice(PROJECT, buf_bytes(&b)));
    assert_int_equal(slow.warnings[WARN_DUPLICATE_KEY], 1);
    s = plain;
    s.texts[0] = "\xff";
    make(&b, &s);
    assert_false(twice(PROJECT, buf_bytes(&b)));
    assert_int_equal(slow.warnings[WARN_UTF8], 1);
    s = plain;
    s.time = 0;
    make(&b, &s);
    assert_false(twice(PROJECT, buf_bytes(&b)));
    assert_int_equal(slow.rejected[REJECT_TIME_ZERO], 1);
    buf_fini(&b);
}

/* Rules about points hold on the short way: a known series with a bad point is not stored, and what
 * is worth a warning is warned of. */
static void rules_about_points_hold_for_known_series(void **state)
{
    struct shape s = plain;
    struct buf b = {0};

    (void)state;
    make(&b, &plain);
    learn(PROJECT, buf_bytes(&b));
    s.time = (uint64_t)NOW + UINT64_C(48) * 3600 * 1000000000; /* past the slack of a day */
    make(&b, &s);
    assert_false(compare(PROJECT, buf_bytes(&b)));
    s.time = 0;
    make(&b, &s);
    assert_false(compare(PROJECT, buf_bytes(&b)));
    s.time = 999; /* before the start time of 1000 */
    make(&b, &s);
    assert_true(compare(PROJECT, buf_bytes(&b)));
    assert_int_equal(fast.warnings[WARN_START_AFTER_TIME], 1);
    /* One point, one metric, scope and resource of ten each. */
    s.time = NOW;
    make(&b, &s);
    limits.max_points = 31;
    assert_true(compare(PROJECT, buf_bytes(&b)));
    limits.max_points = 30;
    assert_false(compare(PROJECT, buf_bytes(&b)));
    buf_fini(&b);
}

/* Also one without a value, which is dropped: it has cost its decoding. */
static void exemplars_weigh_like_points_kept_or_not(void **state)
{
    struct buf data = {0}, e = {0};

    (void)state;
    put_point(&data, &plain);
    pb_fixed64(&e, 2, (uint64_t)NOW);
    pb_bytes(&data, 5, buf_bytes(&e));
    pb_fixed64(&e, 6, 1);
    pb_bytes(&data, 5, buf_bytes(&e));
    pb_wrap(&data, 1);
    pb_varint(&data, 2, 2);
    pb_varint(&data, 3, 1);
    wrap_data(&data, &plain);
    assert_true(twice(PROJECT, buf_bytes(&data)));
    assert_int_equal(fast.n_exemplars, 1);
    limits.max_points = 33;
    assert_true(compare(PROJECT, buf_bytes(&data)));
    limits.max_points = 32;
    assert_false(compare(PROJECT, buf_bytes(&data)));
    buf_fini(&data);
    buf_fini(&e);
}

static void other_limits_are_not_served(void **state)
{
    struct buf b = {0};

    (void)state;
    make(&b, &plain);
    assert_true(twice(PROJECT, buf_bytes(&b)));
    limits.max_attributes = 1;
    assert_false(compare(PROJECT, buf_bytes(&b)));
    limits = decode_limits_default;
    limits.max_name_bytes = 3;
    assert_false(compare(PROJECT, buf_bytes(&b)));
    buf_fini(&b);
}

/* --- generated requests --------------------------------------------------------------------- */

static const char *const few[] = {"", "a", "b", "key", "value", "longer than one word"};

static const char *some_text(void)
{
    return few[random_below(6)];
}

static double some_double(void)
{
    static const double values[] = {0, -0.0, 1, 0.5, 99, -1e300};
    uint64_t bits = random_u64();
    double d;

    if (random_below(4) > 0)
        return values[random_below(6)];
    memcpy(&d, &bits, sizeof(d));
    return d;
}

static bool rarely(void)
{
    return random_below(150) == 0;
}

/* A field that no descriptor knows, or one of a wrong type. */
static void put_oddity(struct buf *b)
{
    switch (random_below(4)) {
    case 0:
        pb_varint(b, 100, random_u64());
        break;
    case 1:
        pb_str(b, 2047, "unknown");
        break;
    case 2:
        pb_varint(b, 1 + random_below(12), random_below(300));
        break;
    default:
        buf_add_char(b, (char)(uint8_t)random_u64());
        break;
    }
}

/* Keys come in turn, so that two attributes of one list seldom have the same. */
static void random_attribute(struct buf *b, uint32_t field)
{
    static unsigned turn;
    struct buf value = {0}, pair = {0};

    switch (random_below(8)) {
    case 0:
        pb_varint(&value, 3, random_u64() >> random_below(64));
        break;
    case 1:
        pb_varint(&value, 2, random_below(2));
        break;
    case 2:
        pb_double(&value, 4, some_double());
        break;
    case 3:
        pb_str(&value, 7, some_text());
        break;
    case 4:
        if (random_below(4) == 0) {
            pb_str(&value, 1, "in a list");
            pb_wrap(&value, 1);
            pb_wrap(&value, 5);
            break;
        }
        /* fall through */
    default:
        pb_str(&value, 1, some_text());
        break;
    }
    pb_str(&pair, 1, few[1 + (rarely() ? random_below(5) : turn++ % 5)]);
    if (!rarely())
        pb_bytes(&pair, 2, buf_bytes(&value));
    if (rarely())
        put_oddity(&pair);
    pb_bytes(b, field, buf_bytes(&pair));
    buf_fini(&value);
    buf_fini(&pair);
}

static void random_exemplar(struct buf *b, uint32_t field)
{
    struct buf e = {0};

    pb_fixed64(&e, 2, (uint64_t)NOW);
    if (random_below(2))
        pb_double(&e, 3, some_double());
    else if (!rarely())
        pb_fixed64(&e, 6, random_u64());
    if (random_below(2))
        pb_str(&e, 4, rarely() ? "short" : "8 bytes.");
    if (random_below(2))
        pb_str(&e, 5, "sixteen letters.");
    for (unsigned n = random_below(3); n > 0; n--)
        random_attribute(&e, 7);
    if (rarely())
        put_oddity(&e);
    pb_bytes(b, field, buf_bytes(&e));
    buf_fini(&e);
}

static void random_packed(struct buf *b, uint32_t field, unsigned n, bool varints)
{
    struct buf v = {0};

    for (unsigned i = 0; i < n; i++) {
        uint64_t x = random_below(20);

        if (rarely())
            x = random_u64();
        if (varints)
            pb_raw_varint(&v, x);
        else
            buf_add(&v, &x, sizeof(x));
    }
    pb_bytes(b, field, buf_bytes(&v));
    buf_fini(&v);
}

static void random_bounds(struct buf *b, unsigned n)
{
    struct buf v = {0};

    for (unsigned i = 0; i < n; i++) {
        double x = rarely() ? 0 : (double)i * 2.5;

        buf_add(&v, &x, sizeof(x));
    }
    pb_bytes(b, 7, buf_bytes(&v));
    buf_fini(&v);
}

static void random_buckets(struct buf *b, uint32_t field)
{
    struct buf v = {0};

    if (random_below(3) > 0)
        pb_varint(&v, 1, random_below(100));
    random_packed(&v, 2, random_below(20), true);
    pb_bytes(b, field, buf_bytes(&v));
    buf_fini(&v);
}

/* One field of a point of type (0 number, 1 histogram, 2 exponential, 3 summary); step goes
 * through the kinds of field, in an order that is shuffled now and then. */
static void random_field(struct buf *b, int type, unsigned step)
{
    static const uint32_t attributes[] = {7, 9, 1, 7}, flags[] = {8, 10, 10, 8},
                          exemplars[] = {5, 8, 11, 0};

    switch (step) {
    case 0:
        if (random_below(4) > 0)
            pb_fixed64(b, 2, random_below(3) ? 1000 : (uint64_t)NOW + 1);
        break;
    case 1:
        pb_fixed64(b, 3, rarely() ? 0 : (uint64_t)NOW);
        break;
    case 2:
        if (type == 0 && random_below(2))
            pb_double(b, 4, some_double());
        else
            pb_fixed64(b, type == 0 ? 6 : 4, random_below(50));
        break;
    case 3:
        if (type != 0)
            pb_double(b, 5, some_double());
        break;
    case 4:
        for (unsigned n = random_below(4); n > 0; n--)
            random_attribute(b, attributes[type]);
        break;
    case 5:
        if (random_below(3) == 0)
            pb_varint(b, flags[type], random_below(3));
        break;
    case 6:
        for (unsigned n = random_below(3); n > 0 && type != 3; n--)
            random_exemplar(b, exemplars[type]);
        break;
    case 7:
        if (type == 1 && random_below(4) > 0) {
            unsigned n = 1 + random_below(10);

            random_packed(b, 6, n, false);
            random_bounds(b, rarely() ? n : n - 1);
        } else if (type == 2) {
            pb_varint(b, 6, random_below(50));
            pb_fixed64(b, 7, random_below(5));
            random_buckets(b, 8);
            if (random_below(2))
                random_buckets(b, 9);
        } else if (type == 3) {
            for (unsigned n = random_below(4), i = 0; i < n; i++) {
                struct buf q = {0};

                pb_double(&q, 1, rarely() ? 0 : (double)i / 4);
                pb_double(&q, 2, some_double());
                pb_bytes(b, 6, buf_bytes(&q));
                buf_fini(&q);
            }
        }
        break;
    default:
        if (type == 1 || type == 2) {
            pb_double(b, type == 1 ? 11 : 12, some_double());
            if (random_below(2))
                pb_double(b, type == 1 ? 12 : 13, some_double());
            if (type == 2 && random_below(4) == 0)
                pb_double(b, 14, 1e-9);
        }
        break;
    }
}

static void random_point(struct buf *b, int type)
{
    unsigned first = random_below(4) == 0 ? random_below(9) : 0;
    struct buf p = {0};

    for (unsigned i = 0; i < 9; i++)
        random_field(&p, type, (first + i) % 9);
    if (rarely())
        random_field(&p, type, random_below(9)); /* a field again */
    if (random_below(200) == 0)
        put_oddity(&p);
    pb_bytes(b, 1, buf_bytes(&p));
    buf_fini(&p);
}

static void random_metric(struct buf *b)
{
    static const uint32_t fields[] = {5, 7, 9, 10, 11};
    static const int types[] = {0, 0, 1, 2, 3};
    unsigned kind = random_below(5);
    struct buf m = {0}, d = {0};

    pb_str(&m, 1, rarely() ? "" : few[1 + random_below(5)]);
    if (random_below(2))
        pb_str(&m, 3, some_text());
    if (random_below(8) == 0)
        random_attribute(&m, 12);
    if (random_below(8) == 0 && kind >= 1 && kind <= 3)
        pb_varint(&d, 2, 2);
    for (unsigned n = rarely() ? 0 : 1 + random_below(4); n > 0; n--)
        random_point(&d, types[kind]);
    if (kind >= 1 && kind <= 3)
        pb_varint(&d, 2, rarely() ? 0 : 1 + random_below(2));
    if (kind == 1)
        pb_varint(&d, 3, random_below(2));
    if (rarely())
        put_oddity(&d);
    pb_bytes(&m, fields[kind], buf_bytes(&d));
    if (random_below(4) == 0)
        pb_str(&m, 2, some_text());
    if (random_below(200) == 0)
        pb_bytes(&m, fields[random_below(5)], bytes_of(NULL, 0)); /* a oneof given twice */
    pb_bytes(b, 2, buf_bytes(&m));
    buf_fini(&m);
    buf_fini(&d);
}

static void random_scope(struct buf *b)
{
    struct buf s = {0}, part = {0};

    pb_str(&part, 1, some_text());
    if (random_below(2))
        random_attribute(&part, 3);
    if (random_below(4) > 0)
        pb_bytes(&s, 1, buf_bytes(&part));
    for (unsigned n = rarely() ? 0 : 1 + random_below(3); n > 0; n--)
        random_metric(&s);
    if (random_below(2))
        pb_str(&s, 3, some_text());
    if (rarely())
        random_metric(&s); /* not with the others */
    pb_bytes(b, 2, buf_bytes(&s));
    buf_fini(&s);
    buf_fini(&part);
}

static void random_request(struct buf *b)
{
    buf_reset(b);
    for (unsigned n = 1 + random_below(2); n > 0; n--) {
        struct buf r = {0}, part = {0};

        put_attribute(&part, 1, "service.name", some_text());
        if (random_below(4) == 0)
            pb_varint(&part, 2, 7); /* dropped attributes */
        if (random_below(8) > 0)
            pb_bytes(&r, 1, buf_bytes(&part));
        for (unsigned k = rarely() ? 0 : 1 + random_below(2); k > 0; k--)
            random_scope(&r);
        if (random_below(4) == 0)
            pb_str(&r, 3, some_text());
        pb_bytes(b, 1, buf_bytes(&r));
        buf_fini(&r);
        buf_fini(&part);
    }
    if (random_below(100) == 0)
        put_oddity(b);
    assert_false(b->failed);
}

static void mutate(struct buf *b)
{
    size_t at = random_below((unsigned)b->n);

    switch (random_below(4)) {
    case 0:
        b->p[at] ^= (uint8_t)(1u << random_below(8));
        break;
    case 1:
        b->p[at] = (uint8_t)random_u64();
        break;
    case 2:
        memmove(b->p + at, b->p + at + 1, b->n - at - 1);
        b->n--;
        break;
    default:
        buf_add_char(b, 0);
        memmove(b->p + at + 1, b->p + at, b->n - at - 1);
        b->p[at] = (uint8_t)random_u64();
        break;
    }
}

/* Each is compared, learned, and compared again, and so are changed copies of it. */
static void generated_requests(unsigned rounds, unsigned changes)
{
    unsigned taken = 0, taken_changed = 0;
    struct buf b = {0}, changed = {0};

    for (unsigned i = 0; i < rounds; i++) {
        random_request(&b);
        taken += twice(PROJECT, buf_bytes(&b));
        for (unsigned k = 0; k < changes; k++) {
            buf_reset(&changed);
            buf_add_bytes(&changed, buf_bytes(&b));
            for (unsigned n = 1 + random_below(2); n > 0 && changed.n > 0; n--)
                mutate(&changed);
            taken_changed += twice(PROJECT, buf_bytes(&changed));
        }
    }
    /* The test is worth something: many go the short way, and many of the changed ones do. */
    assert_true(taken > rounds / 10);
    assert_true(taken_changed > rounds * changes / 40);
    buf_fini(&b);
    buf_fini(&changed);
}

static void generated_requests_and_changed_ones_agree(void **state)
{
    (void)state;
    generated_requests(1500, 8);
}

static void with_colliding_hashes_too(void **state)
{
    (void)state;
    known->hash = collide;
    generated_requests(60, 4);
}

/* The cache holds a few requests; all the time entries go and come. */
static void in_a_tiny_cache_too(void **state)
{
    (void)state;
    known_free(known);
    known = known_new(90 << 10);
    assert_non_null(known);
    generated_requests(1000, 2);
}

static void and_in_a_tiny_cache_with_colliding_hashes(void **state)
{
    (void)state;
    known_free(known);
    known = known_new(90 << 10);
    assert_non_null(known);
    known->hash = collide;
    generated_requests(200, 2);
}

/* --- recorded requests ---------------------------------------------------------------------- */

static bool has_end(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);

    return n >= m && strcmp(name + n - m, end) == 0;
}

static bool read_whole(const char *path, struct buf *out)
{
    FILE *f = fopen(path, "rb");
    char part[4096];
    size_t n;

    if (f == NULL)
        return false;
    buf_reset(out);
    while ((n = fread(part, 1, sizeof(part), f)) > 0)
        buf_add(out, part, n);
    fclose(f);
    return !out->failed;
}

/* Every protobuf body of a folder of ../shared, each twice. How many were known then. */
static unsigned folder(const char *name, unsigned *n_files)
{
    const char *shared = getenv("OTLITE_SHARED");
    struct buf file = {0}, body = {0};
    unsigned taken = 0;
    char dir[512], path[1024];
    struct dirent *e;
    DIR *d;

    snprintf(dir, sizeof(dir), "%s/%s", shared != NULL ? shared : "../shared", name);
    d = opendir(dir);
    while (d != NULL && (e = readdir(d)) != NULL) {
        struct otl_error err;

        snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        if (has_end(e->d_name, ".hex")) {
            if (!shared_case(e->d_name, &body))
                continue;
        } else if (has_end(e->d_name, ".bin")) {
            if (!read_whole(path, &body))
                continue;
        } else if (!has_end(e->d_name, ".bin.gz") || !read_whole(path, &file) ||
                   inflate_body(CODING_GZIP, buf_bytes(&file), 8 << 20, &body, &err) != OTL_OK) {
            continue;
        }
        ++*n_files;
        taken += twice(PROJECT, buf_bytes(&body));
    }
    if (d != NULL)
        closedir(d);
    buf_fini(&file);
    buf_fini(&body);
    return taken;
}

static void recorded_requests_agree_and_those_of_sdks_are_known(void **state)
{
    unsigned n = 0, taken;

    (void)state;
    limits.future_slack_ns = 0; /* whenever they were recorded */
    taken = folder("payloads", &n);
    if (n == 0)
        skip();
    assert_int_equal(taken, n); /* what real SDKs send goes the short way, all of it */
    n = 0;
    taken = folder("cases", &n);
    assert_true(n > 0 && taken > 0);
}

/* --- lengths and memory --------------------------------------------------------------------- */

/* A body with every type, known from end to end. */
static void known_body(struct buf *b)
{
    do
        random_request(b);
    while (!twice(PROJECT, buf_bytes(b)) || fast.n_histograms == 0 || fast.n_exponentials == 0 ||
           fast.n_summaries == 0 || fast.n_numbers == 0 || fast.n_exemplars == 0);
}

static void no_prefix_reads_past_its_end(void **state)
{
    struct buf b = {0};

    (void)state;
    known_body(&b);
    for (size_t n = 0; n <= b.n; n++) {
        struct guarded g = guarded_copy(bytes_of(b.p, n));

        bool taken = compare(PROJECT, g.b); /* a prefix may be a whole request too */

        assert_true(taken || n < b.n);
        guarded_free(&g);
    }
    buf_fini(&b);
}

static void every_budget_too_small_is_declined_cleanly(void **state)
{
    struct buf b = {0};
    size_t need;

    (void)state;
    known_body(&b);
    need = arena.used;
    for (size_t budget = 0; budget <= need; budget += 16) {
        bool taken;

        known_release(known, hold);
        hold = NULL;
        arena_reset(&arena, budget);
        taken = known_decode(known, PROJECT, buf_bytes(&b), &limits, NOW, &arena, &fast, &hold);
        assert_int_equal(taken, budget >= need);
        assert_true(taken || hold == NULL);
    }
    assert_true(batch_equal(&slow, &fast));
    buf_fini(&b);
}

static size_t cache_bytes(void)
{
    size_t n = 0;

    for (int i = 0; i < KNOWN_SLOTS; i++)
        n += known->slots[i].bytes;
    return n;
}

/* Request number i, with a series of its own. */
static void numbered(struct buf *b, unsigned i)
{
    struct shape s = plain;
    char text[32];

    snprintf(text, sizeof(text), "number %u", i);
    s.texts[0] = text;
    make(b, &s);
}

static void memory_is_bounded_and_old_entries_make_room(void **state)
{
    const size_t max = 120 << 10;
    struct buf b = {0};
    unsigned first_known = 0;

    (void)state;
    known_free(known);
    known = known_new(max);
    for (unsigned i = 0; i < 5000; i++) {
        numbered(&b, i);
        (void)twice(PROJECT, buf_bytes(&b));
        assert_true(cache_bytes() <= max);
        numbered(&b, 0); /* used all the time, so it stays, but for moments after a full slot */
        first_known += compare(PROJECT, buf_bytes(&b));
    }
    assert_true(first_known > 4900);
    numbered(&b, 4999);
    assert_true(compare(PROJECT, buf_bytes(&b)));
    numbered(&b, 1);
    assert_false(compare(PROJECT, buf_bytes(&b)));
    buf_fini(&b);
}

/* Links lead to entries of the two slots in use, never into memory that was given away. */
static void what_was_forgotten_is_not_expected(void **state)
{
    struct buf b = {0};

    (void)state;
    make(&b, &plain);
    learn(PROJECT, buf_bytes(&b));
    assert_true(compare(PROJECT, buf_bytes(&b)));
    assert_non_null(known_expected(known, NULL));
    known_release(known, hold);
    hold = NULL;
    for (int i = 0; i < 2; i++) {
        known->full = true; /* as if an entry had found no room */
        known_make_room(known);
        assert_int_equal(known_expected(known, NULL) != NULL, i == 0);
    }
    assert_false(compare(PROJECT, buf_bytes(&b)));
    buf_fini(&b);
}

/* A batch that borrows from entries keeps them, however many others come after. */
static void what_a_batch_holds_stays_until_it_is_released(void **state)
{
    struct arena mine;
    struct batch held;
    struct known_hold *of_held = NULL;
    struct buf b = {0}, other = {0};

    (void)state;
    known_free(known);
    known = known_new(60 << 10);
    make(&b, &plain);
    learn(PROJECT, buf_bytes(&b));
    arena_init(&mine, BUDGET);
    assert_true(known_decode(known, PROJECT, buf_bytes(&b), &limits, NOW, &mine, &held, &of_held));
    for (unsigned i = 0; i < 3000; i++) {
        numbered(&other, i);
        (void)twice(PROJECT, buf_bytes(&other));
        assert_true(decode_slow(buf_bytes(&b)));
        assert_true(batch_equal(&slow, &held));
    }
    /* Nothing new is taken in while its slot is needed; afterwards it is. */
    assert_false(compare(PROJECT, buf_bytes(&other)));
    known_release(known, of_held);
    assert_true(twice(PROJECT, buf_bytes(&other)));
    arena_fini(&mine);
    buf_fini(&b);
    buf_fini(&other);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, fresh, done)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_request_is_known_once_learned_whatever_its_times_and_values),
        CASE(equal_bytes_in_another_place_are_another_series),
        CASE(colliding_hashes_confuse_nothing),
        CASE(a_field_that_moves_to_another_message_is_seen),
        CASE(series_are_learned_only_with_a_number_and_keep_it),
        CASE(one_unknown_series_makes_the_request_unknown),
        CASE(what_was_warned_of_or_rejected_is_not_learned),
        CASE(rules_about_points_hold_for_known_series),
        CASE(exemplars_weigh_like_points_kept_or_not),
        CASE(other_limits_are_not_served),
        CASE(generated_requests_and_changed_ones_agree),
        CASE(with_colliding_hashes_too),
        CASE(in_a_tiny_cache_too),
        CASE(and_in_a_tiny_cache_with_colliding_hashes),
        CASE(recorded_requests_agree_and_those_of_sdks_are_known),
        CASE(no_prefix_reads_past_its_end),
        CASE(every_budget_too_small_is_declined_cleanly),
        CASE(memory_is_bounded_and_old_entries_make_room),
        CASE(what_was_forgotten_is_not_expected),
        CASE(what_a_batch_holds_stays_until_it_is_released),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
