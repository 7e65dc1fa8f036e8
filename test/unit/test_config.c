/* Settings: parsing, ranges, precedence, files, the generated pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/maintain_opts.h"
#include "otlite/config.h"

#include "cli/options.h"
#include "cli/units.h"

static struct config c;
static struct otl_error err;
static char file[64];

/* Each case starts with the defaults, no OTLITE_ variable and an empty file. */
static int setup(void **state)
{
    extern char **environ;
    int fd;

    (void)state;
    for (char **e = environ; *e != NULL;) {
        if (strncmp(*e, "OTLITE_", 7) == 0) {
            char name[128];

            snprintf(name, sizeof(name), "%.*s", (int)strcspn(*e, "="), *e);
            unsetenv(name);
            e = environ;
        } else {
            e++;
        }
    }
    memset(&err, 0, sizeof(err));
    strcpy(file, "/tmp/otlite-conf-XXXXXX");
    fd = mkstemp(file);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(config_init(&c, &err), OTL_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    config_fini(&c);
    unlink(file);
    return 0;
}

static void file_write_n(const char *text, size_t n)
{
    FILE *f = fopen(file, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static enum otl_err file_read(const char *text)
{
    file_write_n(text, strlen(text));
    return config_read_file(&c, file, &err);
}

static void ok(enum otl_err rc)
{
    if (rc != OTL_OK)
        fail_msg("%s", err.msg);
}

static enum otl_err set(const char *key, const char *value)
{
    return config_set(&c, key, value, "--set", &err);
}

static void refused(enum otl_err rc, const char *message_part)
{
    assert_int_equal(rc, OTL_ECONFIG);
    if (strstr(err.msg, message_part) == NULL)
        fail_msg("\"%s\" does not hold \"%s\"", err.msg, message_part);
}

/* ---- units ---- */

static void sizes_are_read(void **state)
{
    int64_t v = -1;

    (void)state;
    assert_true(size_parse("0", &v) && v == 0);
    assert_true(size_parse("1023", &v) && v == 1023);
    assert_true(size_parse("1K", &v) && v == 1024);
    assert_true(size_parse("64m", &v) && v == 67108864);
    assert_true(size_parse("3G", &v) && v == 3221225472);
    assert_true(size_parse("1T", &v) && v == 1099511627776);
    assert_true(size_parse("9223372036854775807", &v) && v == INT64_MAX);
    assert_true(size_parse("8388607T", &v) && v == 8388607 * INT64_C(1099511627776));
    v = -1;
    assert_false(size_parse("8388608T", &v)); /* 2^63 */
    assert_false(size_parse("9223372036854775808", &v));
    assert_false(size_parse("99999999999999999999999", &v));
    assert_false(size_parse("", &v));
    assert_false(size_parse("K", &v));
    assert_false(size_parse("-1", &v));
    assert_false(size_parse("+1", &v));
    assert_false(size_parse(" 1", &v));
    assert_false(size_parse("1 K", &v));
    assert_false(size_parse("1KB", &v));
    assert_false(size_parse("1.5M", &v));
    assert_false(size_parse("1P", &v));
    assert_int_equal(v, -1);
}

static void durations_are_read(void **state)
{
    int64_t v = -1;

    (void)state;
    assert_true(duration_parse("0", &v) && v == 0);
    assert_true(duration_parse("0s", &v) && v == 0);
    assert_true(duration_parse("250ms", &v) && v == 250);
    assert_true(duration_parse("90s", &v) && v == 90000);
    assert_true(duration_parse("2m", &v) && v == 120000);
    assert_true(duration_parse("3h", &v) && v == 10800000);
    assert_true(duration_parse("36500d", &v) && v == INT64_C(3153600000000));
    v = -1;
    assert_false(duration_parse("5", &v)); /* of what? */
    assert_false(duration_parse("s", &v));
    assert_false(duration_parse("", &v));
    assert_false(duration_parse("1h30m", &v));
    assert_false(duration_parse("-1s", &v));
    assert_false(duration_parse("1S", &v));
    assert_false(duration_parse("9223372036854775807d", &v));
    assert_int_equal(v, -1);
}

static void whole_numbers_are_read(void **state)
{
    int64_t v = -1;

    (void)state;
    assert_true(int_parse("-12", &v) && v == -12);
    assert_true(int_parse("007", &v) && v == 7);
    assert_false(int_parse("0x10", &v));
    assert_false(int_parse("1e3", &v));
    assert_false(int_parse("--1", &v));
    assert_false(int_parse("-", &v));
}

static void texts_are_the_shortest_exact_ones(void **state)
{
    char out[UNITS_TEXT];

    (void)state;
    size_text(0, out);
    assert_string_equal(out, "0");
    size_text(1025, out);
    assert_string_equal(out, "1025");
    size_text(67108864, out);
    assert_string_equal(out, "64M");
    size_text(INT64_C(2048) * 1099511627776, out);
    assert_string_equal(out, "2048T");
    duration_text(0, out);
    assert_string_equal(out, "0s");
    duration_text(1500, out);
    assert_string_equal(out, "1500ms");
    duration_text(90000, out);
    assert_string_equal(out, "90s");
    duration_text(86400000, out);
    assert_string_equal(out, "1d");
}

static void distance_is_that_of_levenshtein(void **state)
{
    (void)state;
    assert_int_equal(word_distance("", ""), 0);
    assert_int_equal(word_distance("abc", ""), 3);
    assert_int_equal(word_distance("kitten", "sitting"), 3);
    assert_int_equal(word_distance("flaw", "lawn"), 2);
    assert_int_equal(word_distance("AUTH", "auth"), 0);
}

/* ---- one setting ---- */

static void defaults_are_those_of_the_table(void **state)
{
    (void)state;
    assert_string_equal(c.listen[0], "127.0.0.1:4318");
    assert_null(c.listen[1]);
    assert_string_equal(c.http_paths[2], "/opentelemetry/v1/metrics");
    assert_null(c.http_paths[3]);
    assert_null(c.cors_origins[0]);
    assert_string_equal(c.http_prefix, "");
    assert_int_equal(c.http_max_body, 67108864);
    assert_int_equal(c.http_idle_timeout, 90000);
    assert_int_equal(c.queue_max_requests, 10000);
    assert_string_equal(c.sqlite_durability, "normal");
    assert_false(c.cors_credentials);
    ok(config_check(&c, &err));
}

static void ranges_hold_at_both_ends_and_are_named(void **state)
{
    (void)state;
    ok(set("http.max_body", "1K"));
    ok(set("http.max_body", "1G"));
    assert_int_equal(c.http_max_body, 1073741824);
    refused(set("http.max_body", "1023"), "--set: http.max_body = 1023 is out of range; it may be "
                                          "1K to 1G");
    refused(set("http.max_body", "1073741825"), "1K to 1G");
    assert_int_equal(c.http_max_body, 1073741824); /* as before */
    ok(set("queue.max_age", "100ms"));
    ok(set("queue.max_age", "60s"));
    refused(set("queue.max_age", "99ms"), "100ms to 60s");
    refused(set("queue.max_age", "61s"), "100ms to 60s");
    ok(set("http.loops", "256"));
    refused(set("http.loops", "257"), "0 to 256");
    refused(set("http.loops", "-1"), "0 to 256");
}

static void values_of_the_wrong_kind_say_what_is_right(void **state)
{
    (void)state;
    refused(set("http.max_body", "lots"), "is not a size");
    refused(set("http.idle_timeout", "90"), "is not a duration");
    refused(set("http.loops", "two"), "is not a whole number");
    refused(set("http.loops", ""), "is not a whole number");
    refused(set("cors.credentials", "yes"), "neither true nor false");
    refused(set("log.level", "verbose"), "debug, info, warn or error");
    refused(set("log.level", ""), "debug, info, warn or error");
    refused(set("log.level", "debug|info"), "debug, info, warn or error");
    refused(set("auth", "tokens"), "token or none");
    refused(set("data", "a\nb"), "control character");
    assert_string_equal(c.auth, "token");
}

static void unknown_key_names_the_nearest(void **state)
{
    (void)state;
    refused(set("http.max_bdy", "1M"), "the nearest one is http.max_body");
    refused(set("listn", "x"), "the nearest one is listen");
    refused(set("HTTP.PATHS", "x"), "the nearest one is http.paths");
    refused(set("durability", "full"), "the nearest one is sqlite.durability");
    refused(set("", "x"), "the nearest one is");
}

static void lists_are_split_and_trimmed(void **state)
{
    (void)state;
    ok(set("cors.origins", " https://a.example , https://b.example,,"));
    assert_string_equal(c.cors_origins[0], "https://a.example");
    assert_string_equal(c.cors_origins[1], "https://b.example");
    assert_null(c.cors_origins[2]);
    ok(set("cors.origins", ""));
    assert_null(c.cors_origins[0]);
    ok(set("cors.origins", " , "));
    assert_null(c.cors_origins[0]);
}

/* ---- where settings come from ---- */

static void flag_beats_environment_beats_file_beats_default(void **state)
{
    const char *f = NULL;
    char path[80], *argv[12] = {"serve", "--config", path, NULL};
    const struct cli_flag flags[] = {{"mine", "X", "", &f}, {0}};
    const struct cli_spec spec = {.command = "serve",
                                  .synopsis = "",
                                  .about = "",
                                  .common = CLI_CONFIG | CLI_DATA | CLI_LISTEN,
                                  .flags = flags,
                                  .max_args = 1};
    struct cli_args args;
    struct config got;

    (void)state;
    snprintf(path, sizeof(path), "%s", file);
    file_write_n("log.level = warn\n", 17);
    assert_int_equal(cli_parse(&spec, 3, argv, &got, &args), CLI_GO);
    assert_string_equal(got.log_level, "warn");
    assert_string_equal(got.log_format, "logfmt");
    config_fini(&got);

    setenv("OTLITE_LOG_LEVEL", "error", 1);
    setenv("OTLITE_LISTEN", "127.0.0.1:1", 1);
    assert_int_equal(cli_parse(&spec, 3, argv, &got, &args), CLI_GO);
    assert_string_equal(got.log_level, "error");
    assert_string_equal(got.listen[0], "127.0.0.1:1");
    config_fini(&got);

    argv[3] = "--set=log.level=debug";
    argv[4] = "one";
    argv[5] = "--listen";
    argv[6] = "[::1]:2,127.0.0.1:0";
    argv[7] = "--mine";
    argv[8] = "m";
    argv[9] = "--data=/d";
    argv[10] = NULL;
    assert_int_equal(cli_parse(&spec, 10, argv, &got, &args), CLI_GO);
    assert_string_equal(got.log_level, "debug");
    assert_string_equal(got.listen[0], "[::1]:2");
    assert_string_equal(got.listen[1], "127.0.0.1:0");
    assert_string_equal(got.data, "/d");
    assert_string_equal(f, "m");
    assert_int_equal(args.n, 1);
    assert_string_equal(args.v[0], "one");
    config_fini(&got);
}

static void environment_refuses_unknown_variables(void **state)
{
    (void)state;
    setenv("OTLITE_HTTP_MAX_BDY", "1M", 1);
    refused(config_read_environment(&c, &err),
            "OTLITE_HTTP_MAX_BDY is no setting; the nearest one is OTLITE_HTTP_MAX_BODY");
    unsetenv("OTLITE_HTTP_MAX_BDY");
    setenv("OTLITE_HTTP_MAX_BODY", "1", 1);
    refused(config_read_environment(&c, &err), "OTLITE_HTTP_MAX_BODY: http.max_body = 1 is out of");
}

static void environment_leaves_the_token_and_kubernetes_alone(void **state)
{
    (void)state;
    setenv("OTLITE_TOKEN", "otl_x", 1);
    setenv("OTLITE_PORT", "tcp://10.0.0.7:4318", 1);
    setenv("OTLITE_PORT_4318_TCP_ADDR", "10.0.0.7", 1);
    setenv("OTLITE_SERVICE_HOST", "10.0.0.7", 1);
    setenv("OTLITE_SERVICE_PORT", "4318", 1);
    setenv("OTLITE_SERVICE_PORT_OTLP", "4318", 1);
    ok(config_read_environment(&c, &err));
}

static void file_takes_comments_blanks_and_foreign_line_ends(void **state)
{
    (void)state;
    ok(file_read("\xef\xbb\xbf# first\r\n"
                 "\r\n"
                 "  log.level=debug  # loud\r\n"
                 "\t data \t=\t /var/lib/a b#c \t\n"
                 "http.prefix =\n"
                 "cors.origins = https://a=b"));
    assert_string_equal(c.log_level, "debug");
    assert_string_equal(c.data, "/var/lib/a b#c");
    assert_string_equal(c.http_prefix, "");
    assert_string_equal(c.cors_origins[0], "https://a=b");
}

static void file_errors_name_file_and_line(void **state)
{
    char want[128];

    (void)state;
    snprintf(want, sizeof(want), "%s:3: there is no setting \"lisen\"; the nearest one is listen",
             file);
    refused(file_read("# a\n\nlisen = x\n"), want);
    snprintf(want, sizeof(want), "%s:2: http.loops = 999 is out of range", file);
    refused(file_read("\nhttp.loops = 999\n"), want);
    snprintf(want, sizeof(want), "%s:1: no '=' here", file);
    refused(file_read("listen\n"), want);
    refused(file_read(" = 3\n"), "no key before '='");
    refused(file_read("data = \"./data\"\n"), "without quotes");
    refused(file_read("auth = none\nlog.level = info\nauth = token\n"),
            ":3: auth is set already in line 1");
    file_write_n("auth = none\0x\n", 14);
    refused(config_read_file(&c, file, &err), "NUL byte");
}

static void missing_file_and_directory_are_named(void **state)
{
    (void)state;
    assert_int_equal(config_read_file(&c, "/no/such/otlite.conf", &err), OTL_ENOTFOUND);
    assert_non_null(strstr(err.msg, "/no/such/otlite.conf"));
    assert_int_equal(config_read_file(&c, "/", &err), OTL_ESYSTEM);
}

static void an_enormous_key_is_unknown_rather_than_cut_to_a_known_one(void **state)
{
    char line[4096];

    (void)state;
    memset(line, 'a', sizeof(line));
    memcpy(line + sizeof(line) - 8, " = none", 8);
    refused(file_read(line), "there is no setting");
}

/* ---- the whole ---- */

static void check_of_listen(void **state)
{
    static const char *const good[] = {"127.0.0.1:4318", "0.0.0.0:0",      "[::]:65535",
                                       "[::1]:4318",     "localhost:4318", "127.0.0.1:1,[::1]:1"};
    static const char *const bad[] = {"",
                                      "4318",
                                      ":4318",
                                      "127.0.0.1",
                                      "127.0.0.1:",
                                      "127.0.0.1:65536",
                                      "127.0.0.1:-1",
                                      "127.0.0.1:x",
                                      "127.1:4318",
                                      "256.0.0.1:1",
                                      "::1:4318",
                                      "[::1]",
                                      "[::1]4318",
                                      "[127.0.0.1]:4318",
                                      "example.org:4318",
                                      "127.0.0.1:4318,nonsense"};

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        ok(set("listen", good[i]));
        ok(config_check(&c, &err));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ok(set("listen", bad[i]));
        refused(config_check(&c, &err), "listen");
    }
}

static void loopback_is_told_from_the_rest(void **state)
{
    (void)state;
    assert_true(listen_is_loopback("127.0.0.1:4318"));
    assert_true(listen_is_loopback("127.255.0.9:0"));
    assert_true(listen_is_loopback("[::1]:4318"));
    assert_true(listen_is_loopback("[::ffff:127.0.0.1]:4318"));
    assert_true(listen_is_loopback("localhost:4318"));
    assert_false(listen_is_loopback("0.0.0.0:4318"));
    assert_false(listen_is_loopback("[::]:4318"));
    assert_false(listen_is_loopback("[::ffff:10.0.0.1]:4318"));
    assert_false(listen_is_loopback("128.0.0.1:4318"));
    assert_false(listen_is_loopback("localhost.example.org:4318"));
    assert_false(listen_is_loopback("127.0.0.1"));
    assert_false(listen_is_loopback(""));
}

static void check_of_paths(void **state)
{
    (void)state;
    ok(set("http.paths", "/,/v1/metrics"));
    ok(config_check(&c, &err));
    ok(set("http.paths", "v1/metrics"));
    refused(config_check(&c, &err), "must start with /");
    ok(set("http.paths", "/v1/metrics/"));
    refused(config_check(&c, &err), "not end with it");
    ok(set("http.paths", "/v1/metrics?x"));
    refused(config_check(&c, &err), "http.paths");
    ok(set("http.paths", "/metrics"));
    refused(config_check(&c, &err), "otlite's own");
    ok(set("http.paths", "/a,/b,/a"));
    refused(config_check(&c, &err), "/a is there twice");
    ok(set("http.paths", ""));
    refused(config_check(&c, &err), "http.paths is empty");
    ok(set("http.paths", "/v1/metrics"));
    ok(set("http.prefix", "/otlp"));
    ok(config_check(&c, &err));
    ok(set("http.prefix", "otlp"));
    refused(config_check(&c, &err), "http.prefix");
    ok(set("http.prefix", "/otlp/"));
    refused(config_check(&c, &err), "http.prefix");
    ok(set("http.prefix", "/"));
    refused(config_check(&c, &err), "http.prefix");
}

static void check_of_cors(void **state)
{
    (void)state;
    ok(set("cors.origins", "https://*.example.org,*"));
    ok(config_check(&c, &err));
    ok(set("cors.credentials", "true"));
    refused(config_check(&c, &err), "origin *");
    ok(set("cors.origins", "https://*.example.org"));
    ok(config_check(&c, &err));
    ok(set("cors.origins", "https://*.*.example.org"));
    refused(config_check(&c, &err), "more than one *");
}

static void check_of_sizes_and_data(void **state)
{
    (void)state;
    ok(set("http.max_inflight", "64M"));
    ok(config_check(&c, &err));
    ok(set("http.max_inflight", "63M"));
    refused(config_check(&c, &err), "http.max_body = 64M is more than http.max_inflight = 63M");
    ok(set("http.max_inflight", "64M"));
    ok(set("data", ""));
    refused(config_check(&c, &err), "data is empty");
}

static void check_of_retention(void **state)
{
    struct maintain_opts o;

    (void)state;
    ok(set("retention.max_age", "90d"));
    ok(set("retention.rollup_1h_age", "3650d"));
    ok(set("retention.rules", "metric:http.*=30d,project:a/metric:x?=1h,project:b=0s"));
    ok(config_check(&c, &err));
    ok(cli_maintain_opts(&c, &o, &err));
    assert_true(o.rollups);
    assert_int_equal(o.retention.max_age_ms, INT64_C(90) * 86400000);
    assert_int_equal(o.retention.rollup_5m_age_ms, 0);
    assert_int_equal(o.retention.rollup_1h_age_ms, INT64_C(3650) * 86400000);
    assert_int_equal(o.retention.n_rules, 3);
    assert_null(o.retention.rules[0].project);
    assert_string_equal(o.retention.rules[0].metric, "http.*");
    assert_int_equal(o.retention.rules[0].max_age_ms, INT64_C(30) * 86400000);
    assert_string_equal(o.retention.rules[1].project, "a");
    assert_string_equal(o.retention.rules[1].metric, "x?");
    assert_int_equal(o.retention.rules[1].max_age_ms, 3600000);
    assert_string_equal(o.retention.rules[2].project, "b");
    assert_null(o.retention.rules[2].metric);
    assert_int_equal(o.retention.rules[2].max_age_ms, 0);
    cli_maintain_opts_fini(&o);

    for (const char *const *bad =
             (const char *const[]){"x", "=1d", "metric:=1d", "metric:a", "metric:a=", "metric:a=x",
                                   "project:=1d", "project:/metric:a=1d", "project:a/metric:=1d",
                                   "series:a=1d", NULL};
         *bad != NULL; bad++) {
        ok(set("retention.rules", *bad));
        refused(config_check(&c, &err), "write metric:PATTERN=30d");
        refused(config_check(&c, &err), *bad);
    }
    ok(set("retention.rules", ""));
    ok(set("retention.max_bytes", "16383K"));
    refused(config_check(&c, &err), "the least is 16M");
    ok(set("retention.max_bytes", "16M"));
    ok(config_check(&c, &err));
}

/* ---- what is printed ---- */

static char *printed(void (*print)(FILE *out))
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    assert_non_null(f);
    if (print == NULL)
        config_print(&c, f);
    else
        print(f);
    assert_int_equal(fclose(f), 0);
    return text;
}

static void effective_settings_read_back_as_a_file(void **state)
{
    char *first, *second;

    (void)state;
    ok(set("http.max_body", "3M"));
    ok(set("queue.max_age", "1500ms"));
    ok(set("cors.origins", "https://a, https://b"));
    ok(set("log.format", "json"));
    ok(set("cors.credentials", "true"));
    first = printed(NULL);
    assert_non_null(strstr(first, "\nhttp.max_body = 3M\n"));
    assert_non_null(strstr(first, "\nqueue.max_age = 1500ms\n"));
    assert_non_null(strstr(first, "\ncors.origins = https://a,https://b\n"));
    assert_non_null(strstr(first, "\nhttp.prefix =\n"));
    config_fini(&c);
    ok(config_init(&c, &err));
    ok(file_read(first));
    second = printed(NULL);
    assert_string_equal(first, second);
    free(first);
    free(second);
}

static void sample_reads_back_to_the_defaults_when_uncommented(void **state)
{
    char *sample = printed(config_print_sample), *defaults = printed(NULL), *now;

    (void)state;
    ok(file_read(sample));
    now = printed(NULL);
    assert_string_equal(defaults, now);
    free(now);
    for (char *p = sample; (p = strchr(p, '\n')) != NULL; p++) {
        if (p[1] == '#' && p[2] != ' ')
            p[1] = ' ';
    }
    ok(set("log.level", "error"));
    ok(set("http.loops", "3"));
    ok(file_read(sample));
    now = printed(NULL);
    assert_string_equal(defaults, now);
    free(now);
    free(sample);
    free(defaults);
}

static void page_in_step(const char *path, void (*print)(FILE *out), const char *how)
{
    char *want = printed(print);
    size_t n = strlen(want);
    char *got = calloc(1, n + 2);
    FILE *f = fopen(path, "rb");
    size_t got_n;

    assert_non_null(got);
    if (f == NULL)
        fail_msg("%s is missing; make it with: %s > %s", path, how, path);
    got_n = fread(got, 1, n + 1, f);
    fclose(f);
    if (got_n != n || memcmp(got, want, n) != 0)
        fail_msg("%s is behind the option table; renew it with: %s > %s", path, how, path);
    free(want);
    free(got);
}

static void pages_in_the_tree_are_in_step_with_the_table(void **state)
{
    (void)state;
    page_in_step("docs/configuration.md", config_print_markdown,
                 "build/otlite check-config --markdown");
    page_in_step("deploy/otlite.conf", config_print_sample, "build/otlite check-config --sample");
}

static void help_names_every_key(void **state)
{
    char *help = printed(config_print_help);
    char line[128];

    (void)state;
#define X(kind, field, key, def, min, max, text)   \
    snprintf(line, sizeof(line), "\n  %s =", key); \
    assert_non_null(strstr(help, line));
    OTL_OPTIONS(X)
#undef X
    free(help);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(sizes_are_read),
        CASE(durations_are_read),
        CASE(whole_numbers_are_read),
        CASE(texts_are_the_shortest_exact_ones),
        CASE(distance_is_that_of_levenshtein),
        CASE(defaults_are_those_of_the_table),
        CASE(ranges_hold_at_both_ends_and_are_named),
        CASE(values_of_the_wrong_kind_say_what_is_right),
        CASE(unknown_key_names_the_nearest),
        CASE(lists_are_split_and_trimmed),
        CASE(flag_beats_environment_beats_file_beats_default),
        CASE(environment_refuses_unknown_variables),
        CASE(environment_leaves_the_token_and_kubernetes_alone),
        CASE(file_takes_comments_blanks_and_foreign_line_ends),
        CASE(file_errors_name_file_and_line),
        CASE(missing_file_and_directory_are_named),
        CASE(an_enormous_key_is_unknown_rather_than_cut_to_a_known_one),
        CASE(check_of_listen),
        CASE(loopback_is_told_from_the_rest),
        CASE(check_of_paths),
        CASE(check_of_cors),
        CASE(check_of_sizes_and_data),
        CASE(check_of_retention),
        CASE(effective_settings_read_back_as_a_file),
        CASE(sample_reads_back_to_the_defaults_when_uncommented),
        CASE(pages_in_the_tree_are_in_step_with_the_table),
        CASE(help_names_every_key),
    };

    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
