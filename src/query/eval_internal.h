/* eval_internal.h -- how the parts of the evaluator call each other. */
#ifndef OTLITE_QUERY_EVAL_INTERNAL_H
#define OTLITE_QUERY_EVAL_INTERNAL_H

#include "eval.h"

/* Takes rows one by one. The row is the caller's again afterwards, unless it was moved. */
struct row_sink {
    enum otl_err (*take)(struct row_sink *s, struct prom_row *row, struct otl_error *err);
};

/* e of type VECTOR, its rows as they come, in no order, and no two with the same labels. */
enum otl_err eval_stream(struct eval *v, const struct expr *e, struct row_sink *sink,
                         struct otl_error *err) OTL_MUSTCHECK;
/* e of any type but MATRIX, whole: a vector's rows sorted by labels, none of them empty. */
enum otl_err eval_whole(struct eval *v, const struct expr *e, struct prom_value *out,
                        struct otl_error *err) OTL_MUSTCHECK;
/* A range vector as rows with times, of an instant query. */
enum otl_err eval_matrix(struct eval *v, const struct expr *e, struct prom_value *out,
                         struct otl_error *err) OTL_MUSTCHECK;
/* A scalar, one a step; eval_free_scalar frees it. */
enum otl_err eval_scalar(struct eval *v, const struct expr *e, double **out,
                         struct otl_error *err) OTL_MUSTCHECK;
void eval_free_scalar(struct eval *v, double *scalar);

/* eval_rows.c */
/* Free it, and give back what its rows were charged. */
void eval_free(struct eval *v, struct prom_value *value);
void eval_free_row(struct eval *v, struct prom_row *row);
/* A row on its own of `steps` absent samples, charged. */
enum otl_err eval_new_row(struct eval *v, struct labels labels, struct prom_row *out,
                          struct otl_error *err) OTL_MUSTCHECK;
/* Has it no sample at any step? */
bool eval_row_is_empty(const struct prom_row *r);
static inline struct sample eval_sample(const struct prom_row *r, size_t i)
{
    return (struct sample){r->v[i], r->h == NULL ? NULL : r->h[i]};
}
/* Put a sample into a row, whose owner h becomes, also where it fails; absent ones are passed over.
 */
enum otl_err eval_put(struct eval *v, struct prom_row *r, size_t i, struct sample s,
                      struct otl_error *err) OTL_MUSTCHECK;
/* Likewise of a sample that is borrowed. */
enum otl_err eval_put_copy(struct eval *v, struct prom_row *r, size_t i, struct sample s,
                           struct otl_error *err) OTL_MUSTCHECK;
/* Make a sample absent. */
void eval_clear(struct eval *v, struct prom_row *r, size_t i);
/* Count samples that are held against the limits of the query. */
enum otl_err eval_hold(struct eval *v, size_t samples, struct otl_error *err) OTL_MUSTCHECK;
/* Histograms count as samples by their bytes, as in Prometheus: *held is what some of them count as
 * now. */
enum otl_err eval_hold_histogram(struct eval *v, size_t *held, size_t bytes,
                                 struct otl_error *err) OTL_MUSTCHECK;
void eval_release_histograms(struct eval *v, size_t *held);
/* Functions over ranges and unary minus refuse two rows of one label set, be it that no step has
 * both. */
enum otl_err eval_refuse_equal(struct eval *v, const struct prom_value *out,
                               struct otl_error *err) OTL_MUSTCHECK;
enum otl_err eval_sort_rows(struct eval *v, struct prom_value *out,
                            struct otl_error *err) OTL_MUSTCHECK;
void eval_drop_empty(struct eval *v, struct prom_value *out);
enum otl_err eval_no_memory(struct otl_error *err);

/* Without parentheses. */
const struct expr *eval_unwrap(const struct expr *e);

/* eval_select.c: an instant selector: its samples, or their own times in seconds; as the result of
 * timestamp() these have no name. */
enum select_what { SELECT_SAMPLES, SELECT_TIMES, SELECT_TIMESTAMP };
enum otl_err eval_selector(struct eval *v, const struct expr *e, enum select_what what,
                           struct row_sink *sink, struct otl_error *err) OTL_MUSTCHECK;
/* The time that a selector or subquery looks from at step i, ms: by @ and offset. */
int64_t eval_reference(const struct eval *v, const struct modifiers *m, size_t i);
/* The series of a selector, for what it needs from `from` on. */
enum otl_err eval_select(struct eval *v, const struct expr *e, int64_t from, int64_t to,
                         const struct series_set **out, struct otl_error *err) OTL_MUSTCHECK;

/* eval_range.c: a call of a function over ranges. */
enum otl_err eval_range_call(struct eval *v, const struct expr *e, struct row_sink *sink,
                             struct otl_error *err) OTL_MUSTCHECK;
/* A range vector as rows of 1 where its window holds a sample. */
enum otl_err eval_presence(struct eval *v, const struct expr *range, struct prom_value *out,
                           struct otl_error *err) OTL_MUSTCHECK;

/* aggregate.c */
enum otl_err eval_aggregate(struct eval *v, const struct expr *e, struct prom_value *out,
                            struct otl_error *err) OTL_MUSTCHECK;
/* aggregate_pick.c: topk, bottomk, limitk, limit_ratio, quantile, count_values. */
enum otl_err eval_pick(struct eval *v, const struct expr *e, struct prom_value *out,
                       struct otl_error *err) OTL_MUSTCHECK;
/* The group of a row; arena. */
enum otl_err aggregate_labels(struct eval *v, const struct expr *e, struct labels l,
                              struct labels *out, struct otl_error *err) OTL_MUSTCHECK;

/* binary.c */
enum otl_err eval_binary(struct eval *v, const struct expr *e, struct prom_value *out,
                         struct otl_error *err) OTL_MUSTCHECK;
enum otl_err eval_vector_scalar(struct eval *v, const struct expr *e, struct row_sink *sink,
                                struct otl_error *err) OTL_MUSTCHECK;
double binary_numbers(enum binary_op op, double l, double r, bool *keep);
/* binary_match.c: two vectors. */
enum otl_err eval_two_vectors(struct eval *v, const struct expr *e, struct prom_value *out,
                              struct otl_error *err) OTL_MUSTCHECK;
/* One pair of samples; *keep false: no sample comes of it. out->h is new. */
enum otl_err binary_samples(struct eval *v, const struct expr *e, const struct sample *l,
                            const struct sample *r, struct sample *out, bool *keep,
                            struct otl_error *err) OTL_MUSTCHECK;
bool binary_drops_name(const struct expr *e);

/* topk and the like: the rows are series of the argument. */
static inline bool aggregate_keeps_series(enum aggregate_op op)
{
    return op == AGG_TOPK || op == AGG_BOTTOMK || op == AGG_LIMITK || op == AGG_LIMIT_RATIO;
}

/* label_table.c: numbers for label sets, from 0, in the order of their first appearance. */
struct label_table {
    struct labels *keys;
    uint32_t *slots;
    size_t n, cap, n_slots;
};
void label_table_fini(struct label_table *t);
/* The number of l, which is borrowed; *is_new tells. False: no memory. */
bool label_table_add(struct label_table *t, struct labels l, uint32_t *out, bool *is_new);
/* UINT32_MAX: not there. */
uint32_t label_table_find(const struct label_table *t, struct labels l);

#endif
