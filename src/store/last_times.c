#include "last_times.h"

#include <sqlite3.h>
#include <stdio.h>

/* The BLOB: for every series of the kind that has points, in order of ids: varint of the id's
 * distance from the one before, then zigzag varint of the time's. */

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

static void encode(const struct dict *series, enum point_kind kind, struct buf *out)
{
    uint64_t id = 0, time = 0;

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

void last_times_raise(struct catalogue *cat, int64_t series_id, int64_t time)
{
    uint32_t entry = dict_find_id(&cat->dicts[CAT_SERIES], series_id);
    union dict_note *note;

    if (entry == DICT_NONE)
        return; /* a row without a series can be the resend of no point */
    note = &catalogue_series(cat, entry)->note;
    if (time > note->series.last_time)
        note->series.last_time = time;
}

static bool decode(struct catalogue *cat, struct bytes in)
{
    uint64_t id = 0, time = 0, v;

    while (in.n > 0) {
        if (!take_varint(&in, &v))
            return false;
        id += v;
        if (!take_varint(&in, &v))
            return false;
        time += v >> 1 ^ (0 - (v & 1));
        last_times_raise(cat, (int64_t)id, (int64_t)time);
    }
    return true;
}

enum otl_err last_times_save(struct db *db, const struct catalogue *cat, enum point_kind kind,
                             struct otl_error *err)
{
    struct buf times = {0};
    struct sqlite3_stmt *st = NULL;
    enum otl_err rc = OTL_OK;
    int b;

    encode(&cat->dicts[CAT_SERIES], kind, &times);
    if (times.failed)
        rc = otl_fail(err, OTL_ENOMEM, "save the series' latest times: no memory");
    if (rc == OTL_OK)
        rc = db_prepare(db,
                        "INSERT OR REPLACE INTO series_last_time(kind, last_times) VALUES (?, ?)",
                        &st, err);
    if (rc == OTL_OK) {
        b = sqlite3_bind_text(st, 1, point_tables[kind].kind, -1, SQLITE_STATIC);
        b |= sqlite3_bind_blob64(st, 2, times.n == 0 ? (const void *)"" : times.p, times.n,
                                 SQLITE_STATIC);
        rc = b == SQLITE_OK
                 ? db_run(db, st, "save the series' latest times", err)
                 : otl_fail(err, OTL_EDB, "the latest times of %u series do not fit in a row",
                            cat->dicts[CAT_SERIES].n);
    }
    (void)sqlite3_finalize(st);
    buf_fini(&times);
    return rc;
}

/* The saved times of a kind are missing or damaged. */
static enum otl_err raise_all(struct db *db, struct catalogue *cat, enum point_kind kind,
                              struct otl_error *err)
{
    struct dict *series = &cat->dicts[CAT_SERIES];
    char sql[160];
    int64_t latest;
    enum otl_err rc;

    (void)snprintf(sql, sizeof(sql),
                   "SELECT coalesce(max(max_time), %lld) FROM part"
                   " WHERE kind = '%s' AND resolution = 0 AND live = 1",
                   -1LL, point_tables[kind].kind);
    rc = db_query_int(db, sql, &latest, err);
    for (uint32_t i = 0; rc == OTL_OK && latest >= 0 && i < series->n; i++) {
        if (series->entries[i].note.series.kind == (uint32_t)kind)
            last_times_raise(cat, series->entries[i].id, latest);
    }
    return rc;
}

enum otl_err last_times_load(struct db *db, struct catalogue *cat, struct otl_error *err)
{
    struct sqlite3_stmt *st;
    enum otl_err rc =
        db_prepare(db, "SELECT last_times FROM series_last_time WHERE kind = ?", &st, err);

    if (rc != OTL_OK)
        return rc;
    for (int k = 0; k < POINT_KINDS && rc == OTL_OK; k++) {
        int step = sqlite3_bind_text(st, 1, point_tables[k].kind, -1, SQLITE_STATIC);
        bool whole = false;

        if (step == SQLITE_OK)
            step = sqlite3_step(st);
        if (step == SQLITE_ROW) {
            const void *p = sqlite3_column_blob(st, 0);

            whole = decode(cat, bytes_of(p, p == NULL ? 0 : (size_t)sqlite3_column_bytes(st, 0)));
        } else if (step != SQLITE_DONE) {
            rc = db_fail(db, step, "read series_last_time", err);
        }
        (void)sqlite3_reset(st);
        if (rc == OTL_OK && !whole)
            rc = raise_all(db, cat, (enum point_kind)k, err);
    }
    (void)sqlite3_finalize(st);
    return rc;
}
