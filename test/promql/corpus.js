'use strict';
/* Expressions that otlite and Prometheus 2.42 must answer alike: every function, operator, modifier and
 * edge that both have. What Prometheus 3 answers otherwise is asked so that both mean the same (an
 * entry [otlite's, Prometheus']), or stands in docs/promql.md with a test of its own. */

const list = [];
/* 2.42 leaves the metric's name on what atan2 makes; it is taken away there. */
const asIn3 = (expr) => (typeof expr === 'string' && / atan2 /.test(expr) && /[a-z]_|temperature|shape|special|flapping/.test(expr)
    ? [expr, `label_replace(${expr}, "__name__", "", "", "")`] : expr);
const add = (...exprs) => list.push(...exprs.map(asIn3));
/* Every template with every argument in the place of $. */
const each = (templates, args) => {
    for (const t of templates)
        for (const a of args)
            add(t.replaceAll('$', a));
};

/* ---- literals, scalars, strings ---- */
add('1', '-1', '+1', '1.5', '.5', '5.', '1e3', '1E-3', '0x1f', '0XAB', '017', 'Inf', '-Inf', '+inf', 'NaN', 'nan',
    '"text"', "'text'", '`te\\xt`', '"a\\n\\t\\"\\u00fc\\x41\\101"', '"ünï"', '(1)', '((2))', '-(-1)', '--1', '-+-1',
    '1 # comment', '# first\n1', '1 +\n # in between\n 2',
    '1 + 2 * 3', '(1 + 2) * 3', '2 ^ 3 ^ 2', '-2 ^ 2', '2 ^ -1', '7 % 3', '-7 % 3', '7 % -3', '7.5 % 2', '1 / 0', '-1 / 0',
    '0 / 0', '1 % 0', '0 % 0', 'Inf - Inf', 'Inf * 0', '1 atan2 2', '0 atan2 -1', '2 - 3 - 4', '24 / 4 / 2', '2 * 3 % 4',
    '1 == bool 1', '1 == bool 2', '1 != bool 2', '1 > bool 2', '1 < bool 2', '1 >= bool 1', '1 <= bool 0',
    'NaN == bool NaN', 'NaN != bool NaN', 'Inf == bool Inf', '1 + 1 == bool 2', '1 + (2 > bool 1)');

/* ---- selectors ---- */
add('requests_total', 'requests_total{}', 'requests_total{instance="a"}', 'requests_total{instance!="a"}',
    'requests_total{instance=~"a|b"}', 'requests_total{instance!~"a|b"}', 'requests_total{instance=~".*"}',
    'requests_total{instance=~".+"}', 'requests_total{instance=~""}', 'requests_total{absent=""}',
    'requests_total{absent!=""}', 'requests_total{absent=~".*"}', 'requests_total{absent!~".+"}',
    'requests_total{instance=~"[ab]",path="/",code="200"}', 'requests_total{instance="a",instance=~"a|c"}',
    'requests_total{instance="a",instance="b"}', '{__name__="requests_total",code="500"}', '{__name__=~"queue_.*"}',
    '{__name__=~"queue_(length|limit)",instance="a"}', '{__name__!="x",room=~".+"}', '{room="attic"}', '{floor="0"}',
    'temperature{room=~"a.*|.*r"}', 'temperature{room=~"(?i)ATTIC"}', 'temperature{room!~"(kit|at).*"}',
    'temperature{room=~"ki?tchen"}', 'temperature{room=~"^attic$"}', 'temperature{room=~"tti"}', 'texts',
    'texts{text="with \\"quotes\\""}', "texts{text='with \"quotes\"'}", 'texts{text="back\\\\slash"}', 'texts{text=`back\\slash`}',
    'texts{text="a,b"}', 'texts{text="ünï"}', 'texts{text="{x}"}', 'texts{text=~"\\\\{x\\\\}"}', 'texts{text=~"[0-9]+"}',
    'texts{text=~".*-.*"}', 'nothing', 'nothing{a="b"}', 'special', 'shape', 'early', 'late', 'single', 'sparse', 'irregular',
    'flapping', 'flapping_total', 'weird_bucket', 'latency_seconds_bucket', 'latency_seconds_sum', 'latency_seconds_count',
    'latency_seconds_bucket{le="0.5"}', 'latency_seconds_bucket{le=~"0.5|1|10"}', 'latency_seconds_bucket{le="+Inf"}',
    'native_seconds', 'native_seconds{instance="a"}', 'requests_total{instance="a",}', 'requests_total {instance="a"}');

/* ---- offset, @, both ---- */
each(['$ offset 5m', '$ offset 1h', '$ offset -5m', '$ offset 7s', '$ offset 1h30m', '$ @ 1709250000.003', '$ @ start()', '$ @ end()',
    '$ @ end() offset 10m', '$ offset 10m @ 1709250000.003', '$ @ 1709250000.003 offset -3m', 'rate($[5m] offset 10m)',
    'rate($[5m] @ end())', 'increase($[10m] @ 1709250900.003 offset 2m)', 'sum($ offset 3m) - sum($)'],
['requests_total', 'cpu_seconds_total{mode="idle"}']);
each(['$ offset 6m', 'max_over_time($[5m] offset 6m)', '$ @ 1709252000.003', 'count_over_time($[10m] @ start())'],
    ['flapping', 'early', 'sparse', 'shape', 'late']);
add('temperature offset 1d', 'temperature offset 1w', 'temperature offset 1y', 'sum_over_time(temperature[3m] offset -10m)');

/* ---- durations ---- */
each(['count_over_time(irregular[$])', 'temperature offset $'],
    ['1ms', '500ms', '1s', '90s', '1m', '1m30s', '1h', '1h5m10s', '2m3s4ms', '1d', '1w', '1y', '119m']);

/* ---- functions over ranges ---- */
const overTime = ['avg', 'min', 'max', 'sum', 'count', 'last', 'present', 'stddev', 'stdvar'].map((f) => `${f}_over_time`);
const gauges = ['temperature[5m]', 'queue_length[7m]', 'sparse[20m]', 'irregular[3m]', 'flapping[6m]', 'shape[10m]', 'single[1h]'];

for (const f of [...overTime, 'changes', 'resets', 'delta', 'idelta', 'deriv'])
    each([`${f}($)`], gauges);
for (const f of [...overTime, 'changes', 'resets', 'delta', 'idelta', 'rate', 'irate', 'increase', 'deriv'])
    add(`${f}(special{kind!~"huge|tiny"}[5m])`, `${f}(special{kind="mixed"}[2m])`);
for (const f of ['sum', 'avg', 'min', 'max', 'last'])
    add(`${f}_over_time(special{kind="huge"}[5m])`);
/* Means of denormal numbers: 2 loses digits on the way, 3 does not. */
for (const f of ['sum', 'min', 'max', 'last'])
    add(`${f}_over_time(special{kind="tiny"}[5m])`);
for (const f of ['rate', 'increase', 'irate', 'resets', 'delta', 'changes'])
    each([`${f}($)`], ['requests_total[5m]', 'requests_total[45s]', 'requests_total[16s]', 'cpu_seconds_total[10m]', 'irregular_total[4m]',
        'flapping_total[8m]', 'latency_seconds_bucket{instance="a"}[5m]', 'latency_seconds_count[1h]', 'single[30m]', 'nothing[5m]',
        'late_total[5m]', 'cpu_seconds_total[2h]']);
each(['quantile_over_time($, temperature[10m])', 'quantile_over_time($, queue_length[5m])', 'quantile_over_time($, special{kind="mixed"}[5m])'],
    ['0', '0.5', '0.9', '0.99', '1', '-1', '1.5', 'NaN']);
each(['predict_linear(temperature[10m], $)', 'predict_linear(irregular[10m], $)', 'predict_linear(shape[30m], $)'], ['0', '60', '3600', '-600', '1e6']);
for (const [sf, tf] of [[0.5, 0.5], [0.1, 0.9], [0.9, 0.1], [0.01, 0.99]])
    for (const m of ['temperature[10m]', 'shape[5m]', 'irregular[6m]'])
        add([`double_exponential_smoothing(${m}, ${sf}, ${tf})`, `holt_winters(${m}, ${sf}, ${tf})`], `holt_winters(${m}, ${sf}, ${tf})`);
each(['absent_over_time($)'], ['temperature[5m]', 'nothing[5m]', 'nothing{a="1",b=~"x"}[5m]', 'early[10m]', 'flapping{n="0"}[1m]', 'nothing{a="1",a="2"}[5m]',
    'late{a="1"}[5m]', '{job="x",instance="y"}[5m]']);

/* ---- functions over vectors ---- */
for (const f of ['abs', 'ceil', 'floor', 'round', 'exp', 'ln', 'log2', 'log10', 'sqrt', 'sgn', 'sin', 'cos', 'tan', 'asin', 'acos', 'atan', 'sinh', 'cosh',
    'tanh', 'asinh', 'acosh', 'atanh', 'deg', 'rad'])
    add(`${f}(temperature)`, `${f}(special{kind!~"huge|tiny"})`, `${f}(shape / 100)`);
each(['round(temperature, $)', 'round(special{kind!~"huge|tiny"}, $)'], ['0.5', '5', '10', '-1', '0.125', '0']);
each(['clamp(temperature, $)', 'clamp(special{kind!="tiny"}, $)'], ['0, 10', '-5, 5', '10, 0', '5, 5', '-Inf, 10', 'NaN, 5', '0, NaN']);
each(['clamp_min(temperature, $)', 'clamp_max(temperature, $)', 'clamp_max(special, $)'], ['0', '15', 'NaN', 'Inf', '-Inf']);
add('absent(nothing)', 'absent(temperature)', 'absent(nothing{a="1"})', 'absent(nothing{a="1",b!="2"})', 'absent(nothing{a="1",a="2"})', 'absent(early)',
    'absent(sum(nothing))', 'absent({job="z"})', 'absent(nothing{job=~"z"})', 'absent(rate(nothing{a="1"}[5m]))', 'absent(nothing + nothing)',
    'scalar(temperature)', 'scalar(temperature{room="attic"})', 'scalar(nothing)', 'scalar(sum(temperature))', 'scalar(flapping{n="1"})',
    'vector(1)', 'vector(time())', 'vector(scalar(sum(temperature)))', 'time()', 'time() - 1709250000', 'pi()', 'pi() * 2', 'timestamp(temperature)',
    'timestamp(sparse)', 'timestamp(temperature offset 1m)', 'timestamp(temperature + 0)', 'timestamp(timestamp(sparse))', 'timestamp(vector(1))',
    'timestamp(sparse @ 1709251200.003)', 'timestamp((sparse))',
    'sort(temperature)', 'sort_desc(temperature)', 'sort(special{kind!="mixed"})', 'sort_desc(sum by (instance) (queue_length))',
    'sort(nothing)', 'time() % 60', 'scalar(single) + 1', 'temperature + scalar(single)', 'temperature * scalar(nothing)');
for (const f of ['minute', 'hour', 'day_of_week', 'day_of_month', 'day_of_year', 'days_in_month', 'month', 'year'])
    add(`${f}()`, `${f}(vector(1709251200))`, `${f}(vector(0))`, `${f}(vector(-1))`, `${f}(vector(951782400))`, `${f}(vector(1e9) * shape)`,
        `${f}(timestamp(temperature))`, `${f}(vector(4102444799))`, `${f}(vector(1709251200.9))`);
add('label_replace(temperature, "place", "$1", "room", "(.*)")', 'label_replace(temperature, "room", "x-$1", "room", "(.).*")',
    'label_replace(temperature, "room", "", "room", "attic")', 'label_replace(temperature, "place", "fix", "room", "a.*")',
    'label_replace(temperature, "place", "$2-$1", "room", "(.)(.*)")', 'label_replace(temperature, "place", "${first}!", "room", "(?P<first>.).*")',
    'label_replace(temperature, "place", "$1", "absent", "(.*)")', 'label_replace(temperature, "place", "none", "absent", "")',
    'label_replace(temperature, "place", "$3", "room", "(.*)")', 'label_replace(temperature, "__name__", "heat", "room", ".*")',
    'label_replace(temperature, "place", "$$1", "room", "(.*)")', 'label_replace(temperature, "place", "$1x", "room", "(.*)")',
    'label_replace(temperature, "place", "${1}x", "room", "(.*)")', 'label_replace(temperature, "room", "same", "room", ".*")',
    'label_replace(temperature, "place", "x", "room", "(")',
    'label_replace(rate(requests_total[5m]), "where", "$1$2", "path", "(/)(.*)")', 'label_replace(texts, "copy", "$1", "src", "(.*)-src")',
    'label_join(temperature, "both", "/", "room", "floor")', 'label_join(temperature, "room", "-", "floor", "room")',
    'label_join(temperature, "both", "", "room")', 'label_join(temperature, "both", ",")', 'label_join(temperature, "both", "/", "absent", "room")',
    'label_join(temperature, "room", "/", "absent")', 'label_join(temperature, "room", "-", "floor")', 'label_join(texts, "t", "+", "text", "src", "text")');

/* ---- histograms ---- */
each(['histogram_quantile($, latency_seconds_bucket)', 'histogram_quantile($, rate(latency_seconds_bucket[5m]))',
    'histogram_quantile($, sum by (le) (rate(latency_seconds_bucket[5m])))', 'histogram_quantile($, sum by (le, path) (increase(latency_seconds_bucket[10m])))',
    'histogram_quantile($, weird_bucket)', 'histogram_quantile($, negative_bucket)', 'histogram_quantile($, noinf_bucket)', 'histogram_quantile($, onlyinf_bucket)'],
['0', '0.1', '0.5', '0.99', '1', '-0.5', '2', 'NaN']);
add('histogram_quantile(0.5, badle_bucket)', 'histogram_quantile(0.5, temperature)', 'histogram_quantile(0.5, nothing)',
    'histogram_quantile(scalar(single) / 10, latency_seconds_bucket)', 'histogram_quantile(0.9, latency_seconds_bucket{le=~"0.1|1|\\\\+Inf"})',
    'histogram_quantile(0.9, latency_seconds_bucket{le!="+Inf"})', 'histogram_quantile(0.5, latency_seconds_bucket * 0)',
    'histogram_quantile(0.9, sum without (instance, path) (latency_seconds_bucket))', 'histogram_quantile(0.9, {__name__=~".*_bucket",instance="a"})',
    'rate(latency_seconds_sum[5m]) / rate(latency_seconds_count[5m])',
    'sum(rate(latency_seconds_bucket{le="0.5"}[5m])) / sum(rate(latency_seconds_count[5m]))',
    'histogram_count(native_seconds)', 'histogram_sum(native_seconds)', 'histogram_sum(native_seconds) / histogram_count(native_seconds)',
    'histogram_count(rate(native_seconds[5m]))', 'histogram_sum(increase(native_seconds[10m]))', 'sum(native_seconds{instance=~"a|b"})', 'sum by (job) (native_seconds)',
    'rate(native_seconds[5m])', 'increase(native_seconds[20m])', 'delta(native_seconds[5m])', 'histogram_count(temperature)', 'histogram_sum(temperature)',
    'histogram_count(sum(rate(native_seconds[5m])))', 'count(native_seconds)', 'group(native_seconds)', 'histogram_fraction(-Inf, +Inf, native_seconds)', 'histogram_fraction(-Inf, 0, native_seconds)',
    'histogram_quantile(-1, native_seconds)', 'histogram_quantile(2, native_seconds)', 'histogram_quantile(NaN, native_seconds)', 'count_over_time(native_seconds[5m])',
    'native_seconds + native_seconds', 'native_seconds offset 5m', 'present_over_time(native_seconds[5m])');

/* ---- aggregations ---- */
for (const op of ['sum', 'avg', 'min', 'max', 'count', 'group', 'stddev', 'stdvar'])
    each([`${op}($)`, `${op} by (instance) ($)`, `${op} by (job, code) ($)`, `${op} without (instance) ($)`, `${op}($) by (path)`, `${op} by () ($)`, `${op} without () ($)`, `${op} by (absent) ($)`],
        ['requests_total', 'queue_length', 'rate(requests_total[5m])']);
for (const op of ['sum', 'avg', 'min', 'max', 'count', 'group', 'stddev', 'stdvar'])
    add(`${op}(special)`, `${op}(special{kind=~"nan|one|zero"})`, `${op}(special{kind=~"inf|one"})`, `${op}(special{kind=~"inf|neginf"})`, `${op}(nothing)`, `${op} by (n) (flapping)`,
        `${op}(flapping)`, `${op}(sparse or irregular)`);
for (const op of ['topk', 'bottomk'])
    each([`${op}($, temperature)`, `${op} by (floor) ($, temperature)`, `${op}($, rate(cpu_seconds_total[5m]))`, `${op} without (mode) ($, cpu_seconds_total)`, `${op}($, special{kind!~"mixed|zero|negzero"})`],
        ['0', '1', '2', '3.7', '100', '-1', 'scalar(single) - 5']);
each(['quantile($, temperature)', 'quantile by (job) ($, rate(cpu_seconds_total[5m]))', 'quantile($, special)', 'quantile without (instance) ($, queue_length)'], ['0', '0.25', '0.5', '0.9', '1', '-1', '2', 'NaN']);
add('count_values("value", queue_length)', 'count_values by (queue) ("value", queue_length)', 'count_values("version", build_info)', 'count_values without (instance) ("v", queue_length)',
    'count_values("value", special)', 'count_values("instance", queue_length)', 'count_values("value", shape / 8)', 'count_values("v", nothing)',
    'sum(sum by (instance) (requests_total))', 'max(sum without (code) (rate(requests_total[5m])))', 'count(count by (instance) (requests_total))', 'avg by (job) (sum by (job, instance) (cpu_seconds_total))',
    'SUM(temperature)', 'Sum By (floor) (temperature)', 'sum by (floor, floor) (temperature)', 'sum by (__name__) ({__name__=~"queue_.*"})', 'count by (__name__) ({__name__!=""})', 'count without (instance) ({__name__=~"queue_.*"})');

/* ---- binary operators ---- */
const arithmetic = ['+', '-', '*', '/', '%', '^', 'atan2'];
const comparison = ['==', '!=', '>', '<', '>=', '<='];

for (const op of arithmetic)
    add(`temperature ${op} 2`, `2 ${op} temperature`, `queue_length ${op} on (instance) group_left queue_limit`, `queue_limit ${op} on (instance) group_right () queue_length`,
        `special{kind!~"huge|tiny"} ${op} special{kind!~"huge|tiny"}`, `shape ${op} ignoring (kind) shape`, `left_side{b="x"} ${op} on (a) one_side`, `flapping ${op} flapping offset 5m`);
for (const op of comparison)
    add(`queue_length ${op} 5`, `5 ${op} queue_length`, `queue_length ${op} bool 5`, `5 ${op} bool queue_length`, `special ${op} 1`, `special ${op} bool NaN`, `queue_length ${op} on (instance) group_left queue_limit`,
        `queue_length ${op} bool on (instance) group_left queue_limit`, `queue_limit ${op} ignoring (job, queue) group_right queue_length`, `shape ${op} shape offset 1m`, `shape ${op} bool shape`,
        `special ${op} special`, `left_side{b="x"} ${op} on (a) one_side`);
for (const op of ['and', 'or', 'unless'])
    add(`left_side ${op} right_side`, `left_side ${op} on (a) right_side`, `left_side ${op} ignoring (b, c) right_side`, `left_side ${op} on () right_side`, `one_side ${op} on (a) left_side`,
        `left_side ${op} on (a) one_side{a="1"}`, `requests_total{code="500"} ${op} ignoring (code) requests_total{code="200",instance="a"}`, `flapping ${op} flapping offset 5m`, `temperature ${op} nothing`,
        `nothing ${op} temperature`, `temperature ${op} vector(1)`, `temperature ${op} on () vector(1)`, `(early or late) ${op} single`, `temperature > 10 ${op} temperature < 20`, `early ${op} late`);
add('left_side + right_side', 'left_side + on (a) right_side', 'left_side * on (a) group_left one_side', 'left_side * on (a) group_left (c) right_side{c="p"}', 'right_side * on (a) group_left (b) left_side{b="x"}',
    'one_side - on (a) group_right left_side', 'one_side / on (a) group_right (b) left_side', 'one_side / on (a) group_right (nope) left_side', 'left_side{b="x"} - ignoring (b, c) right_side{c="p"}',
    'left_side - ignoring (b) group_left one_side', 'queue_length * on (instance) group_left (version) build_info', 'sum by (version) (queue_length * on (instance) group_left (version) build_info)',
    'queue_length * on (job, instance) group_left (version) build_info', 'requests_total / ignoring (code) group_left sum without (code) (requests_total)',
    'requests_total{code="500"} / ignoring (code) requests_total{code="200"}', 'requests_total{code="500"} / on (instance, path) requests_total{code="200"}', 'requests_total / requests_total',
    'requests_total / on () group_left vector(2)', 'left_side + on (a) group_left right_side', 'left_side + on (b) left_side', 'one_side + on () one_side', 'left_side{b="x"} == on (a) group_left (b) left_side{b="x"}',
    'temperature + on (room) temperature', 'temperature + ignoring (floor) temperature', '-temperature', '+temperature', '-(temperature + 1)', '-temperature ^ 2', 'temperature > 5 < 20', 'temperature - 5 > 0',
    'temperature > bool 5 > bool 0', '1 < bool scalar(single)', 'temperature == temperature', 'sum(temperature) + sum(queue_length)', 'sum(requests_total) / count(requests_total) - avg(requests_total) < bool 1',
    'rate(requests_total{code="500"}[5m]) / ignoring (code) rate(requests_total{code="200"}[5m])', 'rate(requests_total[5m]) > 0.5', 'temperature and on (floor) temperature{room="attic"}',
    'temperature or on (room) temperature offset 1m', '(temperature or sparse) + 1', 'flapping{n="0"} or flapping{n="1"}', 'flapping + on (n) flapping_total', 'temperature unless temperature > 10',
    'label_replace(left_side, "c", "p", "", "") * on (a, c) right_side', '{__name__=~"early|late"} + 1', 'abs({__name__=~"queue_length|queue_limit"})', 'rate({__name__=~"requests_total|cpu_seconds_total"}[5m])',
    'time() - timestamp(temperature)', 'count_over_time((late or on (a) single)[20m30s:1m])', '-(late or on (kind) single)', 'abs(late or on (kind) single)', 'temperature * 0 == 0', 'max_over_time(temperature[5m]) - min_over_time(temperature[5m])', 'temperature ^ 0.5', '(temperature > 20) * on (room) group_right temperature');

/* ---- subqueries ---- */
each(['max_over_time($)', 'avg_over_time($)', 'count_over_time($)', 'last_over_time($)'],
    ['temperature[10m30s:1m]', 'rate(requests_total[2m])[20m30s:1m]', 'sum(queue_length)[10m15s:30s]', 'temperature[5m30s:]', 'flapping[30m30s:1m]', 'sparse[30m30s:1m]', '(temperature > 20)[15m30s:1m]', 'vector(time())[3m30s:1m]',
        'vector(1)[5m5s:10s]', '(vector(2) * 3)[5m5s:10s]', 'temperature[10m30s:1m] offset 5m', 'temperature[10m30s:1m] @ 1709251200.003', 'temperature[10m30s:1m] @ end() offset 1m', 'single[1h30s:1m]', 'nothing[5m30s:1m]',
        'max_over_time(temperature[3m30s:1m])[10m30s:2m]', 'rate(requests_total{instance="a"}[1m] offset 1m)[5m30s:1m]']);
add('rate(sum(requests_total)[10m30s:1m])', 'increase((requests_total)[10m30s:1m])', 'deriv(rate(requests_total[2m])[10m30s:1m])', 'quantile_over_time(0.9, rate(requests_total[2m])[10m30s:1m])', 'changes(queue_length[10m30s:1m])',
    'sum_over_time((queue_length > 5)[20m30s:1m])', 'absent_over_time(nothing[5m30s:1m])', 'absent_over_time(temperature[5m30s:1m])', 'min_over_time(sum by (job) (rate(cpu_seconds_total[2m]))[15m30s:3m])',
    'stddev_over_time(temperature[10m30s:1m])', 'predict_linear(temperature[10m30s:1m], 600)', 'sum(max_over_time(rate(requests_total[1m])[10m30s:1m]))', 'max_over_time(deriv(rate(requests_total[2m])[5m30s:1m])[10m30s:1m])',
    'avg_over_time((temperature offset 5m)[10m30s:1m])', 'max_over_time((temperature @ 1709251200.003)[10m30s:1m])', 'count_over_time(hour()[10m30s:1m])', 'idelta(temperature[5m30s:1m])', 'irate(requests_total[5m30s:1m])');

/* ---- asked of an instant only: range vectors ---- */
const instant = ['temperature[2m]', 'requests_total{instance="a",path="/"}[1m]', 'flapping[20m]', 'sparse[30m] offset 5m', 'temperature[3m30s:1m]', 'sum(temperature)[3m30s:1m]', 'native_seconds{instance="a"}[45s]', 'nothing[5m]',
    'special[30s]', 'temperature[1m] @ 1709251200.003'];

/* ---- errors: both refuse ---- */
const errors = ['', '(', ')', 'sum(', 'temperature{', 'temperature{room}', 'temperature{room=}', 'temperature{room="a"', 'temperature{room=~"("}', '{}', '{a=""}', '{a=~".*"}', 'temperature[5m', 'temperature[]', 'temperature[5]x', 'temperature[-5m]', 'temperature[0s]',
    'rate(temperature)', 'rate(5)', 'abs(temperature[5m])', 'abs()', 'abs(1)', 'abs(temperature, 1)', 'nofunction(temperature)', 'sum(1)', 'sum()', 'sum by (a temperature', 'topk(temperature)', 'topk(1, 2)', 'topk("a", temperature)', 'count_values(1, temperature)', 'temperature offset',
    'temperature @', 'temperature @ "x"', 'temperature @ end', 'temperature offset 5m offset 5m', 'temperature @ 1 @ 2', 'sum(temperature) offset 5m', '1 offset 5m', '1 == 1', '1 and 1', 'temperature and 1', '1 or temperature', '1 + on (a) 1', '1 + on (a) temperature',
    'temperature and on (a) group_left temperature', 'temperature + group_left temperature', 'temperature + bool 1', 'temperature == bool', '"a" + 1', '"a" + "b"', '-"a"', 'temperature[5m] + 1', 'temperature[5m] > 1', '-temperature[5m]', 'temperature[5m][5m]', 'temperature[5m:1m:1m]', '1[5m:1m', 'temperature{room="a",,}', 'temperature{,}',
    'temperature{room="a"}{room="b"}', 'temperature temperature', '1 2', 'temperature +', '* temperature', 'temperature ! temperature', 'temperature = 1', 'temperature =~ "a"', 'temp-erature{', "'abc", '"abc', '`abc', '"\\q"', '5mm', '1h1h', '1m1h', 'label_replace(temperature, "a", "b")', 'label_replace(temperature, "a", "b", "c", 1)', 'clamp(temperature, 1)',
    'histogram_quantile(temperature)', 'histogram_quantile("0.9", temperature)', 'sum by (temperature) by (room) (temperature)', 'sum(temperature) by room', 'temperature{__name__="x"}', 'vector(temperature)', 'scalar(1)', 'time(1)', 'round(temperature, 1, 2)', 'temperature{"room"="a"', '0x', '1e', 'on', 'by', 'temperature on (a) temperature', 'sum without', 'max_over_time(temperature[5m] offset 5m offset 5m)', '{__name__="temperature",__name__="x"} +', 'temperature[5m] @ start() @ end()', 'topk(1)(temperature)', 'bool', 'temperature[1m:0s]'];

module.exports = { corpus: list, instant, errors };
