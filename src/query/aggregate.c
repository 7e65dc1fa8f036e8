/* aggregate.c -- sum, avg, min, max, count, group, stddev and stdvar: rows are taken one by one
 * into the columns of their group. Sums carry what rounding lost (Kahan, Neumaier 1974). */
#include <math.h>
#include <stdlib.h>

#include "eval_internal.h"
#include "number.h"

/* Of one group at one step. There are as many as groups have steps, so it is small. */
struct cell {
    union {
        struct exact_sum sum; /* of all, or the mean when by_mean */
        double most;          /* the least or the greatest */
        struct {
            double squares, mean; /* squares: sum of squared differences from mean */
        } spread;
    } u;
    double count;
    bool has_float, has_histogram;
    bool by_mean; /* the sum would have overflown */
};

struct group {
    struct labels labels;
    struct cell *cells;        /* one a step */
    struct prom_histogram **h; /* likewise; NULL until there is one */
    size_t held;               /* of them */
};

struct aggregating {
    struct row_sink sink;
    struct eval *v;
    const struct expr *e;
    struct label_table table;
    struct group *groups;
    size_t n, cap;
    size_t charged; /* bytes */
};

enum otl_err aggregate_labels(struct eval *v, const struct expr *e, struct labels l,
                              struct labels *out, struct otl_error *err)
{
    const struct bytes *labels = e->u.aggregate.labels;
    size_t n = e->u.aggregate.n_labels;
    bool ok;

    if (!e->u.aggregate.without) {
        ok = labels_keep(v->arena, l, labels, n, out);
    } else {
        ok = labels_drop(v->arena, l, labels, n, out);
        if (ok)
            return eval_drop_name(v, *out, out, err);
    }
    return ok ? OTL_OK : eval_no_memory(err);
}

/* x is the c->count'th. */
static void add_to_mean(struct cell *c, double x)
{
    double share;

    if (!c->by_mean) {
        struct exact_sum sum = c->u.sum;

        exact_add(&sum, x);
        if (!isinf(sum.sum)) {
            c->u.sum = sum;
            return;
        }
        c->by_mean = true;
        c->u.sum.sum /= c->count - 1;
        c->u.sum.lost /= c->count - 1;
    }
    share = (c->count - 1) / c->count;
    c->u.sum.sum *= share;
    c->u.sum.lost *= share;
    exact_add(&c->u.sum, x / c->count);
}

static void add_float(enum aggregate_op op, struct cell *c, double x)
{
    double delta;

    c->count++;
    switch (op) {
    case AGG_SUM:
        if (!c->has_float)
            c->u.sum.sum = x; /* a sum of -0 is -0 */
        else
            exact_add(&c->u.sum, x);
        break;
    case AGG_AVG:
        if (!c->has_float)
            c->u.sum.sum = x;
        else
            add_to_mean(c, x);
        break;
    case AGG_MIN:
        if (!c->has_float || c->u.most > x || isnan(c->u.most))
            c->u.most = x;
        break;
    case AGG_MAX:
        if (!c->has_float || c->u.most < x || isnan(c->u.most))
            c->u.most = x;
        break;
    case AGG_STDDEV:
    case AGG_STDVAR:
        if (!c->has_float) {
            c->count = 1;
            c->u.spread.mean = x;
            c->u.spread.squares = isnan(x) || isinf(x) ? (double)NAN : 0;
            break;
        }
        delta = x - c->u.spread.mean;
        c->u.spread.mean += delta / c->count;
        c->u.spread.squares += delta * (x - c->u.spread.mean);
        break;
    default:
        break;
    }
    c->has_float = true;
}

/* *mean of n - 1 histograms moves by h / n - *mean / n. */
static bool move_mean(struct prom_histogram **mean, const struct prom_histogram *h, double n)
{
    struct prom_histogram *part = histogram_copy(h), *before = histogram_copy(*mean), *step = NULL;
    bool ok = false;

    if (part != NULL && before != NULL) {
        histogram_divide(part, n);
        histogram_divide(before, n);
        step = histogram_sub(part, before);
    }
    if (step != NULL) {
        /* A difference, but the mean of counters is one. */
        step->hint = h->hint;
        ok = histogram_add_to(mean, step);
    }
    histogram_free(part);
    histogram_free(before);
    histogram_free(step);
    return ok;
}

static enum otl_err add_histogram(struct aggregating *a, struct group *g, size_t i,
                                  const struct prom_histogram *h, struct otl_error *err)
{
    enum aggregate_op op = a->e->u.aggregate.op;
    struct cell *c = &g->cells[i];
    size_t bytes;
    bool ok;

    c->count++;
    c->has_histogram = true;
    /* Together with floats nothing comes of it. */
    if ((op != AGG_SUM && op != AGG_AVG) || c->has_float)
        return OTL_OK;
    if (g->h == NULL) {
        enum otl_err rc = read_charge(a->v->read, (int64_t)(a->v->steps * sizeof(*g->h)), err);

        if (rc != OTL_OK)
            return rc;
        a->charged += a->v->steps * sizeof(*g->h);
        g->h = calloc(a->v->steps, sizeof(*g->h));
        if (g->h == NULL)
            return eval_no_memory(err);
    }
    if (g->h[i] == NULL) {
        g->h[i] = histogram_copy(h);
        return g->h[i] == NULL ? eval_no_memory(err)
                               : eval_hold_histogram(a->v, &g->held, histogram_bytes(h), err);
    }
    bytes = histogram_bytes(g->h[i]);
    ok = op == AGG_SUM ? histogram_add_to(&g->h[i], h) : move_mean(&g->h[i], h, c->count);
    if (!ok)
        return eval_no_memory(err);
    return histogram_bytes(g->h[i]) <= bytes
               ? OTL_OK
               : eval_hold_histogram(a->v, &g->held, histogram_bytes(g->h[i]) - bytes, err);
}

static enum otl_err group_of(struct aggregating *a, const struct prom_row *row, struct group **out,
                             struct otl_error *err)
{
    struct labels labels;
    uint32_t at;
    bool is_new;
    enum otl_err rc = aggregate_labels(a->v, a->e, row->labels, &labels, err);

    if (rc != OTL_OK)
        return rc;
    if (!label_table_add(&a->table, labels, &at, &is_new))
        return eval_no_memory(err);
    if (is_new) {
        if (a->n == a->cap) {
            size_t cap = a->cap == 0 ? 16 : 2 * a->cap;
            struct group *more = reallocarray(a->groups, cap, sizeof(*more));

            if (more == NULL)
                return eval_no_memory(err);
            a->groups = more;
            a->cap = cap;
        }
        rc = read_charge(a->v->read, (int64_t)(a->v->steps * sizeof(struct cell)), err);
        if (rc != OTL_OK)
            return rc;
        a->charged += a->v->steps * sizeof(struct cell);
        a->groups[a->n] =
            (struct group){.labels = labels, .cells = calloc(a->v->steps, sizeof(struct cell))};
        if (a->groups[a->n++].cells == NULL)
            return eval_no_memory(err);
    }
    *out = &a->groups[at];
    return OTL_OK;
}

static enum otl_err take_row(struct row_sink *s, struct prom_row *row, struct otl_error *err)
{
    struct aggregating *a = (struct aggregating *)(void *)s;
    enum aggregate_op op = a->e->u.aggregate.op;
    struct group *g = NULL;
    enum otl_err rc = group_of(a, row, &g, err);

    for (size_t i = 0; i < row->n && rc == OTL_OK; i++) {
        if (row->h != NULL && row->h[i] != NULL) {
            if (op == AGG_MIN || op == AGG_MAX || op == AGG_STDDEV || op == AGG_STDVAR)
                rc = eval_info(a->v, eval_unwrap(a->e->u.aggregate.of), err,
                               "ignored histogram in %s aggregation", aggregate_op_name(op));
            else
                rc = add_histogram(a, g, i, row->h[i], err);
        } else if (!prom_is_stale(row->v[i])) {
            add_float(op, &g->cells[i], row->v[i]);
        }
    }
    return rc;
}

/* What a cell comes to. Floats and histograms do not add up to anything. */
static enum otl_err result(struct aggregating *a, struct group *g, size_t i, struct sample *out,
                           struct otl_error *err)
{
    const struct cell *c = &g->cells[i];
    enum aggregate_op op = a->e->u.aggregate.op;

    *out = (struct sample){prom_stale(), NULL};
    if (!c->has_float && !c->has_histogram)
        return OTL_OK;
    if (op == AGG_COUNT || op == AGG_GROUP) {
        out->v = op == AGG_COUNT ? c->count : 1;
        return OTL_OK;
    }
    if (c->has_float && c->has_histogram)
        return eval_warn(a->v, eval_unwrap(a->e->u.aggregate.of), err,
                         "encountered a mix of histograms and floats for aggregation");
    if (c->has_histogram) {
        if (g->h == NULL || g->h[i] == NULL)
            return OTL_OK;
        out->h = g->h[i];
        g->h[i] = NULL;
        histogram_compact(out->h);
        return OTL_OK;
    }
    switch (op) {
    case AGG_SUM:
        out->v = exact_value(&c->u.sum);
        break;
    case AGG_AVG:
        out->v = c->by_mean ? exact_value(&c->u.sum)
                            : c->u.sum.sum / c->count + c->u.sum.lost / c->count;
        break;
    case AGG_STDVAR:
        out->v = c->u.spread.squares / c->count;
        break;
    case AGG_STDDEV:
        out->v = sqrt(c->u.spread.squares / c->count);
        break;
    default:
        out->v = c->u.most;
        break;
    }
    return OTL_OK;
}

static enum otl_err give_group(struct aggregating *a, struct group *g, struct prom_value *out,
                               struct otl_error *err)
{
    struct prom_row *row = eval_add_row(a->v, out, g->labels, err);
    enum otl_err rc = row == NULL ? err->code : read_check(a->v->read, err);

    for (size_t i = 0; i < a->v->steps && rc == OTL_OK; i++) {
        struct sample s;

        rc = result(a, g, i, &s, err);
        if (rc == OTL_OK)
            rc = eval_put(a->v, row, i, s, err);
        else
            histogram_free(s.h);
    }
    eval_release_histograms(a->v, &g->held);
    return rc;
}

enum otl_err eval_aggregate(struct eval *v, const struct expr *e, struct prom_value *out,
                            struct otl_error *err)
{
    struct aggregating a = {.sink = {take_row}, .v = v, .e = e};
    enum otl_err rc;

    out->type = PROM_VECTOR;
    if (e->u.aggregate.op >= AGG_TOPK)
        return eval_pick(v, e, out, err);
    rc = eval_stream(v, e->u.aggregate.of, &a.sink, err);
    for (size_t i = 0; i < a.n && rc == OTL_OK; i++)
        rc = give_group(&a, &a.groups[i], out, err);
    for (size_t i = 0; i < a.n; i++) {
        for (size_t k = 0; a.groups[i].h != NULL && k < v->steps; k++)
            histogram_free(a.groups[i].h[k]);
        free(a.groups[i].h);
        free(a.groups[i].cells);
        eval_release_histograms(v, &a.groups[i].held);
    }
    /* Giving back cannot fail. */
    (void)!read_charge(v->read, -(int64_t)a.charged, NULL);
    free(a.groups);
    label_table_fini(&a.table);
    return rc;
}
