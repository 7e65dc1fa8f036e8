#include "http/form.h"

#include <stdlib.h>

bool form_init(struct form *f, size_t bytes)
{
    *f = (struct form){.bytes = malloc(bytes + 1)};
    return f->bytes != NULL;
}

void form_fini(struct form *f)
{
    free(f->params);
    free(f->bytes);
    *f = (struct form){0};
}

static int hex(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
}

size_t form_decode(struct bytes text, bool plus, uint8_t *out)
{
    size_t n = 0;

    for (size_t i = 0; i < text.n; i++) {
        uint8_t c = text.p[i];

        if (c == '+' && plus) {
            c = ' ';
        } else if (c == '%' && text.n - i > 2 && hex(text.p[i + 1]) >= 0 &&
                   hex(text.p[i + 2]) >= 0) {
            c = (uint8_t)(hex(text.p[i + 1]) << 4 | hex(text.p[i + 2]));
            i += 2;
        }
        out[n++] = c;
    }
    return n;
}

static struct bytes decoded(struct form *f, struct bytes text)
{
    uint8_t *to = f->bytes + f->used;
    size_t n = form_decode(text, true, to);

    f->used += n;
    return bytes_of(to, n);
}

static bool add_pair(struct form *f, struct bytes pair)
{
    const uint8_t *equals = memchr(pair.p, '=', pair.n);
    size_t name_n = equals == NULL ? pair.n : (size_t)(equals - pair.p);

    if (f->n == f->cap) {
        size_t cap = f->cap == 0 ? 8 : 2 * f->cap;
        struct query_param *more = reallocarray(f->params, cap, sizeof(*more));

        if (more == NULL)
            return false;
        f->params = more;
        f->cap = cap;
    }
    f->params[f->n].name = decoded(f, bytes_of(pair.p, name_n));
    f->params[f->n].value =
        equals == NULL ? bytes_of(NULL, 0) : decoded(f, bytes_of(equals + 1, pair.n - name_n - 1));
    f->n++;
    return true;
}

bool form_add(struct form *f, struct bytes text)
{
    for (size_t i = 0, end; i < text.n; i = end + 1) {
        const uint8_t *amp = memchr(text.p + i, '&', text.n - i);

        end = amp == NULL ? text.n : (size_t)(amp - text.p);
        if (end > i && !add_pair(f, bytes_of(text.p + i, end - i)))
            return false;
    }
    return true;
}
