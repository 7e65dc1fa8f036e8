/* limits_decode.c -- the stages that an event loop does to a body: pure, on one thread. */
#include <stdlib.h>
#include <string.h>

#include "limits.h"
#include "otlite/clock.h"
#include "otlite/decode.h"

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
