/* parts_fixture.h -- parts of random points, with what was put in. */
#ifndef PARTS_FIXTURE_H
#define PARTS_FIXTURE_H

#include "otlite/db.h"
#include "store/part.h"

/* The points of one series in a part. */
struct fx_run {
    int64_t series_id;
    struct series_points points;
};

/* A part and its content, by series. */
struct fx_part {
    struct part_info info;
    struct fx_run *runs;
    size_t n, cap;
};

void fx_part_init(struct fx_part *p, enum series_kind kind, int resolution, int64_t day);
void fx_part_fini(struct fx_part *p);
/* The points of a series; ids go up from call to call. Borrowed until the next call. */
struct series_points *fx_part_series(struct fx_part *p, int64_t series_id);
/* Insert it as blocks whose chunks have up to max_chunk points (random: any size up to that, and
 * blocks that end anywhere), live = 0; info is filled in. Fails the test on an error. */
void fx_part_write(struct db *db, struct fx_part *p, size_t max_chunk, bool random);
void fx_part_publish(struct db *db, const struct fx_part *p);

#endif
