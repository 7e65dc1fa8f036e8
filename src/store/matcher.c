#include "otlite/matcher.h"

#include <stdlib.h>

/* ---- expressions that need no engine ---- */

/* Alternatives that have wildcards are tried one after the other, so few are allowed. */
enum { WILD_MAX = 16 };

static bool is_meta(uint8_t c)
{
    return c != 0 && strchr("\\.+*?()|[]{}^$", c) != NULL;
}

/* Letters and digits behind a backslash are classes and the like; the rest stands for itself. */
static bool is_punctuation(uint8_t c)
{
    return c > ' ' && c < 0x7f && !(c >= '0' && c <= '9') && !(c >= 'A' && c <= 'Z') &&
           !(c >= 'a' && c <= 'z');
}

/* .* or .+ off the front of in. */
static enum wild take_wild(struct bytes *in)
{
    enum wild w;

    if (in->n < 2 || in->p[0] != '.' || (in->p[1] != '*' && in->p[1] != '+'))
        return WILD_NONE;
    /* Two of them, or a lazy one: the engine's. */
    if (in->n > 2 && (in->p[2] == '?' || in->p[2] == '+' || in->p[2] == '*' || in->p[2] == '{'))
        return WILD_NONE;
    w = in->p[1] == '*' ? WILD_ANY : WILD_SOME;
    in->p += 2;
    in->n -= 2;
    return w;
}

/* One alternative off the front of in, up to a | or the end; its text behind vm->text, its place
 * there in a->text.n only. false: needs the engine. */
static bool take_alternative(struct value_matcher *vm, struct bytes *in, struct alternative *a)
{
    size_t start = vm->text.n;

    *a = (struct alternative){.before = take_wild(in)};
    while (in->n > 0 && in->p[0] != '|') {
        uint8_t c = in->p[0];
        size_t used = 1;

        if (c == '.') {
            a->behind = take_wild(in);
            if (a->behind == WILD_NONE || (in->n > 0 && in->p[0] != '|'))
                return false;
            break;
        }
        if (c == '\\') {
            if (in->n < 2 || !is_punctuation(in->p[1]))
                return false;
            c = in->p[1];
            used = 2;
        } else if (is_meta(c)) {
            return false;
        }
        /* A quantifier behind it is of this character alone. */
        if (in->n > used && strchr("*+?{", in->p[used]) != NULL && in->p[used] != 0)
            return false;
        buf_add_char(&vm->text, (char)c);
        in->p += used;
        in->n -= used;
    }
    a->text.n = vm->text.n - start;
    return true;
}

/* (...) and (?:...) around the whole, as dashboards write it for a choice of values. */
static struct bytes without_group(struct bytes p)
{
    struct bytes inner;

    if (p.n < 2 || p.p[0] != '(' || p.p[p.n - 1] != ')')
        return p;
    inner = bytes_of(p.p + 1, p.n - 2);
    if (inner.n >= 2 && inner.p[0] == '?' && inner.p[1] == ':')
        inner = bytes_of(inner.p + 2, inner.n - 2);
    /* The last parenthesis may be escaped: a backslash before it is left then, and with it the text
     * is no plain one. */
    return inner;
}

static int compare_texts(const void *a, const void *b)
{
    return bytes_compare(((const struct alternative *)a)->text,
                         ((const struct alternative *)b)->text);
}

/* vm's alternatives from an expression made of nothing else; n stays 0 when it is not. */
static enum otl_err find_alternatives(struct value_matcher *vm, struct bytes pattern,
                                      struct otl_error *err)
{
    struct bytes in = without_group(pattern);
    size_t n = 1, n_wild = 0, at = 0;

    if (!utf8_valid(pattern)) /* the engine says so */
        return OTL_OK;
    for (size_t i = 0; i < in.n; i++)
        n += in.p[i] == '|';
    vm->alternatives = calloc(n, sizeof(*vm->alternatives));
    if (vm->alternatives == NULL || !buf_reserve(&vm->text, in.n))
        return otl_fail(err, OTL_ENOMEM, "No memory for a matcher.");
    n = 0;
    for (;;) {
        struct alternative *a = &vm->alternatives[n];

        if (!take_alternative(vm, &in, a))
            return OTL_OK;
        n++;
        n_wild += a->before != WILD_NONE || a->behind != WILD_NONE;
        if (n_wild > WILD_MAX || (n_wild > 0 && n > WILD_MAX))
            return OTL_OK;
        if (in.n == 0)
            break;
        in.p++; /* the | */
        in.n--;
    }
    if (vm->text.failed)
        return otl_fail(err, OTL_ENOMEM, "No memory for a matcher.");
    /* Only now: the buffer may have moved. */
    for (size_t i = 0; i < n; i++) {
        vm->alternatives[i].text.p = vm->text.p + at;
        at += vm->alternatives[i].text.n;
    }
    vm->n = n;
    vm->literal = n_wild == 0;
    if (vm->literal)
        qsort(vm->alternatives, n, sizeof(*vm->alternatives), compare_texts);
    return OTL_OK;
}

static bool ends_with(struct bytes s, struct bytes end)
{
    return s.n >= end.n && (end.n == 0 || memcmp(s.p + s.n - end.n, end.p, end.n) == 0);
}

static bool fits(const struct alternative *a, struct bytes s)
{
    size_t before = a->before == WILD_SOME, behind = a->behind == WILD_SOME;

    if (a->before == WILD_NONE && a->behind == WILD_NONE)
        return bytes_equal(a->text, s);
    if (s.n < a->text.n || s.n - a->text.n < before + behind)
        return false;
    if (a->before == WILD_NONE)
        return ends_with(bytes_of(s.p, a->text.n), a->text);
    if (a->behind == WILD_NONE)
        return ends_with(s, a->text);
    if (a->text.n == 0)
        return true;
    s.p += before;
    s.n -= before + behind;
    return memmem(s.p, s.n, a->text.p, a->text.n) != NULL;
}

static bool one_fits(const struct value_matcher *vm, struct bytes value)
{
    size_t low = 0, high = vm->n;

    if (!vm->literal) {
        for (size_t i = 0; i < vm->n; i++)
            if (fits(&vm->alternatives[i], value))
                return true;
        return false;
    }
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int c = bytes_compare(vm->alternatives[mid].text, value);

        if (c == 0)
            return true;
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return false;
}

/* ---- all matchers ---- */

static enum otl_err init(struct value_matcher *vm, enum match_op op, struct bytes value,
                         struct otl_error *err)
{
    enum otl_err rc;

    if (op == MATCH_EQUAL || op == MATCH_NOT_EQUAL) {
        vm->alternatives = calloc(1, sizeof(*vm->alternatives));
        buf_add_bytes(&vm->text, value);
        if (vm->alternatives == NULL || vm->text.failed)
            return otl_fail(err, OTL_ENOMEM, "No memory for a matcher.");
        vm->alternatives[0].text = buf_bytes(&vm->text);
        vm->n = 1;
        vm->literal = true;
    } else {
        rc = find_alternatives(vm, value, err);
        if (rc == OTL_OK && vm->n == 0)
            rc = regex_new(value, &vm->regex, err);
        if (rc != OTL_OK)
            return rc;
    }
    return value_matcher_hit(vm, bytes_of("", 0), &vm->hits_empty, err);
}

enum otl_err value_matcher_init(struct value_matcher *vm, enum match_op op, struct bytes value,
                                struct otl_error *err)
{
    enum otl_err rc;

    *vm = (struct value_matcher){.negative = op == MATCH_NOT_EQUAL || op == MATCH_NOT_REGEX};
    rc = init(vm, op, value, err);
    if (rc != OTL_OK)
        value_matcher_fini(vm);
    return rc;
}

void value_matcher_fini(struct value_matcher *vm)
{
    free(vm->alternatives);
    buf_fini(&vm->text);
    regex_free(vm->regex);
    *vm = (struct value_matcher){0};
}

enum otl_err value_matcher_hit(struct value_matcher *vm, struct bytes value, bool *out,
                               struct otl_error *err)
{
    if (vm->regex != NULL)
        return regex_hit(vm->regex, value, out, err);
    *out = one_fits(vm, value);
    return OTL_OK;
}
