#include "data_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "otlite/clock.h"
#include "otlite/log.h"
#include "otlite/writer.h"

enum {
    LOG_PAGE_BYTES = 4096 + 24,
    HEAD_SHARE = 32, /* of retention.max_bytes; of each half, and there are some */
    ROW_BYTES = 40
};

enum otl_err cli_make_data_dir(const char *dir, struct otl_error *err)
{
    char path[4096];
    size_t n = strlen(dir);

    if (n == 0 || n >= sizeof(path))
        return otl_fail(err, OTL_ECONFIG, "data: the directory name is empty or too long");
    memcpy(path, dir, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        path[i] = '\0';
        if (mkdir(path, 0750) != 0 && errno != EEXIST)
            return otl_fail(err, OTL_ESYSTEM, "cannot make the data directory %s: %s", path,
                            strerror(errno));
        path[i] = i < n ? '/' : '\0';
    }
    return OTL_OK;
}

enum otl_err cli_lock_data_dir(const char *dir, int *out_fd, struct otl_error *err)
{
    char path[4096], pid[32];
    int fd, n;

    if ((size_t)snprintf(path, sizeof(path), "%s/otlite.lock", dir) >= sizeof(path))
        return otl_fail(err, OTL_ECONFIG, "data: the directory name is too long");
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    if (fd < 0)
        return otl_fail(err, OTL_ESYSTEM, "cannot write in the data directory: %s: %s", path,
                        strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        ssize_t got = read(fd, pid, sizeof(pid) - 1);

        pid[got > 0 ? got : 0] = '\0';
        pid[strcspn(pid, "\n")] = '\0';
        (void)close(fd);
        return otl_fail(err, OTL_ESYSTEM,
                        "another otlite (pid %s) serves the data directory %s; stop it, or use "
                        "another --data",
                        pid, dir);
    }
    n = snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());
    /* The number is only for the message above; the lock is what counts. */
    if (ftruncate(fd, 0) != 0 || pwrite(fd, pid, (size_t)n, 0) != n)
        LOG(LOG_WARN, "serve", "cannot note the pid in the lock file", LOG_S("path", path));
    *out_fd = fd;
    return OTL_OK;
}

void cli_store_opts(const struct config *c, struct store_opts *o)
{
    *o = (struct store_opts){
        .data_dir = c->data,
        .durability =
            strcmp(c->sqlite_durability, "full") == 0 ? DURABILITY_FULL : DURABILITY_NORMAL,
        .cache_bytes = c->sqlite_cache_size,
        .mmap_bytes = c->sqlite_mmap_size,
        .busy_timeout_ms = c->sqlite_busy_timeout,
        .checkpoint_pages = c->sqlite_checkpoint_pages,
        .secure_delete = c->sqlite_secure_delete,
        .head_max_rows = c->head_max_rows,
        .head_max_bytes = c->head_max_bytes,
        .head_max_age_ms = c->head_max_age,
    };
    /* With a limit of bytes: the log stays well within its share of it, and the head is only so
     * much of it that dropping sealed points makes a difference. */
    if (c->retention_max_bytes > 0) {
        int64_t pages = writer_log_share(c->retention_max_bytes) / 2 / LOG_PAGE_BYTES;

        if (o->checkpoint_pages > pages)
            o->checkpoint_pages = pages;
        if (o->head_max_bytes > c->retention_max_bytes / HEAD_SHARE)
            o->head_max_bytes = c->retention_max_bytes / HEAD_SHARE;
        /* Of these it also says how much is taken while sealing is behind (HEAD_FULL_FACTOR). */
        if (o->head_max_rows > o->head_max_bytes / ROW_BYTES)
            o->head_max_rows = o->head_max_bytes / ROW_BYTES;
    }
}

void cli_decode_limits(const struct config *c, struct decode_limits *l)
{
    *l = (struct decode_limits){
        .max_value_depth = (uint32_t)c->otlp_max_depth,
        .max_name_bytes = (uint32_t)c->otlp_max_name,
        .max_attributes = (uint32_t)c->otlp_max_attributes,
        .max_attribute_bytes = (uint32_t)c->otlp_max_attribute_bytes,
        .max_points = (uint32_t)c->otlp_max_points,
        .max_buckets = (uint32_t)c->otlp_max_buckets,
        .future_slack_ns = c->otlp_future_slack * NS_PER_MS,
        .strict_counts = c->otlp_strict_counts,
        .accept_snake_case = c->otlp_accept_snake_case,
    };
}
