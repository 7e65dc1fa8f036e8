/* rows.h -- points as rows: what SQLite gets bound for each type, and what it gave back.
 *
 * A double is REAL, NULL when absent, and an 8-byte big-endian BLOB when NaN (payload kept).
 * Arrays are JSON text; in it infinities are 9e999 and -9e999, a NaN is "NaN" or "NaN:" and the 16
 * hex digits of its bits. docs/schema.md says the same to people. */
#ifndef OTLITE_STORE_ROWS_H
#define OTLITE_STORE_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "otlite/batch.h"
#include "otlite/bytes.h"

struct sqlite3_stmt;

/* The point tables. */
enum point_kind { POINT_NUMBER, POINT_HISTOGRAM, POINT_EXPONENTIAL, POINT_SUMMARY, POINT_KINDS };

static inline enum point_kind point_kind_of(enum metric_type t)
{
    switch (t) {
    case METRIC_HISTOGRAM:
        return POINT_HISTOGRAM;
    case METRIC_EXPONENTIAL_HISTOGRAM:
        return POINT_EXPONENTIAL;
    case METRIC_SUMMARY:
        return POINT_SUMMARY;
    case METRIC_GAUGE:
    case METRIC_SUM:
        break;
    }
    return POINT_NUMBER;
}

/* Column lists are in the order of the cells of a row. */
struct point_table {
    const char *kind;    /* as the file names it: "number" */
    const char *columns; /* of the head's tables, after id: "series_id,time,..." */
    int n_columns;
};
extern const struct point_table point_tables[POINT_KINDS];

enum cell_kind { CELL_NULL, CELL_INT, CELL_REAL, CELL_NAN, CELL_TEXT, CELL_BLOB };

struct cell {
    enum cell_kind kind;
    union {
        int64_t i;
        double d;
        uint8_t nan[8];
        struct {
            size_t at, n; /* in row.text */
        } text;           /* and blob */
    } u;
};

enum { ROW_MAX_CELLS = 16, EXEMPLAR_CELLS = 9 };
extern const char EXEMPLAR_COLUMNS[];

/* One point, ready to bind. Reusable; row_fini gives the text's memory back. */
struct row {
    struct cell cells[ROW_MAX_CELLS];
    int n;
    struct buf text; /* text.failed: no memory, the row must not be used */
};

void row_fini(struct row *r);

/* Fill r; false: no memory. bounds_id: of the histogram's bounds, 0 when it has no buckets. */
bool row_number(struct row *r, int64_t series_id, const struct number_point *p);
bool row_histogram(struct row *r, int64_t series_id, const struct histogram_point *p,
                   int64_t bounds_id);
bool row_exponential(struct row *r, int64_t series_id, const struct exponential_histogram_point *p);
bool row_summary(struct row *r, int64_t series_id, const struct summary_point *p);

/* An exemplar of a point, or (e NULL) the mark that the point was replaced, so that no exemplar
 * that came for it before counts; the columns are EXEMPLAR_COLUMNS. */
bool row_exemplar(struct row *r, int64_t series_id, const struct point *p,
                  const struct batch_exemplar *e);

/* Bind r's cells to parameters from on. Borrows r until the statement is reset. */
int row_bind(const struct row *r, struct sqlite3_stmt *st, int from);
/* The row st stands on holds r's cells in its columns from column 0 on, bit for bit. */
bool row_equals_stored(const struct row *r, struct sqlite3_stmt *st);
bool row_equal(const struct row *a, const struct row *b);

/* Big-endian bits of a NaN. */
void nan_bytes(double d, uint8_t out[8]);

/* Bounds as text and back. *out is malloced; false: malformed (*out NULL) or no memory. */
void bounds_to_text(struct buf *out, const double *bounds, size_t n);
bool bounds_parse(struct bytes text, double **out, size_t *out_n);

#endif
