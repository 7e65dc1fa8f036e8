'use strict';
/* otlite-bench reference and overload, with steps so short that the figures mean nothing: that each
 * runs, checks what it says it checks, writes its results, and leaves nothing behind. */
const test = require('node:test');
const assert = require('node:assert/strict');
const { execFile, spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { BIN, Otlite, SLOW, cleanEnv, tempDir, until } = require('./lib/otlite');

const BENCH = path.join(path.dirname(BIN), 'otlite-bench');
const TIMEOUT = { timeout: 240000 * SLOW };

/* Resolves to {code, stdout, stderr, out (result folder), tmp (its TMPDIR)}. */
function bench(args) {
    const out = tempDir();
    const tmp = tempDir();

    return new Promise((resolve) => {
        execFile(BENCH, [...args, '--out', out], { env: { ...cleanEnv(), TMPDIR: tmp }, maxBuffer: 1 << 26 },
            (error, stdout, stderr) => resolve({ code: error ? error.code : 0, stdout, stderr, out, tmp }));
    });
}

async function benchOk(args, name) {
    const r = await bench(args);

    assert.equal(r.code, 0, r.stdout + r.stderr);
    assert.deepEqual(fs.readdirSync(r.tmp), [], 'scratch directories are left');
    return { ...r, ...JSON.parse(fs.readFileSync(path.join(r.out, `${name}.json`), 'utf8')) };
}

function columns(rows, names) {
    assert.ok(rows.length > 0);
    for (const row of rows)
        for (const name of names)
            assert.ok(name in row, `no ${name} in ${JSON.stringify(row)}`);
}

test('reference r1 runs three phases and its steps obey the rule', TIMEOUT, async () => {
    const r = await benchOk(['reference', 'r1', '--step', '200ms'], 'reference-r1');

    columns(r.rows, ['phase', 'points_per_request', 'target_points_per_second', 'points_per_second',
        'error_percent', 'p50_ms', 'p99_ms', 'daemon_cores', 'memory_mb', 'wal_mb', 'missing', 'verdict']);
    for (const row of r.rows) {
        const held = row.error_percent <= 5 &&
            row.points_per_second >= 0.7 * row.target_points_per_second;

        assert.equal(row.verdict !== 'failed', held, JSON.stringify(row));
        assert.equal(row.missing, 0);
    }
    const large = r.rows.filter((row) => row.phase === 'large payload');

    assert.ok(large.length >= 1 && large.length <= 5);
    for (const row of large)
        assert.equal(row.target_points_per_second, 5 * row.points_per_request);
    assert.ok(r.rows.filter((row) => row.phase === 'SDK-shaped').every((row) => row.points_per_request === 100));
    assert.ok(r.rows.some((row) => row.phase === 'SDK-shaped'));
    for (const published of ['31000', '58000', '36000'])
        assert.match(r.stdout, new RegExp(published));
});

test('reference r3 reads and writes at each number of workers', TIMEOUT, async () => {
    const r = await benchOk(['reference', 'r3', '--requests', '1000'], 'reference-r3');

    columns(r.rows, ['read_p50_ms', 'read_p90_ms', 'read_p99_ms', 'write_p50_ms', 'write_p90_ms',
        'write_p99_ms', 'p50_ms', 'p90_ms', 'p99_ms']);
    assert.deepEqual(r.rows.map((row) => row.workers), [8, 32, 64, 128, 256]);
    for (const row of r.rows) {
        assert.equal(row.requests, 1000);
        assert.equal(row.errors, 0);
    }
    assert.match(r.stdout, /7\.99.*1\.17/);
});

test('reference r4 takes away every pragma of the daemon in turn', TIMEOUT, async () => {
    const r = await benchOk(['reference', 'r4', '--step', `${50 * SLOW}ms`, '--rounds', '1'], 'reference-r4');
    const names = r.rows.map((row) => row.pragmas);

    columns(r.rows, ['upload_per_second', 'upload_ratio', 'download_per_second', 'download_ratio',
        'crossed_per_second', 'crossed_ratio']);
    assert.equal(names[0], 'all pragmas');
    for (const key of ['upload_ratio', 'download_ratio', 'crossed_ratio'])
        assert.equal(r.rows[0][key], 1);
    for (const pragma of ['journal_mode(WAL)', 'synchronous(NORMAL)', 'cache_size(', 'temp_store(MEMORY)',
        'mmap_size(', 'busy_timeout(', 'auto_vacuum(', 'wal_autocheckpoint('])
        assert.equal(names.filter((n) => n.startsWith(`without ${pragma}`)).length, 1, pragma);
    assert.match(r.stdout, /3\.42.*2\.90.*2\.58/);
});

test('reference r5 compares every answered point and misses none', TIMEOUT, async () => {
    const r = await benchOk(['reference', 'r5', '--step', '300ms', '--connections', '100'], 'reference-r5');

    columns(r.rows, ['clients', 'views', 'points_compared', 'misses', 'refused']);
    assert.deepEqual(r.rows.map((row) => row.clients), [100, 20, 20, 100, 100]);
    for (const row of r.rows) {
        assert.equal(row.misses, 0);
        assert.equal(row.points_compared, 10 * (row.views - row.refused));
        assert.ok(row.points_compared > 0);
    }
});

/* At 1,000 rows a half, many views lie over the change of halves, or are sealed by the time they are read. */
test('reference r5 finds its points while the head is sealed again and again', TIMEOUT, async () => {
    const r = await benchOk(['reference', 'r5', '--step', '500ms', '--connections', '20',
        '--set', 'head.max_rows=1000'], 'reference-r5');

    assert.deepEqual(r.rows.map((row) => row.misses), [0, 0, 0, 0, 0]);
    assert.ok(r.rows[0].points_compared > 2000);
});

/* Answered by one daemon, looked for in the file of another: what checks must tell of. */
async function benchElsewhere(t, args, name) {
    const sent = await Otlite.start();
    const looked = await Otlite.start();

    t.after(() => Promise.all([sent.stop(), looked.stop()]));
    const r = await bench([...args, '--url', `http://127.0.0.1:${sent.port}/v1/metrics`,
        '--data', looked.dir]);

    assert.equal(r.code, 1, r.stdout + r.stderr);
    return { ...r, ...JSON.parse(fs.readFileSync(path.join(r.out, `${name}.json`), 'utf8')) };
}

test('reference r5 tells of points that are not where they should be', TIMEOUT, async (t) => {
    const r = await benchElsewhere(t, ['reference', 'r5', '--step', '100ms', '--connections', '2'],
        'reference-r5');

    assert.ok(r.rows[0].views > 0);
    assert.equal(r.rows[0].misses, 10 * r.rows[0].views);
    assert.match(r.stdout, /First miss.*not there/);
});

test('a load whose answered points are not stored is a failure', TIMEOUT, async (t) => {
    const r = await benchElsewhere(t, ['overload', '--step', '100ms', '--rounds', '1'], 'overload');

    assert.ok(r.rows[0].missing > 0);
    assert.equal(r.rows[0].missing % 100, 0);
});

test('overload offers five times the peak', TIMEOUT, async () => {
    const r = await benchOk(['overload', '--step', '300ms', '--rounds', '1'], 'overload');

    columns(r.rows, ['points_per_second', 'refused_percent', 'refused_p50_ms', 'refused_p99_ms', 'failed',
        'missing', 'generator_cores']);
    assert.deepEqual(r.rows.map((row) => row.phase), ['peak', 'overload']);
    const ratio = r.rows[1].target_points_per_second / r.rows[0].points_per_second;

    assert.ok(Math.abs(ratio - 5) < 0.001, `${ratio}`);
    for (const row of r.rows)
        assert.equal(row.missing, 0);
});

test('reference all ends with the goals', TIMEOUT, async () => {
    const r = await benchOk(['reference', 'all', '--step', '20ms', '--requests', '200', '--rounds', '1'], 'goals');

    columns(r.rows, ['goal', 'wanted', 'measured', 'verdict']);
    for (const what of ['SDK-shaped', 'best payload', 'large payload', 'R3', 'R5', 'Overload'])
        assert.equal(r.rows.filter((row) => row.goal.includes(what)).length, 1, what);
    for (const row of r.rows)
        assert.match(row.verdict, /^(met|not met|unknown)$/);
    for (const name of ['reference-r1', 'reference-r3', 'reference-r4', 'reference-r5', 'overload'])
        assert.ok(fs.existsSync(path.join(r.out, `${name}.json`)), name);
});

test('an existing daemon is measured in place and left running', TIMEOUT, async (t) => {
    const d = await Otlite.start();

    t.after(() => d.stop());
    await benchOk(['overload', '--step', '100ms', '--rounds', '1', '--connections', '20', '--url',
        `http://127.0.0.1:${d.port}/v1/metrics`, '--pid', String(d.pid), '--data', d.dir], 'overload');
    assert.ok(d.alive);
    assert.ok(await d.one('SELECT count(*) FROM number_point') > 0);
});

test('SIGINT ends the daemon and removes its data', TIMEOUT, async () => {
    const tmp = tempDir();
    const child = spawn(BENCH, ['reference', 'r5', '--step', '60s', '--connections', '2'],
        { env: { ...cleanEnv(), TMPDIR: tmp }, stdio: ['ignore', 'ignore', 'inherit'] });
    const exited = new Promise((resolve) => child.on('exit', (code, signal) => resolve({ code, signal })));
    const pidOf = (log) => Number(/ pid=(\d+)/.exec(log)?.[1]);
    let pid;

    await until('the daemon serves', () => {
        const [scratch] = fs.readdirSync(tmp);
        const log = scratch && path.join(tmp, scratch, 'data.log');

        pid = log && fs.existsSync(log) ? pidOf(fs.readFileSync(log, 'utf8')) : 0;
        return pid > 0;
    });
    child.kill('SIGINT');
    assert.deepEqual(await exited, { code: 130, signal: null });
    assert.deepEqual(fs.readdirSync(tmp), []);
    assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' });
});

test('wrong arguments are told', TIMEOUT, async () => {
    for (const args of [['reference', 'r9'], ['reference', 'r1', '--step', 'soon'], ['reference', 'r1', 'x'],
        ['reference', 'r1', '--data', '/tmp'], ['reference', 'r4', '--url', 'http://127.0.0.1:1/'],
        ['reference', 'r1', '--connections', '0'], ['overload', '--set', 'nothing']]) {
        const r = await bench(args);

        assert.equal(r.code, 64, args.join(' '));
        assert.notEqual(r.stderr, '');
    }
});

test('maintain compares sealing with none, and runs everything at once', TIMEOUT, async () => {
    const r = await benchOk(['maintain', '--step', '200ms', '--rounds', '1', '--rate', '20000'], 'sealing');
    const ratio = r.rows[1].points_per_second / r.rows[0].points_per_second;

    assert.deepEqual(r.rows.map((row) => row.head), ['no sealing', 'sealing']);
    assert.ok(Math.abs(r.rows[1].ratio - ratio) < 0.001);
    assert.match(r.notes[0], new RegExp(ratio >= 0.9 ? ': met\\.$' : ': not met\\.$'));
    const beside = JSON.parse(fs.readFileSync(path.join(r.out, 'maintenance.json'), 'utf8'));
    const last = beside.rows[2];

    assert.equal(beside.rows.length, 3);
    for (const row of beside.rows)
        assert.ok(row.p50_ms <= row.p99_ms && row.p99_ms <= row.max_ms, JSON.stringify(row));
    assert.ok(last.backups >= 1 && last.queries >= 1, JSON.stringify(last));
    assert.ok(beside.rows[1].longest_task_ms > 0, JSON.stringify(beside.rows[1]));
    assert.ok(beside.notes.some((n) => n.startsWith('Goal: Latency with all maintenance, p99 in ms under 50')));
    assert.equal((await bench(['maintain', '--url', 'http://127.0.0.1:1'])).code, 64);
});

test('soak shows thirds, backs up, asks, and says what rises', TIMEOUT, async () => {
    const r = await benchOk(['soak', '--duration', '6s', '--rate', '20000'], 'soak');
    const rising = r.notes.filter((n) => n.startsWith('Not flat: ')).length;
    const did = r.notes.find((n) => n.startsWith('Beside it'));

    assert.deepEqual(r.rows.map((row) => row.third), ['first', 'middle', 'last']);
    for (const row of r.rows)
        assert.ok(row.resident_mib > 1 && row.unmapped_mib > 1 && row.head_rows > 0 && row.file_mib > 0 &&
            row.descriptors > 10, JSON.stringify(row));
    /* The verdict by its rule: what is a tenth above, and more than a little. */
    const slack = { resident_mib: 8, unmapped_mib: 8, wal_mib: 4, head_rows: 20000, file_mib: 8, descriptors: 4 };
    const [, middle, last] = r.rows;

    assert.equal(Object.keys(slack).filter((k) => last[k] > 1.1 * middle[k] && last[k] > middle[k] + slack[k]).length,
        rising);
    assert.match(r.notes.join('\n'), new RegExp(`how many rise under 1; measured ${rising}: ${rising ? 'not ' : ''}met`));
    assert.match(did, /^Beside it [1-9]\d* queries, .* 0 failed; [1-9]\d* backups, 0 failed;/);
    assert.ok(fs.existsSync(path.join(r.out, 'soak.svg')));
});
