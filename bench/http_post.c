#include "http_post.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>

enum { ANSWER_MS = 600000 };

static bool wait_for(int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};
    int n;

    do
        n = poll(&p, 1, ANSWER_MS);
    while (n < 0 && errno == EINTR);
    return n > 0;
}

enum otl_err http_send_all(struct http_client *c, const struct http_url *url, struct bytes request,
                           struct otl_error *err)
{
    enum http_progress got = HTTP_AGAIN;

    if (c->fd >= 0 && c->close_after)
        http_client_close(c);
    if (c->fd < 0 && !http_client_open(c, url))
        return otl_fail(err, OTL_EIO, "no connection to %.128s", url->host);
    http_client_request(c, request);
    while (got == HTTP_AGAIN && wait_for(c->fd, POLLOUT))
        got = http_client_write(c);
    if (got == HTTP_DONE)
        return OTL_OK;
    http_client_close(c);
    return otl_fail(err, OTL_EIO, "%.128s does not take a request", url->host);
}

enum otl_err http_await(struct http_client *c, struct otl_error *err)
{
    enum http_progress got = HTTP_AGAIN;

    while (got == HTTP_AGAIN && wait_for(c->fd, POLLIN))
        got = http_client_read(c);
    if (got == HTTP_DONE)
        return OTL_OK;
    http_client_close(c);
    return otl_fail(err, OTL_EIO, "a request got no answer");
}

enum otl_err http_post(struct http_client *c, const struct http_url *url, struct buf *wire,
                       const char *head, struct bytes body, struct otl_error *err)
{
    enum otl_err rc;

    buf_reset(wire);
    buf_printf(wire, "%sContent-Length: %zu\r\n\r\n", head, body.n);
    buf_add_bytes(wire, body);
    if (wire->failed)
        return otl_fail(err, OTL_ENOMEM, "no memory for a request");
    rc = http_send_all(c, url, buf_bytes(wire), err);
    if (rc == OTL_OK)
        rc = http_await(c, err);
    if (rc != OTL_OK)
        return rc;
    if (c->status / 100 != 2)
        return otl_fail(err, OTL_EBADREQUEST, "%.64s answers %d: %.*s", url->host, c->status,
                        c->body.n > 300 ? 300 : (int)c->body.n,
                        c->body.n > 0 ? (const char *)c->body.p : "");
    return OTL_OK;
}

void http_escape(struct buf *out, struct bytes text)
{
    for (size_t i = 0; i < text.n; i++) {
        if (isalnum(text.p[i]))
            buf_add_char(out, (char)text.p[i]);
        else
            buf_printf(out, "%%%02X", text.p[i]);
    }
}
