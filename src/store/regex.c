/* regex.c -- regular expressions: RE2's language, which is Prometheus', run by PCRE2.
 *
 * PCRE2 knows more than RE2 does: references to what was matched, looking ahead and behind,
 * possessive and atomic groups, recursion, verbs. A dashboard that has them does not work with
 * Prometheus, and some make matching take exponential time, so they are refused as there. A few
 * escapes mean different things and are translated. As in Prometheus 3, "." takes a line feed too.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "otlite/regex.h"

#include <inttypes.h>
#include <pcre2.h>
#include <stdlib.h>

/* Steps on one value: some ten milliseconds. */
enum { MATCH_LIMIT = 1000000, HEAP_LIMIT_KIB = 16384 };
/* As in RE2. */
enum { REPEAT_MAX = 1000 };
/* An expression in a message is cut here. */
enum { SHOWN = 100 };

struct regex {
    pcre2_code *code;
    pcre2_match_context *context;
    pcre2_match_data *match;
    pcre2_jit_stack *stack; /* NULL: not compiled to machine code */
    struct bytes pattern;   /* the caller's own, for messages */
    struct buf own, repaired;
};

static int shown(struct bytes s)
{
    size_t n = s.n;

    if (n > SHOWN) {
        n = SHOWN;
        while (n > 0 && (s.p[n] & 0xc0) == 0x80) /* not inside of a character */
            n--;
    }
    return (int)n;
}

/* ---- from RE2's syntax to PCRE2's ---- */

struct translation {
    struct bytes in;
    size_t at;
    struct buf *out;
    struct otl_error *err;
};

/* at: offset in the expression. Characters count from 1. */
static enum otl_err refuse(const struct translation *t, size_t at, const char *what)
{
    size_t character = 1;

    for (size_t i = 0; i < at && i < t->in.n; i++)
        character += (t->in.p[i] & 0xc0) != 0x80;
    return otl_fail(t->err, OTL_EBADREQUEST,
                    "The regular expression \"%.*s\" is not valid: %s, at character %zu.",
                    shown(t->in), (const char *)t->in.p, what, character);
}

static int peek(const struct translation *t, size_t ahead)
{
    return t->at + ahead < t->in.n ? t->in.p[t->at + ahead] : -1;
}

static void copy(struct translation *t, size_t n)
{
    buf_add(t->out, t->in.p + t->at, n);
    t->at += n;
}

static bool is_octal(int c)
{
    return c >= '0' && c <= '7';
}

/* \Q...\E: text as it is; an end that is missing is the expression's. */
static void quoted(struct translation *t)
{
    do {
        copy(t, t->in.p[t->at] == '\\' && peek(t, 1) >= 0 ? 2 : 1);
    } while (t->at < t->in.n && !(t->in.p[t->at] == '\\' && peek(t, 1) == 'E'));
    if (t->at < t->in.n)
        copy(t, 2);
}

static enum otl_err escape(struct translation *t, bool in_class)
{
    int c = peek(t, 1);
    unsigned v = 0;
    size_t n = 1;

    if (c < 0)
        return refuse(t, t->at, "a backslash at the end stands for nothing");
    if (c == 'Q') {
        quoted(t);
        return OTL_OK;
    }
    if (c == 'v') { /* in PCRE2 a class of several */
        buf_add_str(t->out, "\\x0b");
        t->at += 2;
        return OTL_OK;
    }
    if (c == '0' || (is_octal(c) && is_octal(peek(t, 2)))) {
        for (; n < 4 && is_octal(peek(t, n)); n++)
            v = v * 8 + (unsigned)(peek(t, n) - '0');
        buf_printf(t->out, "\\x{%x}", v);
        t->at += n;
        return OTL_OK;
    }
    if (c >= '1' && c <= '9')
        return refuse(t, t->at, "a reference to a group is not supported");
    if (((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) &&
        strchr(in_class ? "afnrtxdDsSwWpP" : "afnrtxdDsSwWpPAbBzE", c) == NULL)
        return refuse(t, t->at, "this escape is not supported");
    if (strchr("xpP", c) != NULL && peek(t, 2) == '{') { /* no repetition, that brace */
        const uint8_t *end = memchr(t->in.p + t->at, '}', t->in.n - t->at);

        if (end == NULL)
            return refuse(t, t->at, "the } that ends this escape is missing");
        copy(t, (size_t)(end - t->in.p) + 1 - t->at);
        return OTL_OK;
    }
    copy(t, 2);
    return OTL_OK;
}

static enum otl_err character_class(struct translation *t)
{
    size_t start = t->at;
    enum otl_err rc;

    copy(t, 1);
    if (peek(t, 0) == '^')
        copy(t, 1);
    if (peek(t, 0) == ']') { /* the first one is a member */
        buf_add_str(t->out, "\\]");
        t->at++;
    }
    while (t->at < t->in.n && t->in.p[t->at] != ']') {
        if (t->in.p[t->at] == '[' && peek(t, 1) == ':') { /* [:alpha:] */
            const uint8_t *end = memmem(t->in.p + t->at + 2, t->in.n - t->at - 2, ":]", 2);

            if (end != NULL) {
                copy(t, (size_t)(end - t->in.p) + 2 - t->at);
                continue;
            }
        }
        if (t->in.p[t->at] == '[') { /* never the [. .] and [= =] of PCRE2 */
            buf_add_str(t->out, "\\[");
            t->at++;
        } else if (t->in.p[t->at] == '\\') {
            rc = escape(t, true);
            if (rc != OTL_OK)
                return rc;
        } else {
            copy(t, 1);
        }
    }
    if (t->at >= t->in.n)
        return refuse(t, start, "the ] that ends this class is missing");
    copy(t, 1);
    return OTL_OK;
}

/* At "(": what RE2 has is (...), (?:...), (?P<name>...), (?<name>...), (?flags) and (?flags:...).
 */
static enum otl_err group(struct translation *t)
{
    size_t n = 2;
    int c = peek(t, 2);

    if (peek(t, 1) == '*')
        return refuse(t, t->at, "verbs are not supported");
    if (peek(t, 1) != '?') {
        copy(t, 1);
        return OTL_OK;
    }
    if ((c == 'P' && peek(t, 3) == '<') || (c == '<' && peek(t, 3) != '=' && peek(t, 3) != '!')) {
        copy(t, 3);
        return OTL_OK;
    }
    if (c == '=' || c == '!' || c == '<')
        return refuse(t, t->at, "looking ahead or behind is not supported");
    while (peek(t, n) >= 0 && strchr("imsU-", peek(t, n)) != NULL)
        n++;
    if ((peek(t, n) == ':' || (peek(t, n) == ')' && n > 2))) {
        copy(t, n + 1);
        return OTL_OK;
    }
    return refuse(t, t->at, "a group of this kind is not supported");
}

/* At "{": the length of {n}, {n,} or {n,m}; 0: it stands for itself. */
static size_t repeat_length(const struct translation *t, bool *too_many)
{
    unsigned v[2] = {0, 0};
    size_t n = 1, digits = 0;
    int part = 0;

    for (;; n++) {
        int c = peek(t, n);

        if (c >= '0' && c <= '9') {
            v[part] = v[part] > REPEAT_MAX ? v[part] : v[part] * 10 + (unsigned)(c - '0');
            digits++;
        } else if (c == ',' && part == 0 && digits > 0) {
            part = 1;
        } else if (c == '}' && digits > 0) {
            *too_many = v[0] > REPEAT_MAX || v[1] > REPEAT_MAX;
            return n + 1;
        } else {
            return 0;
        }
    }
}

enum otl_err regex_translate(struct bytes pattern, struct buf *out, struct otl_error *err)
{
    struct translation t = {.in = pattern, .out = out, .err = err};
    bool repeated = false; /* what stands before is a repetition */
    enum otl_err rc = OTL_OK;

    while (rc == OTL_OK && t.at < pattern.n) {
        bool too_many = false;
        uint8_t c = pattern.p[t.at];
        size_t n = c == '*' || c == '+' || c == '?' ? 1
                   : c == '{'                       ? repeat_length(&t, &too_many)
                                                    : 0;

        if (too_many)
            return refuse(&t, t.at, "more than 1,000 repetitions");
        if (n > 0) {
            if (repeated)
                return refuse(&t, t.at, "a repetition of a repetition");
            copy(&t, n);
            if (peek(&t, 0) == '?') /* lazy */
                copy(&t, 1);
            repeated = true;
            continue;
        }
        repeated = false;
        if (c == '\\')
            rc = escape(&t, false);
        else if (c == '[')
            rc = character_class(&t);
        else if (c == '(')
            rc = group(&t);
        else
            copy(&t, 1);
    }
    return rc;
}

/* ---- running them ---- */

static enum otl_err bad_expression(struct bytes pattern, int code, struct otl_error *err)
{
    PCRE2_UCHAR text[160];

    if (pcre2_get_error_message(code, text, sizeof(text)) < 0)
        text[0] = '\0';
    return otl_fail(err, OTL_EBADREQUEST, "The regular expression \"%.*s\" is not valid: %s.",
                    shown(pattern), (const char *)pattern.p, (const char *)text);
}

static enum otl_err compile(struct regex *re, struct bytes pattern, bool capturing,
                            struct otl_error *err)
{
    const uint32_t options = PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_UTF | PCRE2_DOTALL |
                             PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C |
                             (capturing ? 0 : PCRE2_NO_AUTO_CAPTURE);
    struct buf translated = {0};
    PCRE2_SIZE offset;
    enum otl_err rc;
    int code;

    if (!utf8_valid(pattern))
        return otl_fail(err, OTL_EBADREQUEST, "A regular expression is not valid UTF-8.");
    buf_add_bytes(&re->own, pattern);
    if (re->own.failed)
        return otl_fail(err, OTL_ENOMEM, "No memory for a regular expression.");
    re->pattern = buf_bytes(&re->own);
    rc = regex_translate(re->pattern, &translated, err);
    if (rc == OTL_OK && translated.failed)
        rc = otl_fail(err, OTL_ENOMEM, "No memory for a regular expression.");
    if (rc == OTL_OK) {
        /* An empty expression is one too, and NULL is none. */
        re->code = pcre2_compile(translated.n == 0 ? (PCRE2_SPTR) "" : translated.p, translated.n,
                                 options, &code, &offset, NULL);
        if (re->code == NULL)
            rc = code == PCRE2_ERROR_HEAP_FAILED
                     ? otl_fail(err, OTL_ENOMEM, "No memory for a regular expression.")
                     : bad_expression(re->pattern, code, err);
    }
    buf_fini(&translated);
    if (rc != OTL_OK)
        return rc;
    re->context = pcre2_match_context_create(NULL);
    re->match = capturing ? pcre2_match_data_create_from_pattern(re->code, NULL)
                          : pcre2_match_data_create(1, NULL);
    if (re->context == NULL || re->match == NULL)
        return otl_fail(err, OTL_ENOMEM, "No memory for a regular expression.");
    pcre2_set_match_limit(re->context, MATCH_LIMIT);
    pcre2_set_heap_limit(re->context, HEAP_LIMIT_KIB);
    /* Where a hardened system refuses memory that is written and then run, it is interpreted. */
    if (pcre2_jit_compile(re->code, PCRE2_JIT_COMPLETE) == 0) {
        re->stack = pcre2_jit_stack_create(32 << 10, 1 << 20, NULL);
        if (re->stack == NULL)
            return otl_fail(err, OTL_ENOMEM, "No memory for a regular expression.");
        pcre2_jit_stack_assign(re->context, NULL, re->stack);
    }
    return OTL_OK;
}

static enum otl_err make(struct bytes pattern, bool capturing, struct regex **out,
                         struct otl_error *err)
{
    struct regex *re = calloc(1, sizeof(*re));
    enum otl_err rc;

    if (re == NULL)
        return otl_fail(err, OTL_ENOMEM, "No memory for a regular expression.");
    rc = compile(re, pattern, capturing, err);
    if (rc == OTL_OK)
        *out = re;
    else
        regex_free(re);
    return rc;
}

enum otl_err regex_new(struct bytes pattern, struct regex **out, struct otl_error *err)
{
    return make(pattern, false, out, err);
}

enum otl_err regex_new_capturing(struct bytes pattern, struct regex **out, struct otl_error *err)
{
    return make(pattern, true, out, err);
}

void regex_free(struct regex *re)
{
    if (re == NULL)
        return;
    pcre2_code_free(re->code);
    pcre2_match_data_free(re->match);
    pcre2_match_context_free(re->context);
    pcre2_jit_stack_free(re->stack);
    buf_fini(&re->own);
    buf_fini(&re->repaired);
    free(re);
}

/* *subject: the value that was matched, which is re->repaired where value is not UTF-8. */
static enum otl_err run(struct regex *re, struct bytes value, bool *out, struct bytes *subject,
                        struct otl_error *err)
{
    int n;

    if (!utf8_valid(value)) {
        buf_reset(&re->repaired);
        utf8_repair(&re->repaired, value);
        if (re->repaired.failed)
            return otl_fail(err, OTL_ENOMEM, "No memory for a regular expression.");
        value = buf_bytes(&re->repaired);
    }
    if (value.n == 0) /* PCRE2 takes no NULL */
        value = bytes_of("", 0);
    *subject = value;
    n = pcre2_match(re->code, value.p, value.n, 0, PCRE2_NO_UTF_CHECK, re->match, re->context);
    if (n == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter has the heap */
        n = pcre2_match(re->code, value.p, value.n, 0, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, re->match,
                        re->context);
    if (n >= 0 || n == PCRE2_ERROR_NOMATCH) {
        *out = n >= 0;
        return OTL_OK;
    }
    if (n == PCRE2_ERROR_NOMEMORY)
        return otl_fail(err, OTL_ENOMEM, "No memory for a regular expression.");
    return otl_fail(err, OTL_EBADREQUEST,
                    "The regular expression \"%.*s\" takes too many steps on a value of %zu bytes; "
                    "repetitions within repetitions do that.",
                    shown(re->pattern), (const char *)re->pattern.p, value.n);
}

enum otl_err regex_hit(struct regex *re, struct bytes value, bool *out, struct otl_error *err)
{
    struct bytes subject;

    return run(re, value, out, &subject, err);
}

/* ---- replacing ---- */

/* Bytes of longer characters count as letters. */
static bool is_name_byte(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c >= 0x80;
}

/* Behind a $: the name of a group, and how long it is with its braces; 0: there is none. */
static size_t group_name(struct bytes at, struct bytes *name)
{
    size_t braces = at.n > 0 && at.p[0] == '{', n = 0;

    while (braces + n < at.n && is_name_byte(at.p[braces + n]))
        n++;
    if (n == 0 || (braces == 1 && (1 + n >= at.n || at.p[1 + n] != '}')))
        return 0;
    *name = bytes_of(at.p + braces, n);
    return n + 2 * braces;
}

/* The group's number; -1: there is none. Names that begin with 0 are numbers only if that is all.
 */
static int group_number(const struct regex *re, struct bytes name)
{
    char text[64];
    int n = 0;

    for (size_t i = 0; i < name.n; i++) {
        if (name.p[i] < '0' || name.p[i] > '9' || (i > 0 && name.p[0] == '0')) {
            n = -1;
            break;
        }
        n = n > 100000 ? n : n * 10 + (name.p[i] - '0');
    }
    if (n >= 0)
        return n;
    if (name.n >= sizeof(text)) /* longer than PCRE2's names */
        return -1;
    memcpy(text, name.p, name.n);
    text[name.n] = '\0';
    n = pcre2_substring_number_from_name(re->code, (PCRE2_SPTR)text);
    return n < 0 ? -1 : n;
}

static void add_group(const struct regex *re, struct bytes subject, int number, struct buf *out)
{
    const PCRE2_SIZE *place = pcre2_get_ovector_pointer(re->match);

    if (number < 0 || (uint32_t)number >= pcre2_get_ovector_count(re->match) ||
        place[2 * number] == PCRE2_UNSET)
        return;
    buf_add(out, subject.p + place[2 * number], place[2 * number + 1] - place[2 * number]);
}

enum otl_err regex_replace(struct regex *re, struct bytes value, struct bytes template_text,
                           bool *hit, struct buf *out, struct otl_error *err)
{
    struct bytes in = template_text, subject, name;
    enum otl_err rc = run(re, value, hit, &subject, err);

    if (rc != OTL_OK || !*hit)
        return rc;
    for (size_t i = 0; i < in.n;) {
        size_t n = 0;

        if (in.p[i++] != '$') {
            buf_add_char(out, (char)in.p[i - 1]);
            continue;
        }
        if (i < in.n && in.p[i] == '$')
            i++;
        else
            n = group_name(bytes_of(in.p + i, in.n - i), &name);
        if (n > 0)
            add_group(re, subject, group_number(re, name), out);
        else
            buf_add_char(out, '$');
        i += n;
    }
    return OTL_OK;
}
