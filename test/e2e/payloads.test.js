'use strict';
/* Requests recorded from a real SDK (../shared/payloads), replayed chunked as they came and with a
 * length; and one content in both encodings, whose rows must be equal. */
const test = require('node:test');
const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const zlib = require('node:zlib');
const { dump } = require('./lib/dump');
const { Otlite, SHARED, SLOW } = require('./lib/otlite');
const { everything } = require('./lib/everything');
const { encode, readPartial } = require('./lib/otlp');
const { Raw, chunked } = require('./lib/raw');

const DIR = path.join(SHARED, 'payloads');
const TIMEOUT = { timeout: 60000 * SLOW };
const SKIP = fs.existsSync(DIR) ? false : '../shared/payloads is not here';
/* The recordings' clock need not be this machine's. */
const SET = { 'otlp.future_slack': '0s' };

function payloads() {
    return fs.readdirSync(DIR).filter((f) => f.endsWith('.headers')).sort().map((f) => {
        const stem = f.slice(0, -'.headers'.length);
        const file = fs.readdirSync(DIR).find((x) => x.startsWith(`${stem}.`) && x !== f);
        const lines = fs.readFileSync(path.join(DIR, f), 'utf8').split(/\r?\n/).filter(Boolean);

        return {
            file,
            body: fs.readFileSync(path.join(DIR, file)),
            headers: lines.slice(1),
            json: file.includes('json'),
            gzip: file.endsWith('.gz'),
        };
    });
}

/* The points in a JSON payload, counted without the daemon. */
function countPoints(obj) {
    let n = 0;

    for (const rm of obj.resourceMetrics)
        for (const sm of rm.scopeMetrics)
            for (const m of sm.metrics)
                for (const kind of ['gauge', 'sum', 'histogram', 'exponentialHistogram', 'summary'])
                    n += m[kind] ? m[kind].dataPoints.length : 0;
    return n;
}

async function send(d, p, withLength) {
    const headers = p.headers.filter((h) => !(withLength && /^transfer-encoding/i.test(h)));
    const c = await Raw.open(d.port);

    if (withLength)
        headers.push(`content-length: ${p.body.length}`);
    c.send(`POST /v1/metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n${headers.join('\r\n')}\r\n\r\n`);
    c.send(withLength ? p.body : chunked(p.body, 4096));
    const r = await c.response();

    c.destroy();
    return r;
}

async function replay(t, withLength) {
    const d = await Otlite.start({ set: SET });
    let points = 0;

    t.after(() => d.stop());
    for (const p of payloads()) {
        const before = await d.metric('otlite_points_received_total');
        const r = await send(d, p, withLength);

        assert.equal(r.status, 200, `${p.file}: ${r.text}`);
        const partial = readPartial(r);

        /* The program was run with both temporalities, which makes two metrics of one name. */
        if (partial) {
            assert.equal(partial.rejected, 0, p.file);
            assert.match(partial.message, /^Warning, \d+ times: a metric name is in use/, p.file);
        }
        const got = (await d.metric('otlite_points_received_total')) - before;

        if (p.json)
            assert.equal(got, countPoints(JSON.parse(p.gzip ? zlib.gunzipSync(p.body) : p.body)), p.file);
        assert.ok(got > 0, p.file);
        points += got;
    }
    assert.equal(await d.metric('otlite_points_stored_total') +
        await d.metric('otlite_points_merged_total'), points);
    return dump(d.dir);
}

test('recorded requests, chunked and with a length, store the same rows', { ...TIMEOUT, skip: SKIP },
    async (t) => {
        const a = await replay(t, false);
        const b = await replay(t, true);

        assert.deepEqual(a, b);
        assert.ok(a.number_point.length > 0 && a.histogram_point.length > 0 &&
            a.exponential_histogram_point.length > 0);
    });

test('recorded JSON: the number points are those of the file, one by one', { ...TIMEOUT, skip: SKIP },
    async (t) => {
        const d = await Otlite.start({ set: SET });

        t.after(() => d.stop());
        const p = payloads().find((x) => x.json && !x.gzip);
        const want = [];

        for (const rm of JSON.parse(p.body).resourceMetrics)
            for (const sm of rm.scopeMetrics)
                for (const m of sm.metrics)
                    for (const dp of (m.gauge || m.sum || { dataPoints: [] }).dataPoints)
                        want.push([m.name, dp.timeUnixNano, String(dp.asInt ?? dp.asDouble)]);
        await send(d, p, true);
        const rows = await d.sql('SELECT m.name, CAST(p.time AS TEXT) t, p.value v FROM number_point p' +
            ' JOIN series s ON s.id = p.series_id JOIN metric m ON m.id = s.metric_id');

        assert.deepEqual(rows.map((r) => [r.name, r.t, String(r.v)]).sort(), want.sort());
    });

test('protobuf and JSON of one content give equal rows', TIMEOUT, async (t) => {
    const a = await Otlite.start();
    const b = await Otlite.start();

    t.after(() => a.stop());
    t.after(() => b.stop());
    const obj = everything();
    const ra = await a.postJson(obj);
    const rb = await b.postProto(encode(obj));

    assert.equal(ra.text, '{}');
    assert.equal(rb.status, 200);
    assert.equal(rb.body.length, 0, rb.text);
    const rows = await dump(a.dir);

    assert.deepEqual(await dump(b.dir), rows);
    assert.equal(rows.number_point.length, 13);
    assert.equal(rows.histogram_point.length, 5);
    assert.equal(rows.exponential_histogram_point.length, 2);
    assert.equal(rows.summary_point.length, 2);
    assert.equal(rows['exemplars of number_point'].length, 22);
    assert.equal(rows['exemplars of histogram_point'].length, 2);
    assert.equal(rows['exemplars of exponential_histogram_point'].length, 2);
    /* Each one as a resend of the other adds nothing. */
    assert.equal((await a.postProto(encode(obj))).status, 200);
    assert.equal((await b.postJson(obj)).status, 200);
    assert.deepEqual(await dump(a.dir), rows);
    assert.deepEqual(await dump(b.dir), rows);
});
