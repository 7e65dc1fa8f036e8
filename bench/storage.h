/* storage.h -- `otlite-bench storage`, and where the bytes of a data directory are. */
#ifndef OTLITE_BENCH_STORAGE_H
#define OTLITE_BENCH_STORAGE_H

#include <stdint.h>

#include "otlite/err.h"

struct storage_bytes {
    int64_t points;    /* by its own count */
    int64_t files;     /* all files of the directory together */
    int64_t raw;       /* blocks of points */
    int64_t rollups;   /* blocks of rollups */
    int64_t catalogue; /* pages of resources, scopes, metrics, series and their indexes */
    int64_t free;      /* pages of telemetry.db that are free */
    int64_t rest;      /* files less all of these: page ends, inner pages, state.db, the log */
};

/* What is behind `files`, of a directory that no daemon serves. */
enum otl_err storage_bytes_add(const char *data_dir, struct storage_bytes *out,
                               struct otl_error *err) OTL_MUSTCHECK;

/* Exit statuses of sysexits.h, 1 when points are missing. */
int storage_main(int argc, char **argv);

#endif
