/* aggregate_pick.c -- aggregations that need all samples of a group at once, step by step: topk,
 * bottomk, limitk, limit_ratio, quantile, count_values. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "eval_internal.h"
#include "format_number.h"
#include "number.h"

enum { ROWS_A_CHECK = 1024 };

struct pick {
    struct eval *v;
    const struct expr *e;
    struct prom_value in;
    double *param;
    struct bytes label; /* of count_values */
    uint32_t *group;    /* of each row of in */
    struct label_table table;
    /* Of a step: */
    struct candidate *heap; /* of the groups one behind the other: first[g] on, n_in[g] of them */
    size_t *first, *n_in;
    double *values; /* quantile: of one group */
};

struct candidate {
    double v;
    uint32_t row;
};

/* ---- groups ---- */

static enum otl_err make_groups(struct pick *p, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    p->group = calloc(p->in.n_rows + 1, sizeof(*p->group));
    if (p->group == NULL)
        return eval_no_memory(err);
    for (size_t i = 0; i < p->in.n_rows && rc == OTL_OK; i++) {
        struct labels labels;
        bool is_new;

        if (i % ROWS_A_CHECK == 0)
            rc = read_check(p->v->read, err);
        if (rc == OTL_OK)
            rc = aggregate_labels(p->v, p->e, p->in.rows[i].labels, &labels, err);
        if (rc == OTL_OK && !label_table_add(&p->table, labels, &p->group[i], &is_new))
            rc = eval_no_memory(err);
    }
    if (rc != OTL_OK)
        return rc;
    p->first = calloc(p->table.n + 1, sizeof(*p->first));
    p->n_in = calloc(p->table.n + 1, sizeof(*p->n_in));
    p->heap = calloc(p->in.n_rows + 1, sizeof(*p->heap));
    p->values = calloc(p->in.n_rows + 1, sizeof(*p->values));
    if (p->first == NULL || p->n_in == NULL || p->heap == NULL || p->values == NULL)
        return eval_no_memory(err);
    for (size_t i = 0; i < p->in.n_rows; i++)
        p->first[p->group[i] + 1]++;
    for (size_t g = 0; g < p->table.n; g++)
        p->first[g + 1] += p->first[g];
    return OTL_OK;
}

/* ---- the parameter ---- */

/* Of all steps. */
struct extremes {
    double least, greatest;
    bool any_nan;
};

static struct extremes extremes_of(const struct pick *p)
{
    struct extremes x = {(double)INFINITY, -(double)INFINITY, false};

    for (size_t i = 0; i < p->v->steps; i++) {
        if (isnan(p->param[i]))
            x.any_nan = true;
        x.least = p->param[i] < x.least ? p->param[i] : x.least;
        x.greatest = p->param[i] > x.greatest ? p->param[i] : x.greatest;
    }
    return x;
}

/* Is there a step at which k asks for something? */
static enum otl_err check_k(const struct pick *p, bool *asks, struct otl_error *err)
{
    const struct extremes x = extremes_of(p);
    const double limit = 9223372036854775808.0;
    char text[FORMAT_G_MAX];

    if (x.any_nan)
        return otl_fail(err, OTL_EBADREQUEST, "Parameter value is NaN");
    *asks = x.greatest >= 1;
    if (*asks && x.least <= -limit)
        return otl_fail(err, OTL_EBADREQUEST, "Scalar value %s underflows int64",
                        format_g_text(x.least, text));
    if (*asks && x.greatest >= limit)
        return otl_fail(err, OTL_EBADREQUEST, "Scalar value %s overflows int64",
                        format_g_text(x.greatest, text));
    return OTL_OK;
}

static enum otl_err check_ratio(const struct pick *p, struct otl_error *err)
{
    const struct extremes x = extremes_of(p);
    const struct expr *e = p->e->u.aggregate.param;
    char text[FORMAT_G_MAX];
    enum otl_err rc = OTL_OK;

    if (x.any_nan)
        return otl_fail(err, OTL_EBADREQUEST, "Ratio value is NaN");
    if (x.greatest > 1)
        rc = eval_warn(p->v, e, err, "ratio value should be between -1 and 1, got %s, capping to 1",
                       format_g_text(x.greatest, text));
    if (rc == OTL_OK && x.least < -1)
        rc =
            eval_warn(p->v, e, err, "ratio value should be between -1 and 1, got %s, capping to -1",
                      format_g_text(x.least, text));
    return rc;
}

#define BAD_QUANTILE "quantile value should be between 0 and 1, got %s"
static enum otl_err check_quantile(const struct pick *p, struct otl_error *err)
{
    const struct extremes x = extremes_of(p);
    const struct expr *e = p->e->u.aggregate.param;
    char text[FORMAT_G_MAX];
    enum otl_err rc = OTL_OK;

    if (x.any_nan)
        rc = eval_warn(p->v, e, err, BAD_QUANTILE, "NaN");
    if (rc == OTL_OK && x.greatest > 1)
        rc = eval_warn(p->v, e, err, BAD_QUANTILE, format_g_text(x.greatest, text));
    if (rc == OTL_OK && x.least < 0)
        rc = eval_warn(p->v, e, err, BAD_QUANTILE, format_g_text(x.least, text));
    return rc;
}

/* ---- topk, bottomk: a heap of the k best, the worst of them on top ---- */

/* a goes before b: NaN is worse than all. */
static bool is_worse(enum aggregate_op op, double a, double b)
{
    if (isnan(a))
        return true;
    return op == AGG_TOPK ? a < b : a > b;
}

static void sift_up(enum aggregate_op op, struct candidate *h, size_t i)
{
    while (i > 0) {
        size_t parent = (i - 1) / 2;
        struct candidate x = h[i];

        if (parent == i || !is_worse(op, h[i].v, h[parent].v))
            return;
        h[i] = h[parent];
        h[parent] = x;
        i = parent;
    }
}

static void sift_down(enum aggregate_op op, struct candidate *h, size_t n)
{
    size_t i = 0;

    for (;;) {
        size_t child = 2 * i + 1;
        struct candidate x = h[i];

        if (child >= n)
            return;
        if (child + 1 < n && is_worse(op, h[child + 1].v, h[child].v))
            child++;
        if (!is_worse(op, h[child].v, h[i].v))
            return;
        h[i] = h[child];
        h[child] = x;
        i = child;
    }
}

static void offer(enum aggregate_op op, struct candidate *h, size_t *n, size_t k,
                  struct candidate c)
{
    if (*n < k) {
        h[(*n)++] = c;
        sift_up(op, h, *n - 1);
        return;
    }
    if (op == AGG_LIMITK)
        return;
    if (op == AGG_TOPK ? h[0].v < c.v : h[0].v > c.v) {
        h[0] = c;
    } else if (isnan(h[0].v) && !isnan(c.v)) {
        h[0] = c;
    } else {
        return;
    }
    sift_down(op, h, *n);
}

static enum otl_err pick_step(struct pick *p, size_t i, struct prom_value *out,
                              struct otl_error *err)
{
    enum aggregate_op op = p->e->u.aggregate.op;
    const int64_t k = (int64_t)p->param[i];
    enum otl_err rc = OTL_OK;

    if (k < 1)
        return OTL_OK;
    memset(p->n_in, 0, p->table.n * sizeof(*p->n_in));
    for (size_t r = 0; r < p->in.n_rows && rc == OTL_OK; r++) {
        struct sample s = eval_sample(&p->in.rows[r], i);
        uint32_t g = p->group[r];

        if (sample_is_absent(&s))
            continue;
        if (s.h != NULL && op != AGG_LIMITK) {
            rc = eval_info(p->v, p->e, err, "ignored histogram in %s aggregation",
                           aggregate_op_name(op));
            continue;
        }
        offer(op, p->heap + p->first[g], &p->n_in[g], (size_t)k,
              (struct candidate){s.h != NULL ? 0 : s.v, (uint32_t)r});
    }
    for (size_t g = 0; g < p->table.n && rc == OTL_OK; g++) {
        for (size_t c = 0; c < p->n_in[g] && rc == OTL_OK; c++) {
            uint32_t r = p->heap[p->first[g] + c].row;
            struct sample s = eval_sample(&p->in.rows[r], i);

            if (s.h != NULL)
                p->in.rows[r].h[i] = NULL; /* it moves */
            rc = eval_put(p->v, &out->rows[r], i, s, err);
        }
    }
    return rc;
}

/* Rows of out are those of in until the end, so that a step finds them by number. */
static enum otl_err same_rows(struct pick *p, struct prom_value *out, struct otl_error *err)
{
    for (size_t r = 0; r < p->in.n_rows; r++) {
        if (eval_add_row(p->v, out, p->in.rows[r].labels, err) == NULL)
            return err->code;
    }
    return OTL_OK;
}

/* An instant query's answer: group by group, the best first. */
struct ordered {
    uint32_t group;
    double v;
    struct prom_row row;
};

static int best_first(const void *a, const void *b)
{
    const struct ordered *x = a, *y = b;

    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (isnan(x->v) || isnan(y->v))
        return isnan(x->v) - isnan(y->v);
    return (x->v < y->v) - (x->v > y->v);
}
static int least_first(const void *a, const void *b)
{
    const struct ordered *x = a, *y = b;

    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (isnan(x->v) || isnan(y->v))
        return isnan(x->v) - isnan(y->v);
    return (x->v > y->v) - (x->v < y->v);
}

static enum otl_err order_rows(const struct pick *p, struct prom_value *out, struct otl_error *err)
{
    struct ordered *o = calloc(out->n_rows + 1, sizeof(*o));

    if (o == NULL)
        return eval_no_memory(err);
    for (size_t r = 0; r < out->n_rows; r++)
        o[r] = (struct ordered){p->group[r], out->rows[r].v[0], out->rows[r]};
    qsort(o, out->n_rows, sizeof(*o), p->e->u.aggregate.op == AGG_TOPK ? best_first : least_first);
    for (size_t r = 0; r < out->n_rows; r++)
        out->rows[r] = o[r].row;
    free(o);
    return OTL_OK;
}

static enum otl_err pick_k(struct pick *p, struct prom_value *out, struct otl_error *err)
{
    enum aggregate_op op = p->e->u.aggregate.op;
    bool asks = false;
    enum otl_err rc = check_k(p, &asks, err);

    if (rc != OTL_OK || !asks)
        return rc;
    rc = same_rows(p, out, err);
    for (size_t i = 0; i < p->v->steps && rc == OTL_OK; i++) {
        rc = read_check(p->v->read, err);
        if (rc == OTL_OK)
            rc = pick_step(p, i, out, err);
    }
    if (rc == OTL_OK && p->v->steps == 1 && op != AGG_LIMITK)
        rc = order_rows(p, out, err);
    return rc;
}

/* ---- limit_ratio: the share of series whose hash is small, or with a negative ratio the others
 * ---- */

static enum otl_err pick_ratio(struct pick *p, struct prom_value *out, struct otl_error *err)
{
    enum otl_err rc = check_ratio(p, err);

    if (rc == OTL_OK)
        rc = same_rows(p, out, err);
    for (size_t i = 0; i < p->v->steps && rc == OTL_OK; i++) {
        const double ratio = p->param[i];

        rc = read_check(p->v->read, err);
        for (size_t r = 0; r < p->in.n_rows && rc == OTL_OK; r++) {
            struct sample s = eval_sample(&p->in.rows[r], i);
            double at = (double)labels_hash(p->in.rows[r].labels) / 18446744073709551616.0;

            if (sample_is_absent(&s) || !(ratio >= 0 ? at < ratio : at >= 1 + ratio))
                continue;
            if (s.h != NULL)
                p->in.rows[r].h[i] = NULL;
            rc = eval_put(p->v, &out->rows[r], i, s, err);
        }
    }
    return rc;
}

/* ---- quantile ---- */

static enum otl_err quantile_step(struct pick *p, size_t i, struct prom_value *out,
                                  struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    memset(p->n_in, 0, p->table.n * sizeof(*p->n_in));
    for (size_t r = 0; r < p->in.n_rows && rc == OTL_OK; r++) {
        struct sample s = eval_sample(&p->in.rows[r], i);
        uint32_t g = p->group[r];

        if (s.h != NULL)
            rc = eval_info(p->v, eval_unwrap(p->e->u.aggregate.of), err,
                           "ignored histogram in quantile aggregation");
        else if (!prom_is_stale(s.v))
            p->heap[p->first[g] + p->n_in[g]++].v = s.v;
    }
    for (size_t g = 0; g < p->table.n && rc == OTL_OK; g++) {
        for (size_t c = 0; c < p->n_in[g]; c++)
            p->values[c] = p->heap[p->first[g] + c].v;
        if (p->n_in[g] > 0)
            out->rows[g].v[i] = number_quantile(p->param[i], p->values, p->n_in[g]);
    }
    return rc;
}

static enum otl_err pick_quantile(struct pick *p, struct prom_value *out, struct otl_error *err)
{
    enum otl_err rc = check_quantile(p, err);

    for (size_t g = 0; g < p->table.n && rc == OTL_OK; g++) {
        if (eval_add_row(p->v, out, p->table.keys[g], err) == NULL)
            return err->code;
    }
    for (size_t i = 0; i < p->v->steps && rc == OTL_OK; i++) {
        rc = read_check(p->v->read, err);
        if (rc == OTL_OK)
            rc = quantile_step(p, i, out, err);
    }
    return rc;
}

/* ---- count_values: a group for each value, which becomes a label ---- */

/* The group's labels with the value: it is a label like any other, so `by` keeps it and `without`
 * may take it. */
static enum otl_err value_labels(struct pick *p, const struct prom_row *row, const struct sample *s,
                                 struct labels *out, struct otl_error *err)
{
    struct buf text = {0};
    struct bytes kept;
    struct labels grouped;
    bool ok;

    if (s->h != NULL)
        histogram_print(&text, s->h);
    else
        format_float(&text, s->v);
    ok = !text.failed && arena_dup(p->v->arena, buf_bytes(&text), &kept);
    buf_fini(&text);
    if (!ok)
        return eval_no_memory(err);
    if (!p->e->u.aggregate.without) {
        enum otl_err rc = aggregate_labels(p->v, p->e, row->labels, &grouped, err);

        if (rc != OTL_OK)
            return rc;
        return labels_set(p->v->arena, grouped, p->label, kept, out) ? OTL_OK : eval_no_memory(err);
    }
    if (!labels_set(p->v->arena, row->labels, p->label, kept, &grouped))
        return eval_no_memory(err);
    return aggregate_labels(p->v, p->e, grouped, out, err);
}

static enum otl_err count_row(struct pick *p, const struct prom_row *row, struct prom_value *out,
                              struct otl_error *err)
{
    enum otl_err rc = read_check(p->v->read, err);
    struct sample before = {prom_stale(), NULL};
    uint32_t at = 0;

    for (size_t i = 0; i < row->n && rc == OTL_OK; i++) {
        struct sample s = eval_sample(row, i);
        struct labels labels;
        bool is_new = false;

        if (sample_is_absent(&s))
            continue;
        /* Values mostly stay as they are from step to step. */
        if (s.h != NULL || before.h != NULL || memcmp(&s.v, &before.v, sizeof(s.v)) != 0) {
            rc = value_labels(p, row, &s, &labels, err);
            if (rc == OTL_OK && !label_table_add(&p->table, labels, &at, &is_new))
                rc = eval_no_memory(err);
            if (rc == OTL_OK && is_new && eval_add_row(p->v, out, labels, err) == NULL)
                rc = err->code;
        }
        if (rc != OTL_OK)
            break;
        before = s;
        out->rows[at].v[i] = prom_is_stale(out->rows[at].v[i]) ? 1 : out->rows[at].v[i] + 1;
    }
    return rc;
}

/* ---- all ---- */

static enum otl_err dispatch(struct pick *p, struct prom_value *out, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    if (p->e->u.aggregate.op == AGG_COUNT_VALUES) {
        p->label = eval_unwrap(p->e->u.aggregate.param)->u.string;
        if (p->label.n == 0 || !utf8_valid(p->label))
            return otl_fail(err, OTL_EBADREQUEST, "invalid label name \"%.*s\"",
                            (int)(p->label.n < 100 ? p->label.n : 100), (const char *)p->label.p);
        for (size_t r = 0; r < p->in.n_rows && rc == OTL_OK; r++)
            rc = count_row(p, &p->in.rows[r], out, err);
        return rc;
    }
    rc = eval_scalar(p->v, p->e->u.aggregate.param, &p->param, err);
    if (rc == OTL_OK)
        rc = make_groups(p, err);
    if (rc != OTL_OK)
        return rc;
    switch (p->e->u.aggregate.op) {
    case AGG_QUANTILE:
        return pick_quantile(p, out, err);
    case AGG_LIMIT_RATIO:
        return pick_ratio(p, out, err);
    default:
        return pick_k(p, out, err);
    }
}

enum otl_err eval_pick(struct eval *v, const struct expr *e, struct prom_value *out,
                       struct otl_error *err)
{
    struct pick p = {.v = v, .e = e, .in = {.type = PROM_VECTOR}};
    enum otl_err rc = eval_whole(v, e->u.aggregate.of, &p.in, err);

    out->type = PROM_VECTOR;
    if (rc == OTL_OK)
        rc = dispatch(&p, out, err);
    eval_free(v, &p.in);
    label_table_fini(&p.table);
    eval_free_scalar(v, p.param);
    free(p.group);
    free(p.heap);
    free(p.first);
    free(p.n_in);
    free(p.values);
    return rc;
}
