#!/bin/sh
# seed_promql.sh DIR -- the expressions of the conformance test as first inputs, and those that are none.
set -eu
to=$1
mkdir -p "$to"
command -v node >/dev/null 2>&1 || exit 0
TO=$to node -e '
const fs = require("node:fs");
const { corpus, errors, instant } = require("./test/promql/corpus.js");
[...corpus.map((e) => [].concat(e)[0]), ...errors, ...instant, "{\"a.b\",\"c d\"=~`x`}", "5m * 2", "a[300] offset -5",
    "sum by (\"a b\") (x)", "limitk(2, x)", "limit_ratio(0.5, x)", "x @ -1.5 offset 1h"]
    .forEach((e, i) => fs.writeFileSync(`${process.env.TO}/${i}`, e));'
