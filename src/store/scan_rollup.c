/* scan_rollup.c -- read_rollups: the rows of rollup parts, and rows made of raw points where those
 * lack something.
 *
 * It goes day by day, as parts do. The rows of a day count when they stand for at least as many
 * points as the raw chunks have (for more where raw points were retained for a shorter time), and
 * when joining them with each other and with the head's points is exact. Otherwise the day is made
 * of raw points. */
#include <stdlib.h>

#include "otlite/clock.h"
#include "read_internal.h"
#include "rollup.h"

struct rollup_scan {
    struct read *r;
    enum series_kind kind, raw_kind;
    int resolution, stored; /* asked for; of the parts that it is made of, 0: none */
    int64_t from, to;       /* whole windows */
    struct series_list ids;
    size_t round_series, round;
    struct part_refs raw, rollup;
    size_t raw_at, rollup_at;
    struct gather gather;
    struct series_points points;   /* raw ones of a day */
    struct series_points *sources; /* rows of a day */
    size_t n_sources;
    struct series_points merged, rows, coarse;
    size_t charged;
    enum otl_err (*emit)(void *arg, int64_t series_id, const struct series_points *p,
                         struct otl_error *err);
    void *arg;
};

static enum otl_err no_memory(struct otl_error *err)
{
    return otl_fail(err, OTL_ENOMEM, "read rollups: no memory");
}

static int64_t floor_to(int64_t t, int64_t length)
{
    int64_t rest = t % length;

    rest = rest < 0 ? rest + length : rest;
    return t < INT64_MIN + rest ? INT64_MIN : t - rest;
}

static int64_t ceil_to(int64_t t, int64_t length)
{
    int64_t rest = t % length;
    int64_t more = rest > 0 ? length - rest : -rest;

    return t > INT64_MAX - more ? INT64_MAX : t + more;
}

static int64_t day_of(int64_t time)
{
    return time / PART_DAY_NS - (time % PART_DAY_NS < 0);
}

/* ---- a day of a series ---- */

struct day {
    int64_t day;
    size_t raw, n_raw, rollup, n_rollup, head, n_head;
    uint64_t raw_points;
    bool meets; /* raw chunks each other, or the head: points may be there twice */
};

static enum otl_err charge(struct rollup_scan *s, struct otl_error *err)
{
    size_t now = read_points_bytes(&s->points) + read_points_bytes(&s->merged) +
                 read_points_bytes(&s->rows) + read_points_bytes(&s->coarse);
    enum otl_err rc;

    for (size_t i = 0; i < s->n_sources; i++)
        now += read_points_bytes(&s->sources[i]);
    rc = read_charge(s->r, (int64_t)now - (int64_t)s->charged, err);
    if (rc == OTL_OK)
        s->charged = now;
    return rc;
}

static bool prepare_sources(struct rollup_scan *s, size_t n)
{
    if (n > s->n_sources) {
        struct series_points *more = realloc(s->sources, n * sizeof(*more));

        if (more == NULL)
            return false;
        s->sources = more;
        for (; s->n_sources < n; s->n_sources++)
            series_points_init(&s->sources[s->n_sources], s->kind);
    }
    for (size_t i = 0; i < n; i++)
        series_points_reset(&s->sources[i]);
    return true;
}

/* The head's points of the day, appended to s->points. */
static bool take_head(struct rollup_scan *s, const struct day *d, const struct series_points *head)
{
    series_points_reset(&s->points);
    return d->n_head == 0 || series_points_append(&s->points, head, d->head, d->n_head);
}

static uint64_t count_points(const struct series_points *rows, enum series_kind kind)
{
    int f = kind == KIND_NUMBER_ROLLUP ? (int)NUMBER_ROLLUP_N : (int)HISTOGRAM_ROLLUP_N;
    uint64_t n = 0;

    for (size_t i = 0; i < rows->n; i++)
        n += (uint64_t)rows->fields[f].v[i];
    return n;
}

/* s->merged becomes the day's rows by rollups and the head; *use: they are right. */
static enum otl_err join_rollups(struct rollup_scan *s, const struct day *d,
                                 const struct series_points *head, bool delta, bool *use,
                                 struct otl_error *err)
{
    const struct series_points **order;
    uint64_t points = 0;
    size_t n = 0;
    bool exact = false;
    enum otl_err rc = OTL_OK;

    *use = false;
    if (!prepare_sources(s, d->n_rollup + 1))
        return no_memory(err);
    order = malloc((d->n_rollup + 1) * sizeof(*order));
    if (order == NULL)
        return no_memory(err);
    for (size_t i = 0; i < d->n_rollup && rc == OTL_OK; i++) {
        struct series_points *p = &s->sources[n];

        rc = part_read_chunk(s->r->session->parts, &s->rollup, d->rollup + i, INT64_MIN, INT64_MAX,
                             p, err);
        if (rc == OTL_ECORRUPT) { /* reported; the raw points, if they are there, make up for it */
            rc = OTL_OK;
            continue;
        }
        points += count_points(p, s->kind);
        order[n++] = p;
    }
    if (rc == OTL_OK && d->n_head > 0) {
        if (!take_head(s, d, head) || !rollup_add(&s->sources[n], &s->points, s->stored, delta))
            rc = no_memory(err);
        order[n] = &s->sources[n];
        n++;
    }
    series_points_reset(&s->merged);
    if (rc == OTL_OK && points >= d->raw_points) {
        if (!rollup_merge(&s->merged, order, n, delta, &exact))
            rc = no_memory(err);
        *use = (exact && !d->meets) || points > d->raw_points;
    }
    free(order);
    return rc;
}

static enum otl_err make_rows(struct rollup_scan *s, const struct day *d,
                              const struct series_points *head, int resolution, bool delta,
                              struct otl_error *err)
{
    struct series_points part;
    size_t before;
    enum otl_err rc = OTL_OK;

    series_points_init(&part, s->raw_kind);
    if (d->n_head > 0 && !series_points_append(&part, head, d->head, d->n_head))
        rc = no_memory(err);
    series_points_reset(&s->points);
    before = read_points_bytes(&s->points);
    if (rc == OTL_OK)
        rc = gather_points(&s->gather, s->r, &s->raw, d->raw, d->n_raw, &part, INT64_MIN, INT64_MAX,
                           &s->points, err);
    series_points_fini(&part);
    /* charge() has it from here on. */
    (void)!read_charge(s->r, -(int64_t)(read_points_bytes(&s->points) - before), NULL);
    series_points_reset(&s->merged);
    if (rc == OTL_OK && s->points.n > 0 && !rollup_add(&s->merged, &s->points, resolution, delta))
        rc = no_memory(err);
    return rc;
}

static enum otl_err add_day(struct rollup_scan *s, const struct day *d,
                            const struct series_points *head, bool delta, struct otl_error *err)
{
    bool use = false;
    size_t low, high;
    enum otl_err rc = read_check(s->r, err);

    if (rc == OTL_OK && d->n_rollup > 0)
        rc = join_rollups(s, d, head, delta, &use, err);
    if (rc == OTL_OK && !use)
        rc = make_rows(s, d, head, s->stored != 0 ? s->stored : s->resolution, delta, err);
    if (rc != OTL_OK)
        return rc;
    low = series_points_lower_bound(&s->merged, s->from);
    high = series_points_lower_bound(&s->merged, s->to);
    if (high > low && !series_points_append(&s->rows, &s->merged, low, high - low))
        return no_memory(err);
    return charge(s, err);
}

/* ---- a series ---- */

static bool is_of(const struct part_refs *refs, size_t i, int64_t id)
{
    return i < refs->n && refs->refs[i].summary->series_id == id;
}

static bool is_of_day(const struct part_refs *refs, size_t i, int64_t id, int64_t day)
{
    return is_of(refs, i, id) && day_of(refs->refs[i].summary->min_time) == day;
}

static int64_t first_day(const struct part_refs *refs, size_t i, int64_t id)
{
    return is_of(refs, i, id) ? day_of(refs->refs[i].summary->min_time) : INT64_MAX;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool meets(const struct rollup_scan *s, const struct day *d,
                  const struct series_points *head)
{
    int64_t last = INT64_MIN;

    for (size_t i = d->raw; i < d->raw + d->n_raw; i++) {
        const struct chunk_summary *c = s->raw.refs[i].summary;

        if (i > d->raw && c->min_time <= last)
            return true;
        last = c->max_time > last ? c->max_time : last;
        for (size_t k = d->head; k < d->head + d->n_head; k++) {
            if (head->time[k] >= c->min_time && head->time[k] <= c->max_time)
                return true;
        }
    }
    return false;
}

static enum otl_err find_round(struct rollup_scan *s, const int64_t *series, size_t n,
                               struct otl_error *err)
{
    struct part_reader *parts = s->r->session->parts;
    int64_t from = floor_to(s->from, PART_DAY_NS), to = ceil_to(s->to, PART_DAY_NS);
    enum otl_err rc;

    part_refs_release(parts, &s->raw);
    part_refs_release(parts, &s->rollup);
    s->raw_at = s->rollup_at = 0;
    rc = part_find(parts, s->raw_kind, 0, series, n, from, to, &s->raw, err);
    if (rc == OTL_OK && s->stored != 0)
        rc = part_find(parts, s->kind, s->stored, series, n, from, to, &s->rollup, err);
    return rc;
}

static enum otl_err seek(struct rollup_scan *s, int64_t id, size_t place, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    if (place != SIZE_MAX && place / s->round_series != s->round) {
        size_t first, n;

        s->round = place / s->round_series;
        first = s->round * s->round_series;
        n = s->ids.n - first;
        rc = find_round(s, s->ids.ids + first, n < s->round_series ? n : s->round_series, err);
    }
    while (s->raw_at < s->raw.n && s->raw.refs[s->raw_at].summary->series_id < id)
        s->raw_at++;
    while (s->rollup_at < s->rollup.n && s->rollup.refs[s->rollup_at].summary->series_id < id)
        s->rollup_at++;
    return rc;
}

static enum otl_err is_delta(struct rollup_scan *s, int64_t id, bool *out, struct otl_error *err)
{
    struct label_view *labels;
    struct series_info info;
    enum otl_err rc = read_labels(s->r, &labels, err);

    *out = rc == OTL_OK && label_view_series(labels, id, &info) &&
           info.temporality == TEMPORALITY_DELTA;
    return rc;
}

static enum otl_err scan_series(void *arg, int64_t id, size_t place,
                                const struct series_points *head, struct otl_error *err)
{
    struct rollup_scan *s = arg;
    size_t at = 0, n_head = head == NULL ? 0 : head->n;
    const struct series_points *rows = &s->rows;
    bool delta;
    enum otl_err rc = seek(s, id, place, err);

    if (rc == OTL_OK)
        rc = is_delta(s, id, &delta, err);
    series_points_reset(&s->rows);
    while (rc == OTL_OK &&
           (is_of(&s->raw, s->raw_at, id) || is_of(&s->rollup, s->rollup_at, id) || at < n_head)) {
        struct day d = {.raw = s->raw_at, .rollup = s->rollup_at, .head = at};

        d.day = least(first_day(&s->raw, s->raw_at, id), first_day(&s->rollup, s->rollup_at, id));
        d.day = least(d.day, at < n_head ? day_of(head->time[at]) : INT64_MAX);
        for (; is_of_day(&s->raw, s->raw_at, id, d.day); s->raw_at++)
            d.raw_points += s->raw.refs[s->raw_at].summary->n;
        while (is_of_day(&s->rollup, s->rollup_at, id, d.day))
            s->rollup_at++;
        while (at < n_head && day_of(head->time[at]) == d.day)
            at++;
        d.n_raw = s->raw_at - d.raw;
        d.n_rollup = s->rollup_at - d.rollup;
        d.n_head = at - d.head;
        d.meets = meets(s, &d, head);
        rc = add_day(s, &d, head, delta, err);
    }
    if (rc == OTL_OK && s->stored != 0 && s->stored != s->resolution && rows->n > 0) {
        series_points_reset(&s->coarse);
        rows = &s->coarse;
        if (!rollup_coarsen(&s->coarse, &s->rows, s->resolution, delta))
            return no_memory(err);
        rc = charge(s, err);
    }
    if (rc == OTL_OK && rows->n > 0)
        rc = s->emit(s->arg, id, rows, err);
    return rc;
}

/* ---- all ---- */

/* Ascending ids of a and b, in out (empty); charged. */
static enum otl_err unite(struct read *r, const struct series_list *a, const struct series_list *b,
                          struct series_list *out, struct otl_error *err)
{
    size_t i = 0, j = 0, cap = a->n + b->n;

    if (cap == 0)
        return OTL_OK;
    if (read_charge(r, (int64_t)(cap * sizeof(*out->ids)), err) != OTL_OK)
        return OTL_ETOOBIG;
    out->cap = cap; /* what was charged */
    out->ids = malloc(cap * sizeof(*out->ids));
    if (out->ids == NULL)
        return no_memory(err);
    while (i < a->n || j < b->n) {
        bool from_a = j == b->n || (i < a->n && a->ids[i] <= b->ids[j]);
        int64_t id = from_a ? a->ids[i] : b->ids[j];

        i += i < a->n && a->ids[i] == id;
        j += j < b->n && b->ids[j] == id;
        out->ids[out->n++] = id;
    }
    return OTL_OK;
}

static size_t block_bytes(const struct part_refs *refs)
{
    size_t n = 0;

    for (size_t i = 0; i < refs->n_blocks; i++)
        n += part_block_directory(refs->blocks[i])->block_bytes;
    return n;
}

static enum otl_err plan(struct rollup_scan *s, const int64_t *series, size_t n,
                         struct otl_error *err)
{
    struct series_list raw = {0}, rollup = {0};
    size_t bytes;
    enum otl_err rc = find_round(s, series, n, err);

    if (rc == OTL_OK)
        rc = ids_of_refs(s->r, &s->raw, &raw, err);
    if (rc == OTL_OK)
        rc = ids_of_refs(s->r, &s->rollup, &rollup, err);
    if (rc == OTL_OK)
        rc = unite(s->r, &raw, &rollup, &s->ids, err);
    (void)!read_charge(s->r, -(int64_t)((raw.cap + rollup.cap) * sizeof(*raw.ids)), NULL);
    series_list_fini(&raw);
    series_list_fini(&rollup);
    bytes = block_bytes(&s->raw) + block_bytes(&s->rollup);
    s->round_series = s->ids.n / (bytes / s->r->session->shared->round_bytes + 1) + 1;
    if (s->round_series < s->ids.n)
        s->round = SIZE_MAX; /* none of them is at hand */
    return rc;
}

static void scan_fini(struct rollup_scan *s)
{
    (void)!read_charge(s->r, -(int64_t)(s->charged + s->ids.cap * sizeof(*s->ids.ids)), NULL);
    gather_fini(&s->gather, s->r);
    part_refs_release(s->r->session->parts, &s->raw);
    part_refs_release(s->r->session->parts, &s->rollup);
    for (size_t i = 0; i < s->n_sources; i++)
        series_points_fini(&s->sources[i]);
    free(s->sources);
    series_points_fini(&s->points);
    series_points_fini(&s->merged);
    series_points_fini(&s->rows);
    series_points_fini(&s->coarse);
    series_list_fini(&s->ids);
}

enum otl_err read_rollups(struct read *r, int kind, int resolution, const int64_t *series, size_t n,
                          int64_t from, int64_t to,
                          enum otl_err (*emit)(void *arg, int64_t series_id,
                                               const struct series_points *p,
                                               struct otl_error *err),
                          void *arg, struct otl_error *err)
{
    struct rollup_scan s = {.r = r, .resolution = resolution, .emit = emit, .arg = arg};
    struct series_walk walk = {.visit = scan_series, .arg = &s};
    int64_t length = resolution * NS_PER_S;
    enum otl_err rc = read_check(r, err);

    if (rc != OTL_OK)
        return rc;
    if ((kind != KIND_NUMBER_ROLLUP && kind != KIND_HISTOGRAM_ROLLUP) || resolution <= 0 ||
        PART_DAY_NS % length != 0)
        return otl_fail(err, OTL_EBADREQUEST,
                        "rollups of kind %d and %d seconds: there are none, seconds must divide a "
                        "day",
                        kind, resolution);
    s.kind = (enum series_kind)kind;
    s.raw_kind = kind == KIND_NUMBER_ROLLUP ? KIND_NUMBER : KIND_HISTOGRAM;
    s.stored = resolution % ROLLUP_1H == 0   ? (int)ROLLUP_1H
               : resolution % ROLLUP_5M == 0 ? (int)ROLLUP_5M
                                             : 0;
    s.from = ceil_to(from, length);
    s.to = floor_to(to, length);
    if (s.from >= s.to || (series != NULL && n == 0))
        return OTL_OK;
    series_points_init(&s.points, s.raw_kind);
    series_points_init(&s.merged, s.kind);
    series_points_init(&s.rows, s.kind);
    series_points_init(&s.coarse, s.kind);
    rc = plan(&s, series, n, err);
    walk.ids = s.ids.ids;
    walk.n = s.ids.n;
    if (rc == OTL_OK)
        rc = walk_series(&walk, r, s.raw_kind, series, n, s.from, s.to, err);
    scan_fini(&s);
    return rc;
}
