/* reads_kept.h -- `otlite-bench reads --data DIR`: points that are stored once and asked often.
 * DIR/points says which they are; each system has a directory DIR/KEY, and DIR/KEY.stored says that
 * it holds them all. */
#ifndef OTLITE_BENCH_READS_KEPT_H
#define OTLITE_BENCH_READS_KEPT_H

#include <stdbool.h>
#include <stddef.h>

#include "otlite/err.h"
#include "series_gen.h"

/* How storing went. */
struct kept_facts {
    double seconds, bytes; /* of the files, as they were then */
};

/* DIR, made when it is missing, is of these points. When it is there already, *gen takes over when
 * its points begin; OTL_ECONFIG: it is of others. */
enum otl_err kept_open(const char *dir, struct series_gen_opts *gen,
                       struct otl_error *err) OTL_MUSTCHECK;
/* out: the system's directory. *out_stored: the points are in it, and *f tells how that went; else
 * it is empty, whatever was there before. */
enum otl_err kept_system(const char *dir, const char *key, char *out, size_t n, bool *out_stored,
                         struct kept_facts *f, struct otl_error *err) OTL_MUSTCHECK;
/* From now on they are. */
enum otl_err kept_stored(const char *dir, const char *key, const struct kept_facts *f,
                         struct otl_error *err) OTL_MUSTCHECK;
/* Others will be beside them: the next kept_system stores anew. */
enum otl_err kept_spoil(const char *dir, const char *key, struct otl_error *err) OTL_MUSTCHECK;

#endif
