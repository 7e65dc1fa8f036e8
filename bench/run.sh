#!/bin/bash
# `make bench`: what docs/performance.md shows, measured here and put there.
#
#   bench/run.sh [short|full]
#
# short takes about ten minutes on two cores; full runs the references with their own times. All
# results go to OUT, a table each (JSON, Markdown, plot), and from there into PAGE. Daemons of its own, on
# free loopback ports, with data in a temporary directory; each ends by its pid.
#
#   B=build          where the binaries are
#   OUT=DIR          default B/bench/DATE
#   PAGE=FILE        default docs/performance.md; empty: no page
#   RUNS=5           runs of each case, of which the median counts
#   DURATION=3s      measured time of each run
#   PARTS='a b'      only these of: limits cases durability series memory reference reads promql storage maintain soak
#   READS='1M 100M'  points of reads; default 1M, with full 1M 10M 100M
#   SYSTEMS=otlite,in-process,duckdb,victoria,sqlite  that are asked; default otlite, with full all that can be had
#   PROMQL=1M        points of promql; default 1M, with full 100M
#   PROMQL_DATA=DIR  keeps them; default: made anew
#   CASES='a b'      only these cases (see `cases` below)
#   SETTINGS='...'   further arguments for otlite serve, as --set sqlite.checkpoint_pages=250
set -euo pipefail
cd "$(dirname "$0")/.."

form=${1:-short}
b=${B:-build}
out=${OUT:-$b/bench/$(date -u +%Y-%m-%dT%H%M%SZ)}
page=${PAGE-docs/performance.md}
runs=${RUNS:-5}
duration=${DURATION:-3s}
parts=${PARTS:-limits cases durability series memory reference reads promql storage maintain soak}
otlite=$b/otlite
bench=$b/otlite-bench
series=10000 # as `otlite-bench load` has them without options
services=10

case $form in
short | full) ;;
*)
    echo "usage: bench/run.sh [short|full]" >&2
    exit 64
    ;;
esac

broken=0

dir=$(mktemp -d "${TMPDIR:-/tmp}/otlite-bench.XXXXXX")
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

fail() {
    echo "bench: $1" >&2
    exit 1
}

say() {
    echo "== $1" >&2
}

wants() { # PART
    [[ " $parts " == *" $1 "* ]]
}

# --- a daemon, and a load on it ---

# Starts one with empty data; sets pid and port.
start() { # ARGUMENT...
    rm -rf "$dir/data"
    start_again "$@"
}

# The same with the data that is there. The port is in its "serving" line.
start_again() { # ARGUMENT...
    : >"$dir/log"
    # shellcheck disable=SC2086
    "$otlite" serve --listen 127.0.0.1:0 --data "$dir/data" ${SETTINGS:-} "$@" 2>"$dir/log" &
    pid=$!
    port=
    for _ in $(seq 400); do
        port=$(sed -n 's/.*msg=serving .*listen=127\.0\.0\.1:\([0-9]*\).*/\1/p' "$dir/log")
        [ -n "$port" ] && return
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.05
    done
    cat "$dir/log" >&2
    fail "the daemon did not start"
}

# One load on it, reported as JSON into FILE.
load() { # FILE ARGUMENT...
    local file=$1
    shift
    "$bench" load --url "http://127.0.0.1:$port/v1/metrics" --pid "$pid" --json "$@" >"$file"
}

field() { # NAME FILE: a number of the one-line JSON report
    sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" "$2"
}

median() {
    sort -g | awk '{ v[NR] = $1 } END { if (NR) print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

least() { sort -g | sed -n 1p; }
most() { sort -g | sed -n '$p'; }

calculate() { # EXPRESSION with NAME=VALUE...: empty when a value is
    local text=$1 assignments=() each
    shift
    for each in "$@"; do
        [ -n "${each#*=}" ] || return 0
        assignments+=(-v "$each")
    done
    awk "${assignments[@]}" "BEGIN { printf \"%.6g\", $text }"
}

# New series cost more than points of known ones, and that is a case of its own. So send all twice before, a
# service a request, each run twice as long as the one before. Sets `accepted`.
prime() { # ARGUMENT...
    local ms=250 got
    accepted=0
    for _ in 1 2 3 4 5; do
        load "$dir/prime" "$@" --connections "$services" --points-per-request $((series / services)) --rate max --warmup 0 \
            --duration "${ms}ms"
        got=$(field points_accepted "$dir/prime")
        accepted=$((accepted + got))
        [ "$got" -lt $((2 * series)) ] || break
        ms=$((2 * ms))
    done
}

# Every point that was answered 200 must be there.
check_stored() { # ACCEPTED LABEL
    local stored
    stored=$("$otlite" sql --data "$dir/data" "SELECT (SELECT count(*) FROM number_point)
        + (SELECT count(*) FROM histogram_point) + (SELECT count(*) FROM exponential_histogram_point)
        + (SELECT count(*) FROM summary_point)")
    [ "$stored" -ge "$1" ] || fail "$2: $1 points were answered 200 and only $stored are stored"
}

# A fresh daemon, all series known, one measured run, every answered point counted.
measure() { # FILE SERVE-ARGUMENTS LOAD-ARGUMENT...
    local file=$1 settings=$2
    shift 2
    # shellcheck disable=SC2086
    start $settings
    prime "$@"
    load "$file" --duration "$duration" --warmup 500ms "$@"
    check_stored $((accepted + $(field points_accepted "$file"))) "$(basename "$file")"
    stop
}

of_runs() { # NAME CASE: that number of every run
    local run
    for run in $(seq "$runs"); do
        field "$1" "$dir/$2.$run"
    done
}

# --- the parts ---

# name and the arguments of its load
cases() {
    cat <<'CASES'
proto-100     --points-per-request 100 --connections 32
proto-100-few --points-per-request 100 --connections 8
gzip-100      --points-per-request 100 --connections 32 --gzip
json-100      --points-per-request 100 --connections 32 --encoding json
proto-1000    --points-per-request 1000
proto-8000    --points-per-request 8000
mix-100       --points-per-request 100 --connections 32 --metric-mix all
rate-1000     --points-per-request 100 --rate 1000
CASES
}

chosen_cases() {
    cases | while read -r name arguments; do
        [ -z "${CASES:-}" ] || [[ " $CASES " == *" $name "* ]] || continue
        echo "$name $arguments"
    done
}

run_cases() {
    local run name arguments
    for run in $(seq "$runs"); do # in turns: what else the machine does hits all cases alike
        while read -r name arguments; do
            say "cases, run $run of $runs: $name"
            # shellcheck disable=SC2086
            measure "$dir/$name.$run" "" $arguments
        done < <(chosen_cases)
    done
    {
        chosen_cases | while read -r name arguments; do
            printf '%s' "$name"
            printf '\t%s' "$(of_runs points_per_second "$name" | median)" \
                "$(of_runs points_per_second "$name" | least)" \
                "$(of_runs points_per_second "$name" | most)"
            for column in p50_ms p90_ms p99_ms max_ms points_per_cpu_second; do
                printf '\t%s' "$(of_runs "$column" "$name" | median)"
            done
            printf '\t%s' "$(calculate 'b / 1048576' b="$(of_runs daemon_peak_bytes "$name" | median)")" \
                "$(calculate 'g / s' g="$(of_runs generator_cpu_seconds "$name" | median)" \
                    s="$(of_runs seconds "$name" | median)")"
            printf '\t%s' "$(of_runs lost "$name" | most)" "$(of_runs unsent "$name" | most)"
            echo
        done
        echo "# Medians of $runs runs of $duration, each with a fresh daemon that knows the series already; lost and unsent: the most of any run. Every answered point was found stored."
    } | "$bench" table --out "$out" --name cases --title "Load" \
        --command "PARTS=cases RUNS=$runs DURATION=$duration bench/run.sh" \
        --column 'case:case:text' --column 'points_per_second:points/s:0' --column 'least:least:0' \
        --column 'most:most:0' --column 'p50_ms:p50, ms:2' --column 'p90_ms:p90, ms:2' \
        --column 'p99_ms:p99, ms:2' --column 'max_ms:max, ms:1' \
        --column 'points_per_cpu_second:points a CPU second:0' --column 'memory_mib:memory, MiB:0' \
        --column 'generator_cores:generator, cores:2' --column 'lost:lost:0' --column 'unsent:unsent:0'
}

run_durability() {
    local run mode ratio
    for run in $(seq "$runs"); do
        for mode in normal full; do
            say "durability, run $run of $runs: $mode"
            measure "$dir/durability-$mode.$run" "--set sqlite.durability=$mode" --points-per-request 100 --connections 32
        done
        calculate '100 * f / n' f="$(field points_per_second "$dir/durability-full.$run")" \
            n="$(field points_per_second "$dir/durability-normal.$run")"
        echo
    done >"$dir/ratios"
    ratio=$(median <"$dir/ratios")
    {
        for mode in normal full; do
            printf '%s' "$mode"
            for column in points_per_second p50_ms p99_ms points_per_cpu_second; do
                printf '\t%s' "$(of_runs "$column" "durability-$mode" | median)"
            done
            if [ $mode = full ]; then printf '\t%s\n' "$ratio"; else printf '\t100\n'; fi
        done
        echo "# proto-100, medians of $runs pairs of runs of $duration one after the other; the share is the median of the pairs'."
    } | "$bench" table --out "$out" --name durability --title "Durability" \
        --command "PARTS=durability RUNS=$runs DURATION=$duration bench/run.sh" \
        --column 'durability:sqlite.durability:text' --column 'points_per_second:points/s:0' \
        --column 'p50_ms:p50, ms:2' --column 'p99_ms:p99, ms:2' \
        --column 'points_per_cpu_second:points a CPU second:0' --column 'share_percent:share of normal, %:0'
}

count() { # SQL
    "$otlite" sql --data "$dir/data" "$1"
}

# Series that nobody has sent before, each point of another one: first as fast as they are taken, then a
# million at the rate of the goal. More are made ready than can be sent, so that none comes twice; the
# counts say whether that held.
run_series() {
    local name arguments file
    while read -r name arguments; do
        say "series: $name"
        file=$dir/series-${name%/s}
        start
        # shellcheck disable=SC2086
        load "$file" --warmup 0 --points-per-request 100 $arguments
        check_stored "$(field points_accepted "$file")" "series-$name"
        printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$name" \
            "$(field points_per_second "$file")" "$(field p99_ms "$file")" \
            "$(count 'SELECT count(*) FROM series')" "$(count 'SELECT count(*) FROM number_point')" \
            "$(calculate 'b / 1048576' b="$(field daemon_peak_bytes "$file")")" \
            "$(field lost "$file")" "$(field unsent "$file")"
        stop
    done <<'SERIES' >"$dir/series-rows"
max       --series 2000000 --rate max --duration 3s --connections 32
150k/s    --series 2000000 --rate 1500 --duration 6667ms --connections 32
SERIES
    {
        cat "$dir/series-rows"
        echo "# One run each. Where series and points are equal, every series came once."
    } | "$bench" table --out "$out" --name series --title "Series that arrive once" \
        --command "PARTS=series bench/run.sh" \
        --column 'offered:offered:text' --column 'points_per_second:points/s:0' \
        --column 'p99_ms:p99, ms:1' --column 'series:series stored:0' --column 'points:points stored:0' \
        --column 'memory_mib:memory, MiB:0' --column 'lost:lost:0' --column 'unsent:unsent:0'
}

status_mib() { # KEY: of the daemon's /proc/PID/status
    awk -v key="$1:" '$1 == key { printf "%.1f", $2 / 1024 }' "/proc/$pid/status"
}

# Beyond SQLite's cache: with as little of it as the settings allow, most of what is left is ours. The file
# is mapped as well, and its pages count as resident but can be dropped at any time: so without the map.
run_memory() {
    local label settings idle
    while IFS=: read -r label settings; do
        say "memory: $label"
        # shellcheck disable=SC2086
        start $settings
        prime --points-per-request 100
        stop
        # shellcheck disable=SC2086
        start_again $settings
        sleep 1
        idle=$(status_mib VmRSS)
        load "$dir/memory" --duration "$duration" --warmup 500ms --points-per-request 100
        check_stored $((accepted + $(field points_accepted "$dir/memory"))) memory
        printf '%s\t%s\t%s\t%s\t%s\n' "$label" "$idle" "$(field points_per_second "$dir/memory")" \
            "$(status_mib VmHWM)" "$(status_mib RssAnon)"
        stop
    done <<'MEMORY' >"$dir/memory-rows"
default:
cache 1 MiB, no map:--set sqlite.cache_size=1M --set sqlite.mmap_size=0
MEMORY
    {
        cat "$dir/memory-rows"
        echo "# proto-100 as fast as answers come, one run of $duration; idle is one second after a start with the 10,000 series, before any request. Resident memory counts pages of the mapped file too."
    } | "$bench" table --out "$out" --name memory --title "Memory" \
        --command "PARTS=memory DURATION=$duration bench/run.sh" \
        --column 'settings:sqlite settings:text' --column 'idle_mib:idle, MiB:1' \
        --column 'points_per_second:at points/s:0' --column 'peak_mib:most resident, MiB:0' \
        --column 'heap_mib:of that at the end not of files, MiB:0'
}

# With their own settings, or so short that they fit into ten minutes. Status 1 says that a promise did not
# hold; then the rest is measured all the same, and the end is a failure.
reference() { # NAME-OF-COMMAND... OPTIONS-OF-THE-SHORT-FORM
    local status=0 words=()
    while [ $# -gt 0 ] && [ "$1" != : ]; do
        words+=("$1")
        shift
    done
    shift
    [ "$form" = full ] || words+=("$@")
    say "${words[*]}"
    "$bench" "${words[@]}" --out "$out" || status=$?
    [ "$status" -le 1 ] || exit "$status"
    [ "$status" = 0 ] || broken=1
}

run_reference() {
    reference reference r1 : --step 3s
    reference reference r3 : --requests 20000
    reference reference r4 : --step 200ms
    reference reference r5 : --step 3s
    reference overload : --step 3s
}

# --- promql: the same points in each system, and the same PromQL ---

run_promql() {
    local points=1M prometheus
    if [ "$form" = full ]; then
        points=100M
        B=$b bench/peers/install.sh
    fi
    prometheus=$(command -v prometheus || echo build/oracle/usr/bin/prometheus)
    points=${PROMQL:-$points}
    say "PromQL of $points"
    PROMETHEUS=$prometheus "$bench" promql --points "$points" --runs "$runs" --peers "$b/peers" \
        ${PROMQL_DATA:+--data "$PROMQL_DATA"} --out "$out" || broken=1
}

# --- reads: the same points in each system, and what dashboards ask ---

run_reads() {
    local points amounts=1M systems=otlite
    if [ "$form" = full ]; then
        amounts='1M 10M 100M' systems=otlite,in-process,duckdb,victoria,sqlite
        B=$b bench/peers/install.sh
    fi
    for points in ${READS:-$amounts}; do
        say "reads of $points"
        "$bench" reads --points "$points" --runs "$runs" --systems "${SYSTEMS:-$systems}" \
            --peers "$b/peers" --out "$out" || broken=1
    done
}

# --- storage: bytes a point, and starts ---

run_storage() {
    local points=8000000 many=100000
    if [ "$form" = full ]; then
        points=80000000 many=1000000
        B=$b bench/peers/install.sh
    fi
    say storage
    "$bench" storage --points "$points" --many-series "$many" --peers "$b/peers" --out "$out" || broken=1
}

# --- maintain and soak ---

run_maintain() {
    reference maintain : --step 3s --rounds 2
}

run_soak() {
    reference soak : --duration 2m
}

# --- the goals of issue 3, from the results in OUT ---

# A number of the row whose first column is KEY. result.c writes a row a line.
cell() { # NAME KEY COLUMN
    [ -f "$out/$1.json" ] || return 0
    sed -n "s|^{\"[a-z_]*\":\"$2\",.*\"$3\":\([-0-9.e+]*\)[,}].*|\1|p" "$out/$1.json" | sed -n 1p
}

thousands() { # NUMBER: whole
    sed -E ':a; s/([0-9])([0-9]{3})($|,)/\1,\2\3/; ta' <<<"$1"
}

goal() { # WHAT at-least|below GOAL UNIT OURS
    local verdict='not measured'
    if [ -n "$5" ]; then
        verdict=$(awk -v o="$5" -v g="$3" -v how="$2" \
            'BEGIN { print (how == "below" ? o < g : o >= g) ? "met" : "not met" }')
    fi
    printf '%s\t%s %s\t%s\t%s\t%s\n' "$1" "${2/-/ }" "$(thousands "$3")" "$5" "$4" "$verdict"
}

# What a reference measured for its goal WHAT, which it notes below its table.
noted() { # WHAT
    grep -ho "Goal: $1 [^;]*; measured [^:]*:" "$out"/*.json 2>/dev/null |
        sed -n 's/.*measured \([-0-9.e+]*\):$/\1/p' | sed -n 1p
}

# The share that limits notes of its slowest stage.
slowest_share() {
    [ -f "$out/limits.json" ] || return 0
    sed -n 's/.*reaches \([0-9]*\) % of it.*/\1/p' "$out/limits.json" | sed -n 1p
}

# Nothing when the daemon was too slow to be sent so many in the time.
memory_of_a_million() {
    local stored
    stored=$(cell series '150k/s' series)
    [ "${stored%.*}" -lt 990000 ] 2>/dev/null || cell series '150k/s' memory_mib
}

write_goals() {
    {
        goal "R1 SDK-shaped, 100 points a request" at-least 1000000 points/s \
            "$(noted 'R1 SDK-shaped, clean, points/s')"
        goal "R1 best payload" at-least 2500000 points/s "$(noted 'R1 best payload, points/s')"
        goal "R1 large payload, 16,000 points at 5 requests/s: p99" below 60 ms \
            "$(noted 'R1 large payload, p99 in ms')"
        goal "points a CPU second of the daemon, 100 a request" at-least 800000 "a CPU second" \
            "$(cell cases proto-100 points_per_cpu_second)"
        goal "share of the slowest stage alone" at-least 80 % "$(slowest_share)"
        goal "durability full against normal" at-least 80 % "$(cell durability full share_percent)"
        goal "5 times overload: stored, of the peak" at-least 95 % \
            "$(calculate '100 * s' s="$(noted 'Overload: stored, share of the peak')")"
        goal "gzip bodies" at-least 600000 points/s "$(cell cases gzip-100 points_per_second)"
        goal "JSON bodies" at-least 150000 points/s "$(cell cases json-100 points_per_second)"
        goal "all five types mixed, with exemplars" at-least 400000 points/s \
            "$(cell cases mix-100 points_per_second)"
        goal "memory at full rate, beyond SQLite's cache and map" below 300 MiB \
            "$(cell memory 'cache 1 MiB, no map' peak_mib)"
        goal "memory idle with 10,000 series, likewise" below 20 MiB \
            "$(cell memory 'cache 1 MiB, no map' idle_mib)"
        goal "new series, each arriving once" at-least 150000 points/s "$(cell series max points_per_second)"
        goal "memory with 1 M of them" below 1536 MiB "$(memory_of_a_million)"
    } | "$bench" table --out "$out" --name issue-goals --title "Goals" --command "bench/run.sh $form" \
        --column 'what:what:text' --column 'goal:goal:text' --column 'measured:measured:0' \
        --column 'unit:unit:text' --column 'verdict:verdict:text'
}

mkdir -p "$out"
if wants limits; then
    say limits
    "$bench" limits --out "$out" --duration 500ms --rounds "$runs"
fi
! wants cases || run_cases
! wants durability || run_durability
! wants series || run_series
! wants memory || run_memory
! wants reference || run_reference
! wants reads || run_reads
! wants promql || run_promql
! wants storage || run_storage
! wants maintain || run_maintain
! wants soak || run_soak
write_goals
[ -z "$page" ] || bench/report.sh "$out" "$page"
say "results: $out"
[ "$broken" = 0 ] || fail "a reference found a promise broken, an answer of reads was wrong, or points were missing; see above"
