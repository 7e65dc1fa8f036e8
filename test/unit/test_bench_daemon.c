/* How otlite-bench starts and ends a daemon, which is in no library. The programs are shell scripts
 * that say what otlite would say, so that every ending can be had. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../../bench/daemon.c"

struct fixture {
    char dir[256], program[300], data[300];
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct otl_error err;

    if (f == NULL || scratch_make(f->dir, sizeof(f->dir), &err) != OTL_OK)
        return -1;
    snprintf(f->program, sizeof(f->program), "%s/program", f->dir);
    snprintf(f->data, sizeof(f->data), "%s/data", f->dir);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    scratch_remove(f->dir);
    free(f);
    return 0;
}

static enum otl_err start_script(const struct fixture *f, const char *const *settings,
                                 const char *script, struct daemon *d, struct otl_error *err)
{
    const struct daemon_opts o = {.program = f->program, .data_dir = f->data, .settings = settings};
    FILE *out = fopen(f->program, "we");

    assert_non_null(out);
    fprintf(out, "#!/bin/sh\n%s\n", script);
    fclose(out);
    assert_int_equal(chmod(f->program, 0700), 0);
    return daemon_start(&o, d, err);
}

static bool exists(pid_t pid)
{
    return kill(pid, 0) == 0;
}

#define SERVING "echo 'ts=1 level=info module=serve msg=serving listen=127.0.0.1:4711 pid=1' >&2\n"

static void port_comes_from_the_serving_line(void **state)
{
    struct fixture *f = *state;
    struct daemon d = {0};
    struct otl_error err = {0};
    pid_t pid;

    assert_int_equal(start_script(f, NULL, SERVING "exec sleep 60", &d, &err), OTL_OK);
    assert_int_equal(d.port, 4711);
    assert_string_equal(d.url, "http://127.0.0.1:4711/v1/metrics");
    pid = d.pid;
    assert_true(exists(pid));
    assert_true(getpgid(pid) == pid); /* Ctrl-C does not reach it */
    assert_true(daemon_stop(&d));
    assert_int_equal(d.pid, 0);
    assert_false(exists(pid));
    assert_true(daemon_stop(&d)); /* does nothing */
    daemon_kill(&d);
}

static void an_early_end_is_told_with_the_log(void **state)
{
    struct fixture *f = *state;
    struct daemon d = {.pid = 0};
    struct otl_error err = {0};

    assert_int_equal(start_script(f, NULL, "echo 'no room on the disk' >&2; exit 3", &d, &err),
                     OTL_EIO);
    assert_non_null(strstr(err.msg, "no room on the disk"));
    assert_non_null(strstr(err.msg, "ended at its start"));
    assert_int_equal(d.pid, 0);
}

static void a_daemon_that_served_and_ended_is_no_daemon(void **state)
{
    struct fixture *f = *state;
    struct daemon d = {0};
    struct otl_error err = {0};

    /* The line without its end is not yet the line. */
    assert_int_equal(
        start_script(f, NULL, "printf ' msg=serving  listen=127.0.0.1:47' >&2", &d, &err), OTL_EIO);
    assert_int_equal(d.pid, 0);
}

static void a_program_that_is_missing_is_told(void **state)
{
    struct fixture *f = *state;
    const struct daemon_opts o = {.program = "/nonexistent/otlite", .data_dir = f->data};
    struct daemon d = {0};
    struct otl_error err = {0};

    assert_int_equal(daemon_start(&o, &d, &err), OTL_EIO);
    assert_non_null(strstr(err.msg, "cannot run this program"));
}

static void settings_become_arguments_and_variables_stay_out(void **state)
{
    static const char *const settings[] = {"sqlite.durability=full", "http.loops=2", NULL};
    struct fixture *f = *state;
    struct daemon d = {0};
    struct otl_error err = {0};
    struct buf log = {0};
    char expected[1024];

    assert_int_equal(setenv("OTLITE_DATA", "/somewhere", 1), 0);
    assert_int_equal(
        start_script(f, settings, "echo \"$@ [$OTLITE_DATA]\"\n" SERVING "exec sleep 60", &d, &err),
        OTL_OK);
    assert_int_equal(unsetenv("OTLITE_DATA"), 0);
    assert_int_equal(read_log(d.log, &log, &err), OTL_OK);
    snprintf(expected, sizeof(expected),
             "serve --listen 127.0.0.1:0 --data %s --set sqlite.durability=full --set "
             "http.loops=2 []\n",
             f->data);
    assert_memory_equal(buf_cstr(&log), expected, strlen(expected));
    buf_fini(&log);
    daemon_kill(&d);
    assert_int_equal(d.pid, 0);
}

static void scratch_goes_with_all_it_holds(void **state)
{
    char dir[256], inner[300], file[330];
    struct otl_error err = {0};
    struct stat st;
    FILE *out;

    (void)state;
    assert_int_equal(scratch_make(dir, sizeof(dir), &err), OTL_OK);
    snprintf(inner, sizeof(inner), "%s/data", dir);
    snprintf(file, sizeof(file), "%s/telemetry.db", inner);
    assert_int_equal(mkdir(inner, 0700), 0);
    out = fopen(file, "we");
    assert_non_null(out);
    fclose(out);
    scratch_remove(dir);
    assert_int_not_equal(stat(dir, &st), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(port_comes_from_the_serving_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_early_end_is_told_with_the_log, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_daemon_that_served_and_ended_is_no_daemon, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_program_that_is_missing_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(settings_become_arguments_and_variables_stay_out, set_up,
                                        tear_down),
        cmocka_unit_test(scratch_goes_with_all_it_holds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
