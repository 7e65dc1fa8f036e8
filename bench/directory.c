/* directory.c -- the files below a directory: how large they are, and out of the page cache with
 * them. */
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reads.h"

/* nftw has no argument to hand through; one walk at a time. */
static uint64_t sum;

static int add_size(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)path;
    (void)at;
    if (type == FTW_F)
        sum += (uint64_t)st->st_size;
    return 0;
}

uint64_t directory_bytes(const char *dir)
{
    sum = 0;
    return nftw(dir, add_size, 16, FTW_PHYS) == 0 ? sum : 0;
}

/* Dirty pages are not dropped, so they are written first. */
static int evict_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    int fd;

    (void)st;
    (void)at;
    if (type != FTW_F)
        return 0;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    (void)fsync(fd);
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
    return 0;
}

void directory_evict(const char *dir)
{
    (void)nftw(dir, evict_one, 16, FTW_PHYS);
}
