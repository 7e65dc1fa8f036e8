/* promql_internal.h -- what the parser and the checks of types share. */
#ifndef OTLITE_QUERY_PROMQL_INTERNAL_H
#define OTLITE_QUERY_PROMQL_INTERNAL_H

#include "promql.h"
#include "promql_lex.h"

struct parser {
    struct lexer lexer;
    struct arena *arena;
    struct bytes text;
    struct token token; /* the next one */
    uint32_t last_end;  /* of the one before it */
    unsigned nesting;
    bool labels_only; /* info's second argument: a selector of labels, which may fit everything */
    struct otl_error *err; /* the first one; its code is OTL_OK until then */
};

/* "1:5: parse error: ..." of the place at. NULL, so that `return promql_fail(...)` reads well. */
struct expr *promql_fail(struct parser *p, uint32_t at, const char *format, ...) OTL_PRINTF(3, 4);
/* A node of that kind; NULL: no memory, and the error is set. */
struct expr *promql_node(struct parser *p, enum expr_kind kind, uint32_t begin, uint32_t end);

/* Sets e->type and e->depth, its children being done. False: the types do not fit, the error is
 * set. */
bool promql_check(struct parser *p, struct expr *e);

static inline bool binary_is_comparison(enum binary_op op)
{
    return op >= OP_EQ && op <= OP_LE;
}
static inline bool binary_is_set(enum binary_op op)
{
    return op >= OP_AND;
}
/* topk and the like, which take a parameter. */
static inline bool aggregate_has_param(enum aggregate_op op)
{
    return op >= AGG_TOPK;
}

#endif
