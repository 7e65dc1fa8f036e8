#include "dedup.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

/* An index of one segment: a hash table of 32-bit slots, each the row's place in the segment and 20
 * bits of its key's hash. Half full at most, so that a search ends soon; the slot's own place adds
 * 13 bits to the 20, so that about one foreign key in a million is looked at in vain. */
enum {
    INDEX_SLOTS = 2 << DEDUP_SEGMENT_BITS,
    INDEX_TAG_SHIFT = DEDUP_SEGMENT_BITS,
    SCAN_INSTEAD = 4 << DEDUP_SEGMENT_BITS /* keys; measured, see docs/performance.md */
};

#define INDEX_EMPTY UINT32_MAX

struct dedup_entry {
    struct dedup_key key;
    uint64_t hash;
    int64_t stored_id;         /* 0: not stored */
    int stored_half;           /* of stored_id */
    uint32_t first, content;   /* the first point of the key, and the one whose values count */
    bool candidate;            /* may be stored */
    bool sealed, sealed_equal; /* in a part; with the values of the first point */
    bool changed;              /* the stored row has other values than content */
};

struct dedup_candidate {
    int64_t time;
    uint32_t entry;
};

static enum otl_err no_memory(struct otl_error *err)
{
    return otl_fail(err, OTL_ENOMEM, "recognise resends: no memory");
}

/* ---- indexes ---- */

__extension__ typedef unsigned __int128 u128;

static uint64_t mix(uint64_t a, uint64_t b)
{
    u128 m = (u128)a * b;

    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

/* Of three fixed words; one for each stored point. No input may make a factor 0 by choice, so both
 * are mixed with the seed. */
static uint64_t key_hash(const struct dedup *d, const struct dedup_key *k)
{
    const uint64_t c = UINT64_C(0xd6e8feb86659fd93);
    uint64_t h = mix((uint64_t)k->series_id ^ d->seed, (uint64_t)k->time ^ (d->seed + c));

    return mix(h ^ (uint64_t)k->start_time, d->seed | 1);
}

static int64_t segment_number(int64_t id)
{
    return (id - 1) >> DEDUP_SEGMENT_BITS;
}

/* The 20 bits in their place. No slot may look empty. */
static uint32_t index_tag(uint64_t hash)
{
    uint32_t tag = (uint32_t)(hash >> 44) << INDEX_TAG_SHIFT;

    return tag == (uint32_t)UINT32_MAX << INDEX_TAG_SHIFT ? 0 : tag;
}

static void index_add(uint32_t *index, uint64_t hash, int64_t id)
{
    uint32_t place = (uint32_t)(id - 1) & ((1u << DEDUP_SEGMENT_BITS) - 1);
    uint32_t i = (uint32_t)hash % INDEX_SLOTS;

    while (index[i] != INDEX_EMPTY)
        i = (i + 1) % INDEX_SLOTS;
    index[i] = index_tag(hash) | place;
}

/* The id of the next row of segment s that may have a key of this hash, or 0. *i: where to go on,
 * hash % INDEX_SLOTS at first. */
static int64_t index_next(const struct dedup_segment *s, uint64_t hash, uint32_t *i)
{
    while (s->index[*i] != INDEX_EMPTY) {
        uint32_t slot = s->index[*i];

        *i = (*i + 1) % INDEX_SLOTS;
        if (slot >> INDEX_TAG_SHIFT == index_tag(hash) >> INDEX_TAG_SHIFT)
            return segment_number(s->first_id) * (1 << DEDUP_SEGMENT_BITS) +
                   (slot & ((1u << DEDUP_SEGMENT_BITS) - 1)) + 1;
    }
    return 0;
}

/* An empty index for segment i, at the cost of the oldest one when there are enough. Without memory
 * the segment stays without one and is scanned instead. */
static void index_new(struct dedup_table *t, uint32_t i)
{
    uint32_t *index = malloc(INDEX_SLOTS * sizeof(*index));

    if (index == NULL)
        return;
    memset(index, 0xff, INDEX_SLOTS * sizeof(*index));
    if (t->n_indexes == DEDUP_MAX_INDEXES) {
        struct dedup_segment *oldest = &t->segments[t->indexes[t->first_index]];

        free(oldest->index);
        oldest->index = NULL;
        t->first_index = (t->first_index + 1) % DEDUP_MAX_INDEXES;
        t->n_indexes--;
    }
    t->indexes[(t->first_index + t->n_indexes) % DEDUP_MAX_INDEXES] = i;
    t->n_indexes++;
    t->segments[i].index = index;
}

/* Drop the indexes of segment i and all after it. */
static void index_drop_from(struct dedup_table *t, uint32_t i)
{
    uint32_t kept = 0;

    for (uint32_t j = 0; j < t->n_indexes; j++) {
        uint32_t segment = t->indexes[(t->first_index + j) % DEDUP_MAX_INDEXES];
        struct dedup_segment *s = &t->segments[segment];

        if (segment < i) {
            t->indexes[(t->first_index + kept++) % DEDUP_MAX_INDEXES] = segment;
        } else {
            free(s->index);
            s->index = NULL;
        }
    }
    t->n_indexes = kept;
}

/* The newest index is of no use: its segment could not be read whole. */
static void index_drop_newest(struct dedup_table *t)
{
    struct dedup_segment *s =
        &t->segments[t->indexes[(t->first_index + --t->n_indexes) % DEDUP_MAX_INDEXES]];

    free(s->index);
    s->index = NULL;
}

/* ---- segments ---- */

/* Room for the segments of rows ids more. */
static bool reserve_segments(struct dedup_table *t, uint64_t rows)
{
    uint64_t need = t->n + (rows >> DEDUP_SEGMENT_BITS) + 2;
    struct dedup_segment *p;

    if (need <= t->cap)
        return true;
    need += need / 2;
    if (need > UINT32_MAX)
        return false;
    p = realloc(t->segments, need * sizeof(*p));
    if (p == NULL)
        return false;
    t->segments = p;
    t->cap = (uint32_t)need;
    return true;
}

/* Note one more row. There is room for a segment; a new one gets an index, or not. */
static inline void append_key(const struct dedup *d, struct dedup_table *t, int64_t id,
                              const struct dedup_key *key, bool indexed)
{
    struct dedup_segment *s = t->n == 0 ? NULL : &t->segments[t->n - 1];

    if (s == NULL || segment_number(s->last_id) != segment_number(id)) {
        s = &t->segments[t->n++];
        *s = (struct dedup_segment){id, id, key->time, key->time, NULL};
        if (indexed)
            index_new(t, t->n - 1);
    } else {
        s->last_id = id;
        if (key->time < s->min_time)
            s->min_time = key->time;
        if (key->time > s->max_time)
            s->max_time = key->time;
    }
    t->last_id = id;
    if (s->index != NULL)
        index_add(s->index, key_hash(d, key), id);
}

enum otl_err dedup_open(struct dedup *d, struct db *db, struct catalogue *cat,
                        struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    d->db = db;
    d->cat = cat;
    d->seed = bytes_hash(bytes_str("points"), 0);
    for (int k = 0; k < POINT_KINDS; k++) {
        for (int h = 0; h < HEAD_HALVES && rc == OTL_OK; h++) {
            char sql[160];

            (void)snprintf(sql, sizeof(sql),
                           "SELECT id, series_id, time, start_time FROM %s WHERE id BETWEEN ? AND ?"
                           " ORDER BY id",
                           head_table_name((enum series_kind)k, h));
            rc = db_prepare(db, sql, &d->tables[k][h].scan, err);
        }
    }
    return rc;
}

void dedup_forget(struct dedup *d, enum point_kind kind, int half)
{
    struct dedup_table *t = &d->tables[kind][half];

    for (uint32_t i = 0; i < t->n; i++)
        free(t->segments[i].index);
    free(t->segments);
    *t = (struct dedup_table){.scan = t->scan};
}

void dedup_close(struct dedup *d)
{
    for (int k = 0; k < POINT_KINDS; k++) {
        for (int h = 0; h < HEAD_HALVES; h++) {
            dedup_forget(d, (enum point_kind)k, h);
            (void)sqlite3_finalize(d->tables[k][h].scan);
        }
    }
    free(d->entries);
    free(d->slots);
    free(d->candidates);
    free(d->plan.insert);
    free(d->plan.replacing);
    memset(d, 0, sizeof(*d));
}

/* ---- transactions ---- */

static void note_table(struct dedup_table *t)
{
    t->before.n = t->n;
    t->before.last_id = t->last_id;
    if (t->n > 0)
        t->before.last = t->segments[t->n - 1];
}

static void restore_table(struct dedup_table *t)
{
    /* An index that got rows of the transaction is dropped; what asks for its segment again makes a
     * new one of the rows that are left. */
    if (t->last_id != t->before.last_id)
        index_drop_from(t, t->before.n == 0 ? 0 : t->before.n - 1);
    t->n = t->before.n;
    t->last_id = t->before.last_id;
    if (t->n > 0) {
        uint32_t *index = t->segments[t->n - 1].index;

        t->segments[t->n - 1] = t->before.last;
        t->segments[t->n - 1].index = index;
    }
}

void dedup_begin(struct dedup *d)
{
    for (int k = 0; k < POINT_KINDS; k++) {
        for (int h = 0; h < HEAD_HALVES; h++)
            note_table(&d->tables[k][h]);
    }
}

void dedup_rollback(struct dedup *d)
{
    for (int k = 0; k < POINT_KINDS; k++) {
        for (int h = 0; h < HEAD_HALVES; h++)
            restore_table(&d->tables[k][h]);
    }
}

enum otl_err dedup_append(struct dedup *d, enum point_kind kind, int half, int64_t first_id,
                          const struct dedup_key *keys, const uint32_t *which, uint32_t n,
                          struct otl_error *err)
{
    struct dedup_table *t = &d->tables[kind][half];

    if (!reserve_segments(t, n))
        return no_memory(err);
    for (uint32_t i = 0; i < n; i++)
        append_key(d, t, first_id + i, &keys[which == NULL ? i : which[i]], true);
    return OTL_OK;
}

enum otl_err dedup_load(struct dedup *d, enum point_kind kind, int half, int64_t id,
                        const struct dedup_key *key, struct otl_error *err)
{
    struct dedup_table *t = &d->tables[kind][half];

    if (!reserve_segments(t, 1))
        return no_memory(err);
    append_key(d, t, id, key, false);
    return OTL_OK;
}

/* ---- looking up ---- */

/* Scratch for n points, with the table of keys empty. */
static bool reserve_points(struct dedup *d, uint32_t n)
{
    size_t slots = 16;

    while (slots < (size_t)n * 2)
        slots *= 2;
    if (n > d->cap_points) {
        free(d->entries);
        free(d->slots);
        free(d->candidates);
        free(d->plan.insert);
        free(d->plan.replacing);
        d->entries = malloc(n * sizeof(*d->entries));
        d->slots = malloc(slots * sizeof(*d->slots));
        d->candidates = malloc(n * sizeof(*d->candidates));
        d->plan.insert = malloc(n * sizeof(*d->plan.insert));
        d->plan.replacing = malloc(n * sizeof(*d->plan.replacing));
        d->cap_points = n;
        if (d->entries == NULL || d->slots == NULL || d->candidates == NULL ||
            d->plan.insert == NULL || d->plan.replacing == NULL) {
            d->cap_points = 0;
            return false;
        }
    }
    d->n_slots = slots;
    memset(d->slots, 0, slots * sizeof(*d->slots));
    return true;
}

/* The slot of a key: it holds the key's entry + 1, or 0 when the batch does not have the key. */
static uint32_t *find_slot(struct dedup *d, const struct dedup_key *key, uint64_t hash)
{
    size_t i = (size_t)hash & (d->n_slots - 1);

    while (d->slots[i] != 0) {
        const struct dedup_entry *e = &d->entries[d->slots[i] - 1];

        if (e->key.time == key->time && e->key.series_id == key->series_id &&
            e->key.start_time == key->start_time)
            break;
        i = (i + 1) & (d->n_slots - 1);
    }
    return &d->slots[i];
}

/* A stored row has this key; when it is a candidate's, note the row. Counts keys found for the
 * first time. The newer half is searched first, and within one the newest row counts. */
static void note_row(struct dedup *d, const struct dedup_key *key, uint64_t hash, int half,
                     int64_t id, uint32_t *found)
{
    uint32_t slot = *find_slot(d, key, hash);
    struct dedup_entry *e;

    if (slot == 0 || !d->entries[slot - 1].candidate)
        return;
    e = &d->entries[slot - 1];
    if (e->stored_id == 0) {
        (*found)++;
        e->stored_half = half;
    }
    if (e->stored_half == half && id > e->stored_id)
        e->stored_id = id;
}

/* Read the rows from first to last: note the candidates' and, when index is not NULL, index all. */
static enum otl_err scan_rows(struct dedup *d, enum point_kind kind, int half, int64_t first,
                              int64_t last, uint32_t *index, uint32_t *found, struct otl_error *err)
{
    struct sqlite3_stmt *st = d->tables[kind][half].scan;
    enum otl_err rc = OTL_OK;
    int step = sqlite3_bind_int64(st, 1, first);

    if (step == SQLITE_OK)
        step = sqlite3_bind_int64(st, 2, last);
    if (step != SQLITE_OK)
        return db_fail(d->db, step, "look for a resend", err);
    while ((step = sqlite3_step(st)) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(st, 0);
        struct dedup_key key = {sqlite3_column_int64(st, 1), sqlite3_column_int64(st, 2),
                                sqlite3_column_int64(st, 3)};
        uint64_t hash = key_hash(d, &key);

        if (index != NULL)
            index_add(index, hash, id);
        note_row(d, &key, hash, half, id, found);
    }
    if (step != SQLITE_DONE)
        rc = db_fail(d->db, step, "look for a resend", err);
    (void)sqlite3_reset(st);
    return rc;
}

/* Look for the candidates in a segment that has no index yet, and make it one. */
static enum otl_err scan_segment(struct dedup *d, enum point_kind kind, int half, uint32_t segment,
                                 uint32_t *found, struct otl_error *err)
{
    struct dedup_table *t = &d->tables[kind][half];
    const struct dedup_segment *s = &t->segments[segment];
    enum otl_err rc;

    index_new(t, segment);
    rc = scan_rows(d, kind, half, s->first_id, s->last_id, s->index, found, err);
    if (rc != OTL_OK && s->index != NULL)
        index_drop_newest(t);
    return rc;
}

static int by_time(const void *a, const void *b)
{
    const struct dedup_candidate *x = a, *y = b;

    return (x->time > y->time) - (x->time < y->time);
}

/* How many of n candidates, by time, are before a time. */
static uint32_t count_before(const struct dedup *d, uint32_t n, int64_t time)
{
    uint32_t lo = 0, hi = n;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (d->candidates[mid].time < time)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Look for the candidates (n, by time) in one segment: by its index, or by a scan that makes one.
 * For very many of them reading all rows is cheaper than asking the index for each. */
static enum otl_err search_segment(struct dedup *d, enum point_kind kind, int half,
                                   uint32_t segment, uint32_t n, uint32_t *found,
                                   struct otl_error *err)
{
    const struct dedup_segment *s = &d->tables[kind][half].segments[segment];
    uint32_t lo = count_before(d, n, s->min_time);
    uint32_t hi = s->max_time == INT64_MAX ? n : count_before(d, n, s->max_time + 1);
    enum otl_err rc = OTL_OK;

    if (s->index != NULL && hi - lo > SCAN_INSTEAD)
        return scan_rows(d, kind, half, s->first_id, s->last_id, NULL, found, err);
    for (uint32_t c = lo; c < hi && rc == OTL_OK; c++) {
        const struct dedup_entry *e = &d->entries[d->candidates[c].entry];
        uint32_t i = (uint32_t)e->hash % INDEX_SLOTS;
        int64_t id;

        if (e->stored_id != 0)
            continue;
        if (s->index == NULL)
            return scan_segment(d, kind, half, segment, found, err);
        while (rc == OTL_OK && (id = index_next(s, e->hash, &i)) != 0)
            rc = scan_rows(d, kind, half, id, id, NULL, found, err);
    }
    return rc;
}

/* The order of points in parts. */
static int by_series(const void *a, const void *b, void *arg)
{
    const struct dedup_entry *entries = arg;
    const struct dedup_key *x = &entries[((const struct dedup_candidate *)a)->entry].key;
    const struct dedup_key *y = &entries[((const struct dedup_candidate *)b)->entry].key;

    if (x->series_id != y->series_id)
        return x->series_id < y->series_id ? -1 : 1;
    return (x->time > y->time) - (x->time < y->time);
}

/* Look for the candidates that are in no half in the parts. */
static enum otl_err find_sealed(struct dedup *d, uint32_t n_candidates,
                                const struct dedup_compare *cmp, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;
    uint32_t n = 0;

    for (uint32_t c = 0; c < n_candidates; c++) {
        if (d->entries[d->candidates[c].entry].stored_id == 0)
            d->candidates[n++] = d->candidates[c];
    }
    if (n > 1)
        qsort_r(d->candidates, n, sizeof(*d->candidates), by_series, d->entries);
    for (uint32_t c = 0; c < n && rc == OTL_OK; c++) {
        struct dedup_entry *e = &d->entries[d->candidates[c].entry];

        rc = cmp->sealed(cmp->arg, e->first, &e->sealed, &e->sealed_equal, err);
    }
    return rc;
}

/* Find the stored rows of the candidates among n entries; newest segments first, because most
 * resends are recent, and because of rows with one key the newest counts. */
static enum otl_err find_stored(struct dedup *d, enum point_kind kind, int open_half, uint32_t n,
                                const struct dedup_compare *cmp, struct otl_error *err)
{
    uint32_t n_candidates = 0, found = 0;
    enum otl_err rc = OTL_OK;

    for (uint32_t i = 0; i < n; i++) {
        if (d->entries[i].candidate)
            d->candidates[n_candidates++] = (struct dedup_candidate){d->entries[i].key.time, i};
    }
    if (n_candidates == 0)
        return OTL_OK;
    qsort(d->candidates, n_candidates, sizeof(*d->candidates), by_time);
    for (int h = 0; h < HEAD_HALVES; h++) {
        int half = h == 0 ? open_half : 1 - open_half;

        for (uint32_t i = d->tables[kind][half].n; i-- > 0 && found < n_candidates && rc == OTL_OK;)
            rc = search_segment(d, kind, half, i, n_candidates, &found, err);
    }
    if (rc == OTL_OK && found < n_candidates)
        rc = find_sealed(d, n_candidates, cmp, err);
    return rc;
}

static bool is_stored(const struct dedup_entry *e)
{
    return e->stored_id != 0 || e->sealed;
}

/* What point i, whose key is e's, does to what is there before it. */
static enum otl_err settle(struct dedup *d, struct dedup_entry *e, uint32_t i,
                           const struct dedup_compare *cmp, struct otl_error *err)
{
    bool equal = false;
    enum otl_err rc = OTL_OK;

    if (i == e->first) {
        if (!is_stored(e))
            return OTL_OK; /* new */
        if (e->stored_id != 0)
            rc = cmp->stored(cmp->arg, i, e->stored_half, e->stored_id, &equal, err);
        else
            equal = e->sealed_equal;
    } else {
        rc = cmp->points(cmp->arg, e->content, i, &equal, err);
    }
    if (rc != OTL_OK)
        return rc;
    if (equal) {
        d->plan.merged++;
        return OTL_OK;
    }
    if (d->plan.replaced++ == 0)
        d->plan.replaced_example = i;
    e->content = i;
    e->changed = true;
    return OTL_OK;
}

enum otl_err dedup_resolve(struct dedup *d, enum point_kind kind, int open_half,
                           const struct dedup_key *keys, const uint32_t *series, const bool *late,
                           uint32_t n, const struct dedup_compare *cmp,
                           const struct dedup_plan **out, struct otl_error *err)
{
    struct dedup_plan *plan = &d->plan;
    uint32_t n_entries = 0;
    enum otl_err rc;

    if (!reserve_points(d, n))
        return no_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t hash = key_hash(d, &keys[i]);
        uint32_t *slot = find_slot(d, &keys[i], hash);

        if (*slot != 0)
            continue;
        d->entries[n_entries] = (struct dedup_entry){
            .key = keys[i],
            .hash = hash,
            .first = i,
            .content = i,
            .candidate = late[i] && !catalogue_is_new(d->cat, series[i]),
        };
        *slot = ++n_entries;
    }
    rc = find_stored(d, kind, open_half, n_entries, cmp, err);
    plan->merged = plan->replaced = 0;
    for (uint32_t i = 0; i < n && rc == OTL_OK; i++) {
        uint32_t slot = *find_slot(d, &keys[i], key_hash(d, &keys[i]));

        rc = settle(d, &d->entries[slot - 1], i, cmp, err);
    }
    plan->n_insert = plan->n_replacing = 0;
    for (uint32_t i = 0; i < n_entries; i++) {
        const struct dedup_entry *e = &d->entries[i];

        if (!is_stored(e) || e->changed)
            plan->insert[plan->n_insert++] = e->content;
        if (is_stored(e) && e->changed)
            plan->replacing[plan->n_replacing++] = e->content;
    }
    if (rc == OTL_OK)
        *out = plan;
    return rc;
}
