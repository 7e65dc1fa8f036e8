/* export_json.c -- columns of telemetry.db as members of OTLP/JSON objects. */
#include <inttypes.h>
#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "export_json.h"
#include "otlite/attrs.h"

int64_t column_int(sqlite3_stmt *st, int col)
{
    return sqlite3_column_int64(st, col);
}

void json_add_int(struct buf *b, const char *key, int64_t v)
{
    buf_printf(b, ",\"%s\":\"%" PRId64 "\"", key, v);
}

void json_add_double(struct buf *b, double d)
{
    if (isnan(d))
        buf_add_str(b, "\"NaN\"");
    else if (isinf(d))
        buf_add_str(b, d > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    else
        buf_add_double(b, d);
}

struct bytes column_bytes(sqlite3_stmt *st, int col)
{
    const void *p = sqlite3_column_blob(st, col); /* before bytes(): it may convert */
    int n = sqlite3_column_bytes(st, col);

    return p == NULL || n <= 0 ? (struct bytes){NULL, 0} : bytes_of(p, (size_t)n);
}

static bool attributes_are_empty(struct bytes canonical)
{
    return canonical.n == 1 && canonical.p[0] == 0;
}

enum otl_err json_add_attributes(struct buf *b, const char *key, struct bytes canonical,
                                 const char *table, int64_t id, struct otl_error *err)
{
    if (attributes_are_empty(canonical))
        return OTL_OK;
    if (!attrs_valid(canonical))
        return otl_fail(err, OTL_ECORRUPT,
                        "the attributes of %s %" PRId64 " are damaged; run PRAGMA integrity_check "
                        "and restore from a backup",
                        table, id);
    buf_printf(b, ",\"%s\":", key);
    attrs_to_otlp_json(canonical, b);
    return OTL_OK;
}

/* Walk "[a,b,...]": *item is set to each element's text; false at the end. *at starts as 0 and
 * is SIZE_MAX once the text turned out malformed. Elements hold no brackets, commas or blanks. */
static bool next_number(struct bytes text, size_t *at, struct bytes *item)
{
    size_t i = *at, start;

    if (i == SIZE_MAX)
        return false;
    if (text.n < 2 || text.p[0] != '[' || text.p[text.n - 1] != ']') {
        *at = SIZE_MAX;
        return false;
    }
    if (i == text.n || text.n == 2)
        return false;
    start = ++i; /* behind the bracket or the comma */
    while (i < text.n && text.p[i] != ',' && text.p[i] != ']')
        i++;
    if (i == start || i == text.n || (text.p[i] == ']') != (i + 1 == text.n)) {
        *at = SIZE_MAX;
        return false;
    }
    *item = bytes_of(text.p + start, i - start);
    *at = text.p[i] == ']' ? text.n : i;
    return true;
}

static bool parse_double(struct bytes text, double *out)
{
    char s[64];
    char *end;

    if (text.n == 0 || text.n >= sizeof(s) || strchr("+-.0123456789", text.p[0]) == NULL)
        return false;
    memcpy(s, text.p, text.n);
    s[text.n] = '\0';
    *out = strtod(s, &end); /* 9e999 gives infinity, which is meant */
    return end == s + text.n;
}

bool json_add_bounds(struct buf *b, struct bytes text)
{
    struct bytes item;
    size_t at = 0;
    char lead = '[';

    while (next_number(text, &at, &item)) {
        double d;

        if (!parse_double(item, &d))
            return false;
        buf_add_char(b, lead);
        json_add_double(b, d);
        lead = ',';
    }
    if (lead == '[')
        buf_add_char(b, '[');
    buf_add_char(b, ']');
    return at != SIZE_MAX;
}
