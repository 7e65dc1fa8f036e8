'use strict';
/* The series that both Prometheus and otlite hold in the conformance test of PromQL: counters with
 * resets, gauges, histograms of both kinds, and what is awkward: NaN, infinities, stale markers, sparse
 * and irregular series, label sets that collide. The same in each run.
 *
 * Every ordinary value is a multiple of 1/8 below 2^40, so that sums of values are exact in whatever
 * order they are taken, and what differs between two evaluators is more than rounding.
 * Samples lie 7 ms after whole seconds and questions are asked 3 ms after them, so that no sample is on
 * the edge of a window: there Prometheus 2 and 3 differ (docs/promql.md). */

const T0 = Date.UTC(2024, 1, 29, 23, 0, 0); /* a leap day's last hour */
const INTERVAL = 15000;
const SAMPLES = 480; /* two hours */
const STALE = Symbol('stale');

/* mulberry32: small, and good enough to vary values. */
function random(seed) {
    let a = seed >>> 0;

    return () => {
        a = (a + 0x6d2b79f5) >>> 0;
        let t = a;

        t = Math.imul(t ^ (t >>> 15), t | 1);
        t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
        return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
}

const eighth = (x) => Math.round(x * 8) / 8;

/* times: of each sample, relative to T0; value(i, t, state) -> number, STALE or undefined (none). */
function samples(times, value) {
    const out = [];

    for (let i = 0; i < times.length; i++) {
        const v = value(i, times[i]);

        if (v !== undefined)
            out.push([T0 + times[i] + 7, v]);
    }
    return out;
}

function every(ms = INTERVAL, from = 0, to = SAMPLES * INTERVAL) {
    const out = [];

    for (let t = from; t < to; t += ms)
        out.push(t);
    return out;
}

function counter(r, { start = 0, step = 20, resets = 0, frac = false }) {
    let v = start;

    return () => {
        if (resets && r() < resets)
            v = frac ? eighth(r() * step) : Math.floor(r() * step);
        else
            v += frac ? eighth(r() * step) : Math.floor(r() * step);
        return v;
    };
}

function walk(r, { start = 20, step = 2 }) {
    let v = start;

    return () => {
        v = eighth(v + (r() - 0.5) * step);
        return v;
    };
}

/* The bounds of the classic histogram and the text that both systems give them. */
const BOUNDS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/* [{name, labels, type: 'counter' | 'gauge' | 'histogram' | 'exponential', samples: [[ms, value]]}];
 * value of a histogram {counts, sum, count}, of an exponential one
 * {scale, zero, zeroThreshold, positive: {offset, counts}, negative, sum, count}. */
function dataset() {
    const all = [];
    let seed = 1;
    const add = (type, name, labels, times, value) =>
        all.push({ type, name, labels, samples: samples(times, value) });
    const rnd = () => random(seed++ * 7919);

    for (const instance of ['a', 'b', 'c'])
        for (const path of ['/', '/cart'])
            for (const code of ['200', '500']) {
                const r = rnd();

                add('counter', 'requests_total', { job: 'shop', instance, path, code }, every(),
                    counter(r, { start: 100000, step: code === '200' ? 50 : 4, resets: 0.01 }));
            }
    for (const instance of ['a', 'b', 'c', 'd'])
        for (const mode of ['user', 'system', 'idle'])
            add('counter', 'cpu_seconds_total', { job: instance === 'd' ? 'batch' : 'shop', instance, mode },
                every(), counter(rnd(), { start: 5000, step: 15, frac: true, resets: 0.003 }));
    for (const [room, start] of [['kitchen', 21], ['attic', -3], ['cellar', 12.5], ['garden', 0]])
        add('gauge', 'temperature', { room, floor: room === 'attic' ? '2' : '0' }, every(),
            walk(rnd(), { start, step: 1.5 }));
    for (const instance of ['a', 'b', 'c'])
        for (const queue of ['mail', 'print']) {
            const r = rnd();

            add('gauge', 'queue_length', { job: 'shop', instance, queue }, every(), () => Math.floor(r() * 12));
        }
    for (const instance of ['a', 'b', 'c', 'd'])
        add('gauge', 'queue_limit', { instance }, every(), () => ({ a: 10, b: 8, c: 6, d: 100 })[instance]);
    for (const [instance, version] of [['a', '1.2'], ['b', '1.2'], ['c', '1.3']])
        add('gauge', 'build_info', { job: 'shop', instance, version }, every(), () => 1);
    for (const [kind, value] of [
        ['nan', () => NaN], ['inf', () => Infinity], ['neginf', () => -Infinity],
        ['zero', () => 0], ['negzero', () => -0], ['one', () => 1],
        ['mixed', (i) => [1, NaN, 3, Infinity, -2, -Infinity, 0][i % 7]],
        ['huge', (i) => 1e308 - i], ['tiny', (i) => 5e-324 * (i + 1)]])
        add('gauge', 'special', { kind }, every(), value);
    for (const [i, kind] of ['up', 'down', 'flat', 'steps', 'saw'].entries())
        add('gauge', 'shape', { kind, n: String(i) }, every(),
            [(k) => k / 4, (k) => 1000 - k / 2, () => 42, (k) => Math.floor(k / 20), (k) => k % 13][i]);
    {
        const r = rnd();
        const times = [];

        for (let t = 0; t < SAMPLES * INTERVAL; t += 1000 * Math.floor(200 + r() * 300))
            times.push(t);
        add('gauge', 'sparse', { kind: 'gauge' }, times, walk(r, { start: 50, step: 10 }));
        add('counter', 'sparse_total', { kind: 'counter' }, times, counter(r, { start: 0, step: 100 }));
    }
    {
        const r = rnd();
        const times = [];

        for (let t = 0; t < SAMPLES * INTERVAL; t += 1000 * Math.floor(1 + r() * 60))
            times.push(t);
        add('gauge', 'irregular', { kind: 'gauge' }, times, walk(r, { start: 5, step: 4 }));
        add('counter', 'irregular_total', { kind: 'counter' }, times, counter(r, { start: 3000, step: 9, resets: 0.02 }));
    }
    for (const [i, k] of [[0, 40], [1, 75], [2, 110]]) {
        const r = rnd();
        const w = walk(r, { start: 10 * i, step: 3 });

        /* Gone now and then, and said so; back after a while. */
        add('gauge', 'flapping', { n: String(i) }, every(), (n) => {
            const at = n % k;

            if (at < k - 12)
                return w();
            return at === k - 12 ? STALE : undefined;
        });
    }
    add('counter', 'flapping_total', { n: '0' }, every(), ((c) => (n) => {
        const at = n % 64;

        return at < 50 ? c() : at === 50 ? STALE : undefined;
    })(counter(rnd(), { start: 70000, step: 30 })));
    add('gauge', 'early', { a: '1' }, every(INTERVAL, 0, 1800000), walk(rnd(), {}));
    add('gauge', 'late', { a: '1' }, every(INTERVAL, 5400000), walk(rnd(), {}));
    add('counter', 'late_total', { a: '1' }, every(INTERVAL, 5400000), counter(rnd(), { start: 40000, step: 5 }));
    add('gauge', 'single', { a: '1' }, [3510000], () => 7);
    for (const [a, b] of [['1', 'x'], ['1', 'y'], ['2', 'x']])
        add('gauge', 'left_side', { a, b }, every(), walk(rnd(), { start: 30 }));
    for (const [a, c] of [['1', 'p'], ['1', 'q'], ['2', 'p'], ['3', 'p']])
        add('gauge', 'right_side', { a, c }, every(), walk(rnd(), { start: 15 }));
    for (const a of ['1', '2', '3'])
        add('gauge', 'one_side', { a }, every(), walk(rnd(), { start: 3 }));
    for (const text of ['plain', 'with "quotes"', 'back\\slash', 'a,b', 'ünï', '{x}', '10', '9', 'x-y.z'])
        add('gauge', 'texts', { text, src: `${text}-src` }, every(60000), walk(rnd(), { start: 2 }));
    for (const instance of ['a', 'b']) {
        for (const [le, share] of [['0.5', 0.3], ['1', 0.2], ['2', 0.9], ['+Inf', 0.85]]) {
            const r = rnd();

            /* Buckets that go down where they must not. */
            add('gauge', 'weird_bucket', { instance, le }, every(), (n) => Math.floor(n * 10 * share + r() * 3));
        }
    }
    for (const le of ['-2', '-1', '0', '+Inf'])
        add('gauge', 'negative_bucket', { le }, every(60000), () => ({ '-2': 3, '-1': 7, 0: 12, '+Inf': 12 })[le]);
    for (const le of ['1', '2'])
        add('gauge', 'noinf_bucket', { le }, every(60000), () => ({ 1: 3, 2: 7 })[le]);
    add('gauge', 'onlyinf_bucket', { le: '+Inf' }, every(60000), () => 5);
    add('gauge', 'badle_bucket', { le: 'nonsense' }, every(60000), () => 5);
    for (const instance of ['a', 'b', 'c'])
        for (const path of ['/', '/cart']) {
            const r = rnd();
            /* Far from 0: where a counter may have begun is extrapolated otherwise in 3 than in 2. */
            let counts = new Array(BOUNDS.length + 1).fill(5000);
            let sum = 60000;

            add('histogram', 'latency_seconds', { job: 'shop', instance, path }, every(), () => {
                counts = counts.map((c, i) => c + Math.floor(r() * r() * (i < 4 ? 30 : 6)));
                sum += eighth(r() * 40);
                return { counts, sum, count: counts.reduce((a, b) => a + b) };
            });
        }
    for (const [instance, scale] of [['a', 2], ['b', 0], ['c', 1]]) {
        const r = rnd();
        let positive = new Array(12).fill(0);
        let negative = new Array(3).fill(0);
        let zero = 0;
        let sum = 0;

        add('exponential', 'native_seconds', { job: 'shop', instance }, every(), () => {
            positive = positive.map((c, i) => (i === 4 ? c : c + Math.floor(r() * 9)));
            negative = negative.map((c) => c + Math.floor(r() * 2));
            zero += Math.floor(r() * 3);
            sum += eighth(r() * 20);
            return {
                scale, zero, zeroThreshold: 2 ** -128, sum,
                positive: { offset: -4, counts: positive }, negative: { offset: 0, counts: negative },
                count: zero + [...positive, ...negative].reduce((a, b) => a + b),
            };
        });
    }
    return all;
}

module.exports = { BOUNDS, INTERVAL, SAMPLES, STALE, T0, dataset, random };
