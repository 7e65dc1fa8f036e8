#include "cli/query_opts.h"

#include <string.h>

void cli_query_opts(const struct config *c, struct query_opts *o)
{
    static const char *const names[] = {"underscores-with-suffixes", "underscores-without-suffixes",
                                        "utf8-with-suffixes", "untranslated"};

    *o = (struct query_opts){
        .promote = (const char *const *)c->prometheus_promote,
        .promote_all = c->prometheus_promote_all,
        .scope_labels = c->prometheus_scope_labels,
        .classic_from_exponential = c->prometheus_classic,
        .lookback_ms = c->query_lookback,
        .timeout_ms = c->query_timeout,
        .max_samples = (uint64_t)c->query_max_samples,
        .max_series = (uint64_t)c->query_max_series,
        .max_memory = (size_t)c->query_max_memory,
    };
    for (int i = 0; i < 4; i++) {
        if (strcmp(c->prometheus_names, names[i]) == 0)
            o->names = (enum query_names)i;
    }
}
