/* eval.c -- which part evaluates what. */
#include "eval_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "otlite/clock.h"

/* ---- annotations ---- */

__attribute__((format(printf, 6, 0))) static enum otl_err
annotate(struct eval *v, struct annotations *a, const char *kind, const struct expr *e,
         struct otl_error *err, const char *fmt, va_list args)
{
    char text[600], what[500];
    unsigned line = 1, column = 1;
    struct bytes kept;

    vsnprintf(what, sizeof(what), fmt, args);
    for (uint32_t i = 0; i < e->begin && i < v->text.n; i++) {
        column++;
        if (v->text.p[i] == '\n') {
            line++;
            column = 1;
        }
    }
    snprintf(text, sizeof(text), "PromQL %s: %s (%u:%u)", kind, what, line, column);
    for (size_t i = 0; i < a->n; i++) {
        if (bytes_equal(a->texts[i], bytes_str(text)))
            return OTL_OK;
    }
    if (a->n == a->cap) {
        size_t cap = a->cap == 0 ? 8 : 2 * a->cap;
        struct bytes *texts = arena_alloc(v->arena, cap * sizeof(*texts));

        if (texts == NULL)
            return eval_no_memory(err);
        if (a->n > 0)
            memcpy(texts, a->texts, a->n * sizeof(*texts));
        a->texts = texts;
        a->cap = cap;
    }
    if (!arena_dup(v->arena, bytes_str(text), &kept))
        return eval_no_memory(err);
    a->texts[a->n++] = kept;
    return OTL_OK;
}

enum otl_err eval_info(struct eval *v, const struct expr *e, struct otl_error *err, const char *fmt,
                       ...)
{
    va_list args;
    enum otl_err rc;

    va_start(args, fmt);
    rc = annotate(v, &v->infos, "info", e, err, fmt, args);
    va_end(args);
    return rc;
}

enum otl_err eval_warn(struct eval *v, const struct expr *e, struct otl_error *err, const char *fmt,
                       ...)
{
    va_list args;
    enum otl_err rc;

    va_start(args, fmt);
    rc = annotate(v, &v->warnings, "warning", e, err, fmt, args);
    va_end(args);
    return rc;
}

/* ---- scalars ---- */

const struct expr *eval_unwrap(const struct expr *e)
{
    while (e->kind == EXPR_PAREN)
        e = e->u.of;
    return e;
}

static enum otl_err scalar_binary(struct eval *v, const struct expr *e, double *out,
                                  struct otl_error *err)
{
    double *l = NULL, *r = NULL;
    bool keep;
    enum otl_err rc = eval_scalar(v, e->u.binary.left, &l, err);

    if (rc == OTL_OK)
        rc = eval_scalar(v, e->u.binary.right, &r, err);
    for (size_t i = 0; i < v->steps && rc == OTL_OK; i++) {
        out[i] = binary_numbers(e->u.binary.op, l[i], r[i], &keep);
        if (e->u.binary.is_bool)
            out[i] = keep ? 1 : 0;
    }
    eval_free_scalar(v, l);
    eval_free_scalar(v, r);
    return rc;
}

static enum otl_err call_matrix(struct eval *v, const struct expr *e, struct prom_value *out,
                                struct otl_error *err);

enum otl_err eval_scalar(struct eval *v, const struct expr *e, double **out, struct otl_error *err)
{
    double *s = eval_new_scalar(v, err), *inner = NULL;
    struct prom_value value = {.type = PROM_SCALAR};
    enum otl_err rc = read_check(v->read, err);

    e = eval_unwrap(e);
    *out = NULL;
    if (s == NULL || rc != OTL_OK) {
        eval_free_scalar(v, s);
        return s == NULL ? err->code : rc;
    }
    switch (e->kind) {
    case EXPR_NUMBER:
        for (size_t i = 0; i < v->steps; i++)
            s[i] = e->u.number;
        break;
    case EXPR_NEGATE:
    case EXPR_PLUS:
        rc = eval_scalar(v, e->u.of, &inner, err);
        for (size_t i = 0; i < v->steps && rc == OTL_OK; i++)
            s[i] = e->kind == EXPR_NEGATE ? -inner[i] : inner[i];
        eval_free_scalar(v, inner);
        break;
    case EXPR_BINARY:
        rc = scalar_binary(v, e, s, err);
        break;
    default:
        rc = call_matrix(v, e, &value, err);
        if (rc == OTL_OK && value.scalar == NULL)
            rc = otl_fail(err, OTL_EINTERNAL, "%s gave no scalar", e->u.call.function->name);
        if (rc == OTL_OK)
            memcpy(s, value.scalar, v->steps * sizeof(*s));
        eval_free(v, &value);
        break;
    }
    if (rc == OTL_OK)
        *out = s;
    else
        eval_free_scalar(v, s);
    return rc;
}

/* ---- calls ---- */

/* A function over whole values. */
static enum otl_err call_matrix(struct eval *v, const struct expr *e, struct prom_value *out,
                                struct otl_error *err)
{
    const struct function *f = e->u.call.function;
    size_t n = e->u.call.n_args;
    struct prom_value *args = calloc(n + 1, sizeof(*args));
    enum otl_err rc = args == NULL ? eval_no_memory(err) : OTL_OK;

    for (size_t i = 0; i < n && rc == OTL_OK; i++) {
        const struct expr *arg = e->u.call.args[i];

        args[i].type = arg->type;
        /* Its second argument selects labels, no series. */
        if (i > 0 && strcmp(f->name, "info") == 0)
            continue;
        rc = arg->type == PROM_MATRIX ? eval_presence(v, eval_unwrap(arg), &args[i], err)
                                      : eval_whole(v, arg, &args[i], err);
    }
    if (rc == OTL_OK) {
        out->type = f->returns;
        rc = f->matrix(v, e, args, n, out, err);
    }
    for (size_t i = 0; args != NULL && i < n; i++)
        eval_free(v, &args[i]);
    free(args);
    return rc;
}

/* A function of samples. */
struct map_sink {
    struct row_sink sink;
    struct eval *v;
    struct row_sink *to;
    struct function_call call;
    double *const *scalars; /* by argument, then by step */
    double *at;             /* of a step */
};

static enum otl_err map_row(struct row_sink *s, struct prom_row *row, struct otl_error *err)
{
    struct map_sink *m = (struct map_sink *)(void *)s;
    const struct function *f = m->call.expr->u.call.function;
    struct prom_row out = {0};
    enum otl_err rc;

    rc = read_check(m->v->read, err);
    m->call.labels = row->labels;
    if (rc == OTL_OK)
        rc = eval_new_row(m->v, row->labels, &out, err);
    if (rc == OTL_OK && !f->keeps_name)
        rc = eval_drop_name(m->v, row->labels, &out.labels, err);
    for (size_t i = 0; i < row->n && rc == OTL_OK; i++) {
        struct sample in = eval_sample(row, i), made = {prom_stale(), NULL};

        if (sample_is_absent(&in))
            continue;
        for (size_t k = 0; k < m->call.n_scalars; k++)
            m->at[k] = m->scalars[k][i];
        m->call.time = eval_time(m->v, i);
        rc = f->map(&m->call, &in, &made, err);
        if (rc == OTL_OK)
            rc = eval_put(m->v, &out, i, made, err);
    }
    if (rc == OTL_OK && !eval_row_is_empty(&out))
        rc = m->to->take(m->to, &out, err);
    eval_free_row(m->v, &out);
    return rc;
}

static enum otl_err call_map(struct eval *v, const struct expr *e, struct row_sink *sink,
                             struct otl_error *err)
{
    double *scalars[FUNCTION_MAX_ARGS] = {NULL}, at[FUNCTION_MAX_ARGS];
    const struct expr *vector = NULL;
    struct map_sink m = {.sink = {map_row}, .v = v, .to = sink, .scalars = scalars, .at = at};
    size_t n = 0;
    enum otl_err rc = OTL_OK;

    for (size_t i = 0; i < e->u.call.n_args && rc == OTL_OK; i++) {
        if (e->u.call.args[i]->type == PROM_VECTOR)
            vector = e->u.call.args[i];
        else if (n < FUNCTION_MAX_ARGS)
            rc = eval_scalar(v, e->u.call.args[i], &scalars[n++], err);
    }
    m.call = (struct function_call){.eval = v, .expr = e, .scalars = at, .n_scalars = n};
    if (rc == OTL_OK && vector == NULL)
        rc = otl_fail(err, OTL_EINTERNAL, "%s has no vector", e->u.call.function->name);
    if (rc == OTL_OK)
        rc = eval_stream(v, vector, &m.sink, err);
    for (size_t i = 0; i < n; i++)
        eval_free_scalar(v, scalars[i]);
    return rc;
}

/* ---- unary minus ---- */

struct negate_sink {
    struct row_sink sink;
    struct eval *v;
    struct row_sink *to;
};

static enum otl_err negate_row(struct row_sink *s, struct prom_row *row, struct otl_error *err)
{
    struct negate_sink *n = (struct negate_sink *)(void *)s;
    enum otl_err rc = eval_drop_name(n->v, row->labels, &row->labels, err);

    for (size_t i = 0; i < row->n; i++) {
        if (!prom_is_stale(row->v[i]))
            row->v[i] = -row->v[i];
        if (row->h != NULL && row->h[i] != NULL)
            histogram_scale(row->h[i], -1);
    }
    return rc == OTL_OK ? n->to->take(n->to, row, err) : rc;
}

/* ---- vectors ---- */

/* Rows of a whole value, one by one. */
static enum otl_err give_rows(struct eval *v, struct prom_value *value, struct row_sink *sink,
                              struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    for (size_t i = 0; i < value->n_rows && rc == OTL_OK; i++)
        rc = sink->take(sink, &value->rows[i], err);
    eval_free(v, value);
    return rc;
}

static bool is_name(struct bytes label)
{
    return bytes_equal(label, bytes_str(LABEL_NAME));
}

static bool has_one_name(const struct expr *e);

static bool aggregate_has_one_name(const struct expr *e)
{
    const struct expr *param = e->u.aggregate.param;

    if (aggregate_keeps_series(e->u.aggregate.op))
        return has_one_name(e->u.aggregate.of);
    if (e->u.aggregate.without)
        return true;
    for (size_t i = 0; i < e->u.aggregate.n_labels; i++) {
        if (is_name(e->u.aggregate.labels[i]))
            return false;
    }
    return e->u.aggregate.op != AGG_COUNT_VALUES || !is_name(eval_unwrap(param)->u.string);
}

static bool binary_has_one_name(const struct expr *e)
{
    const struct matching *m = &e->u.binary.matching;

    for (size_t i = 0; i < m->n_include; i++) {
        if (is_name(m->include[i]))
            return e->u.binary.is_bool;
    }
    if (e->u.binary.op < OP_AND && binary_drops_name(e))
        return true;
    /* A filter. */
    return e->u.binary.op < OP_AND &&
           (e->u.binary.right->type == PROM_SCALAR
                ? has_one_name(e->u.binary.left)
                : e->u.binary.left->type == PROM_SCALAR && has_one_name(e->u.binary.right));
}

/* Are all names of its series the same, or is there none? Then no two have the same labels once the
 * name is gone. */
static bool has_one_name(const struct expr *e)
{
    e = eval_unwrap(e);
    switch (e->kind) {
    case EXPR_SELECTOR:
        for (size_t i = 0; i < e->u.selector.n_matchers; i++) {
            const struct label_matcher *m = &e->u.selector.matchers[i];

            if (m->op == LABEL_EQUAL && is_name(m->name))
                return true;
        }
        return false;
    case EXPR_SUBQUERY:
        return has_one_name(e->u.subquery.of);
    case EXPR_AGGREGATE:
        return aggregate_has_one_name(e);
    case EXPR_BINARY:
        return binary_has_one_name(e);
    case EXPR_CALL:
        return e->u.call.function->kind != FUNCTION_MATRIX && !e->u.call.function->keeps_name;
    case EXPR_PLUS:
        return has_one_name(e->u.of);
    default:
        return e->kind == EXPR_NEGATE;
    }
}

/* What gives rows one by one by itself, and cannot repeat labels. */
static enum otl_err stream_call(struct eval *v, const struct expr *e, struct row_sink *sink,
                                bool *done, struct otl_error *err)
{
    const struct function *f = e->u.call.function;
    const struct expr *arg = e->u.call.n_args > 0 ? eval_unwrap(e->u.call.args[0]) : NULL;

    *done = true;
    if (arg != NULL && arg->kind == EXPR_SELECTOR && arg->type == PROM_VECTOR &&
        strcmp(f->name, "timestamp") == 0 && has_one_name(arg))
        return eval_selector(v, arg, SELECT_TIMESTAMP, sink, err);
    for (size_t i = 0; i < e->u.call.n_args; i++) {
        arg = e->u.call.args[i];
        if (arg->type != PROM_MATRIX && arg->type != PROM_VECTOR)
            continue;
        if (!f->keeps_name && !has_one_name(arg))
            break;
        if (f->kind == FUNCTION_RANGE)
            return eval_range_call(v, e, sink, err);
        if (f->kind == FUNCTION_MAP)
            return call_map(v, e, sink, err);
    }
    *done = false;
    return OTL_OK;
}

static enum otl_err collect(struct eval *v, const struct expr *e, struct prom_value *out,
                            struct otl_error *err);

enum otl_err eval_stream(struct eval *v, const struct expr *e, struct row_sink *sink,
                         struct otl_error *err)
{
    struct prom_value value = {.type = PROM_VECTOR};
    struct negate_sink negate = {.sink = {negate_row}, .v = v, .to = sink};
    bool done = false;
    enum otl_err rc = OTL_OK;

    e = eval_unwrap(e);
    if (e->kind == EXPR_SELECTOR)
        return eval_selector(v, e, SELECT_SAMPLES, sink, err);
    if (e->kind == EXPR_PLUS)
        return eval_stream(v, e->u.of, sink, err);
    if (e->kind == EXPR_NEGATE && has_one_name(e->u.of))
        return eval_stream(v, e->u.of, &negate.sink, err);
    if (e->kind == EXPR_CALL)
        rc = stream_call(v, e, sink, &done, err);
    else if (e->kind == EXPR_BINARY &&
             (e->u.binary.left->type == PROM_SCALAR || e->u.binary.right->type == PROM_SCALAR) &&
             (!binary_drops_name(e) ||
              has_one_name(e->u.binary.left->type == PROM_SCALAR ? e->u.binary.right
                                                                 : e->u.binary.left))) {
        done = true;
        rc = eval_vector_scalar(v, e, sink, err);
    }
    if (rc != OTL_OK || done)
        return rc;
    rc = collect(v, e, &value, err);
    if (rc != OTL_OK) {
        eval_free(v, &value);
        return rc;
    }
    return give_rows(v, &value, sink, err);
}

struct collect_sink {
    struct row_sink sink;
    struct eval *v;
    struct prom_value *out;
};

static enum otl_err collect_row(struct row_sink *s, struct prom_row *row, struct otl_error *err)
{
    struct collect_sink *c = (struct collect_sink *)(void *)s;

    return prom_value_move_row(c->v, c->out, row, err);
}

/* A vector whole, by the part that makes it so. */
static enum otl_err collect(struct eval *v, const struct expr *e, struct prom_value *out,
                            struct otl_error *err)
{
    struct collect_sink c = {.sink = {collect_row}, .v = v, .out = out};
    struct negate_sink negate = {.sink = {negate_row}, .v = v, .to = &c.sink};
    const struct expr *arg;
    enum otl_err rc;

    out->type = PROM_VECTOR;
    switch (e->kind) {
    case EXPR_SELECTOR:
        return eval_selector(v, e, SELECT_SAMPLES, &c.sink, err);
    case EXPR_NEGATE:
        rc = eval_stream(v, e->u.of, &negate.sink, err);
        return rc == OTL_OK ? eval_refuse_equal(v, out, err) : rc;
    case EXPR_AGGREGATE:
        return eval_aggregate(v, e, out, err);
    case EXPR_BINARY:
        if (e->u.binary.left->type == PROM_VECTOR && e->u.binary.right->type == PROM_VECTOR)
            return eval_two_vectors(v, e, out, err);
        rc = eval_vector_scalar(v, e, &c.sink, err);
        break;
    case EXPR_CALL:
        arg = e->u.call.n_args > 0 ? eval_unwrap(e->u.call.args[0]) : NULL;
        if (arg != NULL && arg->kind == EXPR_SELECTOR && arg->type == PROM_VECTOR &&
            strcmp(e->u.call.function->name, "timestamp") == 0)
            rc = eval_selector(v, arg, SELECT_TIMESTAMP, &c.sink, err);
        else if (e->u.call.function->kind == FUNCTION_RANGE) {
            rc = eval_range_call(v, e, &c.sink, err);
            return rc == OTL_OK ? eval_refuse_equal(v, out, err) : rc;
        } else if (e->u.call.function->kind == FUNCTION_MAP && e->u.call.n_args > 0)
            rc = call_map(v, e, &c.sink, err);
        else
            rc = call_matrix(v, e, out, err);
        break;
    default:
        return otl_fail(err, OTL_EINTERNAL, "an expression of kind %d is no vector", (int)e->kind);
    }
    return rc == OTL_OK ? eval_join_equal(v, out, err) : rc;
}

/* sort(), topk and the like order an instant query's answer. */
static bool orders_rows(const struct expr *e)
{
    e = eval_unwrap(e);
    if (e->kind == EXPR_AGGREGATE)
        return e->u.aggregate.op == AGG_TOPK || e->u.aggregate.op == AGG_BOTTOMK;
    return e->kind == EXPR_CALL && strncmp(e->u.call.function->name, "sort", 4) == 0;
}

enum otl_err eval_whole(struct eval *v, const struct expr *e, struct prom_value *out,
                        struct otl_error *err)
{
    struct collect_sink c = {.sink = {collect_row}, .v = v, .out = out};
    enum otl_err rc;

    e = eval_unwrap(e);
    out->type = e->type;
    if (e->type == PROM_STRING) {
        out->string = e->u.string;
        return OTL_OK;
    }
    if (e->type == PROM_SCALAR)
        return eval_scalar(v, e, &out->scalar, err);
    if (e->kind == EXPR_PLUS || e->kind == EXPR_SELECTOR)
        rc = eval_stream(v, e, &c.sink, err);
    else
        rc = collect(v, e, out, err);
    if (rc != OTL_OK)
        return rc;
    eval_drop_empty(v, out);
    if (v->steps > 1 || !orders_rows(e))
        return eval_sort_rows(v, out, err);
    return OTL_OK;
}

enum otl_err eval_query(struct eval *v, const struct expr *e, struct prom_value *out,
                        struct otl_error *err)
{
    const struct eval_opts *o = v->opts;
    int64_t begin_ns = clock_mono_ns();
    enum otl_err rc;

    *out = (struct prom_value){.type = e->type};
    v->steps = o->step_ms <= 0 ? 1 : (size_t)((o->end_ms - o->start_ms) / o->step_ms) + 1;
    v->query_start_ms = o->start_ms;
    v->query_end_ms = o->end_ms;
    rc = e->type == PROM_MATRIX ? eval_matrix(v, eval_unwrap(e), out, err)
                                : eval_whole(v, e, out, err);
    v->stats.eval_ns = clock_mono_ns() - begin_ns - v->stats.select_ns;
    if (rc != OTL_OK)
        eval_free(v, out);
    return rc;
}
