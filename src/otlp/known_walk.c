/* known_walk.c -- envelopes: from a request to the data of its metrics (known_walk.h). */
#include "known_walk.h"

#include "wire.h"

static const uint8_t nothing[1];

static bool skip_bytes(const uint8_t **p, const uint8_t *end, uint64_t n)
{
    if (n > (uint64_t)(end - *p))
        return false;
    *p += n;
    return true;
}

/* What follows a tag. Groups are not part of OTLP. */
static bool skip_value(const uint8_t **p, const uint8_t *end, unsigned wire)
{
    uint64_t n;

    switch (wire) {
    case WIRE_VARINT:
        return skip_varint(p, end);
    case WIRE_64:
        return skip_bytes(p, end, 8);
    case WIRE_LENGTH:
        return read_length(p, end, &n) && skip_bytes(p, end, n);
    case WIRE_32:
        return skip_bytes(p, end, 4);
    default:
        return false;
    }
}

static struct bytes between(const uint8_t *p, const uint8_t *end)
{
    return bytes_of(p, (size_t)(end - p));
}

/* child is below 16, so that its usual tag is one byte. */
static bool split(struct bytes m, uint32_t child, struct split *out)
{
    const uint8_t *start = m.n > 0 ? m.p : nothing, *end = start + m.n, *p = start;
    const uint8_t *run = NULL, *run_end = NULL;
    const uint8_t usual = (uint8_t)(child << 3 | WIRE_LENGTH);
    uint32_t n = 0, number;
    unsigned wire;
    uint64_t length;

    while (p < end) {
        const uint8_t *tag = p;

        if (*p == usual) {
            p++;
        } else {
            if (!read_tag(&p, end, &number, &wire) || number == 0)
                return false;
            if (number != child) {
                if (run != NULL && run_end == NULL)
                    run_end = tag;
                if (!skip_value(&p, end, wire))
                    return false;
                continue;
            }
            if (wire != WIRE_LENGTH)
                return false;
        }
        if (run_end != NULL || n == UINT32_MAX || !read_length(&p, end, &length) ||
            !skip_bytes(&p, end, length))
            return false;
        if (run == NULL)
            run = tag;
        n++;
    }
    if (run == NULL)
        return false;
    if (run_end == NULL)
        run_end = end;
    *out = (struct split){between(start, run), between(run, run_end), between(run_end, end), n};
    return true;
}

static bool is_data(uint32_t number, enum metric_type *type)
{
    switch (number) {
    case 5:
        *type = METRIC_GAUGE;
        return true;
    case 7:
        *type = METRIC_SUM;
        return true;
    case 9:
        *type = METRIC_HISTOGRAM;
        return true;
    case 10:
        *type = METRIC_EXPONENTIAL_HISTOGRAM;
        return true;
    case 11:
        *type = METRIC_SUMMARY;
        return true;
    default:
        return false;
    }
}

static bool split_metric(struct bytes m, struct metric_parts *out)
{
    const uint8_t *start = m.n > 0 ? m.p : nothing, *end = start + m.n, *p = start;
    bool has_data = false;
    uint32_t number;
    unsigned wire;
    uint64_t n;

    while (p < end) {
        if (!read_tag(&p, end, &number, &wire) || number == 0)
            return false;
        if (!is_data(number, &out->type)) {
            if (!skip_value(&p, end, wire))
                return false;
            continue;
        }
        /* Two data members, of one kind or of two, are for protobuf-c to join or to choose from. */
        if (has_data || wire != WIRE_LENGTH)
            return false;
        out->head = between(start, p);
        if (!read_length(&p, end, &n) || n > (uint64_t)(end - p) ||
            !split(bytes_of(p, (size_t)n), 1, &out->data))
            return false;
        p += n;
        out->tail = between(p, end);
        has_data = true;
    }
    return has_data;
}

void tour_begin(struct tour *t, struct bytes body)
{
    struct split top;

    *t = (struct tour){.bad = true};
    /* A field of the request that is not a resource is nobody's key, so it is not passed over. */
    if (split(body, 1, &top) && top.before.n == 0 && top.after.n == 0) {
        t->resources = top.run;
        t->bad = false;
    }
}

static bool tour_fail(struct tour *t)
{
    t->bad = true;
    t->resources.n = t->scopes.n = t->metrics.n = 0;
    return false;
}

bool tour_next(struct tour *t)
{
    t->new_resource = t->new_scope = false;
    if (t->metrics.n == 0) {
        if (t->scopes.n == 0) {
            if (t->resources.n == 0)
                return false;
            if (!split(run_next(&t->resources), 2, &t->resource))
                return tour_fail(t);
            t->scopes = t->resource.run;
            t->new_resource = true;
        }
        if (!split(run_next(&t->scopes), 2, &t->scope))
            return tour_fail(t);
        t->metrics = t->scope.run;
        t->new_scope = true;
    }
    return split_metric(run_next(&t->metrics), &t->metric) || tour_fail(t);
}
