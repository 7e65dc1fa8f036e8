/* health.c -- ask a daemon whether it can commit now. A container's HEALTHCHECK, so it needs
 * nothing but this binary and ends by its own clock. */
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

#include "otlite/cli.h"
#include "otlite/clock.h"

#include "cli/options.h"
#include "cli/units.h"

enum { ANSWER_MAX = 2048 };

struct target {
    char host[256], port[8];
    char path[512]; /* whole, with /readyz */
    char shown[800];
};

/* A URL into t: http://HOST[:PORT][/PREFIX]. False when it is none. */
static bool target_parse(const char *url, struct target *t)
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
    if (prefix_n + sizeof("/readyz") > sizeof(t->path))
        return false;
    snprintf(t->path, sizeof(t->path), "%.*s/readyz", (int)prefix_n, end);
    snprintf(t->shown, sizeof(t->shown), strchr(t->host, ':') != NULL ? "[%s]:%s%s" : "%s:%s%s",
             t->host, t->port, t->path);
    return true;
}

/* The daemon that these settings would start, as seen from the same machine. */
static bool target_from_config(const struct config *c, struct target *t)
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
    return target_parse(url, t);
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

/* Read the answer to its end or to its room, whichever is first; -1 with errno set. A server that
 * keeps the connection open has said enough by the deadline. */
static ssize_t receive(int fd, char out[ANSWER_MAX], int64_t deadline_ns)
{
    size_t n = 0;

    while (n < ANSWER_MAX - 1) {
        ssize_t got = recv(fd, out + n, ANSWER_MAX - 1 - n, 0);

        if (got > 0) {
            n += (size_t)got;
        } else if (got == 0) {
            break;
        } else if (errno == EAGAIN) {
            if (!wait_for(fd, POLLIN, deadline_ns)) {
                if (n == 0)
                    return -1;
                break;
            }
        } else if (errno != EINTR) {
            return -1;
        }
    }
    out[n] = '\0';
    return (ssize_t)n;
}

static int unavailable(const struct target *t, const char *what)
{
    fprintf(stderr, "otlite health: http://%s: %s\n", t->shown, what);
    return EX_UNAVAILABLE;
}

/* First line of the answer's body, for people, with what is not printable as '.'. */
static void body_line(char *answer, char out[160])
{
    char *body = strstr(answer, "\r\n\r\n");
    size_t n = 0;

    if (body != NULL) {
        for (body += 4; *body != '\0' && *body != '\n' && n < 159; body++)
            out[n++] = (unsigned char)*body < 0x20 || *body == 0x7f ? '.' : *body;
    }
    out[n] = '\0';
}

static int answer_judge(const struct target *t, char *answer)
{
    int status = 0;
    char body[160], what[224];

    if (sscanf(answer, "HTTP/1.%*1[01] %3d", &status) != 1)
        return unavailable(t, "what answers there does not speak HTTP");
    if (status == 200)
        return EX_OK;
    body_line(answer, body);
    snprintf(what, sizeof(what), "not ready, it answered %d%s%s", status,
             body[0] == '\0' ? "" : ": ", body);
    return unavailable(t, what);
}

static int ask(const struct target *t, int64_t timeout_ms)
{
    int64_t deadline = clock_mono_ns() + timeout_ms * NS_PER_MS;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char request[1024], answer[ANSWER_MAX];
    int fd = -1, n, rc, status;

    rc = getaddrinfo(t->host, t->port, &hints, &list);
    if (rc != 0)
        return unavailable(t, gai_strerror(rc));
    for (const struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next)
        fd = connect_to(a, deadline);
    rc = errno;
    freeaddrinfo(list);
    if (fd < 0)
        return unavailable(t, strerror(rc));
    n = snprintf(request, sizeof(request),
                 "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: otlite-health\r\n"
                 "Connection: close\r\n\r\n",
                 t->path, strchr(t->host, ':') == NULL ? t->host : "localhost");
    if (n < 0 || (size_t)n >= sizeof(request))
        status = unavailable(t, "the URL is too long");
    else if (!send_all(fd, request, (size_t)n, deadline) || receive(fd, answer, deadline) < 0)
        status = unavailable(t, strerror(errno));
    else
        status = answer_judge(t, answer);
    close(fd);
    return status;
}

static int health_run(int argc, char **argv)
{
    const char *url = NULL, *timeout = "3s";
    const struct cli_flag flags[] = {
        {"url", "URL", "where the daemon is, as http://127.0.0.1:4318", &url},
        {"timeout", "DURATION", "give up after this [3s]", &timeout},
        {0},
    };
    const struct cli_spec spec = {
        .command = "health",
        .synopsis = "[--url URL] [--timeout DURATION]",
        .about = "Ask a daemon's /readyz. Exits with 0 when it can take and commit requests now,\n"
                 "otherwise with 69 and what it saw. Without --url it asks the first address of\n"
                 "the setting listen.",
        .common = CLI_CONFIG,
        .flags = flags,
    };
    struct config config;
    struct cli_args args;
    struct target t;
    int64_t timeout_ms;
    bool known;
    int status = cli_parse(&spec, argc, argv, &config, &args);

    if (status != CLI_GO)
        return status;
    known = url == NULL ? target_from_config(&config, &t) : target_parse(url, &t);
    config_fini(&config);
    if (!known && url != NULL)
        return cli_usage_error(spec.command, "--url %.80s: write it as http://HOST:PORT", url);
    if (!known)
        return cli_usage_error(spec.command, "the setting listen has no fixed port; use --url");
    if (!duration_parse(timeout, &timeout_ms) || timeout_ms < 1 || timeout_ms > 3600000)
        return cli_usage_error(spec.command,
                               "--timeout %.60s is no duration up to 1h; write it as 3s", timeout);
    return ask(&t, timeout_ms);
}

const struct cli_command cli_health = {"health", "Ask a daemon whether it is ready", health_run};
