/* read.h -- the one way to read what is stored: select series, scan their points, aggregate them by
 * windows. SQL functions, export, the HTTP APIs and the tools all stand on it.
 *
 * A read is one query in one snapshot: what was committed before read_begin is in it, nothing later.
 * It has a deadline, a budget of memory, and a flag that ends it. Doubles may be NaN and infinite
 * everywhere. Times are nanoseconds since 1970; ranges are [from, to), and an end of INT64_MAX is none:
 * a point of that time is in. */
#ifndef OTLITE_READ_H
#define OTLITE_READ_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "otlite/batch.h"
#include "otlite/bytes.h"
#include "otlite/db.h"
#include "otlite/err.h"

struct head_mirror;
struct series_points; /* otlite/series_points.h */

/* ---- what all readers of a process share ---- */

struct read_shared; /* cache of parts, index of labels, mirror of the head; thread-safe */
/* mirror: the store's (store_mirror), or NULL in a process without the writer; borrowed. cache_bytes: of
 * parts. */
enum otl_err read_shared_new(struct head_mirror *mirror, size_t cache_bytes,
                             struct read_shared **out, struct otl_error *err) OTL_MUSTCHECK;
void read_shared_free(struct read_shared *s);

/* One connection's side of it: statements, the parts of the snapshot. One thread at a time. */
struct read_session;
enum otl_err read_session_open(struct read_shared *s, struct db *db, struct read_session **out,
                               struct otl_error *err) OTL_MUSTCHECK;
void read_session_close(struct read_session *s);

/* ---- one query ---- */

struct read_limits {
    int64_t deadline_ns;        /* monotonic clock; 0: none. OTL_ELATE beyond */
    size_t max_bytes;           /* of memory for results and scratch; 0: no limit. OTL_ETOOBIG beyond */
    const atomic_bool *cancel;  /* may be NULL; true ends it with OTL_ECANCELLED */
};
struct read;
/* begin: start a read transaction of its own; else the caller has one open on the connection. */
enum otl_err read_begin(struct read_session *s, const struct read_limits *limits, bool begin,
                        struct read **out, struct otl_error *err) OTL_MUSTCHECK;
/* Ends the transaction if read_begin began it. Takes NULL. */
void read_end(struct read *r);
/* For loops of the caller's: OTL_OK, OTL_ELATE or OTL_ECANCELLED. */
enum otl_err read_check(struct read *r, struct otl_error *err) OTL_MUSTCHECK;
/* Account for memory of the caller's against the budget; a negative n gives back. */
enum otl_err read_charge(struct read *r, int64_t n, struct otl_error *err) OTL_MUSTCHECK;

/* ---- series ---- */

enum match_what {
    MATCH_NAME,      /* the metric's name */
    MATCH_SERVICE,   /* resource.service_name */
    MATCH_TYPE,      /* metric.type: "gauge", "sum", ... */
    MATCH_UNIT,
    MATCH_RESOURCE,  /* resource attribute `key` */
    MATCH_SCOPE,     /* scope's name */
    MATCH_ATTRIBUTE, /* point attribute `key` */
    MATCH_ANY        /* point attribute `key`, else resource attribute `key` */
};
enum match_op { MATCH_EQUAL, MATCH_NOT_EQUAL, MATCH_REGEX, MATCH_NOT_REGEX };
/* Values are compared as text: strings as they are, integers and doubles as JSON has them, true and
 * false, others as their JSON; what JSON writes as a string (NaN, bytes) without its quotes. An attribute
 * that is absent has the value "". Regular expressions are RE2's and match the whole value. */
struct matcher {
    enum match_what what;
    enum match_op op;
    struct bytes key, value;
};

/* Ascending ids. Owner of its memory. */
struct series_list {
    int64_t *ids;
    size_t n, cap;
};
void series_list_fini(struct series_list *l);
/* The series of a project (0: all) that match all matchers. OTL_EBADREQUEST: a regular expression that
 * is none, with place and reason. out is empty or reused. */
enum otl_err read_select(struct read *r, int64_t project_id, const struct matcher *m, size_t n,
                         struct series_list *out, struct otl_error *err) OTL_MUSTCHECK;
/* `name{key="value",key!="value",key=~"re",key!~"re"}`, or `{...}`: keys `__name__`, `service`, `type`,
 * `unit`, `scope`, `resource.KEY`, `attribute.KEY`, others MATCH_ANY; keys that are no identifiers (dots
 * are none the less part of one) in quotes, and so may be the name: `{"name",...}`. Matchers
 * and their text are malloced at once in *mem. OTL_EBADREQUEST: what is wrong, at which character. */
enum otl_err matchers_parse(struct bytes text, struct matcher **out, size_t *n, void **mem,
                            struct otl_error *err) OTL_MUSTCHECK;

/* What a series is. Borrowed from the shared index until read_end. */
struct series_info {
    int64_t id, metric_id, scope_id, resource_id, project_id;
    enum metric_type type;
    enum temporality temporality;
    bool is_monotonic;
    struct bytes name, unit, service;
    struct bytes attributes, resource_attributes; /* canonical (attrs.h) */
    struct bytes scope_name;
};
/* false: no such series in the snapshot. */
bool read_series_info(struct read *r, int64_t series_id, struct series_info *out);
/* Distinct values (text as above, the empty one left out) of what `what` and key name, over the series
 * of l (NULL: all of the project), sorted; or the attribute keys that occur, for MATCH_ATTRIBUTE,
 * MATCH_RESOURCE or MATCH_ANY with an empty key. emit's bytes are borrowed during the call; an error from it ends the walk. */
enum otl_err read_values(struct read *r, int64_t project_id, const struct series_list *l,
                         enum match_what what, struct bytes key,
                         enum otl_err (*emit)(void *arg, struct bytes value, struct otl_error *err),
                         void *arg, struct otl_error *err) OTL_MUSTCHECK;

/* ---- the catalogue ---- */

/* These may tell of more than the snapshot has, never of less. What they give is borrowed until read_end;
 * an error from emit ends the walk. */
struct metric_info {
    int64_t id, project_id;
    enum metric_type type;
    enum temporality temporality;
    bool is_monotonic;
    struct bytes name, unit;
};
/* The metrics with an id greater than after, by id. Ids of metrics are never used twice. */
enum otl_err read_metrics(struct read *r, int64_t after,
                          enum otl_err (*emit)(void *arg, const struct metric_info *m,
                                               struct otl_error *err),
                          void *arg, struct otl_error *err) OTL_MUSTCHECK;
struct resource_info {
    int64_t id, project_id;
    struct bytes service, attributes; /* canonical */
};
/* The resources of a project (0: all), by id. */
enum otl_err read_resources(struct read *r, int64_t project_id,
                            enum otl_err (*emit)(void *arg, const struct resource_info *info,
                                                 struct otl_error *err),
                            void *arg, struct otl_error *err) OTL_MUSTCHECK;
/* The series of a resource that the snapshot has. out is empty or reused. */
enum otl_err read_resource_series(struct read *r, int64_t resource_id, struct series_list *out,
                                  struct otl_error *err) OTL_MUSTCHECK;
/* The keys of all attributes of points (MATCH_ATTRIBUTE) or of resources (MATCH_RESOURCE), in no order. */
enum otl_err read_keys(struct read *r, enum match_what what,
                       enum otl_err (*emit)(void *arg, struct bytes key, struct otl_error *err),
                       void *arg, struct otl_error *err) OTL_MUSTCHECK;

/* Read from the file each time. text holds what the bytes borrow. OTL_ECORRUPT: it is not there. */
struct scope_info {
    struct bytes name, version, schema_url, attributes; /* canonical */
};
enum otl_err read_scope(struct read *r, int64_t scope_id, struct buf *text, struct scope_info *out,
                        struct otl_error *err) OTL_MUSTCHECK;
/* What a metric says of itself, appended: its description, and its metadata as canonical attributes. */
enum otl_err read_description(struct read *r, int64_t metric_id, struct buf *description,
                              struct buf *metadata, struct otl_error *err) OTL_MUSTCHECK;
/* The bounds of explicit histograms (HISTOGRAM_BOUNDS_ID, not 0). *out is malloced. */
enum otl_err read_bounds(struct read *r, int64_t bounds_id, double **out, size_t *n,
                         struct otl_error *err) OTL_MUSTCHECK;

/* ---- points ---- */

/* When a series has points: the first and the last time in a range; no points: first > last. */
struct time_extent {
    int64_t first, last;
};
/* Of each series (ascending ids) in [from, to), of a kind of points: out has room for n. What is damaged is left out. Reads the
 * directories of blocks, and of points only those of chunks that lie across an end of the range. */
enum otl_err read_extents(struct read *r, int kind, const int64_t *series, size_t n, int64_t from,
                          int64_t to, struct time_extent *out, struct otl_error *err) OTL_MUSTCHECK;

/* All points of a kind (enum series_kind; its exemplars with KIND_EXEMPLAR) of one series in [from, to),
 * head and parts merged, appended to out in the order of keys. */
enum otl_err read_points(struct read *r, int kind, int64_t series_id, int64_t from, int64_t to,
                         struct series_points *out, struct otl_error *err) OTL_MUSTCHECK;
/* The same for many series, in the order of ids; series without points are left out. Reads each block
 * once. p is reused when emit returns. series NULL: all. */
enum otl_err read_scan(struct read *r, int kind, const int64_t *series, size_t n, int64_t from,
                       int64_t to,
                       enum otl_err (*emit)(void *arg, int64_t series_id,
                                            const struct series_points *p, struct otl_error *err),
                       void *arg, struct otl_error *err) OTL_MUSTCHECK;

/* What is known of points without decoding them: each has a value that is not NaN. */
struct number_summary {
    int64_t first_time, last_time;
    enum value_kind first_kind, last_kind;
    int64_t first, last;  /* int64 or bits */
    double sum, min, max; /* sum is finite, in the order of time */
};
/* Points of one series of numbers, as columns that are valid until the call returns. */
struct number_run {
    size_t n; /* at least 1 */
    const struct number_summary *summary; /* not NULL: it is all there is of these points */
    const int64_t *time;
    const int64_t *value; /* an int64, the bits of a double, or 0 */
    const uint8_t *kind;  /* enum value_kind of each; NULL: all are `all` */
    enum value_kind all;
    const int64_t *flags; /* NULL: all are 0 */
};
enum { NUMBER_SLOTS = 8 };
/* Where numbers go. Where it pays a second thread reads ahead: run is called on any one thread, and
 * what it makes lies in a slot, below NUMBER_SLOTS, until series has had it on the caller's thread.
 * Until read_numbers returns, neither may read anything: of all that is here only read_check and
 * read_charge are for them. */
struct number_sink {
    /* The first run of a series begins a slot, which is free; the following ones go on in it, in the
     * order of keys. */
    enum otl_err (*run)(void *arg, unsigned slot, int64_t series_id, const struct number_run *r,
                        struct otl_error *err);
    /* The slot has all of that series; in the order of ids. */
    enum otl_err (*series)(void *arg, unsigned slot, int64_t series_id, struct otl_error *err);
    void *arg;
    /* Ascending; n_edges 0: all points are wanted. Else those between two edges (an edge is the
     * first time behind it) are wanted as a whole, and where a chunk holds only such points it is
     * given by its summary, unless points follow each other faster than this on average. */
    const int64_t *edges;
    size_t n_edges;
    int64_t least_interval; /* ns */
    bool no_reset;          /* nor where a value may be below the one before it */
};
/* As read_scan of KIND_NUMBER, for who wants times and values only. */
enum otl_err read_numbers(struct read *r, const int64_t *series, size_t n, int64_t from, int64_t to,
                          const struct number_sink *sink, struct otl_error *err) OTL_MUSTCHECK;

/* Rollup rows (KIND_NUMBER_ROLLUP, KIND_HISTOGRAM_ROLLUP) of a resolution in seconds, windows in [from,
 * to) that are whole: from rollup parts where there are some, made from raw points elsewhere. Merged to
 * one row a window. */
enum otl_err read_rollups(struct read *r, int kind, int resolution, const int64_t *series, size_t n,
                          int64_t from, int64_t to,
                          enum otl_err (*emit)(void *arg, int64_t series_id,
                                               const struct series_points *p,
                                               struct otl_error *err),
                          void *arg, struct otl_error *err) OTL_MUSTCHECK;

/* ---- windows over numbers ---- */

/* What falls into one window of one group. */
struct window {
    uint64_t count; /* values that are not NaN */
    uint64_t n_nan;
    double sum, min, max; /* over count; 0 when it is 0 */
    double increase;      /* sum over the group's series: growth within the window, each value against the
                             one before it in its series, which may lie before the window (and before
                             from, by at most look_back); a reset counts from 0. For delta temporality
                             it is the sum. */
    double first, last;   /* of the series with the least/greatest time; NaN counts; ties: greater id */
    int64_t first_time, last_time; /* 0 when there is none */
};

struct window_query {
    const int64_t *series; /* ascending */
    const uint32_t *group; /* of each, below n_groups; NULL: all in group 0 */
    size_t n;
    uint32_t n_groups;
    int64_t from, to, step; /* windows [from + i * step, + step), the last one cut at to; step 0: one */
    int64_t look_back;      /* ns before `from` to look for the value before the first, for increase */
    bool want_increase;     /* false: increase is 0 and cheaper */
    bool skip_extremes;     /* min and max are not asked for: what they say is nobody's business */
    bool skip_ends;         /* likewise first, last and their times */
};
/* How it was answered, for tests, EXPLAIN and the curious. */
struct window_cost {
    uint64_t chunks_by_summary, chunks_decoded, rollup_chunks, head_points;
    int resolution; /* of the rollups used; 0: raw */
};
/* windows: n_groups * ceil((to - from) / step), group by group; *out is malloced and charged to the
 * budget (their sizes; read_charge gives it back). cost may be NULL.
 * A chunk that lies in one window is answered by its summary. Rollups are used where every window
 * begins at a multiple of 1 h or 5 min (with one window: for the whole ones in it). Of days whose raw
 * points retention took they are all there is: NaN is not counted, first and last skip it, windows
 * that are shorter or begin elsewhere have nothing, and so has what is left of the last window behind
 * its last whole rollup. What is damaged is left out.
 * Sums are of doubles, in an order that depends on how points lie in chunks, not on time alone. */
enum otl_err read_windows(struct read *r, const struct window_query *q, struct window **out,
                          struct window_cost *cost, struct otl_error *err) OTL_MUSTCHECK;

#endif
