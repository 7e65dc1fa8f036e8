/* query.h -- the Prometheus HTTP API without HTTP: one endpoint, its parameters, and the JSON that
 * answers it. What the routes of the daemon and `otlite query` call. Source: Prometheus 3, "HTTP
 * API". */
#ifndef OTLITE_QUERY_H
#define OTLITE_QUERY_H

#include <stdatomic.h>
#include <stdint.h>

#include "otlite/bytes.h"
#include "otlite/err.h"
#include "otlite/read.h"

/* As Prometheus' otlp.translation_strategy has them; numbers of enum name_strategy. */
enum query_names {
    QUERY_NAMES_UNDERSCORES_WITH_SUFFIXES,
    QUERY_NAMES_UNDERSCORES_WITHOUT_SUFFIXES,
    QUERY_NAMES_UTF8_WITH_SUFFIXES,
    QUERY_NAMES_UNTRANSLATED
};

struct query_opts {
    enum query_names names;
    const char *const
        *promote; /* resource attributes that become labels; NULL-terminated or NULL */
    bool promote_all;
    bool scope_labels;
    bool classic_from_exponential;
    int64_t lookback_ms;
    int64_t timeout_ms;   /* of a query; `timeout` may shorten it */
    uint64_t max_samples; /* read of one series, or held, at once */
    uint64_t max_series;  /* of a selector */
    size_t max_memory;    /* of a query */
    const char *config;   /* what status/config shows; borrowed; may be NULL */
};

/* Shared by all queries of a process; thread-safe. What o points to is borrowed. */
struct query_engine;
enum otl_err query_engine_new(const struct query_opts *o, struct query_engine **out,
                              struct otl_error *err) OTL_MUSTCHECK;
void query_engine_free(struct query_engine *q);

enum query_endpoint {
    QUERY_INSTANT,      /* query */
    QUERY_RANGE,        /* query_range */
    QUERY_SERIES,       /* series */
    QUERY_LABELS,       /* labels */
    QUERY_LABEL_VALUES, /* label/NAME/values */
    QUERY_METADATA,     /* metadata */
    QUERY_EXEMPLARS,    /* query_exemplars */
    QUERY_FORMAT,       /* format_query */
    QUERY_PARSE,        /* parse_query */
    QUERY_BUILDINFO,    /* status/buildinfo */
    QUERY_TSDB,         /* status/tsdb */
    QUERY_CONFIG,       /* status/config */
    QUERY_FLAGS,        /* status/flags */
    QUERY_RUNTIMEINFO,  /* status/runtimeinfo */
    QUERY_TARGETS,      /* targets */
    QUERY_RULES,        /* rules */
    QUERY_ALERTS        /* alerts */
};

struct query_param {
    struct bytes name, value; /* decoded */
};
struct query_request {
    enum query_endpoint endpoint;
    int64_t project_id; /* 0: all */
    struct bytes label; /* QUERY_LABEL_VALUES: NAME, decoded */
    const struct query_param *params;
    size_t n_params;
    int64_t now_ms;
    const atomic_bool *cancel; /* may be NULL */
};

/* The answer to r, an error too, as JSON behind what is in out (out->failed: no memory). Returns
 * its HTTP status. begin: no transaction is open on the session's connection. */
int query_answer(struct query_engine *q, struct read_session *session, bool begin,
                 const struct query_request *r, struct buf *out);
/* An error that came before there was anything to ask, in the same form. */
int query_answer_error(const struct otl_error *err, struct buf *out);

/* "5m", "1h30m", "90" or "1.5" (seconds) to ms: as parameters and options have it. */
bool query_duration(struct bytes text, int64_t *out_ms);

#endif
