'use strict';
/* What is sealed and what is not read the same, in every subcommand; a damaged chunk is reported and left
 * out; a backup is right while sealing runs. */
const test = require('node:test');
const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { Otlite, SLOW, cli, cliOk, tempDir, until } = require('./lib/otlite');
const { attrs, encode, gauge, histogram, now, point, request, sum } = require('./lib/otlp');
const { everything } = require('./lib/everything');

const TIMEOUT = { timeout: 120000 * SLOW };
/* The head is closed when it has 1,000 rows, or its oldest is so old. */
const SMALL_HEAD = { 'head.max_rows': '1000', 'otlp.future_slack': '0s' };
const SECOND = 1000000000n;
const START = (BigInt(Date.now()) / 1000n - 7200n) * SECOND;

/* Points of the i-th export: a counter and a gauge with 50 series each, a histogram. */
function collected(i) {
    const timeUnixNano = (START + BigInt(i) * 10n * SECOND).toString();
    const at = (k, value) => ({ timeUnixNano, startTimeUnixNano: START.toString(),
        attributes: attrs({ k: BigInt(k), route: `/r${k % 5}` }), ...value });
    const each = (fn) => Array.from({ length: 50 }, (_, k) => fn(k));

    return request([
        sum('requests', { isMonotonic: true }, ...each((k) => at(k, { asInt: String(i * (k + 1)) }))),
        gauge('temperature', ...each((k) => at(k, { asDouble: Math.round(2000 * Math.sin(i + k)) / 100 }))),
        histogram('latency', at(0, { count: String(3 * i), sum: i / 8, explicitBounds: [0.1, 1],
            bucketCounts: [String(i), String(i), String(i)],
            exemplars: [{ timeUnixNano, asDouble: 0.5, traceId: '000102030405060708090a0b0c0d0e0f' }] })),
    ]);
}

async function sent(d, from, to) {
    for (let i = from; i < to; i++)
        assert.equal((await d.postProto(encode(collected(i)))).status, 200);
}

const sealed = async (d) => Number(await d.metric('otlite_halves_sealed_total'));

test('sealed or not: the same export, CSV, OpenMetrics and statistics', TIMEOUT, async (t) => {
    const a = await Otlite.start({ set: SMALL_HEAD });
    const b = await Otlite.start({ set: { 'otlp.future_slack': '0s' } });

    t.after(() => a.stop());
    t.after(() => b.stop());
    const all = encode(everything());

    for (const d of [a, b]) {
        assert.equal((await d.postProto(all)).status, 200);
        for (let k = 0; k < 3; k++) {
            await sent(d, 20 * k, 20 * k + 20);
            if (d === a)
                await until('a half to be sealed', async () => await sealed(a) > k);
        }
    }
    assert.equal(await sealed(b), 0);
    for (const args of [['--format', 'otlp-json'], ['--format', 'csv'], ['--format', 'openmetrics'],
        ['--match', 'requests{route="/r3"}', '--format', 'csv'],
        ['--match', '{__name__=~"temp.*",k!="7"}', '--from', (Number(START / SECOND) + 100).toString(),
            '--to', (Number(START / SECOND) + 200).toString()]]) {
        const x = await cliOk(['export', '--data', a.dir, ...args]);
        const y = await cliOk(['export', '--data', b.dir, ...args]);

        assert.ok(x === y, `${args.join(' ')}: not the same`);
        assert.ok(x.length > 100);
    }
    const some = await cliOk(['export', '--data', a.dir, '--match', 'requests{route="/r3"}', '--format', 'csv']);

    assert.equal(some.trimEnd().split('\n').length, 1 + 60 * 10, 'ten series of sixty points, and a header');
    const said = JSON.parse(await cliOk(['stats', '--data', a.dir, '--json']));
    const unsealed = JSON.parse(await cliOk(['stats', '--data', b.dir, '--json']));

    assert.deepEqual(said.rows, unsealed.rows);
    assert.equal(said.points, unsealed.points);
    assert.ok(said.head_points < said.points && said.parts > 0 && said.chunks > 0);
    assert.equal(unsealed.head_points, unsealed.points);
    assert.equal(said.top_metrics.find((m) => m.metric === 'requests').points, 3000);
    assert.ok(said.top_metrics.find((m) => m.metric === 'requests').sealed_bytes > 0);
    assert.deepEqual(said.top_keys.find((k) => k.key === 'route'), { key: 'route', values: 5, series: 101 });
    for (const d of [a, b])
        assert.match(await cliOk(['check', '--data', d.dir]), /all is well/);
});

test('OpenMetrics that Prometheus reads', TIMEOUT, async (t) => {
    const d = await Otlite.start();

    t.after(() => d.stop());
    await sent(d, 1, 4);
    const text = await cliOk(['export', '--data', d.dir, '--format', 'openmetrics']);
    const lines = text.split('\n');
    const time = (i) => (Number(START / SECOND) + 10 * i).toString();

    assert.deepEqual(lines.filter((l) => l.startsWith('# TYPE')),
        ['# TYPE latency histogram', '# TYPE requests counter', '# TYPE temperature gauge']);
    assert.equal(lines.at(-2), '# EOF');
    assert.ok(lines.includes(`requests_total{job="e2e",k="3",otel_scope_name="e2e",route="/r3"} 8 ${time(2)}`),
        text.slice(0, 4000));
    assert.ok(lines.some((l) => /^latency_bucket\{.*le="1\.0"\} 4 .* # \{trace_id="0001.*0f"\} 0\.5 /.test(l)));
    assert.ok(lines.some((l) => /^latency_bucket\{.*le="\+Inf"\} 6 /.test(l)));
    let promtool = true;

    try {
        execFileSync('promtool', ['--version'], { stdio: 'ignore' });
    } catch {
        promtool = false;
    }
    if (!promtool)
        return t.diagnostic('promtool is not there: only the lines were looked at');
    const file = path.join(tempDir(), 'om.txt');

    fs.writeFileSync(file, text);
    execFileSync('promtool', ['tsdb', 'create-blocks-from', 'openmetrics', file, tempDir()], { stdio: 'pipe' });
});

test('a damaged chunk is told by check, left out by export, and harms nothing else', TIMEOUT, async (t) => {
    const dir = tempDir();
    const d = await Otlite.start({ dir, set: SMALL_HEAD });

    t.after(() => d.stop());
    await sent(d, 0, 20);
    await until('a half to be sealed', async () => await sealed(d) >= 1);
    await sent(d, 20, 40);
    await until('another one to be sealed', async () => await sealed(d) >= 2);
    const whole = (await cliOk(['export', '--data', dir, '--format', 'csv'])).split('\n').length;

    await d.stop();
    /* A byte in the middle of a block of numbers, which is one of a stream. */
    execFileSync('sqlite3', [path.join(dir, 'telemetry.db'), `UPDATE block SET data = CAST(substr(data, 1, length(data) - 40) ||
        CASE substr(data, length(data) - 39, 1) WHEN x'00' THEN x'01' ELSE x'00' END ||
        substr(data, length(data) - 38) AS BLOB)
        WHERE id = (SELECT min(b.id) FROM block b JOIN part p ON p.id = b.id >> 24
                    WHERE p.kind = 'number' AND p.resolution = 0 AND p.live = 1);`]);
    const found = await cli(['check', '--data', dir]);

    assert.equal(found.code, 65, found.stdout + found.stderr);
    assert.match(found.stdout, /^block \d+/m);
    assert.match(found.stdout, /[1-9]\d* faults?; restore/);
    const again = await Otlite.start({ dir, set: SMALL_HEAD });

    t.after(() => again.stop());
    const rest = await cliOk(['export', '--data', dir, '--format', 'csv']);

    assert.ok(rest.split('\n').length < whole && rest.split('\n').length > whole / 3);
    await sent(again, 40, 60);
    assert.ok(again.alive);
});

test('backups taken while points come in, are sealed and merged, hold whole requests', TIMEOUT, async (t) => {
    const d = await Otlite.start({ set: SMALL_HEAD });
    let done = false;

    t.after(() => d.stop());
    const sending = (async () => {
        try {
            for (let i = 0; i < 150; i++) {
                let { status } = await d.postProto(encode(collected(i)));

                while (status === 503) /* sealing is behind: ask again */
                    ({ status } = await d.postProto(encode(collected(i))));
                assert.equal(status, 200);
            }
        } finally {
            done = true;
        }
    })();
    const copies = [];

    sending.catch(() => {}); /* awaited below */

    while (!done) {
        const dir = path.join(tempDir(), 'copy');

        await cliOk(['backup', '--data', d.dir, dir]);
        copies.push(dir);
    }
    await sending;
    assert.ok(copies.length >= 2);
    for (const dir of copies) {
        const csv = (await cliOk(['export', '--data', dir, '--format', 'csv'])).trimEnd().split('\n').slice(1);
        const exports = new Set(csv.map((l) => l.split(',')[1]));

        assert.equal(csv.length, exports.size * 100, 'each export has its hundred points');
        /* They came in one after the other, so the copy has a beginning of them. */
        assert.ok(exports.size === 0 ||
            exports.has((START + BigInt(exports.size - 1) * 10n * SECOND).toString()));
        const checked = await cli(['check', '--data', dir]);

        assert.equal(checked.code, 0, checked.stdout.slice(0, 2000));
    }
});
