'use strict';
/* Bytes over a socket, for requests that no HTTP client would send. */
const net = require('node:net');
const { SLOW } = require('./otlite');

class Raw {
    /* Resolves once connected. */
    static open(port) {
        return new Promise((resolve, reject) => {
            const socket = net.connect({ port, host: '127.0.0.1' });

            socket.setNoDelay(true);
            socket.once('error', reject);
            socket.once('connect', () => {
                socket.removeListener('error', reject);
                resolve(new Raw(socket));
            });
        });
    }

    constructor(socket) {
        this.socket = socket;
        this.in = Buffer.alloc(0);
        this.closed = false;
        this.waiting = [];
        socket.on('data', (d) => {
            this.in = Buffer.concat([this.in, d]);
            this.wake();
        });
        /* A reset counts as the end: the tests ask what came before it. */
        socket.on('error', () => {});
        socket.on('close', () => this.end());
        socket.on('end', () => this.end());
    }

    end() {
        this.closed = true;
        this.wake();
    }

    wake() {
        const w = this.waiting;

        this.waiting = [];
        for (const fn of w)
            fn();
    }

    send(data) {
        this.socket.write(data);
        return this;
    }

    /* Half-close: no more will be sent. */
    finish() {
        this.socket.end();
        return this;
    }

    destroy() {
        this.socket.destroy();
    }

    async more(deadline, what) {
        const left = deadline - Date.now();

        if (left <= 0)
            throw new Error(`${what}: timed out; so far ${JSON.stringify(this.in.toString('latin1'))}`);
        let timer;

        await new Promise((resolve) => {
            timer = setTimeout(resolve, left);
            this.waiting.push(resolve);
        });
        clearTimeout(timer);
    }

    /* The next response: {status, version, headers (lower-case names), body, raw}; null when the
     * connection ended without one. toHead: the answer to HEAD has no body. */
    async response({ ms = 10000 * SLOW, toHead = false } = {}) {
        const deadline = Date.now() + ms;
        let at;

        while ((at = this.in.indexOf('\r\n\r\n')) < 0) {
            if (this.closed) {
                if (this.in.length)
                    throw new Error(`half an answer: ${JSON.stringify(this.in.toString('latin1'))}`);
                return null;
            }
            await this.more(deadline, 'response');
        }
        const raw = this.in.subarray(0, at).toString('latin1');
        const [line, ...fields] = raw.split('\r\n');
        const m = /^HTTP\/(1\.[01]) (\d{3}) ?(.*)$/.exec(line);

        if (!m)
            throw new Error(`not a status line: ${JSON.stringify(line)}`);
        const headers = {};

        for (const f of fields) {
            const c = f.indexOf(':');

            headers[f.slice(0, c).toLowerCase()] = f.slice(c + 1).trim();
        }
        this.in = this.in.subarray(at + 4);
        const status = Number(m[2]);
        let body = Buffer.alloc(0);

        if (status >= 200 && status !== 204 && status !== 304 && !toHead) {
            if ('content-length' in headers) {
                const n = Number(headers['content-length']);

                while (this.in.length < n) {
                    if (this.closed)
                        throw new Error(`body of ${n} bytes cut short after ${this.in.length}`);
                    await this.more(deadline, 'body');
                }
                body = this.in.subarray(0, n);
                this.in = this.in.subarray(n);
            } else {
                while (!this.closed)
                    await this.more(deadline, 'end of body');
                body = this.in;
                this.in = Buffer.alloc(0);
            }
        }
        return { status, version: m[1], reason: m[3], headers, body, raw, text: body.toString('utf8') };
    }

    /* Every byte until the other side closes. */
    async rest(ms = 10000 * SLOW) {
        const deadline = Date.now() + ms;

        while (!this.closed)
            await this.more(deadline, 'close');
        return this.in.toString('latin1');
    }
}

/* Connect, send, and collect the answers until the server closes: [response, ...]. */
async function exchange(port, data, { ms = 10000 * SLOW } = {}) {
    const c = await Raw.open(port);
    const all = [];

    c.send(data);
    try {
        for (;;) {
            const r = await c.response({ ms });

            if (!r)
                return all;
            all.push(r);
        }
    } finally {
        c.destroy();
    }
}

/* A request's bytes. */
function request(method, target, headers = {}, body = '', version = '1.1') {
    const lines = [`${method} ${target} HTTP/${version}`];

    if (version === '1.1')
        lines.push('Host: otlite.test');
    for (const [k, v] of Object.entries(headers))
        for (const one of Array.isArray(v) ? v : [v])
            lines.push(`${k}: ${one}`);
    return Buffer.concat([Buffer.from(lines.join('\r\n') + '\r\n\r\n', 'latin1'), Buffer.from(body)]);
}

/* The body as chunks of at most size bytes, with the last chunk. */
function chunked(body, size = 1) {
    const parts = [];

    body = Buffer.from(body);
    for (let i = 0; i < body.length; i += size) {
        const piece = body.subarray(i, i + size);

        parts.push(Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n'));
    }
    parts.push(Buffer.from('0\r\n\r\n'));
    return Buffer.concat(parts);
}

module.exports = { Raw, chunked, exchange, request };
