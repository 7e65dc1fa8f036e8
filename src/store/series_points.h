/* series_points.h -- the points of one series as columns (otlite/series_points.h) as the store
 * handles them: what chunks are made from, and what sealing and merging move around. Everything
 * here is generic over a kind's list of fields. */
#ifndef OTLITE_STORE_SERIES_POINTS_H
#define OTLITE_STORE_SERIES_POINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "otlite/bytes.h"
#include "otlite/err.h"
#include "otlite/series_points.h"
#include "rows.h"

/* rows.h's numbers and these are the same. */
_Static_assert((int)KIND_NUMBER == (int)POINT_NUMBER &&
                   (int)KIND_HISTOGRAM == (int)POINT_HISTOGRAM &&
                   (int)KIND_EXPONENTIAL == (int)POINT_EXPONENTIAL &&
                   (int)KIND_SUMMARY == (int)POINT_SUMMARY,
               "a point table's number is its kind");

enum field_type {
    FIELD_INT,     /* v: int64 */
    FIELD_DOUBLE,  /* v: IEEE 754 bits; kind: VALUE_NONE (absent) or VALUE_DOUBLE */
    FIELD_VALUE,   /* v: int64 or bits or 0; kind: enum value_kind */
    FIELD_INTS,    /* a list a point: v flat, end[i] is where point i's ends */
    FIELD_DOUBLES, /* likewise, v: bits */
    FIELD_BYTES    /* bytes flat, end[i] where point i's end */
};

struct field {
    const char *name; /* as in docs/format.md */
    enum field_type type;
};

struct series_schema {
    const char *name; /* part.kind in the file: "number", "histogram", "exponential_histogram",
                         "summary", "exemplar", "number_rollup", "histogram_rollup" */
    int n_fields;
    struct field fields[SERIES_MAX_FIELDS];
};

/* By enum series_kind; indexes of fields are the enums below. A list field that is empty means what
 * an empty JSON array or NULL means in rows.h, by the field before it. */
extern const struct series_schema series_schemas[SERIES_KINDS];

/* Room for n more points (and, in list field f, values more): false: no memory, nothing changed. */
bool series_points_reserve(struct series_points *p, size_t n) OTL_MUSTCHECK;
bool series_points_reserve_list(struct series_points *p, int f, size_t values) OTL_MUSTCHECK;
/* Append points first to first + n - 1 of from, which is of the same kind. */
bool series_points_append(struct series_points *p, const struct series_points *from, size_t first,
                          size_t n) OTL_MUSTCHECK;
/* Append one number: the fast way for KIND_NUMBER. */
bool series_points_add_number(struct series_points *p, int64_t time, int64_t start_time,
                              uint32_t flags, enum value_kind kind, int64_t v) OTL_MUSTCHECK;
/* Append a row of a head table: its cells in the order of point_tables[kind].columns without
 * series_id (rows.h). The same content as row_* made of the batch's point. An exemplar's are: time
 * and start_time of its point, exemplar_time, value, trace_id, span_id, identity (canonical
 * attributes, a BLOB); of a mark all after start_time are 0, NULL, NULL, NULL and an empty BLOB.
 * Rollups have no rows. False with *malformed set: a cell that no such row has; false without: no
 * memory. */
struct sqlite3_stmt;
bool series_points_add_row(struct series_points *p, struct sqlite3_stmt *st, int first_column,
                           bool *malformed) OTL_MUSTCHECK;
/* The other way: point i as a row of that series, bit for bit as rows.h would have it; an
 * exemplar's cells as above, with series_id in front. Not for rollups. */
bool series_points_row(const struct series_points *p, size_t i, int64_t series_id,
                       struct row *out) OTL_MUSTCHECK;

/* < 0, 0, > 0: the keys of two points. */
static inline int point_key_compare(int64_t time_a, int64_t start_a, int64_t time_b,
                                    int64_t start_b)
{
    if (time_a != time_b)
        return time_a < time_b ? -1 : 1;
    return (start_a > start_b) - (start_a < start_b);
}
/* Every column of point i of a equals that of point j of b, bit for bit. */
bool series_points_equal(const struct series_points *a, size_t i, const struct series_points *b,
                         size_t j);
/* Sort by key, keeping the order of equal keys. */
bool series_points_sort(struct series_points *p) OTL_MUSTCHECK;

/* What merging did away with. */
struct merge_counts {
    uint64_t equal;    /* the same point twice: one was kept */
    uint64_t replaced; /* same key, other values: the newer one was kept */
};
/* out (empty, same kind, none of the sources) becomes the merge of n sources, each in the order of
 * keys, oldest first: of points with one key that of the newest source counts, within one source
 * the last. counts may be NULL. Exemplars: of a key, all after the last mark count, the mark
 * included, and of exemplars equal in every field one. Rollups are merged by rollup.h, not here. */
bool series_points_merge(struct series_points *out, const struct series_points *const *sources,
                         size_t n, struct merge_counts *counts) OTL_MUSTCHECK;

#endif
