#include "answer.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sums of the same numbers in another order. */
static const double tolerance = 1e-9;

void answer_fini(struct answer *a)
{
    free(a->rows);
    memset(a, 0, sizeof(*a));
}

void answer_reset(struct answer *a)
{
    a->n = 0;
    a->failed = false;
}

void answer_add(struct answer *a, uint32_t group, uint32_t window, double value, double second)
{
    if (a->n == a->cap) {
        size_t cap = a->cap == 0 ? 1024 : 2 * a->cap;
        struct answer_row *rows = a->failed ? NULL : reallocarray(a->rows, cap, sizeof(*rows));

        if (rows == NULL) {
            a->failed = true;
            return;
        }
        a->rows = rows;
        a->cap = cap;
    }
    a->rows[a->n++] =
        (struct answer_row){.group = group, .window = window, .values = {value, second}};
}

static int by_key(const void *a, const void *b)
{
    const struct answer_row *x = a, *y = b;

    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return (x->window > y->window) - (x->window < y->window);
}

void answer_sort(struct answer *a)
{
    if (a->n > 0)
        qsort(a->rows, a->n, sizeof(*a->rows), by_key);
}

/* A number and the separator behind it, if there is one; NAN for nothing. */
static bool take_number(const char **at, const char *end, double *out)
{
    char *stop;

    if (*at == end || **at == '\t' || **at == ',') {
        *out = (double)NAN;
    } else {
        *out = strtod(*at, &stop);
        if (stop == *at || stop > end)
            return false;
        *at = stop;
    }
    if (*at == end)
        return true;
    if (**at != '\t' && **at != ',')
        return false;
    ++*at;
    return true;
}

bool answer_parse(struct answer *a, const char *text, size_t n)
{
    const char *at = text, *end = text + n;

    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        const char *stop = line_end == NULL ? end : line_end;
        double numbers[4] = {0};
        unsigned got = 0;

        if (stop > at && stop[-1] == '\r')
            stop--;
        if (at < stop && !isalpha((unsigned char)*at)) {
            while (got < 4 && at < stop) {
                if (!take_number(&at, stop, &numbers[got]))
                    return false;
                got++;
            }
            if (got < 3 || at < stop || !(numbers[0] >= 0 && numbers[0] <= UINT32_MAX) ||
                !(numbers[1] >= 0 && numbers[1] <= UINT32_MAX))
                return false;
            answer_add(a, (uint32_t)numbers[0], (uint32_t)numbers[1], numbers[2], numbers[3]);
        }
        at = line_end == NULL ? end : line_end + 1;
    }
    return true;
}

static bool near(double x, double y)
{
    double greater = fabs(x) > fabs(y) ? fabs(x) : fabs(y);

    return (isnan(x) && isnan(y)) || x == y || fabs(x - y) <= tolerance * greater;
}

bool answer_equal(const struct answer *want, const struct answer *got, struct otl_error *err)
{
    if (want->failed || got->failed) {
        (void)otl_fail(err, OTL_ENOMEM, "no memory for the answers");
        return false;
    }
    for (size_t i = 0; i < want->n && i < got->n; i++) {
        const struct answer_row *w = &want->rows[i], *g = &got->rows[i];

        if (w->group == g->group && w->window == g->window && near(w->values[0], g->values[0]) &&
            near(w->values[1], g->values[1]))
            continue;
        (void)otl_fail(err, OTL_EBADDATA,
                       "row %zu should be group %u window %u %.17g %.17g and is group %u window %u "
                       "%.17g %.17g",
                       i, w->group, w->window, w->values[0], w->values[1], g->group, g->window,
                       g->values[0], g->values[1]);
        return false;
    }
    if (want->n != got->n) {
        (void)otl_fail(err, OTL_EBADDATA, "%zu rows are right and %zu came", want->n, got->n);
        return false;
    }
    return true;
}
