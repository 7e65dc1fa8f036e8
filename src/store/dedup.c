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
    int64_t stored_id;       /* 0: not stored */
    uint32_t first, content; /* the first point of the key, and the one whose values count */
    bool candidate;          /* may be stored */
    bool changed;            /* the stored row has other values than content */
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

/* Note one more row. There is room for a segment. */
static inline void append_key(const struct dedup *d, struct dedup_table *t, int64_t id,
                              const struct dedup_key *key)
{
    struct dedup_segment *s = t->n == 0 ? NULL : &t->segments[t->n - 1];

    if (s == NULL || segment_number(s->last_id) != segment_number(id)) {
        s = &t->segments[t->n++];
        *s = (struct dedup_segment){id, id, key->time, key->time, NULL};
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

static bool is_closed(const struct dedup_table *t, uint32_t i)
{
    return i + 1 < t->n ||
           segment_number(t->segments[i].last_id) != segment_number(t->segments[i].last_id + 1);
}

/* ---- the latest times, saved ----
 * For every series of the type that has points, in order of ids: varint of the id's distance from
 * the one before, then zigzag varint of the time's. */

static void add_varint(struct buf *b, uint64_t v)
{
    uint8_t s[10];
    size_t n = 0;

    while (v >= 0x80) {
        s[n++] = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    s[n++] = (uint8_t)v;
    buf_add(b, s, n);
}

static bool take_varint(struct bytes *in, uint64_t *out)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 64 && in->n > 0; shift += 7) {
        uint8_t c = *in->p++;

        in->n--;
        v |= (uint64_t)(c & 0x7f) << shift;
        if (c < 0x80) {
            *out = v;
            return true;
        }
    }
    return false;
}

static void times_encode(const struct dict *series, enum point_kind kind, struct buf *out)
{
    uint64_t id = 0, time = 0;

    buf_reset(out);
    for (uint32_t i = 0; i < series->n; i++) {
        const struct dict_entry *e = &series->entries[i];
        uint64_t delta;

        if (e->note.series.kind != (uint32_t)kind || e->note.series.last_time == INT64_MIN)
            continue;
        /* Unsigned, so that any two times have a difference. */
        delta = (uint64_t)e->note.series.last_time - time;
        add_varint(out, (uint64_t)e->id - id);
        add_varint(out, delta << 1 ^ (0 - (delta >> 63)));
        id = (uint64_t)e->id;
        time = (uint64_t)e->note.series.last_time;
    }
}

static void raise_last_time(struct catalogue *cat, int64_t series_id, int64_t time)
{
    uint32_t entry = dict_find_id(&cat->dicts[CAT_SERIES], series_id);
    union dict_note *note;

    if (entry == DICT_NONE)
        return; /* a row without a series can be the resend of no point */
    note = &catalogue_series(cat, entry)->note;
    if (time > note->series.last_time)
        note->series.last_time = time;
}

static bool times_decode(struct catalogue *cat, struct bytes in)
{
    uint64_t id = 0, time = 0, v;

    while (in.n > 0) {
        if (!take_varint(&in, &v))
            return false;
        id += v;
        if (!take_varint(&in, &v))
            return false;
        time += v >> 1 ^ (0 - (v & 1));
        raise_last_time(cat, (int64_t)id, (int64_t)time);
    }
    return true;
}

/* ---- reading what is stored ---- */

/* Take in the rows after row id after: those past last_id become segments, all raise last_time. */
static enum otl_err read_rows(struct dedup *d, enum point_kind kind, int64_t after,
                              struct otl_error *err)
{
    struct dedup_table *t = &d->tables[kind];
    enum otl_err rc = OTL_OK;
    int step = sqlite3_bind_int64(t->scan, 1, after + 1);

    if (step == SQLITE_OK)
        step = sqlite3_bind_int64(t->scan, 2, INT64_MAX);
    if (step != SQLITE_OK)
        return db_fail(d->db, step, "read points", err);
    while ((step = sqlite3_step(t->scan)) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(t->scan, 0);
        struct dedup_key key = {sqlite3_column_int64(t->scan, 1), sqlite3_column_int64(t->scan, 2),
                                sqlite3_column_int64(t->scan, 3)};

        raise_last_time(d->cat, key.series_id, key.time);
        if (id <= t->last_id)
            continue;
        if (!reserve_segments(t, 1)) {
            rc = no_memory(err);
            break;
        }
        append_key(d, t, id, &key);
    }
    if (rc == OTL_OK && step != SQLITE_DONE)
        rc = db_fail(d->db, step, "read points", err);
    (void)sqlite3_reset(t->scan);
    return rc;
}

/* A statement that reads what is kept of one table; its type is the parameter. */
static enum otl_err prepare_for(struct dedup *d, enum point_kind kind, const char *sql,
                                struct sqlite3_stmt **st, struct otl_error *err)
{
    enum otl_err rc = db_prepare(d->db, sql, st, err);
    int bound;

    if (rc != OTL_OK)
        return rc;
    bound = sqlite3_bind_text(*st, 1, point_tables[kind].type, -1, SQLITE_STATIC);
    if (bound != SQLITE_OK) {
        rc = db_fail(d->db, bound, "bind the type of a table", err);
        (void)sqlite3_finalize(*st);
    }
    return rc;
}

static enum otl_err load_segments(struct dedup *d, enum point_kind kind, struct otl_error *err)
{
    static const char SQL[] = "SELECT first_id, last_id, min_time, max_time FROM point_segment"
                              " WHERE type = ? ORDER BY first_id";
    struct dedup_table *t = &d->tables[kind];
    struct sqlite3_stmt *st;
    enum otl_err rc = prepare_for(d, kind, SQL, &st, err);
    int step;

    if (rc != OTL_OK)
        return rc;
    while ((step = sqlite3_step(st)) == SQLITE_ROW) {
        if (!reserve_segments(t, 1)) {
            rc = no_memory(err);
            break;
        }
        t->segments[t->n++] =
            (struct dedup_segment){sqlite3_column_int64(st, 0), sqlite3_column_int64(st, 1),
                                   sqlite3_column_int64(st, 2), sqlite3_column_int64(st, 3), NULL};
        t->last_id = t->segments[t->n - 1].last_id;
    }
    if (rc == OTL_OK && step != SQLITE_DONE)
        rc = db_fail(d->db, step, "read point_segment", err);
    (void)sqlite3_finalize(st);
    t->n_persisted = t->n;
    return rc;
}

static enum otl_err load_times(struct dedup *d, enum point_kind kind, struct otl_error *err)
{
    static const char SQL[] = "SELECT up_to_id, last_times FROM series_last_time WHERE type = ?";
    struct sqlite3_stmt *st;
    enum otl_err rc = prepare_for(d, kind, SQL, &st, err);
    int step;

    if (rc != OTL_OK)
        return rc;
    step = sqlite3_step(st);
    if (step == SQLITE_ROW) {
        const void *p = sqlite3_column_blob(st, 1);
        size_t n = p == NULL ? 0 : (size_t)sqlite3_column_bytes(st, 1);

        /* Malformed: what was read is not wrong, only incomplete, and all rows are read again. */
        if (times_decode(d->cat, bytes_of(p, n)))
            d->tables[kind].saved_id = sqlite3_column_int64(st, 0);
    } else if (step != SQLITE_DONE) {
        rc = db_fail(d->db, step, "read series_last_time", err);
    }
    (void)sqlite3_finalize(st);
    return rc;
}

enum otl_err dedup_open(struct dedup *d, struct db *db, struct catalogue *cat,
                        struct otl_error *err)
{
    enum otl_err rc;

    d->db = db;
    d->cat = cat;
    d->seed = bytes_hash(bytes_str("points"), 0);
    rc = db_prepare(db,
                    "INSERT OR REPLACE INTO point_segment(type, first_id, last_id, min_time,"
                    " max_time) VALUES (?, ?, ?, ?, ?)",
                    &d->insert_segment, err);
    if (rc == OTL_OK)
        rc = db_prepare(db,
                        "INSERT OR REPLACE INTO series_last_time(type, up_to_id, last_times)"
                        " VALUES (?, ?, ?)",
                        &d->save_times, err);
    for (int k = 0; k < POINT_KINDS && rc == OTL_OK; k++) {
        struct dedup_table *t = &d->tables[k];
        char sql[160];

        (void)snprintf(sql, sizeof(sql),
                       "SELECT id, series_id, time, start_time FROM %s WHERE id BETWEEN ? AND ?"
                       " ORDER BY id",
                       point_tables[k].name);
        rc = db_prepare(db, sql, &t->scan, err);
        if (rc == OTL_OK)
            rc = load_segments(d, (enum point_kind)k, err);
        if (rc == OTL_OK)
            rc = load_times(d, (enum point_kind)k, err);
        if (rc == OTL_OK)
            rc = read_rows(d, (enum point_kind)k,
                           t->saved_id < t->last_id ? t->saved_id : t->last_id, err);
    }
    return rc;
}

void dedup_close(struct dedup *d)
{
    for (int k = 0; k < POINT_KINDS; k++) {
        struct dedup_table *t = &d->tables[k];

        (void)sqlite3_finalize(t->scan);
        for (uint32_t i = 0; i < t->n; i++)
            free(t->segments[i].index);
        free(t->segments);
    }
    (void)sqlite3_finalize(d->insert_segment);
    (void)sqlite3_finalize(d->save_times);
    buf_fini(&d->times);
    free(d->entries);
    free(d->slots);
    free(d->candidates);
    free(d->plan.insert);
    free(d->plan.update);
    memset(d, 0, sizeof(*d));
}

enum otl_err dedup_refresh(struct dedup *d, struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    for (int k = 0; k < POINT_KINDS && rc == OTL_OK; k++)
        rc = read_rows(d, (enum point_kind)k, d->tables[k].last_id, err);
    return rc;
}

/* ---- transactions ---- */

void dedup_begin(struct dedup *d)
{
    for (int k = 0; k < POINT_KINDS; k++) {
        struct dedup_table *t = &d->tables[k];

        t->before.n = t->n;
        t->before.n_persisted = t->n_persisted;
        t->before.last_id = t->last_id;
        t->before.saved_id = t->saved_id;
        if (t->n > 0)
            t->before.last = t->segments[t->n - 1];
    }
}

enum otl_err dedup_append(struct dedup *d, enum point_kind kind, const struct dedup_key *keys,
                          const uint32_t *which, uint32_t n, struct otl_error *err)
{
    struct dedup_table *t = &d->tables[kind];

    if (!reserve_segments(t, n))
        return no_memory(err);
    for (uint32_t i = 0; i < n; i++)
        append_key(d, t, t->last_id + 1, &keys[which == NULL ? i : which[i]]);
    return OTL_OK;
}

static enum otl_err save_times(struct dedup *d, enum point_kind kind, struct otl_error *err)
{
    struct dedup_table *t = &d->tables[kind];
    int rc;

    times_encode(&d->cat->dicts[CAT_SERIES], kind, &d->times);
    if (d->times.failed)
        return no_memory(err);
    rc = sqlite3_bind_text(d->save_times, 1, point_tables[kind].type, -1, SQLITE_STATIC);
    rc |= sqlite3_bind_int64(d->save_times, 2, t->last_id);
    rc |= sqlite3_bind_blob64(d->save_times, 3, d->times.p, d->times.n, SQLITE_STATIC);
    if (rc != SQLITE_OK) {
        (void)sqlite3_clear_bindings(d->save_times);
        return otl_fail(err, OTL_EDB, "the latest times of %u series do not fit in a row",
                        d->cat->dicts[CAT_SERIES].n);
    }
    t->saved_id = t->last_id;
    return db_run(d->db, d->save_times, "save the series' latest times", err);
}

enum otl_err dedup_persist(struct dedup *d, struct otl_error *err)
{
    int64_t due = (int64_t)d->cat->dicts[CAT_SERIES].n * 4;
    enum otl_err rc = OTL_OK;

    if (due < DEDUP_SAVE_ROWS)
        due = DEDUP_SAVE_ROWS;
    for (int k = 0; k < POINT_KINDS && rc == OTL_OK; k++) {
        struct dedup_table *t = &d->tables[k];

        while (rc == OTL_OK && t->n_persisted < t->n && is_closed(t, t->n_persisted)) {
            const struct dedup_segment *s = &t->segments[t->n_persisted];
            struct sqlite3_stmt *st = d->insert_segment;
            int b = sqlite3_bind_text(st, 1, point_tables[k].type, -1, SQLITE_STATIC);

            b |= sqlite3_bind_int64(st, 2, s->first_id);
            b |= sqlite3_bind_int64(st, 3, s->last_id);
            b |= sqlite3_bind_int64(st, 4, s->min_time);
            b |= sqlite3_bind_int64(st, 5, s->max_time);
            if (b != SQLITE_OK)
                return db_fail(d->db, SQLITE_NOMEM, "note a segment", err);
            rc = db_run(d->db, st, "note a segment", err);
            t->n_persisted++;
        }
        if (rc == OTL_OK && t->last_id - t->saved_id >= due)
            rc = save_times(d, (enum point_kind)k, err);
    }
    return rc;
}

void dedup_rollback(struct dedup *d)
{
    for (int k = 0; k < POINT_KINDS; k++) {
        struct dedup_table *t = &d->tables[k];

        /* An index that got rows of the transaction is dropped; what asks for its segment again
         * makes a new one of the rows that are left. */
        if (t->last_id != t->before.last_id)
            index_drop_from(t, t->before.n == 0 ? 0 : t->before.n - 1);
        t->n = t->before.n;
        t->n_persisted = t->before.n_persisted;
        t->last_id = t->before.last_id;
        t->saved_id = t->before.saved_id;
        if (t->n > 0) {
            uint32_t *index = t->segments[t->n - 1].index;

            t->segments[t->n - 1] = t->before.last;
            t->segments[t->n - 1].index = index;
        }
    }
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
        free(d->plan.update);
        d->entries = malloc(n * sizeof(*d->entries));
        d->slots = malloc(slots * sizeof(*d->slots));
        d->candidates = malloc(n * sizeof(*d->candidates));
        d->plan.insert = malloc(n * sizeof(*d->plan.insert));
        d->plan.update = malloc(n * sizeof(*d->plan.update));
        d->cap_points = n;
        if (d->entries == NULL || d->slots == NULL || d->candidates == NULL ||
            d->plan.insert == NULL || d->plan.update == NULL) {
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
 * first time. */
static void note_row(struct dedup *d, const struct dedup_key *key, uint64_t hash, int64_t id,
                     uint32_t *found)
{
    uint32_t slot = *find_slot(d, key, hash);
    struct dedup_entry *e;

    if (slot == 0 || !d->entries[slot - 1].candidate)
        return;
    e = &d->entries[slot - 1];
    if (e->stored_id == 0)
        (*found)++;
    /* Were a key stored twice, by another program, the newest row would count. */
    if (id > e->stored_id)
        e->stored_id = id;
}

/* Read the rows from first to last: note the candidates' and, when index is not NULL, index all. */
static enum otl_err scan_rows(struct dedup *d, enum point_kind kind, int64_t first, int64_t last,
                              uint32_t *index, uint32_t *found, struct otl_error *err)
{
    struct sqlite3_stmt *st = d->tables[kind].scan;
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
        note_row(d, &key, hash, id, found);
    }
    if (step != SQLITE_DONE)
        rc = db_fail(d->db, step, "look for a resend", err);
    (void)sqlite3_reset(st);
    return rc;
}

/* Look for the candidates in a segment that has no index yet, and make it one. */
static enum otl_err scan_segment(struct dedup *d, enum point_kind kind, uint32_t segment,
                                 uint32_t *found, struct otl_error *err)
{
    struct dedup_table *t = &d->tables[kind];
    const struct dedup_segment *s = &t->segments[segment];
    enum otl_err rc;

    index_new(t, segment);
    rc = scan_rows(d, kind, s->first_id, s->last_id, s->index, found, err);
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
static enum otl_err search_segment(struct dedup *d, enum point_kind kind, uint32_t segment,
                                   uint32_t n, uint32_t *found, struct otl_error *err)
{
    const struct dedup_segment *s = &d->tables[kind].segments[segment];
    uint32_t lo = count_before(d, n, s->min_time);
    uint32_t hi = s->max_time == INT64_MAX ? n : count_before(d, n, s->max_time + 1);
    enum otl_err rc = OTL_OK;

    if (s->index != NULL && hi - lo > SCAN_INSTEAD)
        return scan_rows(d, kind, s->first_id, s->last_id, NULL, found, err);
    for (uint32_t c = lo; c < hi && rc == OTL_OK; c++) {
        const struct dedup_entry *e = &d->entries[d->candidates[c].entry];
        uint32_t i = (uint32_t)e->hash % INDEX_SLOTS;
        int64_t id;

        if (e->stored_id != 0)
            continue;
        if (s->index == NULL)
            return scan_segment(d, kind, segment, found, err);
        while (rc == OTL_OK && (id = index_next(s, e->hash, &i)) != 0)
            rc = scan_rows(d, kind, id, id, NULL, found, err);
    }
    return rc;
}

/* Find the stored rows of the candidates among n entries; newest segments first, because most
 * resends are recent. */
static enum otl_err find_stored(struct dedup *d, enum point_kind kind, uint32_t n,
                                struct otl_error *err)
{
    struct dedup_table *t = &d->tables[kind];
    uint32_t n_candidates = 0, found = 0;
    enum otl_err rc = OTL_OK;

    for (uint32_t i = 0; i < n; i++) {
        if (d->entries[i].candidate)
            d->candidates[n_candidates++] = (struct dedup_candidate){d->entries[i].key.time, i};
    }
    if (n_candidates == 0)
        return OTL_OK;
    qsort(d->candidates, n_candidates, sizeof(*d->candidates), by_time);
    for (uint32_t i = t->n; i-- > 0 && found < n_candidates && rc == OTL_OK;)
        rc = search_segment(d, kind, i, n_candidates, &found, err);
    return rc;
}

/* What point i, whose key is e's, does to what is there before it. */
static enum otl_err settle(struct dedup *d, struct dedup_entry *e, uint32_t i,
                           const struct dedup_compare *cmp, struct otl_error *err)
{
    bool equal = false;
    enum otl_err rc;

    if (i == e->first) {
        if (e->stored_id == 0)
            return OTL_OK; /* new */
        rc = cmp->stored(cmp->arg, i, e->stored_id, &equal, err);
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

enum otl_err dedup_resolve(struct dedup *d, enum point_kind kind, const struct dedup_key *keys,
                           const uint32_t *series, const bool *late, uint32_t n,
                           const struct dedup_compare *cmp, const struct dedup_plan **out,
                           struct otl_error *err)
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
    rc = find_stored(d, kind, n_entries, err);
    plan->merged = plan->replaced = 0;
    for (uint32_t i = 0; i < n && rc == OTL_OK; i++) {
        uint32_t slot = *find_slot(d, &keys[i], key_hash(d, &keys[i]));

        rc = settle(d, &d->entries[slot - 1], i, cmp, err);
    }
    plan->n_insert = plan->n_update = 0;
    for (uint32_t i = 0; i < n_entries; i++) {
        const struct dedup_entry *e = &d->entries[i];

        if (e->stored_id == 0)
            plan->insert[plan->n_insert++] = e->content;
        else if (e->changed)
            plan->update[plan->n_update++] = (struct dedup_update){e->stored_id, e->content};
    }
    if (rc == OTL_OK)
        *out = plan;
    return rc;
}
