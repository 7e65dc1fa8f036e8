'use strict';
/* Tokens and projects: H-78, and what the daemon serves with and without tokens. */
const test = require('node:test');
const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { Otlite, SLOW, cli, cliOk, sqlite3, tempDir, until } = require('./lib/otlite');
const { encode, gauge, point, readStatus, request } = require('./lib/otlp');

const TIMEOUT = { timeout: 60000 * SLOW };
const bearer = (token) => ({ authorization: `Bearer ${token}` });

/* The token is what `otlite token create` prints on stdout. */
async function token(dir, scope, project = 'shop') {
    const out = await cliOk(['token', 'create', '--data', dir, '--project', project, '--scope', scope]);
    const words = out.trim().split(/\s+/);

    return words[words.length - 1];
}

const one = (name) => request([gauge(name, point(1))]);

test('H-78 no token and a wrong one are 401, a token without the scope 403, with a Status', TIMEOUT,
    async (t) => {
        const dir = tempDir();
        const write = await token(dir, 'write');
        const read = await token(dir, 'read');
        const admin = await token(dir, 'admin');
        const d = await Otlite.start({ dir });

        t.after(() => d.stop());
        for (const headers of [{}, bearer('wrong'), bearer(''), bearer(`${write}x`),
            bearer(write.slice(0, -1)), { authorization: `Basic ${write}` }, { authorization: write }]) {
            for (const r of [await d.postJson(one('auth'), headers),
                await d.postProto(encode(one('auth')), headers)]) {
                assert.equal(r.status, 401, JSON.stringify(headers));
                assert.match(r.headers['www-authenticate'], /^Bearer/);
                assert.ok(readStatus(r).message.length > 10);
                assert.ok(!r.body.includes(write));
            }
        }
        const r = await d.postJson(one('auth'), bearer(read));

        assert.equal(r.status, 403);
        assert.match(readStatus(r).message, /write/);
        assert.equal((await d.postJson(one('auth'), bearer(write))).status, 200);
        assert.equal((await d.postJson(one('auth'), { authorization: `bearer ${write}` })).status, 200,
            'the scheme compares without case');
        assert.equal((await d.postJson(one('auth'), bearer(admin))).status, 200, 'admin implies write');
        assert.equal(await d.one('SELECT count(*) FROM number_point'), 3);
        assert.equal((await d.get('/healthz')).status, 200, 'probes need no token');
        assert.equal((await d.get('/readyz')).status, 200);
        assert.ok(!d.log.includes(write), 'no token in the log');
    });

test('a token is printed once and only its hash is stored', TIMEOUT, async () => {
    const dir = tempDir();
    const text = await token(dir, 'write');

    assert.ok(text.length >= 32, text);
    for (const file of fs.readdirSync(dir))
        assert.ok(!fs.readFileSync(path.join(dir, file)).includes(text), `${file} holds the token`);
    const list = await cliOk(['token', 'list', '--data', dir]);

    assert.ok(!list.includes(text));
    assert.match(list, /shop/);
    assert.match(list, /write/);
    assert.notEqual(await token(dir, 'write'), text);
});

test('a project is part of identity: equal resources of two projects are two', TIMEOUT, async (t) => {
    const dir = tempDir();
    const a = await token(dir, 'write', 'a');
    const b = await token(dir, 'write', 'b');
    const d = await Otlite.start({ dir });

    t.after(() => d.stop());
    const body = one('shared');

    for (const tok of [a, b, a, b])
        assert.equal((await d.postJson(body, bearer(tok))).status, 200);
    assert.equal(await d.one('SELECT count(*) FROM resource'), 2);
    assert.equal(await d.one('SELECT count(DISTINCT project_id) FROM resource'), 2);
    assert.equal(await d.one('SELECT count(*) FROM number_point'), 2);
});

test('a token made while the daemon runs counts after SIGHUP, a revoked one no more', TIMEOUT,
    async (t) => {
        const d = await Otlite.start();

        t.after(() => d.stop());
        assert.equal((await d.postJson(one('open'))).status, 200, 'no token defined: loopback is open');
        const tok = await token(d.dir, 'write');

        d.child.kill('SIGHUP');
        await until('the daemon wants a token', async () => (await d.postJson('{}')).status === 401);
        assert.equal((await d.postJson('{}', bearer(tok))).status, 200);
        const second = await token(d.dir, 'write');
        const list = await cliOk(['token', 'list', '--data', d.dir]);
        const id = /^\s*(\d+)\s/m.exec(list)[1];

        await cliOk(['token', 'revoke', '--data', d.dir, id]);
        d.child.kill('SIGHUP');
        await until('the revoked token is refused',
            async () => (await d.postJson('{}', bearer(tok))).status === 401);
        assert.equal((await d.postJson('{}', bearer(second))).status, 200);
    });

test('without a token only loopback is served; auth = none or a token lifts that', TIMEOUT,
    async (t) => {
        const dir = tempDir();
        const args = ['serve', '--listen', '0.0.0.0:0', '--data', dir];
        const r = await cli(args, { timeout: 10000 });

        assert.notEqual(r.code, 0);
        assert.notEqual(r.code, null, 'it ends by itself');
        assert.match(r.stderr, /token/);
        const open = await Otlite.start({ dir, listen: '0.0.0.0:0', set: { auth: 'none' } });

        assert.equal((await open.postJson('{}')).status, 200);
        await open.stop();
        const tok = await token(dir, 'write');
        const d = await Otlite.start({ dir, listen: '0.0.0.0:0' });

        t.after(() => d.stop());
        assert.equal((await d.postJson('{}')).status, 401);
        assert.equal((await d.postJson('{}', bearer(tok))).status, 200);
    });

test('the catalogue of services and metrics is in state.db before the 200', TIMEOUT, async (t) => {
    const d = await Otlite.start();

    t.after(() => d.stop());
    assert.equal((await d.postJson(request([{ ...gauge('seen.metric', point(1)), unit: 'ms',
        description: 'Seen' }], { resource: { 'service.name': 'seen-service' } }))).status, 200);
    const text = await sqlite3(path.join(d.dir, 'state.db'), '.dump');

    assert.match(text, /seen-service/);
    assert.match(text, /seen\.metric/);
});
