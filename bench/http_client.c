#include "http_client.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { READ_SIZE = 16384, MAX_HEAD = 65536 };

/* An answer larger than this is taken as a fault of the server. */
#define MAX_ANSWER ((size_t)1 << 30)

enum otl_err http_url_parse(const char *text, struct http_url *out, struct otl_error *err)
{
    static const char scheme[] = "http://";
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char name[256];
    const char *authority, *port = "80";
    char *end;
    size_t n;
    int rc;

    memset(out, 0, sizeof(*out));
    if (strncmp(text, scheme, sizeof(scheme) - 1) != 0)
        return otl_fail(err, OTL_ECONFIG, "--url must start with http://, got '%s'", text);
    authority = text + sizeof(scheme) - 1;
    n = strcspn(authority, "/?#");
    if (n == 0 || n >= sizeof(out->host) || strlen(authority + n) >= sizeof(out->path) - 1)
        return otl_fail(err, OTL_ECONFIG, "--url has no host or is too long: '%s'", text);
    memcpy(out->host, authority, n);
    memcpy(name, out->host, sizeof(name));
    snprintf(out->path, sizeof(out->path), "%s%s", authority[n] == '/' ? "" : "/", authority + n);

    if (name[0] == '[') { /* IPv6 literal */
        end = strchr(name, ']');
        if (end == NULL || (end[1] != '\0' && end[1] != ':'))
            return otl_fail(err, OTL_ECONFIG, "--url has a malformed IPv6 address: '%s'", text);
        if (end[1] == ':')
            port = end + 2;
        *end = '\0';
        memmove(name, name + 1, strlen(name + 1) + 1);
    } else {
        end = strchr(name, ':');
        if (end != NULL) {
            *end = '\0';
            port = end + 1;
        }
    }
    rc = getaddrinfo(name, port, &hints, &found);
    if (rc != 0)
        return otl_fail(err, OTL_ECONFIG, "--url: cannot resolve '%s' port '%s': %s", name, port,
                        gai_strerror(rc));
    for (const struct addrinfo *a = found; a != NULL; a = a->ai_next) {
        struct http_address *to = &out->addresses[out->n_addresses];

        if (out->n_addresses == HTTP_MAX_ADDRESSES || a->ai_addrlen > sizeof(to->address))
            break;
        memcpy(&to->address, a->ai_addr, a->ai_addrlen);
        to->n = a->ai_addrlen;
        out->n_addresses++;
    }
    freeaddrinfo(found);
    out->address = out->addresses[0].address;
    out->address_n = out->addresses[0].n;
    return OTL_OK;
}

void http_client_init(struct http_client *c)
{
    memset(c, 0, sizeof(*c));
    c->fd = -1;
}

bool http_client_open(struct http_client *c, const struct http_url *url)
{
    int on = 1;
    int fd = socket(url->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return false;
    /* Without it the last part of a request may wait for an acknowledgement; it fails on nothing
     * but sockets that are not TCP. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(fd, (const struct sockaddr *)&url->address, url->address_n) != 0 &&
        errno != EINPROGRESS) {
        close(fd);
        return false;
    }
    c->fd = fd;
    c->request = (struct bytes){NULL, 0};
    buf_reset(&c->in);
    return true;
}

void http_client_close(struct http_client *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

void http_client_fini(struct http_client *c)
{
    http_client_close(c);
    buf_fini(&c->in);
}

void http_client_request(struct http_client *c, struct bytes request)
{
    c->request = request;
    buf_reset(&c->in);
    c->status = 0;
    c->close_after = false;
    c->body = (struct bytes){NULL, 0};
}

enum http_progress http_client_write(struct http_client *c)
{
    while (c->request.n > 0) {
        ssize_t n = send(c->fd, c->request.p, c->request.n, MSG_NOSIGNAL);

        if (n < 0) {
            if (errno == EINTR)
                continue;
            return errno == EAGAIN ? HTTP_AGAIN : HTTP_LOST;
        }
        c->request.p += n;
        c->request.n -= (size_t)n;
    }
    return HTTP_DONE;
}

/* The value of a header in the head [p, p + n), NULL when absent; *out_n is its length. */
static const char *find_header(const char *p, size_t n, const char *name, size_t *out_n)
{
    size_t name_n = strlen(name);
    const char *end = p + n;

    while (p < end) {
        const char *eol = memchr(p, '\n', (size_t)(end - p));
        size_t line = eol == NULL ? (size_t)(end - p) : (size_t)(eol - p);

        if (line > name_n && p[name_n] == ':' && strncasecmp(p, name, name_n) == 0) {
            const char *v = p + name_n + 1, *v_end = p + line;

            while (v < v_end && (*v == ' ' || *v == '\t'))
                v++;
            while (v_end > v && (v_end[-1] == '\r' || v_end[-1] == ' '))
                v_end--;
            *out_n = (size_t)(v_end - v);
            return v;
        }
        p += line + 1;
    }
    return NULL;
}

/* Digits of base 10 or 16 at the start of [p, p + n); false when none or too large. */
static bool parse_size(const char *p, size_t n, unsigned base, size_t *out)
{
    size_t v = 0, i;

    for (i = 0; i < n; i++) {
        unsigned digit;

        if (p[i] >= '0' && p[i] <= '9')
            digit = (unsigned)(p[i] - '0');
        else if (base == 16 && (p[i] | 0x20) >= 'a' && (p[i] | 0x20) <= 'f')
            digit = (unsigned)((p[i] | 0x20) - 'a') + 10U;
        else
            break;
        v = v * base + digit;
        if (v > MAX_ANSWER)
            return false;
    }
    *out = v;
    return i > 0;
}

/* Chunks from `at` on. When all have come they are joined at `at`. */
static enum http_progress join_chunks(struct http_client *c, size_t at)
{
    size_t pos = at, total = 0;
    enum { COUNT, JOIN };

    for (int step = COUNT; step <= JOIN; step++) {
        size_t size = 0;

        pos = at;
        total = 0;
        for (;;) {
            const uint8_t *line = c->in.p + pos;
            const uint8_t *eol = memchr(line, '\n', c->in.n - pos);

            if (eol == NULL)
                return HTTP_AGAIN;
            if (!parse_size((const char *)line, (size_t)(eol - line), 16, &size))
                return HTTP_LOST;
            pos += (size_t)(eol - line) + 1;
            if (c->in.n - pos < size + 2)
                return HTTP_AGAIN;
            if (size == 0)
                break; /* trailers are not expected: the empty line follows */
            if (step == JOIN)
                memmove(c->in.p + at + total, c->in.p + pos, size);
            total += size;
            pos += size + 2;
        }
    }
    c->body = bytes_of(c->in.p + at, total);
    return HTTP_DONE;
}

/* Is a whole answer in c->in? */
static enum http_progress parse_answer(struct http_client *c)
{
    const char *head, *value;
    const uint8_t *blank;
    size_t head_n, value_n, length = 0, at = 0;

    for (;;) { /* once, and once more for each 1xx */
        blank = c->in.n > at ? memmem(c->in.p + at, c->in.n - at, "\r\n\r\n", 4) : NULL;
        if (blank == NULL)
            return c->in.n - at > MAX_HEAD ? HTTP_LOST : HTTP_AGAIN;
        head = (const char *)c->in.p + at;
        head_n = (size_t)(blank - (c->in.p + at)) + 2;
        if (head_n < 14 || memcmp(head, "HTTP/1.", 7) != 0 || head[9] < '1' || head[9] > '5')
            return HTTP_LOST;
        c->status = (head[9] - '0') * 100 + (head[10] - '0') * 10 + (head[11] - '0');
        if (c->status < 100 || c->status > 599)
            return HTTP_LOST;
        at += head_n + 2;
        if (c->status >= 200)
            break;
    }
    value = find_header(head, head_n, "Connection", &value_n);
    c->close_after =
        head[7] == '0' || (value != NULL && value_n == 5 && strncasecmp(value, "close", 5) == 0);
    value = find_header(head, head_n, "Transfer-Encoding", &value_n);
    if (value != NULL)
        return join_chunks(c, at);
    value = find_header(head, head_n, "Content-Length", &value_n);
    if (value == NULL && c->status != 204)
        return HTTP_LOST; /* ended by closing: no server under test does that */
    if (value != NULL && !parse_size(value, value_n, 10, &length))
        return HTTP_LOST;
    if (c->in.n - at < length)
        return HTTP_AGAIN;
    c->body = bytes_of(c->in.p + at, length);
    return HTTP_DONE;
}

enum http_progress http_client_read(struct http_client *c)
{
    for (;;) {
        ssize_t n;
        enum http_progress got;

        if (c->in.n > MAX_ANSWER || !buf_reserve(&c->in, READ_SIZE))
            return HTTP_LOST;
        n = recv(c->fd, c->in.p + c->in.n, READ_SIZE, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? HTTP_AGAIN : HTTP_LOST;
        if (n == 0)
            return HTTP_LOST;
        c->in.n += (size_t)n;
        got = parse_answer(c);
        /* A short read emptied the socket: no need for another call to learn that. */
        if (got != HTTP_AGAIN || n < READ_SIZE)
            return got;
    }
}
