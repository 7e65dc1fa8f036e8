#!/bin/bash
# The short benchmark: `make bench`. A daemon of its own on a free loopback port with data in a
# temporary directory; each case is run RUNS times and its median printed.
#
#   B=build          where the binaries are
#   RUNS=5           runs of each case
#   DURATION=5s      measured time of each run
#   CASES='a b'      only these (see `cases` below)
#   SETTINGS='...'   further arguments for otlite serve, as --set sqlite.durability=full
set -euo pipefail
cd "$(dirname "$0")/.."

b=${B:-build}
runs=${RUNS:-5}
duration=${DURATION:-5s}
otlite=$b/otlite
bench=$b/otlite-bench
dir=$(mktemp -d "${TMPDIR:-/tmp}/otlite-bench.XXXXXX")
pid=

stop() {
    [ -n "$pid" ] || return 0
    kill -TERM "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
    pid=
}
trap 'stop; rm -rf "$dir"' EXIT

# Starts a daemon with empty data; sets pid and port. The port is in its "serving" line.
start() {
    rm -rf "$dir/data"
    : >"$dir/log"
    # shellcheck disable=SC2086
    "$otlite" serve --listen 127.0.0.1:0 --data "$dir/data" ${SETTINGS:-} 2>"$dir/log" &
    pid=$!
    port=
    for _ in $(seq 200); do
        port=$(sed -n 's/.*msg=serving .*listen=127\.0\.0\.1:\([0-9]*\).*/\1/p' "$dir/log")
        [ -n "$port" ] && return
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.05
    done
    cat "$dir/log" >&2
    echo "bench: the daemon did not start" >&2
    exit 1
}

# name and the arguments of its load
cases() {
    cat <<'CASES'
proto-100     --points-per-request 100
gzip-100      --points-per-request 100 --gzip
json-100      --points-per-request 100 --encoding json
proto-1000    --points-per-request 1000
rate-1000     --points-per-request 100 --rate 1000
CASES
}

field() { # NAME FILE: a number of the one-line JSON report
    sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" "$2"
}

median() {
    sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

# Every point that was answered 200 must be there.
check_stored() { # ACCEPTED LABEL
    stored=$("$otlite" sql --data "$dir/data" 'SELECT count(*) FROM number_point')
    if [ "$stored" -lt "$1" ]; then
        echo "bench: $2: $1 points were answered 200 and only $stored are stored" >&2
        exit 1
    fi
}

columns='points_per_second p50_ms p90_ms p99_ms max_ms daemon_cpu_seconds points_per_cpu_second generator_cpu_seconds lost unsent'

row() { # LABEL RUN VALUE...: VALUEs in the order of columns
    printf '%-11s %-7s %10.0f %8.2f %8.2f %8.2f %8.2f %9.2f %11.0f %8.2f %6.0f %7.0f\n' "$@"
}

echo "$("$otlite" version | head -n 1), $(nproc) cores, $(uname -sr), $runs runs of $duration each"
printf '%-11s %-7s %10s %8s %8s %8s %8s %9s %11s %8s %6s %7s\n' case run points/s p50,ms p90,ms \
    p99,ms max,ms daemon,s points/cpu,s gen,s lost unsent

cases | while read -r name arguments; do
    [ -z "${CASES:-}" ] || [[ " $CASES " == *" $name "* ]] || continue
    for run in $(seq "$runs"); do
        start
        # shellcheck disable=SC2086
        "$bench" load --url "http://127.0.0.1:$port/v1/metrics" --duration "$duration" --pid "$pid" \
            --json $arguments >"$dir/$name.$run"
        check_stored "$(field points_accepted "$dir/$name.$run")" "$name"
        stop
        values=
        for c in $columns; do
            values="$values $(field "$c" "$dir/$name.$run")"
        done
        # shellcheck disable=SC2086
        row "$name" "$run" $values
    done
    values=
    for c in $columns; do
        values="$values $(for run in $(seq "$runs"); do field "$c" "$dir/$name.$run"; done | median)"
    done
    # shellcheck disable=SC2086
    row "$name" median $values
done
