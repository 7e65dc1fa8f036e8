#include "cli/maintain_opts.h"

#include <stdlib.h>
#include <string.h>

#include "cli/units.h"

static const char PROJECT[] = "project:", METRIC[] = "metric:";

static bool begins(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* project:NAME, metric:PATTERN or both with a slash between them, in text, which is cut up and is
 * what the rule points into from now on. */
static bool parse_what(char *text, struct retention_rule *out)
{
    if (begins(text, PROJECT)) {
        char *slash;

        out->project = text + strlen(PROJECT);
        slash = strstr(text, "/metric:");
        if (slash == NULL)
            return out->project[0] != '\0';
        *slash = '\0';
        text = slash + 1;
        if (out->project[0] == '\0')
            return false;
    }
    if (!begins(text, METRIC))
        return false;
    out->metric = text + strlen(METRIC);
    return out->metric[0] != '\0';
}

static enum otl_err parse_rule(const char *s, struct retention_rule *out, struct otl_error *err)
{
    char *text = strdup(s);
    char *equals = text == NULL ? NULL : strrchr(text, '=');

    memset(out, 0, sizeof(*out));
    if (text == NULL)
        return otl_fail(err, OTL_ENOMEM, "retention.rules: no memory");
    if (equals != NULL)
        *equals = '\0';
    if (equals == NULL || !duration_parse(equals + 1, &out->max_age_ms) || out->max_age_ms < 0 ||
        !parse_what(text, out)) {
        free(text);
        return otl_fail(err, OTL_ECONFIG,
                        "retention.rules: \"%.80s\" is no rule; write metric:PATTERN=30d, "
                        "project:NAME=7d or project:NAME/metric:PATTERN=30d, where 0s is for ever",
                        s);
    }
    return OTL_OK;
}

/* Where the text of a rule begins: what parse_rule allocated. */
static char *rule_text(const struct retention_rule *r)
{
    const char *at = r->project != NULL ? r->project - strlen(PROJECT) : r->metric - strlen(METRIC);
    char *text;

    memcpy(&text, &at, sizeof(text)); /* it is ours, and was not const when it was made */
    return text;
}

void cli_maintain_opts_fini(struct maintain_opts *o)
{
    struct retention_rule *rules;

    for (size_t i = 0; i < o->retention.n_rules; i++)
        free(rule_text(&o->retention.rules[i]));
    memcpy(&rules, &o->retention.rules, sizeof(rules));
    free(rules);
    o->retention.rules = NULL;
    o->retention.n_rules = 0;
}

enum otl_err cli_maintain_opts(const struct config *c, struct maintain_opts *o,
                               struct otl_error *err)
{
    struct retention_rule *rules;
    enum otl_err rc = OTL_OK;
    size_t n = 0;

    *o = (struct maintain_opts){
        .retention = {.max_age_ms = c->retention_max_age,
                      .exemplar_age_ms = c->retention_exemplar_age,
                      .rollup_5m_age_ms = c->retention_rollup_5m_age,
                      .rollup_1h_age_ms = c->retention_rollup_1h_age,
                      .max_bytes = c->retention_max_bytes},
        .rollups = c->rollups,
    };
    if (c->retention_max_bytes != 0 && c->retention_max_bytes < RETENTION_MIN_BYTES)
        return otl_fail(err, OTL_ECONFIG,
                        "retention.max_bytes: the least is 16M, which the log, the newest points "
                        "and their sealing need; 0 is no limit");
    while (c->retention_rules[n] != NULL)
        n++;
    rules = calloc(n + 1, sizeof(*rules));
    if (rules == NULL)
        return otl_fail(err, OTL_ENOMEM, "retention.rules: no memory");
    o->retention.rules = rules;
    for (size_t i = 0; i < n && rc == OTL_OK; i++) {
        rc = parse_rule(c->retention_rules[i], &rules[i], err);
        if (rc == OTL_OK)
            o->retention.n_rules++;
    }
    if (rc != OTL_OK)
        cli_maintain_opts_fini(o);
    return rc;
}
