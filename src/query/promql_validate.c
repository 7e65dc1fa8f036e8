/* promql_validate.c -- what a parser without the engine of expressions cannot tell of matchers. */
#include "answer.h"
#include "otlite/matcher.h"

static enum match_op op_of(enum label_op op)
{
    static const enum match_op ops[] = {[LABEL_EQUAL] = MATCH_EQUAL,
                                        [LABEL_NOT_EQUAL] = MATCH_NOT_EQUAL,
                                        [LABEL_REGEX] = MATCH_REGEX,
                                        [LABEL_NOT_REGEX] = MATCH_NOT_REGEX};

    return ops[op];
}

/* need_one: at least one matcher does not fit the empty text. */
static enum otl_err validate(const struct label_matcher *m, size_t n, bool need_one,
                             struct otl_error *err)
{
    bool any = !need_one;

    for (size_t i = 0; i < n; i++) {
        struct value_matcher vm;
        enum otl_err rc;

        if (m[i].op == LABEL_EQUAL || m[i].op == LABEL_NOT_EQUAL) {
            any = any || (m[i].op == LABEL_EQUAL) == (m[i].value.n > 0);
            continue;
        }
        rc = value_matcher_init(&vm, op_of(m[i].op), m[i].value, err);
        if (rc != OTL_OK)
            return otl_wrap(err, "parse error: error parsing regexp");
        any = any || vm.hits_empty == vm.negative;
        value_matcher_fini(&vm);
    }
    return any ? OTL_OK
               : otl_fail(
                     err, OTL_EBADREQUEST,
                     "parse error: vector selector must contain at least one non-empty matcher");
}

enum otl_err promql_validate_matchers(const struct label_matcher *m, size_t n,
                                      struct otl_error *err)
{
    return validate(m, n, true, err);
}

static enum otl_err validate_selector(struct bytes text, const struct expr *e, bool need_one,
                                      struct otl_error *err)
{
    unsigned line = 1, column = 1;
    enum otl_err rc = validate(e->u.selector.matchers, e->u.selector.n_matchers, need_one, err);

    if (rc != OTL_EBADREQUEST)
        return rc;
    for (uint32_t i = 0; i < e->begin && i < text.n; i++) {
        column = text.p[i] == '\n' ? 1 : column + 1;
        line += text.p[i] == '\n';
    }
    return otl_wrap(err, "%u:%u", line, column);
}

enum otl_err promql_validate(struct bytes text, const struct expr *e, struct otl_error *err)
{
    bool is_info;
    enum otl_err rc = OTL_OK;

    switch (e->kind) {
    case EXPR_SELECTOR:
        return validate_selector(text, e, true, err);
    case EXPR_SUBQUERY:
        return promql_validate(text, e->u.subquery.of, err);
    case EXPR_CALL:
        is_info = strcmp(e->u.call.function->name, "info") == 0;
        for (size_t i = 0; i < e->u.call.n_args && rc == OTL_OK; i++)
            rc = is_info && i > 0 ? validate_selector(text, e->u.call.args[i], false, err)
                                  : promql_validate(text, e->u.call.args[i], err);
        return rc;
    case EXPR_AGGREGATE:
        if (e->u.aggregate.param != NULL)
            rc = promql_validate(text, e->u.aggregate.param, err);
        return rc == OTL_OK ? promql_validate(text, e->u.aggregate.of, err) : rc;
    case EXPR_BINARY:
        rc = promql_validate(text, e->u.binary.left, err);
        return rc == OTL_OK ? promql_validate(text, e->u.binary.right, err) : rc;
    case EXPR_NEGATE:
    case EXPR_PLUS:
    case EXPR_PAREN:
        return promql_validate(text, e->u.of, err);
    default:
        return OTL_OK;
    }
}
