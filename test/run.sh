#!/bin/sh
# Run every test: unit binaries, layer rules, end-to-end tests. Keeps going after a failure, and ends
# with one line, "N passed, N failed" (", N skipped" when there were any); exit 1 if anything failed.
#
#   B=build SAN= test/run.sh [unit] [lint] [e2e] [e2e/NAME.test.js ...]
#
# B is the build directory, SAN the sanitizers it was built with (the Makefile's variables). A file
# of test/e2e runs only that file.
set -u
cd "$(dirname "$0")/.." || exit 1

B=${B:-build}
SAN=${SAN:-}
passed=0
failed=0
skipped=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

steps=
files=
for arg in "$@"; do
    case "$arg" in
    unit | lint | e2e) steps="$steps $arg" ;;
    *.test.js) files="$files test/e2e/${arg##*/}" ;;
    *)
        echo "run.sh: '$arg' is neither unit, lint, e2e nor a test/e2e/*.test.js" >&2
        exit 64
        ;;
    esac
done
[ -n "$files" ] && case "$steps" in *e2e*) ;; *) steps="$steps e2e" ;; esac
[ -n "$steps" ] || steps="unit lint e2e"

fail() {
    failed=$((failed + 1))
    echo "FAILED $*"
}

# One cmocka binary: its TAP is counted, failures and what else it said are shown. A binary that
# ends badly without a failed case, or before its last case, has crashed: one failure.
run_unit() {
    name=$(basename "$1")
    CMOCKA_MESSAGE_OUTPUT=TAP timeout 900 "$1" >"$work/out" 2>"$work/err"
    rc=$?
    ok=$(grep -c '^ok [0-9]' "$work/out")
    skip=$(grep -c '^\(not \)\{0,1\}ok [0-9]* # SKIP' "$work/out")
    bad=$(grep '^not ok [0-9]' "$work/out" | grep -vc '# SKIP')
    # "ok N # SKIP" is counted as a skip, not as a pass.
    ok=$((ok - $(grep -c '^ok [0-9]* # SKIP' "$work/out")))
    plan=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' "$work/out" | awk '{ n += $1 } END { print n + 0 }')
    crash=0
    if [ $((ok + skip + bad)) -lt "$plan" ] || [ "$plan" -eq 0 ]; then
        crash=1
    elif [ "$rc" -ne 0 ] && [ "$bad" -eq 0 ]; then
        crash=1
    fi
    passed=$((passed + ok))
    skipped=$((skipped + skip))
    failed=$((failed + bad + crash))
    printf '%-28s %4d passed' "$name" "$ok"
    [ "$bad" -gt 0 ] && printf ', %d FAILED' "$bad"
    [ "$skip" -gt 0 ] && printf ', %d skipped' "$skip"
    [ "$crash" -gt 0 ] && printf ', CRASHED (exit %d, %d of %d cases)' "$rc" $((ok + skip + bad)) "$plan"
    echo
    if [ $((bad + crash)) -gt 0 ]; then
        # Each failed case with the lines that explain it.
        awk '/^not ok/ && !/# SKIP/ { show = 1 } /^ok/ || /# SKIP/ { show = 0 }
             show || /^# not ok/' "$work/out" | sed 's/^/    /'
        tail -n 60 "$work/err" | sed 's/^/    /'
    fi
}

unit() {
    echo "== unit tests ($B/test)"
    n=0
    for src in test/unit/test_*.c; do
        [ -e "$src" ] || break
        bin=$B/test/$(basename "$src" .c)
        n=$((n + 1))
        if [ -x "$bin" ]; then
            run_unit "$bin"
        else
            fail "$bin is not built; run make unit"
        fi
    done
    [ "$n" -gt 0 ] || fail "there are no unit tests in test/unit"
}

lint() {
    echo "== layer rules"
    if test/lint-deps.sh >"$work/out" 2>&1; then
        passed=$((passed + 1))
    else
        cat "$work/out"
        fail "test/lint-deps.sh"
    fi
}

e2e() {
    echo "== end-to-end tests"
    if ! command -v node >/dev/null 2>&1; then
        fail "node is not installed; run deploy/deps.sh test"
        return
    fi
    if [ ! -x "$B/otlite" ]; then
        fail "$B/otlite is not built; run make"
        return
    fi
    if ! test/e2e/install.sh; then
        fail "test/e2e/install.sh could not fetch the npm packages"
        return
    fi
    test/promql/install.sh || fail "test/promql/install.sh"
    # Two files at a time: most of them wait for a deadline now and then.
    jobs=
    node --help | grep -q -- --test-concurrency && jobs=--test-concurrency=2
    # shellcheck disable=SC2086
    OTLITE_BIN=$B/otlite OTLITE_SAN=$SAN node --test $jobs \
        --test-reporter=spec --test-reporter-destination=stdout \
        --test-reporter=tap --test-reporter-destination="$work/tap" \
        ${files:-test/e2e/*.test.js}
    rc=$?
    count() { sed -n "s/^# $1 \([0-9]*\)\$/\1/p" "$work/tap" 2>/dev/null | tail -n 1; }
    p=$(count pass)
    f=$(count fail)
    c=$(count cancelled)
    s=$(count skipped)
    t=$(count todo)
    bad=$((${f:-0} + ${c:-0}))
    passed=$((passed + ${p:-0}))
    skipped=$((skipped + ${s:-0} + ${t:-0}))
    failed=$((failed + bad))
    if [ -z "$p" ]; then
        fail "node --test ended with $rc and gave no summary"
    elif [ "$rc" -ne 0 ] && [ "$bad" -eq 0 ]; then
        fail "node --test ended with $rc"
    fi
}

for step in $steps; do
    $step
done

result="$passed passed, $failed failed"
[ "$skipped" -gt 0 ] && result="$result, $skipped skipped"
echo "$result"
[ "$failed" -eq 0 ]
