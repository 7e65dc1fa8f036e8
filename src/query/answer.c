/* answer.c -- a request's way: its snapshot, its endpoint, and the envelope around data or error.
 */
#include "answer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "otlite/clock.h"

/* ---- the engine ---- */

enum otl_err query_engine_new(const struct query_opts *o, struct query_engine **out,
                              struct otl_error *err)
{
    struct query_engine *q = calloc(1, sizeof(*q));
    enum otl_err rc;

    if (q == NULL)
        return otl_fail(err, OTL_ENOMEM, "query: no memory");
    q->opts = *o;
    q->querier_opts = (struct querier_opts){
        .strategy = (enum name_strategy)o->names,
        .promote = o->promote,
        .promote_all = o->promote_all,
        .scope_labels = o->scope_labels,
        .classic_from_exponential = o->classic_from_exponential,
        .lookback_ms = o->lookback_ms,
    };
    q->started_ms = clock_wall_ns() / NS_PER_MS;
    rc = querier_shared_new(&q->querier_opts, &q->shared, err);
    if (rc != OTL_OK) {
        free(q);
        return rc;
    }
    *out = q;
    return OTL_OK;
}

void query_engine_free(struct query_engine *q)
{
    if (q == NULL)
        return;
    querier_shared_free(q->shared);
    free(q);
}

bool query_duration(struct bytes text, int64_t *out_ms)
{
    return promql_duration(text, out_ms);
}

/* ---- parameters ---- */

struct bytes answer_param(const struct query_request *r, const char *name)
{
    for (size_t i = 0; i < r->n_params; i++) {
        if (bytes_equal(r->params[i].name, bytes_str(name)))
            return r->params[i].value;
    }
    return bytes_of(NULL, 0);
}

/* 2026-01-31T12:00:00.5Z, or with +01:00. */
static bool rfc3339(const char *s, int64_t *out_ms)
{
    struct tm tm = {0};
    double fraction = 0;
    int used = 0, h, m;
    int64_t offset = 0;

    if (sscanf(s, "%4d-%2d-%2dT%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
               &tm.tm_min, &tm.tm_sec, &used) != 6 ||
        used != 19)
        return false;
    s += used;
    if (*s == '.') {
        char *end;

        fraction = strtod(s, &end);
        if (end == s + 1)
            return false;
        s = end;
    }
    if (*s == 'Z') {
        s++;
    } else if ((*s == '+' || *s == '-') && sscanf(s + 1, "%2d:%2d%n", &h, &m, &used) == 2 &&
               used == 5) {
        offset = (h * 60 + m) * 60 * (*s == '-' ? -1 : 1);
        s += 6;
    } else {
        return false;
    }
    if (*s != '\0' || tm.tm_mon < 1 || tm.tm_mon > 12 || tm.tm_mday < 1 || tm.tm_mday > 31 ||
        tm.tm_hour > 23 || tm.tm_min > 59 || tm.tm_sec > 60)
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon--;
    *out_ms = ((int64_t)timegm(&tm) - offset) * 1000 + (int64_t)(fraction * 1000);
    return true;
}

enum otl_err answer_time(const struct query_request *r, const char *name, int64_t *out,
                         struct otl_error *err)
{
    struct bytes text = answer_param(r, name);
    char copy[64], *end;
    double seconds;

    if (text.n == 0)
        return OTL_OK;
    if (text.n < sizeof(copy)) {
        memcpy(copy, text.p, text.n);
        copy[text.n] = '\0';
        seconds = strtod(copy, &end);
        if (end != copy && *end == '\0' && fabs(seconds) < 9.2e12) {
            *out = llround(seconds * 1000);
            return OTL_OK;
        }
        if (rfc3339(copy, out))
            return OTL_OK;
    }
    return otl_fail(err, OTL_EBADREQUEST,
                    "invalid parameter \"%s\": cannot parse \"%.*s\" to a valid timestamp", name,
                    (int)(text.n < 60 ? text.n : 60), (const char *)text.p);
}

enum otl_err answer_count(const struct query_request *r, const char *name, uint64_t *out,
                          struct otl_error *err)
{
    struct bytes text = answer_param(r, name);
    uint64_t n = 0;

    if (text.n == 0)
        return OTL_OK;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9' || n > UINT64_MAX / 20)
            return otl_fail(err, OTL_EBADREQUEST,
                            "invalid parameter \"%s\": \"%.*s\" is no number from 0 on", name,
                            (int)(text.n < 60 ? text.n : 60), (const char *)text.p);
        n = n * 10 + (uint64_t)(text.p[i] - '0');
    }
    *out = n;
    return OTL_OK;
}

/* ---- errors ---- */

static int add_error(enum answer_error kind, const struct otl_error *err, struct buf *out)
{
    const char *type;
    int status = otl_err_http(err->code);

    switch (err->code) {
    case OTL_ELATE:
        type = "timeout";
        status = 503;
        break;
    case OTL_ECANCELLED:
        type = "canceled";
        status = 499;
        break;
    case OTL_ENOTFOUND:
        type = "not_found";
        break;
    case OTL_EBADREQUEST:
    case OTL_ETOOBIG:
        type = kind == ANSWER_BAD_DATA ? "bad_data" : "execution";
        status = kind == ANSWER_BAD_DATA ? 400 : 422;
        break;
    case OTL_EAUTH:
    case OTL_EFORBIDDEN:
        type = "unauthorized";
        break;
    default:
        type = status == 503 ? "unavailable" : status >= 500 ? "internal" : "bad_data";
        break;
    }
    buf_printf(out, "{\"status\":\"error\",\"errorType\":\"%s\",\"error\":", type);
    buf_add_json_string(out, bytes_str(err->msg));
    buf_add_char(out, '}');
    return status;
}

int query_answer_error(const struct otl_error *err, struct buf *out)
{
    return add_error(ANSWER_BAD_DATA, err, out);
}

/* ---- one request ---- */

static enum otl_err (*endpoint_of(enum query_endpoint e, bool *reads))(struct answering *,
                                                                       enum answer_error *,
                                                                       struct otl_error *)
{
    *reads = true;
    switch (e) {
    case QUERY_INSTANT:
    case QUERY_RANGE:
        return answer_query;
    case QUERY_SERIES:
        return answer_series;
    case QUERY_LABELS:
        return answer_labels;
    case QUERY_LABEL_VALUES:
        return answer_label_values;
    case QUERY_METADATA:
        return answer_metadata;
    case QUERY_EXEMPLARS:
        return answer_exemplars;
    case QUERY_TSDB:
        return answer_tsdb;
    case QUERY_FORMAT:
    case QUERY_PARSE:
        *reads = false;
        return answer_language;
    default:
        *reads = false;
        return answer_static;
    }
}

/* `timeout` of the request, no longer than the configuration allows. */
static enum otl_err timeout_of(struct answering *a, struct otl_error *err)
{
    struct bytes text = answer_param(a->request, "timeout");
    int64_t ms;

    a->timeout_ms = a->engine->opts.timeout_ms;
    if (text.n == 0)
        return OTL_OK;
    if (!query_duration(text, &ms) || ms < 0)
        return otl_fail(err, OTL_EBADREQUEST,
                        "invalid parameter \"timeout\": cannot parse \"%.*s\" to a valid duration",
                        (int)(text.n < 60 ? text.n : 60), (const char *)text.p);
    if (ms < a->timeout_ms)
        a->timeout_ms = ms;
    return OTL_OK;
}

static enum otl_err begin(struct answering *a, struct read_session *session, bool transaction,
                          struct otl_error *err)
{
    const struct read_limits limits = {
        .deadline_ns = clock_mono_ns() + a->timeout_ms * NS_PER_MS,
        .max_bytes = a->engine->opts.max_memory,
        .cancel = a->request->cancel,
    };
    enum otl_err rc = read_begin(session, &limits, transaction, &a->read, err);

    if (rc == OTL_OK)
        rc = querier_new(a->engine->shared, a->read, a->request->project_id, &a->arena, &a->querier,
                         err);
    return rc;
}

int query_answer(struct query_engine *q, struct read_session *session, bool transaction,
                 const struct query_request *r, struct buf *out)
{
    struct answering a = {.engine = q, .request = r, .out = out};
    enum answer_error kind = ANSWER_BAD_DATA;
    struct otl_error err = {0};
    size_t before = out->n;
    bool reads;
    enum otl_err (*endpoint)(struct answering *, enum answer_error *, struct otl_error *) =
        endpoint_of(r->endpoint, &reads);
    enum otl_err rc = timeout_of(&a, &err);
    int status = 200;

    arena_init(&a.arena, q->opts.max_memory);
    if (rc == OTL_OK && reads) {
        kind = ANSWER_EXECUTION;
        rc = begin(&a, session, transaction, &err);
    }
    if (rc == OTL_OK) {
        buf_add_str(out, "{\"status\":\"success\",\"data\":");
        rc = endpoint(&a, &kind, &err);
        buf_add_char(out, '}');
    }
    if (rc != OTL_OK) {
        out->n = before;
        status = add_error(kind, &err, out);
    }
    querier_free(a.querier);
    read_end(a.read);
    arena_fini(&a.arena);
    return status;
}
