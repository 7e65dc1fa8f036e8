'use strict';
/* The cases of ../shared/cases, made from other projects' bug reports, each with its right answer.
 * After each one the process lives and good.json is answered 200. */
const test = require('node:test');
const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const zlib = require('node:zlib');
const { numbers, points, unquote } = require('./lib/dump');
const { Otlite, SAN, SHARED, SLOW } = require('./lib/otlite');
const { readPartial, readStatus } = require('./lib/otlp');
const { Raw, exchange } = require('./lib/raw');

const DIR = path.join(SHARED, 'cases');
const SKIP = fs.existsSync(DIR) ? false : '../shared/cases is not here';
const T = '1790000000000000000';
const LATER = '1790000010000000000';

function file(name) {
    return fs.readFileSync(path.join(DIR, name));
}

/* .hex files: digits, # starts a comment. */
function hex(name) {
    return Buffer.from(file(name).toString('utf8').replace(/#.*/g, '').replace(/\s/g, ''), 'hex');
}

/* A test with a daemon of its own; then the promises that hold for every case. */
function scenario(name, fn, { set = {}, timeout = 60000, skip = SKIP } = {}) {
    test(name, { timeout: timeout * SLOW, skip }, async (t) => {
        /* The inputs carry a fixed time, which may lie ahead of this machine's clock. */
        const d = await Otlite.start({ set: { 'otlp.future_slack': '0s', ...set } });

        t.after(() => d.stop());
        const fds = () => fs.readdirSync(`/proc/${d.pid}/fd`).length;
        const before = fds();

        await fn(d, t);
        assert.ok(d.alive, d.log);
        assert.equal((await d.postJson(file('good.json'))).status, 200, 'good.json afterwards');
        d.agent.destroy();
        for (let i = 0; i < 100 && fds() > before + 2; i++)
            await new Promise((r) => setTimeout(r, 50));
        assert.ok(fds() <= before + 2, `descriptors: ${before} before, ${fds()} after`);
    });
}

const stored = (d) => d.one('SELECT (SELECT count(*) FROM number_point)' +
    ' + (SELECT count(*) FROM histogram_point)');

scenario('S01 parameters and letter case in Content-Type', async (d) => {
    for (const [name, status, type] of [
        ['s01-ct-charset.http', 200, 'application/json'], ['s01-ct-case.http', 200, 'application/json'],
        ['s01-ct-pb-param.http', 200, 'application/x-protobuf'],
        ['s01-ct-text.http', 415, 'application/json'], ['s01-ct-none.http', 415, 'application/json']]) {
        const c = await Raw.open(d.port);
        const r = await c.send(file(name)).response();

        c.destroy();
        assert.equal(r.status, status, name);
        assert.equal(r.headers['content-type'], type, name);
    }
    assert.equal(await stored(d), 1, 'the same point three times');
    assert.equal(await d.metric('otlite_points_received_total'), 3);
});

scenario('S02 the error answer itself', async (d) => {
    for (const [name, status, type] of [['s02-bad-proto.http', 400, 'application/x-protobuf'],
        ['s02-bad-json.http', 400, 'application/json'], ['s02-ct-malformed.http', 415, 'application/json']]) {
        const c = await Raw.open(d.port);
        const r = await c.send(file(name)).response();

        c.destroy();
        assert.equal(r.status, status, name);
        assert.equal(r.headers['content-type'], type);
        assert.ok(readStatus(r).message.length > 10);
    }
});

scenario('S03 two opinions about where the body ends', async (d) => {
    for (const name of ['s03-two-lengths.http', 's03-space-colon.http', 's03-plus-length.http',
        's03-te-and-cl.http']) {
        const all = await exchange(d.port, file(name));

        assert.deepEqual(all.map((r) => r.status), [400], name);
    }
    const c = await Raw.open(d.port);

    assert.equal((await c.send(file('s03-chunk-ok.http')).response()).status, 200);
    c.destroy();
    assert.equal(await stored(d), 1);
});

scenario('S03 chunk sizes with a prefix or a sign: 400 and the end of the connection', async (d) => {
    for (const name of ['s03-chunk-0x.http', 's03-chunk-minus0.http']) {
        const all = await exchange(d.port, file(name));

        assert.deepEqual(all.map((r) => r.status), [400], name);
        assert.equal(all[0].headers.connection, 'close', name);
        assert.ok(readStatus(all[0]).message.length > 10, name);
    }
    assert.equal(await stored(d), 0);
});

scenario('S04 what success looks like, byte for byte', async (d) => {
    for (const [type, body, want] of [
        ['application/json', file('good.json'), '{}'], ['application/x-protobuf', file('good.bin'), ''],
        ['application/json', file('s10-empty-object.json'), '{}'],
        ['application/x-protobuf', Buffer.alloc(0), '']]) {
        const r = await d.post(body, { 'content-type': type });

        assert.equal(r.status, 200);
        assert.equal(r.text, want);
        assert.equal(r.type, type);
        assert.equal(r.headers['content-length'], String(want.length));
    }
});

scenario('S05 a body over the limit, with and without a length', async (d) => {
    const limit = 1 << 20;
    const over = Buffer.alloc(limit + 1);

    for (let i = 0; i < 20; i++) {
        assert.equal((await d.postProto(over, {}, { agent: false })).status, 413, 'with a length');
        assert.equal((await d.postProto(undefined, {}, { agent: false, chunks: [over] })).status, 413,
            'chunked');
    }
    const r = await d.postProto(Buffer.alloc(limit));

    assert.notEqual(r.status, 413, 'the limit itself is not too much');
    const c = await Raw.open(d.port);
    const e = await c.send('POST /v1/metrics HTTP/1.1\r\nHost: t\r\nContent-Type: ' +
        'application/x-protobuf\r\nExpect: 100-continue\r\nContent-Length: 100000000\r\n\r\n').response();

    assert.equal(e.status, 413, '413 instead of 100');
    c.destroy();
}, { set: { 'http.max_body': '1M' } });

scenario('S06 requests that never finish', async (d) => {
    const head = 'POST /v1/metrics HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n' +
        'Content-Length: 400\r\n\r\n';
    const slow = async (what, first, drip) => {
        const c = await Raw.open(d.port);
        const at = Date.now();

        c.send(first);
        const timer = drip ? setInterval(() => c.socket.writable && c.send(drip), 250) : null;

        await c.rest(20000 * SLOW);
        clearInterval(timer);
        c.destroy();
        return `${what}: ${Date.now() - at < 8000 * SLOW ? 'ended' : 'ended late'}`;
    };
    const stuck = [slow('drip body', head, 'x'),
        slow('drip headers', 'POST /v1/metrics HTTP/1.1\r\n', 'X-A: b\r\n'),
        slow('body never sent', head, ''), slow('says nothing', '', '')];

    /* Other clients are answered meanwhile. */
    assert.equal((await d.postJson('{}')).status, 200);
    assert.deepEqual(await Promise.all(stuck), ['drip body: ended', 'drip headers: ended',
        'body never sent: ended', 'says nothing: ended']);
    assert.equal(await stored(d), 0);
}, { set: { 'http.request_timeout': '1s', 'http.idle_timeout': '2s' } });

scenario('S07 64-bit integers, as strings and as numbers', async (d) => {
    assert.equal((await d.postJson(file('s07-int-forms.json'))).text, '{}');
    const got = Object.fromEntries((await numbers(d.dir, 'forms.value'))
        .map((r) => [JSON.parse(r.attributes).form, unquote(r.value)]));

    assert.deepEqual(got, { str: 42n, num: 42n, min: -(2n ** 63n), over53: 9007199254740993n });
    const [h] = await points(d.dir, 'histogram_point', 'forms.hist');

    assert.deepEqual([h.count, h.sum, unquote(h.bucket_counts), JSON.parse(h.bounds), h.attributes],
        ['6', '9.5', [1, 2, 3], [1, 2.5], '{"m":7,"n":7}']);
});

scenario('S08 temporality missing, odd, delta, or spelled out', async (d) => {
    const r = await d.postJson(file('s08-temporality.json'));

    assert.equal(r.status, 200);
    assert.equal(r.json.partialSuccess.rejectedDataPoints, '3');
    assert.match(r.json.partialSuccess.errorMessage, /temp\.(absent|out_of_range)/);
    assert.match(r.json.partialSuccess.errorMessage, /aggregationTemporality/);
    assert.deepEqual(await d.sql('SELECT m.name, m.temporality FROM number_point p JOIN series s' +
        ' ON s.id = p.series_id JOIN metric m ON m.id = s.metric_id ORDER BY m.name'),
    [{ name: 'temp.cumulative', temporality: 'cumulative' }, { name: 'temp.delta', temporality: 'delta' }]);
    const e = await d.postJson(file('s08-enum-name.json'));

    assert.ok(e.status === 400 || (e.status === 200 && readPartial(e).rejected === 1), e.text);
    assert.deepEqual(await numbers(d.dir, 'temp.by_name'), [], 'never read as 0');
});

scenario('S09 fields nobody has heard of', async (d) => {
    assert.equal((await d.postJson(file('s09-unknown.json'))).text, '{}');
    assert.deepEqual((await numbers(d.dir, 'unknown.ok')).map((r) => [r.value, r.time]), [['2.5', T]]);
});

scenario('S10 malformed on purpose', async (d) => {
    const lawful = { 's10-empty-object.json': [200], 's10-top-null.json': [200, 400],
        's10-bom.json': [200, 400] };

    for (const name of fs.readdirSync(DIR).filter((f) => f.startsWith('s10-'))) {
        const at = Date.now();
        const first = (await d.postJson(file(name))).status;
        const again = (await d.postJson(file(name))).status;

        assert.ok((lawful[name] || [400]).includes(first), `${name}: ${first}`);
        assert.equal(again, first, `${name}: the same both times`);
        assert.ok(Date.now() - at < 2000 * SLOW, name);
    }
    const before = await stored(d);
    const good = file('good.json');

    for (let n = 0; n < good.length; n++)
        assert.equal((await d.postJson(good.subarray(0, n))).status, 400, `prefix of ${n} bytes`);
    assert.equal(await stored(d), before);
});

scenario('S11 nesting without a floor', async (d) => {
    for (const name of ['s11-deep-20.json', 's11-deep-20.bin'])
        assert.equal((await d.post(file(name), { 'content-type': name.endsWith('json') ?
            'application/json' : 'application/x-protobuf' })).status, 200, name);
    assert.equal((await numbers(d.dir, 'deep.value')).length, 2, 'arrays and maps: two series');
    for (const [name, type] of [['s11-deep-20000.json', 'application/json'],
        ['s11-deep-20000.bin', 'application/x-protobuf'], ['s11-deep-unknown.json', 'application/json']])
        assert.equal((await d.post(file(name), { 'content-type': type })).status, 400, name);
});

scenario('S12 bytes that are no telemetry', async (d) => {
    const lawful = { 's12-wrong-wire.hex': [200, 400], 's12-group.hex': [200, 400],
        's12-unknown-fields.hex': [200], 's12-empty.hex': [200] };

    for (const name of fs.readdirSync(DIR).filter((f) => f.startsWith('s12-'))) {
        const r = await d.postProto(hex(name));

        assert.ok((lawful[name] || [400]).includes(r.status), `${name}: ${r.status}`);
    }
    const good = file('good.bin');

    for (let n = 0; n < good.length; n++)
        assert.ok([200, 400].includes((await d.postProto(good.subarray(0, n))).status), `prefix ${n}`);
    for (let n = 0; n < good.length; n++) {
        const b = Buffer.from(good);

        b[n] = 0xff;
        assert.ok([200, 400].includes((await d.postProto(b)).status), `byte ${n} = 0xff`);
    }
});

scenario('S13 the parts that may be missing', async (d) => {
    assert.equal((await d.postProto(hex('s13-no-resource.hex'))).body.length, 0);
    assert.deepEqual(await d.sql('SELECT r.attributes, c.name FROM metric m JOIN scope c ON c.id =' +
        " m.scope_id JOIN resource r ON r.id = c.resource_id WHERE m.name = 'bare.value'"),
    [{ attributes: '{}', name: '' }]);
    assert.equal((await d.postProto(hex('s13-attr-no-value.hex'))).status, 200);
    const [attr] = await numbers(d.dir, 'bare.attr');

    assert.deepEqual(JSON.parse(attr.attributes), { 'key.only': null, 'empty.value': null });
    const none = await d.postProto(hex('s13-no-data.hex'));

    assert.equal(none.status, 200);
    assert.equal((readPartial(none) || { rejected: 0 }).rejected, 0);
    const r = await d.postProto(hex('s13-point-no-value.hex'));

    assert.equal(r.status, 200);
    assert.equal(readPartial(r).rejected, 1);
    assert.deepEqual((await numbers(d.dir, 'bare.point')).map((x) => x.value), ['3.0']);
    assert.equal((await d.postProto(hex('s13-empties.hex'))).status, 200);
});

scenario('S14 packed, unpacked, and both at once', async (d) => {
    for (const name of ['s14-packed.hex', 's14-unpacked.hex', 's14-split.hex']) {
        const r = await d.postProto(hex(name));

        assert.equal(r.status, 200, name);
        assert.equal(r.body.length, 0, name);
        const rows = await points(d.dir, 'histogram_point', 'wire.hist');

        assert.equal(rows.length, 1, `${name}: the same point`);
        assert.deepEqual([unquote(rows[0].bucket_counts), JSON.parse(rows[0].bounds)],
            [[5, 0, 2, 3], [0.5, 1, 10]]);
    }
    assert.equal(await d.metric('otlite_points_merged_total'), 2);
    assert.equal((await d.postProto(hex('s14-packed-ragged.hex'))).status, 400);
});

scenario('S15 two bytes in, a hundred out', async (d) => {
    const before = d.memory().peak;

    for (const name of ['s15-empty-rm-2MiB.bin', 's15-empty-metric-2MiB.bin', 's15-empty-attr-2MiB.bin']) {
        const body = file(name);
        const all = await Promise.all([d.postProto(body, {}, { agent: false }),
            d.postProto(zlib.gzipSync(body), { 'content-encoding': 'gzip' }, { agent: false }),
            d.postProto(body, {}, { agent: false })]);

        for (const r of all)
            assert.ok([200, 400, 413].includes(r.status), `${name}: ${r.status}`);
    }
    const grown = d.memory().peak - before;

    assert.ok(SAN || grown < 400 << 20, `peak grew by ${grown >> 20} MiB`);
});

scenario('S16 a sum that is not there', async (d) => {
    for (const name of ['s16-sum-absent.hex', 's16-sum-zero.hex', 's16-min-negative.hex'])
        assert.equal((await d.postProto(hex(name))).body.length, 0, name);
    assert.deepEqual((await points(d.dir, 'histogram_point', 'opt.hist'))
        .map((r) => [r.sum, r.min, r.max]),
    [['NULL', 'NULL', 'NULL'], ['0.0', 'NULL', 'NULL'], ['NULL', '-4.0', '9.0']]);
});

scenario('S17 histograms of odd shape', async (d) => {
    assert.equal((await d.postJson(file('s17-no-buckets.json'))).text, '{}');
    const [none] = await points(d.dir, 'histogram_point', 'shape.none');

    assert.deepEqual([none.count, none.sum], ['3', '21.0']);
    const r = await d.postJson(file('s17-mixed.json'));

    assert.equal(r.status, 200);
    /* Counts that do not add up are kept and said so; the other three are rejected. */
    assert.equal(readPartial(r).rejected, 3);
    assert.match(readPartial(r).message, /add up/);
    const kept = (await points(d.dir, 'histogram_point', 'shape.mixed'))
        .map((x) => JSON.parse(x.attributes).n.split(':')[0]).sort();

    assert.deepEqual(kept, ['counts do not add up', 'good', 'one bucket, no bounds']);
});

scenario('S18 "no recorded value"', async (d) => {
    assert.equal((await d.postJson(file('s18-stale.json'))).text, '{}');
    assert.deepEqual((await numbers(d.dir, 'stale.gauge')).map((r) => [r.time, r.value, r.flags]),
        [[T, '8.0', 0], [LATER, 'NULL', 1]]);
    const h = await points(d.dir, 'histogram_point', 'stale.hist');

    assert.deepEqual(h.map((r) => [r.time, r.sum, r.flags]), [[T, '3.0', 0], [LATER, 'NULL', 1]]);
    assert.equal(await d.one("SELECT count(*) FROM points WHERE metric = 'stale.gauge' AND value = 0"), 0);
});

scenario('S19 an integer read as a double', async (d) => {
    assert.equal((await d.postProto(hex('s19-int-double.hex'))).body.length, 0);
    const got = (await numbers(d.dir, 'num.mixed'))
        .map((r) => [JSON.parse(r.attributes).n, unquote(r.value)]).sort();

    assert.deepEqual(got, [['a', 5n], ['b', -5n], ['c', 9007199254740993n], ['d', 0.1], ['e', 0n],
        ['f', 0], ['g', -(2n ** 63n)]]);
});

scenario('S20 NaN, infinity, null', async (d) => {
    assert.equal((await d.postJson(file('s20-nonfinite.json'))).text, '{}');
    assert.deepEqual((await numbers(d.dir, 'fin.value'))
        .map((r) => [JSON.parse(r.attributes).n, unquote(r.value)]).sort(),
    [['0', NaN], ['1', Infinity], ['2', -Infinity], ['3', 1.5], ['4', 2.5]]);
    const r = await d.postJson(file('s20-null.json'));

    assert.equal(r.status, 200);
    assert.equal(readPartial(r).rejected, 1);
    assert.deepEqual((await numbers(d.dir, 'fin.null'))
        .map((x) => [x.attributes, unquote(x.value)]).sort((a, b) => a[1] - b[1]),
    [['{"tokens":null}', 3.5], ['{}', 4.5]]);
    assert.equal((await d.postProto(hex('s20-nan.hex'))).body.length, 0);
    assert.deepEqual((await numbers(d.dir, 'fin.pb'))
        .map((x) => [JSON.parse(x.attributes).n, x.kind]).sort(),
    [['inf', 'real'], ['nan', 'blob'], ['one', 'real'], ['stale nan', 'blob']]);
    assert.equal((await d.postJson(file('s20-bare-nan.json'))).status, 400);
});

scenario('S21 a bomb', async (d) => {
    const before = d.memory().peak;
    const body = file('s21-bomb.json.gz');
    const at = Date.now();
    const r = await d.postJson(body, { 'content-encoding': 'gzip' });

    assert.equal(r.status, 413);
    assert.ok(Date.now() - at < 3000 * SLOW, `${Date.now() - at} ms`);
    const all = await Promise.all(Array.from({ length: 8 }, () =>
        d.postJson(body, { 'content-encoding': 'gzip' }, { agent: false })));

    for (const one of all)
        assert.ok([413, 503].includes(one.status), String(one.status));
    const grown = d.memory().peak - before;

    /* Each event loop inflates one body at a time, to the limit and no further. */
    assert.ok(SAN || grown < 400 << 20, `peak grew by ${grown >> 20} MiB for a limit of 64 MiB`);
});

scenario('S22 more than one member, and labels that lie', async (d) => {
    const send = async (name, coding, type = 'application/json') =>
        (await d.post(name instanceof Buffer ? name : file(name),
            { 'content-type': type, 'content-encoding': coding }));

    assert.equal((await send('s22-members.json.gz', 'gzip')).status, 200);
    assert.deepEqual((await numbers(d.dir, 'good.value')).map((r) => r.value), ['1.5']);
    assert.equal((await send('s22-members-trailing-junk.json.gz', 'gzip')).status, 400);
    assert.ok([200, 400].includes((await send('s22-trailing-zeros.json.gz', 'gzip')).status));
    assert.equal((await send('s22-plain-as-gzip.json', 'gzip')).status, 400);
    /* README of the cases: an empty body under protobuf is an empty request; otlp.md H-26: no bytes
     * at all are no gzip stream. The rule of the conformance page decides for the bare zero bytes. */
    assert.equal((await send('s22-empty-as-gzip.bin', 'gzip', 'application/x-protobuf')).status, 400);
    assert.equal((await send('s22-gzip-of-nothing.gz', 'gzip', 'application/x-protobuf')).status, 200);
    assert.equal((await send('s22-gzip-of-nothing.gz', 'gzip')).status, 400);
    assert.equal((await send('good.json', 'identity')).status, 200);
    assert.equal((await send(zlib.gzipSync(file('good.json')), 'GZIP')).status, 200);
    const br = await send('good.json', 'br');

    assert.equal(br.status, 415);
    assert.equal(br.headers['accept-encoding'], 'gzip, deflate');
    assert.equal((await send(zlib.gzipSync(zlib.gzipSync(file('good.json'))), 'gzip, gzip')).status, 415);
});

