#include "cli/http_ask.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "otlite/clock.h"

#include "cli/units.h"

enum { HEAD_MAX = 16384, PART = 16384 };

/* A URL into t: http://HOST[:PORT][/PREFIX]. False when it is none. */
bool http_target_parse(const char *url, struct http_target *t)
{
    const char *p = url, *end, *host_end;
    size_t n, prefix_n;
    int64_t port = 80;

    if (strncmp(p, "http://", 7) != 0)
        return false;
    p += 7;
    end = p + strcspn(p, "/?#");
    if (*end == '?' || *end == '#')
        return false;
    if (*p == '[') {
        p++;
        host_end = memchr(p, ']', (size_t)(end - p));
        if (host_end == NULL)
            return false;
    } else {
        host_end = memchr(p, ':', (size_t)(end - p));
        if (host_end == NULL)
            host_end = end;
    }
    n = (size_t)(host_end - p);
    if (n == 0 || n >= sizeof(t->host))
        return false;
    memcpy(t->host, p, n);
    t->host[n] = '\0';
    if (*host_end == ']')
        host_end++;
    if (host_end != end) {
        char digits[8];

        n = (size_t)(end - host_end) - 1;
        if (*host_end != ':' || n == 0 || n >= sizeof(digits))
            return false;
        memcpy(digits, host_end + 1, n);
        digits[n] = '\0';
        if (digits[0] == '-' || !int_parse(digits, &port) || port < 1 || port > 65535)
            return false;
    }
    snprintf(t->port, sizeof(t->port), "%u", (unsigned)port);
    prefix_n = strlen(end);
    while (prefix_n > 0 && end[prefix_n - 1] == '/')
        prefix_n--;
    /* Nothing that could end the request line early. */
    for (size_t i = 0; i < prefix_n; i++) {
        if ((unsigned char)end[i] <= 0x20 || (unsigned char)end[i] >= 0x7f || end[i] == '?' ||
            end[i] == '#')
            return false;
    }
    if (prefix_n >= sizeof(t->prefix))
        return false;
    snprintf(t->prefix, sizeof(t->prefix), "%.*s", (int)prefix_n, end);
    snprintf(t->shown, sizeof(t->shown), strchr(t->host, ':') != NULL ? "[%s]:%s%s" : "%s:%s%s",
             t->host, t->port, t->prefix);
    return true;
}

/* The daemon that these settings would start, as seen from the same machine. */
bool http_target_from_config(const struct config *c, struct http_target *t)
{
    const char *listen = c->listen[0];
    const char *colon = strrchr(listen, ':');
    char url[1024];

    if (strncmp(listen, "0.0.0.0:", 8) == 0)
        snprintf(url, sizeof(url), "http://127.0.0.1%s%s", colon, c->http_prefix);
    else if (strncmp(listen, "[::]:", 5) == 0)
        snprintf(url, sizeof(url), "http://[::1]%s%s", colon, c->http_prefix);
    else
        snprintf(url, sizeof(url), "http://%s%s", listen, c->http_prefix);
    return http_target_parse(url, t);
}

static int64_t left_ms(int64_t deadline_ns)
{
    int64_t left = (deadline_ns - clock_mono_ns()) / NS_PER_MS;

    return left < 0 ? 0 : left;
}

/* Wait for events on fd; false with errno set (ETIMEDOUT) otherwise. */
static bool wait_for(int fd, short events, int64_t deadline_ns)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = events};
        int64_t ms = left_ms(deadline_ns);
        int n = poll(&p, 1, ms > INT32_MAX ? INT32_MAX : (int)ms);

        if (n > 0)
            return true;
        if (n == 0) {
            errno = ETIMEDOUT;
            return false;
        }
        if (errno != EINTR)
            return false;
    }
}

/* A connected socket, or -1 with errno set. */
static int connect_to(const struct addrinfo *a, int64_t deadline_ns)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = 0;
    socklen_t n = sizeof(error);

    if (fd < 0)
        return -1;
    if (connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
        if (errno != EINPROGRESS)
            error = errno;
        else if (!wait_for(fd, POLLOUT, deadline_ns) ||
                 getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) != 0)
            error = errno;
    }
    if (error != 0) {
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static bool send_all(int fd, const char *p, size_t n, int64_t deadline_ns)
{
    while (n > 0) {
        ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);

        if (sent > 0) {
            p += sent;
            n -= (size_t)sent;
        } else if (sent < 0 && errno == EAGAIN) {
            if (!wait_for(fd, POLLOUT, deadline_ns))
                return false;
        } else if (sent < 0 && errno != EINTR) {
            return false;
        }
    }
    return true;
}

/* Everything until the server closes, or until its room is full. A server that keeps the connection
 * open has said enough by the deadline. False with errno set. */
static bool receive(int fd, size_t max, struct buf *out, int64_t deadline_ns)
{
    while (out->n < max) {
        ssize_t got;

        if (!buf_reserve(out, PART)) {
            errno = ENOMEM;
            return false;
        }
        got = recv(fd, out->p + out->n, PART, 0);
        if (got > 0) {
            out->n += (size_t)got;
        } else if (got == 0) {
            break;
        } else if (errno == EAGAIN) {
            if (!wait_for(fd, POLLIN, deadline_ns))
                return out->n > 0;
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

/* The head goes, the body stays. */
static enum otl_err take_apart(struct buf *answer, int *status, struct otl_error *err)
{
    const char *text = buf_cstr(answer);
    const char *body = strstr(text, "\r\n\r\n");
    size_t head;

    if (sscanf(text, "HTTP/1.%*1[01] %3d", status) != 1)
        return otl_fail(err, OTL_EIO, "what answers there does not speak HTTP");
    head = body == NULL ? answer->n : (size_t)(body + 4 - text);
    memmove(answer->p, answer->p + head, answer->n - head);
    answer->n -= head;
    return OTL_OK;
}

static enum otl_err connect_any(const struct http_target *t, int64_t deadline, int *out_fd,
                                struct otl_error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    int fd = -1, rc = getaddrinfo(t->host, t->port, &hints, &list);

    if (rc != 0)
        return otl_fail(err, OTL_EIO, "%s", gai_strerror(rc));
    for (const struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next)
        fd = connect_to(a, deadline);
    rc = errno;
    freeaddrinfo(list);
    *out_fd = fd;
    return fd < 0 ? otl_fail(err, OTL_EIO, "%s", strerror(rc)) : OTL_OK;
}

enum otl_err http_ask(const struct http_target *t, const char *path, const char *headers,
                      const char *form, int64_t timeout_ms, size_t max, int *status,
                      struct buf *body, struct otl_error *err)
{
    int64_t deadline = clock_mono_ns() + timeout_ms * NS_PER_MS;
    struct buf request = {0};
    int fd = -1;
    enum otl_err rc;

    buf_printf(&request,
               "%s %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: otlite\r\nConnection: close\r\n%s",
               form == NULL ? "GET" : "POST", t->prefix, path,
               strchr(t->host, ':') == NULL ? t->host : "localhost", headers);
    if (form != NULL)
        buf_printf(&request,
                   "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %zu\r\n",
                   strlen(form));
    buf_add_str(&request, "\r\n");
    buf_add_str(&request, form == NULL ? "" : form);
    rc = request.failed ? otl_fail(err, OTL_ENOMEM, "no memory")
                        : connect_any(t, deadline, &fd, err);
    if (rc == OTL_OK &&
        (!send_all(fd, buf_cstr(&request), request.n, deadline) ||
         !receive(fd, max > SIZE_MAX - HEAD_MAX ? max : max + HEAD_MAX, body, deadline)))
        rc = otl_fail(err, OTL_EIO, "%s", strerror(errno));
    if (rc == OTL_OK)
        rc = take_apart(body, status, err);
    if (fd >= 0)
        close(fd);
    buf_fini(&request);
    return rc;
}
