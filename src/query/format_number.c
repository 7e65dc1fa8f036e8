#include "format_number.h"
#include "shortest.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* "NaN" and the infinities. False: it is finite. */
static bool special(struct buf *out, double d)
{
    if (isnan(d))
        buf_add_str(out, "NaN");
    else if (isinf(d))
        buf_add_str(out, d > 0 ? "+Inf" : "-Inf");
    else
        return false;
    return true;
}

/* The fewest digits that read back equal, as d.ddde+XX in text; 15 do for most, 17 for all. */
static void shortest(double d, char text[64], int *digits, int *exponent)
{
    int n = 1, least = 1, most = 17;

    /* What n digits tell, more do as well. */
    while (least < most) {
        n = (least + most) / 2;
        snprintf(text, 64, "%.*e", n - 1, d);
        if (strtod(text, NULL) == d)
            most = n;
        else
            least = n + 1;
    }
    snprintf(text, 64, "%.*e", least - 1, d);
    *digits = least;
    *exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
}

/* Digits with the point where it belongs, zeros where there are no digits. */
static void add_plain(struct buf *out, bool negative, uint64_t digits, int exponent)
{
    char text[64];
    size_t at = sizeof(text);

    for (; exponent < 0; exponent++) {
        text[--at] = (char)('0' + digits % 10);
        digits /= 10;
        if (exponent == -1)
            text[--at] = '.';
    }
    for (; exponent > 0; exponent--)
        text[--at] = '0';
    do {
        text[--at] = (char)('0' + digits % 10);
        digits /= 10;
    } while (digits > 0);
    if (negative)
        text[--at] = '-';
    buf_add(out, text + at, sizeof(text) - at);
}

void format_float(struct buf *out, double d)
{
    char text[64];
    int digits, exponent, behind;
    uint64_t known;

    if (special(out, d))
        return;
    if (d == floor(d) && fabs(d) < 1e15) {
        if (d == 0)
            buf_add_str(out, signbit(d) ? "-0" : "0");
        else
            add_plain(out, d < 0, (uint64_t)fabs(d), 0);
        return;
    }
    if (shortest_digits(fabs(d), &known, &digits, &exponent)) {
        add_plain(out, d < 0, known, exponent);
        return;
    }
    shortest(d, text, &digits, &exponent);
    behind = digits - 1 - exponent;
    if (behind >= 0) {
        buf_printf(out, "%.*f", behind, d);
        return;
    }
    /* The digits that are known, then zeros: printf would go on with those of the binary value. */
    for (const char *p = text; *p != 'e'; p++) {
        if (*p != '.')
            buf_add_char(out, *p);
    }
    for (int i = 0; i < -behind; i++)
        buf_add_char(out, '0');
}

void format_general(struct buf *out, double d)
{
    char text[64];
    int digits, exponent;

    if (special(out, d))
        return;
    shortest(d, text, &digits, &exponent);
    if (d != 0 && (exponent < -4 || exponent >= 21))
        buf_add_str(out, text);
    else
        format_float(out, d);
}

void format_g(struct buf *out, double d)
{
    char text[FORMAT_G_MAX];

    buf_add_str(out, format_g_text(d, text));
}

const char *format_g_text(double d, char out[FORMAT_G_MAX])
{
    char text[64];
    int digits, exponent;

    if (isnan(d))
        return "NaN";
    if (isinf(d))
        return d > 0 ? "+Inf" : "-Inf";
    shortest(d, text, &digits, &exponent);
    if (exponent < -4 || exponent >= 6)
        snprintf(out, FORMAT_G_MAX, "%.*e", digits - 1, d);
    else
        snprintf(out, FORMAT_G_MAX, "%.*f", digits - 1 > exponent ? digits - 1 - exponent : 0, d);
    return out;
}

void format_ms(struct buf *out, int64_t ms)
{
    uint64_t u = ms < 0 ? -(uint64_t)ms : (uint64_t)ms;
    int exponent = -3;

    while (exponent < 0 && u % 10 == 0) {
        u /= 10;
        exponent++;
    }
    add_plain(out, ms < 0, u, exponent);
}
