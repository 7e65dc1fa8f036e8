#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STOP_ROUNDS = 6000, ROUND_MS = 10 };

/* execv takes char *const[], and changes nothing. */
static char *const *as_exec_vector(const char *const *argv)
{
    union {
        const char *const *in;
        char *const *out;
    } cast = {.in = argv};

    return cast.out;
}

/* In the child of fork: only what is safe there. Does not return. */
static void become(const char *const *argv, int in, int out, int log, pid_t parent)
{
    sigset_t none;

    if (setpgid(0, 0) == 0 && prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && getppid() == parent &&
        dup2(in, 0) == 0 && dup2(out, 1) == 1 && dup2(log, 2) == 2 && sigemptyset(&none) == 0 &&
        sigprocmask(SIG_SETMASK, &none, NULL) == 0)
        execv(argv[0], as_exec_vector(argv));
    _exit(127);
}

static void close_pair(int pair[2])
{
    for (int i = 0; i < 2; i++) {
        if (pair[i] >= 0)
            close(pair[i]);
        pair[i] = -1;
    }
}

enum otl_err child_start(const char *const *argv, const char *log, bool pipes, struct child *out,
                         struct otl_error *err)
{
    int log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int to[2] = {-1, -1}, from[2] = {-1, -1};
    pid_t parent = getpid();
    struct child c = {0};
    enum otl_err rc = OTL_OK;

    if (log_fd < 0)
        return otl_fail(err, OTL_EIO, "%.256s: %s", log, strerror(errno));
    if (!pipes)
        to[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (pipes ? pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0 : to[0] < 0) {
        rc = otl_fail(err, OTL_ESYSTEM, "pipe: %s", strerror(errno));
        goto out;
    }
    c.pid = fork();
    if (c.pid == 0)
        become(argv, to[0], pipes ? from[1] : log_fd, log_fd, parent);
    if (c.pid < 0) {
        rc = otl_fail(err, OTL_ESYSTEM, "fork: %s", strerror(errno));
        goto out;
    }
    if (pipes) {
        c.in = fdopen(to[1], "w");
        if (c.in != NULL)
            to[1] = -1;
        c.out = fdopen(from[0], "r");
        if (c.out != NULL)
            from[0] = -1;
        if (c.in == NULL || c.out == NULL) {
            child_stop(&c);
            rc = otl_fail(err, OTL_ENOMEM, "no memory for a pipe");
            goto out;
        }
    }
    *out = c;
out:
    close(log_fd);
    close_pair(to);
    close_pair(from);
    return rc;
}

static void close_pipes(struct child *c)
{
    if (c->in != NULL)
        fclose(c->in);
    if (c->out != NULL)
        fclose(c->out);
    c->in = c->out = NULL;
}

void child_stop(struct child *c)
{
    const struct timespec pause = {.tv_nsec = ROUND_MS * 1000000L};

    close_pipes(c);
    if (c->pid <= 0)
        return;
    (void)kill(c->pid, SIGTERM);
    for (int i = 0; i < STOP_ROUNDS && c->pid > 0; i++) {
        if (waitpid(c->pid, NULL, WNOHANG) != 0)
            c->pid = 0;
        else
            nanosleep(&pause, NULL);
    }
    if (c->pid > 0) {
        (void)kill(c->pid, SIGKILL);
        (void)waitpid(c->pid, NULL, 0);
    }
    c->pid = 0;
}

void child_interrupt(const struct child *c)
{
    if (c->pid > 0)
        (void)kill(c->pid, SIGINT);
}

int child_wait(struct child *c)
{
    int status = 0;

    close_pipes(c);
    if (c->pid <= 0 || waitpid(c->pid, &status, 0) != c->pid)
        status = -1;
    c->pid = 0;
    return status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

enum otl_err child_run(const char *const *argv, const char *log, struct buf *out,
                       struct otl_error *err)
{
    struct child c;
    enum otl_err rc = child_start(argv, log, true, &c, err);
    char part[16384];
    size_t n;
    int status;

    if (rc != OTL_OK)
        return rc;
    while ((n = fread(part, 1, sizeof(part), c.out)) > 0)
        buf_add(out, part, n);
    status = child_wait(&c);
    if (status != 0)
        return otl_fail(err, OTL_EIO, "%.128s %.128s ended with status %d; see %.128s", argv[0],
                        argv[1] == NULL ? "" : argv[1], status, log);
    if (out->failed)
        return otl_fail(err, OTL_ENOMEM, "no memory for what %.128s printed", argv[0]);
    return OTL_OK;
}

enum otl_err child_beside(const char *name, char *out, size_t n, struct otl_error *err)
{
    ssize_t got = readlink("/proc/self/exe", out, n);
    char *slash;

    if (got <= 0 || (size_t)got >= n)
        return otl_fail(err, OTL_ESYSTEM, "cannot tell where this program is: %s", strerror(errno));
    out[got] = '\0';
    slash = strrchr(out, '/');
    if (slash == NULL || (size_t)(slash + 1 - out) + strlen(name) >= n)
        return otl_fail(err, OTL_ESYSTEM, "the path of this program is too long");
    strcpy(slash + 1, name);
    return OTL_OK;
}

unsigned child_free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unsigned port = 0;

    if (fd < 0)
        return 0;
    if (bind(fd, (const struct sockaddr *)&a, n) == 0 &&
        getsockname(fd, (struct sockaddr *)&a, &n) == 0)
        port = ntohs(a.sin_port);
    close(fd);
    return port;
}
