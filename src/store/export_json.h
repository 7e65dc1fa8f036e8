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
/* 64-bit integers are strings in OTLP/JSON. */
void json_add_int(struct buf *b, const char *key, int64_t v);
/* The bare value: a number, or a string for what JSON has no number for. */
void json_add_double(struct buf *b, double d);
/* Nothing for the empty set. OTL_ECORRUPT, naming table and id, when the bytes are damaged. */
enum otl_err json_add_attributes(struct buf *b, const char *key, struct bytes canonical,
                                 const char *table, int64_t id,
                                 struct otl_error *err) OTL_MUSTCHECK;

/* [1.5,9e999], the text of a column, becomes the bare value [1.5,"Infinity"]; false: malformed. */
bool json_add_bounds(struct buf *b, struct bytes text);

#endif
