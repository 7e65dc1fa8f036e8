/* auth.h -- who a request is from: bearer token, or the default project where none is needed. */
#ifndef OTLITE_AUTH_H
#define OTLITE_AUTH_H

#include <stdbool.h>

#include "otlite/http.h"
#include "otlite/state.h"

struct auth {
    struct state *state;
    bool none;          /* auth = none: everyone is the default project with every scope */
    bool loopback_only; /* all listeners are on loopback: open as long as no token exists */
};

/* The request's principal, or OTL_EAUTH, OTL_EFORBIDDEN. Never logs or echoes the token. */
enum otl_err auth_check(const struct auth *a, const struct http_exchange *x, enum scope need,
                        struct principal *out, struct otl_error *err) OTL_MUSTCHECK;

#endif
