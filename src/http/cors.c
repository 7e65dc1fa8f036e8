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

bool cors_is_on(const struct cors_opts *o)
{
    return o->origins != NULL && o->origins[0] != NULL;
}

static void allow(const struct cors_opts *o, struct http_exchange *x, const char *origin)
{
    http_add_header(x, "Access-Control-Allow-Origin", origin);
    if (o->credentials)
        http_add_header(x, "Access-Control-Allow-Credentials", "true");
}

void cors_answer(const struct cors_opts *o, struct http_exchange *x)
{
    const char *origin;

    /* A preflight has its own, wider Vary. */
    if (!cors_is_on(o) || x->preflight)
        return;
    origin = http_header(x, "Origin");
    http_add_header(x, "Vary", "Origin");
    if (!origin_allowed(o, origin))
        return;
    allow(o, x, origin);
    http_add_header(x, "Access-Control-Expose-Headers", "Retry-After");
}

static bool method_allowed(const struct http_route *r, const char *method)
{
    return (strcmp(method, "POST") == 0 && (r->methods & HTTP_POST) != 0) ||
           (strcmp(method, "GET") == 0 && (r->methods & HTTP_GET) != 0);
}

bool cors_preflight(const struct cors_opts *o, struct http_exchange *x)
{
    const char *origin, *method, *asked;
    char age[24];

    if (!cors_is_on(o) || strcmp(x->head.text + x->head.method, "OPTIONS") != 0)
        return false;
    origin = http_header(x, "Origin");
    method = http_header(x, "Access-Control-Request-Method");
    if (origin == NULL || method == NULL)
        return false;
    x->preflight = true;
    http_add_header(x, "Vary",
                    "Origin, Access-Control-Request-Method, Access-Control-Request-Headers");
    asked = http_header(x, "Access-Control-Request-Headers");
    if (!origin_allowed(o, origin) || !method_allowed(x->route, method) || !headers_allowed(o, asked))
        return true;
    allow(o, x, origin);
    http_add_header(x, "Access-Control-Allow-Methods", method);
    if (asked != NULL && *asked != '\0')
        http_add_header(x, "Access-Control-Allow-Headers", asked);
    if (o->max_age_s > 0) {
        (void)snprintf(age, sizeof(age), "%lld", (long long)o->max_age_s);
        http_add_header(x, "Access-Control-Max-Age", age);
    }
    return true;
}
