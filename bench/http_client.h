/* http_client.h -- one HTTP/1.1 connection without blocking: a request out, its answer in, kept
 * alive for the next. Cheap on purpose: the generator shares the machine with the daemon. */
#ifndef OTLITE_BENCH_HTTP_CLIENT_H
#define OTLITE_BENCH_HTTP_CLIENT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "otlite/bytes.h"
#include "otlite/err.h"

enum { HTTP_MAX_ADDRESSES = 8 };

struct http_url {
    char host[256];                  /* for the Host header, port included */
    char path[512];                  /* with the query; at least "/" */
    struct sockaddr_storage address; /* where to connect; one of addresses */
    socklen_t address_n;
    struct http_address {
        struct sockaddr_storage address;
        socklen_t n;
    } addresses[HTTP_MAX_ADDRESSES]; /* all that the name resolves to, the preferred first */
    unsigned n_addresses;
};

/* http://HOST[:PORT][/PATH], resolved; address is the first. OTL_ECONFIG with what is wrong. */
enum otl_err http_url_parse(const char *text, struct http_url *out,
                            struct otl_error *err) OTL_MUSTCHECK;

enum http_progress {
    HTTP_AGAIN, /* wait until the socket is ready again */
    HTTP_DONE,  /* sent / answered */
    HTTP_LOST   /* connection refused, reset, closed early, or not HTTP; close it */
};

struct http_client {
    int fd;               /* -1: closed */
    struct bytes request; /* what is still to be sent, borrowed */
    struct buf in;        /* the answer so far */
    /* After HTTP_DONE: */
    int status;
    struct bytes body; /* in `in`, unchunked in place; valid until the next request */
    bool close_after;  /* the server ends the connection after this answer */
};

void http_client_init(struct http_client *c);
/* Start to connect; false when there is no socket to be had. The socket becomes writable when it
 * is connected, and then http_client_write reports a refusal. */
bool http_client_open(struct http_client *c, const struct http_url *url);
void http_client_close(struct http_client *c);
void http_client_fini(struct http_client *c);

/* Set the request to send next; borrowed until it is sent. */
void http_client_request(struct http_client *c, struct bytes request);
enum http_progress http_client_write(struct http_client *c);
enum http_progress http_client_read(struct http_client *c);

#endif
