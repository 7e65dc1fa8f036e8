/* export_openmetrics.c -- OpenMetrics text with times, as promtool and other importers take it.
 *
 * The format wants all samples of a family together and of a series in the order of time, so series
 * are ordered by their family's name. Its labels are the point's attributes, job and instance, the
 * scope's name and the other resource attributes: two series that differ in the file differ in the
 * text. What the format cannot hold is changed or left out, and counted: exponential histograms
 * become buckets with fixed bounds (P-34), deltas become running totals (P-3), a metric whose name
 * has another type already is left out (P-5), points without a recorded value are left out (P-36).
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "export_json.h"
#include "export_walk.h"
#include "otlite/attrs.h"
#include "otlite/prom_names.h"

enum { WRITE_BYTES = 1 << 16, MAX_EXEMPLAR_CHARS = 128 };

struct family_series {
    struct series_info info;
    char *family; /* owned; NULL: the name has nothing left */
};

struct label {
    struct buf name, value;
};

struct writer {
    struct read *r;
    const struct export_opts *o;
    FILE *out;
    struct export_losses *losses;
    struct buf text;
    struct label *labels;
    size_t n_labels, cap_labels;
    struct buf rendered; /* `key="value",key="value"` of the series under way */
    struct series_points p, exemplars;
    size_t next_exemplar;
    double *bound; /* of the histogram under way */
    size_t n_bounds;
    int64_t bounds_id;
    int64_t *running; /* totals of deltas: count, then buckets */
    size_t cap_running;
    double running_sum;
    int64_t running_start, running_time;
};

/* ---- families ---- */

static const char *family_type(const struct series_info *s)
{
    switch (s->type) {
    case METRIC_GAUGE:
        return "gauge";
    case METRIC_SUM:
        return s->is_monotonic ? "counter" : "gauge";
    case METRIC_SUMMARY:
        return "summary";
    case METRIC_HISTOGRAM:
    case METRIC_EXPONENTIAL_HISTOGRAM:
        break;
    }
    return "histogram";
}

static int by_family(const void *a, const void *b)
{
    const struct family_series *x = a, *y = b;
    int c;

    if (x->family == NULL || y->family == NULL)
        return (x->family == NULL) - (y->family == NULL);
    c = strcmp(x->family, y->family);
    if (c == 0)
        c = strcmp(family_type(&x->info), family_type(&y->info));
    return c != 0 ? c : (x->info.id > y->info.id) - (x->info.id < y->info.id);
}

/* The name without "_total", which samples of a counter have and their family has not. */
static char *family_name(const struct series_info *s)
{
    struct buf b = {0};
    char *name = NULL;

    if (prom_metric_name(&b, NAMES_UNDERSCORES_WITH_SUFFIXES, s->name, s->unit, s->type,
                         s->is_monotonic) &&
        !b.failed) {
        if (s->type == METRIC_SUM && s->is_monotonic && b.n > 6)
            b.n -= 6;
        name = strdup(buf_cstr(&b));
    }
    buf_fini(&b);
    return name;
}

static void add_escaped(struct buf *b, struct bytes s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\n')
            buf_add_str(b, "\\n");
        else if (s.p[i] == '"' || s.p[i] == '\\') {
            buf_add_char(b, '\\');
            buf_add_char(b, (char)s.p[i]);
        } else
            buf_add_char(b, (char)s.p[i]);
    }
}

/* P-4: a gauge that was one of unknown type says so. The samples of an info or a stateset have
 * names and labels of their own, which a gauge need not have: those stay gauges. */
static bool is_unknown(const struct series_info *s, struct bytes metadata)
{
    struct attr_value type;

    return s->type == METRIC_GAUGE && attrs_get(metadata, bytes_str("prometheus.type"), &type) &&
           type.kind == ATTR_STRING && bytes_equal(type.s, bytes_str("unknown"));
}

static enum otl_err add_family(struct writer *w, const struct family_series *s,
                               struct otl_error *err)
{
    struct buf unit = {0}, help = {0}, metadata = {0};
    size_t n = strlen(s->family);
    enum otl_err rc = read_description(w->r, s->info.metric_id, &help, &metadata, err);

    if (rc == OTL_OK) {
        buf_printf(&w->text, "# TYPE %s %s\n", s->family,
                   is_unknown(&s->info, buf_bytes(&metadata)) ? "unknown" : family_type(&s->info));
        prom_unit(&unit, s->info.unit);
    }
    if (unit.n > 0 && n > unit.n && s->family[n - unit.n - 1] == '_' &&
        memcmp(s->family + n - unit.n, unit.p, unit.n) == 0)
        buf_printf(&w->text, "# UNIT %s %s\n", s->family, buf_cstr(&unit));
    w->text.failed = w->text.failed || unit.failed;
    buf_fini(&unit);
    if (rc == OTL_OK && help.n > 0) {
        buf_printf(&w->text, "# HELP %s ", s->family);
        add_escaped(&w->text, buf_bytes(&help));
        buf_add_char(&w->text, '\n');
    }
    buf_fini(&help);
    buf_fini(&metadata);
    return rc;
}

/* ---- labels ---- */

/* One of a name again: joined by ";" (P-22). keep: the first one stays alone. */
static void add_label(struct writer *w, struct bytes key, struct bytes value, bool translate,
                      bool keep)
{
    struct label *l;
    struct buf name = {0};

    if (!translate)
        buf_add_bytes(&name, key);
    else if (!prom_label_name(&name, NAMES_UNDERSCORES_WITH_SUFFIXES, key) ||
             bytes_equal(buf_bytes(&name), bytes_str("__name__"))) {
        buf_fini(&name);
        return;
    }
    for (size_t i = 0; i < w->n_labels; i++) {
        l = &w->labels[i];
        if (!bytes_equal(buf_bytes(&l->name), buf_bytes(&name)))
            continue;
        if (!keep) {
            buf_add_char(&l->value, ';');
            buf_add_bytes(&l->value, value);
        }
        buf_fini(&name);
        return;
    }
    if (w->n_labels == w->cap_labels) {
        size_t cap = w->cap_labels == 0 ? 16 : 2 * w->cap_labels;

        l = realloc(w->labels, cap * sizeof(*l));
        if (l == NULL) {
            w->text.failed = true;
            buf_fini(&name);
            return;
        }
        memset(l + w->cap_labels, 0, (cap - w->cap_labels) * sizeof(*l));
        w->labels = l;
        w->cap_labels = cap;
    }
    l = &w->labels[w->n_labels++];
    buf_reset(&l->name);
    buf_reset(&l->value);
    buf_add_bytes(&l->name, buf_bytes(&name));
    buf_add_bytes(&l->value, value);
    w->text.failed = w->text.failed || name.failed || l->name.failed || l->value.failed;
    buf_fini(&name);
}

/* What job and instance are made of. */
static bool is_identifying(struct bytes key)
{
    return bytes_equal(key, bytes_str("service.name")) ||
           bytes_equal(key, bytes_str("service.namespace")) ||
           bytes_equal(key, bytes_str("service.instance.id"));
}

/* resource: the attributes are those of one; a name that is there already stays as it is then. */
static void add_attributes(struct writer *w, struct bytes canonical, bool resource)
{
    struct attr_iter it;
    struct attr_value v;
    struct bytes key;
    struct buf text = {0};

    attrs_begin(&it, canonical);
    while (attrs_next(&it, &key, &v)) {
        if (resource && is_identifying(key))
            continue;
        buf_reset(&text);
        attr_value_to_text(&v, &text);
        add_label(w, key, buf_bytes(&text), true, resource);
    }
    buf_fini(&text);
}

static void add_job(struct writer *w, struct bytes resource)
{
    struct attr_value v;
    struct buf job = {0};

    if (attrs_get(resource, bytes_str("service.namespace"), &v) && v.kind == ATTR_STRING) {
        buf_add_bytes(&job, v.s);
        buf_add_char(&job, '/');
    }
    if (attrs_get(resource, bytes_str("service.name"), &v) && v.kind == ATTR_STRING) {
        buf_add_bytes(&job, v.s);
        add_label(w, bytes_str("job"), buf_bytes(&job), false, true);
    }
    if (attrs_get(resource, bytes_str("service.instance.id"), &v) && v.kind == ATTR_STRING)
        add_label(w, bytes_str("instance"), v.s, false, true);
    buf_fini(&job);
}

static int by_name(const void *a, const void *b)
{
    const struct label *x = a, *y = b;

    return bytes_compare(buf_bytes(&x->name), buf_bytes(&y->name));
}

static void render_labels(struct writer *w, const struct series_info *s)
{
    w->n_labels = 0;
    add_job(w, s->resource_attributes);
    add_attributes(w, s->attributes, false);
    if (s->scope_name.n > 0)
        add_label(w, bytes_str("otel_scope_name"), s->scope_name, false, true);
    add_attributes(w, s->resource_attributes, true);
    if (w->n_labels > 0)
        qsort(w->labels, w->n_labels, sizeof(*w->labels), by_name);
    buf_reset(&w->rendered);
    for (size_t i = 0; i < w->n_labels; i++) {
        if (w->labels[i].value.n == 0)
            continue; /* as good as none (P-28) */
        if (w->rendered.n > 0)
            buf_add_char(&w->rendered, ',');
        buf_add_bytes(&w->rendered, buf_bytes(&w->labels[i].name));
        buf_add_str(&w->rendered, "=\"");
        add_escaped(&w->rendered, buf_bytes(&w->labels[i].value));
        buf_add_char(&w->rendered, '"');
    }
    w->text.failed = w->text.failed || w->rendered.failed;
}

/* ---- samples ---- */

static void add_number(struct buf *b, double d)
{
    if (isnan(d))
        buf_add_str(b, "NaN");
    else if (isinf(d))
        buf_add_str(b, d > 0 ? "+Inf" : "-Inf");
    else
        buf_add_double(b, d);
}

/* Seconds with the nanoseconds that there are. */
static void add_time(struct buf *b, int64_t ns)
{
    int64_t rest = ns % 1000000000;
    char digits[16];
    int n;

    buf_printf(b, "%" PRId64, ns / 1000000000);
    if (rest == 0)
        return;
    n = snprintf(digits, sizeof(digits), ".%09d", (int)(rest < 0 ? -rest : rest));
    while (n > 0 && digits[n - 1] == '0')
        n--;
    buf_add(b, digits, (size_t)n);
}

/* `name_suffix{labels,key="value"} `, ready for the value. */
static void begin_sample(struct writer *w, const char *family, const char *suffix, const char *key,
                         double value)
{
    struct buf *b = &w->text;

    buf_add_str(b, family);
    buf_add_str(b, suffix);
    if (w->rendered.n > 0 || key != NULL) {
        buf_add_char(b, '{');
        buf_add_bytes(b, buf_bytes(&w->rendered));
        if (key != NULL) {
            buf_printf(b, "%s%s=\"", w->rendered.n > 0 ? "," : "", key);
            add_number(b, value);
            buf_add_char(b, '"');
        }
        buf_add_char(b, '}');
    }
    buf_add_char(b, ' ');
}

static void end_sample(struct writer *w, int64_t time)
{
    buf_add_char(&w->text, ' ');
    add_time(&w->text, time);
}

static void sample(struct writer *w, const char *family, const char *suffix, double value,
                   int64_t time)
{
    begin_sample(w, family, suffix, NULL, 0);
    add_number(&w->text, value);
    end_sample(w, time);
    buf_add_char(&w->text, '\n');
}

static void count_sample(struct writer *w, const char *family, const char *suffix, int64_t value,
                         int64_t time)
{
    begin_sample(w, family, suffix, NULL, 0);
    buf_printf(&w->text, "%" PRId64, value);
    end_sample(w, time);
    buf_add_char(&w->text, '\n');
}

static double number_at(const struct series_points *p, int f, size_t i)
{
    return p->fields[f].kind[i] == VALUE_INT ? (double)p->fields[f].v[i]
                                             : series_points_double(p, f, i);
}

/* ` # {trace_id="...",span_id="..."} value time`: the newest exemplar of point i above low and up
 * to high; a sample has one at most. */
static void add_exemplar(struct writer *w, size_t i, double low, double high)
{
    const struct series_points *e = &w->exemplars;
    struct buf *b = &w->text;
    size_t best = SIZE_MAX;
    struct bytes trace, span;

    for (size_t k = w->next_exemplar; k < e->n; k++) {
        double v;

        if (point_key_compare(e->time[k], e->start_time[k], w->p.time[i], w->p.start_time[i]) != 0)
            break;
        if (e->fields[EXEMPLAR_VALUE].kind[k] == VALUE_NONE)
            continue;
        v = number_at(e, EXEMPLAR_VALUE, k);
        if (v > low && v <= high)
            best = k;
    }
    if (best == SIZE_MAX)
        return;
    trace = series_points_bytes(e, EXEMPLAR_TRACE_ID, best);
    span = series_points_bytes(e, EXEMPLAR_SPAN_ID, best);
    buf_add_str(b, " # {");
    if (trace.n > 0) {
        buf_add_str(b, "trace_id=\"");
        buf_add_hex(b, trace);
        buf_add_char(b, '"');
    }
    if (span.n > 0) {
        buf_add_str(b, trace.n > 0 ? ",span_id=\"" : "span_id=\"");
        buf_add_hex(b, span);
        buf_add_char(b, '"');
    }
    buf_add_str(b, "} ");
    add_number(b, number_at(e, EXEMPLAR_VALUE, best));
    if (e->fields[EXEMPLAR_TIME].v[best] > 0)
        end_sample(w, e->fields[EXEMPLAR_TIME].v[best]);
}

/* Exemplars are in the order of their points. */
static void seek_exemplars(struct writer *w, size_t i)
{
    const struct series_points *e = &w->exemplars;

    while (w->next_exemplar < e->n &&
           point_key_compare(e->time[w->next_exemplar], e->start_time[w->next_exemplar],
                             w->p.time[i], w->p.start_time[i]) < 0)
        w->next_exemplar++;
}

/* ---- running totals of deltas (P-3) ---- */

/* Whether point i goes on from the one before; otherwise the total begins anew. False: leave it
 * out, it begins before what is counted already. */
static bool continues(struct writer *w, size_t i, bool *anew)
{
    int64_t start = w->p.start_time[i];

    *anew = w->running_time == 0 || start != w->running_time;
    if (w->running_time != 0 && start != 0 && start < w->running_start)
        return false;
    if (*anew)
        w->running_start = start;
    w->running_time = w->p.time[i];
    return true;
}

static bool add_running(struct writer *w, const int64_t *v, size_t n, bool anew)
{
    if (n > w->cap_running) {
        int64_t *p = realloc(w->running, n * sizeof(*p));

        if (p == NULL) {
            w->text.failed = true;
            return false;
        }
        memset(p + w->cap_running, 0, (n - w->cap_running) * sizeof(*p));
        w->running = p;
        w->cap_running = n;
    }
    if (anew && w->running != NULL)
        memset(w->running, 0, w->cap_running * sizeof(*w->running));
    for (size_t i = 0; i < n; i++)
        w->running[i] = (int64_t)((uint64_t)w->running[i] + (uint64_t)v[i]);
    return true;
}

/* ---- points ---- */

static void add_number_point(struct writer *w, const struct family_series *s, size_t i)
{
    bool counter = s->info.type == METRIC_SUM && s->info.is_monotonic, anew;
    const struct field_column *c = &w->p.fields[NUMBER_VALUE];

    if (counter && s->info.temporality == TEMPORALITY_DELTA) {
        if (!continues(w, i, &anew)) {
            w->losses->points++;
            return;
        }
        w->running_sum = (anew ? 0 : w->running_sum) + number_at(&w->p, NUMBER_VALUE, i);
        begin_sample(w, s->family, "_total", NULL, 0);
        add_number(&w->text, w->running_sum);
    } else {
        begin_sample(w, s->family, counter ? "_total" : "", NULL, 0);
        if (c->kind[i] == VALUE_INT)
            buf_printf(&w->text, "%" PRId64, c->v[i]);
        else
            add_number(&w->text, number_at(&w->p, NUMBER_VALUE, i));
    }
    end_sample(w, w->p.time[i]);
    if (counter)
        add_exemplar(w, i, -(double)INFINITY, (double)INFINITY);
    buf_add_char(&w->text, '\n');
}

static enum otl_err use_bounds(struct writer *w, int64_t id, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    if (id == w->bounds_id)
        return OTL_OK;
    free(w->bound);
    w->bound = NULL;
    w->n_bounds = 0;
    w->bounds_id = 0;
    if (id != 0)
        rc = read_bounds(w->r, id, &w->bound, &w->n_bounds, err);
    if (rc == OTL_OK)
        w->bounds_id = id;
    return rc;
}

static void add_bucket(struct writer *w, const struct family_series *s, size_t i, double low,
                       double le, int64_t count)
{
    begin_sample(w, s->family, "_bucket", "le", le);
    buf_printf(&w->text, "%" PRId64, count);
    end_sample(w, w->p.time[i]);
    add_exemplar(w, i, low, le);
    buf_add_char(&w->text, '\n');
}

static void add_count_and_sum(struct writer *w, const struct family_series *s, size_t i,
                              int64_t count, bool has_sum, double sum)
{
    count_sample(w, s->family, "_count", count, w->p.time[i]);
    if (has_sum)
        sample(w, s->family, "_sum", sum, w->p.time[i]);
}

static enum otl_err add_histogram_point(struct writer *w, const struct family_series *s, size_t i,
                                        struct otl_error *err)
{
    bool delta = s->info.temporality == TEMPORALITY_DELTA, anew = true;
    bool has_sum = w->p.fields[HISTOGRAM_SUM].kind[i] != VALUE_NONE;
    double sum = has_sum ? series_points_double(&w->p, HISTOGRAM_SUM, i) : 0,
           low = -(double)INFINITY;
    int64_t count = w->p.fields[HISTOGRAM_COUNT].v[i], below = 0;
    uint32_t n;
    const int64_t *counts = series_points_list(&w->p, HISTOGRAM_COUNTS, i, &n);
    int64_t bounds_id = w->bounds_id;
    enum otl_err rc = use_bounds(w, w->p.fields[HISTOGRAM_BOUNDS_ID].v[i], err);

    if (rc != OTL_OK)
        return rc;
    if (delta) {
        if (!continues(w, i, &anew)) {
            w->losses->points++;
            return OTL_OK;
        }
        anew = anew || bounds_id != w->bounds_id;
        if (!add_running(w, counts, n, anew))
            return OTL_OK; /* told by text.failed */
        counts = w->running;
        w->running_sum = (anew ? 0 : w->running_sum) + sum;
        sum = w->running_sum;
        count = 0;
        for (size_t k = 0; k < n; k++)
            count += w->running[k];
    }
    for (size_t k = 0; k + 1 < n && k < w->n_bounds; k++) {
        below += counts[k];
        add_bucket(w, s, i, low, w->bound[k], below);
        low = w->bound[k];
    }
    if (w->n_bounds == 0 || !isinf(w->bound[w->n_bounds - 1]) || n <= w->n_bounds)
        add_bucket(w, s, i, low, (double)INFINITY, count);
    add_count_and_sum(w, s, i, count, has_sum, sum);
    return OTL_OK;
}

/* Bounds by P-34: negative buckets from the most negative on, zero, positive ones. Empty ones are
 * left out, as their count says nothing that the next one does not. */
static void add_exponential_point(struct writer *w, const struct family_series *s, size_t i)
{
    const struct series_points *p = &w->p;
    double scale = ldexp(1, -(int)p->fields[EXPONENTIAL_SCALE].v[i]);
    bool has_sum = p->fields[EXPONENTIAL_SUM].kind[i] != VALUE_NONE;
    int64_t count = p->fields[EXPONENTIAL_COUNT].v[i], below = 0;
    uint32_t n;
    const int64_t *v;
    double low = -(double)INFINITY, le;

    if (s->info.temporality == TEMPORALITY_DELTA) {
        w->losses->points++; /* scales change from point to point: there is no total to run */
        return;
    }
    v = series_points_list(p, EXPONENTIAL_NEGATIVE, i, &n);
    for (size_t k = n; k-- > 0;) {
        if (v[k] == 0)
            continue;
        below += v[k];
        le = -exp2((double)(p->fields[EXPONENTIAL_NEGATIVE_OFFSET].v[i] + (int64_t)k) * scale);
        add_bucket(w, s, i, low, le, below);
        low = le;
    }
    if (p->fields[EXPONENTIAL_ZERO_COUNT].v[i] > 0) {
        below += p->fields[EXPONENTIAL_ZERO_COUNT].v[i];
        le = series_points_double(p, EXPONENTIAL_ZERO_THRESHOLD, i);
        add_bucket(w, s, i, low, le, below);
        low = le;
    }
    v = series_points_list(p, EXPONENTIAL_POSITIVE, i, &n);
    for (size_t k = 0; k < n; k++) {
        if (v[k] == 0)
            continue;
        below += v[k];
        le = exp2((double)(p->fields[EXPONENTIAL_POSITIVE_OFFSET].v[i] + (int64_t)k + 1) * scale);
        if (isinf(le))
            break;
        add_bucket(w, s, i, low, le, below);
        low = le;
    }
    add_bucket(w, s, i, low, (double)INFINITY, count);
    add_count_and_sum(w, s, i, count, has_sum,
                      has_sum ? series_points_double(p, EXPONENTIAL_SUM, i) : 0);
}

static void add_summary_point(struct writer *w, const struct family_series *s, size_t i)
{
    uint32_t n;
    const int64_t *v = series_points_list(&w->p, SUMMARY_QUANTILES, i, &n);

    for (size_t k = 0; k + 1 < n; k += 2) {
        double pair[2];

        memcpy(pair, v + k, sizeof(pair));
        begin_sample(w, s->family, "", "quantile", pair[0]);
        add_number(&w->text, pair[1]);
        end_sample(w, w->p.time[i]);
        buf_add_char(&w->text, '\n');
    }
    add_count_and_sum(w, s, i, w->p.fields[SUMMARY_COUNT].v[i], true,
                      series_points_double(&w->p, SUMMARY_SUM, i));
}

static enum otl_err write_out(struct writer *w, struct otl_error *err)
{
    if (w->text.failed)
        return otl_fail(err, OTL_ENOMEM, "export: no memory");
    if (fwrite(w->text.p, 1, w->text.n, w->out) != w->text.n)
        return export_write_failed(err);
    buf_reset(&w->text);
    return OTL_OK;
}

static enum otl_err add_series(struct writer *w, const struct family_series *s,
                               struct otl_error *err)
{
    enum otl_err rc = export_points(w->r, w->o, &s->info, &w->p, err);

    series_points_reset(&w->exemplars);
    w->next_exemplar = 0;
    w->running_time = 0;
    if (rc == OTL_OK)
        rc = read_points(w->r, KIND_EXEMPLAR, s->info.id, w->o->from, w->o->to, &w->exemplars, err);
    render_labels(w, &s->info);
    for (size_t i = 0; i < w->p.n && rc == OTL_OK; i++) {
        if ((w->p.flags[i] & FLAG_NO_RECORDED_VALUE) != 0) {
            w->losses->points++;
            continue;
        }
        seek_exemplars(w, i);
        if (w->p.kind == KIND_NUMBER)
            add_number_point(w, s, i);
        else if (w->p.kind == KIND_HISTOGRAM)
            rc = add_histogram_point(w, s, i, err);
        else if (w->p.kind == KIND_EXPONENTIAL)
            add_exponential_point(w, s, i);
        else
            add_summary_point(w, s, i);
        if (rc == OTL_OK && (w->text.n >= WRITE_BYTES || w->text.failed))
            rc = write_out(w, err);
    }
    return rc;
}

static enum otl_err write_families(struct writer *w, struct family_series *s, size_t n,
                                   struct otl_error *err)
{
    const struct family_series *open = NULL;
    enum otl_err rc = OTL_OK;

    for (size_t i = 0; i < n && rc == OTL_OK; i++) {
        if (s[i].family == NULL) {
            w->losses->series++;
        } else if (open == NULL || strcmp(open->family, s[i].family) != 0) {
            open = &s[i];
            rc = add_family(w, open, err);
            if (rc == OTL_OK)
                rc = add_series(w, open, err);
        } else if (strcmp(family_type(&open->info), family_type(&s[i].info)) != 0) {
            w->losses->series++;
        } else {
            rc = add_series(w, &s[i], err);
        }
        if (w->o->progress != NULL)
            w->o->progress(w->o->arg, i + 1, n);
    }
    buf_add_str(&w->text, "# EOF\n");
    if (rc == OTL_OK)
        rc = write_out(w, err);
    if (rc == OTL_OK && fflush(w->out) != 0)
        rc = export_write_failed(err);
    return rc;
}

static void writer_fini(struct writer *w)
{
    for (size_t i = 0; i < w->cap_labels; i++) {
        buf_fini(&w->labels[i].name);
        buf_fini(&w->labels[i].value);
    }
    free(w->labels);
    free(w->bound);
    free(w->running);
    buf_fini(&w->text);
    buf_fini(&w->rendered);
    series_points_fini(&w->p);
    series_points_fini(&w->exemplars);
}

enum otl_err export_openmetrics(struct read *r, const struct export_opts *o, FILE *out,
                                struct export_losses *losses, struct otl_error *err)
{
    struct writer w = {.r = r, .o = o, .out = out, .losses = losses};
    struct family_series *s = NULL;
    struct series_info *infos;
    size_t n;
    enum otl_err rc = export_series(r, o, &infos, &n, err);

    *losses = (struct export_losses){0};
    series_points_init(&w.p, KIND_NUMBER);
    series_points_init(&w.exemplars, KIND_EXEMPLAR);
    if (rc == OTL_OK) {
        s = calloc(n + 1, sizeof(*s));
        if (s == NULL)
            rc = otl_fail(err, OTL_ENOMEM, "export %zu series: no memory", n);
    }
    for (size_t i = 0; i < n && rc == OTL_OK; i++)
        s[i] = (struct family_series){infos[i], family_name(&infos[i])};
    if (rc == OTL_OK) {
        qsort(s, n, sizeof(*s), by_family);
        rc = write_families(&w, s, n, err);
    }
    for (size_t i = 0; s != NULL && i < n; i++)
        free(s[i].family);
    free(s);
    free(infos);
    writer_fini(&w);
    return rc;
}
