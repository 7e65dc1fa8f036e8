/* vacuum.c -- garbage goes, and free pages go back to the file system, a little at a time. */
#include <stdio.h>

#include "maintain_internal.h"

enum {
    COLLECT_BYTES = 512 << 10, /* of blocks, a task */
    VACUUM_PAGES = 128,        /* moved a task */
    /* Free pages that are not worth the trouble. */
    VACUUM_SLACK = 256,
    AUTO_VACUUM_INCREMENTAL = 2
};

static enum otl_err collect(void *arg, struct store *s, struct db *db, struct otl_error *err)
{
    bool *left = arg;
    enum otl_err rc;

    (void)s;
    *left = false;
    rc = part_collect(db, NULL, 0, COLLECT_BYTES, left, err);
    return rc == OTL_OK ? fault_point("collect.commit", err) : rc;
}

enum otl_err collect_garbage(struct maintainer *m, struct otl_error *err)
{
    bool left = m->collect;
    enum otl_err rc = OTL_OK;

    while (left && rc == OTL_OK) {
        rc = fault_point("collect", err);
        if (rc == OTL_OK)
            rc = maintain_task(m, collect, &left, err);
        if (rc == OTL_OK)
            rc = maintain_between(m, err);
    }
    if (rc == OTL_OK)
        m->collect = false;
    return rc;
}

static enum otl_err vacuum(void *arg, struct store *s, struct db *db, struct otl_error *err)
{
    char sql[48];
    enum otl_err rc;

    (void)s;
    (void)snprintf(sql, sizeof(sql), "PRAGMA incremental_vacuum(%d)", *(const int *)arg);
    rc = db_exec(db, sql, err);
    return rc == OTL_OK ? fault_point("vacuum.commit", err) : rc;
}

enum otl_err vacuum_free_pages(struct maintainer *m, int64_t keep_pages, struct otl_error *err)
{
    int64_t mode = 0, free_pages = 0, before;
    enum otl_err rc = db_query_int(&m->db, "PRAGMA auto_vacuum", &mode, err);
    int64_t keep = keep_pages + (m->hurry ? 0 : VACUUM_SLACK);

    if (rc != OTL_OK || mode != AUTO_VACUUM_INCREMENTAL)
        return rc; /* a file that cannot shrink: its free pages are used again */
    rc = db_query_int(&m->db, "PRAGMA freelist_count", &free_pages, err);
    while (rc == OTL_OK && free_pages > keep) {
        int n = free_pages - keep < VACUUM_PAGES ? (int)(free_pages - keep) : VACUUM_PAGES;

        before = free_pages;
        rc = fault_point("vacuum", err);
        if (rc == OTL_OK)
            rc = maintain_task(m, vacuum, &n, err);
        if (rc == OTL_OK)
            rc = maintain_between(m, err);
        if (rc == OTL_OK)
            rc = db_query_int(&m->db, "PRAGMA freelist_count", &free_pages, err);
        if (free_pages >= before)
            break; /* something takes or frees pages faster than we give them back */
    }
    return rc;
}
