'use strict';
/* otlite import: what export wrote comes back equal, can be imported twice, and stops at a line that it
 * cannot read, saying which. */
const test = require('node:test');
const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { Otlite, SLOW, cli, cliOk, tempDir } = require('./lib/otlite');
const { encode, gauge, now, point, request } = require('./lib/otlp');
const { everything } = require('./lib/everything');
const { dump } = require('./lib/dump');

const TIMEOUT = { timeout: 60000 * SLOW };
const NO_SLACK = ['--set', 'otlp.future_slack=0s'];

async function exported(t) {
    const d = await Otlite.start({ set: { 'otlp.future_slack': '0s' } });

    t.after(() => d.stop());
    assert.equal((await d.postProto(encode(everything()))).status, 200);
    for (let i = 0; i < 20; i++)
        assert.equal((await d.postProto(encode(request([gauge(`import.${i}`, point(i, { i: BigInt(i) }))])))).status,
            200);
    return { d, text: await cliOk(['export', '--data', d.dir]) };
}

test('export, import, export: equal', TIMEOUT, async (t) => {
    const { d, text } = await exported(t);
    const dir = tempDir();
    const points = await d.one('SELECT count(*) FROM points');
    const said = await cliOk(['import', '--data', dir, ...NO_SLACK, '-'], { input: text });

    assert.match(said, /: \d+ stored .* 0 were there already, 0 rejected\n$/);
    assert.deepEqual((await cliOk(['export', '--data', dir])).split('\n').sort(), text.split('\n').sort());
    assert.deepEqual(await dump(dir), await dump(d.dir));
    assert.ok(Number(points) > 20);
    /* state.db knows the services, as if they had sent it. */
    assert.match(await cliOk(['sql', '--data', dir, 'SELECT count(*) FROM state.services']), /[1-9]/);
    /* Again: everything is there already. */
    const file = path.join(tempDir(), 'points.jsonl');

    fs.writeFileSync(file, text);
    assert.match(await cliOk(['import', '--data', dir, ...NO_SLACK, file]), / points: 0 stored .* 0 rejected\n$/);
    assert.deepEqual(await dump(dir), await dump(d.dir));
});

test('a line that is no request ends the import and is named; what came before it is stored', TIMEOUT,
    async () => {
        const dir = tempDir();
        const line = (name) => JSON.stringify(request([{ name, gauge: { dataPoints: [
            { timeUnixNano: now(), asInt: '1' }] } }]));
        const r = await cli(['import', '--data', dir, '-'],
            { input: `${line('first')}\n\n${line('second')}\n{"resourceMetrics":[{]\n${line('never')}\n` });

        assert.equal(r.code, 65, r.stderr);
        assert.match(r.stderr, /standard input, line 4: /);
        assert.match(r.stdout, /2 stored/);
        assert.equal((await cliOk(['sql', '--data', dir, '--csv', 'SELECT group_concat(name, 0) FROM metric'])).trim(),
            'first0second');
    });

test('rejected points are counted by reason, with the line', TIMEOUT, async () => {
    const dir = tempDir();
    const bad = JSON.stringify(request([{ name: '', gauge: { dataPoints: [{ timeUnixNano: now(), asInt: '1' }] } }]));
    const r = await cli(['import', '--data', dir, '-'], { input: `${bad}\n` });

    assert.equal(r.code, 65);
    assert.match(r.stdout, /1 points: 0 stored .* 1 rejected\n {2}1 rejected: .* \(first in line 1\)\n$/);
});

test('more than the head takes is sealed on the way', TIMEOUT, async () => {
    const dir = tempDir();
    const lines = Array.from({ length: 30 }, (_, i) => JSON.stringify(request([{ name: 'many', gauge: { dataPoints:
        Array.from({ length: 1000 }, (__, k) => ({ timeUnixNano: (BigInt(now()) - BigInt(30 - i) * 1000000000n).toString(),
            asInt: String(i), attributes: [{ key: 'k', value: { intValue: String(k) } }] })) } }])));

    assert.match(await cliOk(['import', '--data', dir, '--set', 'head.max_rows=1000', '-'],
        { input: `${lines.join('\n')}\n` }), /30000 points: 30000 stored/);
    const said = JSON.parse(await cliOk(['stats', '--data', dir, '--json']));

    assert.equal(said.points, 30000);
    assert.ok(said.chunks > 0 && said.head_points < 30000);
    assert.match(await cliOk(['check', '--data', dir]), /all is well/);
});

test('not beside a daemon, and not for a project that is not there', TIMEOUT, async (t) => {
    const d = await Otlite.start();

    t.after(() => d.stop());
    const busy = await cli(['import', '--data', d.dir, '-'], { input: '' });

    assert.notEqual(busy.code, 0);
    assert.match(busy.stderr, /serves the data directory/);
    const nobody = await cli(['import', '--data', tempDir(), '--project', 'nobody', '-'], { input: '' });

    assert.notEqual(nobody.code, 0);
    assert.match(nobody.stderr, /nobody/);
});

/* As another program would write it: all types, times with a fraction, escapes, an exemplar, comments. */
const OPENMETRICS = `# TYPE http_requests counter
# HELP http_requests Requests, by \\"route\\"\\nand code.
http_requests_total{code="200",instance="i1",job="shop/cart",otel_scope_name="lib",route="/a\\\\b\\"c"} 42 1700000000.5 # {trace_id="000102030405060708090a0b0c0d0e0f",span_id="0001020304050607"} 1.5 1700000000.25
http_requests_total{code="200",instance="i1",job="shop/cart",otel_scope_name="lib",route="/a\\\\b\\"c"} 43 1700000010.5
# TYPE latency_seconds histogram
# UNIT latency_seconds seconds
latency_seconds_bucket{job="api",le="0.1"} 2 1700000000
latency_seconds_bucket{job="api",le="2.5"} 5 1700000000
latency_seconds_bucket{job="api",le="+Inf"} 9 1700000000
latency_seconds_count{job="api"} 9 1700000000
latency_seconds_sum{job="api"} 21.5 1700000000
latency_seconds_bucket{job="api",le="0.1"} 3 1700000010
latency_seconds_bucket{job="api",le="2.5"} 6 1700000010
latency_seconds_bucket{job="api",le="+Inf"} 10 1700000010
latency_seconds_count{job="api"} 10 1700000010
latency_seconds_sum{job="api"} 22.5 1700000010
# TYPE rpc summary
rpc{job="api",quantile="0.5"} 0.2 1700000000.123456789
rpc{job="api",quantile="0.99"} NaN 1700000000.123456789
rpc_count{job="api"} 7 1700000000.123456789
rpc_sum{job="api"} 1.25 1700000000.123456789
# TYPE temperature gauge
temperature{room="attic"} -3.5 1700000000
temperature{room="attic"} +Inf 1700000010
# EOF
`;

async function sqlOf(dir, query) {
    return (await cliOk(['sql', '--data', dir, query])).trim();
}

test('OpenMetrics text is stored as what it is, and exported as it was', TIMEOUT, async () => {
    const dir = tempDir();
    const said = await cliOk(['import', '--data', dir, '-'], { input: OPENMETRICS });

    assert.match(said, /7 points: 7 stored/);
    assert.equal(await sqlOf(dir, "SELECT name, unit, type, is_monotonic, temporality FROM metric ORDER BY name"),
        ['http_requests_total||sum|1|cumulative', 'latency_seconds|s|histogram|0|cumulative', 'rpc||summary|0|none',
            'temperature||gauge|0|none'].join('\n'));
    assert.equal(await sqlOf(dir, "SELECT description FROM metric WHERE name = 'http_requests_total'"),
        'Requests, by "route"\nand code.');
    assert.deepEqual(JSON.parse(await sqlOf(dir, 'SELECT json(attributes) FROM resource ORDER BY id LIMIT 1')),
        { 'service.instance.id': 'i1', 'service.name': 'cart', 'service.namespace': 'shop' });
    assert.equal(await sqlOf(dir, "SELECT time_unix_nano, value FROM points WHERE metric = 'http_requests_total' ORDER BY 1"),
        '1700000000500000000|42\n1700000010500000000|43');
    assert.equal(await sqlOf(dir, 'SELECT time, count, sum, bucket_counts FROM histogram_point ORDER BY time'),
        '1700000000000000000|9|21.5|[2,3,4]\n1700000010000000000|10|22.5|[3,3,4]');
    assert.equal(await cliOk(['export', '--data', dir, '--format', 'openmetrics']), OPENMETRICS);
    /* Again: all of it is there. */
    assert.match(await cliOk(['import', '--data', dir, '-'], { input: OPENMETRICS }), / points: 0 stored .* 0 rejected\n$/);
});

/* otlp.md P-4. */
test('gauges that were of another type in Prometheus say so in their metadata', TIMEOUT, async () => {
    const dir = tempDir();
    const input = ['# TYPE a unknown', 'a 1 1700000000', '# TYPE b info', 'b_info{v="1"} 1 1700000000', '# TYPE c stateset',
        'c{c="on"} 1 1700000000', '# TYPE d gauge', 'd 1 1700000000', '# EOF', ''].join('\n');

    await cliOk(['import', '--data', dir, '--format', 'openmetrics', '-'], { input });
    assert.equal(await sqlOf(dir, "SELECT name, json(metadata) FROM metric ORDER BY name"),
        ['a|{"prometheus.type":"unknown"}', 'b_info|{"prometheus.type":"info"}', 'c|{"prometheus.type":"stateset"}', 'd|{}'].join('\n'));
    assert.deepEqual((await cliOk(['export', '--data', dir, '--format', 'openmetrics'])).split('\n').filter((l) => l.startsWith('# TYPE')),
        ['# TYPE a unknown', '# TYPE b_info gauge', '# TYPE c gauge', '# TYPE d gauge']);
    const d = await Otlite.start({ dir });

    try {
        const { data } = JSON.parse((await d.request('GET', '/api/v1/metadata')).body);

        assert.deepEqual(Object.entries(data).map(([name, [m]]) => `${name} ${m.type}`).sort(), ['a unknown', 'b_info info', 'c stateset', 'd gauge']);
    } finally {
        await d.stop();
    }
});

test('the older text format: no times, HELP first, suffix in TYPE, no EOF', TIMEOUT, async () => {
    const dir = tempDir();

    await cliOk(['import', '--data', dir, '--format', 'openmetrics', '-'],
        { input: '# HELP a_total A.\n# TYPE a_total counter\na_total{x="1"} 5\n# some words\nlonely 1.5e3\n# TYPE b gauge\nb 2\n' });
    assert.equal(await sqlOf(dir, 'SELECT metric, type, value FROM points ORDER BY metric'), 'a_total|sum|5\nb|gauge|2\nlonely|gauge|1500.0');
    assert.ok(Math.abs(Number(await sqlOf(dir, 'SELECT min(time) FROM points')) - Date.now() / 1000) < 60);
});

test('lines of text that are wrong end the import and are named', TIMEOUT, async () => {
    for (const [input, line, what] of [
        ['# TYPE a gauge\na{b="c} 1\n', 2, /value does not end/],
        ['a{b=c} 1\n', 1, /name="value"/],
        ['a x1 5\n', 1, /no number: x1/],
        ['a 1 5 6\n', 1, /name\{labels\} value/],
        ['a 1 yesterday\n', 1, /yesterday/],
        ['# TYPE h histogram\nh_bucket{le="1"} 5 1\nh_bucket{le="+Inf"} 3 1\nh_count 3 1\n# EOF\n', 5, /not fall/],
        ['# TYPE h histogram\nh_bucket{le="x"} 5 1\n', 2, /le is no number/],
        ['# EOF\na 1\n', 2, /behind # EOF/],
        ['time,metric,value\n1,a,2\n2,b\n', 3, /2 fields/],
        ['time,metric,value\nnoon,a,2\n', 2, /column time/],
        ['time,metric,value\n5,a,much\n', 2, /column value/],
        ['time,metric,value,attributes\n5,a,1,"{""a"":}"\n', 2, /not a JSON object/],
        ['time,metric,value,type\n5,a,1,histogram\n', 2, /gauge or sum/],
        ['a,b,c\n', 1, /header must name/],
        ['time,metric,value\n5,"a,1\n', 2, /does not end/]]) {
        const r = await cli(['import', '--data', tempDir(), '-'], { input });

        assert.equal(r.code, 65, input + r.stderr);
        assert.match(r.stderr, new RegExp(`line ${line}: `), input);
        assert.match(r.stderr, what, input);
    }
});

test('CSV: what export wrote comes back equal; another order of columns, and few of them', TIMEOUT, async (t) => {
    const d = await Otlite.start();

    t.after(() => d.stop());
    const attributes = [['s', { stringValue: 'a,"b"\nc' }], ['i', { intValue: '-7' }], ['d', { doubleValue: 1.5 }], ['t', { boolValue: true }],
        ['l', { arrayValue: { values: [{ intValue: '1' }, { stringValue: 'x' }, {}] } }],
        ['m', { kvlistValue: { values: [{ key: 'k', value: { stringValue: 'v' } }] } }]].map(([key, value]) => ({ key, value }));
    const points = ['0.5', '-0.0', '1e300', '5e-324'].map((v, i) => ({ timeUnixNano: `${1700000000000000001n + BigInt(i)}`, startTimeUnixNano: '1600000000000000000',
        asDouble: Number(v), attributes }));
    const ints = [{ timeUnixNano: '1700000000000000000', asInt: '9223372036854775807', attributes: [] },
        { timeUnixNano: '1700000000000000009', asDouble: 'NaN', attributes: [] }, { timeUnixNano: '1700000000000000010', asDouble: '-Infinity', attributes: [] },
        { timeUnixNano: '1700000000000000011', flags: 1, attributes: [] }];

    assert.equal((await d.postJson({ resourceMetrics: [{ resource: { attributes }, scopeMetrics: [{ scope: { name: 'sc,ope' }, metrics: [
        { name: 'g', unit: 'By', gauge: { dataPoints: points } }, { name: 'c', sum: { aggregationTemporality: 2, isMonotonic: true, dataPoints: ints } },
        { name: 'd', sum: { aggregationTemporality: 1, isMonotonic: true, dataPoints: ints } }, { name: 'u', sum: { aggregationTemporality: 2, dataPoints: points } }] }] }] })).status, 200);
    const csv = await cliOk(['export', '--data', d.dir, '--format', 'csv']);
    const dir = tempDir();

    assert.match(await cliOk(['import', '--data', dir, '-'], { input: csv }), /16 points: 16 stored/);
    assert.deepEqual(await dump(dir), await dump(d.dir));
    assert.equal(await cliOk(['export', '--data', dir, '--format', 'csv']), csv);

    const few = tempDir();

    await cliOk(['import', '--data', few, '-'], { input: 'Value,extra,metric,service_name,time\r\n5,x,"a ""b""",web,1700000000.25\r\n' });
    assert.equal(await sqlOf(few, 'SELECT metric, service_name, type, time_unix_nano, value FROM points'), 'a "b"|web|gauge|1700000000250000000|5');
});
