/* store_fixture.h -- batches made by hand, and a data directory that goes with the test. */
#ifndef STORE_FIXTURE_H
#define STORE_FIXTURE_H

#include "otlite/batch.h"
#include "otlite/store.h"

enum { FX_MAX = 4096, FX_MAX_METRICS = 64 };

/* A batch with room for FX_MAX points of each type; the same one resource and scope unless the
 * test changes resources[0] or scopes[0]. */
struct fx {
    struct batch b;
    struct arena arena;
};

struct fx *fx_new(void);
void fx_free(struct fx *f);
/* Empty it but for resource {"service.name": "svc"} and scope "lib" 1.0. */
void fx_reset(struct fx *f);

/* Canonical attribute set {key: text} in f's arena; NULL key: the empty set. */
struct bytes fx_attrs(struct fx *f, const char *key, const char *text);
/* {key: i} */
struct bytes fx_attrs_int(struct fx *f, const char *key, int64_t i);

uint32_t fx_metric(struct fx *f, enum metric_type type, const char *name, const char *unit);
/* Add a series of a metric and a point of it; the point is returned to be filled further. */
struct number_point *fx_int(struct fx *f, uint32_t metric, struct bytes attrs, int64_t time,
                            int64_t value);
struct number_point *fx_double(struct fx *f, uint32_t metric, struct bytes attrs, int64_t time,
                               double value);
/* Bounds 1.0, 2.0; counts c, c, c; sum present, min and max absent. */
struct histogram_point *fx_histogram(struct fx *f, uint32_t metric, struct bytes attrs,
                                     int64_t time, int64_t c);
struct exponential_histogram_point *fx_exponential(struct fx *f, uint32_t metric,
                                                   struct bytes attrs, int64_t time, int64_t c);
struct summary_point *fx_summary(struct fx *f, uint32_t metric, struct bytes attrs, int64_t time,
                                 double median);
/* Give the point added last one more exemplar, with an integer value. */
void fx_exemplar(struct fx *f, struct point *p, int64_t value);

/* An empty directory under $TMPDIR, and its removal with everything in it. */
char *fx_dir_new(void);
void fx_dir_free(char *dir);
/* Small caches, busy timeout 1 s. */
struct store_opts fx_opts(const char *dir);
/* A store with these options; fails the test when it cannot be opened. */
struct store *fx_store(const char *dir);
/* First column of the first row over a connection of its own, with the virtual tables of sql.h; fails the test on an error. */
int64_t fx_query(const char *dir, const char *sql);
/* The same as text, malloced; "" for NULL. */
char *fx_query_text(const char *dir, const char *sql);
void fx_exec(const char *dir, const char *sql);
/* A bit pattern as a double. */
double fx_bits(uint64_t bits);

#endif
