'use strict';
/* Chapter 1 of the conformance rules (docs/conformance.md), rule by rule, with raw sockets where a
 * client library would be in the way. Limits, CORS and tokens: limits.test.js, cors.test.js,
 * auth.test.js. */
const test = require('node:test');
const assert = require('node:assert/strict');
const zlib = require('node:zlib');
const { numbers } = require('./lib/dump');
const { Otlite, SLOW } = require('./lib/otlite');
const { encode, fields, gauge, point, readPartial, readStatus, request } = require('./lib/otlp');
const { Raw, chunked, exchange, request: bytes } = require('./lib/raw');

const JSON_TYPE = { 'Content-Type': 'application/json' };
const PROTO_TYPE = { 'Content-Type': 'application/x-protobuf' };
const CLOSE = { Connection: 'close' };
const TIMEOUT = { timeout: 60000 * SLOW };

let d;
let serial = 0;

test.before(async () => {
    d = await Otlite.start({ set: { 'http.paths': '/v1/metrics,/api/v1/otlp/v1/metrics,' +
        '/opentelemetry/v1/metrics,/custom/path' } });
});
test.after(() => d.stop());

/* A request with one point under a new name. */
function fresh(value = 1.5) {
    const name = `http.${++serial}`;
    const obj = request([gauge(name, point(value, { n: String(serial) }))]);

    return { name, obj, json: JSON.stringify(obj), proto: encode(obj) };
}

async function stored(name) {
    return (await numbers(d.dir, name)).length;
}

/* Send one raw request that asks for the connection to be closed; its only answer. */
async function once(data) {
    const all = await exchange(d.port, data);

    assert.equal(all.length, 1, `one answer, got ${all.length}`);
    return all[0];
}

/* Any error answer: a Status in the encoding, never a redirect, with a readable message. */
function assertStatus(r, status, type = 'application/json') {
    assert.equal(r.status, status, `${r.status}: ${r.text}`);
    assert.equal(r.headers['content-type'], type);
    const s = readStatus(r);

    assert.ok(s.message.length > 10, `a message for people, not ${JSON.stringify(s.message)}`);
    return s;
}

async function assertAlive() {
    const f = fresh();
    const r = await d.postJson(f.json);

    assert.equal(r.status, 200);
    assert.equal(await stored(f.name), 1);
}

/* --- path and method --- */

test('H-1 POST to /v1/metrics stores the points', TIMEOUT, async () => {
    const f = fresh();

    assert.equal((await d.postProto(f.proto)).status, 200);
    assert.equal(await stored(f.name), 1);
});

test('H-2 a query string is ignored, and further paths can be configured', TIMEOUT, async () => {
    for (const path of ['/v1/metrics?x=1', '/custom/path', '/custom/path?a=b/c']) {
        const f = fresh();

        assert.equal((await d.postJson(f.json, {}, { path })).status, 200, path);
        assert.equal(await stored(f.name), 1);
    }
});

test('H-2 E-1 a path prefix goes in front of every path', TIMEOUT, async (t) => {
    const p = await Otlite.start({ set: { 'http.prefix': '/api/otel' }, ready: false });

    t.after(() => p.stop());
    const f = fresh();

    assert.equal((await p.postJson(f.json, {}, { path: '/api/otel/v1/metrics' })).status, 200);
    assert.equal((await p.postJson(f.json, {}, { path: '/v1/metrics' })).status, 404);
});

test('H-3 one trailing slash is accepted; / is not served unless listed', TIMEOUT, async (t) => {
    const f = fresh();

    assert.equal((await d.postJson(f.json, {}, { path: '/v1/metrics/' })).status, 200);
    assert.equal(await stored(f.name), 1);
    assert.equal((await d.postJson(f.json, {}, { path: '/v1/metrics//' })).status, 404);
    assert.equal((await d.postJson(f.json, {}, { path: '/' })).status, 404);
    const p = await Otlite.start({ set: { 'http.paths': '/v1/metrics,/' } });

    t.after(() => p.stop());
    assert.equal((await p.postJson(f.json, {}, { path: '/' })).status, 200);
});

test('H-4 other signals and unknown paths are 404 with a Status', TIMEOUT, async () => {
    for (const path of ['/v1/traces', '/v1/logs', '/v1development/profiles', '/nothing', '/v1/metrics/x',
        '/v1/metricsx']) {
        assertStatus(await d.postProto(Buffer.alloc(0), {}, { path }), 404, 'application/x-protobuf');
        assertStatus(await d.postJson('{}', {}, { path }), 404);
    }
    assertStatus(await d.get('/nothing'), 404);
});

test('H-5 H-6 any other method on a known path is 405 with Allow: POST', TIMEOUT, async () => {
    for (const method of ['GET', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'FROB']) {
        const r = await once(bytes(method, '/v1/metrics', CLOSE));

        assertStatus(r, 405);
        assert.equal(r.headers.allow, 'POST', method);
    }
    const c = await Raw.open(d.port);
    const r = await c.send(bytes('HEAD', '/v1/metrics', CLOSE)).response({ toHead: true });

    assert.equal(r.status, 405);
    assert.equal(r.headers.allow, 'POST');
    assert.equal(await c.rest(), '', 'no body follows an answer to HEAD');
    c.destroy();
});

test('H-7 the paths of other receivers work by default', TIMEOUT, async (t) => {
    const p = await Otlite.start();

    t.after(() => p.stop());
    for (const path of ['/api/v1/otlp/v1/metrics', '/opentelemetry/v1/metrics'])
        assert.equal((await p.postJson(fresh().json, {}, { path })).status, 200, path);
});

/* --- content type --- */

test('H-10 H-11 media types compare without case, parameters and blanks', TIMEOUT, async () => {
    for (const type of ['application/json', 'APPLICATION/JSON', 'application/json; charset=utf-8',
        '  application/json ;x=y', 'Application/Json;charset="utf-8"']) {
        const f = fresh();
        const r = await d.postJson(f.json, { 'content-type': type });

        assert.equal(r.status, 200, type);
        assert.equal(r.type, 'application/json');
        assert.equal(await stored(f.name), 1);
    }
    for (const type of ['application/x-protobuf', 'Application/X-Protobuf',
        'application/x-protobuf; proto=a.b']) {
        const f = fresh();
        const r = await d.postProto(f.proto, { 'content-type': type });

        assert.equal(r.status, 200, type);
        assert.equal(r.type, 'application/x-protobuf');
        assert.equal(await stored(f.name), 1);
    }
});

test('H-12 a missing or other type is 415 with a JSON Status', TIMEOUT, async () => {
    for (const type of [undefined, 'text/plain', 'application/protobuf', 'application/jsonx',
        'application/', 'json', 'application/x-www-form-urlencoded']) {
        const f = fresh();
        const r = await d.post(f.json, type === undefined ? {} : { 'content-type': type });

        assertStatus(r, 415);
        assert.equal(await stored(f.name), 0);
    }
});

test('H-13 J-20 the answer has exactly the bare type of the request', TIMEOUT, async () => {
    assert.equal((await d.postJson('{}', { 'content-type': 'application/json; a=b' })).type,
        'application/json');
    assert.equal((await d.postProto(Buffer.from([0x0a, 0x7f]))).type, 'application/x-protobuf');
});

/* --- codings --- */

const gz = (s) => zlib.gzipSync(s);

test('H-20 H-22 H-23 gzip, x-gzip and deflate in any letter case', TIMEOUT, async () => {
    for (const [coding, pack] of [['gzip', gz], ['GZIP', gz], [' gzip ', gz], ['x-gzip', gz],
        ['X-GZip', gz], ['deflate', zlib.deflateSync], ['Deflate', zlib.deflateSync]]) {
        const f = fresh();

        assert.equal((await d.postProto(pack(f.proto), { 'content-encoding': coding })).status, 200,
            coding);
        assert.equal(await stored(f.name), 1);
    }
});

test('H-21 identity, none and an empty coding mean none', TIMEOUT, async () => {
    for (const coding of ['identity', 'none', '', 'Identity']) {
        const f = fresh();

        assert.equal((await d.postJson(f.json, { 'content-encoding': coding })).status, 200, coding);
        assert.equal(await stored(f.name), 1);
    }
});

test('H-25 any other coding is 415 and names what is taken', TIMEOUT, async () => {
    for (const coding of ['br', 'zstd', 'snappy', 'gzip, gzip', 'gzip,identity', 'gzipx']) {
        const f = fresh();
        const r = await d.postJson(gz(f.json), { 'content-encoding': coding });

        assertStatus(r, 415);
        assert.equal(r.headers['accept-encoding'], 'gzip, deflate');
        assert.equal(await stored(f.name), 0);
    }
});

test('H-25 codings on two lines are a list, and 415', TIMEOUT, async () => {
    for (const [body, lines] of [[(f) => gz(f.json), ['gzip', 'gzip']],
        [(f) => Buffer.from(f.json), ['identity', 'gzip']]]) {
        const f = fresh();

        assertStatus(await d.postJson(body(f), { 'content-encoding': lines }), 415);
        assert.equal(await stored(f.name), 0);
    }
});

test('H-26 gzip: members join; truncation, a bad CRC, junk behind it and no bytes are 400', TIMEOUT,
    async () => {
        const f = fresh();
        const half = f.json.length >> 1;
        const joined = Buffer.concat([gz(f.json.slice(0, half)), gz(''), gz(f.json.slice(half))]);

        assert.equal((await d.postJson(joined, { 'content-encoding': 'gzip' })).status, 200);
        assert.equal(await stored(f.name), 1);

        const g = fresh();
        const whole = gz(g.json);
        const crc = Buffer.from(whole);
        const size = Buffer.from(whole);

        crc[whole.length - 6] ^= 1;
        size[whole.length - 1] ^= 1;
        for (const [what, body] of [['truncated', whole.subarray(0, -1)],
            ['without trailer', whole.subarray(0, -8)], ['header only', whole.subarray(0, 10)],
            ['wrong CRC', crc], ['wrong length', size],
            ['junk', Buffer.concat([whole, Buffer.from('JUNK')])], ['empty', Buffer.alloc(0)],
            ['plain text', Buffer.from(g.json)]])
            assertStatus(await d.postJson(body, { 'content-encoding': 'gzip' }), 400, undefined, what);
        assertStatus(await d.postProto(Buffer.alloc(0), { 'content-encoding': 'gzip' }), 400,
            'application/x-protobuf');
        assertStatus(await d.postJson(zlib.deflateSync(g.json).subarray(0, -2),
            { 'content-encoding': 'deflate' }), 400);
        assert.equal(await stored(g.name), 0);
    });

/* --- framing --- */

test('H-30 chunked bodies: one byte a chunk, with gzip, and with a capital', TIMEOUT, async () => {
    for (const [headers, body] of [
        [{ ...JSON_TYPE }, (f) => Buffer.from(f.json)],
        [{ ...PROTO_TYPE, 'Content-Encoding': 'gzip' }, (f) => gz(f.proto)]]) {
        for (const size of [1, 7, 1 << 20]) {
            for (const te of ['chunked', 'Chunked']) {
                const f = fresh();
                const head = bytes('POST', '/v1/metrics',
                    { ...headers, ...CLOSE, 'Transfer-Encoding': te });

                assert.equal((await once(Buffer.concat([head, chunked(body(f), size)]))).status, 200);
                assert.equal(await stored(f.name), 1);
            }
        }
    }
});

test('H-30 a body that comes byte by byte over the socket is read whole', TIMEOUT, async () => {
    const f = fresh();
    const c = await Raw.open(d.port);

    c.send(bytes('POST', '/v1/metrics', { ...JSON_TYPE, 'Content-Length': f.json.length }));
    for (const b of f.json) {
        c.send(b);
        await new Promise((r) => setImmediate(r));
    }
    assert.equal((await c.response()).status, 200);
    assert.equal(await stored(f.name), 1);
    c.destroy();
});

test('H-31 Expect: 100-continue is answered before the body', TIMEOUT, async () => {
    const f = fresh();
    const c = await Raw.open(d.port);

    c.send(bytes('POST', '/v1/metrics',
        { ...JSON_TYPE, Expect: '100-continue', 'Content-Length': f.json.length }));
    assert.equal((await c.response()).status, 100);
    c.send(f.json);
    assert.equal((await c.response()).status, 200);
    assert.equal(await stored(f.name), 1);
    c.destroy();
});

test('H-31 another Expect is 417', TIMEOUT, async () => {
    const r = await once(bytes('POST', '/v1/metrics',
        { ...JSON_TYPE, Expect: 'a-pony', 'Content-Length': 2 }, '{}'));

    assert.equal(r.status, 417);
    await assertAlive();
});

test('H-32 neither length nor chunked is an empty body: protobuf 200, JSON 400', TIMEOUT, async () => {
    const p = await once(bytes('POST', '/v1/metrics', { ...PROTO_TYPE, ...CLOSE }));

    assert.equal(p.status, 200);
    assert.equal(p.body.length, 0);
    assertStatus(await once(bytes('POST', '/v1/metrics', { ...JSON_TYPE, ...CLOSE })), 400);
});

test('H-33 a Transfer-Encoding other than chunked is 501 and the end of the connection', TIMEOUT,
    async () => {
        for (const te of ['gzip, chunked', 'gzip', 'identity', 'chunked, chunked', 'x']) {
            const f = fresh();
            const head = bytes('POST', '/v1/metrics', { ...JSON_TYPE, 'Transfer-Encoding': te });
            /* No Connection: close from us: the server has to close by itself. */
            const all = await exchange(d.port, Buffer.concat([head, chunked(gz(f.json), 64),
                bytes('GET', '/smuggled')]));

            assert.equal(all.length, 1, `${te}: ${all.map((r) => r.status)}`);
            assert.ok([400, 501].includes(all[0].status), `${te}: ${all[0].status}`);
            assert.equal(all[0].headers.connection, 'close');
            assert.equal(await stored(f.name), 0);
        }
        const head = bytes('POST', '/v1/metrics', { ...JSON_TYPE, 'Transfer-Encoding': 'gzip, chunked' });
        const [r] = await exchange(d.port, Buffer.concat([head, chunked('{}')]));

        assertStatus(r, 501);
    });

test('H-34 Content-Length together with chunked: 400 and close', TIMEOUT, async () => {
    const all = await exchange(d.port, Buffer.concat([bytes('POST', '/v1/metrics',
        { ...JSON_TYPE, 'Content-Length': 4, 'Transfer-Encoding': 'chunked' }), chunked('{}'),
    bytes('GET', '/smuggled')]));

    assert.deepEqual(all.map((r) => r.status), [400]);
});

test('H-35 two Content-Length headers: 400 and close', TIMEOUT, async () => {
    const smuggled = bytes('GET', '/smuggled');

    for (const lengths of [[2, 2 + smuggled.length], [2 + smuggled.length, 2]]) {
        const all = await exchange(d.port, bytes('POST', '/v1/metrics',
            { ...JSON_TYPE, 'Content-Length': lengths }, Buffer.concat([Buffer.from('{}'), smuggled])));

        assert.equal(all.length, 1);
        assertStatus(all[0], 400);
        assert.equal(all[0].headers.connection, 'close');
    }
});

test('H-35 lengths that are no decimal numbers: 400 and close', TIMEOUT, async () => {
    for (const length of ['+2', '-2', '0x2', '2 2', '2,2', 'two', '99999999999999999999']) {
        const all = await exchange(d.port, bytes('POST', '/v1/metrics',
            { ...JSON_TYPE, 'Content-Length': length }, '{}'));

        assert.equal(all.length, 1, length);
        assert.ok([400, 413].includes(all[0].status), `${length}: ${all[0].status}`);
    }
    await assertAlive();
});

test('H-36 chunk extensions and trailers are passed over, never read as data', TIMEOUT, async () => {
    const head = (more) => bytes('POST', '/v1/metrics',
        { ...JSON_TYPE, ...more, 'Transfer-Encoding': 'chunked' });
    const all = await exchange(d.port, Buffer.concat([
        head({}), Buffer.from('2;x=y\r\n{}\r\n0\r\n\r\n'),
        head({}), Buffer.from('1 ; x="a;b"\r\n{\r\n1\r\n}\r\n0;last\r\nX-Sum: 7\r\nX-B:\r\n\r\n'),
        head(CLOSE), Buffer.from('02\r\n{}\r\n000\r\n\r\n')]));

    assert.deepEqual(all.map((r) => [r.status, r.text]), [[200, '{}'], [200, '{}'], [200, '{}']]);
    await assertAlive();
});

test('H-37 HTTP/1.1 keeps the connection, and pipelined requests are answered in order', TIMEOUT,
    async () => {
        const c = await Raw.open(d.port);
        const f = [fresh(), fresh(), fresh()];

        c.send(Buffer.concat([
            bytes('POST', '/v1/metrics', { ...JSON_TYPE, 'Content-Length': f[0].json.length }, f[0].json),
            bytes('GET', '/nothing'),
            bytes('POST', '/v1/metrics', { ...PROTO_TYPE, 'Content-Length': f[1].proto.length },
                f[1].proto),
            bytes('POST', '/v1/metrics', { ...JSON_TYPE, 'Content-Length': 1 }, '['),
            bytes('POST', '/v1/metrics', { ...JSON_TYPE, 'Content-Length': f[2].json.length }, f[2].json),
        ]));
        const got = [];

        for (let i = 0; i < 5; i++) {
            const r = await c.response();

            got.push([r.status, r.headers['content-type']]);
        }
        assert.deepEqual(got, [[200, 'application/json'], [404, 'application/json'],
            [200, 'application/x-protobuf'], [400, 'application/json'], [200, 'application/json']]);
        for (const one of f)
            assert.equal(await stored(one.name), 1);
        c.destroy();
    });

test('H-37 HTTP/1.0 closes unless it asks for keep-alive', TIMEOUT, async () => {
    const f = fresh();
    const [r] = await exchange(d.port, bytes('POST', '/v1/metrics',
        { ...JSON_TYPE, 'Content-Length': f.json.length }, f.json, '1.0'));

    assert.equal(r.status, 200);
    assert.equal(r.text, '{}');
    assert.equal(await stored(f.name), 1);
    const c = await Raw.open(d.port);

    for (let i = 0; i < 2; i++) {
        c.send(bytes('POST', '/v1/metrics',
            { ...JSON_TYPE, 'Content-Length': 2, Connection: 'keep-alive' }, '{}', '1.0'));
        assert.equal((await c.response()).status, 200);
    }
    c.destroy();
});

test('H-37 Connection: close is obeyed', TIMEOUT, async () => {
    const all = await exchange(d.port, bytes('POST', '/v1/metrics',
        { ...JSON_TYPE, ...CLOSE, 'Content-Length': 2 }, '{}'));

    assert.deepEqual(all.map((r) => r.status), [200]);
});

test('H-39 a body cut short by disconnect stores nothing', TIMEOUT, async () => {
    const f = fresh();

    for (const head of [
        bytes('POST', '/v1/metrics', { ...JSON_TYPE, 'Content-Length': f.json.length + 1 }, f.json),
        Buffer.concat([bytes('POST', '/v1/metrics', { ...JSON_TYPE, 'Transfer-Encoding': 'chunked' }),
            chunked(f.json, 1000).subarray(0, -5)])]) {
        const c = await Raw.open(d.port);

        c.send(head).finish();
        await c.rest();
        c.destroy();
    }
    await assertAlive();
    assert.equal(await stored(f.name), 0);
});

test('H-40 an HTTP/2 preface is refused', TIMEOUT, async () => {
    const c = await Raw.open(d.port);
    const text = await c.send('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n').rest();

    assert.match(text, /^HTTP\/1\.1 400 /);
    c.destroy();
    await assertAlive();
});

test('H-77 garbage instead of a request line is refused and the daemon lives', TIMEOUT, async () => {
    for (const data of ['\0\0\0\0\r\n\r\n', 'POST\r\n\r\n', 'POST /v1/metrics HTTP/9.9\r\n\r\n',
        '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', ':\r\n\r\n', 'POST /v1/metrics\r\n\r\n']) {
        const c = await Raw.open(d.port);

        c.send(Buffer.from(data, 'latin1')).finish();
        const text = await c.rest();

        assert.match(text, /^HTTP\/1\.1 400 [^]*\r\n\r\n\{"code":3,"message":"/);
        c.destroy();
    }
    await assertAlive();
});

/* --- answers --- */

test('H-60 full success: 200, zero bytes for protobuf, {} for JSON', TIMEOUT, async () => {
    const p = await d.postProto(fresh().proto);

    assert.equal(p.status, 200);
    assert.equal(p.body.length, 0);
    assert.equal(p.headers['content-length'], '0');
    assert.equal(p.type, 'application/x-protobuf');
    const j = await d.postJson(fresh().json);

    assert.equal(j.status, 200);
    assert.equal(j.text, '{}');
    assert.equal(j.type, 'application/json');
});

test('H-61 H-62 partial success counts data points and says why, in both encodings', TIMEOUT,
    async () => {
        const make = (name) => request([gauge(name, point(1), point(2, {}, { timeUnixNano: '0' }),
            point(undefined, { a: 'b' }), point(3, { ok: true }))]);
        const j = await d.postJson(make('partial.json'));

        assert.equal(j.status, 200);
        assert.equal(j.json.partialSuccess.rejectedDataPoints, '2', 'int64 is a string in JSON');
        assert.match(j.json.partialSuccess.errorMessage, /timeUnixNano/);
        assert.match(j.json.partialSuccess.errorMessage, /partial\.json/);
        const p = await d.postProto(encode(make('partial.proto')));

        assert.equal(p.status, 200);
        /* By hand: field 1 is the message, in it field 1 the count, field 2 the text. */
        const [outer] = fields(p.body);

        assert.equal(outer.field, 1);
        assert.deepEqual(fields(outer.value).map((f) => [f.field, f.wire]), [[1, 0], [2, 2]]);
        assert.equal(fields(outer.value)[0].value, 2n);
        assert.match(readPartial(p).message, /value/);
        assert.equal(await stored('partial.json'), 2);
        assert.equal(await stored('partial.proto'), 2);
    });

test('H-63 H-64 a warning comes with rejected 0 and a message', TIMEOUT, async () => {
    const f = fresh();

    f.obj.resourceMetrics[0].scopeMetrics[0].metrics[0].gauge.dataPoints[0].attributes.push(
        { key: 'n', value: { stringValue: 'again' } });
    for (const r of [await d.postJson(f.obj), await d.postProto(encode(f.obj))]) {
        assert.equal(r.status, 200);
        const p = readPartial(r);

        assert.equal(p.rejected, 0);
        assert.match(p.message, /twice/);
    }
    const r = await d.postJson(f.obj);

    assert.ok(!('rejectedDataPoints' in r.json.partialSuccess) ||
        r.json.partialSuccess.rejectedDataPoints === '0');
    assert.equal(await stored(f.name), 1);
});

test('H-66 H-67 requests without telemetry succeed and leave no rows', TIMEOUT, async () => {
    const before = await d.sql('SELECT (SELECT count(*) FROM resource) r, (SELECT count(*) FROM scope)' +
        ' s, (SELECT count(*) FROM metric) m');

    const empty = { resource: { attributes: [{ key: 'new', value: { stringValue: 'x' } }] } };

    for (const obj of [{}, { resourceMetrics: [] }, { resourceMetrics: [empty] },
        { resourceMetrics: [{ ...empty, scopeMetrics: [{ scope: { name: 'new' } }] }] },
        { resourceMetrics: [{ ...empty, scopeMetrics: [{ scope: { name: 'new' }, metrics: [
            { name: 'no.points', gauge: { dataPoints: [] } }] }] }] }]) {
        const j = await d.postJson(obj);

        assert.equal(j.status, 200);
        assert.equal(j.text, '{}', JSON.stringify(obj));
        const p = await d.postProto(encode(obj));

        assert.equal(p.status, 200);
        assert.equal(p.body.length, 0);
    }
    assert.deepEqual(await d.sql('SELECT (SELECT count(*) FROM resource) r, (SELECT count(*) FROM' +
        ' scope) s, (SELECT count(*) FROM metric) m'), before);
});

test('H-68 H-69 an undecodable body is 400 with code 3 and names the bad field', TIMEOUT, async () => {
    const bad = request([gauge('x', point(1))]);

    bad.resourceMetrics[0].scopeMetrics[0].metrics[0].name = 5;
    const s = assertStatus(await d.postJson(bad), 400);

    assert.equal(s.code, 3);
    const detail = s.details.find((x) => x['@type'] === 'type.googleapis.com/google.rpc.BadRequest');

    assert.ok(detail, `a BadRequest detail in ${JSON.stringify(s)}`);
    assert.match(detail.fieldViolations[0].field, /resourceMetrics\[0\]\.scopeMetrics\[0\]/);
    assert.ok(detail.fieldViolations[0].description.length > 5);
    const p = assertStatus(await d.postProto(Buffer.from('0a7f01', 'hex')), 400,
        'application/x-protobuf');

    assert.equal(p.code, 3);
});

test('H-73 nothing is ever redirected', TIMEOUT, async () => {
    for (const path of ['/v1/metrics/', '/V1/METRICS', '/', '//v1/metrics', '/v1/../v1/metrics']) {
        const r = await d.postJson('{}', {}, { path });

        assert.ok(r.status < 300 || r.status >= 400, `${path}: ${r.status}`);
    }
});

test('H-74 answers are not compressed', TIMEOUT, async () => {
    const r = await d.postJson('[', { 'accept-encoding': 'gzip, deflate, br' });

    assert.equal(r.status, 400);
    assert.equal(r.headers['content-encoding'], undefined);
});

test('H-76 all points refused is still 200 with rejected = all', TIMEOUT, async () => {
    const r = await d.postJson(request([gauge('all.bad', point(undefined), point(undefined))]));

    assert.equal(r.status, 200);
    assert.equal(readPartial(r).rejected, 2);
    assert.equal(await stored('all.bad'), 0);
});

test('H-90 unknown fields are ignored in both encodings', TIMEOUT, async () => {
    const f = fresh();
    const proto = Buffer.concat([f.proto, Buffer.from('ba3e056c61746572', 'hex')]);

    assert.equal((await d.postProto(proto)).status, 200);
    const g = fresh();

    g.obj.futureThing = { a: [1, { b: null }] };
    assert.equal((await d.postJson(g.obj)).status, 200);
    assert.equal(await stored(f.name), 1);
    assert.equal(await stored(g.name), 1);
});

test('H-92 the same body twice: 200 both times, stored once, also after other points', TIMEOUT,
    async () => {
        const f = fresh(7);

        for (let i = 0; i < 3; i++) {
            const r = await d.postJson(f.json);

            assert.equal(r.status, 200);
            assert.equal(r.text, '{}');
            /* A later point of the same series, so that the resend is not the newest. */
            const later = JSON.parse(f.json);

            later.resourceMetrics[0].scopeMetrics[0].metrics[0].gauge.dataPoints[0].timeUnixNano =
                point(1).timeUnixNano;
            assert.equal((await d.postJson(later)).status, 200);
        }
        assert.equal(await stored(f.name), 4);
        /* The same through the other encoding is the same point. */
        assert.equal((await d.postProto(f.proto)).status, 200);
        assert.equal(await stored(f.name), 4);
    });

test('H-93 the same series and time with another value: the later wins and is warned of', TIMEOUT,
    async () => {
        const f = fresh(1);

        assert.equal((await d.postJson(f.json)).text, '{}');
        f.obj.resourceMetrics[0].scopeMetrics[0].metrics[0].gauge.dataPoints[0].asDouble = 2;
        const r = await d.postJson(f.obj);

        assert.equal(r.status, 200);
        assert.equal(readPartial(r).rejected, 0);
        assert.match(readPartial(r).message, /later/);
        const rows = await numbers(d.dir, f.name);

        assert.deepEqual(rows.map((x) => x.value), ['2.0']);
    });

test('every answered request is counted by status', TIMEOUT, async () => {
    const before = (await d.metric('otlite_requests_total', 'code="415"')) || 0;

    await d.post('x', { 'content-type': 'text/plain' });
    assert.equal(await d.metric('otlite_requests_total', 'code="415"'), before + 1);
});

test('/healthz, /readyz and /metrics answer GET and HEAD', TIMEOUT, async () => {
    for (const path of ['/healthz', '/readyz', '/metrics']) {
        assert.equal((await d.get(path)).status, 200, path);
        assert.equal((await d.request('HEAD', path)).status, 200, path);
        assert.equal((await d.postJson('{}', {}, { path })).status, 405, path);
    }
    const r = await d.get('/metrics');

    assert.match(r.type, /^text\/plain; version=0\.0\.4/);
    for (const line of r.text.trimEnd().split('\n'))
        assert.match(line, /^(# (HELP|TYPE) otlite_|otlite_[a-z_]+(\{[^}]*\})? -?[0-9.e+-]+$)/, line);
});
