/* series_points.h -- the points of one series as columns: what chunks are made from, what reading
 * gives, and what sealing and merging move around.
 *
 * A kind is a list of fields; everything below is generic over that list. Points are in the order
 * of their keys (time, start_time), and no two have the same key unless it says so. Exemplars may
 * share a key: theirs is the key of the point that they belong to, and their order is that of
 * arrival. */
#ifndef OTLITE_STORE_SERIES_POINTS_H
#define OTLITE_STORE_SERIES_POINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "otlite/bytes.h"
#include "otlite/err.h"
#include "rows.h"

/* What a series of points is made of. The first four are the point tables. These numbers are in the
 * file. */
enum series_kind {
    KIND_NUMBER = POINT_NUMBER,
    KIND_HISTOGRAM = POINT_HISTOGRAM,
    KIND_EXPONENTIAL = POINT_EXPONENTIAL,
    KIND_SUMMARY = POINT_SUMMARY,
    KIND_EXEMPLAR,
    KIND_NUMBER_ROLLUP,
    KIND_HISTOGRAM_ROLLUP,
    SERIES_KINDS
};

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

enum { SERIES_MAX_FIELDS = 12 };

struct series_schema {
    const char *name; /* part.kind in the file: "number", "histogram", "exponential_histogram",
                         "summary", "exemplar", "number_rollup", "histogram_rollup" */
    int n_fields;
    struct field fields[SERIES_MAX_FIELDS];
};

/* By enum series_kind; indexes of fields are the enums below. A list field that is empty means what
 * an empty JSON array or NULL means in rows.h, by the field before it. */
extern const struct series_schema series_schemas[SERIES_KINDS];

enum { NUMBER_VALUE };
enum {
    HISTOGRAM_COUNT, /* INT */
    HISTOGRAM_SUM,   /* DOUBLE, like min and max */
    HISTOGRAM_MIN,
    HISTOGRAM_MAX,
    HISTOGRAM_BOUNDS_ID, /* INT; 0: no buckets */
    HISTOGRAM_COUNTS     /* INTS */
};
enum {
    EXPONENTIAL_COUNT,
    EXPONENTIAL_SUM,
    EXPONENTIAL_MIN,
    EXPONENTIAL_MAX,
    EXPONENTIAL_SCALE,
    EXPONENTIAL_ZERO_COUNT,
    EXPONENTIAL_ZERO_THRESHOLD, /* DOUBLE */
    EXPONENTIAL_PRESENT, /* INT, bits: 1 positive buckets sent, 2 negative (a sent range may be
                            empty) */
    EXPONENTIAL_POSITIVE_OFFSET, /* INT; 0 when not sent */
    EXPONENTIAL_POSITIVE,        /* INTS */
    EXPONENTIAL_NEGATIVE_OFFSET,
    EXPONENTIAL_NEGATIVE
};
enum {
    SUMMARY_COUNT,    /* INT */
    SUMMARY_SUM,      /* DOUBLE */
    SUMMARY_QUANTILES /* DOUBLES: quantile, value, quantile, value, ... */
};
enum {
    EXEMPLAR_TIME,     /* INT; 0 when not sent */
    EXEMPLAR_VALUE,    /* VALUE; VALUE_NONE: no exemplar but the mark that a point of this key was
                          replaced: exemplars of the key that came before it do not count */
    EXEMPLAR_TRACE_ID, /* BYTES, 16 or none; span id 8 or none */
    EXEMPLAR_SPAN_ID,
    EXEMPLAR_ATTRIBUTES /* BYTES, canonical */
};
/* One row a window of a series that has points in it; time: where the window begins, a multiple of
 * its length since 1970; start_time and flags 0. Windows hold [time, time + length). */
enum {
    NUMBER_ROLLUP_FIRST_TIME, /* INT: of the first and the last value that is not NaN */
    NUMBER_ROLLUP_LAST_TIME,
    NUMBER_ROLLUP_COUNT, /* INT: values that are not NaN; everything but N is over these */
    NUMBER_ROLLUP_SUM,   /* DOUBLE, absent when count is 0; likewise min, max */
    NUMBER_ROLLUP_MIN,
    NUMBER_ROLLUP_MAX,
    NUMBER_ROLLUP_FIRST,       /* VALUE */
    NUMBER_ROLLUP_LAST,        /* VALUE */
    NUMBER_ROLLUP_INCREASE,    /* DOUBLE: over the values after the first one, each minus the one
                                  before, or itself after a reset (it is less, or its start_time is
                                  later than the time of the one before) */
    NUMBER_ROLLUP_FIRST_START, /* INT: start_time of the first point, to see a reset before it */
    NUMBER_ROLLUP_N            /* INT: all points, NaN and "no recorded value" too */
};
enum {
    HISTOGRAM_ROLLUP_FIRST_TIME,
    HISTOGRAM_ROLLUP_LAST_TIME,
    HISTOGRAM_ROLLUP_N, /* points that have a value; the others are left out */
    HISTOGRAM_ROLLUP_FIRST_START,
    HISTOGRAM_ROLLUP_BOUNDS_ID, /* of all points of the window; a change of bounds begins another
                                   row of the same window */
    HISTOGRAM_ROLLUP_COUNT, /* cumulative: as of the last point; delta: of all points together */
    HISTOGRAM_ROLLUP_SUM,
    HISTOGRAM_ROLLUP_MIN, /* over all points of the window */
    HISTOGRAM_ROLLUP_MAX,
    HISTOGRAM_ROLLUP_COUNTS,       /* like COUNT */
    HISTOGRAM_ROLLUP_FIRST_COUNTS, /* cumulative: of the first point, with its count in front */
    HISTOGRAM_ROLLUP_INCREASE      /* count and counts, INTS: over the points after the first one */
};

struct field_column {
    int64_t *v;       /* INT, DOUBLE, VALUE: one a point; INTS, DOUBLES: flat */
    uint8_t *kind;    /* DOUBLE, VALUE */
    uint32_t *end;    /* INTS, DOUBLES, BYTES */
    struct buf bytes; /* BYTES */
    size_t cap_v;     /* room in v */
};

/* Zero-initialised with a kind set is an empty one. Owner of all its memory; reusable. */
struct series_points {
    enum series_kind kind;
    size_t n, cap;
    int64_t *time, *start_time, *flags;
    struct field_column fields[SERIES_MAX_FIELDS];
};

/* Where point i begins in a list or in bytes; it ends at end[i]. */
static inline uint32_t field_begin(const struct field_column *f, size_t i)
{
    return i == 0 ? 0 : f->end[i - 1];
}

void series_points_init(struct series_points *p, enum series_kind kind);
void series_points_fini(struct series_points *p);
/* Empty it, keep the memory. */
void series_points_reset(struct series_points *p);
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

/* A DOUBLE of point i; 0 when it is absent. */
static inline double series_points_double(const struct series_points *p, int f, size_t i)
{
    double d;

    memcpy(&d, &p->fields[f].v[i], sizeof(d));
    return d;
}

/* The values of a list of point i, INTS or DOUBLES (as bits). */
static inline const int64_t *series_points_list(const struct series_points *p, int f, size_t i,
                                                uint32_t *n)
{
    const struct field_column *c = &p->fields[f];
    uint32_t from = i == 0 ? 0 : c->end[i - 1];

    *n = c->end[i] - from;
    return *n == 0 ? NULL : c->v + from;
}

static inline struct bytes series_points_bytes(const struct series_points *p, int f, size_t i)
{
    const struct field_column *c = &p->fields[f];
    uint32_t from = i == 0 ? 0 : c->end[i - 1];

    return c->end[i] == from ? bytes_of(NULL, 0) : bytes_of(c->bytes.p + from, c->end[i] - from);
}

/* < 0, 0, > 0: the keys of two points. */
static inline int point_key_compare(int64_t time_a, int64_t start_a, int64_t time_b,
                                    int64_t start_b)
{
    if (time_a != time_b)
        return time_a < time_b ? -1 : 1;
    return (start_a > start_b) - (start_a < start_b);
}
/* First point whose time is not before t. */
size_t series_points_lower_bound(const struct series_points *p, int64_t t);
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
