#include "promql_lex.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

static const char *const NAMES[] = {
#define X(kind, text) text,
    PROMQL_TOKENS(X)
#undef X
};

const char *token_name(enum token_kind kind)
{
    return NAMES[kind];
}

void lexer_init(struct lexer *l, struct bytes text, struct arena *a)
{
    *l = (struct lexer){.text = text, .arena = a};
}

/* ---- characters ---- */

static int peek(const struct lexer *l)
{
    return l->at < l->text.n ? l->text.p[l->at] : -1;
}

static int peek_at(const struct lexer *l, uint32_t ahead)
{
    return l->text.n - l->at > ahead ? l->text.p[l->at + ahead] : -1;
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static bool is_alpha(int c)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_alnum(int c)
{
    return is_alpha(c) || is_digit(c);
}

static bool is_hex(int c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static struct token fail(struct lexer *l, uint32_t begin, const char *what)
{
    snprintf(l->error, sizeof(l->error), "%s", what);
    return (struct token){.kind = TOKEN_ERROR, .begin = begin, .end = l->at};
}

static struct token done(const struct lexer *l, enum token_kind kind, uint32_t begin)
{
    return (struct token){.kind = kind, .begin = begin, .end = l->at};
}

static void skip_blanks(struct lexer *l)
{
    for (;;) {
        int c = peek(l);

        if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            l->at++;
        } else if (c == '#') {
            while (peek(l) >= 0 && peek(l) != '\n')
                l->at++;
        } else {
            return;
        }
    }
}

/* ---- numbers and durations ---- */

bool lex_duration(struct bytes text, int64_t *out_ms)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"y", INT64_C(31536000000)},
                 {"w", 604800000},
                 {"d", 86400000},
                 {"h", 3600000},
                 {"m", 60000},
                 {"s", 1000},
                 {"ms", 1}};
    size_t at = 0, next = 0;
    int64_t sum = 0;

    if (bytes_equal(text, bytes_str("0"))) {
        *out_ms = 0;
        return true;
    }
    while (at < text.n) {
        int64_t n = 0;
        size_t from = at, unit;

        for (; at < text.n && is_digit(text.p[at]); at++) {
            if (n > INT64_MAX / 20)
                return false;
            n = n * 10 + (text.p[at] - '0');
        }
        if (at == from)
            return false;
        for (unit = next; unit < sizeof(units) / sizeof(units[0]); unit++) {
            size_t length = strlen(units[unit].name);

            /* "m" is not the beginning of "ms". */
            if (text.n - at >= length && memcmp(text.p + at, units[unit].name, length) == 0 &&
                !(length == 1 && text.p[at] == 'm' && at + 1 < text.n && text.p[at + 1] == 's')) {
                at += length;
                break;
            }
        }
        if (unit == sizeof(units) / sizeof(units[0]) || n > INT64_MAX / 1000000 / units[unit].ms ||
            sum > INT64_MAX / 1000000 - n * units[unit].ms)
            return false;
        sum += n * units[unit].ms;
        next = unit + 1;
    }
    *out_ms = sum;
    return text.n > 0;
}

bool number_text(struct bytes text, double *out)
{
    char digits[512];
    char *end;
    bool octal = text.n > 1 && text.p[0] == '0', hex_int;

    if (text.n == 0 || text.n >= sizeof(digits))
        return false;
    memcpy(digits, text.p, text.n);
    digits[text.n] = '\0';
    for (size_t i = 0; i < text.n; i++)
        octal = octal && digits[i] >= '0' && digits[i] <= '7';
    hex_int = text.n > 2 && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
    for (size_t i = 2; hex_int && i < text.n; i++)
        hex_int = is_hex(digits[i]);
    if (octal || hex_int) {
        double d = 0;

        for (const char *p = digits + (hex_int ? 2 : 1); *p != '\0'; p++)
            d = d * (hex_int ? 16 : 8) + (is_digit(*p) ? *p - '0' : (*p | 0x20) - 'a' + 10);
        *out = d;
        return true;
    }
    if (text.n >= 2 && (digits[1] == 'x' || digits[1] == 'X'))
        return false; /* hexadecimal fractions need an exponent 'p', which no token has */
    if (!is_digit(digits[0]) && digits[0] != '.')
        return false;
    *out = strtod(digits, &end);
    return end == digits + text.n && end[-1] != 'e' && !isinf(*out);
}

static struct token lex_number(struct lexer *l)
{
    uint32_t begin = l->at;
    bool hex = false;
    struct token t;
    struct bytes word;
    int64_t ms;

    if (peek(l) == '0' && (peek_at(l, 1) == 'x' || peek_at(l, 1) == 'X')) {
        hex = true;
        l->at += 2;
    }
    while (hex ? is_hex(peek(l)) : is_digit(peek(l)))
        l->at++;
    if (peek(l) == '.') {
        l->at++;
        while (hex ? is_hex(peek(l)) : is_digit(peek(l)))
            l->at++;
    }
    if (peek(l) == 'e' || peek(l) == 'E') {
        l->at++;
        if (peek(l) == '+' || peek(l) == '-')
            l->at++;
        while (is_digit(peek(l)))
            l->at++;
    }
    if (!is_alnum(peek(l))) {
        t = done(l, TOKEN_NUMBER, begin);
        if (number_text(bytes_of(l->text.p + begin, l->at - begin), &t.number))
            return t;
    } else {
        while (is_alnum(peek(l)))
            l->at++;
        t = done(l, TOKEN_DURATION, begin);
        word = bytes_of(l->text.p + begin, l->at - begin);
        if (lex_duration(word, &ms)) {
            t.number = (double)ms;
            return t;
        }
    }
    snprintf(l->error, sizeof(l->error), "bad number or duration syntax: \"%.*s\"",
             (int)(l->at - begin > 60 ? 60 : l->at - begin), (const char *)l->text.p + begin);
    return (struct token){.kind = TOKEN_ERROR, .begin = begin, .end = l->at};
}

/* ---- strings ---- */

static unsigned hex_value(int c)
{
    return (unsigned)(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
}

static void put_utf8(uint8_t *out, size_t *n, uint32_t c)
{
    if (c < 0x80) {
        out[(*n)++] = (uint8_t)c;
    } else if (c < 0x800) {
        out[(*n)++] = (uint8_t)(0xc0 | c >> 6);
        out[(*n)++] = (uint8_t)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        out[(*n)++] = (uint8_t)(0xe0 | c >> 12);
        out[(*n)++] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        out[(*n)++] = (uint8_t)(0x80 | (c & 0x3f));
    } else {
        out[(*n)++] = (uint8_t)(0xf0 | c >> 18);
        out[(*n)++] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
        out[(*n)++] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        out[(*n)++] = (uint8_t)(0x80 | (c & 0x3f));
    }
}

/* Behind the backslash, as Go has its escapes. An escape never gives more bytes than it has. */
static bool escape(struct lexer *l, int quote, uint8_t *out, size_t *n)
{
    static const char from[] = "abfnrtv\\", to[] = "\a\b\f\n\r\t\v\\";
    int c = peek(l);
    const char *known = c > 0 ? strchr(from, c) : NULL;
    unsigned digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t v = 0;

    if (c == quote || known != NULL) {
        out[(*n)++] = (uint8_t)(c == quote ? quote : to[known - from]);
        l->at++;
        return true;
    }
    if (c >= '0' && c <= '7') {
        for (int i = 0; i < 3; i++, l->at++) {
            if (peek(l) < '0' || peek(l) > '7')
                return false;
            v = v * 8 + (uint32_t)(peek(l) - '0');
        }
        if (v > 255)
            return false;
        out[(*n)++] = (uint8_t)v;
        return true;
    }
    if (digits == 0)
        return false;
    l->at++;
    for (unsigned i = 0; i < digits; i++, l->at++) {
        if (!is_hex(peek(l)))
            return false;
        v = v << 4 | hex_value(peek(l));
    }
    if (digits == 2) {
        out[(*n)++] = (uint8_t)v;
        return true;
    }
    if (v > 0x10ffff || (v >= 0xd800 && v <= 0xdfff))
        return false;
    put_utf8(out, n, v);
    return true;
}

static struct token lex_string(struct lexer *l)
{
    uint32_t begin = l->at;
    int quote = peek(l), c;
    uint8_t *out;
    size_t n = 0;
    struct token t;

    l->at++;
    out = arena_alloc(l->arena, l->text.n - l->at + 1);
    if (out == NULL)
        return fail(l, begin, "the query is too long for its memory");
    while ((c = peek(l)) != quote) {
        if (c < 0 || (quote != '`' && c == '\n'))
            return fail(l, begin,
                        quote == '`' ? "unterminated raw string" : "unterminated quoted string");
        l->at++;
        if (c == '\\' && quote != '`') {
            if (!escape(l, quote, out, &n))
                return fail(l, begin, "unknown or unfinished escape sequence in a string");
        } else {
            out[n++] = (uint8_t)c;
        }
    }
    l->at++;
    t = done(l, TOKEN_STRING, begin);
    t.string = bytes_of(out, n);
    return t;
}

/* ---- names ---- */

static struct token lex_name(struct lexer *l)
{
    uint32_t begin = l->at;
    bool colon = false;
    struct token t;

    while (is_alnum(peek(l)) || (peek(l) == ':' && !l->in_braces)) {
        colon = colon || peek(l) == ':';
        l->at++;
    }
    t = done(l, colon ? TOKEN_METRIC_IDENTIFIER : TOKEN_IDENTIFIER, begin);
    if (l->in_braces || colon)
        return t;
    for (int k = TOKEN_AND; k < TOKEN_ERROR; k++) {
        if (strlen(NAMES[k]) == l->at - begin &&
            strncasecmp(NAMES[k], (const char *)l->text.p + begin, l->at - begin) == 0)
            t.kind = (enum token_kind)k;
    }
    if (l->at - begin == 3 && strncasecmp((const char *)l->text.p + begin, "inf", 3) == 0) {
        t.kind = TOKEN_NUMBER;
        t.number = (double)INFINITY;
    } else if (l->at - begin == 3 && strncasecmp((const char *)l->text.p + begin, "nan", 3) == 0) {
        t.kind = TOKEN_NUMBER;
        t.number = (double)NAN;
    }
    return t;
}

/* ---- all ---- */

struct token lexer_next(struct lexer *l)
{
    static const struct {
        char c[3];
        enum token_kind kind;
    } marks[] = {{"==", TOKEN_EQ},         {"=~", TOKEN_MATCH},       {"!=", TOKEN_NE},
                 {"!~", TOKEN_NOT_MATCH},  {">=", TOKEN_GE},          {"<=", TOKEN_LE},
                 {"=", TOKEN_ASSIGN},      {">", TOKEN_GT},           {"<", TOKEN_LT},
                 {"(", TOKEN_LEFT_PAREN},  {")", TOKEN_RIGHT_PAREN},  {"{", TOKEN_LEFT_BRACE},
                 {"}", TOKEN_RIGHT_BRACE}, {"[", TOKEN_LEFT_BRACKET}, {"]", TOKEN_RIGHT_BRACKET},
                 {",", TOKEN_COMMA},       {":", TOKEN_COLON},        {"@", TOKEN_AT},
                 {"+", TOKEN_ADD},         {"-", TOKEN_SUB},          {"*", TOKEN_MUL},
                 {"/", TOKEN_DIV},         {"%", TOKEN_MOD},          {"^", TOKEN_POW}};
    uint32_t begin;
    int c;

    skip_blanks(l);
    begin = l->at;
    c = peek(l);
    if (c < 0)
        return done(l, TOKEN_EOF, begin);
    if (is_digit(c) || (c == '.' && is_digit(peek_at(l, 1))))
        return lex_number(l);
    if (c == '"' || c == '\'' || c == '`')
        return lex_string(l);
    /* A metric's name may begin with a colon; one that stands alone parts a subquery's range and
     * step. */
    if (is_alpha(c) || (c == ':' && !l->in_braces && is_alpha(peek_at(l, 1))))
        return lex_name(l);
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        size_t n = strlen(marks[i].c);

        if (c != marks[i].c[0] || (n == 2 && peek_at(l, 1) != marks[i].c[1]))
            continue;
        l->at += (uint32_t)n;
        if (marks[i].kind == TOKEN_LEFT_BRACE)
            l->in_braces = true;
        else if (marks[i].kind == TOKEN_RIGHT_BRACE)
            l->in_braces = false;
        return done(l, marks[i].kind, begin);
    }
    l->at++;
    if (c >= 0x20 && c < 0x7f)
        snprintf(l->error, sizeof(l->error), "unexpected character: '%c'", c);
    else
        snprintf(l->error, sizeof(l->error), "unexpected character: 0x%02x", (unsigned)c);
    return (struct token){.kind = TOKEN_ERROR, .begin = begin, .end = l->at};
}
