'use strict';
/* DuckDB in a process of its own, for bench/reads_duckdb.c: a line of JSON on standard input is a request,
 *   {"open": FILE}   {"run": SQL}   {"ask": SQL}
 * and the answer is "ok NANOSECONDS ROWS" and that many lines of values with tabs between them, or "error TEXT".
 * The time is DuckDB's own, from the text of the query until all of its result is here; making text of it is
 * not part of it.
 *
 *   node duckdb.js MODULES    where node_modules/@duckdb/node-api is */
const path = require('node:path');
const readline = require('node:readline');
const { createRequire } = require('node:module');

const { DuckDBInstance } = createRequire(path.join(path.resolve(process.argv[2]), 'x.js'))('@duckdb/node-api');
let connection;

async function serve(request) {
    if (request.open) {
        const instance = await DuckDBInstance.create(request.open);

        connection = await instance.connect();
        return { ns: 0n, rows: [] };
    }
    const begin = process.hrtime.bigint();
    const reader = await connection.runAndReadAll(request.ask || request.run);
    const ns = process.hrtime.bigint() - begin;

    return { ns, rows: request.ask ? reader.getRows() : [] };
}

(async () => {
    for await (const line of readline.createInterface({ input: process.stdin })) {
        try {
            const { ns, rows } = await serve(JSON.parse(line));
            const text = rows.map((row) => `${row.join('\t')}\n`).join('');

            process.stdout.write(`ok ${ns} ${rows.length}\n${text}`);
        } catch (error) {
            process.stdout.write(`error ${String(error.message).split('\n')[0]}\n`);
        }
    }
})();
