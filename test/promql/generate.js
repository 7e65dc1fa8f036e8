'use strict';
/* Random valid expressions over the dataset, from a seed.
 *
 * An expression knows whether its values are exact: the same bits in whatever order sums are taken and
 * however means are computed. What turns a difference in the last bit into another answer (floor, ==,
 * topk, count_values, label values made of numbers) only takes exact ones. Windows of subqueries are
 * half a step longer than a multiple of it, so that no step lies on their edge. */
const { random, T0 } = require('./data.js');

class Generator {
    constructor(seed) {
        this.r = random(seed);
    }

    int(n) {
        return Math.floor(this.r() * n);
    }

    pick(list) {
        return list[this.int(list.length)];
    }

    chance(p) {
        return this.r() < p;
    }

    /* ---- scalars ---- */

    number() {
        return this.pick(['0', '1', '2', '-1', '0.5', '10', '100', '-3.25', '1e3', '0.125', '42', 'Inf', 'NaN', '-Inf', '3', '5', '7']);
    }

    finite() {
        return this.pick(['0', '1', '2', '-1', '0.5', '10', '-3.25', '0.125', '42', '5']);
    }

    scalar(depth) {
        if (depth <= 0 || this.chance(0.6))
            return { text: this.number(), exact: true };
        switch (this.int(6)) {
        case 0:
            return { text: `scalar(${this.vector(depth - 1).text})`, exact: false };
        case 1:
            return { text: 'time()', exact: true };
        case 2: {
            const a = this.scalar(depth - 1);
            const b = this.scalar(depth - 1);

            return { text: `(${a.text} ${this.pick(['+', '-', '*'])} ${b.text})`, exact: a.exact && b.exact };
        }
        case 3: {
            const a = this.scalar(depth - 1);
            const b = this.scalar(depth - 1);

            return a.exact && b.exact
                ? { text: `(${a.text} ${this.pick(['==', '!=', '>', '<', '>=', '<='])} bool ${b.text})`, exact: true }
                : a;
        }
        case 4:
            return { text: `-(${this.scalar(depth - 1).text})`, exact: false };
        default:
            return { text: `scalar(${this.pick(['single', 'temperature{room="attic"}', 'queue_limit{instance="b"}', 'nothing'])})`, exact: true };
        }
    }

    /* ---- selectors ---- */

    duration() {
        return this.pick(['30s', '1m', '2m', '5m', '10m', '1m30s', '7m', '20m', '45s', '1h', '15m', '3m']);
    }

    matchers(name) {
        const labels = {
            requests_total: ['instance', 'path', 'code'], cpu_seconds_total: ['instance', 'mode', 'job'], temperature: ['room', 'floor'],
            queue_length: ['instance', 'queue'], queue_limit: ['instance'], shape: ['kind', 'n'], special: ['kind'], latency_seconds_bucket: ['le', 'path', 'instance'],
            latency_seconds_count: ['path', 'instance'], left_side: ['a', 'b'], right_side: ['a', 'c'], flapping: ['n'],
        }[name];

        if (!labels || this.chance(0.5))
            return '';
        const values = { instance: ['a', 'b', 'c', 'a|b', 'd', '.+', '[bc]'], path: ['/', '/cart', '/.*'], code: ['200', '500', '2..'], mode: ['user', 'idle', 'user|system'], job: ['shop', 'batch', '.*'],
            room: ['attic', 'kitchen', 'a.*|g.*', 'cellar'], floor: ['0', '2', ''], queue: ['mail', 'print'], kind: ['up', 'flat|saw', 'one', 'zero', 'nan|inf', ''], n: ['0', '1', '2', '[13]'],
            le: ['0.5', '+Inf', '10', '0.1|1|\\\\+Inf'], a: ['1', '2', '1|2'], b: ['x', 'y'], c: ['p', 'q'] };
        const out = [];

        for (let i = 0; i <= this.int(2); i++) {
            const l = this.pick(labels);

            out.push(`${l}${this.pick(['=', '!=', '=~', '!~'])}"${this.pick(values[l])}"`);
        }
        return `{${out.join(',')}}`;
    }

    modifier() {
        if (this.chance(0.8))
            return '';
        const at = this.pick(['', ` @ ${T0 / 1000 + 600 * (1 + this.int(10))}.003`, ' @ start()', ' @ end()']);
        const offset = this.chance(0.7) ? ` offset ${this.pick(['', '-'])}${this.duration()}` : '';

        return this.chance(0.5) ? at + offset : offset + at;
    }

    counterName() {
        return this.pick(['requests_total', 'requests_total', 'cpu_seconds_total', 'irregular_total', 'flapping_total', 'latency_seconds_bucket', 'latency_seconds_count', 'late_total']);
    }

    gaugeName() {
        return this.pick(['temperature', 'temperature', 'queue_length', 'queue_limit', 'shape', 'sparse', 'irregular', 'flapping', 'left_side', 'right_side', 'one_side', 'early', 'late', 'single',
            'build_info', 'texts', 'nothing', 'special{kind!~"huge|tiny"}']);
    }

    selector(name) {
        return name.includes('{') ? name : name + this.matchers(name);
    }

    /* ---- range vectors as the argument of a function ---- */

    range(depth, name, far = false) {
        if (depth > 0 && this.chance(0.25)) {
            const [step, range] = this.pick([['1m', '5m30s'], ['30s', '4m15s'], ['1m', '10m30s'], ['2m', '21m'], ['15s', '2m7s500ms']]);
            /* How far a counter near 0 is extrapolated is not the same in 2 and 3. */
            const v = far
                ? { text: this.pick(['requests_total', 'cpu_seconds_total', 'latency_seconds_count', 'sum by (instance) (cpu_seconds_total)', 'latency_seconds_bucket{le="10"}']), exact: true }
                : this.vector(depth - 1);
            return { text: `(${v.text})[${range}:${step}]${this.modifier()}`, exact: v.exact };
        }
        return { text: `${this.selector(name)}[${this.duration()}]${this.modifier()}`, exact: true };
    }

    /* ---- vectors ---- */

    vector(depth) {
        if (depth <= 0)
            return { text: this.selector(this.chance(0.3) ? this.counterName() : this.gaugeName()) + this.modifier(), exact: true };
        const roll = this.int(100);

        if (roll < 12)
            return this.vector(0);
        if (roll < 25) {
            const m = this.range(depth - 1, this.counterName(), true);

            return { text: `${this.pick(['rate', 'increase', 'irate', 'rate', 'rate'])}(${m.text})`, exact: false };
        }
        if (roll < 40)
            return this.overTime(depth);
        if (roll < 60)
            return this.aggregate(depth);
        if (roll < 85)
            return this.binary(depth);
        return this.call(depth);
    }

    /* Prometheus forgets the offset beside @ in timestamp(), and the later steps in predict_linear(): such
     * questions are asked without @ (docs/promql.md). */
    withoutAt(text) {
        return text.replace(/ @ ([0-9.]+|start\(\)|end\(\))/g, '');
    }

    overTime(depth) {
        const m = this.range(depth - 1, this.gaugeName());
        const plain = ['sum', 'min', 'max', 'count', 'last', 'present'];

        if (this.chance(0.6)) {
            const f = this.pick(plain);

            return { text: `${f}_over_time(${m.text})`, exact: m.exact || f === 'count' || f === 'present' };
        }
        if (m.exact && this.chance(0.3))
            return { text: `${this.pick(['changes', 'resets'])}(${m.text})`, exact: true };
        if (this.chance(0.2))
            return { text: `quantile_over_time(${this.pick(['0', '0.5', '0.9', '1', '-1', '2'])}, ${m.text})`, exact: false };
        if (m.exact && this.chance(0.3))
            return { text: `predict_linear(${this.withoutAt(m.text)}, ${this.finite()})`, exact: false };

        return { text: `${this.pick(['avg_over_time', 'stddev_over_time', 'delta', 'idelta', 'stdvar_over_time'])}(${m.text})`, exact: false };
    }

    grouping() {
        const some = ['instance', 'job', 'path', 'code', 'mode', 'room', 'floor', 'queue', 'kind', 'a', 'b', 'c', 'n', 'le', 'absent'];
        const labels = [];

        for (let i = 0; i < this.int(3); i++)
            labels.push(this.pick(some));
        return this.chance(0.35) ? '' : ` ${this.pick(['by', 'by', 'without'])} (${labels.join(', ')}) `;
    }

    aggregate(depth) {
        const v = this.vector(depth - 1);
        const g = this.grouping();

        if (this.chance(0.1))
            return { text: `quantile${g}(${this.pick(['0', '0.5', '0.9', '1'])}, ${v.text})`, exact: false };
        if (v.exact && this.chance(0.08))
            return { text: `count_values${g}("v", ${v.text})`, exact: true };
        if (this.chance(0.1)) {
            /* No two of these are ever equal, so there is one answer. */
            const unique = 'deriv(cpu_seconds_total[20m])';

            return { text: `${this.pick(['topk', 'bottomk'])}${g}(${this.pick(['1', '2', '3', '5'])}, ${unique})`, exact: false };
        }
        const op = this.pick(['sum', 'sum', 'avg', 'min', 'max', 'count', 'group', 'stddev', 'stdvar']);

        /* Of one NaN or infinity alone 2.42 says 0, and 3 NaN. */
        if (op.startsWith('std'))
            v.text = `(${v.text} > -1e300 < 1e300)`;

        return { text: this.chance(0.3) ? `${op}(${v.text})${g}` : `${op}${g}(${v.text})`,
            exact: op === 'count' || op === 'group' || (v.exact && ['sum', 'min', 'max'].includes(op)) };
    }

    binary(depth) {
        const kind = this.int(10);

        if (kind < 3) {
            const v = this.vector(depth - 1);
            const s = this.scalar(depth - 1);
            const exact = v.exact && s.exact;
            const op = exact && this.chance(0.4)
                ? this.pick(['==', '!=', '>', '<', '>=', '<=']) + this.pick([' bool', ''])
                : this.pick(['+', '-', '*', '/', exact ? '%' : '+', exact ? '^' : '*']);
            const [l, r] = this.chance(0.6) ? [v, s] : [s, v];

            return { text: `(${l.text} ${op} ${r.text})`, exact: exact && /^[+=!<>-]/.test(op) };
        }
        if (kind < 6) {
            const l = this.vector(depth - 1);
            const r = this.vector(depth - 1);
            const m = this.pick(['', '', ' on (instance)', ' ignoring (instance)', ' on ()', ' on (a)', ' on (kind)', ' ignoring (code, queue)']);

            return { text: `(${l.text} ${this.pick(['and', 'or', 'unless'])}${m} ${r.text})`, exact: l.exact && r.exact };
        }
        const v = this.vector(depth - 1);
        const op = v.exact && this.chance(0.3) ? this.pick(['==', '!=', '>', '<', '>=', '<=', '> bool', '== bool']) : this.pick(['+', '-', '*', '/']);

        if (kind < 8) {
            const [l, m, r] = this.pick([
                ['queue_length', ' on (instance) group_left ', 'queue_limit'], ['queue_limit', ' on (instance) group_right ', 'queue_length'],
                ['left_side', ' on (a) group_left ', 'one_side'], ['one_side', ' on (a) group_right (c) ', 'left_side'],
                ['requests_total', ' ignoring (code) group_left ', 'requests_total{code="200"}'], ['queue_length', ' on (instance) group_left (version) ', 'build_info'],
                ['left_side', ' on (a) group_left (c) ', 'right_side{c="p"}'], ['rate(requests_total[5m])', ' on (instance, path) group_left ', 'rate(latency_seconds_count[5m])']]);
            const exact = !l.startsWith('rate');

            return { text: `(${l} ${exact ? op : this.pick(['+', '/'])}${m}${r})`, exact: exact && !/[/]/.test(op) };
        }
        const w = this.chance(0.4) ? v : this.vector(depth - 1);
        const exact = v.exact && w.exact;
        const o = exact ? op : this.pick(['+', '-', '*', '/']);

        return { text: `(${v.text} ${o}${this.pick(['', '', '', ' ignoring (kind)', ' on (instance)'])} ${w.text})`, exact: exact && !/[*/]/.test(o) };
    }

    call(depth) {
        const v = this.vector(depth - 1);

        switch (this.int(14)) {
        case 0:
        case 1:
            /* Go's sinh is infinite where it need not be yet. */
            return this.chance(0.15)
                ? { text: `sinh(clamp(${v.text}, -20, 20))`, exact: false }
                : { text: `${this.pick(['abs', 'sqrt', 'atan', 'tanh', 'deg', 'rad', 'asinh'])}(${v.text})`, exact: false };
        case 2:
            return v.exact ? { text: `${this.pick(['ceil', 'floor', 'round', 'sgn', 'abs'])}(${v.text})`, exact: true } : { text: `abs(${v.text})`, exact: false };
        case 3:
            return { text: `clamp(${v.text}, ${this.finite()}, ${this.number()})`, exact: v.exact };
        case 4:
            return { text: `${this.pick(['clamp_min', 'clamp_max'])}(${v.text}, ${this.scalar(depth - 1).text})`, exact: false };
        case 5:
            return { text: `absent(${v.text})`, exact: true };
        case 6:
            return { text: `timestamp(${this.withoutAt(this.vector(0).text)})`, exact: true };
        case 7:
            return { text: `label_replace(${v.text}, "${this.pick(['a', 'instance', 'made', 'kind'])}", "${this.pick(['$1', 'x', '$1-$2', ''])}", "${this.pick(['instance', 'room', 'a', 'path', 'absent'])}", "${this.pick(['(.*)', '(.)(.*)', 'a', '', '(a|b)'])}")`,
                exact: v.exact };
        case 8:
            return { text: `label_join(${v.text}, "made", "${this.pick(['-', ''])}", "${this.pick(['instance', 'room', 'a'])}", "${this.pick(['path', 'kind', 'b'])}")`, exact: v.exact };
        case 9:
            return { text: `histogram_quantile(${this.pick(['0.5', '0.9', '0', '1', '0.99'])}, ${this.pick(['', 'sum by (le) ', 'sum by (le, path) ', 'sum without (path) '])}(${this.pick(['rate', 'increase'])}(latency_seconds_bucket[${this.duration()}])))`, exact: false };
        case 10:
            return { text: `vector(${this.scalar(depth - 1).text})`, exact: false };
        case 11:
            return v.exact ? { text: `${this.pick(['minute', 'hour', 'day_of_week', 'month', 'days_in_month', 'year', 'day_of_month', 'day_of_year'])}(timestamp(${this.withoutAt(this.vector(0).text)}))`, exact: true } : v;
        case 12:
            return { text: `-(${v.text})`, exact: v.exact };
        default:
            return { text: `(${v.text})`, exact: v.exact };
        }
    }

    /* A whole question. */
    expression() {
        return this.chance(0.06) ? this.scalar(3).text : this.vector(1 + this.int(3)).text;
    }
}

module.exports = { Generator };
