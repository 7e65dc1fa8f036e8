#include "otlite/auth.h"

#include <string.h>
#include <strings.h>

#include "otlite/stats.h"

static enum otl_err find_principal(const struct auth *a, const struct http_exchange *x,
                                   enum scope need, struct principal *out, struct otl_error *err)
{
    const char *header;
    size_t n;

    if (a->none || (a->loopback_only && state_token_count(a->state) == 0)) {
        *out = (struct principal){STATE_DEFAULT_PROJECT, SCOPE_WRITE | SCOPE_READ | SCOPE_ADMIN};
        return OTL_OK;
    }
    header = http_header(x, "Authorization");
    if (header == NULL)
        return otl_fail(err, OTL_EAUTH,
                        "a token is needed: send the header \"Authorization: Bearer TOKEN\" "
                        "(otlite token create makes one)");
    if (strncasecmp(header, "Bearer ", 7) != 0)
        return otl_fail(err, OTL_EAUTH, "the Authorization header must be \"Bearer TOKEN\"");
    header += 7;
    header += strspn(header, " ");
    n = strlen(header);
    while (n > 0 && header[n - 1] == ' ')
        n--;
    return state_auth(a->state, bytes_of(header, n), need, out, err);
}

enum otl_err auth_check(const struct auth *a, const struct http_exchange *x, enum scope need,
                        struct principal *out, struct otl_error *err)
{
    enum otl_err rc = find_principal(a, x, need, out, err);

    if (rc != OTL_OK)
        STATS_ADD(auth_failures, 1);
    return rc;
}
