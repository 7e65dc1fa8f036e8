/* eval_rows.c -- the rows and columns that operators make of samples, what they count as against
 * the limits of the query, and rows of equal labels. */
#include "eval_internal.h"

#include <stdlib.h>

#include "sorting.h"

enum { ROWS_A_CHECK = 1024 };

/* ---- rows ---- */

enum otl_err eval_no_memory(struct otl_error *err)
{
    return otl_fail(err, OTL_ENOMEM, "query: no memory");
}

/* Rows that are held count against the limits of the query. */
enum otl_err eval_hold(struct eval *v, size_t samples, struct otl_error *err)
{
    v->held += samples;
    if (v->held > v->stats.peak_samples)
        v->stats.peak_samples = v->held;
    if (v->opts->max_samples != 0 && v->held > v->opts->max_samples)
        return otl_fail(err, OTL_ETOOBIG,
                        "query processing would load too many samples into memory in query "
                        "execution: more than query.max_samples, %llu",
                        (unsigned long long)v->opts->max_samples);
    return read_charge(v->read, (int64_t)(samples * sizeof(double)), err);
}

static void release(struct eval *v, size_t samples)
{
    v->held -= samples;
    /* Giving back cannot fail. */
    (void)!read_charge(v->read, -(int64_t)(samples * sizeof(double)), NULL);
}

double *eval_new_scalar(struct eval *v, struct otl_error *err)
{
    double *scalar = NULL;

    if (eval_hold(v, v->steps, err) == OTL_OK) {
        scalar = malloc((v->steps + 1) * sizeof(*scalar));
        if (scalar == NULL)
            (void)eval_no_memory(err);
    }
    if (scalar == NULL)
        release(v, v->steps);
    return scalar;
}

void eval_free_scalar(struct eval *v, double *scalar)
{
    if (scalar != NULL)
        release(v, v->steps);
    free(scalar);
}

/* In Prometheus a histogram counts as one sample for each 16 bytes. */
static size_t samples_of(size_t bytes)
{
    return bytes / 16 + 1;
}

enum otl_err eval_hold_histogram(struct eval *v, size_t *held, size_t bytes, struct otl_error *err)
{
    const size_t samples = samples_of(bytes);

    *held += samples;
    return eval_hold(v, 2 * samples, err);
}

void eval_release_histograms(struct eval *v, size_t *held)
{
    release(v, 2 * *held);
    *held = 0;
}

enum otl_err eval_new_row(struct eval *v, struct labels labels, struct prom_row *out,
                          struct otl_error *err)
{
    enum otl_err rc = eval_hold(v, v->steps, err);

    *out = (struct prom_row){.labels = labels, .n = v->steps};
    if (rc == OTL_OK)
        out->v = malloc(v->steps * sizeof(*out->v));
    if (out->v == NULL) {
        release(v, v->steps);
        out->n = 0;
        return rc != OTL_OK ? rc : eval_no_memory(err);
    }
    for (size_t i = 0; i < v->steps; i++)
        out->v[i] = prom_stale();
    return OTL_OK;
}

void eval_free_row(struct eval *v, struct prom_row *row)
{
    if (row->v != NULL)
        release(v, row->n);
    if (row->t != NULL)
        (void)!read_charge(v->read, -(int64_t)(row->n * sizeof(*row->t)), NULL);
    eval_release_histograms(v, &row->held);
    prom_row_fini(row);
}

void eval_free(struct eval *v, struct prom_value *value)
{
    for (size_t i = 0; i < value->n_rows; i++)
        eval_free_row(v, &value->rows[i]);
    value->n_rows = 0;
    eval_free_scalar(v, value->scalar);
    value->scalar = NULL;
    prom_value_fini(value);
}

static enum otl_err room(struct prom_value *out, struct otl_error *err)
{
    size_t cap = out->cap_rows == 0 ? 16 : 2 * out->cap_rows;
    struct prom_row *rows;

    if (out->n_rows < out->cap_rows)
        return OTL_OK;
    rows = reallocarray(out->rows, cap, sizeof(*rows));
    if (rows == NULL)
        return eval_no_memory(err);
    out->rows = rows;
    out->cap_rows = cap;
    return OTL_OK;
}

struct prom_row *eval_add_row(struct eval *v, struct prom_value *out, struct labels labels,
                              struct otl_error *err)
{
    if (room(out, err) != OTL_OK || eval_new_row(v, labels, &out->rows[out->n_rows], err) != OTL_OK)
        return NULL;
    return &out->rows[out->n_rows++];
}

struct prom_histogram **eval_row_histograms(struct eval *v, struct prom_row *r,
                                            struct otl_error *err)
{
    (void)v;
    if (r->h == NULL)
        r->h = calloc(r->n + 1, sizeof(*r->h));
    if (r->h == NULL)
        (void)eval_no_memory(err);
    return r->h;
}

enum otl_err prom_value_move_row(struct eval *v, struct prom_value *out, struct prom_row *r,
                                 struct otl_error *err)
{
    enum otl_err rc = room(out, err);

    (void)v;
    if (rc == OTL_OK) {
        out->rows[out->n_rows++] = *r;
        *r = (struct prom_row){0};
    }
    return rc;
}

enum otl_err eval_put(struct eval *v, struct prom_row *r, size_t i, struct sample s,
                      struct otl_error *err)
{
    if (s.h == NULL) {
        r->v[i] = s.v;
        return OTL_OK;
    }
    if (eval_row_histograms(v, r, err) == NULL) {
        histogram_free(s.h);
        return OTL_ENOMEM;
    }
    r->h[i] = s.h;
    return eval_hold_histogram(v, &r->held, histogram_bytes(s.h), err);
}

enum otl_err eval_put_copy(struct eval *v, struct prom_row *r, size_t i, struct sample s,
                           struct otl_error *err)
{
    if (s.h != NULL) {
        s.h = histogram_copy(s.h);
        if (s.h == NULL)
            return eval_no_memory(err);
    }
    return eval_put(v, r, i, s, err);
}

void eval_clear(struct eval *v, struct prom_row *r, size_t i)
{
    size_t samples;

    r->v[i] = prom_stale();
    if (r->h == NULL || r->h[i] == NULL)
        return;
    /* No histogram grows in a row, so no more is given back than was held. */
    samples = samples_of(histogram_bytes(r->h[i]));
    release(v, 2 * samples);
    r->held -= samples;
    histogram_free(r->h[i]);
    r->h[i] = NULL;
}

bool eval_row_is_empty(const struct prom_row *r)
{
    for (size_t i = 0; i < r->n; i++) {
        if (!prom_is_stale(r->v[i]) || (r->h != NULL && r->h[i] != NULL))
            return false;
    }
    return true;
}

enum otl_err eval_drop_name(struct eval *v, struct labels l, struct labels *out,
                            struct otl_error *err)
{
    const struct bytes name = bytes_str(LABEL_NAME);

    return labels_drop(v->arena, l, &name, 1, out) ? OTL_OK : eval_no_memory(err);
}

/* ---- rows of the same labels ---- */

static enum otl_err same_labelset(struct otl_error *err)
{
    return otl_fail(err, OTL_EBADREQUEST, "vector cannot contain metrics with the same labelset");
}

/* from's samples into row, which has none at their steps. */
static enum otl_err merge(struct eval *v, struct prom_row *row, struct prom_row *from,
                          struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    for (size_t i = 0; i < row->n && rc == OTL_OK; i++) {
        struct sample there = eval_sample(row, i), s = eval_sample(from, i);

        if (sample_is_absent(&s))
            continue;
        if (!sample_is_absent(&there))
            return same_labelset(err);
        if (s.h != NULL)
            from->h[i] = NULL;
        rc = eval_put(v, row, i, s, err);
    }
    return rc;
}

enum otl_err eval_join_equal(struct eval *v, struct prom_value *out, struct otl_error *err)
{
    struct label_table t = {0};
    size_t kept = 0;
    enum otl_err rc = OTL_OK;

    for (size_t i = 0; i < out->n_rows && rc == OTL_OK; i++) {
        struct prom_row *row = &out->rows[i];
        uint32_t at;
        bool is_new;

        if (i % ROWS_A_CHECK == 0)
            rc = read_check(v->read, err);
        if (rc == OTL_OK && !label_table_add(&t, row->labels, &at, &is_new))
            rc = eval_no_memory(err);
        if (rc != OTL_OK)
            break;
        if (is_new) {
            if (kept != i) {
                out->rows[kept] = *row;
                *row = (struct prom_row){0};
            }
            kept++;
        } else {
            rc = merge(v, &out->rows[at], row, err);
            eval_free_row(v, row);
        }
    }
    if (rc == OTL_OK)
        out->n_rows = kept;
    label_table_fini(&t);
    return rc;
}

enum otl_err eval_refuse_equal(struct eval *v, const struct prom_value *out, struct otl_error *err)
{
    struct label_table t = {0};
    enum otl_err rc = OTL_OK;

    for (size_t i = 0; i < out->n_rows && rc == OTL_OK; i++) {
        uint32_t at;
        bool is_new;

        if (i % ROWS_A_CHECK == 0)
            rc = read_check(v->read, err);
        if (rc != OTL_OK)
            break;
        if (!label_table_add(&t, out->rows[i].labels, &at, &is_new))
            rc = eval_no_memory(err);
        else if (!is_new)
            rc = same_labelset(err);
    }
    label_table_fini(&t);
    return rc;
}

static int by_labels(const void *a, const void *b)
{
    return labels_compare(((const struct prom_row *)a)->labels,
                          ((const struct prom_row *)b)->labels);
}

enum otl_err eval_sort_rows(struct eval *v, struct prom_value *out, struct otl_error *err)
{
    return sort_checked(v->read, out->rows, out->n_rows, sizeof(*out->rows), by_labels, err);
}

void eval_drop_empty(struct eval *v, struct prom_value *out)
{
    size_t kept = 0;

    for (size_t i = 0; i < out->n_rows; i++) {
        if (eval_row_is_empty(&out->rows[i])) {
            eval_free_row(v, &out->rows[i]);
        } else {
            if (kept != i) {
                out->rows[kept] = out->rows[i];
                out->rows[i] = (struct prom_row){0};
            }
            kept++;
        }
    }
    out->n_rows = kept;
}
