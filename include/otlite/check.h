/* check.h -- is everything in telemetry.db as it should be? Reads every page, row and chunk once.
 */
#ifndef OTLITE_CHECK_H
#define OTLITE_CHECK_H

#include <stdint.h>

#include "otlite/db.h"
#include "otlite/err.h"

struct check_counts {
    uint64_t pages, resources, scopes, metrics, series; /* looked at */
    uint64_t head_rows, parts, blocks, chunks, points;
    uint64_t garbage_blocks; /* of parts that are not live: harmless, collected by the daemon */
    uint64_t faults;
};

struct check_report {
    void *arg;
    /* One fault: what is damaged, where, in words. */
    void (*fault)(void *arg, const char *what);
    /* Now and then: a step's name and how far it is, 0 to 1, or below 0 when that is not known. May
     * be NULL. */
    void (*progress)(void *arg, const char *step, double done);
};

/* In one snapshot (db has no transaction open). OTL_OK however many faults there are; another code
 * when the check itself could not go on. */
enum otl_err check_database(struct db *db, const struct check_report *report,
                            struct check_counts *out, struct otl_error *err) OTL_MUSTCHECK;

#endif
