/* template_encode.h -- between the files of the templates: what a request says, in each encoding,
 * and which of its bytes change from one sending to the next. */
#ifndef OTLITE_BENCH_TEMPLATE_ENCODE_H
#define OTLITE_BENCH_TEMPLATE_ENCODE_H

#include "template.h"

enum {
    SERIES_A_METRIC = 10,
    TIME_DIGITS = 19, /* nanoseconds from 2001 to 2286 */
    VALUE_DIGITS = 16
};

/* What a changing number is made of. */
enum patch_source {
    SOURCE_TIME,  /* the point's time */
    SOURCE_TOTAL, /* MIX_NUMBER's value */
    SOURCE_STEP,  /* template_increment */
    SOURCE_COUNT, /* k * (1 + n % 4) */
    SOURCE_ID,    /* n << 40 | k: differs in every point sent */
    SOURCES
};

/* How it is written, always over the same number of bytes. */
enum patch_form {
    FORM_FIXED64, /* 8 bytes, little-endian */
    FORM_BIG64,   /* 8 bytes, big-endian */
    FORM_VARINT5, /* protobuf varint of 5 bytes: from 2^28 to 2^35 - 1 */
    FORM_DOUBLE,
    FORM_DOUBLE_QUARTERS, /* the number counts quarters */
    FORM_DIGITS,          /* decimal, `width` digits */
    FORM_QUARTERS, /* decimal with ".00", ".25", ".50", ".75"; `width` digits before the dot */
    FORM_HEX       /* 16 digits */
};

/* number = base + factor * source */
struct template_patch {
    int64_t base, factor;
    uint32_t at; /* offset in the body */
    uint8_t source, form, width;
};

/* --- what a request says (template_content.c) --- */

enum metric_kind {
    KIND_GAUGE_INT,
    KIND_GAUGE_DOUBLE,
    KIND_SUM,
    KIND_HISTOGRAM,
    KIND_EXPONENTIAL,
    KIND_SUMMARY,
    KINDS
};

enum {
    BOUNDS = 15,
    EXPONENTIAL_BUCKETS = 20,
    EXPONENTIAL_SCALE = 3,
    EXPONENTIAL_OFFSET = 16,
    QUANTILES = 5
};

/* base + factor * source, before it is known how it is written. */
struct number {
    enum patch_source source;
    int64_t base, factor;
};

struct texts {
    char service[32], metric[40], route[40], node[40], user[40];
    const char *method, *unit;
    enum metric_kind kind;
};

extern const double histogram_bounds[BOUNDS];
extern const double histogram_min, histogram_max, histogram_exemplar;
extern const double exponential_min, exponential_max, exponential_exemplar;

extern const struct number point_time;
extern const struct number gauge_int_value, gauge_quarters, sum_value;
/* Bucket 0 of the histogram is always empty: nothing takes 0 ms or less. */
struct number histogram_bucket(unsigned i);
extern const struct number histogram_count, histogram_sum;
struct number exponential_bucket(unsigned i);
extern const struct number exponential_zero, exponential_count, exponential_sum;
extern const struct number summary_count, summary_sum;
/* value is in quarters. */
struct summary_quantile {
    double quantile;
    struct number value;
};
extern const struct summary_quantile summary_quantiles[QUANTILES];
/* Of a trace id's 16 bytes the first 8 are of the series, the others are the span's id. */
extern const struct number exemplar_id;
uint64_t exemplar_trace(uint32_t series);

void texts_of_service(struct texts *t, unsigned service);
/* s: the series, within its service. */
void texts_of_series(struct texts *t, const struct template_opts *o, unsigned s);

/* --- encoders: the body of one request --- */

/* Collects patches while a body is written. */
struct encoder {
    const struct template_opts *opts;
    struct template_field *fields;
    unsigned n_fields, first; /* first: series, within its service, of the first point */
    struct template_patch *patches;
    unsigned n, cap;
    bool failed;
};

/* The bytes at `at` will be this number. */
void encoder_patch(struct encoder *e, size_t at, struct number number, enum patch_form form,
                   unsigned width);
/* The series, within its service, of point i; and whether point i is the last of its metric. */
unsigned encoder_series(const struct encoder *e, unsigned i);
bool encoder_ends_metric(const struct encoder *e, unsigned i);

void encode_proto(struct buf *out, struct encoder *e, struct texts *text);
void encode_json(struct buf *out, struct encoder *e, struct texts *text);
void encode_influx(struct buf *out, struct encoder *e, struct texts *text);

/* --- changing in place --- */

void write_le32(uint8_t *at, uint32_t v);
void write_digits(uint8_t *at, unsigned width, uint64_t v);

/* --- gzip (template_gzip.c) --- */

/* t->plain becomes a gzip body that template_gzip_change keeps up to date. */
enum otl_err template_gzip_init(struct template *t, struct buf *body, size_t *out_stored_at,
                                struct otl_error *err) OTL_MUSTCHECK;
void template_gzip_change(struct template *t, int64_t time, uint64_t pass);
/* Does the gzip body as it stands inflate to the plain body as it stands? */
bool template_gzip_is_plain(const struct template *t);

struct template_deflate *template_deflate_new(void);
void template_deflate_free(struct template_deflate *d);
/* Append plain as gzip; false when there is no memory. */
bool template_deflate_add(struct template_deflate *d, struct buf *out, const struct buf *plain);

#endif
