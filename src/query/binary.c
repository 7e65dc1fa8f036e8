/* binary.c -- operators on a pair of samples, and a vector with a scalar. */
#include <math.h>
#include <stdlib.h>

#include "eval_internal.h"
#include "promql_internal.h"

/* keep: what a comparison comes to; true for arithmetic. A comparison's value is its left side. */
double binary_numbers(enum binary_op op, double l, double r, bool *keep)
{
    *keep = true;
    switch (op) {
    case OP_ADD:
        return l + r;
    case OP_SUB:
        return l - r;
    case OP_MUL:
        return l * r;
    case OP_DIV:
        return l / r;
    case OP_MOD:
        return fmod(l, r);
    case OP_POW:
        return pow(l, r);
    case OP_ATAN2:
        return atan2(l, r);
    case OP_EQ:
        *keep = l == r;
        break;
    case OP_NE:
        *keep = l != r;
        break;
    case OP_GT:
        *keep = l > r;
        break;
    case OP_LT:
        *keep = l < r;
        break;
    case OP_GE:
        *keep = l >= r;
        break;
    case OP_LE:
        *keep = l <= r;
        break;
    default:
        *keep = false;
        break;
    }
    return l;
}

bool binary_drops_name(const struct expr *e)
{
    return !binary_is_comparison(e->u.binary.op) || e->u.binary.is_bool;
}

static enum otl_err incompatible(struct eval *v, const struct expr *e, const struct sample *l,
                                 const struct sample *r, bool *keep, struct otl_error *err)
{
    *keep = false;
    return eval_info(v, e, err,
                     "incompatible sample types encountered for binary operator \"%s\": %s %s %s",
                     binary_op_name(e->u.binary.op), l->h != NULL ? "histogram" : "float",
                     binary_op_name(e->u.binary.op), r->h != NULL ? "histogram" : "float");
}

/* + and -, == and != of two histograms. */
static enum otl_err two_histograms(struct eval *v, const struct expr *e, const struct sample *l,
                                   const struct sample *r, struct sample *out, bool *keep,
                                   struct otl_error *err)
{
    bool equal;

    switch (e->u.binary.op) {
    case OP_ADD:
        out->h = histogram_add(l->h, r->h);
        break;
    case OP_SUB:
        out->h = histogram_sub(l->h, r->h);
        break;
    case OP_EQ:
    case OP_NE:
        equal = histogram_equal(l->h, r->h);
        *keep = equal == (e->u.binary.op == OP_EQ);
        if (!*keep)
            return OTL_OK;
        out->h = histogram_copy(l->h);
        return out->h == NULL ? eval_no_memory(err) : OTL_OK;
    default:
        return incompatible(v, e, l, r, keep, err);
    }
    if (out->h == NULL)
        return eval_no_memory(err);
    histogram_compact(out->h);
    return OTL_OK;
}

/* A histogram times or divided by a number. */
static enum otl_err scaled(struct eval *v, const struct expr *e, const struct sample *l,
                           const struct sample *r, struct sample *out, bool *keep,
                           struct otl_error *err)
{
    bool left = l->h != NULL;
    double factor = left ? r->v : l->v;

    if (e->u.binary.op != OP_MUL && !(e->u.binary.op == OP_DIV && left))
        return incompatible(v, e, l, r, keep, err);
    out->h = histogram_copy(left ? l->h : r->h);
    if (out->h == NULL)
        return eval_no_memory(err);
    if (e->u.binary.op == OP_DIV)
        histogram_divide(out->h, factor);
    else
        histogram_scale(out->h, factor);
    histogram_compact(out->h);
    return OTL_OK;
}

enum otl_err binary_samples(struct eval *v, const struct expr *e, const struct sample *l,
                            const struct sample *r, struct sample *out, bool *keep,
                            struct otl_error *err)
{
    *out = (struct sample){prom_stale(), NULL};
    *keep = true;
    if (l->h != NULL && r->h != NULL)
        return two_histograms(v, e, l, r, out, keep, err);
    if (l->h != NULL || r->h != NULL)
        return scaled(v, e, l, r, out, keep, err);
    out->v = binary_numbers(e->u.binary.op, l->v, r->v, keep);
    return OTL_OK;
}

/* ---- a vector and a scalar ---- */

struct scalar_sink {
    struct row_sink sink;
    struct eval *v;
    const struct expr *e;
    struct row_sink *to;
    const double *scalar;
    bool scalar_left;
};

static enum otl_err one_sample(struct scalar_sink *s, struct prom_row *row, size_t i,
                               struct otl_error *err)
{
    const struct expr *e = s->e;
    struct sample x = eval_sample(row, i), n = {s->scalar[i], NULL}, out;
    bool keep;
    enum otl_err rc = s->scalar_left ? binary_samples(s->v, e, &n, &x, &out, &keep, err)
                                     : binary_samples(s->v, e, &x, &n, &out, &keep, err);

    if (rc != OTL_OK)
        return rc;
    if (e->u.binary.is_bool) {
        histogram_free(out.h);
        /* What cannot be compared is left out; all else is 0 or 1. */
        out = (struct sample){x.h != NULL && !keep ? prom_stale() : keep ? 1 : 0, NULL};
        keep = true;
    } else if (keep && binary_is_comparison(e->u.binary.op) && s->scalar_left) {
        out.v = x.v; /* a filter keeps the vector's value */
    }
    eval_clear(s->v, row, i);
    return keep ? eval_put(s->v, row, i, out, err) : OTL_OK;
}

static enum otl_err scalar_row(struct row_sink *sink, struct prom_row *row, struct otl_error *err)
{
    struct scalar_sink *s = (struct scalar_sink *)(void *)sink;
    enum otl_err rc;

    rc = read_check(s->v->read, err);
    if (rc == OTL_OK && binary_drops_name(s->e))
        rc = eval_drop_name(s->v, row->labels, &row->labels, err);
    for (size_t i = 0; i < row->n && rc == OTL_OK; i++) {
        struct sample x = eval_sample(row, i);

        if (!sample_is_absent(&x))
            rc = one_sample(s, row, i, err);
    }
    return rc == OTL_OK && !eval_row_is_empty(row) ? s->to->take(s->to, row, err) : rc;
}

enum otl_err eval_vector_scalar(struct eval *v, const struct expr *e, struct row_sink *sink,
                                struct otl_error *err)
{
    bool left = e->u.binary.left->type == PROM_SCALAR;
    struct scalar_sink s = {.sink = {scalar_row}, .v = v, .e = e, .to = sink, .scalar_left = left};
    double *scalar = NULL;
    enum otl_err rc = eval_scalar(v, left ? e->u.binary.left : e->u.binary.right, &scalar, err);

    s.scalar = scalar;
    if (rc == OTL_OK)
        rc = eval_stream(v, left ? e->u.binary.right : e->u.binary.left, &s.sink, err);
    eval_free_scalar(v, scalar);
    return rc;
}
