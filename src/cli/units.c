#include "cli/units.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Leading digits of *s as a number; moves *s behind them. */
static bool digits_take(const char **s, int64_t *out)
{
    int64_t v = 0;

    if (**s < '0' || **s > '9')
        return false;
    for (; **s >= '0' && **s <= '9'; (*s)++) {
        int digit = **s - '0';

        if (v > (INT64_MAX - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    *out = v;
    return true;
}

bool int_parse(const char *s, int64_t *out)
{
    bool negative = *s == '-';
    int64_t v;

    if (negative)
        s++;
    if (!digits_take(&s, &v) || *s != '\0')
        return false;
    *out = negative ? -v : v;
    return true;
}

static bool scale(int64_t v, int64_t factor, int64_t *out)
{
    if (v > INT64_MAX / factor)
        return false;
    *out = v * factor;
    return true;
}

bool size_parse(const char *s, int64_t *out)
{
    static const char suffixes[] = "KMGT";
    int64_t v, factor = 1;
    const char *hit;

    if (!digits_take(&s, &v))
        return false;
    if (*s != '\0') {
        hit = strchr(suffixes, toupper((unsigned char)*s));
        if (hit == NULL || s[1] != '\0')
            return false;
        factor = INT64_C(1) << (10 * (hit - suffixes + 1));
    }
    return scale(v, factor, out);
}

/* Largest first, for duration_text. */
static const struct {
    const char *suffix;
    int64_t ms;
} duration_units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};

enum { N_DURATION_UNITS = sizeof(duration_units) / sizeof(duration_units[0]) };

bool duration_parse(const char *s, int64_t *out_ms)
{
    int64_t v;

    if (!digits_take(&s, &v))
        return false;
    for (int i = 0; i < N_DURATION_UNITS; i++) {
        if (strcmp(s, duration_units[i].suffix) == 0)
            return scale(v, duration_units[i].ms, out_ms);
    }
    if (*s != '\0' || v != 0)
        return false;
    *out_ms = 0;
    return true;
}

void size_text(int64_t bytes, char out[UNITS_TEXT])
{
    static const char *const suffixes[] = {"", "K", "M", "G", "T"};
    size_t i = 0;

    while (bytes != 0 && bytes % 1024 == 0 && i + 1 < sizeof(suffixes) / sizeof(suffixes[0])) {
        bytes /= 1024;
        i++;
    }
    snprintf(out, UNITS_TEXT, "%" PRId64 "%s", bytes, suffixes[i]);
}

void duration_text(int64_t ms, char out[UNITS_TEXT])
{
    int i = 0;

    if (ms == 0) {
        snprintf(out, UNITS_TEXT, "0s");
        return;
    }
    while (i + 1 < N_DURATION_UNITS && ms % duration_units[i].ms != 0)
        i++;
    snprintf(out, UNITS_TEXT, "%" PRId64 "%s", ms / duration_units[i].ms, duration_units[i].suffix);
}

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;

    return m < c ? m : c;
}

size_t word_distance(const char *a, const char *b)
{
    enum { MAX = 63 };
    size_t row[MAX + 1];
    size_t n = strnlen(a, MAX), m = strnlen(b, MAX);

    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0]; /* the cell up and left */

        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t up = row[j];
            bool same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]);

            row[j] = min3(up + 1, row[j - 1] + 1, diagonal + (same ? 0 : 1));
            diagonal = up;
        }
    }
    return row[m];
}

void nearest_offer(struct nearest *n, const char *word, const char *candidate)
{
    size_t d = word_distance(word, candidate), tail_d;
    const char *dot = strrchr(candidate, '.');

    /* "durability" stands for sqlite.durability: what comes before the dot is easily forgotten. */
    if (dot != NULL) {
        tail_d = word_distance(word, dot + 1) + 1;
        d = tail_d < d ? tail_d : d;
    }
    if (n->best == NULL || d < n->distance) {
        n->best = candidate;
        n->distance = d;
    }
}
