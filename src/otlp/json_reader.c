#include "otlite/json_reader.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void json_reader_init(struct json_reader *r, struct bytes body, uint32_t max_depth, struct arena *a)
{
    static const uint8_t nothing[1] = {0};

    assert(max_depth <= JSON_DEPTH_CAP);
    *r = (struct json_reader){
        .arena = a, .max_depth = max_depth, .state = JSON_STATE_VALUE, .error_code = OTL_OK};
    r->start = body.n > 0 ? body.p : nothing;
    r->p = r->start;
    r->end = r->start + body.n;
}

static enum json_event reader_fail(struct json_reader *r, const uint8_t *at, const char *text)
{
    r->state = JSON_STATE_FAILED;
    r->error_code = OTL_EBADDATA;
    r->error_text = text;
    r->error_at = (size_t)(at - r->start);
    return JSON_EV_ERROR;
}

static enum json_event reader_no_room(struct json_reader *r)
{
    r->state = JSON_STATE_FAILED;
    r->error_code = r->arena->over_budget ? OTL_ETOOBIG : OTL_ENOMEM;
    r->error_text = "no room for a string";
    r->error_at = (size_t)(r->p - r->start);
    return JSON_EV_ERROR;
}

static void skip_blanks(struct json_reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\r' || *r->p == '\t'))
        r->p++;
}

/* ---- numbers ---- */

struct decimal {
    const uint8_t *whole, *fraction;
    size_t n_whole, n_fraction;
    int64_t exponent; /* saturated far beyond what any number of digits could make up for */
    bool negative;
};

static const int64_t EXPONENT_MAX = INT64_C(1000000000000000);

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

/* The number at the start of [p, end). Gives where it ends, or NULL when there is none. */
static const uint8_t *decimal_scan(const uint8_t *p, const uint8_t *end, struct decimal *out)
{
    struct decimal d = {0};

    if (p < end && *p == '-') {
        d.negative = true;
        p++;
    }
    d.whole = p;
    if (p == end || !is_digit(*p))
        return NULL;
    if (*p == '0') {
        p++;
    } else {
        while (p < end && is_digit(*p))
            p++;
    }
    d.n_whole = (size_t)(p - d.whole);
    d.fraction = p;
    if (p < end && *p == '.') {
        p++;
        d.fraction = p;
        while (p < end && is_digit(*p))
            p++;
        d.n_fraction = (size_t)(p - d.fraction);
        if (d.n_fraction == 0)
            return NULL;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        bool minus = false;

        p++;
        if (p < end && (*p == '+' || *p == '-')) {
            minus = *p == '-';
            p++;
        }
        if (p == end || !is_digit(*p))
            return NULL;
        for (; p < end && is_digit(*p); p++) {
            if (d.exponent < EXPONENT_MAX)
                d.exponent = d.exponent * 10 + (*p - '0');
        }
        if (minus)
            d.exponent = -d.exponent;
    }
    *out = d;
    return p;
}

static bool decimal_parse(struct bytes text, struct decimal *out)
{
    return text.n > 0 && decimal_scan(text.p, text.p + text.n, out) == text.p + text.n;
}

/* The i-th digit of whole and fraction taken as one row. */
static unsigned decimal_digit(const struct decimal *d, size_t i)
{
    uint8_t c = i < d->n_whole ? d->whole[i] : d->fraction[i - d->n_whole];

    return (unsigned)(c - '0');
}

/* The digits that count, [*first, *last], and the power of ten that the last of them stands for.
 * False when all are 0. */
static bool decimal_significant(const struct decimal *d, size_t *first, size_t *last,
                                int64_t *power)
{
    size_t n = d->n_whole + d->n_fraction;
    size_t i = 0;

    while (i < n && decimal_digit(d, i) == 0)
        i++;
    if (i == n)
        return false;
    *first = i;
    i = n - 1;
    while (decimal_digit(d, i) == 0)
        i--;
    *last = i;
    *power = d->exponent + (int64_t)d->n_whole - (int64_t)i - 1;
    return true;
}

/* Exact for every spelling: 10, 1e1, 1.0e1. Minus zero is zero. */
static enum json_number parse_integer(struct bytes text, bool *out_negative,
                                      uint64_t *out_magnitude)
{
    struct decimal d;
    size_t first, last;
    int64_t power;
    uint64_t m = 0;

    if (!decimal_parse(text, &d))
        return JSON_NUMBER_SYNTAX;
    if (!decimal_significant(&d, &first, &last, &power)) {
        *out_negative = false;
        *out_magnitude = 0;
        return JSON_NUMBER_OK;
    }
    if (power < 0)
        return JSON_NUMBER_FRACTION;
    if (last - first >= 20 || power >= 20) /* 2^64 has 20 digits */
        return JSON_NUMBER_RANGE;
    for (size_t i = first; i <= last; i++) {
        unsigned digit = decimal_digit(&d, i);

        if (m > (UINT64_MAX - digit) / 10)
            return JSON_NUMBER_RANGE;
        m = m * 10 + digit;
    }
    for (; power > 0; power--) {
        if (m > UINT64_MAX / 10)
            return JSON_NUMBER_RANGE;
        m *= 10;
    }
    *out_negative = d.negative;
    *out_magnitude = m;
    return JSON_NUMBER_OK;
}

enum json_number json_parse_signed(struct bytes text, int64_t min, int64_t max, int64_t *out)
{
    bool negative;
    uint64_t m;
    int64_t v;
    enum json_number rc = parse_integer(text, &negative, &m);

    if (rc != JSON_NUMBER_OK)
        return rc;
    if (m > (uint64_t)INT64_MAX + negative)
        return JSON_NUMBER_RANGE;
    v = negative ? -(int64_t)(m - 1) - 1 : (int64_t)m; /* negative: m > 0 */
    if (v < min || v > max)
        return JSON_NUMBER_RANGE;
    *out = v;
    return JSON_NUMBER_OK;
}

enum json_number json_parse_unsigned(struct bytes text, uint64_t max, uint64_t *out)
{
    bool negative;
    uint64_t m;
    enum json_number rc = parse_integer(text, &negative, &m);

    if (rc != JSON_NUMBER_OK)
        return rc;
    if (negative || m > max)
        return JSON_NUMBER_RANGE;
    *out = m;
    return JSON_NUMBER_OK;
}

/* A whole number up to 2^53 times or over a power of ten up to 10^22: both are exact as doubles, so
 * one rounded operation gives the nearest double. Not where the compiler computes in more bits. */
static bool double_exact(uint64_t m, int64_t power, double *out)
{
    static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                  1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                  1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

    if (FLT_EVAL_METHOD != 0 || m > (UINT64_C(1) << 53) || power < -22 || power > 22)
        return false;
    *out = power < 0 ? (double)m / tens[-power] : (double)m * tens[power];
    return true;
}

/* No double, and no midpoint between two, has more than 768 significant digits; beyond that only
 * whether anything follows can matter. */
enum { DOUBLE_DIGITS = 800 };

enum json_number json_parse_double(struct bytes text, double *out)
{
    char buf[DOUBLE_DIGITS + 32];
    struct decimal d;
    size_t first, last, kept, n = 0;
    int64_t power;
    double v;

    if (!decimal_parse(text, &d))
        return JSON_NUMBER_SYNTAX;
    if (!decimal_significant(&d, &first, &last, &power)) {
        *out = d.negative ? -0.0 : 0.0;
        return JSON_NUMBER_OK;
    }
    kept = last - first + 1;
    if (kept <= 16) {
        uint64_t m = 0;

        for (size_t i = first; i <= last; i++)
            m = m * 10 + decimal_digit(&d, i);
        if (double_exact(m, power, &v)) {
            *out = d.negative ? -v : v;
            return JSON_NUMBER_OK;
        }
    }
    if (kept > DOUBLE_DIGITS) {
        power += (int64_t)(kept - DOUBLE_DIGITS);
        kept = DOUBLE_DIGITS;
    }
    for (size_t i = 0; i < kept; i++)
        buf[n++] = (char)('0' + decimal_digit(&d, first + i));
    if (first + kept <= last) { /* the last digit is not 0, so something follows */
        buf[n++] = '1';
        power--;
    }
    if (power > 9999)
        power = 9999;
    if (power < -9999)
        power = -9999;
    /* Digits and an exponent only: no decimal point, so no locale is asked. */
    (void)snprintf(buf + n, sizeof(buf) - n, "e%" PRId64, power);
    v = strtod(buf, NULL);
    if (isinf(v))
        return JSON_NUMBER_RANGE;
    *out = d.negative ? -v : v;
    return JSON_NUMBER_OK;
}

static enum json_event read_number(struct json_reader *r)
{
    struct decimal d;
    const uint8_t *end = decimal_scan(r->p, r->end, &d);

    if (end == NULL)
        return reader_fail(r, r->p, "a malformed number");
    r->text = bytes_of(r->p, (size_t)(end - r->p));
    r->p = end;
    r->state = JSON_STATE_AFTER;
    return JSON_EV_NUMBER;
}

/* ---- strings ---- */

/* The first byte of [p, end) that is not plain content: '"', '\\' or a control character. */
static const uint8_t *plain_end(const uint8_t *p, const uint8_t *end)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);

    while (end - p >= 8) {
        uint64_t w, quote, backslash;

        memcpy(&w, p, 8);
        quote = w ^ (ones * '"');
        backslash = w ^ (ones * '\\');
        if (((((w - ones * 0x20) & ~w) | ((quote - ones) & ~quote) |
              ((backslash - ones) & ~backslash)) &
             (ones * 0x80)) != 0)
            break;
        p += 8;
    }
    while (p < end && *p >= 0x20 && *p != '"' && *p != '\\')
        p++;
    return p;
}

static int hex_digit(uint8_t c)
{
    if (is_digit(c))
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The four hex digits at p. */
static uint32_t hex4(const uint8_t *p)
{
    uint32_t v = 0;

    for (int i = 0; i < 4; i++)
        v = v << 4 | (uint32_t)hex_digit(p[i]);
    return v;
}

static uint8_t *put_utf8(uint8_t *o, uint32_t c)
{
    if (c < 0x80) {
        *o++ = (uint8_t)c;
    } else if (c < 0x800) {
        *o++ = (uint8_t)(0xc0 | c >> 6);
        *o++ = (uint8_t)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *o++ = (uint8_t)(0xe0 | c >> 12);
        *o++ = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        *o++ = (uint8_t)(0x80 | (c & 0x3f));
    } else {
        *o++ = (uint8_t)(0xf0 | c >> 18);
        *o++ = (uint8_t)(0x80 | (c >> 12 & 0x3f));
        *o++ = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        *o++ = (uint8_t)(0x80 | (c & 0x3f));
    }
    return o;
}

/* One checked \u escape at p (behind the 'u'), with its second half when it is a pair. */
static const uint8_t *unescape_u(const uint8_t *p, const uint8_t *end, uint8_t **o, bool *repaired)
{
    uint32_t c = hex4(p);

    p += 4;
    if (c >= 0xd800 && c <= 0xdfff) {
        uint32_t low = c < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u' ? hex4(p + 2) : 0;

        if (low >= 0xdc00 && low <= 0xdfff) {
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
            p += 6;
        } else {
            c = 0xfffd;
            *repaired = true;
        }
    }
    *o = put_utf8(*o, c);
    return p;
}

/* Content [p, end) with its escapes checked, into out, which has room for end - p bytes: no escape
 * is shorter than what it stands for. */
static size_t unescape(const uint8_t *p, const uint8_t *end, uint8_t *out, bool *repaired)
{
    uint8_t *o = out;

    while (p < end) {
        const uint8_t *q = plain_end(p, end);

        memcpy(o, p, (size_t)(q - p));
        o += q - p;
        p = q;
        if (p == end)
            break;
        p++; /* the backslash */
        switch (*p++) {
        case 'b':
            *o++ = '\b';
            break;
        case 'f':
            *o++ = '\f';
            break;
        case 'n':
            *o++ = '\n';
            break;
        case 'r':
            *o++ = '\r';
            break;
        case 't':
            *o++ = '\t';
            break;
        case 'u':
            p = unescape_u(p, end, &o, repaired);
            break;
        default: /* '"', '\\', '/' stand for themselves */
            *o++ = p[-1];
            break;
        }
    }
    return (size_t)(o - out);
}

/* Check one escape at p, which points at its backslash; gives its end, or NULL with an error. */
static const uint8_t *check_escape(struct json_reader *r, const uint8_t *p)
{
    if (r->end - p < 2) {
        (void)reader_fail(r, r->end, "the body ends inside a string");
        return NULL;
    }
    switch (p[1]) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        return p + 2;
    case 'u':
        for (int i = 2; i < 6; i++) {
            if (p + i >= r->end) {
                (void)reader_fail(r, r->end, "the body ends inside a string");
                return NULL;
            }
            if (hex_digit(p[i]) < 0) {
                (void)reader_fail(r, p, "\\u without four hex digits");
                return NULL;
            }
        }
        return p + 6;
    default:
        (void)reader_fail(r, p, "an unknown escape in a string");
        return NULL;
    }
}

/* The string at r->p, which points at its opening quote; r->p is behind it afterwards. */
static bool read_string(struct json_reader *r)
{
    const uint8_t *start = r->p + 1;
    const uint8_t *p = start;
    bool escapes = false;
    uint8_t *copy;

    r->text_repaired = false;
    for (;;) {
        p = plain_end(p, r->end);
        if (p == r->end) {
            (void)reader_fail(r, p, "the body ends inside a string");
            return false;
        }
        if (*p == '"')
            break;
        if (*p != '\\') {
            (void)reader_fail(r, p, "a control character in a string that is not escaped");
            return false;
        }
        escapes = true;
        p = check_escape(r, p);
        if (p == NULL)
            return false;
    }
    r->p = p + 1;
    r->text = bytes_of(start, (size_t)(p - start));
    if (!escapes || r->skipping)
        return true;
    copy = arena_alloc(r->arena, r->text.n);
    if (copy == NULL) {
        (void)reader_no_room(r);
        return false;
    }
    r->text = bytes_of(copy, unescape(start, p, copy, &r->text_repaired));
    return true;
}

/* ---- structure ---- */

static enum json_event read_key(struct json_reader *r)
{
    if (r->p == r->end)
        return reader_fail(r, r->p, "the body ends inside an object");
    if (*r->p != '"')
        return reader_fail(r, r->p, "a key in double quotes is missing");
    if (!read_string(r))
        return JSON_EV_ERROR;
    skip_blanks(r);
    if (r->p == r->end || *r->p != ':')
        return reader_fail(r, r->p, "':' is missing after a key");
    r->p++;
    r->state = JSON_STATE_VALUE;
    return JSON_EV_KEY;
}

static enum json_event open_level(struct json_reader *r, bool object)
{
    uint64_t bit = UINT64_C(1) << (r->depth % 64);

    if (r->depth >= r->max_depth)
        return reader_fail(r, r->p, "objects and arrays are nested too deep");
    if (object)
        r->is_object[r->depth / 64] |= bit;
    else
        r->is_object[r->depth / 64] &= ~bit;
    r->depth++;
    r->p++;
    r->state = object ? JSON_STATE_OBJECT_FIRST : JSON_STATE_ARRAY_FIRST;
    return object ? JSON_EV_OBJECT : JSON_EV_ARRAY;
}

static enum json_event close_level(struct json_reader *r, bool object)
{
    r->depth--;
    r->p++;
    r->state = JSON_STATE_AFTER;
    return object ? JSON_EV_OBJECT_END : JSON_EV_ARRAY_END;
}

static enum json_event read_word(struct json_reader *r, const char *word, enum json_event event)
{
    size_t n = strlen(word);

    if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n) != 0)
        return reader_fail(r, r->p, "a value is missing or misspelt");
    r->p += n;
    r->state = JSON_STATE_AFTER;
    return event;
}

static enum json_event read_value(struct json_reader *r)
{
    if (r->p == r->end) {
        return reader_fail(r, r->p,
                           r->start == r->end ? "the body is empty"
                                              : "the body ends where a value must come");
    }
    switch (*r->p) {
    case '{':
        return open_level(r, true);
    case '[':
        return open_level(r, false);
    case '"':
        if (!read_string(r))
            return JSON_EV_ERROR;
        r->state = JSON_STATE_AFTER;
        return JSON_EV_STRING;
    case 't':
        return read_word(r, "true", JSON_EV_TRUE);
    case 'f':
        return read_word(r, "false", JSON_EV_FALSE);
    case 'n':
        return read_word(r, "null", JSON_EV_NULL);
    case 0xef:
        if (r->p == r->start)
            return reader_fail(r, r->p, "it starts with a byte order mark; leave that out");
        break;
    default:
        if (*r->p == '-' || is_digit(*r->p))
            return read_number(r);
        break;
    }
    return reader_fail(r, r->p, "a value is missing or misspelt");
}

/* What comes after a value. */
static enum json_event read_after(struct json_reader *r)
{
    uint32_t level = r->depth - 1;
    bool object;

    if (r->depth == 0) {
        if (r->p < r->end)
            return reader_fail(r, r->p, "something follows the end of the document");
        return JSON_EV_END;
    }
    object = (r->is_object[level / 64] >> (level % 64) & 1) != 0;
    if (r->p == r->end)
        return reader_fail(r, r->p, "the body ends inside an object or array");
    if (*r->p == (object ? '}' : ']'))
        return close_level(r, object);
    if (*r->p != ',')
        return reader_fail(r, r->p, object ? "',' or '}' is missing" : "',' or ']' is missing");
    r->p++;
    skip_blanks(r);
    return object ? read_key(r) : read_value(r);
}

enum json_event json_next(struct json_reader *r)
{
    if (r->state == JSON_STATE_FAILED)
        return JSON_EV_ERROR;
    skip_blanks(r);
    switch (r->state) {
    case JSON_STATE_ARRAY_FIRST:
        return r->p < r->end && *r->p == ']' ? close_level(r, false) : read_value(r);
    case JSON_STATE_OBJECT_FIRST:
        return r->p < r->end && *r->p == '}' ? close_level(r, true) : read_key(r);
    case JSON_STATE_AFTER:
        return read_after(r);
    case JSON_STATE_VALUE:
    case JSON_STATE_FAILED:
        break;
    }
    return read_value(r);
}

bool json_skip_rest(struct json_reader *r, enum json_event event)
{
    uint32_t outside;
    bool ok = true;

    if (event == JSON_EV_ERROR)
        return false;
    if (event != JSON_EV_OBJECT && event != JSON_EV_ARRAY)
        return true;
    assert(r->depth > 0);
    outside = r->depth - 1;
    r->skipping = true;
    while (ok && r->depth > outside)
        ok = json_next(r) != JSON_EV_ERROR;
    r->skipping = false;
    return ok;
}

bool json_skip_value(struct json_reader *r)
{
    enum json_event event;

    r->skipping = true;
    event = json_next(r);
    r->skipping = false;
    return json_skip_rest(r, event);
}

size_t json_count_scalars(const struct json_reader *r)
{
    size_t n = 1;

    for (const uint8_t *p = r->p; p < r->end && *p != ']'; p++)
        n += *p == ',';
    return n;
}
