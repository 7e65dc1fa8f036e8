/* store_internal.h -- the store, for its two halves: store.c opens it and runs transactions and
 * tasks; store_points.c is what happens to one request between BEGIN and COMMIT. */
#ifndef OTLITE_STORE_STORE_INTERNAL_H
#define OTLITE_STORE_STORE_INTERNAL_H

#include "batch_source.h"
#include "catalogue.h"
#include "dedup.h"
#include "head_write.h"
#include "otlite/store.h"
#include "part.h"
#include "row_source.h"
#include "rows.h"

/* The statements of one table of the head. */
struct head_statements {
    struct sqlite3_stmt *insert; /* all rows of the source; they get the ids after the greatest */
    struct sqlite3_stmt
        *insert_from; /* the same with ids: the parameter, plus the place in the source */
    struct sqlite3_stmt *insert_at_once; /* numbers of one time, start time and flags */
    struct sqlite3_stmt *fetch;          /* points: the columns of the row id */
};

/* What came of one request of a transaction. */
struct outcome {
    struct store_result result;
    struct bytes replaced_example;
    uint64_t conflicts;
    struct bytes conflict_example;
};

struct store {
    struct db db;
    struct store_opts opts;
    struct catalogue cat;
    struct dedup dedup;
    struct batch_source source;
    struct sqlite3_stmt *begin, *commit;
    struct head_statements tables[HEAD_KINDS][HEAD_HALVES];
    struct head_writer head;
    struct part_cache *part_cache;
    struct part_reader *parts; /* to look for late points */
    bool parts_fresh;          /* it has seen the parts of the transaction */
    struct series_points sealed;
    unsigned seen_version; /* data_version that the memory is as new as */
    int64_t wal_pages;

    /* Scratch of one transaction. */
    struct outcome *outcomes;
    uint32_t cap_outcomes;

    /* Scratch of the points of one type of one request. */
    struct dedup_key *keys;
    uint32_t *series;
    bool *late;
    size_t cap_points;
    struct row row, other_row;
    struct row_list list;

    /* The request under way. */
    const struct batch *batch;
    enum point_kind kind;
    bool at_once; /* all points of the kind have the same time, start time and flags */
    struct outcome *out;
};

/* Prepare the statements of points and exemplars. */
enum otl_err store_points_open(struct store *s, struct otl_error *err) OTL_MUSTCHECK;
void store_points_close(struct store *s); /* of a store that was opened in part, too */

/* Points of a kind in a request. */
uint32_t store_points_count(const struct batch *b, enum point_kind kind);
/* One request, between BEGIN and COMMIT: its series, its points and their exemplars. */
enum otl_err store_points_write(struct store *s, int64_t project_id, struct batch *b,
                                struct outcome *out, struct otl_error *err) OTL_MUSTCHECK;
/* After a transaction: give back what a very large request took. */
void store_points_trim(struct store *s);

#endif
