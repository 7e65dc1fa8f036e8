/* export_json.h -- columns of telemetry.db as members of OTLP/JSON objects.
 *
 * A json_add_ function that takes a key writes `,"key":value`, comma included, and nothing when the
 * value is unset. What SQLite keeps in which column: docs/schema.md. */
#ifndef OTLITE_STORE_EXPORT_JSON_H
#define OTLITE_STORE_EXPORT_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "otlite/bytes.h"
#include "otlite/err.h"

struct sqlite3_stmt;

/* sqlite3_column_int64 under a type that PRId64 fits. */
int64_t column_int(struct sqlite3_stmt *st, int col);
/* TEXT or BLOB; valid until the statement moves on. */
struct bytes column_bytes(struct sqlite3_stmt *st, int col);
bool column_is_null(struct sqlite3_stmt *st, int col);
/* A double column: REAL, or the 8-byte BLOB that stands for NaN. */
double column_double(struct sqlite3_stmt *st, int col);

/* 64-bit integers are strings in OTLP/JSON. */
void json_add_int(struct buf *b, const char *key, int64_t v);
/* The bare value: a number, or a string for what JSON has no number for. */
void json_add_double(struct buf *b, double d);
void json_add_optional(struct buf *b, const char *key, struct sqlite3_stmt *st, int col);
/* asInt, asDouble or (NULL) nothing. */
void json_add_value(struct buf *b, struct sqlite3_stmt *st, int col);
/* Nothing for the empty set. OTL_ECORRUPT, naming table and id, when the bytes are damaged. */
enum otl_err json_add_attributes(struct buf *b, const char *key, struct bytes canonical,
                                 const char *table, int64_t id,
                                 struct otl_error *err) OTL_MUSTCHECK;

/* These three turn the JSON text of a column around; false when it is malformed.
 * [1,2] becomes ,"key":["1","2"]; an empty array is left out. */
bool json_add_counts(struct buf *b, const char *key, struct bytes text);
/* [1.5,9e999] becomes the bare value [1.5,"Infinity"]. */
bool json_add_bounds(struct buf *b, struct bytes text);
/* [[0.5,1.0],[0.9,"NaN"]] becomes ,"quantileValues":[{"quantile":0.5,"value":1.0},...]. */
bool json_add_quantiles(struct buf *b, struct bytes text);

/* OTL_EFULL or OTL_EIO from errno, after a write to the output failed. */
enum otl_err export_write_failed(struct otl_error *err);

#endif
