'use strict';
/* docs/schema.md: every SQL block runs in `otlite sql`, over HTTP and in the sqlite3 shell with the
 * extension, and gives the same in all three; the answers on the data stored here were worked out by hand. And what the reading subcommands
 * promise: read-only, forms of output, exit statuses, beside a daemon that runs. */
const test = require('node:test');
const assert = require('node:assert/strict');
const { execFileSync, spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { BIN, EXTENSION, REPO, SLOW, Otlite, cli, cliOk, sql, sqlite3, tempDir, until } = require('./lib/otlite');
const { attrs, gauge, request } = require('./lib/otlp');

/* For children started here: OTLITE_ variables of the test run are no settings. */
const env = Object.fromEntries(Object.entries(process.env).filter(([k]) => !k.startsWith('OTLITE_')));
const TIMEOUT = { timeout: 60000 * SLOW };
const TRACE = '5b8efff798038103d269b633813fc60c';
const SPAN = 'eee19b7ec3c1b174';

/* Whole minutes in the last hour: T(m, s) is m minutes and s seconds after START. */
const START = BigInt(Math.floor(Date.now() / 60000) * 60 - 1800);
const T = (minute, second = 0) => ((START + BigInt(minute * 60 + second)) * 1000000000n).toString();
const text = (minute, second = 0) =>
    new Date(Number(START + BigInt(minute * 60 + second)) * 1000).toISOString()
        .replace('T', ' ').slice(0, 19);
const minuteText = (m) => text(m).slice(0, 16);

const at = (time, value, attributes = {}, more = {}) =>
    ({ timeUnixNano: time, attributes: attrs(attributes), ...value, ...more });
const int = (n) => ({ asInt: String(n) });
const dbl = (x) => ({ asDouble: x });

function counter(...dataPoints) {
    return { name: 'http.requests',
        sum: { aggregationTemporality: 2, isMonotonic: true, dataPoints } };
}

function duration(...dataPoints) {
    return { name: 'http.server.request.duration', unit: 's',
        histogram: { aggregationTemporality: 2, dataPoints } };
}

const BOUNDS = [0.1, 0.5, 1];

function measured(time, count, sum, bucketCounts, attributes, exemplars = []) {
    return { timeUnixNano: time, startTimeUnixNano: T(0), count: String(count), sum,
        bucketCounts: bucketCounts.map(String), explicitBounds: BOUNDS,
        attributes: attrs(attributes), exemplars };
}

const SHOP = [
    gauge('memory.used',
        at(T(1), int(100), { pool: 'heap' }), at(T(3), int(300), { pool: 'heap' }),
        at(T(2), dbl(200.5), { pool: 'heap' }), at(T(1), int(7), { pool: 'stack' }),
        at(T(2), {}, { pool: 'stack' }, { flags: 1 }), at(T(1), dbl('NaN'), { pool: 'weird' })),
    gauge('queue.length',
        at(T(1), int(4), { 'http.request.method': 'GET' }),
        at(T(2), int(8), { 'http.request.method': 'GET' }),
        at(T(1), dbl(1.5), { 'http.request.method': 'PUT' })),
    /* 60 in minute 1, 120 in minute 2; then a restart: 30 since, in minute 3. */
    counter(at(T(0, 30), int(0), {}, { startTimeUnixNano: T(0) }),
        at(T(1, 30), int(60), {}, { startTimeUnixNano: T(0) }),
        at(T(2, 10), int(120), {}, { startTimeUnixNano: T(0) }),
        at(T(2, 50), int(180), {}, { startTimeUnixNano: T(0) }),
        at(T(3, 30), int(30), {}, { startTimeUnixNano: T(3) })),
    duration(
        measured(T(1), 10, 2, [5, 5, 0, 0], { route: '/a' }),
        measured(T(2), 20, 6, [10, 6, 4, 0], { route: '/a' }, [
            { timeUnixNano: T(1, 59), asDouble: 0.75, traceId: TRACE, spanId: SPAN },
            { timeUnixNano: T(1, 58), asDouble: 0.25, traceId: TRACE, spanId: SPAN },
            { timeUnixNano: T(1, 57), asDouble: 2 }]),
        measured(T(2), 20, 30, [0, 14, 6, 0], { route: '/b' })),
];
const CACHE = [
    gauge('memory.used', at(T(1), int(1), { pool: 'heap' })),
    /* 900 s between two points. */
    gauge('hits', at(T(1), int(1)), at(T(16), int(2))),
    { name: 'sizes', exponentialHistogram: { aggregationTemporality: 1, dataPoints: [
        { timeUnixNano: T(1), count: '6', scale: 0, zeroCount: '1',
            positive: { offset: 1, bucketCounts: ['2', '0', '3'] } },
        { timeUnixNano: T(2), count: '1', scale: -1,
            positive: { offset: -1, bucketCounts: ['1'] } }] } },
    { name: 'latency', summary: { dataPoints: [
        { timeUnixNano: T(1), count: '4', sum: 10,
            quantileValues: [{ quantile: 0.5, value: 2 }, { quantile: 0.99, value: 4.5 }] }] } },
    /* Two hours old: not of the last hour. */
    gauge('old', at(T(-120), int(1))),
];

/* Answers by hand, in the order of the blocks; null: only that it runs and gives rows. */
const FIRST = null;
const EXPONENTIAL = [
    /* scale 0: base 2; indexes 1 and 3. scale -1: base 4; index -1. */
    { metric: 'sizes', time: Number(T(1)), n: 2, above: 2, up_to: 4 },
    { metric: 'sizes', time: Number(T(1)), n: 3, above: 8, up_to: 16 },
    { metric: 'sizes', time: Number(T(2)), n: 1, above: 0.25, up_to: 1 },
];
const SUMMARY = [
    { metric: 'latency', time: Number(T(1)), quantile: 0.5, value: 2 },
    { metric: 'latency', time: Number(T(1)), quantile: 0.99, value: 4.5 },
];
const SERIES_MATCH = [
    { service: 'shop', time: text(1), value: 100 }, { service: 'shop', time: text(2), value: 200.5 },
    { service: 'shop', time: text(3), value: 300 }, { service: 'shop', time: text(1), value: 7 },
    { service: 'shop', time: text(2), value: null },
];
const WINDOWS = [[0, 0], [1, 1], [2, 2], [3, 0.5]].map(([minute, rate]) =>
    ({ service: 'shop', minute: minuteText(minute), per_second: rate }));
const LATEST = [
    { service_name: 'cache', metric: 'memory.used', attributes: '{"pool":"heap"}', value: 1, time: text(1) },
    { service_name: 'shop', metric: 'memory.used', attributes: '{"pool":"heap"}', value: 300, time: text(3) },
    { service_name: 'shop', metric: 'memory.used', attributes: '{"pool":"stack"}', value: null, time: text(2) },
    { service_name: 'shop', metric: 'memory.used', attributes: '{"pool":"weird"}', value: 'NaN', time: text(1) },
];
const RATE = [
    { minute: minuteText(1), per_second: 1 },
    { minute: minuteText(2), per_second: 2 },
    { minute: minuteText(3), per_second: 0.5 },
];
/* Both routes together: buckets 10, 20, 10, 0 of 40. Rank 38 is the 8th of the 10 in (0.5, 1]:
 * 0.5 + 0.5 * 8 / 10. */
const P95 = [{ service_name: 'shop', p95: 0.9 }];
/* /a: 10 more measurements with sum 4; /b has one point only. */
const AVERAGE = [{ minute: minuteText(2), measurements: 10, average: 0.4 }];
const MOST_POINTS = [
    { metric: 'memory.used', type: 'gauge', points: 7 },
    { metric: 'http.requests', type: 'sum', points: 5 },
    { metric: 'http.server.request.duration', type: 'histogram', points: 3 },
    { metric: 'queue.length', type: 'gauge', points: 3 },
    { metric: 'hits', type: 'gauge', points: 2 },
    { metric: 'sizes', type: 'exponential_histogram', points: 2 },
    { metric: 'latency', type: 'summary', points: 1 },
    { metric: 'old', type: 'gauge', points: 1 },
];
const MOST_SERIES = [
    { metric: 'memory.used', series: 4, resources: 2, attributes: 1, widest_attribute: 'pool' },
    { metric: 'http.server.request.duration', series: 2, resources: 1, attributes: 1, widest_attribute: 'route' },
    { metric: 'queue.length', series: 2, resources: 1, attributes: 1, widest_attribute: 'http.request.method' },
    { metric: 'hits', series: 1, resources: 1, attributes: 0, widest_attribute: null },
    { metric: 'http.requests', series: 1, resources: 1, attributes: 0, widest_attribute: null },
    { metric: 'latency', series: 1, resources: 1, attributes: 0, widest_attribute: null },
    { metric: 'old', series: 1, resources: 1, attributes: 0, widest_attribute: null },
    { metric: 'sizes', series: 1, resources: 1, attributes: 0, widest_attribute: null },
];
const BY_ATTRIBUTE = [
    { method: 'GET', points: 2, least: 4, average: 6, most: 8 },
    { method: 'PUT', points: 1, least: 1.5, average: 1.5, most: 1.5 },
];
const LAST_HOUR = [{ service_name: 'shop', points: 14 }, { service_name: 'cache', points: 3 }];
const SLOW_REQUESTS = [{ time: text(1, 59), service_name: 'shop', seconds: 0.75, trace_id: TRACE,
    span_id: SPAN, attributes: '{"route":"/a"}' }];
const GAPS = [
    { service_name: 'shop', metric: 'memory.used', attributes: '{"pool":"stack"}', time: text(2),
        seconds_since_last: 60, no_recorded_value: 1 },
    { service_name: 'cache', metric: 'hits', attributes: '{}', time: text(16),
        seconds_since_last: 900, no_recorded_value: 0 },
];
const ANSWERS = [FIRST, EXPONENTIAL, SUMMARY, SERIES_MATCH, WINDOWS, LATEST, RATE, P95, AVERAGE, MOST_POINTS, MOST_SERIES,
    BY_ATTRIBUTE, LAST_HOUR, SLOW_REQUESTS, GAPS];

const page = fs.readFileSync(path.join(REPO, 'docs', 'schema.md'), 'utf8');
const blocks = [...page.matchAll(/```sql\n([^]*?)```/g)].map((m) => m[1]);
/* The same data as it comes, after all of it was sealed, and with every other point of a metric sealed and
 * the others put behind them, late ones among them. */
const STATES = ['new', 'sealed', 'half sealed'];
const daemons = new Map();
let daemon, dir;

const alternate = (metrics, odd) => metrics.map((m) => {
    const [kind] = ['gauge', 'sum', 'histogram', 'exponentialHistogram', 'summary'].filter((k) => k in m);

    return { ...m, [kind]: { ...m[kind], dataPoints: m[kind].dataPoints.filter((p, i) => (i % 2 === 1) === odd) } };
}).filter((m) => Object.values(m).every((v) => v.dataPoints === undefined || v.dataPoints.length > 0));

async function put(to, which) {
    for (const [service, metrics] of [['shop', SHOP], ['cache', CACHE]]) {
        const r = await to.postJson(request(which(metrics), { resource: { 'service.name': service } }));

        assert.equal(r.status, 200);
        assert.equal(r.json.partialSuccess, undefined, r.text);
    }
}

/* The daemon on the same directory, once everything is sealed. */
async function compacted(old) {
    await old.stop();
    await cliOk(['compact', '--data', old.dir]);
    const next = await Otlite.start({ dir: old.dir });

    assert.equal(await next.one('SELECT count(*) FROM number_head'), 0);
    assert.ok(await next.one('SELECT sum(points) FROM part WHERE live = 1') > 5);
    return next;
}

test.before(async () => {
    for (const state of STATES) {
        let d = await Otlite.start();

        await put(d, state === 'half sealed' ? (m) => alternate(m, false) : (m) => m);
        if (state !== 'new')
            d = await compacted(d);
        if (state === 'half sealed') {
            await put(d, (m) => alternate(m, true));
            assert.ok(await d.one('SELECT count(*) FROM number_head') > 5);
        }
        daemons.set(state, d);
    }
    daemon = daemons.get('new');
    dir = daemon.dir;
});
test.after(() => Promise.all([...daemons.values()].map((d) => d.stop())));

test('the page ends with ten queries, and each block has an answer here', () => {
    const last = page.slice(page.lastIndexOf('\n## '));

    assert.match(last, /^\n## Ten queries\n/);
    assert.equal([...last.matchAll(/```sql\n/g)].length, 10);
    assert.equal(blocks.length, ANSWERS.length);
});

for (const state of STATES) {
    for (const [i, block] of blocks.entries()) {
        test(`block ${i + 1} of docs/schema.md gives the right rows: ${state}`, TIMEOUT, async () => {
            const d = daemons.get(state);
            const rows = await sql(d.dir, block);

            if (ANSWERS[i] === null)
                assert.equal(rows.length, 10);
            else
                assert.deepEqual(rounded(rows), ANSWERS[i]);
            assert.deepEqual(await cliOk(['sql', '--data', d.dir, '--header', block]),
                execFileSync('sqlite3', ['-readonly', '-batch', '-header', '-cmd', `.load ${EXTENSION}`,
                    path.join(d.dir, 'telemetry.db'), block], { encoding: 'utf8' }),
                'the sqlite3 shell prints the same');
            const r = await d.post(block, { 'content-type': 'text/plain' }, { path: '/api/v1/sql' });

            assert.equal(r.status, 200, r.text);
            assert.deepEqual(r.json.rows.map((row) =>
                Object.fromEntries(row.map((v, c) => [r.json.columns[c], v]))), rows, 'HTTP gives the same');
        });
    }
}

/* Sums of doubles may be off in the last digit. */
function rounded(rows) {
    return rows.map((row) => Object.fromEntries(Object.entries(row).map(([k, v]) =>
        [k, typeof v === 'number' && !Number.isInteger(v) ? Number(v.toPrecision(12)) : v])));
}

test('every table, view and column of telemetry.db is on the page', TIMEOUT, async () => {
    const columns = await sql(dir, "SELECT t.name AS tab, c.name AS col FROM pragma_table_list t," +
        " pragma_table_info(t.name) c WHERE t.schema = 'main' AND t.name NOT LIKE 'sqlite_%'");

    assert.ok(columns.length > 60);
    for (const { tab, col } of columns)
        for (const word of [tab, col])
            assert.match(page, new RegExp(`\\b${word}\\b`), `${tab}.${col}`);
});

/* --- otlite sql --- */

const ODD = "SELECT 1 AS a, 2.5 AS b, NULL AS c, 'x|y' AS d, 3.0 AS e, 1e20 AS f, 0.1 + 0.2 AS g," +
    " 9e999 AS h, -9e999 AS i, 9223372036854775807 AS j, x'616263' AS k, '' AS l," +
    " 'a \"q\", é' || char(10) AS m, 'it''s' AS n, x'00ff' AS o";

test('list and csv output equal the sqlite3 shell byte for byte', TIMEOUT, async () => {
    /* The shell ends a BLOB at its first zero byte; otlite sql does not, so o stays out. */
    const odd = ODD.replace(", x'00ff' AS o", '');
    const two = `${odd}; SELECT 1 AS z WHERE 0; SELECT 7 AS y -- end`;

    for (const [ours, theirs] of [[[], []], [['--header'], ['-header']], [['--csv'], ['-csv']],
        [['--csv', '--header'], ['-csv', '-header']]]) {
        /* The shell prints no header for no rows; otlite sql does, so that a table has its columns. */
        const query = ours.includes('--header') ? odd : two;

        assert.equal(await cliOk(['sql', '--data', dir, ...ours, query]),
            execFileSync('sqlite3', ['-batch', ...theirs, ':memory:', query], { encoding: 'utf8' }));
    }
});

test('json output is exact', TIMEOUT, async () => {
    const out = await cliOk(['sql', '--data', dir, '--json', ODD]);

    assert.equal(out, '[{"a":1,"b":2.5,"c":null,"d":"x|y","e":3.0,"f":1e+20,' +
        '"g":0.30000000000000004,"h":9.0e+999,"i":-9.0e+999,"j":9223372036854775807,"k":"YWJj",' +
        '"l":"","m":"a \\"q\\", é\\n","n":"it\'s","o":"AP8="}]\n');
    assert.equal(await cliOk(['sql', '--data', dir, '--json', 'SELECT 1 AS a WHERE 0']), '[]\n');
    assert.equal(await cliOk(['sql', '--data', dir, '--json', 'SELECT 1 AS a UNION SELECT 2']),
        '[{"a":1},\n{"a":2}]\n');
});

test('the query is read from stdin when it is missing or -', TIMEOUT, async () => {
    for (const args of [[], ['-']])
        assert.equal(await cliOk(['sql', '--data', dir, ...args], { input: 'SELECT 1;\nSELECT 2' }),
            '1\n2\n');
});

test('nothing that writes gets through, and nothing is written', TIMEOUT, async () => {
    const other = path.join(tempDir(), 'x.db');
    const writes = [
        "INSERT INTO histogram_bounds(bounds) VALUES ('[]')", 'DELETE FROM number_point',
        "UPDATE metric SET name = ''", 'DROP TABLE exemplar', 'CREATE TABLE t (a)',
        'CREATE TEMP TABLE t (a)', `ATTACH '${other}' AS o`, `VACUUM INTO '${other}'`, 'VACUUM',
        'PRAGMA query_only = OFF', 'PRAGMA user_version = 9', 'PRAGMA wal_checkpoint(TRUNCATE)',
        'PRAGMA journal_mode = DELETE', 'UPDATE sqlite_master SET sql = NULL',
        "INSERT INTO sqlite_master VALUES ('table', 'a', 'a', 0, '')", 'PRAGMA writable_schema = ON', 'BEGIN IMMEDIATE',
        "SELECT load_extension('x')", 'DELETE FROM state.token', 'DETACH state', 'REINDEX', 'ANALYZE',
        "WITH a AS (SELECT 1) INSERT INTO histogram_bounds(bounds) SELECT '1' FROM a",
    ];
    const before = (await daemon.one('SELECT count(*) FROM number_point'));

    for (const w of writes) {
        const r = await cli(['sql', '--data', dir, w]);

        assert.equal(r.code, 65, `${w}: ${r.stderr}`);
        assert.equal(r.stdout, '', w);
        assert.match(r.stderr, /only reads|may not be modified|no such|is a view/, w);
    }
    assert.equal(fs.existsSync(other), false);
    assert.equal(await daemon.one('SELECT count(*) FROM number_point'), before);
    assert.equal(await daemon.one('PRAGMA user_version'), 3);
});

test('what only tells something is allowed', TIMEOUT, async () => {
    for (const q of ["PRAGMA table_info('series')", 'PRAGMA integrity_check', 'EXPLAIN SELECT 1',
        'EXPLAIN QUERY PLAN SELECT * FROM points', 'BEGIN; SELECT 1; COMMIT',
        "SELECT name FROM pragma_table_info('series')", 'PRAGMA journal_mode'])
        assert.notEqual(await cliOk(['sql', '--data', dir, q]), '', q);
});

test('errors name the place', TIMEOUT, async () => {
    const r = await cli(['sql', '--data', dir, 'SELECT 1;\nSELECT nope FROM series']);

    assert.equal(r.code, 65);
    assert.equal(r.stdout, '1\n');
    assert.match(r.stderr, /^otlite sql: no such column: nope\n {2}line 2, column 8\n/);
    assert.match(r.stderr, /\n {2}SELECT nope FROM series\n {9}\^\n$/);
    assert.equal((await cli(['sql', '--data', dir, 'SELECT abs(-9223372036854775807 - 1)'])).code, 65);
});

test('state.db is there without the hashes of tokens', TIMEOUT, async () => {
    const token = (await cliOk(['token', 'create', '--data', dir, '--scope', 'write'])).trim();

    assert.ok(token.length > 20);
    const rows = await sql(dir, 'SELECT id, hash, scopes FROM state.token');

    assert.deepEqual(rows, [{ id: 1, hash: null, scopes: 'write' }]);
    assert.equal(await daemon.one('SELECT count(*) FROM state.token WHERE hash IS NOT NULL'), 0);
    assert.equal(await daemon.one("SELECT max(length(hash || '')) FROM state.token"), null);
    assert.deepEqual((await sql(dir, 'SELECT service_name FROM state.services')).map((r) =>
        r.service_name).sort(), ['cache', 'shop']);
    assert.deepEqual(await sql(dir, 'SELECT project, scopes FROM state.tokens'),
        [{ project: 'default', scopes: 'write' }]);
    await cliOk(['token', 'revoke', '--data', dir, '1']);
});

test('a missing directory says what to do', TIMEOUT, async () => {
    const none = path.join(tempDir(), 'none');

    for (const args of [['sql', 'SELECT 1'], ['stats'], ['export'], ['backup', `${none}-copy`]]) {
        const r = await cli([args[0], '--data', none, ...args.slice(1)]);

        assert.equal(r.code, 66, r.stderr);
        assert.match(r.stderr, /--data DIR/);
        assert.equal(r.stdout, '');
    }
    assert.equal(fs.existsSync(none), false);
    assert.equal(fs.existsSync(`${none}-copy`), false);
    assert.match((await cli(['sql', '--data', tempDir(), 'SELECT 1'])).stderr, /otlite serve/);
});

test('a running query ends at SIGINT', TIMEOUT, async () => {
    const child = spawn(BIN, ['sql', '--data', dir, 'SELECT 1; WITH RECURSIVE n(i) AS (SELECT 1' +
        ' UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n'], { env });
    let err = '';

    child.stderr.on('data', (d) => (err += d));
    const ended = new Promise((resolve) => child.on('exit', (code, signal) => resolve({ code, signal })));

    /* It has begun to compute once it used some processor time. */
    await until('the query runs', () =>
        Number(fs.readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(') ')[1].split(' ')[11]) > 10);
    child.kill('SIGINT');
    assert.deepEqual(await ended, { code: 130, signal: null });
    assert.match(err, /interrupted/);
});

/* --- stats --- */

test('stats counts what is stored', TIMEOUT, async () => {
    const s = JSON.parse(await cliOk(['stats', '--data', dir, '--json']));

    assert.equal(s.schema_version, 3);
    assert.equal(s.points, 24);
    assert.deepEqual(s.rows, { number_point: 18, histogram_point: 3, exponential_histogram_point: 2,
        summary_point: 1, exemplar: 3 });
    assert.equal(s.series, 13);
    assert.equal(s.metric_names, 8);
    assert.equal(s.metrics, 9);
    assert.equal(s.services, 2);
    assert.equal(s.resources, 2);
    assert.equal(s.projects, 1);
    assert.equal(s.oldest, new Date(Number(START - 7200n) * 1000).toISOString().replace('000Z', '000000000Z'));
    assert.equal(s.newest, new Date(Number(START + 960n) * 1000).toISOString().replace('000Z', '000000000Z'));
    assert.deepEqual(s.top_metrics.slice(0, 2), [
        { metric: 'memory.used', type: 'gauge', points: 7, series: 4, sealed_bytes: 0 },
        { metric: 'http.requests', type: 'sum', points: 5, series: 1, sealed_bytes: 0 }]);
    assert.equal(s.top_metrics.length, 8);
    assert.equal(s.files['telemetry.db'], fs.statSync(path.join(dir, 'telemetry.db')).size);
    assert.ok(s.files['state.db'] > 0);
    assert.ok(s.bytes_per_point > 0);
    const text = await cliOk(['stats', '--data', dir]);

    assert.match(text, /^points +24, 24 of them in the head$/m);
    assert.match(text, /^ +0 +7 +0\.00 +4 {2}memory\.used \(gauge\)$/m);
});

/* --- export --- */

test('export, ingest elsewhere, export again: equal', TIMEOUT, async () => {
    const first = await cliOk(['export', '--data', dir, '--format', 'otlp-json']);
    const other = await Otlite.start();

    assert.ok(first.endsWith('\n'));
    for (const line of first.trimEnd().split('\n')) {
        const r = await other.postJson(line);

        assert.equal(r.status, 200);
        assert.equal(r.json.partialSuccess, undefined, r.text);
    }
    assert.equal(await cliOk(['export', '--data', other.dir]), first);
    await other.stop();
    /* And beside no daemon. */
    assert.equal(await cliOk(['export', '--data', other.dir, '--project', 'default']), first);
});

test('export writes a file whole or not at all', TIMEOUT, async () => {
    const file = path.join(tempDir(), 'out.csv');

    assert.equal(await cliOk(['export', '--data', dir, '--format', 'csv', '--output', file]), '');
    const lines = fs.readFileSync(file, 'utf8').trimEnd().split('\n');

    assert.equal(lines.length, 19);
    assert.equal(lines[0],
        'time,time_unix_nano,service_name,metric,unit,type,attributes,resource_attributes,value,' +
        'start_time_unix_nano,temporality,is_monotonic,scope_name');
    assert.equal(lines[1], `${START + 60n}.0,${T(1)},shop,memory.used,"",gauge,` +
        '"{""pool"":""heap""}","{""service.name"":""shop""}",100,,,,e2e');
    fs.rmSync(file);
    const r = await cli(['export', '--data', dir, '--project', 'nobody', '--output', file]);

    assert.equal(r.code, 66);
    assert.match(r.stderr, /no project "nobody"/);
    assert.deepEqual(fs.readdirSync(path.dirname(file)), []);
});

test('export fails when its output cannot be written', TIMEOUT, async () => {
    const full = await cli(['export', '--data', dir, '--output', '/dev/full']);

    assert.equal(full.code, 74);
    assert.match(full.stderr, /No space left/);
    for (const format of ['otlp-json', 'csv']) {
        const r = spawn('/bin/sh', ['-c', '"$0" "$@" >/dev/full', BIN, 'export', '--data', dir,
            '--format', format], { stdio: ['ignore', 'ignore', 'pipe'], env });

        assert.equal(await new Promise((resolve) => r.on('exit', resolve)), 74);
    }
    /* A pipe whose reader is gone. */
    const piped = spawn('/bin/sh', ['-c', '{ "$0" "$@"; echo "status $?" >&2; } | true', BIN, 'export',
        '--data', dir], { stdio: ['ignore', 'ignore', 'pipe'], env });
    let err = '';

    piped.stderr.on('data', (d) => (err += d));
    await new Promise((resolve) => piped.on('close', resolve));
    assert.match(err, /status (0|74)\n/); /* 0 when it was faster than the end of true */
});

test('wrong flags are usage errors', TIMEOUT, async () => {
    for (const args of [['export', '--format', 'xml'], ['sql', '--json', '--csv', 'SELECT 1'],
        ['sql', 'a', 'b'], ['backup'], ['stats', 'x'], ['backup', ''], ['stats', '--jsn']]) {
        const r = await cli([args[0], '--data', dir, ...args.slice(1)]);

        assert.equal(r.code, 64, `${args}: ${r.stderr}`);
        assert.notEqual(r.stderr, '');
    }
    for (const command of ['sql', 'stats', 'export', 'backup'])
        assert.match(await cliOk([command, '--help']), new RegExp(`^Usage: otlite ${command} `));
});

/* --- backup --- */

test('backup copies a database in use, and the copy serves', TIMEOUT, async () => {
    const dest = path.join(tempDir(), 'copy');
    const out = await cliOk(['backup', '--data', dir, `${dest}/`]);

    assert.match(out, /telemetry\.db: \d+ bytes, verified\n.*state\.db: \d+ bytes, verified\n$/);
    assert.deepEqual(fs.readdirSync(dest).sort(), ['state.db', 'telemetry.db']);
    assert.equal(await sqlite3(path.join(dest, 'telemetry.db'), 'PRAGMA integrity_check'), 'ok');
    assert.equal(await cliOk(['export', '--data', dest]), await cliOk(['export', '--data', dir]));

    const again = await cli(['backup', '--data', dir, dest]);

    assert.equal(again.code, 64);
    assert.match(again.stderr, /not empty/);
    const restored = await Otlite.start({ dir: dest });

    assert.equal(await restored.one('SELECT count(*) FROM number_point'), 18);
    assert.equal(await restored.one('SELECT count(*) FROM state.service'), 2);
    const r = await restored.postJson(request(SHOP, { resource: { 'service.name': 'shop' } }));

    assert.equal(r.status, 200);
    assert.equal(await restored.one('SELECT count(*) FROM number_point'), 18, 'a resend stores nothing');
    await restored.stop();
});

test('a failed backup leaves nothing behind', TIMEOUT, async () => {
    const source = tempDir();
    const dest = path.join(tempDir(), 'copy');

    fs.copyFileSync('/bin/sh', path.join(source, 'telemetry.db'));
    const r = await cli(['backup', '--data', source, dest]);

    assert.equal(r.code, 65, r.stderr);
    assert.match(r.stderr, /telemetry\.db/);
    assert.equal(fs.existsSync(dest), false);
});
