'use strict';
/* The real OpenTelemetry SDK and exporters against the daemon: every kind of instrument, both
 * temporalities, both encodings, with and without gzip. What is in the database is compared with
 * what was recorded, number by number. */
const test = require('node:test');
const assert = require('node:assert/strict');
const { ValueType } = require('@opentelemetry/api');
const { resourceFromAttributes } = require('@opentelemetry/resources');
const { AggregationType, MeterProvider, PeriodicExportingMetricReader } =
    require('@opentelemetry/sdk-metrics');
const { AggregationTemporalityPreference, OTLPMetricExporter: JsonExporter } =
    require('@opentelemetry/exporter-metrics-otlp-http');
const { OTLPMetricExporter: ProtoExporter } = require('@opentelemetry/exporter-metrics-otlp-proto');
const { JOIN, numbers, points, unquote } = require('./lib/dump');
const { Otlite, SLOW } = require('./lib/otlite');

const BOUNDS = [0, 1, 2.5, 10, 100];
const DURATIONS = [[0.25, 1, 1, 3.75, 99.5, 100, 1000.125], [2.5, 2.6, 7]];
const SIZES = [[1, 1.5, 2, 1024, 0, -3], [4096, 0.001]];
const RESOURCE = {
    'service.name': 'checkout ✓',
    'service.instance.id': 'i-1',
    'process.pid': 4242,
    'load.avg': 0.5,
    'host.ok': true,
    'process.command_args': ['node', 'server.js'],
    'ports': [80, 443],
};

/* Records two rounds and exports after each. Returns the start of each round, for the checks. */
async function record(provider) {
    const meter = provider.getMeter('example.shop', '1.2.3', { schemaUrl: 'https://schema.test/1' });
    const other = provider.getMeter('example.other');
    const requests = meter.createCounter('requests', {
        unit: '{request}', description: 'Requests served', valueType: ValueType.INT });
    const energy = meter.createCounter('energy', { unit: 'J' });
    const active = meter.createUpDownCounter('active', { valueType: ValueType.INT });
    const duration = meter.createHistogram('duration', {
        unit: 's', advice: { explicitBucketBoundaries: BOUNDS } });
    const size = meter.createHistogram('size.exp', { unit: 'By' });
    const temperature = meter.createGauge('temperature', { unit: 'Cel' });
    const seats = other.createGauge('seats', { valueType: ValueType.INT });
    let round = 0;

    meter.createObservableCounter('cpu.time', { unit: 's' })
        .addCallback((r) => r.observe([12.5, 20.25][round], { mode: 'user' }));
    meter.createObservableUpDownCounter('queue.length', { valueType: ValueType.INT })
        .addCallback((r) => r.observe([17, 11][round], {}));
    meter.createObservableGauge('clock.ns', { valueType: ValueType.INT })
        .addCallback((r) => r.observe(Number.MAX_SAFE_INTEGER - round));

    for (; round < 2; round++) {
        requests.add([5, 2][round], { route: '/a', code: 200 });
        requests.add([1, 0][round], { code: 500, route: '/a' });
        energy.add([0.1, 0.2][round], { 'käse': 'ja', 'flag': true });
        active.add([3, -5][round], { pool: 'x' });
        for (const v of DURATIONS[round])
            duration.record(v, { op: 'read' });
        for (const v of SIZES[round])
            if (v >= 0)
                size.record(v, { op: 'write' });
        temperature.record([-0.5, 21.125][round], { room: 'lab' });
        seats.record([4, 0][round], { hall: 'h' });
        await provider.forceFlush();
    }
}

/* Values of a number metric in time order, as JS values. */
async function values(d, metric, where = () => true) {
    const rows = await numbers(d.dir, metric);

    return rows.filter((r) => where(JSON.parse(r.attributes))).map((r) => unquote(r.value));
}

function bucketCounts(bounds, list) {
    const counts = new Array(bounds.length + 1).fill(0);

    for (const v of list) {
        const i = bounds.findIndex((b) => v <= b);

        counts[i < 0 ? bounds.length : i]++;
    }
    return counts;
}

/* Where each positive value belongs at a scale: the index i with base^i < v <= base^(i+1). */
function exponentialCounts(scale, list) {
    const at = new Map();

    for (const v of list) {
        const i = Math.ceil(Math.log2(v) * 2 ** scale) - 1;

        at.set(i, (at.get(i) || 0) + 1);
    }
    return at;
}

async function meta(d, metric) {
    const [row] = await d.sql(
        'SELECT m.unit, m.description, m.type, m.temporality, m.is_monotonic, c.name AS scope,' +
        ' c.version, c.schema_url, r.service_name' +
        ' FROM metric m JOIN scope c ON c.id = m.scope_id JOIN resource r ON r.id = c.resource_id' +
        ` WHERE m.name = '${metric}'`);

    return row;
}

for (const encoding of ['protobuf', 'json']) {
    for (const temporality of ['cumulative', 'delta']) {
        for (const compression of ['none', 'gzip']) {
            test(`SDK: ${encoding}, ${temporality}, ${compression}: the database has what was recorded`,
                { timeout: 60000 * SLOW }, (t) => check(t, encoding, temporality, compression));
        }
    }
}

async function check(t, encoding, temporality, compression) {
    const d = await Otlite.start();

    t.after(() => d.stop());
    const delta = temporality === 'delta';
    const Exporter = encoding === 'json' ? JsonExporter : ProtoExporter;
    const exporter = new Exporter({
        url: `http://127.0.0.1:${d.port}/v1/metrics`,
        compression,
        temporalityPreference: delta ? AggregationTemporalityPreference.DELTA
            : AggregationTemporalityPreference.CUMULATIVE,
    });
    const failures = [];
    const send = exporter.export.bind(exporter);

    exporter.export = (metrics, done) => send(metrics, (result) => {
        if (result.code !== 0)
            failures.push(result.error);
        done(result);
    });
    const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3600000 });
    const provider = new MeterProvider({
        resource: resourceFromAttributes(RESOURCE),
        readers: [reader],
        views: [{ instrumentName: '*.exp',
            aggregation: { type: AggregationType.EXPONENTIAL_HISTOGRAM } }],
    });
    const before = BigInt(Date.now()) * 1000000n;

    await record(provider);
    const after = BigInt(Date.now() + 1) * 1000000n;

    assert.deepEqual(failures, [], 'every export was answered with success');

    /* Number points. A cumulative second point holds the total, a delta one the difference. */
    assert.deepEqual(await values(d, 'requests', (a) => a.code === 200), delta ? [5n, 2n] : [5n, 7n]);
    assert.deepEqual(await values(d, 'requests', (a) => a.code === 500), delta ? [1n, 0n] : [1n, 1n]);
    assert.deepEqual(await values(d, 'energy'), delta ? [0.1, 0.2] : [0.1, 0.1 + 0.2]);
    assert.deepEqual(await values(d, 'active'), [3n, -2n], 'up-down counters stay cumulative');
    assert.deepEqual(await values(d, 'temperature'), [-0.5, 21.125]);
    assert.deepEqual(await values(d, 'seats'), [4n, 0n]);
    assert.deepEqual(await values(d, 'cpu.time'), delta ? [12.5, 7.75] : [12.5, 20.25]);
    assert.deepEqual(await values(d, 'queue.length'), [17n, 11n]);
    assert.deepEqual(await values(d, 'clock.ns'),
        [BigInt(Number.MAX_SAFE_INTEGER), BigInt(Number.MAX_SAFE_INTEGER - 1)]);

    /* Attributes keep their types, and the order in which they came makes no second series. */
    const [series] = await numbers(d.dir, 'energy');

    assert.deepEqual(JSON.parse(series.attributes), { 'käse': 'ja', 'flag': true });
    assert.equal(await d.one('SELECT count(*) FROM series s JOIN metric m ON m.id = s.metric_id' +
        " WHERE m.name = 'requests'"), 2);

    /* Times: within the run; a delta window starts where the one before it ended. */
    for (const r of await numbers(d.dir, 'requests')) {
        assert.ok(BigInt(r.time) >= before && BigInt(r.time) <= after, `time ${r.time}`);
        assert.ok(BigInt(r.start) > 0n && BigInt(r.start) <= BigInt(r.time), `start ${r.start}`);
    }
    const of200 = (await numbers(d.dir, 'requests')).filter((r) => JSON.parse(r.attributes).code === 200);

    if (delta)
        assert.equal(of200[1].start, of200[0].time);
    else
        assert.equal(of200[1].start, of200[0].start);

    await checkHistogram(d, delta);
    await checkExponential(d, delta);
    await checkMeta(d, temporality, delta);

    /* The view for people shows the same. */
    assert.deepEqual(
        await d.sql('SELECT value, unit, service_name, type, attributes FROM points' +
            " WHERE metric = 'temperature' ORDER BY time"),
        [{ value: -0.5, unit: 'Cel', service_name: 'checkout ✓', type: 'gauge',
            attributes: '{"room":"lab"}' },
        { value: 21.125, unit: 'Cel', service_name: 'checkout ✓', type: 'gauge',
            attributes: '{"room":"lab"}' }]);

    /* Nothing was refused, and every point is accounted for. */
    const received = await d.metric('otlite_points_received_total');
    const total = await d.one('SELECT (SELECT count(*) FROM number_point)' +
        ' + (SELECT count(*) FROM histogram_point)' +
        ' + (SELECT count(*) FROM exponential_histogram_point)');

    assert.equal(received, total);
    assert.equal(await d.metric('otlite_points_stored_total'), total);
    await provider.shutdown();
}

async function checkHistogram(d, delta) {
    const rows = await points(d.dir, 'histogram_point', 'duration');
    const lists = delta ? DURATIONS : [DURATIONS[0], DURATIONS[0].concat(DURATIONS[1])];

    assert.equal(rows.length, 2);
    rows.forEach((r, i) => {
        const list = lists[i];

        assert.equal(unquote(r.count), BigInt(list.length));
        assert.equal(unquote(r.sum), list.reduce((a, b) => a + b));
        assert.equal(unquote(r.min), Math.min(...list));
        assert.equal(unquote(r.max), Math.max(...list));
        assert.deepEqual(JSON.parse(r.bounds), BOUNDS);
        assert.deepEqual(unquote(r.bucket_counts), bucketCounts(BOUNDS, list));
    });
}

async function checkExponential(d, delta) {
    const rows = await points(d.dir, 'exponential_histogram_point', 'size.exp');
    const rounds = SIZES.map((list) => list.filter((v) => v >= 0));
    const lists = delta ? rounds : [rounds[0], rounds[0].concat(rounds[1])];

    assert.equal(rows.length, 2);
    rows.forEach((r, i) => {
        const list = lists[i];
        const scale = Number(unquote(r.scale));
        const want = exponentialCounts(scale, list.filter((v) => v > 0));
        const offset = Number(unquote(r.positive_offset));
        const got = new Map();

        (unquote(r.positive_counts) || []).forEach((n, k) => n && got.set(offset + k, n));
        assert.equal(unquote(r.count), BigInt(list.length));
        assert.equal(unquote(r.zero_count), BigInt(list.filter((v) => v === 0).length));
        assert.equal(unquote(r.sum), list.reduce((a, b) => a + b));
        assert.equal(unquote(r.min), Math.min(...list));
        assert.equal(unquote(r.max), Math.max(...list));
        assert.deepEqual([...got].sort((a, b) => a[0] - b[0]), [...want].sort((a, b) => a[0] - b[0]));
        assert.ok((unquote(r.negative_counts) || []).every((n) => n === 0));
    });
}

async function checkMeta(d, temporality, delta) {
    const shop = { scope: 'example.shop', version: '1.2.3', schema_url: 'https://schema.test/1',
        service_name: 'checkout ✓' };

    assert.deepEqual(await meta(d, 'requests'), { unit: '{request}', description: 'Requests served',
        type: 'sum', temporality, is_monotonic: 1, ...shop });
    assert.deepEqual(await meta(d, 'active'), { unit: '', description: '', type: 'sum',
        temporality: 'cumulative', is_monotonic: 0, ...shop });
    assert.deepEqual(await meta(d, 'cpu.time'), { unit: 's', description: '', type: 'sum',
        temporality, is_monotonic: 1, ...shop });
    assert.deepEqual(await meta(d, 'duration'), { unit: 's', description: '', type: 'histogram',
        temporality, is_monotonic: 0, ...shop });
    assert.deepEqual(await meta(d, 'size.exp'), { unit: 'By', description: '',
        type: 'exponential_histogram', temporality, is_monotonic: 0, ...shop });
    assert.deepEqual(await meta(d, 'seats'), { unit: '', description: '', type: 'gauge',
        temporality: 'none', is_monotonic: 0, scope: 'example.other', version: '', schema_url: '',
        service_name: 'checkout ✓' });

    /* One resource, with every kind of attribute as it was set. */
    const resources = await d.sql('SELECT attributes FROM resource');

    assert.equal(resources.length, 1);
    assert.deepEqual(JSON.parse(resources[0].attributes), RESOURCE);
    assert.match(resources[0].attributes, /"load\.avg":0\.5/);
    assert.match(resources[0].attributes, /"process\.pid":4242[,}]/);
    assert.equal(await d.one('SELECT count(*) FROM metric'), 10);
    assert.equal(await d.one(`SELECT count(*) FROM number_point p${JOIN} WHERE r.id IS NULL`), 0);
    assert.equal(delta, temporality === 'delta');
}

test('SDK: an export made while the database is locked is retried by the exporter and stored once',
    { timeout: 60000 * SLOW }, async (t) => {
        const { Shell } = require('./lib/otlite');
        const d = await Otlite.start({ set: { 'queue.max_age': '300ms' } });
        const shell = new Shell(`${d.dir}/telemetry.db`);

        t.after(() => shell.end());
        t.after(() => d.stop());
        const exporter = new ProtoExporter({ url: `http://127.0.0.1:${d.port}/v1/metrics` });
        const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3600000 });
        const provider = new MeterProvider({ readers: [reader] });

        provider.getMeter('m').createCounter('retried', { valueType: ValueType.INT }).add(7);
        await shell.run('BEGIN IMMEDIATE;');
        const flushed = provider.forceFlush();
        let refused = 0;

        while (refused === 0) {
            refused = (await d.metric('otlite_requests_total', 'code="503"')) || 0;
            await new Promise((r) => setTimeout(r, 20));
        }
        await shell.run('ROLLBACK;');
        await flushed;
        assert.deepEqual((await numbers(d.dir, 'retried')).map((r) => unquote(r.value)), [7n]);
        await provider.shutdown();
    });
