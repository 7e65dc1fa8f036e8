/* promql.h -- the language: text to tree, types, and tree to text. Pure; knows functions by their
 * signatures only (functions.h).
 * Source: Prometheus 3, "Querying basics", "Operators", "Query functions". */
#ifndef OTLITE_QUERY_PROMQL_H
#define OTLITE_QUERY_PROMQL_H

#include "functions.h"

enum expr_kind {
    EXPR_NUMBER,
    EXPR_STRING,
    EXPR_SELECTOR, /* instant vector, or range vector when range_ms > 0 */
    EXPR_SUBQUERY,
    EXPR_CALL,
    EXPR_AGGREGATE,
    EXPR_BINARY,
    EXPR_NEGATE, /* unary minus; unary plus is kept as EXPR_PLUS so that printing shows it */
    EXPR_PLUS,
    EXPR_PAREN
};

enum label_op { LABEL_EQUAL, LABEL_NOT_EQUAL, LABEL_REGEX, LABEL_NOT_REGEX };
/* A name that was written bare before the braces, or in quotes within, is a matcher of __name__. */
struct label_matcher {
    struct bytes name, value;
    enum label_op op;
};

/* The offset and @ of a selector or subquery. */
enum at_kind { AT_NONE, AT_TIME, AT_START, AT_END };
struct modifiers {
    int64_t offset_ms; /* may be negative */
    enum at_kind at;
    int64_t at_ms; /* AT_TIME */
};

enum binary_op {
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_MOD,
    OP_POW,
    OP_ATAN2,
    OP_EQ,
    OP_NE,
    OP_GT,
    OP_LT,
    OP_GE,
    OP_LE,
    OP_AND,
    OP_OR,
    OP_UNLESS
};
enum cardinality { ONE_TO_ONE, MANY_TO_ONE, ONE_TO_MANY, MANY_TO_MANY };
/* How vectors are matched; of two vectors only. */
struct matching {
    enum cardinality cardinality;
    bool on;         /* labels are those of on(...); else those of ignoring(...) */
    bool has_clause; /* on or ignoring was written, maybe with no labels */
    const struct bytes *labels;
    size_t n_labels;
    const struct bytes *include; /* of group_left(...) or group_right(...) */
    size_t n_include;
};

enum aggregate_op {
    AGG_SUM,
    AGG_AVG,
    AGG_MIN,
    AGG_MAX,
    AGG_COUNT,
    AGG_GROUP,
    AGG_STDDEV,
    AGG_STDVAR,
    AGG_TOPK,
    AGG_BOTTOMK,
    AGG_QUANTILE,
    AGG_COUNT_VALUES,
    AGG_LIMITK,
    AGG_LIMIT_RATIO
};

struct expr {
    enum expr_kind kind;
    enum prom_type type; /* what it evaluates to */
    uint32_t begin, end; /* of the text, bytes */
    uint16_t depth;      /* levels below it and itself: what evaluation recurses */
    bool is_duration;    /* EXPR_NUMBER that was written as one: seconds */
    union {
        double number;
        struct bytes string; /* decoded */
        struct {
            struct bytes name; /* when it was written before the braces; it is in matchers too */
            const struct label_matcher *matchers;
            size_t n_matchers;
            int64_t range_ms; /* 0: instant */
            struct modifiers modifiers;
        } selector;
        struct {
            struct expr *of;
            int64_t range_ms, step_ms; /* step 0: the default of the query */
            struct modifiers modifiers;
        } subquery;
        struct {
            const struct function *function;
            struct expr **args;
            size_t n_args;
        } call;
        struct {
            enum aggregate_op op;
            struct expr *of, *param; /* param NULL: takes none */
            const struct bytes *labels;
            size_t n_labels;
            bool without;
            bool has_clause; /* by or without was written */
        } aggregate;
        struct {
            enum binary_op op;
            bool is_bool;
            struct expr *left, *right;
            struct matching matching;
        } binary;
        struct expr *of; /* NEGATE, PLUS, PAREN */
    } u;
};

/* The tree is in the arena and borrows nothing of text. OTL_EBADREQUEST: the message is as
 * Prometheus prints it, "1:5: parse error: unexpected ...", with line and column. OTL_ENOMEM;
 * OTL_ETOOBIG: nested too deeply. Types are checked. */
enum otl_err promql_parse(struct arena *a, struct bytes text, struct expr **out,
                          struct otl_error *err) OTL_MUSTCHECK;
/* A selector alone, as `match[]` has it. */
enum otl_err promql_parse_selector(struct arena *a, struct bytes text,
                                   const struct label_matcher **out, size_t *n,
                                   struct otl_error *err) OTL_MUSTCHECK;
/* "5m", "1h30m", "1.5" (seconds) -> ms; as parameters of the HTTP API and options have it. */
bool promql_duration(struct bytes text, int64_t *out_ms);
/* On one line, as Prometheus' String() has it. */
void promql_print(struct buf *out, const struct expr *e);
/* Over many lines with indentation, as Prometheus' format_query has it. */
void promql_format(struct buf *out, const struct expr *e);
/* The tree as JSON, as Prometheus' parse_query has it. */
void promql_json(struct buf *out, const struct expr *e);
/* "5m0s" style is not Prometheus': 90 s is "1m30s", 0 is "0s". */
void promql_print_duration(struct buf *out, int64_t ms);

const char *binary_op_name(enum binary_op op);
const char *aggregate_op_name(enum aggregate_op op);

#endif
