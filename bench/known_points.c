#include "known_points.h"

#include <endian.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>

#define SCOPE_NAME    "otlite-bench.r5"
#define GAUGE_NAME    "bench.r5.gauge"
#define SUM_NAME      "bench.r5.sum"
#define UNIT          "{view}"
#define START_BEFORE  INT64_C(3600000000000) /* an hour */
#define NO_VALUE_FLAG 1U

#define SELECT_POINTS                                                                       \
    "SELECT p.time, p.start_time, p.flags, p.value, m.name, m.unit, m.type, m.temporality," \
    " m.is_monotonic, s.attributes, c.name FROM "
#define OF_CLIENT                                                                \
    " p JOIN series s ON s.id = p.series_id JOIN metric m ON m.id = s.metric_id" \
    " JOIN scope c ON c.id = m.scope_id JOIN resource r ON r.id = c.resource_id" \
    " WHERE p.time BETWEEN ?2 AND ?3 AND r.service_name = ?4"
#define HALF_EPOCHS(half) \
    "head h CROSS JOIN number_head_" half " p ON p.id > ?1 - (h.epoch - 1 << 40)"
#define HALF_ROWS(half)                                                                 \
    "(SELECT p.* FROM " HALF_EPOCHS(half) " WHERE h.kind = 'number' AND h.half = " half \
                                          " AND h.state <> 'sealed')"
#define NEWEST_OF(half)                                                                           \
    "SELECT (h.epoch - 1 << 40) + coalesce((SELECT max(id) FROM number_head_" half "), 0) AS row" \
    " FROM head h WHERE h.kind = 'number' AND h.half = " half " AND h.state <> 'sealed'"

const char known_points_newest_sql[] =
    "SELECT max(row) FROM (" NEWEST_OF("0") " UNION ALL " NEWEST_OF("1") ")";
const char known_points_sql[] = SELECT_POINTS HALF_ROWS("0") OF_CLIENT
    " UNION ALL " SELECT_POINTS HALF_ROWS("1") OF_CLIENT " ORDER BY 1";
const char known_points_anywhere_sql[] =
    SELECT_POINTS "number_point" OF_CLIENT " AND ?1 IS NOT NULL ORDER BY 1";

enum {
    COL_TIME,
    COL_START,
    COL_FLAGS,
    COL_VALUE,
    COL_NAME,
    COL_UNIT,
    COL_TYPE,
    COL_TEMPORALITY,
    COL_MONOTONIC,
    COL_ATTRIBUTES,
    COL_SCOPE
};

void known_service(unsigned client, char out[32])
{
    snprintf(out, 32, "client-%05u", client);
}

/* The last bits of a value are of the turn, so that no row of another turn is taken for this one's.
 */
void known_points_make(struct known_point out[KNOWN_POINTS], unsigned client, uint64_t turn,
                       int64_t at_ns)
{
    int64_t n = (int64_t)client * 1000003 + (int64_t)turn;

    for (unsigned k = 0; k < KNOWN_POINTS; k++) {
        struct known_point *p = &out[k];

        *p = (struct known_point){
            .time = at_ns + k, .start_time = at_ns - START_BEFORE, .is_sum = k >= 6, .slot = k};
        switch (k) {
        case 0:
            p->kind = KNOWN_DOUBLE;
            p->d = (double)n + 0.1;
            break;
        case 1:
            p->kind = KNOWN_INT;
            p->i = -n - 1;
            break;
        case 2:
            p->kind = KNOWN_DOUBLE;
            p->d = -0.0;
            break;
        case 3:
            p->kind = KNOWN_DOUBLE;
            p->d = turn % 2 == 0 ? (double)INFINITY : -(double)INFINITY;
            break;
        case 4:
            p->kind = KNOWN_DOUBLE;
            p->d = (double)NAN;
            break;
        case 5:
            p->kind = KNOWN_NONE;
            p->flags = NO_VALUE_FLAG;
            break;
        case 6: /* more digits than a double has */
            p->kind = KNOWN_INT;
            p->i = INT64_MAX - n;
            break;
        case 7:
            p->kind = KNOWN_DOUBLE;
            p->d = (double)n / 3;
            break;
        default:
            p->kind = KNOWN_INT;
            p->i = n + (int64_t)k;
            break;
        }
    }
}

/* --- encoding --- */

static void put_varint(struct buf *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        buf_add_char(b, (char)(v | 0x80));
    buf_add_char(b, (char)v);
}

static void put_uint(struct buf *b, unsigned field, uint64_t v)
{
    put_varint(b, (uint64_t)field << 3);
    put_varint(b, v);
}

static void put_fixed64(struct buf *b, unsigned field, uint64_t v)
{
    uint64_t le = htole64(v);

    put_varint(b, (uint64_t)field << 3 | 1);
    buf_add(b, &le, sizeof(le));
}

static void put_bytes(struct buf *b, unsigned field, struct bytes v)
{
    put_varint(b, (uint64_t)field << 3 | 2);
    put_varint(b, v.n);
    buf_add_bytes(b, v);
}

/* child becomes a field of b, and is empty again. */
static void put_child(struct buf *b, unsigned field, struct buf *child)
{
    b->failed = b->failed || child->failed;
    put_bytes(b, field, buf_bytes(child));
    buf_reset(child);
}

static uint64_t double_bits(double d)
{
    uint64_t v;

    memcpy(&v, &d, sizeof(v));
    return v;
}

static void put_attribute(struct buf *b, unsigned field, const char *key, struct buf *value)
{
    struct buf pair = {0};

    put_bytes(&pair, 1, bytes_str(key));
    put_child(&pair, 2, value);
    put_child(b, field, &pair);
    buf_fini(&pair);
}

static void put_point(struct buf *b, const struct known_point *p)
{
    struct buf value = {0};

    put_fixed64(b, 2, (uint64_t)p->start_time);
    put_fixed64(b, 3, (uint64_t)p->time);
    if (p->kind == KNOWN_DOUBLE)
        put_fixed64(b, 4, double_bits(p->d));
    if (p->kind == KNOWN_INT)
        put_fixed64(b, 6, (uint64_t)p->i);
    put_uint(&value, 3, p->slot); /* int_value */
    put_attribute(b, 7, "slot", &value);
    put_uint(b, 8, p->flags);
    buf_fini(&value);
}

/* All points of one metric. */
static void put_metric(struct buf *b, const struct known_point *p, bool is_sum)
{
    struct buf metric = {0}, data = {0}, point = {0};

    for (unsigned k = 0; k < KNOWN_POINTS; k++) {
        if (p[k].is_sum != is_sum)
            continue;
        put_point(&point, &p[k]);
        put_child(&data, 1, &point);
    }
    if (is_sum) {
        put_uint(&data, 2, 2); /* cumulative */
        put_uint(&data, 3, 1); /* monotonic */
    }
    put_bytes(&metric, 1, bytes_str(is_sum ? SUM_NAME : GAUGE_NAME));
    put_bytes(&metric, 3, bytes_str(UNIT));
    put_child(&metric, is_sum ? 7 : 5, &data);
    put_child(b, 2, &metric);
    buf_fini(&metric);
    buf_fini(&data);
    buf_fini(&point);
}

void known_points_encode(struct buf *out, const struct known_point p[KNOWN_POINTS], unsigned client)
{
    struct buf resource = {0}, scope = {0}, part = {0}, value = {0};
    char service[32];

    known_service(client, service);
    put_bytes(&value, 1, bytes_str(service)); /* string_value */
    put_attribute(&part, 1, "service.name", &value);
    put_child(&resource, 1, &part);
    put_bytes(&part, 1, bytes_str(SCOPE_NAME));
    put_child(&scope, 1, &part);
    put_metric(&scope, p, false);
    put_metric(&scope, p, true);
    put_child(&resource, 2, &scope);
    buf_reset(out);
    put_child(out, 1, &resource);
    buf_fini(&resource);
    buf_fini(&scope);
    buf_fini(&part);
    buf_fini(&value);
}

/* --- comparing --- */

static bool is_text(sqlite3_stmt *st, int column, const char *expected)
{
    return sqlite3_column_type(st, column) == SQLITE_TEXT &&
           bytes_equal(
               bytes_of(sqlite3_column_text(st, column), (size_t)sqlite3_column_bytes(st, column)),
               bytes_str(expected));
}

static bool is_int(sqlite3_stmt *st, int column, int64_t expected)
{
    return sqlite3_column_type(st, column) == SQLITE_INTEGER &&
           sqlite3_column_int64(st, column) == expected;
}

/* A NaN is stored as its eight bytes, big-endian (docs/schema.md, "Doubles"). */
static bool is_value(sqlite3_stmt *st, const struct known_point *p)
{
    int type = sqlite3_column_type(st, COL_VALUE);
    uint64_t be;

    switch (p->kind) {
    case KNOWN_NONE:
        return type == SQLITE_NULL;
    case KNOWN_INT:
        return is_int(st, COL_VALUE, p->i);
    case KNOWN_DOUBLE:
        if (!isnan(p->d))
            return type == SQLITE_FLOAT &&
                   double_bits(sqlite3_column_double(st, COL_VALUE)) == double_bits(p->d);
        if (type != SQLITE_BLOB || sqlite3_column_bytes(st, COL_VALUE) != (int)sizeof(be))
            return false;
        memcpy(&be, sqlite3_column_blob(st, COL_VALUE), sizeof(be));
        return be64toh(be) == double_bits(p->d);
    }
    return false;
}

const char *known_point_difference(const struct known_point *p, sqlite3_stmt *st)
{
    char attributes[32];

    snprintf(attributes, sizeof(attributes), "{\"slot\":%u}", p->slot);
    if (!is_int(st, COL_TIME, p->time))
        return "time";
    if (!is_int(st, COL_START, p->start_time))
        return "start_time";
    if (!is_int(st, COL_FLAGS, p->flags))
        return "flags";
    if (!is_value(st, p))
        return "value";
    if (!is_text(st, COL_NAME, p->is_sum ? SUM_NAME : GAUGE_NAME))
        return "metric name";
    if (!is_text(st, COL_UNIT, UNIT))
        return "unit";
    if (!is_text(st, COL_TYPE, p->is_sum ? "sum" : "gauge"))
        return "type";
    if (!is_text(st, COL_TEMPORALITY, p->is_sum ? "cumulative" : "none"))
        return "temporality";
    if (!is_int(st, COL_MONOTONIC, p->is_sum))
        return "is_monotonic";
    if (!is_text(st, COL_ATTRIBUTES, attributes))
        return "attributes";
    if (!is_text(st, COL_SCOPE, SCOPE_NAME))
        return "scope name";
    return NULL;
}
