'use strict';
/* Two answers of the HTTP API, compared. Values are equal as text, or within 1e-9 of the greater; in a
 * difference of sums that nearly cancel, within 1e-9 of `scale`, the magnitude of the operands (0: no
 * such allowance; it is counted). */

const key = (metric) => JSON.stringify(Object.keys(metric).sort().map((k) => [k, metric[k]]));

function close(a, b, scale, tally) {
    if (a === b)
        return true;
    const x = Number(a.replace('Inf', 'Infinity'));
    const y = Number(b.replace('Inf', 'Infinity'));

    if (!Number.isFinite(x) || !Number.isFinite(y))
        return Object.is(x, y);
    const d = Math.abs(x - y);

    if (d <= 1e-9 * Math.max(Math.abs(x), Math.abs(y)))
        return true;
    if (d > 1e-9 * scale)
        return false;
    tally.cancelled = (tally.cancelled || 0) + 1;
    return true;
}

function histograms(a, b, scale, tally) {
    if (!close(a.count, b.count, scale, tally) || !close(a.sum, b.sum, scale, tally))
        return `count or sum: ${a.count} ${a.sum}, not ${b.count} ${b.sum}`;
    const [x, y] = [a.buckets || [], b.buckets || []];

    if (x.length !== y.length)
        return `${x.length} buckets, not ${y.length}: ${JSON.stringify(x)}, not ${JSON.stringify(y)}`;
    for (let i = 0; i < x.length; i++)
        if (x[i][0] !== y[i][0] || ![1, 2, 3].every((k) => close(x[i][k], y[i][k], scale, tally)))
            return `bucket ${i}: ${JSON.stringify(x[i])}, not ${JSON.stringify(y[i])}`;
    return null;
}

function points(a, b, scale, tally) {
    if (a.length !== b.length)
        return `${a.length} samples, not ${b.length}`;
    for (let i = 0; i < a.length; i++) {
        if (a[i][0] !== b[i][0])
            return `sample ${i} is of ${a[i][0]}, not ${b[i][0]}`;
        if (typeof a[i][1] !== typeof b[i][1])
            return `at ${a[i][0]}: a ${typeof a[i][1]}, not a ${typeof b[i][1]}`;
        const bad = typeof a[i][1] === 'string'
            ? (close(a[i][1], b[i][1], scale, tally) ? null : `${a[i][1]}, not ${b[i][1]}`)
            : histograms(a[i][1], b[i][1], scale, tally);

        if (bad)
            return `at ${a[i][0]}: ${bad}`;
    }
    return null;
}

/* What differs, as a line for people, or null. got, want: {status, body} of the API; ordered: the
 * order of series counts. */
function compare(got, want, { ordered = false, scale = 0, tally = {} } = {}) {
    let g;
    let w;

    try {
        g = JSON.parse(got.body);
        w = JSON.parse(want.body);
    } catch {
        return `no JSON: ${got.status} ${got.body.slice(0, 200)}`;
    }
    if (g.status !== w.status)
        return `${g.status} (${g.error || JSON.stringify(g.data).slice(0, 200)}), not ${w.status} (${w.error || JSON.stringify(w.data).slice(0, 200)})`;
    if (g.status === 'error')
        return g.errorType === w.errorType && got.status === want.status ? null
            : `error ${got.status} ${g.errorType}, not ${want.status} ${w.errorType} (${g.error}; ${w.error})`;
    if (g.data.resultType !== w.data.resultType)
        return `a ${g.data.resultType}, not a ${w.data.resultType}`;
    if (g.data.resultType === 'scalar' || g.data.resultType === 'string')
        return points([g.data.result], [w.data.result], scale, tally);
    const [a, b] = [g.data.result, w.data.result];
    const order = (r) => r.map((s) => key(s.metric));
    const names = order(a);

    if (new Set(names).size !== names.length)
        return `a series twice: ${names.find((n, i) => names.indexOf(n) !== i)}`;
    const missing = order(b).filter((n) => !names.includes(n));
    const extra = names.filter((n) => !order(b).includes(n));

    if (missing.length || extra.length)
        return `series missing: ${missing.slice(0, 3).join(' ') || 'none'} (${missing.length}); too many: ${extra.slice(0, 3).join(' ') || 'none'} (${extra.length})`;
    if (ordered && names.join() !== order(b).join())
        return `the order ${names.join(' ')}, not ${order(b).join(' ')}`;
    const byName = new Map(b.map((s) => [key(s.metric), s]));
    const of = (s) => {
        const all = [...(s.values || []), ...(s.value ? [s.value] : []), ...(s.histograms || []), ...(s.histogram ? [s.histogram] : [])];

        return all.sort((x, y) => x[0] - y[0]);
    };

    for (const s of a) {
        const bad = points(of(s), of(byName.get(key(s.metric))), scale, tally);

        if (bad)
            return `${key(s.metric)}: ${bad}`;
    }
    return null;
}

module.exports = { compare };
