#include "storage.h"

#include <stddef.h>

#include "otlite/db.h"
#include "otlite/store.h"
#include "reads.h"

enum { CACHE_BYTES = 16 << 20, BUSY_MS = 5000, CHECKPOINT_PAGES = 1000 };

static const struct {
    const char *sql;
    size_t at;
} queries[] = {
    {"SELECT coalesce(sum(bytes), 0) FROM part WHERE live = 1 AND resolution = 0",
     offsetof(struct storage_bytes, raw)},
    {"SELECT coalesce(sum(bytes), 0) FROM part WHERE live = 1 AND resolution > 0",
     offsetof(struct storage_bytes, rollups)},
    {"SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE aggregate = TRUE AND name IN"
     " (SELECT name FROM sqlite_schema WHERE tbl_name IN"
     "  ('resource', 'scope', 'metric', 'series', 'histogram_bounds', 'series_last_time'))",
     offsetof(struct storage_bytes, catalogue)},
    {"SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size",
     offsetof(struct storage_bytes, free)},
};

enum otl_err storage_bytes_add(const char *data_dir, struct storage_bytes *out,
                               struct otl_error *err)
{
    const struct store_opts o = {.data_dir = data_dir,
                                 .durability = DURABILITY_NORMAL,
                                 .cache_bytes = CACHE_BYTES,
                                 .busy_timeout_ms = BUSY_MS,
                                 .checkpoint_pages = CHECKPOINT_PAGES};
    struct db db = {0};
    enum otl_err rc;

    rc = store_open_reader(&db, &o, err);
    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]) && rc == OTL_OK; i++)
        rc = db_query_int(&db, queries[i].sql, (int64_t *)(void *)((char *)out + queries[i].at),
                          err);
    db_close(&db);
    if (rc == OTL_OK)
        out->rest = out->files - out->raw - out->rollups - out->catalogue - out->free;
    return rc;
}
