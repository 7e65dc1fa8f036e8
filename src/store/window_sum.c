#include "window_sum.h"

#include <math.h>

enum { LONG_RUN = 16 };
#define EXACT_INTEGERS ((double)(INT64_C(1) << 53))

static double double_of(int64_t bits)
{
    double d;

    memcpy(&d, &bits, sizeof(d));
    return d;
}

static double number_of(uint8_t kind, int64_t v)
{
    return kind == VALUE_INT ? (double)v : double_of(v);
}

/* ---- windows ---- */

void window_sums_init(struct window_sum *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        w[i] = (struct window_sum){
            .min = HUGE_VAL, .max = -HUGE_VAL, .first_time = INT64_MAX, .last_time = INT64_MIN};
}

static void note_first(struct window_sum *w, int64_t time, double v, uint32_t series)
{
    /* Of one series' points of one time the earlier counts, and that came before. */
    if (time > w->first_time || (time == w->first_time && series <= w->first_of))
        return;
    w->first_time = time;
    w->first = v;
    w->first_of = series;
}

static void note_last(struct window_sum *w, int64_t time, double v, uint32_t series)
{
    if (time < w->last_time || (time == w->last_time && series < w->last_of))
        return;
    w->last_time = time;
    w->last = v;
    w->last_of = series;
}

static bool is_empty(const struct window_sum *w)
{
    return w->count == 0 && w->n_nan == 0;
}

void window_sums_join(struct window_sum *a, const struct window_sum *b, size_t n)
{
    for (size_t i = 0; i < n; i++, a++, b++) {
        a->increase += b->increase;
        if (is_empty(b))
            continue;
        a->count += b->count;
        a->n_nan += b->n_nan;
        a->sum += b->sum;
        a->min = b->min < a->min ? b->min : a->min;
        a->max = b->max > a->max ? b->max : a->max;
        note_first(a, b->first_time, b->first, b->first_of);
        note_last(a, b->last_time, b->last, b->last_of);
    }
}

void window_sum_finish(const struct window_sum *w, struct window *out)
{
    *out = (struct window){.count = w->count, .n_nan = w->n_nan, .increase = w->increase};
    if (w->count > 0) {
        out->sum = w->sum;
        out->min = w->min;
        out->max = w->max;
    }
    if (is_empty(w))
        return;
    out->first = w->first;
    out->last = w->last;
    out->first_time = w->first_time;
    out->last_time = w->last_time;
}

/* ---- edges ---- */

double window_growth(uint8_t kind_a, int64_t a, int64_t time_a, uint8_t kind_b, int64_t b,
                     int64_t start_b)
{
    double before = number_of(kind_a, a), now = number_of(kind_b, b);
    bool ints = kind_a == VALUE_INT && kind_b == VALUE_INT;
    int64_t difference;

    if ((ints ? b < a : now < before) || start_b > time_a)
        return now;
    if (ints && !__builtin_sub_overflow(b, a, &difference))
        return (double)difference;
    return now - before;
}

bool window_edge_of_chunk(const struct chunk_summary *s, struct window_edge *out)
{
    *out = (struct window_edge){0};
    if (s->n_values == 0)
        return true;
    if ((s->first_kind == VALUE_DOUBLE && isnan(double_of(s->first))) ||
        (s->last_kind == VALUE_DOUBLE && isnan(double_of(s->last))))
        return false;
    *out = (struct window_edge){
        .first_time = s->first_value_time,
        .first_start = s->first_value_start,
        .first = s->first,
        .last_time = s->last_value_time,
        .last = s->last,
        .first_kind = (uint8_t)s->first_kind,
        .last_kind = (uint8_t)s->last_kind,
    };
    return true;
}

void window_edge_extend(struct window_edge *a, const struct window_edge *b)
{
    if (b->first_kind == VALUE_NONE)
        return;
    if (a->first_kind == VALUE_NONE) {
        *a = *b;
        return;
    }
    a->last_time = b->last_time;
    a->last = b->last;
    a->last_kind = b->last_kind;
}

/* ---- columns ---- */

bool window_has_resets(const int64_t *time, const int64_t *start_time, size_t n)
{
    bool found = false;

    for (size_t i = 1; i < n; i++)
        found |= start_time[i] > time[i - 1];
    return found;
}

void window_columns_of_points(const struct series_points *p, size_t first, size_t n,
                              struct window_columns *out)
{
    const struct field_column *f = &p->fields[NUMBER_VALUE];
    size_t ints = 0, doubles = 0;

    *out = (struct window_columns){
        .n = n,
        .time = p->time + first,
        .start_time = p->start_time + first,
        .flags = p->flags + first,
        .value = f->v + first,
        .kind = f->kind + first,
        .type = COLUMNS_MIXED,
        .resets = true,
    };
    for (size_t i = 0; i < n; i++) {
        bool there = (out->flags[i] & FLAG_NO_RECORDED_VALUE) == 0;

        ints += there && out->kind[i] == VALUE_INT;
        doubles += there && out->kind[i] == VALUE_DOUBLE && !isnan(double_of(out->value[i]));
    }
    if (ints == n)
        out->type = COLUMNS_INT;
    else if (doubles == n)
        out->type = COLUMNS_DOUBLE;
}

void window_columns_of_chunk(const struct chunk_reader *r, const struct chunk_summary *s,
                             bool resets, struct window_columns *out)
{
    double largest = fabs(s->min) > fabs(s->max) ? fabs(s->min) : fabs(s->max);

    *out = (struct window_columns){
        .n = r->n,
        .time = r->time,
        .start_time = r->start_time,
        .flags = r->flags,
        .value = r->value,
        .kind = r->kind,
        .type = COLUMNS_MIXED,
        .resets = resets,
    };
    if (s->n_values != r->n || s->n != r->n)
        return;
    if (r->all_double)
        out->type = COLUMNS_DOUBLE;
    if (!r->all_int)
        return;
    out->type = COLUMNS_INT;
    out->small = largest * s->n < EXACT_INTEGERS;
    /* Of exact integers from 0 up, each reset adds what stood before it, which is more than 0, or
     * the same as no reset does. So the sum tells whether there was one. */
    out->rising = out->small && s->min >= 0 && s->increase == (double)s->last - (double)s->first;
}

size_t window_lower_bound(const int64_t *time, size_t n, int64_t t)
{
    size_t low = 0;

    while (low < n) {
        size_t mid = low + (n - low) / 2;

        if (time[mid] < t)
            low = mid + 1;
        else
            n = mid;
    }
    return low;
}

size_t window_runs(const struct window_grid *g, const int64_t *time, size_t low, size_t high,
                   struct window_run *runs)
{
    size_t n = 0;

    while (low < high) {
        struct window_run *r = &runs[n++];
        uint64_t left; /* from the window's begin to the grid's end */
        int64_t begin, last;

        r->window = window_of_time(g, time[low]);
        begin = (int64_t)((uint64_t)g->from + r->window * g->step);
        left = (uint64_t)g->to - (uint64_t)begin;
        last = (int64_t)((uint64_t)begin + (left < g->step ? left : g->step) - 1);
        r->begin = (uint32_t)low;
        if (time[high - 1] <= last) {
            low = high;
        } else {
            do
                low++;
            while (time[low] <= last);
        }
        r->end = (uint32_t)low;
    }
    return n;
}

/* ---- values ---- */

struct part_sum {
    double sum, min, max;
};

static void put(struct window_sum *w, const struct part_sum *s, size_t n)
{
    w->count += n;
    w->sum += s->sum;
    w->min = s->min < w->min ? s->min : w->min;
    w->max = s->max > w->max ? s->max : w->max;
}

/* Four lanes: one chain of additions would take four cycles a value. */
static struct part_sum sum_long_doubles(const int64_t *v, size_t n)
{
    double s[4] = {0, 0, 0, 0}, lo[4], hi[4];
    struct part_sum out;
    size_t i;

    for (int k = 0; k < 4; k++)
        lo[k] = hi[k] = double_of(v[k]);
    for (i = 0; i + 4 <= n; i += 4) {
        for (int k = 0; k < 4; k++) {
            double d = double_of(v[i + (size_t)k]);

            s[k] += d;
            lo[k] = d < lo[k] ? d : lo[k];
            hi[k] = d > hi[k] ? d : hi[k];
        }
    }
    for (; i < n; i++) {
        double d = double_of(v[i]);

        s[0] += d;
        lo[0] = d < lo[0] ? d : lo[0];
        hi[0] = d > hi[0] ? d : hi[0];
    }
    out = (struct part_sum){(s[0] + s[1]) + (s[2] + s[3]), lo[0], hi[0]};
    for (int k = 1; k < 4; k++) {
        out.min = lo[k] < out.min ? lo[k] : out.min;
        out.max = hi[k] > out.max ? hi[k] : out.max;
    }
    return out;
}

static inline struct part_sum sum_doubles(const int64_t *v, size_t n)
{
    double first = double_of(v[0]);
    struct part_sum out = {first, first, first};

    if (n >= LONG_RUN)
        return sum_long_doubles(v, n);
    for (size_t i = 1; i < n; i++) {
        double d = double_of(v[i]);

        out.sum += d;
        out.min = d < out.min ? d : out.min;
        out.max = d > out.max ? d : out.max;
    }
    return out;
}

static inline struct part_sum sum_small_ints(const int64_t *v, size_t n)
{
    uint64_t sum = (uint64_t)v[0]; /* a damaged chunk may hold more than its summary says */
    int64_t lo = v[0], hi = v[0];

    for (size_t i = 1; i < n; i++) {
        sum += (uint64_t)v[i];
        lo = v[i] < lo ? v[i] : lo;
        hi = v[i] > hi ? v[i] : hi;
    }
    return (struct part_sum){(double)(int64_t)sum, (double)lo, (double)hi};
}

static struct part_sum sum_ints(const int64_t *v, size_t n)
{
    int64_t lo = v[0], hi = v[0];
    double sum = 0;

    for (size_t i = 0; i < n; i++) {
        sum += (double)v[i];
        lo = v[i] < lo ? v[i] : lo;
        hi = v[i] > hi ? v[i] : hi;
    }
    return (struct part_sum){sum, (double)lo, (double)hi};
}

/* The growth into points begin to end - 1, each from the one before it. begin > 0. */
static double grow_doubles(const struct window_columns *c, size_t begin, size_t end)
{
    double sum = 0, before = double_of(c->value[begin - 1]);

    for (size_t i = begin; i < end; i++) {
        double now = double_of(c->value[i]);
        bool reset = now < before || (c->resets && c->start_time[i] > c->time[i - 1]);

        sum += reset ? now : now - before;
        before = now;
    }
    return sum;
}

static double grow_ints(const struct window_columns *c, size_t begin, size_t end)
{
    const int64_t *v = c->value;
    double sum = 0;

    if (c->small && !c->resets) {
        uint64_t all = 0;

        for (size_t i = begin; i < end; i++)
            all += (uint64_t)v[i] - (v[i] < v[i - 1] ? 0 : (uint64_t)v[i - 1]);
        return (double)(int64_t)all;
    }
    for (size_t i = begin; i < end; i++)
        sum +=
            window_growth(VALUE_INT, v[i - 1], c->time[i - 1], VALUE_INT, v[i], c->start_time[i]);
    return sum;
}

/* The growth within a run; low: the first point that is there. */
static inline double grow(const struct window_columns *c, size_t low, const struct window_run *r)
{
    size_t begin = r->begin > low ? r->begin : low + 1;

    if (begin >= r->end)
        return 0;
    if (c->rising)
        return (double)c->value[r->end - 1] - (double)c->value[begin - 1];
    return c->type == COLUMNS_INT ? grow_ints(c, begin, r->end) : grow_doubles(c, begin, r->end);
}

/* Columns in which every point has a value of one kind that is not NaN. */
static inline void add_plain(const struct window_target *t, const struct window_columns *c,
                             size_t low, const struct window_run *runs, size_t n_runs,
                             struct part_sum (*sum)(const int64_t *v, size_t n), uint8_t kind)
{
    for (size_t k = 0; k < n_runs; k++) {
        const struct window_run *r = &runs[k];
        struct window_sum *w = &t->windows[r->window];
        struct part_sum s = sum(c->value + r->begin, r->end - r->begin);

        put(w, &s, r->end - r->begin);
        note_first(w, c->time[r->begin], number_of(kind, c->value[r->begin]), t->series);
        note_last(w, c->time[r->end - 1], number_of(kind, c->value[r->end - 1]), t->series);
        if (t->want_increase)
            w->increase += t->delta ? s.sum : grow(c, low, r);
    }
}

static bool has_value(const struct window_columns *c, size_t i)
{
    return c->kind[i] != VALUE_NONE && (c->flags[i] & FLAG_NO_RECORDED_VALUE) == 0;
}

static bool has_number(const struct window_columns *c, size_t i)
{
    return has_value(c, i) && !isnan(number_of(c->kind[i], c->value[i]));
}

/* Any columns, point by point. */
static void add_mixed(const struct window_target *t, const struct window_columns *c, size_t low,
                      const struct window_run *runs, size_t n_runs)
{
    size_t before = SIZE_MAX; /* the value that the next one grew from */

    for (size_t i = n_runs > 0 ? runs[0].begin : 0; i > low && before == SIZE_MAX; i--) {
        if (has_number(c, i - 1))
            before = i - 1;
    }
    for (size_t k = 0; k < n_runs; k++) {
        struct window_sum *w = &t->windows[runs[k].window];

        for (size_t i = runs[k].begin; i < runs[k].end; i++) {
            double v;

            if (!has_value(c, i))
                continue;
            v = number_of(c->kind[i], c->value[i]);
            note_first(w, c->time[i], v, t->series);
            note_last(w, c->time[i], v, t->series);
            if (isnan(v)) {
                w->n_nan++;
                continue;
            }
            put(w, &(struct part_sum){v, v, v}, 1);
            if (t->want_increase && t->delta)
                w->increase += v;
            else if (t->want_increase && before != SIZE_MAX)
                w->increase += window_growth(c->kind[before], c->value[before], c->time[before],
                                             c->kind[i], c->value[i], c->start_time[i]);
            before = i;
        }
    }
}

void window_add_runs(const struct window_target *t, const struct window_columns *c, size_t low,
                     const struct window_run *runs, size_t n_runs)
{
    if (c->type == COLUMNS_DOUBLE)
        add_plain(t, c, low, runs, n_runs, sum_doubles, VALUE_DOUBLE);
    else if (c->type == COLUMNS_INT && c->small)
        add_plain(t, c, low, runs, n_runs, sum_small_ints, VALUE_INT);
    else if (c->type == COLUMNS_INT)
        add_plain(t, c, low, runs, n_runs, sum_ints, VALUE_INT);
    else
        add_mixed(t, c, low, runs, n_runs);
}

void window_edge_of_columns(const struct window_columns *c, size_t low, size_t high,
                            struct window_edge *out)
{
    *out = (struct window_edge){0};
    while (low < high && !has_number(c, low))
        low++;
    while (high > low && !has_number(c, high - 1))
        high--;
    if (low == high)
        return;
    *out = (struct window_edge){
        .first_time = c->time[low],
        .first_start = c->start_time[low],
        .first = c->value[low],
        .last_time = c->time[high - 1],
        .last = c->value[high - 1],
        .first_kind = c->kind[low],
        .last_kind = c->kind[high - 1],
    };
}

/* ---- what is summed already ---- */

bool window_of_chunk(const struct window_grid *g, const struct chunk_summary *s, size_t *window)
{
    if (s->min_time < g->from || s->max_time >= g->to)
        return false;
    *window = window_of_time(g, s->min_time);
    return *window == window_of_time(g, s->max_time);
}

void window_add_chunk(const struct window_target *t, size_t window, const struct chunk_summary *s)
{
    struct window_sum *w = &t->windows[window];

    if (s->first_kind == VALUE_NONE)
        return;
    w->n_nan += s->n_nan;
    if (s->n_values > 0)
        put(w, &(struct part_sum){s->sum, s->min, s->max}, s->n_values);
    note_first(w, s->first_value_time, number_of((uint8_t)s->first_kind, s->first), t->series);
    note_last(w, s->last_value_time, number_of((uint8_t)s->last_kind, s->last), t->series);
    if (t->want_increase)
        w->increase += t->delta ? s->sum : s->increase;
}

static double field_double(const struct series_points *rows, int f, size_t i)
{
    return double_of(rows->fields[f].v[i]);
}

static int64_t field_int(const struct series_points *rows, int f, size_t i)
{
    return rows->fields[f].v[i];
}

void window_add_rollup(const struct window_target *t, const struct series_points *rows,
                       int64_t from, int64_t to, struct window_edge *edge)
{
    size_t high = series_points_lower_bound(rows, to);

    *edge = (struct window_edge){0};
    for (size_t i = series_points_lower_bound(rows, from); i < high; i++) {
        struct window_sum *w = &t->windows[window_of_time(t->grid, rows->time[i])];
        int64_t count = field_int(rows, NUMBER_ROLLUP_COUNT, i);
        struct window_edge e;
        struct part_sum s;

        if (count <= 0)
            continue;
        e = (struct window_edge){
            .first_time = field_int(rows, NUMBER_ROLLUP_FIRST_TIME, i),
            .first_start = field_int(rows, NUMBER_ROLLUP_FIRST_START, i),
            .first = field_int(rows, NUMBER_ROLLUP_FIRST, i),
            .last_time = field_int(rows, NUMBER_ROLLUP_LAST_TIME, i),
            .last = field_int(rows, NUMBER_ROLLUP_LAST, i),
            .first_kind = rows->fields[NUMBER_ROLLUP_FIRST].kind[i],
            .last_kind = rows->fields[NUMBER_ROLLUP_LAST].kind[i],
        };
        s = (struct part_sum){field_double(rows, NUMBER_ROLLUP_SUM, i),
                              field_double(rows, NUMBER_ROLLUP_MIN, i),
                              field_double(rows, NUMBER_ROLLUP_MAX, i)};
        put(w, &s, (size_t)count);
        note_first(w, e.first_time, number_of(e.first_kind, e.first), t->series);
        note_last(w, e.last_time, number_of(e.last_kind, e.last), t->series);
        if (t->want_increase && t->delta) {
            w->increase += s.sum;
        } else if (t->want_increase) {
            w->increase += field_double(rows, NUMBER_ROLLUP_INCREASE, i);
            if (edge->last_kind != VALUE_NONE)
                w->increase += window_growth(edge->last_kind, edge->last, edge->last_time,
                                             e.first_kind, e.first, e.first_start);
        }
        window_edge_extend(edge, &e);
    }
}
