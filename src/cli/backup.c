/* backup.c -- otlite backup: a verified copy of a data directory that may be in use. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "otlite/backup.h"
#include "otlite/cli.h"

#include "cli/open_reader.h"
#include "cli/options.h"

/* telemetry.db first: what a request changes in state.db is committed before its points, so that a
 * state.db copied later knows every project, service and metric the points belong to. */
static const char *const names[] = {"telemetry.db", "state.db"};

enum { N_NAMES = sizeof(names) / sizeof(names[0]) };

struct backup {
    const struct config *config;
    char *dest;        /* without a slash at the end */
    bool made_dest;    /* the directory is ours to remove on a failure */
    int copied;        /* files there, in the order of names */
    const char *shown; /* name in the progress line; NULL: no terminal */
    int percent;
};

static enum otl_err system_fail(struct otl_error *err, const char *what, const char *path)
{
    int e = errno;

    return otl_fail(err, e == ENOSPC || e == EDQUOT ? OTL_EFULL : OTL_ESYSTEM,
                    "cannot %s %.256s: %s", what, path, strerror(e));
}

/* Make DEST, or take it when it is an empty directory. */
static enum otl_err take_dest(struct backup *b, struct otl_error *err)
{
    struct dirent *e;
    bool empty = true;
    DIR *d;

    if (mkdir(b->dest, 0700) == 0) {
        b->made_dest = true;
        return OTL_OK;
    }
    if (errno != EEXIST)
        return system_fail(err, "create the directory", b->dest);
    d = opendir(b->dest);
    if (d == NULL)
        return system_fail(err, "use", b->dest);
    while ((e = readdir(d)) != NULL)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            empty = false;
    (void)closedir(d);
    if (!empty)
        return otl_fail(err, OTL_EBADREQUEST,
                        "%.256s is not empty; name a new or an empty directory, for example one "
                        "with the date in its name",
                        b->dest);
    return OTL_OK;
}

static void show_progress(void *arg, int64_t left, int64_t total)
{
    struct backup *b = arg;
    int percent = total <= 0 ? 100 : (int)((double)(total - left) * 100.0 / (double)total);

    if (b->shown == NULL || percent == b->percent)
        return;
    b->percent = percent;
    fprintf(stderr, "\r%s %3d %%%s", b->shown, percent, left == 0 ? ", checking the copy" : "");
    (void)fflush(stderr);
}

static enum otl_err copy_one(struct backup *b, const char *name, struct otl_error *err)
{
    char src[4096], dest[4096];
    struct stat st;
    int n = snprintf(dest, sizeof(dest), "%s/%s", b->dest, name);
    enum otl_err rc;

    if (!cli_data_path(b->config, name, src) || n < 0 || (size_t)n >= sizeof(dest))
        return otl_fail(err, OTL_EBADREQUEST, "a path is too long");
    b->percent = -1;
    b->shown = isatty(STDERR_FILENO) == 1 ? name : NULL;
    rc = backup_database(src, dest, show_progress, b, err);
    if (rc == OTL_EDB)
        rc = cli_explain_open(b->config, err);
    if (b->shown != NULL)
        fprintf(stderr, "\r%-40s\r", "");
    if (rc != OTL_OK)
        return rc;
    b->copied++;
    if (stat(dest, &st) != 0)
        return system_fail(err, "read", dest);
    printf("%s: %lld bytes, verified\n", dest, (long long)st.st_size);
    return OTL_OK;
}

/* The name of a directory that was made is safe once its parent is synced. */
static enum otl_err sync_parent(struct backup *b, struct otl_error *err)
{
    char *copy = strdup(b->dest);
    enum otl_err rc = OTL_OK;
    int fd;

    if (copy == NULL)
        return otl_fail(err, OTL_ENOMEM, "no memory");
    fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0)
        rc = system_fail(err, "bring to the disk the directory of", b->dest);
    if (fd >= 0)
        (void)close(fd);
    free(copy);
    return rc;
}

static void remove_all(struct backup *b)
{
    char path[4096];

    for (int i = 0; i < b->copied; i++) {
        int n = snprintf(path, sizeof(path), "%s/%s", b->dest, names[i]);

        if (n > 0 && (size_t)n < sizeof(path))
            (void)unlink(path);
    }
    if (b->made_dest)
        (void)rmdir(b->dest);
}

static enum otl_err backup_all(struct backup *b, struct otl_error *err)
{
    char state[4096];
    /* Any schema version will do: a copy before an upgrade is the one that matters most. */
    enum otl_err rc = cli_check_data(b->config, err);

    if (rc == OTL_OK)
        rc = take_dest(b, err);
    if (rc != OTL_OK)
        return rc;
    for (int i = 0; rc == OTL_OK && i < N_NAMES; i++) {
        if (i == 1 && cli_data_path(b->config, names[i], state) && access(state, F_OK) != 0) {
            fprintf(stderr, "otlite backup: note: there is no state.db beside telemetry.db; only "
                            "the latter was copied\n");
            break;
        }
        rc = copy_one(b, names[i], err);
    }
    if (rc == OTL_OK && b->made_dest)
        rc = sync_parent(b, err);
    if (rc != OTL_OK)
        remove_all(b);
    return rc;
}

static int backup_run(int argc, char **argv)
{
    static const struct cli_spec spec = {
        .command = "backup",
        .synopsis = "[--data DIR] DEST",
        .about =
            "Copy telemetry.db and state.db into DEST, a new or empty directory, also beside a\n"
            "running daemon. Each copy is one moment of its database, is checked with\n"
            "PRAGMA integrity_check and by its row counts, and is on the disk when this ends.\n"
            "While it runs, the daemon's telemetry.db-wal grows by what is written.\n"
            "To restore, stop the daemon and start it with --data DEST (or a copy of it).",
        .common = CLI_DATA | CLI_CONFIG,
        .min_args = 1,
        .max_args = 1,
    };
    struct backup b = {0};
    struct otl_error err = {0};
    struct config config;
    struct cli_args args;
    enum otl_err rc;
    size_t n;
    int status = cli_parse(&spec, argc, argv, &config, &args);

    if (status != CLI_GO)
        return status;
    b.config = &config;
    b.dest = strdup(args.v[0]);
    n = b.dest == NULL ? 0 : strlen(b.dest);
    while (n > 1 && b.dest[n - 1] == '/')
        b.dest[--n] = '\0';
    if (b.dest == NULL)
        rc = otl_fail(&err, OTL_ENOMEM, "no memory");
    else if (n == 0)
        rc = otl_fail(&err, OTL_EBADREQUEST, "DEST is empty; name a directory to create");
    else
        rc = backup_all(&b, &err);
    free(b.dest);
    config_fini(&config);
    return rc == OTL_OK ? EX_OK : cli_error("backup", &err);
}

const struct cli_command cli_backup = {"backup", "Copy a data directory that may be in use",
                                       backup_run};
