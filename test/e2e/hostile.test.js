'use strict';
/* Clients that mean harm: what they can hold of the daemon is bounded, and others are served. */
const test = require('node:test');
const assert = require('node:assert/strict');
const net = require('node:net');
const { Otlite, SLOW } = require('./lib/otlite');
const { gauge, point, request } = require('./lib/otlp');

const TIMEOUT = { timeout: 90000 * SLOW };
const HALF = 512 * 1024;

/* A connection with half of a request on it; ended is fulfilled with what the daemon said when it ends
 * the connection. */
function halfRequest(port) {
    const socket = net.connect(port, '127.0.0.1');
    let said = '';

    socket.on('data', (data) => { said += data; });
    const ended = new Promise((resolve) => {
        for (const event of ['error', 'end', 'close'])
            socket.on(event, () => resolve(said));
    });

    socket.write('POST /v1/metrics HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n' +
        `Content-Length: ${2 * HALF}\r\n\r\n`);
    socket.write(Buffer.alloc(HALF, ' '));
    return { socket, ended };
}

/* Ask until the answer satisfies; the test's own deadline ends it. */
async function until(ask, good) {
    for (;;) {
        const value = await ask();

        if (good(value))
            return value;
        await new Promise((resolve) => setTimeout(resolve, 10));
    }
}

test('half requests on many connections take no more memory than http.max_inflight, and small ' +
    'requests still come through', TIMEOUT, async (t) => {
    const d = await Otlite.start({ set: { 'http.max_inflight': '2M', 'http.max_body': '1M' } });

    t.after(() => d.stop());
    const clients = Array.from({ length: 12 }, () => halfRequest(d.port)); /* 6 MiB */

    t.after(() => clients.forEach((c) => c.socket.destroy()));
    const first = await Promise.race(clients.map((c) => c.ended));

    assert.match(first, /^HTTP\/1\.1 503 /);
    assert.match(first, /\r\nRetry-After: 1\r\n/);
    assert.match(first, /http\.max_inflight/);
    await until(() => d.metric('otlite_connections_overloaded_total'), (n) => n >= 8);
    /* Those that were ended are let go of as soon as the end is seen. */
    await until(() => d.metric('otlite_reading_bytes'), (n) => n <= 2 * 1024 * 1024);
    assert.equal((await d.postJson(request([gauge('small', point(1))]))).status, 200);
    clients.forEach((c) => c.socket.destroy());
    /* What remains is the question itself. */
    await until(() => d.metric('otlite_reading_bytes'), (n) => n < 1024);
    const large = JSON.stringify(request([gauge('large', point(1))])) + ' '.repeat(HALF);

    assert.equal((await d.postJson(large)).status, 200);
});

test('a request with more than otlp.max_points is 413 and leaves nothing', TIMEOUT, async (t) => {
    const d = await Otlite.start({ set: { 'otlp.max_points': '33' } });

    t.after(() => d.stop());
    const points = (n) => Array.from({ length: n },
        (_, i) => point(i, {}, { timeUnixNano: String(1000 + i) }));
    const over = await d.postJson(request([gauge('over', ...points(4))]));

    assert.equal(over.status, 413);
    assert.match(over.json.message, /otlp\.max_points/);
    assert.equal((await d.postJson(request([gauge('fits', ...points(3))]))).status, 200);
    assert.equal(await d.one('SELECT count(*) FROM points'), 3);
    assert.equal(await d.one("SELECT count(*) FROM metric WHERE name = 'over'"), 0);
});
