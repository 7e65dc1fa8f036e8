#include "table.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "cli/units.h"
#include "result.h"

enum { MAX_COLUMNS = 24, MAX_DECIMALS = 6 };

struct settings {
    const char *out, *name, *title, *command;
    struct result_column columns[MAX_COLUMNS + 1]; /* borrow the arguments, which are cut up */
    unsigned n;
};

static void print_help(FILE *out)
{
    fputs("usage: otlite-bench table --name NAME --title TITLE --command COMMAND\n"
          "                          --column KEY:TITLE:DECIMALS... [--out DIR] < ROWS\n"
          "\n"
          "Print rows as a table and, with --out, keep it in DIR as the other subcommands keep\n"
          "theirs. A row is a line of cells with tabs between them; a cell of a number column may "
          "be\n"
          "empty. DECIMALS is \"text\" for a column of words. A line that begins with \"# \" is a\n"
          "note, which is printed below the table.\n",
          out);
}

/* KEY:TITLE:DECIMALS, where TITLE may hold colons. */
static bool add_column(struct settings *s, char *text)
{
    char *title = strchr(text, ':'), *decimals = strrchr(text, ':');
    struct result_column *c = &s->columns[s->n];
    int64_t n;

    if (title == NULL || decimals == title || title == text || s->n == MAX_COLUMNS)
        return false;
    *title++ = '\0';
    *decimals++ = '\0';
    if (strcmp(decimals, "text") == 0)
        n = -1;
    else if (!int_parse(decimals, &n) || n < 0 || n > MAX_DECIMALS)
        return false;
    *c = (struct result_column){.key = text, .title = title, .decimals = (int)n};
    s->n++;
    return true;
}

/* A number cell; empty gives NAN. */
static bool parse_number(const char *text, double *out)
{
    char *end;

    *out = (double)NAN;
    if (*text == '\0')
        return true;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*out);
}

/* One line without its end. False with the column that is wrong, counted from 1. */
static bool add_row(struct result *r, const struct settings *s, char *line, unsigned *wrong)
{
    char *cells[MAX_COLUMNS];
    double numbers[MAX_COLUMNS];
    char *rest = line;

    for (unsigned i = 0; i < s->n; i++) {
        *wrong = i + 1;
        cells[i] = strsep(&rest, "\t");
        if (cells[i] == NULL ||
            (s->columns[i].decimals >= 0 && !parse_number(cells[i], &numbers[i])))
            return false;
    }
    if (rest != NULL)
        return false;
    result_begin_row(r);
    for (unsigned i = 0; i < s->n; i++) {
        if (s->columns[i].decimals < 0)
            result_text(r, cells[i]);
        else
            result_number(r, numbers[i]);
    }
    result_end_row(r);
    return true;
}

static int copy_rows(struct result *r, const struct settings *s, FILE *in)
{
    unsigned long number = 0;
    int status = EX_OK;
    char *line = NULL;
    size_t room = 0;
    ssize_t n;

    while (status == EX_OK && (n = getline(&line, &room, in)) >= 0) {
        unsigned wrong = 0;

        number++;
        if (n > 0 && line[n - 1] == '\n')
            line[n - 1] = '\0';
        if (strncmp(line, "# ", 2) == 0) {
            result_note(r, "%s", line + 2);
        } else if (!add_row(r, s, line, &wrong)) {
            fprintf(stderr,
                    "otlite-bench table: line %lu does not fit the columns (%u of them) at column "
                    "%u\n",
                    number, s->n, wrong);
            status = EX_DATAERR;
        }
    }
    if (ferror(in)) {
        fprintf(stderr, "otlite-bench table: cannot read the rows: %s\n", strerror(errno));
        status = EX_IOERR;
    }
    free(line);
    return status;
}

/* EX_OK to go on; -1 after --help. */
static int parse_arguments(int argc, char **argv, struct settings *s)
{
    static const struct option options[] = {
        {"out", required_argument, NULL, 'o'},
        {"name", required_argument, NULL, 'n'},
        {"title", required_argument, NULL, 't'},
        {"command", required_argument, NULL, 'c'},
        {"column", required_argument, NULL, 'k'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int c;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (c) {
        case 'h':
            print_help(stdout);
            return -1;
        case 'o':
            s->out = optarg;
            break;
        case 'n':
            s->name = optarg;
            break;
        case 't':
            s->title = optarg;
            break;
        case 'c':
            s->command = optarg;
            break;
        case 'k':
            if (add_column(s, optarg))
                break;
            fputs("otlite-bench table: --column takes KEY:TITLE:DECIMALS, 24 times at most\n",
                  stderr);
            return EX_USAGE;
        default: /* getopt has said what is wrong */
            return EX_USAGE;
        }
    }
    if (optind < argc || s->name == NULL || s->title == NULL || s->command == NULL || s->n == 0 ||
        s->name[0] == '\0' ||
        strspn(s->name, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(s->name)) {
        print_help(stderr);
        return EX_USAGE;
    }
    return EX_OK;
}

int table_main(int argc, char **argv)
{
    struct settings s = {0};
    struct otl_error err = {0};
    struct result *r;
    int status = parse_arguments(argc, argv, &s);

    if (status != EX_OK)
        return status < 0 ? EX_OK : status;
    if (result_open(s.out, s.name, s.title, s.command, s.columns, &r, &err) != OTL_OK) {
        fprintf(stderr, "otlite-bench table: %s\n", err.msg);
        return EX_CANTCREAT;
    }
    status = copy_rows(r, &s, stdin);
    if (result_close(r, &err) != OTL_OK) {
        fprintf(stderr, "otlite-bench table: %s\n", err.msg);
        return EX_CANTCREAT;
    }
    return status;
}
