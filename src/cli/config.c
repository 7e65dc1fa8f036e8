/* config.c -- settings from text: parsing, ranges, files, the environment. The table is in
 * config.h; what can be wrong between settings is in config_check.c, printing in config_print.c. */
#include "otlite/config.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "otlite/bytes.h"

#include "cli/config_internal.h"
#include "cli/units.h"

const struct config_row config_rows[] = {
#define X(kind, field, key, def, min, max, help) \
    {CONFIG_##kind, offsetof(struct config, field), key, def, min, max, help},
    OTL_OPTIONS(X)
#undef X
};

enum { N_ROWS = sizeof(config_rows) / sizeof(config_rows[0]) };

const size_t config_row_count = N_ROWS;

extern char **environ;

void *config_field(struct config *c, const struct config_row *row)
{
    return (char *)c + row->offset;
}

const void *config_field_const(const struct config *c, const struct config_row *row)
{
    return (const char *)c + row->offset;
}

void config_env_name(const struct config_row *row, char out[CONFIG_ENV_NAME])
{
    size_t n = (size_t)snprintf(out, CONFIG_ENV_NAME, "OTLITE_%s", row->key);

    for (size_t i = 0; i < n && i < CONFIG_ENV_NAME - 1; i++)
        out[i] = out[i] == '.' ? '_' : (char)toupper((unsigned char)out[i]);
}

static const struct config_row *row_find(const char *key)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        if (strcmp(config_rows[i].key, key) == 0)
            return &config_rows[i];
    }
    return NULL;
}

static void list_free(char **list)
{
    if (list == NULL)
        return;
    for (size_t i = 0; list[i] != NULL; i++)
        free(list[i]);
    free(list);
}

void config_fini(struct config *c)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        void *field = config_field(c, &config_rows[i]);

        switch (config_rows[i].kind) {
        case CONFIG_STRING:
        case CONFIG_ENUM: {
            char **s = field;
            free(*s);
            break;
        }
        case CONFIG_LIST: {
            char ***list = field;
            list_free(*list);
            break;
        }
        case CONFIG_BOOL:
        case CONFIG_INT:
        case CONFIG_SIZE:
        case CONFIG_DURATION:
            break;
        }
    }
    memset(c, 0, sizeof(*c));
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* [*p, *p + *n) without the blanks around it. */
static void trim(const char **p, size_t *n)
{
    while (*n > 0 && is_blank(**p)) {
        (*p)++;
        (*n)--;
    }
    while (*n > 0 && is_blank((*p)[*n - 1]))
        (*n)--;
}

/* Text between commas, blanks trimmed, empty items left out. NULL when out of memory. */
static char **list_parse(const char *value)
{
    size_t room = 2, n = 0; /* one item more than commas, and the NULL at the end */
    char **list;

    for (const char *p = value; *p != '\0'; p++)
        room += *p == ',';
    list = calloc(room, sizeof(*list));
    if (list == NULL)
        return NULL;
    for (const char *p = value;;) {
        size_t len = strcspn(p, ",");
        const char *item = p;
        size_t item_n = len;

        trim(&item, &item_n);
        if (item_n > 0) {
            list[n] = strndup(item, item_n);
            if (list[n] == NULL) {
                list_free(list);
                return NULL;
            }
            n++;
        }
        if (p[len] == '\0')
            return list;
        p += len + 1;
    }
}

/* Is value one of the words in "a|b|c"? */
static bool words_have(const char *words, const char *value)
{
    size_t n = strlen(value);

    for (const char *p = words; n > 0;) {
        size_t len = strcspn(p, "|");

        if (len == n && memcmp(p, value, n) == 0)
            return true;
        if (p[len] == '\0')
            break;
        p += len + 1;
    }
    return false;
}

/* "a, b or c" from "a|b|c". */
static void words_text(const char *words, char *out, size_t size)
{
    size_t used = 0;

    out[0] = '\0';
    for (const char *p = words;;) {
        size_t len = strcspn(p, "|");
        bool last = p[len] == '\0';
        const char *joint = used == 0 ? "" : last ? " or " : ", ";
        int n = snprintf(out + used, size - used, "%s%.*s", joint, (int)len, p);

        if (n < 0 || (size_t)n >= size - used || last)
            return;
        used += (size_t)n;
        p += len + 1;
    }
}

static bool number_parse(enum config_kind kind, const char *s, int64_t *out)
{
    if (kind == CONFIG_SIZE)
        return size_parse(s, out);
    if (kind == CONFIG_DURATION)
        return duration_parse(s, out);
    return int_parse(s, out);
}

static const char *number_form(enum config_kind kind)
{
    if (kind == CONFIG_SIZE)
        return "a size (digits, then nothing, K, M, G or T)";
    if (kind == CONFIG_DURATION)
        return "a duration (digits, then ms, s, m, h or d)";
    return "a whole number";
}

static enum otl_err number_set(const struct config_row *row, const char *value, const char *where,
                               int64_t *field, struct otl_error *err)
{
    int64_t v, min, max;

    if (!number_parse(row->kind, row->min, &min) || !number_parse(row->kind, row->max, &max))
        return otl_fail(err, OTL_EINTERNAL, "the option table has a bad range for %s", row->key);
    if (!number_parse(row->kind, value, &v))
        return otl_fail(err, OTL_ECONFIG, "%s: %s = \"%.80s\" is not %s from %s to %s", where,
                        row->key, value, number_form(row->kind), row->min, row->max);
    if (v < min || v > max)
        return otl_fail(err, OTL_ECONFIG, "%s: %s = %.80s is out of range; it may be %s to %s",
                        where, row->key, value, row->min, row->max);
    *field = v;
    return OTL_OK;
}

static enum otl_err string_set(char **field, const char *value, struct otl_error *err)
{
    char *copy = strdup(value);

    if (copy == NULL)
        return otl_fail(err, OTL_ENOMEM, "out of memory while reading the settings");
    free(*field);
    *field = copy;
    return OTL_OK;
}

static enum otl_err row_set(struct config *c, const struct config_row *row, const char *value,
                            const char *where, struct otl_error *err)
{
    void *field = config_field(c, row);
    char words[128];

    /* A control character is always a slip, and would split a line of the log or of --help. */
    for (const char *p = value; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return otl_fail(err, OTL_ECONFIG, "%s: the value of %s holds a control character",
                            where, row->key);
    }
    switch (row->kind) {
    case CONFIG_INT:
    case CONFIG_SIZE:
    case CONFIG_DURATION:
        return number_set(row, value, where, field, err);
    case CONFIG_BOOL: {
        bool *b = field;

        if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
            return otl_fail(err, OTL_ECONFIG, "%s: %s = \"%.80s\" is neither true nor false", where,
                            row->key, value);
        *b = strcmp(value, "true") == 0;
        return OTL_OK;
    }
    case CONFIG_ENUM:
        if (!words_have(row->min, value)) {
            words_text(row->min, words, sizeof(words));
            return otl_fail(err, OTL_ECONFIG, "%s: %s = \"%.80s\" is not known; it may be %s",
                            where, row->key, value, words);
        }
        return string_set(field, value, err);
    case CONFIG_LIST: {
        char ***list = field;
        char **copy = list_parse(value);

        if (copy == NULL)
            return otl_fail(err, OTL_ENOMEM, "out of memory while reading the settings");
        list_free(*list);
        *list = copy;
        return OTL_OK;
    }
    case CONFIG_STRING:
        break;
    }
    return string_set(field, value, err);
}

enum otl_err config_init(struct config *c, struct otl_error *err)
{
    memset(c, 0, sizeof(*c));
    for (size_t i = 0; i < N_ROWS; i++) {
        enum otl_err rc = row_set(c, &config_rows[i], config_rows[i].def, "default", err);

        if (rc != OTL_OK) {
            config_fini(c);
            return rc;
        }
    }
    return OTL_OK;
}

static enum otl_err unknown_key(const char *key, const char *where, struct otl_error *err)
{
    struct nearest n = {0};

    for (size_t i = 0; i < N_ROWS; i++)
        nearest_offer(&n, key, config_rows[i].key);
    return otl_fail(err, OTL_ECONFIG,
                    "%s: there is no setting \"%.80s\"; the nearest one is %s "
                    "(`otlite check-config --help` lists all)",
                    where, key, n.best);
}

enum otl_err config_set(struct config *c, const char *key, const char *value, const char *where,
                        struct otl_error *err)
{
    const struct config_row *row = row_find(key);

    if (row == NULL)
        return unknown_key(key, where, err);
    return row_set(c, row, value, where, err);
}

/* Variables with our prefix that are no settings: the clients' token, and what Kubernetes puts into
 * every container of a namespace that has a service named otlite. */
static bool env_foreign(const char *name)
{
    static const char *const exact[] = {"OTLITE_TOKEN", "OTLITE_PORT", "OTLITE_SERVICE_HOST",
                                        "OTLITE_SERVICE_PORT"};
    static const char *const prefixes[] = {"OTLITE_PORT_", "OTLITE_SERVICE_PORT_"};

    for (size_t i = 0; i < sizeof(exact) / sizeof(exact[0]); i++) {
        if (strcmp(name, exact[i]) == 0)
            return true;
    }
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    }
    return false;
}

static enum otl_err env_set(struct config *c, const char *name, const char *value,
                            struct otl_error *err)
{
    char names[N_ROWS][CONFIG_ENV_NAME];
    struct nearest n = {0};

    for (size_t i = 0; i < N_ROWS; i++) {
        config_env_name(&config_rows[i], names[i]);
        if (strcmp(names[i], name) == 0)
            return row_set(c, &config_rows[i], value, name, err);
        nearest_offer(&n, name, names[i]);
    }
    return otl_fail(err, OTL_ECONFIG,
                    "the environment variable %.80s is no setting; the nearest one is %s "
                    "(`otlite check-config --help` lists all)",
                    name, n.best);
}

enum otl_err config_read_environment(struct config *c, struct otl_error *err)
{
    for (char **e = environ; e != NULL && *e != NULL; e++) {
        const char *equals = strchr(*e, '=');
        char *name;
        enum otl_err rc;

        if (strncmp(*e, "OTLITE_", 7) != 0 || equals == NULL)
            continue;
        name = strndup(*e, (size_t)(equals - *e));
        if (name == NULL)
            return otl_fail(err, OTL_ENOMEM, "out of memory while reading the environment");
        rc = env_foreign(name) ? OTL_OK : env_set(c, name, equals + 1, err);
        free(name);
        if (rc != OTL_OK)
            return rc;
    }
    return OTL_OK;
}

/* Cut a comment: '#' at the start of the line or after a blank, to its end. */
static size_t without_comment(const char *line, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (line[i] == '#' && (i == 0 || is_blank(line[i - 1])))
            return i;
    }
    return n;
}

/* One line of a file, in place. seen_line[i] is the line that set row i, 0 for none. */
static enum otl_err file_line(struct config *c, char *line, size_t n, const char *path,
                              unsigned number, unsigned seen_line[N_ROWS], struct otl_error *err)
{
    const char *p = line, *equals, *value;
    size_t key_n, value_n, i;
    char where[320], key[96];

    snprintf(where, sizeof(where), "%.256s:%u", path, number);
    if (memchr(line, '\0', n) != NULL)
        return otl_fail(err, OTL_ECONFIG, "%s: a NUL byte; this is no text file", where);
    while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
        n--;
    if (number == 1 && n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) { /* some editors' mark */
        p += 3;
        n -= 3;
    }
    n = without_comment(p, n);
    trim(&p, &n);
    if (n == 0)
        return OTL_OK;
    equals = memchr(p, '=', n);
    if (equals == NULL)
        return otl_fail(err, OTL_ECONFIG, "%s: no '=' here; a line is \"key = value\"", where);
    key_n = (size_t)(equals - p);
    value = equals + 1;
    value_n = n - key_n - 1;
    trim(&p, &key_n);
    trim(&value, &value_n);
    if (key_n == 0)
        return otl_fail(err, OTL_ECONFIG, "%s: no key before '='; a line is \"key = value\"",
                        where);
    if (key_n >= sizeof(key))
        key_n = sizeof(key) - 1; /* longer than any known key, so it stays unknown */
    memcpy(key, p, key_n);
    key[key_n] = '\0';
    if (value_n >= 2 && (*value == '"' || *value == '\'') && value[value_n - 1] == *value)
        return otl_fail(err, OTL_ECONFIG, "%s: write the value of %s without quotes", where, key);
    for (i = 0; i < N_ROWS && strcmp(config_rows[i].key, key) != 0; i++)
        ;
    if (i == N_ROWS)
        return unknown_key(key, where, err);
    if (seen_line[i] != 0)
        return otl_fail(err, OTL_ECONFIG, "%s: %s is set already in line %u; keep one of them",
                        where, key, seen_line[i]);
    seen_line[i] = number;
    line[value + value_n - line] =
        '\0'; /* inside the line: getline ends it with a NUL of its own */
    return row_set(c, &config_rows[i], value, where, err);
}

enum otl_err config_read_file(struct config *c, const char *path, struct otl_error *err)
{
    unsigned seen_line[N_ROWS] = {0};
    FILE *f = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    unsigned number = 0;
    enum otl_err rc = OTL_OK;
    ssize_t n;

    if (f == NULL)
        return otl_fail(err, errno == ENOENT ? OTL_ENOTFOUND : OTL_ESYSTEM,
                        "the configuration file %.256s cannot be opened: %s", path,
                        strerror(errno));
    errno = 0;
    while (rc == OTL_OK && (n = getline(&line, &room, f)) >= 0)
        rc = file_line(c, line, (size_t)n, path, ++number, seen_line, err);
    if (rc == OTL_OK && !feof(f))
        rc = otl_fail(err, OTL_ESYSTEM, "the configuration file %.256s cannot be read: %s", path,
                      strerror(errno));
    free(line);
    if (fclose(f) != 0 && rc == OTL_OK)
        rc = otl_fail(err, OTL_ESYSTEM, "the configuration file %.256s cannot be closed: %s", path,
                      strerror(errno));
    return rc;
}
