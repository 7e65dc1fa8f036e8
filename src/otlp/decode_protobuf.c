/* decode_protobuf.c -- a protobuf body becomes the message tree, in the request's arena. */
#include "message.h"

static void *tree_alloc(void *arena, size_t n)
{
    return arena_alloc(arena, n);
}

/* The arena goes in one step. What protobuf-c frees on the way (its list of fields seen, a oneof
 * member that a later one replaces) stays counted, so the budget bounds its work as well. */
static void tree_free(void *arena, void *p)
{
    (void)arena;
    (void)p;
}

enum otl_err decode_protobuf(struct bytes body, const struct decode_limits *lim, struct arena *a,
                             otlp_request **out, struct otl_error *err)
{
    ProtobufCAllocator allocator = {tree_alloc, tree_free, a};
    otlp_request *m = NULL;
    size_t least = 0;
    enum otl_err rc;

    rc = wirecheck_size(body, lim, &least, err);
    if (rc != OTL_OK)
        return rc;
    if (least > a->budget - a->used)
        a->over_budget = true;
    else
        m = otlp__export_metrics_service_request__unpack(&allocator, body.n, body.p);
    if (m != NULL) {
        *out = m;
        return OTL_OK;
    }
    if (a->over_budget)
        return otl_fail(err, OTL_ETOOBIG,
                        "The body of %zu bytes needs more than %zu bytes when decoded, which is "
                        "the limit for one of its size; send smaller batches.",
                        body.n, a->budget);
    if (a->no_memory)
        return otl_fail(err, OTL_ENOMEM, "No memory to decode the body; send it again later.");
    return otl_fail(err, OTL_EBADDATA,
                    "The protobuf body is not an ExportMetricsServiceRequest; check what the "
                    "sender writes.");
}
