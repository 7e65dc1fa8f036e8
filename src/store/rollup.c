/* A row is gathered in one struct, from points or from rows, and written out when the next window
 * begins. Points are rows of one point: so there is one rule for joining, which both use. */
#include "rollup.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "column.h"

enum { ROUND_MORE_DIGITS = 3 };

/* A list of counts in borrowed memory. */
struct counts {
    const int64_t *v;
    uint32_t n;
};

/* One row of numbers. Times and values of first and last are set when count > 0. */
struct number_row {
    int64_t window;
    int64_t n, count;
    int64_t first_time, last_time, first_start;
    double sum, min, max, increase;
    enum value_kind first_kind, last_kind;
    int64_t first, last;
};

/* One row of histograms. first: of the first point, its count and then its buckets. */
struct histogram_row {
    int64_t window, bounds_id;
    int64_t n, first_time, last_time, first_start;
    int64_t count;
    struct optional_double sum, min, max;
    struct counts counts, first, increase; /* increase may be empty: nothing */
};

/* What a histogram row under way owns of its lists. */
struct histogram_lists {
    int64_t *counts, *first, *increase;
    uint32_t cap;
};

enum series_kind rollup_kind_of(enum series_kind kind)
{
    if (kind == KIND_NUMBER)
        return KIND_NUMBER_ROLLUP;
    return kind == KIND_HISTOGRAM ? KIND_HISTOGRAM_ROLLUP : SERIES_KINDS;
}

static int64_t window_of(int64_t time, int64_t length)
{
    int64_t rest = time % length;

    return time - (rest < 0 ? rest + length : rest);
}

int64_t rollup_window(int64_t time, int resolution_s)
{
    return window_of(time, (int64_t)resolution_s * 1000000000);
}

static double double_of(int64_t bits)
{
    double d;

    memcpy(&d, &bits, sizeof(d));
    return d;
}

static int64_t bits_of(double d)
{
    int64_t bits;

    memcpy(&bits, &d, sizeof(bits));
    return bits;
}

static double number_of(enum value_kind kind, int64_t v)
{
    return kind == VALUE_INT ? (double)v : double_of(v);
}

static void set_double(struct series_points *p, int f, size_t i, bool has, double d)
{
    p->fields[f].kind[i] = has ? VALUE_DOUBLE : VALUE_NONE;
    p->fields[f].v[i] = has ? bits_of(d) : 0;
}

static struct optional_double get_double(const struct series_points *p, int f, size_t i)
{
    return (struct optional_double){p->fields[f].kind[i] == VALUE_DOUBLE,
                                    series_points_double(p, f, i)};
}

static struct counts get_list(const struct series_points *p, int f, size_t i)
{
    struct counts c;

    c.v = series_points_list(p, f, i, &c.n);
    return c;
}

/* Room for it is there. */
static void set_list(struct series_points *p, int f, size_t i, struct counts list)
{
    struct field_column *c = &p->fields[f];
    uint32_t from = i == 0 ? 0 : c->end[i - 1];

    if (list.n > 0)
        memcpy(c->v + from, list.v, list.n * sizeof(*list.v));
    c->end[i] = from + list.n;
}

/* A new row at the end, its time set. False: no memory. */
static bool begin_row(struct series_points *out, int64_t window)
{
    if (!series_points_reserve(out, 1))
        return false;
    out->time[out->n] = window;
    out->start_time[out->n] = 0;
    out->flags[out->n] = 0;
    return true;
}

/* ---- numbers ---- */

/* How much a counter grew from one value to the next (series_points.h, NUMBER_ROLLUP_INCREASE). */
static double growth(enum value_kind kind_a, int64_t a, int64_t time_a, enum value_kind kind_b,
                     int64_t b, int64_t start_b)
{
    double before = number_of(kind_a, a), now = number_of(kind_b, b);
    int64_t difference;

    if (now < before || start_b > time_a)
        return now;
    if (kind_a == VALUE_INT && kind_b == VALUE_INT && !__builtin_sub_overflow(b, a, &difference))
        return (double)difference;
    return now - before;
}

/* False when b is not after a, so that first, last and increase are uncertain, and so is whether a
 * point is in both. Points of one series are told apart by start times, too, which rows have not.
 */
static bool join_numbers(struct number_row *a, const struct number_row *b)
{
    bool after = true;

    a->n += b->n;
    if (b->count == 0)
        return true;
    if (a->count == 0) {
        int64_t n = a->n, window = a->window;

        *a = *b;
        a->n = n;
        a->window = window;
        return true;
    }
    after = a->last_time < b->first_time;
    a->increase += b->increase + growth(a->last_kind, a->last, a->last_time, b->first_kind,
                                        b->first, b->first_start);
    a->count += b->count;
    a->sum += b->sum;
    a->min = b->min < a->min ? b->min : a->min;
    a->max = b->max > a->max ? b->max : a->max;
    if (b->last_time >= a->last_time) {
        a->last_time = b->last_time;
        a->last_kind = b->last_kind;
        a->last = b->last;
    }
    return after;
}

/* Adding up 0.1 and 0.2 gives 0.30000000000000004, and takes eight bytes in a block: a sum of
 * decimals is the decimal that is no further from it than the roundings of n additions of numbers
 * up to `largest` can have taken it. digits: what some of the numbers have; others may have more.
 */
static double round_off(double sum, int digits, int64_t n, double largest)
{
    double error = (double)n * ((double)n * largest) * (DBL_EPSILON / 2);

    for (int d = digits; d <= digits + ROUND_MORE_DIGITS && d <= COLUMN_MAX_DIGITS; d++) {
        double rounded = column_round_decimal(sum, d);

        if (fabs(rounded - sum) <= error)
            return rounded;
    }
    return sum;
}

static void round_off_sums(struct number_row *r)
{
    const double seen[] = {number_of(r->first_kind, r->first), number_of(r->last_kind, r->last),
                           r->min, r->max};
    double largest = fabs(r->min) > fabs(r->max) ? fabs(r->min) : fabs(r->max);
    int digits;

    if (r->first_kind == VALUE_INT && r->last_kind == VALUE_INT)
        return; /* whole ones, most likely */
    digits = column_decimal_digits(seen, 4);
    if (digits < 0)
        return;
    r->sum = round_off(r->sum, digits, r->count, largest);
    r->increase = round_off(r->increase, digits, r->count, 2 * largest);
}

static bool write_number(struct series_points *out, struct number_row *r)
{
    size_t i = out->n;
    bool has = r->count > 0;

    if (has)
        round_off_sums(r);
    if (!begin_row(out, r->window))
        return false;
    out->fields[NUMBER_ROLLUP_N].v[i] = r->n;
    out->fields[NUMBER_ROLLUP_COUNT].v[i] = r->count;
    out->fields[NUMBER_ROLLUP_FIRST_TIME].v[i] = r->first_time;
    out->fields[NUMBER_ROLLUP_LAST_TIME].v[i] = r->last_time;
    out->fields[NUMBER_ROLLUP_FIRST_START].v[i] = r->first_start;
    set_double(out, NUMBER_ROLLUP_SUM, i, has, r->sum);
    set_double(out, NUMBER_ROLLUP_MIN, i, has, r->min);
    set_double(out, NUMBER_ROLLUP_MAX, i, has, r->max);
    set_double(out, NUMBER_ROLLUP_INCREASE, i, has, r->increase);
    out->fields[NUMBER_ROLLUP_FIRST].kind[i] = (uint8_t)r->first_kind;
    out->fields[NUMBER_ROLLUP_FIRST].v[i] = r->first;
    out->fields[NUMBER_ROLLUP_LAST].kind[i] = (uint8_t)r->last_kind;
    out->fields[NUMBER_ROLLUP_LAST].v[i] = r->last;
    out->n++;
    return true;
}

static struct number_row number_row_at(const struct series_points *p, size_t i)
{
    return (struct number_row){
        .window = p->time[i],
        .n = p->fields[NUMBER_ROLLUP_N].v[i],
        .count = p->fields[NUMBER_ROLLUP_COUNT].v[i],
        .first_time = p->fields[NUMBER_ROLLUP_FIRST_TIME].v[i],
        .last_time = p->fields[NUMBER_ROLLUP_LAST_TIME].v[i],
        .first_start = p->fields[NUMBER_ROLLUP_FIRST_START].v[i],
        .sum = get_double(p, NUMBER_ROLLUP_SUM, i).v,
        .min = get_double(p, NUMBER_ROLLUP_MIN, i).v,
        .max = get_double(p, NUMBER_ROLLUP_MAX, i).v,
        .increase = get_double(p, NUMBER_ROLLUP_INCREASE, i).v,
        .first_kind = (enum value_kind)p->fields[NUMBER_ROLLUP_FIRST].kind[i],
        .first = p->fields[NUMBER_ROLLUP_FIRST].v[i],
        .last_kind = (enum value_kind)p->fields[NUMBER_ROLLUP_LAST].kind[i],
        .last = p->fields[NUMBER_ROLLUP_LAST].v[i],
    };
}

static struct number_row number_row_of_point(const struct series_points *p, size_t i)
{
    enum value_kind kind = (enum value_kind)p->fields[NUMBER_VALUE].kind[i];
    int64_t v = p->fields[NUMBER_VALUE].v[i];
    struct number_row r = {.n = 1};
    double d;

    if (kind == VALUE_NONE || isnan(d = number_of(kind, v)))
        return r;
    r.count = 1;
    r.first_time = r.last_time = p->time[i];
    r.first_start = p->start_time[i];
    r.sum = r.min = r.max = d;
    r.first_kind = r.last_kind = kind;
    r.first = r.last = v;
    return r;
}

/* ---- histograms ---- */

static bool reserve_lists(struct histogram_lists *l, uint32_t n)
{
    if (n <= l->cap)
        return true;
    free(l->counts);
    free(l->first);
    free(l->increase);
    l->counts = malloc(n * sizeof(*l->counts));
    l->first = malloc(n * sizeof(*l->first));
    l->increase = malloc(n * sizeof(*l->increase));
    l->cap = l->counts == NULL || l->first == NULL || l->increase == NULL ? 0 : n;
    return l->cap > 0;
}

static void free_lists(struct histogram_lists *l)
{
    free(l->counts);
    free(l->first);
    free(l->increase);
}

static void copy_list(struct counts *to, int64_t *memory, struct counts from)
{
    if (from.n > 0)
        memcpy(memory, from.v, from.n * sizeof(*memory));
    *to = (struct counts){memory, from.n};
}

/* a becomes b, with its lists in l. False: no memory. */
static bool hold_histogram(struct histogram_row *a, const struct histogram_row *b,
                           struct histogram_lists *l)
{
    if (!reserve_lists(l, b->counts.n + b->first.n + 1))
        return false;
    *a = *b;
    copy_list(&a->counts, l->counts, b->counts);
    copy_list(&a->first, l->first, b->first);
    if (b->increase.n == b->first.n)
        copy_list(&a->increase, l->increase, b->increase);
    else { /* one point: nothing has grown yet */
        memset(l->increase, 0, b->first.n * sizeof(*l->increase));
        a->increase = (struct counts){l->increase, b->first.n};
    }
    return true;
}

static int64_t plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static struct optional_double least_of(struct optional_double a, struct optional_double b)
{
    return !a.has || (b.has && b.v < a.v) ? b : a;
}

static struct optional_double greatest_of(struct optional_double a, struct optional_double b)
{
    return !a.has || (b.has && b.v > a.v) ? b : a;
}

/* Cumulative: add to the increase of a what came between its last point and the first of b, and
 * that of b. Both have lists of equal lengths, as their bounds are the same. */
static void join_increase(const struct histogram_row *a, const struct histogram_row *b,
                          int64_t *increase)
{
    bool reset = b->first_start > a->last_time || b->first.v[0] < a->count;

    for (uint32_t i = 1; i < b->first.n && !reset; i++)
        reset = b->first.v[i] < a->counts.v[i - 1];
    for (uint32_t i = 0; i < b->first.n; i++) {
        int64_t before = reset ? 0 : i == 0 ? a->count : a->counts.v[i - 1];
        int64_t within = b->increase.n == b->first.n ? b->increase.v[i] : 0;

        increase[i] = plus(increase[i], plus(minus(b->first.v[i], before), within));
    }
}

/* b, of the same window and bounds, into a, whose lists are those of l. */
static bool join_histograms(struct histogram_row *a, const struct histogram_row *b,
                            struct histogram_lists *l, bool delta)
{
    bool after = a->last_time < b->first_time;

    if (b->counts.n != a->counts.n || b->first.n != a->first.n)
        return false; /* not of the same bounds after all */
    a->min = least_of(a->min, b->min);
    a->max = greatest_of(a->max, b->max);
    a->n = plus(a->n, b->n);
    if (delta) {
        a->count = plus(a->count, b->count);
        a->sum = (struct optional_double){a->sum.has && b->sum.has, a->sum.v + b->sum.v};
        for (uint32_t i = 0; i < b->counts.n; i++)
            l->counts[i] = plus(l->counts[i], b->counts.v[i]);
    } else {
        join_increase(a, b, l->increase);
        if (b->last_time >= a->last_time) {
            a->count = b->count;
            a->sum = b->sum;
            copy_list(&a->counts, l->counts, b->counts);
        }
    }
    if (b->last_time > a->last_time)
        a->last_time = b->last_time;
    return after;
}

static bool write_histogram(struct series_points *out, const struct histogram_row *r)
{
    size_t i = out->n;

    if (!begin_row(out, r->window) ||
        !series_points_reserve_list(out, HISTOGRAM_ROLLUP_COUNTS, r->counts.n) ||
        !series_points_reserve_list(out, HISTOGRAM_ROLLUP_FIRST_COUNTS, r->first.n) ||
        !series_points_reserve_list(out, HISTOGRAM_ROLLUP_INCREASE, r->increase.n))
        return false;
    out->fields[HISTOGRAM_ROLLUP_FIRST_TIME].v[i] = r->first_time;
    out->fields[HISTOGRAM_ROLLUP_LAST_TIME].v[i] = r->last_time;
    out->fields[HISTOGRAM_ROLLUP_N].v[i] = r->n;
    out->fields[HISTOGRAM_ROLLUP_FIRST_START].v[i] = r->first_start;
    out->fields[HISTOGRAM_ROLLUP_BOUNDS_ID].v[i] = r->bounds_id;
    out->fields[HISTOGRAM_ROLLUP_COUNT].v[i] = r->count;
    set_double(out, HISTOGRAM_ROLLUP_SUM, i, r->sum.has, r->sum.v);
    set_double(out, HISTOGRAM_ROLLUP_MIN, i, r->min.has, r->min.v);
    set_double(out, HISTOGRAM_ROLLUP_MAX, i, r->max.has, r->max.v);
    set_list(out, HISTOGRAM_ROLLUP_COUNTS, i, r->counts);
    set_list(out, HISTOGRAM_ROLLUP_FIRST_COUNTS, i, r->first);
    set_list(out, HISTOGRAM_ROLLUP_INCREASE, i, r->increase);
    out->n++;
    return true;
}

static struct histogram_row histogram_row_at(const struct series_points *p, size_t i)
{
    return (struct histogram_row){
        .window = p->time[i],
        .bounds_id = p->fields[HISTOGRAM_ROLLUP_BOUNDS_ID].v[i],
        .n = p->fields[HISTOGRAM_ROLLUP_N].v[i],
        .first_time = p->fields[HISTOGRAM_ROLLUP_FIRST_TIME].v[i],
        .last_time = p->fields[HISTOGRAM_ROLLUP_LAST_TIME].v[i],
        .first_start = p->fields[HISTOGRAM_ROLLUP_FIRST_START].v[i],
        .count = p->fields[HISTOGRAM_ROLLUP_COUNT].v[i],
        .sum = get_double(p, HISTOGRAM_ROLLUP_SUM, i),
        .min = get_double(p, HISTOGRAM_ROLLUP_MIN, i),
        .max = get_double(p, HISTOGRAM_ROLLUP_MAX, i),
        .counts = get_list(p, HISTOGRAM_ROLLUP_COUNTS, i),
        .first = get_list(p, HISTOGRAM_ROLLUP_FIRST_COUNTS, i),
        .increase = get_list(p, HISTOGRAM_ROLLUP_INCREASE, i),
    };
}

/* first: memory for the count and the buckets of the point, used when it is cumulative. */
static struct histogram_row histogram_row_of_point(const struct series_points *p, size_t i,
                                                   bool delta, int64_t *first)
{
    struct histogram_row r = {
        .bounds_id = p->fields[HISTOGRAM_BOUNDS_ID].v[i],
        .n = 1,
        .first_time = p->time[i],
        .last_time = p->time[i],
        .first_start = p->start_time[i],
        .count = p->fields[HISTOGRAM_COUNT].v[i],
        .sum = get_double(p, HISTOGRAM_SUM, i),
        .min = get_double(p, HISTOGRAM_MIN, i),
        .max = get_double(p, HISTOGRAM_MAX, i),
        .counts = get_list(p, HISTOGRAM_COUNTS, i),
    };

    if (!delta) {
        first[0] = r.count;
        if (r.counts.n > 0)
            memcpy(first + 1, r.counts.v, r.counts.n * sizeof(*first));
        r.first = (struct counts){first, r.counts.n + 1};
    }
    return r;
}

/* ---- from points ---- */

/* Points first to end - 1, all of one window: what joining the rows of each gives. */
static struct number_row number_row_of_points(const struct series_points *p, size_t first,
                                              size_t end)
{
    const struct field_column *f = &p->fields[NUMBER_VALUE];
    struct number_row r = {.n = (int64_t)(end - first)};
    size_t i = first, last;
    double d;

    while (i < end && (f->kind[i] == VALUE_NONE || isnan(number_of(f->kind[i], f->v[i]))))
        i++;
    if (i == end)
        return r;
    r = number_row_of_point(p, i);
    r.n = (int64_t)(end - first);
    last = i;
    for (i++; i < end; i++) {
        enum value_kind kind = (enum value_kind)f->kind[i];

        if (kind == VALUE_NONE || isnan(d = number_of(kind, f->v[i])))
            continue;
        r.increase += growth((enum value_kind)f->kind[last], f->v[last], p->time[last], kind,
                             f->v[i], p->start_time[i]);
        r.count++;
        r.sum += d;
        r.min = d < r.min ? d : r.min;
        r.max = d > r.max ? d : r.max;
        last = i;
    }
    r.last_time = p->time[last];
    r.last_kind = (enum value_kind)f->kind[last];
    r.last = f->v[last];
    return r;
}

static bool add_numbers(struct series_points *out, const struct series_points *p, int64_t length)
{
    for (size_t first = 0, end; first < p->n; first = end) {
        int64_t window = window_of(p->time[first], length);
        struct number_row row;

        /* Nearly always all that is left. Times go up, so there is no overflow. */
        end = (uint64_t)p->time[p->n - 1] - (uint64_t)window < (uint64_t)length ? p->n : first + 1;
        while (end < p->n && (uint64_t)p->time[end] - (uint64_t)window < (uint64_t)length)
            end++;
        row = number_row_of_points(p, first, end);
        row.window = window;
        if (!write_number(out, &row))
            return false;
    }
    return true;
}

static bool add_histograms(struct series_points *out, const struct series_points *p, int64_t length,
                           bool delta)
{
    struct histogram_row row = {0};
    struct histogram_lists lists = {0};
    int64_t *first = NULL;
    size_t most = 0;
    bool open = false, ok;

    for (size_t i = 0; i < p->n; i++) {
        size_t n = get_list(p, HISTOGRAM_COUNTS, i).n;

        most = n > most ? n : most;
    }
    first = malloc((most + 1) * sizeof(*first));
    ok = first != NULL;
    for (size_t i = 0; i < p->n && ok; i++) {
        struct histogram_row point;

        if ((p->flags[i] & FLAG_NO_RECORDED_VALUE) != 0)
            continue;
        point = histogram_row_of_point(p, i, delta, first);
        point.window = window_of(p->time[i], length);
        if (open && point.window == row.window && point.bounds_id == row.bounds_id &&
            point.counts.n == row.counts.n) {
            (void)join_histograms(&row, &point, &lists, delta);
            continue;
        }
        ok = (!open || write_histogram(out, &row)) && hold_histogram(&row, &point, &lists);
        open = true;
    }
    ok = ok && (!open || write_histogram(out, &row));
    free(first);
    free_lists(&lists);
    return ok;
}

bool rollup_add(struct series_points *out, const struct series_points *p, int resolution_s,
                bool delta)
{
    int64_t length = (int64_t)resolution_s * 1000000000;

    if (p->kind == KIND_NUMBER)
        return add_numbers(out, p, length);
    return add_histograms(out, p, length, delta);
}

/* ---- from rows ---- */

_Static_assert((int)NUMBER_ROLLUP_FIRST_TIME == (int)HISTOGRAM_ROLLUP_FIRST_TIME,
               "rows of both kinds are ordered by this field");

struct row_ref {
    const struct series_points *p;
    size_t i;
    int64_t window, bounds_id, first_time;
};

static int by_window(const void *a, const void *b)
{
    const struct row_ref *x = a, *y = b;

    if (x->window != y->window)
        return x->window < y->window ? -1 : 1;
    if (x->first_time != y->first_time)
        return x->first_time < y->first_time ? -1 : 1;
    return (x->bounds_id > y->bounds_id) - (x->bounds_id < y->bounds_id);
}

static bool join_number_refs(struct series_points *out, const struct row_ref *refs, size_t n,
                             bool *exact)
{
    struct number_row row = {0};

    for (size_t i = 0; i < n; i++) {
        struct number_row next = number_row_at(refs[i].p, refs[i].i);

        next.window = refs[i].window;
        if (i > 0 && next.window == row.window) {
            *exact &= join_numbers(&row, &next);
            continue;
        }
        if (i > 0 && !write_number(out, &row))
            return false;
        row = next;
    }
    return n == 0 || write_number(out, &row);
}

static bool join_histogram_refs(struct series_points *out, const struct row_ref *refs, size_t n,
                                bool delta, bool *exact)
{
    struct histogram_row row = {0};
    struct histogram_lists lists = {0};
    bool ok = true;

    for (size_t i = 0; i < n && ok; i++) {
        struct histogram_row next = histogram_row_at(refs[i].p, refs[i].i);

        next.window = refs[i].window;
        if (i > 0 && next.window == row.window && next.bounds_id == row.bounds_id &&
            next.counts.n == row.counts.n && next.first.n == row.first.n) {
            *exact &= join_histograms(&row, &next, &lists, delta);
            continue;
        }
        ok = (i == 0 || write_histogram(out, &row)) && hold_histogram(&row, &next, &lists);
    }
    ok = ok && (n == 0 || write_histogram(out, &row));
    free_lists(&lists);
    return ok;
}

/* length 0: each row keeps its window. */
static bool join_rows(struct series_points *out, const struct series_points *const *sources,
                      size_t n, int64_t length, bool delta, bool *exact)
{
    bool numbers = out->kind == KIND_NUMBER_ROLLUP;
    struct row_ref *refs;
    size_t total = 0, at = 0;
    bool ok;

    *exact = true;
    for (size_t s = 0; s < n; s++)
        total += sources[s]->n;
    refs = malloc((total + 1) * sizeof(*refs));
    if (refs == NULL)
        return false;
    for (size_t s = 0; s < n; s++) {
        const struct series_points *p = sources[s];

        for (size_t i = 0; i < p->n; i++) {
            refs[at++] =
                (struct row_ref){p, i, length == 0 ? p->time[i] : window_of(p->time[i], length),
                                 numbers ? 0 : p->fields[HISTOGRAM_ROLLUP_BOUNDS_ID].v[i],
                                 p->fields[NUMBER_ROLLUP_FIRST_TIME].v[i]};
        }
    }
    qsort(refs, total, sizeof(*refs), by_window);
    ok = numbers ? join_number_refs(out, refs, total, exact)
                 : join_histogram_refs(out, refs, total, delta, exact);
    free(refs);
    return ok;
}

bool rollup_merge(struct series_points *out, const struct series_points *const *sources, size_t n,
                  bool delta, bool *exact)
{
    return join_rows(out, sources, n, 0, delta, exact);
}

bool rollup_coarsen(struct series_points *out, const struct series_points *p, int resolution_s,
                    bool delta)
{
    bool exact;

    return join_rows(out, &p, 1, (int64_t)resolution_s * 1000000000, delta, &exact);
}
