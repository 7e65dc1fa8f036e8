/* The built binary's command line: help, mistakes, exit statuses, tokens, health. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

static char binary[4096];
static char dir[64];
static char out[65536]; /* stdout of the last run */
static char err[65536]; /* its stderr */

static void slurp(const char *path, char *to, size_t room)
{
    FILE *f = fopen(path, "rb");
    size_t n;

    assert_non_null(f);
    n = fread(to, 1, room - 1, f);
    to[n] = '\0';
    fclose(f);
}

/* Run `[env] otlite args` by the shell, from the test's own directory; gives the exit status. */
static int run(const char *env, const char *args)
{
    char command[6000], path[128];
    int status;

    snprintf(command, sizeof(command), "cd '%s' && %s '%s' %s >out 2>err </dev/null", dir, env,
             binary, args);
    status = system(command);
    assert_true(WIFEXITED(status));
    snprintf(path, sizeof(path), "%s/out", dir);
    slurp(path, out, sizeof(out));
    snprintf(path, sizeof(path), "%s/err", dir);
    slurp(path, err, sizeof(err));
    return WEXITSTATUS(status);
}

static void has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" does not hold \"%s\"", text, part);
}

static int group_setup(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/otlite-cli-XXXXXX");
    return mkdtemp(dir) == NULL;
}

static int group_teardown(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -r '%s'", dir);
    return system(command);
}

static void help_lists_every_command(void **state)
{
    static const char *const names[] = {"serve",  "token",  "sql",          "stats",  "export",
                                        "backup", "health", "check-config", "version"};
    char line[32];

    (void)state;
    assert_int_equal(run("", "--help"), EX_OK);
    assert_string_equal(err, "");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(line, sizeof(line), "\n  %s ", names[i]);
        has(out, line);
    }
    assert_int_equal(run("", "-h"), EX_OK);
    assert_int_equal(run("", "help"), EX_OK);
}

static void every_command_has_help(void **state)
{
    static const char *const names[] = {
        "serve", "token",  "token create", "token list",   "token revoke", "sql",
        "stats", "export", "backup",       "check-config", "health",       "version"};
    char args[64], usage[64];

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(args, sizeof(args), "%s --help", names[i]);
        snprintf(usage, sizeof(usage), "Usage: otlite %s", names[i]);
        if (run("", args) != EX_OK)
            fail_msg("otlite %s fails: %s", args, err);
        has(out, usage);
        assert_string_equal(err, "");
    }
    assert_int_equal(run("", "help health"), EX_OK);
    has(out, "Usage: otlite health");
    /* --help is there for those whose settings are wrong, too. */
    assert_int_equal(run("OTLITE_NONSENSE=1", "check-config --help"), EX_OK);
}

static void mistakes_are_usage_errors_with_the_nearest_name(void **state)
{
    (void)state;
    assert_int_equal(run("", ""), EX_USAGE);
    has(err, "Usage: otlite COMMAND");
    assert_int_equal(run("", "serv"), EX_USAGE);
    has(err, "there is no command \"serv\"; the nearest one is serve");
    assert_int_equal(run("", "check-config --ste a=b"), EX_USAGE);
    has(err, "there is no flag --ste; the nearest one is --set");
    assert_int_equal(run("", "check-config -x"), EX_USAGE);
    has(err, "there is no flag -x");
    assert_int_equal(run("", "check-config --set"), EX_USAGE);
    has(err, "--set needs an argument");
    assert_int_equal(run("", "check-config --set auth"), EX_USAGE);
    has(err, "--set KEY=VALUE");
    assert_int_equal(run("", "check-config --sample=1"), EX_USAGE);
    has(err, "takes no argument");
    assert_int_equal(run("", "version 1"), EX_USAGE);
    has(err, "one argument too many");
    assert_int_equal(run("", "token revoke"), EX_USAGE);
    has(err, "an argument is missing");
    assert_int_equal(run("", "token crate"), EX_USAGE);
    has(err, "the nearest one is create");
    assert_string_equal(out, "");
}

static void settings_errors_are_78_and_a_missing_file_66(void **state)
{
    (void)state;
    assert_int_equal(run("", "check-config --set http.max_bdy=1M"), EX_CONFIG);
    has(err, "http.max_body");
    assert_int_equal(run("OTLITE_AUTH=maybe", "check-config"), EX_CONFIG);
    has(err, "OTLITE_AUTH: auth = \"maybe\"");
    assert_int_equal(run("", "check-config --listen nowhere"), EX_CONFIG);
    assert_int_equal(run("", "check-config --config no.conf"), EX_NOINPUT);
    has(err, "no.conf");
}

static void check_config_prints_what_comes_of_it(void **state)
{
    (void)state;
    assert_int_equal(run("OTLITE_HTTP_LOOPS=2 OTLITE_LOG_LEVEL=warn",
                         "check-config --set log.level=debug --data /x"),
                     EX_OK);
    has(out, "\nhttp.loops = 2\n");
    has(out, "\nlog.level = debug\n");
    has(out, "\ndata = /x\n");
    has(out, "\nlog.format = logfmt\n");
}

static void version_names_the_libraries(void **state)
{
    (void)state;
    assert_int_equal(run("", "version"), EX_OK);
    assert_memory_equal(out, "otlite ", 7);
    has(out, "\nSQLite 3.");
    has(out, "\nlibevent 2.");
    has(out, "\nzlib 1.");
    has(out, "\nPCRE2 10.");
    assert_int_equal(run("", "--version"), EX_OK);
}

static void output_that_cannot_be_written_is_an_error(void **state)
{
    char command[4200];
    int status;

    (void)state;
    snprintf(command, sizeof(command), "'%s' version >/dev/full 2>/dev/null", binary);
    status = system(command);
    assert_int_equal(WEXITSTATUS(status), EX_IOERR);
}

static void tokens_are_made_listed_and_revoked(void **state)
{
    char token[80], fresh[80];

    (void)state;
    snprintf(fresh, sizeof(fresh), "%s/fresh", dir);
    assert_int_equal(run("", "token list --data fresh"), EX_NOINPUT);
    has(err, "fresh/state.db");
    assert_int_equal(access(fresh, F_OK), -1); /* asking makes nothing */
    assert_int_equal(
        run("", "token create --project shop --scope write,read --note 'for the shop' --data d"),
        EX_OK);
    assert_int_equal(strlen(out), 48); /* the token and a newline, for scripts */
    assert_memory_equal(out, "otl_", 4);
    has(err, "token 1 for project shop, scope read,write, expires never");
    snprintf(token, sizeof(token), "%.47s", out);
    assert_null(strstr(err, token));
    assert_int_equal(run("OTLITE_DATA=d", "token create --scope admin --expires 90d"), EX_OK);
    has(err, "token 2 for project default, scope admin, expires 20");
    assert_int_equal(run("", "token list --data d"), EX_OK);
    has(out, "shop");
    has(out, "for the shop");
    has(out, "read,write");
    assert_null(strstr(out, "otl_"));
    assert_int_equal(run("", "token revoke 1 --data d"), EX_OK);
    assert_int_equal(run("", "token revoke 3 --data d"), EX_NOINPUT);
    has(err, "there is no token 3");
    assert_int_equal(run("", "token revoke x --data d"), EX_USAGE);
    assert_int_equal(run("", "token create --data d"), EX_USAGE);
    has(err, "--scope is missing");
    assert_int_equal(run("", "token create --scope wirte --data d"), EX_USAGE);
    has(err, "write, read, admin");
    assert_int_equal(run("", "token create --scope write --expires 90 --data d"), EX_USAGE);
    has(err, "no duration");
}

/* ---- health, against a server that gives one answer ---- */

struct one_answer {
    int fd;
    const char *answer;
    char request[1024];
};

static void *serve_one(void *arg)
{
    struct one_answer *s = arg;
    int fd = accept(s->fd, NULL, NULL);
    size_t n = 0;
    ssize_t got;

    while (n < sizeof(s->request) - 1 && strstr(s->request, "\r\n\r\n") == NULL &&
           (got = recv(fd, s->request + n, sizeof(s->request) - 1 - n, 0)) > 0)
        n += (size_t)got;
    (void)!write(fd, s->answer, strlen(s->answer));
    close(fd);
    return NULL;
}

/* Listens on a free port of 127.0.0.1; gives the port. */
static unsigned listen_any(int *fd)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(a);

    *fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(*fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(*fd, 4), 0);
    assert_int_equal(getsockname(*fd, (struct sockaddr *)&a, &n), 0);
    return ntohs(a.sin_port);
}

/* args with one %u for the port. */
static int health(const char *env, const char *args, const char *answer, char *request)
{
    struct one_answer s = {.answer = answer};
    unsigned port = listen_any(&s.fd);
    char full_args[256], full_env[256];
    pthread_t t;
    int status;

    snprintf(full_args, sizeof(full_args), args, port);
    snprintf(full_env, sizeof(full_env), env, port);
    assert_int_equal(pthread_create(&t, NULL, serve_one, &s), 0);
    status = run(full_env, full_args);
    pthread_join(t, NULL);
    close(s.fd);
    strcpy(request, s.request);
    return status;
}

static void health_is_0_when_ready(void **state)
{
    char request[1024];

    (void)state;
    assert_int_equal(health("", "health --url http://127.0.0.1:%u",
                            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n", request),
                     EX_OK);
    assert_memory_equal(request, "GET /readyz HTTP/1.1\r\n", 22);
    assert_int_equal(
        health("", "health --url http://127.0.0.1:%u/otlp/", "HTTP/1.1 200 OK\r\n\r\n", request),
        EX_OK);
    assert_memory_equal(request, "GET /otlp/readyz HTTP/1.1\r\n", 27);
}

static void health_follows_the_settings_without_a_url(void **state)
{
    char request[1024];

    (void)state;
    assert_int_equal(health("OTLITE_LISTEN=0.0.0.0:%u OTLITE_HTTP_PREFIX=/p", "health",
                            "HTTP/1.1 200 OK\r\n\r\n", request),
                     EX_OK);
    assert_memory_equal(request, "GET /p/readyz ", 14);
}

static void health_is_69_with_what_it_saw(void **state)
{
    char request[1024], args[64];
    unsigned port;
    int fd;

    (void)state;
    assert_int_equal(health("", "health --url http://127.0.0.1:%u",
                            "HTTP/1.1 503 Service Unavailable\r\n\r\nthe disk is full\n", request),
                     EX_UNAVAILABLE);
    has(err, "it answered 503: the disk is full");
    assert_int_equal(health("", "health --url http://127.0.0.1:%u", "SSH-2.0-OpenSSH\r\n", request),
                     EX_UNAVAILABLE);
    has(err, "does not speak HTTP");
    assert_int_equal(health("", "health --url http://127.0.0.1:%u", "", request), EX_UNAVAILABLE);
    port = listen_any(&fd);
    close(fd);
    snprintf(args, sizeof(args), "health --url http://127.0.0.1:%u", port);
    assert_int_equal(run("", args), EX_UNAVAILABLE);
    has(err, "Connection refused");
}

static void health_gives_up_by_its_own_clock(void **state)
{
    char args[80];
    unsigned port;
    int fd;

    (void)state;
    port = listen_any(&fd); /* the kernel connects, nobody answers */
    snprintf(args, sizeof(args), "health --timeout 20ms --url http://127.0.0.1:%u", port);
    assert_int_equal(run("", args), EX_UNAVAILABLE);
    has(err, "timed out");
    close(fd);
}

static void health_refuses_a_bad_url(void **state)
{
    static const char *const bad[] = {
        "https://127.0.0.1:4318", "127.0.0.1:4318", "http://",     "http://h:0",
        "http://h:99999",         "http://h:x",     "http://[::1", "http://h:1/?q"};
    char args[80];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(args, sizeof(args), "health --url '%s'", bad[i]);
        if (run("", args) != EX_USAGE)
            fail_msg("%s was taken for a URL", bad[i]);
    }
    assert_int_equal(run("", "health --timeout 0s"), EX_USAGE);
    assert_int_equal(run("OTLITE_LISTEN=127.0.0.1:0", "health"), EX_USAGE);
    has(err, "no fixed port");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_lists_every_command),
        cmocka_unit_test(every_command_has_help),
        cmocka_unit_test(mistakes_are_usage_errors_with_the_nearest_name),
        cmocka_unit_test(settings_errors_are_78_and_a_missing_file_66),
        cmocka_unit_test(check_config_prints_what_comes_of_it),
        cmocka_unit_test(version_names_the_libraries),
        cmocka_unit_test(output_that_cannot_be_written_is_an_error),
        cmocka_unit_test(tokens_are_made_listed_and_revoked),
        cmocka_unit_test(health_is_0_when_ready),
        cmocka_unit_test(health_follows_the_settings_without_a_url),
        cmocka_unit_test(health_is_69_with_what_it_saw),
        cmocka_unit_test(health_gives_up_by_its_own_clock),
        cmocka_unit_test(health_refuses_a_bad_url),
    };
    const char *given = getenv("OTLITE_BIN");
    char guess[4096];

    /* This program lies in $B/test, the binary in $B. */
    (void)argc;
    if (given == NULL) {
        const char *slash = strrchr(argv[0], '/');

        snprintf(guess, sizeof(guess), "%.*s../otlite",
                 slash == NULL ? 0 : (int)(slash - argv[0] + 1), argv[0]);
        given = guess;
    }
    if (realpath(given, binary) == NULL || access(binary, X_OK) != 0) {
        printf("test_cli: skipped, there is no %s; build it or set OTLITE_BIN\n", given);
        return 0;
    }
    unsetenv("OTLITE_BIN"); /* the binary refuses OTLITE_ variables that it does not know */
    return cmocka_run_group_tests_name("cli", tests, group_setup, group_teardown);
}
