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

/* ---- metrics ---- */

static bool is_ratio(struct bytes unit, enum metric_type type)
{
    return type == METRIC_GAUGE && bytes_equal(trimmed(unit), bytes_str("1"));
}

static bool escaped_with_suffixes(struct buf *out, struct bytes name, struct bytes unit,
                                  enum metric_type type, bool is_monotonic)
{
    bool total = type == METRIC_SUM && is_monotonic, ratio = is_ratio(unit, type);
    struct buf main = {0}, per = {0}, suffix = {0};
    size_t start = out->n, at = 0;
    struct bytes token;

    if (!next_token(name, &at, &token))
        return false;
    at = 0;
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
    return true;
}

/* Runs of characters that a name cannot have become one underscore, within the name only;
 * underscores stay as they are. */
static bool escaped_without_suffixes(struct buf *out, struct bytes name)
{
    size_t start = out->n;
    bool gap = false, any = false;

    for (size_t i = 0; i < name.n; i++) {
        uint8_t c = name.p[i];

        if (!is_name_char(c) && c != '_') {
            gap = out->n > start;
            continue;
        }
        if (gap)
            buf_add_char(out, '_');
        else if (out->n == start && c >= '0' && c <= '9')
            buf_add_char(out, '_');
        gap = false;
        any = any || c != '_';
        buf_add_char(out, (char)c);
    }
    if (!any && !bytes_equal(bytes_of(out->p + start, out->n - start), name)) {
        out->n = start;
        return false;
    }
    return out->n > start;
}

/* Without an ending and the one character before it. */
static struct bytes without_ending(struct bytes name, struct bytes ending)
{
    if (name.n > ending.n + 1 && memcmp(name.p + name.n - ending.n, ending.p, ending.n) == 0)
        name.n -= ending.n + 1;
    return name;
}

/* As it stands, but nothing for a unit in braces. */
static struct bytes raw_unit(struct bytes side, const struct word *table, size_t n)
{
    side = trimmed(side);
    if (has_brace(side))
        return bytes_of(NULL, 0);
    for (size_t i = 0; i < n; i++) {
        if (bytes_equal(side, bytes_str(table[i].unit)))
            return bytes_str(table[i].word);
    }
    return side;
}

static void utf8_with_suffixes(struct buf *out, struct bytes name, struct bytes unit,
                               enum metric_type type, bool is_monotonic)
{
    bool total = type == METRIC_SUM && is_monotonic, ratio = is_ratio(unit, type);
    const uint8_t *slash = unit.n == 0 ? NULL : memchr(unit.p, '/', unit.n);
    size_t n = slash == NULL ? unit.n : (size_t)(slash - unit.p);
    struct bytes main = raw_unit(bytes_of(unit.p, n), units, sizeof(units) / sizeof(units[0]));
    struct bytes per = {0};
    struct buf suffix = {0};

    if (slash != NULL)
        per = raw_unit(bytes_of(slash + 1, unit.n - n - 1), per_units,
                       sizeof(per_units) / sizeof(per_units[0]));
    if (per.n > 0) {
        buf_add_str(&suffix, "per_");
        buf_add_bytes(&suffix, per);
    }
    if (ratio)
        name = without_ending(name, bytes_str("ratio"));
    if (total)
        name = without_ending(name, bytes_str("total"));
    if (suffix.n > 0)
        name = without_ending(name, buf_bytes(&suffix));
    buf_add_bytes(out, name);
    if (main.n > 0 && (name.n < main.n || memcmp(name.p + name.n - main.n, main.p, main.n) != 0)) {
        buf_add_char(out, '_');
        buf_add_bytes(out, main);
    }
    if (suffix.n > 0) {
        buf_add_char(out, '_');
        buf_add_bytes(out, buf_bytes(&suffix));
    }
    if (total)
        buf_add_str(out, "_total");
    if (ratio)
        buf_add_str(out, "_ratio");
    out->failed = out->failed || suffix.failed;
    buf_fini(&suffix);
}

bool prom_metric_name(struct buf *out, enum name_strategy strategy, struct bytes name,
                      struct bytes unit, enum metric_type type, bool is_monotonic)
{
    if (name.n == 0)
        return false;
    switch (strategy) {
    case NAMES_UNDERSCORES_WITHOUT_SUFFIXES:
        return escaped_without_suffixes(out, name);
    case NAMES_UTF8_WITH_SUFFIXES:
        utf8_with_suffixes(out, name, unit, type, is_monotonic);
        return true;
    case NAMES_UNTRANSLATED:
        buf_add_bytes(out, name);
        return true;
    case NAMES_UNDERSCORES_WITH_SUFFIXES:
    case NAME_STRATEGIES:
        break;
    }
    return escaped_with_suffixes(out, name, unit, type, is_monotonic);
}

/* ---- labels ---- */

bool prom_label_name(struct buf *out, enum name_strategy strategy, struct bytes key)
{
    size_t start = out->n, second = 1;
    bool any = false;

    while (second < key.n && (key.p[second] & 0xc0) == 0x80)
        second++;
    if (strategy == NAMES_UTF8_WITH_SUFFIXES || strategy == NAMES_UNTRANSLATED) {
        buf_add_bytes(out, key);
        return key.n > 0;
    }
    for (size_t i = 0; i < key.n; i++) {
        bool fits = is_letter_or_digit(key.p[i]);

        /* A character of several bytes becomes one underscore. */
        if ((key.p[i] & 0xc0) == 0x80 && i > 0)
            continue;
        any = any || fits;
        if (i == 0 && key.p[0] >= '0' && key.p[0] <= '9')
            buf_add_str(out, "key_");
        else if (i == 0 && !fits && (second >= key.n || is_letter_or_digit(key.p[second])))
            buf_add_str(out, "key");
        buf_add_char(out, fits ? (char)key.p[i] : '_');
    }
    if (!any)
        out->n = start;
    return any;
}
