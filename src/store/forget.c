/* forget.c -- series of which retention left no point are deleted.
 *
 * Every directory of every part is looked at, which is a small share of the bytes. Meanwhile
 * sealing goes on, and notes what it puts into new parts; what is in the head only the writer
 * knows, so it is asked in the task that deletes. A series that comes again is a new one, with a
 * new id. */
#include <stdlib.h>

#include "maintain_internal.h"
#include "otlite/clock.h"
#include "otlite/stats.h"

enum { FORGET_SERIES = 256 /* a task */ };

/* Of a series that is silent for a shorter time, the sender may still be there. */
#define SILENT_NS (86400 * NS_PER_S)

static bool note_seen(void *arg, const struct block_directory *dir)
{
    struct maintainer *m = arg;

    for (uint32_t i = 0; i < dir->n; i++) {
        size_t at = series_place(&m->facts, dir->chunks[i].series_id);

        if (at < m->n_seen)
            m->seen[at] = true;
    }
    return true;
}

static enum otl_err look(struct maintainer *m, struct otl_error *err)
{
    struct part_info *parts = NULL;
    size_t n = 0;
    enum otl_err rc = live_parts(m, &parts, &n, err);

    for (size_t i = 0; i < n && rc == OTL_OK; i++) {
        /* Parts are dropped by nobody else, so each is still there. */
        rc = each_directory(m, &parts[i], note_seen, m, err);
        if (rc == OTL_OK)
            rc = maintain_between(m, err);
    }
    free(parts);
    return rc;
}

struct forgetting {
    int64_t ids[FORGET_SERIES];
    size_t n;
    int64_t not_since;
    uint64_t forgotten;
};

static enum otl_err forget(void *arg, struct store *s, struct db *db, struct otl_error *err)
{
    struct forgetting *f = arg;
    enum otl_err rc;

    (void)db;
    rc = store_forget_series(s, f->ids, f->n, f->not_since, &f->forgotten, err);
    return rc == OTL_OK ? fault_point("forget.commit", err) : rc;
}

static enum otl_err forget_unseen(struct maintainer *m, struct otl_error *err)
{
    struct forgetting f = {.not_since = clock_wall_ns() - SILENT_NS};
    uint64_t sum = 0;
    enum otl_err rc = OTL_OK;

    for (size_t i = 0; i <= m->n_seen && rc == OTL_OK; i++) {
        if (i < m->n_seen && !m->seen[i])
            f.ids[f.n++] = m->facts.ids[i];
        if (f.n == 0 || (f.n < FORGET_SERIES && i < m->n_seen))
            continue;
        /* No sealing from here to the commit: what the head has is in the head. */
        rc = fault_point("forget", err);
        if (rc == OTL_OK)
            rc = maintain_task(m, forget, &f, err);
        if (rc == OTL_OK)
            sum += f.forgotten;
        f.n = 0;
        if (rc == OTL_OK)
            rc = maintain_between(m, err);
    }
    STATS_ADD(series_forgotten, sum);
    if (sum > 0)
        LOG(LOG_INFO, "retention", "deleted series without points", LOG_I("series", sum));
    return rc;
}

enum otl_err forget_series(struct maintainer *m, struct otl_error *err)
{
    enum otl_err rc = series_facts_refresh(m, err);

    if (rc != OTL_OK)
        return rc;
    m->seen = calloc(m->facts.n + 1, sizeof(*m->seen));
    if (m->seen == NULL)
        return otl_fail(err, OTL_ENOMEM, "look for series without points: no memory");
    m->n_seen = m->facts.n;
    rc = look(m, err);
    if (rc == OTL_OK)
        rc = forget_unseen(m, err);
    free(m->seen);
    m->seen = NULL;
    m->n_seen = 0;
    if (rc == OTL_OK)
        m->forget = false;
    return rc;
}
