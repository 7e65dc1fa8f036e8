/* functions.h -- the functions of PromQL: their signatures, which the parser checks, and how the
 * evaluator calls them. One table, functions.c. */
#ifndef OTLITE_QUERY_FUNCTIONS_H
#define OTLITE_QUERY_FUNCTIONS_H

#include "value.h"

struct expr;
struct eval;

/* In the table; a call of a variadic function may have more. */
enum { FUNCTION_MAX_ARGS = 5 };

/* What a function keeps from window to window of one series of floats, so that what overlaps is
 * looked at once: indices of samples of the series, at places head to tail. New at each series. */
struct range_memory {
    size_t first;    /* the series' index of the window's first sample */
    size_t seen;     /* samples before it have been looked at */
    uint32_t *index; /* room for each sample of the series */
    size_t head, tail;
};

/* The samples of one series that lie in one window (start, end], after offset and @. */
struct range_window {
    const int64_t *t; /* ms */
    const double *v;
    struct prom_histogram *const *h; /* NULL: all are floats; h[i] NULL: i is one */
    size_t n;                        /* at least 1 */
    const uint32_t *weight;          /* how many samples each stands for; NULL: for itself */
    int64_t start, end;
    struct range_memory *memory; /* NULL: there is none, or windows hardly overlap */
};

/* All windows of one series of floats, where the range is a multiple of the step: they share their
 * edges, so that each sample is looked at once, however far windows overlap. */
struct range_folded {
    const int64_t *t; /* ms */
    const double *v;
    size_t n;
    /* Window i has the samples edges[i] to edges[i + span] - 1; steps + span edges, from 0 up to n.
     */
    const uint32_t *edges;
    size_t steps, span;
    int64_t start, step, range; /* window i is (start + i * step, start + i * step + range], ms */
    double *scratch;            /* room for 4 * (steps + span) */
};

/* How a function is called. The evaluator knows three of them by name:
 *
 * timestamp of a selector: the samples' own times in seconds; of all else it is called as any.
 *
 * absent_over_time: the one FUNCTION_MATRIX with a range vector, which it gets as a PROM_VECTOR of
 * what present_over_time gives.
 *
 * info: only its first argument is evaluated; the second is a selector of labels, not of series. */
enum function_kind {
    FUNCTION_RANGE,  /* a range vector, window by window; its other arguments are scalars */
    FUNCTION_MAP,    /* an instant vector, sample by sample; its other arguments are scalars */
    FUNCTION_MATRIX, /* all else: whole values */
};

/* Scalars of a FUNCTION_RANGE or _MAP call at this step, in the order of arguments, the vector left
 * out; n of them (variadic functions). labels: of the series. */
struct function_call {
    struct eval *eval;
    const struct expr *expr; /* EXPR_CALL, for positions in annotations */
    struct labels labels;
    const double *scalars;
    size_t n_scalars;
    int64_t time; /* of the step, ms */
};

struct function {
    const char *name;
    enum prom_type args[FUNCTION_MAX_ARGS];
    uint8_t n_args;  /* in args */
    int8_t variadic; /* 0: exactly n_args; k > 0: the last of args is there 0 to k times; -1: any
                        number of times, 0 too */
    enum prom_type returns;
    enum function_kind kind;
    bool keeps_name;    /* the result has the metric's name: last_over_time, sort, ... */
    bool experimental;  /* of Prometheus' flag; marked in the documentation */
    bool remembers;     /* it uses memory (range_window) */
    enum digest digest; /* what of samples that are in a window as a whole is enough for it */
    /* By kind; out is absent before (value.h). */
    enum otl_err (*range)(const struct function_call *c, const struct range_window *w,
                          struct sample *out, struct otl_error *err);
    /* NULL, or the same for all windows at once, which are absent before. False: not for these
     * samples; nothing is decided. */
    bool (*folded)(const struct range_folded *w, double *out);
    /* NULL, or called after the last window of a series whose result has a sample. */
    enum otl_err (*after)(const struct function_call *c, const struct prom_row *result,
                          struct otl_error *err);
    enum otl_err (*map)(const struct function_call *c, const struct sample *in, struct sample *out,
                        struct otl_error *err);
    /* args are evaluated, of the types above, n of them; out is empty, of type `returns`. Takes
     * nothing of args over but what it moves (prom_value_move_row). A range vector comes as rows
     * over the steps: 1 where its window holds a sample, absent elsewhere. */
    enum otl_err (*matrix)(struct eval *e, const struct expr *call, struct prom_value *args,
                           size_t n, struct prom_value *out, struct otl_error *err);
};

/* NULL: there is none of that name. */
const struct function *function_find(struct bytes name);
/* All of them, sorted by name, for documentation and completion. */
const struct function *functions_all(size_t *n);

#endif
