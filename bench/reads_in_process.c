/* reads_in_process.c -- the file that otlite wrote, read by read.h in this process: what the
 * reading itself takes, without a daemon, HTTP, SQL and the text of the answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "otlite/attrs.h"
#include "otlite/clock.h"
#include "otlite/config.h"
#include "otlite/read.h"
#include "otlite/store.h"
#include "reads.h"
#include "reads_otlp.h"
#include "store/series_points.h"

#define LOOK_BACK_NS INT64_C(300000000000) /* what windows() has for steps up to 5 minutes */

struct in_process {
    struct reads_env env;
    char data[4096];
    int64_t cache_bytes;
    struct db db;
    struct read_shared *shared;
    struct read_session *session;
    struct series_list series;
};

static enum otl_err in_process_halt(void *self, struct otl_error *err)
{
    struct in_process *p = self;

    (void)err;
    if (p->session != NULL)
        read_session_close(p->session);
    if (p->shared != NULL)
        read_shared_free(p->shared);
    p->session = NULL;
    p->shared = NULL;
    db_close(&p->db);
    memset(&p->db, 0, sizeof(p->db));
    return OTL_OK;
}

static enum otl_err in_process_resume(void *self, struct otl_error *err)
{
    struct in_process *p = self;
    const struct store_opts opts = {.data_dir = p->data, .busy_timeout_ms = 5000};
    enum otl_err rc = store_open_reader(&p->db, &opts, err);

    if (rc == OTL_OK)
        rc = read_shared_new(NULL, (size_t)p->cache_bytes, &p->shared, err);
    if (rc == OTL_OK)
        rc = read_session_open(p->shared, &p->db, &p->session, err);
    return rc;
}

static void in_process_stop(void *self)
{
    struct in_process *p = self;
    struct otl_error ignored;

    if (p == NULL)
        return;
    if (in_process_halt(p, &ignored) == OTL_OK)
        series_list_fini(&p->series);
    free(p);
}

static enum otl_err in_process_start(const struct reads_env *env, void **out_self,
                                     struct otl_error *err)
{
    struct in_process *p = calloc(1, sizeof(*p));
    struct config c;
    enum otl_err rc;

    if (p == NULL)
        return otl_fail(err, OTL_ENOMEM, "no memory to read in this process");
    p->env = *env;
    snprintf(p->data, sizeof(p->data), "%.4000s/data", env->dir);
    rc = config_init(&c, err);
    if (rc == OTL_OK) {
        p->cache_bytes = c.query_cache_size; /* as the daemon has it */
        config_fini(&c);
        rc = in_process_resume(p, err);
    }
    if (rc != OTL_OK) {
        in_process_stop(p);
        return rc;
    }
    *out_self = p;
    return OTL_OK;
}

/* ---- questions ---- */

/* The series of a panel; p->series is theirs. */
static enum otl_err select_series(struct in_process *p, struct read *r, const struct panel *panel,
                                  struct otl_error *err)
{
    struct matcher m[3];
    struct buf names = {0};
    char instance[16];
    size_t n = 0;
    bool single;
    enum otl_err rc;

    panel_names(panel, &names, &single);
    m[n++] = (struct matcher){
        .what = MATCH_NAME, .op = single ? MATCH_EQUAL : MATCH_REGEX, .value = buf_bytes(&names)};
    if (panel->production)
        m[n++] = (struct matcher){.what = MATCH_ANY,
                                  .op = MATCH_EQUAL,
                                  .key = bytes_str("environment"),
                                  .value = bytes_str("production")};
    if (panel->what == PANEL_RAW) {
        reads_instance(RAW_SERIES, instance);
        m[n++] = (struct matcher){.what = MATCH_ANY,
                                  .op = MATCH_EQUAL,
                                  .key = bytes_str("instance"),
                                  .value = bytes_str(instance)};
    }
    rc = names.failed ? otl_fail(err, OTL_ENOMEM, "no memory for the names")
                      : read_select(r, 0, m, n, &p->series, err);
    buf_fini(&names);
    return rc;
}

/* The number behind the dash of "svc-7", "i-42": the group of panel_group. */
static bool number_of(const struct series_info *s, const struct panel *panel, uint32_t *out)
{
    struct attr_value v;
    char text[32];
    const char *dash;

    if (panel->by == BY_SERVICE) {
        snprintf(text, sizeof(text), "%.*s", (int)s->service.n, (const char *)s->service.p);
    } else {
        struct bytes key = bytes_str("instance");

        if (!attrs_get(s->attributes, key, &v) && !attrs_get(s->resource_attributes, key, &v))
            return false;
        snprintf(text, sizeof(text), "%.*s", (int)v.s.n, (const char *)v.s.p);
    }
    dash = strchr(text, '-');
    if (dash == NULL)
        return false;
    *out = (uint32_t)strtoul(dash + 1, NULL, 10);
    return true;
}

/* *out: the group of each series, malloced; NULL: all are one. */
static enum otl_err group_series(struct in_process *p, struct read *r, const struct panel *panel,
                                 uint32_t **out, uint32_t *out_groups, struct otl_error *err)
{
    uint32_t *group, most = panel_group(panel, p->env.gen.series - 1);

    *out = NULL;
    *out_groups = 1;
    if (panel->by == BY_NONE)
        return OTL_OK;
    group = calloc(p->series.n + 1, sizeof(*group));
    if (group == NULL)
        return otl_fail(err, OTL_ENOMEM, "no memory for the groups");
    for (size_t i = 0; i < p->series.n; i++) {
        struct series_info s;

        if (!read_series_info(r, p->series.ids[i], &s) || !number_of(&s, panel, &group[i]) ||
            group[i] > most) {
            free(group);
            return otl_fail(err, OTL_EBADDATA, "series %lld is none of those that were stored",
                            (long long)p->series.ids[i]);
        }
    }
    *out = group;
    *out_groups = most + 1;
    return OTL_OK;
}

static double value_of(const struct window *w, const struct panel *panel)
{
    switch (panel->what) {
    case PANEL_SUM:
        return w->sum;
    case PANEL_MAX:
        return w->max;
    case PANEL_RATE:
        return w->increase / (double)panel->step_s;
    default:
        return w->sum / (double)w->count;
    }
}

static enum otl_err ask_windows(struct in_process *p, struct read *r, const struct panel *panel,
                                const struct range *range, struct answer *out,
                                struct otl_error *err)
{
    struct window_query q = {.series = p->series.ids,
                             .n = p->series.n,
                             .from = range->from_ns,
                             .to = range->to_ns,
                             .step = range->step_ns,
                             .look_back = LOOK_BACK_NS,
                             .want_increase = panel->what == PANEL_RATE,
                             .skip_extremes = panel->what == PANEL_SUM ||
                                              panel->what == PANEL_MEAN ||
                                              panel->what == PANEL_RATE,
                             .skip_ends = true};
    struct window *windows = NULL;
    uint32_t *group;
    enum otl_err rc = group_series(p, r, panel, &group, &q.n_groups, err);

    if (rc != OTL_OK)
        return rc;
    q.group = group;
    rc = read_windows(r, &q, &windows, NULL, err);
    for (size_t i = 0; rc == OTL_OK && i < (size_t)q.n_groups * range->windows; i++) {
        const struct window *w = &windows[i];

        if (w->count > 0)
            answer_add(out, (uint32_t)(i / range->windows), (uint32_t)(i % range->windows),
                       value_of(w, panel), panel->what == PANEL_MEAN_AND_MAX ? w->max : 0);
    }
    free(windows);
    free(group);
    return rc;
}

static enum otl_err ask_points(struct in_process *p, struct read *r, const struct range *range,
                               struct answer *out, struct otl_error *err)
{
    struct series_points points;
    enum otl_err rc;

    if (p->series.n != 1)
        return otl_fail(err, OTL_EBADDATA, "%zu series are of that name and instance", p->series.n);
    series_points_init(&points, KIND_NUMBER);
    rc = read_points(r, KIND_NUMBER, p->series.ids[0], range->from_ns, range->to_ns, &points, err);
    for (size_t i = 0; rc == OTL_OK && i < points.n; i++) {
        const struct field_column *f = &points.fields[NUMBER_VALUE];
        double v = f->kind[i] == VALUE_INT ? (double)f->v[i]
                                           : series_points_double(&points, NUMBER_VALUE, i);

        answer_add(out, 0, (uint32_t)((points.time[i] - range->from_ns) / range->step_ns), v, 0);
    }
    series_points_fini(&points);
    return rc;
}

static enum otl_err in_process_ask(void *self, const struct panel *panel, struct answer *out,
                                   int64_t *out_ns, struct otl_error *err)
{
    struct in_process *p = self;
    const struct read_limits limits = {0};
    struct range range = panel_range(panel, &p->env.gen);
    int64_t begin_ns = clock_mono_ns();
    struct read *r;
    enum otl_err rc = read_begin(p->session, &limits, true, &r, err);

    if (rc != OTL_OK)
        return rc;
    rc = select_series(p, r, panel, err);
    if (rc == OTL_OK)
        rc = panel->what == PANEL_RAW ? ask_points(p, r, &range, out, err)
                                      : ask_windows(p, r, panel, &range, out, err);
    read_end(r);
    *out_ns = clock_mono_ns() - begin_ns;
    return rc;
}

static enum otl_err in_process_count(void *self, uint64_t *out_points, double *out_sum,
                                     struct otl_error *err)
{
    static const struct panel all = {
        .what = PANEL_SUM, .by = BY_NONE, .span = SPAN_ALL, .metrics = ALL_METRICS};
    struct in_process *p = self;
    const struct read_limits limits = {0};
    struct window_query q = {.to = INT64_MAX, .n_groups = 1};
    struct window *w = NULL;
    struct read *r;
    enum otl_err rc = read_begin(p->session, &limits, true, &r, err);

    if (rc != OTL_OK)
        return rc;
    rc = select_series(p, r, &all, err);
    q.series = p->series.ids;
    q.n = p->series.n;
    if (rc == OTL_OK)
        rc = read_windows(r, &q, &w, NULL, err);
    if (rc == OTL_OK) {
        *out_points = w->count;
        *out_sum = w->sum;
    }
    free(w);
    read_end(r);
    return rc;
}

const struct reads_system reads_in_process = {
    .key = "in-process",
    .name = "otlite, in process",
    .stored_by = &reads_otlite,
    .start = in_process_start,
    .count = in_process_count,
    .halt = in_process_halt,
    .resume = in_process_resume,
    .ask = in_process_ask,
    .stop = in_process_stop,
};
