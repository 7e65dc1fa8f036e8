#include "rollup_follow.h"

#include <math.h>

static int64_t bits_of(double d)
{
    int64_t bits;

    memcpy(&bits, &d, sizeof(bits));
    return bits;
}

static double number_at(const struct field_column *f, size_t i)
{
    double d;

    if (f->kind[i] == VALUE_INT)
        return (double)f->v[i];
    memcpy(&d, &f->v[i], sizeof(d));
    return d;
}

bool rollup_may_follow(enum series_kind kind, int field)
{
    return kind == KIND_NUMBER_ROLLUP &&
           (field == NUMBER_ROLLUP_MIN || field == NUMBER_ROLLUP_MAX ||
            field == NUMBER_ROLLUP_INCREASE);
}

/* False: nothing follows. A NaN never does: which one it is, is up to the processor. */
static bool follow(const struct series_points *p, int field, size_t i, double *out)
{
    const struct field_column *first = &p->fields[NUMBER_ROLLUP_FIRST];
    const struct field_column *last = &p->fields[NUMBER_ROLLUP_LAST];
    int64_t difference;
    double a, b;

    if (p->fields[NUMBER_ROLLUP_COUNT].v[i] <= 0 || first->kind[i] == VALUE_NONE ||
        last->kind[i] == VALUE_NONE)
        return false;
    a = number_at(first, i);
    b = number_at(last, i);
    if (field == NUMBER_ROLLUP_MIN)
        *out = b < a ? b : a;
    else if (field == NUMBER_ROLLUP_MAX)
        *out = b > a ? b : a;
    else if (first->kind[i] == VALUE_INT && last->kind[i] == VALUE_INT &&
             !__builtin_sub_overflow(last->v[i], first->v[i], &difference))
        *out = (double)difference;
    else
        *out = b - a;
    return !isnan(*out);
}

bool rollup_follows(const struct series_points *p, int field, size_t i)
{
    const struct field_column *f = &p->fields[field];
    double d;

    return f->kind[i] == VALUE_DOUBLE && follow(p, field, i, &d) && f->v[i] == bits_of(d);
}

void rollup_complete(struct series_points *p, size_t first, size_t n)
{
    static const int fields[] = {NUMBER_ROLLUP_MIN, NUMBER_ROLLUP_MAX, NUMBER_ROLLUP_INCREASE};

    for (size_t k = 0; k < sizeof(fields) / sizeof(fields[0]); k++) {
        struct field_column *f = &p->fields[fields[k]];

        for (size_t i = first; i < first + n; i++) {
            double d;

            if (f->kind[i] != VALUE_NONE || !follow(p, fields[k], i, &d))
                continue;
            f->kind[i] = VALUE_DOUBLE;
            f->v[i] = bits_of(d);
        }
    }
}
