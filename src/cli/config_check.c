/* config_check.c -- what is wrong with the whole though each setting is right by itself. */
#include "otlite/config.h"

#include <arpa/inet.h>
#include <string.h>

#include "cli/maintain_opts.h"
#include "cli/options.h"
#include "cli/units.h"

enum { HOST_TEXT = 64 };

/* The host part of ADDR:PORT, [ADDR]:PORT or localhost:PORT into host; false when not valid. */
static bool listen_split(const char *listen, char host[HOST_TEXT], bool *v6)
{
    const char *end, *port;
    const char *start = listen;
    int64_t number;
    size_t n;

    *v6 = *listen == '[';
    if (*v6) {
        start++;
        end = strchr(start, ']');
        if (end == NULL || end[1] != ':')
            return false;
        port = end + 2;
    } else {
        end = strrchr(listen, ':');
        if (end == NULL)
            return false;
        port = end + 1;
    }
    n = (size_t)(end - start);
    if (n == 0 || n >= HOST_TEXT)
        return false;
    memcpy(host, start, n);
    host[n] = '\0';
    return *port != '-' && int_parse(port, &number) && number <= 65535;
}

/* 1 loopback, 0 another address, -1 not valid. */
static int listen_kind(const char *listen)
{
    char host[HOST_TEXT];
    struct in_addr v4;
    struct in6_addr v6;
    bool is_v6;

    if (!listen_split(listen, host, &is_v6))
        return -1;
    if (is_v6) {
        if (inet_pton(AF_INET6, host, &v6) != 1)
            return -1;
        if (IN6_IS_ADDR_V4MAPPED(&v6))
            return v6.s6_addr[12] == 127;
        return IN6_IS_ADDR_LOOPBACK(&v6);
    }
    if (strcmp(host, "localhost") == 0)
        return 1;
    if (inet_pton(AF_INET, host, &v4) != 1)
        return -1;
    return ntohl(v4.s_addr) >> 24 == 127;
}

bool listen_valid(const char *listen)
{
    return listen_kind(listen) >= 0;
}

bool listen_is_loopback(const char *listen)
{
    return listen_kind(listen) == 1;
}

static enum otl_err check_listen(const struct config *c, struct otl_error *err)
{
    if (c->listen[0] == NULL)
        return otl_fail(err, OTL_ECONFIG, "listen is empty; name an address, as 127.0.0.1:4318");
    for (size_t i = 0; c->listen[i] != NULL; i++) {
        if (!listen_valid(c->listen[i]))
            return otl_fail(err, OTL_ECONFIG,
                            "listen: \"%.80s\" is no address; write ADDR:PORT with a numeric "
                            "address or localhost, as 127.0.0.1:4318 or [::1]:4318",
                            c->listen[i]);
    }
    return OTL_OK;
}

static bool path_text_valid(const char *s)
{
    for (; *s != '\0'; s++) {
        unsigned char ch = (unsigned char)*s;

        if (ch <= 0x20 || ch >= 0x7f || ch == '?' || ch == '#' || ch == '%')
            return false;
    }
    return true;
}

static enum otl_err check_paths(const struct config *c, struct otl_error *err)
{
    static const char *const own[] = {"/healthz", "/readyz", "/metrics"};
    const char *prefix = c->http_prefix;
    size_t n = strlen(prefix);

    if (n > 0 && (prefix[0] != '/' || prefix[n - 1] == '/' || !path_text_valid(prefix)))
        return otl_fail(err, OTL_ECONFIG,
                        "http.prefix = \"%.80s\" must start with / and not end with it, without "
                        "blanks, ?, # and %%; for no prefix leave it empty",
                        prefix);
    if (c->http_paths[0] == NULL)
        return otl_fail(err, OTL_ECONFIG, "http.paths is empty; name a path, as /v1/metrics");
    for (size_t i = 0; c->http_paths[i] != NULL; i++) {
        const char *path = c->http_paths[i];

        n = strlen(path);
        if (path[0] != '/' || (n > 1 && path[n - 1] == '/') || !path_text_valid(path))
            return otl_fail(err, OTL_ECONFIG,
                            "http.paths: \"%.80s\" must start with / and not end with it, without "
                            "blanks, ?, # and %%",
                            path);
        for (size_t k = 0; k < sizeof(own) / sizeof(own[0]); k++) {
            if (strcmp(path, own[k]) == 0)
                return otl_fail(err, OTL_ECONFIG,
                                "http.paths: %s is otlite's own; choose another path", path);
        }
        for (size_t k = 0; k < i; k++) {
            if (strcmp(path, c->http_paths[k]) == 0)
                return otl_fail(err, OTL_ECONFIG, "http.paths: %.80s is there twice", path);
        }
    }
    return OTL_OK;
}

static enum otl_err check_cors(const struct config *c, struct otl_error *err)
{
    for (size_t i = 0; c->cors_origins[i] != NULL; i++) {
        const char *origin = c->cors_origins[i];
        const char *star = strchr(origin, '*');

        if (star != NULL && strchr(star + 1, '*') != NULL)
            return otl_fail(err, OTL_ECONFIG,
                            "cors.origins: \"%.80s\" has more than one *; an origin may have one",
                            origin);
        if (strcmp(origin, "*") == 0 && c->cors_credentials)
            return otl_fail(err, OTL_ECONFIG,
                            "cors.credentials = true does not go with the origin *: every site "
                            "could send with its visitors' rights; list the origins");
    }
    return OTL_OK;
}

static enum otl_err check_retention(const struct config *c, struct otl_error *err)
{
    struct maintain_opts o;
    enum otl_err rc = cli_maintain_opts(c, &o, err);

    if (rc == OTL_OK)
        cli_maintain_opts_fini(&o);
    return rc;
}

enum otl_err config_check(const struct config *c, struct otl_error *err)
{
    char a[UNITS_TEXT], b[UNITS_TEXT];
    enum otl_err rc;

    rc = check_listen(c, err);
    if (rc == OTL_OK)
        rc = check_paths(c, err);
    if (rc == OTL_OK)
        rc = check_cors(c, err);
    if (rc == OTL_OK)
        rc = check_retention(c, err);
    if (rc != OTL_OK)
        return rc;
    if (c->data[0] == '\0')
        return otl_fail(err, OTL_ECONFIG, "data is empty; name a directory, as ./data");
    /* Otherwise the largest body could never be taken, and its sender would retry for ever. */
    if (c->http_max_body > c->http_max_inflight) {
        size_text(c->http_max_body, a);
        size_text(c->http_max_inflight, b);
        return otl_fail(err, OTL_ECONFIG,
                        "http.max_body = %s is more than http.max_inflight = %s, so a body of that "
                        "size would never be taken; lower the first or raise the second",
                        a, b);
    }
    return OTL_OK;
}
