/* series_points.h -- the points of one series as columns, as reading gives them (read.h).
 *
 * A kind is a list of fields. Points are in the order of their keys (time, start_time), and no two
 * have the same key unless it says so. Exemplars may share a key: theirs is the key of the point
 * that they belong to, and their order is that of arrival. */
#ifndef OTLITE_SERIES_POINTS_H
#define OTLITE_SERIES_POINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "otlite/batch.h"
#include "otlite/bytes.h"

/* What a series of points is made of. The first four are points. These numbers are in the file. */
enum series_kind {
    KIND_NUMBER,
    KIND_HISTOGRAM,
    KIND_EXPONENTIAL,
    KIND_SUMMARY,
    KIND_EXEMPLAR,
    KIND_NUMBER_ROLLUP,
    KIND_HISTOGRAM_ROLLUP,
    SERIES_KINDS
};

enum { SERIES_MAX_FIELDS = 12 };

/* Indexes of fields, by kind. Their types: INT is an int64; DOUBLE has IEEE 754 bits, and as kind
 * VALUE_NONE (absent) or VALUE_DOUBLE; VALUE has an int64 or bits or 0, and its enum value_kind;
 * INTS and DOUBLES are a list a point; BYTES are bytes. */
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

/* First point whose time is not before t. */
size_t series_points_lower_bound(const struct series_points *p, int64_t t);
#endif
