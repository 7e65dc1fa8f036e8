/* promql.h -- `otlite-bench promql`: the same points into otlite, Prometheus and VictoriaMetrics,
 * the same PromQL to each over HTTP. */
#ifndef OTLITE_BENCH_PROMQL_H
#define OTLITE_BENCH_PROMQL_H

#include <stdbool.h>
#include <stdint.h>

#include "otlite/bytes.h"
#include "otlite/err.h"

/* ---- what is asked: promql_queries.c ---- */

enum { PROMQL_QUERIES = 10, PROMQL_PANELS = 20 };

struct promql_query {
    const char *title, *text;
    bool heavy; /* looks at a thousand series or more over windows */
};

extern const struct promql_query promql_queries[PROMQL_QUERIES];
/* Of a dashboard. */
extern const char *const promql_panels[PROMQL_PANELS];

/* ---- answers: promql_answer.c ---- */

/* A value of an answer. Series are not told apart: their labels come in different orders. */
struct promql_value {
    double time, value; /* time in s */
};

struct promql_answer {
    struct promql_value *v; /* sorted */
    size_t n, cap;
};

/* All [seconds,"value"] of a JSON answer, in place of what there was. */
enum otl_err promql_answer_read(struct promql_answer *a, const char *json,
                                struct otl_error *err) OTL_MUSTCHECK;
void promql_answer_fini(struct promql_answer *a);
/* Each within 1e-6 of the other, and at least one. */
bool promql_answer_equal(const struct promql_answer *a, const struct promql_answer *b);

/* ---- the whole: promql.c ---- */

/* `otlite-bench promql`; exit statuses of sysexits.h, 1 when answers differ. */
int promql_main(int argc, char **argv);

#endif
