/* attrs.c -- reading canonical attribute bytes (attrs.h) and writing them as JSON.
 *
 * The bytes may come from a file that was damaged: every length is checked against what is left,
 * recursion ends at ATTRS_MAX_DEPTH, and whatever was read up to the damage makes valid JSON. */
#include "otlite/attrs.h"

#include <inttypes.h>
#include <math.h>

/* LEB128; false when it is cut or does not fit 64 bits. Nothing is consumed then. */
static bool take_varint(struct bytes *in, uint64_t *out)
{
    uint64_t v = 0;

    for (size_t i = 0; i < in->n && i < 10; i++) {
        uint8_t c = in->p[i];

        if (i == 9 && c > 1)
            return false;
        v |= (uint64_t)(c & 0x7f) << (7 * i);
        if (c < 0x80) {
            in->p += i + 1;
            in->n -= i + 1;
            *out = v;
            return true;
        }
    }
    return false;
}

static bool take(struct bytes *in, size_t n, struct bytes *out)
{
    if (n > in->n)
        return false;
    *out = bytes_of(in->p, n);
    in->p += n;
    in->n -= n;
    return true;
}

static bool take_sized(struct bytes *in, struct bytes *out)
{
    struct bytes rest = *in;
    uint64_t n;

    if (!take_varint(&rest, &n) || n > rest.n || !take(&rest, (size_t)n, out))
        return false;
    *in = rest;
    return true;
}

static bool take_byte(struct bytes *in, uint8_t *out)
{
    struct bytes b;

    if (!take(in, 1, &b))
        return false;
    *out = b.p[0];
    return true;
}

static bool take_u64(struct bytes *in, uint64_t *out)
{
    struct bytes b;
    uint64_t v = 0;

    if (!take(in, 8, &b))
        return false;
    for (int i = 0; i < 8; i++)
        v = v << 8 | b.p[i];
    *out = v;
    return true;
}

/* A value that is no container; *kind was read. False for containers and unknown kinds too. */
static bool take_scalar(struct bytes *in, uint8_t kind, struct attr_value *out)
{
    uint64_t bits;
    uint8_t c;

    *out = (struct attr_value){.kind = ATTR_EMPTY};
    switch (kind) {
    case ATTR_EMPTY:
        return true;
    case ATTR_STRING:
    case ATTR_BYTES:
        out->kind = kind == ATTR_STRING ? ATTR_STRING : ATTR_BYTES;
        return take_sized(in, &out->s);
    case ATTR_BOOL:
        out->kind = ATTR_BOOL;
        if (!take_byte(in, &c))
            return false;
        out->b = c != 0;
        return true;
    case ATTR_INT:
        out->kind = ATTR_INT;
        if (!take_u64(in, &bits))
            return false;
        memcpy(&out->i, &bits, sizeof(out->i));
        return true;
    case ATTR_DOUBLE:
        out->kind = ATTR_DOUBLE;
        if (!take_u64(in, &bits))
            return false;
        memcpy(&out->d, &bits, sizeof(out->d));
        return true;
    default:
        return false;
    }
}

static bool skip_body(struct bytes *in, bool pairs, unsigned depth);

/* depth: 1 for a value of the outermost list. */
static bool take_value(struct bytes *in, struct attr_value *out, unsigned depth)
{
    struct bytes body;
    uint8_t kind;

    if (depth > ATTRS_MAX_DEPTH || !take_byte(in, &kind))
        return false;
    if (kind != ATTR_ARRAY && kind != ATTR_KVLIST)
        return take_scalar(in, kind, out);
    body = *in;
    if (!skip_body(in, kind == ATTR_KVLIST, depth + 1))
        return false;
    *out = (struct attr_value){.kind = kind == ATTR_KVLIST ? ATTR_KVLIST : ATTR_ARRAY,
                               .s = bytes_of(body.p, body.n - in->n)};
    return true;
}

/* A count that was damaged to something huge ends with the bytes: each element takes at least one.
 */
static bool skip_body(struct bytes *in, bool pairs, unsigned depth)
{
    struct attr_value v;
    struct bytes key;
    uint64_t n;

    if (!take_varint(in, &n))
        return false;
    for (; n > 0; n--) {
        if ((pairs && !take_sized(in, &key)) || !take_value(in, &v, depth))
            return false;
    }
    return true;
}

static void iter_begin(struct attr_iter *it, struct bytes body)
{
    it->rest = body;
    if (!take_varint(&it->rest, &it->left)) {
        it->rest = bytes_of(NULL, 0);
        it->left = 1; /* says: damaged */
    }
}

static bool iter_next(struct attr_iter *it, struct bytes *key, struct attr_value *value)
{
    struct bytes rest = it->rest, k = {0};
    struct attr_value v;

    if (it->left == 0)
        return false;
    if ((key != NULL && !take_sized(&rest, &k)) || !take_value(&rest, &v, 1)) {
        it->rest = bytes_of(NULL, 0);
        return false;
    }
    it->rest = rest;
    it->left--;
    if (key != NULL)
        *key = k;
    *value = v;
    return true;
}

void attrs_begin(struct attr_iter *it, struct bytes canonical)
{
    iter_begin(it, canonical);
}

bool attrs_next(struct attr_iter *it, struct bytes *key, struct attr_value *value)
{
    return iter_next(it, key, value);
}

void attrs_array_begin(struct attr_iter *it, struct bytes body)
{
    iter_begin(it, body);
}

bool attrs_array_next(struct attr_iter *it, struct attr_value *value)
{
    return iter_next(it, NULL, value);
}

bool attrs_get(struct bytes canonical, struct bytes key, struct attr_value *out)
{
    struct attr_iter it;
    struct attr_value v;
    struct bytes k;

    attrs_begin(&it, canonical);
    while (attrs_next(&it, &k, &v)) {
        int c = bytes_compare(k, key);

        if (c == 0) {
            *out = v;
            return true;
        }
        if (c > 0) /* sorted: it cannot follow */
            return false;
    }
    return false;
}

static bool take_minimal_varint(struct bytes *in, uint64_t *out)
{
    struct bytes before = *in;

    /* A last byte of 0 behind others is padding: the same number in two forms. */
    return take_varint(in, out) && (before.n - in->n == 1 || in->p[-1] != 0);
}

static bool take_minimal_sized(struct bytes *in, struct bytes *out)
{
    uint64_t n;

    return take_minimal_varint(in, &n) && n <= in->n && take(in, (size_t)n, out);
}

static bool valid_kvlist(struct bytes *in, unsigned depth);

static bool valid_value(struct bytes *in, unsigned depth)
{
    struct attr_value v;
    struct bytes s;
    uint64_t n;
    uint8_t kind, c;

    if (depth > ATTRS_MAX_DEPTH || !take_byte(in, &kind))
        return false;
    switch (kind) {
    case ATTR_STRING:
        return take_minimal_sized(in, &s) && utf8_valid(s);
    case ATTR_BYTES:
        return take_minimal_sized(in, &s);
    case ATTR_BOOL:
        return take_byte(in, &c) && c <= 1;
    case ATTR_DOUBLE:
        s = *in;
        if (!take_scalar(in, kind, &v))
            return false;
        return !isnan(v.d) || memcmp(s.p, "\x7f\xf8\0\0\0\0\0", 8) == 0;
    case ATTR_ARRAY:
        if (!take_minimal_varint(in, &n))
            return false;
        for (; n > 0; n--) {
            if (!valid_value(in, depth + 1))
                return false;
        }
        return true;
    case ATTR_KVLIST:
        return valid_kvlist(in, depth + 1);
    default:
        return take_scalar(in, kind, &v);
    }
}

static bool valid_kvlist(struct bytes *in, unsigned depth)
{
    struct bytes last = {0}, key;
    uint64_t n;

    if (!take_minimal_varint(in, &n))
        return false;
    /* The first key is compared with the empty key, which is not allowed either. */
    for (; n > 0; n--) {
        if (!take_minimal_sized(in, &key) || !utf8_valid(key) || bytes_compare(last, key) >= 0 ||
            !valid_value(in, depth))
            return false;
        last = key;
    }
    return true;
}

bool attrs_valid(struct bytes canonical)
{
    struct bytes rest = canonical;

    return valid_kvlist(&rest, 1) && rest.n == 0;
}

static void json_double(double d, struct buf *out)
{
    if (isnan(d))
        buf_add_str(out, "\"NaN\"");
    else if (isinf(d))
        buf_add_str(out, d > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    else
        buf_add_double(out, d);
}

static void json_base64(struct bytes s, struct buf *out)
{
    buf_add_char(out, '"');
    buf_add_base64(out, s);
    buf_add_char(out, '"');
}

/* The JSON writers below append one complete JSON value whatever they meet, and give false when the
 * bytes were damaged, so that the callers only have to close what they opened. */

static bool people_value(struct bytes *in, struct buf *out, unsigned depth);

static bool people_list(struct bytes *in, struct buf *out, bool pairs, unsigned depth)
{
    struct bytes key;
    uint64_t n;
    bool ok = take_varint(in, &n);

    buf_add_char(out, pairs ? '{' : '[');
    for (uint64_t i = 0; ok && i < n; i++) {
        if (pairs && !take_sized(in, &key)) {
            ok = false;
            break;
        }
        if (i > 0)
            buf_add_char(out, ',');
        if (pairs) {
            buf_add_json_string(out, key);
            buf_add_char(out, ':');
        }
        ok = people_value(in, out, depth);
    }
    buf_add_char(out, pairs ? '}' : ']');
    return ok;
}

static bool people_value(struct bytes *in, struct buf *out, unsigned depth)
{
    struct attr_value v;
    uint8_t kind;

    if (depth > ATTRS_MAX_DEPTH || !take_byte(in, &kind)) {
        buf_add_str(out, "null");
        return false;
    }
    if (kind == ATTR_ARRAY || kind == ATTR_KVLIST)
        return people_list(in, out, kind == ATTR_KVLIST, depth + 1);
    if (!take_scalar(in, kind, &v)) {
        buf_add_str(out, "null");
        return false;
    }
    switch (v.kind) {
    case ATTR_STRING:
        buf_add_json_string(out, v.s);
        break;
    case ATTR_BYTES:
        json_base64(v.s, out);
        break;
    case ATTR_BOOL:
        buf_add_str(out, v.b ? "true" : "false");
        break;
    case ATTR_INT:
        buf_printf(out, "%" PRId64, v.i);
        break;
    case ATTR_DOUBLE:
        json_double(v.d, out);
        break;
    case ATTR_EMPTY:
    case ATTR_ARRAY:
    case ATTR_KVLIST:
        buf_add_str(out, "null");
        break;
    }
    return true;
}

static bool otlp_value(struct bytes *in, struct buf *out, unsigned depth);

static bool otlp_list(struct bytes *in, struct buf *out, bool pairs, unsigned depth)
{
    struct bytes key;
    uint64_t n;
    bool ok = take_varint(in, &n);

    buf_add_char(out, '[');
    for (uint64_t i = 0; ok && i < n; i++) {
        if (pairs && !take_sized(in, &key)) {
            ok = false;
            break;
        }
        if (i > 0)
            buf_add_char(out, ',');
        if (pairs) {
            buf_add_str(out, "{\"key\":");
            buf_add_json_string(out, key);
            buf_add_str(out, ",\"value\":");
        }
        ok = otlp_value(in, out, depth);
        if (pairs)
            buf_add_char(out, '}');
    }
    buf_add_char(out, ']');
    return ok;
}

static bool otlp_value(struct bytes *in, struct buf *out, unsigned depth)
{
    struct attr_value v;
    uint8_t kind;
    bool ok = true;

    if (depth > ATTRS_MAX_DEPTH || !take_byte(in, &kind)) {
        buf_add_str(out, "{}");
        return false;
    }
    if (kind == ATTR_ARRAY || kind == ATTR_KVLIST) {
        buf_add_str(out, kind == ATTR_ARRAY ? "{\"arrayValue\":{\"values\":"
                                            : "{\"kvlistValue\":{\"values\":");
        ok = otlp_list(in, out, kind == ATTR_KVLIST, depth + 1);
        buf_add_str(out, "}}");
        return ok;
    }
    if (!take_scalar(in, kind, &v)) {
        buf_add_str(out, "{}");
        return false;
    }
    buf_add_char(out, '{');
    switch (v.kind) {
    case ATTR_STRING:
        buf_add_str(out, "\"stringValue\":");
        buf_add_json_string(out, v.s);
        break;
    case ATTR_BYTES:
        buf_add_str(out, "\"bytesValue\":");
        json_base64(v.s, out);
        break;
    case ATTR_BOOL:
        buf_add_str(out, v.b ? "\"boolValue\":true" : "\"boolValue\":false");
        break;
    case ATTR_INT: /* a string, as ProtoJSON writes 64-bit integers */
        buf_printf(out, "\"intValue\":\"%" PRId64 "\"", v.i);
        break;
    case ATTR_DOUBLE:
        buf_add_str(out, "\"doubleValue\":");
        json_double(v.d, out);
        break;
    case ATTR_EMPTY:
    case ATTR_ARRAY:
    case ATTR_KVLIST:
        break;
    }
    buf_add_char(out, '}');
    return true;
}

void attrs_to_json(struct bytes canonical, struct buf *out)
{
    (void)people_list(&canonical, out, true, 1);
}

void attr_value_to_text(const struct attr_value *v, struct buf *out)
{
    struct bytes body = v->s;

    switch (v->kind) {
    case ATTR_EMPTY:
        buf_add_str(out, "null");
        break;
    case ATTR_STRING:
        buf_add_bytes(out, v->s);
        break;
    case ATTR_BOOL:
        buf_add_str(out, v->b ? "true" : "false");
        break;
    case ATTR_INT:
        buf_printf(out, "%" PRId64, v->i);
        break;
    case ATTR_DOUBLE:
        if (isnan(v->d))
            buf_add_str(out, "NaN");
        else if (isinf(v->d))
            buf_add_str(out, v->d > 0 ? "Infinity" : "-Infinity");
        else
            buf_add_double(out, v->d);
        break;
    case ATTR_BYTES:
        buf_add_base64(out, v->s);
        break;
    case ATTR_ARRAY:
    case ATTR_KVLIST:
        /* Depth 2: the value stands in a list that stood at 1. */
        (void)people_list(&body, out, v->kind == ATTR_KVLIST, 2);
        break;
    }
}

void attrs_to_otlp_json(struct bytes canonical, struct buf *out)
{
    (void)otlp_list(&canonical, out, true, 1);
}
