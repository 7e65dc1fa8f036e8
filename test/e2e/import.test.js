'use strict';
/* otlite import: what export wrote comes back equal, can be imported twice, and stops at a line that it
 * cannot read, saying which. */
const test = require('node:test');
const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { Otlite, SLOW, cli, cliOk, tempDir } = require('./lib/otlite');
const { encode, gauge, now, point, request } = require('./lib/otlp');
const { everything } = require('./lib/everything');
const { dump } = require('./lib/dump');

const TIMEOUT = { timeout: 60000 * SLOW };
const NO_SLACK = ['--set', 'otlp.future_slack=0s'];

async function exported(t) {
    const d = await Otlite.start({ set: { 'otlp.future_slack': '0s' } });

    t.after(() => d.stop());
    assert.equal((await d.postProto(encode(everything()))).status, 200);
    for (let i = 0; i < 20; i++)
        assert.equal((await d.postProto(encode(request([gauge(`import.${i}`, point(i, { i: BigInt(i) }))])))).status,
            200);
    return { d, text: await cliOk(['export', '--data', d.dir]) };
}

test('export, import, export: equal', TIMEOUT, async (t) => {
    const { d, text } = await exported(t);
    const dir = tempDir();
    const points = await d.one('SELECT count(*) FROM points');
    const said = await cliOk(['import', '--data', dir, ...NO_SLACK, '-'], { input: text });

    assert.match(said, /: \d+ stored .* 0 were there already, 0 rejected\n$/);
    assert.deepEqual((await cliOk(['export', '--data', dir])).split('\n').sort(), text.split('\n').sort());
    assert.deepEqual(await dump(dir), await dump(d.dir));
    assert.ok(Number(points) > 20);
    /* state.db knows the services, as if they had sent it. */
    assert.match(await cliOk(['sql', '--data', dir, 'SELECT count(*) FROM state.services']), /[1-9]/);
    /* Again: everything is there already. */
    const file = path.join(tempDir(), 'points.jsonl');

    fs.writeFileSync(file, text);
    assert.match(await cliOk(['import', '--data', dir, ...NO_SLACK, file]), / points: 0 stored .* 0 rejected\n$/);
    assert.deepEqual(await dump(dir), await dump(d.dir));
});

test('a line that is no request ends the import and is named; what came before it is stored', TIMEOUT,
    async () => {
        const dir = tempDir();
        const line = (name) => JSON.stringify(request([{ name, gauge: { dataPoints: [
            { timeUnixNano: now(), asInt: '1' }] } }]));
        const r = await cli(['import', '--data', dir, '-'],
            { input: `${line('first')}\n\n${line('second')}\n{"resourceMetrics":[{]\n${line('never')}\n` });

        assert.equal(r.code, 65, r.stderr);
        assert.match(r.stderr, /standard input, line 4: /);
        assert.match(r.stdout, /2 stored/);
        assert.equal((await cliOk(['sql', '--data', dir, '--csv', 'SELECT group_concat(name, 0) FROM metric'])).trim(),
            'first0second');
    });

test('rejected points are counted by reason, with the line', TIMEOUT, async () => {
    const dir = tempDir();
    const bad = JSON.stringify(request([{ name: '', gauge: { dataPoints: [{ timeUnixNano: now(), asInt: '1' }] } }]));
    const r = await cli(['import', '--data', dir, '-'], { input: `${bad}\n` });

    assert.equal(r.code, 65);
    assert.match(r.stdout, /1 points: 0 stored .* 1 rejected\n {2}1 rejected: .* \(first in line 1\)\n$/);
});

test('more than the head takes is sealed on the way', TIMEOUT, async () => {
    const dir = tempDir();
    const lines = Array.from({ length: 30 }, (_, i) => JSON.stringify(request([{ name: 'many', gauge: { dataPoints:
        Array.from({ length: 1000 }, (__, k) => ({ timeUnixNano: (BigInt(now()) - BigInt(30 - i) * 1000000000n).toString(),
            asInt: String(i), attributes: [{ key: 'k', value: { intValue: String(k) } }] })) } }])));

    assert.match(await cliOk(['import', '--data', dir, '--set', 'head.max_rows=1000', '-'],
        { input: `${lines.join('\n')}\n` }), /30000 points: 30000 stored/);
    const said = JSON.parse(await cliOk(['stats', '--data', dir, '--json']));

    assert.equal(said.points, 30000);
    assert.ok(said.chunks > 0 && said.head_points < 30000);
    assert.match(await cliOk(['check', '--data', dir]), /all is well/);
});

test('not beside a daemon, and not for a project that is not there', TIMEOUT, async (t) => {
    const d = await Otlite.start();

    t.after(() => d.stop());
    const busy = await cli(['import', '--data', d.dir, '-'], { input: '' });

    assert.notEqual(busy.code, 0);
    assert.match(busy.stderr, /serves the data directory/);
    const nobody = await cli(['import', '--data', tempDir(), '--project', 'nobody', '-'], { input: '' });

    assert.notEqual(nobody.code, 0);
    assert.match(nobody.stderr, /nobody/);
});
