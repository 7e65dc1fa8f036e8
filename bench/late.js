'use strict';
/* What late points cost: node bench/late.js http://127.0.0.1:4318/v1/metrics
 * Against a daemon with empty data. 1,000 series get a point at the end of two hours, then 800,000 points
 * at random times before it, so that every segment's time range holds every later point. Prints the time
 * of each request: 100,000 late points, 1,000 late points, and the same 1,000 again. */
const url = process.argv[2] || 'http://127.0.0.1:4318/v1/metrics';
const START = BigInt(Date.now() - 4 * 3600e3) * 1000000n;
const HOUR = 3600e9;

const point = (series, after) => ({
    timeUnixNano: String(START + BigInt(Math.floor(after))), asInt: String(series),
    attributes: [{ key: 's', value: { intValue: String(series) } }],
});
const random = (n, series) => Array.from({ length: n }, (_, i) => point(series(i), Math.random() * HOUR));

async function send(dataPoints) {
    const body = JSON.stringify({ resourceMetrics: [{ scopeMetrics: [{ metrics: [
        { name: 'late', gauge: { dataPoints } }] }] }] });
    const at = performance.now();
    const r = await fetch(url, { method: 'POST', body, headers: { 'content-type': 'application/json' } });

    if (r.status !== 200)
        throw new Error(`${r.status}: ${await r.text()}`);
    await r.text();
    return `${(performance.now() - at).toFixed(1)} ms`;
}

(async () => {
    await send(Array.from({ length: 1000 }, (_, s) => point(s, 2 * HOUR)));
    for (let i = 0; i < 8; i++)
        console.log('100,000 late', await send(random(100000, () => Math.floor(Math.random() * 1000))));
    for (let i = 0; i < 5; i++) {
        const late = random(1000, (s) => s);

        console.log('1,000 late', await send(late), 'again', await send(late));
    }
})();
