/* eval_select.c -- instant selectors: at each step the latest sample within lookback, unless the
 * series has been marked as ended since. */
#include <stdlib.h>

#include "eval_internal.h"
#include "otlite/clock.h"

int64_t eval_reference(const struct eval *v, const struct modifiers *m, size_t i)
{
    switch (m->at) {
    case AT_TIME:
        return m->at_ms - m->offset_ms;
    case AT_START:
        return v->query_start_ms - m->offset_ms;
    case AT_END:
        return v->query_end_ms - m->offset_ms;
    case AT_NONE:
        break;
    }
    return eval_time(v, i) - m->offset_ms;
}

enum otl_err eval_select(struct eval *v, const struct expr *e, int64_t from, int64_t to,
                         const struct series_set **out, struct otl_error *err)
{
    int64_t begin_ns = clock_mono_ns();
    enum otl_err rc = querier_select(v->querier, e->u.selector.matchers, e->u.selector.n_matchers,
                                     from, to, false, out, err);

    v->stats.select_ns += clock_mono_ns() - begin_ns;
    if (rc != OTL_OK)
        return rc;
    v->stats.series += (*out)->n;
    if (v->opts->max_series != 0 && (*out)->n > v->opts->max_series)
        return otl_fail(err, OTL_ETOOBIG,
                        "a selector matches %zu series, more than query.max_series, %llu: add "
                        "matchers to it",
                        (*out)->n, (unsigned long long)v->opts->max_series);
    return OTL_OK;
}

struct selecting {
    struct eval *v;
    const struct expr *e;
    const struct series_set *set;
    struct row_sink *sink;
    enum select_what what;
};

static enum otl_err put_sample(struct selecting *s, struct prom_row *row, size_t i,
                               const struct samples *in, size_t k, struct otl_error *err)
{
    struct sample out = {in->v[k], in->h == NULL ? NULL : in->h[k]};

    if (s->what != SELECT_SAMPLES)
        out = (struct sample){(double)in->t[k] / 1000, NULL};
    return eval_put_copy(s->v, row, i, out, err);
}

static enum otl_err take_series(void *arg, size_t at, const struct samples *in,
                                struct otl_error *err)
{
    struct selecting *s = arg;
    struct eval *v = s->v;
    const struct modifiers *m = &s->e->u.selector.modifiers;
    struct labels labels = s->set->labels[at];
    struct prom_row row = {0};
    size_t next = 0; /* the first sample behind the step */
    bool any = false;
    enum otl_err rc = read_check(v->read, err);

    v->stats.samples_read += in->n;
    if (rc == OTL_OK && s->what == SELECT_TIMESTAMP)
        rc = eval_drop_name(v, labels, &labels, err);
    if (rc == OTL_OK)
        rc = eval_new_row(v, labels, &row, err);
    for (size_t i = 0; i < v->steps && rc == OTL_OK; i++) {
        int64_t ref = eval_reference(v, m, i);

        while (next < in->n && in->t[next] <= ref)
            next++;
        if (next == 0 || in->t[next - 1] <= ref - v->opts->lookback_ms)
            continue;
        if (prom_is_stale(in->v[next - 1]) && (in->h == NULL || in->h[next - 1] == NULL))
            continue;
        rc = put_sample(s, &row, i, in, next - 1, err);
        any = true;
    }
    if (rc == OTL_OK && any)
        rc = s->sink->take(s->sink, &row, err);
    eval_free_row(v, &row);
    return rc;
}

enum otl_err eval_selector(struct eval *v, const struct expr *e, enum select_what what,
                           struct row_sink *sink, struct otl_error *err)
{
    struct selecting s = {.v = v, .e = e, .sink = sink, .what = what};
    const struct modifiers *m = &e->u.selector.modifiers;
    int64_t from = eval_reference(v, m, 0) - v->opts->lookback_ms + 1;
    int64_t to = eval_reference(v, m, v->steps - 1);
    enum otl_err rc = eval_select(v, e, from, to, &s.set, err);

    return rc == OTL_OK ? querier_scan(v->querier, s.set, from, to, NULL, take_series, &s, err) : rc;
}
