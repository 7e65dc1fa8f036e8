/* answer.h -- what a query came to, in a form that answers of different systems can be compared in.
 */
#ifndef OTLITE_BENCH_ANSWER_H
#define OTLITE_BENCH_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "otlite/err.h"

struct answer_row {
    uint32_t group;  /* number of the service or series; 0 where all are one group */
    uint32_t window; /* number of the window, from the query's start */
    double values[2];
};

/* Zero-initialised is empty. */
struct answer {
    struct answer_row *rows;
    size_t n, cap;
    bool failed; /* a row was lost for lack of memory */
};

void answer_fini(struct answer *a);
void answer_reset(struct answer *a); /* empty it, keep the memory */
void answer_add(struct answer *a, uint32_t group, uint32_t window, double value, double second);
void answer_sort(struct answer *a);
/* Lines "group TAB window TAB value [TAB second]" as the peers' scripts and CSV (with commas) have
 * them. A line that begins with a letter is a head. False when a line is none of these. */
bool answer_parse(struct answer *a, const char *text, size_t n);
/* Both sorted. False with what differs: values may by 1e-9 of the greater one. */
bool answer_equal(const struct answer *want, const struct answer *got, struct otl_error *err);

#endif
