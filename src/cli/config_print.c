/* config_print.c -- the settings as text: effective values, --help, docs/configuration.md,
 * deploy/otlite.conf. All of it from the one table. */
#include "otlite/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/config_internal.h"
#include "cli/units.h"

/* " value", or nothing for an empty one, so that no line ends with a blank. */
static void value_print(const struct config *c, const struct config_row *row, FILE *out)
{
    const void *field = config_field_const(c, row);
    char text[UNITS_TEXT];

    switch (row->kind) {
    case CONFIG_STRING:
    case CONFIG_ENUM: {
        char *const *s = field;

        if (**s != '\0')
            fprintf(out, " %s", *s);
        break;
    }
    case CONFIG_LIST: {
        char **const *list = field;

        for (size_t i = 0; (*list)[i] != NULL; i++)
            fprintf(out, "%s%s", i == 0 ? " " : ",", (*list)[i]);
        break;
    }
    case CONFIG_BOOL: {
        const bool *b = field;

        fputs(*b ? " true" : " false", out);
        break;
    }
    case CONFIG_INT: {
        const int64_t *v = field;

        fprintf(out, " %" PRId64, *v);
        break;
    }
    case CONFIG_SIZE: {
        const int64_t *v = field;

        size_text(*v, text);
        fprintf(out, " %s", text);
        break;
    }
    case CONFIG_DURATION: {
        const int64_t *v = field;

        duration_text(*v, text);
        fprintf(out, " %s", text);
        break;
    }
    }
}

void config_print(const struct config *c, FILE *out)
{
    for (size_t i = 0; i < config_row_count; i++) {
        fprintf(out, "%s =", config_rows[i].key);
        value_print(c, &config_rows[i], out);
        fputc('\n', out);
    }
}

/* Single quotes, so that nothing in a text means anything to YAML. */
static void quoted_print(const char *text, FILE *out)
{
    fputs(" '", out);
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputc('\'', out);
        fputc(*text, out);
    }
    fputc('\'', out);
}

void config_print_yaml(const struct config *c, FILE *out)
{
    for (size_t i = 0; i < config_row_count; i++) {
        const struct config_row *row = &config_rows[i];
        const void *field = config_field_const(c, row);

        fprintf(out, "%s:", row->key);
        if (row->kind == CONFIG_STRING || row->kind == CONFIG_ENUM) {
            quoted_print(*(char *const *)field, out);
        } else if (row->kind == CONFIG_LIST) {
            char **list = *(char **const *)field;

            if (*list == NULL)
                fputs(" []", out);
            for (; *list != NULL; list++) {
                fputs("\n  -", out);
                quoted_print(*list, out);
            }
        } else {
            value_print(c, row, out);
        }
        fputc('\n', out);
    }
}

static const char *kind_text(enum config_kind kind)
{
    switch (kind) {
    case CONFIG_STRING:
        return "text";
    case CONFIG_LIST:
        return "list";
    case CONFIG_BOOL:
        return "true or false";
    case CONFIG_INT:
        return "number";
    case CONFIG_SIZE:
        return "size";
    case CONFIG_DURATION:
        return "duration";
    case CONFIG_ENUM:
        break;
    }
    return "word";
}

/* "size, 1K to 1G", "normal or full", "list". */
static void domain_print(const struct config_row *row, FILE *out)
{
    if (row->kind == CONFIG_ENUM) {
        for (const char *p = row->min;;) {
            size_t n = strcspn(p, "|");
            const char *next = p[n] == '\0' ? NULL : p + n + 1;

            fprintf(out, "%.*s", (int)n, p);
            if (next == NULL)
                return;
            fputs(strchr(next, '|') == NULL ? " or " : ", ", out);
            p = next;
        }
    }
    fputs(kind_text(row->kind), out);
    if (row->min[0] != '\0')
        fprintf(out, ", %s to %s", row->min, row->max);
}

/* help in lines of at most width bytes, each behind lead. */
static void wrap_print(const char *help, const char *lead, size_t width, FILE *out)
{
    while (*help != '\0') {
        size_t n = strlen(help);

        if (n > width) {
            n = width;
            while (n > 0 && help[n] != ' ')
                n--;
            if (n == 0) /* a word wider than the line stays whole */
                n = strcspn(help, " ");
        }
        fprintf(out, "%s%.*s\n", lead, (int)n, help);
        help += n;
        while (*help == ' ')
            help++;
    }
}

void config_print_help(FILE *out)
{
    fputs("Settings, with their defaults: --set KEY=VALUE; in the environment OTLITE_ and the key "
          "in\n"
          "capitals, dots as underscores (OTLITE_HTTP_MAX_BODY); in a file KEY = VALUE lines:\n",
          out);
    for (size_t i = 0; i < config_row_count; i++) {
        const struct config_row *row = &config_rows[i];

        fprintf(out, "  %s =%s%s   (", row->key, row->def[0] == '\0' ? "" : " ", row->def);
        domain_print(row, out);
        fputs(")\n", out);
        wrap_print(row->help, "      ", 72, out);
    }
}

void config_print_markdown(FILE *out)
{
    char env[CONFIG_ENV_NAME];

    fputs(
        "# Configuration\n"
        "\n"
        "This page is printed by `otlite check-config --markdown`; change the table in\n"
        "`include/otlite/config.h` and run `make docs`.\n"
        "\n"
        "Each setting is looked for in four places, and the first one that has it wins:\n"
        "\n"
        "1. a flag: `--set key=value`; `--listen` and `--data` are short for `--set listen=` and\n"
        "   `--set data=`\n"
        "2. the environment: the variable in the table\n"
        "3. the file named by `--config FILE`; none is read without it\n"
        "4. the default\n"
        "\n"
        "`otlite check-config`, with the same flags, prints what comes of it, in the form of a\n"
        "file; it exits with 78 and says why when something is wrong. A key or an `OTLITE_`\n"
        "variable that is not in the table is an error, so that a slip does not go unnoticed.\n"
        "Left alone are `OTLITE_TOKEN` (the token of client commands) and the variables that\n"
        "Kubernetes makes for a service named otlite (`OTLITE_PORT`, `OTLITE_SERVICE_HOST` and\n"
        "their like).\n"
        "\n"
        "## The file\n"
        "\n"
        "One `key = value` a line, without quotes. `#` starts a comment at the start of a line or\n"
        "after a blank. A key may be there once. `deploy/otlite.conf` lists every key.\n"
        "\n"
        "## Kinds of values\n"
        "\n"
        "| Kind | Form |\n"
        "|---|---|\n"
        "| text | as it is |\n"
        "| list | items between commas, blanks around them ignored; empty for none |\n"
        "| number | decimal digits |\n"
        "| size | bytes; K, M, G, T multiply by 1024, 1024² and so on: `64M` |\n"
        "| duration | digits and `ms`, `s`, `m`, `h` or `d`: `90s` |\n"
        "\n"
        "## Settings\n"
        "\n"
        "| Key | Default | Values | Environment | Meaning |\n"
        "|---|---|---|---|---|\n",
        out);
    for (size_t i = 0; i < config_row_count; i++) {
        const struct config_row *row = &config_rows[i];

        config_env_name(row, env);
        if (row->def[0] == '\0')
            fprintf(out, "| `%s` | (empty) | ", row->key);
        else
            fprintf(out, "| `%s` | `%s` | ", row->key, row->def);
        domain_print(row, out);
        fprintf(out, " | `%s` | ", env);
        for (const char *p = row->help; *p != '\0'; p++) {
            if (*p == '|' || *p == '*')
                fputc('\\', out);
            fputc(*p, out);
        }
        fputs(" |\n", out);
    }
}

void config_print_sample(FILE *out)
{
    fputs("# otlite.conf -- every setting with its default; uncomment what you change.\n"
          "# Use it with: otlite serve --config otlite.conf\n"
          "# Check it with: otlite check-config --config otlite.conf\n"
          "# Explained in docs/configuration.md. Printed by: otlite check-config --sample\n",
          out);
    for (size_t i = 0; i < config_row_count; i++) {
        const struct config_row *row = &config_rows[i];

        fputc('\n', out);
        wrap_print(row->help, "# ", 96, out);
        fputs("# (", out);
        domain_print(row, out);
        fprintf(out, ")\n#%s =%s%s\n", row->key, row->def[0] == '\0' ? "" : " ", row->def);
    }
}
