/* value.h -- what an expression evaluates to, over all steps of a query at once.
 *
 * A query has `steps` times (1 for an instant query). A scalar has a double a step. A vector is
 * rows of labels with a sample a step, which may be absent. So an operator's loop runs over
 * columns, and an instant query is the case of one step. Range vectors exist only as arguments of
 * functions, which the evaluator feeds window by window, and as the result of an instant query: the
 * type PROM_MATRIX then has rows with times of their own. */
#ifndef OTLITE_QUERY_VALUE_H
#define OTLITE_QUERY_VALUE_H

#include <string.h>

#include "histogram.h"
#include "labels.h"

enum prom_type { PROM_SCALAR = 1, PROM_STRING, PROM_VECTOR, PROM_MATRIX };
/* "scalar", "string", "instant vector", "range vector". */
const char *prom_type_name(enum prom_type t);

/* The stale marker of Prometheus; as a sample of a row: none at this step. No computation makes it,
 * and no stored NaN that is not the marker is mistaken for it. */
#define PROM_STALE_BITS UINT64_C(0x7ff0000000000002)
static inline double prom_stale(void)
{
    const uint64_t bits = PROM_STALE_BITS;
    double d;

    memcpy(&d, &bits, sizeof(d));
    return d;
}
static inline bool prom_is_stale(double d)
{
    uint64_t bits;

    memcpy(&bits, &d, sizeof(bits));
    return bits == PROM_STALE_BITS;
}

/* One sample: absent (h NULL, v stale), a float, or a histogram (h set, v ignored). h is owned by
 * whoever holds the sample. */
struct sample {
    double v;
    struct prom_histogram *h;
};
static inline bool sample_is_absent(const struct sample *s)
{
    return s->h == NULL && prom_is_stale(s->v);
}

/* What samples between two edges of windows may be given as, in place of all of them. */
enum digest {
    DIGEST_NONE,
    DIGEST_MIN, /* one that is the least of them; likewise the greatest, the sum */
    DIGEST_MAX,
    DIGEST_SUM,
    DIGEST_LAST, /* the last one */
    DIGEST_ENDS, /* the first and the last */
    DIGEST_RISE, /* the same, if no value between is below the one before */
};

/* v: one a step, absent where stale. h: NULL, or one a step, NULL where there is none; where h[i]
 * is set, v[i] is stale. Owner of v, h and the histograms; labels' memory is the query's. */
struct prom_row {
    struct labels labels;
    double *v;
    struct prom_histogram **h;
    int64_t *t;  /* PROM_MATRIX only: the times; n of them */
    size_t n;    /* of v: the query's steps, or of this matrix row */
    size_t held; /* what h's histograms count as against the limits of the query (eval.h) */
};

struct prom_value {
    enum prom_type type;
    double *scalar;        /* SCALAR: one a step */
    struct bytes string;   /* STRING: borrowed from the query */
    struct prom_row *rows; /* VECTOR, MATRIX */
    size_t n_rows, cap_rows;
};

void prom_value_fini(struct prom_value *v);
void prom_row_fini(struct prom_row *r);

#endif
