'use strict';
/* Sealing, retention and `otlite compact` as the daemon does them. */
const test = require('node:test');
const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { Otlite, SLOW, cli, cliOk, sqlite3, until } = require('./lib/otlite');
const { gauge, point, request } = require('./lib/otlp');

const TIMEOUT = { timeout: 300000 * SLOW };
const SECOND = 1000000000n;
const DAY = 86400n * SECOND;
const MIB = 1 << 20;

/* Everything that retention.max_bytes is about. */
function bytesOnDisk(dir) {
    return ['telemetry.db', 'telemetry.db-wal', 'telemetry.db-shm'].reduce((sum, name) =>
        sum + (fs.statSync(path.join(dir, name), { throwIfNoEntry: false })?.size ?? 0), 0);
}

/* n series, a value each that does not compress. */
function batch(time, n = 1000) {
    return request([gauge('noise', ...Array.from({ length: n }, (_, i) =>
        point(Math.random(), { i: String(i) }, { timeUnixNano: String(time) })))]);
}

test('the files stay within retention.max_bytes, the oldest points go, the newest stay', TIMEOUT, async (t) => {
    const limit = 16 * MIB;
    const d = await Otlite.start({ set: { 'retention.max_bytes': String(limit) } });
    const first = BigInt(Date.now()) * 1000000n - DAY;
    const rounds = 1000;
    let greatest = 0;
    let last = first;

    t.after(() => d.stop());
    for (let r = 0; r < rounds; r++) {
        /* Often enough for rollups to be small: they would outlive the points. */
        last = first + BigInt(r) * 2n * SECOND;
        const body = batch(last, 2000);

        /* As a sender does: 503 means later. */
        await until('the request is taken', async () => {
            const { status } = await d.postJson(body);

            assert.ok(status === 200 || status === 503, `status ${status}`);
            return status === 200;
        }, 60000 * SLOW);
        const bytes = bytesOnDisk(d.dir);

        assert.ok(bytes <= limit, `${bytes} bytes in round ${r}`);
        greatest = Math.max(greatest, bytes);
    }
    assert.ok(greatest > limit / 2, `only ${greatest} bytes were ever used`);
    assert.ok(await d.metric('otlite_points_expired_total') > 0);
    assert.equal(await d.metric('otlite_maintenance_failures_total'), 0,
        d.log.split('\n').filter((line) => line.includes('maintenance failed')).join('\n'));
    await d.stop();
    const [parts, newest, oldest] = (await sqlite3(`${d.dir}/telemetry.db`,
        `SELECT count(*), max(max_time) >= ${last - 300n * SECOND}, min(min_time) > ${first}
           FROM part WHERE live = 1 AND resolution = 0`)).split('|').map(Number);

    assert.ok(parts > 0);
    assert.equal(newest, 1);
    assert.equal(oldest, 1);
});

test('points older than retention.max_age go, with a line in the log', TIMEOUT, async (t) => {
    const d = await Otlite.start({ set: { 'retention.max_age': '2d' } });
    const now = BigInt(Date.now()) * 1000000n;

    t.after(() => d.stop());
    assert.equal((await d.postJson(batch(now - 10n * DAY))).status, 200);
    assert.equal((await d.postJson(batch(now))).status, 200);
    await d.stop();
    await cliOk(['compact', '--data', d.dir, '--set', 'retention.max_age=2d']);
    assert.equal(await sqlite3(`${d.dir}/telemetry.db`,
        "SELECT sum(points) FROM part WHERE live = 1 AND kind = 'number'"), '1000');
});

test('otlite compact makes a part a day, and says what it came to', TIMEOUT, async (t) => {
    const d = await Otlite.start();
    const day = BigInt(Math.floor(Date.now() / 86400000)) * DAY;

    t.after(() => d.stop());
    for (let i = 0n; i < 30n; i++)
        assert.equal((await d.postJson(batch(day - (i % 3n) * DAY + i * 1000000000n))).status, 200);
    const busy = await cli(['compact', '--data', d.dir]);

    assert.notEqual(busy.code, 0);
    assert.match(busy.stderr, /another otlite \(pid \d+\) serves the data directory/);
    await d.stop();
    const done = await cli(['compact', '--data', d.dir]);

    assert.equal(done.code, 0, done.stderr);
    assert.match(done.stdout, /^\d+ bytes before, \d+ after; 30000 points, \d+\.\d\d bytes a point\n$/);
    assert.equal(await sqlite3(`${d.dir}/telemetry.db`,
        "SELECT group_concat(points) FROM part WHERE live = 1 AND kind = 'number'"),
    '10000,10000,10000');
    assert.equal(await sqlite3(`${d.dir}/telemetry.db`, 'PRAGMA freelist_count'), '0');
    assert.equal(await sqlite3(`${d.dir}/telemetry.db`, 'PRAGMA integrity_check'), 'ok');
    /* Again: nothing to do. */
    await cliOk(['compact', '--data', d.dir]);
});
