#include "reads_kept.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon.h"

enum { PATH_ROOM = 4200 };

static enum otl_err make(const char *dir, struct otl_error *err)
{
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return otl_fail(err, OTL_EIO, "%.256s: %s", dir, strerror(errno));
    return OTL_OK;
}

/* Directories in it are removed later, so it must be ours alone: new, or empty. */
static enum otl_err make_new(const char *dir, struct otl_error *err)
{
    if (rmdir(dir) != 0 && errno != ENOENT)
        return otl_fail(err, OTL_ECONFIG,
                        "--data %.256s: %s, and no points of this program are "
                        "in it; name a new directory",
                        dir, strerror(errno));
    return make(dir, err);
}

static enum otl_err write_line(const char *path, const char *line, struct otl_error *err)
{
    FILE *f = fopen(path, "we");
    bool ok = f != NULL && fputs(line, f) >= 0;

    if (f != NULL)
        ok = fclose(f) == 0 && ok;
    return ok ? OTL_OK : otl_fail(err, OTL_EIO, "%.256s: %s", path, strerror(errno));
}

/* false: there is no such file, or nothing in it. */
static bool read_line(const char *path, char *out, int n)
{
    FILE *f = fopen(path, "re");
    bool ok = f != NULL && fgets(out, n, f) != NULL;

    if (f != NULL)
        fclose(f);
    return ok;
}

enum otl_err kept_open(const char *dir, struct series_gen_opts *gen, struct otl_error *err)
{
    char path[PATH_ROOM], line[320], wanted[256];
    int64_t start_ns;
    int at = 0;

    snprintf(path, sizeof(path), "%.4000s/points", dir);
    snprintf(wanted, sizeof(wanted), " mix=%d series=%u intervals=%u seed=%" PRIu64 " jitter=%u\n",
             (int)gen->mix, gen->series, gen->intervals, gen->seed, gen->jitter_ms);
    if (!read_line(path, line, sizeof(line))) {
        enum otl_err rc = make_new(dir, err);

        if (rc != OTL_OK)
            return rc;
        snprintf(line, sizeof(line), "%" PRId64 "%s", gen->start_ns, wanted);
        return write_line(path, line, err);
    }
    if (sscanf(line, "%" SCNd64 "%n", &start_ns, &at) != 1 || strcmp(line + at, wanted) != 0)
        return otl_fail(err, OTL_ECONFIG,
                        "%.256s is of other points than these; name another directory, or take "
                        "its --points, --series and --jitter-ms: %.200s",
                        dir, line);
    gen->start_ns = start_ns;
    return OTL_OK;
}

enum otl_err kept_system(const char *dir, const char *key, char *out, size_t n, bool *out_stored,
                         struct kept_facts *f, struct otl_error *err)
{
    char mark[PATH_ROOM], line[128];

    if (snprintf(out, n, "%s/%s", dir, key) >= (int)n)
        return otl_fail(err, OTL_ECONFIG, "the path of --data is too long");
    snprintf(mark, sizeof(mark), "%.4000s/%s.stored", dir, key);
    *out_stored =
        read_line(mark, line, sizeof(line)) && sscanf(line, "%lf %lf", &f->seconds, &f->bytes) == 2;
    if (!*out_stored)
        scratch_remove(out);
    return make(out, err);
}

enum otl_err kept_stored(const char *dir, const char *key, const struct kept_facts *f,
                         struct otl_error *err)
{
    char mark[PATH_ROOM], line[128];

    snprintf(mark, sizeof(mark), "%.4000s/%s.stored", dir, key);
    snprintf(line, sizeof(line), "%.3f %.0f\n", f->seconds, f->bytes);
    return write_line(mark, line, err);
}

enum otl_err kept_spoil(const char *dir, const char *key, struct otl_error *err)
{
    char mark[PATH_ROOM];

    snprintf(mark, sizeof(mark), "%.4000s/%s.stored", dir, key);
    if (unlink(mark) != 0 && errno != ENOENT)
        return otl_fail(err, OTL_EIO, "%.256s: %s", mark, strerror(errno));
    return OTL_OK;
}
