'use strict';
/* Limits and deadlines of the HTTP side: H-27, H-31, H-38, H-41, H-50 to H-55, H-70 to H-72. */
const test = require('node:test');
const assert = require('node:assert/strict');
const zlib = require('node:zlib');
const { numbers } = require('./lib/dump');
const { Otlite, SAN, SLOW, Shell, until } = require('./lib/otlite');
const { encode, gauge, point, readPartial, readStatus, request } = require('./lib/otlp');
const { Raw, chunked, exchange, request: bytes } = require('./lib/raw');

const JSON_TYPE = { 'Content-Type': 'application/json' };
const PROTO_TYPE = { 'Content-Type': 'application/x-protobuf' };
const TIMEOUT = { timeout: 90000 * SLOW };
const LIMIT = 64 * 1024;

async function start(t, set) {
    const d = await Otlite.start({ set });

    t.after(() => d.stop());
    return d;
}

/* JSON of exactly n bytes that holds one point. */
function padded(name, n) {
    const text = JSON.stringify(request([gauge(name, point(1))]));

    return text + ' '.repeat(n - text.length);
}

async function assertAlive(d) {
    const name = `alive.${Math.random()}`;

    assert.equal((await d.postJson(request([gauge(name, point(1))]))).status, 200);
    assert.equal((await numbers(d.dir, name)).length, 1);
}

test('H-50 a body over http.max_body is 413 with a Status, with a length and chunked', TIMEOUT,
    async (t) => {
        const d = await start(t, { 'http.max_body': '64K' });

        assert.equal((await d.postJson(padded('exact', LIMIT))).status, 200, 'the limit itself is fine');
        assert.equal((await d.postJson(undefined, {}, { chunks: [padded('exact.c', LIMIT)] })).status,
            200);
        for (let i = 0; i < 20; i++) {
            const r = await d.postJson(padded('over', LIMIT + 1));

            assert.equal(r.status, 413);
            assert.equal(r.type, 'application/json');
            assert.match(readStatus(r).message, /http\.max_body/);
        }
        const p = await d.postProto(Buffer.alloc(LIMIT + 1));

        assert.equal(p.status, 413);
        assert.equal(p.type, 'application/x-protobuf');
        assert.match(readStatus(p).message, /http\.max_body/);
        const c = await d.postJson(undefined, {}, { chunks: [padded('over.c', LIMIT + 1)] });

        assert.equal(c.status, 413);
        assert.equal((await numbers(d.dir, 'over')).length, 0);
        assert.equal((await numbers(d.dir, 'over.c')).length, 0);
        assert.equal((await numbers(d.dir, 'exact.c')).length, 1);
    });

test('H-50 far over the limit is 413 that the client can read, 20 times of 20', TIMEOUT, async (t) => {
    const d = await start(t, { 'http.max_body': '64K' });
    const huge = Buffer.alloc(8 << 20, 0x20);

    for (let i = 0; i < 20; i++) {
        const head = i % 2
            ? bytes('POST', '/v1/metrics', { ...JSON_TYPE, 'Content-Length': huge.length })
            : bytes('POST', '/v1/metrics', { ...JSON_TYPE, 'Transfer-Encoding': 'chunked' });
        const body = i % 2 ? huge : chunked(huge, 1 << 20);
        const all = await exchange(d.port, Buffer.concat([head, body]));

        assert.deepEqual(all.map((r) => r.status), [413], `try ${i}`);
    }
    await assertAlive(d);
});

test('H-31 Expect with a length over the limit: 413 instead of 100', TIMEOUT, async (t) => {
    const d = await start(t, { 'http.max_body': '64K' });

    for (const length of [LIMIT + 1, 8 << 20]) {
        const c = await Raw.open(d.port);

        c.send(bytes('POST', '/v1/metrics',
            { ...JSON_TYPE, Expect: '100-continue', 'Content-Length': length }));
        const r = await c.response();

        assert.equal(r.status, 413, String(length));
        assert.match(readStatus(r).message, /http\.max_body/);
        c.destroy();
    }
    await assertAlive(d);
});

test('what the head alone decides is refused before a byte of the body is sent', TIMEOUT, async (t) => {
    const d = await start(t);
    const refusals = [
        [415, { 'Content-Type': 'text/plain', 'Content-Length': 10 }, /Content-Type/],
        [415, { ...JSON_TYPE, 'Content-Encoding': 'br', 'Content-Length': 10 }, /br/],
    ];

    for (const [status, headers, message] of refusals) {
        for (const expect of [{}, { Expect: '100-continue' }]) {
            const c = await Raw.open(d.port);

            c.send(bytes('POST', '/v1/metrics', { ...headers, ...expect }));
            const r = await c.response();

            assert.equal(r.status, status);
            assert.match(readStatus(r).message, message);
            c.destroy();
        }
    }
    await assertAlive(d);
});

test('H-27 H-50 the limit holds for the inflated body, in both codings', TIMEOUT, async (t) => {
    const d = await start(t, { 'http.max_body': '64K' });

    for (const [coding, pack] of [['gzip', zlib.gzipSync], ['deflate', zlib.deflateSync]]) {
        const over = await d.postJson(pack(padded('z.over', LIMIT + 1)), { 'content-encoding': coding });

        assert.equal(over.status, 413, coding);
        assert.ok(readStatus(over).message.length > 10);
        const exact = await d.postJson(pack(padded(`z.${coding}`, LIMIT)),
            { 'content-encoding': coding });

        assert.equal(exact.status, 200, coding);
        assert.equal((await numbers(d.dir, `z.${coding}`)).length, 1);
    }
    assert.equal((await numbers(d.dir, 'z.over')).length, 0);
});

test('H-27 inflating stops at the limit: memory stays near it', { ...TIMEOUT,
    skip: SAN ? 'memory is not measured under sanitizers' : false }, async (t) => {
    const d = await start(t, { 'http.max_body': '1M' });

    await assertAlive(d);
    const before = d.memory().peak;
    const bomb = zlib.gzipSync(Buffer.alloc(64 << 20, 0x20));
    const all = await Promise.all(Array.from({ length: 8 }, () =>
        d.postJson(bomb, { 'content-encoding': 'gzip' }, { agent: false })));

    assert.deepEqual(all.map((r) => r.status), new Array(8).fill(413));
    const grown = d.memory().peak - before;

    assert.ok(grown < 32 << 20, `peak grew by ${grown >> 20} MiB for 8 bodies of at most 1 MiB`);
});

test('H-51 many tiny messages are 413 or stay within the decode budget', TIMEOUT, async (t) => {
    const d = await start(t, {});

    await assertAlive(d);
    const before = d.memory().peak;
    const flood = Buffer.alloc(16 << 20);

    for (let i = 0; i < flood.length; i += 2)
        flood[i] = 0x0a;
    const r = await d.postProto(zlib.gzipSync(flood), { 'content-encoding': 'gzip' });

    assert.equal(r.status, 413);
    assert.ok(readStatus(r).message.length > 10);
    if (!SAN) {
        const grown = d.memory().peak - before;

        assert.ok(grown < 512 << 20, `peak grew by ${grown >> 20} MiB; unbounded it would be 2 GiB`);
    }
    await assertAlive(d);
});

test('H-52 an attribute value nests 64 levels, one more is 400, in both encodings', TIMEOUT,
    async (t) => {
        const d = await start(t, {});
        const nested = (levels) => {
            let v = 'leaf';

            for (let i = 0; i < levels; i++)
                v = i % 2 ? [v] : { k: v };
            return v;
        };

        for (const [levels, status] of [[64, 200], [66, 400], [500, 400]]) {
            const obj = request([gauge(`deep.${levels}`, point(1, { v: nested(levels) }))]);

            assert.equal((await d.postJson(obj)).status, status, `JSON ${levels}`);
            assert.equal((await d.postProto(encode(obj))).status, status, `protobuf ${levels}`);
        }
        assert.equal((await numbers(d.dir, 'deep.64')).length, 1);
    });

test('H-53 H-62 a message about everything at once stays small', TIMEOUT, async (t) => {
    const d = await start(t, {});
    const long = 'näme'.repeat(200);
    const bad = [];

    for (let i = 0; i < 50; i++) {
        bad.push(gauge(`${long}${i}`, point(undefined), point(1, {}, { timeUnixNano: '0' })),
            { name: `${long}.s${i}`, sum: { dataPoints: [point(1)], aggregationTemporality: 9 } },
            { name: `${long}.h${i}`, histogram: { aggregationTemporality: 2, dataPoints: [
                { ...point(undefined), count: '1', bucketCounts: ['1', '1'], explicitBounds: [1, 2] }] } });
    }
    for (const r of [await d.postJson(request(bad)), await d.postProto(encode(request(bad)))]) {
        assert.equal(r.status, 200);
        const p = readPartial(r);

        assert.equal(p.rejected, 200);
        assert.ok(Buffer.byteLength(p.message) <= 1024, `${Buffer.byteLength(p.message)} bytes`);
        assert.ok(r.body.length < 16384);
        assert.ok(!p.message.includes('\ufffd'), 'cut between characters');
        /* eslint-disable-next-line no-control-regex */
        assert.doesNotMatch(p.message, /[\0-\x1f\x7f]/);
    }
});

test('H-54 a request head over http.max_header is refused', TIMEOUT, async (t) => {
    const d = await start(t, {});
    const [ok] = await exchange(d.port, bytes('POST', '/v1/metrics',
        { ...JSON_TYPE, Connection: 'close', 'X-Pad': 'a'.repeat(12000), 'Content-Length': 2 }, '{}'));

    assert.equal(ok.status, 200);
    for (const pad of [{ 'X-Pad': 'a'.repeat(17000) },
        Object.fromEntries(Array.from({ length: 400 }, (_, i) => [`X-${i}`, 'a'.repeat(50)]))]) {
        const all = await exchange(d.port,
            bytes('POST', '/v1/metrics', { ...JSON_TYPE, ...pad, 'Content-Length': 2 }, '{}'));

        assert.equal(all.length, 1);
        assert.equal(all[0].status, 431);
        assert.match(readStatus(all[0]).message, /http\.max_header/);
    }
    await assertAlive(d);
});

test('H-38 an idle connection is closed after http.idle_timeout, not before', TIMEOUT, async (t) => {
    const d = await start(t, { 'http.idle_timeout': '1s' });
    const c = await Raw.open(d.port);
    const post = bytes('POST', '/v1/metrics', { ...JSON_TYPE, 'Content-Length': 2 }, '{}');

    assert.equal((await c.send(post).response()).status, 200);
    const at = Date.now();

    assert.equal(await c.rest(), '', 'closed without a word');
    assert.ok(Date.now() - at >= 900, `closed after ${Date.now() - at} ms`);
    c.destroy();
});

test('H-41 H-55 H-70 H-72 a locked database: 503 with Retry-After well inside 10 s, then stored once',
    TIMEOUT, async (t) => {
        const d = await start(t, { 'queue.max_age': '1s' });
        const shell = new Shell(`${d.dir}/telemetry.db`);

        t.after(() => shell.end());
        await shell.run('BEGIN IMMEDIATE;');
        const obj = request([gauge('locked', point(1))]);
        const at = Date.now();

        for (const r of await Promise.all([d.postJson(obj), d.postProto(encode(obj))])) {
            assert.equal(r.status, 503);
            assert.match(r.headers['retry-after'], /^[1-5]$/);
            assert.ok(readStatus(r).message.length > 10);
        }
        assert.ok(Date.now() - at < 8000 * SLOW, `answered after ${Date.now() - at} ms`);
        assert.equal((await d.get('/readyz')).status, 503, '/readyz says that nothing can commit');
        assert.equal((await d.get('/healthz')).status, 200, '/healthz stays green');
        await shell.run('ROLLBACK;');
        assert.equal((await d.postJson(obj)).status, 200);
        assert.equal((await d.get('/readyz')).status, 200);
        assert.equal((await numbers(d.dir, 'locked')).length, 1);
    });

test('H-55 a full queue is 503 at once, and what was queued is stored', TIMEOUT, async (t) => {
    const d = await start(t, { 'queue.max_requests': '2', 'queue.max_age': '20s' });
    const shell = new Shell(`${d.dir}/telemetry.db`);

    t.after(() => shell.end());
    await shell.run('BEGIN IMMEDIATE;');
    const replies = [];
    const send = (i) =>
        d.postJson(request([gauge('queue', point(BigInt(i)))]), {}, { agent: false }).then((r) => {
            replies.push(r);
            return r;
        });
    const sent = Array.from({ length: 10 }, (_, i) => send(i));
    const pending = () => sent.length - replies.length;
    const waiting = () => d.metric('otlite_queue_requests');

    /* One is in the writer's hands, two wait in the queue; the others are answered now. */
    while (replies.length < 7)
        await Promise.race(sent.map((p) => p.then(() => new Promise((r) => setImmediate(r)))));
    for (const r of replies) {
        assert.equal(r.status, 503);
        assert.match(r.headers['retry-after'], /^[1-5]$/);
    }
    /* With one in the writer's hands and two behind it the queue stays full. */
    await until('the writer holds one', async () => pending() > (await waiting()));
    if (pending() < 3) {
        sent.push(send(10));
        await until('two wait', async () => (await waiting()) === 2);
    }
    /* Not even the body is waited for. */
    const c = await Raw.open(d.port);

    c.send(bytes('POST', '/v1/metrics', { ...JSON_TYPE, 'Content-Length': 1000 }));
    const early = await c.response();

    assert.equal(early.status, 503);
    assert.match(readStatus(early).message, /queue is full/);
    c.destroy();
    /* A refused connection rests, and then goes on with what was sent meanwhile. */
    const rested = await Raw.open(d.port);
    const again = JSON.stringify(request([gauge('rested', point(1n))]), (k, v) =>
        (typeof v === 'bigint' ? String(v) : v));
    const whole = bytes('POST', '/v1/metrics', { ...JSON_TYPE, 'Content-Length': again.length }, again);

    rested.send(whole);
    assert.equal((await rested.response()).status, 503);
    rested.send(whole);
    await shell.run('ROLLBACK;');
    assert.equal((await rested.response()).status, 200);
    assert.equal((await numbers(d.dir, 'rested')).length, 1);
    rested.destroy();
    const all = await Promise.all(sent);
    const ok = all.filter((r) => r.status === 200).length;

    assert.ok(ok >= 2 && ok <= 3, `${ok} were stored`);
    assert.equal((await numbers(d.dir, 'queue')).length, ok);
});

test('H-55 more connections than http.max_connections wait; those that are open are served', TIMEOUT,
    async (t) => {
        const d = await start(t, { 'http.max_connections': '10' });
        const post = bytes('POST', '/v1/metrics', { ...JSON_TYPE, 'Content-Length': 2 }, '{}');
        const open = [];

        d.agent.destroy();
        for (let i = 0; i < 30; i++)
            open.push(await Raw.open(d.port));
        /* The first ones were accepted. */
        assert.equal((await open[0].send(post).response()).status, 200);
        for (const c of open.slice(0, 29))
            c.destroy();
        assert.equal((await open[29].send(post).response()).status, 200, 'served once there is room');
        open[29].destroy();
        await assertAlive(d);
    });

test('otlp.* limits cost the point, not the request (M-18, M-20, M-57)', TIMEOUT, async (t) => {
    const d = await start(t, { 'otlp.max_attributes': '3', 'otlp.max_attribute_bytes': '200',
        'otlp.max_buckets': '4', 'otlp.max_name': '20' });
    const r = await d.postJson(request([
        gauge('limits', point(1, { a: 1n, b: 2n, c: 3n }), point(2, { a: 1n, b: 2n, c: 3n, d: 4n }),
            point(3, { a: 'x'.repeat(201) })),
        gauge('n'.repeat(20), point(4)), gauge('n'.repeat(21), point(5)),
        { name: 'limits.h', histogram: { aggregationTemporality: 2, dataPoints: [
            { ...point(undefined), count: '4', bucketCounts: ['1', '1', '1', '1'],
                explicitBounds: [1, 2, 3] },
            { ...point(undefined), count: '5', bucketCounts: ['1', '1', '1', '1', '1'],
                explicitBounds: [1, 2, 3, 4] }] } }]));

    assert.equal(r.status, 200);
    assert.equal(readPartial(r).rejected, 4);
    assert.equal(await d.one('SELECT count(*) FROM number_point'), 2);
    assert.equal(await d.one('SELECT count(*) FROM histogram_point'), 1);
    assert.equal(await d.metric('otlite_points_rejected_total', 'reason="attributes"'), 2);
    assert.equal(await d.metric('otlite_points_rejected_total', 'reason="name"'), 1);
    assert.equal(await d.metric('otlite_points_rejected_total', 'reason="too_many_buckets"'), 1);
    assert.equal(await d.metric('otlite_points_received_total'), 7);
    assert.equal(await d.metric('otlite_points_stored_total'), 3);
});

test('PROTO: a length that is longer than the body leaves the daemon alive', TIMEOUT, async (t) => {
    const d = await start(t, { 'http.request_timeout': '1s' });
    const c = await Raw.open(d.port);

    c.send(bytes('POST', '/v1/metrics', { ...PROTO_TYPE, 'Content-Length': 100 }, 'x'));
    const text = await c.rest();

    assert.ok(text === '' || /^HTTP\/1\.1 (400|408) /.test(text), text);
    c.destroy();
    await assertAlive(d);
});
