/* sql_windows.c -- windows(selector, from, to, step [, by]): read_windows as a table, a row a
 * window of a group that has points in it. */
#include <inttypes.h>
#include <stdlib.h>

#include "dict.h"
#include "label_generation.h"
#include "otlite/attrs.h"
#include "sql_calls.h"

enum { ARG_SELECTOR, ARG_FROM, ARG_TO, ARG_STEP, ARG_BY };
enum {
    MAX_LABELS = 32,
    MAX_WINDOWS = 10000000, /* of a group */
    /* Columns that need what read_windows only works out when asked for. */
    COLUMN_MIN = 5,
    COLUMN_MAX = 6,
    COLUMN_INCREASE = 7,
    COLUMN_RATE = 8,
    COLUMN_FIRST = 9,
    COLUMN_LAST = 10
};

/* How far before `from` the value may lie that the first one is compared with. */
#define LOOK_BACK_LEAST INT64_C(300000000000)
#define LOOK_BACK_MOST  INT64_C(3600000000000)

struct by_label {
    enum match_what what;
    struct bytes name, key; /* of the argument: "resource.k8s.pod.name", "k8s.pod.name" */
};

struct windows {
    struct by_label by[MAX_LABELS];
    int n_by;
    struct buf by_text;
    struct dict groups; /* key: JSON of the labels */
    struct window *windows;
    size_t per_group, n; /* windows of a group, of all */
    int64_t charged;
    struct read *read;
};

/* ---- groups ---- */

static void parse_label(struct bytes name, struct by_label *out)
{
    static const struct {
        const char *name;
        enum match_what what;
    } known[] = {{"__name__", MATCH_NAME},
                 {"service", MATCH_SERVICE},
                 {"type", MATCH_TYPE},
                 {"unit", MATCH_UNIT},
                 {"scope", MATCH_SCOPE}};
    static const char resource[] = "resource.";
    size_t n = sizeof(resource) - 1;

    *out = (struct by_label){MATCH_ANY, name, name};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (bytes_equal(name, bytes_str(known[i].name)))
            out->what = known[i].what;
    }
    if (name.n > n && memcmp(name.p, resource, n) == 0) {
        out->what = MATCH_RESOURCE;
        out->key = bytes_of(name.p + n, name.n - n);
    }
}

/* "service, http.route" */
static enum otl_err parse_by(struct windows *w, const char *text, struct otl_error *err)
{
    const char *p;

    buf_add_str(&w->by_text, text); /* the argument lives during start only */
    p = buf_cstr(&w->by_text);
    if (w->by_text.failed)
        return otl_fail(err, OTL_ENOMEM, "windows: no memory");
    while (*p != '\0') {
        size_t n;

        p += strspn(p, " \t,");
        n = strcspn(p, ",");
        while (n > 0 && (p[n - 1] == ' ' || p[n - 1] == '\t'))
            n--;
        if (n == 0)
            break;
        if (w->n_by == MAX_LABELS)
            return otl_fail(err, OTL_EBADREQUEST, "windows: by has more than %d labels",
                            MAX_LABELS);
        parse_label(bytes_of(p, n), &w->by[w->n_by++]);
        p += n;
        p += strspn(p, " \t");
    }
    return OTL_OK;
}

/* false: the series has no such label. */
static bool label_value(const struct series_info *s, const struct by_label *l, struct buf *scratch,
                        struct bytes *out)
{
    struct attr_value v;

    switch (l->what) {
    case MATCH_NAME:
        *out = s->name;
        return true;
    case MATCH_SERVICE:
        *out = s->service;
        return true;
    case MATCH_TYPE:
        *out = bytes_str(metric_type_name(s->type));
        return true;
    case MATCH_UNIT:
        *out = s->unit;
        return true;
    case MATCH_SCOPE:
        *out = s->scope_name;
        return true;
    default:
        break;
    }
    if ((l->what != MATCH_ANY || !attrs_get(s->attributes, l->key, &v)) &&
        !attrs_get(s->resource_attributes, l->key, &v))
        return false;
    buf_reset(scratch);
    if (!index_value_text(&v, scratch, out))
        scratch->failed = true;
    return true;
}

/* {"service":"shop"}: the labels that the series has. */
static void group_key(const struct windows *w, const struct series_info *s, struct buf *scratch,
                      struct buf *out)
{
    bool first = true;

    buf_reset(out);
    buf_add_char(out, '{');
    for (int i = 0; i < w->n_by; i++) {
        struct bytes value;

        if (!label_value(s, &w->by[i], scratch, &value))
            continue;
        if (!first)
            buf_add_char(out, ',');
        first = false;
        buf_add_json_string(out, w->by[i].name);
        buf_add_char(out, ':');
        buf_add_json_string(out, value);
    }
    buf_add_char(out, '}');
    if (scratch->failed)
        out->failed = true;
}

/* The group of each series; out is malloced. */
static enum otl_err make_groups(struct call_cursor *c, struct windows *w, uint32_t **out,
                                struct otl_error *err)
{
    struct buf key = {0}, scratch = {0};
    uint32_t *group = calloc(c->series.n + 1, sizeof(*group));
    enum otl_err rc = OTL_OK;
    bool ok = group != NULL;

    for (size_t i = 0; ok && rc == OTL_OK && i < c->series.n; i++) {
        struct series_info s;
        uint32_t g;

        if (i % 1024 == 0)
            rc = read_check(c->read, err);
        if (!read_series_info(c->read, c->series.ids[i], &s))
            s = (struct series_info){0};
        group_key(w, &s, &scratch, &key);
        g = dict_find(&w->groups, 0, buf_bytes(&key));
        if (g == DICT_NONE)
            g = dict_add(&w->groups, (int64_t)w->groups.n + 1, 0, buf_bytes(&key),
                         (union dict_note){0});
        ok = !key.failed && g != DICT_NONE;
        group[i] = g;
    }
    buf_fini(&key);
    buf_fini(&scratch);
    if (rc == OTL_OK && !ok)
        rc = otl_fail(err, OTL_ENOMEM, "windows: no memory");
    if (rc == OTL_OK)
        *out = group;
    else
        free(group);
    return rc;
}

/* ---- the call ---- */

static void windows_end(struct call_cursor *c)
{
    struct windows *w = c->own;
    struct otl_error ignored;

    if (w == NULL)
        return;
    /* Giving back cannot fail. */
    if (w->read != NULL && read_charge(w->read, -w->charged, &ignored) != OTL_OK)
        w->charged = 0;
    dict_fini(&w->groups);
    buf_fini(&w->by_text);
    free(w->windows);
    free(w);
}

static bool uses(const struct call_cursor *c, int column, int other)
{
    return (c->columns_used & (UINT64_C(1) << column | UINT64_C(1) << other)) != 0;
}

static enum otl_err run(struct call_cursor *c, struct windows *w, struct otl_error *err)
{
    uint32_t *group = NULL;
    int64_t look_back = c->step < LOOK_BACK_LEAST ? LOOK_BACK_LEAST : c->step;
    struct window_query q;
    enum otl_err rc = make_groups(c, w, &group, err);

    if (rc != OTL_OK)
        return rc;
    q = (struct window_query){
        .series = c->series.ids,
        .group = group,
        .n = c->series.n,
        .n_groups = w->groups.n,
        .from = c->from,
        .to = c->to,
        .step = c->step,
        .look_back = look_back > LOOK_BACK_MOST ? LOOK_BACK_MOST : look_back,
        .want_increase = uses(c, COLUMN_INCREASE, COLUMN_RATE),
        .skip_extremes = !uses(c, COLUMN_MIN, COLUMN_MAX),
        .skip_ends = !uses(c, COLUMN_FIRST, COLUMN_LAST),
    };
    w->n = w->per_group * w->groups.n;
    rc = read_windows(c->read, &q, &w->windows, NULL, err);
    if (rc == OTL_OK) {
        /* The result was charged, and is ours to give back. */
        w->read = c->read;
        w->charged = (int64_t)(w->n * sizeof(struct window));
    }
    free(group);
    return rc;
}

static enum otl_err windows_start(struct call_cursor *c, struct otl_error *err)
{
    struct windows *w = calloc(1, sizeof(*w));
    const char *by;
    enum otl_err rc;

    if (w == NULL)
        return otl_fail(err, OTL_ENOMEM, "windows: no memory");
    c->own = w;
    rc = call_time(c, ARG_FROM, &c->from, err);
    if (rc == OTL_OK)
        rc = call_time(c, ARG_TO, &c->to, err);
    if (rc == OTL_OK)
        rc = call_duration(c, ARG_STEP, 1, &c->step, err);
    if (rc == OTL_OK && c->args[ARG_BY] != NULL) {
        by = (const char *)sqlite3_value_text(c->args[ARG_BY]);
        rc = by == NULL ? otl_fail(err, OTL_ENOMEM, "windows: no memory") : parse_by(w, by, err);
    }
    if (rc == OTL_OK)
        rc = call_select(c, ARG_SELECTOR, 0, err);
    if (rc != OTL_OK || c->to <= c->from || c->series.n == 0)
        return rc;
    w->per_group = (size_t)(((uint64_t)c->to - (uint64_t)c->from - 1) / (uint64_t)c->step + 1);
    if (w->per_group > MAX_WINDOWS)
        return otl_fail(err, OTL_EBADREQUEST,
                        "windows: from %" PRId64 " to %" PRId64
                        " there are more than %d steps of %" PRId64 " ns; take a longer step",
                        c->from, c->to, MAX_WINDOWS, c->step);
    return run(c, w, err);
}

static void add_window(struct call_cursor *c, const struct windows *w, size_t i)
{
    const struct window *v = &w->windows[i];
    int64_t begin = c->from + (int64_t)(i % w->per_group) * c->step;
    uint64_t length = (uint64_t)c->to - (uint64_t)begin;

    if (length > (uint64_t)c->step)
        length = (uint64_t)c->step;
    call_text(c, dict_key(&w->groups.entries[i / w->per_group]));
    call_int(c, begin);
    call_int(c, (int64_t)v->count);
    if (v->count > 0) {
        call_double(c, v->sum);
        call_double(c, v->sum / (double)v->count);
        call_double(c, v->min);
        call_double(c, v->max);
    } else {
        for (int n = 0; n < 4; n++)
            call_null(c);
    }
    call_double(c, v->increase);
    call_double(c, v->increase / ((double)length / 1e9));
    if (v->first_time != 0)
        call_double(c, v->first);
    else
        call_null(c);
    if (v->last_time != 0)
        call_double(c, v->last);
    else
        call_null(c);
}

static enum otl_err windows_fill(struct call_cursor *c, struct otl_error *err)
{
    const struct windows *w = c->own;
    enum otl_err rc = read_check(c->read, err);

    for (int n = 0; rc == OTL_OK && n < CALL_BATCH && c->next < w->n; c->next++) {
        if (w->windows[c->next].count == 0 && w->windows[c->next].n_nan == 0)
            continue;
        add_window(c, w, c->next);
        rc = call_row(c, err);
        n++;
    }
    return rc;
}

static const char *const arg_names[] = {"selector", "from", "to", "step", "by"};

const struct sql_call call_windows = {
    .name = "windows",
    .n_columns = 11,
    .n_args = 5,
    .n_required = 4,
    .arg_names = arg_names,
    .declaration = "CREATE TABLE x(labels TEXT, time INTEGER, count INTEGER, sum REAL, avg REAL,"
                   " min REAL, max REAL, increase REAL, rate REAL, first, last, selector HIDDEN,"
                   " from_time HIDDEN, to_time HIDDEN, step HIDDEN, by_labels HIDDEN)",
    .start = windows_start,
    .fill = windows_fill,
    .end = windows_end,
};
