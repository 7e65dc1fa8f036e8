/* label_generation.h -- what the index of labels holds: the catalogue's four levels, numbered, and
 * their labels. Made by label_index.c, read by label_select.c and label_values.c.
 *
 * I1 Numbers ascend with ids, and nothing that has a number changes but the lists of what it has,
 * which only grow. So a reader that takes only series below its own limit sees its snapshot.
 *
 * I2 `lock` is held for reading by whoever reads arrays and lists, for writing while something is
 *    appended. Texts lie in blocks that do not move: they may be borrowed without it while a view
 * is open. No callback of a caller's runs under it but the check. */
#ifndef OTLITE_STORE_LABEL_GENERATION_H
#define OTLITE_STORE_LABEL_GENERATION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "otlite/attrs.h"
#include "otlite/batch.h"

#include "label_index.h"
#include "label_table.h"

/* Series [first, first + n) of a metric. */
struct series_run {
    uint32_t first, n;
};

/* The id stands first in each, so that one search serves all levels. */
struct index_resource {
    int64_t id;
    int64_t project_id;
    struct bytes service, attributes;
    struct postings metrics;
};
struct index_scope {
    int64_t id;
    uint32_t resource;
    struct bytes name;
};
struct index_metric {
    int64_t id;
    uint32_t scope, resource;
    struct bytes name, unit;
    enum metric_type type;
    enum temporality temporality;
    bool is_monotonic;
    struct series_run *runs; /* ascending */
    uint32_t n_runs, cap_runs;
    uint32_t n_series;
};
/* Attribute sets are kept once however many series have them. */
struct attribute_set {
    uint32_t hash, n;
    uint8_t canonical[];
};
struct index_series {
    int64_t id;
    const struct attribute_set *attributes;
    uint32_t metric;
};

struct label_generation {
    unsigned holders; /* the index's mutex guards it */
    bool broken;      /* no memory while something was appended: to be replaced; likewise */
    pthread_rwlock_t lock;
    struct label_memory memory;
    struct index_resource *resources;
    struct index_scope *scopes;
    struct index_metric *metrics;
    struct index_series *series;
    uint32_t n_resources, n_scopes, n_metrics, n_series;
    uint32_t cap_resources, cap_scopes, cap_metrics, cap_series;
    const struct attribute_set **sets; /* a hash table; half full at most */
    uint32_t n_sets, n_set_slots;
    struct label name, type, unit, scope; /* of metrics */
    struct label service;                 /* of resources */
    struct label_set resource_labels, point_labels;
    struct buf text;    /* scratch of who appends */
    uint32_t hints[16]; /* which label the i-th attribute of a series had last time */
};

struct label_view {
    struct label_index *index;
    struct label_generation *g;
    uint32_t limit; /* series below it are in the snapshot */
};

/* The number of an id among n elements of size bytes that begin with their ids; LABEL_NONE: none.
 */
uint32_t index_find(const void *elements, size_t size, uint32_t n, int64_t id);
/* How many of them have an id of at most id. */
uint32_t index_count_up_to(const void *elements, size_t size, uint32_t n, int64_t id);

static inline struct bytes index_attributes(const struct index_series *s)
{
    return bytes_of(s->attributes->canonical, s->attributes->n);
}

/* The text of a value; in scratch unless it is a string. false: no memory. */
bool index_value_text(const struct attr_value *v, struct buf *scratch, struct bytes *out);

/* ---- bits by number ---- */

static inline void bit_set(uint64_t *bits, uint32_t i)
{
    bits[i / 64] |= UINT64_C(1) << (i % 64);
}

static inline bool bit_is(const uint64_t *bits, uint32_t i)
{
    return (bits[i / 64] >> (i % 64) & 1) != 0;
}

static inline size_t bit_words(uint32_t n)
{
    return (size_t)n / 64 + 1;
}

/* How many of ids are below limit. */
uint32_t postings_below(const struct postings *p, uint32_t limit);

enum otl_err index_no_memory(struct otl_error *err);

static inline enum otl_err label_checked(const struct label_check *c, struct otl_error *err)
{
    return c != NULL && c->fn != NULL ? c->fn(c->arg, err) : OTL_OK;
}

#endif
