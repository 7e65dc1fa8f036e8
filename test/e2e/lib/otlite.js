'use strict';
/* Start, stop and question one daemon. Every daemon started here is ended, by its own pid, when the
 * test process ends, and its temporary directory goes with it. */
const { spawn, execFile } = require('node:child_process');
const fs = require('node:fs');
const http = require('node:http');
const os = require('node:os');
const path = require('node:path');

const REPO = path.resolve(__dirname, '..', '..', '..');
const BIN = path.resolve(process.env.OTLITE_BIN || path.join(REPO, 'build', 'otlite'));
/* The extension with which other programs read the points. */
const EXTENSION = path.join(path.dirname(BIN), 'otlite.so');
const SAN = process.env.OTLITE_SAN || '';
const SHARED = path.resolve(REPO, '..', 'shared');
/* Sanitizers slow the daemon down; deadlines of the tests stretch with them. */
const SLOW = SAN ? 5 : 1;

const running = new Set();
const dirs = new Set();

process.on('exit', () => {
    for (const child of running)
        child.kill('SIGKILL');
    if (process.env.OTLITE_KEEP)
        return;
    for (const dir of dirs)
        fs.rmSync(dir, { recursive: true, force: true });
});

function tempDir(tag = 'data') {
    const dir = fs.mkdtempSync(path.join(os.tmpdir(), `otlite-e2e-${tag}-`));

    dirs.add(dir);
    return dir;
}

/* One line for people from what the daemon printed. */
function tail(text, n = 15) {
    return text.trimEnd().split('\n').slice(-n).join('\n');
}

/* Run `otlite ARGS`; resolves to {code, signal, stdout, stderr}, whatever the exit status. */
function cli(args, { input, env = {}, timeout = 60000 } = {}) {
    return new Promise((resolve) => {
        const child = execFile(
            BIN,
            args,
            { maxBuffer: 1 << 28, timeout, env: { ...cleanEnv(), ...env } },
            (error, stdout, stderr) => {
                const code = error ? (typeof error.code === 'number' ? error.code : null) : 0;

                resolve({ code, signal: error ? error.signal : null, stdout, stderr });
            });

        child.stdin.on('error', () => {});
        child.stdin.end(input);
    });
}

/* The environment without OTLITE_ variables: those of the test run are not settings. */
function cleanEnv() {
    const env = {};

    for (const [key, value] of Object.entries(process.env))
        if (!key.startsWith('OTLITE_'))
            env[key] = value;
    return env;
}

/* Like cli, but a failure is an error. */
async function cliOk(args, opts) {
    const r = await cli(args, opts);

    if (r.code !== 0)
        throw new Error(`otlite ${args.join(' ')}: exit ${r.code ?? r.signal}\n${tail(r.stderr)}`);
    return r.stdout;
}

class Otlite {
    constructor(child, dir) {
        this.child = child;
        this.dir = dir;
        this.log = '';
        this.exited = new Promise((resolve) => {
            child.on('exit', (code, signal) => {
                running.delete(child);
                this.exit = { code, signal };
                resolve(this.exit);
            });
        });
        this.agent = new http.Agent({ keepAlive: true });
    }

    /* opts: dir (a new one when absent), set {key: value}, listen, args, env, fds (ulimit -n),
     * ready: false to come back at msg=serving without asking /readyz. */
    static async start(opts = {}) {
        const dir = opts.dir || tempDir();
        const args = ['serve', '--listen', opts.listen || '127.0.0.1:0', '--data', dir];

        for (const [key, value] of Object.entries(opts.set || {}))
            args.push('--set', `${key}=${value}`);
        args.push(...(opts.args || []));
        /* exec, so that the shell that sets the limit becomes the daemon and the pid is its. */
        const [file, argv] = opts.fds
            ? ['/bin/sh', ['-c', `ulimit -n ${opts.fds} && exec "$0" "$@"`, BIN, ...args]]
            : [BIN, args];
        const child = spawn(file, argv, {
            stdio: ['ignore', 'ignore', 'pipe'],
            env: { ...cleanEnv(), ...(opts.env || {}) },
        });

        running.add(child);
        const d = new Otlite(child, dir);

        await new Promise((resolve, reject) => {
            const timer = setTimeout(() => {
                child.kill('SIGKILL');
                reject(new Error(`no msg=serving line within 20 s:\n${tail(d.log)}`));
            }, 20000 * SLOW);

            child.on('error', reject);
            child.stderr.setEncoding('utf8');
            child.stderr.on('data', (text) => {
                d.log += text;
                if (d.port)
                    return;
                const line = /^.*msg=serving .*$/m.exec(d.log);
                const port = line && /listen="?[^\s"]*:(\d+)/.exec(line[0]);

                if (port) {
                    d.port = Number(port[1]);
                    clearTimeout(timer);
                    resolve();
                }
            });
            d.exited.then((exit) => {
                clearTimeout(timer);
                reject(new Error(`otlite ended at start (${exit.code ?? exit.signal}):\n${tail(d.log)}`));
            });
        });
        if (opts.ready !== false)
            await d.waitReady();
        return d;
    }

    async waitReady() {
        const until = Date.now() + 15000 * SLOW;

        for (;;) {
            let r = null;

            try {
                r = await this.get('/readyz');
                if (r.status === 200)
                    return;
            } catch {
                /* refused or reset: ask again until the deadline */
            }
            if (this.exit || Date.now() > until)
                throw new Error(`/readyz gives ${r ? r.status : 'no answer'}:\n${tail(this.log)}`);
            await sleep(20);
        }
    }

    get pid() {
        return this.child.pid;
    }

    get alive() {
        return !this.exit;
    }

    /* SIGTERM (or another signal), then wait for the end. Anything but exit 0 is an error, unless it
     * was SIGKILL: a crash on the way, or what a sanitizer has to say at the end. */
    async stop(signal = 'SIGTERM') {
        this.agent.destroy();
        if (!this.exit) {
            this.killed = signal === 'SIGKILL';
            this.child.kill(signal);
        }
        const exit = await this.exited;

        if (!this.killed && exit.code !== 0)
            throw new Error(`otlite ended with ${exit.code ?? exit.signal}:\n${tail(this.log, 80)}`);
        return exit;
    }

    /* One request. body: string or Buffer. chunked: an array of pieces, sent as chunks.
     * Resolves to {status, headers, body (Buffer), text, json}. */
    request(method, url, { headers = {}, body, chunks, agent, timeout = 30000 * SLOW } = {}) {
        return new Promise((resolve, reject) => {
            const h = { ...headers };

            if (body !== undefined && chunks === undefined)
                h['content-length'] = Buffer.byteLength(body);
            const req = http.request(
                { host: '127.0.0.1', port: this.port, method, path: url, headers: h,
                  agent: agent === undefined ? this.agent : agent },
                (res) => {
                    const parts = [];

                    res.on('data', (part) => parts.push(part));
                    res.on('error', reject);
                    res.on('end', () => resolve(new Reply(res, Buffer.concat(parts))));
                });

            req.setTimeout(timeout, () => req.destroy(new Error(`no answer in ${timeout} ms`)));
            req.on('error', reject);
            if (chunks !== undefined)
                for (const part of chunks)
                    req.write(part);
            else if (body !== undefined)
                req.write(body);
            req.end();
        });
    }

    get(url, opts) {
        return this.request('GET', url, opts);
    }

    post(body, headers = {}, opts = {}) {
        return this.request('POST', opts.path || '/v1/metrics', { ...opts, headers, body });
    }

    /* A request as OTLP/JSON; obj may be text already. */
    postJson(obj, headers = {}, opts = {}) {
        const body = typeof obj === 'string' || Buffer.isBuffer(obj) ? obj : JSON.stringify(obj);

        return this.post(body, { 'content-type': 'application/json', ...headers }, opts);
    }

    postProto(buf, headers = {}, opts = {}) {
        return this.post(buf, { 'content-type': 'application/x-protobuf', ...headers }, opts);
    }

    sql(query) {
        return sql(this.dir, query);
    }

    async one(query) {
        const rows = await this.sql(query);

        return rows.length ? Object.values(rows[0])[0] : undefined;
    }

    /* A counter or gauge of /metrics; labels as text, e.g. 'reason="name"'. */
    async metric(name, labels = '') {
        const r = await this.get('/metrics');
        const key = labels ? `${name}{${labels}}` : name;

        for (const line of r.text.split('\n'))
            if (line.startsWith(`${key} `))
                return Number(line.slice(key.length + 1));
        return undefined;
    }

    /* Resident and peak resident memory in bytes. */
    memory() {
        const text = fs.readFileSync(`/proc/${this.pid}/status`, 'utf8');
        const kb = (name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)[1]) * 1024;

        return { rss: kb('VmRSS'), peak: kb('VmHWM') };
    }

    /* CPU seconds used so far. */
    cpu() {
        const f = fs.readFileSync(`/proc/${this.pid}/stat`, 'utf8').split(') ')[1].split(' ');

        return (Number(f[11]) + Number(f[12])) / 100;
    }
}

class Reply {
    constructor(res, body) {
        this.status = res.statusCode;
        this.headers = res.headers;
        this.body = body;
    }

    get type() {
        return this.headers['content-type'];
    }

    get text() {
        return this.body.toString('utf8');
    }

    get json() {
        return JSON.parse(this.text);
    }
}

/* Rows of `otlite sql --json`. Integers beyond 2^53 must be cast to TEXT by the query. */
async function sql(dir, query) {
    const text = await cliOk(['sql', '--data', dir, '--json', query]);

    return text.trim() === '' ? [] : JSON.parse(text);
}

/* A second process on the database: the sqlite3 shell, fed line by line. */
class Shell {
    constructor(file, args = []) {
        this.child = spawn('sqlite3', [...args, '-batch', file], { stdio: ['pipe', 'pipe', 'pipe'] });
        running.add(this.child);
        this.out = '';
        this.err = '';
        this.waiting = [];
        this.child.stdout.setEncoding('utf8');
        this.child.stderr.setEncoding('utf8');
        this.child.stdout.on('data', (t) => {
            this.out += t;
            this.wake();
        });
        this.child.stderr.on('data', (t) => (this.err += t));
        this.exited = new Promise((resolve) => this.child.on('exit', (code) => {
            running.delete(this.child);
            resolve(code);
        }));
        this.n = 0;
    }

    wake() {
        const [first] = this.waiting;

        if (first && this.out.includes(first.mark)) {
            const [before, after] = this.out.split(first.mark + '\n');

            this.out = after || '';
            this.waiting.shift();
            first.resolve(before);
            this.wake();
        }
    }

    /* Run statements; resolves to what they printed once they are done. */
    run(statements) {
        const mark = `#done-${++this.n}#`;

        return new Promise((resolve) => {
            this.waiting.push({ mark, resolve });
            this.child.stdin.write(`${statements}\n.print ${mark}\n`);
        });
    }

    async end() {
        this.child.stdin.end();
        return this.exited;
    }
}

/* Output of one sqlite3 command on a file, read-only: a reader that is not otlite, with the extension
 * where the query needs it. */
function sqlite3(file, query) {
    const load = /_point\b|\bpoints\b/.test(query) ? ['-cmd', `.load ${EXTENSION}`] : [];

    return new Promise((resolve, reject) => {
        execFile('sqlite3', ['-readonly', '-batch', ...load, file, query], { maxBuffer: 1 << 28 },
            (error, stdout, stderr) => {
                if (error)
                    reject(new Error(`sqlite3: ${stderr || error.message}`));
                else
                    resolve(stdout.trim());
            });
    });
}

function sleep(ms) {
    return new Promise((resolve) => setTimeout(resolve, ms));
}

/* Ask until it is true or the time is over. */
async function until(what, fn, ms = 10000 * SLOW) {
    const end = Date.now() + ms;

    for (;;) {
        const got = await fn();

        if (got)
            return got;
        if (Date.now() > end)
            throw new Error(`${what}: not within ${ms} ms`);
        await sleep(25);
    }
}

module.exports = {
    BIN, EXTENSION, REPO, SAN, SHARED, SLOW, Otlite, Shell, cleanEnv, cli, cliOk, sleep, sql, sqlite3, tail,
    tempDir, until,
};
