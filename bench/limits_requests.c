/* limits_requests.c -- the requests that every stage is measured with, encoded and decoded. */
#include <stdlib.h>
#include <string.h>

#include "limits.h"
#include "otlite/clock.h"
#include "otlite/decode.h"

enum { STEP_NS = 1000000 /* more than the points of one request are apart */ };

enum otl_err limits_requests(unsigned points, bool json, bool gzip, struct template_set *out,
                             struct otl_error *err)
{
    const struct template_opts o = {
        .host = "127.0.0.1",
        .path = "/v1/metrics",
        .headers = "",
        .json = json,
        .gzip = gzip,
        .points = points,
        .services = LIMITS_SERVICES,
        .series = LIMITS_SERIES,
        .start_ns = clock_wall_ns(),
    };
    enum otl_err rc = template_set_init(out, &o, err);

    for (unsigned i = 0; rc == OTL_OK && i < out->n; i++)
        (void)template_next(&out->templates[i], clock_wall_ns());
    return rc;
}

enum otl_err limits_batches_init(struct limits_batches *b, unsigned points, struct otl_error *err)
{
    enum otl_err rc;

    memset(b, 0, sizeof(*b));
    rc = limits_requests(points, false, false, &b->requests, err);
    if (rc != OTL_OK)
        return rc;
    b->arenas = calloc(b->requests.n, sizeof(*b->arenas));
    b->batches = calloc(b->requests.n, sizeof(*b->batches));
    if (b->arenas == NULL || b->batches == NULL) {
        limits_batches_fini(b);
        return otl_fail(err, OTL_ENOMEM, "no memory for the decoded requests");
    }
    for (unsigned i = 0; i < b->requests.n && rc == OTL_OK; i++) {
        arena_init(&b->arenas[i], LIMITS_MAX_DECODED);
        b->n++;
        rc = decode_body(ENCODING_PROTOBUF, template_body(&b->requests.templates[i]),
                         &decode_limits_default, clock_wall_ns(), &b->arenas[i], &b->batches[i],
                         err);
    }
    if (rc != OTL_OK)
        limits_batches_fini(b);
    return rc;
}

void limits_batches_fini(struct limits_batches *b)
{
    for (unsigned i = 0; i < b->n; i++)
        arena_fini(&b->arenas[i]);
    free(b->arenas);
    free(b->batches);
    template_set_fini(&b->requests);
    memset(b, 0, sizeof(*b));
}

void limits_advance(struct batch *b)
{
    for (uint32_t i = 0; i < b->n_numbers; i++) {
        b->numbers[i].p.time += STEP_NS;
        b->numbers[i].value.u.i += 7;
    }
}
