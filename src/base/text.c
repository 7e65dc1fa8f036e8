/* text.c -- UTF-8, hex, base64, JSON strings, CSV fields and decimal numbers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "otlite/bytes.h"

/* Length of the well-formed UTF-8 sequence at p (1 to 4), or 0. When 0, *bad is how many bytes make
 * up the maximal ill-formed subpart (Unicode 15, table 3-7 and section 3.9). */
static size_t utf8_step(const uint8_t *p, size_t n, size_t *bad)
{
    uint8_t lo = 0x80, hi = 0xbf;
    size_t need;

    *bad = 1;
    if (p[0] < 0x80)
        return 1;
    if (p[0] >= 0xc2 && p[0] <= 0xdf) {
        need = 1;
    } else if (p[0] >= 0xe0 && p[0] <= 0xef) {
        need = 2;
        if (p[0] == 0xe0)
            lo = 0xa0;
        else if (p[0] == 0xed)
            hi = 0x9f;
    } else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        need = 3;
        if (p[0] == 0xf0)
            lo = 0x90;
        else if (p[0] == 0xf4)
            hi = 0x8f;
    } else {
        return 0;
    }
    for (size_t i = 1; i <= need; i++) {
        if (i >= n || p[i] < lo || p[i] > hi) {
            *bad = i;
            return 0;
        }
        lo = 0x80;
        hi = 0xbf;
    }
    return need + 1;
}

bool utf8_valid(struct bytes s)
{
    size_t i = 0, bad;

    while (i < s.n) {
        size_t step;

        /* Most text is ASCII: eight bytes at a time. */
        while (s.n - i >= 8) {
            uint64_t v;

            memcpy(&v, s.p + i, 8);
            if ((v & UINT64_C(0x8080808080808080)) != 0)
                break;
            i += 8;
        }
        if (i == s.n)
            break;
        step = utf8_step(s.p + i, s.n - i, &bad);
        if (step == 0)
            return false;
        i += step;
    }
    return true;
}

void utf8_repair(struct buf *b, struct bytes s)
{
    size_t i = 0, bad;

    while (i < s.n) {
        size_t step = utf8_step(s.p + i, s.n - i, &bad);

        if (step > 0) {
            buf_add(b, s.p + i, step);
            i += step;
        } else {
            buf_add(b, "\xef\xbf\xbd", 3);
            i += bad;
        }
    }
}

void buf_add_json_string(struct buf *b, struct bytes s)
{
    size_t i = 0, start = 0, bad;

    buf_add_char(b, '"');
    while (i < s.n) {
        uint8_t c = s.p[i];
        size_t step;

        if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
            i++;
            continue;
        }
        step = utf8_step(s.p + i, s.n - i, &bad);
        if (step > 1) {
            i += step;
            continue;
        }
        buf_add(b, s.p + start, i - start);
        if (step == 0) {
            buf_add(b, "\xef\xbf\xbd", 3);
            i += bad;
        } else {
            if (c == '"' || c == '\\')
                buf_printf(b, "\\%c", c);
            else if (c == '\n')
                buf_add_str(b, "\\n");
            else if (c == '\t')
                buf_add_str(b, "\\t");
            else if (c == '\r')
                buf_add_str(b, "\\r");
            else
                buf_printf(b, "\\u%04x", (unsigned)c);
            i++;
        }
        start = i;
    }
    if (start < s.n)
        buf_add(b, s.p + start, s.n - start);
    buf_add_char(b, '"');
}

static bool csv_is_plain(struct bytes s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] >= 0x7f || s.p[i] == '"' || s.p[i] == '\'' || s.p[i] == ',')
            return false;
    return s.n > 0;
}

void buf_add_csv_field(struct buf *b, struct bytes s)
{
    if (csv_is_plain(s)) {
        buf_add_bytes(b, s);
        return;
    }
    buf_add_char(b, '"');
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '"')
            buf_add_char(b, '"');
        buf_add_char(b, (char)s.p[i]);
    }
    buf_add_char(b, '"');
}

/* Doubles that are a whole number of at most 15 digits over a power of ten: what people and meters
 * write, at a tenth of printf's cost. Both are exact in a double, so their quotient is the double
 * that the text reads back as; the same text comes out of "%.15g". */
static bool add_short_decimal(struct buf *b, double d)
{
    static const double power[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9};
    char s[40];
    size_t at = sizeof(s);
    double magnitude = fabs(d);

    if (!(magnitude >= 1e-4 && magnitude < 1e15))
        return false;
    for (int k = 0; k < (int)(sizeof(power) / sizeof(power[0])); k++) {
        double scaled = magnitude * power[k];
        uint64_t digits;
        int left = k == 0 ? 1 : k;

        if (scaled >= 1e15)
            return false;
        digits = (uint64_t)(scaled + 0.5);
        if ((double)digits / power[k] != magnitude)
            continue;
        if (k == 0)
            digits *= 10;
        while (left-- > 0) {
            s[--at] = (char)('0' + digits % 10);
            digits /= 10;
        }
        s[--at] = '.';
        do {
            s[--at] = (char)('0' + digits % 10);
            digits /= 10;
        } while (digits > 0);
        if (d < 0)
            s[--at] = '-';
        buf_add(b, s + at, sizeof(s) - at);
        return true;
    }
    return false;
}

void buf_add_double(struct buf *b, double d)
{
    char s[40];
    int n = 0;

    if (add_short_decimal(b, d))
        return;
    if (d == floor(d) && fabs(d) < 1e15) {
        /* Whole and exact in 15 digits; "-0.0" comes out right as well. */
        n = snprintf(s, sizeof(s), "%.1f", d);
    } else {
        for (int digits = 15; digits <= 17; digits++) {
            n = snprintf(s, sizeof(s), "%.*g", digits, d);
            if (digits == 17 || strtod(s, NULL) == d)
                break;
        }
        if (strpbrk(s, ".en") == NULL) {
            s[n++] = '.';
            s[n++] = '0';
        }
    }
    buf_add(b, s, (size_t)n);
}

void buf_add_hex(struct buf *b, struct bytes s)
{
    static const char digit[] = "0123456789abcdef";

    if (s.n > SIZE_MAX / 2 || !buf_reserve(b, s.n * 2)) {
        b->failed = true;
        return;
    }
    for (size_t i = 0; i < s.n; i++) {
        b->p[b->n++] = (uint8_t)digit[s.p[i] >> 4];
        b->p[b->n++] = (uint8_t)digit[s.p[i] & 15];
    }
}

void buf_add_base64(struct buf *b, struct bytes s)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    if (!buf_reserve(b, s.n / 3 * 4 + 4))
        return;
    for (size_t i = 0; i < s.n; i += 3) {
        size_t have = s.n - i < 3 ? s.n - i : 3;
        uint32_t v = (uint32_t)s.p[i] << 16;
        char q[4];

        if (have > 1)
            v |= (uint32_t)s.p[i + 1] << 8;
        if (have > 2)
            v |= s.p[i + 2];
        q[0] = digit[v >> 18];
        q[1] = digit[(v >> 12) & 63];
        q[2] = have > 1 ? digit[(v >> 6) & 63] : '=';
        q[3] = have > 2 ? digit[v & 63] : '=';
        buf_add(b, q, 4);
    }
}

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool hex_decode(struct bytes in, uint8_t *out)
{
    if (in.n % 2 != 0)
        return false;
    for (size_t i = 0; i < in.n; i += 2) {
        int h = hex_digit(in.p[i]), l = hex_digit(in.p[i + 1]);

        if (h < 0 || l < 0)
            return false;
        out[i / 2] = (uint8_t)(h << 4 | l);
    }
    return true;
}

static int base64_digit(uint8_t c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+' || c == '-')
        return 62;
    if (c == '/' || c == '_')
        return 63;
    return -1;
}

bool base64_decode(struct bytes in, uint8_t *out, size_t *out_n)
{
    size_t n = in.n, o = 0;
    uint32_t acc = 0;
    unsigned bits = 0;

    /* Padding is optional, but when there it completes a group of four. */
    if (n > 0 && in.p[n - 1] == '=') {
        if (n % 4 != 0)
            return false;
        n--;
        if (in.p[n - 1] == '=')
            n--;
    }
    if (n % 4 == 1)
        return false;
    for (size_t i = 0; i < n; i++) {
        int d = base64_digit(in.p[i]);

        if (d < 0)
            return false;
        acc = acc << 6 | (uint32_t)d;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            out[o++] = (uint8_t)(acc >> bits);
        }
    }
    *out_n = o;
    return true;
}
