/* querier_fixture.h -- a store with points by the test's hand, and what a selector gives of it, as
 * text. */
#ifndef QUERIER_FIXTURE_H
#define QUERIER_FIXTURE_H

#include "maintain_fixture.h"
#include "query/querier.h"

struct qf {
    char *dir;
    struct mf store;
    struct fx *f; /* the batch under way */
    struct querier_opts opts;
    int64_t project_id;
};

/* An empty store; opts: default names, scope labels off, lookback 5 min. */
void qf_open(struct qf *q);
void qf_close(struct qf *q);
/* Store f's batch and begin a new one. */
void qf_store(struct qf *q);
/* Canonical attributes of strings: key, value, ..., NULL; keys ascending. */
struct bytes qf_attrs(struct fx *f, ...);

/* The series of a selector in [from_ms, to_ms] with their samples, a line each, in the order of
 * labels: name{a="b"} 1@1000 2.5@2000 stale@3000 Histograms as histogram_print has them. Malloced.
 * An error gives "error: message\n". */
char *qf_samples(struct qf *q, const char *selector, int64_t from_ms, int64_t to_ms);
/* The labels only; exact as querier_select has it. */
char *qf_series(struct qf *q, const char *selector, int64_t from_ms, int64_t to_ms, bool exact);
/* Compare with what is expected, and free. */
void qf_expect(struct qf *q, const char *selector, int64_t from_ms, int64_t to_ms,
               const char *expected);

/* A query under way, for the rest of querier.h. */
struct qf_query {
    struct db db;
    struct read_shared *shared;
    struct read_session *session;
    struct read *r;
    struct querier_shared *names;
    struct querier *querier;
    struct arena arena;
};
void qf_begin(struct qf *q, struct qf_query *out);
void qf_end(struct qf_query *query);

#endif
