#include "result.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "machine.h"
#include "otlite/bytes.h"
#include "plot.h"

enum { NUMBER_WIDTH = 11, TEXT_WIDTH = 16, NUMBER_SIZE = 64 };

struct cell {
    double number;
    char *text; /* NULL: the number counts */
};

struct result {
    char *dir; /* NULL: printing only */
    char *name, *title, *command;
    const struct result_column *columns; /* borrowed */
    unsigned n_columns;
    struct cell *cells; /* n_rows * n_columns, and those of the row that is open */
    size_t n_cells, cells_cap;
    char **notes;
    unsigned n_notes;
    struct plot_panel *panels;
    unsigned n_panels;
    bool plotted; /* some panel was given its axes */
    bool failed;  /* out of memory somewhere: result_close says so */
};

/* --- memory: a failure is kept, and reported once at the end --- */

static char *copy_text(struct result *r, const char *text)
{
    char *p = strdup(text);

    r->failed = r->failed || p == NULL;
    return p;
}

/* Room for one more entry behind n of them; the array as it was, and failed, when there is none. */
static bool grow(struct result *r, void **array, size_t n, size_t size)
{
    void *p = n < SIZE_MAX / size - 1 ? realloc(*array, (n + 1) * size) : NULL;

    if (p == NULL) {
        r->failed = true;
        return false;
    }
    *array = p;
    memset((char *)p + n * size, 0, size);
    return true;
}

static void free_panel(struct plot_panel *p)
{
    for (unsigned i = 0; i < p->n_series; i++) {
        free(p->series[i].label);
        free(p->series[i].x);
        free(p->series[i].y);
    }
    free(p->series);
    free(p->title);
    free(p->x_title);
    free(p->y_title);
}

static void result_free(struct result *r)
{
    if (r == NULL)
        return;
    for (size_t i = 0; i < r->n_cells; i++)
        free(r->cells[i].text);
    for (unsigned i = 0; i < r->n_notes; i++)
        free(r->notes[i]);
    for (unsigned i = 0; i < r->n_panels; i++)
        free_panel(&r->panels[i]);
    free(r->cells);
    free(r->notes);
    free(r->panels);
    free(r->dir);
    free(r->name);
    free(r->title);
    free(r->command);
    free(r);
}

/* --- numbers for people --- */

/* With thousands separators; "" for NAN. */
static void format_number(char *out, size_t n, double v, int decimals)
{
    char plain[NUMBER_SIZE];
    size_t digits, at = 0;
    const char *p = plain;

    out[0] = '\0';
    if (isnan(v))
        return;
    snprintf(plain, sizeof(plain), "%.*f", decimals, fabs(v) < 1e40 ? v : copysign(HUGE_VAL, v));
    if (*p == '-')
        out[at++] = *p++;
    digits = strspn(p, "0123456789");
    for (size_t i = 0; p[i] != '\0' && at + 2 < n; i++) {
        if (i > 0 && i < digits && (digits - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = p[i];
    }
    out[at] = '\0';
}

/* What the cell shows; in room when it is a number. */
static const char *cell_text(const struct result *r, const struct cell *c, unsigned column,
                             char *room, size_t n)
{
    int decimals = r->columns[column].decimals;

    if (c->text != NULL)
        return c->text;
    format_number(room, n, c->number, decimals < 0 ? 0 : decimals);
    return room;
}

/* Characters, not bytes, so that columns with µ in them line up. */
static int width_of(const char *text)
{
    int n = 0;

    for (; *text != '\0'; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static void print_cell(const struct result *r, unsigned column, const char *text)
{
    const struct result_column *c = &r->columns[column];
    int least = c->decimals < 0 ? TEXT_WIDTH : NUMBER_WIDTH, title = width_of(c->title);
    int pad = (title > least ? title : least) - width_of(text);
    bool last = column + 1 == r->n_columns;

    if (column > 0)
        fputs("  ", stdout);
    if (c->decimals >= 0)
        printf("%*s%s", pad > 0 ? pad : 0, "", text);
    else
        printf("%s%*s", text, pad > 0 && !last ? pad : 0, "");
}

/* --- building --- */

static bool name_is_good(const char *name)
{
    return name[0] != '\0' && name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-")] == '\0' &&
           strlen(name) <= 100;
}

/* Make dir, parents included. */
static enum otl_err make_dir(const char *dir, struct otl_error *err)
{
    char *path = strdup(dir);
    enum otl_err rc = OTL_OK;
    struct stat st;

    if (path == NULL)
        return otl_fail(err, OTL_ENOMEM, "no memory for the results");
    for (char *p = path + 1; path[0] != '\0'; p++) {
        char was = *p;

        if (was != '/' && was != '\0')
            continue;
        *p = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST) {
            rc = otl_fail(err, OTL_EIO, "cannot make the directory %.300s: %s", path,
                          strerror(errno));
            break;
        }
        *p = was;
        if (was == '\0')
            break;
    }
    if (rc == OTL_OK && (stat(dir, &st) != 0 || !S_ISDIR(st.st_mode)))
        rc = otl_fail(err, OTL_EIO, "%.300s is no directory for results", dir);
    free(path);
    return rc;
}

enum otl_err result_open(const char *dir, const char *name, const char *title, const char *command,
                         const struct result_column *columns, struct result **out,
                         struct otl_error *err)
{
    struct result *r;
    enum otl_err rc;

    if (!name_is_good(name))
        return otl_fail(err, OTL_ECONFIG,
                        "results are named with a-z, 0-9 and -, at most 100 of them, not '%.100s'",
                        name);
    if (dir != NULL) {
        rc = make_dir(dir, err);
        if (rc != OTL_OK)
            return rc;
    }
    r = calloc(1, sizeof(*r));
    if (r == NULL)
        return otl_fail(err, OTL_ENOMEM, "no memory for the results");
    r->dir = dir == NULL ? NULL : copy_text(r, dir);
    r->name = copy_text(r, name);
    r->title = copy_text(r, title);
    r->command = copy_text(r, command);
    r->columns = columns;
    while (columns[r->n_columns].key != NULL)
        r->n_columns++;
    assert(r->n_columns > 0);
    if (r->failed) {
        result_free(r);
        return otl_fail(err, OTL_ENOMEM, "no memory for the results");
    }
    printf("%s\n\n", title);
    for (unsigned i = 0; i < r->n_columns; i++)
        print_cell(r, i, columns[i].title);
    putchar('\n');
    fflush(stdout);
    *out = r;
    return OTL_OK;
}

static struct cell *new_cell(struct result *r)
{
    if (r->n_cells == r->cells_cap) {
        size_t cap = r->cells_cap == 0 ? 64 : r->cells_cap * 2;
        struct cell *p = reallocarray(r->cells, cap, sizeof(*p));

        if (p == NULL) {
            r->failed = true;
            return NULL;
        }
        r->cells = p;
        r->cells_cap = cap;
    }
    r->cells[r->n_cells] = (struct cell){.number = (double)NAN};
    return &r->cells[r->n_cells++];
}

void result_begin_row(struct result *r)
{
    while (r->n_cells % r->n_columns != 0 && new_cell(r) != NULL) {
    }
}

void result_number(struct result *r, double v)
{
    struct cell *c = new_cell(r);

    if (c != NULL)
        c->number = v;
}

void result_text(struct result *r, const char *text)
{
    struct cell *c = new_cell(r);

    if (c != NULL)
        c->text = copy_text(r, text);
}

void result_end_row(struct result *r)
{
    char room[NUMBER_SIZE];

    result_begin_row(r); /* missing cells are empty */
    if (r->n_cells < r->n_columns)
        return;
    for (unsigned i = 0; i < r->n_columns; i++)
        print_cell(r, i,
                   cell_text(r, &r->cells[r->n_cells - r->n_columns + i], i, room, sizeof(room)));
    putchar('\n');
    fflush(stdout);
}

void result_note(struct result *r, const char *format, ...)
{
    va_list ap;
    char *text = NULL;

    va_start(ap, format);
    if (vasprintf(&text, format, ap) < 0)
        text = NULL;
    va_end(ap);
    if (text == NULL || !grow(r, (void **)&r->notes, r->n_notes, sizeof(*r->notes))) {
        r->failed = true;
        free(text);
        return;
    }
    r->notes[r->n_notes++] = text;
    printf("%s%s\n", r->n_notes == 1 ? "\n" : "", text);
    fflush(stdout);
}

/* --- plots --- */

/* The panel that series and axes go to; NULL when there is no memory for it. */
static struct plot_panel *panel(struct result *r)
{
    if (r->n_panels == 0)
        result_panel(r, NULL);
    return r->n_panels == 0 ? NULL : &r->panels[r->n_panels - 1];
}

void result_panel(struct result *r, const char *title)
{
    if (!grow(r, (void **)&r->panels, r->n_panels, sizeof(*r->panels)))
        return;
    r->panels[r->n_panels++].title = title == NULL ? NULL : copy_text(r, title);
}

static double *copy_doubles(struct result *r, const double *v, unsigned n)
{
    double *p = calloc(n > 0 ? n : 1, sizeof(*p));

    if (p == NULL)
        r->failed = true;
    else if (n > 0)
        memcpy(p, v, n * sizeof(*p));
    return p;
}

void result_series(struct result *r, const char *label, const double *x, const double *y,
                   unsigned n)
{
    struct plot_panel *p = panel(r);
    struct plot_series *s;

    if (p == NULL || !grow(r, (void **)&p->series, p->n_series, sizeof(*p->series)))
        return;
    s = &p->series[p->n_series++];
    s->label = copy_text(r, label);
    s->x = copy_doubles(r, x, n);
    s->y = copy_doubles(r, y, n);
    s->n = s->x != NULL && s->y != NULL ? n : 0;
}

static void set_axes(struct result *r, const char *x_title, const char *y_title,
                     enum plot_scale x_scale, enum plot_scale y_scale)
{
    struct plot_panel *p = panel(r);

    if (p == NULL)
        return;
    free(p->x_title);
    free(p->y_title);
    p->x_title = copy_text(r, x_title);
    p->y_title = copy_text(r, y_title);
    p->x_scale = x_scale;
    p->y_scale = y_scale;
    r->plotted = true;
}

void result_plot(struct result *r, const char *x_title, const char *y_title, bool log_x, bool log_y)
{
    set_axes(r, x_title, y_title, log_x ? PLOT_LOG : PLOT_LINEAR, log_y ? PLOT_LOG : PLOT_LINEAR);
}

void result_plot_percentiles(struct result *r, const char *x_title, const char *y_title)
{
    set_axes(r, x_title, y_title, PLOT_PERCENTILE, PLOT_LOG);
}

/* --- files --- */

static void add_json_number(struct buf *b, double v)
{
    if (isfinite(v))
        buf_add_double(b, v);
    else
        buf_add_str(b, "null");
}

static void add_json_numbers(struct buf *b, const char *key, const double *v, unsigned n)
{
    buf_printf(b, ",\"%s\":[", key);
    for (unsigned i = 0; i < n; i++) {
        if (i > 0)
            buf_add_char(b, ',');
        add_json_number(b, v[i]);
    }
    buf_add_char(b, ']');
}

static void add_json_text(struct buf *b, const char *key, const char *text)
{
    buf_printf(b, "\"%s\":", key);
    buf_add_json_string(b, bytes_str(text == NULL ? "" : text));
}

static void add_json_rows(struct buf *b, const struct result *r)
{
    buf_add_str(b, "\"rows\":[");
    for (size_t i = 0; i < r->n_cells; i++) {
        unsigned column = (unsigned)(i % r->n_columns);

        buf_add_str(b, column > 0 ? "," : i > 0 ? ",\n{" : "\n{");
        buf_printf(b, "\"%s\":", r->columns[column].key);
        if (r->cells[i].text != NULL)
            buf_add_json_string(b, bytes_str(r->cells[i].text));
        else
            add_json_number(b, r->cells[i].number);
        if (column + 1 == r->n_columns)
            buf_add_char(b, '}');
    }
    buf_add_char(b, ']');
}

static void add_json_plots(struct buf *b, const struct result *r)
{
    buf_add_str(b, "\"plots\":[");
    for (unsigned i = 0; i < r->n_panels; i++) {
        const struct plot_panel *p = &r->panels[i];

        buf_add_str(b, i > 0 ? ",\n{" : "\n{");
        add_json_text(b, "title", p->title);
        buf_add_char(b, ',');
        add_json_text(b, "x", p->x_title);
        buf_add_char(b, ',');
        add_json_text(b, "y", p->y_title);
        buf_add_str(b, ",\"series\":[");
        for (unsigned k = 0; k < p->n_series; k++) {
            buf_add_str(b, k > 0 ? ",{" : "{");
            add_json_text(b, "label", p->series[k].label);
            add_json_numbers(b, "x", p->series[k].x, p->series[k].n);
            add_json_numbers(b, "y", p->series[k].y, p->series[k].n);
            buf_add_char(b, '}');
        }
        buf_add_str(b, "]}");
    }
    buf_add_char(b, ']');
}

static void build_json(struct buf *b, const struct result *r)
{
    buf_add_str(b, "{");
    add_json_text(b, "name", r->name);
    buf_add_str(b, ",\n");
    add_json_text(b, "title", r->title);
    buf_add_str(b, ",\n");
    add_json_text(b, "command", r->command);
    buf_add_str(b, ",\n\"columns\":{");
    for (unsigned i = 0; i < r->n_columns; i++) {
        if (i > 0)
            buf_add_char(b, ',');
        add_json_text(b, r->columns[i].key, r->columns[i].title);
    }
    buf_add_str(b, "},\n");
    add_json_rows(b, r);
    buf_add_str(b, ",\n\"notes\":[");
    for (unsigned i = 0; i < r->n_notes; i++) {
        if (i > 0)
            buf_add_char(b, ',');
        buf_add_json_string(b, bytes_str(r->notes[i]));
    }
    buf_add_str(b, "],\n");
    add_json_plots(b, r);
    buf_add_str(b, ",\n\"machine\":");
    machine_json(b);
    buf_add_str(b, "}\n");
}

/* A cell of a Markdown table: no bar and no line break may end it early. */
static void add_markdown_cell(struct buf *b, const char *text)
{
    buf_add_str(b, " ");
    for (; *text != '\0'; text++) {
        if (*text == '|')
            buf_add_char(b, '\\');
        buf_add_char(b, *text == '\n' ? ' ' : *text);
    }
    buf_add_str(b, " |");
}

static void build_markdown(struct buf *b, const struct result *r)
{
    char room[NUMBER_SIZE];

    buf_add_char(b, '|');
    for (unsigned i = 0; i < r->n_columns; i++)
        add_markdown_cell(b, r->columns[i].title);
    buf_add_str(b, "\n|");
    for (unsigned i = 0; i < r->n_columns; i++)
        buf_add_str(b, r->columns[i].decimals < 0 ? "---|" : "---:|");
    for (size_t i = 0; i < r->n_cells; i++) {
        unsigned column = (unsigned)(i % r->n_columns);

        if (column == 0)
            buf_add_str(b, "\n|");
        add_markdown_cell(b, cell_text(r, &r->cells[i], column, room, sizeof(room)));
    }
    buf_add_char(b, '\n');
    for (unsigned i = 0; i < r->n_notes; i++)
        buf_printf(b, "%s- %s\n", i == 0 ? "\n" : "", r->notes[i]);
}

/* Write b as dir/name.extension and empty it. */
static enum otl_err put_file(const char *dir, const char *name, const char *extension,
                             struct buf *b, struct otl_error *err)
{
    char *path = NULL;
    enum otl_err rc = OTL_OK;
    FILE *f;

    if (b->failed || asprintf(&path, "%s/%s.%s", dir, name, extension) < 0)
        return otl_fail(err, OTL_ENOMEM, "no memory for the results");
    f = fopen(path, "we");
    if (f == NULL || fwrite(b->p, 1, b->n, f) != b->n)
        rc = otl_fail(err, OTL_EIO, "cannot write %.300s: %s", path, strerror(errno));
    if (f != NULL && fclose(f) != 0 && rc == OTL_OK)
        rc = otl_fail(err, OTL_EIO, "cannot write %.300s: %s", path, strerror(errno));
    free(path);
    buf_reset(b);
    return rc;
}

static enum otl_err write_files(const struct result *r, struct otl_error *err)
{
    struct buf b = {0};
    enum otl_err rc;

    build_json(&b, r);
    rc = put_file(r->dir, r->name, "json", &b, err);
    if (rc == OTL_OK) {
        build_markdown(&b, r);
        rc = put_file(r->dir, r->name, "md", &b, err);
    }
    if (rc == OTL_OK && r->plotted) {
        plot_svg(&b, r->title, r->panels, r->n_panels);
        rc = put_file(r->dir, r->name, "svg", &b, err);
    }
    if (rc == OTL_OK) {
        machine_json(&b);
        buf_add_char(&b, '\n');
        rc = put_file(r->dir, "machine", "json", &b, err);
    }
    if (rc == OTL_OK) {
        machine_markdown(&b);
        rc = put_file(r->dir, "machine", "md", &b, err);
    }
    buf_fini(&b);
    return rc;
}

enum otl_err result_close(struct result *r, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    result_begin_row(r);
    putchar('\n');
    if (fflush(stdout) != 0)
        rc = otl_fail(err, OTL_EIO, "cannot print the results: %s", strerror(errno));
    if (r->failed)
        rc = otl_fail(err, OTL_ENOMEM, "no memory for the results");
    if (rc == OTL_OK && r->dir != NULL)
        rc = write_files(r, err);
    result_free(r);
    return rc;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double median(double *v, unsigned n)
{
    qsort(v, n, sizeof(*v), by_value);
    return n % 2 == 1 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}
