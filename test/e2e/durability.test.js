'use strict';
/* A 200 is a commit, and one request is one transaction: kill -9, other processes on the file,
 * backup under load, stopping, and the round trip through export. */
const test = require('node:test');
const assert = require('node:assert/strict');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const { dump, numbers } = require('./lib/dump');
const { everything } = require('./lib/everything');
const { Otlite, SAN, SHARED, SLOW, Shell, cli, cliOk, sleep, sqlite3, tempDir, until } =
    require('./lib/otlite');
const { encode, gauge, histogram, now, point, readPartial, request } = require('./lib/otlp');

const TIMEOUT = { timeout: 280000 };
/* Rounds of the kill test. With full, more senders, so that there are always some that wait
 * together and share a transaction. */
const KILLS = [
    { durability: 'normal', rounds: SAN ? 10 : 50, connections: 4 },
    { durability: 'full', rounds: SAN ? 5 : 20, connections: 12 },
];
const POINTS = 25;

/* A request that can be told from every other: its id is the value of each of its points and an
 * attribute; half of it are histogram points, so that two tables are in the transaction. */
function tagged(id, metric = 'kill') {
    const numbersOf = Array.from({ length: POINTS }, (_, i) => point(BigInt(id), { n: String(i) }));
    const histograms = Array.from({ length: POINTS }, (_, i) => ({ timeUnixNano: now(), count: '1',
        sum: id, bucketCounts: ['1', '0'], explicitBounds: [1e12],
        attributes: [{ key: 'n', value: { stringValue: String(i) } }] }));

    return encode(request([gauge(`${metric}.g`, ...numbersOf), histogram(`${metric}.h`, ...histograms)]));
}

/* Several connections that send tagged requests until told to stop. answered and sent are ids. */
class Sender {
    constructor(port, { connections = 4, first = 1, metric = 'kill', retry = false } = {}) {
        this.port = port;
        this.next = first;
        this.metric = metric;
        this.retry = retry;
        this.answered = new Set();
        this.sent = new Set();
        this.statuses = {};
        this.slowest = 0;
        this.running = true;
        this.agent = new http.Agent({ keepAlive: true, maxSockets: connections });
        this.done = Promise.all(Array.from({ length: connections }, () => this.loop()));
    }

    async loop() {
        while (this.running) {
            const id = this.next++;
            const body = tagged(id, this.metric);

            this.sent.add(id);
            for (;;) {
                const at = Date.now();
                const status = await this.post(body);

                this.slowest = Math.max(this.slowest, Date.now() - at);
                this.statuses[status] = (this.statuses[status] || 0) + 1;
                if (status === 200)
                    this.answered.add(id);
                /* A lost connection ends this loop's luck with this daemon. */
                if (status === 0)
                    return;
                if (status === 200 || !this.retry)
                    break;
                await sleep(50);
            }
        }
    }

    post(body) {
        return new Promise((resolve) => {
            const req = http.request({ host: '127.0.0.1', port: this.port, method: 'POST',
                path: '/v1/metrics', agent: this.agent, headers: {
                    'content-type': 'application/x-protobuf', 'content-length': body.length } }, (res) => {
                res.resume();
                /* The answer counts once it is here whole. */
                res.on('end', () => resolve(res.complete ? res.statusCode : 0));
                res.on('error', () => resolve(0));
            });

            req.on('error', () => resolve(0));
            req.end(body);
        });
    }

    async stop() {
        this.running = false;
        await this.done;
        this.agent.destroy();
    }
}

/* How many points of each request id are stored: Map id -> [numbers, histograms]. */
async function stored(dir, metric = 'kill') {
    const file = path.join(dir, 'telemetry.db');
    const ids = new Map();
    const read = async (table, column, name, at) => {
        const text = await sqlite3(file, `SELECT CAST(p.${column} AS INTEGER), count(*) FROM ${table} p` +
            ` JOIN series s ON s.id = p.series_id JOIN metric m ON m.id = s.metric_id` +
            ` WHERE m.name = '${name}' GROUP BY 1`);

        for (const line of text.split('\n').filter(Boolean)) {
            const [id, n] = line.split('|').map(Number);

            if (!ids.has(id))
                ids.set(id, [0, 0]);
            ids.get(id)[at] = n;
        }
    };

    await read('number_point', 'value', `${metric}.g`, 0);
    await read('histogram_point', 'sum', `${metric}.h`, 1);
    return ids;
}

function assertWhole(ids, answered, sent) {
    for (const id of answered)
        assert.deepEqual(ids.get(id), [POINTS, POINTS], `answered request ${id}`);
    for (const [id, counts] of ids) {
        assert.ok(sent.has(id), `request ${id} was never sent`);
        assert.deepEqual(counts, [POINTS, POINTS], `request ${id}, unanswered, is there in part`);
    }
}

for (const { durability, rounds, connections } of KILLS)
    test(`kill test, durability ${durability}: ${rounds} times SIGKILL under load; every answered request` +
        ' is whole, none in part', TIMEOUT, async () => {
        const dir = tempDir('kill');
        const set = { 'sqlite.checkpoint_pages': '300', 'sqlite.durability': durability };
        const answered = new Set();
        const sent = new Set();
        let next = 1;

        for (let round = 0; round < rounds; round++) {
            const d = await Otlite.start({ dir, ready: false, set });
            const s = new Sender(d.port, { first: next, connections });

            /* Half of the time from the first answer on, half of the time from the start. */
            if (round % 2)
                await until('a first answer', () => s.answered.size > 0);
            await sleep(Math.random() * 150 * (SAN ? 3 : 1));
            assert.ok(d.alive, d.log);
            await d.stop('SIGKILL');
            await s.stop();
            for (const id of s.answered)
                answered.add(id);
            for (const id of s.sent)
                sent.add(id);
            next = s.next;
            if (round % 5 === 4 || round === rounds - 1) {
                /* Before the daemon sees it again: what the file holds by itself. */
                const copy = tempDir('copy');

                for (const f of ['telemetry.db', 'telemetry.db-wal'])
                    if (fs.existsSync(path.join(dir, f)))
                        fs.copyFileSync(path.join(dir, f), path.join(copy, f));
                const check = new Shell(path.join(copy, 'telemetry.db'));

                assert.equal((await check.run('PRAGMA integrity_check;')).trim(), 'ok', `round ${round}`);
                await check.end();
                assertWhole(await stored(copy), answered, sent);
            }
        }
        assert.ok(answered.size > rounds, `${answered.size} requests were answered in all`);
        const d = await Otlite.start({ dir });

        assertWhole(await stored(dir), answered, sent);
        assert.equal(await sqlite3(path.join(dir, 'telemetry.db'), 'PRAGMA integrity_check;'), 'ok');
        /* The catalogue in memory was read back rightly: a resend is recognised. */
        const before = await d.one('SELECT count(*) FROM series');
        const s = new Sender(d.port, { first: next, connections: 1 });

        await until('answers', () => s.answered.size > 2);
        await s.stop();
        assert.equal(await d.one('SELECT count(*) FROM series'), before, 'no series twice');
        assert.equal((await d.stop()).code, 0);
        const left = await sqlite3(path.join(dir, 'state.db'), 'PRAGMA integrity_check;');

        assert.equal(left, 'ok');
    });

test('R2b a second process that writes beside: both go on, nothing is lost', TIMEOUT, async (t) => {
    const d = await Otlite.start();

    t.after(() => d.stop());
    const shell = new Shell(`${d.dir}/telemetry.db`);

    t.after(() => shell.end());
    await shell.run('.timeout 5000\nCREATE TABLE beside(n INTEGER);');
    const s = new Sender(d.port, { metric: 'beside', retry: true });
    const end = Date.now() + 2000 * (SAN ? 2 : 1);
    let n = 0;

    while (Date.now() < end) {
        await shell.run(`BEGIN IMMEDIATE; INSERT INTO beside VALUES (${n}); COMMIT;`);
        n++;
    }
    await s.stop();
    assert.equal(shell.err, '', 'the other process was never refused');
    assert.equal(Number(await shell.run('SELECT count(*) FROM beside;')), n);
    assert.ok(n > 20 && s.answered.size > 20, `${n} beside ${s.answered.size}`);
    assert.deepEqual(Object.keys(s.statuses), ['200'], JSON.stringify(s.statuses));
    assertWhole(await stored(d.dir, 'beside'), s.answered, s.sent);
    assert.equal(await sqlite3(path.join(d.dir, 'telemetry.db'), 'PRAGMA integrity_check;'), 'ok');
});

test('R2b a process that holds the lock for 10 s: 503 inside 10 s, resent, nothing lost or twice',
    TIMEOUT, async (t) => {
        const d = await Otlite.start();

        t.after(() => d.stop());
        const shell = new Shell(`${d.dir}/telemetry.db`);

        t.after(() => shell.end());
        await d.postProto(tagged(1000000, 'lock'));
        await shell.run('BEGIN IMMEDIATE;');
        const s = new Sender(d.port, { metric: 'lock', retry: true });

        s.sent.add(1000000);
        await sleep(10000);
        const during = { ...s.statuses };

        await shell.run('ROLLBACK;');
        await until('answers after the lock', () => s.answered.size > 8);
        await s.stop();
        assert.ok(during['503'] > 0, `503 while locked: ${JSON.stringify(during)}`);
        assert.equal(during['200'], undefined, 'no 200 for what cannot be committed');
        assert.deepEqual(Object.keys(s.statuses).sort(), ['200', '503']);
        assert.ok(s.slowest < 9000 * SLOW, `the slowest answer took ${s.slowest} ms`);
        assert.deepEqual([...s.sent].filter((id) => id !== 1000000 && !s.answered.has(id)), [],
            'every request was answered in the end');
        assertWhole(await stored(d.dir, 'lock'), s.answered, s.sent);
    });

test('R2c cp loses what is in the WAL; otlite backup under load has every answered row', TIMEOUT,
    async (t) => {
        const d = await Otlite.start({ set: { 'sqlite.checkpoint_pages': '100000' } });

        t.after(() => d.stop());
        const s = new Sender(d.port, { metric: 'backup', connections: 3 });

        await until('a load', () => s.answered.size > 50);
        const before = new Set(s.answered);
        const copied = path.join(tempDir('cp'), 'telemetry.db');

        fs.copyFileSync(path.join(d.dir, 'telemetry.db'), copied);
        const dest = tempDir('backup');
        const file = path.join(dest, 'telemetry.db');

        await cliOk(['backup', '--data', d.dir, ...(await backupTarget(dest, file))]);
        const answeredDuring = s.answered.size - before.size;

        await s.stop();
        const got = await stored(path.dirname(await findDatabase(dest)), 'backup');

        assertWhole(got, before, s.sent);
        assert.equal(await sqlite3(await findDatabase(dest), 'PRAGMA integrity_check;'), 'ok');
        assert.equal(await sqlite3(copied, 'PRAGMA integrity_check;'), 'ok', 'the plain copy passes too');
        const plain = Number(await sqlite3(copied, "SELECT count(*) FROM sqlite_schema WHERE name =" +
            " 'number_head_0'")) ? Number(await sqlite3(copied, 'SELECT count(*) FROM number_point')) : 0;

        assert.ok(plain < before.size * POINTS, `cp has ${plain} of ${before.size * POINTS} rows`);
        t.diagnostic(`cp: ${plain} of ${before.size * POINTS} answered rows; backup: all, ` +
            `${answeredDuring} requests answered meanwhile`);
        assertWhole(await stored(d.dir, 'backup'), s.answered, s.sent);
    });

/* `otlite backup DEST`: DEST is a file or a directory, as its --help says. */
async function backupTarget(dir, file) {
    const help = (await cli(['backup', '--help'])).stdout;

    return [/director/i.test(help) ? path.join(dir, 'copy') : file];
}

async function findDatabase(dir) {
    for (const f of [path.join(dir, 'telemetry.db'), path.join(dir, 'copy', 'telemetry.db')])
        if (fs.existsSync(f))
            return f;
    throw new Error(`no telemetry.db in ${dir}`);
}

test('SIGTERM under load: what is queued is finished and answered, exit 0, the WAL is empty', TIMEOUT,
    async () => {
        for (let i = 0; i < (SAN ? 2 : 5); i++) {
            const d = await Otlite.start();
            const s = new Sender(d.port, { metric: 'term' });

            await until('a load', () => s.answered.size > 20);
            const exit = await d.stop();

            await s.stop();
            assert.deepEqual(exit, { code: 0, signal: null }, d.log);
            const wal = path.join(d.dir, 'telemetry.db-wal');

            assert.ok(!fs.existsSync(wal) || fs.statSync(wal).size === 0, 'checkpointed');
            /* Each request was answered (200 or 503 with close) or its connection was refused. */
            assertWhole(await stored(d.dir, 'term'), s.answered, s.sent);
        }
    });

test('SIGTERM with a queue behind a lock: the queued requests are stored, answered 200, exit 0',
    TIMEOUT, async (t) => {
        const d = await Otlite.start({ set: { 'queue.max_age': '30s' } });
        const shell = new Shell(`${d.dir}/telemetry.db`);

        t.after(() => shell.end());
        await shell.run('BEGIN IMMEDIATE;');
        const sent = Array.from({ length: 4 }, (_, i) =>
            d.postJson(request([gauge('queued', point(BigInt(i)))]), {}, { agent: false }));

        await until('the queue', async () => (await d.metric('otlite_queue_requests')) >= 3);
        d.child.kill('SIGTERM');
        await until('it no longer accepts', async () => {
            try {
                const r = await d.get('/healthz', { agent: false });

                return r.status === 503;
            } catch {
                return true;
            }
        });
        await shell.run('ROLLBACK;');
        assert.deepEqual((await Promise.all(sent)).map((r) => r.status), [200, 200, 200, 200]);
        assert.deepEqual(await d.exited, { code: 0, signal: null });
        assert.equal((await numbers(d.dir, 'queued')).length, 4);
    });

test('round trip: exported OTLP/JSON, ingested into an empty directory, exports equal', TIMEOUT,
    async (t) => {
        const a = await Otlite.start({ set: { 'otlp.future_slack': '0s' } });
        const b = await Otlite.start({ set: { 'otlp.future_slack': '0s' } });

        t.after(() => a.stop());
        t.after(() => b.stop());
        assert.equal((await a.postProto(encode(everything()))).status, 200);
        for (let i = 0; i < 5; i++)
            assert.equal((await a.postProto(tagged(i, 'trip'))).status, 200);
        const recorded = path.join(SHARED, 'payloads');

        if (fs.existsSync(recorded))
            for (const f of fs.readdirSync(recorded).filter((x) => !/headers|README/.test(x)))
                assert.equal((await a.post(fs.readFileSync(path.join(recorded, f)), {
                    'content-type': f.includes('json') ? 'application/json' : 'application/x-protobuf',
                    'content-encoding': f.endsWith('.gz') ? 'gzip' : 'identity' })).status, 200, f);
        const text = await cliOk(['export', '--data', a.dir, '--format', 'otlp-json']);
        const lines = text.trimEnd().split('\n');

        for (const line of lines) {
            const r = await b.postJson(line);

            assert.equal(r.status, 200, r.text);
            assert.equal((readPartial(r) || { rejected: 0 }).rejected, 0, r.text);
        }
        const again = await cliOk(['export', '--data', b.dir, '--format', 'otlp-json']);

        assert.deepEqual(again.split('\n').sort(), text.split('\n').sort());
        assert.deepEqual(await dump(b.dir), await dump(a.dir));
        /* CSV: a header and a row a number point. */
        const csv = await cliOk(['export', '--data', a.dir, '--format', 'csv']);

        assert.match(csv, /^time,time_unix_nano,service_name,metric,unit,type,attributes,/);
        assert.equal(Number(await a.one('SELECT count(*) FROM points')) > 0, true);
    });
