'use strict';
/* `make install` puts what a package would hold under DESTDIR, and the binary works from there. */
const { test } = require('node:test');
const assert = require('node:assert/strict');
const { execFileSync, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { BIN, REPO, SAN, tempDir, cleanEnv } = require('./lib/otlite');

test('make install PREFIX= DESTDIR= installs the binary, the sample settings and the unit', () => {
    const dest = tempDir('install');

    execFileSync('make', ['install', `B=${path.dirname(BIN)}`, `SAN=${SAN}`, 'PREFIX=/opt/otlite',
        `DESTDIR=${dest}`], { cwd: REPO, stdio: 'pipe', env: cleanEnv() });
    const root = path.join(dest, 'opt', 'otlite');

    assert.match(String(execFileSync(path.join(root, 'bin', 'otlite'), ['version'],
        { env: cleanEnv() })), /^otlite \d+\.\d+\.\d+\n/);
    /* It gets as far as looking for the database. */
    assert.match(spawnSync('sqlite3', [':memory:', `.load ${path.join(root, 'lib', 'otlite', 'otlite')}`],
        { encoding: 'utf8' }).stderr, /otlite: open telemetry\.db first/);
    const conf = path.join(root, 'share', 'otlite', 'otlite.conf');

    execFileSync(path.join(root, 'bin', 'otlite'), ['check-config', '--config', conf],
        { env: cleanEnv(), stdio: 'pipe' });
    assert.ok(fs.statSync(path.join(root, 'lib', 'systemd', 'system', 'otlite.service')).size > 0);
});
