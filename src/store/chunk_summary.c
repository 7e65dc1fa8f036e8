/* chunk_summary.c -- what a chunk's values come to, and which streams it has. */
#include <math.h>
#include <stdio.h>
#include <zlib.h>

#include "block_internal.h"

const uint8_t BLOCK_MAGIC[4] = {'o', 't', 'l', 'b'};

uint32_t block_checksum(uint32_t before, struct bytes b)
{
    return (uint32_t)crc32_z(before, b.p, b.n);
}

/* ---- streams ---- */

uint32_t field_stream_count(enum field_type t)
{
    switch (t) {
    case FIELD_DOUBLE:
    case FIELD_DOUBLES:
        return 2;
    case FIELD_VALUE:
    case FIELD_INTS:
        return 3;
    case FIELD_INT:
    case FIELD_BYTES:
        break;
    }
    return 1;
}

uint32_t block_stream_count(enum series_kind kind)
{
    const struct series_schema *schema = &series_schemas[kind];
    uint32_t n = STREAM_FIELDS;

    for (int i = 0; i < schema->n_fields; i++)
        n += field_stream_count(schema->fields[i].type);
    return n;
}

void block_stream_name(enum series_kind kind, uint32_t s, char *out, size_t size)
{
    static const char *const of_all[] = {"time", "start_time", "flags"};
    static const char *const of_values[] = {"kinds", "doubles", "ints"};
    static const char *const of_lists[] = {"lengths", "values", "first"};
    const struct series_schema *schema = &series_schemas[kind];

    if (s < STREAM_FIELDS) {
        (void)snprintf(out, size, "%s", of_all[s]);
        return;
    }
    s -= STREAM_FIELDS;
    for (int i = 0; i < schema->n_fields; i++) {
        const struct field *f = &schema->fields[i];
        uint32_t n = field_stream_count(f->type);

        if (s >= n) {
            s -= n;
            continue;
        }
        if (n == 1)
            (void)snprintf(out, size, "%s", f->name);
        else
            (void)snprintf(out, size, "%s.%s", f->name,
                           f->type == FIELD_INTS || f->type == FIELD_DOUBLES ? of_lists[s]
                                                                             : of_values[s]);
        return;
    }
}

/* ---- the summary ---- */

/* A value on its way through a chunk. */
struct number {
    int64_t time;
    bool is_int;
    int64_t i;
    double d; /* of an int, too */
};

static struct number number_at(const struct series_points *p, size_t i)
{
    const struct field_column *f = &p->fields[NUMBER_VALUE];
    struct number v = {.time = p->time[i], .is_int = f->kind[i] == VALUE_INT, .i = f->v[i]};

    if (v.is_int)
        v.d = (double)v.i;
    else
        memcpy(&v.d, &f->v[i], sizeof(v.d));
    return v;
}

/* What b adds to a counter that stood at a before. */
static double increase_of(const struct number *a, const struct number *b, int64_t start_time)
{
    bool ints = a->is_int && b->is_int;
    int64_t difference;

    if ((ints ? b->i < a->i : b->d < a->d) || start_time > a->time)
        return b->d;
    if (ints && !__builtin_sub_overflow(b->i, a->i, &difference))
        return (double)difference;
    return b->d - a->d;
}

/* Every point has a number of this kind, as nearly always; false: no, one is NaN. The same
 * additions in the same order as summarize_numbers makes. */
static inline bool summarize_alike(const struct series_points *p, size_t first, size_t n, bool ints,
                                   struct chunk_summary *s)
{
    const int64_t *v = p->fields[NUMBER_VALUE].v, *time = p->time, *start = p->start_time;
    struct number before = {.time = time[first], .is_int = ints, .i = v[first]}, now = before;
    double sum = 0, increase = 0, min = (double)INFINITY, max = -(double)INFINITY;

    for (size_t i = first; i < first + n; i++) {
        now.time = time[i];
        now.i = v[i];
        if (ints)
            now.d = (double)v[i];
        else
            memcpy(&now.d, &v[i], sizeof(now.d));
        if (isnan(now.d))
            return false;
        if (i > first)
            increase += increase_of(&before, &now, start[i]);
        sum += now.d;
        min = now.d < min || i == first ? now.d : min;
        max = now.d > max || i == first ? now.d : max;
        before = now;
    }
    s->n_values = (uint32_t)n;
    s->first_kind = s->last_kind = ints ? VALUE_INT : VALUE_DOUBLE;
    s->first = v[first];
    s->last = v[first + n - 1];
    s->first_value_time = time[first];
    s->first_value_start = start[first];
    s->last_value_time = time[first + n - 1];
    s->sum = sum;
    s->min = min;
    s->max = max;
    s->increase = increase;
    return true;
}

static bool are_alike(const struct series_points *p, size_t first, size_t n)
{
    const uint8_t *kind = p->fields[NUMBER_VALUE].kind + first;
    int64_t flags = 0;

    for (size_t i = first; i < first + n; i++)
        flags |= p->flags[i];
    return (flags & FLAG_NO_RECORDED_VALUE) == 0 && kind[0] != VALUE_NONE &&
           memcmp(kind, kind + 1, n - 1) == 0;
}

static void summarize_numbers(const struct series_points *p, size_t first, size_t n,
                              struct chunk_summary *s)
{
    const struct field_column *f = &p->fields[NUMBER_VALUE];
    struct number before = {0};

    for (size_t i = first; i < first + n; i++) {
        struct number v;

        if ((p->flags[i] & FLAG_NO_RECORDED_VALUE) != 0 || f->kind[i] == VALUE_NONE)
            continue;
        if (s->first_kind == VALUE_NONE) {
            s->first_kind = (enum value_kind)f->kind[i];
            s->first = f->v[i];
            s->first_value_time = p->time[i];
            s->first_value_start = p->start_time[i];
        }
        s->last_kind = (enum value_kind)f->kind[i];
        s->last = f->v[i];
        s->last_value_time = p->time[i];
        v = number_at(p, i);
        if (isnan(v.d)) {
            s->n_nan++;
            continue;
        }
        if (s->n_values == 0) {
            s->min = s->max = v.d;
        } else {
            s->increase += increase_of(&before, &v, p->start_time[i]);
            if (v.d < s->min)
                s->min = v.d;
            if (v.d > s->max)
                s->max = v.d;
        }
        s->sum += v.d;
        s->n_values++;
        before = v;
    }
}

void chunk_summarize(const struct series_points *p, size_t first, size_t n, int64_t series_id,
                     struct chunk_summary *out)
{
    *out = (struct chunk_summary){
        .series_id = series_id,
        .min_time = p->time[first],
        .max_time = p->time[first + n - 1],
        .n = (uint32_t)n,
    };
    if (p->kind != KIND_NUMBER)
        return;
    if (are_alike(p, first, n) && (p->fields[NUMBER_VALUE].kind[first] == VALUE_INT
                                       ? summarize_alike(p, first, n, true, out)
                                       : summarize_alike(p, first, n, false, out)))
        return;
    summarize_numbers(p, first, n, out);
}
