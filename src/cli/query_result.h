/* query_result.h -- the JSON of a query's answer as tables have it, and the forms it is printed in.
 */
#ifndef OTLITE_CLI_QUERY_RESULT_H
#define OTLITE_CLI_QUERY_RESULT_H

#include <stdio.h>

#include "otlite/arena.h"
#include "otlite/bytes.h"
#include "otlite/err.h"

struct result_point {
    double t;          /* seconds since 1970 */
    struct bytes text; /* the value as Prometheus prints it; of a histogram count and sum */
    double v;          /* the same as a number; NaN for a histogram */
};
struct result_series {
    struct bytes name;   /* name{a="b"} */
    struct bytes labels; /* the object of labels, JSON */
    struct result_point *points;
    size_t n, cap;
};
/* All of it is in the arena. */
struct query_result {
    struct arena *arena;
    struct bytes type; /* vector, matrix, scalar, string */
    struct result_series *series;
    size_t n, cap;
    struct bytes *notes; /* warnings and infos */
    size_t n_notes;
};

/* An answer of query or query_range with "status":"success". OTL_EBADDATA: it is none. error: of an
 * answer with another status its message, and then nothing else. */
enum otl_err query_result_read(struct arena *a, struct bytes json, struct query_result *out,
                               struct bytes *error, struct otl_error *err) OTL_MUSTCHECK;

void query_print_table(const struct query_result *r, FILE *out);
void query_print_csv(const struct query_result *r, FILE *out);
/* width, height: characters. color: ANSI escapes. */
void query_print_chart(const struct query_result *r, FILE *out, unsigned width, unsigned height,
                       bool color);

#endif
