/* usage.h -- what takes room in telemetry.db: points and bytes by series. */
#ifndef OTLITE_USAGE_H
#define OTLITE_USAGE_H

#include <stdint.h>

#include "otlite/db.h"
#include "otlite/err.h"

struct usage_series {
    uint64_t points; /* raw ones: sealed, and in the head */
    double bytes;    /* of their chunks and those of their rollups and exemplars; a stream that several
                        chunks share counts for each of them in part. Nothing for the head. */
};

struct usage {
    struct usage_series *series; /* by id, 0 to max_series */
    int64_t max_series;
    uint64_t points[4];     /* by type: number, histogram, exponential histogram, summary */
    uint64_t exemplars;     /* marks of replaced points left out */
    uint64_t head_points[4], head_exemplars; /* of these, in the head */
    uint64_t rollup_rows;
    uint64_t parts, blocks, chunks, sealed_bytes;
    uint64_t damaged;       /* chunks and blocks that could not be read: not in the numbers */
    int64_t oldest, newest; /* times of raw points; 0 and 0: there are none */
};

/* Inside the caller's read transaction. A point that was stored again with another value and has not been
 * merged with its older self yet counts twice. The caller frees with usage_fini. */
enum otl_err usage_collect(struct db *db, struct usage *out, struct otl_error *err) OTL_MUSTCHECK;
void usage_fini(struct usage *u);

#endif
