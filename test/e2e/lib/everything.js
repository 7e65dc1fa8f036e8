'use strict';
const { attrs, exponential, gauge, histogram, now, point, request, sum, summary } = require('./otlp');

/* Every field that the format has, with values that are easy to spoil. */
function everything() {
    const exemplars = [
        { timeUnixNano: '12', asDouble: 0.1, traceId: '000102030405060708090a0b0c0d0e0f',
            spanId: '0001020304050607', filteredAttributes: attrs({ f: 'x', n: null }) },
        { timeUnixNano: '0', asInt: '-9223372036854775808' }];
    const more = { startTimeUnixNano: '1000000001', flags: 4, exemplars };
    const values = { s: 'ä\u0000b', t: true, i: -1n, big: 2n ** 53n + 1n, d: 0.1, nz: -0, nan: NaN,
        inf: Infinity, bytes: Buffer.from([0, 1, 254, 255]), empty: null,
        list: [1n, 1, '1', [], { k: [null] }], map: { z: 1n, a: { b: 'c' } } };
    const h = (x) => ({ timeUnixNano: now(), attributes: attrs({ h: 1n }), count: '6', ...x });
    const metrics = [
        { ...gauge('all.gauge', ...[0.1, -0, NaN, Infinity, -Infinity, 5e-324, 0n, 2n ** 63n - 1n,
            -(2n ** 63n)].map((v) => point(v, values, more)), point(undefined, {}, { flags: 1 })),
        unit: 'By', description: 'all of it', metadata: attrs({ 'prometheus.type': 'unknown', list: [1n] }) },
        sum('all.sum', { isMonotonic: false }, point(-1n, {}, more)),
        sum('all.delta', { aggregationTemporality: 1 }, point(1.5, { d: 'e' }, more)),
        histogram('all.histogram', h({ ...more, sum: -0.5, min: -1, max: 'Infinity',
            bucketCounts: ['1', '2', '3'], explicitBounds: [-1, 0.1] }),
        h({}), h({ bucketCounts: ['6'], sum: 0 }), { ...h({}), count: '0', flags: 1 }),
        { name: 'all.hdelta', histogram: { aggregationTemporality: 1, dataPoints: [h({})] } },
        exponential('all.exponential', h({ ...more, sum: 1e308, min: 5e-324, max: 1, scale: -3, zeroCount: '1',
            zeroThreshold: 1e-9, positive: { offset: -4, bucketCounts: ['0', '2', '0', '1'] },
            negative: { offset: 7, bucketCounts: ['2'] } }),
        { ...h({ scale: 20, zeroCount: '6' }) }),
        summary('all.summary', h({ startTimeUnixNano: '5', sum: 0.1, quantileValues: [
            { quantile: 0, value: 0 }, { quantile: 0.99, value: 'NaN' }, { quantile: 1, value: 1e300 }] }),
        h({}))];
    const obj = request(metrics, { resource: { ...values, 'service.name': 'svc ✓' },
        scope: { name: 'scope', version: '0.1', attributes: attrs(values), droppedAttributesCount: 1 } });

    obj.resourceMetrics[0].schemaUrl = 'https://resource.test';
    obj.resourceMetrics[0].resource.droppedAttributesCount = 4294967295;
    obj.resourceMetrics[0].resource.entityRefs = [{ schemaUrl: 'https://e', type: 'service',
        idKeys: ['service.name'], descriptionKeys: ['t'] }];
    obj.resourceMetrics[0].scopeMetrics[0].schemaUrl = 'https://scope.test';
    obj.resourceMetrics.push({ scopeMetrics: [{ metrics: [gauge('all.bare', point(1))] }] });
    return obj;
}

module.exports = { everything };
