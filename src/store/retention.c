/* retention.c -- what is too old goes, and what is too much.
 *
 * By age: a part all of whose points are too old is dropped, which is one row. A series whose rule
 * keeps it for a shorter time than others is taken out of a part when the rule has passed the whole
 * part, so each part is written again once for each age at most, and a point lives up to a day
 * longer than its age.
 *
 * By bytes: free pages of the file are used again before it grows, so what counts is the pages in
 * use. They are kept below the budget by what the log, the next seal and a merge may take. What is
 * dropped is whole parts, the oldest first. */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "maintain_internal.h"
#include "otlite/clock.h"
#include "otlite/stats.h"
#include "rollup.h"

enum {
    DROP_PARTS = 64, /* a task */
    FRONT_BYTES = 64,
    /* Share of the budget that is kept free: a merge needs room for what it makes. */
    ROOM_SHARE = 8
};

/* ---- dropping ---- */

struct drop {
    const struct part_info *parts;
    size_t n;
};

static enum otl_err drop(void *arg, struct store *s, struct db *db, struct otl_error *err)
{
    const struct drop *d = arg;
    enum otl_err rc = OTL_OK;

    (void)s;
    for (size_t i = 0; i < d->n && rc == OTL_OK; i++)
        rc = part_drop(db, d->parts[i].id, err);
    return rc == OTL_OK ? fault_point("retention.drop.commit", err) : rc;
}

/* Why: for the log. */
static enum otl_err drop_parts(struct maintainer *m, const struct part_info *parts, size_t n,
                               const char *why, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    for (size_t at = 0; at < n && rc == OTL_OK; at += DROP_PARTS) {
        struct drop d = {parts + at, n - at < DROP_PARTS ? n - at : DROP_PARTS};

        rc = fault_point("retention.drop", err);
        m->collect = true;
        m->forget = true;
        if (rc == OTL_OK)
            rc = maintain_task(m, drop, &d, err);
        for (size_t i = 0; i < d.n && rc == OTL_OK; i++) {
            STATS_ADD(points_expired, d.parts[i].points);
            LOG(LOG_INFO, "retention", why, LOG_S("kind", series_schemas[d.parts[i].kind].name),
                LOG_I("resolution", d.parts[i].resolution), LOG_I("day", d.parts[i].day),
                LOG_I("points", d.parts[i].points), LOG_I("bytes", d.parts[i].bytes));
        }
    }
    return rc;
}

/* ---- by age ---- */

static int64_t shorter(int64_t a, int64_t b)
{
    return a == 0 ? b : b == 0 ? a : a < b ? a : b;
}

/* How long points of a kind are kept under rule number `rule` (n_rules: none), ms; 0: for ever. */
static int64_t age_of(const struct retention *r, enum series_kind kind, int resolution, size_t rule)
{
    int64_t age = rule < r->n_rules ? r->rules[rule].max_age_ms : r->max_age_ms;

    if (resolution == ROLLUP_5M)
        return r->rollup_5m_age_ms;
    if (resolution == ROLLUP_1H)
        return r->rollup_1h_age_ms;
    if (kind == KIND_EXEMPLAR)
        return shorter(age, r->exemplar_age_ms);
    return age;
}

/* Is a part (or what else ends then) past this age? */
static bool past(const struct part_info *p, int64_t age_ms, int64_t now)
{
    int64_t length = p->resolution * NS_PER_S;

    return age_ms > 0 && age_ms < now / NS_PER_MS &&
           p->max_time < now - age_ms * NS_PER_MS - length;
}

/* How many rules, the default among them, a part is past; *all: everything in it is. */
static size_t ages_past(const struct maintainer *m, const struct part_info *p, int64_t now,
                        bool *all)
{
    const struct retention *r = &m->opts.retention;
    size_t n = 0;

    for (size_t rule = 0; rule <= r->n_rules; rule++)
        n += past(p, age_of(r, p->kind, p->resolution, rule), now);
    *all = n == r->n_rules + 1;
    return n;
}

struct keep {
    struct maintainer *m;
    const struct part_info *part;
    int64_t now;
    bool any; /* there are points to go */
};

static bool keep_series(void *arg, int64_t series_id)
{
    struct keep *k = arg;
    size_t rule = series_rule(k->m, series_id);

    return !past(k->part, age_of(&k->m->opts.retention, k->part->kind, k->part->resolution, rule),
                 k->now);
}

/* The directory of a block, without reading what follows it. OTL_ECORRUPT without a report: reading
 * and merging report it. */
static enum otl_err read_directory(struct maintainer *m, sqlite3_blob *blob, struct buf *head,
                                   struct block_directory *out, struct otl_error *err)
{
    int size = sqlite3_blob_bytes(blob), front = size < FRONT_BYTES ? size : FRONT_BYTES;
    size_t want;
    int step;

    buf_reset(head);
    if (!buf_reserve(head, FRONT_BYTES))
        return otl_fail(err, OTL_ENOMEM, "read a block: no memory");
    step = sqlite3_blob_read(blob, head->p, front, 0);
    if (step != SQLITE_OK)
        return db_fail(&m->db, step, "read a block", err);
    want = block_head_bytes(bytes_of(head->p, (size_t)front));
    if (want == 0 || want > (size_t)size)
        return otl_fail(err, OTL_ECORRUPT, "a block's head is damaged");
    if (!buf_reserve(head, want))
        return otl_fail(err, OTL_ENOMEM, "read a block: no memory");
    step = sqlite3_blob_read(blob, head->p, (int)want, 0);
    if (step != SQLITE_OK)
        return db_fail(&m->db, step, "read a block", err);
    return block_directory_open(bytes_of(head->p, want), out, err);
}

enum otl_err each_directory(struct maintainer *m, const struct part_info *part, directory_fn *visit,
                            void *arg, struct otl_error *err)
{
    struct buf head = {0};
    sqlite3_blob *blob = NULL;
    bool go_on = true;
    enum otl_err rc = OTL_OK;

    for (uint64_t i = 0; i < part->blocks && go_on && rc == OTL_OK; i++) {
        int64_t id = (part->id << PART_BLOCK_BITS) | (int64_t)i;
        struct block_directory dir = {0};
        int step = blob == NULL
                       ? sqlite3_blob_open(m->db.sql, "main", "block", "data", id, 0, &blob)
                       : sqlite3_blob_reopen(blob, id);

        rc = maintain_check(m, err);
        if (rc == OTL_OK && step != SQLITE_OK)
            rc = otl_fail(err, OTL_ECORRUPT, "block %lld cannot be read", (long long)id);
        if (rc == OTL_OK)
            rc = read_directory(m, blob, &head, &dir, err);
        if (rc == OTL_OK)
            go_on = visit(arg, &dir);
        block_directory_fini(&dir);
    }
    (void)sqlite3_blob_close(blob);
    buf_fini(&head);
    return rc;
}

static bool look_for_any(void *arg, const struct block_directory *dir)
{
    struct keep *k = arg;

    for (uint32_t c = 0; c < dir->n && !k->any; c++)
        k->any = !keep_series(k, dir->chunks[c].series_id);
    return !k->any;
}

static int compare_filtered(const void *a, const void *b)
{
    const struct filtered_part *x = a, *y = b;

    return (x->id > y->id) - (x->id < y->id);
}

static size_t ages_applied(const struct maintainer *m, int64_t id)
{
    const struct filtered_part key = {.id = id};
    const struct filtered_part *f = m->n_filtered == 0 ? NULL
                                                       : bsearch(&key, m->filtered, m->n_filtered,
                                                                 sizeof(key), compare_filtered);

    return f == NULL ? 0 : f->ages;
}

/* Take the series out whose age has passed, if there are any; *id: of the part that holds the rest.
 */
static enum otl_err filter_part(struct maintainer *m, const struct part_info *part, int64_t now,
                                int64_t *id, struct otl_error *err)
{
    struct keep k = {m, part, now, false};
    struct merge_outcome outcome;
    enum otl_err rc = each_directory(m, part, look_for_any, &k, err);

    *id = part->id;
    if (rc != OTL_OK || !k.any)
        return rc;
    rc = merge_parts(m, part, 1, true, keep_series, &k, &outcome, err);
    if (rc != OTL_OK)
        return rc;
    *id = outcome.id;
    m->forget = true;
    STATS_ADD(points_expired, outcome.dropped);
    LOG(LOG_INFO, "retention", "dropped points of series past their age",
        LOG_S("kind", series_schemas[part->kind].name), LOG_I("day", part->day),
        LOG_I("points", outcome.dropped), LOG_I("left", outcome.points));
    return OTL_OK;
}

/* Parts that are past some ages, and not all. Remembers which, so that each is looked through once.
 */
static enum otl_err filter_parts(struct maintainer *m, const struct part_info *parts, size_t n,
                                 int64_t now, struct otl_error *err)
{
    struct filtered_part *list = malloc((n + 1) * sizeof(*list));
    size_t n_list = 0;
    enum otl_err rc = OTL_OK;

    if (list == NULL)
        return otl_fail(err, OTL_ENOMEM, "retention: no memory");
    for (size_t i = 0; i < n && rc == OTL_OK; i++) {
        bool all;
        size_t ages = ages_past(m, &parts[i], now, &all);
        int64_t id = parts[i].id;

        if (ages == 0 || all || parts[i].resolution != 0)
            continue;
        if (ages > ages_applied(m, id) && !part_is_damaged(m, id)) {
            rc = filter_part(m, &parts[i], now, &id, err);
            if (rc == OTL_ECORRUPT) {
                part_note_damaged(m, parts[i].id);
                rc = OTL_OK;
            }
        }
        if (rc == OTL_OK && id != 0)
            list[n_list++] = (struct filtered_part){id, ages};
    }
    if (rc != OTL_OK) {
        free(list);
        return rc;
    }
    qsort(list, n_list, sizeof(*list), compare_filtered);
    free(m->filtered);
    m->filtered = list;
    m->n_filtered = n_list;
    return OTL_OK;
}

enum otl_err retain_by_age(struct maintainer *m, struct otl_error *err)
{
    int64_t now = clock_wall_ns();
    struct part_info *parts = NULL, *old = NULL;
    size_t n = 0, n_old = 0;
    enum otl_err rc = live_parts(m, &parts, &n, err);

    if (rc == OTL_OK) {
        old = malloc((n + 1) * sizeof(*old));
        if (old == NULL)
            rc = otl_fail(err, OTL_ENOMEM, "retention: no memory");
    }
    /* A part goes only with those before it in its group: it may hold the newer value of a point
     * that one of them has, too, and that would show again. */
    for (size_t i = 1; i < n; i++) {
        if (same_group(&parts[i - 1], &parts[i]) && parts[i].max_time < parts[i - 1].max_time)
            parts[i].max_time = parts[i - 1].max_time;
    }
    for (size_t i = 0; i < n && rc == OTL_OK; i++) {
        bool all;

        (void)ages_past(m, &parts[i], now, &all);
        if (all)
            old[n_old++] = parts[i];
    }
    if (rc == OTL_OK)
        rc = drop_parts(m, old, n_old, "dropped a part past its age", err);
    if (rc == OTL_OK && m->opts.retention.n_rules > 0)
        rc = series_facts_refresh(m, err);
    if (rc == OTL_OK && m->opts.retention.n_rules > 0)
        rc = filter_parts(m, parts, n, now, err);
    free(parts);
    free(old);
    return rc;
}

/* ---- by bytes ---- */

/* Pages in use, as bytes. */
static enum otl_err used_bytes(struct maintainer *m, int64_t *out, struct otl_error *err)
{
    int64_t pages = 0, free_pages = 0, size = 0;
    enum otl_err rc = db_query_int(&m->db, "PRAGMA page_count", &pages, err);

    if (rc == OTL_OK)
        rc = db_query_int(&m->db, "PRAGMA freelist_count", &free_pages, err);
    if (rc == OTL_OK)
        rc = db_query_int(&m->db, "PRAGMA page_size", &size, err);
    *out = (pages - free_pages) * size;
    return rc;
}

/* Which of two goes first: raw points, by day; then the rollups, the finer ones first. Of a day the
 * oldest part, so that none that stays is one whose points a dropped one had replaced. */
static bool goes_before(const struct part_info *a, const struct part_info *b)
{
    if (a->resolution != b->resolution)
        return a->resolution < b->resolution;
    if (a->day != b->day)
        return a->day < b->day;
    if (a->kind == b->kind)
        return a->sequence < b->sequence;
    return a->min_time < b->min_time;
}

static enum otl_err drop_oldest(struct maintainer *m, bool *dropped, struct otl_error *err)
{
    struct part_info *parts = NULL;
    size_t n = 0, first = 0;
    enum otl_err rc = live_parts(m, &parts, &n, err);

    *dropped = false;
    for (size_t i = 1; i < n && rc == OTL_OK; i++) {
        if (goes_before(&parts[i], &parts[first]))
            first = i;
    }
    if (rc == OTL_OK && n > 0) {
        rc = drop_parts(m, &parts[first], 1, "dropped the oldest part: retention.max_bytes", err);
        *dropped = rc == OTL_OK;
    }
    free(parts);
    return rc;
}

int64_t retention_room(const struct maintainer *m)
{
    int64_t max = m->opts.retention.max_bytes;

    return max - writer_log_share(max) - writer_task_share(max) - max / ROOM_SHARE;
}

enum otl_err retention_has_room(struct maintainer *m, uint64_t bytes, bool *out,
                                struct otl_error *err)
{
    int64_t max = m->opts.retention.max_bytes, used = 0;
    enum otl_err rc = OTL_OK;

    *out = true;
    if (max == 0)
        return OTL_OK;
    rc = used_bytes(m, &used, err);
    *out = rc == OTL_OK && bytes < (uint64_t)max &&
           used + (int64_t)bytes <= max - writer_log_share(max) - writer_task_share(max);
    return rc;
}

enum otl_err retain_by_bytes(struct maintainer *m, struct otl_error *err)
{
    int64_t limit = retention_room(m) - m->short_of, used = 0;
    bool dropped = true;
    uint64_t held;
    enum otl_err rc;

    /* Sealing may fail for lack of what is made here, so it waits. */
    m->making_room = true;
    rc = collect_garbage(m, err);
    if (rc == OTL_OK)
        rc = used_bytes(m, &used, err);
    while (rc == OTL_OK && used > limit) {
        rc = drop_oldest(m, &dropped, err);
        if (rc != OTL_OK || !dropped)
            break;
        rc = collect_garbage(m, err);
        if (rc == OTL_OK)
            rc = used_bytes(m, &used, err);
    }
    m->making_room = false;
    if (rc == OTL_OK && m->short_of > 0)
        LOG(LOG_DEBUG, "retention", "made more room, which sealing was short of",
            LOG_I("used_bytes", used), LOG_I("short_of", m->short_of));
    if (rc == OTL_OK && used > limit && log_gate_open(&m->budget_gate, 60 * NS_PER_S, &held))
        LOG(LOG_WARN, "retention",
            "there is no part left to drop, and what is not sealed yet takes more than "
            "retention.max_bytes leaves; requests may be refused",
            LOG_I("used_bytes", used), LOG_I("max_bytes", m->opts.retention.max_bytes));
    return rc;
}
