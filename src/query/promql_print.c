/* promql_print.c -- trees as text: on one line, and over many with indentation where a line would
 * be too long, as Prometheus' String and Pretty have them. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format_number.h"
#include "promql_internal.h"

enum { LINE_CHARS = 100, FLAT = -1 };

const char *binary_op_name(enum binary_op op)
{
    static const char *const names[] = {
        [OP_ADD] = "+",   [OP_SUB] = "-", [OP_MUL] = "*",         [OP_DIV] = "/",
        [OP_MOD] = "%",   [OP_POW] = "^", [OP_EQ] = "==",         [OP_NE] = "!=",
        [OP_GT] = ">",    [OP_LT] = "<",  [OP_GE] = ">=",         [OP_LE] = "<=",
        [OP_AND] = "and", [OP_OR] = "or", [OP_UNLESS] = "unless", [OP_ATAN2] = "atan2"};

    return names[op];
}

const char *aggregate_op_name(enum aggregate_op op)
{
    return token_name((enum token_kind)(TOKEN_SUM + (int)(op - AGG_SUM)));
}

void promql_print_duration(struct buf *out, int64_t ms)
{
    static const struct {
        const char *unit;
        int64_t ms;
        bool exact; /* only when nothing is left: "90d", never "12w6d" */
    } units[] = {{"y", INT64_C(31536000000), true},
                 {"w", 604800000, true},
                 {"d", 86400000, true},
                 {"h", 3600000, false},
                 {"m", 60000, false},
                 {"s", 1000, false},
                 {"ms", 1, false}};

    if (ms == 0) {
        buf_add_str(out, "0s");
        return;
    }
    if (ms < 0) {
        buf_add_char(out, '-');
        ms = -ms;
    }
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (units[i].exact && ms % units[i].ms != 0)
            continue;
        if (ms / units[i].ms > 0)
            buf_printf(out, "%" PRId64 "%s", ms / units[i].ms, units[i].unit);
        ms %= units[i].ms;
    }
}

/* As Go's %q has it. */
static void print_quoted(struct buf *out, struct bytes s)
{
    static const char from[] = "\a\b\f\n\r\t\v\\\"", to[] = "abfnrtv\\\"";

    buf_add_char(out, '"');
    for (size_t i = 0; i < s.n; i++) {
        uint8_t c = s.p[i];
        const char *known = c != 0 ? strchr(from, c) : NULL;

        if (known != NULL) {
            buf_add_char(out, '\\');
            buf_add_char(out, to[known - from]);
        } else if (c < 0x20 || c == 0x7f) {
            buf_printf(out, "\\x%02x", c);
        } else {
            buf_add_char(out, (char)c);
        }
    }
    buf_add_char(out, '"');
}

static bool is_identifier(struct bytes name, bool colons)
{
    for (size_t i = 0; i < name.n; i++) {
        uint8_t c = name.p[i];

        if (!(c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              (colons && c == ':') || (i > 0 && c >= '0' && c <= '9')))
            return false;
    }
    return name.n > 0;
}

static void print_label(struct buf *out, struct bytes name)
{
    if (is_identifier(name, false))
        buf_add_bytes(out, name);
    else
        print_quoted(out, name);
}

static void print_labels(struct buf *out, const struct bytes *labels, size_t n)
{
    buf_add_char(out, '(');
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            buf_add_str(out, ", ");
        print_label(out, labels[i]);
    }
    buf_add_char(out, ')');
}

static void print_modifiers(struct buf *out, const struct modifiers *m)
{
    if (m->at == AT_TIME)
        buf_printf(out, " @ %.3f", (double)m->at_ms / 1000);
    else if (m->at != AT_NONE)
        buf_add_str(out, m->at == AT_START ? " @ start()" : " @ end()");
    if (m->offset_ms != 0) {
        buf_add_str(out, " offset ");
        promql_print_duration(out, m->offset_ms);
    }
}

static void print_selector(struct buf *out, const struct expr *e)
{
    static const char *const ops[] = {"=", "!=", "=~", "!~"};
    struct bytes name = e->u.selector.name;
    bool bare = is_identifier(name, true), any = false;

    if (bare)
        buf_add_bytes(out, name);
    for (size_t i = 0; i < e->u.selector.n_matchers; i++) {
        const struct label_matcher *m = &e->u.selector.matchers[i];
        bool is_name = m->op == LABEL_EQUAL && bytes_equal(m->name, bytes_str(LABEL_NAME)) &&
                       name.n > 0 && bytes_equal(m->value, name);

        if (is_name && bare)
            continue;
        buf_add_char(out, any ? ',' : '{');
        any = true;
        if (is_name) {
            print_quoted(out, name);
            continue;
        }
        print_label(out, m->name);
        buf_add_str(out, ops[m->op]);
        print_quoted(out, m->value);
    }
    if (any)
        buf_add_char(out, '}');
    if (e->u.selector.range_ms > 0) {
        buf_add_char(out, '[');
        promql_print_duration(out, e->u.selector.range_ms);
        buf_add_char(out, ']');
    }
    print_modifiers(out, &e->u.selector.modifiers);
}

/* ` bool on (a) group_left (b)`, with a blank in front of each. */
static void print_matching(struct buf *out, const struct expr *e)
{
    const struct matching *m = &e->u.binary.matching;

    if (e->u.binary.is_bool)
        buf_add_str(out, " bool");
    if (m->has_clause && (m->n_labels > 0 || m->on)) {
        buf_add_str(out, m->on ? " on " : " ignoring ");
        print_labels(out, m->labels, m->n_labels);
    } else if (m->has_clause && m->cardinality != ONE_TO_ONE && m->cardinality != MANY_TO_MANY) {
        buf_add_str(out, " ignoring ()");
    }
    if (m->cardinality == MANY_TO_ONE || m->cardinality == ONE_TO_MANY) {
        buf_add_str(out, m->cardinality == MANY_TO_ONE ? " group_left " : " group_right ");
        print_labels(out, m->include, m->n_include);
    }
}

static void print_subquery_tail(struct buf *out, const struct expr *e)
{
    buf_add_char(out, '[');
    promql_print_duration(out, e->u.subquery.range_ms);
    buf_add_char(out, ':');
    if (e->u.subquery.step_ms > 0)
        promql_print_duration(out, e->u.subquery.step_ms);
    buf_add_char(out, ']');
    print_modifiers(out, &e->u.subquery.modifiers);
}

static void print_clause(struct buf *out, const struct expr *e)
{
    if (e->u.aggregate.without || e->u.aggregate.n_labels > 0) {
        buf_add_str(out, e->u.aggregate.without ? " without " : " by ");
        print_labels(out, e->u.aggregate.labels, e->u.aggregate.n_labels);
        buf_add_char(out, ' ');
    }
}

static void indent(struct buf *out, int level)
{
    for (int i = 0; i < level; i++)
        buf_add_str(out, "  ");
}

static void print(struct buf *out, const struct expr *e, int level);

/* Does it fit into a line as it is? */
static bool fits(const struct expr *e)
{
    struct buf flat = {0};
    bool fit;

    print(&flat, e, FLAT);
    fit = flat.n <= LINE_CHARS;
    buf_fini(&flat);
    return fit;
}

/* Flat: at once. Else on lines of its own, one level deeper. */
static void print_inner(struct buf *out, const struct expr *e, int level)
{
    print(out, e, level == FLAT ? FLAT : level + 1);
}

static void print_args(struct buf *out, const struct expr *const *args, size_t n, int level)
{
    buf_add_str(out, level == FLAT ? "(" : "(\n");
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            buf_add_str(out, level == FLAT ? ", " : ",\n");
        print_inner(out, args[i], level);
    }
    if (level != FLAT && n > 0) {
        buf_add_char(out, '\n');
        indent(out, level);
    }
    buf_add_char(out, ')');
}

static void print_binary(struct buf *out, const struct expr *e, int level)
{
    print_inner(out, e->u.binary.left, level);
    if (level == FLAT) {
        buf_printf(out, " %s", binary_op_name(e->u.binary.op));
    } else {
        buf_add_char(out, '\n');
        indent(out, level);
        buf_add_str(out, binary_op_name(e->u.binary.op));
    }
    print_matching(out, e);
    buf_add_char(out, level == FLAT ? ' ' : '\n');
    print_inner(out, e->u.binary.right, level);
}

/* level FLAT: without indentation and line ends. */
static void print(struct buf *out, const struct expr *e, int level)
{
    const struct expr *args[2];
    size_t n = 0;

    if (level != FLAT) {
        if (e->kind != EXPR_BINARY || fits(e))
            indent(out, level);
        if (fits(e))
            level = FLAT;
    }
    switch (e->kind) {
    case EXPR_NUMBER:
        if (e->is_duration)
            promql_print_duration(out, (int64_t)llround(e->u.number * 1000));
        else
            format_g(out, e->u.number);
        break;
    case EXPR_STRING:
        print_quoted(out, e->u.string);
        break;
    case EXPR_SELECTOR:
        print_selector(out, e);
        break;
    case EXPR_SUBQUERY:
        if (level == FLAT) {
            print(out, e->u.subquery.of, FLAT);
        } else { /* its own indentation is written already */
            struct buf inner = {0};

            print(&inner, e->u.subquery.of, level);
            buf_add(out, inner.p + 2 * level, inner.n - 2 * (size_t)level);
            out->failed = out->failed || inner.failed;
            buf_fini(&inner);
        }
        print_subquery_tail(out, e);
        break;
    case EXPR_CALL:
        buf_add_str(out, e->u.call.function->name);
        print_args(out, (const struct expr *const *)e->u.call.args, e->u.call.n_args, level);
        break;
    case EXPR_AGGREGATE:
        buf_add_str(out, aggregate_op_name(e->u.aggregate.op));
        print_clause(out, e);
        if (e->u.aggregate.param != NULL)
            args[n++] = e->u.aggregate.param;
        args[n++] = e->u.aggregate.of;
        print_args(out, args, n, level);
        break;
    case EXPR_BINARY:
        print_binary(out, e, level);
        break;
    case EXPR_NEGATE:
    case EXPR_PLUS: {
        struct buf inner = {0};

        buf_add_char(out, e->kind == EXPR_NEGATE ? '-' : '+');
        print(&inner, e->u.of, level);
        for (n = 0; n < inner.n && inner.p[n] == ' ';)
            n++;
        buf_add(out, inner.p + n, inner.n - n);
        out->failed = out->failed || inner.failed;
        buf_fini(&inner);
        break;
    }
    case EXPR_PAREN:
        args[n++] = e->u.of;
        print_args(out, args, n, level);
        break;
    }
}

void promql_print(struct buf *out, const struct expr *e)
{
    print(out, e, FLAT);
}

void promql_format(struct buf *out, const struct expr *e)
{
    print(out, e, 0);
}
