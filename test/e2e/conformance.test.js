'use strict';
/* Keeps docs/conformance.md honest: every test that it names exists, every rule has a row, every
 * default that it gives is that of docs/configuration.md. Then the rules and test vectors that have no
 * better place. */
const test = require('node:test');
const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const zlib = require('node:zlib');
const { dump, numbers, points } = require('./lib/dump');
const { Otlite, REPO, SHARED, SLOW, Shell, cliOk, tempDir } = require('./lib/otlite');
const { attrs, encode, exponential, gauge, histogram, now, point, readPartial, readStatus, request, sum,
    summary } = require('./lib/otlp');
const { Raw, chunked, exchange, request: bytes } = require('./lib/raw');

const TIMEOUT = { timeout: 90000 * SLOW };
const PAGE = fs.readFileSync(path.join(REPO, 'docs', 'conformance.md'), 'utf8');
const RULES = path.join(process.env.OTLITE_SHARED || SHARED, 'otlp.md');
const JSON_TYPE = { 'Content-Type': 'application/json' };

/* --- the page --- */

/* The rows of the page's rule tables: [{id, level, text, tests: [{file, name}]}]. */
function rows() {
    const out = [];

    for (const line of PAGE.slice(0, PAGE.indexOf('\n## Deviations')).split('\n')) {
        const m = /^\| ([HJM]-\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$/.exec(line);

        if (!m) {
            assert.doesNotMatch(line, /^\| ?[HJM]-\d/, 'a rule\'s row has four cells');
            continue;
        }
        out.push({ id: m[1], level: m[2].trim(), text: m[3].trim(), tests: named(m[4]), cell: m[4].trim() });
    }
    return out;
}

/* Tests are code spans: `FILE: NAME`. */
function named(text) {
    return [...text.matchAll(/`(test_\w+\.c|[\w-]+\.test\.js): ([^`]+)`/g)]
        .map((m) => ({ file: m[1], name: m[2].replace(/\s+/g, ' ') }));
}

/* Names of the tests in a file: those that its main() runs, or those given to test() and the like;
 * what a template literal fills in stands for anything. */
const known = new Map();

function testsOf(file) {
    if (known.has(file))
        return known.get(file);
    const c = file.endsWith('.c');
    const full = path.join(REPO, 'test', c ? 'unit' : 'e2e', file);
    const source = fs.existsSync(full) ? fs.readFileSync(full, 'utf8') : '';
    const list = [];

    if (c) {
        for (const m of source.matchAll(/^\s+(?:TEST|CASE|T|cmocka_unit_test\w*)\((\w+)/gm))
            list.push(new RegExp(`^${m[1]}$`));
    } else {
        for (const m of source.matchAll(/\b(?:test|scenario)\(\s*(['"`])((?:\\.|(?!\1).)*)\1/g)) {
            const text = m[1] === '`' ? m[2] : m[2].replace(/\\(.)/g, '$1');
            const parts = m[1] === '`' ? text.split(/\$\{[^}]*\}/) : [text];

            list.push(new RegExp(`^${parts.map((s) => s.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
                .join('.+')}$`));
        }
    }
    known.set(file, list);
    return list;
}

test('the page: every test that it names exists', () => {
    const all = named(PAGE);
    const missing = all.filter((t) => !testsOf(t.file).some((re) => re.test(t.name)))
        .map((t) => `${t.file}: ${t.name}`);

    assert.ok(all.length > 100, `${all.length} tests are named`);
    assert.deepEqual([...new Set(missing)], []);
});

test('the page: every row has a test or says why not', () => {
    const list = rows();
    const ids = list.map((r) => r.id);
    const deviations = PAGE.slice(PAGE.indexOf('\n## Deviations'));

    assert.deepEqual(ids.filter((id, i) => ids.indexOf(id) !== i), [], 'one row a rule');
    for (const r of list)
        assert.ok(r.tests.length > 0 || /^none: .{10}/.test(r.cell) ||
            new RegExp(`\\b${r.id}\\b`).test(deviations), `${r.id}: ${r.cell}`);
});

test('the page: every rule of chapters 1 to 3 has a row with its level',
    { skip: fs.existsSync(RULES) ? false : `${RULES} is not here` }, () => {
        const text = fs.readFileSync(RULES, 'utf8');
        const chapters = text.slice(text.indexOf('\n# 1. '), text.indexOf('\n# 4. '));
        const want = [...chapters.matchAll(/^- \*\*([HJM]-\d+) ([^*]+)\*\*/gm)].map((m) => `${m[1]} ${m[2]}`);

        assert.ok(want.length > 150, `${want.length} rules`);
        assert.deepEqual(rows().map((r) => `${r.id} ${r.level}`).sort(), want.sort());
    });

/* docs/configuration.md is printed by the daemon's own table (test_config.c). */
test('the page: settings and defaults are those of docs/configuration.md', () => {
    const text = fs.readFileSync(path.join(REPO, 'docs', 'configuration.md'), 'utf8');
    const settings = new Map([...text.matchAll(/^\| `([a-z._]+)` \| `?([^|`]*)`? \|/gm)]
        .map((m) => [m[1], m[2]]));
    const span = /`((?:http|otlp|queue|cors|sqlite)\.[a-z_]+)(?: = ([^`]+))?`/g;
    let defaults = 0;

    for (const [, key, value] of PAGE.matchAll(span)) {
        assert.ok(settings.has(key), `${key} is a setting`);
        if (value !== undefined) {
            assert.equal(settings.get(key), value, key);
            defaults++;
        }
    }
    assert.ok(defaults > 10, `${defaults} defaults are given`);
});

/* --- chapter 1 --- */

async function start(t, set = {}, more = {}) {
    const d = await Otlite.start({ set, ...more });

    t.after(() => d.stop());
    return d;
}

test('H-7 the push path of another receiver is 404 until it is listed', TIMEOUT, async (t) => {
    const push = '/opentelemetry/api/v1/push';
    const d = await start(t);
    const listed = await start(t, { 'http.paths': `/v1/metrics,${push}` });

    assert.equal((await d.postJson('{}', {}, { path: push })).status, 404);
    assert.equal((await listed.postJson('{}', {}, { path: push })).status, 200);
});

test('H-31 H-34 H-54 H-77 what is no request gets a Status in its encoding, and the end of the connection',
    TIMEOUT, async (t) => {
        const d = await start(t, { 'http.max_body': '64K' });

        for (const type of ['application/json', 'application/x-protobuf']) {
            const post = (headers, body) =>
                bytes('POST', '/v1/metrics', { 'Content-Type': type, ...headers }, body);

            for (const [what, status, data] of [
                ['a head over the limit', 431, post({ 'X-Pad': 'a'.repeat(17000), 'Content-Length': 2 }, '{}')],
                ['a head without end', 431, post({ 'X-Pad': 'a'.repeat(17000) }).subarray(0, -2)],
                ['a length with chunked', 400, post({ 'Content-Length': 4, 'Transfer-Encoding': 'chunked' },
                    chunked('{}'))],
                ['a folded line', 400, post({ 'X-A': 'b\r\n c', 'Content-Length': 2 }, '{}')],
                ['a bare LF', 400, post({ 'X-A': 'b\nX-C: d', 'Content-Length': 2 }, '{}')],
                ['NUL in a value', 400, post({ 'X-A': 'b\0c', 'Content-Length': 2 }, '{}')],
                ['no Host', 400, `POST /v1/metrics HTTP/1.1\r\nContent-Type: ${type}\r\n\r\n`],
                ['two hosts', 400, post({ 'Host': 'other', 'Content-Length': 2 }, '{}')],
                ['another Expect', 417, post({ Expect: 'x', 'Content-Length': 2 }, '{}')],
                ['far over the body limit', 413, post({ 'Content-Length': 4 << 20 })],
                ['a chunk over the body limit', 413, post({ 'Transfer-Encoding': 'chunked' }, '10001\r\n')],
                ['a bad chunk', 400, post({ 'Transfer-Encoding': 'chunked' }, '2 \r\n{}\r\n0\r\n\r\n')]]) {
                const all = await exchange(d.port, data);

                assert.deepEqual(all.map((r) => r.status), [status], what);
                assert.equal(all[0].headers['content-type'], type, what);
                assert.equal(all[0].headers.connection, 'close', what);
                assert.ok(readStatus(all[0]).message.length > 10, what);
            }
        }
        for (const [what, data] of [['no request line', 'NONSENSE\r\n\r\n'], ['TLS', '\x16\x03\x01\x02'],
            ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'], ['a bare LF', 'GET / HTTP/1.1\n\n']]) {
            const all = await exchange(d.port, Buffer.from(data, 'latin1'));

            assert.deepEqual(all.map((r) => r.status), [400], what);
            assert.equal(all[0].headers['content-type'], 'application/json', what);
            assert.ok(readStatus(all[0]).message.length > 10, what);
        }
        assert.equal((await d.postJson('{}')).status, 200);
    });

test('L-3 an absolute request target is served by its path', TIMEOUT, async (t) => {
    const d = await start(t);
    const target = `http://127.0.0.1:${d.port}`;
    const post = (path, close) => bytes('POST', `${target}${path}`,
        { ...JSON_TYPE, ...(close ? { Connection: 'close' } : {}), 'Content-Length': 2 }, '{}');
    const all = await exchange(d.port,
        Buffer.concat([post('/v1/metrics'), post('/v1/metrics?x=1'), post(''), post('/v1/metrics', true)]));

    assert.deepEqual(all.map((r) => r.status), [200, 200, 404, 200]);
});

test('vector 5: every status that otlite gives, in both encodings, has a body that decodes', TIMEOUT,
    async (t) => {
        const dir = tempDir();
        const token = async (scope) =>
            (await cliOk(['token', 'create', '--data', dir, '--scope', scope])).trim();
        const write = { authorization: `Bearer ${await token('write')}` };
        const read = { authorization: `Bearer ${await token('read')}` };
        const d = await start(t, { 'http.max_body': '64K', 'queue.max_age': '100ms' }, { dir, ready: false });
        const one = request([gauge('vector.5', point(1))]);

        for (const [type, good, bad] of [['application/json', JSON.stringify(one), '['],
            ['application/x-protobuf', encode(one), Buffer.from('0a7f01', 'hex')]]) {
            const send = (body, headers, opts) => d.post(body, { 'content-type': type, ...headers }, opts);
            const check = (r, status, code) => {
                assert.equal(r.status, status, `${type} ${status}: ${r.text}`);
                assert.equal(r.type, type, `${type} ${status}`);
                const s = readStatus(r);

                assert.equal(s.code, code, `${type} ${status}`);
                assert.ok(s.message.length > 10, `${type} ${status}: ${s.message}`);
            };

            assert.equal((await send(good, write)).status, 200);
            check(await send(bad, write), 400, 3);
            check(await send(good, {}), 401, 16);
            check(await send(good, read), 403, 7);
            check(await send(good, write, { path: '/v1/logs' }), 404, 5);
            check(await d.request('PUT', '/v1/metrics', { headers: { 'content-type': type, ...write } }),
                405, 12);
            check(await send(Buffer.alloc((64 << 10) + 1, 0x20), write), 413, 8);
            check(await send(zlib.gzipSync(Buffer.alloc((64 << 10) + 1, 0x20)),
                { 'content-encoding': 'gzip', ...write }), 413, 8);
            check(await send(good, { 'content-encoding': 'br', ...write }), 415, 3);
            const [te] = await exchange(d.port, bytes('POST', '/v1/metrics', { 'Content-Type': type,
                'Transfer-Encoding': 'gzip, chunked', ...write }, chunked('{}')));

            check(Object.assign(te, { type: te.headers['content-type'] }), 501, 12);
            const shell = new Shell(path.join(dir, 'telemetry.db'));

            await shell.run('BEGIN IMMEDIATE;');
            check(await send(good, write), 503, 14);
            await shell.run('ROLLBACK;');
            await shell.end();
        }
        const untyped = await d.post('{}', { 'content-type': 'text/plain', ...write });

        assert.equal(untyped.status, 415);
        assert.equal(readStatus(untyped).code, 3);
    });

/* --- chapter 2 --- */

const inMetric = (name, rest) =>
    `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"${name}",${rest}}]}]}]}`;
const at = (rest) => `{"timeUnixNano":"${now()}",${rest}}`;
const inHistogram = (name, list) =>
    inMetric(name, `"histogram":{"aggregationTemporality":2,"dataPoints":[${list.join()}]}`);
const inExponential = (name, list) =>
    inMetric(name, `"exponentialHistogram":{"aggregationTemporality":2,"dataPoints":[${list.join()}]}`);
const inGauge = (name, list) => inMetric(name, `"gauge":{"dataPoints":[${list.join()}]}`);

test('J-8 counts, buckets and times out of range cost the point', TIMEOUT, async (t) => {
    const d = await start(t);
    const r = await d.postJson(inHistogram('j8', [at('"count":"18446744073709551616"'), at('"count":-1'),
        at('"count":2,"bucketCounts":["1","1e30"],"explicitBounds":[1]'),
        '{"timeUnixNano":"18446744073709551616","count":1}', at('"count":5')]));

    assert.equal(readPartial(r).rejected, 4);
    assert.deepEqual((await points(d.dir, 'histogram_point', 'j8')).map((x) => x.count), ['5']);
});

test('J-12 null in an array value is the empty value, in a list of bounds it costs the point', TIMEOUT,
    async (t) => {
        const d = await start(t);
        const r = await d.postJson(inGauge('j12', [at('"asInt":1,"attributes":[{"key":"k","value":' +
            '{"arrayValue":{"values":[null,{"intValue":1},null]}}}]')]));

        assert.equal(r.text, '{}');
        assert.deepEqual((await numbers(d.dir, 'j12')).map((x) => x.attributes), ['{"k":[null,1,null]}']);
        assert.equal(readPartial(await d.postJson(inHistogram('j12h',
            [at('"count":2,"bucketCounts":[1,1],"explicitBounds":[null]')]))).rejected, 1);
        const w = readPartial(await d.postJson('{"resourceMetrics":[null,{"scopeMetrics":[null]}]}'));

        assert.equal(w.rejected, 0);
        assert.match(w.message, /null/);
    });

test('J-14 a wrong JSON type below a point costs the point alone', TIMEOUT, async (t) => {
    const d = await start(t);
    const r = await d.postJson(inGauge('j14', [
        at('"asInt":1,"attributes":[{"key":"k","value":{"stringValue":5}}]'),
        at('"asInt":1,"attributes":[{"key":5,"value":{"stringValue":"x"}}]'),
        at('"asInt":1,"attributes":[{"key":"k","value":{"boolValue":"true"}}]'),
        at('"asInt":true'), at('"asInt":7')]));

    assert.equal(readPartial(r).rejected, 4);
    assert.deepEqual((await numbers(d.dir, 'j14')).map((x) => x.value), ['7']);
});

test('J-23 scale and offset are checked with the point, dropped counts with the request', TIMEOUT,
    async (t) => {
        const d = await start(t);
        const r = await d.postJson(inExponential('j23', [at('"scale":2147483648'), at('"scale":-2147483649'),
            at('"positive":{"offset":2147483648}'), at('"scale":"-3"')]));

        assert.equal(readPartial(r).rejected, 3);
        assert.deepEqual((await points(d.dir, 'exponential_histogram_point', 'j23'))
            .map((x) => Number(x.scale)), [-3]);
        for (const n of ['-1', '4294967296', '1.5'])
            assert.equal((await d.postJson('{"resourceMetrics":[{"resource":' +
                `{"droppedAttributesCount":${n}}}]}`)).status, 400, n);
    });

/* --- chapter 3 --- */

/* Both ways, each to a daemon of its own; what was said, which must be the same. */
async function both(t) {
    const json = await start(t);
    const proto = await start(t);

    return {
        json,
        proto,
        async send(obj) {
            const a = await json.postJson(obj);
            const b = await proto.postProto(encode(obj));

            assert.deepEqual([a.status, b.status], [200, 200]);
            assert.deepEqual(readPartial(a), readPartial(b));
            return readPartial(a);
        },
        async same(fn) {
            const a = await fn(json);

            assert.deepEqual(await fn(proto), a);
            return a;
        },
    };
}

test('M-18 M-20 the default caps, and names that an SDK would not make', TIMEOUT, async (t) => {
    const d = await both(t);
    const many = (n) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`k${i}`, 1n]));
    const p = await d.send(request([gauge('m18', point(1n, many(256)), point(2n, many(257)),
        point(3n, { k: 'x'.repeat(64 << 10) })),
    gauge('n'.repeat(1024), point(4n)), gauge('n'.repeat(1025), point(5n)),
    gauge('1 odd/näme{}', point(6n))]));

    assert.equal(p.rejected, 3);
    assert.deepEqual(await d.same((x) => x.sql('SELECT p.value v FROM number_point p ORDER BY p.value')),
        [{ v: 1 }, { v: 4 }, { v: 6 }]);
});

test('M-24 units are stored as they come; "" and "1" are two', TIMEOUT, async (t) => {
    const d = await both(t);
    const units = ['', '1', 'ms', 'MS', '{request}/°', 'x'.repeat(100)];

    await d.send(request(units.map((unit) => ({ ...gauge('m24', point(1n)), unit }))));
    assert.deepEqual((await d.same((x) => x.sql("SELECT unit FROM metric WHERE name = 'm24' ORDER BY id")))
        .map((r) => r.unit), units);
});

test('M-44 falling counters and negative deltas are stored without a word', TIMEOUT, async (t) => {
    const d = await both(t);

    assert.equal(await d.send(request([sum('m44', {}, point(5n), point(3n)),
        sum('m44.delta', { aggregationTemporality: 1 }, point(-5n))])), null);
    assert.deepEqual(await d.same(async (x) => (await numbers(x.dir, 'm44')).map((r) => r.value)), ['5', '3']);
    assert.deepEqual(await d.same(async (x) => (await numbers(x.dir, 'm44.delta')).map((r) => r.value)),
        ['-5']);
});

test('vector 4: good and bad points of every kind in one request; a resend changes nothing', TIMEOUT,
    async (t) => {
        const d = await both(t);
        const h = (more) => ({ timeUnixNano: now(), count: '2', ...more });
        const obj = request([
            gauge('v4.gauge', point(1n, { n: 1n }), point(undefined, { n: 2n }), point(3n, { n: 3n })),
            sum('v4.sum', {}, point(0.5), point(1, {}, { timeUnixNano: '0' })),
            sum('v4.untimed', { aggregationTemporality: 0 }, point(1n), point(2n)),
            histogram('v4.histogram', h({ bucketCounts: ['1', '1'], explicitBounds: [1] }),
                h({ bucketCounts: ['1', '1'], explicitBounds: [1, 2] }), h({})),
            exponential('v4.exponential', h({ scale: 0, positive: { offset: 0, bucketCounts: ['2'] } }),
                h({ scale: 0, positive: { offset: 2000, bucketCounts: ['2'] } })),
            summary('v4.summary', h({ quantileValues: [{ quantile: 0.5, value: 1 }] }),
                h({ quantileValues: [{ quantile: 2, value: 1 }] })),
            gauge('', point(1n))]);
        const first = await d.send(obj);

        /* By hand: 1 without a value, 1 without a time, 2 without a temporality, 1 with too many bounds,
         * 1 beyond a double, 1 quantile, 1 without a name. */
        assert.equal(first.rejected, 8);
        const rows = await d.same((x) => dump(x.dir));

        assert.deepEqual(['number_point', 'histogram_point', 'exponential_histogram_point', 'summary_point']
            .map((table) => rows[table].length), [3, 2, 1, 1]);
        assert.deepEqual(await d.send(obj), first, 'the same answer');
        assert.deepEqual(await d.same((x) => dump(x.dir)), rows, 'the same rows');
        for (const x of [d.json, d.proto])
            assert.equal(await x.metric('otlite_points_merged_total'), 7);
    });

/* --- bombs --- */

function varint(n) {
    const out = [];

    do {
        out.push(n >= 128 ? (n % 128) | 128 : n);
        n = Math.floor(n / 128);
    } while (n > 0);
    return out;
}

/* An AnyValue of nested arrays (or maps) around the integer 1, on the wire: written from its end, since
 * a length is known once what it counts is there. */
function nestedProto(levels, maps) {
    const buf = Buffer.alloc(levels * 24 + 2);
    let start = buf.length;
    const put = (...bytes) => {
        start -= bytes.length;
        buf.set(bytes, start);
    };

    put(0x18, 1);
    for (let i = 0; i < levels; i++) {
        put(maps ? 0x12 : 0x0a, ...varint(buf.length - start));
        if (maps) {
            put(0x0a, 1, 0x6b);
            put(0x0a, ...varint(buf.length - start));
        }
        put(maps ? 0x32 : 0x2a, ...varint(buf.length - start));
    }
    return buf.subarray(start);
}

function nestedJson(levels, maps) {
    const open = maps ? '{"kvlistValue":{"values":[{"key":"k","value":' : '{"arrayValue":{"values":[';

    return open.repeat(levels) + '{"intValue":1}' + (maps ? '}]}}' : ']}}').repeat(levels);
}

test('vector 7: values nested 64, 65, 5,000 and 1,000,000 deep, as arrays and as maps', TIMEOUT,
    async (t) => {
        const d = await start(t);

        for (const [levels, status] of [[64, 200], [65, 400], [5000, 400], [1000000, 400]]) {
            for (const maps of [false, true]) {
                const value = nestedProto(levels, maps);
                const pair = Buffer.concat([
                    Buffer.from([0x0a, 1, 0x61, 0x12, ...varint(value.length)]), value]);
                const raw = Buffer.concat([Buffer.from([0x3a, ...varint(pair.length)]), pair]);
                const what = `${levels} ${maps ? 'maps' : 'arrays'}`;
                const p = await d.postProto(encode(request([gauge('v7.proto', { ...point(1n), $raw: raw })])));

                assert.equal(p.status, status, `protobuf, ${what}`);
                if (maps && levels === 1000000)
                    continue; /* the text of it is near the limit of the body */
                const j = await d.postJson(inGauge('v7.json',
                    [at(`"asInt":1,"attributes":[{"key":"a","value":${nestedJson(levels, maps)}}]`)]));

                assert.equal(j.status, status, `JSON, ${what}`);
            }
        }
        assert.equal((await numbers(d.dir, 'v7.proto')).length, 2);
        assert.equal((await numbers(d.dir, 'v7.json')).length, 2);
        assert.ok(d.alive);
    });
