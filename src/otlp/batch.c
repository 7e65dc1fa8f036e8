/* batch.c -- from the message tree to flat arrays (otlp.md 3.2 and 3.4).
 *
 * A first walk counts, so that each array is one allocation of the arena. The second walk reads the
 * points (points.c). A resource, scope or metric enters its array with its first storable point, so
 * that empty envelopes, and those whose points were all rejected, leave no rows (H-67). */
#include <inttypes.h>
#include <stdlib.h>

#include "attrs_canonical.h"
#include "otlite/attrs.h"
#include "points.h"

/* A name in a rejection's example is for people; longer ones are cut. */
enum { EXAMPLE_BYTES = 256 };

/* Upper bounds for the arrays. */
struct counts {
    size_t resources, scopes, metrics;
    size_t numbers, histograms, exponentials, summaries;
    size_t exemplars;
    size_t received; /* data points, storable or not */
};

/* The place in the tree. An index is NOWHERE until its row is in the batch, and REFUSED when what
 * identifies it is larger than otlp.max_attribute_bytes: the store keeps every identity in memory,
 * so no single one may be large. All points below it are then rejected. */
struct builder {
    struct batch *b;
    struct point_reader reader;
    const Otlp__ResourceMetrics *rm;
    const Otlp__ScopeMetrics *sm;
    const Otlp__Metric *m;
    uint32_t resource, scope, metric;
    enum metric_type type;
    enum temporality temporality;
    bool is_monotonic;
};

#define NOWHERE UINT32_MAX
#define REFUSED (UINT32_MAX - 1)

const char *metric_type_name(enum metric_type t)
{
    switch (t) {
    case METRIC_GAUGE:
        return "gauge";
    case METRIC_SUM:
        return "sum";
    case METRIC_HISTOGRAM:
        return "histogram";
    case METRIC_EXPONENTIAL_HISTOGRAM:
        return "exponential_histogram";
    case METRIC_SUMMARY:
        return "summary";
    }
    return "unknown";
}

static struct bytes pb_bytes(ProtobufCBinaryData d)
{
    return bytes_of(d.data, d.len);
}

/* How many points a metric has, and for how many of them room is needed. A point without a time is
 * rejected whatever else it holds: a flood of two-byte empty points takes no room here. */
#define COUNT_POINTS(data, slot, n_exemplars_of)                         \
    do {                                                                 \
        for (size_t i_ = 0; i_ < (data)->n_data_points; i_++) {          \
            if ((data)->data_points[i_]->time_unix_nano != 0) {          \
                (slot)++;                                                \
                c->exemplars += n_exemplars_of((data)->data_points[i_]); \
            }                                                            \
        }                                                                \
        c->received += (data)->n_data_points;                            \
    } while (0)
#define HAS_EXEMPLARS(p) (p)->n_exemplars
#define NO_EXEMPLARS(p)  ((size_t)0)

static size_t counts_storable(const struct counts *c)
{
    return c->numbers + c->histograms + c->exponentials + c->summaries;
}

static void count_metric(const Otlp__Metric *m, struct counts *c)
{
    switch (m->data_case) {
    case OTLP__METRIC__DATA_GAUGE:
        if (m->gauge != NULL)
            COUNT_POINTS(m->gauge, c->numbers, HAS_EXEMPLARS);
        break;
    case OTLP__METRIC__DATA_SUM:
        if (m->sum != NULL)
            COUNT_POINTS(m->sum, c->numbers, HAS_EXEMPLARS);
        break;
    case OTLP__METRIC__DATA_HISTOGRAM:
        if (m->histogram != NULL)
            COUNT_POINTS(m->histogram, c->histograms, HAS_EXEMPLARS);
        break;
    case OTLP__METRIC__DATA_EXPONENTIAL_HISTOGRAM:
        if (m->exponential_histogram != NULL)
            COUNT_POINTS(m->exponential_histogram, c->exponentials, HAS_EXEMPLARS);
        break;
    case OTLP__METRIC__DATA_SUMMARY:
        if (m->summary != NULL)
            COUNT_POINTS(m->summary, c->summaries, NO_EXEMPLARS);
        break;
    case OTLP__METRIC__DATA__NOT_SET:
    default:
        break;
    }
}

static void count_request(const otlp_request *q, struct counts *c)
{
    for (size_t i = 0; i < q->n_resource_metrics; i++) {
        const Otlp__ResourceMetrics *rm = q->resource_metrics[i];
        size_t before_resource = counts_storable(c);

        for (size_t j = 0; j < rm->n_scope_metrics; j++) {
            const Otlp__ScopeMetrics *sm = rm->scope_metrics[j];
            size_t before_scope = counts_storable(c);

            for (size_t k = 0; k < sm->n_metrics; k++) {
                size_t before = counts_storable(c);

                count_metric(sm->metrics[k], c);
                c->metrics += counts_storable(c) > before;
            }
            c->scopes += counts_storable(c) > before_scope;
        }
        c->resources += counts_storable(c) > before_resource;
    }
}

/* Room for count entries of size bytes; NULL (with the arena's flag set) when there is none. */
static void *room(struct arena *a, size_t count, size_t size)
{
    if (count > SIZE_MAX / size) {
        a->over_budget = true;
        return NULL;
    }
    return arena_alloc(a, count * size);
}

static bool allocate(struct batch *b, const struct counts *c)
{
    struct arena *a = b->arena;
    size_t n_series = counts_storable(c);

    /* Indexes are 32 bits wide. No tree gets there: each entry of it is larger than a byte. */
    if (n_series >= REFUSED || c->exemplars >= REFUSED) {
        a->over_budget = true;
        return false;
    }
    b->resources = room(a, c->resources, sizeof(*b->resources));
    b->scopes = room(a, c->scopes, sizeof(*b->scopes));
    b->metrics = room(a, c->metrics, sizeof(*b->metrics));
    b->series = room(a, n_series, sizeof(*b->series));
    b->numbers = room(a, c->numbers, sizeof(*b->numbers));
    b->histograms = room(a, c->histograms, sizeof(*b->histograms));
    b->exponentials = room(a, c->exponentials, sizeof(*b->exponentials));
    b->summaries = room(a, c->summaries, sizeof(*b->summaries));
    b->exemplars = room(a, c->exemplars, sizeof(*b->exemplars));
    return b->resources != NULL && b->scopes != NULL && b->metrics != NULL && b->series != NULL &&
           b->numbers != NULL && b->histograms != NULL && b->exponentials != NULL &&
           b->summaries != NULL && b->exemplars != NULL;
}

static int key_compare(const void *a, const void *b)
{
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

/* The keys of a canonical set, ascending, so that references are looked up in log time: a request
 * may hold very many of both. */
static bool key_index(struct arena *a, struct bytes attributes, size_t n, struct bytes **out)
{
    struct bytes *keys = room(a, n, sizeof(*keys));
    struct attr_iter it;
    struct attr_value v;
    size_t i = 0;

    if (keys == NULL)
        return false;
    attrs_begin(&it, attributes);
    while (i < n && attrs_next(&it, &keys[i], &v))
        i++;
    *out = keys;
    return true;
}

static bool keys_known(const ProtobufCBinaryData *refs, size_t n_refs, const struct bytes *keys,
                       size_t n_keys)
{
    for (size_t i = 0; i < n_refs; i++) {
        struct bytes key = pb_bytes(refs[i]);

        if (n_keys == 0 || bsearch(&key, keys, n_keys, sizeof(*keys), key_compare) == NULL)
            return false;
    }
    return true;
}

static void add_key_array(struct buf *out, const char *name, const ProtobufCBinaryData *v, size_t n)
{
    if (n == 0)
        return;
    buf_printf(out, ",\"%s\":[", name);
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            buf_add_char(out, ',');
        buf_add_json_string(out, pb_bytes(v[i]));
    }
    buf_add_char(out, ']');
}

/* A reference that breaks M-5 says nothing reliable: it is dropped, the points stay. Keys are
 * looked up as they came, so one that is not UTF-8 is not found. */
static bool add_entity_ref(struct batch *b, const Otlp__EntityRef *ref, const struct bytes *keys,
                           size_t n_keys, struct buf *out)
{
    struct bytes url, type;

    if (!batch_text(b, pb_bytes(ref->type), bytes_str("entityRefs.type"), &type) ||
        !batch_text(b, pb_bytes(ref->schema_url), bytes_str("entityRefs.schemaUrl"), &url))
        return false;
    if (type.n == 0 || ref->n_id_keys == 0 ||
        !keys_known(ref->id_keys, ref->n_id_keys, keys, n_keys) ||
        !keys_known(ref->description_keys, ref->n_description_keys, keys, n_keys)) {
        batch_warn(b, WARN_ENTITY_REF, type);
        return true;
    }
    buf_add_char(out, out->n == 0 ? '[' : ',');
    buf_add_str(out, "{\"type\":");
    buf_add_json_string(out, type);
    if (url.n > 0) {
        buf_add_str(out, ",\"schemaUrl\":");
        buf_add_json_string(out, url);
    }
    add_key_array(out, "idKeys", ref->id_keys, ref->n_id_keys);
    add_key_array(out, "descriptionKeys", ref->description_keys, ref->n_description_keys);
    buf_add_char(out, '}');
    return true;
}

static bool entity_refs(struct batch *b, const Otlp__Resource *res, struct bytes attributes,
                        struct bytes *out)
{
    struct buf json = {0};
    struct bytes *keys = NULL;
    struct attr_iter it;
    size_t n_attributes;
    bool ok;

    *out = bytes_of(NULL, 0);
    if (res->n_entity_refs == 0)
        return true;
    attrs_begin(&it, attributes);
    n_attributes = (size_t)it.left;
    ok = key_index(b->arena, attributes, n_attributes, &keys);
    for (size_t i = 0; ok && i < res->n_entity_refs; i++)
        ok = add_entity_ref(b, res->entity_refs[i], keys, n_attributes, &json);
    if (ok && json.n > 0) {
        buf_add_char(&json, ']');
        if (json.failed)
            b->arena->no_memory = true;
        ok = !json.failed && arena_dup(b->arena, buf_bytes(&json), out);
    }
    buf_fini(&json);
    return ok;
}

/* The attributes of a resource or scope. *refused: they are too large. False: no memory. */
static bool envelope_attributes(struct builder *k, Otlp__KeyValue *const *kv, size_t n,
                                struct bytes *out, bool *refused)
{
    enum canonical_result result =
        attrs_canonical_capped(kv, n, SIZE_MAX, k->reader.lim->max_attribute_bytes, k->b, out);

    *refused = result == CANONICAL_REFUSED;
    return result != CANONICAL_NO_MEMORY;
}

static bool enter_resource(struct builder *k)
{
    static const Otlp__Resource unknown = OTLP__RESOURCE__INIT;
    const Otlp__Resource *res = k->rm->resource == NULL ? &unknown : k->rm->resource;
    struct batch *b = k->b;
    struct batch_resource *out = &b->resources[b->n_resources];
    struct attr_value v;
    bool refused;

    if (k->resource != NOWHERE)
        return true;
    *out = (struct batch_resource){.dropped_attributes_count = res->dropped_attributes_count};
    if (!envelope_attributes(k, res->attributes, res->n_attributes, &out->attributes, &refused))
        return false;
    if (refused) {
        k->resource = REFUSED;
        return true;
    }
    if (!batch_text(b, pb_bytes(k->rm->schema_url), bytes_str("schemaUrl"), &out->schema_url) ||
        !entity_refs(b, res, out->attributes, &out->entity_refs))
        return false;
    if (attrs_get(out->attributes, bytes_str("service.name"), &v) && v.kind == ATTR_STRING)
        out->service_name = v.s;
    k->resource = b->n_resources++;
    return true;
}

static bool enter_scope(struct builder *k)
{
    static const Otlp__InstrumentationScope unknown = OTLP__INSTRUMENTATION_SCOPE__INIT;
    const Otlp__InstrumentationScope *scope = k->sm->scope == NULL ? &unknown : k->sm->scope;
    struct batch *b = k->b;
    struct batch_scope *out = &b->scopes[b->n_scopes];
    size_t cap = k->reader.lim->max_attribute_bytes;
    bool refused;

    if (k->scope != NOWHERE)
        return true;
    *out = (struct batch_scope){.dropped_attributes_count = scope->dropped_attributes_count};
    if (!envelope_attributes(k, scope->attributes, scope->n_attributes, &out->attributes, &refused))
        return false;
    if (refused || scope->name.len > cap || scope->version.len > cap ||
        k->sm->schema_url.len > cap) {
        k->scope = REFUSED;
        return true;
    }
    if (!enter_resource(k))
        return false;
    if (k->resource == REFUSED) {
        k->scope = REFUSED;
        return true;
    }
    out->resource = k->resource;
    if (!batch_text(b, pb_bytes(scope->name), bytes_str("scope.name"), &out->name) ||
        !batch_text(b, pb_bytes(scope->version), bytes_str("scope.version"), &out->version) ||
        !batch_text(b, pb_bytes(k->sm->schema_url), bytes_str("schemaUrl"), &out->schema_url))
        return false;
    k->scope = b->n_scopes++;
    return true;
}

static bool enter_metric(struct builder *k)
{
    const Otlp__Metric *m = k->m;
    struct batch *b = k->b;
    struct batch_metric *out = &b->metrics[b->n_metrics];
    size_t n;

    if (k->metric != NOWHERE)
        return true;
    if (m->unit.len > k->reader.lim->max_attribute_bytes) {
        k->metric = REFUSED;
        return true;
    }
    if (!enter_scope(k))
        return false;
    if (k->scope == REFUSED) {
        k->metric = REFUSED;
        return true;
    }
    *out = (struct batch_metric){.scope = k->scope,
                                 .type = k->type,
                                 .temporality = k->temporality,
                                 .is_monotonic = k->is_monotonic,
                                 .name = pb_bytes(m->name)};
    if (!batch_text(b, pb_bytes(m->unit), out->name, &out->unit) ||
        !batch_text(b, pb_bytes(m->description), out->name, &out->description) ||
        !attrs_canonical(m->metadata, m->n_metadata, b, &out->metadata, &n))
        return false;
    k->metric = b->n_metrics++;
    return true;
}

/* For people: cut, repaired, never failing the request. */
static struct bytes name_example(struct batch *b, struct bytes name)
{
    struct buf text = {0};
    struct bytes out;

    if (name.n > EXAMPLE_BYTES) {
        name.n = EXAMPLE_BYTES;
        while (name.n > 0 && (name.p[name.n] & 0xc0) == 0x80)
            name.n--;
    }
    if (utf8_valid(name))
        return name;
    utf8_repair(&text, name);
    if (text.failed || !arena_dup(b->arena, buf_bytes(&text), &out))
        out = bytes_str("(not UTF-8)");
    buf_fini(&text);
    return out;
}

static void count_rejected(struct builder *k, enum reject_reason why, size_t n)
{
    struct batch *b = k->b;

    if (n == 0)
        return;
    if (b->rejected[why] == 0)
        b->reject_example[why] = name_example(b, pb_bytes(k->m->name));
    b->rejected[why] += n;
}

/* What a point's reading came to: true goes on. On POINT_OK the series and all above it are in,
 * unless *result becomes POINT_REJECTED because something above cannot be. */
static bool settle(struct builder *k, enum point_result *result, struct point *p)
{
    struct batch *b = k->b;

    switch (*result) {
    case POINT_NO_MEMORY:
        return false;
    case POINT_REJECTED:
        count_rejected(k, k->reader.why, 1);
        return true;
    case POINT_OK:
        break;
    }
    if (!enter_metric(k))
        return false;
    if (k->metric == REFUSED) {
        b->n_exemplars = p->first_exemplar;
        count_rejected(k, REJECT_ATTRIBUTES, 1);
        *result = POINT_REJECTED;
        return true;
    }
    p->series = b->n_series++;
    b->series[p->series] =
        (struct batch_series){.metric = k->metric, .attributes = k->reader.attributes};
    return true;
}

static bool add_numbers(struct builder *k, Otlp__NumberDataPoint *const *in, size_t n)
{
    struct batch *b = k->b;

    for (size_t i = 0; i < n; i++) {
        struct number_point p;
        enum point_result result = point_read_number(&k->reader, in[i], &p);

        if (!settle(k, &result, &p.p))
            return false;
        if (result == POINT_OK)
            b->numbers[b->n_numbers++] = p;
    }
    return true;
}

static bool add_histograms(struct builder *k, Otlp__HistogramDataPoint *const *in, size_t n)
{
    struct batch *b = k->b;

    for (size_t i = 0; i < n; i++) {
        struct histogram_point p;
        enum point_result result = point_read_histogram(&k->reader, in[i], &p);

        if (!settle(k, &result, &p.p))
            return false;
        if (result == POINT_OK)
            b->histograms[b->n_histograms++] = p;
    }
    return true;
}

static bool add_exponentials(struct builder *k, Otlp__ExponentialHistogramDataPoint *const *in,
                             size_t n)
{
    struct batch *b = k->b;

    for (size_t i = 0; i < n; i++) {
        struct exponential_histogram_point p;
        enum point_result result = point_read_exponential(&k->reader, in[i], &p);

        if (!settle(k, &result, &p.p))
            return false;
        if (result == POINT_OK)
            b->exponentials[b->n_exponentials++] = p;
    }
    return true;
}

static bool add_summaries(struct builder *k, Otlp__SummaryDataPoint *const *in, size_t n)
{
    struct batch *b = k->b;

    for (size_t i = 0; i < n; i++) {
        struct summary_point p;
        enum point_result result = point_read_summary(&k->reader, in[i], &p);

        if (!settle(k, &result, &p.p))
            return false;
        if (result == POINT_OK)
            b->summaries[b->n_summaries++] = p;
    }
    return true;
}

static bool name_storable(const struct builder *k, struct bytes name)
{
    return name.n > 0 && name.n <= k->reader.lim->max_name_bytes && utf8_valid(name);
}

/* True when the points of the metric can be stored at all; otherwise all n are counted rejected. */
static bool begin_metric(struct builder *k, enum metric_type type, int temporality, size_t n)
{
    bool has_temporality = type != METRIC_GAUGE && type != METRIC_SUMMARY;
    struct bytes name = pb_bytes(k->m->name);

    if (!name_storable(k, name)) {
        count_rejected(k, REJECT_NAME, n);
        return false;
    }
    if (has_temporality && temporality != TEMPORALITY_DELTA &&
        temporality != TEMPORALITY_CUMULATIVE) {
        count_rejected(k, REJECT_TEMPORALITY, n);
        return false;
    }
    k->type = type;
    k->temporality = temporality == TEMPORALITY_DELTA        ? TEMPORALITY_DELTA
                     : temporality == TEMPORALITY_CUMULATIVE ? TEMPORALITY_CUMULATIVE
                                                             : TEMPORALITY_NONE;
    k->is_monotonic = false;
    k->reader.metric = name;
    return true;
}

static bool no_data(struct builder *k)
{
    struct batch *b = k->b;

    /* An example is made for the first one only: a flood of such metrics takes no room. */
    if (b->warnings[WARN_NO_DATA] == 0)
        b->warning_example[WARN_NO_DATA] = name_example(b, pb_bytes(k->m->name));
    b->warnings[WARN_NO_DATA]++;
    return true;
}

static bool add_metric(struct builder *k)
{
    const Otlp__Metric *m = k->m;

    k->metric = NOWHERE;
    switch (m->data_case) {
    case OTLP__METRIC__DATA_GAUGE: {
        const Otlp__Gauge *d = m->gauge;

        if (d == NULL)
            return no_data(k);
        return !begin_metric(k, METRIC_GAUGE, TEMPORALITY_NONE, d->n_data_points) ||
               add_numbers(k, d->data_points, d->n_data_points);
    }
    case OTLP__METRIC__DATA_SUM: {
        const Otlp__Sum *d = m->sum;

        if (d == NULL)
            return no_data(k);
        if (!begin_metric(k, METRIC_SUM, (int)d->aggregation_temporality, d->n_data_points))
            return true;
        k->is_monotonic = d->is_monotonic != 0;
        return add_numbers(k, d->data_points, d->n_data_points);
    }
    case OTLP__METRIC__DATA_HISTOGRAM: {
        const Otlp__Histogram *d = m->histogram;

        if (d == NULL)
            return no_data(k);
        return !begin_metric(k, METRIC_HISTOGRAM, (int)d->aggregation_temporality,
                             d->n_data_points) ||
               add_histograms(k, d->data_points, d->n_data_points);
    }
    case OTLP__METRIC__DATA_EXPONENTIAL_HISTOGRAM: {
        const Otlp__ExponentialHistogram *d = m->exponential_histogram;

        if (d == NULL)
            return no_data(k);
        return !begin_metric(k, METRIC_EXPONENTIAL_HISTOGRAM, (int)d->aggregation_temporality,
                             d->n_data_points) ||
               add_exponentials(k, d->data_points, d->n_data_points);
    }
    case OTLP__METRIC__DATA_SUMMARY: {
        const Otlp__Summary *d = m->summary;

        if (d == NULL)
            return no_data(k);
        return !begin_metric(k, METRIC_SUMMARY, TEMPORALITY_NONE, d->n_data_points) ||
               add_summaries(k, d->data_points, d->n_data_points);
    }
    case OTLP__METRIC__DATA__NOT_SET:
    default:
        return no_data(k);
    }
}

static bool add_request(struct builder *k, const otlp_request *q)
{
    for (size_t i = 0; i < q->n_resource_metrics; i++) {
        k->rm = q->resource_metrics[i];
        k->resource = NOWHERE;
        for (size_t j = 0; j < k->rm->n_scope_metrics; j++) {
            k->sm = k->rm->scope_metrics[j];
            k->scope = NOWHERE;
            for (size_t n = 0; n < k->sm->n_metrics; n++) {
                k->m = k->sm->metrics[n];
                if (!add_metric(k))
                    return false;
            }
        }
    }
    return true;
}

static enum otl_err no_room(const struct arena *a, struct otl_error *err)
{
    if (a->over_budget)
        return otl_fail(err, OTL_ETOOBIG,
                        "The decoded request needs more than the %zu bytes of memory it may take. "
                        "Send smaller batches.",
                        a->budget);
    return otl_fail(err, OTL_ENOMEM, "There is no memory to decode the request. Try again later.");
}

enum otl_err batch_build(const otlp_request *m, const struct decode_notes *notes,
                         const struct decode_limits *lim, int64_t now_ns, struct arena *a,
                         struct batch *out, struct otl_error *err)
{
    struct batch b = {.arena = a};
    struct counts c = {0};
    struct builder k = {.b = &b};

    if (notes != NULL) {
        memcpy(b.warnings, notes->warnings, sizeof(b.warnings));
        memcpy(b.warning_example, notes->example, sizeof(b.warning_example));
    }
    count_request(m, &c);
    b.received = c.received;
    if (lim->max_points > 0 && request_weight(counts_storable(&c), c.exemplars,
                                              c.metrics + c.scopes + c.resources) > lim->max_points)
        return otl_fail(err, OTL_ETOOBIG,
                        "The request holds more than %" PRIu32 " data points (otlp.max_points; an "
                        "exemplar counts as one, a metric, scope or resource as ten). Send smaller "
                        "batches.",
                        lim->max_points);
    if (!allocate(&b, &c))
        return no_room(a, err);
    k.reader = (struct point_reader){.b = &b,
                                     .lim = lim,
                                     .latest_time = point_latest_time(lim, now_ns),
                                     .max_exemplars = c.exemplars};
    if (!add_request(&k, m))
        return no_room(a, err);
    *out = b;
    return OTL_OK;
}
