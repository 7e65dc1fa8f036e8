'use strict';
/* otlite-bench limits, null and table: that they measure every stage, answer, and report what they
 * were given. The figures of so short a run mean nothing and are not looked at. */
const test = require('node:test');
const assert = require('node:assert/strict');
const { execFile, spawn } = require('node:child_process');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const { BIN, SLOW, cleanEnv, tempDir } = require('./lib/otlite');

const BENCH = path.join(path.dirname(BIN), 'otlite-bench');
const TIMEOUT = { timeout: 240000 * SLOW };

/* Resolves to {code, stdout, stderr}. */
function bench(args, { input = '', env = {} } = {}) {
    return new Promise((resolve) => {
        const child = execFile(BENCH, args, { env: { ...cleanEnv(), ...env } },
            (error, stdout, stderr) => resolve({ code: error ? error.code : 0, stdout, stderr }));

        child.stdin.on('error', () => {}); /* it may end before it has read all */
        child.stdin.end(input);
    });
}

test('limits measures every stage and says what share of the slowest the whole reaches', TIMEOUT, async () => {
    const out = tempDir();
    const tmp = tempDir();
    const r = await bench(['limits', '--duration', '50ms', '--rounds', '1', '--out', out],
        { env: { TMPDIR: tmp } });

    assert.equal(r.code, 0, r.stdout + r.stderr);
    assert.deepEqual(fs.readdirSync(tmp), [], 'scratch directories are left');
    const { rows, notes } = JSON.parse(fs.readFileSync(path.join(out, 'limits.json'), 'utf8'));
    const of = (pattern) => {
        const found = rows.filter((row) => pattern.test(row.stage));

        assert.ok(found.length > 0, `no stage ${pattern}`);
        return found;
    };

    of(/^memcpy/);
    of(/^HTTP/);
    of(/^inflate/);
    of(/^decode protobuf/);
    of(/^decode JSON/);
    of(/^catalogue/);
    for (const durability of ['normal', 'full'])
        for (const points of [100, 1000, 8000])
            assert.equal(of(new RegExp(`^SQLite append, ${points} a transaction, ${durability}$`)).length, 1);
    of(/^store/);
    for (const row of rows) {
        assert.ok(row.points_per_second > 0, row.stage);
        assert.equal(Math.round(1e9 / row.points_per_second), Math.round(row.ns_per_point), row.stage);
    }

    /* The verdict by its rule, from the rows. Only stages on the way have a share, and the store is
     * several of them. */
    const whole = of(/^the whole daemon over HTTP, normal$/)[0].points_per_second;
    const way = rows.filter((row) => row.share_percent !== null && !/^(the whole|store)/.test(row.stage));
    const slowest = Math.min(...way.map((row) => row.points_per_second));
    const verdict = notes.find((n) => /Slowest stage alone/.test(n));

    for (const row of way)
        assert.ok(Math.abs(row.share_percent - 100 * whole / row.points_per_second) < 1, row.stage);
    const name = way.find((row) => row.points_per_second === slowest).stage;
    const share = Number(/reaches (\d+) % of it/.exec(verdict)[1]);

    assert.ok(verdict.includes(name), verdict);
    assert.ok(Math.abs(share - 100 * whole / slowest) < 1, verdict);
    assert.match(verdict, whole >= 0.8 * slowest ? /: met\.$/ : /: not met\.$/);
});

test('null answers 200 whatever it is sent, until SIGTERM', TIMEOUT, async () => {
    const child = spawn(BENCH, ['null', '--listen', '127.0.0.1:0'], { env: cleanEnv() });
    const line = await new Promise((resolve, reject) => {
        child.stdout.once('data', (d) => resolve(String(d)));
        child.once('exit', () => reject(new Error('it ended')));
    });
    const port = Number(/^listening on 127\.0\.0\.1:(\d+)\n$/.exec(line)[1]);
    const post = (target, body) => new Promise((resolve, reject) => {
        const x = http.request({ port, method: 'POST', path: target, agent: false }, (res) => {
            res.resume();
            res.on('end', () => resolve(res.statusCode));
        });

        x.on('error', reject);
        x.end(body);
    });

    assert.equal(await post('/v1/metrics', 'no protobuf'), 200);
    assert.equal(await post('/write', ''), 200);
    const ended = new Promise((resolve) => child.once('exit', (code, signal) => resolve([code, signal])));

    child.kill('SIGTERM');
    assert.deepEqual(await ended, [0, null]);
});

const COLUMNS = ['--column', 'case:case: what:text', '--column', 'rate:points/s:0', '--column', 'p99:p99, ms:2'];
const NAMES = ['--name', 'a-table', '--title', 'A table', '--command', 'make it'];

test('table keeps what a script measured', TIMEOUT, async () => {
    const out = tempDir();
    const r = await bench(['table', ...NAMES, ...COLUMNS, '--out', out],
        { input: 'one\t1234567\t\n# a 100 % note\ntwo\t8\t0.125\n' });

    assert.equal(r.code, 0, r.stderr);
    const kept = JSON.parse(fs.readFileSync(path.join(out, 'a-table.json'), 'utf8'));

    assert.deepEqual(kept.rows, [{ case: 'one', rate: 1234567, p99: null }, { case: 'two', rate: 8, p99: 0.125 }]);
    assert.deepEqual(kept.notes, ['a 100 % note']);
    assert.match(fs.readFileSync(path.join(out, 'a-table.md'), 'utf8'),
        /^\| case: what \| points\/s \| p99, ms \|\n.*\n\| one \| 1,234,567 \| +\|\n/);
});

test('table refuses rows that do not fit, naming the line', TIMEOUT, async () => {
    for (const [input, column] of [['x\t1\n', 3], ['x\tmany\t1\n', 2], ['x\t1\t2\t3\n', 3], ['x\tnan\t1\n', 2]]) {
        const r = await bench(['table', ...NAMES, ...COLUMNS], { input: 'fits\t1\t2\n' + input });

        assert.equal(r.code, 65, input);
        assert.match(r.stderr, new RegExp(`line 2 .* column ${column}`), input);
    }
    for (const column of ['a', 'a:b', ':b:0', 'a:b:7', 'a:b:x'])
        assert.equal((await bench(['table', ...NAMES, '--column', column])).code, 64, column);
    assert.equal((await bench(['table', '--title', 't', '--command', 'c', ...COLUMNS])).code, 64);
    assert.equal((await bench(['table', '--name', '../x', '--title', 't', '--command', 'c', ...COLUMNS])).code, 64);
});

test('reads stores the same points in each system and finds every answer right', TIMEOUT, async () => {
    const out = tempDir();
    const tmp = tempDir();
    const r = await bench(['reads', '--points', '40k', '--series', '400', '--runs', '1', '--systems', 'otlite,in-process,sqlite',
        '--no-ingest', '--out', out], { env: { TMPDIR: tmp } });

    assert.equal(r.code, 0, r.stdout + r.stderr);
    assert.deepEqual(fs.readdirSync(tmp), [], 'scratch directories are left');
    const { rows, notes } = JSON.parse(fs.readFileSync(path.join(out, 'reads-0m.json'), 'utf8'));

    assert.deepEqual([...new Set(rows.map((row) => row.system))].sort(), ['SQLite rows', 'otlite', 'otlite, in process']);
    assert.equal(rows.length, 24);
    for (const row of rows) {
        /* What comes in is a question to a daemon only. */
        const asked = row.system === 'otlite' || !/points that come in/.test(row.query);

        assert.ok(row.ingest_ms === null && row.cold_ms > 0 === asked && row.warm_ms > 0 === asked, JSON.stringify(row));
    }
    assert.match(notes.join('\n'), /; 0 were wrong/);
});

test('reads asks again what --data keeps, and says which answers are wrong', TIMEOUT, async () => {
    const data = path.join(tempDir(), 'kept');
    const reads = (...more) => bench(['reads', '--points', '40k', '--series', '400', '--runs', '1', '--systems', 'otlite', '--data', data,
        ...more]);

    const stored = await reads('--store-only');

    assert.equal(stored.code, 0, stored.stdout + stored.stderr);
    const again = await reads('--no-ingest');

    assert.equal(again.code, 0, again.stdout + again.stderr);
    assert.doesNotMatch(again.stderr, /40000 points/, 'stored a second time');

    /* Take them for points of ten seconds earlier: as many and of the same sum, but in other windows. */
    const points = path.join(data, 'points');
    const text = fs.readFileSync(points, 'utf8');

    fs.writeFileSync(points, text.replace(/^\d+/, (start) => String(BigInt(start) - 10000000000n)));
    const wrong = await reads('--no-ingest');

    assert.equal(wrong.code, 1, wrong.stdout + wrong.stderr);
    assert.match(wrong.stderr, /otlite, sum-by-service, panel 0 is wrong: row 0 should be/);
    assert.match(wrong.stdout, /[1-9][0-9]* were wrong/);

    /* What others came to is not asked again. */
    fs.writeFileSync(points, text);
    const beside = await reads();

    assert.equal(beside.code, 0, beside.stdout + beside.stderr);
    assert.match(beside.stdout, /sum of rates .* otlite +[0-9.]+ +[0-9.]+ +[0-9.]+/, 'asked while points come in, too');
    assert.match(beside.stdout, /otlite: [0-9]+ points\/s were accepted meanwhile/);
    assert.deepEqual(fs.readdirSync(data).sort(), ['otlite', 'points']);

    assert.equal((await bench(['reads', '--points', '80k', '--series', '400', '--data', data])).code, 70);
    assert.equal((await bench(['reads', '--store-only'])).code, 64);
    assert.equal((await bench(['reads', '--systems', 'otlite,oracle'])).code, 64);
    assert.equal((await bench(['reads', '--points', '1000', '--series', '400'])).code, 64);
});

test('storage says where the bytes are, and finds every point it sent', TIMEOUT, async () => {
    const out = tempDir();
    const tmp = tempDir();
    const r = await bench(['storage', '--points', '40000', '--series', '400', '--many-series', '800', '--peers', '/nowhere',
        '--out', out], { env: { TMPDIR: tmp } });

    assert.equal(r.code, 0, r.stdout + r.stderr);
    assert.deepEqual(fs.readdirSync(tmp), [], 'scratch directories are left');
    const { rows, notes } = JSON.parse(fs.readFileSync(path.join(out, 'storage.json'), 'utf8'));

    assert.deepEqual(rows.map((row) => [row.mix, row.system]), ['half counters', 'idle'].flatMap((mix) =>
        [[mix, 'otlite'], [mix, 'otlite, rollups=false']]));
    for (const row of rows) {
        assert.equal(row.points, 40000);
        assert.ok(Math.abs(row.bytes_per_point - row.mib * 1048576 / row.points) < 0.001, JSON.stringify(row));
        /* The parts add up to the whole, and each of them is there. */
        assert.ok(row.raw > 0 && row.catalogue > 0 && row.rest > 0, JSON.stringify(row));
        assert.ok(Math.abs(row.raw + row.rollups + row.catalogue + row.rest - row.bytes_per_point) < 0.001);
        assert.equal(row.rollups > 0, row.system === 'otlite');
    }
    assert.match(notes.join('\n'), /VictoriaMetrics was not there/);
    assert.match(notes.join('\n'), /against VictoriaMetrics .*: not known/);
    const starts = JSON.parse(fs.readFileSync(path.join(out, 'startup.json'), 'utf8')).rows;

    assert.deepEqual(starts.map((row) => [row.series, row.points]), [[400, 40000], [800, 1600]]);
    for (const row of starts)
        assert.ok(row.warm_s > 0 && row.cold_s > 0);
});
