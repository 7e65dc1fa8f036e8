/* query_chart.c -- series as lines in the terminal: each character is two by four dots of Braille
 * (U+2800). */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/query_result.h"

enum { DOTS_X = 2, DOTS_Y = 4, AXIS_CHARS = 11, MAX_LEGEND = 20, COLORS = 6 };

struct canvas {
    unsigned width, height; /* characters */
    uint8_t *dots;          /* of each character */
    uint8_t *color;
    double t0, t1, v0, v1;
};

static const int ANSI[COLORS] = {36, 33, 32, 35, 34, 31};

static void set_dot(struct canvas *c, unsigned x, unsigned y, uint8_t color)
{
    static const uint8_t bits[DOTS_Y][DOTS_X] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
    size_t at;

    if (x >= c->width * DOTS_X || y >= c->height * DOTS_Y)
        return;
    at = (size_t)(y / DOTS_Y) * c->width + x / DOTS_X;
    c->dots[at] |= bits[y % DOTS_Y][x % DOTS_X];
    c->color[at] = color;
}

static long to_x(const struct canvas *c, double t)
{
    return lround((t - c->t0) / (c->t1 - c->t0) * (c->width * DOTS_X - 1));
}

static long to_y(const struct canvas *c, double v)
{
    return lround((c->v1 - v) / (c->v1 - c->v0) * (c->height * DOTS_Y - 1));
}

/* Bresenham. */
static void line(struct canvas *c, long x0, long y0, long x1, long y1, uint8_t color)
{
    long dx = labs(x1 - x0), dy = -labs(y1 - y0), sx = x0 < x1 ? 1 : -1, sy = y0 < y1 ? 1 : -1,
         e = dx + dy;

    for (;;) {
        set_dot(c, (unsigned)x0, (unsigned)y0, color);
        if (x0 == x1 && y0 == y1)
            return;
        if (2 * e >= dy) {
            e += dy;
            x0 += sx;
        } else {
            e += dx;
            y0 += sy;
        }
    }
}

/* Points that lie further apart than this many of the usual steps are not joined. */
static double usual_step(const struct query_result *r)
{
    double least = (double)INFINITY;

    for (size_t i = 0; i < r->n; i++) {
        for (size_t k = 1; k < r->series[i].n; k++) {
            double d = r->series[i].points[k].t - r->series[i].points[k - 1].t;

            least = d > 0 && d < least ? d : least;
        }
    }
    return least;
}

static void draw(struct canvas *c, const struct result_series *s, double step, uint8_t color)
{
    for (size_t k = 0; k < s->n; k++) {
        const struct result_point *p = &s->points[k];

        if (!isfinite(p->v))
            continue;
        if (k > 0 && isfinite(s->points[k - 1].v) && p->t - s->points[k - 1].t < 1.5 * step)
            line(c, to_x(c, s->points[k - 1].t), to_y(c, s->points[k - 1].v), to_x(c, p->t),
                 to_y(c, p->v), color);
        else
            set_dot(c, (unsigned)to_x(c, p->t), (unsigned)to_y(c, p->v), color);
    }
}

/* False: no finite value anywhere. */
static bool bounds(const struct query_result *r, struct canvas *c)
{
    bool any = false;

    for (size_t i = 0; i < r->n; i++) {
        for (size_t k = 0; k < r->series[i].n; k++) {
            const struct result_point *p = &r->series[i].points[k];

            if (!isfinite(p->v))
                continue;
            c->t0 = !any || p->t < c->t0 ? p->t : c->t0;
            c->t1 = !any || p->t > c->t1 ? p->t : c->t1;
            c->v0 = !any || p->v < c->v0 ? p->v : c->v0;
            c->v1 = !any || p->v > c->v1 ? p->v : c->v1;
            any = true;
        }
    }
    if (c->t1 <= c->t0)
        c->t1 = c->t0 + 1;
    if (c->v1 <= c->v0) {
        double half = fabs(c->v0) / 10 + (c->v0 == 0);

        c->v0 -= half;
        c->v1 += half;
    }
    return any;
}

/* 12.5k, 3.2M: at most eight characters. */
static void short_number(double v, char out[16])
{
    static const struct {
        double size;
        const char *letter;
    } units[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (fabs(v) >= units[i].size && fabs(v) < 1e15) {
            snprintf(out, 16, "%.4g%s", v / units[i].size, units[i].letter);
            return;
        }
    }
    snprintf(out, 16, "%.4g", v);
}

static void print_row(const struct canvas *c, FILE *out, unsigned y, bool color)
{
    int now = 0;

    for (unsigned x = 0; x < c->width; x++) {
        size_t at = (size_t)y * c->width + x;
        unsigned code = 0x2800U + c->dots[at];
        int want = c->dots[at] == 0 ? 0 : ANSI[c->color[at]];

        if (c->dots[at] == 0) {
            fputc(' ', out);
            continue;
        }
        if (color && want != now)
            fprintf(out, "\033[%dm", want);
        now = want;
        fprintf(out, "%c%c%c", (int)(0xe0 | code >> 12), (int)(0x80 | (code >> 6 & 0x3f)),
                (int)(0x80 | (code & 0x3f)));
    }
    if (color && now != 0)
        fputs("\033[0m", out);
    fputc('\n', out);
}

static void print_clock(double t, double span, char out[32])
{
    time_t s = (time_t)t;
    struct tm tm;

    out[0] = '\0';
    if (gmtime_r(&s, &tm) != NULL)
        (void)strftime(out, 32,
                       span > 2 * 86400 ? "%m-%d %H:%M"
                       : span > 600     ? "%H:%M"
                                        : "%H:%M:%S",
                       &tm);
}

static void print_axis(const struct canvas *c, FILE *out)
{
    char left[32], middle[32], right[32];
    double span = c->t1 - c->t0;
    int gap;

    print_clock(c->t0, span, left);
    print_clock(c->t0 + span / 2, span, middle);
    print_clock(c->t1, span, right);
    fprintf(out, "%*s└", AXIS_CHARS - 1, "");
    for (unsigned x = 0; x < c->width; x++)
        fputs("─", out);
    gap = ((int)c->width - (int)strlen(left) - (int)strlen(middle) - (int)strlen(right)) / 2;
    if (gap < 1)
        gap = 1;
    fprintf(out, "\n%*s%s%*s%s%*s%s UTC\n", AXIS_CHARS, "", left, gap, "", middle, gap, "", right);
}

static void print_legend(const struct query_result *r, FILE *out, bool color)
{
    for (size_t i = 0; i < r->n && i < MAX_LEGEND; i++) {
        const struct result_series *s = &r->series[i];
        const char *last = "";
        int last_n = 0;

        if (s->n > 0) {
            last = (const char *)s->points[s->n - 1].text.p;
            last_n = (int)s->points[s->n - 1].text.n;
        }
        if (color)
            fprintf(out, "  \033[%dm■\033[0m %.*s  %.*s\n", ANSI[i % COLORS], (int)s->name.n,
                    (const char *)s->name.p, last_n, last);
        else
            fprintf(out, "  %zu %.*s  %.*s\n", i + 1, (int)s->name.n, (const char *)s->name.p,
                    last_n, last);
    }
    if (r->n > MAX_LEGEND)
        fprintf(out, "  and %zu more\n", r->n - MAX_LEGEND);
}

void query_print_chart(const struct query_result *r, FILE *out, unsigned width, unsigned height,
                       bool color)
{
    struct canvas c = {.width = width > AXIS_CHARS + 20 ? width - AXIS_CHARS : 20,
                       .height = height < 4 ? 4 : height};
    double step = usual_step(r);

    if (!bounds(r, &c)) {
        fputs("(nothing to draw)\n", out);
        return;
    }
    c.dots = calloc((size_t)c.width * c.height, 1);
    c.color = calloc((size_t)c.width * c.height, 1);
    if (c.dots != NULL && c.color != NULL) {
        for (size_t i = r->n; i-- > 0;) /* the first series on top */
            draw(&c, &r->series[i], step, (uint8_t)(i % COLORS));
        for (unsigned y = 0; y < c.height; y++) {
            char label[16] = "";

            if (y % 4 == 0 || y + 1 == c.height)
                short_number(c.v1 - (c.v1 - c.v0) * y / (c.height - 1), label);
            fprintf(out, "%*s │", AXIS_CHARS - 2, label);
            print_row(&c, out, y, color);
        }
        print_axis(&c, out);
        print_legend(r, out, color);
    }
    free(c.dots);
    free(c.color);
}
