/* limits.h -- what bounds the daemon on this machine: each stage of a request's way alone, and the
 * whole. */
#ifndef OTLITE_BENCH_LIMITS_H
#define OTLITE_BENCH_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "otlite/arena.h"
#include "otlite/batch.h"
#include "otlite/err.h"
#include "otlite/store.h"
#include "template.h"

/* The load of docs/performance.md. */
enum {
    LIMITS_SERIES = 10000,
    LIMITS_SERVICES = 10,
    LIMITS_CONNECTIONS = 32,
    LIMITS_MAX_BODY = 64 << 20,
    LIMITS_MAX_DECODED = 1 << 30,
    LIMITS_PROJECT = 1
};

struct limits_opts {
    unsigned points; /* a request */
    int64_t duration_ns;
};

/* One measurement of one stage. */
struct measure {
    uint64_t points;
    double seconds;
    double cpu_seconds; /* of the stage itself, and not of a generator beside it */
};

/* What a stage is measured with; the fields that it does not use are 0. */
struct stage_opts {
    unsigned points; /* a request or transaction; 0: as --points says */
    enum durability durability;
    bool numbered; /* the series' numbers in the catalogue are known */
};

typedef enum otl_err (*stage_fn)(const struct limits_opts *o, const struct stage_opts *s,
                                 struct measure *out, struct otl_error *err);

/* All requests once; adds what was done to *points. */
typedef enum otl_err (*pass_fn)(void *arg, uint64_t *points, struct otl_error *err);
/* Passes for a fifth of the duration, which are not counted, then for the duration. */
enum otl_err limits_repeat(const struct limits_opts *o, pass_fn pass, void *arg,
                           struct measure *out, struct otl_error *err) OTL_MUSTCHECK;

/* --- the requests (limits_requests.c) --- */

/* The requests of the load; gzip and json are template.h's. */
enum otl_err limits_requests(unsigned points, bool json, bool gzip, struct template_set *out,
                             struct otl_error *err) OTL_MUSTCHECK;

/* The same, decoded: one batch a request, each with its own arena. */
struct limits_batches {
    struct template_set requests; /* the batches borrow its bodies */
    struct arena *arenas;
    struct batch *batches;
    unsigned n;
};

enum otl_err limits_batches_init(struct limits_batches *b, unsigned points,
                                 struct otl_error *err) OTL_MUSTCHECK;
/* Takes a zeroed one. */
void limits_batches_fini(struct limits_batches *b);
/* Make every point of one batch later, and its value greater: a request that was not there yet. */
void limits_advance(struct batch *b);

/* --- the stages --- */

/* limits_decode.c */
enum otl_err stage_memcpy(const struct limits_opts *, const struct stage_opts *, struct measure *,
                          struct otl_error *) OTL_MUSTCHECK;
enum otl_err stage_inflate(const struct limits_opts *, const struct stage_opts *, struct measure *,
                           struct otl_error *) OTL_MUSTCHECK;
enum otl_err stage_protobuf(const struct limits_opts *, const struct stage_opts *, struct measure *,
                            struct otl_error *) OTL_MUSTCHECK;
enum otl_err stage_known(const struct limits_opts *, const struct stage_opts *, struct measure *,
                         struct otl_error *) OTL_MUSTCHECK;
enum otl_err stage_json(const struct limits_opts *, const struct stage_opts *, struct measure *,
                        struct otl_error *) OTL_MUSTCHECK;

/* limits_store.c */
enum otl_err stage_catalogue(const struct limits_opts *, const struct stage_opts *,
                             struct measure *, struct otl_error *) OTL_MUSTCHECK;
enum otl_err stage_append(const struct limits_opts *, const struct stage_opts *, struct measure *,
                          struct otl_error *) OTL_MUSTCHECK;
enum otl_err stage_store(const struct limits_opts *, const struct stage_opts *, struct measure *,
                         struct otl_error *) OTL_MUSTCHECK;

/* limits_http.c */
enum otl_err stage_null_sink(const struct limits_opts *, const struct stage_opts *,
                             struct measure *, struct otl_error *) OTL_MUSTCHECK;
enum otl_err stage_daemon(const struct limits_opts *, const struct stage_opts *, struct measure *,
                          struct otl_error *) OTL_MUSTCHECK;

/* `otlite-bench limits`; returns an exit status (sysexits.h). */
int limits_main(int argc, char **argv);

#endif
