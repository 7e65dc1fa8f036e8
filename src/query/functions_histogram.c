/* functions_histogram.c -- histogram_quantile and the like, over native histograms and over the
 * buckets' series of classic ones, which a vector may mix.
 *
 * The series of one classic histogram have the same labels but for le. Where a native histogram of
 * those labels is there at the same step, neither gives a result.
 *
 * Source: Prometheus 3, "Query functions", histogram_avg to histogram_sum. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "classic_histogram.h"
#include "eval_internal.h"
#include "format_number.h"
#include "functions_internal.h"

/* ---- of one native histogram ---- */

#define OF_HISTOGRAM(name, result)              \
    MAP_FUNCTION(name)                          \
    {                                           \
        const struct prom_histogram *h = in->h; \
                                                \
        (void)c;                                \
        (void)err;                              \
        if (h != NULL)                          \
            out->v = (result);                  \
        return OTL_OK;                          \
    }

OF_HISTOGRAM(fn_histogram_avg, h->sum / h->count)
OF_HISTOGRAM(fn_histogram_count, h->count)
OF_HISTOGRAM(fn_histogram_stddev, sqrt(histogram_variance(h)))
OF_HISTOGRAM(fn_histogram_stdvar, histogram_variance(h))
OF_HISTOGRAM(fn_histogram_sum, h->sum)

/* ---- the histograms of a vector ---- */

struct bucket_row {
    double upper;
    const struct prom_row *row;
    uint32_t group;
};

/* What has one set of labels: a native histogram, the buckets of a classic one, or both. */
struct group {
    struct labels shown; /* without the name */
    const struct prom_row *native;
    struct bucket_row *buckets; /* sorted by upper */
    size_t n;
};

struct groups {
    struct eval *eval;
    const struct expr *vector; /* where annotations of the input point to */
    struct label_table table;  /* labels with the name, without le; a number is a group's */
    struct group *groups;
    struct bucket_row *buckets; /* of all groups */
    size_t n_buckets;
    struct classic_bucket *now; /* of one group at one step */
};

static void groups_fini(struct groups *g)
{
    label_table_fini(&g->table);
    free(g->groups);
    free(g->buckets);
    free(g->now);
}

static bool has_float(const struct prom_row *row)
{
    for (size_t i = 0; i < row->n; i++) {
        if (!prom_is_stale(row->v[i]) && (row->h == NULL || row->h[i] == NULL))
            return true;
    }
    return false;
}

static bool has_histogram(const struct prom_row *row)
{
    for (size_t i = 0; row->h != NULL && i < row->n; i++) {
        if (row->h[i] != NULL)
            return true;
    }
    return false;
}

/* " for metric name "x"", or nothing where there is no name. */
static const char *for_metric(struct labels l, char text[256])
{
    const struct bytes name = labels_get(l, bytes_str(LABEL_NAME));

    text[0] = '\0';
    if (name.n > 0)
        snprintf(text, 256, " for metric name \"%.*s\"", (int)(name.n > 200 ? 200 : name.n),
                 (const char *)name.p);
    return text;
}

static enum otl_err warn_bound(struct groups *g, struct labels l, struct bytes le,
                               struct otl_error *err)
{
    char text[256];

    return eval_warn(g->eval, g->vector, err,
                     "bucket label \"le\" is missing or has a malformed value of \"%.*s\"%s",
                     (int)(le.n > 100 ? 100 : le.n), le.n > 0 ? (const char *)le.p : "",
                     for_metric(l, text));
}

/* Puts the row where it belongs: into buckets, and into native, by the number of its group. */
static enum otl_err add_row(struct groups *g, const struct prom_row *row,
                            const struct prom_row **native, struct otl_error *err)
{
    const struct bytes name = bytes_str("le"), le = labels_get(row->labels, name);
    struct labels key;
    double upper;
    uint32_t at;
    bool is_new;

    if (has_histogram(row)) {
        if (!label_table_add(&g->table, row->labels, &at, &is_new))
            return functions_no_memory(err);
        native[at] = row;
    }
    if (!has_float(row))
        return OTL_OK;
    if (!classic_bound(le, &upper))
        return warn_bound(g, row->labels, le, err);
    if (!labels_drop(g->eval->arena, row->labels, &name, 1, &key) ||
        !label_table_add(&g->table, key, &at, &is_new))
        return functions_no_memory(err);
    g->buckets[g->n_buckets++] = (struct bucket_row){upper, row, at};
    return OTL_OK;
}

static int by_group(const void *pa, const void *pb)
{
    const struct bucket_row *a = pa, *b = pb;

    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    return (a->upper > b->upper) - (a->upper < b->upper);
}

static enum otl_err groups_init(struct groups *g, struct eval *e, const struct expr *vector,
                                const struct prom_value *in, struct otl_error *err)
{
    /* A row makes two groups at most. */
    const struct prom_row **native = calloc(2 * in->n_rows + 1, sizeof(*native));
    size_t k = 0;
    enum otl_err rc = OTL_OK;

    *g = (struct groups){.eval = e, .vector = vector};
    g->buckets = calloc(in->n_rows + 1, sizeof(*g->buckets));
    if (native == NULL || g->buckets == NULL)
        rc = functions_no_memory(err);
    for (size_t r = 0; r < in->n_rows && rc == OTL_OK; r++)
        rc = add_row(g, &in->rows[r], native, err);
    if (rc == OTL_OK) {
        g->groups = calloc(g->table.n + 1, sizeof(*g->groups));
        g->now = calloc(in->n_rows + 1, sizeof(*g->now));
        if (g->groups == NULL || g->now == NULL)
            rc = functions_no_memory(err);
    }
    if (rc == OTL_OK && g->n_buckets > 1)
        qsort(g->buckets, g->n_buckets, sizeof(*g->buckets), by_group);
    for (size_t i = 0; i < g->table.n && rc == OTL_OK; i++) {
        struct group *one = &g->groups[i];

        one->native = native[i];
        one->buckets = g->buckets + k;
        while (k < g->n_buckets && g->buckets[k].group == i)
            k++;
        one->n = (size_t)(g->buckets + k - one->buckets);
        rc = eval_drop_name(e, g->table.keys[i], &one->shown, err);
    }
    free(native);
    return rc;
}

/* What a group has at a step: *native or *n buckets in g->now, none of both where there are both.
 */
static enum otl_err group_at(struct groups *g, size_t group, size_t step,
                             const struct prom_histogram **native, size_t *n, struct otl_error *err)
{
    const struct group *one = &g->groups[group];
    char text[256];

    *n = 0;
    *native = one->native == NULL || one->native->h == NULL ? NULL : one->native->h[step];
    for (size_t i = 0; i < one->n; i++) {
        const struct sample s = eval_sample(one->buckets[i].row, step);

        if (s.h == NULL && !prom_is_stale(s.v))
            g->now[(*n)++] = (struct classic_bucket){one->buckets[i].upper, s.v};
    }
    if (*native == NULL || *n == 0)
        return OTL_OK;
    *native = NULL;
    *n = 0;
    return eval_warn(g->eval, g->vector, err,
                     "vector contains a mix of classic and native histograms%s",
                     for_metric(g->table.keys[group], text));
}

/* ---- quantiles ---- */

static enum otl_err check_quantile(struct eval *e, const struct expr *arg, double q,
                                   struct otl_error *err)
{
    char text[FORMAT_G_MAX];

    if (q >= 0 && q <= 1)
        return OTL_OK;
    return eval_warn(e, arg, err, "quantile value should be between 0 and 1, got %s",
                     format_g_text(q, text));
}

static enum otl_err native_quantile(struct groups *g, const struct expr *q_arg, double q,
                                    const struct prom_histogram *h, double *out,
                                    struct otl_error *err)
{
    *out = histogram_quantile(h, q);
    if (h->count == 0 || !(q >= 0 && q <= 1) || !histogram_has_nans(h))
        return OTL_OK;
    if (isnan(*out))
        return eval_info(g->eval, q_arg, err,
                         "input to histogram_quantile has NaN observations, result is NaN");
    return eval_info(g->eval, q_arg, err,
                     "input to histogram_quantile has NaN observations, result is skewed higher");
}

/* Of one group at one step; *out stays where it has nothing. */
static enum otl_err group_quantile(struct groups *g, size_t group, size_t step,
                                   const struct expr *q_arg, const struct expr *fixed_arg, double q,
                                   double *out, struct otl_error *err)
{
    const struct prom_histogram *native;
    bool forced = false;
    size_t n;
    enum otl_err rc = group_at(g, group, step, &native, &n, err);

    if (rc != OTL_OK)
        return rc;
    if (native != NULL)
        return native_quantile(g, q_arg, q, native, out, err);
    if (n > 0)
        *out = classic_quantile(q, g->now, n, &forced);
    if (!forced)
        return OTL_OK;
    return eval_info(g->eval, fixed_arg, err,
                     "input to histogram_quantile needed to be fixed for monotonicity (see "
                     "https://prometheus.io/docs/prometheus/latest/querying/functions/"
                     "#histogram_quantile)");
}

MATRIX_FUNCTION(fn_histogram_quantile)
{
    struct expr *const *arg = call->u.call.args;
    struct groups g;
    enum otl_err rc = groups_init(&g, e, arg[1], &args[1], err);

    (void)n;
    for (size_t i = 0; i < e->steps && rc == OTL_OK; i++)
        rc = check_quantile(e, arg[0], args[0].scalar[i], err);
    for (size_t k = 0; k < g.table.n && rc == OTL_OK; k++) {
        struct prom_row *row = eval_add_row(e, out, g.groups[k].shown, err);

        if (row == NULL)
            rc = err->code;
        for (size_t i = 0; i < e->steps && rc == OTL_OK; i++)
            rc = group_quantile(&g, k, i, arg[0], arg[1], args[0].scalar[i], &row->v[i], err);
    }
    groups_fini(&g);
    return rc;
}

/* The quantile as the value of a label, as OpenMetrics writes numbers. */
static enum otl_err with_quantile(struct eval *e, struct labels l, struct bytes name, double q,
                                  struct labels *out, struct otl_error *err)
{
    char text[FORMAT_G_MAX], whole[FORMAT_G_MAX + 2];
    struct bytes value;
    const char *digits = format_g_text(q, text);

    snprintf(whole, sizeof(whole), "%s%s", digits,
             isfinite(q) && strpbrk(digits, ".e") == NULL ? ".0" : "");
    if (!arena_dup(e->arena, bytes_str(whole), &value) ||
        !labels_set(e->arena, l, name, value, out))
        return functions_no_memory(err);
    return OTL_OK;
}

/* The row that is shown with those labels, maybe of another group or quantile. */
static enum otl_err row_of(struct eval *e, struct label_table *rows, struct labels l,
                           struct prom_value *out, size_t *at, struct otl_error *err)
{
    uint32_t number;
    bool is_new;

    if (!label_table_add(rows, l, &number, &is_new))
        return functions_no_memory(err);
    *at = number;
    return !is_new || eval_add_row(e, out, l, err) != NULL ? OTL_OK : err->code;
}

/* One quantile of one group; it may be another one at each step. */
static enum otl_err quantiles_of(struct groups *g, size_t group, const struct expr *call,
                                 struct bytes name, const double *q, struct label_table *rows,
                                 struct prom_value *out, struct otl_error *err)
{
    size_t at = SIZE_MAX;
    enum otl_err rc = OTL_OK;

    for (size_t i = 0; i < g->eval->steps && rc == OTL_OK; i++) {
        double v = prom_stale();

        rc = group_quantile(g, group, i, call->u.call.args[0], call->u.call.args[1], q[i], &v, err);
        if (rc != OTL_OK || prom_is_stale(v))
            continue;
        if (at == SIZE_MAX || memcmp(&q[i], &q[i - 1], sizeof(q[i])) != 0) {
            struct labels l;

            rc = with_quantile(g->eval, g->groups[group].shown, name, q[i], &l, err);
            if (rc == OTL_OK)
                rc = row_of(g->eval, rows, l, out, &at, err);
            if (rc != OTL_OK)
                break;
        }
        if (!prom_is_stale(out->rows[at].v[i]))
            return otl_fail(err, OTL_EBADREQUEST,
                            "vector cannot contain metrics with the same labelset");
        out->rows[at].v[i] = v;
    }
    return rc;
}

MATRIX_FUNCTION(fn_histogram_quantiles)
{
    struct label_table rows = {0};
    struct groups g;
    enum otl_err rc = groups_init(&g, e, call->u.call.args[0], &args[0], err);

    for (size_t a = 2; a < n && rc == OTL_OK; a++) {
        for (size_t i = 0; i < e->steps && rc == OTL_OK; i++)
            rc = check_quantile(e, call->u.call.args[a], args[a].scalar[i], err);
        for (size_t k = 0; k < g.table.n && rc == OTL_OK; k++)
            rc = quantiles_of(&g, k, call, args[1].string, args[a].scalar, &rows, out, err);
    }
    label_table_fini(&rows);
    groups_fini(&g);
    return rc;
}

/* ---- fractions ---- */

static enum otl_err group_fraction(struct groups *g, size_t group, size_t step,
                                   const struct expr *arg, double lower, double upper, double *out,
                                   struct otl_error *err)
{
    const struct prom_histogram *native;
    size_t n;
    enum otl_err rc = group_at(g, group, step, &native, &n, err);

    if (rc != OTL_OK)
        return rc;
    if (n > 0)
        *out = classic_fraction(lower, upper, g->now, n);
    if (native == NULL)
        return OTL_OK;
    *out = histogram_fraction(native, lower, upper);
    if (!histogram_has_nans(native) || !(lower < upper))
        return OTL_OK;
    return eval_info(g->eval, arg, err,
                     "input to histogram_fraction has NaN observations, which are excluded from "
                     "all fractions");
}

MATRIX_FUNCTION(fn_histogram_fraction)
{
    const double *lower = args[0].scalar, *upper = args[1].scalar;
    struct groups g;
    enum otl_err rc = groups_init(&g, e, call->u.call.args[2], &args[2], err);

    (void)n;
    for (size_t k = 0; k < g.table.n && rc == OTL_OK; k++) {
        struct prom_row *row = eval_add_row(e, out, g.groups[k].shown, err);

        if (row == NULL)
            rc = err->code;
        for (size_t i = 0; i < e->steps && rc == OTL_OK; i++)
            rc =
                group_fraction(&g, k, i, call->u.call.args[0], lower[i], upper[i], &row->v[i], err);
    }
    groups_fini(&g);
    return rc;
}
