#include "schema.h"

/* A migration is one text, and longer than what a compiler of C11 has to take; ours take any
 * length. */
#pragma GCC diagnostic ignored "-Woverlength-strings"

/* Conventions: times are nanoseconds since 1970 in INTEGER; `attributes` columns are the JSON text
 * that people read, `identity` columns the canonical bytes (attrs.h) that decide equality and that
 * export is made from, so that nothing hangs on JSON's weaker types.
 *
 * A double column may hold three things (docs/schema.md, "Doubles"): REAL, NULL for "absent", and
 * an 8-byte BLOB, big-endian IEEE 754, for NaN, which SQLite cannot store as REAL. Such columns
 * have no declared type: REAL affinity would turn -0.0 into 0.0.
 *
 * No index on the point tables: it would cost seven eighths of the ingest rate. Rows come in
 * arrival order; resends and late points are recognised without an index (src/store/dedup.c). */
static const char V1[] =
    "CREATE TABLE resource ("
    " id INTEGER PRIMARY KEY,"
    " project_id INTEGER NOT NULL,"
    " service_name TEXT NOT NULL,"
    " attributes TEXT NOT NULL,"
    " identity BLOB NOT NULL,"
    " schema_url TEXT NOT NULL,"
    " dropped_attributes_count INTEGER NOT NULL,"
    " entity_refs TEXT);"
    "CREATE TABLE scope ("
    " id INTEGER PRIMARY KEY,"
    " resource_id INTEGER NOT NULL REFERENCES resource(id),"
    " name TEXT NOT NULL,"
    " version TEXT NOT NULL,"
    " schema_url TEXT NOT NULL,"
    " attributes TEXT NOT NULL,"
    " identity BLOB NOT NULL,"
    " dropped_attributes_count INTEGER NOT NULL);"
    "CREATE TABLE metric ("
    " id INTEGER PRIMARY KEY,"
    " scope_id INTEGER NOT NULL REFERENCES scope(id),"
    " name TEXT NOT NULL,"
    " unit TEXT NOT NULL,"
    " description TEXT NOT NULL,"
    " type TEXT NOT NULL CHECK (type IN"
    "  ('gauge', 'sum', 'histogram', 'exponential_histogram', 'summary')),"
    " temporality TEXT NOT NULL CHECK (temporality IN ('none', 'delta', 'cumulative')),"
    " is_monotonic INTEGER NOT NULL,"
    " metadata TEXT NOT NULL,"
    " metadata_identity BLOB NOT NULL);"
    "CREATE INDEX metric_name ON metric(name);"
    "CREATE TABLE series ("
    " id INTEGER PRIMARY KEY,"
    " metric_id INTEGER NOT NULL REFERENCES metric(id),"
    " attributes TEXT NOT NULL,"
    " identity BLOB NOT NULL);"
    "CREATE INDEX series_metric ON series(metric_id);"
    "CREATE TABLE number_point ("
    " id INTEGER PRIMARY KEY,"
    " series_id INTEGER NOT NULL,"
    " time INTEGER NOT NULL,"
    " start_time INTEGER NOT NULL,"
    " flags INTEGER NOT NULL,"
    " value);"
    "CREATE TABLE histogram_bounds ("
    " id INTEGER PRIMARY KEY,"
    " bounds TEXT NOT NULL UNIQUE);"
    "CREATE TABLE histogram_point ("
    " id INTEGER PRIMARY KEY,"
    " series_id INTEGER NOT NULL,"
    " time INTEGER NOT NULL,"
    " start_time INTEGER NOT NULL,"
    " flags INTEGER NOT NULL,"
    " count INTEGER NOT NULL,"
    " sum, min, max,"
    " bounds_id INTEGER REFERENCES histogram_bounds(id),"
    " bucket_counts TEXT);"
    "CREATE TABLE exponential_histogram_point ("
    " id INTEGER PRIMARY KEY,"
    " series_id INTEGER NOT NULL,"
    " time INTEGER NOT NULL,"
    " start_time INTEGER NOT NULL,"
    " flags INTEGER NOT NULL,"
    " count INTEGER NOT NULL,"
    " sum, min, max,"
    " scale INTEGER NOT NULL,"
    " zero_count INTEGER NOT NULL,"
    " zero_threshold,"
    " positive_offset INTEGER,"
    " positive_counts TEXT,"
    " negative_offset INTEGER,"
    " negative_counts TEXT);"
    "CREATE TABLE summary_point ("
    " id INTEGER PRIMARY KEY,"
    " series_id INTEGER NOT NULL,"
    " time INTEGER NOT NULL,"
    " start_time INTEGER NOT NULL,"
    " flags INTEGER NOT NULL,"
    " count INTEGER NOT NULL,"
    " sum,"
    " quantiles TEXT NOT NULL);"
    "CREATE TABLE exemplar ("
    " id INTEGER PRIMARY KEY,"
    " series_id INTEGER NOT NULL,"
    " point_id INTEGER NOT NULL,"
    " time INTEGER NOT NULL,"
    " value,"
    " trace_id BLOB,"
    " span_id BLOB,"
    " attributes TEXT NOT NULL,"
    " identity BLOB NOT NULL);"
    "CREATE INDEX exemplar_point ON exemplar(point_id, series_id);"
    "CREATE TABLE point_segment ("
    " type TEXT NOT NULL," /* the point table's name without _point */
    " first_id INTEGER NOT NULL,"
    " last_id INTEGER NOT NULL,"
    " min_time INTEGER NOT NULL,"
    " max_time INTEGER NOT NULL,"
    " PRIMARY KEY (type, first_id)) WITHOUT ROWID;"
    /* The latest time of each series, as of the row up_to_id, so that a start reads only the rows
     * after it. Machine's form: dedup.c. */
    "CREATE TABLE series_last_time ("
    " type TEXT PRIMARY KEY,"
    " up_to_id INTEGER NOT NULL,"
    " last_times BLOB NOT NULL);"
    "CREATE VIEW points AS SELECT"
    " p.time / 1e9 AS time,"
    " p.time AS time_unix_nano,"
    " r.service_name AS service_name,"
    " m.name AS metric,"
    " m.unit AS unit,"
    " m.type AS type,"
    " s.attributes AS attributes,"
    " r.attributes AS resource_attributes,"
    " CASE typeof(p.value) WHEN 'blob' THEN NULL ELSE p.value END AS value"
    " FROM number_point p"
    " JOIN series s ON s.id = p.series_id"
    " JOIN metric m ON m.id = s.metric_id"
    " JOIN scope c ON c.id = m.scope_id"
    " JOIN resource r ON r.id = c.resource_id;";

/* What is sealed (part.h). Ids of parts are never used twice: AUTOINCREMENT. */
static const char V2[] =
    "CREATE TABLE part ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " kind TEXT NOT NULL," /* series_schemas[].name */
    " resolution INTEGER NOT NULL,"
    " day INTEGER NOT NULL,"
    " sequence INTEGER NOT NULL,"
    " live INTEGER NOT NULL," /* 0 being written, 1 live, 2 dropped */
    " min_time INTEGER NOT NULL,"
    " max_time INTEGER NOT NULL,"
    " points INTEGER NOT NULL,"
    " blocks INTEGER NOT NULL,"
    " bytes INTEGER NOT NULL);"
    "CREATE TABLE block ("
    " id INTEGER PRIMARY KEY," /* part.id << 24 | number */
    " first_series INTEGER NOT NULL,"
    " last_series INTEGER NOT NULL,"
    " min_time INTEGER NOT NULL,"
    " max_time INTEGER NOT NULL,"
    " points INTEGER NOT NULL,"
    " data BLOB NOT NULL);"
    "CREATE INDEX part_garbage ON part(id) WHERE live <> 1;"
    /* A reader compares one number to know whether it must read `part` again. */
    "CREATE TABLE part_generation (n INTEGER NOT NULL);"
    "INSERT INTO part_generation VALUES (0);"
    "CREATE TRIGGER part_inserted AFTER INSERT ON part WHEN new.live = 1 BEGIN"
    " UPDATE part_generation SET n = n + 1; END;"
    "CREATE TRIGGER part_updated AFTER UPDATE ON part WHEN old.live = 1 OR new.live = 1 BEGIN"
    " UPDATE part_generation SET n = n + 1; END;"
    "CREATE TRIGGER part_deleted AFTER DELETE ON part WHEN old.live = 1 BEGIN"
    " UPDATE part_generation SET n = n + 1; END;";

/* The halves of the head (head.h). What was stored before becomes the first epoch of half 0, which
 * waits for sealing unless it is empty; the rows stay where they are. Exemplars name their point by
 * its key from here on, so that it may move, and have no index: it cost more than the rows. */

/* Kind, and the columns after id. */
#define POINT_HEADS(X)                              \
    X("number", NUMBER_COLUMNS)                     \
    X("histogram", HISTOGRAM_COLUMNS)               \
    X("exponential_histogram", EXPONENTIAL_COLUMNS) \
    X("summary", SUMMARY_COLUMNS)

#define POINT_COLUMNS_    "series_id, time, start_time, flags, "
#define NUMBER_COLUMNS    POINT_COLUMNS_ "value"
#define HISTOGRAM_COLUMNS POINT_COLUMNS_ "count, sum, min, max, bounds_id, bucket_counts"
#define EXPONENTIAL_COLUMNS                                                                    \
    POINT_COLUMNS_ "count, sum, min, max, scale, zero_count, zero_threshold, positive_offset," \
                   " positive_counts, negative_offset, negative_counts"
#define SUMMARY_COLUMNS POINT_COLUMNS_ "count, sum, quantiles"
#define EXEMPLAR_COLUMNS_                                                                   \
    "series_id, point_time, point_start_time, time, value, trace_id, span_id, attributes, " \
    "identity"

#define POINT_TABLE                 \
    "id INTEGER PRIMARY KEY,"       \
    " series_id INTEGER NOT NULL,"  \
    " time INTEGER NOT NULL,"       \
    " start_time INTEGER NOT NULL," \
    " flags INTEGER NOT NULL,"
#define HISTOGRAM_TABLE        \
    POINT_TABLE                \
    " count INTEGER NOT NULL," \
    " sum, min, max,"          \
    " bounds_id INTEGER,"      \
    " bucket_counts TEXT"
#define EXEMPLAR_TABLE                                                                     \
    "id INTEGER PRIMARY KEY,"                                                              \
    " series_id INTEGER NOT NULL,"                                                         \
    " point_time INTEGER NOT NULL,"                                                        \
    " point_start_time INTEGER NOT NULL,"                                                  \
    " time INTEGER NOT NULL,"                                                              \
    " value," /* NULL: a mark that the point was replaced; older exemplars do not count */ \
    " trace_id BLOB,"                                                                      \
    " span_id BLOB,"                                                                       \
    " attributes TEXT NOT NULL,"                                                           \
    " identity BLOB NOT NULL"

/* A table was filled in V1: closed, and the other half is open. */
#define FIRST_EPOCH(kind)                                                                        \
    "INSERT INTO head SELECT '" kind "', 0, 1, CASE WHEN EXISTS (SELECT 1 FROM " kind "_head_0)" \
    " THEN 'closed' ELSE 'open' END;"                                                            \
    "INSERT INTO head SELECT '" kind "', 1, CASE state WHEN 'closed' THEN 2 ELSE 0 END,"         \
    " CASE state WHEN 'closed' THEN 'open' ELSE 'sealed' END"                                    \
    " FROM head WHERE kind = '" kind "' AND half = 0;"

/* Both halves, as far as they count. Ids ascend in the order of arrival over all epochs. */
#define HALF_ROWS(kind, half, columns)                                                  \
    "SELECT (h.epoch - 1 << 40) + p.id AS id, " columns " FROM head h CROSS JOIN " kind \
    "_head_" half " p WHERE h.kind = '" kind "' AND h.half = " half " AND h.state <> 'sealed'"
#define ALL_ROWS(kind, columns) \
    HALF_ROWS(kind, "0", columns) " UNION ALL " HALF_ROWS(kind, "1", columns)
/* Of the rows with one key the newest: SQLite takes the other columns from the row of the maximum.
 */
#define POINT_VIEW(kind, columns)                                  \
    "CREATE VIEW " kind "_head AS SELECT max(id) AS id, " columns \
    " FROM (" ALL_ROWS(kind, columns) ") GROUP BY series_id, time, start_time;"

static const char V3[] =
    "DROP VIEW points;"
    "CREATE TABLE head ("
    " kind TEXT NOT NULL,"
    " half INTEGER NOT NULL,"
    " epoch INTEGER NOT NULL,"
    " state TEXT NOT NULL," /* 'open' | 'closed' | 'sealed' */
    " PRIMARY KEY (kind, half)) WITHOUT ROWID;"
    "ALTER TABLE number_point RENAME TO number_head_0;"
    "ALTER TABLE exponential_histogram_point RENAME TO exponential_histogram_head_0;"
    "ALTER TABLE summary_point RENAME TO summary_head_0;"
    "CREATE TABLE number_head_1 (" POINT_TABLE " value);"
    /* Without the foreign key that V1 had: with it neither a row is inserted nor all are deleted
     * without a look at each. */
    "CREATE TABLE histogram_head_0 (" HISTOGRAM_TABLE ");"
    "CREATE TABLE histogram_head_1 (" HISTOGRAM_TABLE ");"
    "INSERT INTO histogram_head_0(id, " HISTOGRAM_COLUMNS ")"
    " SELECT id, " HISTOGRAM_COLUMNS " FROM histogram_point ORDER BY id;"
    "DROP TABLE histogram_point;"
    "CREATE TABLE exponential_histogram_head_1 (" POINT_TABLE " count INTEGER NOT NULL,"
    " sum, min, max,"
    " scale INTEGER NOT NULL,"
    " zero_count INTEGER NOT NULL,"
    " zero_threshold,"
    " positive_offset INTEGER,"
    " positive_counts TEXT,"
    " negative_offset INTEGER,"
    " negative_counts TEXT);"
    "CREATE TABLE summary_head_1 (" POINT_TABLE " count INTEGER NOT NULL,"
    " sum,"
    " quantiles TEXT NOT NULL);"
    "CREATE TABLE exemplar_head_0 (" EXEMPLAR_TABLE ");"
    "CREATE TABLE exemplar_head_1 (" EXEMPLAR_TABLE ");"
    /* A series has points in one table only, so at most one of them has the point. One that another
     * program deleted leaves the exemplar its own time. */
    "INSERT INTO exemplar_head_0(" EXEMPLAR_COLUMNS_ ")"
    " SELECT e.series_id, coalesce(n.time, h.time, x.time, s.time, e.time),"
    " coalesce(n.start_time, h.start_time, x.start_time, s.start_time, 0),"
    " e.time, e.value, e.trace_id, e.span_id, e.attributes, e.identity"
    " FROM exemplar e"
    " LEFT JOIN number_head_0 n ON n.id = e.point_id AND n.series_id = e.series_id"
    " LEFT JOIN histogram_head_0 h ON h.id = e.point_id AND h.series_id = e.series_id"
    " LEFT JOIN exponential_histogram_head_0 x ON x.id = e.point_id AND x.series_id = e.series_id"
    " LEFT JOIN summary_head_0 s ON s.id = e.point_id AND s.series_id = e.series_id"
    " ORDER BY e.id;"
    "DROP TABLE exemplar;"
    "DROP TABLE point_segment;"
    /* The latest time of each series as far as its points were sealed: dedup.c. Those of V1 are
     * read from the rows, which are all in the head. */
    "DROP TABLE series_last_time;"
    "CREATE TABLE series_last_time ("
    " kind TEXT PRIMARY KEY,"
    " last_times BLOB NOT NULL);"
#define X(kind, columns) FIRST_EPOCH(kind)
    POINT_HEADS(X) FIRST_EPOCH("exemplar")
#undef X
#define X(kind, columns) POINT_VIEW(kind, columns)
        POINT_HEADS(X)
#undef X
            "CREATE VIEW exemplar_head AS WITH rows AS (" ALL_ROWS(
                "exemplar",
                EXEMPLAR_COLUMNS_) ")"
                                   " SELECT e.id AS id, e.series_id AS series_id, e.point_time AS "
                                   "point_time,"
                                   " e.point_start_time AS point_start_time, e.time AS time, "
                                   "e.value AS value,"
                                   " e.trace_id AS trace_id, e.span_id AS span_id, e.attributes AS "
                                   "attributes,"
                                   " e.identity AS identity"
                                   " FROM rows e LEFT JOIN (SELECT max(id) AS id, series_id, "
                                   "point_time, point_start_time FROM rows"
                                   "  WHERE value IS NULL GROUP BY series_id, point_time, "
                                   "point_start_time) mark"
                                   " ON mark.series_id = e.series_id AND mark.point_time = "
                                   "e.point_time"
                                   " AND mark.point_start_time = e.point_start_time"
                                   " WHERE e.value IS NOT NULL AND e.id > coalesce(mark.id, 0);"
                                   "CREATE VIEW points AS SELECT"
                                   " p.seconds AS time,"
                                   " p.time AS time_unix_nano,"
                                   " r.service_name AS service_name,"
                                   " m.name AS metric,"
                                   " m.unit AS unit,"
                                   " m.type AS type,"
                                   " s.attributes AS attributes,"
                                   " r.attributes AS resource_attributes,"
                                   " CASE typeof(p.value) WHEN 'blob' THEN NULL ELSE p.value END "
                                   "AS value"
                                   " FROM number_point p"
                                   " JOIN series s ON s.id = p.series_id"
                                   " JOIN metric m ON m.id = s.metric_id"
                                   " JOIN scope c ON c.id = m.scope_id"
                                   " JOIN resource r ON r.id = c.resource_id;";

const struct db_migration telemetry_migrations[] = {{V1}, {V2}, {V3}};
const int telemetry_migration_count =
    sizeof(telemetry_migrations) / sizeof(telemetry_migrations[0]);
