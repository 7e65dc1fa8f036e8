/* answer_query.c -- query and query_range. */
#include <inttypes.h>
#include <stdlib.h>

#include "answer.h"
#include "format_number.h"
#include "otlite/clock.h"

enum { MAX_POINTS = 11000, SUBQUERY_STEP_MS = 60000 };

/* ---- parameters ---- */

/* lookback_delta of the request, or that of the configuration. */
static enum otl_err lookback(const struct answering *a, int64_t *out, struct otl_error *err)
{
    struct bytes text = answer_param(a->request, "lookback_delta");

    *out = a->engine->opts.lookback_ms;
    if (text.n > 0 && (!query_duration(text, out) || *out <= 0))
        return otl_fail(err, OTL_EBADREQUEST,
                        "error parsing lookback delta duration: cannot parse \"%.*s\" to a valid "
                        "duration",
                        (int)(text.n < 60 ? text.n : 60), (const char *)text.p);
    return OTL_OK;
}

static enum otl_err range_options(const struct answering *a, struct eval_opts *o,
                                  struct otl_error *err)
{
    const struct query_request *r = a->request;
    struct bytes step = answer_param(r, "step");
    int64_t start = INT64_MIN, end = INT64_MIN;
    enum otl_err rc = answer_time(r, "start", &start, err);

    if (rc == OTL_OK && start == INT64_MIN)
        rc = otl_fail(err, OTL_EBADREQUEST,
                      "invalid parameter \"start\": cannot parse \"\" to a "
                      "valid timestamp");
    if (rc == OTL_OK)
        rc = answer_time(r, "end", &end, err);
    if (rc == OTL_OK && end == INT64_MIN)
        rc = otl_fail(err, OTL_EBADREQUEST,
                      "invalid parameter \"end\": cannot parse \"\" to a "
                      "valid timestamp");
    if (rc != OTL_OK)
        return rc;
    if (end < start)
        return otl_fail(err, OTL_EBADREQUEST,
                        "invalid parameter \"end\": end timestamp must not be before start time");
    if (!query_duration(step, &o->step_ms))
        return otl_fail(err, OTL_EBADREQUEST,
                        "invalid parameter \"step\": cannot parse \"%.*s\" to a valid duration",
                        (int)(step.n < 60 ? step.n : 60), (const char *)step.p);
    if (o->step_ms <= 0)
        return otl_fail(err, OTL_EBADREQUEST,
                        "invalid parameter \"step\": zero or negative query resolution step widths "
                        "are not accepted. Try a positive integer");
    if (((uint64_t)end - (uint64_t)start) / (uint64_t)o->step_ms > MAX_POINTS)
        return otl_fail(err, OTL_EBADREQUEST,
                        "exceeded maximum resolution of 11,000 points per timeseries. Try "
                        "decreasing the query resolution (?step=XX)");
    o->start_ms = start;
    o->end_ms = end;
    return OTL_OK;
}

/* ---- the answer ---- */

/* What stands in front of the value of a step: all rows of a range query have the same times. */
struct stamp {
    char text[31]; /* "],[TIME," and a quote: the end of the sample before it, too */
    uint8_t n;
};
enum { STAMP_FIRST = 3 /* what of it is not for a row's first sample */ };
enum { SAMPLE_BYTES = 38, MOST_GUESSED = 16 << 20 };

static struct stamp *make_stamps(const struct eval *e)
{
    struct stamp *stamps = malloc(e->steps * sizeof(*stamps));
    struct buf text = {0};

    for (size_t i = 0; stamps != NULL && i < e->steps; i++) {
        buf_reset(&text);
        buf_add_str(&text, "\"],[");
        format_ms(&text, eval_time(e, i));
        buf_add_str(&text, ",\"");
        if (text.failed || text.n > sizeof(stamps->text)) {
            free(stamps);
            stamps = NULL;
            break;
        }
        memcpy(stamps[i].text, text.p, text.n);
        stamps[i].n = (uint8_t)text.n;
    }
    buf_fini(&text);
    return stamps;
}

/* The floats of a range query's row. */
static void add_stamped(struct buf *out, const struct prom_row *row, const struct stamp *stamps)
{
    bool any = false;

    for (size_t i = 0; i < row->n; i++) {
        unsigned from = any ? 0 : STAMP_FIRST;

        if (prom_is_stale(row->v[i]))
            continue;
        if (!any)
            buf_add_str(out, ",\"values\":[");
        any = true;
        buf_add(out, stamps[i].text + from, stamps[i].n - from);
        answer_value(out, row->v[i]);
    }
    if (any)
        buf_add_str(out, "\"]]");
}

static void add_samples(struct buf *out, const struct prom_row *row, const struct eval *e,
                        bool range)
{
    bool any = false;

    for (size_t i = 0; i < row->n; i++) {
        if (prom_is_stale(row->v[i]))
            continue;
        if (range)
            buf_add_str(out, any ? "," : ",\"values\":[");
        else
            buf_add_str(out, ",\"value\":");
        any = true;
        answer_sample(out, row->t != NULL ? row->t[i] : eval_time(e, i), row->v[i]);
    }
    if (any && range)
        buf_add_char(out, ']');
}

static void add_histograms(struct buf *out, const struct prom_row *row, const struct eval *e,
                           bool range)
{
    bool any = false;

    for (size_t i = 0; row->h != NULL && i < row->n; i++) {
        if (row->h[i] == NULL)
            continue;
        if (range)
            buf_add_str(out, any ? "," : ",\"histograms\":[");
        else
            buf_add_str(out, ",\"histogram\":");
        any = true;
        answer_histogram(out, row->t != NULL ? row->t[i] : eval_time(e, i), row->h[i]);
    }
    if (any && range)
        buf_add_char(out, ']');
}

static enum otl_err add_rows(struct buf *out, const struct prom_value *v, const struct eval *e,
                             bool range, uint64_t limit, struct otl_error *err)
{
    bool stamped = range && v->type != PROM_MATRIX && v->n_rows > 0;
    struct stamp *stamps = stamped ? make_stamps(e) : NULL;
    enum otl_err rc = OTL_OK;

    if (stamped && stamps == NULL)
        return otl_fail(err, OTL_ENOMEM, "query: no memory");
    /* Growing is copying: so much it will be, if it is not above what a guess may cost. */
    if (stamped && v->n_rows <= MOST_GUESSED / SAMPLE_BYTES / e->steps)
        (void)buf_reserve(out, v->n_rows * e->steps * SAMPLE_BYTES);
    buf_add_char(out, '[');
    for (size_t r = 0; r < v->n_rows && (limit == 0 || r < limit) && rc == OTL_OK; r++) {
        const struct prom_row *row = &v->rows[r];

        rc = read_check(e->read, err);
        buf_add_str(out, r > 0 ? ",{\"metric\":" : "{\"metric\":");
        answer_metric(out, row->labels);
        if (stamped)
            add_stamped(out, row, stamps);
        else
            add_samples(out, row, e, range);
        add_histograms(out, row, e, range);
        buf_add_char(out, '}');
    }
    buf_add_char(out, ']');
    free(stamps);
    return rc;
}

/* A scalar over a range is a series without labels. */
static void add_scalar_row(struct buf *out, const struct prom_value *v, const struct eval *e)
{
    buf_add_str(out, "[{\"metric\":{},\"values\":[");
    for (size_t i = 0; i < e->steps; i++) {
        if (i > 0)
            buf_add_char(out, ',');
        answer_sample(out, eval_time(e, i), v->scalar[i]);
    }
    buf_add_str(out, "]}]");
}

static void add_stats(struct buf *out, const struct eval *e)
{
    buf_printf(out,
               ",\"stats\":{\"timings\":{\"evalTotalTime\":%.9f,\"resultSortTime\":0,"
               "\"queryPreparationTime\":%.9f,\"innerEvalTime\":%.9f,\"execQueueTime\":0,"
               "\"execTotalTime\":%.9f},\"samples\":{\"totalQueryableSamples\":%" PRIu64
               ",\"peakSamples\":%" PRIu64 "}}",
               (double)(e->stats.select_ns + e->stats.eval_ns) / 1e9,
               (double)e->stats.select_ns / 1e9, (double)e->stats.eval_ns / 1e9,
               (double)(e->stats.select_ns + e->stats.eval_ns) / 1e9, e->stats.samples_read,
               e->stats.peak_samples);
}

static enum otl_err add_answer(struct answering *a, const struct prom_value *v,
                               const struct eval *e, bool range, uint64_t limit,
                               struct otl_error *err)
{
    struct buf *out = a->out;
    enum otl_err rc = OTL_OK;

    buf_add_str(out, "{\"resultType\":");
    if (range) {
        buf_add_str(out, "\"matrix\",\"result\":");
        if (v->type == PROM_SCALAR)
            add_scalar_row(out, v, e);
        else
            rc = add_rows(out, v, e, true, limit, err);
    } else if (v->type == PROM_SCALAR) {
        buf_add_str(out, "\"scalar\",\"result\":");
        answer_sample(out, eval_time(e, 0), v->scalar[0]);
    } else if (v->type == PROM_STRING) {
        buf_add_str(out, "\"string\",\"result\":[");
        buf_printf(out, "%" PRId64 ".%03d,", e->opts->start_ms / 1000,
                   (int)(e->opts->start_ms % 1000));
        buf_add_json_string(out, v->string);
        buf_add_char(out, ']');
    } else {
        buf_add_str(out,
                    v->type == PROM_MATRIX ? "\"matrix\",\"result\":" : "\"vector\",\"result\":");
        rc = add_rows(out, v, e, v->type == PROM_MATRIX, limit, err);
    }
    if (answer_param(a->request, "stats").n > 0)
        add_stats(out, e);
    buf_add_char(out, '}');
    answer_annotations(out, e);
    if (limit != 0 && v->n_rows > limit && e->warnings.n == 0)
        buf_add_str(out, ",\"warnings\":[\"results truncated due to limit\"]");
    return rc;
}

static enum otl_err parse(struct answering *a, struct expr **out, struct otl_error *err)
{
    struct bytes text = answer_param(a->request, "query");
    enum otl_err rc = promql_parse(&a->arena, text, out, err);

    if (rc == OTL_OK)
        rc = promql_validate(text, *out, err);
    return rc == OTL_OK || rc == OTL_ENOMEM ? rc : otl_wrap(err, "invalid parameter \"query\"");
}

enum otl_err answer_query(struct answering *a, enum answer_error *kind, struct otl_error *err)
{
    const struct query_opts *q = &a->engine->opts;
    bool range = a->request->endpoint == QUERY_RANGE;
    struct eval_opts o = {.start_ms = a->request->now_ms,
                          .subquery_step_ms = SUBQUERY_STEP_MS,
                          .max_samples = q->max_samples,
                          .max_series = q->max_series};
    struct prom_value v = {0};
    struct expr *e = NULL;
    uint64_t limit = 0;
    struct eval eval;
    enum otl_err rc;

    *kind = ANSWER_BAD_DATA;
    rc = answer_count(a->request, "limit", &limit, err);
    if (rc == OTL_OK)
        rc = range ? range_options(a, &o, err) : answer_time(a->request, "time", &o.start_ms, err);
    if (rc == OTL_OK && !range)
        o.end_ms = o.start_ms;
    if (rc == OTL_OK)
        rc = lookback(a, &o.lookback_ms, err);
    if (rc == OTL_OK)
        rc = parse(a, &e, err);
    if (rc == OTL_OK && range && e->type != PROM_SCALAR && e->type != PROM_VECTOR)
        rc =
            otl_fail(err, OTL_EBADREQUEST,
                     "invalid parameter \"query\": invalid expression type \"%s\" for range query, "
                     "must be Scalar or instant Vector",
                     prom_type_name(e->type));
    if (rc != OTL_OK)
        return rc;
    *kind = ANSWER_EXECUTION;
    eval = (struct eval){.opts = &o,
                         .read = a->read,
                         .querier = a->querier,
                         .arena = &a->arena,
                         .text = answer_param(a->request, "query")};
    rc = eval_query(&eval, e, &v, err);
    if (rc == OTL_OK)
        rc = add_answer(a, &v, &eval, range, limit, err);
    prom_value_fini(&v);
    return rc;
}
