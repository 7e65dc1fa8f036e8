'use strict';
/* PromQL against Prometheus itself: the same samples in both, the same questions, the same answers.
 *   OTLITE_PROMQL_SEED     seed of the random expressions
 *   OTLITE_PROMQL_RANDOM   how many of them (50,000) */
const { test, before, after } = require('node:test');
const assert = require('node:assert');
const http = require('node:http');

const { Otlite, SAN, cliOk, tempDir } = require('./lib/otlite.js');
const { Prometheus, binary } = require('../promql/prometheus.js');
const { BOUNDS, STALE, T0, dataset } = require('../promql/data.js');
const { corpus, errors, instant } = require('../promql/corpus.js');
const { Generator } = require('../promql/generate.js');
const { compare } = require('../promql/compare.js');

const RANDOM = Number(process.env.OTLITE_PROMQL_RANDOM || (SAN ? 2000 : 50000));
const SEED = Number(process.env.OTLITE_PROMQL_SEED || 20241201);
/* Of the dataset's sums; what is left of differences that cancel is judged by it. */
const SCALE = 1e6;
const NO_RECORDED_VALUE = 1;

let otlite;
let prometheus;
const oracle = binary();
const skip = oracle ? false : 'prometheus is not there: run test/promql/install.sh';

/* ---- the dataset as OTLP ---- */

const attributes = (labels) => Object.entries(labels).map(([key, v]) => ({ key, value: { stringValue: v } }));
const nano = (ms) => `${ms}000000`;

function dataPoint(s, [t, v]) {
    const p = { attributes: attributes(s.labels), timeUnixNano: nano(t), startTimeUnixNano: nano(T0 - 1000) };

    if (v === STALE)
        return { ...p, flags: NO_RECORDED_VALUE };
    if (s.type === 'histogram')
        return { ...p, count: String(v.count), sum: v.sum, explicitBounds: BOUNDS, bucketCounts: v.counts.map(String) };
    if (s.type === 'exponential')
        return { ...p, count: String(v.count), sum: v.sum, scale: v.scale, zeroCount: String(v.zero), zeroThreshold: v.zeroThreshold,
            positive: { offset: v.positive.offset, bucketCounts: v.positive.counts.map(String) },
            negative: { offset: v.negative.offset, bucketCounts: v.negative.counts.map(String) } };
    return { ...p, asDouble: Number.isFinite(v) && !Object.is(v, -0) ? v : Object.is(v, -0) ? '-0.0' : String(v) };
}

function metric(s) {
    const dataPoints = s.samples.map((x) => dataPoint(s, x));

    switch (s.type) {
    case 'counter':
        return { name: s.name, sum: { aggregationTemporality: 2, isMonotonic: true, dataPoints } };
    case 'histogram':
        return { name: s.name, histogram: { aggregationTemporality: 2, dataPoints } };
    case 'exponential':
        return { name: s.name, exponentialHistogram: { aggregationTemporality: 2, dataPoints } };
    default:
        return { name: s.name, gauge: { dataPoints } };
    }
}

const agent = new http.Agent({ keepAlive: true });

function request(method, path, body) {
    return new Promise((resolve, reject) => {
        const r = http.request({ host: '127.0.0.1', port: otlite.port, method, path, agent,
            headers: body ? { 'Content-Type': 'application/json' } : {} }, (res) => {
            const parts = [];

            res.on('data', (b) => parts.push(b));
            res.on('end', () => resolve({ status: res.statusCode, body: Buffer.concat(parts).toString() }));
        });

        r.on('error', reject);
        r.end(body);
    });
}

async function load(all) {
    for (let i = 0; i < all.length; i += 8) {
        const r = await request('POST', '/v1/metrics', JSON.stringify(
            { resourceMetrics: [{ scopeMetrics: [{ metrics: all.slice(i, i + 8).map(metric) }] }] }));

        assert.strictEqual(r.status, 200, r.body);
        assert.ok(!r.body.includes('rejected'), r.body);
    }
}

before(async () => {
    if (skip)
        return;
    const all = dataset();

    prometheus = await Prometheus.start(oracle, tempDir('prometheus'));
    otlite = await Otlite.start({ dir: tempDir('promql') });
    await Promise.all([prometheus.load(all), load(all)]);
});

after(async () => {
    agent.destroy();
    if (otlite)
        await otlite.stop();
    if (prometheus)
        await prometheus.stop();
});

/* ---- asking ---- */

/* 3 ms after whole seconds: see data.js. */
const at = (s) => (T0 / 1000 + s + 0.003).toFixed(3);
const instantPath = (q, s) => `/api/v1/query?time=${at(s)}&query=${encodeURIComponent(q)}`;
const rangePath = (q, from, to, step) =>
    `/api/v1/query_range?start=${at(from)}&end=${at(to)}&step=${step}&query=${encodeURIComponent(q)}`;

/* A comparison that filters nothing: Prometheus 2 looks for matches that are not unique behind the filter,
 * 3 before it, and with bool they are one. */
const unfiltered = (expr) => expr.replace(/ (==|!=|>=|<=|>|<) (?!bool )/g, ' $1 bool ');

/* expr: otlite's question, or [otlite's, Prometheus']. Resolves to what differs, or null. */
async function differs(expr, path, opts) {
    const [ours, theirs] = Array.isArray(expr) ? expr : [expr, expr];
    const [got, first] = await Promise.all([request('GET', path(ours)), prometheus.request('GET', path(theirs))]);
    const filtered = got.status === 422 && first.status === 200 && /multiple matches for labels/.test(got.body);
    const want = filtered ? await prometheus.request('GET', path(unfiltered(theirs))) : first;

    return compare(got, want, opts);
}

/* Ask all, some at a time; gives the first few lines of what differs and how many did. */
async function askAll(questions, opts) {
    const bad = [];
    let next = 0;
    const one = async () => {
        while (next < questions.length) {
            const { expr, path, what } = questions[next++];
            const d = await differs(expr, path, { ...opts, ordered: what === 'ordered' });

            if (d)
                bad.push(`${[].concat(expr)[0]}\n        ${path('').replace(/&query=.*/, '').slice(8)}: ${d}`.slice(0, 700));
        }
    };

    await Promise.all([one(), one(), one()]);
    return bad;
}

function verdict(bad, n) {
    assert.strictEqual(bad.length, 0, `${bad.length} of ${n} differ:\n    ${bad.slice(0, Number(process.env.OTLITE_PROMQL_SHOW || 12)).join('\n    ')}`);
}

const ordered = (expr) => (/^(sort|sort_desc|topk|bottomk)\s*\(/.test([].concat(expr)[0]) ? 'ordered' : '');

test('the corpus as instant queries', { skip }, async () => {
    const questions = corpus.flatMap((expr) => [600, 3600, 6900, 8000].map((s) =>
        ({ expr, what: ordered(expr), path: (q) => instantPath(q, s) })));

    verdict(await askAll(questions), questions.length);
});

test('the corpus as range queries', { skip }, async () => {
    const questions = corpus.flatMap((expr) => [[0, 7500, 150], [3000, 3300, 5]].map(([from, to, step]) =>
        ({ expr, path: (q) => rangePath(q, from, to, step) })));

    verdict(await askAll(questions), questions.length);
});

test('range vectors as instant queries', { skip }, async () => {
    const questions = instant.flatMap((expr) => [600, 3600].map((s) => ({ expr, path: (q) => instantPath(q, s) })));

    verdict(await askAll(questions), questions.length);
});

test('what Prometheus refuses is refused, with its kind of error and status', { skip }, async () => {
    const questions = [...errors.map((expr) => ({ expr, path: (q) => instantPath(q, 3600) })),
        ...[...errors, ...instant].map((expr) => ({ expr, path: (q) => rangePath(q, 0, 600, 60) }))];

    verdict(await askAll(questions), questions.length);
});

/* Sealed, a series is two chunks here, an hour each: windows that hold one of them whole need not look at
 * its samples. */
test('the same of what is sealed, and windows over whole chunks', { skip }, async () => {
    const { dir } = otlite;
    const functions = ['sum', 'avg', 'min', 'max', 'count', 'last', 'present', 'stddev', 'quantile'].map((f) => `${f}_over_time`);
    const series = ['cpu_seconds_total', 'requests_total', 'temperature', 'flapping', 'early', 'late_total', 'irregular',
        'irregular_total', 'sparse_total', 'one_side', '{kind=~".+"}', 'latency_seconds_count', 'latency_seconds_bucket'];
    /* How far counters near 0 are extrapolated is not the same in 2 and 3. */
    const far = new Set(['cpu_seconds_total', 'requests_total', 'latency_seconds_count']);
    const windows = series.flatMap((name) => ['49m50s', '60m', '70m', '125m', '3h', '1d'].flatMap((range) =>
        [...functions, 'delta', 'idelta', 'changes', 'resets', 'absent_over_time', ...far.has(name) ? ['rate', 'increase', 'irate'] : []].map((f) =>
            (f.startsWith('quantile') ? `quantile_over_time(0.5, ${name}[${range}])` : `${f}(${name}[${range}])`))));
    const questions = [...windows.flatMap((expr) => [3590, 3600, 5000, 7300, 7500, 9000].map((s) => ({ expr, path: (q) => instantPath(q, s) }))),
        ...windows.map((expr) => ({ expr, path: (q) => rangePath(q, 3000, 9000, 1500) })),
        ...corpus.flatMap((expr) => [3600, 6900].map((s) => ({ expr, what: ordered(expr), path: (q) => instantPath(q, s) })))];

    await otlite.stop();
    await cliOk(['compact', '--data', dir]);
    otlite = await Otlite.start({ dir });
    verdict(await askAll(questions, { scale: SCALE, tally: {} }), questions.length);
});

test(`${RANDOM} random expressions, seed ${SEED}`, { skip }, async (t) => {
    const g = new Generator(SEED);
    const tally = {};
    const bad = [];
    let asked = 0;

    for (let done = 0; done < RANDOM; done += 1000) {
        const questions = [];

        for (let i = 0; i < Math.min(1000, RANDOM - done); i++) {
            const expr = g.expression();

            questions.push(g.chance(0.5)
                ? { expr, path: (q) => instantPath(q, 900 + 15 * ((i * 7) % 420)) }
                : { expr, path: (q) => rangePath(q, 600 + i, 6000 + i, 540) });
        }
        bad.push(...await askAll(questions, { scale: SCALE, tally }));
        asked += questions.length;
        if (bad.length >= 200)
            break;
    }
    t.diagnostic(`${asked} asked; ${tally.cancelled || 0} values were judged by the magnitude of what cancelled`);
    verdict(bad, RANDOM);
});
