/* http_post.h -- a request of ours over a connection that is kept, waiting for its answer. */
#ifndef OTLITE_BENCH_HTTP_POST_H
#define OTLITE_BENCH_HTTP_POST_H

#include "http_client.h"

/* head: everything before Content-Length ("POST /x HTTP/1.1\r\nHost: h\r\n"), body: may be empty.
 * Puts both into wire and sends them. */
enum otl_err http_post(struct http_client *c, const struct http_url *url, struct buf *wire,
                       const char *head, struct bytes body, struct otl_error *err) OTL_MUSTCHECK;
/* Send, and wait until all is sent. */
enum otl_err http_send_all(struct http_client *c, const struct http_url *url, struct bytes request,
                           struct otl_error *err) OTL_MUSTCHECK;
/* Wait for the answer; its status is c->status. */
enum otl_err http_await(struct http_client *c, struct otl_error *err) OTL_MUSTCHECK;

/* %XX of everything but letters and digits. */
void http_escape(struct buf *out, struct bytes text);

#endif
