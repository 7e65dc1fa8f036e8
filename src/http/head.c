#include "http/head.h"

#include <string.h>
#include <strings.h>

/* RFC 9110 5.6.2: what names of methods and fields are made of. */
static const bool is_token[256] = {
    ['!'] = true, ['#'] = true, ['$'] = true, ['%'] = true, ['&'] = true, ['\''] = true,
    ['*'] = true, ['+'] = true, ['-'] = true, ['.'] = true, ['^'] = true, ['_'] = true,
    ['`'] = true, ['|'] = true, ['~'] = true, ['0'] = true, ['1'] = true, ['2'] = true,
    ['3'] = true, ['4'] = true, ['5'] = true, ['6'] = true, ['7'] = true, ['8'] = true,
    ['9'] = true, ['A'] = true, ['B'] = true, ['C'] = true, ['D'] = true, ['E'] = true,
    ['F'] = true, ['G'] = true, ['H'] = true, ['I'] = true, ['J'] = true, ['K'] = true,
    ['L'] = true, ['M'] = true, ['N'] = true, ['O'] = true, ['P'] = true, ['Q'] = true,
    ['R'] = true, ['S'] = true, ['T'] = true, ['U'] = true, ['V'] = true, ['W'] = true,
    ['X'] = true, ['Y'] = true, ['Z'] = true, ['a'] = true, ['b'] = true, ['c'] = true,
    ['d'] = true, ['e'] = true, ['f'] = true, ['g'] = true, ['h'] = true, ['i'] = true,
    ['j'] = true, ['k'] = true, ['l'] = true, ['m'] = true, ['n'] = true, ['o'] = true,
    ['p'] = true, ['q'] = true, ['r'] = true, ['s'] = true, ['t'] = true, ['u'] = true,
    ['v'] = true, ['w'] = true, ['x'] = true, ['y'] = true, ['z'] = true,
};

bool head_is_token(uint8_t c)
{
    return is_token[c];
}

enum head_progress head_scan(struct head_scan *scan, const char *p, size_t n, size_t *end)
{
    while (scan->seen < n) {
        const char *from = p + scan->seen, *lf;
        size_t at;

        /* Bytes that begin like no request (TLS, say) are refused before a line of them is whole.
         */
        if (!scan->started && scan->seen == scan->line) {
            scan->started = *from != '\r' && *from != '\n';
            scan->first = scan->line;
            if (scan->started && !is_token[(unsigned char)*from])
                return HEAD_BROKEN;
        }
        lf = memchr(from, '\n', n - scan->seen);
        if (lf == NULL) {
            scan->seen = n;
            return HEAD_MORE;
        }
        at = (size_t)(lf - p);
        if (at == scan->line || p[at - 1] != '\r')
            return HEAD_BROKEN;
        scan->seen = at + 1;
        if (at - scan->line == 1 && scan->started) {
            *end = at + 1;
            return HEAD_WHOLE;
        }
        /* Of an empty line's CR more may have come than that. */
        if (!scan->started && at - scan->line != 1)
            return HEAD_BROKEN;
        scan->line = at + 1;
    }
    return HEAD_MORE;
}

/* The first fault counts; what follows is still read. */
static void fault(enum otl_err *rc, const char **why, enum otl_err code, const char *text)
{
    if (*rc != OTL_OK)
        return;
    *rc = code;
    *why = text;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* scheme "://" authority: what is left is the path, or nothing. */
static char *skip_authority(char *target)
{
    size_t n = strncasecmp(target, "http://", 7) == 0    ? 7
               : strncasecmp(target, "https://", 8) == 0 ? 8
                                                         : 0;

    return n == 0 ? NULL : target + n + strcspn(target + n, "/?#");
}

/* METHOD SP TARGET SP HTTP/1.x, each blank exactly one; line ends with NUL. */
static enum otl_err parse_request_line(struct head *h, char *line, const char **why)
{
    char *target = strchr(line, ' '), *version, *path, *query;
    enum otl_err rc = OTL_OK;
    static const char not_a_line[] =
        "the request line is not METHOD PATH HTTP/1.1: this port speaks HTTP/1.1 and 1.0 only";

    if (target == NULL || target == line || (version = strchr(target + 1, ' ')) == NULL) {
        *why = not_a_line;
        return OTL_EBADREQUEST;
    }
    *target++ = '\0';
    *version++ = '\0';
    for (const char *p = line; *p != '\0'; p++) {
        if (!is_token[(unsigned char)*p])
            fault(&rc, why, OTL_EBADREQUEST, not_a_line);
    }
    for (const char *p = target; *p != '\0'; p++) {
        if (*p <= ' ' || *p >= 0x7f)
            fault(&rc, why, OTL_EBADREQUEST, "the path holds a character that must be escaped");
    }
    if (strlen(version) != 8 || memcmp(version, "HTTP/1.", 7) != 0 || version[7] < '0' ||
        version[7] > '9')
        fault(&rc, why, OTL_EBADREQUEST, not_a_line);
    else
        h->minor = (unsigned)(version[7] - '0');
    path = target[0] == '/' || strcmp(target, "*") == 0 ? target : skip_authority(target);
    if (path == NULL) {
        fault(&rc, why, OTL_EBADREQUEST, "the path does not begin with /");
        return rc;
    }
    query = path + strcspn(path, "?#");
    if (*query == '?') {
        *query++ = '\0';
        query[strcspn(query, "#")] = '\0';
    } else {
        *query = '\0';
    }
    if (path[0] == '\0') { /* an absolute target without a path: its authority is not needed */
        path = target;
        memcpy(path, "/", 2);
    }
    h->method = (uint32_t)(line - h->text);
    h->path = (uint32_t)(path - h->text);
    h->query = (uint32_t)(query - h->text);
    h->has_line = true;
    return rc;
}

/* line[0..n) is one field without its CR LF; line[n] may be written to. */
static enum otl_err parse_field(struct head *h, char *line, size_t n, const char **why)
{
    struct head_field *f = &h->fields[h->n_fields];
    size_t name = 0, value, end = n;

    while (name < n && is_token[(unsigned char)line[name]])
        name++;
    if (name == 0 || name == n || line[name] != ':') {
        *why = n > 0 && is_blank(line[0])
                   ? "a header line is folded: send each on one line"
                   : "a header line is not NAME: VALUE, with the colon right behind the name";
        return OTL_EBADREQUEST;
    }
    for (value = name + 1; value < n && is_blank(line[value]); value++) {
    }
    while (end > value && is_blank(line[end - 1]))
        end--;
    for (size_t i = value; i < end; i++) {
        if (((unsigned char)line[i] < ' ' && line[i] != '\t') || line[i] == 0x7f) {
            *why = "a header's value holds a control character";
            return OTL_EBADREQUEST;
        }
    }
    if (h->n_fields == HEAD_MAX_FIELDS) {
        *why = "the request has more than 128 header lines";
        return OTL_EHEAD;
    }
    line[name] = '\0';
    line[end] = '\0';
    *f = (struct head_field){.name = (uint32_t)(line - h->text),
                             .value = (uint32_t)(line + value - h->text),
                             .name_n = (uint32_t)name,
                             .value_n = (uint32_t)(end - value)};
    h->n_fields++;
    return OTL_OK;
}

static uint64_t parse_length(const char *digits, bool *ok)
{
    uint64_t v = 0;

    *ok = *digits != '\0';
    for (; *digits != '\0' && *ok; digits++) {
        uint64_t d = (uint64_t)(unsigned char)*digits - '0';

        *ok = d <= 9;
        v = v > (UINT64_MAX - 9) / 10 ? UINT64_MAX : v * 10 + d;
    }
    return v;
}

bool head_next_item(const char **list, const char **item, size_t *n)
{
    const char *p = *list + strspn(*list, ", \t");

    *item = p;
    *n = strcspn(p, ",");
    *list = p + *n;
    while (*n > 0 && is_blank(p[*n - 1]))
        (*n)--;
    return *n > 0;
}

static bool item_is(const char *item, size_t n, const char *word)
{
    return strlen(word) == n && strncasecmp(item, word, n) == 0;
}

struct framing {
    unsigned lengths, codings, hosts;
    bool unknown_coding, wants_close, wants_keep;
};

static void note_connection(struct framing *f, const char *list)
{
    const char *item;
    size_t n;

    while (head_next_item(&list, &item, &n)) {
        f->wants_close = f->wants_close || item_is(item, n, "close");
        f->wants_keep = f->wants_keep || item_is(item, n, "keep-alive");
    }
}

/* What the fields say about the request itself. */
static enum otl_err read_framing(struct head *h, const char **why)
{
    struct framing f = {0};
    enum otl_err rc = OTL_OK;

    for (unsigned i = 0; i < h->n_fields; i++) {
        const char *value = h->text + h->fields[i].value, *name = h->text + h->fields[i].name;
        bool ok;

        switch (h->fields[i].name_n) {
        case 4:
            f.hosts += strcasecmp(name, "Host") == 0;
            break;
        case 6:
            if (strcasecmp(name, "Expect") == 0)
                h->expect = strcasecmp(value, "100-continue") == 0 && h->expect != EXPECT_OTHER
                                ? EXPECT_CONTINUE
                                : EXPECT_OTHER;
            break;
        case 10:
            if (strcasecmp(name, "Connection") == 0)
                note_connection(&f, value);
            break;
        case 14:
            if (strcasecmp(name, "Content-Length") != 0)
                break;
            f.lengths++;
            h->has_length = true;
            h->length = parse_length(value, &ok);
            if (!ok)
                fault(&rc, why, OTL_EBADREQUEST, "Content-Length is not a decimal number");
            break;
        case 17:
            if (strcasecmp(name, "Transfer-Encoding") != 0)
                break;
            f.codings++;
            h->chunked = strcasecmp(value, "chunked") == 0;
            f.unknown_coding = f.unknown_coding || !h->chunked;
            break;
        default:
            break;
        }
    }
    h->close = f.wants_close || (h->minor == 0 && !f.wants_keep);
    if (h->minor == 0 && h->expect == EXPECT_CONTINUE)
        h->expect = EXPECT_NOTHING; /* RFC 9110 10.1.1: 1.0 knows no 100 */
    if (f.unknown_coding)
        fault(&rc, why, OTL_ETE, "the only Transfer-Encoding served is chunked");
    if (f.lengths > 1 || f.codings > 1)
        fault(&rc, why, OTL_EBADREQUEST, "more than one Content-Length or Transfer-Encoding");
    if (f.lengths > 0 && f.codings > 0)
        fault(&rc, why, OTL_EBADREQUEST, "both Content-Length and Transfer-Encoding");
    if (f.codings > 0 && h->minor == 0)
        fault(&rc, why, OTL_EBADREQUEST, "HTTP/1.0 has no Transfer-Encoding");
    if (f.hosts > 1 || (f.hosts == 0 && h->minor > 0))
        fault(&rc, why, OTL_EBADREQUEST, "the request needs one Host header");
    return rc;
}

enum otl_err head_parse(struct head *h, char *text, size_t n, const char **why)
{
    enum otl_err rc = OTL_OK;
    const char *fault_text = NULL;
    char *line = text, *end = text + n, *lf;
    bool first = true;

    /* The table of fields need not be cleared. */
    memset(h, 0, offsetof(struct head, fields));
    h->text = text;
    for (; (lf = memchr(line, '\n', (size_t)(end - line))) != NULL; line = lf + 1) {
        size_t len = (size_t)(lf - line);
        enum otl_err e = OTL_OK;

        if (len > 0 && line[len - 1] == '\r')
            len--;
        else
            fault(&rc, why, OTL_EBADREQUEST, "a line of the head ends without CR");
        if (len == 0 && !first)
            break;
        if (memchr(line, '\0', len) != NULL) {
            fault(&rc, why, OTL_EBADREQUEST, "the head holds a NUL byte");
        } else if (first) {
            line[len] = '\0';
            e = parse_request_line(h, line, &fault_text);
        } else {
            e = parse_field(h, line, len, &fault_text);
        }
        first = false;
        if (e != OTL_OK)
            fault(&rc, why, e, fault_text);
    }
    if (!h->has_line)
        fault(&rc, why, OTL_EBADREQUEST, "the request line is missing");
    return rc != OTL_OK ? rc : read_framing(h, why);
}

const char *head_find(const struct head *h, const char *name)
{
    size_t n = strlen(name);

    for (unsigned i = 0; i < h->n_fields; i++) {
        const struct head_field *f = &h->fields[i];

        if (f->name_n == n && strncasecmp(h->text + f->name, name, n) == 0)
            return h->text + f->value;
    }
    return NULL;
}

unsigned head_count(const struct head *h, const char *name)
{
    size_t n = strlen(name);
    unsigned count = 0;

    for (unsigned i = 0; i < h->n_fields; i++) {
        const struct head_field *f = &h->fields[i];

        count += f->name_n == n && strncasecmp(h->text + f->name, name, n) == 0;
    }
    return count;
}
