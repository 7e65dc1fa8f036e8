#include "http/chunked.h"

#include <stdbool.h>
#include <string.h>

#include "http/head.h"

static int hex_value(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool size_digit(struct chunked *c, int v)
{
    if (c->digits == CHUNKED_MAX_DIGITS)
        return false;
    c->left = (c->digits == 0 ? 0 : c->left << 4) | (uint64_t)v;
    c->digits++;
    return true;
}

/* Visible, blank or beyond ASCII. */
static bool is_text(uint8_t b)
{
    return (b >= ' ' && b != 0x7f) || b == '\t';
}

static bool is_blank(uint8_t b)
{
    return b == ' ' || b == '\t';
}

/* Move on by one byte that is not data; false when it may not stand here. */
static bool step(struct chunked *c, uint8_t b)
{
    int v;

    switch (c->state) {
    case CHUNKED_SIZE:
        v = hex_value(b);
        if (v >= 0)
            return size_digit(c, v);
        if (c->digits == 0)
            return false;
        c->state = b == '\r' ? CHUNKED_SIZE_LF : b == ';' ? CHUNKED_EXTENSION : CHUNKED_BLANK;
        c->extra += b != '\r';
        return b == '\r' || b == ';' || is_blank(b);
    case CHUNKED_BLANK: /* only on the way to an extension */
        c->extra++;
        if (b == ';')
            c->state = CHUNKED_EXTENSION;
        return b == ';' || is_blank(b);
    case CHUNKED_EXTENSION:
        c->extra++;
        if (b == '\r')
            c->state = CHUNKED_SIZE_LF;
        return b == '\r' || is_text(b);
    case CHUNKED_SIZE_LF:
        c->digits = 0;
        c->state = c->left > 0 ? CHUNKED_DATA : CHUNKED_TRAILER;
        return b == '\n';
    case CHUNKED_DATA_CR:
        c->state = CHUNKED_DATA_LF;
        return b == '\r';
    case CHUNKED_DATA_LF:
        c->state = CHUNKED_SIZE;
        return b == '\n';
    case CHUNKED_TRAILER:
        if (b == '\r') {
            c->state = CHUNKED_END_LF;
            return true;
        }
        c->state = CHUNKED_TRAILER_NAME;
        c->extra++;
        return head_is_token(b);
    case CHUNKED_TRAILER_NAME:
        c->extra++;
        if (b == ':')
            c->state = CHUNKED_TRAILER_VALUE;
        return b == ':' || head_is_token(b);
    case CHUNKED_TRAILER_VALUE:
        c->extra++;
        if (b == '\r')
            c->state = CHUNKED_TRAILER_LF;
        return b == '\r' || is_text(b);
    case CHUNKED_TRAILER_LF:
        c->state = CHUNKED_TRAILER;
        return b == '\n';
    case CHUNKED_END_LF:
        c->state = CHUNKED_ENDED;
        return b == '\n';
    case CHUNKED_DATA:
    case CHUNKED_ENDED:
        break;
    }
    return false;
}

enum chunked_progress chunked_read(struct chunked *c, uint8_t *out, const uint8_t *in, size_t n,
                                   size_t *used, size_t *made)
{
    *used = *made = 0;
    while (c->state != CHUNKED_ENDED) {
        if (*used == n)
            return CHUNKED_MORE;
        if (c->state == CHUNKED_DATA) {
            size_t take = n - *used < c->left ? n - *used : (size_t)c->left;

            memmove(out + *made, in + *used, take);
            *made += take;
            *used += take;
            c->left -= take;
            if (c->left == 0)
                c->state = CHUNKED_DATA_CR;
        } else {
            if (!step(c, in[*used]) || c->extra > CHUNKED_MAX_EXTRA)
                return CHUNKED_BROKEN;
            (*used)++;
        }
    }
    return CHUNKED_WHOLE;
}
