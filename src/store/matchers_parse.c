/* matchers_parse.c -- series as people write them (read.h), Prometheus' way:
 *
 *     selector = name | [name] "{" [matcher {"," matcher} [","]] "}"
 *     matcher  = key op string | string      (a string alone is the name)
 *     op       = "=" | "!=" | "=~" | "!~"
 *     name     = letter, "_" or ":", then those, digits and "."
 *     key      = the same | string
 *     string   = "..." or '...' with Go's escapes, or `...` as it stands
 */
#include <stdlib.h>

#include "otlite/read.h"

struct parser {
    struct bytes in;
    size_t at;
    struct matcher *matchers;
    size_t n;
    uint8_t *text; /* free room for texts; those of in fit, since no escape is shorter than what it
                      means */
    bool has_name;
    struct otl_error *err;
};

/* What stands at `at`, for a message: up to 20 bytes of it. */
static enum otl_err refuse(struct parser *p, size_t at, const char *what)
{
    size_t character = 1, n = p->in.n - at;

    for (size_t i = 0; i < at; i++)
        character += (p->in.p[i] & 0xc0) != 0x80;
    if (n == 0)
        return otl_fail(p->err, OTL_EBADREQUEST,
                        "Series cannot be selected: %s at character %zu, but the text ends there.",
                        what, character);
    if (n > 20)
        for (n = 20; n > 0 && (p->in.p[at + n] & 0xc0) == 0x80; n--) {
        }
    return otl_fail(p->err, OTL_EBADREQUEST,
                    "Series cannot be selected: %s at character %zu, where there is %.*s", what,
                    character, (int)n, (const char *)p->in.p + at);
}

static int peek(const struct parser *p)
{
    return p->at < p->in.n ? p->in.p[p->at] : -1;
}

static void skip_space(struct parser *p)
{
    while (peek(p) == ' ' || peek(p) == '\t' || peek(p) == '\n' || peek(p) == '\r')
        p->at++;
}

static bool is_letter(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':';
}

static bool is_quote(int c)
{
    return c == '"' || c == '\'' || c == '`';
}

/* A word, borrowed from the text; empty when there is none. */
static struct bytes word(struct parser *p)
{
    size_t start = p->at;

    if (is_letter(peek(p)))
        while (is_letter(peek(p)) || (peek(p) >= '0' && peek(p) <= '9') || peek(p) == '.')
            p->at++;
    return bytes_of(p->in.p + start, p->at - start);
}

/* ---- strings ---- */

static int digit_value(int c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return 16;
}

static void put_utf8(struct parser *p, uint32_t c)
{
    if (c < 0x80) {
        *p->text++ = (uint8_t)c;
    } else if (c < 0x800) {
        *p->text++ = (uint8_t)(0xc0 | c >> 6);
        *p->text++ = (uint8_t)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *p->text++ = (uint8_t)(0xe0 | c >> 12);
        *p->text++ = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        *p->text++ = (uint8_t)(0x80 | (c & 0x3f));
    } else {
        *p->text++ = (uint8_t)(0xf0 | c >> 18);
        *p->text++ = (uint8_t)(0x80 | (c >> 12 & 0x3f));
        *p->text++ = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        *p->text++ = (uint8_t)(0x80 | (c & 0x3f));
    }
}

/* digits of base at p->at; start: the backslash, for messages. */
static enum otl_err number(struct parser *p, size_t start, int digits, int base, uint32_t *out)
{
    uint32_t v = 0;

    for (int i = 0; i < digits; i++) {
        int d = digit_value(peek(p));

        if (d >= base)
            return refuse(p, start, "an escape that is too short");
        v = v * (uint32_t)base + (uint32_t)d;
        p->at++;
    }
    *out = v;
    return OTL_OK;
}

/* p->at stands behind the backslash. */
static enum otl_err escape(struct parser *p)
{
    static const char names[] = "abfnrtv\\'\"", meanings[] = "\a\b\f\n\r\t\v\\'\"";
    size_t start = p->at - 1;
    int c = peek(p);
    const char *known = c > 0 ? strchr(names, c) : NULL;
    uint32_t v = 0;
    enum otl_err rc;

    if (known != NULL) {
        *p->text++ = (uint8_t)meanings[known - names];
        p->at++;
        return OTL_OK;
    }
    if (c == 'x' || c == 'u' || c == 'U') {
        p->at++;
        rc = number(p, start, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16, &v);
    } else if (c >= '0' && c <= '7') {
        rc = number(p, start, 3, 8, &v);
    } else {
        return refuse(p, start, "an escape that does not exist");
    }
    if (rc != OTL_OK)
        return rc;
    if (c != 'u' && c != 'U') {
        if (v > 0xff)
            return refuse(p, start, "an escape that is no byte");
        *p->text++ = (uint8_t)v;
        return OTL_OK;
    }
    if (v > 0x10ffff || (v >= 0xd800 && v <= 0xdfff))
        return refuse(p, start, "an escape that is no character");
    put_utf8(p, v);
    return OTL_OK;
}

/* At a quote. */
static enum otl_err string(struct parser *p, struct bytes *out)
{
    size_t start = p->at;
    int quote = peek(p);
    uint8_t *text = p->text;

    p->at++;
    while (peek(p) != quote) {
        int c = peek(p);
        enum otl_err rc;

        if (c < 0 || (c == '\n' && quote != '`'))
            return refuse(p, start, "a string that does not end in its quote,");
        p->at++;
        if (c != '\\' || quote == '`') {
            *p->text++ = (uint8_t)c;
            continue;
        }
        rc = escape(p);
        if (rc != OTL_OK)
            return rc;
    }
    p->at++;
    *out = bytes_of(text, (size_t)(p->text - text));
    return utf8_valid(*out) ? OTL_OK : refuse(p, start, "a string that is not valid UTF-8,");
}

/* ---- matchers ---- */

static bool take_prefix(struct bytes *s, const char *prefix)
{
    size_t n = strlen(prefix);

    if (s->n <= n || memcmp(s->p, prefix, n) != 0)
        return false;
    *s = bytes_of(s->p + n, s->n - n);
    return true;
}

static void set_key(struct matcher *m, struct bytes key)
{
    static const struct {
        const char *key;
        enum match_what what;
    } names[] = {{"__name__", MATCH_NAME},
                 {"service", MATCH_SERVICE},
                 {"type", MATCH_TYPE},
                 {"unit", MATCH_UNIT},
                 {"scope", MATCH_SCOPE}};

    m->key = bytes_of("", 0);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (bytes_equal(key, bytes_str(names[i].key))) {
            m->what = names[i].what;
            return;
        }
    if (take_prefix(&key, "resource."))
        m->what = MATCH_RESOURCE;
    else if (take_prefix(&key, "attribute."))
        m->what = MATCH_ATTRIBUTE;
    else
        m->what = MATCH_ANY;
    m->key = key;
}

static enum otl_err operator(struct parser *p, enum match_op *out) {
    int c = peek(p), next = p->at + 1 < p->in.n ? p->in.p[p->at + 1] : -1;

    if (c == '=' && next == '~') *out = MATCH_REGEX;
    else if (c == '!' && next == '~') *out = MATCH_NOT_REGEX;
    else if (c == '!' && next == '=') *out = MATCH_NOT_EQUAL;
    else if (c == '=') *out = MATCH_EQUAL;
    else return refuse(p, p->at, "expected =, !=, =~ or !~");
    p->at += *out == MATCH_EQUAL ? 1 : 2;
    return OTL_OK;
}

static enum otl_err add_name(struct parser *p, size_t at, struct bytes name)
{
    if (p->has_name)
        return refuse(p, at, "a second name");
    p->has_name = true;
    p->matchers[p->n++] = (struct matcher){
        .what = MATCH_NAME, .op = MATCH_EQUAL, .key = bytes_of("", 0), .value = name};
    return OTL_OK;
}

static enum otl_err matcher(struct parser *p)
{
    struct matcher *m = &p->matchers[p->n];
    size_t start = p->at;
    bool quoted = is_quote(peek(p));
    struct bytes key;
    enum otl_err rc = OTL_OK;

    if (quoted)
        rc = string(p, &key);
    else
        key = word(p);
    if (rc != OTL_OK)
        return rc;
    if (!quoted && key.n == 0)
        return refuse(p, start, "expected a key, a name in quotes or }");
    skip_space(p);
    if (quoted && (peek(p) == ',' || peek(p) == '}'))
        return add_name(p, start, key);
    if (key.n == 0)
        return refuse(p, start, "an empty key");
    rc = operator(p, &m->op);
    if (rc != OTL_OK)
        return rc;
    set_key(m, key);
    if (m->what == MATCH_NAME && p->has_name)
        return refuse(p, start, "a second name");
    skip_space(p);
    if (!is_quote(peek(p)))
        return refuse(p, p->at, "expected a string in quotes");
    rc = string(p, &m->value);
    if (rc == OTL_OK)
        p->n++;
    return rc;
}

static enum otl_err selector(struct parser *p)
{
    struct bytes name;
    enum otl_err rc = OTL_OK;

    skip_space(p);
    name = word(p);
    if (name.n > 0)
        rc = add_name(p, p->at - name.n, name);
    skip_space(p);
    if (rc != OTL_OK)
        return rc;
    if (peek(p) != '{') {
        if (name.n == 0 || p->at < p->in.n)
            return refuse(p, p->at,
                          name.n == 0 ? "expected a metric's name or {" : "expected { or the end");
        return OTL_OK;
    }
    p->at++;
    for (skip_space(p); peek(p) != '}'; skip_space(p)) {
        rc = matcher(p);
        if (rc != OTL_OK)
            return rc;
        skip_space(p);
        if (peek(p) == ',')
            p->at++;
        else if (peek(p) != '}')
            return refuse(p, p->at, "expected , or }");
    }
    p->at++;
    skip_space(p);
    return p->at == p->in.n ? OTL_OK : refuse(p, p->at, "expected the end");
}

enum otl_err matchers_parse(struct bytes text, struct matcher **out, size_t *n, void **mem,
                            struct otl_error *err)
{
    struct parser p = {.in = text, .err = err};
    size_t most = 2; /* a name without quotes, and one that is being read */
    enum otl_err rc;
    uint8_t *block;

    if (!utf8_valid(text))
        return otl_fail(err, OTL_EBADREQUEST,
                        "Series cannot be selected: the text is not valid UTF-8.");
    /* Every other matcher has a string, and that two quotes. */
    for (size_t i = 0; i < text.n; i++)
        most += is_quote(text.p[i]);
    if (most > (SIZE_MAX - 2 * text.n) / sizeof(*p.matchers))
        return otl_fail(err, OTL_ETOOBIG, "Series cannot be selected: the text is too long.");
    block = malloc(most * sizeof(*p.matchers) + 2 * text.n);
    if (block == NULL)
        return otl_fail(err, OTL_ENOMEM, "No memory for matchers.");
    p.matchers = (struct matcher *)(void *)block;
    /* Words are borrowed from a copy, strings are written behind it. */
    p.text = block + most * sizeof(*p.matchers);
    if (text.n > 0)
        memcpy(p.text, text.p, text.n);
    p.in = bytes_of(p.text, text.n);
    p.text += text.n;
    rc = selector(&p);
    if (rc != OTL_OK) {
        free(block);
        return rc;
    }
    *out = p.matchers;
    *n = p.n;
    *mem = block;
    return OTL_OK;
}
