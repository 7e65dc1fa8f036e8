/* reads_panels.c -- the queries of issue 4, and what their answers must be. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "otlite/clock.h"
#include "reads.h"

#define CPU      (1U << 4)
#define REQUESTS (1U << 0)
#define COUNTERS ((1U << GEN_COUNTERS) - 1)

const struct reads_query reads_queries[READS_QUERIES] = {
    {"one-series", "one series, 1 h", 1, 1, {{PANEL_RAW, BY_NONE, SPAN_HOUR, REQUESTS, true, 0}}},
    {"sum-by-service",
     "1,000 series, 1 h, sum by service and minute",
     15,
     1,
     {{PANEL_SUM, BY_SERVICE, SPAN_HOUR, CPU, true, 60}}},
    {"mean-by-minute",
     "1,000 series, 24 h, mean by minute",
     60,
     1,
     {{PANEL_MEAN, BY_NONE, SPAN_DAY, CPU, true, 60}}},
    {"mean-max-all",
     "mean and max of everything",
     20,
     1,
     {{PANEL_MEAN_AND_MAX, BY_NONE, SPAN_ALL, ALL_METRICS, false, 0}}},
    {"mean-max-live",
     "mean and max of all there is, points that come in too",
     (double)NAN,
     1,
     {{PANEL_MEAN_AND_MAX, BY_NONE, SPAN_LIVE, ALL_METRICS, false, 0}}},
    {"max-per-series",
     "max per series over everything",
     50,
     1,
     {{PANEL_MAX, BY_SERIES, SPAN_ALL, ALL_METRICS, false, 0}}},
    {"rate-all",
     "sum of rates of everything, 24 h by 5 minutes",
     300,
     1,
     {{PANEL_RATE, BY_NONE, SPAN_DAY, COUNTERS, false, 300}}},
    {"dashboards",
     "three dashboard pages, 24 h",
     150,
     9,
     {/* traffic */
      {PANEL_RATE, BY_SERVICE, SPAN_DAY, REQUESTS, true, 300},
      {PANEL_RATE, BY_NONE, SPAN_DAY, 1U << 1, true, 300},
      {PANEL_RATE, BY_NONE, SPAN_DAY, 1U << 2, false, 300},
      /* resources */
      {PANEL_MEAN, BY_SERVICE, SPAN_DAY, CPU, true, 300},
      {PANEL_MAX, BY_SERVICE, SPAN_DAY, 1U << 5, true, 300},
      {PANEL_MEAN, BY_NONE, SPAN_DAY, 1U << 6, false, 60},
      /* overview */
      {PANEL_RATE, BY_NONE, SPAN_DAY, REQUESTS, false, 60},
      {PANEL_MAX, BY_NONE, SPAN_DAY, CPU, false, 60},
      {PANEL_MEAN, BY_NONE, SPAN_DAY, 1U << 5, false, 60}}},
};

struct range panel_range(const struct panel *p, const struct series_gen_opts *o)
{
    int64_t end_ns = o->start_ns + o->intervals * o->interval_ns;
    int64_t step_ns = p->step_s * NS_PER_S, whole_ns = step_ns, first_ns, long_ns;
    struct range r = {.from_ns = o->start_ns, .to_ns = end_ns};

    if (p->what == PANEL_RAW)
        step_ns = whole_ns = o->interval_ns;
    if (p->span == SPAN_ALL || p->span == SPAN_LIVE) {
        r.step_ns = end_ns - o->start_ns;
        r.windows = 1;
        return r;
    }
    long_ns = (p->span == SPAN_HOUR ? 3600 : 86400) * NS_PER_S;
    r.step_ns = step_ns;
    r.to_ns = o->start_ns + (end_ns - o->start_ns) / whole_ns * whole_ns;
    first_ns = o->start_ns + whole_ns; /* there must be a value before the first window */
    r.from_ns = r.to_ns - long_ns / whole_ns * whole_ns;
    if (r.from_ns < first_ns)
        r.from_ns = first_ns < r.to_ns ? first_ns : r.to_ns;
    r.windows = (uint32_t)((r.to_ns - r.from_ns) / step_ns);
    return r;
}

bool panel_takes(const struct panel *p, uint32_t series)
{
    return (p->what != PANEL_RAW || series == RAW_SERIES) &&
           (p->metrics >> gen_metric(series) & 1U) != 0 &&
           (!p->production || gen_is_production(gen_service(series)));
}

uint32_t panel_group(const struct panel *p, uint32_t series)
{
    switch (p->by) {
    case BY_SERVICE:
        return gen_service(series);
    case BY_SERIES:
        return series;
    default:
        return 0;
    }
}

void panel_names(const struct panel *p, struct buf *out, bool *out_single)
{
    *out_single = (p->metrics & (p->metrics - 1)) == 0;
    for (uint32_t m = 0; m < GEN_METRICS; m++) {
        if ((p->metrics >> m & 1U) == 0)
            continue;
        if (out->n > 0)
            buf_add_char(out, '|');
        for (const char *c = gen_metric_name(m); *c != '\0'; c++) {
            if (*c == '.' && !*out_single)
                buf_add_str(out, "\\.");
            else
                buf_add_char(out, *c);
        }
    }
}

/* ---- the true answers, kept by window while the points are made ---- */

struct cell {
    double sum, max;
    uint64_t n;
};

struct model_panel {
    const struct panel *panel;
    struct range range;
    uint32_t groups;
    struct cell *cells; /* groups * windows */
};

struct reads_model {
    struct series_gen_opts opts;
    struct model_panel panels[READS_QUERIES][MAX_PANELS];
    int64_t *last; /* value of each series in the interval before */
    bool has_last;
    double sum;
};

enum otl_err reads_model_new(const struct series_gen_opts *o, struct reads_model **out,
                             struct otl_error *err)
{
    struct reads_model *m = calloc(1, sizeof(*m));
    bool ok = m != NULL;

    if (ok) {
        m->opts = *o;
        m->last = calloc(o->series, sizeof(*m->last));
        ok = m->last != NULL;
    }
    for (unsigned q = 0; q < READS_QUERIES && ok; q++) {
        for (unsigned i = 0; i < reads_queries[q].n_panels && ok; i++) {
            struct model_panel *p = &m->panels[q][i];

            p->panel = &reads_queries[q].panels[i];
            p->range = panel_range(p->panel, o);
            p->groups = panel_group(p->panel, o->series - 1) + 1;
            p->cells = calloc((size_t)p->groups * p->range.windows + 1, sizeof(*p->cells));
            ok = p->cells != NULL;
        }
    }
    if (!ok) {
        reads_model_free(m);
        return otl_fail(err, OTL_ENOMEM, "no memory for the right answers");
    }
    *out = m;
    return OTL_OK;
}

void reads_model_free(struct reads_model *m)
{
    if (m == NULL)
        return;
    for (unsigned q = 0; q < READS_QUERIES; q++) {
        for (unsigned i = 0; i < MAX_PANELS; i++)
            free(m->panels[q][i].cells);
    }
    free(m->last);
    free(m);
}

static void add_value(const struct reads_model *m, struct model_panel *p,
                      const struct series_gen *g, uint32_t s)
{
    int64_t t = gen_time_ns(&g->opts, gen_service(s), g->interval);
    double v = gen_double(g->values[s], gen_decimals(g->opts.mix, gen_metric(s)));
    struct cell *c;

    if (!panel_takes(p->panel, s) || t < p->range.from_ns || t >= p->range.to_ns)
        return;
    c = &p->cells[(size_t)panel_group(p->panel, s) * p->range.windows +
                  (size_t)((t - p->range.from_ns) / p->range.step_ns)];
    if (c->n == 0 || v > c->max)
        c->max = v;
    c->n++;
    if (p->panel->what != PANEL_RATE)
        c->sum += v;
    else if (m->has_last)
        c->sum += (double)(g->values[s] >= m->last[s] ? g->values[s] - m->last[s] : g->values[s]);
}

void reads_model_add(struct reads_model *m, const struct series_gen *g)
{
    for (uint32_t s = 0; s < g->opts.series; s++)
        m->sum += gen_double(g->values[s], gen_decimals(g->opts.mix, gen_metric(s)));
    for (unsigned q = 0; q < READS_QUERIES; q++) {
        for (unsigned i = 0; i < reads_queries[q].n_panels; i++) {
            struct model_panel *p = &m->panels[q][i];
            int64_t t = g->opts.start_ns + g->interval * g->opts.interval_ns;

            /* Jitter is shorter than the interval, and windows are of whole intervals. */
            if (t < p->range.from_ns || t >= p->range.to_ns)
                continue;
            for (uint32_t s = 0; s < g->opts.series; s++)
                add_value(m, p, g, s);
        }
    }
    memcpy(m->last, g->values, g->opts.series * sizeof(*m->last));
    m->has_last = true;
}

void reads_model_answer(const struct reads_model *m, unsigned query, unsigned panel,
                        struct answer *out)
{
    const struct model_panel *p = &m->panels[query][panel];

    for (uint32_t g = 0; g < p->groups; g++) {
        for (uint32_t w = 0; w < p->range.windows; w++) {
            const struct cell *c = &p->cells[(size_t)g * p->range.windows + w];
            double value = c->sum, second = 0;

            if (c->n == 0)
                continue;
            if (p->panel->what == PANEL_MEAN || p->panel->what == PANEL_MEAN_AND_MAX)
                value = c->sum / (double)c->n;
            if (p->panel->what == PANEL_MAX)
                value = c->max;
            if (p->panel->what == PANEL_MEAN_AND_MAX)
                second = c->max;
            if (p->panel->what == PANEL_RATE)
                value = c->sum / (double)p->panel->step_s;
            answer_add(out, g, w, value, second);
        }
    }
}

double reads_model_sum(const struct reads_model *m)
{
    return m->sum;
}
