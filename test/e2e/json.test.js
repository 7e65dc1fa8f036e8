'use strict';
/* Chapter 2 of the conformance rules, OTLP/JSON, end to end: what is answered and what is stored. */
const test = require('node:test');
const assert = require('node:assert/strict');
const { dump, numbers, points, unquote } = require('./lib/dump');
const { Otlite, SLOW } = require('./lib/otlite');
const { now, readPartial } = require('./lib/otlp');

const TIMEOUT = { timeout: 60000 * SLOW };
let d;
let serial = 0;

test.before(async () => (d = await Otlite.start()));
test.after(() => d.stop());

/* One gauge under a new name with the points given as JSON text; TIME in it becomes a time. Sends
 * it and says what happened. */
async function send(points, { wrap = (s) => s, status = 200 } = {}) {
    const name = `json.${++serial}`;
    const text = `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"${name}","gauge":` +
        `{"dataPoints":[${points}]}}]}]}]}`;

    return post(name, wrap(text), status);
}

async function post(name, text, status = 200) {
    const r = await d.postJson(Buffer.isBuffer(text) ? text : text.replace(/TIME/g, () => now()));

    assert.equal(r.status, status, r.text);
    const rows = await numbers(d.dir, name);

    return { name, rows, values: rows.map((x) => unquote(x.value)),
        attributes: rows.map((x) => JSON.parse(x.attributes)),
        partial: status === 200 ? readPartial(r) : null, text: r.text };
}

const P = (rest) => `{"timeUnixNano":"TIME",${rest}}`;
const A = (value) => P(`"asInt":1,"attributes":[{"key":"k","value":${value}}]`);

test('J-1 snake_case keys are not read, and a warning names that', TIMEOUT, async () => {
    const r = await d.postJson('{"resource_metrics":[{"scope_metrics":[]}]}');

    assert.equal(r.status, 200);
    const p = readPartial(r);

    assert.equal(p.rejected, 0);
    assert.match(p.message, /snake_case/);
    assert.match(p.message, /resource_metrics/);
    const got = await send(P('"as_int":5,"asDouble":2.5'));

    assert.deepEqual(got.values, [2.5]);
});

test('J-1 snake_case is read when otlp.accept_snake_case says so', TIMEOUT, async (t) => {
    const s = await Otlite.start({ set: { 'otlp.accept_snake_case': 'true' } });

    t.after(() => s.stop());
    const r = await s.postJson('{"resource_metrics":[{"scope_metrics":[{"metrics":[{"name":"snake",' +
        `"gauge":{"data_points":[{"time_unix_nano":"${now()}","as_int":"7"}]}}]}]}]}`);

    assert.equal(r.status, 200);
    assert.deepEqual((await numbers(s.dir, 'snake')).map((x) => x.value), ['7']);
});

test('J-2 H-90 unknown keys are skipped, whatever they hold', TIMEOUT, async () => {
    const { values } = await send(P('"asInt":1,"new":[1,[{"a":"]}"}],null,true,"\\u005d"],' +
        '"deep":{"timeUnixNano":"5","asInt":9,"x":{}},"n":-1.5e-9'));

    assert.deepEqual(values, [1n]);
});

test('J-3 M-36 ids are hex in either case; empty is absent; others are dropped with a warning', TIMEOUT,
    async () => {
        const ex = (time, rest) => `{"timeUnixNano":"${time}","asInt":1,${rest}}`;
        const { name, values, partial } = await send(P('"asInt":1,"exemplars":[' + [
            ex(5, '"traceId":"0123456789abcdefFEDCBA9876543210","spanId":"00aabbCCDDEEff01"'),
            ex(6, '"traceId":"","spanId":""'),
            ex(7, '"traceId":"ASNFZ4mrze/+3LqYdlQyEA==","spanId":"zz"'),
        ].join() + ']'));

        assert.deepEqual(values, [1n]);
        assert.equal(partial.rejected, 0);
        assert.match(partial.message, /trace or span id/);
        const rows = await d.sql('SELECT hex(trace_id) t, hex(span_id) s FROM exemplar e' +
            ' JOIN series s ON s.id = e.series_id JOIN metric m ON m.id = s.metric_id' +
            ` WHERE m.name = '${name}' ORDER BY e.rowid`);

        assert.deepEqual(rows, [
            { t: '0123456789ABCDEFFEDCBA9876543210', s: '00AABBCCDDEEFF01' },
            { t: '', s: '' }, { t: '', s: '' }]);
    });

test('J-4 bytes are base64, standard or URL-safe, padded or not', TIMEOUT, async () => {
    const bytes = Buffer.from([0xfb, 0xff, 0xfe, 0x01]);
    const seen = [];

    for (const s of [bytes.toString('base64'), bytes.toString('base64').replace(/=/g, ''),
        bytes.toString('base64url'), `${bytes.toString('base64url')}==`]) {
        const { attributes } = await send(A(`{"bytesValue":"${s}"}`));

        seen.push(attributes[0].k);
    }
    assert.deepEqual(seen, new Array(4).fill(bytes.toString('base64')));
});

test('J-5 J-6 64-bit integers as strings and as numbers, exact', TIMEOUT, async () => {
    const { values } = await send(['"42"', '42', '"-9223372036854775808"', '-9223372036854775808',
        '9223372036854775807', '"9007199254740993"', '9007199254740993', '-0', '"0"']
        .map((v) => P(`"asInt":${v}`)).join());

    assert.deepEqual(values, [42n, 42n, -(2n ** 63n), -(2n ** 63n), 2n ** 63n - 1n,
        9007199254740993n, 9007199254740993n, 0n, 0n]);
    const { attributes } = await send([A('{"intValue":"7"}'), A('{"intValue":7}')].join());

    assert.deepEqual(attributes, [{ k: 7 }, { k: 7 }]);
    assert.equal(await d.one('SELECT count(*) FROM series s JOIN metric m ON m.id = s.metric_id' +
        ` WHERE m.name = 'json.${serial}'`), 1, 'both forms are one series');
});

test('J-7 exponents and zero fractions are integers, others cost the point', TIMEOUT, async () => {
    const good = await send(['1e3', '1.0', '"1e3"', '"2.5e2"', '-2.50e1']
        .map((v) => P(`"asInt":${v}`)).join());

    assert.deepEqual(good.values, [1000n, 1n, 1000n, 250n, -25n]);
    const bad = await send(['1.5', '"1.5"', '"x"', '""', '"1 "', '"0x10"', '12e-1']
        .map((v) => P(`"asInt":${v}`)).join());

    assert.equal(bad.partial.rejected, 7);
    assert.deepEqual(bad.values, []);
});

test('J-8 an intValue outside 64 bits becomes a double with a warning; asInt is rejected', TIMEOUT,
    async () => {
        const a = await send(A('{"intValue":1e+21}'));

        assert.deepEqual(a.attributes, [{ k: 1e21 }]);
        assert.equal(a.partial.rejected, 0);
        assert.match(a.partial.message, /double/);
        const b = await send([P('"asInt":"9223372036854775808"'), P('"asInt":1e21'), P('"asInt":4')]
            .join());

        assert.equal(b.partial.rejected, 2);
        assert.deepEqual(b.values, [4n]);
    });

test('J-9 enums are integers; a name costs the metric\'s points or the request, never reads as 0',
    TIMEOUT, async () => {
        const metric = (name, temporality) => `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[` +
            `{"name":"${name}","sum":{"isMonotonic":true,"aggregationTemporality":${temporality},` +
            `"dataPoints":[${P('"asInt":1')}]}}]}]}]}`;

        for (const t of ['2', '"2"', '2.0']) {
            const name = `json.enum.${++serial}`;

            assert.deepEqual((await post(name, metric(name, t))).values, [1n], t);
            assert.equal(await d.one(`SELECT temporality FROM metric WHERE name = '${name}'`),
                'cumulative');
        }
        for (const t of ['"AGGREGATION_TEMPORALITY_CUMULATIVE"', '"delta"', '3', '-1', 'null']) {
            const name = `json.enum.${++serial}`;
            const r = await d.postJson(metric(name, t).replace('TIME', now()));

            assert.ok(r.status === 400 || (r.status === 200 && readPartial(r).rejected === 1),
                `${t}: ${r.status} ${r.text}`);
            assert.deepEqual(await numbers(d.dir, name), []);
        }
    });

test('J-10 doubles: numbers, exponents, strings and the three words; nothing else', TIMEOUT, async () => {
    const good = await send(['1', '-2.5e-3', '"0.1"', '"NaN"', '"Infinity"', '"-Infinity"', '-0.0',
        '"1e3"', '5e-324'].map((v) => P(`"asDouble":${v}`)).join());

    assert.deepEqual(good.values, [1, -0.0025, 0.1, NaN, Infinity, -Infinity, -0, 1000, 5e-324]);
    const bad = await send(['""', '"nan"', '"inf"', '"0x1p3"', '1e400', '"1e400"', '"+Infinity"',
        '"1,5"', '" 1"'].map((v) => P(`"asDouble":${v}`)).join());

    assert.equal(bad.partial.rejected, 9);
    assert.deepEqual(bad.values, []);
    for (const v of ['NaN', 'Infinity', '-Infinity', '.5', '1.', '+1', '01', '0x1'])
        await send(P(`"asDouble":${v}`), { status: 400 });
});

test('J-11 null means unset; a point left without a value is rejected alone', TIMEOUT, async () => {
    const got = await send([P('"asDouble":null'), P('"asInt":null,"asDouble":4.5,"flags":null,' +
        '"exemplars":null,"attributes":null,"startTimeUnixNano":null')].join());

    assert.deepEqual(got.values, [4.5]);
    assert.equal(got.partial.rejected, 1);
    const name = `json.${++serial}`;

    await post(name, `{"resourceMetrics":[{"resource":null,"schemaUrl":null,"scopeMetrics":[` +
        `{"scope":null,"metrics":[{"name":"${name}","unit":null,"description":null,"histogram":` +
        `{"aggregationTemporality":2,"dataPoints":[${P('"count":"2","sum":null,"min":null,' +
        '"max":null,"bucketCounts":["1","1"],"explicitBounds":[1]')}]}}]}]}]}`);
    const [h] = await points(d.dir, 'histogram_point', name);

    assert.deepEqual([h.sum, h.min, h.max, h.count], ['NULL', 'NULL', 'NULL', '2']);
});

test('J-12 null elements: skipped in lists of messages, fatal for the point in number lists', TIMEOUT,
    async () => {
        const got = await send(`null,${P('"asInt":1,"attributes":[null,{"key":"k","value":' +
            '{"stringValue":"v"}}]')}`);

        assert.deepEqual(got.values, [1n]);
        assert.deepEqual(got.attributes, [{ k: 'v' }]);
        const name = `json.${++serial}`;
        const h = await d.postJson(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"${name}",` +
            `"histogram":{"aggregationTemporality":2,"dataPoints":[{"timeUnixNano":"${now()}",` +
            '"count":"2","bucketCounts":["2",null],"explicitBounds":[1]}]}}]}]}]}');

        assert.equal(h.status, 200);
        assert.equal(readPartial(h).rejected, 1);
    });

test('J-13 duplicate keys: the last wins, also between members of a oneof', TIMEOUT, async () => {
    const { values } = await send([P('"asInt":1,"asInt":2'), P('"asInt":1,"asDouble":2.5'),
        P('"asDouble":2.5,"asInt":3')].join());

    assert.deepEqual(values, [2n, 2.5, 3n]);
    const { attributes } = await send(A('{"stringValue":"a","intValue":"5"}'));

    assert.deepEqual(attributes, [{ k: 5 }]);
    const name = `json.${++serial}`;
    const once = (n) => `"gauge":{"dataPoints":[${P(`"asInt":${n}`)}]}`;
    const again = await post(name, `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"${name}",` +
        `${once(1)},${once(2)}}]}]}]}`);

    assert.deepEqual(again.values, [2n]);
});

test('J-14 wrong JSON types in the envelope are 400', TIMEOUT, async () => {
    const inMetric = (m) => `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[${m}]}]}]}`;

    for (const body of ['{"resourceMetrics":{}}', '{"resourceMetrics":"x"}', '{"resourceMetrics":[1]}',
        '{"resourceMetrics":[{"resource":[]}]}', '{"resourceMetrics":[{"resource":{"attributes":{}}}]}',
        '{"resourceMetrics":[{"scopeMetrics":[{"scope":"x"}]}]}',
        inMetric('{"name":5}'), inMetric('{"name":true}'), inMetric('{"name":"x","gauge":[]}'),
        inMetric('{"name":"x","gauge":{"dataPoints":{}}}'),
        inMetric('{"name":"x","sum":{"isMonotonic":"true"}}'),
        inMetric('{"name":"x","sum":{"isMonotonic":1}}'),
        inMetric('{"name":"x","unit":["s"]}')]) {
        const r = await d.postJson(body);

        assert.equal(r.status, 400, body);
    }
});

test('J-15 the top must be one object with nothing behind it', TIMEOUT, async () => {
    for (const body of ['', ' ', '[]', '"x"', 'null', '1', 'true', '{}x', '{}{}', '{},', '{', '}',
        '{"a"}', '{"a":}', '{"a":1,}', "{'a':1}", '{a:1}', '{"a":1 "b":2}', '// x\n{}', '\u0000{}'])
        assert.equal((await d.postJson(body)).status, 400, JSON.stringify(body));
    for (const body of ['{}', ' {} \r\n\t', '{ "a" : [ ] }'])
        assert.equal((await d.postJson(body)).status, 200, JSON.stringify(body));
});

test('J-16 M-9 text that is not UTF-8 and lone surrogates become U+FFFD with a warning', TIMEOUT,
    async () => {
        const raw = await send(A('{"stringValue":"a\xffb"}'),
            { wrap: (s) => Buffer.from(s.replace(/TIME/, () => now()), 'latin1') });

        assert.deepEqual(raw.attributes, [{ k: 'a\ufffdb' }]);
        assert.equal(raw.partial.rejected, 0);
        assert.match(raw.partial.message, /UTF-8/);
        const lone = await send(A('{"stringValue":"x\\ud83d"}'));

        assert.deepEqual(lone.attributes, [{ k: 'x\ufffd' }]);
        assert.match(lone.partial.message, /surrogate/);
        const pair = await send(A('{"stringValue":"\\ud83d\\ude00 \\u0000 \\n\\"\\\\\\/"}'));

        assert.deepEqual(pair.attributes, [{ k: '😀 \0 \n"\\/' }]);
        assert.equal(pair.partial, null);
    });

test('J-16 control characters inside strings and bad escapes are 400', TIMEOUT, async () => {
    for (const s of ['"a\nb"', '"a\tb"', '"\\x41"', '"\\u12"', '"\\u12G4"', '"\\"'])
        await send(A(`{"stringValue":${s}}`), { status: 400 });
});

test('J-17 nesting beyond the parser\'s limit is 400, in known and unknown keys', TIMEOUT, async () => {
    for (const n of [400, 20000, 200000])
        assert.equal((await d.postJson(`{"zzz":${'['.repeat(n)}${']'.repeat(n)}}`)).status, 400);
    assert.equal((await d.postJson(`{"zzz":${'['.repeat(100)}${']'.repeat(100)}}`)).status, 200);
    assert.equal((await d.postJson(`{"zzz":${'{"a":'.repeat(20000)}1${'}'.repeat(20000)}}`)).status, 400);
});

test('J-18 an empty object key is an unknown key', TIMEOUT, async () => {
    assert.deepEqual((await send(P('"":{"asInt":9},"asInt":1'))).values, [1n]);
});

test('J-19 unset members take their defaults', TIMEOUT, async () => {
    const name = `json.${++serial}`;

    await post(name, `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"${name}","sum":` +
        `{"aggregationTemporality":1,"dataPoints":[${P('"asInt":1')}]}}]}]}]}`);
    assert.deepEqual(await d.sql('SELECT is_monotonic, temporality, unit, description FROM metric' +
        ` WHERE name = '${name}'`), [{ is_monotonic: 0, temporality: 'delta', unit: '',
        description: '' }]);
    const [row] = await numbers(d.dir, name);

    assert.equal(row.start, '0');
    assert.equal(row.flags, 0);
    assert.equal(row.attributes, '{}');
});

test('J-21 M-12 an empty AnyValue is a value of its own', TIMEOUT, async () => {
    const { attributes, name } = await send([A('{}'), A('{"stringValue":""}'),
        P('"asInt":1,"attributes":[{"key":"k"}]'), P('"asInt":1'),
        A('{"arrayValue":{"values":[{},{"intValue":1}]}}')].join());

    assert.deepEqual(attributes, [{ k: null }, { k: '' }, { k: null }, {}, { k: [null, 1] }]);
    assert.equal(await d.one('SELECT count(*) FROM series s JOIN metric m ON m.id = s.metric_id' +
        ` WHERE m.name = '${name}'`), 4);
});

test('J-22 keys with escapes are the same keys', TIMEOUT, async () => {
    assert.deepEqual((await send('{"time\\u0055nixNano":"TIME","\\u0061sInt":5}')).values, [5n]);
});

test('J-23 32-bit fields are range-checked', TIMEOUT, async () => {
    const got = await send([P('"asInt":1,"flags":4294967295'), P('"asInt":2,"flags":"0"'),
        P('"asInt":3,"flags":4294967296'), P('"asInt":4,"flags":-1')].join());

    /* The first has the no-recorded-value bit among its flags: no value is kept. */
    assert.deepEqual(got.values, [null, 2n]);
    assert.equal(got.rows[0].flags, 4294967295);
    assert.equal(got.partial.rejected, 2);
});

test('J-24 keys of old versions are unknown keys', TIMEOUT, async () => {
    const r = await d.postJson('{"resourceMetrics":[{"instrumentationLibraryMetrics":[{"metrics":[' +
        `{"name":"old","gauge":{"dataPoints":[{"timeUnixNano":"${now()}","asInt":1}]}}]}]}]}`);

    assert.equal(r.status, 200);
    assert.deepEqual(await numbers(d.dir, 'old'), []);
});

test('J-25 every key of the table is read', TIMEOUT, async (t) => {
    const s = await Otlite.start();

    t.after(() => s.stop());
    const T = now();
    const ex = '"exemplars":[{"timeUnixNano":"77","asDouble":0.5,"spanId":"0102030405060708",' +
        '"traceId":"000102030405060708090a0b0c0d0e0f","filteredAttributes":[{"key":"f","value":' +
        '{"boolValue":true}}]}]';
    const at = `"startTimeUnixNano":"50","timeUnixNano":"${T}","flags":2,"attributes":[{"key":"a",` +
        '"value":{"kvlistValue":{"values":[{"key":"b","value":{"doubleValue":1}}]}}}]';
    const r = await s.postJson('{"resourceMetrics":[{"schemaUrl":"https://r","resource":{"attributes":[' +
        '{"key":"service.name","value":{"stringValue":"svc"}}],"droppedAttributesCount":3,"entityRefs":' +
        '[{"schemaUrl":"https://e","type":"service","idKeys":["service.name"],"descriptionKeys":[]}]},' +
        '"scopeMetrics":[{"schemaUrl":"https://s","scope":{"name":"sc","version":"1","attributes":[' +
        '{"key":"sa","value":{"intValue":"1"}}],"droppedAttributesCount":4},"metrics":[' +
        `{"name":"g","description":"D","unit":"U","metadata":[{"key":"prometheus.type","value":` +
        `{"stringValue":"info"}}],"gauge":{"dataPoints":[{${at},"asDouble":1.5,${ex}}]}},` +
        `{"name":"s","sum":{"aggregationTemporality":1,"isMonotonic":true,"dataPoints":[{${at},` +
        '"asInt":"-5"}]}},' +
        `{"name":"h","histogram":{"aggregationTemporality":2,"dataPoints":[{${at},"count":"3","sum":4.5,` +
        `"min":1,"max":2,"bucketCounts":["1","2"],"explicitBounds":[1.5],${ex}}]}},` +
        `{"name":"e","exponentialHistogram":{"aggregationTemporality":1,"dataPoints":[{${at},"count":"9",` +
        '"sum":-1,"scale":-2,"zeroCount":"1","zeroThreshold":0.25,"min":-8,"max":9,' +
        '"positive":{"offset":-1,"bucketCounts":["1","2"]},"negative":{"offset":1,' +
        '"bucketCounts":["5"]}}]}},' +
        `{"name":"q","summary":{"dataPoints":[{${at},"count":"7","sum":8.25,"quantileValues":[` +
        '{"quantile":0,"value":1},{"quantile":0.5,"value":"NaN"},{"quantile":1,"value":3}]}]}}]}]}]}');

    assert.equal(r.status, 200);
    assert.equal(r.text, '{}');
    const all = await dump(s.dir);
    const one = (table) => JSON.parse(all[table][0]);
    const point = { time: T, start_time: '50', flags: 2, attributes: '{"a":{"b":1.0}}' };
    const has = (row, want) => {
        for (const [k, v] of Object.entries(want))
            assert.deepEqual(row[k], v, `${k}: ${JSON.stringify(row[k])}`);
    };
    const rows = all.number_point.map((x) => JSON.parse(x));

    assert.equal(rows.length, 2);
    const g = rows.find((x) => x.metric === 'g');

    has(g, { ...point, value: '1.5', unit: 'U', description: 'D', type: 'gauge', temporality: 'none',
        metadata: '{"prometheus.type":"info"}', scope: 'sc', version: '1', scope_schema_url: 'https://s',
        scope_attributes: '{"sa":1}', scope_dropped: 4, resource: '{"service.name":"svc"}',
        resource_schema_url: 'https://r', resource_dropped: 3, service_name: 'svc' });
    assert.deepEqual(JSON.parse(g.entity_refs)[0].type, 'service');
    assert.deepEqual(JSON.parse(g.entity_refs)[0].idKeys, ['service.name']);
    has(rows.find((x) => x.metric === 's'), { ...point, value: '-5', type: 'sum', temporality: 'delta',
        is_monotonic: 1 });
    has(one('histogram_point'), { ...point, count: '3', sum: '4.5', min: '1.0', max: '2.0',
        temporality: 'cumulative' });
    assert.deepEqual(unquote(one('histogram_point').bucket_counts), [1, 2]);
    assert.deepEqual(JSON.parse(one('histogram_point').bounds), [1.5]);
    has(one('exponential_histogram_point'), { ...point, count: '9', sum: '-1.0', scale: '-2',
        zero_count: '1', zero_threshold: '0.25', min: '-8.0', max: '9.0', positive_offset: '-1',
        negative_offset: '1', temporality: 'delta' });
    assert.deepEqual(unquote(one('exponential_histogram_point').positive_counts), [1, 2]);
    assert.deepEqual(unquote(one('exponential_histogram_point').negative_counts), [5]);
    has(one('summary_point'), { ...point, count: '7', sum: '8.25' });
    assert.deepEqual(unquote(one('summary_point').quantiles), [[0, 1], [0.5, NaN], [1, 3]]);
    for (const table of ['number_point', 'histogram_point'])
        has(one(`exemplars of ${table}`), { exemplar_time: '77', value: '0.5',
            span_id: '0102030405060708', trace_id: '000102030405060708090A0B0C0D0E0F',
            filtered: '{"f":true}' });
});
