/* Names of Prometheus, by the table of the conformance rules (P-10 to P-22), which was checked
 * against the translator of Prometheus. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "otlite/prom_names.h"

enum kind { GAUGE, COUNTER, UPDOWN, HISTOGRAM };

static const struct {
    const char *name, *unit;
    enum kind kind;
    /* By strategy: underscores with suffixes, without, UTF-8 with suffixes; untranslated is the
     * name. NULL: an error. */
    const char *want[3];
} names[] = {
    {"http.server.request.duration",
     "s",
     HISTOGRAM,
     {"http_server_request_duration_seconds", "http_server_request_duration",
      "http.server.request.duration_seconds"}},
    {"process.cpu.time",
     "s",
     COUNTER,
     {"process_cpu_time_seconds_total", "process_cpu_time", "process.cpu.time_seconds_total"}},
    {"system.cpu.utilization",
     "1",
     GAUGE,
     {"system_cpu_utilization_ratio", "system_cpu_utilization", "system.cpu.utilization_ratio"}},
    {"http.server.active_requests",
     "{request}",
     UPDOWN,
     {"http_server_active_requests", "http_server_active_requests", "http.server.active_requests"}},
    {"system.network.io",
     "By",
     COUNTER,
     {"system_network_io_bytes_total", "system_network_io", "system.network.io_bytes_total"}},
    {"requests.total.count",
     "",
     COUNTER,
     {"requests_count_total", "requests_total_count", "requests.total.count_total"}},
    {"items", "1", COUNTER, {"items_total", "items", "items_total"}},
    {"disk.io", "kBy", COUNTER, {"disk_io_kBy_total", "disk_io", "disk.io_kBy_total"}},
    {"wind.speed",
     "m/s",
     GAUGE,
     {"wind_speed_meters_per_second", "wind_speed", "wind.speed_meters_per_second"}},
    {"car.speed", "km/h", GAUGE, {"car_speed_km_per_hour", "car_speed", "car.speed_km_per_hour"}},
    {"net.packets",
     "{packet}/s",
     GAUGE,
     {"net_packets_per_second", "net_packets", "net.packets_per_second"}},
    {"op.size", "By/{op}", GAUGE, {"op_size_bytes", "op_size", "op.size_bytes"}},
    {"humidity", "%", GAUGE, {"humidity_percent", "humidity", "humidity_percent"}},
    {"5xx.count", "", COUNTER, {"_5xx_count_total", "_5xx_count", "5xx.count_total"}},
    {"latency_seconds", "s", GAUGE, {"latency_seconds", "latency_seconds", "latency_seconds"}},
    {"seconds.since.boot",
     "s",
     GAUGE,
     {"seconds_since_boot", "seconds_since_boot", "seconds.since.boot_seconds"}},
    {"cpu_seconds_total",
     "s",
     COUNTER,
     {"cpu_seconds_total", "cpu_seconds_total", "cpu_seconds_total"}},
    {"foo_second",
     "m/s",
     GAUGE,
     {"foo_second_meters_per_second", "foo_second", "foo_second_meters_per_second"}},
    {"a:b", "", GAUGE, {"a:b", "a:b", "a:b"}},
    {"a..b__c", "", GAUGE, {"a_b_c", "a_b__c", "a..b__c"}},
    {"m\xc3\xa9tric.x", "", GAUGE, {"m_tric_x", "m_tric_x", "m\xc3\xa9tric.x"}},
    {"@#$", "", GAUGE, {NULL, NULL, "@#$"}},
    {"clock", "MHz", GAUGE, {"clock_MHz", "clock", "clock_MHz"}},
    {"used_ratio", "1", GAUGE, {"used_ratio", "used_ratio", "used_ratio"}},
    {"_.x.", "", GAUGE, {"x", "__x", "_.x."}},
    {"___", "", GAUGE, {NULL, "___", "___"}},
    {"", "", GAUGE, {NULL, NULL, NULL}},
};

static void metric_names_follow_the_table(void **state)
{
    static const enum metric_type types[] = {METRIC_GAUGE, METRIC_SUM, METRIC_SUM,
                                             METRIC_HISTOGRAM};
    (void)state;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        for (int s = 0; s < NAME_STRATEGIES; s++) {
            const char *want = s == NAMES_UNTRANSLATED
                                   ? (names[i].name[0] == '\0' ? NULL : names[i].name)
                                   : names[i].want[s];
            struct buf b = {0};
            bool ok = prom_metric_name(&b, (enum name_strategy)s, bytes_str(names[i].name),
                                       bytes_str(names[i].unit), types[names[i].kind],
                                       names[i].kind == COUNTER);

            assert_string_equal(buf_cstr(&b), want == NULL ? "" : want);
            assert_int_equal(ok, want != NULL);
            buf_fini(&b);
        }
    }
}

static void labels_follow_the_rules(void **state)
{
    static const struct {
        const char *key, *want;
    } keys[] = {
        {"http.route", "http_route"},
        {"a..b", "a__b"},
        {"1st", "key_1st"},
        {"_x", "key_x"},
        {".x", "key_x"},
        {"__x", "__x"},
        {"..x", "__x"},
        {"...", NULL},
        {"", NULL},
        {"caf\xc3\xa9", "caf_"},
        {"\xc3\xa9x", "key_x"},
        {"\xc3\xa9\xc3\xa9x", "__x"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        for (int s = 0; s < NAME_STRATEGIES; s++) {
            bool utf8 = s == NAMES_UTF8_WITH_SUFFIXES || s == NAMES_UNTRANSLATED;
            const char *want = !utf8 ? keys[i].want : keys[i].key[0] == '\0' ? NULL : keys[i].key;
            struct buf b = {0};

            assert_int_equal(prom_label_name(&b, (enum name_strategy)s, bytes_str(keys[i].key)),
                             want != NULL);
            assert_string_equal(buf_cstr(&b), want == NULL ? "" : want);
            buf_fini(&b);
        }
    }
}

static void units_have_words(void **state)
{
    static const struct {
        const char *unit, *want;
    } cases[] = {{"s", "seconds"}, {"m/s", "meters_per_second"}, {"{x}", ""}, {"1", ""},
                 {"", ""},         {"{x}/s", "per_second"}};
    (void)state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf b = {0};

        prom_unit(&b, bytes_str(cases[i].unit));
        assert_string_equal(buf_cstr(&b), cases[i].want);
        buf_fini(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metric_names_follow_the_table),
        cmocka_unit_test(labels_follow_the_rules),
        cmocka_unit_test(units_have_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
