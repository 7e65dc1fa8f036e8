/* limits_decode.c -- the stages that an event loop does to a body: pure, on one thread. */
#include <stdlib.h>
#include <string.h>

#include "limits.h"
#include "otlite/clock.h"
#include "otlite/decode.h"
#include "otlite/known.h"

enum { KNOWN_BYTES = 64 << 20 };

/* The bodies, and what they are turned into. */
struct bodies {
    struct template_set requests;
    enum encoding encoding;
    struct buf copy;
    struct arena arena;
};

static enum otl_err bodies_init(struct bodies *b, const struct limits_opts *o, bool json, bool gzip,
                                struct otl_error *err)
{
    memset(b, 0, sizeof(*b));
    b->encoding = json ? ENCODING_JSON : ENCODING_PROTOBUF;
    arena_init(&b->arena, LIMITS_MAX_DECODED);
    return limits_requests(o->points, json, gzip, &b->requests, err);
}

static void bodies_fini(struct bodies *b)
{
    template_set_fini(&b->requests);
    buf_fini(&b->copy);
    arena_fini(&b->arena);
}

static enum otl_err copy_all(void *arg, uint64_t *points, struct otl_error *err)
{
    struct bodies *b = arg;

    for (unsigned i = 0; i < b->requests.n; i++) {
        buf_reset(&b->copy);
        buf_add_bytes(&b->copy, template_body(&b->requests.templates[i]));
        *points += b->requests.templates[i].n_fields;
    }
    return b->copy.failed ? otl_fail(err, OTL_ENOMEM, "no memory for a body") : OTL_OK;
}

static enum otl_err inflate_all(void *arg, uint64_t *points, struct otl_error *err)
{
    struct bodies *b = arg;

    for (unsigned i = 0; i < b->requests.n; i++) {
        enum otl_err rc = inflate_body(CODING_GZIP, template_body(&b->requests.templates[i]),
                                       LIMITS_MAX_BODY, &b->copy, err);

        if (rc != OTL_OK)
            return rc;
        *points += b->requests.templates[i].n_fields;
    }
    return OTL_OK;
}

static enum otl_err decode_all(void *arg, uint64_t *points, struct otl_error *err)
{
    struct bodies *b = arg;
    struct batch batch;

    for (unsigned i = 0; i < b->requests.n; i++) {
        enum otl_err rc;

        arena_reset(&b->arena, LIMITS_MAX_DECODED);
        rc = decode_body(b->encoding, template_body(&b->requests.templates[i]),
                         &decode_limits_default, clock_wall_ns(), &b->arena, &batch, err);
        if (rc != OTL_OK)
            return rc;
        *points += batch.n_numbers;
    }
    return OTL_OK;
}

/* --- protobuf of known series --- */

struct known_bodies {
    struct limits_batches requests;
    struct known *known;
    struct arena arena;
};

static enum otl_err decode_known(void *arg, uint64_t *points, struct otl_error *err)
{
    struct known_bodies *k = arg;

    for (unsigned i = 0; i < k->requests.n; i++) {
        struct known_hold *hold;
        struct batch batch;

        arena_reset(&k->arena, LIMITS_MAX_DECODED);
        if (!known_decode(k->known, LIMITS_PROJECT,
                          template_body(&k->requests.requests.templates[i]), &decode_limits_default,
                          clock_wall_ns(), &k->arena, &batch, &hold))
            return otl_fail(err, OTL_EINTERNAL, "a request was not recognised that was learned");
        *points += batch.n_numbers;
        known_release(k->known, hold);
    }
    return OTL_OK;
}

/* As if the store had taken them: each series has a number. */
static void learn_all(struct known_bodies *k)
{
    for (unsigned i = 0; i < k->requests.n; i++) {
        const struct template *t = &k->requests.requests.templates[i];
        struct batch *b = &k->requests.batches[i];

        for (uint32_t j = 0; j < b->n_series; j++)
            b->series[j].number = t->fields[j].series + 1;
        known_learn(k->known, LIMITS_PROJECT, template_body(t), &decode_limits_default, b);
    }
}

enum otl_err stage_known(const struct limits_opts *o, const struct stage_opts *s,
                         struct measure *out, struct otl_error *err)
{
    struct known_bodies k = {.known = known_new(KNOWN_BYTES)};
    enum otl_err rc = OTL_OK;

    (void)s;
    arena_init(&k.arena, LIMITS_MAX_DECODED);
    if (k.known == NULL)
        rc = otl_fail(err, OTL_ENOMEM, "no memory for the cache of known series");
    if (rc == OTL_OK)
        rc = limits_batches_init(&k.requests, o->points, err);
    if (rc == OTL_OK) {
        learn_all(&k);
        rc = limits_repeat(o, decode_known, &k, out, err);
    }
    limits_batches_fini(&k.requests);
    known_free(k.known);
    arena_fini(&k.arena);
    return rc;
}

/* --- the stages --- */

static enum otl_err measure_bodies(const struct limits_opts *o, bool json, bool gzip, pass_fn pass,
                                   struct measure *out, struct otl_error *err)
{
    struct bodies b;
    enum otl_err rc = bodies_init(&b, o, json, gzip, err);

    if (rc == OTL_OK)
        rc = limits_repeat(o, pass, &b, out, err);
    bodies_fini(&b);
    return rc;
}

enum otl_err stage_memcpy(const struct limits_opts *o, const struct stage_opts *s,
                          struct measure *out, struct otl_error *err)
{
    (void)s;
    return measure_bodies(o, false, false, copy_all, out, err);
}

enum otl_err stage_inflate(const struct limits_opts *o, const struct stage_opts *s,
                           struct measure *out, struct otl_error *err)
{
    (void)s;
    return measure_bodies(o, false, true, inflate_all, out, err);
}

enum otl_err stage_protobuf(const struct limits_opts *o, const struct stage_opts *s,
                            struct measure *out, struct otl_error *err)
{
    (void)s;
    return measure_bodies(o, false, false, decode_all, out, err);
}

enum otl_err stage_json(const struct limits_opts *o, const struct stage_opts *s,
                        struct measure *out, struct otl_error *err)
{
    (void)s;
    return measure_bodies(o, true, false, decode_all, out, err);
}
