/* number.c -- the shortest text of a number. */
#include "number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *number_g(double d, char text[NUMBER_TEXT_MAX])
{
    int digits = 1;
    long exponent;

    if (isnan(d))
        return "NaN";
    if (isinf(d))
        return d > 0 ? "+Inf" : "-Inf";
    for (; digits < 17; digits++) {
        snprintf(text, NUMBER_TEXT_MAX, "%.*e", digits - 1, d);
        if (strtod(text, NULL) == d)
            break;
    }
    snprintf(text, NUMBER_TEXT_MAX, "%.*e", digits - 1, d);
    exponent = strtol(strchr(text, 'e') + 1, NULL, 10);
    if (exponent >= -4 && exponent < 6)
        snprintf(text, NUMBER_TEXT_MAX, "%.*f",
                 digits - 1 > exponent ? (int)(digits - 1 - exponent) : 0, d);
    return text;
}

void number_print_g(struct buf *out, double d)
{
    char text[NUMBER_TEXT_MAX];

    buf_add_str(out, number_g(d, text));
}
