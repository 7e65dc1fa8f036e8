'use strict';
/* The Prometheus HTTP API: each endpoint over points whose answers are worked out by hand, its errors, forms,
 * compression, CORS, projects, a client that goes away, promtool, and the dashboards' expressions. */
const test = require('node:test');
const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const zlib = require('node:zlib');
const { Otlite, REPO, SLOW, cli, cliOk, tempDir } = require('./lib/otlite');

const TIMEOUT = { timeout: 120000 * SLOW };
const T = 1700000000; /* of the last points */
const ns = (s) => `${BigInt(Math.round(s * 1000)) * 1000000n}`;
const attributes = (o) => Object.entries(o).map(([key, v]) => ({ key, value: typeof v === 'number' ? { intValue: String(v) } : { stringValue: v } }));

/* Two instances of a service: a counter, a gauge, a histogram with an exemplar. */
function body() {
    const resource = (i) => ({ attributes: attributes({ 'service.namespace': 'shop', 'service.name': 'cart', 'service.instance.id': `i${i}`, 'host.name': 'h' }) });
    const point = (i, s, v, more = {}) => ({ timeUnixNano: ns(s), startTimeUnixNano: ns(T - 600), attributes: attributes({ 'http.route': '/a', code: 200 + i }), asInt: String(v), ...more });

    return { resourceMetrics: [0, 1].map((i) => ({ resource: resource(i), scopeMetrics: [{ scope: { name: 'lib', version: '1.2' }, metrics: [
        { name: 'http.server.requests', unit: '{request}', description: 'Requests.', sum: { aggregationTemporality: 2, isMonotonic: true,
            dataPoints: [point(i, T - 60, 100), point(i, T - 30, 130), point(i, T, 160)] } },
        { name: 'queue.length', description: 'Waiting.', gauge: { dataPoints: [point(i, T - 30, 4), point(i, T, 5 + i)] } },
        { name: 'latency', unit: 's', histogram: { aggregationTemporality: 2, dataPoints: [{ timeUnixNano: ns(T), attributes: [], count: '9', sum: 21.5,
            explicitBounds: [1, 5], bucketCounts: ['2', '3', '4'], exemplars: [{ timeUnixNano: ns(T - 1), asDouble: 0.5,
                traceId: '000102030405060708090a0b0c0d0e0f', spanId: '0001020304050607', filteredAttributes: attributes({ user: 'u' }) }] }] } },
    ] }] })) };
}

function ask(d, p, { method = 'GET', headers = {}, form } = {}) {
    return new Promise((resolve, reject) => {
        const r = http.request({ host: '127.0.0.1', port: d.port, method, path: p,
            headers: form === undefined ? headers : { 'Content-Type': 'application/x-www-form-urlencoded', ...headers } }, (res) => {
            const parts = [];

            res.on('data', (b) => parts.push(b));
            res.on('end', () => {
                const raw = Buffer.concat(parts);
                const text = (res.headers['content-encoding'] === 'gzip' ? zlib.gunzipSync(raw) : raw).toString();

                resolve({ status: res.statusCode, headers: res.headers, text, json: /^[{[]/.test(text) ? JSON.parse(text) : null });
            });
        });

        r.on('error', reject);
        r.end(form);
    });
}
const metricsOf = async (d) => (await ask(d, '/metrics')).text;
const get = (d, p, params = {}, o = {}) => ask(d, `/api/v1/${p}?${new URLSearchParams(params)}`, o);
const LABELS = (i, more) => ({ job: 'shop/cart', instance: `i${i}`, otel_scope_name: 'lib', otel_scope_version: '1.2', ...more });

async function daemon(t, opts) {
    const d = await Otlite.start(opts);

    t.after(() => d.stop());
    assert.equal((await d.postJson(body())).status, 200);
    return d;
}

test('query and query_range', TIMEOUT, async (t) => {
    const d = await daemon(t);
    const r = await get(d, 'query', { query: 'http_server_requests_total', time: T });

    assert.equal(r.status, 200);
    assert.match(r.headers['content-type'], /^application\/json/);
    assert.deepEqual(r.json, { status: 'success', data: { resultType: 'vector', result: [0, 1].map((i) => ({
        metric: LABELS(i, { __name__: 'http_server_requests_total', http_route: '/a', code: `${200 + i}` }), value: [T, '160'] })) } });
    /* 60 in 60 s, seen over [T - 60, T]: the window (T - 120, T] is extrapolated to half an interval before its first sample. */
    assert.equal((await get(d, 'query', { query: 'sum(increase(http_server_requests_total[2m]))', time: T })).json.data.result[0].value[1], '150');
    assert.deepEqual((await get(d, 'query', { query: 'scalar(sum(queue_length))', time: T })).json.data, { resultType: 'scalar', result: [T, '11'] });
    assert.deepEqual((await get(d, 'query', { query: 'sum by (job) (queue_length)', time: new Date(T * 1000).toISOString() })).json.data.result,
        [{ metric: { job: 'shop/cart' }, value: [T, '11'] }]);
    assert.deepEqual((await get(d, 'query_range', { query: 'sum(http_server_requests_total)', start: T - 60, end: T + 0.5, step: '30s' })).json.data,
        { resultType: 'matrix', result: [{ metric: {}, values: [[T - 60, '200'], [T - 30, '260'], [T, '320']] }] });
    /* Either name, and the attribute's own key. */
    for (const query of ['{"http.server.requests"}', '{"http.server.requests","http.route"="/a"}', 'http_server_requests_total{http_route="/a"}'])
        assert.equal((await get(d, 'query', { query: `count(${query})`, time: T })).json.data.result[0].value[1], '2', query);
    assert.equal((await get(d, 'query', { query: 'histogram_quantile(0.5, sum by (le) (latency_seconds_bucket))', time: T })).json.data.result[0].value[1],
        `${1 + 4 * (9 - 4) / 6}`);
    assert.equal((await get(d, 'query', { query: 'count(target_info{host_name="h"})', time: T })).json.data.result[0].value[1], '2');
    assert.ok((await get(d, 'query', { query: 'queue_length', time: T, stats: 'all' })).json.data.stats.samples.totalQueryableSamples > 0);
    const limited = (await get(d, 'query', { query: 'queue_length', time: T, limit: 1 })).json;

    assert.equal(limited.data.result.length, 1);
    assert.match(limited.warnings.join(), /limit/);
    assert.match((await get(d, 'query', { query: 'rate(queue_length[5m])', time: T })).json.infos.join(), /might not be a counter/);
});

test('POST as a form, percent signs and pluses', TIMEOUT, async (t) => {
    const d = await daemon(t);
    const r = await ask(d, '/api/v1/query', { method: 'POST', form: `query=sum%28queue_length%29+%2B+1&time=${T}` });

    assert.equal(r.json.data.result[0].value[1], '12');
    assert.equal((await ask(d, `/api/v1/query?time=${T}`, { method: 'POST', form: 'query=1%2B1' })).json.data.result[1], '2');
});

test('series, labels, values, metadata, exemplars', TIMEOUT, async (t) => {
    const d = await daemon(t);

    assert.deepEqual((await get(d, 'series', { 'match[]': 'queue_length{code="201"}' })).json.data,
        [LABELS(1, { __name__: 'queue_length', http_route: '/a', code: '201' })]);
    assert.deepEqual((await get(d, 'series', { 'match[]': 'queue_length', start: T - 20, end: T - 10 })).json.data, []);
    assert.equal((await ask(d, '/api/v1/series?match[]=queue_length&match[]=http_server_requests_total&limit=3')).json.data.length, 3);
    assert.deepEqual((await get(d, 'labels')).json.data, ['__name__', 'code', 'host_name', 'http_route', 'instance', 'job', 'le', 'otel_scope_name', 'otel_scope_version']);
    assert.deepEqual((await get(d, 'labels', { 'match[]': 'latency_seconds_count' })).json.data, ['__name__', 'instance', 'job', 'otel_scope_name', 'otel_scope_version']);
    assert.deepEqual((await get(d, 'label/__name__/values')).json.data,
        ['http_server_requests_total', 'latency_seconds_bucket', 'latency_seconds_count', 'latency_seconds_sum', 'queue_length', 'target_info']);
    assert.deepEqual((await get(d, 'label/le/values')).json.data, ['+Inf', '1', '5'].sort());
    assert.deepEqual((await get(d, 'label/U__http__route/values')).json.data, ['/a']);
    assert.deepEqual((await get(d, 'label/nothing/values')).json.data, []);
    assert.deepEqual((await get(d, 'metadata', { metric: 'http_server_requests_total' })).json.data, { http_server_requests_total: [{ type: 'counter', help: 'Requests.', unit: '' }] });
    assert.equal(Object.keys((await get(d, 'metadata', { limit: 2 })).json.data).length, 2);
    const [x] = (await get(d, 'query_exemplars', { query: 'latency_seconds_bucket{instance="i0"}', start: T - 10, end: T })).json.data;

    assert.deepEqual(x.exemplars, [{ labels: { trace_id: '000102030405060708090a0b0c0d0e0f', span_id: '0001020304050607', user: 'u' }, value: '0.5', timestamp: T - 1 }]);
    assert.equal(x.seriesLabels.le, '1');
});

test('format_query, parse_query, status, and what there is none of', TIMEOUT, async (t) => {
    const d = await daemon(t);

    assert.equal((await get(d, 'format_query', { query: 'sum(  rate(a[5m]) )by(b)' })).json.data, 'sum by (b) (rate(a[5m]))');
    assert.equal((await get(d, 'parse_query', { query: 'a + 1' })).json.data.op, '+');
    /* By web/api/v1/translate_ast.go of Prometheus 3. */
    assert.deepEqual((await get(d, 'parse_query', { query: 'a{b!~"c"}[5m] offset 1m' })).json.data, { type: 'matrixSelector', name: 'a', range: 300000,
        offset: 60000, timestamp: null, startOrEnd: null, matchers: [{ name: 'b', value: 'c', type: '!~' }, { name: '__name__', value: 'a', type: '=' }] });
    assert.deepEqual((await get(d, 'parse_query', { query: '1e22' })).json.data, { type: 'numberLiteral', val: '10000000000000000000000' });
    assert.equal((await get(d, 'status/buildinfo')).json.data.version, '3.0.0');
    const tsdb = (await get(d, 'status/tsdb', { limit: 2 })).json.data;

    assert.equal(tsdb.headStats.numSeries, 16); /* 2 counters, 2 gauges, 2 histograms of 3 + 2 series, 2 target_info */
    assert.deepEqual(tsdb.seriesCountByMetricName[0], { name: 'latency_seconds_bucket', value: 6 });
    const { yaml } = (await get(d, 'status/config')).json.data;

    assert.match(yaml, /^query\.timeout: 30s$/m);
    assert.match(yaml, /^listen:\n {2}- '127\.0\.0\.1:\d+'$/m);
    assert.match(yaml, /^cors\.origins: \[\]$/m);
    for (const p of ['status/flags', 'status/runtimeinfo', 'targets', 'rules', 'alerts'])
        assert.equal((await get(d, p)).json.status, 'success', p);
});

test('errors have Prometheus\' kinds and say what is wrong', TIMEOUT, async (t) => {
    const d = await daemon(t, { set: { 'query.max_series': '1' } });

    for (const [p, params, status, type, what] of [
        ['query', { query: 'sum(' }, 400, 'bad_data', /1:5: parse error/],
        ['query', {}, 400, 'bad_data', /no expression/],
        ['query', { query: 'a{b=~"("}' }, 400, 'bad_data', /1:1.*regexp/],
        ['query', { query: '1', time: 'noon' }, 400, 'bad_data', /"time".*noon/],
        ['query', { query: '1', timeout: 'soon' }, 400, 'bad_data', /timeout/],
        ['query', { query: 'queue_length', time: T }, 422, 'execution', /query\.max_series/],
        ['query_range', { query: '1', start: T, end: T - 1, step: 1 }, 400, 'bad_data', /must not be before/],
        ['query_range', { query: '1', start: T, end: T, step: 0 }, 400, 'bad_data', /zero or negative/],
        ['query_range', { query: '1', start: 0, end: T, step: 1 }, 400, 'bad_data', /11,000/],
        ['query_range', { query: 'a[5m]', start: T, end: T, step: 1 }, 400, 'bad_data', /range vector/],
        ['query_range', { query: '1', step: 1 }, 400, 'bad_data', /"start"/],
        ['series', {}, 400, 'bad_data', /match/],
        ['series', { 'match[]': '{a=""}' }, 400, 'bad_data', /non-empty/],
        ['labels', { limit: -1 }, 400, 'bad_data', /limit/],
        ['query', { query: 'sum(rate(http_server_requests_total{instance="i0"}[5m]))', time: T, timeout: '0s' }, 503, 'timeout', /./],
        ['status/nothing', {}, 404, 'not_found', /status\/nothing/]]) {
        const r = await get(d, p, params);

        assert.equal(r.status, status, `${p} ${JSON.stringify(params)} ${r.text}`);
        assert.equal(r.json.status, 'error');
        assert.equal(r.json.errorType, type, r.text);
        assert.match(r.json.error, what, p);
    }
    assert.equal((await ask(d, '/api/v1/query', { method: 'DELETE' })).status, 405);
    assert.equal((await ask(d, '/api/v1/metadata', { method: 'POST', form: '' })).status, 405);
});

test('answers are compressed for who takes gzip, and CORS is that of all paths', TIMEOUT, async (t) => {
    const d = await daemon(t, { set: { 'cors.origins': 'https://grafana.test' } });
    const params = { query: 'http_server_requests_total', start: T - 60, end: T, step: 1 };
    const plain = await get(d, 'query_range', params);
    const small = await get(d, 'query_range', params, { headers: { 'accept-encoding': 'gzip, deflate' } });

    assert.equal(plain.headers['content-encoding'], undefined);
    assert.equal(small.headers['content-encoding'], 'gzip');
    assert.match(small.headers.vary, /Accept-Encoding/);
    assert.equal(small.text, plain.text);
    const r = await get(d, 'labels', {}, { headers: { origin: 'https://grafana.test' } });

    assert.equal(r.headers['access-control-allow-origin'], 'https://grafana.test');
    const p = await ask(d, '/api/v1/labels', { method: 'OPTIONS', headers: { origin: 'https://grafana.test', 'access-control-request-method': 'GET' } });

    assert.equal(p.status, 204);
    assert.equal(p.headers['access-control-allow-methods'], 'GET');
});

test('a token sees its project, a write token nothing', TIMEOUT, async (t) => {
    const dir = tempDir();
    const token = async (project, scope) => /otl_\S+/.exec(await cliOk(['token', 'create', '--data', dir, '--project', project, '--scope', scope]))[0];
    const [read, write, other, admin] = [await token('default', 'read'), await token('default', 'write'), await token('other', 'read'), await token('default', 'admin')];
    const d = await Otlite.start({ dir });
    const as = (tk) => ({ headers: { authorization: `Bearer ${tk}` } });

    t.after(() => d.stop());
    assert.equal((await d.postJson(body(), { authorization: `Bearer ${write}` })).status, 200);
    assert.equal((await get(d, 'query', { query: 'count(queue_length)', time: T }, as(read))).json.data.result[0].value[1], '2');
    assert.deepEqual((await get(d, 'query', { query: 'queue_length', time: T }, as(other))).json.data.result, []);
    assert.deepEqual((await get(d, 'label/__name__/values', {}, as(other))).json.data, []);
    assert.deepEqual((await get(d, 'metadata', {}, as(other))).json.data, {});
    assert.equal((await get(d, 'query', { query: 'count(queue_length)', time: T }, as(admin))).json.data.result[0].value[1], '2');
    assert.equal((await get(d, 'query', { query: '1' }, as(write))).status, 403);
    assert.equal((await get(d, 'query', { query: '1' })).status, 401);
    assert.equal((await get(d, 'query', { query: '1' })).json.errorType, 'unauthorized');
});

test('a client that goes away ends its query', TIMEOUT, async (t) => {
    const d = await daemon(t);
    /* Ten thousand steps, windows of an hour by the second, sorted, nine times over: a minute. */
    const query = Array(9).fill().reduce((q) => `quantile_over_time(0.5, ${q}[1h:1s])`, 'http_server_requests_total');
    const r = http.request({ host: '127.0.0.1', port: d.port, path: `/api/v1/query_range?${new URLSearchParams({ query, start: T - 10000, end: T, step: 1 })}` });

    r.on('error', () => {});
    r.end();
    while (!/^otlite_queries_running 1$/m.test(await metricsOf(d)))
        await new Promise((resolve) => setTimeout(resolve, 10));
    r.destroy();
    while (!/^otlite_queries_running 0$/m.test(await metricsOf(d)))
        await new Promise((resolve) => setTimeout(resolve, 10));
    assert.match(await metricsOf(d), /^otlite_queries_cancelled_total 1$/m);
});

test('otlite query: a directory and a daemon give the same, in each form', TIMEOUT, async (t) => {
    const d = await daemon(t);
    const at = ['--time', String(T)];

    for (const from of [['--data', d.dir], ['--url', `http://127.0.0.1:${d.port}`]]) {
        assert.equal(await cliOk(['query', ...from, ...at, 'sum by (job) (queue_length)']), '{job="shop/cart"}  11\n');
        assert.equal(await cliOk(['query', ...from, ...at, '--format', 'csv', 'sum(queue_length)']), `time,series,value\n${T}.000,{},11\n`);
        assert.equal(JSON.parse(await cliOk(['query', ...from, ...at, '--format', 'json', '1 + 1'])).data.result[1], '2');
        const chart = await cliOk(['query', ...from, ...at, '--range', '1m', '--step', '30s', '--format', 'chart', 'sum(http_server_requests_total)']);

        assert.match(chart, /320 │.*[\u2800-\u28ff]/);
        assert.match(chart, /200 │[\u2800-\u28ff]/);
        assert.match(chart, /1 \{\} {2}320/);
        const bad = await cli(['query', ...from, 'sum(']);

        assert.notEqual(bad.code, 0);
        assert.match(bad.stderr, /1:5: parse error/);
    }
    assert.equal((await cli(['query', '--data', d.dir, '--format', 'chart', '1'])).code, 64);
    assert.match((await cli(['query', '--url', 'http://127.0.0.1:1', '1'])).stderr, /127\.0\.0\.1:1/);
});

function promtool(args, input) {
    return execFileSync('promtool', args, { input, encoding: 'utf8' });
}
let noPromtool = false;

try {
    execFileSync('promtool', ['--version'], { stdio: 'ignore' });
} catch {
    noPromtool = 'promtool is not in PATH';
}

test('promtool asks it', { ...TIMEOUT, skip: noPromtool }, async (t) => {
    const d = await daemon(t);
    const url = `http://127.0.0.1:${d.port}`;
    const run = (args) => new Promise((resolve) => require('node:child_process').execFile('promtool', args, (error, stdout, stderr) => resolve(error ? stderr : stdout)));

    assert.match(await run(['query', 'instant', '--time', String(T), url, 'sum(queue_length)']), /\{\} => 11 @/);
    assert.match(await run(['query', 'range', '--start', String(T - 60), '--end', String(T), '--step', '30s', url, 'sum(http_server_requests_total)']), /200 @[\s\S]*260 @[\s\S]*320 @/);
    assert.match(await run(['query', 'series', '--match', 'queue_length', '--start', String(T - 60), '--end', String(T), url]), /__name__="queue_length"/);
    assert.match(await run(['query', 'labels', '--start', String(T - 60), '--end', String(T), url, 'job']), /shop\/cart/);
    const metrics = (await ask(d, '/metrics')).text;

    assert.equal(promtool(['check', 'metrics'], metrics), '');
});

test('every expression of the dashboards is one, and the variables\' too', TIMEOUT, async (t) => {
    const d = await daemon(t);
    const dir = path.join(REPO, 'deploy', 'grafana', 'dashboards');
    let n = 0;

    for (const file of fs.readdirSync(dir)) {
        const dashboard = JSON.parse(fs.readFileSync(path.join(dir, file), 'utf8'));
        const ids = dashboard.panels.map((p) => p.id);

        assert.equal(new Set(ids).size, ids.length, `${file}: panel ids`);
        for (const panel of dashboard.panels)
            for (const target of panel.targets || []) {
                const query = target.expr.replaceAll('$__rate_interval', '1m').replaceAll('$service', '.*');
                const r = await get(d, 'query_range', { query, start: T - 600, end: T, step: 60 });

                assert.equal(r.status, 200, `${file}: ${panel.title}: ${r.text}`);
                n++;
            }
    }
    assert.ok(n > 20);
});
