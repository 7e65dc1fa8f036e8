/* reply: the bytes that senders parse, and the words that people read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "otlite/reply.h"
#include "otlp.pb-c.h"
#include "status.pb-c.h"

static struct batch batch;
static struct buf out;

static int fresh(void **state)
{
    (void)state;
    batch = (struct batch){0};
    out = (struct buf){0};
    return 0;
}

static int done(void **state)
{
    (void)state;
    buf_fini(&out);
    return 0;
}

static void assert_out(const char *want, size_t n)
{
    assert_false(out.failed);
    assert_int_equal(out.n, n);
    if (n > 0)
        assert_memory_equal(out.p, want, n);
}

/* The errorMessage of the JSON reply, checked for what every message promises. */
static void json_message(char *copy, size_t size, const char **rejected)
{
    static char count[32];
    json_t *root, *partial;
    const char *s;

    buf_reset(&out);
    reply_success(ENCODING_JSON, &batch, &out);
    root = json_loadb((const char *)out.p, out.n, 0, NULL); /* refuses what is not UTF-8 */
    assert_non_null(root);
    assert_int_equal(json_object_size(root), 1);
    partial = json_object_get(root, "partialSuccess");
    s = json_string_value(json_object_get(partial, "errorMessage"));
    assert_non_null(s);
    assert_true(strlen(s) > 0 && strlen(s) <= 1024 && strlen(s) < size);
    for (const char *c = s; *c != '\0'; c++)
        assert_true((unsigned char)*c >= 0x20 && *c != 0x7f);
    (void)snprintf(copy, size, "%s", s);
    s = json_string_value(json_object_get(partial, "rejectedDataPoints"));
    (void)snprintf(count, sizeof(count), "%s", s != NULL ? s : "");
    *rejected = s != NULL ? count : NULL;
    json_decref(root);
}

static void full_success_is_zero_bytes_or_an_empty_object(void **state)
{
    (void)state;
    batch.received = 3;
    reply_success(ENCODING_PROTOBUF, &batch, &out);
    assert_out("", 0);
    reply_success(ENCODING_JSON, &batch, &out);
    assert_out("{}", 2);
}

static void content_types_are_bare(void **state)
{
    (void)state;
    assert_string_equal(reply_content_type(ENCODING_PROTOBUF), "application/x-protobuf");
    assert_string_equal(reply_content_type(ENCODING_JSON), "application/json");
}

static void partial_success_groups_by_reason_with_an_example(void **state)
{
    static const char want[] =
        "3 points rejected: the point has neither a value nor the no-recorded-value flag "
        "(for example metric \"b.metric\"). "
        "1 point rejected: timeUnixNano is 0 or absent; set the time of the observation "
        "(for example metric \"a.metric\"). "
        "Warning, 2 times: an attribute key occurs twice; the last value was kept "
        "(for example \"host\").";
    Otlp__ExportMetricsServiceResponse *r;
    const char *rejected;
    char msg[2048];

    (void)state;
    batch.rejected[REJECT_TIME_ZERO] = 1;
    batch.reject_example[REJECT_TIME_ZERO] = bytes_str("a.metric");
    batch.rejected[REJECT_NO_VALUE] = 3;
    batch.reject_example[REJECT_NO_VALUE] = bytes_str("b.metric");
    batch.warnings[WARN_DUPLICATE_KEY] = 2;
    batch.warning_example[WARN_DUPLICATE_KEY] = bytes_str("host");
    json_message(msg, sizeof(msg), &rejected);
    assert_string_equal(msg, want);
    assert_string_equal(rejected, "4");

    buf_reset(&out);
    reply_success(ENCODING_PROTOBUF, &batch, &out);
    r = otlp__export_metrics_service_response__unpack(NULL, out.n, out.p);
    assert_non_null(r);
    assert_non_null(r->partial_success);
    assert_int_equal(r->partial_success->rejected_data_points, 4);
    assert_int_equal(r->partial_success->error_message.len, strlen(want));
    assert_memory_equal(r->partial_success->error_message.data, want, strlen(want));
    otlp__export_metrics_service_response__free_unpacked(r, NULL);
}

static void the_wire_form_of_a_partial_success(void **state)
{
    /* partial_success = 1 { rejected_data_points = 1: 300, error_message = 2: ... } */
    static const char want[] = "300 points rejected: the metric name is empty, too long or not "
                               "UTF-8.";
    size_t n = strlen(want);

    (void)state;
    batch.rejected[REJECT_NAME] = 300;
    reply_success(ENCODING_PROTOBUF, &batch, &out);
    assert_true(n < 128);
    assert_int_equal(out.n, 2 + 3 + 2 + n);
    assert_int_equal(out.p[0], 0x0a);
    assert_int_equal(out.p[1], 3 + 2 + n);
    assert_memory_equal(out.p + 2, "\x08\xac\x02\x12", 4);
    assert_int_equal(out.p[6], n);
    assert_memory_equal(out.p + 7, want, n);
}

static void warnings_alone_reject_nothing_but_say_something(void **state)
{
    static const char want[] = "{\"partialSuccess\":{\"errorMessage\":\"Warning, 1 time: text that "
                               "is not UTF-8 was repaired with U+FFFD.\"}}";

    (void)state;
    batch.warnings[WARN_UTF8] = 1;
    reply_success(ENCODING_JSON, &batch, &out);
    assert_out(want, strlen(want));
    buf_reset(&out);
    reply_success(ENCODING_PROTOBUF, &batch, &out);
    assert_true(out.n > 4);
    assert_int_equal(out.p[0], 0x0a);
    assert_int_equal(out.p[2], 0x12); /* the message comes first: no rejected count */
}

static void names_from_the_network_are_made_harmless(void **state)
{
    const char *rejected;
    char msg[2048];

    (void)state;
    batch.rejected[REJECT_NAME] = 1;
    /* newline, ESC, DEL, NEL (U+0085), a broken byte, quotes, a NUL */
    batch.reject_example[REJECT_NAME] = bytes_of("a\nb\x1b[1m\x7f\xc2\x85\xff\"q\"\0z", 16);
    json_message(msg, sizeof(msg), &rejected);
    assert_non_null(strstr(msg, "metric \"a?b?[1m??\xef\xbf\xbd\"q\"?z\""));
}

static void long_names_are_cut_between_characters(void **state)
{
    char name[400];
    const char *rejected;
    char msg[2048];
    const char *p;

    (void)state;
    /* 3 bytes a character: 80 - 3 for the dots is 25 characters and 2 bytes */
    for (size_t i = 0; i + 3 <= sizeof(name); i += 3)
        memcpy(name + i, "\xe2\x82\xac", 3);
    for (size_t shift = 0; shift < 3; shift++) {
        batch.rejected[REJECT_NAME] = 1;
        memcpy(name, "xxx", shift);
        for (size_t i = shift; i + 3 <= sizeof(name); i += 3)
            memcpy(name + i, "\xe2\x82\xac", 3);
        batch.reject_example[REJECT_NAME] = bytes_of(name, sizeof(name));
        json_message(msg, sizeof(msg), &rejected);
        p = strstr(msg, "metric \"");
        assert_non_null(p);
        p += strlen("metric \"");
        assert_memory_equal(p, name, shift + (77 - shift) / 3 * 3);
        assert_memory_equal(p + shift + (77 - shift) / 3 * 3, "...\"", 4);
    }
    /* exactly as long as may be shown: not cut */
    memset(name, 'n', 81);
    batch.reject_example[REJECT_NAME] = bytes_of(name, 80);
    json_message(msg, sizeof(msg), &rejected);
    assert_null(strstr(msg, "..."));
    batch.reject_example[REJECT_NAME] = bytes_of(name, 81);
    json_message(msg, sizeof(msg), &rejected);
    assert_non_null(strstr(msg, "n...\""));
}

static void everything_wrong_at_once_still_fits_and_says_what_is_left_out(void **state)
{
    char name[80];
    const char *rejected;
    char msg[2048];
    unsigned long told = 0, left = 0;
    const char *p;

    (void)state;
    memset(name, 'n', sizeof(name));
    for (int i = 0; i < REJECT_COUNT_OF_REASONS; i++) {
        batch.rejected[i] = UINT64_C(1000000000000000) + (uint64_t)i;
        batch.reject_example[i] = bytes_of(name, sizeof(name));
    }
    for (int i = 0; i < WARN_COUNT_OF_WARNINGS; i++) {
        batch.warnings[i] = UINT64_C(1000000000000000);
        batch.warning_example[i] = bytes_of(name, sizeof(name));
    }
    json_message(msg, sizeof(msg), &rejected);
    assert_string_equal(rejected, "14000000000000091");
    /* The most frequent reason comes first. */
    assert_memory_equal(msg, "1000000000000013 points rejected: ", 34);
    for (p = msg; (p = strstr(p, "100000000000")) != NULL; p++)
        told++;
    p = strstr(msg, " more kinds are not listed.");
    assert_non_null(p);
    while (p > msg && p[-1] >= '0' && p[-1] <= '9')
        p--;
    assert_int_equal(sscanf(p, "%lu", &left), 1);
    /* All but the one that is not told: a metric without data (S13). */
    assert_int_equal(told + left, REJECT_COUNT_OF_REASONS + WARN_COUNT_OF_WARNINGS - 1);
}

static void a_metric_without_data_is_a_full_success(void **state)
{
    struct buf out = {0};

    (void)state;
    batch.warnings[WARN_NO_DATA] = 3;
    batch.warning_example[WARN_NO_DATA] = bytes_str("empty");
    reply_success(ENCODING_PROTOBUF, &batch, &out);
    assert_int_equal(out.n, 0);
    reply_success(ENCODING_JSON, &batch, &out);
    assert_string_equal(buf_cstr(&out), "{}");
    buf_fini(&out);
}

static struct otl_error failure(enum otl_err code, const char *msg, const char *field)
{
    struct otl_error e = {.code = code};

    (void)snprintf(e.msg, sizeof(e.msg), "%s", msg);
    (void)snprintf(e.field, sizeof(e.field), "%s", field);
    return e;
}

static void a_status_in_json(void **state)
{
    static const char plain[] = "{\"code\":14,\"message\":\"the \\\"disk\\\" is full\"}";
    static const char detailed[] =
        "{\"code\":3,\"message\":\"bad name\",\"details\":[{\"@type\":\"type.googleapis.com/"
        "google.rpc.BadRequest\",\"fieldViolations\":[{\"field\":\"resourceMetrics[0]\","
        "\"description\":\"bad name\"}]}]}";
    struct otl_error e = failure(OTL_EFULL, "the \"disk\" is full", "");

    (void)state;
    reply_status(ENCODING_JSON, &e, &out);
    assert_out(plain, strlen(plain));
    buf_reset(&out);
    e = failure(OTL_EBADDATA, "bad name", "resourceMetrics[0]");
    reply_status(ENCODING_JSON, &e, &out);
    assert_out(detailed, strlen(detailed));
}

static void a_status_in_protobuf(void **state)
{
    static const char plain[] = "\x08\x05\x12\x02no";
    /* code 3, message "bad", details: Any { type_url, value: BadRequest { violation } } */
    static const char detailed[] = "\x08\x03"
                                   "\x12\x03"
                                   "bad"
                                   "\x1a\x38"
                                   "\x0a\x29"
                                   "type.googleapis.com/google.rpc.BadRequest"
                                   "\x12\x0b"
                                   "\x0a\x09"
                                   "\x0a\x02"
                                   "rm"
                                   "\x12\x03"
                                   "bad";
    struct otl_error e = failure(OTL_ENOTFOUND, "no", "");
    Rpc__Status *s;

    (void)state;
    reply_status(ENCODING_PROTOBUF, &e, &out);
    assert_out(plain, sizeof(plain) - 1);
    buf_reset(&out);
    e = failure(OTL_EBADDATA, "bad", "rm");
    reply_status(ENCODING_PROTOBUF, &e, &out);
    s = rpc__status__unpack(NULL, out.n, out.p);
    assert_non_null(s);
    assert_int_equal(s->n_details, 1);
    rpc__status__free_unpacked(s, NULL);
    assert_out(detailed, sizeof(detailed) - 1);
}

static void codes_say_what_the_http_status_says(void **state)
{
    static const struct {
        enum otl_err code;
        int rpc;
    } cases[] = {
        {OTL_EBADDATA, 3},  {OTL_EBADREQUEST, 3}, {OTL_EAUTH, 16},   {OTL_EFORBIDDEN, 7},
        {OTL_ENOTFOUND, 5}, {OTL_EMETHOD, 12},    {OTL_ETOOBIG, 8},  {OTL_EMEDIATYPE, 3},
        {OTL_ETE, 12},      {OTL_ERATE, 8},       {OTL_EBUSY, 14},   {OTL_ENOMEM, 14},
        {OTL_EIO, 14},      {OTL_EDB, 14},        {OTL_ESYSTEM, 13}, {OTL_EINTERNAL, 13},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct otl_error e = failure(cases[i].code, "m", "");
        char want[64];

        buf_reset(&out);
        reply_status(ENCODING_JSON, &e, &out);
        (void)snprintf(want, sizeof(want), "{\"code\":%d,\"message\":\"m\"}", cases[i].rpc);
        assert_string_equal(buf_cstr(&out), want);
    }
}

static void a_status_never_goes_without_words_nor_with_broken_ones(void **state)
{
    struct otl_error e = failure(OTL_EBUSY, "", "");
    Rpc__Status *s;

    (void)state;
    reply_status(ENCODING_JSON, &e, &out);
    assert_non_null(strstr(buf_cstr(&out), "\"the writer queue is full\""));
    /* A message cut within a character by otl_fail, with a control character in it. */
    memset(e.msg, 'm', sizeof(e.msg) - 1);
    e.msg[1] = '\n';
    memcpy(e.msg + sizeof(e.msg) - 3, "\xe2\x82", 3);
    buf_reset(&out);
    reply_status(ENCODING_PROTOBUF, &e, &out);
    s = rpc__status__unpack(NULL, out.n, out.p);
    assert_non_null(s);
    assert_true(s->message.len < sizeof(e.msg));
    assert_true(utf8_valid(bytes_of(s->message.data, s->message.len)));
    assert_int_equal(s->message.data[1], '?');
    rpc__status__free_unpacked(s, NULL);
}

static void replies_append(void **state)
{
    (void)state;
    buf_add_str(&out, "head");
    reply_success(ENCODING_JSON, &batch, &out);
    assert_out("head{}", 6);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, fresh, done)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(full_success_is_zero_bytes_or_an_empty_object),
        CASE(content_types_are_bare),
        CASE(partial_success_groups_by_reason_with_an_example),
        CASE(the_wire_form_of_a_partial_success),
        CASE(warnings_alone_reject_nothing_but_say_something),
        CASE(names_from_the_network_are_made_harmless),
        CASE(long_names_are_cut_between_characters),
        CASE(everything_wrong_at_once_still_fits_and_says_what_is_left_out),
        CASE(a_metric_without_data_is_a_full_success),
        CASE(a_status_in_json),
        CASE(a_status_in_protobuf),
        CASE(codes_say_what_the_http_status_says),
        CASE(a_status_never_goes_without_words_nor_with_broken_ones),
        CASE(replies_append),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
