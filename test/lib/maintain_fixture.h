/* maintain_fixture.h -- a writer and a maintainer without a thread over a directory of the test's,
 * parts made by hand, and reading back what is in them by the plainest rule. */
#ifndef MAINTAIN_FIXTURE_H
#define MAINTAIN_FIXTURE_H

#include "otlite/maintain.h"
#include "otlite/writer.h"
#include "store/maintain_internal.h"
#include "store/series_points.h"
#include "store_fixture.h"

struct mf {
    const char *dir;
    struct writer *writer;
    struct maintainer *m;
    struct handoff handoff;
    struct maintain_opts opts;
    struct writer_opts writer_opts;
};

/* Zeroed, with dir set, and opts.retention and rollups as wanted; fails the test on an error. */
void mf_open(struct mf *f);
/* As a daemon does it. */
void mf_close(struct mf *f);
/* The batch through the writer; gives the job's result. */
enum otl_err mf_store(struct mf *f, struct batch *b);
/* Rotate and seal everything. */
void mf_seal(struct mf *f);
/* The same, where sealing is to fail so. */
void mf_seal_fails(struct mf *f, enum otl_err want);
/* Merge, collect and so on as the thread would, until nothing is left to do. */
void mf_work(struct mf *f);

/* A live part of these points: n series with ids 1, 2, ... of the kind, each sorted, keys used
 * once. */
int64_t mf_add_part(struct mf *f, enum series_kind kind, int resolution, int64_t day,
                    const struct series_points *series, size_t n);
/* All points of a series in the live parts: of each key that of the newest part. */
void mf_read_parts(struct mf *f, enum series_kind kind, int resolution, int64_t series_id,
                   struct series_points *out);
/* The same with the head, whose points count before those of any part. Not for exemplars. */
void mf_read_all(struct mf *f, enum series_kind kind, int64_t series_id, struct series_points *out);
/* Of the points of p, in the order of insertion, the last of each key, sorted: what a store should
 * make of them. */
void mf_expected(const struct series_points *p, struct series_points *out);
void mf_assert_equal(const struct series_points *a, const struct series_points *b);
/* Append a point with random content to p. */
void mf_random_point(struct series_points *p, int64_t time, int64_t start_time);

#endif
