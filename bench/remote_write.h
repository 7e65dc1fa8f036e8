/* remote_write.h -- the points of series_gen.h by Prometheus' remote write (version 1), as an agent
 * would send them, under the names and labels that otlite gives them. */
#ifndef OTLITE_BENCH_REMOTE_WRITE_H
#define OTLITE_BENCH_REMOTE_WRITE_H

#include "otlite/err.h"
#include "series_gen.h"

struct remote_write;

struct remote_write_opts {
    struct series_gen_opts gen;
    const char *url;    /* of the server, any path; borrowed */
    const char *prefix; /* of the metrics' names; borrowed */
    uint32_t intervals; /* that go together, above 0 */
};

enum otl_err remote_write_new(const struct remote_write_opts *o, struct remote_write **out,
                              struct otl_error *err) OTL_MUSTCHECK;
void remote_write_free(struct remote_write *w);
/* The values of an interval; in order. */
enum otl_err remote_write_add(struct remote_write *w, const struct series_gen *g,
                              struct otl_error *err) OTL_MUSTCHECK;
/* All are in. */
enum otl_err remote_write_finish(struct remote_write *w, struct otl_error *err) OTL_MUSTCHECK;

/* `otlite-bench remote-write`: live samples until SIGINT; exit statuses of sysexits.h. */
int remote_write_main(int argc, char **argv);

#endif
