/* maintain_internal.h -- what the files of maintenance share: the maintainer, its tasks, the parts
 * that it is writing, and what it knows of series.
 *
 * maintain.c has the thread and decides what comes next; seal.c, merge.c, retention.c and vacuum.c
 * each do one thing. All of them run under maintainer.work, on whichever thread holds it. */
#ifndef OTLITE_STORE_MAINTAIN_INTERNAL_H
#define OTLITE_STORE_MAINTAIN_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "block.h"
#include "fault.h"
#include "head.h"
#include "merge_plan.h"
#include "otlite/db.h"
#include "otlite/log.h"
#include "otlite/maintain.h"
#include "part.h"

enum {
    /* Block bytes that one task inserts: 64 pages, one or two milliseconds. */
    TASK_BYTES = 256 << 10,
    /* And how many blocks: each is a row, be it ever so small. */
    TASK_BLOCKS = 256,
    /* What is held in memory while a snapshot is open. */
    HOLD_BYTES = 32 << 20
};

/* ---- what is known of a series ---- */

/* Of every series, by id: whether its points are increments, and which rule of retention it falls
 * under. Read once, then what is new. */
struct series_facts {
    int64_t *ids; /* ascending */
    uint16_t *facts;
    size_t n, cap;
    size_t hint; /* where the last one was found */
};
void series_facts_fini(struct series_facts *f);

struct maintainer;
enum otl_err series_facts_refresh(struct maintainer *m, struct otl_error *err) OTL_MUSTCHECK;
/* Place in facts.ids, or facts.n. */
size_t series_place(struct series_facts *f, int64_t series_id);
bool series_is_delta(struct maintainer *m, int64_t series_id);
/* Place in retention.rules, or n_rules: none matches. */
size_t series_rule(struct maintainer *m, int64_t series_id);
/* text matches a pattern with * (any run) and ? (any one character). */
bool pattern_matches(const char *pattern, const char *text);

/* ---- the maintainer ---- */

/* One (kind, resolution, day), and since when its newest part is known. */
struct part_group {
    enum series_kind kind;
    int resolution;
    int64_t day, newest_id, since_ns;
};

struct maintainer {
    struct maintain_opts opts;
    struct writer *writer;
    pthread_t thread;
    bool has_thread;

    pthread_mutex_t mu;  /* guards woken */
    pthread_cond_t wake; /* woken, or stopping */
    bool woken;
    atomic_bool stopping;

    pthread_mutex_t work; /* guards everything from here on */
    struct db db;         /* a read connection */
    struct head_reader *head;
    struct part_cache *cache;
    struct part_reader *parts;
    struct handoff handoff;
    struct write_job job;
    bool job_back;
    /* With max_bytes: what sealing had too little room by, as far as it is known; dropping leaves
     * so much more. */
    int64_t short_of;
    int full_rounds;   /* one after the other that ended for lack of room */
    bool making_room;  /* maintain_between does nothing */
    int64_t rested_ns; /* until when maintain_between rested last */
    bool hurry;        /* maintain_compact: no pauses */
    int64_t looked_ns; /* when closed halves were looked for last */
    struct series_facts facts;

    struct part_group *groups; /* by kind, resolution, day */
    size_t n_groups, cap_groups;
    int64_t *damaged; /* parts that a merge cannot read: left as they are */
    size_t n_damaged, cap_damaged;

    struct filtered_part { /* by id: a part, and how many ages have been applied to it */
        int64_t id;
        size_t ages;
    } * filtered;
    size_t n_filtered;

    int64_t half_pages;             /* pages that emptying a half set free, at most */
    int64_t retained_ns, budget_ns; /* when retention by age and by bytes ran last */
    bool collect;                   /* there may be garbage */
    bool forget;                    /* there may be series without points */
    int64_t forgot_ns;
    bool *seen; /* while forget_series looks: of the first n_seen of facts.ids, whether a part has
                   it */
    size_t n_seen;
    struct log_gate failure_gate, budget_gate;

    void (*progress)(void *arg, const char *text);
    void *progress_arg;
};

/* One round of what the thread does, on the caller's; *more: there is something left to do. Tests.
 */
enum otl_err maintain_round(struct maintainer *m, bool *more, struct otl_error *err) OTL_MUSTCHECK;

/* OTL_ESTOPPING once maintainer_stop was called, else OTL_OK. */
enum otl_err maintain_check(struct maintainer *m, struct otl_error *err) OTL_MUSTCHECK;
/* Run a task on the writer and wait for it. While another process has the lock it is tried again,
 * for some seconds; every other error is the task's. */
enum otl_err maintain_task(struct maintainer *m, store_task_fn *task, void *arg,
                           struct otl_error *err) OTL_MUSTCHECK;
/* Between two tasks of something long that can wait: rest as long as it worked, and seal what waits
 * for that meanwhile. Not inside a transaction of m->db. */
enum otl_err maintain_between(struct maintainer *m, struct otl_error *err) OTL_MUSTCHECK;
enum otl_err maintain_begin(struct maintainer *m, struct otl_error *err) OTL_MUSTCHECK;
void maintain_end(struct maintainer *m);
void maintain_progress(struct maintainer *m, const char *fmt, ...) OTL_PRINTF(2, 3);
bool part_is_damaged(const struct maintainer *m, int64_t id);
void part_note_damaged(struct maintainer *m, int64_t id);

/* ---- parts being written ---- */

struct part_batch;

/* One part. Zero-initialised and then part_output_init is empty. */
struct part_output {
    struct part_batch *batch;
    struct part_info info;    /* id 0: has no row yet */
    struct part_info in_task; /* as the task under way made it; counts when that is committed */
    struct block_writer *writer;
};

/* Finished blocks of several outputs on their way to the writer. */
struct part_batch {
    struct maintainer *m;
    const char *fault, *fault_commit; /* names of the step */
    struct buf bytes;
    struct pending_block {
        struct part_output *output;
        uint32_t number;
        struct block_info info;
        size_t at, n; /* in bytes */
    } * blocks;
    size_t n, cap;
    size_t task_first, task_n; /* of the blocks: those of the task under way */
    /* A snapshot is open, which keeps the log from being cut: blocks are kept in memory until the
     * flush that ends it, unless they are very many. */
    bool hold;
    bool between; /* maintain_between after each task */
};

void part_batch_init(struct part_batch *b, struct maintainer *m, const char *fault,
                     const char *fault_commit);
void part_batch_fini(struct part_batch *b);
/* Hand everything that waits to the writer. */
enum otl_err part_batch_flush(struct part_batch *b, struct otl_error *err) OTL_MUSTCHECK;

/* sequence 0: the next one. */
enum otl_err part_output_init(struct part_output *o, struct part_batch *b, enum series_kind kind,
                              int resolution, int64_t day, int64_t sequence,
                              struct otl_error *err) OTL_MUSTCHECK;
/* What is not handed over is dropped: garbage. */
void part_output_fini(struct part_output *o);
/* n points of a series from `first` on, in the order of series and times. */
enum otl_err part_output_add(struct part_output *o, int64_t series_id,
                             const struct series_points *p, size_t first, size_t n,
                             struct otl_error *err) OTL_MUSTCHECK;
/* No further points: the last block joins the batch. */
enum otl_err part_output_end(struct part_output *o, struct otl_error *err) OTL_MUSTCHECK;

/* When a day begins, or the first or last moment there is. */
static inline int64_t day_start(int64_t day)
{
    return day > INT64_MAX / PART_DAY_NS   ? INT64_MAX
           : day < INT64_MIN / PART_DAY_NS ? INT64_MIN
                                           : day * PART_DAY_NS;
}

/* ---- what is done ---- */

/* Seal all closed halves. */
enum otl_err seal_closed(struct maintainer *m, struct otl_error *err) OTL_MUSTCHECK;

/* The open halves too: they are closed first. */
enum otl_err seal_all(struct maintainer *m, struct otl_error *err) OTL_MUSTCHECK;

/* Merge n live parts, neighbours of one kind, resolution and day in the order of sequence, into
 * one; all: they are all parts of their group. keep may be NULL: which series' points stay. With
 * keep, n may be 1. The parts are dropped. */
typedef bool merge_keep_fn(void *arg, int64_t series_id);
struct merge_outcome {
    int64_t id;               /* of the new part; 0: nothing was left */
    uint64_t points, dropped; /* of it; that keep let go */
    struct merge_counts counts;
    /* Nothing was done: rollups of the same window overlap, and only with all parts of the group at
     * hand they can be made from raw points again. */
    bool wants_all;
};
enum otl_err merge_parts(struct maintainer *m, const struct part_info *parts, size_t n, bool all,
                         merge_keep_fn *keep, void *arg, struct merge_outcome *out,
                         struct otl_error *err) OTL_MUSTCHECK;
/* Find the next merge that is due and do it; force: everything to one part a group. */
enum otl_err merge_next(struct maintainer *m, bool force, bool *did,
                        struct otl_error *err) OTL_MUSTCHECK;
/* The live parts, by kind, resolution, day, sequence, in a copy that is the caller's to free. */
enum otl_err live_parts(struct maintainer *m, struct part_info **out, size_t *n,
                        struct otl_error *err) OTL_MUSTCHECK;
static inline bool same_group(const struct part_info *a, const struct part_info *b)
{
    return a->kind == b->kind && a->resolution == b->resolution && a->day == b->day;
}

/* What is too old goes. */
enum otl_err retain_by_age(struct maintainer *m, struct otl_error *err) OTL_MUSTCHECK;
/* What is too much goes. */
enum otl_err retain_by_bytes(struct maintainer *m, struct otl_error *err) OTL_MUSTCHECK;

/* May so many bytes be written before as many are dropped? */
enum otl_err retention_has_room(struct maintainer *m, uint64_t bytes, bool *out,
                                struct otl_error *err) OTL_MUSTCHECK;
/* With max_bytes: bytes in use that retain_by_bytes leaves at most. */
int64_t retention_room(const struct maintainer *m);

/* The directories of a part's blocks, one after the other, until visit gives false. OTL_ECORRUPT
 * without a report: reading and merging report it. */
typedef bool directory_fn(void *arg, const struct block_directory *dir);
enum otl_err each_directory(struct maintainer *m, const struct part_info *part, directory_fn *visit,
                            void *arg, struct otl_error *err) OTL_MUSTCHECK;
/* Delete the series that no part and no half has points of any more. */
enum otl_err forget_series(struct maintainer *m, struct otl_error *err) OTL_MUSTCHECK;

/* Delete garbage, give free pages back. */
enum otl_err collect_garbage(struct maintainer *m, struct otl_error *err) OTL_MUSTCHECK;
enum otl_err vacuum_free_pages(struct maintainer *m, int64_t keep_pages,
                               struct otl_error *err) OTL_MUSTCHECK;

#endif
