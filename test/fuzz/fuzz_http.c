/* fuzz_http.c -- libFuzzer target: whatever bytes come, and in whatever pieces, the parsers of the
 * HTTP server find the same request in them, or refuse it, and stay inside of what they were given
 * (`make fuzz`).
 *
 * The first two bytes choose the size of the pieces. What follows is a head and, behind it, a
 * chunked body; bodies are also read from the first byte on, so that inputs need no head. */
#include <stdlib.h>
#include <string.h>

#include "http/chunked.h"
#include "http/head.h"

static void require(bool ok)
{
    if (!ok)
        abort();
}

/* In memory of its own, so that a read behind the end is seen. */
static char *copy_of(const uint8_t *p, size_t n)
{
    char *copy = malloc(n > 0 ? n : 1);

    require(copy != NULL);
    memcpy(copy, p, n);
    return copy;
}

static enum head_progress scan_in_pieces(const uint8_t *p, size_t n, size_t piece, size_t *first,
                                         size_t *end)
{
    struct head_scan scan = {0};
    enum head_progress progress = HEAD_MORE;

    for (size_t at = 0; at < n && progress == HEAD_MORE;) {
        char *copy;

        at = n - at < piece ? n : at + piece;
        copy = copy_of(p, at);
        progress = head_scan(&scan, copy, at, end);
        free(copy);
    }
    *first = scan.first;
    return progress;
}

/* What head.h promises of a head that was taken. */
static void check_head(const struct head *h, size_t n)
{
    require(h->has_line && h->method < n && h->path < n);
    require(h->text[h->path] == '/' || strcmp(h->text + h->path, "*") == 0);
    require(strpbrk(h->text + h->path, " ?#\r\n") == NULL);
    require(h->n_fields <= HEAD_MAX_FIELDS && h->minor <= 9);
    require(!(h->chunked && h->has_length) && !(h->chunked && h->minor == 0));
    require(h->minor == 0 || head_count(h, "host") == 1);
    require(head_count(h, "content-length") == (h->has_length ? 1u : 0u));
    require(head_count(h, "transfer-encoding") == (h->chunked ? 1u : 0u));
    for (unsigned i = 0; i < h->n_fields; i++) {
        const struct head_field *f = &h->fields[i];
        const char *name = h->text + f->name, *value = h->text + f->value;

        require(f->name + f->name_n < n && f->value + f->value_n < n);
        require(f->name_n > 0 && strlen(name) == f->name_n && strlen(value) == f->value_n);
        for (const char *p = name; *p != '\0'; p++)
            require(head_is_token((uint8_t)*p));
        require(value[strcspn(value, "\r\n")] == '\0');
        require(head_find(h, name) != NULL);
    }
}

/* Returns where the body begins, 0 when there is no head. */
static size_t check_scan_and_parse(const uint8_t *p, size_t n, size_t piece)
{
    size_t first = 0, end = 0, first_whole = 0, end_whole = 0;
    enum head_progress progress = scan_in_pieces(p, n, piece, &first, &end);
    const char *why = NULL;
    static struct head h;
    enum otl_err rc;
    char *copy;

    require(progress == scan_in_pieces(p, n, n, &first_whole, &end_whole));
    require(progress != HEAD_WHOLE || (first == first_whole && end == end_whole));
    if (progress == HEAD_WHOLE) {
        require(first < end && end <= n && end >= 4 && memcmp(p + end - 4, "\r\n\r\n", 4) == 0);
        p += first;
        n = end - first;
    }
    copy = copy_of(p, n);
    rc = head_parse(&h, copy, n, &why);
    require((rc == OTL_OK) == (why == NULL));
    require(rc == OTL_OK || rc == OTL_EBADREQUEST || rc == OTL_EHEAD || rc == OTL_ETE);
    if (rc == OTL_OK)
        check_head(&h, n);
    free(copy);
    return progress == HEAD_WHOLE ? end : 0;
}

struct body {
    enum chunked_progress progress;
    char *bytes;
    size_t n, used;
};

static struct body unchunk(const uint8_t *p, size_t n, size_t piece)
{
    struct body b = {CHUNKED_MORE, copy_of(p, n), 0, 0};
    struct chunked c = {0};

    while (b.used < n && b.progress == CHUNKED_MORE) {
        size_t take = n - b.used < piece ? n - b.used : piece, used, made;

        b.progress = chunked_read(&c, (uint8_t *)b.bytes + b.n, (uint8_t *)b.bytes + b.used, take,
                                  &used, &made);
        require(used <= take && made <= used && (used == take || b.progress != CHUNKED_MORE));
        b.n += made;
        b.used += used;
    }
    return b;
}

/* The plain reading of a body that was taken, as an oracle: sizes by strtoull, lines by CR LF. */
static void check_body(const struct body *b, const uint8_t *p)
{
    char *text = copy_of(p, b->used), *at = text, *end = text + b->used;
    size_t n = 0;

    for (;;) {
        char *line_end = memmem(at, (size_t)(end - at), "\r\n", 2);
        size_t size;

        require(line_end != NULL);
        *line_end = '\0';
        size = strtoull(at, NULL, 16);
        at = line_end + 2;
        if (size == 0)
            break;
        require(size <= (size_t)(end - at) && size <= b->n - n);
        require(memcmp(b->bytes + n, at, size) == 0);
        n += size;
        at += size;
        require(end - at >= 2 && memcmp(at, "\r\n", 2) == 0);
        at += 2;
    }
    require(n == b->n);
    require(end - at >= 2 && memcmp(end - 2, "\r\n", 2) == 0);
    free(text);
}

static void check_chunked(const uint8_t *p, size_t n, size_t piece)
{
    struct body b = unchunk(p, n, piece), whole = unchunk(p, n, n > 0 ? n : 1);

    require(b.progress == whole.progress && b.n == whole.n && b.used == whole.used);
    require(memcmp(b.bytes, whole.bytes, b.n) == 0);
    if (b.progress == CHUNKED_WHOLE)
        check_body(&b, p);
    free(b.bytes);
    free(whole.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    size_t piece, body;

    if (n < 2)
        return 0;
    piece = 1 + (size_t)(data[0] | data[1] << 8) % 1024;
    data += 2;
    n -= 2;
    /* Small pieces of long inputs are copied often: nothing new is found that way. */
    if (n / piece > 512)
        piece = n / 512;
    body = check_scan_and_parse(data, n, piece);
    check_chunked(data, n, piece);
    if (body > 0)
        check_chunked(data + body, n - body, piece);
    return 0;
}
