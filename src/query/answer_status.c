/* answer_status.c -- the language's own endpoints, what the server is, and its cardinality. */
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "answer.h"
#include "eval_internal.h"
#include "otlite/clock.h"

enum otl_err answer_language(struct answering *a, enum answer_error *kind, struct otl_error *err)
{
    struct bytes text = answer_param(a->request, "query");
    struct buf formatted = {0};
    struct expr *e = NULL;
    enum otl_err rc;

    *kind = ANSWER_BAD_DATA;
    rc = promql_parse(&a->arena, text, &e, err);
    if (rc == OTL_OK)
        rc = promql_validate(text, e, err);
    if (rc != OTL_OK)
        return rc == OTL_EBADREQUEST ? otl_wrap(err, "invalid parameter \"query\"") : rc;
    if (a->request->endpoint == QUERY_PARSE) {
        promql_json(a->out, e);
        return OTL_OK;
    }
    promql_format(&formatted, e);
    buf_add_json_string(a->out, buf_bytes(&formatted));
    a->out->failed = a->out->failed || formatted.failed;
    buf_fini(&formatted);
    return OTL_OK;
}

static void add_runtime(struct answering *a)
{
    time_t started = (time_t)(a->engine->started_ms / 1000);
    char text[32] = "";
    struct tm tm;

    if (gmtime_r(&started, &tm) != NULL)
        (void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
    buf_printf(a->out,
               "{\"startTime\":\"%s\",\"CWD\":\"\",\"reloadConfigSuccess\":true,"
               "\"lastConfigTime\":\"%s\",\"corruptionCount\":0,\"goroutineCount\":0,"
               "\"GOMAXPROCS\":0,\"GOGC\":\"\",\"GODEBUG\":\"\",\"storageRetention\":\"\"}",
               text, text);
}

enum otl_err answer_static(struct answering *a, enum answer_error *kind, struct otl_error *err)
{
    (void)kind;
    (void)err;
    switch (a->request->endpoint) {
    case QUERY_BUILDINFO:
        /* Clients look at the version to see what the language has; it is that of Prometheus 3. */
        buf_add_str(a->out, "{\"version\":\"3.0.0\",\"revision\":\"otlite-" OTLITE_VERSION
                            "\",\"branch\":\"\",\"buildUser\":\"\",\"buildDate\":\"\","
                            "\"goVersion\":\"\",\"application\":\"otlite\"}");
        break;
    case QUERY_CONFIG:
        buf_add_str(a->out, "{\"yaml\":");
        buf_add_json_string(
            a->out, bytes_str(a->engine->opts.config == NULL ? "" : a->engine->opts.config));
        buf_add_char(a->out, '}');
        break;
    case QUERY_RUNTIMEINFO:
        add_runtime(a);
        break;
    case QUERY_TARGETS:
        buf_add_str(a->out, "{\"activeTargets\":[],\"droppedTargets\":[],"
                            "\"droppedTargetCounts\":{}}");
        break;
    case QUERY_RULES:
        buf_add_str(a->out, "{\"groups\":[]}");
        break;
    case QUERY_ALERTS:
        buf_add_str(a->out, "{\"alerts\":[]}");
        break;
    default:
        buf_add_str(a->out, "{}");
        break;
    }
    return OTL_OK;
}

/* ---- cardinality ---- */

/* Label sets of one or two labels, and how often each was seen. */
struct tally {
    struct label_table keys;
    uint64_t *counts;
    size_t cap;
};

static void tally_fini(struct tally *t)
{
    label_table_fini(&t->keys);
    free(t->counts);
}

/* The key is copied when it is new. */
static enum otl_err tally_add(struct tally *t, struct arena *a, struct label key, uint64_t n,
                              bool *is_new, struct otl_error *err)
{
    uint32_t at = label_table_find(&t->keys, (struct labels){&key, 1});
    struct label *kept;

    *is_new = at == UINT32_MAX;
    if (*is_new) {
        kept = arena_alloc(a, sizeof(*kept));
        if (kept == NULL)
            return eval_no_memory(err);
        *kept = key;
        if (!label_table_add(&t->keys, (struct labels){kept, 1}, &at, is_new))
            return eval_no_memory(err);
        if (t->keys.cap > t->cap) {
            uint64_t *more = reallocarray(t->counts, t->keys.cap, sizeof(*more));

            if (more == NULL)
                return eval_no_memory(err);
            t->counts = more;
            t->cap = t->keys.cap;
        }
        t->counts[at] = 0;
    }
    t->counts[at] += n;
    return OTL_OK;
}

struct ranked {
    uint64_t count;
    struct label key;
};

static int most_first(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return bytes_compare(x->key.name, y->key.name);
}

static enum otl_err add_top(struct buf *out, const char *name, const struct tally *t,
                            uint64_t limit, bool pairs, struct otl_error *err)
{
    struct ranked *r = calloc(t->keys.n + 1, sizeof(*r));

    if (r == NULL)
        return eval_no_memory(err);
    for (size_t i = 0; i < t->keys.n; i++)
        r[i] = (struct ranked){t->counts[i], t->keys.keys[i].l[0]};
    qsort(r, t->keys.n, sizeof(*r), most_first);
    buf_printf(out, ",\"%s\":[", name);
    for (size_t i = 0; i < t->keys.n && i < limit; i++) {
        struct buf text = {0};

        buf_add_bytes(&text, r[i].key.name);
        if (pairs) {
            buf_add_char(&text, '=');
            buf_add_bytes(&text, r[i].key.value);
        }
        buf_add_str(out, i > 0 ? ",{\"name\":" : "{\"name\":");
        buf_add_json_string(out, buf_bytes(&text));
        buf_printf(out, ",\"value\":%" PRIu64 "}", r[i].count);
        out->failed = out->failed || text.failed;
        buf_fini(&text);
    }
    buf_add_char(out, ']');
    free(r);
    return OTL_OK;
}

enum otl_err answer_tsdb(struct answering *a, enum answer_error *kind, struct otl_error *err)
{
    struct tally metrics = {0}, values = {0}, bytes = {0}, pairs = {0};
    const struct series_set *set = NULL;
    uint64_t limit = 10;
    bool is_new;
    enum otl_err rc;

    *kind = ANSWER_BAD_DATA;
    rc = answer_count(a->request, "limit", &limit, err);
    if (rc != OTL_OK)
        return rc;
    *kind = ANSWER_EXECUTION;
    rc = querier_select(a->querier, NULL, 0, -INT64_C(9000000000000), INT64_C(9000000000000), false,
                        &set, err);
    for (size_t i = 0; rc == OTL_OK && i < set->n; i++) {
        struct labels l = set->labels[i];

        for (size_t k = 0; rc == OTL_OK && k < l.n; k++) {
            const struct label name = {l.l[k].name, bytes_of(NULL, 0)};

            if (bytes_equal(name.name, bytes_str(LABEL_NAME)))
                rc = tally_add(&metrics, &a->arena, (struct label){l.l[k].value, bytes_of(NULL, 0)},
                               1, &is_new, err);
            if (rc == OTL_OK)
                rc = tally_add(&pairs, &a->arena, l.l[k], 1, &is_new, err);
            if (rc == OTL_OK && is_new) {
                rc = tally_add(&values, &a->arena, name, 1, &is_new, err);
                if (rc == OTL_OK)
                    rc = tally_add(&bytes, &a->arena, name, l.l[k].value.n, &is_new, err);
            }
        }
    }
    if (rc == OTL_OK) {
        buf_printf(a->out,
                   "{\"headStats\":{\"numSeries\":%zu,\"numLabelPairs\":%zu,\"chunkCount\":0,"
                   "\"minTime\":0,\"maxTime\":%" PRId64 "}",
                   set->n, pairs.keys.n, a->request->now_ms);
        rc = add_top(a->out, "seriesCountByMetricName", &metrics, limit, false, err);
    }
    if (rc == OTL_OK)
        rc = add_top(a->out, "labelValueCountByLabelName", &values, limit, false, err);
    if (rc == OTL_OK)
        rc = add_top(a->out, "memoryInBytesByLabelName", &bytes, limit, false, err);
    if (rc == OTL_OK)
        rc = add_top(a->out, "seriesCountByLabelValuePair", &pairs, limit, true, err);
    buf_add_char(a->out, '}');
    tally_fini(&metrics);
    tally_fini(&values);
    tally_fini(&bytes);
    tally_fini(&pairs);
    return rc;
}
