/* series_points.c -- the columns of one series in memory: growing, copying, ordering, merging. Rows
 * of the head tables to and from them are in series_points_row.c. */
#include "series_points.h"

#include <stdlib.h>
#include <string.h>

const struct series_schema series_schemas[SERIES_KINDS] = {
    [KIND_NUMBER] = {"number", 1, {{"value", FIELD_VALUE}}},
    [KIND_HISTOGRAM] = {"histogram",
                        6,
                        {{"count", FIELD_INT},
                         {"sum", FIELD_DOUBLE},
                         {"min", FIELD_DOUBLE},
                         {"max", FIELD_DOUBLE},
                         {"bounds_id", FIELD_INT},
                         {"counts", FIELD_INTS}}},
    [KIND_EXPONENTIAL] = {"exponential_histogram",
                          12,
                          {{"count", FIELD_INT},
                           {"sum", FIELD_DOUBLE},
                           {"min", FIELD_DOUBLE},
                           {"max", FIELD_DOUBLE},
                           {"scale", FIELD_INT},
                           {"zero_count", FIELD_INT},
                           {"zero_threshold", FIELD_DOUBLE},
                           {"present", FIELD_INT},
                           {"positive_offset", FIELD_INT},
                           {"positive", FIELD_INTS},
                           {"negative_offset", FIELD_INT},
                           {"negative", FIELD_INTS}}},
    [KIND_SUMMARY] = {"summary",
                      3,
                      {{"count", FIELD_INT}, {"sum", FIELD_DOUBLE}, {"quantiles", FIELD_DOUBLES}}},
    [KIND_EXEMPLAR] = {"exemplar",
                       5,
                       {{"exemplar_time", FIELD_INT},
                        {"value", FIELD_VALUE},
                        {"trace_id", FIELD_BYTES},
                        {"span_id", FIELD_BYTES},
                        {"attributes", FIELD_BYTES}}},
    [KIND_NUMBER_ROLLUP] = {"number_rollup",
                            11,
                            {{"first_time", FIELD_INT},
                             {"last_time", FIELD_INT},
                             {"count", FIELD_INT},
                             {"sum", FIELD_DOUBLE},
                             {"min", FIELD_DOUBLE},
                             {"max", FIELD_DOUBLE},
                             {"first", FIELD_VALUE},
                             {"last", FIELD_VALUE},
                             {"increase", FIELD_DOUBLE},
                             {"first_start", FIELD_INT},
                             {"n", FIELD_INT}}},
    [KIND_HISTOGRAM_ROLLUP] = {"histogram_rollup",
                               12,
                               {{"first_time", FIELD_INT},
                                {"last_time", FIELD_INT},
                                {"n", FIELD_INT},
                                {"first_start", FIELD_INT},
                                {"bounds_id", FIELD_INT},
                                {"count", FIELD_INT},
                                {"sum", FIELD_DOUBLE},
                                {"min", FIELD_DOUBLE},
                                {"max", FIELD_DOUBLE},
                                {"counts", FIELD_INTS},
                                {"first_counts", FIELD_INTS},
                                {"increase", FIELD_INTS}}},
};

static bool is_scalar(enum field_type t)
{
    return t == FIELD_INT || t == FIELD_DOUBLE || t == FIELD_VALUE;
}

static bool has_kinds(enum field_type t)
{
    return t == FIELD_DOUBLE || t == FIELD_VALUE;
}

void series_points_init(struct series_points *p, enum series_kind kind)
{
    memset(p, 0, sizeof(*p));
    p->kind = kind;
}

void series_points_fini(struct series_points *p)
{
    enum series_kind kind = p->kind;

    free(p->time);
    free(p->start_time);
    free(p->flags);
    for (int i = 0; i < SERIES_MAX_FIELDS; i++) {
        struct field_column *f = &p->fields[i];

        free(f->v);
        free(f->kind);
        free(f->end);
        buf_fini(&f->bytes);
    }
    series_points_init(p, kind);
}

void series_points_reset(struct series_points *p)
{
    const struct series_schema *schema = &series_schemas[p->kind];

    p->n = 0;
    for (int i = 0; i < schema->n_fields; i++) {
        if (schema->fields[i].type == FIELD_BYTES)
            buf_reset(&p->fields[i].bytes);
    }
}

/* ---- room ---- */

/* *p becomes an array of cap elements of size bytes; false leaves it. The pointer goes through
 * memcpy since the arrays are of different types. */
static bool grow_array(void *p, size_t cap, size_t size)
{
    void *old, *grown;

    if (cap > SIZE_MAX / size)
        return false;
    memcpy(&old, p, sizeof(old));
    grown = realloc(old, cap * size);
    if (grown == NULL)
        return false;
    memcpy(p, &grown, sizeof(grown));
    return true;
}

static size_t grown_cap(size_t cap, size_t want, size_t first)
{
    if (cap < first)
        cap = first;
    while (cap < want)
        cap += cap / 2;
    return cap;
}

static bool reserve_values(struct field_column *f, size_t cap)
{
    if (cap <= f->cap_v)
        return true;
    if (!grow_array(&f->v, cap, sizeof(*f->v)))
        return false;
    f->cap_v = cap;
    return true;
}

bool series_points_reserve(struct series_points *p, size_t n)
{
    const struct series_schema *schema = &series_schemas[p->kind];
    size_t cap;

    if (n <= p->cap - p->n)
        return true;
    if (n > UINT32_MAX - p->n)
        return false;
    cap = grown_cap(p->cap, p->n + n, 16);
    if (!grow_array(&p->time, cap, sizeof(*p->time)) ||
        !grow_array(&p->start_time, cap, sizeof(*p->start_time)) ||
        !grow_array(&p->flags, cap, sizeof(*p->flags)))
        return false;
    for (int i = 0; i < schema->n_fields; i++) {
        struct field_column *f = &p->fields[i];
        enum field_type t = schema->fields[i].type;

        if (is_scalar(t) && !reserve_values(f, cap))
            return false;
        if (has_kinds(t) && !grow_array(&f->kind, cap, sizeof(*f->kind)))
            return false;
        if (!is_scalar(t) && !grow_array(&f->end, cap, sizeof(*f->end)))
            return false;
    }
    /* Last: after a failure above the arrays are of different lengths, none below the old cap. */
    p->cap = cap;
    return true;
}

bool series_points_reserve_list(struct series_points *p, int f, size_t values)
{
    struct field_column *c = &p->fields[f];
    size_t used = field_begin(c, p->n);

    if (values > UINT32_MAX - used)
        return false; /* ends are 32 bits wide */
    if (series_schemas[p->kind].fields[f].type == FIELD_BYTES) {
        if (buf_reserve(&c->bytes, values))
            return true;
        c->bytes.failed = false; /* nothing was lost */
        return false;
    }
    if (values <= c->cap_v - used)
        return true;
    return reserve_values(c, grown_cap(c->cap_v, used + values, 64));
}

/* ---- appending ---- */

/* Points first to first + n - 1 of one column; there is room. */
static void append_field(struct series_points *p, const struct series_points *from, int i,
                         size_t first, size_t n)
{
    struct field_column *to = &p->fields[i];
    const struct field_column *f = &from->fields[i];
    enum field_type t = series_schemas[p->kind].fields[i].type;
    uint32_t at, begin, values;

    if (is_scalar(t)) {
        memcpy(to->v + p->n, f->v + first, n * sizeof(*to->v));
        if (has_kinds(t))
            memcpy(to->kind + p->n, f->kind + first, n);
        return;
    }
    at = field_begin(to, p->n);
    begin = field_begin(f, first);
    values = f->end[first + n - 1] - begin;
    if (values > 0 && t == FIELD_BYTES)
        buf_add(&to->bytes, f->bytes.p + begin, values);
    else if (values > 0)
        memcpy(to->v + at, f->v + begin, values * sizeof(*to->v));
    for (size_t k = 0; k < n; k++)
        to->end[p->n + k] = at + (f->end[first + k] - begin);
}

bool series_points_append(struct series_points *p, const struct series_points *from, size_t first,
                          size_t n)
{
    const struct series_schema *schema = &series_schemas[p->kind];

    if (n == 0)
        return true;
    if (!series_points_reserve(p, n))
        return false;
    for (int i = 0; i < schema->n_fields; i++) {
        const struct field_column *f = &from->fields[i];

        if (!is_scalar(schema->fields[i].type) &&
            !series_points_reserve_list(p, i, f->end[first + n - 1] - field_begin(f, first)))
            return false;
    }
    memcpy(p->time + p->n, from->time + first, n * sizeof(*p->time));
    memcpy(p->start_time + p->n, from->start_time + first, n * sizeof(*p->time));
    memcpy(p->flags + p->n, from->flags + first, n * sizeof(*p->time));
    for (int i = 0; i < schema->n_fields; i++)
        append_field(p, from, i, first, n);
    p->n += n;
    return true;
}

bool series_points_add_number(struct series_points *p, int64_t time, int64_t start_time,
                              uint32_t flags, enum value_kind kind, int64_t v)
{
    if (p->n == p->cap && !series_points_reserve(p, 1))
        return false;
    p->time[p->n] = time;
    p->start_time[p->n] = start_time;
    p->flags[p->n] = flags;
    p->fields[NUMBER_VALUE].v[p->n] = v;
    p->fields[NUMBER_VALUE].kind[p->n] = (uint8_t)kind;
    p->n++;
    return true;
}

/* ---- comparing, ordering ---- */

size_t series_points_lower_bound(const struct series_points *p, int64_t t)
{
    size_t low = 0, high = p->n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (p->time[mid] < t)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool field_equal(enum field_type t, const struct field_column *a, size_t i,
                        const struct field_column *b, size_t j)
{
    uint32_t at_a, at_b, n;

    if (has_kinds(t))
        return a->kind[i] == b->kind[j] && (a->kind[i] == VALUE_NONE || a->v[i] == b->v[j]);
    if (t == FIELD_INT)
        return a->v[i] == b->v[j];
    at_a = field_begin(a, i);
    at_b = field_begin(b, j);
    n = a->end[i] - at_a;
    if (b->end[j] - at_b != n)
        return false;
    if (n == 0)
        return true;
    if (t == FIELD_BYTES)
        return memcmp(a->bytes.p + at_a, b->bytes.p + at_b, n) == 0;
    return memcmp(a->v + at_a, b->v + at_b, n * sizeof(*a->v)) == 0;
}

bool series_points_equal(const struct series_points *a, size_t i, const struct series_points *b,
                         size_t j)
{
    const struct series_schema *schema = &series_schemas[a->kind];

    if (a->time[i] != b->time[j] || a->start_time[i] != b->start_time[j] ||
        a->flags[i] != b->flags[j])
        return false;
    for (int f = 0; f < schema->n_fields; f++)
        if (!field_equal(schema->fields[f].type, &a->fields[f], i, &b->fields[f], j))
            return false;
    return true;
}

static int key_compare(const struct series_points *a, size_t i, const struct series_points *b,
                       size_t j)
{
    return point_key_compare(a->time[i], a->start_time[i], b->time[j], b->start_time[j]);
}

struct place {
    int64_t time, start_time;
    size_t i;
};

static int place_compare(const void *va, const void *vb)
{
    const struct place *a = va, *b = vb;
    int c = point_key_compare(a->time, a->start_time, b->time, b->start_time);

    return c != 0 ? c : (a->i > b->i) - (a->i < b->i);
}

bool series_points_sort(struct series_points *p)
{
    struct series_points sorted;
    struct place *places;
    bool ok = true;
    size_t i = 1;

    while (i < p->n && key_compare(p, i - 1, p, i) <= 0)
        i++;
    if (i >= p->n)
        return true;
    places = calloc(p->n, sizeof(*places));
    if (places == NULL)
        return false;
    for (i = 0; i < p->n; i++)
        places[i] = (struct place){p->time[i], p->start_time[i], i};
    qsort(places, p->n, sizeof(*places), place_compare);
    series_points_init(&sorted, p->kind);
    for (i = 0; ok && i < p->n;) {
        size_t run = 1;

        while (i + run < p->n && places[i + run].i == places[i].i + run)
            run++;
        ok = series_points_append(&sorted, p, places[i].i, run);
        i += run;
    }
    free(places);
    if (ok) {
        struct series_points old = *p;

        *p = sorted;
        sorted = old;
    }
    series_points_fini(&sorted);
    return ok;
}

/* ---- merging ---- */

struct merge {
    struct series_points *out;
    const struct series_points *const *sources;
    size_t *at; /* next point of each source */
    size_t n;
    struct merge_counts counts;
    /* Of the key at hand, exemplars only: */
    struct item {
        const struct series_points *p;
        size_t i;
    } * items;
    size_t n_items, cap_items;
    uint32_t *slots; /* item + 1 by hash; n_slots of them, a power of two, are in use */
    size_t n_slots, cap_slots;
};

/* The source whose next point is the first, the oldest one of equals; n when all are done. */
static size_t first_source(const struct merge *m)
{
    size_t first = m->n;

    for (size_t s = 0; s < m->n; s++)
        if (m->at[s] < m->sources[s]->n &&
            (first == m->n ||
             key_compare(m->sources[s], m->at[s], m->sources[first], m->at[first]) < 0))
            first = s;
    return first;
}

/* How many points of source s from at on have a key below the next of every other source. */
static size_t run_before_others(const struct merge *m, size_t s)
{
    const struct series_points *p = m->sources[s];
    size_t end = p->n;

    for (size_t o = 0; o < m->n; o++) {
        size_t low = m->at[s], high = end;

        if (o == s || m->at[o] == m->sources[o]->n)
            continue;
        while (low < high) {
            size_t mid = low + (high - low) / 2;

            if (key_compare(p, mid, m->sources[o], m->at[o]) < 0)
                low = mid + 1;
            else
                high = mid;
        }
        end = low;
    }
    return end - m->at[s];
}

static void count_superseded(struct merge *m, bool equal)
{
    if (equal)
        m->counts.equal++;
    else
        m->counts.replaced++;
}

/* n points of source s, which no other source has a say in: all but those that the next one of the
 * same source supersedes. */
static bool take_run(struct merge *m, size_t s, size_t n)
{
    const struct series_points *p = m->sources[s];
    size_t first = m->at[s], end = first + n;

    for (size_t i = first; i + 1 < end; i++) {
        if (key_compare(p, i, p, i + 1) != 0)
            continue;
        if (!series_points_append(m->out, p, first, i - first))
            return false;
        count_superseded(m, series_points_equal(p, i, p, i + 1));
        first = i + 1;
    }
    m->at[s] = end;
    return series_points_append(m->out, p, first, end - first);
}

/* All points with the key of source s's next one: the last of the newest source. */
static bool take_key(struct merge *m, size_t s)
{
    const struct series_points *key = m->sources[s], *last = NULL;
    size_t key_at = m->at[s], last_at = 0;

    for (size_t o = s; o < m->n; o++) {
        const struct series_points *p = m->sources[o];

        while (m->at[o] < p->n && key_compare(p, m->at[o], key, key_at) == 0) {
            if (last != NULL)
                count_superseded(m, series_points_equal(last, last_at, p, m->at[o]));
            last = p;
            last_at = m->at[o]++;
        }
    }
    return last == NULL || series_points_append(m->out, last, last_at, 1);
}

static uint64_t exemplar_hash(const struct series_points *p, size_t i)
{
    uint64_t h = (uint64_t)p->fields[EXEMPLAR_TIME].v[i];

    h = bytes_hash(bytes_of(&p->fields[EXEMPLAR_VALUE].v[i], sizeof(int64_t)), h);
    for (int f = EXEMPLAR_TRACE_ID; f <= EXEMPLAR_ATTRIBUTES; f++) {
        const struct field_column *c = &p->fields[f];
        uint32_t begin = field_begin(c, i);

        if (c->end[i] > begin)
            h = bytes_hash(bytes_of(c->bytes.p + begin, c->end[i] - begin), h);
    }
    return h;
}

/* Is item k a copy of one at `from` or later that was seen before? Else it has been, from now on. A
 * table, because one point may come with as many exemplars as a request holds. */
static bool seen_before(struct merge *m, size_t k)
{
    const struct item *item = &m->items[k];
    size_t slot = exemplar_hash(item->p, item->i) & (m->n_slots - 1);

    for (; m->slots[slot] != 0; slot = (slot + 1) & (m->n_slots - 1)) {
        const struct item *other = &m->items[m->slots[slot] - 1];

        if (series_points_equal(item->p, item->i, other->p, other->i))
            return true;
    }
    m->slots[slot] = (uint32_t)k + 1;
    return false;
}

static bool reserve_slots(struct merge *m, size_t items)
{
    size_t n = 16;

    while (n < items * 2)
        n *= 2;
    if (n > m->cap_slots) {
        if (!grow_array(&m->slots, n, sizeof(*m->slots)))
            return false;
        m->cap_slots = n;
    }
    m->n_slots = n;
    memset(m->slots, 0, n * sizeof(*m->slots));
    return true;
}

/* All exemplars of one key: from the last mark on, each once. What the mark does away with is
 * counted as replaced. */
static bool take_exemplars(struct merge *m, size_t s)
{
    const struct series_points *key = m->sources[s];
    size_t key_at = m->at[s], from = 0;

    m->n_items = 0;
    for (size_t o = s; o < m->n; o++) {
        const struct series_points *p = m->sources[o];

        while (m->at[o] < p->n && key_compare(p, m->at[o], key, key_at) == 0) {
            if (m->n_items == m->cap_items) {
                size_t cap = grown_cap(m->cap_items, m->n_items + 1, 64);

                if (cap > UINT32_MAX || !grow_array(&m->items, cap, sizeof(*m->items)))
                    return false;
                m->cap_items = cap;
            }
            if (p->fields[EXEMPLAR_VALUE].kind[m->at[o]] == VALUE_NONE)
                from = m->n_items;
            m->items[m->n_items++] = (struct item){p, m->at[o]++};
        }
    }
    m->counts.replaced += from;
    if (m->n_items - from > 1 && !reserve_slots(m, m->n_items - from))
        return false;
    for (size_t k = from; k < m->n_items; k++) {
        if (m->n_items - from > 1 && seen_before(m, k)) {
            m->counts.equal++;
            continue;
        }
        if (!series_points_append(m->out, m->items[k].p, m->items[k].i, 1))
            return false;
    }
    return true;
}

bool series_points_merge(struct series_points *out, const struct series_points *const *sources,
                         size_t n, struct merge_counts *counts)
{
    struct merge m = {.out = out, .sources = sources, .n = n};
    bool ok = true;

    m.at = calloc(n > 0 ? n : 1, sizeof(*m.at));
    if (m.at == NULL)
        return false;
    for (size_t s; ok && (s = first_source(&m)) < n;) {
        if (out->kind == KIND_EXEMPLAR) {
            ok = take_exemplars(&m, s);
        } else {
            size_t run = run_before_others(&m, s);

            ok = run > 0 ? take_run(&m, s, run) : take_key(&m, s);
        }
    }
    free(m.at);
    free(m.items);
    free(m.slots);
    if (ok && counts != NULL)
        *counts = m.counts;
    return ok;
}
