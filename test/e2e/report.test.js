'use strict';
/* bench/report.sh puts measured tables into docs/performance.md: exactly what is between the markers
 * is replaced, and a page that cannot take all tables is left alone. */
const assert = require('node:assert');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { spawnSync } = require('node:child_process');
const { test, beforeEach, afterEach } = require('node:test');

const ROOT = path.join(__dirname, '..', '..');
const SCRIPT = path.join(ROOT, 'bench', 'report.sh');
let dir;

beforeEach(() => {
    dir = fs.mkdtempSync(path.join(os.tmpdir(), 'otlite-report.'));
    fs.mkdirSync(path.join(dir, 'results'));
});
afterEach(() => fs.rmSync(dir, { recursive: true }));

const page = () => path.join(dir, 'page.md');
const table = (name, text) => fs.writeFileSync(path.join(dir, 'results', name + '.md'), text);
const run = (...args) => spawnSync('sh', [SCRIPT, ...args], { encoding: 'utf8' });
const report = () => run(path.join(dir, 'results'), page());
const check = (text) => {
    fs.writeFileSync(page(), text);
    return run('--check', page());
};
const read = () => fs.readFileSync(page(), 'utf8');

test('what is between the markers is replaced, and nothing else', () => {
    fs.writeFileSync(page(), '# A\n\n<!-- bench:one -->\nold\n\nolder\n<!-- /bench:one -->\nkept & \\1\n' +
        '<!-- bench:two -->\n<!-- /bench:two -->\n\nend without newline');
    table('one', '| x |\n|---|\n| & \\n 1 |\n');
    table('two', '\n- note\n');
    assert.strictEqual(report().status, 0);
    assert.strictEqual(read(), '# A\n\n<!-- bench:one -->\n| x |\n|---|\n| & \\n 1 |\n' +
        '<!-- /bench:one -->\nkept & \\1\n<!-- bench:two -->\n\n- note\n<!-- /bench:two -->\n\n' +
        'end without newline\n');
});

test('a second report of the same tables changes nothing', () => {
    fs.writeFileSync(page(), '<!-- bench:one -->\n<!-- /bench:one -->\n');
    table('one', 'a\nb\n');
    assert.strictEqual(report().status, 0);
    const first = read();

    assert.strictEqual(report().status, 0);
    assert.strictEqual(read(), first);
});

test('a table without a marker fails, and the page stays', () => {
    const text = '<!-- bench:one -->\nold\n<!-- /bench:one -->\n';

    fs.writeFileSync(page(), text);
    table('one', 'new\n');
    table('two', 'new\n');
    const done = report();

    assert.notStrictEqual(done.status, 0);
    assert.match(done.stderr, /no <!-- bench:two -->/);
    assert.strictEqual(read(), text);
    assert.deepStrictEqual(fs.readdirSync(dir).sort(), ['page.md', 'results']);
});

test('a marker without a table keeps its content and is named', () => {
    const text = '<!-- bench:one -->\nold\n<!-- /bench:one -->\n<!-- bench:peer -->\nkept\n<!-- /bench:peer -->\n';

    fs.writeFileSync(page(), text);
    table('one', 'new\n');
    const done = report();

    assert.strictEqual(done.status, 0);
    assert.match(done.stderr, /peer was not measured/);
    assert.strictEqual(read(), text.replace('old', 'new'));
});

test('markers out of order fail', () => {
    for (const text of [
        '<!-- bench:a -->\n',
        '<!-- /bench:a -->\n',
        '<!-- bench:a -->\n<!-- bench:b -->\n<!-- /bench:b -->\n<!-- /bench:a -->\n',
        '<!-- bench:a -->\n<!-- /bench:b -->\n',
        '<!-- bench:a -->\n<!-- /bench:a -->\n<!-- bench:a -->\n<!-- /bench:a -->\n',
        'text <!-- bench:a -->\n<!-- /bench:a -->\n',
    ]) {
        assert.notStrictEqual(check(text).status, 0, text);
        table('a', 'new\n');
        assert.notStrictEqual(report().status, 0, text);
        assert.strictEqual(read(), text);
    }
});

test('a table of figures outside of the markers is found', () => {
    const figures = '| case | points/s |\n|---|---:|\n| x | 1 |\n';

    assert.strictEqual(check('<!-- bench:a -->\n' + figures + '<!-- /bench:a -->\n').status, 0);
    const done = check('text\n\n' + figures);

    assert.notStrictEqual(done.status, 0);
    assert.match(done.stderr, /page\.md:3: figures outside/);
    /* Words about figures are no table of them. */
    assert.strictEqual(check('| when | change |\n|---|---|\n| 1 | 5 points/s more |\n').status, 0);
});

test('docs/performance.md is in order', () => {
    const done = run('--check', path.join(ROOT, 'docs', 'performance.md'));

    assert.strictEqual(done.stderr, '');
    assert.strictEqual(done.status, 0);
});
