/* plot.h -- line plots as one SVG, readable in light and dark (prefers-color-scheme). */
#ifndef OTLITE_BENCH_PLOT_H
#define OTLITE_BENCH_PLOT_H

#include <stdbool.h>

#include "otlite/bytes.h"

enum plot_scale {
    PLOT_LINEAR,    /* from 0 where all values are positive */
    PLOT_LOG,       /* taken as linear when a value is not positive */
    PLOT_PERCENTILE /* 0 to below 100, each further nine as wide as the last */
};

struct plot_series {
    char *label;
    double *x, *y; /* n each; a point that is not finite interrupts the line */
    unsigned n;
};

struct plot_panel {
    char *title, *x_title, *y_title; /* title may be NULL */
    enum plot_scale x_scale, y_scale;
    struct plot_series *series;
    unsigned n_series;
};

/* The panels one below the other. Borrows all; a failed allocation is in out->failed. */
void plot_svg(struct buf *out, const char *title, const struct plot_panel *panels, unsigned n);

#endif
