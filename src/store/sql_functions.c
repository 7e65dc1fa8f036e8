/* sql_functions.c -- small functions for people's SQL: label, to_time, histogram_quantile. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "otlite/bytes.h"
#include "sql_internal.h"

/* ---- a walk over JSON text, as json_valid would take it ---- */

struct json {
    const char *p, *end;
};

static void skip_space(struct json *j)
{
    while (j->p < j->end && (*j->p == ' ' || *j->p == '\t' || *j->p == '\n' || *j->p == '\r'))
        j->p++;
}

static bool take(struct json *j, char c)
{
    skip_space(j);
    if (j->p == j->end || *j->p != c)
        return false;
    j->p++;
    return true;
}

/* The literal of a string, quotes included. */
static bool take_string(struct json *j, struct bytes *out)
{
    const char *begin;

    skip_space(j);
    begin = j->p;
    if (!take(j, '"'))
        return false;
    while (j->p < j->end && *j->p != '"')
        j->p += *j->p == '\\' && j->p + 1 < j->end ? 2 : 1;
    if (j->p >= j->end)
        return false;
    j->p++;
    *out = bytes_of(begin, (size_t)(j->p - begin));
    return true;
}

/* Any value, its text. Depth is counted, not recursed into. */
static bool take_value(struct json *j, struct bytes *out)
{
    const char *begin;
    size_t depth = 0;
    struct bytes string;

    skip_space(j);
    begin = j->p;
    do {
        skip_space(j);
        if (j->p == j->end)
            return false;
        if (*j->p == '"') {
            if (!take_string(j, &string))
                return false;
        } else if (*j->p == '{' || *j->p == '[') {
            depth++;
            j->p++;
        } else if (*j->p == '}' || *j->p == ']') {
            if (depth == 0)
                return false;
            depth--;
            j->p++;
        } else if (depth > 0 && (*j->p == ',' || *j->p == ':')) {
            j->p++;
        } else {
            const char *word = j->p;

            while (j->p < j->end && strchr(",:]} \t\r\n", *j->p) == NULL)
                j->p++;
            if (j->p == word)
                return false;
        }
    } while (depth > 0);
    *out = bytes_of(begin, (size_t)(j->p - begin));
    return true;
}

static int hex4(const char *p)
{
    uint8_t b[2];

    return hex_decode(bytes_of(p, 4), b) ? b[0] << 8 | b[1] : -1;
}

static void add_utf8(struct buf *out, uint32_t c)
{
    if (c < 0x80) {
        buf_add_char(out, (char)c);
    } else if (c < 0x800) {
        buf_add_char(out, (char)(0xc0 | c >> 6));
        buf_add_char(out, (char)(0x80 | (c & 0x3f)));
    } else if (c < 0x10000) {
        buf_add_char(out, (char)(0xe0 | c >> 12));
        buf_add_char(out, (char)(0x80 | (c >> 6 & 0x3f)));
        buf_add_char(out, (char)(0x80 | (c & 0x3f)));
    } else {
        buf_add_char(out, (char)(0xf0 | c >> 18));
        buf_add_char(out, (char)(0x80 | (c >> 12 & 0x3f)));
        buf_add_char(out, (char)(0x80 | (c >> 6 & 0x3f)));
        buf_add_char(out, (char)(0x80 | (c & 0x3f)));
    }
}

/* The content of a string's literal. */
static void unescape(struct bytes literal, struct buf *out)
{
    const char *p = (const char *)literal.p + 1, *end = (const char *)literal.p + literal.n - 1;
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";

    while (p < end) {
        const char *known;
        int u, low;

        if (*p != '\\' || p + 1 >= end) {
            buf_add_char(out, *p++);
            continue;
        }
        p++;
        if (*p == 'u' && end - p >= 5 && (u = hex4(p + 1)) >= 0) {
            uint32_t c = (uint32_t)u;

            p += 5;
            if (c >= 0xd800 && c < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u' &&
                (low = hex4(p + 2)) >= 0xdc00 && low < 0xe000) {
                c = 0x10000 + ((c - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
                p += 6;
            } else if (c >= 0xd800 && c < 0xe000) {
                c = 0xfffd;
            }
            add_utf8(out, c);
            continue;
        }
        known = strchr(from, *p);
        buf_add_char(out, known != NULL && *p != '\0' ? to[known - from] : *p);
        p++;
    }
}

static void result_buf(sqlite3_context *ctx, struct buf *b)
{
    if (b->failed)
        sqlite3_result_error_nomem(ctx);
    else
        sqlite3_result_text64(ctx, buf_cstr(b), b->n, SQLITE_TRANSIENT, SQLITE_UTF8);
    buf_fini(b);
}

/* As json_extract would give it. */
static void result_json(sqlite3_context *ctx, struct bytes value)
{
    const char *p = (const char *)value.p;
    char number[400], *end;
    struct buf b = {0};

    switch (*p) {
    case '"':
        unescape(value, &b);
        result_buf(ctx, &b);
        return;
    case '{':
    case '[':
        sqlite3_result_text64(ctx, p, value.n, SQLITE_TRANSIENT, SQLITE_UTF8);
        return;
    case 't':
        sqlite3_result_int(ctx, 1);
        return;
    case 'f':
        sqlite3_result_int(ctx, 0);
        return;
    default:
        break;
    }
    if (*p == 'n' || value.n >= sizeof(number))
        return; /* null */
    memcpy(number, p, value.n);
    number[value.n] = '\0';
    if (strpbrk(number, ".eE") == NULL) {
        long long i = strtoll(number, &end, 10);

        /* A number that is no int64 becomes a double. */
        if (*end == '\0' && (i != LLONG_MAX || strcmp(number, "9223372036854775807") == 0) &&
            (i != LLONG_MIN || strcmp(number, "-9223372036854775808") == 0)) {
            sqlite3_result_int64(ctx, i);
            return;
        }
    }
    sqlite3_result_double(ctx, strtod(number, NULL));
}

static struct json json_of(sqlite3_value *v)
{
    const char *text = (const char *)sqlite3_value_text(v);
    int n = sqlite3_value_bytes(v);

    return text == NULL ? (struct json){"", ""} : (struct json){text, text + n};
}

/* label(attributes, key): NULL when the key is absent or attributes is no object. */
static void fn_label(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    struct json j = json_of(argv[0]), want = json_of(argv[1]);
    struct bytes key = bytes_of(want.p, (size_t)(want.end - want.p)), name, value;
    struct buf plain = {0};
    bool more;

    (void)argc;
    for (more = take(&j, '{'); more; more = take(&j, ',')) {
        if (!take_string(&j, &name) || !take(&j, ':') || !take_value(&j, &value))
            break;
        buf_reset(&plain);
        unescape(name, &plain);
        if (bytes_equal(buf_bytes(&plain), key)) {
            result_json(ctx, value);
            break;
        }
    }
    if (plain.failed)
        sqlite3_result_error_nomem(ctx);
    buf_fini(&plain);
}

/* to_time(ns): text in UTC with as many digits of the second as there are, in threes. */
static void fn_to_time(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    int64_t ns, s, rest;
    struct tm tm;
    time_t t;
    char text[64];
    int n;

    (void)argc;
    if (sqlite3_value_numeric_type(argv[0]) != SQLITE_INTEGER)
        return; /* NULL */
    ns = sqlite3_value_int64(argv[0]);
    s = ns / 1000000000 - (ns % 1000000000 < 0);
    rest = ns - s * 1000000000;
    t = (time_t)s;
    if (gmtime_r(&t, &tm) == NULL)
        return;
    n = (int)strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
    if (rest % 1000000 == 0 && rest != 0)
        n += snprintf(text + n, sizeof(text) - (size_t)n, ".%03d", (int)(rest / 1000000));
    else if (rest % 1000 == 0 && rest != 0)
        n += snprintf(text + n, sizeof(text) - (size_t)n, ".%06d", (int)(rest / 1000));
    else if (rest != 0)
        n += snprintf(text + n, sizeof(text) - (size_t)n, ".%09d", (int)rest);
    sqlite3_result_text(ctx, text, n, SQLITE_TRANSIENT);
}

/* The numbers of a JSON array; false: it is none, or holds something else. */
static bool numbers(sqlite3_value *v, double **out, size_t *n)
{
    struct json j = json_of(v);
    size_t room = (size_t)(j.end - j.p) / 2 + 1;
    struct bytes value;
    double *d = malloc(room * sizeof(*d));
    bool more;

    *n = 0;
    *out = d;
    if (d == NULL || !take(&j, '['))
        return false;
    if (take(&j, ']'))
        return true;
    for (more = true; more; more = take(&j, ',')) {
        char text[64], *end;

        if (!take_value(&j, &value) || value.n >= sizeof(text) || *n == room)
            return false;
        memcpy(text, value.p, value.n);
        text[value.n] = '\0';
        d[*n] = strtod(text, &end);
        if (end == text || *end != '\0' || isnan(d[*n]))
            return false;
        ++*n;
    }
    return take(&j, ']');
}

/* The value below which a share q of the measurements lies, taken as evenly spread within a bucket;
 * at the ends, where a bucket has no other bound, the bound. false: there are no measurements. */
static bool quantile(double q, const double *bounds, const double *counts, size_t n_counts,
                     double *out)
{
    double total = 0, rank, up_to = 0, low, high;
    size_t i;

    for (i = 0; i < n_counts; i++)
        total += counts[i];
    if (!(total > 0) || n_counts < 2)
        return false;
    rank = q * total;
    for (i = 0; i + 1 < n_counts; i++) {
        if (counts[i] > 0 && up_to + counts[i] >= rank)
            break;
        up_to += counts[i];
    }
    if (i + 1 == n_counts) {
        *out = bounds[i - 1];
        return true;
    }
    high = bounds[i];
    low = i > 0 ? bounds[i - 1] : high > 0 ? 0 : high;
    *out = low + (high - low) * (rank - up_to) / counts[i];
    return true;
}

/* histogram_quantile(q, bounds, bucket_counts) */
static void fn_histogram_quantile(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    double *bounds = NULL, *counts = NULL, q = sqlite3_value_double(argv[0]), result;
    size_t n_bounds, n_counts;

    (void)argc;
    for (int i = 0; i < 3; i++) {
        if (sqlite3_value_type(argv[i]) == SQLITE_NULL)
            return;
    }
    if (!(q >= 0 && q <= 1)) {
        sqlite3_result_error(ctx, "histogram_quantile: the quantile must be from 0 to 1", -1);
        return;
    }
    if (!numbers(argv[1], &bounds, &n_bounds) || !numbers(argv[2], &counts, &n_counts) ||
        (n_counts != 0 && n_counts != n_bounds + 1))
        sqlite3_result_error(ctx,
                             "histogram_quantile(q, bounds, bucket_counts) takes JSON arrays of "
                             "numbers, one count more than there are bounds",
                             -1);
    else if (quantile(q, bounds, counts, n_counts, &result))
        sqlite3_result_double(ctx, result);
    free(bounds);
    free(counts);
}

int sql_functions_register(sqlite3 *sql)
{
    static const struct {
        const char *name;
        int n_args;
        void (*fn)(sqlite3_context *ctx, int argc, sqlite3_value **argv);
    } functions[] = {{"label", 2, fn_label},
                     {"to_time", 1, fn_to_time},
                     {"histogram_quantile", 3, fn_histogram_quantile}};
    int rc = SQLITE_OK;

    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]) && rc == SQLITE_OK; i++)
        rc = sqlite3_create_function_v2(sql, functions[i].name, functions[i].n_args,
                                        SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, NULL,
                                        functions[i].fn, NULL, NULL, NULL);
    return rc;
}
