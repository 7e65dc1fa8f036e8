/* promql_json.c -- a tree as JSON, as parse_query answers: what the query builders of Prometheus
 * and Grafana read. */
#include "format_number.h"
#include "promql_internal.h"

static void add_node(struct buf *out, const struct expr *e);

static void add_strings(struct buf *out, const struct bytes *s, size_t n)
{
    buf_add_char(out, '[');
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            buf_add_char(out, ',');
        buf_add_json_string(out, s[i]);
    }
    buf_add_char(out, ']');
}

static const char *type_name(enum prom_type t)
{
    static const char *const names[] = {"none", "scalar", "string", "vector", "matrix"};

    return names[t];
}

static void add_modifiers(struct buf *out, const struct modifiers *m)
{
    buf_printf(out, "\"offset\":%lld,\"timestamp\":", (long long)m->offset_ms);
    if (m->at == AT_TIME)
        buf_printf(out, "%lld", (long long)m->at_ms);
    else
        buf_add_str(out, "null");
    buf_printf(out, ",\"startOrEnd\":%s",
               m->at == AT_START ? "\"start\""
               : m->at == AT_END ? "\"end\""
                                 : "null");
}

static void add_matcher(struct buf *out, const struct label_matcher *m, bool first)
{
    static const char *const ops[] = {"=", "!=", "=~", "!~"};

    buf_add_str(out, first ? "{\"name\":" : ",{\"name\":");
    buf_add_json_string(out, m->name);
    buf_add_str(out, ",\"value\":");
    buf_add_json_string(out, m->value);
    buf_printf(out, ",\"type\":\"%s\"}", ops[m->op]);
}

/* The matcher of a name in front of the braces is the last one, as in Prometheus. */
static void add_selector(struct buf *out, const struct expr *e)
{
    const struct label_matcher *m = e->u.selector.matchers;
    const size_t n = e->u.selector.n_matchers;
    const bool named = n > 0 && e->u.selector.name.n > 0 && m[0].op == LABEL_EQUAL &&
                       bytes_equal(m[0].name, bytes_str(LABEL_NAME));

    buf_printf(out, "{\"type\":\"%s\",\"name\":",
               e->type == PROM_MATRIX ? "matrixSelector" : "vectorSelector");
    buf_add_json_string(out, e->u.selector.name);
    buf_add_char(out, ',');
    if (e->type == PROM_MATRIX)
        buf_printf(out, "\"range\":%lld,", (long long)e->u.selector.range_ms);
    add_modifiers(out, &e->u.selector.modifiers);
    buf_add_str(out, ",\"matchers\":[");
    for (size_t i = named; i < n; i++)
        add_matcher(out, &m[i], i == (size_t)named);
    if (named)
        add_matcher(out, &m[0], n == 1);
    buf_add_str(out, "]}");
}

static void add_call(struct buf *out, const struct expr *e)
{
    const struct function *f = e->u.call.function;

    buf_printf(out, "{\"type\":\"call\",\"func\":{\"name\":\"%s\",\"argTypes\":[", f->name);
    for (size_t i = 0; i < f->n_args; i++)
        buf_printf(out, "%s\"%s\"", i > 0 ? "," : "", type_name(f->args[i]));
    buf_printf(out, "],\"variadic\":%d,\"returnType\":\"%s\"},\"args\":[", f->variadic,
               type_name(f->returns));
    for (size_t i = 0; i < e->u.call.n_args; i++) {
        if (i > 0)
            buf_add_char(out, ',');
        add_node(out, e->u.call.args[i]);
    }
    buf_add_str(out, "]}");
}

static void add_matching(struct buf *out, const struct expr *e)
{
    static const char *const cards[] = {[ONE_TO_ONE] = "one-to-one",
                                        [MANY_TO_ONE] = "many-to-one",
                                        [ONE_TO_MANY] = "one-to-many",
                                        [MANY_TO_MANY] = "many-to-many"};
    const struct matching *m = &e->u.binary.matching;

    if (e->u.binary.left->type != PROM_VECTOR || e->u.binary.right->type != PROM_VECTOR) {
        buf_add_str(out, "null");
        return;
    }
    buf_printf(out, "{\"card\":\"%s\",\"labels\":", cards[m->cardinality]);
    add_strings(out, m->labels, m->n_labels);
    buf_printf(out, ",\"on\":%s,\"include\":", m->on ? "true" : "false");
    add_strings(out, m->include, m->n_include);
    buf_add_char(out, '}');
}

static void add_aggregate(struct buf *out, const struct expr *e)
{
    buf_printf(out, "{\"type\":\"aggregation\",\"op\":\"%s\",\"expr\":",
               aggregate_op_name(e->u.aggregate.op));
    add_node(out, e->u.aggregate.of);
    buf_add_str(out, ",\"param\":");
    if (e->u.aggregate.param != NULL)
        add_node(out, e->u.aggregate.param);
    else
        buf_add_str(out, "null");
    buf_add_str(out, ",\"grouping\":");
    add_strings(out, e->u.aggregate.labels, e->u.aggregate.n_labels);
    buf_printf(out, ",\"without\":%s}", e->u.aggregate.without ? "true" : "false");
}

static void add_node(struct buf *out, const struct expr *e)
{
    switch (e->kind) {
    case EXPR_NUMBER:
        buf_add_str(out, "{\"type\":\"numberLiteral\",\"val\":\"");
        format_float(out, e->u.number);
        buf_add_str(out, "\"}");
        return;
    case EXPR_STRING:
        buf_add_str(out, "{\"type\":\"stringLiteral\",\"val\":");
        buf_add_json_string(out, e->u.string);
        break;
    case EXPR_SELECTOR:
        add_selector(out, e);
        return;
    case EXPR_SUBQUERY:
        buf_add_str(out, "{\"type\":\"subquery\",\"expr\":");
        add_node(out, e->u.subquery.of);
        buf_printf(out, ",\"range\":%lld,\"step\":%lld,", (long long)e->u.subquery.range_ms,
                   (long long)e->u.subquery.step_ms);
        add_modifiers(out, &e->u.subquery.modifiers);
        break;
    case EXPR_CALL:
        add_call(out, e);
        return;
    case EXPR_AGGREGATE:
        add_aggregate(out, e);
        return;
    case EXPR_BINARY:
        buf_printf(
            out, "{\"type\":\"binaryExpr\",\"op\":\"%s\",\"lhs\":", binary_op_name(e->u.binary.op));
        add_node(out, e->u.binary.left);
        buf_add_str(out, ",\"rhs\":");
        add_node(out, e->u.binary.right);
        buf_add_str(out, ",\"matching\":");
        add_matching(out, e);
        buf_printf(out, ",\"bool\":%s", e->u.binary.is_bool ? "true" : "false");
        break;
    case EXPR_NEGATE:
    case EXPR_PLUS:
        buf_printf(out, "{\"type\":\"unaryExpr\",\"op\":\"%s\",\"expr\":",
                   e->kind == EXPR_NEGATE ? "-" : "+");
        add_node(out, e->u.of);
        break;
    case EXPR_PAREN:
        buf_add_str(out, "{\"type\":\"parenExpr\",\"expr\":");
        add_node(out, e->u.of);
        break;
    }
    buf_add_char(out, '}');
}

void promql_json(struct buf *out, const struct expr *e)
{
    add_node(out, e);
}
