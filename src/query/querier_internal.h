/* querier_internal.h -- how the parts of the querier fit together.
 *
 * A metric as people name it is a `family`: project, name, unit, type, monotonic. A family has up
 * to four names of series (its variants). Selecting picks variants of families by __name__, asks
 * the store for the series of those, builds their labels and tries the other matchers on these.
 * What is found is `stored` series and their `sources`: each source is what one stored series gives
 * to one shown series. Scanning decodes a stored series once for all of its sources. */
#ifndef OTLITE_QUERY_QUERIER_INTERNAL_H
#define OTLITE_QUERY_QUERIER_INTERNAL_H

#include <pthread.h>

#include "histogram.h"
#include "otlite/attrs.h"
#include "otlite/matcher.h"
#include "otlite/read.h"
#include "otlite/series_points.h"
#include "querier.h"
#include "value.h"

enum variant {
    VARIANT_PLAIN,  /* the family's own name: numbers, quantiles, native histograms */
    VARIANT_BUCKET, /* name_bucket, with le */
    VARIANT_SUM,    /* name_sum */
    VARIANT_COUNT,  /* name_count */
    VARIANTS
};

#define TARGET_INFO "target_info"

enum otl_err querier_no_memory(struct otl_error *err);
/* Why the arena gave nothing: OTL_ETOOBIG or OTL_ENOMEM. */
enum otl_err querier_arena_failed(const struct arena *a, struct otl_error *err);

/* Times of read.h that hold what is in [from_ms, to_ms]. */
int64_t querier_ns_from(int64_t from_ms);
int64_t querier_ns_to(int64_t to_ms);

/* ---- families (querier_names.c) ---- */

struct family {
    int64_t project_id;
    enum metric_type type;
    bool is_monotonic;
    struct bytes name, unit;
    struct bytes
        names[NAME_STRATEGIES + 1]; /* by each strategy and its own; n 0: nothing is left */
    uint64_t hash;
    int64_t metric_id; /* of one of its metrics, the latest; changes: family_table_metric */
};

/* All families; append-only. A family never moves and changes only its metric_id, so that it may be
 * read when the lock is released. */
struct family_table {
    pthread_rwlock_t lock;
    struct family **families;
    uint32_t n, cap;
    uint32_t *slots; /* index + 1 */
    uint32_t n_slots;
    int64_t last_metric; /* metrics up to it are in */
};
bool family_table_init(struct family_table *t);
void family_table_fini(struct family_table *t);
/* Take in the metrics that r has and the table lacks. */
enum otl_err family_table_refresh(struct family_table *t, struct read *r,
                                  struct otl_error *err) OTL_MUSTCHECK;
#define FAMILY_NONE UINT32_MAX
uint32_t family_table_find(struct family_table *t, const struct series_info *s);
const struct family *family_table_get(struct family_table *t, uint32_t i);
int64_t family_table_metric(struct family_table *t, uint32_t i);
uint32_t family_table_size(struct family_table *t);
/* Bits of the variants that series of the type have. */
unsigned family_variants(const struct family *f, bool classic_from_exponential);
const char *variant_suffix(enum variant v);

/* ---- labels of stored series (querier_labels.c) ---- */

struct label_cache;
struct label_cache *label_cache_new(size_t max_bytes); /* NULL: no memory */
void label_cache_free(struct label_cache *c);
size_t label_cache_bytes(struct label_cache *c);
/* Labels by the id of a stored series, or the negative id of a resource (target_info's), with a
 * number that goes with them; in the arena. */
enum otl_err label_cache_get(struct label_cache *c, int64_t id, struct arena *a, bool *found,
                             uint32_t *family, struct labels *out,
                             struct otl_error *err) OTL_MUSTCHECK;
/* Without memory they are not kept. */
void label_cache_put(struct label_cache *c, int64_t id, uint32_t family, struct labels l);

/* Labels under way: pairs of names and values in one text. Zeroed is empty; reusable. */
struct label_builder {
    struct buf text;
    struct label_place {
        size_t name_at, name_n, value_at, value_n;
    } * places;
    size_t n, cap;
    bool failed;
};
void label_builder_fini(struct label_builder *b);
void label_builder_reset(struct label_builder *b);
/* A label; of one name the last counts, and an empty one is none. */
void label_builder_set(struct label_builder *b, struct bytes name, struct bytes value);
/* Attributes by P-20 to P-23, those that share a name joined. only_free: names that are there stay.
 */
void label_builder_attributes(struct label_builder *b, enum name_strategy strategy,
                              struct bytes canonical, bool only_free,
                              bool (*wanted)(const void *arg, struct bytes key), const void *arg);
/* In the arena, with their texts, sorted. */
enum otl_err label_builder_take(struct label_builder *b, struct arena *a, struct labels *out,
                                struct otl_error *err) OTL_MUSTCHECK;
/* job and instance. */
void label_builder_target(struct label_builder *b, struct bytes resource_attributes);
/* A value as a label has it; an empty attribute is no text. */
void label_value_text(const struct attr_value *v, struct buf *out);
bool is_promoted(const struct querier_opts *o, struct bytes key);

/* The labels of a stored series but for __name__ and le, in the querier's arena; from the cache. */
enum otl_err series_base_labels(struct querier *q, const struct series_info *s, uint32_t *family,
                                struct labels *out, struct otl_error *err) OTL_MUSTCHECK;
/* base with a name, and with one more label unless it has no name; those take precedence. */
enum otl_err labels_complete(struct arena *a, struct labels base, struct bytes metric_name,
                             struct label extra, struct labels *out,
                             struct otl_error *err) OTL_MUSTCHECK;

/* ---- matchers (querier_match.c) ---- */

struct compiled_matcher {
    const struct label_matcher *m;
    struct value_matcher vm;
    bool is_name;    /* of __name__ */
    bool is_bound;   /* of le or quantile */
    bool has_number; /* is_bound, = or !=: the value is the number */
    double number;
};
struct compiled_matchers {
    struct compiled_matcher *c;
    size_t n;
};
enum otl_err matchers_compile(const struct label_matcher *m, size_t n,
                              struct compiled_matchers *out, struct otl_error *err) OTL_MUSTCHECK;
void matchers_fini(struct compiled_matchers *c);
/* Whether a name fits all matchers of __name__. */
enum otl_err matchers_try_name(struct querier *q, const struct compiled_matchers *c,
                               struct bytes name, bool *out, struct otl_error *err) OTL_MUSTCHECK;
/* All matchers but those of __name__, on labels without it. s: whose attributes' own keys are
 * labels too; NULL: none. skip: a label whose matchers are not tried ("": none). */
enum otl_err matchers_try(struct querier *q, const struct compiled_matchers *c, struct labels base,
                          const struct series_info *s, struct bytes skip, bool *out,
                          struct otl_error *err) OTL_MUSTCHECK;
/* Those of le or quantile on the value of a bucket or a quantile. */
enum otl_err matchers_try_bound(const struct compiled_matchers *c, struct bytes label, double bound,
                                struct bytes text, bool *out, struct otl_error *err) OTL_MUSTCHECK;
/* Variants (bits) by index of family of what the matchers of __name__ fit; malloced. *all: there
 * are no such matchers. */
enum otl_err matchers_pick(struct querier *q, const struct compiled_matchers *c, uint8_t **variants,
                           uint32_t *n, bool *all, struct otl_error *err) OTL_MUSTCHECK;
/* The store's series among which those that match are. *none: there can be none. */
enum otl_err matchers_select(struct querier *q, const struct compiled_matchers *c,
                             const uint8_t *variants, uint32_t n_variants, bool all,
                             struct series_list *out, struct otl_error *err) OTL_MUSTCHECK;

/* ---- what was selected (querier_select.c) ---- */

#define SERIES_NONE UINT32_MAX

struct source {
    uint32_t series; /* of the set; SERIES_NONE: it is not asked for */
    enum variant variant;
    double bound; /* le, or the quantile */
};
struct stored {
    int64_t id;
    enum series_kind kind;
    bool delta, is_monotonic;
    bool joined;       /* some of its shown series have other sources too */
    uint32_t first, n; /* sources; buckets ascend by bound, the last is +Inf */
    uint32_t group;    /* joined: those that have series in common, by union-find */
};
/* target_info of a resource. */
struct target {
    uint32_t series;
    int64_t *t; /* ms; malloced */
    size_t n;
};
struct selected {
    struct series_set set; /* first: the caller has a pointer to it */
    struct selected *next; /* of the querier's */
    struct stored *stored; /* ascending ids */
    size_t n_stored, cap_stored;
    struct source *sources;
    size_t n_sources, cap_sources;
    struct target *targets;
    size_t n_targets, cap_targets;
    int64_t charged;
};

/* ---- one query ---- */

struct bounds {
    int64_t id;
    size_t n;
    const double *le;         /* ascending; without +Inf */
    const struct bytes *text; /* of each */
    struct bounds *next;
};

struct querier {
    struct querier_shared *shared;
    struct read *r;
    int64_t project_id;
    struct arena *arena;
    struct selected *sets;
    struct label_builder builder;
    struct buf text;       /* scratch */
    struct buf scope_text; /* of scope */
    struct scope_info scope;
    int64_t scope_id; /* whose that is; 0: none */
    struct bounds *bounds;
    bool has_keys;                            /* the following are filled in */
    struct bytes *point_keys, *resource_keys; /* in the arena */
    size_t n_point_keys, n_resource_keys;
};

struct querier_shared {
    struct querier_opts opts;
    const char **promote; /* copies */
    struct family_table families;
    struct label_cache *labels;
};

/* What a set of the caller's is of; NULL: it is not of this query. */
struct selected *querier_set_of(struct querier *q, const struct series_set *s);
/* The bounds of that id; id 0: none. */
enum otl_err querier_bounds(struct querier *q, int64_t id, const struct bounds **out,
                            struct otl_error *err) OTL_MUSTCHECK;

/* ---- which bounds and quantiles stored series have in a range (querier_bounds.c) ---- */

struct found_bounds {
    double *values; /* ascending, distinct; in the arena */
    size_t n;
};
/* Of each of ids (ascending, of one kind), out has room for n. Those of explicit histograms end
 * with +Inf; so do those of exponential ones, by P-34. No points in the range: none. */
enum otl_err querier_find_bounds(struct querier *q, enum series_kind kind, const int64_t *ids,
                                 size_t n, int64_t from_ms, int64_t to_ms, struct found_bounds *out,
                                 struct otl_error *err) OTL_MUSTCHECK;

/* ---- samples (querier_decode.c and querier_native.c) ---- */

/* One source's samples. Owner of its memory and of the histograms. */
struct sample_column {
    int64_t *t;
    double *v;
    struct prom_histogram **h; /* NULL until there is one */
    uint32_t *weight;          /* likewise of samples that stand for others */
    size_t n, cap;
};
void sample_column_fini(struct sample_column *c);
void sample_column_reset(struct sample_column *c);
bool sample_column_reserve(struct sample_column *c, size_t n) OTL_MUSTCHECK;
/* Append, in the order of times; of one time the last counts. Room was reserved. */
void sample_column_add(struct sample_column *c, int64_t t, double v);
/* Takes h; false: no memory, and it does not. */
bool sample_column_add_histogram(struct sample_column *c, int64_t t,
                                 struct prom_histogram *h) OTL_MUSTCHECK;

/* Numbers, appended to their one source's column. total: of a delta's points so far; else NULL.
 * False: no memory. */
bool decode_number_run(const struct number_run *r, double *total,
                       struct sample_column *c) OTL_MUSTCHECK;
/* A summary as what stands for it. */
bool decode_summary(const struct number_run *r, enum digest what,
                    struct sample_column *c) OTL_MUSTCHECK;
/* p of another stored series to the columns of its sources, which are empty. base: what running
 * totals begin with, one a source; NULL: it is not delta. */
enum otl_err decode_points(struct querier *q, const struct stored *s, const struct source *sources,
                           const double *base, const struct series_points *p,
                           struct sample_column *columns, struct otl_error *err) OTL_MUSTCHECK;
/* The part of it for exponential histograms; totals NULL: not delta. */
enum otl_err decode_exponential(struct querier *q, const struct stored *s,
                                const struct source *sources, double *totals,
                                const struct series_points *p, struct sample_column *columns,
                                struct otl_error *err) OTL_MUSTCHECK;
/* The buckets of point i that are not empty, by P-34, ascending: which values they hold, and how
 * many there are up to their upper bounds. Into *out, malloced and reused, room for *cap. */
struct exponential_bucket {
    double lower, upper, below;
};
enum otl_err exponential_buckets_of(const struct series_points *p, size_t i,
                                    struct exponential_bucket **out, size_t *n, size_t *cap,
                                    struct otl_error *err) OTL_MUSTCHECK;

/* ---- running totals of deltas (querier_delta.c) ---- */

/* What all delta series of the set were before from_ms: one a source, malloced, charged to r by its
 * size; NULL when there is none. */
enum otl_err querier_bases(struct querier *q, const struct selected *s, int64_t from_ms,
                           double **out, struct otl_error *err) OTL_MUSTCHECK;

/* ---- target_info (querier_target.c) ---- */

/* Calls add for each resource whose target_info fits the matchers and has samples in the range; it
 * takes t, malloced and charged to r by its size. */
enum otl_err querier_targets(struct querier *q, const struct compiled_matchers *c, int64_t from_ms,
                             int64_t to_ms,
                             enum otl_err (*add)(void *arg, struct labels l, int64_t *t, size_t n,
                                                 struct otl_error *err),
                             void *arg, struct otl_error *err) OTL_MUSTCHECK;

#endif
