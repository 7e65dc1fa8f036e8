'use strict';
/* POST /api/v1/sql: forms of request and answer, what is refused, every limit, the scope that it needs. */
const test = require('node:test');
const assert = require('node:assert/strict');
const net = require('node:net');
const { SLOW, Otlite, cliOk, until } = require('./lib/otlite');
const { gauge, now, point, request } = require('./lib/otlp');

const TIMEOUT = { timeout: 60000 * SLOW };
const SQL = '/api/v1/sql';
/* Runs for as long as it is let. */
const ENDLESS = 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n';

const ask = (daemon, statement, headers = {}) =>
    daemon.post(statement, { 'content-type': 'text/plain', ...headers }, { path: SQL });
const askJson = (daemon, body, headers = {}) => daemon.postJson(body, headers, { path: SQL });

async function started(settings = {}) {
    const daemon = await Otlite.start({ set: settings });
    const r = await daemon.postJson(request([gauge('g', point(1n, { a: 'x' }), point(2.5, { a: 'y' }),
        point(NaN, { a: 'z' }))]));

    assert.equal(r.status, 200);
    return daemon;
}

test('requests and answers', TIMEOUT, async (t) => {
    const daemon = await started();

    t.after(() => daemon.stop());
    await t.test('a statement as text, the answer in JSON', async () => {
        const r = await ask(daemon, "SELECT 1 AS a, 2.0 AS b, NULL AS c, 'x\"' AS d, x'00ff' AS e," +
            ' 9e999 AS f, 9007199254740993 AS g -- end');

        assert.equal(r.status, 200);
        assert.equal(r.type, 'application/json');
        assert.match(r.text, /^\{"columns":\["a","b","c","d","e","f","g"\],\n"rows":\[\[1,2\.0,null,"x\\"","AP8=",9\.0e\+999,9007199254740993\]\],\n"truncated":false,"elapsed_ms":\d+\.\d{3}\}\n$/);
        assert.deepEqual(r.json.rows, [[1, 2, null, 'x"', 'AP8=', Infinity, 9007199254740992]]);
    });
    await t.test('other types of a body', async () => {
        for (const type of ['application/sql', 'text/plain; charset=utf-8'])
            assert.deepEqual((await ask(daemon, 'SELECT 7;', { 'content-type': type })).json.rows, [[7]]);
        assert.equal((await ask(daemon, 'SELECT 7', { 'content-type': 'text/html' })).status, 415);
        assert.equal((await ask(daemon, 'SELECT 7', { 'content-encoding': 'gzip' })).status, 415);
        assert.equal((await daemon.get(SQL)).status, 405);
    });
    await t.test('a statement with parameters in JSON', async () => {
        const r = await askJson(daemon, { sql: 'SELECT ?1, ?2, ?3, ?4, typeof(?5), ?6, ?5',
            params: [1, 'é', 2.5, null, true, [1, { a: 2 }]] });

        assert.deepEqual(r.json.rows, [[1, 'é', 2.5, null, 'integer', '[1,{"a":2}]', 1]]);
    });
    await t.test('what is wrong with a body is said', async () => {
        for (const [body, text] of [['{', /not a JSON object/], ['[1]', /not a JSON object/],
            [{}, /no statement/], [{ sql: 1 }, /"sql" must be a string/],
            [{ sql: 'SELECT 1', prams: [] }, /"prams"; known are sql, params, limit, timeout/],
            [{ sql: 'SELECT ?', params: 1 }, /"params" must be an array/],
            [{ sql: 'SELECT ?, ?', params: [1] }, /has 2 parameters, and params has 1/],
            [{ sql: 'SELECT 1', params: [1] }, /has 0 parameters, and params has 1/],
            [{ sql: 'SELECT 1', limit: -1 }, /"limit" must/], [{ sql: 'SELECT 1', limit: 'x' }, /"limit" must/],
            [{ sql: 'SELECT 1', timeout: 'soon' }, /"timeout" must/],
            [{ sql: 'SELECT 1; SELECT 2' }, /more than one statement/],
            [{ sql: 'SELECT 1; nonsense' }, /more than one statement/],
            [{ sql: 'SELECT 1\u0000; SELECT 2' }, /\\u0000/], [{ sql: 'SELECT ?', params: ['\\\u0000'] }, /\\u0000/], [{ sql: ' -- nothing' }, /no statement/]]) {
            const r = await askJson(daemon, body);

            assert.equal(r.status, 400, JSON.stringify(body));
            assert.match(r.json.message, text);
        }
        assert.equal((await ask(daemon, 'SELECT 1; -- two\n;')).status, 200);
    });
    await t.test("SQLite's errors come with the place", async () => {
        const r = await ask(daemon, 'SELECT 1,\n  nope FROM series');

        assert.equal(r.status, 400);
        assert.equal(r.json.message, 'no such column: nope (line 2, column 3)');
        assert.equal((await ask(daemon, 'SELECT abs(-9223372036854775807 - 1)')).json.message,
            'integer overflow');
    });
    await t.test('CSV', async () => {
        const r = await ask(daemon, "SELECT 1 AS \"a,b\", 'x\"y' AS c, NULL AS d, '' AS e UNION ALL" +
            " SELECT 2, 'z', 1.5, 'w'", { accept: 'text/csv' });

        assert.match(r.type, /^text\/csv/);
        assert.equal(r.text, '"a,b",c,d,e\n1,"x""y",,""\n2,z,1.5,w\n');
    });
    await t.test('the points are there', async () => {
        const r = await ask(daemon, "SELECT label(attributes, 'a') AS a, value FROM points ORDER BY a");

        assert.deepEqual(r.json.columns, ['a', 'value']);
        assert.deepEqual(r.json.rows, [['x', 1], ['y', 2.5], ['z', null]]);
    });
});

test('nothing that writes or reaches outside gets through', TIMEOUT, async (t) => {
    const daemon = await started();

    t.after(() => daemon.stop());
    for (const [statement, named] of [
        ["INSERT INTO histogram_bounds(bounds) VALUES ('[]')", /INSERT into histogram_bounds/],
        ['DELETE FROM series', /DELETE from series/], ["UPDATE metric SET name = ''", /UPDATE of metric/],
        ['DROP TABLE series', /refused/], ['CREATE TABLE t (a)', /refused/], ['CREATE TEMP TABLE t (a)', /refused/],
        ["ATTACH '/tmp/x.db' AS x", /ATTACH/], ["VACUUM INTO '/tmp/x.db'", /refused|cannot VACUUM/],
        ["SELECT load_extension('x')", /the function load_extension/],
        ['PRAGMA query_only = OFF', /PRAGMA query_only with a value/],
        ['PRAGMA temp_store_directory', /PRAGMA temp_store_directory/],
        ['PRAGMA wal_checkpoint', /PRAGMA wal_checkpoint/], ['PRAGMA integrity_check', /PRAGMA integrity_check/],
        ['BEGIN', /transaction/], ['COMMIT', /transaction/], ['SAVEPOINT a', /savepoint/], ['REINDEX', /refused/],
        ['ANALYZE', /refused/], ["SELECT * FROM pragma_user_version(9)", /refused|too many/],
        ['SELECT * FROM state.token', /no such table/]]) {
        const r = await ask(daemon, statement);

        assert.equal(r.status, 400, statement);
        assert.match(r.json.message, named, statement);
    }
    for (const fine of ['EXPLAIN SELECT 1', 'EXPLAIN QUERY PLAN SELECT * FROM series',
        "SELECT name FROM pragma_table_info('series')", 'PRAGMA user_version', 'VALUES (1)'])
        assert.equal((await ask(daemon, fine)).status, 200, fine);
});

test('limits', TIMEOUT, async (t) => {
    const daemon = await started({ 'query.timeout': '2s', 'query.max_rows': 10, 'query.max_bytes': '2K',
        'query.max_memory': '16M' });
    const NUMBERS = 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 11) SELECT i FROM n';

    t.after(() => daemon.stop());
    await t.test('rows', async () => {
        const r = await ask(daemon, NUMBERS);

        assert.equal(r.json.rows.length, 10);
        assert.equal(r.json.truncated, true);
        assert.equal(r.headers['otlite-truncated'], 'true');
        const ten = await ask(daemon, NUMBERS.replace('11', '10'));

        assert.equal(ten.json.rows.length, 10);
        assert.equal(ten.json.truncated, false);
        const three = await askJson(daemon, { sql: NUMBERS, limit: 3 }, { accept: 'text/csv' });

        assert.equal(three.text, 'i\n1\n2\n3\n');
        assert.equal(three.headers['otlite-truncated'], 'true');
        assert.equal((await askJson(daemon, { sql: NUMBERS, limit: 1000 })).json.rows.length, 10);
    });
    await t.test('bytes: whole rows as far as they fit', async () => {
        const r = await ask(daemon, "SELECT 'short' UNION ALL SELECT hex(zeroblob(2000)) UNION ALL SELECT 'no'");

        assert.equal(r.status, 200);
        assert.deepEqual(r.json.rows, [['short']]);
        assert.equal(r.json.truncated, true);
    });
    await t.test('time, by the settings and by the request', async () => {
        for (const r of [await ask(daemon, ENDLESS), await askJson(daemon, { sql: ENDLESS, timeout: '50ms' })]) {
            assert.equal(r.status, 503);
            assert.match(r.json.message, /longer than (2000|50) ms/);
        }
    });
    await t.test('memory', async () => {
        const r = await ask(daemon, 'WITH RECURSIVE n(i, s) AS (SELECT 1, zeroblob(1) UNION ALL' +
            ' SELECT i + 1, randomblob(100000) FROM n) SELECT group_concat(hex(s)) FROM n');

        assert.equal(r.status, 413, r.text);
        assert.match(r.json.message, /query\.max_memory/);
    });
    await t.test('length of the statement', async () => {
        assert.equal((await ask(daemon, `SELECT 1 -- ${'x'.repeat(1 << 20)}`)).status, 413);
    });
    assert.equal((await ask(daemon, 'SELECT 1')).status, 200);
});

test('a query ends when its client goes away', TIMEOUT, async (t) => {
    const daemon = await started({ 'query.timeout': '10m' });

    t.after(() => daemon.stop());
    const clients = [1, 2, 3].map(() => net.connect(daemon.port, '127.0.0.1'));

    for (const s of clients)
        s.write(`POST ${SQL} HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n` +
            `Content-Length: ${ENDLESS.length}\r\n\r\n${ENDLESS}`);
    await until('they run', async () => (await daemon.metric('otlite_queries_running')) === 3);
    assert.equal(await daemon.metric('otlite_queries_cancelled_total'), 0);
    for (const s of clients)
        s.destroy();
    await until('they ended', async () => (await daemon.metric('otlite_queries_running')) === 0);
    assert.equal(await daemon.metric('otlite_queries_cancelled_total'), 3);
    assert.equal(await daemon.metric('otlite_queries_total'), 3);
    assert.equal((await ask(daemon, 'SELECT 1')).status, 200);
});

test('it needs the scope read, and admin when there are other projects', TIMEOUT, async (t) => {
    const daemon = await Otlite.start();
    const token = async (...args) => (await cliOk(['token', 'create', '--data', daemon.dir, ...args])).trim();
    const bearer = (secret) => ({ authorization: `Bearer ${secret}` });

    t.after(() => daemon.stop());
    const write = await token('--scope', 'write');
    const read = await token('--scope', 'read');
    const admin = await token('--scope', 'admin');
    const other = await token('--project', 'other', '--scope', 'write,read');
    const count = (secret) => ask(daemon, 'SELECT count(*) FROM resource', bearer(secret));
    const put = (secret) => daemon.postJson(request([gauge('g', { timeUnixNano: now(), asInt: '1' })]), bearer(secret));

    /* Each may be seen at a time of its own. */
    await until('the tokens are known', async () => (await ask(daemon, 'SELECT 1')).status === 401 && (await put(write)).status === 200 &&
        (await Promise.all([read, admin, other].map(count))).every((r) => r.status !== 401));
    assert.equal((await count(write)).status, 403);
    assert.deepEqual((await count(read)).json.rows, [[1]]);
    const foreign = await count(other);

    assert.equal(foreign.status, 403);
    assert.match(foreign.json.message, /other projects/);
    assert.equal((await put(other)).status, 200);
    assert.equal((await count(read)).status, 403);
    assert.deepEqual((await count(admin)).json.rows, [[2]]);
});
