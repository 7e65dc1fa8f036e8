'use strict';
/* Everything that is stored, without ids and in a fixed order, so that two databases can be compared
 * whole. quote() writes each value exactly (REAL to the last bit) and tells the types apart. */
const { sql } = require('./otlite');

const IDENTITY =
    'r.project_id, r.service_name, r.attributes AS resource, hex(r.identity) AS resource_identity,' +
    ' r.schema_url AS resource_schema_url, r.dropped_attributes_count AS resource_dropped,' +
    ' r.entity_refs, c.name AS scope, c.version, c.schema_url AS scope_schema_url,' +
    ' c.attributes AS scope_attributes, hex(c.identity) AS scope_identity,' +
    ' c.dropped_attributes_count AS scope_dropped, m.name AS metric, m.unit, m.description, m.type,' +
    ' m.temporality, m.is_monotonic, m.metadata, hex(m.metadata_identity) AS metadata_identity,' +
    ' s.attributes, hex(s.identity) AS identity';
const JOIN =
    ' JOIN series s ON s.id = p.series_id JOIN metric m ON m.id = s.metric_id' +
    ' JOIN scope c ON c.id = m.scope_id JOIN resource r ON r.id = c.resource_id';
const POINT = 'CAST(p.time AS TEXT) AS time, CAST(p.start_time AS TEXT) AS start_time, p.flags';
/* quote() loses the sign of -0.0; atan2 sees it. */
const Q = (...columns) => columns.map((c) =>
    `CASE WHEN typeof(p.${c}) = 'real' AND p.${c} = 0 AND atan2(p.${c}, -1) < 0 THEN '-0.0'` +
    ` ELSE quote(p.${c}) END AS ${c}`).join(', ');

const TABLES = {
    number_point: Q('value'),
    histogram_point: Q('count', 'sum', 'min', 'max', 'bucket_counts') +
        ', (SELECT bounds FROM histogram_bounds b WHERE b.id = p.bounds_id) AS bounds',
    exponential_histogram_point: Q('count', 'sum', 'min', 'max', 'scale', 'zero_count',
        'zero_threshold', 'positive_offset', 'positive_counts', 'negative_offset', 'negative_counts'),
    summary_point: Q('count', 'sum', 'quantiles'),
};

function exemplars(table) {
    return 'SELECT ' + IDENTITY + ', CAST(p.time AS TEXT) AS time, CAST(e.time AS TEXT) AS ' +
        'exemplar_time, quote(e.value) AS value, hex(e.trace_id) AS trace_id,' +
        ' hex(e.span_id) AS span_id, e.attributes AS filtered, hex(e.identity) AS filtered_identity' +
        ` FROM exemplar e JOIN ${table} p ON p.time = e.point_time AND` +
        ' p.start_time = e.point_start_time AND p.series_id = e.series_id' + JOIN;
}

/* {table: [row text, sorted]}. where: SQL on r, c, m, s, p. */
async function dump(dir, where = '1') {
    const out = {};

    for (const [table, columns] of Object.entries(TABLES)) {
        const rows = await sql(dir,
            `SELECT ${IDENTITY}, ${POINT}, ${columns} FROM ${table} p${JOIN} WHERE ${where}`);

        out[table] = rows.map((r) => JSON.stringify(r)).sort();
        const ex = await sql(dir, `${exemplars(table)} WHERE ${where}`);

        out[`exemplars of ${table}`] = ex.map((r) => JSON.stringify(r)).sort();
    }
    return out;
}

/* Points of one metric with their values, for checks by hand: ordered by time, then attributes. */
function numbers(dir, metric) {
    return sql(dir, 'SELECT s.attributes, CAST(p.time AS TEXT) AS time,' +
        ' CAST(p.start_time AS TEXT) AS start, p.flags, typeof(p.value) AS kind, ' + Q('value') +
        ` FROM number_point p${JOIN} WHERE m.name = '${metric.replace(/'/g, "''")}'` +
        ' ORDER BY p.time, s.attributes');
}

/* Rows of any other point table of one metric. */
function points(dir, table, metric) {
    return sql(dir, `SELECT s.attributes, ${POINT}, ${TABLES[table]}` +
        ` FROM ${table} p${JOIN} WHERE m.name = '${metric.replace(/'/g, "''")}'` +
        ' ORDER BY p.time, s.attributes');
}

/* A JS value of quote()'s text: bigint for INTEGER, number for REAL, NaN for the BLOB that stands for
 * it, null for NULL, and a list column (JSON text) as an array. */
function unquote(text) {
    if (text === 'NULL')
        return null;
    if (text === "X'7FF8000000000000'")
        return NaN;
    if (text[0] === "'")
        return JSON.parse(text.slice(1, -1).replace(/''/g, "'"), (k, v) =>
            v === 'NaN' ? NaN : v === 'Infinity' ? Infinity : v === '-Infinity' ? -Infinity : v);
    /* Infinity, as SQLite before and after 3.41 writes it. */
    if (/^-?(Inf|9\.0e\+999)$/.test(text))
        return text[0] === '-' ? -Infinity : Infinity;
    if (/^-?\d+$/.test(text))
        return BigInt(text);
    if (!/^-?[\d.]+(e[-+]?\d+)?$/i.test(text))
        throw new Error(`quote() gave ${text}`);
    return Number(text);
}

module.exports = { JOIN, dump, numbers, points, unquote };
