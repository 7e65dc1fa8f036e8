/* result.h -- one table of figures, as every subcommand reports it: printed, and with a folder
 * given also kept there as NAME.json (all rows, and the machine), NAME.md (the Markdown table that
 * docs/performance.md shows) and NAME.svg when there is a plot.
 *
 * machine.json and machine.md of the folder describe the machine: processor, cores, memory, kernel,
 * file system of the data, versions of otlite, SQLite, libevent and the compiler, date. */
#ifndef OTLITE_BENCH_RESULT_H
#define OTLITE_BENCH_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "otlite/err.h"

struct result;

struct result_column {
    const char *key;   /* in JSON: "points_per_second" */
    const char *title; /* for people, with the unit: "points/s" */
    int decimals;      /* of numbers; -1: text */
};

/* dir: NULL for printing only; made when missing. name: of the files, [a-z0-9-]. command: what a
 * person types to repeat it. columns end with key NULL; borrowed. */
enum otl_err result_open(const char *dir, const char *name, const char *title, const char *command,
                         const struct result_column *columns, struct result **out,
                         struct otl_error *err) OTL_MUSTCHECK;
/* One row, in the order of the columns: a number (NAN: empty) or a text for each. */
void result_begin_row(struct result *r);
void result_number(struct result *r, double v);
void result_text(struct result *r, const char *text);
/* Ends the row; it is printed at once. Numbers have thousands separators for people. */
void result_end_row(struct result *r);
/* A line below the table: a verdict, a published figure, what was not done. */
void result_note(struct result *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A line of the plot. x and y: n values each, copied. */
void result_series(struct result *r, const char *label, const double *x, const double *y,
                   unsigned n);
/* Without this call there is no plot. Logarithmic axes where asked and all values are positive. */
void result_plot(struct result *r, const char *x_title, const char *y_title, bool log_x,
                 bool log_y);

/* The series and the plot that follow belong to a further plot, below the earlier ones. */
void result_panel(struct result *r, const char *title);
/* In place of result_plot: x is a percentile, 0 to below 100; y is logarithmic. */
void result_plot_percentiles(struct result *r, const char *x_title, const char *y_title);

/* Write the files and free r. On failure r is freed too. */
enum otl_err result_close(struct result *r, struct otl_error *err) OTL_MUSTCHECK;

/* Median of n values; n > 0; reorders v. */
double median(double *v, unsigned n);

#endif
