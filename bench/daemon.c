#include "daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "otlite/bytes.h"
#include "otlite/clock.h"

enum {
    POLL_MS = 10,
    START_MS = 20000,
    STOP_MS = 30000,
    LOG_TAIL = 300, /* bytes of the log in a message */
    MAX_LOG = 65536 /* of the log read while waiting for its "serving" line */
};

extern char **environ;

static void pause_ms(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * NS_PER_MS};

    while (nanosleep(&t, &t) != 0 && errno == EINTR) {
    }
}

/* The otlite in the directory of this program, where make puts both. */
static enum otl_err find_program(char *out, size_t n, struct otl_error *err)
{
    static const char name[] = "otlite";
    ssize_t got = readlink("/proc/self/exe", out, n);
    char *slash;

    if (got <= 0 || (size_t)got >= n)
        return otl_fail(err, OTL_ESYSTEM, "cannot tell where this program is: %s", strerror(errno));
    out[got] = '\0';
    slash = strrchr(out, '/');
    if (slash == NULL || (size_t)(slash + 1 - out) + sizeof(name) > n)
        return otl_fail(err, OTL_ESYSTEM, "the path of this program is too long");
    memcpy(slash + 1, name, sizeof(name));
    if (access(out, X_OK) != 0)
        return otl_fail(err, OTL_ENOTFOUND, "%.256s: %s; build it with make", out, strerror(errno));
    return OTL_OK;
}

/* Pointers into what the caller keeps; ends with NULL. */
struct pointers {
    const char **p;
    size_t n;
};

static bool pointers_make(struct pointers *v, size_t room)
{
    v->n = 0;
    v->p = calloc(room + 1, sizeof(*v->p));
    return v->p != NULL;
}

static bool build_arguments(struct pointers *v, const char *program, const struct daemon_opts *o)
{
    size_t settings = 0;

    while (o->settings != NULL && o->settings[settings] != NULL)
        settings++;
    if (!pointers_make(v, 6 + 2 * settings))
        return false;
    v->p[v->n++] = program;
    v->p[v->n++] = "serve";
    v->p[v->n++] = "--listen";
    v->p[v->n++] = "127.0.0.1:0";
    v->p[v->n++] = "--data";
    v->p[v->n++] = o->data_dir;
    for (size_t i = 0; i < settings; i++) {
        v->p[v->n++] = "--set";
        v->p[v->n++] = o->settings[i];
    }
    return true;
}

/* Without OTLITE_ variables: the caller's are no settings of the benchmark. */
static bool build_environment(struct pointers *v)
{
    size_t n = 0;

    while (environ[n] != NULL)
        n++;
    if (!pointers_make(v, n))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (strncmp(environ[i], "OTLITE_", 7) != 0)
            v->p[v->n++] = environ[i];
    }
    return true;
}

/* execve takes char *const[], and changes nothing. */
static char *const *as_exec_vector(const struct pointers *v)
{
    union {
        const char *const *in;
        char *const *out;
    } cast = {.in = v->p};

    return cast.out;
}

/* In the child of fork: only what is safe there. Does not return. */
static void become_daemon(const struct pointers *arguments, const struct pointers *environment,
                          int log_fd, pid_t parent)
{
    static const char failed[] = "cannot run this program\n";
    int null_fd = open("/dev/null", O_RDONLY);
    sigset_t none;

    /* A group of its own, so that Ctrl-C ends the benchmark and the benchmark ends the daemon. And
     * should the benchmark die without doing so, the kernel does. */
    if (setpgid(0, 0) == 0 && prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && getppid() == parent &&
        null_fd >= 0 && dup2(null_fd, 0) == 0 && dup2(log_fd, 1) == 1 && dup2(log_fd, 2) == 2 &&
        sigemptyset(&none) == 0 && sigprocmask(SIG_SETMASK, &none, NULL) == 0)
        execve(arguments->p[0], as_exec_vector(arguments), as_exec_vector(environment));
    if (write(log_fd, failed, sizeof(failed) - 1) < 0)
        _exit(126);
    _exit(127);
}

/* What the log holds so far, ended with NUL. */
static enum otl_err read_log(const char *path, struct buf *out, struct otl_error *err)
{
    FILE *f = fopen(path, "re");
    enum otl_err rc = OTL_OK;

    buf_reset(out);
    if (f == NULL)
        return otl_fail(err, OTL_EIO, "%.256s: %s", path, strerror(errno));
    if (buf_reserve(out, MAX_LOG)) {
        out->n = fread(out->p, 1, MAX_LOG, f);
        if (ferror(f) != 0)
            rc = otl_fail(err, OTL_EIO, "cannot read %.256s", path);
    }
    fclose(f);
    (void)buf_cstr(out);
    if (out->failed)
        rc = otl_fail(err, OTL_ENOMEM, "no memory for the daemon's log");
    return rc;
}

/* The port of the log's line "msg=serving listen=127.0.0.1:PORT ...", once that line is whole. */
static unsigned port_in(const char *log)
{
    const char *line = strstr(log, " msg=serving ");
    const char *listen = line == NULL ? NULL : strstr(line, " listen=127.0.0.1:");
    unsigned long port;

    if (listen == NULL || strchr(listen, '\n') == NULL)
        return 0;
    port = strtoul(strchr(listen, ':') + 1, NULL, 10);
    return port > 0 && port <= 65535 ? (unsigned)port : 0;
}

static enum otl_err fail_with_log(struct buf *log, const char *path, const char *what,
                                  struct otl_error *err)
{
    const char *text = buf_cstr(log);
    size_t n = strlen(text);

    return otl_fail(err, OTL_EIO, "otlite %s; its log %.128s ends: %s", what, path,
                    n > LOG_TAIL ? text + n - LOG_TAIL : text);
}

/* False when the process is gone; it is reaped then. */
static bool is_running(struct daemon *d)
{
    if (d->pid > 0 && waitpid(d->pid, NULL, WNOHANG) != 0)
        d->pid = 0;
    return d->pid > 0;
}

static enum otl_err wait_until_serving(struct daemon *d, struct otl_error *err)
{
    int64_t until_ns = clock_mono_ns() + START_MS * NS_PER_MS;
    struct buf log = {0};
    enum otl_err rc = OTL_OK;

    for (;;) {
        bool running = is_running(d); /* asked first: what it wrote before its end is in the log */

        rc = read_log(d->log, &log, err);
        if (rc != OTL_OK)
            break;
        d->port = port_in(buf_cstr(&log));
        if (d->port > 0 && running)
            break;
        if (!running) {
            rc = fail_with_log(&log, d->log, "ended at its start", err);
            break;
        }
        if (clock_mono_ns() > until_ns) {
            rc = fail_with_log(&log, d->log, "does not serve after 20 s", err);
            break;
        }
        pause_ms(POLL_MS);
    }
    buf_fini(&log);
    return rc;
}

enum otl_err daemon_start(const struct daemon_opts *o, struct daemon *out, struct otl_error *err)
{
    struct pointers arguments = {0}, environment = {0};
    struct daemon d = {0};
    char program[4096];
    pid_t parent = getpid();
    int log_fd = -1;
    enum otl_err rc = OTL_OK;

    if (o->program == NULL)
        rc = find_program(program, sizeof(program), err);
    else if (snprintf(program, sizeof(program), "%s", o->program) >= (int)sizeof(program))
        rc = otl_fail(err, OTL_ECONFIG, "the path of the program is too long");
    if (rc == OTL_OK && snprintf(d.log, sizeof(d.log), "%s.log", o->data_dir) >= (int)sizeof(d.log))
        rc = otl_fail(err, OTL_ECONFIG, "the path of the data directory is too long");
    if (rc != OTL_OK)
        return rc;
    if (!build_arguments(&arguments, program, o) || !build_environment(&environment)) {
        rc = otl_fail(err, OTL_ENOMEM, "no memory to start otlite");
        goto out;
    }
    /* Appending: standard output and error share the file. */
    log_fd = open(d.log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    if (log_fd < 0) {
        rc = otl_fail(err, OTL_EIO, "%.256s: %s", d.log, strerror(errno));
        goto out;
    }
    d.pid = fork();
    if (d.pid == 0)
        become_daemon(&arguments, &environment, log_fd, parent);
    if (d.pid < 0) {
        rc = otl_fail(err, OTL_ESYSTEM, "fork: %s", strerror(errno));
        goto out;
    }
    rc = wait_until_serving(&d, err);
    if (rc != OTL_OK) {
        daemon_kill(&d);
        goto out;
    }
    snprintf(d.url, sizeof(d.url), "http://127.0.0.1:%u/v1/metrics", d.port);
    *out = d;
out:
    if (log_fd >= 0)
        close(log_fd);
    free(arguments.p);
    free(environment.p);
    return rc;
}

bool daemon_stop(struct daemon *d)
{
    int64_t until_ns = clock_mono_ns() + STOP_MS * NS_PER_MS;

    if (d->pid <= 0)
        return true;
    (void)kill(d->pid, SIGTERM);
    while (is_running(d)) {
        if (clock_mono_ns() > until_ns) {
            daemon_kill(d);
            return false;
        }
        pause_ms(POLL_MS);
    }
    return true;
}

void daemon_kill(struct daemon *d)
{
    if (d->pid <= 0)
        return;
    (void)kill(d->pid, SIGKILL);
    while (waitpid(d->pid, NULL, 0) < 0 && errno == EINTR) {
    }
    d->pid = 0;
}

enum otl_err scratch_make(char *out, size_t n, struct otl_error *err)
{
    const char *tmp = getenv("TMPDIR");
    int got =
        snprintf(out, n, "%s/otlite-bench.XXXXXX", tmp == NULL || *tmp == '\0' ? "/tmp" : tmp);

    if (got < 0 || (size_t)got >= n)
        return otl_fail(err, OTL_ECONFIG, "TMPDIR is too long");
    if (mkdtemp(out) == NULL)
        return otl_fail(err, OTL_EIO, "%.256s: %s; set TMPDIR to a directory that can be written",
                        out, strerror(errno));
    return OTL_OK;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    (void)remove(path); /* what cannot be removed stays; the rest goes */
    return 0;
}

void scratch_remove(const char *dir)
{
    (void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
