/* fuzz_decode.c -- libFuzzer target: whatever body comes, decoding neither crashes nor leaves its
 * memory limits, and what it calls OK is a batch that the store may read (`make fuzz`).
 *
 * First byte: bit 0 the encoding, bits 1-2 the coding (3: none), bit 3 small limits. */
#include <stdlib.h>

#include "otlite/attrs.h"
#include "otlite/decode.h"
#include "otlite/reply.h"
#include "otlp/message.h"

enum { MAX_INFLATED = 1 << 20, BUDGET = 32 << 20 };

static void require(bool ok)
{
    if (!ok)
        abort();
}

static const struct decode_limits small_limits = {
    .max_value_depth = 3,
    .max_name_bytes = 4,
    .max_attributes = 2,
    .max_attribute_bytes = 16,
    .max_buckets = 3,
    .future_slack_ns = 1,
    .strict_counts = true,
    .accept_snake_case = true,
};

static void check_point(const struct batch *b, const struct point *p)
{
    require(p->series < b->n_series && p->time > 0 && p->start_time >= 0);
    require(p->first_exemplar <= b->n_exemplars &&
            p->n_exemplars <= b->n_exemplars - p->first_exemplar);
}

/* What batch.h promises of every batch. */
static void check_batch(const struct batch *b)
{
    require(b->received == batch_storable(b) + batch_rejected(b));
    require(b->n_series == batch_storable(b));
    for (uint32_t i = 0; i < b->n_resources; i++)
        require(attrs_valid(b->resources[i].attributes));
    for (uint32_t i = 0; i < b->n_scopes; i++)
        require(b->scopes[i].resource < b->n_resources && attrs_valid(b->scopes[i].attributes));
    for (uint32_t i = 0; i < b->n_metrics; i++)
        require(b->metrics[i].scope < b->n_scopes && attrs_valid(b->metrics[i].metadata) &&
                utf8_valid(b->metrics[i].name) && utf8_valid(b->metrics[i].unit));
    for (uint32_t i = 0; i < b->n_series; i++)
        require(b->series[i].metric < b->n_metrics && attrs_valid(b->series[i].attributes));
    for (uint32_t i = 0; i < b->n_numbers; i++)
        check_point(b, &b->numbers[i].p);
    for (uint32_t i = 0; i < b->n_histograms; i++) {
        const struct histogram_point *h = &b->histograms[i];

        check_point(b, &h->p);
        require(h->n_counts == 0 ? h->n_bounds == 0 : h->n_counts == h->n_bounds + 1);
    }
    for (uint32_t i = 0; i < b->n_exponentials; i++)
        check_point(b, &b->exponentials[i].p);
    for (uint32_t i = 0; i < b->n_summaries; i++)
        check_point(b, &b->summaries[i].p);
    for (uint32_t i = 0; i < b->n_exemplars; i++)
        require(b->exemplars[i].value.kind != VALUE_NONE &&
                attrs_valid(b->exemplars[i].attributes));
}

/* The estimate that refuses a flood must not refuse what fits. */
static void check_estimate(struct bytes body)
{
    struct otl_error err = {0};
    struct arena arena;
    otlp_request *m = NULL;
    size_t least = 0;

    arena_init(&arena, BUDGET);
    if (decode_protobuf(body, &decode_limits_default, &arena, &m, &err) == OTL_OK)
        require(wirecheck_size(body, &decode_limits_default, &least, &err) == OTL_OK &&
                least <= arena.used);
    arena_fini(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const int64_t now_ns = INT64_C(1800000000000000000);
    enum encoding encoding;
    struct buf inflated = {0}, answer = {0};
    struct otl_error err = {0};
    struct arena arena;
    struct batch batch;
    struct bytes body;
    enum otl_err rc = OTL_OK;

    if (n == 0)
        return 0;
    encoding = (data[0] & 1) != 0 ? ENCODING_JSON : ENCODING_PROTOBUF;
    body = bytes_of(data + 1, n - 1);
    if ((data[0] >> 1 & 3) != 3) {
        rc = inflate_body((enum coding)(data[0] >> 1 & 3), body, MAX_INFLATED, &inflated, &err);
        body = buf_bytes(&inflated);
        require(body.n <= MAX_INFLATED);
    }
    arena_init(&arena, BUDGET);
    if (rc == OTL_OK)
        rc =
            decode_body(encoding, body, (data[0] & 8) != 0 ? &small_limits : &decode_limits_default,
                        now_ns, &arena, &batch, &err);
    require(arena.used <= BUDGET);
    if (rc == OTL_OK) {
        check_batch(&batch);
        reply_success(encoding, &batch, &answer);
    } else {
        require(rc == OTL_EBADDATA || rc == OTL_ETOOBIG);
        require(err.code == rc && err.msg[0] != '\0');
        reply_status(encoding, &err, &answer);
    }
    require(!answer.failed);
    if (encoding == ENCODING_PROTOBUF)
        check_estimate(body);
    arena_fini(&arena);
    buf_fini(&inflated);
    buf_fini(&answer);
    return 0;
}
