'use strict';
/* Debian's Prometheus as the oracle: started on loopback with an empty directory, filled by remote
 * write (which, unlike OpenMetrics, has stale markers and native histograms), and asked. */
const { execFileSync, spawn } = require('node:child_process');
const fs = require('node:fs');
const http = require('node:http');
const net = require('node:net');
const path = require('node:path');

const { STALE, BOUNDS } = require('./data.js');

const BUILD = path.resolve(__dirname, '..', '..', 'build');

/* Where the binary is, or null: in PATH, or unpacked by install.sh beside the build. */
function binary() {
    for (const file of ['prometheus', path.join(BUILD, 'oracle', 'usr', 'bin', 'prometheus')])
        try {
            execFileSync(file, ['--version'], { stdio: 'ignore' });
            return file;
        } catch {
            /* the next one */
        }
    return null;
}

/* ---- remote write: prometheus.WriteRequest in the snappy block format ---- */

function varint(n) {
    const out = [];

    n = BigInt.asUintN(64, BigInt(n));
    do {
        const b = Number(n & 0x7fn);

        n >>= 7n;
        out.push(n ? b | 0x80 : b);
    } while (n);
    return Buffer.from(out);
}
const zigzag = (n) => varint((BigInt(n) << 1n) ^ (BigInt(n) >> 63n));
const tag = (field, wire) => varint((field << 3) | wire);
const bytes = (field, b) => Buffer.concat([tag(field, 2), varint(b.length), b]);

function bits(value) {
    const b = Buffer.alloc(8);

    if (value === STALE)
        b.writeBigUInt64LE(0x7ff0000000000002n);
    else if (Number.isNaN(value))
        b.writeBigUInt64LE(0x7ff8000000000001n);
    else
        b.writeDoubleLE(value);
    return b;
}
const double = (field, value) => Buffer.concat([tag(field, 1), bits(value)]);

function snappy(body) {
    const parts = [varint(body.length)];

    for (let i = 0; i < body.length; i += 65536) {
        const n = Math.min(65536, body.length - i);

        parts.push(Buffer.from([61 << 2, (n - 1) & 255, (n - 1) >> 8]), body.subarray(i, i + n));
    }
    return Buffer.concat(parts);
}

function series(labels, samples, histograms = []) {
    const names = Object.keys(labels).sort();

    return bytes(1, Buffer.concat([
        ...names.map((n) => bytes(1, Buffer.concat([bytes(1, Buffer.from(n)), bytes(2, Buffer.from(labels[n]))]))),
        ...samples.map(([t, v]) => bytes(2, Buffer.concat([double(1, v), tag(2, 0), varint(t)]))),
        ...histograms.map((h) => bytes(4, h)),
    ]));
}

/* Buckets without gaps as one span, counts as deltas. Index of Prometheus: offset + i + 1. */
function spans(field, deltas, { offset, counts }) {
    let last = 0;
    const d = counts.map((c) => {
        const delta = c - last;

        last = c;
        return zigzag(delta);
    });

    return [bytes(field, Buffer.concat([tag(1, 0), zigzag(offset + 1), tag(2, 0), varint(counts.length)])),
        bytes(deltas, Buffer.concat(d))];
}

function native(t, h) {
    return Buffer.concat([tag(1, 0), varint(h.count), double(3, h.sum), tag(4, 0), zigzag(h.scale),
        double(5, h.zeroThreshold), tag(6, 0), varint(h.zero), ...spans(8, 9, h.negative),
        ...spans(11, 12, h.positive), tag(15, 0), varint(t)]);
}

/* One entry of the dataset as Prometheus' series. */
function expand(s) {
    const labels = { ...s.labels, __name__: s.name };
    const of = (suffix, more, pick) => ({
        labels: { ...s.labels, ...more, __name__: s.name + suffix },
        samples: s.samples.map(([t, v]) => [t, v === STALE ? v : pick(v)]),
    });

    if (s.type === 'exponential')
        return [{ labels, samples: [], histograms: s.samples }];
    if (s.type !== 'histogram')
        return [{ labels, samples: s.samples }];
    return [
        ...BOUNDS.map((b, i) => of('_bucket', { le: String(b) },
            (v) => v.counts.slice(0, i + 1).reduce((x, y) => x + y))),
        of('_bucket', { le: '+Inf' }, (v) => v.count),
        of('_sum', {}, (v) => v.sum),
        of('_count', {}, (v) => v.count),
    ];
}

async function freePort() {
    return new Promise((resolve, reject) => {
        const s = net.createServer();

        s.on('error', reject);
        s.listen(0, '127.0.0.1', () => {
            const { port } = s.address();

            s.close(() => resolve(port));
        });
    });
}

class Prometheus {
    /* dir: empty, the caller's. */
    static async start(file, dir) {
        const p = new Prometheus();

        p.port = await freePort();
        fs.writeFileSync(path.join(dir, 'empty.yml'), 'global: {}\n');
        p.child = spawn(file, [`--config.file=${path.join(dir, 'empty.yml')}`,
            `--storage.tsdb.path=${path.join(dir, 'tsdb')}`, '--storage.tsdb.retention.time=100y',
            '--storage.tsdb.min-block-duration=1d', '--storage.tsdb.max-block-duration=1d',
            `--web.listen-address=127.0.0.1:${p.port}`, '--web.enable-remote-write-receiver',
            '--enable-feature=native-histograms', '--log.level=warn'],
        { stdio: ['ignore', 'ignore', 'pipe'] });
        p.log = '';
        p.child.stderr.setEncoding('utf8');
        p.child.stderr.on('data', (text) => { p.log += text; });
        p.agent = new http.Agent({ keepAlive: true });
        process.on('exit', () => p.child.kill('SIGKILL'));
        for (let i = 0; ; i++) {
            const ready = await p.request('GET', '/-/ready').catch(() => null);

            if (ready && ready.status === 200)
                return p;
            if (i === 600 || p.child.exitCode !== null)
                throw new Error(`Prometheus did not start:\n${p.log}`);
            await new Promise((resolve) => setTimeout(resolve, 50));
        }
    }

    request(method, url, { body, headers = {} } = {}) {
        return new Promise((resolve, reject) => {
            const r = http.request({ host: '127.0.0.1', port: this.port, method, path: url, headers,
                agent: this.agent }, (res) => {
                const parts = [];

                res.on('data', (b) => parts.push(b));
                res.on('end', () => resolve({ status: res.statusCode, body: Buffer.concat(parts).toString() }));
            });

            r.on('error', reject);
            r.end(body);
        });
    }

    async load(dataset) {
        const all = dataset.flatMap(expand);
        const parts = [];

        for (const s of all)
            parts.push(series(s.labels, s.samples, (s.histograms || []).map(([t, h]) => native(t, h))));
        const r = await this.request('POST', '/api/v1/write', {
            body: snappy(Buffer.concat(parts)),
            headers: { 'Content-Encoding': 'snappy', 'Content-Type': 'application/x-protobuf',
                'X-Prometheus-Remote-Write-Version': '0.1.0' },
        });

        if (r.status >= 300)
            throw new Error(`Prometheus took no remote write: ${r.status} ${r.body}\n${this.log}`);
    }

    async stop() {
        this.agent.destroy();
        this.child.kill('SIGKILL');
        await new Promise((resolve) => this.child.on('exit', resolve));
    }
}

module.exports = { Prometheus, binary };
