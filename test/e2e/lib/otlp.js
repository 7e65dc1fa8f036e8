'use strict';
/* OTLP requests built here, in both encodings from one form, and the answers read back. The form is
 * OTLP/JSON; the protobuf writer walks it by the field table. It shares no code with the daemon or
 * with the SDK, so that it can stand as a third opinion. */

/* field: [number, kind]; kind with * is repeated, with + repeated and packed. */
const TYPES = {
    Request: { resourceMetrics: [1, 'ResourceMetrics*'] },
    ResourceMetrics: { resource: [1, 'Resource'], scopeMetrics: [2, 'ScopeMetrics*'],
        schemaUrl: [3, 'string'] },
    Resource: { attributes: [1, 'KeyValue*'], droppedAttributesCount: [2, 'varint'],
        entityRefs: [3, 'EntityRef*'] },
    EntityRef: { schemaUrl: [1, 'string'], type: [2, 'string'], idKeys: [3, 'string*'],
        descriptionKeys: [4, 'string*'] },
    ScopeMetrics: { scope: [1, 'Scope'], metrics: [2, 'Metric*'], schemaUrl: [3, 'string'] },
    Scope: { name: [1, 'string'], version: [2, 'string'], attributes: [3, 'KeyValue*'],
        droppedAttributesCount: [4, 'varint'] },
    Metric: { name: [1, 'string'], description: [2, 'string'], unit: [3, 'string'],
        gauge: [5, 'Gauge'], sum: [7, 'Sum'], histogram: [9, 'Histogram'],
        exponentialHistogram: [10, 'Exponential'], summary: [11, 'Summary'],
        metadata: [12, 'KeyValue*'] },
    Gauge: { dataPoints: [1, 'Number*'] },
    Sum: { dataPoints: [1, 'Number*'], aggregationTemporality: [2, 'varint'],
        isMonotonic: [3, 'bool'] },
    Histogram: { dataPoints: [1, 'HistogramPoint*'], aggregationTemporality: [2, 'varint'] },
    Exponential: { dataPoints: [1, 'ExponentialPoint*'], aggregationTemporality: [2, 'varint'] },
    Summary: { dataPoints: [1, 'SummaryPoint*'] },
    Number: { startTimeUnixNano: [2, 'fixed64'], timeUnixNano: [3, 'fixed64'],
        asDouble: [4, 'double'], asInt: [6, 'fixed64'], exemplars: [5, 'Exemplar*'],
        attributes: [7, 'KeyValue*'], flags: [8, 'varint'] },
    HistogramPoint: { startTimeUnixNano: [2, 'fixed64'], timeUnixNano: [3, 'fixed64'],
        count: [4, 'fixed64'], sum: [5, 'double'], bucketCounts: [6, 'fixed64+'],
        explicitBounds: [7, 'double+'], exemplars: [8, 'Exemplar*'], attributes: [9, 'KeyValue*'],
        flags: [10, 'varint'], min: [11, 'double'], max: [12, 'double'] },
    ExponentialPoint: { attributes: [1, 'KeyValue*'], startTimeUnixNano: [2, 'fixed64'],
        timeUnixNano: [3, 'fixed64'], count: [4, 'fixed64'], sum: [5, 'double'],
        scale: [6, 'zigzag'], zeroCount: [7, 'fixed64'], positive: [8, 'Buckets'],
        negative: [9, 'Buckets'], flags: [10, 'varint'], exemplars: [11, 'Exemplar*'],
        min: [12, 'double'], max: [13, 'double'], zeroThreshold: [14, 'double'] },
    Buckets: { offset: [1, 'zigzag'], bucketCounts: [2, 'varint+'] },
    SummaryPoint: { startTimeUnixNano: [2, 'fixed64'], timeUnixNano: [3, 'fixed64'],
        count: [4, 'fixed64'], sum: [5, 'double'], quantileValues: [6, 'Quantile*'],
        attributes: [7, 'KeyValue*'], flags: [8, 'varint'] },
    Quantile: { quantile: [1, 'double'], value: [2, 'double'] },
    Exemplar: { timeUnixNano: [2, 'fixed64'], asDouble: [3, 'double'], asInt: [6, 'fixed64'],
        spanId: [4, 'hex'], traceId: [5, 'hex'], filteredAttributes: [7, 'KeyValue*'] },
    KeyValue: { key: [1, 'string'], value: [2, 'AnyValue'], keyStrindex: [3, 'varint'] },
    AnyValue: { stringValue: [1, 'string'], boolValue: [2, 'bool'], intValue: [3, 'varint'],
        doubleValue: [4, 'double'], arrayValue: [5, 'ArrayValue'], kvlistValue: [6, 'KvList'],
        bytesValue: [7, 'base64'], stringValueStrindex: [8, 'varint'] },
    ArrayValue: { values: [1, 'AnyValue*'] },
    KvList: { values: [1, 'KeyValue*'] },
};

function varint(n) {
    const out = [];

    n = BigInt.asUintN(64, BigInt(n));
    for (;;) {
        const b = Number(n & 0x7fn);

        n >>= 7n;
        out.push(n ? b | 0x80 : b);
        if (!n)
            return Buffer.from(out);
    }
}

const tag = (field, wire) => varint((field << 3) | wire);
const len = (field, body) => Buffer.concat([tag(field, 2), varint(body.length), body]);

function fixed64(n) {
    const b = Buffer.alloc(8);

    b.writeBigUInt64LE(BigInt.asUintN(64, BigInt(n)));
    return b;
}

function double(x) {
    const b = Buffer.alloc(8);

    b.writeDoubleLE(Number(x));
    return b;
}

const SCALARS = {
    string: [2, (v) => Buffer.from(v, 'utf8')],
    hex: [2, (v) => Buffer.from(v, 'hex')],
    base64: [2, (v) => Buffer.from(v, 'base64')],
    varint: [0, varint],
    bool: [0, (v) => varint(v ? 1 : 0)],
    zigzag: [0, (v) => varint((BigInt(v) << 1n) ^ (BigInt(v) >> 63n))],
    fixed64: [1, fixed64],
    double: [1, double],
};

function one(field, kind, value) {
    if (!(kind in SCALARS))
        return len(field, encode(value, kind));
    const [wire, write] = SCALARS[kind];
    const body = write(value);

    return wire === 2 ? len(field, body) : Buffer.concat([tag(field, wire), body]);
}

/* Protobuf bytes of a request in OTLP/JSON form. Raw bytes may be appended to any message with the
 * member $raw (Buffer). */
function encode(obj, type = 'Request') {
    const parts = [];

    for (const [name, value] of Object.entries(obj)) {
        if (name === '$raw') {
            parts.push(value);
            continue;
        }
        const entry = TYPES[type][name];

        if (!entry)
            throw new Error(`${type} has no field ${name}`);
        if (value === null || value === undefined)
            continue;
        const [field, kind] = entry;
        const base = kind.replace(/[*+]$/, '');

        if (kind.endsWith('+')) {
            if (value.length)
                parts.push(len(field, Buffer.concat(value.map(SCALARS[base][1]))));
        } else if (kind.endsWith('*')) {
            for (const v of value)
                parts.push(one(field, base, v));
        } else {
            parts.push(one(field, base, value));
        }
    }
    return Buffer.concat(parts);
}

/* [{field, wire, value}]: value is a BigInt for wire 0 and 1, a Buffer for wire 2. */
function fields(buf) {
    const out = [];
    let at = 0;
    const next = () => {
        let n = 0n;

        for (let shift = 0n; ; shift += 7n) {
            if (at >= buf.length)
                throw new Error('truncated protobuf');
            const b = buf[at++];

            n |= BigInt(b & 0x7f) << shift;
            if (b < 0x80)
                return n;
        }
    };

    while (at < buf.length) {
        const key = Number(next());
        const wire = key & 7;
        let value;

        if (wire === 0) {
            value = next();
        } else if (wire === 1) {
            value = buf.readBigUInt64LE(at);
            at += 8;
        } else if (wire === 2) {
            const n = Number(next());

            if (at + n > buf.length)
                throw new Error('truncated protobuf');
            value = buf.subarray(at, at + n);
            at += n;
        } else {
            throw new Error(`wire type ${wire}`);
        }
        out.push({ field: key >>> 3, wire, value });
    }
    return out;
}

/* google.rpc.Status from a reply: {code, message, violations: [{field, description}]}. */
function readStatus(reply) {
    if ((reply.headers['content-type'] || '') === 'application/json') {
        const s = JSON.parse(reply.body.toString('utf8'));

        return { code: s.code, message: s.message, details: s.details || [] };
    }
    const s = { code: 0, message: '', details: [] };

    for (const f of fields(reply.body)) {
        if (f.field === 1)
            s.code = Number(f.value);
        if (f.field === 2)
            s.message = f.value.toString('utf8');
        if (f.field === 3) {
            const any = {};

            for (const g of fields(f.value)) {
                if (g.field === 1)
                    any['@type'] = g.value.toString('utf8');
                if (g.field === 2)
                    any.value = g.value;
            }
            any.fieldViolations = fields(any.value || Buffer.alloc(0)).map((v) => {
                const x = {};

                for (const g of fields(v.value))
                    x[g.field === 1 ? 'field' : 'description'] = g.value.toString('utf8');
                return x;
            });
            s.details.push(any);
        }
    }
    return s;
}

/* Partial success from a 200: {rejected, message}, or null when it is unset. */
function readPartial(reply) {
    if (reply.headers['content-type'] === 'application/json') {
        const p = JSON.parse(reply.body.toString('utf8')).partialSuccess;

        if (p === undefined)
            return null;
        return { rejected: Number(p.rejectedDataPoints ?? 0), message: p.errorMessage ?? '' };
    }
    if (!reply.body.length)
        return null;
    const p = { rejected: 0, message: '' };
    const [outer] = fields(reply.body);

    for (const f of fields(outer.value)) {
        if (f.field === 1)
            p.rejected = Number(f.value);
        if (f.field === 2)
            p.message = f.value.toString('utf8');
    }
    return p;
}

/* --- builders --- */

/* AnyValue of a JS value: bigint is int, number is double, null the empty value. */
function any(v) {
    if (v === null)
        return {};
    if (typeof v === 'string')
        return { stringValue: v };
    if (typeof v === 'boolean')
        return { boolValue: v };
    if (typeof v === 'bigint')
        return { intValue: v.toString() };
    if (typeof v === 'number')
        return { doubleValue: Number.isFinite(v) && !Object.is(v, -0) ? v : doubleText(v) };
    if (Buffer.isBuffer(v))
        return { bytesValue: v.toString('base64') };
    if (Array.isArray(v))
        return { arrayValue: { values: v.map(any) } };
    return { kvlistValue: { values: attrs(v) } };
}

function doubleText(x) {
    return Object.is(x, -0) ? '-0.0' : String(x);
}

const attrs = (obj) => Object.entries(obj).map(([key, v]) => ({ key, value: any(v) }));

let clock = BigInt(Date.now()) * 1000000n - 3600000000000n;

/* A time of the last hour that no other call gives. */
function now() {
    clock += 1000001n;
    return clock.toString();
}

/* A number point. value: bigint is asInt, number asDouble, undefined none. */
function point(value, attributes = {}, more = {}) {
    const p = { timeUnixNano: now(), attributes: attrs(attributes) };

    if (typeof value === 'bigint')
        p.asInt = value.toString();
    else if (typeof value === 'number')
        p.asDouble = Number.isFinite(value) && !Object.is(value, -0) ? value : doubleText(value);
    return { ...p, ...more };
}

const gauge = (name, ...dataPoints) => ({ name, gauge: { dataPoints } });
const sum = (name, more, ...dataPoints) =>
    ({ name, sum: { aggregationTemporality: 2, isMonotonic: true, dataPoints, ...more } });
const histogram = (name, ...dataPoints) =>
    ({ name, histogram: { aggregationTemporality: 2, dataPoints } });
const exponential = (name, ...dataPoints) =>
    ({ name, exponentialHistogram: { aggregationTemporality: 2, dataPoints } });
const summary = (name, ...dataPoints) => ({ name, summary: { dataPoints } });

function request(metrics, { resource = { 'service.name': 'e2e' }, scope = { name: 'e2e' } } = {}) {
    return {
        resourceMetrics: [{
            resource: { attributes: attrs(resource) },
            scopeMetrics: [{ scope, metrics }],
        }],
    };
}

module.exports = {
    any, attrs, encode, exponential, fields, gauge, histogram, len, now, point, readPartial,
    readStatus, request, sum, summary, tag, varint, fixed64,
};
