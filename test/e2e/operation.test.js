'use strict';
/* Storage and operation going wrong: cases S23, S24, S26 and S27 of ../shared/cases, and a schema
 * from the future. The inputs are made here. */
const test = require('node:test');
const assert = require('node:assert/strict');
const { execFile, execFileSync } = require('node:child_process');
const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const { numbers } = require('./lib/dump');
const { BIN, Otlite, SLOW, Shell, cleanEnv, cli, sleep, sqlite3, tempDir, until } = require('./lib/otlite');
const { gauge, point, readStatus, request } = require('./lib/otlp');
const { Raw, exchange, request: bytes } = require('./lib/raw');

const TIMEOUT = { timeout: 120000 * SLOW };
const JSON_TYPE = { 'Content-Type': 'application/json' };

/* n points of about 100 bytes each, under series that nobody else has. */
function batch(tag, n = 400) {
    return request([gauge('load', ...Array.from({ length: n }, (_, i) =>
        point(BigInt(i), { tag: `${tag}-${i}-${'x'.repeat(40)}` })))]);
}

const walSize = (d) => fs.statSync(path.join(d.dir, 'telemetry.db-wal'), { throwIfNoEntry: false })?.size ?? 0;

test('S23 the write-ahead log comes down again after an outside reader let go', TIMEOUT, async (t) => {
    const pages = 200;
    const d = await Otlite.start({ set: { 'sqlite.checkpoint_pages': String(pages) } });

    t.after(() => d.stop());
    const cap = pages * 4096 * 4;
    const send = async (n, tag) => {
        for (let i = 0; i < n; i++)
            assert.equal((await d.postJson(batch(`${tag}${i}`))).status, 200);
    };

    await send(40, 'before');
    assert.ok(walSize(d) <= cap, `WAL of ${walSize(d)} bytes without a reader`);
    const reader = new Shell(`${d.dir}/telemetry.db`, ['-readonly']);

    await reader.run('BEGIN; SELECT count(*) FROM sqlite_schema;');
    await send(60, 'held');
    const held = walSize(d);

    assert.ok(held > cap, `the reader holds the WAL back: ${held} bytes`);
    await until('the WAL shows in the metrics',
        async () => (await d.metric('otlite_wal_bytes')) >= held / 2);
    await reader.run('COMMIT;');
    await reader.end();
    await send(20, 'after');
    await until(`the WAL is back under ${cap} bytes`, async () => walSize(d) <= cap, 30000 * SLOW);
});

test('S24 disk full: 503 with Retry-After, nothing lost, and it recovers by itself', TIMEOUT,
    async (t) => {
        const dir = tempDir('full');

        try {
            execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', dir], { stdio: 'pipe' });
        } catch (e) {
            t.skip('no right to mount a tmpfs here');
            return;
        }
        t.after(() => execFileSync('umount', ['-l', dir]));
        const d = await Otlite.start({ dir });

        t.after(() => d.stop());
        const acknowledged = [];
        let refused = null;

        for (let i = 0; i < 400 && !refused; i++) {
            const r = await d.postJson(batch(`full${i}`));

            if (r.status === 200)
                acknowledged.push(i);
            else
                refused = r;
        }
        assert.ok(refused, 'the disk became full');
        assert.equal(refused.status, 503);
        assert.match(refused.headers['retry-after'], /^[1-9]\d*$/);
        assert.ok(readStatus(refused).message.length > 10);
        try {
            fs.writeFileSync(path.join(dir, 'filler'), Buffer.alloc(200000));
        } catch {
            /* as full as can be */
        }
        const logged = d.log.length;

        for (let i = 0; i < 50; i++) {
            const r = await d.postJson(batch(`still${i}`));

            assert.equal(r.status, 503, 'never 500 for a fault that passes');
        }
        const lines = d.log.slice(logged).split('\n').length;

        assert.ok(lines < 20, `${lines} log lines for 50 failures`);
        assert.ok(d.alive);
        assert.equal(Number(await sqlite3(path.join(dir, 'telemetry.db'),
            "SELECT count(*) >= 0 FROM number_point")), 1, 'reads go on');
        fs.rmSync(path.join(dir, 'filler'), { force: true });
        execFileSync('mount', ['-o', 'remount,size=64m', dir]);
        await until('200 again without a restart',
            async () => (await d.postJson(batch('again', 1))).status === 200);
        assert.equal(await sqlite3(path.join(dir, 'telemetry.db'), 'PRAGMA integrity_check;'), 'ok');
        const full = new Map((await sqlite3(path.join(dir, 'telemetry.db'),
            "SELECT substr(tag, 1, instr(tag, '-') - 1), count(*) FROM (SELECT label(s.attributes, 'tag') AS tag" +
            " FROM series s JOIN number_point p ON p.series_id = s.id) GROUP BY 1")).split('\n')
            .map((line) => line.split('|')));

        for (const i of acknowledged)
            assert.equal(Number(full.get(`full${i}`)), 400, `batch ${i}`);
        const kinds = (await sqlite3(path.join(dir, 'telemetry.db'),
            `SELECT count(*) FROM number_point p JOIN series s ON s.id = p.series_id` +
            ` WHERE s.attributes LIKE '{"tag":"still%'`));

        assert.equal(Number(kinds) % 400, 0, 'no refused batch is there in part');
        assert.equal((await d.stop()).code, 0);
    });

/* Start on a prepared directory and expect a refusal. */
async function refused(dir, name) {
    const before = fingerprint(dir, name);
    const at = Date.now();
    const r = await cli(['serve', '--listen', '127.0.0.1:0', '--data', dir], { timeout: 20000 * SLOW });

    assert.notEqual(r.code, 0);
    assert.notEqual(r.code, null, `it ended by itself (${r.signal}): ${r.stderr}`);
    assert.ok(Date.now() - at < 2000 * SLOW, `within a second or so, not ${Date.now() - at} ms`);
    const lines = r.stderr.trim().split('\n');

    assert.ok(lines.length <= 3, `one clear line, not ${lines.length}:\n${r.stderr}`);
    assert.ok(r.stderr.includes(path.join(dir, name)), `the path in: ${r.stderr}`);
    assert.equal(fingerprint(dir, name), before, 'the file is left untouched');
    return r;
}

function fingerprint(dir, name) {
    const file = path.join(dir, name);

    return fs.statSync(file).isFile()
        ? crypto.createHash('sha256').update(fs.readFileSync(file)).digest('hex') : 'no file';
}

for (const name of ['telemetry.db', 'state.db']) {
    test(`S26 a text file as ${name} is refused and left alone`, TIMEOUT, async () => {
        const dir = tempDir();

        fs.writeFileSync(path.join(dir, name), 'this is not a database, it is a shopping list, ' +
            'but a rather long one, over 100 bytes so that the header check is reached\n');
        await refused(dir, name);
    });

    test(`S26 an empty ${name} is a new database`, TIMEOUT, async () => {
        const dir = tempDir();

        fs.writeFileSync(path.join(dir, name), '');
        const d = await Otlite.start({ dir });

        assert.equal((await d.postJson(request([gauge('x', point(1))]))).status, 200);
        assert.equal((await d.stop()).code, 0);
    });

    test(`S26 somebody else's database as ${name} is refused and left alone`, TIMEOUT, async () => {
        const dir = tempDir();

        execFileSync('sqlite3', [path.join(dir, name), 'CREATE TABLE theirs(a,b); INSERT INTO theirs' +
            ' VALUES (1, hex(randomblob(5000)));']);
        await refused(dir, name);
    });

    test(`S26 a directory as ${name} is refused`, TIMEOUT, async () => {
        const dir = tempDir();

        fs.mkdirSync(path.join(dir, name));
        await refused(dir, name);
    });

    test(`a ${name} of a newer version is refused and left alone`, TIMEOUT, async () => {
        const d = await Otlite.start();

        await d.postJson(request([gauge('x', point(1))]));
        assert.equal((await d.stop()).code, 0);
        execFileSync('sqlite3', [path.join(d.dir, name), 'PRAGMA user_version = 9999;']);
        const r = await refused(d.dir, name);

        assert.match(r.stderr, /9999|newer/);
    });
}

test('S26 overwritten pages are noticed: refused at start, or 503 when they are met', TIMEOUT,
    async (t) => {
        const first = await Otlite.start();

        for (let i = 0; i < 20; i++)
            assert.equal((await first.postJson(batch(`page${i}`))).status, 200);
        assert.equal((await first.stop()).code, 0);
        const file = path.join(first.dir, 'telemetry.db');
        const fd = fs.openSync(file, 'r+');

        /* The schema's own page but for its header: nothing can be read without it. */
        fs.writeSync(fd, crypto.randomBytes(4096 * 3 - 100), 0, 4096 * 3 - 100, 100);
        fs.closeSync(fd);
        await refused(first.dir, 'telemetry.db');
        assert.ok(fs.existsSync(file));
        t.diagnostic('refused at start');
    });

test('S26 a directory without the right to write is refused', TIMEOUT, async (t) => {
    const dir = tempDir();
    const root = process.getuid() === 0;

    if (root && (await asNobody(['version'])).code !== 0) {
        t.skip('root may write everywhere, and there is no way to be somebody else here');
        return;
    }
    fs.chmodSync(dir, 0o555);
    const args = ['serve', '--listen', '127.0.0.1:0', '--data', dir];
    const r = await (root ? asNobody(args) : cli(args, { timeout: 10000 * SLOW }));

    fs.chmodSync(dir, 0o755);
    assert.ok(r.code > 0, `it ended by itself (${r.code}): ${r.stderr}`);
    assert.ok(r.stderr.includes(dir), r.stderr);
    assert.match(r.stderr, /permission|right|writ/i);
});

/* setpriv is in util-linux, which every Debian has; the binary must be within others' reach too. */
function asNobody(args) {
    return new Promise((resolve) => {
        execFile('setpriv', ['--reuid=65534', '--regid=65534', '--clear-groups', BIN, ...args],
            { timeout: 10000 * SLOW, env: cleanEnv() }, (error, stdout, stderr) =>
                resolve({ code: error ? error.code : 0, stderr }));
    });
}

test('a second daemon on the same data directory is refused, and the first goes on', TIMEOUT,
    async (t) => {
        const d = await Otlite.start();

        t.after(() => d.stop());
        await assert.rejects(Otlite.start({ dir: d.dir }), new RegExp(`pid ${d.pid}`));
        assert.equal((await d.postJson(batch('first', 3))).status, 200);
        assert.equal(await sqlite3(path.join(d.dir, 'telemetry.db'), 'PRAGMA integrity_check;'), 'ok');
        /* A killed one leaves nothing behind that would refuse the next. */
        await d.stop('SIGKILL');
        const next = await Otlite.start({ dir: d.dir });

        assert.equal((await next.stop()).code, 0);
    });

test('S27 out of descriptors: no spinning, open connections are served, it recovers', TIMEOUT,
    async (t) => {
        const d = await Otlite.start({ fds: 40 });

        t.after(() => d.stop());
        const post = bytes('POST', '/v1/metrics', { ...JSON_TYPE, 'Content-Length': 2 }, '{}');
        const early = await Raw.open(d.port);

        assert.equal((await early.send(post).response()).status, 200);
        const many = await Promise.all(Array.from({ length: 120 }, () => Raw.open(d.port)));
        const cpu = d.cpu();
        const logged = d.log.length;

        await sleep(2000);
        const used = d.cpu() - cpu;

        assert.ok(used < 0.5 * SLOW, `${used.toFixed(2)} s of CPU in 2 s`);
        assert.ok(d.log.length - logged < 4096, `${d.log.length - logged} bytes of log in 2 s`);
        assert.equal((await early.send(post).response()).status, 200, 'an open connection is served');
        for (const c of many)
            c.destroy();
        const [r] = await exchange(d.port,
            bytes('POST', '/v1/metrics', { ...JSON_TYPE, Connection: 'close', 'Content-Length': 2 }, '{}'));

        assert.equal(r.status, 200, 'and a new one once descriptors are free');
        early.destroy();
        assert.ok(d.alive);
    });

test('the start line shows the effective settings, and an unknown key names the nearest', TIMEOUT,
    async () => {
        const d = await Otlite.start({ set: { 'queue.max_age': '3s' }, env: { OTLITE_QUEUE_MAX_REQUESTS:
            '77' } });
        const line = d.log.split('\n').find((l) => l.includes('msg=serving'));

        assert.match(line, /queue\.max_age=3s/);
        assert.match(line, /queue\.max_requests=77/);
        assert.equal((await d.stop()).code, 0);
        const r = await cli(['serve', '--data', tempDir(), '--set', 'queue.max_ages=3s']);

        assert.notEqual(r.code, 0);
        assert.match(r.stderr, /queue\.max_age\b/);
    });

test('otlite health says whether the daemon lives (what HEALTHCHECK calls)', TIMEOUT, async () => {
    const d = await Otlite.start();
    const ask = () => cli(['health', '--url', `http://127.0.0.1:${d.port}`]);
    const up = await ask();

    assert.equal(up.code, 0, up.stderr);
    await d.stop();
    assert.notEqual((await ask()).code, 0);
});

test('otlite sql is read-only and prints as the sqlite3 shell does', TIMEOUT, async (t) => {
    const d = await Otlite.start();

    t.after(() => d.stop());
    await d.postJson(request([gauge('cli', point(1.5, { a: 'b' }))]));
    const q = (...args) => cli(['sql', '--data', d.dir, ...args]);
    const plain = await q("SELECT metric, value FROM points");

    assert.equal(plain.code, 0, plain.stderr);
    assert.equal(plain.stdout, 'cli|1.5\n');
    assert.equal((await q('--json', 'SELECT metric, value FROM points')).stdout.trim(),
        '[{"metric":"cli","value":1.5}]');
    for (const bad of ["DELETE FROM number_point", "CREATE TABLE x(a)", 'SELEC'])
        assert.notEqual((await q(bad)).code, 0, bad);
    assert.equal((await numbers(d.dir, 'cli')).length, 1);
});
