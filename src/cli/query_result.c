#include "cli/query_result.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "otlite/json_reader.h"

/* ---- reading ---- */

struct reading {
    struct json_reader json;
    struct query_result *out;
    struct otl_error *err;
    bool failed; /* no memory */
};

static bool no_memory(struct reading *r)
{
    r->failed = true;
    return false;
}

/* A list in the arena with room for one more. */
static bool grow(struct reading *r, void **list, size_t n, size_t *cap, size_t size)
{
    size_t more = *cap == 0 ? 16 : 2 * *cap;
    void *p;

    if (n < *cap)
        return true;
    p = arena_zalloc(r->out->arena, more, size);
    if (p == NULL)
        return no_memory(r);
    if (n > 0)
        memcpy(p, *list, n * size);
    *list = p;
    *cap = more;
    return true;
}

static double number(struct bytes text)
{
    char digits[64];

    if (text.n == 0 || text.n >= sizeof(digits))
        return (double)NAN;
    memcpy(digits, text.p, text.n);
    digits[text.n] = '\0';
    return strtod(digits, NULL);
}

/* {"a":"b"} as name{a="b"} and as it is. */
static bool read_metric(struct reading *r, struct result_series *s)
{
    struct buf name = {0}, labels = {0}, json = {0};
    enum json_event event = json_next(&r->json);
    bool ok = event == JSON_EV_OBJECT;

    buf_add_char(&json, '{');
    while (ok && (event = json_next(&r->json)) == JSON_EV_KEY) {
        struct bytes key = r->json.text;

        ok = json_next(&r->json) == JSON_EV_STRING;
        if (!ok)
            break;
        if (json.n > 1)
            buf_add_char(&json, ',');
        buf_add_json_string(&json, key);
        buf_add_char(&json, ':');
        buf_add_json_string(&json, r->json.text);
        if (bytes_equal(key, bytes_str("__name__"))) {
            buf_add_bytes(&name, r->json.text);
            continue;
        }
        buf_add_str(&labels, labels.n > 0 ? ", " : "");
        buf_add_bytes(&labels, key);
        buf_add_char(&labels, '=');
        buf_add_json_string(&labels, r->json.text);
    }
    buf_add_char(&json, '}');
    if (labels.n > 0 || name.n == 0) {
        buf_add_char(&name, '{');
        buf_add_bytes(&name, buf_bytes(&labels));
        buf_add_char(&name, '}');
    }
    if (ok && (name.failed || labels.failed || json.failed ||
               !arena_dup(r->out->arena, buf_bytes(&name), &s->name) ||
               !arena_dup(r->out->arena, buf_bytes(&json), &s->labels)))
        ok = no_memory(r);
    buf_fini(&name);
    buf_fini(&labels);
    buf_fini(&json);
    return ok && event == JSON_EV_OBJECT_END;
}

/* {"count":"3","sum":"1.5",...} as text. */
static bool read_histogram(struct reading *r, struct result_point *p)
{
    struct buf text = {0};
    struct bytes count = bytes_str("?"), sum = bytes_str("?");
    enum json_event event;
    bool ok = true;

    while (ok && (event = json_next(&r->json)) == JSON_EV_KEY) {
        struct bytes key = r->json.text;

        if (bytes_equal(key, bytes_str("count")) || bytes_equal(key, bytes_str("sum"))) {
            ok = json_next(&r->json) == JSON_EV_STRING;
            if (bytes_equal(key, bytes_str("count")))
                count = r->json.text;
            else
                sum = r->json.text;
        } else {
            ok = json_skip_value(&r->json);
        }
    }
    buf_add_str(&text, "count ");
    buf_add_bytes(&text, count);
    buf_add_str(&text, ", sum ");
    buf_add_bytes(&text, sum);
    if (ok && (text.failed || !arena_dup(r->out->arena, buf_bytes(&text), &p->text)))
        ok = no_memory(r);
    buf_fini(&text);
    return ok;
}

/* [time, value], its bracket read. */
static bool read_point(struct reading *r, struct result_series *s)
{
    struct result_point *p;
    void *list = s->points;
    enum json_event event;

    if (!grow(r, &list, s->n, &s->cap, sizeof(*s->points)))
        return false;
    s->points = list;
    p = &s->points[s->n];
    if (json_next(&r->json) != JSON_EV_NUMBER)
        return false;
    p->t = number(r->json.text);
    event = json_next(&r->json);
    p->v = (double)NAN;
    if (event == JSON_EV_STRING) {
        p->text = r->json.text;
        p->v = number(p->text);
    } else if (event != JSON_EV_OBJECT || !read_histogram(r, p)) {
        return false;
    }
    s->n++;
    return json_next(&r->json) == JSON_EV_ARRAY_END;
}

static bool read_points(struct reading *r, struct result_series *s)
{
    enum json_event event;

    if (json_next(&r->json) != JSON_EV_ARRAY)
        return false;
    while ((event = json_next(&r->json)) == JSON_EV_ARRAY) {
        if (!read_point(r, s))
            return false;
    }
    return event == JSON_EV_ARRAY_END;
}

static struct result_series *add_series(struct reading *r)
{
    struct query_result *q = r->out;
    void *list = q->series;

    if (!grow(r, &list, q->n, &q->cap, sizeof(*q->series)))
        return NULL;
    q->series = list;
    q->series[q->n] = (struct result_series){.name = bytes_str("{}"), .labels = bytes_str("{}")};
    return &q->series[q->n++];
}

static bool read_series(struct reading *r)
{
    struct result_series *s = add_series(r);
    enum json_event event;
    bool ok = s != NULL;

    while (ok && (event = json_next(&r->json)) == JSON_EV_KEY) {
        struct bytes key = r->json.text;

        if (bytes_equal(key, bytes_str("metric")))
            ok = read_metric(r, s);
        else if (bytes_equal(key, bytes_str("value")) || bytes_equal(key, bytes_str("histogram")))
            ok = json_next(&r->json) == JSON_EV_ARRAY && read_point(r, s);
        else if (bytes_equal(key, bytes_str("values")) || bytes_equal(key, bytes_str("histograms")))
            ok = read_points(r, s);
        else
            ok = json_skip_value(&r->json);
    }
    return ok;
}

/* A list of series, or [time, value]. */
static bool read_result(struct reading *r)
{
    enum json_event event;
    struct result_series *s;

    if (json_next(&r->json) != JSON_EV_ARRAY)
        return false;
    if (bytes_equal(r->out->type, bytes_str("scalar")) ||
        bytes_equal(r->out->type, bytes_str("string"))) {
        s = add_series(r);
        return s != NULL && read_point(r, s);
    }
    while ((event = json_next(&r->json)) == JSON_EV_OBJECT) {
        if (!read_series(r))
            return false;
    }
    return event == JSON_EV_ARRAY_END;
}

static bool read_data(struct reading *r)
{
    enum json_event event;
    bool ok = json_next(&r->json) == JSON_EV_OBJECT;

    while (ok && (event = json_next(&r->json)) == JSON_EV_KEY) {
        if (bytes_equal(r->json.text, bytes_str("resultType"))) {
            ok = json_next(&r->json) == JSON_EV_STRING;
            r->out->type = r->json.text;
        } else if (bytes_equal(r->json.text, bytes_str("result"))) {
            ok = read_result(r);
        } else {
            ok = json_skip_value(&r->json);
        }
    }
    return ok;
}

static bool read_notes(struct reading *r)
{
    enum json_event event;
    size_t cap = r->out->n_notes;

    if (json_next(&r->json) != JSON_EV_ARRAY)
        return false;
    while ((event = json_next(&r->json)) == JSON_EV_STRING) {
        void *list = r->out->notes;

        if (!grow(r, &list, r->out->n_notes, &cap, sizeof(*r->out->notes)))
            return false;
        r->out->notes = list;
        r->out->notes[r->out->n_notes++] = r->json.text;
    }
    return event == JSON_EV_ARRAY_END;
}

enum otl_err query_result_read(struct arena *a, struct bytes json, struct query_result *out,
                               struct bytes *error, struct otl_error *err)
{
    struct reading r = {.out = out, .err = err};
    enum json_event event;
    bool ok;

    *out = (struct query_result){.arena = a};
    *error = bytes_of(NULL, 0);
    json_reader_init(&r.json, json, 64, a);
    ok = json_next(&r.json) == JSON_EV_OBJECT;
    while (ok && (event = json_next(&r.json)) == JSON_EV_KEY) {
        struct bytes key = r.json.text;

        if (bytes_equal(key, bytes_str("data"))) {
            ok = read_data(&r);
        } else if (bytes_equal(key, bytes_str("error"))) {
            ok = json_next(&r.json) == JSON_EV_STRING;
            *error = r.json.text;
        } else if (bytes_equal(key, bytes_str("message")) && error->n == 0) {
            ok = json_next(&r.json) == JSON_EV_STRING;
            *error = r.json.text;
        } else if (bytes_equal(key, bytes_str("warnings")) ||
                   bytes_equal(key, bytes_str("infos"))) {
            ok = read_notes(&r);
        } else {
            ok = json_skip_value(&r.json);
        }
    }
    if (r.failed)
        return otl_fail(err, OTL_ENOMEM, "the answer is too large for the memory that it may take");
    return ok ? OTL_OK : otl_fail(err, OTL_EBADDATA, "the answer is no answer to a query");
}

/* ---- tables ---- */

/* 2026-01-31 12:00:00, with ms where there are some; UTC. */
static void print_time(FILE *out, double t)
{
    double whole = floor(t);
    time_t s = (time_t)whole;
    int ms = (int)lround((t - whole) * 1000);
    char text[32] = "";
    struct tm tm;

    if (gmtime_r(&s, &tm) != NULL)
        (void)strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
    if (ms > 0)
        fprintf(out, "%s.%03d", text, ms);
    else
        fputs(text, out);
}

void query_print_table(const struct query_result *r, FILE *out)
{
    bool range = bytes_equal(r->type, bytes_str("matrix"));
    size_t width = 0;

    if (r->n == 0) {
        fputs("(no series)\n", out);
        return;
    }
    for (size_t i = 0; !range && i < r->n; i++)
        width = r->series[i].name.n > width ? r->series[i].name.n : width;
    for (size_t i = 0; i < r->n; i++) {
        const struct result_series *s = &r->series[i];

        if (range)
            fprintf(out, "%s%.*s\n", i > 0 ? "\n" : "", (int)s->name.n, (const char *)s->name.p);
        for (size_t k = 0; k < s->n; k++) {
            if (range) {
                fputs("  ", out);
                print_time(out, s->points[k].t);
                fputs("  ", out);
            } else if (bytes_equal(r->type, bytes_str("vector"))) {
                fprintf(out, "%-*.*s  ", (int)width, (int)s->name.n, (const char *)s->name.p);
            }
            fprintf(out, "%.*s\n", (int)s->points[k].text.n, (const char *)s->points[k].text.p);
        }
    }
}

void query_print_csv(const struct query_result *r, FILE *out)
{
    struct buf line = {0};

    fputs("time,series,value\n", out);
    for (size_t i = 0; i < r->n; i++) {
        for (size_t k = 0; k < r->series[i].n; k++) {
            buf_reset(&line);
            buf_printf(&line, "%.3f,", r->series[i].points[k].t);
            buf_add_csv_field(&line, r->series[i].name);
            buf_add_char(&line, ',');
            buf_add_csv_field(&line, r->series[i].points[k].text);
            fprintf(out, "%s\n", buf_cstr(&line));
        }
    }
    buf_fini(&line);
}
