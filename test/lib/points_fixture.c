#include "points_fixture.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "random.h"

static int64_t bits_of(double d)
{
    int64_t v;

    memcpy(&v, &d, sizeof(v));
    return v;
}

static int64_t any_int(unsigned look, size_t i)
{
    static const int64_t edges[] = {INT64_MIN, INT64_MAX, 0, -1, 1, INT64_MIN + 1};

    switch (look) {
    case 0:
        return 7;
    case 1:
        return -3 + 10 * (int64_t)i;
    case 2: /* a counter */
        return INT64_C(1000000) * (int64_t)i + random_below(1000);
    case 3:
        return (int64_t)random_below(5) - 2;
    case 4:
        return (int64_t)random_u64();
    case 5: /* a quadratic one, for the differences of differences */
        return (int64_t)(i * i) + random_below(3);
    case 6: /* small ones with an outlier now and then */
        return random_below(40) == 0 ? (int64_t)(random_u64() >> 20) : (int64_t)random_below(4);
    default:
        return edges[random_below(6)];
    }
}

static int64_t any_double(unsigned look, size_t i)
{
    static const uint64_t odd[] = {
        UINT64_C(0x8000000000000000),                               /* -0.0 */
        UINT64_C(0x7ff0000000000000), UINT64_C(0xfff0000000000000), /* infinities */
        UINT64_C(0x7ff8000000000000), UINT64_C(0x7ff8000000000001), /* NaN, with payloads */
        UINT64_C(0xfff4000000001234), UINT64_C(1),                  /* subnormal */
        UINT64_C(0x7fefffffffffffff),                               /* the largest */
    };

    switch (look) {
    case 0:
        return bits_of(2.5);
    case 1:
        return bits_of((double)(1000 + random_below(200)) / 10);
    case 2:
        return bits_of((double)(int64_t)(100000 + random_below(2000)) / 100);
    case 3:
        return bits_of((double)((int64_t)random_below(2000000) - 1000000) / 1000);
    case 4: { /* any mantissa */
        double d = (double)(random_u64() >> 11) * 0x1p-53;

        return bits_of(d);
    }
    case 5:
        return (int64_t)odd[random_below(8)];
    case 6: /* decimals with something odd now and then */
        return random_below(30) == 0 ? (int64_t)odd[random_below(8)]
                                     : bits_of((double)(50 + random_below(9)) / 100);
    default:
        return bits_of((double)i * 3);
    }
}

static void add_list(struct series_points *p, int field, size_t n, unsigned look, size_t i)
{
    struct field_column *f = &p->fields[field];
    uint32_t at = field_begin(f, p->n);
    bool doubles = series_schemas[p->kind].fields[field].type == FIELD_DOUBLES;

    assert_true(series_points_reserve_list(p, field, n));
    for (size_t k = 0; k < n; k++) {
        if (doubles)
            f->v[at + k] = any_double(look, i);
        else if (look == 2 && i > 0 && at >= n) /* cumulative buckets */
            f->v[at + k] = f->v[at + k - n] + random_below(3);
        else
            f->v[at + k] = any_int(look, i);
    }
    f->end[p->n] = at + (uint32_t)n;
}

static void add_bytes(struct series_points *p, int field, unsigned look)
{
    struct field_column *f = &p->fields[field];
    size_t n = look == 0 ? 0 : look == 1 ? 16 : look == 2 ? random_below(30) : random_below(200);

    assert_true(series_points_reserve_list(p, field, n));
    for (size_t k = 0; k < n; k++) /* of few letters, so that deflating helps, or of any bytes */
        buf_add_char(&f->bytes, (char)(look == 3 ? 'a' + random_below(3) : random_u64()));
    f->end[p->n] = (uint32_t)f->bytes.n;
}

/* Rows have their min, max and increase when they count values, or those would look as if they
 * followed from first and last. In some rows they do follow. */
static void settle_rollup(struct series_points *p, size_t i)
{
    static const int fields[] = {NUMBER_ROLLUP_MIN, NUMBER_ROLLUP_MAX, NUMBER_ROLLUP_INCREASE};
    struct field_column *first = &p->fields[NUMBER_ROLLUP_FIRST];
    struct field_column *last = &p->fields[NUMBER_ROLLUP_LAST];
    bool whole = random_below(2) == 0;

    for (int k = 0; k < 3 && !whole; k++) {
        if (p->fields[fields[k]].kind[i] == VALUE_NONE)
            p->fields[NUMBER_ROLLUP_COUNT].v[i] = 0;
    }
    if (!whole)
        return;
    first->kind[i] = last->kind[i] = VALUE_INT;
    first->v[i] = random_below(1000);
    last->v[i] = first->v[i] + random_below(1000);
    p->fields[NUMBER_ROLLUP_COUNT].v[i] = 30;
    for (int k = 0; k < 3; k++)
        p->fields[fields[k]].kind[i] = VALUE_DOUBLE;
    p->fields[NUMBER_ROLLUP_MIN].v[i] = bits_of((double)first->v[i]);
    p->fields[NUMBER_ROLLUP_MAX].v[i] = bits_of((double)last->v[i]);
    p->fields[NUMBER_ROLLUP_INCREASE].v[i] = bits_of((double)(last->v[i] - first->v[i]));
}

static void add_point(struct series_points *p, unsigned shape, size_t i)
{
    const struct series_schema *schema = &series_schemas[p->kind];
    int64_t time = p->n > 0 ? p->time[p->n - 1] : INT64_C(1800000000000000000);

    assert_true(series_points_reserve(p, 1));
    p->time[p->n] = time + INT64_C(10000000000) +
                    (shape % 3 == 1 ? (int64_t)random_below(2000000) : 0) +
                    (shape % 3 == 2 && random_below(9) == 0 ? (int64_t)(random_u64() >> 20) : 0);
    p->start_time[p->n] = shape % 4 == 3 ? p->time[p->n] - 5 : INT64_C(1799999999000000001);
    p->flags[p->n] = shape % 5 == 4 ? random_below(2) : 0;
    for (int f = 0; f < schema->n_fields; f++) {
        struct field_column *c = &p->fields[f];
        unsigned look = (shape + (unsigned)f) % 8;
        unsigned kinds = (shape + (unsigned)f) % PF_SHAPES;

        switch (schema->fields[f].type) {
        case FIELD_INT:
            c->v[p->n] = any_int(look, i);
            break;
        case FIELD_DOUBLE:
            c->kind[p->n] =
                kinds == 0 || (kinds == 1 && random_below(2) != 0) ? VALUE_NONE : VALUE_DOUBLE;
            c->v[p->n] = c->kind[p->n] == VALUE_NONE ? 0 : any_double(look, i);
            break;
        case FIELD_VALUE:
            c->kind[p->n] = (uint8_t)(kinds < 5        ? VALUE_DOUBLE
                                      : kinds < 9      ? VALUE_INT
                                      : kinds == 9     ? random_below(3)
                                      : kinds == 10    ? VALUE_NONE
                                      : shape % 2 == 0 ? 2 * random_below(2)
                                                       : random_below(2));
            c->v[p->n] = c->kind[p->n] == VALUE_NONE     ? 0
                         : c->kind[p->n] == VALUE_DOUBLE ? any_double(look, i)
                                                         : any_int(look, i);
            break;
        case FIELD_INTS:
        case FIELD_DOUBLES:
            add_list(p, f, kinds == 0 ? 0 : kinds < 6 ? 12 : random_below(kinds), look, i);
            break;
        case FIELD_BYTES:
            add_bytes(p, f, look % 4);
            break;
        }
    }
    if (p->kind == KIND_NUMBER_ROLLUP)
        settle_rollup(p, p->n);
    p->n++;
}

void pf_add(struct series_points *p, size_t n, unsigned shape)
{
    for (size_t i = 0; i < n; i++)
        add_point(p, shape, i);
}

void pf_line(struct buf *out, int64_t series_id, const struct series_points *p, size_t i)
{
    const struct series_schema *schema = &series_schemas[p->kind];

    buf_printf(out, "%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64, series_id, p->time[i],
               p->start_time[i], p->flags[i]);
    for (int k = 0; k < schema->n_fields; k++) {
        const struct field_column *f = &p->fields[k];
        enum field_type t = schema->fields[k].type;
        uint32_t begin;

        buf_add_char(out, ' ');
        if (t == FIELD_INT || ((t == FIELD_VALUE) && f->kind[i] == VALUE_INT)) {
            buf_printf(out, "i%" PRId64, f->v[i]);
            continue;
        }
        if (t == FIELD_DOUBLE || t == FIELD_VALUE) {
            if (f->kind[i] == VALUE_NONE)
                buf_add_char(out, '-');
            else
                buf_printf(out, "d%016" PRIx64, (uint64_t)f->v[i]);
            continue;
        }
        begin = field_begin(f, i);
        if (t == FIELD_BYTES) {
            buf_add_char(out, 'x');
            if (f->end[i] > begin)
                buf_add_hex(out, bytes_of(f->bytes.p + begin, f->end[i] - begin));
            continue;
        }
        buf_add_char(out, '[');
        for (uint32_t at = begin; at < f->end[i]; at++) {
            if (at > begin)
                buf_add_char(out, ',');
            if (t == FIELD_INTS)
                buf_printf(out, "i%" PRId64, f->v[at]);
            else
                buf_printf(out, "d%016" PRIx64, (uint64_t)f->v[at]);
        }
        buf_add_char(out, ']');
    }
    buf_add_char(out, '\n');
}
