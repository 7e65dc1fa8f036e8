/* promql_parse.c -- tokens to a tree: precedence climbing over one token of lookahead. Types are
 * checked node by node as they are made (promql_check.c). */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "promql_internal.h"

enum { MAX_NESTING = 200, MIN_CAP = 4 };

/* ---- errors and memory ---- */

static void position(struct bytes text, uint32_t at, unsigned *line, unsigned *column)
{
    *line = 1;
    *column = 1;
    for (uint32_t i = 0; i < at && i < text.n; i++) {
        ++*column;
        if (text.p[i] == '\n') {
            ++*line;
            *column = 1;
        }
    }
}

struct expr *promql_fail(struct parser *p, uint32_t at, const char *format, ...)
{
    char what[400];
    unsigned line, column;
    va_list args;

    if (p->err->code != OTL_OK)
        return NULL;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    position(p->text, at, &line, &column);
    (void)otl_fail(p->err, OTL_EBADREQUEST, "%u:%u: parse error: %s", line, column, what);
    return NULL;
}

static void *no_memory(struct parser *p)
{
    if (p->err->code == OTL_OK)
        (void)otl_fail(p->err, OTL_ENOMEM, "no memory for a query of %zu bytes", p->text.n);
    return NULL;
}

struct expr *promql_node(struct parser *p, enum expr_kind kind, uint32_t begin, uint32_t end)
{
    struct expr *e = arena_zalloc(p->arena, 1, sizeof(*e));

    if (e == NULL)
        return no_memory(p);
    e->kind = kind;
    e->begin = begin;
    e->end = end;
    return e;
}

/* Room for one more behind n items in the arena: the list, moved when it was full. */
static void *grow(struct parser *p, void *list, size_t n, size_t size)
{
    size_t cap = MIN_CAP;
    void *more;

    if (n != 0 && (n < MIN_CAP || (n & (n - 1)) != 0))
        return list; /* full only at powers of two */
    while (cap <= n)
        cap *= 2;
    more = arena_zalloc(p->arena, cap, size);
    if (more == NULL)
        return no_memory(p);
    if (n > 0)
        memcpy(more, list, n * size);
    return more;
}

/* ---- tokens ---- */

static void advance(struct parser *p)
{
    p->last_end = p->token.end;
    p->token = lexer_next(&p->lexer);
    if (p->token.kind == TOKEN_ERROR)
        (void)promql_fail(p, p->token.begin, "%s", p->lexer.error);
}

static struct bytes token_text(const struct parser *p, const struct token *t)
{
    return bytes_of(p->text.p + t->begin, t->end - t->begin);
}

static struct expr *unexpected(struct parser *p, const char *where, const char *expected)
{
    const struct token *t = &p->token;
    struct bytes text = token_text(p, t);
    int n = text.n < 80 ? (int)text.n : 80;
    const char *comma = expected == NULL ? "" : ", expected ";

    if (expected == NULL)
        expected = "";
    if (t->kind == TOKEN_EOF)
        return promql_fail(p, t->begin, "unexpected end of input in %s%s%s", where, comma,
                           expected);
    if (t->kind == TOKEN_STRING)
        return promql_fail(p, t->begin, "unexpected string %.*s in %s%s%s", n, (const char *)text.p,
                           where, comma, expected);
    if (t->kind >= TOKEN_AND && t->kind < TOKEN_ERROR)
        return promql_fail(p, t->begin, "unexpected <%s> in %s%s%s", token_name(t->kind), where,
                           comma, expected);
    if (t->kind == TOKEN_NUMBER || t->kind == TOKEN_DURATION || t->kind == TOKEN_IDENTIFIER ||
        t->kind == TOKEN_METRIC_IDENTIFIER)
        return promql_fail(p, t->begin, "unexpected %s \"%.*s\" in %s%s%s", token_name(t->kind), n,
                           (const char *)text.p, where, comma, expected);
    return promql_fail(p, t->begin, "unexpected \"%.*s\" in %s%s%s", n, (const char *)text.p, where,
                       comma, expected);
}

static bool expect(struct parser *p, enum token_kind kind, const char *where)
{
    char quoted[32];

    if (p->token.kind == kind) {
        advance(p);
        return p->err->code == OTL_OK;
    }
    snprintf(quoted, sizeof(quoted), "\"%s\"", token_name(kind));
    (void)unexpected(p, where, quoted);
    return false;
}

/* The bytes of the query do not outlive the parser's caller; the tree's do. */
static bool keep(struct parser *p, struct bytes text, struct bytes *out)
{
    if (arena_dup(p->arena, text, out))
        return true;
    (void)no_memory(p);
    return false;
}

/* ---- durations ---- */

/* A duration, or a number of seconds, as ms. */
static bool parse_duration(struct parser *p, const char *where, int64_t *out_ms)
{
    double ms = p->token.number;

    if (p->token.kind == TOKEN_NUMBER)
        ms = p->token.number * 1000;
    else if (p->token.kind != TOKEN_DURATION) {
        (void)unexpected(p, where, "number or duration");
        return false;
    }
    if (!(fabs(ms) < 9.2e12)) {
        (void)promql_fail(p, p->token.begin, "duration out of range");
        return false;
    }
    *out_ms = (int64_t)(ms < 0 ? ms - 0.5 : ms + 0.5);
    advance(p);
    return p->err->code == OTL_OK;
}

static bool parse_positive(struct parser *p, const char *where, int64_t *out_ms)
{
    uint32_t begin = p->token.begin;

    if (!parse_duration(p, where, out_ms))
        return false;
    if (*out_ms > 0)
        return true;
    (void)promql_fail(p, begin, "duration must be greater than 0");
    return false;
}

/* ---- selectors ---- */

static bool is_metric_keyword(enum token_kind k)
{
    return k == TOKEN_AND || k == TOKEN_OR || k == TOKEN_UNLESS ||
           (k >= TOKEN_SUM && k <= TOKEN_WITHOUT) || k == TOKEN_START || k == TOKEN_END;
}

static bool is_metric_name(enum token_kind k)
{
    return k == TOKEN_IDENTIFIER || k == TOKEN_METRIC_IDENTIFIER || is_metric_keyword(k);
}

struct matcher_list {
    struct label_matcher *m;
    size_t n;
    bool has_name; /* bare or quoted alone */
    struct bytes name;
};

static bool add_matcher(struct parser *p, struct matcher_list *l, struct label_matcher m)
{
    l->m = grow(p, l->m, l->n, sizeof(*l->m));
    if (l->m == NULL)
        return false;
    l->m[l->n++] = m;
    return true;
}

static bool set_name(struct parser *p, struct matcher_list *l, struct bytes name, uint32_t at)
{
    if (l->has_name) {
        (void)promql_fail(p, at, "metric name must not be set twice: \"%.*s\" or \"%.*s\"",
                          (int)(l->name.n < 100 ? l->name.n : 100), (const char *)l->name.p,
                          (int)(name.n < 100 ? name.n : 100), (const char *)name.p);
        return false;
    }
    l->has_name = true;
    l->name = name;
    return add_matcher(p, l, (struct label_matcher){bytes_str(LABEL_NAME), name, LABEL_EQUAL});
}

/* One matcher, or a metric's name in quotes. */
static bool parse_matcher(struct parser *p, struct matcher_list *l)
{
    static const char where[] = "label matching";
    struct label_matcher m = {0};
    struct token name = p->token;
    bool quoted = name.kind == TOKEN_STRING;

    if (!quoted && name.kind != TOKEN_IDENTIFIER) {
        (void)unexpected(p, where, "identifier or \"}\"");
        return false;
    }
    if (quoted ? (m.name = name.string, name.string.n == 0)
               : !keep(p, token_text(p, &name), &m.name)) {
        (void)promql_fail(p, name.begin, "a name must not be empty");
        return false;
    }
    advance(p);
    switch (p->token.kind) {
    case TOKEN_ASSIGN:
        m.op = LABEL_EQUAL;
        break;
    case TOKEN_NE:
        m.op = LABEL_NOT_EQUAL;
        break;
    case TOKEN_MATCH:
        m.op = LABEL_REGEX;
        break;
    case TOKEN_NOT_MATCH:
        m.op = LABEL_NOT_REGEX;
        break;
    default:
        if (quoted && (p->token.kind == TOKEN_COMMA || p->token.kind == TOKEN_RIGHT_BRACE))
            return set_name(p, l, m.name, name.begin);
        (void)unexpected(p, where, "label matching operator");
        return false;
    }
    advance(p);
    if (p->token.kind != TOKEN_STRING) {
        (void)unexpected(p, where, "string");
        return false;
    }
    m.value = p->token.string;
    if (l->has_name && bytes_equal(m.name, bytes_str(LABEL_NAME)) && m.op == LABEL_EQUAL)
        return set_name(p, l, m.value, name.begin);
    advance(p);
    return p->err->code == OTL_OK && add_matcher(p, l, m);
}

/* `{...}`, the brace being the token. */
static bool parse_matchers(struct parser *p, struct matcher_list *l)
{
    advance(p);
    while (p->err->code == OTL_OK && p->token.kind != TOKEN_RIGHT_BRACE) {
        if (!parse_matcher(p, l))
            return false;
        if (p->token.kind != TOKEN_COMMA)
            break;
        advance(p);
    }
    return expect(p, TOKEN_RIGHT_BRACE, "label matching");
}

/* Without the engine of expressions: does the matcher surely fit the empty string? Expressions are
 * asked when they are compiled; those that are written to be harmless are told here. */
static bool may_be_empty(const struct label_matcher *m)
{
    static const char *const all[] = {"", ".*", "^.*$", "(.*)", "^$", "()", ".*?"};

    if (m->op == LABEL_EQUAL)
        return m->value.n == 0;
    if (m->op == LABEL_NOT_EQUAL)
        return m->value.n > 0;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (bytes_equal(m->value, bytes_str(all[i])))
            return m->op == LABEL_REGEX;
    }
    return m->op == LABEL_NOT_REGEX && !bytes_equal(m->value, bytes_str(".+"));
}

/* A selector whose matchers would all fit a series without labels asks for everything: refused. */
static bool check_matchers(struct parser *p, const struct matcher_list *l, uint32_t at)
{
    for (size_t i = 0; i < l->n; i++) {
        if (!may_be_empty(&l->m[i]))
            return true;
    }
    (void)promql_fail(p, at, "vector selector must contain at least one non-empty matcher");
    return false;
}

/* A name, braces, or both. */
static struct expr *parse_selector(struct parser *p)
{
    uint32_t begin = p->token.begin;
    struct matcher_list l = {0};
    struct bytes name = {0};
    struct expr *e;

    if (p->token.kind != TOKEN_LEFT_BRACE) {
        if (!keep(p, token_text(p, &p->token), &name) || !set_name(p, &l, name, begin))
            return NULL;
        advance(p);
    }
    if (p->token.kind == TOKEN_LEFT_BRACE && !parse_matchers(p, &l))
        return NULL;
    if (p->err->code != OTL_OK || (!p->labels_only && !check_matchers(p, &l, begin)))
        return NULL;
    e = promql_node(p, EXPR_SELECTOR, begin, p->last_end);
    if (e == NULL)
        return NULL;
    e->u.selector.name = l.has_name ? l.name : name;
    e->u.selector.matchers = l.m;
    e->u.selector.n_matchers = l.n;
    return promql_check(p, e) ? e : NULL;
}

/* ---- what may stand behind an expression ---- */

static struct modifiers *modifiers_of(struct expr *e)
{
    if (e->kind == EXPR_SELECTOR)
        return &e->u.selector.modifiers;
    if (e->kind == EXPR_SUBQUERY)
        return &e->u.subquery.modifiers;
    return NULL;
}

/* Offset 0 is an offset as well: a second one is refused. */
static bool parse_offset(struct parser *p, struct expr *e, bool *had)
{
    uint32_t begin = p->token.begin;
    struct modifiers *m = modifiers_of(e);
    bool negative = false;
    int64_t ms;

    advance(p);
    if (p->token.kind == TOKEN_SUB || p->token.kind == TOKEN_ADD) {
        negative = p->token.kind == TOKEN_SUB;
        advance(p);
    }
    if (!parse_duration(p, "offset", &ms))
        return false;
    if (m == NULL) {
        (void)promql_fail(p, e->begin,
                          "offset modifier must be preceded by an instant vector selector or range "
                          "vector selector or a subquery");
        return false;
    }
    if (*had) {
        (void)promql_fail(p, begin, "offset may not be set multiple times");
        return false;
    }
    *had = true;
    m->offset_ms = negative ? -ms : ms;
    return true;
}

static bool parse_at(struct parser *p, struct expr *e)
{
    uint32_t begin = p->token.begin;
    struct modifiers *m = modifiers_of(e);
    struct modifiers at = {0};
    double sign = 1;

    advance(p);
    if (p->token.kind == TOKEN_START || p->token.kind == TOKEN_END) {
        at.at = p->token.kind == TOKEN_START ? AT_START : AT_END;
        advance(p);
        if (!expect(p, TOKEN_LEFT_PAREN, "@") || !expect(p, TOKEN_RIGHT_PAREN, "@"))
            return false;
    } else {
        if (p->token.kind == TOKEN_SUB || p->token.kind == TOKEN_ADD) {
            sign = p->token.kind == TOKEN_SUB ? -1 : 1;
            advance(p);
        }
        if (p->token.kind != TOKEN_NUMBER) {
            (void)unexpected(p, "@", "timestamp");
            return false;
        }
        if (!(fabs(p->token.number) < 9.2e12)) {
            (void)promql_fail(p, p->token.begin, "timestamp out of bounds for @ modifier: %g",
                              p->token.number);
            return false;
        }
        at.at = AT_TIME;
        at.at_ms = (int64_t)llround(sign * p->token.number * 1000);
        advance(p);
    }
    if (m == NULL) {
        (void)promql_fail(p, e->begin,
                          "@ modifier must be preceded by an instant vector selector or range "
                          "vector selector or a subquery");
        return false;
    }
    if (m->at != AT_NONE) {
        (void)promql_fail(p, begin, "@ <timestamp> may not be set multiple times");
        return false;
    }
    m->at = at.at;
    m->at_ms = at.at_ms;
    return true;
}

/* `[5m]` makes a range of a selector, `[5m:1m]` and `[5m:]` a subquery of anything. */
static struct expr *parse_brackets(struct parser *p, struct expr *e, bool had_offset)
{
    int64_t range_ms, step_ms = 0;
    struct expr *sub;

    advance(p);
    if (!parse_positive(p, "range", &range_ms))
        return NULL;
    if (p->token.kind == TOKEN_COLON) {
        advance(p);
        if (p->token.kind != TOKEN_RIGHT_BRACKET &&
            !parse_positive(p, "subquery selector", &step_ms))
            return NULL;
        if (!expect(p, TOKEN_RIGHT_BRACKET, "subquery selector"))
            return NULL;
        sub = promql_node(p, EXPR_SUBQUERY, e->begin, p->last_end);
        if (sub == NULL)
            return NULL;
        sub->u.subquery.of = e;
        sub->u.subquery.range_ms = range_ms;
        sub->u.subquery.step_ms = step_ms;
        return promql_check(p, sub) ? sub : NULL;
    }
    if (!expect(p, TOKEN_RIGHT_BRACKET, "matrix selector"))
        return NULL;
    if (e->kind != EXPR_SELECTOR || e->u.selector.range_ms != 0)
        return promql_fail(p, e->begin, "ranges only allowed for vector selectors");
    if (had_offset)
        return promql_fail(p, e->begin, "no offset modifiers allowed before range");
    if (e->u.selector.modifiers.at != AT_NONE)
        return promql_fail(p, e->begin, "no @ modifiers allowed before range");
    e->u.selector.range_ms = range_ms;
    e->end = p->last_end;
    return promql_check(p, e) ? e : NULL;
}

static struct expr *parse_postfix(struct parser *p, struct expr *e)
{
    bool had_offset = false;

    while (e != NULL && p->err->code == OTL_OK) {
        if (p->token.kind == TOKEN_LEFT_BRACKET) {
            struct expr *of = e;

            e = parse_brackets(p, e, had_offset);
            if (e != of)
                had_offset = false;
        } else if (p->token.kind == TOKEN_OFFSET) {
            if (!parse_offset(p, e, &had_offset))
                return NULL;
            e->end = p->last_end;
        } else if (p->token.kind == TOKEN_AT) {
            if (!parse_at(p, e))
                return NULL;
            e->end = p->last_end;
        } else {
            return e;
        }
    }
    return p->err->code == OTL_OK ? e : NULL;
}

/* ---- lists ---- */

static struct expr *parse_expr(struct parser *p, int least);

/* `(a, b)` of labels; a name that is none in quotes. */
static bool parse_labels(struct parser *p, const struct bytes **out, size_t *out_n)
{
    static const char where[] = "grouping opts";
    struct bytes *labels = NULL;
    size_t n = 0;

    if (!expect(p, TOKEN_LEFT_PAREN, where))
        return false;
    while (p->token.kind != TOKEN_RIGHT_PAREN) {
        bool name = p->token.kind == TOKEN_IDENTIFIER ||
                    (p->token.kind >= TOKEN_AND && p->token.kind < TOKEN_ERROR) ||
                    (p->token.kind == TOKEN_NUMBER && p->text.p[p->token.begin] > '9');

        if (!name && !(p->token.kind == TOKEN_STRING && p->token.string.n > 0)) {
            (void)unexpected(p, where, "label");
            return false;
        }
        labels = grow(p, labels, n, sizeof(*labels));
        if (labels == NULL)
            return false;
        if (p->token.kind == TOKEN_STRING)
            labels[n] = p->token.string;
        else if (!keep(p, token_text(p, &p->token), &labels[n]))
            return false;
        n++;
        advance(p);
        if (p->token.kind != TOKEN_COMMA)
            break;
        advance(p);
    }
    *out = labels;
    *out_n = n;
    return expect(p, TOKEN_RIGHT_PAREN, where);
}

/* `(a, b)` of expressions; f NULL: of an aggregation. */
static bool parse_args(struct parser *p, const char *where, const struct function *f,
                       struct expr ***out, size_t *out_n)
{
    const bool is_info = f != NULL && strcmp(f->name, "info") == 0, outer = p->labels_only;
    struct expr **args = NULL;
    size_t n = 0;

    if (!expect(p, TOKEN_LEFT_PAREN, where))
        return false;
    while (p->token.kind != TOKEN_RIGHT_PAREN) {
        args = grow(p, args, n, sizeof(*args));
        if (args == NULL)
            return false;
        p->labels_only = is_info && n > 0;
        args[n] = parse_expr(p, 0);
        p->labels_only = outer;
        if (args[n++] == NULL)
            return false;
        if (p->token.kind != TOKEN_COMMA)
            break;
        advance(p);
        if (p->token.kind == TOKEN_RIGHT_PAREN) {
            (void)promql_fail(p, p->token.begin,
                              "trailing commas not allowed in function call args");
            return false;
        }
    }
    *out = args;
    *out_n = n;
    return expect(p, TOKEN_RIGHT_PAREN, where);
}

/* ---- aggregations and calls ---- */

static bool parse_grouping(struct parser *p, struct expr *e)
{
    e->u.aggregate.without = p->token.kind == TOKEN_WITHOUT;
    e->u.aggregate.has_clause = true;
    advance(p);
    return parse_labels(p, &e->u.aggregate.labels, &e->u.aggregate.n_labels);
}

static bool at_grouping(const struct parser *p)
{
    return p->token.kind == TOKEN_BY || p->token.kind == TOKEN_WITHOUT;
}

/* The name was read; a clause or the arguments are next. */
static struct expr *parse_aggregate(struct parser *p, const struct token *name)
{
    struct expr *e = promql_node(p, EXPR_AGGREGATE, name->begin, name->end);
    struct expr **args = NULL;
    size_t n = 0, want;

    if (e == NULL)
        return NULL;
    e->u.aggregate.op = (enum aggregate_op)(AGG_SUM + (name->kind - TOKEN_SUM));
    if (at_grouping(p) && !parse_grouping(p, e))
        return NULL;
    if (!parse_args(p, "aggregation", NULL, &args, &n))
        return NULL;
    if (at_grouping(p)) {
        if (e->u.aggregate.has_clause)
            return unexpected(p, "aggregation", NULL);
        if (!parse_grouping(p, e))
            return NULL;
    }
    e->end = p->last_end;
    if (n == 0)
        return promql_fail(p, e->begin, "no arguments for aggregate expression provided");
    want = aggregate_has_param(e->u.aggregate.op) ? 2 : 1;
    if (n != want)
        return promql_fail(p, e->begin,
                           "wrong number of arguments for aggregate expression provided, expected "
                           "%zu, got %zu",
                           want, n);
    e->u.aggregate.of = args[n - 1];
    e->u.aggregate.param = n == 2 ? args[0] : NULL;
    return promql_check(p, e) ? e : NULL;
}

static struct expr *parse_call(struct parser *p, const struct token *name)
{
    struct bytes text = token_text(p, name);
    const struct function *f = function_find(text);
    struct expr *e;

    if (f == NULL)
        return promql_fail(p, name->begin, "unknown function with name \"%.*s\"",
                           (int)(text.n < 100 ? text.n : 100), (const char *)text.p);
    e = promql_node(p, EXPR_CALL, name->begin, name->end);
    if (e == NULL)
        return NULL;
    e->u.call.function = f;
    if (!parse_args(p, "function call", f, &e->u.call.args, &e->u.call.n_args))
        return NULL;
    e->end = p->last_end;
    return promql_check(p, e) ? e : NULL;
}

/* What begins with a name: an aggregation, a call, or a selector. */
static struct expr *parse_name(struct parser *p)
{
    struct token name = p->token;
    struct lexer before = p->lexer;
    uint32_t before_end = p->last_end;

    if (name.kind == TOKEN_IDENTIFIER ||
        (name.kind >= TOKEN_SUM && name.kind <= TOKEN_LIMIT_RATIO)) {
        advance(p);
        if (p->err->code != OTL_OK)
            return NULL;
        if (name.kind != TOKEN_IDENTIFIER && (p->token.kind == TOKEN_LEFT_PAREN || at_grouping(p)))
            return parse_aggregate(p, &name);
        if (name.kind == TOKEN_IDENTIFIER && p->token.kind == TOKEN_LEFT_PAREN)
            return parse_call(p, &name);
        p->lexer = before;
        p->token = name;
        p->last_end = before_end;
    }
    return parse_selector(p);
}

/* ---- expressions ---- */

static struct expr *parse_number(struct parser *p)
{
    struct expr *e = promql_node(p, EXPR_NUMBER, p->token.begin, p->token.end);

    if (e == NULL)
        return NULL;
    e->is_duration = p->token.kind == TOKEN_DURATION;
    e->u.number = e->is_duration ? p->token.number / 1000 : p->token.number;
    advance(p);
    return promql_check(p, e) ? e : NULL;
}

static struct expr *parse_string(struct parser *p)
{
    struct expr *e = promql_node(p, EXPR_STRING, p->token.begin, p->token.end);

    if (e == NULL)
        return NULL;
    e->u.string = p->token.string;
    advance(p);
    return promql_check(p, e) ? e : NULL;
}

static struct expr *parse_paren(struct parser *p)
{
    uint32_t begin = p->token.begin;
    struct expr *of, *e;

    advance(p);
    of = parse_expr(p, 0);
    if (of == NULL || !expect(p, TOKEN_RIGHT_PAREN, "paren expression"))
        return NULL;
    e = promql_node(p, EXPR_PAREN, begin, p->last_end);
    if (e == NULL)
        return NULL;
    e->u.of = of;
    return promql_check(p, e) ? e : NULL;
}

/* Above the multiplications and below the power. */
enum { PREC_OR = 1, PREC_AND, PREC_COMPARE, PREC_ADD, PREC_MUL, PREC_POW };

static struct expr *parse_unary(struct parser *p)
{
    struct token sign = p->token;
    struct expr *of, *e;

    advance(p);
    of = parse_expr(p, PREC_POW);
    if (of == NULL)
        return NULL;
    if (of->kind == EXPR_NUMBER) {
        if (sign.kind == TOKEN_SUB)
            of->u.number = -of->u.number;
        of->begin = sign.begin;
        return of;
    }
    e = promql_node(p, sign.kind == TOKEN_SUB ? EXPR_NEGATE : EXPR_PLUS, sign.begin, of->end);
    if (e == NULL)
        return NULL;
    e->u.of = of;
    return promql_check(p, e) ? e : NULL;
}

static struct expr *parse_operand(struct parser *p)
{
    struct expr *e;

    if (p->err->code != OTL_OK)
        return NULL;
    switch (p->token.kind) {
    case TOKEN_NUMBER:
    case TOKEN_DURATION:
        e = parse_number(p);
        break;
    case TOKEN_STRING:
        e = parse_string(p);
        break;
    case TOKEN_LEFT_PAREN:
        e = parse_paren(p);
        break;
    case TOKEN_LEFT_BRACE:
        e = parse_selector(p);
        break;
    case TOKEN_ADD:
    case TOKEN_SUB:
        return parse_unary(p);
    case TOKEN_EOF:
        if (p->last_end == 0)
            return promql_fail(p, 0, "no expression found in input");
        return unexpected(p, "expression", NULL);
    default:
        if (!is_metric_name(p->token.kind))
            return unexpected(p, "expression", NULL);
        e = parse_name(p);
        break;
    }
    return parse_postfix(p, e);
}

static int binary_of(enum token_kind k, enum binary_op *op)
{
    static const struct {
        enum token_kind token;
        enum binary_op op;
        int prec;
    } ops[] = {{TOKEN_OR, OP_OR, PREC_OR},          {TOKEN_AND, OP_AND, PREC_AND},
               {TOKEN_UNLESS, OP_UNLESS, PREC_AND}, {TOKEN_EQ, OP_EQ, PREC_COMPARE},
               {TOKEN_NE, OP_NE, PREC_COMPARE},     {TOKEN_GT, OP_GT, PREC_COMPARE},
               {TOKEN_LT, OP_LT, PREC_COMPARE},     {TOKEN_GE, OP_GE, PREC_COMPARE},
               {TOKEN_LE, OP_LE, PREC_COMPARE},     {TOKEN_ADD, OP_ADD, PREC_ADD},
               {TOKEN_SUB, OP_SUB, PREC_ADD},       {TOKEN_MUL, OP_MUL, PREC_MUL},
               {TOKEN_DIV, OP_DIV, PREC_MUL},       {TOKEN_MOD, OP_MOD, PREC_MUL},
               {TOKEN_ATAN2, OP_ATAN2, PREC_MUL},   {TOKEN_POW, OP_POW, PREC_POW}};

    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        if (ops[i].token == k) {
            *op = ops[i].op;
            return ops[i].prec;
        }
    }
    return 0;
}

/* bool, on or ignoring, group_left or group_right: in this order. */
static bool parse_matching(struct parser *p, struct expr *e)
{
    struct matching *m = &e->u.binary.matching;

    if (p->token.kind == TOKEN_BOOL) {
        e->u.binary.is_bool = true;
        advance(p);
    }
    if (p->token.kind != TOKEN_ON && p->token.kind != TOKEN_IGNORING)
        return p->err->code == OTL_OK;
    m->on = p->token.kind == TOKEN_ON;
    m->has_clause = true;
    advance(p);
    if (!parse_labels(p, &m->labels, &m->n_labels))
        return false;
    if (p->token.kind != TOKEN_GROUP_LEFT && p->token.kind != TOKEN_GROUP_RIGHT)
        return true;
    m->cardinality = p->token.kind == TOKEN_GROUP_LEFT ? MANY_TO_ONE : ONE_TO_MANY;
    advance(p);
    return p->token.kind != TOKEN_LEFT_PAREN || parse_labels(p, &m->include, &m->n_include);
}

/* least: operators that bind less than this end it. */
static struct expr *parse_expr(struct parser *p, int least)
{
    struct expr *left;
    enum binary_op op = OP_ADD;
    int prec;

    if (++p->nesting > MAX_NESTING)
        return promql_fail(p, p->token.begin, "nested more than %d levels deep", MAX_NESTING);
    left = parse_operand(p);
    while (left != NULL && (prec = binary_of(p->token.kind, &op)) >= (least == 0 ? 1 : least) &&
           prec > 0) {
        struct expr *e = promql_node(p, EXPR_BINARY, left->begin, left->end);

        if (e == NULL)
            return NULL;
        e->u.binary.op = op;
        e->u.binary.left = left;
        advance(p);
        if (!parse_matching(p, e))
            return NULL;
        /* The power binds to the right. */
        e->u.binary.right = parse_expr(p, prec == PREC_POW ? prec : prec + 1);
        if (e->u.binary.right == NULL)
            return NULL;
        e->end = e->u.binary.right->end;
        left = promql_check(p, e) ? e : NULL;
    }
    p->nesting--;
    return p->err->code == OTL_OK ? left : NULL;
}

/* ---- the ways in ---- */

static void begin(struct parser *p, struct arena *a, struct bytes text, struct otl_error *err)
{
    *p = (struct parser){.arena = a, .text = text, .err = err};
    *err = (struct otl_error){0};
    lexer_init(&p->lexer, text, a);
}

enum otl_err promql_parse(struct arena *a, struct bytes text, struct expr **out,
                          struct otl_error *err)
{
    struct parser p;
    struct expr *e;

    begin(&p, a, text, err);
    if (text.n > UINT32_MAX / 2)
        return otl_fail(err, OTL_ETOOBIG, "a query of more than 2 GiB");
    advance(&p);
    e = parse_expr(&p, 0);
    if (e != NULL && p.token.kind != TOKEN_EOF)
        e = unexpected(&p, "expression", NULL);
    *out = e;
    return err->code;
}

enum otl_err promql_parse_selector(struct arena *a, struct bytes text,
                                   const struct label_matcher **out, size_t *n,
                                   struct otl_error *err)
{
    struct parser p;
    struct expr *e = NULL;

    begin(&p, a, text, err);
    if (text.n > UINT32_MAX / 2)
        return otl_fail(err, OTL_ETOOBIG, "a selector of more than 2 GiB");
    advance(&p);
    if (err->code == OTL_OK && p.token.kind != TOKEN_LEFT_BRACE && !is_metric_name(p.token.kind))
        e = unexpected(&p, "vector selector", NULL);
    else if (err->code == OTL_OK)
        e = parse_selector(&p);
    if (e != NULL && p.token.kind != TOKEN_EOF)
        e = unexpected(&p, "vector selector", NULL);
    if (e != NULL) {
        *out = e->u.selector.matchers;
        *n = e->u.selector.n_matchers;
    }
    return err->code;
}

bool promql_duration(struct bytes text, int64_t *out_ms)
{
    bool negative = text.n > 0 && text.p[0] == '-';
    double seconds;

    if (negative)
        text = bytes_of(text.p + 1, text.n - 1);
    if (!lex_duration(text, out_ms)) {
        if (!number_text(text, &seconds) || !(seconds < 9.2e12))
            return false;
        *out_ms = llround(seconds * 1000);
    }
    if (negative)
        *out_ms = -*out_ms;
    return true;
}
