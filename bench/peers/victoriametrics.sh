#!/bin/bash
# otlite and Debian's VictoriaMetrics on this machine, with the same points in turns: what each takes, what
# it costs, and what is on disk.
#
#   bench/peers/victoriametrics.sh
#
# The package is fetched with apt-get and unpacked beside the build; nothing is installed and no service is
# started. Both daemons get one after the other the points of `otlite-bench load`: the same series and
# values, otlite as OTLP protobuf, VictoriaMetrics as Influx lines, which is what it takes at the least cost.
# Both keep their data in a temporary directory, listen on loopback, and end by their pid.
#
#   B=build          where the binaries are
#   OUT=DIR          keep the tables there; default: print only
#   RUNS=5           pairs of runs of each shape, of which the median counts
#   DURATION=5s      measured time of each run
#   SHAPES='100 1000'  points a request
#   PORT=18428       for VictoriaMetrics
#   VICTORIA=FILE    the victoria-metrics program, when it is there already
set -euo pipefail
cd "$(dirname "$0")/../.."

b=$(realpath -m "${B:-build}")
runs=${RUNS:-5}
duration=${DURATION:-5s}
shapes=${SHAPES:-100 1000}
port=${PORT:-18428}
otlite=$b/otlite
bench=$b/otlite-bench
package="victoria-metrics"

fail() {
    echo "victoriametrics: $1" >&2
    exit 1
}

say() {
    echo "== $1" >&2
}

[ -x "$otlite" ] && [ -x "$bench" ] ||
    fail "$otlite and $bench are not both there; run make and make bench-bin"
command -v curl >/dev/null || fail "curl is needed to ask VictoriaMetrics what it stored"

dir=$(mktemp -d "${TMPDIR:-/tmp}/otlite-peer.XXXXXX")
pid=

stop() {
    [ -n "$pid" ] || return 0
    kill -TERM "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
    pid=
}
trap 'stop; rm -rf "$dir"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# --- the package ---

download() { # into $dir/deb
    (cd "$dir/deb" && apt-get -qq -o APT::Sandbox::User=root download "$package")
}

fetch() {
    local kept=$b/peers/$package
    victoria=$kept/usr/bin/victoria-metrics
    if [ ! -x "$victoria" ]; then
        command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
            fail "no apt-get here, and $package comes from Debian; set VICTORIA=FILE to a program that is there"
        [ "$(id -u)" = 0 ] ||
            fail "apt-get needs root for its list of packages; run this once as root, or set VICTORIA=FILE"
        say "fetching $package"
        mkdir -p "$dir/deb" "$kept"
        download || { apt-get -qq update && download; } ||
            fail "apt-get cannot fetch $package; is this Debian 12 with its main archive?"
        dpkg-deb -x "$dir"/deb/${package}_*.deb "$kept"
        dpkg-deb -f "$dir"/deb/${package}_*.deb Version >"$kept/version"
    fi
    version="$(cat "$kept/version") of Debian"
}

if [ -n "${VICTORIA:-}" ]; then
    victoria=$VICTORIA
    version="at $victoria"
else
    fetch
fi
[ -x "$victoria" ] || fail "$victoria cannot be run"

# --- numbers ---

field() { # NAME FILE: a number of the one-line JSON report
    sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" "$2"
}

median() {
    sort -g | awk '{ v[NR] = $1 } END { if (NR) print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

of_runs() { # NAME DAEMON SHAPE
    local run
    for run in $(seq "$runs"); do
        field "$1" "$dir/$2-$3.$run"
    done | median
}

divide() { # A B: nothing when B is 0 or either is not known
    awk -v a="$1" -v b="$2" 'BEGIN { if (a != "" && b > 0) printf "%.3f\n", a / b }'
}

bytes_in() { # DIR
    du -sb "$1" | cut -f 1
}

# What the script measures itself goes into the report beside what the load measured.
keep() { # FILE NAME VALUE
    sed -i "s/}\$/,\"$2\":$3}/" "$1"
}

# --- each daemon: its start, and what is there in the end ---

start_otlite() {
    "$otlite" serve --listen 127.0.0.1:0 --data "$dir/data" 2>"$dir/log" &
    pid=$!
    url=
    for _ in $(seq 400); do
        url=$(sed -n 's/.*msg=serving .*listen=\(127\.0\.0\.1:[0-9]*\).*/http:\/\/\1\/v1\/metrics/p' "$dir/log")
        [ -z "$url" ] || return 0
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.05
    done
    cat "$dir/log" >&2
    fail "otlite did not start"
}

# The log is moved into the file when the daemon ends.
stored_otlite() { # FILE
    stop
    keep "$1" stored "$("$otlite" sql --data "$dir/data" 'SELECT count(*) FROM number_point')"
    keep "$1" disk "$(bytes_in "$dir/data")"
}

start_victoria() {
    "$victoria" -httpListenAddr="127.0.0.1:$port" -storageDataPath="$dir/data" -retentionPeriod=1y \
        -memory.allowedPercent=60 -loggerLevel=WARN >"$dir/log" 2>&1 &
    pid=$!
    url=http://127.0.0.1:$port/write
    for _ in $(seq 400); do
        kill -0 "$pid" 2>/dev/null || break
        ! curl -sf -o /dev/null "http://127.0.0.1:$port/health" || return 0
        sleep 0.05
    done
    cat "$dir/log" >&2
    fail "VictoriaMetrics did not start; is port $port taken? (PORT=...)"
}

# Up to five seconds of points are in memory only, so flush before looking; then count what a query finds.
stored_victoria() { # FILE
    local answer stored
    curl -sf -o /dev/null "http://127.0.0.1:$port/internal/force_flush" ||
        fail "VictoriaMetrics does not flush"
    answer=$(curl -sf "http://127.0.0.1:$port/api/v1/query" --data-urlencode "nocache=1" \
        --data-urlencode "time=$(($(date +%s) + 1))" \
        --data-urlencode 'query=sum(count_over_time({__name__!=""}[1h]))') ||
        fail "VictoriaMetrics does not count what it stored"
    stored=$(sed -n 's/.*"value":\[[0-9.]*,"\([0-9]*\)"\].*/\1/p' <<<"$answer")
    keep "$1" stored "${stored:-0}"
    stop
    keep "$1" disk "$(bytes_in "$dir/data")"
}

measure() { # DAEMON SHAPE RUN
    local file=$dir/$1-$2.$3 encoding=proto
    [ "$1" = otlite ] || encoding=influx
    say "run $3 of $runs, $2 points a request: $1"
    rm -rf "$dir/data"
    "start_$1"
    # Long enough before the measured time for all series to be known.
    "$bench" load --url "$url" --pid "$pid" --json --encoding "$encoding" --points-per-request "$2" \
        --warmup 3s --duration "$duration" >"$file"
    "stored_$1" "$file"
    [ "$(field points_accepted "$file")" -gt 0 ] || fail "$1 took no points"
    [ "$(field stored "$file")" -ge "$(field points_accepted "$file")" ] ||
        fail "$1 took $(field points_accepted "$file") points and holds only $(field stored "$file")"
}

ratio() { # NAME SHAPE: otlite's over VictoriaMetrics', the median of the pairs
    local run
    for run in $(seq "$runs"); do
        divide "$(field "$1" "$dir/otlite-$2.$run")" "$(field "$1" "$dir/victoria-$2.$run")"
    done | median
}

report() {
    local shape daemon name durable
    for shape in $shapes; do
        for daemon in otlite victoria; do
            name=otlite durable=yes
            [ $daemon = otlite ] || name=VictoriaMetrics durable="no, up to 5 s later"
            printf '%s' "$name"
            printf '\t%s' "$shape" "$(of_runs points_per_second $daemon "$shape")" \
                "$(of_runs points_per_cpu_second $daemon "$shape")" "$(of_runs p99_ms $daemon "$shape")" \
                "$(divide "$(of_runs daemon_peak_bytes $daemon "$shape")" 1048576)" \
                "$(divide "$(of_runs disk $daemon "$shape")" "$(of_runs stored $daemon "$shape")")" "$durable"
            echo
        done
    done
    for shape in $shapes; do
        echo "# $shape points a request: otlite takes $(ratio points_per_second "$shape") times the points a second and $(ratio points_per_cpu_second "$shape") times the points a CPU second (goal: 2 times)."
    done
    echo "# VictoriaMetrics $version, -memory.allowedPercent=60; the generator on the same cores; medians of $runs pairs of runs of $duration. Bytes on disk after VictoriaMetrics' flush, which it goes on to merge later, and after otlite's end. Every answered point was found stored in both."
}

for run in $(seq "$runs"); do
    for shape in $shapes; do
        measure otlite "$shape" "$run"
        measure victoria "$shape" "$run"
    done
done
report | "$bench" table ${OUT:+--out "$OUT"} --name victoriametrics --title "Beside VictoriaMetrics" \
    --command "RUNS=$runs DURATION=$duration SHAPES='$shapes' bench/peers/victoriametrics.sh" \
    --column 'daemon:daemon:text' --column 'points_per_request:points a request:0' \
    --column 'points_per_second:points/s:0' --column 'points_per_cpu_second:points a CPU second:0' \
    --column 'p99_ms:p99, ms:1' --column 'memory_mib:memory, MiB:0' \
    --column 'bytes_per_point:bytes a point on disk:1' --column 'durable:durable at reply:text'
