/* known.c -- the short way in (known.h): a request whose resources, scopes, metrics and series are
 * all in the cache becomes a batch without a tree.
 *
 * First the envelopes are walked, and each must be known; that tells how large the arrays are. Then
 * the points are read, by the rules of points.c like all others. At the first thing that is new, or
 * rejected, or unusual, decode_body has to do it all: so the short way never rejects a point, and
 * every envelope on it has a storable point and enters its array at once. */
#include "known_cache.h"
#include "known_walk.h"
#include "points.h"

/* A metric of the request, between the two walks. */
struct visit {
    struct known_metric *metric;
    struct bytes points;
    uint32_t n;
};

struct decoding {
    struct known *k;
    const struct decode_limits *lim;
    struct batch b;
    struct point_reader reader;
    struct visit *visits; /* one a metric */
    uint32_t room_resources, room_scopes, room_metrics, room_visits, room_exemplars;
    size_t n_numbers, n_histograms, n_exponentials, n_summaries;
    size_t seen_exemplars; /* kept or not */
    struct wire_point wire;
};

/* --- keys ----------------------------------------------------------------------------------- */

static struct known_key resource_key(int64_t project_id, const struct tour *t)
{
    return (struct known_key){
        KNOWN_RESOURCE, (uint64_t)project_id, {t->resource.before, t->resource.after}};
}

static struct known_key scope_key(const struct known_entry *resource, const struct tour *t)
{
    return (struct known_key){KNOWN_SCOPE, resource->id, {t->scope.before, t->scope.after}};
}

static struct known_key metric_key(const struct known_entry *scope, const struct tour *t)
{
    const struct metric_parts *m = &t->metric;

    return (struct known_key){
        KNOWN_METRIC, scope->id, {m->head, m->data.before, m->data.after, m->tail}};
}

static struct known_key series_key(const struct known_entry *metric, struct bytes attributes)
{
    return (struct known_key){KNOWN_SERIES, metric->id, {attributes}};
}

/* --- envelopes ------------------------------------------------------------------------------ */

/* list, of n entries and room for *room, with room for need. NULL: the arena has none. */
static void *grown(struct arena *a, void *list, uint32_t n, uint32_t *room, size_t need,
                   size_t size)
{
    size_t more = *room < 8 ? 16 : (size_t)*room * 2;
    void *p;

    if (need <= *room)
        return list;
    if (more < need)
        more = need;
    if (more > UINT32_MAX / 2 || more > SIZE_MAX / size)
        return NULL;
    p = arena_alloc(a, more * size);
    if (p == NULL)
        return NULL;
    if (n > 0)
        memcpy(p, list, n * size);
    *room = (uint32_t)more;
    return p;
}

#define GROW(d, list, n, room, need) \
    (((list) = grown((d)->b.arena, list, n, &(room), (size_t)(need), sizeof(*(list)))) != NULL)

static bool add_resource(struct decoding *d, const struct known_entry *e)
{
    struct batch *b = &d->b;

    if (!GROW(d, b->resources, b->n_resources, d->room_resources, (size_t)b->n_resources + 1))
        return false;
    b->resources[b->n_resources++] = ((const struct known_resource *)(const void *)e)->resource;
    return true;
}

static bool add_scope(struct decoding *d, const struct known_entry *e)
{
    struct batch *b = &d->b;
    struct batch_scope *out;

    if (!GROW(d, b->scopes, b->n_scopes, d->room_scopes, (size_t)b->n_scopes + 1))
        return false;
    out = &b->scopes[b->n_scopes++];
    *out = ((const struct known_scope *)(const void *)e)->scope;
    out->resource = b->n_resources - 1;
    return true;
}

static bool add_metric(struct decoding *d, struct known_entry *e, const struct split *data)
{
    struct batch *b = &d->b;
    struct known_metric *m = (struct known_metric *)(void *)e;
    struct batch_metric *out;

    if (!GROW(d, b->metrics, b->n_metrics, d->room_metrics, (size_t)b->n_metrics + 1) ||
        !GROW(d, d->visits, b->n_metrics, d->room_visits, (size_t)b->n_metrics + 1))
        return false;
    switch (m->metric.type) {
    case METRIC_GAUGE:
    case METRIC_SUM:
        d->n_numbers += data->n;
        break;
    case METRIC_HISTOGRAM:
        d->n_histograms += data->n;
        break;
    case METRIC_EXPONENTIAL_HISTOGRAM:
        d->n_exponentials += data->n;
        break;
    case METRIC_SUMMARY:
        d->n_summaries += data->n;
        break;
    }
    b->received += data->n;
    d->visits[b->n_metrics] = (struct visit){m, data->run, data->n};
    out = &b->metrics[b->n_metrics++];
    *out = m->metric;
    out->scope = b->n_scopes - 1;
    return true;
}

/* More than one request may hold; exemplars are known only once the points are read. */
static bool too_heavy(const struct decoding *d)
{
    const struct batch *b = &d->b;
    size_t envelopes = (size_t)b->n_resources + b->n_scopes + b->n_metrics;

    return d->lim->max_points > 0 &&
           request_weight((size_t)b->received, d->seen_exemplars, envelopes) > d->lim->max_points;
}

static bool visit_envelopes(struct decoding *d, int64_t project_id, struct bytes body)
{
    struct known_entry *resource = NULL, *scope = NULL, *metric;
    struct known_key key;
    struct tour t;

    tour_begin(&t, body);
    while (tour_next(&t)) {
        if (t.new_resource) {
            key = resource_key(project_id, &t);
            resource = known_find(d->k, NULL, &key);
            if (resource == NULL || !add_resource(d, resource))
                return false;
        }
        if (t.new_scope) {
            key = scope_key(resource, &t);
            scope = known_find(d->k, resource, &key);
            if (scope == NULL || !add_scope(d, scope))
                return false;
        }
        key = metric_key(scope, &t);
        metric = known_find(d->k, scope, &key);
        if (metric == NULL || !add_metric(d, metric, &t.metric.data) || too_heavy(d))
            return false;
    }
    return !t.bad;
}

/* --- points --------------------------------------------------------------------------------- */

static bool allocate(struct decoding *d)
{
    struct batch *b = &d->b;
    struct arena *a = b->arena;
    size_t n = (size_t)b->received;

    /* Indexes are 32 bits wide; the largest two numbers mean something else in batch.c. */
    if (b->received >= UINT32_MAX - 1)
        return false;
    b->series = arena_alloc(a, n * sizeof(*b->series));
    b->numbers = arena_alloc(a, d->n_numbers * sizeof(*b->numbers));
    b->histograms = arena_alloc(a, d->n_histograms * sizeof(*b->histograms));
    b->exponentials = arena_alloc(a, d->n_exponentials * sizeof(*b->exponentials));
    b->summaries = arena_alloc(a, d->n_summaries * sizeof(*b->summaries));
    return b->series != NULL && b->numbers != NULL && b->histograms != NULL &&
           b->exponentials != NULL && b->summaries != NULL;
}

static bool room_for_exemplars(struct decoding *d)
{
    struct batch *b = &d->b;
    size_t n = d->wire.n_exemplars;

    if (n == 0)
        return true;
    d->seen_exemplars += n;
    if (!GROW(d, b->exemplars, b->n_exemplars, d->room_exemplars, b->n_exemplars + n))
        return false;
    d->reader.max_exemplars = d->room_exemplars;
    return true;
}

/* The series that comes next, if all goes on as usual. */
static struct known_series *expect(struct decoding *d, struct known_metric *m)
{
    struct known_series *s = (struct known_series *)(void *)known_expected(d->k, &m->e);

    d->wire.expected = s == NULL ? bytes_of(NULL, 0) : bytes_of(s->e.raw, s->e.piece_n[0]);
    return s;
}

/* After the point is read from the wire: its series, which the rules are told of. */
static const struct known_series *recognise(struct decoding *d, struct known_metric *m,
                                            struct known_series *expected)
{
    struct known_entry *e;
    const struct known_series *s;

    if (expected != NULL && d->wire.as_expected) {
        e = known_take(d->k, &m->e, &expected->e);
    } else {
        struct known_key key = series_key(&m->e, d->wire.attributes);

        e = known_find(d->k, &m->e, &key);
    }
    if (e == NULL || !room_for_exemplars(d))
        return NULL;
    s = (const struct known_series *)(const void *)e;
    d->reader.known_attributes = &s->attributes;
    return s;
}

static void add_series(struct decoding *d, uint32_t metric, const struct known_series *s,
                       struct point *p)
{
    struct batch *b = &d->b;

    p->series = b->n_series++;
    b->series[p->series] = (struct batch_series){metric, s->number, s->attributes};
}

/* One function a kind of point, alike but for the types: the points of the request's i-th metric,
 * each from the wire, to its series, through the rules, into the batch. */
#define DEFINE_READ(name, message, wire_read, rule, point_struct, list, n_list) \
    static bool name(struct decoding *d, uint32_t i)                            \
    {                                                                           \
        struct visit *v = &d->visits[i];                                        \
        struct batch *b = &d->b;                                                \
        message in;                                                             \
                                                                                \
        for (uint32_t left = v->n; left > 0; left--) {                          \
            struct known_series *expected = expect(d, v->metric);               \
            struct point_struct *out = &b->list[b->n_list];                     \
            const struct known_series *s;                                       \
                                                                                \
            if (!wire_read(&d->wire, run_next(&v->points), &in))                \
                return false;                                                   \
            s = recognise(d, v->metric, expected);                              \
            if (s == NULL || rule(&d->reader, &in, out) != POINT_OK)            \
                return false;                                                   \
            add_series(d, i, s, &out->p);                                       \
            b->n_list++;                                                        \
        }                                                                       \
        return true;                                                            \
    }

DEFINE_READ(read_numbers, Otlp__NumberDataPoint, wire_number, point_read_number, number_point,
            numbers, n_numbers)
DEFINE_READ(read_histograms, Otlp__HistogramDataPoint, wire_histogram, point_read_histogram,
            histogram_point, histograms, n_histograms)
DEFINE_READ(read_exponentials, Otlp__ExponentialHistogramDataPoint, wire_exponential,
            point_read_exponential, exponential_histogram_point, exponentials, n_exponentials)
DEFINE_READ(read_summaries, Otlp__SummaryDataPoint, wire_summary, point_read_summary, summary_point,
            summaries, n_summaries)

static bool read_points(struct decoding *d, uint32_t i)
{
    d->reader.metric = d->b.metrics[i].name;
    switch (d->b.metrics[i].type) {
    case METRIC_GAUGE:
    case METRIC_SUM:
        return read_numbers(d, i);
    case METRIC_HISTOGRAM:
        return read_histograms(d, i);
    case METRIC_EXPONENTIAL_HISTOGRAM:
        return read_exponentials(d, i);
    case METRIC_SUMMARY:
        return read_summaries(d, i);
    }
    return false;
}

bool known_decode(struct known *k, int64_t project_id, struct bytes body,
                  const struct decode_limits *lim, int64_t now_ns, struct arena *a,
                  struct batch *out, struct known_hold **hold)
{
    struct decoding d;

    known_make_room(k);
    if (!known_serves(k, lim, false))
        return false;
    /* All but what wire_point fills for each point: that is large. */
    memset(&d, 0, offsetof(struct decoding, wire));
    d.k = k;
    d.lim = lim;
    d.b.arena = a;
    d.wire.arena = a;
    d.reader =
        (struct point_reader){.b = &d.b, .lim = lim, .latest_time = point_latest_time(lim, now_ns)};
    if (!visit_envelopes(&d, project_id, body) || !allocate(&d))
        return false;
    for (uint32_t i = 0; i < d.b.n_metrics; i++) {
        if (!read_points(&d, i))
            return false;
    }
    if (too_heavy(&d))
        return false;
    *hold = known_take_hold(k);
    *out = d.b;
    return true;
}

/* --- learning ------------------------------------------------------------------------------- */

/* Warnings that the rules of points give anew each time. Those about texts and attributes would be
 * lost with an entry that holds what became of them. */
static bool is_about_points(enum warning w)
{
    switch (w) {
    case WARN_START_AFTER_TIME:
    case WARN_COUNT_MISMATCH:
    case WARN_ZERO_COUNT_SUM:
    case WARN_MIN_MAX:
    case WARN_NEGATIVE_QUANTILE:
    case WARN_EXEMPLAR:
    case WARN_NAME_CONFLICT:   /* the store's */
    case WARN_DUPLICATE_POINT: /* too */
        return true;
    default:
        return false;
    }
}

static bool worth_learning(const struct batch *b)
{
    if (batch_rejected(b) > 0)
        return false;
    for (int i = 0; i < WARN_COUNT_OF_WARNINGS; i++) {
        if (b->warnings[i] > 0 && !is_about_points((enum warning)i))
            return false;
    }
    for (uint32_t i = 0; i < b->n_series; i++) {
        if (b->series[i].number != 0)
            return true;
    }
    return false;
}

/* As many metrics and points as the batch has: its series are the points of the tour, in order. */
static bool tour_fits(struct bytes body, const struct batch *b)
{
    uint64_t points = 0, metrics = 0, scopes = 0, resources = 0;
    struct tour t;

    tour_begin(&t, body);
    while (tour_next(&t)) {
        resources += t.new_resource;
        scopes += t.new_scope;
        metrics++;
        points += t.metric.data.n;
    }
    return !t.bad && points == b->n_series && metrics == b->n_metrics && scopes == b->n_scopes &&
           resources == b->n_resources;
}

/* The points of the metric at hand, which have the batch's series from first on. */
static bool learn_series(struct known *k, struct known_entry *metric, const struct tour *t,
                         const struct batch *b, uint32_t first)
{
    struct bytes run = t->metric.data.run;

    for (uint32_t i = 0; i < t->metric.data.n; i++) {
        const struct batch_series *s = &b->series[first + i];
        struct known_series content = {.number = s->number, .attributes = s->attributes};
        struct bytes point = run_next(&run), attributes;
        struct known_key key;

        if (s->number == 0 || !wire_attributes(t->metric.type, point, &attributes))
            continue;
        key = series_key(metric, attributes);
        if (known_put(k, metric, &key, &content.e) == NULL)
            return false;
    }
    return true;
}

static bool has_number(const struct batch *b, uint32_t first, uint32_t n)
{
    while (n > 0 && b->series[first].number == 0) {
        first++;
        n--;
    }
    return n > 0;
}

static struct known_entry *learn_metric(struct known *k, int64_t project_id, const struct tour *t,
                                        const struct batch *b, const struct batch_metric *m)
{
    const struct batch_scope *s = &b->scopes[m->scope];
    struct known_resource resource = {.resource = b->resources[s->resource]};
    struct known_scope scope = {.scope = *s};
    struct known_metric metric = {.metric = *m};
    struct known_key key = resource_key(project_id, t);
    struct known_entry *e = known_put(k, NULL, &key, &resource.e), *above;

    if (e == NULL)
        return NULL;
    above = e;
    key = scope_key(above, t);
    e = known_put(k, above, &key, &scope.e);
    if (e == NULL)
        return NULL;
    above = e;
    key = metric_key(above, t);
    return known_put(k, above, &key, &metric.e);
}

void known_learn(struct known *k, int64_t project_id, struct bytes body,
                 const struct decode_limits *lim, const struct batch *b)
{
    uint32_t first = 0, n;
    struct tour t;

    if (!worth_learning(b) || !known_serves(k, lim, true) || !tour_fits(body, b))
        return;
    known_make_room(k);
    tour_begin(&t, body);
    for (; tour_next(&t); first += n) {
        struct known_entry *metric;

        n = t.metric.data.n;
        if (!has_number(b, first, n))
            continue;
        metric = learn_metric(k, project_id, &t, b, &b->metrics[b->series[first].metric]);
        if (metric == NULL || !learn_series(k, metric, &t, b, first))
            return;
    }
}
