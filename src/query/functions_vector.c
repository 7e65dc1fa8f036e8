/* functions_vector.c -- between scalars and vectors, presence, order.
 *
 * Source: Prometheus 3, "Query functions". */
#include <math.h>
#include <stdlib.h>

#include "eval_internal.h"
#include "functions_internal.h"

static enum otl_err new_scalar(struct eval *e, struct prom_value *out, struct otl_error *err)
{
    out->scalar = eval_new_scalar(e, err);
    return out->scalar == NULL ? err->code : OTL_OK;
}

MATRIX_FUNCTION(fn_pi)
{
    enum otl_err rc = new_scalar(e, out, err);

    (void)call;
    (void)args;
    (void)n;
    for (size_t i = 0; rc == OTL_OK && i < e->steps; i++)
        out->scalar[i] = 3.14159265358979323846;
    return rc;
}

MATRIX_FUNCTION(fn_time)
{
    enum otl_err rc = new_scalar(e, out, err);

    (void)call;
    (void)args;
    (void)n;
    for (size_t i = 0; rc == OTL_OK && i < e->steps; i++)
        out->scalar[i] = (double)eval_time(e, i) / 1000;
    return rc;
}

/* The float of the one series that has one; NaN when none has, or more. */
MATRIX_FUNCTION(fn_scalar)
{
    enum otl_err rc = new_scalar(e, out, err);

    (void)call;
    (void)n;
    for (size_t i = 0; rc == OTL_OK && i < e->steps; i++) {
        size_t found = 0;

        out->scalar[i] = (double)NAN;
        for (size_t r = 0; r < args[0].n_rows; r++) {
            const struct sample s = eval_sample(&args[0].rows[r], i);

            if (s.h == NULL && !prom_is_stale(s.v) && found++ == 0)
                out->scalar[i] = s.v;
        }
        if (found > 1)
            out->scalar[i] = (double)NAN;
    }
    return rc;
}

MATRIX_FUNCTION(fn_vector)
{
    struct prom_row *row = eval_add_row(e, out, (struct labels){0}, err);

    (void)call;
    (void)n;
    if (row == NULL)
        return err->code;
    memcpy(row->v, args[0].scalar, e->steps * sizeof(*row->v));
    return OTL_OK;
}

/* The step's own time; of a selector the evaluator gives the samples' times instead. */
MAP_FUNCTION(fn_timestamp)
{
    (void)in;
    (void)err;
    out->v = (double)c->time / 1000;
    return OTL_OK;
}

/* ---- absent ---- */

/* The labels that the selector asks to be equal to something; not a name that comes again after
 * such a matcher, which leaves it open what the label is. */
static enum otl_err absent_labels(struct eval *e, const struct expr *arg, struct labels *out,
                                  struct otl_error *err)
{
    const struct label_matcher *m = arg->u.selector.matchers;
    const size_t n = arg->kind == EXPR_SELECTOR ? arg->u.selector.n_matchers : 0;
    struct label *l = arena_alloc(e->arena, n * sizeof(*l));
    size_t kept = 0;

    if (l == NULL)
        return functions_no_memory(err);
    for (size_t i = 0; i < n; i++) {
        bool alone = m[i].op == LABEL_EQUAL && !bytes_equal(m[i].name, bytes_str(LABEL_NAME));

        for (size_t k = 0; k < n && alone; k++) {
            if (k != i && bytes_equal(m[k].name, m[i].name))
                alone = k < i && m[k].op != LABEL_EQUAL;
        }
        if (alone)
            l[kept++] = (struct label){m[i].name, m[i].value};
    }
    *out = (struct labels){l, labels_normalise(l, kept)};
    return OTL_OK;
}

MATRIX_FUNCTION(fn_absent)
{
    struct labels labels;
    struct prom_row *row;
    enum otl_err rc = absent_labels(e, eval_unwrap(call->u.call.args[0]), &labels, err);

    (void)n;
    if (rc != OTL_OK)
        return rc;
    row = eval_add_row(e, out, labels, err);
    if (row == NULL)
        return err->code;
    for (size_t i = 0; i < e->steps; i++)
        row->v[i] = 1;
    for (size_t r = 0; r < args[0].n_rows; r++) {
        for (size_t i = 0; i < e->steps; i++) {
            const struct sample s = eval_sample(&args[0].rows[r], i);

            if (!sample_is_absent(&s))
                row->v[i] = prom_stale();
        }
    }
    return OTL_OK;
}

/* ---- sort ---- */

/* The answer of a range query is in the order of labels whatever was asked for. */
static enum otl_err check_instant(struct eval *e, const struct expr *call, struct otl_error *err)
{
    if (e->steps == 1)
        return OTL_OK;
    return eval_warn(e, call, err,
                     "sort is ineffective for range queries since results are always ordered by "
                     "labels");
}

static enum otl_err move_rows(struct eval *e, struct prom_value *from, struct prom_value *out,
                              struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    for (size_t r = 0; r < from->n_rows && rc == OTL_OK; r++)
        rc = prom_value_move_row(e, out, &from->rows[r], err);
    return rc;
}

/* NaN is the last in either direction; equals are in the order of their labels. */
static int by_value(const void *pa, const void *pb)
{
    const struct prom_row *a = pa, *b = pb;

    if (isnan(a->v[0]) || isnan(b->v[0])) {
        if (!isnan(a->v[0]))
            return -1;
        if (!isnan(b->v[0]))
            return 1;
    } else if (a->v[0] != b->v[0]) {
        return a->v[0] < b->v[0] ? -1 : 1;
    }
    return labels_compare(a->labels, b->labels);
}

static int by_value_desc(const void *pa, const void *pb)
{
    const struct prom_row *a = pa, *b = pb;

    if (isnan(a->v[0]) || isnan(b->v[0]) || a->v[0] == b->v[0])
        return by_value(pa, pb);
    return a->v[0] > b->v[0] ? -1 : 1;
}

static enum otl_err sort_values(struct eval *e, const struct expr *call, struct prom_value *in,
                                struct prom_value *out, int (*order)(const void *, const void *),
                                struct otl_error *err)
{
    enum otl_err rc = check_instant(e, call, err);

    /* Histograms have no order, and are left out. */
    for (size_t r = 0; r < in->n_rows; r++) {
        for (size_t i = 0; in->rows[r].h != NULL && i < e->steps; i++) {
            histogram_free(in->rows[r].h[i]);
            in->rows[r].h[i] = NULL;
        }
    }
    if (rc == OTL_OK)
        rc = move_rows(e, in, out, err);
    if (rc == OTL_OK && e->steps == 1 && out->n_rows > 1)
        qsort(out->rows, out->n_rows, sizeof(*out->rows), order);
    return rc;
}

MATRIX_FUNCTION(fn_sort)
{
    (void)n;
    return sort_values(e, call, &args[0], out, by_value, err);
}

MATRIX_FUNCTION(fn_sort_desc)
{
    (void)n;
    return sort_values(e, call, &args[0], out, by_value_desc, err);
}

/* ---- sort by label ---- */

static size_t run_of(struct bytes s, size_t at, bool digits)
{
    size_t n = at;

    while (n < s.n && (s.p[n] >= '0' && s.p[n] <= '9') == digits)
        n++;
    return n - at;
}

/* Numbers within texts by their value: "a9" is before "a10". */
static int natural_compare(struct bytes a, struct bytes b)
{
    size_t i = 0, k = 0;

    while (i < a.n && k < b.n) {
        const bool digits = a.p[i] >= '0' && a.p[i] <= '9';
        const bool both = digits && b.p[k] >= '0' && b.p[k] <= '9';
        const size_t n_a = run_of(a, i, digits);
        const size_t n_b = run_of(b, k, b.p[k] >= '0' && b.p[k] <= '9');
        struct bytes x = bytes_of(a.p + i, n_a), y = bytes_of(b.p + k, n_b);
        int order;

        while (both && x.n > 1 && x.p[0] == '0')
            x = bytes_of(x.p + 1, x.n - 1);
        while (both && y.n > 1 && y.p[0] == '0')
            y = bytes_of(y.p + 1, y.n - 1);
        if (both && x.n != y.n)
            return x.n < y.n ? -1 : 1;
        order = bytes_compare(x, y);
        if (order != 0)
            return order;
        i += n_a;
        k += n_b;
    }
    if (i < a.n || k < b.n)
        return i < a.n ? 1 : -1;
    return bytes_compare(a, b);
}

struct label_order {
    const struct prom_value *names; /* strings, n of them */
    size_t n;
    int sign;
};

static int by_labels(const void *pa, const void *pb, void *arg)
{
    const struct label_order *o = arg;
    const struct prom_row *a = pa, *b = pb;

    for (size_t i = 0; i < o->n; i++) {
        const int order = natural_compare(labels_get(a->labels, o->names[i].string),
                                          labels_get(b->labels, o->names[i].string));

        if (order != 0)
            return o->sign * order;
    }
    return o->sign * labels_compare(a->labels, b->labels);
}

static enum otl_err sort_labels(struct eval *e, const struct expr *call, struct prom_value *args,
                                size_t n, int sign, struct prom_value *out, struct otl_error *err)
{
    struct label_order order = {args + 1, n - 1, sign};
    enum otl_err rc = check_instant(e, call, err);

    if (rc == OTL_OK)
        rc = move_rows(e, &args[0], out, err);
    if (rc == OTL_OK && e->steps == 1 && out->n_rows > 1)
        qsort_r(out->rows, out->n_rows, sizeof(*out->rows), by_labels, &order);
    return rc;
}

MATRIX_FUNCTION(fn_sort_by_label)
{
    return sort_labels(e, call, args, n, 1, out, err);
}

MATRIX_FUNCTION(fn_sort_by_label_desc)
{
    return sort_labels(e, call, args, n, -1, out, err);
}
