/* promql_lex.h -- the tokens of PromQL. */
#ifndef OTLITE_QUERY_PROMQL_LEX_H
#define OTLITE_QUERY_PROMQL_LEX_H

#include <stdbool.h>
#include <stdint.h>

#include "otlite/arena.h"
#include "otlite/bytes.h"

/* Punctuation, then literals and names, then keywords; what a message calls them. */
#define PROMQL_TOKENS(X)                            \
    X(TOKEN_EOF, "end of input")                    \
    X(TOKEN_LEFT_PAREN, "(")                        \
    X(TOKEN_RIGHT_PAREN, ")")                       \
    X(TOKEN_LEFT_BRACE, "{")                        \
    X(TOKEN_RIGHT_BRACE, "}")                       \
    X(TOKEN_LEFT_BRACKET, "[")                      \
    X(TOKEN_RIGHT_BRACKET, "]")                     \
    X(TOKEN_COMMA, ",")                             \
    X(TOKEN_COLON, ":")                             \
    X(TOKEN_ASSIGN, "=")                            \
    X(TOKEN_AT, "@")                                \
    X(TOKEN_ADD, "+")                               \
    X(TOKEN_SUB, "-")                               \
    X(TOKEN_MUL, "*")                               \
    X(TOKEN_DIV, "/")                               \
    X(TOKEN_MOD, "%")                               \
    X(TOKEN_POW, "^")                               \
    X(TOKEN_EQ, "==")                               \
    X(TOKEN_NE, "!=")                               \
    X(TOKEN_GT, ">")                                \
    X(TOKEN_LT, "<")                                \
    X(TOKEN_GE, ">=")                               \
    X(TOKEN_LE, "<=")                               \
    X(TOKEN_MATCH, "=~")                            \
    X(TOKEN_NOT_MATCH, "!~")                        \
    X(TOKEN_NUMBER, "number")                       \
    X(TOKEN_DURATION, "duration")                   \
    X(TOKEN_STRING, "string")                       \
    X(TOKEN_IDENTIFIER, "identifier")               \
    X(TOKEN_METRIC_IDENTIFIER, "metric identifier") \
    X(TOKEN_AND, "and")                             \
    X(TOKEN_OR, "or")                               \
    X(TOKEN_UNLESS, "unless")                       \
    X(TOKEN_ATAN2, "atan2")                         \
    X(TOKEN_SUM, "sum")                             \
    X(TOKEN_AVG, "avg")                             \
    X(TOKEN_MIN, "min")                             \
    X(TOKEN_MAX, "max")                             \
    X(TOKEN_COUNT, "count")                         \
    X(TOKEN_GROUP, "group")                         \
    X(TOKEN_STDDEV, "stddev")                       \
    X(TOKEN_STDVAR, "stdvar")                       \
    X(TOKEN_TOPK, "topk")                           \
    X(TOKEN_BOTTOMK, "bottomk")                     \
    X(TOKEN_QUANTILE, "quantile")                   \
    X(TOKEN_COUNT_VALUES, "count_values")           \
    X(TOKEN_LIMITK, "limitk")                       \
    X(TOKEN_LIMIT_RATIO, "limit_ratio")             \
    X(TOKEN_OFFSET, "offset")                       \
    X(TOKEN_BY, "by")                               \
    X(TOKEN_WITHOUT, "without")                     \
    X(TOKEN_ON, "on")                               \
    X(TOKEN_IGNORING, "ignoring")                   \
    X(TOKEN_GROUP_LEFT, "group_left")               \
    X(TOKEN_GROUP_RIGHT, "group_right")             \
    X(TOKEN_BOOL, "bool")                           \
    X(TOKEN_START, "start")                         \
    X(TOKEN_END, "end")                             \
    X(TOKEN_ERROR, "error")

enum token_kind {
#define X(kind, text) kind,
    PROMQL_TOKENS(X)
#undef X
};

struct token {
    enum token_kind kind;
    uint32_t begin, end; /* of the text, bytes */
    double number;       /* NUMBER; DURATION: ms */
    struct bytes string; /* STRING: decoded, in the arena */
};

struct lexer {
    struct bytes text;
    uint32_t at;
    bool in_braces; /* names are labels there, keywords are none */
    struct arena *arena;
    char error[160]; /* of TOKEN_ERROR */
};

void lexer_init(struct lexer *l, struct bytes text, struct arena *a);
struct token lexer_next(struct lexer *l);

/* "number", "(", ...: for messages. */
const char *token_name(enum token_kind kind);
/* "1h30m" -> ms: units from y to ms, each once, descending. */
bool lex_duration(struct bytes text, int64_t *out_ms);
/* As Go reads a literal: decimal, hexadecimal, octal with a leading 0, exponents. */
bool number_text(struct bytes text, double *out);

#endif
