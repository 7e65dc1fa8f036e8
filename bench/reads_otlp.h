/* reads_otlp.h -- the points of series_gen.h as OTLP requests. */
#ifndef OTLITE_BENCH_READS_OTLP_H
#define OTLITE_BENCH_READS_OTLP_H

#include "otlite/bytes.h"
#include "series_gen.h"

/* Labels, as every system has them. */
void reads_service(uint32_t service, char out[16]);
const char *reads_environment(uint32_t service);
void reads_instance(uint32_t series, char out[16]);
/* http.route, or le of the latency histogram. */
const char *reads_label_key(uint32_t series, enum gen_mix mix);
void reads_label_value(uint32_t series, enum gen_mix mix, char out[24]);

/* A request of all series of some services, encoded once; for each interval only values and times
 * change. */
struct reads_request {
    struct buf body;
    uint32_t first, n;  /* series */
    uint32_t *value_at; /* of each series, where its value stands in body */
    uint32_t *time_at;
    uint32_t *start_at; /* 0: has none */
};

enum otl_err reads_request_init(struct reads_request *r, const struct series_gen *g,
                                uint32_t service, uint32_t services,
                                struct otl_error *err) OTL_MUSTCHECK;
void reads_request_fini(struct reads_request *r);
void reads_request_fill(struct reads_request *r, const struct series_gen *g);

#endif
