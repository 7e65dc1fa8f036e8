/* known_points.h -- a request whose every stored column can be foretold, and the comparison of the
 * rows that came of it. Gauges and sums with every kind of value there is: integers of both signs,
 * doubles, -0.0, infinity, NaN, and no value at all. Encoded here and not by templates or by the
 * code under test, which so have nothing to do with what is expected. */
#ifndef OTLITE_BENCH_KNOWN_POINTS_H
#define OTLITE_BENCH_KNOWN_POINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "otlite/bytes.h"

struct sqlite3_stmt;

enum { KNOWN_POINTS = 10 };

enum known_kind { KNOWN_NONE, KNOWN_INT, KNOWN_DOUBLE };

struct known_point {
    int64_t time, start_time; /* ns; times ascend within a request */
    uint32_t flags;
    bool is_sum;   /* cumulative and monotonic; else a gauge */
    unsigned slot; /* attribute slot=N */
    enum known_kind kind;
    int64_t i;
    double d;
};

/* Turn 0, 1, 2, ... of a client; the first time is at_ns. */
void known_points_make(struct known_point out[KNOWN_POINTS], unsigned client, uint64_t turn,
                       int64_t at_ns);
/* The OTLP protobuf body. out.failed: no memory. */
void known_points_encode(struct buf *out, const struct known_point p[KNOWN_POINTS],
                         unsigned client);
/* service.name of a client. */
void known_service(unsigned client, char out[32]);

/* The newest row of the head, over both halves; rows that come later have greater numbers. */
extern const char known_points_newest_sql[];
/* Rows of the points of one client after row ?1 with ?2 <= time <= ?3 and service.name ?4, by
 * time: what is still in the head. */
extern const char known_points_sql[];
/* The same of all points, for what has been sealed since; takes longer. */
extern const char known_points_anywhere_sql[];
/* Does the row that st stands on (known_points_sql) hold exactly p, column by column? NULL, or what
 * differs. */
const char *known_point_difference(const struct known_point *p, struct sqlite3_stmt *st);

#endif
