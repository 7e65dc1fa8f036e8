#include "otlite/prom_names.h"

struct word {
    const char *unit, *word;
};

/* kBy and its kin stay as they are: Prometheus looks for KBy, which is no unit. */
static const struct word units[] = {
    {"d", "days"},
    {"h", "hours"},
    {"min", "minutes"},
    {"s", "seconds"},
    {"ms", "milliseconds"},
    {"us", "microseconds"},
    {"ns", "nanoseconds"},
    {"By", "bytes"},
    {"KiBy", "kibibytes"},
    {"MiBy", "mebibytes"},
    {"GiBy", "gibibytes"},
    {"TiBy", "tibibytes"},
    {"KBy", "kilobytes"},
    {"MBy", "megabytes"},
    {"GBy", "gigabytes"},
    {"TBy", "terabytes"},
    {"m", "meters"},
    {"V", "volts"},
    {"A", "amperes"},
    {"J", "joules"},
    {"W", "watts"},
    {"g", "grams"},
    {"Cel", "celsius"},
    {"Hz", "hertz"},
    {"1", ""},
    {"%", "percent"},
};

static const struct word per_units[] = {
    {"s", "second"}, {"m", "minute"}, {"h", "hour"}, {"d", "day"},
    {"w", "week"},   {"mo", "month"}, {"y", "year"},
};

static bool is_letter_or_digit(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_name_char(uint8_t c)
{
    return is_letter_or_digit(c) || c == ':';
}

static struct bytes trimmed(struct bytes b)
{
    while (b.n > 0 && (b.p[0] == ' ' || b.p[0] == '\t'))
        b = bytes_of(b.p + 1, b.n - 1);
    while (b.n > 0 && (b.p[b.n - 1] == ' ' || b.p[b.n - 1] == '\t'))
        b.n--;
    return b;
}

static bool has_brace(struct bytes b)
{
    return b.n > 0 && (memchr(b.p, '{', b.n) != NULL || memchr(b.p, '}', b.n) != NULL);
}

/* One side of a unit as a word: by the table, or as it stands with runs of other characters as one
 * _. */
static void add_unit_word(struct buf *out, struct bytes side, const struct word *table, size_t n)
{
    bool gap = false;
    size_t start = out->n;

    side = trimmed(side);
    if (has_brace(side))
        return;
    for (size_t i = 0; i < n; i++) {
        if (bytes_equal(side, bytes_str(table[i].unit))) {
            buf_add_str(out, table[i].word);
            return;
        }
    }
    for (size_t i = 0; i < side.n; i++) {
        if (!is_name_char(side.p[i])) {
            gap = out->n > start;
            continue;
        }
        if (gap)
            buf_add_char(out, '_');
        gap = false;
        buf_add_char(out, (char)side.p[i]);
    }
}

/* main: the word before "/", per: the one after it. */
static void unit_words(struct bytes unit, struct buf *main, struct buf *per)
{
    const uint8_t *slash = unit.n == 0 ? NULL : memchr(unit.p, '/', unit.n);
    size_t n = slash == NULL ? unit.n : (size_t)(slash - unit.p);

    add_unit_word(main, bytes_of(unit.p, n), units, sizeof(units) / sizeof(units[0]));
    if (slash != NULL)
        add_unit_word(per, bytes_of(slash + 1, unit.n - n - 1), per_units,
                      sizeof(per_units) / sizeof(per_units[0]));
}

static void add_per(struct buf *out, const struct buf *per)
{
    if (per->n == 0)
        return;
    if (out->n > 0)
        buf_add_char(out, '_');
    buf_add_str(out, "per_");
    buf_add_bytes(out, buf_bytes(per));
}

void prom_unit(struct buf *out, struct bytes unit)
{
    struct buf main = {0}, per = {0};

    unit_words(unit, &main, &per);
    add_per(&main, &per);
    buf_add_bytes(out, buf_bytes(&main));
    out->failed = out->failed || main.failed || per.failed;
    buf_fini(&main);
    buf_fini(&per);
}

/* The next run of name characters from *at on; false at the end. */
static bool next_token(struct bytes name, size_t *at, struct bytes *token)
{
    size_t i = *at, start;

    while (i < name.n && !is_name_char(name.p[i]))
        i++;
    start = i;
    while (i < name.n && is_name_char(name.p[i]))
        i++;
    *token = bytes_of(name.p + start, i - start);
    *at = i;
    return i > start;
}

static bool has_token(struct bytes name, struct bytes token)
{
    struct bytes t;
    size_t at = 0;

    while (next_token(name, &at, &t)) {
        if (bytes_equal(t, token))
            return true;
    }
    return false;
}

static void add_token(struct buf *out, size_t start, struct bytes token)
{
    if (token.n == 0)
        return;
    if (out->n > start)
        buf_add_char(out, '_');
    else if (token.p[0] >= '0' && token.p[0] <= '9')
        buf_add_char(out, '_');
    buf_add_bytes(out, token);
}

bool prom_metric_name(struct buf *out, struct bytes name, struct bytes unit, enum metric_type type,
                      bool is_monotonic)
{
    bool total = type == METRIC_SUM && is_monotonic;
    bool ratio = type == METRIC_GAUGE && bytes_equal(trimmed(unit), bytes_str("1"));
    struct buf main = {0}, per = {0}, suffix = {0};
    size_t start = out->n, at = 0;
    struct bytes token;

    while (next_token(name, &at, &token)) {
        if ((total && bytes_equal(token, bytes_str("total"))) ||
            (ratio && bytes_equal(token, bytes_str("ratio"))))
            continue;
        add_token(out, start, token);
    }
    unit_words(unit, &main, &per);
    if (main.n > 0 && !has_token(name, buf_bytes(&main)))
        add_token(out, start, buf_bytes(&main));
    add_per(&suffix, &per);
    add_token(out, start, buf_bytes(&suffix));
    if (total)
        add_token(out, start, bytes_str("total"));
    if (ratio)
        add_token(out, start, bytes_str("ratio"));
    out->failed = out->failed || main.failed || per.failed || suffix.failed;
    buf_fini(&main);
    buf_fini(&per);
    buf_fini(&suffix);
    at = 0;
    if (!next_token(name, &at, &token)) {
        out->n = start;
        return false;
    }
    return true;
}

bool prom_label_name(struct buf *out, struct bytes key)
{
    bool any = false;

    for (size_t i = 0; i < key.n; i++)
        any = any || is_letter_or_digit(key.p[i]);
    if (!any)
        return false;
    if (key.p[0] >= '0' && key.p[0] <= '9')
        buf_add_str(out, "key_");
    else if (!is_letter_or_digit(key.p[0]) && (key.n < 2 || key.p[0] != '_' || key.p[1] != '_'))
        buf_add_str(out, "key");
    for (size_t i = 0; i < key.n; i++) {
        /* A character of several bytes becomes one underscore. */
        if ((key.p[i] & 0xc0) == 0x80 && i > 0)
            continue;
        buf_add_char(out, is_letter_or_digit(key.p[i]) ? (char)key.p[i] : '_');
    }
    return true;
}
