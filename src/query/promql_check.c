/* promql_check.c -- the types of a node, by those of its children. */
#include <stdio.h>

#include "promql_internal.h"

/* What evaluation may recurse: a sum of so many terms is still fine. */
enum { MAX_DEPTH = 2000 };

static const char *const TYPE_NAMES[] = {"none", "scalar", "string", "instant vector",
                                         "range vector"};

const char *prom_type_name(enum prom_type t)
{
    return TYPE_NAMES[t];
}

static bool over(struct parser *p, struct expr *e, const struct expr *child)
{
    if (child->depth >= e->depth)
        e->depth = (uint16_t)(child->depth + 1);
    if (e->depth <= MAX_DEPTH)
        return true;
    (void)promql_fail(p, e->begin, "nested more than %d levels deep", MAX_DEPTH);
    return false;
}

static bool expect_type(struct parser *p, const struct expr *e, enum prom_type want,
                        const char *format, const char *name)
{
    char context[128];

    if (e->type == want)
        return true;
    snprintf(context, sizeof(context), "%s%s%s", format, name[0] != '\0' ? " " : "", name);
    (void)promql_fail(p, e->begin, "expected type %s in %s, got %s", prom_type_name(want), context,
                      prom_type_name(e->type));
    return false;
}

/* "call to function \"rate\"" */
static bool check_call(struct parser *p, struct expr *e)
{
    const struct function *f = e->u.call.function;
    size_t n = e->u.call.n_args, least = f->n_args, most = f->n_args;
    char name[80];

    if (f->variadic != 0) {
        least -= 1;
        most = f->variadic < 0 ? SIZE_MAX : least + (size_t)f->variadic;
    }
    if (f->variadic == 0 && n != least) {
        (void)promql_fail(p, e->begin, "expected %zu argument(s) in call to \"%s\", got %zu", least,
                          f->name, n);
        return false;
    }
    if (n < least || n > most) {
        (void)promql_fail(p, e->begin, "expected at %s %zu argument(s) in call to \"%s\", got %zu",
                          n < least ? "least" : "most", n < least ? least : most, f->name, n);
        return false;
    }
    snprintf(name, sizeof(name), "\"%s\"", f->name);
    for (size_t i = 0; i < n; i++) {
        enum prom_type want = f->args[i < f->n_args ? i : (size_t)f->n_args - 1];

        if (!over(p, e, e->u.call.args[i]) ||
            !expect_type(p, e->u.call.args[i], want, "call to function", name))
            return false;
    }
    /* What info takes are matchers of labels: what they select is decided by its first argument. */
    if (n == 2 && strcmp(f->name, "info") == 0) {
        const struct expr *labels = e->u.call.args[1];

        if (labels->kind != EXPR_SELECTOR || labels->u.selector.name.n > 0) {
            (void)promql_fail(p, labels->begin,
                              "expected label selectors only, got vector selector instead");
            return false;
        }
    }
    e->type = f->returns;
    return true;
}

static bool check_aggregate(struct parser *p, struct expr *e)
{
    const struct expr *param = e->u.aggregate.param;
    enum aggregate_op op = e->u.aggregate.op;

    if (!over(p, e, e->u.aggregate.of) ||
        !expect_type(p, e->u.aggregate.of, PROM_VECTOR, "aggregation expression", ""))
        return false;
    e->type = PROM_VECTOR;
    if (param == NULL)
        return true;
    return over(p, e, param) &&
           expect_type(p, param, op == AGG_COUNT_VALUES ? PROM_STRING : PROM_SCALAR,
                       "aggregation parameter", "");
}

static bool has(const struct bytes *labels, size_t n, struct bytes name)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes_equal(labels[i], name))
            return true;
    }
    return false;
}

static bool is_operand(enum prom_type t)
{
    return t == PROM_SCALAR || t == PROM_VECTOR;
}

static bool check_binary(struct parser *p, struct expr *e)
{
    const struct expr *l = e->u.binary.left, *r = e->u.binary.right;
    struct matching *m = &e->u.binary.matching;
    enum binary_op op = e->u.binary.op;
    bool vectors = l->type == PROM_VECTOR && r->type == PROM_VECTOR;

    if (!over(p, e, l) || !over(p, e, r))
        return false;
    if (e->u.binary.is_bool && !binary_is_comparison(op))
        return promql_fail(p, e->begin, "bool modifier can only be used on comparison operators");
    if (binary_is_comparison(op) && !e->u.binary.is_bool && l->type == PROM_SCALAR &&
        r->type == PROM_SCALAR)
        return promql_fail(p, e->begin, "comparisons between scalars must use BOOL modifier");
    for (size_t i = 0; m->on && i < m->n_include; i++) {
        if (has(m->labels, m->n_labels, m->include[i]))
            return promql_fail(p, e->begin,
                               "label \"%.*s\" must not occur in ON and GROUP clause at once",
                               (int)(m->include[i].n < 100 ? m->include[i].n : 100),
                               (const char *)m->include[i].p);
    }
    if (!is_operand(l->type) || !is_operand(r->type))
        return promql_fail(p, is_operand(l->type) ? r->begin : l->begin,
                           "binary expression must contain only scalar and instant vector types");
    if (!vectors && m->n_labels > 0)
        return promql_fail(p, e->begin, "vector matching only allowed between instant vectors");
    if (!vectors && binary_is_set(op))
        return promql_fail(p, e->begin,
                           "set operator \"%s\" not allowed in binary scalar expression",
                           binary_op_name(op));
    if (binary_is_set(op)) {
        if (m->cardinality != ONE_TO_ONE)
            return promql_fail(p, e->begin, "no grouping allowed for \"%s\" operation",
                               binary_op_name(op));
        m->cardinality = MANY_TO_MANY;
    }
    e->type = l->type == PROM_SCALAR && r->type == PROM_SCALAR ? PROM_SCALAR : PROM_VECTOR;
    return true;
}

bool promql_check(struct parser *p, struct expr *e)
{
    if (p->err->code != OTL_OK)
        return false;
    if (e->depth == 0)
        e->depth = 1;
    switch (e->kind) {
    case EXPR_NUMBER:
        e->type = PROM_SCALAR;
        return true;
    case EXPR_STRING:
        e->type = PROM_STRING;
        return true;
    case EXPR_SELECTOR:
        e->type = e->u.selector.range_ms > 0 ? PROM_MATRIX : PROM_VECTOR;
        return true;
    case EXPR_SUBQUERY:
        if (e->u.subquery.of->type != PROM_VECTOR)
            return promql_fail(p, e->u.subquery.of->begin,
                               "subquery is only allowed on instant vector, got %s instead",
                               prom_type_name(e->u.subquery.of->type));
        e->type = PROM_MATRIX;
        return over(p, e, e->u.subquery.of);
    case EXPR_CALL:
        return check_call(p, e);
    case EXPR_AGGREGATE:
        return check_aggregate(p, e);
    case EXPR_BINARY:
        return check_binary(p, e);
    case EXPR_PAREN:
        e->type = e->u.of->type;
        return over(p, e, e->u.of);
    case EXPR_NEGATE:
    case EXPR_PLUS:
        if (!is_operand(e->u.of->type))
            return promql_fail(p, e->begin,
                               "unary expression only allowed on expressions of type scalar or "
                               "instant vector, got \"%s\"",
                               prom_type_name(e->u.of->type));
        e->type = e->u.of->type;
        return over(p, e, e->u.of);
    }
    return false;
}
