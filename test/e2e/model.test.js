'use strict';
/* Chapter 3 of the conformance rules, the data model, as far as it shows in the database. Each case
 * is sent as protobuf and as JSON to a daemon of its own each, and both must store the same. */
const test = require('node:test');
const assert = require('node:assert/strict');
const { dump, numbers, points, unquote } = require('./lib/dump');
const { Otlite, SLOW } = require('./lib/otlite');
const { attrs, encode, exponential, gauge, histogram, now, point, readPartial, request, sum, summary } =
    require('./lib/otlp');

const TIMEOUT = { timeout: 60000 * SLOW };
const MAX = 2n ** 63n - 1n;
let json, proto;

test.before(async () => {
    json = await Otlite.start();
    proto = await Otlite.start();
});
test.after(async () => {
    await json.stop();
    await proto.stop();
});

/* Send one request both ways; the partial success (null when unset), which must be the same. */
async function both(obj) {
    const a = await json.postJson(obj);
    const b = await proto.postProto(encode(obj));

    assert.equal(a.status, 200, a.text);
    assert.equal(b.status, 200);
    /* The example may be a name in one and a key or an id as written in the other. */
    const said = (p) => p && [p.rejected, p.message.replace(/ \(for example [^)]*\)/g, '')];

    assert.deepEqual(said(readPartial(a)), said(readPartial(b)), 'both encodings say the same');
    return readPartial(a);
}

async function same(fn) {
    const a = await fn(json);

    assert.deepEqual(await fn(proto), a, 'both encodings store the same');
    return a;
}

const values = (name) =>
    same(async (d) => (await numbers(d.dir, name)).map((r) => unquote(r.value)));
const rowsOf = (table, name) => same((d) => points(d.dir, table, name));
const count = (sql) => same((d) => d.one(sql));
const seriesOf = (name) => count('SELECT count(*) FROM series s JOIN metric m ON m.id = s.metric_id' +
    ` WHERE m.name = '${name}'`);

/* A histogram point. */
function hpoint(counts, bounds, more = {}) {
    const total = counts.reduce((a, b) => a + BigInt(b), 0n);

    return { timeUnixNano: now(), count: total.toString(), bucketCounts: counts.map(String),
        explicitBounds: bounds, ...more };
}

function epoint(more) {
    return { timeUnixNano: now(), count: '0', zeroCount: '0', scale: 0, ...more };
}

test('M-1 a missing resource or scope is an empty row, equal to one without attributes', TIMEOUT,
    async () => {
        for (const rm of [{ scopeMetrics: [{ metrics: [gauge('m1', point(1n))] }] },
            { resource: {}, scopeMetrics: [{ scope: {}, metrics: [gauge('m1', point(2n))] }] },
            { resource: { attributes: [] },
                scopeMetrics: [{ scope: { name: '' }, metrics: [gauge('m1', point(3n))] }] }])
            assert.equal(await both({ resourceMetrics: [rm] }), null);
        assert.deepEqual(await values('m1'), [1n, 2n, 3n]);
        assert.equal(await count("SELECT count(*) FROM metric WHERE name = 'm1'"), 1);
        assert.deepEqual(await same((d) => d.sql('SELECT r.attributes, r.service_name, c.name FROM' +
            ' metric m JOIN scope c ON c.id = m.scope_id JOIN resource r ON r.id = c.resource_id' +
            " WHERE m.name = 'm1'")), [{ attributes: '{}', service_name: '', name: '' }]);
    });

test('M-2 M-4 M-15 attribute order makes no second resource; types do', TIMEOUT, async () => {
    const make = (attributes) => ({ resourceMetrics: [{ resource: { attributes },
        scopeMetrics: [{ metrics: [gauge('m2', point(1n))] }] }] });
    const a = attrs({ m2: 1n, b: { x: 1n, y: 2n }, c: ['p', 'q'] });
    const shuffled = [a[2], { key: 'b', value: { kvlistValue: { values:
        [...a[1].value.kvlistValue.values].reverse() } } }, a[0]];
    const distinct = "SELECT count(*) FROM resource WHERE attributes LIKE '%\"m2\"%'";

    await both(make(a));
    await both(make(shuffled));
    assert.equal(await count(distinct), 1);
    await both(make(attrs({ m2: 1.0, b: { x: 1n, y: 2n }, c: ['p', 'q'] })));
    await both(make(attrs({ m2: '1', b: { x: 1n, y: 2n }, c: ['p', 'q'] })));
    await both(make(attrs({ m2: 1n, b: { x: 1n, y: 2n }, c: ['q', 'p'] })));
    assert.equal(await count(distinct), 4);
    /* Schema URL and dropped count are not identity; the latest is kept. */
    const more = make(a);

    more.resourceMetrics[0].schemaUrl = 'https://new';
    more.resourceMetrics[0].resource.droppedAttributesCount = 9;
    await both(more);
    assert.equal(await count(distinct), 4);
    assert.equal(await count("SELECT count(*) FROM resource WHERE schema_url = 'https://new'" +
        ' AND dropped_attributes_count = 9'), 1);
});

test('M-3 a scope is name, version, schema URL and attributes', TIMEOUT, async () => {
    const make = (scope, schemaUrl) => ({ resourceMetrics: [{ scopeMetrics: [
        { scope, schemaUrl, metrics: [gauge('m3', point(1n))] }] }] });

    for (const [scope, url] of [[{ name: 'm3' }], [{ name: 'm3', version: '1' }], [{ name: 'm3' }, 'https://s'],
        [{ name: 'm3', attributes: attrs({ a: 1n }) }]]) {
        await both(make(scope, url));
        await both(make({ ...scope, droppedAttributesCount: 2 }, url));
    }
    assert.equal(await count("SELECT count(*) FROM scope WHERE name = 'm3'"), 4);
    assert.equal((await values('m3')).length, 8);
});

test('M-5 a broken entity reference is dropped with a warning, the points stay', TIMEOUT, async () => {
    const make = (ref) => ({ resourceMetrics: [{ resource: { attributes: attrs({ m5: 'x' }),
        entityRefs: [ref] }, scopeMetrics: [{ metrics: [gauge('m5', point(1n))] }] }] });

    assert.equal(await both(make({ type: 'host', idKeys: ['m5'] })), null);
    for (const ref of [{ type: '', idKeys: ['m5'] }, { type: 'host' }, { type: 'host', idKeys: ['no'] }]) {
        const p = await both(make(ref));

        assert.equal(p.rejected, 0);
        assert.match(p.message, /entity/);
    }
    assert.equal((await values('m5')).length, 4);
});

test('M-7 M-8 duplicate keys: the last wins; an empty key is dropped; both with a warning', TIMEOUT,
    async () => {
        const p = await both(request([gauge('m7',
            point(1n, {}, { attributes: [...attrs({ a: 1n }), ...attrs({ a: 2n, b: 3n })] }),
            point(2n, {}, { attributes: [...attrs({ '': 'x', c: 1n })] }))]));

        assert.equal(p.rejected, 0);
        assert.match(p.message, /twice/);
        assert.match(p.message, /empty key/);
        assert.deepEqual(await same(async (d) => (await numbers(d.dir, 'm7')).map((r) => r.attributes)),
            ['{"a":2,"b":3}', '{"c":1}']);
    });

test('M-9 M-10 names, units and values keep NUL and every character', TIMEOUT, async () => {
    const name = 'm9.é\u0000ü😀';

    assert.equal(await both(request([{ ...gauge(name, point(1n, { 'k\u0000': 'v\u0000w' })),
        unit: 'µ\u0000s', description: '\u0000' }])), null);
    assert.deepEqual(await same((d) => d.sql('SELECT hex(m.name) n, hex(m.unit) u, length(' +
        "CAST(m.description AS BLOB)) d, s.attributes a FROM metric m JOIN series s ON s.metric_id = m.id" +
        " WHERE hex(m.name) LIKE '6D392E%'")), [{ n: Buffer.from(name).toString('hex').toUpperCase(),
        u: 'C2B50073', d: 1, a: '{"k\\u0000":"v\\u0000w"}' }]);
});

test('M-9 M-20 a name that is not UTF-8, or empty, costs its points', TIMEOUT, async () => {
    const r = await proto.postProto(encode(request([
        { $raw: Buffer.from('0a026dff', 'hex'), gauge: { dataPoints: [point(1n), point(2n)] } },
        gauge('m20', point(3n)), { gauge: { dataPoints: [point(4n)] } }])));

    assert.equal(r.status, 200);
    assert.equal(readPartial(r).rejected, 3);
    assert.deepEqual((await numbers(proto.dir, 'm20')).map((x) => x.value), ['3']);
    const p = await both(request([gauge('', point(1n)), gauge('m20b', point(2n))]));

    assert.equal(p.rejected, 1);
    assert.deepEqual(await values('m20b'), [2n]);
});

test('M-11 M-13 M-17 every kind of attribute value is kept, and told apart', TIMEOUT, async () => {
    const all = { s: 'x', e: '', b: false, i: 0n, imin: -(2n ** 63n), imax: MAX, d: 0.5, whole: 1, nz: -0,
        nan: NaN, inf: -Infinity, y: Buffer.from([0, 255]), none: null, list: [], mixed: [1n, 'a', [true],
            null, { z: 1.5 }], map: { b: 1n, a: { c: 'd' } }, nomap: {} };

    assert.equal(await both(request([gauge('m11', point(1n, all))])), null);
    const [row] = await same((d) => numbers(d.dir, 'm11'));

    assert.equal(row.attributes, '{"b":false,"d":0.5,"e":"","i":0,"imax":9223372036854775807,' +
        '"imin":-9223372036854775808,"inf":"-Infinity","list":[],"map":{"a":{"c":"d"},"b":1},' +
        '"mixed":[1,"a",[true],null,{"z":1.5}],"nan":"NaN","nomap":{},"none":null,"nz":-0.0,"s":"x",' +
        '"whole":1.0,"y":"AP8="}');
    await same((d) => dump(d.dir, "m.name = 'm11'"));
});

test('M-15 int, double, string, bool, bytes and empty of one text are different series', TIMEOUT,
    async () => {
        const kinds = [1n, 1, '1', true, Buffer.from('1'), null, [1n], [1], { 1: 1n }, ''];

        await both(request([gauge('m15', ...kinds.map((v) => point(1n, { k: v })))]));
        assert.equal(await seriesOf('m15'), kinds.length);
        await both(request([gauge('m15', point(2n, { a: { y: 1n, x: [1n, 2n] }, b: 1n }),
            point(3n, { b: 1n, a: { x: [1n, 2n], y: 1n } }), point(4n, { b: 1n, a: { x: [2n, 1n], y: 1n } }))]));
        assert.equal(await seriesOf('m15'), kinds.length + 2);
    });

test('M-14 string-table references mean nothing here: dropped with a warning', TIMEOUT, async () => {
    const p = await both(request([gauge('m14', point(1n, {}, { attributes: [
        { keyStrindex: 3, value: { stringValue: 'x' } },
        { key: 'k', value: { stringValueStrindex: 4 } }] }))]));

    assert.equal(p.rejected, 0);
    assert.match(p.message, /Strindex/);
    assert.deepEqual(await same(async (d) => (await numbers(d.dir, 'm14')).map((r) => r.attributes)),
        ['{"k":null}']);
});

test('M-21 M-22 one name with other unit, type or temporality is another metric, with a warning',
    TIMEOUT, async () => {
        assert.equal(await both(request([{ ...gauge('m21', point(1n)), unit: 's' }])), null);
        for (const m of [{ ...gauge('m21', point(1n)), unit: 'ms' }, sum('m21', {}, point(1n)),
            sum('m21', { aggregationTemporality: 1 }, point(1n)),
            sum('m21', { isMonotonic: false }, point(1n)), histogram('m21', hpoint([1], []))]) {
            const p = await both(request([m]));

            assert.equal(p.rejected, 0);
            assert.match(p.message, /m21/);
        }
        assert.equal(await count("SELECT count(*) FROM metric WHERE name = 'm21'"), 6);
    });

test('M-23 M-25 description and metadata do not split a metric', TIMEOUT, async () => {
    await both(request([{ ...gauge('m23', point(1n)), description: 'short' }]));
    await both(request([{ ...gauge('m23', point(2n)), description: 'a longer one',
        metadata: attrs({ 'prometheus.type': 'info' }) }]));
    assert.deepEqual(await same((d) => d.sql("SELECT description, metadata FROM metric WHERE name = 'm23'")),
        [{ description: 'a longer one', metadata: '{"prometheus.type":"info"}' }]);
    assert.equal(await seriesOf('m23'), 1);
});

test('M-26 a metric without data of a known kind is skipped and counted', TIMEOUT, async () => {
    const counted = () => same((d) => d.metric('otlite_warnings_total', 'kind="no_data"'));
    const before = (await counted()) || 0;

    /* No point was refused, so the sender is not told (S13). */
    assert.equal(await both(request([{ name: 'm26', unit: 's' }, gauge('m26b', point(1n))])), null);
    assert.equal(await counted(), before + 1);
    assert.equal(await count("SELECT count(*) FROM metric WHERE name = 'm26'"), 0);
    assert.deepEqual(await values('m26b'), [1n]);
});

test('M-27 of two kinds of data on the wire the last wins', TIMEOUT, async () => {
    const one = { name: 'm27', gauge: { dataPoints: [point(1n)] },
        sum: { aggregationTemporality: 2, dataPoints: [point(2n)] } };

    await both(request([one]));
    assert.deepEqual(await values('m27'), [2n]);
    assert.equal(await count("SELECT type = 'sum' FROM metric WHERE name = 'm27'"), 1);
});

test('M-30 M-31 M-32 times: zero, past 2262 and more than a day ahead are rejected', TIMEOUT,
    async () => {
        const day = 86400000000000n;
        const at = (t) => point(1n, {}, { timeUnixNano: t.toString() });
        const present = BigInt(Date.now()) * 1000000n;
        const p = await both(request([gauge('m30', at(0n), at(2n ** 63n), at(2n ** 64n - 1n),
            at(present + 2n * day), at(1n), at(present + day - 60000000000n))]));

        assert.equal(p.rejected, 4);
        assert.equal((await values('m30')).length, 2);
        assert.equal(await json.metric('otlite_points_rejected_total', 'reason="time_zero"'), 1);
        assert.equal(await json.metric('otlite_points_rejected_total', 'reason="time_future"'), 1);
        assert.equal(await json.metric('otlite_points_rejected_total', 'reason="time_range"'), 2);
    });

test('M-33 M-35 start times: kept to the nanosecond; one after the point is unknown, with a warning',
    TIMEOUT, async () => {
        const t = now();
        const at = (start, attributes) => point(1n, attributes, { timeUnixNano: t,
            startTimeUnixNano: start });
        const p = await both(request([sum('m33', {}, at('0', { n: 1n }), at(t, { n: 2n }),
            at((BigInt(t) - 1n).toString(), { n: 3n }), at((BigInt(t) + 1n).toString(), { n: 4n }))]));

        assert.equal(p.rejected, 0);
        assert.match(p.message, /start time/);
        assert.deepEqual(await same(async (d) => (await numbers(d.dir, 'm33')).map((r) => [r.time, r.start])),
            [[t, '0'], [t, t], [t, (BigInt(t) - 1n).toString()], [t, '0']]);
    });

test('M-34 the no-recorded-value flag makes a point without a value', TIMEOUT, async () => {
    assert.equal(await both(request([gauge('m34', point(undefined, { a: 1n }, { flags: 1 }),
        point(5, { a: 1n }, { flags: 3 }), point(7n, { a: 1n }, { flags: 6 })),
    histogram('m34.h', { timeUnixNano: now(), flags: 1 })])), null);
    assert.deepEqual(await same(async (d) => (await numbers(d.dir, 'm34')).map((r) => [r.value, r.flags])),
        [['NULL', 1], ['NULL', 3], ['7', 6]]);
    assert.deepEqual(await same(async (d) => (await points(d.dir, 'histogram_point', 'm34.h'))
        .map((r) => [r.flags, r.sum, r.count])), [[1, 'NULL', '0']]);
    assert.deepEqual(await same((d) => d.sql("SELECT value FROM points WHERE metric = 'm34' ORDER BY time")),
        [{ value: null }, { value: null }, { value: 7 }]);
});

test('M-36 exemplars: kept whole; one without a value or with a bad id costs only itself', TIMEOUT,
    async () => {
        const ex = (more) => ({ timeUnixNano: '5', asInt: '1', ...more });
        const p = await both(request([sum('m36', {}, point(1n, {}, { exemplars: [
            ex({ traceId: '0102030405060708090a0b0c0d0e0f10', spanId: '0102030405060708',
                filteredAttributes: attrs({ f: [1n] }) }),
            ex({ asInt: undefined, asDouble: 'NaN' }),
            ex({ traceId: '00000000000000000000000000000000', spanId: '0000000000000000' }),
            { timeUnixNano: '6' }, ex({ timeUnixNano: '7', traceId: '0102' })] }))]));

        assert.equal(p.rejected, 0);
        assert.match(p.message, /exemplar/);
        const all = await same((d) => dump(d.dir, "m.name = 'm36'"));
        const rows = all['exemplars of number_point'].map((x) => JSON.parse(x));

        assert.deepEqual(rows.map((r) => [r.value, r.trace_id, r.span_id, r.filtered]).sort(), [
            ['1', '', '', '{}'], ['1', '', '', '{}'],
            ['1', '0102030405060708090A0B0C0D0E0F10', '0102030405060708', '{"f":[1]}'],
            ["X'7FF8000000000000'", '', '', '{}']].sort());
    });

test('M-37 duplicates inside one request: equal ones merge, of different ones the later wins', TIMEOUT,
    async () => {
        const p = point(1n);

        await both(request([gauge('m37', p, { ...p }, { ...p })]));
        assert.deepEqual(await values('m37'), [1n]);
        const q = point(1n);

        await both(request([gauge('m37b', q, { ...q, asInt: '2' })]));
        assert.deepEqual(await values('m37b'), [2n]);
    });

test('M-40 temporality other than delta and cumulative rejects the points', TIMEOUT, async () => {
    const h = hpoint([1], []);
    const p = await both(request([
        sum('m40', { aggregationTemporality: 0 }, point(1n), point(2n)),
        sum('m40', { aggregationTemporality: 3 }, point(3n)),
        { name: 'm40', histogram: { dataPoints: [h] } },
        { name: 'm40', exponentialHistogram: { dataPoints: [epoint({})], aggregationTemporality: 7 } },
        sum('m40', { aggregationTemporality: 1 }, point(4n))]));

    assert.equal(p.rejected, 5);
    assert.match(p.message, /aggregationTemporality/);
    assert.deepEqual(await values('m40'), [4n]);
});

test('M-41 M-42 M-43 values: exact integers, special doubles, and none is not 0', TIMEOUT, async () => {
    const list = [-(2n ** 63n), MAX, 2n ** 53n + 1n, 0n, -1n, 0, -0, NaN, Infinity, -Infinity, 5e-324,
        1.7976931348623157e308, 0.1, 2 ** 53, 1];
    const p = await both(request([gauge('m41', ...list.map((v) => point(v)), point(undefined))]));

    assert.equal(p.rejected, 1);
    assert.deepEqual(await values('m41'), list);
    assert.deepEqual(await same(async (d) => (await numbers(d.dir, 'm41')).slice(3, 8).map((r) => r.kind)),
        ['integer', 'integer', 'real', 'real', 'blob']);
});

test('M-45 H-92 delta points with one time and different starts are different points', TIMEOUT,
    async () => {
        const t = now();
        const mk = (start, v) => point(v, {}, { timeUnixNano: t, startTimeUnixNano: start });

        await both(request([sum('m45', { aggregationTemporality: 1 }, mk('10', 1n), mk('20', 2n))]));
        await both(request([sum('m45', { aggregationTemporality: 1 }, mk('10', 1n))]));
        assert.deepEqual((await values('m45')).sort(), [1n, 2n]);
    });

test('M-50 M-51 shapes of histograms that are stored, and that are rejected', TIMEOUT, async () => {
    const good = [hpoint([], [], { count: '3', sum: 21 }), hpoint([3], []), hpoint([1, 2], [5]),
        hpoint([0, 0], [0]), hpoint([1, 2, 0], [1, 'Infinity']), hpoint([1, 1, 1], ['-Infinity', 0])];
    const bad = [hpoint([], [1, 2], { count: '1' }), hpoint([1, 1, 1], [1, 2, 3]),
        hpoint([1, 1, 1, 1], [1, 2]), hpoint([1, 1, 1], [2, 1]), hpoint([1, 1, 1], [1, 1]),
        hpoint([1, 1], ['NaN'])];
    const p = await both(request([histogram('m50', ...good, ...bad)]));

    assert.equal(p.rejected, bad.length);
    const rows = await rowsOf('histogram_point', 'm50');

    assert.equal(rows.length, good.length);
    assert.deepEqual(rows.map((r) => unquote(r.bucket_counts) || []),
        good.map((g) => g.bucketCounts.map(Number)));
    assert.deepEqual(rows.map((r) => (r.bounds === null ? [] : JSON.parse(r.bounds))),
        good.map((g) => g.explicitBounds.map(Number)));
    assert.deepEqual([rows[0].count, rows[0].sum], ['3', '21.0']);
});

test('M-52 counts that do not add up are stored with a warning, rejected when strict', TIMEOUT,
    async (t) => {
        const odd = request([histogram('m52', hpoint([1, 1], [1], { count: '9' }))]);
        const p = await both(odd);

        assert.equal(p.rejected, 0);
        assert.match(p.message, /add up/);
        assert.equal((await rowsOf('histogram_point', 'm52')).length, 1);
        const strict = await Otlite.start({ set: { 'otlp.strict_counts': 'true' } });

        t.after(() => strict.stop());
        assert.equal(readPartial(await strict.postJson(odd)).rejected, 1);
    });

test('M-54 sum, min and max: absent is not zero', TIMEOUT, async () => {
    assert.equal(await both(request([histogram('m54', hpoint([1], []), hpoint([1], [], { sum: 0 }),
        hpoint([1], [], { sum: 'Infinity', min: -4, max: 9 }), hpoint([1], [], { sum: 'NaN' }))])), null);
    const rows = await rowsOf('histogram_point', 'm54');

    assert.deepEqual(rows.map((r) => [r.sum, r.min, r.max].map(unquote)),
        [[null, null, null], [0, null, null], [Infinity, -4, 9], [NaN, null, null]]);
    const p = await both(request([histogram('m54b', hpoint([0], [], { sum: 1 }),
        hpoint([1], [], { min: 2, max: 1 }))]));

    assert.equal(p.rejected, 0);
    assert.match(p.message, /sum/);
    assert.match(p.message, /min/);
});

test('M-55 bounds may change within one series', TIMEOUT, async () => {
    await both(request([histogram('m55', hpoint([1, 1], [1]), hpoint([1, 1, 1], [1, 2]), hpoint([1, 1], [1]))]));
    const rows = await rowsOf('histogram_point', 'm55');

    assert.deepEqual(rows.map((r) => JSON.parse(r.bounds)), [[1], [1, 2], [1]]);
    assert.equal(await seriesOf('m55'), 1);
});

test('M-56 counts above 2^63-1 are rejected', TIMEOUT, async () => {
    const big = (2n ** 63n).toString();
    const p = await both(request([histogram('m56', hpoint([], [], { count: big }),
        { ...hpoint([1], []), bucketCounts: [big] },
        { ...hpoint([1, 1], [1]), bucketCounts: [MAX.toString(), MAX.toString()] },
        hpoint([], [], { count: MAX.toString() }))]));

    assert.equal(p.rejected, 3);
    assert.deepEqual((await rowsOf('histogram_point', 'm56')).map((r) => r.count), [MAX.toString()]);
});

test('M-60 M-62 M-63 M-64 exponential histograms: what a double cannot express is rejected', TIMEOUT,
    async () => {
        const one = (scale, offset, n = 1) => epoint({ scale, count: String(n),
            positive: { offset, bucketCounts: new Array(n).fill('1') } });
        const good = [one(0, 1023), one(0, -1074), one(20, 2434718), one(-10, 0), one(-11, -1), one(-11, 0),
            one(-2147483648, 0), one(2147483647, 0), epoint({ scale: -2147483648 }),
            epoint({ scale: 2147483647, zeroCount: '1', count: '1' })];
        const bad = [one(0, 1024), one(0, -1076), one(-11, 1), one(-11, -2), one(0, 2147483647),
            one(20, 2147483647, 2), one(-2147483648, 1), one(-2147483648, -2)];
        const p = await both(request([exponential('m62', ...good), exponential('m62bad', ...bad)]));

        assert.equal(p.rejected, bad.length, p.message);
        assert.deepEqual((await rowsOf('exponential_histogram_point', 'm62')).map((r) => Number(r.scale)),
            good.map((g) => g.scale));
        assert.equal((await rowsOf('exponential_histogram_point', 'm62bad')).length, 0);
    });

test('M-61 M-65 M-66 zero threshold, absent buckets and counts that do not add up', TIMEOUT,
    async () => {
        const p = await both(request([exponential('m65',
            epoint({ count: '6', zeroCount: '1', zeroThreshold: 0.5, sum: -3, min: -9, max: 2,
                positive: { offset: -3, bucketCounts: ['2'] },
                negative: { offset: 3, bucketCounts: ['0', '3'] } }),
            epoint({ zeroThreshold: -1 }), epoint({ zeroThreshold: 'NaN' }))]));

        assert.equal(p.rejected, 2);
        const [row] = await rowsOf('exponential_histogram_point', 'm65');

        assert.deepEqual([row.count, row.zero_count, row.zero_threshold, row.sum, row.min, row.max],
            ['6', '1', '0.5', '-3.0', '-9.0', '2.0']);
        const at = (offset, counts) => unquote(counts).map((n, i) => [Number(offset) + i, n])
            .filter((x) => x[1] > 0);

        assert.deepEqual(at(row.positive_offset, row.positive_counts), [[-3, 2]]);
        assert.deepEqual(at(row.negative_offset, row.negative_counts), [[4, 3]]);
        const q = await both(request([exponential('m61', epoint({ count: '5', zeroCount: '1' }))]));

        assert.equal(q.rejected, 0);
        assert.match(q.message, /add up/);
        const [bare] = await rowsOf('exponential_histogram_point', 'm61');

        assert.deepEqual([bare.sum, bare.min, bare.max], ['NULL', 'NULL', 'NULL']);
    });

test('M-70 M-71 summaries: quantiles sorted, out of range or equal ones rejected', TIMEOUT, async () => {
    const q = (...pairs) => ({ timeUnixNano: now(), count: '4', sum: 2.5, quantileValues:
        pairs.map(([quantile, value]) => ({ quantile, value })) });
    const p = await both(request([summary('m70', q(), q([0.5, 1], [0, 0.5], [1, 'NaN']), q([0.5, -1])),
        summary('m70bad', q([1.5, 1]), q([-0.1, 1]), q(['NaN', 1]), q([0.5, 1], [0.5, 2]))]));

    assert.equal(p.rejected, 4);
    assert.match(p.message, /negative/);
    const rows = await rowsOf('summary_point', 'm70');

    assert.deepEqual(rows.map((r) => unquote(r.quantiles)),
        [[], [[0, 0.5], [0.5, 1], [1, NaN]], [[0.5, -1]]]);
    assert.deepEqual([rows[0].count, rows[0].sum], ['4', '2.5']);
});

test('every point is accounted for: received = stored + merged + replaced + rejected', TIMEOUT,
    async () => {
        for (const d of [json, proto]) {
            const m = async (n) => (await d.metric(`otlite_points_${n}_total`)) || 0;
            const text = (await d.get('/metrics')).text;
            let rejected = 0;

            for (const [, n] of text.matchAll(/^otlite_points_rejected_total\{[^}]*\} (\d+)$/gm))
                rejected += Number(n);
            assert.equal(await m('received'), await m('stored') + await m('merged') +
                await m('replaced') + rejected);
            assert.equal(await m('stored'), await d.one('SELECT (SELECT count(*) FROM number_point)' +
                ' + (SELECT count(*) FROM histogram_point) + (SELECT count(*) FROM' +
                ' exponential_histogram_point) + (SELECT count(*) FROM summary_point)'));
        }
    });

test('both databases hold the same, row by row', TIMEOUT, async () => {
    /* m20 went to one of them only. */
    await same((d) => dump(d.dir, "m.name NOT IN ('m20')"));
});
