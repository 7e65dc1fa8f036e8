#include "labels.h"

#include <stdlib.h>
#include <string.h>

struct bytes labels_get(struct labels l, struct bytes name)
{
    for (size_t i = 0; i < l.n; i++) {
        if (bytes_equal(l.l[i].name, name))
            return l.l[i].value;
    }
    return bytes_of(NULL, 0);
}

bool labels_equal(struct labels a, struct labels b)
{
    if (a.n != b.n)
        return false;
    for (size_t i = 0; i < a.n; i++) {
        if (!bytes_equal(a.l[i].name, b.l[i].name) || !bytes_equal(a.l[i].value, b.l[i].value))
            return false;
    }
    return true;
}

int labels_compare(struct labels a, struct labels b)
{
    for (size_t i = 0; i < a.n && i < b.n; i++) {
        int c = bytes_compare(a.l[i].name, b.l[i].name);

        if (c == 0)
            c = bytes_compare(a.l[i].value, b.l[i].value);
        if (c != 0)
            return c;
    }
    return (a.n > b.n) - (a.n < b.n);
}

uint64_t labels_hash(struct labels l)
{
    uint64_t h = l.n;

    for (size_t i = 0; i < l.n; i++)
        h = bytes_hash(l.l[i].value, bytes_hash(l.l[i].name, h));
    return h;
}

static bool is_identifier(struct bytes name)
{
    for (size_t i = 0; i < name.n; i++) {
        uint8_t c = name.p[i];

        if (!(c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              (i > 0 && c >= '0' && c <= '9')))
            return false;
    }
    return name.n > 0;
}

/* As Go's strconv.Quote. */
static void print_quoted(struct buf *out, struct bytes s)
{
    static const char escaped[] = "\a\b\f\n\r\t\v\"\\", as[] = "abfnrtv\"\\";

    buf_add_char(out, '"');
    for (size_t i = 0; i < s.n; i++) {
        const char c = (char)s.p[i];
        const char *at = c == '\0' ? NULL : strchr(escaped, c);

        if (at != NULL) {
            buf_add_char(out, '\\');
            buf_add_char(out, as[at - escaped]);
        } else if (s.p[i] < 0x20 || s.p[i] == 0x7f) {
            buf_printf(out, "\\x%02x", s.p[i]);
        } else {
            buf_add_char(out, c);
        }
    }
    buf_add_char(out, '"');
}

static void print_label(struct buf *out, struct label l)
{
    if (is_identifier(l.name))
        buf_add_bytes(out, l.name);
    else
        print_quoted(out, l.name);
    buf_add_char(out, '=');
    print_quoted(out, l.value);
}

void labels_print(struct buf *out, struct labels l)
{
    buf_add_char(out, '{');
    for (size_t i = 0; i < l.n; i++) {
        if (i > 0)
            buf_add_str(out, ", ");
        print_label(out, l.l[i]);
    }
    buf_add_char(out, '}');
}

static bool is_among(struct bytes name, const struct bytes *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes_equal(name, names[i]))
            return true;
    }
    return false;
}

/* Those that are among names, or those that are not. */
static bool filter(struct arena *a, struct labels l, const struct bytes *names, size_t n,
                   bool among, struct labels *out)
{
    struct label *kept;
    size_t m = 0;

    for (size_t i = 0; i < l.n; i++)
        m += is_among(l.l[i].name, names, n) == among;
    if (m == l.n) {
        *out = l;
        return true;
    }
    kept = arena_alloc(a, m * sizeof(*kept));
    if (kept == NULL)
        return false;
    m = 0;
    for (size_t i = 0; i < l.n; i++) {
        if (is_among(l.l[i].name, names, n) == among)
            kept[m++] = l.l[i];
    }
    *out = (struct labels){kept, m};
    return true;
}

bool labels_drop(struct arena *a, struct labels l, const struct bytes *names, size_t n,
                 struct labels *out)
{
    return filter(a, l, names, n, false, out);
}

bool labels_keep(struct arena *a, struct labels l, const struct bytes *names, size_t n,
                 struct labels *out)
{
    return filter(a, l, names, n, true, out);
}

bool labels_set(struct arena *a, struct labels l, struct bytes name, struct bytes value,
                struct labels *out)
{
    struct label *made = arena_alloc(a, (l.n + 1) * sizeof(*made));
    size_t n = 0, i = 0;

    if (made == NULL)
        return false;
    for (; i < l.n && bytes_compare(l.l[i].name, name) < 0; i++)
        made[n++] = l.l[i];
    if (value.n > 0)
        made[n++] = (struct label){name, value};
    if (i < l.n && bytes_equal(l.l[i].name, name))
        i++;
    for (; i < l.n; i++)
        made[n++] = l.l[i];
    *out = (struct labels){made, n};
    return true;
}

size_t labels_normalise(struct label *l, size_t n)
{
    size_t m = 0;

    /* Insertion keeps the order of equal names; there are a dozen labels, mostly sorted. */
    for (size_t i = 1; i < n; i++) {
        struct label x = l[i];
        size_t k = i;

        for (; k > 0 && bytes_compare(l[k - 1].name, x.name) > 0; k--)
            l[k] = l[k - 1];
        l[k] = x;
    }
    for (size_t i = 0; i < n; i++) {
        if (i + 1 < n && bytes_equal(l[i].name, l[i + 1].name))
            continue;
        if (l[i].value.n > 0)
            l[m++] = l[i];
    }
    return m;
}
