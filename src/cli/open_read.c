#include "cli/open_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "otlite/clock.h"

#include "cli/open_reader.h"
#include "cli/units.h"

/* A subcommand reads what it reads once, mostly; the cache has to hold what is under way. */
enum { CACHE_BYTES = 64 << 20 };

enum otl_err cli_read_open(const struct config *config, struct cli_read *r, struct otl_error *err)
{
    const struct read_limits no_limits = {0};
    enum otl_err rc = cli_open_reader(config, &r->db, &r->have_state, err);

    if (rc == OTL_OK)
        rc = read_shared_new(NULL, CACHE_BYTES, &r->shared, err);
    if (rc == OTL_OK)
        rc = read_session_open(r->shared, &r->db, &r->session, err);
    if (rc == OTL_OK)
        rc = read_begin(r->session, &no_limits, true, &r->read, err);
    if (rc != OTL_OK)
        cli_read_close(r);
    return rc;
}

void cli_read_close(struct cli_read *r)
{
    read_end(r->read);
    if (r->session != NULL)
        read_session_close(r->session);
    if (r->shared != NULL)
        read_shared_free(r->shared);
    db_close(&r->db);
    memset(r, 0, sizeof(*r));
}

/* Up to nine digits after a point as nanoseconds; *s moves behind them. */
static bool fraction(const char **s, int64_t *ns)
{
    int64_t unit = 100000000;

    *ns = 0;
    if (**s != '.')
        return true;
    ++*s;
    if (**s < '0' || **s > '9')
        return false;
    for (; **s >= '0' && **s <= '9'; ++*s, unit /= 10)
        *ns += (**s - '0') * unit;
    return true;
}

static bool rfc3339(const char *s, int64_t *out_ns)
{
    struct tm tm = {0};
    int64_t ns = 0, offset = 0;
    int used = 0, h, m;
    char sign;

    if (sscanf(s, "%4d-%2d-%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &used) != 3 || used != 10)
        return false;
    s += used;
    if ((*s == 'T' || *s == 't' || *s == ' ') &&
        sscanf(s + 1, "%2d:%2d:%2d%n", &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &used) == 3 &&
        used == 8) {
        s += 9;
        if (!fraction(&s, &ns))
            return false;
    }
    if (*s == 'Z' || *s == 'z') {
        s++;
    } else if (sscanf(s, "%c%2d:%2d%n", &sign, &h, &m, &used) == 3 && used == 6 &&
               (sign == '+' || sign == '-')) {
        offset = (h * 60 + m) * 60 * (sign == '-' ? -1 : 1);
        s += used;
    }
    if (*s != '\0' || tm.tm_mon < 1 || tm.tm_mon > 12 || tm.tm_mday < 1 || tm.tm_mday > 31 ||
        tm.tm_hour > 23 || tm.tm_min > 59 || tm.tm_sec > 60 || tm.tm_year < 1970 ||
        tm.tm_year > 2261)
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon--;
    *out_ns = ((int64_t)timegm(&tm) - offset) * NS_PER_S + ns;
    return true;
}

static bool unix_seconds(const char *s, int64_t *out_ns)
{
    int64_t seconds = 0, ns;

    if (*s < '0' || *s > '9')
        return false;
    for (; *s >= '0' && *s <= '9'; s++) {
        seconds = seconds * 10 + (*s - '0');
        if (seconds > INT64_MAX / NS_PER_S - 1)
            return false;
    }
    if (!fraction(&s, &ns) || *s != '\0')
        return false;
    *out_ns = seconds * NS_PER_S + ns;
    return true;
}

bool time_parse(const char *s, int64_t now_ns, int64_t *out_ns)
{
    int64_t back_ms;

    if (strcmp(s, "now") == 0) {
        *out_ns = now_ns;
        return true;
    }
    if (unix_seconds(s, out_ns) || rfc3339(s, out_ns))
        return true;
    if (!duration_parse(s, &back_ms) || back_ms < 0 || back_ms > now_ns / NS_PER_MS)
        return false;
    *out_ns = now_ns - back_ms * NS_PER_MS;
    return true;
}
