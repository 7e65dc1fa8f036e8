#include "plot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    WIDTH = 760,
    LEFT = 76, /* room for the y axis */
    RIGHT = 24,
    HEAD = 40,  /* title of the document */
    TITLE = 24, /* of a panel */
    LEGEND_ROW = 20,
    AREA = 200, /* height of the plotted area */
    FOOT = 56,  /* x axis and its title */
    LETTER = 7, /* about the width of one at 12 px */
    COLOURS = 8,
    MAX_TICKS = 24,
    MAX_MARKED = 40 /* points of a line that are still marked one by one */
};

/* Colours hold their own on white and on near-black. Plain rules, no variables: not every viewer of
 * SVG knows those. */
static const char STYLE[] =
    "<style>"
    "text{font:12px system-ui,-apple-system,'Segoe UI','Liberation Sans',Arial,sans-serif;"
    "fill:#656d76}"
    ".t{font-size:15px;font-weight:600}.p{font-weight:600}.t,.p,.l{fill:#1f2328}"
    ".g{stroke:#e4e8ec}.a{stroke:#8c959f}.bg{fill:#fff}"
    ".s{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}"
    ".d{stroke-dasharray:5 4}"
    ".c0{stroke:#0b63c4}.c1{stroke:#c8481c}.c2{stroke:#1f883d}.c3{stroke:#8250df}"
    ".c4{stroke:#a66a00}.c5{stroke:#007c89}.c6{stroke:#b02a76}.c7{stroke:#57606a}"
    "@media (prefers-color-scheme:dark){"
    "text{fill:#9198a1}.t,.p,.l{fill:#e6edf3}.g{stroke:#262c34}.a{stroke:#6e7681}"
    ".bg{fill:#0d1117}"
    ".c0{stroke:#58a6ff}.c1{stroke:#ff9b6b}.c2{stroke:#56d364}.c3{stroke:#bc8cff}"
    ".c4{stroke:#e3b341}.c5{stroke:#39c5cf}.c6{stroke:#f778ba}.c7{stroke:#b1bac4}}"
    "</style>\n";

struct axis {
    enum plot_scale scale;
    double lo, hi;        /* of the transformed values */
    double at[MAX_TICKS]; /* ticks, not transformed */
    unsigned n;
    double unit; /* linear: labels are divided by it */
    const char *suffix;
    int decimals;
};

static void add_text(struct buf *b, const char *s)
{
    for (; *s != '\0'; s++) {
        if (*s == '<')
            buf_add_str(b, "&lt;");
        else if (*s == '&')
            buf_add_str(b, "&amp;");
        else
            buf_add_char(b, *s);
    }
}

/* --- axes --- */

static double transform(enum plot_scale scale, double v)
{
    if (scale == PLOT_LOG)
        return log10(v);
    if (scale == PLOT_PERCENTILE)
        return -log10(1 - v / 100);
    return v;
}

static bool drawable(const struct plot_series *s, unsigned i)
{
    return isfinite(s->x[i]) && isfinite(s->y[i]);
}

/* Least and greatest of what will be drawn; false when nothing will be. */
static bool range_of(const struct plot_panel *p, bool of_y, double *lo, double *hi)
{
    bool any = false;

    for (unsigned k = 0; k < p->n_series; k++) {
        for (unsigned i = 0; i < p->series[k].n; i++) {
            double v = of_y ? p->series[k].y[i] : p->series[k].x[i];

            if (!drawable(&p->series[k], i))
                continue;
            *lo = any && *lo < v ? *lo : v;
            *hi = any && *hi > v ? *hi : v;
            any = true;
        }
    }
    return any;
}

/* 1, 2 or 5 times a power of ten, so that `steps` of it cover the span or nearly so. */
static double nice_step(double span, int steps)
{
    double raw = span / steps;
    double ten = pow(10, floor(log10(raw)));
    double f = raw / ten;

    if (f <= 1)
        return ten;
    if (f <= 2)
        return 2 * ten;
    return f <= 5 ? 5 * ten : 10 * ten;
}

static void pick_unit(double most, double *unit, const char **suffix)
{
    static const struct {
        double unit;
        const char *suffix;
    } units[] = {{1e9, " G"}, {1e6, " M"}, {1e3, " k"}};

    *unit = 1;
    *suffix = "";
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        /* Up to 9,999 reads well as it is. */
        if (most >= units[i].unit && most >= 1e4) {
            *unit = units[i].unit;
            *suffix = units[i].suffix;
            return;
        }
    }
}

static void linear_axis(struct axis *a, double lo, double hi, bool of_y)
{
    double step, first;

    if (of_y && lo > 0)
        lo = 0;
    if (hi <= lo)
        hi = lo + (lo == 0 ? 1 : fabs(lo));
    step = nice_step(hi - lo, of_y ? 5 : 10);
    if (of_y) { /* the frame ends on ticks */
        lo = floor(lo / step) * step;
        hi = ceil(hi / step - 1e-9) * step;
    }
    a->lo = lo;
    a->hi = hi;
    pick_unit(fmax(fabs(lo), fabs(hi)), &a->unit, &a->suffix);
    a->decimals = (int)ceil(-log10(step / a->unit) - 1e-9);
    if (a->decimals < 0)
        a->decimals = 0;
    first = ceil(lo / step - 1e-9);
    for (double k = first; k * step <= hi + step * 1e-6 && a->n < MAX_TICKS; k++)
        a->at[a->n++] = k * step;
}

/* The axis spans whole steps of 1, 2, 5, 10: a third of a decade each, or about. */
static void log_axis(struct axis *a, double lo, double hi)
{
    static const double within[] = {1, 2, 5};
    double from = floor(log10(lo) + 1e-9), to = ceil(log10(hi) - 1e-9);
    int marks = to - from <= 3 ? 3 : 1, skip = (int)(to - from) / 12 + 1;

    a->lo = from;
    a->hi = HUGE_VAL;
    for (int i = 0; a->n < MAX_TICKS && isinf(a->hi); i++) {
        double at = within[i % marks] * pow(10, from + i / marks * skip);

        if (at <= lo * (1 + 1e-9)) { /* start at the last tick that is not above all values */
            a->n = 0;
            a->lo = log10(at);
        }
        a->at[a->n++] = at;
        if (at > lo * (1 + 1e-9) && at >= hi * (1 - 1e-9))
            a->hi = log10(at);
    }
    if (isinf(a->hi)) /* cannot be: skip leaves room for all */
        a->hi = to;
}

static void percentile_axis(struct axis *a, double hi)
{
    static const double at[] = {0, 50, 90, 99, 99.9, 99.99, 99.999, 99.9999, 99.99999};

    a->lo = 0;
    a->hi = fmax(1, transform(PLOT_PERCENTILE, fmin(hi, 99.99999)));
    for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
        if (transform(PLOT_PERCENTILE, at[i]) <= a->hi + 1e-6)
            a->at[a->n++] = at[i];
    }
}

static void axis_init(struct axis *a, const struct plot_panel *p, bool of_y)
{
    double lo = 0, hi = 1;
    bool any = range_of(p, of_y, &lo, &hi);

    memset(a, 0, sizeof(*a));
    a->scale = of_y ? p->y_scale : p->x_scale;
    if (a->scale == PLOT_LOG && (!any || lo <= 0))
        a->scale = PLOT_LINEAR;
    if (a->scale == PLOT_PERCENTILE && (lo < 0 || hi >= 100))
        a->scale = PLOT_LINEAR;
    if (a->scale == PLOT_LOG)
        log_axis(a, lo, hi);
    else if (a->scale == PLOT_PERCENTILE)
        percentile_axis(a, hi);
    else
        linear_axis(a, lo, hi, of_y);
}

static void format_tick(const struct axis *a, double v, char *out, size_t n)
{
    double unit;
    const char *suffix;

    if (a->scale == PLOT_LINEAR) {
        if (v == 0)
            snprintf(out, n, "0");
        else
            snprintf(out, n, "%.*f%s", a->decimals, v / a->unit, a->suffix);
        return;
    }
    if (a->scale == PLOT_PERCENTILE) {
        snprintf(out, n, "%.10g", v);
        return;
    }
    pick_unit(v, &unit, &suffix);
    snprintf(out, n, "%g%s", v / unit, suffix);
}

static double x_of(const struct axis *a, double v)
{
    return LEFT + (transform(a->scale, v) - a->lo) / (a->hi - a->lo) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct axis *a, double top, double v)
{
    return top + AREA - (transform(a->scale, v) - a->lo) / (a->hi - a->lo) * AREA;
}

/* --- drawing --- */

static void draw_axes(struct buf *b, const struct plot_panel *p, const struct axis *x,
                      const struct axis *y, double top)
{
    char label[64];

    for (unsigned i = 0; i < y->n; i++) {
        double at = y_of(y, top, y->at[i]);

        format_tick(y, y->at[i], label, sizeof(label));
        buf_printf(b, "<path class=\"g\" d=\"M%d %.1fH%d\"/>", LEFT, at, WIDTH - RIGHT);
        buf_printf(b, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 8, at + 4,
                   label);
    }
    for (unsigned i = 0; i < x->n; i++) {
        double at = x_of(x, x->at[i]);

        format_tick(x, x->at[i], label, sizeof(label));
        buf_printf(b, "<path class=\"a\" d=\"M%.1f %.1fv5\"/>", at, top + AREA);
        buf_printf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", at,
                   top + AREA + 19, label);
    }
    buf_printf(b, "<path class=\"a\" d=\"M%d %.1fH%d\"/>\n", LEFT, top + AREA, WIDTH - RIGHT);
    buf_printf(b, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"middle\">", (LEFT + WIDTH - RIGHT) / 2,
               top + AREA + 38);
    add_text(b, p->x_title == NULL ? "" : p->x_title);
    buf_printf(b,
               "</text>\n<text transform=\"translate(16 %.1f)rotate(-90)\" "
               "text-anchor=\"middle\">",
               top + AREA / 2.0);
    add_text(b, p->y_title == NULL ? "" : p->y_title);
    buf_add_str(b, "</text>\n");
}

/* Colours repeat after the last; then the line is dashed as well. */
static void add_class(struct buf *b, unsigned series)
{
    buf_printf(b, "class=\"s c%u%s\"", series % COLOURS, series >= COLOURS ? " d" : "");
}

static void draw_series(struct buf *b, const struct plot_series *s, unsigned number,
                        const struct axis *x, const struct axis *y, double top)
{
    bool drawn = false; /* the point before */

    buf_add_str(b, "<path ");
    add_class(b, number);
    buf_add_str(b, " d=\"");
    for (unsigned i = 0; i < s->n; i++) {
        bool ok = drawable(s, i);

        if (ok)
            buf_printf(b, "%c%.1f %.1f", drawn ? 'L' : 'M', x_of(x, s->x[i]),
                       y_of(y, top, s->y[i]));
        drawn = ok;
    }
    buf_add_str(b, "\"/>\n");
    for (unsigned i = 0; i < s->n && s->n <= MAX_MARKED; i++) {
        if (!drawable(s, i))
            continue;
        buf_add_str(b, "<circle ");
        add_class(b, number);
        buf_printf(b, " cx=\"%.1f\" cy=\"%.1f\" r=\"1.5\"/>\n", x_of(x, s->x[i]),
                   y_of(y, top, s->y[i]));
    }
}

/* Labels side by side, in as many rows as they need; drawn when b is given. Returns the rows. */
static int legend(struct buf *b, const struct plot_panel *p, double top)
{
    int x = LEFT, rows = 1;

    if (p->n_series < 2)
        return 0;
    for (unsigned i = 0; i < p->n_series; i++) {
        const char *label = p->series[i].label == NULL ? "" : p->series[i].label;
        size_t letters = strlen(label);
        int wide = 44 + LETTER * (letters < 90 ? (int)letters : 90);

        if (x > LEFT && x + wide > WIDTH - RIGHT) {
            x = LEFT;
            rows++;
        }
        if (b != NULL) {
            double y = top + rows * LEGEND_ROW - 10;

            buf_add_str(b, "<path ");
            add_class(b, i);
            buf_printf(b, " d=\"M%d %.1fh20\"/><text class=\"l\" x=\"%d\" y=\"%.1f\">", x, y,
                       x + 26, y + 4);
            add_text(b, label);
            buf_add_str(b, "</text>\n");
        }
        x += wide;
    }
    return rows;
}

static int head_of(const struct plot_panel *p)
{
    return (p->title == NULL ? 8 : TITLE) + legend(NULL, p, 0) * LEGEND_ROW + 8;
}

/* Returns the height used. */
static int draw_panel(struct buf *b, const struct plot_panel *p, int top)
{
    struct axis x, y;
    int head = head_of(p);
    int legend_top = top + (p->title == NULL ? 8 : TITLE);

    axis_init(&x, p, false);
    axis_init(&y, p, true);
    if (p->title != NULL) {
        buf_printf(b, "<text class=\"p\" x=\"%d\" y=\"%d\">", LEFT, top + 15);
        add_text(b, p->title);
        buf_add_str(b, "</text>\n");
    }
    (void)legend(b, p, legend_top);
    draw_axes(b, p, &x, &y, top + head);
    for (unsigned i = 0; i < p->n_series; i++)
        draw_series(b, &p->series[i], i, &x, &y, top + head);
    return head + AREA + FOOT;
}

void plot_svg(struct buf *out, const char *title, const struct plot_panel *panels, unsigned n)
{
    int height = HEAD;

    for (unsigned i = 0; i < n; i++)
        height += head_of(&panels[i]) + AREA + FOOT;
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
               "height=\"%d\" role=\"img\">\n<title>",
               WIDTH, height, WIDTH, height);
    add_text(out, title);
    buf_add_str(out, "</title>\n");
    buf_add_str(out, STYLE);
    buf_printf(out, "<rect class=\"bg\" width=\"%d\" height=\"%d\"/>\n", WIDTH, height);
    buf_printf(out, "<text class=\"t\" x=\"16\" y=\"25\">");
    add_text(out, title);
    buf_add_str(out, "</text>\n");
    height = HEAD;
    for (unsigned i = 0; i < n; i++)
        height += draw_panel(out, &panels[i], height);
    buf_add_str(out, "</svg>\n");
}
