'use strict';
/* Browser senders: H-80 to H-86, with CORS off and on. */
const test = require('node:test');
const assert = require('node:assert/strict');
const { Otlite, SLOW } = require('./lib/otlite');

const TIMEOUT = { timeout: 60000 * SLOW };
const ORIGIN = 'https://app.example';

async function start(t, set = {}) {
    const d = await Otlite.start({ set });

    t.after(() => d.stop());
    return d;
}

function preflight(d, headers, path = '/v1/metrics') {
    return d.request('OPTIONS', path, { headers: {
        'origin': ORIGIN,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'content-type',
        ...headers,
    } });
}

function corsHeaders(r) {
    return Object.keys(r.headers).filter((h) => h.startsWith('access-control-'));
}

test('H-80 without cors.origins no answer speaks of CORS, and OPTIONS is 405', TIMEOUT, async (t) => {
    const d = await start(t);
    const p = await preflight(d);

    assert.equal(p.status, 405);
    assert.equal(p.headers.allow, 'POST');
    const r = await d.postJson('{}', { origin: ORIGIN });

    assert.equal(r.status, 200);
    for (const reply of [p, r]) {
        assert.deepEqual(corsHeaders(reply), []);
        assert.equal(reply.headers.vary, undefined);
    }
});

test('H-80 H-84 the answer to a POST allows the origin and exposes Retry-After', TIMEOUT, async (t) => {
    const d = await start(t, { 'cors.origins': ORIGIN });

    for (const [body, status] of [['{}', 200], ['[', 400]]) {
        const r = await d.postJson(body, { origin: ORIGIN });

        assert.equal(r.status, status);
        assert.equal(r.headers['access-control-allow-origin'], ORIGIN);
        assert.match(r.headers['access-control-expose-headers'], /Retry-After/i);
        assert.equal(r.headers.vary, 'Origin');
        assert.equal(r.headers['access-control-allow-credentials'], undefined);
    }
    for (const origin of ['https://evil.example', 'https://app.example.evil.test', 'null', undefined]) {
        const r = await d.postJson('{}', origin ? { origin } : {});

        assert.equal(r.status, 200, 'not a reason to refuse: browsers enforce it');
        assert.deepEqual(corsHeaders(r), [], String(origin));
        assert.equal(r.headers.vary, 'Origin');
    }
    assert.equal((await d.get('/nothing', { headers: { origin: ORIGIN } })).headers.vary, 'Origin');
    const m = await d.get('/v1/metrics');

    assert.equal(m.status, 405);
    assert.match(m.headers.allow, /^POST, ?OPTIONS$/);
});

test('H-81 H-82 a preflight that is allowed gets 204 and what it asked for', TIMEOUT, async (t) => {
    const d = await start(t, { 'cors.origins': ORIGIN, 'cors.max_age': '10m',
        'cors.headers': 'Authorization, X-Api-Key' });

    for (const asked of ['content-type', 'Content-Type, Accept', 'x-requested-with',
        'content-type,authorization', 'X-API-KEY']) {
        const r = await preflight(d, { 'access-control-request-headers': asked });

        assert.equal(r.status, 204, asked);
        assert.equal(r.body.length, 0);
        assert.equal(r.headers['access-control-allow-origin'], ORIGIN);
        assert.equal(r.headers['access-control-allow-methods'], 'POST');
        assert.equal(r.headers['access-control-allow-headers'].toLowerCase(), asked.toLowerCase());
        assert.equal(r.headers['access-control-max-age'], '600');
        for (const part of ['Origin', 'Access-Control-Request-Method',
            'Access-Control-Request-Headers'])
            assert.match(r.headers.vary, new RegExp(part, 'i'));
    }
});

test('H-81 H-82 a preflight that is not allowed gets 204 and nothing', TIMEOUT, async (t) => {
    const d = await start(t, { 'cors.origins': ORIGIN, 'cors.max_age': '10m' });

    for (const headers of [
        { 'origin': 'https://evil.example' },
        { 'access-control-request-method': 'DELETE' },
        { 'access-control-request-headers': 'authorization' },
        { 'access-control-request-headers': 'content-type, x-api-key' }]) {
        const r = await preflight(d, headers);

        assert.equal(r.status, 204, JSON.stringify(headers));
        assert.deepEqual(corsHeaders(r), [], JSON.stringify(headers));
        assert.match(r.headers.vary, /Origin/);
    }
});

test('H-83 origins match without case and with one *', TIMEOUT, async (t) => {
    const d = await start(t, { 'cors.origins': 'https://*.shop.example, http://localhost:*' });

    for (const origin of ['https://a.shop.example', 'https://A.B.Shop.Example', 'http://localhost:5173'])
        assert.equal((await d.postJson('{}', { origin })).headers['access-control-allow-origin'], origin);
    for (const origin of ['https://shop.example', 'http://a.shop.example',
        'https://a.shop.example.evil.test', 'https://localhost:1'])
        assert.deepEqual(corsHeaders(await d.postJson('{}', { origin })), [], origin);
});

test('H-83 H-85 credentials are allowed when configured, but not with a lone *', TIMEOUT, async (t) => {
    const d = await start(t, { 'cors.origins': ORIGIN, 'cors.credentials': 'true' });
    const p = await preflight(d);

    assert.equal(p.headers['access-control-allow-credentials'], 'true');
    assert.equal(p.headers['access-control-allow-origin'], ORIGIN);
    assert.equal((await d.postJson('{}', { origin: ORIGIN }))
        .headers['access-control-allow-credentials'], 'true');
    await assert.rejects(
        Otlite.start({ set: { 'cors.origins': '*', 'cors.credentials': 'true' } }),
        /cors\.credentials|cors\.origins/);
});

test('H-83 a lone * allows every origin', TIMEOUT, async (t) => {
    const d = await start(t, { 'cors.origins': '*' });
    const allowed = (await d.postJson('{}', { origin: 'https://any.example' }))
        .headers['access-control-allow-origin'];

    assert.ok(['*', 'https://any.example'].includes(allowed), String(allowed));
});

test('H-81 a preflight needs no token; the POST does', TIMEOUT, async (t) => {
    const { cliOk, tempDir } = require('./lib/otlite');
    const dir = tempDir();

    await cliOk(['token', 'create', '--data', dir, '--project', 'p', '--scope', 'write']);
    const d = await Otlite.start({ dir, set: { 'cors.origins': ORIGIN, 'cors.headers':
        'authorization' } });

    t.after(() => d.stop());
    assert.equal((await preflight(d, { 'access-control-request-headers':
        'authorization,content-type' })).status, 204);
    const r = await d.postJson('{}', { origin: ORIGIN });

    assert.equal(r.status, 401);
    assert.equal(r.headers['access-control-allow-origin'], ORIGIN, 'the page can read the refusal');
});
