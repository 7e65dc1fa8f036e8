/* cors.c -- cross-origin rules for browser senders (otlp.md 1.7). */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "http_internal.h"

static const char *const default_headers[] = {"accept", "content-type", "x-requested-with", NULL};

/* One '*' inside an entry stands for any text; letters compare without case (H-83). */
static bool origin_matches(const char *pattern, const char *origin)
{
    const char *star = strchr(pattern, '*');
    size_t before, after, n = strlen(origin);

    if (star == NULL)
        return strcasecmp(pattern, origin) == 0;
    before = (size_t)(star - pattern);
    after = strlen(star + 1);
    return n >= before + after && strncasecmp(pattern, origin, before) == 0 &&
           strcasecmp(star + 1, origin + n - after) == 0;
}

static bool origin_allowed(const struct cors_opts *o, const char *origin)
{
    for (const char *const *p = o->origins; origin != NULL && *p != NULL; p++) {
        if (origin_matches(*p, origin))
            return true;
    }
    return false;
}

static bool word_in(const char *const *list, const char *word, size_t n)
{
    for (; list != NULL && *list != NULL; list++) {
        if ((strlen(*list) == n && strncasecmp(*list, word, n) == 0) || strcmp(*list, "*") == 0)
            return true;
    }
    return false;
}

static bool headers_allowed(const struct cors_opts *o, const char *asked)
{
    while (asked != NULL && *asked != '\0') {
        size_t n;

        asked += strspn(asked, ", \t");
        n = strcspn(asked, ", \t");
        if (n > 0 && !word_in(default_headers, asked, n) && !word_in(o->headers, asked, n))
            return false;
        asked += n;
    }
    return true;
}

static bool is_on(const struct cors_opts *o)
{
    return o->origins != NULL && o->origins[0] != NULL;
}

static void allow(const struct cors_opts *o, struct evkeyvalq *out, const char *origin)
{
    (void)evhttp_add_header(out, "Access-Control-Allow-Origin", origin);
    if (o->credentials)
        (void)evhttp_add_header(out, "Access-Control-Allow-Credentials", "true");
}

void cors_answer(const struct cors_opts *o, struct evhttp_request *req)
{
    struct evkeyvalq *out = evhttp_request_get_output_headers(req);
    const char *origin;

    /* A preflight has its own, wider Vary. */
    if (!is_on(o) || evhttp_find_header(out, "Vary") != NULL)
        return;
    origin = evhttp_find_header(evhttp_request_get_input_headers(req), "Origin");
    (void)evhttp_add_header(out, "Vary", "Origin");
    if (!origin_allowed(o, origin))
        return;
    allow(o, out, origin);
    (void)evhttp_add_header(out, "Access-Control-Expose-Headers", "Retry-After");
}

bool cors_preflight(const struct cors_opts *o, struct evhttp_request *req)
{
    const struct evkeyvalq *in = evhttp_request_get_input_headers(req);
    struct evkeyvalq *out = evhttp_request_get_output_headers(req);
    const char *origin, *method, *asked;
    char age[24];

    if (!is_on(o) || evhttp_request_get_command(req) != EVHTTP_REQ_OPTIONS)
        return false;
    origin = evhttp_find_header(in, "Origin");
    method = evhttp_find_header(in, "Access-Control-Request-Method");
    if (origin == NULL || method == NULL)
        return false;
    (void)evhttp_add_header(
        out, "Vary", "Origin, Access-Control-Request-Method, Access-Control-Request-Headers");
    asked = evhttp_find_header(in, "Access-Control-Request-Headers");
    if (!origin_allowed(o, origin) || strcmp(method, "POST") != 0 || !headers_allowed(o, asked))
        return true;
    allow(o, out, origin);
    (void)evhttp_add_header(out, "Access-Control-Allow-Methods", method);
    if (asked != NULL && *asked != '\0')
        (void)evhttp_add_header(out, "Access-Control-Allow-Headers", asked);
    if (o->max_age_s > 0) {
        (void)snprintf(age, sizeof(age), "%lld", (long long)o->max_age_s);
        (void)evhttp_add_header(out, "Access-Control-Max-Age", age);
    }
    return true;
}
