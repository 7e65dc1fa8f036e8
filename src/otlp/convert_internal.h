/* convert_internal.h -- the request under way, which both readers of text write points into. */
#ifndef OTLITE_OTLP_CONVERT_INTERNAL_H
#define OTLITE_OTLP_CONVERT_INTERNAL_H

#include "otlite/convert.h"

/* Points under one envelope (resource, scope, metric) follow each other in one dataPoints array. */
struct request {
    struct buf text;
    struct buf envelope;          /* of the points under way: from resource to `"dataPoints":[` */
    struct buf next;              /* the envelope of the point that is being made */
    const char *tail, *next_tail; /* what closes them */
    struct buf point;
    size_t points;
};

void request_fini(struct request *q);
/* Begin a point: its envelope goes to q->next, its JSON to q->point. */
void request_begin_point(struct request *q);
/* What closes the envelope behind its dataPoints, and before that the data's own settings. */
void request_end_point(struct request *q, const char *tail);
/* The whole request; empty when it has no points. Another one begins. */
struct bytes request_take(struct request *q);

struct csv;
enum otl_err csv_line(struct csv **c, struct request *q, struct bytes line, struct otl_error *err);
enum otl_err csv_end(struct csv *c, struct otl_error *err);
void csv_free(struct csv *c);

struct openmetrics;
enum otl_err openmetrics_line(struct openmetrics **o, struct request *q, int64_t now_ns,
                              struct bytes line, struct otl_error *err);
enum otl_err openmetrics_end(struct openmetrics *o, struct request *q, struct otl_error *err);
void openmetrics_free(struct openmetrics *o);

/* `"asInt":"5"`, `"asDouble":0.5` or `"asDouble":"NaN"`; digits alone are an integer. False: not a
 * number. */
bool add_number_json(struct buf *out, struct bytes text);
/* `1.5` or `"NaN"`. */
void add_double_json(struct buf *out, double d);
/* The whole of text as strtod reads it. */
bool parse_double(struct bytes text, double *out);
/* Seconds with a fraction to nanoseconds: exact for digits. */
bool parse_seconds(struct bytes text, int64_t *out_ns);
/* `{"key":KEY,"value":{"stringValue":VALUE}}`, with a comma before it when out does not end in '['.
 */
void add_string_attribute(struct buf *out, const char *key, struct bytes value);
void add_attribute(struct buf *out, struct bytes key, struct bytes value);

#endif
