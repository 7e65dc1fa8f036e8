/* aggregate.c -- sum, avg, min, max, count, group, stddev and stdvar: rows are taken one by one
 * into the columns of their group. Sums carry what rounding lost (Kahan, Neumaier 1974). */
#include <math.h>
#include <stdlib.h>

#include "eval_internal.h"

/* Of one group at one step. */
struct cell {
    double value; /* sum, least, greatest; sum of squared differences from mean */
    double lost;  /* what rounding took from value or mean */
    double mean;
    double count;
    struct prom_histogram *h;
    bool has_float, has_histogram;
    bool by_mean; /* the sum would have overflown: value is no more, the mean is kept */
};

struct group {
    struct labels labels;
    struct cell *cells; /* one a step */
};

struct aggregating {
    struct row_sink sink;
    struct eval *v;
    const struct expr *e;
    struct label_table table;
    struct group *groups;
    size_t n, cap;
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

/* *sum + *lost is the sum; x is added. */
static void add(double x, double *sum, double *lost)
{
    double t = *sum + x;

    if (isinf(t))
        *lost = 0;
    else if (fabs(*sum) >= fabs(x))
        *lost += (*sum - t) + x;
    else
        *lost += (x - t) + *sum;
    *sum = t;
}

static void add_to_mean(struct cell *c, double x)
{
    if (!c->by_mean) {
        double sum = c->value, lost = c->lost;

        add(x, &sum, &lost);
        if (!isinf(sum)) {
            c->value = sum;
            c->lost = lost;
            return;
        }
        c->by_mean = true;
        c->mean = c->value / (c->count - 1);
        c->lost /= c->count - 1;
    }
    if (isinf(c->mean)) {
        if (isinf(x) && (c->mean > 0) == (x > 0))
            return;
        if (!isinf(x) && !isnan(x))
            return; /* an infinite mean stays so */
    }
    /* Divided first, so that the difference cannot overflow. */
    add(x / c->count - c->mean / c->count, &c->mean, &c->lost);
}

static void add_float(enum aggregate_op op, struct cell *c, double x)
{
    double delta;

    c->count++;
    switch (op) {
    case AGG_SUM:
        if (!c->has_float) {
            c->value = x;
            c->lost = 0;
        } else {
            add(x, &c->value, &c->lost);
        }
        break;
    case AGG_AVG:
        if (!c->has_float && !c->has_histogram) {
            c->value = x;
            c->lost = 0;
        } else {
            add_to_mean(c, x);
        }
        break;
    case AGG_MIN:
        if (!c->has_float || c->value > x || isnan(c->value))
            c->value = x;
        break;
    case AGG_MAX:
        if (!c->has_float || c->value < x || isnan(c->value))
            c->value = x;
        break;
    case AGG_STDDEV:
    case AGG_STDVAR:
        if (!c->has_float) {
            c->count = 1;
            c->mean = x;
            c->value = isnan(x) || isinf(x) ? (double)NAN : 0;
            break;
        }
        delta = x - c->mean;
        c->mean += delta / c->count;
        c->value += delta * (x - c->mean);
        break;
    default:
        break;
    }
    c->has_float = true;
}

/* The mean of a histogram moves as that of a number does. */
static bool add_histogram(enum aggregate_op op, struct cell *c, const struct prom_histogram *h)
{
    struct prom_histogram *sum, *part, *before;

    c->count++;
    c->has_histogram = true;
    if (op != AGG_SUM && op != AGG_AVG)
        return true;
    if (c->h == NULL) {
        c->h = histogram_copy(h);
        return c->h != NULL;
    }
    if (op == AGG_SUM) {
        sum = histogram_add(c->h, h);
    } else {
        part = histogram_copy(h);
        before = histogram_copy(c->h);
        sum = NULL;
        if (part != NULL && before != NULL) {
            histogram_scale(part, 1 / c->count);
            histogram_scale(before, -1 / c->count);
            struct prom_histogram *step = histogram_add(part, before);

            if (step != NULL)
                sum = histogram_add(c->h, step);
            histogram_free(step);
        }
        histogram_free(part);
        histogram_free(before);
    }
    if (sum == NULL)
        return false;
    histogram_free(c->h);
    c->h = sum;
    return true;
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
                rc = eval_info(a->v, a->e, err, "ignored histogram in %s aggregation",
                               aggregate_op_name(op));
            else if (!add_histogram(op, &g->cells[i], row->h[i]))
                rc = eval_no_memory(err);
        } else if (!prom_is_stale(row->v[i])) {
            add_float(op, &g->cells[i], row->v[i]);
        }
    }
    return rc;
}

/* What a cell comes to. Floats and histograms do not add up to anything. */
static enum otl_err result(struct aggregating *a, struct cell *c, struct sample *out,
                           struct otl_error *err)
{
    enum aggregate_op op = a->e->u.aggregate.op;

    *out = (struct sample){prom_stale(), NULL};
    if (!c->has_float && !c->has_histogram)
        return OTL_OK;
    if (op == AGG_COUNT || op == AGG_GROUP) {
        out->v = op == AGG_COUNT ? c->count : 1;
        return OTL_OK;
    }
    if (c->has_float && c->has_histogram)
        return eval_warn(a->v, a->e, err,
                         "encountered a mix of histograms and floats for %s aggregation",
                         aggregate_op_name(op));
    if (c->has_histogram) {
        out->h = c->h;
        c->h = NULL;
        if (out->h != NULL)
            histogram_compact(out->h);
        return OTL_OK;
    }
    switch (op) {
    case AGG_SUM:
        out->v = c->value + c->lost;
        break;
    case AGG_AVG:
        out->v = c->by_mean ? c->mean + c->lost : (c->value + c->lost) / c->count;
        break;
    case AGG_STDVAR:
        out->v = c->value / c->count;
        break;
    case AGG_STDDEV:
        out->v = sqrt(c->value / c->count);
        break;
    default:
        out->v = c->value;
        break;
    }
    return OTL_OK;
}

static enum otl_err give_group(struct aggregating *a, struct group *g, struct prom_value *out,
                               struct otl_error *err)
{
    struct prom_row *row = eval_add_row(a->v, out, g->labels, err);
    enum otl_err rc = row == NULL ? err->code : OTL_OK;

    for (size_t i = 0; i < a->v->steps && rc == OTL_OK; i++) {
        struct sample s;

        rc = result(a, &g->cells[i], &s, err);
        if (rc == OTL_OK)
            rc = eval_put(a->v, row, i, s, err);
        else
            histogram_free(s.h);
    }
    return rc;
}

enum otl_err eval_aggregate(struct eval *v, const struct expr *e, struct prom_value *out,
                            struct otl_error *err)
{
    struct aggregating a = {.sink = {take_row}, .v = v, .e = e};
    struct otl_error ignored;
    enum otl_err rc;

    out->type = PROM_VECTOR;
    if (e->u.aggregate.op >= AGG_TOPK)
        return eval_pick(v, e, out, err);
    rc = eval_stream(v, e->u.aggregate.of, &a.sink, err);
    for (size_t i = 0; i < a.n && rc == OTL_OK; i++)
        rc = give_group(&a, &a.groups[i], out, err);
    for (size_t i = 0; i < a.n; i++) {
        for (size_t k = 0; a.groups[i].cells != NULL && k < v->steps; k++)
            histogram_free(a.groups[i].cells[k].h);
        free(a.groups[i].cells);
    }
    /* Giving back cannot fail. */
    if (read_charge(v->read, -(int64_t)(a.n * v->steps * sizeof(struct cell)), &ignored) != OTL_OK)
        rc = rc != OTL_OK ? rc : OTL_EINTERNAL;
    free(a.groups);
    label_table_fini(&a.table);
    return rc;
}
