#include "pbwrite.h"

#include <stdlib.h>

void pb_raw_varint(struct buf *b, uint64_t v)
{
    while (v >= 0x80) {
        buf_add_char(b, (char)(uint8_t)(v | 0x80));
        v >>= 7;
    }
    buf_add_char(b, (char)(uint8_t)v);
}

static void tag(struct buf *b, uint32_t field, unsigned wire)
{
    pb_raw_varint(b, (uint64_t)field << 3 | wire);
}

void pb_varint(struct buf *b, uint32_t field, uint64_t v)
{
    tag(b, field, 0);
    pb_raw_varint(b, v);
}

void pb_fixed64(struct buf *b, uint32_t field, uint64_t v)
{
    tag(b, field, 1);
    for (int i = 0; i < 8; i++)
        buf_add_char(b, (char)(uint8_t)(v >> (8 * i)));
}

void pb_double(struct buf *b, uint32_t field, double v)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof(bits));
    pb_fixed64(b, field, bits);
}

void pb_bytes(struct buf *b, uint32_t field, struct bytes s)
{
    tag(b, field, 2);
    pb_raw_varint(b, s.n);
    buf_add_bytes(b, s);
}

void pb_str(struct buf *b, uint32_t field, const char *s)
{
    pb_bytes(b, field, bytes_str(s));
}

void pb_wrap(struct buf *b, uint32_t field)
{
    struct buf w = {0};

    pb_bytes(&w, field, buf_bytes(b));
    if (w.failed)
        abort();
    buf_fini(b);
    *b = w;
}

void pb_gauge_request(struct buf *point, const char *name)
{
    struct buf metric = {0};

    pb_wrap(point, 1); /* Gauge.data_points */
    pb_wrap(point, 5); /* Metric.gauge */
    pb_str(&metric, 1, name);
    buf_add_bytes(&metric, buf_bytes(point));
    buf_fini(point);
    *point = metric;
    pb_wrap(point, 2); /* ScopeMetrics.metrics */
    pb_wrap(point, 2); /* ResourceMetrics.scope_metrics */
    pb_wrap(point, 1); /* resource_metrics */
}
