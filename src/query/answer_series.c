/* answer_series.c -- what there is: series, labels and their values, metadata, exemplars. */
#include <stdlib.h>

#include "answer.h"
#include "eval_internal.h"
#include "format_number.h"

/* Without start and end: all that is stored. */
static const int64_t ALL_FROM_MS = -INT64_C(9000000000000), ALL_TO_MS = INT64_C(9000000000000);

/* ---- the series that match[] selects ---- */

struct found {
    struct label_table table; /* each label set once */
    int64_t from, to;
    uint64_t limit;
};

static enum otl_err add_set(struct found *f, const struct series_set *set, struct otl_error *err)
{
    for (size_t i = 0; i < set->n; i++) {
        uint32_t at;
        bool is_new;

        if (!label_table_add(&f->table, set->labels[i], &at, &is_new))
            return eval_no_memory(err);
    }
    return OTL_OK;
}

static enum otl_err select_one(struct answering *a, struct bytes text, struct found *f,
                               struct otl_error *err)
{
    const struct label_matcher *m;
    const struct series_set *set;
    size_t n;
    enum otl_err rc = promql_parse_selector(&a->arena, text, &m, &n, err);

    if (rc == OTL_OK)
        rc = promql_validate_matchers(m, n, err);
    if (rc != OTL_OK)
        return rc == OTL_EBADREQUEST ? otl_wrap(err, "invalid parameter \"match[]\"") : rc;
    rc = querier_select(a->querier, m, n, f->from, f->to, true, &set, err);
    return rc == OTL_OK ? add_set(f, set, err) : rc;
}

static int by_labels(const void *a, const void *b)
{
    return labels_compare(*(const struct labels *)a, *(const struct labels *)b);
}

/* required: match[] must be there; else all series are taken without one. The keys are sorted. */
static enum otl_err select_all(struct answering *a, bool required, struct found *f,
                               enum answer_error *kind, struct otl_error *err)
{
    const struct query_request *r = a->request;
    const struct series_set *set;
    bool any = false;
    enum otl_err rc;

    *f = (struct found){.from = ALL_FROM_MS, .to = ALL_TO_MS};
    *kind = ANSWER_BAD_DATA;
    rc = answer_time(r, "start", &f->from, err);
    if (rc == OTL_OK)
        rc = answer_time(r, "end", &f->to, err);
    if (rc == OTL_OK)
        rc = answer_count(r, "limit", &f->limit, err);
    if (rc == OTL_OK && f->to < f->from)
        rc = otl_fail(err, OTL_EBADREQUEST,
                      "invalid parameter \"end\": end timestamp must not be before start time");
    for (size_t i = 0; i < r->n_params && rc == OTL_OK; i++) {
        if (!bytes_equal(r->params[i].name, bytes_str("match[]")))
            continue;
        any = true;
        rc = select_one(a, r->params[i].value, f, err);
    }
    if (rc == OTL_OK && !any && required)
        rc = otl_fail(err, OTL_EBADREQUEST, "no match[] parameter provided");
    if (rc == OTL_OK && !any) {
        *kind = ANSWER_EXECUTION;
        rc = querier_select(a->querier, NULL, 0, f->from, f->to, true, &set, err);
        if (rc == OTL_OK)
            rc = add_set(f, set, err);
    }
    if (rc == OTL_OK && f->table.n > 1)
        qsort(f->table.keys, f->table.n, sizeof(*f->table.keys), by_labels);
    return rc;
}

static void close_list(struct buf *out, bool truncated)
{
    buf_add_char(out, ']');
    if (truncated)
        buf_add_str(out, ",\"warnings\":[\"results truncated due to limit\"]");
}

enum otl_err answer_series(struct answering *a, enum answer_error *kind, struct otl_error *err)
{
    struct found f;
    size_t i = 0;
    enum otl_err rc = select_all(a, true, &f, kind, err);

    buf_add_char(a->out, '[');
    for (; rc == OTL_OK && i < f.table.n && (f.limit == 0 || i < f.limit); i++) {
        if (i > 0)
            buf_add_char(a->out, ',');
        answer_metric(a->out, f.table.keys[i]);
    }
    close_list(a->out, rc == OTL_OK && i < f.table.n);
    label_table_fini(&f.table);
    return rc;
}

/* ---- texts, each once ---- */

static int by_bytes(const void *a, const void *b)
{
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

/* Sorts, drops repetitions, writes a list of strings. */
static void add_texts(struct buf *out, struct bytes *texts, size_t n, uint64_t limit)
{
    size_t m = 0;

    if (n > 1)
        qsort(texts, n, sizeof(*texts), by_bytes);
    for (size_t i = 0; i < n; i++) {
        if (m == 0 || !bytes_equal(texts[m - 1], texts[i]))
            texts[m++] = texts[i];
    }
    buf_add_char(out, '[');
    for (size_t i = 0; i < m && (limit == 0 || i < limit); i++) {
        if (i > 0)
            buf_add_char(out, ',');
        buf_add_json_string(out, texts[i]);
    }
    close_list(out, limit != 0 && m > limit);
}

enum otl_err answer_labels(struct answering *a, enum answer_error *kind, struct otl_error *err)
{
    struct found f;
    struct label_table names = {0}; /* each name as a label set of its own */
    struct bytes *texts = NULL;
    enum otl_err rc = select_all(a, false, &f, kind, err);

    for (size_t i = 0; rc == OTL_OK && i < f.table.n; i++) {
        for (size_t k = 0; rc == OTL_OK && k < f.table.keys[i].n; k++) {
            struct bytes name = f.table.keys[i].l[k].name;
            struct label *l;
            uint32_t at;
            bool is_new;
            const struct label probe = {name, bytes_of(NULL, 0)};

            if (label_table_find(&names, (struct labels){&probe, 1}) != UINT32_MAX)
                continue;
            l = arena_alloc(&a->arena, sizeof(*l));
            if (l == NULL)
                rc = eval_no_memory(err);
            else
                *l = probe;
            if (rc == OTL_OK && !label_table_add(&names, (struct labels){l, 1}, &at, &is_new))
                rc = eval_no_memory(err);
        }
    }
    if (rc == OTL_OK) {
        texts = calloc(names.n + 1, sizeof(*texts));
        if (texts == NULL)
            rc = eval_no_memory(err);
    }
    for (size_t i = 0; rc == OTL_OK && i < names.n; i++)
        texts[i] = names.keys[i].l[0].name;
    if (rc == OTL_OK)
        add_texts(a->out, texts, names.n, f.limit);
    free(texts);
    label_table_fini(&names);
    label_table_fini(&f.table);
    return rc;
}

/* ---- values ---- */

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
}

static void put_utf8(struct buf *out, uint32_t c)
{
    if (c < 0x80) {
        buf_add_char(out, (char)c);
        return;
    }
    if (c < 0x800) {
        buf_add_char(out, (char)(0xc0 | c >> 6));
    } else {
        if (c < 0x10000) {
            buf_add_char(out, (char)(0xe0 | c >> 12));
        } else {
            buf_add_char(out, (char)(0xf0 | c >> 18));
            buf_add_char(out, (char)(0x80 | (c >> 12 & 0x3f)));
        }
        buf_add_char(out, (char)(0x80 | (c >> 6 & 0x3f)));
    }
    buf_add_char(out, (char)(0x80 | (c & 0x3f)));
}

/* U__http_2e_route is http.route: a name that is no identifier in a path (Prometheus 3, "Value
 * encoding"). What is no such name stays as it is. */
static bool unescape_name(struct bytes name, struct buf *out)
{
    if (name.n < 3 || memcmp(name.p, "U__", 3) != 0)
        return false;
    for (size_t i = 3; i < name.n; i++) {
        uint32_t c = 0;
        size_t from;

        if (name.p[i] != '_') {
            buf_add_char(out, (char)name.p[i]);
            continue;
        }
        if (++i < name.n && name.p[i] == '_') {
            buf_add_char(out, '_');
            continue;
        }
        for (from = i; i < name.n && hex_digit(name.p[i]) >= 0 && i - from < 6; i++)
            c = c << 4 | (uint32_t)hex_digit(name.p[i]);
        if (i == from || i >= name.n || name.p[i] != '_' || c > 0x10ffff)
            return false;
        put_utf8(out, c);
    }
    return !out->failed;
}

enum otl_err answer_label_values(struct answering *a, enum answer_error *kind,
                                 struct otl_error *err)
{
    struct bytes name = a->request->label;
    struct buf unescaped = {0};
    struct found f = {0};
    struct bytes *texts = NULL;
    size_t n = 0;
    enum otl_err rc = OTL_OK;

    *kind = ANSWER_BAD_DATA;
    if (unescape_name(name, &unescaped))
        name = buf_bytes(&unescaped);
    if (name.n == 0 || !utf8_valid(name))
        rc = otl_fail(err, OTL_EBADREQUEST, "invalid label name: \"%.*s\"",
                      (int)(name.n < 100 ? name.n : 100), (const char *)name.p);
    if (rc == OTL_OK)
        rc = select_all(a, false, &f, kind, err);
    if (rc == OTL_OK) {
        texts = calloc(f.table.n + 1, sizeof(*texts));
        if (texts == NULL)
            rc = eval_no_memory(err);
    }
    for (size_t i = 0; rc == OTL_OK && i < f.table.n; i++) {
        texts[n] = labels_get(f.table.keys[i], name);
        n += texts[n].n > 0;
    }
    if (rc == OTL_OK)
        add_texts(a->out, texts, n, f.limit);
    free(texts);
    buf_fini(&unescaped);
    label_table_fini(&f.table);
    return rc;
}

/* ---- metadata ---- */

struct metadata {
    struct buf *out;
    struct buf last; /* name */
    struct bytes wanted;
    uint64_t limit, limit_per_metric, metrics, of_metric;
};

static enum otl_err add_metadata(void *arg, const struct metric_metadata *m, struct otl_error *err)
{
    struct metadata *d = arg;
    bool same = d->metrics > 0 && bytes_equal(buf_bytes(&d->last), m->name);

    (void)err;
    if ((d->wanted.n > 0 && !bytes_equal(d->wanted, m->name)) ||
        (!same && d->limit != 0 && d->metrics >= d->limit) ||
        (same && d->limit_per_metric != 0 && d->of_metric >= d->limit_per_metric))
        return OTL_OK;
    if (!same) {
        if (d->metrics > 0)
            buf_add_str(d->out, "],");
        buf_reset(&d->last);
        buf_add_bytes(&d->last, m->name);
        buf_add_json_string(d->out, m->name);
        buf_add_str(d->out, ":[");
        d->metrics++;
        d->of_metric = 0;
    } else {
        buf_add_char(d->out, ',');
    }
    d->of_metric++;
    buf_printf(d->out, "{\"type\":\"%s\",\"help\":", m->type);
    buf_add_json_string(d->out, m->help);
    buf_add_str(d->out, ",\"unit\":");
    buf_add_json_string(d->out, m->unit);
    buf_add_char(d->out, '}');
    return OTL_OK;
}

enum otl_err answer_metadata(struct answering *a, enum answer_error *kind, struct otl_error *err)
{
    struct metadata d = {.out = a->out, .wanted = answer_param(a->request, "metric")};
    enum otl_err rc;

    *kind = ANSWER_BAD_DATA;
    rc = answer_count(a->request, "limit", &d.limit, err);
    if (rc == OTL_OK)
        rc = answer_count(a->request, "limit_per_metric", &d.limit_per_metric, err);
    if (rc != OTL_OK)
        return rc;
    *kind = ANSWER_EXECUTION;
    buf_add_char(a->out, '{');
    rc = querier_metadata(a->querier, add_metadata, &d, err);
    buf_add_str(a->out, d.metrics > 0 ? "]}" : "}");
    buf_fini(&d.last);
    return rc;
}

/* ---- exemplars ---- */

struct exemplars {
    struct answering *a;
    const struct series_set *set;
    bool any;
};

static enum otl_err add_exemplars(void *arg, size_t i, const struct prom_exemplar *e, size_t n,
                                  struct otl_error *err)
{
    struct exemplars *x = arg;
    struct buf *out = x->a->out;

    (void)err;
    buf_add_str(out, x->any ? ",{\"seriesLabels\":" : "{\"seriesLabels\":");
    x->any = true;
    answer_metric(out, x->set->labels[i]);
    buf_add_str(out, ",\"exemplars\":[");
    for (size_t k = 0; k < n; k++) {
        buf_add_str(out, k > 0 ? ",{\"labels\":" : "{\"labels\":");
        answer_metric(out, e[k].labels);
        buf_add_str(out, ",\"value\":\"");
        format_float(out, e[k].value);
        buf_add_str(out, "\",\"timestamp\":");
        format_ms(out, e[k].t);
        buf_add_char(out, '}');
    }
    buf_add_str(out, "]}");
    return OTL_OK;
}

/* Of every selector in the expression. */
static enum otl_err exemplars_of(struct exemplars *x, const struct expr *e, int64_t from,
                                 int64_t to, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    switch (e->kind) {
    case EXPR_SELECTOR:
        rc = querier_select(x->a->querier, e->u.selector.matchers, e->u.selector.n_matchers, from,
                            to, false, &x->set, err);
        if (rc == OTL_OK)
            rc = querier_exemplars(x->a->querier, x->set, from, to, add_exemplars, x, err);
        return rc;
    case EXPR_SUBQUERY:
        return exemplars_of(x, e->u.subquery.of, from, to, err);
    case EXPR_CALL:
        for (size_t i = 0; i < e->u.call.n_args && rc == OTL_OK; i++)
            rc = exemplars_of(x, e->u.call.args[i], from, to, err);
        return rc;
    case EXPR_AGGREGATE:
        return exemplars_of(x, e->u.aggregate.of, from, to, err);
    case EXPR_BINARY:
        rc = exemplars_of(x, e->u.binary.left, from, to, err);
        return rc == OTL_OK ? exemplars_of(x, e->u.binary.right, from, to, err) : rc;
    case EXPR_NEGATE:
    case EXPR_PLUS:
    case EXPR_PAREN:
        return exemplars_of(x, e->u.of, from, to, err);
    default:
        return OTL_OK;
    }
}

enum otl_err answer_exemplars(struct answering *a, enum answer_error *kind, struct otl_error *err)
{
    struct exemplars x = {.a = a};
    int64_t from = ALL_FROM_MS, to = ALL_TO_MS;
    struct bytes text = answer_param(a->request, "query");
    struct expr *e = NULL;
    enum otl_err rc;

    *kind = ANSWER_BAD_DATA;
    rc = answer_time(a->request, "start", &from, err);
    if (rc == OTL_OK)
        rc = answer_time(a->request, "end", &to, err);
    if (rc == OTL_OK && to < from)
        rc = otl_fail(err, OTL_EBADREQUEST, "end timestamp must not be before start timestamp");
    if (rc == OTL_OK)
        rc = promql_parse(&a->arena, text, &e, err);
    if (rc == OTL_OK)
        rc = promql_validate(text, e, err);
    if (rc != OTL_OK)
        return rc;
    *kind = ANSWER_EXECUTION;
    buf_add_char(a->out, '[');
    rc = exemplars_of(&x, e, from, to, err);
    buf_add_char(a->out, ']');
    return rc;
}
