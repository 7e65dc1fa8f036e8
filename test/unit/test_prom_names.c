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
    const char *want; /* NULL: an error */
} names[] = {
    {"http.server.request.duration", "s", HISTOGRAM, "http_server_request_duration_seconds"},
    {"process.cpu.time", "s", COUNTER, "process_cpu_time_seconds_total"},
    {"system.cpu.utilization", "1", GAUGE, "system_cpu_utilization_ratio"},
    {"http.server.active_requests", "{request}", UPDOWN, "http_server_active_requests"},
    {"system.network.io", "By", COUNTER, "system_network_io_bytes_total"},
    {"requests.total.count", "", COUNTER, "requests_count_total"},
    {"items", "1", COUNTER, "items_total"},
    {"disk.io", "kBy", COUNTER, "disk_io_kBy_total"},
    {"wind.speed", "m/s", GAUGE, "wind_speed_meters_per_second"},
    {"car.speed", "km/h", GAUGE, "car_speed_km_per_hour"},
    {"net.packets", "{packet}/s", GAUGE, "net_packets_per_second"},
    {"op.size", "By/{op}", GAUGE, "op_size_bytes"},
    {"humidity", "%", GAUGE, "humidity_percent"},
    {"5xx.count", "", COUNTER, "_5xx_count_total"},
    {"latency_seconds", "s", GAUGE, "latency_seconds"},
    {"seconds.since.boot", "s", GAUGE, "seconds_since_boot"},
    {"cpu_seconds_total", "s", COUNTER, "cpu_seconds_total"},
    {"foo_second", "m/s", GAUGE, "foo_second_meters_per_second"},
    {"a:b", "", GAUGE, "a:b"},
    {"a..b__c", "", GAUGE, "a_b_c"},
    {"m\xc3\xa9tric.x", "", GAUGE, "m_tric_x"},
    {"@#$", "", GAUGE, NULL},
    {"clock", "MHz", GAUGE, "clock_MHz"},
};

static void metric_names_follow_the_table(void **state)
{
    static const enum metric_type types[] = {METRIC_GAUGE, METRIC_SUM, METRIC_SUM,
                                             METRIC_HISTOGRAM};
    (void)state;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct buf b = {0};
        bool ok = prom_metric_name(&b, bytes_str(names[i].name), bytes_str(names[i].unit),
                                   types[names[i].kind], names[i].kind == COUNTER);

        assert_int_equal(ok, names[i].want != NULL);
        assert_string_equal(buf_cstr(&b), names[i].want == NULL ? "" : names[i].want);
        buf_fini(&b);
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
        {"__x", "__x"},
        {"...", NULL},
        {"", NULL},
        {"caf\xc3\xa9", "caf_"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        struct buf b = {0};

        assert_int_equal(prom_label_name(&b, bytes_str(keys[i].key)), keys[i].want != NULL);
        assert_string_equal(buf_cstr(&b), keys[i].want == NULL ? "" : keys[i].want);
        buf_fini(&b);
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
